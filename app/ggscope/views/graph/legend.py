"""The legend of the graph pane, below the picture: it lies over no node."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.render.graph.marks import LEGEND_HEIGHT, legend_picture
from ggscope.render.painter import paint
from ggscope.views.base.view import guarded

if TYPE_CHECKING:
    from ggscope.views.graph.view import GraphView

_MIN_HEIGHT = 150
"""A pane lower than this leaves all of its height to the picture."""


@guarded
class LegendStrip(QWidget):
    """Says what the colours of the boxes mean."""

    def __init__(self, view: "GraphView") -> None:
        super().__init__(view)
        self._view = view
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Legend")
        self.hide()

    def refresh(self) -> None:
        """Show the legend of the picture; hide it in a low pane."""
        view = self._view
        is_shown = view.shown is not None and view.height() >= _MIN_HEIGHT
        self.setVisible(is_shown)
        self.update()

    def sizeHint(self) -> QSize:
        """Return the height of one line."""
        return QSize(200, round(LEGEND_HEIGHT * self._view.font_zoom))

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the pane likes."""
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the kinds, or the scale of amounts."""
        zoom, scene = self._view.font_zoom, self._view.scene_now()
        if scene is None:
            return
        scale = self.devicePixelRatioF() * zoom
        with QPainter(self) as painter:
            painter.scale(zoom, zoom)
            paint(legend_picture(scene, self.width() / zoom, scale), painter)
