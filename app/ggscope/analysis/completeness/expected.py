"""Completeness: which records a trace should hold, and which of them are missing.

An inference run computes the same graph again and again, so passes that are alike say
what each of them should hold. A record that is missing from one pass is believed to be
lost where something speaks for it: a later record of that pass reads what it would have
computed; or so many passes have it that its absence is chance, and not another graph.
What has no regularity is called not known, never complete.
"""

from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.losses import (
    COVERED,
    MOST_MISSING,
    Losses,
    Readers,
    losses,
)
from ggscope.analysis.completeness.passes import (
    SAMPLES,
    Bools,
    Keys,
    Kind,
    PassRows,
    kinds,
    sequences,
    spans_of,
)
from ggscope.analysis.sessions.runs import Runs, run_hashes, runs_of
from ggscope.analysis.workers import Watcher
from ggscope.model.graph import locate_node
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.trace import RANGE_CODES, Trace
from ggscope.model.units import format_count

MOST_PLACES = 200
"""So many missing records are listed one by one; all are counted."""
_MOST_ROWS = 1 << 22
"""Of more rows of passes that differ one pass in so many is compared."""
_FEWEST_OPS = 3
_FITS = 0.9
"""So many ops are found in a graph that says what passes hold."""
_REPEATS = 1.6
"""A piece with so many rows per different op holds several passes."""
_ANCHORS = 32
_HEAD = 0.1
"""More than this share of a pass before the first anchor is no head of it."""
_AT_ENDS = 5
"""From so many unpaired events at the ends on, the recording stopped amid ops."""
_TWO_EVENTS = "ggmlviz"
"""Its records are begins and ends; all others are whole ops."""
_PARTLY_READ = {*RANGE_CODES, "names_left_out", "stopped"}


@dataclass(frozen=True, slots=True)
class Gap:
    """A place at which a record is missing.

    Attributes
    ----------
    name, op : of the missing record.
    after, before : spans between which it belongs; -1 = none; both -1: every pass
        lacks it, as the graph tells.
    time : tick at which the span before it starts.
    """

    name: str
    op: str
    after: int
    before: int
    time: int


@dataclass(frozen=True, slots=True, eq=False)
class Completeness:
    """How many of the records that were to be expected a trace holds.

    Attributes
    ----------
    is_known : whether anything says what was to be expected.
    why : where it is not known, the reason.
    n_there, n_missing : records of ops that are there, and that are missing.
    n_fewer, n_more : so many less and more may be missing; what leaves no trace where
        much is lost.
    n_unseen : ops of graphs that no pass records, as if the tracer could not see them.
    n_passes : passes that are alike, one per thread where each records every op.
    n_varying : ops that come and go from pass to pass, and are left out.
    rests_on : what tells what was to be expected, in words.
    gaps : the first `MOST_PLACES` of the missing ones, in the order of time.
    """

    is_known: bool
    why: str = ""
    n_there: int = 0
    n_missing: int = 0
    n_fewer: int = 0
    n_more: int = 0
    n_passes: int = 0
    n_varying: int = 0
    rests_on: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    n_unseen: int = 0

    @property
    def n_expected(self) -> int:
        """Records that were to be expected."""
        return self.n_there + self.n_missing

    @property
    def share(self) -> float | None:
        """Share of the expected records that is there; None where it is not known."""
        if not self.is_known or not self.n_expected:
            return None
        return self.n_there / self.n_expected


def completeness(trace: Trace, watcher: Watcher | None = None) -> Completeness:
    """Return how many of the records that were to be expected are there.

    Raises
    ------
    Cancelled
        From the watcher.

    Notes
    -----
    Where all passes are alike, one look at names and ops; what differs is compared
    op by op. What a recording lacks at its very beginning and end is not missed: it
    may have begun or ended inside a pass.
    """
    why = _why_not(trace)
    if why:
        return Completeness(False, why)
    runs = runs_of(trace)
    by_access = trace.claims is not None and not trace.claims.has_results
    leaders, weight = _distinct_runs(trace, runs, watcher, by_access=by_access)
    leaders, weight, every = _sampled(runs, leaders, weight)
    rows, keys = sequences(trace, runs, leaders.tolist(), weight, by_access=by_access)
    if not len(rows.key):
        return Completeness(False, "it records no ops")
    rows = rows.part(rows.length > 0)
    readers = Readers(trace, keys, rows, runs)
    # A graph begins that the trace shows as a span.
    is_graph = keys.op[rows.key] < 0
    rows = rows.cut(np.flatnonzero(is_graph & ~np.append(False, is_graph[:-1])))
    rows = _without_repeats(rows, len(keys.op))
    result = _Sum(trace, runs, keys, by_access=by_access, every=every)
    for kind in kinds(rows, len(keys.op), watcher):
        result.add(kind, losses(trace, kind, keys, readers))
    n_rows = int((rows.length * rows.weight).sum())
    return _with_graphs(trace, result.finished(n_rows, int(rows.weight.sum())))


def _with_graphs(trace: Trace, found: Completeness) -> Completeness:
    """Return the result with what the graphs of the trace say that passes hold."""
    fits = [join for join in trace.joins if join.n_nodes and join.n_all]
    if not any(join.n_found >= _FITS * join.n_all for join in fits):
        return found
    # What compares a graph with a trace is imported for those that have both.
    from ggscope.analysis.reads.unrecorded import lost_nodes

    lost = lost_nodes(trace)
    n_lost = len(lost)
    if found.is_known:
        lost = lost[_are_unnamed(trace, lost)]
    n_graphs = max(len({locate_node(trace.graphs, int(n))[0] for n in lost}), 1)
    n_passes = max(found.n_passes or trace.info.n_passes, 1)
    events = 2 if trace.info.reader_id == _TWO_EVENTS else 1
    n_missing = len(lost) * max(n_passes // n_graphs, 1) * events
    gaps = []
    for node in lost[: MOST_PLACES - len(found.gaps)].tolist():
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        name, op = trace.strings[int(graph.name[row])], trace.op_name(graph.op[row])
        gaps.append(Gap(name or op, op, -1, -1, trace.extent.start))
    n_there = found.n_there
    if not found.is_known:
        n_there = int(np.count_nonzero(trace.spans.op >= 0)) * events
    return replace(
        found,
        is_known=True,
        why="",
        n_there=n_there,
        n_missing=found.n_missing + n_missing,
        n_passes=n_passes,
        rests_on=(
            *found.rests_on,
            "the graph" if len(trace.graphs) == 1 else "the graphs",
        ),
        gaps=(*found.gaps, *gaps),
        n_unseen=sum(len(join.silent_nodes) for join in trace.joins) - n_lost,
    )


def _are_unnamed(trace: Trace, nodes: I64) -> Bools:
    """Tell which nodes no span is called like: what passes say counts the others."""
    result = np.ones(len(nodes), np.bool_)
    for i, node in enumerate(nodes.tolist()):
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        same = trace.spans.name == graph.name[row]
        result[i] = not bool((trace.spans.op[same] == graph.op[row]).any())
    return result


def _why_not(trace: Trace) -> str:
    """Return why nothing can be expected of a trace; "" where something may be."""
    if trace.pending:
        return "it is still being read"
    if not len(trace.spans) or int(trace.spans.op.max()) < 0:
        return "it records no ops"
    if trace.lanes.of_kind(LaneKind.ENGINE).any():
        return "work of engines follows no graph that the trace tells"
    if any(w.code in _PARTLY_READ for w in trace.warnings):
        return "only a part of it was read"
    return ""


def _access_sums(trace: Trace, runs: Runs) -> I64:
    """Return a check sum of the numbers of accesses of the spans of each run."""
    counts = np.append(np.diff(trace.accesses.first), 0).astype(np.uint8)
    pattern = trace.accesses.pattern
    sums = (
        crc32(counts[pattern[runs.of_run(run)]].tobytes()) for run in range(len(runs))
    )
    return np.fromiter(sums, np.int64, len(runs))


def _distinct_runs(
    trace: Trace, runs: Runs, watcher: Watcher | None, *, by_access: bool
) -> tuple[I64, I64]:
    """Return one run of each kind of equal ones, and how many there are of each.

    The first and the last one of a thread stand for themselves.
    """
    stretch = np.searchsorted(runs.base, runs.first[:-1], "right") - 1
    edge = np.append(True, np.diff(stretch) != 0) | np.append(
        np.diff(stretch) != 0, True
    )
    own = np.where(edge, np.arange(len(runs)) + 1, 0)
    hashes = run_hashes(trace, runs, watcher).view(np.int64)
    columns = [hashes, np.diff(runs.first), own]
    if by_access:
        # Of an op that has lost a source name and number are the same.
        columns.append(_access_sums(trace, runs))
    table = np.stack(columns)
    _, leader, weight = np.unique(table, axis=1, return_index=True, return_counts=True)
    order = np.argsort(leader)
    return leader[order].astype(np.int64), weight[order].astype(np.int64)


def _sampled(runs: Runs, leaders: I64, weight: I64) -> tuple[I64, I64, int]:
    """Return so many of the runs as can be compared, and that it is one in so many."""
    length = runs.first[leaders + 1] - runs.first[leaders]
    every = -(-int(length.sum()) // _MOST_ROWS)
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


def _without_repeats(rows: PassRows, n_keys: int) -> PassRows:
    """Return the rows with pieces cut that hold several passes, by the op they share.

    Only where a trace shows no passes at all: pieces that repeat nearly every op.
    """
    cuts: list[I64] = []
    for piece in range(len(rows)) if len(rows) <= SAMPLES else ():
        low, high = int(rows.first[piece]), int(rows.first[piece + 1])
        seq = rows.key[low:high]
        counts = np.bincount(seq, minlength=n_keys)
        used = counts[counts > 0]
        if high - low < _REPEATS * len(used):
            return rows  # it shows what one pass is; where others end follows from it
        usual = max(int(np.argmax(np.bincount(used))), int(np.median(used)))
        once = np.flatnonzero(counts[seq] == usual)
        if usual < 2 or not len(once):
            continue
        for anchor in once[:_ANCHORS].tolist():
            begins = np.flatnonzero(seq == seq[anchor])
            length = np.diff(np.append(begins, high - low))
            middle = np.median(length)
            if (np.abs(length - middle) <= 0.3 * middle).mean() > COVERED:
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


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A missing record: the number of its pass, the piece, the column, the name."""

    number: int
    kind: Kind
    piece: int
    column: int
    name: str


class _Sum:
    """Adds up what kinds of passes tell."""

    def __init__(
        self, trace: Trace, runs: Runs, keys: Keys, *, by_access: bool, every: int
    ) -> None:
        self._every = every
        self._trace, self._runs, self._keys = trace, runs, keys
        self._by_access = by_access
        self._gaps: list[_Noted] = []
        self._n_covered = self._n_missing = self._n_passes = self._n_varying = 0
        self._n_read = self._n_layers = self._n_fewer = self._n_more = 0

    def add(self, kind: Kind, found: Losses) -> None:
        """Add one kind of passes; a single one tells nothing."""
        weight = kind.weight
        n_passes = int(weight.sum())
        n_there = int((kind.rows.length * weight).sum())
        n_missing = found.n_read + found.n_alike + found.n_layers
        if n_passes < 2 or n_missing > MOST_MISSING * (n_there + n_missing):
            return
        if found.n_ops < _FEWEST_OPS:
            return  # spans that only bear one name say nothing of each other
        self._n_covered += n_there
        self._n_missing += n_missing
        self._n_passes += n_passes
        self._n_varying += found.n_varying
        self._n_read += found.n_read
        self._n_layers += found.n_layers
        self._n_fewer += found.n_fewer
        self._n_more += found.n_more
        number = self._runs.number[kind.rows.run[found.piece]]
        for i in np.argsort(number, kind="stable")[:MOST_PLACES].tolist():
            piece, column = int(found.piece[i]), int(found.key[i])
            name = self._keys.text(self._trace, int(kind.keys[column]))
            noted = _Noted(int(number[i]), kind, piece, column, name)
            self._gaps += [noted] * int(found.count[i])
        for piece, name, column in found.extra[:MOST_PLACES]:
            when = int(self._runs.number[kind.rows.run[piece]])
            self._gaps.append(_Noted(when, kind, piece, column, name))

    def finished(self, n_rows: int, n_told: int) -> Completeness:
        """Return the result; of `n_rows` records in `n_told` passes as the trace tells.

        Where far more passes were found than that, their order follows no rule.
        """
        if self._n_passes > _REPEATS * n_told + 2:
            return Completeness(False, "its passes are not alike")
        if self._n_covered < COVERED * n_rows or not self._n_passes:
            return Completeness(False, "its passes are not alike")
        n_there, n_missing = n_rows, self._n_missing
        noted = sorted(self._gaps, key=lambda one: one.number)[:MOST_PLACES]
        gaps = sorted(map(self._gap, noted), key=lambda gap: gap.time)
        n_fewer, n_more = self._n_fewer, self._n_more
        if self._trace.info.reader_id == _TWO_EVENTS:
            n_there, n_missing, at_ends = _events(self._trace, n_missing)
            n_fewer, n_more = 2 * n_fewer, 2 * n_more + at_ends
        lanes = np.count_nonzero(self._runs.of_lane >= 0)
        apart = " by thread" if len(self._runs.stretches) > 1 and lanes > 1 else ""
        rests = [f"{format_count(self._n_passes)} passes{apart} that are alike"]
        if self._n_read:
            rests.append("what later records read")
        if self._every > 1:
            rests[0] += f" (estimated from one in {self._every} of those that differ)"
        if self._n_layers:
            rests.append("layers that are alike")
        return Completeness(
            True,
            "",
            n_there,
            n_missing,
            min(n_fewer, n_missing),
            n_more,
            self._n_passes,
            self._n_varying,
            tuple(rests),
            tuple(gaps),
        )

    def _gap(self, noted: "_Noted") -> Gap:
        """Return where a record is missing."""
        kind, piece, column, name = noted.kind, noted.piece, noted.column, noted.name
        rows, trace = kind.rows, self._trace
        low, high = int(rows.first[piece]), int(rows.first[piece + 1])
        ids = spans_of(
            trace, self._runs, int(rows.run[piece]), by_access=self._by_access
        )
        begin = int(rows.begin[piece])
        ids = ids[begin : begin + high - low]
        place = np.zeros(int(kind.keys.max()) + 1)
        place[kind.keys] = kind.order
        at = int(np.count_nonzero(place[rows.key[low:high]] < kind.order[column]))
        after = int(ids[at - 1]) if at else -1
        before = int(ids[at]) if at < len(ids) else -1
        time = int(trace.spans.start[after if after >= 0 else before])
        op = trace.op_name(int(self._keys.op[kind.keys[column]]))
        return Gap(name or op, op, after, before, time)


def _events(trace: Trace, n_missing: int) -> tuple[int, int, int]:
    """Return the events that are there and that are missing, where ops are two each.

    And those that are missing at the ends, where the recording may have begun later or
    ended earlier; 0 where they are too many for chance.

    Parameters
    ----------
    n_missing : ops and graphs without a begin; the ends of some are there.
    """
    spans = trace.spans
    unfinished = quality_of(spans.flags) == Quality.UNFINISHED
    names = {trace.strings.find(text) for text in ("OP_END", "GRAPH_END")} - {-1}
    stray = np.isin(trace.markers.name, sorted(names)) if names else np.zeros(0, bool)
    n_there = 2 * len(spans) - int(unfinished.sum()) + int(stray.sum())
    # The last graph, and the ops of a lane behind the last one that ended, may have
    # been cut off where the recording ends.
    graphs = np.flatnonzero(spans.op < 0)
    last = graphs[np.argmax(spans.start[graphs])] if len(graphs) else -1
    until = np.full(len(trace.lanes), spans.start.min(), np.int64)
    ended = ~unfinished & (spans.op >= 0)
    np.maximum.at(until, spans.lane[ended], spans.start[ended])
    is_open = unfinished & ((spans.op < 0) | (spans.start < until[spans.lane]))
    if last >= 0 and unfinished[last]:
        is_open[last] = False
    n_open = int(is_open.sum())
    begin = int(spans.start.min())
    n_stray = int((trace.markers.time[stray] > begin).sum()) if stray.any() else 0
    lost = max(2 * n_missing - n_stray, n_stray) + n_open
    at_ends = int(unfinished.sum()) - n_open + int(stray.sum()) - n_stray
    return n_there, lost, at_ends if lost and at_ends < _AT_ENDS else 0
