"""Tensors and buffers that a trace names, and the model files they lie in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Table


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
class Tensors(Table):
    """Distinct tensors, one row each.

    A tensor that stacks the experts of a layer (``blk.0.ffn_up_exps.weight``) is one
    row with `n_experts` > 0; slice k of it lies at ``offset + k * size // n_experts``.
    A side file that lists slices (``…[4]``) has one row per slice, with `expert`.
    """

    name: Annotated[
        Array, Column("int32", "without suffixes that ggml appends", -1, of="strings")
    ]
    offset: Annotated[
        I64,
        Column(
            "int64",
            "place in the model file; none where it is not in the file",
            -1,
            unit="bytes",
        ),
    ]
    size: Annotated[I64, Column("int64", "how large it is", -1, unit="bytes")]
    layer: Annotated[Array, Column("int16", "transformer layer", -1, high=1 << 15)]
    expert: Annotated[Array, Column("int16", "expert whose slice it is", -1)]
    file: Annotated[
        Array | None, Column("int16", "model file that it lies in", -1, of="models")
    ] = None
    type: Annotated[
        Array | None, Column("int16", "number of the ggml type", -1, high=1 << 15)
    ] = None
    shape: Annotated[
        I64 | None,
        Column("int64", "ne0 to ne3; 0 is unknown, 1 an unused dimension", 0, width=4),
    ] = None
    n_experts: Annotated[
        Array | None,
        Column("int32", "experts stacked in this tensor; 0 is none", 0, high=1 << 31),
    ] = None
    place: Annotated[
        Array | None,
        Column("uint8", "how the offset is known", Place.UNKNOWN, code=Place),
    ] = None
    size_source: Annotated[
        Array | None,
        Column("uint8", "how the size is known", SizeSource.UNKNOWN, code=SizeSource),
    ] = None
    address: Annotated[
        Array | None,
        Column("uint64", "where the data lay in memory (`data_ptr`); 0 is unknown", 0),
    ] = None


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One model file (or one part of a split one), as its header states.

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
class Buffers(Table):
    """Backend buffers, one row each."""

    name: Annotated[Array, Column("int32", "what people read", -1, of="strings")]
    backend: Annotated[Array, Column("int32", "whose it is", -1, of="strings")]
    usage: Annotated[
        npt.NDArray[np.uint8], Column("uint8", "what it is for", 0, code=BufferUsage)
    ]
    size: Annotated[I64, Column("int64", "how large it is", -1, unit="bytes")]
    allocated: Annotated[I64, Column("int64", "when its life began", -1, unit="ticks")]
    freed: Annotated[
        I64, Column("int64", "when it ended; none while alive", -1, unit="ticks")
    ]
    address: Annotated[Array, Column("uint64", "the buffer's id or pointer", 0)]
    layer: Annotated[Array | None, Column("int16", "layer that it belongs to", -1)] = (
        None
    )
