"""What a tab shows while a file is read, when it cannot be, and when it changed."""

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRect, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.errors import AmbiguousFormatError, ReadError, UnknownFormatError
from ggscope.gui.widgets import (
    ProgressBar,
    button,
    label,
    set_property,
)
from ggscope.session.loader import read_error
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.safe_text import ElidedLabel, add_action, copy_text
from ggscope.views.base.view import guarded

ReaderChoice = tuple[str, str]  # id, title
_CARD_WIDTH = 620
_SALVAGE = "option strict"
"""How readers name the option that keeps what stands before a fault."""


class ProblemPage(QWidget):
    """A tab whose file could not be read: what, where, and what to do.

    Signals
    -------
    reload_requested : read it again.
    salvage_requested : read what stands before the fault.
    reader_chosen(id) : read it with this reader.
    """

    reload_requested = Signal()
    salvage_requested = Signal()
    reader_chosen = Signal(str)
    close_requested = Signal()

    def __init__(self, path: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._report = self._command = ""
        self.head = label("", self, "large", wraps=True)
        self.message = label("", self, wraps=True)
        self.where = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.where.setProperty("mono", True)
        self.where.setProperty("role", "dim")
        self.hint = label("", self, "dim", wraps=True)
        for text in (self.message, self.hint):
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.reload_button = button(
            "Reload",
            self.reload_requested.emit,
            self,
            primary=True,
            tip="Read the file again (F5)",
        )
        self.salvage_button = button(
            "Open the readable part",
            self.salvage_requested.emit,
            self,
            primary=True,
            tip="Show the data before the damage",
        )
        self.salvage_button.hide()
        self.command_button = button(
            "Copy command",
            self._copy_command,
            self,
            primary=True,
            tip="Copy the command for a terminal",
        )
        self.command_button.hide()
        self.reader_button = QPushButton("Open with another reader", self)
        self.reader_button.setAccessibleName("Open with another reader")
        self._readers = QMenu(self.reader_button)
        self._readers.triggered.connect(self._on_reader)
        self.reader_button.setMenu(self._readers)
        self.copy_button = button("Copy", self._copy, self)
        self.close_button = button("Close tab", self.close_requested.emit, self)
        self._lay_out()

    def show_failure(
        self, failure: TaskFailure | None, readers: Sequence[ReaderChoice]
    ) -> None:
        """Say why reading failed; `readers` fill the menu."""
        error = read_error(failure)
        self._command = ""
        if isinstance(error, UnknownFormatError):
            self._command = error.command
        name = self._path.name if self._path is not None else ""
        if failure is None:
            self.head.setText("Reading was cancelled")
            self.message.setText(f"{name} was not read.")
            where, hint = "", "Reload starts again."
        elif error is None and failure.report:
            self.head.setText("ggscope failed to read this file")
            self.message.setText(failure.message[:2000])
            where = ""
            hint = "This is a bug in ggscope. Copy puts a report on the clipboard."
        elif error is None:  # of what was asked, or for want of memory
            self.head.setText(self._headline(None))
            self.message.setText(failure.message[:2000])
            where, hint = "", ""
        else:
            self.head.setText(self._headline(error))
            self.message.setText(_sentence(error.message)[:2000])
            where, hint = self._place(error), self._remedy(error)
        self.setAccessibleName(self.head.text())
        self.where.setText(where)
        self.where.setVisible(bool(where))
        self.hint.setText(hint)
        self.hint.setVisible(bool(hint))
        self.salvage_button.setVisible(error is not None and _SALVAGE in error.hint)
        self.command_button.setVisible(bool(self._command))
        self._report = self._report_of(failure)
        self._fill_readers(error, readers)
        ways = (self.salvage_button, self.command_button)
        offered = [way for way in ways if not way.isHidden()]
        self.setFocusProxy((*offered, self.reload_button)[0])

    def _headline(self, error: ReadError | None) -> str:
        name = self._path.name if self._path is not None else ""
        if isinstance(error, AmbiguousFormatError):
            return f"Several readers claim {name}"
        if isinstance(error, UnknownFormatError):
            return f"Unknown format: {name}"
        return f"{name} could not be read"

    def _remedy(self, error: ReadError) -> str:
        """Return what to do here; readers speak of the command line's options."""
        if "--format" in error.hint and not self._command:
            return "If you know its format, choose its reader below."
        if _SALVAGE in error.hint:
            return "The data before the damage can be opened."
        return error.hint

    def _place(self, error: ReadError) -> str:
        parts = [str(error.path or self._path or "")]
        if error.offset:  # byte 0 is no place: the file as a whole is meant
            parts.append("at byte {}".format(f"{error.offset:,}"))
        if error.reader_id:
            parts.append(f"reader {error.reader_id}")
        return " · ".join(part for part in parts if part)

    def _report_of(self, failure: TaskFailure | None) -> str:
        lines = [
            self.head.text(),
            self.message.text(),
            self.where.full_text,
            self.hint.text(),
        ]
        if failure is not None and failure.report:
            lines.append(failure.report)
        return "\n".join(line for line in lines if line)

    def _fill_readers(
        self, error: ReadError | None, readers: Sequence[ReaderChoice]
    ) -> None:
        self._readers.clear()
        first = error.candidates if isinstance(error, AmbiguousFormatError) else ()
        for reader_id, title in sorted(readers, key=lambda r: r[0] not in first):
            add_action(self._readers, f"{title}  ({reader_id})").setData(reader_id)
        can_salvage = error is not None and _SALVAGE in error.hint
        self.reader_button.setVisible(bool(readers) and not can_salvage)
        is_format = isinstance(error, (AmbiguousFormatError, UnknownFormatError))
        set_property(self.reader_button, "primary", is_format and not self._command)
        set_property(self.reload_button, "primary", not (is_format or can_salvage))

    def _on_reader(self, action: QAction) -> None:
        self.reader_chosen.emit(str(action.data()))

    def _copy(self) -> None:
        copy_text(self._report)

    def _copy_command(self) -> None:
        copy_text(self._command)

    def _lay_out(self) -> None:
        _, inner = centred_card(self, _CARD_WIDTH)
        for text in (self.head, self.message, self.where, self.hint):
            inner.addWidget(text)
        row = QHBoxLayout()
        row.setContentsMargins(0, 10, 0, 0)
        row.setSpacing(8)
        for part in (
            self.salvage_button,
            self.command_button,
            self.reload_button,
            self.reader_button,
            self.copy_button,
        ):
            row.addWidget(part)
        row.addStretch(1)
        row.addWidget(self.close_button)
        inner.addLayout(row)


@guarded
class LoadingCard(QFrame):
    """Lies over the empty panes while the first picture is on its way."""

    cancel_requested = Signal()

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.setObjectName("overlay")
        self.setAccessibleName(f"Reading {name}")
        head = ElidedLabel(self, f"Reading {name}", mode=Qt.TextElideMode.ElideMiddle)
        head.setProperty("role", "large")
        self.text = ElidedLabel(self, " ", mode=Qt.TextElideMode.ElideMiddle)
        self.text.setProperty("role", "dim")
        self.bar = ProgressBar("", self)
        self.bar.show_share(0, 0)
        stop = button("Cancel", self.cancel_requested.emit, self)
        box = QVBoxLayout(self)
        box.setContentsMargins(24, 20, 24, 16)
        box.setSpacing(10)
        for part in (head, self.bar, self.text):
            box.addWidget(part)
        box.addWidget(stop, 0, Qt.AlignmentFlag.AlignRight)
        parent.installEventFilter(self)
        self._place()
        self.show()
        self.raise_()

    def set_progress(self, text: str, done: int, total: int) -> None:
        """Show how far the reading is."""
        self.text.setText(text)
        if total > 0:
            self.bar.show_share(done, total)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the middle."""
        if event.type() == QEvent.Type.Resize:
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        outer = self._over.size()
        wide = min(440, max(200, outer.width() - 48))
        high = self.sizeHint().height()
        self.setGeometry(
            QRect((outer.width() - wide) // 2, (outer.height() - high) // 3, wide, high)
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def centred_card(page: QWidget, width: int) -> tuple[QFrame, QVBoxLayout]:
    """Put a card a little above the middle of `page`; return it and its layout."""
    card = QFrame(page)
    card.setObjectName("card")
    card.setMaximumWidth(width)
    card.setMinimumWidth(360)
    inner = QVBoxLayout(card)
    inner.setContentsMargins(28, 24, 28, 24)
    inner.setSpacing(10)
    box = QVBoxLayout(page)
    box.setContentsMargins(24, 24, 24, 24)
    row = QHBoxLayout()
    row.addStretch(1)
    row.addWidget(card, 100)
    row.addStretch(1)
    box.addStretch(2)
    box.addLayout(row)
    box.addStretch(3)
    return card, inner
