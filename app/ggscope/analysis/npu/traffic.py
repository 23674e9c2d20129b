"""Bytes of weights, KV cache and activations that an NPU moves for each token."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.once import once
from ggscope.model.tables import I64
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace

ROLES = ("weight", "kv", "activation", "other")
"""Of spans that say what they move."""
UNSTATED = "not stated"
PARTS = (*ROLES, UNSTATED)


@dataclass(frozen=True, slots=True, eq=False)
class TokenTraffic:
    """Bytes that spans state, by token and by what they move.

    Attributes
    ----------
    tokens : int64[n], keys of tokens (see ``model.tokens``) whose spans move anything.
    names : what people call them.
    moved : int64[len(PARTS), n], bytes; the last row of spans that do not say what.
    outside : int64[len(PARTS)], of spans of no token.
    unsized : int64[n + 1], spans that say what they move and not how much, by token
        and, last, of no token.
    has_roles : whether any span says what it moves.
    has_tokens : whether the trace records tokens.
    """

    tokens: I64
    names: tuple[str, ...]
    moved: I64
    outside: I64
    unsized: I64
    has_roles: bool
    has_tokens: bool

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def parts(self) -> tuple[int, ...]:
        """Rows of `moved` that have bytes, in the order of `PARTS`."""
        total = self.moved.sum(axis=1) + self.outside
        return tuple(np.flatnonzero(total).tolist())

    @property
    def totals(self) -> I64:
        """Bytes of each token, int64[n]."""
        return np.asarray(self.moved.sum(axis=0), np.int64)


@once
def token_traffic(trace: Trace) -> TokenTraffic:
    """Return the bytes that spans of engines state, by token; O(n).

    The bytes are those that the events state; the token of a span is the one during
    which it begins.
    """
    ids, part, size = _moving(trace)
    tokens = tokens_of(trace)
    key = np.full(len(ids), -1, np.int64)
    if tokens.key is not None:
        key = tokens.key[ids].astype(np.int64)
    distinct, at = np.unique(key[key >= 0], return_inverse=True)
    column = np.full(len(ids), len(distinct), np.int64)
    column[key >= 0] = at.reshape(-1)
    moved = np.zeros((len(PARTS), len(distinct) + 1), np.int64)
    np.add.at(moved, (part, column), np.maximum(size, 0))
    unsized = np.bincount(column[size < 0], minlength=len(distinct) + 1)
    return TokenTraffic(
        tokens=distinct.astype(np.int64),
        names=tuple(tokens.text(k, "#") for k in distinct.tolist()),
        moved=moved[:, :-1],
        outside=moved[:, -1],
        unsized=unsized.astype(np.int64),
        has_roles=bool((part < len(ROLES)).any()),
        has_tokens=tokens.key is not None and bool((tokens.key >= 0).any()),
    )


def traffic_spans(trace: Trace, token: int) -> I64:
    """Return the spans that move something for a token, ascending."""
    ids, _, _ = _moving(trace)
    key = tokens_of(trace).key
    if key is None:
        return np.zeros(0, np.int64)
    return np.asarray(ids[key[ids] == token], np.int64)


def _moving(trace: Trace) -> tuple[I64, I64, I64]:
    """Return spans of engines that move anything, which of `PARTS`, and bytes.

    -1 bytes are not stated.
    """
    spans, n = trace.spans, len(trace.spans)
    part = np.full(n, len(ROLES), np.int64)
    if spans.tensor_role is not None:
        distinct, place = np.unique(spans.tensor_role, return_inverse=True)
        names = [trace.strings[i] if i >= 0 else "" for i in distinct.tolist()]
        known = {word: number for number, word in enumerate(ROLES)}
        numbers = np.array([known.get(word, len(ROLES)) for word in names], np.int64)
        part = numbers[place.reshape(-1)]
    size = np.full(n, -1, np.int64) if spans.moved is None else spans.moved
    is_engine = trace.lanes.is_engine[spans.lane.astype(np.int64)]
    ids = np.flatnonzero(is_engine & ((part < len(ROLES)) | (size >= 0)))
    return ids.astype(np.int64), part[ids], size[ids].astype(np.int64)
