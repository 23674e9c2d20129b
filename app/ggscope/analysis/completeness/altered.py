"""Altered records: those that are there under another op or name than in other passes.

A damaged op number or label makes two differences of one: a pass lacks the op that all
others have, and holds one that no other has, at the same place. That is one record
that is altered, and none that is lost.
"""

import re
from dataclasses import replace

import numpy as np

from ggscope.analysis.sessions.runs import Keys, Kind, PassRows
from ggscope.model.tables import I64
from ggscope.model.trace import Trace

_MOST = 4096
"""Of a kind with more odd ops than this none is looked at: it follows no rule."""
_FEWEST_PASSES = 4
"""So many passes must have an op, where only its place says which one is altered."""
_REPLACEMENT = "\ufffd"


class AlteredKeys:
    """Finds which keys stand for an altered record of another key.

    Parameters
    ----------
    spans : int64[n_keys], a span of each key.
    """

    def __init__(self, trace: Trace, keys: Keys, spans: I64) -> None:
        self._trace, self._keys, self._spans = trace, keys, spans
        self._is_unknown = np.zeros(len(keys.op), np.bool_)
        if trace.ops is not None:
            is_known = np.array([bool(name) for name in trace.ops.names] + [False])
            number = np.clip(keys.op, 0, len(is_known) - 1)
            self._is_unknown = (keys.op >= 0) & ~is_known[number]

    def of(self, kind: Kind) -> dict[int, int]:
        """Return the key that each altered key of a kind stands for."""
        there = kind.table > 0
        weight = kind.weight @ there
        names = map(self._text, kind.keys.tolist())
        is_odd = np.array([_REPLACEMENT in name for name in names], np.bool_)
        is_odd |= self._is_unknown[kind.keys]
        candidates = np.flatnonzero(is_odd)
        single = np.flatnonzero((weight == 1) & ~is_odd)
        if len(candidates) + len(single) <= _MOST:
            candidates = np.sort(np.append(candidates, single))
        if not 0 < len(candidates) <= _MOST:
            return {}
        by_name: dict[int, list[int]] = {}
        for column, name in enumerate(self._keys.name[kind.keys].tolist()):
            by_name.setdefault(name, []).append(column)
        places = _Places(kind, candidates)
        result: dict[int, int] = {}
        targets: set[int] = set()
        for column in candidates.tolist():
            if column in targets:
                continue
            same_name = by_name[int(self._keys.name[kind.keys[column]])]
            near = places.near(column, same_name)
            if is_odd[column]:
                # The name says enough where an op that comes twice has two places.
                likes = [*same_name, *self._named_like(kind, column)]
                near += [other for other in likes if other not in near]
            for other in near:
                if other == column or other in result:
                    continue
                if not _fills(kind, column, other):
                    continue
                if self._is_altered(kind, column, other, weight, bool(is_odd[column])):
                    result[column] = other
                    targets.add(other)
                    break
        return {int(kind.keys[a]): int(kind.keys[b]) for a, b in result.items()}

    def _named_like(self, kind: Kind, column: int) -> list[int]:
        """Return columns of the same op whose name a damaged one may have been."""
        text = self._text(int(kind.keys[column]))
        if _REPLACEMENT not in text:
            return []
        op = self._keys.op[kind.keys]
        same_op = np.flatnonzero(op == op[column]).tolist()
        return [c for c in same_op if _could_be(text, self._text(int(kind.keys[c])))]

    def names_of_unknown(self, kind: Kind) -> set[str]:
        """Return the names of the records of a kind that have an unknown op."""
        return set(map(self._text, kind.keys[self._is_unknown[kind.keys]].tolist()))

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

    def _is_altered(
        self, kind: Kind, column: int, other: int, weight: I64, is_odd: bool
    ) -> bool:
        """Tell whether the records of `column` are altered ones of `other`."""
        own, key = int(kind.keys[column]), int(kind.keys[other])
        has_name = self._keys.name[own] == self._keys.name[key]
        has_op = self._keys.op[own] == self._keys.op[key]
        if not (has_name or has_op):
            return False
        if is_odd:
            # What is damaged says so, by an unknown op or bytes that are no text.
            likes = has_name or _could_be(self._text(own), self._text(key))
            return likes and int(weight[other]) >= int(weight[column])
        if len(self._trace.accesses.first) > 1:
            return int(weight[other]) >= 2 and self._reads_alike(own, key)
        return int(weight[other]) >= _FEWEST_PASSES

    def _reads_alike(self, own: int, key: int) -> bool:
        """Tell whether the records of two keys name the same sources."""
        accesses = self._trace.accesses
        a, b = accesses.pattern[self._spans[[own, key]]].tolist()
        if a < 0 or b < 0:
            return False
        tensor = accesses.patterns.tensor
        rows = [
            slice(int(accesses.first[i]), int(accesses.first[i + 1])) for i in (a, b)
        ]
        return bool(np.array_equal(tensor[rows[0]], tensor[rows[1]]))

    def _text(self, key: int) -> str:
        return self._keys.text(self._trace, key)


def _fills(kind: Kind, column: int, other: int) -> bool:
    """Tell whether passes with one key lack as many records of the other."""
    own, usual = kind.table[:, column], kind.table[:, other]
    has = own > 0
    most = int(usual[~has].max(initial=0))
    both = own[has].astype(np.int64) + usual[has]
    return int(both.max(initial=0)) <= most


class _Places:
    """Which keys come at the place at which a record stands in its pass."""

    def __init__(self, kind: Kind, candidates: I64) -> None:
        column = np.full(int(kind.keys.max()) + 1, -1, np.int64)
        column[kind.keys] = np.arange(len(kind.keys))
        self._own, self._first = column[kind.rows.key], kind.rows.first
        unique, at = np.unique(self._own, return_index=True)
        self._row = np.full(len(kind.keys), -1, np.int64)
        self._row[unique] = at
        self._is_candidate = np.zeros(len(kind.keys), np.bool_)
        self._is_candidate[candidates] = True
        self._kind = kind

    def near(self, column: int, first: list[int]) -> list[int]:
        """Return the columns that come between the ops around a record of one.

        Those of `first` before others, as far as they come there.
        """
        row = int(self._row[column])
        piece = int(np.searchsorted(self._first, row, "right")) - 1
        begin, end = int(self._first[piece]), int(self._first[piece + 1])
        low = self._beside(row, begin - 1, -1)
        high = self._beside(row, end, 1)
        near = (self._kind.low <= high) & (self._kind.high >= low)
        others = set(np.flatnonzero(near).tolist()).difference(first)
        return [*(c for c in first if near[c]), *sorted(others)]

    def _beside(self, row: int, stop: int, step: int) -> float:
        """Return the order of the next op in one direction that has one place."""
        kind = self._kind
        while (row := row + step) != stop:
            near = int(self._own[row])
            if not self._is_candidate[near] and kind.low[near] == kind.high[near]:
                return float(kind.order[near])
        return step * np.inf


def _could_be(damaged: str, text: str) -> bool:
    """Tell whether a name with replacement characters may have been `text`."""
    parts = re.split(f"{_REPLACEMENT}+", damaged)
    return re.fullmatch(".{1,8}".join(map(re.escape, parts)), text) is not None


def replaced(rows: PassRows, altered: dict[int, int]) -> PassRows:
    """Return the rows with each altered key as the one that it stands for."""
    table = np.arange(int(rows.key.max(initial=-1)) + 1, dtype=rows.key.dtype)
    for key, meant in altered.items():
        table[key] = meant
    return replace(rows, key=table[rows.key])
