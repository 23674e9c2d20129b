"""What ggscope wrote as Chrome trace events, back as it was."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, U16, U32, Array, Bools, Flows, SpanFlag, looked_up
from ggscope.model.units import Clock
from ggscope.readers.chrome.events import OF_OPS, Events, is_own
from ggscope.readers.chrome.pairs import ids_of
from ggscope.readers.common.nesting import Intervals, flows_of
from ggscope.readers.common.own_traces import (
    QUALITIES,
    WAIT,
    OwnLists,
    clock_of,
    shift_of,
    waits_by_number,
)

_NUMBERED = 2
"""Version of files from which on spans are numbered."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """What a file of ggscope says of itself.

    Attributes
    ----------
    shift : ticks that were added to all times.
    clock : of the trace that was written.
    format : of the file that the trace was read from.
    has_categories : whether the category of an event is a category, and not its op.
    numbers_spans : whether waits and arrows have the numbers of their spans.
    """

    shift: int
    clock: Clock
    format: str
    has_categories: bool
    numbers_spans: bool
    lists: OwnLists


def own_file(facts: Mapping[str, object]) -> OwnFile | None:
    """Return what a file says of itself; None where others wrote it."""
    about = facts.get("otherData")
    if not is_own(dict(facts)) or not isinstance(about, dict):
        return None
    version = about.get("version")
    return OwnFile(
        shift_of(about),
        clock_of(about),
        str(about.get("format", ""))[:200],
        about.get("cat") == "category",
        isinstance(version, int) and version >= _NUMBERED,
        OwnLists.of(about),
    )


def is_wait(events: Events, row: I64, own: OwnFile) -> Bools:
    """Return which events are the waits behind ops."""
    texts = events.texts
    if own.numbers_spans:
        return own_column(events, row, "span") >= 0
    if own.has_categories:
        return np.zeros(len(row), np.bool_)
    if WAIT not in texts:
        return np.zeros(len(row), np.bool_)
    code = texts.index(WAIT)
    result: Bools = (events.name[row] == code) & (events.category[row] == code)
    return result


def instants_without_end(events: Events) -> Intervals:
    """Return spans without a recorded end that could not stay open on their track."""
    row = events.of("i")
    is_open = quality_flags(events, row) == int(SpanFlag.UNFINISHED)
    row = row[is_open]
    start = events.time[row].astype(np.int64)
    flags = np.full(len(row), int(SpanFlag.UNFINISHED), np.uint16)
    return Intervals(row, start, start, row, flags)


def waits_of_spans(events: Events, span_row: I64, waits: Intervals) -> U32 | None:
    """Return how long each span waited behind its end, by the numbers of spans.

    `span_row` : the event of each span.
    """
    return waits_by_number(span_row, own_column(events, waits.row, "span"), waits)


def own_arrows(events: Events, span_row: I64) -> Flows:
    """Return the arrows between spans, by the numbers of spans."""
    order = np.argsort(span_row)
    ends = []
    for phase in ("s", "f"):
        row = events.of(phase)
        number = own_column(events, row, "span")
        row = row[(number >= 0) & (number < len(span_row))]
        span = order[own_column(events, row, "span")]
        identity = ids_of(events, row)[1]
        by_id = np.argsort(identity, kind="stable")
        ends.append((identity[by_id], span[by_id]))
    (first_id, source), (last_id, target) = ends
    _, first, last = np.intersect1d(
        first_id, last_id, assume_unique=False, return_indices=True
    )
    return flows_of(source[first], target[last])


def own_column(events: Events, row: I64, name: str) -> I64:
    """Return what ggscope wrote of each event under a name, -1 none."""
    columns = events.of_ops
    if not columns:
        return np.full(len(row), -1, np.int64)
    return looked_up(columns["row"], columns[name], row)


def columns_of_ops(events: Events, row: I64) -> dict[str, Array]:
    """Return layer, token, core and NUMA node of spans, where the file has them."""
    columns = {name: own_column(events, row, name) for name in OF_OPS}
    low = {name: values for name, values in columns.items() if (values >= 0).any()}
    return {
        name: np.where(values < 1 << 15, values, -1) if name != "token" else values
        for name, values in low.items()
    }


def quality_flags(events: Events, row: I64) -> U16:
    """Return the flags of what the file calls derived, estimated or unfinished."""
    result = np.zeros(len(row), np.uint16)
    text = looked_up(events.argument_row, events.text, row)
    for word, flag in QUALITIES.items():
        if word in events.texts:
            result[text == events.texts.index(word)] |= np.uint16(flag)
    return result
