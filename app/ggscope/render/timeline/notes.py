"""Notes of the user on the timeline: edges over the lanes, labels in rows above them.

Labels lie at the foot of the axis and in up to two rows below it. They never overlap:
one that has no room is cut, and where hardly anything would be left of it, it shares
a label with the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ggscope.model.notes import NOTE_COLORS, Note
from ggscope.render.batch import (
    Batch,
    Clip,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.theme import Theme, visible_on
from ggscope.render.timeline.scene import (
    AXIS_HEIGHT,
    NOTE_ROW_PX,
    TimelineGeometry,
    TimeScale,
    note_rows,
)

LABEL_SIZE = 9.0
"""Pixels of the letters."""
LABEL_GAP_PX = 4.0
_LETTER_PX = 0.602 * LABEL_SIZE
_PADDING_PX = 8.0
_SHORT_PX = 40.0
"""A label is cut to no less before it shares one with the next note."""
_LONG_PX = 160.0
_LONG_WITH_TEXT_PX = 320.0
_LABEL_HALF_PX = 5.5
_BAR_PX = 3.0
"""Width of the coloured bar at the left of a label."""
_STRIP_PX = 2.0
_MIN_RANGE_PX = 2.0
"""Narrower notes are drawn as a moment."""

_RGB = {color.key: color.rgb for color in NOTE_COLORS}


def note_color(key: str, theme: Theme) -> int:
    """Return the colour of a note, 0xAARRGGBB, seen on lanes, axis and paper."""
    rgb = _RGB.get(key)
    if rgb is None:
        return theme.caution
    return visible_on(0xFF000000 | rgb, theme.lane, theme.pane)


@dataclass(frozen=True, slots=True)
class NoteLabel:
    """A label of one note, or of several that have no room for one each.

    Attributes
    ----------
    left, right : pixels.
    text : name and text, or how many notes share the label.
    positions : which notes it stands for, in order of time.
    row : 0 at the foot of the axis, 1 and 2 below it.
    is_before : whether it lies left of its note, which is near the right edge.
    """

    left: float
    right: float
    text: str
    positions: tuple[int, ...]
    row: int = 0
    is_before: bool = False


@dataclass(slots=True)
class _Group:
    """Notes that share a label: (position in pixels, number of the note)."""

    places: list[tuple[float, int]]


@dataclass(slots=True)
class _LabelRow:
    """Labels of a row from left to right.

    Attributes
    ----------
    least_end : where the last label ends if it is cut to what it needs.
    full_end : where it ends with all of its text.
    """

    groups: list[_Group] = field(default_factory=list)
    least_end: float = -np.inf
    full_end: float = -np.inf

    def add(self, notes: Sequence[Note], x: float, position: int) -> None:
        """Add a note as a label of its own, or to the last one."""
        if self.groups and x < self.least_end + LABEL_GAP_PX:
            self.groups[-1].places.append((x, position))
        else:
            self.groups.append(_Group([(x, position)]))
        group = self.groups[-1]
        self.least_end = group.places[0][0] + _min_label_px(notes, group)
        self.full_end = group.places[0][0] + _full_label_px(notes, group)


def note_labels(notes: Sequence[Note], time: TimeScale) -> tuple[NoteLabel, ...]:
    """Return labels that do not overlap, row by row from left to right.

    Each note in view has a part in exactly one. It goes to the first row that has
    room for all of it, else to where it cuts a longer one, else into a label with
    others in the last row.
    """
    places = sorted(
        (max(time.x(note.time.start), time.x0), position)
        for position, note in enumerate(notes)
        if time.x(note.time.start) <= time.x1 and time.x(note.time.end) >= time.x0 - 1
    )
    rows = [_LabelRow() for _ in range(note_rows(len(notes)))]
    for x, position in places:
        full_rows = (row for row in rows if row.full_end + LABEL_GAP_PX <= x)
        cut = (row for row in rows if row.least_end + LABEL_GAP_PX <= x)
        row = next(full_rows, None) or next(cut, None) or rows[-1]
        row.add(notes, x, position)
    return tuple(
        label
        for number, row in enumerate(rows)
        for label in _placed(row, number, notes, time)
    )


def _placed(
    row: _LabelRow, number: int, notes: Sequence[Note], time: TimeScale
) -> list[NoteLabel]:
    """Return the labels of a row, each cut where the next one begins."""
    labels: list[NoteLabel] = []
    groups, limit = row.groups, time.x1
    for at in range(len(groups) - 1, -1, -1):
        group = groups[at]
        width, left = _full_label_px(notes, group), group.places[0][0]
        right, is_before = min(left + width, limit), False
        if left + width > limit and not labels:  # at the right edge
            low = _least_end(notes, groups[at - 1]) if at else time.x0
            end = min(left + _BAR_PX, limit)
            is_before = end - low > limit - left
            if is_before:
                left, right = max(low, end - width), end
        left = time.snap(left)
        positions = tuple(position for _, position in group.places)
        text = _text(notes, group)
        labels.append(
            NoteLabel(left, max(left, right), text, positions, number, is_before)
        )
        limit = left - LABEL_GAP_PX
    return labels[::-1]


def _least_end(notes: Sequence[Note], group: _Group) -> float:
    """Return where a label may begin behind that of a group."""
    return group.places[0][0] + _min_label_px(notes, group) + LABEL_GAP_PX


def label_width(text: str) -> float:
    """Return the width that a label of this text takes, pixels."""
    return len(text) * _LETTER_PX + _PADDING_PX


def label_middle(row: int) -> float:
    """Return the height of the middle of a row of labels in the picture."""
    return AXIS_HEIGHT - _LABEL_HALF_PX - 1 + row * NOTE_ROW_PX


def label_at(
    notes: Sequence[Note], time: TimeScale, x: float, y: float
) -> tuple[int, ...]:
    """Return which notes the label at a point of the picture stands for."""
    for label in note_labels(notes, time):
        is_near = abs(y - label_middle(label.row)) <= NOTE_ROW_PX / 2
        if is_near and label.left <= x <= label.right:
            return label.positions
    return ()


def note_lines(geometry: TimelineGeometry, clip: Clip) -> list[Batch]:
    """Return the edges of notes; the data between them keep their colours."""
    lines, theme = LineList(dashed=True), geometry.scene.theme
    for _, note, x0, x1 in _places(geometry):
        for x in (x0, x1) if x1 - x0 >= _MIN_RANGE_PX else (x0,):
            color = note_color(note.color, theme)
            lines.add(x, geometry.lanes_y, x, geometry.bottom, color)
    return lines.batch(clip)


def note_strips(
    geometry: TimelineGeometry, labels: Sequence[NoteLabel], clip: Clip
) -> list[Batch]:
    """Return a strip at the foot of its label's row for each note of a range."""
    rects, theme = RectList(), geometry.scene.theme
    row_of = {at: label.row for label in labels for at in label.positions}
    for position, note, x0, x1 in _places(geometry):
        if x1 - x0 >= _MIN_RANGE_PX and position in row_of:
            y1 = geometry.axis_bottom + row_of[position] * NOTE_ROW_PX
            y0 = geometry.time.snap(y1 - _STRIP_PX)
            rects.add(x0, x1, y0, y1, note_color(note.color, theme))
    return rects.batch(clip=clip)


def _places(geometry: TimelineGeometry) -> list[tuple[int, Note, float, float]]:
    """Return number, note, left and right of each one that touches the view."""
    time, places = geometry.time, []
    for position, note in enumerate(geometry.scene.bookmarks):
        ends = np.array([note.time.start, note.time.end])
        x0, x1 = time.xs(ends).tolist()
        if x1 >= time.x0 and x0 <= time.x1:
            places.append((position, note, x0, x1))
    return places


def note_plates(
    geometry: TimelineGeometry, labels: Sequence[NoteLabel]
) -> tuple[RectList, RectList, TextList]:
    """Return the plates of labels, the coloured bars on them, and their texts."""
    plates, bars, texts = RectList(), RectList(), TextList()
    theme, time, notes = geometry.scene.theme, geometry.time, geometry.scene.bookmarks
    for label in labels:
        y = time.snap(geometry.axis_y + label_middle(label.row))
        colors = {note_color(notes[i].color, theme) for i in label.positions}
        color = colors.pop() if len(colors) == 1 else theme.dim
        y0, y1 = y - _LABEL_HALF_PX, y + _LABEL_HALF_PX
        plates.add(label.left, label.right, y0, y1, theme.raised, color)
        width = min(_BAR_PX, label.right - label.left)
        bar = label.right - width if label.is_before else label.left
        bars.add(bar, bar + width, y0, y1, color)
        left = label.left + (2 if label.is_before else _BAR_PX + 2)
        text_px = label.right - label.left - _PADDING_PX + 2
        if text_px >= _LETTER_PX:
            texts.append(
                Text(left, y, label.text, theme.text, LABEL_SIZE, Face.MONO,
                     width=text_px)
            )  # fmt: skip
    return plates, bars, texts


def _full_label_px(notes: Sequence[Note], group: _Group) -> float:
    """Return the width that the label of a group takes where there is room."""
    has_text = len(group.places) == 1 and notes[group.places[0][1]].text
    longest = _LONG_WITH_TEXT_PX if has_text else _LONG_PX
    return min(label_width(_text(notes, group)), longest)


def _min_label_px(notes: Sequence[Note], group: _Group) -> float:
    """Return the width that the label of a group cannot do without."""
    width = label_width(_text(notes, group))
    return width if len(group.places) > 1 else min(width, _SHORT_PX)


def _text(notes: Sequence[Note], group: _Group) -> str:
    if len(group.places) > 1:
        return f"{len(group.places)} bookmarks"
    return notes[group.places[0][1]].label
