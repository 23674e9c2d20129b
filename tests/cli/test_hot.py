"""``ggscope hot`` and ``ggscope cache``: figures, JSON and sentences."""

import json

import pytest

import op_files
from ggscope.analysis.reads.what_if import what_if
from reads_builder import moe_reads
from tensor_files import Rec, Src, encode

MOE = "moe_reads()"


def test_bytes_of_accesses_without_a_size_are_unknown(run, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(op_files.hexagon(op_files.npu_ops(2)))

    text = run("hot", path).out
    value = json.loads(run("hot", path, "--json").out)["accesses"]["unknown"]
    listed = json.loads(run("tensors", path, "--json").out)

    assert "unknown 12 (size unknown)" in text
    assert " 0 B" not in text
    assert (value["count"], value["bytes"], value["without_size"]) == (12, None, 12)
    assert '"accessed_bytes": 0' not in json.dumps(listed)
    assert " 0 B" not in run("tensors", path).out


def test_hot_prints_facts_and_a_ranking(run, built):
    result = run("hot", built(MOE), "--limit", "2")

    assert result.code == 0
    assert "Never touched" in result.out
    assert "120 B (0.3 %) of 45.0 KiB" in result.out
    lines = result.out.splitlines()
    # Of the embeddings some rows are read; how long they are nobody says.
    assert lines[-2].startswith("output.weight")
    assert lines[-1].startswith("blk.0.attn_q.weight")
    assert "unknown" in result.out


def test_hot_json_holds_the_figures(run, built):
    result = run("hot", built(MOE), "--by", "layer", "--json")

    value = json.loads(result.out)
    assert value["never_touched"] == {
        "known": True, "untouched_units": 3, "untouched_bytes": 120,
        "units": 3, "bytes": 120, "all_units": 32, "all_bytes": 46120,
        "unknown_units": 0, "unknown_bytes": 0,
        "not_recorded_units": 0, "not_recorded_bytes": 0,
    }  # fmt: skip
    assert value["accesses"]["weights"]["count"] == 6 * (1 + 3 * 5 + 1)
    assert {row["key"] for row in value["rows"]} == {
        "layer 0", "layer 1", "layer 2", "no layer",
    }  # fmt: skip
    assert sum(row["accesses"] for row in value["rows"]) == 6 * (1 + 3 * 5 + 1)


def test_hot_of_a_range_counts_less(run, built):
    whole = json.loads(run("hot", built(MOE), "--json").out)
    part = json.loads(run("hot", built(MOE), "--json", "--range", "0:120").out)

    count = lambda value: sum(row["accesses"] for row in value["rows"])  # noqa: E731
    assert 0 < count(part) < count(whole)


def test_hot_of_a_trace_without_accesses_says_so(run, built):
    result = run("hot", built("nested_trace()"))

    assert result.code == 0
    assert "does not record which tensors" in result.out


def test_hot_ranks_nothing_where_no_access_leads_to_a_tensor(run, tmp_path):
    """Short records without a place: 0 accesses to every tensor would be a claim."""
    head = "tensor_name,file_offset,size_bytes,layer_id,component_type,n_dims,dim0"
    side = tmp_path / "map.csv"
    side.write_text(f"{head}\nblk.0.attn_q.weight,4096,1024,0,x,1,256\n")
    path = tmp_path / "trace.bin"
    source = Src("", 0x7F00_0000_1000, 1024, mem=0, where=0)
    records = [Rec(1000 + 10 * i, op=1, sources=(source,)) for i in range(20)]
    path.write_bytes(encode(records, "64p"))

    result = run("hot", str(path), "--with", str(side))

    assert result.code == 0
    assert "unknown" in result.out
    assert "blk.0.attn_q.weight" not in result.out


def test_cache_answers_for_the_sizes_asked_for(run, built):
    result = run("cache", built(MOE), "--cache-size", "20KiB", "--read-ahead", "2")

    read, _ = what_if(moe_reads()).curve.at(20 << 10)
    assert result.code == 0
    assert f"With 20.0 KiB of page cache this run reads {read / 1024:.1f} KiB" in (
        result.out
    )
    assert "Reading 2 tensors ahead" in result.out
    assert "row look-ups (GET_ROWS)" in result.err


def test_cache_prints_a_table_without_a_size(run, built):
    result = run("cache", built(MOE))

    lines = result.out.splitlines()
    assert len(lines) == 1 + 8 + 1
    assert lines[0].split()[:2] == ["page", "cache"]
    assert "first reads" in lines[-1]


def test_cache_json_names_the_experts_to_pin(run, built):
    command_result = run(
        "cache", built(MOE), "--cache-size", "64KiB", "--pin", "50", "--json"
    )

    value = json.loads(command_result.out)
    result = what_if(moe_reads())
    (one,) = value["answers"]
    assert value["bytes_asked"] == result.curve.bytes_asked
    assert one["cache_bytes"] == 65536
    assert one["read_bytes"] == one["optimum_bytes"] == result.working_set
    assert one["read_ahead"] is None
    assert one["pin"]["hit_share"] >= 0.5
    assert sum(s["size"] for s in one["pin"]["slices"]) == one["pin"]["bytes"]
    assert {s["expert"] for s in one["pin"]["slices"]} <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("6GiB", 6 << 30), ("512mib", 512 << 20), ("1.5 K", 1536), ("4096", 4096)],
)
def test_cache_size_takes_the_usual_words(run, built, text, expected):
    result = run("cache", built(MOE), "--cache-size", text, "--json")

    assert json.loads(result.out)["answers"][0]["cache_bytes"] == expected


@pytest.mark.parametrize("text", ["six", "-3", "1e400", "3 furlongs"])
def test_cache_size_that_is_none_is_refused(run, built, text):
    result = run("cache", built(MOE), f"--cache-size={text}")

    assert result.code == 2
    assert "is not a size" in result.err


@pytest.mark.parametrize(
    ("view", "call"),
    [
        ("heatmap", MOE),
        ("hot", MOE),
        ("cache", MOE),
        ("experts", MOE),
        ("buffers", "reference_buffers()"),
    ],
)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_export_writes_a_figure_of_every_view(run, built, tmp_path, view, call, suffix):
    target = tmp_path / f"figure{suffix}"

    result = run("export", built(call), "--view", view, "-o", str(target))

    assert result.code == 0, result.err
    data = target.read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")
    assert len(data) > 2000


def test_export_of_what_a_trace_does_not_have_says_so(run, built, tmp_path):
    target = tmp_path / "figure.png"

    result = run(
        "export", built("nested_trace()"), "--view", "cache", "-o", str(target)
    )

    assert result.code == 1
    assert "No accesses" in result.err
    assert not target.exists()
