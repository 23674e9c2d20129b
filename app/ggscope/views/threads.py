"""Threads and waits: who is busy, who waits for whom, and the longest idle gaps."""

from dataclasses import dataclass
from functools import partial
from itertools import count

from PySide6.QtCore import QTimer
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.summary.gaps import Gaps, gaps
from ggscope.analysis.summary.threads import LaneTimes, ThreadTimes, thread_times
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.spans import (
    column_time_form,
    exact_time_text,
    op_words,
    quality_word,
)
from ggscope.descriptions.threads import (
    HIDDEN_IDLE,
    NOT_RECORDED,
    barriers_reason,
    gaps_note,
    gaps_reason,
    gaps_text,
    threads_text,
)
from ggscope.model.selection import By, Gap, MarkedRange, SpanGroup
from ggscope.model.trace import LaneKind, Trace, lane_titles
from ggscope.model.units import (
    Clock,
    TimeRange,
    Unit,
    format_count,
    format_counted,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure
from ggscope.session.time_ranges import with_air
from ggscope.views.base.safe_text import ElidedLabel
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    EmptyState,
    RangeSwitch,
    lay_out,
    set_label_color,
    tool_button,
    tool_button_style,
    words_font,
)

MAX_GAPS = 500
"""Gaps listed; of more the longest ones."""
_QUIET_MS = 80
"""Rest before counting anew while the range is being dragged."""
_MOST_CORES = 6
"""Numbers of cores in a cell; the tooltip has all."""
_NUMBERS = count()
_DURATION = 2


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
class WaitsResult:
    """Times of threads and idle gaps of a range, with the rows that show them."""

    trace: Trace
    scope: Scope
    absolute: bool
    times: ThreadTimes
    gaps: Gaps
    thread_rows: tuple[tuple[Cell, ...], ...]
    gap_rows: tuple[tuple[Cell, ...], ...]


def waits_of(
    trace: Trace, scope: Scope, absolute: bool, watcher: Watcher
) -> WaitsResult:
    """Return the times of threads and the gaps of a range, for a worker.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    watcher.progress(0, 4)
    times = thread_times(trace, scope.time)
    watcher.progress(1, 4)
    found = gaps(trace, scope.time, limit=MAX_GAPS, watcher=watcher)
    return WaitsResult(
        trace,
        scope,
        absolute,
        times,
        found,
        tuple(_thread_cells(times, lane, trace.clock.unit) for lane in times.lanes),
        _gap_cells(trace, found, absolute),
    )


class ThreadsView(View):
    """Two tables: the times of each thread or engine, and the longest idle gaps."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.result: WaitsResult | None = None
        self._task = f"threads-{next(_NUMBERS)}"
        self._counted: Scope | None = None
        self._own_mark: MarkedRange | None = None
        self._scope_of_list: Scope | None = None
        self._timer = QTimer(self, singleShot=True, interval=_QUIET_MS)
        self._timer.timeout.connect(self._recount)
        self.setAccessibleName("Threads and waits")
        self.thread_model = TextTableModel(_thread_headings(Clock()), self)
        self.threads = TextTable(self.thread_model, self, "threads", keeps_first=True)
        self.threads.setAccessibleName("Times of threads")
        self.threads.clicked.connect(self._on_thread)
        self.threads.selectionModel().selectionChanged.connect(self._on_thread)
        self.threads.row_opened.connect(self._on_thread_opened)
        self.gap_model = TextTableModel(_gap_headings(Clock(), False), self)
        self.gap_model.came_by = _DURATION
        self.gaps = TextTable(self.gap_model, self, "gaps", keeps_first=True)
        self.gaps.setAccessibleName("Longest idle gaps")
        self.gaps.clicked.connect(self._on_gap)
        self.gaps.selectionModel().selectionChanged.connect(self._on_gap)
        self.gaps.row_opened.connect(self._on_gap_opened)
        self._empty = EmptyState(self)
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.viewport.changed, self._on_scope_changed),
            (session.ranges.marked_changed, self._on_scope_changed),
            (session.ranges.kept_changed, self._on_scope_changed),
            (session.ranges.limited_changed, self._on_switched),
            (session.display.absolute_time_changed, self._count_again),
        )
        self._on_trace_changed(TraceChange.REPLACED)

    def _lay_out(self) -> None:
        head = QWidget(self)
        self.about = ElidedLabel(head)
        self.about.setObjectName("threads_about")
        self.about.setFont(words_font(12))
        self.tabs = QButtonGroup(self)
        for i, (text, tip) in enumerate(
            (
                ("Threads", "Busy, waiting and idle time of each thread or engine"),
                ("Gaps", "The longest idle gaps between spans"),
            )
        ):
            button = tool_button(head, text, tip)
            button.setCheckable(True)
            self.tabs.addButton(button, i)
        self.tabs.button(0).setChecked(True)
        self.tabs.idToggled.connect(self._show_tab)
        self._switch = RangeSwitch(self.session, head)
        lay_out(
            QHBoxLayout(head), *self.tabs.buttons(), self.about, self._switch,
            margins=(8, 4, 8, 4), spacing=8, wide=self.about,
        )  # fmt: skip
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        for part in (self._empty, self.threads, self.gaps):
            self._stack.addWidget(part)
        lay_out(QVBoxLayout(self), head, body, wide=body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.threads.set_theme(theme)
        self.gaps.set_theme(theme)
        self._empty.set_theme(theme)
        self._switch.set_theme(theme)
        set_label_color(self.about, theme.dim)
        style = (
            tool_button_style(theme, theme.dim)
            + f" QToolButton:checked {{ color: #{theme.text & 0xFFFFFF:06x};"
            f" background: #{theme.raised & 0xFFFFFF:06x}; }}"
            f" QToolButton:focus {{ color: #{theme.accent & 0xFFFFFF:06x}; }}"
        )
        for button in self.tabs.buttons():
            button.setStyleSheet(style)

    # -- session -----------------------------------------------------------

    def release(self) -> None:
        """Stop counting as well."""
        super().release()
        self._timer.stop()
        self.session.tasks.cancel(self._task)

    def showEvent(self, event: QShowEvent) -> None:
        """Count what was not counted while the pane was hidden."""
        super().showEvent(event)
        self._timer.start()

    def _on_trace_changed(self, change: TraceChange) -> None:
        self.session.tasks.cancel(self._task)
        if change not in (TraceChange.GREW, TraceChange.APPENDED):
            self._own_mark = None
            self._show_result(None)
        self._count_again()

    def _count_again(self, _: object = None) -> None:
        self._counted = None
        self._count_soon()

    def _on_switched(self, _: object) -> None:
        """Count what the switch says, also where a gap is marked."""
        self._own_mark = None
        self._on_scope_changed(None)

    def _on_scope_changed(self, _: object) -> None:
        if self.scope() != self._counted:
            self._count_soon()

    def _count_soon(self) -> None:
        # A pane behind another tab counts when it comes to the front.
        if self.isVisible():
            self._timer.start()

    def scope(self) -> Scope | None:
        """Return what to count; None without a trace.

        The mark of a gap that was chosen here does not count: it would take the other
        gaps out of the list.
        """
        session = self.session
        if session.trace is None:
            return None
        shown = session.ranges.listed
        if shown is None:
            return Scope("whole trace")
        if shown == self._own_mark and self._scope_of_list is not None:
            return self._scope_of_list
        name = "visible range" if session.ranges.marked is None else "marked range"
        return Scope(name, shown.time)

    def _recount(self) -> None:
        """Count anew on a worker; the rows stay until then."""
        trace, scope = self.session.trace, self.scope()
        if trace is None or scope is None or trace.is_partial:
            return
        if scope == self._counted:
            return
        self._counted = scope
        request = partial(waits_of, trace, scope, self.session.display.absolute_time)
        self.session.tasks.run(
            self._task,
            request,
            self._show_result,
            title="Adding up waits",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def _on_cancelled(self) -> None:
        self._counted = None

    def _on_failed(self, failure: TaskFailure) -> None:
        self._counted = None
        self.session.problem_reported.emit(failure.message)

    # -- showing -----------------------------------------------------------

    def _show_result(self, result: WaitsResult | None) -> None:
        self.result, title = result, "Gaps"
        if result is None:
            self.thread_model.set_rows(())
            self.gap_model.set_rows(())
        else:
            found = result.gaps
            if not gaps_reason(found):
                title += f"  {format_count(found.n_all)}"
            starts, ends = found.start.tolist(), found.end.tolist()
            payloads = [
                Gap(TimeRange(start, end), before, after)
                for start, end, before, after in zip(
                    starts,
                    ends,
                    found.before.tolist(),
                    found.after.tolist(),
                    strict=True,
                )
            ]
            n_left_out = found.n_all - len(found)
            clock = result.trace.clock
            self.thread_model.set_headings(_thread_headings(clock))
            self.gap_model.set_headings(_gap_headings(clock, result.absolute))
            lanes = [lane.name for lane in result.times.lanes]
            self.thread_model.set_rows(result.thread_rows, payloads=lanes)
            self.gap_model.set_rows(
                result.gap_rows, payloads=payloads, n_left_out=n_left_out
            )
            self.threads.what = self.gaps.what = _range_text(result)
        self.threads.fit_columns()
        self.gaps.fit_columns()
        self.tabs.button(1).setText(title)
        self._show_tab()

    def _show_tab(self, *_: object) -> None:
        result, shows_gaps = self.result, self.tabs.checkedId() == 1
        if result is None:
            self.about.clear()
            trace = self.session.trace
            if trace is None:
                self._empty.say("No trace is open.")
            else:
                self._empty.say("Still reading…" if trace.is_partial else "Counting…")
            self._stack.setCurrentWidget(self._empty)
            return
        parts = [_range_text(result)]
        if shows_gaps:
            parts.append(gaps_text(result.gaps, result.trace.clock.unit))
            if note := gaps_note(result.gaps):
                parts.append(note)
        elif result.times.lanes:
            parts.append(threads_text(result.times))
        self.about.setText(" · ".join(parts))
        if shows_gaps and not result.gap_rows:
            if reason := gaps_reason(result.gaps):
                self._empty.say("No idle gap can be seen", f"{_sentence(reason)}.")
            else:
                self._empty.say("No idle gaps in this range")
        elif not shows_gaps and not result.thread_rows:
            self._empty.say("No threads or engines", "No thread computes an op here.")
        else:
            self._stack.setCurrentWidget(self.gaps if shows_gaps else self.threads)
            return
        self._stack.setCurrentWidget(self._empty)

    # -- choosing ----------------------------------------------------------

    def _on_thread(self, *_: object) -> None:
        """Light the spans of the chosen thread."""
        rows, result = self.threads.selected_rows(), self.result
        if len(rows) != 1 or result is None:
            return
        name = self.thread_model.payload(rows[0])
        if isinstance(name, str):
            is_thread = result.times.kind is LaneKind.THREAD
            by: By = "thread" if is_thread else "engine"
            group = SpanGroup(by, name, time=result.scope.time)
            self.session.selection.select_group(group)

    def _on_thread_opened(self, _: int) -> None:
        """Go to the longest span of the chosen thread."""
        self._on_thread()
        self.session.linking.show_longest()

    def _gap_at(self, row: int) -> Gap | None:
        found = self.gap_model.payload(row)
        return found if isinstance(found, Gap) else None

    def _on_gap(self, *_: object) -> None:
        """Select the chosen gap and mark it."""
        rows = self.gaps.selected_rows()
        gap = self._gap_at(rows[0]) if len(rows) == 1 else None
        if gap is not None and self.result is not None:
            self._own_mark = MarkedRange(gap.time)
            self._scope_of_list = self.result.scope
            self.session.selection.select_gap(gap)
            self.session.ranges.set_marked(self._own_mark)

    def _on_gap_opened(self, row: int) -> None:
        """Fit the timeline to a gap."""
        gap = self._gap_at(row)
        if gap is not None:
            self._on_gap()
            self.session.viewport.set_visible(with_air(gap.time))


def _range_text(result: WaitsResult) -> str:
    scope = result.scope
    if scope.time is None:
        return scope.name
    length = format_duration(scope.time.duration, result.trace.clock.unit)
    return f"{scope.name} {length}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


# -- cells -------------------------------------------------------------------


def _thread_headings(clock: Clock) -> tuple[Heading, ...]:
    def time(title: str, tip: str) -> Heading:
        copied = f"{title} ({clock.unit_name})"
        return Heading(title, tip, 76, right=True, copied=copied, largest_first=True)

    def share(title: str, of: str) -> Heading:
        tip = f"{of} as a share of the range"
        return Heading(title, tip, 60, right=True, largest_first=True)

    return (
        Heading("lane", "Thread or engine", 110, stretch=True),
        time("busy", "While any of its ops runs"),
        share("busy %", "Busy time"),
        time("wait", "Recorded waits at barriers"),
        share("wait %", "Waits"),
        time("idle", "The rest of the range, before the first and behind the last op"
             " too"),
        share("idle %", "Idle time"),
        Heading("last", "How often it came last to a barrier", 56, right=True,
                largest_first=True),
        time("waited for", "How long the other threads waited at these barriers"),
        Heading("cores", "Numbers of the processor cores on which its ops began", 72,
                right=True, largest_first=True),
        Heading("moves", "How often an op began on another core than the one before: "
                "at least so many migrations", 60, right=True, largest_first=True),
    )  # fmt: skip


def _unknown(reason: str) -> Cell:
    return Cell("–", raw="", tip=reason)


def _thread_cells(times: ThreadTimes, lane: LaneTimes, unit: Unit) -> tuple[Cell, ...]:
    def time(ticks: int | None, reason: str, caution: str = "") -> tuple[Cell, Cell]:
        if ticks is None:
            return _unknown(reason), _unknown(reason)
        tip = format_exact(ticks, unit) + (f"; {caution}" if caution else "")
        text, is_doubtful = format_duration(ticks, unit), bool(caution)
        first = Cell(text, ticks, ticks, tip, caution=is_doubtful)
        if not times.duration:
            return first, _unknown("the range has no length")
        share = ticks / times.duration
        return first, Cell(
            format_share(share), share, share, caution, caution=is_doubtful
        )

    untimed = "no op here has a known time"
    busy = time(lane.busy, untimed, "" if lane.is_measured else HIDDEN_IDLE)
    wait = time(lane.wait, NOT_RECORDED)
    idle_reason = times.hidden_idle or untimed
    idle = time(lane.idle, idle_reason) if lane.is_measured else time(None, HIDDEN_IDLE)
    last, cores = times.waited_for(lane.name), times.cores.get(lane.name)
    if last is None:
        barriers = (_unknown(barriers_reason(times)),) * 2
    else:
        exact = format_exact(last.waited, unit)
        barriers = (
            Cell(format_count(last.n_last), last.n_last, last.n_last,
                 f"{format_count(last.n_last)} of "
                 f"{format_count(times.n_barriers or 0)} barriers"),
            Cell(format_duration(last.waited, unit), last.waited, last.waited, exact),
        )  # fmt: skip
    if cores is None:
        moves = (_unknown(NOT_RECORDED),) * 2
    else:
        numbers = [str(core) for core in cores.cores]
        text = ", ".join(numbers[:_MOST_CORES])
        if len(numbers) > _MOST_CORES:
            text += f" +{len(numbers) - _MOST_CORES}"
        every = ", ".join(numbers)
        cores_text = format_counted(len(numbers), "core")
        moved = cores.migrations
        moves = (
            Cell(text, len(numbers), every, f"{cores_text}: {every}"),
            Cell(format_count(moved), moved, moved),
        )
    return (Cell(lane.name, lane.name), *busy, *wait, *idle, *barriers, *moves)


def _gap_headings(clock: Clock, absolute: bool) -> tuple[Heading, ...]:
    return (
        Heading("lane", "Thread, engine or command", 110),
        Heading("begin", "When the lane became idle", 96, right=True,
                copied=f"begin ({clock.column_unit(absolute)})"),
        Heading("duration", "How long nothing ran and no wait was recorded", 84,
                right=True, copied=f"duration ({clock.unit_name})", largest_first=True),
        Heading("before", "Op that ran before the gap", 140, stretch=True),
        Heading("after", "Op that ran behind the gap", 140, stretch=True),
    )  # fmt: skip


def _gap_cells(
    trace: Trace, found: Gaps, absolute: bool
) -> tuple[tuple[Cell, ...], ...]:
    """Return the rows of gaps: lane, begin, duration, op before, op after."""
    form, unit = column_time_form(trace, absolute=absolute), trace.clock.unit
    shift, titles = trace.clock.shift(absolute), lane_titles(trace.lanes)
    columns = (found.lane, found.start, found.end, found.before, found.after)
    rows = []
    for lane, start, end, before, after in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        length, exact = end - start, exact_time_text(trace, start)
        rows.append(
            (
                Cell(titles[lane], titles[lane]),
                Cell(form.text(start), start, start + shift, exact),
                Cell(format_duration(length, unit), length, length,
                     format_exact(length, unit)),
                _span_cell(trace, before),
                _span_cell(trace, after),
            )
        )  # fmt: skip
    return tuple(rows)


def _span_cell(trace: Trace, span: int) -> Cell:
    text, quality = op_words(trace, span), quality_word(trace, span)
    return Cell(text, text, tip=f"{text}: {quality}", caution=quality != "measured")
