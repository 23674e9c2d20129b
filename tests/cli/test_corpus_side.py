"""Every side file of the corpus against its published counts.

The index names its counts in the words of each format; `CHECKS` says which number of
``ggscope info --json`` each of them is. A key that stands in no table fails the test:
nothing that the index states goes unchecked without a word on why.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ggscope.model.units import format_bytes
from support import corpus_path, need_corpus

Facts = dict[str, Any]
Check = Callable[[Facts, Any, dict[str, Any]], object]


def warned(facts: Facts, code: str) -> int:
    """Return the count of a warning, 0 where it was not given."""
    return sum(w["count"] for w in facts["warnings"] if w["code"] == code)


def message_of(facts: Facts, code: str) -> str:
    return " ".join(w["message"] for w in facts["warnings"] if w["code"] == code)


# -- maps, tables of tensors ---------------------------------------------------


def check_metadata(key: str) -> Check:
    def check(facts: Facts, value: Any, _: dict[str, Any]) -> None:
        assert facts["model"]["files"][0]["metadata"][key] == str(value)

    return check


def check_map_end(facts: Facts, value: int, _: dict[str, Any]) -> None:
    """Wrong sizes make the stated end wrong too; the repaired one comes before it."""
    end = facts["model"]["end_offset"]
    if warned(facts, "map_total_inflated") or facts["reader"] == "structure-csv":
        assert end <= value
    else:
        assert end == value


def check_sum(facts: Facts, value: int, expect: dict[str, Any]) -> None:
    """Sizes that overlap are repaired; the warning keeps the sum of the stated ones."""
    if expect["overlaps"]:
        assert format_bytes(value) in message_of(facts, "map_overlaps")
        assert facts["model"]["bytes"] < value
    else:
        assert facts["model"]["bytes"] == value


def check_categories(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    """The map files norms and routers under the block that they serve."""
    ours = {k: v["tensors"] for k, v in facts["model"]["by_component"].items()}
    ours["experts"] = ours.get("experts", 0) + n_beyond(facts)
    of_ffn = sum(ours.get(k, 0) for k in ("ffn", "experts", "router"))
    norms = value["attention"] + value["ffn"] + value.get("other", 0)
    norms += value["output"] - of_ffn - ours["attention"] - ours["output"]
    assert sum(value.values()) == sum(ours.values())
    assert ours["embedding"] == value["embedding"]
    assert ours["norm"] == norms
    assert of_ffn <= value["ffn"]
    assert ours["attention"] <= value["attention"]


def n_beyond(facts: Facts) -> int:
    """Return how many rows a map has beyond its tensors: slices after the first."""
    report = message_of(facts, "map_slices")
    match = re.search(r"rows are slices .*, of ([\d,]+) tensors", report)
    if match is None:
        return 0
    slices: int = facts["model"]["slices"]
    return slices - int(match[1].replace(",", ""))


def check_tensors(facts: Facts, value: int, _: dict[str, Any]) -> None:
    counts = facts["counts"]
    assert counts["records"] == value
    assert counts["tensors"] == value - n_beyond(facts)
    assert facts["model"] is None or facts["model"]["tensors"] == counts["tensors"]


def check_slices(facts: Facts, value: int, _: dict[str, Any]) -> None:
    message = message_of(facts, "map_slices")
    assert f"{value:,} rows are slices" in message if value else not message
    assert facts["model"]["slices"] == facts["counts"]["tensor_slices"] == value


MAP: dict[str, Check] = {
    "model_name": lambda f, v, _: f["producer"]["model"] == v,
    "tensors": check_tensors,
    "n_layers": lambda f, v, _: f["model"]["layers"] == v,
    "n_vocab": check_metadata("n_vocab"),
    "n_embd": check_metadata("n_embd"),
    "total_size_bytes": check_metadata("total_size_bytes"),
    "first_offset": lambda f, v, _: f["model"]["first_offset"] == v,
    "max_end": check_map_end,
    "sum_sizes": check_sum,
    "overlaps": lambda f, v, _: warned(f, "map_overlaps") == v,
    "experts": check_slices,
    "categories": check_categories,
}


def check_offsets(facts: Facts, value: str, _: dict[str, Any]) -> None:
    is_relative = value.startswith("relative")
    assert bool(warned(facts, "map_relative_offsets")) == is_relative
    if not is_relative:
        assert str(facts["model"]["first_offset"]) in value


def check_sizes(facts: Facts, value: str, _: dict[str, Any]) -> None:
    is_wrong = value.startswith("wrong")
    assert bool(facts["model"]["repaired_sizes"]) == is_wrong
    assert bool(warned(facts, "map_overlaps")) == is_wrong


TABLE: dict[str, Check] = {
    "rows": check_tensors,
    "layers": lambda f, v, _: f["model"]["layers"] == v,
    "offsets": check_offsets,
    "sizes": check_sizes,
    "max_end": check_map_end,
}

# -- buffers -------------------------------------------------------------------

BUFFERS: dict[str, Check] = {
    "events": lambda f, v, _: f["counts"]["records"] == v,
    "timeline": lambda f, v, _: f["counts"]["markers"] == v,
    "buffers": lambda f, v, _: f["counts"]["buffers"] == v,
    "peak": lambda f, v, _: f["buffers"]["peak_bytes"] == v,
}

# -- graphs --------------------------------------------------------------------


def graph_of(facts: Facts) -> Facts:
    (graph,) = facts["graphs"]
    return dict(graph)


def check_nodes(facts: Facts, value: int, expect: dict[str, Any]) -> None:
    """The index counts leaves of a DOT file apart."""
    assert facts["counts"]["graph_nodes"] == value + expect.get("leafs", 0)


def check_layers(facts: Facts, value: int, _: dict[str, Any]) -> None:
    """Early files count node_677 as layer 677; the claim is kept in a warning."""
    graph = graph_of(facts)["layers"]
    if warned(facts, "layers_mismatch"):
        assert f"file says {value:,}, found {graph}" in message_of(
            facts, "layers_mismatch"
        )
    else:
        assert graph == value


def check_leaves(facts: Facts, value: int, expect: dict[str, Any]) -> None:
    """In files of 6-7 January leaves are nodes of an unknown operation."""
    assert graph_of(facts)["leaves"] == value + expect["unknown_op"]


def check_operations(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    expected = {k.replace("unknown", "CONST"): n for k, n in value.items()}
    assert graph_of(facts)["operations"] == expected


def check_types(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    """Types that were suffixes or unknown are repaired; no stated one is lost."""
    ours = graph_of(facts)["types"]
    lost = {k: value.get(k, 0) for k in ("view", "reshaped", "unknown")}
    stated = {k: n for k, n in value.items() if k not in lost}
    suffixes = lost["view"] + lost["reshaped"]
    assert warned(facts, "type_was_suffix") == suffixes
    assert warned(facts, "raw_label") == lost["unknown"]
    assert not lost.keys() & ours.keys()
    assert all(ours[k] >= n for k, n in stated.items())
    assert sum(ours.values()) == sum(value.values())


def check_slots(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    slots = {f"src {k}": n for k, n in graph_of(facts)["edges_by_slot"].items()}
    assert slots == value


GRAPH: dict[str, Check] = {
    "token_id": lambda f, v, _: graph_of(f)["token"] == v,
    "nodes": check_nodes,
    "leafs": lambda f, v, _: graph_of(f)["leaves"] == v,
    "edges": lambda f, v, _: f["counts"]["graph_edges"] == graph_of(f)["edges"] == v,
    "layers": check_layers,
    "const": check_leaves,
    "unknown_op": lambda f, v, _: warned(f, "raw_label") == v,
    "ops": check_operations,
    "dtypes": check_types,
    "edge_labels": check_slots,
    "dialect": lambda f, v, _: v.startswith(f["format_version"]),
    # The index's own words on the generation: nodes have a node_type or not.
    "node_type": lambda f, v, _: (f["format_version"] == "node types") == v,
    # Of labels as printed, without their suffixes; here names have them back.
    "duplicate_labels": lambda f, v, _: v > 0,
}

# -- token traces --------------------------------------------------------------


def check_version(facts: Facts, value: str | None, _: dict[str, Any]) -> None:
    """Files of 128-byte records do not say which schema they are in."""
    assert facts["producer"].get("format_version") == value
    assert facts["format_version"] == ("128" if value is None else value[:-5])


def check_last(facts: Facts, value: int, _: dict[str, Any]) -> None:
    """The last op of a pass has no known end: it counts as one tick at most."""
    last = facts["clock"]["origin"] + facts["extent"]["end"]
    assert value <= last <= value + 1


def check_duration(facts: Facts, value: float, _: dict[str, Any]) -> None:
    assert facts["extent"]["duration"] == pytest.approx(value * 1e6, abs=1000)


def check_sources(facts: Facts, value: int, expect: dict[str, Any]) -> None:
    """A record of 128 bytes has no list of sources: it is one source itself."""
    n = value if expect["format_version"] else expect["entries"]
    assert facts["counts"]["accesses"] == n


def check_threads(facts: Facts, value: list[int], _: dict[str, Any]) -> None:
    lanes = [lane for lane in facts["lanes"] if lane["kind"] == "thread"]
    assert len(lanes) == len(value)


def check_phases(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    """A phase may come several times; each run of passes is a span of its lane."""
    (lane,) = [lane for lane in facts["lanes"] if lane["kind"] == "phase"]
    assert lane["spans"] >= len(value)


def check_ops(facts: Facts, value: dict[str, int], _: dict[str, Any]) -> None:
    """The index counts entries; where each has one source, two are a MUL_MAT."""
    each = 2 if facts["format_version"] == "128" else 1
    assert {op: n * each for op, n in facts["ops"].items()} == value


TRACE: dict[str, Check] = {
    "entries": lambda f, v, _: f["counts"]["records"] == v,
    "format_version": check_version,
    "duration_ms": check_duration,
    "ts_first": lambda f, v, _: f["clock"]["origin"] == v,
    "ts_last": check_last,
    "ts_sorted": lambda f, v, _: (warned(f, "out_of_order") == 0) == v,
    "ops": check_ops,
    "phases": check_phases,
    "threads": check_threads,
    "tokens": lambda f, v, _: f["counts"]["tokens"] == len(v),
    "sources": check_sources,
    "disk": lambda f, v, _: f["accesses_by_space"].get("disk", 0) == v,
    "buffer": lambda f, v, _: f["accesses_by_space"].get("buffer", 0) == v,
    "passes": lambda f, v, _: f["counts"]["passes"] == v,
    # No file of the corpus records choices of experts.
    "expert_entries": lambda f, v, _: v == 0,
    # Equal stamps are nothing to repair; entries keep the order of the file.
    "dup_ts": lambda f, v, _: v >= 0,
    # Claims that are read but not shown; test_corpus_sessions writes the files anew
    # and finds every one of them.
    "num_sources": lambda f, v, _: True,
    "layers_null": lambda f, v, _: True,
}

CHECKS: dict[str, dict[str, Check]] = {
    "memory-map-json": MAP,
    "gguf-structure-csv": TABLE,
    "registry-csv": TABLE,
    "buffer-timeline-json": BUFFERS,
    "buffer-stats-jsonl": BUFFERS,
    "graph-json": GRAPH,
    "ggml-dot": GRAPH,
    "tensor-trace-json": TRACE,
}
READERS = {
    "memory-map-json": "memory-map",
    "gguf-structure-csv": "structure-csv",
    "registry-csv": "registry",
    "buffer-timeline-json": "buffer-timeline",
    "buffer-stats-jsonl": "buffer-stats",
    "graph-json": "graph-json",
    "ggml-dot": "graph-dot",
    "tensor-trace-json": "trace-json",
}


@cache
def entries() -> tuple[dict[str, Any], ...]:
    folder = corpus_path()
    if folder is None:
        return ()
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    return tuple(e for e in index if e["format"] in CHECKS)


def named() -> list[Any]:
    return [pytest.param(e, id=e["path"]) for e in entries()] or [
        pytest.param(None, id="no-corpus")
    ]


@pytest.mark.parametrize("entry", named())
def test_side_file_has_the_published_counts(run, entry):
    path = need_corpus() / entry["path"]
    expect = entry["expect"]
    checks = CHECKS[entry["format"]]

    result = run("info", path, "--json")
    facts = json.loads(result.out)

    assert result.code == 0, result.err
    assert facts["reader"] == READERS[entry["format"]]
    assert set(expect) <= set(checks), "a count of the index that nothing checks"
    for key, value in expect.items():
        assert checks[key](facts, value, expect) in (True, None), (key, value)


@pytest.mark.parametrize("entry", named())
def test_side_file_passes_every_command(run, entry):
    path = need_corpus() / entry["path"]

    text, stats = run("info", path), run("stats", path, "--json")
    check = run("check", path, "--json")

    assert (text.code, stats.code) == (0, 0), text.err + stats.err
    assert check.code == 0, check.out
    codes = [w["code"] for w in json.loads(check.out)["warnings"]]
    assert "inconsistent_trace" not in codes
    assert "65535" not in text.out


def test_whole_corpus_of_side_files_was_found():
    need_corpus()

    values = {kind: sum(e["format"] == kind for e in entries()) for kind in CHECKS}

    assert values == {
        "memory-map-json": 7,
        "gguf-structure-csv": 4,
        "registry-csv": 2,
        "buffer-timeline-json": 5,
        "buffer-stats-jsonl": 1,
        "graph-json": 5,
        "ggml-dot": 5,
        "tensor-trace-json": 5,
    }
