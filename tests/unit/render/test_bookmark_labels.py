"""Labels of bookmarks: none hides another, and each bookmark has a part in one."""

import random
from itertools import pairwise

import pytest

from ggscope.model.units import TimeRange
from ggscope.render.timeline.marks import bookmark_labels, label_width
from ggscope.render.timeline.scene import TimeScale

TIME = TimeScale(TimeRange(0, 1000), 100, 1100, 1.0)


def point(name: str, at: int) -> tuple[str, TimeRange]:
    return name, TimeRange(at, at)


def test_far_names_are_written_out_at_their_times() -> None:
    one, two = bookmark_labels((point("two", 600), point("first", 100)), TIME)

    assert (one.text, one.left, one.right) == ("first", 200, 200 + label_width("first"))
    assert (two.text, two.left, two.positions) == ("two", 700, (0,))


def test_names_at_one_time_share_a_label() -> None:
    (label,) = bookmark_labels(tuple(point(n, 500) for n in "abc"), TIME)

    assert (label.text, label.positions) == ("3 bookmarks", (0, 1, 2))


def test_near_name_is_cut_where_the_next_begins() -> None:
    one, two = bookmark_labels((point("a" * 20, 100), point("b", 160)), TIME)

    assert one.text == "a" * 20
    assert two.left == 260
    assert 40 <= one.right - one.left < 60


def test_name_at_the_right_edge_stands_left_of_its_bookmark() -> None:
    (label,) = bookmark_labels((point("at the end", 1000),), TIME)

    assert label.right == 1100
    assert label.right - label.left == pytest.approx(label_width("at the end"), abs=1)


def test_range_that_began_before_the_view_has_its_name_at_the_edge() -> None:
    marks = (("range", TimeRange(-500, 500)), ("gone", TimeRange(-500, -400)))

    (label,) = bookmark_labels(marks, TIME)

    assert (label.text, label.left) == ("range", 100)


@pytest.mark.parametrize("seed", range(20))
def test_labels_never_overlap_and_name_every_bookmark_in_view(seed: int) -> None:
    dice = random.Random(seed)
    marks = tuple(
        point("n" * dice.randint(0, 40), dice.randrange(-50, 1051))
        for _ in range(dice.randrange(60))
    )

    labels = bookmark_labels(marks, TIME)

    told = sorted(position for label in labels for position in label.positions)
    assert told == [i for i, (_, t) in enumerate(marks) if 0 <= t.start <= 1000]
    for label, right in pairwise(labels):
        assert label.right < right.left
        assert label.right - label.left >= min(label_width(label.text), 40) - 1
