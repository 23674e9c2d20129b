"""Colours of categories: from the keys of a colouring to 0xAARRGGBB.

The hues are those of Okabe and Ito, which people with any kind of colour vision
can tell apart; where more are needed than there are hues, lightness steps follow.
"""

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import cast
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np

from ggscope import assets
from ggscope.analysis.index import Categories
from ggscope.model.ggml import family_of
from ggscope.render.batch import U32
from ggscope.render.theme import Theme, contrast, mix

BLACK = 0xFF000000
WHITE = 0xFFFFFFFF
_STEPS = (0.0, 0.28, -0.22, 0.48, -0.38, 0.14, -0.12)
"""Shares of white (+) or black (-) in the lightness steps of a hue."""
_TURNS = 3
"""So often a row of numbers goes through the hues before a colour recurs."""
_ORDERED = frozenset({"layer", "token", "thread", "backend", "expert"})
_LIGHT_YELLOW = 0xFFB39D00
"""Yellow has a contrast of 1.3 on white, so light themes use a darker one."""


_luts: WeakKeyDictionary[Categories, dict[Theme, U32]] = WeakKeyDictionary()


@lru_cache(maxsize=16384)
def category_color(key: str, theme: Theme) -> int:
    """Return the colour of a category, opaque.

    Parameters
    ----------
    key : as in ``Categories.keys``; an unknown one gets the neutral colour.
    """
    kind, _, value = key.partition(":")
    if not value:
        families = _section("families")
        if kind in families:
            return _named(families[kind], theme)
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
        return _named(_section(kind).get(value, "grey"), theme)
    if kind in _ORDERED and value in ("several", "unknown"):
        return _named({"several": "vermillion+5", "unknown": "grey+3"}[value], theme)
    return _ordered_color(value, theme)


def lut(categories: Categories, theme: Theme) -> U32:
    """Return the colour of every category, uint32[len(keys)]; kept for each theme."""
    kept = _luts.setdefault(categories, {})
    if theme not in kept:
        kept[theme] = _make_lut(categories.keys, theme)
    return kept[theme]


def _make_lut(keys: Sequence[str], theme: Theme) -> U32:
    """Return the colours of keys; of numbers, whose colours recur, by a table."""
    period = _TURNS * len(cast("list[str]", _data()["cycle"]))
    table = [_ordered_color(str(number), theme) for number in range(period)]
    colors = np.zeros(len(keys), np.uint32)
    for i, key in enumerate(keys):
        kind, _, value = key.partition(":")
        is_number = kind in _ORDERED and value.isdecimal()
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
    name = engine or _section("families").get(family_of(op), "slate")
    base = _named(name, theme)
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


def _named(name: str, theme: Theme) -> int:
    """Return colour "blue", or "blue+1": its first lightness step."""
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
