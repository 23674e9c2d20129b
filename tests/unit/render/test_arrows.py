"""Arrows of the selected op: where they begin and end, and what is said of others."""

from dataclasses import replace

import numpy as np
import pytest

from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.graph.dependencies import op_links
from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import Batch, LineBatch, RectBatch, TextBatch
from ggscope.render.figure_style import FigureStyle
from ggscope.render.timeline.arrows import MAX_ARROWS, arrow_batches
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.figure import TimelineOptions, timeline_figure
from ggscope.render.timeline.scene import TimelineGeometry, TimelineScene
from scenes import make_scene

CHAIN: list[Op] = [
    ("a", []),
    ("b", []),
    ("c", [("a", 0), ("b", 0)]),
    ("d", [("c", 0)]),
    ("e", [("c", 0)]),
]


def scene_of(trace: Trace, name: str, **values: object) -> TimelineScene:
    span = span_named(trace, name)
    return make_scene(
        trace, links=op_links(trace, span, None), selection=Selection("spans", (span,)),
        **values,
    )  # fmt: skip


def arrows(scene: TimelineScene) -> list[Batch]:
    return arrow_batches(TimelineGeometry(scene))


def lines(scene: TimelineScene) -> np.ndarray:
    """Return x0, y0, x1, y1 of the lines, without their casings."""
    thin = [b for b in arrows(scene) if isinstance(b, LineBatch) and b.width < 3]
    return np.concatenate(
        [np.stack([b.x0, b.y0, b.x1, b.y1], 1) for b in thin] or [np.zeros((0, 4))]
    )


def texts(scene: TimelineScene) -> list[str]:
    batches = [b for b in arrows(scene) if isinstance(b, TextBatch)]
    return [text.text for batch in batches for text in batch.texts]


def middle(scene: TimelineScene, lane: str) -> float:
    box = scene.layout.box_of(lane)
    assert box is not None
    return TimelineGeometry(scene).box_y(box) + box.row_y[0] + box.row_height / 2


def lane_of(scene: TimelineScene, name: str) -> str:
    return scene.index.lane_of_span(span_named(scene.index.trace, name))


def test_arrows_lead_from_inputs_and_to_readers_along_one_row() -> None:
    scene = scene_of(dependency_trace([CHAIN]), "c")
    time = TimelineGeometry(scene).time

    result = lines(scene)

    row = middle(scene, lane_of(scene, "c"))
    under, over = result[result[:, 3] > row], result[result[:, 3] < row]
    # Three lines each: out of the row, along it, back into it.
    assert (len(under), len(over)) == (6, 6)
    begin, end = float(time.x(200)), float(time.x(300))
    assert time.x(0) < under[:, [0, 2]].min() < begin < under[:, [0, 2]].max() < end
    assert begin < over[:, [0, 2]].min() < end < over[:, [0, 2]].max()


def test_arrows_between_threads_end_at_the_begin_of_the_reader() -> None:
    trace = dependency_trace([CHAIN], lanes=[[0, 1, 0, 1, 0]])
    scene = scene_of(trace, "d")
    time = TimelineGeometry(scene).time

    result = lines(scene)

    reader, source = (middle(scene, lane_of(scene, name)) for name in ("d", "c"))
    assert np.float32(reader) in result[:, [1, 3]]
    # It runs between the rows, over no name.
    level = result[result[:, 1] == result[:, 3]][:, 1]
    assert ((level > min(reader, source) + 8) & (level < max(reader, source) - 8)).any()
    heads = [b for b in arrows(scene) if isinstance(b, RectBatch) and not b.radius]
    tips = max(float(b.x1.max()) for b in heads)
    assert tips == pytest.approx(time.x(300), abs=1.5)


@pytest.mark.parametrize(
    ("visible", "sign"), [((200, 330), "◂ ADD a"), ((180, 299), "ADD d ▸")]
)
def test_other_end_outside_is_named_at_the_edge(visible, sign) -> None:
    scene = scene_of(dependency_trace([CHAIN]), "c", visible=TimeRange(*visible))

    assert sign in texts(scene)


def test_other_end_on_a_lane_that_is_scrolled_away_is_named_above() -> None:
    n = 12
    ops: list[Op] = [(f"x{i}", []) for i in range(n)]
    ops.append(("y", [("x0", 0)]))
    trace = dependency_trace([ops], lanes=[[*range(n), n - 1]])
    scene = scene_of(trace, "y", height=200.0)
    box = scene.layout.box_of(lane_of(scene, "y"))
    assert box is not None

    scrolled = replace(scene, scroll_y=box.y - 60.0)

    assert texts(scrolled) == ["▴ ADD x0"]


def test_arrows_are_capped_and_the_rest_is_counted() -> None:
    n = MAX_ARROWS + 5
    ops: list[Op] = [("x", []), *((f"y{i}", [("x", 0)]) for i in range(n))]
    scene = scene_of(dependency_trace([ops]), "x", width=1600)

    assert texts(scene) == ["+ 5 readers"]
    assert len(lines(scene)) == 3 * MAX_ARROWS


def test_ends_on_hidden_lanes_are_counted() -> None:
    trace = dependency_trace([CHAIN], lanes=[[0, 1, 0, 1, 0]])
    seen = scene_of(trace, "c")
    hidden = frozenset({lane_of(seen, "b")})

    scene = scene_of(trace, "c", state=LaneState(hidden=hidden))

    assert set(texts(scene)) == {"+ 1 input", "+ 1 reader"}


def test_nothing_is_drawn_while_the_selected_op_is_out_of_view() -> None:
    trace = dependency_trace([CHAIN])

    assert not arrows(scene_of(trace, "c", visible=TimeRange(400, 500)))
    assert not arrows(replace(scene_of(trace, "c"), links=None))


def test_lines_stay_inside_the_lanes() -> None:
    trace = dependency_trace([CHAIN], lanes=[[0, 1, 0, 1, 0]])
    scene = scene_of(trace, "c", visible=TimeRange(210, 350), height=180)
    geometry = TimelineGeometry(scene)

    result = lines(scene)

    assert len(result)
    assert result[:, [0, 2]].min() >= geometry.time.x0
    assert result[:, [0, 2]].max() <= geometry.time.x1
    assert result[:, [1, 3]].min() >= geometry.lanes_y
    assert result[:, [1, 3]].max() <= geometry.bottom


def test_picture_holds_the_arrows() -> None:
    scene = scene_of(dependency_trace([CHAIN]), "c")

    with_arrows = compose_timeline(scene).batches
    without = compose_timeline(replace(scene, links=None)).batches

    assert len(with_arrows) == len(without) + len(arrows(scene))


@pytest.mark.parametrize(
    ("shown", "seen"), [(True, True), (False, True), (True, False)]
)
def test_figure_as_seen_has_arrows_where_they_are_shown(shown, seen, qapp) -> None:
    trace = dependency_trace([CHAIN])
    span = span_named(trace, "c")

    def n_lines(options: TimelineOptions) -> int:
        figure = timeline_figure(trace, options, FigureStyle(seen=seen))
        picture = figure.draw(figure.style).picture
        return sum(len(b.x0) for b in picture.batches if isinstance(b, LineBatch))

    selected = Selection("spans", (span,))
    plain = n_lines(TimelineOptions(selection=selected))
    result = n_lines(TimelineOptions(selection=selected, arrows=shown))

    assert (result > plain) == (shown and seen)
