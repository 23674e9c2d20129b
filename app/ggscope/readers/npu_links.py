"""Joins between columns of NPU events: by engine, command and record number."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Array, distinct


def by_lane_and_start(lane: Array, start: I64) -> I64:
    """Return the order of spans: lane by lane, in order of start, else as they come.

    Lanes that are in order already (most files) need only be dealt out.
    """
    order: I64 = np.argsort(lane, kind="stable")
    ranked, its_lane = start[order], lane[order]
    is_in_order = (ranked[1:] >= ranked[:-1]) | (its_lane[1:] != its_lane[:-1])
    return order if bool(is_in_order.all()) else np.lexsort((start, lane))


@dataclass(frozen=True, slots=True, eq=False)
class KeyLanes:
    """The lane of each engine: keys in ascending order, int64[n], and their lanes."""

    key: I64
    lane: I64

    @classmethod
    def joined(cls, parts: Sequence[tuple[I64, I64]]) -> "KeyLanes":
        """Return what keys and lanes, engines of one name after the other, make."""
        none = np.zeros(0, np.int64)
        key = np.concatenate([none, *(keys for keys, _ in parts)])
        lane = np.concatenate([none, *(lanes for _, lanes in parts)])
        order = np.argsort(key, kind="stable")
        return cls(key[order], lane[order])

    def of(self, keys: I64) -> I64:
        """Return the lane of each key; -1 where it has none."""
        return looked_up(self.lane, find(self.key, keys)).astype(np.int64, copy=False)


def looked_up(values: Array, rows: I64) -> Array:
    """Return ``values[rows]``, -1 where the row is -1."""
    if not len(values):
        return np.full(len(rows), -1, np.int8)
    return np.where(rows >= 0, values[np.maximum(rows, 0)], values.dtype.type(-1))


def find(ascending: I64, wanted: I64) -> I64:
    """Return where each wanted value stands in a strictly ascending array; or -1."""
    if not len(ascending):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def last_before(cmdq: I64, record: I64, dep: I64, before: I64) -> I64:
    """Return the span with ``cmdq == dep`` that comes last before a record; or -1."""
    commands = distinct(cmdq[cmdq >= 0])
    n_records = int(max(record.max(initial=0), before.max(initial=0))) + 1
    rank, wanted = find(commands, cmdq), find(commands, dep)
    # Both factors count events, so the product stays far below 2**63.
    place = rank * n_records + record
    order = np.argsort(place)
    at = np.searchsorted(place[order], wanted * n_records + before) - 1
    span = order[np.maximum(at, 0)]
    return np.where((wanted >= 0) & (at >= 0) & (rank[span] == wanted), span, -1)


def linked(own_key: I64, own_cmdq: I64, key: I64, cmdq: I64) -> I64:
    """Return the only span of the same engine and command; -1 if none or several."""
    if not len(own_key):
        return np.full(len(key), -1, np.int64)
    keys, commands = distinct(own_key), distinct(own_cmdq)
    place = _rank(keys, own_key) * len(commands) + _rank(commands, own_cmdq)
    # Stable sorting is quick where lanes already are in order of command.
    order = np.argsort(place, kind="stable")
    ranked = place[order]
    engine, command = find(keys, key), find(commands, cmdq)
    known = (engine >= 0) & (command >= 0) & (cmdq >= 0)
    wanted = np.where(known, engine * len(commands) + command, -1)
    low = np.minimum(np.searchsorted(ranked, wanted), len(ranked) - 1)
    next_one = ranked[np.minimum(low + 1, len(ranked) - 1)]
    is_last = low == len(ranked) - 1
    once = (ranked[low] == wanted) & ((next_one != wanted) | is_last)
    return np.where(known & once, order[low], -1)


def _rank(ascending: I64, values: I64) -> I64:
    """Return where each value stands among `ascending`, which has all of them."""
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low + 1 == len(ascending):
        return values - low  # no gaps
    return np.searchsorted(ascending, values)
