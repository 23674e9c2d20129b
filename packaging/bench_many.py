"""Measure traces that have very many of one thing, against ordinary ones.

Prints JSON: how many times as long a record takes as in an ordinary trace of the
same format, and how many times as long 10,000 open lanes take to prepare as ten with
the same spans, also in milliseconds. All are measured in one process, one after the
other, by processor time: ratios of it hold on any machine.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from bench_shapes import SHAPES
from bench_traces import provide, trace_file

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.exporters.ascii import ascii_timeline
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, Trace, TraceInfo
from ggscope.readers.registry import open_trace
from ggscope.render.timeline.prepare import PrepareRequest

N_ORDINARY = 1_000_000
MANY_LANES, FEW_LANES, N_SPANS = 10_000, 10, 4_000_000
MEASURED = {
    "threads": "ggmlviz",
    "labels": "ggmlviz",
    "nested": "ggmlviz",
    "engines": "npu",
}


def shape_path(name: str, folder: Path) -> Path:
    """Return a trace of a shape, written where it is not there."""
    shape = SHAPES[name]
    path = folder / f"many-{name}-{shape.n}{shape.suffix}"
    if not path.exists():
        half = path.with_name(path.name + ".part")
        shape.write(half, shape.n)
        half.replace(path)
    return path


def seconds_per_record(path: Path, n: float, rounds: int) -> tuple[float, float]:
    """Return processor time per record of reading, and of laying out and drawing."""
    reading, drawing = [], []
    for _ in range(rounds):
        begin = time.process_time()
        trace = open_trace(path)
        read = time.process_time()
        state = LaneState(collapsed=frozenset())
        index = TraceIndex(trace)
        PrepareRequest(index, state, "family", None, None)()
        ascii_timeline(index)
        reading.append(read - begin)
        drawing.append(time.process_time() - read)
    return median(reading) / n, median(drawing) / n


def lanes_trace(n_lanes: int) -> Trace:
    """Return `N_SPANS` spans on so many threads, every second one inside another."""
    builder, each = TraceBuilder(), N_SPANS // n_lanes
    for number in range(n_lanes):
        builder.add_lane(f"thread {number}", LaneKind.THREAD, ("Threads",))
    place = np.arange(each, dtype=np.int64)
    start = place // 2 * 100 + place % 2 * 20
    end = np.where(place % 2, start + 50, start + 90)
    builder.add_spans(
        start=np.tile(start, n_lanes),
        end=np.tile(end, n_lanes),
        lane=np.repeat(np.arange(n_lanes, dtype=np.int32), each),
    )
    info = TraceInfo(
        paths=(), reader_id="", format="benchmark", format_version="", byte_size=0
    )
    return builder.snapshot(info)


def seconds_to_prepare(n_lanes: int, rounds: int) -> float:
    """Return processor time until the lanes in view of so many can be drawn."""
    trace, state, figures = lanes_trace(n_lanes), LaneState(collapsed=frozenset()), []
    for _ in range(rounds):
        begin = time.process_time()
        PrepareRequest(TraceIndex(trace), state, "family", None, None)()
        figures.append(time.process_time() - begin)
    return median(figures)


def main() -> int:
    """Measure and print."""
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    ordinary = {}
    for kind in dict.fromkeys(MEASURED.values()):
        file = trace_file(kind, N_ORDINARY)
        ordinary[kind] = seconds_per_record(provide(file, folder), file.n, rounds)
    figures = {}
    for name, kind in MEASURED.items():
        n = SHAPES[name].n * SHAPES[name].records
        read, drawn = seconds_per_record(shape_path(name, folder), n, rounds)
        figures[f"{name}_read"] = read / ordinary[kind][0]
        figures[f"{name}_shown"] = (read + drawn) / sum(ordinary[kind])
    few = seconds_to_prepare(FEW_LANES, rounds)
    many = seconds_to_prepare(MANY_LANES, rounds)
    figures["lanes_prepared"] = many / few
    figures["lanes_prepared_ms"] = many * 1e3
    print(json.dumps({name: float(f"{x:.3g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
