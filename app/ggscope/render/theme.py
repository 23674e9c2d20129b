"""Colour tokens of a theme; the style sheet and the painters read the same ones.

No numpy here: the window is painted before there is any trace.
"""

import json
from dataclasses import dataclass, fields
from functools import cache, lru_cache

from ggscope import assets

THEMES = ("dark", "light", "print")
MIN_CONTRAST = 3.0
"""Of marks that must be seen, as WCAG 2 asks of graphics."""
_CONTRAST_STEPS = 32


@dataclass(frozen=True, slots=True)
class Theme:
    """Named colours, each 0xAARRGGBB. See ``resources/themes``."""

    name: str
    is_dark: bool
    window: int
    pane: int
    raised: int
    line: int
    text: int
    dim: int
    faint: int
    accent: int
    selection: int
    caution: int
    lane: int
    error: int
    idle: int
    grid: int


@cache
def theme(name: str) -> Theme:
    """Return theme `name`. Raises KeyError for an unknown one."""
    if name not in THEMES:
        raise KeyError(name)
    data = json.loads(assets.path(f"themes/{name}.json").read_text("utf-8"))
    values = {
        f.name: 0xFF000000 | int(data[f.name][1:], 16)
        for f in fields(Theme)
        if f.name not in ("name", "is_dark")
    }
    return Theme(name=name, is_dark=bool(data["is_dark"]), **values)


def css(color: int) -> str:
    """Return ``#rrggbb`` of a colour."""
    return f"#{color & 0xFFFFFF:06x}"


def with_alpha(color: int, alpha: float) -> int:
    """Return `color` with its opacity replaced (0..1)."""
    return (color & 0xFFFFFF) | (round(max(0.0, min(1.0, alpha)) * 255) << 24)


def mix(a: int, b: int, share: float) -> int:
    """Return `a` and `b` mixed, `share` of `b` (0..1), opaque."""
    out = 0xFF000000
    for shift in (16, 8, 0):
        x, y = (a >> shift) & 255, (b >> shift) & 255
        out |= round(x + (y - x) * share) << shift
    return out


def luminance(color: int) -> float:
    """Return the relative luminance of WCAG 2, 0..1."""
    channels = []
    for shift in (16, 8, 0):
        c = ((color >> shift) & 255) / 255
        channels.append(c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4)
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(a: int, b: int) -> float:
    """Return the contrast ratio of WCAG 2, 1..21."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@lru_cache(maxsize=16384)
def visible_on(color: int, *grounds: int) -> int:
    """Return `color` with a contrast of at least 3:1 on each of some like grounds.

    Where it has less it is mixed with black or white, as little as is needed.
    """
    far = 0xFFFFFFFF if luminance(grounds[0]) < 0.2 else 0xFF000000
    for step in range(_CONTRAST_STEPS + 1):
        mixed = mix(color, far, step / _CONTRAST_STEPS)
        if all(contrast(mixed, ground) >= MIN_CONTRAST for ground in grounds):
            break
    return mixed


def outline_pair(color: int) -> tuple[int, int]:
    """Return a line like `color` and a casing: one of them shows on any ground.

    Whatever they lie on, the contrast of one of the two is at least 3:1, because
    that of the two is at least 9:1.
    """
    black, white = 0xFF000000, 0xFFFFFFFF
    is_light = luminance(color) > 0.3
    casing, far = (black, white) if is_light else (white, black)
    line = color
    for share in range(1, 11):
        if contrast(line, casing) >= 9:
            break
        line = mix(color, far, share / 10)
    return line, casing
