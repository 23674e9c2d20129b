"""Traces of other profilers for the benchmarks: what is asked for is in them."""

from pathlib import Path

import pytest
from bench_figures import figures
from bench_sql import QUERIES
from bench_traces import TraceFile, trace_file

from ggscope.readers.registry import open_trace
from round_trips import differences


def _written(folder: Path, kind: str, n: int) -> tuple[TraceFile, Path]:
    file = trace_file(kind, n)
    path = folder / file.name
    file.write(path, n)
    return file, path


@pytest.mark.parametrize("n", [1, 7, 20_000, 20_001])
def test_a_chrome_trace_has_so_many_events(tmp_path: Path, n: int) -> None:
    file, path = _written(tmp_path, "chrome", n)

    trace = open_trace(path)

    assert trace.info.reader_id == "chrome-json"
    assert len(trace.spans) == n
    assert len({trace.span_name(i) for i in range(n)}) == min(n, 300)
    assert abs(path.stat().st_size / file.n_bytes - 1) < 0.4


def test_an_export_of_nsys_has_so_many_rows(tmp_path: Path) -> None:
    file, path = _written(tmp_path, "nsys", 1_000)

    trace = open_trace(path)

    assert len(trace.spans) == file.n
    assert not [w for w in trace.warnings if w.severity > 1]


@pytest.mark.parametrize("n", [1, 20_001])
def test_perfetto_packets_have_the_spans_of_the_chrome_trace(
    tmp_path: Path, n: int
) -> None:
    file, path = _written(tmp_path, "pftrace", n)

    trace = open_trace(path)
    source = open_trace(tmp_path / trace_file("chrome", n).name)

    assert trace.info.reader_id == "perfetto"
    assert len(trace.spans) == n
    assert differences(source, trace) == []
    assert n == 1 or abs(path.stat().st_size / file.n_bytes - 1) < 0.4


@pytest.mark.parametrize("kind", ["chrome", "nsys", "pftrace"])
def test_files_depend_on_their_size_alone(tmp_path: Path, kind: str) -> None:
    _, path = _written(tmp_path, kind, 500)
    first = path.read_bytes()
    _, path = _written(tmp_path, kind, 500)

    assert path.read_bytes() == first


def test_what_is_measured_is_in_the_table() -> None:
    keys = {figure.key for figure in figures(["1"], [])}

    assert {f"sql.{name}" for name in QUERIES} <= keys
    assert {"chrome10M.first_s", "nsys.first_s", "perfetto-chrome1M.open_s"} <= keys
    assert {"pftrace1M.open_s", "pftrace10M.bytes_per_record"} <= keys
    assert {"bytes1.roofline_ms", "many.lanes_prepared_ms"} <= keys
