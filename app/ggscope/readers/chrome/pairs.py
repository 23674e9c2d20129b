"""Spans of events: whole ones, begins with their ends, and what runs beside threads."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import (
    I64,
    Array,
    Bools,
    SpanFlag,
    places_among,
    ranked,
    taken,
)
from ggscope.readers.chrome.events import Events, Mark
from ggscope.readers.common.nesting import Intervals, Paired, paired

_CLOSING = np.zeros(256, np.bool_)
_CLOSING[[ord(phase) for phase in "EeFD"]] = True


def whole(events: Events) -> Intervals:
    """Return the complete events, phase X.

    One without a duration may have the time of its thread on a core instead, which is
    the least that it took; else how long it took is not known.
    """
    row = events.of("X")
    marks = events.flags[row]
    start = events.time[row].astype(np.int64)
    end = start + events.duration[row]
    flags = np.zeros(len(row), np.uint16)
    flags[(marks & int(Mark.DURATION)) == 0] = int(SpanFlag.UNFINISHED)
    flags[(marks & int(Mark.CPU_TIME)) != 0] = int(SpanFlag.INFERRED_END)
    flags[(marks & int(Mark.NEGATIVE)) != 0] = int(
        SpanFlag.UNFINISHED | SpanFlag.OUT_OF_ORDER
    )
    return Intervals(row, start, end, row, flags)


def nested(events: Events, complete: Intervals) -> Paired:
    """Return what begins and ends on a thread, phases B and E.

    What does not end is drawn to the end of the last of its thread, `complete` events
    too.
    """
    row = events.of("B", "E")
    track = events.track[row].astype(np.int64)
    if not len(row) or not len(complete):
        return _paired(events, row, track)
    first = np.iinfo(np.int64).min
    last = np.full(int(events.track.max()) + 1, first, np.int64)
    np.maximum.at(last, events.track[complete.row], complete.end)
    return _paired(events, row, track, last[track])


@dataclass(frozen=True, slots=True, eq=False)
class Beside:
    """What runs beside threads: its spans, and which activity each event is of.

    Attributes
    ----------
    paired : its spans.
    row : int64[n], its events with an id, by activity and time.
    activity : int64[n], a number for each category and id.
    first : int64[k], the first event of each activity.
    """

    paired: Paired
    row: I64
    activity: I64
    first: I64


def beside(events: Events) -> Beside:
    """Return activities with an id: phases b, e and n, S, F and T, N, D and O."""
    row = events.of("b", "e", "n", "S", "F", "T", "p", "N", "D", "O")
    if not len(row):
        none = np.zeros(0, np.int64)
        return Beside(_paired(events, row, none), none, none, none)
    has_id, number = ids_of(events, row)
    # Objects have a name for their type; others are distinguished by category.
    is_object = np.isin(events.phase[row], [ord(phase) for phase in "NDO"])
    word = np.where(is_object, events.name[row], events.category[row]).astype(np.int64)
    word = np.where(has_id, word, events.name[row].astype(np.int64))
    _, _, place = ranked(number)
    key = ((place * 2 + has_id) * 2 + is_object) * (len(events.texts) + 1) + word + 1
    _, _, activity = ranked(key)
    order = np.lexsort((events.time[row], activity))
    paired = _paired(
        events, row[np.isin(events.phase[row], _codes("beSFND"))],
        activity[np.isin(events.phase[row], _codes("beSFND"))],
    )  # fmt: skip
    row, activity = row[order], activity[order]
    is_first = np.ones(len(row), np.bool_)
    is_first[1:] = activity[1:] != activity[:-1]
    return Beside(paired, row, activity, row[is_first])


def ids_of(events: Events, row: I64) -> tuple[Bools, I64]:
    """Return which events have an id, and the ids, 0 for none."""
    at = places_among(events.id_row, row)
    return at >= 0, taken(events.id, at, 0)


def _codes(phases: str) -> Array:
    return np.array([ord(phase) for phase in phases], np.uint8)


def _paired(events: Events, row: I64, group: I64, last: I64 | None = None) -> Paired:
    """Pair the begins and ends of each group."""
    return paired(
        row,
        events.time[row].astype(np.int64),
        ~_CLOSING[events.phase[row]],
        events.name[row],
        group,
        last,
    )
