"""What a recording leaves out, as far as it changes times between records."""

from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.once import once
from ggscope.model.trace import Trace

_HIDES_GRAPHS = (
    Cause.SAMPLED,
    Cause.SWITCHED_OFF,
    Cause.GRAPHS_SKIPPED,
    Cause.EVENTS_LOST,
    Cause.RECORDS_LOST,
    Cause.DAMAGED,
)
_SHIFTS_TOKENS = (*_HIDES_GRAPHS, Cause.STARTED_LATE, Cause.PART_READ)
_HIDES_END = (Cause.FILE_CUT, Cause.LIMITED, Cause.STILL_RUNNING)
HIDES_OPS = (
    Cause.OPS_FILTERED,
    Cause.LAYERS_FILTERED,
    Cause.OP_TIMING_OFF,
    Cause.FILTERS_CHANGED,
    Cause.LIMITED,
    Cause.RECORDS_LOST,
    Cause.DAMAGED,
    Cause.OPS_NOT_SEEN,
    Cause.OPS_NOT_RECORDED,
    Cause.GRAPHS_WHOLE,
)
"""Reasons for which ops of recorded graphs may be missing."""


@once
def hidden_graphs(trace: Trace) -> str:
    """Return why graphs between others may be missing; "" where no reason is known.

    Then time without a record need not be idle time.
    """
    return _reason(trace, _HIDES_GRAPHS)


@once
def hidden_tokens(trace: Trace) -> str:
    """Return why tokens may be missing, also at the ends; "" where none is known."""
    return _reason(trace, (*_SHIFTS_TOKENS, *_HIDES_END))


@once
def shifted_tokens(trace: Trace) -> str:
    """Return why the n-th recorded token need not be the n-th that was computed."""
    return _reason(trace, _SHIFTS_TOKENS)


@once
def hidden_ops(trace: Trace) -> str:
    """Return why ops of recorded graphs may be missing; "" where none is known."""
    return _reason(trace, HIDES_OPS)


@once
def hidden_threads(trace: Trace) -> str:
    """Return why threads may be missing; "" where no reason is known."""
    return _reason(trace, (Cause.THREADS_FILTERED, Cause.FILTERS_CHANGED))


def _reason(trace: Trace, causes: tuple[Cause, ...]) -> str:
    omissions = trace_coverage(trace).of(*causes)
    if not omissions:
        return ""
    names = ", ".join(o.cause.value.replace("_", " ") for o in omissions)
    return f"part of the run is not recorded ({names})"
