"""Colours of categories, and of amounts.

Categories: from the keys of a colouring to 0xAARRGGBB. The hues are those of Okabe and
Ito, which people with any kind of colour vision can distinguish; where more are needed
than there are hues, lightness steps follow. Families of ops, and phases beside them,
differ in every kind of vision, and on white in grey print too.

Amounts, as in heatmaps: from numbers to 0xAARRGGBB, and the bar that explains them.
Zero is the background, missing is hatched by whoever draws; so a scale covers what
is above zero only.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ggscope import assets
from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.colorings import is_ordered
from ggscope.model.ggml.ops import family_of
from ggscope.model.tables import Array
from ggscope.render.batch import F32, U32, ImageBatch, Pattern
from ggscope.render.theme import Theme, contrast, mix, visible_on

BLACK = 0xFF000000
WHITE = 0xFFFFFFFF
_STEPS = (0.0, 0.28, -0.22, 0.48, -0.38, 0.14, -0.12)
"""Shares of white (+) or black (-) in the lightness steps of a hue."""
_TURNS = 3
"""So often a row of numbers goes through the hues before a colour recurs."""
IDLE_SHARE = 0.08
"""How much of the colour of dim texts lies over idle time."""
_LIGHT_YELLOW = 0xFFB39D00
"""Yellow has a contrast of 1.3 on white, so light themes use a darker one."""


_luts: DerivedCache[Categories, dict[Theme, U32]] = DerivedCache(
    "colours of categories"
)
_foot_luts: DerivedCache[Categories, dict[Theme, U32]] = DerivedCache("colours of feet")


@lru_cache(maxsize=16384)
def category_color(key: str, theme: Theme) -> int:
    """Return the colour of a category, opaque.

    Parameters
    ----------
    key : as in ``Categories.keys``; an unknown one gets the neutral colour.
    """
    kind, _, value = key.partition(":")
    if not value:
        if kind in _section("families"):
            return _entry("families", kind, theme)
        return _op_color(kind, theme)
    if kind == "rgb":
        return 0xFF000000 | int(value, 16)
    if kind == "op":
        return _op_color(value, theme)
    if kind == "engine":
        return _named(
            _section("engines").get(value.rstrip("0123456789"), "slate"), theme
        )
    if kind in ("phase", "space", "quality"):
        return _entry(kind, value, theme)
    if is_ordered(kind) and value in ("several", "unknown"):
        return _named({"several": "vermillion+5", "unknown": "grey+3"}[value], theme)
    return _ordered_color(value, theme)


def lut(categories: Categories, theme: Theme) -> U32:
    """Return the colour of every category, uint32[len(keys)]; cached for each theme."""
    luts = _luts.setdefault(categories, {})
    if theme not in luts:
        luts[theme] = _make_lut(categories.keys, theme)
    return luts[theme]


def foot_lut(categories: Categories, theme: Theme) -> U32:
    """Return the colour of the feet of every category; cached for each theme."""
    luts = _foot_luts.setdefault(categories, {})
    if theme not in luts:
        luts[theme] = foot_colors(lut(categories, theme), theme)
    return luts[theme]


def foot_colors(colors: U32, theme: Theme) -> U32:
    """Return the colours of the feet of columns: a contrast of 3:1 on every lane."""
    return _foot_colors(np.asarray(colors, np.uint32).tobytes(), theme)


@lru_cache(maxsize=64)
def _foot_colors(colors: bytes, theme: Theme) -> U32:
    distinct, which = np.unique(np.frombuffer(colors, np.uint32), return_inverse=True)
    grounds = lane_grounds(theme)
    feet = [visible_on(color | 0xFF000000, *grounds) for color in distinct.tolist()]
    result = np.array(feet, np.uint32)[which]
    result.flags.writeable = False
    return result


def lane_grounds(theme: Theme) -> tuple[int, ...]:
    """Return what may lie behind a column of a timeline or an overview."""
    return theme.lane, theme.pane, mix(theme.lane, theme.dim, IDLE_SHARE)


def _make_lut(keys: Sequence[str], theme: Theme) -> U32:
    """Return the colours of keys; of numbers, whose colours recur, by a table."""
    period = _TURNS * len(cast("list[str]", _data()["cycle"]))
    table = [_ordered_color(str(number), theme) for number in range(period)]
    colors = np.zeros(len(keys), np.uint32)
    for i, key in enumerate(keys):
        kind, _, value = key.partition(":")
        is_number = value.isdecimal() and is_ordered(kind)
        colors[i] = (
            table[int(value) % period] if is_number else category_color(key, theme)
        )
    colors.flags.writeable = False
    return colors


@lru_cache(maxsize=4096)
def label_color(fill: int) -> int:
    """Return black or white, whichever reads better on `fill` (>= 4.5:1)."""
    return BLACK if contrast(fill, BLACK) >= contrast(fill, WHITE) else WHITE


def lightness_step(color: int, step: int, theme: Theme) -> int:
    """Return a lightness step of `color`; step 0 is the colour itself.

    Odd steps stand out from the theme's background, even ones recede, and no two
    of the first seven are equal.
    """
    share = _STEPS[step % len(_STEPS)]
    if not theme.is_dark:
        share = -share
    return mix(color, WHITE if share > 0 else BLACK, abs(share))


def phase_color(phase: int, theme: Theme) -> int:
    """Return the colour of a `Phase`; neutral for -1."""
    return category_color(f"phase:{phase}", theme)


def _op_color(op: str, theme: Theme) -> int:
    """Return the colour of an op: a step of its engine's or its family's colour."""
    engine = _section("engines").get(op.partition("_")[0])
    base = _named(engine, theme) if engine else _entry("families", family_of(op), theme)
    steps = cast("dict[str, int]", _data()["op_steps"])
    step = steps.get(op)
    if step is None:
        step = 1 + crc32(op.encode()) % (len(_STEPS) - 1)
    return lightness_step(base, step, theme)


def _ordered_color(value: str, theme: Theme) -> int:
    """Return the colour of "3" in a row of layers, tokens or threads."""
    try:
        number = int(value)
    except ValueError:
        number = crc32(value.encode()) % 997
    if number < 0:
        return _named("slate", theme)
    cycle = cast("list[str]", _data()["cycle"])
    turn, place = divmod(number, len(cycle))
    return lightness_step(_named(cycle[place], theme), turn % _TURNS, theme)


def _entry(section: str, key: str, theme: Theme) -> int:
    """Return the colour of an entry; on white some have one of their own."""
    name = _section(section).get(key, "grey")
    if not theme.is_dark:
        on_white = cast("dict[str, dict[str, str]]", _data()["on_white"])
        name = on_white.get(section, {}).get(key, name)
    return _named(name, theme)


def _named(name: str, theme: Theme) -> int:
    """Return colour "#0072b2", "blue", or "blue+1": its first lightness step."""
    if name.startswith("#"):
        return 0xFF000000 | int(name[1:], 16)
    hue, _, step = name.partition("+")
    if hue == "yellow" and not theme.is_dark:
        return lightness_step(_LIGHT_YELLOW, int(step or 0), theme)
    color = 0xFF000000 | int(_section("okabe_ito")[hue][1:], 16)
    return lightness_step(color, int(step or 0), theme)


def _section(name: str) -> dict[str, str]:
    return cast("dict[str, str]", _data()[name])


@cache
def _data() -> dict[str, object]:
    path = assets.path("palettes/categories.json")
    return cast("dict[str, object]", json.loads(path.read_text("utf-8")))


DEFAULT = "cividis"
NAMES = ("cividis", "viridis", "magma", "turbo")
"""Colour maps for amounts, the default first; `turbo` only on request."""
DIFFERENCE = "CET-CBD1"
"""Colour map for differences: blue below, white, orange above."""
_REVERSED, _ENDS_LIGHT = "_r", frozenset({"cividis", "viridis", "magma"})
N_COLORS = 256
_QUANTILES = 257


class ScaleKind(Enum):
    """How numbers become shares of the colour map."""

    LINEAR = "linear"
    LOG = "log"
    PERCENTILE = "percentile"
    AUTO = "auto"
    """By percentile where most numbers are alike, else by logarithm."""


@cache
def colors(name: str = DEFAULT) -> U32:
    """Return the colours of a map from low to high, uint32[256], opaque.

    "cividis_r" is the reverse of "cividis". Raises KeyError for a map that pyqtgraph
    does not have.
    """
    if name.endswith(_REVERSED):
        packed = np.ascontiguousarray(colors(name.removesuffix(_REVERSED))[::-1])
        packed.flags.writeable = False
        return packed
    # Importing pyqtgraph takes a quarter of a second; only its tables are needed.
    spec = find_spec("pyqtgraph")
    # A bundle has the tables without the package: then this is no place of a module.
    folders = () if spec is None else spec.submodule_search_locations or ()
    tables = (Path(f) / "colors" / "maps" / f"{name}.csv" for f in folders)
    path = next((table for table in tables if table.is_file()), None)
    if path is None:
        raise KeyError(name)
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row[:3] for row in csv.reader(lines) if row and row[0][:1] != ";"]
    table = np.array(rows, np.float64)
    at = np.linspace(0, len(table) - 1, N_COLORS)
    channels = [np.interp(at, np.arange(len(table)), table[:, c]) for c in range(3)]
    red, green, blue = (np.rint(c * 255).astype(np.uint32) for c in channels)
    packed = (0xFF000000 | red << 16 | green << 8 | blue).astype(np.uint32)
    packed.flags.writeable = False
    return packed


def map_on(name: str, theme: Theme) -> str:
    """Return the map as it is on the ground of a theme: high amounts stand out.

    On a light ground that is the reverse of maps that end light.
    """
    is_reversed = name in _ENDS_LIGHT and not theme.is_dark
    return name + _REVERSED if is_reversed else name


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
        shares = np.full(numbers.shape, np.nan)
        above = numbers > 0
        part = numbers[above]
        if self.quantiles is not None:
            shares[above] = _ranks(part, self.quantiles)
        elif self.kind is ScaleKind.LOG and self.high > self.low:
            # Differences of logarithms: quotients may be too large for a float.
            low = np.log(self.low)
            width = np.log(self.high) - low
            shares[above] = np.clip((np.log(part) - low) / width, 0, 1)
        else:
            shares[above] = np.clip(part / self.high, 0, 1)
        return shares

    def value_at(self, share: float) -> float:
        """Return the number at a place, the inverse of `shares`."""
        if self.quantiles is not None:
            ranks = np.linspace(0, 1, len(self.quantiles))
            return float(np.interp(share, ranks, self.quantiles))
        if self.kind is ScaleKind.LOG and self.high > self.low:
            low = np.log(self.low)
            return float(np.exp(low + (np.log(self.high) - low) * share))
        return share * self.high


def _ranks(
    numbers: npt.NDArray[np.float64], quantiles: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the percentile of numbers, 0..1; of like ones the middle of theirs.

    So numbers that are all alike have the colour of the middle, not the hottest, and a
    per cent more or less, as cells have that are a pixel wide, makes no stripes.
    """
    ranks = np.linspace(0, 1, len(quantiles))
    first = np.searchsorted(quantiles, numbers * (1 - _LIKE), "left")
    last = np.searchsorted(quantiles, numbers * (1 + _LIKE), "right") - 1
    shares = np.interp(numbers, quantiles, ranks)
    has_like = last >= first
    shares[has_like] = (ranks[first[has_like]] + ranks[last[has_like]]) / 2
    return shares


_LIKE = 0.03
ALIKE, LOWER_PART = 4.0, 0.4
"""Where all but the lower part of the numbers are within this factor of the largest
one, a logarithm gives nearly all of them the hottest colour."""


def automatic_kind(lower: float, high: float) -> ScaleKind:
    """Return the scale that distinguishes numbers; `lower` ends their LOWER_PART."""
    return ScaleKind.PERCENTILE if lower * ALIKE > high else ScaleKind.LOG


def color_scale(values: Array, kind: ScaleKind = ScaleKind.LINEAR) -> ColorScale:
    """Return the scale that covers all numbers above zero in `values`."""
    numbers = np.asarray(values, np.float64).ravel()
    numbers = numbers[numbers > 0]
    if not len(numbers):
        return ColorScale(kind, 1.0, 1.0)
    low, high = float(numbers.min()), float(numbers.max())
    if kind is ScaleKind.AUTO:
        kind = automatic_kind(float(np.quantile(numbers, LOWER_PART)), high)
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
    pixels = np.full(shares.shape, background, np.uint32)
    steps = np.rint(shares[known] * (N_COLORS - 1)).astype(np.int64)
    pixels[known] = colors(name)[steps]
    return pixels


def color_bar(x: float, y: float, width: float, height: float, name: str) -> ImageBatch:
    """Return the colours of a map from left (low) to right (high) as a picture."""
    n = max(round(width), 2)
    steps = np.rint(np.linspace(0, N_COLORS - 1, n)).astype(np.int64)
    tops: F32 = np.array([y], np.float32)
    return ImageBatch(
        colors(name)[steps][None, :], x, x + width, tops, tops + np.float32(height)
    )


class Sign(Enum):
    """How an entry of a legend looks."""

    FIELD = 0
    LINE = 1
    DASHES = 2
    FRAME = 3
    BAND = 4
    """A field that is lower than others."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a legend; `ground` lies under its pattern, 0 = that of the page."""

    label: str
    color: int
    sign: Sign = Sign.FIELD
    pattern: Pattern = Pattern.SOLID
    ground: int = 0


@dataclass(frozen=True, slots=True)
class ColorBar:
    """What the colours of a scale stand for.

    Attributes
    ----------
    title : what they measure, with its unit and the kind of the scale.
    low, high : the words at its ends.
    colors : name of the colour map.
    """

    title: str
    low: str
    high: str
    colors: str


def blend(colors: npt.NDArray[np.uint32], ground: int) -> npt.NDArray[np.uint32]:
    """Return `colors` (0xAARRGGBB) as they look on an opaque `ground`, opaque.

    Fully transparent colours become the ground.
    """
    alpha = colors >> np.uint32(24)
    out = np.full(colors.shape, 0xFF000000, np.uint32)
    for shift in (16, 8, 0):
        channel = (colors >> np.uint32(shift)) & np.uint32(255)
        under = np.uint32((ground >> shift) & 255)
        # 255 * 255 fits easily; +127 rounds to the nearest.
        mixed = (channel * alpha + under * (np.uint32(255) - alpha) + 127) // 255
        out |= mixed.astype(np.uint32) << np.uint32(shift)
    return out
