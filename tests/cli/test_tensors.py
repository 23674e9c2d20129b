"""``ggscope tensors``: tensors and totals of a model, and what a trace does with it."""

import json

import pytest

import imatrix_files
from gguf_files import FIELDS, TENSORS, T, encode

BY_NAME = {tensor.name: tensor for tensor in TENSORS}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.write_bytes(encode())
    return path


def test_json_has_each_tensor_as_the_file_states_it(run, model):
    result = run("tensors", model, "--json")

    data = json.loads(result.out)
    assert result.code == 0
    assert [row["name"] for row in data["rows"]] == list(BY_NAME)
    start = data["files"][0]["data_offset"]
    for row in data["rows"]:
        tensor = BY_NAME[row["name"]]
        n = 1
        for size in tensor.shape:
            n *= size
        assert (row["size"], row["elements"]) == (tensor.size, n)
        assert row["shape"] == list(tensor.shape)
        assert row["bits"] == 8 * tensor.size / n
        assert row["offset"] >= start
        assert row["accesses"] is row["total_ns"] is None
    assert data["total"]["tensors"] == len(TENSORS)
    assert data["total"]["size"] == sum(tensor.size for tensor in TENSORS)


@pytest.mark.parametrize("by", ["layer", "component", "name", "type", "file"])
def test_totals_of_groups_add_up_to_all(run, model, by):
    data = json.loads(run("tensors", model, "--by", by, "--json").out)

    for key in ("tensors", "elements", "size"):
        assert sum(row[key] for row in data["rows"]) == data["total"][key]
    lines = run("tensors", model, "--by", by).out.splitlines()
    for row in data["rows"]:
        assert any(line.startswith(row["name"]) for line in lines)


def test_find_and_sort_and_limit(run, model):
    data = json.loads(run("tensors", model, "--find", "/^blk/", "--sort", "size",
                           "--limit", 2, "--json").out)  # fmt: skip

    expected = [t for t in TENSORS if t.name.startswith("blk")]
    assert data["matched"] == len(expected)
    sizes = sorted((t.size for t in expected), reverse=True)[:2]
    assert [row["size"] for row in data["rows"]] == sizes
    text = run("tensors", model, "--find", "/^blk/", "--limit", 2).out
    assert f"{len(expected) - 2} more" in text
    assert "No tensor matches." in run("tensors", model, "--find", "nothing").out
    assert run("tensors", model, "--find", "/(/").code != 0


def test_metadata_is_listed_where_asked_for(run, model):
    text = run("tensors", model, "--metadata").out
    data = json.loads(run("tensors", model, "--metadata", "--json").out)

    assert set(FIELDS) <= set(data["metadata"]["tiny.gguf"])
    for key in FIELDS:
        assert key in text
    assert "metadata" not in json.loads(run("tensors", model, "--json").out)


@pytest.mark.parametrize("code", ["moe_reads()", "llama_like_trace()"])
def test_trace_shows_accesses_and_time(run, built, code):
    path = built(code)
    data = json.loads(run("tensors", path, "--json").out)
    stats = json.loads(run("stats", path, "--by", "tensor", "--format", "json").out)

    times = {row["key"]: row["total_ns"] for row in stats["rows"]}
    ticks: dict[str, int] = {}
    for row in data["rows"]:
        ticks[row["name"]] = ticks.get(row["name"], 0) + row["total_ns"]
    assert any(ticks.values())
    for name, total in ticks.items():
        assert times.get(name, 0) == total


def test_trace_without_tensors_says_how_to_add_some(run, built):
    result = run("tensors", built("empty_trace()"))

    assert result.code == 2
    assert "--gguf" in result.err


def test_cut_and_foreign_files_say_so(run, model, tmp_path):
    whole = model.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(whole[: len(whole) - 9000])
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"no model at all, " * 100)
    headless = tmp_path / "headless.gguf"
    headless.write_bytes(whole[:20])

    assert run("tensors", cut).code == 0
    assert "gguf_data_missing" in run("check", cut).out
    assert run("tensors", foreign).code == 3
    result = run("tensors", headless)
    assert result.code == 1
    assert "GGUF" in result.err


def test_parts_of_a_split_model_are_one_and_a_missing_one_is_named(run, tmp_path):
    for part in (1, 2):
        tensors = [T(f"blk.{part}.attn_q.weight")]
        data = encode(tensors, {"split.no": (2, part - 1), "split.count": (2, 3)})
        (tmp_path / f"m-0000{part}-of-00003.gguf").write_bytes(data)
    path = tmp_path / "m-00002-of-00003.gguf"

    result = json.loads(run("tensors", path, "--by", "file", "--json").out)

    assert [row["name"] for row in result["rows"]] == [
        "m-00001-of-00003.gguf", "m-00002-of-00003.gguf"
    ]  # fmt: skip
    assert result["total"]["tensors"] == 2
    assert "m-00003-of-00003.gguf" in run("check", path).out


def test_an_importance_matrix_alone_is_listed_by_importance(run, tmp_path):
    path = tmp_path / "x.imatrix"
    some = imatrix_files.entries()
    path.write_bytes(imatrix_files.gguf(some))

    rows = json.loads(run("tensors", path, "--sort", "importance", "--json").out)[
        "rows"
    ]

    assert {row["name"] for row in rows} == {entry.name for entry in some}
    values = [row["importance"] for row in rows if row["importance"] is not None]
    assert values == sorted(values, reverse=True)
    tokens = {row["name"]: row["imatrix_tokens"] for row in rows}
    assert tokens == {entry.name: int(entry.counts.sum()) for entry in some}
    assert {row["size"] for row in rows} == {None}


@pytest.mark.parametrize("arguments", [(), ("--by", "layer")])
def test_importance_is_no_order_without_a_matrix(run, model, arguments):
    assert run("tensors", model, "--sort", "importance", *arguments).code != 0
