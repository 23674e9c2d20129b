"""Origin of accessed bytes, disk or page cache, from samples of a running program.

The evidence is the samples of the page cache before and after an access: see `Origin`.
"""

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from ggscope.model.residency import Residency
from ggscope.model.tables import Space
from ggscope.model.trace import Trace

_PART_OPS = ("GET_ROWS", "MUL_MAT_ID", "ADD_ID")
"""Ops that read some rows or experts of a tensor, and not all of it."""
_LOOK_BACK = 1 << 20
"""Spans before the access among which earlier readers are looked for."""
_PIECE = 1 << 16


class Origin(Enum):
    """Origin of the bytes, or why it is unknown."""

    DISK = auto()
    """Not all in memory before, more of it afterwards, and the process read."""
    MEMORY = auto()
    """All in memory before and after."""
    COPIED = auto()
    """Read at an address where no model file is mapped."""
    NOT_TOLD = auto()
    """The system does not state what is in memory."""
    NO_SAMPLE_BEFORE = auto()
    """The first sample came later."""
    NO_SAMPLE_AFTER = auto()
    """No sample came since."""
    LEFT = auto()
    """Some of it left the memory meanwhile."""
    UNCHANGED = auto()
    """No more of it in memory afterwards."""
    PART = auto()
    """A part was read, and a part of the tensor was in memory."""
    EARLIER = auto()
    """Another op had read it since the sample before."""
    NOBODY = auto()
    """The process read nothing from storage meanwhile."""
    NO_FIGURES = auto()
    """What the process read is not known."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Page-cache samples around an access, and the origin that they imply.

    Attributes
    ----------
    before, after : samples; -1 none.
    size : bytes of the tensor.
    held_before, held_after : of these, in memory; -1 not known.
    read_bytes, major_faults : of the process between both samples; -1 not known.
    """

    origin: Origin
    before: int = -1
    after: int = -1
    size: int = -1
    held_before: int = -1
    held_after: int = -1
    read_bytes: int = -1
    major_faults: int = -1


def evidence(trace: Trace, span: int, row: int) -> Evidence | None:
    """Return the origin of an access's bytes; None without samples.

    Parameters
    ----------
    row : of the accesses of `span`, in their order.

    Notes
    -----
    Looks through at most a million spans before this one.
    """
    residency, what = trace.residency, trace.accesses.of_span(span)
    if residency is None or int(what.space[row]) != Space.FILE:
        return None
    tensor = int(what.tensor[row])
    column = residency.column_of(tensor)
    if column < 0:
        return None
    if not residency.is_mapped(int(what.address[row])):
        return Evidence(Origin.COPIED)
    start, end = int(trace.spans.start[span]), int(trace.spans.end[span])
    before = int(np.searchsorted(residency.end, start, "right")) - 1
    after = int(np.searchsorted(residency.begin, end, "left"))
    after = after if after < len(residency) else -1
    size = int(trace.tensors.size[tensor])
    held_before = residency.bytes_at(before, column) if before >= 0 else -1
    held_after = residency.bytes_at(after, column) if after >= 0 else -1
    read, faults = _between(residency, before, after)
    is_part = trace.op_name(int(trace.spans.op[span])) in _PART_OPS
    is_part = is_part or 0 <= int(what.size[row]) < size
    if before < 0:
        origin = Origin.NO_SAMPLE_BEFORE
    elif after < 0:
        origin = Origin.NO_SAMPLE_AFTER
    elif min(held_before, held_after) < 0:
        origin = Origin.NOT_TOLD
    elif held_before == held_after == size:
        origin = Origin.MEMORY
    elif held_after < held_before:
        origin = Origin.LEFT
    elif held_after == held_before:
        origin = Origin.UNCHANGED
    elif is_part and held_before:
        origin = Origin.PART
    elif max(read, faults) < 0:
        origin = Origin.NO_FIGURES
    elif max(read, faults) == 0:
        origin = Origin.NOBODY
    elif _was_read(trace, span, tensor, int(residency.begin[before])):
        origin = Origin.EARLIER
    else:
        origin = Origin.DISK
    return Evidence(origin, before, after, size, held_before, held_after, read, faults)


def _between(residency: Residency, before: int, after: int) -> tuple[int, int]:
    """Return what the process read between two samples, and its major faults."""
    if min(before, after) < 0:
        return -1, -1
    first, second = (
        int(column[after]) - int(column[before])
        if min(int(column[after]), int(column[before])) >= 0
        else -1
        for column in (residency.read_bytes, residency.major_faults)
    )
    return max(first, -1), max(second, -1)


def _was_read(trace: Trace, span: int, tensor: int, since: int) -> bool:
    """Return whether an op read the tensor between `since` and the begin of `span`.

    `since` is when the sample began, for an op may read after its pages were looked at.
    True also where that is too far back to be found. Other threads' spans of the same
    op run at the same time: they have not ended when this one begins, or they begin
    as it does.
    """
    rows = np.flatnonzero(trace.accesses.patterns.tensor == tensor)
    patterns = np.unique(np.searchsorted(trace.accesses.first, rows, "right") - 1)
    spans, start = trace.spans, int(trace.spans.start[span])
    lane = int(spans.lane[span])
    for stop in range(span, max(span - _LOOK_BACK, 0), -_PIECE):
        piece = slice(max(stop - _PIECE, 0), stop)
        begins, ends = spans.start[piece], spans.end[piece]
        # The spans of a lane come in order: those of this one stand for all.
        mine = spans.lane[piece] == lane
        earlier = mine & (ends > since) & (ends <= start)
        if np.isin(trace.accesses.pattern[piece][earlier], patterns).any():
            return True
        if bool((mine & (begins < since)).any()):
            return False
    return span > _LOOK_BACK
