"""What a ring told that its records have no room for, by the keys of the sidecar.

Tables of many rows are made while they are written: see `Rows`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ggscope_capture.record import count_choices
from ggscope_capture.ring_format import (
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
    unpack,
)
from ggscope_capture.told import Told, Ubatch, joined

SIDECAR_VERSION = 2
_GRAPH_KEYS = (
    "graph", "build", "ubatch", "slot", "n_threads", "split", "n_nodes", "context",
    "backend", "backend_number",
)  # fmt: skip
_HOST_KEYS = ("tid", "begin", "end", "context", "bytes", "ubatch", "count")
_COPY_KEYS = ("begin", "end", "bytes", "from_buffer", "to_buffer", "context")
_MOST_COUNTED = 1 << 56
Row = dict[str, Any]


class Rows:
    """Rows of a table, made anew each time they are asked for."""

    def __init__(self, make: Callable[[], Iterator[Row]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Row]:
        return self._make()


def to_sidecar(told: Told, control: Any) -> dict[str, Any]:
    """Return what the records have no room for, but the builds, by its keys.

    ``sidecar.pieces`` writes it.

    Parameters
    ----------
    control : the control page of the ring, of ``ring_control``.
    """
    n_ops, whole = _counted(told)
    mode = int(control["mode"])
    facts: dict[str, Any] = {
        "format": "ggscope-capture",
        "version": SIDECAR_VERSION,
        "records": n_ops,
        "extension_records": count_choices(told),
        "graph_records": len(whole),
        "graphs": len(told.graphs),
        "mode": Mode(mode).name.lower() if mode in set(Mode) else "unknown",
        "clock": {
            "unit": "ns",
            "monotonic": int(control["t0_mono"]),
            "real": int(control["t0_real"]),
        },
        "pid": int(control["pid"]),
        "dropped": sum(map(_counter, told.lanes["dropped"].tolist()))
        + _counter(control["no_lane"]),
        "no_lane": _counter(control["no_lane"]),
        "dropped_events": _counter(control["events_dropped"]),
        "unnamed_ops": _counter(control["no_node"]),
        "lost_definitions": _counter(control["defs_lost"]),
        "skipped_graphs": _counter(control["skipped"]),
        "ops": {str(number): name for number, name in sorted(told.ops.items())},
    }
    facts.update(from_definitions(told))
    facts["ubatches"] = Rows(lambda: map(_ubatch_facts, told.ubatches()))
    facts["host"] = Rows(lambda: _hosts(told))
    facts["copies"] = Rows(lambda: _copies(told))
    facts["graph_list"] = Rows(lambda: _graphs(told))
    threads = told.threads(whole["lane"]).tolist()
    facts["whole_graphs"] = [
        {"thread": thread, "graph": _known(row["graph"]), "begin": int(row["t0"]),
         "end": int(row["t0"]) + int(row["op_ns"])}
        for row, thread in zip(whole, threads, strict=True)
    ]  # fmt: skip
    used = np.flatnonzero(told.lanes["state"])
    facts["threads"] = [
        {
            "thread": int(thread),
            "slot": int(told.lanes["slot"][lane]),
            "index": int(told.lanes["ith"][lane]),
            "tid": int(told.lanes["tid"][lane]),
        }
        for lane, thread in zip(
            used.tolist(), told.threads(used.astype(np.uint16)).tolist(), strict=True
        )
    ]
    return facts


def _counted(told: Told) -> tuple[int, Any]:
    """Return how many records are ops, and the others: whole graphs, by their begin."""
    n_ops, parts = 0, []
    for chunk in told.records.chunks():
        is_graph = chunk["extra"] & RECORD_GRAPH != 0
        n_ops += int(np.count_nonzero(~is_graph))
        parts.append(chunk[is_graph])
    whole = joined(parts)
    return n_ops, whole[np.argsort(whole["t0"], kind="stable")]


def _counter(number: Any) -> int:
    """Return a counter; 0 where it is beyond anything that a program can count."""
    return int(number) if int(number) < _MOST_COUNTED else 0


def _known(number: Any) -> int | None:
    value = int(number)
    return None if value in (UNKNOWN_U32, UNKNOWN_U64) else value


def from_definitions(told: Told) -> dict[str, Any]:
    """Return models, buffers, backends, notes, checks and the program by their keys."""
    found: dict[str, Any] = {
        "models": [], "buffers": [], "backends": [], "notes": [], "checks": [],
    }  # fmt: skip
    buffers: dict[int, dict[str, Any]] = {}
    weights: dict[int, dict[str, list[Any]]] = {}
    for event in told.definitions:
        if event.type == FrameType.PROGRAM:
            found["program"], found["ggml"], line = event.texts()
            found["command"] = line.split("\0")
        elif event.type == FrameType.MODEL:
            model = unpack(Model, event.body)
            found["models"].append(
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
            found["backends"].append(
                {"backend": backend.backend, "name": name, "device": device,
                 "description": description, "pointer": backend.pointer}
            )  # fmt: skip
        elif event.type == FrameType.NOTE:
            found["notes"].append(event.text())
        elif event.type == FrameType.CHECK:
            check = unpack(DefCheck, event.body)._asdict()
            del check["reserved"]
            found["checks"].append(check)
    found["buffers"] = list(buffers.values())
    return found


def _hosts(told: Told) -> Iterator[Row]:
    kinds = set(HostCall)
    for host in told.events.rows(FrameType.HOST, "event_host"):
        kind = int(host["kind"])
        name = HostCall(kind).name.lower() if kind in kinds else str(kind)
        yield {"kind": name, **{key: _known(host[key]) for key in _HOST_KEYS}}


def _copies(told: Told) -> Iterator[Row]:
    for copy in told.events.rows(FrameType.COPY, "event_copy"):
        name = bytes(copy["name"]).decode("utf-8", "replace")
        yield {"name": name, **{key: _known(copy[key]) for key in _COPY_KEYS}}


def _graphs(told: Told) -> Iterator[Row]:
    for graph, phase in zip(told.graphs, told.phases.tolist(), strict=True):
        has_end = bool(graph["has_end"])
        yield {
            **{key: _known(graph[key]) for key in _GRAPH_KEYS},
            "phase": phase,
            "begin": int(graph["begin"]),
            "end": int(graph["end"]) if has_end else None,
            "status": int(graph["status"]) if has_end else None,
        }


def _ubatch_facts(ubatch: Ubatch) -> dict[str, Any]:
    """Return what a sidecar says of a ubatch."""
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
