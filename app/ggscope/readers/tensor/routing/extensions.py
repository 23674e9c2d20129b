"""Experts of each token of a batch, with scores, by records of our own tracer."""

from dataclasses import dataclass, replace

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import I64, Array, distinct, ranked
from ggscope.model.trace import Severity
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.tensor.layouts import FIRST_EXTENSION_OP
from ggscope.readers.tensor.passes import Draft
from ggscope.readers.tensor.routing.rows import MAX_EXPERT

_EXTENSION = np.dtype(
    {
        "names": ["time", "token", "layer", "row", "op", "used", "rows", "of", "list"],
        "formats": ["<u8", "<u4", "<u2", "<u2", "u1", "u1", "u1", "<u2", "(104,)<u2"],
        "offsets": [0, 8, 12, 14, 16, 18, 19, 20, 48],
        "itemsize": 256,
    }
)
_CAPACITY = (104, 52)
"""Experts that a record of each kind can list: those with scores half as many."""
CHOICE = np.dtype(
    [("time", "<i8"), ("token", "<i8"), ("layer", "<i8"), ("row", "<i8"),
     ("rank", "<i8"), ("expert", "<i8"), ("score", "<f4"), ("op", "<i8")]
)  # fmt: skip
"""An expert that was chosen for a row (token of the batch) of a layer."""
CHOOSING_OPS = ("MUL_MAT_ID", "ARGSORT", "TOP_K")
"""Ops that multiply by chosen experts, or choose them."""


def add_extensions(builder: TraceBuilder, draft: Draft, chunked: ChunkedOps) -> None:
    """Add the choices and scores that extension records of our own tracer hold.

    Notes
    -----
    A record of 256 bytes with an op number from 0xF0 on: time, token and layer are
    those of the op it belongs to; the thread's place holds the first row (token of
    the batch) that is listed, the number of sources how many experts each row uses;
    byte 19 counts the rows, bytes 20 and 21 the experts of the layer. From byte 48
    on 0xF0 (``MUL_MAT_ID``) lists the experts, u16 each, row by row; 0xF1 (the
    router) lists pairs of expert and score, the latter u16 of 65535.
    """
    records = _extension_records(draft, chunked)
    choices = [
        _choices_of(raw, FIRST_EXTENSION_OP + kind) for kind, raw in enumerate(records)
    ]
    n_bad = sum(bad for _, bad in choices)
    builder.warn(
        Severity.DATA_LOSS,
        "choices_missing",
        "expert-routing records are missing, which the other list of that "
        "token and layer or other tokens have.",
        count=_n_missing(records),
        remedy="The experts used there are known where the other list has them. "
        "Record again if you need them.",
    )
    builder.warn(
        Severity.DATA_LOSS,
        "bad_extension",
        "skipped expert-routing records with invalid numbers of rows, "
        "experts or choices.",
        count=n_bad,
    )
    merged = merged_choices(builder, *(rows for rows, _ in choices))
    if len(merged):
        routing = _of_choices(draft, merged)
        numbers = distinct(np.concatenate([raw["of"] for raw in records]))
        # Stacks of different numbers cannot be distinguished without a model.
        n_experts = int(numbers[-1]) if len(numbers[numbers > 0]) == 1 else 0
        builder.routing = replace(routing, n_experts=n_experts)


def _n_missing(records: tuple[Array, Array]) -> int:
    """Return how many extension records are missing, by those that are there.

    Both kinds list the same rows of a token and layer, from the first one on without
    a gap. A token and layer without any is missed where most tokens have that layer
    in one kind or the other, and an eighth of them in this one.
    """
    tables = [
        _listed_rows(raw, capacity)
        for raw, capacity in zip(records, _CAPACITY, strict=True)
    ]
    keys = distinct(np.concatenate([table.key for table in tables]))
    end = np.zeros(len(keys), np.int64)
    for table in tables:
        at = np.searchsorted(keys, table.key)
        end[at] = np.maximum(end[at], table.end)
    n_tokens = len(distinct(keys >> 16))
    listed, of_tokens = np.unique(keys & 0xFFFF, return_counts=True)
    shared = listed[2 * of_tokens >= n_tokens]
    n = 0
    for table in tables:
        layers, counts = np.unique(table.key & 0xFFFF, return_counts=True)
        usual = np.intersect1d(layers[8 * counts >= n_tokens], shared)
        is_usual = np.isin(keys & 0xFFFF, usual)
        has = np.zeros(len(keys), np.int64)
        has[np.searchsorted(keys, table.key)] = table.rows
        lacks = np.maximum(end - has, 0)[is_usual]
        n += int((-(-lacks // table.per_record)).sum())
        n += n_tokens * len(usual) - int(np.count_nonzero(is_usual))
    return n


@dataclass(frozen=True, slots=True, eq=False)
class _ListedRows:
    """Rows that records of one kind list, by ``token << 16 | layer``, ascending.

    Attributes
    ----------
    rows, end : how many of each key, and up to which.
    per_record : how many one record can list.
    """

    key: I64
    rows: I64
    end: I64
    per_record: int


def _listed_rows(raw: Array, capacity: int) -> _ListedRows:
    used, rows = raw["used"].astype(np.int64), raw["rows"].astype(np.int64)
    raw = raw[(used * rows > 0) & (used * rows <= capacity)]
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
    return _ListedRows(key, total, end, max(capacity // max(each, 1), 1))


def merged_choices(builder: TraceBuilder, computed: Array, routed: Array) -> Array:
    """Return the choices of multiplications and routers, each once.

    What was computed leads, with the router's scores; the router's list stands where
    nothing else does. Several multiplications of one layer may list the same choice.

    Parameters
    ----------
    builder : gets a warning where both name different experts.
    computed, routed : rows of `CHOICE`.
    """
    computed, routed = _each_once(computed), _each_once(routed)
    key, routed_key = _choice_keys(computed, routed)
    is_scored = np.isin(key, routed_key)
    order = np.argsort(routed_key)
    at = np.searchsorted(routed_key[order], key[is_scored])
    computed["score"][is_scored] = routed["score"][order][at]
    is_in_both = np.isin(_place_keys(computed), _place_keys(routed))
    builder.warn(
        Severity.NOTICE,
        "expert_lists_differ",
        "router and multiplication of a layer and token list different "
        "experts; those that were computed are shown.",
        count=int(np.count_nonzero(is_in_both & ~is_scored)),
    )
    alone = ~np.isin(_place_keys(routed), _place_keys(computed))
    return np.concatenate([computed, routed[alone]])


def _each_once(choices: Array) -> Array:
    return choices[np.sort(np.unique(_choice_keys(choices)[0], return_index=True)[1])]


def _extension_records(draft: Draft, chunked: ChunkedOps) -> tuple[Array, Array]:
    """Return the records 0xF0 and 0xF1 of the file, by a second look through it."""
    source, size = draft.file.source, _EXTENSION.itemsize
    kinds: tuple[list[Array], list[Array]] = ([], [])
    for _, block in chunked.each(source.blocks(0, source.size // size * size)):
        records = block[: len(block) // size * size].view(_EXTENSION)
        for number, parts in enumerate(kinds):
            parts.append(records[records["op"] == FIRST_EXTENSION_OP + number].copy())
    empty = np.zeros(0, _EXTENSION)
    return np.concatenate([empty, *kinds[0]]), np.concatenate([empty, *kinds[1]])


def _choices_of(raw: Array, code: int) -> tuple[Array, int]:
    """Return the choices of records of one kind, and how many records make no sense."""
    has_scores = code != FIRST_EXTENSION_OP
    capacity = _CAPACITY[has_scores]
    used, rows = raw["used"].astype(np.int64), raw["rows"].astype(np.int64)
    n = used * rows
    experts = raw["list"][:, ::2] if has_scores else raw["list"]
    listed = np.arange(capacity) < n[:, None]
    limit = np.where(raw["of"] > 0, raw["of"], MAX_EXPERT)[:, None]
    is_good = (n > 0) & (n <= capacity) & (raw["layer"] < MAX_EXPERT)
    is_good &= ~(listed & (experts >= limit)).any(axis=1)
    at, place = np.nonzero(listed & is_good[:, None])
    choices = np.zeros(len(at), CHOICE)
    choices["time"] = raw["time"][at].astype(np.int64)
    for name in ("token", "layer", "op"):
        choices[name] = raw[name][at]
    choices["row"] = raw["row"][at].astype(np.int64) + place // used[at]
    choices["rank"] = place % used[at]
    choices["expert"] = experts[at, place]
    choices["score"] = np.nan
    if has_scores:
        choices["score"] = raw["list"][:, 1::2][at, place] / np.float32(0xFFFF)
    return choices, int(np.count_nonzero(~is_good))


def _place_keys(choices: Array) -> I64:
    """Return token, layer and row as one number."""
    key = (choices["token"] & 0x7FFFFFFF) << 32 | choices["layer"] << 16
    return np.asarray(key | choices["row"], np.int64)


def _choice_keys(*tables: Array) -> list[I64]:
    """Return keys of the choices of these tables: where, and which expert."""
    parts = [_place_keys(table) for table in tables]
    _, _, place = ranked(np.concatenate(parts))
    key = place * MAX_EXPERT + np.concatenate([table["expert"] for table in tables])
    return np.split(key, np.cumsum([len(table) for table in tables])[:-1])


def _of_choices(draft: Draft, choices: Array) -> Routing:
    start = choices["time"] - draft.rows.origin
    order = np.lexsort((choices["rank"], choices["row"], choices["layer"], start))
    choices, start = choices[order], start[order]
    token = choices["token"]
    return Routing(
        time=start,
        span=_op_before(draft, choices, start),
        token=np.where(token < 1 << 31, token, -1).astype(np.int32),
        layer=choices["layer"].astype(np.int16),
        expert=choices["expert"].astype(np.int16),
        rank=choices["rank"].astype(np.int16),
        score=choices["score"],
        is_used=np.ones(len(choices), np.bool_),
        row=choices["row"].astype(np.int32),
    )


def _op_before(draft: Draft, choices: Array, start: I64) -> I64:
    """Return the op that each choice belongs to; or -1.

    Only ops count that multiply by or sort experts, in the same layer: the one that
    began at that very time, as our own tracer states it, else the last one by then. Ops
    of other contexts may lie between, and may begin at the same tick: of several the
    one of the same token counts.
    """
    ops, n = draft.file.ops, len(draft.rows.start)
    choosing = [
        number
        for number in distinct(draft.spans["op"][:n]).tolist()
        if ops is not None and ops.name(number) in CHOOSING_OPS
    ]
    rows = np.flatnonzero(np.isin(draft.spans["op"][:n], choosing))
    if not len(rows):
        return np.full(len(choices), -1, np.int64)
    rows = rows[np.argsort(draft.rows.start[rows], kind="stable")]
    begins, layers = draft.rows.start[rows], draft.spans["layer"][rows]
    at = np.searchsorted(begins, start, "right") - 1
    row = rows[np.maximum(at, 0)]
    fits = (at >= 0) & (draft.spans["layer"][row] == choices["layer"])
    result = np.where(fits, row, -1).astype(np.int64)
    # One key for time and layer: the number of the time among all, and the layer.
    times, number = np.unique(begins, return_inverse=True)
    places, key = np.unique(
        number * (1 << 16) + (layers.astype(np.int64) & 0xFFFF), return_inverse=True
    )
    time = np.minimum(np.searchsorted(times, start), len(times) - 1)
    place = time * (1 << 16) + (choices["layer"] & 0xFFFF)
    choice_key = np.minimum(np.searchsorted(places, place), len(places) - 1)
    is_exact = (times[time] == start) & (places[choice_key] == place)
    tokens = draft.spans["token"][rows].astype(np.int64) & 0xFFFFFFFF
    of_token = choice_key << 32 | (choices["token"] & 0xFFFFFFFF)
    for keys, choice_keys in ((key, choice_key), (key << 32 | tokens, of_token)):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        near = np.minimum(np.searchsorted(ordered, choice_keys), len(ordered) - 1)
        is_same = is_exact & (ordered[near] == choice_keys)
        result = np.where(is_same, rows[order[near]], result)
    return result
