"""Time what answers "why is it slow": summary, gaps, token latency and comparison.

    python packaging/bench_answers.py TRACE [ROUNDS]

Prints JSON: medians in milliseconds. Calls what the views call, without a window. What
is kept from one question to the next (indices of spans) is there from the second round,
as it is in a window; ``first_ms`` is the summary of a trace that was just opened.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from bench_analysis import median_s
from PySide6.QtGui import QImage, QPainter

from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.bar_parts import bar_parts
from ggscope.analysis.compare.compare import compare
from ggscope.analysis.compare.waterfall import waterfall
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.statistics.distribution import distribution
from ggscope.analysis.statistics.pivot import pivot
from ggscope.analysis.statistics.scan import SpanBlocks
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.gaps import gaps
from ggscope.analysis.summary.latency import token_latency
from ggscope.analysis.summary.summary import summary
from ggscope.bench.frames import range_at
from ggscope.model.selection import By
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.render.batch import DisplayList
from ggscope.render.compare.timelines import (
    TimelineSide,
    TimelinesScene,
    compose_timelines,
)
from ggscope.render.export import ensure_gui_application
from ggscope.render.painter import paint
from ggscope.render.static_layer import StaticLayerCache
from ggscope.render.theme import theme
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.render.tokens import TokensScene, Window, compose_tokens, full_window

GAPS = 100


def measure(trace: Trace, other: Trace, rounds: int) -> dict[str, float]:
    """Return all figures; `other` is what the trace is compared with."""
    begin = time.perf_counter()
    summary(trace)
    first = time.perf_counter() - begin
    extent, blocks = trace.extent, SpanBlocks(trace)
    edge = extent.duration // 1000
    part = TimeRange(extent.start + edge, extent.end - edge)

    def by(what: By, within: TimeRange | None = None) -> float:
        """Return what statistics take that the pane has asked for before."""
        table = partial(stat_table, trace, what, time=within, blocks=blocks)
        table()
        return median_s(table, rounds)

    seconds = {
        "first": first,
        "summary": median_s(lambda: summary(trace), rounds),
        "gaps": median_s(lambda: gaps(trace, limit=GAPS), rounds),
        "compare_op": median_s(lambda: compare([trace], [other]), rounds),
        "compare_layer": median_s(lambda: compare([trace], [other], "layer"), rounds),
        "compare_steps": median_s(lambda: _steps(trace, other), rounds),
        **_compare_frames_s(trace, other, 20 * rounds),
        "by_op": by("op"),
        "by_op_range": by("op", part),
        "by_layer": by("layer"),
        "by_tensor": by("tensor"),
        "by_tensor_range": by("tensor", part),
        "by_expert": by("expert"),
        "pivot": median_s(lambda: pivot(trace, "layer", "op"), rounds),
        "histogram": median_s(lambda: distribution(trace, "duration"), rounds),
        "histogram_rate": median_s(lambda: distribution(trace, "rate"), rounds),
        "tokens_parts": median_s(lambda: bar_parts(trace), 1),
        **_tokens_frames_s(trace, 20 * rounds),
    }
    return {f"{name}_ms": value * 1e3 for name, value in seconds.items()}


def _steps(trace: Trace, other: Trace) -> None:
    """Compute the steps from one to the other, by op family."""
    traces = [trace, other]
    waterfall(traces, align(traces), 1)


def _compare_frames_s(trace: Trace, other: Trace, rounds: int) -> dict[str, float]:
    """Return what pictures of both timelines take: of a tenth, and along the walk."""
    ensure_gui_application()
    colors, sides = theme("dark"), []
    for run in (trace, other):
        index = TraceIndex(run)
        ready = PrepareRequest(index, LaneState(), "family", None, None, colors)()
        sides.append(TimelineSide(index, ready.layout, "run"))
    extent = trace.extent
    tenth = extent.duration // 10
    pan = [
        TimeRange(start, start + tenth)
        for start in range(extent.start, extent.end - tenth, tenth // 8 + 1)
    ]
    walk = [range_at(extent, step / rounds) for step in range(rounds)]

    def picture(visible: TimeRange) -> DisplayList:
        scene = TimelinesScene(sides[0], sides[1], visible, 0, 1920, 900, colors)
        return compose_timelines(scene)

    return {
        "compare_frame": _painted_s(picture, pan, rounds),
        "compare_walk": _painted_s(picture, walk, rounds),
    }


def _tokens_frames_s(trace: Trace, rounds: int) -> dict[str, float]:
    """Return what pictures of token latency take along the walk, plain and stacked."""
    ensure_gui_application()
    plain = TokensScene(trace, token_latency(trace), 1920, 240, theme("dark"))
    first, stop = full_window(plain)
    whole = TimeRange(0, 1 << 30)

    def windows() -> Iterator[Window]:
        for step in range(rounds):
            part, scale = range_at(whole, step / rounds), (stop - first) / (1 << 30)
            yield first + part.start * scale, first + part.end * scale

    def picture(scene: TokensScene, window: Window) -> DisplayList:
        return compose_tokens(replace(scene, window=window))

    stacked = replace(plain, parts=bar_parts(trace))
    return {
        name: _painted_s(partial(picture, scene), list(windows()), rounds)
        for name, scene in (("tokens_frame", plain), ("tokens_stacked_frame", stacked))
    }


def _painted_s(
    picture: Callable[[Any], DisplayList], views: Sequence[Any], rounds: int
) -> float:
    """Return the median of what pictures of one view after the other take, painted."""
    image = QImage(1920, 900, QImage.Format.Format_RGB32)
    layers, following = StaticLayerCache(), cycle(views)

    def draw() -> None:
        drawn = picture(next(following))
        painter = QPainter(image)
        paint(drawn, painter, cache=layers)
        painter.end()

    return median_s(draw, rounds)


def main() -> int:
    """Measure and print."""
    path = Path(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    figures = measure(open_trace(path), open_trace(path), rounds)
    print(json.dumps({name: float(f"{x:.4g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
