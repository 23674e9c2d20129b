"""Charts: round numbers on axes, places of values, and what a picture holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.render.batch import AreaBatch, DisplayList, LineBatch, RectBatch, TextBatch
from ggscope.render.charts import (
    Axis,
    Bar,
    BarScene,
    ChartGeometry,
    ChartScene,
    Curve,
    Rule,
    axis_values,
    bar_at,
    compose_bars,
    compose_chart,
    in_bytes,
    in_percent,
    plain,
)
from ggscope.render.export import render_image
from ggscope.render.theme import theme

DARK = theme("dark")


def texts_of(picture: DisplayList) -> list[str]:
    return [
        text.text
        for batch in picture.batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]


def chart(*curves: Curve, **changes: object) -> ChartScene:
    fields: dict[str, object] = {
        "width": 600.0,
        "height": 300.0,
        "theme": DARK,
        "x": Axis(0, 100, "size"),
        "y": Axis(0, 1, "share", in_percent),
        "curves": curves,
    }
    return ChartScene(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("is_step", [True, False])
@pytest.mark.parametrize("height", [0.1, 0.18, 0.5, 0.93])
def test_label_of_a_rule_hides_no_curve_where_there_is_room(height, is_step) -> None:
    down = Curve(np.array([0.0, 50, 60, 100]), np.array([1, 0.3, 0.2, 0.18]), 1)
    steps = Curve(np.array([0.0, 48, 90]), np.array([1, 0.22, 0.18]), 2, is_step=True)
    curves = (down, steps) if is_step else (down,)
    scene = chart(*curves, rules=[Rule("first reads", y=height)])

    picture = compose_chart(scene)

    place = ChartGeometry(scene)
    (pill,) = [b for b in picture.batches if isinstance(b, RectBatch) and b.radius]
    x0, x1, y0, y1 = (float(side[0]) for side in (pill.x0, pill.x1, pill.y0, pill.y1))
    assert place.left <= x0 < x1 <= place.right
    assert y0 - 20 <= float(place.py(height)) <= y1 + 20
    for curve in curves:
        px, py = place.px(curve.x), place.py(curve.y)
        for x in np.linspace(x0, x1, 50):
            if curve.is_step:
                y = float(py[np.searchsorted(px, x, "right") - 1])
            else:
                y = float(np.interp(x, px, py))
            assert not y0 <= y <= y1, (x, y)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.integers(2, 20))
def test_axis_values_are_round_inside_and_not_too_many(low, width, max_ticks):
    axis = Axis(low, low + width)

    result = axis_values(axis, max_ticks)

    value = 1e-6 * max(abs(low), width)
    assert len(result) <= max_ticks + 2
    assert all(low - value <= v <= low + width + value for v in result)
    assert result == sorted(result)


def test_axis_values_of_bytes_are_powers_of_two():
    result = axis_values(Axis(0, 13 * 2**30, is_binary=True), 8)

    assert result == [i * 2**31 for i in range(7)]


def test_axis_values_of_a_logarithm_are_decades():
    assert axis_values(Axis(1, 10_000, is_log=True), 10) == [1, 10, 100, 1000, 10_000]


@given(st.floats(0.01, 1e6), st.floats(1.01, 1e6), st.integers(2, 20), st.booleans())
def test_axis_values_of_a_logarithm_are_all_powers_inside_where_they_fit(
    low, ratio, max_ticks, is_binary
):
    axis = Axis(low, low * ratio, is_log=True, is_binary=is_binary)
    base = 2.0 if is_binary else 10.0
    powers = [base**k for k in range(-80, 80)]
    inside = [v for v in powers if low * 0.999 < v < low * ratio * 1.001]

    result = axis_values(axis, max_ticks)

    assert len(result) <= max_ticks
    if 0 < len(inside) <= max_ticks:
        assert result == pytest.approx(inside)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 B"), (512, "512 B"), (2**30, "1 GiB"), (5 * 2**28, "1.25 GiB")],
)
def test_in_bytes_is_short_and_exact(value, expected):
    assert in_bytes(value) == expected


def test_plain_and_percent_words():
    assert (plain(1e6), plain(0.125), in_percent(0.5)) == ("1,000,000", "0.125", "50 %")


@pytest.mark.parametrize("is_log", [False, True])
def test_value_at_is_the_inverse_of_the_places(is_log):
    scene = chart(x=Axis(1, 1000, is_log=is_log))
    place = ChartGeometry(scene)

    x, y = float(place.px(30.0)), float(place.py(0.25))

    assert place.value_at(x, y) == pytest.approx((30.0, 0.25))
    assert place.value_at(place.left - 5, y) is None


def test_chart_draws_curve_area_rule_and_labels():
    x = np.array([0.0, 50.0, 100.0])
    curve = Curve(x, np.array([1.0, 0.5, 0.0]), 0xFF112233, "LRU", fills=True)

    picture = compose_chart(
        chart(curve, title="Misses", rules=(Rule("6 GiB", x=50.0),))
    )

    assert {"Misses", "LRU", "6 GiB", "size", "share", "40 %"} <= set(texts_of(picture))
    areas = [b for b in picture.batches if isinstance(b, AreaBatch)]
    assert len(areas) == 1
    middle = len(areas[0].y) // 2
    place = ChartGeometry(chart(curve, title="Misses"))
    assert areas[0].y[middle] == pytest.approx(float(place.py(0.5)), abs=1.0)


def test_chart_steps_hold_until_the_next_point_and_the_end():
    x, y = np.array([0.0, 40.0]), np.array([1.0, 0.25])
    scene = chart(Curve(x, y, 0xFF445566, is_step=True))
    place = ChartGeometry(scene)

    lines = [b for b in compose_chart(scene).batches if isinstance(b, LineBatch)]

    mine = next(b for b in lines if int(b.color[0]) == 0xFF445566)
    corners = [(float(place.px(40.0)), float(place.py(v))) for v in (1.0, 0.25)]
    points = set(zip(mine.x1.round(2).tolist(), mine.y1.round(2).tolist(), strict=True))
    for corner in corners:
        assert any(np.allclose(corner, point, atol=0.02) for point in points)
    assert float(mine.x1.max()) == pytest.approx(place.right)


@pytest.mark.parametrize("n", [0, 1])
def test_chart_of_hardly_anything_is_still_a_picture(n, qapp):
    curve = Curve(np.zeros(n), np.zeros(n), 0xFF000000, fills=True)

    image = render_image(compose_chart(chart(curve, x=Axis(0, 0), y=Axis(5, 5))))

    assert (image.width(), image.height()) == (600, 300)


def bars(n: int, **changes: object) -> BarScene:
    rows = tuple(
        Bar(f"tensor {i}", float(n - i), f"{n - i}", 0xFF00AA00) for i in range(n)
    )
    return BarScene(400.0, 110.0, DARK, rows, **changes)  # type: ignore[arg-type]


def test_bars_are_as_long_as_their_values():
    picture = compose_bars(bars(4))

    rects = [b for b in picture.batches if isinstance(b, RectBatch)][-1]
    lengths = (rects.x1 - rects.x0).tolist()
    assert lengths == pytest.approx(
        [lengths[0] * k / 4 for k in (4, 3, 2, 1)], rel=1e-5
    )


def test_bars_below_the_edge_are_scrolled_to():
    first, later = compose_bars(bars(40)), compose_bars(bars(40, scroll=10))

    assert "tensor 0" in texts_of(first)
    assert "tensor 12" not in texts_of(first)
    assert "tensor 10" in texts_of(later)


def test_bar_at_a_height_is_the_one_that_is_drawn_there():
    scene = bars(40, scroll=3, title="HOT")

    assert bar_at(scene, 5) == -1  # the title
    assert bar_at(scene, 30) == 3
    assert bar_at(scene, 51) == 4
    assert bar_at(bars(2), 100) == -1
