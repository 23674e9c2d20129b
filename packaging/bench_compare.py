"""Whether figures are worse than the baseline that this machine stored.

Figures of two machines are never compared: no rate of a machine explains how much
slower another one paints, opens or sorts.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from bench_figures import Figure

ALLOWED = 0.30
"""So much worse, as a share, is still no regression."""
MORE_TRIES = 2
AGAIN_SHARE = 0.25
"""So much of the time of the first measurements may go into measuring again."""


@dataclass(frozen=True)
class Regression:
    """A figure that is worse than the baseline allows.

    Attributes
    ----------
    now, before : the figure, and the baseline's.
    worse : share by which it is worse: 0.5 = takes half as long again.
    is_confirmed : measured again and worse again. Without, it was seen once only,
        because measuring again would have taken too long.
    """

    figure: Figure
    now: float
    before: float
    worse: float
    is_confirmed: bool = False

    def __str__(self) -> str:
        f = self.figure
        seen = "" if self.is_confirmed else ", measured once"
        return (
            f"{f.key}: {self.now:.4g} {f.unit}, {self.before:.4g} in the baseline "
            f"({self.worse:.0%} worse{seen}): {f.label}"
        )


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
) -> list[Regression]:
    """Return what is more than 30 % worse than the baseline, worst first.

    Figures that only one side has are left out.
    """
    slower = []
    for figure in figures:
        key = figure.key
        if not figure.is_compared or key not in now or key not in before:
            continue
        worse = worse_by(figure, now[key], before[key])
        if worse > ALLOWED:
            slower.append(Regression(figure, now[key], before[key], worse))
    return sorted(slower, key=lambda r: -r.worse)


def confirmed(
    look: Callable[[Mapping[str, float]], list[Regression]],
    now: dict[str, float],
    again: Callable[[str], Mapping[str, float]],
    seconds: Mapping[str, float],
) -> list[Regression]:
    """Return the regressions that stay when they are measured up to twice more.

    What takes too long to be measured again, in all more than a quarter of the time
    of the first measurements, stays unconfirmed.

    Parameters
    ----------
    look : returns the regressions among figures.
    now : the figures; those that looked regressed become the best of all tries.
    again : measures a source once more and returns its figures.
    seconds : how long the first measurement of each source took.
    """
    regressions = look(now)
    tried: dict[str, int] = {}
    left = AGAIN_SHARE * math.fsum(seconds.values())
    for _ in range(MORE_TRIES):
        # The quick ones first: that confirms most in the time there is.
        sources = {r.figure.source for r in regressions}
        for source in sorted(sources, key=lambda s: (seconds.get(s, 0.0), s)):
            if seconds.get(source, 0.0) > left:
                continue
            left -= seconds.get(source, 0.0)
            tried[source] = tried.get(source, 0) + 1
            fresh = again(source)
            for regression in regressions:
                key = regression.figure.key
                if key in fresh:
                    best = max if regression.figure.more_is_better else min
                    now[key] = best(now[key], fresh[key])
        regressions = look(now)
    return [
        replace(r, is_confirmed=tried.get(r.figure.source, 0) > 0) for r in regressions
    ]
