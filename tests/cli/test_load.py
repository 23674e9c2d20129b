"""``ggscope load`` on storage traces, alone and with a map and a model."""

import json
from pathlib import Path

import pytest

import gguf_files
import storage_files
from storage_files import MODEL, Io, filefrag, random_io, random_reads


@pytest.fixture
def path(tmp_path) -> Path:
    requests = [
        Io(1000 + i * 16_600, 17_000 + i * 16_600, 300, 2_048_000 + 8 * i, 4096)
        for i in range(500)
    ]
    target = tmp_path / "x.txt"
    target.write_bytes(storage_files.blkparse(requests, partition=2048))
    return target


def test_json_has_figures_of_requests(run, path):
    value = json.loads(run("load", path, "--json").out)

    assert value["level"] == "device"
    assert value["levels"] == ["device"]
    assert (value["reads"], value["bytes"]) == (500, 500 * 4096)
    assert value["queue_depth"] == {"mean": 1.0, "max": 1, "share_at_1": 1.0}
    assert value["common_size"] == 4096
    assert value["latency"]["p50"] == 16_000
    assert value["queued_median"] == 300
    assert value["bytes_per_s"] == pytest.approx(
        500 * 4096 * 1e9 / (499 * 16_600 + 16_000)
    )
    assert value["sizes"] == [
        {"from": 4096, "to": 4096, "reads": 500, "bytes": 500 * 4096}
    ]
    assert value["causes"]["no_model"] == 500
    assert "one at a time" in " ".join(value["text"])


def test_text_answers_why_loading_takes_long(run, path):
    out = run("load", path).out

    assert "single small requests" in out
    assert "4.0 KiB" in out


def test_reads_of_a_model_lead_to_its_tensors(run, tmp_path):
    model = gguf_files.encode(data_bytes=1 << 20)
    (tmp_path / "tiny.gguf").write_bytes(model)
    blocks = -(-len(model) // 4096)
    data = filefrag([(0, 256_000, blocks)], size=len(model))
    (tmp_path / "map.txt").write_bytes(data)
    requests = random_io(1, 40, sizes=(4096,))
    (tmp_path / "blk.txt").write_bytes(storage_files.blkparse(requests))

    value = json.loads(run("load", tmp_path, "--json").out)

    (share, *_) = value["files"]
    assert share["name"] in (MODEL, None)
    inside = [
        io for io in requests
        if io.kind != "W" and 256_000 * 8 <= io.sector < (256_000 + blocks) * 8
    ]  # fmt: skip
    counts = {share["name"]: share["reads"] for share in value["files"]}
    assert counts[MODEL] == len(inside)
    assert value["causes"]["no_ops"] + value["causes"]["no_tensor"] == len(inside)
    assert sum(row["reads"] for row in value["tensors"]) >= value["causes"]["no_ops"]


def test_one_file_and_one_level_can_be_chosen(run, tmp_path):
    target = tmp_path / "s.txt"
    reads = random_reads(1, 60)
    target.write_bytes(storage_files.strace(reads))

    value = json.loads(
        run("load", target, "--level", "call", "--file", "tiny.gguf", "--json").out
    )

    assert value["reads"] == sum(read.path == MODEL for read in reads)
    assert value["mappings"] == 2
    for part in (("--level", "device"), ("--file", "no.gguf")):
        result = run("load", target, *part)
        assert result.code == 2
        assert "there are" in result.err


def test_a_trace_without_reads_is_refused(run, tmp_path):
    target = tmp_path / "m.txt"
    target.write_bytes(filefrag([(0, 9, 4)]))

    result = run("load", target)

    assert result.code == 2
    assert "no reads" in result.err


def test_limit_bounds_the_tables(run, path):
    value = json.loads(run("load", path, "--limit", "3", "--json").out)

    assert len(value["unattributed"]) == 3
