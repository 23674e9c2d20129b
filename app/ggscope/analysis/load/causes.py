"""Which tensors reads are of, and which access of an op caused which read."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.load.rows import OPS, LoadRows
from ggscope.model.storage import StorageFile
from ggscope.model.tables import I64, Space, ranges
from ggscope.model.trace import Trace


class Cause(IntEnum):
    """Why a read happened, or why that is open."""

    ACCESS = 0
    """An op was reading these bytes when the read was issued."""
    BEFORE = 1
    """It was issued before the first op: the model was being loaded."""
    NO_ACCESS = 2
    """No op was reading these bytes then: read-ahead, or another thread."""
    NO_TENSOR = 3
    """It is of the model file, and of no tensor: its head, or padding."""
    OTHER_FILE = 4
    """It is of another file, or of none that is known."""
    OTHER_CLOCK = 5
    """The clocks of the files are not aligned."""
    NO_OPS = 6
    """Nothing of what ops read is recorded."""
    NO_MODEL = 7
    """No model file in the session lists the tensors."""


@dataclass(frozen=True, slots=True, eq=False)
class TensorReads:
    """Reads by the tensors that they are of; one that spans several has a row of each.

    Attributes
    ----------
    read : int64[m], rows of `LoadRows`.
    tensor : int64[m], rows of `Trace.tensors`.
    bytes : int64[m], bytes of the tensor in the read.
    in_model : bool[n], whether a read is of a model file of the session.
    """

    read: I64
    tensor: I64
    bytes: I64
    in_model: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Causes:
    """Why each read happened.

    Attributes
    ----------
    cause : uint8[n], `Cause`.
    span : int64[n], the span whose access caused it; -1 none.
    """

    cause: npt.NDArray[np.uint8]
    span: I64


def models_of(trace: Trace, files: tuple[StorageFile, ...]) -> I64:
    """Return which model of the session each file is, -1 none.

    By its name; where both state a size, it must be the same. A file of another name
    counts where exactly one model has its size, to the byte.
    """
    models = np.full(len(files), -1, np.int64)
    for i, file in enumerate(files):
        same_size = [
            k for k, m in enumerate(trace.models) if m.size == file.size and m.size > 0
        ]
        for k, model in enumerate(trace.models):
            has_name = model.name.rpartition("/")[2] == file.name
            if has_name and (min(model.size, file.size) < 0 or k in same_size):
                models[i] = k
                break
        else:
            if len(same_size) == 1:
                models[i] = same_size[0]
    return models


def tensor_reads(trace: Trace, rows: LoadRows) -> TensorReads:
    """Return the tensors that reads are of, by offset and size.

    A read without a size, such as a page fault, is of the tensor that it begins in.
    """
    if rows.key == OPS:
        model = np.arange(len(rows.files)) if trace.models else np.zeros(1, np.int64)
    else:
        model = models_of(trace, rows.files)
    padded = np.append(model, -1)
    of = padded[rows.file]
    in_model = (of >= 0) & (rows.offset >= 0)
    tensors = trace.tensors
    file = np.zeros(len(tensors), np.int64)
    if tensors.file is not None:
        file = np.asarray(tensors.file, np.int64)
    is_whole = np.asarray(tensors.expert) < 0
    listed = np.flatnonzero((tensors.offset >= 0) & (tensors.size > 0) & is_whole)
    reads, hits, amounts = [], [], []
    for number in np.flatnonzero(np.bincount(of[in_model])).tolist():
        mine = np.flatnonzero(in_model & (of == number))
        own = listed[(file[listed] == number) | (file[listed] < 0)]
        own = own[np.argsort(tensors.offset[own], kind="stable")]
        if not len(own):
            continue
        begin, end = tensors.offset[own], tensors.offset[own] + tensors.size[own]
        low = rows.offset[mine]
        high = low + np.maximum(rows.size[mine], 1)
        first = np.searchsorted(end, low, "right")
        length = np.maximum(np.searchsorted(begin, high, "left") - first, 0)
        which = ranges(first, length)
        back = np.repeat(np.arange(len(mine)), length)
        amount = np.minimum(high[back], end[which]) - np.maximum(
            low[back], begin[which]
        )
        reads.append(mine[back])
        hits.append(own[which])
        amounts.append(np.where(rows.size[mine][back] < 0, 0, amount))
    none = [np.zeros(0, np.int64)]
    return TensorReads(
        np.concatenate(reads or none),
        np.concatenate(hits or none),
        np.concatenate(amounts or none),
        in_model,
    )


def causes_of(trace: Trace, rows: LoadRows, of_tensor: TensorReads) -> Causes:
    """Return which op's access caused each read.

    An access causes a read where it is of the same bytes, and ran when the read was
    issued. Where the clocks of both files are not known to be one, there is no answer.
    """
    n = len(rows)
    span = np.full(n, -1, np.int64)
    cause = np.full(n, int(Cause.NO_ACCESS), np.uint8)
    has_tensor = np.zeros(n, np.bool_)
    has_tensor[of_tensor.read] = True
    cause[of_tensor.in_model & ~has_tensor] = Cause.NO_TENSOR
    cause[~of_tensor.in_model] = Cause.OTHER_FILE if trace.models else Cause.NO_MODEL
    storage = trace.storage
    if rows.key == OPS:
        return Causes(np.full(n, int(Cause.ACCESS), np.uint8), rows.span.copy())
    has_ops = _reading_spans(trace)
    if not len(has_ops):
        cause[has_tensor] = Cause.NO_OPS
        return Causes(cause, span)
    if storage is None or storage.is_aligned is not True:
        cause[has_tensor] = Cause.OTHER_CLOCK
        return Causes(cause, span)
    open_ = np.flatnonzero(of_tensor.in_model)
    hit = _reader_at(trace, has_ops, rows, open_)
    span[open_] = hit
    caused = open_[hit >= 0]
    cause[caused] = Cause.ACCESS
    begin = int(trace.spans.start[has_ops].min())
    early = of_tensor.in_model & (rows.start < begin) & has_tensor
    cause[early & (span < 0)] = Cause.BEFORE
    return Causes(cause, span)


def _reading_spans(trace: Trace) -> I64:
    """Return the spans that read something of a model file at a known offset."""
    accesses = trace.accesses
    what = accesses.patterns
    reads = (what.space == Space.FILE) & (what.offset >= 0)
    if not reads.any():
        return np.zeros(0, np.int64)
    count = np.append(0, np.cumsum(reads))
    has = count[accesses.first[1:]] > count[accesses.first[:-1]]
    pattern = accesses.pattern.astype(np.int64)
    return np.flatnonzero((pattern >= 0) & np.append(has, False)[pattern])


def _reader_at(trace: Trace, spans: I64, rows: LoadRows, which: I64) -> I64:
    """Return the span that read the bytes of each read when it was issued, -1 none."""
    reader = np.full(len(which), -1, np.int64)
    start = rows.start[which]
    low = rows.offset[which]
    high = low + np.maximum(rows.size[which], 1)
    lane = np.asarray(trace.spans.lane)[spans]
    for number in np.flatnonzero(np.bincount(lane)).tolist():
        mine = spans[lane == number]
        mine = mine[np.argsort(trace.spans.start[mine], kind="stable")]
        at = np.searchsorted(trace.spans.start[mine], start, "right") - 1
        candidate = mine[np.maximum(at, 0)]
        runs = (at >= 0) & (start <= trace.spans.end[candidate]) & (reader < 0)
        rest = np.flatnonzero(runs)
        hits = _overlaps(trace, candidate[rest], low[rest], high[rest])
        reader[rest[hits]] = candidate[rest[hits]]
    return reader


def _overlaps(trace: Trace, spans: I64, low: I64, high: I64) -> npt.NDArray[np.bool_]:
    """Return whether each span reads some of the bytes ``low:high`` of the file."""
    accesses = trace.accesses
    what = accesses.patterns
    pattern = accesses.pattern[spans].astype(np.int64)
    first = accesses.first[pattern]
    length = accesses.first[pattern + 1] - first
    row = ranges(first, length)
    back = np.repeat(np.arange(len(spans)), length)
    begin, size = what.offset[row], what.size[row]
    inside = (what.space[row] == Space.FILE) & (begin >= 0)
    inside &= (begin < high[back]) & (begin + np.maximum(size, 1) > low[back])
    hits = np.zeros(len(spans), np.bool_)
    hits[back[inside]] = True
    return hits
