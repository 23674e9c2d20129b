"""What pictures of experts show: one matrix of counts, and one thing beside it."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ggscope.analysis.expert_figures import (
    F64,
    Cover,
    ExpertFigures,
    ExpertSets,
    ScoreHistogram,
    coactivation,
    covers,
    expert_figures,
    expert_sets,
    hotness_curve,
    overlap,
    score_histogram,
    transitions,
)
from ggscope.analysis.experts import Choices, ExpertGrid, expert_choices, expert_grid
from ggscope.analysis.workers import Watcher
from ggscope.model.trace import Trace


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
    overlap : float64[L, T]; `mean_overlap` is NaN where nothing can be compared.
    """

    choices: Choices
    sets: ExpertSets
    overlap: F64
    mean_overlap: float


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
    covers : per layer, for COVER: what to pin for `wanted` of that grid.
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
    wanted: float = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class ExpertsRequest:
    """Computes an `ExpertsResult`; `base` is that of an earlier one, where known."""

    trace: Trace
    base: ExpertsBase | None
    token: int | None
    layer: int | None
    beside: Beside
    wanted: float = 0.9

    def __call__(self, context: Watcher | None = None) -> ExpertsResult:
        """Return the numbers. Raises Cancelled from the context."""
        base = self.base or experts_base(self.trace)
        if context is not None:  # a place to stop
            context.progress(1, 2)
        choices = base.choices
        grid = expert_grid(choices, self.token)
        matrix = self._matrix(base)
        scores = curve = None
        found: tuple[Cover, ...] = ()
        if self.beside is Beside.SCORES:
            scores = score_histogram(choices, self.layer)
        elif self.beside is Beside.COVER:
            curve = hotness_curve(grid.count)
            found = covers(choices, grid.count, self.wanted)
        return ExpertsResult(
            base, self.token, self.layer, self.beside, grid,
            expert_figures(grid.count, grid.more), matrix, scores, curve, found,
            self.wanted,
        )  # fmt: skip

    def _matrix(self, base: ExpertsBase) -> F64 | None:
        if self.beside is Beside.OVERLAP:
            return base.overlap
        if self.beside is Beside.TRANSITION:
            counts = transitions(base.choices, base.sets, self.layer)
            return counts.astype(np.float64)
        if self.beside is Beside.TOGETHER:
            pairs = coactivation(base.choices, base.sets, self.layer).astype(np.float64)
            # That an expert works together with itself says nothing.
            np.fill_diagonal(pairs, np.nan)
            return pairs
        return None


def experts_base(trace: Trace) -> ExpertsBase:
    """Return what holds for every picture of a trace."""
    choices = expert_choices(trace)
    sets = expert_sets(choices)
    kept = overlap(choices, sets)
    known = kept[~np.isnan(kept)]
    mean = float(known.mean()) if len(known) else float("nan")
    return ExpertsBase(choices, sets, kept, mean)


__all__ = ["Beside", "ExpertsBase", "ExpertsRequest", "ExpertsResult", "experts_base"]
