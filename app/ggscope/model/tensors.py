"""Tensors and buffers that a trace names."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, empty


class BufferUsage(IntEnum):
    """What a backend buffer is for, as ggml numbers it."""

    ANY = 0
    WEIGHTS = 1
    COMPUTE = 2


@dataclass(frozen=True, slots=True, eq=False)
class Tensors:
    """Distinct tensors, one row each.

    Attributes
    ----------
    name : string id, as normalised (suffixes stripped).
    offset : byte offset in the model file; -1 unknown or not in the file.
    size : bytes; -1 unknown.
    layer : int16, -1 none.
    expert : int16, -1 none.
    """

    name: Array
    offset: I64
    size: I64
    layer: Array
    expert: Array

    def __len__(self) -> int:
        return len(self.name)


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
    """

    name: Array
    backend: Array
    usage: npt.NDArray[np.uint8]
    size: I64
    allocated: I64
    freed: I64
    address: Array

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
