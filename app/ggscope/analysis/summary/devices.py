"""What the streams of a device do: work, overlap of copies and kernels, idle time.

A stream is idle between two of its spans. Where it is known which call of a program
launched the later one, that says what the stream waited for: for the program to make
the call, or for the call to reach the device.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.statistics.nesting import covered
from ggscope.analysis.workers import add_by_group
from ggscope.model.tables import I64, Quality, distinct, quality_of
from ggscope.model.trace import Trace, lane_titles

KERNELS = frozenset({"kernel", "kernel_dispatch"})
COPIES = frozenset({"gpu_memcpy", "memory_copy"})
FILLS = frozenset({"gpu_memset"})


@dataclass(frozen=True, slots=True)
class StreamTimes:
    """Times of a stream, in ticks.

    Attributes
    ----------
    lane : id; `name` is its title.
    n_spans, busy : its spans, and the time in which one ran.
    n_gaps, idle : gaps between spans, and their time.
    host : of `idle`, until the call that launched what follows.
    launch : from that call to the begin of what it launched.
    other : in gaps that began when what follows was launched already, or whose call
        is not recorded; `unknown` is the part without a recorded call.
    """

    lane: int
    name: str
    n_spans: int
    busy: int
    n_gaps: int
    idle: int
    host: int
    launch: int
    other: int
    unknown: int

    @property
    def has_calls(self) -> bool:
        """Whether a call of what follows a gap is recorded, of any gap."""
        return self.unknown < self.idle


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Times of a device, in ticks.

    Attributes
    ----------
    name : of the group of its streams; "" = they are in none.
    time : from the first begin to the last end of its spans.
    busy : in which any span ran.
    n_kernels, kernels : kernels, and the time in which one ran.
    n_copies, copies : likewise of copies.
    overlap : in which both ran.
    top_kernel : the kernel of most time, and its share of the time of all kernels,
        where several at a time count each; None without kernels.
    launch_delay : median from a call's begin to that of its kernel; None where no
        call is recorded.
    streams : longest busy first.
    """

    name: str
    time: int
    busy: int
    n_kernels: int
    kernels: int
    n_copies: int
    copies: int
    overlap: int
    top_kernel: tuple[str, float] | None
    launch_delay: float | None
    streams: tuple[StreamTimes, ...]


@once
def device_times(trace: Trace) -> tuple[DeviceTimes, ...]:
    """Return the times of each device; () where none has kernels or copies.

    O(n log n) of the spans of devices. Spans without a known end are left out.
    """
    spans, lanes = trace.spans, trace.lanes
    if spans.category is None or not lanes.is_engine.any():
        return ()
    on_device = lanes.is_engine[spans.lane] & (spans.op >= 0)
    on_device &= quality_of(spans.flags) <= Quality.DERIVED
    ids = np.flatnonzero(on_device)
    ids = ids[_are(trace, ids, KERNELS | COPIES | FILLS)]
    if not len(ids):
        return ()
    ids = ids[np.lexsort((spans.end[ids], spans.start[ids], spans.lane[ids]))]
    call = launching_calls(trace, ids)
    result = []
    streams = distinct(spans.lane[ids])
    for group in dict.fromkeys(lanes.group[streams].tolist()):
        chosen = np.flatnonzero(lanes.group[spans.lane[ids]] == group)
        result.append(_device(trace, group, ids[chosen], call[chosen]))
    return tuple(result)


def launching_calls(trace: Trace, ids: I64) -> I64:
    """Return the call that launched each span, the last of several; -1 not known.

    The op instead, where the trace has no call.

    Parameters
    ----------
    ids : spans of devices.
    """
    flows, spans = trace.flows, trace.spans
    call = np.full(len(ids), -1, np.int64)
    if not len(flows) or not len(ids):
        return call
    is_call = ~trace.lanes.is_engine[spans.lane[flows.source]]
    source, target = flows.source[is_call], flows.target[is_call]
    order = np.lexsort((spans.start[source], target))
    source, target = source[order], target[order]
    at = np.searchsorted(target, ids, side="right") - 1
    is_launch = (
        (at >= 0) & (target[np.maximum(at, 0)] == ids) if len(target) else at >= 0
    )
    call[is_launch] = source[at[is_launch]]
    return call


def launching_call(trace: Trace, span: int) -> int:
    """Return the call that launched one span, as `launching_calls`; O(flows)."""
    spans = trace.spans
    source = trace.flows.source[trace.flows.target == span]
    source = source[~trace.lanes.is_engine[spans.lane[source]]]
    return int(source[np.argmax(spans.start[source])]) if len(source) else -1


def _are(trace: Trace, ids: I64, flags: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return which spans have one of some categories."""
    assert trace.spans.category is not None
    column = trace.spans.category[ids]
    codes = [c for c in distinct(column).tolist() if trace.strings[c] in flags]
    return np.asarray(np.isin(column, codes), np.bool_)


def _device(trace: Trace, group: int, ids: I64, call: I64) -> DeviceTimes:
    spans, titles = trace.spans, lane_titles(trace.lanes)
    start, end = spans.start[ids], spans.end[ids]
    is_kernel, is_copy = _are(trace, ids, KERNELS), _are(trace, ids, COPIES)

    def union(which: npt.NDArray[np.bool_]) -> int:
        if not which.any():
            return 0
        zero = np.zeros(int(which.sum()), np.int64)
        return int(covered(zero, start[which], end[which], 1)[0])

    kernels, copies = union(is_kernel), union(is_copy)
    launched = np.flatnonzero(is_kernel & (call >= 0))
    delay = start[launched] - spans.start[call[launched]]
    lane = spans.lane[ids]
    streams = [
        _stream(trace, one, titles[one], ids[rows], call[rows])
        for one in distinct(lane).tolist()
        if len(rows := np.flatnonzero(lane == one))
    ]
    return DeviceTimes(
        name=" / ".join(trace.lanes.groups[group]),
        time=int(end.max() - start.min()),
        busy=union(np.ones(len(ids), np.bool_)),
        n_kernels=int(is_kernel.sum()),
        kernels=kernels,
        n_copies=int(is_copy.sum()),
        copies=copies,
        overlap=kernels + copies - union(is_kernel | is_copy),
        top_kernel=_top_kernel(trace, ids[is_kernel]),
        launch_delay=float(np.median(delay)) if len(delay) else None,
        streams=tuple(sorted(streams, key=lambda stream: -stream.busy)),
    )


def _top_kernel(trace: Trace, ids: I64) -> tuple[str, float] | None:
    """Return the kernel of most time among these, and its share of their time."""
    spans = trace.spans
    op = spans.op[ids].astype(np.int64)
    total = np.zeros(int(op.max(initial=-1)) + 1, np.int64)
    add_by_group(total, op, spans.end[ids] - spans.start[ids])
    whole = int(total.sum())
    if not whole:
        return None
    top = int(total.argmax())
    return trace.op_name(top), int(total[top]) / whole


def _stream(trace: Trace, lane: int, name: str, ids: I64, call: I64) -> StreamTimes:
    """Return the times of a stream; its spans are in the order of start."""
    spans = trace.spans
    start, end = spans.start[ids], spans.end[ids]
    reached = np.maximum.accumulate(end)
    low, high = reached[:-1], start[1:]
    at = np.flatnonzero(high > low)
    low, high, of_gap = low[at], high[at], call[at + 1]
    made = np.where(of_gap >= 0, spans.start[np.maximum(of_gap, 0)], 0)
    # A call that seems to come behind what it launched: clocks differ by that much.
    made = np.minimum(made, high)
    is_behind = (of_gap >= 0) & (made >= low)
    host = np.where(is_behind, made - low, 0)
    launch = np.where(is_behind, high - made, 0)
    idle = high - low
    other = idle - host - launch
    return StreamTimes(
        lane=lane,
        name=name,
        n_spans=len(ids),
        busy=_union(start, end),
        n_gaps=len(at),
        idle=int(idle.sum()),
        host=int(host.sum()),
        launch=int(launch.sum()),
        other=int(other.sum()),
        unknown=int(other[of_gap < 0].sum()),
    )


def _union(start: I64, end: I64) -> int:
    """Return the time that intervals cover."""
    return int(covered(np.zeros(len(start), np.int64), start, end, 1)[0])
