"""Find words in a long text that a dialog shows."""

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QKeyEvent, QKeySequence, QShortcut, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QTextBrowser, QTextEdit

from ggscope.gui.widgets import GlyphButton, label, set_property
from ggscope.model.units import format_count
from ggscope.views.base.view import guarded

_MAX_MATCHES = 10_000
"""More places are not marked, those behind what is seen before others; a letter alone
has that many in a long text."""
_MARK_ALPHA = 70


@guarded
class FindLine(QFrame):
    """A line to find words with, how often they are there, and steps through them.

    Attributes
    ----------
    places : where the words are, in the order of the text.
    at : which of them is shown; -1 = none.
    """

    def __init__(self, browser: QTextBrowser) -> None:
        super().__init__(browser.parentWidget())
        self.setObjectName("search")
        self._browser = browser
        self.places: list[QTextCursor] = []
        self.at = -1
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText("Find in this text   Ctrl+F")
        self.edit.setAccessibleName("Find in this text")
        self.edit.setMaxLength(200)
        self.count = label("", self, "dim")
        self.previous = GlyphButton("up", "Previous hit (Shift+Enter)", self)
        self.next = GlyphButton("down", "Next hit (Enter)", self)
        self._text, self._begin = "", 0
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 1, 4, 1)
        row.setSpacing(2)
        row.addWidget(self.edit, 1)
        for widget in (self.count, self.previous, self.next):
            row.addWidget(widget)
        self.edit.textChanged.connect(self._find)
        self.edit.installEventFilter(self)
        self.previous.clicked.connect(self._on_previous)
        self.next.clicked.connect(self._on_next)
        for keys, work in (
            (QKeySequence.StandardKey.Find, self.start),
            (QKeySequence.StandardKey.FindNext, self._on_next),
            (QKeySequence.StandardKey.FindPrevious, self._on_previous),
        ):
            QShortcut(QKeySequence(keys), browser.window(), work)
        self._show()

    def start(self) -> None:
        """Let the user type what to find, in place of what stands there."""
        self.edit.setFocus()
        self.edit.selectAll()

    def step(self, by: int) -> None:
        """Show the next place, the previous one by -1; behind the last the first."""
        if self.places:
            self._go((self.at + by) % len(self.places))
            self._begin = self.places[self.at].selectionStart()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let Enter step and Esc end the search, before the dialog gets them."""
        kind = event.type()
        if kind in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            set_property(self, "focused", kind is QEvent.Type.FocusIn)
        if kind is QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
                self.step(-1 if back else 1)
                return True
            if event.key() == Qt.Key.Key_Escape and self.edit.text():
                self.edit.clear()
                self._browser.setFocus()
                return True
        return super().eventFilter(watched, event)

    def changeEvent(self, event: QEvent) -> None:
        """Mark the places in the colours of the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and self.places:
            self._mark()

    def _on_previous(self) -> None:
        self.step(-1)

    def _on_next(self) -> None:
        self.step(1)

    def _find(self, text: str) -> None:
        # While a word is typed on, from where the search for its first letter began.
        is_same_search = bool(self._text) and text.startswith(self._text)
        if not is_same_search:
            self._begin = self._browser.cursorForPosition(QPoint(1, 1)).position()
        self._text, here = text, self._begin
        below = self._places(text, here, _MAX_MATCHES)
        above = self._places(text, 0, _MAX_MATCHES - len(below), until=here)
        self.places = [*above, *below]
        self.at = -1
        self._mark()
        if self.places:
            self._go(len(above) if below else 0)
        else:
            clear = self._browser.textCursor()
            clear.clearSelection()
            self._browser.setTextCursor(clear)
            self._show()

    def _places(
        self, text: str, begin: int, limit: int, until: int | None = None
    ) -> list[QTextCursor]:
        """Return places of a text that begin from `begin` on, before `until`."""
        cursors: list[QTextCursor] = []
        document = self._browser.document()
        cursor = document.find(text, begin) if text.strip() else QTextCursor()
        while not cursor.isNull() and len(cursors) < limit:
            if until is not None and cursor.selectionStart() >= until:
                break
            cursors.append(QTextCursor(cursor))
            cursor = document.find(text, cursor)
        return cursors

    def _mark(self) -> None:
        color = self._browser.palette().highlight().color()
        color.setAlpha(_MARK_ALPHA)
        marks = []
        for place in self.places:
            mark = QTextEdit.ExtraSelection()
            mark.cursor = place
            form = mark.format
            form.setBackground(color)
            mark.format = form
            marks.append(mark)
        self._browser.setExtraSelections(marks)

    def _go(self, at: int) -> None:
        self.at = at
        self._browser.setTextCursor(self.places[at])
        self._browser.ensureCursorVisible()
        self._show()

    def _show(self) -> None:
        text = ""
        if self.places:
            more = "+" if len(self.places) == _MAX_MATCHES else ""
            of = format_count(len(self.places)) + more
            text = f"{format_count(self.at + 1)} of {of}"
        elif self.edit.text().strip():
            text = "no matches"
        self.count.setText(text)
        self.previous.setEnabled(bool(self.places))
        self.next.setEnabled(bool(self.places))
