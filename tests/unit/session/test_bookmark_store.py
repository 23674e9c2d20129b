"""Where bookmarks are kept: two places, one truth, and what is never overwritten."""

import json
import os
from pathlib import Path

import pytest

from ggscope.errors import WriteError
from ggscope.model.units import TimeRange
from ggscope.readers import discovery as readers_survey
from ggscope.session.bookmarks.bookmarks import Bookmark
from ggscope.session.bookmarks.files import (
    BookmarkSet,
    BookmarkStorage,
    Entry,
    Found,
    SaveResult,
    read_bookmarks,
    side_car,
)
from statements import new_statements
from support import small_files


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    path = tmp_path / "traces" / "run.bin"
    path.write_bytes(bytes(range(256)) * 40)
    return path


def shelf(trace: Path, *, is_beside: bool = False, **others: object) -> BookmarkStorage:
    return BookmarkStorage(trace, "ns", trace.parents[1] / "data", is_beside, **others)  # type: ignore[arg-type]  # only for tests


def bookmark_set(*names: str, changed: int = 5) -> BookmarkSet:
    return BookmarkSet(
        tuple(
            Entry(Bookmark(name, TimeRange(1, 9), id=name.encode().hex().zfill(16)),
                  changed)
            for name in names
        )
    )  # fmt: skip


def names(result: Found | SaveResult) -> list[str]:
    return [e.bookmark.name for e in result.bookmarks.entries]


def test_nothing_is_written_where_there_is_nothing_to_keep(trace: Path) -> None:
    shelf(trace).store(BookmarkSet())

    assert not (trace.parents[1] / "data").exists()
    assert names(shelf(trace).find()) == []


def test_moved_and_renamed_trace_finds_its_bookmarks(trace: Path) -> None:
    shelf(trace).store(bookmark_set("a"))
    other = trace.parents[1] / "other name.bin"
    trace.rename(other)

    result = BookmarkStorage(other, "ns", trace.parents[1] / "data").find()

    assert names(result) == ["a"]


def test_other_content_of_the_same_name_has_none(trace: Path) -> None:
    shelf(trace).store(bookmark_set("a"))
    trace.write_bytes(bytes(range(255, -1, -1)) * 40)

    assert names(shelf(trace).find()) == []


def test_grown_trace_finds_them_and_keeps_one_file(trace: Path) -> None:
    shelf(trace).store(bookmark_set("a"))
    with trace.open("ab") as file:
        file.write(b"x" * 1000)

    result = shelf(trace).find()
    shelf(trace).store(result.bookmarks)

    assert names(result) == ["a"]
    assert len(list((trace.parents[1] / "data").iterdir())) == 1
    assert names(shelf(trace).find()) == ["a"]


def test_beside_the_trace_after_the_person_agreed(trace: Path) -> None:
    shelf(trace).store(bookmark_set("a"))
    store = shelf(trace, is_beside=True).store(bookmark_set("b"))

    assert store.place == side_car(trace)
    assert sorted(names(store)) == ["a", "b"]
    assert list((trace.parents[1] / "data").iterdir()) == []
    alone = BookmarkStorage(trace, "ns", None).find()
    assert sorted(names(alone)) == ["a", "b"]


def test_bookmark_files_are_no_files_of_an_experiment(trace: Path) -> None:
    shelf(trace, is_beside=True).store(bookmark_set("a"))

    whole, near = readers_survey.survey([trace.parent]), readers_survey.beside(trace)

    assert side_car(trace).exists()
    for item in (whole, near):
        paths = [part.path for part in (*item.members, *item.skipped)]
        assert side_car(trace) not in paths


def test_two_windows_lose_nothing_and_deletions_hold(trace: Path) -> None:
    first = shelf(trace).store(bookmark_set("a", "b"))
    second = shelf(trace).store(bookmark_set("c"))
    assert sorted(names(second)) == ["a", "b", "c"]

    gone = BookmarkSet(
        bookmark_set("b").entries, {first.bookmarks.entries[0].bookmark.id: 6}
    )
    third = shelf(trace).store(gone)
    again = shelf(trace).store(bookmark_set("a", "c"))  # has not heard of it

    assert sorted(names(third)) == sorted(names(again)) == ["b", "c"]


def test_side_car_of_other_content_is_shown_only_when_asked(trace: Path) -> None:
    shelf(trace, is_beside=True).store(bookmark_set("a"))
    trace.write_bytes(b"another run" * 900)

    result = shelf(trace).find()

    assert names(result) == []
    assert result.foreign is not None
    before = side_car(trace).read_bytes()
    store = shelf(trace, is_beside=True).store(bookmark_set("b"))
    assert store.is_elsewhere
    assert side_car(trace).read_bytes() == before
    accepted = shelf(trace, accepted=frozenset({result.foreign.of.digest}))
    assert sorted(names(accepted.find())) == ["a", "b"]


@pytest.mark.parametrize("kind", ["text", "link", "newer", "folder", "pipe"])
def test_what_is_no_bookmark_file_is_never_overwritten(trace: Path, kind: str) -> None:
    place, victim = side_car(trace), trace.parent / "victim"
    victim.write_text("precious")
    if kind == "text":
        place.write_text("precious")
    elif kind == "link":
        place.symlink_to(victim)
    elif kind == "newer":
        place.write_text('{"ggscope": "bookmarks", "version": 99}')
    elif kind == "folder":
        place.mkdir()
    else:
        os.mkfifo(place)
    before = victim.read_text(), place.read_text() if kind in ("text", "newer") else ""

    result = shelf(trace).find()
    store = shelf(trace, is_beside=True).store(bookmark_set("a"))

    after = victim.read_text(), place.read_text() if kind in ("text", "newer") else ""
    assert place.name in result.problem
    assert before == after
    assert store.place is not None
    assert store.place.parent == trace.parents[1] / "data"
    assert names(shelf(trace).find()) == ["a"]
    other = trace.with_name(f"other-{trace.name}")
    other.write_bytes(b"another run" * 900)
    assert shelf(other, is_beside=True).store(bookmark_set("a")).place
    assert side_car(other).exists()
    assert new_statements(result.problem, shelf(other).find().problem)


@pytest.mark.parametrize(
    "content", ["[", "{}", '{"ggscope": "bookmarks", "version": 9}']
)
def test_unread_file_in_the_profile_is_reported_and_kept(
    trace: Path, content: str
) -> None:
    place = shelf(trace).store(bookmark_set("a")).place
    assert place is not None
    place.write_text(content)

    result = shelf(trace).find()
    first = shelf(trace).store(bookmark_set("b"))
    second = shelf(trace).store(bookmark_set("c"))

    assert str(place) in result.problem
    assert place.read_text() == content
    assert first.place == second.place != place
    assert sorted(names(shelf(trace).find())) == ["b", "c"]


@pytest.mark.parametrize("is_beside", [True, False])
def test_entries_that_are_left_out_stay_in_a_copy(trace: Path, is_beside: bool) -> None:
    place = shelf(trace, is_beside=is_beside).store(bookmark_set("a")).place
    assert place is not None
    content = json.loads(place.read_text())
    content["bookmarks"].append({"name": "by hand", "start": "5 ms"})
    place.write_text(json.dumps(content))
    before = place.read_bytes()

    result = shelf(trace).find()
    shelf(trace, is_beside=is_beside).store(bookmark_set("b"))
    shelf(trace, is_beside=is_beside).store(bookmark_set("c"))

    assert place.name in result.problem
    assert names(result) == ["a"]
    copies = [path for path in place.parent.iterdir() if "broken" in path.name]
    assert [path.read_bytes() for path in copies] == [before]
    assert sorted(names(shelf(trace).find())) == ["a", "b", "c"]
    assert not shelf(trace).find().problem


def test_side_car_that_cannot_be_written_is_reported_and_kept(trace: Path) -> None:
    place = shelf(trace, is_beside=True).store(bookmark_set("a")).place
    assert place is not None
    before = place.read_bytes()
    many = bookmark_set(*(f"mark {number}" for number in range(9)))

    with small_files(len(before) + 9):
        result = shelf(trace, is_beside=True)
        with pytest.raises(WriteError):  # the profile is on the same full disk
            result.store(many)

    assert place.read_bytes() == before
    assert names(shelf(trace).find()) == ["a"]


def test_side_car_of_another_clock_is_not_taken(trace: Path) -> None:
    shelf(trace, is_beside=True).store(bookmark_set("a"))

    result = BookmarkStorage(trace, "cycle", None).find()

    assert names(result) == []
    assert result.foreign is not None


def test_folder_that_cannot_be_written_leaves_the_data_folder(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere

    store = shelf(trace, is_beside=True).store(bookmark_set("a"))

    assert store.is_elsewhere
    assert side_car(trace).name in store.problem
    assert not shelf(trace).store(bookmark_set("a")).problem
    assert not side_car(trace).exists()
    place = trace.parents[1] / "data"
    assert [read_bookmarks(p).bookmarks for p in place.iterdir()] == [store.bookmarks]  # type: ignore[union-attr]  # it is there


def test_trace_that_is_gone_is_named_and_nothing_is_written(trace: Path) -> None:
    trace.unlink()

    with pytest.raises(WriteError, match=f"{trace.name}, which they belong to"):
        shelf(trace, is_beside=True).store(bookmark_set("a"))

    assert not side_car(trace).exists()
