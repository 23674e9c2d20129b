"""``ggscope critical-path``: figures, JSON, and which token is meant."""

import json
from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
MOE = SAMPLES / "moe-experiment"
KEYS = {
    "path", "token", "span", "wall_ns", "length_ns", "share", "is_lower_bound",
    "quality", "untimed_spans", "open_reads", "steps", "slack", "unknown",
}  # fmt: skip


def test_json_has_the_path_and_the_slack_of_every_span(run):
    value = json.loads(run("critical-path", MOE, "--token", "2", "--json").out)

    assert set(value) == KEYS
    assert value["token"] == "token 2"
    assert value["share"] == pytest.approx(value["length_ns"] / value["wall_ns"])
    assert sum(step["duration_ns"] for step in value["steps"]) == value["length_ns"]
    steps = {step["span"] for step in value["steps"]}
    slack = {one["span"]: one["slack_ns"] for one in value["slack"]}
    assert steps <= set(slack)
    assert not any(slack[span] for span in steps)
    # The last record of a pass has no end.
    assert (value["untimed_spans"], value["is_lower_bound"]) == (1, True)
    assert value["quality"] == "derived"
    assert value["unknown"] == {}


def test_slowest_token_is_the_default(run):
    value = json.loads(run("critical-path", MOE, "--json").out)

    summary = json.loads(run("summary", MOE, "--json").out)
    assert value["span"] == summary["tokens"]["slowest"]["span"]


def test_text_has_the_sum_by_op_and_thread(run):
    result = run("critical-path", MOE, "--token", "2")

    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("Critical path of token 2: at least ")
    assert any(line.split()[:1] == ["MUL_MAT_ID"] for line in lines)
    assert any(line.startswith("  thread 0") for line in lines)


@pytest.mark.parametrize("token", ["99", "MUL_MAT", ""])
def test_token_that_does_not_exist_is_an_error_that_names_some(run, token):
    result = run("critical-path", MOE, "--token", token)

    assert result.code == 2
    assert "token 0" in result.err


def test_number_of_tokens_in_both_phases_asks_for_the_phase(run):
    sample = SAMPLES / "npu-prefill-decode.json"
    known = json.loads(run("summary", sample, "--json").out)["tokens"]["slowest"]
    named = run("critical-path", sample, "--token", known["token"], "--json")

    assert json.loads(named.out)["token"] == known["token"]


@pytest.mark.parametrize(
    "code",
    ["npu_like_trace()", "empty_trace()", "spans_trace([0,0],[9,9],lane=[0,1],op=-1)"],
)
def test_what_is_not_known_is_null_with_a_reason(run, built, code):
    result = run("critical-path", built(code), "--json")
    value = json.loads(result.out)

    assert result.code == 0
    length = next(key for key in value if key.startswith("length_"))
    assert value[length] is None
    assert value["share"] is None
    assert value["unknown"][length]
    assert value["steps"] == []
    assert value["unknown"][length] in run("critical-path", built(code)).out
