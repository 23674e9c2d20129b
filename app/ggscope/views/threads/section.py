"""What a table of the threads view declares: columns, rows, and what a row selects."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ggscope.analysis.workers import Watcher
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import Clock, TimeRange, Unit, format_duration, format_exact
from ggscope.session.session import Session
from ggscope.views.base.text_table import Cell, Heading

MAX_ROWS = 500
"""Rows listed; of more the largest ones."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The range that is counted, and what it is called.

    Attributes
    ----------
    time : None = the whole trace.
    """

    name: str
    time: TimeRange | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """What a table is asked.

    Attributes
    ----------
    absolute : whether times are written as times of day.
    window : ticks within which touches of a tensor count as handed over.
    """

    trace: Trace
    scope: Scope
    absolute: bool
    window: int

    def is_same(self, other: "Query") -> bool:
        """Return whether both ask the same of the same trace."""
        return self.trace is other.trace and self.key == other.key

    @property
    def key(self) -> tuple[Scope, bool, int]:
        """What distinguishes it from others of the same trace."""
        return self.scope, self.absolute, self.window


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """The answer.

    Attributes
    ----------
    headings : columns.
    rows : cells.
    payloads : what each row stands for.
    about : line above the table.
    n_all : rows, with those that are left out.
    reason : why there is no row, or "".
    is_known : whether no row means that there is nothing.
    note, note_tip : line below the table, and its tooltip; "" = none.
    """

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...] = ()
    payloads: Sequence[object] = ()
    about: str = ""
    n_all: int = 0
    reason: str = ""
    is_known: bool = True
    note: str = ""
    note_tip: str = ""


class Section(ABC):
    """One table.

    Attributes
    ----------
    id : name of the table.
    title, tip : of its tab.
    label : its accessible name.
    nothing : text where it has no rows: of a known and an unknown answer.
    counts_rows : whether the tab shows how many rows there are.
    came_by : column by which rows come, the largest first; -1 = by none.
    has_window : whether it depends on the window length.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    tip: ClassVar[str]
    label: ClassVar[str]
    nothing: ClassVar[tuple[str, str]]
    counts_rows: ClassVar[bool] = False
    came_by: ClassVar[int] = -1
    has_window: ClassVar[bool] = False

    @abstractmethod
    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return the table, for a worker. Raises Cancelled from the watcher."""

    @abstractmethod
    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Select what a row stands for; return the range that it marks, if any."""

    @abstractmethod
    def open(self, session: Session, payload: object) -> None:
        """Show what a chosen row stands for."""


def time_heading(title: str, tip: str, clock: Clock) -> Heading:
    """Return the heading of a column of durations."""
    copied = f"{title} ({clock.unit_name})"
    return Heading(title, tip, 76, right=True, copied=copied, largest_first=True)


def number_heading(title: str, tip: str, width: int = 60) -> Heading:
    """Return the heading of a column of counts or shares."""
    return Heading(title, tip, width, right=True, largest_first=True)


def time_cell(ticks: int, unit: Unit) -> Cell:
    """Return a duration."""
    return Cell(format_duration(ticks, unit), ticks, ticks, format_exact(ticks, unit))


def unknown_cell(reason: str) -> Cell:
    """Return the cell of what is not known."""
    return Cell("–", raw="", tip=reason)
