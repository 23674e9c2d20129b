"""Measure traces that have very many of one thing, against ordinary ones.

Prints JSON: how many times as long a record takes as in an ordinary trace of the
same format. Both are read in one process, one after the other, by processor time:
such ratios hold on any machine.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

from bench_shapes import SHAPES
from bench_traces import provide, trace_file

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.readers.registry import open_trace
from ggscope.views.timeline.view import PrepareRequest
from ggscope.writers.ascii import ascii_timeline

N_ORDINARY = 1_000_000
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
    print(json.dumps({name: float(f"{x:.3g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
