"""Perfetto traces against Perfetto's own protobuf classes and its own processor."""

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import perfetto_files as files
import perfetto_viewer
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.readers.perfetto.kinds import is_known, kind_name
from ggscope.readers.registry import open_trace

pytest.importorskip("perfetto", reason="perfetto is not installed")

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

from oracles import perfetto_slices as oracle

OPEN = -1


def word(trace: Trace, number: int) -> str:
    return trace.strings[int(number)] if number >= 0 else ""


def slices(trace: Trace) -> Counter:
    """Return begin, end, name and category of each span."""
    s, origin = trace.spans, trace.clock.origin
    is_open = quality_of(s.flags) == Quality.UNFINISHED
    end = np.where(is_open, OPEN, s.end + origin)
    category = np.full(len(s), -1) if s.category is None else s.category
    return Counter(
        (a, b, word(trace, name), word(trace, code))
        for a, b, name, code in zip(
            (s.start + origin).tolist(), end.tolist(), s.name, category, strict=True
        )
    )


def instants(trace: Trace) -> Counter:
    m = trace.markers
    times = (m.time + trace.clock.origin).tolist()
    return Counter(
        (time, word(trace, name)) for time, name in zip(times, m.name, strict=True)
    )


def arrows(trace: Trace) -> set[tuple[int, int]]:
    start = trace.spans.start + trace.clock.origin
    source, target = start[trace.flows.source], start[trace.flows.target]
    return set(zip(source.tolist(), target.tolist(), strict=True))


def samples(trace: Trace) -> dict[str, list[tuple[int, float]]]:
    origin = trace.clock.origin
    return {
        series.name: sorted(
            zip((series.time + origin).tolist(), series.value.tolist(), strict=True)
        )
        for series in trace.counters
    }


@pytest.mark.parametrize("seed", range(12))
def test_everything_is_as_the_packets_show(seed, tmp_path):
    data = files.varied(seed, 400)
    path = tmp_path / "x.txt"
    path.write_bytes(data)

    trace = open_trace(path)

    report = oracle.read(data)
    assert trace.check() == []
    assert slices(trace) == Counter(
        (one.start, one.end, one.name, one.category) for one in report.slices
    )
    assert instants(trace) == Counter(report.instants)
    assert samples(trace) == {name: sorted(v) for name, v in report.samples.items()}
    assert arrows(trace) == report.flows


def test_lanes_of_threads_hold_their_slices(tmp_path):
    data, _ = files.random_trace(2, 300)
    path = tmp_path / "x.txt"
    path.write_bytes(data)

    trace = open_trace(path)

    per_lane = {}
    for lane, n in Counter(trace.spans.lane.tolist()).items():
        about = trace.lanes[lane].attributes
        per_lane["thread", int(about["pid"]), int(about["tid"])] = n
    assert per_lane == Counter(one.track for one in oracle.read(data).slices)


def test_names_of_kinds_are_those_of_perfetto():
    kinds = [f for f in TracePacket.DESCRIPTOR.fields if is_known(f.number)]

    assert {f.number: f.name for f in kinds} == {
        f.number: kind_name(f.number) for f in kinds
    }
    content = TracePacket.DESCRIPTOR.oneofs_by_name["data"].fields
    assert sum(not is_known(f.number) for f in content) < 10


def test_timeline_of_a_trace_without_track_events_is_empty(tmp_path):
    path = tmp_path / "x.pftrace"
    path.write_bytes(files.packet(files.num(10, 1), files.sub(33, b"")) * 3)

    trace = open_trace(path)

    assert [w.code for w in trace.warnings] == ["no_track_events"]
    assert trace.info.summary["events"] == {"trace_config": 3}


# -- Perfetto's own processor ----------------------------------------------------------

_TRACED = """
import time
def inner(n):
    return sum(range(n))
def outer(n):
    return [inner(i) for i in range(n)]
for _ in range(3):
    outer(40)
"""


def viztracer_trace(folder: Path) -> Path:
    """Return what viztracer writes of a small program."""
    program, result = folder / "program.py", folder / "viz.json"
    program.write_text(_TRACED)
    subprocess.run(
        [sys.executable, "-m", "viztracer", "--quiet", "-o", str(result), str(program)],
        check=True,
        cwd=folder,
        timeout=120,
    )
    return result


@pytest.mark.timeout(600)
def test_slices_are_those_of_perfettos_processor(tmp_path):
    perfetto_viewer.viewer()
    paths = []
    for seed in range(4):
        paths.append(tmp_path / f"varied-{seed}.pftrace")
        paths[-1].write_bytes(files.varied(seed, 300, marks_lead=False))
    for clock in (0, files.LOCAL_CLOCK, files.MONOTONIC):
        paths.append(tmp_path / f"clock-{clock}.pftrace")
        data, _ = files.random_trace(clock, 200, clock=clock, has_gaps=True)
        paths[-1].write_bytes(data)
    for make in (files.others, files.rocprof_like, files.old_flows):
        paths.append(tmp_path / f"{make.__name__}.pftrace")
        paths[-1].write_bytes(make())
    if importlib.util.find_spec("viztracer") is not None:
        paths.append(viztracer_trace(tmp_path))

    result = perfetto_viewer.seen(paths, tmp_path)

    for path, seen in zip(paths, result, strict=True):
        trace = open_trace(path)
        # An instant is a slice without a duration there.
        mine = Counter(
            (start, OPEN if end == OPEN else end - start, name)
            for start, end, name, _ in slices(trace).elements()
        )
        mine += Counter((time, 0, name) for time, name in instants(trace).elements())
        theirs = Counter((int(t), int(d), n or "") for t, d, n, _ in seen["slices"])
        assert mine == theirs, path.name
        if path.suffix == ".pftrace":
            # It leads from a slice to itself, too.
            flows = {(int(a), int(b)) for a, b in seen["flows"] if a != b}
            assert arrows(trace) == flows
            values = Counter((n, int(t), float(v)) for n, t, v in seen["values"])
            mine = Counter()
            for name, some in samples(trace).items():
                mine += Counter((name, *one) for one in some)
            assert mine == values
