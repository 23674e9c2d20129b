"""Where the experts of a model lie: slices of the tensors that stack them."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.links import stack_name
from ggscope.model.routing import EXPERT_KEY, expert_key
from ggscope.model.tables import I64
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class ExpertSlices:
    """Slices of experts in the model file, ordered by layer, expert and tensor.

    Attributes
    ----------
    key : int64[m], ``model.routing.expert_key``.
    tensor : int64[m], row of ``Trace.tensors``.
    offset : int64[m], first byte in the file, -1 unknown.
    size : int64[m], bytes, -1 unknown.
    n_experts : largest number of experts of a layer; 0 where none are listed.
    layers : int64, layers that have slices, ascending.
    """

    key: I64
    tensor: I64
    offset: I64
    size: I64
    n_experts: int
    layers: I64

    def of(self, layer: int, expert: int) -> I64:
        """Return the rows of an expert's slices."""
        key = expert_key(layer, expert)
        low, high = np.searchsorted(self.key, [key, key + 1])
        return np.arange(low, high)

    def sizes(self, layers: I64, n_experts: int) -> I64:
        """Return the bytes of each expert, int64[L, E], -1 where not all are known.

        Parameters
        ----------
        layers : int64[L], numbers of the layers, ascending.
        """
        total = np.zeros((len(layers), n_experts), np.int64)
        n_slices = np.zeros_like(total)
        layer, expert = np.divmod(self.key, EXPERT_KEY)
        row = np.searchsorted(layers, layer)
        known = (row < len(layers)) & (expert < n_experts)
        known[known] = layers[row[known]] == layer[known]
        at = (row[known], expert[known])
        size = self.size[known]
        np.add.at(total, at, np.maximum(size, 0))
        np.add.at(n_slices, at, np.where(size >= 0, 1, 1 << 32))
        is_whole = (n_slices > 0) & (n_slices < 1 << 32)
        return np.where(is_whole, total, -1)


def expert_slices(trace: Trace) -> ExpertSlices:
    """Return the slices of all stacked tensors, and of slices that a file lists.

    Slice k of a stack of n lies at ``offset + k * size // n``. Where a side file
    lists the slices of a stack (``…[4]``), its own rows count, not the stack's.
    """
    tensors = trace.tensors
    listed = np.flatnonzero((tensors.expert >= 0) & (tensors.layer >= 0))
    parts = [
        (
            tensors.layer[listed].astype(np.int64) * EXPERT_KEY
            + tensors.expert[listed],
            listed,
            tensors.offset[listed],
            tensors.size[listed],
        )
    ]
    n_experts = int(tensors.expert[listed].max(initial=-1)) + 1
    for row in _stacks(trace, listed).tolist():
        parts.append(_cut(trace, row))
        n_experts = max(n_experts, len(parts[-1][0]))
    key, tensor, offset, size = (
        np.concatenate(column).astype(np.int64) for column in zip(*parts, strict=True)
    )
    order = np.lexsort((tensor, key))
    key = key[order]
    return ExpertSlices(
        key, tensor[order], offset[order], size[order], n_experts,
        np.unique(key // EXPERT_KEY),
    )  # fmt: skip


def stated_experts(trace: Trace) -> int:
    """Return how many experts the model file says a layer has; 0 where it does not."""
    stated = [m.metadata.get("n_experts", "") for m in trace.models]
    numbers = [int(text) for text in stated if text.isascii() and text.isdecimal()]
    return max(numbers, default=0)


def _stacks(trace: Trace, listed: I64) -> I64:
    """Return the stacked tensors of which no slice is listed."""
    tensors = trace.tensors
    if tensors.n_experts is None:
        return np.zeros(0, np.int64)
    rows = np.flatnonzero((tensors.n_experts > 0) & (tensors.layer >= 0))
    names = {stack_name(trace, row) for row in listed.tolist()}
    return np.array(
        [row for row in rows.tolist() if stack_name(trace, row) not in names], np.int64
    )


def _cut(trace: Trace, row: int) -> tuple[I64, I64, I64, I64]:
    """Return key, tensor, offset and size of the slices of a stack."""
    tensors = trace.tensors
    n = 0 if tensors.n_experts is None else int(tensors.n_experts[row])
    k = np.arange(n + 1, dtype=np.int64)
    size, offset = int(tensors.size[row]), int(tensors.offset[row])
    # In Python's integers a product may be as large as it likes.
    edge = np.array([i * max(size, 0) // n for i in k.tolist()], np.int64)
    return (
        expert_key(int(tensors.layer[row]), 0) + k[:-1],
        np.full(n, row, np.int64),
        np.where(offset >= 0, offset + edge[:-1], -1),
        np.diff(edge) if size >= 0 else np.full(n, -1, np.int64),
    )
