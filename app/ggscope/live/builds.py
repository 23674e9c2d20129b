"""The nodes of graphs as a ring describes them: whole, or by differences."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from ggscope.live.ring import TENSOR
from ggscope.model.tables import Array
from ggscope_capture.ring_format import (
    ColumnChange,
    DefBuild,
    DefLike,
    RingError,
    TensorColumn,
    build_changes,
    build_tensors,
    size_of,
    unpack,
)

_FIELDS = {
    TensorColumn.DATA: "data", TensorColumn.BYTES: "bytes",
    TensorColumn.OFFSET: "offset", TensorColumn.BUFFER: "buffer",
}  # fmt: skip
"""Columns that the viewer reads; the others are pointers and shapes."""
_MAX_WHOLES = 128


@dataclass(frozen=True, slots=True, eq=False)
class Build:
    """A build: its nodes first, then what else they read; of `ring.TENSOR`."""

    number: int
    n_nodes: int
    tensors: Array
    names: list[str]


class Builds:
    """Decodes builds, and caches the whole ones for those that are like them."""

    def __init__(self) -> None:
        self._wholes: OrderedDict[int, Build] = OrderedDict()

    def whole(self, body: bytes) -> Build:
        """Return a build that is described whole; raises RingError."""
        head, begins, names = build_tensors(body)
        rows = [body[begin : begin + TENSOR.itemsize] for begin in begins]
        tensors = np.frombuffer(b"".join(rows), TENSOR)
        build = Build(head.build, head.n_nodes, tensors, names)
        self._wholes.pop(build.number, None)
        self._wholes[build.number] = build
        if len(self._wholes) > _MAX_WHOLES:
            self._wholes.popitem(last=False)
        return build

    def like(self, body: bytes) -> Build:
        """Return a build that is described by its differences from a whole one.

        Raises
        ------
        RingError
            If it is damaged, or like an unknown one.
        """
        head = unpack(DefBuild, body)
        whole = self._wholes.get(unpack(DefLike, body, size_of(DefBuild)).like)
        if whole is None or len(whole.tensors) != head.n_tensors:
            raise RingError(f"build {head.build} is like an unknown one")
        tensors = whole.tensors.copy()
        for change in build_changes(body):
            _apply(tensors, body, change)
        return Build(head.build, whole.n_nodes, tensors, whole.names)


def _apply(tensors: Array, body: bytes, change: ColumnChange) -> None:
    """Change one column of tensors; raises RingError beyond their number."""
    column, n_moved, n_single, values_at, indexes_at = change
    if column not in _FIELDS:
        return
    numbers = np.frombuffer(body, "<u8", 2 * n_moved + n_single, values_at)
    indexes = np.frombuffer(body, "<u4", n_single, indexes_at)
    if len(indexes) and int(indexes.max()) >= len(tensors):
        raise RingError("a change beyond the tensors of a build")
    values = tensors[_FIELDS[TensorColumn(column)]]
    if n_moved:
        order = np.argsort(numbers[:n_moved])
        before, after = numbers[:n_moved][order], numbers[n_moved : 2 * n_moved][order]
        place = np.minimum(np.searchsorted(before, values), n_moved - 1)
        moves = before[place] == values
        values[moves] = after[place[moves]].astype(values.dtype)
    values[indexes] = numbers[2 * n_moved :].astype(values.dtype)
