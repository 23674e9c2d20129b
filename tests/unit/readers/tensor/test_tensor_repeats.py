"""An op that several threads record counts once, whatever they lose of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.reads.hotness import heat
from ggscope.analysis.statistics.table import stat_table
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor import repeats
from ggscope.readers.tensor.reader import TensorAccessReader
from tensor_files import Rec, encode, llama_trace

RECORDS = llama_trace(n_passes=4, n_layers=6)


def read(tmp_path: Path, records: list[Rec]) -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext())


def on_threads(n: int, late: int = 40, records: list[Rec] = RECORDS) -> list[Rec]:
    """Return the records of `n` threads that compute every op together.

    Each thread's part of the file follows that of the thread before, as threads
    flush; it records an op up to `late` ns after the first one.
    """
    rng = np.random.default_rng(n)
    delay = rng.integers(0, late + 1, (n, len(records)))
    return [
        replace(r, thread=100 + k, time=r.time + int(delay[k, i]))
        for k in range(n)
        for i, r in enumerate(records)
    ]


def n_repeated(trace: Trace) -> int:
    return int(np.count_nonzero(trace.spans.flags & SpanFlag.REPEATED))


def weight_totals(trace: Trace) -> tuple[int, int]:
    """Return (accesses, bytes) of all tensors together."""
    result = heat(trace)
    return int(result.accesses.sum()), int(result.bytes_read.sum())


@pytest.mark.parametrize("n", [2, 3, 8])
def test_ops_that_threads_share_count_once(tmp_path: Path, n: int) -> None:
    one = read(tmp_path, RECORDS)

    trace = read(tmp_path, on_threads(n))

    assert n_repeated(one) == 0
    assert n_repeated(trace) == (n - 1) * len(RECORDS)
    assert weight_totals(trace) == weight_totals(one)
    for by in ("op", "tensor", "layer", "token"):
        table, alone = stat_table(trace, by), stat_table(one, by)
        assert (table.all.bytes, table.all.ops) == (alone.all.bytes, alone.all.count)
        assert table.all.count == n * alone.all.count
        keys = {row.key: (row.bytes, row.ops) for row in alone.rows}
        assert {row.key: (row.bytes, row.ops) for row in table.rows} == keys
    (note,) = [w for w in trace.warnings if w.code == "shared_ops"]
    assert note.count == n_repeated(trace)


def test_bytes_of_each_thread_are_not_known_where_they_share_ops(
    tmp_path: Path,
) -> None:
    table = stat_table(read(tmp_path, on_threads(2)), "thread")
    alone = stat_table(read(tmp_path, RECORDS), "thread")

    assert [(row.bytes, row.ops) for row in table.rows] == [(-1, len(RECORDS))] * 2
    assert table.all.bytes == alone.rows[0].bytes == alone.all.bytes > 0


def test_thread_time_is_of_all_threads_and_wall_time_of_the_clock(
    tmp_path: Path,
) -> None:
    one = stat_table(read(tmp_path, RECORDS), "op").all

    both = stat_table(read(tmp_path, on_threads(2, late=0)), "op").all

    assert (both.total, both.wall) == (2 * one.total, one.wall)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_lost_records_change_nothing_that_another_thread_shows(
    tmp_path: Path, share: float
) -> None:
    rng = np.random.default_rng(7)
    records = on_threads(3)
    n = len(RECORDS)
    is_match = rng.random(len(records)) >= share
    # Of every op some record is left.
    is_match[rng.integers(0, 3, n) * n + np.arange(n)] = True

    trace = read(
        tmp_path, [r for r, keep in zip(records, is_match, strict=True) if keep]
    )

    assert weight_totals(trace) == weight_totals(read(tmp_path, RECORDS))


def test_equal_stamps_are_distinguished_by_what_they_touch(tmp_path: Path) -> None:
    coarse = [replace(r, time=r.time // 4000 * 4000) for r in on_threads(2, late=0)]

    trace = read(tmp_path, coarse)

    assert weight_totals(trace) == weight_totals(read(tmp_path, RECORDS))


def test_two_models_side_by_side_share_nothing(tmp_path: Path) -> None:
    other = [replace(r, thread=7, time=r.time + 21_700) for r in RECORDS]

    trace = read(tmp_path, [*RECORDS, *other])

    assert n_repeated(trace) == 0
    once, twice = weight_totals(read(tmp_path, RECORDS)), weight_totals(trace)
    assert twice == (2 * once[0], 2 * once[1])


def test_a_thread_that_does_other_ops_keeps_them(tmp_path: Path) -> None:
    others = [replace(r, thread=7, dst=r.dst + "x") for r in RECORDS]

    assert n_repeated(read(tmp_path, [*RECORDS, *others])) == 0


def unlike(n_threads: int, n_each: int = 2) -> list[Rec]:
    """Return records of threads of which each does other ops than all others."""
    return [
        Rec(1000 * (k * n_threads + thread), f"x{thread}-{k}", thread=thread)
        for k in range(n_each)
        for thread in range(n_threads)
    ]


@pytest.mark.parametrize(("n_threads", "n_apart"), [(40, 0), (900, None), (1100, 1100)])
def test_threads_that_share_nothing_are_compared_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_threads: int, n_apart: int | None
) -> None:
    looked: list[int] = []
    look = repeats._shared
    monkeypatch.setattr(repeats, "_shared", lambda *a: looked.append(1) or look(*a))

    trace = read(tmp_path, unlike(n_threads))

    notes = [w for w in trace.warnings if w.code == "threads_not_compared"]
    assert n_repeated(trace) == 0
    assert len(looked) < 10_000
    if n_apart is None:
        (note,) = notes
        assert 700 < note.count < 900
    else:
        assert [w.count for w in notes] == ([n_apart] if n_apart else [])


def test_many_threads_that_compute_together_are_all_compared(tmp_path: Path) -> None:
    trace = read(tmp_path, on_threads(300))

    assert n_repeated(trace) == 299 * len(RECORDS)
    assert "threads_not_compared" not in {w.code for w in trace.warnings}
