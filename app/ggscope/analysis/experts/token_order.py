"""For which token a router chose, and which token was computed before that one.

A ubatch computes the tokens of a prompt at once, or one token for each of several
requests: what follows a token is the next position of its own sequence, in whichever
ubatch that is.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.model.batches import BatchTokens
from ggscope.model.tables import I64, Array, looked_up
from ggscope.model.trace import Trace

_MAX_KEY = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class TokenOrder:
    """The tokens that choices were made for, and their order.

    Attributes
    ----------
    unit : int64[n], the token of each choice, a number from 0; -1 = not known.
    column : int64[u], of each token the row of the numbers that the trace gives
        tokens (ubatches), see ``Choices.tokens``.
    before : int64[u], the token before it in its sequence; -1 = none, or not known.
    """

    unit: I64
    column: I64
    before: I64


def token_order(
    trace: Trace, number: Array, layer: Array, row: Array | None, numbers: I64
) -> TokenOrder:
    """Return the tokens of some choices.

    Parameters
    ----------
    number : the token or ubatch of each choice, as spans have it; -1 unknown.
    layer : of each choice.
    row : place in the ubatch of each choice, -1 unknown; None = of all.
    numbers : int64[t], distinct numbers, ascending, without -1.
    """
    tokens = trace.batch_tokens
    if not len(tokens):
        return _by_number(number, row, numbers)
    if row is None:
        at = _only_tokens(tokens, number)
    else:
        at = _rows_of(tokens, number.astype(np.int64), layer.astype(np.int64), row)
    column = np.searchsorted(numbers, tokens.ubatch.astype(np.int64))
    column = np.minimum(column, max(len(numbers) - 1, 0))
    return TokenOrder(at, column.astype(np.int64), tokens_before(trace))


def tokens_before(trace: Trace) -> I64:
    """Return the token before each one in its sequence, as rows of ``batch_tokens``.

    -1 where the position before was not computed, as of a sequence that was copied, or
    is not known. Of a position that was computed several times, as of drafts that were
    not accepted, it is the last one.
    """
    tokens, sequences = trace.batch_tokens, trace.token_sequences
    before = np.full(len(tokens), -1, np.int64)
    at = sequences.token.astype(np.int64)
    position = tokens.position[at].astype(np.int64)
    known = position >= 0
    at, position = at[known], position[known]
    if not len(at):
        return before
    context = tokens.context[at].astype(np.int64)
    which = context << 32 | sequences.sequence[known].astype(np.int64)
    _, which = np.unique(which, return_inverse=True)
    width, n = int(position.max()) + 2, len(tokens)
    if (int(which.max()) + 1) * width >= _MAX_KEY // n:
        return before
    place = which * width + position
    key = np.sort(place * n + at)
    # The last of those one position earlier that came before.
    keys = (place - 1) * n + at
    hit = np.maximum(np.searchsorted(key, keys, "left") - 1, 0)
    is_found = (position > 0) & (key[hit] // n == place - 1) & (key[hit] < keys)
    before[at[is_found]] = key[hit][is_found] % n
    return before


def _by_number(number: Array, row: Array | None, numbers: I64) -> TokenOrder:
    """Return one token per number, where each follows the one that is less by one.

    Of a file whose ubatches hold several tokens it is not known which follow each
    other: their sequences are unknown.
    """
    column = np.arange(len(numbers))
    before = np.where(np.diff(numbers, prepend=-2) == 1, column - 1, -1)
    unit = np.searchsorted(numbers, number)
    unit = np.where(number < 0, -1, unit).astype(np.int64)
    if row is not None and (row > 0).any():
        width = int(row.max()) + 2
        key = np.where(unit < 0, -1, unit * width + row + 1)
        units = np.unique(key[key >= 0])
        unit = np.where(key < 0, -1, np.searchsorted(units, key))
        column = units // width
        before = np.full(len(units), -1)
    return TokenOrder(unit, column.astype(np.int64), before.astype(np.int64))


def _only_tokens(tokens: BatchTokens, number: Array) -> I64:
    """Return the tokens of ubatches that hold one, -1 for those of others."""
    ubatch, first, n = np.unique(tokens.ubatch, return_index=True, return_counts=True)
    return looked_up(ubatch, np.where(n == 1, first, -1), number)


def _rows_of(tokens: BatchTokens, number: I64, layer: I64, row: Array) -> I64:
    """Return the token of each choice by its row of the ubatch.

    The last layers compute only the tokens whose output is asked for: there row i is
    that of the i-th of these.
    """
    ubatch = tokens.ubatch.astype(np.int64)
    order = np.lexsort((tokens.row, ubatch))
    names, first, n_all = np.unique(
        ubatch[order], return_index=True, return_counts=True
    )
    is_output = tokens.is_output[order] == 1
    n_output = np.add.reduceat(is_output.astype(np.int64), first)
    outputs = order[is_output]
    first_output = np.cumsum(n_output) - n_output
    at = np.minimum(np.searchsorted(names, number), len(names) - 1)
    known = (names[at] == number) & (row >= 0)
    # How many rows a layer of a ubatch has, by the highest one that is listed.
    key = at * (int(layer.max(initial=-1)) + 2) + layer + 1
    n_rows = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    np.maximum.at(n_rows, key, row.astype(np.int64) + 1)
    mine = n_rows[key]
    whole = known & (mine == n_all[at])
    part = known & ~whole & (mine == n_output[at])
    rows = np.full(len(number), -1, np.int64)
    rows[whole] = order[first[at[whole]] + row[whole]]
    rows[part] = outputs[first_output[at[part]] + row[part]]
    return rows
