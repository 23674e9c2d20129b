"""Write and read tensor traces with `struct`, record by record: slow and independent.

The product reads the same records with numpy dtypes of its own; nothing is shared.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace

import numpy as np

from ggscope.model.trace import Trace

NO_LAYER = 0xFFFF
NO_INDEX = 0xFFFF_FFFF
SIZES = {"64p": 64, "64a": 64, "128": 128, "256": 256, "1024": 1024}
LAYOUTS = tuple(SIZES)
WIDTHS = {"256": (24, 20), "1024": (128, 128)}

_SINGLE = {
    "64p": struct.Struct("<QIHHBBHIIQQIBBHBBHII"),
    "64a": struct.Struct("<QIHHBBHII4xQQIBBHBBHI"),
    "128": struct.Struct("<QIHHBBHIIQQIBBHBBHII64s"),
}
_HEAD = struct.Struct("<QIHHBBB5s")
_TAIL_1024 = struct.Struct("<16iB167x")
_BUFFER_EVENT = struct.Struct("<QBBHQQQ64s16s12x")


@dataclass(frozen=True)
class Src:
    name: str
    ptr: int = 0x7F00_0000_1000
    size: int = 4096
    layer: int = NO_LAYER
    mem: int = 1
    where: int = 0x1000
    pad2: bytes = b""


@dataclass(frozen=True)
class Rec:
    time: int
    dst: str = ""
    op: int = 2
    sources: tuple[Src, ...] = ()
    token: int = 0
    layer: int = NO_LAYER
    thread: int = 24832
    phase: int = 0
    duration: int = 0
    experts: tuple[int, ...] = ()
    extra_sources: int = field(default=0)


def weight(name: str, layer: int = NO_LAYER, where: int = 4096) -> Src:
    """Return a source that lies in the model file."""
    return Src(name, 0x7F11_0000_0000 + where, 2048, layer, 0, where)


def encode(records: Iterable[Rec], layout: str) -> bytes:
    """Return the records one after another."""
    return b"".join(encode_one(record, layout) for record in records)


def encode_one(r: Rec, layout: str) -> bytes:
    """Return one record."""
    if layout in _SINGLE:
        return _encode_single(r, layout)
    dst_width, name_width = WIDTHS[layout]
    source = struct.Struct(f"<{name_width}sQIHBBQI4s")
    parts = [
        _HEAD.pack(
            r.time,
            r.token,
            r.layer,
            r.thread,
            r.op,
            r.phase,
            len(r.sources) + r.extra_sources,
            r.duration.to_bytes(5, "little"),
        ),
        _cut(r.dst, dst_width),
    ]
    for s in r.sources:
        parts.append(
            source.pack(
                _cut(s.name, name_width),
                s.ptr,
                s.size,
                s.layer,
                s.mem,
                0,
                s.where,
                NO_INDEX,
                s.pad2,
            )
        )
    parts.append(bytes(source.size * (4 - len(r.sources))))
    if layout == "1024":
        ids = (*r.experts, *[0] * 16)[:16]
        parts.append(_TAIL_1024.pack(*ids, len(r.experts)))
    return b"".join(parts)


def _encode_single(r: Rec, layout: str) -> bytes:
    s = r.sources[0] if r.sources else Src("", 0, 0)
    values = [
        r.time,
        r.token,
        r.layer,
        r.thread,
        r.op,
        r.phase,
        0,
        0,
        NO_INDEX,
        s.ptr,
        s.where if s.mem == 0 else 0,
        s.size,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
    if layout != "64a":
        values.append(0)
    if layout == "128":
        return _SINGLE[layout].pack(*values, _cut(s.name, 64))
    return _SINGLE[layout].pack(*values)


def one_source_each(records: Iterable[Rec]) -> list[Rec]:
    """Return one record per source, as the 64- and 128-byte tracers write them."""
    return [replace(r, op=1, sources=(s,)) for r in records for s in r.sources if s.ptr]


def decode(data: bytes, layout: str) -> list[Rec]:
    """Return the records that are not all zero, the last cut one left out."""
    size = SIZES[layout]
    decode = []
    for at in range(0, len(data) - size + 1, size):
        raw = data[at : at + size]
        if any(raw):
            decode.append(_decode_one(raw, layout))
    return decode


def _decode_one(raw: bytes, layout: str) -> Rec:
    if layout in _SINGLE:
        v = _SINGLE[layout].unpack(raw)
        name = _text(v[-1]) if layout == "128" else ""
        mem = 0 if v[10] else 1
        source = Src(name, v[9], v[11], v[2], mem, v[10])
        return Rec(v[0], name, v[4], (source,), v[1], v[2], v[3], v[5])
    dst_width, name_width = WIDTHS[layout]
    time, token, layer, thread, op, phase, n, spare = _HEAD.unpack_from(raw)
    dst = _text(raw[24 : 24 + dst_width])
    source = struct.Struct(f"<{name_width}sQIHBBQI4s")
    sources = []
    for k in range(min(n, 4)):
        at = 24 + dst_width + k * source.size
        name, ptr, length, s_layer, mem, _, where, _, _ = source.unpack_from(raw, at)
        sources.append(Src(_text(name), ptr, length, s_layer, mem, where))
    experts: tuple[int, ...] = ()
    if layout == "1024":
        *ids, count = _TAIL_1024.unpack_from(raw, 792)
        experts = tuple(ids[:count])
    duration = int.from_bytes(spare, "little")
    return Rec(
        time, dst, op, tuple(sources), token, layer, thread, phase, duration, experts
    )


def buffer_event(
    time: int,
    kind: int,
    buffer_id: int,
    size: int = 0,
    name: str = "KV",
    backend: str = "CPU",
) -> bytes:
    """Return one 128-byte buffer event; kind 0 allocates, 1 releases."""
    return _BUFFER_EVENT.pack(
        time, kind, 2, NO_LAYER, buffer_id, 0, size, name.encode(), backend.encode()
    )


def llama_pass(
    time: int,
    *,
    n_layers: int = 4,
    token: int = 0,
    phase: int = 0,
    thread: int = 24832,
    step: int = 1000,
    duration: int = 0,
) -> list[Rec]:
    """Return the records of one pass with op numbers of ggml-2025-11-25-95."""
    rows: list[tuple[str, int, tuple[Src, ...], int]] = [
        ("inp_embd", 40, (weight("token_embd.weight"), Src("leaf_2", size=8)), NO_LAYER)
    ]
    for i in range(n_layers):
        x = Src("inp_embd" if i == 0 else f"l_out-{i - 1}")
        rows += [
            (f"norm-{i}", 25, (x,), NO_LAYER),
            (
                f"attn_norm-{i}",
                7,
                (Src(f"norm-{i}"), weight(f"blk.{i}.attn_norm.weight", i, 8192)),
                i,
            ),
            (
                f"Qcur-{i}",
                29,
                (weight(f"blk.{i}.attn_q.weight", i, 16384), Src(f"attn_norm-{i}")),
                i,
            ),
            (
                f"Qcur-{i}",
                48,
                (Src(f"Qcur-{i} (reshaped)"), Src("leaf_4")),
                NO_LAYER,
            ),
            (
                f"__fattn__-{i}",
                73,
                (
                    Src(f"Qcur-{i} (view) (permuted)"),
                    Src(f"cache_k_l{i} (view)", where=0x2000),
                    Src(f"cache_v_l{i} (view)", where=0x2000),
                    Src(" (copy)"),
                ),
                NO_LAYER,
            ),
            (
                f"ffn_swiglu-{i}",
                94,
                (Src(f"ffn_gate-{i}"), Src(f"ffn_up-{i}")),
                NO_LAYER,
            ),
            (f"l_out-{i}", 2, (Src(f"ffn_swiglu-{i}"), x), NO_LAYER),
        ]
    return [
        Rec(time + k * step, dst, op, sources, token, layer, thread, phase, duration)
        for k, (dst, op, sources, layer) in enumerate(rows)
    ]


def llama_trace(n_passes: int = 3, gap: int = 10_000_000, **kwargs: int) -> list[Rec]:
    """Return several passes, each with a token number of its own."""
    records: list[Rec] = []
    time = 1_000_000_000_000
    for k in range(n_passes):
        records += llama_pass(time, token=k, phase=min(k, 1), **kwargs)
        time = records[-1].time + gap
    return records


def names_of(records: Sequence[Rec]) -> list[str]:
    """Return the destinations' names."""
    return [r.dst for r in records]


def table_of(trace: Trace) -> dict[str, object]:
    """Return all that a trace says, strings instead of their ids, to compare."""
    texts = np.array([*trace.strings.texts(), ""], object)
    table: dict[str, object] = {
        "lanes": trace.lanes,
        "clock": trace.clock,
        "extent": trace.extent,
        "warnings": trace.warnings,
        "info": replace(trace.info, producer={}),
        "ops": trace.ops,
        "pending": trace.pending,
    }
    for name in ("spans", "markers", "accesses", "tensors", "buffers"):
        _add_columns(table, name, getattr(trace, name))
    for name in ("spans.name", "tensors.name", "buffers.name", "markers.name"):
        table[name] = texts[table[name]].tolist()
    return table


def _add_columns(values: dict[str, object], name: str, table: object) -> None:
    for f in fields(table):  # type: ignore[arg-type]
        value = getattr(table, f.name)
        if is_dataclass(value):
            _add_columns(values, f"{name}.{f.name}", value)
        else:
            values[f"{name}.{f.name}"] = value


def assert_same_table(a: Trace, b: Trace) -> None:
    """Compare two traces in everything but ids of strings and generation."""
    ours, theirs = table_of(a), table_of(b)
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        if isinstance(value, np.ndarray):
            assert np.array_equal(value, theirs[key]), key
        elif key == "info":
            assert repr(value) == repr(theirs[key])
        else:
            assert value == theirs[key], key


def _cut(name: str, width: int) -> bytes:
    return name.encode()[: width - 1].ljust(width, b"\0")


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
