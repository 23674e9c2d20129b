"""``ggscope requests LOG --follow``: each request once, as it ends, then sums."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import log_files
from ggscope.cli.followed_requests import FinishedRequests
from ggscope.live import log_file
from ggscope.live.log_file import LogSource
from log_files import FORMS, Request, random_requests
from support import ROOT


def append(path: Path, data: bytes, mode: str = "ab") -> None:
    with path.open(mode) as file:
        file.write(data)


def start(*arguments: object, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ggscope", "requests", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests"), "NO_COLOR": "1"},
        # A shell that runs the tests in the background has its children ignore it.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )


def tasks_of(answers: list[tuple]) -> list[int]:
    """Return the tasks of all requests that came, in their order."""
    return [
        int(trace.log.requests.task[row])
        for trace, rows in answers
        for row in rows.tolist()
    ]


def test_lines_of_a_growing_log_are_the_rows_of_the_whole(run, tmp_path):
    path, requests = tmp_path / "x.log", random_requests(3, 12)
    data = log_files.log(requests)
    whole = tmp_path / "whole.log"
    whole.write_bytes(data)
    half = data.index(b"task 42 | processing")
    append(path, data[:half])
    with start(path, "--follow", "--json") as process:
        first = [json.loads(process.stdout.readline()) for _ in range(5)]
        append(path, data[half : half + 700])
        time.sleep(0.2)
        append(path, data[half + 700 :])
        rest = [json.loads(process.stdout.readline()) for _ in range(7)]
        process.send_signal(signal.SIGINT)
        last, errors = process.communicate(timeout=60)

    expected = json.loads(run("requests", whole, "--json").out)
    events = json.loads(run("info", whole, "--json").out)["events"]
    sums = json.loads(last)
    assert process.returncode == 0
    assert first + rest == expected["rows"]
    assert (sums["events"], sums["unfinished"]) == (events, 0)
    assert sums["percentiles"] == expected["percentiles"]
    assert errors == ""


def test_log_that_comes_later_is_waited_for_and_ends_after_its_time(run, tmp_path):
    path = tmp_path / "later.log"

    result = run("requests", path, "--follow", "--seconds", "0.3")

    assert result.code == 0
    assert "is not there yet" in result.err
    assert result.out.splitlines()[-1] == "No requests."


def test_table_has_a_head_the_newest_of_before_and_sums(run, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(log_files.log(random_requests(1, 30)))

    result = run("requests", path, "--follow", "--seconds", "0.2", "--limit", "4")

    first, head, *lines = result.out.splitlines()
    n_earlier = int(first.split()[1])
    assert head.split()[:3] == ["line", "slot", "task"]
    assert 15 < n_earlier < 26
    expected = [str(7 * task) for task in range(n_earlier, 30)]
    assert [line.split()[2] for line in lines[: len(expected)]] == expected
    assert any(line.startswith("30 requests; prompt") for line in lines)
    assert any(line.startswith("per token, ms") for line in lines)


def test_request_that_did_not_end_is_the_last_row(run, tmp_path):
    path = tmp_path / "x.log"
    data = log_files.log([*random_requests(1, 2), Request(0, 99, 5, 5.0, 5, 5.0)])
    path.write_bytes(data[: data.rindex(b"slot print_timing")])

    result = run("requests", path, "--follow", "--seconds", "0.2", "--json")

    *rows, sums = map(json.loads, result.out.splitlines())
    assert [row["task"] for row in rows] == [0, 7, 99]
    assert [row["has_timings"] for row in rows] == [True, True, False]
    assert sums["unfinished"] == 1


@pytest.mark.parametrize("form", sorted(FORMS))
def test_each_request_comes_once_whatever_the_pieces(tmp_path, form):
    path, rng = tmp_path / "x.log", np.random.default_rng(len(form))
    data = log_files.interleaved(random_requests(5, 40), form)
    answers = []
    with closing(LogSource(path)) as source:
        finished, begin = FinishedRequests(source), 0
        while begin < len(data):
            end = begin + int(rng.integers(1, 1500))
            append(path, data[begin:end])
            source.poll()
            answers.append(finished.new())
            begin = end
        answers.append(finished.new(is_end=True))

        n = len(source.snapshot().log.requests)
    tasks = tasks_of(answers)
    assert len(tasks) == finished.n == n == 40
    assert sorted(tasks) == sorted(7 * i for i in range(40))
    assert len(answers[-1][1]) < 12  # most came before the end


def test_rows_that_came_do_not_change(tmp_path):
    from ggscope.exporters.requests_json import request_rows

    path = tmp_path / "x.log"
    data = log_files.log_with_draft_sums(random_requests(8, 30))
    early = []
    with closing(LogSource(path)) as source:
        finished = FinishedRequests(source)
        for at in range(0, len(data), 333):
            append(path, data[at : at + 333])
            source.poll()
            trace, rows = finished.new()
            early += request_rows(trace, trace.log.requests.take(rows))
        trace, rows = finished.new(is_end=True)
        early += request_rows(trace, trace.log.requests.take(rows))
        final = source.snapshot()

    assert early == request_rows(final, final.log.requests)


def test_quiet_log_gives_its_last_request(tmp_path, monkeypatch):
    path = tmp_path / "x.log"
    path.write_bytes(log_files.log(random_requests(2, 3)))
    with closing(LogSource(path)) as source:
        finished = FinishedRequests(source)
        source.poll()
        at_once = tasks_of([finished.new()])
        monkeypatch.setattr(log_file, "_QUIET_NS", -1)
        source.poll()

        assert at_once + tasks_of([finished.new()]) == [0, 7, 14]


@pytest.mark.parametrize("is_late", [False, True])
def test_rotated_log_goes_on(tmp_path, is_late):
    """Also where lines of the second file get times only after its first requests."""
    path = tmp_path / "x.log"
    form = "no clock" if is_late else "clock"
    first, second, third = (random_requests(i, 6) for i in (1, 2, 3))
    answers = []
    with closing(LogSource(path)) as source:
        finished = FinishedRequests(source)
        for data, mode in (
            (log_files.log(first, form), "wb"),
            (b"", "wb"),
            (log_files.log(second, form), "ab"),
            (b"another line\n" * 70, "ab"),
            (log_files.log(third, "clock"), "ab"),
        ):
            append(path, data, mode)
            for _ in range(3):
                source.poll()
                answers.append(finished.new())
        answers.append(finished.new(is_end=True))

        assert source.status().restarts == int(is_late)
    assert tasks_of(answers) == [r.task for r in (*first, *second, *third)]


def test_terminal_shows_how_many_are_done_and_clears_that(run_terminal, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(log_files.log(random_requests(1, 3)))

    text = run_terminal("requests", path, "--follow", "--seconds", "1.5", width=200)

    assert "\r\x1b[K2 done" in text or "\r\x1b[K3 done" in text
    before, _, sums = text.partition("3 requests; prompt")
    assert before.rindex("\r\x1b[K") > before.rindex(" done")
    assert "tokens in" in sums
    assert "done" not in sums


def test_what_cannot_be_followed_so_is_refused(run, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(log_files.log(random_requests(1, 3)))
    other = tmp_path / "x.ggmlviz"

    for arguments in (
        (path, path, "--follow"),
        (path, "--follow", "--sort", "queued_ms"),
        (path, "--seconds", "3"),
        (other, "--follow"),
    ):
        result = run("requests", *arguments)
        assert result.code == 2
        assert result.out == ""
