"""``ggscope backends``: ops by backend, splits, and what ran on the CPU."""

import json
from pathlib import Path

import pytest

import gguf_files
import op_files
import profile_files
import side_files
from op_files import Node, Split


@pytest.fixture
def path(tmp_path) -> Path:
    weight = ("blk.0.ffn_up.weight", 3 << 20, "CUDA0")
    graph = [
        Split(0, "CPU", [], [Node(0, "GET_ROWS", "embd", 2048, "CPU", [
            ("token_embd.weight", 9 << 20, "CPU")])]),
        Split(1, "CUDA0", [("embd", 2048), ("inp_pos", 10)], [
            Node(1, "MUL_MAT", "ffn_up-0", 4096, "CUDA0", [weight])]),
        Split(2, "CPU", [("ffn_up-0", 4096)], [
            Node(2, "ROPE", "odd-0", 4096, "CPU", [("CPU#ffn_up-0#0", 4096, "NULL")])]),
    ]  # fmt: skip
    target = tmp_path / "sched.txt"
    target.write_bytes(op_files.scheduler([graph] * 3))
    return target


def test_rows_show_ops_splits_and_what_fell_to_the_cpu(run, path):
    value = json.loads(run("backends", path, "--json").out)

    ops = {(row["backend"], row["op"]): row["count"] for row in value["ops"]}
    assert ops == {("CPU", "GET_ROWS"): 3, ("CUDA0", "MUL_MAT"): 3, ("CPU", "ROPE"): 3}
    first, second, third = value["splits"]
    assert (first["why"], first["before"], first["times"]) == ("first", None, 3)
    assert (second["why"], second["data"]) == ("data", "blk.0.ffn_up.weight")
    assert (second["copied_least"], second["copied_most"]) == (2048, 2048 + 1023 + 1023)
    assert second["copies"] == [
        {"tensor": "embd", "least": 2048, "most": 3071, "tensor_bytes": None},
        {"tensor": "inp_pos", "least": 0, "most": 1023, "tensor_bytes": None},
    ]
    assert (third["why"], third["op"], third["tensor"]) == ("moved", "ROPE", "odd-0")
    fallen = [(row["op"], row["why"], row["begin_splits"]) for row in value["cpu"]]
    assert fallen == [("ROPE", "moved", 3), ("GET_ROWS", "data", 3)]
    assert value["nodes_joined"] is None
    assert value["nodes_listed"] == 9


def test_tables_can_be_chosen_and_cut(run, path):
    whole = run("backends", path).out
    splits = run("backends", path, "--by", "splits", "--limit", "1").out

    assert "Ops by backend" in whole
    assert "On the CPU" in whole
    assert "not taken by the backend before" in whole
    assert "Ops by backend" not in splits
    assert "2 more" in splits


def test_info_counts_events(run, path):
    value = json.loads(run("info", path, "--json").out)

    assert value["events"] == {"graphs": 3, "splits": 9, "nodes": 9}


def test_nodes_of_a_graph_beside_are_counted(run, path, tmp_path):
    graph = tmp_path / "g.json"
    graph.write_text(side_files.sound_graph_json())

    value = json.loads(run("backends", path, "--with", graph, "--json").out)

    assert value["nodes_joined"] == 0


def test_weights_that_are_copied_have_the_bytes_of_the_model(run, tmp_path):
    weight = "blk.0.attn_q.weight"
    nodes = [Node(0, "MUL_MAT", "q-0", 10, "CUDA0")]
    inputs = [(f"{weight} (reshaped)", 5000), ("cur", 5000)]
    graph = [Split(0, "CUDA0", inputs, nodes)]
    path, model = tmp_path / "sched.txt", tmp_path / "m.gguf"
    path.write_bytes(op_files.scheduler([graph]))
    model.write_bytes(gguf_files.encode([gguf_files.T(weight, (64, 32), "f32")]))

    value = json.loads(run("backends", path, "--with", model, "--json").out)

    (split,) = value["splits"]
    sizes = [copy["tensor_bytes"] for copy in split["copies"]]
    assert sizes == [64 * 32 * 4, None]


def test_profiles_list_their_ops_too(run, tmp_path):
    target = tmp_path / "profile.json"
    target.write_bytes(profile_files.fork(1)[0])

    value = json.loads(run("backends", target, "--json").out)

    assert sum(row["count"] for row in value["ops"]) == 32
    assert {row["why"] for row in value["splits"]} <= {"first", "again", "unknown"}
    assert all(row["total_ns"] for row in value["ops"])


def test_other_files_are_reported(run, tmp_path):
    target = tmp_path / "moe.csv"
    target.write_text(side_files.sound_routing())

    result = run("backends", target)

    assert result.code != 0
    assert "lists no ops by backend" in result.err


def test_no_op_on_the_cpu_is_reported(run, tmp_path):
    target = tmp_path / "x.txt"
    node = Node(0, "ADD", "a", 10, "CPU")
    target.write_bytes(op_files.scheduler([[Split(0, "CPU", [], [node])]]))

    assert "No op ran on the CPU beside another backend." in run("backends", target).out
