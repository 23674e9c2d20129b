"""Points of the 3D view by OpenGL: scatter plots of pyqtgraph, seen by our own camera.

Importing pyqtgraph takes half a second: this module is imported by a worker, when the
view is drawn by OpenGL for the first time.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QMatrix4x4, QPainter
from PySide6.QtOpenGL import QOpenGLVertexArrayObject
from PySide6.QtWidgets import QWidget

from ggscope.render.batch import U32, DisplayList
from ggscope.render.gl.base import gl_module
from ggscope.render.painter import paint
from ggscope.render.points import (
    F64,
    HIGHLIGHT_SIZE,
    PointsGeometry,
    PointsScene,
    points_overlay,
)
from ggscope.views.base.canvas import GlCanvas, GlHost
from ggscope.views.base.view import guarded

# PyOpenGL decides at its import whether it speaks GLX or EGL.
GL: Any = gl_module()

from pyqtgraph.opengl.items.GLScatterPlotItem import (  # noqa: E402 - see above
    GLScatterPlotItem,
)


class PointsHost(GlHost, Protocol):
    """What the canvas needs of the 3D view."""

    def scene(self, width: float, height: float, scale: float) -> PointsScene | None:
        """Return what the picture is drawn from."""
        ...


class _Points(GLScatterPlotItem):
    """Points of one context: its own shaders and buffers.

    pyqtgraph shares the shaders of all contexts in the class, of which another window's
    knows nothing.
    """

    pos: Any
    dirty_bits: Any

    def __init__(self) -> None:
        super().__init__(glOptions="opaque", pxMode=True)
        self._program: Any = None
        self._matrix = QMatrix4x4()

    def getShaderProgram(self) -> Any:
        """Return the program of this context."""
        if self._program is None:
            GLScatterPlotItem._shaderProgram = None
            self._program = GLScatterPlotItem.getShaderProgram()
            GLScatterPlotItem._shaderProgram = None
        return self._program

    def mvpMatrix(self) -> QMatrix4x4:
        """Return what leads to clip space."""
        return self._matrix

    def draw(self, matrix: F64, n_shown: int, size: float) -> None:
        """Draw the first points into the current context."""
        if self.dirty_bits:  # whole buffers, of which a part is drawn
            self.upload_vbo(self.m_vbo_position, self.pos)
            self.upload_vbo(self.m_vbo_color, self.color)
            self.dirty_bits = type(self.dirty_bits)(0)
        self._matrix = QMatrix4x4(*matrix.ravel().tolist())
        self.size = size
        every, self.pos = self.pos, self.pos[:n_shown]
        try:
            self.paint()
        finally:
            self.pos = every


@guarded
class PointsCanvas(GlCanvas):
    """Walls by our own painter, points by pyqtgraph, words on top by QPainter."""

    def __init__(self, host: PointsHost, parent: QWidget) -> None:
        super().__init__(host, parent)
        self._points_host = host
        self._objects: tuple[_Points, _Points, QOpenGLVertexArrayObject] | None = None
        self._uploaded: tuple[object, ...] = ()

    def build(self) -> None:
        """Make points and their array for a context that has just been made."""
        array = QOpenGLVertexArrayObject(self)
        array.create()
        self._objects, self._uploaded = (_Points(), _Points(), array), ()

    def free(self) -> None:
        """Free them, while their context is current."""
        if self._objects is None:
            return
        for item in self._objects[:2]:
            item.m_vbo_position.destroy()
            item.m_vbo_color.destroy()
        self._objects[2].destroy()
        self._objects, self._uploaded = None, ()

    def draw(self, picture: DisplayList) -> None:
        """Draw walls, then the points of the view, then what lies over them."""
        super().draw(picture)
        size = (picture.width, picture.height, picture.scale)
        scene = self._points_host.scene(*size)
        if scene is None or self._objects is None:
            return
        self._draw_points(scene)
        over = DisplayList(*size, 0, tuple(points_overlay(scene)))
        painter = QPainter(self)
        try:
            painter.scale(self.zoom, self.zoom)
            paint(over, painter)
        finally:
            painter.end()

    def _draw_points(self, scene: PointsScene) -> None:
        assert self._objects is not None
        points, highlighted_points, array = self._objects
        self._upload(scene, points, highlighted_points)
        geometry, scale = PointsGeometry(scene), scene.scale
        GL.glViewport(
            0, 0, max(round(geometry.box_width * scale), 1),
            max(round(scene.height * scale), 1),
        )  # fmt: skip
        GL.glDepthMask(True)
        size = 2 * scene.radius * scale
        array.bind()
        try:
            GL.glClear(GL.GL_DEPTH_BUFFER_BIT)
            points.draw(geometry.matrix, scene.n_shown, size)
            if len(highlighted_points.pos):
                n_highlighted = int(
                    np.count_nonzero(_highlighted(scene)[: scene.n_shown])
                )
                GL.glClear(GL.GL_DEPTH_BUFFER_BIT)
                highlighted_points.draw(
                    geometry.matrix, n_highlighted, size * HIGHLIGHT_SIZE
                )
        finally:
            array.release()
            GL.glUseProgram(0)
            GL.glDisable(GL.GL_DEPTH_TEST)
            GL.glDisable(GL.GL_PROGRAM_POINT_SIZE)
            GL.glViewport(
                0, 0, max(round(scene.width * scale), 1),
                max(round(scene.height * scale), 1),
            )  # fmt: skip

    def _upload(
        self, scene: PointsScene, points: _Points, highlighted_points: _Points
    ) -> None:
        """Hand over what is not on the card yet."""
        uploaded = (scene.xyz, scene.colors, scene.is_highlighted, scene.theme)
        is_same = len(self._uploaded) == len(uploaded) and all(
            a is b for a, b in zip(uploaded, self._uploaded, strict=True)
        )
        if is_same:
            return
        points.setData(pos=scene.xyz, color=_channels(scene.shown_colors()))
        highlighted = np.flatnonzero(_highlighted(scene))
        highlighted_points.setData(
            pos=scene.xyz[highlighted], color=_channels(scene.colors[highlighted])
        )
        self._uploaded = uploaded


def _highlighted(scene: PointsScene) -> npt.NDArray[np.bool_]:
    """Return which points are drawn over all others, bool[n]."""
    if scene.is_highlighted is None or not scene.has_some_highlighted:
        return np.zeros(len(scene.xyz), np.bool_)
    return scene.is_highlighted


def _channels(colors: U32) -> npt.NDArray[np.float32]:
    """Return red, green, blue and opacity, float32[n, 4] of 0..1."""
    out = np.empty((len(colors), 4), np.float32)
    for k, shift in enumerate((16, 8, 0, 24)):
        out[:, k] = (colors >> np.uint32(shift) & np.uint32(255)) / np.float32(255)
    return out
