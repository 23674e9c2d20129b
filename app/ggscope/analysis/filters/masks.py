"""Filter and search: which spans match.

A filter becomes a list of tests, one per part; each test answers for a slice of
the spans. Texts are matched once per distinct string and memory sources once per
access pattern, and so is what spans touch (tensors, bytes of the file, experts,
buffers), so the cost per span is a table look-up.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import cast

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.text import (
    UNKNOWN_OPS,
    is_regex,
    parse_filter,
    text_matcher,
)
from ggscope.analysis.links import patterns_with
from ggscope.analysis.order.time_merge import TimeRuns
from ggscope.analysis.statistics.amounts import Amount, amounts
from ggscope.analysis.statistics.grouping import WITHOUT_OPS, grouping
from ggscope.analysis.statistics.membership import groups_called, member_test
from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.errors import QueryError
from ggscope.model.ggml.ops import all_op_names, family_of
from ggscope.model.growing import Growing
from ggscope.model.names import normalise
from ggscope.model.selection import By, Filter, Not
from ggscope.model.tables import (
    LONGEST_WAIT,
    AccessColumns,
    Array,
    Quality,
    Space,
    distinct,
    quality_of,
    ranked,
)
from ggscope.model.trace import (
    Lane,
    LaneKind,
    Trace,
    lane_titles,
    unknown_op_number,
)
from ggscope.model.units import TimeRange

Bools = npt.NDArray[np.bool_]
Test = Callable[[slice], Bools]
"""Answers for spans ``rows``: bool[rows.stop - rows.start]."""
_PIECE_ROWS = 1 << 18
"""Rows whose temporaries fit the cache."""
_STRINGS_PER_LOOK = 1 << 12
"""Strings that are matched between two looks at the watcher."""


def access_test(trace: Trace, marks: Callable[[AccessColumns], Bools]) -> Test:
    """Return a test for "has an access that `marks` marks".

    `marks` gets access columns of n rows and returns bool[n].
    """
    accesses = trace.accesses
    hit = patterns_with(trace, marks(accesses.patterns))
    loose = accesses.loose.span[marks(accesses.loose.what)]
    loose = np.unique(loose[loose >= 0])

    def test(rows: slice) -> Bools:
        result: Bools = hit[accesses.pattern[rows]]
        begin, end = np.searchsorted(loose, (rows.start, rows.stop))
        result[loose[begin:end] - rows.start] = True
        return result

    return test


def either(tests: Collection[Test]) -> Test:
    """Return a test for "passes one of `tests`"."""
    first, *others = tests

    def test(rows: slice) -> Bools:
        result = first(rows)
        for other in others:
            result |= other(rows)
        return result

    return test


def _tensor_test(trace: Trace, names: Collection[str]) -> Test:
    """Return a test for "is, or accesses, a tensor of one of these names".

    Names count without suffixes, nameless ones (`` (copy)``) by their suffix; ``*``
    stands for any text. A ``/regex/`` is looked for in the whole name.
    """
    accepts = _name_matcher(names)
    texts = trace.strings.texts()
    known: dict[int, bool] = {}

    def table(strings: Array) -> Bools:
        for string in np.unique(strings).tolist():
            if string not in known:
                known[string] = string >= 0 and accepts(texts[string])
        return np.array([known[i] for i in strings.tolist()], np.bool_)

    rows = np.append(table(trace.tensors.name), False)
    tests = [access_test(trace, lambda what: rows[what.tensor])]
    spans = trace.spans
    if spans.tensor is not None:
        column = spans.tensor
        tests.append(lambda at: rows[column[at]])
    else:
        named = np.zeros(len(texts) + 1, np.bool_)
        named[:-1] = [accepts(text) for text in texts]
        # Only an op is its tensor; a token may be called anything.
        tests.append(lambda at: named[spans.name[at]] & (spans.op[at] >= 0))
    return either(tests)


def _name_matcher(names: Collection[str]) -> Callable[[str], bool]:
    expressions = [text_matcher(name) for name in names if is_regex(name)]
    names = [name for name in names if not is_regex(name)]
    plain = {name for name in names if "*" not in name}
    bases = {normalise(name) for name in plain} - {""}
    patterns = [
        re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        for name in names
        if "*" in name
    ]

    def accepts(text: str) -> bool:
        base = normalise(text)
        return (
            text in plain
            or base in bases
            or any(p.fullmatch(base) for p in patterns)
            or any(matches(text) for matches in expressions)
        )

    return accepts


def _offset_test(trace: Trace, touched: tuple[int, int]) -> Test:
    """Return a test for "an access touches bytes [first, stop) of the model file".

    An access of unknown size touches the byte at its offset. One without an offset
    touches its tensor, as far as its place in the file is known.
    """
    tensors, (first, stop) = trace.tensors, touched
    place = np.append(tensors.offset, -1).astype(np.int64)
    extent = np.append(tensors.size, -1).astype(np.int64)

    def marks(what: AccessColumns) -> Bools:
        lacks = what.offset < 0
        offset = np.where(lacks, place[what.tensor], what.offset)
        size = np.where(lacks, extent[what.tensor], what.size)
        touches = (offset < stop) & (offset + np.maximum(size, 1) > first)
        is_file: Bools = (what.space == Space.FILE) & (offset >= 0)
        return is_file & touches & (stop > first)

    return access_test(trace, marks)


def _expert_test(trace: Trace, experts: Collection[int]) -> Test:
    """Return a test for "reads of one of these experts", as statistics by expert say.

    The op that only lists which ones the router chose reads of none.
    """
    by_expert = grouping(trace, "expert")
    groups = [
        expert
        for expert in sorted(experts)
        if 0 <= expert < len(by_expert) and by_expert.label(expert) == str(expert)
    ]

    def test(rows: slice) -> Bools:
        grouped = by_expert.of(np.arange(rows.start, rows.stop))
        hit = np.isin(grouped.group, groups)
        result = np.zeros(rows.stop - rows.start, np.bool_)
        result[hit if grouped.span is None else grouped.span[hit]] = True
        return result

    return test


def _buffer_test(trace: Trace, addresses: Collection[int]) -> Test:
    """Return a test for "accesses a buffer with one of these addresses"."""
    limit = 1 << 64
    requested = np.array(sorted(a for a in addresses if 0 <= a < limit), np.uint64)
    rows = np.append(np.isin(trace.buffers.address, requested), False)
    return access_test(trace, lambda what: rows[what.buffer])


def filter_mask(
    trace: Trace, where: Filter, watcher: Watcher | None = None, *, first: int = 0
) -> Bools | None:
    """Return bool[n_spans] of the spans that match, or None for "all".

    With `first` only of the spans from that one on.

    Raises
    ------
    QueryError
        If the text is a regular expression that does not compile; the message
        says where.
    Cancelled
        From the watcher.
    """
    tests = _tests(trace, where, watcher)
    return _marked(tests, len(trace.spans), watcher, first) if tests else None


def read_filter(text: str, trace: Trace) -> Filter:
    """Return the filter that an expression says of this trace; see `parse_filter`.

    Raises
    ------
    QueryError
        Also where it names an op that neither the trace nor ggml knows.
    """
    where = parse_filter(text, trace.clock.unit)
    known_names = {
        trace.op_name(op).upper() for op in distinct(trace.spans.op).tolist()
    }
    known_names |= {name.upper() for name in all_op_names()}
    for name in sorted(_named_ops(where)):
        if name == UNKNOWN_OPS or "*" in name or is_regex(name):
            continue
        if name not in known_names:
            near = get_close_matches(name, sorted(known_names), 3, 0.6)
            hint = f"Did you mean {' or '.join(near)}?" if near else _some_ops(trace)
            raise QueryError(f"Unknown op {name}. {hint}")
    return where


def _named_ops(where: Filter) -> set[str]:
    """Return the ops that a filter names, in its clauses too."""
    names = {name.upper() for name in where.ops or () if not is_regex(name)}
    for clause in where.clauses:
        inner = (clause.of,) if isinstance(clause, Not) else clause.of
        for one in inner:
            names |= _named_ops(one)
    return names


def _some_ops(trace: Trace) -> str:
    names = sorted({trace.op_name(op) for op in distinct(trace.spans.op).tolist()})
    names = [name for name in names if name]
    if not names:
        return "This trace has no ops."
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"This trace has {', '.join(names[:12])}{more}."


def _marked(
    tests: list[Test], n: int, watcher: Watcher | None, first: int = 0
) -> Bools:
    """Return bool[n - first] of the spans from `first` on that pass all tests."""
    mask, passes = np.empty(n - first, np.bool_), _all_of(tests)

    def apply(_: int, rows: slice) -> None:
        mask[rows] = passes(slice(rows.start + first, rows.stop + first))

    share_out(apply, chunks(n - first, _PIECE_ROWS), watcher)
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class SearchHits:
    """Spans and markers that match a text.

    Attributes
    ----------
    text : what was searched.
    ids : span ids in time order, int32 (int64 beyond 2^31 spans).
    times : int64, their start ticks, sorted.
    markers : ids of matching markers, in time order.
    """

    text: str
    ids: Array
    times: Array
    markers: Array


def search(
    trace: Trace, text: str, watcher: Watcher | None = None, *, first: int = 0
) -> SearchHits:
    """Return what `text` (plain, any case; or ``/regex/``) matches.

    With `first` only those of the spans from that one on, and all markers.

    It is looked for in span names, op names, names of accessed tensors, lane
    names and marker names. Raises QueryError and Cancelled as `filter_mask`. An
    empty text matches nothing.

    Notes
    -----
    Each distinct string is looked at once. Takes 12 bytes per hit.
    """
    if not text:
        nothing = np.zeros(0, np.int64)
        return SearchHits(text, nothing, nothing, nothing)
    matching = _MatchingStrings(trace, text, watcher)
    mask = _marked([_text_test(trace, matching)], len(trace.spans), watcher, first)
    dtype = np.int32 if len(trace.spans) < 1 << 31 else np.int64
    ids_of_chunks = [
        np.flatnonzero(mask[rows]) + rows.start + first for rows in chunks(len(mask))
    ]
    ids = np.concatenate(
        [np.zeros(0, dtype), *(f.astype(dtype) for f in ids_of_chunks)]
    )
    del mask, ids_of_chunks
    if first:
        ids = ids[np.argsort(trace.spans.start[ids], kind="stable")]
        times = trace.spans.start[ids]
    else:
        ids, times = _in_time_order(trace, ids, watcher)
    return SearchHits(text, ids, times, _matching_markers(trace, matching))


class GrowingMask:
    """The mask of a filter of a trace that grows.

    Parameters
    ----------
    mask : of the first spans.
    """

    def __init__(self, mask: Bools) -> None:
        self._rows = Growing(np.bool_)
        self._rows.append(mask)

    def extended_to(self, trace: Trace, where: Filter) -> Bools:
        """Return bool[n_spans] of `trace`, whose first spans are the known ones."""
        n = len(self._rows)
        if n < len(trace.spans):
            new = filter_mask(trace, where, first=n)
            self._rows.append(
                np.ones(len(trace.spans) - n, np.bool_) if new is None else new
            )
        return self._rows.view()


class GrowingHits:
    """What a search finds in a trace that grows.

    Parameters
    ----------
    hits : in the first `n` spans.

    Attributes
    ----------
    n_same : how many of the first hits are as they were before the last `extended_to`.
    """

    def __init__(self, hits: SearchHits, n: int) -> None:
        self._text, self._n = hits.text, n
        self._ids, self._times = Growing(hits.ids.dtype), Growing(np.int64)
        self._ids.append(hits.ids)
        self._times.append(hits.times)
        self.n_same = len(hits.ids)

    def extended_to(self, trace: Trace) -> SearchHits:
        """Return the hits in `trace`, whose first spans are the known ones."""
        new = search(trace, self._text, first=self._n)
        ids, times, at = new.ids, new.times, len(self._ids)
        if len(ids):
            at = int(np.searchsorted(self._times.view(), times[0], "right"))
            ids = np.concatenate([self._ids.view()[at:], ids])
            ids = ids[np.argsort(trace.spans.start[ids], kind="stable")]
            self._ids.put(at, ids)
            self._times.put(at, trace.spans.start[ids])
        self._n, self.n_same = len(trace.spans), at
        return SearchHits(self._text, self._ids.view(), self._times.view(), new.markers)


def _in_time_order(
    trace: Trace, ids: Array, watcher: Watcher | None
) -> tuple[Array, Array]:
    """Return (ids, start ticks) by (start, id); `ids` ascend."""
    merge = TimeRuns(trace).merge(ids)
    ordered, times = np.empty_like(ids), np.empty(len(ids), np.int64)

    def arrange(_: int, rows: slice) -> None:
        ordered[rows] = merge.slice(rows.start, rows.stop)
        times[rows] = trace.spans.start[ordered[rows]]

    share_out(arrange, chunks(len(ids), _PIECE_ROWS), watcher)
    return ordered, times


def touches(start: Array, end: Array, time: TimeRange) -> Bools:
    """Return which intervals share a tick with `time`.

    An interval of no length counts as its own tick.
    """
    return (start < time.end) & ((end > time.start) | (start >= time.start))


def _tests(trace: Trace, where: Filter, watcher: Watcher | None = None) -> list[Test]:
    """Return one test per part of the filter, the cheapest first."""
    s, tests = trace.spans, list[Test]()
    if where.time is not None:
        time = where.time
        tests.append(lambda rows: touches(s.start[rows], s.end[rows], time))
    low, high = where.min_duration, where.max_duration
    if low is not None:
        tests.append(lambda rows: s.end[rows] - s.start[rows] >= low)
    if high is not None:
        tests.append(lambda rows: s.end[rows] - s.start[rows] <= high)
    if where.min_wait is not None or where.max_wait is not None:
        tests.append(_wait_test(s.wait, where.min_wait, where.max_wait))
    if where.qualities is not None:
        accepted = _table((q in where.qualities for q in Quality), missing=False)
        tests.append(lambda rows: accepted[quality_of(s.flags[rows])])
    for column, numbers in (
        (s.phase, where.phases),
        (s.layer, where.layers),
        (s.token, where.tokens),
        (s.core, where.cores),
        (s.numa, where.nodes),
    ):
        if numbers is not None:
            tests.append(_number_test(column, numbers))
    if where.threads is not None:
        accepts = _lane_matcher(trace, where.threads)
        tests.append(_lookup(_table(map(accepts, trace.lanes)), s.lane))
    if where.min_size is not None or where.max_size is not None:
        tests.append(_size_test(trace, where.min_size, where.max_size))
    if where.min_traffic is not None or where.max_traffic is not None:
        limits = where.min_traffic, where.max_traffic
        tests.append(_amount_test(trace, "traffic", *limits))
    if where.min_rate is not None or where.max_rate is not None:
        tests.append(_amount_test(trace, "rate", where.min_rate, where.max_rate))
    if where.groups is not None:
        tests.append(_group_test(trace, where.groups))
    if where.categories is not None:
        tests.append(_category_test(trace, where.categories))
    if where.ops is not None:
        tests.append(_op_lookup(trace, _op_matcher(where.ops)))
    if where.families is not None:
        families = where.families
        tests.append(_op_lookup(trace, lambda name: family_of(name) in families))
    if where.tensors is not None:
        tests.append(_tensor_test(trace, where.tensors))
    if where.offsets is not None:
        tests.append(_offset_test(trace, where.offsets))
    if where.experts is not None:
        tests.append(_expert_test(trace, where.experts))
    if where.buffers is not None:
        tests.append(_buffer_test(trace, where.buffers))
    if where.spaces is not None:
        spaces = np.array(sorted(where.spaces), np.int64)
        tests.append(access_test(trace, lambda what: np.isin(what.space, spaces)))
    if where.text:
        tests.append(_text_test(trace, _MatchingStrings(trace, where.text, watcher)))
    for clause in where.clauses:
        if isinstance(clause, Not):
            tests.append(_turned(_all_of(_tests(trace, clause.of, watcher))))
        else:
            tests.append(
                either([_all_of(_tests(trace, one, watcher)) for one in clause.of])
            )
    return tests


def _all_of(tests: list[Test]) -> Test:
    def test(rows: slice) -> Bools:
        result = np.ones(rows.stop - rows.start, np.bool_)
        for one in tests:
            result &= one(rows)
        return result

    return test


def _turned(test: Test) -> Test:
    return lambda rows: ~test(rows)


def _lane_matcher(trace: Trace, names: Collection[str]) -> Callable[[Lane], bool]:
    """Return a test for "is one of these", by name, number, raw number or pattern.

    Lanes that share a name are distinguished by their titles, "Backend 1 / thread 0".

    ``0`` and ``0-3`` are the numbers that lanes show ("thread 0"); where no lane shows
    one, the file's own number of a thread is meant.
    """
    shown = {name.casefold() for name in names if not is_regex(name)}
    patterns = [text_matcher(name) for name in names if is_regex(name)]
    stars = [name for name in shown if "*" in name]
    numbers = {_lane_number(lane) for lane in trace.lanes} - {"-"}
    titles = [title.casefold() for title in lane_titles(trace.lanes)]
    accepted = set(shown)
    for name in shown:
        span = re.fullmatch(r"(\d{1,9})(?:-|–|\.\.)(\d{1,9})", name)
        if span is not None:
            accepted |= {n for n in numbers if int(span[1]) <= int(n) <= int(span[2])}
    raw = {name for name in accepted if name.isdecimal() and name not in numbers}

    def accepts(lane: Lane) -> bool:
        name, title = lane.name.casefold(), titles[lane.id]
        return (
            name in accepted
            or title in accepted
            or _lane_number(lane) in accepted
            or lane.attributes.get("raw", "") in raw
            or any(fnmatchcase(n, star) for n in (name, title) for star in stars)
            or any(matches(lane.name) for matches in patterns)
        )

    return accepts


def _lane_number(lane: Lane) -> str:
    """Return "3" of "thread 3"; "-", which nobody asks for, without a number."""
    if lane.kind is not LaneKind.THREAD:
        return "-"
    head, _, last = lane.name.rpartition(" ")
    return last if last.isdecimal() and head.casefold() == "thread" else "-"


def _wait_test(wait: Array | None, low: int | None, high: int | None) -> Test:
    """Return a test for "the recorded wait is within these".

    The longest wait stands for longer ones: it is below no limit.
    """
    shortest = max(low or 0, 0)
    longest = LONGEST_WAIT if high is None else min(high, LONGEST_WAIT - 1)
    if wait is None or shortest > longest:
        return lambda rows: np.zeros(rows.stop - rows.start, np.bool_)
    return lambda rows: (wait[rows] >= shortest) & (wait[rows] <= longest)


def _size_test(trace: Trace, low: int | None, high: int | None) -> Test:
    """Return a test for "the known bytes of its accesses are within these".

    Spans none of whose accesses has a known size pass no test.
    """
    accesses = trace.accesses
    total = _known_bytes(accesses.patterns.size, accesses.first)
    fits = np.append(_within(total, low, high), False)
    loose = accesses.loose
    rows = np.flatnonzero((loose.span >= 0) & (loose.what.size >= 0))
    named, _, inverse = ranked(loose.span[rows])
    more = np.zeros(len(named), np.int64)
    np.add.at(more, inverse, loose.what.size[rows].astype(np.int64))
    of_pattern = np.append(total, -1)[accesses.pattern[named]]
    named_fits = _within(np.maximum(of_pattern, 0) + more, low, high)

    def test(rows: slice) -> Bools:
        result: Bools = fits[accesses.pattern[rows]]
        begin, end = np.searchsorted(named, (rows.start, rows.stop))
        result[named[begin:end] - rows.start] = named_fits[begin:end]
        return result

    return test


def _known_bytes(size: Array, first: Array) -> Array:
    """Return the known bytes of each pattern, int64; -1 where none are known."""
    known = size >= 0
    cumulated = np.concatenate(
        [[0], np.cumsum(np.where(known, size, 0).astype(np.int64))]
    )
    n_known = np.concatenate([[0], np.cumsum(known)])
    total = cumulated[first[1:]] - cumulated[first[:-1]]
    return np.where(n_known[first[1:]] > n_known[first[:-1]], total, -1)


def _within(values: Array, low: int | None, high: int | None) -> Bools:
    result: Bools = values >= max(low or 0, 0)
    if high is not None:
        result &= values <= high
    return result


def _amount_test(trace: Trace, of: Amount, low: int | None, high: int | None) -> Test:
    """Return a test for "is an op whose traffic, or rate, is within these"."""
    amount, op = amounts(trace, of), trace.spans.op
    return lambda rows: _within(amount(rows), low, high) & (op[rows] >= 0)


def _group_test(trace: Trace, rows_of_statistics: Collection[str]) -> Test:
    """Return a test for "statistics count it in one of these rows"."""
    keys: dict[By, set[str]] = {}
    for row in rows_of_statistics:
        by, _, key = row.partition(":")
        keys.setdefault(cast("By", by), set()).add(key)
    tests = [_rows_test(trace, by, frozenset(of_by)) for by, of_by in keys.items()]
    return either(tests)


def _category_test(trace: Trace, names: Collection[str]) -> Test:
    """Return a test for "its category is one of these"."""
    column = trace.spans.category
    if column is None:
        return lambda rows: np.zeros(rows.stop - rows.start, np.bool_)
    accepts = _word_matcher(names)
    present = distinct(column)
    table = np.zeros(int(present.max(initial=-1)) + 2, np.bool_)
    for code in present[present >= 0].tolist():
        table[code] = accepts(trace.strings[code])
    return _lookup(table, column)


def _rows_test(trace: Trace, by: By, keys: frozenset[str]) -> Test:
    groups, op = grouping(trace, by), trace.spans.op
    is_member = member_test(groups, groups_called(groups, keys))
    if by in WITHOUT_OPS:
        return lambda rows: is_member(np.arange(rows.start, rows.stop))
    return lambda rows: is_member(np.arange(rows.start, rows.stop)) & (op[rows] >= 0)


def _op_matcher(names: Collection[str]) -> Callable[[str], bool]:
    accepts, has_unknown = _word_matcher(names), UNKNOWN_OPS in names
    return lambda name: (
        accepts(name) or (has_unknown and unknown_op_number(name) is not None)
    )


def _word_matcher(names: Collection[str]) -> Callable[[str], bool]:
    """Return a test for "is one of these", in any case, with ``*`` or by pattern."""
    patterns = [name.upper() for name in names if not is_regex(name)]
    expressions = [text_matcher(name) for name in names if is_regex(name)]
    return lambda name: (
        any(fnmatchcase(name.upper(), p) for p in patterns)
        or any(matches(name) for matches in expressions)
    )


def _op_lookup(trace: Trace, accepts: Callable[[str], bool]) -> Test:
    n = int(trace.spans.op.max(initial=-1)) + 1
    return _lookup(_table(accepts(trace.op_name(i)) for i in range(n)), trace.spans.op)


def _table(accepted: Iterable[bool], *, missing: bool = False) -> Bools:
    """Return a look-up table whose last entry answers for -1."""
    return np.array([*accepted, missing], np.bool_)


def _lookup(table: Bools, column: Array) -> Test:
    return lambda rows: table[column[rows]]


def _number_test(column: Array | None, numbers: Collection[int]) -> Test:
    if column is None:
        constant = -1 in numbers
        return lambda rows: np.full(rows.stop - rows.start, constant, np.bool_)
    # Numbers that do not fit the column cannot occur in it.
    limits = np.iinfo(column.dtype)
    fitting = [i for i in sorted(numbers) if limits.min <= i <= limits.max]
    values = np.array(fitting, column.dtype)
    return lambda rows: np.isin(column[rows], values)


class _MatchingStrings:
    """Matches of a search text among the strings of a trace.

    Attributes
    ----------
    matches : test for any text.
    is_match : bool[n_strings + 1] of the trace's strings; the last entry, False,
        stands for "none".
    """

    def __init__(self, trace: Trace, text: str, watcher: Watcher | None) -> None:
        self.matches = text_matcher(text)
        texts = trace.strings.texts()
        self.is_match = np.zeros(len(texts) + 1, np.bool_)
        for rows in chunks(len(texts), _STRINGS_PER_LOOK):
            self.is_match[rows] = list(map(self.matches, texts[rows]))
            if watcher is not None:
                watcher.progress(rows.stop, len(texts))


def _text_test(trace: Trace, matching: _MatchingStrings) -> Test:
    """Return a test for "its name, op, lane or a tensor of it matches"."""
    matches, s = matching.matches, trace.spans
    tensors = np.append(matching.is_match[trace.tensors.name], False)
    tests = [
        _lookup(matching.is_match, s.name),
        _op_lookup(trace, matches),
        _lookup(_table(map(matches, trace.lanes.names)), s.lane),
        access_test(trace, lambda what: tensors[what.tensor]),
    ]
    if s.tensor is not None:
        tests.append(_lookup(tensors, s.tensor))
    return either(tests)


def _matching_markers(trace: Trace, matching: _MatchingStrings) -> Array:
    m = trace.markers
    lanes = _table(map(matching.matches, trace.lanes.names))
    ids = np.flatnonzero(matching.is_match[m.name] | lanes[m.lane])
    return ids[np.argsort(m.time[ids], kind="stable")]
