"""Time what answers "why is it slow": summary, gaps, token latency and comparison.

    python packaging/bench_answers.py TRACE [ROUNDS]

Prints JSON: medians in milliseconds. Calls what the views call, without a window. What
is kept from one question to the next (indices of spans) is there from the second round,
as it is in a window; ``first_ms`` is the summary of a trace that was just opened.
"""

import json
import sys
import time
from itertools import cycle
from pathlib import Path

from bench_analysis import median_s
from PySide6.QtGui import QImage, QPainter

from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.compare import compare
from ggscope.analysis.compare.waterfall import waterfall
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.analysis.statistics.distribution import distribution
from ggscope.analysis.statistics.pivot import pivot
from ggscope.analysis.statistics.table import stat_table
from ggscope.analysis.summary.gaps import gaps
from ggscope.analysis.summary.latency import token_latency
from ggscope.analysis.summary.summary import summary
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.render.compare.timelines import (
    TimelineSide,
    TimelinesScene,
    compose_timelines,
)
from ggscope.render.export import ensure_gui_application
from ggscope.render.painter import paint
from ggscope.render.theme import theme
from ggscope.render.timeline.prepare import PrepareRequest
from ggscope.render.tokens import TokensScene, compose_tokens

GAPS = 100


def measure(trace: Trace, other: Trace, rounds: int) -> dict[str, float]:
    """Return all figures; `other` is what the trace is compared with."""
    begin = time.perf_counter()
    summary(trace)
    first = time.perf_counter() - begin
    tokens = TokensScene(trace, token_latency(trace), 1600, 200, theme("dark"))
    seconds = {
        "first": first,
        "summary": median_s(lambda: summary(trace), rounds),
        "gaps": median_s(lambda: gaps(trace, limit=GAPS), rounds),
        "compare_op": median_s(lambda: compare([trace], [other]), rounds),
        "compare_layer": median_s(lambda: compare([trace], [other], "layer"), rounds),
        "compare_steps": median_s(lambda: _steps(trace, other), rounds),
        "compare_frame": _frame_s(trace, other, 20 * rounds),
        "by_tensor": median_s(lambda: stat_table(trace, "tensor"), rounds),
        "by_expert": median_s(lambda: stat_table(trace, "expert"), rounds),
        "pivot": median_s(lambda: pivot(trace, "layer", "op"), rounds),
        "histogram": median_s(lambda: distribution(trace, "duration"), rounds),
        "histogram_rate": median_s(lambda: distribution(trace, "rate"), rounds),
        "tokens_frame": median_s(lambda: compose_tokens(tokens), 20 * rounds),
    }
    return {f"{name}_ms": value * 1e3 for name, value in seconds.items()}


def _steps(trace: Trace, other: Trace) -> None:
    """Compute the steps from one to the other, by op family."""
    traces = [trace, other]
    waterfall(traces, align(traces), 1)


def _frame_s(trace: Trace, other: Trace, rounds: int) -> float:
    """Return what a picture of both timelines takes, composed and painted, panned."""
    ensure_gui_application()
    colors, sides = theme("dark"), []
    for run in (trace, other):
        index = TraceIndex(run)
        ready = PrepareRequest(index, LaneState(), "family", None, None, colors)()
        sides.append(TimelineSide(index, ready.layout, "run"))
    image = QImage(1920, 900, QImage.Format.Format_RGB32)
    part = trace.extent.duration // 10
    starts = cycle(range(trace.extent.start, trace.extent.end - part, part // 8 + 1))

    def draw() -> None:
        start = next(starts)
        scene = TimelinesScene(
            sides[0], sides[1], TimeRange(start, start + part), 0, 1920, 900, colors
        )
        painter = QPainter(image)
        paint(compose_timelines(scene), painter)
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
