"""Display lists drawn by QPainter: on widgets, images, SVG and PDF.

Needs a QGuiApplication.
"""

from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import shiboken6
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QPaintEngine,
    QPainter,
    QPen,
    QPolygonF,
    QTransform,
)

from ggscope.native.library import library
from ggscope.render.batch import (
    AreaBatch,
    Batch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
    StaticLayer,
    Text,
    TextBatch,
)
from ggscope.render.text_metrics import font, placed_text

if TYPE_CHECKING:
    from ggscope.render.static_layer import StaticLayerCache

_RASTER = QPaintEngine.Type.Raster
MAX_BOXES = 20_000
"""Figures with more boxes hold pictures of them: files stay small, viewers quick."""
HATCH_PERIOD = {Pattern.HATCH: 8.0, Pattern.FAINT_HATCH: 6.0, Pattern.DOTTED: 4.0}
"""Device-independent pixels after which a pattern repeats."""
HATCH_LINE = {Pattern.HATCH: 2.0, Pattern.FAINT_HATCH: 1.0, Pattern.DOTTED: 1.0}
"""Width of a pattern's lines or dots."""
_TILE_PX = 192
DASH_PX = 3.0
DOT_SHADE = 0.55
"""How much of the fill's brightness a dot keeps."""
_LARGE_PICTURE = 1 << 16
_MAX_STEP_PIXELS = 1 << 22
_NEAR_PX = 0.01
_FEW_SHAPES = 128
"""Up to so many are compared one by one sooner than by sorting them."""


def paint(
    picture: DisplayList,
    painter: QPainter,
    *,
    texts: bool = True,
    vector: bool = False,
    cache: "StaticLayerCache | None" = None,
) -> None:
    """Draw a display list.

    Parameters
    ----------
    painter : active, in device-independent pixels of the target: a widget, an
        image with its device pixel ratio set, or a generator.
    texts : False leaves the texts out.
    vector : the target keeps shapes (SVG, PDF): pictures become boxes, as long as
        all of them are few. Else they are handed over whole and at full size, so that
        no viewer smoothes them.
    cache : cache of the static layer, for a target that is painted repeatedly at the
        same place.

    Notes
    -----
    Rectangles and pictures are drawn without smoothing: the composer has put
    them on device pixels.
    """
    painter.save()
    layers: list[StaticLayer] = []
    # An image that lies between pixels would not be the same to the pixel.
    if painter.transform().isIdentity() and float(picture.scale).is_integer():
        # Of an empty layer no image brings the background.
        layers = [layer for layer in picture.still if layer.first < layer.stop]
    first_of = {} if cache is None else {layer.first: layer for layer in layers}
    if cache is not None:
        cache.begin()
    if all(layer.area is not None for layer in first_of.values()):
        for area in picture.bare():
            if area.width > 0 and area.height > 0:
                rect = QRectF(area.x, area.y, area.width, area.height)
                painter.fillRect(rect, color_of(picture.background))
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    shapes: _Shapes | None = None
    if vector:
        shapes = _Shapes.BOXES if are_few_boxes(picture) else _Shapes.PICTURES
    drawn_to = 0
    for number, batch in enumerate(picture.batches):
        if number < drawn_to:
            continue
        if cache is not None and (layer := first_of.get(number)) is not None:
            area = layer.area or Clip(0, 0, picture.width, picture.height)
            painter.setClipping(False)
            image = cache.image(picture, layer, area)
            painter.drawImage(QPointF(area.x, area.y), image)
            drawn_to = layer.stop
            continue
        if isinstance(batch, TextBatch):
            if texts:
                _draw_texts(batch.texts, painter)
            continue
        is_echo = isinstance(batch, RectBatch) and batch.echo
        if is_echo and shapes is not _Shapes.PICTURES:
            continue
        _set_clip(painter, batch.clip)
        _draw_batch(batch, painter, picture.scale, shapes)
    painter.restore()


def are_few_boxes(picture: DisplayList) -> bool:
    """Return whether the pictures of a display list are few boxes in all."""
    n_boxes = 0
    for batch in picture.batches:
        if isinstance(batch, ImageBatch):
            pixels = batch.pixels
            changes = int(np.count_nonzero(pixels[:, 1:] != pixels[:, :-1]))
            n_boxes += changes + len(pixels)
    return n_boxes <= MAX_BOXES


def paint_texts(picture: DisplayList, painter: QPainter) -> None:
    """Draw only the texts of a display list, in their order.

    The plates that lie over earlier texts (pills, flags: round corners) are drawn
    once more, so that no text shines through them.
    """
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    under_text = False
    for batch in picture.batches:
        if isinstance(batch, TextBatch):
            _draw_texts(batch.texts, painter)
            under_text = True
        elif isinstance(batch, RectBatch) and batch.radius > 0 and under_text:
            _set_clip(painter, batch.clip)
            _draw_rects(batch, painter, picture.scale)
    painter.restore()


@lru_cache(maxsize=4096)
def color_of(argb: int) -> QColor:
    """Return the QColor of 0xAARRGGBB. Shared: do not change it."""
    return QColor.fromRgba(argb)


class _Shapes(Enum):
    """What pictures become where a target keeps shapes."""

    BOXES = 0
    PICTURES = 1


def _draw_batch(
    batch: Batch, painter: QPainter, scale: float, shapes: _Shapes | None
) -> None:
    if isinstance(batch, RectBatch):
        # A generator has no device pixels and ignores the scale of a tile brush.
        keeps_shapes = shapes is not None
        _draw_rects(batch, painter, 1.0 if keeps_shapes else scale, keeps_shapes)
    elif isinstance(batch, ImageBatch):
        if shapes is _Shapes.BOXES:
            _draw_boxes(batch, painter)
        else:
            _draw_image(batch, painter, scale, vector=shapes is not None)
    elif isinstance(batch, LineBatch):
        _draw_lines(batch, painter)
    elif isinstance(batch, AreaBatch):
        _draw_area(batch, painter)


def _set_clip(painter: QPainter, clip: Clip | None) -> None:
    if clip is None:
        painter.setClipping(False)
    else:
        painter.setClipRect(QRectF(clip.x, clip.y, clip.width, clip.height))


def _draw_rects(
    batch: RectBatch,
    painter: QPainter,
    scale: float,
    keeps_shapes: bool = False,
) -> None:
    if not len(batch.fill):
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, batch.radius > 0)
    place = _places(batch.x0, batch.y0, batch.x1 - batch.x0, batch.y1 - batch.y0)
    columns: list[npt.NDArray[np.generic]] = [batch.fill]
    columns += [] if batch.border is None else [batch.border]
    columns += [] if batch.pattern is None else [batch.pattern]
    for rows, look in _groups(*columns):
        fill, *others = look
        kind = 0 if batch.pattern is None else others.pop()
        edge = others.pop() if others else 0
        if batch.radius > 0:
            _draw_rounded(place[rows], fill, edge, batch.radius, painter)
            continue
        rects = place[rows]
        if edge >> 24 and fill >> 24 == 255 and kind == Pattern.SOLID:
            _fill(painter, rects, QBrush(color_of(edge)))
            rects = _inner(place[rows])
            edge = 0
        if fill >> 24:
            base = kind in (Pattern.SOLID, Pattern.DOTTED)
            if base:
                _fill(painter, rects, QBrush(color_of(fill)))
            if kind != Pattern.SOLID:
                marks = None
                if keeps_shapes:
                    marks = pattern_marks(place[rows], Pattern(kind))
                if marks is None:
                    least_px = 1 if keeps_shapes else _TILE_PX
                    brush = _pattern_brush(fill, Pattern(kind), scale, least_px)
                    _fill(painter, rects, brush)
                else:
                    _draw_marks(painter, marks, fill, Pattern(kind))
        if edge >> 24:
            _fill(painter, _edges(place[rows]), QBrush(color_of(edge)))


def _places(*columns: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return four numbers of each shape side by side, in the doubles that Qt takes."""
    place = np.empty((len(columns[0]), 4))
    for i, column in enumerate(columns):
        place[:, i] = column
    return place


def _groups(
    *columns: npt.NDArray[np.generic],
) -> Iterator[tuple[npt.NDArray[np.intp] | slice, tuple[int, ...]]]:
    """Yield (rows, values) for each distinct combination, in order of first use."""
    if not len(columns[0]):
        return
    if len(columns[0]) <= _FEW_SHAPES:
        groups: dict[tuple[int, ...], list[int]] = {}
        looks = list(zip(*(column.tolist() for column in columns), strict=True))
        if looks.count(looks[0]) == len(looks):
            yield slice(None), looks[0]
            return
        for row, look in enumerate(looks):
            groups.setdefault(look, []).append(row)
        for look, some in groups.items():
            yield np.array(some, np.intp), look
        return
    order = np.lexsort(columns[::-1])
    change = np.zeros(len(order), bool)
    change[0] = True
    for column in columns:
        ordered = column[order]
        change[1:] |= ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(change)
    pieces = np.split(order, starts[1:])
    for rows in sorted(pieces, key=lambda piece: int(piece[0])):
        yield rows, tuple(int(column[rows[0]]) for column in columns)


def _inner(place: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return rectangles without their one pixel border; never of negative size."""
    inner: npt.NDArray[np.float64] = place + np.array([1.0, 1.0, -2.0, -2.0])
    inner[:, 2:] = np.maximum(inner[:, 2:], 0)
    return inner


def _edges(place: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return four one pixel wide rectangles per rectangle: its border."""
    x, y, w, h = place.T
    one = np.ones_like(x)
    tall = np.maximum(h - 2, 0)
    return np.concatenate(
        [
            np.stack([x, y, w, one], 1),
            np.stack([x, y + h - 1, w, one], 1),
            np.stack([x, y + 1, one, tall], 1),
            np.stack([x + w - 1, y + 1, one, tall], 1),
        ]
    )


def _fill(painter: QPainter, place: npt.NDArray[np.floating], brush: QBrush) -> None:
    """Fill rectangles, float[n, 4]: x, y, width, height of each."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(brush)
    numbers = np.ascontiguousarray(place, np.float64)
    if len(numbers):
        painter.drawRects(_first(numbers, QRectF), len(numbers))


def _first(numbers: npt.NDArray[np.float64], kind: type[QRectF | QLineF]) -> Any:
    """Return the first of n shapes of four numbers each, with the others behind it.

    An object for each would take several times as long as drawing them. It is of no
    use once the numbers are gone.
    """
    return shiboken6.wrapInstance(numbers.__array_interface__["data"][0], kind)


def _draw_rounded(
    place: npt.NDArray[np.float64],
    fill: int,
    edge: int,
    radius: float,
    painter: QPainter,
) -> None:
    painter.setBrush(
        QBrush(color_of(fill)) if fill >> 24 else QBrush(Qt.BrushStyle.NoBrush)
    )
    inset = 0.0
    if edge >> 24:
        painter.setPen(QPen(color_of(edge), 1.0))
        inset = 0.5
    else:
        painter.setPen(Qt.PenStyle.NoPen)
    for x, y, w, h in place.tolist():
        rect = QRectF(x + inset, y + inset, w - 2 * inset, h - 2 * inset)
        r = min(radius, rect.width() / 2, rect.height() / 2)
        painter.drawRoundedRect(rect, r, r)


@lru_cache(maxsize=512)
def _pattern_brush(
    fill: int, pattern: Pattern, scale: float, least_px: int = 1
) -> QBrush:
    """Return a tile brush whose tile pixels are device pixels.

    `least_px` is the least width of its tile: wide ones are drawn several times as
    fast, as each row of pixels is a copy for each tile that it meets.
    """
    period = max(2, round(HATCH_PERIOD[pattern] * scale))
    line = max(1, round(HATCH_LINE[pattern] * scale))
    y, x = np.mgrid[0:period, 0:period]
    if pattern is Pattern.DOTTED:
        marked = (x < line) & (y < line)
        color = shade(fill)
    else:
        marked = (x + y) % period < line
        color = fill
    pixels = np.where(marked, np.uint32(color), np.uint32(0)).astype(np.uint32)
    pixels = np.tile(pixels, (1, -(-least_px // period)))
    tile = QImage(
        pixels.tobytes(),
        pixels.shape[1],
        period,
        pixels.shape[1] * 4,
        QImage.Format.Format_ARGB32,
    )
    # Also a copy, for these bytes go away.
    premultiplied = QImage.Format.Format_ARGB32_Premultiplied
    brush = QBrush(tile.convertToFormat(premultiplied))
    brush.setTransform(QTransform.fromScale(1 / scale, 1 / scale))
    return brush


def pattern_marks(
    place: npt.NDArray[np.float64], pattern: Pattern
) -> npt.NDArray[np.float64] | None:
    """Return the lines or dots of a pattern in rectangles, float64[n, 4].

    Parameters
    ----------
    place : float64[m, 4], x, y, width, height.

    Returns
    -------
    x0, y0, x1, y1 of lines, or x, y, width, height of dots; None where there are more
    than a file should hold.
    """
    step = HATCH_PERIOD[pattern]
    x, y, width, height = place.T
    if pattern is Pattern.DOTTED:
        if (width * height).sum() / step**2 > MAX_BOXES:
            return None
        dots = [_dots(*one, step) for one in zip(x, y, width, height, strict=True)]
        return np.concatenate([np.zeros((0, 4)), *dots])
    # Lines x + y = k * step, cut to their rectangle.
    first = np.ceil((x + y) / step).astype(np.int64)
    n = np.maximum(np.floor((x + y + width + height) / step).astype(np.int64), first)
    n += 1 - first
    if n.sum() > MAX_BOXES:
        return None
    which = np.repeat(np.arange(len(n)), n)
    order = np.arange(len(which)) - np.repeat(np.cumsum(n) - n, n)
    along = (first[which] + order) * step
    left, top = x[which], y[which]
    right, bottom = left + width[which], top + height[which]
    low = np.maximum(left, along - bottom)
    high = np.minimum(right, along - top)
    lines = np.stack([low, along - low, high, along - high], axis=1)
    marks: npt.NDArray[np.float64] = lines[high > low]
    return marks


def _dots(
    x: float, y: float, width: float, height: float, step: float
) -> npt.NDArray[np.float64]:
    """Return the dots of a rectangle, cut to it: x, y, width, height."""
    size = HATCH_LINE[Pattern.DOTTED]
    across = np.arange(np.floor(x / step), np.ceil((x + width) / step)) * step
    down = np.arange(np.floor(y / step), np.ceil((y + height) / step)) * step
    left, top = (part.ravel() for part in np.meshgrid(across, down))
    x0, y0 = np.maximum(left, x), np.maximum(top, y)
    x1 = np.minimum(left + size, x + width)
    y1 = np.minimum(top + size, y + height)
    seen = (x1 > x0) & (y1 > y0)
    dots: npt.NDArray[np.float64] = np.stack([x0, y0, x1 - x0, y1 - y0], 1)[seen]
    return dots


def _draw_marks(
    painter: QPainter, marks: npt.NDArray[np.float64], fill: int, pattern: Pattern
) -> None:
    if pattern is Pattern.DOTTED:
        _fill(painter, marks, QBrush(color_of(shade(fill))))
        return
    # The period counts along x; a line at 45° is narrower by √2.
    pen = QPen(color_of(fill), HATCH_LINE[pattern] / 2**0.5)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    if len(marks):
        painter.drawLines(_first(np.ascontiguousarray(marks), QLineF), len(marks))


def shade(fill: int) -> int:
    """Return the colour of the dots on `fill`."""
    out = fill & 0xFF000000
    for shift in (0, 8, 16):
        out |= int(((fill >> shift) & 255) * DOT_SHADE) << shift
    return out


def _draw_image(
    batch: ImageBatch, painter: QPainter, scale: float, *, vector: bool
) -> None:
    painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, on=False)
    if vector:
        _draw_whole_image(batch, painter, scale)
        return
    pixels = np.ascontiguousarray(batch.pixels)
    rows, columns = pixels.shape
    # Nothing to mix where all texels are opaque: that is many times faster, but not
    # worth the look at each of a small picture, or where a row says no.
    is_opaque = pixels.size >= _LARGE_PICTURE and all(
        np.bitwise_and.reduce(part, axis=None) >> 24 == 255
        for part in (pixels[0], pixels)
    )
    form = QImage.Format.Format_RGB32 if is_opaque else _format_of(batch)
    image = QImage(pixels.data, columns, rows, columns * 4, form)
    width = batch.x1 - batch.x0
    for first, stop in _blocks(batch, scale) if batch.runs is None else batch.runs:
        top, bottom = float(batch.y0[first]), float(batch.y1[stop - 1])
        painter.drawImage(
            QRectF(batch.x0, top, width, bottom - top),
            image,
            QRectF(0, first, columns, stop - first),
        )


def _format_of(batch: ImageBatch) -> QImage.Format:
    if batch.premultiplied:
        return QImage.Format.Format_ARGB32_Premultiplied
    return QImage.Format.Format_ARGB32


def boxes_of(batch: ImageBatch) -> list[tuple[QRectF, int]]:
    """Return a picture as boxes and their colours, in drawing order.

    A box that is followed by an opaque one reaches a column under it: viewers smooth
    edges, and the ground would shine through between the two. Boxes of the same
    columns in rows that touch are one.
    """
    pixels = batch.straight()
    width = (batch.x1 - batch.x0) / max(pixels.shape[1], 1)
    boxes: list[tuple[QRectF, int]] = []
    above: dict[tuple[int, int, int, bool], QRectF] = {}
    above_y1 = float("nan")
    for row, (y0, y1) in enumerate(
        zip(batch.y0.tolist(), batch.y1.tolist(), strict=True)
    ):
        line = pixels[row]
        first = np.flatnonzero(np.append(True, line[1:] != line[:-1]))
        color, is_opaque = line[first], line[first] >> 24 == 255
        before_opaque = is_opaque & np.append(is_opaque[1:], False)
        stop = np.append(first[1:], len(line))
        columns = first.tolist(), stop.tolist(), color.tolist(), before_opaque.tolist()
        runs = list(zip(*columns, strict=True))
        known = above if y0 == above_y1 else {}
        above, above_y1 = {}, y1
        for number, run in enumerate(runs):
            left, end, argb, reaches = run
            if not argb >> 24:
                continue
            if run in known:
                above[run] = known[run]
                known[run].setBottom(y1)
                continue
            # A box that goes on from the row above is drawn already.
            reaches = reaches and runs[number + 1] not in known
            x0, x1 = batch.x0 + left * width, batch.x0 + (end + reaches) * width
            above[run] = rect = QRectF(x0, y0, x1 - x0, y1 - y0)
            boxes.append((rect, argb))
    return boxes


def _draw_boxes(batch: ImageBatch, painter: QPainter) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
    for color, group in groupby(boxes_of(batch), key=lambda box: box[1]):
        place = np.array([rect.getRect() for rect, _ in group])
        _fill(painter, place, QBrush(color_of(color)))


def _blocks(batch: ImageBatch, scale: float) -> list[tuple[int, int]]:
    """Return the runs of rows that one call draws, half-open, without empty rows.

    Rows one device pixel high, each right below the last, are one run; any other row
    is a run of its own.
    """
    near = _NEAR_PX / scale
    step = batch.y0[1:] - batch.y0[:-1]
    is_pixel = np.abs(batch.y1 - batch.y0 - 1 / scale) < near
    goes_on = is_pixel[1:] & is_pixel[:-1] & (np.abs(step - 1 / scale) < near)
    begins = np.append(0, np.flatnonzero(~goes_on) + 1)
    ends = np.append(begins[1:], len(batch.y0))
    is_single = ends - begins == 1
    if is_single.any():
        # A look at each texel of whole blocks would take longer than drawing them.
        single = begins[is_single]
        rows = batch.pixels if is_single.all() else batch.pixels[single]
        is_drawn = np.ones(len(begins), np.bool_)
        is_drawn[is_single] = np.bitwise_or.reduce(rows, axis=1) != 0
        begins, ends = begins[is_drawn], ends[is_drawn]
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _draw_whole_image(batch: ImageBatch, painter: QPainter, scale: float) -> None:
    """Draw the rows as one picture with a texel per device pixel."""
    if not len(batch.y0):
        return
    top, bottom = float(batch.y0.min()), float(batch.y1.max())
    height = max(round((bottom - top) * scale), 1)
    whole = np.zeros((height, batch.pixels.shape[1]), np.uint32)
    for row, (y0, y1) in enumerate(
        zip(batch.y0.tolist(), batch.y1.tolist(), strict=True)
    ):
        a, b = round((y0 - top) * scale), round((y1 - top) * scale)
        whole[a:b] = batch.pixels[row]
    columns = whole.shape[1]
    image = QImage(whole.data, columns, height, columns * 4, _format_of(batch))
    painter.drawImage(
        QRectF(batch.x0, top, batch.x1 - batch.x0, bottom - top),
        image,
        QRectF(0, 0, columns, height),
    )


def _draw_lines(batch: LineBatch, painter: QPainter) -> None:
    straight = (batch.x0 == batch.x1) | (batch.y0 == batch.y1)
    if not batch.dashed and straight.all():
        _draw_straight(batch, painter)
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, not straight.all())
    place = _places(batch.x0, batch.y0, batch.x1, batch.y1)
    for rows, (color,) in _groups(batch.color):
        pen = QPen(color_of(color), batch.width)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        if batch.dashed:
            pen.setDashPattern([DASH_PX / batch.width, DASH_PX / batch.width])
        painter.setPen(pen)
        lines = place[rows]
        painter.drawLines(_first(lines, QLineF), len(lines))


def _draw_straight(batch: LineBatch, painter: QPainter) -> None:
    """Draw upright and level lines as rectangles: exact at every scale."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
    is_upright = batch.x0 == batch.x1
    # As wide as the line is, to either side of where it runs.
    width = np.float32(batch.width)
    across, along = np.where(is_upright, width, 0), np.where(is_upright, 0, width)
    left, top = np.minimum(batch.x0, batch.x1), np.minimum(batch.y0, batch.y1)
    place = _places(
        left - across / 2, top - along / 2,
        np.abs(batch.x1 - batch.x0) + across, np.abs(batch.y1 - batch.y0) + along,
    )  # fmt: skip
    for rows, (color,) in _groups(batch.color):
        if color >> 24:
            _fill(painter, place[rows], QBrush(color_of(color)))


def _draw_area(batch: AreaBatch, painter: QPainter) -> None:
    if not len(batch.y):
        return
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
    if batch.fill >> 24 and painter.paintEngine().type() == _RASTER:
        # A polygon of a thousand edges takes the raster engine 80 ms.
        _fill_steps(batch, painter)
    elif batch.fill >> 24:
        ends = float(batch.x[-1]), float(batch.x[0])
        corners = [[x, batch.base] for x in ends]
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(color_of(batch.fill))
        painter.drawPolygon(_polygon(np.concatenate([_step_points(batch), corners])))
    if batch.line >> 24:
        painter.setPen(QPen(color_of(batch.line), 1.0))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(_polygon(_step_points(batch)))


def _step_points(batch: AreaBatch) -> npt.NDArray[np.float64]:
    """Return the corners of the steps, from left to right, float64[n, 2]."""
    y = batch.y
    is_step = np.ones(len(y), np.bool_)
    is_step[1:] = y[1:] != y[:-1]
    x = np.append(batch.x[:-1][is_step], batch.x[-1])
    xs, ys = np.repeat(x, 2)[1:-1], np.repeat(y[is_step], 2)
    return np.stack([xs, ys], axis=1).astype(np.float64)


def _polygon(points: npt.NDArray[np.float64]) -> QPolygonF:
    """Return float64[n, 2] as a polygon; a point object each would take 500 times."""
    polygon = QPolygonF()
    polygon.resize(len(points))
    pointer: Any = shiboken6.VoidPtr  # whose stub knows addresses alone
    memory = pointer(polygon.data(), points.nbytes, True)
    np.frombuffer(memory, np.float64)[:] = points.ravel()
    return polygon


def _fill_steps(batch: AreaBatch, painter: QPainter) -> None:
    """Fill the pixels whose middle lies between the steps and the base."""
    device = painter.deviceTransform()
    scale, dy = device.m22(), device.dy()
    y, x = batch.y.astype(np.float64), batch.x.astype(np.float64)
    ends = np.minimum(y, batch.base), np.maximum(y, batch.base)
    top, bottom = (np.ceil(end * scale + dy - 0.5) for end in ends)
    left = x * device.m11() + device.dx()
    columns = np.rint(left)
    width = np.diff(columns).astype(np.int64)
    is_small = 0 < width.sum() * (bottom.max() - top.min()) <= _MAX_STEP_PIXELS
    if is_small and (np.abs(left - columns) < _NEAR_PX).all():
        image = _step_image(width, top, bottom, batch.fill)
        area = QRectF(
            float(x[0]), (float(top.min()) - dy) / scale,
            image.width() / device.m11(), image.height() / scale,
        )  # fmt: skip
        painter.drawImage(area, image)
        return
    y0, y1 = (top - dy) / scale, (bottom - dy) / scale
    place = np.stack([x[:-1], y0, np.diff(x), y1 - y0], axis=1)
    solid = place[y1 > y0].astype(np.float32)
    _fill(painter, solid, QBrush(color_of(batch.fill)))


def _step_image(
    width: npt.NDArray[np.int64],
    top: npt.NDArray[np.float64],
    bottom: npt.NDArray[np.float64],
    color: int,
) -> QImage:
    """Return steps that begin and end at device pixels.

    A thousand rectangles take ten times as long.
    """
    low, high = int(top.min()), int(bottom.max())
    n = int(width.sum())
    first, stop = (np.repeat(ends, width).astype(np.int32) for ends in (top, bottom))
    alpha = color >> 24
    parts = [(color >> shift & 0xFF) * alpha // 255 for shift in (16, 8, 0)]
    fill = alpha << 24 | parts[0] << 16 | parts[1] << 8 | parts[2]
    pixels = np.empty((high - low, n), np.uint32)
    library().ggscope_texels_steps(first, stop, n, low, high, fill, pixels)
    form = QImage.Format.Format_ARGB32_Premultiplied
    return QImage(pixels.data, n, high - low, 4 * n, form).copy()


def _draw_texts(texts: tuple[Text, ...], painter: QPainter) -> None:
    if not texts:
        return
    clip = texts[0].clip
    _set_clip(painter, clip)
    letters: tuple[Face, float] | None = None
    color: int | None = None
    for item in texts:
        if item.clip is not clip:
            clip = item.clip
            _set_clip(painter, clip)
        face, size = item.face, item.size
        text, dx, dy = placed_text(item.text, face, size, item.width, item.align)
        if not text:
            continue
        if letters != (face, size):
            letters = (face, size)
            painter.setFont(font(face, size))
        if color != item.color:
            color = item.color
            painter.setPen(color_of(item.color))
        painter.drawText(QPointF(round(item.x - dx), round(item.y + dy)), text)
