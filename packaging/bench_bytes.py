"""Time what the views of a model file, its experts and its graph compute.

    python packaging/bench_bytes.py FOLDER [ROUNDS]

FOLDER holds a run, its model and its graph (`bench_moe`). Prints JSON: medians, in
seconds or milliseconds as the names say. Calls what the views call, without a window.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from bench_analysis import median_s
from bench_moe import KINDS, N_LAYERS, expert_name

from ggscope.analysis.experts.figures import Beside, experts_result
from ggscope.analysis.graph.layout import GraphChoice, lay_out_graph
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.heat.heatmap import HeatBase
from ggscope.analysis.heat.rows import HeatAxis, RowKind
from ggscope.analysis.links import linked
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.what_if import best_possible, miss_curve, what_if
from ggscope.analysis.roofline import roofline
from ggscope.analysis.ruler import ruler_facts
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.descriptions.reads import (
    hot_facts,
)
from ggscope.model.graph import first_node
from ggscope.model.selection import Selection, TableName
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.discovery import survey
from ggscope.render.export import render_image
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy, box_look
from ggscope.render.graph.scene import GraphScene
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.figure import heat_scene
from ggscope.render.heatmap.scene import HeatScene
from ggscope.render.theme import theme
from ggscope.session_loading import Opened, open_parts
from ggscope.views.heatmap.request import tabled_base

WIDTH, HEIGHT = 1_900, 900
ZOOMS = (1, 100, 10_000)
N_FRAMES = 40
N_CURVE = 1_000_000
Figures = dict[str, float]


def measure(opened: Opened, rounds: int) -> Figures:
    """Return all figures."""
    trace = opened.trace
    parts = (_joining, _heatmap, _cache, _tables, _links, _graph, _measures)
    figures: Figures = {"n_accesses": _n_accesses(trace)}
    for part in parts:
        figures |= part(opened, rounds)
    return figures


def _n_accesses(trace: Trace) -> int:
    counts = np.diff(trace.accesses.first)
    pattern = trace.accesses.pattern
    return int(counts[pattern[pattern >= 0]].sum()) + len(trace.accesses.loose)


def _ms(work: Callable[[], object], rounds: int) -> float:
    return median_s(work, rounds) * 1e3


def _joining(opened: Opened, rounds: int) -> Figures:
    sides = [SideFile(p.trace, p.member.role) for p in opened.sides]
    return {"join_ms": _ms(lambda: join(opened.main, sides), rounds)}


# -- the heatmap -----------------------------------------------------------------


class _Unwatched:
    """Nobody looks on, and nothing is stopped."""

    def progress(self, done: int, total: int) -> None:
        del done, total


def _base(trace: Trace, rows: RowKind) -> HeatBase:
    time = trace.extent if rows == "time" else None
    return tabled_base(trace, rows, "bytes", None, None, time, _Unwatched())


def _heatmap(opened: Opened, rounds: int) -> Figures:
    trace = opened.trace

    def first() -> object:
        base = _base(trace, "token")
        return render_image(compose_heatmap(scene_of(base)))

    def scene_of(base: HeatBase) -> HeatScene:
        axis = HeatAxis(base.files)
        return heat_scene(trace, base, axis, (WIDTH, HEIGHT), "dark")

    figures = {"heat_first_ms": _ms(first, rounds)}
    for rows in ("layer", "time"):
        figures[f"heat_{rows}_ms"] = _ms(partial(_base, trace, rows), rounds)
    base = _base(trace, "token")
    scene = scene_of(base)
    compose_heatmap(scene)
    for zoom in ZOOMS:
        width = scene.axis.extent // zoom
        # Each frame shows other bytes, so none is a repeat.
        begins = np.linspace(0, scene.axis.extent * 0.4, N_FRAMES).astype(np.int64)
        frames = iter(begins.tolist() * rounds)

        def frame(width: int = width, frames: Iterator[int] = frames) -> object:
            begin = next(frames)
            view = replace(scene.view, begin=begin, stop=begin + width)
            return render_image(compose_heatmap(replace(scene, view=view)))

        figures[f"heat_picture_{zoom}x_ms"] = _ms(frame, N_FRAMES)
    return figures


# -- the cache -------------------------------------------------------------------


def _cache(opened: Opened, rounds: int) -> Figures:
    answer = what_if(opened.trace, None, with_row_reads=False)
    size = np.asarray(answer.units.size, np.int64)
    # As many reads as asked, over and over where the run is shorter.
    unit = np.resize(answer.sequence.unit, N_CURVE)
    return {
        "curve_ms": _ms(lambda: miss_curve(unit, size), rounds),
        "what_if_ms": _ms(
            lambda: what_if(opened.trace, None, with_row_reads=False), rounds
        ),
        "belady_ms": _ms(lambda: best_possible(answer), rounds),
    }


# -- tensors, experts, links -----------------------------------------------------


def _tables(opened: Opened, rounds: int) -> Figures:
    trace = opened.trace

    def hot() -> object:
        return hot_facts(trace, hot_cold(trace))

    def experts() -> object:
        return experts_result(trace, None, None, None, Beside.TRANSITION)

    return {
        "hot_ms": _ms(hot, rounds),
        "experts_ms": _ms(experts, rounds),
        "correlate_ms": _ms(lambda: correlate(trace), rounds),
    }


def _links(opened: Opened, rounds: int) -> Figures:
    trace = opened.trace
    correlation = correlate(trace)
    rng = np.random.default_rng(1)
    spans = iter(rng.integers(0, len(trace.spans), 20 * rounds).tolist())
    name = trace.strings.find(expert_name(N_LAYERS // 2, len(KINDS) - 1, 7))
    tensor = int(np.flatnonzero(trace.tensors.name == name)[0])
    node = first_node(trace.graphs, 0) + 400

    def of(table: TableName, row: int) -> object:
        return linked(trace, Selection(table, (row,)), correlation)

    return {
        "link_span_ms": _ms(lambda: of("spans", next(spans)), 20),
        "link_tensor_ms": _ms(lambda: of("tensors", tensor), rounds),
        "link_buffer_ms": _ms(lambda: of("buffers", 0), rounds),
        "link_node_ms": _ms(lambda: of("nodes", node), rounds),
    }


# -- the graph -------------------------------------------------------------------


def _graph(opened: Opened, rounds: int) -> Figures:
    trace = opened.trace
    graph, colors = trace.graphs[0], theme("dark")

    def picture(choice: GraphChoice | None) -> object:
        layout = lay_out_graph(graph, choice)
        look = box_look(trace, graph, layout, GraphColorBy.CATEGORY, None, colors)
        zoom = min(WIDTH / max(layout.width, 1), HEIGHT / max(layout.height, 1))
        scene = GraphScene(
            trace, 0, layout, look, WIDTH, HEIGHT, colors, x=0.0, y=0.0, zoom=zoom
        )
        return render_image(compose_graph(scene))

    correlation = correlate(trace)
    return {
        "graph_closed_ms": _ms(lambda: picture(None), rounds),
        "graph_open_ms": _ms(lambda: picture(GraphChoice(None)), rounds),
        "graph_measures_ms": _ms(lambda: node_measures(trace, 0, correlation), rounds),
    }


def _measures(opened: Opened, rounds: int) -> Figures:
    """Return what the roofline takes, and the ruler over parts of the run."""
    trace = opened.trace
    part = max(trace.extent.duration // N_FRAMES, 1)
    begins = iter(range(trace.extent.start, trace.extent.end, part))

    def ruler() -> object:
        begin = next(begins)
        return ruler_facts(trace, TimeRange(begin, begin + part))

    return {
        "roofline_ms": _ms(lambda: roofline(trace), rounds),
        "ruler_all_ms": _ms(lambda: ruler_facts(trace, trace.extent), rounds),
        "ruler_part_ms": _ms(ruler, N_FRAMES // 2),
    }


def main() -> int:
    """Measure and print."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QGuiApplication

    application = QGuiApplication([])  # for the fonts of the pictures
    opened = open_parts(survey([Path(sys.argv[1])]))
    figures = measure(opened, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    del application
    print(json.dumps({name: float(f"{x:.4g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
