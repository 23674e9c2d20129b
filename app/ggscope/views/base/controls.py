"""What several views put around a picture or a list: controls, a switch, words."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSignalBlocker, QSize, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QToolButton,
    QWidget,
)

from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.base.plain import ElidedLabel, Label, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    combo_box,
    lay_out,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    words_font,
)

_GAP_PX = 8
_LEAST_WIDTH, _LEAST_HEIGHT = 520, 300
"""A picture narrower than this has the words below it; lower too, it has none."""


@guarded
class ControlRow(QWidget):
    """Choices and switches from left to right; a sentence takes what room is left.

    In a narrow pane the labels go first; then the row scrolls sideways.

    Attributes
    ----------
    words : the sentence; empty at first.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[Label] = []
        self._buttons: list[QToolButton] = []
        self._panel = QWidget(self)
        self._row = QHBoxLayout(self._panel)
        lay_out(self._row, margins=(0, 4, 0, 4), spacing=_GAP_PX)
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetFixedSize)
        self._strip = _Strip(self._panel, self)
        self.words = ElidedLabel(self)
        self.words.setFont(words_font(12))
        lay_out(
            QHBoxLayout(self),
            self._strip,
            self.words,
            margins=(12, 0, 8, 0),
            spacing=_GAP_PX,
            wide=self.words,
        )
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the labels out where not all has room."""
        super().resizeEvent(event)
        labels = [label for label in self._labels if label.isVisibleTo(self._panel)]
        width = self._panel.sizeHint().width()
        if not labels:
            width += sum(x.sizeHint().width() + _GAP_PX for x in self._labels)
        for label in self._labels:
            label.setVisible(width <= self.contentsRect().width() - 2 * _GAP_PX)
        self._strip.updateGeometry()

    def add_choice(
        self,
        label: str,
        items: Sequence[tuple[str, object]],
        tip: str,
        changed: Callable[[], object],
    ) -> QComboBox:
        """Add a choice of (words, value) after a label; `changed` hears of it."""
        self._add_label(label)
        box = combo_box(self._panel, label or tip, items, tip=tip)
        box.currentIndexChanged.connect(lambda _: changed())
        self._place(box)
        return box

    def add_switch(
        self, label: str, tip: str, changed: Callable[[], object]
    ) -> QCheckBox:
        """Add a switch that is off."""
        box = QCheckBox(label, self._panel)
        set_tip(box, tip)
        box.setFont(words_font(12))
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
        widget.setFont(words_font(12))
        widget.setMinimumHeight(scaled(24))
        self._place(widget)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for label in (self.words, *self._labels):
            set_label_color(label, theme.dim)
        for button in self._buttons:
            button.setStyleSheet(tool_button_style(theme, theme.dim))

    def _add_label(self, text: str) -> None:
        if text:
            label = Label(text, self._panel)
            label.setFont(words_font(12))
            label.setAlignment(Qt.AlignmentFlag.AlignVCenter)
            self._labels.append(label)
            self._place(label)

    def _place(self, widget: QWidget) -> None:
        self._row.addWidget(widget)


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
    """Show the item of a value without telling anybody; do nothing for no such one."""
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
        self.setAccessibleName(self.tr("What is listed and counted"))
        self.this_range = self._button(
            self.tr("this range"),
            self.tr(
                "Only spans that touch the marked range, or else the range that the "
                "timeline shows (Shift+T)"
            ),
        )
        self.all = self._button(
            self.tr("all"), self.tr("The whole trace, whatever is shown (Shift+T)")
        )
        self._group = QButtonGroup(self)
        self._group.addButton(self.this_range)
        self._group.addButton(self.all)
        self._group.buttonClicked.connect(self._on_clicked)
        lay_out(QHBoxLayout(self), self.this_range, self.all)
        session.only_range_changed.connect(self._show)
        self._show(session.only_range)

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

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave every key but those of the buttons to the window."""
        event.ignore()

    def _show(self, only_range: bool) -> None:
        with QSignalBlocker(self._group):
            (self.this_range if only_range else self.all).setChecked(True)

    def _on_clicked(self, button: QToolButton) -> None:
        self._session.set_only_range(button is self.this_range)


@guarded
class WordsBeside(QSplitter):
    """Puts words beside a picture where it is wide, below it where it is high.

    Attributes
    ----------
    words : the label; its text can be selected and copied.
    """

    def __init__(self, picture: QWidget, name: str, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setChildrenCollapsible(False)
        self.words = Label(parent=self)
        self.words.setWordWrap(True)
        self.words.setFont(words_font(12))
        self.words.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.words.setContentsMargins(12, 8, 12, 8)
        self.words.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.words.setAccessibleName(name)
        self.frame = QScrollArea(self)
        self.frame.setWidgetResizable(True)
        self.frame.setWidget(self.words)
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
        self.words.setText(text)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.words.setStyleSheet(
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
        is_wide = self.width() >= scaled(_LEAST_WIDTH)
        is_high = self.height() >= scaled(_LEAST_HEIGHT)
        way = Qt.Orientation.Horizontal if is_wide else Qt.Orientation.Vertical
        if way != self.orientation():
            self.setOrientation(way)
        self.frame.setVisible(bool(self.words.text()) and (is_wide or is_high))
