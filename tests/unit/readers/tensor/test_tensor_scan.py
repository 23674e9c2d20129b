"""The compiled scan and its numpy twin, side by side, on good and hostile files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracles
from ggscope.errors import LimitExceededError
from ggscope.model.tables import U64
from ggscope.readers.api import Limits
from ggscope.readers.chunked import ChunkedOps, narrowest
from ggscope.readers.partial_reading import NAMES_CHOICES
from ggscope.readers.source import Source
from ggscope.readers.tensor import scan as tensor_scan
from ggscope.readers.tensor.columns import (
    Headers,
    Tally,
    TensorOptions,
)
from ggscope.readers.tensor.layouts import LAYOUTS as PRODUCT_LAYOUTS
from ggscope.readers.tensor.passes import lane_order
from ggscope.readers.tensor.scan import RecordScan
from ggscope.readers.tensor.trace import extended
from support import rewrite
from tensor_files import LAYOUTS, SIZES, Rec, encode, llama_trace, one_source_each

ONE_FOLDER = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


class Result:
    """All that a scan gives."""

    def __init__(self, scan: RecordScan) -> None:
        self.columns: Headers = scan.columns()
        self.tally: Tally = scan.tally
        self.threads = scan.threads
        self.ended_at = scan.ended_at
        self.n_done = scan.n_done
        first = int(np.argmin(self.columns.time)) if scan.n_rows else 0
        self.marks = scan.pass_marks(first)
        ids, self.exemplars = scan.patterns()
        self.pattern = (
            scan.spread([np.append(i, np.int32(-1)) for i in ids], np.int32)
            if self.columns.pattern is not None
            else None
        )


def scanned(
    path: Path,
    layout: str,
    *,
    names: str = "all",
    n_readers: int | None = None,
    ranges: list[tuple[int, int]] | None = None,
) -> Result:
    with Source(path) as source:
        whole = [(0, source.size // SIZES[layout])]
        options = TensorOptions(PRODUCT_LAYOUTS[layout], names)
        with RecordScan(
            source, options, ranges or whole, Limits(), ChunkedOps(lambda: None),
            n_readers=n_readers,
        ) as scan:  # fmt: skip
            while not scan.is_done:
                scan.step()
            return Result(scan)


def assert_same_result(a: Result, b: Result, layout: str) -> None:
    for name in ("time", "token", "layer", "thread", "op", "phase", "name_hash"):
        x, y = getattr(a.columns, name), getattr(b.columns, name)
        assert (x is None) == (y is None), name
        assert x is None or (x.dtype == y.dtype and np.array_equal(x, y)), name
    for x, y in (
        (a.columns.duration, b.columns.duration),
        (a.columns.record, b.columns.record),
        (a.pattern, b.pattern),
        (a.marks, b.marks),
    ):
        assert (x is None) == (y is None)
        assert x is None or np.array_equal(x, y)
    assert a.tally == b.tally
    assert (a.threads, a.ended_at, a.n_done) == (b.threads, b.ended_at, b.n_done)
    key = PRODUCT_LAYOUTS[layout].key
    assert np.array_equal(_keys(a.exemplars, key), _keys(b.exemplars, key))


def _keys(exemplars: U64, key: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(exemplars).view(np.uint8).reshape(-1, len(key))[:, key]


def records_of(layout: str, n_passes: int = 4) -> list[Rec]:
    records = [
        replace(r, thread=7 * (i % 3), duration=i % 5, experts=(1,) * (i % 2))
        for i, r in enumerate(llama_trace(n_passes=n_passes))
    ]
    return records if layout in ("256", "1024") else one_source_each(records)


@pytest.fixture
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every stretch some records long."""
    monkeypatch.setattr(tensor_scan, "STRETCH_BYTES", 3000)
    monkeypatch.setattr(tensor_scan, "_MAX_STRETCH_BYTES", 3000)


def both(
    path: Path, layout: str, monkeypatch: pytest.MonkeyPatch, names: str = "all"
) -> None:
    """Compare scans with one to three readers and the numpy twin."""
    with monkeypatch.context() as patch:
        oracles.tensor(patch)
        plain = scanned(path, layout, names=names)
    for n_readers in (1, 2, 3):
        result = scanned(path, layout, names=names, n_readers=n_readers)
        assert_same_result(result, plain, layout)


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("names", NAMES_CHOICES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_kernel_and_numpy_agree_on_a_good_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, names: str
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records_of(layout), layout))

    both(path, layout, monkeypatch, names)


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=st.data())
@ONE_FOLDER
def test_kernel_and_numpy_agree_on_damaged_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, data: st.DataObject
) -> None:
    raw = bytearray(encode(records_of(layout, 2), layout))
    size = SIZES[layout]
    for at in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=30)):
        raw[at] ^= data.draw(st.integers(1, 255))
    for record in data.draw(st.lists(st.integers(0, len(raw) // size - 1), max_size=8)):
        raw[record * size : (record + 1) * size] = bytes(size)
    for record in data.draw(st.lists(st.integers(0, len(raw) // size - 1), max_size=8)):
        # Op numbers of extension records, stamps that cannot be, wild threads.
        raw[record * size + data.draw(st.sampled_from([7, 14, 16]))] = 0xF0
    path = tmp_path / "t.bin"
    rewrite(path, bytes(raw))

    both(path, layout, monkeypatch, data.draw(st.sampled_from(NAMES_CHOICES)))


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("density", [0.03, 0.5, 1.0])
def test_kernel_and_numpy_agree_on_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, density: float
) -> None:
    rng = np.random.default_rng(3)
    noise = rng.integers(0, 256, 64 << 10, np.uint8)
    noise[rng.random(len(noise)) > density] = 0
    # Most random stamps are impossible; half of them are made plausible.
    noise.reshape(-1, SIZES[layout])[::2, 7] = 0
    path = tmp_path / "t.bin"
    path.write_bytes(noise.tobytes())

    both(path, layout, monkeypatch)


def test_tables_of_patterns_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [Rec(10**9 + k, f"n{k % 9000}") for k in range(10_000)]
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))

    both(path, "256", monkeypatch)

    assert len(scanned(path, "256").exemplars) == 9000


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("is_native", [True, False])
def test_only_the_ranges_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    records = records_of("256")
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))
    ranges = [(3, 40), (60, 62)]
    numbers = [*range(3, 40), *range(60, 62)]

    result = scanned(path, "256", ranges=ranges)

    assert result.columns.record is not None
    assert result.columns.record.tolist() == numbers
    assert result.columns.time.tolist() == [records[k].time for k in numbers]


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("n_left", [0, 5, 40, 41])
def test_file_cut_while_read_ends_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool, n_left: int
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    records = records_of("256")
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "256"))
    with Source(path) as source:
        ranges = [(0, len(records))]
        options = TensorOptions(PRODUCT_LAYOUTS["256"])
        with RecordScan(
            source, options, ranges, Limits(), ChunkedOps(lambda: None)
        ) as scan:
            rewrite(path, path.read_bytes()[: n_left * 256 + 100])
            while not scan.is_done:
                scan.step()
            result = Result(scan)

    assert result.ended_at == n_left
    assert result.columns.time.tolist() == [r.time for r in records[:n_left]]


def test_scan_reports_a_closed_file(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records_of("256"), "256"))
    source = Source(path)
    options = TensorOptions(PRODUCT_LAYOUTS["256"])

    with RecordScan(
        source, options, [(0, 9)], Limits(), ChunkedOps(lambda: None)
    ) as scan:
        source.close()
        with pytest.raises(Exception, match="reading failed"):
            scan.step()


@pytest.mark.parametrize("limits", [Limits(records=8), Limits(memory_bytes=300)])
def test_too_many_records_are_refused_with_the_way_out(
    tmp_path: Path, limits: Limits
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records_of("256"), "256"))
    with Source(path) as source, pytest.raises(LimitExceededError) as caught:
        RecordScan(
            source,
            TensorOptions(PRODUCT_LAYOUTS["256"]),
            [(0, 9)],
            limits,
            ChunkedOps(list),
        )

    assert "range=" in caught.value.hint


def test_stretches_grow_while_they_are_quick(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records_of("256"), "256"))
    with (
        Source(path) as source,
        RecordScan(
            source,
            TensorOptions(PRODUCT_LAYOUTS["256"]),
            [(0, 9)],
            Limits(),
            ChunkedOps(list),
        ) as scan,
    ):
        before = scan.stretch
        scan.adapt(0.001)
        grown = scan.stretch
        scan.adapt(0.015)
        entries = scan.stretch
        scan.adapt(0.9)

    assert (grown, entries, scan.stretch) == (2 * before, 2 * before, before)


def orders(work: ChunkedOps, thread: Sequence[int], ids: list[int]) -> list[list[int]]:
    lane_first, order = lane_order(work, np.array(thread, np.uint16), ids)
    return [
        lane_first.tolist(),
        list(range(len(thread))) if order is None else order.tolist(),
    ]


@given(thread=st.lists(st.sampled_from([5, 9, 0, 65535]), max_size=60))
@settings(deadline=None)
def test_lane_order_is_a_stable_sort_by_lane(thread: list[int]) -> None:
    ids = list(dict.fromkeys(thread))
    lane = [ids.index(t) for t in thread]
    expected = sorted(range(len(thread)), key=lambda k: lane[k])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ggscope.readers.chunked._CHUNK_ROWS", 7)

        result = orders(ChunkedOps(lambda: None), thread, ids)

    assert result[1] == expected
    assert result[0][0] == 0
    assert result[0][-1] == len(thread)


@pytest.mark.parametrize("given_type", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("is_unsigned", [False, True])
def test_columns_taken_narrow_are_equal(given_type: type, is_unsigned: bool) -> None:
    dtype = np.dtype(given_type)
    if is_unsigned:
        dtype = np.dtype(f"u{dtype.itemsize}")
    rng = np.random.default_rng(1)
    order = rng.permutation(500).astype(np.int32)
    work = ChunkedOps(lambda: None)

    for bits in range(1, 8 * dtype.itemsize - 1):
        column = rng.integers(0, 1 << bits, 500).astype(dtype)
        result = work.take_narrow(column, order)
        assert result.dtype == narrowest(column)
        assert np.array_equal(result, column[order])
        assert np.array_equal(work.take_narrow(column, None), column)


def test_columns_without_room_are_extended_by_a_copy() -> None:
    column = np.arange(4, dtype=np.int8)

    in_place = extended(column, 2, np.array([7]), np.array([8]))
    copied = extended(column, 4, np.array([7], np.int64))

    assert in_place.base is column
    assert in_place.tolist() == [0, 1, 7, 8]
    assert copied.tolist() == [0, 1, 7, 8, 7]
    assert copied.dtype == np.int8


def test_holes_behind_the_end_of_a_file_are_not_counted() -> None:
    tally = Tally()

    tally.note_holes([(2, 5), (8, 9), (20, 30)], 0, 8)

    assert (tally.n_empty, tally.first_empty) == (5, 0)
