"""Confidence intervals of means, and of the difference of two means."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
LEVEL = 0.95
_NORMAL = 1.959963984540054
"""Quantile of the normal distribution for `LEVEL`: that of Student's is larger."""
_STEPS = 60
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a number lies with the probability `LEVEL`."""

    low: float
    high: float

    def has(self, value: float) -> bool:
        """Return whether a value is inside."""
        return self.low <= value <= self.high


def student_quantiles(freedom: npt.ArrayLike) -> F64:
    """Return t for which ``P(|T| <= t) = LEVEL``, of Student's distribution.

    Parameters
    ----------
    freedom : degrees of freedom, >= 1, of any shape; need not be whole.

    Notes
    -----
    With ``t = sqrt(f) tan(a)`` the density is a power of the cosine, which Gauss and
    Legendre integrate to twelve digits. Newton's steps come from below, where the
    concave function lets them not overshoot.
    """
    f, inverse = np.unique(np.asarray(freedom, np.float64), return_inverse=True)
    scale = np.array([math.lgamma((x + 1) / 2) - math.lgamma(x / 2) for x in f])
    scale = np.exp(scale - 0.5 * math.log(math.pi))
    t = np.full(len(f), _NORMAL)
    for _ in range(_STEPS):
        angle = np.arctan(t / np.sqrt(f))
        at = angle[:, None] * (_NODES + 1) / 2
        powers = np.exp((f[:, None] - 1) * np.log(np.cos(at)))
        inside = scale * angle * (powers * _WEIGHTS).sum(axis=1)
        density = scale / np.sqrt(f) * np.exp(-(f + 1) / 2 * np.log1p(t * t / f))
        step = (LEVEL - inside) / (2 * density)
        t = t + step
        if (np.abs(step) <= 1e-13 * t).all():
            break
    quantiles: F64 = t[inverse.reshape(-1)].reshape(np.shape(freedom))
    return quantiles


def mean_intervals(sample: F64, first: npt.NDArray[np.int64]) -> tuple[F64, F64]:
    """Return the interval of the mean of each group, float64[n] each.

    NaN for groups of fewer than two: they show no variation.

    Parameters
    ----------
    sample : float64[m], group after group.
    first : int64[n + 1], group i has ``sample[first[i]:first[i + 1]]``.
    """
    n = np.diff(first)
    of = np.repeat(np.arange(len(n)), n)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(of, sample, len(n)) / n
        spread = np.bincount(of, (sample - mean[of]) ** 2, len(n))
        error = np.sqrt(spread / (n - 1) / n)
    known = n > 1
    half = np.full(len(n), np.nan)
    half[known] = error[known] * student_quantiles(n[known] - 1.0)
    return mean - half, mean + half


def difference_interval(a: Sequence[float], b: Sequence[float]) -> Interval | None:
    """Return the interval of ``mean(b) - mean(a)`` by Welch; None where unknown.

    It takes two samples of each: one shows no variation. The two need
    not vary alike.
    """
    if min(len(a), len(b)) < 2:
        return None
    difference = float(np.mean(b) - np.mean(a))
    of_a, of_b = (float(np.var(x, ddof=1)) / len(x) for x in (a, b))
    total = of_a + of_b
    if total <= 0.0:
        return Interval(difference, difference)
    share = of_a / total
    freedom = 1 / (share**2 / (len(a) - 1) + (1 - share) ** 2 / (len(b) - 1))
    half = math.sqrt(total) * float(student_quantiles(freedom))
    return Interval(difference - half, difference + half)
