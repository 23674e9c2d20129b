"""Selection statistics: what lies inside the marked range, in figures."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QTimer
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QMenu,
    QStackedLayout,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.index import TraceIndex
from ggscope.analysis.stats import By, StatRow, statistics
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import Array
from ggscope.model.time import TimeRange, Unit
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_share,
)
from ggscope.render.palette import category_color
from ggscope.render.theme import Theme, css, theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.base import View, ViewSpec
from ggscope.views.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.widgets import (
    Connections,
    EmptyState,
    connect_all,
    disconnect_all,
    qcolor,
    scaled,
    set_label_color,
    words_font,
)

_KEY = "statistics"
_QUIET_MS = 80
"""Rest before counting anew while the range is being dragged."""
_WITH_OPS: tuple[By, ...] = ("op", "family", "layer", "token", "thread", "phase")
_ENGINES: tuple[By, ...] = ("engine", "lane")
_LANES: tuple[By, ...] = ("lane",)


@dataclass(frozen=True, slots=True)
class Scope:
    """What the figures are about.

    Attributes
    ----------
    kind : where it comes from.
    time : range that spans must touch; only their part inside counts.
    lanes : timeline lane keys, None = all.
    ids : the selected spans, for kind "selected".
    """

    kind: Literal["marked", "selected", "visible"]
    time: TimeRange | None = None
    lanes: frozenset[str] | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsRequest:
    """Computes the figures of a scope; runs on a worker."""

    index: TraceIndex
    scope: Scope
    by: By
    mask: npt.NDArray[np.bool_] | None
    with_estimated: bool

    def __call__(self, context: TaskContext | None = None) -> "StatisticsResult":
        """Return the figures. Raises Cancelled between its steps."""
        scope, trace = self.scope, self.index.trace
        ids: Array | None = None
        if scope.kind == "selected":
            ids = np.array(scope.ids, np.int64)
        elif scope.lanes is not None and scope.time is not None:
            ids = spans_on_lanes(self.index, scope.lanes, scope.time)
        if context is not None:
            context.check_cancelled()
        mask = self.mask
        if mask is not None and len(mask) < len(trace.spans):
            mask = np.append(mask, np.zeros(len(trace.spans) - len(mask), bool))
        rows = statistics(
            trace,
            self.by,
            mask=mask,
            ids=ids,
            time=scope.time,
            clip=True,
            include_estimated=self.with_estimated,
        )
        return StatisticsResult(scope, self.by, tuple(rows), trace.clock.unit)


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsResult:
    """Figures and what they are about."""

    scope: Scope
    by: By
    rows: tuple[StatRow, ...]
    unit: Unit

    @property
    def n_spans(self) -> int:
        """Number of spans counted."""
        return sum(row.count for row in self.rows)

    @property
    def n_left_out(self) -> int:
        """Number of spans whose times were not used."""
        return sum(row.count - row.timed for row in self.rows)


def spans_on_lanes(index: TraceIndex, lanes: frozenset[str], time: TimeRange) -> Array:
    """Return the ids of the spans on `lanes` that may touch `time`.

    Lanes that the trace does not have are passed over.
    """
    known = {lane.key for lane in index.lanes}
    parts: list[Array] = [np.zeros(0, np.int64)]
    for key in sorted(lanes & known):
        for row in index.rows(key):
            first = int(np.searchsorted(row.end, time.start, "left"))
            last = int(np.searchsorted(row.start, time.end, "right"))
            parts.append(row.id[first:last].astype(np.int64))
    return np.concatenate(parts)


class StatisticsView(View):
    """One table of figures, always on; it follows marking, panning and filters."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session: Session | None = None
        self._result: StatisticsResult | None = None
        self._theme = theme("dark")
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_QUIET_MS)
        self._timer.timeout.connect(self.recount)
        self.setAccessibleName(self.tr("Selection statistics"))
        self.model = TextTableModel(self._headings("op", "ns"), self)
        self.table = TextTable(self.model, self)
        self.table.setAccessibleName(self.tr("Figures of the selection"))
        self._empty = EmptyState(self)
        self._lay_out(self._make_head())
        self.set_theme(self._theme)
        self._say_empty()

    def _make_head(self) -> QWidget:
        head = QWidget(self)
        self.about = QLabel(head)
        self.by = QComboBox(head)
        self.by.setAccessibleName(self.tr("Group by"))
        self.by.setToolTip(self.tr("Group by"))
        self.by.currentIndexChanged.connect(self._on_by_changed)
        self.estimated = QCheckBox(head)
        self.estimated.setText(self.tr("include estimated"))
        self.estimated.setToolTip(
            self.tr("Estimated times share out a measured whole; rank with care.")
        )
        self.estimated.toggled.connect(self._on_estimated_toggled)
        self._copy = QToolButton(head)
        self._copy.setText(self.tr("Copy"))
        self._copy.setToolTip(self.tr("Copy the table"))
        self._copy.setAutoRaise(True)
        self._copy.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self._copy)
        self.table.fill_menu(menu)
        self._copy.setMenu(menu)
        self._by_label = QLabel(self.tr("by"), head)
        self._by_label.setBuddy(self.by)
        layout = QHBoxLayout(head)
        layout.setContentsMargins(12, 4, 8, 4)
        layout.setSpacing(8)
        layout.addWidget(self.about, 1)
        for widget in (self.estimated, self._by_label, self.by, self._copy):
            widget.setFont(words_font(12))
            layout.addWidget(widget)
        self.about.setFont(words_font(12))
        for control in (self.by, self._copy):
            control.setMinimumHeight(scaled(24))
        return head

    def _lay_out(self, head: QWidget) -> None:
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self.table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(head)
        layout.addWidget(body, 1)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.table.set_theme(theme)
        self._empty.set_theme(theme)
        for widget in (self.about, self._by_label):
            set_label_color(widget, theme.dim)
        # Not by style sheet: that would take the box's own drawing away.
        palette = self.estimated.palette()
        palette.setColor(QPalette.ColorRole.WindowText, qcolor(theme.dim))
        self.estimated.setPalette(palette)
        self._copy.setStyleSheet(
            f"QToolButton {{ color: {css(theme.dim)}; border: none; padding: 0 8px;"
            " border-radius: 4px; background: transparent; }"
            f" QToolButton:hover {{ background: {css(theme.raised)}; }}"
            " QToolButton::menu-indicator { image: none; width: 0px; }"
        )
        if self._result is not None:
            self._show(self._result)

    # -- session -----------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Show `session` from now on."""
        self.detach()
        self._session = session
        connect_all(self._connections(session))
        self._on_trace_changed(None)

    def detach(self) -> None:
        """Stop showing it."""
        if self._session is None:
            return
        disconnect_all(self._connections(self._session))
        self._timer.stop()
        self._session.tasks.cancel(_KEY)
        self._session = self._result = None
        self._say_empty()

    def _connections(self, session: Session) -> Connections:
        return (
            (session.trace_changed, self._on_trace_changed),
            (session.visible_range_changed, self._on_changed),
            (session.marked_range_changed, self._on_changed),
            (session.selection_changed, self._on_changed),
            (session.mask_changed, self._on_changed),
        )

    def _on_trace_changed(self, _: object) -> None:
        trace = None if self._session is None else self._session.trace
        if trace is None:
            self._result = None
            self._say_empty()
            return
        self._offer_groupings(trace)
        self._on_changed(None)

    def _on_changed(self, _: object) -> None:
        # A pane behind another tab counts when it comes to the front.
        if self.isVisible():
            self._timer.start()

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _on_by_changed(self, _: int) -> None:
        self.recount()

    def _on_estimated_toggled(self, _: bool) -> None:
        self.recount()

    def _offer_groupings(self, trace: Trace) -> None:
        words = {
            "op": self.tr("op"),
            "family": self.tr("op family"),
            "layer": self.tr("layer"),
            "token": self.tr("token"),
            "thread": self.tr("thread"),
            "phase": self.tr("phase"),
            "engine": self.tr("engine"),
            "lane": self.tr("lane"),
        }
        has_engines = any(lane.kind == LaneKind.ENGINE for lane in trace.lanes)
        has_ops = bool((trace.spans.op[:100_000] >= 0).any()) or trace.ops is not None
        offered = _WITH_OPS if has_ops else _ENGINES if has_engines else _LANES
        current = [self.by.itemData(i) for i in range(self.by.count())]
        if current == list(offered):
            return
        self.by.blockSignals(True)
        self.by.clear()
        for key in offered:
            self.by.addItem(words[key], key)
        self.by.blockSignals(False)

    # -- counting ----------------------------------------------------------

    def scope(self) -> Scope | None:
        """Return what the figures should be about now; None without a trace."""
        session = self._session
        if session is None or session.trace is None:
            return None
        marked, selection = session.marked_range, session.selection
        if marked is not None:
            return Scope("marked", marked.time, marked.lanes)
        if selection.table == "spans" and len(selection.ids) > 1:
            return Scope("selected", ids=selection.ids)
        return Scope("visible", session.visible_range)

    def recount(self) -> None:
        """Compute the figures anew, on a worker; the old ones stay until then."""
        session, scope = self._session, self.scope()
        if session is None or scope is None or session.index is None:
            return
        if session.trace is not None and session.trace.pending:
            return  # reading goes first; the complete trace announces itself
        by: By = self.by.currentData() or "op"
        request = StatisticsRequest(
            session.index, scope, by, session.mask, self.estimated.isChecked()
        )
        session.tasks.run(_KEY, request, self._show, on_error=self._on_failed)

    def _on_failed(self, failure: TaskFailure) -> None:
        if self._session is not None:
            self._session.problem_reported.emit(failure.message)

    # -- showing -----------------------------------------------------------

    def _show(self, result: StatisticsResult) -> None:
        self._result = result
        self.about.setText(self.about_text(result))
        left_out = result.n_left_out
        text = self.tr("include estimated")
        if left_out and not self.estimated.isChecked():
            text += " " + self.tr("({0} left out)").format(format_count(left_out))
        self.estimated.setText(text)
        if not result.rows:
            self._say_empty()
            return
        self.model.set_headings(self._headings(result.by, result.unit))
        rows = [self._cells(row, result) for row in result.rows]
        self.model.set_rows(rows, self._totals(result))
        self.table.fit_columns()
        self._stack.setCurrentWidget(self.table)

    def about_text(self, result: StatisticsResult) -> str:
        """Return what the figures are about: "marked range 448.6 µs · 2 lanes …"."""
        scope, parts = result.scope, []
        if scope.kind == "selected":
            n_ids = format_count(len(scope.ids))
            parts.append(self.tr("{0} selected spans").format(n_ids))
        elif scope.time is not None:
            length = format_duration(scope.time.duration, result.unit)
            words = (
                self.tr("marked range {0}")
                if scope.kind == "marked"
                else self.tr("visible range {0}")
            )
            parts.append(words.format(length))
        if scope.lanes is not None:
            n = len(scope.lanes)
            parts.append(
                self.tr("1 lane") if n == 1 else self.tr("{0} lanes").format(n)
            )
        what = self.tr("ops") if result.by in _WITH_OPS else self.tr("spans")
        if result.n_spans == 1:
            what = self.tr("op") if result.by in _WITH_OPS else self.tr("span")
        parts.append(f"{format_count(result.n_spans)} {what}")
        if self._session is not None and self._session.filter:
            parts.append(self.tr("filtered"))
        return " · ".join(parts)

    def _say_empty(self) -> None:
        if self._session is None or self._session.trace is None:
            self._empty.say(self.tr("No trace is open."))
            self.about.clear()
        else:
            hint = self.tr("Drag across the timeline to mark a range.")
            self._empty.say(self.tr("No span lies in this range."), hint)
        self._stack.setCurrentWidget(self._empty)

    def _headings(self, by: str, unit: Unit) -> tuple[Heading, ...]:
        tr = self.tr
        suffix = "ns" if unit == "ns" else "cycles"

        def times(title: str, tip: str) -> Heading:
            return Heading(title, tip, 84, right=True, copied=f"{title} ({suffix})")

        return (
            Heading(by, tr("Group"), 160, stretch=True),
            Heading(tr("count"), tr("Number of spans"), 80, right=True),
            times(tr("sum"), tr("Sum of the parts inside the range")),
            times(tr("mean"), tr("Mean duration")),
            times(tr("min"), tr("Shortest")),
            times(tr("max"), tr("Longest")),
            times("p50", tr("Half take no longer than this")),
            times("p90", tr("90 % take no longer than this")),
            times("p99", tr("99 % take no longer than this")),
            Heading(tr("bytes"), tr("Bytes of all accesses"), 84, right=True),
            Heading(tr("share"), tr("Part of the sum of all rows"), 66, right=True),
            Heading(
                tr("quality"), tr("The least certain of its times"), 90, True, True
            ),
        )

    def _cells(self, row: StatRow, result: StatisticsResult) -> tuple[Cell, ...]:
        unit, color = result.unit, 0
        if result.by in ("op", "family"):
            kind = f"op:{row.key}" if result.by == "op" else row.key
            color = category_color(kind, self._theme)
        number = float(row.key) if row.key.isdecimal() else row.key
        is_certain = row.quality == "measured"
        timed = self.tr("{0} with a time of their own").format(format_count(row.timed))
        return (
            Cell(row.key, number, color=color),
            Cell(format_count(row.count), row.count, str(row.count), timed),
            _ticks(row.total if row.timed else None, unit),
            _ticks(row.mean, unit),
            _ticks(row.min, unit),
            _ticks(row.max, unit),
            _ticks(row.p50, unit),
            _ticks(row.p90, unit),
            _ticks(row.p99, unit),
            _bytes(row.bytes),
            Cell(format_share(row.share), row.share, f"{row.share:.6f}"),
            Cell(self.tr(row.quality), row.quality, caution=not is_certain),
        )

    def _totals(self, result: StatisticsResult) -> tuple[Cell, ...]:
        rows, unit = result.rows, result.unit
        timed = sum(row.timed for row in rows)
        total = sum(row.total for row in rows)
        lows = [row.min for row in rows if row.min is not None]
        highs = [row.max for row in rows if row.max is not None]
        none = Cell("–", raw="")
        return (
            Cell(self.tr("all")),
            Cell(format_count(result.n_spans), raw=str(result.n_spans)),
            _ticks(total if timed else None, unit),
            _ticks(total / timed if timed else None, unit),
            _ticks(min(lows) if lows else None, unit),
            _ticks(max(highs) if highs else None, unit),
            none,
            none,
            none,
            _bytes(sum(row.bytes for row in rows)),
            Cell(format_share(1.0) if total else NOT_AVAILABLE, raw=""),
            none,
        )


def _ticks(value: float | None, unit: Unit) -> Cell:
    """Return a cell of a duration; what is not known reads "N/A"."""
    if value is None or math.isnan(value):
        return Cell(NOT_AVAILABLE, None, "")
    whole = float(value).is_integer()
    tip = format_exact(round(value), unit)
    raw = str(int(value)) if whole else f"{value:.1f}"
    return Cell(format_duration(value, unit), float(value), raw, tip)


def _bytes(n: int) -> Cell:
    if n <= 0:
        return Cell(NOT_AVAILABLE, None, "")
    return Cell(format_bytes(n), float(n), str(n), format_exact_bytes(n))


SPEC = ViewSpec("statistics", "Selection", "bottom", StatisticsView)
