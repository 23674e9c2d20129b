"""Joins of NPU events by time, engine, command and record; and phase bands."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import (
    I64,
    Array,
    Phase,
    distinct,
    latest_owner,
    looked_up,
    places_among,
    ranked,
)


def covering(start: I64, end: I64, points: I64) -> I64:
    """Return the interval that covers each point, int64[len(points)]; -1 if none.

    Parameters
    ----------
    start, end : int64[n], half-open intervals in order of start.

    Notes
    -----
    Where intervals overlap, the one that starts last counts. O((n + m) log n).
    """
    n = len(start)
    if not n:
        return np.full(len(points), -1, np.int64)
    if bool((end[:-1] <= start[1:]).all()):
        position = np.searchsorted(start, points, "right") - 1
        covered = (position >= 0) & (points < end[np.maximum(position, 0)])
        return np.where(covered, position, -1)
    edges = distinct(np.concatenate([start, end]))
    owner = latest_owner(
        np.searchsorted(edges, start), np.searchsorted(edges, end), len(edges)
    )
    piece = np.searchsorted(edges, points, "right") - 1
    return np.where(piece >= 0, owner[np.maximum(piece, 0)], -1)


def busy_cycles(start: I64, end: I64, first: I64) -> I64:
    """Return how many cycles the intervals of each group cover together.

    Parameters
    ----------
    start, end : int64[n], group by group, each in order of start.
    first : int64[m], where each group begins, ascending; the first one at 0.

    Returns
    -------
    int64[m].
    """
    if not len(start):
        return np.zeros(len(first), np.int64)
    # Ends by their rank, with the number of the group in front: the maximum so far
    # never reaches back into the group before.
    ends, _, rank = ranked(end)
    group = np.zeros(len(start), np.int64)
    group[first[1:]] = 1  # no repeat, which holds the interpreter lock
    group = np.cumsum(group)
    reach = ends[np.maximum.accumulate(group * len(ends) + rank) % len(ends)]
    before = np.append(start[:1], reach[:-1])
    before[first] = start[first]
    covered = np.maximum(end - np.maximum(start, before), 0)
    return np.add.reduceat(covered, first)


def most_at_once(start: I64, end: I64) -> int:
    """Return how many intervals share a cycle at most; those of no length do not count.

    O(n log n); the intervals may come in any order.
    """
    some = end > start
    begins, ends = np.sort(start[some]), np.sort(end[some])
    if not len(begins):
        return 0
    # How many have begun and not ended when each one begins.
    ended = np.searchsorted(ends, begins, "right")
    return int((np.arange(1, len(begins) + 1) - ended).max())


def engine_name(names: Sequence[str], code: int) -> str:
    """Return the name of an engine or master by its code."""
    return names[code] if code >= 0 else "unknown"


class EngineFigures(Mapping[str, Mapping[str, float]]):
    """How busy each engine is, by its name; put into words when somebody asks.

    Parameters
    ----------
    keys : int64[n], of the engines: code times `n_units` plus number.
    busy : int64[n], cycles that each works.
    cycles : of the whole trace.
    names : by code.
    """

    def __init__(
        self, keys: I64, busy: I64, cycles: int, n_units: int, names: Sequence[str]
    ) -> None:
        self._keys, self._busy, self._cycles = keys, busy, cycles
        self._n_units, self._names = n_units, names
        self._row_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows())

    def __getitem__(self, name: str) -> Mapping[str, float]:
        """Return the figures of an engine, such as "TE 0"."""
        busy = int(self._busy[self._rows()[name]])
        share = busy / self._cycles if self._cycles else math.nan
        return {"active_cycles": busy, "utilization": share}

    def n_of_kind(self, kind: str) -> int:
        """Return how many engines have this first word of their names."""
        codes, counts = np.unique(self._keys // self._n_units, return_counts=True)
        names = (engine_name(self._names, code) for code in codes.tolist())
        pairs = zip(names, counts.tolist(), strict=True)
        return sum(n for name, n in pairs if name.split(" ")[0] == kind)

    def _rows(self) -> dict[str, int]:
        if not self._row_of:
            units = (divmod(key, self._n_units) for key in self._keys.tolist())
            names = (f"{engine_name(self._names, c)} {number}" for c, number in units)
            self._row_of = {name: row for row, name in enumerate(names)}
        return self._row_of


@dataclass(frozen=True, slots=True, eq=False)
class PhaseBands:
    """Stretches of one phase, in order of time.

    Attributes
    ----------
    start, end : int64[n]; a band ends where the next begins, or earlier.
    phase : int8[n], `Phase`.
    """

    start: I64
    end: I64
    phase: Array


def phase_bands(start: I64, end: I64, phase: Array) -> PhaseBands:
    """Return the bands that neighbouring tokens of equal phase form.

    Parameters
    ----------
    start, end, phase : of the tokens, in order of start; phase -1 = unknown.
    """
    known = phase >= 0
    start, end, phase = start[known], end[known], phase[known]
    if not len(start):
        none = np.zeros(0, np.int64)
        return PhaseBands(none, none, phase)
    first = np.flatnonzero(np.diff(phase, prepend=np.int8(-1)) != 0)
    band_start = start[first]
    band_end = np.maximum.reduceat(end, first)
    band_end[:-1] = np.minimum(band_end[:-1], band_start[1:])
    return PhaseBands(band_start, band_end, phase[first])


def split_at(bands: PhaseBands, boundary: int, begin: int, finish: int) -> PhaseBands:
    """Return prefill and decode bands that meet where the file says prefill ends.

    Parameters
    ----------
    bands : what the tokens say; none, one, or prefill then decode.
    boundary : time of the marker.
    begin, finish : the trace's own, for bands without tokens.

    Returns
    -------
    `bands` as they are where they contradict a single boundary.
    """
    phases = bands.phase.tolist()
    prompt, generate = int(Phase.PROMPT), int(Phase.GENERATE)
    if phases not in ([], [prompt], [generate], [prompt, generate]):
        return bands
    if prompt in phases:
        begin = int(bands.start[0])
    if generate in phases:
        finish = int(bands.end[-1])
    if not begin <= boundary <= finish:
        return bands
    return PhaseBands(
        np.array([begin, boundary], np.int64),
        np.array([boundary, finish], np.int64),
        np.array([prompt, generate], np.int8),
    )


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
        return looked_up(self.key, self.lane, keys)


def last_before(cmdq: I64, record: I64, dep: I64, before: I64) -> I64:
    """Return the span with ``cmdq == dep`` that comes last before a record; or -1."""
    commands = distinct(cmdq[cmdq >= 0])
    n_records = int(max(record.max(initial=0), before.max(initial=0))) + 1
    rank, value = places_among(commands, cmdq), places_among(commands, dep)
    # Both factors count events, so the product stays far below 2**63.
    place = rank * n_records + record
    order = np.argsort(place)
    at = np.searchsorted(place[order], value * n_records + before) - 1
    span = order[np.maximum(at, 0)]
    return np.where((value >= 0) & (at >= 0) & (rank[span] == value), span, -1)


def linked(own_key: I64, own_cmdq: I64, key: I64, cmdq: I64) -> I64:
    """Return the only span of the same engine and command; -1 if none or several."""
    if not len(own_key):
        return np.full(len(key), -1, np.int64)
    keys, commands = distinct(own_key), distinct(own_cmdq)
    place = _rank(keys, own_key) * len(commands) + _rank(commands, own_cmdq)
    # Stable sorting is quick where lanes already are in order of command.
    order = np.argsort(place, kind="stable")
    ranked = place[order]
    engine, command = places_among(keys, key), places_among(commands, cmdq)
    known = (engine >= 0) & (command >= 0) & (cmdq >= 0)
    codes = np.where(known, engine * len(commands) + command, -1)
    low = np.minimum(np.searchsorted(ranked, codes), len(ranked) - 1)
    next_one = ranked[np.minimum(low + 1, len(ranked) - 1)]
    is_last = low == len(ranked) - 1
    once = (ranked[low] == codes) & ((next_one != codes) | is_last)
    return np.where(known & once, order[low], -1)


def _rank(ascending: I64, values: I64) -> I64:
    """Return where each value stands among `ascending`, which has all of them."""
    low, high = int(ascending[0]), int(ascending[-1])
    if high - low + 1 == len(ascending):
        return values - low  # no gaps
    return np.searchsorted(ascending, values)
