"""Which experts the router chose, where records of a tensor trace say so.

Records of 1024 bytes list the experts of an op in the router's order, and every op
of a layer repeats the same list: one record per pass and layer is enough, so that a
large file is not read a second time. How many of those listed compute is not in the
list; it follows from the sizes of the tensors that hold the choice.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import Routing
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Severity
from ggscope.readers.records import LAYOUT_64A, LAYOUT_64P, LAYOUT_128, Layout
from ggscope.readers.source import Source
from ggscope.readers.tensor_job import Job
from ggscope.readers.tensor_order import Work
from ggscope.readers.tensor_sources import Patterns

MAX_LISTED = 16
"""Experts that one record can list."""

_MOST_CHECKED = 1 << 14
"""So many lists are compared with that of their pass and layer; more cost time."""

_LIST_AT, _LIST_BYTES = 792, 65
_ID_BYTES = 4
_UNSET = 0xFF
_MAX_EXPERT = 1 << 15

Reading = Callable[[I64], tuple[Array, Array]]
"""From rows to (int32[m, 16] experts, int64[m] how many of them are listed)."""


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


def lists_in_file(source: Source, records: Array, work: Work) -> Reading:
    """Return a function that reads expert lists from 1024-byte records.

    Parameters
    ----------
    records : number of the record of each row.
    """

    def read(rows: I64) -> tuple[Array, Array]:
        raw = np.zeros((len(rows), _LIST_BYTES), np.uint8)
        for i, record in enumerate(records[rows].tolist()):
            if i % 1024 == 0:
                work.check()
            found = source.array(record * 1024 + _LIST_AT, _LIST_BYTES)
            raw[i, : len(found)] = found
        experts = np.ascontiguousarray(raw[:, : _LIST_BYTES - 1]).view("<i4")
        return experts.astype(np.int32), raw[:, -1].astype(np.int64)

    return read


def add_listed(
    builder: TraceBuilder,
    job: Job,
    patterns: Patterns,
    of_row: Array,
    read: Reading,
    work: Work,
) -> None:
    """Add the choices that records list, once per pass and layer.

    Parameters
    ----------
    of_row : pattern of each row, -1 none.
    """
    n = len(job.rows)
    lists = np.append(patterns.claims.lists_experts, False)
    rows = work.find(n, lambda piece: lists[of_row[piece]])
    if not len(rows):
        return
    layer = patterns.layer[of_row[rows]].astype(np.int64)
    groups = _grouped(rows, layer, job)
    experts, count = read(groups.first)
    count = np.minimum(count, MAX_LISTED)
    _note_differing(builder, groups, experts, count, read)
    sizes = _Sizes(builder, job, patterns, of_row, work)
    used = sizes.n_used(groups.first)
    first_layer = patterns.layer[of_row[groups.first]].astype(np.int64)
    builder.routing = _from_lists(
        builder, job, groups.first, first_layer, experts, count, used
    )
    _note_used(builder, used, sizes)


def add_single(builder: TraceBuilder, job: Job, exemplars: Array, work: Work) -> None:
    """Add the choices of 64- and 128-byte records, one expert each.

    The first tracer never set these fields, so the file is only looked through
    where the first record of some pattern has something in them.

    Parameters
    ----------
    exemplars : first record of each pattern, uint64[n_patterns, size / 8].
    """
    layout = job.file.choice.wants.layout
    if not len(exemplars):
        return
    names = ("expert_id", "expert_rank", "routing_score")
    shown = np.ascontiguousarray(exemplars).view(layout.dtype).reshape(-1)
    if not any(np.any((shown[name] != 0) & (shown[name] != _UNSET)) for name in names):
        return
    fields = _expert_fields(job.file.source, layout, job.spans["record"], job, work)
    expert, rank, score = fields
    is_set = expert != _UNSET
    if is_set.all():
        # A writer that never says "none" leaves zeros: no choice of expert 0.
        is_set = (expert != 0) | (rank != 0) | (score != 0)
    rows = np.flatnonzero(is_set)
    if not len(rows):
        return
    builder.routing = _from_single(job, rows, expert, rank, score)


def _grouped(rows: I64, layer: I64, job: Job) -> _Groups:
    """Return the first row in time of each pass and layer."""
    order = np.argsort(job.rows.start[rows], kind="stable")
    rows, layer = rows[order], layer[order]
    key = pass_of(job, rows) * (_MAX_EXPERT + 1) + layer
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    is_first = np.zeros(len(rows), np.bool_)
    is_first[first] = True
    in_time = np.argsort(first, kind="stable")
    place = np.empty(len(first), np.int64)
    place[in_time] = np.arange(len(first))
    return _Groups(rows[first[in_time]], rows[~is_first], place[group[~is_first]])


def pass_of(job: Job, rows: I64) -> I64:
    """Return the pass of each row, int64."""
    run = np.searchsorted(job.rows.run_first, rows, "right") - 1
    return np.asarray(job.rows.run_pass[run])


def token_of(job: Job, rows: I64) -> npt.NDArray[np.int32]:
    """Return the token of each row; the pass where tokens do not tell passes apart."""
    tokens = job.passes.token
    number = pass_of(job, rows)
    if len(np.unique(tokens)) < len(tokens) or (tokens < 0).any():
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
    job: Job,
    rows: I64,
    layer: I64,
    experts: Array,
    count: Array,
    used: I64,
) -> Routing:
    rank = np.broadcast_to(np.arange(MAX_LISTED), experts.shape)
    is_listed = rank < count[:, None]
    is_good = is_listed & (experts >= 0) & (experts < _MAX_EXPERT)
    n_bad = int(np.count_nonzero(is_listed & ~is_good))
    if n_bad:
        builder.warn(
            Severity.DATA_LOSS,
            "bad_expert",
            "expert numbers that cannot be were left out.",
            count=n_bad,
        )
    at, _ = np.nonzero(is_good)
    limit = np.where(used < 0, MAX_LISTED, used)[:, None]
    n = len(at)
    return Routing(
        time=job.rows.start[rows][at],
        span=rows[at],
        token=token_of(job, rows)[at],
        layer=layer[at].astype(np.int16),
        expert=experts[is_good].astype(np.int16),
        rank=rank[is_good].astype(np.int16),
        score=np.full(n, np.nan, np.float32),
        is_used=(rank < limit)[is_good],
    )


def _from_single(
    job: Job, rows: I64, expert: Array, rank: Array, score: Array
) -> Routing:
    """Return one choice per pass, layer and expert, in order of time."""
    rows = rows[np.argsort(job.rows.start[rows], kind="stable")]
    layer = job.spans["layer"][rows].astype(np.int64)
    key = (pass_of(job, rows) * (_MAX_EXPERT + 1) + layer) * 256 + expert[rows]
    rows = rows[np.sort(np.unique(key, return_index=True)[1])]
    shares = (score[rows] / np.float32(0xFFFF)).astype(np.float32)
    if not score.any():
        shares[:] = np.nan
    ranks = rank[rows].astype(np.int16)
    return Routing(
        time=job.rows.start[rows],
        span=rows,
        token=token_of(job, rows),
        layer=job.spans["layer"][rows].astype(np.int16),
        expert=expert[rows].astype(np.int16),
        rank=np.where(ranks == _UNSET, -1, ranks).astype(np.int16),
        score=shares,
        is_used=np.ones(len(rows), np.bool_),
    )


def _expert_fields(
    source: Source, layout: Layout, records: Array, job: Job, work: Work
) -> tuple[Array, Array, Array]:
    """Return expert, rank and score of every row, from the file."""
    n = len(job.rows)
    expert = np.full(n, _UNSET, np.uint8)
    rank = np.full(n, _UNSET, np.uint8)
    score = np.zeros(n, np.uint16)
    for piece in work.pieces(n):
        number = records[piece].astype(np.int64)
        for low in range(0, len(number), 4096):
            part = number[low : low + 4096]
            first, last = int(part.min()), int(part.max())
            rows = slice(piece.start + low, piece.start + low + len(part))
            size = layout.size
            block = source.array(first * size, (last - first + 1) * size)
            found = block[: len(block) // size * size].view(layout.dtype)
            inside = part - first < len(found)
            at = (part - first)[inside]
            expert[rows][inside] = found["expert_id"][at]
            rank[rows][inside] = found["expert_rank"][at]
            score[rows][inside] = found["routing_score"][at]
    return expert, rank, score


HAS_SINGLE = (LAYOUT_64P, LAYOUT_64A, LAYOUT_128)
"""Layouts whose records name one expert each."""


class _Sizes:
    """What the sizes of tensors tell about how many experts compute.

    ``ffn_moe_topk`` is a view of the sorted experts: k of E numbers for each of T
    tokens, (T - 1) * E + k numbers from end to end; or T * k where an op of its own
    makes it. ``ffn_moe_probs`` has T * E numbers, and T is the length of the tokens
    that ``inp_embd`` is looked up with. All numbers have four bytes.

    Attributes
    ----------
    n_tokens : int64[n_passes], 0 unknown.
    """

    def __init__(
        self,
        builder: TraceBuilder,
        job: Job,
        patterns: Patterns,
        of_row: Array,
        work: Work,
    ) -> None:
        self._job = job
        self._of_row = of_row
        names = [builder.strings[i] for i in patterns.tensors.name.tolist()]
        self._topk = _largest(patterns, _starting(names, "ffn_moe_topk"))
        probs = _largest(patterns, _starting(names, "ffn_moe_probs"))
        tokens = _token_counts(builder, patterns, names)
        n = len(job.rows)
        rows = work.find(n, lambda piece: tokens[of_row[piece]] > 0)
        self.n_tokens = np.zeros(job.rows.n_passes, np.int64)
        np.maximum.at(self.n_tokens, pass_of(job, rows), tokens[of_row[rows]])
        self._n_experts = 0
        rows = work.find(n, lambda piece: probs[of_row[piece]] > 0)
        n_tokens = self.n_tokens[pass_of(job, rows)]
        rows, n_tokens = rows[n_tokens > 0], n_tokens[n_tokens > 0]
        if len(rows):
            share = probs[of_row[rows]] / (_ID_BYTES * n_tokens)
            whole = share[share == np.floor(share)]
            self._n_experts = int(whole.min()) if len(whole) else 0

    def n_used(self, rows: I64) -> I64:
        """Return how many experts compute for each row, -1 unknown."""
        length = self._topk[self._of_row[rows]] // _ID_BYTES
        n_tokens = self.n_tokens[pass_of(self._job, rows)]
        strided = length - (n_tokens - 1) * self._n_experts
        is_strided = (strided >= 1) & (strided <= self._n_experts)
        packed = length // np.maximum(n_tokens, 1)
        used = np.where((n_tokens > 1) & is_strided, strided, packed)
        return np.where((length > 0) & (n_tokens > 0) & (used > 0), used, -1)


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
            "lists of experts rank more of them than may compute, and nothing in the "
            "file tells how many do; all that are listed are counted as used.",
            count=unknown,
        )
    several = int(np.count_nonzero(sizes.n_tokens > 1))
    if several:
        builder.warn(
            Severity.INFO,
            "routing_of_first_token",
            f"{several:,} of {len(sizes.n_tokens):,} passes compute several tokens; "
            "their lists of experts are those of the first one.",
            count=several,
        )


__all__ = [
    "HAS_SINGLE",
    "MAX_LISTED",
    "Reading",
    "add_listed",
    "add_single",
    "lists_in_file",
    "pass_of",
    "token_of",
]
