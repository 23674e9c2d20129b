"""Where the names of bookmarks stand on the axis: near ones share a label."""

from dataclasses import dataclass

from ggscope.model.units import TimeRange
from ggscope.render.timeline.scene import TimeScale

SIZE = 9.0
"""Pixels of the letters."""
_LETTER_PX = 0.602 * SIZE
_PADDING_PX = 8.0
_GAP_PX = 4.0
_SHORT_PX = 40.0
"""A name is cut to no less before it shares a label with the next one."""
_LONG_PX = 160.0
_Named = tuple[tuple[str, TimeRange], ...]


@dataclass(frozen=True, slots=True)
class BookmarkLabel:
    """A label on the axis.

    Attributes
    ----------
    left, right : pixels.
    text : the name, or how many bookmarks share the label.
    positions : which bookmarks it stands for, in order of time.
    """

    left: float
    right: float
    text: str
    positions: tuple[int, ...]


def bookmark_labels(bookmarks: _Named, time: TimeScale) -> tuple[BookmarkLabel, ...]:
    """Return labels that do not overlap, from left to right.

    Each bookmark in view has a part in one: a name is cut where the
    next one begins, and shares a label with it where hardly anything would be left.
    """
    places = sorted(
        (max(time.x(span.start), time.x0), position)
        for position, (_, span) in enumerate(bookmarks)
        if time.x(span.start) <= time.x1 and time.x(span.end) >= time.x0 - 1
    )
    groups: list[list[tuple[float, int]]] = []
    ends: list[float] = []  # so far the label of each group reaches at least
    for x, position in places:
        if ends and x < ends[-1] + _GAP_PX:
            groups[-1].append((x, position))
        else:
            groups.append([(x, position)])
            ends.append(0.0)
        ends[-1] = groups[-1][0][0] + _least(bookmarks, groups[-1])
    labels: list[BookmarkLabel] = []
    limit = time.x1
    for number in range(len(groups) - 1, -1, -1):
        text = _text(bookmarks, groups[number])
        width = min(label_width(text), _LONG_PX)
        left = groups[number][0][0]
        if not labels:  # at the right edge: left of its bookmark rather than cut
            before = ends[number - 1] + _GAP_PX if number else time.x0
            left = max(before, min(left, limit - width))
        left = time.snap(left)
        positions = tuple(position for _, position in groups[number])
        right = max(left, min(left + width, limit))
        labels.append(BookmarkLabel(left, right, text, positions))
        limit = left - _GAP_PX
    return tuple(reversed(labels))


def label_width(text: str) -> float:
    """Return the width that a label of this text takes, pixels."""
    return len(text) * _LETTER_PX + _PADDING_PX


def _text(bookmarks: _Named, group: list[tuple[float, int]]) -> str:
    if len(group) > 1:
        return f"{len(group)} bookmarks"
    return bookmarks[group[0][1]][0]


def _least(bookmarks: _Named, group: list[tuple[float, int]]) -> float:
    """Return the width that the label of a group cannot do without."""
    width = label_width(_text(bookmarks, group))
    return width if len(group) > 1 else min(width, _SHORT_PX)
