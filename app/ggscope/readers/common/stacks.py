"""Sampled stacks as nested spans: by time, or by what they weigh.

A stack is a node of a tree: its innermost frame, whose parent is the caller's stack.
Samples that follow one another without a gap and have the same frames from the root on
share the spans of these; a gap ends all of them. Without times every node has one span,
as long as its samples weigh, the heaviest of a parent first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I16, I32, I64, Array, Bools, SpanFlag, Table, narrow
from ggscope.model.trace import LaneKind, OpTable, RecordView, Severity
from ggscope.native.declared import StackPairs, StackWalk
from ggscope.native.library import library
from ggscope.readers.common.op_names import MAX_OPS, ops_of_names

MAX_FRAMES = 2048
"""Frames of a stack that are shown, as in ``stacks.c``."""
OP_TABLE_ID = "frames"
GROUP = "Stacks"
_HEAVIEST = 1 << 61
_SPAN_BYTES = 50
"""Memory of a span while it is made, measured."""
_SHOWN_FRAMES = 200
_SAMPLES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class Stacks:
    """Different stacks as a tree, and the texts of their frames.

    Attributes
    ----------
    parent, frame : int32[n], of each node; -1 is no parent. Parents come first.
    name, part : int32[k], texts of each frame: of itself, and of the library, file or
        kind of code that it is part of; -1 none.
    texts : all different texts.
    """

    parent: I32
    frame: I32
    name: I32
    part: I32
    texts: Sequence[str]

    def depths(self) -> I32:
        """Return how many frames each stack has, int32[n]."""
        depth = np.zeros(len(self.parent), np.int32)
        at = np.arange(len(self.parent))
        up = self.parent
        while len(at):
            depth[at] += 1
            is_inner = up >= 0
            at, up = at[is_inner], self.parent[up[is_inner]]
        return depth

    def frames_of(self, node: int) -> list[int]:
        """Return the frames of a stack, innermost first."""
        frames = []
        while node >= 0:
            frames.append(int(self.frame[node]))
            node = int(self.parent[node])
        return frames

    def text(self, number: int) -> str:
        """Return a text by its number; "" for none."""
        return self.texts[number] if number >= 0 else ""

    def frame_text(self, frame: int) -> str:
        """Return the name of a frame, and in brackets what it is part of."""
        name, part = self.text(int(self.name[frame])), self.text(int(self.part[frame]))
        return f"{name} ({part})" if part else name


@dataclass(frozen=True, slots=True, eq=False)
class StackSpans(Table):
    """Spans of stacks, by lane and start, outer ones first.

    Attributes
    ----------
    start, end : int64[n], ticks.
    frame : int32[n], of `Stacks`.
    lane, samples, record : int[n] of any width; how many samples each is made of, and
        the number of the first one.
    """

    lane: Array
    start: I64
    end: I64
    frame: I32
    samples: Array
    record: Array


class StackBuilder:
    """Collects frames and stacks one by one: of small files.

    Attributes
    ----------
    n_deep : stacks with more than `MAX_FRAMES` frames; the innermost are left out.
    """

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._frames: dict[tuple[int, int], int] = {}
        self._nodes: dict[tuple[int, int], int] = {}
        self.n_deep = 0

    def frame(self, name: str, part: str = "") -> int:
        """Return the number of a frame."""
        key = self._text(name), self._text(part)
        return self._frames.setdefault(key, len(self._frames))

    def node(self, parent: int, frame: int) -> int:
        """Return the node of a frame called from the stack of `parent`."""
        return self._nodes.setdefault((parent, frame), len(self._nodes))

    def stack(self, frames: Sequence[int]) -> int:
        """Return the node of a stack, outermost frame first; -1 without any."""
        node = -1
        if len(frames) > MAX_FRAMES:
            self.n_deep += 1
        for frame in frames[:MAX_FRAMES]:
            node = self.node(node, frame)
        return node

    def stacks(self) -> Stacks:
        """Return all of them."""
        nodes = np.array(list(self._nodes), np.int32).reshape(-1, 2)
        frames = np.array(list(self._frames), np.int32).reshape(-1, 2)
        return Stacks(
            nodes[:, 0].copy(),
            nodes[:, 1].copy(),
            frames[:, 0].copy(),
            frames[:, 1].copy(),
            tuple(self._texts),
        )

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts)) if text else -1


class StackPairTable:
    """A table of pairs that grows."""

    def __init__(self) -> None:
        self.table = StackPairs()
        self._first, self._second = np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.grow(4 * MAX_FRAMES)

    def grow(self, capacity: int) -> None:
        """Make room for so many pairs."""
        n = int(self.table.count)
        first, second = (np.empty(capacity, np.int32) for _ in range(2))
        first[:n], second[:n] = self._first[:n], self._second[:n]
        n_slots = 1 << (2 * capacity - 1).bit_length()
        self._first, self._second = first, second
        del self.table  # its slots, before there are new ones
        self.table = StackPairs(
            count=n,
            capacity=capacity,
            n_slots=n_slots,
            slots=np.zeros(n_slots, np.int32),
            first=first,
            second=second,
        )
        library().ggscope_stacks_rehash_pairs(self.table)

    def columns(self) -> tuple[I32, I32]:
        """Return both numbers of each pair so far."""
        n = int(self.table.count)
        return self._first[:n].copy(), self._second[:n].copy()


def put_stacks(nodes: StackPairTable, frames: Array, depths: I64) -> tuple[I32, int]:
    """Return the node of each of some stacks, and how many were too deep.

    Parameters
    ----------
    nodes : the tree, which grows.
    frames : of all stacks one behind the other, outermost first.
    depths : how many frames each has.
    """
    place = np.arange(len(frames)) - np.repeat(np.cumsum(depths) - depths, depths)
    n_deep = int(np.count_nonzero(depths > MAX_FRAMES))
    if n_deep:
        frames, depths = frames[place < MAX_FRAMES], np.minimum(depths, MAX_FRAMES)
    # The library takes them innermost first: read backwards, the last stack first.
    backwards = np.ascontiguousarray(frames[::-1], np.int32)
    first = np.zeros(len(depths) + 1, np.int64)
    np.cumsum(depths[::-1], out=first[1:])
    node = np.empty(len(depths), np.int32)
    done = 0
    while done < len(depths):
        done += library().ggscope_stacks_put(
            nodes.table, backwards, first[done:], len(depths) - done, node[done:]
        )
        if done < len(depths):
            nodes.grow(2 * int(nodes.table.capacity))
    return node[::-1].copy(), n_deep


BRIDGED = 1.5
"""Neighbouring samples of a thread are one span where they lie no further apart than so
many periods: timers are late now and then, and a missed sample is a gap."""
LONGEST_NS = 1 << 50
"""Of a period."""


def gaps_behind(lane: I64, start: I64) -> I64:
    """Return the time from each sample to the next of its lane; the most for none.

    Samples are in the order of lane and start.
    """
    gap = np.full(len(lane), np.iinfo(np.int64).max)
    is_same = lane[1:] == lane[:-1]
    gap[:-1][is_same] = (start[1:] - start[:-1])[is_same]
    return gap


def usual_gap(gap: I64) -> int:
    """Return the median distance of samples; 0 where no two are of one lane."""
    known = gap[(gap > 0) & (gap < LONGEST_NS)]
    return int(np.median(known)) if len(known) else 0


def ends_of(start: I64, gap: I64, period: I64) -> I64:
    """Return until when samples count: to the next one of the lane, or for a period.

    To the next one where that is no more than `BRIDGED` periods later.
    """
    is_bridged = gap <= (period * BRIDGED).astype(np.int64)
    return start + np.where(is_bridged, gap, period)


def spans_by_time(
    stacks: Stacks,
    lane: I64,
    start: I64,
    end: I64,
    node: I64,
    record: I64,
    check: Callable[[], None] = lambda: None,
) -> StackSpans:
    """Return the spans of samples that are in the order of lane and start.

    Neighbours of a lane share spans where one ends when the next begins.

    Parameters
    ----------
    node : stack of each sample, -1 none: it ends what was before it.
    check : called every few thousand samples; may raise to end it.

    Raises
    ------
    LimitExceededError
        If there is too little memory.
    """
    touches = np.zeros(len(lane), np.bool_)
    touches[1:] = (lane[1:] == lane[:-1]) & (start[1:] == end[:-1])
    samples = node.astype(np.int32), touches
    n = _walk_samples(stacks.parent, *samples, check)
    _check_memory(n)
    first, last, made = (np.empty(n, np.int32) for _ in range(3))
    _walk_samples(stacks.parent, *samples, check, (first, last, made))
    begin = start[first]
    check()
    finish = end[last]
    check()
    last -= first
    last += 1
    frame = stacks.frame[made]
    del made
    return StackSpans(
        narrow(lane)[first], begin, finish, frame, last, narrow(record)[first]
    )


def _walk_samples(
    parent: I32,
    node: I32,
    touches: Bools,
    check: Callable[[], None],
    spans: tuple[I32, I32, I32] | None = None,
) -> int:
    """Return how many spans samples make; note their first and last sample and node.

    Parameters
    ----------
    touches : whether each sample begins where the one before it in its lane ends.
    """
    walk = StackWalk(
        node=np.empty(MAX_FRAMES, np.int32), span=np.empty(MAX_FRAMES, np.int64)
    )
    into = (None, None, None) if spans is None else spans
    for first in range(0, len(node), _SAMPLES_AT_ONCE):
        check()
        end = min(first + _SAMPLES_AT_ONCE, len(node))
        library().ggscope_stacks_spans(parent, node, touches, first, end, walk, *into)
    return int(walk.count)


def spans_by_weight(
    stacks: Stacks,
    lane: int,
    node: I64,
    weight: I64,
    samples: I64,
    record: I64,
    check: Callable[[], None] = lambda: None,
) -> StackSpans:
    """Return a span for each node of a lane, as long as its samples weigh.

    The children of a node begin where it begins, the heaviest first; what is left
    behind them is its own. Nodes that weigh nothing have no span.

    Parameters
    ----------
    node : stack of each row, -1 none; `weight`, `samples` : >= 0, of each row.
    check : called for each level of the stacks; may raise to end it.

    Raises
    ------
    CorruptError
        If all weigh more than 2^61 together.
    """
    if float(weight.sum(dtype=np.float64)) >= _HEAVIEST:
        raise CorruptError("the weights of its samples add up to more than 2^61.")
    n = len(stacks.parent)
    rows = np.flatnonzero(node >= 0)
    node, weight = node[rows], weight[rows]
    total, count = np.zeros(n, np.int64), np.zeros(n, np.int64)
    first = np.full(n, np.iinfo(np.int64).max)
    np.add.at(total, node, weight)
    np.add.at(count, node, samples[rows])
    np.minimum.at(first, node, record[rows])
    depth = stacks.depths()
    by_depth = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(1, depth.max(initial=0) + 2))
    levels = [by_depth[a:b] for a, b in pairwise(edges.tolist())]
    for level in levels[:0:-1]:
        check()
        parent = stacks.parent[level]
        np.add.at(total, parent, total[level])
        np.add.at(count, parent, count[level])
        np.minimum.at(first, parent, first[level])
    start = np.zeros(n, np.int64)
    for level in levels:
        check()
        mine = level[total[level] > 0]
        parent = stacks.parent[mine].astype(np.int64)
        order = np.lexsort((mine, -total[mine], parent))
        mine, parent = mine[order], parent[order]
        before = np.cumsum(total[mine]) - total[mine]
        is_first = np.ones(len(mine), np.bool_)
        is_first[1:] = parent[1:] != parent[:-1]
        group = np.cumsum(is_first) - 1
        base = np.where(parent >= 0, start[parent], 0)
        start[mine] = base + before - before[is_first][group]
    shown = np.flatnonzero(total > 0)
    shown = shown[np.lexsort((depth[shown], start[shown]))]
    return StackSpans(
        np.full(len(shown), lane, np.int64),
        start[shown],
        start[shown] + total[shown],
        stacks.frame[shown],
        count[shown],
        first[shown],
    )


def joined(parts: Sequence[StackSpans]) -> StackSpans:
    """Return the spans of several lanes, one behind the other."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    names = ("lane", "start", "end", "frame", "samples", "record")
    return StackSpans(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


def add_stack_spans(
    builder: TraceBuilder,
    stacks: Stacks,
    spans: StackSpans,
    flags: SpanFlag | Array = SpanFlag.INFERRED_START | SpanFlag.INFERRED_END,
    *,
    is_sampled: bool = True,
) -> None:
    """Add the spans of stacks to a trace: the op of a span is its frame.

    Parameters
    ----------
    flags : of all spans, or of each. Without more, their times are derived.
    is_sampled : whether spans are made of samples.
    """
    used = np.flatnonzero(np.bincount(spans.frame, minlength=len(stacks.name)))
    texts = builder.strings.intern_many(stacks.texts)
    text = np.append(texts.astype(np.int64), -1)
    name, part = stacks.name[used], stacks.part[used]
    op = _ops(builder, stacks, name)
    # The op is its name; only where there are too many it has another one.
    other_name = np.where(op < MAX_OPS, -1, text[name])
    place = np.zeros(len(stacks.name), np.int64)
    place[used] = np.arange(len(used))
    at = narrow(place)[spans.frame]
    marks = flags if isinstance(flags, np.ndarray) else np.full(len(spans), int(flags))
    builder.add_spans(
        start=spans.start,
        end=spans.end,
        lane=narrow(spans.lane),
        name=narrow(other_name)[at],
        op=op[at],
        flags=marks.astype(np.uint16, copy=False),
        category=narrow(text[part])[at] if (part >= 0).any() else None,
        samples=narrow(spans.samples) if is_sampled else None,
        record=narrow(spans.record),
    )


def _ops(builder: TraceBuilder, stacks: Stacks, name: Array) -> I16:
    """Return the op of each of some frames: its name."""
    table = builder.ops or OpTable(OP_TABLE_ID, ())
    texts = list(dict.fromkeys((*table.names, *stacks.texts)))
    places = {text: i for i, text in enumerate(texts)}
    word = np.append(np.array([places[t] for t in stacks.texts], np.int64), -1)
    # Ops of other lanes keep their numbers: their texts come first.
    before = np.arange(len(table.names))
    op_names = np.append(before, word[name])
    ops = ops_of_names(texts, op_names, np.ones(len(op_names), np.bool_))
    builder.warn(
        Severity.NOTICE,
        "too_many_ops",
        "there are more names of frames than are distinguished; the others are "
        "“other names”, and keep their names.",
        count=ops.n_others,
    )
    builder.ops = OpTable(table.id, ops.names, source="spelled")
    return ops.op[len(before) :]


def add_stack_lane(
    builder: TraceBuilder, name: str, group: tuple[str, ...] = (), **attributes: str
) -> int:
    """Add a lane of stacks; return its id."""
    return builder.add_lane(
        name, LaneKind.STACKS, group or (GROUP,), None, **attributes
    )


def warn_of_depth(
    builder: TraceBuilder, n_deep: int, offset: int | None = None
) -> None:
    """Say of how many samples some frames are left out."""
    builder.warn(
        Severity.DATA_LOSS,
        "deep_stacks",
        f"stacks have more than {MAX_FRAMES:,} frames; the others are left out.",
        offset,
        n_deep,
    )


class StackRecords:
    """Gives back samples: their stack with what is known of each frame.

    Parameters
    ----------
    node : stack of each sample.
    head : returns what is known of a sample beside its stack, as (name, text).
    frame_texts : returns what is known of the frames of a sample, innermost first;
        None: their texts.
    """

    def __init__(
        self,
        stacks: Stacks,
        node: Array,
        head: Callable[[int], list[tuple[str, str]]],
        frame_texts: Callable[[int], list[str]] | None = None,
    ) -> None:
        self._stacks, self._node, self._head = stacks, node, head
        self._frame_texts = frame_texts or self._texts

    def view(self, record: int) -> RecordView:
        """Return a sample by its number.

        Raises
        ------
        ReadError
            If there is none.
        """
        if not 0 <= record < len(self._node):
            raise ReadError(f"there is no sample {record:,}.")
        fields = [(key, text, -1, 0) for key, text in self._head(record)]
        fields += [
            (f"frame {i}", text, -1, 0)
            for i, text in enumerate(self._frame_texts(record)[:_SHOWN_FRAMES])
        ]
        return RecordView(-1, b"", tuple(fields))

    def _texts(self, record: int) -> list[str]:
        stacks = self._stacks
        return [stacks.frame_text(f) for f in stacks.frames_of(int(self._node[record]))]


def _check_memory(n_spans: int) -> None:
    if n_spans < 1 << 20:
        return
    from ggscope.readers.memory import available_bytes

    if n_spans * _SPAN_BYTES > available_bytes():
        raise LimitExceededError(
            "not enough memory for the spans of its samples.",
            hint="Record a shorter run, or fold its stacks (stackcollapse-perf.pl).",
        )
