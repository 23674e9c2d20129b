"""Objects of JSON lists as columns against Python's json module."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggscope.readers.common.gathered import NONE
from ggscope.readers.common.objects import (
    Fields,
    ListFaults,
    ObjectTable,
)
from ggscope.readers.common.packed_text import HeadText, TextBlocks
from ggscope.readers.common.placed_records import Offsets
from ggscope.readers.common.text_cursor import TextCursor

FIELDS = Fields({"x": "x", "deep": "a.b.c", "short": "a.d"}, {"name": "name"}, real="r")
MOST = 1 << 61

values = st.one_of(
    st.integers(-(1 << 70), 1 << 70), st.floats(allow_nan=False), st.text(max_size=6),
    st.none(), st.booleans(), st.lists(st.integers(), max_size=2),
)  # fmt: skip
keys = st.sampled_from(["x", "a", "b", "c", "d", "name", "r", "other"])
objects = st.dictionaries(
    keys,
    st.recursive(values, lambda v: st.dictionaries(keys, v, max_size=4), max_leaves=6),
    max_size=6,
)


def taken(
    data: bytes, fields: Fields = FIELDS, block: int = 1 << 16
) -> tuple[ObjectTable, ListFaults, TextCursor]:
    """Return the objects of a list that is a text."""
    table, faults = ObjectTable(fields), ListFaults()
    with TextBlocks(HeadText(data), block) as blocks:
        cursor = TextCursor(blocks, lambda: None)
        table.take(cursor, faults)
    return table, faults, cursor


def at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def integer(value: Any) -> int:
    """Return a value as columns of integers have it."""
    if isinstance(value, bool) or not isinstance(value, int):
        return NONE
    return value if abs(value) <= MOST else NONE


@settings(max_examples=60)
@given(st.lists(objects, max_size=8), st.sampled_from([None, 2]))
def test_fields_are_those_that_the_json_module_wrote(rows, indent):
    data = json.dumps(rows, indent=indent).encode()

    table, faults, cursor = taken(data)

    assert (faults.broken, faults.other, cursor.is_cut) == (0, 0, False)
    assert table.n_objects == len(rows)
    for name, path in FIELDS.integers.items():
        expected = [at(row, path) for row in rows]
        column = table.column(name).tolist()
        for one, value in zip(column, expected, strict=True):
            # Numbers with a point and texts of digits become whole ones.
            if not isinstance(value, float | str):
                assert one == integer(value)
    names = [row.get("name") for row in rows]
    assert table.texts("name") == [n if isinstance(n, str) else "" for n in names]


@settings(max_examples=60)
@given(st.lists(objects, max_size=5), st.data())
def test_lists_cut_anywhere_keep_whole_objects(rows, data):
    text = json.dumps(rows).encode()
    cut = data.draw(st.integers(1, len(text)))

    table, _, cursor = taken(text[:cut])

    assert cursor.is_cut == (cut < len(text))
    expected = [row.get("name") for row in rows]
    names = [n if isinstance(n, str) else "" for n in expected]
    assert table.texts("name") == names[: len(table)]
    if cut >= len(text) - 1:
        assert len(table) == len(rows)


def test_large_lists_go_over_blocks():
    rows = [
        {"name": f"n{i % 900}", "x": i, "a": {"b": {"c": -i}}} for i in range(90_000)
    ]
    data = b"\xef\xbb\xbf " + json.dumps(rows).encode()
    assert len(data) > 3 << 20

    table, _, cursor = taken(data)

    assert table.column("x").tolist() == list(range(90_000))
    assert table.column("deep").tolist() == [-i for i in range(90_000)]
    assert table.texts("name")[-1] == rows[-1]["name"]
    offsets = table.column("offset").tolist()
    assert all(data[i : i + 1] == b"{" for i in offsets[::997])
    assert not cursor.is_cut


def test_damage_costs_the_object_that_it_is_in():
    data = b'[{"x": 1}, {"x" 2}, {"x": 3}, 7, "t", {"x": 4}} , {"x": 5}]'

    table, faults, _ = taken(data)

    assert {1, 3, 5} <= set(table.column("x").tolist())
    assert faults.broken
    assert faults.first_broken == data.index(b'{"x" 2')
    assert faults.other == 2


def test_lists_within_objects_make_rows():
    fields = Fields({"id": "id"}, within="in", inner=Fields({"k": "k.h"}, real="v"))
    data = json.dumps(
        [
            {"in": [{"k": {"h": 1}, "v": 0.5}, 3, {"v": 2}], "id": 7},
            {"id": 8, "in": []},
            {"id": 9},
            {"id": 10, "in": [{"k": {"h": 4}}]},
        ]
    ).encode()

    table, _, _ = taken(data, fields)

    assert table.n_objects == 4
    assert table.column("id").tolist() == [7, 7, 10]
    assert table.column("k").tolist() == [1, NONE, 4]
    assert np.array_equal(table.reals(), [0.5, 2.0, np.nan], equal_nan=True)


@pytest.mark.parametrize("n", [5_000, 40_000])
def test_a_long_list_within_an_object_is_whole_or_left_out(n):
    fields = Fields({"id": "id"}, within="in", inner=Fields({"k": "k"}))
    rows = [{"id": i, "in": [{"k": k} for k in range(n)]} for i in range(9)]

    table, faults, _ = taken(json.dumps(rows).encode(), fields)

    if n > 1 << 15:
        assert len(table) == 0
        assert faults.broken == 9
    else:
        assert len(table) == 9 * n
        assert faults.broken == 0


def test_a_key_twice_has_its_last_value():
    table, _, _ = taken(b'[{"x": 1, "x": 2, "name": "a", "name": "b"}]')

    assert table.column("x").tolist() == [2]
    assert table.texts("name") == ["b"]


@given(st.lists(st.integers(0, 1 << 50), max_size=100), st.booleans())
def test_offsets_are_given_back(places, ascend):
    offset = np.array(sorted(places) if ascend else places, np.int64)

    held = Offsets(offset)

    assert [held[i] for i in range(len(held))] == offset.tolist()


def test_offsets_of_usual_events_take_little_memory():
    length = np.random.default_rng(3).integers(100, 900, 100_000)

    held = Offsets(np.cumsum(length) + (1 << 40))

    assert held.nbytes < 2.5 * len(held)
