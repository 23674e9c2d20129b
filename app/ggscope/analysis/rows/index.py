"""TraceIndex: everything that views derive from a trace once and cache.

When names and accesses are added to a trace, its next index takes over what is still
valid.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows import colorings
from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.columns import RowColumns, make_waits, totals
from ggscope.analysis.rows.growth import Growth
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    TimelineLane,
    TimelineLanes,
    apart_spans,
    count_work,
    timeline_lanes,
    work_column,
    work_parts,
)
from ggscope.analysis.rows.once_cache import OnceCache
from ggscope.analysis.rows.phases import (
    PhaseBands,
    bands_of_lane,
    bands_of_times,
    bands_of_tokens,
    tells_ubatches,
)
from ggscope.analysis.rows.rows import (
    MAX_ROWS,
    Ids,
    Row,
    SpanIds,
    depths,
    flatten,
    flatten_merged,
    merged_order,
    stack,
)
from ggscope.analysis.rows.tracks import TRACKS, TrackSpec
from ggscope.analysis.rows.waits import Waits, gap_at, next_gap, next_wait
from ggscope.analysis.workers import Groups, chunks, group_parts, group_spans
from ggscope.model.selection import ColorBy, Gap
from ggscope.model.tables import I64, Array, Phase, SpanFlag
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

# Column objects cost a few bytes per span for each colouring and filter.
_KEPT_COLORINGS = 3
_KEPT_FILTERS = 2
_NO_DEPTH = np.iinfo(np.int32).max
_WORK_SAMPLES, _WORK_FIRST = 4096, 16
"""Spans looked at to decide whether a row holds ops."""


@dataclass(frozen=True, slots=True)
class LaneUse:
    """What a lane does in a range of time.

    Attributes
    ----------
    busy : share of the time that it works, 0..1.
    waiting : share that it waits; None where no waits are recorded.
    """

    busy: float
    waiting: float | None


def validity_check(
    old: Trace, new: Trace, is_plain: Callable[[str], bool]
) -> Callable[[Hashable], bool]:
    """Return a function: whether the value of a key of `TraceIndex` is still valid.

    Parameters
    ----------
    is_plain : whether a timeline lane, by its key, shows lanes of the trace (not spans
        by layer or op).

    Notes
    -----
    Only columns that are the very same arrays count as unchanged: comparing values
    would cost as much as computing anew.
    """

    def same(*names: str) -> bool:
        return all(getattr(old.spans, n) is getattr(new.spans, n) for n in names)

    n_lanes = len(old.lanes)  # side files bring lanes of their own, behind the others
    waits_stay = same("wait")
    if not same("start", "end", "lane", "category") or not new.lanes.begins_with(
        old.lanes
    ):
        return lambda _: False
    ops_stay = old.ops == new.ops
    unchanged = {
        known.id
        for known in colorings.COLORINGS
        if ops_stay and known.columns is not None and same(*known.columns)
    }

    def check(key: Hashable) -> bool:
        match key:
            case "order":
                return True
            case ("groups", "lane"):
                return len(new.lanes) == n_lanes
            case ("rows" | "overlay", str(lane)):
                return is_plain(lane)
            case ("waits", str(lane)):
                return waits_stay and is_plain(lane)
            case ("columns", str(by), str(lane)):
                return by in unchanged and waits_stay and is_plain(lane)
            case ("categories", str(by)):
                return by in unchanged
        return False

    return check


_T = TypeVar("_T")


class TraceIndex:
    """Lazily computed, cached and thread-safe companions of one trace.

    Nothing here is computed before it is asked for; every method may be called
    from any thread. Two threads that ask for the same thing at once compute it
    once: the second one waits.

    Attributes
    ----------
    trace : the trace.

    Parameters
    ----------
    before : the index of an earlier snapshot of the same file: what was computed
        of columns that are still the same is taken over.
    is_appended : whether the spans of `before` are the first ones of this trace, which
        grows: what is derived of them is appended to.
    """

    def __init__(
        self,
        trace: Trace,
        before: "TraceIndex | None" = None,
        *,
        is_appended: bool = False,
    ) -> None:
        self.trace = trace
        self._growth: Growth | None = None
        if is_appended:
            self._growth = (before and before._growth) or Growth()
            self._cache = OnceCache()
        else:
            self._cache = (
                OnceCache() if before is None else before.cache_for_next(trace)
            )

    def cache_for_next(self, trace: Trace) -> "OnceCache":
        """Return a cache with what is still valid for `trace`, the next snapshot."""
        lanes = cast("TimelineLanes | None", self._cache.known("lanes"))

        def is_plain(key: str) -> bool:
            at = -1 if lanes is None else lanes.position(key)
            return lanes is not None and at >= 0 and bool(lanes.lane_id[at] >= 0)

        return self._cache.valid_part(validity_check(self.trace, trace, is_plain))

    @property
    def grows(self) -> bool:
        """Whether what is derived is appended to what was derived before."""
        return self._growth is not None

    @property
    def lanes(self) -> TimelineLanes:
        """All lanes that the timeline can show, in default order."""
        return self._cache.get("lanes", self._make_lanes)

    def lane(self, key: str) -> TimelineLane:
        """Return lane `key`. Raises KeyError for an unknown one."""
        at = self.lanes.position(key)
        if at < 0:
            raise KeyError(key)
        return self.lanes[at]

    def rows(self, key: str) -> tuple[Row, ...]:
        """Return the rows of lane `key`. Raises KeyError for an unknown lane.

        Lanes of the trace show nesting and overlap in as many rows as needed;
        lanes by layer or op have one row with the union of their spans. Counters
        and lanes of which only the overlay holds spans have none.
        """
        return self._cache.get(("rows", key), lambda: self._make_rows(self.lane(key)))

    def row_counts(self) -> Array:
        """Return how many rows each of `lanes` has, int32[n], without making them.

        1 for counters and lanes by a field. For traces of very many lanes, of which
        few are looked at.
        """
        return self._cache.get("row counts", self._count_rows)

    def work_spans(self, lane_ids: Array) -> Array:
        """Return the ids of the spans in the `work_row` of lanes of the trace.

        For all at once, without making rows; ids ascend.
        """
        spans, depth = self.trace.spans, self._depths()
        chosen = np.zeros(max(len(self.trace.lanes), 1), np.bool_)
        chosen[lane_ids] = True
        outermost = np.full(len(chosen), _NO_DEPTH, np.int32)
        is_op = spans.op >= 0
        np.minimum.at(outermost, spans.lane[is_op], depth[is_op])
        outermost[outermost == _NO_DEPTH] = 0
        is_work = chosen[spans.lane] & (depth == outermost[spans.lane])
        return np.flatnonzero(is_work)

    def overlay_rows(self, key: str) -> tuple[Row, ...]:
        """Return the rows of the stalls over lane `key`; () for none."""

        def make() -> tuple[Row, ...]:
            overlay = self.lane(key).overlay
            return self._stacked(overlay) if overlay else ()

        return self._cache.get(("overlay", key), make)

    def row_columns(self, key: str, by: ColorBy) -> tuple[RowColumns, ...]:
        """Return a column query object per row of lane `key`."""
        name = ("columns", by, key)
        known = self._cache.known(name)  # asked for each lane of each picture
        if known is not None:
            return cast("tuple[RowColumns, ...]", known)
        rows, categories = self.rows(key), self.categories(by)
        return self._cache.get(name, lambda: self._make_columns(key, rows, categories))

    def waits(self, key: str) -> tuple[Waits, ...]:
        """Return the waits behind the spans of each row of lane `key`.

        () where none are recorded, and for lanes that gather the spans of others:
        while one thread waits another one works there.
        """
        return self._cache.get(("waits", key), lambda: self._make_waits(key))

    def wait_share(self, key: str) -> float | None:
        """Return the share of the trace's extent in which a lane waits.

        Behind the same spans, and of the same time, as `busy_share`; None where no
        waits are recorded.
        """
        waits, duration = self.waits(key), self._known_time().duration
        if not waits or not duration:
            return None
        at = self.work_row(key)
        return min(waits[at].total(self.rows(key)[at]) / duration, 1.0)

    def filtered_columns(
        self, key: str, by: ColorBy, mask: npt.NDArray[np.bool_], token: object
    ) -> tuple[RowColumns, ...]:
        """Return the same for the spans in `mask`; `token` identifies the mask.

        `token` must be hashable. The results of the last two masks are kept.
        """
        full = self.row_columns(key, by)
        name = ("filtered", token)
        self._cache.keep_latest("filtered", name, _KEPT_FILTERS)
        return self._cache.get(
            (*name, by, key), lambda: self._make_filtered(key, by, full, mask)
        )

    def has_columns(self, key: str, by: ColorBy, token: object = None) -> bool:
        """Return whether the columns of lane `key` are made; `token` = of a filter."""
        name = ("columns", by, key) if token is None else ("filtered", token, by, key)
        return self._cache.known(name) is not None

    def categories(self, by: ColorBy) -> Categories:
        """Return the colouring by `by`."""
        self._cache.keep_latest("columns", ("columns", by), _KEPT_COLORINGS)
        self._cache.keep_latest("categories", ("categories", by), _KEPT_COLORINGS)
        return self._cache.get(("categories", by), lambda: self._make_categories(by))

    def time_order(self) -> Array:
        """Return span ids sorted by (start, id), int32 (int64 beyond 2^31 spans)."""
        return self._cache.get("order", self._make_order)

    def grown_order(self, lanes: npt.NDArray[np.bool_]) -> Array | None:
        """Return the ids of the spans of marked lanes by (start, id).

        None where the trace does not grow.
        """
        return self._grown(lambda g: g.listed_order(self.trace, lanes))

    def grown_over(self, lanes: npt.NDArray[np.bool_], tick: int) -> list[int] | None:
        """Return the spans of marked lanes that begin before `tick` and end behind it.

        None where the trace does not grow, or a lane is too deep to decide.
        """
        grown: list[int] = []
        for lane in np.flatnonzero(lanes).tolist():
            ids = self._groups("lane").ids(lane)
            known = np.asarray(ids) if isinstance(ids, np.ndarray) else None
            rows = None
            if known is not None:
                rows = self._grown(
                    partial(Growth.rows, trace=self.trace, lane=lane, ids=known)
                )
            if rows is None:
                return None
            for row in rows:
                at = int(np.searchsorted(row.start, tick, "left"))
                if at and int(row.end[at - 1]) > tick:
                    grown.append(int(row.id[at - 1]))
        return grown

    def lane_counts(self) -> I64:
        """Return how many spans each lane of the trace has, int64[n_lanes]."""
        return self._groups("lane").count

    def token_spans(self) -> Array:
        """Return the ids of the spans of token lanes in time order."""
        is_token = self.trace.lanes.is_token
        return self._cache.get("tokens", lambda: self._span_ids(is_token))

    def phase_bands(self) -> PhaseBands:
        """Return the bands of phases in order of time.

        Those of a lane of phases; else neighbouring ubatches of one phase; else one
        band per phase, from the first to the last span that is in it. A log whose
        requests overlap or follow one another has phases of requests, and none of its
        own: no bands.
        """
        return self._cache.get("phases", self._make_phases)

    def lane_of_span(self, span: int) -> str:
        """Return the key of the primary timeline lane of a span.

        That is the lane of its thread, engine …; for a stall the lane it lies
        over.
        """
        places, apart = self._cache.get("places", self._make_places)
        is_apart = self._apart()
        if is_apart is not None and is_apart[span]:
            places = apart
        at = int(places[self.trace.spans.lane[span]])
        return self.lanes.keys[at] if at >= 0 else ""

    def row_of_span(self, span: int) -> tuple[str, int]:
        """Return (lane key, row number) where a span is drawn.

        For stalls over a lane the number is that of their `overlay_rows`.
        """
        key, row, _ = self._place(span)
        return key, row

    def neighbours(self, span: int) -> tuple[int | None, int | None]:
        """Return the previous and next span in the span's row."""
        key, number, in_overlay = self._place(span)
        row = (self.overlay_rows(key) if in_overlay else self.rows(key))[number]
        start = int(self.trace.spans.start[span])
        at = row.position(span, start)
        if at is None:  # it hides in the union of what is deeper than MAX_ROWS
            before_at, after_at = row.around(start)
        else:
            before_at, after_at = at - 1, at + 1
        before = int(row.id[before_at]) if before_at >= 0 else None
        after = int(row.id[after_at]) if after_at < len(row) else None
        return before, after

    def next_wait(self, span: int, by: int) -> int | None:
        """Return the next (+1) or previous (-1) span with a wait, of the row of one."""
        key, number, _ = self._place(span)
        waits = self.waits(key)
        if not waits:
            return None
        row = self.rows(key)[number]
        at = row.position(span, int(self.trace.spans.start[span]))
        return None if at is None else next_wait(row, waits[number], at, by)

    def next_gap(self, gap: Gap, by: int) -> Gap | None:
        """Return the next (+1) or previous (-1) gap of the row that a gap lies in."""
        key, number, _ = self._place(gap.before)
        row, waits = self.rows(key)[number], self.waits(key)
        at = row.position(gap.before, int(self.trace.spans.start[gap.before]))
        if at is None:
            return None
        return next_gap(row, waits[number] if waits else None, at, by)

    def work_row(self, key: str) -> int:
        """Return the number of the row that says how busy lane `key` is.

        It is the outermost row of ops: the graphs around them last from their
        first op to their last, however idle the thread is in between. A lane
        without ops is as busy as its outermost row.
        """
        return self._cache.get(("work", key), lambda: self._find_work_row(key))

    def busy_share(self, key: str) -> float:
        """Return the share of the trace's extent that a lane works, see `work_row`.

        While spans are still being read, of the part of it that is known.
        """
        rows, duration = self.rows(key), self._known_time().duration
        if not rows or not duration:
            return 0.0
        return min(rows[self.work_row(key)].total_covered / duration, 1.0)

    def shares_in(
        self, keys: Sequence[str], time: TimeRange, by: ColorBy
    ) -> list[LaneUse]:
        """Return the shares of a range of time that lanes work and wait.

        As `busy_share` and `wait_share`, of the part of the range that is known. `by`
        is a colouring that the lanes have columns for; all are asked at once.
        """
        known = self._known_time()
        low, high = max(time.start, known.start), min(time.end, known.end)
        columns = [self.row_columns(key, by) for key in keys]
        if high <= low:
            return [LaneUse(0.0, None) for _ in keys]
        queried = [
            rows[self.work_row(key)]
            for key, rows in zip(keys, columns, strict=True)
            if rows
        ]
        results = iter(totals(queried, low, high))
        uses = []
        for rows in columns:
            use = LaneUse(0.0, None)
            if rows:
                covered, waited = next(results)
                waiting = None if waited < 0 else waited / (high - low)
                use = LaneUse(covered / (high - low), waiting)
            uses.append(use)
        return uses

    def _known_time(self) -> TimeRange:
        """Return the part of the extent of which spans are known."""
        extent, until = self.trace.extent, self.trace.read_until
        end = extent.end if until is None else min(until, extent.end)
        return TimeRange(extent.start, max(end, extent.start))

    def has_derived_ends(self, key: str) -> bool:
        """Return whether the end of any span that `busy_share` counts is derived."""
        rows, flags = self.rows(key), self.trace.spans.flags
        if not rows:
            return False
        ids = rows[self.work_row(key)].id

        def is_any() -> bool:
            # Mostly the first ones have it, and then all do.
            return any(
                (flags[ids[part]] & int(SpanFlag.INFERRED_END)).any()
                for part in chunks(len(ids))
            )

        return self._cache.get(("derived", key), is_any)

    def stalled_share(self, key: str) -> float | None:
        """Return the share of the trace's extent in which a lane is stalled.

        Each tick counts once, whatever the reasons; None where no stalls lie over it.
        """
        rows, length = self.overlay_rows(key), self.trace.extent.duration
        if not rows or not length:
            return None
        # Statistics stand on rows.
        from ggscope.analysis.statistics.nesting import covered

        def share() -> float:
            start = np.concatenate([row.start for row in rows])
            end = np.concatenate([row.end for row in rows])
            return int(covered(np.zeros_like(start), start, end, 1)[0]) / length

        return self._cache.get(("stalled", key), share)

    def _find_work_row(self, key: str) -> int:
        op, rows = self.trace.spans.op, self.rows(key)
        for number, row in enumerate(rows if len(rows) > 1 else ()):
            sample = row.id[:: max(1, len(row) // _WORK_SAMPLES)]
            # Mostly the first ones suffice; the others lie far apart in memory.
            if any((op[part] >= 0).any() for part in (sample[:_WORK_FIRST], sample)):
                return number
        return 0

    def span_at(self, key: str, row: int, tick: int) -> int | None:
        """Return the span that covers `tick` in a row, or None."""
        rows = self.rows(key)
        return rows[row].at(tick) if 0 <= row < len(rows) else None

    def wait_at(self, key: str, row: int, tick: int) -> int | None:
        """Return the span of a row whose wait covers `tick`, or None."""
        waits = self.waits(key)
        if not 0 <= row < len(waits):
            return None
        return waits[row].at(self.rows(key)[row], tick)

    def gap_at(self, key: str, row: int, tick: int) -> Gap | None:
        """Return the idle time between two spans of a row that holds `tick`."""
        rows, waits = self.rows(key), self.waits(key)
        if not 0 <= row < len(rows):
            return None
        return gap_at(rows[row], waits[row] if waits else None, tick)

    def nearest_span(
        self, key: str, row: int, tick: int, max_distance_ticks: int
    ) -> int | None:
        """Return the span that covers most of the ticks around `tick`, or None.

        Looks `max_distance_ticks` to both sides: with half a pixel that is the
        span the user sees there, be it ever so short (ties: the first).
        """
        rows = self.rows(key)
        if not 0 <= row < len(rows):
            return None
        low, high = tick - max_distance_ticks, tick + max_distance_ticks + 1
        nearest = rows[row]
        first, stop = nearest.touching(low, high)
        if first == stop:
            return None
        part = np.minimum(nearest.end[first:stop], high)
        part -= np.maximum(nearest.start[first:stop], low)
        return int(nearest.id[first + int(np.argmax(part))])

    def nearest_edge(
        self, key: str, row: int, tick: int, max_distance_ticks: int
    ) -> int | None:
        """Return the begin or end of a span that is nearest to `tick`, or None.

        Looks `max_distance_ticks` to both sides; ties: the earlier one.
        """
        rows = self.rows(key)
        if not 0 <= row < len(rows) or not len(rows[row]):
            return None
        start, end = rows[row].start, rows[row].end
        place = int(np.searchsorted(start, tick))
        near = range(max(place - 1, 0), min(place + 1, len(start)))
        edges = sorted({int(part[i]) for i in near for part in (start, end)})
        edge = min(edges, key=lambda edge: abs(edge - tick))
        return edge if abs(edge - tick) <= max_distance_ticks else None

    def next_edge(self, key: str, tick: int, by: int) -> int | None:
        """Return the first begin or end of a span after `tick`, or before it.

        In any row of a lane; `by` > 0 = after. None where there is none.
        """
        candidates: list[int] = []
        for row in self.rows(key):
            for edges in (row.start, row.end):
                if by > 0:
                    at = int(np.searchsorted(edges, tick, "right"))
                else:
                    at = int(np.searchsorted(edges, tick, "left")) - 1
                if 0 <= at < len(edges):
                    candidates.append(int(edges[at]))
        return min(candidates, key=lambda edge: abs(edge - tick), default=None)

    def _grown(self, ask: Callable[[Growth], _T | None]) -> _T | None:
        """Return what the growth of the trace states; None where it does not grow."""
        return None if self._growth is None else ask(self._growth)

    def _groups(self, field: str) -> Groups:
        """Return the spans by lane, or the work spans by layer or op."""
        return self._cache.get(("groups", field), lambda: self._make_groups(field))

    def _make_groups(self, field: str) -> Groups:
        trace = self.trace
        if field == "lane":
            column, n = trace.spans.lane, len(trace.lanes)
            grown = self._grown(lambda g: g.groups(trace, field, column, n))
            return group_spans(column, n) if grown is None else grown
        column, n = _field(trace, field), _n_values(_field(trace, field))
        grown = self._grown(lambda g: g.groups(trace, field, column, n))
        if grown is not None:
            return grown
        by_lane = self._groups("lane")
        if by_lane.order is None and len(column):
            parts = work_parts(trace, by_lane)
            if len(parts) <= FEW_LANES:
                return group_parts(column, _n_values(column), parts)
        return group_spans(work_column(trace, column), _n_values(column))

    def _make_lanes(self) -> TimelineLanes:
        trace = self.trace
        by_lane = self._groups("lane")
        columns = tuple(spec.column for spec in TRACKS if spec.column)
        grown = self._grown(lambda g: g.counts(trace, columns))
        counts = grown or count_work(
            trace, [_field(trace, column) for column in columns], by_lane
        )
        by_column = dict(zip(columns, counts, strict=True))
        is_apart, apart = self._apart(), None
        if is_apart is not None:
            lane = trace.spans.lane[is_apart]
            apart = np.bincount(lane, minlength=len(trace.lanes)).astype(np.int64)
        return timeline_lanes(trace, by_lane.count, by_column, apart)

    def _apart(self) -> npt.NDArray[np.bool_] | None:
        """Return which spans lie apart from others of their lane; None = none does."""
        return self._cache.get("apart", lambda: apart_spans(self.trace))

    def _make_rows(self, lane: TimelineLane) -> tuple[Row, ...]:
        column = lane.track.column
        if not column:
            is_apart = self._apart()
            if is_apart is not None and lane.lane_ids:
                chosen = is_apart if lane.track.only else ~is_apart
                return self._stacked_of(lane.lane_ids[0], chosen)
            return self._stacked(lane.lane_ids)
        spans = self.trace.spans
        ids = self._groups(column).ids(lane.value)
        if isinstance(ids, np.ndarray):
            known = ids
            grown = self._grown(
                lambda g: g.union(self.trace, column, lane.value, known)
            )
            if grown is not None:
                return grown
            merged = flatten_merged(spans.start, spans.end, ids)
            if merged is not None:
                return (merged,)
        return (flatten(*self._taken(ids)),)

    def _stacked(self, lane_ids: tuple[int, ...]) -> tuple[Row, ...]:
        """Return the rows of all spans on the given lanes of the trace."""
        parts = [self._groups("lane").ids(lane) for lane in lane_ids]
        if len(parts) == 1:
            part = parts[0]
            if isinstance(part, np.ndarray):
                known = part
                grown = self._grown(lambda g: g.rows(self.trace, lane_ids[0], known))
                if grown is not None:
                    return grown
            return stack(*self._taken(part))
        taken = [self._taken(part) for part in parts]
        if not taken:
            return ()
        start, end, ids = (
            np.concatenate([np.asarray(part) for part in column])
            for column in zip(*taken, strict=True)
        )
        return stack(start, end, ids)

    def _stacked_of(self, lane: int, chosen: npt.NDArray[np.bool_]) -> tuple[Row, ...]:
        """Return the rows of the marked spans of a lane of the trace."""
        ids = np.asarray(self._taken(self._groups("lane").ids(lane))[2])
        ids = ids[chosen[ids]]
        return stack(*self._taken(ids)) if len(ids) else ()

    def _own_lanes(self) -> Array:
        """Return a number for each span that those with the same rows share."""
        lane, is_apart = self.trace.spans.lane, self._apart()
        if is_apart is None:
            return lane
        return lane.astype(np.int32) + is_apart * np.int32(len(self.trace.lanes))

    def _depths(self) -> Array:
        """Return how deep each span lies in its own lane, int32[n_spans]."""
        spans = self.trace.spans
        return self._cache.get(
            "depths", lambda: depths(spans.start, spans.end, self._own_lanes())
        )

    def _count_rows(self) -> Array:
        lanes, n = self.lanes, len(self.trace.lanes)
        deepest = np.full(2 * max(n, 1), -1, np.int32)
        np.maximum.at(deepest, self._own_lanes(), self._depths())
        lane_id = lanes.lane_id
        place = np.where(lanes.of_track(_is_apart), lane_id + n, lane_id)
        counts = np.minimum(deepest + 1, MAX_ROWS)[place]
        return np.where(lane_id < 0, 1, counts).astype(np.int32)

    def _taken(self, ids: slice | Array) -> tuple[Array, Array, Ids]:
        """Return (start, end, ids); views of the trace where ids are a slice."""
        spans = self.trace.spans
        numbers: Ids = (
            SpanIds(ids.start, ids.stop - ids.start, _id_dtype(len(spans)))
            if isinstance(ids, slice)
            else ids
        )
        return spans.start[ids], spans.end[ids], numbers

    def _make_columns(
        self, key: str, rows: tuple[Row, ...], categories: Categories
    ) -> tuple[RowColumns, ...]:
        made = self._grown(lambda g: g.columns(key, rows, categories))
        if made is None:
            n = len(categories.labels)
            made = tuple(RowColumns(row, categories.index, n) for row in rows)
        waits = self.waits(key)
        if not waits:
            return made
        return tuple(row.with_waits(own) for row, own in zip(made, waits, strict=True))

    def _make_waits(self, key: str) -> tuple[Waits, ...]:
        wait = self.trace.spans.wait
        if wait is None or self.lane(key).track.column:
            return ()
        rows = self.rows(key)
        grown = self._grown(lambda g: g.waits(key, rows, wait))
        return tuple(make_waits(row, wait) for row in rows) if grown is None else grown

    def _make_filtered(
        self,
        key: str,
        by: ColorBy,
        full: tuple[RowColumns, ...],
        mask: npt.NDArray[np.bool_],
    ) -> tuple[RowColumns, ...]:
        grown = self._grown(lambda g: g.filtered(key, by, full, mask))
        return tuple(r.filtered(mask) for r in full) if grown is None else grown

    def _make_categories(self, by: ColorBy) -> Categories:
        grown = self._grown(lambda g: g.categories(self.trace, by))
        return colorings.coloring(by).categorize(self.trace) if grown is None else grown

    def _make_order(self) -> Array:
        grown = self._grown(lambda g: g.time_order(self.trace))
        if grown is not None:
            return grown
        start = self.trace.spans.start
        dtype = _id_dtype(len(start))
        if bool((start[1:] >= start[:-1]).all()):
            return np.arange(len(start), dtype=dtype)
        order = merged_order(start)
        if order is not None:
            return order
        return np.argsort(start, kind="stable").astype(dtype)

    def _span_ids(self, is_lane: npt.NDArray[np.bool_]) -> Array:
        """Return the spans on the marked lanes of the trace in time order."""
        spans, by_lane = self.trace.spans, self._groups("lane")
        lanes = np.flatnonzero(is_lane).tolist()
        parts = [np.asarray(self._taken(by_lane.ids(lane))[2]) for lane in lanes]
        ids = np.concatenate([np.zeros(0, _id_dtype(len(spans))), *parts])
        return ids[np.lexsort((ids, spans.start[ids]))]

    def _make_phases(self) -> PhaseBands:
        trace, spans = self.trace, self.trace.spans
        tokens = self.token_spans()
        ids = self._span_ids(trace.lanes.is_phase)
        if len(ids):
            return bands_of_lane(trace, ids, tokens)
        if tells_ubatches(trace):
            return bands_of_tokens(trace, tokens)
        times = self._grown(lambda g: g.phases(trace))
        if times is None:
            times = {}
            for phase in Phase if spans.phase is not None else ():
                inside = np.flatnonzero(spans.phase == phase)
                if len(inside):
                    times[phase] = TimeRange(
                        int(spans.start[inside].min()), int(spans.end[inside].max())
                    )
        if trace.log is not None and _overlap(times.values()):
            times = {}
        return bands_of_times(trace, times, tokens)

    def _make_places(self) -> tuple[I64, I64]:
        """Return which of `lanes` shows each lane of the trace, -1 for none.

        And which one shows what lies apart there.
        """
        lanes, n = self.lanes, len(self.trace.lanes)
        places = np.full((2, n), -1, np.int64)
        is_apart = lanes.of_track(_is_apart)
        for place, which in zip(places, (~is_apart, is_apart), strict=True):
            shown = np.flatnonzero((lanes.lane_id >= 0) & which)
            place[lanes.lane_id[shown]] = shown
        for at in lanes.with_overlay:
            places[0][list(lanes[at].overlay)] = at
        return places[0], places[1]

    def _place(self, span: int) -> tuple[str, int, bool]:
        """Return (lane key, row number, whether in the overlay)."""
        key = self.lane_of_span(span)
        start = int(self.trace.spans.start[span])
        in_overlay = int(self.trace.spans.lane[span]) in self.lane(key).overlay
        rows = self.overlay_rows(key) if in_overlay else self.rows(key)
        numbers = (i for i, r in enumerate(rows) if r.position(span, start) is not None)
        return key, next(numbers, len(rows) - 1), in_overlay


def _overlap(times: Iterable[TimeRange]) -> bool:
    """Return whether some of the ranges have more than an edge in common."""
    ordered = sorted(times, key=lambda time: time.start)
    return any(b.start < a.end for a, b in pairwise(ordered))


def mask_of_lanes(
    index: TraceIndex, lanes: frozenset[str], time: TimeRange
) -> npt.NDArray[np.bool_]:
    """Return bool[n_spans] of the spans on `lanes` that may touch `time`.

    Lanes that the trace does not have are passed over.
    """
    mask = np.zeros(len(index.trace.spans), np.bool_)
    for key in lanes:
        if index.lanes.position(key) < 0:
            continue
        for row in index.rows(key):
            first = int(np.searchsorted(row.end, time.start, "left"))
            last = int(np.searchsorted(row.start, time.end, "right"))
            mask[row.id[first:last]] = True
    return mask


def _is_apart(spec: TrackSpec) -> bool:
    return bool(spec.only)


def _field(trace: Trace, field: str) -> Array:
    """Return the column that lanes of a field go by; no rows where it is missing."""
    column = trace.spans.op if field == "op" else trace.spans.layer
    return np.zeros(0, np.int8) if column is None else column


def _n_values(column: Array) -> int:
    return int(column.max(initial=-1)) + 1


def _id_dtype(n_spans: int) -> type:
    return np.int32 if n_spans < 1 << 31 else np.int64
