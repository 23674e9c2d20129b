"""Filters by what spans touch: tensors, bytes of the file, experts, buffers.

Each is decided once per pattern of accesses, then looked up per span.
"""

import re
from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filter_text import is_regex, text_matcher
from ggscope.analysis.grouping import grouping
from ggscope.model.names import normalise
from ggscope.model.selection import Filter
from ggscope.model.tables import AccessColumns, Array, Space
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
Test = Callable[[slice], Bools]
"""Answers for spans ``rows``: bool[rows.stop - rows.start]."""


def thing_tests(trace: Trace, wanted: Filter) -> list[Test]:
    """Return a test for each of the parts tensors, offsets, experts and buffers."""
    tests: list[Test] = []
    if wanted.tensors is not None:
        tests.append(_tensor_test(trace, wanted.tensors))
    if wanted.offsets is not None:
        tests.append(_offset_test(trace, *wanted.offsets))
    if wanted.experts is not None:
        tests.append(_expert_test(trace, wanted.experts))
    if wanted.buffers is not None:
        tests.append(_buffer_test(trace, wanted.buffers))
    return tests


def access_test(
    trace: Trace, marks: Callable[[AccessColumns], Bools], more: Array | None = None
) -> Test:
    """Return a test for "has an access that `marks` marks".

    Parameters
    ----------
    marks : gets access columns of n rows and returns bool[n].
    more : ids of spans that pass in any case.
    """
    accesses = trace.accesses
    total = np.concatenate([[0], np.cumsum(marks(accesses.patterns))])
    hit = np.append(total[accesses.first[1:]] > total[accesses.first[:-1]], False)
    loose = accesses.loose.span[marks(accesses.loose.what)]
    if more is not None:
        loose = np.concatenate([loose, more])
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


def _offset_test(trace: Trace, first: int, stop: int) -> Test:
    """Return a test for "an access touches bytes [first, stop) of the model file".

    An access of unknown size touches the byte at its offset. One without an offset
    touches its tensor, as far as its place in the file is known.
    """
    tensors = trace.tensors
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
    wanted = [
        expert
        for expert in sorted(experts)
        if 0 <= expert < len(by_expert) and by_expert.label(expert) == str(expert)
    ]

    def test(rows: slice) -> Bools:
        found = by_expert.of(np.arange(rows.start, rows.stop))
        hit = np.isin(found.group, wanted)
        result = np.zeros(rows.stop - rows.start, np.bool_)
        result[hit if found.span is None else found.span[hit]] = True
        return result

    return test


def _buffer_test(trace: Trace, addresses: Collection[int]) -> Test:
    """Return a test for "accesses a buffer with one of these addresses"."""
    limit = 1 << 64
    wanted = np.array(sorted(a for a in addresses if 0 <= a < limit), np.uint64)
    rows = np.append(np.isin(trace.buffers.address, wanted), False)
    return access_test(trace, lambda what: rows[what.buffer])


__all__ = ["Bools", "Test", "access_test", "either", "thing_tests"]
