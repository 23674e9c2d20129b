"""The log of a server for the benchmarks: its lines, its requests, its aims."""

import re
from pathlib import Path

import numpy as np
import pytest
from bench_figures import N_LINES, figures
from bench_traces import provide, trace_file

from ggscope.readers.registry import open_trace

_PROMPT = re.compile(rb"prompt eval time = +([\d.]+) ms / +(\d+) tokens")


@pytest.mark.parametrize("n", [1, 5, 1_234, 20_001])
def test_a_log_has_so_many_lines(tmp_path: Path, n: int) -> None:
    data = provide(trace_file("logs", n), tmp_path).read_bytes()

    assert data.count(b"\n") == n
    assert data.endswith(b"\n")


def test_requests_on_four_slots_are_those_of_the_lines(tmp_path: Path) -> None:
    path = provide(trace_file("logs", 5_000), tmp_path)
    blocks = _PROMPT.findall(path.read_bytes())

    trace = open_trace(path)

    assert trace.info.reader_id == "llama-log"
    assert trace.info.n_records == 5_000
    assert trace.log is not None
    assert trace.log.has_clock
    events = trace.info.summary["events"]
    assert events["prompt_tokens"] == sum(int(n) for _, n in blocks)
    assert events["prompt_ms"] == pytest.approx(sum(float(ms) for ms, _ in blocks))
    table = trace.log.requests
    is_done = table.n_generated >= 0
    assert np.count_nonzero(is_done) >= len(blocks) - 1 > 100
    assert set(table.slot.tolist()) == {0, 1, 2, 3}
    assert (table.n_cached >= 0).all()
    # Each has drafts of its own out of the sums of all.
    rounds = table.n_rounds[is_done][:-1]
    assert np.array_equal(rounds, table.n_drafted[is_done][:-1] // 4 + 1)


def test_log_and_tests_of_llama_bench_have_their_aims() -> None:
    names = ["sort_100k_tests[t/s]", "filter_100k_tests[model]", "query_1m"]
    aims = {figure.key: figure.aim for figure in figures(["1"], names)}

    assert trace_file("logs", N_LINES["logs"]).n_bytes == 10**9
    assert aims["logs.first_s"] == 1.0
    assert aims["logs.open_s"] == 8.0
    assert aims["logs.bytes_per_record"] == 64
    assert [aims[f"columns.{name}"] for name in names] == [100, 100, None]
