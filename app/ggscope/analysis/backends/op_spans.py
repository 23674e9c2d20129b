"""Spans of a recording that listed ops are, by tensor and op name."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.workers import Watcher, chunks
from ggscope.model.backend_ops import BackendOps
from ggscope.model.tables import I64, looked_up
from ggscope.model.trace import Trace

_CUT = "…"


class SpanRule(IntEnum):
    """Whether spans have the name of a listed op."""

    NONE = 0
    """No span has it."""
    OWN = 1
    """The file itself names the span."""
    NAME = 2
    """Spans have the tensor's name and the op, and nothing else has both."""
    OP = 3
    """The list has no names: spans have the op, of which it lists one shape."""
    AMBIGUOUS = 4
    """The name or the op is cut and may be one of several; or without names the op has
    several shapes."""
    OTHER_OP = 5
    """Spans of that name are of another op."""


@dataclass(frozen=True, slots=True, eq=False)
class SpanJoin:
    """Spans of listed ops.

    Attributes
    ----------
    rule : uint8[n], `SpanRule` of each listed op.
    key : int64[n], which entry of `first` it has; -1 none, or a span of its own.
    own : int64[n], the span that the file itself states, -1 none.
    first : int64[k + 1], entry i has ``ids[first[i] : first[i + 1]]``.
    ids : int64[m], spans, ascending in each entry.
    """

    rule: npt.NDArray[np.uint8]
    key: I64
    own: I64
    first: I64
    ids: I64

    def spans_of(self, rows: I64, limit: int) -> I64:
        """Return the spans of some listed ops, in order, each once; `limit` of them."""
        own = self.own[rows]
        parts = [own[own >= 0]]
        n = len(parts[0])
        for key in np.unique(self.key[rows]).tolist():
            if key >= 0 and n < limit:
                parts.append(self.ids[self.first[key] : self.first[key + 1]][:limit])
                n += len(parts[-1])
        return np.unique(np.concatenate(parts))[:limit].astype(np.int64)

    def count(self, *rules: SpanRule) -> int:
        """Return how many listed ops have one of some rules."""
        return int(np.isin(self.rule, rules).sum())


def joined_spans(
    trace: Trace, listing: BackendOps, watcher: Watcher | None = None
) -> SpanJoin:
    """Return the spans of each listed op.

    A listed op that the file gives no span has those of the same tensor name and op in
    the recording beside, in all passes and on all threads. Names are compared as far
    as the list writes them out, and have to agree uniquely: one name and one op of the
    recording. A list without names is joined by ops that it has with one shape.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    ops = listing.ops
    own = ops.span.astype(np.int64)
    rule = np.where(own >= 0, SpanRule.OWN, SpanRule.NONE).astype(np.uint8)
    key = np.full(len(ops), -1, np.int64)
    left = np.flatnonzero(own < 0)
    if not len(left) or not len(trace.spans):
        none = np.zeros(0, np.int64)
        return SpanJoin(rule, key, own, np.zeros(1, np.int64), none)
    pairs = np.column_stack([ops.op, ops.name, ops.shape, ops.dtype])[left]
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    names = _Names(trace, listing.cut_names, watcher)
    rules = [SpanRule.NONE] * len(distinct)
    keys: dict[tuple[bool, int], int] = {}
    of_pair = np.full(len(distinct), -1, np.int64)
    shapes = np.bincount(distinct[:, 0] + 1, minlength=1)
    for i, (op, name, _, _) in enumerate(distinct.tolist()):
        if name >= 0:
            rules[i], number = names.of_tensor(listing.text(op), listing.text(name))
        else:
            is_one = shapes[op + 1] == 1
            rules[i], number = names.of_op(listing.text(op), is_one=is_one)
        if number >= 0:
            of_pair[i] = keys.setdefault((name >= 0, number), len(keys))
    rule[left] = np.array(rules, np.uint8)[place.reshape(-1)]
    key[left] = of_pair[place.reshape(-1)]
    first, ids = names.spans(list(keys), watcher)
    return SpanJoin(rule, key, own, first, ids)


class _Names:
    """Names and ops of the spans of a recording."""

    def __init__(self, trace: Trace, cut: int, watcher: Watcher | None) -> None:
        self._trace, self._cut = trace, cut
        spans = trace.spans
        self._n_ops = int(spans.op.max(initial=-1)) + 1
        distinct = np.zeros(0, np.int64)
        for rows in chunks(len(spans)):
            distinct = np.union1d(distinct, self._pairs(rows))
            if watcher is not None:
                watcher.progress(rows.stop, 2 * len(spans))
        distinct = distinct[distinct >= 0].astype(np.int64)
        self._by_text: dict[str, list[int]] = {}
        self._by_op: dict[str, list[int]] = {}
        for pair in distinct.tolist():
            name = pair // self._n_ops - 1
            if name >= 0:
                text = trace.strings[name]
                self._by_text.setdefault(text[:cut] if cut else text, []).append(pair)
        for code in np.unique(distinct % max(self._n_ops, 1)).tolist():
            self._by_op.setdefault(trace.op_name(code), []).append(code)

    def _pairs(self, rows: slice) -> I64:
        """Return a number for name and op of each span; -1 of what is no op."""
        op = self._trace.spans.op[rows].astype(np.int64)
        name = self._trace.spans.name[rows].astype(np.int64) + 1
        return np.where(op >= 0, name * self._n_ops + op, -1).astype(np.int64)

    def of_tensor(self, op: str, name: str) -> tuple[SpanRule, int]:
        """Return the number of the spans with a tensor's name and op; -1 none."""
        pairs = self._by_text.get(name[: self._cut] if self._cut else name, [])
        if not pairs:
            return SpanRule.NONE, -1
        trace, n = self._trace, self._n_ops
        fits = [pair for pair in pairs if _agrees(trace.op_name(pair % n), op)]
        if not fits:
            return SpanRule.OTHER_OP, -1
        return (SpanRule.NAME, fits[0]) if len(fits) == 1 else (SpanRule.AMBIGUOUS, -1)

    def of_op(self, op: str, *, is_one: bool) -> tuple[SpanRule, int]:
        """Return the code of the spans of an op; -1 none, or several shapes of it."""
        codes = [
            code
            for name, numbers in self._by_op.items()
            if op and _agrees(name, op)
            for code in numbers
        ]
        if not codes:
            return SpanRule.NONE, -1
        is_unique = is_one and len(codes) == 1
        return (SpanRule.OP, codes[0]) if is_unique else (SpanRule.AMBIGUOUS, -1)

    def spans(
        self, keys: list[tuple[bool, int]], watcher: Watcher | None
    ) -> tuple[I64, I64]:
        """Return the spans of pairs (True) and ops, as `SpanJoin.first` and `ids`."""
        spans = self._trace.spans
        of_op = np.full(self._n_ops + 1, -1, np.int64)
        named = [(code, i) for i, (is_name, code) in enumerate(keys) if is_name]
        pairs, entry_of = np.array(sorted(named), np.int64).reshape(-1, 2).T
        for i, (is_name, code) in enumerate(keys):
            if not is_name:
                of_op[code] = i
        ids, entries = [], []
        for rows in chunks(len(spans)):
            entry = of_op[spans.op[rows]]
            if len(pairs):
                named_entry = looked_up(pairs, entry_of, self._pairs(rows))
                # A list has names or has none; where both occur the name goes before.
                entry = np.where(named_entry >= 0, named_entry, entry)
            hit = np.flatnonzero(entry >= 0)
            ids.append(hit + rows.start)
            entries.append(entry[hit])
            if watcher is not None:
                watcher.progress(len(spans) + rows.stop, 2 * len(spans))
        every, entry = np.concatenate(ids), np.concatenate(entries)
        order = np.argsort(entry, kind="stable")
        first = np.searchsorted(entry[order], np.arange(len(keys) + 1))
        return first.astype(np.int64), every[order].astype(np.int64)


def _agrees(op: str, listed: str) -> bool:
    """Return whether an op is the one that a list calls so, perhaps cut."""
    if listed.endswith(_CUT):
        return op.startswith(listed[: -len(_CUT)])
    return op == listed
