"""Cache of the part of a picture that does not change between frames."""

from dataclasses import replace

from PySide6.QtGui import QImage, QPainter

from ggscope.render.batch import Clip, DisplayList, Face, StaticLayer
from ggscope.render.painter import paint
from ggscope.render.text_metrics import font


class StaticLayerCache:
    """Caches the image of the static layer of the last picture."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._image = QImage()

    def image(self, picture: DisplayList, layer: StaticLayer, area: Clip) -> QImage:
        """Return an image of the batches of `layer`, which lie in `area`."""
        batches = picture.batches[layer.first : layer.stop]
        scale, background = picture.scale, picture.background
        # Batches are equal where they are the same objects.
        key = (area, scale, background, font(Face.WORDS, 12.0), *batches)
        if key != self._key:
            self._key = key
            self._image = QImage(
                round(area.width * scale),
                round(area.height * scale),
                QImage.Format.Format_RGB32,
            )
            self._image.setDevicePixelRatio(scale)
            painter = QPainter(self._image)
            try:
                painter.translate(-area.x, -area.y)
                paint(replace(picture, batches=batches, still=None), painter)
            finally:
                painter.end()
        return self._image
