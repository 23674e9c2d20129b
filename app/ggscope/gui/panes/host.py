"""The frame around a view: its head, its error panel, and when it is made.

Views that the first picture does not need are made after it is shown.
"""

import logging
import re
import traceback
from collections.abc import Callable, Iterable
from types import TracebackType

from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QMenu,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.imports import REST_MS, import_one, next_part
from ggscope.gui.widgets import GlyphButton, button, label
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.safe_text import Label, copy_text, set_tip
from ggscope.views.base.view import View, guarded, later
from ggscope.views.base.widgets import EmptyState, keeps_key
from ggscope.views.registry import ViewEntry, cell_views

logger = logging.getLogger(__name__)
_BINDING_PREFIX = re.compile(r"Error calling Python override of [\w:]+\(\): ")
"""What PySide 6.11 puts before the message of an exception in an event handler."""
_NO_MEMORY = re.compile(r"^(?:[\w.]+\.)?_?(?:Array)?MemoryError\b")
"""The last line of a report of too little memory, by Python or numpy."""
ViewLoader = Callable[[ViewEntry], type[View]]
FIRST_VIEWS = ("overview", "timeline")
"""Views that make up the first picture; they are made at once."""
_PLACING = {QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.LayoutRequest}
_GAP_PX = 8
"""Between the text of a placeholder and the button below it."""
_TEXT_BOTTOM_PX = 28
"""Distance from the middle of an empty view to the bottom of its text, at 100 %."""
FIRST_PICTURE_MS = 1_000
"""How long other views wait for the first picture. It takes half a second at any size;
importing views meanwhile would delay it."""


@guarded
class PaneHead(QWidget):
    """A slim row that can be dragged; positions are global."""

    drag_moved = Signal(object)  # QPoint
    drag_dropped = Signal(object)  # QPoint
    drag_ended = Signal()  # dropped or cancelled

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("paneHead")
        self.is_movable = False
        self._pressed: QPointF | None = None
        self._is_dragged = False

    def event(self, event: QEvent) -> bool:
        """Keep Esc for the drag while there is one."""
        return keeps_key(event, self._is_end) or super().event(event)

    def _is_end(self, event: QKeyEvent) -> bool:
        return self._is_dragged and event.key() == Qt.Key.Key_Escape

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Cancel the drag on Esc."""
        if self._is_end(event):
            self._end()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember where a drag may begin."""
        if self.is_movable and event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.globalPosition()
            event.accept()
            pane = self.parentWidget()
            if pane is not None:
                pane.setFocus(Qt.FocusReason.MouseFocusReason)
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag once the mouse has moved far enough."""
        if self._pressed is None:
            super().mouseMoveEvent(event)
            return
        at = event.globalPosition()
        far = (at - self._pressed).manhattanLength()
        if not self._is_dragged and far >= QApplication.startDragDistance():
            self._is_dragged = True
            self.grabKeyboard()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
        if self._is_dragged:
            self.drag_moved.emit(at.toPoint())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Drop."""
        if self._is_dragged and event.button() == Qt.MouseButton.LeftButton:
            at = event.globalPosition().toPoint()
            self._end()
            self.drag_dropped.emit(at)
        self._pressed = None

    def _end(self) -> None:
        self._pressed, self._is_dragged = None, False
        self.releaseKeyboard()
        self.unsetCursor()
        self.drag_ended.emit()


@guarded
class DropMark(QWidget):
    """A frame over the pane that a drop would swap with the dragged one."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a tint that the pane shines through."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            color = self.palette().color(QPalette.ColorRole.Accent)
            painter.setPen(QPen(color, 2))
            color.setAlphaF(0.16)
            painter.setBrush(color)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    def show_over(self, pane: QWidget | None) -> None:
        """Lie over `pane`; None hides the frame."""
        over = self.parentWidget()
        if pane is None or over is None:
            self.hide()
            return
        corner = pane.mapTo(over, QPoint(0, 0))
        self.setGeometry(corner.x(), corner.y(), pane.width(), pane.height())
        self.raise_()
        self.show()


class ErrorPanel(QWidget):
    """Shown in place of a view that failed."""

    retry_requested = Signal()

    def __init__(self, title: str, report: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.report = report
        self.setAccessibleName(f"{title} failed")
        last = report.strip().splitlines()[-1] if report.strip() else ""
        last = _BINDING_PREFIX.sub("", last)
        head = label(f"{title} stopped working", self, "large")
        text = label(self._advice(last), self, "dim", wraps=True)
        what = label(last[:400], self, "error", wraps=True)
        what.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.retry_button = button(
            "Retry", self.retry_requested.emit, self, primary=True
        )
        self.copy_button = button("Copy report", self._copy, self)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.retry_button)
        row.addWidget(self.copy_button)
        row.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(24, 24, 24, 24)
        box.setSpacing(8)
        box.addStretch(1)
        for part in (head, text, what):
            box.addWidget(part)
        box.addLayout(row)
        box.addStretch(2)

    def _advice(self, last: str) -> str:
        if _NO_MEMORY.search(last):
            return (
                "Not enough memory for this view; the rest of ggscope still works. "
                "Close other tabs or programs and retry, or open only a part of the "
                "file."
            )
        return (
            "The rest of ggscope still works, and no data is lost. Retry restarts "
            "this view. Please attach the report to a bug report."
        )

    def _copy(self) -> None:
        copy_text(self.report)


@guarded
class ViewHost(QFrame):
    """One pane: a slim head and a view below it.

    The view is made when the pane is first shown, or, if `waits`, when `PaneFiller`
    gets to it. If making or drawing it raises, an `ErrorPanel` is shown instead.
    """

    chosen = Signal(str)  # another view id was picked in the head
    full_screen_requested = Signal()
    view_ready = Signal(object)  # the new View
    hide_requested = Signal()
    float_requested = Signal(str)  # view id
    add_requested = Signal()  # files that give the view something to show

    def __init__(
        self,
        entry: ViewEntry,
        session: Session,
        theme: Theme,
        parent: QWidget | None = None,
        *,
        is_cell: bool = True,
        has_head: bool = True,
        can_float: bool = False,
        waits: bool = False,
        loader: ViewLoader = ViewEntry.load,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("pane")
        # The minimum size of a view must not limit that of the window.
        self.setMinimumSize(160, 60)
        self.entry = entry
        self._session = session
        self._theme = theme
        self._loader = loader
        self._waits = waits
        self._view: View | None = None
        self._panel: ErrorPanel | None = None
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 4 if has_head else 0)
        self._box.setSpacing(0)
        self.full_screen_button: GlyphButton | None = None
        self.float_button: GlyphButton | None = None
        self._add_button: QWidget | None = None
        session.trace_changed.connect(self._show_add_button)
        self.head = PaneHead(self)
        self.head.setVisible(has_head)
        self._head_row: QHBoxLayout | None = None
        if has_head:
            self._fill_head(self.head, is_cell, can_float)
            # At the top, also while there is nothing below it.
            self._box.addWidget(self.head, 0, Qt.AlignmentFlag.AlignTop)

    @property
    def view(self) -> View | None:
        """The view, or None before it is shown and while it is broken."""
        return self._view

    @property
    def error_panel(self) -> ErrorPanel | None:
        """The panel shown in place of a broken view."""
        return self._panel

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        if self._view is not None:
            try:
                self._view.set_theme(theme)
            except Exception:  # noqa: BLE001 - a view's fault stays in its pane
                self.fail(traceback.format_exc())

    def ensure_view(self) -> None:
        """Make the view now if there is none yet."""
        self._waits = False
        if self._view is None and self._panel is None:
            self._build()

    @property
    def is_waiting(self) -> bool:
        """Whether `PaneFiller` has yet to make the view."""
        return self._waits and self._view is None and self._panel is None

    def stop_waiting(self) -> None:
        """Make the view now if the pane is visible, else when it is first shown."""
        self._waits = False
        if self.isVisible():
            self.ensure_view()

    def fail(self, report: str) -> None:
        """Put the error panel in the view's place."""
        if self._panel is not None:
            return
        logger.error("view %s failed:\n%s", self.entry.id, report)
        self._drop_view()
        self._panel = ErrorPanel(self.entry.title, report, self)
        self._panel.retry_requested.connect(self.retry)
        self._box.addWidget(self._panel, 1)

    def retry(self) -> None:
        """Make a new view in the place of a broken one."""
        if self._panel is not None:
            self._box.removeWidget(self._panel)
            self._panel.hide()
            self._panel.deleteLater()
            self._panel = None
        self._build()

    def rebuild(self) -> None:
        """Make the view again, to apply what its constructor decides."""
        if self._view is not None:
            self._drop_view()
            self._build()

    def release(self) -> None:
        """Release the view before the pane is deleted."""
        self._drop_view()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the keyboard focus, also by a click beside the widgets."""
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        super().mousePressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        """Make the view when it is first seen."""
        if not self._waits:
            self.ensure_view()
        if self._view is not None:
            self._view.show()  # a layout does not in a pane that is about to be seen
        super().showEvent(event)

    def set_is_full(self, is_full: bool) -> None:
        """Show in the head whether this pane fills the screen."""
        if self.full_screen_button is not None:
            show_full_screen_state(self.full_screen_button, is_full)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Keep the button of an empty view below its text."""
        if event.type() in _PLACING and self._add_button is not None:
            later(self, self._place_add_button)  # when its picture has its new size
        return super().eventFilter(watched, event)

    def _show_add_button(self, _: object = None) -> None:
        """Show a button that adds files where the view has no data."""
        trace, view = self._session.trace, self._view
        is_empty = trace is not None and not trace.pending and view is not None
        is_empty = is_empty and trace is not None and not self.entry.has_data(trace)
        if not is_empty:
            if self._add_button is not None:
                self._add_button.hide()
            return
        if self._add_button is None:
            text = "Add to session…"
            self._add_button = button(text, self.add_requested.emit, self)
            self._add_button.hide()
        later(self, self._place_add_button)  # when the layout has placed the picture

    def _place_add_button(self) -> None:
        made, view = self._add_button, self._view
        trace = self._session.trace
        if made is None or view is None or trace is None or self.entry.has_data(trace):
            return
        picture: QWidget = getattr(view, "canvas", view)
        middle = picture.mapTo(self, picture.rect().center())
        size = made.sizeHint()
        top = middle.y() + round(_TEXT_BOTTOM_PX * self.fontMetrics().height() / 15)
        empty = view.findChild(EmptyState)
        if empty is not None and empty.isVisibleTo(view):
            top = empty.mapTo(self, QPoint(0, empty.text_bottom)).y() + _GAP_PX
        made.setGeometry(
            middle.x() - size.width() // 2, top, size.width(), size.height()
        )
        bottom = picture.mapTo(self, picture.rect().bottomLeft()).y()
        made.setVisible(top + size.height() <= bottom)
        made.raise_()

    def _build(self) -> None:
        try:
            view = self._loader(self.entry)(self._session, self._theme, self)
        except Exception:  # noqa: BLE001 - a view's fault stays in its pane
            self.fail(traceback.format_exc())
            return
        self._view = view
        view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self._box.addWidget(view, 1)
        self._place_head_widget(view.head_widget())
        self.setFocusProxy(view)
        view.installEventFilter(self)
        self._show_add_button()
        self.view_ready.emit(view)

    def _place_head_widget(self, part: QWidget | None) -> None:
        """Put the widget of the view into the head, between chooser and buttons."""
        if part is not None and self._head_row is not None:
            self._head_row.insertWidget(1, part, 100)
            part.show()

    def _drop_view(self) -> None:
        view, self._view = self._view, None
        if self._add_button is not None:
            self._add_button.hide()
        if view is None:
            # A view whose constructor raised may be connected to the session.
            direct = Qt.FindChildOption.FindDirectChildrenOnly
            for made in self.findChildren(View, options=direct):
                if not made.is_released:  # else deletion is pending
                    self._release(made)
            return
        part = view.head_widget()
        if part is not None:
            part.hide()
            part.setParent(view)
        self.setFocusProxy(None)  # type: ignore[arg-type]  # None ends it
        self._box.removeWidget(view)
        self._release(view)

    def _release(self, view: View) -> None:
        try:
            view.release()
        except Exception:
            logger.warning("releasing view %s failed", self.entry.id, exc_info=True)
        view.hide()
        view.deleteLater()

    def _fill_head(self, head: PaneHead, is_cell: bool, can_float: bool) -> None:
        row = QHBoxLayout(head)
        row.setContentsMargins(8, 2, 4, 2)
        row.setSpacing(4)
        self._head_row = row
        if is_cell:
            row.addWidget(self._make_chooser(head))
            row.addStretch(1)
            self._add_float_button(row, head, can_float)
            head.is_movable = True
            set_tip(head, "Drag onto another pane to swap them")
            self._add_full_screen_button(row, head)
        else:
            title = Label(self.entry.title, head)
            title.setObjectName("paneTitle")
            title.setContentsMargins(4, 0, 0, 0)
            row.addWidget(title)
            row.addStretch(1)
            self._add_float_button(row, head, can_float)
            self._add_full_screen_button(row, head)
            hide = GlyphButton("close", "Hide this pane", head)
            hide.clicked.connect(self.hide_requested)
            row.addWidget(hide)

    def _add_float_button(
        self, row: QHBoxLayout, head: QWidget, can_float: bool
    ) -> None:
        if can_float:
            text = "Float in a separate window"
            self.float_button = GlyphButton("float", text, head)
            self.float_button.clicked.connect(self._on_float)
            row.addWidget(self.float_button)

    def _add_full_screen_button(self, row: QHBoxLayout, head: QWidget) -> None:
        self.full_screen_button = GlyphButton("expand", "", head)
        self.set_is_full(False)
        self.full_screen_button.clicked.connect(self.full_screen_requested)
        row.addWidget(self.full_screen_button)

    def _on_float(self) -> None:
        self.float_requested.emit(self.entry.id)

    def _make_chooser(self, head: QWidget) -> QToolButton:
        chooser = QToolButton(head)
        chooser.setObjectName("paneChooser")
        chooser.setText(self.entry.title + "  ▾")
        set_tip(chooser, "Choose what this pane shows")
        chooser.setAccessibleName(f"{self.entry.title}; choose another view")
        chooser.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        chooser.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        menu = QMenu(chooser)
        group = QActionGroup(menu)
        for entry in cell_views():
            action = QAction(entry.title, menu)
            action.setData(entry.id)
            action.setCheckable(True)
            action.setChecked(entry.id == self.entry.id)
            group.addAction(action)
            menu.addAction(action)
        menu.triggered.connect(self._on_chosen)
        chooser.setMenu(menu)
        self.chooser = chooser
        return chooser

    def _on_chosen(self, action: QAction) -> None:
        self.chosen.emit(str(action.data()))


def show_full_screen_state(button: GlyphButton, is_full: bool) -> None:
    """Let the button of a pane fill the screen, or leave that."""
    if is_full:
        button.set_glyph("shrink", "Leave full screen (Esc)")
    else:
        button.set_glyph("expand", "Fill the screen with this view (F11)")


def host_of(trace: TracebackType | None) -> ViewHost | None:
    """Return the pane in whose view an exception arose, or None.

    The innermost frame whose ``self`` is a widget inside a pane decides.
    """
    view_host: ViewHost | None = None
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, QObject):
            host = _enclosing_host(owner)
            view_host = host or view_host
        trace = trace.tb_next
    return view_host


def _enclosing_host(owner: QObject) -> ViewHost | None:
    try:
        here: QObject | None = owner
        while here is not None:
            if isinstance(here, View):
                parent = here.parent()
                return parent if isinstance(parent, ViewHost) else None
            here = here.parent()
    except RuntimeError:  # the C++ object is gone already
        return None
    return None


class PaneFiller(QObject):
    """Makes the views of panes one by one while the program is idle.

    Parameters
    ----------
    hosts : returns the present panes, in the order of filling.
    """

    filled = Signal()

    def __init__(
        self, hosts: Callable[[], Iterable[ViewHost]], parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._hosts = hosts
        self._is_done = False
        self._first_picture = self._timer(FIRST_PICTURE_MS)
        self._next = self._timer(0)
        self._first_picture.start()

    @property
    def is_done(self) -> bool:
        """Whether no pane waits any more."""
        return self._is_done

    def waits(self, view_id: str) -> bool:
        """Return whether a pane of this view, made now, is to wait for its turn."""
        return not self._is_done and view_id not in FIRST_VIEWS

    def start(self) -> None:
        """Fill the panes from now on, with a pause after each."""
        self._first_picture.stop()
        if not self._is_done and not self._next.isActive():
            self._next.start()

    def finish(self) -> None:
        """Stop deferring: visible panes are made now, others when first shown."""
        if self._is_done:
            return
        self._is_done = True
        self._first_picture.stop()
        self._next.stop()
        for host in self._hosts():
            host.stop_waiting()
        self.filled.emit()

    def stop(self) -> None:
        """Stop filling: the panes are about to be deleted."""
        self._is_done = True
        self._first_picture.stop()
        self._next.stop()

    def _on_turn(self) -> None:
        self._first_picture.stop()
        for host in self._hosts():
            if host.is_waiting and host.isVisible():
                part = next_part(host.entry.module)
                # Modules are imported one per step; a failure shows in the pane.
                if not part or not import_one(part):
                    host.stop_waiting()
                self._next.start(REST_MS)
                return
        self.finish()

    def _timer(self, after_ms: int) -> QTimer:
        made = QTimer(self, singleShot=True, interval=after_ms)
        made.timeout.connect(self._on_turn)
        return made
