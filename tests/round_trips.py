"""What a trace has that a converted file gives back, for comparing the two."""

from collections import Counter

import numpy as np

from ggscope.exporters.events import Events
from ggscope.model.tables import NO_WAIT, Quality, quality_of
from ggscope.model.trace import Trace


def _shown(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def lane_of(trace: Trace, lane: int) -> tuple[object, ...]:
    """Return what distinguishes lanes: kind, groups, name and the lane beneath."""
    one = trace.lanes[lane]
    over = one.attributes.get("over", "")
    beneath = _shown(trace.lanes[int(over)].name) if over.isdecimal() else ""
    return one.kind.name, tuple(map(_shown, one.group)), _shown(one.name), beneath


def spans_of(trace: Trace) -> list[tuple[object, ...]]:
    """Return each span with its lane, exact times, texts and how its end is known.

    Where no end is known there is none here: it is drawn to different places.
    """
    s, strings = trace.spans, trace.strings
    lanes = [lane_of(trace, i) for i in range(len(trace.lanes))]
    n = len(s)
    quality = quality_of(s.flags)
    empty = np.full(n, -1)
    columns = [
        empty if getattr(s, name) is None else getattr(s, name)
        for name in ("category", "layer", "token", "core", "numa")
    ]
    wait = np.full(n, NO_WAIT) if s.wait is None else s.wait
    return [
        (
            lanes[int(s.lane[i])],
            int(s.start[i]),
            None if quality[i] == Quality.UNFINISHED else int(s.end[i]),
            _shown(trace.span_name(i)),
            _shown(trace.op_name(int(s.op[i]))),
            _shown(strings[int(columns[0][i])]),
            Quality(quality[i]).word,
            *(int(column[i]) for column in columns[1:]),
            None if wait[i] in (NO_WAIT, 0) else int(wait[i]),
        )
        for i in range(n)
    ]


def differences(a: Trace, b: Trace) -> list[str]:
    """Return what of a trace another one lacks or has differently, a line each.

    Texts of log lines are left out of files on purpose; `b` may not have them.
    """
    lines = []
    first, second = spans_of(a), spans_of(b)
    if has_cut_waits(a):
        first, second = ([row[:-1] for row in rows] for rows in (first, second))
    for name, left, right in (
        ("spans", first, second),
        ("lane order", _lane_order(a), _lane_order(b)),
        ("markers", _markers(a, is_log=a.log is not None), _markers(b)),
        ("counters", _counters(a), _counters(b)),
        ("arrows", _arrows(a, first), _arrows(b, second)),
        ("clock", [repr(a.clock)], [repr(b.clock)]),
    ):
        gone, new = Counter(left) - Counter(right), Counter(right) - Counter(left)
        if gone or new:
            some = list(gone.items())[:2], list(new.items())[:2]
            lines.append(f"{name}: {gone.total()} gone, {new.total()} new: {some}")
    if _lane_order(a) != _lane_order(b):
        lines.append("lanes come in another order")
    return lines


def has_cut_waits(trace: Trace) -> bool:
    """Return whether waits reach into what follows: files hold them up to there."""
    events = Events(trace)
    waits = events.waits(events.nesting())
    if waits is None or trace.spans.wait is None:
        return trace.spans.wait is not None
    recorded = trace.spans.wait[events.spans].astype(np.int64)
    return bool((waits != np.where(recorded == NO_WAIT, 0, recorded)).any())


def _lane_order(trace: Trace) -> list[tuple[object, ...]]:
    """Return the lanes with spans or markers: groups, and each in its order."""
    used = set(trace.spans.lane.tolist()) | set(trace.markers.lane.tolist())
    groups: dict[object, list[int]] = {}
    for i in sorted(used, key=lambda i: (trace.lanes[i].sort_key, i)):
        lane = trace.lanes[i]
        key = tuple(map(_shown, lane.group)) or lane.kind.name
        groups.setdefault(key, []).append(i)
    ordered = sorted(groups.items(), key=lambda item: repr(item[0]))
    return [lane_of(trace, i) for _, lanes in ordered for i in lanes]


def _markers(trace: Trace, *, is_log: bool = False) -> list[tuple[object, ...]]:
    m, strings = trace.markers, trace.strings
    return [
        (
            lane_of(trace, int(m.lane[i])),
            int(m.time[i]),
            _shown(strings[int(m.name[i])] or "–"),
            "" if is_log else _shown(strings[int(m.detail[i])]),
        )
        for i in range(len(m))
    ]


def _counters(trace: Trace) -> list[tuple[object, ...]]:
    rows = []
    for series in trace.counters:
        known = np.isfinite(series.value)
        samples = zip(
            series.time[known].tolist(), series.value[known].tolist(), strict=True
        )
        facts = _shown(series.name), series.unit, tuple(samples)
        if len(facts[2]):
            rows.append((*facts, series.shape.name))
    return rows


def _arrows(trace: Trace, spans: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    pairs = zip(trace.flows.source.tolist(), trace.flows.target.tolist(), strict=True)
    return [(spans[a], spans[b]) for a, b in set(pairs)]
