"""Patterns: numbering by hash and by key, collisions, and where blocks meet."""

from pathlib import Path

import numpy as np
import pytest

import oracles
from ggscope.errors import LimitExceededError
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor import columns, scan
from ggscope.readers.tensor.columns import (
    cut_ranges,
    record_ranges,
    spread_records,
    word_blocks,
)
from ggscope.readers.tensor.layouts import LAYOUT_256
from ggscope.readers.tensor.reader import TensorAccessReader
from ggscope.readers.tensor.scan import hash_name, merged
from oracles.tensor_blocks import PatternNumbers
from tensor_files import Rec, encode, llama_trace


def words_of(n_passes: int) -> np.ndarray:
    data = encode(llama_trace(n_passes=n_passes), "256")
    return np.frombuffer(data, np.uint64).reshape(-1, 32)


def number(numbers: PatternNumbers, array: np.ndarray, first: int = 0) -> np.ndarray:
    return numbers.number(array, np.arange(first, first + len(array)))


def read(path: Path, **options: str) -> Trace:
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext(options=options))


def test_numbers_repeat_with_the_passes() -> None:
    texts = words_of(3)
    numbers = PatternNumbers(LAYOUT_256)

    ids = number(numbers, texts)

    n = len(texts) // 3
    assert len(np.unique(ids[:n])) == n
    assert np.array_equal(ids[:n], ids[n : 2 * n])
    assert numbers.first_record().tolist() == list(range(n))
    assert np.array_equal(numbers.exemplars(), texts[:n])


def test_numbers_are_the_same_in_blocks() -> None:
    texts = words_of(3)
    whole = number(PatternNumbers(LAYOUT_256), texts)
    numbers = PatternNumbers(LAYOUT_256)

    parts = [number(numbers, texts[i : i + 7]) for i in range(0, len(texts), 7)]

    assert np.array_equal(np.concatenate(parts), whole)


def test_tables_of_two_readers_are_numbered_as_if_one_had_read() -> None:
    texts = words_of(4)[20:]
    whole = number(PatternNumbers(LAYOUT_256), texts)
    parts = [(0, 9), (9, 30), (30, 41), (41, len(texts))]
    numbers = [PatternNumbers(LAYOUT_256), PatternNumbers(LAYOUT_256)]

    own = [number(numbers[k % 2], texts[a:b], a) for k, (a, b) in enumerate(parts)]
    ids, exemplars = merged(
        [(n.exemplars(), n.first_record()) for n in numbers], LAYOUT_256
    )

    array = np.concatenate([ids[k % 2][part] for k, part in enumerate(own)])
    assert np.array_equal(array, whole)
    assert len(exemplars) == whole.max() + 1
    assert np.array_equal(number(PatternNumbers(LAYOUT_256), exemplars),
                          np.arange(len(exemplars)))  # fmt: skip


def test_equal_hashes_of_two_keys_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = words_of(2)[:40]
    strong, tried = scan.secret_factors, []

    def weak_at_first(n_words: int) -> np.ndarray:
        tried.append(n_words)
        return strong(n_words) * np.uint64(len(tried) > 2)

    monkeypatch.setattr(scan, "secret_factors", weak_at_first)
    record = np.arange(40)
    parts = [(texts[20:], record[20:]), (texts[:20], record[:20])]

    ids, exemplars = merged(parts, LAYOUT_256)

    assert len(tried) == 3
    expected = number(PatternNumbers(LAYOUT_256), texts)
    assert np.array_equal(np.concatenate(ids[::-1]), expected)
    assert len(exemplars) == expected.max() + 1


@pytest.mark.parametrize("is_native", [True, False])
def test_trace_that_never_repeats_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    if not is_native:
        oracles.tensor(monkeypatch)
    monkeypatch.setattr(scan, "MAX_PATTERNS", 1 << 13)
    path = tmp_path / "t.bin"
    records = [Rec(10**9 + k, f"n{k}", sources=()) for k in range((1 << 13) + 1)]
    path.write_bytes(encode(records, "256"))

    with pytest.raises(LimitExceededError) as caught:
        read(path)

    assert "names=sampled" in caught.value.hint
    assert len(read(path, names="none").spans) > 1 << 13
    path.write_bytes(encode(records[: (1 << 13) - 1], "256"))
    assert len(read(path).accesses.first) == 1 << 13


def test_names_that_differ_in_the_last_letter_differ_in_hash() -> None:
    array = np.zeros((256, 3), np.uint64)
    array.view(np.uint8).reshape(256, 24)[:, 0] = 65
    array.view(np.uint8).reshape(256, 24)[:, 7] = np.arange(256)

    assert len(np.unique(hash_name(array))) == 256


def test_blank_names_have_hash_zero() -> None:
    array = np.zeros((2, 3), np.uint64)
    array[1, 1] = 99

    assert hash_name(array).tolist() == [0, 0]


def test_ranges_are_cut_and_sampled_evenly() -> None:
    ranges = [(3, 10), (20, 40), (50, 51)]

    assert cut_ranges(ranges, 5, 25) == [(5, 10), (20, 25)]
    assert cut_ranges(ranges, 10, 20) == []
    assert spread_records(ranges, 100) == [*range(3, 10), *range(20, 40), 50]
    assert spread_records(ranges, 3) == [3, 26, 50]
    assert spread_records([], 3) == []


def test_ranges_of_touching_extents_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(range(1, 251)) * 50)
    with Source(path) as source:
        for extents, expected in (
            ([(0, 1000), (1000, 4096)], [(0, 16)]),
            ([(0, 1000), (8192, 12500)], [(0, 4), (32, 48)]),
            ([(0, 4096), (2048, 3000)], [(0, 16)]),
            ([(600, 900), (5000, 5001)], [(2, 4), (19, 20)]),
            ([(12499, 12500)], []),
        ):
            source.data_extents = lambda e=extents: e  # type: ignore[method-assign]
            assert record_ranges(source, 256, 0, 12500) == expected


def test_blocks_cover_the_ranges_once(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(np.repeat(np.arange(100, dtype=np.uint64), 32).tobytes())
    with Source(path) as source:
        rows = [
            (at, text[:, 0].tolist())
            for at, text in word_blocks(source, 256, [(3, 5), (90, 100)])
        ]

    assert rows == [(3, [3, 4]), (90, list(range(90, 100)))]


def test_bounds_skip_leading_and_trailing_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_PROBE_BYTES", 64)
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(1000) + b"x" + bytes(500) + b"y" + bytes(3000))
    with Source(path) as source:
        assert columns.data_bounds(source, ReadContext()) == (1000, 1502)
