"""The bundled experiment: one folder in which every pane finds something."""

import json

import pytest

from ggscope.model.units import format_count
from support import ROOT

FOLDER = ROOT / "resources" / "samples" / "moe-experiment"
N_PASSES, N_LAYERS, N_EXPERTS = 9, 4, 8


@pytest.fixture
def facts(run) -> dict:
    answer = run("info", FOLDER, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_folder_is_one_session_of_all_its_files(facts):
    roles = [part["role"] for part in facts["parts"]]

    assert roles == ["trace", "model", "map", "buffers", "graph", "graph"]
    assert all(join["found"] == join["all"] > 0 for join in facts["joins"])
    assert facts["counts"]["passes"] == facts["counts"]["tokens"] == N_PASSES


def test_map_is_moved_by_where_the_data_of_the_model_begin(facts):
    begin = facts["model"]["files"][0]["data_offset"]

    deltas = [join["delta"] for join in facts["joins"] if join["kind"] == "map"]

    assert deltas == [0, begin]
    assert facts["model"]["first_offset"] == begin
    assert facts["model"]["end_offset"] <= facts["model"]["files"][0]["size"]


def test_sample_has_no_problems_but_what_it_is_to_show(run, facts):
    codes = {w["code"] for w in facts["warnings"]}

    assert run("check", FOLDER, "--strict").code == 0
    assert codes == {
        "routing_of_first_token", "map_relative_offsets", "offsets_moved",
    }  # fmt: skip


def test_info_tells_spaces_buffers_and_graphs(run, facts):
    disk, buffer = facts["accesses_by_space"].values()
    graph = facts["graphs"][0]
    text = run("info", FOLDER).out

    assert list(facts["accesses_by_space"]) == ["disk", "buffer"]
    assert disk + buffer == facts["counts"]["accesses"]
    assert facts["buffers"]["by_usage"] == {"WEIGHTS": 1, "COMPUTE": 2}
    assert facts["buffers"]["peak_bytes"] == facts["buffers"]["bytes"]
    assert facts["buffers"]["never_freed"] == 2
    assert (graph["token"], graph["layers"]) == (0, N_LAYERS)
    assert graph["nodes"] == sum(graph["operations"].values())
    assert graph["edges"] == sum(graph["edges_by_slot"].values())
    assert graph["leaves"] == graph["operations"]["CONST"]
    assert f"({format_count(disk)} DISK, {format_count(buffer)} BUFFER)" in text
    assert "(peak 1.2 MiB, 2 never freed)" in text
    assert "parts " not in text.split("component")[0].split("Model\n")[1]


def test_some_of_the_model_is_never_touched(run):
    found = json.loads(run("hot", FOLDER, "--by", "expert", "--json").out)

    touched = {row["key"] for row in found["rows"] if row["accesses"]}

    stacks = N_LAYERS * 3
    assert found["never_touched"]["all_units"] == 44 - stacks + stacks * N_EXPERTS
    assert "cls.output.weight" not in touched
    assert "token_embd.weight" in touched


@pytest.mark.parametrize("view", ["heatmap", "experts", "buffers", "graph", "cache"])
def test_every_pane_has_a_picture_of_it(run, tmp_path, view):
    path = tmp_path / f"{view}.svg"

    answer = run("export", "--view", view, FOLDER, "-o", path)

    assert answer.code == 0, answer.err
    assert path.stat().st_size > 5_000
