"""Make token traces as the exporter prints them: slow, plain and independent."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.token_json.reader import TraceJsonReader
from support import need_corpus
from tensor_files import NO_LAYER, Rec

OPS = {2: "ADD", 7: "MUL", 25: "RMS_NORM", 29: "MUL_MAT", 30: "MUL_MAT_ID"} | {
    3: "ADD_ID", 40: "GET_ROWS", 42: "SET_ROWS", 46: "SOFT_MAX", 48: "ROPE",
    68: "ARGSORT", 73: "FLASH_ATTN_EXT", 94: "GLU", 34: "CPY", 37: "VIEW",
}  # fmt: skip
"""The ops that tests use, as ggml-2025-11-25-95 numbers them."""

TWINS = (
    ("3584a339", "trace_256_3584a339.bin"),
    ("c26d86e7", "trace_256_c26d86e7.bin"),
    ("a6ba6071", "trace_1024v3_a6ba6071.bin"),
    ("962e44d2", "trace_1024v3_962e44d2.bin"),
    ("71099aab", "trace_128_71099aab.bin"),
)
"""Real token traces by commit, and the records that they were exported from."""


def corpus_trace(commit: str) -> Path:
    """Return a real token trace of the corpus, or skip the test."""
    folder = need_corpus() / "bsc" / commit
    values = [p for p in folder.rglob("token-*.json") if p.parent.name == "traces"]
    if not values:
        pytest.skip(f"the corpus has no token trace {commit}")
    return values[0]


def document(
    records: Sequence[Rec], version: str = "256-byte", token: int | None = 0
) -> dict[str, object]:
    """Return the records of one token as the exporter's object."""
    start = min((r.time for r in records), default=0)
    end = max((r.time for r in records), default=0)
    metadata = {
        "total_entries": len(records),
        "duration_ms": round((end - start) / 1e6, 3),
        "timestamp_start_ns": start,
    }
    if not version.startswith("128"):
        metadata["format_version"] = version.split()[0]
    entries = [_entry(i, r, start, version) for i, r in enumerate(records)]
    return {"token_id": token, "metadata": metadata, "entries": entries}


def read_text(tmp_path: Path, text: str | bytes, **options: str) -> Trace:
    """Return the trace of a JSON text."""
    path = tmp_path / "token-00003.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path, **options)


def read_object(tmp_path: Path, value: object, **options: str) -> Trace:
    """Return the trace of an object, indented as the exporter does."""
    return read_text(tmp_path, json.dumps(value, indent=2), **options)


def read_file(
    path: Path, reader: TraceJsonReader | None = None, **options: str
) -> Trace:
    """Return the trace of a file, which must be sound."""
    with Source(path) as source:
        context = ReadContext(options=options)
        trace = (reader or TraceJsonReader()).read(source, context)
    assert trace.check() == []
    return trace


def op_names(trace: Trace) -> list[str]:
    """Return the op of every span that is one, in file order."""
    ops = [
        (int(record), trace.op_name(int(op)))
        for op, record in zip(trace.spans.op, trace.spans.record, strict=True)
        if op >= 0
    ]
    return [name for _, name in sorted(ops)]


def _entry(number: int, r: Rec, start: int, version: str) -> dict[str, object]:
    entry: dict[str, object] = {
        "entry_id": number,
        "timestamp_ns": r.time,
        "timestamp_relative_ms": round((r.time - start) / 1e6, 3),
        "token_id": r.token,
        "layer_id": None if r.layer == NO_LAYER else r.layer,
        "thread_id": r.thread,
        "phase": "GENERATE" if r.phase else "PROMPT",
        "operation_type": OPS.get(r.op, f"UNKNOWN_{r.op}"),
    }
    if version.startswith("128"):
        source = r.sources[0]
        entry |= {
            "layer_id": source.layer,
            "tensor_idx": None,
            "tensor_ptr": hex(source.ptr),
            "tensor_name": source.name,
            "size_bytes": source.size,
            "file_offset": 0 if source.mem else source.where,
        }
        return entry
    sources = []
    for s in r.sources:
        place = "buffer_id" if s.mem else "disk_offset"
        sources.append(
            {
                "name": s.name,
                "tensor_ptr": hex(s.ptr),
                "size_bytes": s.size,
                "layer_id": None if s.layer == NO_LAYER else s.layer,
                "memory_source": "BUFFER" if s.mem else "DISK",
                place: s.where,
            }
        )
    entry |= {"dst_name": r.dst, "num_sources": len(sources), "sources": sources}
    if version.endswith("v4"):
        entry |= {"expert_ids": list(r.experts), "num_experts": len(r.experts)}
    return entry
