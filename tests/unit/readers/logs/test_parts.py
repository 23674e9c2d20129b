"""Long logs are read in parts: what comes of it is the same for parts of any length."""

from pathlib import Path

import numpy as np
import pytest

import log_files
from ggscope.errors import ReadError
from ggscope.model.tables import schema_of
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.logs.lines import scan_text
from ggscope.readers.logs.reader import LogReader
from ggscope.readers.source import Source
from log_files import FORMS, random_requests

_ONE_PART = 1 << 40


def columns(table: object) -> dict[str, list]:
    values = {name: getattr(table, name) for name in schema_of(type(table))}
    return {name: v.tolist() for name, v in values.items() if v is not None}


def content(trace: Trace) -> tuple[object, ...]:
    """Return all that a log states, in no matter which order spans and lanes are."""
    assert trace.log is not None
    lanes = [lane.name for lane in trace.lanes]
    spans, markers = columns(trace.spans.full()), columns(trace.markers)
    for table in (spans, markers):
        table["lane"] = [lanes[i] for i in table["lane"]]
        for name in {"name", "detail"} & table.keys():
            table[name] = [trace.strings[i] if i >= 0 else None for i in table[name]]
    span_rows = list(zip(*spans.values(), strict=True))
    requests = columns(trace.log.requests)
    requests["reason"] = [i if i < 0 else trace.strings[i] for i in requests["reason"]]
    for name in ("prompt_span", "generated_span"):
        requests[name] = [None if i < 0 else span_rows[i] for i in requests[name]]
    counters = {s.name: (s.time.tolist(), s.value.tolist()) for s in trace.counters}
    return (
        sorted(span_rows, key=repr),
        sorted(zip(*markers.values(), strict=True), key=repr),
        requests, counters, trace.log.memory, trace.log.facts, trace.log.has_clock,
        trace.info.summary["events"], trace.info.n_records, trace.clock, trace.extent,
        [(w.code, w.count) for w in trace.warnings],
    )  # fmt: skip


def read(path: Path, part_rows: int) -> Trace:
    with Source(path) as source:
        trace = LogReader(part_rows).read(source, ReadContext())
    assert trace.check() == []
    return trace


def requests_text(seed: int, form: str, n: int = 25) -> bytes:
    return log_files.log(random_requests(seed, n), form)


def other_texts() -> dict[str, bytes]:
    clock, days = requests_text(1, "clock"), requests_text(4, "docker")
    return {
        "clock comes late": requests_text(2, "no clock") + clock,
        "other clock in most lines": log_files.json_log(random_requests(3, 4))
        + clock * 3,
        "clock goes back a year": days + days.replace(b"2026-", b"2025-"),
        "restarts": clock + requests_text(5, "clock"),
        "draft sums": log_files.log_with_draft_sums(random_requests(8, 40)),
        "loading": log_files.loading_log() + clock,
        "vllm": log_files.vllm_log(engines=2),
        "command line": log_files.command_line_log(12),
        "ik": log_files.ik_log(random_requests(4, 25)),
        "json": log_files.json_log(random_requests(5, 25)),
        "ollama": log_files.ollama_log(),
        "interleaved": log_files.interleaved(random_requests(6, 40)),
    }


def texts() -> dict[str, bytes]:
    return {form: requests_text(7, form) for form in FORMS} | other_texts()


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr("ggscope.readers.common.text_blocks.BLOCK_BYTES", 997)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("name", list(texts()))
@pytest.mark.parametrize("part_rows", [1, 40])
def test_parts_of_any_length_show_the_same(name, part_rows, tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(texts()[name])

    assert content(read(path, part_rows)) == content(read(path, _ONE_PART))


def cluttered(data: bytes, seed: int) -> bytes:
    """Return lines with others between them: empty, long, or with pieces before."""
    rng = np.random.default_rng(seed)
    out = []
    for line in data.splitlines(keepends=True):
        out += [
            (b"", b"\n", b"x" * 9000 + b"\n", b"y" * 70_000 + b"\n")[i % 4]
            for i in rng.integers(0, 60, 1)
            if i < 4
        ]
        out.append((b"12 %\r99 %\r" if rng.integers(4) == 0 else b"") + line)
        if rng.integers(40) == 0:
            out[-1] = out[-1].rstrip(b"\n") + b"\r" + b"." * 5000 + b"\r" + line
    return b"".join(out)


def fact_lines(data: bytes) -> dict[int, bytes]:
    """Return lines by number, from their first piece that states facts."""
    lines = {}
    for number, line in enumerate(data.split(b"\n")):
        pieces = line.split(b"\r")
        for i, piece in enumerate(pieces):
            if len(scan_text(np.frombuffer(piece, np.uint8))):
                lines[number] = b"\r".join(pieces[i:])[:4096]
                break
    return lines


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize(
    "form", ["clock", "docker", "cri", "kubectl with times", "colours"]
)
@pytest.mark.parametrize("seed", range(2))
def test_every_line_that_shows_something_is_read_again(form, seed, tmp_path):
    path = tmp_path / "x.log"
    data = cluttered(requests_text(seed, form, 60), seed)
    path.write_bytes(data)
    trace = read(path, 50)
    expected = fact_lines(data)

    assert trace.records is not None
    for number in range(data.count(b"\n") + 3):
        if number in expected:
            assert trace.records.view(number).data == expected[number]
        else:
            with pytest.raises(ReadError, match=f"{number + 1:,}"):
                trace.records.view(number)
