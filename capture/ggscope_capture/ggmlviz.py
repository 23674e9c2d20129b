"""Writer of ring contents as ggml-viz's event stream, ``.ggmlviz``.

An op ends where it begins to wait for other threads; waits have no events, because two
numberings of those exist.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.builds import Build
from ggscope_capture.facts import from_definitions
from ggscope_capture.ring_contents import CHUNK, RingContents
from ggscope_capture.ring_format import RECORD_BEGIN, RECORD_GRAPH

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]
_MAX_LABEL = 63
_LANES_OF_SLOT = 512
_LAST = 1 << 62
"""Behind every op that ends at the same time."""
_GRAPH_BEGIN, _GRAPH_END, _OP_BEGIN, _OP_END, _ALLOCATED, _FREED = 0, 1, 2, 3, 6, 7
_VIZ = np.dtype(
    [
        ("type", "u1"), ("time", "<u8"), ("thread", "<u4"), ("pointer", "<u8"),
        ("first", "<u4"), ("second", "<u4"), ("size", "<u8"), ("backend", "<u8"),
        ("has_label", "u1"),
    ]
)  # fmt: skip
"""An event without its label. The union: a pointer; op or nodes and threads; then the
size of an op or the backend of a graph; the backend of an op."""


@dataclass(frozen=True, slots=True)
class _Events:
    """Events, the number of the label of each, and their rank among those of a time."""

    rows: Array
    labels: I64
    ranks: I64

    def where(self, chosen: Array) -> "_Events":
        return _Events(self.rows[chosen], self.labels[chosen], self.ranks[chosen])

    def ordered(self) -> "_Events":
        return self.where(np.lexsort((self.ranks, self.rows["time"])))


def _both(*parts: _Events) -> _Events:
    return _Events(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.ranks for part in parts]),
    )


@dataclass
class _Labels:
    """The names of all builds, those that are alike once; number 0 is none."""

    texts: list[bytes] = field(default_factory=lambda: [b""])
    _first: dict[int, int] = field(default_factory=dict)

    def of(self, build: Build) -> int:
        """Return the number of the label of a build's first node."""
        whole = build.whole if build.whole >= 0 else build.head.build
        if whole not in self._first:
            self._first[whole] = len(self.texts)
            self.texts += [_label(name) for name in build.names]
        return self._first[whole]


def to_ggmlviz(contents: RingContents, *, has_names: bool = True) -> bytes:
    """Return the event stream, in order of time."""
    return b"".join(ggmlviz_pieces(contents, has_names=has_names))


def ggmlviz_pieces(
    contents: RingContents, *, has_names: bool = True
) -> Iterator[bytes]:
    """Yield the event stream in chunks."""
    yield b"GGMLVIZ1" + struct.pack("<I", 1)
    labels = _Labels()
    waiting, n_before = _others(contents).ordered(), 0
    chunks = contents.records.chunks_by_time(CHUNK)
    chunk = next(chunks, None)
    while chunk is not None:
        following = next(chunks, None)
        is_op = chunk["extra"] & (RECORD_BEGIN | RECORD_GRAPH) == 0
        spans = chunk[is_op]
        ops = _ops(contents, spans, n_before, labels if has_names else None)
        n_before += len(spans)
        events = _both(waiting, ops).ordered()
        end = len(events.rows)
        if following is not None:
            end = int(np.searchsorted(events.rows["time"], following["t0"][0]))
        yield _packed(events.where(np.arange(end)), labels.texts)
        waiting, chunk = events.where(np.arange(end, len(events.rows))), following
    yield _packed(waiting, labels.texts)


def _ops(
    contents: RingContents, spans: Array, n_before: int, labels: _Labels | None
) -> _Events:
    """Return begin and end events of `spans`; `n_before` ops precede them."""
    begins = np.zeros(len(spans), _VIZ)
    label = np.zeros(len(spans), np.int64)
    for build, mine, nodes in contents.by_build(spans):
        begins["pointer"][mine] = build.tensors["pointer"][nodes]
        begins["size"][mine] = build.tensors["bytes"][nodes]
        if labels is not None:
            label[mine] = nodes + labels.of(build)
    begins["thread"], begins["first"] = contents.threads(spans["lane"]), spans["op"]
    begins["type"], begins["time"] = _OP_BEGIN, spans["t0"]
    ends = begins.copy()
    ends["type"], ends["time"] = _OP_END, spans["t0"] + spans["op_ns"]
    rank = 2 * (n_before + np.arange(len(spans), dtype=np.int64))
    return _both(_Events(begins, label, rank), _Events(ends, label, rank + 1))


def _others(contents: RingContents) -> _Events:
    """Return the events of graphs and buffers."""
    rows = np.concatenate([_graph_events(contents), _buffer_events(contents)])
    ranks = np.where(rows["type"] == _GRAPH_END, _LAST, -1).astype(np.int64)
    return _Events(rows, np.zeros(len(rows), np.int64), ranks)


def _label(name: str) -> bytes:
    """Return a name in as many bytes as readers expect, cut between characters."""
    return name.encode()[:_MAX_LABEL].decode("utf-8", "ignore").encode()


def _graph_events(contents: RingContents) -> Array:
    """Return begin and end of every graph, on its first thread."""
    graphs = contents.graphs
    last, has_ops = np.zeros(len(graphs), np.uint64), np.zeros(len(graphs), np.bool_)
    for chunk in contents.records.chunks():
        spans = chunk[chunk["extra"] & (RECORD_BEGIN | RECORD_GRAPH) == 0]
        places = contents.places(spans["graph"])
        is_known = places >= 0
        end = spans["t0"] + spans["op_ns"]
        np.maximum.at(last, places[is_known], end[is_known])
        has_ops[places[is_known]] = True
    begins = np.zeros(len(graphs), _VIZ)
    begins["thread"] = graphs["slot"].astype(np.uint32) * _LANES_OF_SLOT
    # A number for each build: graphs have no address that lasts.
    begins["pointer"] = graphs["build"].astype(np.uint64) + np.uint64(1)
    begins["first"], begins["second"] = graphs["n_nodes"], graphs["n_threads"]
    begins["size"] = np.where(has_ops, 0, graphs["backend"])
    begins["type"], begins["time"] = _GRAPH_BEGIN, graphs["begin"]
    # A graph that was cut off has no end; the reader shows it as open.
    ends = begins[graphs["has_end"]]
    ends["type"] = _GRAPH_END
    ends["time"] = np.maximum(graphs["end"], last)[graphs["has_end"]]
    return np.concatenate([begins, ends])


def _buffer_events(contents: RingContents) -> Array:
    buffers = from_definitions(contents)["buffers"]
    rows = [
        (kind, time, buffer["base"] or buffer["buffer"] + 1, buffer["size"])
        for buffer in buffers
        for kind, time in (
            (_ALLOCATED, buffer["allocated"]), (_FREED, buffer["freed"]),
        )
        if time is not None and buffer["size"] > 0
    ]  # fmt: skip
    events = np.zeros(len(rows), _VIZ)
    for index, (kind, time, pointer, size) in enumerate(rows):
        events[index]["type"], events[index]["time"] = kind, time
        events[index]["pointer"] = pointer
        events[index]["first"] = size & 0xFFFFFFFF
        events[index]["second"] = size >> 32
    return events


def _packed(events: _Events, texts: list[bytes]) -> bytes:
    """Return events that are in order one after another, each with its label."""
    packed, labels = events.rows.copy(), events.labels
    lengths = np.array([len(text) for text in texts], np.int64)[labels]
    sizes = np.where(labels > 0, 4 + lengths, 0) + _VIZ.itemsize
    packed["has_label"] = labels > 0
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), np.uint8)
    raw = packed.view("u1").reshape(-1, _VIZ.itemsize)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        block = np.zeros((len(rows), size), np.uint8)
        block[:, : _VIZ.itemsize] = raw[rows]
        if size > _VIZ.itemsize:
            length = size - _VIZ.itemsize - 4
            block[:, _VIZ.itemsize : _VIZ.itemsize + 4] = np.frombuffer(
                struct.pack("<I", length), np.uint8
            )
            used, back = np.unique(labels[rows], return_inverse=True)
            text = b"".join(texts[number] for number in used.tolist())
            table = np.frombuffer(text, np.uint8).reshape(len(used), length)
            block[:, _VIZ.itemsize + 4 :] = table[back]
        out[starts[rows][:, None] + np.arange(size)] = block
    return out.tobytes()
