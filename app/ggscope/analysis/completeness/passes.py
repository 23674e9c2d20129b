"""Passes: what each recorded, op by op, and which of them record the same graph."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.groups import CHUNK_ROWS
from ggscope.analysis.sessions.runs import Runs
from ggscope.analysis.workers import Watcher
from ggscope.model.schema import stacked
from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import Trace

_MOST_CELLS = 1 << 27
ALIKE = 0.6
"""Share of ops that two passes of one kind have in common, at least."""
FEW_SHORT = 0.1
_MOST_KINDS = 16
SAMPLES = 256
_NEIGHBOURS = 8
_MOST_NOTED = 20_000
_PER_PIECE = ("run", "begin", "weight", "phase", "is_head", "is_tail")
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class PassRows:
    """Records of distinct runs, one after the other.

    Attributes
    ----------
    key : int32[n], number of name and op.
    first : int64[m + 1], rows of each piece of a run.
    run : int64[m], the run that a piece is of; begin : int64[m], its first row in it.
    weight : int64[m], how many runs are like it.
    phase : int8[m], that the first record of its run claims; -1 none.
    is_head, is_tail : bool[m], pieces at which the recording of a thread begins, ends.
    """

    key: npt.NDArray[np.int32]
    first: I64
    run: I64
    begin: I64
    weight: I64
    phase: npt.NDArray[np.int8]
    is_head: Bools
    is_tail: Bools

    def __len__(self) -> int:
        return len(self.run)

    @property
    def length(self) -> I64:
        """Number of rows of each piece."""
        return np.diff(self.first)

    def cut(self, at: I64) -> "PassRows":
        """Return the rows with pieces cut before the rows `at` as well."""
        first = distinct(np.concatenate([self.first, at]))
        piece = np.searchsorted(self.first, first[:-1], "right") - 1
        is_first = np.append(True, piece[1:] != piece[:-1])
        is_last = np.append(piece[1:] != piece[:-1], True)
        return PassRows(
            self.key,
            first,
            self.run[piece],
            self.begin[piece] + first[:-1] - self.first[piece],
            self.weight[piece],
            self.phase[piece],
            self.is_head[piece] & is_first,
            self.is_tail[piece] & is_last,
        )

    def part(self, chosen: Bools) -> "PassRows":
        """Return some of the pieces."""
        length = self.length[chosen]
        return PassRows(
            self.key[np.repeat(chosen, self.length)],
            np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
            *(getattr(self, name)[chosen] for name in _PER_PIECE),
        )

    def before(self, other: "PassRows") -> "PassRows":
        """Return these pieces, then those of `other`."""
        first = np.concatenate([self.first, self.first[-1] + other.first[1:]])
        return replace(stacked(self, other), first=first)


@dataclass(slots=True, eq=False)
class Keys:
    """Numbers of (name or tensor, op)."""

    name: I64
    op: I64
    of_tensor: bool

    def text(self, trace: Trace, key: int) -> str:
        """Return the name of a key, as people read it."""
        i = int(self.name[key])
        if self.of_tensor:
            i = int(trace.tensors.name[i]) if i >= 0 else -1
        return trace.strings[i] if i >= 0 else ""


def spans_of(trace: Trace, runs: Runs, run: int, *, by_access: bool) -> Array:
    """Return the span of each record of a run: one per span, or per access."""
    ids = runs.of_run(run)
    return _per_access(trace, ids) if by_access else ids


def _per_access(trace: Trace, ids: Array) -> Array:
    counts = np.append(np.diff(trace.accesses.first), 0)[trace.accesses.pattern[ids]]
    return np.repeat(ids, counts)


def _spans_of_runs(
    trace: Trace, runs: Runs, chosen: Sequence[int], *, by_access: bool
) -> Iterator[Array]:
    """Yield `spans_of` each of some runs, which ascend; neighbours in one look.

    One look at a merge of many threads costs as much as some thousand rows.
    """
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right")
    at = 0
    while at < len(chosen):
        stop, first = at + 1, int(runs.first[chosen[at]])
        while (
            stop < len(chosen)
            and chosen[stop] - chosen[stop - 1] <= _NEIGHBOURS
            and stretch[chosen[stop]] == stretch[chosen[at]]
            and int(runs.first[chosen[stop] + 1]) - first <= CHUNK_ROWS
        ):
            stop += 1
        ids = runs.ids(first, int(runs.first[chosen[stop - 1] + 1]))
        for run in chosen[at:stop]:
            part = ids[runs.first[run] - first : runs.first[run + 1] - first]
            yield _per_access(trace, part) if by_access else part
        at = stop


def _names_of(trace: Trace, ids: Array, *, by_access: bool) -> Array:
    """Return the name of each record of some spans, or the tensor of each access."""
    if not by_access:
        return trace.spans.name[ids]
    first = trace.accesses.first
    begin = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    nth = np.arange(len(ids)) - np.repeat(begin, np.diff(np.append(begin, len(ids))))
    rows = first[trace.accesses.pattern[ids]] + nth
    tensors: Array = trace.accesses.patterns.tensor[rows]
    return tensors


def sequences(
    trace: Trace, runs: Runs, leaders: Sequence[int], weight: I64, *, by_access: bool
) -> tuple[PassRows, Keys]:
    """Return what the leading runs record, in order."""
    raw: list[I64] = []
    phases: list[int] = []
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right")
    begins = np.unique(stretch, return_index=True)[1]
    heads = set(begins.tolist())
    tails = {*(begins[1:] - 1).tolist(), len(runs) - 1}
    for ids in _spans_of_runs(trace, runs, leaders, by_access=by_access):
        phase = -1 if trace.spans.phase is None else trace.spans.phase[ids[:1]]
        phases.append(int(np.max(phase, initial=-1)))
        names = _names_of(trace, ids, by_access=by_access).astype(np.int64)
        raw.append((names + 1) * (1 << 16) + trace.spans.op[ids].astype(np.int64) + 1)
    length = np.array([len(part) for part in raw], np.int64)
    values, key = np.unique(np.concatenate(raw), return_inverse=True)
    rows = PassRows(
        key.astype(np.int32),
        np.concatenate([[0], np.cumsum(length)]),
        np.array(leaders, np.int64),
        np.zeros(len(leaders), np.int64),
        weight,
        np.array(phases, np.int8),
        np.array([run in heads for run in leaders], np.bool_),
        np.array([run in tails for run in leaders], np.bool_),
    )
    return rows, Keys(values // (1 << 16) - 1, values % (1 << 16) - 1, by_access)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Pieces that record one graph.

    Attributes
    ----------
    keys : int64[k], keys that they have.
    phase : int8[n_pieces], that their first record claims.
    table : uint8[n_pieces, k], how often.
    order, low, high : float64[k], where in a pass a key comes: on average, at first
        and at last.
    """

    rows: PassRows
    phase: npt.NDArray[np.int8]
    keys: I64
    table: npt.NDArray[np.uint8]
    order: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @property
    def weight(self) -> I64:
        """How many passes each piece stands for."""
        return self.rows.weight


def kinds(rows: PassRows, n_keys: int, watcher: Watcher | None) -> Iterator[Kind]:
    """Yield kinds of passes, the commonest first; what is like no other is left out."""
    left = rows
    for _ in range(_MOST_KINDS):
        if watcher is not None:
            watcher.progress(0, 1)
        if not len(left):
            return
        leader = _leader(left)
        seq = left.key[left.first[leader] : left.first[leader + 1]]
        found, rest = _like(left, seq, n_keys)
        if found is not None:
            yield found
        left = rest


def _leader(rows: PassRows) -> int:
    """Return the piece with most different ops, each of them once if possible."""
    picks = distinct(np.linspace(0, len(rows) - 1, SAMPLES).astype(np.int64))
    picks = distinct(
        np.append(picks, np.argsort(-rows.weight, kind="stable")[:SAMPLES])
    )
    best, best_score = int(picks[0]), -np.inf
    for piece in picks.tolist():
        seq = rows.key[rows.first[piece] : rows.first[piece + 1]]
        n = len(distinct(seq))
        score = (2 * n - len(seq)) * np.log2(1 + rows.weight[piece])
        if score > best_score:
            best, best_score = piece, score
    return best


def _like(rows: PassRows, seq: Array, n_keys: int) -> tuple[Kind | None, PassRows]:
    """Return the pieces that are like the leading one, and the other pieces."""
    has = np.zeros(n_keys, np.bool_)
    has[seq] = True
    unique, at, count = np.unique(seq, return_index=True, return_counts=True)
    rank = np.full(n_keys, -1, np.int64)
    rank[unique[count == 1]] = at[count == 1]
    own = np.add.reduceat(has[rows.key].astype(np.int64), rows.first[:-1])
    near = own >= ALIKE * np.maximum(rows.length, 1)
    cut = rows.part(near)
    cut = cut.cut(_drops(cut, rank, seq))
    size = cut.length
    inside = np.add.reduceat(has[cut.key].astype(np.int64), cut.first[:-1])
    fits = inside >= ALIKE * size
    is_edge = cut.is_head | cut.is_tail
    whole = fits & (size >= ALIKE * len(seq)) & (size * ALIKE <= len(seq))
    part = fits & ~whole & (size < len(seq)) & is_edge
    if not whole.any():
        # Nothing is like it, not even itself: it holds several passes.
        return None, rows.part(~near)
    # A few passes may have lost a whole batch; many short ones are another graph.
    short = fits & ~whole & ~is_edge & (size < len(seq)) & (cut.weight == 1)
    if np.count_nonzero(short) <= max(FEW_SHORT * int(cut.weight[whole].sum()), 1):
        part |= short
    kind = _kind(cut.part(whole | part), rank, n_keys)
    others = cut.part(~(whole | part)).before(rows.part(~near))
    return kind, others


def _drops(rows: PassRows, rank: I64, seq: Array) -> I64:
    """Return the rows at which the order of ops begins anew within a piece."""
    step = max(len(seq) // 2, 1)
    place = rank[rows.key]
    at = np.flatnonzero(place >= 0)
    piece = np.searchsorted(rows.first, at, "right") - 1
    drop = place[at[1:]] <= place[at[:-1]] - step
    drop &= piece[1:] == piece[:-1]
    cuts = at[1:][drop]
    before = at[:-1][drop]
    # Ops of a name that comes twice lie between: they go with what is nearer.
    loose = np.flatnonzero(cuts - before > 1)
    if len(loose):
        early, late = np.full(len(rank), -1), np.full(len(rank), len(seq))
        late[seq] = np.arange(len(seq))
        early[seq[::-1]] = np.arange(len(seq))[::-1]
        for i in loose[:_MOST_NOTED].tolist():
            between = rows.key[before[i] + 1 : cuts[i]]
            back = late[between] - int(place[before[i]])
            ahead = int(place[cuts[i]]) - early[between]
            is_new = np.abs(ahead) < np.abs(back)
            # What the leading pass has lost goes where that pass has room for it.
            room = int(place[cuts[i]]) > len(seq) - 1 - int(place[before[i]])
            is_new = np.where(early[between] < 0, room, is_new)
            n_new = int(np.argmin(np.append(is_new[::-1], False)))
            cuts[i] -= n_new
    return cuts


def _kind(rows: PassRows, rank: I64, n_keys: int) -> Kind | None:
    """Return the table of a kind; None where it would be too large."""
    used = np.bincount(rows.key, minlength=n_keys) > 0
    keys = np.flatnonzero(used)
    if len(keys) * len(rows) > _MOST_CELLS:
        return None
    column = np.cumsum(used) - 1
    piece = np.repeat(np.arange(len(rows)), rows.length)
    table = np.zeros((len(rows), len(keys)), np.uint8)
    cell, count = np.unique(piece * len(keys) + column[rows.key], return_counts=True)
    table.reshape(-1)[cell] = np.minimum(count, 255)
    # Where an op without a rank of its own comes: behind the last one that has one.
    own = rank[rows.key].astype(np.float64)
    at = np.where(own >= 0, np.arange(len(own)), -1)
    last = np.maximum.accumulate(at)
    begins = np.repeat(rows.first[:-1], rows.length)
    place = np.where(last >= begins, own[np.maximum(last, 0)], -1.0)
    place = np.where(own >= 0, place, place + 0.5)
    of_key = column[rows.key]
    total = np.bincount(of_key, minlength=len(keys))
    order = np.bincount(of_key, place, len(keys)) / total
    low = np.full(len(keys), np.inf)
    high = np.full(len(keys), -np.inf)
    np.minimum.at(low, of_key, place)
    np.maximum.at(high, of_key, place)
    return Kind(rows, rows.phase, keys, table, order, low, high)
