"""Joins between columns of NPU events: by engine, command and record number."""

import numpy as np

from ggscope.model.tables import I64, Array


def by_lane_and_start(lane: Array, start: I64) -> I64:
    """Return the order of spans: lane by lane, in order of start, else as they come.

    Lanes that are in order already (most files) need only be dealt out.
    """
    order: I64 = np.argsort(lane, kind="stable")
    ranked, its_lane = start[order], lane[order]
    is_in_order = (ranked[1:] >= ranked[:-1]) | (its_lane[1:] != its_lane[:-1])
    return order if bool(is_in_order.all()) else np.lexsort((start, lane))


def distinct(values: I64) -> I64:
    """Return the different values in ascending order.

    Values close together are ticked off in a table, others sorted. ``np.unique``
    hashes in newer numpy: ten times slower here, and it holds the interpreter lock
    all the while.
    """
    if not len(values):
        return values
    low = int(values.min())
    width = int(values.max()) - low + 1
    if width <= 4 * len(values) + 1024:
        is_there = np.zeros(width, np.bool_)
        is_there[values - low] = True
        found: I64 = np.flatnonzero(is_there) + low
        return found
    ranked = np.sort(values)
    first: I64 = ranked[np.concatenate([[True], ranked[1:] != ranked[:-1]])]
    return first


def spread(lanes: dict[int, int], key: I64) -> I64:
    """Return the lane of each key; all keys must be among `lanes`."""
    known = np.array(sorted(lanes), np.int64)
    values = np.array([lanes[k] for k in known.tolist()], np.int64)
    return values[np.searchsorted(known, key)] if len(known) else key


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
