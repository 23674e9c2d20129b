"""Patterns of a token trace as records, so that they are decoded like any others.

The records have the fields of the binary ones, as wide as this file needs them; the
tables of a trace then come out the same whether it was read from records or JSON.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ggscope.model.tables import Array
from ggscope.readers.records import (
    LAYOUT_128,
    LAYOUT_256,
    LAYOUT_1024,
    NO_INDEX,
    NO_LAYER,
    NO_OFFSET,
    Layout,
)
from ggscope.readers.trace_json_entries import Access, Pattern

_BY_VERSION = {"256-byte": LAYOUT_256, "1024-byte": LAYOUT_1024}


def schema_of(patterns: Sequence[Pattern], version: str) -> Layout:
    """Return the binary layout that the entries were exported from.

    Parameters
    ----------
    version : what the file says, "" where it says nothing; where that is unknown
        it follows from the entries.
    """
    if version in _BY_VERSION:
        return _BY_VERSION[version]
    has_results = any(p.has_result for p in patterns)
    if not has_results and patterns:
        return LAYOUT_128
    if not version.startswith("128") and any(p.lists_experts for p in patterns):
        return LAYOUT_1024
    return LAYOUT_256


def as_records(
    patterns: Sequence[Pattern], ops: Sequence[int], schema: Layout
) -> tuple[Layout, Array]:
    """Return the patterns as records of a layout of their own.

    Parameters
    ----------
    ops : number of each pattern's op.
    schema : gives the widths of names; longer names make them wider.
    """
    if schema.source is None and not any(p.has_result for p in patterns):
        return _single_records(patterns, ops, schema)
    patterns = [p if p.has_result else _one_source(p) for p in patterns]
    result_width = _width((p.name for p in patterns), schema.dst_width or 24)
    names = (a.name for p in patterns for a in p.accesses)
    source_width = _width(names, schema.source_width or 20)
    n_slots = max((len(p.accesses) for p in patterns), default=0) or 1
    layout = _layout(schema, result_width, source_width, n_slots)
    records = np.zeros(len(patterns), layout.dtype)
    records["layer_id"] = [_layer(p.layer) for p in patterns]
    records["operation_type"] = ops
    records["dst_name"] = [_raw(p.name) for p in patterns]
    records["num_experts"] = [p.lists_experts for p in patterns]
    counts = np.array([len(p.accesses) for p in patterns], np.int64)
    # What the entries claim is not told here: some of it may have been left out.
    records["num_sources"] = counts
    flat = [a for p in patterns for a in p.accesses]
    at = np.repeat(np.arange(len(patterns)), counts)
    slot = np.arange(len(flat)) - np.repeat(np.cumsum(counts) - counts, counts)
    sources = np.zeros(len(flat), layout.source)
    _fill(sources, flat)
    records["sources"][at, slot] = sources
    return layout, records


def _single_records(
    patterns: Sequence[Pattern], ops: Sequence[int], schema: Layout
) -> tuple[Layout, Array]:
    accesses = [p.accesses[0] for p in patterns]
    width = _width((a.name for a in accesses), schema.dst_width)
    dtype = np.dtype(
        [
            ("layer_id", "<u2"),
            ("operation_type", "u1"),
            ("tensor_idx", "<i8"),
            ("tensor_ptr", "<u8"),
            ("file_offset", "<u8"),
            ("size_bytes", "<i8"),
            ("tensor_name", f"S{width}"),
        ]
    )
    records = np.zeros(len(patterns), dtype)
    records["layer_id"] = [_layer(a.layer) for a in accesses]
    records["operation_type"] = ops
    records["tensor_idx"] = [_index(a.index) for a in accesses]
    records["tensor_ptr"] = [a.pointer for a in accesses]
    records["file_offset"] = [a.where or 0 for a in accesses]
    records["size_bytes"] = [a.size for a in accesses]
    records["tensor_name"] = [_raw(a.name) for a in accesses]
    return _made(schema, dtype, None, width), records


def _layout(schema: Layout, dst_width: int, width: int, n_slots: int) -> Layout:
    source = np.dtype(
        [
            ("name", f"S{width}"),
            ("tensor_ptr", "<u8"),
            ("size_bytes", "<i8"),
            ("layer_id", "<u2"),
            ("memory_source", "u1"),
            ("disk_offset_or_buffer_id", "<u8"),
            ("tensor_idx", "<i8"),
        ]
    )
    dtype = np.dtype(
        [
            ("layer_id", "<u2"),
            ("operation_type", "u1"),
            ("num_sources", "<i2"),
            ("num_experts", "u1"),
            ("dst_name", f"S{dst_width}"),
            ("sources", source, (n_slots,)),
        ]
    )
    return _made(schema, dtype, source, dst_width)


def _made(
    schema: Layout,
    dtype: np.dtype[Any],
    source: np.dtype[Any] | None,
    dst_width: int,
) -> Layout:
    return Layout(
        id=schema.id,
        title=f"token trace JSON, {schema.id}-byte schema",
        dtype=dtype,
        source=source,
        dst_width=dst_width,
        key=np.zeros(0, np.bool_),
        has_ggml_ops=schema.has_ggml_ops,
    )


def _fill(sources: Array, accesses: Sequence[Access]) -> None:
    sources["name"] = [_raw(a.name) for a in accesses]
    sources["tensor_ptr"] = [a.pointer for a in accesses]
    sources["size_bytes"] = [a.size for a in accesses]
    sources["layer_id"] = [_layer(a.layer) for a in accesses]
    sources["memory_source"] = [a.space for a in accesses]
    sources["disk_offset_or_buffer_id"] = [
        (NO_OFFSET if a.space == 0 else 0) if a.where is None else a.where
        for a in accesses
    ]
    sources["tensor_idx"] = [_index(a.index) for a in accesses]


def _one_source(pattern: Pattern) -> Pattern:
    """Return an entry of one access as an op without a name that reads it."""
    return Pattern(
        op=pattern.op,
        name="",
        layer=pattern.layer,
        n_sources=1,
        accesses=pattern.accesses,
        has_result=True,
        lists_experts=False,
    )


def _width(names: Iterable[str], usual: int) -> int:
    """Return the usual width of a name's field, or a wider one for a longer name."""
    longest = max((len(_raw(name)) for name in names), default=0)
    return usual if longest <= usual else longest + 2


def _raw(name: str) -> bytes:
    # A NUL would end the name: records end theirs so.
    return name.encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")


def _layer(layer: int) -> int:
    return NO_LAYER if layer < 0 else layer


def _index(index: int) -> int:
    return NO_INDEX if index < 0 else index
