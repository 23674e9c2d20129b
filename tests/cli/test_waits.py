"""What the command line says of the waits of a recording."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import recordings
from recordings import N_THREADS
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"


def of_bytes(path: Path) -> dict[int, int]:
    """Return the sum of the waits of each thread, read from the file itself."""
    rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 256)
    wait = np.ascontiguousarray(rows[:, 96:100]).view("<u4").ravel().astype(np.int64)
    thread = np.ascontiguousarray(rows[:, 14:16]).view("<u2").ravel()
    return {i: int(wait[thread == i].sum()) for i in np.unique(thread).tolist()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    recording_location = recordings.recording(tmp_path)
    data = bytearray(recording_location.read_bytes())
    for i in range(len(data) // 256):
        data[i * 256 + 96 : i * 256 + 100] = (11 * i).to_bytes(4, "little")
    recording_location.write_bytes(data)
    return recording_location


@pytest.mark.parametrize("by", ["thread", "op", "layer", "token", "phase", "lane"])
def test_waits_of_all_groups_are_those_of_the_bytes(run, path, by):
    result = run("stats", path, "--by", by, "--json")

    rows = json.loads(result.out)["rows"]
    assert result.code == 0
    assert sum(row["wait_ns"] or 0 for row in rows) == sum(of_bytes(path).values())
    assert sum(row["wait_share"] or 0 for row in rows) == pytest.approx(1)
    for row in rows:
        if row["waits"]:
            assert row["wait_mean"] == row["wait_ns"] / row["waits"]
            whole = row["wait_ns"] + row["total_ns"]
            assert row["waiting"] == row["wait_ns"] / whole


def test_waits_of_threads_are_those_of_their_records(run, path):
    out = run("stats", path, "--by", "thread", "--json").out

    rows = json.loads(out)["rows"]
    own = [row["wait_ns"] for row in rows if row["waits"]]
    assert sorted(own) == sorted(of_bytes(path).values())
    assert len(own) == N_THREADS


def test_table_for_people_has_waits_only_where_they_are_recorded(run, path, tmp_path):
    with_waits = run("stats", path, "--by", "thread").out
    without = run("stats", SAMPLE, "--by", "op").out

    head = with_waits.splitlines()[0]
    assert head.index("wait") < head.index("waiting")
    assert "wait" not in without


def test_csv_has_the_same_columns_with_and_without_waits(run, path):
    out = run("stats", path, "--by", "thread", "--format", "csv").out
    other = run("stats", SAMPLE, "--by", "op", "--format", "csv").out

    head, first, *_ = csv.reader(io.StringIO(out))
    bare, empty, *_ = csv.reader(io.StringIO(other))
    assert head == bare
    assert int(first[head.index("wait_ns")]) > 0
    assert empty[head.index("wait_ns")] == ""
