"""The bundled experiment: one folder in which every pane finds something."""

import json

import pytest

from ggscope.model.tables import Space
from ggscope.model.units import format_bytes, format_count
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from support import ROOT

FOLDER = ROOT / "resources" / "samples" / "moe-experiment"
N_PASSES, N_LAYERS, N_EXPERTS, N_USED = 9, 4, 8, 2


@pytest.fixture
def facts(run) -> dict:
    result = run("info", FOLDER, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


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


def test_no_note_asks_for_the_model_that_is_there(facts):
    remedies = [w["remedy"] for w in facts["warnings"] if "GGUF" in w["remedy"]]

    assert facts["model"] is not None
    assert remedies == []


def test_map_without_its_model_asks_for_the_model(run):
    data = json.loads(run("info", FOLDER / "memory-map.json", "--json").out)

    (note,) = (w for w in data["warnings"] if w["code"] == "map_relative_offsets")
    assert "GGUF" in note["remedy"]


@pytest.fixture(scope="module")
def read_bytes():
    """Bytes of weights of all accesses, of stacks, of look-ups and of their rows."""
    trace = open_bundle(survey((FOLDER,)))
    accesses, sums = trace.accesses, [0, 0, 0, 0]
    for span in range(len(trace.spans)):
        pattern = int(accesses.pattern[span])
        if pattern < 0:
            continue
        for row in range(accesses.first[pattern], accesses.first[pattern + 1]):
            if accesses.patterns.space[row] == Space.FILE:
                size = int(accesses.patterns.size[row])
                op = trace.op_name(int(trace.spans.op[span]))
                sums[0] += size
                sums[1] += size * (op == "MUL_MAT_ID")
                sums[2] += size * (op == "GET_ROWS")
                if op == "GET_ROWS":
                    n_vocab = int(trace.tensors.shape[accesses.patterns.tensor[row], 1])
                    n_looked_up = int(accesses.patterns.size[row + 1]) // 4
                    sums[3] += n_looked_up * size // n_vocab
    return sums


def test_sums_of_bytes_say_what_they_count_in_the_same_words(run, tmp_path, read_bytes):
    recorded, stacks, looked_up, rows = read_bytes
    # Of a prompt's first token two experts are listed; which others there are is open.
    whole_stacks = stacks * N_USED // N_EXPERTS
    chosen = recorded - looked_up + rows - stacks + whole_stacks
    sums = (recorded, chosen, recorded - looked_up - stacks + whole_stacks)
    counted = "all accesses, each op once"
    of_chosen = f"{counted}, of stacked experts only the chosen ones"
    hot = run("hot", FOLDER).out
    cache = run("cache", FOLDER).out
    sized = run("cache", FOLDER, "--cache-size", "64KiB").out
    run("export", FOLDER, "--view", "heatmap", "-o", tmp_path / "map.svg")
    picture = (tmp_path / "map.svg").read_text()

    assert recorded > sums[1] > sums[2]
    assert f"({format_bytes(chosen)} to " in hot
    assert f"; {counted})" in hot
    assert f"{format_bytes(chosen)} read; up to 243.0 KiB more unknown" in hot
    assert f"({of_chosen}; " in hot
    assert f"({format_count(chosen)} bytes), {of_chosen}." in picture
    requested = f"{format_bytes(sums[2])} ({of_chosen}, without row look-ups)"
    assert f"The run asks for {requested}; " in cache
    assert f"of {requested}." in sized
    whole = run("cache", FOLDER, "--with-row-reads").out
    assert f"{format_bytes(sums[2] + looked_up)} ({of_chosen}); " in whole


def test_info_shows_spaces_buffers_and_graphs(run, facts):
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
    result = run("hot", FOLDER, "--by", "expert", "--limit", "500", "--json")
    data = json.loads(result.out)

    whole = json.loads(run("hot", FOLDER, "--limit", "500", "--json").out)

    touched = {row["key"] for row in whole["rows"] if row["accesses"]}

    stacks = N_LAYERS * 3
    assert data["never_touched"]["all_units"] == 44 - stacks + stacks * N_EXPERTS
    assert "cls.output.weight" not in touched
    assert "token_embd.weight" in touched


@pytest.mark.parametrize("view", ["heatmap", "experts", "buffers", "graph", "cache"])
def test_every_pane_has_a_picture_of_it(run, tmp_path, view):
    path = tmp_path / f"{view}.svg"

    result = run("export", "--view", view, FOLDER, "-o", path)

    assert result.code == 0, result.err
    assert path.stat().st_size > 5_000
