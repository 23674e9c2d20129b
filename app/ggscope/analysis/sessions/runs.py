"""Runs: the ops of one pass in order, what each recorded, and which are alike.

An inference run computes the same graph once per pass, so the same names and ops come
again thousands of times. Whatever is found for one run holds for all that are alike.
The spans of the lanes that make runs are one `TimeOrderedSpans`, in time order without
a list.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ggscope.analysis.order.time_merge import TimeMerge, TimeRuns
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, chunks, share_out
from ggscope.model.run import THREADS_OF_SLOT
from ggscope.model.tables import I64, Array, distinct, stacked
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import LaneKind, Trace

OPS = 1 << 16
"""More than any op number: name and op make one key."""
_OF_OPS = np.uint64(1 << 48)
"""Ops are mixed from numbers that no name has."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_AT_ONCE = 1 << 17
"""Spans that are looked at at once: numpy holds the interpreter lock in between."""
_SAMPLES = 5
_SAMPLE_ROWS = 1 << 14
_REPEATED = 0.75
"""Lanes with so much of a pass's distinct ops each are taken to compute all of it."""


class TimeOrderedSpans:
    """Spans by (start, id), found by their place and the other way round.

    Parameters
    ----------
    start : int64[n_spans], of all spans.
    slices : slices of ids, ascending, each of one lane and in time order.
    ids : all ids by (start, id), instead of slices.
    """

    def __init__(
        self, start: I64, slices: Sequence[slice] = (), ids: Array | None = None
    ) -> None:
        self._start = start
        self._slices, self._ids = tuple(slices), ids
        self._merge = TimeMerge(start, self._slices if ids is None else [ids])
        self._place: Array | None = None

    def __len__(self) -> int:
        return len(self._merge)

    def ids(self, low: int, high: int) -> Array:
        """Return the ids of places low <= place < high."""
        if len(self._slices) == 1:
            first = int(self._slices[0].start)
            return np.arange(first + low, first + high)
        return self._merge.slice(low, high)

    def before(self, ticks: I64) -> I64:
        """Return how many spans start before each tick, int64."""
        if self._ids is not None:
            return np.searchsorted(self._start[self._ids], ticks, "left")
        total = np.zeros(len(ticks), np.int64)
        for rows in self._slices:
            total += np.searchsorted(self._start[rows], ticks, "left")
        return total

    def places(self, ids: I64) -> I64:
        """Return the place of each of the given spans, which are all in here."""
        if self._ids is not None:
            return self._places_by_list(ids)
        ticks, total = self._start[ids], np.zeros(len(ids), np.int64)
        for rows in self._slices:
            starts = self._start[rows]
            is_inside = (ids >= rows.start) & (ids < rows.stop)
            total[is_inside] += ids[is_inside] - rows.start
            # Of equal starts the one with the smaller id comes first.
            after, before = ids >= rows.stop, ids < rows.start
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
    stretches: tuple[TimeOrderedSpans, ...]
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
    ops out among them, the spans of all threads are one run. Where the token numbers
    of spans are those of ubatches, they distinguish the passes: contexts that compute
    at once have lanes of their own. So they do in records with waits, which our own
    tracer alone writes.
    """
    by_token = trace.spans.token is not None and (
        trace.spans.wait is not None or has_ubatches(trace)
    )
    starts = np.zeros(0, np.int64) if by_token else _pass_starts(trace)
    lanes = _lanes_with_ops(trace)
    groups = [[lane] for lane in sorted(lanes)]
    if len(groups) > 1:
        teams = _teams(trace, sorted(lanes)) if by_token else [sorted(lanes)]
        team = max(teams, key=len)
        whole = _stretch(trace, team, lanes)
        if not _is_repeated(trace, whole, _pass_starts(trace) if by_token else starts):
            groups = teams
    stretches = tuple(_stretch(trace, group, lanes) for group in groups)
    base = np.cumsum([0, *map(len, stretches)]).astype(np.int64)
    of_lane = np.full(len(trace.lanes.kinds), -1, np.int64)
    first: list[I64] = []
    number: list[I64] = []
    for i, (group, stretch) in enumerate(zip(groups, stretches, strict=True)):
        of_lane[group] = i
        if len(starts):
            cuts, tokens = stretch.before(starts), starts
        else:
            cuts, tokens = _token_cuts(trace, stretch)
        begins = distinct(np.append(0, cuts[cuts < len(stretch)]))
        first.append(begins + base[i])
        place = np.searchsorted(cuts, begins, "right") - 1
        number.append(tokens[place] if by_token else place)
    return Runs(
        np.concatenate([*first, base[-1:]]).astype(np.int64),
        np.concatenate([np.zeros(0, np.int64), *number]).astype(np.int64),
        stretches,
        base,
        of_lane,
    )


def _teams(trace: Trace, lanes: Sequence[int]) -> list[list[int]]:
    """Return the lanes of threads that compute together, by the groups they are in."""
    lanes_of_team: dict[tuple[str, ...], list[int]] = {}
    has_ubatch_events = has_ubatches(trace)
    for lane in lanes:
        group, slot = trace.lanes[lane].group, ""
        if not has_ubatch_events:
            raw = trace.lanes[lane].attributes.get("raw", "")
            slot = str(int(raw) // THREADS_OF_SLOT) if raw.isdecimal() else raw
        lanes_of_team.setdefault((*group, slot), []).append(lane)
    return list(lanes_of_team.values())


def run_tokens(trace: Trace, runs: Runs) -> I64:
    """Return the token that the first span of each run claims; -1 = none."""
    if trace.spans.token is None or not len(runs):
        return np.full(len(runs), -1, np.int64)
    lead = [int(runs.ids(at, at + 1)[0]) for at in runs.first[:-1].tolist()]
    return trace.spans.token[np.array(lead, np.int64)].astype(np.int64)


def run_hashes(trace: Trace, runs: Runs, watcher: Watcher | None = None) -> U64:
    """Return a hash of names, ops and their order for each run.

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

    def hash_runs(_: int, part_of_runs: slice) -> None:
        # Whole runs, so that no two threads add to the same one.
        edges = [
            int(runs.first[part_of_runs.start]),
            int(runs.first[part_of_runs.stop]),
        ]
        inner = runs.base[(runs.base > edges[0]) & (runs.base < edges[1])].tolist()
        for low, high in pairwise([edges[0], *inner, edges[1]]):
            for part in chunks(high - low, _AT_ONCE):
                add(low + part.start, low + part.stop)

    share_out(hash_runs, _shares(runs.first), watcher)
    return result


def _mixed(values: U64) -> U64:
    """Return well-mixed numbers (the finaliser of splitmix64)."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * _MIX_A
    values = (values ^ (values >> np.uint64(27))) * _MIX_B
    return values ^ (values >> np.uint64(31))


def _shares(first: I64) -> list[slice]:
    """Return slices of runs of about a million spans each."""
    bounds = np.arange(0, int(first[-1]), CHUNK_ROWS)
    edges = np.searchsorted(first, bounds)
    edges = distinct(np.concatenate([[0], edges, [len(first) - 1]])).tolist()
    return [slice(a, b) for a, b in pairwise(edges)]


# -- passes --------------------------------------------------------------------


def _pass_starts(trace: Trace) -> I64:
    """Return the ticks at which passes begin, ascending; empty where not stated."""
    for kind in (LaneKind.TOKEN, LaneKind.GRAPH):
        lanes = np.flatnonzero(trace.lanes.kinds == kind)
        if not len(lanes):
            continue
        starts = [
            trace.spans.start[rows][np.isin(trace.spans.lane[rows], lanes)]
            for rows in chunks(len(trace.spans.lane))
        ]
        if sum(map(len, starts)):
            return distinct(np.concatenate(starts))
    return np.zeros(0, np.int64)


def _token_cuts(trace: Trace, stretch: TimeOrderedSpans) -> tuple[I64, I64]:
    """Return the places at which the claimed token changes, and 0; and the tokens."""
    token = trace.spans.token
    if token is None or not len(stretch):
        return np.zeros(1, np.int64), np.full(1, -1, np.int64)
    cuts, before = list[I64](), None
    tokens = list[I64]()
    for rows in chunks(len(stretch)):
        part = token[stretch.ids(rows.start, rows.stop)]
        changes = np.flatnonzero(part[1:] != part[:-1]) + 1
        if before is None or part[0] != before:
            changes = np.append(0, changes)
        cuts.append(changes + rows.start)
        tokens.append(part[changes].astype(np.int64))
        before = part[-1]
    return np.concatenate(cuts), np.concatenate(tokens)


# -- lanes ---------------------------------------------------------------------


def _lanes_with_ops(trace: Trace) -> _Lanes:
    """Return the lanes with ops: slices of ids in time order, or all ids in it."""
    spans, lanes = trace.spans, _Lanes()
    edges = TimeRuns(trace).edges
    if edges is not None:
        slices_of_lane: dict[int, list[slice]] = {}
        for a, b in pairwise(edges.tolist()):
            slices_of_lane.setdefault(int(spans.lane[a]), []).append(slice(a, b))
        for lane, slices in slices_of_lane.items():
            if any(bool((spans.op[rows] >= 0).any()) for rows in slices):
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


def _stretch(trace: Trace, group: Sequence[int], lanes: _Lanes) -> TimeOrderedSpans:
    """Return the spans of some lanes in time order."""
    start = trace.spans.start
    slices: list[slice] = []
    loose: list[Array] = []
    for lane in group:
        spans_of_lane = lanes[lane]
        if isinstance(spans_of_lane, list):
            slices += spans_of_lane
        else:
            loose.append(spans_of_lane)
    if not loose:
        return TimeOrderedSpans(start, sorted(slices, key=lambda rows: int(rows.start)))
    ids = np.sort(np.concatenate(loose))
    return TimeOrderedSpans(start, ids=ids[np.argsort(start[ids], kind="stable")])


def _is_repeated(trace: Trace, whole: TimeOrderedSpans, starts: I64) -> bool:
    """Return whether every thread computes every op, by a few passes.

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


def _looks_repeated(
    trace: Trace, whole: TimeOrderedSpans, low: int, high: int
) -> bool | None:
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


_MAX_ROWS = 1 << 22
"""Of more rows of passes that differ one pass in so many is compared."""
_MAX_CELLS = 1 << 27
ALIKE = 0.6
"""Share of ops that two passes of one kind have in common, at least."""
FEW_SHORT = 0.1
_MAX_KINDS = 16
SAMPLES = 256
_NEIGHBOURS = 8
_MAX_NOTED = 20_000
REPEATS = 1.6
"""A piece with so many rows per different op holds several passes."""
_ANCHORS = 32
_REGULAR = 0.5
"""More than this share of the passes within a piece are about equally long."""
_HEAD = 0.1
"""More than this share of a pass before the first anchor is no head of it."""
_PER_PIECE = ("run", "begin", "weight", "phase", "is_head", "is_tail")
Bools = npt.NDArray[np.bool_]


def _access_sums(trace: Trace, runs: Runs) -> I64:
    """Return a check sum of the numbers of accesses of the spans of each run."""
    counts = np.append(np.diff(trace.accesses.first), 0).astype(np.uint8)
    pattern = trace.accesses.pattern
    sums = (
        crc32(counts[pattern[runs.of_run(run)]].tobytes()) for run in range(len(runs))
    )
    return np.fromiter(sums, np.int64, len(runs))


def distinct_runs(
    trace: Trace, runs: Runs, watcher: Watcher | None, *, by_access: bool
) -> tuple[I64, I64]:
    """Return one run of each kind of equal ones, and how many there are of each.

    The first and the last one of a thread stand for themselves.
    """
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right") - 1
    edge = np.append(True, np.diff(stretch) != 0) | np.append(
        np.diff(stretch) != 0, True
    )
    edge_number = np.where(edge, np.arange(len(runs)) + 1, 0)
    hashes = run_hashes(trace, runs, watcher).view(np.int64)
    columns = [hashes, np.diff(runs.first), edge_number]
    if by_access:
        # Of an op that has lost a source name and number are the same.
        columns.append(_access_sums(trace, runs))
    table = np.stack(columns)
    _, leader, weight = np.unique(table, axis=1, return_index=True, return_counts=True)
    order = np.argsort(leader)
    return leader[order].astype(np.int64), weight[order].astype(np.int64)


def sampled_runs(runs: Runs, leaders: I64, weight: I64) -> tuple[I64, I64, int]:
    """Return so many of the runs as can be compared, and that it is one in so many."""
    length = runs.first[leaders + 1] - runs.first[leaders]
    every = -(-int(length.sum()) // _MAX_ROWS)
    if every <= 1:
        return leaders, weight, 1
    lone = np.flatnonzero(weight == 1)
    keep = np.ones(len(leaders), np.bool_)
    keep[lone[1:-1]] = False
    keep[lone[1:-1:every]] = True
    if keep.all():
        return leaders, weight, 1  # few differ, though long ones
    weight = weight.copy()
    weight[lone[1:-1:every]] = every
    return leaders[keep], weight[keep], every


@dataclass(frozen=True, slots=True, eq=False)
class PassRows:
    """Records of distinct runs, one after the other.

    Attributes
    ----------
    key : int32[n], number of name and op.
    first : int64[m + 1], rows of each pass of a run.
    run : int64[m], the run that a pass is of; begin : int64[m], its first row in it.
    weight : int64[m], how many runs are like it.
    phase : int8[m], that the first record of its run claims; -1 none.
    is_head, is_tail : bool[m], passes at which the recording of a thread begins, ends.
    """

    key: npt.NDArray[np.int32]
    first: I64
    run: I64
    begin: I64
    weight: I64
    phase: npt.NDArray[np.int8]
    is_head: Bools
    is_tail: Bools

    def __len__(self) -> int:
        return len(self.run)

    @property
    def length(self) -> I64:
        """Number of rows of each pass."""
        return np.diff(self.first)

    def cut(self, at: I64) -> "PassRows":
        """Return the rows with passes cut before the rows `at` as well."""
        first = distinct(np.concatenate([self.first, at]))
        pass_id = np.searchsorted(self.first, first[:-1], "right") - 1
        is_first = np.append(True, pass_id[1:] != pass_id[:-1])
        is_last = np.append(pass_id[1:] != pass_id[:-1], True)
        return PassRows(
            self.key,
            first,
            self.run[pass_id],
            self.begin[pass_id] + first[:-1] - self.first[pass_id],
            self.weight[pass_id],
            self.phase[pass_id],
            self.is_head[pass_id] & is_first,
            self.is_tail[pass_id] & is_last,
        )

    def part(self, chosen: Bools) -> "PassRows":
        """Return some of the passes."""
        length = self.length[chosen]
        return PassRows(
            self.key[np.repeat(chosen, self.length)],
            np.concatenate([[0], np.cumsum(length)]).astype(np.int64),
            *(getattr(self, name)[chosen] for name in _PER_PIECE),
        )

    def before(self, other: "PassRows") -> "PassRows":
        """Return these passes, then those of `other`."""
        first = np.concatenate([self.first, self.first[-1] + other.first[1:]])
        return replace(stacked(self, other), first=first)


def without_repeats(rows: PassRows, n_keys: int) -> PassRows:
    """Return the rows with pieces cut that hold several passes, by the op they share.

    Only where a trace shows no passes at all: pieces that repeat nearly every op.
    """
    cuts: list[I64] = []
    for pass_id in range(len(rows)) if len(rows) <= SAMPLES else ():
        low, high = int(rows.first[pass_id]), int(rows.first[pass_id + 1])
        seq = rows.key[low:high]
        counts = np.bincount(seq, minlength=n_keys)
        used = counts[counts > 0]
        if high - low < REPEATS * len(used):
            return rows  # it shows what one pass is; where others end follows from it
        usual = max(int(np.argmax(np.bincount(used))), int(np.median(used)))
        once = np.flatnonzero(counts[seq] == usual)
        if usual < 2 or not len(once):
            continue
        for anchor in once[:_ANCHORS].tolist():
            begins = np.flatnonzero(seq == seq[anchor])
            length = np.diff(np.append(begins, high - low))
            middle = np.median(length)
            if (np.abs(length - middle) <= 0.3 * middle).mean() > _REGULAR:
                cuts.append(_with_heads(seq, begins, middle) + low)
                break
    return rows.cut(np.concatenate(cuts)) if cuts else rows


def _with_heads(seq: npt.NDArray[np.int32], begins: I64, middle: float) -> I64:
    """Return the begins of passes before the few ops that come before the anchor."""
    head = seq[: begins[0]]
    if not len(head) or len(head) > _HEAD * middle:
        return begins
    result = begins.copy()
    for i in range(1, len(begins)):
        at = int(begins[i])
        while begins[i] - at < len(head) and seq[at - 1] in head:
            at -= 1
        result[i] = at
    return result[1:]


@dataclass(slots=True, eq=False)
class Keys:
    """Numbers of (name or tensor, op)."""

    name: I64
    op: I64
    of_tensor: bool

    def texts(self, trace: Trace, keys: I64) -> list[str]:
        """Return the name of each key, as people read it."""
        names = self.name[keys]
        if self.of_tensor:
            names = np.append(trace.tensors.name, -1)[names]
        return trace.strings.get_many(names.tolist())


def spans_of(trace: Trace, runs: Runs, run: int, *, by_access: bool) -> Array:
    """Return the span of each record of a run: one per span, or per access."""
    ids = runs.of_run(run)
    return _per_access(trace, ids) if by_access else ids


def _per_access(trace: Trace, ids: Array) -> Array:
    counts = np.append(np.diff(trace.accesses.first), 0)[trace.accesses.pattern[ids]]
    return np.repeat(ids, counts)


def _spans_of_runs(
    trace: Trace, runs: Runs, chosen: Sequence[int], *, by_access: bool
) -> Iterator[Array]:
    """Yield `spans_of` each of some runs, which ascend; neighbours in one look.

    One look at a merge of many threads costs as much as some thousand rows.
    """
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right")
    at = 0
    while at < len(chosen):
        stop, first = at + 1, int(runs.first[chosen[at]])
        while (
            stop < len(chosen)
            and chosen[stop] - chosen[stop - 1] <= _NEIGHBOURS
            and stretch[chosen[stop]] == stretch[chosen[at]]
            and int(runs.first[chosen[stop] + 1]) - first <= CHUNK_ROWS
        ):
            stop += 1
        ids = runs.ids(first, int(runs.first[chosen[stop - 1] + 1]))
        for run in chosen[at:stop]:
            part = ids[runs.first[run] - first : runs.first[run + 1] - first]
            yield _per_access(trace, part) if by_access else part
        at = stop


def _names_of(trace: Trace, ids: Array, *, by_access: bool) -> Array:
    """Return the name of each record of some spans, or the tensor of each access."""
    if not by_access:
        return trace.spans.name[ids]
    first = trace.accesses.first
    begin = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
    nth = np.arange(len(ids)) - np.repeat(begin, np.diff(np.append(begin, len(ids))))
    rows = first[trace.accesses.pattern[ids]] + nth
    tensors: Array = trace.accesses.patterns.tensor[rows]
    return tensors


def sequences(
    trace: Trace, runs: Runs, leaders: Sequence[int], weight: I64, *, by_access: bool
) -> tuple[PassRows, Keys]:
    """Return what the leading runs record, in order."""
    raw: list[I64] = []
    phases: list[int] = []
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right")
    begins = np.unique(stretch, return_index=True)[1]
    heads = set(begins.tolist())
    tails = {*(begins[1:] - 1).tolist(), len(runs) - 1}
    for ids in _spans_of_runs(trace, runs, leaders, by_access=by_access):
        phase = -1 if trace.spans.phase is None else trace.spans.phase[ids[:1]]
        phases.append(int(np.max(phase, initial=-1)))
        names = _names_of(trace, ids, by_access=by_access).astype(np.int64)
        raw.append((names + 1) * (1 << 16) + trace.spans.op[ids].astype(np.int64) + 1)
    length = np.array([len(part) for part in raw], np.int64)
    values, key = np.unique(np.concatenate(raw), return_inverse=True)
    rows = PassRows(
        key.astype(np.int32),
        np.concatenate([[0], np.cumsum(length)]),
        np.array(leaders, np.int64),
        np.zeros(len(leaders), np.int64),
        weight,
        np.array(phases, np.int8),
        np.array([run in heads for run in leaders], np.bool_),
        np.array([run in tails for run in leaders], np.bool_),
    )
    return rows, Keys(values // (1 << 16) - 1, values % (1 << 16) - 1, by_access)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Pieces that record one graph.

    Attributes
    ----------
    keys : int64[k], keys that they have.
    phase : int8[n_passes], that their first record claims.
    table : uint8[n_passes, k], how often.
    order, low, high : float64[k], where in a pass a key comes: on average, at first
        and at last.
    """

    rows: PassRows
    phase: npt.NDArray[np.int8]
    keys: I64
    table: npt.NDArray[np.uint8]
    order: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]

    @property
    def weight(self) -> I64:
        """How many passes each pass stands for."""
        return self.rows.weight


def kinds(rows: PassRows, n_keys: int, watcher: Watcher | None) -> Iterator[Kind]:
    """Yield kinds of passes, the commonest first; what is like no other is left out."""
    remaining = rows
    for _ in range(_MAX_KINDS):
        if watcher is not None:
            watcher.progress(0, 1)
        if not len(remaining):
            return
        leader = _leader(remaining)
        seq = remaining.key[remaining.first[leader] : remaining.first[leader + 1]]
        kind, rest = _like(remaining, seq, n_keys)
        if kind is not None:
            yield kind
        remaining = rest


def _leader(rows: PassRows) -> int:
    """Return the pass with most different ops, each of them once if possible."""
    picks = np.linspace(0, len(rows) - 1, min(SAMPLES, len(rows))).astype(np.int64)
    picks = distinct(
        np.append(picks, np.argsort(-rows.weight, kind="stable")[:SAMPLES])
    )
    best, best_score = int(picks[0]), -np.inf
    for pass_id in picks.tolist():
        seq = rows.key[rows.first[pass_id] : rows.first[pass_id + 1]]
        n = len(distinct(seq))
        score = (2 * n - len(seq)) * np.log2(1 + rows.weight[pass_id])
        if score > best_score:
            best, best_score = pass_id, score
    return best


def _like(rows: PassRows, seq: Array, n_keys: int) -> tuple[Kind | None, PassRows]:
    """Return the passes that are like the leading one, and the other passes."""
    has = np.zeros(n_keys, np.bool_)
    has[seq] = True
    unique, at, count = np.unique(seq, return_index=True, return_counts=True)
    rank = np.full(n_keys, -1, np.int64)
    rank[unique[count == 1]] = at[count == 1]
    n_shared = np.add.reduceat(has[rows.key].astype(np.int64), rows.first[:-1])
    near = n_shared >= ALIKE * np.maximum(rows.length, 1)
    cut = rows.part(near)
    cut = cut.cut(_drops(cut, rank, seq))
    size = cut.length
    inside = np.add.reduceat(has[cut.key].astype(np.int64), cut.first[:-1])
    fits = inside >= ALIKE * size
    is_edge = cut.is_head | cut.is_tail
    whole = fits & (size >= ALIKE * len(seq)) & (size * ALIKE <= len(seq))
    part = fits & ~whole & (size < len(seq)) & is_edge
    if not whole.any():
        # Nothing is like it, not even itself: it holds several passes.
        return None, rows.part(~near)
    # A few passes may have lost a whole batch; many short ones are another graph.
    short = fits & ~whole & ~is_edge & (size < len(seq)) & (cut.weight == 1)
    if np.count_nonzero(short) <= max(FEW_SHORT * int(cut.weight[whole].sum()), 1):
        part |= short
    kind = _kind(cut.part(whole | part), rank, n_keys)
    others = cut.part(~(whole | part)).before(rows.part(~near))
    return kind, others


def _drops(rows: PassRows, rank: I64, seq: Array) -> I64:
    """Return the rows at which the order of ops begins anew within a pass."""
    step = max(len(seq) // 2, 1)
    place = rank[rows.key]
    at = np.flatnonzero(place >= 0)
    pass_id = np.searchsorted(rows.first, at, "right") - 1
    drop = place[at[1:]] <= place[at[:-1]] - step
    drop &= pass_id[1:] == pass_id[:-1]
    cuts = at[1:][drop]
    before = at[:-1][drop]
    # Ops of a name that comes twice lie between: they go with what is nearer.
    loose = np.flatnonzero(cuts - before > 1)
    if len(loose):
        early, late = np.full(len(rank), -1), np.full(len(rank), len(seq))
        late[seq] = np.arange(len(seq))
        early[seq[::-1]] = np.arange(len(seq))[::-1]
        for i in loose[:_MAX_NOTED].tolist():
            between = rows.key[before[i] + 1 : cuts[i]]
            back = late[between] - int(place[before[i]])
            ahead = int(place[cuts[i]]) - early[between]
            is_new = np.abs(ahead) < np.abs(back)
            # What the leading pass has lost goes where that pass has room for it.
            has_room = int(place[cuts[i]]) > len(seq) - 1 - int(place[before[i]])
            is_new = np.where(early[between] < 0, has_room, is_new)
            n_new = int(np.argmin(np.append(is_new[::-1], False)))
            cuts[i] -= n_new
    return cuts


def _kind(rows: PassRows, rank: I64, n_keys: int) -> Kind | None:
    """Return the table of a kind; None where it would be too large."""
    used = np.bincount(rows.key, minlength=n_keys) > 0
    keys = np.flatnonzero(used)
    if len(keys) * len(rows) > _MAX_CELLS:
        return None
    column = np.cumsum(used) - 1
    pass_id = np.repeat(np.arange(len(rows)), rows.length)
    table = np.zeros((len(rows), len(keys)), np.uint8)
    cell, count = np.unique(pass_id * len(keys) + column[rows.key], return_counts=True)
    table.reshape(-1)[cell] = np.minimum(count, 255)
    # Where an op without a rank of its own comes: behind the last one that has one.
    own = rank[rows.key].astype(np.float64)
    at = np.where(own >= 0, np.arange(len(own)), -1)
    last = np.maximum.accumulate(at)
    begins = np.repeat(rows.first[:-1], rows.length)
    place = np.where(last >= begins, own[np.maximum(last, 0)], -1.0)
    place = np.where(own >= 0, place, place + 0.5)
    of_key = column[rows.key]
    total = np.bincount(of_key, minlength=len(keys))
    order = np.bincount(of_key, place, len(keys)) / total
    low = np.full(len(keys), np.inf)
    high = np.full(len(keys), -np.inf)
    np.minimum.at(low, of_key, place)
    np.maximum.at(high, of_key, place)
    return Kind(rows, rows.phase, keys, table, order, low, high)
