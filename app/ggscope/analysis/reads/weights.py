"""Which weight each op reads: where its time is booked.

An op touches several tensors, but takes its time once. So it is booked on one of
them: the weight of the model file that it reads. That rule is here and nowhere else.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.once import once
from ggscope.analysis.workers import chunks, share_out
from ggscope.model.names import is_weight_name
from ggscope.model.tables import I64, AccessColumns, AccessKind, Array, Space, ranked
from ggscope.model.trace import Trace

_PIECE_ROWS = 1 << 17
NO_WEIGHT = -1
"""The trace states what the op reads, and no weight is among it."""
NOT_RECORDED = -2
"""The trace does not state what the op reads."""


@dataclass(frozen=True, slots=True, eq=False)
class AttributedTensor:
    """The tensor that each span is booked on: a row of ``Trace.tensors``.

    Attributes
    ----------
    per_pattern : int64[n_patterns + 1], of the spans with these accesses; the last
        entry, `NOT_RECORDED`, is for "no pattern".
    loose_span, loose_tensor : int64[m], spans that accesses outside of patterns
        name, ascending and distinct, and their tensor or `NO_WEIGHT`.
    computed : int64[n_spans], the span's own tensor, for where nothing else is
        known; None where the trace has none.
    """

    per_pattern: I64
    loose_span: I64
    loose_tensor: I64
    computed: Array | None


def booked_on(trace: Trace) -> AttributedTensor:
    """Return the tensor that each span's time is booked on."""
    accesses = trace.accesses
    n = len(accesses.first) - 1
    owner = np.repeat(np.arange(n), np.diff(accesses.first))
    per_pattern = np.full(n + 1, NO_WEIGHT, np.int64)
    per_pattern[:n] = _heaviest(trace, accesses.patterns, owner, n)
    per_pattern[n] = NOT_RECORDED
    loose = accesses.loose
    rows = np.flatnonzero(loose.span >= 0)
    named, _, owner = ranked(loose.span[rows])
    tensor = _heaviest(trace, loose.what.take(rows), owner, len(named))
    return AttributedTensor(
        per_pattern, named.astype(np.int64), tensor, trace.spans.tensor
    )


@once
def attributed(trace: Trace) -> npt.NDArray[np.int32]:
    """Return the tensor that each span is booked on, `NO_WEIGHT` or `NOT_RECORDED`.

    int32[n_spans], 4 bytes each; where reads are not recorded, the span's own tensor.
    """
    booked, pattern = booked_on(trace), trace.accesses.pattern
    own = booked.computed
    weight = np.empty(len(trace.spans), np.int32)
    per_pattern = booked.per_pattern.astype(np.int32)

    def attribute(_: int, rows: slice) -> None:
        tensor = per_pattern[pattern[rows]]
        first, stop = np.searchsorted(booked.loose_span, (rows.start, rows.stop))
        at = booked.loose_span[first:stop] - rows.start
        tensor[at] = np.where(
            tensor[at] < 0, booked.loose_tensor[first:stop], tensor[at]
        )
        if own is not None:
            computed = own[rows]
            is_own = (tensor == NOT_RECORDED) & (computed >= 0)
            tensor[is_own] = computed[is_own]
        weight[rows] = tensor

    share_out(attribute, chunks(len(weight), _PIECE_ROWS))
    return weight


def is_weight(trace: Trace, what: AccessColumns) -> npt.NDArray[np.bool_]:
    """Return which accesses read a weight of the model file, bool[len(what)]."""
    has_tensor = (what.tensor >= 0) & (what.kind == AccessKind.READ)
    if not len(trace.tensors):
        return np.zeros(len(what), np.bool_)
    lies_in_file = (trace.tensors.offset >= 0) | _named_weights(trace)
    in_file = (what.space == Space.FILE) | (
        (what.space == Space.UNKNOWN) & lies_in_file[np.maximum(what.tensor, 0)]
    )
    return np.asarray(has_tensor & in_file, np.bool_)


def _named_weights(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return which tensors are called as those of model files are, bool[n_tensors]."""
    names = (trace.strings[i] if i >= 0 else "" for i in trace.tensors.name.tolist())
    return np.fromiter(map(is_weight_name, names), np.bool_, len(trace.tensors))


def _heaviest(trace: Trace, what: AccessColumns, owner: I64, n: int) -> I64:
    """Return the weight of most bytes of each of n owners, or `NO_WEIGHT`.

    The bytes of several accesses to one tensor, such as slices of a stack of
    experts, count together.
    """
    weight = np.full(n, NO_WEIGHT, np.int64)
    # It may read the file; nobody says which tensor, or where that lies.
    is_open = (what.space == Space.FILE) & (what.tensor < 0)
    weight[owner[is_open | (what.space == Space.UNKNOWN)]] = NOT_RECORDED
    rows = np.flatnonzero(is_weight(trace, what))
    if not len(rows):
        return weight
    of, tensor = owner[rows].astype(np.int64), what.tensor[rows].astype(np.int64)
    width = int(tensor.max()) + 1
    pair, first, place = ranked(of * width + tensor)
    size = np.zeros(len(pair), np.int64)
    np.add.at(size, place, np.maximum(what.size[rows].astype(np.int64), 0))
    of, tensor = np.divmod(pair, width)
    # The last of each owner is the heaviest, and of equals the one recorded first.
    order = np.lexsort((-first, size, of))
    weight[of[order]] = tensor[order]
    return weight
