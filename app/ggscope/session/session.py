"""Session: one open trace and everything a person did to its view."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.selection_mapping import reselected
from ggscope.model.selection import (
    MarkedRange,
    Selection,
    SpanGroup,
)
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.session import viewport as view_range
from ggscope.session.bookmarks.bookmarks import (
    Subject,
    subject_of_range,
    subject_of_selection,
)
from ggscope.session.bookmarks.model import BookmarkModel
from ggscope.session.deferred_release import free_in_steps
from ggscope.session.display import DisplayOptions
from ggscope.session.lanes import LaneModel
from ggscope.session.linking import Linking
from ggscope.session.queries import Queries
from ggscope.session.scheduler import FrameScheduler
from ggscope.session.tasks import TaskFailure, Tasks
from ggscope.session.viewport import (
    NO_TOKENS,
    History,
    TokenTimes,
    ViewPoint,
    token_times,
)

if TYPE_CHECKING:
    from ggscope.session.live import LiveSession
    from ggscope.session.open_traces import OpenTraces
    from ggscope.session.run import Run


class TraceChange(Enum):
    """What happened to the trace.

    REPLACED : another trace, or the file read anew.
    EXTENDED : the next snapshot while spans are being read; ids may be others.
    GREW : the next snapshot with the same spans; names or accesses came.
    APPENDED : the next snapshot of a program that runs: the same spans, and others
        behind them from `Session.appended_from` on.
    CLOSED : there is none any more.
    """

    REPLACED = "replaced"
    EXTENDED = "extended"
    GREW = "grew"
    APPENDED = "appended"
    CLOSED = "closed"


class Session(QObject):
    """The document. Setters compare first: same value, no signal.

    Views connect to the signals, ask `trace` and `index`, and tell the session
    what the person pointed at. Payloads are frozen values. Everything here runs
    on the main thread.
    """

    trace_changed = Signal(object)  # TraceChange
    selection_changed = Signal(object)  # Selection
    view_requested = Signal(object)  # id of a view to bring to the front
    show_requested = Signal(object)  # id of a view to show the selection in, large
    visible_range_changed = Signal(object)  # TimeRange
    marked_range_changed = Signal(object)  # MarkedRange | None
    only_range_changed = Signal(object)  # bool
    list_kept_changed = Signal(object)  # bool: see Session.keeps_list
    status_message = Signal(object)  # str: for the status bar
    cursor_changed = Signal(object)  # tick under the mouse | None
    held_changed = Signal(object)  # bool: whether the mouse holds the picture
    reveal_requested = Signal(object)  # span id: scroll it into view
    reload_requested = Signal(object)  # dict of reader options, or None
    problem_reported = Signal(object)  # str: a failure of a view or a task

    def __init__(self, path: Path | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.path = path
        self.wheel_zooms = False
        """Whether the plain mouse wheel zooms time instead of scrolling lanes."""
        self.run: Run | None = None
        """A program that the tab has started; set before its views are made."""
        self.follower: LiveSession | None = None
        """What shows a program here while it runs; set before its views are made."""
        self.open_traces: OpenTraces | None = None
        """The sessions of all tabs; set before its views are made."""
        self.tasks = Tasks(self)
        self.frames = FrameScheduler(self.tasks, self)
        self.history = History(self)
        self.lanes = LaneModel(self.history, self)
        self.lanes.changed.connect(self._note)
        self.display = DisplayOptions(self)
        self.bookmarks = BookmarkModel(self.bookmark_subject, self)
        self.bookmarks.status_message.connect(self.status_message)
        self._trace: Trace | None = None
        self._index: TraceIndex | None = None
        self._earlier: TraceIndex | None = None
        self.appended_from = 0
        """The first span that the trace before this one did not have."""
        self.anchor: int | None = None
        """The tick that zooming keeps in its place, where a program is followed."""
        self.moves_by = 0
        """So many ticks a second what is in view moves on by itself, with a program
        that is followed; 0 = it stands, or how fast is not known."""
        self._selection = Selection()
        self.linking = Linking(self)
        self.linking.reveal_requested.connect(self.reveal_requested)
        self._visible = TimeRange(0, view_range.MIN_TICKS)
        self._marked: MarkedRange | None = None
        self._only_range = True
        self._shown_in = ("", Selection())
        self._listed = Selection()
        self._kept_range: tuple[MarkedRange | None] | None = None
        self._marked_last = False
        self._cursor: int | None = None
        self._is_held = False
        self._tokens: TokenTimes | None = None
        self.queries = Queries(self)
        self.queries.failed.connect(self.problem_reported)
        self.queries.filter_changed.connect(self._note)
        self.tasks.failed.connect(self.report)

    # -- the trace ---------------------------------------------------------

    @property
    def trace(self) -> Trace | None:
        """The trace; None before it is read and after `close`."""
        return self._trace

    @property
    def is_appending(self) -> bool:
        """Whether a running program causes the present signals, and not a person."""
        return self.frames.is_appending

    @property
    def index(self) -> TraceIndex | None:
        """What is derived from the trace; None where there is none."""
        if self._index is None and self._trace is not None:
            self._index = TraceIndex(
                self._trace, self._earlier, is_appended=self.appended_from > 0
            )
            self._earlier = None
        return self._index

    def set_trace(
        self,
        trace: Trace,
        change: TraceChange = TraceChange.REPLACED,
        visible: TimeRange | None = None,
    ) -> None:
        """Show `trace` from now on, and of it the range `visible` where that is given.

        EXTENDED, GREW and APPENDED keep all that a person did (a view that showed
        everything goes on showing everything); EXTENDED looks the selected spans up by
        their record. REPLACED fits, and forgets what refers to rows of the old trace.

        While spans are still to come, tasks wait that are not worth doing yet.
        """
        self.frames.is_appending = change is TraceChange.APPENDED and trace.is_running
        self.frames.n_spans = len(trace.spans)
        try:
            self._set_trace(trace, change, visible)
        finally:
            self.frames.is_appending = False

    def _set_trace(
        self, trace: Trace, change: TraceChange, wanted: TimeRange | None
    ) -> None:
        old = self._trace
        showed_all = old is None or self._visible == self._fit_range()
        is_new = old is None or change is TraceChange.REPLACED
        is_appended = old is not None and change is TraceChange.APPENDED
        self.appended_from = len(old.spans) if old is not None and is_appended else 0
        if is_appended:  # its columns go on in the next snapshot
            self._earlier = self._index or self._earlier
        else:
            if old is not None:
                free_in_steps(old, self._index)
            # Names and accesses change nothing of the rows and most of the colours.
            self._earlier = self._index if change is TraceChange.GREW else None
        self._trace, self._index, self._tokens = trace, None, None
        if not is_appended:  # else what waits is about spans that stay
            self.tasks.forget_held()
        self.tasks.hold(trace.is_partial)
        self.queries.on_trace(
            keeps_rows=change is TraceChange.GREW, is_appended=is_appended
        )
        if is_new or old is None:
            self.stop_keeping_list()
            self._listed = Selection()
            self.clear_selection()
        elif change is TraceChange.EXTENDED:
            self.select(reselected(self._selection, old, trace))
        self.display.set_trace(trace)
        self.trace_changed.emit(change)
        if not (is_appended and trace.is_running):
            self.linking.on_trace()
        if is_new:
            self.history.clear()
        if wanted is None:
            wanted = self._fit_range() if is_new or showed_all else self._visible
        else:  # it follows a program: no step of the person's
            showed_all = wanted != self._visible
        self._set_visible(wanted)
        self.queries.ask_again(is_appended=is_appended)
        if is_new:
            self._note()
        if is_new or showed_all:
            self.history.settle()

    def set_problems(self, trace: Trace) -> None:
        """Show the present trace with other problems, and nothing else changed."""
        self.set_trace(trace, TraceChange.GREW)

    def close(self) -> None:
        """Stop all work, without waiting for it, and let go of the trace."""
        self.tasks.close()
        self.frames.close()
        self.history.clear()
        if self._trace is None:
            return
        free_in_steps(self._trace, self._index)
        self._trace = self._index = self._earlier = self._tokens = None
        self.queries.forget()
        self.linking.forget()
        self.trace_changed.emit(TraceChange.CLOSED)

    def reload(self, options: dict[str, str] | None = None) -> None:
        """Ask for the file to be read again, with these reader options if given."""
        self.reload_requested.emit(options)

    # -- selection ---------------------------------------------------------

    @property
    def selection(self) -> Selection:
        """What is selected."""
        return self._selection

    def select(self, selection: Selection, *, is_listed: bool = False) -> None:
        """Select exactly this.

        Parameters
        ----------
        is_listed : whether it was chosen in a list of the range shown; see
            `keeps_list`.
        """
        if is_listed:
            self._listed = selection
        if selection == self._selection:
            return
        self._selection = selection
        if selection:
            self._marked_last = False
        self.selection_changed.emit(selection)
        self._note()
        if selection == self._selection:  # nobody selected something else meanwhile
            self.linking.update()

    def show_in(self, view_id: str, selection: Selection) -> None:
        """Select something, and show it in a view, whatever that has to open for it."""
        self.select(selection)
        self._shown_in = (view_id, selection)
        self.view_requested.emit(view_id)
        self.show_requested.emit(view_id)

    def is_shown_in(self, view_id: str) -> bool:
        """Tell whether what is selected was last asked to be shown in a view.

        For views that are made only then.
        """
        return bool(self._selection) and self._shown_in == (view_id, self._selection)

    def select_tensor(self, row: int) -> None:
        """Select a row of ``Trace.tensors``."""
        self.select(Selection("tensors", (row,)))

    def select_buffer(self, row: int) -> None:
        """Select a row of ``Trace.buffers``."""
        self.select(Selection("buffers", (row,)))

    def select_node(self, node: int) -> None:
        """Select a graph node by its id over all graphs."""
        self.select(Selection("nodes", (node,)))

    def select_expert(self, key: int) -> None:
        """Select an expert by its ``model.routing.expert_key``."""
        self.select(Selection("experts", (key,)))

    def select_group(self, group: SpanGroup) -> None:
        """Select a row of statistics: its spans are lit, and one can step through."""
        self.select(Selection("groups", (0,), group), is_listed=True)

    def clear_selection(self) -> None:
        """Select nothing and mark nothing."""
        self.select(Selection())
        self.set_marked(None)

    def select_span(
        self,
        span: int,
        reveal: bool = True,
        add: bool = False,
        *,
        is_listed: bool = False,
    ) -> None:
        """Select a span.

        Parameters
        ----------
        reveal : also scroll time and lanes so that it can be seen.
        add : add it to the selected spans, or take it out where it is one.
        is_listed : as in `select`.
        """
        ids: tuple[int, ...] = (span,)
        if add and self._selection.table == "spans":
            others = tuple(i for i in self._selection.ids if i != span)
            ids = others if span in self._selection.ids else (span, *others)
        chosen = Selection("spans", ids) if ids else Selection()
        self.select(chosen, is_listed=is_listed)
        if reveal and span in ids:
            self.reveal_span(span)

    def reveal_span(self, span: int) -> None:
        """Scroll time and lanes so that a span can be seen, without zooming."""
        if self._trace is None or not 0 <= span < len(self._trace.spans):
            return
        spans = self._trace.spans
        self.bring_into_view(TimeRange(int(spans.start[span]), int(spans.end[span])))
        self.reveal_requested.emit(span)

    def selected_range(self) -> TimeRange | None:
        """Return the time from the first to the last selected thing, or None.

        Of what does not lie in time: that of the spans that are linked with it.
        """
        if self._trace is None or not self._selection:
            return None
        found = view_range.of_selection(self._trace, self._selection)
        return self.linking.time() if found is None else found

    def step_span(self, by: int) -> None:
        """Select the next (+1) or previous (-1) span of the same row.

        Where something else than a span is selected, look at the next or previous of
        the spans that are linked with it; the selection stays.
        """
        index, active = self.index, self._selection.active
        if index is None or active is None:
            return
        if self._selection.table != "spans":
            self.linking.step(by)
            return
        neighbour = index.neighbours(active)[1 if by > 0 else 0]
        if neighbour is not None:
            self.select_span(int(neighbour))

    # -- visible and marked range ------------------------------------------

    @property
    def visible_range(self) -> TimeRange:
        """The ticks that the timeline shows; at least 16 of them."""
        return self._visible

    @property
    def bounds(self) -> TimeRange:
        """How far one can pan: the extent, padded."""
        extent = TimeRange(0, 0) if self._trace is None else self._trace.extent
        return view_range.bounds(extent)

    def set_visible(self, visible: TimeRange) -> None:
        """Show this range, moved into the bounds and at least 16 ticks wide."""
        if self._trace is not None:
            self._set_visible(visible)

    def zoom(self, factor: float, centre_tick: int | None = None) -> None:
        """Make the range `factor` times as wide; < 1 zooms in.

        The point at `centre_tick` stays where it is; without one it is the
        point under the mouse, else the middle. Of a program that is followed it is now.
        """
        if self.anchor is not None:
            centre_tick = self.anchor
        elif centre_tick is None:
            centre_tick = self._cursor
        self.set_visible(
            view_range.zoomed(self._visible, factor, centre_tick, self.bounds)
        )

    def pan(self, share: float) -> None:
        """Move the range by `share` of its width; > 0 is later."""
        self.set_visible(self._visible.shifted(round(self._visible.duration * share)))

    def fit(self) -> None:
        """Show the whole trace."""
        if self._trace is not None:
            self._set_visible(self._fit_range())

    def fit_selection(self) -> None:
        """Show the selected things, or else the marked range, with some air."""
        target = self._target_range()
        if target is not None:
            is_listed = self._is_listed
            self._set_visible(view_range.with_air(target), keeps_list=is_listed)

    def focus_selection(self) -> None:
        """Bring the selection to the middle; where it is there already, fit it."""
        target = self._target_range()
        if target is None:
            return
        centred = view_range.centred(self._visible, target)
        centred = view_range.clamped(centred, self.bounds)
        if centred == self._visible:
            self.fit_selection()
        else:
            self._set_visible(centred, keeps_list=self._is_listed)

    def show_end(self) -> None:
        """Pan to the end of the trace."""
        if self._trace is not None:
            end = self._trace.extent.end
            self.set_visible(TimeRange(end - self._visible.duration, end))

    @property
    def marked_range(self) -> MarkedRange | None:
        """The range marked by dragging, or None."""
        return self._marked

    def set_marked(self, marked: MarkedRange | None) -> None:
        """Mark a range."""
        if marked == self._marked:
            return
        self._marked = marked
        self._marked_last = marked is not None
        self.stop_keeping_list()
        self.marked_range_changed.emit(marked)

    @property
    def only_range(self) -> bool:
        """Whether table and statistics are about `range_shown` alone, or about all."""
        return self._only_range

    def set_only_range(self, only: bool) -> None:
        """List and count what lies in the range that is shown, or everything."""
        if only != self._only_range:
            self._only_range = only
            self.stop_keeping_list()
            self.only_range_changed.emit(only)

    @property
    def keeps_list(self) -> bool:
        """Whether `range_shown` stays though something else is visible.

        So it does once the view has moved to what was chosen in a list, until it is
        moved to anything else: else going to a row would take the other rows away.
        """
        return self._kept_range is not None

    def stop_keeping_list(self) -> None:
        """Let `range_shown` be what is visible again."""
        if self._kept_range is not None:
            self._kept_range = None
            self.list_kept_changed.emit(False)

    @property
    def _is_listed(self) -> bool:
        """Whether what is selected was chosen in a list of the range shown."""
        return bool(self._selection) and self._selection == self._listed

    @property
    def range_shown(self) -> MarkedRange | None:
        """What table and statistics are about: the marked range, else the visible one.

        None = all of the trace: because that is asked for, or is what is visible. For
        what was visible before, see `keeps_list`.
        """
        if self._trace is None or not self._only_range:
            return None
        if self._marked is not None:
            return self._marked
        if self._kept_range is not None:
            return self._kept_range[0]
        extent, visible = self._trace.extent, self._visible
        # An instant at the very end is in sight too.
        if visible.start <= extent.start and extent.end <= visible.end:
            return None
        return MarkedRange(visible)

    def mark_selection(self) -> None:
        """Turn the selection into a marked range."""
        chosen = self.selected_range()
        if chosen is not None:
            self.set_marked(MarkedRange(chosen))

    @property
    def cursor_tick(self) -> int | None:
        """The tick under the mouse in a time view; None when it has left."""
        return self._cursor

    @cursor_tick.setter
    def cursor_tick(self, tick: int | None) -> None:
        if tick != self._cursor:
            self._cursor = tick
            self.cursor_changed.emit(tick)

    @property
    def is_held(self) -> bool:
        """Whether a mouse button is down in a picture: what is in view stands."""
        return self._is_held

    def hold(self, is_held: bool) -> None:
        """Let what is in view stand while a mouse button is down, or no more."""
        if is_held != self._is_held:
            self._is_held = is_held
            self.held_changed.emit(is_held)

    def _fit_range(self) -> TimeRange:
        extent = TimeRange(0, 0) if self._trace is None else self._trace.extent
        return view_range.fitted(extent)

    def _target_range(self) -> TimeRange | None:
        chosen = self.selected_range()
        if chosen is None and self._marked is not None:
            return self._marked.time
        return chosen

    def _set_visible(self, visible: TimeRange, *, keeps_list: bool = False) -> None:
        """Show a range; `keeps_list`: on account of the selection, see `keeps_list`."""
        visible = view_range.clamped(visible, self.bounds)
        if visible == self._visible:
            return
        kept, was_kept = self._kept_range, self._kept_range is not None
        if not keeps_list:
            kept = None
        elif self._is_listed and kept is None and self._marked is None:
            kept = (self.range_shown,)
        self._kept_range, self._visible = kept, visible
        self.visible_range_changed.emit(visible)
        if was_kept != (kept is not None):
            self.list_kept_changed.emit(not was_kept)
        self._note()

    def bring_into_view(self, time: TimeRange) -> None:
        """Pan so that `time` can be seen, where it cannot be seen yet."""
        if self._trace is not None and not view_range.shows(self._visible, time):
            self._set_visible(view_range.centred(self._visible, time), keeps_list=True)

    def step_hit(self, by: int) -> None:
        """Select the next (+1) or previous (-1) hit and bring it into view.

        The first step goes to the hit nearest to the left edge of the view;
        after the last hit comes the first again.
        """
        self.queries.step(by)

    # -- tokens ------------------------------------------------------------

    def step_token(self, by: int) -> None:
        """Go to the next (+1) or previous (-1) token and select its span."""
        tokens = self.tokens
        chosen = self.selected_range()
        middle = self._visible.start + self._visible.duration // 2
        position = tokens.step(middle if chosen is None else chosen.start, by)
        if position is not None:
            self.go_to_token(position)
        elif self._trace is not None:
            self.status_message.emit(_no_token(len(tokens), by))

    @property
    def tokens(self) -> TokenTimes:
        """The tokens of the trace in time order; found when first asked for."""
        if self._trace is None:
            return NO_TOKENS
        if self._tokens is None:
            self._tokens = token_times(self._trace)
        return self._tokens

    def go_to_token(self, position: int) -> None:
        """Show the token at a place of `tokens`, and select its span."""
        tokens = self.tokens
        if not 0 <= position < len(tokens):
            return
        span, time = int(tokens.span[position]), tokens.range_of(position)
        if span >= 0:
            self.select_span(span, reveal=False)
        else:
            self.set_marked(MarkedRange(time))
        self.set_visible(view_range.with_air(time))
        if span >= 0:
            self.reveal_requested.emit(span)

    # -- bookmarks ---------------------------------------------------------

    def go_to_bookmark(self, position: int) -> None:
        """Show the bookmark at `position`; nothing happens where there is none.

        One that is in view stays where it is. A range is marked, so that one sees where
        it ends.
        """
        if not 0 <= position < len(self.bookmarks.items):
            return
        found = self.bookmarks.items[position]
        shown = self._visible
        if found.time.duration > shown.duration:
            self.set_visible(view_range.with_air(found.time))
        elif not shown.start <= found.time.start <= found.time.end <= shown.end:
            self.set_visible(view_range.centred(self._visible, found.time))
        if found.time.duration:
            self.set_marked(MarkedRange(found.time))
        index = self.index
        if found.lane and index is not None and index.lanes.position(found.lane) >= 0:
            self.lanes.reveal_requested.emit(found.lane)

    def bookmark_subject(self) -> Subject:
        """Return what a bookmark would be set on now: what was made last.

        That is the marked range or the selection, else the point under the mouse, else
        the middle of the view.
        """
        if self._marked is not None and (self._marked_last or not self._selection):
            return subject_of_range(self.index, self._marked)
        chosen = self.selected_range()
        if chosen is not None:
            return subject_of_selection(self.index, self._selection, chosen)
        tick = self._cursor
        if tick is None:
            tick = self._visible.start + self._visible.duration // 2
        return Subject(TimeRange(tick, tick))

    # -- history -----------------------------------------------------------

    def back(self) -> None:
        """Return to the previous view point."""
        self._apply(self.history.back())

    def forward(self) -> None:
        """Go to the next view point again."""
        self._apply(self.history.forward())

    def _apply(self, point: ViewPoint | None) -> None:
        if point is None:
            return
        self._set_visible(point.visible)
        self.queries.set_filter(point.filter)
        self.select(point.selection)
        self.lanes.set_state(point.lanes)

    def _note(self, _: object = None) -> None:
        if self._trace is not None:
            self.history.note(
                ViewPoint(
                    self._visible,
                    self._selection,
                    self.queries.filter,
                    self.lanes.state,
                )
            )

    def report(self, failure: TaskFailure) -> None:
        """Tell people that a task failed."""
        title = f"{failure.title}: " if failure.title and failure.report else ""
        self.problem_reported.emit(title + failure.message)


def _no_token(n: int, by: int) -> str:
    """Say why there is no token to step to."""
    if not n:
        return "No tokens recorded in this trace"
    return "This is the last token" if by > 0 else "This is the first token"
