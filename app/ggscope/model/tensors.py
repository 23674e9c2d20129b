"""Tensors and buffers that a trace names, and the model files they lie in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, empty


class BufferUsage(IntEnum):
    """What a backend buffer is for, as ggml numbers it."""

    ANY = 0
    WEIGHTS = 1
    COMPUTE = 2


class Place(IntEnum):
    """How a tensor's place in the model file is known."""

    UNKNOWN = 0
    """No offset."""
    STATED = 1
    """The model file itself says so (GGUF header)."""
    LISTED = 2
    """A side file lists it (memory map, structure CSV, registry)."""
    CALIBRATED = 3
    """Listed relative to the data section, moved by the delta that fits all."""
    TRACED = 4
    """Only the trace's own accesses say so."""


class SizeSource(IntEnum):
    """How a tensor's size is known."""

    UNKNOWN = 0
    STATED = 1
    """Computed from type and shape in the header of the model file."""
    LISTED = 2
    """A side file lists it."""
    REPAIRED = 3
    """The listed size ran into the next tensor; this is the space up to it."""
    TRACED = 4
    """The largest access of the trace."""


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
    """Distinct tensors, one row each.

    A tensor that stacks the experts of a layer (``blk.0.ffn_up_exps.weight``) is one
    row with `n_experts` > 0; slice k of it lies at ``offset + k * size // n_experts``.
    A side file that lists slices (``…[4]``) has one row per slice, with `expert`.

    Attributes
    ----------
    name : string id, as normalised (suffixes stripped).
    offset : byte offset in the model file; -1 unknown or not in the file.
    size : bytes; -1 unknown.
    layer : int16, -1 none.
    expert : int16, -1 none.
    file : int16, row of ``Trace.models``; -1 none.
    type : int16, number of the ggml type; -1 unknown.
    shape : int64[n, 4], ne0 to ne3; 0 = unknown, 1 = unused dimension.
    n_experts : int32, experts stacked in this tensor; 0 none.
    place, size_source : uint8, `Place` and `SizeSource`: how offset and size are
        known.
    address : uint64, where the data lay in memory (a registry's ``data_ptr``);
        0 unknown.

    Notes
    -----
    The columns from `file` on are None where no reader could fill them.
    """

    name: Array
    offset: I64
    size: I64
    layer: Array
    expert: Array
    file: Array | None = None
    type: Array | None = None
    shape: I64 | None = None
    n_experts: Array | None = None
    place: Array | None = None
    size_source: Array | None = None
    address: Array | None = None

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One model file (or one part of a split one), as its header tells.

    Attributes
    ----------
    name : file name, or the model's name where only a side file is at hand.
    size : bytes of the file; -1 unknown.
    data_offset : where tensor data begin; -1 unknown.
    part, n_parts : of a split model, part counts from 0.
    metadata : facts as text: ``general.architecture``, ``n_layers``, ``n_vocab``,
        ``n_embd``, ``n_experts``, ``n_experts_used`` and what else is short.
    """

    name: str
    size: int = -1
    data_offset: int = -1
    part: int = 0
    n_parts: int = 1
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Backend buffers, one row each.

    Attributes
    ----------
    name, backend : string ids.
    usage : uint8, `BufferUsage`.
    size : bytes.
    allocated, freed : ticks; freed == -1 while alive.
    address : uint64, the buffer's id or pointer.
    layer : int16, -1 none; None where the file knows no layers of buffers.
    """

    name: Array
    backend: Array
    usage: npt.NDArray[np.uint8]
    size: I64
    allocated: I64
    freed: I64
    address: Array
    layer: Array | None = None

    def __len__(self) -> int:
        return len(self.name)


def no_tensors() -> Tensors:
    """Return a table without rows."""
    return Tensors(
        empty(np.int32),
        empty(np.int64),
        empty(np.int64),
        empty(np.int16),
        empty(np.int16),
    )


def no_buffers() -> Buffers:
    """Return a table without rows."""
    return Buffers(
        empty(np.int32),
        empty(np.int32),
        empty(np.uint8),
        empty(np.int64),
        empty(np.int64),
        empty(np.int64),
        empty(np.uint64),
    )
