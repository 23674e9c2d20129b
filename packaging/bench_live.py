"""Measure a trace that grows, and a program that is followed through its ring.

Prints JSON. Updates: spans are appended to a trace of 5 million in 30ths of a second at
a million a second; each snapshot is prepared for the timeline and its columns are
computed, as often in a second of processor time as told; and how many times as long the
same takes of a trace that is made anew. Then a made-up program writes a million records
a second to a ring of 64 MB; each poll makes a snapshot and its columns.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from ggscope.analysis.rows.columns import column_edges, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.live.follow import ring_folder
from ggscope.live.program import ProgramSource
from ggscope.live.source import State
from ggscope.model.builder import TraceBuilder
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import Array
from ggscope.model.trace import OpTable, TraceInfo
from ggscope.views.timeline.view import PrepareRequest

N_SPANS, RATE, PER_SECOND, PX = 5_000_000, 1_000_000, 30, 1920
N_LANES, N_LAYERS, N_UPDATES = 4, 32, 40
WRITER = Path(__file__).parent.parent / "tests" / "ring_writer.py"
INFO = TraceInfo((), "", "benchmark", "", 0)
OPS = OpTable("benchmark", ("NONE", "MUL_MAT", "ADD", "ROPE", "SOFT_MAX", "RMS_NORM"))


def columns(first: int, stop: int) -> dict[str, Array]:
    """Return spans on four threads that work through the layers again and again."""
    i = np.arange(first, stop)
    place, lane = i // N_LANES, (i % N_LANES).astype(np.int16)
    start = place * 1000 + lane * 7
    return {
        "start": start,
        "end": start + 300 + place * 37 % 600,
        "lane": lane,
        "name": np.full(len(i), -1, np.int32),
        "op": (place % 5 + 1).astype(np.int16),
        "flags": np.zeros(len(i), np.uint16),
        "layer": (place // 20 % N_LAYERS).astype(np.int16),
    }


def empty_builder(*, grows: bool) -> TraceBuilder:
    """Return a builder that knows the threads."""
    made = TraceBuilder(grows=grows)
    made.ops = OPS
    for number in range(N_LANES):
        made.add_lane(f"thread {number}", LaneKind.THREAD)
    return made


def draw(index: TraceIndex) -> None:
    """Do what a picture of the timeline needs."""
    made = PrepareRequest(index, LaneState(), "family", None, None)()
    rows = [
        row
        for box in made.layout.boxes
        if box.lane is not None and box.lane.counter < 0
        for row in index.row_columns(box.lane.key, "family")
    ]
    query_many(rows, column_edges(index.trace.extent, PX))


def updates() -> dict[str, float]:
    """Return updates per second of processor time, and how much slower anew is."""
    builder, index, taken = empty_builder(grows=True), None, []
    step = RATE // PER_SECOND
    for at in range(0, N_SPANS, step):
        new = columns(at, min(at + step, N_SPANS))
        begin = time.process_time()
        builder.add_spans(**new)
        trace = builder.snapshot(INFO)
        index = TraceIndex(trace, index, is_appended=index is not None)
        draw(index)
        taken.append(time.process_time() - begin)
    whole = empty_builder(grows=False)
    whole.add_spans(**columns(0, N_SPANS))
    begin = time.process_time()
    draw(TraceIndex(whole.snapshot(INFO)))
    anew, update = time.process_time() - begin, median(taken[-N_UPDATES:])
    return {
        "updates_per_s": 1 / update,
        "anew_x": anew / update,
        "longest_ms": max(taken[1:]) * 1e3,
    }


def followed(seconds: float, megabytes: float) -> dict[str, float]:
    """Follow a made-up program; return what was lost, lag, and processor time."""
    lags: list[float] = []
    with TemporaryDirectory(dir=ring_folder()) as folder:
        path = Path(folder) / "ring"
        command = [sys.executable, WRITER, path, "--rate", RATE, "--seconds", seconds]
        command += ["--megabytes", megabytes]
        writer = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, text=True
        )
        source, index = ProgramSource(path), None
        begin, used = time.perf_counter(), time.process_time()
        while source.heard().state not in (State.ENDED, State.GONE):
            now = time.perf_counter()
            if source.poll():
                index = TraceIndex(source.snapshot(), index, is_appended=bool(index))
                draw(index)
                if source.heard().lag_ns >= 0:
                    lag = source.heard().lag_ns / 1e6
                    lags.append(lag + (time.perf_counter() - now) * 1e3)
            time.sleep(max(now + 1 / PER_SECOND - time.perf_counter(), 0))
        used = time.process_time() - used
        took = time.perf_counter() - begin
        told = json.loads(writer.communicate()[0])
        heard = source.heard()
        source.close()
    return {
        "lost": float(heard.lost),
        "misjudged": float(abs(heard.lost - told["dropped"])),
        "lag_ms": float(np.percentile(lags, 95)),
        "core_share": used / took,
    }


def main() -> int:
    """Measure and print."""
    found = updates()
    found |= {f"ring_{name}": x for name, x in followed(10, 64).items()}
    small = followed(3, 0.25)
    found["small_ring_misjudged"] = small["misjudged"]
    print(json.dumps({name: float(f"{x:.4g}") for name, x in found.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
