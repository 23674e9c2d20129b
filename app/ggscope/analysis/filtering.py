"""Filter and search: which spans match.

A filter becomes a list of tests, one per part; each test answers for a slice of
the spans. Texts are matched once per distinct string and memory sources once per
access pattern, so the cost per span is a table look-up.
"""

import importlib
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.chunks import chunks
from ggscope.analysis.filter_text import describe_filter, format_filter, parse_filter
from ggscope.analysis.filter_things import Test, access_test, thing_tests
from ggscope.analysis.time_merge import TimeRuns
from ggscope.analysis.workers import Watcher, share_out
from ggscope.errors import QueryError
from ggscope.model.ggml import family_of
from ggscope.model.selection import Filter
from ggscope.model.tables import Array, Quality, quality_of
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
MAX_PATTERN_LENGTH = 512
_PIECE_ROWS = 1 << 18
"""Rows whose temporaries fit the cache."""
_STRINGS_PER_LOOK = 1 << 12
"""Strings that are matched between two looks at the watcher."""


def filter_mask(
    trace: Trace, wanted: Filter, watcher: Watcher | None = None
) -> Bools | None:
    """Return bool[n_spans] of the spans that match, or None for "all".

    Raises
    ------
    QueryError
        If the text is a regular expression that does not compile; the message
        says where.
    Cancelled
        From the watcher.
    """
    tests = _tests(trace, wanted, watcher)
    return _marked(tests, len(trace.spans), watcher) if tests else None


def _marked(tests: list[Test], n: int, watcher: Watcher | None) -> Bools:
    """Return bool[n] of the spans that pass all tests."""
    mask = np.empty(n, np.bool_)

    def look(_: int, rows: slice) -> None:
        part = tests[0](rows)
        for test in tests[1:]:
            part &= test(rows)
        mask[rows] = part

    share_out(look, chunks(n, _PIECE_ROWS), watcher)
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


def search(trace: Trace, text: str, watcher: Watcher | None = None) -> SearchHits:
    """Return what `text` (plain, any case; or ``/regex/``) matches.

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
    words = _Words(trace, text, watcher)
    mask = _marked([_text_test(trace, words)], len(trace.spans), watcher)
    dtype = np.int32 if len(mask) < 1 << 31 else np.int64
    found = [np.flatnonzero(mask[rows]) + rows.start for rows in chunks(len(mask))]
    ids = np.concatenate([np.zeros(0, dtype), *(f.astype(dtype) for f in found)])
    del mask, found
    ids, times = _in_time_order(trace, ids, watcher)
    return SearchHits(text, ids, times, _matching_markers(trace, words))


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
    """Tell which intervals share a tick with `time`.

    An interval of no length counts as its own tick.
    """
    return (start < time.end) & ((end > time.start) | (start >= time.start))


def text_matcher(text: str) -> Callable[[str], bool]:
    """Return a test for one string: part of it in any case, or ``/regex/``.

    A regular expression ignores case unless it ends in ``/c``. A text that starts
    with a slash but does not end in one is plain.

    Raises
    ------
    QueryError
        If the expression does not compile or is too long.
    """
    pattern = re.fullmatch(r"/(.+)/([ci]*)", text, re.DOTALL)
    if pattern is None:
        needle = text.casefold()
        return lambda string: needle in string.casefold()
    expression, flags = pattern.groups()
    if len(expression) > MAX_PATTERN_LENGTH:
        raise QueryError(
            f"the regular expression is {len(expression)} characters long; at most "
            f"{MAX_PATTERN_LENGTH} are taken."
        )
    try:
        found = re.compile(expression, 0 if "c" in flags else re.IGNORECASE).search
        if _repeats_within_repeats(expression):
            raise QueryError(
                f"the regular expression /{expression}/ repeats a repeat, such as "
                "(a+)+, which can take for ever; write it with one of the two."
            )
    except (re.error, RecursionError, OverflowError) as error:
        place = getattr(error, "pos", None)
        where = "" if place is None else f" at character {place + 1}"
        reason = getattr(error, "msg", str(error))
        raise QueryError(
            f"the regular expression /{expression}/ is not understood{where}: {reason}."
        ) from error
    return lambda string: found(string) is not None


def _repeats_within_repeats(expression: str) -> bool:
    """Tell whether an unbounded repeat holds another one.

    Backtracking over such a pattern can take exponential time, during which the
    matcher holds the interpreter lock and the window stands still.
    """
    parser: Any = importlib.import_module("re._parser")
    endless = parser.MAXREPEAT

    def within(node: object, inside: bool) -> bool:
        if isinstance(node, parser.SubPattern):
            return any(within(item, inside) for item in node.data)
        if not isinstance(node, tuple | list):
            return False
        if (
            isinstance(node, tuple)
            and len(node) == 2
            and node[0] in (parser.MAX_REPEAT, parser.MIN_REPEAT)
        ):
            _, most, body = node[1]
            is_endless = most is endless
            if is_endless and inside:
                return True
            return within(body, inside or is_endless)
        return any(within(item, inside) for item in node)

    return within(parser.parse(expression), False)


def _tests(trace: Trace, wanted: Filter, watcher: Watcher | None = None) -> list[Test]:
    """Return one test per part of the filter, the cheapest first."""
    s, tests = trace.spans, list[Test]()
    if wanted.time is not None:
        time = wanted.time
        tests.append(lambda rows: touches(s.start[rows], s.end[rows], time))
    low, high = wanted.min_duration, wanted.max_duration
    if low is not None:
        tests.append(lambda rows: s.end[rows] - s.start[rows] >= low)
    if high is not None:
        tests.append(lambda rows: s.end[rows] - s.start[rows] <= high)
    if wanted.qualities is not None:
        accepted = _table((q in wanted.qualities for q in Quality), missing=False)
        tests.append(lambda rows: accepted[quality_of(s.flags[rows])])
    for column, numbers in (
        (s.phase, wanted.phases),
        (s.layer, wanted.layers),
        (s.token, wanted.tokens),
    ):
        if numbers is not None:
            tests.append(_number_test(column, numbers))
    if wanted.threads is not None:
        names = {name.casefold() for name in wanted.threads}
        lanes = _table(lane.name.casefold() in names for lane in trace.lanes)
        tests.append(_lookup(lanes, s.lane))
    tests += _op_tests(trace, wanted)
    tests += thing_tests(trace, wanted)
    if wanted.spaces is not None:
        spaces = np.array(sorted(wanted.spaces), np.int64)
        tests.append(access_test(trace, lambda what: np.isin(what.space, spaces)))
    if wanted.text:
        tests.append(_text_test(trace, _Words(trace, wanted.text, watcher)))
    return tests


def _op_tests(trace: Trace, wanted: Filter) -> list[Test]:
    tests: list[Test] = []
    if wanted.ops is not None:
        patterns = [name.upper() for name in wanted.ops]
        tests.append(
            _op_lookup(
                trace,
                lambda name: any(fnmatchcase(name.upper(), p) for p in patterns),
            )
        )
    if wanted.families is not None:
        families = wanted.families
        tests.append(_op_lookup(trace, lambda name: family_of(name) in families))
    return tests


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


class _Words:
    """Which of a trace's texts match.

    Attributes
    ----------
    matches : tells it of any text.
    strings : bool[n_strings + 1] of the trace's strings; the last entry, False,
        stands for "none".
    """

    def __init__(self, trace: Trace, text: str, watcher: Watcher | None) -> None:
        self.matches = text_matcher(text)
        texts = trace.strings.texts()
        self.strings = np.zeros(len(texts) + 1, np.bool_)
        for rows in chunks(len(texts), _STRINGS_PER_LOOK):
            self.strings[rows] = list(map(self.matches, texts[rows]))
            if watcher is not None:
                watcher.progress(rows.stop, len(texts))


def _text_test(trace: Trace, words: _Words) -> Test:
    """Return a test for "its name, op, lane or a tensor of it matches"."""
    matches, s = words.matches, trace.spans
    tensors = np.append(words.strings[trace.tensors.name], False)
    tests = [
        _lookup(words.strings, s.name),
        _op_lookup(trace, matches),
        _lookup(_table(matches(lane.name) for lane in trace.lanes), s.lane),
        access_test(trace, lambda what: tensors[what.tensor]),
    ]
    if s.tensor is not None:
        tests.append(_lookup(tensors, s.tensor))

    def test(rows: slice) -> Bools:
        result = tests[0](rows)
        for other in tests[1:]:
            result |= other(rows)
        return result

    return test


def _matching_markers(trace: Trace, words: _Words) -> Array:
    m = trace.markers
    lanes = _table(words.matches(lane.name) for lane in trace.lanes)
    ids = np.flatnonzero(words.strings[m.name] | lanes[m.lane])
    return ids[np.argsort(m.time[ids], kind="stable")]


__all__ = [
    "MAX_PATTERN_LENGTH",
    "SearchHits",
    "describe_filter",
    "filter_mask",
    "format_filter",
    "parse_filter",
    "search",
    "text_matcher",
    "touches",
]
