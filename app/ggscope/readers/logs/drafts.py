"""Drafts of each request: what sums since the start grew by from one to the next.

llama.cpp prints such sums behind the timings of a request, a line for each kind of
drafts (``common/speculative.cpp``). Some versions sum over all slots, others for each
slot: which it is shows where the drafted tokens are those of the request.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import F64, I64, Bools, Table
from ggscope.readers.logs.lines import Kind
from ggscope.readers.logs.requests import Figures, Owners, PlacedLines

_ROUNDS, _ACCEPTED, _MS, _TOKENS, _ACCEPTED_TOKENS = range(5)
_N = 5
_LONGEST_MS = 1e12


@dataclass(frozen=True, slots=True, eq=False)
class DraftFigures:
    """Drafting of each request; int64[m], -1 where the log does not state it.

    Attributes
    ----------
    rounds, accepted : how often something was drafted, and how often some of that was
        accepted.
    ns : what drafting took.
    """

    rounds: I64
    accepted: I64
    ns: I64


@dataclass(frozen=True, slots=True, eq=False)
class _Sums(Table):
    """Sums since the start, in the order of the lines."""

    run: I64
    slot: I64
    name: F64
    values: F64


class DraftSums:
    """Takes the sums of lines as they come, and says what requests added to them."""

    def __init__(self) -> None:
        self._last = _Sums(
            np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty((0, _N))
        )
        self._parts: dict[int, F64] = {}
        """Of requests to which more may come, by their row."""
        self._newest = np.zeros((0, 2, _N)), np.zeros(0, np.bool_)

    def add(
        self, placed: PlacedLines, n_before: int, owned: Owners, stated: Figures
    ) -> DraftFigures:
        """Return the drafts of requests.

        Parameters
        ----------
        placed : lines; those from `n_before` on are new.
        stated : what the lines say of each request, with its drafted tokens.
        """
        rows = placed.lines.rows(Kind.DRAFT_TOKENS)
        rows = rows[rows >= n_before]
        if not len(rows) and not self._parts:
            self._newest = np.zeros((0, 2, _N)), np.zeros(len(owned), np.bool_)
            unknown = np.full(len(owned), -1, np.int64)
            return DraftFigures(unknown, unknown.copy(), unknown.copy())
        parts = np.zeros((len(owned), 2, _N))
        has_some = np.zeros(len(owned), np.bool_)
        for i in np.flatnonzero(np.isin(owned.row, [*self._parts])).tolist():
            parts[i], has_some[i] = self._parts[int(owned.row[i])], True
        if len(rows):
            grown = self._grown(placed, rows)
            request = owned.request[rows]
            owns = request >= 0
            np.add.at(parts, request[owns], grown[owns])
            has_some[request[owns]] = True
        self._newest = parts, has_some
        return _figures(parts, has_some, stated)

    def hold(self, requests: I64, rows: I64) -> None:
        """Hold what some requests of the last `add` have so far, and their new rows."""
        parts, has_some = self._newest
        self._parts = {
            row: parts[i]
            for i, row in zip(requests.tolist(), rows.tolist(), strict=True)
            if has_some[i]
        }

    def _grown(self, placed: PlacedLines, rows: I64) -> F64:
        """Return what each line adds to all slots' sums and its slot's, [n, 2, _N]."""
        value = placed.lines.value
        values = np.column_stack([value[rows - 1], value[rows, :2]])
        new = _Sums(
            placed.run[rows],
            placed.slot[rows],
            value[rows, 2],
            np.where((values >= 0) & (values < _LONGEST_MS), values, np.nan),
        )
        n = len(self._last.run)
        both = self._last.followed_by(new)
        self._last = both.take(_last_rows(both))
        grown = np.stack(
            [
                both.values - _before(both.values, both.name, both.run),
                both.values - _before(both.values, both.slot, both.name, both.run),
            ],
            axis=1,
        )
        return grown[n:]


def _before(values: F64, *keys: npt.NDArray[np.generic]) -> F64:
    """Return the row before each one with the same keys; 0 where it is the first."""
    order = np.lexsort((np.arange(len(values)), *keys))
    same = np.ones(max(len(order) - 1, 0), np.bool_)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    before = np.zeros_like(values)
    before[order[1:][same]] = values[order[:-1][same]]
    return before


def _last_rows(sums: _Sums) -> I64:
    """Return the last rows of each kind and slot in the last run, ascending."""
    rows = np.flatnonzero(sums.run == sums.run[-1])
    order = rows[np.lexsort((rows, sums.slot[rows], sums.name[rows]))]
    slot, name = sums.slot[order], sums.name[order]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = (slot[1:] != slot[:-1]) | (name[1:] != name[:-1])
    return np.sort(order[is_last]).astype(np.int64)


def _figures(parts: F64, has_some: Bools, stated: Figures) -> DraftFigures:
    """Return the sums, of all slots or of one, that are those of the request."""
    of_all, of_slot = parts[:, 0], parts[:, 1]
    is_same = (of_all == of_slot) | (np.isnan(of_all) & np.isnan(of_slot))
    is_alike = is_same.all(axis=1)
    fits_all, fits_slot = _fits(of_all, stated), _fits(of_slot, stated)
    # By chance both may have as many tokens.
    is_known = has_some & (is_alike | (fits_all != fits_slot))
    is_known &= fits_all | fits_slot | (stated.n_drafted < 0)
    values = np.where(fits_all[:, None], of_all, of_slot)
    values = np.where(is_known[:, None] & (values >= 0), values, -1)
    scale = np.where(values[:, _MS] < 0, 1.0, 1e6)
    return DraftFigures(
        values[:, _ROUNDS].astype(np.int64),
        values[:, _ACCEPTED].astype(np.int64),
        np.rint(values[:, _MS] * scale).astype(np.int64),
    )


def _fits(sums: F64, stated: Figures) -> Bools:
    is_one = sums[:, _TOKENS] == stated.n_drafted
    return np.asarray(is_one & (sums[:, _ACCEPTED_TOKENS] == stated.n_accepted))
