"""Completeness: which records a trace should hold, and which of them are missing.

An inference run computes the same graph again and again, so passes that are alike say
what each of them should hold. A record that is missing from one pass is believed to be
lost where something speaks for it: a later record of that pass reads what it would have
computed; or so many passes have it that its absence is chance, and not another graph.
What has no regularity is called not known, never complete.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ggscope.analysis.reads.unrecorded import lost_nodes
from ggscope.analysis.rows.groups import CHUNK_ROWS
from ggscope.analysis.sessions.correlate_runs import Runs, run_hashes, runs_of
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import locate_node
from ggscope.model.lanes import LaneKind
from ggscope.model.names import normalise, shape_of
from ggscope.model.tables import I64, Array, Quality, SpanFlag, distinct, quality_of
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import format_count

CODE = "records_missing"
MOST_PLACES = 200
"""So many missing records are listed one by one; all are counted."""
_MOST_ROWS = 1 << 22
"""Of more rows of passes that differ one pass in so many is compared."""
_MOST_CELLS = 1 << 27
_ODD = 0.05
_LEAST_RATE = 2e-3
_SURPLUS = 1e-4
"""Chance of a record too many, against which those of losses are weighed."""
_MOST_OF_ONE = 64
_ALIKE = 0.6
"""Share of ops that two passes of one kind have in common, at least."""
_FEW_SHORT = 0.1
_CUT_SHORT = 4
_MOST_KINDS = 16
_SAMPLES = 256
_FEWEST_OPS = 3
_ONE_OF_A_NAME = 0.3
_FEW = 4
"""From so many passes on, chance alone can speak for a loss."""
_UNLIKELY = 1e-2
_MANY_KEYS = 10
"""Fewer ops than this say nothing of what is usual among them."""
_MOST_MISSING = 0.3
"""Passes that lack more than this share of their ops are no passes of one kind."""
_FITS = 0.9
"""So many ops are found in a graph that says what passes hold."""
_COVERED = 0.5
"""Share of the records that must be of passes that are alike."""
_OF_LAYERS = 0.75
"""Ops of so many layers are expected in the others, where something reads them."""

_REPEATS = 1.6
"""A piece with so many rows per different op holds several passes."""
_ANCHORS = 32
_NEIGHBOURS = 8
_MOST_NOTED = 20_000
_TWO_EVENTS = "ggmlviz"
"""Its records are begins and ends; all others are whole ops."""
_PARTLY_READ = {"range", "range_read", "names_left_out", "stopped"}

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Gap:
    """A place at which a record is missing.

    Attributes
    ----------
    name, op : of the missing record.
    after, before : spans between which it belongs; -1 = none; both -1: every pass
        lacks it, as the graph tells.
    time : tick at which the span before it starts.
    """

    name: str
    op: str
    after: int
    before: int
    time: int


@dataclass(frozen=True, slots=True, eq=False)
class Completeness:
    """How many of the records that were to be expected a trace holds.

    Attributes
    ----------
    is_known : whether anything says what was to be expected.
    why : where it is not known, the reason.
    n_there, n_missing : records of ops that are there, and that are missing.
    n_passes : passes that are alike, one per thread where each records every op.
    n_varying : ops that come and go from pass to pass, and are left out.
    rests_on : what tells what was to be expected, in words.
    gaps : the first `MOST_PLACES` of the missing ones, in the order of time.
    """

    is_known: bool
    why: str = ""
    n_there: int = 0
    n_missing: int = 0
    n_passes: int = 0
    n_varying: int = 0
    rests_on: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def n_expected(self) -> int:
        """Records that were to be expected."""
        return self.n_there + self.n_missing

    @property
    def share(self) -> float | None:
        """Share of the expected records that is there; None where it is not known."""
        if not self.is_known or not self.n_expected:
            return None
        return self.n_there / self.n_expected


def unknown(why: str) -> Completeness:
    """Return that nothing says what was to be expected."""
    return Completeness(False, why)


# -- rows: what passes record ----------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
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
        return np.diff(self.first)

    def cut(self, at: I64) -> "_Rows":
        """Return the rows with pieces cut before the rows `at` as well."""
        first = distinct(np.concatenate([self.first, at]))
        piece = np.searchsorted(self.first, first[:-1], "right") - 1
        is_first = np.append(True, piece[1:] != piece[:-1])
        is_last = np.append(piece[1:] != piece[:-1], True)
        return _Rows(
            self.key,
            first,
            self.run[piece],
            self.begin[piece] + first[:-1] - self.first[piece],
            self.weight[piece],
            self.phase[piece],
            self.is_head[piece] & is_first,
            self.is_tail[piece] & is_last,
        )


@dataclass(slots=True, eq=False)
class _Keys:
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


def _spans_of(trace: Trace, runs: Runs, run: int, *, by_access: bool) -> Array:
    """Return the span of each record of a run: one per span, or per access."""
    ids = runs.of_run(run)
    return _per_access(trace, ids) if by_access else ids


def _per_access(trace: Trace, ids: Array) -> Array:
    counts = np.append(np.diff(trace.accesses.first), 0)[trace.accesses.pattern[ids]]
    return np.repeat(ids, counts)


def _spans_of_runs(
    trace: Trace, runs: Runs, chosen: Sequence[int], *, by_access: bool
) -> Iterator[Array]:
    """Yield `_spans_of` each of some runs, which ascend; neighbours in one look.

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


def _sequences(
    trace: Trace, runs: Runs, leaders: Sequence[int], weight: I64, *, by_access: bool
) -> tuple[_Rows, _Keys]:
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
    rows = _Rows(
        key.astype(np.int32),
        np.concatenate([[0], np.cumsum(length)]),
        np.array(leaders, np.int64),
        np.zeros(len(leaders), np.int64),
        weight,
        np.array(phases, np.int8),
        np.array([run in heads for run in leaders], np.bool_),
        np.array([run in tails for run in leaders], np.bool_),
    )
    return rows, _Keys(values // (1 << 16) - 1, values % (1 << 16) - 1, by_access)


# -- kinds: passes that are alike --------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Pieces that record one graph.

    Attributes
    ----------
    keys : int64[k], keys that they have.
    phase : int8[n_pieces], that their first record claims.
    table : uint8[n_pieces, k], how often.
    order, low, high : float64[k], where in a pass a key comes: on average, at first
        and at last.
    """

    rows: _Rows
    phase: npt.NDArray[np.int8]
    keys: I64
    table: npt.NDArray[np.uint8]
    order: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @property
    def weight(self) -> I64:
        return self.rows.weight


def _kinds(rows: _Rows, n_keys: int, watcher: Watcher | None) -> Iterator[_Kind]:
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


def _leader(rows: _Rows) -> int:
    """Return the piece with most different ops, each of them once if possible."""
    picks = np.unique(np.linspace(0, len(rows) - 1, _SAMPLES).astype(np.int64))
    picks = np.union1d(picks, np.argsort(-rows.weight, kind="stable")[:_SAMPLES])
    best, best_score = int(picks[0]), -np.inf
    for piece in picks.tolist():
        seq = rows.key[rows.first[piece] : rows.first[piece + 1]]
        n = len(distinct(seq))
        score = (2 * n - len(seq)) * np.log2(1 + rows.weight[piece])
        if score > best_score:
            best, best_score = piece, score
    return best


def _like(rows: _Rows, seq: Array, n_keys: int) -> tuple[_Kind | None, _Rows]:
    """Return the pieces that are like the leading one, and the other pieces."""
    has = np.zeros(n_keys, np.bool_)
    has[seq] = True
    unique, at, count = np.unique(seq, return_index=True, return_counts=True)
    rank = np.full(n_keys, -1, np.int64)
    rank[unique[count == 1]] = at[count == 1]
    own = np.add.reduceat(has[rows.key].astype(np.int64), rows.first[:-1])
    near = own >= _ALIKE * np.maximum(rows.length, 1)
    cut = _taken(rows, near)
    cut = cut.cut(_drops(cut, rank, seq))
    size = cut.length
    inside = np.add.reduceat(has[cut.key].astype(np.int64), cut.first[:-1])
    fits = inside >= _ALIKE * size
    is_edge = cut.is_head | cut.is_tail
    whole = fits & (size >= _ALIKE * len(seq)) & (size * _ALIKE <= len(seq))
    part = fits & ~whole & (size < len(seq)) & is_edge
    if not whole.any():
        # Nothing is like it, not even itself: it holds several passes.
        return None, _taken(rows, ~near)
    # A few passes may have lost a whole batch; many short ones are another graph.
    short = fits & ~whole & ~is_edge & (size < len(seq)) & (cut.weight == 1)
    if np.count_nonzero(short) <= max(_FEW_SHORT * int(cut.weight[whole].sum()), 1):
        part |= short
    kind = _kind(_taken(cut, whole | part), rank, n_keys)
    others = _joined(_taken(cut, ~(whole | part)), _taken(rows, ~near))
    return kind, others


def _drops(rows: _Rows, rank: I64, seq: Array) -> I64:
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
            n_new = int(np.argmin(np.append(is_new[::-1], False)))
            cuts[i] -= n_new
    return cuts


def _taken(rows: _Rows, chosen: Bools) -> _Rows:
    """Return some of the pieces."""
    keep = np.repeat(chosen, rows.length)
    length = rows.length[chosen]
    return _Rows(
        rows.key[keep],
        np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
        rows.run[chosen],
        rows.begin[chosen],
        rows.weight[chosen],
        rows.phase[chosen],
        rows.is_head[chosen],
        rows.is_tail[chosen],
    )


def _joined(a: _Rows, b: _Rows) -> _Rows:
    return _Rows(
        np.concatenate([a.key, b.key]),
        np.concatenate([a.first, a.first[-1] + b.first[1:]]),
        *(
            np.concatenate([getattr(a, name), getattr(b, name)])
            for name in ("run", "begin", "weight", "phase", "is_head", "is_tail")
        ),
    )


def _kind(rows: _Rows, rank: I64, n_keys: int) -> _Kind | None:
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
    return _Kind(rows, rows.phase, keys, table, order, low, high)


# -- losses ------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Found:
    """What one kind lacks.

    Attributes
    ----------
    piece, key : of each missing record (key : column of the kind); count, how many.
    n_read, n_alike, n_layers : how many of them rest on what later records read, on
        passes alone, on layers.
    n_varying : ops that are left out.
    n_ops : ops of a pass; 0 where their numbers follow no rule.
    extra : names of ops that no pass of the kind has, one per missing record, and the
        piece that it is missing from.
    """

    piece: I64
    key: I64
    count: I64
    n_read: int = 0
    n_alike: int = 0
    n_layers: int = 0
    n_varying: int = 0
    n_ops: int = 0
    extra: list[tuple[int, str, int]] = field(default_factory=list)


def _expected(kind: _Kind, classes: "_Classes") -> I64:
    """Return how often each key is in a pass of the kind, int64[k]; 0 = by no rule.

    The number under which what was counted is likeliest: each record is lost by
    chance, at the rate of the kind, and hardly ever is one too many.
    """
    size = kind.rows.length
    whole = size >= _ALIKE * np.median(size)
    table, weight = kind.table[whole], kind.weight[whole]
    top = min(int(table.max(initial=0)), _MOST_OF_ONE)
    votes = np.stack([weight @ (table == count) for count in range(top + 1)])
    votes[top] += weight @ (table > top)
    lost = np.sort(votes[0, votes[2:].sum(axis=0) == 0] / max(int(weight.sum()), 1))
    lost = lost[lost < _COVERED]
    rate = float(lost[: max(len(lost) * 9 // 10, 1)].mean()) if len(lost) else 0.0
    rate = min(max(rate, _LEAST_RATE), _MOST_MISSING)
    counted = np.arange(top + 1)
    beyond = counted[None, :] - counted[:, None]
    chance = np.where(beyond > 0, beyond * np.log(_SURPLUS), 0.0)
    for n in counted.tolist():
        for k in range(n + 1):
            ways = np.log(float(comb(n, k)))
            chance[n, k] = ways + (n - k) * np.log(rate) + k * np.log(1 - rate)
    likely = chance @ votes
    if int(weight.sum()) <= _FEW:
        # Few passes: ops that differ by their layer only speak for each other.
        for of in classes.members.values():
            if len(of) >= _FEW:
                columns = list(of.values())
                likely[:, columns] = likely[:, columns].sum(axis=1)[:, None]
    best: I64 = np.argmax(likely, axis=0).astype(np.int64)
    return best


def _lacks(kind: _Kind, expected: I64) -> npt.NDArray[np.int64]:
    """Return what each piece lacks, int64[pieces, keys], but for cut ends."""
    rows = kind.rows
    lacks = np.maximum(expected[None, :] - kind.table.astype(np.int64), 0)
    there = kind.table > 0
    begin = np.where(there, kind.order, np.inf).min(axis=1)
    end = np.where(there, kind.order, -np.inf).max(axis=1)
    late, early = kind.low < begin[:, None], kind.high > end[:, None]
    for cut, is_edge in ((late, rows.is_head), (early, rows.is_tail)):
        # Passes that begin late or end early by more than a few ops: one or two of
        # them have lost a batch; where many do, they are no whole passes by design.
        short = ~is_edge & ((cut & (expected > 0)).sum(axis=1) >= _CUT_SHORT)
        are_many = np.count_nonzero(short) > max(_FEW_SHORT * len(rows), 1)
        chosen = is_edge | are_many
        lacks[chosen] = np.where(cut[chosen], 0, lacks[chosen])
    return lacks


def _losses(trace: Trace, kind: _Kind, keys: _Keys, readers: "_Readers") -> _Found:
    """Return which of the ops that a pass lacks are lost records."""
    classes = _Classes(trace, kind, keys)
    expected = _expected(kind, classes)
    lacks = _lacks(kind, expected)
    weight = kind.weight
    piece, key = np.nonzero(lacks)
    count = lacks[piece, key]
    # What is computed twice under one name may be read although one is missing.
    is_read = _is_read(kind, piece, key, readers) & (expected[key] == 1)
    is_kin = classes.have(piece, key, expected)
    varies = _varying(lacks, weight, expected)
    # An op that a pass has in no layer is no op of that graph, unless it is read.
    is_none = ~is_read & classes.are_gone(piece, key)
    told = (is_read | is_kin) & ~varies[key]
    odd = _odd(len(weight), weight, told, piece)
    by_chance = ~varies[key] & ~odd[piece] & _are_many(trace, kind)[piece] & ~is_none
    lost = told | by_chance
    times = weight[piece] * count
    # The share that is lost for sure says how many of the others chance would take.
    n_cells = int((weight[:, None] * expected[None, :]).sum())
    rate = int(times[lost].sum()) / max(n_cells, 1)
    rest = ~lost & ~varies[key] & ~is_none
    if _is_chance(int(times[rest].sum()), rate * max(n_cells - len(times), 0)):
        lost |= rest
    found = _Found(piece[lost], key[lost], count[lost])
    found.n_read = int(times[lost & is_read].sum())
    found.n_alike = int(times[lost].sum()) - found.n_read
    left_out = np.zeros(len(kind.keys), np.bool_)
    left_out[key[~lost]] = True
    found.n_varying = int(np.count_nonzero(left_out))
    found.n_ops = int(expected.sum()) if _is_regular(kind, expected) else 0
    # A graph tells of ops that no pass has better than other layers do.
    has_graph = any(join.n_nodes for join in trace.joins)
    if int(weight.sum()) <= _FEW and not has_graph:
        _of_layers(kind, classes, readers, found, rate)
    return found


def _is_regular(kind: _Kind, expected: I64) -> bool:
    """Tell whether numbers say anything: most ops are one of a name, or steady.

    Ops that bear few names between them, in ever other numbers, follow no rule.
    """
    n_ops = int(expected.sum())
    if not n_ops or int((expected == 1).sum()) >= _ONE_OF_A_NAME * n_ops:
        return n_ops > 0
    many = np.flatnonzero(expected > 1)
    steady = (kind.table[:, many] == expected[many]).mean(axis=1)
    return float(np.average(steady, weights=kind.weight)) >= _COVERED


def _is_chance(n: int, mean: float) -> bool:
    """Tell whether chance may well take so many where `mean` are to be expected."""
    return n <= mean + 2 * float(np.sqrt(mean))


def _are_many(trace: Trace, kind: _Kind) -> Bools:
    """Return of which pieces so many are alike, in one phase, that chance can speak."""
    phase = trace.spans.phase
    n = len(kind.rows)
    if phase is None:
        return np.full(n, int(kind.weight.sum()) >= _FEW)
    of = kind.phase.astype(np.int64) + 1
    per_phase = np.bincount(of, kind.weight, minlength=4)
    return np.asarray(per_phase[of] >= _FEW)


class _Classes:
    """Ops that differ by their layer only.

    Attributes
    ----------
    members : columns of a kind by (name without its layer, op), and by layer.
    n_layers : different layers of all ops.
    """

    def __init__(self, trace: Trace, kind: _Kind, keys: _Keys) -> None:
        self._kind = kind
        self.members: dict[tuple[str, int], dict[int, int]] = {}
        self._of: dict[int, tuple[str, int]] = {}
        self.layers: set[int] = set()
        for column, key in enumerate(kind.keys.tolist()):
            name = keys.text(trace, key)
            begin, end = shape_of(name).layer
            if end <= begin:
                continue
            layer = int(name[begin:end])
            self.layers.add(layer)
            # A cut name may have lost letters behind longer numbers of layers.
            named = (f"{name[:begin]}\0{name[end:]}", int(keys.op[key]))
            self.members.setdefault(named, {})[layer] = column
            self._of[column] = named

    def have(self, piece: I64, key: I64, expected: I64) -> Bools:
        """Tell whether most other layers have, in the same pass, what one lacks."""
        return self._share(piece, key, expected) >= _ALIKE

    def are_gone(self, piece: I64, key: I64) -> Bools:
        """Tell whether hardly any layer has, in the same pass, what one lacks."""
        share = self._share(piece, key, np.ones(len(self._kind.keys), np.int64))
        return (share >= 0) & (share < 1 - _OF_LAYERS)

    def _share(self, piece: I64, key: I64, expected: I64) -> npt.NDArray[np.float64]:
        """Return the share of other layers that have it; -1 where there are few."""
        result = np.full(len(piece), -1.0)
        for column in np.unique(key).tolist():
            named = self._of.get(column)
            if named is None or len(self.members[named]) < _FEW:
                continue
            kin = np.array(list(self.members[named].values()), np.int64)
            part = np.flatnonzero(key == column)
            there = self._kind.table[np.ix_(piece[part], kin)] >= expected[kin]
            result[part] = there.sum(axis=1) / (len(kin) - 1)
        return result


def _is_read(kind: _Kind, piece: I64, key: I64, readers: "_Readers") -> Bools:
    """Tell whether a record of the same pass reads what a missing one computes."""
    result = np.zeros(len(piece), np.bool_)
    column = np.full(int(kind.keys.max()) + 1, -1, np.int64)
    column[kind.keys] = np.arange(len(kind.keys))
    order = np.argsort(key, kind="stable")
    edges = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    for part in np.split(order, edges[1:]):
        if not len(part):
            continue
        of = readers.of(int(kind.keys[key[part[0]]]))
        of = of[of < len(column)]
        of = column[of]
        of = of[of >= 0]
        if len(of):
            result[part] = (kind.table[np.ix_(piece[part], of)] > 0).any(axis=1)
    return result


def _tail(mean: npt.NDArray[np.float64], n: I64) -> npt.NDArray[np.float64]:
    """Return at least the chance of `n` or more where `mean` are to be expected."""
    m, k = np.maximum(mean, 1e-12), np.maximum(n.astype(np.float64), 1.0)
    # Stirling's formula for the first term, and a geometric series for the others.
    factorial = k * np.log(k) - k + np.log(2 * np.pi * k) / 2 + 1 / (12 * k)
    with np.errstate(over="ignore"):
        first = np.exp(np.minimum(k * np.log(m) - m - factorial, 0.0))
    ratio = np.minimum(m / (k + 1), 0.99)
    result: npt.NDArray[np.float64] = np.where(
        n > mean, np.minimum(first / (1 - ratio), 1.0), 1.0
    )
    return result


def _varying(lacks: I64, weight: I64, expected: I64) -> Bools:
    """Return which ops are missing too often for chance: other graphs lack them."""
    per_key = weight @ lacks
    n_keys = int(np.count_nonzero(expected))
    fewest = 2 if int(weight.sum()) <= 2 * _FEW else 3
    varies = np.zeros(len(per_key), np.bool_)
    # Twice: ops that vary much are not to hide those that vary less.
    for _ in range(2 if n_keys >= _MANY_KEYS else 0):
        mean = per_key[~varies].sum() / max(int(expected[~varies].sum()), 1)
        chance = _tail(mean * expected, per_key) * n_keys
        varies = (per_key >= fewest) & (chance < _UNLIKELY)
    return varies


def _odd(n: int, weight: I64, told: Bools, piece: I64) -> Bools:
    """Return which pieces lack ops together that nothing tells of: other graphs."""
    per_piece = np.bincount(piece[~told], minlength=n).astype(np.int64)
    others = np.bincount(piece[told], minlength=n)
    n_all = max(int(weight.sum()), 1)
    mean = np.full(n, float((per_piece * weight).sum()) / n_all)
    chance = _tail(mean, per_piece) * n_all
    # A gap in the recording takes what is told of and what is not.
    return np.asarray((per_piece >= 2) & (chance < _ODD) & (others == 0))


class _Readers:
    """Which ops read what which other op computes, by names."""

    def __init__(self, trace: Trace, keys: _Keys, rows: _Rows, runs: Runs) -> None:
        self._keys, self._trace = keys, trace
        self._known: dict[int, I64] = {}
        self.by_base: dict[str, I64] = {}
        if keys.of_tensor or not len(trace.accesses.first) - 1:
            return
        lists: dict[str, set[int]] = {}
        at = np.unique(rows.key, return_index=True)[1]
        piece = np.searchsorted(rows.first, at, "right") - 1
        spans = np.full(len(at), -1, np.int64)
        for number in np.unique(piece).tolist():
            some = piece == number
            ids = runs.of_run(int(rows.run[number]))
            spans[some] = ids[at[some] - rows.first[number] + rows.begin[number]]
        for key, span in enumerate(spans.tolist()):
            for tensor in trace.accesses.of_span(span).tensor.tolist():
                if tensor >= 0:
                    name = trace.strings[int(trace.tensors.name[tensor])]
                    lists.setdefault(normalise(name), set()).add(key)
        self.by_base = {n: np.array(sorted(k), np.int64) for n, k in lists.items()}

    def of(self, key: int) -> I64:
        """Return the keys of the ops that read what `key` computes, but itself."""
        found = self._known.get(key)
        if found is None:
            base = normalise(self._keys.text(self._trace, key))
            found = self.by_base.get(base, np.zeros(0, np.int64)) if base else None
            found = np.zeros(0, np.int64) if found is None else found[found != key]
            self._known[key] = found
        return found


def _of_layers(
    kind: _Kind, classes: _Classes, readers: _Readers, found: _Found, rate: float
) -> None:
    """Add ops that no pass has, but nearly all other layers.

    Where a record reads what they compute, or no more lack than chance would take.
    """
    unread: list[tuple[str, int]] = []
    n_cells = 0
    for (shape, _), of in classes.members.items():
        if len(of) < max(_OF_LAYERS * len(classes.layers), _FEW):
            continue
        n_cells += len(classes.layers)
        for layer in sorted(classes.layers - set(of)):
            name = shape.replace("\0", str(layer))
            column = of[min(of, key=lambda known: abs(known - layer))]
            reading = readers.by_base.get(normalise(name))
            if reading is None:
                unread.append((name, column))
                continue
            at = np.flatnonzero(np.isin(kind.keys, reading))
            pieces = np.flatnonzero((kind.table[:, at] > 0).any(axis=1))
            found.extra += [(piece, name, column) for piece in pieces.tolist()]
            found.n_layers += int(kind.weight[pieces].sum())
    n_passes = int(kind.weight.sum())
    if _is_chance(len(unread), n_cells * rate**n_passes):
        found.extra += [(p, *one) for one in unread for p in range(len(kind.rows))]
        found.n_layers += len(unread) * n_passes


# -- the whole ----------------------------------------------------------------------


def completeness(trace: Trace, watcher: Watcher | None = None) -> Completeness:
    """Return how many of the records that were to be expected are there.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Where all passes are alike, one look at names and ops; what differs is compared
    op by op. What a recording lacks at its very beginning and end is not missed: it
    may have begun or ended inside a pass.
    """
    why = _why_not(trace)
    if why:
        return unknown(why)
    runs = runs_of(trace)
    by_access = trace.claims is not None and not trace.claims.has_results
    leaders, weight = _distinct_runs(trace, runs, watcher, by_access=by_access)
    leaders, weight, every = _sampled(runs, leaders, weight)
    rows, keys = _sequences(trace, runs, leaders.tolist(), weight, by_access=by_access)
    if not len(rows.key):
        return unknown("it records no ops")
    rows = _taken(rows, rows.length > 0)
    readers = _Readers(trace, keys, rows, runs)
    rows = rows.cut(_graph_begins(rows, keys))
    rows = _without_repeats(rows, len(keys.op))
    result = _Sum(trace, runs, keys, by_access=by_access, every=every)
    for kind in _kinds(rows, len(keys.op), watcher):
        result.add(kind, _losses(trace, kind, keys, readers))
    n_rows = int((rows.length * rows.weight).sum())
    return _with_graphs(trace, result.finished(n_rows, int(rows.weight.sum())))


def _with_graphs(trace: Trace, found: Completeness) -> Completeness:
    """Return the result with what the graphs of the trace say that passes hold."""
    fits = [join for join in trace.joins if join.n_nodes and join.n_all]
    if not any(join.n_found >= _FITS * join.n_all for join in fits):
        return found
    lost = lost_nodes(trace)
    if found.is_known:
        lost = lost[_are_unnamed(trace, lost)]
    n_graphs = max(len({locate_node(trace.graphs, int(n))[0] for n in lost}), 1)
    n_passes = max(found.n_passes or trace.info.n_passes, 1)
    events = 2 if trace.info.reader_id == _TWO_EVENTS else 1
    n_missing = len(lost) * max(n_passes // n_graphs, 1) * events
    gaps = []
    for node in lost[: MOST_PLACES - len(found.gaps)].tolist():
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        name, op = trace.strings[int(graph.name[row])], trace.op_name(graph.op[row])
        gaps.append(Gap(name or op, op, -1, -1, trace.extent.start))
    n_there = found.n_there
    if not found.is_known:
        n_there = int(np.count_nonzero(trace.spans.op >= 0)) * events
    return replace(
        found,
        is_known=True,
        why="",
        n_there=n_there,
        n_missing=found.n_missing + n_missing,
        n_passes=n_passes,
        rests_on=(
            *found.rests_on,
            "the graph" if len(trace.graphs) == 1 else "the graphs",
        ),
        gaps=(*found.gaps, *gaps),
    )


def _are_unnamed(trace: Trace, nodes: I64) -> Bools:
    """Tell which nodes no span is called like: what passes say counts the others."""
    result = np.ones(len(nodes), np.bool_)
    for i, node in enumerate(nodes.tolist()):
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        same = trace.spans.name == graph.name[row]
        result[i] = not bool((trace.spans.op[same] == graph.op[row]).any())
    return result


def _why_not(trace: Trace) -> str:
    """Return why nothing can be expected of a trace; "" where something may be."""
    if trace.pending:
        return "it is still being read"
    if not len(trace.spans) or int(trace.spans.op.max()) < 0:
        return "it records no ops"
    if trace.lanes.of_kind(LaneKind.ENGINE).any():
        return "work of engines follows no graph that the trace tells"
    if any(w.code in _PARTLY_READ for w in trace.warnings):
        return "only a part of it was read"
    return ""


def _access_sums(trace: Trace, runs: Runs) -> I64:
    """Return a check sum of the numbers of accesses of the spans of each run."""
    counts = np.append(np.diff(trace.accesses.first), 0).astype(np.uint8)
    pattern = trace.accesses.pattern
    sums = (
        crc32(counts[pattern[runs.of_run(run)]].tobytes()) for run in range(len(runs))
    )
    return np.fromiter(sums, np.int64, len(runs))


def _distinct_runs(
    trace: Trace, runs: Runs, watcher: Watcher | None, *, by_access: bool
) -> tuple[I64, I64]:
    """Return one run of each kind of equal ones, and how many there are of each.

    The first and the last one of a thread stand for themselves.
    """
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right") - 1
    edge = np.append(True, np.diff(stretch) != 0) | np.append(
        np.diff(stretch) != 0, True
    )
    own = np.where(edge, np.arange(len(runs)) + 1, 0)
    hashes = run_hashes(trace, runs, watcher).view(np.int64)
    columns = [hashes, np.diff(runs.first), own]
    if by_access:
        # Of an op that has lost a source name and number are the same.
        columns.append(_access_sums(trace, runs))
    table = np.stack(columns)
    _, leader, weight = np.unique(table, axis=1, return_index=True, return_counts=True)
    order = np.argsort(leader)
    return leader[order].astype(np.int64), weight[order].astype(np.int64)


def _sampled(runs: Runs, leaders: I64, weight: I64) -> tuple[I64, I64, int]:
    """Return so many of the runs as can be compared, and that it is one in so many."""
    length = runs.first[leaders + 1] - runs.first[leaders]
    every = -(-int(length.sum()) // _MOST_ROWS)
    if every <= 1:
        return leaders, weight, 1
    lone = np.flatnonzero(weight == 1)
    keep = np.ones(len(leaders), np.bool_)
    keep[lone[1:-1]] = False
    keep[lone[1:-1:every]] = True
    weight = weight.copy()
    weight[lone[1:-1:every]] = every
    return leaders[keep], weight[keep], every


def _graph_begins(rows: _Rows, keys: _Keys) -> I64:
    """Return the rows at which a graph begins that the trace shows as a span."""
    is_graph = keys.op[rows.key] < 0
    return np.flatnonzero(is_graph & ~np.append(False, is_graph[:-1]))


def _without_repeats(rows: _Rows, n_keys: int) -> _Rows:
    """Return the rows with pieces cut that hold several passes, by the op they share.

    Only where a trace shows no passes at all: pieces that repeat nearly every op.
    """
    cuts: list[I64] = []
    for piece in range(len(rows)) if len(rows) <= _SAMPLES else ():
        low, high = int(rows.first[piece]), int(rows.first[piece + 1])
        seq = rows.key[low:high]
        counts = np.bincount(seq, minlength=n_keys)
        used = counts[counts > 0]
        if high - low < _REPEATS * len(used):
            return rows  # it shows what one pass is; where others end follows from it
        usual = max(int(np.argmax(np.bincount(used))), int(np.median(used)))
        once = np.flatnonzero(counts[seq] == usual)
        if usual < 2 or not len(once):
            continue
        for anchor in once[:_ANCHORS].tolist():
            begins = np.flatnonzero(seq == seq[anchor])
            length = np.diff(np.append(begins, high - low))
            middle = np.median(length)
            if (np.abs(length - middle) <= 0.3 * middle).mean() > _COVERED:
                cuts.append(begins + low)
                break
    return rows.cut(np.concatenate(cuts)) if cuts else rows


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A missing record: the number of its pass, the piece, the column, the name."""

    number: int
    kind: _Kind
    piece: int
    column: int
    name: str


class _Sum:
    """Adds up what kinds of passes tell."""

    def __init__(
        self, trace: Trace, runs: Runs, keys: _Keys, *, by_access: bool, every: int
    ) -> None:
        self._every = every
        self._trace, self._runs, self._keys = trace, runs, keys
        self._by_access = by_access
        self._gaps: list[_Noted] = []
        self._n_covered = self._n_missing = self._n_passes = self._n_varying = 0
        self._n_read = self._n_layers = 0

    def add(self, kind: _Kind, found: _Found) -> None:
        """Add one kind of passes; a single one tells nothing."""
        weight = kind.weight
        n_passes = int(weight.sum())
        n_there = int((kind.rows.length * weight).sum())
        n_missing = found.n_read + found.n_alike + found.n_layers
        if n_passes < 2 or n_missing > _MOST_MISSING * (n_there + n_missing):
            return
        if found.n_ops < _FEWEST_OPS:
            return  # spans that only bear one name say nothing of each other
        self._n_covered += n_there
        self._n_missing += n_missing
        self._n_passes += n_passes
        self._n_varying += found.n_varying
        self._n_read += found.n_read
        self._n_layers += found.n_layers
        number = self._runs.number[kind.rows.run[found.piece]]
        for i in np.argsort(number, kind="stable")[:MOST_PLACES].tolist():
            piece, column = int(found.piece[i]), int(found.key[i])
            name = self._keys.text(self._trace, int(kind.keys[column]))
            noted = _Noted(int(number[i]), kind, piece, column, name)
            self._gaps += [noted] * int(found.count[i])
        for piece, name, column in found.extra[:MOST_PLACES]:
            when = int(self._runs.number[kind.rows.run[piece]])
            self._gaps.append(_Noted(when, kind, piece, column, name))

    def finished(self, n_rows: int, n_told: int) -> Completeness:
        """Return the result; of `n_rows` records in `n_told` passes as the trace tells.

        Where far more passes were found than that, their order follows no rule.
        """
        if self._n_passes > _REPEATS * n_told + 2:
            return unknown("its passes are not alike")
        if self._n_covered < _COVERED * n_rows or not self._n_passes:
            return unknown("its passes are not alike")
        n_there, n_missing = n_rows, self._n_missing
        noted = sorted(self._gaps, key=lambda one: one.number)[:MOST_PLACES]
        gaps = sorted(map(self._gap, noted), key=lambda gap: gap.time)
        if self._trace.info.reader_id == _TWO_EVENTS:
            n_there, n_missing = _events(self._trace, n_missing)
        lanes = np.count_nonzero(self._runs.of_lane >= 0)
        apart = " by thread" if len(self._runs.stretches) > 1 and lanes > 1 else ""
        rests = [f"{format_count(self._n_passes)} passes{apart} that are alike"]
        if self._n_read:
            rests.append("what later records read")
        if self._every > 1:
            rests[0] += f" (estimated from one in {self._every} of those that differ)"
        if self._n_layers:
            rests.append("layers that are alike")
        return Completeness(
            True,
            "",
            n_there,
            n_missing,
            self._n_passes,
            self._n_varying,
            tuple(rests),
            tuple(gaps),
        )

    def _gap(self, noted: "_Noted") -> Gap:
        """Return where a record is missing."""
        kind, piece, column, name = noted.kind, noted.piece, noted.column, noted.name
        rows, trace = kind.rows, self._trace
        low, high = int(rows.first[piece]), int(rows.first[piece + 1])
        ids = _spans_of(
            trace, self._runs, int(rows.run[piece]), by_access=self._by_access
        )
        begin = int(rows.begin[piece])
        ids = ids[begin : begin + high - low]
        place = np.zeros(int(kind.keys.max()) + 1)
        place[kind.keys] = kind.order
        at = int(np.count_nonzero(place[rows.key[low:high]] < kind.order[column]))
        after = int(ids[at - 1]) if at else -1
        before = int(ids[at]) if at < len(ids) else -1
        time = int(trace.spans.start[after if after >= 0 else before])
        op = trace.op_name(int(self._keys.op[kind.keys[column]]))
        return Gap(name or op, op, after, before, time)


def _events(trace: Trace, n_missing: int) -> tuple[int, int]:
    """Return the events that are there and that are missing, where ops are two each.

    Parameters
    ----------
    n_missing : ops and graphs without a begin; the ends of some are there.
    """
    spans = trace.spans
    unfinished = quality_of(spans.flags) == Quality.UNFINISHED
    names = {trace.strings.find(text) for text in ("OP_END", "GRAPH_END")} - {-1}
    stray = np.isin(trace.markers.name, sorted(names)) if names else np.zeros(0, bool)
    n_there = 2 * len(spans) - int(unfinished.sum()) + int(stray.sum())
    # What the last graph holds was cut off with it, where that never ended.
    graphs = np.flatnonzero(spans.op < 0)
    last = graphs[np.argmax(spans.start[graphs])] if len(graphs) else -1
    is_cut = last >= 0 and bool(unfinished[last])
    until = int(spans.start[last]) if is_cut else trace.extent.end + 1
    n_open = int((unfinished & (spans.start < until)).sum())
    begin = int(spans.start.min())
    n_stray = int((trace.markers.time[stray] > begin).sum()) if stray.any() else 0
    return n_there, max(2 * n_missing - n_stray, n_stray) + n_open


# -- words ---------------------------------------------------------------------------


def completeness_words(found: Completeness) -> str:
    """Return "99.1 % of what was expected: 217 of 23,280 records are missing …"."""
    share, n = found.share, found.n_missing
    if share is None:
        return f"not known: {found.why or 'nothing tells what was to be expected'}"
    is_one = found.rests_on in (("the graph",), ("what later records read",))
    rests = f"{' and '.join(found.rests_on)} tell{'s' if is_one else ''}"
    if not n:
        text = f"nothing that was to be expected is missing, as far as {rests}"
    else:
        text = (
            f"{format_percent(share)} of what was expected: {format_count(n)} of "
            f"{format_count(found.n_expected)} records {'is' if n == 1 else 'are'} "
            f"missing, as {rests}"
        )
    if varying := found.n_varying:
        text += (
            f"; {format_count(varying)} op{'' if varying == 1 else 's'} that "
            f"{'varies is' if varying == 1 else 'vary are'} left out: lost records or "
            "another graph"
        )
    return text


def format_percent(share: float) -> str:
    """Return a share that is no whole so that it never reads as one: "99.997 %"."""
    for digits in range(1, 7):
        text = f"{100 * share:.{digits}f}"
        if not text.startswith("100"):
            return f"{text} %"
    return "99.999999 %"


def with_completeness(trace: Trace, found: Completeness) -> Trace:
    """Return the trace with a problem where records are missing."""
    kept = tuple(w for w in trace.warnings if w.code != CODE)
    if found.n_missing:
        kept = (*kept, _warning(trace, found))
    if kept == trace.warnings:
        return trace
    return replace(trace, warnings=tuple(sorted(kept, key=lambda w: -w.severity)))


_HOLDS = "The times derived for the ops before them hold theirs. "


def _warning(trace: Trace, found: Completeness) -> ReadWarning:
    is_derived = bool((trace.spans.flags & int(SpanFlag.INFERRED_END)).any())
    return ReadWarning(
        Severity.DATA_LOSS,
        CODE,
        f"{completeness_words(found)}.",
        found.n_missing,
        place=gap_words(trace, found.gaps[0]) if found.gaps else "",
        remedy=(_HOLDS if is_derived else "") + "Record again if they matter.",
    )


def gap_words(trace: Trace, gap: Gap) -> str:
    """Return "Qcur-3 (MUL_MAT) after record 41 (attn_norm-3)"."""
    what = f"{gap.name} ({gap.op})" if gap.op and gap.op != gap.name else gap.name
    side, span = ("after", gap.after) if gap.after >= 0 else ("before", gap.before)
    if span < 0:
        return f"{what} in every pass"
    record = trace.spans.record
    number = span if record is None else int(record[span])
    return f"{what} {side} record {format_count(number)} ({trace.span_name(span)})"
