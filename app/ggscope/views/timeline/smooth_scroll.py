"""Moves the picture of a program that runs on between two snapshots of it.

A snapshot comes some thirty times a second at best. Its picture is drawn a little
beyond the right edge of the view and kept; sixty times a second it is put on the screen
again, by whole pixels further to the left. So each column shows what it showed, at its
time, and beyond the newest snapshot there is nothing, as before.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QImage, QPainter

from ggscope.model.units import TimeRange
from ggscope.render.batch import Batch, DisplayList, Text, TextBatch
from ggscope.render.painter import HATCH_PERIOD, paint, paint_texts
from ggscope.render.static_layer import StaticLayerCache
from ggscope.render.timeline.scene import TimelineScene, time_scale
from ggscope.session.scheduler import FrameClient, FrameScheduler

FRAME_S = 0.016
AHEAD_S = 0.15
"""So much is drawn beyond the right edge; a snapshot that is later finds the picture
standing."""
_BEFORE_S = 0.02
"""The picture runs ahead of its snapshots by so much, which come unevenly."""
_CALM_S = 0.4
"""In so long two thirds of an unevenness are made up for."""
_MAX_SHARE = 4
"""One part in so many of the view may be drawn beyond the edge."""


class Composer(Protocol):
    """What a picture that moves needs of its view."""

    def scene(self, width: float, height: float, scale: float) -> TimelineScene | None:
        """Return what a picture of this size is composed from."""
        ...

    def compose_scene(self, scene: TimelineScene) -> DisplayList:
        """Return the picture of a scene."""
        ...


@dataclass(frozen=True, slots=True)
class _ComposedPicture:
    """A picture of which a part is on the screen.

    Attributes
    ----------
    place : size, ratio and zoom of the canvas that it was made for.
    left, ahead : device pixels of the headers, and of what is beyond the right edge.
    end : tick at which the view ends where nothing has moved.
    px_per_tick : device pixels.
    standing : texts that keep to the left edge of the lanes, where their spans are cut.
    """

    image: QImage
    place: tuple[QSize, float, float]
    left: int
    ahead: int
    end: int
    px_per_tick: float
    standing: tuple[Text, ...]


class Glide:
    """Draws a canvas whose picture moves on by itself.

    Attributes
    ----------
    rate : ticks in a second.
    n_frames : how often another part of a picture, or another picture, was drawn.
    """

    def __init__(
        self, view: Composer, frames: FrameScheduler, on_frame: Callable[[], object]
    ) -> None:
        self._view = view
        self._frame = FrameClient(frames, on_frame, FRAME_S)
        self._picture: _ComposedPicture | None = None
        self._still = StaticLayerCache()
        self._offset = -1
        # Where the view ends on the screen, in ticks after the end of the kept one, and
        # when that was; and when that picture was new.
        self._moved = self._moved_at = self._made_at = 0.0
        self.rate = 0
        self.n_frames = 0

    @property
    def is_moving(self) -> bool:
        """Whether another frame is to come."""
        return self._frame.is_dirty

    @property
    def offset(self) -> int:
        """The column of the picture that is drawn first; -1 = none was."""
        return self._offset

    @property
    def is_at_end(self) -> bool:
        """Whether the picture was shown to its end: it stands until the next one."""
        return self._picture is None or self._offset >= self._picture.ahead

    def stop(self) -> None:
        """Let go of the picture; the next one begins where it lies."""
        self._frame.cancel()
        self._picture = None

    def is_due(self) -> bool:
        """Return whether another part is to be drawn; request the next frame."""
        picture = self._picture
        if picture is None or self.is_at_end:
            return False
        self._frame.request()
        return self._next(picture) != self._offset

    def draw(self, painter: QPainter, size: QSize, zoom: float, *, anew: bool) -> bool:
        """Draw what is to be seen now; False where there is no picture.

        Parameters
        ----------
        painter : of a canvas of this size, in its device-independent pixels.
        zoom : how much larger the picture is drawn than designed.
        anew : whether something else than time has changed since the last one.
        """
        place = (size, painter.device().devicePixelRatioF(), zoom)
        picture = self._picture
        if anew or picture is None or picture.place != place:
            picture = self._make(*place)
            if picture is None:
                self.stop()
                return False
            self._take(picture)
        offset = self._next(picture)
        self.n_frames += offset != self._offset
        self._offset = offset
        _draw(painter, picture, offset)
        if offset < picture.ahead:
            self._frame.request()
        return True

    def _make(self, size: QSize, ratio: float, zoom: float) -> _ComposedPicture | None:
        scale = ratio * zoom
        width, height = size.width() / zoom, size.height() / zoom
        scene = self._view.scene(width, height, scale)
        if scene is None:
            return None
        time_ = time_scale(scene.visible, width, scene.header_width, scale)
        n, duration = time_.n_columns, time_.duration
        ahead = min(math.ceil(AHEAD_S * self.rate * n / duration), n // _MAX_SHARE)
        visible = time_.visible
        wider = replace(
            scene,
            width=width + ahead / scale,
            visible=TimeRange(visible.start, visible.end + duration * ahead // n),
            # What rests over a picture that moves points at nothing in it.
            hover_span=-1,
            cursor_tick=None,
        )
        picture, standing = _parted(self._view.compose_scene(wider))
        left = round(time_.x0 * scale)
        image = QImage(
            left + n + ahead, math.ceil(height * scale), QImage.Format.Format_RGB32
        )
        image.setDevicePixelRatio(scale)
        painter = QPainter(image)
        try:
            # Hatches move with what they lie on, from one picture to the next as well.
            period = math.lcm(*(round(p * scale) for p in HATCH_PERIOD.values()))
            shift = (left - visible.start * n // duration) % period
            painter.setBrushOrigin(QPointF(shift / scale, 0.0))
            paint(picture, painter, cache=self._still)
        finally:
            painter.end()
        place = (size, ratio, zoom)
        return _ComposedPicture(
            image, place, left, ahead, visible.end, n / duration, standing
        )

    def _take(self, picture: _ComposedPicture) -> None:
        """Go on with another picture where the last one has come to."""
        before, now, ahead = self._picture, time.monotonic(), AHEAD_S * self.rate
        moved = math.inf
        if before is not None:
            self._next(before)
            moved = before.end + self._moved - picture.end
        self._moved = moved if abs(moved) <= ahead else _BEFORE_S * self.rate
        self._moved_at = self._made_at = now
        self._picture, self._offset = picture, -1

    def _next(self, picture: _ComposedPicture) -> int:
        """Return by how many device pixels the picture is to be moved now."""
        now = time.monotonic()
        passed, self._moved_at = now - self._moved_at, now
        even = (now - self._made_at + _BEFORE_S) * self.rate
        moved = self._moved + passed * self.rate
        moved += (even - moved) * -math.expm1(-passed / _CALM_S)
        self._moved = min(moved, AHEAD_S * self.rate)
        return max(0, min(round(self._moved * picture.px_per_tick), picture.ahead))


def _parted(picture: DisplayList) -> tuple[DisplayList, tuple[Text, ...]]:
    """Return the picture without the texts that keep to the left edge, and these."""
    standing: list[Text] = []
    batches: list[Batch] = []
    for batch in picture.batches:
        if isinstance(batch, TextBatch):
            standing += [text for text in batch.texts if text.keeps_left]
            batch = TextBatch(tuple(t for t in batch.texts if not t.keeps_left))
        batches.append(batch)
    return replace(picture, batches=tuple(batches)), tuple(standing)


def _draw(painter: QPainter, picture: _ComposedPicture, offset: int) -> None:
    image, (_, ratio, zoom) = picture.image, picture.place
    height, width = image.height(), image.width() - picture.left - picture.ahead
    for x, source, wide in (
        (0, 0, picture.left),
        (picture.left, picture.left + offset, width),
    ):
        painter.drawImage(
            QRectF(x / ratio, 0, wide / ratio, height / ratio),
            image,
            QRectF(source, 0, wide, height),
        )
    moved = offset / (ratio * zoom)
    texts = [
        replace(text, width=text.width - moved)
        for text in picture.standing
        if text.width > moved
    ]
    if texts:
        painter.save()
        painter.scale(zoom, zoom)
        batches = (TextBatch(tuple(texts)),)
        paint_texts(DisplayList(width, height, batches=batches), painter)
        painter.restore()
