"""Requests to storage in a session: their files, their place in them, their clock."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions import problems
from ggscope.analysis.sessions.remap_ids import Move
from ggscope.model.storage import (
    SECTOR,
    Device,
    Extents,
    IoKind,
    IoLevel,
    IoRequests,
    Storage,
    StorageFile,
)
from ggscope.model.tables import I64, stacked
from ggscope.model.trace import ReadWarning, Trace

_CLEAR = 0.9
"""A partition is chosen where no other one fits as well as that."""


def has_own_clock(trace: Trace) -> bool:
    """Return whether the times of a trace cannot be compared with those of others."""
    storage = trace.storage
    return storage is not None and storage.has_own_clock and storage.is_aligned is None


def joined_storage(
    a: Storage | None, b: Storage | None, move: Move, *, is_aligned: bool | None = None
) -> Storage | None:
    """Return the requests and files of both; those of `b` in the numbers of `a`.

    Parameters
    ----------
    is_aligned : whether the clocks of both are known to be one; None = one of them has
        no times.
    """
    if b is None:
        if a is None or is_aligned is None:
            return a
        return replace(a, is_aligned=is_aligned and a.is_aligned is not False)
    first = a or Storage(IoRequests.blank())
    files, file_of = _joined_files(first.files, b.files)
    devices = (*first.devices, *b.devices)
    n_devices = len(first.devices)
    moved = move.of(b.requests)
    moved = replace(
        moved,
        file=np.append(file_of, np.int32(-1))[moved.file],
        device=np.where(moved.device < 0, -1, moved.device + n_devices).astype(
            np.int32
        ),
    )
    requests = stacked(first.requests, moved) if len(first.requests) else moved
    order = np.argsort(requests.start, kind="stable")
    sides = [s for s in (a, b) if s is not None and len(s.requests)]
    known = [s.is_aligned for s in sides if s.is_aligned is not None]
    if is_aligned is not None:
        known.append(is_aligned)
    return Storage(
        requests=requests.take(order),
        files=files,
        devices=devices,
        has_sizes=any(s.has_sizes for s in sides),
        resolution=max((s.resolution for s in sides), default=1),
        has_own_clock=any(s.has_own_clock for s in sides),
        is_aligned=all(known) if known else None,
    )


def _joined_files(
    a: Sequence[StorageFile], b: Sequence[StorageFile]
) -> tuple[tuple[StorageFile, ...], npt.NDArray[np.int32]]:
    """Return the files of both, those of one path once; and where each of `b` is."""
    files = list(a)
    number = {file.path: i for i, file in enumerate(files)}
    place = np.zeros(len(b), np.int32)
    for i, file in enumerate(b):
        at = number.setdefault(file.path, len(files))
        place[i] = at
        if at == len(files):
            files.append(file)
        else:
            old = files[at]
            files[at] = StorageFile(
                old.path,
                old.size if old.size >= 0 else file.size,
                old.extents if len(old.extents) else file.extents,
            )
    return tuple(files), place


# -- sectors to offsets ----------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where requests to devices lie in files.

    Attributes
    ----------
    file, offset : int64[n], place in `Storage.files` and offset there; -1 none.
    partition : sector of the begin of the file system, of each device.
    n_candidates : how many begins of partitions each device has.
    is_open : whether another partition fits nearly as well, of each device.
    n_across : requests that go on behind the extent that they begin in.
    """

    file: I64
    offset: I64
    partition: tuple[int, ...]
    n_candidates: tuple[int, ...]
    is_open: tuple[bool, ...]
    n_across: int


def placed(storage: Storage) -> Placement:
    """Return which files requests to devices are of, by the extents of these files.

    The map of a file counts from the begin of its file system. Where remapped requests
    say that a partition begins at a sector, sectors are counted from there; of several
    partitions the one counts in which most of what was read lies in the files.
    """
    requests = storage.requests
    n = len(requests)
    file, offset = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    ends = np.full(n, -1, np.int64)
    starts, counts, opens = [], [], []
    table = _Lookup(storage.files)
    is_device = (requests.level == IoLevel.DEVICE) & (requests.sector >= 0)
    for number, device in enumerate(storage.devices):
        rows = np.flatnonzero(is_device & (requests.device == number))
        position = requests.sector[rows] * SECTOR
        size = np.maximum(requests.size[rows], 0)
        is_read = requests.kind[rows] != IoKind.WRITE
        candidates = device.partitions or (0,)
        best: tuple[int, int, I64, I64, I64] | None = None
        amounts = []
        for start in candidates:
            of, at, until = table.find(position - start * SECTOR)
            amount = int(np.where((of >= 0) & is_read, size, 0).sum())
            amounts.append(amount)
            if best is None or amount > best[0]:
                best = (amount, start, of, at, until)
        assert best is not None
        file[rows], offset[rows], ends[rows] = best[2:]
        starts.append(best[1])
        counts.append(len(device.partitions))
        rest = sorted(amounts)[:-1]
        opens.append(bool(rest) and best[0] > 0 and rest[-1] > best[0] * _CLEAR)
    across = (offset >= 0) & (offset + np.maximum(requests.size, 0) > ends)
    return Placement(
        file,
        offset,
        tuple(starts),
        tuple(counts),
        tuple(opens),
        int(np.count_nonzero(across)),
    )


class _Lookup:
    """Finds the extent that holds a place of the file system."""

    def __init__(self, files: Sequence[StorageFile]) -> None:
        with_map = [(i, f.extents) for i, f in enumerate(files) if len(f.extents)]
        tables: list[Extents] = [extents for _, extents in with_map]
        whole = stacked(*tables) if tables else Extents.blank()
        file = np.repeat(
            np.array([i for i, _ in with_map], np.int64), [len(t) for t in tables]
        )
        order = np.argsort(whole.physical, kind="stable")
        self._whole, self._file = whole.take(order), file[order]

    def find(self, position: I64) -> tuple[I64, I64, I64]:
        """Return file, offset and end of the extent of each place in bytes; -1 none."""
        whole, none = self._whole, np.full(len(position), -1, np.int64)
        if not len(whole):
            return none, none, none
        row = np.searchsorted(whole.physical, position, "right") - 1
        at = np.maximum(row, 0)
        inside = (row >= 0) & (position < whole.physical[at] + whole.length[at])
        offset = position - whole.physical[at] + whole.logical[at]
        return (
            np.where(inside, self._file[at], -1),
            np.where(inside, offset, -1),
            np.where(inside, whole.logical[at] + whole.length[at], -1),
        )


def with_places(trace: Trace) -> Trace:
    """Return the trace whose requests to devices know their file and offset.

    Where no file has an extent map it stays as it is.
    """
    storage = trace.storage
    if storage is None or not any(len(file.extents) for file in storage.files):
        return trace
    requests = storage.requests
    is_device = requests.level == IoLevel.DEVICE
    if not is_device.any():
        return trace
    placement = placed(storage)
    requests = replace(
        requests,
        file=np.where(is_device, placement.file, requests.file).astype(np.int32),
        offset=np.where(is_device, placement.offset, requests.offset),
    )
    notes = tuple(_notes(storage, placement, int(np.count_nonzero(is_device))))
    codes = {note.code for note in notes}
    others = tuple(w for w in trace.warnings if w.code not in codes)
    return replace(
        trace,
        storage=replace(storage, requests=requests),
        warnings=(*others, *notes),
    )


def _notes(storage: Storage, placement: Placement, n_all: int) -> list[ReadWarning]:
    notes = []
    for device, start, n, is_open in zip(
        storage.devices,
        placement.partition,
        placement.n_candidates,
        placement.is_open,
        strict=True,
    ):
        notes.append(_note_of(device, start, n, is_open=is_open))
    n_none = n_all - int(np.count_nonzero(placement.file >= 0))
    if n_none:
        notes.append(problems.requests_outside_files(n_none))
    if placement.n_across:
        notes.append(problems.requests_across_extents(placement.n_across))
    # One per code: a session has a device or two.
    return list({note.code: note for note in reversed(notes)}.values())


def _note_of(device: Device, start: int, n: int, *, is_open: bool) -> ReadWarning:
    if is_open:
        return problems.partition_ambiguous(device, start, n)
    if n:
        return problems.partition_start(device, start)
    return problems.partition_unknown(device)
