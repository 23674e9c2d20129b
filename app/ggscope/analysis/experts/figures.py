"""Figures about experts: utilisation, entropy, overlap, transitions, scores, cover.

And what a picture of experts shows: one matrix of counts, and one thing beside it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ggscope.analysis.experts.experts import (
    Choices,
    ExpertGrid,
    expert_choices,
    expert_grid,
)
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64, places_among, ranges
from ggscope.model.trace import Trace

F64 = npt.NDArray[np.float64]
_MAX_PAIRS = 1 << 22
"""Pairs that are made at a time: 32 MiB."""
SCORE_BINS = 50


@dataclass(frozen=True, slots=True, eq=False)
class ExpertFigures:
    """How evenly the experts of a grid of counts work.

    Attributes
    ----------
    n_active, n_slots : (layer, expert) pairs chosen at least once, and all.
    total : choices, or accesses.
    hottest : (row of the layer, expert) with the largest share of its layer's
        choices; None where nothing was chosen. The first of equals.
    hottest_ratio : its share against 1/E, that of an even choice; NaN without.
    entropy : float64[L], bits; NaN for a layer without choices.
    entropy_share : float64[L], entropy against log2 E, 0..1; NaN likewise and for
        one expert.
    n_open_layers : layers with choices that no list names. Of these the shares and
        the entropy are not known, and nothing of them is the hottest.
    n_open_slots : slots of these layers that no known choice is of: nobody knows
        whether they are active.
    """

    n_active: int
    n_slots: int
    total: int
    hottest: tuple[int, int] | None
    hottest_ratio: float
    entropy: F64
    entropy_share: F64
    n_open_layers: int = 0
    n_open_slots: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the slots that were chosen at least once; NaN without slots."""
        return self.n_active / self.n_slots if self.n_slots else math.nan


def expert_figures(count: I64, more: I64 | None = None) -> ExpertFigures:
    """Return the figures of counts by layer and expert, int64[L, E].

    Parameters
    ----------
    more : int64[L], as of `ExpertGrid`.
    """
    n_layers, n_experts = count.shape
    is_open = np.zeros(n_layers, np.bool_) if more is None else more != 0
    total = count.sum(axis=1)
    share = layer_shares(count, is_open)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(share > 0, -share * np.log2(share), 0.0)
    entropy = np.where((total > 0) & ~is_open, terms.sum(axis=1), np.nan)
    most_bits = math.log2(n_experts) if n_experts > 1 else math.nan
    hottest, best = None, math.nan
    if total[~is_open].any():
        at = int(np.nanargmax(share))
        hottest = divmod(at, n_experts)
        best = float(share.flat[at])
    return ExpertFigures(
        n_active=int(np.count_nonzero(count)),
        n_slots=n_layers * n_experts,
        total=int(total.sum()),
        hottest=hottest,
        hottest_ratio=best * n_experts,
        entropy=entropy,
        entropy_share=entropy / most_bits,
        n_open_layers=int(np.count_nonzero(is_open)),
        n_open_slots=int(np.count_nonzero(count[is_open] == 0)),
    )


def layer_shares(count: I64, is_open: npt.NDArray[np.bool_] | None = None) -> F64:
    """Return each count's share of its layer, float64[L, E]; NaN without choices.

    `is_open`, bool[L], marks layers whose choices are not all known: NaN too.
    """
    total = count.sum(axis=1, keepdims=True)
    share: F64 = np.full(count.shape, np.nan)
    np.divide(count, total, out=share, where=total > 0)
    if is_open is not None:
        share[is_open] = np.nan
    return share


@dataclass(frozen=True, slots=True, eq=False)
class ExpertSets:
    """The set of experts that each token chose in each layer.

    Sets are ordered by token, then layer, and hold their experts in order.

    Attributes
    ----------
    token : int64[s], row of ``Choices.tokens``; of a ubatch it may be that of several.
    layer : int64[s], row of ``Choices.layers``.
    first : int64[s + 1]; the experts of set i are ``expert[first[i] : first[i + 1]]``.
    expert : int64[m].
    before : int64[s], the set of the token before in the same layer; -1 where that is
        not known, see ``TokenOrder.before``, or chose nothing in that layer.
    is_whole : bool[s], whether the set holds all that the token chose in the layer.
    n_tokens : how many tokens have a set.
    """

    token: I64
    layer: I64
    first: I64
    expert: I64
    before: I64
    is_whole: npt.NDArray[np.bool_]
    n_tokens: int

    def __len__(self) -> int:
        return len(self.token)


def expert_sets(choices: Choices) -> ExpertSets:
    """Return the sets of experts that computed; rows without a token are left out."""
    n_layers, n_experts = max(len(choices.layers), 1), max(choices.n_experts, 1)
    order = choices.order
    keep = choices.is_used & (order.unit >= 0)
    key = order.unit[keep] * n_layers + choices.layer[keep]
    key = np.sort(key * n_experts + choices.expert[keep])
    key = key[np.append(True, key[1:] != key[:-1])[: len(key)]]
    group, expert = np.divmod(key, n_experts)
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
    group = group[starts]
    unit, layer = np.divmod(group, n_layers)
    token, previous = order.column[unit], order.before[unit]
    keys = previous * n_layers + layer
    first = np.append(starts, len(key)).astype(np.int64)
    open_layer, open_token, _ = choices.open_pairs()
    is_whole = ~np.isin(token * n_layers + layer, open_token * n_layers + open_layer)
    before = np.where(previous >= 0, places_among(group, keys), -1)
    return ExpertSets(
        token, layer, first, expert, before, is_whole, len(np.unique(unit))
    )


@dataclass(frozen=True, slots=True, eq=False)
class Overlap:
    """How much of a token's experts the token before it chose, too.

    It is ``|A and B| / |B|`` for B chosen by the token and A by the one before.

    Attributes
    ----------
    share : float64[L, T], the mean over the tokens of each number (ubatch); NaN where
        of none of them both are known, and in full.
    by_layer : float64[L], the mean over all tokens.
    mean : of all tokens and layers; NaN where nothing can be compared.
    """

    share: F64
    by_layer: F64
    mean: float


def overlap(choices: Choices, sets: ExpertSets) -> Overlap:
    """Return how much of a token's experts the token before it chose."""
    after = np.flatnonzero(sets.before >= 0)
    after = after[sets.is_whole[after] & sets.is_whole[sets.before[after]]]
    n_experts, size = max(choices.n_experts, 1), np.diff(sets.first)
    of_set = np.repeat(np.arange(len(sets)), size)
    key = of_set * n_experts + sets.expert
    keys = sets.before[of_set] * n_experts + sets.expert
    is_again = (sets.before[of_set] >= 0) & (places_among(key, keys) >= 0)
    n_again = np.bincount(of_set[is_again], minlength=len(sets))
    share = n_again[after] / size[after]
    shape = (len(choices.layers), len(choices.tokens))
    cell = sets.layer[after] * shape[1] + sets.token[after]
    return Overlap(
        _means(cell, share, shape[0] * shape[1]).reshape(shape),
        _means(sets.layer[after], share, shape[0]),
        float(share.mean()) if len(share) else math.nan,
    )


def _means(group: I64, values: F64, n: int) -> F64:
    """Return the mean of the values of each group; NaN without any."""
    count = np.bincount(group, minlength=n)
    total = np.bincount(group, values, minlength=n)
    means: F64 = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return means


def transitions(choices: Choices, sets: ExpertSets, layer: int | None = None) -> I64:
    """Return how often expert b of a token followed expert a, int64[E, E] as [a, b].

    Every pair of an expert of a token and one of the next token counts once.
    `layer` is a row of ``choices.layers``; None = all, each with itself.
    """
    after = np.flatnonzero(_in_layer(sets, layer) & (sets.before >= 0))
    return _pairs(sets, sets.before[after], after, choices.n_experts)


def coactivation(choices: Choices, sets: ExpertSets, layer: int | None = None) -> I64:
    """Return how often two experts worked for the same token, int64[E, E].

    Symmetric; the diagonal counts the tokens that chose an expert at all.
    """
    chosen = np.flatnonzero(_in_layer(sets, layer))
    return _pairs(sets, chosen, chosen, choices.n_experts)


def _in_layer(sets: ExpertSets, layer: int | None) -> npt.NDArray[np.bool_]:
    return sets.layer == layer if layer is not None else np.full(len(sets), True)


def _pairs(sets: ExpertSets, left: I64, right: I64, n_experts: int) -> I64:
    """Count pairs of an expert of ``left[i]`` and one of ``right[i]``."""
    total = np.zeros(n_experts * n_experts, np.int64)
    size = np.diff(sets.first)
    for part in _batches(size[left] * size[right]):
        a, b = left[part], right[part]
        n = size[a] * size[b]
        which = np.repeat(np.arange(len(a)), n)
        row, column = np.divmod(ranges(0, n), size[b][which])
        source = sets.expert[sets.first[a][which] + row]
        target = sets.expert[sets.first[b][which] + column]
        total += np.bincount(source * n_experts + target, minlength=len(total))
    return total.reshape(n_experts, n_experts)


def _batches(n_pairs: I64) -> Iterator[slice]:
    """Yield slices with about `_MAX_PAIRS` pairs each, and at least one set."""
    done = np.cumsum(n_pairs)
    begin = 0
    while begin < len(n_pairs):
        before = int(done[begin - 1]) if begin else 0
        stop = int(np.searchsorted(done, before + _MAX_PAIRS, "right"))
        stop = max(stop, begin + 1)
        yield slice(begin, stop)
        begin = stop


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram:
    """Router scores by rank.

    Attributes
    ----------
    count : int64[R, bins], row = rank; bins of equal width over 0..1. Scores below
        or above are in none.
    mean : float64[R], NaN for ranks without a score.
    """

    count: I64
    mean: F64


def score_histogram(
    choices: Choices, layer: int | None = None, bins: int = SCORE_BINS
) -> ScoreHistogram:
    """Return the scores of every listed expert, used or not, by rank.

    The bins are those of ``numpy.histogram(…, bins, (0, 1))``: the last one holds 1.
    """
    known = ~np.isnan(choices.score)
    if layer is not None:
        known &= choices.layer == layer
    ranked = known & (choices.rank >= 0)
    rank = choices.rank[ranked].astype(np.int64)
    score = choices.score[ranked].astype(np.float64)
    inside = (score >= 0) & (score <= 1)
    n_ranks = int(rank.max(initial=-1)) + 1
    edges = np.linspace(0, 1, bins + 1)
    column = np.minimum(np.searchsorted(edges, score[inside], "right") - 1, bins - 1)
    count = np.bincount(rank[inside] * bins + column, minlength=n_ranks * bins)
    n = np.bincount(rank[inside], minlength=n_ranks)
    total = np.bincount(rank[inside], score[inside], minlength=n_ranks)
    mean = np.divide(total, n, out=np.full(n_ranks, np.nan), where=n > 0)
    return ScoreHistogram(count.reshape(n_ranks, bins).astype(np.int64), mean)


def rank_split(choices: Choices, layer: int, expert: int, token: int | None) -> I64:
    """Return how often an expert had each rank, int64[R], of all its choices.

    `layer` and `token` are rows; `token` None = all. Choices without a rank, and
    those that did not compute, are left out.
    """
    keep = (choices.layer == layer) & (choices.expert == expert)
    keep &= choices.is_used & (choices.rank >= 0)
    if token is not None:
        keep &= choices.token == token
    return np.bincount(choices.rank[keep]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Cover:
    """The fewest experts of a layer that cover a share of its choices.

    Attributes
    ----------
    layer : number of the layer.
    experts : the hottest first; equals by number.
    count, total : choices that they cover, and all of the layer.
    bytes : size of their slices; -1 unknown.
    all_bytes : size of all slices of the layer; -1 unknown.
    """

    layer: int
    experts: tuple[int, ...]
    count: int
    total: int
    bytes: int
    all_bytes: int

    @property
    def share(self) -> float:
        """Share of the choices that is covered; NaN without choices."""
        return self.count / self.total if self.total else math.nan


def covers(choices: Choices, count: I64, share: float) -> tuple[Cover, ...]:
    """Return for each layer which experts to pin for `share` (0..1) of its choices.

    Parameters
    ----------
    count : int64[L, E], as of `expert_grid`.

    Raises
    ------
    ValueError
        If `share` is not within 0..1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share is within 0..1, not {share}")
    exact = Fraction(str(share))
    size = choices.slices.sizes(choices.layers, choices.n_experts)
    order = np.argsort(-count, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(count, order, axis=1), axis=1)
    result = []
    for row, layer in enumerate(choices.layers.tolist()):
        total = int(count[row].sum())
        needed = math.ceil(exact * total)
        n = int(np.searchsorted(reached[row], needed)) + 1 if needed else 0
        experts = order[row, :n]
        result.append(
            Cover(
                layer,
                tuple(experts.tolist()),
                int(reached[row, n - 1]) if n else 0,
                total,
                _whole(size[row, experts]),
                _whole(size[row]),
            )
        )
    return tuple(result)


def _whole(sizes: I64) -> int:
    """Return the sum, -1 where one of them is not known."""
    return -1 if (sizes < 0).any() else int(sizes.sum())


def hotness_curve(count: I64) -> F64:
    """Return which share of all choices the hottest slots take, float64[n + 1].

    ``[k]`` is the share of the k hottest of all n slots; NaN where nothing was chosen.
    """
    hottest = -np.sort(-count, axis=None)
    reached = np.concatenate([[0], np.cumsum(hottest)])
    total = int(reached[-1])
    return reached / total if total else np.full(len(reached), np.nan)


class Beside(Enum):
    """What is shown beside the counts.

    OVERLAP : how much of a token's experts the token before it chose.
    TRANSITION : which expert follows which from token to token.
    TOGETHER : which experts work for the same token.
    SCORES : router scores by rank.
    COVER : share of all choices that the hottest slots take.
    """

    OVERLAP = "overlap"
    TRANSITION = "transition"
    TOGETHER = "together"
    SCORES = "scores"
    COVER = "cover"


@dataclass(frozen=True, slots=True, eq=False)
class ExpertsBase:
    """What holds for every picture of a trace.

    Attributes
    ----------
    overlap : from each token to the next one of its sequence.
    """

    choices: Choices
    sets: ExpertSets
    overlap: Overlap


@dataclass(frozen=True, slots=True, eq=False)
class ExpertsResult:
    """The numbers of a picture.

    Attributes
    ----------
    token : row of ``choices.tokens``, None = all.
    layer : row of ``choices.layers`` that `beside` is about, None = all.
    grid, figures : of that token.
    matrix : float64, overlap [L, T], transitions or pairs [E, E].
    scores, curve : of SCORES and COVER.
    covers : per layer, for COVER: what to pin for `share` of that grid.
    """

    base: ExpertsBase
    token: int | None
    layer: int | None
    beside: Beside
    grid: ExpertGrid
    figures: ExpertFigures
    matrix: F64 | None = None
    scores: ScoreHistogram | None = None
    curve: F64 | None = None
    covers: tuple[Cover, ...] = ()
    share: float = 0.9


def experts_result(
    trace: Trace,
    base: ExpertsBase | None,
    token: int | None,
    layer: int | None,
    beside: Beside,
    share: float = 0.9,
    context: Watcher | None = None,
) -> ExpertsResult:
    """Return the numbers of a picture; `base` is that of an earlier one, where known.

    Raises Cancelled from the context.
    """
    base = base or experts_base(trace)
    if context is not None:  # a place to stop
        context.progress(1, 2)
    choices = base.choices
    grid = expert_grid(choices, token)
    matrix = scores = curve = None
    shown: tuple[Cover, ...] = ()
    if beside is Beside.OVERLAP:
        matrix = base.overlap.share
    elif beside is Beside.TRANSITION:
        matrix = transitions(choices, base.sets, layer).astype(np.float64)
    elif beside is Beside.TOGETHER:
        matrix = coactivation(choices, base.sets, layer).astype(np.float64)
        # That an expert works together with itself says nothing.
        np.fill_diagonal(matrix, np.nan)
    elif beside is Beside.SCORES:
        scores = score_histogram(choices, layer)
    else:
        curve = hotness_curve(grid.count)
        shown = covers(choices, grid.count, share)
    figures = expert_figures(grid.count, grid.more)
    return ExpertsResult(
        base, token, layer, beside, grid, figures, matrix, scores, curve, shown, share
    )


def experts_base(trace: Trace) -> ExpertsBase:
    """Return what holds for every picture of a trace."""
    choices = expert_choices(trace)
    sets = expert_sets(choices)
    return ExpertsBase(choices, sets, overlap(choices, sets))
