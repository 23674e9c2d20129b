"""The picture of the roofline: where points and roofs lie, what is pointed at."""

import numpy as np
import pytest

from ggscope.analysis.roofline import Roofs, roofline
from ggscope.descriptions.roofline import TraceRoofs
from ggscope.errors import NothingToDrawError
from ggscope.render.charts import ChartGeometry
from ggscope.render.figures import FIGURES
from ggscope.render.roofline import (
    RooflineScene,
    chart_of_roofline,
    compose_roofline,
    point_at,
    points_xy,
    radii,
)
from ggscope.render.theme import theme
from reads_builder import reads_trace
from roofline_traces import matmul, random_roofline, weights, with_types
from scenes import texts_of

ROOFS = TraceRoofs(Roofs(16.0, 64.0, 2, "AMD EPYC"))


def scene_of(
    seed: int, roofs: TraceRoofs = ROOFS, theme_name: str = "dark"
) -> RooflineScene:
    trace = random_roofline(seed)
    return RooflineScene(trace, roofline(trace), roofs, 800.0, 400.0, theme(theme_name))


@pytest.mark.parametrize("seed", range(6))
def test_points_lie_inside_the_axes_at_their_numbers(seed: int) -> None:
    scene = scene_of(seed)
    chart = chart_of_roofline(scene)
    geometry = ChartGeometry(chart)

    x, y = points_xy(scene)

    for point, at_x, at_y in zip(scene.roofline.points, x, y, strict=True):
        assert at_x == point.flops / point.bytes
        assert at_y == pytest.approx(point.flops / point.ticks * 1e9)
        assert chart.x.low < at_x < chart.x.high
        assert chart.y.low < at_y < chart.y.high
        px, py = float(geometry.px(at_x)), float(geometry.py(at_y))
        back = geometry.value_at(px, py)
        assert back == pytest.approx((at_x, at_y))


def test_roof_is_the_lower_of_memory_and_arithmetic() -> None:
    scene = scene_of(1)

    *_, roof = chart_of_roofline(scene).curves

    for x, y in zip(roof.x, roof.y, strict=True):
        assert y == pytest.approx(min(x * 16.0, 64.0) * 1e9)
    assert 4.0 in roof.x  # where they meet
    plain = chart_of_roofline(scene_of(1, TraceRoofs(None, "no roofs: …")))
    assert [c.label for c in plain.curves] == ["MUL_MAT"]


@pytest.mark.parametrize("seed", range(4))
def test_each_point_is_found_where_it_is_drawn(seed: int) -> None:
    scene = scene_of(seed)
    geometry = ChartGeometry(chart_of_roofline(scene))
    x, y = points_xy(scene)
    radius = radii(scene.roofline)

    for i in range(len(x)):
        px, py = float(geometry.px(x[i])), float(geometry.py(y[i]))
        point = point_at(scene, px, py)
        away = np.hypot(geometry.px(x) - px, geometry.py(y) - py)
        assert away[point] <= radius[point]
        assert radius[point] <= radius[i]
    assert point_at(scene, 2.0, 2.0) == -1


def test_names_of_points_do_not_lie_over_points() -> None:
    scene = scene_of(3)

    texts = texts_of(compose_roofline(scene))

    assert any(text.startswith("MUL_MAT f16 ") for text in texts)


def test_figure_says_what_it_shows_and_leaves_out() -> None:
    ops = [matmul(100 * i, i % 3, 1 + i % 2) for i in range(12)]
    trace = with_types(reads_trace(weights(), ops))

    drawn = (
        FIGURES["roofline"].figure(trace).draw(FIGURES["roofline"].figure(trace).style)
    )

    assert "6 points" in drawn.caption
    assert "no roofs" in drawn.caption
    bare = random_roofline(1)
    bare = with_types(reads_trace(weights(), []))
    with pytest.raises(NothingToDrawError):
        FIGURES["roofline"].figure(bare).draw(FIGURES["roofline"].figure(bare).style)
