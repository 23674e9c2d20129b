"""Files of the corpus that belong together, and traces with outdated op names.

Every map is joined with every trace of its model: the difference between its offsets
and those of the trace is one number, with no exception.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggscope.analysis.sessions.correlate import correlate
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from support import corpus_path, need_corpus
from token_files import TWINS, corpus_trace

QUANTISED, HALF, MXFP4 = "TinyLlama Q4_K_M", "TinyLlama F16", "gpt-oss-20b"
TRACES = {
    "3584a339": QUANTISED,
    "c26d86e7": QUANTISED,
    "a6ba6071": HALF,
    "962e44d2": MXFP4,
}
"""Traces with file offsets, as JSON and as records, and the model they ran."""
N_DISK = {"3584a339": 134, "c26d86e7": 134, "a6ba6071": 402, "962e44d2": 870}
MAPS = {
    "bsc/0fd8c082": (QUANTISED, 1_709_440),
    "bsc/3584a339": (QUANTISED, 1_709_440),
    "bsc/71099aab": (QUANTISED, 1_709_440),
    "tracer/tinyllama_structure.csv": (QUANTISED, 1_709_440),
    "tracer/structure_with_stderr_noise.csv": (QUANTISED, 1_709_440),
    "bsc/a6ba6071": (HALF, 0),
    "tracer/tinyllama-f16-CORRECTED.csv": (HALF, 0),
    "tracer/registry_f16_derived.csv": (HALF, 0),
    "bsc/962e44d2": (MXFP4, 0),
    "bsc/0b4cf8b5": (MXFP4, 0),
    "bsc/94668299": (MXFP4, 13_008_832),
}
"""Maps and tables of tensors, the model they list, and the delta to its traces."""
PAIRS = [
    (commit, form, listed)
    for commit, model in TRACES.items()
    for form in ("json", "bin")
    for listed, (of, _) in MAPS.items()
    if of == model
]
STRANGERS = [
    ("3584a339", "bsc/a6ba6071", "67 of 67 tensors matched by name, 2 of 67 offsets"),
    ("3584a339", "bsc/962e44d2", "35 of 67 tensors matched by name, 1 of 35 offsets"),
    (
        "a6ba6071",
        "bsc/3584a339",
        "201 of 201 tensors matched by name, 2 of 201 offsets",
    ),
    (
        "962e44d2",
        "bsc/a6ba6071",
        "113 of 435 tensors matched by name, 1 of 113 offsets",
    ),
    ("71099aab", "bsc/962e44d2", "11 of 42 tensors matched by name, no offsets"),
]


def trace_of(commit: str, form: str) -> Path:
    records = {c: need_corpus() / "tracer" / name for c, name in TWINS}
    return corpus_trace(commit) if form == "json" else records[commit]


def map_of(name: str) -> Path:
    path = need_corpus() / name
    return path if path.is_file() else next(path.rglob("memory-map.json"))


def facts_of(run, *text: object) -> dict[str, Any]:
    result = run("info", *text, "--json")
    assert result.code == 0, result.err
    return dict(json.loads(result.out))


def messages(facts: dict[str, Any], code: str) -> list[str]:
    return [w["message"] for w in facts["warnings"] if w["code"] == code]


# -- calibration -----------------------------------------------------------------


@pytest.mark.parametrize(("commit", "form", "listed"), PAIRS)
def test_every_pair_calibrates_to_its_one_delta(run, commit, form, listed):
    delta, n = MAPS[listed][1], N_DISK[commit]

    facts = facts_of(run, trace_of(commit, form), "--with", map_of(listed))

    join = facts["joins"][0]
    assert join["kind"] in ("map", "registry")
    assert (join["delta"], join["agree"]) == (delta, n)
    assert (join["found"], join["all"], sum(join["rules"].values())) == (n, n, n)
    assert not messages(facts, "offsets_disagree")
    assert len(messages(facts, "offsets_moved")) == (delta != 0)


@pytest.mark.parametrize(
    ("listed", "n_slices"),
    [("bsc/94668299", 2304), ("bsc/962e44d2", 0), ("bsc/0b4cf8b5", 2304)],
)
@pytest.mark.parametrize("form", ["json", "bin"])
def test_slices_of_experts_and_their_stacks_count_once(run, listed, n_slices, form):
    """gpt-oss-20b has 459 tensors; some maps list 2,304 slices of 72 stacks instead."""
    facts = facts_of(run, trace_of("962e44d2", form), "--with", map_of(listed))

    model = facts["model"]
    assert (model["tensors"], model["slices"]) == (459, n_slices)
    assert model["bytes"] == 13_779_630_336
    assert sum(part["tensors"] for part in model["by_component"].values()) == 459
    assert (
        sum(part["bytes"] for part in model["by_component"].values()) == model["bytes"]
    )


@pytest.mark.parametrize("commit", TRACES)
def test_cut_names_are_completed_for_sure(run, commit):
    """Names of 20 bytes are cut; those of 128 are whole."""
    listed = next(name for name, (of, _) in MAPS.items() if of == TRACES[commit])

    facts = facts_of(run, trace_of(commit, "bin"), "--with", map_of(listed))

    names = [(j["found"], j["all"]) for j in facts["joins"] if j["kind"] == "names"]
    assert names == ([(58, 58)] if TRACES[commit] == QUANTISED else [])


@pytest.mark.parametrize(("commit", "listed", "evidence"), STRANGERS)
def test_map_of_another_model_is_refused_with_the_evidence(
    run, commit, listed, evidence
):
    facts = facts_of(run, trace_of(commit, "json"), "--with", map_of(listed))

    (message,) = messages(facts, "part_does_not_fit")
    assert evidence in message
    assert facts["joins"][0]["found"] == 0
    assert facts["joins"][0]["delta"] is None
    assert facts["model"] is None


def test_names_of_sources_find_the_ops_that_read_them(run):
    """A record of 128 bytes names one source of a MUL_MAT, not what that computes."""
    trace = need_corpus() / "tracer" / "trace_128_71099aab.bin"
    graph = corpus_trace("3584a339").parents[1] / "graphs" / "token-00000.json"

    facts = facts_of(run, trace, "--with", graph)

    (join,) = (j for j in facts["joins"] if j["kind"] == "graph")
    assert join["rules"] == {"name of a source, op and order": 105}

    session = open_bundle(survey((trace, graph)))
    correlation = correlate(session)
    ids = np.flatnonzero(session.spans.op >= 0)
    assert correlation is not None
    nodes = correlation.nodes_of(ids)[0].tolist()
    drawn = session.graphs[0]
    for span, node in zip(ids.tolist(), nodes, strict=True):
        assert session.op_name(int(drawn.op[node])) == "MUL_MAT"
        sources = drawn.name[drawn.source[drawn.target == node]].tolist()
        assert session.span_name(span) in {session.strings[i] for i in sources}
    assert len(set(nodes)) == 21


def test_weights_of_ops_that_the_tracer_cannot_see_are_not_called_cold(run):
    """ggml multiplies repacked Q4_K weights behind the tracer's hook."""
    folder = corpus_trace("3584a339").parents[1]

    data = json.loads(run("hot", folder, "--json").out)["never_touched"]
    facts = facts_of(run, folder)

    assert (data["units"], data["bytes"]) == (0, 0)
    assert (data["not_recorded_units"], data["all_units"]) == (134, 201)
    assert round(data["not_recorded_bytes"] / data["all_bytes"], 3) == 0.715
    (join,) = (j for j in facts["joins"] if j["kind"] == "graph")
    assert (join["nodes"], join["nodes_not_recorded"]) == (425, {"MUL_MAT": 134})
    assert "134 ops of the graph that no pass records" in facts["completeness"]["words"]
    (message,) = messages(facts, "nodes_not_recorded")
    assert "134 of 425 ops of the graph have no record in any pass" in message
    stats = json.loads(run("stats", folder, "--by", "op", "--json").out)
    assert "MUL_MAT 134" in stats["not_recorded"]
    assert stats["rows_not_recorded"] == [{"key": "MUL_MAT", "ops": 134}]
    own = [row["count"] for row in stats["rows"] if row["key"] == "MUL_MAT"]
    assert own == [42], "what is not recorded is in no sum"
    shown = [line.split() for line in run("stats", folder).out.splitlines()]
    silent = [row for row in shown if row[-4:-1] == ["not", "recorded,", "per"]]
    assert [(row[:3], set(row[3:-4])) for row in silent] == [
        (["MUL_MAT", "134", "N/A"], {"N/A"})
    ]
    csv = run("stats", folder, "--format", "csv").out.splitlines()
    assert sum("MUL_MAT (not recorded)" in line for line in csv) == 1
    part = json.loads(run("stats", folder, "--where", "op=ADD", "--json").out)
    assert part["rows_not_recorded"] == []


@pytest.mark.parametrize("commit", ["a6ba6071", "962e44d2"])
def test_whole_graphs_have_a_record_of_each_op(run, commit):
    facts = facts_of(run, corpus_trace(commit).parents[1])

    (join,) = (j for j in facts["joins"] if j["kind"] == "graph")
    assert join["nodes"] > 400
    assert join["nodes_not_recorded"] == {}


def test_few_common_tensors_are_no_evidence(run):
    """Two tensors are in both, and the offset of one fits any delta that it makes."""
    corpus = need_corpus() / "tracer"
    arguments = (corpus / "trace_256_truncated.bin", "--with")

    facts = facts_of(run, *arguments, corpus / "structure_dec30_dialect.csv")

    assert facts["joins"][0]["found"] == 0
    assert len(messages(facts, "part_does_not_fit")) == 1


def test_empty_registry_takes_part_without_a_word_on_fit(run):
    path = trace_of("3584a339", "bin")
    registry = need_corpus() / "tracer" / "registry_header_only.csv"

    facts = facts_of(run, path, "--with", registry)

    assert [part["role"] for part in facts["parts"]] == ["trace", "registry"]
    assert not messages(facts, "part_does_not_fit")
    assert len(messages(facts, "registry_empty")) == 1


# -- whole experiments -------------------------------------------------------------


@pytest.mark.parametrize(
    ("commit", "roles"),
    [
        ("3584a339", ["trace", "map", "buffers", "graph"]),
        ("c26d86e7", ["trace", "buffers", "graph"]),
        ("a6ba6071", ["trace", "map", "buffers", "graph"]),
        ("962e44d2", ["trace", "map", "buffers", "graph"]),
        ("71099aab", ["trace", "map"]),
    ],
)
def test_folder_of_an_experiment_is_one_session(run, commit, roles):
    facts = facts_of(run, need_corpus() / "bsc" / commit)

    assert [part["role"] for part in facts["parts"]] == roles
    assert not messages(facts, "part_unreadable")
    for join in facts["joins"]:
        is_whole = join["found"] == join["all"]
        # The records of 128 bytes are one per source: half of them are no weights.
        assert is_whole or (commit == "71099aab" and join["found"] * 2 == join["all"])


@pytest.mark.parametrize("commit", ["3584a339", "c26d86e7", "a6ba6071", "962e44d2"])
def test_buffers_come_before_the_first_op_on_the_clock_of_the_trace(run, commit):
    folder = need_corpus() / "bsc" / commit
    alone = facts_of(run, corpus_trace(commit))

    facts = facts_of(run, folder)

    before = facts["clock"]["origin"] - alone["clock"]["origin"]
    first = before + facts["extent"]["start"]
    assert [part["shift"] for part in facts["parts"]] == [0] * len(facts["parts"])
    assert -28_100_000 <= first <= -14_000_000
    assert facts["buffers"]["peak_bytes"] > 0


def test_folder_of_the_first_tracer_is_one_session(run, tmp_path):
    """With the tensors as CSV, a list of their names and what it says of the run."""
    tracer = need_corpus() / "tracer"
    (tmp_path / "tensor_access.bin").write_bytes(
        (tracer / "trace_256_3584a339.bin").read_bytes()
    )
    (tmp_path / "gguf_structure.csv").write_bytes(
        (tracer / "tinyllama_structure.csv").read_bytes()
    )
    names = "".join(f"blk.{i}.attn_q.weight\n" for i in range(22))
    (tmp_path / "tensor_names.txt").write_text(names)
    values = {"model": "tinyllama", "run": {"n_entries": 582}}
    (tmp_path / "trace_metadata.json").write_text(json.dumps(values))

    facts = facts_of(run, tmp_path)

    roles = ["trace", "map", "registry", "metadata"]
    assert [part["role"] for part in facts["parts"]] == roles
    assert [(j["found"], j["all"]) for j in facts["joins"][:2]] == [
        (134, 134),
        (58, 58),
    ]
    assert facts["model"]["tensors"] == 201
    assert facts["producer"]["model"] == "tinyllama"
    (figure,) = [f for f in facts["stated"] if f["file"] == "trace_metadata.json"]
    assert (figure["name"], figure["computed"], figure["agrees"]) == (
        "records",
        582,
        True,
    )
    assert not messages(facts, "files_passed_over")


def test_hit_rates_per_rule_are_printed_for_people(run):
    result = run("info", need_corpus() / "bsc" / "3584a339")

    assert result.code == 0
    for text in (
        "4 files in one session",
        "accesses with a tensor of memory-map.json: 134 of 134 (100.0 %)",
        "name 18, unique prefix 116; delta 1,709,440, all 134 agree",
        "cut names completed from memory-map.json without doubt: 58 of 58 (100.0 %)",
        "ops with a node of graphs/token-00000.json: 582 of 582 (100.0 %)",
    ):
        assert text in result.out


# -- op names printed with an outdated table ---------------------------------------


def outdated() -> dict[str, Sequence[str]]:
    """Return the reader tables of the corpus that name ops by the numbers of ggml."""
    folder = corpus_path()
    if folder is None:
        return {"no-corpus": ()}
    known = json.loads((folder / "reader_op_tables.json").read_text("utf-8"))
    return {name: ops for name, ops in known.items() if isinstance(ops, list)}


def numbers() -> dict[str, int]:
    """Return the op numbers of the program that the corpus traced."""
    known = json.loads((need_corpus() / "ggml_op_tables.json").read_text("utf-8"))
    tables = known["tables"] if isinstance(known, dict) else known
    (ops,) = (t["ops"] for t in tables if t["id"] == "ggml-2025-11-25-95")
    return {name: number for number, name in enumerate(ops)}


def printed_with(ops: Sequence[str], source: Path, target: Path) -> Path:
    """Write a real trace as an exporter with this table would have printed it."""
    value, number = json.loads(source.read_text("utf-8")), numbers()
    for entry in value["entries"]:
        code = number[entry["operation_type"]]
        known = code < len(ops)
        entry["operation_type"] = ops[code] if known else f"UNKNOWN_{code}"
    target.write_text(json.dumps(value), "utf-8")
    return target


@pytest.mark.parametrize("commit", TRACES)
@pytest.mark.parametrize("table", outdated())
def test_outdated_op_names_are_repaired_to_the_true_ones(run, tmp_path, table, commit):
    path = corpus_trace(commit)
    renamed = printed_with(outdated()[table], path, tmp_path / "token-00000.json")
    is_changed = json.loads(renamed.read_text()) != json.loads(path.read_text())

    true, facts = facts_of(run, path), facts_of(run, renamed)

    assert facts["ops"] == true["ops"]
    assert len(messages(facts, "ops_repaired")) == is_changed
    assert not messages(true, "ops_repaired")


def test_table_of_january_is_an_outdated_one(run, tmp_path):
    """Guards the test above against tables that change nothing."""
    source = corpus_trace("3584a339")
    name = next(name for name in outdated() if "2026-01-07" in name)

    path = printed_with(outdated()[name], source, tmp_path / "t.json")

    printed = {e["operation_type"] for e in json.loads(path.read_text())["entries"]}
    assert {"LOG", "OUT_PROD", "CONT", "MAP_CUSTOM2", "UNKNOWN_94"} <= printed


@pytest.mark.parametrize("commit", [commit for commit, _ in TWINS])
def test_real_token_trace_is_written_as_it_was_read(run, tmp_path, commit):
    """So every claim of the file is kept: phases, null layers, numbers of sources."""
    path = corpus_trace(commit)

    result = run("convert", path, "--to", "token-json", "-o", tmp_path)

    written = json.loads((tmp_path / "token-00000.json").read_text("utf-8"))
    assert result.code == 0, result.err
    assert written == json.loads(path.read_text("utf-8"))
