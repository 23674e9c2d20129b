"""The palette: type a few letters, Enter takes what fits best.

It offers the commands, or the lanes and tensors to go to, which may be millions. The
sheet of keys shows all commands at once.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np
from PySide6.QtCore import (
    QAbstractListModel,
    QCoreApplication,
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
    QKeySequence,
    QPainter,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QGraphicsDropShadowEffect,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QScrollArea,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.rows.index import TraceIndex
from ggscope.gui.commands.menus import Actions
from ggscope.gui.commands.registry import COMMANDS, MENUS
from ggscope.gui.dialogs.fitted import Dialog
from ggscope.gui.widgets import label
from ggscope.model.tokens import token_noun, token_text
from ggscope.model.units import format_duration
from ggscope.sanitize import one_line
from ggscope.session.tasks import TaskContext
from ggscope.session.viewport import NO_TOKENS, TokenTimes, token_times
from ggscope.views.base.safe_text import set_title
from ggscope.views.base.view import guarded
from ggscope.views.registry import BUILTIN

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
    wanted = pattern.lower().replace(" ", "")
    if not wanted:
        return 1
    lower = text.lower()
    best, start = 0, lower.find(wanted[0])
    # A greedy walk from every place where the first letter occurs.
    while start >= 0:
        best = max(best, _walk(wanted, lower, start))
        start = lower.find(wanted[0], start + 1)
    if not best:
        return 0
    return max(1, best * 4 - len(lower) // 8)


def _fit(pattern: str, entry: Entry) -> int:
    """Return how well an entry fits, with its detail after or before it."""
    return max(
        fuzzy_score(pattern, f"{entry.text} {entry.detail}"),
        fuzzy_score(pattern, f"{entry.detail} {entry.text}"),
    )


def _walk(wanted: str, lower: str, start: int) -> int:
    score, last, at = 0, start - 1, start
    for letter in wanted:
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
        found = self._find(pattern)
        if pattern.strip():
            scored = [(_fit(pattern, e), i) for i, e in enumerate(found)]
            scored.sort(key=lambda pair: (-pair[0], pair[1]))
            self._shown = [found[i] for score, i in scored[:MAX_SHOWN] if score]
        else:
            self._shown = list(found[:MAX_SHOWN])
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
        room = inner.width() - keys_wide - 12
        painter.setPen(palette.color(QPalette.ColorRole.Text))
        text = metrics.elidedText(
            one_line(entry.text), Qt.TextElideMode.ElideMiddle, room
        )
        painter.drawText(inner, middle, text)
        painter.setPen(palette.color(QPalette.ColorRole.PlaceholderText))
        used = metrics.horizontalAdvance(text) + 12
        if entry.detail and room > used + 40:
            detail = metrics.elidedText(
                one_line(entry.detail), Qt.TextElideMode.ElideRight, room - used
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
        room = self._over.size()
        wide = min(_WIDTH, room.width() - 32)
        rows = min(MAX_ROWS, self.model.rowCount())
        if rows:
            body = rows * self.list.sizeHintForRow(0) + 2 * self.list.frameWidth()
        else:
            body = self._empty.sizeHint().height() + 8
        # Border, margins and spacing of the layout, and the line itself.
        high = min(body + self.edit.sizeHint().height() + 24, room.height() - 96)
        self.setGeometry((room.width() - wide) // 2, 56, wide, high)


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


FEW = 20_000
"""So many names are all compared with what is typed, letter by letter."""
FEW_SPANS = 1_000_000
"""In so many spans the tokens are found at once."""
MAX_CANDIDATES = 1_000
MAX_SCATTERED = 100_000
"""Among so many names letters that stand apart are looked for as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The lanes of a trace, its tensors and tokens: a source of entries of any length.

    Attributes
    ----------
    titles, keys, details : of each place; the key of a lane, "" for a tensor.
    lines : what is searched: title and detail, lower case.
    tokens : found by their number, which is typed.
    """

    index: TraceIndex
    titles: list[str]
    keys: list[str]
    details: list[str]
    lines: list[str]
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]
    tokens: TokenTimes = NO_TOKENS
    go_to_token: Callable[[int], object] | None = None

    def __len__(self) -> int:
        return len(self.titles)

    def candidates(self, pattern: str) -> Sequence[Entry]:
        """Return the places that may fit, at most MAX_CANDIDATES of very many.

        Those in which the pattern stands as it is come before those that have its
        letters in order. A number brings the tokens that are called so.
        """
        return [*self._tokens(pattern), *self._places(pattern)]

    def _tokens(self, pattern: str) -> list[Entry]:
        """Return the tokens of the number that is typed, by phase where need be."""
        typed = re.fullmatch(r"\D*?(\d{1,18})\D*", pattern.replace(",", "").strip())
        go = self.go_to_token
        if typed is None or go is None:
            return []
        trace, noun = self.index.trace, token_noun(self.index.trace)
        found = []
        places = np.flatnonzero(self.tokens.number == int(typed[1]))
        for place in places[:MAX_SHOWN].tolist():
            span, time = int(self.tokens.span[place]), self.tokens.range_of(place)
            phase = token_text(trace, span).partition("#")[0] if span >= 0 else ""
            length = format_duration(time.duration, trace.clock.unit)
            title = f"{phase}{noun} {typed[1]}"
            detail = f"#{typed[1]} · {length}"
            found.append(Entry(title, partial(go, place), detail))
        return found

    def _places(self, pattern: str) -> list[Entry]:
        if len(self) <= FEW:
            return [self._entry(i) for i in range(len(self))]
        if not pattern.strip():
            return [self._entry(i) for i in range(MAX_CANDIDATES)]
        wanted, lines = pattern.strip().lower(), self.lines
        found = list(
            islice((i for i, x in enumerate(lines) if wanted in x), MAX_CANDIDATES)
        )
        letters = ".*?".join(map(re.escape, wanted.replace(" ", "")))
        search, known = re.compile(letters, re.DOTALL).search, frozenset(found)
        scattered = (
            i
            for i, line in enumerate(islice(lines, MAX_SCATTERED))
            if i not in known and search(line)
        )
        found += islice(scattered, MAX_CANDIDATES - len(found))
        return [self._entry(i) for i in found]

    def _entry(self, i: int) -> Entry:
        title, key = self.titles[i], self.keys[i]
        run = partial(self.go_to_lane, key) if key else partial(self.find_tensor, title)
        return Entry(title, run, self.details[i])


@dataclass(frozen=True, slots=True, eq=False)
class PlacesRequest:
    """Lists lanes, tensors and tokens of a trace, on a worker where they are many.

    Attributes
    ----------
    lane_names : keys of lanes that the person renamed, and their names.
    """

    index: TraceIndex
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]
    go_to_token: Callable[[int], object] | None = None
    lane_names: tuple[tuple[str, str], ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether the list is made at once."""
        trace = self.index.trace
        n_names = len(trace.lanes) + len(trace.tensors.name)
        return n_names <= FEW and len(trace.spans) <= FEW_SPANS

    def __call__(self, context: TaskContext | None = None) -> Places:
        """Return the places; Cancelled passes through."""
        trace, lanes = self.index.trace, self.index.lanes
        given, keys = dict(self.lane_names), list(lanes.keys)
        own = zip(keys, lanes.titles, strict=True)
        titles = [given.get(key, title) for key, title in own]
        details = [lanes.groups[i] for i in lanes.group.tolist()]
        if context is not None:
            context.check_cancelled()
        names = trace.tensors.name
        told = [trace.strings[i] for i in names[names >= 0].tolist()]
        titles += told
        keys += [""] * len(told)
        details += [QCoreApplication.translate("GoTo", "tensor")] * len(told)
        lines: list[str] = []
        if len(titles) > FEW:
            both = zip(titles, details, strict=True)
            lines = [f"{title} {detail}".lower() for title, detail in both]
        if context is not None:
            context.check_cancelled()
        go = self.go_to_lane, self.find_tensor, token_times(trace), self.go_to_token
        return Places(self.index, titles, keys, details, lines, *go)


_COLUMNS = 3


class KeysSheet(Dialog):
    """A sheet of all keys; typing narrows it down, Esc closes it."""

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_title(self, "Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(1000, 660)
        self._actions = actions
        self.edit = QLineEdit(self)
        self.edit.setPlaceholderText("Search keys and commands")
        self.edit.setAccessibleName("Find")
        self.edit.textChanged.connect(self._fill)
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        box.addWidget(self.edit)
        box.addWidget(self._scroll, 1)
        self._fill("")

    def groups(self, pattern: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
        """Return (title, rows of (keys, text)) that contain `pattern`."""
        groups = []
        for menu in MENUS:
            rows = [
                (self._actions.all_keys_text(c), c.text.removesuffix("…"))
                for c in COMMANDS
                if c.menu.split("/")[0] == menu
                and c.keys
                and not c.id.startswith("go.bookmark_")
            ]
            if menu == "Go":
                # Alt is another sign on other systems.
                low, high = (
                    QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
                    for key in ("Alt+1", "Alt+9")
                )
                rows.append((f"{low} … {high}", "Go to bookmark 1 … 9"))
            groups.append((menu, rows))
        groups += [
            (view.title, list(view.gestures)) for view in BUILTIN if view.gestures
        ]
        text = pattern.strip().lower()
        matches = [
            (title, [row for row in rows if text in " ".join(row).lower()])
            for title, rows in groups
        ]
        return [(title, rows) for title, rows in matches if rows]

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use as many columns as there is room for."""
        super().resizeEvent(event)
        self._fill(self.edit.text())

    def _fill(self, pattern: str) -> None:
        for n_columns in range(_COLUMNS, 0, -1):
            page = self._page(pattern, n_columns)
            bar = self._scroll.verticalScrollBar().sizeHint().width()
            room = self.width() - 40 - bar
            if n_columns == 1 or page.minimumSizeHint().width() <= room:
                self._scroll.setWidget(page)
                return
            page.deleteLater()

    def _page(self, pattern: str, n_columns: int) -> QWidget:
        page = QWidget(self)
        columns = QHBoxLayout(page)
        columns.setContentsMargins(0, 0, 8, 0)
        columns.setSpacing(28)
        groups = self.groups(pattern)
        total = sum(len(rows) + 2 for _, rows in groups)
        sides = [QVBoxLayout() for _ in range(n_columns)]
        filled, at = 0, 0
        for title, rows in groups:
            if filled > total / n_columns * (at + 1) - 4 and at < n_columns - 1:
                at += 1
            sides[at].addLayout(_group(page, title, rows))
            filled += len(rows) + 2
        for side in sides:
            side.setSpacing(16)
            side.addStretch(1)
            columns.addLayout(side, 1)
        if not groups:
            sides[0].insertWidget(0, label("No matches", page, "dim"))
        return page


def _group(page: QWidget, title: str, rows: list[tuple[str, str]]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(12)
    grid.setVerticalSpacing(4)
    grid.addWidget(label(title.upper(), page, "head"), 0, 0, 1, 2)
    for y, (keys, text) in enumerate(rows, 1):
        grid.addWidget(label(text, page, wraps=True), y, 0)
        key = label(keys, page, "key")
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        grid.addWidget(key, y, 1, right)
    grid.setColumnStretch(0, 1)
    return grid
