"""Runs: the ops of one pass in order; and which runs are alike.

An inference run computes the same graph once per pass, so the same names and ops come
again thousands of times. Whatever is found for one run holds for all that are alike.
The spans of the lanes that make runs are one `Stretch`, in time order without a list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.analysis.order.time_merge import TimeMerge, TimeRuns
from ggscope.analysis.rows.groups import CHUNK_ROWS, chunks
from ggscope.analysis.workers import Watcher, share_out
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Array, distinct
from ggscope.model.trace import Trace

OPS = 1 << 16
"""More than any op number: name and op make one key."""
_OF_OPS = np.uint64(1 << 48)
"""Ops are mixed from numbers that no name has."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_SAMPLES = 5
_SAMPLE_ROWS = 1 << 14
_REPEATED = 0.75
"""Lanes with so much of a pass's distinct ops each are taken to compute all of it."""


class Stretch:
    """Spans by (start, id), found by their place and the other way round.

    Parameters
    ----------
    start : int64[n_spans], of all spans.
    pieces : slices of ids, ascending, each of one lane and in time order.
    ids : all ids by (start, id), instead of pieces.
    """

    def __init__(
        self, start: I64, pieces: Sequence[slice] = (), ids: Array | None = None
    ) -> None:
        self._start = start
        self._pieces, self._ids = tuple(pieces), ids
        self._merge = TimeMerge(start, self._pieces if ids is None else [ids])
        self._place: Array | None = None

    def __len__(self) -> int:
        return len(self._merge)

    def ids(self, low: int, high: int) -> Array:
        """Return the ids of places low <= place < high."""
        if len(self._pieces) == 1:
            first = int(self._pieces[0].start)
            return np.arange(first + low, first + high)
        return self._merge.slice(low, high)

    def before(self, ticks: I64) -> I64:
        """Return how many spans start before each tick, int64."""
        if self._ids is not None:
            return np.searchsorted(self._start[self._ids], ticks, "left")
        total = np.zeros(len(ticks), np.int64)
        for piece in self._pieces:
            total += np.searchsorted(self._start[piece], ticks, "left")
        return total

    def places(self, ids: I64) -> I64:
        """Return the place of each of the given spans, which are all in here."""
        if self._ids is not None:
            return self._places_by_list(ids)
        ticks, total = self._start[ids], np.zeros(len(ids), np.int64)
        for piece in self._pieces:
            starts = self._start[piece]
            own = (ids >= piece.start) & (ids < piece.stop)
            total[own] += ids[own] - piece.start
            # Of equal starts the one with the smaller id comes first.
            after, before = ids >= piece.stop, ids < piece.start
            total[after] += np.searchsorted(starts, ticks[after], "right")
            total[before] += np.searchsorted(starts, ticks[before], "left")
        return total

    def _places_by_list(self, ids: I64) -> I64:
        assert self._ids is not None
        if self._place is None:
            place = np.zeros(len(self._start), np.int32)
            place[self._ids] = np.arange(len(self._ids), dtype=np.int32)
            self._place = place
        return self._place[ids].astype(np.int64)


U64 = npt.NDArray[np.uint64]

_Lanes = dict[int, list[slice] | Array]


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Spans cut into runs; run r has the positions ``first[r]`` to ``first[r + 1]``.

    Attributes
    ----------
    first : int64[n_runs + 1], ascending from 0.
    number : int64[n_runs], which pass a run belongs to, -1 before the first one.
    stretches : positions count through them, one after the other.
    base : int64[n_stretches + 1], first position of each.
    of_lane : int64[n_lanes], the stretch that a lane is in; -1 = it holds no ops.
    """

    first: I64
    number: I64
    stretches: tuple[Stretch, ...]
    base: I64
    of_lane: I64

    def __len__(self) -> int:
        return len(self.number)

    def ids(self, low: int, high: int) -> Array:
        """Return the span ids at positions low <= position < high of one stretch."""
        which = int(np.searchsorted(self.base, low, "right")) - 1
        first = int(self.base[which])
        return self.stretches[which].ids(low - first, high - first)

    def of_run(self, run: int) -> Array:
        """Return the span ids of a run, in order."""
        return self.ids(int(self.first[run]), int(self.first[run + 1]))

    def positions(self, ids: I64, lanes: Array) -> I64:
        """Return where spans on these lanes are, int64; -1 on lanes without ops."""
        result = np.full(len(ids), -1, np.int64)
        which = self.of_lane[lanes]
        for number in distinct(which[which >= 0]).tolist():
            some = which == number
            result[some] = self.base[number] + self.stretches[number].places(ids[some])
        return result

    def of(self, positions: I64) -> I64:
        """Return the run that each position lies in."""
        return np.searchsorted(self.first, positions, "right") - 1


def runs_of(trace: Trace) -> Runs:
    """Return the runs of a trace.

    A pass begins where a span of a token lane does, else a graph computation; a trace
    that shows neither is cut where the claimed token changes. Where each thread
    computes every op, its spans are runs of their own; where the threads share the
    ops out among them, the spans of all threads are one run.
    """
    starts = _pass_starts(trace)
    lanes = _lanes_with_ops(trace)
    groups = [[lane] for lane in sorted(lanes)]
    if len(groups) > 1:
        whole = _stretch(trace, sorted(lanes), lanes)
        if not _is_repeated(trace, whole, starts):
            groups = [sorted(lanes)]
    stretches = tuple(_stretch(trace, group, lanes) for group in groups)
    base = np.cumsum([0, *map(len, stretches)]).astype(np.int64)
    of_lane = np.full(len(trace.lanes), -1, np.int64)
    first: list[I64] = []
    number: list[I64] = []
    for i, (group, stretch) in enumerate(zip(groups, stretches, strict=True)):
        of_lane[group] = i
        cuts = stretch.before(starts) if len(starts) else _token_cuts(trace, stretch)
        begins = distinct(np.append(0, cuts[cuts < len(stretch)]))
        first.append(begins + base[i])
        number.append(np.searchsorted(cuts, begins, "right") - 1)
    return Runs(
        np.concatenate([*first, base[-1:]]).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *number]).astype(np.int64),
        stretches,
        base,
        of_lane,
    )


def run_tokens(trace: Trace, runs: Runs) -> I64:
    """Return the token that the first span of each run claims; -1 = none."""
    if trace.spans.token is None or not len(runs):
        return np.full(len(runs), -1, np.int64)
    lead = [int(runs.ids(at, at + 1)[0]) for at in runs.first[:-1].tolist()]
    return trace.spans.token[np.array(lead, np.int64)].astype(np.int64)


def run_hashes(trace: Trace, runs: Runs, watcher: Watcher | None = None) -> U64:
    """Return one number per run that tells names, ops and their order.

    Runs of equal length and number have the same names and ops in the same order, but
    for a chance of one in 10**19 per pair. What spans without an op are called does
    not matter.

    Notes
    -----
    The sum over all positions of a mixed number per name and op, times a mixed odd
    number per position; modulo 2**64.
    """
    spans = trace.spans
    # Numbers of numpy.random would do as well, but take longer to import than to mix.
    of_name = _mixed(np.arange(len(trace.strings) + 1, dtype=np.uint64))
    n_ops = int(spans.op.max(initial=-1)) + 1
    of_op = _mixed(np.arange(n_ops + 1, dtype=np.uint64) + _OF_OPS)
    result = np.zeros(len(runs), np.uint64)

    def add(low: int, high: int) -> None:
        run = np.searchsorted(runs.first, (low, high - 1), "right") - 1
        begins = runs.first[run[0] : run[1] + 1]
        inside = np.maximum(begins, low)
        lengths = np.diff(np.append(inside, high))
        place = np.arange(low, high) - np.repeat(begins, lengths)
        ids = runs.ids(low, high)
        op = spans.op[ids]
        mixed = _mixed(of_name[spans.name[ids]] + of_op[op])
        mixed[op < 0] = 0
        mixed *= _mixed(place.astype(np.uint64)) | np.uint64(1)
        result[run[0] : run[1] + 1] += np.add.reduceat(mixed, inside - low)

    def look(_: int, piece: slice) -> None:
        # Whole runs, so that no two threads add to the same one.
        edges = [int(runs.first[piece.start]), int(runs.first[piece.stop])]
        inner = runs.base[(runs.base > edges[0]) & (runs.base < edges[1])].tolist()
        for low, high in pairwise([edges[0], *inner, edges[1]]):
            for part in chunks(high - low):
                add(low + part.start, low + part.stop)

    share_out(look, _shares(runs.first), watcher)
    return result


def _mixed(values: U64) -> U64:
    """Return well-mixed numbers (the finaliser of splitmix64)."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * _MIX_A
    values = (values ^ (values >> np.uint64(27))) * _MIX_B
    return values ^ (values >> np.uint64(31))


def _shares(first: I64) -> list[slice]:
    """Return slices of runs of about a million spans each."""
    wanted = np.arange(0, int(first[-1]), CHUNK_ROWS)
    edges = np.searchsorted(first, wanted)
    edges = distinct(np.concatenate([[0], edges, [len(first) - 1]])).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


# -- passes --------------------------------------------------------------------


def _pass_starts(trace: Trace) -> I64:
    """Return the ticks at which passes begin, ascending; empty where none are told."""
    for kind in (LaneKind.TOKEN, LaneKind.GRAPH):
        lanes = np.flatnonzero(trace.lanes.of_kind(kind))
        found = [
            trace.spans.start[rows][np.isin(trace.spans.lane[rows], lanes)]
            for rows in chunks(len(trace.spans))
            if len(lanes)
        ]
        if sum(map(len, found)):
            return distinct(np.concatenate(found))
    return np.zeros(0, np.int64)


def _token_cuts(trace: Trace, stretch: Stretch) -> I64:
    """Return the places at which the claimed token changes, and 0."""
    token = trace.spans.token
    if token is None:
        return np.zeros(1, np.int64)
    cuts, before = [np.zeros(1, np.int64)], None
    for rows in chunks(len(stretch)):
        part = token[stretch.ids(rows.start, rows.stop)]
        if before is not None and part[0] != before:
            cuts.append(np.array([rows.start], np.int64))
        cuts.append(np.flatnonzero(part[1:] != part[:-1]) + rows.start + 1)
        before = part[-1]
    return np.concatenate(cuts)


# -- lanes ---------------------------------------------------------------------


def _lanes_with_ops(trace: Trace) -> _Lanes:
    """Return the lanes with ops: slices of ids in time order, or all ids in it."""
    spans, lanes = trace.spans, _Lanes()
    edges = TimeRuns(trace).edges
    if edges is not None:
        pieces: dict[int, list[slice]] = {}
        for a, b in pairwise(edges.tolist()):
            pieces.setdefault(int(spans.lane[a]), []).append(slice(a, b))
        for lane, slices in pieces.items():
            if any(bool((spans.op[piece] >= 0).any()) for piece in slices):
                lanes[lane] = slices
        return lanes
    has_ops = np.zeros(int(spans.lane.max(initial=-1)) + 1, np.bool_)
    has_ops[spans.lane[spans.op >= 0]] = True
    # Sorted once for all lanes: there may be as many as spans.
    ids = np.flatnonzero(has_ops[spans.lane])
    ids = ids[np.lexsort((spans.start[ids], spans.lane[ids]))]
    numbers = np.flatnonzero(has_ops)
    cuts = np.append(np.searchsorted(spans.lane[ids], numbers), len(ids))
    for i, lane in enumerate(numbers.tolist()):
        lanes[lane] = ids[cuts[i] : cuts[i + 1]]
    return lanes


def _stretch(trace: Trace, group: Sequence[int], lanes: _Lanes) -> Stretch:
    """Return the spans of some lanes in time order."""
    start = trace.spans.start
    slices: list[slice] = []
    loose: list[Array] = []
    for lane in group:
        found = lanes[lane]
        if isinstance(found, list):
            slices += found
        else:
            loose.append(found)
    if not loose:
        return Stretch(start, sorted(slices, key=lambda piece: int(piece.start)))
    ids = np.sort(np.concatenate(loose))
    return Stretch(start, ids=ids[np.argsort(start[ids], kind="stable")])


def _is_repeated(trace: Trace, whole: Stretch, starts: I64) -> bool:
    """Tell whether every thread computes every op, by a few passes.

    Then ops come once per thread, and their order counts within a thread only.
    """
    edges = np.append(whole.before(starts), len(whole))
    if len(edges) < 2:
        edges = np.array([0, len(whole)])
    picks = distinct(np.linspace(0, len(edges) - 2, _SAMPLES).astype(np.int64))
    votes = [
        vote
        for i in picks.tolist()
        if (vote := _looks_repeated(trace, whole, int(edges[i]), int(edges[i + 1])))
        is not None
    ]
    return bool(votes) and sum(votes) * 2 > len(votes)


def _looks_repeated(trace: Trace, whole: Stretch, low: int, high: int) -> bool | None:
    """Tell it of one pass; None where only one thread took part."""
    spans = trace.spans
    ids = whole.ids(low, min(high, low + _SAMPLE_ROWS))
    ids = ids[spans.op[ids] >= 0]
    key = spans.name[ids].astype(np.int64) * OPS + spans.op[ids]
    lane = spans.lane[ids]
    per_lane = [len(distinct(key[lane == number])) for number in distinct(lane)]
    if len(per_lane) < 2:
        return None
    return min(per_lane) >= _REPEATED * len(distinct(key))
