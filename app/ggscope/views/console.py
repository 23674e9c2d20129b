"""Console: what a program that was started from the window prints, and how it ends."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QStackedLayout, QVBoxLayout
from PySide6.QtWidgets import QWidget as Widget

from ggscope.render.theme import Theme, css
from ggscope.sanitize import one_line
from ggscope.session.run import MAX_TEXT, Run
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, Label, copy_text
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    EmptyState,
    lay_out,
    mono_font,
    qcolor,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)


class ConsoleView(View):
    """The output of `Session.run`, stdout and, dimmed, stderr; the newest in sight.

    The user who scrolls up stays there.
    """

    updates_live = True

    def __init__(
        self, session: Session, theme: Theme, parent: Widget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.setAccessibleName("Console")
        self._is_at_end = True
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setFrameShape(QPlainTextEdit.Shape.NoFrame)
        self.text.setAccessibleName("Program output")
        self.text.setPlaceholderText("Program output appears here.")
        bar = self.text.verticalScrollBar()
        bar.actionTriggered.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._go_to_end)
        self._empty = EmptyState(self)
        body = Widget(self)
        lay_out(QVBoxLayout(body), self._make_head(body), self.text, wide=self.text)
        self._stack = QStackedLayout(self)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(body)
        self.set_theme(theme)
        run = session.run
        if run is None:
            hint = "Start one: File › Record a program…"
            self._empty.say("No program started in this tab", hint)
            return
        self._stack.setCurrentWidget(body)
        self.setFocusProxy(self.text)
        self.connect_until_release(
            (run.output_received, self._on_output), (run.changed, self._show)
        )
        self._show()

    def _make_head(self, parent: Widget) -> Widget:
        head = Widget(parent)
        self.state = Label(parent=head)
        self.state.setFont(ui_font(12, bold=True))
        self.message = ElidedLabel(head, mode=Qt.TextElideMode.ElideMiddle)
        self.message.setFont(ui_font(12))
        self.open = tool_button(head, "Open recording", "Open the file in a new tab")
        self.again = tool_button(
            head,
            "Run again…",
            "Record the program again, with the same or other options",
        )
        self.copy = tool_button(
            head, "Copy command", "Copy the equivalent command line"
        )
        self.open.clicked.connect(self._on_open)
        self.again.clicked.connect(self._on_again)
        self.copy.clicked.connect(self._on_copy)
        self._buttons = (self.open, self.again, self.copy)
        lay_out(
            QHBoxLayout(head),
            self.state,
            self.message,
            *self._buttons,
            margins=(12, 4, 8, 4),
            spacing=8,
            wide=self.message,
        )
        return head

    def set_theme(self, theme: Theme) -> None:
        """Write the text anew in the colours of `theme`."""
        super().set_theme(theme)
        self._empty.set_theme(theme)
        self.text.setFont(mono_font(11.5))
        set_label_color(self.message, theme.dim)
        style = tool_button_style(theme, theme.dim)
        for each in self._buttons:
            each.setStyleSheet(style)
        self.text.setStyleSheet(
            f"QPlainTextEdit {{ background: {css(theme.pane)};"
            f" color: {css(theme.text)}; border: none; padding: 0 8px; }}"
        )
        if self.session.run is not None:
            self._replay(self.session.run)
            self._show()

    def set_zoom(self, zoom: float) -> None:
        """Use letters of the size that the theme is made for."""
        self.text.setFont(mono_font(11.5))

    # -- the program -------------------------------------------------------

    def _show(self) -> None:
        """Show how the program stands."""
        run, theme = self.session.run, self.theme
        if run is None:
            return
        self.state.setText(f"● {run.state()}")
        color = theme.accent if run.is_running else theme.text
        set_label_color(self.state, theme.error if run.has_failed else color)
        text = f"{one_line(run.name)} · {self._recorded(run)}"
        if text != self.message.full_text:
            self.message.setText(text)
        self.again.setVisible(not run.is_running)
        is_shown = self.session.path is not None and str(self.session.path)
        self.open.setVisible(run.has_recording and is_shown != run.output)

    def _recorded(self, run: Run) -> str:
        place = one_line(run.output)
        if run.has_recording:
            return f"recorded to {place}"
        if not run.is_running:
            return "nothing recorded"
        return f"recording to {place}" if place else ""

    def _on_open(self) -> None:
        if self.session.run is not None:
            self.session.run.open_requested.emit(self.session.run.output)

    def _on_again(self) -> None:
        if self.session.run is not None:
            self.session.run.again_requested.emit()

    def _on_copy(self) -> None:
        if self.session.run is not None:
            copy_text(self.session.run.shown_command)

    # -- its output --------------------------------------------------------

    def _replay(self, run: Run) -> None:
        self.text.clear()
        for is_error, text in run.output_chunks():
            self._append(is_error, text)

    def _on_output(self, is_error: bool, text: str) -> None:
        run = self.session.run
        if run is not None and self.text.document().characterCount() > 2 * MAX_TEXT:
            self._replay(run)
        else:
            self._append(is_error, text)

    def _append(self, is_error: bool, text: str) -> None:
        look = QTextCharFormat()
        look.setForeground(qcolor(self.theme.dim if is_error else self.theme.text))
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, look)
        self._go_to_end()

    def _on_scrolled(self) -> None:
        """Stay where the user has scrolled to, or go on with the end.

        Asked of what people do alone: lines that break anew move the bar, too.
        """
        bar = self.text.verticalScrollBar()
        self._is_at_end = bar.sliderPosition() == bar.maximum()

    def _go_to_end(self) -> None:
        if self._is_at_end:
            bar = self.text.verticalScrollBar()
            bar.setValue(bar.maximum())
