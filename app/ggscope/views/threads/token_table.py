"""The table of tokens: how threads spend the time of each."""

import numpy as np

from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.token_threads import TokenThreads, token_threads
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.spans import column_time_form, exact_time_text
from ggscope.descriptions.threads import NOT_RECORDED, token_threads_text
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import Clock, TimeRange, Unit, format_duration, format_share
from ggscope.session.session import Session
from ggscope.session.time_ranges import with_air
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
    unknown_cell,
)

_MAX_LANES = 16
"""Threads with a column of their own."""


class TokenSection(Section):
    """A row per token, ubatch or graph pass."""

    id = "tokens"
    title = "Tokens"
    tip = "Work, waits and idle time of the threads within each token"
    label = "Times of threads per token"
    nothing = ("No tokens", "No tokens")

    def contents(self, query: Query, watcher: Watcher) -> Contents:
        """Return the slowest tokens in the order of time."""
        trace = query.trace
        tokens = token_threads(trace, query.scope.time, watcher=watcher)
        n_all, about = len(tokens), token_threads_text(tokens)
        rows = np.arange(n_all)
        if n_all > MAX_ROWS:
            slowest = np.argsort(-tokens.bars.duration, kind="stable")[:MAX_ROWS]
            rows = np.sort(slowest)
        spans = tokens.bars.span[rows].tolist()
        times = [tokens.bars.time(row) for row in rows.tolist()]
        return Contents(
            _headings(tokens, trace.clock, query.absolute),
            tuple(_cells(trace, tokens, row, query.absolute) for row in rows.tolist()),
            list(zip(spans, times, strict=True)),
            about,
            n_all,
            "No token, ubatch or graph pass with a known begin and end lies in this "
            "range as a whole.",
        )

    def choose(
        self, session: Session, scope: Scope, payload: object
    ) -> MarkedRange | None:
        """Select the span of a token."""
        if isinstance(payload, tuple):
            session.selection.select_span(payload[0])
        return None

    def open(self, session: Session, payload: object) -> None:
        """Fit the timeline to a token."""
        if isinstance(payload, tuple) and isinstance(payload[1], TimeRange):
            session.viewport.set_visible(with_air(payload[1]))


def _headings(
    tokens: TokenThreads, clock: Clock, absolute: bool
) -> tuple[Heading, ...]:
    copied = f"begin ({clock.column_unit(absolute)})"
    return (
        Heading(tokens.bars.noun, "What was computed", 110, stretch=True),
        Heading("begin", "When it began", 96, right=True, copied=copied),
        time_heading("latency", "From its begin to its end", clock),
        time_heading("work", "While threads run ops, summed over threads", clock),
        number_heading("work %", "Work as a share of latency × threads"),
        time_heading("wait", "Recorded waits at barriers, summed over threads", clock),
        number_heading("wait %", "Waits as a share of latency × threads"),
        time_heading("idle", "The rest, summed over threads", clock),
        number_heading("idle %", "Idle time as a share of latency × threads"),
        *(
            number_heading(name, f"Work of {name} as a share of the latency", 72)
            for name in tokens.lanes[:_MAX_LANES]
        ),
    )


def _cells(
    trace: Trace, tokens: TokenThreads, row: int, absolute: bool
) -> tuple[Cell, ...]:
    unit, bars = trace.clock.unit, tokens.bars
    form, start = column_time_form(trace, absolute=absolute), int(bars.start[row])
    latency = int(bars.duration[row])
    whole = latency * len(tokens.lanes)

    def part(values: np.ndarray | None, reason: str) -> tuple[Cell, Cell]:
        if values is None:
            return unknown_cell(reason), unknown_cell(reason)
        ticks = int(values[row].sum())
        return time_cell(ticks, unit), _share(ticks, whole)

    text = bar_text(trace, bars, row)
    return (
        Cell(text, row, text),
        Cell(
            form.text(start),
            start,
            start + trace.clock.shift(absolute),
            exact_time_text(trace, start),
        ),
        time_cell(latency, unit),
        *part(tokens.busy, tokens.hidden_work),
        *part(tokens.wait, tokens.hidden_work or NOT_RECORDED),
        *part(tokens.idle, tokens.hidden_idle),
        *(
            unknown_cell(tokens.hidden_work)
            if tokens.busy is None
            else _share(
                int(tokens.busy[row, lane]), latency, _parts(tokens, row, lane, unit)
            )
            for lane in range(min(len(tokens.lanes), _MAX_LANES))
        ),
    )


def _share(ticks: int, whole: int, tip: str = "") -> Cell:
    if not whole:
        return unknown_cell("the token has no length")
    share = ticks / whole
    return Cell(format_share(share), share, share, tip)


def _parts(tokens: TokenThreads, row: int, lane: int, unit: Unit) -> str:
    """Return work, wait and idle time of one thread within one token."""
    parts = (("work", tokens.busy), ("wait", tokens.wait), ("idle", tokens.idle))
    return ", ".join(
        f"{word} {format_duration(int(values[row, lane]), unit)}"
        for word, values in parts
        if values is not None
    )
