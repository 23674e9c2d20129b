"""Bookmarks as plain values: named points and ranges, and what they are set on.

Each is set on a time and says in words which span or lane was meant.
"""

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ggscope.model.notes import Note
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.units import TimeRange

if TYPE_CHECKING:
    # The main window knows bookmarks before anything needs numpy.
    from ggscope.analysis.rows.index import TraceIndex

MAX_BOOKMARKS = 1000
"""So many can be made of one trace."""
MAX_NAME = 200
MAX_NOTE = 2000
TEMPORARY = "mark"
"""Name of the one bookmark that is not kept."""
_NUMBERED = re.compile(r"Bookmark (\d{1,9})")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
"""Characters that have no place in a line: controls, and those that turn it round."""


def new_id() -> str:
    """Return an id that no other bookmark has, in whichever window it is made."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A named point or range.

    Attributes
    ----------
    time : ticks; start == end is a point.
    permanent : False = a mark for now, which the next one replaces.
    note : what the user wrote about it.
    what : what it was set on, in words: a span, its lane.
    lane : key of that lane, "" = none.
    color : key of a `NoteColor`.
    id : 16 hexadecimal digits, the same in all windows and files.
    """

    name: str
    time: TimeRange
    permanent: bool = True
    note: str = ""
    what: str = ""
    lane: str = ""
    color: str = ""
    id: str = field(default_factory=new_id)

    def as_note(self) -> Note:
        """Return what pictures show of it."""
        return Note(self.name, self.time, self.note, self.color)


Bookmarks = tuple[Bookmark, ...]


def clean_line(text: str, length: int) -> str:
    """Return `text` without control characters and line breaks, cut to `length`."""
    return " ".join(_UNSEEN.sub(" ", text[: 4 * length]).split())[:length].rstrip()


def free_name(bookmarks: Bookmarks) -> str:
    """Return "Bookmark n" with the first number above all that are taken."""
    taken = (_NUMBERED.fullmatch(b.name) for b in bookmarks)
    return f"Bookmark {max((int(t[1]) for t in taken if t), default=0) + 1}"


def nearest(bookmarks: Bookmarks, time: TimeRange, visible: TimeRange) -> int | None:
    """Return the position of the bookmark in view that is nearest to a time.

    Of several that touch it, the one whose ends differ least; None = none in view.
    """
    ranks = [
        (
            max(b.time.start - time.end, time.start - b.time.end, 0),
            abs(b.time.start - time.start) + abs(b.time.end - time.end),
            position,
        )
        for position, b in enumerate(bookmarks)
        if b.time.start <= visible.end and b.time.end >= visible.start
    ]
    return min(ranks)[2] if ranks else None


def reverted(now: Bookmarks, before: Bookmarks, after: Bookmarks) -> Bookmarks:
    """Return `now` without what changed from `before` to `after`.

    What came from elsewhere since then, such as from another window, stays.
    """
    old = {b.id: b for b in before}
    new = {b.id: b for b in after}
    present = {b.id for b in now}
    changed = {i for i, b in old.items() if i in new and new[i] != b}
    restored = [
        old[b.id] if b.id in changed else b
        for b in now
        if b.id not in new or b.id in old
    ]
    for place, bookmark in enumerate(before):
        if bookmark.id not in new and bookmark.id not in present:
            restored.insert(place, bookmark)
    if old.keys() == new.keys():  # the order may be what changed
        places = {b.id: place for place, b in enumerate(before)}
        restored.sort(key=lambda b: places.get(b.id, len(places)))
    return tuple(restored)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a bookmark is set on.

    Attributes
    ----------
    what : in words, "" = nothing but a time.
    lane : key of the one lane that it lies on, "" = none.
    is_range : whether it is a range that the user marked.
    """

    time: TimeRange
    what: str = ""
    lane: str = ""
    is_range: bool = False


def subject_of_range(index: "TraceIndex | None", marked: MarkedRange) -> Subject:
    """Return a marked range and the lanes that it covers, where it does not all."""
    keys = () if index is None or marked.lanes is None else sorted(marked.lanes)
    if len(keys) != 1 or index is None:
        what = f"{len(keys)} lanes" if keys else ""
        return Subject(marked.time, what, is_range=True)
    what = clean_line(_title(index, keys[0]), MAX_NAME)
    return Subject(marked.time, what, keys[0], is_range=True)


def subject_of_selection(
    index: "TraceIndex | None", selection: Selection, time: TimeRange
) -> Subject:
    """Return what is selected, which takes `time`, with the lane of a span."""
    if index is None or selection.active is None:
        return Subject(time)
    trace, n = index.trace, len(selection.ids)
    if selection.group is not None:
        return Subject(time, clean_line(selection.group.key, MAX_NAME))
    if n > 1 or selection.table != "spans":
        word = str(selection.table)
        return Subject(time, f"{n} {word if n > 1 else word.removesuffix('s')}")
    lane = index.lane_of_span(selection.active)
    title = _title(index, lane)
    text = " · ".join(t for t in (trace.span_name(selection.active), title) if t)
    return Subject(time, clean_line(text, MAX_NAME), lane)


def _title(index: "TraceIndex", key: str) -> str:
    at = index.lanes.position(key)
    return index.lanes.titles[at] if at >= 0 else ""
