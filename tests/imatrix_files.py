"""Importance matrices of llama-imatrix in both forms."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import gguf_files
from gguf_files import ARRAY, STRING, U32, T


@dataclass(frozen=True)
class Entry:
    """A tensor: sums of squares, [experts, columns], and tokens of each expert."""

    name: str
    sums: np.ndarray
    counts: np.ndarray


def entries(
    seed: int = 1, layers: int = 3, experts: int = 6, width: int = 64, inner: int = 32
) -> list[Entry]:
    """Return the entries of a small mixture of experts; the last expert is unused."""
    rng = np.random.default_rng(seed)
    entries = []
    for layer in range(layers):
        counts = rng.integers(1, 500, experts)
        counts[-1] = 0
        total = np.array([int(counts.sum())])
        for name, n, columns in (
            ("attn_q", 1, width),
            ("ffn_gate_inp", 1, width),
            ("ffn_up_exps", experts, width),
            ("ffn_down_exps", experts, inner),
        ):
            of = counts if n > 1 else total
            sums = rng.random((n, columns)) * of[:, None]
            entries.append(Entry(f"blk.{layer}.{name}.weight", sums.astype("<f4"), of))
    return entries


def gguf(some: Sequence[Entry], chunks: int = 7, dataset: str = "wiki.txt") -> bytes:
    """Return them as GGUF."""
    tensors, data = [], b""
    for entry in some:
        n, columns = entry.sums.shape
        tensors.append(T(f"{entry.name}.in_sum2", (columns, n), "f32"))
        tensors.append(T(f"{entry.name}.counts", (1, n), "f32"))
        for values in (entry.sums, entry.counts):
            raw = np.ascontiguousarray(values, "<f4").tobytes()
            data += raw + bytes(-len(raw) % 32)
    fields = {
        "general.type": (STRING, "imatrix"),
        "imatrix.datasets": (ARRAY, (STRING, [dataset])),
        "imatrix.chunk_count": (U32, chunks),
        "imatrix.chunk_size": (U32, 512),
    }
    return gguf_files.encode(tensors, fields, data_bytes=0) + data


def legacy(some: Sequence[Entry], chunks: int = 7, dataset: str = "wiki.txt") -> bytes:
    """Return them in the old form, with ncall = `chunks`."""
    out = struct.pack("<i", len(some))
    for entry in some:
        counts = entry.counts[:, None].astype(np.float64)
        used = np.broadcast_to(counts > 0, entry.sums.shape)
        means = np.ones(entry.sums.shape)
        np.divide(entry.sums, counts, out=means, where=used)
        name = entry.name.encode()
        out += struct.pack("<i", len(name)) + name
        out += struct.pack("<ii", chunks, means.size)
        out += (means * chunks).astype("<f4").tobytes()
    text = dataset.encode()
    return out + struct.pack("<ii", chunks, len(text)) + text
