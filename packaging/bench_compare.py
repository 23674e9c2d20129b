"""Whether figures are worse than the baseline, whatever machine measured either."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bench_figures import Figure

ALLOWED = 0.30
"""So much worse, as a share, is still no regression."""
SAME = 0.10
"""Machines that differ by less count as equally fast: that much is noise."""
MORE_TRIES = 2


@dataclass(frozen=True)
class Regression:
    """A figure that is worse than the baseline allows.

    Attributes
    ----------
    now, before : the figure, and the baseline's as this machine would have it.
    worse : share by which it is worse: 0.5 = takes half as long again.
    """

    figure: Figure
    now: float
    before: float
    worse: float

    def __str__(self) -> str:
        f = self.figure
        return (
            f"{f.key}: {self.now:.4g} {f.unit}, expected {self.before:.4g} "
            f"({self.worse:.0%} worse): {f.label}"
        )


def slowness(
    names: Iterable[str], now: Mapping[str, float], before: Mapping[str, float]
) -> float:
    """Return how many times slower this machine is than that of the baseline.

    The geometric mean over the named rates; those that either lacks are left out.
    """
    ratios = [
        before[name] / now[name]
        for name in names
        if now.get(name, 0) > 0 and before.get(name, 0) > 0
    ]
    if not ratios:
        return 1.0
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return 1.0 if abs(math.log(mean)) < math.log1p(SAME) else mean


def expected(figure: Figure, before: float, slower: float) -> float:
    """Return what the baseline's machine would measure, were it this one."""
    return before / slower if figure.more_is_better else before * slower


def worse_by(figure: Figure, now: float, before: float) -> float:
    """Return the share by which `now` is worse than `before`; <= 0 if it is not.

    For what counts per second it is the share by which each takes longer, so 60
    frames that become 40 are 50 % worse.
    """
    if abs(now - before) <= figure.slack:
        return 0.0
    worse, better = (before, now) if figure.more_is_better else (now, before)
    if better <= 0:
        return math.inf if worse > 0 else 0.0
    return worse / better - 1


def regressions(
    figures: Iterable[Figure],
    now: Mapping[str, float],
    before: Mapping[str, float],
    rates_now: Mapping[str, float],
    rates_before: Mapping[str, float],
) -> list[Regression]:
    """Return what is more than 30 % worse than the baseline, worst first.

    Figures that only one side has are left out.
    """
    found = []
    for figure in figures:
        key = figure.key
        if not figure.is_compared or key not in now or key not in before:
            continue
        slower = slowness(figure.rates, rates_now, rates_before)
        was = expected(figure, before[key], slower)
        worse = worse_by(figure, now[key], was)
        if worse > ALLOWED:
            found.append(Regression(figure, now[key], was, worse))
    return sorted(found, key=lambda r: -r.worse)


def confirmed(
    look: Callable[[Mapping[str, float]], list[Regression]],
    now: dict[str, float],
    again: Callable[[str], Mapping[str, float]],
) -> list[Regression]:
    """Return the regressions that stay when they are measured up to twice more.

    Parameters
    ----------
    look : returns the regressions among figures.
    now : the figures; those that looked regressed become the best of all tries.
    again : measures a source once more and returns its figures.
    """
    found = look(now)
    for _ in range(MORE_TRIES):
        if not found:
            break
        fresh: dict[str, float] = {}
        for source in sorted({r.figure.source for r in found}):
            fresh.update(again(source))
        for regression in found:
            key = regression.figure.key
            if key in fresh:
                best = max if regression.figure.more_is_better else min
                now[key] = best(now[key], fresh[key])
        found = look(now)
    return found
