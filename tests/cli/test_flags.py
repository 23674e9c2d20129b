"""``ggscope flags``: what it prints, its JSON, and the file that it writes."""

import json
import shlex

import pytest

from ggscope.analysis.flags import UNKNOWN_FLAGS

MOE = "moe_reads()"


def test_each_flag_says_what_it_rests_on(run, built):
    value = json.loads(run("flags", built(MOE), "--vram", "20000", "--json").out)

    assert value["vram_bytes"] == 20000
    assert value["unknown"] == {}
    for name in UNKNOWN_FLAGS:
        assert value[name]["rests_on"]["quality"] in ("measured", "derived")
        assert value[name]["rests_on"]["text"]
    assert value["n_cpu_moe"]["value"] == 3
    assert value["threads"]["value"] == 1
    placement = value["override_tensor"]
    assert placement["device_bytes"] <= 20000
    assert placement["tensors_with_unknown_reads"] == 0


@pytest.mark.parametrize("code", [MOE, "npu_like_trace()", "empty_trace()"])
def test_what_is_null_has_a_reason(run, built, code):
    value = json.loads(run("flags", built(code), "--json").out)

    missing = {name for name in UNKNOWN_FLAGS if value[name] is None}
    assert missing == set(value["unknown"])
    assert {"override_tensor", "n_cpu_moe"} <= missing  # no size is given


def test_lines_can_be_pasted_into_a_shell(run, built):
    trace = built(MOE)
    value = json.loads(run("flags", trace, "--vram", "20000", "--json").out)

    lines = run("flags", trace, "--vram", "20000").out.splitlines()

    arguments = [shlex.split(line) for line in lines if line.startswith("-")]
    assert dict(arguments) == {
        "-ot": value["override_tensor"]["value"],
        "--n-cpu-moe": "3",
        "--moe-cache-profile": "FILE.csv",
        "-t": "1",
    }


def test_cache_profile_is_written(run, built, tmp_path):
    target = tmp_path / "experts.csv"
    trace = built(MOE)

    result = run("flags", trace, "-o", target, "--json")

    assert result.code == 0
    assert target.read_text().startswith("0,0,0,1\n0,1,1,2\n")
    assert json.loads(result.out)["moe_cache_profile"]["value"] == str(target)
    assert run("flags", trace, "-o", target).code == 1  # it is there already
    assert run("flags", trace, "-o", target, "--force").code == 0


def test_without_choices_nothing_is_written(run, built, tmp_path):
    target = tmp_path / "experts.csv"

    result = run("flags", built("llama_like_trace()"), "-o", target)

    assert result.code == 1
    assert "no cache profile" in result.err
    assert not target.exists()


def test_a_profile_is_a_csv_and_never_the_trace(run, built, tmp_path):
    assert run("flags", built(MOE), "-o", tmp_path / "experts.json").code == 2
    trace = tmp_path / "run.csv"
    trace.write_text("#built moe_reads()")
    assert run("flags", trace, "-o", trace, "--force").code == 1
    assert trace.read_text() == "#built moe_reads()"
