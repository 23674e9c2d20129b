"""Completeness: which records a trace should hold, and which of them are missing.

An inference run computes the same graph again and again, so passes that are alike say
what each of them should hold. A record that is missing from one pass is believed to be
lost where something speaks for it: a later record of that pass reads what it would have
computed; or so many passes have it that its absence is chance, and not another graph.
What has no regularity is called not known, never complete.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from math import comb, lgamma

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.altered import AlteredKeys, replaced
from ggscope.analysis.completeness.skipped import (
    NO_SKIPS,
    SkippedTokens,
    TokenGap,
    skipped_tokens,
)
from ggscope.analysis.sessions.runs import (
    ALIKE,
    FEW_SHORT,
    REPEATS,
    Bools,
    Keys,
    Kind,
    PassRows,
    Runs,
    distinct_runs,
    kinds,
    runs_of,
    sampled_runs,
    sequences,
    spans_of,
    without_repeats,
)
from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.graph import locate_node
from ggscope.model.names import normalise, shapes_of
from ggscope.model.tables import (
    I64,
    Quality,
    alike,
    distinct,
    first_places,
    quality_of,
)
from ggscope.model.trace import RANGE_CODES, LaneKind, Trace

COUNTED = "counters of the tracer"
"""In `Completeness.rests_on`: the numbers are exact."""
_OF_PROGRAMS = frozenset({"chrome", "perfetto"})
"""Tables of ops that are names of any program."""
_ODD = 0.05
_LEAST_RATE = 2e-3
_SURPLUS = 1e-4
"""Chance of a record too many, against which those of losses are weighed."""
_MAX_OF_ONE = 64
_MAX_PLACED = 1 << 25
"""More cells of passes, places and ops are not looked through one by one."""
_CUT_SHORT = 4
_ONE_OF_A_NAME = 0.3
_FEW = 4
"""From so many passes on, chance alone can speak for a loss."""
_UNLIKELY = 1e-2
_MAX_SAMPLED = 32
"""Of a kind, so many passes are asked for their layers."""
_NOT_APART = "its layers look like passes"
_MANY_KEYS = 10
"""Fewer ops than this say nothing of what is usual among them."""
MAX_MISSING = 0.3
"""Passes that lack more than this share of their ops are no passes of one kind."""
COVERED = 0.5
"""Share of the records that must be of passes that are alike."""
_DOUBT = 1e-2
"""What is less likely than this is left out of the range that is stated."""
_OF_LAYERS = 0.75
"""Ops of so many layers are expected in the others, where something reads them."""
_SOME = 16
"""Of so many gaps of token numbers the neighbours are counted."""
_MAX_SETS = 256
"""Each op's layers are held against so many others, and not against all."""


@dataclass(slots=True, eq=False)
class Losses:
    """What one kind lacks.

    Attributes
    ----------
    pass_id, key : of each missing record (key : column of the kind); count, how many.
    n_read, n_alike, n_layers : how many of them rest on what later records read, on
        passes alone, on layers.
    n_varying : ops that are left out.
    n_fewer, n_more : so many less and more may be missing.
    n_altered : records that are there with an unknown op, besides altered keys.
    n_ops : ops of a pass; 0 where their numbers follow no rule.
    extra : names of ops that no pass of the kind has, one per missing record, and the
        pass that it is missing from.
    """

    pass_id: I64
    key: I64
    count: I64
    n_read: int = 0
    n_alike: int = 0
    n_layers: int = 0
    n_varying: int = 0
    n_fewer: int = 0
    n_more: int = 0
    n_ops: int = 0
    n_altered: int = 0
    extra: list[tuple[int, str, int]] = field(default_factory=list)


def _expected(kind: Kind, classes: "_Classes") -> tuple[I64, I64, I64]:
    """Return how often each key is in a pass of the kind, int64[k]; 0 = by no rule.

    The number under which what was counted is likeliest: each record is lost by
    chance, at the rate of the kind, and hardly ever is one too many. Then how many
    fewer and how many more are not much less likely.
    """
    size = kind.rows.length
    whole = size >= ALIKE * np.median(size)
    table, weight = kind.table[whole], kind.weight[whole]
    top = min(int(table.max(initial=0)), _MAX_OF_ONE)
    votes = np.stack([weight @ (table == count) for count in range(top + 1)])
    votes[top] += weight @ (table > top)
    n_passes = max(int(weight.sum()), 1)
    lost = np.sort(votes[0, votes[2:].sum(axis=0) == 0] / n_passes)
    lost = lost[lost < COVERED]
    rate = float(lost[: max(len(lost) * 9 // 10, 1)].mean()) if len(lost) else 0.0
    rate = min(max(rate, _LEAST_RATE), MAX_MISSING)
    likely = _likely(votes, rate)
    n_lost = float(lost.sum()) * n_passes
    highest = (n_lost + 2 * np.sqrt(n_lost)) / max(len(lost) * n_passes, 1)
    # As many as can be, where many are lost and the rate is not known better.
    highest = min(highest, MAX_MISSING) if n_lost >= _FEW else 0.0
    upper = _likely(votes, max(highest, rate))
    if n_passes <= _FEW:
        # Few passes: ops that differ by their layer only speak for each other.
        for of in classes.members.values():
            if len(of) >= _FEW:
                columns = list(of.values())
                for of_rate in (likely, upper):
                    summed = of_rate[:, columns].sum(axis=1)
                    of_rate[:, columns] = summed[:, None]
    best = np.argmax(likely[:-1], axis=0).astype(np.int64)
    is_fair = likely >= likely.max(axis=0) + np.log(_DOUBT)
    is_fair |= upper >= upper.max(axis=0) + np.log(_DOUBT)
    # What no pass has twice is named for itself, and is there once.
    is_fair[2:, ~votes[2:].any(axis=0)] = False
    lowest = np.minimum(np.argmax(is_fair, axis=0), best)
    expected = np.maximum(top + 1 - np.argmax(is_fair[::-1], axis=0), best)
    placed = _by_place(kind, whole, best, np.flatnonzero(expected > lowest), rate)
    best = np.clip(placed, lowest, expected)
    return best, best - lowest, expected - best


def _by_place(kind: Kind, whole: Bools, best: I64, doubtful: I64, rate: float) -> I64:
    """Return `best`, where counts leave doubt as found by place: int64[k].

    An op of a name that comes several times may be missing from every pass, each time
    elsewhere: between two ops that come once, some pass still has it.
    """
    once = np.flatnonzero((best == 1) & (kind.table.max(axis=0) <= 1))
    doubtful = doubtful[best[doubtful] > 1]
    n_cells = len(kind.rows) * len(once) * (len(once) + len(doubtful))
    if not len(doubtful) or len(once) < 2 or n_cells > _MAX_PLACED:
        return best
    column = np.full(int(kind.keys.max()) + 1, -1, np.int64)
    column[kind.keys] = np.arange(len(kind.keys))
    column_of = column[kind.rows.key]
    pass_id = np.repeat(np.arange(len(kind.rows)), kind.rows.length)
    # Each of these comes behind those that most passes have before it.
    position = np.full((len(kind.rows), len(kind.keys)), -1, np.int64)
    position[pass_id, column_of] = np.arange(len(column_of))
    ahead = np.zeros((len(once), len(once)), np.int64)
    for places, weight in zip(position[:, once], kind.weight.tolist(), strict=True):
        there = places >= 0
        both = there[:, None] & there[None, :]
        ahead += weight * np.where(both, np.sign(places[:, None] - places), 0)
    once = once[np.argsort((ahead > 0).sum(axis=1), kind="stable")]
    rank = np.full(len(kind.keys), -1, np.int64)
    rank[once] = np.arange(len(once))
    is_once = np.flatnonzero(rank[column_of] >= 0)
    # Each record stands between the two of these that come before and after it.
    after = np.searchsorted(is_once, np.arange(len(column_of)), "right")
    ends = np.append(is_once, len(column_of) - 1)
    inside = (after > 0) & (after < len(is_once))
    inside &= (pass_id[ends[after - 1]] == pass_id) & (pass_id[ends[after]] == pass_id)
    before = rank[column_of[ends[after - 1]]]
    inside &= rank[column_of[ends[after]]] == before + 1
    has = kind.table[:, once] > 0
    has = has[:, 1:] & has[:, :-1] & whole[:, None]
    result = best.copy()
    for key in doubtful.tolist():
        at = np.flatnonzero(inside & (column_of == key))
        cells = np.bincount(
            pass_id[at] * has.shape[1] + before[at], minlength=has.size
        ).reshape(has.shape)
        top = min(int(cells.max(initial=0)), _MAX_OF_ONE)
        votes = np.stack([kind.weight @ (has & (cells == n)) for n in range(top + 1)])
        if top:
            placed = np.argmax(_likely(votes, max(rate, _LEAST_RATE))[:-1], axis=0)
            result[key] = max(int(placed.sum()), int(best[key]))
    return result


def _likely(votes: I64, rate: float) -> npt.NDArray[np.float64]:
    """Return the logarithm of how likely the counts are, by how many ops there are.

    float64[top + 2, k] of int64[top + 1, k] passes that have so many: one more than was
    ever counted too, since each pass may have lost one of many.
    """
    top = len(votes) - 1
    counted, numbers = np.arange(top + 1), np.arange(top + 2)
    beyond = counted[None, :] - numbers[:, None]
    chance = np.where(beyond > 0, beyond * np.log(_SURPLUS), 0.0)
    for n in numbers.tolist():
        for k in range(min(n, top) + 1):
            ways = np.log(float(comb(n, k)))
            chance[n, k] = ways + (n - k) * np.log(rate) + k * np.log(1 - rate)
    # Not `@`: a product of floats is BLAS's, which ends the process short of memory.
    likely: npt.NDArray[np.float64] = np.einsum("nc,ck->nk", chance, votes)
    return likely


def _lacks(kind: Kind, expected: I64) -> tuple[I64, list[I64]]:
    """Return what each pass lacks, int64[passes, keys], but for cut ends.

    And what is cut at the begin and the end of the recording: (pass_id, key, count) of
    each op, int64[m, 3], one for each cut.
    """
    rows = kind.rows
    lacks = np.maximum(expected[None, :] - kind.table.astype(np.int64), 0)
    there = kind.table > 0
    begin = np.where(there, kind.order, np.inf).min(axis=1)
    end = np.where(there, kind.order, -np.inf).max(axis=1)
    late, early = kind.low < begin[:, None], kind.high > end[:, None]
    cuts = []
    for cut, is_edge in ((late, rows.is_head), (early, rows.is_tail)):
        for pass_id in np.flatnonzero(is_edge).tolist():
            missing = np.flatnonzero(cut[pass_id] & (lacks[pass_id] > 0))
            cuts.append(
                np.stack(
                    (np.full_like(missing, pass_id), missing, lacks[pass_id, missing]),
                    1,
                )
            )
        # Passes that begin late or end early by more than a few ops: one or two of
        # them have lost a batch; where many do, they are no whole passes by design.
        short = ~is_edge & ((cut & (expected > 0)).sum(axis=1) >= _CUT_SHORT)
        are_many = np.count_nonzero(short) > max(FEW_SHORT * len(rows), 1)
        chosen = is_edge | are_many
        lacks[chosen] = np.where(cut[chosen], 0, lacks[chosen])
    return lacks, [cut for cut in cuts if len(cut)]


def losses(
    trace: Trace, kind: Kind, keys: Keys, readers: "Readers", altered: AlteredKeys
) -> Losses:
    """Return which of the ops that a pass lacks are lost records."""
    classes = _Classes(trace, kind, keys)
    expected, n_fewer, n_more = _expected(kind, classes)
    lacks, cuts = _lacks(kind, expected)
    n_altered = altered.explain(kind, lacks) if lacks.any() else 0
    result, rate, n_cut = Losses(*np.zeros((3, 0), np.int64)), 0.0, 0
    if cuts or lacks.any():
        may_have_fewer = n_fewer > 0
        result, rate, n_cut = _lost_records(
            trace, kind, classes, readers, expected, may_have_fewer, lacks, cuts
        )
    result.n_altered = n_altered
    result.n_ops = int(expected.sum()) if _is_regular(kind, expected) else 0
    n_passes = int(kind.weight.sum())
    # A graph shows ops that no pass has better than other layers do.
    has_graph = any(join.n_nodes for join in trace.joins)
    if n_passes <= _FEW and not has_graph:
        of_unknown_op = altered.names_of_unknown(kind)
        _of_layers(kind, classes, readers, result, rate, of_unknown_op)
    result.n_more = int(n_more.sum()) * n_passes + n_cut
    _add_unseen(kind, expected, result)
    return result


def _lost_records(
    trace: Trace,
    kind: Kind,
    classes: "_Classes",
    readers: "Readers",
    expected: I64,
    may_have_fewer: Bools,
    lacks: I64,
    cuts: list[I64],
) -> tuple[Losses, float, int]:
    """Return the losses among what passes lack, their rate, and records at cut ends.

    Parameters
    ----------
    may_have_fewer : bool[k], keys of which a pass may hold fewer than expected.
    lacks, cuts : see `_lacks`.
    """
    weight = kind.weight
    pass_id, key = np.nonzero(lacks)
    count = lacks[pass_id, key]
    # What is computed twice under one name may be read although one is missing.
    is_read = _is_read(kind, pass_id, key, readers) & (expected[key] == 1)
    is_kin = classes.have(pass_id, key, expected)
    varies = _varying(lacks, weight, expected)
    # An op that a pass has in no layer is no op of that graph, unless it is read.
    is_none = ~is_read & classes.are_gone(pass_id, key)
    has_evidence = (is_read | is_kin) & ~varies[key]
    odd = _odd(len(weight), weight, has_evidence, pass_id)
    by_chance = (
        ~varies[key] & ~odd[pass_id] & _are_many(trace, kind)[pass_id] & ~is_none
    )
    lost = has_evidence | by_chance
    times = weight[pass_id] * count
    # The share that is lost for sure says how many of the others chance would take.
    n_cells = int((weight[:, None] * expected[None, :]).sum())
    rate = int(times[lost].sum()) / max(n_cells, 1)
    rest = ~lost & ~varies[key] & ~is_none
    doubtful = lost & ~has_evidence & may_have_fewer[key]
    if _is_chance(int(times[rest].sum()), rate * max(n_cells - len(times), 0)):
        lost |= rest
        doubtful |= rest
    # A recording may begin or end at any op; where chance takes more of them than that,
    # it is believed to have taken the first or last ones too.
    lost_ends, n_cut = [], 0
    for cut in cuts:
        odds = rate ** len(cut) * int(np.count_nonzero(expected))
        if odds > 1:
            lost_ends.append(cut)
        elif odds >= _DOUBT:
            n_cut += int(cut[:, 2].sum())
    ends = np.concatenate([*lost_ends, np.zeros((0, 3), np.int64)])
    result = Losses(
        np.append(pass_id[lost], ends[:, 0]),
        np.append(key[lost], ends[:, 1]),
        np.append(count[lost], ends[:, 2]),
    )
    n_ends = int((weight[ends[:, 0]] * ends[:, 2]).sum())
    result.n_fewer = int(times[doubtful].sum()) + n_ends
    result.n_read = int(times[lost & is_read].sum())
    result.n_alike = int(times[lost].sum()) - result.n_read + n_ends
    left_out = np.zeros(len(kind.keys), np.bool_)
    left_out[key[~lost]] = True
    result.n_varying = int(np.count_nonzero(left_out))
    return result, rate, n_cut


def _add_unseen(kind: Kind, expected: I64, result: Losses) -> None:
    """Add what may be missing of every pass, and leaves no trace.

    Where so many are missing, chance takes some ops from all of few passes.
    """
    n_passes, n_ops = int(kind.weight.sum()), int(expected.sum())
    n_missing = result.n_read + result.n_alike + result.n_layers
    rate = n_missing / max(n_ops * n_passes, 1)
    if not 0 < rate < 1:
        return
    mean = n_ops * rate**n_passes / (1 - rate**n_passes)
    n_ops_gone, chance = 0, np.exp(-mean)
    while chance < 1 - _DOUBT:
        n_ops_gone += 1
        chance += np.exp(-mean + n_ops_gone * np.log(mean) - lgamma(n_ops_gone + 1))
    result.n_more += max(n_ops_gone * n_passes - result.n_layers, 0)


def _is_regular(kind: Kind, expected: I64) -> bool:
    """Return whether numbers say anything: most ops are one of a name, or steady.

    Ops that bear few names between them, in ever other numbers, follow no rule.
    """
    n_ops = int(expected.sum())
    if not n_ops or int((expected == 1).sum()) >= _ONE_OF_A_NAME * n_ops:
        return n_ops > 0
    many = np.flatnonzero(expected > 1)
    steady = (kind.table[:, many] == expected[many]).mean(axis=1)
    return float(np.average(steady, weights=kind.weight)) >= COVERED


def _is_chance(n: int, mean: float) -> bool:
    """Return whether chance may well take so many where `mean` are to be expected."""
    return n <= mean + 2 * float(np.sqrt(mean))


def _are_layers(trace: Trace, runs: Runs, kind: Kind, *, by_access: bool) -> bool:
    """Return whether the passes of a kind are layers of one pass, by what they claim.

    Records without names whose addresses come again in every layer are alike layer
    by layer. A pass claims nearly all layers that passes like it claim.
    """
    layer = trace.spans.layer
    if layer is None:
        return False
    rows = kind.rows
    whole = np.flatnonzero(rows.length >= ALIKE * np.median(rows.length))
    picks = np.linspace(0, len(whole) - 1, min(len(whole), _MAX_SAMPLED))
    claims: list[set[int]] = []
    for pass_id in whole[picks.astype(np.int64)].tolist():
        ids = spans_of(trace, runs, int(rows.run[pass_id]), by_access=by_access)
        begin = int(rows.begin[pass_id])
        pass_layers = layer[ids[begin : begin + int(rows.length[pass_id])]]
        claims.append(set(pass_layers[pass_layers >= 0].tolist()))
    n_layers = len(set().union(*claims))
    return n_layers > 1 and 2 * sum(map(len, claims)) <= n_layers * len(claims)


def _are_many(trace: Trace, kind: Kind) -> Bools:
    """Return of which passes so many are alike, in one phase, that chance can speak."""
    phase = trace.spans.phase
    n = len(kind.rows)
    if phase is None:
        return np.full(n, int(kind.weight.sum()) >= _FEW)
    of = kind.phase.astype(np.int64) + 1
    per_phase = np.bincount(of, kind.weight, minlength=4)
    return np.asarray(per_phase[of] >= _FEW)


class LayerSets:
    """The layers that ops are in, and those that they are expected in.

    Parameters
    ----------
    members : layers of each op, by (name without its layer, op).
    layers : of all ops.
    """

    def __init__(
        self, members: Mapping[tuple[str, int], Iterable[int]], layers: set[int]
    ) -> None:
        self._members, self._layers = members, layers
        own = sorted(set().union(*members.values()))
        self._places = {layer: place for place, layer in enumerate(own)}

    def expected(self, named: tuple[str, int]) -> set[int]:
        """Return the layers that such an op is expected in; none where none are."""
        own = set(self._members[named])
        if len(own) < _FEW:
            return set()
        if len(own) >= _OF_LAYERS * len(self._layers):
            return self._layers
        # The most of those that are in nearly the same layers.
        n_expected, likest = 0, own
        bits = self._bits(own)
        for other, layers in self.usual.items():
            n_both = (bits | other).bit_count()
            if (
                n_both > n_expected
                and (bits & other).bit_count() >= _OF_LAYERS * n_both
            ):
                n_expected, likest = n_both, layers
        return own | likest

    @cached_property
    def usual(self) -> dict[int, set[int]]:
        """The different sets of layers by their bits: the most common of very many."""
        often = Counter(map(self._bits, self._members.values()))
        usual = {bits for bits, _ in often.most_common(_MAX_SETS)}
        sets = ((self._bits(of), set(of)) for of in self._members.values())
        return {bits: layers for bits, layers in sets if bits in usual}

    def _bits(self, layers: Iterable[int]) -> int:
        """Return a set of layers as bits; a name may give any number of digits."""
        return sum(1 << self._places[layer] for layer in layers)


class _Classes:
    """Ops that differ by their layer only.

    Attributes
    ----------
    layers : different layers of all ops, once `members` are made.
    """

    def __init__(self, trace: Trace, kind: Kind, keys: Keys) -> None:
        self._trace, self._kind, self._keys = trace, kind, keys
        self._class_of: dict[int, tuple[str, int]] = {}
        self.layers: set[int] = set()

    @cached_property
    def members(self) -> dict[tuple[str, int], dict[int, int]]:
        """Columns of a kind by (name without its layer, op), and by layer.

        Made where some pass lacks an op, or passes are few.
        """
        members: dict[tuple[str, int], dict[int, int]] = {}
        names = self._keys.texts(self._trace, self._kind.keys)
        shapes, which = shapes_of(names)
        ops = self._keys.op[self._kind.keys].tolist()
        for column, (name, op) in enumerate(zip(names, ops, strict=True)):
            begin, end = shapes[which[column]].layer
            if end <= begin:
                continue
            layer = int(name[begin:end])
            self.layers.add(layer)
            # A cut name may have lost letters behind longer numbers of layers.
            shared = (f"{name[:begin]}\0{name[end:]}", op)
            members.setdefault(shared, {})[layer] = column
            self._class_of[column] = shared
        return members

    @cached_property
    def sets(self) -> "LayerSets":
        """The layers of each class."""
        layers = {shared: set(of) for shared, of in self.members.items()}
        return LayerSets(layers, self.layers)

    def expected(self, named: tuple[str, int]) -> set[int]:
        """Return the layers that such an op is expected in; none where none are."""
        return self.sets.expected(named)

    def have(self, pass_id: I64, key: I64, expected: I64) -> Bools:
        """Return whether most other layers have, in the same pass, what one lacks."""
        return self._share(pass_id, key, expected) >= ALIKE

    def are_gone(self, pass_id: I64, key: I64) -> Bools:
        """Return whether hardly any layer has, in the same pass, what one lacks."""
        share = self._share(pass_id, key, np.ones(len(self._kind.keys), np.int64))
        return (share >= 0) & (share < 1 - _OF_LAYERS)

    def _share(self, pass_id: I64, key: I64, expected: I64) -> npt.NDArray[np.float64]:
        """Return the share of other layers that have it; -1 where there are few."""
        result = np.full(len(pass_id), -1.0)
        members = self.members
        for column in distinct(key).tolist():
            shared = self._class_of.get(column)
            if shared is None or len(members[shared]) < _FEW:
                continue
            kin = np.array(list(members[shared].values()), np.int64)
            part = np.flatnonzero(key == column)
            there = self._kind.table[np.ix_(pass_id[part], kin)] >= expected[kin]
            result[part] = there.sum(axis=1) / (len(kin) - 1)
        return result


def _is_read(kind: Kind, pass_id: I64, key: I64, readers: "Readers") -> Bools:
    """Return whether a record of the same pass reads what a missing one computes."""
    result = np.zeros(len(pass_id), np.bool_)
    column = np.full(int(kind.keys.max()) + 1, -1, np.int64)
    column[kind.keys] = np.arange(len(kind.keys))
    for part in alike(key):
        of = readers.of(int(kind.keys[key[part[0]]]))
        of = of[of < len(column)]
        of = column[of]
        of = of[of >= 0]
        if len(of):
            result[part] = (kind.table[np.ix_(pass_id[part], of)] > 0).any(axis=1)
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


def _odd(n: int, weight: I64, has_evidence: Bools, pass_id: I64) -> Bools:
    """Return which passes lack ops together that nothing shows: other graphs."""
    per_pass = np.bincount(pass_id[~has_evidence], minlength=n).astype(np.int64)
    others = np.bincount(pass_id[has_evidence], minlength=n)
    n_all = max(int(weight.sum()), 1)
    mean = np.full(n, float((per_pass * weight).sum()) / n_all)
    chance = _tail(mean, per_pass) * n_all
    # A gap in the recording takes what is stated of and what is not.
    return np.asarray((per_pass >= 2) & (chance < _ODD) & (others == 0))


class Readers:
    """Which ops read what which other op computes, by names.

    Parameters
    ----------
    spans : returns a span of each key, int64[n_keys].
    """

    def __init__(self, trace: Trace, keys: Keys, spans: Callable[[], I64]) -> None:
        self._trace, self._keys, self._spans = trace, keys, spans

    @cached_property
    def by_base(self) -> dict[str, I64]:
        """The keys of the ops that read each tensor, by its name without suffixes."""
        trace = self._trace
        if self._keys.of_tensor or not len(trace.accesses.first) - 1:
            return {}
        keys_by_base: dict[str, set[int]] = {}
        for key, span in enumerate(self._spans().tolist()):
            for tensor in trace.accesses.of_span(span).tensor.tolist():
                if tensor >= 0:
                    name = trace.strings[int(trace.tensors.name[tensor])]
                    keys_by_base.setdefault(normalise(name), set()).add(key)
        return {n: np.array(sorted(k), np.int64) for n, k in keys_by_base.items()}

    def of(self, key: int) -> I64:
        """Return the keys of the ops that read what `key` computes, but itself."""
        base = normalise(self._keys.texts(self._trace, np.array([key]))[0])
        readers = self.by_base.get(base) if base else None
        return np.zeros(0, np.int64) if readers is None else readers[readers != key]


def _of_layers(
    kind: Kind,
    classes: _Classes,
    readers: Readers,
    result: Losses,
    rate: float,
    of_unknown_op: set[str],
) -> None:
    """Add ops that no pass has, but nearly all other layers.

    Where a record reads what they compute, or no more lack than chance would take; the
    latter too for ops of nearly the same layers as another op, as what is quantised
    alike is. Names `of_unknown_op` have a record with an unknown op.
    """
    unread: list[tuple[str, int]] = []
    n_cells = 0
    n_passes = int(kind.weight.sum())
    for (shape, op), of in classes.members.items():
        layers = classes.expected((shape, op))
        if not layers:
            continue
        n_cells += len(layers)
        for layer in sorted(layers - set(of)):
            name = shape.replace("\0", str(layer))
            if name in of_unknown_op:
                continue
            column = of[min(of, key=lambda known: abs(known - layer))]
            reading = readers.by_base.get(normalise(name))
            at = np.flatnonzero(np.isin(kind.keys, [] if reading is None else reading))
            # In some layers only, something else may compute what is read.
            if layers != classes.layers or not kind.table[:, at].any():
                unread.append((name, column))
                continue
            # Passes that are alike compute what one of them reads.
            result.extra += [(p, name, column) for p in range(len(kind.rows))]
            result.n_layers += n_passes
    if _is_chance(len(unread), n_cells * rate**n_passes):
        result.extra += [(p, *one) for one in unread for p in range(len(kind.rows))]
        result.n_layers += len(unread) * n_passes


MAX_PLACES = 200
"""So many missing records are listed one by one; all are counted."""
_FEWEST_OPS = 3
_FITS = 0.9
"""So many ops are found in a graph that says what passes hold."""
_AT_ENDS = 5
"""From so many unpaired events at the ends on, the recording stopped amid ops."""
LISTS_CODE = "choices_missing"
"""Code of the problem by which a reader counts missing lists of experts."""
_TWO_EVENTS = "ggmlviz"
"""Its records are begins and ends; all others are whole ops."""
_PARTLY_READ = {*RANGE_CODES, "names_left_out", "stopped"}


@dataclass(frozen=True, slots=True)
class Gap:
    """A place at which a record is missing.

    Attributes
    ----------
    name, op : of the missing record.
    after, before : spans between which it belongs; -1 = none; both -1: every pass
        lacks it, as the graph shows.
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
    n_fewer, n_more : so many less and more may be missing; what leaves no trace where
        much is lost.
    n_unseen : ops of graphs that no pass records, as if the tracer could not see them.
    n_passes : passes that are alike, one per thread where each records every op.
    n_varying : ops that come and go from pass to pass, and are left out.
    rests_on : what the expected number of records is based on, as texts.
    gaps : the first `MAX_PLACES` of the missing ones, in the order of time.
    tokens : token numbers that are skipped, also where nothing else is known;
        `n_token_records` of the missing records are theirs.
    n_altered : records that are there, under another op or name than in other passes;
        altered : the spans of up to `MAX_PLACES` of them.
    n_lists : missing records that list choices of experts; in no other number.
    n_expected : records that were to be expected.
    share : of the expected records, those that are there; None where it is not known.
    """

    is_known: bool
    why: str = ""
    n_there: int = 0
    n_missing: int = 0
    n_fewer: int = 0
    n_more: int = 0
    n_passes: int = 0
    n_varying: int = 0
    rests_on: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    n_unseen: int = 0
    tokens: SkippedTokens = NO_SKIPS
    n_token_records: int = 0
    n_altered: int = 0
    altered: tuple[int, ...] = ()
    n_lists: int = 0
    n_expected: int = field(init=False)
    share: float | None = field(init=False)

    def __post_init__(self) -> None:
        n = self.n_there + self.n_missing
        object.__setattr__(self, "n_expected", n)
        share = self.n_there / n if self.is_known and n else None
        object.__setattr__(self, "share", share)


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
    may have begun or ended inside a pass. Where the tracer itself counts, nothing is
    compared.
    """
    n_lists = sum(w.count for w in trace.warnings if w.code == LISTS_CODE)
    return replace(_of_ops(trace, watcher), n_lists=n_lists)


def _of_ops(trace: Trace, watcher: Watcher | None) -> Completeness:
    """Return how many of the records of ops that were to be expected are there."""
    why = _why_not(trace)
    count = trace.record_count
    if count is not None and not why:
        return Completeness(
            True, n_there=count.n_there, n_missing=count.n_lost, rests_on=(COUNTED,)
        )
    tokens = skipped_tokens(trace)
    if why:
        return Completeness(False, why, tokens=tokens)
    return _with_tokens(trace, _of_passes(trace, watcher), tokens)


def _of_passes(trace: Trace, watcher: Watcher | None) -> Completeness:
    """Return what passes, layers and graphs say of a trace that records ops."""
    runs = runs_of(trace)
    by_access = trace.claims is not None and not trace.claims.has_results
    leaders, weight = distinct_runs(trace, runs, watcher, by_access=by_access)
    leaders, weight, every = sampled_runs(runs, leaders, weight)
    rows, keys = sequences(trace, runs, leaders.tolist(), weight, by_access=by_access)
    if not len(rows.key):
        return Completeness(False, "the trace has no ops")
    rows = rows.part(rows.length > 0)
    # Few passes need it: what differs, or has a damaged name.
    spans = cache(partial(_spans_of_keys, trace, rows, runs, by_access=by_access))
    readers = Readers(trace, keys, spans)
    altered_keys = AlteredKeys(trace, keys, spans)
    rows = rows.cut(_begins_of_graphs(rows, keys))
    n_passes_before = _n_recorded_passes(rows)
    rows = without_repeats(rows, len(keys.op))
    altered: dict[int, int] = {}
    result = _Sum(trace, runs, keys, by_access=by_access, every=every)
    for kind in kinds(rows, len(keys.op), watcher):
        if not kind.table.all():  # an altered record leaves its own key missing
            altered.update(altered_keys.of(kind))
        result.add(kind, losses(trace, kind, keys, readers, altered_keys))
    if altered:
        at = np.flatnonzero(np.isin(rows.key, list(altered)))
        result = _Sum(trace, runs, keys, by_access=by_access, every=every)
        result.altered = _spans_at(trace, rows, runs, at, by_access=by_access)
        pass_id = np.searchsorted(rows.first, at, "right") - 1
        result.n_altered = int(rows.weight[pass_id].sum())
        rows = replaced(rows, altered)
        for kind in kinds(rows, len(keys.op), watcher):
            result.add(kind, losses(trace, kind, keys, readers, altered_keys))
    n_rows = int((rows.length * rows.weight).sum())
    if (
        by_access
        and not _has_names(trace)
        and result.n_passes > REPEATS * n_passes_before
    ):
        return Completeness(False, _NOT_APART)
    return _with_graphs(trace, result.finished(n_rows, _n_recorded_passes(rows)))


def _has_names(trace: Trace) -> bool:
    """Return whether records name what they read; an address may be many tensors."""
    return trace.claims is not None and bool((trace.claims.name >= 0).any())


def _n_recorded_passes(rows: PassRows) -> int:
    """Return how many passes the trace records, by all threads.

    A thread that shows no graphs has as many as the one that does.
    """
    of_run = np.bincount(rows.run, rows.weight)
    by_thread = int(of_run.max(initial=0)) * int(np.count_nonzero(of_run))
    return max(int(rows.weight.sum()), by_thread)


def _begins_of_graphs(rows: PassRows, keys: Keys) -> I64:
    """Return the rows at which a graph begins that the trace shows as a span.

    Where one thread of several shows them, its ops are cut off from them: else they
    would be unlike the same ops of the others.
    """
    is_graph = keys.op[rows.key] < 0
    after_graph = np.append(False, is_graph[:-1])
    begins = is_graph & ~after_graph
    shown = np.logical_or.reduceat(is_graph, rows.first[:-1])
    if shown.any() and not shown.all():
        begins |= ~is_graph & after_graph
    return np.flatnonzero(begins)


def _spans_of_keys(trace: Trace, rows: PassRows, runs: Runs, *, by_access: bool) -> I64:
    """Return the first span of each key, int64[n_keys]."""
    at = first_places(rows.key)[1]
    return _spans_at(trace, rows, runs, at, by_access=by_access)


def _spans_at(
    trace: Trace, rows: PassRows, runs: Runs, at: I64, *, by_access: bool
) -> I64:
    """Return the spans of some rows, int64[len(at)]."""
    pass_id = np.searchsorted(rows.first, at, "right") - 1
    spans = np.full(len(at), -1, np.int64)
    for some in alike(pass_id):
        number = int(pass_id[some[0]])
        ids = spans_of(trace, runs, int(rows.run[number]), by_access=by_access)
        spans[some] = ids[at[some] - rows.first[number] + rows.begin[number]]
    return spans


def _with_tokens(
    trace: Trace, completeness: Completeness, tokens: SkippedTokens
) -> Completeness:
    """Return the result with the records of tokens whose numbers are skipped."""
    if not tokens.gaps or not completeness.is_known:
        return replace(completeness, tokens=tokens)
    # Those before the gaps show how many records a token has.
    usual = int(np.median([_n_records(trace, gap) for gap in tokens.gaps[:_SOME]]))
    n_records = tokens.n_tokens * usual
    return replace(
        completeness,
        n_missing=completeness.n_missing + n_records,
        n_token_records=n_records,
        tokens=tokens,
        rests_on=(*completeness.rests_on, "token numbers"),
    )


def _n_records(trace: Trace, gap: TokenGap) -> int:
    """Return the number of records of the token before a gap."""
    spans, accesses = trace.spans, trace.accesses
    assert spans.token is not None
    by_access = trace.claims is not None and not trace.claims.has_results
    per_pattern = np.append(np.diff(accesses.first), 0)
    n = 0
    for rows in chunks(len(spans)):
        chosen = (spans.token[rows] == gap.first - 1) & (spans.op[rows] >= 0)
        if gap.phase >= 0 and spans.phase is not None:
            chosen &= spans.phase[rows] == gap.phase
        pattern = accesses.pattern[rows][chosen]
        n += int(per_pattern[pattern].sum()) if by_access else len(pattern)
    return n


def _with_graphs(trace: Trace, completeness: Completeness) -> Completeness:
    """Return the result with what the graphs of the trace say that passes hold."""
    fits = [join for join in trace.joins if join.n_nodes and join.n_all]
    if not any(join.n_found >= _FITS * join.n_all for join in fits):
        return completeness
    # What compares a graph with a trace is imported for those that have both.
    from ggscope.analysis.reads.unrecorded import lost_nodes

    lost_rows = lost_nodes(trace)
    n_lost = len(lost_rows)
    if completeness.is_known:
        lost_rows = lost_rows[_are_unnamed(trace, lost_rows)]
    n_graphs = max(len({locate_node(trace.graphs, int(n))[0] for n in lost_rows}), 1)
    n_passes = max(completeness.n_passes or trace.info.n_passes, 1)
    events = 2 if trace.info.reader_id == _TWO_EVENTS else 1
    n_missing = len(lost_rows) * max(n_passes // n_graphs, 1) * events
    gaps = []
    for node in lost_rows[: MAX_PLACES - len(completeness.gaps)].tolist():
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        name, op = trace.strings[int(graph.name[row])], trace.op_name(graph.op[row])
        gaps.append(Gap(name or op, op, -1, -1, trace.extent.start))
    n_there = completeness.n_there
    if not completeness.is_known:
        n_there = int(np.count_nonzero(trace.spans.op >= 0)) * events
    return replace(
        completeness,
        is_known=True,
        why="",
        n_there=n_there,
        n_missing=completeness.n_missing + n_missing,
        n_passes=n_passes,
        rests_on=(
            *completeness.rests_on,
            "the graph" if len(trace.graphs) == 1 else "the graphs",
        ),
        gaps=(*completeness.gaps, *gaps),
        n_unseen=sum(len(join.unrecorded_nodes) for join in trace.joins) - n_lost,
    )


def _are_unnamed(trace: Trace, nodes: I64) -> Bools:
    """Return which nodes no span is called like: what passes say counts the others."""
    result = np.ones(len(nodes), np.bool_)
    for i, node in enumerate(nodes.tolist()):
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        same = trace.spans.name == graph.name[row]
        result[i] = not bool((trace.spans.op[same] == graph.op[row]).any())
    return result


def _is_of_program(trace: Trace) -> bool:
    """Return whether ops are names of any program, with nothing about a model."""
    spans = trace.spans
    knows = spans.layer, spans.token, spans.tensor
    is_known = bool(trace.graphs) or any(c is not None for c in knows)
    ops = trace.ops
    return ops is not None and ops.id in _OF_PROGRAMS and not is_known


def _why_not(trace: Trace) -> str:
    """Return why completeness of a trace cannot be estimated; "" where it can."""
    if trace.pending:
        return "the trace is still being read"
    if int(trace.spans.op.max(initial=-1)) < 0:
        return "the trace has no ops"
    lane_kinds = set(trace.lanes.kinds.tolist())
    if LaneKind.STACKS in lane_kinds:
        return "samples of a profile follow no graph of the trace"
    if trace.spans.category is not None or _is_of_program(trace):
        return "calls and events of programs follow no graph of the trace"
    if LaneKind.IO in lane_kinds:
        return "requests to storage follow no graph of the trace"
    if LaneKind.ENGINE in lane_kinds:
        return "engines follow no graph of the trace"
    if any(w.code in _PARTLY_READ for w in trace.warnings):
        return "only part of the file was read"
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A missing record: pass number, pass id, column, name."""

    number: int
    kind: Kind
    pass_id: int
    column: int
    name: str


class _Sum:
    """Adds up what kinds of passes show."""

    def __init__(
        self, trace: Trace, runs: Runs, keys: Keys, *, by_access: bool, every: int
    ) -> None:
        self._every = every
        self._trace, self._runs, self._keys = trace, runs, keys
        self._by_access = by_access
        self._gaps: list[_Noted] = []
        self.n_altered, self.altered = 0, np.zeros(0, np.int64)
        self._n_covered = self._n_missing = self.n_passes = self._n_varying = 0
        self._n_read = self._n_layers = self._n_fewer = self._n_more = 0
        self._has_layers_alike = False

    def add(self, kind: Kind, losses: Losses) -> None:
        """Add one kind of passes; a single one shows nothing."""
        weight = kind.weight
        n_passes = int(weight.sum())
        n_there = int((kind.rows.length * weight).sum())
        n_missing = losses.n_read + losses.n_alike + losses.n_layers
        if n_passes < 2 or n_missing > MAX_MISSING * (n_there + n_missing):
            return
        if losses.n_ops < _FEWEST_OPS:
            return  # spans that only bear one name say nothing of each other
        if _are_layers(self._trace, self._runs, kind, by_access=self._by_access):
            self._has_layers_alike = True
            return
        self._n_covered += n_there
        self._n_missing += n_missing
        self.n_passes += n_passes
        self._n_varying += losses.n_varying
        self._n_read += losses.n_read
        self._n_layers += losses.n_layers
        self._n_fewer += losses.n_fewer
        self._n_more += losses.n_more
        self.n_altered += losses.n_altered
        number = self._runs.number[kind.rows.run[losses.pass_id]]
        for i in np.argsort(number, kind="stable")[:MAX_PLACES].tolist():
            pass_id, column = int(losses.pass_id[i]), int(losses.key[i])
            (name,) = self._keys.texts(self._trace, kind.keys[[column]])
            noted = _Noted(int(number[i]), kind, pass_id, column, name)
            self._gaps += [noted] * int(losses.count[i])
        for pass_id, name, column in losses.extra[:MAX_PLACES]:
            when = int(self._runs.number[kind.rows.run[pass_id]])
            self._gaps.append(_Noted(when, kind, pass_id, column, name))

    def finished(self, n_rows: int, n_passes: int) -> Completeness:
        """Return the result for `n_rows` records in `n_passes` passes of the trace.

        Where far more passes were found than that, their order follows no rule.
        """
        is_covered = self._n_covered >= COVERED * n_rows and self.n_passes > 0
        if not is_covered and self._has_layers_alike:
            return Completeness(False, _NOT_APART)
        if not is_covered or self.n_passes > REPEATS * n_passes + 2:
            return Completeness(False, "its passes differ")
        n_there, n_missing = n_rows, self._n_missing
        noted = sorted(self._gaps, key=lambda one: one.number)[:MAX_PLACES]
        gaps = sorted(map(self._gap, noted), key=lambda gap: gap.time)
        n_fewer, n_more = self._n_fewer, self._n_more
        if self._trace.info.reader_id == _TWO_EVENTS:
            n_there, n_missing, at_ends = _events(self._trace, n_missing)
            n_fewer, n_more = 2 * n_fewer, 2 * n_more + at_ends
        lanes = np.count_nonzero(self._runs.of_lane >= 0)
        apart = " by thread" if len(self._runs.stretches) > 1 and lanes > 1 else ""
        rests = [f"{self.n_passes:,} comparable passes{apart}"]
        if self._n_read:
            rests.append("reads by later records")
        if self._every > 1:
            rests[0] += f" (one in {self._every} of those that differ)"
        if self._n_layers:
            rests.append("comparable layers")
        return Completeness(
            True,
            "",
            n_there,
            n_missing,
            min(n_fewer, n_missing),
            n_more,
            self.n_passes,
            self._n_varying,
            tuple(rests),
            tuple(gaps),
            n_altered=self.n_altered,
            altered=tuple(np.sort(self.altered)[:MAX_PLACES].tolist()),
        )

    def _gap(self, noted: "_Noted") -> Gap:
        """Return where a record is missing."""
        kind, pass_id, column, name = (
            noted.kind,
            noted.pass_id,
            noted.column,
            noted.name,
        )
        rows, trace = kind.rows, self._trace
        low, high = int(rows.first[pass_id]), int(rows.first[pass_id + 1])
        ids = spans_of(
            trace, self._runs, int(rows.run[pass_id]), by_access=self._by_access
        )
        begin = int(rows.begin[pass_id])
        ids = ids[begin : begin + high - low]
        place = np.zeros(int(kind.keys.max()) + 1)
        place[kind.keys] = kind.order
        at = int(np.count_nonzero(place[rows.key[low:high]] < kind.order[column]))
        after = int(ids[at - 1]) if at else -1
        before = int(ids[at]) if at < len(ids) else -1
        time = int(trace.spans.start[after if after >= 0 else before])
        op = trace.op_name(int(self._keys.op[kind.keys[column]]))
        return Gap(name or op, op, after, before, time)


def _events(trace: Trace, n_missing: int) -> tuple[int, int, int]:
    """Return the events that are there and that are missing, where ops are two each.

    And those that are missing at the ends, where the recording may have begun later or
    ended earlier; 0 where they are too many for chance.

    Parameters
    ----------
    n_missing : ops and graphs without a begin; the ends of some are there.
    """
    spans = trace.spans
    unfinished = quality_of(spans.flags) == Quality.UNFINISHED
    names = {trace.strings.find(text) for text in ("OP_END", "GRAPH_END")} - {-1}
    stray = np.isin(trace.markers.name, sorted(names)) if names else np.zeros(0, bool)
    n_there = 2 * len(spans) - int(unfinished.sum()) + int(stray.sum())
    # The last graph, and the ops of a lane behind the last one that ended, may have
    # been cut off where the recording ends.
    graphs = np.flatnonzero(spans.op < 0)
    last = graphs[np.argmax(spans.start[graphs])] if len(graphs) else -1
    until = np.full(len(trace.lanes.kinds), spans.start.min(), np.int64)
    ended = ~unfinished & (spans.op >= 0)
    np.maximum.at(until, spans.lane[ended], spans.start[ended])
    is_open = unfinished & ((spans.op < 0) | (spans.start < until[spans.lane]))
    if last >= 0 and unfinished[last]:
        is_open[last] = False
    n_open = int(is_open.sum())
    begin = int(spans.start.min())
    n_stray = int((trace.markers.time[stray] > begin).sum()) if stray.any() else 0
    n_lost = max(2 * n_missing - n_stray, n_stray) + n_open
    at_ends = int(unfinished.sum()) - n_open + int(stray.sum()) - n_stray
    return n_there, n_lost, at_ends if n_lost and at_ends < _AT_ENDS else 0
