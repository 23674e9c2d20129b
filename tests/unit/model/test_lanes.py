"""Lanes as columns: what comes out is what went in."""

import numpy as np
import pytest

from ggscope.model.trace import Lane, LaneColumns, LaneKind, Lanes

SOME = (
    Lane(0, "tokens", LaneKind.TOKEN, (), (0,)),
    Lane(1, "TE 0", LaneKind.ENGINE, ("Engines",), (1, 0), {"engine": "TE"}),
    Lane(2, "TE 1", LaneKind.ENGINE, ("Engines",), (1, 1), {"engine": "TE"}),
    Lane(3, "TE 0 stalls", LaneKind.STALL, ("Stalls",), (1, 0), {"over": "1"}),
)


def test_lanes_come_out_as_they_went_in():
    lanes = Lanes.of(SOME)

    assert tuple(lanes) == SOME
    assert lanes == SOME
    assert lanes[-1] == SOME[-1]
    assert lanes[1:3] == SOME[1:3]
    assert lanes.names_of(lanes.of_kind(LaneKind.ENGINE)) == ["TE 0", "TE 1"]
    with pytest.raises(IndexError):
        lanes[4]


def test_lanes_that_differ_in_name_alone_are_added_at_once():
    columns = LaneColumns()
    columns.add(("tokens",), LaneKind.TOKEN, (), ((0,),), {})
    first = columns.add(
        [f"TE {i}" for i in range(2)], LaneKind.ENGINE, ("Engines",),
        [(1, i) for i in range(2)], {"engine": "TE"},
    )  # fmt: skip

    assert first == 1
    assert tuple(columns.lanes()) == SOME[:3]


def test_lanes_that_come_later_do_not_change_those_handed_out():
    columns = LaneColumns()
    columns.add(("a",), LaneKind.THREAD, (), ((0,),), {})
    early = columns.lanes()
    columns.add(("b",), LaneKind.THREAD, ("Others",), ((1,),), {})
    late = columns.lanes()

    assert (len(early), len(late)) == (1, 2)
    assert late.begins_with(early)
    assert not early.begins_with(late)
    assert early != late


@pytest.mark.parametrize("field", ["name", "kind", "group", "sort_key", "attributes"])
def test_lanes_are_distinguished_by_every_field(field):
    other = {
        "name": "x",
        "kind": LaneKind.MARKER,
        "group": ("Stalls",),
        "sort_key": (9,),
        "attributes": {"engine": "x"},
    }[field]
    values = {name: getattr(SOME[2], name) for name in Lane.__dataclass_fields__}
    changed = (*SOME[:2], Lane(**{**values, field: other}), SOME[3])

    assert Lanes.of(changed) != Lanes.of(SOME)
    assert not Lanes.of(changed).begins_with(Lanes.of(SOME[:3]))


def test_lane_with_the_number_of_another_is_refused():
    with pytest.raises(ValueError, match="lane 0 has id 1"):
        Lanes.of(SOME[1:])


def test_no_lanes_are_of_no_kind():
    assert len(Lanes.of(())) == 0
    assert Lanes.of(()).of_kind(*LaneKind).dtype == np.bool_
