"""The table of strings: ids that stay, and names that need no looking up yet."""

import threading

import numpy as np
import pytest

from ggscope.model.tables import StringTable


def filled(n: int = 3 << 12) -> StringTable:
    table = StringTable()
    ids = table.add_distinct([f"blk-{i}" for i in range(n)])
    assert ids.tolist() == list(range(n))
    return table


def test_names_known_to_be_distinct_are_found_like_others():
    table = filled()
    n = len(table)

    assert table.find("blk-5") == 5
    assert table.find("nothing") == -1
    assert table.intern("blk-7") == 7
    assert table.intern("new") == n
    assert table.find("new") == n
    assert table[n] == "new"
    assert len(table) == n + 1


@pytest.mark.parametrize("n_walks", [0, 1, 24])
def test_many_questions_are_answered_the_same_as_few(n_walks):
    table = filled()
    n = len(table)
    queries = [f"blk-{i * 3}" for i in range(n_walks)]

    assert [table.find(text) for text in queries] == [3 * i for i in range(n_walks)]
    result = table.intern_many(["blk-1", "x", "blk-2", "x", "y"])
    assert result.tolist() == [1, n, 2, n, n + 1]
    assert table.texts()[n:] == ["x", "y"]


def test_names_are_added_to_a_table_that_has_some():
    table = StringTable(["b"])

    assert table.add_distinct(["a", "b", "c"]).tolist() == [1, 0, 2]
    assert table.texts() == ["b", "a", "c"]


def test_two_threads_may_ask_first_at_once():
    table = filled()
    items: list[np.ndarray] = []
    expected = [f"blk-{i}" for i in range(len(table))]

    def ask() -> None:
        items.append(table.intern_many(expected))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all((ids == np.arange(len(expected))).all() for ids in items)
    assert len(table) == len(expected)


def test_a_released_index_is_made_again():
    n = 20_000
    table = StringTable(f"name {i}" for i in range(n))

    table.release()

    assert [table.find(f"name {i}") for i in (0, 7, n - 1)] == [0, 7, n - 1]
    assert table.find("nothing") == -1
    assert table.intern("new") == n
    assert table.intern_many(["name 3", "newer", "new"]).tolist() == [3, n + 1, n]
    assert [table.find(f"name {i}") for i in range(99)] == list(range(99))
