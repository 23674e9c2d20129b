"""Rows of tensors as side files and model files list them, and their table.

These files have one row per tensor of a model: hundreds or thousands, never
millions, so that rows are gathered one by one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ggscope.model.ggml.types import tensor_bytes
from ggscope.model.names import layer_of, parse
from ggscope.model.tables import Array, StringTable
from ggscope.model.tensors import Place, SizeSource, Tensors

MAX_ROWS = 1 << 18
"""More tensors than any model has; a file that lists more is damaged or hostile."""
MAX_OFFSET = (1 << 63) - 1
N_DIMS = 4
_INT16_MAX = (1 << 15) - 1
_SLICE = re.compile(r"\[(\d{1,5})\]$")
_STACKED = re.compile(r"_(?:ch)?exps(?:\.|$)")


@dataclass(slots=True)
class TensorRows:
    """Tensors as they are met; every list has one value per row.

    Attributes
    ----------
    name : as the file spells it.
    offset, size : bytes, -1 unknown.
    layer, expert, type : -1 none.
    shape : ne0 to ne3 as far as stated; () unknown.
    file : row of the models, -1 none.
    address : 0 unknown.
    at : byte offset of the row in the file that lists it.
    """

    name: list[str] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    expert: list[int] = field(default_factory=list)
    type: list[int] = field(default_factory=list)
    shape: list[Sequence[int]] = field(default_factory=list)
    file: list[int] = field(default_factory=list)
    address: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.name)

    def add(
        self,
        name: str,
        *,
        offset: int = -1,
        size: int = -1,
        layer: int = -1,
        expert: int = -1,
        type_number: int = -1,
        shape: Sequence[int] = (),
        file: int = 0,
        address: int = 0,
        at: int = -1,
    ) -> None:
        """Append a row; what it does not say is taken from its name."""
        parsed = parse(name)
        self.name.append(name)
        self.offset.append(offset if 0 <= offset <= MAX_OFFSET else -1)
        self.size.append(size if 0 <= size <= MAX_OFFSET else -1)
        self.layer.append(_small(layer if layer >= 0 else layer_of(name)))
        self.expert.append(_small(expert if expert >= 0 else parsed.expert))
        self.type.append(_small(type_number))
        self.shape.append(tuple(shape[:N_DIMS]))
        self.file.append(file)
        self.address.append(address if 0 <= address < 1 << 64 else 0)
        self.at.append(at)

    def table(
        self,
        strings: StringTable,
        *,
        place: Place,
        offset: Array | None = None,
        size: Array | None = None,
        size_source: Array | SizeSource = SizeSource.LISTED,
    ) -> Tensors:
        """Return the rows as columns, in the order in which they were added.

        Parameters
        ----------
        offset, size : int64[n], repaired values that replace the stated ones.
        size_source : `SizeSource` of all rows or uint8[n]; unknown sizes become
            UNKNOWN whatever it says.
        """
        n = len(self)
        offsets = _int64(self.offset) if offset is None else offset
        sizes = _int64(self.size) if size is None else size
        source = np.broadcast_to(np.asarray(size_source, np.uint8), n)
        return Tensors(
            name=strings.intern_many(self.name),
            offset=offsets,
            size=sizes,
            layer=np.asarray(self.layer, np.int16),
            expert=np.asarray(self.expert, np.int16),
            file=np.asarray(self.file, np.int16),
            type=np.asarray(self.type, np.int16),
            shape=shape_column(self.shape),
            n_experts=np.asarray(
                list(map(n_experts_of, self.name, self.shape)), np.int32
            ),
            place=np.where(offsets >= 0, place, Place.UNKNOWN).astype(np.uint8),
            size_source=np.where(sizes >= 0, source, SizeSource.UNKNOWN).astype(
                np.uint8
            ),
            address=np.asarray(self.address, np.uint64) if any(self.address) else None,
        )


def n_experts_of(name: str, shape: Sequence[int]) -> int:
    """Return how many experts a tensor stacks, by its name and last dimension.

    0 for tensors of another kind, and for the single slices ``…[4]``.
    """
    if not shape or not _STACKED.search(name) or _SLICE.search(name):
        return 0
    n = int(shape[-1])
    return n if 1 < n <= _INT16_MAX else 0


def slice_of(name: str) -> tuple[str, int]:
    """Return (``blk.0.ffn_up_exps.weight``, 4) for ``…[4]``; (name, -1) for others."""
    match = _SLICE.search(name)
    return (name[: match.start()], int(match[1])) if match else (name, -1)


def shape_column(shapes: Sequence[Sequence[int]]) -> Array:
    """Return int64[n, 4]: 0 for unknown shapes, 1 for unused dimensions."""
    column = np.zeros((len(shapes), N_DIMS), np.int64)
    for row, shape in enumerate(shapes):
        if shape:
            dims = [min(max(int(n), 0), MAX_OFFSET) for n in shape[:N_DIMS]]
            column[row] = dims + [1] * (N_DIMS - len(dims))
    return column


def stated_size(type_number: int, shape: Sequence[int]) -> int:
    """Return the bytes that type and shape show; -1 where either is unknown."""
    return tensor_bytes(type_number, shape) if shape else -1


def _small(value: int) -> int:
    return value if -1 <= value <= _INT16_MAX else -1


def _int64(values: list[int]) -> Array:
    return np.asarray(values, np.int64)
