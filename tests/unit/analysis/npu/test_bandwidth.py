"""Bandwidth over windows against a look at every window."""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.npu.bandwidth import Bandwidth, bandwidth
from npu_files import document, engine, read_text, sample

PEAK = {"memory": {"dram_peak_bw_bytes_per_cycle": 64}}


def of_samples(folder: Path, *samples: object, peak: bool = True) -> Bandwidth:
    """Return the bandwidth of a file with these samples."""
    values = document(
        engine(0, 400),
        bandwidth_samples=list(samples),
        config_snapshot=PEAK if peak else {},
    )
    return bandwidth(read_text(folder, json.dumps(values)))


def test_channels_are_bytes_per_cycle(tmp_path: Path) -> None:
    stats = of_samples(
        tmp_path,
        sample(0, dram_read_bytes=4096, dram_write_bytes=1024),
        sample(64, dram_read_bytes=None, dram_write_bytes=64, kv_bytes=128),
    )

    rates = {c.name: c.rate.tolist() for c in stats.channels}
    assert rates["read"][0] == 64
    assert math.isnan(rates["read"][1])
    assert rates["write"] == [16, 1]
    assert rates["total"] == [80, 1]
    assert rates["KV cache"][1] == 2
    assert math.isnan(rates["KV cache"][0])
    assert stats.top == 80


def test_windows_above_threshold_and_peak_are_found(tmp_path: Path) -> None:
    """(4096 + 1024) / 64 / 64 is 1.25 of the peak."""
    stats = of_samples(
        tmp_path,
        sample(0, dram_read_bytes=4096, dram_write_bytes=1024),
        sample(64, dram_read_bytes=3300, dram_write_bytes=0),
        sample(128, dram_read_bytes=3276, dram_write_bytes=0),
        sample(192, dram_read_bytes=4096, dram_write_bytes=0),
    )

    assert stats.over_peak().tolist() == [0]
    assert stats.high().tolist() == [0, 1, 3]


def test_nothing_is_high_without_a_peak(tmp_path: Path) -> None:
    stats = of_samples(tmp_path, sample(0, dram_read_bytes=10**9), peak=False)

    assert stats.peak is None
    assert len(stats.high()) == len(stats.over_peak()) == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("n_columns", [1, 9, 120])
def test_columns_have_the_highest_window_in_them(
    tmp_path: Path, seed: int, n_columns: int
) -> None:
    chance = np.random.default_rng(seed)
    samples = [
        sample(
            int(chance.integers(0, 300)),
            window_cycles=int(chance.integers(1, 80)),
            dram_read_bytes=int(chance.integers(0, 999)) if chance.random() < 0.8
            else None,
        )
        for _ in range(int(chance.integers(1, 20)))
    ]  # fmt: skip
    stats = of_samples(tmp_path, *samples)
    edges = np.unique(np.linspace(-10, 420, n_columns + 1).astype(np.int64))

    columns = stats.columns("read", edges[:-1], edges[1:])

    for i, (low, high) in enumerate(pairwise(edges.tolist())):
        inside = [
            int(str(s["dram_read_bytes"])) / int(str(s["window_cycles"]))
            for s in samples
            if s["dram_read_bytes"] is not None
            and int(str(s["cycle"])) < high
            and int(str(s["cycle"])) + int(str(s["window_cycles"])) > low
        ]
        if inside:
            assert columns[i] == max(inside)
        else:
            assert math.isnan(columns[i])


def test_overlapping_windows_are_counted(tmp_path: Path) -> None:
    stats = of_samples(tmp_path, sample(0), sample(32), sample(96), sample(96))

    assert stats.n_overlapping == 2
    assert stats.at(100).tolist() == [2, 3]


def test_file_without_samples_has_no_windows(tmp_path: Path) -> None:
    stats = of_samples(tmp_path)

    assert len(stats) == 0
    assert stats.channels == ()
    assert np.isnan(stats.columns("read", np.array([0]), np.array([9]))).all()
