"""Summaries of runs that are not kept: quick ones, whole ones, and their cache."""

import dataclasses
import json
import os
import threading
from pathlib import Path

import pytest

import log_files
import recordings
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.summary import summary
from ggscope.errors import Cancelled
from ggscope.model.trace import Trace
from ggscope.readers.discovery import RunFolder, run_folder, survey
from ggscope.run_summaries import (
    RunSummary,
    SummaryCache,
    quick_summary,
    summaries,
    whole_summary,
)
from ggscope.session_loading import open_bundle


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a folder of two good recordings, a damaged one and a foreign file."""
    runs = tmp_path / "runs"
    runs.mkdir()
    for name, threads in (("one", "1"), ("two", "2")):
        command = ["/bin/llama", "-m", "x.gguf", "-t", threads]
        recordings.recording(runs, name, command=command, **recordings.requests())
    (runs / "damaged.ggmlviz").write_bytes(b"GGMLVIZ1")
    (runs / "notes.txt").write_text("no trace")
    return run_folder(runs)


def read(run) -> Trace:
    return open_bundle(survey([run.path]))


def last(result) -> list[RunSummary]:
    return list(dict(result).values())


def test_whole_summary_is_that_of_the_trace(folder) -> None:
    for run in folder.runs[1:]:
        trace = read(run)
        run_summary, plain = whole_summary(run), summary(trace)

        assert run_summary.is_read
        assert run_summary.error == ""
        assert (run_summary.prompt, run_summary.generated) == (
            plain.tokens.prompt, plain.tokens.generated
        )  # fmt: skip
        rate = plain.tokens.generated_per_tick
        assert run_summary.generated_per_s == (None if rate is None else rate * 1e9)
        times = {row.key: row.total for row in stat_table(trace, "family").rows}
        assert dict(run_summary.families or ()) == times
        assert run_summary.total == sum(times.values())
        assert run_summary.threads == int(trace.lanes.is_thread.sum())
        assert run_summary.facts == dict(trace.info.producer)


def test_quick_summary_knows_what_the_sidecar_shows_and_no_op(folder) -> None:
    for run in folder.runs[1:]:
        quick, whole = quick_summary(run), whole_summary(run)

        assert not quick.is_read
        assert (quick.families, quick.threads, quick.omissions) == (None, None, None)
        for name in ("prompt", "generated", "generated_per_s", "command", "model",
                     "size", "modified_ns"):  # fmt: skip
            assert getattr(quick, name) == getattr(whole, name)


def test_damaged_run_has_its_error_and_the_others_come_all_the_same(folder) -> None:
    damaged, *good = last(summaries(folder))

    assert damaged.error
    assert damaged.families is None
    assert [run.error for run in good] == ["", ""]
    assert all(run.families for run in good)


def test_first_what_is_quick_then_what_is_read(folder) -> None:
    items = list(summaries(folder))
    n = len(folder.runs)

    assert [i for i, _ in items] == [*range(n), *range(n)]
    assert not any(run.is_read for _, run in items[:n])
    assert [i for i, _ in summaries(folder, reads_events=False)] == list(range(n))


def test_progress_counts_bytes_and_cancel_stops(folder) -> None:
    seen: list[tuple[int, int]] = []
    list(summaries(folder, progress=lambda done, total: seen.append((done, total))))
    assert seen[-1] == (sum(run.size for run in folder.runs),) * 2

    cancel = threading.Event()
    result = summaries(folder, cancel=cancel)
    next(result)
    cancel.set()
    with pytest.raises(Cancelled):
        list(result)


def test_run_too_large_for_memory_says_so_and_is_tried_again(folder, tmp_path) -> None:
    cache = SummaryCache(tmp_path / "cache.json", "1")

    result = last(summaries(folder, cache, limit_bytes=1))

    assert all(run.error for run in result)
    assert cache.get(folder.runs[1]) is None


def test_cache_gives_back_what_was_read_until_a_file_changes(folder, tmp_path) -> None:
    path = tmp_path / "some" / "cache.json"
    cache = SummaryCache(path, "1")
    first = last(summaries(folder, cache))
    cache.save()

    again = SummaryCache(path, "1")
    items = list(summaries(folder, again))
    assert [run for _, run in items] == first  # nothing is read a second time
    assert [dataclasses.asdict(run) for _, run in items] == [
        dataclasses.asdict(run) for run in first
    ]

    os.utime(folder.runs[1].path, ns=(1, 1))
    assert again.get(folder.runs[1]) is None
    assert again.get(folder.runs[2]) is not None
    os.utime(folder.runs[2].sidecar.path, ns=(1, 1))
    assert again.get(folder.runs[2]) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": [1, "1"], "runs": 3}', b"\0" * 50,
                b'{"version": [1, "1"], "runs": {"x": 1}}']
)  # fmt: skip
def test_damaged_cache_is_as_good_as_none_and_is_replaced(
    folder, tmp_path, content
) -> None:
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    cache = SummaryCache(path, "1")

    assert [cache.get(run) for run in folder.runs] == [None] * 3
    cache.put(folder.runs[1], whole_summary(folder.runs[1]))
    cache.save()

    assert str(folder.runs[1].path) in json.loads(path.read_bytes())["runs"]


def test_cache_of_another_version_is_not_used(folder, tmp_path) -> None:
    path = tmp_path / "cache.json"
    cache = SummaryCache(path, "1")
    cache.put(folder.runs[1], whole_summary(folder.runs[1]))
    cache.save()

    assert SummaryCache(path, "2").get(folder.runs[1]) is None


def test_cache_that_cannot_be_written_is_no_fault(folder, tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = SummaryCache(tmp_path / "file" / "cache.json", "1")
    cache.put(folder.runs[1], whole_summary(folder.runs[1]))

    cache.save()

    assert (tmp_path / "file").read_text() == "in the way"


def test_log_has_the_tokens_and_times_that_it_states(tmp_path) -> None:
    requests = log_files.random_requests(3, 9)
    (tmp_path / "server.log").write_bytes(log_files.log(requests))

    (run,) = run_folder(tmp_path).runs
    run_summary = whole_summary(run)

    assert run_summary.error == ""
    generated = sum(request.n_generated for request in requests)
    ms = sum(request.generated_ms for request in requests)
    assert run_summary.generated == generated
    assert run_summary.generated_per_s == pytest.approx(generated / ms * 1000, rel=1e-3)
    assert run_summary.prompt == sum(request.n_prompt for request in requests)
