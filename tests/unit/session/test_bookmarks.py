"""Bookmarks as values, and the undoing of what was done to them."""

import pytest

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import (
    MAX_NAME,
    Bookmark,
    BookmarkList,
    Bookmarks,
    added,
    colored,
    free_name,
    moved,
    nearest,
    noted,
    renamed,
    reverted,
    without,
)


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


def test_renamed_temporary_bookmark_is_kept_from_now_on() -> None:
    now = added((), Bookmark("mark", TimeRange(1, 1), permanent=False))

    assert renamed(now, 0, " slow\n token ")[0].name == "slow token"
    assert renamed(now, 0, "slow")[0].permanent
    assert renamed(now, 0, " \t ") == now
    assert len(renamed(now, 0, "x" * 999)[0].name) == MAX_NAME


def test_color_is_changed_of_those_chosen_and_keeps_a_temporary_one() -> None:
    now = added(marks("a", "b"), Bookmark("mark", TimeRange(1, 1), permanent=False))

    red = colored(now, (0, 2), "red")

    assert [b.color for b in red] == ["red", "", "red"]
    assert red[2].permanent
    assert colored(red, (0, 2), "red") == red
    assert red[0].as_note() == ("a", TimeRange(0, 0), "", "red")
    with pytest.raises(IndexError):
        colored(now, (3,), "red")


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


def test_moving_stays_within_the_list() -> None:
    now = marks("a", "b", "c")

    assert names(moved(now, 0, 1)) == ["b", "a", "c"]
    assert names(moved(now, 2, -5)) == ["c", "a", "b"]
    assert names(moved(now, 0, 99)) == ["b", "c", "a"]
    with pytest.raises(IndexError):
        moved(now, 3, 0)


def test_undo_and_redo_of_all_kinds_of_changes() -> None:
    done = BookmarkList()
    states = [()]
    for expected in (
        marks("a"),
        marks("a", "b", "c"),
        renamed(marks("a", "b", "c"), 1, "B"),
        noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"),
        moved(noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"), 0, 2),
        without(moved(noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"), 0, 2),
                [0, 1]),
    ):  # fmt: skip
        assert done.change(expected, f"step {len(states)}")
        states.append(expected)

    for number in range(len(states) - 1, 0, -1):
        assert done.undo() == f"step {number}"
        assert done.now == states[number - 1]
    assert done.undo() == ""
    for number in range(1, len(states)):
        assert done.redo() == f"step {number}"
        assert done.now == states[number]
    assert done.redo() == ""


def test_undo_leaves_what_another_window_added() -> None:
    a, b, c = marks("a", "b", "c")
    done = BookmarkList()
    done.change((a, b), "made")
    done.change((b,), "deleted")
    done.replace((b, c))

    done.undo()

    assert done.now == (a, b, c)
    assert reverted((a, b, c), (), (a, b)) == (c,)


def test_change_after_undo_forgets_what_could_be_done_again() -> None:
    done = BookmarkList()
    done.change(marks("a"), "one")
    done.undo()
    done.change(marks("b"), "two")

    assert (done.undo_text, done.redo_text) == ("two", "")
