"""What all views share that paint one picture: canvas, fonts, hovering, waiting.

There are two surfaces that a display list can appear on: raster and OpenGL. A canvas
asks its host for the picture, draws it and hands every input event back; it knows
nothing about traces. OpenGL objects live and die with the context: undocking a widget
destroys its context, so everything is rebuilt in ``initializeGL`` and freed on
``aboutToBeDestroyed``.
"""

import itertools
import logging
import sys
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, QTimer
from PySide6.QtGui import (
    QContextMenuEvent,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QOffscreenSurface,
    QOpenGLContext,
    QPainter,
    QPaintEvent,
    QShowEvent,
    QSinglePointEvent,
)
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QMenu, QSplitter, QVBoxLayout, QWidget

from ggscope.model.trace import Trace
from ggscope.render.batch import Align, DisplayList, Face, Text, TextList
from ggscope.render.export import ExportCommand, Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import CSS_DPI, FigureStyle, css_px
from ggscope.render.gl.base import is_software
from ggscope.render.gl.painter import GlPainter
from ggscope.render.painter import paint
from ggscope.render.static_layer import StaticLayerCache
from ggscope.render.text_metrics import wrapped
from ggscope.render.theme import Theme
from ggscope.render.theme import theme as theme_named
from ggscope.session.session import Session
from ggscope.session.settings import Drawing
from ggscope.session.tasks import Request
from ggscope.views.base.gestures import CanvasGestures
from ggscope.views.base.safe_text import show_tip
from ggscope.views.base.view import View, guarded, later
from ggscope.views.base.widgets import keeps_key, lay_out, pop_up

logger = logging.getLogger(__name__)

GL_RENDERER = 0x1F01
_CARDS = (
    "dri/renderD*", "dri/card*", "nvidia*", "nvgpu*", "nvhost*", "dxg", "mali*",
    "kgsl*", "pvr*", "galcore",
)  # fmt: skip
_EMPTY_LINE = 20.0
"""Height of a line of what an empty pane says, in pixels."""
_PLAIN = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier)
ENTER_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
STEP_KEYS: Mapping[Qt.Key, int] = {
    Qt.Key.Key_Left: -1,
    Qt.Key.Key_Right: 1,
    Qt.Key.Key_Home: -(1 << 40),
    Qt.Key.Key_End: 1 << 40,
}
"""How many things further the keys step that go through all of them."""
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


class Moving(Protocol):
    """Draws a picture that moves on by itself between two that are composed."""

    def draw(self, painter: QPainter, size: QSize, zoom: float, *, anew: bool) -> bool:
        """Draw what is to be seen now; False where there is nothing.

        `anew` = something else than time has changed.
        """
        ...


class CanvasHost(Protocol):
    """What a canvas needs of the view that owns it."""

    def moving(self) -> Moving | None:
        """Return what draws the picture while it moves; None while it stands."""
        ...

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


@guarded
class RasterCanvas(QWidget):
    """Draws by QPainter; the fastest way where OpenGL is emulated."""

    def __init__(self, host: CanvasHost, parent: QWidget) -> None:
        super().__init__(parent)
        self._host = host
        self.zoom = 1.0
        """How much larger the picture is drawn than designed: the font scale."""
        self._layers = StaticLayerCache()
        self._is_stale = True
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def event(self, event: QEvent) -> bool:
        """Hand input to the host."""
        if event.type() in _INPUT and self._host.canvas_event(event):
            return True
        return super().event(event)

    def update(self, *area: Any) -> None:
        """Draw another picture, soon."""
        self._is_stale = True
        super().update(*area)

    def move_on(self) -> None:
        """Draw soon what the picture has become by time alone."""
        super().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the host's picture."""
        zoom, moving = self.zoom, self._host.moving()
        if moving is not None:
            is_stale, self._is_stale = self._is_stale, False
            painter = QPainter(self)
            try:
                if moving.draw(painter, self.size(), zoom, anew=is_stale):
                    return
            finally:
                painter.end()
        picture = self._host.picture(
            self.width() / zoom, self.height() / zoom, self.devicePixelRatioF() * zoom
        )
        painter = QPainter(self)
        try:
            painter.scale(zoom, zoom)
            paint(picture, painter, cache=self._layers)
        finally:
            painter.end()

    def renderer_text(self) -> str:
        """Return what draws, for the status bar."""
        return "raster"

    def minimumSizeHint(self) -> QSize:
        """Return a size that still shows an axis and two lanes."""
        return QSize(240, 80)


@guarded
class GlCanvas(QOpenGLWidget):
    """Draws rectangles and pictures by OpenGL, texts on top by QPainter."""

    def __init__(self, host: GlHost, parent: QWidget) -> None:
        super().__init__(parent)
        self._host = host
        self.zoom = 1.0
        """As for `RasterCanvas`."""
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
            self.build()
        except Exception as error:  # noqa: BLE001 - drivers fail as they like
            self._fail(error)
            return
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
        # A fault in here is the view's, not OpenGL's: it ends in the error panel.
        picture = self._host.picture(self.width() / zoom, self.height() / zoom, scale)
        try:
            self.draw(picture)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    def draw(self, picture: DisplayList) -> None:
        """Draw a picture into the current context."""
        self._painter.paint(picture, self.defaultFramebufferObject())
        painter = QPainter(self)
        try:
            painter.scale(self.zoom, self.zoom)
            self._painter.paint_text(picture, painter)
        finally:
            painter.end()

    def build(self) -> None:
        """Make what a subclass needs in a context that has just been made."""

    def free(self) -> None:
        """Free what a subclass has made, while its context is current."""

    def renderer_text(self) -> str:
        """Return what draws, for the status bar."""
        return self._renderer

    def minimumSizeHint(self) -> QSize:
        """Return a size that still shows an axis and two lanes."""
        return QSize(240, 80)

    def release(self) -> None:
        """Free the GL objects while the context still lives, and draw no more.

        All canvases of a window share their objects: what is not freed here stays on
        the card until the window goes. A widget that is being deleted gets no more of
        its context.
        """
        self._failed = True
        if self.context() is not None and self.isValid():
            self._on_context_lost()

    def _on_context_lost(self) -> None:
        self.makeCurrent()
        self.free()
        self._painter.release()
        self.doneCurrent()

    def _fail(self, error: Exception) -> None:
        self._failed = True
        logger.warning("OpenGL canvas failed: %s", error, exc_info=error)
        # Later: a message that resizes this widget in the middle of paintGL takes
        # its frame buffer away, and Mesa crashes when the context goes.
        later(self, partial(self._host.canvas_failed, str(error)))


@cache
def hardware_renderer() -> str | None:
    """Return the name of a hardware OpenGL renderer, or None; asked for once.

    None where there is no OpenGL, where it is a software renderer (the raster
    canvas is several times faster then) and on platforms without windows. Asks
    through Qt, because importing PyOpenGL costs a quarter of a second; and only where
    there may be one, because a context of software costs the main thread 50 ms.
    """
    if QGuiApplication.platformName() in ("offscreen", "minimal", "vnc"):
        return None
    if sys.platform == "linux" and not has_graphics_card(Path("/dev")):
        return None
    surface, context = QOffscreenSurface(), QOpenGLContext()
    surface.create()
    if not context.create() or not context.makeCurrent(surface):
        return None
    renderer = str(context.functions().glGetString(GL_RENDERER) or "")
    context.doneCurrent()
    return renderer if renderer and not is_software(renderer) else None


def has_graphics_card(devices: Path) -> bool:
    """Return whether a driver of Linux offers a graphics card, a file in `devices`.

    That of the kernel's own drivers, of NVIDIA, of Windows' subsystem, or of the makers
    of phones and boards.
    """
    return any(next(devices.glob(node), None) is not None for node in _CARDS)


_NUMBERS = itertools.count(1)


class PaintedView(View):
    """A view that consists of a picture (and what a subclass puts around it).

    A subclass gives what its picture is drawn from (`scene`, a frozen dataclass with
    width, height, theme and scale) and by what (`draw_scene`), the words of a
    tooltip (`tooltip_at`) and of a menu (`menu_at`), and starts its computations in
    `compute`, which is called when the trace has changed and the view can be seen,
    or as soon as it is seen; in its place `forget` where there is no trace. Positions
    are those of the picture, in its device-independent pixels, whatever the font scale.

    Attributes
    ----------
    box : layout of the view; the canvas is in it, other widgets may be added.
    """

    draw_scene: "ClassVar[staticmethod[[Any], DisplayList]]"
    """Composes a scene; knows nothing of the view, so that a worker may call it."""
    draw_figure: "ClassVar[staticmethod[..., RenderedFigure] | None]" = None
    """Returns the figure of a scene in a style; takes the name of the trace, too."""
    passing: ClassVar[Mapping[str, object]] = {}
    """What a scene has of the mouse and the cursor, without it: for figures."""
    needs_whole_trace: ClassVar[bool] = False
    """Whether nothing is computed of a trace while it is being read."""
    no_trace_text: ClassVar[tuple[str, str]] = ("", "")
    """A headline and a sentence for where there is no trace."""
    keys: ClassVar[Collection[Qt.Key]] = ()
    """Keys that the view handles without modifiers, while there is a picture."""
    uses_gl = False
    """Whether the picture gains from OpenGL where there is a graphics card."""
    probe_ms = 0
    """So long after the view is seen the driver is asked for its renderer."""
    _gestures: CanvasGestures | None = None
    """What the mouse does in the picture, where it does anything."""

    def __init__(
        self,
        accessible_name: str,
        session: Session,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(session, theme, parent)
        self.setAccessibleName(accessible_name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._zoom = 1.0
        self._is_stale = True
        self._chooser = QTimer(self, singleShot=True, interval=self.probe_ms)
        self._chooser.timeout.connect(self._choose_canvas)
        self._renderer_choice = "auto"
        # Another view of this kind may be in the drawer: each has tasks of its own.
        self._number = next(_NUMBERS)
        self._keys: set[str] = set()
        self._canvas: RasterCanvas | GlCanvas = RasterCanvas(self, self)
        self.box = lay_out(QVBoxLayout(self), self._canvas, wide=self._canvas)
        self.connect_until_release((session.trace_changed, self.invalidate))

    # -- what a subclass says ------------------------------------------------

    @abstractmethod
    def scene(self, width: float, height: float, scale: float) -> Any:
        """Return what the picture is drawn from; None where there is none yet."""

    def compose(self, width: float, height: float, scale: float) -> DisplayList | None:
        """Return the picture, or None where there is nothing to draw yet."""
        scene = self.scene(width, height, scale)
        return None if scene is None else type(self).draw_scene(scene)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return a headline and a sentence for where a trace gives no picture."""
        return "", ""

    def compute(self, trace: Trace) -> None:
        """Compute anew what the picture is drawn from."""
        self.repaint_picture()

    def forget(self) -> None:
        """Forget what was computed of the trace, which is closed or being read."""
        self.repaint_picture()

    def tooltip_at(self, x: float, y: float) -> str:
        """Return the words of the tooltip at a position; "" = none."""
        return ""

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position, with this view as its parent."""
        return None

    def pointer_event(self, event: QEvent) -> bool:
        """Handle a press, release, move, double click, wheel or leave of the mouse.

        Use `position_of` for where. Return whether the event is done with; views with
        gestures let these handle it.
        """
        return self._gestures is not None and self._gestures.handle(event)

    def takes_key(self, event: QKeyEvent) -> bool:
        """Return whether a key is the view's and not a shortcut of the window."""
        is_plain = event.modifiers() in _PLAIN
        is_own = is_plain and Qt.Key(event.key()) in self.keys
        return is_own and self.scene_now() is not None

    def press_key(self, event: QKeyEvent) -> None:
        """Do what a key means that `takes_key`."""

    def event(self, event: QEvent) -> bool:
        """Take keys before the window's shortcuts."""
        return keeps_key(event, self.takes_key) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handle the keys of the view."""
        if self.takes_key(event):
            self.press_key(event)
        else:
            super().keyPressEvent(event)

    def split_with(
        self,
        widget: QWidget,
        shares: tuple[int, int] = (3, 2),
        orientation: Qt.Orientation = Qt.Orientation.Horizontal,
    ) -> QSplitter:
        """Return a splitter with the picture and a widget right of it or below.

        The picture must never become one of OpenGL: it gets another parent.
        """
        self.box.removeWidget(self._canvas)
        split = QSplitter(orientation, self)
        split.setChildrenCollapsible(False)
        for number, part in enumerate((self._canvas, widget)):
            split.addWidget(part)
            split.setStretchFactor(number, shares[number])
        return split

    # -- session ---------------------------------------------------------------

    def release(self) -> None:
        """Hear nothing any more, and give up what is being computed."""
        super().release()
        for key in self._keys:
            self.session.tasks.cancel(key)
        if isinstance(self._canvas, GlCanvas):
            self._canvas.release()

    def invalidate(self, _: object = None) -> None:
        """Compute anew: now if the view can be seen, else when it will be."""
        self._is_stale = True
        if self.isVisible():
            self._refresh_stale()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what has changed while nobody looked."""
        super().showEvent(event)
        if self.uses_gl:
            self._chooser.start()
        self._refresh_stale()

    def refresh(self) -> None:
        """Compute anew what the picture is drawn from, or forget it."""
        trace = self.session.trace
        if trace is None or (
            self.needs_whole_trace and (trace.is_partial or trace.awaits_files)
        ):
            self.forget()
        else:
            self.compute(trace)

    def _refresh_stale(self) -> None:
        if self._is_stale:
            self._is_stale = False
            self.refresh()

    def run(
        self,
        key: str,
        request: Request[Any],
        then: Any,
        title: str,
        *,
        is_urgent: bool = False,
        even_if_held: bool = False,
    ) -> None:
        """Run a request on a worker; the newest one of a key of this view wins.

        See ``session.tasks``: `request` gets a TaskContext, `then` the result on
        the main thread. `title` is shown in the status bar after 300 ms.
        """
        if self.is_released:  # a timer of the view may still ask
            return
        own = self._own_key(key)
        self._keys.add(own)
        self.session.tasks.run(
            own,
            request,
            then,
            title=title,
            is_urgent=is_urgent,
            even_if_held=even_if_held,
        )

    def is_computing(self, key: str) -> bool:
        """Return whether a request of this key and view is under way."""
        return self.session.tasks.is_running(self._own_key(key))

    def is_of(self, counted: Trace | None) -> bool:
        """Return whether tensors by number are the same in `counted` as in the trace.

        What was counted of an earlier trace is not shown with the names of a later one.
        Those of a running program only go on.
        """
        trace = self.session.trace
        if trace is None or counted is None:
            return False
        return trace.tensors is counted.tensors or trace.is_running

    def cancel(self, key: str) -> None:
        """Give up the request of this key and view, if there is one."""
        self.session.tasks.cancel(self._own_key(key))

    def _own_key(self, key: str) -> str:
        return f"{key} {self._number}"

    # -- picture ---------------------------------------------------------------

    def repaint_picture(self, _: object = None) -> None:
        """Draw the picture again, soon."""
        self._canvas.update()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self._canvas.update()

    def set_zoom(self, zoom: float) -> None:
        """Draw everything `zoom` times as large."""
        self._zoom = self._canvas.zoom = zoom
        self._canvas.update()

    @property
    def font_zoom(self) -> float:
        """How much larger the picture is drawn than designed: the font scale."""
        return self._zoom

    def moving(self) -> Moving | None:
        """Return nothing: the picture stands."""
        return None

    def canvas_size(self) -> QSize:
        """Return the size of the picture in its own pixels."""
        return self._canvas.size() / self._zoom

    @property
    def canvas(self) -> QWidget:
        """What the picture is drawn on: tests and drags send it events."""
        return self._canvas

    def picture(self, width: float, height: float, scale: float) -> DisplayList:
        """Return the picture for a canvas of this size."""
        composed = self.compose(width, height, scale)
        return self._empty(width, height, scale) if composed is None else composed

    def scene_now(self) -> Any:
        """Return the scene of the picture as it is on the screen."""
        size = self.canvas_size()
        scale = self.devicePixelRatioF() * self._zoom
        return self.scene(size.width(), size.height(), scale)

    def figure(self) -> Figure | None:
        """Return the picture as it stands, but for what is under the mouse."""
        scene, trace = self.scene_now(), self.session.trace
        if scene is None or trace is None:
            return None
        still, draw_figure = replace(scene, **self.passing), type(self).draw_figure
        name = trace_name(trace)
        style = FigureStyle(
            width=css_px(scene.width),
            height=css_px(scene.height),
            dpi=CSS_DPI * scene.scale,
            theme=self.theme.name,
            seen=True,
        )
        if draw_figure is not None:
            draw = partial(_drawn, draw_figure, still, name)
            recipe = self.recipe(trace, scene)
            return Figure(self.objectName(), draw, style, recipe=recipe)
        compose, title = type(self).draw_scene, self.accessibleName()

        def draw_plain(style: FigureStyle) -> RenderedFigure:
            width, height = style.size_or(still.width, still.height)
            colors = theme_named(style.theme)
            anew = replace(
                still, width=width, height=height, theme=colors, scale=style.scale
            )
            return RenderedFigure(compose(anew), title)

        return Figure(self.objectName(), draw_plain, style)

    def recipe(self, trace: Trace, scene: Any) -> ExportCommand | None:
        """Return how the command line makes the figure of a scene; None = it cannot."""
        return None

    def placeholder_text(self) -> tuple[str, str]:
        """Return a headline and a sentence for where there is no picture."""
        trace = self.session.trace
        return self.no_trace_text if trace is None else self.empty_text(trace)

    def _empty(self, width: float, height: float, scale: float) -> DisplayList:
        head, sentence = self.placeholder_text()
        space = max(width - 24.0, 1.0)
        looks = ((head, self.theme.dim, 13.0), (sentence, self.theme.faint, 11.5))
        lines = [
            (line, color, size)
            for text, color, size in looks
            for line in wrapped(text, Face.UI, size, space)
        ]
        # Upwards from the middle: a button may stand below, see `ViewHost`.
        last = height / 2 + (11 if sentence else -9)
        first = max(last - _EMPTY_LINE * (len(lines) - 1), _EMPTY_LINE / 2)
        texts = TextList(
            Text(width / 2, first + i * _EMPTY_LINE, line, color, size,
                 align=Align.CENTER, width=space)
            for i, (line, color, size) in enumerate(lines)
        )  # fmt: skip
        batches = tuple(texts.batch())
        return DisplayList(width, height, scale, self.theme.pane, batches)

    # -- input -----------------------------------------------------------------

    def position_of(self, event: QEvent) -> QPointF:
        """Return where in the picture a mouse or wheel event is."""
        if isinstance(event, QSinglePointEvent):
            return event.position() / self._zoom
        if isinstance(event, QHelpEvent | QContextMenuEvent):
            return QPointF(event.pos()) / self._zoom
        return QPointF()

    def canvas_event(self, event: QEvent) -> bool:
        """Handle an input event of the canvas."""
        if isinstance(event, QHelpEvent):
            at = self.position_of(event)
            text = self.tooltip_at(at.x(), at.y())
            show_tip(event.globalPos(), text, self._canvas)
            return True
        if isinstance(event, QContextMenuEvent):
            at = self.position_of(event)
            return self._show_menu(at, event.globalPos())
        if (
            isinstance(event, QMouseEvent)
            and event.type() == QEvent.Type.MouseButtonPress
        ):
            self.setFocus(Qt.FocusReason.MouseFocusReason)
        return self.pointer_event(event)

    def _show_menu(self, at: QPointF, where: QPoint) -> bool:
        menu = self.menu_at(at.x(), at.y())
        if menu is None:
            return False
        pop_up(menu, where)
        return True

    def show_keyboard_menu(self) -> None:
        """Show the menu of the middle of the picture."""
        size = self.canvas_size()
        menu = self.menu_at(size.width() / 2, size.height() / 2)
        if menu is not None:
            pop_up(menu, self._canvas.mapToGlobal(self._canvas.rect().center()))

    def set_canvas_cursor(self, shape: Qt.CursorShape) -> None:
        """Change the shape of the mouse over the picture."""
        self._canvas.setCursor(shape)

    # -- which canvas ------------------------------------------------------------

    def set_drawing(self, drawing: Drawing) -> None:
        """Draw by what the settings ask for."""
        self.choose_renderer(drawing.renderer)

    def choose_renderer(self, choice: str) -> None:
        """Draw by "opengl" or "raster"; "auto" = what suits the machine.

        A machine is asked `probe_ms` after the view is seen.
        """
        self._renderer_choice = choice
        if choice == "auto":
            self._chooser.start()
        else:
            self._choose_canvas()

    def renderer_text(self) -> str:
        """Return what draws, for the status bar."""
        return self._canvas.renderer_text()

    def canvas_failed(self, message: str) -> None:
        """Fall back to the raster canvas."""
        self._renderer_choice = "raster"
        later(self, partial(self._replace_canvas, use_gl=False))

    def canvas_ready(self) -> None:
        """Do nothing: the timeline says what draws."""

    def gl_canvas(self) -> GlCanvas | None:
        """Return a canvas on OpenGL; None where that cannot be made."""
        return GlCanvas(self, self)

    def _choose_canvas(self) -> None:
        if not self.uses_gl:
            return
        use_gl = self._renderer_choice == "opengl" or (
            self._renderer_choice == "auto" and hardware_renderer() is not None
        )
        if use_gl != isinstance(self._canvas, GlCanvas):
            self._replace_canvas(use_gl=use_gl)

    def _replace_canvas(self, *, use_gl: bool) -> None:
        old = self._canvas
        if isinstance(old, GlCanvas):
            old.release()
        made = self.gl_canvas() if use_gl else None
        self._canvas = RasterCanvas(self, self) if made is None else made
        self._canvas.zoom = self._zoom
        self._canvas.setCursor(old.cursor())
        self.box.replaceWidget(old, self._canvas)
        old.hide()
        old.deleteLater()
        self._canvas.show()
        self.renderer_changed.emit(self.renderer_text())


def _drawn(
    draw: Callable[[Any, FigureStyle, str], RenderedFigure],
    scene: Any,
    name: str,
    style: FigureStyle,
) -> RenderedFigure:
    return draw(scene, style, name)
