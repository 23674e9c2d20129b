"""What a traced program defines: nodes and what they read, models, buffers.

While it runs its ring states this, afterwards the sidecar of its recording.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Protocol

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.growing import Growing
from ggscope.model.names import layer_of, parse
from ggscope.model.tables import I64, AccessColumns, Array, Space
from ggscope.model.tensors import Buffers, BufferUsage, ModelFile, Place, SizeSource
from ggscope.readers.common.tensor_rows import TensorRows

NODE = np.dtype(
    [("flags", "<u4"), ("layer", "<i4"), ("data", "<u8"), ("bytes", "<u8"),
     ("offset", "<u8"), ("model", "<u4"), ("weight", "<u4"), ("buffer", "<u4"),
     ("sources", "<u4", (10,))]
)  # fmt: skip
"""A tensor of a graph: what of the tracer's ``def_tensor`` counts here."""
UNKNOWN = 0xFFFF_FFFF
_COMPUTED, _FUSED, _IS_WEIGHT, _VIEW = 1, 2, 4, 16
ALLOCATED, FREED, _USAGE = 1, 2, 3
_MAX_BYTES = 1 << 61
_MAX_LAYERS = 1 << 15
_STRUCTURE = ("flags", "layer", "model", "weight", "sources")
"""What builds that are alike have in common, with their names; the rest are places and
sizes."""


class Watch(Protocol):
    """Who wants to know where the tensors of models lie."""

    def add_model(self, number: int, path: Path, size: int, n_tensors: int) -> None:
        """Take a model file."""
        ...

    def add_tensor(self, model: int, row: int, offset: int, size: int) -> None:
        """Take a tensor of it, which is a row of ``Trace.tensors``."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Structure:
    """What is the same in all builds that are alike.

    Attributes
    ----------
    name, layer : of each node.
    lengths : how many tensors each node reads.
    source : of each read, which tensor of the build that is.
    tensor, layer_read, expert : of each read, as in `AccessColumns`.
    is_weight : of each read.
    writer : of each read, which node has computed it; -1 none.
    sized, of : rows of tensors that no model lists, and those of the build they are:
        they are as large as they ever were.
    """

    name: Array
    layer: Array
    lengths: I64
    source: I64
    tensor: Array
    layer_read: Array
    expert: Array
    is_weight: Array
    writer: I64
    sized: I64
    of: I64


class Definitions:
    """The nodes of all graphs, the tensors of the models, and the buffers.

    The first node stands for one that is not known.
    """

    def __init__(self, builder: TraceBuilder, watch: Watch | None = None) -> None:
        self._builder, self._watch = builder, watch
        self._nodes = Growing(np.int32), Growing(np.int16), Growing(np.int32)
        for column in self._nodes:
            column.append(np.full(1, -1, column.dtype))
        self._structures: dict[tuple[object, ...], _Structure] = {}
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
        name, layer, pattern = self._nodes
        return name.view(), layer.view(), pattern.view()

    def put(self) -> None:
        """Give the builder the tensors and buffers as they are known by now."""
        if self._has_tensors:
            stated = np.zeros(len(self._tensors), np.bool_)
            stated[list(self._stated)] = True
            table = self._tensors.table(
                self._builder.strings,
                place=Place.STATED,
                size_source=np.where(stated, SizeSource.STATED, SizeSource.TRACED),
            )
            place = np.where(stated, Place.STATED, Place.TRACED)
            place[table.offset < 0] = Place.UNKNOWN
            self._builder.tensors = replace(table, place=place.astype(np.uint8))
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
            type_number=min(kind, _MAX_LAYERS - 1),
            shape=[max(n, 0) for n in shape],
            file=self._models.get(model, -1),
        )
        self._has_tensors = True

    def add_buffer(
        self, number: int, name: str, usage: int, address: int, size: int
    ) -> None:
        """Add a buffer; when it was allocated is determined by itself.

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
        self, n_nodes: int, tensors: Array, names: Sequence[str]
    ) -> tuple[int, int]:
        """Add the nodes of a graph; return (first row, number of nodes).

        Parameters
        ----------
        tensors : with the fields of `NODE`; nodes first, then what else they read.
        """
        n_nodes = min(n_nodes, len(tensors))
        key = (n_nodes, tuple(names), *(tensors[k].tobytes() for k in _STRUCTURE))
        structure = self._structures.get(key)
        if structure is None:
            structure = self._structure(n_nodes, tensors, names)
            self._structures[key] = structure
        size, offset = _bounded(tensors["bytes"]), _bounded(tensors["offset"])
        self._widen(structure, size)
        read, is_weight = structure.source, structure.is_weight
        accesses = replace(
            AccessColumns.blank(len(read)),
            tensor=structure.tensor,
            space=np.where(is_weight, Space.FILE, Space.BUFFER).astype(np.uint8),
            offset=np.where(is_weight, offset[read], -1),
            size=size[read],
            buffer=self._buffer_rows(tensors)[read].astype(np.int32),
            layer=structure.layer_read,
            expert=structure.expert,
            address=tensors["data"][read].astype(np.uint64),
        )
        number = self._builder.add_patterns(
            accesses, structure.lengths, size[:n_nodes], structure.writer
        )
        pattern = np.where(structure.lengths > 0, number + np.arange(n_nodes), -1)
        first = len(self._nodes[0])
        for column, values in zip(
            self._nodes, (structure.name, structure.layer, pattern), strict=True
        ):
            column.append(values.astype(column.dtype))
        return first, n_nodes

    def _structure(
        self, n_nodes: int, tensors: Array, names: Sequence[str]
    ) -> _Structure:
        """Look at names and sources once for all builds that are alike."""
        intern = self._builder.strings.intern
        layer = tensors["layer"].astype(np.int64)
        layer[(layer < 0) | (layer >= _MAX_LAYERS)] = -1
        for i in np.flatnonzero(layer < 0).tolist():
            layer[i] = layer_of(names[i])
        lengths, source = _reads(tensors, n_nodes)
        is_weight = tensors["flags"] & _IS_WEIGHT != 0
        size, offset = _bounded(tensors["bytes"]), _bounded(tensors["offset"])
        rows = np.full(len(tensors), -1, np.int64)
        experts = np.full(len(tensors), -1, np.int64)
        sized: list[tuple[int, int]] = []
        _, firsts = np.unique(source, return_index=True)
        for i in source[np.sort(firsts)].tolist():
            parsed = parse(names[i])
            experts[i] = parsed.expert if parsed.expert < _MAX_LAYERS else -1
            if is_weight[i]:
                key = int(tensors["model"][i]), int(tensors["weight"][i])
                rows[i] = self._of_weight.get(key, -1)
            if rows[i] < 0 and names[i]:
                name = parsed.base or f"({parsed.suffixes[0]})"
                place = int(offset[i]) if is_weight[i] else -1
                rows[i] = self._named(name, place, int(size[i]))
                sized.append((int(rows[i]), i))
        pairs = np.array(sized, np.int64).reshape(-1, 2)
        return _Structure(
            name=np.array([intern(n) if n else -1 for n in names[:n_nodes]], np.int32),
            layer=layer[:n_nodes],
            lengths=lengths,
            source=source,
            tensor=rows[source].astype(np.int32),
            layer_read=layer[source].astype(np.int16),
            expert=experts[source].astype(np.int16),
            is_weight=is_weight[source],
            writer=_writers(tensors, n_nodes)[source],
            sized=pairs[:, 0],
            of=pairs[:, 1],
        )

    def _named(self, name: str, offset: int, size: int) -> int:
        """Return the row of a tensor that no model file lists; as large as it was."""
        row = self._of_name.get(name)
        if row is None:
            row = self._of_name[name] = len(self._tensors)
            self._tensors.add(name, offset=offset, size=size, file=-1)
            self._has_tensors = True
        return row

    def _widen(self, structure: _Structure, size: I64) -> None:
        """Note how large tensors are that no model file lists."""
        sizes = self._tensors.size
        for row, n in zip(
            structure.sized.tolist(), size[structure.of].tolist(), strict=True
        ):
            if n > sizes[row] and row not in self._stated:
                sizes[row] = n
                self._has_tensors = True

    def _buffer_rows(self, tensors: Array) -> I64:
        """Return the row of the buffer of each tensor, -1 where it is not known."""
        numbers, which = np.unique(tensors["buffer"], return_inverse=True)
        rows = [self._rows_of_buffers.get(number, -1) for number in numbers.tolist()]
        return np.array(rows, np.int64)[which]


def _reads(tensors: Array, n_nodes: int) -> tuple[I64, I64]:
    """Return how many tensors each node reads, and which, node by node.

    With the weight of a node that runs within it.
    """
    sources = tensors["sources"][:n_nodes].astype(np.int64)
    is_known = sources < len(tensors)
    safe = np.where(is_known, sources, 0)
    flags = tensors["flags"]
    within = np.zeros(n_nodes, np.bool_)
    within[:-1] = flags[1:n_nodes] & _FUSED != 0
    fused, counts = np.zeros_like(safe), np.zeros_like(is_known)
    fused[:-1] = safe[1:]
    counts[:-1] = is_known[1:] & (flags[safe[1:]] & _IS_WEIGHT != 0)
    counts &= within[:, None]
    both = np.concatenate([is_known, counts], axis=1)
    listed = np.concatenate([safe, fused], axis=1)
    return both.sum(axis=1), listed[both]


def _writers(tensors: Array, n_nodes: int) -> I64:
    """Return the node in whose span each tensor was computed, int64[n]; -1 none.

    A view is of the tensor that it looks at, which is the first source of its node. A
    node that runs within the one before it is computed in the span of that one.
    """
    flags = tensors["flags"].astype(np.int64)
    place = np.arange(len(tensors), dtype=np.int64)
    is_node = place < n_nodes
    is_run = is_node & (flags & _COMPUTED != 0)
    is_within = is_node & ~is_run & (flags & _FUSED != 0) & (place > 0)
    source = tensors["sources"][:, 0].astype(np.int64)
    # Nodes come in the order of the program: each step leads to an earlier one.
    is_view = is_node & ~is_run & ~is_within & (flags & _VIEW != 0) & (source < place)
    step = np.where(is_view, source, np.where(is_within, place - 1, place))
    while (step[step] != step).any():
        step = step[step]
    return np.where(is_run[step], step, -1)


def _bounded(numbers: Array) -> I64:
    """Return sizes or places; -1 where one is not known or cannot be."""
    values = numbers.astype(np.int64)
    values[numbers >= _MAX_BYTES] = -1
    return values


def _usage(number: int) -> int:
    return number if number <= BufferUsage.COMPUTE else BufferUsage.ANY


def bounded(number: int) -> int:
    """Return a size or place; -1 where it is not known or cannot be."""
    return number if number < _MAX_BYTES else -1
