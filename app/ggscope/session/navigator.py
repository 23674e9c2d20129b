"""Navigator: goes to things of a trace, and back and forward between views of it."""

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.graph.op_links import NO_LINKS
from ggscope.analysis.rows.waits import pauses
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.units import TimeRange
from ggscope.session import time_ranges
from ggscope.session.bookmarks.bookmarks import (
    Bookmark,
    Subject,
    subject_of_range,
    subject_of_selection,
)
from ggscope.session.current_trace import CurrentTrace
from ggscope.session.history import History, ViewPoint
from ggscope.session.lanes import LaneModel
from ggscope.session.linking import Linking
from ggscope.session.queries import Queries
from ggscope.session.ranges import RangeModel
from ggscope.session.selection import SelectionModel
from ggscope.session.viewport import Viewport


class Navigator(QObject):
    """Shows the selection, spans, search hits, tokens and bookmarks, and earlier views.

    Signals
    -------
    reveal_requested(int) : span id to scroll into view.
    view_requested(str) : id of a view to bring to the front.
    show_requested(str) : id of a view to show the selection in, large.
    status_message(str) : for the status bar.
    """

    reveal_requested = Signal(object)
    view_requested = Signal(object)
    show_requested = Signal(object)
    status_message = Signal(object)

    def __init__(
        self,
        current: CurrentTrace,
        *,
        viewport: Viewport,
        selection: SelectionModel,
        ranges: RangeModel,
        linking: Linking,
        queries: Queries,
        lanes: LaneModel,
        history: History,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._current = current
        self._viewport = viewport
        self._selection = selection
        self._ranges = ranges
        self._linking = linking
        self._queries = queries
        self._lanes = lanes
        self._history = history
        self._shown_in = ("", Selection())
        selection.reveal_requested.connect(self.reveal_span)
        linking.span_reached.connect(self.reveal_span)
        linking.longest_found.connect(self._on_longest)
        for changed in (
            viewport.settled, selection.settled, queries.filter_changed, lanes.changed
        ):  # fmt: skip
            changed.connect(self.note)

    # -- selection ---------------------------------------------------------

    def selected_range(self) -> TimeRange | None:
        """Return the time from the first to the last selected thing, or None.

        Of what does not lie in time: that of the spans that are linked with it.
        """
        trace, selection = self._current.trace, self._selection.current
        if trace is None or not selection:
            return None
        time = time_ranges.of_selection(trace, selection)
        return self._linking.time() if time is None else time

    def fit_selection(self) -> None:
        """Show the selected things, or else the marked range, with some air."""
        target = self._target_range()
        if target is None:
            return
        self._show_selected(time_ranges.with_air(target))
        selection = self._selection.current
        if selection.table == "spans" and selection.active is not None:
            self.reveal_requested.emit(selection.active)  # its lane may be elsewhere

    def focus_selection(self) -> None:
        """Bring the selection to the middle; where it is there already, fit it."""
        target = self._target_range()
        if target is None:
            return
        viewport = self._viewport
        centred = time_ranges.centred(viewport.visible, target)
        centred = time_ranges.clamped(centred, viewport.bounds)
        if centred == viewport.visible:
            self.fit_selection()
        else:
            self._show_selected(centred)

    def mark_selection(self) -> None:
        """Turn the selection into a marked range."""
        time = self.selected_range()
        if time is not None:
            self._ranges.set_marked(MarkedRange(time))

    def show_in(self, view_id: str, selection: Selection) -> None:
        """Select something, and show it in a view, whatever that has to open for it."""
        self._selection.select(selection)
        self._shown_in = (view_id, selection)
        self.view_requested.emit(view_id)
        self.show_requested.emit(view_id)

    def is_shown_in(self, view_id: str) -> bool:
        """Return whether what is selected was last asked to be shown in a view.

        For views that are made only then.
        """
        selection = self._selection.current
        return bool(selection) and self._shown_in == (view_id, selection)

    def _target_range(self) -> TimeRange | None:
        time, marked = self.selected_range(), self._ranges.marked
        if time is None and marked is not None:
            return marked.time
        return time

    def _show_selected(self, visible: TimeRange) -> None:
        self._viewport.set_visible(visible, to_selection=self._selection.is_listed)

    def step_link(self, by: int) -> None:
        """Select what the selected op read last (-1), or its first reader (+1).

        Where there is none the status bar says why.
        """
        linked = self._linking.linked
        is_current = linked.selection == self._selection.current
        links = linked.op_links if is_current else NO_LINKS
        ends = links.inputs if by < 0 else links.consumers
        if ends:
            self._selection.select_span(ends[-1 if by < 0 else 0].span)
            return
        # Imported late: nobody steps along arrows before the first picture.
        from ggscope.descriptions.dependencies import no_link_text

        self.status_message.emit(no_link_text(links, by))

    # -- spans and hits ----------------------------------------------------

    def reveal_span(self, span: int) -> None:
        """Scroll time and lanes so that a span can be seen, without zooming.

        Where the wait or the gap behind it is selected: so that this can be seen.
        """
        trace = self._current.trace
        if trace is None or not 0 <= span < len(trace.spans):
            return
        time = TimeRange(int(trace.spans.start[span]), int(trace.spans.end[span]))
        for before, pause in pauses(trace, self._selection.current):
            time = pause if before == span else time
        self._viewport.bring_into_view(time)
        self.reveal_requested.emit(span)

    def step_span(self, by: int) -> None:
        """Select the next (+1) or previous (-1) span, wait or gap of the same row.

        Where something else than a span is selected, look at the next or previous of
        the spans that are linked with it; the selection stays.
        """
        index, selection = self._current.index, self._selection.current
        if index is None or selection.active is None:
            return
        if selection.gap is not None:
            if (gap := index.next_gap(selection.gap, by)) is not None:
                self._selection.select_gap(gap)
            return
        if selection.table == "waits":
            if (waiting := index.next_wait(selection.active, by)) is not None:
                self._selection.select_wait(waiting)
            return
        if selection.table != "spans":
            self._linking.step(by, self._viewport.visible.start)
            return
        neighbour = index.neighbours(selection.active)[1 if by > 0 else 0]
        if neighbour is not None:
            self._selection.select_span(int(neighbour))

    def step_hit(self, by: int) -> None:
        """Select the next (+1) or previous (-1) hit and bring it into view.

        The first step goes to the hit nearest to the left edge of the view;
        after the last hit comes the first again.
        """
        position = self._queries.step(by, self._viewport.visible.start)
        hits = self._queries.hits_in_order
        if position is None or hits is None:
            return
        table, row = hits.at(position)
        if table == "spans":
            self._selection.select_span(row)
        else:
            self._selection.select(Selection("markers", (row,)))
            tick = hits.tick(position)
            self._viewport.bring_into_view(TimeRange(tick, tick))

    def _on_longest(self, span: int) -> None:
        self.fit_selection()
        self.reveal_requested.emit(span)

    # -- tokens ------------------------------------------------------------

    def step_token(self, by: int) -> None:
        """Go to the next (+1) or previous (-1) token and select its span."""
        tokens, time = self._current.tokens, self.selected_range()
        tick = self._viewport.middle if time is None else time.start
        position = tokens.step(tick, by)
        if position is not None:
            self.go_to_token(position)
        elif self._current.trace is not None:
            self.status_message.emit(_no_token(len(tokens), by))

    def go_to_token(self, position: int) -> None:
        """Show the token at a place of `CurrentTrace.tokens`, and select its span."""
        tokens = self._current.tokens
        if not 0 <= position < len(tokens):
            return
        span, time = int(tokens.span[position]), tokens.range_of(position)
        if span >= 0:
            self._selection.select_span(span, reveal=False)
        else:
            self._ranges.set_marked(MarkedRange(time))
        self._viewport.set_visible(time_ranges.with_air(time))
        if span >= 0:
            self.reveal_requested.emit(span)

    # -- bookmarks ---------------------------------------------------------

    def show_bookmark(self, bookmark: Bookmark) -> None:
        """Show a bookmark; one that is in view stays where it is.

        A range is marked, so that one sees where it ends.
        """
        time, shown = bookmark.time, self._viewport.visible
        if time.duration > shown.duration:
            self._viewport.set_visible(time_ranges.with_air(time))
        elif not shown.start <= time.start <= time.end <= shown.end:
            self._viewport.set_visible(time_ranges.centred(shown, time))
        if time.duration:
            self._ranges.set_marked(MarkedRange(time))
        index, lane = self._current.index, bookmark.lane
        if lane and index is not None and index.lanes.position(lane) >= 0:
            self._lanes.reveal_requested.emit(lane)

    def bookmark_subject(self) -> Subject:
        """Return what a bookmark would be set on now: what was made last.

        That is the marked range or the selection, else the point under the mouse, else
        the middle of the view.
        """
        selection, marked = self._selection.current, self._ranges.marked
        if marked is not None and (self._ranges.is_marked_last or not selection):
            return subject_of_range(self._current.index, marked)
        time = self.selected_range()
        if time is not None:
            return subject_of_selection(self._current.index, selection, time)
        tick = self._viewport.cursor_tick
        if tick is None:
            tick = self._viewport.middle
        return Subject(TimeRange(tick, tick))

    # -- history -----------------------------------------------------------

    def back(self) -> None:
        """Return to the previous view point."""
        self._apply(self._history.back())

    def forward(self) -> None:
        """Go to the next view point again."""
        self._apply(self._history.forward())

    def note(self, _: object = None) -> None:
        """Take notice of what is shown now, for `back`."""
        if self._current.trace is not None:
            self._history.note(
                ViewPoint(
                    self._viewport.visible,
                    self._selection.current,
                    self._queries.filter,
                    self._lanes.state,
                )
            )

    def _apply(self, point: ViewPoint | None) -> None:
        if point is None:
            return
        self._viewport.set_visible(point.visible)
        self._queries.set_filter(point.filter)
        self._selection.select(point.selection)
        self._lanes.set_state(point.lanes)


def _no_token(n: int, by: int) -> str:
    """Say why there is no token to step to."""
    if not n:
        return "No tokens recorded in this trace"
    return "This is the last token" if by > 0 else "This is the first token"
