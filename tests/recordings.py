"""Recordings as our own tool writes them: records of 256 bytes, and their sidecar."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.readers.recording.columns import Budget, columns, is_block, rows
from ggscope_capture.columns import blocks, table
from ggscope_capture.record import TRACE
from ggscope_capture.sidecar import table_keys

T0 = 5_000_000_000
NODES = ("attn_norm-0-which-is-longer-than-its-field", "Qcur-0", "ffn_out-1")
N_GRAPHS, N_THREADS = 4, 2
NO_CORE = 0xFFF


def _ubatch(number: int, rows: list[tuple[int, int, int, int, bool]]) -> dict[str, Any]:
    """Return a ubatch of (token, position, sequence, phase, is output)."""
    phases = [row[3] for row in rows]
    return {
        "ubatch": number, "time": T0 + 10_000 * number, "context": 1, "owner": 7,
        "decode": number, "tokens": [row[0] for row in rows],
        "positions": [row[1] for row in rows], "phases": phases,
        "phase": phases[0] if len(set(phases)) == 1 else 3,
        "outputs": [i for i, row in enumerate(rows) if row[4]],
        "sequences": [row[2] for row in rows], "sequence_counts": None,
        "sequences_from": "batch",
    }  # fmt: skip


def requests() -> dict[str, Any]:
    """Return what a sidecar says of two requests of a server that are served at once.

    A prompt of 3 tokens; the prompt of another request beside the first token that is
    generated; a token of both; a draft of 3 tokens that is verified.
    """
    ubatches = [
        _ubatch(0, [(10, 0, 0, 1, False), (11, 1, 0, 1, False), (12, 2, 0, 1, True)]),
        _ubatch(1, [(13, 3, 0, 2, True), (20, 0, 1, 1, False), (12, 1, 1, 1, True)]),
        _ubatch(2, [(14, 4, 0, 2, True), (22, 2, 1, 2, True)]),
        _ubatch(3, [(15, 5, 0, 2, True), (16, 6, 0, 2, True), (17, 7, 0, 2, True)]),
    ]
    graphs = sidecar()["graph_list"]
    for graph, ubatch in zip(graphs, ubatches, strict=True):
        graph["phase"] = ubatch["phase"]
    return {"ubatches": ubatches, "graph_list": graphs}


def ubatch_event(ubatch: dict[str, Any]) -> bytes:
    """Return the body of the event by which a ring states a ubatch."""
    n = len(ubatch["tokens"])
    head = struct.pack(
        "<IIIIQ", ubatch["ubatch"], n, n, ubatch["phase"], ubatch["context"]
    )
    inputs = struct.pack(f"<{2 * n}i", *ubatch["tokens"], *ubatch["positions"])
    rows = struct.pack("<IIIIQ", n, ubatch["decode"], 3, n, ubatch["owner"])
    bits = bytes(
        phase | 4 * (i in ubatch["outputs"]) for i, phase in enumerate(ubatch["phases"])
    )
    lists = struct.pack(f"<{n}I{n}i", *[1] * n, *ubatch["sequences"])
    return head + inputs + rows + bits + bytes(-n % 4) + lists


def sidecar(**changes: Any) -> dict[str, Any]:
    """Return the facts of a sound sidecar, with some of them changed."""
    begins = [T0 + 10_000 * graph for graph in range(N_GRAPHS)]
    facts: dict[str, Any] = {
        "format": "ggscope-capture", "version": 1,
        "records": N_GRAPHS * N_THREADS * len(NODES), "extension_records": 0,
        "graph_records": 0, "graphs": N_GRAPHS, "mode": "threads",
        "clock": {"unit": "ns", "monotonic": T0 - 500, "real": 1_700_000_000 * 10**9},
        "pid": 4711, "dropped": 0, "dropped_events": 0, "unnamed_ops": 0,
        "lost_definitions": 0, "lost": 0, "lost_events": 0, "damaged_frames": 0,
        "ops": {"1": "MUL_MAT", "2": "ADD"},
        "program": "/usr/bin/llama", "ggml": "0.9", "command": ["llama", "-m", "x"],
        "models": [{
            "model": 0, "path": "/models/tiny.gguf", "tensors": 1,
            "data_offset": 4096, "size": 20_000,
            "weights": {
                "index": [0], "name": ["blk.0.attn_q.weight.long"], "type": [1],
                "shape": [[64, 64, 1, 1]], "offset": [4096], "size": [8192],
            },
        }],
        "buffers": [{
            "buffer": 3, "name": "compute", "size": 65_536, "base": 0xBEEF,
            "pointer": 0xAAAA, "usage": 2, "seen": T0, "allocated": T0 + 5,
            "freed": None,
        }],
        "whole_graphs": [{
            "thread": 512, "graph": 0, "begin": T0 + 100, "end": T0 + 300,
        }],
        "notes": [], "checks": [],
        "ubatches": [
            {"ubatch": i, "time": t, "context": 1, "tokens": [i], "positions": [i],
             "phase": 1 + (i > 0)}
            for i, t in enumerate(begins)
        ],
        "host": [{
            "kind": "decode", "tid": 1, "begin": T0 - 10, "end": T0 + 9000,
            "context": 1, "bytes": None, "ubatch": 0, "count": None,
        }],
        "copies": [{
            "name": "inp_embd", "begin": T0 + 1, "end": T0 + 4, "bytes": 256,
            "from_buffer": 3, "to_buffer": None, "context": 1,
        }],
        "graph_list": [
            {"graph": i, "build": 0, "ubatch": i, "slot": 0, "n_threads": 2,
             "phase": 1 + (i > 0), "split": 0, "n_nodes": len(NODES), "context": 1,
             "backend": None, "begin": t, "end": t + 9000, "status": 0}
            for i, t in enumerate(begins)
        ],
        "threads": [
            {"thread": i, "slot": 0, "index": i, "tid": 100 + i}
            for i in range(N_THREADS)
        ] + [{"thread": 512, "slot": 1, "index": 0, "tid": 99}],
        "builds": [{
            "build": 0, "nodes": len(NODES), "computed": len(NODES), "fused": 0,
            "names": [*NODES, "blk.0.attn_q.weight.long", "inp_embd"],
            "tensors": {
                "flags": [0, 0, 0, 4, 0], "layer": [0, 0, 1, 0, -1],
                "data": [1, 2, 3, 4, 5], "bytes": [256, 256, 256, 8192, 256],
                "offset": [None, None, None, 4096, None],
                "model": [None, None, None, 0, None],
                "weight": [None, None, None, 0, None],
                "buffer": [3, 3, 3, None, 3],
                "sources": [[4], [3, 0], [1], [], []],
            },
        }],
    }  # fmt: skip
    return facts | changes


def records(*, later: int = 0) -> bytes:
    """Return the records of the sidecar, `later` ns later."""
    rows = np.zeros(N_GRAPHS * N_THREADS * len(NODES), TRACE)
    at = 0
    for graph in range(N_GRAPHS):
        for node, name in enumerate(NODES):
            for thread in range(N_THREADS):
                row = rows[at]
                row["time"] = T0 + 10_000 * graph + 3000 * node + 10 * thread + later
                row["token"], row["layer"], row["thread"] = graph, node // 2, thread
                row["op"], row["phase"], row["name"] = 1 + node % 2, graph > 0, name
                row["duration"][:2] = (0xD0, 7)
                row["n_sources"] = 1
                row["sources"][0]["name"] = "inp_embd"
                row["sources"][0]["size"], row["sources"][0]["place"] = 256, 3
                row["sources"][0]["memory"] = 1
                core = NO_CORE if thread else 7 | 1 << 12
                row["sources"]["more"] = (90, node, graph, core)
                at += 1
    return rows.tobytes()


def packed(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a sidecar as version 2 has them."""
    values = facts | {
        key: list(blocks(facts[key])) for key in table_keys() if key in facts
    }
    builds = [
        build | {"tensors": table(len(build["tensors"]["flags"]), build["tensors"])}
        for build in facts["builds"]
    ]
    return values | {"version": 2, "builds": builds}


def packed_sidecar() -> dict[str, Any]:
    """Return the facts of a sidecar of version 2 with all forms of changes."""
    facts = packed(sidecar())
    single = {"at": {"first": 0, "steps": [2]}, "is": [9, 8]}
    changes = {
        "data": {"single": {"rows": 2, "columns": single}},
        "buffer": {"moved": {"rows": 1, "columns": {"from": [3], "to": [None]}}},
    }
    facts["builds"].append({"build": 1, "like": 0, "changes": changes})
    return facts


def unpacked(facts: dict[str, Any], n_bytes: int) -> dict[str, Any]:
    """Return the facts of a sidecar of `n_bytes` with its tables as lists of rows."""
    budget, values = Budget(n_bytes), dict(facts)
    for key in table_keys():
        values[key] = [
            row
            for item in facts.get(key, [])
            for row in (rows(item, budget) if is_block(item) else [item])
        ]
    wholes = {build["build"]: build for build in facts["builds"]}
    values["builds"] = [
        wholes.get(build.get("like"), {}) | build for build in facts["builds"]
    ]
    for build in values["builds"]:
        if is_block(build["tensors"]):
            build["tensors"] = columns(build["tensors"], budget)
    return values


def facts_of(path: Path) -> dict[str, Any]:
    """Return what the sidecar beside records says, its tables as lists of rows."""
    content = path.with_suffix(".json").read_bytes()
    return unpacked(json.loads(content), len(content))


def recording(
    folder: Path, name: str = "run", *, is_packed: bool = False, **changes: Any
) -> Path:
    """Write both files; return that of the records."""
    path, facts = folder / f"{name}.bin", sidecar(**changes)
    path.write_bytes(records())
    report = packed(facts) if is_packed else facts
    path.with_suffix(".json").write_text(json.dumps(report))
    return path
