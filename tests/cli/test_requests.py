"""``ggscope requests``, ``info`` and the Python API on logs of servers."""

import json
from pathlib import Path
from typing import Any

import pytest

import log_files
import people
from log_files import Request

KEYS = {
    "slot", "task", "queued_ms", "prompt_tokens", "cached_tokens",
    "reprocessed_tokens", "reason", "prompt_ms", "generated_tokens", "generated_ms",
    "draft_generated", "draft_accepted",
}  # fmt: skip


@pytest.fixture
def path(tmp_path) -> Path:
    forced = Request(0, 7, 90, 500.5, 20, 1000.0, cached=0, past=60, is_forced=True)
    plain = Request(1, 8, 10, 50.0, 40, 2000.0, drafted=30, accepted=12)
    target = tmp_path / "server.txt"
    target.write_bytes(log_files.log([forced, plain]))
    return target


def test_rows_have_the_keys_that_scripts_rely_on(run, path):
    value = json.loads(run("requests", path, "--json").out)

    forced, plain = value["rows"]
    assert forced.keys() >= KEYS
    assert forced["reason"].startswith("forcing full prompt re-processing")
    assert (forced["cached_tokens"], forced["reprocessed_tokens"]) == (0, 60)
    assert (forced["prompt_ms"], forced["generated_ms"]) == (500.5, 1000.0)
    assert (plain["cached_tokens"], plain["reason"]) == (None, None)
    assert (plain["draft_generated"], plain["draft_accepted"]) == (30, 12)
    assert forced["draft_generated"] is None
    assert value["percentiles"]["generated_per_s"]["p50"] == pytest.approx(20.0)


def test_info_counts_what_the_file_holds(run, path):
    value = json.loads(run("info", path, "--json").out)

    assert value["events"] == {
        "requests": 2, "prompt_tokens": 100, "prompt_ms": 550.5,
        "generated_tokens": 60, "generated_ms": 3000.0, "reprocessed": 1,
    }  # fmt: skip
    assert value["memory_breakdown"][0]["unaccounted"] == -100 << 20


def test_rows_show_what_drafting_took(run, tmp_path):
    path = tmp_path / "x.log"
    request = Request(1, 8, 10, 50.0, 40, 2000.0, drafted=30, accepted=12)
    path.write_bytes(log_files.log_with_draft_sums([request]))

    (row,) = json.loads(run("requests", path, "--json").out)["rows"]

    assert (row["drafts"], row["accepted_drafts"], row["draft_ms"]) == (8, 3, 15.0)
    assert row["first_token_ms"] == pytest.approx(55.0, abs=0.01)
    (line,) = [x for x in run("requests", path).out.splitlines() if "12 of 30" in x]
    assert "1.50     15.00" in line


def test_table_shows_requests_memory_and_percentiles(run, path):
    result = run("requests", path)

    assert result.code == 0
    assert "forcing full prompt re-processing" in result.out
    assert "12 of 30" in result.out
    assert "unaccounted" in result.out
    assert "-100" in result.out


def test_longest_come_first_where_asked(run, path):
    out = run("requests", path, "--sort", "first_token_ms", "--limit", "1").out

    assert "500.50" in out
    assert "2,000.00" not in out.split("more")[0]


def test_other_files_are_refused(run, built):
    result = run("requests", built("llama_like_trace()"))

    assert result.code == 2
    assert "not a server log" in result.err


def test_log_without_requests_says_so(run, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(b"\n".join(line.encode() for line in log_files.HEAD))

    assert "No requests" in run("requests", path).out
    assert json.loads(run("requests", path, "--json").out)["rows"] == []


def test_logs_join_no_trace_of_their_folder(run, tmp_path, path):
    from reader_files import valid_file

    valid_file("gguf", tmp_path)

    value = json.loads(run("info", tmp_path, "--json").out)

    assert value["reader"] == "gguf"


def _has_sums(name: str, entry: dict[str, Any]) -> bool:
    """Return whether the index of the corpus counts lines as the reader does."""
    return bool(entry["eval_lines"]) and "dialects" not in name


@people.each("log", _has_sums)
def test_logs_of_people_have_the_sums_of_their_lines(run, tmp_path, name):
    entry = people.counts("log")[name]
    copy = tmp_path / "x.txt"
    copy.write_bytes(people.content(name))

    events = json.loads(run("info", copy, "--json").out)["events"]
    rows = json.loads(run("requests", copy, "--json").out)["rows"]

    for key in ("prompt_tokens", "generated_tokens", "prompt_ms", "generated_ms"):
        assert events[key] == pytest.approx(entry[key], abs=1e-6)
        assert sum(row[key] or 0 for row in rows) == pytest.approx(events[key])
    assert events["requests"] == entry["eval_lines"] == len(rows)
    assert events["reprocessed"] == entry["reprocessing"]
