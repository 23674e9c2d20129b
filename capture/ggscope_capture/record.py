"""What a ring told, as files that others read: 256-byte records, `.ggmlviz`, DOT.

Everything here is computed from frames and records alone, so that a live run, a run
that ended and the ring of a killed program give the same files.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring import (
    RECORD,
    RECORD_BEGIN,
    RECORD_GRAPH,
    ROW_OUTPUT,
    ROW_PHASE,
    STRUCTS,
    UNKNOWN_U32,
    UNKNOWN_U64,
    Event,
    Frame,
    Host,
    Knowledge,
    Mode,
    Phase,
    RingError,
    TensorFlag,
    text_at,
)

Array = npt.NDArray[Any]

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
_LANES_OF_SLOT = 512
_DISK, _BUFFER = 0, 1
_MAX_LABEL = 63


@dataclass(frozen=True)
class Build:
    """The nodes of one graph, and what they read.

    Attributes
    ----------
    head : ``def_build``.
    tensors : (n_tensors,) of ``def_tensor``; the nodes first, in their order.
    names : of the tensors.
    """

    head: np.void
    tensors: Array
    names: list[str]


@dataclass(frozen=True)
class Ubatch:
    """The tokens that are computed at once.

    Attributes
    ----------
    head : ``event_ubatch``.
    time : when it was told first.
    tokens, positions : as the graph reads them; of M-RoPE several positions each.
    rows : ``ubatch_rows``; None where an older tracer told nothing of single tokens.
    phases : `Phase` of each token.
    outputs : whether each token's output is asked for.
    sequences : those that each token is of.
    """

    head: np.void
    time: int
    tokens: list[int]
    positions: list[int]
    rows: np.void | None = None
    phases: list[int] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)
    sequences: list[list[int]] = field(default_factory=list)

    @classmethod
    def of(cls, event: Event) -> "Ubatch":
        """Return what an event tells; raises RingError where it is cut."""
        head, body = event.struct("event_ubatch")
        n, n_positions = int(head["n_tokens"]), int(head["n_positions"])
        size = 4 * (n + n_positions)
        if size > len(body):
            raise RingError("a ubatch is cut")
        listed = np.frombuffer(body, "<i4", n + n_positions).tolist()
        plain = cls(head, event.time, listed[:n], listed[n:])
        dtype = STRUCTS["ubatch_rows"]
        if len(body) - size < dtype.itemsize:
            return plain
        rows = np.frombuffer(body, dtype, 1, size)[0]
        at, n, n_all = size + dtype.itemsize, int(rows["n_rows"]), rows["n_sequences"]
        counts_at = at + n + -n % 4
        if counts_at + 4 * (n + int(n_all)) > len(body):
            raise RingError("the rows of a ubatch are cut")
        bits = np.frombuffer(body, "u1", n, at)
        counts = np.frombuffer(body, "<u4", n, counts_at).astype(np.int64)
        if counts.sum() != n_all:
            raise RingError("the sequences of a ubatch are not those of its rows")
        sequences = np.frombuffer(body, "<i4", int(n_all), counts_at + 4 * n)
        return replace(
            plain,
            rows=rows,
            phases=(bits & ROW_PHASE).tolist(),
            outputs=((bits & ROW_OUTPUT) != 0).tolist(),
            sequences=[
                part.tolist() for part in np.split(sequences, np.cumsum(counts)[:-1])
            ]
            if n
            else [],
        )


@dataclass(frozen=True)
class Told:
    """All that a ring told, by what it is.

    Attributes
    ----------
    records : of `RECORD`, in the order of their beginnings.
    graphs : ``event_graph`` by the number of the graph.
    ubatches : by their number.
    lanes : of `LANE`.
    """

    records: Array
    lanes: Array
    builds: dict[int, Build]
    graphs: dict[int, np.void]
    ends: dict[int, tuple[int, int]]
    begins: dict[int, int]
    ops: dict[int, str]
    definitions: Sequence[Event]
    events: Sequence[Event]
    ubatches: dict[int, Ubatch] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        definitions: Sequence[Event],
        events: Sequence[Event],
        records: Array,
        lanes: Array,
    ) -> "Told":
        """Take what `Ring` gave; raises RingError where a frame is damaged."""
        builds, ops = {}, {}
        for event in definitions:
            if event.type == Frame.BUILD:
                build = _build(event)
                builds[int(build.head["build"])] = build
            elif event.type == Frame.OP:
                ops[_number(event)] = text_at(event.body, 4)[0]
        graphs, ends, begins = {}, {}, {}
        ubatches: dict[int, Ubatch] = {}
        for event in events:
            if event.type == Frame.GRAPH_BEGIN:
                graph, _ = event.struct("event_graph")
                graphs[int(graph["graph"])] = graph
                begins[int(graph["graph"])] = event.time
            elif event.type == Frame.GRAPH_END and len(event.body) >= 16:
                number, status = struct.unpack_from("<Ii", event.body)
                ends[number] = (event.time, status)
            elif event.type == Frame.UBATCH:
                ubatch = Ubatch.of(event)
                first = ubatches.get(int(ubatch.head["ubatch"]), ubatch)
                ubatches[int(ubatch.head["ubatch"])] = replace(ubatch, time=first.time)
        order = np.argsort(records["t0"], kind="stable")
        return cls(
            records[order], lanes, builds, graphs, ends, begins, ops, definitions,
            events, ubatches,
        )  # fmt: skip

    def build_of(self, graph: int) -> Build | None:
        """Return what the nodes of a graph are, where that was told."""
        told = self.graphs.get(graph)
        return None if told is None else self.builds.get(int(told["build"]))

    def by_build(self, spans: Array) -> Iterator[tuple[Build, Array, Array]]:
        """Give each build with the rows of `spans` that are its nodes', and which."""
        numbers = np.array(sorted(self.graphs), np.int64)
        built = [int(self.graphs[number]["build"]) for number in numbers.tolist()]
        of_graph = np.array([*built, -1], np.int64)
        of_span = of_graph[_places(numbers, spans["graph"])]
        order = np.argsort(of_span, kind="stable")
        bounds = np.flatnonzero(np.diff(of_span[order])) + 1
        for rows in np.split(order, bounds):
            build = self.builds.get(int(of_span[rows[0]])) if len(rows) else None
            if build is None:
                continue
            nodes = spans["node"][rows].astype(np.int64)
            is_known = nodes < int(build.head["n_nodes"])
            yield build, rows[is_known], nodes[is_known]

    def threads(self, lanes: Array) -> npt.NDArray[np.int64]:
        """Return a number of its own for every thread of every slot."""
        known = np.minimum(lanes.astype(np.int64), max(len(self.lanes) - 1, 0))
        if not len(self.lanes):
            return known
        slot = self.lanes["slot"][known].astype(np.int64)
        return np.asarray(slot * _LANES_OF_SLOT + self.lanes["ith"][known], np.int64)


def _places(numbers: Array, wanted: Array) -> npt.NDArray[np.int64]:
    """Return where each wanted number stands among the sorted ones, or -1."""
    if not len(numbers):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[at] == wanted, at, -1).astype(np.int64)


def _number(event: Event) -> int:
    if len(event.body) < 4:
        raise RingError("a definition is cut")
    return int.from_bytes(event.body[:4], "little")


_SHAPES: dict[int, tuple[int, int]] = {
    Frame.PROGRAM: (4, 3), Frame.OP: (4, 1), Frame.TYPE: (16, 1),
    Frame.MODEL: (24, 1), Frame.NOTE: (4, 1), Frame.BUFFER_EVENT: (16, 0),
    Frame.WEIGHT: (STRUCTS["def_weight"].itemsize, 1),
    Frame.BUFFER: (STRUCTS["def_buffer"].itemsize, 1),
    Frame.BACKEND: (STRUCTS["def_backend"].itemsize, 3),
    Frame.CHECK: (STRUCTS["def_check"].itemsize, 0),
    Frame.GRAPH_BEGIN: (STRUCTS["event_graph"].itemsize, 0),
    Frame.GRAPH_END: (16, 0),
    Frame.UBATCH: (STRUCTS["event_ubatch"].itemsize, 0),
    Frame.EXPERTS: (STRUCTS["event_experts"].itemsize, 0),
    Frame.ROUTER: (STRUCTS["event_experts"].itemsize, 0),
    Frame.HOST: (STRUCTS["event_host"].itemsize, 0),
    Frame.COPY: (STRUCTS["event_copy"].itemsize, 0),
}  # fmt: skip
"""Bytes before the texts of a frame, and how many texts there are."""


def is_whole(event: Event) -> bool:
    """Tell whether a frame holds what its type says; unknown types do."""
    at, n_texts = _SHAPES.get(event.type, (0, 0))
    try:
        for _ in range(n_texts):
            _, at = text_at(event.body, at)
        if event.type == Frame.BUILD:
            _build(event)
        elif event.type == Frame.UBATCH:
            Ubatch.of(event)
    except RingError:
        return False
    return at <= len(event.body)


def _build(event: Event) -> Build:
    dtype = STRUCTS["def_tensor"]
    if len(event.body) < STRUCTS["def_build"].itemsize:
        raise RingError("a build is cut")
    head, body = event.struct("def_build")
    n = int(head["n_tensors"])
    if n * dtype.itemsize > len(body) or head["n_nodes"] > n:
        raise RingError("a build is cut")
    tensors, names, at = np.zeros(n, dtype), [], 0
    for index in range(n):
        if at + dtype.itemsize + 2 > len(body):
            raise RingError("a build is cut")
        tensors[index] = np.frombuffer(body, dtype, 1, at)[0]
        name, end = text_at(body, at + dtype.itemsize)
        names.append(name)
        at = end + (at - end) % 8
    return Build(head, tensors, names)


def _sources(build: Build, node: int) -> list[int]:
    """Return what a node reads, with the weight of the one that runs within it."""
    n = len(build.tensors)
    used = [int(s) for s in build.tensors[node]["sources"] if s < n]
    after = node + 1
    if after < build.head["n_nodes"]:
        fused = build.tensors[after]
        if fused["flags"] & TensorFlag.FUSED:
            used += [
                int(s)
                for s in fused["sources"]
                if s < n and build.tensors[int(s)]["flags"] & TensorFlag.WEIGHT
            ]
    return used


def _templates(build: Build, *, has_names: bool) -> Array:
    """Return what is the same in every record of each node."""
    tensors, n = build.tensors, int(build.head["n_nodes"])
    rows = np.zeros(n, TRACE)
    names = [name.encode() if has_names else b"" for name in build.names]
    layers = np.where(tensors["layer"] < 0, _NO_LAYER, tensors["layer"])
    layers = np.minimum(layers, _NO_LAYER)
    for node in range(n):
        row = rows[node]
        row["name"], row["layer"] = names[node], layers[node]
        used = _sources(build, node)[:4]
        row["n_sources"] = len(used)
        for slot, number in zip(row["sources"], used, strict=False):
            source = tensors[number]
            is_weight = bool(source["flags"] & TensorFlag.WEIGHT)
            slot["name"] = names[number]
            slot["pointer"] = source["data"]
            slot["size"] = min(int(source["bytes"]), UNKNOWN_U32)
            slot["layer"] = layers[number]
            slot["memory"] = _DISK if is_weight else _BUFFER
            slot["type"] = min(int(source["type"]), 255)
            slot["place"] = source["offset"] if is_weight else source["buffer"]
            slot["index"] = source["weight"] if is_weight else UNKNOWN_U32
    return rows


def to_records(told: Told, *, has_names: bool = True) -> bytes:
    """Return the records of 256 bytes: one per op and lane, and the experts' choices.

    Whole graphs (`RECORD_GRAPH`) are no ops and are left out. An op has a number of one
    byte here; larger ones, and those of extension records, become 255.
    """
    spans = told.records[told.records["extra"] & RECORD_GRAPH == 0]
    rows = np.zeros(len(spans), TRACE)
    rows["layer"] = _NO_LAYER
    for build, mine, nodes in told.by_build(spans):
        rows[mine] = _templates(build, has_names=has_names)[nodes]
    numbers = np.array(sorted(told.graphs), np.int64)
    heads = [told.graphs[number] for number in numbers.tolist()]
    places = _places(numbers, spans["graph"])
    rows["token"] = np.array([*map(_step, heads), 0], np.int64)[places]
    phases = [_phase(told, head) == Phase.GENERATE for head in heads]
    rows["phase"] = np.array([*phases, 0], np.uint8)[places]
    rows["time"] = spans["t0"]
    rows["op"] = np.where(spans["op"] < _EXPERTS_OP, spans["op"], 255)
    duration = np.where(spans["extra"] & RECORD_BEGIN, 0, spans["op_ns"])
    wide = duration.astype("<u8").reshape(-1, 1).view("u1").reshape(-1, 8)
    rows["duration"] = wide[:, :5]
    rows["thread"] = told.threads(spans["lane"])
    for slot, name in enumerate(("wait_ns", "node", "graph", "extra")):
        rows["sources"]["more"][:, slot] = spans[name]
    extensions = _choices(told)
    if not len(extensions):
        return rows.tobytes()
    both = np.concatenate([rows.view("V256").ravel(), extensions.view("V256").ravel()])
    times = np.concatenate([rows["time"], extensions["time"]])
    return both[np.argsort(times, kind="stable")].tobytes()


def _step(graph: np.void) -> int:
    """Return the decode step that a graph belongs to."""
    step = int(graph["ubatch"])
    return step if step != UNKNOWN_U32 else int(graph["graph"])


def _phase(told: Told, graph: np.void) -> int:
    """Return the phase of a graph; what its ubatch told last counts."""
    ubatch = told.ubatches.get(int(graph["ubatch"]))
    return int(graph["phase"] if ubatch is None else ubatch.head["phase"])


def _choices(told: Told) -> Array:
    made = []
    for event in told.events:
        if event.type not in (Frame.EXPERTS, Frame.ROUTER):
            continue
        head, body = event.struct("event_experts")
        used, rows = int(head["used"]), int(head["rows"])
        is_router = event.type == Frame.ROUTER
        n = used * rows
        graph = told.graphs.get(int(head["graph"]))
        if n * (8 if is_router else 4) > len(body) or graph is None:
            continue
        room = 52 if is_router else 104
        if not 0 < used <= room or not 0 <= head["layer"] < _NO_LAYER:
            continue
        listed = np.frombuffer(body, "<i4", n).reshape(rows, used).astype(np.uint16)
        if is_router:
            scores = np.frombuffer(body, "<f4", n, 4 * n).reshape(rows, used)
            scaled = np.rint(np.clip(np.nan_to_num(scores), 0, 1) * 0xFFFF)
            listed = np.stack([listed, scaled.astype(np.uint16)], axis=-1)
        per_record = min(room // used, 255)
        build = told.build_of(int(head["graph"]))
        node = int(head["node"])
        for first in range(0, rows, per_record):
            part = listed[first : first + per_record]
            record = np.zeros(1, _CHOICE)
            record["time"], record["token"] = event.time, _step(graph)
            record["layer"] = head["layer"]
            record["phase"] = _phase(told, graph) == Phase.GENERATE
            record["row"] = min(int(head["first_row"]) + first, 0xFFFF)
            record["op"] = _ROUTER_OP if is_router else _EXPERTS_OP
            record["used"], record["rows"] = used, len(part)
            record["of"] = min(int(head["n_experts"]), 0xFFFF)
            if build is not None and node < len(build.names):
                record["name"] = build.names[node].encode()
            record["list"][0, : part.size] = part.ravel()
            made.append(record)
    return np.concatenate(made) if made else np.zeros(0, _CHOICE)


# ---- the sidecar ----


SIDECAR_VERSION = 2


def to_sidecar(told: Told, control: Any) -> dict[str, Any]:
    """Return what the records have no room for, but the builds, by its keys.

    ``sidecar.pieces`` writes it.

    Parameters
    ----------
    control : the control page of the ring, of ``ring_control``.
    """
    n_choices = len(_choices(told))
    is_graph = told.records["extra"] & RECORD_GRAPH != 0
    facts: dict[str, Any] = {
        "format": "ggscope-capture",
        "version": SIDECAR_VERSION,
        "records": int(np.count_nonzero(~is_graph)),
        "extension_records": n_choices,
        "graph_records": int(np.count_nonzero(is_graph)),
        "graphs": len(told.graphs),
        "mode": Mode(int(control["mode"])).name.lower()
        if int(control["mode"]) in set(Mode)
        else "unknown",
        "clock": {
            "unit": "ns",
            "monotonic": int(control["t0_mono"]),
            "real": int(control["t0_real"]),
        },
        "pid": int(control["pid"]),
        "dropped": int(told.lanes["dropped"].sum()) + int(control["no_lane"]),
        "dropped_events": int(control["events_dropped"]),
        "unnamed_ops": int(control["no_node"]),
        "lost_definitions": int(control["defs_lost"]),
        "skipped_graphs": int(control["skipped"]),
        "ops": {str(number): name for number, name in sorted(told.ops.items())},
    }
    facts.update(_from_definitions(told))
    facts.update(_from_events(told))
    whole = told.records[is_graph]
    facts["whole_graphs"] = [
        {"thread": thread, "graph": _known(row["graph"]), "begin": int(row["t0"]),
         "end": int(row["t0"]) + int(row["op_ns"])}
        for row, thread in zip(whole, told.threads(whole["lane"]).tolist(), strict=True)
    ]  # fmt: skip
    used = np.flatnonzero(told.lanes["state"])
    threads = told.threads(used.astype(np.uint16))
    facts["threads"] = [
        {
            "thread": int(thread),
            "slot": int(told.lanes["slot"][lane]),
            "index": int(told.lanes["ith"][lane]),
            "tid": int(told.lanes["tid"][lane]),
        }
        for lane, thread in zip(used.tolist(), threads.tolist(), strict=True)
    ]
    return facts


def _known(number: Any) -> int | None:
    value = int(number)
    return None if value in (UNKNOWN_U32, UNKNOWN_U64) else value


def _from_definitions(told: Told) -> dict[str, Any]:
    found: dict[str, Any] = {
        "models": [], "buffers": [], "backends": [], "notes": [], "checks": [],
    }  # fmt: skip
    buffers: dict[int, dict[str, Any]] = {}
    weights: dict[int, dict[str, list[Any]]] = {}
    for event in told.definitions:
        if event.type == Frame.PROGRAM:
            program, at = text_at(event.body, 4)
            version, at = text_at(event.body, at)
            line, _ = text_at(event.body, at)
            found["program"], found["ggml"] = program, version
            found["command"] = line.split("\0")
        elif event.type == Frame.MODEL:
            number, n, data, size = struct.unpack_from("<IIQQ", event.body)
            found["models"].append(
                {"model": number, "path": text_at(event.body, 24)[0],
                 "tensors": n, "data_offset": data, "size": size,
                 "weights": weights.setdefault(number, {
                     "index": [], "name": [], "type": [], "shape": [], "offset": [],
                     "size": [],
                 })}
            )  # fmt: skip
        elif event.type == Frame.WEIGHT:
            weight, rest = event.struct("def_weight")
            columns = weights.get(int(weight["model"]))
            if columns is not None:
                columns["name"].append(text_at(rest)[0])
                columns["shape"].append(weight["ne"].tolist())
                for key in ("index", "type", "offset", "size"):
                    columns[key].append(int(weight[key]))
        elif event.type == Frame.BUFFER:
            told_buffer, rest = event.struct("def_buffer")
            number = int(told_buffer["buffer"])
            buffers[number] = {
                "buffer": number, "name": text_at(rest)[0],
                "size": int(told_buffer["size"]), "base": int(told_buffer["base"]),
                "pointer": int(told_buffer["pointer"]),
                "usage": _known(told_buffer["usage"]), "seen": event.time,
                "allocated": None, "freed": None,
            }  # fmt: skip
        elif event.type == Frame.BUFFER_EVENT:
            number, kind, usage = struct.unpack_from("<IIQ", event.body)
            buffer = buffers.get(number, {})
            if kind == 3:
                buffer["usage"] = usage
            else:
                buffer["allocated" if kind == 1 else "freed"] = event.time
        elif event.type == Frame.BACKEND:
            backend, rest = event.struct("def_backend")
            name, at = text_at(rest)
            device, at = text_at(rest, at)
            found["backends"].append(
                {"backend": int(backend["backend"]), "name": name, "device": device,
                 "description": text_at(rest, at)[0],
                 "pointer": int(backend["pointer"])}
            )  # fmt: skip
        elif event.type == Frame.NOTE:
            found["notes"].append(text_at(event.body, 4)[0])
        elif event.type == Frame.CHECK:
            check, _ = event.struct("def_check")
            names = [
                name for name in cast(Any, check.dtype.names) if name != "reserved"
            ]
            found["checks"].append({name: int(check[name]) for name in names})
    found["buffers"] = list(buffers.values())
    return found


def _from_events(told: Told) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ubatches": [*map(_ubatch_facts, told.ubatches.values())],
        "host": [],
        "copies": [],
    }
    for event in told.events:
        if event.type == Frame.HOST:
            host, _ = event.struct("event_host")
            kind = int(host["kind"])
            name = Host(kind).name.lower() if kind in set(Host) else str(kind)
            fields = ("tid", "begin", "end", "context", "bytes", "ubatch", "count")
            found["host"].append(
                {"kind": name, **{key: _known(host[key]) for key in fields}}
            )
        elif event.type == Frame.COPY:
            copy, _ = event.struct("event_copy")
            places = ("begin", "end", "bytes", "from_buffer", "to_buffer", "context")
            name = bytes(copy["name"]).decode("utf-8", "replace")
            found["copies"].append(
                {"name": name, **{key: _known(copy[key]) for key in places}}
            )
    found["graph_list"] = [
        {
            **{key: _known(graph[key]) for key in (
                "graph", "build", "ubatch", "slot", "n_threads", "split", "n_nodes",
                "context", "backend", "backend_number",
            )},
            "phase": _phase(told, graph),
            "begin": told.begins[number],
            "end": told.ends.get(number, (None, None))[0],
            "status": told.ends.get(number, (None, None))[1],
        }
        for number, graph in sorted(told.graphs.items())
    ]  # fmt: skip
    return found


def _ubatch_facts(ubatch: Ubatch) -> dict[str, Any]:
    """Return what a sidecar says of a ubatch."""
    facts = {
        "ubatch": int(ubatch.head["ubatch"]),
        "time": ubatch.time,
        "context": int(ubatch.head["context"]),
        "tokens": ubatch.tokens,
        "positions": ubatch.positions,
        "phase": int(ubatch.head["phase"]),
    }
    rows = ubatch.rows
    if rows is None:
        return facts
    knows = Knowledge(
        int(rows["knowledge"]) & (Knowledge.SEQUENCES | Knowledge.OUTPUTS)
    )
    outputs = [row for row, is_output in enumerate(ubatch.outputs) if is_output]
    counts = [len(numbers) for numbers in ubatch.sequences]
    return facts | {
        "decode": _known(rows["decode"]),
        "owner": int(rows["owner"]) or None,
        "phases": ubatch.phases,
        "outputs": outputs if Knowledge.OUTPUTS in knows else None,
        "sequences": [number for numbers in ubatch.sequences for number in numbers],
        "sequence_counts": None if set(counts) <= {1} else counts,
        "sequences_from": "batch" if Knowledge.SEQUENCES in knows else "positions",
    }


# ---- .ggmlviz ----

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


def to_ggmlviz(told: Told, *, has_names: bool = True) -> bytes:
    """Return the stream of events, in the order in which they really were.

    An op ends where it waits for others; waits have no events of their own, because
    two numberings of those exist.
    """
    records = told.records[told.records["extra"] & RECORD_BEGIN == 0]
    spans = records[records["extra"] & RECORD_GRAPH == 0]
    events: list[Array] = []
    labels: list[Array] = []
    texts: list[bytes] = [b""]
    pointers, sizes = np.zeros(len(spans), np.uint64), np.zeros(len(spans), np.uint64)
    label = np.zeros(len(spans), np.int64)
    for build, mine, nodes in told.by_build(spans):
        pointers[mine] = build.tensors["pointer"][nodes]
        sizes[mine] = build.tensors["bytes"][nodes]
        if has_names:
            label[mine] = nodes + len(texts)
            texts += [_label(name) for name in build.names[: build.head["n_nodes"]]]
    threads = told.threads(spans["lane"])
    end_ns = spans["t0"] + spans["op_ns"]
    order = np.arange(len(spans), dtype=np.int64)
    rank: list[npt.NDArray[np.int64]] = []
    for kind, times in ((_OP_BEGIN, spans["t0"]), (_OP_END, end_ns)):
        part = np.zeros(len(spans), _VIZ)
        part["type"], part["time"], part["thread"] = kind, times, threads
        part["pointer"], part["first"], part["size"] = pointers, spans["op"], sizes
        events.append(part)
        labels.append(label)
        rank.append(2 * order + (kind == _OP_END))
    for part in (_graph_events(told, spans, end_ns), _buffer_events(told)):
        events.append(part)
        labels.append(np.zeros(len(part), np.int64))
        is_end = part["type"] == _GRAPH_END
        rank.append(np.where(is_end, 2 * len(spans) + 1, -1).astype(np.int64))
    return (
        b"GGMLVIZ1"
        + struct.pack("<I", 1)
        + _joined(
            np.concatenate(events), np.concatenate(labels), np.concatenate(rank), texts
        )
    )


def _label(name: str) -> bytes:
    """Return a name in as many bytes as readers expect, cut between characters."""
    return name.encode()[:_MAX_LABEL].decode("utf-8", "ignore").encode()


def _graph_events(told: Told, spans: Array, end_ns: Array) -> Array:
    """Return begin and end of every graph, on its first thread."""
    numbers, back = np.unique(spans["graph"], return_inverse=True)
    ends = np.zeros(len(numbers), np.uint64)
    np.maximum.at(ends, back, end_ns.astype(np.uint64))
    last = dict(zip(numbers.tolist(), ends.tolist(), strict=True))
    made = np.zeros(2 * len(told.graphs), _VIZ)
    n = 0
    for number, graph in sorted(told.graphs.items()):
        begin = told.begins[number]
        end = told.ends.get(number, (None, 0))[0]
        # A graph that was cut off has no end; the reader shows it as open.
        times = [begin] if end is None else [begin, max(end, last.get(number, 0))]
        is_cpu = number in last
        for kind, time in zip((_GRAPH_BEGIN, _GRAPH_END), times, strict=False):
            made[n]["type"], made[n]["time"] = kind, time
            made[n]["thread"] = int(graph["slot"]) * _LANES_OF_SLOT
            # A number for each build: graphs have no address that lasts.
            made[n]["pointer"] = int(graph["build"]) + 1
            made[n]["first"] = graph["n_nodes"]
            made[n]["second"] = graph["n_threads"]
            made[n]["size"] = 0 if is_cpu else graph["backend"]
            n += 1
    return made[:n]


def _buffer_events(told: Told) -> Array:
    buffers = _from_definitions(told)["buffers"]
    rows = [
        (kind, time, buffer["base"] or buffer["buffer"] + 1, buffer["size"])
        for buffer in buffers
        for kind, time in (
            (_ALLOCATED, buffer["allocated"]), (_FREED, buffer["freed"]),
        )
        if time is not None and buffer["size"] > 0
    ]  # fmt: skip
    made = np.zeros(len(rows), _VIZ)
    for index, (kind, time, pointer, size) in enumerate(rows):
        made[index]["type"], made[index]["time"] = kind, time
        made[index]["pointer"] = pointer
        made[index]["first"] = size & 0xFFFFFFFF
        made[index]["second"] = size >> 32
    return made


def _joined(events: Array, labels: Array, rank: Array, texts: list[bytes]) -> bytes:
    """Return the events one after another, each with its label, by time and rank."""
    order = np.lexsort((rank, events["time"]))
    events, labels = events[order], labels[order]
    lengths = np.array([len(text) for text in texts], np.int64)[labels]
    sizes = np.where(labels > 0, 4 + lengths, 0) + _VIZ.itemsize
    events["has_label"] = labels > 0
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), np.uint8)
    raw = events.view("u1").reshape(-1, _VIZ.itemsize)
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


# ---- DOT ----

_QUOTED = str.maketrans({'"': "'", "\\": "/", "\n": " ", "|": "/", "<": "(", ">": ")"})


def to_dot(told: Told, build: Build) -> str:
    """Return a build as ``ggml_graph_dump_dot`` writes graphs, with names of ops."""
    types = {
        _number(event): text_at(event.body, 16)[0]
        for event in told.definitions
        if event.type == Frame.TYPE
    }
    lines = ["digraph G {", "  newrank = true;", "  rankdir = TB;"]
    n_nodes, n = int(build.head["n_nodes"]), len(build.tensors)
    edges = []
    for index in range(n):
        tensor = build.tensors[index]
        kind = types.get(int(tensor["type"]), str(tensor["type"]))
        name = build.names[index].translate(_QUOTED)
        shape = [int(size) for size in tensor["ne"]]
        while len(shape) > 2 and shape[-1] == 1:
            shape.pop()
        if index < n_nodes:
            op = told.ops.get(int(tensor["op"]), str(tensor["op"]))
            colour, label = "white", f"{name} ({kind})|{index} {shape} | <x>{op}"
        else:
            colour = "pink"
            label = f"<x>{name} ({kind})|CONST {index - n_nodes} {shape}"
        lines.append(
            f'  "0x{int(tensor["pointer"]):x}" [ style = filled; fillcolor = {colour}; '
            f'shape = record; label="{label}"; ]'
        )
        for number, source in enumerate(tensor["sources"].tolist()):
            if source < n:
                ends = (build.tensors[source]["pointer"], tensor["pointer"])
                edges.append(
                    f'  "0x{int(ends[0]):x}" -> "0x{int(ends[1]):x}" '
                    f'[ arrowhead = vee; style = solid; label = "src {number}"; ]'
                )
    return "\n".join([*lines, *edges, "}", ""])


def joined(parts: Sequence[Array]) -> Array:
    """Return the records of several lanes as one array of `RECORD`."""
    return np.concatenate([np.zeros(0, RECORD), *parts])
