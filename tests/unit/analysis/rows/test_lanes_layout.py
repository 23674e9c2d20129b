import pytest

import builders
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import (
    GROUP_HEIGHT,
    LANE_GAP,
    LaneLayout,
    LaneState,
    TimelineLane,
    default_collapsed,
    lay_out,
)
from ggscope.analysis.rows.tracks import (
    COUNTER_HEIGHT,
    ROW_HEIGHT,
    THIN_ROW_HEIGHT,
    TRACKS,
)

SPECS = {spec.id: spec for spec in TRACKS}


def lane(key: str, group: str = "Threads", **fields) -> TimelineLane:
    return TimelineLane(
        key=key,
        title=key,
        group=group,
        track=SPECS[fields.pop("track", "thread")],
        **fields,
    )


LANES = (
    lane("a"),
    lane("b"),
    lane("c"),
    lane("l0", "Layers", track="layer"),
    lane("l1", "Layers", track="layer"),
    lane("m", "Memory", track="counter", value=0),
    lane("o", "Ops", track="op"),
)
OPEN = frozenset[str]()


def names(layout: LaneLayout) -> list[str]:
    return [box.lane.key if box.lane else f"[{box.group}]" for box in layout.boxes]


def many(n: int, group: str, **fields) -> tuple[TimelineLane, ...]:
    return tuple(lane(f"{group}{i}", group, **fields) for i in range(n))


def test_lay_out_places_heads_and_lanes_without_gaps():
    layout = lay_out(LANES, {"b": 3}, LaneState(collapsed=OPEN))

    assert names(layout) == [
        "[Threads]",
        "a",
        "b",
        "c",
        "[Layers]",
        "l0",
        "l1",
        "[Memory]",
        "m",
        "[Ops]",
        "o",
    ]
    y = 0.0
    for box in layout.boxes:
        assert box.y == y
        y += box.height
    assert layout.height == y


def test_lay_out_heights_follow_rows_and_kinds():
    layout = lay_out(LANES, {"b": 3, "l0": 0}, LaneState(collapsed=OPEN))

    height = {box.lane.key: box for box in layout.boxes if box.lane}
    assert layout.boxes[0].height == GROUP_HEIGHT
    assert height["b"].height == 3 * ROW_HEIGHT + LANE_GAP
    assert height["b"].row_y == (
        LANE_GAP / 2,
        LANE_GAP / 2 + ROW_HEIGHT,
        LANE_GAP / 2 + 2 * ROW_HEIGHT,
    )
    assert height["l0"].height == THIN_ROW_HEIGHT
    assert height["m"].row_height == COUNTER_HEIGHT
    assert height["m"].row_y == (LANE_GAP / 2,)


def test_lay_out_height_factors_scale_rows_within_limits():
    state = LaneState(collapsed=OPEN, heights=(("a", 2.0), ("b", 99.0), ("c", 0.0)))

    layout = lay_out(LANES, {}, state)

    factors = [layout.box_of(key).row_height / ROW_HEIGHT for key in "abc"]
    assert factors == [2.0, 8.0, 0.5]


def test_lay_out_collapsed_group_is_one_head_with_its_count():
    layout = lay_out(LANES, {}, LaneState(collapsed=frozenset({"Threads", "Layers"})))

    assert names(layout) == [
        "[Threads]",
        "[Layers]",
        "[Memory]",
        "m",
        "[Ops]",
        "o",
    ]
    head = layout.boxes[0]
    assert head.collapsed
    assert head.count == 3


def test_lay_out_default_state_collapses_ops():
    assert names(lay_out(LANES, {}, LaneState()))[-1] == "[Ops]"


def test_lay_out_hidden_lanes_leave_and_empty_groups_vanish():
    state = LaneState(collapsed=OPEN, hidden=frozenset({"b", "m", "o"}))

    layout = lay_out(LANES, {}, state)

    assert names(layout) == ["[Threads]", "a", "c", "[Layers]", "l0", "l1"]
    assert layout.boxes[0].count == 2


def test_lay_out_pinned_lanes_stand_first_in_their_order():
    state = LaneState(
        collapsed=OPEN, pinned=("l1", "gone", "b"), hidden=frozenset({"m"})
    )

    layout = lay_out(LANES, {}, state)

    assert names(layout) == [
        "[Pinned]",
        "l1",
        "b",
        "[Threads]",
        "a",
        "c",
        "[Layers]",
        "l0",
        "[Ops]",
        "o",
    ]
    assert [box.pinned for box in layout.boxes[:4]] == [True, True, True, False]
    assert layout.boxes[1].group == "Pinned"


def test_lay_out_moved_lanes_swap_inside_their_group():
    state = LaneState(collapsed=OPEN, order=("l1", "c", "l0", "a"))

    layout = lay_out(LANES, {}, state)

    assert names(layout)[:7] == ["[Threads]", "c", "b", "a", "[Layers]", "l1", "l0"]


def test_lay_out_tokens_come_before_all_other_groups():
    layout = lay_out(
        (lane("a"), lane("token", "Tokens", track="token")), {}, LaneState()
    )

    assert names(layout) == ["[Tokens]", "token", "[Threads]", "a"]


def test_lay_out_without_lanes_is_empty():
    layout = lay_out((), {}, LaneState())

    assert (layout.boxes, layout.height, layout.fixed_height) == ((), 0.0, 0.0)
    assert layout.box_at(0) is None
    assert layout.boxes_between(0, 100) == ()


@pytest.mark.parametrize("y", [-0.5, 1e9])
def test_box_at_outside_is_none(y):
    assert lay_out(LANES, {}, LaneState()).box_at(y) is None


def test_box_at_finds_every_box_by_its_edges():
    layout = lay_out(LANES, {"a": 2}, LaneState(collapsed=OPEN))

    for box in layout.boxes:
        assert layout.box_at(box.y) is box
        assert layout.box_at(box.y + box.height - 0.01) is box


def test_box_of_collapsed_lane_is_none():
    layout = lay_out(LANES, {}, LaneState(collapsed=frozenset({"Threads"})))

    assert layout.box_of("a") is None
    assert layout.box_of("l0").lane.key == "l0"


def test_default_collapsed_closes_big_groups_but_not_the_main_ones():
    lanes = (
        *many(100, "Threads"),
        *many(65, "Graphs", track="graph"),
        *many(64, "Commands", track="command"),
        *many(65, "Thin", track="layer"),
        *many(1, "Ops", track="op"),
        *many(48, "Layers", track="layer"),
        *many(70, "Engines", track="engine"),
    )

    assert default_collapsed(lanes) == {"Graphs", "Thin", "Ops"}


@pytest.mark.parametrize(
    ("n", "n_spans", "closed"),
    [(48, 1, False), (49, 1, True), (2, 2_000_000, False), (2, 2_000_001, True)],
)
def test_default_collapsed_closes_layers_that_cost_much(n, n_spans, closed):
    lanes = many(n, "Layers", track="layer", n_spans=n_spans)

    assert (default_collapsed(lanes) == {"Layers"}) is closed


def test_lay_out_of_a_llama_trace_shows_all_of_its_spans():
    index = TraceIndex(builders.llama_like_trace())
    n_rows = {item.key: len(index.rows(item.key)) for item in index.lanes}

    layout = lay_out(index.lanes, n_rows, LaneState())

    assert names(layout)[:6] == [
        "[Tokens]",
        "token",
        "phase",
        "[Threads]",
        "thread:thread 0",
        "thread:thread 1",
    ]


RUN = (
    lane("token", "Tokens", track="token"),
    lane("phase", "Tokens", track="phase"),
    *LANES,
)


def fixed(state: LaneState) -> list[str]:
    """Return the boxes that do not scroll."""
    layout = lay_out(RUN, {}, state)
    n = len(layout.fixed)
    assert [box.fixed for box in layout] == [True] * n + [False] * (len(layout) - n)
    assert layout.fixed_height == sum(box.height for box in layout.fixed)
    return names(layout)[:n]


def test_token_lane_and_its_head_do_not_scroll():
    assert fixed(LaneState(collapsed=OPEN)) == ["[Tokens]", "token"]


def test_token_lane_does_not_scroll_below_pinned_ones():
    state = LaneState(collapsed=OPEN, pinned=("b",))

    assert fixed(state) == ["[Pinned]", "b", "[Tokens]", "token"]
    layout = lay_out(RUN, {}, state)
    assert [box.pinned for box in layout.fixed] == [True, True, False, False]
    assert layout.has_pinned


@pytest.mark.parametrize(
    "state",
    [
        LaneState(collapsed=frozenset({"Tokens"})),
        LaneState(collapsed=OPEN, order=("phase", "token")),
        LaneState(collapsed=OPEN, hidden=frozenset({"token"})),
    ],
)
def test_nothing_is_fixed_where_the_token_lane_does_not_come_first(state: LaneState):
    assert fixed(state) == []
    assert not lay_out(RUN, {}, state).has_pinned


def test_trace_without_tokens_has_nothing_fixed():
    assert lay_out(LANES, {}, LaneState(collapsed=OPEN)).fixed == ()


def test_figure_keeps_what_is_fixed():
    layout = lay_out(RUN, {}, LaneState(collapsed=OPEN))

    assert len(layout.scaled(2.0, 10.0).fixed) == 2
    assert len(layout.fitting(GROUP_HEIGHT + ROW_HEIGHT + LANE_GAP).fixed) == 2
