"""Small widgets that several parts of the window share."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontInfo,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPalette,
    QPen,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QSplitter,
    QSplitterHandle,
    QStyle,
    QStyleOptionToolButton,
    QStylePainter,
    QToolButton,
    QWidget,
)

from ggscope.sanitize import caption, one_line
from ggscope.views.base.safe_text import Label, set_tip
from ggscope.views.base.view import guarded

GUTTER = 8
MIN_TARGET = 24
CHANGES_NOTHING = QFileDialog.Option.ReadOnly
"""For every dialog that asks for files: Qt's own one lets people delete folders."""
_DESIGN_PX = 12

Polyline = tuple[tuple[float, float], ...]
# Strokes in a unit square; drawn, so that they follow theme and scale.
_GLYPHS: dict[str, tuple[Polyline, ...]] = {
    "close": (((0.28, 0.28), (0.72, 0.72)), ((0.72, 0.28), (0.28, 0.72))),
    "plus": (((0.5, 0.22), (0.5, 0.78)), ((0.22, 0.5), (0.78, 0.5))),
    "up": (((0.26, 0.6), (0.5, 0.36), (0.74, 0.6)),),
    "down": (((0.26, 0.4), (0.5, 0.64), (0.74, 0.4)),),
    "right": (((0.4, 0.26), (0.64, 0.5), (0.4, 0.74)),),
    "side": (
        ((0.22, 0.24), (0.78, 0.24), (0.78, 0.76), (0.22, 0.76), (0.22, 0.24)),
        ((0.58, 0.24), (0.58, 0.76)),
    ),
    "expand": (
        ((0.25, 0.42), (0.25, 0.25), (0.42, 0.25)),
        ((0.58, 0.25), (0.75, 0.25), (0.75, 0.42)),
        ((0.75, 0.58), (0.75, 0.75), (0.58, 0.75)),
        ((0.42, 0.75), (0.25, 0.75), (0.25, 0.58)),
    ),
    "float": (
        ((0.44, 0.24), (0.76, 0.24), (0.76, 0.56), (0.44, 0.56), (0.44, 0.24)),
        ((0.34, 0.44), (0.24, 0.44), (0.24, 0.76), (0.56, 0.76), (0.56, 0.66)),
    ),
    "shrink": (
        ((0.22, 0.42), (0.42, 0.42), (0.42, 0.22)),
        ((0.58, 0.22), (0.58, 0.42), (0.78, 0.42)),
        ((0.78, 0.58), (0.58, 0.58), (0.58, 0.78)),
        ((0.42, 0.78), (0.42, 0.58), (0.22, 0.58)),
    ),
}


@guarded
class GlyphButton(QToolButton):
    """A button with a drawn sign; `text` is its tooltip and accessible name."""

    def __init__(
        self, glyph: str, text: str, parent: QWidget | None = None, size: int = 16
    ) -> None:
        super().__init__(parent)
        self._glyph = glyph
        self._design_size = size
        self._size = float(size)
        self.setText(text)
        set_tip(self, text)
        self.setAccessibleName(text)
        self._fit()
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def set_glyph(self, glyph: str, text: str) -> None:
        """Show another sign with another meaning."""
        self._glyph = glyph
        self.setText(text)
        set_tip(self, text)
        self.setAccessibleName(text)
        self.update()

    def sizeHint(self) -> QSize:
        """Return the size of a comfortable target at the present font size."""
        return self.maximumSize()

    def changeEvent(self, event: QEvent) -> None:
        """Grow with the font."""
        if event.type() == QEvent.Type.FontChange:
            self._fit()
        super().changeEvent(event)

    def _fit(self) -> None:
        scale = QFontInfo(self.font()).pixelSize() / _DESIGN_PX
        self._size = self._design_size * max(1.0, scale)
        side = max(MIN_TARGET, round(MIN_TARGET * scale))
        self.setFixedSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw ground and focus ring by the style, the sign by hand."""
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        option.text = ""
        painter = QStylePainter(self)
        painter.drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)
        is_bright = self.isEnabled() and (self.underMouse() or self.hasFocus())
        draw_glyph(
            painter,
            self._glyph,
            QRectF(self.rect()),
            self._size,
            self.palette(),
            is_bright,
        )


class ProgressBar(QProgressBar):
    """A bar without words, painted with the next frame and not at once.

    ``QProgressBar.setValue`` paints at once, and Qt paints with it whatever else in
    the window waits to be painted: the timeline too, before its time.
    """

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextVisible(False)
        self.setAccessibleName(name)

    def show_share(self, done: int, total: int) -> None:
        """Show how much of `total` is done; 0 = not known."""
        self.setUpdatesEnabled(False)
        self.setRange(0, 1000 if total > 0 else 0)
        if total > 0:
            self.setValue(done * 1000 // total)
        self.setUpdatesEnabled(True)


def draw_glyph(
    painter: QPainter,
    glyph: str,
    area: QRectF,
    size: float,
    palette: QPalette,
    is_bright: bool = False,
) -> None:
    """Draw a sign of `size` pixels in the middle of `area`."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    role = QPalette.ColorRole.Text if is_bright else QPalette.ColorRole.PlaceholderText
    pen = QPen(palette.color(role), 1.4)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    corner = area.center() - QPointF(size / 2, size / 2)
    for line in _GLYPHS[glyph]:
        path = QPainterPath(corner + QPointF(line[0][0] * size, line[0][1] * size))
        for x, y in line[1:]:
            path.lineTo(corner + QPointF(x * size, y * size))
        painter.drawPath(path)


class Chip(QFrame):
    """A part of the filter, with a × that takes it away."""

    removed = Signal(str)

    def __init__(self, part: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("chip")
        self.part, self.text = part, text
        set_tip(self, text)
        self.setAccessibleName(f"Filter: {text}")
        label = Label(parent=self)
        label.setText(
            label.fontMetrics().elidedText(
                one_line(text), Qt.TextElideMode.ElideMiddle, 180
            )
        )
        self.close_button = GlyphButton("close", f"Remove “{text}”", self, 12)
        self.close_button.clicked.connect(self._on_removed)
        box = QHBoxLayout(self)
        box.setContentsMargins(10, 0, 1, 0)
        box.setSpacing(0)
        box.addWidget(label)
        box.addWidget(self.close_button)
        self.setFixedHeight(26)

    def _on_removed(self) -> None:
        self.removed.emit(self.part)


@guarded
class GripSplitter(QSplitter):
    """A splitter whose handle is a gutter with a short grip in its middle."""

    def __init__(
        self, orientation: Qt.Orientation, parent: QWidget | None = None
    ) -> None:
        super().__init__(orientation, parent)
        self.setHandleWidth(GUTTER)
        self.setChildrenCollapsible(False)

    def createHandle(self) -> QSplitterHandle:
        """Return a handle with a grip."""
        return _Grip(self.orientation(), self)


@guarded
class _Grip(QSplitterHandle):
    def paintEvent(self, _: QPaintEvent) -> None:
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            role = (
                QPalette.ColorRole.Accent
                if self.underMouse()
                else QPalette.ColorRole.Mid
            )
            painter.setBrush(self.palette().color(role))
            middle = QRectF(self.rect()).center()
            is_horizontal = self.orientation() is Qt.Orientation.Vertical
            size = QPointF(36, 2.5) if is_horizontal else QPointF(2.5, 36)
            painter.drawRoundedRect(
                QRectF(middle - size / 2, middle + size / 2), 1.25, 1.25
            )


def button(
    text: str,
    on_click: Callable[[], object],
    parent: QWidget | None = None,
    *,
    primary: bool = False,
    link: bool = False,
    tip: str = "",
) -> QPushButton:
    """Return a push button."""
    made = QPushButton(caption(text), parent)
    made.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the view
    set_tip(made, tip or text)
    made.setAccessibleName(text)
    made.setAutoDefault(False)
    if primary:
        made.setProperty("primary", True)
    if link:
        made.setProperty("link", True)
        made.setCursor(Qt.CursorShape.PointingHandCursor)
    made.clicked.connect(on_click)
    return made


def label(
    text: str, parent: QWidget | None = None, role: str = "", wraps: bool = False
) -> Label:
    """Return a label; `role` is one of the style sheet's."""
    made = Label(text, parent)
    made.setWordWrap(wraps)
    if role:
        made.setProperty("role", role)
    return made


def set_property(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet asks for, and restyle."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


class Banner(QFrame):
    """A quiet line above the panes, with one button; × closes it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("banner")
        self.text = Label(parent=self)
        self.text.setWordWrap(True)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.action_button = button("", self._on_action, self, link=True)
        self._action: object = None
        self.close_button = GlyphButton("close", "Close this message", self)
        self.close_button.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 4, 4, 4)
        row.setSpacing(12)
        row.addWidget(self.text, 1)
        row.addWidget(self.action_button)
        row.addWidget(self.close_button)
        self.hide()

    def say(
        self, text: str, action_text: str = "", action: object = None, level: str = ""
    ) -> None:
        """Show a message; `action` is called by the button, if there is one."""
        self.text.setText(text[:1000])
        self.setAccessibleName(text)
        self._action = action
        self.action_button.setText(action_text)
        self.action_button.setAccessibleName(action_text)
        set_tip(self.action_button, action_text)
        self.action_button.setVisible(bool(action_text))
        set_property(self, "level", level)
        self.show()

    def _on_action(self) -> None:
        if callable(self._action):
            self._action()
