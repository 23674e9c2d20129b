"""Measure a trace that grows, and a program that is followed through its ring.

Prints JSON. Updates: spans are appended to a trace of 5 million in 30ths of a second at
a million a second; each snapshot is prepared for the timeline and its columns are
computed, as often in a second of processor time as given; and how much longer the
same takes of a trace that is made anew. Then a made-up program writes a million records
a second to a ring of 64 MB; each poll makes a snapshot and its columns.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PySide6.QtCore import QEventLoop, QTimer

from ggscope.analysis.rows.columns import column_edges, query_many
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.gui.app import create_app, create_window
from ggscope.live.open_source import ring_folder
from ggscope.live.program import ProgramSource
from ggscope.live.source import State
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Array
from ggscope.model.trace import LaneKind, OpTable, TraceInfo
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.views.timeline.view import TimelineView

N_SPANS, RATE, PER_SECOND, PX = 5_000_000, 1_000_000, 30, 1920
N_LANES, N_LAYERS, N_UPDATES = 4, 32, 40
WARM_MS = 3_000
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
        if box.lane is not None and box.lane.track.has_rows
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


def made_up_program(
    path: Path, seconds: float, megabytes: float
) -> "subprocess.Popen[str]":
    """Start what writes to a ring."""
    command = [sys.executable, WRITER, path, "--rate", RATE, "--seconds", seconds]
    arguments = [str(word) for word in (*command, "--megabytes", megabytes)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def followed(seconds: float, megabytes: float) -> dict[str, float]:
    """Follow a made-up program; return what was lost, lag, and processor time."""
    lags: list[float] = []
    with TemporaryDirectory(dir=ring_folder()) as folder:
        path = Path(folder) / "ring"
        writer = made_up_program(path, seconds, megabytes)
        source, index = ProgramSource(path), None
        begin, used = time.perf_counter(), time.process_time()
        while source.status().state not in (State.ENDED, State.GONE):
            now = time.perf_counter()
            if source.poll():
                index = TraceIndex(source.snapshot(), index, is_appended=bool(index))
                draw(index)
                if source.status().lag_ns >= 0:
                    lag = source.status().lag_ns / 1e6
                    lags.append(lag + (time.perf_counter() - now) * 1e3)
            time.sleep(max(now + 1 / PER_SECOND - time.perf_counter(), 0))
        used = time.process_time() - used
        took = time.perf_counter() - begin
        answer = json.loads(writer.communicate()[0])
        status = source.status()
        source.close()
    return {
        "lost": float(status.lost),
        "misjudged": float(abs(status.lost - answer["dropped"])),
        "lag_ms": float(np.percentile(lags, 95)),
        "core_share": used / took,
    }


def in_window(seconds: float, megabytes: float) -> dict[str, float]:
    """Follow a made-up program in the window, at 1920×1080.

    A frame is a picture, or a picture that has moved on by pixels; an update one that
    shows more records. Lag is the age of its newest record when it is out. How
    much of the share of a core is the kernel's is stated as well: mostly it gives the
    process memory that it has not had before. The first seconds, in which panes are
    made and filled, do not count.
    """
    application = create_app()
    window = create_window(Settings(MemoryStore()), "dark")
    window.resize(1920, 1080)
    window.show()
    lags: list[float] = []
    begun = {"time": 0.0, "used": 0.0, "memory": 0.0, "records": 0.0}
    with TemporaryDirectory(dir=ring_folder()) as folder:
        path = Path(folder) / "ring"
        document = window.follow(str(path))
        assert document is not None
        assert document.live is not None
        live, loop = document.live, QEventLoop()
        writer = made_up_program(path, seconds, megabytes)
        drawn: list[object] = [None]
        out = QTimer(singleShot=True, interval=0)

        def shown() -> TimelineView:
            (view,) = document.workspace.views("timeline")
            assert isinstance(view, TimelineView)
            return view

        def on_out() -> None:
            prepared = shown().prepared()
            trace = None if prepared is None else prepared.index.trace
            if trace is None or trace is drawn[0] or trace.read_until is None:
                return
            drawn[0] = trace
            now = time.monotonic_ns()
            lags.append((now - trace.clock.origin - trace.read_until) / 1e6)

        def begin() -> None:
            timeline = shown()
            compose = timeline.compose_scene

            def composed(*arguments: Any) -> Any:
                out.start()  # it comes when the window has been painted
                return compose(*arguments)

            timeline.compose_scene = composed  # type: ignore[assignment]
            begun.update(
                frames=n_frames(timeline),
                time=time.perf_counter(),
                used=time.process_time(),
                in_kernel=os.times().system,
                memory=resident_bytes(),
                records=live.metrics.status.records,
            )

        out.timeout.connect(on_out)
        warm = QTimer(singleShot=True, interval=WARM_MS)
        warm.timeout.connect(begin)
        warm.start()
        live.ended.connect(loop.quit)
        loop.exec()
        took = time.perf_counter() - begun["time"]
        status, used = live.metrics.status, time.process_time() - begun["used"]
        in_kernel = os.times().system - begun["in_kernel"]
        n_shown = n_frames(shown()) - begun["frames"]
        grown = resident_bytes() - begun["memory"]
        out.timeout.disconnect(on_out)
        window.close()
        application.processEvents()
        writer.communicate()
    return {
        "frames_per_s": n_shown / took,
        "updates_per_s": len(lags) / took,
        "lag_ms": float(np.percentile(lags, 95)),
        "core_share": used / took,
        "kernel_share": in_kernel / took,
        "lost": float(status.lost),
        "bytes_per_record": grown / max(status.records - begun["records"], 1),
    }


def n_frames(timeline: TimelineView) -> int:
    """Return how often a moving picture was drawn so far."""
    return 0 if timeline.glide is None else timeline.glide.n_frames


def resident_bytes() -> float:
    """Return the memory that this process has."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return float(pages) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--window", type=float, default=0.0)
    options, _ = parser.parse_known_args()
    if options.window:
        print(json.dumps(in_window(options.window, 64)))
        return 0
    figures = updates()
    figures |= {f"ring_{name}": x for name, x in followed(10, 64).items()}
    small = followed(3, 0.25)
    figures["small_ring_misjudged"] = small["misjudged"]
    figures |= {f"window_{name}": x for name, x in in_window(13, 64).items()}
    print(json.dumps({name: float(f"{x:.4g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
