"""GGUF files made byte by byte, so that each detail can be wrong on purpose."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ggscope.model.ggml.types import tensor_bytes, type_number
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.gguf.reader import GgufReader
from ggscope.readers.source import Source

U8, U32, I32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 5, 6, 7, 8, 9, 10
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
_CODES |= {10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class T:
    """One tensor; what is None is worked out from the rest."""

    name: str = "blk.0.attn_q.weight"
    shape: Sequence[int] = (64, 32)
    type: int | str = "f32"
    offset: int | None = None
    n_dims: int | None = None

    @property
    def number(self) -> int:
        return self.type if isinstance(self.type, int) else type_number(self.type)

    @property
    def size(self) -> int:
        return max(tensor_bytes(self.number, self.shape), 0)


class Encoder:
    """Writes numbers and strings as a version and byte order want them."""

    def __init__(self, version: int = 3, big: bool = False) -> None:
        self.version, self.order = version, ">" if big else "<"

    def pack(self, code: str, *values: object) -> bytes:
        return struct.pack(self.order + code, *values)

    def count(self, n: int) -> bytes:
        return self.pack("I" if self.version == 1 else "Q", n)

    def string(self, text: str | bytes) -> bytes:
        raw = text if isinstance(text, bytes) else text.encode()
        return self.count(len(raw)) + raw

    def value(self, kind: int, value: object) -> bytes:
        if kind == STRING:
            return self.string(value)
        if kind == ARRAY:
            inner, items = value
            return (
                self.pack("I", inner)
                + self.count(len(items))
                + b"".join(self.value(inner, item) for item in items)
            )
        return self.pack(_CODES[kind], value)

    def field(self, key: str | bytes, kind: int, value: object) -> bytes:
        return self.string(key) + self.pack("I", kind) + self.value(kind, value)

    def tensor(self, tensor: T, offset: int) -> bytes:
        n_dims = len(tensor.shape) if tensor.n_dims is None else tensor.n_dims
        return (
            self.string(tensor.name)
            + self.pack("I", n_dims)
            + b"".join(self.count(n) for n in tensor.shape)
            + self.pack("IQ", tensor.number, offset)
        )


FIELDS: Mapping[str, tuple[int, object]] = {
    "general.architecture": (STRING, "llama"),
    "general.name": (STRING, "Tiny"),
    "llama.block_count": (U32, 2),
    "llama.embedding_length": (U32, 64),
    "llama.rope.freq_base": (F32, 10000.0),
    "tokenizer.ggml.tokens": (ARRAY, (STRING, [f"t{i}" for i in range(100)])),
    "tokenizer.ggml.scores": (ARRAY, (F32, [0.5] * 100)),
    "tokenizer.ggml.add_bos_token": (BOOL, True),
}
TENSORS = (
    T("token_embd.weight", (64, 100), "q8_0"),
    T("blk.0.attn_norm.weight", (64,), "f32"),
    T("blk.0.attn_q.weight", (64, 64), "q4_0"),
    T("blk.0.ffn_up_exps.weight", (64, 32, 4), "f16"),
    T("blk.1.attn_norm.weight", (64,), "f32"),
    T("output.weight", (64, 100), "q8_0"),
)


def encode(
    tensors: Sequence[T] = TENSORS,
    fields: Mapping[str, tuple[int, object]] = FIELDS,
    *,
    version: int = 3,
    big: bool = False,
    alignment: int = 32,
    n_tensors: int | None = None,
    n_fields: int | None = None,
    data_bytes: int | None = None,
) -> bytes:
    """Return a file; without faults in the arguments a sound one."""
    out = Encoder(version, big)
    body = b"".join(out.field(k, *v) for k, v in fields.items())
    if alignment != 32:
        body += out.field("general.alignment", U32, alignment)
    position, rows = 0, []
    for tensor in tensors:
        offset = position if tensor.offset is None else tensor.offset
        rows.append(out.tensor(tensor, offset))
        position = offset + -(-tensor.size // alignment) * alignment
    stated = len(fields) + (alignment != 32)
    head = (
        b"GGUF"
        + out.pack("I", version)
        + out.count(len(tensors) if n_tensors is None else n_tensors)
        + out.count(stated if n_fields is None else n_fields)
        + body
        + b"".join(rows)
    )
    head += bytes(-len(head) % alignment)
    return head + bytes(position if data_bytes is None else data_bytes)


def read_gguf(folder: Path, data: bytes, name: str = "m.gguf", **options: str) -> Trace:
    """Return the checked trace of a file with these bytes."""
    path = folder / name
    path.write_bytes(data)
    return read_path(path, **options)


def read_path(path: Path, **options: str) -> Trace:
    """Return the checked trace of a file."""
    with Source(path) as source:
        trace = GgufReader().read(source, ReadContext(options=options))
    assert trace.check() == []
    return trace


def names(trace: Trace) -> list[str]:
    """Return the tensors' names in the order of the table."""
    return [trace.strings[i] for i in trace.tensors.name.tolist()]


def codes(trace: Trace) -> dict[str, int]:
    """Return warning code -> count."""
    return {w.code: w.count for w in trace.warnings}
