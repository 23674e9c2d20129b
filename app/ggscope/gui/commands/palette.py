"""The palette: type a few letters, Enter takes what fits best.

It offers the commands, or the lanes and tensors to go to, which may be millions.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QPainter,
    QPalette,
)
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsDropShadowEffect,
    QLineEdit,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.widgets import label
from ggscope.sanitize import one_line
from ggscope.views.base.view import guarded

MAX_SHOWN = 200
MAX_ROWS = 14
_WIDTH = 560

ModelIndex = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be run.

    Attributes
    ----------
    text : what is matched and read first.
    detail : dim text after it, such as the menu.
    keys : shortcut as people read it.
    """

    text: str
    run: Callable[[], object]
    detail: str = ""
    keys: str = ""


def fuzzy_score(pattern: str, text: str) -> int:
    """Return how well `pattern` fits into `text`; 0 = not at all.

    All letters must occur in order, in any case. Beginnings of words, runs of
    letters and short texts score higher. Blanks in the pattern match anything.
    """
    letters = pattern.lower().replace(" ", "")
    if not letters:
        return 1
    lower = text.lower()
    best, start = 0, lower.find(letters[0])
    # A greedy walk from every place where the first letter occurs.
    while start >= 0:
        best = max(best, _walk(letters, lower, start))
        start = lower.find(letters[0], start + 1)
    if not best:
        return 0
    return max(1, best * 4 - len(lower) // 8)


def _fit(pattern: str, entry: Entry) -> int:
    """Return how well an entry fits, with its detail after or before it."""
    return max(
        fuzzy_score(pattern, f"{entry.text} {entry.detail}"),
        fuzzy_score(pattern, f"{entry.detail} {entry.text}"),
    )


def _walk(letters: str, lower: str, start: int) -> int:
    score, last, at = 0, start - 1, start
    for letter in letters:
        at = lower.find(letter, last + 1)
        if at < 0:
            return 0
        begins = at == 0 or not lower[at - 1].isalnum()
        score += 1 + 4 * begins + 3 * (at == last + 1 and at != start)
        last = at
    return score


class EntrySource(Protocol):
    """Something that has more entries than anybody would look through."""

    def candidates(self, pattern: str) -> Sequence[Entry]:
        """Return the entries that may fit a pattern, in their order."""
        ...


@guarded
class EntryModel(QAbstractListModel):
    """Entries that fit the pattern, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._find: Callable[[str], Sequence[Entry]] = lambda _: ()
        self._shown: list[Entry] = []

    def set_entries(self, entries: Iterable[Entry] | EntrySource) -> None:
        """Offer these entries."""
        if isinstance(entries, Iterable):
            few = tuple(entries)
            self._find = lambda _: few
        else:
            self._find = entries.candidates
        self.set_pattern("")

    def set_pattern(self, pattern: str) -> None:
        """Show what fits; an empty pattern keeps the given order."""
        self.beginResetModel()
        matching = self._find(pattern)
        if pattern.strip():
            scored = [(_fit(pattern, e), i) for i, e in enumerate(matching)]
            scored.sort(key=lambda pair: (-pair[0], pair[1]))
            self._shown = [matching[i] for score, i in scored[:MAX_SHOWN] if score]
        else:
            self._shown = list(matching[:MAX_SHOWN])
        self.endResetModel()

    def entry(self, row: int) -> Entry | None:
        """Return the entry in `row`, or None."""
        return self._shown[row] if 0 <= row < len(self._shown) else None

    def rowCount(self, parent: ModelIndex = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of entries shown."""
        return 0 if parent.isValid() else len(self._shown)

    def data(
        self, index: ModelIndex, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Return the text of an entry, or the entry itself for UserRole."""
        entry = self.entry(index.row()) if index.isValid() else None
        if entry is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(entry.text)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(t for t in (entry.text, entry.detail, entry.keys) if t)
        return entry if role == Qt.ItemDataRole.UserRole else None


@guarded
class _EntryDelegate(QStyledItemDelegate):
    """Text at the left, keys at the right, detail between."""

    def sizeHint(self, option: QStyleOptionViewItem, _: ModelIndex) -> QSize:
        return QSize(200, max(28, option.fontMetrics.height() + 12))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: ModelIndex
    ) -> None:
        entry = index.data(Qt.ItemDataRole.UserRole)
        if not isinstance(entry, Entry):
            return
        rect: QRect = option.rect
        palette: QPalette = option.palette
        state = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & QStyle.StateFlag.State_Selected:
            ground = palette.color(QPalette.ColorRole.Accent)
            ground.setAlphaF(0.28)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(rect.adjusted(4, 1, -4, -1), 4, 4)
        metrics = painter.fontMetrics()
        middle = Qt.AlignmentFlag.AlignVCenter
        inner = rect.adjusted(14, 0, -14, 0)
        keys_wide = metrics.horizontalAdvance(entry.keys)
        space = inner.width() - keys_wide - 12
        painter.setPen(palette.color(QPalette.ColorRole.Text))
        text = metrics.elidedText(
            one_line(entry.text), Qt.TextElideMode.ElideMiddle, space
        )
        painter.drawText(inner, middle, text)
        painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
        used = metrics.horizontalAdvance(text) + 12
        if entry.detail and space > used + 40:
            detail = metrics.elidedText(
                one_line(entry.detail), Qt.TextElideMode.ElideRight, space - used
            )
            painter.drawText(inner.adjusted(used, 0, 0, 0), middle, detail)
        painter.drawText(inner, middle | Qt.AlignmentFlag.AlignRight, entry.keys)
        painter.restore()


@guarded
class Palette(QFrame):
    """An overlay with a line to type in and a list of what fits."""

    closed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.setObjectName("overlay")
        self.model = EntryModel(self)
        self.edit = QLineEdit(self)
        self.edit.setAccessibleName("Type to search")
        self.list = QListView(self)
        self.list.setObjectName("choices")
        self.list.setModel(self.model)
        self.list.setItemDelegate(_EntryDelegate(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setAccessibleName("Matches")
        self._empty = label("No matches", self, "dim")
        box = QVBoxLayout(self)
        box.setContentsMargins(8, 8, 8, 8)
        box.setSpacing(6)
        box.addWidget(self.edit)
        box.addWidget(self._empty)
        box.addWidget(self.list, 1)
        shadow = QGraphicsDropShadowEffect(self)
        shadow.setBlurRadius(36)
        shadow.setOffset(0, 8)
        shadow.setColor(QColor(0, 0, 0, 110))
        self.setGraphicsEffect(shadow)
        self.edit.textChanged.connect(self._on_text)
        self.edit.installEventFilter(self)
        self.list.clicked.connect(self._on_clicked)
        parent.installEventFilter(self)
        self.hide()

    def offer(self, entries: Iterable[Entry] | EntrySource, hint: str) -> None:
        """Open with these entries."""
        self.model.set_entries(entries)
        self.edit.clear()
        self.edit.setPlaceholderText(hint)
        self._on_text("")
        self._place()
        self.show()
        self.raise_()
        self.edit.setFocus(Qt.FocusReason.PopupFocusReason)

    def dismiss(self) -> None:
        """Close without running anything, and let go of what the entries hold."""
        if self.isVisible():
            self.hide()
            self.model.set_entries(())
            self.closed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Move in the list while the focus stays in the line."""
        if watched is not self.edit:
            if event.type() == QEvent.Type.Resize:
                self._place()
            return False
        if event.type() == QEvent.Type.FocusOut and not self.underMouse():
            self.dismiss()
        if not isinstance(event, QKeyEvent):
            return False
        if event.type() == QEvent.Type.ShortcutOverride and event.key() in _OURS:
            event.accept()
            return True
        return event.type() == QEvent.Type.KeyPress and self._on_key(event.key())

    def _on_key(self, key: int) -> bool:
        if key == Qt.Key.Key_Escape:
            self.dismiss()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._run(self.list.currentIndex().row())
        elif key in _STEPS:
            self._step(_STEPS[Qt.Key(key)])
        else:
            return False
        return True

    def _step(self, by: int) -> None:
        n = self.model.rowCount()
        if n:
            row = self.list.currentIndex().row() + by
            row = row % n if abs(by) == 1 else max(0, min(n - 1, row))
            self.list.setCurrentIndex(self.model.index(row))

    def _on_text(self, text: str) -> None:
        self.model.set_pattern(text)
        self._empty.setVisible(self.model.rowCount() == 0)
        self.list.setVisible(self.model.rowCount() > 0)
        if self.model.rowCount():
            self.list.setCurrentIndex(self.model.index(0))
        self._place()

    def _on_clicked(self, index: QModelIndex) -> None:
        self._run(index.row())

    def _run(self, row: int) -> None:
        entry = self.model.entry(row)
        if entry is None:
            return
        self.dismiss()
        entry.run()

    def _place(self) -> None:
        outer = self._over.size()
        wide = min(_WIDTH, outer.width() - 32)
        rows = min(MAX_ROWS, self.model.rowCount())
        if rows:
            body = rows * self.list.sizeHintForRow(0) + 2 * self.list.frameWidth()
        else:
            body = self._empty.sizeHint().height() + 8
        # Border, margins and spacing of the layout, and the line itself.
        high = min(body + self.edit.sizeHint().height() + 24, outer.height() - 96)
        self.setGeometry((outer.width() - wide) // 2, 56, wide, high)


_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: 10,
    Qt.Key.Key_PageUp: -10,
}
_OURS = {
    *_STEPS,
    Qt.Key.Key_Return,
    Qt.Key.Key_Enter,
    Qt.Key.Key_Escape,
}
