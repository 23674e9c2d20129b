"""Which lanes the timeline shows, in which order, and where: pure arithmetic."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from ggscope.model.lanes import LaneKind

GROUP_HEIGHT = 24
ROW_HEIGHT = 22
THIN_ROW_HEIGHT = 14
LANE_GAP = 4
COUNTER_HEIGHT = 44
HEIGHT_FACTORS = (0.5, 8.0)
"""Least and greatest height factor of a lane."""
PINNED, TOKENS, LAYERS, OPS = "Pinned", "Tokens", "Layers", "Ops"
MAX_OPEN_LANES, MAX_OPEN_LAYERS, MAX_OPEN_SPANS = 64, 48, 4_000_000
FEW_LANES = 256
"""With more open lanes, only those that come into view are made ready."""
_ALWAYS_OPEN = {LaneKind.TOKEN, LaneKind.THREAD, LaneKind.ENGINE}


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane as the timeline offers it.

    Attributes
    ----------
    key : stable across traces of a format: "thread:thread 0", "layer:3",
        "token", "phase", "engine:TE0", "op:MUL_MAT", "counter:Memory".
    title : what the header says.
    group : title of its group: Tokens, Threads, Engines, Layers, Ops, Memory …
    kind : decides drawing; layers and ops use THREAD-like drawing, thin rows.
    lane_ids : model lanes it draws spans of (empty: by `field`).
    field : "" or "layer" / "op" / "token": the spans whose column equals `value`.
    value : see `field`.
    counter : id of the counter series it draws, -1 none.
    overlay : model lane ids of stalls drawn hatched over it.
    n_spans : number of spans on it.
    thin : whether rows are drawn at half height (layers, ops).
    """

    key: str
    title: str
    group: str
    kind: LaneKind
    lane_ids: tuple[int, ...] = ()
    field: str = ""
    value: int = -1
    counter: int = -1
    overlay: tuple[int, ...] = ()
    n_spans: int = 0
    thin: bool = False


@dataclass(frozen=True, slots=True)
class LaneState:
    """What the person did to the lanes; kept per format and applied by key.

    Attributes
    ----------
    collapsed : group titles; None = the default (big "by layer"/"by op" groups
        collapsed, the rest open).
    hidden, pinned : lane keys; pinned lanes come first, in that order.
    order : lane keys moved by hand: position wins over the default order inside
        their group.
    heights : (lane key, factor) pairs.
    """

    collapsed: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    heights: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class LaneBox:
    """One line of the timeline: a group head or a lane, with its place.

    Attributes
    ----------
    lane : None for a group head.
    group : the group's title.
    y, height : pixels from the top of the lane area (before scrolling).
    row_y : top of each row, relative to `y`.
    row_height : height of each row.
    collapsed : for a group head.
    count : lanes in the group (group head), shown dim at the right.
    pinned : drawn in the pinned area.
    """

    lane: TimelineLane | None
    group: str
    y: float
    height: float
    row_y: tuple[float, ...] = ()
    row_height: float = ROW_HEIGHT
    collapsed: bool = False
    count: int = 0
    pinned: bool = False


@dataclass(frozen=True)
class LaneLayout:
    """All boxes from top to bottom, pinned ones first; `height` is their total."""

    boxes: tuple[LaneBox, ...]
    height: float

    def box_at(self, y: float) -> LaneBox | None:
        """Return the box that covers `y` (lane area coordinates)."""
        i = bisect_right(self.boxes, y, key=lambda box: box.y) - 1
        if i < 0 or y >= self.boxes[i].y + self.boxes[i].height:
            return None
        return self.boxes[i]

    def box_of(self, key: str) -> LaneBox | None:
        """Return the box of a lane, or None where it is hidden or collapsed."""
        return self._by_key.get(key)

    def boxes_between(self, top: float, bottom: float) -> tuple[LaneBox, ...]:
        """Return the boxes that touch a stretch of the lane area, pinned ones too."""
        first = max(bisect_right(self.boxes, top, key=lambda box: box.y) - 1, 0)
        stop = bisect_left(self.boxes, bottom, key=lambda box: box.y)
        return self.boxes[first:stop]

    @cached_property
    def pinned(self) -> tuple[LaneBox, ...]:
        """The pinned boxes, which do not scroll."""
        return self.boxes[: bisect_left(self.boxes, 1, key=lambda box: not box.pinned)]

    @property
    def pinned_height(self) -> float:
        """Height of the pinned boxes."""
        return self.pinned[-1].y + self.pinned[-1].height if self.pinned else 0.0

    @cached_property
    def _by_key(self) -> dict[str, LaneBox]:
        return {box.lane.key: box for box in self.boxes if box.lane is not None}


def default_collapsed(lanes: tuple[TimelineLane, ...]) -> frozenset[str]:
    """Return the groups that start collapsed.

    "Ops" always; "Layers" with more than 48 lanes or 4 M spans, because its rows
    copy their spans; others with more than 64 lanes, except tokens, threads and
    engines, which are what a trace is about.
    """
    closed: set[str] = set()
    for group, members in _by_group(lanes).items():
        n_spans = sum(lane.n_spans for lane in members)
        kinds = {lane.kind for lane in members}
        if group == OPS:
            is_closed = True
        elif group == LAYERS:
            is_closed = len(members) > MAX_OPEN_LAYERS or n_spans > MAX_OPEN_SPANS
        elif any(lane.thin for lane in members):
            is_closed = len(members) > MAX_OPEN_LANES
        else:
            is_closed = len(members) > MAX_OPEN_LANES and not kinds & _ALWAYS_OPEN
        if is_closed:
            closed.add(group)
    return frozenset(closed)


def lay_out(
    lanes: tuple[TimelineLane, ...], n_rows: dict[str, int], state: LaneState
) -> LaneLayout:
    """Place groups and lanes from top to bottom.

    `n_rows` gives the rows of each lane key (1 where unknown). Pinned lanes stand
    in a group of their own at the top and not in their usual place; the group
    "Tokens" follows. Groups without a visible lane are left out.
    """
    closed = default_collapsed(lanes) if state.collapsed is None else state.collapsed
    factors = dict(state.heights)
    boxes: list[LaneBox] = []
    y = 0.0
    for group, members in _arranged(lanes, state).items():
        pinned, is_closed = group == PINNED, group in closed
        boxes.append(
            LaneBox(
                lane=None,
                group=group,
                y=y,
                height=GROUP_HEIGHT,
                collapsed=is_closed,
                count=len(members),
                pinned=pinned,
            )
        )
        y += GROUP_HEIGHT
        if is_closed:
            continue
        for lane in members:
            rows, factor = n_rows.get(lane.key, 1), factors.get(lane.key, 1.0)
            box = _lane_box(lane, group, y, rows, factor, pinned=pinned)
            boxes.append(box)
            y += box.height
    return LaneLayout(tuple(boxes), y)


def _by_group(lanes: Iterable[TimelineLane]) -> dict[str, list[TimelineLane]]:
    groups: dict[str, list[TimelineLane]] = {}
    for lane in lanes:
        groups.setdefault(lane.group, []).append(lane)
    return groups


def _arranged(
    lanes: tuple[TimelineLane, ...], state: LaneState
) -> dict[str, list[TimelineLane]]:
    """Return the visible lanes of each group in their order, pinned ones first."""
    shown = {lane.key: lane for lane in lanes if lane.key not in state.hidden}
    groups: dict[str, list[TimelineLane]] = {}
    pinned = [shown.pop(key) for key in state.pinned if key in shown]
    if pinned:
        groups[PINNED] = pinned
    rest = _by_group(shown.values())
    for group in sorted(rest, key=lambda title: title != TOKENS):
        groups[group] = _reordered(rest[group], state.order)
    return groups


def _reordered(
    members: list[TimelineLane], order: tuple[str, ...]
) -> list[TimelineLane]:
    """Return the lanes with those in `order` sorted among the places they hold."""
    position = {key: i for i, key in enumerate(order)}
    moved = sorted(
        (lane for lane in members if lane.key in position),
        key=lambda lane: position[lane.key],
    )
    places = iter(moved)
    return [next(places) if lane.key in position else lane for lane in members]


def _lane_box(
    lane: TimelineLane,
    group: str,
    y: float,
    n_rows: int,
    factor: float,
    *,
    pinned: bool,
) -> LaneBox:
    """Return the box of a lane at `y`."""
    low, high = HEIGHT_FACTORS
    factor = min(max(factor, low), high)
    if lane.counter >= 0:
        n_rows, row_height = 1, COUNTER_HEIGHT * factor
    else:
        row_height = (THIN_ROW_HEIGHT if lane.thin else ROW_HEIGHT) * factor
    # Thin lanes are stacked without a gap, so that a block of layers reads as one.
    gap = 0.0 if lane.thin else float(LANE_GAP)
    n_rows = max(n_rows, 1)
    return LaneBox(
        lane=lane,
        group=group,
        y=y,
        height=n_rows * row_height + gap,
        row_y=tuple(gap / 2 + i * row_height for i in range(n_rows)),
        row_height=row_height,
        pinned=pinned,
    )
