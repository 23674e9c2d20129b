"""``ggscope summary``, ``diff`` and ``machine``: figures, JSON and exit codes."""

import argparse
import json
from pathlib import Path

import pytest

import ggscope
import gguf_files
from builders import llama_like_trace
from ggscope.analysis.summary import machine
from ggscope.analysis.summary.token_threads import token_threads
from ggscope.cli import values
from ggscope.model.tables import SpanFlag
from oracles import run_times
from tensor_files import Rec, encode, weight

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
LLAMA = "llama_like_trace()"


def test_summary_json_has_the_keys_that_scripts_rely_on(run, built):
    value = json.loads(run("summary", built(LLAMA), "--json").out)

    assert {
        "prompt", "generated", "prompt_per_s", "generated_per_s", "first_token_ms",
        "median_ms", "slowest",
    } <= set(value["tokens"])  # fmt: skip
    assert {"token", "ms"} <= set(value["tokens"]["slowest"])
    assert {
        "name",
        "count",
        "total_ns",
        "self_ns",
        "share",
        "bytes",
        "gib_per_s",
    } == set(value["ops"][0])
    assert {"lane", "busy", "wait", "idle"} <= set(value["threads"][0])
    assert {"bytes_per_token", "gib_per_s", "peak_gib_per_s"} == set(value["weights"])
    assert {"what", "because"} == set(value["bottleneck"])
    assert value["tokens"]["generated"] == 3
    assert value["tokens"]["prompt"] is None
    assert value["unknown"]["tokens.prompt"]


def test_a_given_peak_is_what_the_bandwidth_is_held_against(run, built):
    trace = built(LLAMA)
    value = json.loads(run("summary", trace, "--json", "--peak", "2GiB/s").out)

    assert value["weights"]["peak_gib_per_s"] == pytest.approx(2)
    assert "weights.peak_gib_per_s" not in value["unknown"]


@pytest.fixture
def model(tmp_path):
    tensors = [
        gguf_files.T("token_embd.weight", (256, 64), "f16"),
        gguf_files.T("blk.0.attn_q.weight", (256, 16), "q4_K"),
        gguf_files.T("blk.1.ffn_up_exps.weight", (256, 16, 4), "q4_K"),
    ]
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_files.encode(tensors, gguf_files.FIELDS))
    return path


def test_model_alone_is_reported_by_size_type_and_component(run, model):
    out = run("summary", model).out
    rows = {line.split("  ")[1]: line for line in out.splitlines() if "  " in line}

    # 256 * 64 halves; 256 weights of q4_K take 144 bytes.
    assert "43.2 KiB" in rows["size of tensors"]
    assert "74.0 %" in rows["f16"]
    assert "11.2 KiB, 2 tensors" in rows["q4_K"]
    assert "9.0 KiB, 1 tensor" in rows["experts"]
    assert "records no run" in out
    assert "records no ops" not in out


def test_json_of_a_model_alone_keeps_the_contract(run, model, built):
    value = json.loads(run("summary", model, "--json").out)
    of_run = json.loads(run("summary", built(LLAMA), "--json").out)

    assert set(value) == set(of_run)
    assert value["model"]["by_type"]["q4_K"] == {"tensors": 2, "bytes": 11520}
    assert value["model"]["layers"] == 2
    assert value["tokens"]["generated"] is None
    assert value["bottleneck"] == {"what": None, "because": None}
    for name in ("tokens.generated", "ops", "threads", "bottleneck"):
        assert "records no run" in value["unknown"][name]


@pytest.mark.parametrize(
    "code", [LLAMA, "npu_like_trace()", "empty_trace()", "nested_trace()"]
)
def test_what_is_null_has_a_reason(run, built, code):
    value = json.loads(run("summary", built(code), "--json").out)

    missing = {f"tokens.{k}" for k, v in value["tokens"].items() if v is None}
    missing |= {f"weights.{k}" for k, v in value["weights"].items() if v is None}
    missing |= {
        key for key in ("imbalance", "never_touched_bytes") if value[key] is None
    }
    # What bars count, and the time between them, need a second token.
    missing -= {"tokens.counts", "tokens.between_share"}
    assert missing <= set(value["unknown"])
    if value["bottleneck"]["what"] is None:
        assert value["unknown"]["bottleneck"]


def test_cycles_without_a_frequency_are_no_milliseconds(run):
    sample = SAMPLES / "npu-prefill-decode.json"
    value = json.loads(run("summary", sample, "--json").out)

    slowest = value["tokens"]["slowest"]
    assert value["tokens"]["median_ms"] is None
    assert slowest["ms"] is None
    assert slowest["total_cycles"] > 0
    assert value["unknown"]["tokens.median_ms"]


def test_summary_of_a_file_reads_as_lines(run, built):
    result = run("summary", built(LLAMA))

    assert result.code == 0
    head = result.out.splitlines()[0]
    assert head.startswith("Bottleneck")
    assert {"Tokens", "Ops", "Threads", "Weights", "Data"} <= set(
        result.out.splitlines()
    )


def test_gaps_are_the_longest_of_a_plain_loop(run, built):
    trace = built(LLAMA)
    value = json.loads(run("summary", trace, "--json", "--gaps", "7").out)

    listed = value["gaps"]
    assert {"lane", "start", "end", "duration_ns", "before", "after"} == set(listed[0])
    expected = sorted((b - a for _, a, b in run_times.gaps(llama_like_trace())))[::-1]
    assert [gap["duration_ns"] for gap in listed] == expected[:7]
    assert all(gap["end"] - gap["start"] == gap["duration_ns"] for gap in listed)
    assert "gaps" not in json.loads(run("summary", trace, "--json").out)
    text = run("summary", trace, "--gaps", "7").out
    assert listed[0]["before"] in text
    assert listed[0]["after"] in text


def test_slowest_tokens_have_the_times_of_each_thread(run, built):
    trace = built(LLAMA)
    value = json.loads(run("summary", trace, "--json", "--tokens", "2").out)

    threads = token_threads(llama_like_trace(), limit=2)
    listed = value["slowest_tokens"]
    assert threads.busy is not None
    assert [one["total_ns"] for one in listed] == threads.bars.duration.tolist()
    assert [one["span"] for one in listed] == threads.bars.span.tolist()
    for row, one in enumerate(listed):
        assert [lane["lane"] for lane in one["threads"]] == list(threads.lanes)
        busy = [lane["busy_ns"] for lane in one["threads"]]
        assert busy == threads.busy[row].tolist()
        # Derived ends hide idle time, and no waits are recorded.
        assert {lane["idle_ns"] for lane in one["threads"]} == {None}
        assert {lane["wait_ns"] for lane in one["threads"]} == {None}
    assert {"slowest_tokens.idle", "slowest_tokens.wait"} <= set(value["unknown"])
    assert "slowest_tokens" not in json.loads(run("summary", trace, "--json").out)
    text = run("summary", trace, "--tokens", "2").out
    assert listed[0]["token"] in text
    assert "thread 1" in text


def test_imbalance_by_op_is_reported_where_times_are_measured(run, built):
    flags = f"[0,{int(SpanFlag.REPEATED)}]"
    even = built(f"spans_trace([0,0],[30,10],[0,1],op=1,name=-1,flags={flags})")
    value = json.loads(run("summary", even, "--json").out)["imbalance_by_op"]
    derived = json.loads(run("summary", built(LLAMA), "--json").out)

    assert [one["n"] for one in value] == [1]
    assert [one["max_over_mean"] for one in value] == [1.5]
    assert [(one["lost_ns"], one["worst_span"]) for one in value] == [(10.0, 0)]
    assert derived["imbalance_by_op"] is None
    assert derived["unknown"]["imbalance_by_op"]


def test_gaps_that_derived_ends_hide_are_null_with_a_reason(run, built):
    trace = built("spans_trace([0,10],[10,30],op=1,flags=2)")
    value = json.loads(run("summary", trace, "--json", "--gaps", "3").out)

    assert value["gaps"] is None
    assert "derived" in value["unknown"]["gaps"]
    assert value["barriers"]["n"] is None
    assert value["unknown"]["barriers.n"]
    assert value["unknown"]["gaps"] in run("summary", trace, "--gaps", "3").out


def test_gaps_that_are_not_there_are_an_empty_list(run, built):
    trace = built("spans_trace([0,10],[10,30],op=1)")

    assert json.loads(run("summary", trace, "--json", "--gaps", "3").out)["gaps"] == []
    assert run("summary", trace, "--gaps", "0").code == 2


def test_diff_of_a_trace_and_itself_is_equal(run, built):
    trace = built(LLAMA)

    result = run("diff", trace, trace, "--json")

    value = json.loads(result.out)
    assert result.code == 0
    assert value["comparable"]
    assert value["aligned_by"] == "token"
    assert (value["only_a"], value["only_b"]) == ([], [])
    assert value["matched"] == len(value["rows"]) > 0
    assert {row["change"] for row in value["rows"]} == {0}
    assert {row["relative"] for row in value["rows"]} == {0}


def written(path: Path, *durations: int, layers: tuple[int, ...] = ()) -> Path:
    """Write a run whose ops begin a millisecond apart and are measured."""
    path.parent.mkdir(exist_ok=True)
    layers = layers or (0,) * len(durations)
    records = [
        Rec(
            10**12 + 10**6 * i, f"Qcur-{layer}", layer=layer, duration=ticks,
            sources=(weight(f"blk.{layer}.attn_q.weight", 0),),
        )
        for i, (ticks, layer) in enumerate(zip(durations, layers, strict=True))
    ]  # fmt: skip
    path.write_bytes(encode(records, "256"))
    return path


def test_diff_of_runs_that_differ_ends_with_1(run, tmp_path):
    a = written(tmp_path / "a.bin", 1_000, 2_000)
    b = written(tmp_path / "b.bin", 1_000, 5_000)

    result = run("diff", a, b)

    assert result.code == 1
    assert "B takes" in result.out
    (row,) = json.loads(run("diff", a, b, "--json").out)["rows"]
    assert (row["a"], row["b"], row["change"]) == (3_000, 6_000, 3_000)
    assert (row["relative"], row["within_noise"]) == (1.0, None)


def test_groups_of_one_side_are_rows_in_json(run, tmp_path):
    a = written(tmp_path / "a.bin", 100, 5_000, 300, layers=(0, 1, 2))
    b = written(tmp_path / "b.bin", 200, 400, layers=(0, 2))

    value = json.loads(run("diff", a, b, "--by", "layer", "--json").out)

    assert value["matched"] == 2
    (key,) = value["only_a"]
    row = value["rows"][0]
    assert (row["key"], row["a"], row["b"], row["change"]) == (key, 5_000, None, -5_000)
    assert (row["relative"], row["within_noise"]) == (None, None)
    assert (row["only_in"], row["absence"]) == ("a", "not_stated")
    assert all(other["absence"] is None for other in value["rows"][1:])
    assert run("diff", a, b, "--by", "layer").out.count("only in A") == 1


def test_changes_within_the_tolerance_are_equal(run, tmp_path):
    a = written(tmp_path / "a.bin", 10_000, 10_000)
    b = written(tmp_path / "b.bin", 10_100, 10_100)

    assert run("diff", a, b).code == 1
    assert run("diff", a, b, "--tol", "latency=1%").code == 0
    assert run("diff", a, b, "--tol", "latency=0.9%,bw=1%").code == 1


@pytest.mark.parametrize("other", ["npu_like_trace()", "empty_trace()", None])
def test_what_cannot_be_compared_ends_with_2(run, built, tmp_path, other):
    bad = tmp_path / "text.txt"
    bad.write_text("nothing")
    path = str(bad) if other is None else built(other)

    result = run("diff", built(LLAMA), path, "--json")

    value = json.loads(result.out)
    assert result.code == 2
    assert not value["comparable"]
    assert value["reason"]


def test_what_has_no_common_clock_has_shares_and_no_changes(run, built):
    sides = built(LLAMA), built("npu_like_trace()")

    result = run("diff", *sides, "--json")

    value = json.loads(result.out)
    assert value["rows"] == value["parts"] == []
    assert value["elapsed"]["change"] is None
    by_key = {row["key"]: row for row in value["shares"]}
    assert set(value["only_a"]) <= set(by_key)
    only = [by_key[key] for key in value["only_a"]]
    assert all(row["a_count"] and not row["b_count"] for row in only)
    assert all(key in run("diff", *sides).out for key in value["only_a"])


def test_whole_recordings_hide_nothing_in_json(run, built):
    trace = built(LLAMA)

    value = json.loads(run("diff", trace, trace, "--json").out)

    nothing = {"tokens": None, "ops": None, "threads": None}
    assert value["partial"] == {"a": nothing, "b": nothing}
    assert value["untimed"] == value["differences"] == []


def test_folders_of_runs_are_sides_of_several_runs(run, tmp_path):
    for side, ticks in (("a", (100, 120)), ("b", (110, 130))):
        for number, duration in enumerate(ticks):
            written(tmp_path / side / f"run{number}.bin", duration, duration)

    result = run("diff", tmp_path / "a", tmp_path / "b", "--json")

    value = json.loads(result.out)
    assert [len(value[side]) for side in "ab"] == [2, 2]
    (row,) = value["rows"]
    assert (row["a_spread"], row["b_spread"]) == ([200, 240], [220, 260])
    assert row["within_noise"] is True
    assert result.code == 0


@pytest.mark.parametrize(
    ("text", "rate"),
    [("50GiB/s", 50 * 2**30), ("20 GB/s", 20e9), ("1e9", None),
     ("512", 512.0), ("-3GB", None), ("0", None), ("x", None)],
)  # fmt: skip
def test_rates_are_understood_or_refused(text, rate):
    if rate is None:
        with pytest.raises(argparse.ArgumentTypeError):
            values.byte_rate(text)
    else:
        assert values.byte_rate(text) == rate


@pytest.mark.parametrize("text", ["latency", "bw=-1%", "speed=1%", "latency=x"])
def test_wrong_tolerances_are_usage_errors(run, built, text):
    trace = built(LLAMA)

    assert run("diff", trace, trace, "--tol", text).code == 2


def test_what_was_measured_is_found_again(tmp_path, monkeypatch):
    peak = machine.MachinePeak(
        machine.platform.node(), machine.cpu_model(), 2, 1e10, 1e11, 1.0
    )
    path = machine.store(peak, tmp_path)

    assert machine.stored(tmp_path) == peak
    path.write_bytes(b"{broken")
    assert machine.stored(tmp_path) is None
    machine.store(machine.MachinePeak("elsewhere", "x", 2, 1e10, 1e11, 1.0), tmp_path)
    assert machine.stored(tmp_path) is None
    assert machine.stored(Path(tmp_path / "nothing")) is None


def test_the_machine_is_measured(monkeypatch):
    monkeypatch.setattr(machine, "_BYTES", 1 << 20)
    monkeypatch.setattr(machine, "_STEPS", 1 << 10)

    peak = machine.measure(1)

    assert peak.n_threads == 1
    assert peak.read > 0
    assert peak.flops > 0


def test_summary_and_comparison_are_those_of_the_command_line(run) -> None:
    path = SAMPLES / "tinyllama-256.bin"
    trace = ggscope.open(path)

    summary = ggscope.summary(trace)
    table = ggscope.compare(trace, trace, by="layer", tolerance=0.01)

    printed = json.loads(run("summary", str(path), "--json").out)
    assert {"path": str(path), **json.loads(json.dumps(summary))} == printed
    command = ("diff", str(path), str(path), "--by", "layer", "--tol", "latency=1%")
    compared = json.loads(run(*command, "--json").out)
    assert table.to_json()["rows"] == compared["rows"]
    assert len(table) == len(compared["rows"]) > 5
    assert set(table.columns()["change"]) == {0}
