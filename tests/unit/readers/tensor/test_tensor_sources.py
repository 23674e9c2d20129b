"""Patterns: numbering by hash and by key, collisions, and where blocks meet."""

from pathlib import Path

import numpy as np
import pytest

from ggscope.errors import LimitExceededError
from ggscope.model.trace import Trace
from ggscope.native import library as compiled
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor import columns as tensor_ranges
from ggscope.readers.tensor import patterns as tensor_patterns
from ggscope.readers.tensor.columns import (
    cut_ranges,
    record_ranges,
    spread_records,
    word_blocks,
)
from ggscope.readers.tensor.layouts import LAYOUT_256
from ggscope.readers.tensor.patterns import (
    HashCollisionError,
    PatternNumbers,
    hash_factors,
    hash_name,
    merged,
)
from ggscope.readers.tensor.reader import TensorAccessReader
from tensor_files import Rec, encode, llama_trace


def words_of(n_passes: int) -> np.ndarray:
    data = encode(llama_trace(n_passes=n_passes), "256")
    return np.frombuffer(data, np.uint64).reshape(-1, 32)


def number(numbers: PatternNumbers, words: np.ndarray, first: int = 0) -> np.ndarray:
    return numbers.number(words, np.arange(first, first + len(words)))


def read(path: Path, **options: str) -> Trace:
    with Source(path) as source:
        return TensorAccessReader().read(source, ReadContext(options=options))


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the compiled kernel out."""
    monkeypatch.setattr(compiled, "is_wanted", lambda: False)


def test_numbers_repeat_with_the_passes() -> None:
    words = words_of(3)
    numbers = PatternNumbers(LAYOUT_256)

    ids = number(numbers, words)

    n = len(words) // 3
    assert len(np.unique(ids[:n])) == n
    assert np.array_equal(ids[:n], ids[n : 2 * n])
    assert numbers.first_record().tolist() == list(range(n))
    assert np.array_equal(numbers.exemplars(), words[:n])


def test_numbers_are_the_same_in_blocks() -> None:
    words = words_of(3)
    whole = number(PatternNumbers(LAYOUT_256), words)
    numbers = PatternNumbers(LAYOUT_256)

    parts = [number(numbers, words[i : i + 7]) for i in range(0, len(words), 7)]

    assert np.array_equal(np.concatenate(parts), whole)


def test_tables_of_two_readers_are_numbered_as_if_one_had_read() -> None:
    words = words_of(4)[20:]
    whole = number(PatternNumbers(LAYOUT_256), words)
    parts = [(0, 9), (9, 30), (30, 41), (41, len(words))]
    numbers = [PatternNumbers(LAYOUT_256), PatternNumbers(LAYOUT_256)]

    own = [number(numbers[k % 2], words[a:b], a) for k, (a, b) in enumerate(parts)]
    ids, exemplars = merged(
        [(n.exemplars(), n.first_record()) for n in numbers], LAYOUT_256
    )

    found = np.concatenate([ids[k % 2][part] for k, part in enumerate(own)])
    assert np.array_equal(found, whole)
    assert len(exemplars) == whole.max() + 1
    assert np.array_equal(number(PatternNumbers(LAYOUT_256), exemplars),
                          np.arange(len(exemplars)))  # fmt: skip


def weak_factors(up_to_seed: int, seeds: list[int]) -> object:
    """Return a stand-in for `hash_factors` that is useless up to a seed."""

    def weak(n_words: int, n_hashes: int, seed: int = 0) -> np.ndarray:
        factors = hash_factors(n_words, n_hashes, seed).copy()
        if n_hashes == 2:
            seeds.append(seed)
            factors[:, 0] *= seed > up_to_seed
        return factors

    return weak


def test_weak_hash_is_noticed_by_the_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tensor_patterns, "hash_factors", weak_factors(1, []))

    with pytest.raises(HashCollisionError):
        number(PatternNumbers(LAYOUT_256), words_of(1))


@pytest.mark.usefixtures("plain")
def test_collision_starts_anew_with_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))
    expected = read(path)
    seeds: list[int] = []

    monkeypatch.setattr(tensor_patterns, "hash_factors", weak_factors(2, seeds))
    found = read(path)

    assert seeds == [1, 2, 3]
    assert np.array_equal(found.accesses.pattern, expected.accesses.pattern)
    assert np.array_equal(found.spans.name, expected.spans.name)


@pytest.mark.usefixtures("plain")
def test_hashes_that_always_collide_are_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))
    monkeypatch.setattr(tensor_patterns, "hash_factors", weak_factors(99, []))

    with pytest.raises(AssertionError, match="collide"):
        read(path)


@pytest.mark.parametrize("is_native", [True, False])
def test_trace_that_never_repeats_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_native: bool
) -> None:
    monkeypatch.setattr(compiled, "is_wanted", lambda: is_native)
    monkeypatch.setattr(tensor_patterns, "MAX_PATTERNS", 1 << 13)
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
    words = np.zeros((256, 3), np.uint64)
    words.view(np.uint8).reshape(256, 24)[:, 0] = 65
    words.view(np.uint8).reshape(256, 24)[:, 7] = np.arange(256)

    assert len(np.unique(hash_name(words))) == 256


def test_blank_names_have_hash_zero() -> None:
    words = np.zeros((2, 3), np.uint64)
    words[1, 1] = 99

    assert hash_name(words).tolist() == [0, 0]


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
            (at, words[:, 0].tolist())
            for at, words in word_blocks(source, 256, [(3, 5), (90, 100)])
        ]

    assert rows == [(3, [3, 4]), (90, list(range(90, 100)))]


def test_bounds_skip_leading_and_trailing_zeros(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensor_ranges, "_PROBE_BYTES", 64)
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(1000) + b"x" + bytes(500) + b"y" + bytes(3000))
    with Source(path) as source:
        assert tensor_ranges.data_bounds(source, ReadContext()) == (1000, 1502)
