"""Bookmarks as values, and the undoing of what was done to them."""

import pytest

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import (
    MAX_NAME,
    Bookmark,
    BookmarkList,
    Bookmarks,
    added,
    free_name,
    moved,
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
    for wanted in (
        marks("a"),
        marks("a", "b", "c"),
        renamed(marks("a", "b", "c"), 1, "B"),
        noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"),
        moved(noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"), 0, 2),
        without(moved(noted(renamed(marks("a", "b", "c"), 1, "B"), 0, "why"), 0, 2),
                [0, 1]),
    ):  # fmt: skip
        assert done.change(wanted, f"step {len(states)}")
        states.append(wanted)

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

    assert (done.undo_words, done.redo_words) == ("two", "")
