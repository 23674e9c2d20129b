"""A converted file gives back the same spans, lanes, arrows, markers and counters."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import finished, spans_trace
from ggscope.errors import TraceError
from ggscope.exporters import chrome, folded, perfetto
from ggscope.exporters.events import Events
from ggscope.exporters.forms import packed
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, CounterShape, Flows
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.registry import open_trace
from log_files import log, random_requests
from perfetto_packets import arrows_of, slices_of
from round_trips import differences, spans_of
from support import ROOT, corpus_path

SAMPLES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "resources" / "samples").rglob("*")
    if path.suffix in (".ggmlviz", ".bin", ".json")
)
_MAX_BYTES = 8 << 20


def _corpus() -> list[Path]:
    root = corpus_path()
    files = [] if root is None else sorted(root.rglob("*"))
    return [p for p in files if p.is_file() and 0 < p.stat().st_size < _MAX_BYTES]


def opened(path: Path) -> Trace | None:
    """Return the trace of a file; None where it is no trace with spans."""
    try:
        trace = open_trace(path)
    except TraceError:
        return None
    return trace if len(trace.spans) or len(trace.markers) else None


def given_back(trace: Trace, folder: Path) -> Trace:
    path = folder / "x.json"
    path.write_bytes(b"".join(chrome.chunks(Events(trace))))
    return open_trace(path)


def check(trace: Trace, folder: Path) -> None:
    """Compare a trace with its Chrome trace, its packets and its stacks."""
    back = given_back(trace, folder)
    made = Events(trace)

    assert back.check() == []
    assert differences(trace, back) == []
    assert {w.code for w in back.warnings} <= {"begin_without_end"}
    assert folded.stacks(made) == folded.stacks(Events(back))
    packets = b"".join(perfetto.chunks(made))
    (folder / "x.pftrace").write_bytes(packets)
    back = open_trace(folder / "x.pftrace")
    assert back.check() == []
    assert differences(trace, back) == []
    pytest.importorskip("perfetto", reason="perfetto is not installed")
    meant = Counter(
        (row[2] - row[1], row[1] + made.shift, row[3])
        for row in spans_of(trace)
        if row[2] is not None
    )
    seen = slices_of(packets)
    waits = made.waits(made.nesting())
    assert Counter(row[:3] for row in seen if row[3] != "wait") == meant
    n_waits = 0 if waits is None else int((waits > 0).sum())
    assert sum(row[3] == "wait" for row in seen) == n_waits
    assert len(arrows_of(packets)) == len(made.arrows()[0])


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_samples_come_back(sample: Path, tmp_path: Path) -> None:
    trace = opened(ROOT / sample)
    if trace is None:
        pytest.skip("no trace")
    check(trace, tmp_path)


@pytest.mark.timeout(600)
def test_every_file_of_the_corpus_comes_back(tmp_path: Path) -> None:
    files = _corpus()
    if not files:
        pytest.skip("the corpus is not there")
    broken, n = {}, 0
    for path in files:
        trace = opened(path)
        if trace is None:
            continue
        n += 1
        try:
            check(trace, tmp_path)
        except AssertionError as error:
            broken[path.name] = str(error)[:400]
    assert broken == {}
    assert n > 50


def two_lanes() -> TraceBuilder:
    builder = TraceBuilder()
    for group in ("GPU 0", "GPU 1"):
        builder.add_lane("stream 7", LaneKind.ENGINE, (group, "streams"))
        builder.add_lane("stream 7", LaneKind.ENGINE, (group, "streams"))
    return builder


def test_lanes_of_one_name_stay_apart(tmp_path: Path) -> None:
    builder = two_lanes()
    names = builder.strings.intern_many(["a", "b"])
    builder.add_spans(
        start=_i64([0, 5, 1, 2]),
        end=_i64([9, 12, 3, 4]),
        lane=_i64([0, 0, 1, 3]),
        name=names[[0, 1, 0, 1]],
    )
    trace = finished(builder)

    back = given_back(trace, tmp_path)

    assert differences(trace, back) == []
    assert len(back.lanes) == 3


def test_arrows_lead_to_covered_and_empty_spans(tmp_path: Path) -> None:
    """Those are never innermost, so no time alone shows which is meant."""
    trace = spans_trace([0, 0, 4, 4, 4], [10, 4, 10, 4, 4], op=2)
    trace = _with_flows(trace, Flows(_i64([0, 0, 4, 3]), _i64([1, 4, 0, 4])))

    back = given_back(trace, tmp_path)

    assert differences(trace, back) == []
    assert len(back.flows) == 4


def test_arrows_of_a_part_end_at_its_edges(tmp_path: Path) -> None:
    trace = _with_flows(
        spans_trace([0, 20, 40], [10, 30, 50], op=2), Flows(_i64([0, 1]), _i64([1, 2]))
    )
    made = Events(trace, trace.spans.start < 30)

    data = json.loads(b"".join(chrome.chunks(made)))["traceEvents"]

    flows = [(e["ph"], e["ts"], e["id"]) for e in data if e["ph"] in "sf"]
    assert flows == [("s", 0, 1), ("f", 0.02, 1)]
    assert any("1, omitted" in message for message in chrome.losses(made))
    assert any("1, omitted" in message for message in perfetto.losses(made))


def test_packets_name_the_spans_of_arrows() -> None:
    pytest.importorskip("perfetto", reason="perfetto is not installed")
    trace = _with_flows(
        spans_trace([0, 2, 40], [30, 5, 50], op=2), Flows(_i64([0, 1]), _i64([2, 2]))
    )

    packets = b"".join(perfetto.chunks(Events(trace)))

    assert arrows_of(packets) == [(0, 40), (2, 40)]
    late = _with_flows(trace, Flows(_i64([2]), _i64([0])))
    assert len(perfetto.losses(Events(late))) == len(perfetto.losses(Events(trace))) + 1


def test_counters_of_one_name_and_windows_come_back(tmp_path: Path) -> None:
    builder = two_lanes()
    at, value = _i64([0, 10, 20]), [0.1, 1 / 3, 5e-324]
    for lane in (0, 1):
        builder.add_counter(
            "load (mean)", "%", CounterShape.LEVEL, at, value, lane=lane
        )
    builder.add_counter(
        "bytes", "B", CounterShape.RATE, at, [1e308, 2.5, 3], window=_i64([10, 10, 10])
    )
    trace = finished(builder)

    back = given_back(trace, tmp_path)

    assert differences(trace, back) == []
    assert [c.shape for c in back.counters] == [c.shape for c in trace.counters]
    assert back.counters[2].window.tolist() == [10, 10, 10]


def test_lines_of_logs_stay_at_home(tmp_path: Path) -> None:
    source = tmp_path / "server.log"
    lines = log(random_requests(3, 2)).decode().splitlines()
    stamp = lines[-1].partition(" I ")[0]
    lines.append(f"{stamp} W srv  send_error: the prompt of Alice is too long")
    source.write_text("\n".join(lines) + "\n")
    trace = opened(source)
    assert trace is not None
    assert any("Alice" in text for text in trace.strings.texts())

    text = b"".join(chrome.chunks(Events(trace)))

    assert b"Alice" not in text
    assert b"Alice" not in b"".join(perfetto.chunks(Events(trace)))
    assert any("Log texts" in message for message in chrome.losses(Events(trace)))


def test_cycles_stay_cycles(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.clock = type(builder.clock)("cycle", 7, 1.5e9)
    builder.add_lane("engine", LaneKind.ENGINE)
    builder.add_spans(start=_i64([0]), end=_i64([3]), lane=0)
    trace = finished(builder)

    back = given_back(trace, tmp_path)

    assert back.clock == trace.clock
    for writer in (chrome, perfetto, folded):
        assert any("ycles" in message for message in writer.losses(Events(trace)))


def test_only_texts_are_packed() -> None:
    pieces = [b"a" * 5000, b"b"]

    text = b"".join(packed(pieces, "folded", Path("x.folded.gz")))

    assert gzip.decompress(text) == b"".join(pieces)
    assert list(packed(pieces, "folded", Path("x.folded"))) == pieces
    assert list(packed(pieces, "tensor-256", Path("x.gz"))) == pieces


def _i64(values: list[int]) -> I64:
    return np.array(values, np.int64)


def _with_flows(trace: Trace, flows: Flows) -> Trace:
    return replace(trace, flows=flows)
