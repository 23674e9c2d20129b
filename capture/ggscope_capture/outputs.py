"""Writes what was taken out of a ring as records of 256 bytes, with a sidecar.

One record for each op on each lane, in the order of their beginnings. Durations, waits
and places stand in bytes that other readers of the format pass over.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggscope_capture import files
from ggscope_capture.config import Settings
from ggscope_capture.recording import Recording, tensors_of
from ggscope_capture.ring import (
    RECORD_GRAPH,
    UNKNOWN_U32,
    Event,
    Frame,
    TensorFlag,
)

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
"""A record of 256 bytes."""
_NO_LAYER = 65535


def write(
    recording: Recording,
    *,
    records: Path | None,
    ggmlviz: Path | None,
    settings: Settings,
) -> list[Path]:
    """Write the outputs of a recording; return their paths.

    `ggmlviz`, an event stream, is not written yet.

    Raises
    ------
    OSError
        If one cannot be written.
    RingError
        If the recording is damaged.
    """
    written = []
    if records is not None:
        trace, facts = _trace(recording, settings)
        files.write(records, trace.tobytes())
        sidecar = records.with_suffix(".json")
        files.write(sidecar, json.dumps(facts).encode())
        written += [records, sidecar]
    return written


def _trace(
    recording: Recording, settings: Settings
) -> tuple[NDArray[Any], dict[str, Any]]:
    spans = recording.records[recording.records["extra"] & RECORD_GRAPH == 0]
    spans = spans[np.argsort(spans["t0"], kind="stable")]
    builds = {
        int(d.struct("def_build")[0]["build"]): _templates(d, settings)
        for d in recording.definitions
        if d.type == Frame.BUILD
    }
    trace = np.zeros(len(spans), TRACE)
    graphs = {}
    for event in recording.events:
        if event.type == Frame.GRAPH_BEGIN:
            graph, _ = event.struct("event_graph")
            graphs[int(graph["graph"])] = graph
    for step, number in enumerate(sorted(graphs)):
        graph = graphs[number]
        mine = np.flatnonzero(spans["graph"] == number)
        templates = builds.get(int(graph["build"]))
        if templates is not None:
            nodes = spans["node"][mine].astype(np.int64)
            is_known = nodes < len(templates)
            trace[mine[is_known]] = templates[nodes[is_known]]
        trace["token"][mine] = step
        trace["phase"][mine] = graph["phase"] == 2
    trace["time"] = spans["t0"]
    trace["op"] = spans["op"]
    duration = spans["op_ns"].astype("<u8").reshape(-1, 1).view("u1").reshape(-1, 8)
    trace["duration"] = duration[:, :5]
    lanes = recording.lanes
    lane = np.minimum(spans["lane"], len(lanes) - 1)
    trace["thread"] = lanes["slot"][lane] * 64 + lanes["ith"][lane]
    trace["sources"]["more"][:, 0] = spans["wait_ns"]
    trace["sources"]["more"][:, 1] = spans["node"]
    trace["sources"]["more"][:, 2] = spans["graph"]
    facts = {
        "format": "ggscope-capture", "version": 1, "records": len(trace),
        "graphs": len(graphs), "lost": recording.lost,
        "lost_events": recording.lost_events,
    }  # fmt: skip
    return trace, facts


def _templates(definition: Event, settings: Settings) -> NDArray[Any]:
    """Return what is the same each time of every node of a build."""
    build, tensors, texts = tensors_of(definition)
    names = [text.encode() if settings.tensor_names else b"" for text in texts]
    n = int(build["n_nodes"])
    rows = np.zeros(n, TRACE)
    for node in range(n):
        tensor, row = tensors[node], rows[node]
        row["name"] = names[node]
        row["layer"] = _layer(tensor)
        used = [int(s) for s in tensor["sources"] if s != UNKNOWN_U32]
        after = node + 1
        if after < n and tensors[after]["flags"] & TensorFlag.FUSED:
            used += [
                int(s)
                for s in tensors[after]["sources"]
                if s < len(tensors) and tensors[int(s)]["flags"] & TensorFlag.WEIGHT
            ]
        used = [number for number in used if number < len(tensors)][:4]
        row["n_sources"] = len(used)
        for slot, number in zip(row["sources"], used, strict=False):
            source = tensors[number]
            is_weight = bool(source["flags"] & TensorFlag.WEIGHT)
            slot["name"] = names[number]
            slot["pointer"] = source["data"]
            slot["size"] = min(int(source["bytes"]), UNKNOWN_U32)
            slot["layer"] = _layer(source)
            slot["memory"] = not is_weight
            slot["type"] = min(int(source["type"]), 255)
            slot["place"] = source["offset"] if is_weight else source["buffer"]
            slot["index"] = source["weight"] if is_weight else UNKNOWN_U32
    return rows


def _layer(tensor: Any) -> int:
    layer = int(tensor["layer"])
    return layer if 0 <= layer < _NO_LAYER else _NO_LAYER
