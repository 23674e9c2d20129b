"""Which lanes the timeline shows, in which order, and where: pure arithmetic."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import eq
from typing import overload

import numpy as np
import numpy.typing as npt

from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array

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
_ALWAYS_OPEN = (LaneKind.TOKEN, LaneKind.THREAD, LaneKind.ENGINE)


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


class TimelineLanes(Sequence[TimelineLane]):
    """Lanes as columns; each becomes a `TimelineLane` when it is asked for.

    Parameters
    ----------
    make : makes the lane of a number; it is kept.
    position : number of each key.

    Attributes
    ----------
    keys, titles : of each lane; keys are distinct.
    groups : titles of groups; `group` has the row of each lane's, int32[n].
    kinds : int8[n], `LaneKind`.
    n_spans : int64[n].
    lane_id : int64[n], the lane of the trace whose spans it draws; -1 where it goes by
        a field or shows a counter.
    thin, is_counter : bool[n].
    with_overlay : numbers of the lanes over which stalls lie.
    """

    def __init__(
        self,
        keys: Sequence[str],
        titles: Sequence[str],
        groups: Sequence[str],
        group: Array,
        *,
        kinds: Array,
        n_spans: I64,
        lane_id: I64,
        thin: npt.NDArray[np.bool_],
        is_counter: npt.NDArray[np.bool_],
        make: Callable[[int], TimelineLane],
        position: Mapping[str, int],
        with_overlay: Sequence[int] = (),
    ) -> None:
        self.keys, self.titles = keys, titles
        self.groups, self.group = groups, group
        self.kinds, self.n_spans, self.lane_id = kinds, n_spans, lane_id
        self.thin, self.is_counter = thin, is_counter
        self.with_overlay = with_overlay
        self._position = position
        self._make = make
        self._made: dict[int, TimelineLane] = {}

    @classmethod
    def of(cls, lanes: Sequence[TimelineLane]) -> "TimelineLanes":
        """Return `lanes` as columns."""
        if isinstance(lanes, cls):
            return lanes
        titles = dict.fromkeys(lane.group for lane in lanes)
        groups = {title: i for i, title in enumerate(titles)}
        return cls(
            [lane.key for lane in lanes],
            [lane.title for lane in lanes],
            tuple(groups),
            np.array([groups[lane.group] for lane in lanes], np.int32),
            kinds=np.array([lane.kind for lane in lanes], np.int8),
            n_spans=np.array([lane.n_spans for lane in lanes], np.int64),
            lane_id=np.array([(*x.lane_ids, -1)[0] for x in lanes], np.int64),
            thin=np.array([lane.thin for lane in lanes], np.bool_),
            is_counter=np.array([lane.counter >= 0 for lane in lanes], np.bool_),
            make=lanes.__getitem__,
            position={lane.key: i for i, lane in enumerate(lanes)},
            with_overlay=[i for i, lane in enumerate(lanes) if lane.overlay],
        )

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, at: int) -> TimelineLane: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[TimelineLane, ...]: ...
    def __getitem__(self, at: int | slice) -> TimelineLane | tuple[TimelineLane, ...]:
        """Return a lane, or several. Raises IndexError for one that is not there."""
        if isinstance(at, slice):
            return tuple(self[i] for i in range(len(self))[at])
        number = range(len(self))[at]
        lane = self._made.get(number)
        if lane is None:
            lane = self._made.setdefault(number, self._make(number))
        return lane

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimelineLanes | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # its columns are lists

    def position(self, key: str) -> int:
        """Return which lane has this key; -1 for none."""
        return self._position.get(key, -1)

    def positions(self, keys: Sequence[str]) -> I64:
        """Return which lanes have these keys; those that are not there are left out."""
        found = (self._position.get(key, -1) for key in keys)
        return np.array([i for i in found if i >= 0], np.int64)

    def is_work(self) -> npt.NDArray[np.bool_]:
        """Return which lanes show the work of a thread or an engine, bool[n]."""
        works = np.isin(self.kinds, (LaneKind.THREAD, LaneKind.ENGINE))
        return works & (self.lane_id >= 0)


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


class LaneLayout:
    """All boxes from top to bottom, pinned ones first.

    Boxes are columns and made when they are asked for: of a hundred thousand lanes a
    window shows fifty.

    Parameters
    ----------
    lane : int64[n], which of `lanes`; -1 for a group head.
    heads : of each group head by its number: title, lanes in it, whether it is closed.
    n_pinned : boxes that do not scroll.
    n_rows, row_height : of each box; that of a head says nothing.

    Attributes
    ----------
    height : of all boxes together.
    """

    def __init__(
        self,
        lanes: TimelineLanes,
        lane: I64,
        heads: Mapping[int, tuple[str, int, bool]],
        n_pinned: int,
        *,
        n_rows: I64,
        row_height: npt.NDArray[np.float64],
    ) -> None:
        self._lanes, self._lane, self._heads = lanes, lane, heads
        self._n_pinned, self._n_rows, self._row_height = n_pinned, n_rows, row_height
        is_head = lane < 0
        # Thin lanes are stacked without a gap, so that a block of layers reads as one.
        self._gap = np.where(lanes.thin[lane], 0.0, float(LANE_GAP))
        height = n_rows * row_height + self._gap
        height[is_head] = GROUP_HEIGHT
        self._height = height
        bottom = np.cumsum(height)
        self.height = float(bottom[-1]) if len(bottom) else 0.0
        self._y = np.concatenate([[0.0], bottom])[: len(bottom)]
        self._made: dict[int, LaneBox] = {}

    def __len__(self) -> int:
        return len(self._lane)

    def __iter__(self) -> Iterator[LaneBox]:
        return (self._box(i) for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LaneLayout) and self.boxes == other.boxes

    __hash__ = None  # type: ignore[assignment]  # nobody looks a layout up

    @property
    def boxes(self) -> tuple[LaneBox, ...]:
        """All boxes; with very many lanes it takes a while."""
        return tuple(self)

    def box_at(self, y: float) -> LaneBox | None:
        """Return the box that covers `y` (lane area coordinates)."""
        i = int(np.searchsorted(self._y, y, "right")) - 1
        if i < 0 or y >= self._y[i] + self._height[i]:
            return None
        return self._box(i)

    def box_of(self, key: str) -> LaneBox | None:
        """Return the box of a lane, or None where it is hidden or collapsed."""
        at = self._lanes.position(key)
        place = int(self._place_of[at]) if at >= 0 else -1
        return self._box(place) if place >= 0 else None

    def boxes_between(self, top: float, bottom: float) -> tuple[LaneBox, ...]:
        """Return the boxes that touch a stretch of the lane area, pinned ones too."""
        first = max(int(np.searchsorted(self._y, top, "right")) - 1, 0)
        stop = int(np.searchsorted(self._y, bottom, "left"))
        return tuple(self._box(i) for i in range(first, stop))

    def n_lanes_beyond(self, y: float) -> int:
        """Return how many lanes end below `y`."""
        return int(np.count_nonzero((self._lane >= 0) & (self._y + self._height > y)))

    def keys_of_group(self, group: str, *, pinned: bool) -> list[str]:
        """Return the keys of the lanes below a group's head, in their order."""
        for i, stop in pairwise([*self._heads, len(self)]):
            if self._heads[i][0] == group and (i < self._n_pinned) == pinned:
                members = self._lane[i + 1 : stop].tolist()
                return [self._lanes.keys[at] for at in members]
        return []

    @cached_property
    def pinned(self) -> tuple[LaneBox, ...]:
        """The pinned boxes, which do not scroll."""
        return tuple(self._box(i) for i in range(self._n_pinned))

    @property
    def pinned_height(self) -> float:
        """Height of the pinned boxes."""
        return self.pinned[-1].y + self.pinned[-1].height if self.pinned else 0.0

    @cached_property
    def _place_of(self) -> I64:
        """Return the box of each lane, -1 for none."""
        place = np.full(len(self._lanes), -1, np.int64)
        boxes = np.flatnonzero(self._lane >= 0)
        place[self._lane[boxes]] = boxes
        return place

    def _box(self, i: int) -> LaneBox:
        box = self._made.get(i)
        if box is None:
            box = self._made.setdefault(i, self._make(i))
        return box

    def _make(self, i: int) -> LaneBox:
        y, pinned = float(self._y[i]), i < self._n_pinned
        head = self._heads.get(i)
        if head is not None:
            group, count, is_closed = head
            return LaneBox(
                None, group, y, GROUP_HEIGHT, collapsed=is_closed, count=count,
                pinned=pinned,
            )  # fmt: skip
        lane, row_height = self._lanes[int(self._lane[i])], float(self._row_height[i])
        gap = float(self._gap[i])
        return LaneBox(
            lane,
            PINNED if pinned else lane.group,
            y,
            float(self._height[i]),
            tuple(gap / 2 + n * row_height for n in range(int(self._n_rows[i]))),
            row_height,
            pinned=pinned,
        )


def default_collapsed(lanes: Sequence[TimelineLane]) -> frozenset[str]:
    """Return the groups that start collapsed.

    "Ops" always; "Layers" with more than 48 lanes or 4 M spans, because its rows
    copy their spans; others with more than 64 lanes, except tokens, threads and
    engines, which are what a trace is about.
    """
    columns = TimelineLanes.of(lanes)
    group, n = columns.group, len(columns.groups)
    count = np.bincount(group, minlength=n)
    n_spans = np.zeros(n, np.int64)
    np.add.at(n_spans, group, columns.n_spans)
    has_thin, has_open = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    has_thin[group[columns.thin]] = True
    has_open[group[np.isin(columns.kinds, _ALWAYS_OPEN)]] = True
    is_closed = (count > MAX_OPEN_LANES) & (has_thin | ~has_open)
    for i, title in enumerate(columns.groups):
        if title == OPS:
            is_closed[i] = count[i] > 0
        elif title == LAYERS:
            is_closed[i] = count[i] > MAX_OPEN_LAYERS or n_spans[i] > MAX_OPEN_SPANS
    return frozenset(columns.groups[i] for i in np.flatnonzero(is_closed).tolist())


def lay_out(
    lanes: Sequence[TimelineLane], n_rows: Mapping[str, int] | Array, state: LaneState
) -> LaneLayout:
    """Place groups and lanes from top to bottom.

    `n_rows` gives the rows of each lane, by key (1 where unknown) or in their order.
    Pinned lanes stand in a group of their own at the top and not in their usual place;
    the group "Tokens" follows. Groups without a visible lane are left out.
    """
    columns = TimelineLanes.of(lanes)
    closed = default_collapsed(columns) if state.collapsed is None else state.collapsed
    boxes: list[I64] = []
    heads: dict[int, tuple[str, int, bool]] = {}
    n_boxes = n_pinned = 0
    for title, members, is_pinned in _arranged(columns, state):
        is_closed = title in closed
        heads[n_boxes] = (title, len(members), is_closed)
        boxes += [np.array([-1])] if is_closed else [np.array([-1]), members]
        n_boxes += 1 if is_closed else 1 + len(members)
        n_pinned = n_boxes if is_pinned else n_pinned
    lane = np.concatenate([np.zeros(0, np.int64), *boxes])
    rows = np.maximum(_rows_of(columns, n_rows), 1)
    factor = np.ones(len(columns))
    for key, wanted in state.heights:
        if (at := columns.position(key)) >= 0:
            factor[at] = min(max(wanted, HEIGHT_FACTORS[0]), HEIGHT_FACTORS[1])
    usual = np.where(columns.thin, THIN_ROW_HEIGHT, ROW_HEIGHT)
    height = np.where(columns.is_counter, COUNTER_HEIGHT, usual) * factor
    rows[columns.is_counter] = 1
    return LaneLayout(
        columns, lane, heads, n_pinned, n_rows=rows[lane], row_height=height[lane]
    )


def _rows_of(columns: TimelineLanes, n_rows: Mapping[str, int] | Array) -> I64:
    """Return the rows of each lane, int64[n]."""
    if isinstance(n_rows, Mapping):
        return np.array([n_rows.get(key, 1) for key in columns.keys], np.int64)
    return n_rows.astype(np.int64)


def _arranged(
    columns: TimelineLanes, state: LaneState
) -> Iterator[tuple[str, I64, bool]]:
    """Yield (title, visible lanes in their order, whether pinned) of each group."""
    is_shown = np.ones(len(columns), np.bool_)
    is_shown[columns.positions(tuple(state.hidden))] = False
    pinned = columns.positions(tuple(dict.fromkeys(state.pinned)))
    pinned = pinned[is_shown[pinned]]
    is_shown[pinned] = False
    if len(pinned):
        yield PINNED, pinned, True
    rest = np.flatnonzero(is_shown)
    group = columns.group[rest]
    present, first = np.unique(group, return_index=True)
    # In the order of their first lanes.
    present = present[np.argsort(first)].tolist()
    order = np.argsort(group, kind="stable")
    ranked, rest = group[order], rest[order]
    for i in sorted(present, key=lambda i: columns.groups[i] != TOKENS):
        low, high = np.searchsorted(ranked, [i, i + 1])
        yield columns.groups[i], _reordered(columns, rest[low:high], state.order), False


def _reordered(columns: TimelineLanes, members: I64, order: tuple[str, ...]) -> I64:
    """Return the lanes with those in `order` sorted among the places they hold."""
    if not order:
        return members
    wanted = columns.positions(tuple(dict.fromkeys(reversed(order)))[::-1])
    is_moved = np.isin(members, wanted)
    result = members.copy()
    result[is_moved] = wanted[np.isin(wanted, members)]
    return result
