"""The table of threads or engines: busy, waiting, idle, and who is waited for."""

from ggscope.analysis.summary.threads import LaneTimes, ThreadTimes, thread_times
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.threads import (
    HIDDEN_IDLE,
    NOT_RECORDED,
    barriers_reason,
    estimate_basis_text,
    estimate_text,
    threads_text,
)
from ggscope.model.selection import By, MarkedRange, SpanGroup
from ggscope.model.trace import LaneKind
from ggscope.model.units import (
    Clock,
    Unit,
    format_count,
    format_counted,
    format_duration,
    format_exact,
    format_share,
)
from ggscope.session.session import Session
from ggscope.views.base.text_table import Cell, Heading
from ggscope.views.threads.section import Contents, Query, Scope, Section, unknown_cell

_MAX_CORES = 6
"""Numbers of cores in a cell; the tooltip has all."""


class ThreadSection(Section):
    """A row per thread, or per engine of an NPU."""

    id = "threads"
    title = "Threads"
    tip = "Busy, waiting and idle time of each thread or engine"
    label = "Times of threads"
    nothing = ("No threads or engines", "")

    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return the times of the lanes that compute."""
        watcher.progress(0, 1)
        times, clock = thread_times(query.trace, query.scope.time), query.trace.clock
        is_thread = times.kind is LaneKind.THREAD
        return Contents(
            _thread_headings(clock),
            tuple(_thread_cells(times, lane, clock.unit) for lane in times.lanes),
            [(is_thread, lane.name) for lane in times.lanes],
            threads_text(times) if times.lanes else "",
            len(times.lanes),
            "No thread computes an op here.",
            note=estimate_text(times.estimate) if is_thread else "",
            note_tip=_one_a_line(estimate_basis_text(times.estimate))
            if is_thread
            else "",
        )

    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Light the spans of a thread."""
        if isinstance(payload, tuple):
            is_thread, name = payload
            by: By = "thread" if is_thread else "engine"
            session.selection.select_group(SpanGroup(by, name, time=scope.time))
        return None

    def open(self, session: Session, payload: object) -> None:
        """Go to the longest span of the chosen thread."""
        session.linking.show_longest()


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
        time("idle", "The rest of the range, also before the first and after the"
             " last op"),
        share("idle %", "Idle time"),
        Heading("last", "How often it came last to a barrier", 56, right=True,
                largest_first=True),
        time("waited for", "How long the other threads waited at these barriers"),
        Heading("cores", "Numbers of the processor cores on which its ops began", 72,
                right=True, largest_first=True),
        Heading("moves", "How often an op began on another core than the one before: "
                "at least so many migrations", 60, right=True, largest_first=True),
    )  # fmt: skip


def _thread_cells(times: ThreadTimes, lane: LaneTimes, unit: Unit) -> tuple[Cell, ...]:
    def time(ticks: int | None, reason: str, caution: str = "") -> tuple[Cell, Cell]:
        if ticks is None:
            return unknown_cell(reason), unknown_cell(reason)
        tip = format_exact(ticks, unit) + (f"; {caution}" if caution else "")
        text, is_doubtful = format_duration(ticks, unit), bool(caution)
        first = Cell(text, ticks, ticks, tip, caution=is_doubtful)
        if not times.duration:
            return first, unknown_cell("the range has no length")
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
        barriers = (unknown_cell(barriers_reason(times)),) * 2
    else:
        exact = format_exact(last.waited, unit)
        barriers = (
            Cell(format_count(last.n_last), last.n_last, last.n_last,
                 f"{format_count(last.n_last)} of "
                 f"{format_count(times.n_barriers or 0)} barriers"),
            Cell(format_duration(last.waited, unit), last.waited, last.waited, exact),
        )  # fmt: skip
    if cores is None:
        moves = (unknown_cell(NOT_RECORDED),) * 2
    else:
        numbers = [str(core) for core in cores.cores]
        text = ", ".join(numbers[:_MAX_CORES])
        if len(numbers) > _MAX_CORES:
            text += f" +{len(numbers) - _MAX_CORES}"
        every = ", ".join(numbers)
        cores_text = format_counted(len(numbers), "core")
        moved = cores.migrations
        moves = (
            Cell(text, len(numbers), every, f"{cores_text}: {every}"),
            Cell(format_count(moved), moved, moved),
        )
    return (Cell(lane.name, lane.name), *busy, *wait, *idle, *barriers, *moves)


def _one_a_line(text: str) -> str:
    """Return sentences below each other: tooltips of plain text do not wrap."""
    return text.replace(". ", ".\n")
