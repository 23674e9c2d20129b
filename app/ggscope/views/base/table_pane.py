"""TablePane: a view that is a table of what a file holds, made on a worker."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np
from PySide6.QtCore import QItemSelection, QItemSelectionModel, QSignalBlocker
from PySide6.QtWidgets import (
    QHBoxLayout,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.lazy_table import LazyTableModel
from ggscope.views.base.safe_text import ElidedLabel
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    EmptyState,
    combo_box,
    lay_out,
    scaled,
    set_label_color,
    ui_font,
)

MAX_ROWS = 5_000
"""Rows that a table shows; the head says how many there are."""
_NUMBERS = count()


@dataclass(frozen=True, slots=True, eq=False)
class TableContents:
    """What a table shows.

    Attributes
    ----------
    payloads : what rows stand for, one each.
    n_all : rows that there are, shown or not.
    about : what the head says.
    nothing : what stands there instead of no rows; "" = what the pane says.
    """

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]
    payloads: Sequence[object]
    n_all: int
    about: str
    nothing: str = ""

    @property
    def n_rows(self) -> int:
        """How many rows are shown."""
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class LazyContents:
    """What a table of any number of rows shows, each made when it is seen.

    Attributes
    ----------
    make : returns the cells of a row, of `n_rows`.
    order : returns all rows by a column (-1 = as they come), down or up.
    about : what the head says.
    """

    headings: tuple[Heading, ...]
    n_rows: int
    make: Callable[[int], tuple[Cell, ...]]
    order: Callable[[int, bool], I64]
    about: str
    nothing: str = ""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the user is in a table.

    Attributes
    ----------
    selected, current : what the selected rows and the one with the keys stand for.
    is_at_end : whether the last row is in sight, by scrolling.
    """

    selected: frozenset[object]
    current: object
    column: int
    scrolled: int
    is_at_end: bool


class TablePane(View):
    """A table with a head of one line; a row can be chosen and opened.

    Rows of `LazyContents` stand for their number.
    """

    name = ""
    """Of the pane, for assistive technology and file names."""
    nothing = ""
    """What it says where a file has no rows for it."""
    nothing_yet = "Still reading…"
    """What it says as long as some may come."""
    parts: tuple[tuple[str, str], ...] = ()
    """Tables to choose from, (words, value); none where there is one alone."""
    model_class: type[TextTableModel] = TextTableModel
    """`LazyTableModel` for `LazyContents`."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._task = f"table-{self.name}-{next(_NUMBERS)}"
        self._shown: Trace | None = None
        self._is_same = False
        """Whether rows that are listed anew are those of before, and others."""
        self.setAccessibleName(self.name)
        self.model = self.model_class((), self)
        self.table = TextTable(self.model, self, self.name, keeps_first=True)
        self.table.setAccessibleName(self.name)
        self.table.keep_selection_from_header()
        self.table.clicked.connect(self._on_chosen)
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
        self.table.row_opened.connect(self._on_opened)
        head = QWidget(self)
        self.about = ElidedLabel(head)
        self.about.setObjectName("table_about")
        self.about.setFont(ui_font(12))
        self.part = self.parts[0][1] if self.parts else ""
        shown: list[QWidget] = [self.about]
        if self.parts:
            box = combo_box(head, f"Table of {self.name.lower()}", self.parts)
            box.setObjectName("table_part")
            box.currentIndexChanged.connect(self._on_part_chosen)
            shown.insert(0, box)
        lay_out(
            QHBoxLayout(head),
            *shown,
            margins=(8, 4, 8, 4),
            spacing=scaled(12),
            wide=self.about,
        )
        body = QWidget(self)
        self._empty = EmptyState(self)
        self._stack = QStackedLayout(body)
        for part in (self._empty, self.table):
            self._stack.addWidget(part)
        lay_out(QVBoxLayout(self), head, body, wide=body)
        self.set_theme(theme)
        self.connect_until_release((session.trace_changed, self._on_trace_changed))
        self._on_trace_changed(TraceChange.REPLACED)

    @abstractmethod
    def contents(
        self, trace: Trace, watcher: Watcher
    ) -> TableContents | LazyContents | None:
        """Return the rows of a trace, on a worker; None where it has none."""

    def choose(self, payload: object) -> None:
        """Select what a row stands for."""

    def open(self, payload: object) -> None:
        """Show what a row stands for."""

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        set_label_color(self.about, theme.dim)

    def release(self) -> None:
        """Stop the worker as well."""
        super().release()
        self.session.tasks.cancel(self._task)

    def _on_part_chosen(self, place: int) -> None:
        self.part = self.parts[place][1]
        self._shown = None
        self._on_trace_changed(TraceChange.REPLACED)

    def _on_trace_changed(self, change: TraceChange) -> None:
        trace = self.session.trace
        self._is_same = change in (TraceChange.GREW, TraceChange.APPENDED)
        if trace is self._shown and trace is not None:
            return
        self.session.tasks.cancel(self._task)
        if trace is None:
            self._say("No trace is open.")
            return
        self.session.tasks.run(
            self._task,
            partial(self.contents, trace),
            partial(self._on_contents, trace),
            title=f"Listing {self.name.lower()}",
            on_error=self._on_failed,
        )

    def _on_failed(self, failure: TaskFailure) -> None:
        self.session.problem_reported.emit(failure.message)

    def _on_contents(
        self, trace: Trace, contents: TableContents | LazyContents | None
    ) -> None:
        self._shown = trace
        if contents is None or not contents.n_rows:
            is_waiting = trace.is_partial or trace.is_running
            nothing = self.nothing if contents is None else contents.nothing
            self._say(self.nothing_yet if is_waiting else nothing or self.nothing)
            return
        place = self._place() if self._is_same else None
        self._fill(contents)
        self.table.what = self.name
        self.table.fit_columns()
        if place is not None:
            self._go_back(place)
        self.about.setText(contents.about)
        self._stack.setCurrentWidget(self.table)

    def _fill(self, contents: TableContents | LazyContents) -> None:
        model = self.model
        if isinstance(contents, LazyContents):
            assert isinstance(model, LazyTableModel)
            rows = np.ones(contents.n_rows, np.bool_)
            model.set_source(contents.headings, contents.make, contents.order, rows)
            return
        model.set_headings(contents.headings)
        model.set_rows(
            contents.rows,
            payloads=contents.payloads,
            n_left_out=contents.n_all - len(contents.rows),
        )

    def _place(self) -> "_Place":
        """Return what is selected, and where the table is scrolled to."""
        bar = self.table.verticalScrollBar()
        rows, current = self.table.selected_rows(), self.table.currentIndex()
        return _Place(
            selected=frozenset(map(self.model.payload, rows)),
            current=self.model.payload(current.row()) if current.isValid() else None,
            column=max(current.column(), 0),
            scrolled=bar.value(),
            is_at_end=0 < bar.maximum() == bar.value(),
        )

    def _go_back(self, place: "_Place") -> None:
        """Select and show what was before; at the end, the newest rows."""
        model, table = self.model, self.table
        rows = model.rows_of((*place.selected, place.current))
        selection = QItemSelection()
        for payload in place.selected:
            if (row := rows.get(payload)) is not None:
                selection.select(model.index(row, 0), model.index(row, 0))
        chosen = table.selectionModel()
        with QSignalBlocker(chosen):  # nobody has chosen anything
            if (row := rows.get(place.current)) is not None:
                flags = QItemSelectionModel.SelectionFlag.NoUpdate
                chosen.setCurrentIndex(model.index(row, place.column), flags)
            flags = QItemSelectionModel.SelectionFlag.ClearAndSelect
            chosen.select(selection, flags | QItemSelectionModel.SelectionFlag.Rows)
        bar = table.verticalScrollBar()
        table.executeDelayedItemsLayout()
        bar.setValue(bar.maximum() if place.is_at_end else place.scrolled)
        table.viewport().update()

    def _say(self, message: str) -> None:
        self.about.clear()
        self.model.set_rows(())
        self._empty.say(message)
        self._stack.setCurrentWidget(self._empty)

    def _on_chosen(self, *_: object) -> None:
        rows = self.table.selected_rows()
        if len(rows) == 1 and (payload := self.model.payload(rows[0])) is not None:
            self.choose(payload)

    def _on_opened(self, row: int) -> None:
        payload = self.model.payload(row)
        if payload is not None:
            self.open(payload)
