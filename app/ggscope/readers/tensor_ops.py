"""Find the op table of a tensor trace from a sample of its records."""

from collections import Counter
from dataclasses import replace

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.ggml import TRACER_PRIVATE, OpSample, infer, table
from ggscope.model.tables import Array
from ggscope.model.trace import OpTable
from ggscope.readers.records import FIRST_EXTENSION_OP, Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_ranges import Ranges

_NEAR, _FAR = 2048, 1024


def find_ops(
    source: Source, layout: Layout, ranges: Ranges, wanted: str | None
) -> OpTable:
    """Return the op table: `wanted` by its id, else declared or inferred.

    Raises
    ------
    ReadError
        If there is no table `wanted`.
    """
    if wanted:
        try:
            return replace(table(wanted), source="override")
        except KeyError:
            raise ReadError(
                f"there is no op table {wanted!r}.",
                path=source.path,
                hint="Ids look like ggml-2025-11-25-95.",
            ) from None
    if not layout.has_ggml_ops:
        return TRACER_PRIVATE
    return infer(_samples(_sample(source, layout, ranges)))


def _sample(source: Source, layout: Layout, ranges: Ranges) -> Array:
    """Return up to 3072 records: the first ones, and others evenly spread.

    The first ones hold a whole pass, so every op occurs; the spread ones make sure
    of what comes later.
    """
    size = layout.size
    parts = [np.zeros(0, np.uint8)]
    total = sum(stop - first for first, stop in ranges)
    left, before = _NEAR, 0
    spread = np.unique(np.linspace(0, max(total - 1, 0), _FAR).astype(np.int64))
    for first, stop in ranges:
        near = min(left, stop - first)
        parts.append(source.array(first * size, near * size))
        left -= near
        here = spread[(spread >= before + near) & (spread < before + stop - first)]
        parts += [
            source.array((first + at - before) * size, size) for at in here.tolist()
        ]
        before += stop - first
    whole = [part for part in parts if len(part) % size == 0]
    return np.concatenate(whole).view(layout.dtype)


def _samples(records: Array) -> list[OpSample]:
    op = records["operation_type"]
    is_empty = (op == 0) & (records["timestamp_ns"] == 0)
    records = records[(op < FIRST_EXTENSION_OP) & ~is_empty]
    count = np.minimum(records["num_sources"], 4).tolist()
    rows = zip(
        records["operation_type"].tolist(),
        records["dst_name"].tolist(),
        count,
        records["sources"]["name"].tolist(),
        strict=True,
    )
    found = Counter((op, dst, n, tuple(names[:n])) for op, dst, n, names in rows)
    return [
        OpSample(op, _text(dst), tuple(map(_text, names)), n, times)
        for (op, dst, n, names), times in found.items()
    ]


def _text(raw: bytes) -> str:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
