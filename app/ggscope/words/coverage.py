"""What a trace leaves out, as JSON and in words."""

from ggscope.analysis.completeness.coverage import Cause, Omission, TraceCoverage
from ggscope.model.units import format_count

_TEXTS: dict[Cause, str] = {
    Cause.OPS_FILTERED: "ops filtered",
    Cause.LAYERS_FILTERED: "layers filtered",
    Cause.THREADS_FILTERED: "threads filtered",
    Cause.OP_TIMING_OFF: "graphs only, op timing was off",
    Cause.NAMES_OFF: "tensor names left out",
    Cause.SAMPLED: "graphs sampled",
    Cause.SWITCHED_OFF: "tracing switched off for a time",
    Cause.FILTERS_CHANGED: "filters changed while it ran",
    Cause.LIMITED: "limit of records reached",
    Cause.RECORDS_LOST: "records lost",
    Cause.EVENTS_LOST: "events lost",
    Cause.DEFINITIONS_LOST: "definitions lost",
    Cause.OPS_NOT_SEEN: "ops not seen by the tracer",
    Cause.DAMAGED: "data damaged",
    Cause.FILE_CUT: "file cut",
    Cause.KILLED: "program killed",
    Cause.STILL_RUNNING: "program still running",
    Cause.STARTED_LATE: "recording started late",
    Cause.OPS_NOT_RECORDED: "some ops only are recorded",
    Cause.SOURCES_CUT: "further sources of ops are not recorded",
    Cause.ACCESSES_UNPLACED: "accesses to weights without a place in the file",
    Cause.PART_READ: "part of the records was read",
    Cause.PART_SHOWN: "part of the trace",
}


def coverage_json(coverage: TraceCoverage) -> dict[str, object]:
    """Return the value of ``coverage`` in every ``--json``.

    ``whole`` is None where the trace does not state what its tracer left out;
    ``may_hide_reads`` says that absence of a read proves nothing.
    """
    return {
        "whole": coverage.is_whole,
        "stated": coverage.is_stated,
        "may_hide_reads": coverage.may_hide_reads,
        "omissions": [
            {
                "cause": omission.cause.value,
                "count": omission.count,
                "detail": omission.detail,
                "located": omission.is_located,
                "hides_reads": omission.hides_reads,
                "words": omission_words(omission),
            }
            for omission in coverage.omissions
        ],
    }


def coverage_words(coverage: TraceCoverage) -> str:
    """Return "ops filtered (MUL_MAT); records lost (20,692)"; "" for no omission."""
    return "; ".join(map(omission_words, coverage.omissions))


def omission_words(omission: Omission) -> str:
    """Return "layers filtered (0-3)"."""
    parts = [omission.detail] if omission.detail else []
    if omission.count is not None:
        is_part = omission.cause is Cause.PART_READ
        parts.append(format_count(omission.count) + (" left out" if is_part else ""))
    text = _TEXTS[omission.cause]
    return f"{text} ({', '.join(parts)})" if parts else text
