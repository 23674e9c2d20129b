"""Logs between whose lines ggml lists ops: both are read as if they were alone."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import log_files
import op_files
from ggscope.model.backend_ops import BackendOps
from ggscope.model.requests import Requests
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace


def opened(path: Path, data: bytes, reader_id: str | None = None) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path, reader_id=reader_id)
    assert trace.check() == []
    return trace


def mixed(log: bytes, listed: bytes) -> bytes:
    """Return both: lists are printed while a prompt is computed, between requests."""
    lines, others = log.splitlines(keepends=True), listed.splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if b"processing task" in line]
    assert len(starts) > 3
    places = np.sort(np.random.default_rng(1).choice(starts, len(others))).tolist()
    made = list(lines)
    for place, line in zip(reversed(places), reversed(others), strict=True):
        made.insert(place, line)
    return b"".join(made)


def rows(requests: Requests) -> dict[str, list]:
    # Lines of the list are lines, too.
    skipped = {"line", "prompt_span", "generated_span"}
    return {
        f.name: getattr(requests, f.name).tolist()
        for f in fields(requests)
        if f.name not in skipped
    }


def texts(listing: BackendOps) -> list[tuple]:
    ops = listing.ops
    columns = (ops.op, ops.name, ops.backend, ops.shape)
    return [
        tuple(listing.text(int(column[i])) for column in columns)
        for i in range(len(ops))
    ]


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_requests_and_ops_are_those_of_each_alone(seed, clock, tmp_path):
    log = log_files.log(log_files.random_requests(seed, 9), "no clock")
    listed = op_files.scheduler(op_files.graphs(seed), clock=clock)
    data = mixed(log, listed)

    trace = opened(tmp_path / "x.txt", data)

    assert trace.info.reader_id == "llama-log"
    alone = opened(tmp_path / "log.txt", log)
    ops = opened(tmp_path / "ops.txt", listed)
    assert trace.log is not None
    assert alone.log is not None
    if not clock:  # else the lines of the list give the log a clock
        assert rows(trace.log.requests) == rows(alone.log.requests)
    assert len(trace.log.requests) == len(alone.log.requests)
    assert trace.backend_ops is not None
    assert ops.backend_ops is not None
    assert texts(trace.backend_ops) == texts(ops.backend_ops)
    assert (
        trace.backend_ops.inputs.size.tolist() == ops.backend_ops.inputs.size.tolist()
    )
    events = trace.info.summary["events"]
    both = dict(alone.info.summary["events"]) | dict(ops.info.summary["events"])
    assert events == both
    handed = opened(tmp_path / "x.txt", data, "ggml-ops")
    assert handed.backend_ops is not None
    assert texts(handed.backend_ops) == texts(ops.backend_ops)


def test_lists_of_vulkan_are_read_between_the_lines_of_a_log(tmp_path):
    log = log_files.log(log_files.random_requests(4, 5), "no clock")
    lists = op_files.vulkan_lists(4)
    lines = log.splitlines(keepends=True)
    data = b"".join(lines[:9]) + op_files.vulkan(lists) + b"".join(lines[9:])

    trace = opened(tmp_path / "x.txt", data)

    assert trace.info.reader_id == "llama-log"
    assert trace.backend_ops is not None
    assert len(trace.backend_ops) == sum(map(len, lists))


def test_ops_of_an_npu_end_before_the_line_that_reports_them(tmp_path):
    log = log_files.log(log_files.random_requests(5, 5))
    ops = op_files.npu_ops(5, 6)
    data = log + op_files.hexagon(ops, clock=True)

    trace = opened(tmp_path / "x.txt", data)

    assert trace.info.reader_id == "llama-log"
    lanes = [trace.lanes[lane].name for lane in trace.spans.lane.tolist()]
    mine = [span for span, lane in enumerate(lanes) if lane == "HTP0 ops"]
    assert len(mine) == 6
    lengths = (trace.spans.end - trace.spans.start)[mine]
    assert lengths.tolist() == [op.cycles * 1000 // op_files.HEXAGON_MHZ for op in ops]
    assert trace.backend_ops is not None
    assert trace.backend_ops.ops.span.tolist() == mine
    # All lines have the same time, which is when the last op can have ended.
    printed = 1_576_635_000
    starts = [line for line in data.decode().splitlines() if " I " in line[:20]]
    first = starts[0].split(" ")[0].split(".")
    origin = (int(first[0]) * 60 + int(first[1])) * 10**9
    origin += int(first[2]) * 10**6 + int(first[3]) * 1000
    assert int(trace.spans.end[mine].max()) == printed - origin


def test_ops_without_a_clock_are_listed_alone(tmp_path):
    log = log_files.log(log_files.random_requests(6, 3), "no clock")
    line = b"ggml-hex: HTP0 profile-op ADD|a|8:1|f32|4:32|--|usec 0 cycles 0 start 5\n"

    trace = opened(tmp_path / "x.txt", log + line)

    assert "no_op_start" in {w.code for w in trace.warnings}
    assert trace.backend_ops is not None
    assert trace.backend_ops.ops.span.tolist() == [-1]


def test_lists_alone_are_no_log(tmp_path):
    listed = op_files.scheduler(op_files.graphs(7), clock=True)

    trace = opened(tmp_path / "server.log", listed)

    assert trace.info.reader_id == "ggml-ops"
