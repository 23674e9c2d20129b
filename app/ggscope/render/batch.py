"""The display list: what a picture consists of, without saying who draws it.

Coordinates are device-independent pixels of the target, origin top left, y
down. Batches are drawn in list order. Nothing here knows Qt or OpenGL.

Small collectors that turn scattered `add` calls into few large batches.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
"""Colours are 0xAARRGGBB, not premultiplied."""


class Pattern(IntEnum):
    """How a rectangle is filled."""

    SOLID = 0
    HATCH = 1
    """45° lines in the fill colour, nothing between them: stalls, unfinished
    spans, missing data."""
    FAINT_HATCH = 2
    """Thin 45° lines: idle, where it is wide enough to matter."""
    DOTTED = 3
    """The fill with rows of dark dots: estimated times."""


class Align(IntEnum):
    """Horizontal anchor of a text."""

    LEFT = 0
    CENTER = 1
    RIGHT = 2


class Face(IntEnum):
    """Typeface of a text."""

    UI = 0
    """The system's proportional font."""
    MONO = 1
    """The monospaced font, for numbers and names."""
    HEADING = 2
    """`UI`, bold."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Rectangle that a batch may draw in."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, eq=False)
class RectBatch:
    """Filled rectangles: x0, x1, y0, y1 float32[n]; fill uint32[n].

    `border` (uint32[n] or None) is drawn inside, one pixel wide; `radius` rounds
    corners by so many pixels (0 for plain data rectangles). An `echo` repeats what a
    picture under it shows to the pixel: only targets that keep shapes draw it.
    """

    x0: F32
    x1: F32
    y0: F32
    y1: F32
    fill: U32
    border: U32 | None = None
    pattern: npt.NDArray[np.uint8] | None = None
    radius: float = 0.0
    clip: Clip | None = None
    echo: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ImageBatch:
    """Rows of a picture: one texel per pixel column and row, no smoothing.

    Attributes
    ----------
    pixels : uint32[rows, columns], 0xAARRGGBB; `columns` are device pixels and
        cover x0..x1 exactly.
    y0, y1 : float32[rows], where each row goes.
    premultiplied : whether the colours of `pixels` are multiplied by their opacity.
        Only of scenes that ask for it: figures need the colours as they are.
    runs : of rows a device pixel high where each run of rows that follow one another
        begins and ends, half-open; None = not known.
    """

    pixels: npt.NDArray[np.uint32]
    x0: float
    x1: float
    y0: F32
    y1: F32
    clip: Clip | None = None
    premultiplied: bool = False
    runs: tuple[tuple[int, int], ...] | None = None

    def straight(self) -> U32:
        """Return the pixels not premultiplied, as near as eight bits tell."""
        if not self.premultiplied:
            return self.pixels
        alpha = self.pixels >> np.uint32(24)
        result = alpha << np.uint32(24)
        for shift in map(np.uint32, (0, 8, 16)):
            part = ((self.pixels >> shift) & np.uint32(255)) * np.uint32(255)
            result |= (
                np.minimum((part + alpha // 2) // np.maximum(alpha, 1), np.uint32(255))
                << shift
            )
        return result


@dataclass(frozen=True, slots=True, eq=False)
class LineBatch:
    """Straight lines: x0, y0, x1, y1 float32[n]; color uint32[n]."""

    x0: F32
    y0: F32
    x1: F32
    y1: F32
    color: U32
    width: float = 1.0
    dashed: bool = False
    clip: Clip | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AreaBatch:
    """A filled curve: the area between y[i] and `base` from x[i] to x[i + 1].

    x float32[n + 1], y float32[n] (a step per column). `line` draws the upper
    edge (0 = none).
    """

    x: F32
    y: F32
    base: float
    fill: int
    line: int = 0
    clip: Clip | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """One text. `y` is the vertical centre; `width` > 0 elides to it.

    One that `keeps_left` belongs to something that goes on to the left of its clip: in
    a picture that is moved it stays at that edge.
    """

    x: float
    y: float
    text: str
    color: int
    size: float = 12.0
    face: Face = Face.UI
    align: Align = Align.LEFT
    width: float = 0.0
    clip: Clip | None = None
    keeps_left: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TextBatch:
    """Texts, drawn on top of what came before."""

    texts: tuple[Text, ...]


Batch = RectBatch | ImageBatch | LineBatch | AreaBatch | TextBatch


SPOT_PX = 3.0
"""What is narrower or lower cannot be pointed at."""


@dataclass(frozen=True, slots=True, eq=False)
class HitRegions:
    """Things that can be distinguished in a picture, each with its rectangle.

    Attributes
    ----------
    what : what they are, in the plural.
    ids : int64[n], numbers that `describe` takes.
    x, y, width, height : float64[n], device-independent pixels of the picture.
    describe : every digit of one, on one line; None of spans, which others describe.
    """

    what: str
    ids: npt.NDArray[np.int64]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    width: npt.NDArray[np.float64]
    height: npt.NDArray[np.float64]
    describe: Callable[[int], str] | None = None

    def moved(self, dx: float, dy: float) -> "HitRegions":
        """Return them elsewhere."""
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True, slots=True)
class StaticLayer:
    """Batches that will be the very same objects in the next picture.

    Unless what they show has changed as a whole. They draw in `area` alone, on an
    opaque ground of their own; None = anywhere, on the background, before all others.
    """

    first: int
    stop: int
    area: Clip | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DisplayList:
    """A whole picture.

    Attributes
    ----------
    width, height : size in device-independent pixels.
    scale : device pixels per device-independent pixel (1, 1.5, 2 …).
    background : 0xAARRGGBB.
    batches : in drawing order.
    still : what does not change from picture to picture, in drawing order.
    spots : what can be pointed at, in figures.
    covered : what opaque batches cover as a whole: it needs no background.
    """

    width: float
    height: float
    scale: float = 1.0
    background: int = 0xFFFFFFFF
    batches: tuple[Batch, ...] = field(default_factory=tuple)
    still: tuple[StaticLayer, ...] = ()
    spots: tuple[HitRegions, ...] = ()
    covered: Clip | None = None

    def bare(self) -> list[Clip]:
        """Return where the background may be seen, as rectangles side by side."""
        covered = self.covered
        if covered is None:
            return [Clip(0.0, 0.0, self.width, self.height)]
        left, right = covered.x, covered.x + covered.width
        top, bottom = covered.y, covered.y + covered.height
        return [
            Clip(0.0, 0.0, self.width, top),
            Clip(0.0, top, left, bottom - top),
            Clip(right, top, self.width - right, bottom - top),
            Clip(0.0, bottom, self.width, self.height - bottom),
        ]


Values = npt.ArrayLike


class RectList:
    """Collects rectangles; arrays and scalars may be mixed freely."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.uint32]]] = []

    def add(
        self,
        x0: Values,
        x1: Values,
        y0: Values,
        y1: Values,
        fill: Values,
        border: Values = 0,
        pattern: Values = int(Pattern.SOLID),
    ) -> None:
        """Add rectangles; colour 0 is nothing (no fill, no border)."""
        places = (x0, x1, y0, y1)
        n = _length(places)
        where = np.empty((4, n), np.float32)
        look = np.empty((3, n), np.uint32)
        for i, place in enumerate(places):
            where[i] = place
        for i, value in enumerate((fill, border, pattern)):
            look[i] = value
        self._parts.append((where, look))

    def batch(
        self, *, radius: float = 0.0, clip: Clip | None = None, echo: bool = False
    ) -> list[Batch]:
        """Return everything as one batch, or nothing where there is nothing."""
        if not any(where.shape[1] for where, _ in self._parts):
            return []
        where = np.concatenate([part[0] for part in self._parts], axis=1)
        look = np.concatenate([part[1] for part in self._parts], axis=1)
        border = look[1] if look[1].any() else None
        pattern = look[2].astype(np.uint8) if look[2].any() else None
        x0, x1, y0, y1 = where
        return [RectBatch(x0, x1, y0, y1, look[0], border, pattern, radius, clip, echo)]


class LineList:
    """Collects lines of one width and style."""

    def __init__(self, width: float = 1.0, *, dashed: bool = False) -> None:
        self._width, self._dashed = width, dashed
        self._places: list[npt.NDArray[np.float32]] = []
        self._colors: list[npt.NDArray[np.uint32]] = []

    def add(
        self, x0: Values, y0: Values, x1: Values, y1: Values, color: Values
    ) -> None:
        """Add lines."""
        places = (x0, y0, x1, y1)
        place = np.empty((4, _length(places)), np.float32)
        for i, values in enumerate(places):
            place[i] = values
        colors = np.empty(place.shape[1], np.uint32)
        colors[:] = color
        self._places.append(place)
        self._colors.append(colors)

    def batch(self, clip: Clip | None = None) -> list[Batch]:
        """Return everything as one batch, or nothing where there is nothing."""
        if not any(place.shape[1] for place in self._places):
            return []
        x0, y0, x1, y1 = np.concatenate(self._places, axis=1)
        color = np.concatenate(self._colors)
        return [LineBatch(x0, y0, x1, y1, color, self._width, self._dashed, clip)]


def _length(values: tuple[Values, ...]) -> int:
    """Return the length of the arrays among `values`, 1 where all are scalars."""
    return next((len(v) for v in values if isinstance(v, np.ndarray) and v.ndim), 1)


class TextList(list[Text]):
    """Collects texts."""

    def batch(self) -> list[Batch]:
        """Return everything as one batch, or nothing where there is nothing."""
        return [TextBatch(tuple(self))] if self else []
