"""Rows as columns of JSON: nothing is lost, and little is written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ggscope.readers.recording.columns import Budget, ColumnError, rows, values
from ggscope_capture.columns import blocks, text

LARGE = 1 << 30
NUMBERS = some.integers(0, (1 << 63) - 1)
VALUES = some.one_of(
    some.none(), NUMBERS, some.booleans(), some.text(max_size=4),
    some.floats(allow_nan=False), some.lists(NUMBERS, max_size=5),
)  # fmt: skip
ROWS = some.lists(
    some.dictionaries(some.sampled_from(["begin", "end", "name", "list"]), VALUES),
    max_size=40,
)
LIKE_A_RUN = some.lists(
    some.fixed_dictionaries(
        {
            "begin": some.integers(0, 1 << 50),
            "end": some.one_of(some.none(), some.integers(0, 1 << 50)),
            "kind": some.sampled_from(["decode", "compute"]),
            "context": some.just(0x7F00_0000_1000),
            "tokens": some.lists(some.integers(-1, 300), max_size=9),
        }
    ),
    max_size=60,
)


def read_back(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of blocks as a reader of their text has them."""
    data = json.loads(text(made))
    return [row for block in data for row in rows(block, Budget(LARGE))]


@given(some.one_of(ROWS, LIKE_A_RUN), some.integers(1, 50))
def test_rows_come_back_as_they_were(given_rows: Any, size: int) -> None:
    made = list(blocks(given_rows, size=size))

    result = read_back(made)

    names = [
        {name for row in given_rows[at : at + size] for name in row}
        for at in range(0, len(given_rows), size)
    ]
    expected = [
        {name: row.get(name) for name in names[i // size]}
        for i, row in enumerate(given_rows)
    ]
    assert [{k: (type(v), v) for k, v in row.items()} for row in result] == [
        {k: (type(v), v) for k, v in row.items()} for row in expected if row
    ]


def test_calls_of_a_run_take_few_bytes() -> None:
    calls = [
        {
            "kind": ("decode", "compute", "input")[i % 3], "tid": 4711,
            "begin": 10**15 + 900_000 * i, "end": 10**15 + 900_000 * i + 77 * i,
            "context": None if i % 3 else 0x7F12_3456_7890, "bytes": 4096, "ubatch": i,
            "count": 1,
        }
        for i in range(3000)
    ]  # fmt: skip

    made = list(blocks(calls))

    assert read_back(made) == calls
    assert len(text(made)) < len(json.dumps(calls)) / 10


@pytest.mark.parametrize(
    "form",
    [
        None, 5, {}, [1, 2], {"values": [1]},
        {"values": [1], "index": [0, 0, 1]}, {"values": [1], "index": [0, 0, -1]},
        {"values": [1], "index": [0, 0, True]}, {"values": 1, "index": [0, 0, 0]},
        {"first": 1, "steps": [1, 1, 1]}, {"first": 1, "steps": [1, 0.5]},
        {"first": None, "steps": [1, 1]}, {"first": 1, "steps": {"all": "x"}},
        {"lengths": [1, 1, 1], "items": [1]}, {"lengths": [-1, 1, 1], "items": [1]},
        {"lengths": {"all": 1 << 40}, "items": {"all": 0}},
    ],
    ids=repr,
)  # fmt: skip
def test_column_that_cannot_be_is_refused(form: Any) -> None:
    with pytest.raises(ColumnError):
        values(form, 3, Budget(0))


def test_columns_within_columns_end_somewhere() -> None:
    form: Any = [0, 0, 0]
    for _ in range(50):
        form = {"values": [0], "index": form}

    with pytest.raises(ColumnError):
        values(form, 3, Budget(LARGE))


@pytest.mark.parametrize(
    "block",
    [
        {"rows": -1, "columns": {}}, {"rows": True, "columns": {}},
        {"rows": "3", "columns": {}}, {"rows": 3, "columns": []},
        {"rows": 1 << 40, "columns": {"a": {"all": 1}}},
        {"rows": 1, "columns": {"a": {"after": "b", "items": [1]}}},
        {"rows": 1, "columns": {"a": {"after": "a", "items": [1]}}},
        {"rows": 1, "columns": {"a": {"after": ["b"], "items": [1]}}},
        {"rows": 1, "columns": {"b": [None], "a": {"after": "b", "items": [1]}}},
    ],
    ids=repr,
)  # fmt: skip
def test_block_that_cannot_be_is_refused(block: Any) -> None:
    with pytest.raises(ColumnError):
        list(rows(block, Budget(0)))
