"""Writers of ring contents: tensor-access records of 256 bytes, and graphs as DOT.

The input is frames and records alone, so that a live run, an ended run and the ring of
a killed program give the same files.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.builds import Build
from ggscope_capture.ring import DTYPES, RECORD
from ggscope_capture.ring_contents import CHUNK, RingContents
from ggscope_capture.ring_format import (
    RECORD_BEGIN,
    RECORD_GRAPH,
    UNKNOWN_U32,
    Frame,
    FrameType,
    Phase,
    RingError,
    TensorFlag,
    experts_body,
)

Array = npt.NDArray[Any]
I64 = npt.NDArray[np.int64]

_SOURCE = np.dtype(
    [
        ("name", "S20"), ("pointer", "<u8"), ("size", "<u4"), ("layer", "<u2"),
        ("memory", "u1"), ("type", "u1"), ("place", "<u8"), ("index", "<u4"),
        ("more", "<u4"),
    ]
)  # fmt: skip
TRACE = np.dtype(
    [
        ("time", "<u8"), ("token", "<u4"), ("layer", "<u2"), ("thread", "<u2"),
        ("op", "u1"), ("phase", "u1"), ("n_sources", "u1"), ("duration", "u1", (5,)),
        ("name", "S24"), ("sources", _SOURCE, (4,)),
    ]
)  # fmt: skip
"""A record of 256 bytes.

Spare bytes hold what other readers of the format pass over: `duration` the op's
nanoseconds (40 bits), `type` of a source its ggml type, and `more` of the four sources
the wait behind the op in ns, the node, the graph, and `extra` of the ring's record
(core, NUMA node, barriers, flags).
"""
_CHOICE = np.dtype(
    [
        ("time", "<u8"), ("token", "<u4"), ("layer", "<u2"), ("row", "<u2"),
        ("op", "u1"), ("phase", "u1"), ("used", "u1"), ("rows", "u1"), ("of", "<u2"),
        ("spare", "V2"), ("name", "S24"), ("list", "<u2", (104,)),
    ]
)  # fmt: skip
"""An extension record: chosen experts (0xF0), or experts and scores (0xF1)."""
_EXPERTS_OP, _ROUTER_OP = 0xF0, 0xF1
_NO_LAYER = 65535
_DISK, _BUFFER = 0, 1
_MAX_EXPERTS, _MAX_ROUTED = 104, 52
"""Experts that an extension record lists, without their scores and with them."""
_MAX_LAYOUTS = 64


@dataclass(frozen=True, slots=True)
class _Layout:
    """The part of the records that all alike builds share.

    Attributes
    ----------
    rows : of `TRACE`, a record of each node.
    used : int64[nodes, 4], the tensors that it reads; -1 = none.
    is_weight : bool[nodes, 4], of these.
    """

    rows: Array
    used: I64
    is_weight: npt.NDArray[np.bool_]


def to_records(contents: RingContents, *, has_names: bool = True) -> bytes:
    """Return the records of 256 bytes: of ops by lane, and the experts' choices."""
    return b"".join(record_pieces(contents, has_names=has_names))


def record_pieces(
    contents: RingContents, *, has_names: bool, size: int = CHUNK
) -> Iterator[memoryview]:
    """Yield the records of 256 bytes in the order of their begins, some at a time.

    Whole graphs (`RECORD_GRAPH`) are no ops and are left out. An op has a number of one
    byte here; larger ones, and those of extension records, become 255.
    """
    layouts = _Layouts(has_names)
    choices = _Choices(contents)
    before: Array | None = None
    for chunk in contents.records.chunks_by_time(size):
        ops = chunk[chunk["extra"] & RECORD_GRAPH == 0]
        if before is not None:
            yield _joined(before, choices.until(int(chunk["t0"][0])))
        before = _rows(contents, ops, layouts)
    last = _rows(contents, np.zeros(0, RECORD), layouts) if before is None else before
    yield _joined(last, choices.until(None))


def _joined(rows: Array, extensions: Array) -> memoryview:
    if not len(extensions):
        return rows.view(np.uint8).data
    both = np.concatenate([rows.view("V256").ravel(), extensions.view("V256").ravel()])
    times = np.concatenate([rows["time"], extensions["time"]])
    return both[np.argsort(times, kind="stable")].view(np.uint8).data


def _rows(contents: RingContents, spans: Array, layouts: "_Layouts") -> Array:
    """Return the records of `spans`, of `TRACE`."""
    rows = np.zeros(len(spans), TRACE)
    rows["layer"] = _NO_LAYER
    as_words = rows.view(_WORDS)
    for build, mine, nodes in contents.by_build(spans):
        as_words[mine] = layouts.templates(build).view(_WORDS)[nodes]
    places = contents.places(spans["graph"])
    rows["token"] = np.append(contents.steps, 0)[places]
    rows["phase"] = np.append(contents.phases == Phase.GENERATE, False)[places]
    rows["time"] = spans["t0"]
    rows["op"] = np.where(spans["op"] < _EXPERTS_OP, spans["op"], 255)
    duration = np.where(spans["extra"] & RECORD_BEGIN, 0, spans["op_ns"])
    wide = duration.astype("<u8").reshape(-1, 1).view("u1").reshape(-1, 8)
    rows["duration"] = wide[:, :5]
    rows["thread"] = contents.threads(spans["lane"])
    for slot, name in enumerate(("wait_ns", "node", "graph", "extra")):
        rows["sources"]["more"][:, slot] = spans[name]
    return rows


_WORDS = np.dtype(("<u8", TRACE.itemsize // 8))
"""What records are copied as: numpy copies those of a structure field by field."""


class _Layouts:
    """Cache of record templates by build."""

    def __init__(self, has_names: bool) -> None:
        self._has_names = has_names
        self._layouts: OrderedDict[int, _Layout] = OrderedDict()

    def templates(self, build: Build) -> Array:
        """Return a record of each node, of `TRACE`, without times and durations."""
        layout = self._layout(build)
        rows, tensors = layout.rows.copy(), build.tensors
        is_used = layout.used >= 0
        used, is_weight = layout.used[is_used], layout.is_weight[is_used]
        sources = rows["sources"]
        sources["pointer"][is_used] = tensors["data"][used]
        sources["size"][is_used] = np.minimum(tensors["bytes"][used], UNKNOWN_U32)
        place = np.where(is_weight, tensors["offset"][used], tensors["buffer"][used])
        sources["place"][is_used] = place
        return rows

    def _layout(self, build: Build) -> _Layout:
        whole = build.whole if build.whole >= 0 else build.head.build
        layout = self._layouts.pop(whole, None)
        if layout is None:
            layout = _layout(build, has_names=self._has_names)
        self._layouts[whole] = layout
        if len(self._layouts) > _MAX_LAYOUTS:
            self._layouts.popitem(last=False)
        return layout


def _layout(build: Build, *, has_names: bool) -> _Layout:
    tensors, n = build.tensors, build.head.n_nodes
    names = np.array(
        [name.encode() if has_names else b"" for name in build.names] or [b""]
    )
    layers = np.where(tensors["layer"] < 0, _NO_LAYER, tensors["layer"])
    layers = np.minimum(layers, _NO_LAYER)
    used = np.full((n, 4), -1, np.int64)
    for node in range(n):
        first = _sources(build, node)[:4]
        used[node, : len(first)] = first
    is_used = used >= 0
    read = used[is_used]
    is_weight = tensors["flags"] & TensorFlag.WEIGHT != 0
    rows = np.zeros(n, TRACE)
    rows["name"], rows["layer"] = names[:n], layers[:n]
    rows["n_sources"] = is_used.sum(axis=1)
    sources = rows["sources"]
    sources["name"][is_used] = names[read]
    sources["layer"][is_used] = layers[read]
    sources["memory"][is_used] = np.where(is_weight[read], _DISK, _BUFFER)
    sources["type"][is_used] = np.minimum(tensors["type"][read], 255)
    index = np.where(is_weight[read], tensors["weight"][read], UNKNOWN_U32)
    sources["index"][is_used] = index
    weights = np.zeros((n, 4), np.bool_)
    weights[is_used] = is_weight[read]
    return _Layout(rows, used, weights)


def _sources(build: Build, node: int) -> list[int]:
    """Return the sources of a node, with the weight of an op fused into it."""
    n = len(build.tensors)
    used = [int(s) for s in build.tensors[node]["sources"] if s < n]
    after = node + 1
    if after < build.head.n_nodes:
        fused = build.tensors[after]
        if fused["flags"] & TensorFlag.FUSED:
            used += [
                int(s)
                for s in fused["sources"]
                if s < n and build.tensors[int(s)]["flags"] & TensorFlag.WEIGHT
            ]
    return used


# ---- choices of experts ----


class _Choices:
    """The extension records, ordered by time."""

    def __init__(self, contents: RingContents) -> None:
        self._contents = contents
        frames = contents.events.where(FrameType.EXPERTS, FrameType.ROUTER)
        times = contents.events.times(frames)
        order = np.argsort(times, kind="stable")
        self._frames, self._times, self._n = frames[order], times[order], 0

    def until(self, time: int | None) -> Array:
        """Return the next ones before a time; None = all."""
        end = len(self._times)
        if time is not None:
            end = int(np.searchsorted(self._times, np.uint64(time)))
        part, self._n = self._frames[self._n : end], max(self._n, end)
        records = [
            record
            for number in part.tolist()
            for record in _choice_records(
                self._contents, self._contents.events.event(number)
            )
        ]
        return np.concatenate(records) if records else np.zeros(0, _CHOICE)


def count_choices(contents: RingContents) -> int:
    """Return the number of extension records."""
    n = 0
    for kind, bytes_each, capacity in (
        (FrameType.EXPERTS, 4, _MAX_EXPERTS), (FrameType.ROUTER, 8, _MAX_ROUTED),
    ):  # fmt: skip
        frames = contents.events.where(kind)
        heads = contents.events.structs(frames, _EXPERTS)
        used, rows = heads["used"].astype(np.int64), heads["rows"].astype(np.int64)
        n_bytes = contents.events.body_bytes(frames) - _EXPERTS.itemsize
        is_good = (
            (used > 0) & (used <= capacity) & (used * rows * bytes_each <= n_bytes)
        )
        is_good &= (heads["layer"] >= 0) & (heads["layer"] < _NO_LAYER)
        is_good &= contents.places(heads["graph"]) >= 0
        per_record = np.minimum(capacity // np.maximum(used, 1), 255)
        n += int(-(-rows // np.maximum(per_record, 1))[is_good].sum())
    return n


_EXPERTS = DTYPES["event_experts"]


def _choice_records(contents: RingContents, event: Frame) -> Iterator[Array]:
    try:
        head, ids, raw_scores = experts_body(event)
    except RingError:
        return
    used, rows = head.used, head.rows
    is_router = event.type == FrameType.ROUTER
    capacity = _MAX_ROUTED if is_router else _MAX_EXPERTS
    place = int(contents.places(np.array([head.graph]))[0])
    if place < 0 or not 0 < used <= capacity or not 0 <= head.layer < _NO_LAYER:
        return
    choices = np.frombuffer(ids, "<i4").reshape(rows, used).astype(np.uint16)
    if is_router:
        scores = np.frombuffer(raw_scores, "<f4").reshape(rows, used)
        scaled = np.rint(np.clip(np.nan_to_num(scores), 0, 1) * 0xFFFF)
        choices = np.stack([choices, scaled.astype(np.uint16)], axis=-1)
    per_record = min(capacity // used, 255)
    name = _node_name(contents, place, head.node)
    for first in range(0, rows, per_record):
        part = choices[first : first + per_record]
        record = np.zeros(1, _CHOICE)
        record["time"], record["token"] = event.time, contents.steps[place]
        record["layer"], record["name"] = head.layer, name
        record["phase"] = contents.phases[place] == Phase.GENERATE
        record["row"] = min(head.first_row + first, 0xFFFF)
        record["op"] = _ROUTER_OP if is_router else _EXPERTS_OP
        record["used"], record["rows"] = used, len(part)
        record["of"] = min(head.n_experts, 0xFFFF)
        record["list"][0, : part.size] = part.ravel()
        yield record


def _node_name(contents: RingContents, place: int, node: int) -> bytes:
    names = contents.builds.names(int(contents.graphs["build"][place]))
    return names[node].encode() if node < len(names) else b""
