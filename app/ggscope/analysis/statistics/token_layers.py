"""Tokens by layers: ops, bytes and time that each layer takes in each token."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.rows import RowFinder
from ggscope.analysis.reads.op_io import is_repeated, op_accesses
from ggscope.analysis.workers import Watcher, add_by_group, chunks
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.tokens import Tokens, tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

TokenBy = Literal["token", "pass"]
_MAX_CELLS = 1 << 21
"""Of more cells, a column holds several tokens: a file of 8 MB may name 32,000 of them
and as many layers."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenLayers:
    """A matrix of layers by tokens.

    Attributes
    ----------
    layers : int64[L], ascending; -1 first where ops without a layer occur.
    tokens : int64[T], ascending keys of tokens (see ``model.tokens``) or numbers of
        passes, the first one of each column; -1 last = none.
    names : what people call them: "5", or "0–7" where a column holds several.
    by : whether columns are tokens as the file claims them, or passes.
    ops : int64[L, T], ops; each counts once, however many threads compute it.
    bytes : int64[L, T], known bytes that they access, each op's once.
    unsized : int64[L, T], accesses of unknown bytes.
    ticks : int64[L, T], measured and derived durations; estimated and unfinished
        ones are left out.
    n_left_out : how many these are.
    """

    layers: I64
    tokens: I64
    names: tuple[str, ...]
    by: TokenBy
    ops: I64
    bytes: I64
    unsized: I64
    ticks: I64
    n_left_out: int


def token_layers(
    trace: Trace,
    by: TokenBy = "token",
    *,
    time: TimeRange | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    watcher: Watcher | None = None,
) -> TokenLayers:
    """Return what each layer does in each token; only ops count.

    Parameters
    ----------
    time : only ops that start in it.
    mask : bool[n_spans], only these.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    spans, names = trace.spans, tokens_of(trace)
    finder = RowFinder(trace, by, token=names.key)
    n_layers = 2 if spans.layer is None else int(spans.layer.max(initial=-1)) + 2
    n_tokens = len(finder.rows) - 1  # the last row is that of no token
    step = max(-(-n_layers * len(finder.rows) // _MAX_CELLS), 1)
    n_columns = -(-n_tokens // step) + 1
    sums = np.zeros((4, n_layers * n_columns), np.int64)
    table = op_accesses(trace)
    n_bytes_of, unsized_of = (
        np.append(table.per_entry(values), 0) for values in (table.known, table.unsized)
    )
    n_left_out = done = 0
    for chunk in chunks(len(spans)):
        is_counted = spans.op[chunk] >= 0
        if mask is not None:
            is_counted &= mask[chunk]
        if time is not None:
            start = spans.start[chunk]
            is_counted &= (start >= time.start) & (start < time.end)
        row = np.flatnonzero(is_counted)
        token = finder.of_spans(chunk)[row]
        column = np.where(token < n_tokens, token // step, n_columns - 1)
        layer = np.zeros(len(row), np.int64)
        if spans.layer is not None:
            layer += spans.layer[chunk][row] + np.int64(1)
        cell = layer * n_columns + column
        good = quality_of(spans.flags[chunk][row]) <= Quality.DERIVED
        duration = (spans.end[chunk] - spans.start[chunk])[row]
        is_own = ~is_repeated(spans.flags[chunk][row])
        add_by_group(sums[0], cell, is_own.astype(np.int64))
        entry = table.counted_entries(chunk)[row]
        add_by_group(sums[1], cell, n_bytes_of[entry])
        add_by_group(sums[2], cell, unsized_of[entry])
        add_by_group(sums[3], cell[good], duration[good])
        n_left_out += int(np.count_nonzero(~good))
        done += chunk.stop - chunk.start
        if watcher is not None:
            watcher.progress(done, len(spans))
    # Layers and tokens without any op are left out.
    grid = sums.reshape(4, n_layers, n_columns)
    layers = np.flatnonzero(grid[0].any(axis=1))
    columns = np.flatnonzero(grid[0].any(axis=0))
    numbers = np.append(finder.rows.first, -1)
    first = np.minimum(columns * step, n_tokens)
    last = np.where(
        columns < n_columns - 1, np.minimum(first + step, n_tokens) - 1, first
    )
    called = names if by == "token" else Tokens(None)
    ops, n_bytes, unsized, ticks = (part[np.ix_(layers, columns)] for part in grid)
    return TokenLayers(
        layers - 1,
        numbers[first],
        tuple(
            called.text(a) + (f"–{called.text(b)}" if b != a else "") or "none"
            for a, b in zip(
                numbers[first].tolist(), numbers[last].tolist(), strict=True
            )
        ),
        by,
        ops,
        n_bytes,
        unsized,
        ticks,
        n_left_out,
    )
