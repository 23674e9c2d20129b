"""Altered records: those that are there under another op or name than in other passes.

A damaged op number or label makes two differences of one: a pass lacks the op that all
others have, and holds one that no other has, at the same place. That is one record
that is altered, and none that is lost.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions.runs import Keys, Kind, PassRows
from ggscope.model.tables import I64, first_places
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
_MOST = 4096
"""Of a kind with more odd ops than this none is looked at: it follows no rule."""
_MAX_PAIRS = 1 << 18
"""Where more keys may stand for each other than this none does, for the same reason."""
_MAX_CELLS = 1 << 28
"""Likewise, of these keys in all passes."""
_FEWEST_PASSES = 4
"""So many passes must have an op, where only its place says which one is altered."""
_REPLACEMENT = "\ufffd"


class AlteredKeys:
    """Finds which keys stand for an altered record of another key.

    Parameters
    ----------
    spans : returns a span of each key, int64[n_keys].
    """

    def __init__(self, trace: Trace, keys: Keys, spans: Callable[[], I64]) -> None:
        self._trace, self._keys, self._spans = trace, keys, spans
        self._is_unknown = np.zeros(len(keys.op), np.bool_)
        if trace.ops is not None:
            is_known = np.array([bool(name) for name in trace.ops.names] + [False])
            number = np.clip(keys.op, 0, len(is_known) - 1)
            self._is_unknown = (keys.op >= 0) & ~is_known[number]

    @property
    def _fewest_passes(self) -> int:
        """How many passes must have an op that one without a sign stands for."""
        reads = len(self._trace.accesses.first) > 1
        return 2 if reads else _FEWEST_PASSES

    def of(self, kind: Kind) -> dict[int, int]:
        """Return the key that each altered key of a kind stands for."""
        weight = kind.weight @ (kind.table > 0)
        texts = self._keys.texts(self._trace, kind.keys)
        is_odd = np.array([_REPLACEMENT in text for text in texts], np.bool_)
        is_odd |= self._is_unknown[kind.keys]
        candidates = np.flatnonzero(is_odd)
        single = np.flatnonzero((weight == 1) & ~is_odd)
        if weight.max(initial=0) < self._fewest_passes:
            single = single[:0]  # no other op is in passes enough
        if len(candidates) + len(single) <= _MOST:
            candidates = np.sort(np.append(candidates, single))
        if not 0 < len(candidates) <= _MOST:
            return {}
        names = self._keys.name[kind.keys]
        by_name = np.argsort(names, kind="stable")
        places = _Places(kind, candidates)
        result: dict[int, int] = {}
        targets: set[int] = set()
        n_pairs = 0
        for column in candidates.tolist():
            if column in targets:
                continue
            first, last = np.searchsorted(
                names, [names[column], names[column] + 1], sorter=by_name
            ).tolist()
            same_name = by_name[first:last]
            near = places.near(column, same_name)
            if is_odd[column]:
                # The name says enough where an op that comes twice has two places.
                likes = np.append(same_name, self._may_be_named_like(kind, column))
                near = np.append(near, likes[~np.isin(likes, near)])
            has_sign = bool(is_odd[column])
            near = self._alike(kind, column, near, weight, is_odd=has_sign)
            n_pairs += len(near)
            if n_pairs > _MAX_PAIRS or n_pairs * len(kind.table) > _MAX_CELLS:
                return {}
            for other in near[_fills(kind, column, near)].tolist():
                if other in result:
                    continue
                if self._is_altered(kind, column, other, is_odd=has_sign):
                    result[column] = other
                    targets.add(other)
                    break
        return {int(kind.keys[a]): int(kind.keys[b]) for a, b in result.items()}

    def _may_be_named_like(self, kind: Kind, column: int) -> I64:
        """Return columns of the same op, where a damaged name may have been theirs."""
        if _REPLACEMENT not in self._text(int(kind.keys[column])):
            return np.zeros(0, np.int64)
        op = self._keys.op[kind.keys]
        return np.flatnonzero(op == op[column])

    def _alike(
        self, kind: Kind, column: int, near: I64, weight: I64, *, is_odd: bool
    ) -> I64:
        """Return those of `near` that have the name or op, and are in passes enough."""
        name, op = self._keys.name[kind.keys], self._keys.op[kind.keys]
        near = near[near != column]
        near = near[(name[near] == name[column]) | (op[near] == op[column])]
        fewest = int(weight[column]) if is_odd else self._fewest_passes
        return np.asarray(near[weight[near] >= fewest])

    def names_of_unknown(self, kind: Kind) -> set[str]:
        """Return the names of the records of a kind that have an unknown op."""
        unknown = kind.keys[self._is_unknown[kind.keys]]
        return set(self._keys.texts(self._trace, unknown))

    def explain(self, kind: Kind, lacks: I64) -> int:
        """Take from what each pass lacks the records of that name with an unknown op.

        Where one unknown op stands for different ops of a name in different passes, so
        that `of` has none that it stands for.

        Parameters
        ----------
        lacks : int64[n_pieces, n_keys], changed in place.

        Returns
        -------
        Number of records that were taken, of all passes.
        """
        n = 0
        name = self._keys.name[kind.keys]
        for column in np.flatnonzero(self._is_unknown[kind.keys]).tolist():
            left = kind.table[:, column].astype(np.int64)
            for other in np.flatnonzero(name == name[column]).tolist():
                part = np.minimum(lacks[:, other], left) if other != column else 0
                lacks[:, other] -= part
                left -= part
                n += int((kind.weight * part).sum())
        return n

    def _is_altered(self, kind: Kind, column: int, other: int, *, is_odd: bool) -> bool:
        """Return whether the records of `column` are altered ones of `other`."""
        own, key = int(kind.keys[column]), int(kind.keys[other])
        if is_odd:
            # What is damaged says so, by an unknown op or bytes that are no text.
            has_name = self._keys.name[own] == self._keys.name[key]
            return has_name or _could_be(self._text(own), self._text(key))
        return len(self._trace.accesses.first) <= 1 or self._reads_alike(own, key)

    def _reads_alike(self, own: int, key: int) -> bool:
        """Return whether the records of two keys name the same sources."""
        accesses = self._trace.accesses
        a, b = accesses.pattern[self._spans()[[own, key]]].tolist()
        if a < 0 or b < 0:
            return False
        tensor = accesses.patterns.tensor
        rows = [
            slice(int(accesses.first[i]), int(accesses.first[i + 1])) for i in (a, b)
        ]
        return bool(np.array_equal(tensor[rows[0]], tensor[rows[1]]))

    def _text(self, key: int) -> str:
        return self._keys.texts(self._trace, np.array([key]))[0]


def _fills(kind: Kind, column: int, others: I64) -> Bools:
    """Return whether passes with one key lack as many records of each of others."""
    own = kind.table[:, column].astype(np.int64)
    usual = kind.table[:, others].astype(np.int64)
    has = own > 0
    highest = usual[~has].max(axis=0, initial=0)
    both = (own[has][:, None] + usual[has]).max(axis=0, initial=0)
    return np.asarray(both <= highest)


class _Places:
    """Which keys come at the place at which a record stands in its pass."""

    def __init__(self, kind: Kind, candidates: I64) -> None:
        column = np.full(int(kind.keys.max()) + 1, -1, np.int64)
        column[kind.keys] = np.arange(len(kind.keys))
        self._own, self._first = column[kind.rows.key], kind.rows.first
        unique, at = first_places(self._own)
        self._row = np.full(len(kind.keys), -1, np.int64)
        self._row[unique] = at
        self._is_candidate = np.zeros(len(kind.keys), np.bool_)
        self._is_candidate[candidates] = True
        self._kind = kind

    def near(self, column: int, first: I64) -> I64:
        """Return the columns that come between the ops around a record of one.

        Those of `first` before others, as far as they come there.
        """
        row = int(self._row[column])
        piece = int(np.searchsorted(self._first, row, "right")) - 1
        begin, end = int(self._first[piece]), int(self._first[piece + 1])
        low = self._beside(row, begin - 1, -1)
        high = self._beside(row, end, 1)
        near = (self._kind.low <= high) & (self._kind.high >= low)
        inside = first[near[first]]
        near[first] = False
        return np.append(inside, np.flatnonzero(near))

    def _beside(self, row: int, stop: int, step: int) -> float:
        """Return the order of the next op in one direction that has one place."""
        kind = self._kind
        while (row := row + step) != stop:
            near = int(self._own[row])
            if not self._is_candidate[near] and kind.low[near] == kind.high[near]:
                return float(kind.order[near])
        return step * np.inf


def _could_be(damaged: str, text: str) -> bool:
    """Return whether a name with replacement characters may have been `text`."""
    parts = re.split(f"{_REPLACEMENT}+", damaged)
    return re.fullmatch(".{1,8}".join(map(re.escape, parts)), text) is not None


def replaced(rows: PassRows, altered: dict[int, int]) -> PassRows:
    """Return the rows with each altered key as the one that it stands for."""
    table = np.arange(int(rows.key.max(initial=-1)) + 1, dtype=rows.key.dtype)
    for key, meant in altered.items():
        table[key] = meant
    return replace(rows, key=table[rows.key])
