"""Figures of two sides: steps, changes, both timelines, durations."""

import shlex
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import ggscope
from builders import empty_trace, llama_like_trace, npu_like_trace, slowed
from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.offset import (
    ANCHORS,
    matched_tokens,
    offset_between,
)
from ggscope.analysis.compare.waterfall import waterfall
from ggscope.analysis.rows.index import TraceIndex
from ggscope.cli import main
from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.compare.charts import WaterfallScene, waterfall_rows
from ggscope.render.compare.figure import SHOWS, CompareOptions, compare_figure
from ggscope.render.compare.rows_chart import RowsGeometry, RowsScene
from ggscope.render.compare.timelines import (
    TimelineSide,
    TimelinesScene,
    compose_timelines,
    side_places,
    side_scenes,
    whole_range,
)
from ggscope.render.export import ensure_gui_application
from ggscope.render.figure_style import PRESETS, FigureStyle, css_px
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.figure import figure_layout
from scenes import texts_of
from support import ROOT

A = llama_like_trace()
B = slowed(A, 2)
SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


def side(trace: Trace, title: str = "run") -> TimelineSide:
    index = TraceIndex(trace)
    return TimelineSide(index, figure_layout(index, None, None)[0], title)


def timelines(
    a: Trace, b: Trace, offset: int = 0, height: float = 500
) -> TimelinesScene:
    visible = whole_range((a.extent, b.extent), offset)
    return TimelinesScene(
        side(a, "one"), side(b, "two"), visible, offset, 900.0, height, theme("dark")
    )


@pytest.mark.parametrize("style", [PRESETS["single"], FigureStyle(height=css_px(160))])
@pytest.mark.parametrize("show", SHOWS)
def test_each_figure_is_drawn_with_both_names(show, style):
    figure = compare_figure(A, CompareOptions(b=(B,), show=show))

    drawn = figure.draw(style)

    assert drawn.picture.batches
    assert drawn.picture.height <= (style.height_or(10_000))
    assert "A is" in drawn.caption
    assert "B is" in drawn.caption


@pytest.mark.parametrize("show", SHOWS)
def test_hostile_names_leave_the_svg_whole(tmp_path, show):
    odd = replace(B, info=replace(B.info, paths=(Path('a<b>&"\x07.bin'),)))
    target = tmp_path / "a.svg"

    compare_figure(A, CompareOptions(b=(odd,), show=show)).write(target)

    assert ET.parse(target).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    "values", [{"show": "x"}, {"by": "x"}, {"steps": "x"}, {"anchor": "x"},
               {"tokens": "x"}, {"align": "x"}],
)  # fmt: skip
def test_values_that_do_not_exist_are_refused(values):
    with pytest.raises(ExportError):
        compare_figure(A, CompareOptions(b=(B,), **values))


def test_a_figure_without_another_side_is_refused():
    with pytest.raises(ExportError):
        compare_figure(A)


@pytest.mark.parametrize("show", SHOWS)
@pytest.mark.parametrize("other", [npu_like_trace(), empty_trace()])
def test_what_has_no_common_clock_is_not_drawn(show, other):
    figure = compare_figure(A, CompareOptions(b=(other,), show=show))

    if show == "timelines" and other.clock == A.clock:
        assert figure.draw(FigureStyle()).picture.batches
        return
    with pytest.raises(ExportError):
        figure.draw(FigureStyle())


# -- steps -------------------------------------------------------------------------


def test_each_step_begins_where_the_last_one_ends():
    traces = [A, B]
    result = waterfall(traces, align(traces), 1)

    rows = waterfall_rows(WaterfallScene(result, "ns", 600, 300, theme("dark"))).rows

    assert result.total is not None
    assert [row.label for row in rows] == [
        "A", *(step.key for step in result.steps), "B"
    ]  # fmt: skip
    steps = rows[1:-1]
    assert steps[0].low == float(result.total.mean_a) == rows[0].high
    assert [row.low for row in steps[1:]] == [row.high for row in steps[:-1]]
    assert steps[-1].high == rows[-1].high == float(result.total.mean_b)


def test_small_steps_have_an_axis_of_their_own_that_says_so():
    other = slowed(slowed(A, 100), 1)
    spans = replace(other.spans, end=other.spans.end + (other.spans.op == 1))
    traces = [other, replace(other, spans=spans)]

    result = waterfall(traces, align(traces), 1)
    scene = waterfall_rows(WaterfallScene(result, "ns", 600, 300, theme("dark")))

    assert scene.axis.low > 0
    assert "0" in scene.axis.label
    assert all(row.low >= scene.axis.low for row in scene.rows)


# -- timelines ---------------------------------------------------------------------


def steps_scene(a: Trace, b: Trace, height: float, scroll: int = 0) -> RowsScene:
    steps = waterfall([a, b], align([a, b]), 1, "op")
    return waterfall_rows(
        WaterfallScene(steps, "ns", 800, height, theme("dark"), scroll=scroll)
    )


def test_steps_of_equal_runs_have_an_axis_that_begins_at_0():
    axis = steps_scene(A, A, 300).axis

    assert axis.low == 0
    assert "not begin" not in axis.label


@pytest.mark.parametrize("scroll", [0, 1, 3, 99])
@pytest.mark.parametrize("height", [60, 90, 140, 700])
def test_the_total_of_b_stays_in_sight_while_steps_scroll(height, scroll):
    scene = steps_scene(A, B, height, scroll)
    geometry, n = RowsGeometry(scene), len(scene.rows)

    assert geometry.shown == sorted(set(geometry.shown))
    assert geometry.shown[-1] == n - 1
    assert geometry.shown[0] == min(scroll, n - geometry.n)
    for row in geometry.shown:
        assert geometry.row_at(geometry.y(row) + 1) == row


@pytest.mark.parametrize("anchor", ANCHORS[:3])
def test_what_is_aligned_lies_at_the_same_place(anchor):
    tokens = matched_tokens(A, B)
    offset = offset_between(A, B, tokens, anchor, 2)
    scene = timelines(A, B, offset)
    first, second = side_scenes(scene)
    row = {"start": None, "phase": tokens.first_generated, "token": 2}[anchor]
    pair = (
        (int(A.spans.start.min()), int(B.spans.start.min()))
        if row is None
        else (int(tokens.start_a[row]), int(tokens.start_b[row]))
    )

    assert pair[0] - first.visible.start == pair[1] - second.visible.start
    assert first.visible.duration == second.visible.duration


def test_tokens_are_matched_one_by_one():
    tokens = matched_tokens(A, B)

    assert len(tokens) == 4
    assert np.array_equal(tokens.start_b, 2 * tokens.start_a)
    assert tokens.nearest(int(tokens.start_a[2]) + 1) == 2
    assert tokens.nearest(-(10**9)) == 0
    assert len(matched_tokens(A, empty_trace())) == 0


def test_both_timelines_are_those_of_the_timeline_itself():
    scene = timelines(A, B, 1000)

    picture = compose_timelines(scene)

    own = sum(len(compose_timeline(one).batches) for one in side_scenes(scene))
    strips = 2 * 2  # ground and texts
    assert len(picture.batches) == own + strips
    assert {"one", "two"} <= set(texts_of(picture))


@pytest.mark.parametrize("height", [60, 200, 500, 3000])
def test_timelines_share_the_height(height):
    scene = timelines(A, npu_like_trace(), height=height)

    first, second = side_places(scene)

    assert (first.top, second.top) == (0.0, first.height)
    assert first.height + second.height == height
    assert min(first.height, second.height) > 0


def test_the_whole_range_holds_both_runs():
    whole = whole_range((TimeRange(0, 100), TimeRange(50, 400)), 50)

    assert whole == TimeRange(0, 350)


# -- command line ------------------------------------------------------------------


@pytest.mark.parametrize("show", SHOWS)
def test_the_command_makes_the_same_picture(tmp_path, show):
    trace = ggscope.open(SAMPLE)
    options = CompareOptions(b=(trace,), show=show, log=True, anchor="phase")
    figure = compare_figure(trace, options)
    ours, theirs = tmp_path / "ours.png", tmp_path / "theirs.png"

    figure.write(ours)
    code = main(shlex.split(figure.command(theirs).text)[1:])

    assert code == 0
    assert ours.read_bytes() == theirs.read_bytes()


def test_python_makes_the_figure_by_its_name(tmp_path):
    trace = ggscope.open(SAMPLE)

    figure = ggscope.figure(trace, "compare", b=(trace,), show="changes")

    assert "B is" in figure.save(tmp_path / "a.svg")
