"""Bookmarks as values, and the model that changes them in steps."""

from collections.abc import Callable

import pytest

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import (
    MAX_NAME,
    Bookmark,
    Bookmarks,
    Subject,
    free_name,
    nearest,
    reverted,
)
from ggscope.session.bookmarks.model import BookmarkModel


def marks(*names: str) -> Bookmarks:
    return tuple(
        Bookmark(name, TimeRange(at, at), id=f"{at:016x}")
        for at, name in enumerate(names)
    )


def names(bookmarks: Bookmarks) -> list[str]:
    return [b.name for b in bookmarks]


def test_new_name_has_a_number_above_all_that_are_taken() -> None:
    assert free_name(()) == "Bookmark 1"
    assert free_name(marks("Bookmark 7", "x", "Bookmark 2")) == "Bookmark 8"


def model_of(*items: Bookmark) -> BookmarkModel:
    model = BookmarkModel(lambda: Subject(TimeRange(1, 1)))
    model.replace(items)
    return model


def test_temporary_bookmark_is_replaced_and_kept_once_it_is_named() -> None:
    model = model_of()
    model.add("first", permanent=False)
    model.add("second", permanent=False)

    for name, expected in ((" \t ", "second"), (" slow\n token ", "slow token")):
        model.set_name(0, name)
        assert [b.name for b in model.items] == [expected]
        assert model.items[0].permanent == (expected != "second")
    model.set_name(0, "x" * 999)
    assert len(model.items[0].name) == MAX_NAME


def test_color_is_changed_of_those_chosen_as_one_step() -> None:
    mark = Bookmark("mark", TimeRange(1, 1), permanent=False)
    model = model_of(*marks("a", "b"), mark)

    model.set_color("red", 0, 2)
    model.set_color("red", 0, 2)  # changes nothing

    assert [b.color for b in model.items] == ["red", "", "red"]
    assert model.items[2].permanent
    assert model.items[0].as_note() == ("a", TimeRange(0, 0), "", "red")
    assert model.undo_title == "colour of 2 bookmarks changed"
    model.undo()
    assert model.items == (*marks("a", "b"), mark)
    with pytest.raises(IndexError):
        model.set_color("red", 3)


def test_nearest_is_the_one_in_view_whose_ends_differ_least() -> None:
    view = TimeRange(100, 200)
    now = tuple(
        Bookmark("x", TimeRange(a, b))
        for a, b in ((90, 300), (120, 140), (130, 130), (40, 60), (180, 180))
    )

    assert nearest(now, TimeRange(130, 130), view) == 2
    assert nearest(now, TimeRange(121, 139), view) == 1
    assert nearest(now, TimeRange(170, 300), view) == 0
    assert nearest(now[3:], TimeRange(50, 50), view) == 1
    assert nearest(now[3:4], TimeRange(50, 50), view) is None


@pytest.mark.parametrize(
    ("source", "target", "expected"), [(0, 1, "bac"), (2, -5, "cab"), (0, 99, "bca")]
)
def test_moving_stays_within_the_list(source: int, target: int, expected: str) -> None:
    model = model_of(*marks("a", "b", "c"))

    model.move(source, target)

    assert "".join(names(model.items)) == expected
    with pytest.raises(IndexError):
        model.move(3, 0)


def test_undo_and_redo_of_all_kinds_of_changes() -> None:
    model = model_of()
    states = [model.items]
    changes: list[Callable[[], object]] = [
        lambda: model.add("a"),
        lambda: model.add("b", TimeRange(2, 7)),
        lambda: model.set_name(1, "B"),
        lambda: model.set_note(0, "why"),
        lambda: model.edit(model.items[0].id, "A", "why not", "red"),
        lambda: model.move(0, 1),
        model.sort,
        lambda: model.remove(0, 1),
    ]
    for change in changes:
        change()
        states.append(model.items)

    titles = []
    for state in states[-2::-1]:
        titles.append(model.undo_title)
        model.undo()
        assert model.items == state
    assert model.undo_title == ""
    for state in states[1:]:
        assert model.redo_title == titles.pop()
        model.redo()
        assert model.items == state
    assert model.redo_title == ""


def test_undo_leaves_what_another_window_added() -> None:
    a, b, c = marks("a", "b", "c")
    model = model_of(a, b)
    model.remove(0)
    model.replace((b, c))

    model.undo()

    assert model.items == (a, b, c)
    assert reverted((a, b, c), (), (a, b)) == (c,)


def test_change_after_undo_forgets_what_could_be_done_again() -> None:
    model = model_of()
    model.add("one")
    model.undo()
    model.add("two")

    assert (model.undo_title, model.redo_title) == ("“two” added", "")
