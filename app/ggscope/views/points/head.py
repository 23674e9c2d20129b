"""The head of the 3D view: replay, its slider, and the view."""

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSlider, QWidget

from ggscope.render.theme import Theme, css
from ggscope.views.base.safe_text import Label, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    lay_out,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)

STEPS = 10_000
"""Places of the slider."""
_SLIDER_PX = 150


@guarded
class PointsHead(QWidget):
    """Controls of the 3D view.

    Attributes
    ----------
    play, back, forward : buttons of replay. slider : where it is, 0..STEPS.
    reset : resets the view. note : what draws, where that is not OpenGL.
    """

    play_asked = Signal()
    step_asked = Signal(object)  # -1 | 1
    share_asked = Signal(object)  # 0..1
    reset_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.play = tool_button(
            self, "Replay", "Play or pause reads over time (Space)", self.play_asked
        )
        self.back = tool_button(
            self, "◂", "Replay: previous token, or time of a read (,)", self._on_back
        )
        self.back.setAccessibleName("Previous step of replay")
        self.forward = tool_button(
            self, "▸", "Replay: next token, or time of a read (.)", self._on_forward
        )
        self.forward.setAccessibleName("Next step of replay")
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(0, STEPS)
        self.slider.setValue(STEPS)
        self.slider.setFixedWidth(scaled(_SLIDER_PX))
        self.slider.setAccessibleName("Time of replay")
        set_tip(self.slider, "Show reads until this time; Esc shows all")
        self.slider.valueChanged.connect(self._on_slider)
        self.reset = tool_button(
            self, "Reset view", "Show the whole box (F); Backspace undoes",
            self.reset_asked,
        )  # fmt: skip
        self.note = Label("", self)
        self.note.setFont(ui_font(12))
        self.note.hide()
        lay_out(
            QHBoxLayout(self), self.play, self.back, self.slider, self.forward,
            self.reset, self.note, None, spacing=4,
        )  # fmt: skip

    def show_replay(self, share: float | None, *, is_playing: bool) -> None:
        """Show where replay is; None = all points are shown."""
        self.play.setText("Pause" if is_playing else "Replay")
        with QSignalBlocker(self.slider):
            self.slider.setValue(STEPS if share is None else round(share * STEPS))

    def set_usable(self, *, is_usable: bool) -> None:
        """Enable what acts on points, where there are some."""
        for part in (self.play, self.back, self.slider, self.forward, self.reset):
            part.setEnabled(is_usable)

    def show_note(self, text: str, tip: str) -> None:
        """Say what draws; "" = OpenGL, which needs no word."""
        self.note.setText(text)
        set_tip(self.note, tip)
        self.note.setVisible(bool(text))
        self._fit_width()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.note, theme.dim)
        for button in (self.play, self.back, self.forward, self.reset):
            button.setStyleSheet(
                tool_button_style(theme, theme.text)
                + f" QToolButton:disabled {{ color: {css(theme.faint)}; }}"
            )

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what has no room; menu and keys have all of it."""
        super().resizeEvent(event)
        self._fit_width()

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the button of replay."""
        return QSize(self.play.sizeHint().width(), super().minimumSizeHint().height())

    def _fit_width(self) -> None:
        space = self.width()
        parts: tuple[QWidget, ...] = (
            self.play, self.slider, self.reset, self.back, self.forward, self.note,
        )  # fmt: skip
        for part in parts:
            has_text = part is not self.note or bool(self.note.text())
            space -= part.sizeHint().width() + 4 if has_text else 0
            if part is self.slider:
                space -= scaled(_SLIDER_PX) - part.sizeHint().width()
            part.setVisible(has_text and (part is self.play or space >= 0))

    def _on_back(self) -> None:
        self.step_asked.emit(-1)

    def _on_forward(self) -> None:
        self.step_asked.emit(1)

    def _on_slider(self, value: int) -> None:
        self.share_asked.emit(value / STEPS)
