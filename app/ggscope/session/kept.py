"""What becomes of a trace whose reading ended before its end."""

from dataclasses import replace

from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count


def kept_of_stopped(trace: Trace, n_records: int = 0) -> Trace:
    """Return what was read when a person stopped the reading, and a note of it.

    Nothing is pending any more; `read_until` still says how far the spans go.

    Parameters
    ----------
    n_records : of the whole file, about, where that is known; else 0.
    """
    total = max(n_records, trace.info.n_records)
    n = n_records_read(trace, total)
    if not trace.is_partial:
        missing = ", ".join(sorted(trace.pending))
        message = f"Reading was stopped after the spans; {missing} are incomplete."
    elif n < total:
        message = (
            f"Reading was stopped at {format_count(n)} of {format_count(total)} "
            "records; what follows is not shown."
        )
    else:
        message = f"Reading was stopped after {format_count(n)} records."
    return _with(
        trace,
        ReadWarning(
            Severity.NOTICE,
            "reading_stopped",
            message,
            remedy="Reload reads the rest.",
        ),
    )


def kept_of_failed(trace: Trace, message: str) -> Trace:
    """Return what was read before reading failed, and a note of it."""
    n = format_count(n_records_read(trace))
    return _with(
        trace,
        ReadWarning(
            Severity.DATA_LOSS,
            "reading_failed",
            f"Reading failed after {n} records, which are shown: {message}",
            remedy="Reload reads the file from its beginning.",
        ),
    )


def n_records_read(trace: Trace, n_records: int = 0) -> int:
    """Return how many records a snapshot was made of, about.

    Readers count in `info` what they have read so far; where they name the whole
    file there, the spans tell. `n_records` : of the whole file, 0 = not known.
    """
    named = trace.info.n_records
    if named and (not trace.is_partial or named < n_records):
        return named
    record = trace.spans.record
    if record is None or not len(record):
        return len(trace.spans)
    return int(record.max()) + 1


def _with(trace: Trace, warning: ReadWarning) -> Trace:
    warnings = sorted((*trace.warnings, warning), key=lambda w: -w.severity)
    return replace(
        trace,
        pending=frozenset(),
        warnings=tuple(warnings),
        generation=trace.generation + 1,
    )


__all__ = ["kept_of_failed", "kept_of_stopped", "n_records_read"]
