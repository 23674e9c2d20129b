"""What several views are made of: fonts, badges, buttons, controls, empty states."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from PySide6.QtCore import (
    QEvent,
    QPoint,
    QRect,
    QRectF,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
    SignalInstance,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontDatabase,
    QFontInfo,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QPainter,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLayout,
    QMenu,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QSplitter,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.model.tables import Space
from ggscope.render.colors import category_color, label_color
from ggscope.render.theme import Theme, css, theme
from ggscope.sanitize import caption, one_line
from ggscope.session.replay import ReplayModel
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, Label, add_action, set_tip
from ggscope.views.base.view import guarded

_Box = TypeVar("_Box", bound=QBoxLayout)
_DESIGN_PX = 12.0
"""Height of the words for which the sizes below are drawn."""


def qcolor(color: int) -> QColor:
    """Return a QColor of 0xAARRGGBB."""
    return QColor.fromRgba(color)


class _Faces:
    """Sizes and faces that go with one font of the application.

    Asking Qt for them takes longer than drawing a line of text, and a picture asks
    hundreds of times.
    """

    def __init__(self, font: QFont) -> None:
        self.font = font
        pixels = QFontInfo(font).pixelSize()
        self.scale = max(0.75, min(2.0, pixels / _DESIGN_PX))
        self._fonts: dict[tuple[bool, float, bool], QFont] = {}

    def face(self, px: float, *, is_mono: bool, bold: bool) -> QFont:
        """Return a copy of a face of this size: who asks may change it."""
        key = (is_mono, px, bold)
        made = self._fonts.get(key)
        if made is None:
            fixed = QFontDatabase.SystemFont.FixedFont
            made = QFontDatabase.systemFont(fixed) if is_mono else QFont(self.font)
            made.setPixelSize(round(px * self.scale))
            made.setBold(bold)
            self._fonts[key] = made
        return QFont(made)


_faces: list[_Faces] = []


def _current_faces() -> _Faces:
    font = QGuiApplication.font()
    if not _faces or _faces[0].font != font:
        _faces[:] = [_Faces(font)]
    return _faces[0]


def scaled(px: float) -> int:
    """Return a size of the design in pixels, grown with the application's font."""
    return round(px * _current_faces().scale)


def ui_font(px: float = 12, *, bold: bool = False) -> QFont:
    """Return the system face, `px` pixels high at normal font size."""
    return _current_faces().face(px, is_mono=False, bold=bold)


def mono_font(px: float = 12, *, bold: bool = False) -> QFont:
    """Return the monospaced face of numbers and names."""
    return _current_faces().face(px, is_mono=True, bold=bold)


def heading_font() -> QFont:
    """Return the face of section heads: small, spaced capitals."""
    font = ui_font(10.5, bold=True)
    font.setCapitalization(QFont.Capitalization.AllUppercase)
    font.setLetterSpacing(QFont.SpacingType.AbsoluteSpacing, 0.6)
    return font


def space_color(space: Space, theme: Theme) -> int:
    """Return the colour of a memory space: DISK blue, BUFFER green."""
    return category_color(f"space:{int(space)}", theme)


def badge_size(letters: str, font: QFont | None = None) -> QSize:
    """Return the size of a badge with these letters, in the font of badges."""
    metrics = QFontMetrics(ui_font(9.5, bold=True) if font is None else font)
    width = metrics.horizontalAdvance(letters)
    return QSize(max(width + scaled(12), scaled(38)), scaled(16))


def paint_badge(
    painter: QPainter, left: float, middle: float, letters: str, fill: int
) -> float:
    """Draw a badge centred on `middle`; return the x right of it."""
    font = ui_font(9.5, bold=True)
    size = badge_size(letters, font)
    box = QRectF(left, middle - size.height() / 2, size.width(), size.height())
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(qcolor(fill))
    painter.drawRoundedRect(box, 3, 3)
    painter.setFont(font)
    painter.setPen(qcolor(label_color(fill)))
    painter.drawText(box, Qt.AlignmentFlag.AlignCenter, letters)
    painter.restore()
    return left + size.width()


def set_label_color(label: QWidget, color: int) -> None:
    """Give a widget's words this colour."""
    # A palette would lose against any style sheet of a parent. Without the class, the
    # tooltip would have the colours, too: dim, on nothing.
    name = label.metaObject().className()
    label.setStyleSheet(f".{name} {{ color: {css(color)}; background: transparent; }}")


def lay_out(
    box: _Box,
    *parts: QWidget | QLayout | int | None,
    margins: tuple[int, int, int, int] = (0, 0, 0, 0),
    spacing: int = 0,
    wide: QWidget | None = None,
) -> _Box:
    """Put parts into a layout, one after the other; return it.

    Parameters
    ----------
    parts : a number leaves so many pixels, None all the room that is left.
    wide : which of them takes that room.
    """
    box.setContentsMargins(*margins)
    box.setSpacing(spacing)
    for part in parts:
        if part is None:
            box.addStretch(1)
        elif isinstance(part, int):
            box.addSpacing(part)
        elif isinstance(part, QLayout):
            box.addLayout(part)
        else:
            box.addWidget(part, int(part is wide))
    return box


def tool_button(
    parent: QWidget,
    text: str,
    tip: str,
    run: Callable[[], object] | SignalInstance | None = None,
    *,
    menu: QMenu | None = None,
    px: float = 12,
) -> QToolButton:
    """Return a flat button that runs something, or opens a menu."""
    made = QToolButton(parent)
    made.setText(caption(text))
    set_tip(made, tip)
    made.setAccessibleName(text)
    made.setAutoRaise(True)
    made.setFont(ui_font(px))
    made.setMinimumHeight(scaled(24))
    made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    if run is not None:
        made.clicked.connect(run)
    if menu is not None:
        made.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        made.setMenu(menu)
    return made


def combo_box(
    parent: QWidget,
    name: str,
    items: Iterable[tuple[str, object]] = (),
    *,
    tip: str = "",
) -> QComboBox:
    """Return a choice of (words, value); its tooltip is its name unless given."""
    made = QComboBox(parent)
    for label, value in items:
        made.addItem(label, value)
    made.setAccessibleName(name)
    set_tip(made, tip or name)
    made.setFont(ui_font(12))
    made.setMinimumHeight(scaled(24))
    return made


def tool_button_style(theme: Theme, color: int, *, padding: int = 8) -> str:
    """Return the style sheet of flat buttons with words of this colour."""
    return (
        f"QToolButton {{ color: {css(color)}; border: none; padding: 0 {padding}px;"
        " border-radius: 4px; background: transparent; }"
        f" QToolButton:hover {{ background: {css(theme.raised)}; }}"
        " QToolButton::menu-indicator { image: none; width: 0px; }"
    )


def keeps_key(event: QEvent, wants: Callable[[QKeyEvent], object]) -> bool:
    """Keep a key from the commands of the window where `wants` returns true.

    For overrides of ``event``: Qt asks whether a key is a shortcut before it comes.
    """
    is_asked = event.type() == QEvent.Type.ShortcutOverride
    if is_asked and isinstance(event, QKeyEvent) and wants(event):
        event.accept()
        return True
    return False


def add_replay(menu: QMenu, replay: ReplayModel) -> None:
    """Add what a menu offers of replay."""
    tip = "Pause replay" if replay.is_playing else "Play replay"
    add_action(menu, tip, replay.toggle)
    if replay.tick is not None:
        add_action(menu, "End replay", replay.end)


def pop_up(menu: QMenu, at: QPoint) -> None:
    """Show a menu at a global position; it goes when it closes."""
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.popup(at)


class EmptyState(QWidget):
    """The placeholder of a pane without data: a title and a hint."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("placeholder")
        self._title = Label(parent=self)
        self._hint = Label(parent=self)
        for label, px in ((self._title, 13), (self._hint, 12)):
            label.setFont(ui_font(px))
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            label.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 24, 12, 24)
        layout.setSpacing(4)
        layout.addStretch(1)
        layout.addWidget(self._title)
        layout.addWidget(self._hint)
        layout.addStretch(2)

    def say(self, title: str, hint: str = "") -> None:
        """Set title and hint."""
        self._title.setText(title)
        self._hint.setText(hint)
        self.setAccessibleName(f"{title} {hint}".strip())

    @property
    def text_bottom(self) -> int:
        """Lower edge of title and hint, in pixels from the top of the placeholder."""
        last = self._hint if self._hint.text() else self._title
        return last.geometry().bottom()

    @property
    def text(self) -> str:
        """Title and hint."""
        return " ".join(t for t in (self._title.text(), self._hint.text()) if t)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self._title, theme.dim)
        set_label_color(self._hint, theme.dim)


@guarded
class LinkButton(QPushButton):
    """A command that looks like a link; focusable, at least 24 px high."""

    def __init__(self, text: str, tip: str, parent: QWidget | None = None) -> None:
        super().__init__(caption(text), parent)
        set_tip(self, tip)
        self.setFlat(True)
        self.setFont(ui_font(12))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setMinimumHeight(scaled(24))
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def setText(self, text: str) -> None:
        """Show `text`, & and all."""
        super().setText(caption(text))

    def set_theme(self, theme: Theme) -> None:
        """Use the accent colour."""
        self.setStyleSheet(
            f"QPushButton {{ color: {css(theme.accent)}; border: none;"
            " background: transparent; text-align: left; padding: 2px 0px; }"
            " QPushButton:hover, QPushButton:focus { text-decoration: underline; }"
            f" QPushButton:disabled {{ color: {css(theme.faint)}; }}"
        )


class Disclosure(QWidget):
    """A section that opens and closes; its contents are made when first opened."""

    opened = Signal()

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._head = QToolButton(self)
        self._head.setText(title)
        set_tip(self._head, "Expand or collapse this section")
        self._head.setAccessibleName(title)
        self._head.setCheckable(True)
        self._head.setFont(heading_font())
        self._head.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._head.setArrowType(Qt.ArrowType.RightArrow)
        self._head.setAutoRaise(True)
        self._head.setMinimumHeight(scaled(24))
        self._head.toggled.connect(self._on_toggled)
        self._content: QWidget | None = None
        self._layout = lay_out(QVBoxLayout(self), self._head, spacing=4)

    def set_content(self, content: QWidget) -> None:
        """Show `content` below the head while open."""
        self._content = content
        content.setVisible(self.is_open)
        self._layout.addWidget(content)

    @property
    def is_open(self) -> bool:
        """Whether the contents show."""
        return self._head.isChecked()

    def set_open(self, is_open: bool) -> None:
        """Open or close."""
        self._head.setChecked(is_open)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._head.setStyleSheet(
            f"QToolButton {{ color: {css(theme.dim)}; border: none; padding: 0px;"
            " background: transparent; }"
            f" QToolButton:hover, QToolButton:focus {{ color: {css(theme.text)}; }}"
        )

    def _on_toggled(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self._head.setArrowType(arrow)
        if self._content is not None:
            self._content.setVisible(is_open)
        if is_open:
            self.opened.emit()


_GAP_PX, _LEFT_PX, _RIGHT_PX = 8, 12, 8
_MIN_WIDTH, _MIN_HEIGHT = 520, 300
"""A picture narrower than this has the words below it; lower too, it has none."""


@guarded
class ControlRow(QWidget):
    """Choices and switches from left to right; a sentence takes what room is left.

    In a narrow pane the labels go first, then switches and buttons from the end on
    go into a menu; where the choices alone have no room the row scrolls sideways.

    Attributes
    ----------
    words : the sentence; empty at first.
    more : the button of that menu, hidden where all has room.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[Label] = []
        self._controls: list[QWidget] = []
        self._label_of: dict[QWidget, Label] = {}
        self._left_out: set[QWidget] = set()
        self._buttons: list[QToolButton] = []
        self._panel = QWidget(self)
        self._row = QHBoxLayout(self._panel)
        menu = QMenu(self)
        menu.aboutToShow.connect(self._fill_menu)
        self.more = tool_button(self._panel, "More", "More controls", menu=menu)
        self._buttons.append(self.more)
        lay_out(self._row, self.more, spacing=_GAP_PX)
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetFixedSize)
        self._strip = _Strip(self._panel, self)
        self.message = ElidedLabel(self)
        self.message.setFont(ui_font(12))
        lay_out(
            QHBoxLayout(self),
            self._strip,
            self.message,
            margins=(_LEFT_PX, 4, _RIGHT_PX, 4),
            spacing=_GAP_PX,
            wide=self.message,
        )
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show what has room; the rest is in the menu."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        space = self.width() - _LEFT_PX - _RIGHT_PX - _GAP_PX
        space -= self.message.minimumSizeHint().width()
        offered = [one for one in self._controls if one not in self._left_out]
        titles = [self._label_of[one] for one in offered if one in self._label_of]
        needed = sum(map(_taken, offered)) - _GAP_PX
        labels = sum(map(_taken, titles))
        hidden = self._over(offered, needed - space)
        for label in self._labels:
            label.setVisible(label in titles and needed + labels <= space)
        for control in self._controls:
            control.setVisible(control in offered and control not in hidden)
        self.more.setVisible(bool(hidden))
        self._strip.updateGeometry()

    def _over(self, offered: Sequence[QWidget], excess: int) -> list[QWidget]:
        """Return the last switches and buttons, as many as are `excess` px wide."""
        hidden: list[QWidget] = []
        if excess <= 0:
            return hidden
        excess += _taken(self.more)
        for control in reversed(offered):
            if excess > 0 and isinstance(control, QCheckBox | QToolButton):
                hidden.append(control)
                excess -= _taken(control)
        return hidden

    def _fill_menu(self) -> None:
        """Offer what is not shown."""
        menu = self.more.menu()
        menu.clear()
        for control in self._controls:
            is_offered = control not in self._left_out
            is_hidden = is_offered and not control.isVisibleTo(self._panel)
            if is_hidden and isinstance(control, QCheckBox | QToolButton):
                shown = control.text().replace("&&", "&")
                action = add_action(
                    menu, shown, control.click, enabled=control.isEnabled()
                )
                action.setCheckable(control.isCheckable())
                action.setChecked(control.isChecked())

    def add_choice(
        self,
        label: str,
        items: Sequence[tuple[str, object]],
        tip: str,
        changed: Callable[[], object],
    ) -> QComboBox:
        """Add a choice of (words, value) after a label; `changed` is called."""
        self._add_label(label)
        box = combo_box(self._panel, label or tip, items, tip=tip)
        # Its width follows the font: by default it is that of the first showing.
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        box.currentIndexChanged.connect(lambda _: changed())
        self._place(box)
        return box

    def leave_out(self, *controls: QWidget) -> None:
        """Show all controls but these, which have no effect now, and their labels."""
        if self._left_out != {*controls}:
            self._left_out = {*controls}
            self._fit()

    def set_choices(self, box: QComboBox, items: Sequence[tuple[str, object]]) -> None:
        """Offer other (words, value) in a choice, which stays at its value if it can.

        Without a signal.
        """
        value = box.currentData()
        with QSignalBlocker(box):
            box.clear()
            for label, item in items:
                box.addItem(label, item)
        choose(box, value)
        self._panel.adjustSize()
        self._fit()

    def add_switch(
        self, label: str, tip: str, changed: Callable[[], object]
    ) -> QCheckBox:
        """Add a switch that is off."""
        box = QCheckBox(label, self._panel)
        set_tip(box, tip)
        box.setFont(ui_font(12))
        box.setMinimumHeight(scaled(24))
        box.toggled.connect(lambda _: changed())
        self._place(box)
        return box

    def add_button(
        self, label: str, tip: str, clicked: Callable[[], object]
    ) -> QToolButton:
        """Add a command."""
        button = tool_button(self._panel, label, tip, clicked)
        self._buttons.append(button)
        self._place(button)
        return button

    def add_widget(self, widget: QWidget, label: str = "") -> None:
        """Add any control, after a label."""
        self._add_label(label)
        widget.setFont(ui_font(12))
        widget.setMinimumHeight(scaled(24))
        if isinstance(widget, QSpinBox | QDoubleSpinBox):
            # The padding of the style sheet moves the frame, not the text.
            widget.lineEdit().setTextMargins(scaled(6), 0, 0, 0)
        self._place(widget)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for label in (self.message, *self._labels):
            set_label_color(label, theme.dim)
        for button in self._buttons:
            button.setStyleSheet(tool_button_style(theme, theme.dim))

    def _add_label(self, text: str) -> None:
        if text:
            label = Label(text, self._panel)
            label.setFont(ui_font(12))
            label.setAlignment(Qt.AlignmentFlag.AlignVCenter)
            self._labels.append(label)
            self._place(label)

    def _place(self, widget: QWidget) -> None:
        self._row.insertWidget(self._row.count() - 1, widget)
        if widget in self._labels:
            return
        if self._labels and self._labels[-1] not in self._label_of.values():
            self._label_of[widget] = self._labels[-1]
        self._controls.append(widget)


def _taken(control: QWidget) -> int:
    """Return how wide a control and the gap beside it are."""
    return control.sizeHint().width() + _GAP_PX


@guarded
class _Strip(QScrollArea):
    """A row that scrolls sideways where it is too long: by the wheel, and by Tab."""

    def __init__(self, panel: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._panel = panel
        off = Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setHorizontalScrollBarPolicy(off)
        self.setVerticalScrollBarPolicy(off)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        panel.setAutoFillBackground(False)
        self.setWidget(panel)

    def sizeHint(self) -> QSize:
        """Return the size of the whole row."""
        return self._panel.sizeHint()

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as need be, but never lower than the controls."""
        return QSize(0, self._panel.sizeHint().height())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll sideways."""
        bar, turned = self.horizontalScrollBar(), event.angleDelta()
        bar.setValue(bar.value() - (turned.y() or turned.x()) // 2)
        event.accept()


def choose(box: QComboBox, value: object) -> None:
    """Show the item of a value without a signal; do nothing where there is none."""
    with QSignalBlocker(box):
        i = box.findData(value)
        if i >= 0:
            box.setCurrentIndex(i)


@guarded
class RangeSwitch(QWidget):
    """Two buttons, one of them down; every one of a session shows the same.

    Attributes
    ----------
    this_range, all : the buttons.
    """

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setAccessibleName("Range of the list")
        self.this_range = self._button(
            "this range",
            "Only spans in the marked range, else in the visible range (Shift+T). "
            "After a zoom to a row the list stays until the timeline is moved or "
            "this button is clicked.",
        )
        self.all = self._button("all", "The whole trace (Shift+T)")
        self._group = QButtonGroup(self)
        self._group.addButton(self.this_range)
        self._group.addButton(self.all)
        self._group.buttonClicked.connect(self._on_clicked)
        lay_out(QHBoxLayout(self), self.this_range, self.all)
        session.ranges.limited_changed.connect(self._show)
        self._show(session.ranges.is_limited)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = tool_button(self, text, tip, px=11.5)
        button.setCheckable(True)
        button.setMinimumHeight(scaled(22))
        return button

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.setStyleSheet(
            f"QToolButton {{ color: {css(theme.dim)}; padding: 0 7px;"
            f" border: 1px solid {css(theme.raised)}; border-radius: 4px;"
            " background: transparent; }"
            f" QToolButton:hover {{ background: {css(theme.raised)}; }}"
            f" QToolButton:checked {{ color: {css(theme.text)};"
            f" background: {css(theme.raised)}; }}"
            f" QToolButton:focus {{ border-color: {css(theme.accent)}; }}"
        )

    def fit_to_text(self) -> None:
        """Keep buttons as wide as their text: the style may cut it."""
        for button in (self.this_range, self.all):
            button.setMinimumWidth(button.sizeHint().width())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave every key but those of the buttons to the window."""
        event.ignore()

    def _show(self, only_range: bool) -> None:
        with QSignalBlocker(self._group):
            (self.this_range if only_range else self.all).setChecked(True)

    def _on_clicked(self, button: QToolButton) -> None:
        self._session.ranges.set_limited(button is self.this_range)
        self._session.ranges.unpin()  # also where that was on already


@guarded
class TextBeside(QSplitter):
    """Puts words beside a picture where it is wide, below it where it is high.

    Attributes
    ----------
    words : the label; its text can be selected and copied.
    """

    def __init__(self, picture: QWidget, name: str, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setChildrenCollapsible(False)
        self.message = Label(parent=self)
        self.message.setWordWrap(True)
        self.message.setFont(ui_font(12))
        self.message.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.message.setContentsMargins(12, 8, 12, 8)
        self.message.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.message.setAccessibleName(name)
        self.frame = QScrollArea(self)
        self.frame.setWidgetResizable(True)
        self.frame.setWidget(self.message)
        self.frame.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.frame.setAccessibleName(name)
        self.addWidget(picture)
        self.addWidget(self.frame)
        self.setStretchFactor(0, 3)
        self.setStretchFactor(1, 2)
        self.setSizes([600, 400])
        self.frame.hide()

    def say(self, text: str) -> None:
        """Show a text, Html as rich text; "" leaves all the room to the picture."""
        self.message.setText(text)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.message.setStyleSheet(
            f"color: {css(theme.text)}; background: {css(theme.pane)};"
        )
        self.frame.setStyleSheet(
            f"QScrollArea {{ border: none; background: {css(theme.pane)}; }}"
        )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange both anew."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_wide = self.width() >= scaled(_MIN_WIDTH)
        is_high = self.height() >= scaled(_MIN_HEIGHT)
        way = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if way != self.orientation():
            self.setOrientation(way)
        self.frame.setVisible(bool(self.message.text()) and (is_wide or is_high))


class Themed(QWidget):
    """A widget that paints itself in the colours of a theme."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme("dark")

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.update()


def draw_elided(
    painter: QPainter,
    box: QRect,
    text: str,
    font: QFont,
    color: int,
    mode: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
) -> None:
    """Draw a line of text at the left of `box`, elided to its width."""
    painter.setFont(font)
    painter.setPen(qcolor(color))
    width = max(0, box.width())
    shown = QFontMetrics(font).elidedText(one_line(text), mode, width)
    side = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    painter.drawText(box, side, shown)
