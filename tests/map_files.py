"""Memory maps and tables of tensors made for tests, and reading them."""

import json
from collections.abc import Sequence
from pathlib import Path

from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext, Reader
from ggscope.readers.source import Source

STRUCTURE = (
    "tensor_name,file_offset,size_bytes,layer_id,component_type,"
    "n_dims,dim0,dim1,dim2,dim3"
)
REGISTRY = "tensor_idx,tensor_name,data_ptr,file_offset,size_bytes,layer_id"


def row(name: str, offset: int, size: int, **values: object) -> dict[str, object]:
    """Return one tensor of a memory map."""
    return {
        "name": name,
        "offset_start": offset,
        "offset_end": offset + size,
        "size_bytes": size,
        "shape": [size // 4],
        "category": "ffn",
        "layer_id": None,
        **values,
    }


def document(
    *rows: dict[str, object], total: int | None = None, **values: object
) -> str:
    """Return a memory map as its writer prints it."""
    ends = [r["offset_end"] for r in rows if isinstance(r.get("offset_end"), int)]
    return json.dumps(
        {
            "model_name": "tiny",
            "total_size_bytes": max(ends, default=0) if total is None else total,
            "metadata": {"n_layers": 2, "n_vocab": 9, "n_tensors": len(rows)},
            "tensors": list(rows),
            **values,
        }
    )


def table(header: str, lines: Sequence[str], *, end: str = "\n") -> str:
    """Return a CSV text."""
    return "".join(f"{line}{end}" for line in (header, *lines))


def read_side(
    reader: Reader, folder: Path, content: str | bytes, name: str = "x"
) -> Trace:
    """Return the checked trace of a file with this content."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_at(reader, path)


def read_at(reader: Reader, path: Path) -> Trace:
    """Return the checked trace of a file."""
    with Source(path) as source:
        trace = reader.read(source, ReadContext())
    assert trace.check() == []
    return trace


def listed(trace: Trace) -> list[tuple[str, int, int]]:
    """Return (name, offset, size) of every tensor."""
    t = trace.tensors
    names = (trace.strings[i] for i in t.name.tolist())
    return list(zip(names, t.offset.tolist(), t.size.tolist(), strict=True))


def codes(trace: Trace) -> dict[str, int]:
    """Return warning code -> count."""
    return {w.code: w.count for w in trace.warnings}


def message_of(trace: Trace, code: str) -> str:
    """Return the message of a warning."""
    return next(w.message for w in trace.warnings if w.code == code)
