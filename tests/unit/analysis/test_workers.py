"""share_out: every piece once, errors and cancellation from any thread."""

import threading

import numpy as np
import pytest

from ggscope.analysis import workers
from ggscope.analysis.workers import add_by_group, count_values, share_out
from ggscope.errors import Cancelled
from watchers import CancelAfter

PIECES = [slice(i, i + 3) for i in range(0, 60, 3)]


@pytest.mark.parametrize("n", [1, 4])
def test_every_piece_is_done_once(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(workers, "n_workers", lambda: n)
    done: list[int] = []

    share_out(lambda _, rows: done.append(rows.start), PIECES)

    assert sorted(done) == [rows.start for rows in PIECES]


def test_no_pieces_is_no_work() -> None:
    share_out(lambda _, rows: pytest.fail("called"), [])


def test_calls_of_one_worker_do_not_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "n_workers", lambda: 3)
    owners: dict[int, set[int]] = {}

    def work(worker: int, _: slice) -> None:
        owners.setdefault(worker, set()).add(threading.get_ident())

    share_out(work, PIECES)

    assert set(owners) <= {0, 1, 2}
    assert all(len(threads) == 1 for threads in owners.values())


@pytest.mark.parametrize("n", [1, 2])
def test_error_in_a_piece_stops_the_rest(
    monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    monkeypatch.setattr(workers, "n_workers", lambda: n)

    def work(_: int, rows: slice) -> None:
        raise ValueError(str(rows.start))

    with pytest.raises(ValueError, match=r"\d"):
        share_out(work, PIECES)

    assert not any(t.name.startswith("ggscope-part") for t in threading.enumerate())


@pytest.mark.parametrize(("n", "k"), [(1, 0), (1, 5), (3, 0)])
def test_cancel_leaves_no_thread_behind(
    monkeypatch: pytest.MonkeyPatch, n: int, k: int
) -> None:
    monkeypatch.setattr(workers, "n_workers", lambda: n)

    with pytest.raises(Cancelled):
        share_out(lambda _, rows: None, PIECES, CancelAfter(k))

    assert not any(t.name.startswith("ggscope-part") for t in threading.enumerate())


def test_progress_counts_rows_from_what_was_done_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "n_workers", lambda: 1)
    seen = CancelAfter(1000)

    share_out(lambda _, rows: None, PIECES, seen, done=40, total=100)

    assert seen.reports[0] == (43, 100)
    assert seen.reports[-1] == (100, 100)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("has_gate", [False, True])
def test_values_are_counted_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, dtype: type, has_gate: bool
) -> None:
    monkeypatch.setattr(workers, "LOCKED_ROWS", 7)
    rng = np.random.default_rng(3)
    column = rng.integers(-2 if np.issubdtype(dtype, np.signedinteger) else 0, 9, 100)
    gate = rng.integers(-1, 3, 100).astype(np.int32) if has_gate else None

    counts = count_values(column.astype(dtype), 9, gate)

    shown = column if gate is None else column[gate >= 0]
    assert counts.tolist() == [shown.tolist().count(value) for value in range(9)]


def test_sums_by_group_are_exact_whatever_fits_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "LOCKED_ROWS", 3)
    values = [(1 << 61) + 1, 5, 7, (1 << 53) + 1, 0, 2, 1]
    group = [0, 1, 0, 2, 1, 2, 0]
    total = np.array([1, 0, 0, 4], np.int64)

    add_by_group(total, np.array(group), np.array(values))

    sums = [
        sum(v for v, g in zip(values, group, strict=True) if g == k) for k in (0, 1, 2)
    ]
    assert total.tolist() == [sums[0] + 1, sums[1], sums[2], 4]
