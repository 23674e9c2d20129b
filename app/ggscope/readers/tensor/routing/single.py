"""The chosen expert of records that name one each: those of 64 and 128 bytes."""

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import I64, Array
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.tensor.layouts import (
    LAYOUT_64A,
    LAYOUT_64P,
    LAYOUT_128,
    NO_EXPERT,
)
from ggscope.readers.tensor.passes import Draft
from ggscope.readers.tensor.routing.rows import layer_key, token_of

HAS_SINGLE = (LAYOUT_64P, LAYOUT_64A, LAYOUT_128)
"""Layouts whose records name one expert each."""


def add_single(
    builder: TraceBuilder, draft: Draft, exemplars: Array, chunked: ChunkedOps
) -> None:
    """Add the choices of 64- and 128-byte records, one expert each.

    The first tracer never set these fields, so the file is only looked through
    where the first record of some pattern has something in them.

    Parameters
    ----------
    exemplars : first record of each pattern, uint64[n_patterns, size / 8].
    """
    layout = draft.file.options.layout
    if not len(exemplars):
        return
    names = ("expert_id", "expert_rank", "routing_score")
    records = np.ascontiguousarray(exemplars).view(layout.dtype).reshape(-1)
    if not any(
        np.any((records[name] != 0) & (records[name] != NO_EXPERT)) for name in names
    ):
        return
    expert, rank, score = _expert_fields(draft, chunked)
    is_set = expert != NO_EXPERT
    if is_set.all():
        # A writer that never says "none" leaves zeros: no choice of expert 0.
        is_set = (expert != 0) | (rank != 0) | (score != 0)
    rows = np.flatnonzero(is_set)
    if not len(rows):
        return
    builder.routing = _from_single(draft, rows, expert, rank, score)


def _from_single(
    draft: Draft, rows: I64, expert: Array, rank: Array, score: Array
) -> Routing:
    """Return one choice per pass, layer and expert, in order of time."""
    rows = rows[np.argsort(draft.rows.start[rows], kind="stable")]
    layer = draft.spans["layer"][rows].astype(np.int64)
    key = layer_key(draft, rows, layer) * 256 + expert[rows]
    rows = rows[np.sort(np.unique(key, return_index=True)[1])]
    shares = (score[rows] / np.float32(0xFFFF)).astype(np.float32)
    if not score.any():
        shares[:] = np.nan
    ranks = rank[rows].astype(np.int16)
    return Routing(
        time=draft.rows.start[rows],
        span=rows,
        token=token_of(draft, rows),
        layer=draft.spans["layer"][rows].astype(np.int16),
        expert=expert[rows].astype(np.int16),
        rank=np.where(ranks == NO_EXPERT, -1, ranks).astype(np.int16),
        score=shares,
        is_used=np.ones(len(rows), np.bool_),
    )


def _expert_fields(draft: Draft, chunked: ChunkedOps) -> tuple[Array, Array, Array]:
    """Return expert, rank and score of every row, from the file."""
    source, layout = draft.file.source, draft.file.options.layout
    records, n = draft.spans["record"], len(draft.rows.start)
    expert = np.full(n, NO_EXPERT, np.uint8)
    rank = np.full(n, NO_EXPERT, np.uint8)
    score = np.zeros(n, np.uint16)
    for chunk in chunked.slices(n):
        number = records[chunk].astype(np.int64)
        for low in range(0, len(number), 4096):
            part = number[low : low + 4096]
            first, last = int(part.min()), int(part.max())
            rows = slice(chunk.start + low, chunk.start + low + len(part))
            size = layout.size
            block = source.array(first * size, (last - first + 1) * size)
            fields = block[: len(block) // size * size].view(layout.dtype)
            inside = part - first < len(fields)
            at = (part - first)[inside]
            expert[rows][inside] = fields["expert_id"][at]
            rank[rows][inside] = fields["expert_rank"][at]
            score[rows][inside] = fields["routing_score"][at]
    return expert, rank, score
