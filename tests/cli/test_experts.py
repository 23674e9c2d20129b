"""Experts on the command line: by expert, with one, and where nobody knows sizes."""

import json
from collections import Counter

import pytest

from expert_traces import moe_file
from ggscope.analysis.experts.experts import expert_choices, expert_grid
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "moe-experiment"


def counts_by_expert(run, *arguments):
    facts = json.loads(run("stats", *arguments, "--by", "expert", "--json").out)
    return {row["key"]: row for row in facts["rows"]}


@pytest.mark.parametrize("name", ["", "traces/trace-1024.bin"])
def test_where_expert_finds_the_spans_that_by_expert_counts(run, name):
    path = next(SAMPLE.rglob("trace-1024.bin")) if name else SAMPLE

    rows = counts_by_expert(run, path)

    values = {key: row["count"] for key, row in rows.items() if key.isdecimal()}
    assert len(values) == 8
    for key, count in values.items():
        result = run("stats", path, "--by", "op", "--where", f"expert={key}", "--json")
        assert sum(r["count"] for r in json.loads(result.out)["rows"]) == count


def test_experts_of_stacks_that_nobody_sizes_are_counted_and_their_bytes_open(
    run, tmp_path
):
    chosen = [(5,), (2, 7, 30), (5, 2), (31,), ()]
    path = moe_file(tmp_path, chosen)
    expected = Counter(str(e) for experts in chosen for e in experts)

    rows = counts_by_expert(run, path)

    values = {key: row["count"] for key, row in rows.items() if key.isdecimal()}
    assert values == dict(expected)
    assert all(rows[key]["bytes"] == 0 for key in values)
    unknown = sum(rows[key]["bytes_unknown"] for key in values)
    assert unknown == 4 * 2048, "each op's stack once, whatever it read of it"
    for key, count in values.items():
        result = run("stats", path, "--by", "op", "--where", f"expert={key}", "--json")
        assert sum(r["count"] for r in json.loads(result.out)["rows"]) == count
    none = run("stats", path, "--by", "op", "--where", "expert=3", "--json")
    assert json.loads(none.out)["rows"] == []


def test_a_table_of_choices_alone_shows_its_experts_and_no_times(run, tmp_path):
    path = tmp_path / "choices.csv"
    path.write_text("layer,expert\n0,3\n0,5\n1,3\n")

    facts = json.loads(run("info", path, "--json").out)
    text = run("info", path).out

    assert facts["experts"] == {
        "layers": 2, "experts": 2, "accesses": 0, "choices": 3,
        "ranked": 3, "implied": 0,
    }  # fmt: skip
    assert "2 in 2 layers, 3 choices listed" in text
    assert "duration" not in text
    assert "clock" not in text


def test_choices_are_those_that_compute_in_info_as_in_the_grid(run):
    facts = json.loads(run("info", SAMPLE, "--json").out)["experts"]

    choices = expert_choices(open_bundle(survey([SAMPLE])))
    shown = int(expert_grid(choices).count.sum())
    assert (facts["choices"] + facts["implied"], facts["ranked"]) == (shown, 288)
    assert shown == 72
