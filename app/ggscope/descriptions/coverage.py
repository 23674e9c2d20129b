"""What a trace leaves out, as JSON and as text."""

from ggscope.analysis.completeness.coverage import Cause, Omission, TraceCoverage
from ggscope.model.units import format_count

_TEXTS: dict[Cause, str] = {
    Cause.OPS_FILTERED: "ops filtered",
    Cause.LAYERS_FILTERED: "layers filtered",
    Cause.THREADS_FILTERED: "threads filtered",
    Cause.OP_TIMING_OFF: "graphs only, op timing was off",
    Cause.NAMES_OFF: "tensor names left out",
    Cause.BUFFERS_OFF: "buffers left out",
    Cause.SAMPLED: "graphs sampled",
    Cause.SWITCHED_OFF: "tracing switched off for a time",
    Cause.FILTERS_CHANGED: "filters changed while it ran",
    Cause.LIMITED: "limit of records reached",
    Cause.GRAPHS_SKIPPED: "graphs not traced",
    Cause.RECORDS_LOST: "records lost",
    Cause.EVENTS_LOST: "events lost",
    Cause.DEFINITIONS_LOST: "definitions lost",
    Cause.OPS_NOT_SEEN: "ops not seen by the tracer",
    Cause.DAMAGED: "data damaged",
    Cause.FILE_CUT: "file cut",
    Cause.KILLED: "program killed",
    Cause.STILL_RUNNING: "program still running",
    Cause.STARTED_LATE: "recording started late",
    Cause.OPS_NOT_RECORDED: "only some ops recorded",
    Cause.GRAPHS_WHOLE: "graphs recorded as a whole, without their ops",
    Cause.SOURCES_CUT: "further sources of ops not recorded",
    Cause.ACCESSES_UNPLACED: "accesses to weights with unknown file offset",
    Cause.PART_READ: "only part of the records read",
    Cause.PART_SHOWN: "part of the trace",
}
_FORMS: dict[Cause, tuple[str, str]] = {
    Cause.OPS_FILTERED: ("only ops {}", " ({} record{} left out)"),
    Cause.LAYERS_FILTERED: ("only layers {}", " ({} record{} left out)"),
    Cause.THREADS_FILTERED: ("only threads {}", " ({} record{} left out)"),
    Cause.OP_TIMING_OFF: ("graphs only, {}", " ({} record{} left out)"),
    Cause.SAMPLED: ("only {} graphs", " ({} graph{} left out)"),
    Cause.SWITCHED_OFF: ("tracing switched off for a time", " ({} graph{} left out)"),
    Cause.LIMITED: ("stopped after {}", " ({} record{} left out)"),
    Cause.KILLED: ("program ended {}", " ({} graph{} not finished)"),
    Cause.GRAPHS_WHOLE: ("graphs of {} as a whole, without their ops", " ({} graph{})"),
}
"""Texts of causes with a detail, and of what is counted."""
_STATED = (
    Cause.OPS_FILTERED, Cause.LAYERS_FILTERED, Cause.THREADS_FILTERED,
    Cause.OP_TIMING_OFF, Cause.NAMES_OFF, Cause.BUFFERS_OFF, Cause.SAMPLED,
    Cause.SWITCHED_OFF, Cause.FILTERS_CHANGED, Cause.LIMITED, Cause.GRAPHS_SKIPPED,
    Cause.KILLED, Cause.GRAPHS_WHOLE,
)  # fmt: skip
"""Causes that no other problem of a trace reports."""


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
                "words": omission_text(omission),
            }
            for omission in coverage.omissions
        ],
    }


def coverage_text(coverage: TraceCoverage) -> str:
    """Return "ops filtered (MUL_MAT); records lost (20,692)"; "" for no omission."""
    return "; ".join(map(omission_text, coverage.omissions))


def left_out_text(coverage: TraceCoverage) -> str:
    """Return what the trace as a whole leaves out; "" for nothing.

    Without what is stated op by op or tensor by tensor, and what a view leaves out.
    """
    return "; ".join(
        omission_text(omission)
        for omission in coverage.omissions
        if not omission.is_located and omission.cause is not Cause.PART_SHOWN
    )


def stated_text(coverage: TraceCoverage) -> str:
    """Return what a recording states that it leaves out; "" for nothing."""
    return "; ".join(map(omission_text, coverage.of(*_STATED)))


def omission_text(omission: Omission) -> str:
    """Return "only layers 0-3 (3,780 records left out)"."""
    cause, detail, count = omission.cause, omission.detail, omission.count
    n = None if count is None else format_count(count)
    if cause in _FORMS and detail:
        text, what = _FORMS[cause]
        if cause is Cause.OPS_FILTERED and detail.startswith("!"):
            text, detail = "all ops but {}", detail.replace("!", "")
        left_out = what.format(n, "" if count == 1 else "s") if n else ""
        return f"{text.format(detail)}{left_out}"
    parts = [detail] if detail else []
    if n is not None:
        parts.append(n + (" left out" if cause is Cause.PART_READ else ""))
    text = _TEXTS[cause]
    return f"{text} ({', '.join(parts)})" if parts else text
