"""``ggscope info`` on model files and maps: the model section, JSON and text."""

import json

import pytest

import recordings
from gguf_files import FIELDS, U32, T, encode
from map_files import document, row
from support import need_corpus


@pytest.fixture
def model(tmp_path):
    tensors = [
        T("token_embd.weight", (256, 64), "f16"),
        T("blk.0.attn_q.weight", (256, 16), "q4_K"),
        T("blk.1.ffn_up_exps.weight", (256, 16, 4), "q4_K"),
    ]
    fields = {**FIELDS, "general.file_type": (U32, 15), "llama.expert_count": (U32, 4)}
    path = tmp_path / "tiny.gguf"
    path.write_bytes(encode(tensors, fields))
    return path


def test_json_shows_the_model_by_type_and_component(run, model):
    command_result = run("info", model, "--json")

    facts = json.loads(command_result.out)
    result = facts["model"]
    assert command_result.code == 0
    assert facts["counts"]["tensors"] == result["tensors"] == 3
    assert (result["name"], result["architecture"]) == ("Tiny", "llama")
    assert result["layers"] == 2
    assert result["bytes"] == 32768 + 2304 + 9216
    assert result["elements"] == 256 * 64 + 256 * 16 + 256 * 16 * 4
    assert result["bits_per_element"] == 8 * result["bytes"] / result["elements"]
    assert result["by_type"] == {
        "f16": {"tensors": 1, "bytes": 32768},
        "q4_K": {"tensors": 2, "bytes": 11520},
    }
    assert result["by_component"]["experts"] == {"tensors": 1, "bytes": 9216}
    (file,) = result["files"]
    assert file["size"] == model.stat().st_size
    assert file["metadata"]["n_experts"] == "4"
    assert file["data_offset"] % 32 == 0


def test_text_shows_the_model_and_no_clock(run, model):
    out = run("info", model).out

    for word in ("Model", "llama", "Q4_K_M", "43.2 KiB", "q4_K", "embedding"):
        assert word in out
    assert "clock" not in out
    assert "duration" not in out


def test_cut_model_says_what_is_missing_and_check_fails_strictly(run, model):
    model.write_bytes(model.read_bytes()[:-9000])

    assert "gguf_data_missing" in run("info", model).out
    assert run("check", model, "--strict").code == 4


def test_two_models_of_a_run_are_both_named(run, tmp_path):
    """As those of a program that drafts: their tensors are not those of one."""
    (first,) = recordings.sidecar()["models"]
    weights = first["weights"] | {"name": ["blk.0.attn_k.weight"]}
    second = first | {"model": 1, "path": "/models/draft.gguf", "weights": weights}
    one = recordings.recording(tmp_path, "one")
    two = recordings.recording(tmp_path, "two", models=[first, second])

    def rows(path):
        section = run("info", path).out.partition("\nModel")[2].splitlines()
        pairs = [line.split(None, 1) for line in section if line.startswith("  ")]
        return {pair[0]: pair[1] for pair in pairs}

    assert rows(one)["name"] == "tiny.gguf"
    assert rows(two)["names"].startswith("tiny.gguf, draft.gguf")
    assert {"name", "data"} & rows(two).keys() == set()
    assert rows(one)["tensors"].startswith("1, ")
    assert rows(two)["tensors"].startswith("2, ")


def test_repaired_map_says_how_many_sizes(run, tmp_path):
    path = tmp_path / "map.json"
    path.write_text(document(row("blk.0.a", 0, 400), row("blk.0.b", 100, 60)))

    result = run("info", path)

    assert "1 sizes repaired" in result.out
    assert "160 B" in result.out


def test_trace_without_a_model_has_none(run):
    folder = need_corpus()

    result = run("info", folder / "ggmlviz" / "test_trace.ggmlviz", "--json")

    assert json.loads(result.out)["model"] is None


def test_every_corpus_map_and_table_counts_its_tensors(run):
    folder = need_corpus()
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    kinds = ("memory-map-json", "gguf-structure-csv", "registry-csv")
    entries = [e for e in index if e["format"] in kinds]

    paths = [folder / e["path"] for e in entries]
    facts = json.loads(run("info", *paths, "--json").out)

    expected = [e["expect"].get("tensors", e["expect"].get("rows")) for e in entries]
    assert [f["counts"]["records"] for f in facts] == expected
    assert len(facts) == 13
