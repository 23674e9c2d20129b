"""``ggscope info``: the JSON contract, the text and the reports."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ggmlviz_files
import npu_files
import recordings
import storage_files
from builders import finished, llama_like_trace, npu_like_trace
from ggmlviz_files import ALLOC, FREE
from ggscope.cli.info.facts import describe
from ggscope.cli.info.text import info_text
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind
from ggscope.model.units import Clock
from reader_files import valid_file
from statements import new_statement, new_statements
from support import ROOT
from tensor_files import Rec, encode, llama_pass, llama_trace, weight

KEYS = {
    "path",
    "reader",
    "format",
    "format_version",
    "clock",
    "extent",
    "counts",
    "spans_by_quality",
    "lanes",
    "ops",
    "op_table",
    "experts",
    "warnings",
}
COUNTS = {
    "op_records",
    "graph_records",
    "records",
    "spans",
    "markers",
    "accesses",
    "counters",
    "tokens",
    "passes",
    "tensors",
    "buffers",
    "graphs",
    "graph_nodes",
    "graph_edges",
    "graph_leaves",
    "graph_dangling",
    "tensor_slices",
    "prompt_tokens",
    "generated_tokens",
    "decodes",
    "sequences",
}


@pytest.mark.parametrize("name", ["llama_like_trace", "npu_like_trace", "empty_trace"])
def test_info_json_has_every_key_of_the_contract(run, built, name):
    result = run("info", built(name), "--json")

    facts = json.loads(result.out)
    assert result.code == 0
    assert set(facts) >= KEYS
    assert set(facts["counts"]) == COUNTS
    assert set(facts["clock"]) >= {"unit", "origin"}
    assert set(facts["extent"]) == {"start", "end", "duration"}
    assert set(facts["spans_by_quality"]) == {
        "measured",
        "derived",
        "estimated",
        "unfinished",
    }
    for lane in facts["lanes"]:
        assert set(lane) == {"id", "name", "kind", "group", "spans"}


def test_info_json_counts_what_the_trace_holds(run, built):
    trace = llama_like_trace()

    facts = json.loads(run("info", built(), "--json").out)

    counts = facts["counts"]
    assert counts["spans"] == len(trace.spans)
    assert counts["accesses"] == len(trace.accesses)
    assert (counts["tokens"], counts["passes"], counts["markers"]) == (4, 4, 2)
    assert (counts["counters"], counts["tensors"]) == (1, len(trace.tensors))
    assert sum(lane["spans"] for lane in facts["lanes"]) == counts["spans"]
    assert facts["ops"]["MUL_MAT"] == 128
    assert sum(facts["ops"].values()) == int((trace.spans.op >= 0).sum())
    assert facts["op_table"] == {"id": "test-12", "source": "declared", "margin": None}
    assert facts["experts"] is None
    assert facts["warnings"] == []
    assert facts["extent"]["duration"] == trace.extent.duration


def test_info_json_of_cycles_names_the_unit_and_no_op_table(run, built):
    facts = json.loads(run("info", built("npu_like_trace"), "--json").out)

    assert facts["clock"] == {
        "unit": "cycle",
        "origin": 1000,
        "hz": 1e9,
        "epoch_ns": None,
        "axis": "time",
    }
    assert facts["op_table"] is None
    assert facts["counts"]["tokens"] == 2
    assert {lane["kind"] for lane in facts["lanes"]} >= {"engine", "stall", "token"}
    assert facts["lanes"][0]["group"] == list(npu_like_trace().lanes[0].group)


@pytest.mark.parametrize(("passes", "tokens"), [(0, 3), (2, 2)])
def test_token_numbers_count_once_per_phase_unless_there_are_passes(passes, tokens):
    builder = TraceBuilder()
    lane = builder.add_lane("tokens", LaneKind.TOKEN)
    other = builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_spans(
        start=np.arange(5),
        end=np.arange(5) + 1,
        lane=np.array([lane, lane, lane, lane, other], np.int32),
        token=np.array([0, 0, 1, -1, 9], np.int32),
        phase=np.array([0, 1, 1, 1, 1], np.int8),
    )
    trace = finished(builder, n_passes=passes)

    assert describe(trace, Path("x"))["counts"]["tokens"] == tokens


@pytest.mark.parametrize("reader", ["trace-json", "graph-json", "graph-dot"])
def test_files_that_spell_their_ops_declare_no_op_table(run, tmp_path, reader):
    path = valid_file(reader, tmp_path)

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    assert facts["op_table"] is None
    assert "op table" not in text


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (0, "the first event is at 1,000\n"),
        (-28, "time 0 is at 1,000; the first event is 28 ns before it, at 972\n"),
        (5, "time 0 is at 1,000; the first event is 5 ns after it, at 1,005\n"),
    ],
)
def test_info_says_where_the_first_event_is(first, text):
    builder = TraceBuilder()
    lane = builder.add_lane("thread 0", LaneKind.THREAD)
    builder.clock = Clock("ns", 1000)
    builder.add_spans(
        start=np.array([first, 50]), end=np.array([60, 70]), lane=np.full(2, lane)
    )
    trace = finished(builder)

    assert text in info_text(trace, describe(trace, Path("x")))


def test_info_json_of_an_empty_trace_is_zeros(run, built):
    facts = json.loads(run("info", built("empty_trace"), "--json").out)

    of_batches = ("prompt_tokens", "generated_tokens", "decodes", "sequences")
    assert [facts["counts"].pop(name) for name in of_batches] == [None] * 4
    assert set(facts["counts"].values()) == {0}
    assert facts["extent"] == {"start": 0, "end": 0, "duration": 0}
    assert (facts["lanes"], facts["ops"]) == ([], {})


def test_info_json_lists_warnings(run, built):
    facts = json.loads(run("info", built("empty_trace", "DATA_LOSS"), "--json").out)

    (warning,) = facts["warnings"]
    assert warning["severity"] == "data_loss"
    assert warning["code"] == "data_loss_code"
    assert (warning["count"], warning["offset"]) == (2, 17)


def test_info_json_of_several_files_is_a_list_and_the_worst_code(run, built, tmp_path):
    strange = tmp_path / "strange.bin"
    strange.write_bytes(b"\x7fELF....")

    result = run("info", built(), strange, built("cut"), "--json")

    good, unknown, cut = json.loads(result.out)
    assert result.code == 3
    assert good["reader"] == "builder"
    assert unknown["error"]["code"] == "unknown_format"
    assert cut["error"] == {
        "code": "truncated",
        "message": "the file ends early.",
        "offset": 5,
        "reader": "builder",
        "hint": "",
    }
    assert result.err.count("ggscope:") == 2


def test_info_text_names_the_main_figures(run, built):
    result = run("info", built("llama_like_trace", "NOTICE"))

    assert result.code == 0
    for part in (
        "llama_like_trace.built",
        "Threads / thread 0",
        "MUL_MAT",
        "36.4 %",
        "186 measured, 176 derived",
        "op table",
        "test-12 (declared)",
        "notice  notice_code (2 times)",
        "at here, byte 17 (0x0011)",
        "Do it again.",
    ):
        assert part in result.out
    assert "\x1b" not in result.out


def test_info_text_of_an_empty_trace_says_so(run, built):
    result = run("info", built("empty_trace"))

    assert "No records" in result.out
    assert "No problems found." in result.out


def test_info_cuts_long_lists(run, built):
    result = run("info", built("random_trace(1,200,lanes=60)"))

    assert result.code == 0
    assert "… and 20 more" in result.out


def test_message_says_where_the_file_is(run, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = tmp_path / "a" / "t.bin", tmp_path / "b" / "t.bin"
    for path in (first, second):
        path.write_bytes(b"no trace")

    result = run("info", first, second)

    assert str(first) in result.err
    assert str(second) in result.err


def test_reader_fault_is_an_error_without_traceback(run, built):
    result = run("info", built("crash"))

    assert result.code == 1
    assert "the reader builder failed: IndexError" in result.err
    assert "Traceback" not in result.err


def test_option_reaches_the_reader(run, built):
    result = run("info", built(), "--option", "tokens=7", "--json")

    assert json.loads(result.out)["counts"]["tokens"] == 7


def test_named_format_is_used_and_an_unknown_one_refused(run, built):
    assert run("info", built(), "--format", "builder").code == 0
    result = run("info", built(), "--format", "nonsense")

    assert result.code == 3
    assert "Known readers: " in result.err


def test_formats_list_a_dropped_plugin(run, plugin_folder):
    (plugin_folder / "broken.py").write_text("1/0")

    result = run("info", "--formats")

    assert result.code == 0
    assert "built by a test" in result.out
    assert ".built" in result.out
    assert "failed: ZeroDivisionError" in result.out
    assert str(plugin_folder) in result.out
    assert "--option tokens=" in result.out


def test_readers_json_keeps_its_keys(run, plugin_folder):
    (plugin_folder / "broken.py").write_text("1/0")

    listed = json.loads(run("readers", "--json").out)

    for reader in listed:
        assert set(reader) >= {"id", "title", "suffixes", "origin", "status"}
    by_id = {reader["id"]: reader for reader in listed}
    assert by_id["builder"]["origin"] == "plug-in"
    assert by_id["builder"]["status"] == "ok"
    assert by_id[None]["status"].startswith("failed: ZeroDivisionError")
    assert by_id["ggmlviz"]["origin"] == "built-in"


def test_safe_mode_lists_no_plugins(run):
    usual = run("readers")
    result = run("readers", "--safe-mode")

    assert "builder" not in result.out
    assert new_statement(result.out, usual.out)
    assert new_statements(usual.out, result.out)


def test_system_report_names_versions_and_readers(shell):
    result = shell("info", "--system", "--json")

    report = json.loads(result.out)
    assert result.code == 0
    assert set(report) >= {"program", "system", "packages", "graphics", "readers"}
    assert report["packages"]["numpy"][0].isdigit()
    assert report["readers"]["builder"] == "plug-in, ok"
    assert "no display" in report["graphics"]["OpenGL"]


def test_system_report_is_readable(run, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    result = run("info", "--system")

    assert result.code == 0
    for title in ("program", "system", "packages", "graphics", "readers"):
        assert f"{title}\n  " in result.out
    assert "not asked: there is no display" in result.out


def test_system_report_asks_the_driver_where_there_is_a_display(run, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":987")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")

    result = run("info", "--system")

    assert result.code == 0
    assert "OpenGL" in result.out.split("graphics")[1]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), None),
        (
            ("blk.{}.ffn_up_exps.weight",),
            {
                "layers": 3,
                "experts": None,
                "accesses": 6,
                "choices": 0,
                "ranked": 0,
                "implied": 0,
            },
        ),
        (
            ("blk.{}.ffn_up.4.weight", "blk.{}.expert_7.w"),
            {
                "layers": 3,
                "experts": 2,
                "accesses": 6,
                "choices": 0,
                "ranked": 0,
                "implied": 0,
            },
        ),
    ],
)
def test_info_reports_experts_that_names_mention(run, tmp_path, names, expected):
    records = llama_pass(10**12, n_layers=3)
    last = records[-1].time
    for layer in range(3):
        for i, name in enumerate(names * (2 // max(len(names), 1))):
            sources = (weight(name.format(layer), layer),)
            when = last + 1000 * (layer * 2 + i + 1)
            records.append(Rec(when, f"ffn_moe_up-{layer}", 29, sources, layer=layer))
    path = tmp_path / "t.bin"
    path.write_bytes(encode(records, "1024"))

    facts = json.loads(run("info", path, "--json").out)

    assert facts["experts"] == expected


def test_sources_of_ops_are_counted_as_records_show_them(run, tmp_path):
    """The first tracer's own figures: 42 ops without a source, 276 with one …"""
    counts = {0: 42, 1: 276, 2: 198, 3: 66}
    numbers = [n for n, times in counts.items() for _ in range(times)]
    records = [
        Rec(1000 * i, f"t-{i % 7}", 2, tuple(weight(f"blk.{k}.w") for k in range(n)))
        for i, n in enumerate(numbers)
    ]
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(records, "256"))

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    assert facts["sources"] == {str(n): times for n, times in counts.items()}
    assert "42 with none, 276 with 1, 198 with 2, 66 with 3" in text


def test_ends_of_edges_that_nobody_declares_are_no_nodes_of_graphs(run, tmp_path):
    path = tmp_path / "graph.dot"
    nodes = '"0xa1" [label="leaf_0"]\n"0xa2" [label="node_0"]\n"0xa3" [label="node_1"]'
    edges = '"0xa1" -> "0xa2"\n"0xa2" -> "0xa3"\n"0xdead" -> "0xa3"'
    path.write_text(f"digraph G {{\n{nodes}\n{edges}\n}}\n")

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    (graph,) = facts["graphs"]
    values = [graph[key] for key in ("nodes", "dangling", "edges")]
    assert values == [3, 1, 3]
    counts = facts["counts"]
    assert (counts["graph_nodes"], counts["graph_dangling"]) == (3, 1)
    assert "dangling ends" in text


def test_events_are_counted_by_type(run, tmp_path):
    events = ggmlviz_files.run()
    path = ggmlviz_files.write(tmp_path / "run.ggmlviz", events)
    names = ("GRAPH_BEGIN", "GRAPH_END", "OP_BEGIN", "OP_END")

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    counts = Counter(names[event.kind] for event in events)
    assert facts["events"] == dict(counts)
    assert sum(facts["events"].values()) == facts["counts"]["records"]
    assert f"{counts['OP_BEGIN']} OP_BEGIN" in text


def test_text_of_a_format_with_tables_in_its_counts_leaves_them_out(run, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(storage_files.blkparse(storage_files.random_io(1, 12)))

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    assert facts["events"]["actions"]["D"] == facts["events"]["requests"]
    assert f"{facts['events']['requests']} requests" in text


def test_memory_lists_peak_leaks_and_mistaken_frees(run, tmp_path):
    steps = [
        (ALLOC, 0xA, 100), (ALLOC, 0xB, 50), (FREE, 0xA, 0), (ALLOC, 0xC, 30),
        (FREE, 0xA, 0), (FREE, 0xD, 0), (FREE, 0xC, 0),
    ]  # fmt: skip
    events = [
        ggmlviz_files.Event(kind, 1000 + 10 * i, pointer, 0, size)
        for i, (kind, pointer, size) in enumerate(steps)
    ]
    path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)

    value = json.loads(run("info", path, "--json").out)["memory"]["Tensor memory"]
    text = run("info", path).out

    assert (value["peak_bytes"], value["peak_at"]) == (150, 10)
    assert [(a["pointer"], a["bytes"]) for a in value["peak"]] == [
        ("0xa", 100), ("0xb", 50),
    ]  # fmt: skip
    assert [(a["pointer"], a["at"]) for a in value["leaks"]] == [("0xb", 10)]
    assert [(a["pointer"], a["at"]) for a in value["double_frees"]] == [("0xa", 40)]
    assert [(a["pointer"], a["at"]) for a in value["stray_frees"]] == [("0xd", 50)]
    assert "peak 150 B in 2 allocations, 1 never freed, 1 freed twice" in text
    numbers = [value[key] for key in ("leaked", "double_freed", "stray_freed")]
    assert numbers == [1, 1, 1]
    assert (value["reused"], value["reuses"]) == (0, [])


def test_pointers_of_memory_problems_are_named_and_bounded(run, tmp_path):
    """Allocated and freed at random: the lists are those of a plain replay."""
    rng, steps = np.random.default_rng(7), []
    for _ in range(4000):
        kind = ALLOC if rng.random() < 0.6 else FREE
        steps.append((kind, int(rng.integers(1, 60)) * 16, 8 * int(rng.integers(1, 9))))
    events = [
        ggmlviz_files.Event(kind, 1000 + i, pointer, 0, size if kind == ALLOC else 0)
        for i, (kind, pointer, size) in enumerate(steps)
    ]
    alive, known, freed, level, peak = {}, set(), set(), 0, 0
    doubles, strays, reused = [], [], []
    for i, (kind, pointer, size) in enumerate(steps):
        if kind == ALLOC:
            reused += [(hex(pointer), i)] if pointer in known else []
            level += size - alive.pop(pointer, (0, 0))[0]
            alive[pointer] = (size, i)
            known.add(pointer)
            peak = max(peak, level)
        elif pointer in alive:
            level -= alive.pop(pointer)[0]
        else:
            (doubles if pointer in known | freed else strays).append((hex(pointer), i))
            freed.add(pointer)
    path = ggmlviz_files.write(tmp_path / "memory.ggmlviz", events)

    facts = json.loads(run("info", path, "--json").out)

    value = facts["memory"]["Tensor memory"]
    assert value["peak_bytes"] == peak
    assert {(a["pointer"], a["bytes"], a["at"]) for a in value["leaks"]} == {
        (hex(pointer), size, i) for pointer, (size, i) in alive.items()
    }
    for key, n, expected in (
        ("double_frees", "double_freed", doubles),
        ("stray_frees", "stray_freed", strays),
        ("reuses", "reused", reused),
    ):
        assert value[n] == len(expected)
        pairs = [(a["pointer"], a["at"]) for a in value[key]]
        assert pairs == expected[:1000]
    texts = {w["code"]: w["message"] for w in facts["warnings"]}
    names = list(dict.fromkeys(p for p, _ in doubles))
    assert ", ".join(names[:8]) + f" and {len(names) - 8} more." in texts["double_free"]
    assert "0x" in texts["pointers_reused"]


def test_share_of_stalled_time_counts_each_cycle_once(run, tmp_path):
    events = [
        npu_files.engine(0, 200),
        npu_files.stall(10, 40),
        npu_files.stall(30, 50, reason="backpressure"),
        npu_files.stall(60, 70, master="DMA"),
    ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(npu_files.document(*events)))

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    by_lane = {stall["lane"]: stall for stall in facts["stalls"]}
    assert by_lane["TE 0 stalls"]["stalled"] == 40
    assert by_lane["TE 0 stalls"]["share"] == 0.2
    assert by_lane["TE 0 stalls"]["reasons"] == {"queue_full": 30, "backpressure": 20}
    assert by_lane["DMA 0 stalls"]["share"] == 0.05
    assert "20.0 %  queue_full 30 cyc, backpressure 20 cyc" in text


def test_traces_without_them_have_no_such_sections(run, built):
    facts = json.loads(run("info", built(), "--json").out)

    assert (facts["events"], facts["memory"], facts["stalls"]) == ({}, None, [])
    assert (facts["sources"], facts["stated"]) == ({}, [])


def test_op_tables_are_listed_and_chosen_by_id_or_date(run, tmp_path):
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(llama_trace(), "256"))
    listed = json.loads(run("readers", "--ops", "--json").out)
    text = run("readers", "--ops").out

    assert {"id", "since", "until", "ops"} == listed[0].keys()
    assert all(row["id"] in text for row in listed)
    for era in (listed[4]["id"], listed[4]["since"], listed[4]["since"][:7]):
        result = run("info", path, "--ops", era, "--json")
        table = json.loads(result.out)["op_table"]
        assert (table["id"], table["source"]) == (listed[4]["id"], "override")
    names = [set(json.loads(run("info", path, "--ops", era, "--json").out)["ops"])
             for era in ("2024-09", "2025-11")]  # fmt: skip
    assert names[0] != names[1]
    refused = run("info", path, "--ops", "1999-01")
    assert (refused.code, refused.out) == (1, "")
    assert "readers --ops" in refused.err


def test_unknown_op_has_one_name_in_info_stats_and_filters(run, tmp_path):
    records = [replace(r, op=200) if r.op == 94 else r for r in llama_trace()]
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(records, "256"))
    n = sum(r.op == 200 for r in records)

    ops = json.loads(run("info", path, "--json").out)["ops"]
    rows = json.loads(run("stats", path, "--by", "op", "--json").out)["rows"]

    assert ops["OP_200?"] == n
    assert {row["key"]: row["count"] for row in rows}["OP_200?"] == n
    for where in ("op=unknown", "op=OP_200?", "op=op#200"):
        rows = json.loads(run("stats", path, "--where", where, "--json").out)["rows"]
        assert [(row["key"], row["count"]) for row in rows] == [("OP_200?", n)]


def test_stated_figures_are_listed_with_their_verdicts(run, tmp_path):
    value = npu_files.document(
        npu_files.engine(0, 80),
        npu_files.engine(80, 100, engine="VE"),
        summary_metrics={
            "cycles_total": 100,
            "te": {"per_engine": [{"id": 0, "utilization": 0.5}]},
        },
    )
    path = tmp_path / "run.json"
    path.write_text(json.dumps(value))

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out
    check = run("check", path)

    by_name = {figure["name"]: figure for figure in facts["stated"]}
    assert by_name["cycles total"]["agrees"] is True
    contradicted = by_name["TE 0 utilization"]
    assert (
        contradicted["stated"],
        contradicted["computed"],
        contradicted["agrees"],
    ) == (0.5, 0.8, False)
    assert contradicted["place"] == "summary_metrics.te.per_engine[0].utilization"
    assert "50.0 %      80.0 %  contradicts" in text
    assert "good, but figures that it states do not match its content" in check.out
    assert check.code == 0


def test_latency_and_busy_engines_are_those_of_the_simulators_events(run) -> None:
    path = ROOT / "resources" / "samples" / "npu-prefill-decode.json"
    events = json.loads(path.read_text())["timeline_events"]
    took: dict[str, list[int]] = {"PREFILL": [], "DECODE": []}
    for event in events:
        if event["type"] == "TOKEN_EVENT":
            took[event["phase"]].append(event["end_cycle"] - event["start_cycle"])

    facts = json.loads(run("info", path, "--json").out)

    prompt, generate = facts["latency"]
    assert (prompt["phase"], generate["phase"]) == ("prompt", "generate")
    assert (prompt["mean"], prompt["spans"]) == (took["PREFILL"][0], 1)
    assert generate["mean"] == round(np.mean(took["DECODE"]), 1)
    assert generate["spans"] == generate["tokens"] == len(took["DECODE"]) > 4
    # Cycles of unknown length: no seconds are made up.
    assert (prompt["tokens"], generate["tokens_per_s"]) == (None, None)
    stated = {figure["name"]: figure["stated"] for figure in facts["stated"]}
    busy = {engine["lane"]: engine["busy"] for engine in facts["engines"]}
    for lane in ("TE 0", "TE 1", "VE 0", "VE 1"):
        assert busy[lane] == stated[f"{lane} active cycles"]


def test_tokens_per_second_and_slow_tokens_are_those_of_stats(run) -> None:
    path = ROOT / "resources" / "samples" / "tinyllama-256.bin"
    rows = json.loads(run("stats", path, "--by", "token", "--json").out)["rows"]
    latency = {row["key"]: row["latency_ns"] for row in rows}

    (prompt, generate) = json.loads(run("info", path, "--json").out)["latency"]

    generated = [time for key, time in latency.items() if key != "0"]
    assert (prompt["slowest"], prompt["max"]) == ("0", latency["0"])
    assert latency[generate["slowest"]] == generate["max"] == max(generated)
    assert generate["median"] == np.median(generated)
    assert generate["tokens_per_s"] == pytest.approx(14 / (sum(generated) / 1e9))
    assert (generate["n_slow"], generate["slow"]) == (0, [])


def test_calls_of_each_decode_add_up_to_its_time(run, tmp_path) -> None:
    calls = [("decode", 0, 90), ("compute", 10, 80), ("sample", 95, 99)]
    host = [
        {
            "kind": kind, "tid": 1, "begin": recordings.T0 + begin,
            "end": recordings.T0 + end, "context": 1, "bytes": None, "ubatch": None,
            "count": None,
        }
        for kind, begin, end in [*calls, ("decode", 100, 150)]
    ]  # fmt: skip
    path = recordings.recording(tmp_path, host=host)

    data = json.loads(run("info", path, "--json").out)["calls"]

    assert (data["time"], data["decodes"], data["between"]) == (150, 2, 6)
    own = {call["name"]: call["own"] for call in data["calls"]}
    assert own == {"compute": 70, "decode": 20 + 50, "sample": 4}
    first, second = data["per_decode"]
    assert first["calls"] == {"compute": 70, "decode": 20, "sample": 4}
    assert (first["time"], first["between"]) == (100, 6)
    assert (second["time"], second["calls"]["decode"]) == (50, 50)


def test_cores_and_migrations_of_threads_are_those_of_the_records(run, tmp_path):
    sample = ROOT / "resources" / "samples" / "tinyllama-256.bin"
    path = recordings.recording(tmp_path)
    rows = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 256).copy()
    core = rows[:, 252:256].view("<u4").ravel()
    is_first = core != recordings.NO_CORE
    core[is_first] = 3 + np.arange(is_first.sum()) // 2 % 2
    rows[:, 252:256] = core[:, None].view(np.uint8)
    path.write_bytes(rows.tobytes())
    is_op = rows[:, 16] < 0xF0
    time = rows[:, :8].copy().view("<u8").ravel()
    own = core[np.flatnonzero(is_first & is_op)[np.argsort(time[is_first & is_op])]]

    lanes = json.loads(run("info", path, "--json").out)["lanes"]
    text = run("info", path).out

    assert [lane["name"] for lane in lanes if "cores" in lane] == ["thread 0"]
    (first,) = (lane for lane in lanes if "cores" in lane)
    assert first["cores"] == [3, 4]
    assert first["migrations"] == np.count_nonzero(np.diff(own.astype(int))) > 0
    assert "migrations" in text
    assert "migrations" not in run("info", sample).out


def test_graphs_of_a_recording_without_records_are_no_records(run, tmp_path):
    path = recordings.recording(tmp_path, records=0, settings={"op_timing": False})
    path.write_bytes(b"")

    counts = json.loads(run("info", path, "--json").out)["counts"]
    (row,) = (r for r in run("info", path).out.splitlines() if r.startswith("records"))

    n = recordings.N_GRAPHS
    assert (counts["op_records"], counts["graph_records"]) == (0, n)
    assert row.split()[1] == "none"
    assert str(n) in row
