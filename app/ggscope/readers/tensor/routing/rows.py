"""Which pass and token each row of a tensor trace belongs to, and their layers."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I32, I64, Array, distinct, ranked
from ggscope.readers.tensor.passes import Draft

MAX_EXPERT = 1 << 15
"""More than any number of a layer or an expert: they make one key with the pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows that list experts: the first of each pass and layer, and the others.

    Attributes
    ----------
    first : int64[m], one row per pass and layer, in order of time.
    others, of_first : further rows, and which of `first` each repeats.
    """

    first: I64
    others: I64
    of_first: I64


def grouped(rows: I64, layer: I64, draft: Draft) -> Groups:
    """Return the first row in time of each pass and layer."""
    order = np.argsort(draft.rows.start[rows], kind="stable")
    rows, layer = rows[order], layer[order]
    key = layer_key(draft, rows, layer)
    _, first, group = ranked(key)
    is_first = np.zeros(len(rows), np.bool_)
    is_first[first] = True
    in_time = np.argsort(first, kind="stable")
    place = np.empty(len(first), np.int64)
    place[in_time] = np.arange(len(first))
    return Groups(rows[first[in_time]], rows[~is_first], place[group[~is_first]])


def layer_key(draft: Draft, rows: I64, layer: Array) -> I64:
    """Return pass and layer of each row as one number."""
    return np.asarray(pass_of(draft, rows) * (MAX_EXPERT + 1) + layer, np.int64)


def pass_of(draft: Draft, rows: I64) -> I64:
    """Return the pass of each row, int64."""
    run = np.searchsorted(draft.rows.run_first, rows, "right") - 1
    return np.asarray(draft.rows.run_pass[run])


def token_of(draft: Draft, rows: I64) -> I32:
    """Return the token of each row; the pass where tokens do not distinguish passes."""
    tokens = draft.passes.token
    number = pass_of(draft, rows)
    if len(distinct(tokens)) < len(tokens) or (tokens < 0).any():
        return number.astype(np.int32)
    return np.asarray(tokens[number].astype(np.int32))
