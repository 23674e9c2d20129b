"""Where one looks at a graph from: a corner and a zoom, without Qt."""

from dataclasses import dataclass

from ggscope.render.compose_graph_scene import MAX_ZOOM, MIN_ZOOM

_AIR = 24.0
"""Pixels around what is fitted."""
READABLE_ZOOM = 0.62
"""From here on boxes have all their words."""


@dataclass(slots=True)
class Camera:
    """The point (x, y) of the layout is at the top left, one unit is `zoom` pixels.

    Attributes
    ----------
    is_set : whether anything was fitted yet.
    """

    x: float = 0.0
    y: float = 0.0
    zoom: float = 1.0
    is_set: bool = False

    def pan(self, dx: float, dy: float) -> None:
        """Move the picture by so many pixels."""
        self.x -= dx / self.zoom
        self.y -= dy / self.zoom

    def zoom_at(self, factor: float, px: float, py: float) -> None:
        """Zoom; what is at pixel (px, py) stays there."""
        x, y = self.x + px / self.zoom, self.y + py / self.zoom
        self.zoom = min(max(self.zoom * factor, MIN_ZOOM), MAX_ZOOM)
        self.x, self.y = x - px / self.zoom, y - py / self.zoom

    def centre(self, x: float, y: float, width: float, height: float) -> None:
        """Bring a point of the layout to the middle of the picture."""
        self.x = x - width / 2 / self.zoom
        self.y = y - height / 2 / self.zoom
        self.is_set = True

    def fit(
        self,
        box: tuple[float, float, float, float],
        width: float,
        height: float,
        most: float = 1.5,
    ) -> None:
        """Show a box (x0, y0, x1, y1) of the layout whole, at most `most` large."""
        x0, y0, x1, y1 = box
        room = max(width - 2 * _AIR, 1.0), max(height - 2 * _AIR, 1.0)
        zoom = min(room[0] / max(x1 - x0, 1.0), room[1] / max(y1 - y0, 1.0), most)
        self.zoom = min(max(zoom, MIN_ZOOM), MAX_ZOOM)
        self.centre((x0 + x1) / 2, (y0 + y1) / 2, width, height)

    def open_on(
        self, layout_width: float, layout_height: float, width: float, height: float
    ) -> None:
        """Show a graph for the first time: whole if it can be read, else its head."""
        whole = (0.0, 0.0, layout_width, layout_height)
        self.fit(whole, width, height, 1.0)
        if self.zoom >= READABLE_ZOOM:
            return
        across = (width - 2 * _AIR) / max(layout_width, 1.0)
        self.zoom = min(1.0, max(across, READABLE_ZOOM + 0.1))
        self.centre(layout_width / 2, 0.0, width, height)
        self.y = -_AIR / self.zoom

    def keep_in(
        self, layout_width: float, layout_height: float, width: float, height: float
    ) -> None:
        """Move back to where a part of the graph is in the picture."""
        half = width / 2 / self.zoom, height / 2 / self.zoom
        self.x = min(max(self.x, -half[0]), layout_width - half[0])
        self.y = min(max(self.y, -half[1]), layout_height - half[1])


__all__ = ["READABLE_ZOOM", "Camera"]
