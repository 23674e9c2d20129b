"""Which experts the router chose, where records of a tensor trace say so.

Extension records of our own tracer tell it of each token of a batch, with scores.

Records of 1024 bytes list the experts of an op in the router's order, and every op
of a layer repeats the same list: one record per pass and layer is enough, so that a
large file is not read a second time. How many of those listed compute is not in the
list; it follows from the sizes of the tensors that hold the choice. A list names 16
experts at most, and those of a prompt's first token: what is beyond is unknown.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import UNKNOWN_MORE, Routing
from ggscope.model.tables import I64, Array, distinct, ranked, stacked
from ggscope.model.trace import Severity
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.source import Source
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUT_64A,
    LAYOUT_64P,
    LAYOUT_128,
    NO_EXPERT,
    RecordLayout,
)
from ggscope.readers.tensor.names import Patterns
from ggscope.readers.tensor.passes import Draft

MAX_LISTED = 16
"""Experts that one record can list."""

_CHOOSING_OP = "MUL_MAT_ID"
_MOST_CHECKED = 1 << 14
"""So many lists are compared with that of their pass and layer; more cost time."""

_LIST_AT, _LIST_BYTES = 792, 65
_ID_BYTES = 4
_MAX_EXPERT = 1 << 15

Reading = Callable[[I64], tuple[Array, Array]]
"""From rows to (int32[m, 16] experts, int64[m] how many of them are listed)."""
_EXTENSION = np.dtype(
    {
        "names": ["time", "token", "layer", "row", "op", "used", "rows", "of", "list"],
        "formats": ["<u8", "<u4", "<u2", "<u2", "u1", "u1", "u1", "<u2", "(104,)<u2"],
        "offsets": [0, 8, 12, 14, 16, 18, 19, 20, 48],
        "itemsize": 256,
    }
)
_ROOM = (104, 52)
"""Experts that a record of each kind can list: those with scores half as many."""
CHOICE = np.dtype(
    [("time", "<i8"), ("token", "<i8"), ("layer", "<i8"), ("row", "<i8"),
     ("rank", "<i8"), ("expert", "<i8"), ("score", "<f4"), ("op", "<i8")]
)  # fmt: skip
"""An expert that was chosen for a row (token of the batch) of a layer."""
CHOOSING_OPS = ("MUL_MAT_ID", "ARGSORT", "TOP_K")
"""Ops that multiply by chosen experts, or choose them."""
HAS_SINGLE = (LAYOUT_64P, LAYOUT_64A, LAYOUT_128)
"""Layouts whose records name one expert each."""


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Rows that list experts: the first of each pass and layer, and the others.

    Attributes
    ----------
    first : int64[m], one row per pass and layer, in order of time.
    others, of_first : further rows, and which of `first` each repeats.
    """

    first: I64
    others: I64
    of_first: I64


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
            found = source.array(record * 1024 + _LIST_AT, _LIST_BYTES)
            raw[i, : len(found)] = found
        experts = np.ascontiguousarray(raw[:, : _LIST_BYTES - 1]).view("<i4")
        return experts.astype(np.int32), raw[:, -1].astype(np.int64)

    return read


def add_choices(
    builder: TraceBuilder,
    draft: Draft,
    patterns: Patterns,
    of_row: Array,
    read: Reading | None,
    chunked: ChunkedOps,
) -> None:
    """Add the choices that records list, or that sizes imply, per pass and layer.

    Where each token computes all experts, that follows from the sizes of the op's
    tensors, and all of them are chosen whether a list names them or not.

    Parameters
    ----------
    of_row : pattern of each row, -1 none.
    read : None where no record lists experts.
    """
    n = len(draft.rows)
    layers = patterns.layer
    groups = None
    if read is not None:
        lists = np.append(patterns.claims.lists_experts, False)
        rows = chunked.find(n, lambda chunk: lists[of_row[chunk]])
        if len(rows):
            groups = _grouped(rows, layers[of_row[rows]].astype(np.int64), draft)
    choosing = _choosing_rows(draft, chunked)
    if groups is None and not len(choosing):
        return
    sizes = _Sizes(builder, draft, patterns, of_row, chunked)
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
        told = pass_of(draft, groups.first) * (_MAX_EXPERT + 1) + first_layer
    else:
        told = np.zeros(0, np.int64)
    parts.append(
        _implied(draft, choosing, layers[of_row[choosing]], sizes, parts, told)
    )
    found = parts[0] if len(parts) == 1 else _joined(*parts)
    if len(found):
        builder.routing = replace(found, n_experts=sizes.n_experts)


def _choosing_rows(draft: Draft, chunked: ChunkedOps) -> I64:
    """Return the rows of ops that compute chosen experts of a stack."""
    n, ops = len(draft.rows), draft.file.ops
    if not draft.file.options.layout.has_ggml_ops:
        return np.zeros(0, np.int64)
    codes = [i for i, name in enumerate(ops.names[:256]) if name == _CHOOSING_OP]
    if not codes:
        return np.zeros(0, np.int64)
    op = draft.spans["op"]
    return chunked.find(n, lambda chunk: op[chunk] == codes[0])


def _implied(
    draft: Draft,
    rows: I64,
    layer: Array,
    sizes: "_Sizes",
    listed: list[Routing],
    told: I64,
) -> Routing:
    """Return the experts that no list names, where all of a layer computed.

    Parameters
    ----------
    rows, layer : ops that compute chosen experts.
    listed : the choices of lists.
    told : passes and layers that have a list.
    """
    groups = _grouped(rows, layer.astype(np.int64), draft)
    place = np.full(len(draft.rows) if len(rows) else 1, -1, np.int16)
    place[rows] = layer
    first = groups.first
    first = first[(sizes.n_used(first) == sizes.n_experts) & (place[first] >= 0)]
    n = sizes.n_experts if len(first) else 0
    at = np.repeat(first, n)
    expert = np.tile(np.arange(n), len(first))
    key = (pass_of(draft, at) * (_MAX_EXPERT + 1) + place[at]) * (_MAX_EXPERT + 1)
    keep = np.ones(len(at), np.bool_)
    if listed:
        known = told_experts(draft, listed[0])
        keep = ~np.isin(key + expert, known)
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


def told_experts(draft: Draft, routing: Routing) -> I64:
    """Return pass, layer and expert of each choice as one number."""
    layer = routing.layer.astype(np.int64)
    key = pass_of(draft, routing.span) * (_MAX_EXPERT + 1) + layer
    return np.asarray(key * (_MAX_EXPERT + 1) + routing.expert, np.int64)


def _joined(a: Routing, b: Routing) -> Routing:
    """Return the rows of both by time."""
    both = stacked(a, b)
    return both.take(np.argsort(both.time, kind="stable"))


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
    shown = np.ascontiguousarray(exemplars).view(layout.dtype).reshape(-1)
    if not any(
        np.any((shown[name] != 0) & (shown[name] != NO_EXPERT)) for name in names
    ):
        return
    fields = _expert_fields(
        draft.file.source, layout, draft.spans["record"], draft, chunked
    )
    expert, rank, score = fields
    is_set = expert != NO_EXPERT
    if is_set.all():
        # A writer that never says "none" leaves zeros: no choice of expert 0.
        is_set = (expert != 0) | (rank != 0) | (score != 0)
    rows = np.flatnonzero(is_set)
    if not len(rows):
        return
    builder.routing = _from_single(draft, rows, expert, rank, score)


def add_extensions(builder: TraceBuilder, draft: Draft, chunked: ChunkedOps) -> None:
    """Add the choices and scores that extension records of our own tracer hold.

    Notes
    -----
    A record of 256 bytes with an op number from 0xF0 on: time, token and layer are
    those of the op it belongs to; the thread's place holds the first row (token of
    the batch) that is told, the number of sources how many experts each row uses;
    byte 19 counts the rows, bytes 20 and 21 the experts of the layer. From byte 48
    on 0xF0 (``MUL_MAT_ID``) lists the experts, u16 each, row by row; 0xF1 (the
    router) lists pairs of expert and score, the latter u16 of 65535.
    """
    found = _extension_records(draft, chunked)
    told = {FIRST_EXTENSION_OP: found[0], FIRST_EXTENSION_OP + 1: found[1]}
    choices = [_choices_of(raw, code) for code, raw in told.items()]
    n_bad = sum(bad for _, bad in choices)
    if n_lost := _n_missing(found):
        builder.warn(
            Severity.DATA_LOSS,
            "choices_missing",
            "expert-routing records are missing, which the other list of that "
            "token and layer or other tokens have.",
            count=n_lost,
            remedy="The experts used there are known where the other list has them. "
            "Record again if you need them.",
        )
    if n_bad:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_extension",
            "skipped expert-routing records with invalid numbers of rows, "
            "experts or choices.",
            count=n_bad,
        )
    computed = merged_choices(builder, *(rows for rows, _ in choices))
    if len(computed):
        routing = _of_choices(draft, computed)
        numbers = distinct(np.concatenate([raw["of"] for raw in found]))
        # Stacks of different numbers cannot be told apart without a model.
        n_experts = int(numbers[-1]) if len(numbers[numbers > 0]) == 1 else 0
        builder.routing = replace(routing, n_experts=n_experts)


def _n_missing(found: tuple[Array, Array]) -> int:
    """Return how many extension records are missing, by those that are there.

    Both kinds list the same rows of a token and layer, from the first one on without
    a gap. A token and layer without any is missed where most tokens have that layer
    in one kind or the other, and an eighth of them in this one.
    """
    tables = [_rows_told(raw, room) for raw, room in zip(found, _ROOM, strict=True)]
    keys = distinct(np.concatenate([table.key for table in tables]))
    end = np.zeros(len(keys), np.int64)
    for table in tables:
        at = np.searchsorted(keys, table.key)
        end[at] = np.maximum(end[at], table.end)
    n_tokens = len(distinct(keys >> 16))
    listed, of_tokens = np.unique(keys & 0xFFFF, return_counts=True)
    most = listed[2 * of_tokens >= n_tokens]
    n = 0
    for table in tables:
        layers, counts = np.unique(table.key & 0xFFFF, return_counts=True)
        usual = np.intersect1d(layers[8 * counts >= n_tokens], most)
        is_usual = np.isin(keys & 0xFFFF, usual)
        has = np.zeros(len(keys), np.int64)
        has[np.searchsorted(keys, table.key)] = table.rows
        lacks = np.maximum(end - has, 0)[is_usual]
        n += int((-(-lacks // table.per_record)).sum())
        n += n_tokens * len(usual) - int(np.count_nonzero(is_usual))
    return n


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows that records of one kind list, by ``token << 16 | layer``, ascending.

    Attributes
    ----------
    rows, end : how many of each key, and up to which.
    per_record : how many one record has room for.
    """

    key: I64
    rows: I64
    end: I64
    per_record: int


def _rows_told(raw: Array, room: int) -> _Rows:
    used, rows = raw["used"].astype(np.int64), raw["rows"].astype(np.int64)
    raw = raw[(used * rows > 0) & (used * rows <= room)]
    place = (raw["token"].astype(np.int64) << 32) | (
        raw["layer"].astype(np.int64) << 16
    )
    # Several multiplications of a layer list the same choice.
    place, at = np.unique(place | raw["row"], return_index=True)
    key, group = np.unique(place >> 16, return_inverse=True)
    n_rows = raw["rows"][at].astype(np.int64)
    total = np.bincount(group, n_rows, len(key)).astype(np.int64)
    end = np.zeros(len(key), np.int64)
    np.maximum.at(end, group, (place & 0xFFFF) + n_rows)
    each = int(np.median(raw["used"])) if len(raw) else 1
    return _Rows(key, total, end, max(room // max(each, 1), 1))


def merged_choices(builder: TraceBuilder, computed: Array, routed: Array) -> Array:
    """Return the choices of multiplications and routers, each once.

    What was computed leads, with the router's scores; the router's list stands where
    nothing else does. Several multiplications of one layer may list the same choice.

    Parameters
    ----------
    builder : is told where both name different experts.
    computed, routed : rows of `CHOICE`.
    """
    computed, routed = _each_once(computed), _each_once(routed)
    key, routed_key = _choice_keys(computed, routed)
    is_scored = np.isin(key, routed_key)
    order = np.argsort(routed_key)
    at = np.searchsorted(routed_key[order], key[is_scored])
    computed["score"][is_scored] = routed["score"][order][at]
    is_told_twice = np.isin(_place_keys(computed), _place_keys(routed))
    if n_differ := int(np.count_nonzero(is_told_twice & ~is_scored)):
        builder.warn(
            Severity.NOTICE,
            "expert_lists_differ",
            "router and multiplication of a layer and token list different "
            "experts; those that were computed are shown.",
            count=n_differ,
        )
    alone = ~np.isin(_place_keys(routed), _place_keys(computed))
    return np.concatenate([computed, routed[alone]])


def _each_once(found: Array) -> Array:
    return found[np.sort(np.unique(_choice_keys(found)[0], return_index=True)[1])]


def _extension_records(draft: Draft, chunked: ChunkedOps) -> tuple[Array, Array]:
    """Return the records 0xF0 and 0xF1 of the file, by a second look through it."""
    source, size = draft.file.source, _EXTENSION.itemsize
    kinds: tuple[list[Array], list[Array]] = ([], [])
    for _, block in source.blocks(0, source.size // size * size):
        chunked.check()
        records = block[: len(block) // size * size].view(_EXTENSION)
        for number, kept in enumerate(kinds):
            kept.append(records[records["op"] == FIRST_EXTENSION_OP + number].copy())
    empty = np.zeros(0, _EXTENSION)
    return np.concatenate([empty, *kinds[0]]), np.concatenate([empty, *kinds[1]])


def _choices_of(raw: Array, code: int) -> tuple[Array, int]:
    """Return the choices of records of one kind, and how many records make no sense."""
    has_scores = code != FIRST_EXTENSION_OP
    room = _ROOM[has_scores]
    used, rows = raw["used"].astype(np.int64), raw["rows"].astype(np.int64)
    n = used * rows
    experts = raw["list"][:, ::2] if has_scores else raw["list"]
    listed = np.arange(room) < n[:, None]
    limit = np.where(raw["of"] > 0, raw["of"], _MAX_EXPERT)[:, None]
    is_good = (n > 0) & (n <= room) & (raw["layer"] < _MAX_EXPERT)
    is_good &= ~(listed & (experts >= limit)).any(axis=1)
    at, place = np.nonzero(listed & is_good[:, None])
    found = np.zeros(len(at), CHOICE)
    found["time"] = raw["time"][at].astype(np.int64)
    for name in ("token", "layer", "op"):
        found[name] = raw[name][at]
    found["row"] = raw["row"][at].astype(np.int64) + place // used[at]
    found["rank"] = place % used[at]
    found["expert"] = experts[at, place]
    found["score"] = np.nan
    if has_scores:
        found["score"] = raw["list"][:, 1::2][at, place] / np.float32(0xFFFF)
    return found, int(np.count_nonzero(~is_good))


def _place_keys(found: Array) -> I64:
    """Return token, layer and row as one number."""
    key = (found["token"] & 0x7FFFFFFF) << 32 | found["layer"] << 16 | found["row"]
    return np.asarray(key, np.int64)


def _choice_keys(*tables: Array) -> list[I64]:
    """Return what tells the choices of these tables apart: where, and which expert."""
    parts = [_place_keys(table) for table in tables]
    _, _, place = ranked(np.concatenate(parts))
    key = place * _MAX_EXPERT + np.concatenate([table["expert"] for table in tables])
    return np.split(key, np.cumsum([len(table) for table in tables])[:-1])


def _of_choices(draft: Draft, found: Array) -> Routing:
    start = found["time"] - draft.rows.origin
    order = np.lexsort((found["rank"], found["row"], found["layer"], start))
    found, start = found[order], start[order]
    token = found["token"]
    return Routing(
        time=start,
        span=_op_before(draft, found, start),
        token=np.where(token < 1 << 31, token, -1).astype(np.int32),
        layer=found["layer"].astype(np.int16),
        expert=found["expert"].astype(np.int16),
        rank=found["rank"].astype(np.int16),
        score=found["score"],
        is_used=np.ones(len(found), np.bool_),
        row=found["row"].astype(np.int32),
    )


def _op_before(draft: Draft, found: Array, start: I64) -> I64:
    """Return the op that each choice belongs to; or -1.

    Only ops count that multiply by or sort experts, in the same layer: the one that
    began at that very time, as our own tracer tells it, else the last one by then. Ops
    of other contexts may lie between, and may begin at the same tick: of several the
    one of the same token counts.
    """
    ops, n = draft.file.ops, len(draft.rows)
    choosing = [
        number
        for number in distinct(draft.spans["op"][:n]).tolist()
        if ops is not None and ops.name(number) in CHOOSING_OPS
    ]
    rows = np.flatnonzero(np.isin(draft.spans["op"][:n], choosing))
    if not len(rows):
        return np.full(len(found), -1, np.int64)
    rows = rows[np.argsort(draft.rows.start[rows], kind="stable")]
    begins, layers = draft.rows.start[rows], draft.spans["layer"][rows]
    at = np.searchsorted(begins, start, "right") - 1
    row = rows[np.maximum(at, 0)]
    fits = (at >= 0) & (draft.spans["layer"][row] == found["layer"])
    result = np.where(fits, row, -1).astype(np.int64)
    # One key for time and layer: the number of the time among all, and the layer.
    times, number = np.unique(begins, return_inverse=True)
    places, key = np.unique(
        number * (1 << 16) + (layers.astype(np.int64) & 0xFFFF), return_inverse=True
    )
    time = np.minimum(np.searchsorted(times, start), len(times) - 1)
    own = time * (1 << 16) + (found["layer"] & 0xFFFF)
    own_key = np.minimum(np.searchsorted(places, own), len(places) - 1)
    is_exact = (times[time] == start) & (places[own_key] == own)
    tokens = draft.spans["token"][rows].astype(np.int64) & 0xFFFFFFFF
    of_token = own_key << 32 | (found["token"] & 0xFFFFFFFF)
    for keys, own_keys in ((key, own_key), (key << 32 | tokens, of_token)):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        near = np.minimum(np.searchsorted(ordered, own_keys), len(ordered) - 1)
        is_same = is_exact & (ordered[near] == own_keys)
        result = np.where(is_same, rows[order[near]], result)
    return result


def _grouped(rows: I64, layer: I64, draft: Draft) -> _Groups:
    """Return the first row in time of each pass and layer."""
    order = np.argsort(draft.rows.start[rows], kind="stable")
    rows, layer = rows[order], layer[order]
    key = pass_of(draft, rows) * (_MAX_EXPERT + 1) + layer
    _, first, group = ranked(key)
    is_first = np.zeros(len(rows), np.bool_)
    is_first[first] = True
    in_time = np.argsort(first, kind="stable")
    place = np.empty(len(first), np.int64)
    place[in_time] = np.arange(len(first))
    return _Groups(rows[first[in_time]], rows[~is_first], place[group[~is_first]])


def pass_of(draft: Draft, rows: I64) -> I64:
    """Return the pass of each row, int64."""
    run = np.searchsorted(draft.rows.run_first, rows, "right") - 1
    return np.asarray(draft.rows.run_pass[run])


def token_of(draft: Draft, rows: I64) -> npt.NDArray[np.int32]:
    """Return the token of each row; the pass where tokens do not tell passes apart."""
    tokens = draft.passes.token
    number = pass_of(draft, rows)
    if len(distinct(tokens)) < len(tokens) or (tokens < 0).any():
        return number.astype(np.int32)
    return np.asarray(tokens[number].astype(np.int32))


def _note_differing(
    builder: TraceBuilder, groups: _Groups, experts: Array, count: Array, read: Reading
) -> None:
    """Compare the lists of other ops with the one that is taken."""
    others, of_first = groups.others[:_MOST_CHECKED], groups.of_first[:_MOST_CHECKED]
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
    is_good = is_listed & (experts >= 0) & (experts < _MAX_EXPERT)
    n_bad = int(np.count_nonzero(is_listed & ~is_good))
    if n_bad:
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


def _from_single(
    draft: Draft, rows: I64, expert: Array, rank: Array, score: Array
) -> Routing:
    """Return one choice per pass, layer and expert, in order of time."""
    rows = rows[np.argsort(draft.rows.start[rows], kind="stable")]
    layer = draft.spans["layer"][rows].astype(np.int64)
    key = (pass_of(draft, rows) * (_MAX_EXPERT + 1) + layer) * 256 + expert[rows]
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


def _expert_fields(
    source: Source,
    layout: RecordLayout,
    records: Array,
    draft: Draft,
    chunked: ChunkedOps,
) -> tuple[Array, Array, Array]:
    """Return expert, rank and score of every row, from the file."""
    n = len(draft.rows)
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
            found = block[: len(block) // size * size].view(layout.dtype)
            inside = part - first < len(found)
            at = (part - first)[inside]
            expert[rows][inside] = found["expert_id"][at]
            rank[rows][inside] = found["expert_rank"][at]
            score[rows][inside] = found["routing_score"][at]
    return expert, rank, score


class _Sizes:
    """What the sizes of tensors tell about how many experts compute.

    ``ffn_moe_topk`` is a view of the sorted experts: k of E numbers for each of T
    tokens, (T - 1) * E + k numbers from end to end; or T * k where an op of its own
    makes it. ``ffn_moe_probs`` has T * E numbers, and T is the length of the tokens
    that ``inp_embd`` is looked up with. All numbers have four bytes.

    In the last layer T may be less, for only some tokens are wanted there.

    Attributes
    ----------
    n_tokens : int64[n_passes], 0 unknown.
    n_experts : E; 0 unknown.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        draft: Draft,
        patterns: Patterns,
        of_row: Array,
        chunked: ChunkedOps,
    ) -> None:
        self._draft = draft
        self._of_row = of_row
        self._layer = patterns.layer
        names = [builder.strings[i] for i in patterns.tensors.name.tolist()]
        self._topk = _largest(patterns, _starting(names, "ffn_moe_topk"))
        probs = _largest(patterns, _starting(names, "ffn_moe_probs"))
        tokens = _token_counts(builder, patterns, names)
        n = len(draft.rows)
        rows = chunked.find(n, lambda chunk: tokens[of_row[chunk]] > 0)
        self.n_tokens = np.zeros(draft.rows.n_passes, np.int64)
        np.maximum.at(self.n_tokens, pass_of(draft, rows), tokens[of_row[rows]])
        self.n_experts = 0
        rows = chunked.find(n, lambda chunk: probs[of_row[chunk]] > 0)
        size = probs[of_row[rows]]
        self._keys, _, place = ranked(self._key(rows))
        self._probs = np.zeros(len(self._keys), np.int64)
        np.maximum.at(self._probs, place, size)
        n_tokens = self.n_tokens[pass_of(draft, rows)]
        size, n_tokens = size[n_tokens > 0], n_tokens[n_tokens > 0]
        if len(size):
            share, rest = np.divmod(size, _ID_BYTES * n_tokens)
            self.n_experts = int(share[rest == 0].max(initial=0))

    def _key(self, rows: I64) -> I64:
        """Return pass and layer of each row as one number."""
        layer = self._layer[self._of_row[rows]].astype(np.int64)
        return np.asarray(pass_of(self._draft, rows) * (_MAX_EXPERT + 1) + layer)

    def _tokens_of(self, rows: I64) -> I64:
        """Return the tokens that the router of each row's layer saw, 0 unknown."""
        of_pass = self.n_tokens[pass_of(self._draft, rows)]
        if not self.n_experts or not len(self._keys):
            return of_pass
        key = self._key(rows)
        at = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        each, rest = np.divmod(self._probs[at], _ID_BYTES * self.n_experts)
        good = (self._keys[at] == key) & (rest == 0) & (each > 0)
        return np.where(good, each, of_pass)

    def n_used(self, rows: I64) -> I64:
        """Return how many experts compute for each row and token, -1 unknown."""
        length = self._topk[self._of_row[rows]] // _ID_BYTES
        n_tokens = self._tokens_of(rows)
        strided = length - (n_tokens - 1) * self.n_experts
        is_strided = (strided >= 1) & (strided <= self.n_experts)
        packed = length // np.maximum(n_tokens, 1)
        used = np.where((n_tokens > 1) & is_strided, strided, packed)
        return np.where((length > 0) & (n_tokens > 0) & (used > 0), used, -1)

    def n_more(self, rows: I64, used: I64, count: I64) -> I64:
        """Return how many choices lists do not name; they are those of one token.

        Parameters
        ----------
        used : as `n_used`. count : how many each list names.
        """
        n_tokens = self._tokens_of(rows)
        more = used * n_tokens - np.minimum(used, count)
        all_compute = (used == self.n_experts) & (self.n_experts > 0)
        is_whole = (n_tokens == 1) & (count < MAX_LISTED)
        unknown = np.where(is_whole, 0, UNKNOWN_MORE)
        return np.where(used < 0, unknown, np.where(all_compute, 0, more))


def _starting(names: list[str], beginning: str) -> npt.NDArray[np.bool_]:
    return np.array([name.startswith(beginning) for name in names], np.bool_)


def _largest(patterns: Patterns, is_wanted: npt.NDArray[np.bool_]) -> I64:
    """Return the largest access of each pattern to some tensors, 0 for none.

    The last row is that of "no pattern".
    """
    c = patterns.columns
    rows = np.flatnonzero(np.append(is_wanted, False)[c.tensor])
    pattern = np.searchsorted(patterns.first, rows, "right") - 1
    found = np.zeros(len(patterns.first), np.int64)
    np.maximum.at(found, pattern, c.size[rows])
    return found


def _token_counts(builder: TraceBuilder, patterns: Patterns, names: list[str]) -> I64:
    """Return the tokens that each pattern looks up embeddings for, 0 for the others."""
    is_weight = np.array([".w" in name for name in names], np.bool_)
    found = _largest(patterns, ~is_weight) // _ID_BYTES
    embeds = np.array(
        [builder.strings[i] == "inp_embd" for i in patterns.name.tolist()], np.bool_
    )
    return np.where(embeds, found, 0)


def _note_used(builder: TraceBuilder, used: I64, sizes: _Sizes) -> None:
    unknown = int(np.count_nonzero(used < 0))
    if unknown:
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
