"""Spans as a ``.ggmlviz`` trace: begin and end events of ops and graphs.

Form: that of ggml-viz as 64-bit builds write it since July 2025: a header of 12 bytes,
then an event after the other: type u8, time u64 (ns), thread u32, a union of 32 bytes,
a flag and, with it, a label (length u32, UTF-8). All little-endian.

Events stand in the order of time. An op that is begun twice at once on a thread is
distinguished by its pointer, so each pair of name and op has one of its own, on each
track: what it was is not known any more.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.exporters.events import I32, Events, ggml_numbers, threads_of_work
from ggscope.model.tables import I64, Array, Quality, quality_of
from ggscope.model.trace import LaneKind
from ggscope.model.units import format_count

_HEADER = b"GGMLVIZ1" + (1).to_bytes(4, "little")
_GRAPH_BEGIN, _GRAPH_END, _OP_BEGIN, _OP_END = range(4)
_KINDS = (LaneKind.THREAD, LaneKind.ENGINE, LaneKind.GRAPH)
_TABLE = "ggml-2025-06-30-86"
"""In force when the format was written for most of its time."""
MAX_LABEL = 4096
"""Bytes; longer ones speak to readers of a damaged file."""
_EVENTS_AT_ONCE = 1 << 18
_FIXED = np.dtype(
    [
        ("type", "u1"), ("time", "<u8"), ("thread", "<u4"), ("pointer", "<u8"),
        ("number", "<u4"), ("rest", "V4"), ("size", "<u8"), ("backend", "<u8"),
        ("has_label", "u1"),
    ]
)  # fmt: skip
"""An op's event up to its label; a graph's has its backend where ops have sizes."""
_WHOLE_GRAPH = re.compile(r"graph \((\d+) nodes?\)")
"""What readers call a graph that has no label."""


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces of about ten megabytes."""
    yield _HEADER
    work = _Work(events)
    for first, stop in work.blocks():
        yield from work.written(first, stop)


def n_spans(events: Events) -> int:
    """Return how many spans are written."""
    return len(_chosen(events)[0])


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    work, trace = _Work(events), events.trace
    messages = events.losses(has_only_spans=True)
    if n := len(events.spans) - len(work.ids):
        messages.append(f"Omitted: {n:,} spans of tokens, phases, stalls and the like.")
    if not len(work.ids):
        return messages
    messages.append(
        "Omitted: names of lanes and groups, tokens, phases and sizes of results. "
        "Addresses are replaced by numbers."
    )
    quality = quality_of(trace.spans.flags[work.ids])
    if n := int((quality == Quality.DERIVED).sum()):
        messages.append(
            f"{format_count(n)} spans with derived times: the format does not "
            "distinguish them from measured ones."
        )
    if n := int((quality == Quality.UNFINISHED).sum()):
        messages.append(
            f"{format_count(n)} spans without an end: only their begins are written."
        )
    if n := int(((quality == Quality.ESTIMATED) & (work.graph_of < 0)).sum()):
        messages.append(
            f"{format_count(n)} spans with estimated times: the format does not "
            "distinguish them from measured ones."
        )
    if n := int((work.number[trace.spans.op[work.ids]] < 0).sum() - work.n_graphs):
        messages.append(
            f"{format_count(n)} spans with an op that ggml does not have: only their "
            "label names it."
        )
    if len(work.texts) and max(map(len, work.texts)) > MAX_LABEL:
        messages.append(f"Names truncated to {MAX_LABEL:,} bytes.")
    if work.table:
        messages.append(
            f"Op numbers are those of {work.table}; the file does not say so."
        )
    return messages


def _chosen(events: Events) -> tuple[I64, I32]:
    """Return the spans of work and the track of each."""
    trace = events.trace
    is_work = np.isin(trace.lanes.kinds, [int(kind) for kind in _KINDS])
    is_chosen = is_work[trace.spans.lane[events.spans]]
    return events.spans[is_chosen], events.track[is_chosen]


class _Work:
    """What is to be written, as columns.

    Attributes
    ----------
    ids : int64[n], the spans, by lane and there by start, longer ones first.
    is_graph : bool[n], those without an op.
    graph_of : int64[n], of estimated ops the row of the graph that they share the time
        of; -1 for others.
    number : int32[m], number of each op of the trace, -1 = ggml has none; -1 last.
    table : whose numbers these are; "" where there are none.
    texts : the different labels; `label` has the place of each row's, -1 = none.
    """

    def __init__(self, events: Events) -> None:
        trace = events.trace
        s = trace.spans
        self._events = events
        self.ids, self._track = _chosen(events)
        self.is_graph = s.op[self.ids] < 0
        self.n_graphs = int(self.is_graph.sum())
        self.number, self.table = ggml_numbers(trace, _TABLE, "ggmlviz")
        self._start, self._end = s.start[self.ids], s.end[self.ids]
        quality = quality_of(s.flags[self.ids])
        self._is_open = quality == Quality.UNFINISHED
        estimated = np.flatnonzero((quality == Quality.ESTIMATED) & ~self.is_graph)
        self.graph_of = self._graphs_around(estimated)
        # As the format's own writers do: all begin with the graph and end with it.
        shared = np.flatnonzero(self.graph_of >= 0)
        self._start[shared] = self._start[self.graph_of[shared]]
        self._end[shared] = self._end[self.graph_of[shared]]
        self.texts, self.label, self._n_nodes = self._labels()
        self._thread, self._backend = threads_of_work(events)
        self._base = events.shift
        if trace.clock.unit == "ns" and trace.clock.origin > 0:
            self._base += trace.clock.origin

    def _graphs_around(self, rows: I64) -> I64:
        """Return the row of the innermost graph around each of `rows`, -1 = none."""
        graph_of = np.full(len(self.ids), -1, np.int64)
        graphs = np.flatnonzero(self.is_graph)
        if not len(graphs) or not len(rows):
            return graph_of
        lane = self._events.trace.spans.lane[self.ids]
        # Rows are by lane and start: the graph before a row, or one before that.
        at = np.searchsorted(graphs, rows) - 1
        while len(rows):
            is_there = at >= 0
            rows, at = rows[is_there], at[is_there]
            graph = graphs[at]
            is_lane = lane[graph] == lane[rows]
            rows, at, graph = rows[is_lane], at[is_lane], graph[is_lane]
            is_around = self._end[graph] >= self._end[rows]
            graph_of[rows[is_around]] = graph[is_around]
            rows, at = rows[~is_around], at[~is_around] - 1
        return graph_of

    def _labels(self) -> tuple[list[bytes], I64, I64]:
        """Return the different labels, that of each row, and nodes of each graph."""
        trace = self._events.trace
        used, place = np.unique(trace.spans.name[self.ids], return_inverse=True)
        label, texts = np.full(len(used), -1, np.int64), list[bytes]()
        nodes = np.zeros(len(used), np.int64)
        for i, number in enumerate(used.tolist()):
            name = trace.strings[number]
            whole = _WHOLE_GRAPH.fullmatch(name)
            if whole is not None:
                nodes[i] = int(whole[1])
            elif name:
                label[i] = len(texts)
                texts.append(name.encode("utf-8", "replace"))
        # An op called like a graph is no graph.
        ops_like_graphs = np.flatnonzero((nodes > 0) & (label < 0))
        for i in ops_like_graphs.tolist():
            if not self.is_graph[place == i].all():
                label[i] = len(texts)
                texts.append(trace.strings[int(used[i])].encode())
        return texts, label[place], np.where(self.is_graph, nodes[place], 0)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield stretches of time that have not too many events, in ticks."""
        if not len(self.ids):
            return
        n = max(2 * len(self.ids) // _EVENTS_AT_ONCE, 1)
        ends = self._end if not self._is_open.any() else self._end[~self._is_open]
        sample = np.sort(np.concatenate([self._start[::16], ends[::16]]))
        cuts = np.unique(sample[np.linspace(0, len(sample) - 1, n + 1).astype(int)])
        first = int(self._start.min())
        last = max(int(self._end.max()), int(self._start.max())) + 1
        edges = [first, *(c for c in cuts.tolist() if first < c < last), last]
        yield from pairwise(edges)

    def written(self, first: int, stop: int) -> Iterator[bytes]:
        """Yield the events of a stretch of time, in its order."""
        begins = np.flatnonzero((self._start >= first) & (self._start < stop))
        is_end = (self._end >= first) & (self._end < stop) & ~self._is_open
        ends = np.flatnonzero(is_end)
        row = np.concatenate([begins, ends])
        is_begin = np.arange(len(row)) < len(begins)
        time = np.where(is_begin, self._start[row], self._end[row])
        # What ends at a moment ends before what begins then, inner before outer ones;
        # of what takes no time at all each ends before the next begins.
        is_point = self._start[row] == self._end[row]
        is_point &= ~self._is_open[row]
        graph = self.is_graph[row]
        kind = np.select(
            [is_point & ~graph, is_begin & graph, is_begin, graph], [4, 2, 3, 1], 0
        )
        inner = np.where(is_begin | is_point, 2 * row + ~is_begin, -2 * row)
        order = np.lexsort([inner, kind, time])
        for begin in range(0, len(order), _EVENTS_AT_ONCE):
            part = order[begin : begin + _EVENTS_AT_ONCE]
            yield self._as_bytes(row[part], is_begin[part], time[part])

    def _as_bytes(self, row: I64, is_begin: npt.NDArray[np.bool_], time: I64) -> bytes:
        s = self._events.trace.spans
        ids, graph = self.ids[row], self.is_graph[row]
        lane, op, name = s.lane[ids], s.op[ids], s.name[ids]
        fixed = np.zeros(len(row), _FIXED)
        fixed["type"] = np.where(graph, _GRAPH_BEGIN, _OP_BEGIN) + ~is_begin
        fixed["time"] = (time + self._base).astype(np.uint64)
        fixed["thread"] = self._thread[lane]
        pointer = (self._track[row].astype(np.int64) + 1) << 48
        pointer |= (op.astype(np.int64) + 1) << 32
        fixed["pointer"] = pointer | (name.astype(np.int64) + 2)
        number = np.maximum(self.number[op], 0)
        fixed["number"] = np.where(graph, self._n_nodes[row], number)
        backend = self._backend[lane]
        fixed["size"] = np.where(graph, backend, np.uint64(0))
        fixed["backend"] = np.where(graph, np.uint64(0), backend)
        label = self.label[row]
        fixed["has_label"] = label >= 0
        return _joined(fixed, label, [_cut(text) for text in self.texts])


def _cut(label: bytes) -> bytes:
    """Return as many whole letters of a label as it may have."""
    if len(label) <= MAX_LABEL:
        return label
    return label[:MAX_LABEL].decode("utf-8", "ignore").encode()


def _joined(fixed: Array, label: I64, texts: list[bytes]) -> bytes:
    """Return each fixed part with the label behind it, one after the other."""
    sizes = np.array([len(text) for text in texts] + [0], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    characters = np.frombuffer(b"".join(texts), np.uint8)
    width = fixed.dtype.itemsize
    has_label = label >= 0
    length = sizes[label]
    whole = width + np.where(has_label, 4 + length, 0)
    at = np.cumsum(whole) - whole
    out = np.zeros(int(whole.sum()), np.uint8)
    out[at[:, None] + np.arange(width)] = fixed.view(np.uint8).reshape(-1, width)
    rows = np.flatnonzero(has_label)
    lengths = length[rows].astype("<u4").view(np.uint8).reshape(-1, 4)
    out[(at[rows] + width)[:, None] + np.arange(4)] = lengths
    n = length[rows]
    inside = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    out[np.repeat(at[rows] + width + 4, n) + inside] = characters[
        np.repeat(starts[label[rows]], n) + inside
    ]
    return out.tobytes()
