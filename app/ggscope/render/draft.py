"""Small collectors that turn scattered `add` calls into few large batches."""

import numpy as np
import numpy.typing as npt

from ggscope.render.batch import (
    Batch,
    Clip,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
    Text,
    TextBatch,
)

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


class ImageRows:
    """Collects rows of pixels of equal length."""

    def __init__(self) -> None:
        self._pixels: list[npt.NDArray[np.uint32]] = []
        self._places: list[tuple[float, float]] = []

    def add(self, pixels: npt.NDArray[np.uint32], y0: float, y1: float) -> None:
        """Add one row, uint32[columns]."""
        self._pixels.append(pixels)
        self._places.append((y0, y1))

    def batch(self, x0: float, x1: float, clip: Clip | None = None) -> list[Batch]:
        """Return everything as one batch, or nothing where there is nothing."""
        if not self._pixels:
            return []
        places = np.array(self._places, np.float32)
        return [
            ImageBatch(
                np.stack(self._pixels),
                x0,
                x1,
                places[:, 0].copy(),
                places[:, 1].copy(),
                clip,
            )
        ]


def _length(values: tuple[Values, ...]) -> int:
    """Return the length of the arrays among `values`, 1 where all are scalars."""
    return next((len(v) for v in values if isinstance(v, np.ndarray) and v.ndim), 1)


class TextList(list[Text]):
    """Collects texts."""

    def batch(self) -> list[Batch]:
        """Return everything as one batch, or nothing where there is nothing."""
        return [TextBatch(tuple(self))] if self else []
