"""The table of tensors that several threads touch within a window."""

from ggscope.analysis.reads.thread_touches import (
    MAX_TOUCHES,
    ThreadTouches,
    has_touches,
    thread_touches,
)
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.selected import tensor_name
from ggscope.descriptions.spans import op_text
from ggscope.descriptions.threads import touches_text
from ggscope.descriptions.waits import lane_text
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import Clock, format_count
from ggscope.session.session import Session
from ggscope.views.base.text_table import Cell, Heading
from ggscope.views.threads.section import (
    MAX_ROWS,
    Contents,
    Query,
    Scope,
    Section,
    number_heading,
    time_cell,
    time_heading,
)

_HANDOVERS = 1


class TensorSection(Section):
    """A row per tensor that one thread touches shortly after another."""

    id = "tensors"
    title = "Shared tensors"
    tip = "Tensors that several threads touch one shortly after the other"
    label = "Tensors touched by several threads"
    nothing = (
        "No tensor is touched by several threads within the window",
        "What threads touch is not known",
    )
    came_by = _HANDOVERS
    has_window = True

    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return the tensors with the most handovers."""
        trace, headings = query.trace, _headings(query.trace.clock)
        if not has_touches(trace):
            reason = "The trace does not record what ops read or write."
            return Contents(headings, reason=reason, is_known=False)
        touches = thread_touches(trace, query.window, query.scope.time, watcher)
        if touches is None:
            reason = f"More than {format_count(MAX_TOUCHES)} accesses; mark a range."
            return Contents(headings, reason=reason, is_known=False)
        n = min(len(touches), MAX_ROWS)
        pairs = zip(
            touches.first[:n].tolist(), touches.second[:n].tolist(), strict=True
        )
        tensors = touches.tensor[:n].tolist()
        return Contents(
            headings,
            tuple(_cells(trace, touches, row) for row in range(n)),
            list(zip(tensors, pairs, strict=True)),
            touches_text(touches, query.window, trace.clock.unit),
            len(touches),
        )

    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Select a tensor."""
        if isinstance(payload, tuple):
            session.selection.select_tensor(payload[0])
        return None

    def open(self, session: Session, payload: object) -> None:
        """Go to the closest handover of a tensor."""
        if isinstance(payload, tuple):
            session.selection.select_span(payload[1][0], reveal=False)
            session.selection.select_span(payload[1][1], reveal=False, add=True)
            session.navigator.fit_selection()


def _headings(clock: Clock) -> tuple[Heading, ...]:
    return (
        Heading("tensor", "The accessed tensor", 160, stretch=True),
        number_heading(
            "handovers",
            "Accesses that begin within the window after one by another thread",
            84,
        ),
        number_heading("with a write", "Handovers with at least one write", 90),
        time_heading("closest", "From begin to begin, at least", clock),
        number_heading("threads", "Threads that touch it"),
        number_heading("touches", "Ops of threads that read or write it", 72),
        Heading(
            "closest pair", "The two ops of the closest handover", 200, stretch=True
        ),
    )


def _cells(trace: Trace, touches: ThreadTouches, row: int) -> tuple[Cell, ...]:
    name = tensor_name(trace, int(touches.tensor[row]))
    pair = (int(touches.first[row]), int(touches.second[row]))
    text = " → ".join(
        f"{op_text(trace, span)} ({lane_text(trace, span)})" for span in pair
    )
    numbers = (touches.handovers, touches.writes)
    tail = (touches.threads, touches.touches)

    def count(value: int) -> Cell:
        return Cell(format_count(value), value, value)

    return (
        Cell(name, name),
        *(count(int(column[row])) for column in numbers),
        time_cell(int(touches.closest[row]), trace.clock.unit),
        *(count(int(column[row])) for column in tail),
        Cell(text, text, tip=text),
    )
