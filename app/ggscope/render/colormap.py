"""Colour maps of heatmaps: from numbers to 0xAARRGGBB, and the bar that explains them.

Zero is the background, missing is hatched by whoever draws; so a scale covers what
is above zero only.
"""

import csv
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import Array
from ggscope.render.batch import F32, U32, ImageBatch

DEFAULT = "cividis"
NAMES = ("cividis", "viridis", "magma", "turbo")
"""Colour maps for amounts, the default first; `turbo` only on request."""
DIFFERENCE = "CET-CBD1"
"""Colour map for differences: blue below, white, orange above."""
N_COLORS = 256
_QUANTILES = 257


class ScaleKind(Enum):
    """How numbers become shares of the colour map."""

    LINEAR = "linear"
    LOG = "log"
    PERCENTILE = "percentile"


@cache
def colors(name: str = DEFAULT) -> U32:
    """Return the colours of a map from low to high, uint32[256], opaque.

    Raises KeyError for a map that pyqtgraph does not have.
    """
    # Importing pyqtgraph takes a quarter of a second; only its tables are needed.
    spec = find_spec("pyqtgraph")
    if spec is None or spec.origin is None:
        raise KeyError(name)
    path = Path(spec.origin).parent / "colors" / "maps" / f"{name}.csv"
    if not path.is_file():
        raise KeyError(name)
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row[:3] for row in csv.reader(lines) if row and row[0][:1] != ";"]
    table = np.array(rows, np.float64)
    at = np.linspace(0, len(table) - 1, N_COLORS)
    channels = [np.interp(at, np.arange(len(table)), table[:, c]) for c in range(3)]
    red, green, blue = (np.rint(c * 255).astype(np.uint32) for c in channels)
    found: U32 = (0xFF000000 | red << 16 | green << 8 | blue).astype(np.uint32)
    found.flags.writeable = False
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ColorScale:
    """Maps numbers above zero to 0..1.

    Attributes
    ----------
    low, high : smallest and largest number above zero; both 1 where there is none.
    quantiles : float64[257] for PERCENTILE, the numbers at equal ranks, else None.
    """

    kind: ScaleKind
    low: float
    high: float
    quantiles: npt.NDArray[np.float64] | None = None

    def shares(self, values: Array) -> npt.NDArray[np.float64]:
        """Return the place of each number, 0..1; NaN where it is not above zero."""
        numbers = np.asarray(values, np.float64)
        found = np.full(numbers.shape, np.nan)
        above = numbers > 0
        part = numbers[above]
        if self.quantiles is not None:
            ranks = np.linspace(0, 1, len(self.quantiles))
            found[above] = np.interp(part, self.quantiles, ranks)
        elif self.kind is ScaleKind.LOG and self.high > self.low:
            # Differences of logarithms: quotients may be too large for a float.
            low = np.log(self.low)
            width = np.log(self.high) - low
            found[above] = np.clip((np.log(part) - low) / width, 0, 1)
        else:
            found[above] = np.clip(part / self.high, 0, 1)
        return found

    def value_at(self, share: float) -> float:
        """Return the number at a place, the inverse of `shares`."""
        if self.quantiles is not None:
            ranks = np.linspace(0, 1, len(self.quantiles))
            return float(np.interp(share, ranks, self.quantiles))
        if self.kind is ScaleKind.LOG and self.high > self.low:
            low = np.log(self.low)
            return float(np.exp(low + (np.log(self.high) - low) * share))
        return share * self.high


def color_scale(values: Array, kind: ScaleKind = ScaleKind.LINEAR) -> ColorScale:
    """Return the scale that covers all numbers above zero in `values`."""
    numbers = np.asarray(values, np.float64).ravel()
    numbers = numbers[numbers > 0]
    if not len(numbers):
        return ColorScale(kind, 1.0, 1.0)
    low, high = float(numbers.min()), float(numbers.max())
    if kind is not ScaleKind.PERCENTILE:
        return ColorScale(kind, low, high)
    quantiles = np.quantile(numbers, np.linspace(0, 1, _QUANTILES))
    return ColorScale(kind, low, high, quantiles)


def texels(
    values: Array, scale: ColorScale, name: str = DEFAULT, background: int = 0
) -> U32:
    """Return the colour of each number, uint32 of the shape of `values`.

    `background` (0xAARRGGBB) is where a number is not above zero.
    """
    shares = scale.shares(values)
    known = ~np.isnan(shares)
    found = np.full(shares.shape, background, np.uint32)
    steps = np.rint(shares[known] * (N_COLORS - 1)).astype(np.int64)
    found[known] = colors(name)[steps]
    return found


def color_bar(x: float, y: float, width: float, height: float, name: str) -> ImageBatch:
    """Return the colours of a map from left (low) to right (high) as a picture."""
    n = max(round(width), 2)
    steps = np.rint(np.linspace(0, N_COLORS - 1, n)).astype(np.int64)
    tops: F32 = np.array([y], np.float32)
    return ImageBatch(
        colors(name)[steps][None, :], x, x + width, tops, tops + np.float32(height)
    )


__all__ = [
    "DEFAULT",
    "DIFFERENCE",
    "NAMES",
    "ColorScale",
    "ScaleKind",
    "color_bar",
    "color_scale",
    "colors",
    "texels",
]
