"""Sidecar content of a ring: everything that does not fit into its records.

Rows of large tables are generated while they are written: see `Rows`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ggscope_capture.record import count_choices
from ggscope_capture.ring_contents import RingContents, Ubatch, joined
from ggscope_capture.ring_format import (
    FRAMES,
    RECORD_GRAPH,
    UNKNOWN_U32,
    UNKNOWN_U64,
    BufferChange,
    DefBackend,
    DefBuffer,
    DefCheck,
    DefWeight,
    EventBuffer,
    FrameType,
    HostCall,
    Knowledge,
    Mode,
    Model,
    listed_frames,
    text_of,
    unpack,
)

SIDECAR_VERSION = 2
_GRAPH_KEYS = (
    "graph", "build", "ubatch", "slot", "n_threads", "split", "n_nodes", "context",
    "backend", "backend_number",
)  # fmt: skip
_HOST_KEYS = ("tid", "begin", "end", "context", "bytes", "ubatch", "count")
_MAX_COUNT = 1 << 56
Row = dict[str, Any]


class Rows:
    """Rows of a table, generated at each iteration."""

    def __init__(self, make: Callable[[], Iterator[Row]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Row]:
        return self._make()


def to_sidecar(contents: RingContents, control: Any) -> dict[str, Any]:
    """Return the sidecar without its builds.

    ``sidecar.sidecar_chunks`` writes it.

    Parameters
    ----------
    control : the control page of the ring, of ``ring_control``.
    """
    n_ops, whole = _graph_records(contents)
    mode = int(control["mode"])
    facts: dict[str, Any] = {
        "format": "ggscope-capture",
        "version": SIDECAR_VERSION,
        "records": n_ops,
        "extension_records": count_choices(contents),
        "graph_records": len(whole),
        "graphs": len(contents.graphs),
        "mode": Mode(mode).name.lower() if mode in set(Mode) else "unknown",
        "clock": {
            "unit": "ns",
            "monotonic": int(control["t0_mono"]),
            "real": int(control["t0_real"]),
        },
        "pid": int(control["pid"]),
        "dropped": sum(map(_counter, contents.lanes["dropped"].tolist()))
        + _counter(control["no_lane"]),
        "no_lane": _counter(control["no_lane"]),
        "dropped_events": _counter(control["events_dropped"]),
        "unnamed_ops": _counter(control["no_node"]),
        "lost_definitions": _counter(control["defs_lost"]),
        "skipped_graphs": _counter(control["skipped"]),
        "ops": {str(number): name for number, name in sorted(contents.ops.items())},
    }
    facts.update(from_definitions(contents))
    facts["ubatches"] = Rows(lambda: map(_ubatch_facts, contents.ubatches()))
    facts["host"] = Rows(lambda: _hosts(contents))
    for kind, listed in listed_frames():
        facts[listed.key] = Rows(partial(_listed, contents, kind))
    facts["graph_list"] = Rows(lambda: _graphs(contents))
    threads = contents.threads(whole["lane"]).tolist()
    facts["whole_graphs"] = [
        {"thread": thread, "graph": _known(row["graph"]), "begin": int(row["t0"]),
         "end": int(row["t0"]) + int(row["op_ns"])}
        for row, thread in zip(whole, threads, strict=True)
    ]  # fmt: skip
    used = np.flatnonzero(contents.lanes["state"])
    facts["threads"] = [
        {
            "thread": int(thread),
            "slot": int(contents.lanes["slot"][lane]),
            "index": int(contents.lanes["ith"][lane]),
            "tid": int(contents.lanes["tid"][lane]),
        }
        for lane, thread in zip(
            used.tolist(),
            contents.threads(used.astype(np.uint16)).tolist(),
            strict=True,
        )
    ]
    return facts


def _graph_records(contents: RingContents) -> tuple[int, Any]:
    """Return the number of records of ops, and the records of whole graphs by begin."""
    n_ops, parts = 0, []
    for chunk in contents.records.chunks():
        is_graph = chunk["extra"] & RECORD_GRAPH != 0
        n_ops += int(np.count_nonzero(~is_graph))
        parts.append(chunk[is_graph])
    whole = joined(parts)
    return n_ops, whole[np.argsort(whole["t0"], kind="stable")]


def _counter(number: Any) -> int:
    """Return a counter; 0 if it is implausibly large."""
    return int(number) if int(number) < _MAX_COUNT else 0


def _known(number: Any) -> int | None:
    value = int(number)
    return None if value in (UNKNOWN_U32, UNKNOWN_U64) else value


def from_definitions(contents: RingContents) -> dict[str, Any]:
    """Return the sidecar keys of models, buffers, backends, notes, checks, program."""
    facts: dict[str, Any] = {
        "models": [], "buffers": [], "backends": [], "notes": [], "checks": [],
    }  # fmt: skip
    buffers: dict[int, dict[str, Any]] = {}
    weights: dict[int, dict[str, list[Any]]] = {}
    for event in contents.definitions:
        if event.type == FrameType.PROGRAM:
            facts["program"], facts["ggml"], line = event.texts()
            facts["command"] = line.split("\0")
        elif event.type == FrameType.MODEL:
            model = unpack(Model, event.body)
            facts["models"].append(
                {"model": model.model, "path": event.text(),
                 "tensors": model.n_tensors, "data_offset": model.data_offset,
                 "size": model.size, "weights": weights.setdefault(model.model, {
                     "index": [], "name": [], "type": [], "shape": [], "offset": [],
                     "size": [],
                 })}
            )  # fmt: skip
        elif event.type == FrameType.WEIGHT:
            weight = unpack(DefWeight, event.body)
            columns = weights.get(weight.model)
            if columns is not None:
                columns["name"].append(event.text())
                columns["shape"].append([*weight.ne])
                for key in ("index", "type", "offset", "size"):
                    columns[key].append(getattr(weight, key))
        elif event.type == FrameType.BUFFER:
            buffer = unpack(DefBuffer, event.body)
            earlier = buffers.get(buffer.buffer, {})
            buffers[buffer.buffer] = {
                "buffer": buffer.buffer, "name": event.text(),
                "size": buffer.size, "base": buffer.base, "pointer": buffer.pointer,
                "usage": _known(buffer.usage), "seen": event.time,
                "allocated": earlier.get("allocated"), "freed": earlier.get("freed"),
            }  # fmt: skip
        elif event.type == FrameType.BUFFER_EVENT:
            number, kind, usage = unpack(EventBuffer, event.body)
            changed = buffers.get(number, {})
            if kind == BufferChange.USAGE:
                changed["usage"] = usage
            else:
                is_new = kind == BufferChange.ALLOCATED
                changed["allocated" if is_new else "freed"] = event.time
        elif event.type == FrameType.BACKEND:
            backend = unpack(DefBackend, event.body)
            name, device, description = event.texts()
            facts["backends"].append(
                {"backend": backend.backend, "name": name, "device": device,
                 "description": description, "pointer": backend.pointer}
            )  # fmt: skip
        elif event.type == FrameType.NOTE:
            facts["notes"].append(event.text())
        elif event.type == FrameType.CHECK:
            check = unpack(DefCheck, event.body)._asdict()
            del check["reserved"]
            facts["checks"].append(check)
    facts["buffers"] = list(buffers.values())
    return facts


def _hosts(contents: RingContents) -> Iterator[Row]:
    kinds = set(HostCall)
    for host in contents.events.rows(FrameType.HOST):
        kind = int(host["kind"])
        name = HostCall(kind).name.lower() if kind in kinds else str(kind)
        yield {"kind": name, **{key: _known(host[key]) for key in _HOST_KEYS}}


def _listed(contents: RingContents, kind: int) -> Iterator[Row]:
    """Yield the fields of events, `name` first."""
    fields = FRAMES[kind].body._fields  # type: ignore[attr-defined]
    numbers = [field for field in fields if field not in ("name", "reserved")]
    for event in contents.events.rows(kind):
        row: Row = {}
        if "name" in fields:
            row["name"] = text_of(bytes(event["name"]))
        yield row | {key: _known(event[key]) for key in numbers}


def _graphs(contents: RingContents) -> Iterator[Row]:
    for graph, phase in zip(contents.graphs, contents.phases.tolist(), strict=True):
        has_end = bool(graph["has_end"])
        yield {
            **{key: _known(graph[key]) for key in _GRAPH_KEYS},
            "phase": phase,
            "begin": int(graph["begin"]),
            "end": int(graph["end"]) if has_end else None,
            "status": int(graph["status"]) if has_end else None,
        }


def _ubatch_facts(ubatch: Ubatch) -> dict[str, Any]:
    """Return a ubatch as a row of the sidecar."""
    facts = {
        "ubatch": ubatch.head.ubatch,
        "time": ubatch.time,
        "context": ubatch.head.context,
        "tokens": ubatch.tokens,
        "positions": ubatch.positions,
        "phase": ubatch.head.phase,
    }
    rows = ubatch.rows
    if rows is None:
        return facts
    knows = Knowledge(rows.knowledge & (Knowledge.SEQUENCES | Knowledge.OUTPUTS))
    outputs = [row for row, is_output in enumerate(ubatch.outputs) if is_output]
    counts = [len(numbers) for numbers in ubatch.sequences]
    return facts | {
        "decode": _known(rows.decode),
        "owner": rows.owner or None,
        "phases": ubatch.phases,
        "outputs": outputs if Knowledge.OUTPUTS in knows else None,
        "sequences": [number for numbers in ubatch.sequences for number in numbers],
        "sequence_counts": None if set(counts) <= {1} else counts,
        "sequences_from": "batch" if Knowledge.SEQUENCES in knows else "positions",
    }
