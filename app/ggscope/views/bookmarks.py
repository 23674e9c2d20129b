"""Bookmarks: named points and ranges of the trace, to go back to, name and arrange."""

from collections.abc import Callable
from functools import partial
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QHBoxLayout,
    QMenu,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.descriptions.spans import column_time_form, exact_time_text
from ggscope.model.units import Clock, Unit, format_duration, format_exact
from ggscope.render.theme import Theme, css
from ggscope.render.timeline.notes import note_color
from ggscope.session.bookmarks.bookmarks import MAX_NAME, MAX_NOTE, Bookmark
from ggscope.session.session import Session
from ggscope.views.base.cells import CopyForm
from ggscope.views.base.note_colors import add_note_colors
from ggscope.views.base.safe_text import (
    ElidedLabel,
    add_action,
    add_menu,
    copy_text,
    set_tip,
)
from ggscope.views.base.text_table import (
    Cell,
    Heading,
    Index,
    TextTable,
    TextTableModel,
)
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import (
    EmptyState,
    keeps_key,
    lay_out,
    pop_up,
    qcolor,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)

NAME, NOTE = 1, 5
"""Columns that can be written in."""
_MIME = "application/x-ggscope-bookmark-row"
_LENGTHS = {NAME: MAX_NAME, NOTE: MAX_NOTE}
_KEYS = 9
"""So many have keys of their own."""


@guarded
class BookmarkModel(TextTableModel):
    """The bookmarks in the user's order; names and notes can be written."""

    edited = Signal(int, int, str)  # row, column, text
    moved = Signal(int, int)  # from row, to row

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Return what can be done with a cell; rows are dropped between others."""
        if not index.isValid():
            return Qt.ItemFlag.ItemIsDropEnabled
        flags = super().flags(index) | Qt.ItemFlag.ItemIsDragEnabled
        if index.column() in _LENGTHS:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what an editor begins with, or what is shown.

        Where a note is empty, that one can be added.
        """
        mark = self.payload(index.row()) if index.isValid() else None
        if isinstance(mark, Bookmark):
            if role == Qt.ItemDataRole.EditRole:
                return mark.note if index.column() == NOTE else mark.name
            if index.column() == NOTE and not mark.note:
                if role == Qt.ItemDataRole.DisplayRole:
                    return "Add a note…"
                if role == Qt.ItemDataRole.ForegroundRole:
                    return qcolor(self.theme.dim)
        return super().data(index, role)

    def setData(
        self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """Hand out what was written; the bookmarks come back with it."""
        if not index.isValid() or index.column() not in _LENGTHS:
            return False
        if role != Qt.ItemDataRole.EditRole:
            return False
        self.edited.emit(index.row(), index.column(), str(value))
        return True

    def supportedDropActions(self) -> Qt.DropAction:
        """Return that rows can only be moved."""
        return Qt.DropAction.MoveAction

    def mimeTypes(self) -> list[str]:
        """Return the one form in which a row is dragged, inside this table."""
        return [_MIME]

    def mimeData(self, indexes: list[QModelIndex]) -> QMimeData:  # type: ignore[override]  # the stubs say Sequence
        """Return the first of the dragged rows."""
        data = QMimeData()
        row = min((index.row() for index in indexes), default=-1)
        data.setData(_MIME, str(row).encode())
        return data

    def dropMimeData(
        self,
        data: QMimeData,
        action: Qt.DropAction,
        row: int,
        column: int,
        parent: Index,
    ) -> bool:
        """Put the dragged row between two others."""
        if not data.hasFormat(_MIME) or action != Qt.DropAction.MoveAction:
            return False
        source = int(bytes(data.data(_MIME).data()).decode())
        target = row if row >= 0 else self.rowCount()
        if not 0 <= source < self.rowCount():
            return False
        self.moved.emit(source, target - (target > source))
        return True


@guarded
class BookmarkTable(TextTable):
    """A table of bookmarks that is worked by keys as well as by mouse."""

    delete_requested = Signal()
    undo_requested = Signal()
    redo_requested = Signal()
    shift_requested = Signal(int)  # rows down, < 0 = up

    def __init__(self, model: BookmarkModel, parent: QWidget) -> None:
        super().__init__(model, parent, "bookmarks")
        self.setSortingEnabled(False)
        self.horizontalHeader().setSectionsClickable(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setDragDropOverwriteMode(False)
        self._is_dragging = False
        self._commands = (
            (QKeySequence(Qt.Key.Key_F2), self.rename),
            (QKeySequence(QKeySequence.StandardKey.Delete), self.delete_requested.emit),
            (QKeySequence("Backspace"), self.delete_requested.emit),
            (QKeySequence("Ctrl+Z"), self.undo_requested.emit),
            (QKeySequence("Ctrl+Shift+Z"), self.redo_requested.emit),
            (QKeySequence("Ctrl+Y"), self.redo_requested.emit),
            (QKeySequence("Alt+Up"), self.shift_up),
            (QKeySequence("Alt+Down"), self.shift_down),
            (QKeySequence("Return"), self.open_current),
            (QKeySequence("Enter"), self.open_current),
        )

    def startDrag(self, supported_actions: Qt.DropAction) -> None:
        """Drag rows, but not within a drag that has just ended.

        Of two drags in the queue of a busy program, Qt starts the second before it
        has come back from the first, complains and drags nothing.
        """
        if not self._is_dragging:
            self._is_dragging = True
            try:
                super().startDrag(supported_actions)
            finally:
                self._is_dragging = False

    def rename(self) -> None:
        """Begin to write the current name, or the note where that is current."""
        self.edit_column(NOTE if self.currentIndex().column() == NOTE else NAME)

    def open_current(self) -> None:
        """Go to the current bookmark."""
        self._on_opened(self.currentIndex())

    def shift_up(self) -> None:
        """Move the current bookmark before the one above it."""
        self.shift_requested.emit(-1)

    def shift_down(self) -> None:
        """Move the current bookmark behind the one below it."""
        self.shift_requested.emit(1)

    def event(self, event: QEvent) -> bool:
        """Keep the keys of the table from the commands of the window."""
        return keeps_key(event, self._command) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Do what the table's own keys mean."""
        command = self._command(event)
        if command is None:
            super().keyPressEvent(event)
        else:
            command()

    def _command(self, event: QKeyEvent) -> Callable[[], object] | None:
        """Return what a key does here, None = nothing of ours."""
        if self.state() is QAbstractItemView.State.EditingState:
            return None
        pressed = event.keyCombination()
        plain = pressed.keyboardModifiers() & ~Qt.KeyboardModifier.KeypadModifier
        sequence = QKeySequence(plain.value | pressed.key().value)
        return next((run for keys, run in self._commands if keys == sequence), None)

    def edit_column(self, column: int) -> None:
        """Begin to write the name or the note of the current bookmark."""
        row = self.currentIndex().row()
        if row >= 0:
            index = self.rows.index(row, column)
            self.setCurrentIndex(index)
            self.edit(index)


class BookmarksView(View):
    """Lists the bookmarks of the trace."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.setAccessibleName("Bookmarks")
        self.model = BookmarkModel(self._headings(Clock()), self)
        self.table = BookmarkTable(self.model, self)
        self.table.setAccessibleName("Bookmarks of this trace")
        self.model.edited.connect(self._on_edited)
        self.model.moved.connect(self._on_moved)
        self.table.row_opened.connect(session.bookmarks.show)
        self.table.clicked.connect(self._on_clicked)
        self.table.delete_requested.connect(self._on_delete)
        self.table.undo_requested.connect(session.bookmarks.undo)
        self.table.redo_requested.connect(session.bookmarks.redo)
        self.table.shift_requested.connect(self._on_shift)
        self.table.customContextMenuRequested.disconnect()
        self.table.customContextMenuRequested.connect(self._on_menu)
        self.table.selectionModel().selectionChanged.connect(self._on_selection)
        self._empty = EmptyState(self)
        self._lay_out(self._make_head())
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._show),
            (session.bookmarks.changed, self._show),
            (session.bookmarks.location_changed, self._show_head),
            (session.display.absolute_time_changed, self._show),
        )

    def _make_head(self) -> QWidget:
        head = QWidget(self)
        self.add_button = tool_button(
            head,
            "Add here",
            "Bookmark the marked range or the selection, whichever is newer, "
            "else the middle of the view (Ctrl+D)",
            self._on_add,
        )
        self.delete_button = tool_button(
            head,
            "Delete",
            "Delete the selected bookmarks (Del)",
            self._on_delete,
        )
        self.note_button = tool_button(
            head,
            "Note…",
            "Edit the note of the selected bookmark",
            partial(self.table.edit_column, NOTE),
        )
        self._colors = QMenu(self)
        self._colors.aboutToShow.connect(self._fill_colors)
        tip = "Colour of the selected bookmarks, on the timeline and in figures"
        self.color_button = tool_button(head, "Colour", tip, menu=self._colors)
        undo = "Undo"
        self.undo_button = tool_button(head, undo, undo, self.table.undo_requested)
        self.location = ElidedLabel(head)
        self.location.setFont(ui_font(12))
        menu = QMenu(self)
        add_action(menu, "Copy as TSV", partial(self._copy_all, "tsv"))
        add_action(menu, "Copy as Markdown", partial(self._copy_all, "markdown"))
        add_action(menu, "Save as…", self._save_all)
        tip = "Copy all bookmarks"
        self._copy = tool_button(head, "Copy", tip, menu=menu)
        lay_out(
            QHBoxLayout(head),
            self.add_button,
            self.delete_button,
            self.note_button,
            self.color_button,
            self.undo_button,
            8,
            self.location,
            self._copy,
            margins=(8, 4, 8, 4),
            spacing=4,
            wide=self.location,
        )
        return head

    def _lay_out(self, head: QWidget) -> None:
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        lay_out(QVBoxLayout(self), head, body, wide=body)
        self.setFocusProxy(self.table)

    def _headings(self, clock: Clock, *, absolute: bool = False) -> tuple[Heading, ...]:
        """Return the columns; plain figures are copied with the unit of `clock`."""
        return (
            Heading("key", "Shortcut", 64),
            Heading("name", "F2 to rename", 180, is_text=True),
            Heading(
                "start", "Start time", 150, right=True,
                copied=f"start ({clock.column_unit(absolute)})",
            ),
            Heading(
                "duration", "Length of the range", 96, right=True,
                copied=f"duration ({clock.unit_name})", largest_first=True,
            ),
            Heading("set on", "Span or lane", 160),
            Heading(
                "note", "Click or F2 to edit", 200,
                is_text=True, stretch=True,
            ),
        )  # fmt: skip

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        set_label_color(self.location, theme.dim)
        style = (
            tool_button_style(theme, theme.text)
            + f" QToolButton:focus {{ color: {css(theme.accent)}; }}"
            f" QToolButton:disabled {{ color: {css(theme.faint)}; }}"
        )
        for made in (
            self.add_button, self.delete_button, self.note_button, self.color_button,
            self.undo_button, self._copy,
        ):  # fmt: skip
            made.setStyleSheet(style)
        self._show()

    # -- showing -----------------------------------------------------------

    def _show(self, _: object = None) -> None:
        session = self.session
        marks = session.bookmarks.items
        row = self.table.currentIndex().row()
        rows = [self._cells(number, mark) for number, mark in enumerate(marks, 1)]
        if session.trace is not None:
            clock, absolute = session.trace.clock, session.display.absolute_time
            self.model.set_headings(self._headings(clock, absolute=absolute))
        self.model.update_rows(rows, marks)
        self.table.fit_columns()
        if marks and not self.table.currentIndex().isValid():
            self._choose(max(0, min(row, len(marks) - 1)))
        self._stack.setCurrentWidget(self.table if marks else self._empty)
        self._say_empty()
        self._show_head()

    def _show_head(self, _: object = None) -> None:
        session = self.session
        has_trace = session.trace is not None
        self.add_button.setEnabled(has_trace)
        self._on_selection()
        undo = session.bookmarks.undo_title
        self.undo_button.setEnabled(bool(undo))
        tip = f"Undo: {undo} (Ctrl+Z)" if undo else "Undo"
        set_tip(self.undo_button, tip)
        self._copy.setEnabled(self.model.rowCount() > 0)
        self.location.setText(session.bookmarks.location)

    def _say_empty(self) -> None:
        if self.session.trace is None:
            self._empty.say("No trace is open.")
            return
        self._empty.say(
            "No bookmarks",
            "Drag a range or select a span, then press Ctrl+D; Shift+M asks for a "
            "name, M marks for now. Alt+1 … Alt+9 go back.",
        )

    def _cells(self, number: int, mark: Bookmark) -> tuple[Cell, ...]:
        session = self.session
        trace = session.trace
        unit: Unit = "ns" if trace is None else trace.clock.unit
        start, when, exact = mark.time.start, "", ""
        if trace is not None:
            form = column_time_form(trace, absolute=session.display.absolute_time)
            when = form.text(start)
            exact = exact_time_text(trace, start)
            start += trace.clock.shift(session.display.absolute_time)
        color = note_color(mark.color, self.theme)
        name = Cell(mark.name, tip=mark.name, color=color)
        if not mark.permanent:
            tip = "Temporary; name it (F2) to keep it"
            name = Cell(mark.name, tip=tip, color=self.theme.caution, shape="circle")
        duration = "point"
        if mark.time.duration:
            duration = format_duration(mark.time.duration, unit)
        return (
            Cell(f"Alt+{number}" if number <= _KEYS else str(number), raw=number),
            name,
            Cell(when, start, start, tip=exact),
            Cell(
                duration,
                raw=mark.time.duration,
                tip=format_exact(mark.time.duration, unit),
            ),
            Cell(mark.what or "–", raw=mark.what),
            Cell(mark.note, tip=mark.note),
        )

    def _chosen(self) -> list[int]:
        rows = {index.row() for index in self.table.selectionModel().selectedRows()}
        return sorted(row for row in rows if row < self.model.rowCount())

    def _choose(self, row: int) -> None:
        column = max(NAME, self.table.currentIndex().column())
        self.table.setCurrentIndex(self.model.index(row, column))

    # -- reactions ---------------------------------------------------------

    def _on_selection(self, *_: object) -> None:
        chosen = self._chosen()
        self.delete_button.setEnabled(bool(chosen))
        self.note_button.setEnabled(len(chosen) == 1)
        self.color_button.setEnabled(bool(chosen))

    def _on_clicked(self, index: Index) -> None:
        """Begin to write a note where a click is on the words that offer one."""
        mark = self.model.payload(index.row())
        is_free = isinstance(mark, Bookmark) and not mark.note
        held = QApplication.keyboardModifiers()
        if index.column() == NOTE and is_free and not held:
            self.table.edit_column(NOTE)

    def _on_add(self) -> None:
        if self.session.trace is not None:
            self.session.bookmarks.add()
            self._choose(self.model.rowCount() - 1)
            self.table.setFocus()

    def _fill_colors(self) -> None:
        self._colors.clear()
        self._add_colors(self._colors)

    def _add_colors(self, menu: QMenu) -> None:
        items = self.session.bookmarks.items
        current = {items[row].color for row in self._chosen()}
        add_note_colors(menu, self.theme, current, self._on_color)

    def _on_color(self, color: str) -> None:
        rows = self._chosen()
        if rows:
            self.session.bookmarks.set_color(color, *rows)

    def _on_edited(self, row: int, column: int, text: str) -> None:
        session = self.session
        if row >= len(session.bookmarks.items):
            return
        if column == NOTE:
            session.bookmarks.set_note(row, text)
        else:
            session.bookmarks.set_name(row, text)

    def _on_delete(self) -> None:
        rows = self._chosen()
        if rows:
            self.session.bookmarks.remove(*rows)
            if self.model.rowCount():
                self._choose(min(rows[0], self.model.rowCount() - 1))

    def _on_shift(self, by: int) -> None:
        row = self.table.currentIndex().row()
        if row >= 0:
            self._on_moved(row, row + by)

    def _on_moved(self, source: int, target: int) -> None:
        target = max(0, min(target, self.model.rowCount() - 1))
        if source != target:
            self.session.bookmarks.move(source, target)
            self._choose(target)

    def _copy_all(self, form: CopyForm) -> None:
        copy_text(self.model.text(range(self.model.rowCount()), form))

    def _save_all(self) -> None:
        rows = range(self.model.rowCount())
        self.table_requested.emit(self.model.file("bookmarks", rows))

    def _on_menu(self, place: QPoint) -> None:
        row = self.table.rowAt(place.y())
        menu = QMenu(self)
        if row >= 0:
            self._add_row_commands(menu, row)
        menu.addAction("Sort by time", self.session.bookmarks.sort)
        menu.addSeparator()
        self.table.fill_menu(menu)
        pop_up(menu, self.table.viewport().mapToGlobal(place))

    def _add_row_commands(self, menu: QMenu, row: int) -> None:
        if row not in self._chosen():
            self._choose(row)
        for text, keys, run in (
            ("Go to bookmark", "Return", self.table.open_current),
            ("Rename", "F2", partial(self.table.edit_column, NAME)),
            ("Edit note", "", partial(self.table.edit_column, NOTE)),
            ("Move up", "Alt+Up", self.table.shift_up),
            ("Move down", "Alt+Down", self.table.shift_down),
            ("Delete", "Del", self._on_delete),
        ):
            action = add_action(menu, text, run)
            action.setShortcut(QKeySequence(keys))
            # Shown only: the table has these keys already.
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self._add_colors(add_menu(menu, "Colour"))
        menu.addSeparator()
