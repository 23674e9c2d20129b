"""What an importance matrix says about the tensors of a model file."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, ranges
from ggscope.model.trace import Trace

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class TensorImportance:
    """Importance by tensor, and by slice of tensors that stack experts.

    Attributes
    ----------
    mean_square : float64[t], by row of ``Trace.tensors``: the mean square of the
        activations that a tensor was multiplied with; of a stack the mean over the
        experts that were used. NaN where the matrix does not have the tensor.
    count : float64[t], rows of activations (tokens); of a stack the sum over experts.
        NaN where the file does not count.
    n_unused : int64[t], experts of a stack that were never used; -1 = not known, or no
        stack.
    slice_row : int64[m], row of ``Trace.tensors`` of each slice; a tensor that is no
        stack is one slice.
    slice_first, slice_stop : int64[m], bytes from the begin of the tensor.
    slice_square, slice_count : float64[m], as `mean_square` and `count`; a slice that
        was never used has a count of 0, or a mean square of NaN.
    """

    mean_square: F64
    count: F64
    n_unused: I64
    slice_row: I64
    slice_first: I64
    slice_stop: I64
    slice_square: F64
    slice_count: F64


def tensor_importance(trace: Trace) -> TensorImportance | None:
    """Return the importance of the tensors of a trace; None without a matrix.

    Entries and tensors belong together by name; slice k of n lies at k / n of the
    bytes of its tensor.
    """
    importance = trace.importance
    if importance is None or not len(trace.tensors):
        return None
    names, tensors = trace.strings, trace.tensors
    entry_of = {name: i for i, name in enumerate(importance.names)}
    is_slice = tensors.expert >= 0
    entry = np.array(
        [
            -1 if n < 0 or is_part else entry_of.get(names[n], -1)
            for n, is_part in zip(tensors.name.tolist(), is_slice.tolist(), strict=True)
        ],
        np.int64,
    )
    rows = np.flatnonzero(entry >= 0)
    n = importance.n_matrices[entry[rows]]
    of = np.repeat(np.arange(len(rows)), n)
    number = ranges(0, n)
    at = importance.first[entry[rows]][of] + number
    square, count = importance.mean_square[at], importance.count[at]
    size = np.maximum(tensors.size[rows].astype(np.int64), 0)[of]
    # In two parts: a product of bytes and experts may be too large.
    whole, rest = np.divmod(size, n[of])
    first = whole * number + rest * number // n[of]
    stop = whole * (number + 1) + rest * (number + 1) // n[of]
    t = len(tensors)
    return TensorImportance(
        mean_square=_spread(_means(of, square, len(rows)), rows, t),
        count=_spread(_sums(of, count, len(rows)), rows, t),
        n_unused=_unused(
            importance.is_seen[at], importance.is_split[entry[rows]], of, rows, t
        ),
        slice_row=rows[of],
        slice_first=first,
        slice_stop=stop,
        slice_square=square,
        slice_count=count,
    )


def _means(of: I64, values: F64, n: int) -> F64:
    """Return the mean of the numbers of each group; NaN where there is none."""
    known = ~np.isnan(values)
    total = np.bincount(of[known], values[known], n)
    count = np.bincount(of[known], minlength=n)
    means: F64 = np.divide(total, count, out=np.full(n, np.nan), where=count > 0)
    return means


def _sums(of: I64, values: F64, n: int) -> F64:
    """Return the sum of each group; NaN where one of it is not known."""
    return np.bincount(of, values, n).astype(np.float64)


def _spread(values: F64, rows: I64, n: int) -> F64:
    spread = np.full(n, np.nan)
    spread[rows] = values
    return spread


def _unused(
    seen: npt.NDArray[np.int8],
    is_split: npt.NDArray[np.bool_],
    of: I64,
    rows: I64,
    n: int,
) -> I64:
    n_unused = np.bincount(of, seen == 0, len(rows)).astype(np.int64)
    is_open = np.bincount(of, seen < 0, len(rows)) > 0
    unused = np.full(n, -1, np.int64)
    unused[rows] = np.where(is_split & ~is_open, n_unused, -1)
    return unused
