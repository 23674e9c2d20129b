"""Labels of notes: none hides another, and each note in view has a part in one."""

import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ggscope.model.notes import NOTE_COLORS, Note
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList, RectBatch
from ggscope.render.theme import MIN_CONTRAST, contrast, theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.notes import (
    label_at,
    label_middle,
    label_width,
    note_color,
    note_labels,
)
from ggscope.render.timeline.scene import TimelineGeometry, TimeScale, head_height
from scenes import busy_scene

TIME = TimeScale(TimeRange(0, 1000), 100, 1100, 1.0)


def point(name: str, at: int, text: str = "") -> Note:
    return Note(name, TimeRange(at, at), text)


def test_far_names_are_written_out_at_their_times() -> None:
    one, two = note_labels((point("two", 600), point("first", 100)), TIME)

    assert (one.text, one.left, one.right) == ("first", 200, 200 + label_width("first"))
    assert (two.text, two.left, two.positions) == ("two", 700, (0,))
    assert one.row == two.row == 0


def test_notes_at_one_time_have_rows_of_their_own_until_there_are_no_more() -> None:
    three = note_labels(tuple(point(n, 500) for n in "abc"), TIME)
    five = note_labels(tuple(point(n, 500) for n in "abcde"), TIME)

    assert [(x.text, x.row) for x in three] == [("a", 0), ("b", 1), ("c", 2)]
    assert [(x.text, x.row) for x in five] == [("a", 0), ("b", 1), ("3 bookmarks", 2)]
    assert five[2].positions == (2, 3, 4)


def test_long_name_goes_on_beside_a_near_one_in_the_next_row() -> None:
    one, two = note_labels((point("a" * 20, 100), point("b", 160)), TIME)

    assert one.right - one.left == pytest.approx(label_width("a" * 20))
    assert (two.left, two.row) == (260, 1)


def test_name_is_cut_where_the_next_begins_and_no_row_is_free() -> None:
    notes = tuple(point("a" * 25, 100 + 50 * i) for i in range(4))

    labels = note_labels(notes, TIME)

    assert [label.row for label in labels] == [0, 0, 1, 2]
    assert labels[0].right < labels[1].left == 350
    assert labels[0].right - labels[0].left >= 40


def test_text_of_a_note_follows_its_name_and_is_given_more_room() -> None:
    (named,) = note_labels((point("n" * 90, 0),), TIME)
    (label,) = note_labels((point("slow", 0, "waits " * 20),), TIME)

    assert label.text == "slow: " + "waits " * 20
    assert label.right - label.left > named.right - named.left


def test_label_at_the_right_edge_lies_left_of_its_note() -> None:
    (label,) = note_labels((point("at the end", 1000),), TIME)

    assert label.is_before
    assert label.right == 1100
    assert label.right - label.left == pytest.approx(label_width("at the end"), abs=1)


def test_range_that_began_before_the_view_has_its_name_at_the_edge() -> None:
    notes = (Note("range", TimeRange(-500, 500)), Note("gone", TimeRange(-500, -400)))

    (label,) = note_labels(notes, TIME)

    assert (label.text, label.left) == ("range", 100)


@pytest.mark.parametrize("seed", range(20))
def test_labels_never_overlap_and_name_every_note_in_view(seed: int) -> None:
    dice = random.Random(seed)
    notes = tuple(
        point(
            "n" * dice.randint(0, 40),
            dice.randrange(-50, 1051),
            "t" * dice.choice((0, 0, 5, 90)),
        )
        for _ in range(dice.randrange(60))
    )

    labels = note_labels(notes, TIME)

    items = sorted(position for label in labels for position in label.positions)
    assert items == [i for i, note in enumerate(notes) if 0 <= note.time.start <= 1000]
    for row in range(3):
        for label, right in pairwise(x for x in labels if x.row == row):
            assert label.right < right.left
            assert label.right - label.left >= min(label_width(label.text), 40) - 1
    for label in labels:
        assert 100 <= label.left <= label.right <= 1100
        middle = (label.left + label.right) / 2
        at = label_at(notes, TIME, middle, label_middle(label.row))
        assert at == label.positions


def test_color_of_a_note_is_seen_on_every_theme_and_unknown_is_the_first() -> None:
    for name in ("dark", "light", "print"):
        shown = theme(name)
        colors = {note_color(color.key, shown) for color in NOTE_COLORS}
        assert len(colors) == len(NOTE_COLORS)
        for color in colors:
            assert contrast(color, shown.lane) >= MIN_CONTRAST
        assert note_color("chartreuse", shown) == shown.caution


def _colored(picture: DisplayList, color: int) -> np.ndarray:
    boxes = [
        np.column_stack([b.x0, b.x1, b.y0, b.y1])[b.fill == color]
        for b in picture.batches
        if isinstance(b, RectBatch)
    ]
    return np.concatenate(boxes)


def test_each_range_has_a_strip_of_its_color_in_the_row_of_its_label() -> None:
    scene = busy_scene("dark")
    start = scene.visible.start
    ranges = [TimeRange(start + 1000 * i, start + 400_000) for i in range(3)]
    keys = ("red", "green", "blue")
    notes = tuple(
        Note(key, time, color=key) for key, time in zip(keys, ranges, strict=True)
    )

    scene = replace(scene, bookmarks=notes)
    geometry, picture = TimelineGeometry(scene), compose_timeline(scene)

    assert geometry.lanes_y == head_height(3) == 52
    for row, key in enumerate(keys):
        boxes = _colored(picture, note_color(key, scene.theme))
        strips = boxes[boxes[:, 3] == geometry.axis_bottom + 13 * row]
        x0, x1 = geometry.time.xs(np.array([ranges[row].start, ranges[row].end]))
        assert strips[:, :2].tolist() == [pytest.approx([x0, x1])]
    # What is drawn of lanes has moved down with them, headers too.
    plain = compose_timeline(replace(scene, bookmarks=notes[:1]))
    assert plain.still
    assert picture.still
    assert picture.still[0].area.y - plain.still[0].area.y == 26
