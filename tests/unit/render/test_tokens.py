"""The picture of token latency: nothing of it is left out for lack of pixels."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import spans_trace
from ggscope.analysis.compare.bar_parts import bar_parts
from ggscope.analysis.summary.latency import token_latency
from ggscope.cli import main
from ggscope.descriptions.tokens import slope_text
from ggscope.errors import ExportError
from ggscope.model.tables import Phase, SpanFlag
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList, LineBatch, RectBatch
from ggscope.render.charts import ChartGeometry
from ggscope.render.figure_style import PRESETS
from ggscope.render.theme import theme
from ggscope.render.tokens import (
    TokensOptions,
    TokensScene,
    bars_at,
    chart_of_tokens,
    columns_of,
    compose_tokens,
    full_window,
    kind_color,
    legend,
    part_colors,
    shown_rows,
    tokens_figure,
    y_high,
)
from latency_traces import (
    Ubatch,
    generation,
    mixed_tokens,
    ops_in_tokens,
    ubatch_trace,
)
from scenes import texts_of


def scene_of(trace: Trace, **values: object) -> TokensScene:
    size = {"width": 900.0, "height": 240.0, "theme": theme("dark"), **values}
    return TokensScene(trace, token_latency(trace), **size)  # type: ignore[arg-type]


def boxes(picture: DisplayList, color: int) -> list[tuple[float, float, float, float]]:
    """Return left, right, top and bottom of the rectangles of a colour."""
    boxes = []
    for batch in picture.batches:
        if isinstance(batch, RectBatch):
            rows = np.flatnonzero(batch.fill == color)
            sides = (batch.x0, batch.x1, batch.y0, batch.y1)
            boxes += list(zip(*(side[rows].tolist() for side in sides), strict=True))
    return boxes


@pytest.mark.parametrize("seed", range(20))
def test_columns_are_those_of_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 200))
    column = np.sort(rng.integers(-3, 30, n)).astype(np.int64)
    kind = rng.integers(-1, 4, n).astype(np.int8)
    duration = rng.integers(0, 50, n).astype(np.int64)

    columns = columns_of(column, kind, duration)

    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i in range(n):
        groups[int(column[i]), int(kind[i])].append(int(duration[i]))
    expected = {key: (min(v), max(v)) for key, v in groups.items()}
    rows = zip(
        columns.column.tolist(), columns.kind.tolist(), columns.low.tolist(),
        columns.high.tolist(), columns.rank.tolist(), strict=True,
    )  # fmt: skip
    ranks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    seen = {}
    for at, of, low, high, rank in rows:
        seen[at, of] = (low, high)
        ranks[at].append((rank, high))
    assert seen == expected
    for values in ranks.values():
        assert [rank for rank, _ in sorted(values)] == list(range(len(values)))
        highs = [high for _, high in sorted(values)]
        assert highs == sorted(highs, reverse=True)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_height_of_each_bar_is_its_wall_time(scale: float) -> None:
    trace = generation(9)
    scene = scene_of(trace, scale=scale)
    geometry = ChartGeometry(chart_of_tokens(scene))

    picture = compose_tokens(scene)

    bars = scene.latency.bars
    for phase in (Phase.PROMPT, Phase.GENERATE):
        drawn = sorted(boxes(picture, kind_color(phase, scene.theme)))
        rows = np.flatnonzero(bars.phase == phase)
        assert len(drawn) == len(rows)
        for (_, _, top, bottom), row in zip(drawn, rows.tolist(), strict=True):
            assert bottom == pytest.approx(geometry.bottom)
            height = float(geometry.py(float(bars.duration[row])))
            assert top == pytest.approx(height, abs=0.5 / scale + 0.01)


@pytest.mark.parametrize("n", [9, 2_000])
@pytest.mark.parametrize("over", ["time", "context"])
def test_long_prompt_is_cut_and_says_so(n: int, over: str) -> None:
    trace = generation(n, slope=0, longest=90_000_000)
    scene = scene_of(trace, over=over)
    alone = replace(scene, show="prompt")

    assert 0 < int(scene.latency.bars.duration[1:].max()) < y_high(scene) < 90_000_000
    assert any("cut off" in entry.label for entry in legend(scene))
    assert y_high(alone) > 90_000_000
    assert not any("cut off" in entry.label for entry in legend(alone))
    geometry = ChartGeometry(chart_of_tokens(scene))
    if over == "context":
        x = float(geometry.px(float(scene.latency.position[0])))
        assert bars_at(scene, x, geometry.top + 2)[0] == 0
        return
    breaks = boxes(compose_tokens(scene), scene.theme.pane)
    assert len(breaks) == 1
    if n == 9:
        assert "90.00 ms" in texts_of(compose_tokens(scene))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_columns_of_very_many_bars_reach_from_the_shortest_to_the_longest(
    scale: float,
) -> None:
    rng = np.random.default_rng(5)
    n = 100_000
    length = rng.integers(50, 400, n)
    length[70_123] = 3_000
    start = np.cumsum(length) - length
    trace = spans_trace(start, start + length, op=-1)
    scene = scene_of(trace, scale=scale)
    geometry = ChartGeometry(chart_of_tokens(scene))

    picture = compose_tokens(scene)

    full = boxes(picture, kind_color(-1, scene.theme))
    by_left = {round((x0 - geometry.left) * scale): (top, bottom)
               for x0, _, top, bottom in full}  # fmt: skip
    groups: dict[int, list[int]] = defaultdict(list)
    for i, value in enumerate(length.tolist()):
        x = float(geometry.px(float(i))) - geometry.left
        groups[int(x * scale)].append(value)
    assert by_left.keys() == groups.keys()
    assert len(full) == len(groups)
    for column, values in groups.items():
        top, bottom = by_left[column]
        expected = (geometry.py(max(values)), geometry.py(min(values)))
        assert (top, bottom) == pytest.approx(
            tuple(map(float, expected)), abs=0.5 / scale + 0.01
        )
    number = sum(len(batch.fill) for batch in picture.batches
                 if isinstance(batch, RectBatch))  # fmt: skip
    assert number <= 4 * 900 * scale


def test_outliers_have_a_mark_above_them_at_every_zoom() -> None:
    trace = generation(4_000, slope=0)
    n_slow = int(token_latency(trace).is_outlier.sum())
    near = scene_of(trace, window=(99.5, 199.5))
    far = scene_of(trace)
    caution = near.theme.caution

    marks = boxes(compose_tokens(near), caution)
    slow = np.flatnonzero(near.latency.is_outlier)

    assert len(marks) == ((slow >= 100) & (slow < 200)).sum() > 0
    geometry = ChartGeometry(chart_of_tokens(far))
    columns = {int(float(geometry.px(float(i))) - geometry.left) for i in slow.tolist()}
    assert len(boxes(compose_tokens(far), caution)) == len(columns) <= n_slow


def test_lines_say_median_and_p99() -> None:
    scene = scene_of(generation(40))
    texts = texts_of(compose_tokens(scene))
    without = texts_of(compose_tokens(replace(scene, show="prompt")))

    assert [t.split()[0] for t in texts if t.startswith(("median", "p99"))] == [
        "median", "p99",
    ]  # fmt: skip
    assert not [t for t in without if t.startswith(("median", "p99"))]


def test_no_line_crosses_the_label_of_another() -> None:
    batches = compose_tokens(scene_of(generation(40))).batches
    lines = [i for i, b in enumerate(batches) if isinstance(b, LineBatch) and b.dashed]
    labels = [
        i for i, b in enumerate(batches) if isinstance(b, RectBatch) and b.radius > 0
    ]

    assert len(lines) == len(labels) == 2
    assert max(lines) < min(labels)


def test_bar_without_a_measured_time_has_a_colour_of_its_own() -> None:
    ubatches = [Ubatch(0, 10), Ubatch(10, 25, flags=int(SpanFlag.ESTIMATED))]
    scene = scene_of(ubatch_trace(ubatches))

    picture = compose_tokens(scene)

    hatched = [
        batch.pattern for batch in picture.batches
        if isinstance(batch, RectBatch) and batch.pattern is not None
    ]  # fmt: skip
    assert sum(int((p > 0).sum()) for p in hatched) == 1
    assert len(boxes(picture, kind_color(Phase.GENERATE, scene.theme))) == 1


@pytest.mark.parametrize("n", [9, 4_000])
def test_every_bar_lies_where_it_is_drawn(n: int) -> None:
    scene = scene_of(generation(n))
    geometry = ChartGeometry(chart_of_tokens(scene))
    rows, y = shown_rows(scene), geometry.bottom - 3

    hits = np.concatenate([
        bars_at(scene, geometry.left + x + 0.5, y)
        for x in range(int(geometry.right - geometry.left))
    ])  # fmt: skip

    assert set(hits.tolist()) == set(rows.tolist())
    for row in (0, n // 2, n):
        at = bars_at(scene, float(geometry.px(float(row))), y)
        assert row in at
        duration = scene.latency.bars.duration[at]
        assert duration.tolist() == sorted(duration.tolist(), reverse=True)
    assert not len(bars_at(scene, 2, y))


def test_dots_lie_at_position_and_time() -> None:
    scene = scene_of(generation(50), over="context")
    geometry, latency = ChartGeometry(chart_of_tokens(scene)), scene.latency

    for row in (1, 20, 50):
        x = float(geometry.px(float(latency.position[row])))
        y = float(geometry.py(float(latency.bars.duration[row])))
        assert bars_at(scene, x, y)[0] == row
    low, high = full_window(scene)
    assert low < latency.position.min() <= latency.position.max() < high
    assert any("per 1,000 tokens" in t for t in texts_of(compose_tokens(scene)))


def test_axis_of_times_fits_what_is_shown() -> None:
    scene = scene_of(generation(30))
    alone, part = (
        y_high(replace(scene, **changes))
        for changes in ({"show": "prompt"}, {"window": (9.5, 20.5)})
    )

    assert int(scene.latency.bars.duration[0]) < alone < y_high(scene) * 2
    assert int(scene.latency.bars.duration[10:21].max()) < part


@pytest.mark.parametrize(("times", "is_cut"), [(5, False), (12, True)])
def test_first_pass_of_unknown_phase_leaves_the_axis_to_the_others(
    times: int, is_cut: bool
) -> None:
    scene = scene_of(generation(200, slope=0))
    latency = scene.latency
    usual = int(latency.bars.duration[1:].max())
    end = latency.bars.end.copy()
    end[0] = latency.bars.start[0] + times * usual
    latency = replace(
        latency,
        bars=replace(latency.bars, end=end),
        is_counted=np.ones(len(end), np.bool_),
        p99=float(usual),
    )
    scene = replace(scene, latency=latency)

    assert (y_high(scene) < times * usual) is is_cut
    assert y_high(scene) > usual
    assert any("cut off" in entry.label for entry in legend(scene)) is is_cut


def test_selected_bar_is_highlighted() -> None:
    scene = scene_of(generation(30))
    assert compose_tokens(replace(scene, selected=4)).batches != ()
    highlighted = sum(len(b.fill)
              for b in compose_tokens(replace(scene, selected=4)).batches
              if isinstance(b, RectBatch))  # fmt: skip
    plain = sum(len(b.fill) for b in compose_tokens(scene).batches
                if isinstance(b, RectBatch))  # fmt: skip
    assert highlighted == plain + 1


def test_options_are_checked_and_read(tmp_path: Path) -> None:
    trace = spans_trace([0, 2, 20], [10, 5, 30], op=-1)
    sample = "resources/samples/npu-prefill-decode.json"
    with pytest.raises(ExportError, match="time, context"):
        tokens_figure(trace, TokensOptions(over="x"))  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="positions"):
        tokens_figure(trace, TokensOptions(over="context")).draw(PRESETS["single"])

    def export(options: dict[str, object]) -> int:
        target = tmp_path / f"{len(list(tmp_path.iterdir()))}.png"
        return main([
            "export", "--view", "tokens", "-o", str(target),
            "--options", json.dumps(options), sample,
        ])  # fmt: skip

    assert export({"show": "generated", "window": [-0.5, 3.5]}) == 0
    assert export({"window": [3, 1]}) != 0


def test_dots_of_one_pixel_and_kind_are_one_and_none_is_lost() -> None:
    n = 20_000
    scene = scene_of(generation(n, slope=0), over="context", show="generated")
    geometry, latency = ChartGeometry(chart_of_tokens(scene)), scene.latency

    picture = compose_tokens(scene)

    for is_slow, color in (
        (False, kind_color(Phase.GENERATE, scene.theme)),
        (True, scene.theme.caution),
    ):
        rows = np.flatnonzero(
            (latency.bars.phase == 1) & (latency.is_outlier == is_slow)
        )
        places = {
            (int(np.floor(x - 1 + 0.5)), int(np.floor(y - 1 + 0.5)))
            for x, y in zip(
                geometry.px(latency.position[rows]).tolist(),
                geometry.py(latency.bars.duration[rows]).tolist(),
                strict=True,
            )
        }
        drawn = [(round(x0), round(y0)) for x0, _, y0, _ in boxes(picture, color)]
        assert len(drawn) == len(set(drawn))
        assert set(drawn) == places


def stacked(trace: Trace, **values: object) -> TokensScene:
    return scene_of(trace, parts=bar_parts(trace), **values)


def parts_drawn(scene: TokensScene) -> dict[float, list[tuple[float, float]]]:
    """Return top and bottom of the boxes of parts by their left side, feet first."""
    assert scene.parts is not None
    picture = compose_tokens(scene)
    drawn = defaultdict(list)
    for color in part_colors(scene.parts, scene.theme):
        for x0, _, top, bottom in boxes(picture, color):
            drawn[x0].append((top, bottom))
    return drawn


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_parts_of_a_bar_are_as_high_as_they_take_time(scale: float) -> None:
    scene = stacked(mixed_tokens(15), scale=scale)
    geometry, parts = ChartGeometry(chart_of_tokens(scene)), scene.parts
    assert parts is not None
    assert parts.families == ("matmul", "elementwise")
    drawn = parts_drawn(scene)

    split = np.flatnonzero(parts.is_split)

    assert len(drawn) == len(split) == 13
    for (_, own), row in zip(sorted(drawn.items()), split.tolist(), strict=True):
        ticks = [*parts.ticks[row].tolist(), int(parts.idle[row])]
        assert len(own) == 3
        assert own[0][1] == pytest.approx(geometry.bottom)
        until = 0
        for (top, _), n, above in zip(own, ticks, [*own[1:], None], strict=True):
            until += n
            y = float(geometry.py(until / parts.divisor))
            assert top == pytest.approx(y, abs=0.5 / scale + 0.01)
            assert above is None or above[1] == pytest.approx(top)
    plain = boxes(compose_tokens(scene), kind_color(Phase.GENERATE, scene.theme))
    assert len(plain) == 2, "tokens without ops stay as they are"


def test_columns_of_very_many_bars_show_the_means_of_their_shares() -> None:
    scene = stacked(mixed_tokens(6_000))
    geometry, parts = ChartGeometry(chart_of_tokens(scene)), scene.parts
    assert parts is not None
    groups: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(parts.is_split).tolist():
        groups[int(float(geometry.px(float(row))) - geometry.left)].append(row)

    drawn = parts_drawn(scene)

    assert len(drawn) == len(groups)
    for column, rows in groups.items():
        own = next(v for x, v in drawn.items() if round(x - geometry.left) == column)
        longest = max(int(scene.latency.bars.duration[row]) for row in rows)
        height = geometry.bottom - float(geometry.py(float(longest)))
        mean = np.zeros(3)
        for row in rows:
            ticks = np.array([*parts.ticks[row].tolist(), int(parts.idle[row])])
            mean += ticks / ticks.sum() / len(rows)
        for (top, _), share in zip(own, np.cumsum(mean).tolist(), strict=True):
            assert geometry.bottom - top == pytest.approx(height * share, abs=1.01)


def test_bar_that_is_cut_off_shows_all_its_parts() -> None:
    tokens = [(0, 1_000_000, True), *((i, i + 100, True) for i in (2 << 20, 3 << 20))]
    ops = [(0, 0, 750_000, 3, True), (0, 2 << 20, 50, 3, True)]
    trace = ops_in_tokens(tokens, ops)
    scene = stacked(trace, height=400.0)
    scene = replace(
        scene, latency=replace(scene.latency, is_counted=np.array([False, True, True]),
                               p99=100.0),
    )  # fmt: skip
    geometry = ChartGeometry(chart_of_tokens(scene))
    assert y_high(scene) < 1_000

    first = min(parts_drawn(scene).items())[1]

    whole = geometry.bottom - geometry.top
    assert geometry.bottom - first[0][0] == pytest.approx(whole * 0.75, abs=1)
    assert first[-1][0] == pytest.approx(geometry.top, abs=1)


def test_legend_of_stacked_bars_names_what_is_shown() -> None:
    scene = stacked(mixed_tokens(15))

    labels = [entry.label for entry in legend(scene)]
    plain = [entry.label for entry in legend(replace(scene, over="context"))]

    assert labels[:3] == ["matmul", "elementwise", "no op runs"]
    assert len(labels) == 4, "and the phase of those without ops"
    assert "matmul" not in plain


@pytest.mark.parametrize(
    "options", [{"stack": "op"}, {"stack": "family", "over": "context"}]
)
def test_stack_that_cannot_be_is_refused(options) -> None:
    with pytest.raises(ExportError):
        tokens_figure(mixed_tokens(9), TokensOptions(**options))


def test_figure_of_stacked_bars_shows_the_mean_shares() -> None:
    figure = tokens_figure(mixed_tokens(9), TokensOptions(stack="family"))

    drawn = figure.draw(PRESETS["double"])

    assert figure.recipe is not None
    assert figure.recipe.options == {"stack": "family"}
    assert drawn.description.startswith("Latency of tokens by op family")
    assert "Mean shares: matmul" in drawn.description


@pytest.mark.parametrize(
    ("slope", "error", "text"),
    [
        (1_470.2, 680.4, "+1,470 ± 680 ms"),
        (0.5234, 0.0312, "+0.523 ± 0.031 ms"),
        (-0.0000123, 0.0000005, "-0.0000123 ± 0.0000005 ms"),
        (1_234_567.0, 99_999.0, "+1,230,000 ± 100,000 ms"),
    ],
)
def test_slope_has_no_exponent(slope: float, error: float, text: str) -> None:
    scene = scene_of(generation(20), over="context")
    fit = scene.latency.fit
    assert fit is not None
    fit = replace(fit, slope=slope * 1e3, error=error * 1e3)  # ns per token

    assert slope_text(fit, "ns") == f"{text} per 1,000 tokens"
