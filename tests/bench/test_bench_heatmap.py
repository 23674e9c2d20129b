"""The file heatmap of 10 million accesses over 2,691 tensors: counting and pictures."""

from dataclasses import replace

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.heat.heatmap import HeatBase, heat_base
from ggscope.analysis.heat.rows import HeatAxis
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Space
from ggscope.model.trace import LaneKind, Trace
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.figure import heat_scene
from ggscope.render.heatmap.scene import HeatScene
from heat_traces import make_accesses, make_tensors

pytestmark = pytest.mark.usefixtures("qapp")
N_TENSORS, N_SPANS = 2_691, 10_000_000
SIZE = 5 << 20


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Return 3,716 tokens that read every tensor once each."""
    builder = TraceBuilder()
    make_tensors(
        builder, [(f"t{i}", i * SIZE, SIZE, i // 112, -1, 0) for i in range(N_TENSORS)]
    )
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    start = np.arange(N_SPANS, dtype=np.int64) * 1_000
    builder.add_spans(
        start=start, end=start + 900, lane=lane, name=builder.strings.intern("op"),
        token=(np.arange(N_SPANS) // N_TENSORS).astype(np.int32),
    )  # fmt: skip
    patterns = [[(i, Space.FILE, i * SIZE, SIZE)] for i in range(N_TENSORS)]
    builder.accesses = make_accesses(patterns, np.arange(N_SPANS) % N_TENSORS)
    return finished(builder)


@pytest.fixture(scope="module")
def base(trace: Trace) -> HeatBase:
    return heat_base(trace, "token")


def scene_of(trace: Trace, base: HeatBase) -> HeatScene:
    return heat_scene(trace, base, HeatAxis(base.files), (2_000, 1_080), "dark")


@pytest.mark.parametrize("rows", ["token", "layer", "time"])
def test_bench_heat_base_10m_accesses_2691_tensors(benchmark, trace, rows):
    files = file_map(trace)

    benchmark.pedantic(lambda: heat_base(trace, rows, files=files), rounds=3)


def test_bench_heat_first_picture_10m_accesses(benchmark, trace):
    benchmark.pedantic(
        lambda: compose_heatmap(scene_of(trace, heat_base(trace, "token"))), rounds=3
    )


@pytest.mark.parametrize("zoom", [1, 30, 10_000])
def test_bench_heat_pan_10m_accesses_1900_px(benchmark, trace, base, zoom):
    scene = scene_of(trace, base)
    compose_heatmap(scene)
    width = scene.axis.extent // zoom
    step = iter(range(0, scene.axis.extent // 3, 1 << 14))

    def frame() -> None:
        begin = next(step)
        view = replace(scene.view, begin=begin, stop=begin + width)
        compose_heatmap(replace(scene, view=view))

    benchmark.pedantic(frame, rounds=20)
