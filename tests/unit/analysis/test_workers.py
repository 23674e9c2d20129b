"""share_out: every piece once, errors and cancellation from any thread."""

import threading

import pytest

from ggscope.analysis import workers
from ggscope.analysis.workers import share_out
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
