"""Plain loops over spans: bars, busy time, waits, barriers, gaps and traffic."""

from collections import defaultdict
from fractions import Fraction

from ggscope.model.tables import NO_WAIT, Quality, quality_of
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange


def union(intervals: list[tuple[int, int]]) -> int:
    """Return the ticks that any of the intervals covers."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        if reached is None or start > reached:
            total += end - start
            reached = end
        elif end > reached:
            total += end - reached
            reached = end
    return total


def is_timed(trace: Trace, span: int) -> bool:
    """Return whether begin and end of a span are measured or derived."""
    return int(quality_of(trace.spans.flags[span : span + 1])[0]) <= Quality.DERIVED


def bars(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (start, end, span) of tokens, else of graphs, in the order of time."""
    kinds = [LaneKind(int(k)) for k in trace.lanes.kinds]
    s = trace.spans
    every = range(len(s))
    of_lane = [i for i in every if kinds[s.lane[i]] is LaneKind.TOKEN]
    if not of_lane:
        of_lane = [i for i in every if kinds[s.lane[i]] is LaneKind.GRAPH]
    if not of_lane:
        of_lane = [
            i for i in every if kinds[s.lane[i]] is LaneKind.THREAD and s.op[i] < 0
        ]
    return sorted((int(s.start[i]), int(s.end[i]), i) for i in of_lane)


def busy_and_wait(trace: Trace) -> dict[int, tuple[int, int | None]]:
    """Return (busy, wait or None) ticks of each thread lane with a timed op."""
    s = trace.spans
    runs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    waits: dict[int, list[int]] = defaultdict(list)
    for i in range(len(s)):
        lane = int(s.lane[i])
        if trace.lanes.kinds[lane] != LaneKind.THREAD or s.op[i] < 0:
            continue
        if is_timed(trace, i):
            runs[lane].append((int(s.start[i]), int(s.end[i])))
        if s.wait is not None and s.wait[i] != NO_WAIT:
            waits[lane].append(int(s.wait[i]))
    return {
        lane: (union(parts), sum(waits[lane]) if waits[lane] else None)
        for lane, parts in runs.items()
    }


def gaps(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (lane, start, end) of all gaps of threads, engines and commands."""
    s = trace.spans
    computing = {LaneKind.THREAD, LaneKind.ENGINE, LaneKind.COMMAND}
    items = []
    for lane in range(len(trace.lanes)):
        if LaneKind(int(trace.lanes.kinds[lane])) not in computing:
            continue
        ids = [i for i in range(len(s)) if s.lane[i] == lane]
        ops = [i for i in ids if s.op[i] >= 0]
        if ops and LaneKind(int(trace.lanes.kinds[lane])) is LaneKind.THREAD:
            ids = ops  # graphs lie around them
        ids.sort(key=lambda i: int(s.start[i]))
        furthest = None
        for i in ids:
            end = int(s.end[i])
            if s.wait is not None and s.wait[i] != NO_WAIT:
                end += int(s.wait[i])
            if (
                furthest is not None
                and int(s.start[i]) > furthest[0]
                and is_timed(trace, furthest[1])
                and is_timed(trace, i)
            ):
                items.append((lane, furthest[0], int(s.start[i])))
            if furthest is None or end >= furthest[0]:
                furthest = (end, i)
    return items


def clipped_gaps(trace: Trace, time: TimeRange) -> list[tuple[int, int, int]]:
    """Return the parts of `gaps` that lie in a range."""
    cut = [(lane, max(a, time.start), min(b, time.end)) for lane, a, b in gaps(trace)]
    return [(lane, a, b) for lane, a, b in cut if a < b]


def last_at_barriers(
    ops: list[list[int]], trace: Trace, time: TimeRange | None = None
) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return how many ops end in a range, and (times last, waited for) by lane.

    Parameters
    ----------
    ops : the spans of each op, one per thread; of those that end at once the one with
        the highest id is last.
    """
    values: dict[int, tuple[int, int]] = {}
    ended = waited_by_op(ops, trace, time)
    for lane, _, waited in ended:
        times, before = values.get(lane, (0, 0))
        values[lane] = (times + 1, before + waited)
    return len(ended), values


def waited_by_op(
    ops: list[list[int]], trace: Trace, time: TimeRange | None = None
) -> list[tuple[int, str, int]]:
    """Return lane and name of the last span of each op, and what others waited."""
    s = trace.spans
    assert s.wait is not None
    items = []
    for spans in ops:
        last = max(spans, key=lambda i: (int(s.end[i]), i))
        if time is not None and not time.start < int(s.end[last]) <= time.end:
            continue
        waits = [
            int(s.wait[i]) for i in spans if i != last and int(s.wait[i]) != NO_WAIT
        ]
        name = trace.op_name(int(s.op[last]))
        items.append((int(s.lane[last]), name, sum(waits)))
    return items


def positions(trace: Trace) -> list[int]:
    """Return the position of each bar of a ubatch, -1 where it has none of its own."""
    tokens, sequences = trace.batch_tokens, trace.token_sequences
    result = []
    for _, _, span in bars(trace):
        token = trace.spans.token
        rows = [
            i
            for i in range(len(tokens))
            if token is not None and tokens.ubatch[i] == token[span]
        ]
        places = sorted(int(tokens.position[i]) for i in rows)
        of = {
            int(sequences.sequence[k])
            for k in range(len(sequences))
            if int(sequences.token[k]) in rows
        }
        is_one = len(rows) == 1 or len(of) == 1
        goes_on = bool(places) and places == list(
            range(places[0], places[0] + len(places))
        )
        result.append(places[0] if is_one and goes_on and places[0] >= 0 else -1)
    return result


def line(points: list[tuple[int, int]]) -> tuple[Fraction, Fraction]:
    """Return slope and height at 0 of the line of least squares, exactly."""
    n = len(points)
    sx, sy = sum(x for x, _ in points), sum(y for _, y in points)
    sxx, sxy = sum(x * x for x, _ in points), sum(x * y for x, y in points)
    slope = Fraction(n * sxy - sx * sy, n * sxx - sx * sx)
    return slope, (sy - slope * sx) / n
