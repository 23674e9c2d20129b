"""What was asked of storage: requests to devices, reads of a program, page faults."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Table

SECTOR = 512
"""Bytes of a sector, whatever the device."""


class IoKind(IntEnum):
    """What was asked for."""

    READ = 0
    WRITE = 1
    DISCARD = 2
    FLUSH = 3
    OTHER = 4
    MAP = 5
    """A file was mapped into memory; nothing need have been read."""
    MAJOR_FAULT = 6
    """A page that had to be read from storage."""
    MINOR_FAULT = 7
    """A page that was in memory already."""
    FAULT = 8
    """A page fault of which it is not recorded whether storage was read."""

    @property
    def word(self) -> str:
        """What people call it: "read", "major fault"."""
        return self.name.lower().replace("_", " ")


class IoLevel(IntEnum):
    """Where it was seen; one read of a program is seen once at each level."""

    DEVICE = 0
    """A request to a block device."""
    CALL = 1
    """A system call of a program."""
    FAULT = 2
    """A page fault."""
    FILE = 3
    """An event of a file, without offset and size."""


@dataclass(frozen=True, slots=True, eq=False)
class IoRequests(Table):
    """Requests in order of start."""

    start: Annotated[I64, Column("int64", "when it was issued", unit="ticks")]
    end: Annotated[
        I64,
        Column(
            "int64",
            "when it was complete; as the start where `is_open`",
            unit="ticks",
        ),
    ]
    is_open: Annotated[
        npt.NDArray[np.bool_], Column("bool", "whether its end is not recorded")
    ]
    queued: Annotated[
        I64,
        Column(
            "int64", "from the queue to its issue", -1, unit="ticks", is_length=True
        ),
    ]
    kind: Annotated[npt.NDArray[np.uint8], Column("uint8", "what it asks", code=IoKind)]
    level: Annotated[
        npt.NDArray[np.uint8], Column("uint8", "where it was seen", code=IoLevel)
    ]
    size: Annotated[I64, Column("int64", "how much", -1, unit="bytes")]
    sector: Annotated[I64, Column("int64", "place on the device, in sectors", -1)]
    offset: Annotated[I64, Column("int64", "place in the file", -1, unit="bytes")]
    file: Annotated[Array, Column("int32", "place in `Storage.files`", -1)]
    device: Annotated[Array, Column("int32", "place in `Storage.devices`", -1)]
    process: Annotated[Array, Column("int32", "who asked", -1, of="strings")]
    pid: Annotated[Array, Column("int32", "its number", -1)]
    span: Annotated[I64, Column("int64", "its span", -1, of="spans")]


@dataclass(frozen=True, slots=True, eq=False)
class Extents(Table):
    """Where a file lies on the device of its file system, in bytes."""

    logical: Annotated[I64, Column("int64", "offset in the file", unit="bytes")]
    physical: Annotated[
        I64,
        Column("int64", "offset on the device of the file system", unit="bytes"),
    ]
    length: Annotated[I64, Column("int64", "how long it is", unit="bytes")]


@dataclass(frozen=True, slots=True, eq=False)
class StorageFile:
    """A file of which something was read.

    Attributes
    ----------
    path : as the trace or the extent map names it.
    size : bytes; -1 unknown.
    extents : where it lies; without rows where no extent map was joined.
    """

    path: str
    size: int = -1
    extents: Extents = field(default_factory=Extents.blank)

    @property
    def name(self) -> str:
        """The name without folders."""
        return self.path.rpartition("/")[2] or self.path


@dataclass(frozen=True, slots=True)
class Device:
    """A block device.

    Attributes
    ----------
    name : "259,0", or "nvme0n1" where the trace has names.
    partitions : sectors at which partitions begin, as remapped requests state.
    is_stated : whether the user stated where the partition begins.
    """

    name: str
    partitions: tuple[int, ...] = ()
    is_stated: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """Requests to storage, and which files they are of.

    Attributes
    ----------
    has_sizes : whether the tool states how many bytes a request has.
    resolution : ticks that its durations are rounded to.
    has_own_clock : whether its times count from the begin of the recording or of the
        day, so that they cannot be compared with those of another file.
    is_aligned : whether its times are known on the clock of the other files of the
        session; None where it is alone.
    """

    requests: IoRequests
    files: tuple[StorageFile, ...] = ()
    devices: tuple[Device, ...] = ()
    has_sizes: bool = True
    resolution: int = 1
    has_own_clock: bool = False
    is_aligned: bool | None = None
