"""The two surfaces that a display list can appear on: raster and OpenGL.

A canvas asks its host for the picture, draws it and hands every input event
back; it knows nothing about traces. OpenGL objects live and die with the
context: undocking a widget destroys its context, so everything is rebuilt in
``initializeGL`` and freed on ``aboutToBeDestroyed``.
"""

import logging
import os
from functools import cache, partial
from typing import Protocol

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import (
    QGuiApplication,
    QOffscreenSurface,
    QOpenGLContext,
    QPainter,
    QPaintEvent,
)
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QWidget

from ggscope.render.batch import DisplayList
from ggscope.render.gl.base import is_software
from ggscope.render.gl.painter import GlPainter
from ggscope.render.gl.store import BUDGET_BYTES
from ggscope.render.painter import StillPart, paint
from ggscope.render.timeline.scene import RowHolder
from ggscope.views.base.view import guarded, later

logger = logging.getLogger(__name__)

GL_RENDERER = 0x1F01
SEARCH_VARIABLE = "GGSCOPE_GPU_SEARCH"
"""Environment variable: 1 lets shaders search on every renderer, 0 on none."""
_INPUT = {
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseButtonRelease,
    QEvent.Type.MouseButtonDblClick,
    QEvent.Type.MouseMove,
    QEvent.Type.Wheel,
    QEvent.Type.Leave,
    QEvent.Type.NativeGesture,
    QEvent.Type.ToolTip,
    QEvent.Type.ContextMenu,
}


class CanvasHost(Protocol):
    """What a canvas needs of the view that owns it."""

    def picture(self, width: float, height: float, scale: float) -> DisplayList:
        """Return the picture for a canvas of this size."""
        ...

    def canvas_event(self, event: QEvent) -> bool:
        """Handle an input event; return whether it is done with."""
        ...

    def canvas_failed(self, message: str) -> None:
        """Note that OpenGL cannot draw; the host falls back to raster."""
        ...


class GlHost(CanvasHost, Protocol):
    """What a canvas on OpenGL needs beyond that."""

    def canvas_ready(self) -> None:
        """Note that `renderer_text` of the canvas has changed."""
        ...

    def search_failed(self, message: str) -> None:
        """Note that the graphics card cannot search; the processor does it."""
        ...


@guarded
class RasterCanvas(QWidget):
    """Draws by QPainter; the fastest way where OpenGL is emulated."""

    def __init__(self, host: CanvasHost, parent: QWidget) -> None:
        super().__init__(parent)
        self._host = host
        self.zoom = 1.0
        """How much larger the picture is drawn than designed: the font scale."""
        self._kept = StillPart()
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def event(self, event: QEvent) -> bool:
        """Hand input to the host."""
        if event.type() in _INPUT and self._host.canvas_event(event):
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the host's picture."""
        zoom = self.zoom
        picture = self._host.picture(
            self.width() / zoom, self.height() / zoom, self.devicePixelRatioF() * zoom
        )
        painter = QPainter(self)
        try:
            painter.scale(zoom, zoom)
            paint(picture, painter, kept=self._kept)
        finally:
            painter.end()

    def renderer_text(self) -> str:
        """Return what draws, for the status bar."""
        return "raster"

    def holder(self) -> RowHolder | None:
        """Return nothing: the processor finds all columns."""
        return None

    def minimumSizeHint(self) -> QSize:
        """Return a size that still shows an axis and two lanes."""
        return QSize(240, 80)


@guarded
class GlCanvas(QOpenGLWidget):
    """Draws rectangles and pictures by OpenGL, texts on top by QPainter."""

    def __init__(
        self, host: GlHost, parent: QWidget, gpu_bytes: int = BUDGET_BYTES
    ) -> None:
        super().__init__(parent)
        self._host = host
        self.zoom = 1.0
        """As for `RasterCanvas`."""
        self._gpu_bytes = gpu_bytes
        self._painter = GlPainter()
        self._renderer = "OpenGL"
        self._failed = False
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def event(self, event: QEvent) -> bool:
        """Hand input to the host."""
        if event.type() in _INPUT and self._host.canvas_event(event):
            return True
        return super().event(event)

    def initializeGL(self) -> None:
        """Build all GL objects for a context that has just been made."""
        if self._failed:
            return
        try:
            self.context().aboutToBeDestroyed.connect(self._on_context_lost)
            self._painter.initialize()
            _vendor, renderer, version = self._painter.info()
            self._renderer = f"OpenGL {version.split(' ')[0]} · {renderer}"
        except Exception as error:  # noqa: BLE001 - drivers fail as they like
            self._fail(error)
            return
        if wants_search(renderer):
            try:
                self._painter.start_search(self._gpu_bytes)
            except Exception as error:  # noqa: BLE001 - as above
                self._fail_search(error)
        later(self, self._host.canvas_ready)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw by `paintGL`, or give up where there is no context to draw with."""
        super().paintEvent(event)
        if not self.isValid() and not self._failed:
            self._fail(RuntimeError("no OpenGL 3.3 context can be made"))

    def paintGL(self) -> None:
        """Draw the host's picture."""
        if self._failed:
            return
        zoom = self.zoom
        scale = self.devicePixelRatioF() * zoom
        store = self._painter.store
        if store is not None:
            store.begin_frame()
        # A fault in here is the view's, not OpenGL's: it ends in the error panel.
        picture = self._host.picture(self.width() / zoom, self.height() / zoom, scale)
        try:
            self._painter.paint(picture, self.defaultFramebufferObject())
            if store is not None and self._painter.store is None:
                self._fail_search(self._painter.search_failure)
            painter = QPainter(self)
            try:
                painter.scale(zoom, zoom)
                self._painter.paint_text(picture, painter)
            finally:
                painter.end()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
            return
        self._send_rows()

    def renderer_text(self) -> str:
        """Return what draws, for the status bar."""
        searches = self._painter.store is not None
        return f"{self._renderer} · search on GPU" if searches else self._renderer

    def holder(self) -> RowHolder | None:
        """Return what draws rows without asking the processor, if anything does."""
        return self._painter.store

    def minimumSizeHint(self) -> QSize:
        """Return a size that still shows an axis and two lanes."""
        return QSize(240, 80)

    def release(self) -> None:
        """Free the GL objects while the context still lives, and draw no more.

        All canvases of a window share their objects: what is not freed here stays on
        the card until the window goes. A widget that is being deleted hears no more of
        its context.
        """
        self._failed = True
        if self.context() is not None and self.isValid():
            self._on_context_lost()

    def _send_rows(self) -> None:
        """Send a part of the rows that the picture lacked; go on after the next."""
        store = self._painter.store
        if store is None:
            return
        try:
            store.work()
        except Exception as error:  # noqa: BLE001 - as above
            self._painter.stop_search()
            self._fail_search(error)
            return
        if store.has_work:
            self.update()

    def _fail_search(self, error: Exception | None) -> None:
        logger.warning("no search on the GPU: %s", error, exc_info=error)
        later(self, partial(self._host.search_failed, str(error)))

    def _on_context_lost(self) -> None:
        self.makeCurrent()
        self._painter.release()
        self.doneCurrent()

    def _fail(self, error: Exception) -> None:
        self._failed = True
        logger.warning("OpenGL canvas failed: %s", error, exc_info=error)
        # Later: a message that resizes this widget in the middle of paintGL takes
        # its frame buffer away, and Mesa crashes when the context goes.
        later(self, partial(self._host.canvas_failed, str(error)))


def wants_search(renderer: str) -> bool:
    """Tell whether shaders shall search on GL_RENDERER `renderer`.

    On software OpenGL they only would in one more step what the processor does.
    """
    wish = os.environ.get(SEARCH_VARIABLE, "")
    return wish == "1" if wish in ("0", "1") else not is_software(renderer)


@cache
def hardware_renderer() -> str | None:
    """Return the name of a hardware OpenGL renderer, or None; asked for once.

    None where there is no OpenGL, where it is a software renderer (the raster
    canvas is several times faster then) and on platforms without windows. Asks
    through Qt, because importing PyOpenGL costs a quarter of a second.
    """
    if QGuiApplication.platformName() in ("offscreen", "minimal", "vnc"):
        return None
    surface, context = QOffscreenSurface(), QOpenGLContext()
    surface.create()
    if not context.create() or not context.makeCurrent(surface):
        return None
    renderer = str(context.functions().glGetString(GL_RENDERER) or "")
    context.doneCurrent()
    return renderer if renderer and not is_software(renderer) else None
