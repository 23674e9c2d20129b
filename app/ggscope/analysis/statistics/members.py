"""The spans of a row of statistics, and the filter that leaves them alone."""

import re
from dataclasses import replace

import numpy as np

from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.links import MAX_SPANS, Linked, linked
from ggscope.analysis.rows.index import TraceIndex, mask_of_lanes
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.statistics.grouping import (
    NONE,
    OPEN_LABEL,
    WITHOUT_OPS,
    grouping,
)
from ggscope.analysis.statistics.membership import groups_called, member_test
from ggscope.analysis.statistics.scan import SpanScope
from ggscope.analysis.workers import CHUNK_ROWS, Watcher, chunks
from ggscope.model.selection import By, Filter, Selection, SpanGroup
from ggscope.model.tables import I64, Phase, Quality, Spans, empty, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_TOKEN = re.compile(r"(?:(prefill|decode) )?(\d+)")
_PHASES = {"prefill": Phase.PROMPT, "decode": Phase.GENERATE}


def group_of_span(trace: Trace, by: By, span: int) -> str | None:
    """Return the key of the group that statistics count a span in.

    None where that is no group, or several.
    """
    groups = grouping(trace, by)
    of_span = np.unique(groups.of(np.array([span], np.int64)).group)
    if len(of_span) != 1 or of_span[0] < 0:
        return None
    return groups.label(int(of_span[0]))


def spans_of_group(
    index: TraceIndex, group: SpanGroup, watcher: Watcher | None = None
) -> I64:
    """Return the ids of the spans that statistics count in a group, ascending.

    A span that belongs to several groups, or in part, is in each of them.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    trace = index.trace
    tests = []
    for by, key in ((group.by, group.key), *([group.also] if group.also else [])):
        groups = grouping(trace, by)
        group_ids = groups_called(groups, frozenset({key}))
        if not len(group_ids):
            return empty(np.int64)
        tests.append(member_test(groups, group_ids))
    scope = SpanScope(
        filter_mask(trace, group.where, watcher) if group.where else None,
        group.time,
        any(by not in WITHOUT_OPS for by in _groupings(group)),
    )
    on_lanes = None
    if group.lanes is not None:
        time = group.time or TimeRange(trace.extent.start, trace.extent.end + 1)
        on_lanes = mask_of_lanes(index, group.lanes, time)
    chosen = np.unique(np.array(group.ids, np.int64)) if group.ids else None
    n = len(trace.spans) if chosen is None else len(chosen)
    parts = [empty(np.int64)]
    for rows in chunks(n, CHUNK_ROWS):
        if watcher is not None:
            watcher.progress(rows.start, n)
        ids = np.arange(rows.start, rows.stop) if chosen is None else chosen[rows]
        keep = scope.of(trace.spans, ids)
        if on_lanes is not None:
            keep &= on_lanes[ids]
        ids = ids[keep]
        for is_member in tests:
            ids = ids[is_member(ids)]
        parts.append(ids)
    return np.concatenate(parts)


def _groupings(group: SpanGroup) -> list[By]:
    return [group.by, *([group.also[0]] if group.also else [])]


def linked_group(
    index: TraceIndex,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> Linked:
    """Return what the selected group has to do with.

    Of very many spans the first MAX_SPANS are listed, among them the longest.
    """
    group, trace = selection.group, index.trace
    ids = empty(np.int64) if group is None else spans_of_group(index, group, watcher)
    if not len(ids):
        return Linked(selection)
    longest = _longest(index.trace.spans, ids)
    shown = ids
    if len(ids) > MAX_SPANS:
        shown = np.union1d(ids[: MAX_SPANS - 1], [longest])
    chosen = Selection("spans", tuple(shown.tolist()))
    links = linked(trace, chosen, correlation, watcher)
    return replace(links, selection=selection, n_spans=len(ids), longest=longest)


def _longest(spans: Spans, ids: I64) -> int:
    """Return the longest span, of those whose end is recorded or derived if any is."""
    ticks = spans.end[ids] - spans.start[ids]
    timed = quality_of(spans.flags[ids]) <= Quality.DERIVED
    return int(ids[np.argmax(np.where(timed, ticks, -1) if timed.any() else ticks)])


def filter_of_spans(group: SpanGroup) -> Filter:
    """Return the filter for the spans of a row, or of a cell of a pivot table."""
    where = filter_of_group(group.by, group.key)
    return where if group.also is None else where.merged(filter_of_group(*group.also))


def filter_of_group(by: By, key: str) -> Filter:
    """Return the filter for the spans of a group, in the words of its field."""
    if by == "op" and key:
        return Filter(ops=frozenset({key}))
    if by == "family":
        return Filter(families=frozenset({key}))
    if by in ("thread", "engine", "lane"):
        return Filter(threads=frozenset({key}))
    if by == "phase":
        values = {phase.name.lower(): int(phase) for phase in Phase} | {NONE: -1}
        return Filter(phases=frozenset({values[key]}))
    if by == "token" and (where := _filter_of_token(key)) is not None:
        return where
    is_none = key in (NONE, OPEN_LABEL) and by != "expert"
    if key.isdecimal() or is_none:
        numbers = frozenset({-1 if is_none else int(key)})
        if by == "layer":
            return Filter(layers=numbers)
        if by == "core":
            return Filter(cores=numbers)
        if by == "numa":
            return Filter(nodes=numbers)
        if by == "expert":
            return Filter(experts=numbers)
    return Filter(groups=frozenset({f"{by}:{key}"}))


def _filter_of_token(key: str) -> Filter | None:
    if key == NONE:
        return Filter(tokens=frozenset({-1}))
    match = _TOKEN.fullmatch(key)
    if match is None:
        return None
    tokens = frozenset({int(match[2])})
    if match[1] is None:
        return Filter(tokens=tokens)
    return Filter(tokens=tokens, phases=frozenset({int(_PHASES[match[1]])}))
