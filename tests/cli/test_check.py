"""``ggscope check``: verdicts, exit codes and reports."""

import base64
import hashlib
import json

import pytest

import npu_files
from statements import new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


@pytest.mark.parametrize(
    ("severities", "options", "code", "ok"),
    [
        ((), (), 0, True),
        (("INFO", "NOTICE"), ("--strict",), 0, True),
        (("DATA_LOSS",), (), 0, False),
        (("DATA_LOSS",), ("--strict",), 4, False),
        (("ERROR",), (), 1, False),
        (("ERROR", "DATA_LOSS"), ("--strict",), 4, False),
    ],
)
def test_check_code_follows_the_worst_problem(
    run, built, severities, options, code, ok
):
    result = run("check", built("llama_like_trace", *severities), "--json", *options)

    verdict = json.loads(result.out)
    assert result.code == code
    assert verdict["ok"] is ok
    assert [w["severity"] for w in verdict["warnings"]] == [
        s.lower() for s in severities
    ]


def test_check_of_an_unreadable_file_keeps_the_keys(run, built):
    result = run("check", built("cut"), "--json")

    verdict = json.loads(result.out)
    assert result.code == 1
    assert verdict["ok"] is False
    (warning,) = verdict["warnings"]
    assert (warning["severity"], warning["code"]) == ("error", "truncated")
    assert warning["offset"] == 5


def test_check_of_an_unknown_file_exits_with_three(run, tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n....")

    result = run("check", path)

    assert result.code == 3
    assert "PNG picture" in result.err


def test_check_text_says_good_or_not(run, built):
    good = run("check", built("empty_trace"))
    bad = run("check", built("llama_like_trace", "DATA_LOSS"))

    assert "empty_trace.built: good\nNo problems found." in good.out
    assert "llama_like_trace.built: not good" in bad.out
    assert "data loss  data_loss_code (2 times)" in bad.out


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [
        (".html", "<td>It is &lt;so&gt;.</td>"),
        (".md", "| data\\_loss | data\\_loss\\_code | 2 | here | 17 | It is \\<so>. |"),
        (".json", '"code": "data_loss_code"'),
    ],
)
def test_report_is_written(run, built, tmp_path, suffix, expected):
    report = tmp_path / f"report{suffix}"

    result = run(
        "check",
        built("llama_like_trace", "DATA_LOSS"),
        built("cut"),
        built("empty_trace"),
        "--report",
        report,
    )

    text = report.read_text("utf-8")
    assert result.code == 1
    assert expected in text
    assert "the file ends early." in text
    quiet = run("check", built())
    refused = run("check", built(), "--report", tmp_path / "report.pdf")
    assert new_statements(result.err, quiet.err + refused.err)


def test_report_sums_up_what_was_read_and_what_was_not(run, built, tmp_path):
    def report(name: str) -> str:
        target = tmp_path / f"{name}.md"
        run("check", built(name), "--report", target)
        return target.read_text("utf-8")

    good, bad = report("llama_like_trace"), report("cut")
    assert "Not good: " in bad
    assert "Not good: " not in good
    assert "352 records" in good


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_report_says_how_complete_a_file_is(run, built, tmp_path, suffix):
    report = tmp_path / f"report{suffix}"

    result = run("check", SAMPLES / "llama.ggmlviz", built("cut"), "--report", report)

    (sentence,) = [x for x in result.out.splitlines() if x.startswith("Complete: ")]
    assert report.read_text("utf-8").count(sentence) == 1


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_report_doubts_a_file_that_contradicts_itself(run, tmp_path, suffix):
    report, file = tmp_path / f"report{suffix}", tmp_path / "lying.json"
    wrong_metrics = {
        "cycles_total": 100,
        "te": {"per_engine": [{"id": 0, "utilization": 0.5}]},
    }
    spans = npu_files.engine(0, 80), npu_files.engine(80, 100, engine="VE")
    file.write_text(
        json.dumps(npu_files.document(*spans, summary_metrics=wrong_metrics))
    )

    result = run("check", file, "--report", report)

    text = "but figures that it states do not match its content"
    assert text in result.out
    assert f"Good, {text}: " in report.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "code"), [("report.pdf", 2), ("report", 2), ("missing/report.md", 1)]
)
def test_report_that_cannot_be_written_is_an_error(run, built, tmp_path, name, code):
    result = run("check", built(), "--report", tmp_path / name)

    assert result.code == code
    assert "report" in result.err


def test_report_over_the_trace_itself_is_refused(run, tmp_path):
    trace = tmp_path / "t.json"
    trace.write_text('{"version": "1.0", "timeline_events": []}')
    before = trace.read_bytes()

    result = run("check", trace, "--report", trace)

    assert result.code == 1
    assert "is the trace itself" in result.err
    assert trace.read_bytes() == before


def test_page_allows_nothing_but_its_own_style(run, built, tmp_path):
    report = tmp_path / "report.html"

    run("check", built("llama_like_trace", "DATA_LOSS"), "--report", report)

    text = report.read_text("utf-8")
    style = text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert "default-src 'none'" in text
    assert f"style-src 'sha256-{digest}'\">" in text
