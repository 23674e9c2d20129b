"""Cache of the parts of a picture that do not change between frames."""

from dataclasses import replace

from PySide6.QtGui import QImage, QPainter

from ggscope.render.batch import Batch, Clip, DisplayList, Face, StaticLayer
from ggscope.render.painter import paint
from ggscope.render.text_metrics import font


class StaticLayerCache:
    """Caches the images of the static layers of the last picture."""

    def __init__(self) -> None:
        self._images: list[tuple[tuple[object, ...], QImage]] = []
        self._last = self._images

    def begin(self) -> None:
        """Begin another picture: images that the last one did without are dropped."""
        self._last, self._images = self._images, []

    def image(self, picture: DisplayList, layer: StaticLayer, area: Clip) -> QImage:
        """Return an image of the batches of a layer, which lie in `area`."""
        batches = picture.batches[layer.first : layer.stop]
        scale, background = picture.scale, picture.background
        # Batches are equal where they are the same objects.
        key = (area, scale, background, font(Face.UI, 12.0), *batches)
        image = next((image for known, image in self._last if known == key), None)
        if image is None:
            image = _painted(picture, batches, area)
        self._images.append((key, image))
        return image


def _painted(picture: DisplayList, batches: tuple[Batch, ...], area: Clip) -> QImage:
    """Return an image of some batches of a picture on its background."""
    scale = picture.scale
    size = round(area.width * scale), round(area.height * scale)
    image = QImage(*size, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    painter = QPainter(image)
    try:
        painter.translate(-area.x, -area.y)
        part = replace(picture, batches=batches, still=(), covered=None)
        paint(part, painter)
    finally:
        painter.end()
    return image
