"""Cache of the parts of a picture that do not change between frames."""

from dataclasses import replace

from PySide6.QtGui import QImage, QPainter

from ggscope.render.batch import Clip, DisplayList, Face, StaticLayer
from ggscope.render.painter import paint
from ggscope.render.text_metrics import font


class StaticLayerCache:
    """Caches the images of the static layers of the last picture."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[tuple[object, ...], QImage]] = {}

    def image(self, picture: DisplayList, layer: StaticLayer, area: Clip) -> QImage:
        """Return an image of the batches of a layer, which lie in `area`."""
        number = picture.still.index(layer)
        batches = picture.batches[layer.first : layer.stop]
        scale, background = picture.scale, picture.background
        # Batches are equal where they are the same objects.
        key = (area, scale, background, font(Face.UI, 12.0), *batches)
        cached = self._images.get(number)
        if cached is not None and cached[0] == key:
            return cached[1]
        image = QImage(
            round(area.width * scale),
            round(area.height * scale),
            QImage.Format.Format_RGB32,
        )
        image.setDevicePixelRatio(scale)
        painter = QPainter(image)
        try:
            painter.translate(-area.x, -area.y)
            part = replace(picture, batches=batches, still=(), covered=None)
            paint(part, painter)
        finally:
            painter.end()
        self._images[number] = key, image
        return image
