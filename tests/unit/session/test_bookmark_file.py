"""Bookmark files: what is read of hostile ones, and how windows agree."""

import json
import os
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from ggscope.model.units import TimeRange
from ggscope.session.bookmarks.bookmarks import Bookmark
from ggscope.session.bookmarks.files import (
    BookmarkFileError,
    BookmarkSet,
    Entry,
    Fingerprint,
    merged,
    now_ms,
    parsed,
    read_bookmarks,
    to_bytes,
    with_listed,
)

OF = Fingerprint(123, "0" * 16, "1" * 32)


def entry(number: int, changed: int = 1, name: str = "") -> Entry:
    mark = Bookmark(name or f"m{number}", TimeRange(number, number + 5), note="n",
                    what="w", lane="l", id=f"{number:016x}")  # fmt: skip
    return Entry(mark, changed)


def content(**changes: object) -> bytes:
    data = json.loads(to_bytes(BookmarkSet((entry(1),), {"f" * 16: 9}), OF, "ns", "x"))
    return json.dumps({**data, **changes}).encode()


def test_what_is_written_is_read_again() -> None:
    entries = BookmarkSet((entry(1), entry(2, 7)), {"a" * 16: 5})

    tree = parsed(to_bytes(entries, OF, "cycle", "trace.json"))

    assert (tree.bookmarks, tree.of, tree.unit, tree.n_bad) == (
        entries,
        OF,
        "cycle",
        0,
    )


def test_color_is_written_where_it_is_not_the_first_and_read_again() -> None:
    plain, red = entry(1), entry(2)
    red = replace(red, bookmark=replace(red.bookmark, color="red"))

    written = to_bytes(BookmarkSet((plain, red)), OF, "ns", "x")

    first, second = json.loads(written)["bookmarks"]
    assert set(first) == {
        "id",
        "name",
        "start",
        "end",
        "note",
        "what",
        "lane",
        "changed",
    }  # as 0.1.0 wrote them
    assert second["color"] == "red"
    assert json.loads(written)["version"] == 1
    assert parsed(written).bookmarks.entries == (plain, red)


@pytest.mark.parametrize(
    ("color", "stored"),
    [("teal", "teal"), ("", ""), (None, ""), (5, ""), ("x" * 99, ""), ("<b>", "")],
)
def test_color_of_a_newer_version_is_kept_and_nonsense_is_none(
    color: object, stored: str
) -> None:
    (result,) = parsed(content(bookmarks=[{**GOOD, "color": color}])).bookmarks.entries

    assert result.bookmark.color == stored


def test_names_of_lanes_are_written_and_the_last_one_counts() -> None:
    early = BookmarkSet(lane_names={"a": (5, "main"), "b": (9, "x")})
    late = BookmarkSet(lane_names={"a": (7, ""), "c": (1, "y")})

    for sets in permutations((early, late)):
        both = merged(*sets)
        assert both.lane_names == {"a": (7, ""), "b": (9, "x"), "c": (1, "y")}
    assert parsed(to_bytes(late, OF, "ns", "x")).bookmarks == late
    assert bool(late)
    assert b"lanes" not in to_bytes(BookmarkSet((entry(1),)), OF, "ns", "x")


@pytest.mark.parametrize(
    "bad", [5, [], "x", {"k": 5}, {"k": {"name": 5}}, {"k": []}, {"k" * 999: {}}]
)
def test_names_of_lanes_that_make_no_sense_are_left_out(bad: object) -> None:
    assert parsed(content(lanes=bad)).bookmarks.lane_names == {}
    hostile = {"k": {"name": "a\nb\x1b[2J", "changed": -3}}
    (name,) = parsed(content(lanes=hostile)).bookmarks.lane_names.values()
    assert name == (0, "a b [2J")


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"\xff\xfe", b"[]", b"null", b"{", b'{"ggscope": "other"}',
        b"[" * 100_000, b"9" * 10_000, content(version=2), content(version=True),
        content(version=-1), content(unit="s"), content(unit=["ns"]),
        content(bookmarks={}), content(trace=None), content(trace={"size": -1}),
        content(trace={"size": 1, "head": "../../x", "digest": "1" * 32}),
        content(trace={"size": 1.5, "head": "0" * 16, "digest": "1" * 32}),
    ],
)  # fmt: skip
def test_something_else_is_refused_as_a_whole(bad: bytes) -> None:
    with pytest.raises(BookmarkFileError):
        parsed(bad)


GOOD = {"id": "0" * 15 + "5", "name": "x", "start": 1, "end": 2, "changed": 3}


@pytest.mark.parametrize(
    "bad",
    [
        None, 5, [], "x", {}, {**GOOD, "start": "1"}, {**GOOD, "start": 1.0},
        {**GOOD, "end": 0}, {**GOOD, "end": 10**30}, {**GOOD, "start": -(10**30)},
        {**GOOD, "start": True}, {**GOOD, "name": 5}, {**GOOD, "note": []},
        {**GOOD, "what": {}}, {**GOOD, "lane": None}, {**GOOD, "start": None},
    ],
)  # fmt: skip
def test_entry_that_makes_no_sense_is_left_out_and_counted(bad: object) -> None:
    tree = parsed(content(bookmarks=[bad, GOOD]))

    assert [e.bookmark.name for e in tree.bookmarks.entries] == ["x"]
    assert tree.n_bad == 1


def test_texts_are_cut_and_stay_in_one_line() -> None:
    hostile = {**GOOD, "name": "<img src=x>\n\x1b[2J" + "a" * 10**6, "note": "\x00b"}

    (entries,) = parsed(content(bookmarks=[hostile])).bookmarks.entries

    assert entries.bookmark.name.startswith("<img src=x> [2J")
    assert len(entries.bookmark.name) == 200
    assert entries.bookmark.note == "b"


def test_times_of_change_in_the_future_cannot_win_for_ever() -> None:
    tree = parsed(
        content(bookmarks=[{**GOOD, "changed": 10**18}], deleted={"f" * 16: 10**18})
    )

    assert tree.bookmarks.entries[0].changed <= now_ms()
    assert tree.bookmarks.deleted["f" * 16] <= now_ms()


def test_huge_lists_are_cut() -> None:
    many = [{**GOOD, "id": f"{n:016x}"} for n in range(20_000)]
    gone = {f"{n:016x}": n for n in range(20_000)}

    tree = parsed(content(bookmarks=many, deleted=gone))

    assert len(tree.bookmarks.entries) == len(tree.bookmarks.deleted) == 5000
    assert tree.n_bad == 15_000


def test_entry_without_id_always_gets_the_same() -> None:
    written = [{k: v for k, v in GOOD.items() if k != "id"}]

    first, second = (parsed(content(bookmarks=written)).bookmarks for _ in range(2))

    assert first == second


def test_links_pipes_folders_and_large_files_are_not_read(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    real.write_bytes(content())
    link.symlink_to(real)
    os.mkfifo(pipe)
    large = tmp_path / "large"
    large.write_bytes(content() + b" " * (5 << 20))

    assert read_bookmarks(real) is not None
    assert read_bookmarks(tmp_path / "none") is None
    for path in (link, pipe, tmp_path, large):
        with pytest.raises(BookmarkFileError):
            read_bookmarks(path)


def test_sets_agree_in_whichever_order_they_are_merged() -> None:
    sets = (
        BookmarkSet((entry(1), entry(2, 4, "old")), {}),
        BookmarkSet((entry(2, 5, "new"), entry(3)), {"0" * 15 + "1": 9}),
        BookmarkSet((entry(2, 5, "newer"), entry(4, 20)), {"0" * 15 + "4": 10}),
    )

    results = {
        frozenset((e.bookmark.name, e.changed) for e in merged(*order).entries)
        for order in permutations(sets)
    }

    assert results == {frozenset({("newer", 5), ("m3", 1), ("m4", 20)})}
    once = merged(*sets)
    assert merged(once, *sets) == once


def test_changes_of_what_is_listed_are_later_than_all_before() -> None:
    stored = BookmarkSet(
        (entry(1, 50), entry(2, 50), entry(3, 50), entry(4, 50)), {f"{9:016x}": 70}
    )
    listed = frozenset(f"{n:016x}" for n in (1, 2, 3))  # 4 lies outside of the trace
    same, old, gone, aside = stored.entries
    renamed, again = replace(old.bookmark, name="new"), entry(9).bookmark

    result = with_listed(stored, [again, same.bookmark, renamed], listed, 60)

    assert result.entries == (Entry(again, 71), same, Entry(renamed, 60), aside)
    assert result.deleted == {gone.bookmark.id: 60}
    assert merged(stored, result).entries == (same, Entry(renamed, 60), aside,
                                              Entry(again, 71))  # fmt: skip
    ids = frozenset(e.bookmark.id for e in result.entries[:3])
    unchanged = [e.bookmark for e in result.entries[:3]]
    assert with_listed(result, unchanged, ids, 99) == result
