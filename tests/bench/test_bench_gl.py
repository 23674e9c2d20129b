"""Frames per second of the OpenGL picture.

As a test it draws a small picture on whatever OpenGL there is, and is skipped without
a display. On a machine with a graphics card, run it as a program::

    python tests/bench/test_bench_gl.py --size 3840x2160 --rows 128 --spans 33000000

It prints one line of JSON per zoom. A frame is composed, drawn into a framebuffer and
waited for; texts are left out.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import (
    QGuiApplication,
    QOffscreenSurface,
    QOpenGLContext,
    QSurfaceFormat,
)
from PySide6.QtOpenGL import QOpenGLFramebufferObject

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState, lay_out
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from ggscope.render.gl.base import current_renderer, gl_module
from ggscope.render.gl.painter import GlPainter
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.scene import AXIS_HEIGHT, TimelineScene

ZOOMS = (1, 10, 100, 1000)
FRAMES = 60


def make_context() -> tuple[QOpenGLContext, QOffscreenSurface] | None:
    """Return a current context of OpenGL 3.3 core, None where there is none."""
    expected = QSurfaceFormat()
    expected.setVersion(3, 3)
    expected.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    surface, context = QOffscreenSurface(), QOpenGLContext()
    surface.setFormat(expected)
    context.setFormat(expected)
    surface.create()
    if not context.create() or not context.makeCurrent(surface):
        return None
    return context, surface


def trace_of(n_spans: int, n_rows: int) -> Trace:
    """Return spans of some ten microseconds on `n_rows` threads, a clock of ns."""
    builder, rng = TraceBuilder(), np.random.default_rng(1)
    builder.ops = builders.OPS
    for row in range(n_rows):
        lane = builder.add_lane(f"thread {row}", LaneKind.THREAD, ("Threads",))
        start, end = builders.random_row(
            row, n_spans // n_rows, max_gap=9_000, max_length=40_000
        )
        op = rng.integers(1, len(builders.OPS.names), len(start)).astype(np.int16)
        builder.add_spans(start=start, end=end, lane=lane, op=op)
    return builder.snapshot(builders.make_info())


def scene_of(n_spans: int, n_rows: int, width: int, height: int) -> TimelineScene:
    """Return a scene of `n_rows` threads that fill a picture of that size."""
    index = TraceIndex(trace_of(n_spans, n_rows))
    keys = [lane.key for lane in index.lanes]
    factor = max(((height - AXIS_HEIGHT - 60) / n_rows - 4) / 22, 0.5)
    state = LaneState(
        collapsed=frozenset({"Ops", "Layers"}),
        heights=tuple((key, factor) for key in keys),
    )
    rows = {
        lane.key: len(index.rows(lane.key))
        for lane in index.lanes
        if lane.group == "Threads"
    }
    return TimelineScene(
        index, lay_out(index.lanes, rows, state), index.trace.extent,
        float(width), float(height), theme("dark"),
    )  # fmt: skip


def views(scene: TimelineScene, zoom: int, n: int) -> Iterator[TimelineScene]:
    """Yield the scene at `n` places, each of which differs from the one before."""
    extent = scene.index.trace.extent
    duration = int(extent.duration / zoom * 0.9)
    for i in range(n):
        share = i * 7 % n / n
        start = extent.start + int(share * (extent.duration - duration))
        yield replace(scene, visible=TimeRange(start, start + duration))


def measure(
    painter: GlPainter, scene: TimelineScene, zoom: int, n_frames: int
) -> dict[str, float]:
    """Return milliseconds per frame, of that for composing, and frames per second."""
    gl, composing = gl_module(), 0.0
    size = QSize(int(scene.width), int(scene.height))
    buffer = QOpenGLFramebufferObject(size)
    times = []
    for seen in views(scene, zoom, n_frames):
        begin = time.perf_counter()
        picture = compose_timeline(seen)
        composing += time.perf_counter() - begin
        painter.paint(picture, buffer.handle())
        gl.glFinish()
        times.append(time.perf_counter() - begin)
    ordered = np.sort(times) * 1e3
    return {
        "zoom": zoom,
        "frames_per_s": round(1e3 / float(ordered.mean()), 1),
        "median_ms": round(float(np.median(ordered)), 2),
        "p99_ms": round(float(ordered[int(len(ordered) * 0.99)]), 2),
        "compose_ms": round(composing / n_frames * 1e3, 2),
    }


@pytest.mark.gl
def test_bench_gl_pictures_on_this_display(gl_display: None) -> None:
    made = make_context()
    if made is None:
        pytest.skip("this display offers no OpenGL context")
    scene = scene_of(40_000, 8, 320, 240)
    painter = GlPainter()
    painter.initialize()

    figures = [measure(painter, scene, zoom, 3) for zoom in (1, 2)]

    assert all(figure["frames_per_s"] > 0 for figure in figures)
    painter.release()
    made[0].doneCurrent()


@pytest.fixture
def gl_display(request: pytest.FixtureRequest) -> None:
    """Skip without an application on a display."""
    if QGuiApplication.instance() is None:
        request.getfixturevalue("qapp")
    if QGuiApplication.platformName() == "offscreen":
        pytest.skip("needs a display: run under xvfb-run")


def main() -> int:
    """Measure by the options of the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="3840x2160")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--spans", type=int, default=4_000_000)
    parser.add_argument("--frames", type=int, default=FRAMES)
    expected = parser.parse_args()
    width, height = (int(part) for part in expected.size.split("x"))
    application = QGuiApplication([])
    made = make_context()
    if made is None:
        print("There is no OpenGL 3.3 here.", file=sys.stderr)
        return 1
    scene = scene_of(expected.spans, expected.rows, width, height)
    painter = GlPainter()
    painter.initialize()
    about = {"renderer": current_renderer(), "size": expected.size}
    about |= {"rows": expected.rows, "spans": expected.spans}
    for zoom in ZOOMS:
        measure(painter, scene, zoom, 3)  # what is computed once
        print(json.dumps(about | measure(painter, scene, zoom, expected.frames)))
    painter.release()
    made[0].doneCurrent()
    del application
    return 0


if __name__ == "__main__":
    sys.exit(main())
