"""The lanes that the timeline offers; which of them it shows, in which order, where.

Pure arithmetic on the lanes of a trace; nothing here knows pixels on a screen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import eq
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.tracks import (
    BUSY_THREADS,
    ROW_HEIGHT,
    TOKENS,
    TRACKS,
    TrackSpec,
    by_track,
    lanes_where,
    tracks_of_kinds,
)
from ggscope.analysis.workers import Groups, chunks, count_values
from ggscope.model.tables import I64, Array
from ggscope.model.trace import LaneKind, Trace

GROUP_HEIGHT = 24
LANE_GAP = 4
HEIGHT_FACTORS = (0.5, 8.0)
"""Least and greatest height factor of a lane."""
PINNED = "Pinned"
FEW_LANES = 256
"""With more open lanes, only those that come into view are made ready."""
_FAR = 1 << 20
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane as the timeline offers it.

    Attributes
    ----------
    key : stable across traces of a format: "thread:thread 0", "layer:3",
        "token", "phase", "engine:TE0", "op:MUL_MAT", "counter:Memory".
    title : what the header says.
    group : title of its group: Tokens, Threads, Engines, Layers, Ops, Memory …
    track : what kind of lane it is.
    lane_ids : model lanes it draws spans of; empty where its track has a column.
    value : of the track's column, id of the counter series, or number of threads of
        which the busy ones are counted; -1 = none of these.
    overlay : model lane ids of stalls drawn hatched over it.
    n_spans : number of spans on it.
    """

    key: str
    title: str
    group: str
    track: TrackSpec
    lane_ids: tuple[int, ...] = ()
    value: int = -1
    overlay: tuple[int, ...] = ()
    n_spans: int = 0


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
    tracks : int8[n], places in `TRACKS`.
    n_spans : int64[n].
    lane_id : int64[n], the lane of the trace whose spans it draws; -1 for none.
    has_rows : bool[n], whether spans lie on it; not so for counters.
    with_overlay : numbers of the lanes over which stalls lie.
    """

    def __init__(
        self,
        keys: Sequence[str],
        titles: Sequence[str],
        groups: Sequence[str],
        group: Array,
        *,
        tracks: npt.NDArray[np.int8],
        n_spans: I64,
        lane_id: I64,
        make: Callable[[int], TimelineLane],
        position: Mapping[str, int],
        with_overlay: Sequence[int] = (),
    ) -> None:
        self.keys, self.titles = keys, titles
        self.groups, self.group = groups, group
        self.tracks, self.n_spans, self.lane_id = tracks, n_spans, lane_id
        self.has_rows: npt.NDArray[np.bool_] = self.of_track(lambda spec: spec.has_rows)
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
            tracks=np.array([TRACKS.index(lane.track) for lane in lanes], np.int8),
            n_spans=np.array([lane.n_spans for lane in lanes], np.int64),
            lane_id=np.array([(*x.lane_ids, -1)[0] for x in lanes], np.int64),
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
        positions = (self._position.get(key, -1) for key in keys)
        return np.array([i for i in positions if i >= 0], np.int64)

    def of_track(self, value: Callable[[TrackSpec], Any]) -> Any:
        """Return what `value` is for the track of each lane, an array of n."""
        return by_track(value, self.tracks)

    def is_work(self) -> npt.NDArray[np.bool_]:
        """Return which lanes show the work of a thread or an engine, bool[n]."""
        is_work: npt.NDArray[np.bool_] = self.of_track(lambda spec: spec.is_work)
        return is_work


@dataclass(frozen=True, slots=True)
class LaneState:
    """What the user did to the lanes; kept per format and applied by key.

    Attributes
    ----------
    collapsed : group titles; None = the default (big "by layer"/"by op" groups
        collapsed, the rest open).
    hidden, pinned : lane keys; pinned lanes come first, in that order.
    order : lane keys moved by hand: position wins over the default order inside
        their group.
    heights : (lane key, factor) pairs.
    names : (lane key or `group_key`, title given by the user) pairs, of one trace.
    """

    collapsed: frozenset[str] | None = None
    hidden: frozenset[str] = frozenset()
    pinned: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    heights: tuple[tuple[str, float], ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    def named(self, key: str, title: str) -> "LaneState":
        """Return the state with another title of a lane or group; "" = its own."""
        names = {k: name for k, name in self.names if k != key}
        if title:
            names[key] = title
        return replace(self, names=tuple(sorted(names.items())))


def group_key(group: str) -> str:
    """Return what a group is called by in `LaneState.names`."""
    return f"group:{group}"


@dataclass(frozen=True, slots=True)
class LaneBox:
    """One line of the timeline: a group head or a lane, with its place.

    Attributes
    ----------
    lane : None for a group head.
    group : the group's own title.
    title : of the lane or group, as the user named it.
    y, height : pixels from the top of the lane area (before scrolling).
    row_y : top of each row, relative to `y`.
    row_height : height of each row.
    collapsed : for a group head.
    count : lanes in the group (group head), without that of busy threads, shown dim at
        the right.
    pinned : by the user.
    fixed : does not scroll: a pinned one, or a sticky track and the head above it.
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
    fixed: bool = False
    title: str = ""


class LaneLayout:
    """All boxes from top to bottom, pinned ones first.

    Boxes are columns and made when they are asked for: of a hundred thousand lanes a
    window shows fifty.

    Parameters
    ----------
    lane : int64[n], which of `lanes`; -1 for a group head.
    heads : of each group head by its number: title, lanes in it, whether it is closed.
    n_pinned, n_fixed : boxes that the user pinned, and that do not scroll.
    n_rows, row_height : of each box; that of a head says nothing.
    names : titles that the user gave, by lane key or `group_key`.

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
        n_fixed: int,
        *,
        n_rows: I64,
        row_height: npt.NDArray[np.float64],
        head_height: float = GROUP_HEIGHT,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._lanes, self._lane, self._heads = lanes, lane, heads
        self._head_height, self._names = head_height, names or {}
        self._n_pinned, self._n_fixed = n_pinned, n_fixed
        self._n_rows, self._row_height = n_rows, row_height
        is_head = lane < 0
        # Thin lanes are stacked without a gap, so that a block of layers reads as one.
        is_thin = lanes.of_track(lambda spec: spec.is_thin)
        self._gap = np.where(is_thin[lane], 0.0, float(LANE_GAP))
        height = n_rows * row_height + self._gap
        height[is_head] = head_height
        self._height = height
        bottom = np.cumsum(height)
        self.height = float(bottom[-1]) if len(bottom) else 0.0
        self._y = np.concatenate([[0.0], bottom])[: len(bottom)]
        self._made: dict[int, LaneBox] = {}

    def scaled(self, factor: float, head_height: float) -> "LaneLayout":
        """Return the layout with rows so many times as high, for figures."""
        return LaneLayout(
            self._lanes, self._lane, self._heads, self._n_pinned, self._n_fixed,
            n_rows=self._n_rows, row_height=self._row_height * factor,
            head_height=head_height, names=self._names,
        )  # fmt: skip

    def fitting(self, height: float) -> "LaneLayout":
        """Return the layout of the first boxes that fit whole, without a last head."""
        n = int(np.count_nonzero(self._y + self._height <= height + 1e-6))
        while n and self._lane[n - 1] < 0:
            n -= 1
        return LaneLayout(
            self._lanes, self._lane[:n],
            {i: head for i, head in self._heads.items() if i < n},
            min(self._n_pinned, n), min(self._n_fixed, n), n_rows=self._n_rows[:n],
            row_height=self._row_height[:n], head_height=self._head_height,
            names=self._names,
        )  # fmt: skip

    @property
    def shown(self) -> list[str]:
        """Keys of the lanes that have a box, from top to bottom."""
        return [self._lanes.keys[at] for at in self._lane[self._lane >= 0].tolist()]

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

    def keys_of_group(self, group: str, *, pinned: bool) -> list[str]:
        """Return the keys of the lanes below a group's head, in their order."""
        for i, stop in pairwise([*self._heads, len(self)]):
            if self._heads[i][0] == group and (i < self._n_pinned) == pinned:
                members = self._lane[i + 1 : stop].tolist()
                return [self._lanes.keys[at] for at in members]
        return []

    @property
    def has_pinned(self) -> bool:
        """Whether the user pinned any box."""
        return self._n_pinned > 0

    @cached_property
    def fixed(self) -> tuple[LaneBox, ...]:
        """The boxes at the top that do not scroll."""
        return tuple(self._box(i) for i in range(self._n_fixed))

    @property
    def fixed_height(self) -> float:
        """Height of the boxes that do not scroll."""
        return self.fixed[-1].y + self.fixed[-1].height if self.fixed else 0.0

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
        y, pinned, fixed = float(self._y[i]), i < self._n_pinned, i < self._n_fixed
        head = self._heads.get(i)
        if head is not None:
            group, count, is_closed = head
            return LaneBox(
                None, group, y, self._head_height, collapsed=is_closed, count=count,
                pinned=pinned, fixed=fixed,
                title=self._names.get(group_key(group), group),
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
            fixed=fixed,
            title=self._names.get(lane.key, lane.title),
        )


def default_collapsed(lanes: Sequence[TimelineLane]) -> frozenset[str]:
    """Return the groups of more lanes, or more spans, than may start expanded."""
    columns = TimelineLanes.of(lanes)
    group, n = columns.group, len(columns.groups)
    count, n_spans = np.bincount(group, minlength=n), np.zeros(n, np.int64)
    np.add.at(n_spans, group, columns.n_spans)
    lane_limits = columns.of_track(lambda spec: _limit(spec.max_open_lanes))
    span_limits = columns.of_track(lambda spec: _limit(spec.max_open_spans))
    max_lanes, max_spans = np.zeros(n), np.full(n, np.inf)
    np.maximum.at(max_lanes, group, lane_limits)
    np.minimum.at(max_spans, group, span_limits)
    is_closed = (count > max_lanes) | (n_spans > max_spans)
    return frozenset(columns.groups[i] for i in np.flatnonzero(is_closed).tolist())


def _limit(limit: int | None) -> float:
    return np.inf if limit is None else limit


def lay_out(
    lanes: Sequence[TimelineLane], n_rows: Mapping[str, int] | Array, state: LaneState
) -> LaneLayout:
    """Place groups and lanes from top to bottom.

    `n_rows` gives the rows of each lane, by key (1 where unknown) or in their order.
    Pinned lanes stand in a group of their own at the top and not in their usual place;
    the group "Tokens" follows, whose first lanes do not scroll either. Groups without a
    visible lane are left out.
    """
    columns = TimelineLanes.of(lanes)
    closed = default_collapsed(columns) if state.collapsed is None else state.collapsed
    boxes: list[I64] = []
    heads: dict[int, tuple[str, int, bool]] = {}
    n_boxes = n_pinned = n_fixed = 0
    is_sticky = columns.of_track(lambda spec: spec.is_sticky)
    busy = columns.position(BUSY_THREADS)
    for title, members, is_pinned in _arranged(columns, state):
        is_closed = title in closed
        n_counted = int(np.count_nonzero(members != busy))  # "Threads 4" of four
        heads[n_boxes] = (title, n_counted, is_closed)
        boxes += [np.array([-1])] if is_closed else [np.array([-1]), members]
        n_boxes += 1 if is_closed else 1 + len(members)
        if is_pinned:
            n_pinned = n_fixed = n_boxes
        elif len(heads) == 1 + (n_pinned > 0) and not is_closed:
            # The first group below pinned lanes: as many as are sticky, and its head.
            n_sticky = int(np.cumprod(is_sticky[members]).sum())
            n_fixed = n_pinned + (1 + n_sticky if n_sticky else 0)
    lane = np.concatenate([np.zeros(0, np.int64), *boxes])
    rows = np.maximum(_rows_of(columns, n_rows), 1)
    factor = np.ones(len(columns))
    for key, requested in state.heights:
        if (at := columns.position(key)) >= 0:
            factor[at] = min(max(requested, HEIGHT_FACTORS[0]), HEIGHT_FACTORS[1])
    height = columns.of_track(lambda spec: float(spec.row_height)) * factor
    rows[~columns.has_rows] = 1
    return LaneLayout(
        columns, lane, heads, n_pinned, n_fixed, n_rows=rows[lane],
        row_height=height[lane], names=dict(state.names),
    )  # fmt: skip


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
    positions = columns.positions(tuple(dict.fromkeys(reversed(order)))[::-1])
    is_moved = np.isin(members, positions)
    result = members.copy()
    result[is_moved] = positions[np.isin(positions, members)]
    return result


def apart_spans(trace: Trace) -> npt.NDArray[np.bool_] | None:
    """Return which spans lie apart from others of their lane; None = none does.

    See `TrackSpec.only`.
    """
    category = trace.spans.category
    if category is None:
        return None
    is_apart = np.zeros(len(category), np.bool_)
    for spec in TRACKS:
        code = trace.strings.find(spec.only) if spec.only else -1
        if code >= 0 and spec.kind is not None:
            of_kind = trace.lanes.of_kind(spec.kind)
            is_apart |= (category == code) & of_kind[trace.spans.lane]
    return is_apart if is_apart.any() else None


def timeline_lanes(
    trace: Trace,
    per_lane: I64,
    by_column: Mapping[str, I64],
    apart: I64 | None = None,
) -> TimelineLanes:
    """Return all lanes that the timeline can show, in default order.

    Parameters
    ----------
    per_lane : int64[n_lanes], spans of each lane of the trace.
    apart : int64[n_lanes], how many of these are `apart_spans`; None = no one is.
    by_column : int64 by column of a track, such as "layer": work spans (see
        `work_column`) by value.

    Notes
    -----
    Lanes without spans are left out, and so are stalls that lie over another
    lane: they are its `overlay`. A group stands where its first lane ranks.
    """
    overlay = _overlays(trace, per_lane)
    apart = np.zeros(len(per_lane), np.int64) if apart is None else apart
    parts_of_spans = _span_lanes(trace, per_lane - apart, overlay)
    parts = (
        parts_of_spans,
        _counter_lanes(trace),
        _busy_threads_lane(parts_of_spans),
        *(_apart_lanes(trace, spec, apart) for spec in TRACKS if spec.only),
        *(_column_lanes(trace, s, by_column[s.column]) for s in TRACKS if s.column),
    )
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("group", "tracks", "lane_id", "value", "n_spans")
    }
    # Groups in the order of their first lanes.
    titles_of = [title for part in parts for title in part.groups]
    base = np.repeat(
        np.cumsum([0, *(len(part.groups) for part in parts[:-1])]),
        [len(part.keys) for part in parts],
    )
    groups = {title: i for i, title in enumerate(dict.fromkeys(titles_of))}
    number = np.array([groups[title] for title in titles_of], np.int64)
    group = number[columns["group"] + base]
    first_track = np.full(len(groups), _FAR)
    np.minimum.at(first_track, group, columns["tracks"])
    within = np.concatenate(
        [
            _places(parts[0], parts[1]),
            *(np.arange(len(part.keys)) for part in parts[2:]),
        ]
    )
    order = np.lexsort((within, columns["tracks"], group, first_track[group]))
    keys, position = _with_unique_keys(
        _taken([x for part in parts for x in part.keys], order)
    )
    titles = _taken([x for part in parts for x in part.titles], order)
    column = {name: values[order] for name, values in columns.items()}
    group, names = group[order].astype(np.int32), tuple(groups)

    def make(i: int) -> TimelineLane:
        lane_id = int(column["lane_id"][i])
        return TimelineLane(
            key=keys[i],
            title=titles[i],
            group=names[group[i]],
            track=TRACKS[column["tracks"][i]],
            lane_ids=(lane_id,) if lane_id >= 0 else (),
            value=-1 if lane_id >= 0 else int(column["value"][i]),
            overlay=tuple(overlay.get(lane_id, ())),
            n_spans=int(column["n_spans"][i]),
        )

    return TimelineLanes(
        keys,
        titles,
        names,
        group,
        tracks=column["tracks"],
        n_spans=column["n_spans"],
        lane_id=column["lane_id"],
        make=make,
        position=position,
        with_overlay=np.flatnonzero(
            np.isin(column["lane_id"], list(overlay)) & (column["lane_id"] >= 0)
        ).tolist(),
    )


def work_column(trace: Trace, column: Array) -> Array:
    """Return `column` where a span is work, else -1.

    Work is an op on a thread, or anything on an engine; graphs, tokens, phases
    and stalls repeat the time of the work below them.
    """
    is_work = _work_test(trace)
    result = np.empty(len(column), column.dtype)
    for rows in chunks(len(column)):
        result[rows] = np.where(is_work(rows), column[rows], column.dtype.type(-1))
    return result


def work_parts(trace: Trace, by_lane: Groups) -> list[tuple[slice, Array | None]]:
    """Return (ids, gate) of the lanes that hold work, in the order of the ids.

    Work are those spans whose gate is not negative; all where it is None.
    `by_lane` are the spans by lane, each a run of ids; lanes of one kind that lie
    side by side are one part.
    """
    count = by_lane.count
    is_work, needs_op = _work_lanes(trace)
    lanes = np.flatnonzero(is_work & (count > 0))
    lanes = lanes[np.argsort(by_lane.first[lanes], kind="stable")]
    begin = by_lane.first[lanes]
    stop, is_gated = begin + count[lanes], needs_op[lanes]
    is_new = np.ones(len(lanes), np.bool_)
    is_new[1:] = (begin[1:] != stop[:-1]) | (is_gated[1:] != is_gated[:-1])
    firsts = np.flatnonzero(is_new)
    lasts = np.append(firsts[1:], len(lanes))[: len(firsts)] - 1
    joined = zip(
        begin[firsts].tolist(),
        stop[lasts].tolist(),
        is_gated[firsts].tolist(),
        strict=True,
    )
    op = trace.spans.op
    return [(slice(a, b), op[a:b] if gated else None) for a, b, gated in joined]


def work_rows(trace: Trace, rows: slice) -> npt.NDArray[np.bool_]:
    """Return which of the spans `rows` are work, see `work_column`."""
    return _work_test(trace)(rows)


def count_work(
    trace: Trace, columns: Sequence[Array], by_lane: Groups | None = None
) -> list[I64]:
    """Return how many work spans have each value, int64[max + 1] per column.

    `by_lane` are the spans by lane, which is faster where each is a run of ids.
    """
    if by_lane is not None and by_lane.order is None:
        parts = work_parts(trace, by_lane)
        if len(parts) <= FEW_LANES:
            return [_count_parts(column, parts) for column in columns]
    is_work = _work_test(trace)
    counts = [np.zeros(int(c.max(initial=-1)) + 1, np.int64) for c in columns]
    for rows in chunks(len(trace.spans)):
        work = is_work(rows)
        for column, count in zip(columns, counts, strict=True):
            part = column[rows][work[: len(column)]]
            count += np.bincount(part[part >= 0], minlength=len(count))[: len(count)]
    return counts


def _count_parts(column: Array, parts: list[tuple[slice, Array | None]]) -> I64:
    total = np.zeros(int(column.max(initial=-1)) + 1, np.int64)
    for ids, gate in parts if len(column) else ():
        total += count_values(column[ids], len(total), gate)
    return total


def _work_test(trace: Trace) -> Callable[[slice], npt.NDArray[np.bool_]]:
    """Return a function that says which spans of a slice are work."""
    # One more for spans of a trace without lanes.
    works, needs_op = (np.append(mask, False) for mask in _work_lanes(trace))

    def is_work(rows: slice) -> npt.NDArray[np.bool_]:
        on = trace.spans.lane[rows].astype(np.intp)
        return works[on] & (~needs_op[on] | (trace.spans.op[rows] >= 0))

    return is_work


def _work_lanes(trace: Trace) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which lanes hold work, and on which only spans with an op are work."""
    return (
        lanes_where(trace.lanes, lambda spec: spec.is_work),
        lanes_where(trace.lanes, lambda spec: spec.work_has_op),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _LaneColumns:
    """Lanes of one source as columns, see `TimelineLanes`.

    Attributes
    ----------
    groups : titles in the order of their first lanes; `group` has the row of each.
    tracks : places in `TRACKS`.
    order : sort keys of each lane among those of its track.
    value : of the column, id of the counter or lane, or number of counted threads.
    """

    keys: Sequence[str]
    titles: Sequence[str]
    groups: Sequence[str]
    group: I64
    tracks: npt.NDArray[np.int8]
    n_spans: I64
    lane_id: I64
    value: I64
    order: Sequence[tuple[int, ...]] = ()


def _overlays(trace: Trace, per_lane: I64) -> dict[int, list[int]]:
    """Return the lanes of stalls over each lane; those without are left out."""
    over: dict[int, list[int]] = {}
    is_stall, attributes = trace.lanes.is_stall, trace.lanes.attributes
    for i in np.flatnonzero(is_stall & (per_lane > 0)).tolist():
        text = attributes[i].get("over", "")
        target = int(text) if text.isdecimal() else len(is_stall)
        if target < len(is_stall) and not is_stall[target]:
            over.setdefault(target, []).append(i)
    return over


def _span_lanes(
    trace: Trace, per_lane: I64, overlay: Mapping[int, Sequence[int]]
) -> _LaneColumns:
    """Return the lanes that hold spans, or over which stalls lie."""
    lanes = trace.lanes
    is_shown = per_lane > 0
    is_shown[list(overlay)] = True
    is_shown[[stall for stalls in overlay.values() for stall in stalls]] = False
    ids = np.flatnonzero(is_shown)
    tracks = tracks_of_kinds()[lanes.kinds[ids]]
    # What goes by track and group is worked out once for each pair of them.
    pairs = tracks.astype(np.int64) * max(len(lanes.groups), 1) + lanes.group[ids]
    distinct, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    titles_of = [
        _group_title(TRACKS[tracks[i]], lanes.groups[lanes.group[ids[i]]])
        for i in first.tolist()
    ]
    groups = dict.fromkeys(titles_of[i] for i in np.argsort(first).tolist())
    row = {title: i for i, title in enumerate(groups)}
    rows = np.array([row[title] for title in titles_of], np.int64)
    fronts = [f"{spec.id}:" for spec in TRACKS]
    titles = _taken(lanes.names, ids)
    keys = [fronts[t] + title for t, title in zip(tracks.tolist(), titles, strict=True)]
    is_single = by_track(lambda spec: spec.is_single, tracks)
    for i in np.flatnonzero(is_single).tolist():
        keys[i] = TRACKS[tracks[i]].id
    return _LaneColumns(
        keys=keys,
        titles=titles,
        groups=tuple(groups),
        group=rows[which] if len(distinct) else ids,
        tracks=tracks,
        n_spans=per_lane[ids],
        lane_id=ids,
        value=ids,
        order=_taken(lanes.sort_keys, ids),
    )


def _apart_lanes(trace: Trace, spec: TrackSpec, apart: I64) -> _LaneColumns:
    """Return the lanes of a track of spans that lie apart from others of their lane."""
    of_kind = trace.lanes.kinds == (-1 if spec.kind is None else spec.kind)
    ids = np.flatnonzero((apart > 0) & of_kind)
    titles = _taken(trace.lanes.names, ids)
    n = len(ids)
    return _LaneColumns(
        keys=[f"{spec.id}:{title}" for title in titles],
        titles=titles,
        groups=(spec.group,) if n else (),
        group=np.zeros(n, np.int64),
        tracks=np.full(n, TRACKS.index(spec), np.int8),
        n_spans=apart[ids],
        lane_id=ids,
        value=ids,
    )


def _group_title(spec: TrackSpec, group: tuple[str, ...]) -> str:
    """Return the title of the group that a lane of the trace stands in."""
    return group[0] if group and not spec.has_fixed_group else spec.group


def _busy_threads_lane(lanes: _LaneColumns) -> _LaneColumns:
    """Return the lane that counts busy threads, in the group of the first thread.

    There is none for a single thread, or for more than pictures are ready for.
    """
    number = next(i for i, spec in enumerate(TRACKS) if spec.id == BUSY_THREADS)
    thread = next(i for i, spec in enumerate(TRACKS) if spec.id == "thread")
    threads = np.flatnonzero((lanes.tracks == thread) & (lanes.n_spans > 0))
    n = 1 if 2 <= len(threads) <= FEW_LANES else 0
    group = [lanes.groups[int(lanes.group[threads[0]])]] if n else []
    return _LaneColumns(
        keys=[BUSY_THREADS] * n,
        titles=[TRACKS[number].title] * n,
        groups=group,
        group=np.zeros(n, np.int64),
        tracks=np.full(n, number, np.int8),
        n_spans=np.zeros(n, np.int64),
        lane_id=np.full(n, -1),
        value=np.full(n, len(threads)),
    )


def _counter_lanes(trace: Trace) -> _LaneColumns:
    """Return one lane per counter series, in the group of its lane."""
    number = int(tracks_of_kinds()[LaneKind.COUNTER])
    spec, lanes = TRACKS[number], [trace.lanes[x.lane] for x in trace.counters]
    titles = [_group_title(spec, lane.group) for lane in lanes]
    groups = {group: i for i, group in enumerate(dict.fromkeys(titles))}
    n, ids = len(lanes), np.array([series.id for series in trace.counters], np.int64)
    return _LaneColumns(
        keys=[f"{spec.id}:{series.name}" for series in trace.counters],
        titles=[series.name for series in trace.counters],
        groups=tuple(groups),
        group=np.array([groups[group] for group in titles], np.int64),
        tracks=np.full(n, number, np.int8),
        n_spans=np.zeros(n, np.int64),
        lane_id=np.full(n, -1),
        value=ids,
        order=[lane.sort_key for lane in lanes],
    )


def _column_lanes(trace: Trace, spec: TrackSpec, counts: I64) -> _LaneColumns:
    """Return one lane per value of a column; `counts` are the spans of each value."""
    values, n = np.flatnonzero(counts), int(np.count_nonzero(counts))
    if spec.column == "op":  # the commonest first
        values = np.argsort(-counts, kind="stable")[:n]
    name = trace.op_name if spec.column == "op" else str
    names = [name(value) for value in values.tolist()]
    return _LaneColumns(
        keys=[f"{spec.id}:{name}" for name in names],
        titles=[spec.title.format(name) for name in names],
        groups=(spec.group,) if n else (),
        group=np.zeros(n, np.int64),
        tracks=np.full(n, TRACKS.index(spec), np.int8),
        n_spans=counts[values],
        lane_id=np.full(n, -1),
        value=values,
    )


def _places(*parts: _LaneColumns) -> I64:
    """Return the place of each lane when all are sorted by their order, then number."""
    keys = [key for part in parts for key in part.order]
    number = np.concatenate([part.value for part in parts])
    if len(set(map(len, keys))) == 1:
        try:
            flat = np.fromiter(chain.from_iterable(keys), np.int64)
            columns = flat.reshape(len(keys), -1)
        except OverflowError:  # numbers of more than 64 bits
            columns = None
        if columns is not None:
            order = np.lexsort((number, *columns.T[::-1]))
            return _inverse(order)
    full = [(*key, i) for key, i in zip(keys, number.tolist(), strict=True)]
    return _inverse(np.array(sorted(range(len(full)), key=full.__getitem__), np.int64))


def _inverse(order: I64) -> I64:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _taken(values: Sequence[_T], rows: I64) -> Sequence[_T]:
    if np.array_equal(rows, np.arange(len(values))):
        return values
    return [values[i] for i in rows.tolist()]


def _with_unique_keys(keys: Sequence[str]) -> tuple[Sequence[str], dict[str, int]]:
    """Return the keys, later ones that are the same as ``key#2`` and so on.

    Also returned is the place of each.
    """
    place = dict(zip(keys, range(len(keys)), strict=True))
    if len(place) == len(keys):
        return keys, place
    result: list[str] = []
    taken: set[str] = set()
    last: dict[str, int] = {}
    for base in keys:
        key, number = base, last.get(base, 1)
        while key in taken:
            number += 1
            key = f"{base}#{number}"
        taken.add(key)
        if key != base:
            last[base] = number
        result.append(key)
    return result, dict(zip(result, range(len(result)), strict=True))
