"""What a traced program defines: nodes and what they read, models, buffers.

While it runs its ring tells this, afterwards the sidecar of its recording.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Protocol

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.names import layer_of, parse
from ggscope.model.tables import AccessColumns, Array, Space
from ggscope.model.tensors import Buffers, BufferUsage, ModelFile, Place, SizeSource
from ggscope.readers.common.tensor_rows import TensorRows

NODE = np.dtype(
    [("flags", "<u4"), ("layer", "<i4"), ("data", "<u8"), ("bytes", "<u8"),
     ("offset", "<u8"), ("model", "<u4"), ("weight", "<u4"), ("buffer", "<u4"),
     ("sources", "<u4", (10,))]
)  # fmt: skip
"""A tensor of a graph: what of the tracer's ``def_tensor`` counts here."""
UNKNOWN = 0xFFFF_FFFF
_FUSED, _IS_WEIGHT = 2, 4
ALLOCATED, FREED, _USAGE = 1, 2, 3
_MOST_BYTES = 1 << 61
_MOST_LAYERS = 1 << 15


class Watch(Protocol):
    """Who wants to know where the tensors of models lie."""

    def add_model(self, number: int, path: Path, size: int, n_tensors: int) -> None:
        """Take a model file."""
        ...

    def add_tensor(self, model: int, row: int, offset: int, size: int) -> None:
        """Take a tensor of it, which is a row of ``Trace.tensors``."""
        ...


class Definitions:
    """The nodes of all graphs, the tensors of the models, and the buffers.

    The first node stands for one that is not known.
    """

    def __init__(self, builder: TraceBuilder, watch: Watch | None = None) -> None:
        self._builder, self._watch = builder, watch
        self._nodes: list[tuple[int, int, int]] = [(-1, -1, -1)]
        self._columns: tuple[Array, Array, Array] | None = None
        self._tensors = TensorRows()
        self._of_name: dict[str, int] = {}
        self._of_weight: dict[tuple[int, int], int] = {}
        self._stated: set[int] = set()
        self._models: dict[int, int] = {}
        self._buffers: dict[int, list[int]] = {}
        self._rows_of_buffers: dict[int, int] = {}
        self._has_tensors = self._has_buffers = False

    def columns(self) -> tuple[Array, Array, Array]:
        """Return (name int32, layer int16, pattern int32) of all nodes."""
        if self._columns is None:
            name, layer, pattern = np.array(self._nodes).T
            self._columns = (
                name.astype(np.int32), layer.astype(np.int16), pattern.astype(np.int32)
            )  # fmt: skip
        return self._columns

    def put(self) -> None:
        """Give the builder the tensors and buffers as they are known by now."""
        if self._has_tensors:
            stated = np.zeros(len(self._tensors), np.bool_)
            stated[list(self._stated)] = True
            found = self._tensors.table(
                self._builder.strings,
                place=Place.STATED,
                size_source=np.where(stated, SizeSource.STATED, SizeSource.TRACED),
            )
            place = np.where(stated, Place.STATED, Place.TRACED)
            place[found.offset < 0] = Place.UNKNOWN
            self._builder.tensors = replace(found, place=place.astype(np.uint8))
        if self._has_buffers:
            columns = np.array(list(self._buffers.values()), np.int64).T
            name, usage, size, allocated, freed, address = columns
            self._builder.buffers = Buffers(
                name=name.astype(np.int32),
                backend=np.full(len(name), -1, np.int32),
                usage=usage.astype(np.uint8),
                size=size,
                allocated=allocated,
                freed=freed,
                address=address.view(np.uint64),
            )
        self._has_tensors = self._has_buffers = False

    # -- models and buffers ------------------------------------------------

    def add_model(
        self, number: int, path: str, size: int, data: int, n_tensors: int
    ) -> None:
        """Add a model file."""
        if number not in self._models:
            self._models[number] = len(self._builder.models)
            made = ModelFile(PurePath(path).name, bounded(size), bounded(data))
            self._builder.models = (*self._builder.models, made)
            if self._watch is not None:
                # The path is of the machine that runs the program: this one.
                self._watch.add_model(number, Path(path), bounded(size), n_tensors)

    def add_weight(
        self,
        model: int,
        index: int,
        name: str,
        kind: int,
        numbers: Sequence[int],
    ) -> None:
        """Add a tensor of a model file; `numbers` are its shape, offset and size."""
        if (model, index) in self._of_weight:
            return
        *shape, offset, size = (bounded(n) for n in numbers)
        while len(shape) > 1 and shape[-1] == 1:  # dimensions that are not used
            shape.pop()
        row = self._of_weight[model, index] = len(self._tensors)
        self._stated.add(row)
        if self._watch is not None:
            self._watch.add_tensor(model, row, offset, size)
        self._of_name.setdefault(name, row)
        self._tensors.add(
            name,
            offset=offset,
            size=size,
            type_number=min(kind, _MOST_LAYERS - 1),
            shape=[max(n, 0) for n in shape],
            file=self._models.get(model, -1),
        )
        self._has_tensors = True

    def add_buffer(
        self, number: int, name: str, usage: int, address: int, size: int
    ) -> None:
        """Add a buffer; when it was allocated is told by itself.

        `address` : 0 = none but its number.
        """
        if not size:  # ggml makes and frees many that hold nothing
            return
        known = self._buffers.get(number)
        self._rows_of_buffers.setdefault(number, len(self._buffers))
        allocated, freed = (-1, -1) if known is None else known[3:5]
        address = (address or number) % (1 << 64)
        self._buffers[number] = [
            self._builder.strings.intern(name) if name else -1,
            _usage(usage),
            bounded(size),
            allocated,
            freed,
            address - (1 << 64 if address >= 1 << 63 else 0),
        ]
        self._has_buffers = True

    def add_buffer_event(self, number: int, kind: int, usage: int, tick: int) -> None:
        """Note what became of a buffer."""
        buffer = self._buffers.get(number)
        if buffer is None:
            return
        if kind == _USAGE:
            buffer[1] = _usage(usage)
        elif kind in (ALLOCATED, FREED):
            buffer[2 + kind] = tick
        self._has_buffers = True

    # -- graphs ------------------------------------------------------------

    def add_build(
        self, n_nodes: int, tensors: Sequence[Any], names: Sequence[str]
    ) -> tuple[int, int]:
        """Add the nodes of a graph; return (first row, number of nodes).

        Parameters
        ----------
        tensors : with the fields of `NODE`; nodes first, then what else they read.
        """
        first = len(self._nodes)
        n_nodes = min(n_nodes, len(tensors))
        lengths = np.zeros(n_nodes, np.int64)
        rows: list[tuple[int, ...]] = []
        addresses: list[int] = []
        pattern = self._builder.add_patterns(AccessColumns.blank(), lengths[:0])
        for i, node in enumerate(tensors[:n_nodes]):
            for source in _sources(tensors, n_nodes, i):
                rows.append(self._access(tensors[source], names[source]))
                addresses.append(int(tensors[source]["data"]))
                lengths[i] += 1
            name_id = self._builder.strings.intern(names[i]) if names[i] else -1
            layer = _layer(node, names[i])
            self._nodes.append((name_id, layer, pattern + i if lengths[i] else -1))
        columns = np.array(rows, np.int64).reshape(-1, 7).T
        tensor, space, offset, size, buffer, layer_of_row, expert = columns
        accesses = replace(
            AccessColumns.blank(len(rows)),
            tensor=tensor.astype(np.int32),
            space=space.astype(np.uint8),
            offset=offset,
            size=size,
            buffer=buffer.astype(np.int32),
            layer=layer_of_row.astype(np.int16),
            expert=expert.astype(np.int16),
            address=np.array(addresses, np.uint64),
        )
        self._builder.add_patterns(accesses, lengths)
        self._columns = None
        return first, n_nodes

    def _access(self, tensor: Any, name: str) -> tuple[int, ...]:
        """Return what reading a tensor is, in the order of the columns above."""
        is_weight = bool(tensor["flags"] & _IS_WEIGHT)
        told = parse(name)
        size, row = bounded(int(tensor["bytes"])), -1
        if is_weight:
            row = self._of_weight.get((int(tensor["model"]), int(tensor["weight"])), -1)
        offset = bounded(int(tensor["offset"])) if is_weight else -1
        if row < 0 and name:
            row = self._named(told.base or f"({told.suffixes[0]})", offset, size)
        buffer = -1
        if not is_weight:
            buffer = self._rows_of_buffers.get(int(tensor["buffer"]), -1)
        space = Space.FILE if is_weight else Space.BUFFER
        expert = told.expert if told.expert < _MOST_LAYERS else -1
        return row, space, offset, size, buffer, _layer(tensor, name), expert

    def _named(self, name: str, offset: int, size: int) -> int:
        """Return the row of a tensor that no model file lists; as large as it was."""
        row = self._of_name.get(name)
        if row is None:
            row = self._of_name[name] = len(self._tensors)
            self._tensors.add(name, offset=offset, size=size, file=-1)
            self._has_tensors = True
        elif size > self._tensors.size[row] and row not in self._stated:
            self._tensors.size[row] = size
            self._has_tensors = True
        return row


def _sources(tensors: Sequence[Any], n_nodes: int, node: int) -> list[int]:
    """Return what a node reads, with the weight of the one that runs within it."""
    used = [s for s in tensors[node]["sources"].tolist() if s < len(tensors)]
    if node + 1 < n_nodes and tensors[node + 1]["flags"] & _FUSED:
        used += [
            s
            for s in tensors[node + 1]["sources"].tolist()
            if s < len(tensors) and tensors[s]["flags"] & _IS_WEIGHT
        ]
    return used


def _layer(tensor: Any, name: str) -> int:
    layer = int(tensor["layer"])
    return layer if 0 <= layer < _MOST_LAYERS else layer_of(name)


def _usage(number: int) -> int:
    return number if number <= BufferUsage.COMPUTE else BufferUsage.ANY


def bounded(number: int) -> int:
    """Return a size or place; -1 where it is not known or cannot be."""
    return number if number < _MOST_BYTES else -1
