"""Reads of a trace as plain columns, whichever tool recorded them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.storage import IoKind, IoLevel, Storage, StorageFile
from ggscope.model.tables import I64, Space, Table, ranges
from ggscope.model.trace import Trace

_MAX_ACCESSES = 50_000_000
OPS = "op"
"""Key of the reads of ops."""
KEYS = ("device", "call", "fault", "file", OPS)
"""What reads were recorded as, from storage up; all but the last are an `IoLevel`."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadRows(Table):
    """Reads of one level, in order of start.

    Attributes
    ----------
    key : one of `KEYS`.
    start, end : int64[n], ticks.
    is_open : bool[n], whether the end is not recorded.
    size : int64[n], bytes; -1 unknown.
    offset : int64[n], place in the file in bytes, -1 unknown.
    file : int64[n], place in `files`, -1 unknown.
    place : int64[n], where on the device in bytes; -1 unknown.
    kind : uint8[n], `IoKind`.
    span : int64[n], its span; -1 none.
    row : int64[n], row of `Storage.requests`; -1 where it is none.
    files : names and sizes of the files.
    """

    key: str
    start: I64
    end: I64
    is_open: npt.NDArray[np.bool_]
    size: I64
    offset: I64
    file: I64
    place: I64
    kind: npt.NDArray[np.uint8]
    span: I64
    row: I64
    files: tuple[StorageFile, ...]

    def __len__(self) -> int:
        return len(self.start)


def load_keys(trace: Trace) -> tuple[str, ...]:
    """Return as what reads were recorded, what is nearest to storage first."""
    keys = []
    if trace.storage is not None:
        levels = set(np.flatnonzero(np.bincount(trace.storage.requests.level)).tolist())
        keys += [KEYS[level] for level in sorted(levels)]
    if _has_file_reads(trace):
        keys.append(OPS)
    return tuple(keys)


def load_rows(trace: Trace, key: str) -> LoadRows:
    """Return the reads of a level; without writes, discards and mappings.

    Parameters
    ----------
    key : one of `load_keys`.
    """
    if key == OPS:
        return _of_ops(trace)
    assert trace.storage is not None
    requests = trace.storage.requests
    level = IoLevel(KEYS.index(key))
    asks = np.isin(requests.kind, _read_kinds(level, trace.storage))
    rows = np.flatnonzero((requests.level == level) & asks)
    place = requests.sector[rows]
    return LoadRows(
        key=key,
        start=requests.start[rows],
        end=requests.end[rows],
        is_open=requests.is_open[rows],
        size=requests.size[rows],
        offset=requests.offset[rows],
        file=requests.file[rows].astype(np.int64),
        place=np.where(place < 0, -1, place * 512),
        kind=requests.kind[rows],
        span=requests.span[rows],
        row=rows,
        files=trace.storage.files,
    )


def _read_kinds(level: IoLevel, storage: Storage) -> list[int]:
    """Return the kinds that are reads."""
    if level is IoLevel.FAULT:
        return [IoKind.MAJOR_FAULT, IoKind.MINOR_FAULT, IoKind.FAULT]
    if level is IoLevel.DEVICE and not storage.has_sizes:
        # The tool does not distinguish reads from writes.
        return [IoKind.READ, IoKind.OTHER]
    return [IoKind.READ]


def _has_file_reads(trace: Trace) -> bool:
    what = trace.accesses.patterns
    return bool(len(trace.spans) and _are_file_reads(what.space, what.offset).any())


def _are_file_reads(space: npt.NDArray[np.uint8], offset: I64) -> npt.NDArray[np.bool_]:
    return np.asarray((space == Space.FILE) & (offset >= 0))


def _of_ops(trace: Trace) -> LoadRows:
    """Return what ops read of model files, one row per access."""
    spans, accesses = trace.spans, trace.accesses
    what = accesses.patterns
    pattern = accesses.pattern.astype(np.int64)
    has = np.flatnonzero(pattern >= 0)
    first = accesses.first
    length = (first[1:] - first[:-1])[pattern[has]]
    if int(length.sum()) > _MAX_ACCESSES:
        keep = np.searchsorted(np.cumsum(length), _MAX_ACCESSES)
        has, length = has[:keep], length[:keep]
    rows = ranges(first[:-1][pattern[has]], length)
    span = np.repeat(has, length)
    chosen = _are_file_reads(what.space[rows], what.offset[rows])
    rows, span = rows[chosen], span[chosen]
    order = np.argsort(spans.start[span], kind="stable")
    rows, span = rows[order], span[order]
    tensor = what.tensor[rows].astype(np.int64)
    of_tensor = trace.tensors.file
    file = np.full(len(rows), -1 if trace.models else 0, np.int64)
    if of_tensor is not None and len(trace.tensors):
        known = np.asarray(of_tensor, np.int64)[np.maximum(tensor, 0)]
        file = np.where(tensor >= 0, known, -1)
    if len(trace.models) == 1:
        file[:] = 0
    names = [StorageFile(model.name, model.size) for model in trace.models]
    return LoadRows(
        key=OPS,
        start=spans.start[span],
        end=spans.end[span],
        is_open=np.zeros(len(rows), np.bool_),
        size=what.size[rows].astype(np.int64),
        offset=what.offset[rows],
        file=file,
        place=np.full(len(rows), -1, np.int64),
        kind=np.full(len(rows), IoKind.READ, np.uint8),
        span=span.astype(np.int64),
        row=np.full(len(rows), -1, np.int64),
        files=tuple(names) or (StorageFile("model file"),),
    )
