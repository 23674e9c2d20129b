"""Every reference trace of the three main formats against its published counts.

Side files and token traces are in `test_corpus_side`, whole experiments in
`test_corpus_sessions`.
"""

import json
from functools import cache

import pytest

from support import corpus_path, need_corpus

FORMATS = ("ggmlviz", "tensor-trace-bin", "buffer-event-bin", "npu-json", "npu-jsonl")
BROKEN = {
    "ggmlviz/empty_ggml_trace.bin": ("empty_file", 1, "empty"),
    "ggmlviz/derived/truncated_header_11.ggmlviz": ("truncated", 1, "truncated header"),
    "ggmlviz/derived/bad_magic.ggmlviz": ("unsupported_version", 1, "magic"),
}
"""(code, exit code, word of the message) of files that hold nothing to show."""


@cache
def entries():
    folder = corpus_path()
    if folder is None:
        return ()
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    return tuple(e for e in index if e["format"] in FORMATS)


def named(entries):
    return [pytest.param(e, id=e["path"]) for e in entries] or [
        pytest.param(None, id="no-corpus")
    ]


CUT = {
    "npu/invalid_20_cycle_is_float_nan.json": "broken_json",
    "npu/invalid_24_truncated_json.json": "truncated_json",
}
"""Refused by strict readers; what stands before the fault opens here, and is stated."""


def is_broken(entry):
    expect = entry["expect"]
    return entry["path"] in BROKEN or expect.get("verdict") == "error"


GOOD = [e for e in entries() if not is_broken(e)]
BAD = [e for e in entries() if is_broken(e) and e["path"] not in CUT]
WARNED = [e for e in GOOD if e["expect"].get("verdict") == "warn"]


def info(run, entry):
    result = run("info", need_corpus() / entry["path"], "--json")
    return result, json.loads(result.out)


@pytest.mark.parametrize("entry", named(GOOD))
def test_reference_trace_has_the_published_counts(run, entry):
    need_corpus()
    result, facts = info(run, entry)
    expect = entry["expect"]

    assert result.code == 0, result.err
    counts = facts["counts"]
    if "rule" not in expect:
        assert counts["records"] == expect.get("events", expect.get("records"))
    if "ops" in expect:
        # The index counts records; where each has one source, two are a MUL_MAT.
        each = 2 if expect.get("layout") == "128" else 1
        assert {op: n * each for op, n in facts["ops"].items()} == expect["ops"]
    if "sources" in expect:
        assert counts["accesses"] == expect["sources"]
    if "op_table" in expect and facts["op_table"]["source"] != "format":
        assert facts["op_table"]["id"] == expect["op_table"]
    if "ts_first" in expect:
        assert facts["clock"]["origin"] == expect["ts_first"]
        last = facts["clock"]["origin"] + facts["extent"]["end"]
        assert last >= expect["ts_last"]
    if "graphs" in expect:
        assert facts["spans_by_quality"]["measured"] == expect["graphs"]
    if "bandwidth_samples" in expect:
        assert counts["counters"] > 0
    if isinstance(expect.get("tokens"), int):
        assert counts["tokens"] == expect["tokens"]
    if "cycles_total" in expect:
        assert facts["clock"]["unit"] == "cycle"


@pytest.mark.parametrize("entry", named(GOOD))
def test_reference_trace_passes_every_command(run, entry):
    path = need_corpus() / entry["path"]

    stats = run("stats", path, "--json")
    show = run("show", path, "--width", "80")
    check = run("check", path, "--json")

    assert (stats.code, show.code) == (0, 0), stats.err + show.err
    assert check.code in (0, 1)
    codes = [w["code"] for w in json.loads(check.out)["warnings"]]
    assert "inconsistent_trace" not in codes


@pytest.mark.parametrize("entry", named(BAD))
def test_broken_reference_trace_fails_as_published(run, entry):
    need_corpus()
    result, facts = info(run, entry)
    code, exit_code, word = BROKEN.get(entry["path"], (None, 1, ""))

    assert result.code == exit_code
    assert "Traceback" not in result.err
    assert "internal error" not in result.err
    assert facts["error"]["message"]
    assert word in facts["error"]["message"]
    if code is not None:
        assert facts["error"]["code"] == code


@pytest.mark.parametrize("path", CUT)
def test_cut_reference_trace_opens_up_to_the_fault_and_fails_the_check(run, path):
    file = need_corpus() / path

    verdict = run("check", file, "--strict", "--json")
    strict = run("info", file, "--json", "--option", "strict=true")

    codes = {(w["severity"], w["code"]) for w in json.loads(verdict.out)["warnings"]}
    assert ("data_loss", CUT[path]) in codes
    assert (run("info", file).code, verdict.code, strict.code) == (0, 4, 1)
    assert json.loads(strict.out)["error"]["message"]


@pytest.mark.parametrize("entry", named(WARNED))
def test_broken_rule_opens_and_fails_the_check(run, entry):
    folder = need_corpus()
    path = folder / entry["path"]

    verdict = run("check", path, "--json")

    warnings = json.loads(verdict.out)["warnings"]
    # The summaries of these files are made up.
    (warning,) = [w for w in warnings if w["code"] != "stated_figures"]
    assert (run("info", path).code, verdict.code) == (0, 1)
    assert (warning["severity"], warning["count"]) == ("error", 1)
    assert warning["code"]
    assert warning["place"]


def test_unknown_version_of_ggmlviz_is_only_a_notice(run, tmp_path):
    data = bytearray((need_corpus() / "ggmlviz/test_trace.ggmlviz").read_bytes())
    data[8] = 2
    path = tmp_path / "newer.ggmlviz"
    path.write_bytes(data)

    verdict = run("check", path, "--json", "--strict")

    notices = [
        w["code"]
        for w in json.loads(verdict.out)["warnings"]
        if w["severity"] == "notice"
    ]
    assert verdict.code == 0
    assert "unknown_version" in notices


def test_damaged_label_is_reported_and_fails_the_check(run):
    path = need_corpus() / "ggmlviz/derived/huge_label.ggmlviz"

    result = run("check", path, "--json")

    assert result.code == 1
    assert [w["code"] for w in json.loads(result.out)["warnings"]] == [
        "bad_label_length"
    ]


@pytest.mark.parametrize("name", ["truncated_mid_event", "truncated_mid_label"])
def test_cut_reference_trace_is_data_loss_with_strict(run, name):
    path = need_corpus() / f"ggmlviz/derived/{name}.ggmlviz"

    assert run("check", path).code == 0
    assert run("check", path, "--strict").code == 4


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("ggmlviz/test_trace.ggmlviz", 0),
        ("ggmlviz/empty_ggml_trace.bin", 1),
        ("npu/invalid_25_root_is_array.json", 1),
        ("tracer/graph_new_dialect.dot", 0),
        ("cuda/cuda_hook_fixed.jsonl", 0),
        ("blktrace/filefrag_sample.txt", 0),
    ],
)
def test_reference_trace_by_subprocess_exits_as_specified(shell, path, code):
    result = shell("info", need_corpus() / path, "--json")

    assert result.code == code
    assert isinstance(json.loads(result.out), dict)
    assert "Traceback" not in result.err
