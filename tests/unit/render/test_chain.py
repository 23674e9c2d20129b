"""Lines between the spans of a critical path that lie on different rows."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dependency_traces import Op, dependency_trace, span_named
from ggscope.model.units import TimeRange
from ggscope.render.batch import LineBatch
from ggscope.render.timeline.chain import chain_batches
from ggscope.render.timeline.scene import (
    HighlightedSpans,
    TimelineGeometry,
    TimelineScene,
)
from scenes import chain_scene, make_scene


def lines(scene: TimelineScene) -> np.ndarray:
    """Return x0, y0, x1, y1 of the lines, without their casings."""
    batches = chain_batches(TimelineGeometry(scene))
    thin = [b for b in batches if isinstance(b, LineBatch) and b.width < 2]
    return np.concatenate(
        [np.stack([b.x0, b.y0, b.x1, b.y1], 1) for b in thin] or [np.zeros((0, 4))]
    )


def expected(scene: TimelineScene) -> set[tuple[int, int, int]]:
    """Return pixel column, top and bottom of each turn, one span after the other."""
    geometry, index = TimelineGeometry(scene), scene.index
    spans, names = index.trace.spans, set()
    assert scene.highlighted is not None
    chain = scene.highlighted.chain.tolist()
    for a, b in pairwise(chain):
        edges = []
        for span in (a, b):
            key, row = index.row_of_span(span)
            box = scene.layout.box_of(key)
            assert box is not None
            top = geometry.box_y(box) + box.row_y[row]
            edges.append((top, top + box.row_height))
        x = geometry.time.x(int(spans.start[b]))
        if edges[0] == edges[1] or not geometry.time.x0 <= x < geometry.time.x1:
            continue
        (top_a, bottom_a), (top_b, bottom_b) = edges
        ends = (bottom_a, top_b) if top_b > top_a else (bottom_b, top_a)
        names.add((int(x), *(int(y) for y in ends)))
    return names


def turns(scene: TimelineScene) -> set[tuple[int, int, int]]:
    upright = [row for row in lines(scene) if row[0] == row[2]]
    return {(int(x), int(min(a, b)), int(max(a, b))) for x, a, _, b in upright}


@pytest.mark.parametrize(
    "visible", [(0, 900), (20, 880), (150, 450), (310, 330), (250, 300), (610, 630)]
)
@pytest.mark.parametrize("theme_name", ["dark", "light", "print"])
def test_lines_turn_where_the_next_span_begins(theme_name, visible):
    scene = replace(chain_scene(theme_name), visible=TimeRange(*visible))

    assert turns(scene) == expected(scene)


def test_a_gap_is_crossed_along_the_row_that_is_left():
    scene = replace(chain_scene(), visible=TimeRange(0, 900))
    time, spans = TimelineGeometry(scene).time, scene.index.trace.spans
    level = [row for row in lines(scene) if row[1] == row[3]]

    trace = scene.index.trace
    for a, b in (("b", "c"), ("c", "d"), ("e", "f")):
        begin = time.x(int(spans.end[span_named(trace, a)]))
        end = time.x(int(spans.start[span_named(trace, b)]))
        assert any(abs(row[0] - begin) <= 1 and abs(row[2] - end) <= 1 for row in level)
    assert len(level) == 3


def test_spans_of_one_row_have_no_line():
    ops: list[Op] = [("a", []), ("b", [])]
    trace = dependency_trace([ops])
    chain = np.array([span_named(trace, n) for n in "ab"], np.int64)

    assert not len(
        lines(make_scene(trace, highlighted=HighlightedSpans(chain, chain=chain)))
    )
    assert not len(lines(make_scene(trace, highlighted=HighlightedSpans(chain))))
    assert not len(lines(make_scene(trace)))


def test_a_long_chain_has_at_most_one_line_per_column_and_pair_of_rows():
    n = 6_000
    ops: list[Op] = [(f"n{i}", []) for i in range(n)]
    trace = dependency_trace([ops], lanes=[[i % 3 for i in range(n)]])
    chain = np.array([span_named(trace, name) for name, _ in ops], np.int64)
    scene = make_scene(trace, highlighted=HighlightedSpans(np.sort(chain), chain=chain))

    time = TimelineGeometry(scene).time
    width = time.x1 - time.x0
    assert width < len(turns(scene)) <= 3 * (width + 2)
    assert len(lines(scene)) <= 6 * (width + 2)


def test_a_hidden_lane_has_no_lines():
    scene = chain_scene()
    assert scene.highlighted is not None
    key = scene.index.lane_of_span(int(scene.highlighted.chain[2]))
    waiting = replace(scene, waiting=frozenset({key}))

    assert len(lines(waiting)) < len(lines(scene))
