"""The lanes that the timeline offers; which of them it shows, in which order, where.

Pure arithmetic on the lanes of a trace; nothing here knows pixels on a screen.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import eq
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from ggscope.analysis.workers import Groups, chunks, count_values
from ggscope.model.tables import I64, Array
from ggscope.model.trace import LaneKind, Trace

GROUP_HEIGHT = 24
ROW_HEIGHT = 22
THIN_ROW_HEIGHT = 14
LANE_GAP = 4
COUNTER_HEIGHT = 44
HEIGHT_FACTORS = (0.5, 8.0)
"""Least and greatest height factor of a lane."""
PINNED, TOKENS, LAYERS, OPS = "Pinned", "Tokens", "Layers", "Ops"
SEQUENCES = "Sequences"
MAX_OPEN_LANES, MAX_OPEN_LAYERS, MAX_OPEN_SPANS = 64, 48, 4_000_000
FEW_LANES = 256
"""With more open lanes, only those that come into view are made ready."""
_ALWAYS_OPEN = (LaneKind.TOKEN, LaneKind.THREAD, LaneKind.ENGINE)

THREADS, ENGINES, GRAPHS, COMMANDS = "Threads", "Engines", "Graphs", "Commands"
STALLS, MEMORY, COUNTERS, MARKERS = "Stalls", "Memory", "Counters", "Markers"

_FAR = 1 << 20
# (rank, default group, key prefix); lanes of a rank follow those of a lower one.
_KINDS: dict[LaneKind, tuple[int, str, str]] = {
    LaneKind.TOKEN: (0, TOKENS, "token"),
    LaneKind.PHASE: (1, TOKENS, "phase"),
    LaneKind.SEQUENCE: (1, SEQUENCES, "sequence"),
    LaneKind.THREAD: (2, THREADS, "thread"),
    LaneKind.ENGINE: (3, ENGINES, "engine"),
    LaneKind.GRAPH: (4, GRAPHS, "graph"),
    LaneKind.COMMAND: (5, COMMANDS, "command"),
    LaneKind.STALL: (6, STALLS, "stall"),
    LaneKind.MEMORY: (9, MEMORY, "memory"),
    LaneKind.COUNTER: (10, COUNTERS, "counter"),
    LaneKind.MARKER: (11, MARKERS, "marker"),
}
_LAYER_RANK, _OP_RANK = 7, 8
_SPANS, _COUNTERS, _LAYERS, _OPS = range(4)
"""Where a lane is from; in the order in which they are found."""
_FIELDS = ("", "", "layer", "op")
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
    names : (lane key or `group_key`, title given by the person) pairs, of one trace.
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
    title : of the lane or group, as the person named it.
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
    title: str = ""


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
    names : titles that the person gave, by lane key or `group_key`.

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
        head_height: float = GROUP_HEIGHT,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._lanes, self._lane, self._heads = lanes, lane, heads
        self._head_height, self._names = head_height, names or {}
        self._n_pinned, self._n_rows, self._row_height = n_pinned, n_rows, row_height
        is_head = lane < 0
        # Thin lanes are stacked without a gap, so that a block of layers reads as one.
        self._gap = np.where(lanes.thin[lane], 0.0, float(LANE_GAP))
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
            self._lanes, self._lane, self._heads, self._n_pinned, n_rows=self._n_rows,
            row_height=self._row_height * factor, head_height=head_height,
            names=self._names,
        )  # fmt: skip

    def fitting(self, height: float) -> "LaneLayout":
        """Return the layout of the first boxes that fit whole, without a last head."""
        n = int(np.count_nonzero(self._y + self._height <= height + 1e-6))
        while n and self._lane[n - 1] < 0:
            n -= 1
        return LaneLayout(
            self._lanes, self._lane[:n],
            {i: head for i, head in self._heads.items() if i < n},
            min(self._n_pinned, n), n_rows=self._n_rows[:n],
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
                None, group, y, self._head_height, collapsed=is_closed, count=count,
                pinned=pinned, title=self._names.get(group_key(group), group),
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
            title=self._names.get(lane.key, lane.title),
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
        columns, lane, heads, n_pinned, n_rows=rows[lane], row_height=height[lane],
        names=dict(state.names),
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
    wanted = columns.positions(tuple(dict.fromkeys(reversed(order)))[::-1])
    is_moved = np.isin(members, wanted)
    result = members.copy()
    result[is_moved] = wanted[np.isin(wanted, members)]
    return result


def timeline_lanes(
    trace: Trace, per_lane: I64, per_layer: I64, per_op: I64
) -> TimelineLanes:
    """Return all lanes that the timeline can show, in default order.

    Parameters
    ----------
    per_lane : int64[n_lanes], spans of each lane of the trace.
    per_layer, per_op : int64, work spans (see `work_column`) by layer and op.

    Notes
    -----
    Lanes without spans are left out, and so are stalls that lie over another
    lane: they are its `overlay`. A group stands where its first lane ranks.
    """
    overlay = _overlays(trace, per_lane)
    kinds = (
        _span_lanes(trace, per_lane, overlay),
        _counter_lanes(trace),
        _layer_lanes(per_layer),
        _op_lanes(trace, per_op),
    )
    columns = {
        name: np.concatenate([getattr(part, name) for part in kinds])
        for name in ("group", "rank", "kind", "lane_id", "value", "n_spans")
    }
    source = np.repeat(np.arange(len(kinds)), [len(part.keys) for part in kinds])
    # Groups in the order of their first lanes.
    titles_of = [title for part in kinds for title in part.groups]
    base = np.repeat(
        np.cumsum([0, *(len(part.groups) for part in kinds[:-1])]),
        [len(part.keys) for part in kinds],
    )
    groups = {title: i for i, title in enumerate(dict.fromkeys(titles_of))}
    number = np.array([groups[title] for title in titles_of], np.int64)
    group = number[columns["group"] + base]
    ranks = np.full(len(groups), _FAR)
    np.minimum.at(ranks, group, columns["rank"])
    within = np.concatenate(
        [
            _places(kinds[0], kinds[1]),
            *(np.arange(len(part.keys)) for part in kinds[2:]),
        ]
    )
    order = np.lexsort((within, columns["rank"], group, ranks[group]))
    keys, position = _with_unique_keys(
        _taken([x for part in kinds for x in part.keys], order)
    )
    titles = _taken([x for part in kinds for x in part.titles], order)
    column = {name: values[order] for name, values in columns.items()}
    group, source = group[order].astype(np.int32), source[order]
    names = tuple(groups)

    def make(i: int) -> TimelineLane:
        of, value = int(source[i]), int(column["value"][i])
        lane_id = int(column["lane_id"][i])
        return TimelineLane(
            key=keys[i],
            title=titles[i],
            group=names[group[i]],
            kind=LaneKind(int(column["kind"][i])),
            lane_ids=(lane_id,) if of == _SPANS else (),
            field=_FIELDS[of],
            value=value if of in (_LAYERS, _OPS) else -1,
            counter=value if of == _COUNTERS else -1,
            overlay=tuple(overlay.get(lane_id, ())) if of == _SPANS else (),
            n_spans=int(column["n_spans"][i]),
            thin=of in (_LAYERS, _OPS),
        )

    return TimelineLanes(
        keys,
        titles,
        names,
        group,
        kinds=column["kind"],
        n_spans=column["n_spans"],
        lane_id=column["lane_id"],
        thin=source >= _LAYERS,
        is_counter=source == _COUNTERS,
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
    kinds, count = trace.lanes.kinds, by_lane.count
    is_work = np.isin(kinds, (LaneKind.ENGINE, LaneKind.THREAD)) & (count > 0)
    lanes = np.flatnonzero(is_work)
    lanes = lanes[np.argsort(by_lane.first[lanes], kind="stable")]
    begin = by_lane.first[lanes]
    stop, is_gated = begin + count[lanes], kinds[lanes] == LaneKind.THREAD
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
    """Return a function that tells of some rows of the spans which are work."""
    # One more for spans of a trace without lanes.
    is_thread = np.append(trace.lanes.of_kind(LaneKind.THREAD), False)
    is_engine = np.append(trace.lanes.of_kind(LaneKind.ENGINE), False)

    def is_work(rows: slice) -> npt.NDArray[np.bool_]:
        on = trace.spans.lane[rows].astype(np.intp)
        return is_engine[on] | (is_thread[on] & (trace.spans.op[rows] >= 0))

    return is_work


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _LaneColumns:
    """Lanes of one source as columns, see `TimelineLanes`.

    Attributes
    ----------
    groups : titles in the order of their first lanes; `group` has the row of each.
    rank : of each lane, see `_KINDS`.
    order : sort keys of each lane within its rank.
    value : of the field, or id of the counter.
    """

    keys: Sequence[str]
    titles: Sequence[str]
    groups: Sequence[str]
    group: I64
    rank: I64
    kind: Array
    n_spans: I64
    lane_id: I64
    value: I64
    order: Sequence[tuple[int, ...]] = ()


def _overlays(trace: Trace, per_lane: I64) -> dict[int, list[int]]:
    """Return the lanes of stalls over each lane; those without are left out."""
    over: dict[int, list[int]] = {}
    is_stall = trace.lanes.of_kind(LaneKind.STALL) & (per_lane > 0)
    for i in np.flatnonzero(is_stall).tolist():
        target = _stall_target(trace, i)
        if target >= 0:
            over.setdefault(target, []).append(i)
    return over


def _stall_target(trace: Trace, lane: int) -> int:
    """Return the id of the lane that a lane of stalls lies over; -1 for none."""
    text = trace.lanes.attributes[lane].get("over", "")
    if not text.isdecimal():
        return -1
    target = int(text)
    if target >= len(trace.lanes) or trace.lanes.kinds[target] == LaneKind.STALL:
        return -1
    return target


def _span_lanes(
    trace: Trace, per_lane: I64, overlay: Mapping[int, Sequence[int]]
) -> _LaneColumns:
    """Return the lanes that hold spans, or over which stalls lie."""
    lanes = trace.lanes
    is_shown = per_lane > 0
    is_shown[list(overlay)] = True
    is_shown[[stall for stalls in overlay.values() for stall in stalls]] = False
    ids = np.flatnonzero(is_shown)
    kind = lanes.kinds[ids]
    # What goes by kind and group is worked out once for each pair of them.
    pairs = kind.astype(np.int64) * max(len(lanes.groups), 1) + lanes.group[ids]
    distinct, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    own = [
        _group_of(LaneKind(int(lanes.kinds[ids[i]])), lanes.groups[lanes.group[ids[i]]])
        for i in first.tolist()
    ]
    groups = dict.fromkeys(own[i] for i in np.argsort(first).tolist())
    row = {title: i for i, title in enumerate(groups)}
    rows = np.array([row[title] for title in own], np.int64)
    ranks = np.zeros(len(LaneKind), np.int64)
    ranks[list(_KINDS)] = [rank for rank, _, _ in _KINDS.values()]
    alone = (LaneKind.TOKEN, LaneKind.PHASE)
    fronts = [f"{_KINDS[LaneKind(k)][2]}:" for k in range(len(LaneKind))]
    titles = _taken(lanes.names, ids)
    keys = [fronts[k] + title for k, title in zip(kind.tolist(), titles, strict=True)]
    for i in np.flatnonzero(np.isin(kind, alone)).tolist():
        keys[i] = _KINDS[LaneKind(int(kind[i]))][2]
    return _LaneColumns(
        keys=keys,
        titles=titles,
        groups=tuple(groups),
        group=rows[which] if len(distinct) else ids,
        rank=ranks[kind],
        kind=kind,
        n_spans=per_lane[ids],
        lane_id=ids,
        value=ids,
        order=_taken(lanes.sort_keys, ids),
    )


def _group_of(kind: LaneKind, group: tuple[str, ...]) -> str:
    """Return the title of the group that a lane of the trace stands in."""
    rank, title, _ = _KINDS[kind]
    return group[0] if group and rank > 1 and kind != LaneKind.STALL else title


def _counter_lanes(trace: Trace) -> _LaneColumns:
    """Return one lane per counter series, in the group of its lane."""
    rank, title, prefix = _KINDS[LaneKind.COUNTER]
    lanes = [trace.lanes[series.lane] for series in trace.counters]
    titles = [lane.group[0] if lane.group else title for lane in lanes]
    groups = {group: i for i, group in enumerate(dict.fromkeys(titles))}
    n, ids = len(lanes), np.array([series.id for series in trace.counters], np.int64)
    return _LaneColumns(
        keys=[f"{prefix}:{series.name}" for series in trace.counters],
        titles=[series.name for series in trace.counters],
        groups=tuple(groups),
        group=np.array([groups[group] for group in titles], np.int64),
        rank=np.full(n, rank),
        kind=np.full(n, LaneKind.COUNTER, np.int8),
        n_spans=np.zeros(n, np.int64),
        lane_id=np.full(n, -1),
        value=ids,
        order=[lane.sort_key for lane in lanes],
    )


def _layer_lanes(per_layer: I64) -> _LaneColumns:
    layers = np.flatnonzero(per_layer)
    names = [f"layer {i}" for i in layers.tolist()]
    keys = [f"layer:{i}" for i in layers.tolist()]
    return _thin(keys, names, LAYERS, _LAYER_RANK, layers, per_layer)


def _op_lanes(trace: Trace, per_op: I64) -> _LaneColumns:
    """Return one lane per op, the commonest first."""
    ops = np.argsort(-per_op, kind="stable")
    ops = ops[: np.count_nonzero(per_op)]
    names = [trace.op_name(op) for op in ops.tolist()]
    return _thin([f"op:{x}" for x in names], names, OPS, _OP_RANK, ops, per_op)


def _thin(
    keys: Sequence[str],
    titles: Sequence[str],
    group: str,
    rank: int,
    value: I64,
    n_spans: I64,
) -> _LaneColumns:
    n = len(value)
    return _LaneColumns(
        keys=keys,
        titles=titles,
        groups=(group,) if n else (),
        group=np.zeros(n, np.int64),
        rank=np.full(n, rank),
        kind=np.full(n, LaneKind.THREAD, np.int8),
        n_spans=n_spans[value],
        lane_id=np.full(n, -1),
        value=value,
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
    for wanted in keys:
        key, number = wanted, last.get(wanted, 1)
        while key in taken:
            number += 1
            key = f"{wanted}#{number}"
        taken.add(key)
        if key != wanted:
            last[wanted] = number
        result.append(key)
    return result, dict(zip(result, range(len(result)), strict=True))
