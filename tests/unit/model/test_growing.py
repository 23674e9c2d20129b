"""Columns that grow: how much room they get, and that nothing seen changes."""

import numpy as np
import pytest

from ggscope.model import growing
from ggscope.model.growing import Growing


def grown_to(n: int, step: int = 997) -> tuple[Growing, int]:
    """Return a column of 0, 1, 2 … and how often it went on in another array."""
    column, n_moves = Growing(np.int32), 0
    for first in range(0, n, step):
        before = column.view().base
        column.append(np.arange(first, min(first + step, n), dtype=np.int32))
        n_moves += column.view().base is not before
    assert np.array_equal(column.view(), np.arange(n))
    return column, n_moves


def test_long_column_is_copied_once_for_many_times_as_many_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growing, "_MANY", 1 << 12)
    monkeypatch.setattr(growing, "_WIDE", 64)

    # Room for 1,024 to 1,984 rows, twice and four times that, then 64 times that.
    _, n_moves = grown_to(1 << 17)

    assert n_moves in (2, 3)


def test_column_grows_where_the_system_promises_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growing, "_MANY", 1 << 12)
    monkeypatch.setattr(growing, "_WIDE", 1 << 46)

    _, n_moves = grown_to(1 << 15)

    assert n_moves > 3


def test_what_was_shown_stays_while_rows_are_put_anew() -> None:
    column, _ = grown_to(5000)
    seen = column.view()

    column.put(100, np.zeros(10, np.int32))

    assert np.array_equal(seen, np.arange(5000))
    assert column.view().tolist() == [*range(100), *[0] * 10]
