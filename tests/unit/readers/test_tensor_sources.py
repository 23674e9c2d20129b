"""Patterns: numbering by hash, collisions, and where blocks meet."""

from pathlib import Path

import numpy as np
import pytest

from ggscope.model.ggml import table
from ggscope.model.strings import StringTable
from ggscope.readers import tensor_scan, tensor_sources
from ggscope.readers.api import ReadContext
from ggscope.readers.records import LAYOUT_256
from ggscope.readers.source import Source
from ggscope.readers.tensor_names import PatternDecoder
from ggscope.readers.tensor_scan import hash_factors, record_ranges, word_blocks
from ggscope.readers.tensor_sources import (
    HashCollisionError,
    PatternNumbers,
    Patterns,
    read_patterns,
)
from tensor_files import encode, llama_trace


def words_of(n_passes: int) -> np.ndarray:
    data = encode(llama_trace(n_passes=n_passes), "256")
    return np.frombuffer(data, np.uint64).reshape(-1, 32)


def patterns(path: Path) -> Patterns:
    with Source(path) as source:
        ranges = record_ranges(source, 256, 0, source.size)
        n = source.size // 256
        return read_patterns(
            source,
            LAYOUT_256,
            ranges,
            np.arange(n, dtype=np.int32),
            lambda: PatternDecoder(
                LAYOUT_256, StringTable(), table("ggml-2025-11-25-95")
            ),
            lambda done: None,
        )


def test_numbers_repeat_with_the_passes() -> None:
    words = words_of(3)

    ids, fresh = PatternNumbers(LAYOUT_256).number(words)

    n = len(words) // 3
    assert len(np.unique(ids[:n])) == n
    assert np.array_equal(ids[:n], ids[n : 2 * n])
    assert fresh.tolist() == list(range(n))


def test_numbers_are_the_same_in_blocks() -> None:
    words = words_of(3)
    whole, _ = PatternNumbers(LAYOUT_256).number(words)
    numbers = PatternNumbers(LAYOUT_256)

    parts = [numbers.number(words[i : i + 7])[0] for i in range(0, len(words), 7)]

    assert np.array_equal(np.concatenate(parts), whole)


def test_weak_hash_is_noticed_by_the_second_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def weak(n_words: int, n_hashes: int, seed: int = 0) -> np.ndarray:
        factors = hash_factors(n_words, n_hashes, seed).copy()
        if seed == 1:
            factors[:, 0] = 0
        return factors

    monkeypatch.setattr(tensor_sources, "hash_factors", weak)

    with pytest.raises(HashCollisionError):
        PatternNumbers(LAYOUT_256).number(words_of(1))


def test_collision_starts_anew_with_another_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))
    expected = patterns(path)
    seeds: list[int] = []

    def weak(n_words: int, n_hashes: int, seed: int = 0) -> np.ndarray:
        seeds.append(seed)
        factors = hash_factors(n_words, n_hashes, seed).copy()
        if seed <= 2:
            factors[:, 0] = 0
        return factors

    monkeypatch.setattr(tensor_sources, "hash_factors", weak)
    found = patterns(path)

    assert seeds == [1, 2, 3]
    assert np.array_equal(found.of_record, expected.of_record)
    assert np.array_equal(found.columns.tensor, expected.columns.tensor)


def test_hashes_that_always_collide_are_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(), "256"))

    def useless(n_words: int, n_hashes: int, seed: int = 0) -> np.ndarray:
        factors = hash_factors(n_words, n_hashes, seed).copy()
        factors[:, 0] = 0
        return factors

    monkeypatch.setattr(tensor_sources, "hash_factors", useless)

    with pytest.raises(AssertionError, match="collide"):
        patterns(path)


def test_names_that_differ_in_the_last_letter_differ_in_hash() -> None:
    words = np.zeros((256, 3), np.uint64)
    words.view(np.uint8).reshape(256, 24)[:, 7] = np.arange(256)

    assert len(np.unique(tensor_scan.hash_name(words))) == 256


def test_small_blocks_give_the_same_patterns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(encode(llama_trace(n_passes=9), "256"))
    expected = patterns(path)

    monkeypatch.setattr(tensor_scan, "SCAN_BYTES", 1024)

    assert np.array_equal(patterns(path).of_record, expected.of_record)


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
    monkeypatch.setattr(tensor_scan, "_PROBE_BYTES", 64)
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(1000) + b"x" + bytes(500) + b"y" + bytes(3000))
    with Source(path) as source:
        assert tensor_scan.data_bounds(source, ReadContext()) == (1000, 1502)
