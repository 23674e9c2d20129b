"""Experts that records of 1024 bytes list, and those that sizes imply.

Such records list the experts of an op in the router's order, and every op of a layer
repeats the same list: one record per pass and layer is enough, so that a large file is
not read a second time. How many of those listed compute is not in the list; it follows
from the sizes of the tensors that hold the choice. A list names 16 experts at most, and
those of a prompt's first token: what is beyond is unknown.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import I64, Array, stacked
from ggscope.model.trace import Severity
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.source import Source
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import Draft
from ggscope.readers.tensor.routing.rows import (
    MAX_EXPERT,
    Groups,
    grouped,
    layer_key,
    token_of,
)
from ggscope.readers.tensor.routing.sizes import MAX_LISTED, ExpertSizes

_CHOOSING_OP = "MUL_MAT_ID"
_MAX_CHECKED = 1 << 14
"""So many lists are compared with that of their pass and layer; more cost time."""

_LIST_AT, _LIST_BYTES = 792, 65

Reading = Callable[[I64], tuple[Array, Array]]
"""From rows to (int32[m, 16] experts, int64[m] how many of them are listed)."""


def lists_in_file(source: Source, records: Array, chunked: ChunkedOps) -> Reading:
    """Return a function that reads expert lists from 1024-byte records.

    Parameters
    ----------
    records : number of the record of each row.
    """

    def read(rows: I64) -> tuple[Array, Array]:
        raw = np.zeros((len(rows), _LIST_BYTES), np.uint8)
        for i, record in enumerate(records[rows].tolist()):
            if i % 1024 == 0:
                chunked.check()
            data = source.array(record * 1024 + _LIST_AT, _LIST_BYTES)
            raw[i, : len(data)] = data
        experts = np.ascontiguousarray(raw[:, : _LIST_BYTES - 1]).view("<i4")
        return experts.astype(np.int32), raw[:, -1].astype(np.int64)

    return read


def add_choices(
    builder: TraceBuilder,
    draft: Draft,
    patterns: Patterns,
    of_row: Array,
    read: Reading | None,
    n_of_op: I64,
    chunked: ChunkedOps,
) -> None:
    """Add the choices that records list, or that sizes imply, per pass and layer.

    Where each token computes all experts, that follows from the sizes of the op's
    tensors, and all of them are chosen whether a list names them or not.

    Parameters
    ----------
    of_row : pattern of each row, -1 none.
    read : None where no record lists experts.
    n_of_op : int64[256], records of each op.
    """
    n = len(draft.rows.start)
    layers = patterns.layer
    groups = None
    if read is not None:
        lists = np.append(patterns.claims.lists_experts, False)
        rows = chunked.find(n, lambda chunk: lists[of_row[chunk]])
        if len(rows):
            groups = grouped(rows, layers[of_row[rows]].astype(np.int64), draft)
    choosing = _choosing_rows(draft, n_of_op, chunked)
    if groups is None and not len(choosing):
        return
    sizes = ExpertSizes(builder, draft, patterns, of_row, chunked)
    parts = []
    if groups is not None and read is not None:
        experts, count = read(groups.first)
        count = np.minimum(count, MAX_LISTED)
        _note_differing(builder, groups, experts, count, read)
        used = sizes.n_used(groups.first)
        first_layer = layers[of_row[groups.first]].astype(np.int64)
        more = sizes.n_more(groups.first, used, count)
        parts.append(
            _from_lists(
                builder, draft, groups.first, first_layer, experts, count, used, more
            )
        )
        _note_used(builder, used, sizes)
    parts.append(_implied(draft, choosing, layers[of_row[choosing]], sizes, parts))
    routing = parts[0] if len(parts) == 1 else _joined(*parts)
    if len(routing):
        builder.routing = replace(routing, n_experts=sizes.n_experts)


def _choosing_rows(draft: Draft, n_of_op: I64, chunked: ChunkedOps) -> I64:
    """Return the rows of ops that compute chosen experts of a stack."""
    n, ops = len(draft.rows.start), draft.file.ops
    if not draft.file.options.layout.has_ggml_ops:
        return np.zeros(0, np.int64)
    codes = [i for i, name in enumerate(ops.names[:256]) if name == _CHOOSING_OP]
    if not n_of_op[codes].any():
        return np.zeros(0, np.int64)
    op = draft.spans["op"]
    return chunked.find(n, lambda chunk: op[chunk] == codes[0])


def _implied(
    draft: Draft,
    rows: I64,
    layer: Array,
    sizes: ExpertSizes,
    listed: list[Routing],
) -> Routing:
    """Return the experts that no list names, where all of a layer computed.

    Parameters
    ----------
    rows, layer : ops that compute chosen experts.
    listed : the choices of lists.
    """
    groups = grouped(rows, layer.astype(np.int64), draft)
    place = np.full(len(draft.rows.start) if len(rows) else 1, -1, np.int16)
    place[rows] = layer
    first = groups.first
    first = first[(sizes.n_used(first) == sizes.n_experts) & (place[first] >= 0)]
    n = sizes.n_experts if len(first) else 0
    at = np.repeat(first, n)
    expert = np.tile(np.arange(n), len(first))
    key = layer_key(draft, at, place[at]) * (MAX_EXPERT + 1)
    keep = np.ones(len(at), np.bool_)
    if listed:
        keep = ~np.isin(key + expert, _listed_experts(draft, listed[0]))
    at, expert = at[keep], expert[keep]
    m = len(at)
    return Routing(
        time=draft.rows.start[at],
        span=at.astype(np.int64),
        token=token_of(draft, at),
        layer=place[at].astype(np.int16),
        expert=expert.astype(np.int16),
        rank=np.full(m, -1, np.int16),
        score=np.full(m, np.nan, np.float32),
        is_used=np.ones(m, np.bool_),
        n_more=np.zeros(m, np.int32),
        is_implied=np.ones(m, np.bool_),
    )


def _listed_experts(draft: Draft, routing: Routing) -> I64:
    """Return pass, layer and expert of each choice as one number."""
    layer = routing.layer.astype(np.int64)
    key = layer_key(draft, routing.span, layer) * (MAX_EXPERT + 1)
    return np.asarray(key + routing.expert, np.int64)


def _joined(a: Routing, b: Routing) -> Routing:
    """Return the rows of both by time."""
    both = stacked(a, b)
    return both.take(np.argsort(both.time, kind="stable"))


def _from_lists(
    builder: TraceBuilder,
    draft: Draft,
    rows: I64,
    layer: I64,
    experts: Array,
    count: Array,
    used: I64,
    more: I64,
) -> Routing:
    rank = np.broadcast_to(np.arange(MAX_LISTED), experts.shape)
    is_listed = rank < count[:, None]
    is_good = is_listed & (experts >= 0) & (experts < MAX_EXPERT)
    n_bad = int(np.count_nonzero(is_listed & ~is_good))
    builder.warn(
        Severity.DATA_LOSS,
        "bad_expert",
        "skipped invalid expert numbers.",
        count=n_bad,
    )
    at, _ = np.nonzero(is_good)
    limit = np.where(used < 0, MAX_LISTED, used)[:, None]
    n = len(at)
    return Routing(
        time=draft.rows.start[rows][at],
        span=rows[at],
        token=token_of(draft, rows)[at],
        layer=layer[at].astype(np.int16),
        expert=experts[is_good].astype(np.int16),
        rank=rank[is_good].astype(np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=(rank < limit)[is_good],
        n_more=more[at].astype(np.int32),
        is_implied=np.zeros(n, np.bool_),
    )


def _note_differing(
    builder: TraceBuilder, groups: Groups, experts: Array, count: Array, read: Reading
) -> None:
    """Compare the lists of other ops with the one that is taken."""
    others, of_first = groups.others[:_MAX_CHECKED], groups.of_first[:_MAX_CHECKED]
    if not len(others):
        return
    theirs, their_count = read(others)
    is_listed = np.arange(MAX_LISTED) < np.minimum(their_count, MAX_LISTED)[:, None]
    differs = ((theirs != experts[of_first]) & is_listed).any(axis=1)
    differs |= np.minimum(their_count, MAX_LISTED) != count[of_first]
    if differs.any():
        builder.warn(
            Severity.NOTICE,
            "expert_lists_differ",
            "ops of the same layer and pass list different experts; those of the "
            "first op are shown.",
            count=int(np.count_nonzero(differs)),
        )


def _note_used(builder: TraceBuilder, used: I64, sizes: ExpertSizes) -> None:
    unknown = int(np.count_nonzero(used < 0))
    builder.warn(
        Severity.NOTICE,
        "routing_used_unknown",
        "expert lists may rank more experts than are used, and the number "
        "of used experts is not recorded; all listed experts count as "
        "used.",
        count=unknown,
    )
    several = int(np.count_nonzero(sizes.n_tokens > 1))
    if several:
        builder.warn(
            Severity.INFO,
            "routing_of_first_token",
            f"{several:,} of {len(sizes.n_tokens):,} passes compute several "
            "tokens; their expert lists are those of the first token only.",
            count=several,
        )
