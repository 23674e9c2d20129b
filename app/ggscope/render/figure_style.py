"""The style of a figure: size, font size, colours, title and legend.

Neither numpy nor Qt here: the command line and a dialog read the presets before
anything is drawn.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from ggscope.errors import ExportError

CSS_DPI = 96.0
"""Device-independent pixels per inch."""
DESIGN_PX = 11.0
"""Usual font size in the pictures of all views, in their own pixels."""
Unit = Literal["mm", "px", "in"]
UNITS: tuple[Unit, ...] = ("mm", "px", "in")
_LENGTH = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(mm|px|in)")
_FONT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*(?:pt)?")
MIN_FONT, MAX_FONT = 3.0, 96.0
MIN_DPI, MAX_DPI = 10.0, 2400.0


@dataclass(frozen=True, slots=True)
class Length:
    """A side of a figure; ``px`` are pixels of the picture, at its dots per inch."""

    value: float
    unit: Unit

    def inches(self, dpi: float) -> float:
        """Return it in inches."""
        per_inch = {"mm": 25.4, "px": dpi, "in": 1.0}[self.unit]
        return self.value / per_inch

    def to(self, unit: Unit, dpi: float) -> "Length":
        """Return the same length in another unit, to a hundredth of it."""
        inches = self.inches(dpi)
        per_inch = {"mm": 25.4, "px": dpi, "in": 1.0}[unit]
        return Length(round(inches * per_inch, 3 if unit == "in" else 2), unit)

    def __str__(self) -> str:
        return f"{self.value:.6f}".rstrip("0").rstrip(".") + self.unit


def css_px(value: float) -> Length:
    """Return a length of device-independent pixels, 96 per inch."""
    return Length(value / CSS_DPI, "in")


def parse_length(text: str) -> Length:
    """Return the length that ``88mm``, ``1600px`` or ``3.5in`` names.

    Raises
    ------
    ExportError
        If it names none, or none from 1 mm to 10 m.
    """
    match = _LENGTH.fullmatch(text.strip().lower())
    if match is None:
        raise ExportError(
            f"{text!r} is not a length; write it as 88mm, 1600px or 3.5in."
        )
    unit: Unit = next(unit for unit in UNITS if unit == match[2])
    length = Length(float(match[1]), unit)
    if not length.value:
        raise ExportError(f"{text!r}: a figure without width or height shows nothing.")
    return length


def parse_font(text: str) -> float:
    """Return the points that ``7pt`` or ``7`` names; ExportError if it names none."""
    match = _FONT.fullmatch(text.strip().lower())
    if match is None or not MIN_FONT <= float(match[1]) <= MAX_FONT:
        raise ExportError(
            f"{text!r} is not a font size; write it as 7pt, from "
            f"{MIN_FONT:g}pt to {MAX_FONT:g}pt."
        )
    return float(match[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureStyle:
    """The style of a figure, whatever it shows.

    Attributes
    ----------
    preset : the name in `PRESETS` that it began from, "" = none; of no effect.
    width, height : None = chosen by the figure: a height at which all of it fits.
    dpi : dots per inch of a PNG.
    font : size of the usual font in points; None = 8.25, as on a screen at 100 %.
    theme : name of its colours.
    transparent : whether the background of a PNG or SVG is transparent.
    seen : as shown in the view, with selection, marks, notes, hidden and pinned
        lanes and their order; else without these.
    title : None = the title of the figure itself, "" = nothing.
    legend, color_bar, notes : whether it has them. Notes are bookmarks.
    suffix : of the file that it goes to.
    """

    preset: str = ""
    width: Length | None = None
    height: Length | None = None
    dpi: float = CSS_DPI
    font: float | None = None
    theme: str = "print"
    transparent: bool = False
    seen: bool = False
    title: str | None = None
    legend: bool = True
    color_bar: bool = True
    notes: bool = True
    suffix: str = ".png"

    @property
    def zoom(self) -> float:
        """Device-independent pixels per pixel of the design: how large fonts are."""
        if self.font is None:
            return 1.0
        return self.font * CSS_DPI / 72 / DESIGN_PX

    @property
    def scale(self) -> float:
        """Pixels of a PNG per pixel of the design."""
        return self.dpi / CSS_DPI * self.zoom

    def pixels(self, length: Length | None) -> int | None:
        """Return a side in pixels of a PNG; at least 1."""
        if length is None:
            return None
        return max(round(length.inches(self.dpi) * self.dpi), 1)

    def width_or(self, natural: float) -> float:
        """Return the width in pixels of the design, or this one where none is asked."""
        stated = self.pixels(self.width)
        return natural if stated is None else stated / self.scale

    def height_or(self, natural: float) -> float:
        """Return the height in pixels of the design; see `width_or`."""
        stated = self.pixels(self.height)
        return natural if stated is None else stated / self.scale

    def size_or(self, width: float, height: float) -> tuple[float, float]:
        """Return the size in pixels of the design; see `width_or`."""
        return self.width_or(width), self.height_or(height)


def _mm(width: float) -> FigureStyle:
    return FigureStyle(width=Length(width, "mm"), dpi=300, font=7)


PRESETS: Mapping[str, FigureStyle] = MappingProxyType(
    {
        name: replace(style, preset=name)
        for name, style in {
            "single": _mm(88),
            "double": _mm(180),
            "slide": FigureStyle(
                width=Length(1920, "px"), height=Length(1080, "px"), dpi=144, font=14
            ),
            "readme": FigureStyle(width=Length(1600, "px"), dpi=192, font=9),
        }.items()
    }
)
"""Looks by name: a column of a journal, both of its columns, a slide, a README."""
PRESET_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "single": "single column, 88 mm",
        "double": "double column, 180 mm",
        "slide": "slide, 1920 × 1080 px",
        "readme": "README, 1600 px",
    }
)


def preset(name: str) -> FigureStyle:
    """Return the style of this name; ExportError with the list for an unknown one."""
    preset = PRESETS.get(name)
    if preset is None:
        listed = ", ".join(PRESETS)
        raise ExportError(f"There is no preset {name!r}. Presets: {listed}.")
    return preset


def style_arguments(style: FigureStyle) -> list[str]:
    """Return the options of ``ggscope export`` that ask for this style.

    Notes
    -----
    Whether it is `seen` is not among them: what was seen belongs to the figure.
    """
    base = PRESETS.get(style.preset, FigureStyle())
    command = ["--preset", style.preset] if style.preset in PRESETS else []
    for name in ("width", "height"):
        side, known = getattr(style, name), getattr(base, name)
        if side != known:
            command += [f"--{name}", "auto" if side is None else str(side)]
    if style.font != base.font:
        command += ["--font", "auto" if style.font is None else f"{style.font:g}pt"]
    if style.dpi != base.dpi:
        command += ["--dpi", f"{style.dpi:g}"]
    if style.theme != base.theme:
        command += ["--theme", style.theme]
    if style.transparent:
        command.append("--transparent")
    if style.title is not None:
        command.append(f"--title={style.title}")
    for name in ("legend", "color_bar", "notes"):
        if not getattr(style, name):
            command.append("--no-" + name.replace("_", "-"))
    return command
