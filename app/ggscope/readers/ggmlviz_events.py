"""The events of a ``.ggmlviz`` file as columns."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz_layouts import (
    MAX_TIME_NS,
    PREFIX_BYTES,
    EventType,
    Layout,
)
from ggscope.readers.ggmlviz_scan import Boundaries
from ggscope.readers.ggmlviz_walk import Bytes, unaligned

_BLOCK_EVENTS = 1 << 16
MAX_GAP_NS = 366 * 24 * 3600 * 10**9
"""Stamps further than this from the middle one are damage, too."""

_U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Equally long columns, one row per event; in file order when just read.

    Attributes
    ----------
    kind : uint8, event number.
    time : int64, ns as in the file.
    thread, backend : int32, rows of the tables in `Stream`.
    pointer : uint64, of graph, tensor or buffer; 0 where the event has none.
    number : uint32, op number or number of nodes.
    label : int32, string id; -1 without a label.
    record : row in the file.
    """

    kind: npt.NDArray[np.uint8]
    time: I64
    thread: npt.NDArray[np.int32]
    backend: npt.NDArray[np.int32]
    pointer: _U64
    number: npt.NDArray[np.uint32]
    label: npt.NDArray[np.int32]
    record: Array

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Array) -> "Events":
        """Return the given rows."""
        return Events(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """What a file holds besides its events, and what was wrong with them.

    Attributes
    ----------
    offsets : int64[n + 1], where each event starts, then where the last one ends.
    resumed : rows in front of which damaged bytes were left out.
    thread_ids : uint32, as in the file, in the order of appearance.
    backends : uint64, pointers in the order of appearance; 0 is the CPU or unknown.
    sizes : uint64, bytes of each memory event (see `is_memory`), in file order.
    bad_times : rows whose stamp is impossible; they got that of a neighbour.
    bad_labels : rows whose label is no UTF-8.
    """

    offsets: I64
    resumed: I64
    thread_ids: npt.NDArray[np.uint32]
    backends: _U64
    sizes: _U64
    bad_times: I64
    bad_labels: I64


def is_memory(kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Tell which events allocate or free something."""
    return (kind >= EventType.TENSOR_ALLOC) & (kind <= EventType.BACKEND_BUFFER_FREE)


def gather(
    data: Bytes,
    found: Boundaries,
    layout: Layout,
    strings: StringTable,
    context: ReadContext,
) -> tuple[Events, Stream]:
    """Return the events in file order, and the rest; add the labels to `strings`."""
    at = found.offsets[:-1]
    kind = data[at]
    time, bad_times = _sound_times(_numbers(data, at + 1, 8, context))
    thread, thread_ids, _ = encode(_numbers(data, at + 9, 4, context))

    def member(*names: str, rows: Array | slice = slice(None)) -> _U64:
        return _members(data, at[rows], kind[rows], layout, names, context)

    backend, backends, _ = encode(member("backend_ptr"))
    label, bad_labels = _labels(data, found, layout.body_bytes[kind], strings, context)
    events = Events(
        kind=kind,
        time=time,
        thread=thread,
        backend=backend,
        pointer=member("graph_ptr", "tensor_ptr", "ptr"),
        number=member("n_nodes", "op_type").astype(np.uint32),
        label=label,
        record=np.arange(len(found), dtype=_row_type(len(found))),
    )
    sizes = member("size", rows=np.flatnonzero(is_memory(kind)))
    stream = Stream(
        offsets=found.offsets,
        resumed=np.array([gap.row for gap in found.gaps], np.int64),
        thread_ids=thread_ids,
        backends=backends,
        sizes=sizes,
        bad_times=bad_times,
        bad_labels=bad_labels,
    )
    return events, stream


def _row_type(n: int) -> type[np.signedinteger]:
    return np.int32 if n < 1 << 31 else np.int64


def _blocks(n: int, context: ReadContext) -> Iterator[slice]:
    """Yield parts of n rows that fit into the processor's cache."""
    for first in range(0, n, _BLOCK_EVENTS):
        context.check_cancelled()
        yield slice(first, min(first + _BLOCK_EVENTS, n))


def _numbers(data: Bytes, at: I64, width: int, context: ReadContext) -> Array:
    """Return the little-endian numbers at these offsets."""
    words = unaligned(data, width)
    found = np.empty(len(at), f"<u{width}")
    for block in _blocks(len(at), context):
        found[block] = words[at[block]].view(found.dtype)
    return found


def _members(
    data: Bytes,
    at: I64,
    kind: npt.NDArray[np.uint8],
    layout: Layout,
    names: tuple[str, ...],
    context: ReadContext,
) -> _U64:
    """Return the union's field with one of these names; 0 where it has none."""
    found = np.zeros(len(at), np.uint64)
    for first_kind in (0, 2, 4, 6):
        for name, offset, width in layout.member(first_kind):
            if name not in names:
                continue
            words = unaligned(data, width)
            for block in _blocks(len(at), context):
                rows = np.flatnonzero(kind[block] >> 1 == first_kind >> 1)
                union = at[block][rows] + PREFIX_BYTES
                found[block][rows] = words[union + offset].view(f"<u{width}")
    return found


def encode(values: Array) -> tuple[npt.NDArray[np.int32], Array, I64]:
    """Return numbers for values, in the order of their first appearance.

    Returns
    -------
    The number of each value, int32[n]; the distinct values; the row where each
    of them appears first.

    Notes
    -----
    Sorting millions of values to find a handful is slow, so a sample is sorted
    and the rest looked up in it.
    """
    known = np.unique(values[:: max(len(values) >> 14, 1)])
    codes = _positions(known, values)
    missing = known[codes] != values if len(known) else np.zeros(0, np.bool_)
    if missing.any():
        known = np.union1d(known, values[missing])
        codes = _positions(known, values)
    first = np.empty(len(known), np.int64)
    # Written backwards, so that the first appearance stays.
    first[codes[::-1]] = np.arange(len(values) - 1, -1, -1)
    order = np.argsort(first)
    rank = np.empty(len(known), np.int32)
    rank[order] = np.arange(len(known), dtype=np.int32)
    return rank[codes], known[order], first[order]


def _positions(known: Array, values: Array) -> Array:
    return np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))


def _sound_times(stamp: _U64) -> tuple[I64, I64]:
    """Return usable times, and the rows whose stamp was impossible.

    An impossible stamp is replaced by the last possible one before it in the file
    (after it for the first events), so that one flipped bit does not stretch the
    trace over centuries.
    """
    is_bad = stamp > np.uint64(MAX_TIME_NS)
    time = stamp.astype(np.int64)
    if not is_bad.all():
        sample = time[~is_bad]
        middle = int(np.median(sample[:: max(len(sample) >> 14, 1)]))
        is_bad |= abs(time - np.int64(middle)) > MAX_GAP_NS
    bad = np.flatnonzero(is_bad)
    if len(bad):
        good = np.flatnonzero(~is_bad)
        if not len(good):
            time[:] = 0
            return time, bad
        source = np.searchsorted(good, bad) - 1
        time[bad] = time[good[np.maximum(source, 0)]]
    return time, bad


def _labels(
    data: Bytes,
    found: Boundaries,
    body: I64,
    strings: StringTable,
    context: ReadContext,
) -> tuple[npt.NDArray[np.int32], I64]:
    """Return the string id of each event's label, and rows with bad UTF-8."""
    extra = found.sizes() - body
    rows = np.flatnonzero(extra > 0)
    ids = np.full(len(extra), -1, np.int32)
    if not len(rows):
        return ids, rows
    at = found.offsets[rows] + body[rows] + 4
    length = extra[rows] - 4
    codes, first = _distinct_labels(data, at, length, context)
    texts: list[str] = []
    broken = np.zeros(len(first), np.bool_)
    for i, row in enumerate(first.tolist()):
        raw = data[at[row] : at[row] + length[row]].tobytes()
        text = raw.decode("utf-8", "replace")
        broken[i] = "\ufffd" in text and text.encode() != raw
        texts.append(text.rstrip("\0"))
    ids[rows] = strings.intern_many(texts)[codes]
    return ids, rows[broken[codes]]


def _distinct_labels(
    data: Bytes, at: I64, length: I64, context: ReadContext
) -> tuple[Array, I64]:
    """Return a number for each label, equal for equal bytes, and first rows."""
    digest = np.empty(len(at), np.uint64)
    for block in _blocks(len(at), context):
        digest[block] = _digests(data, at[block], length[block])
    codes, _, first = encode(digest)
    del digest
    for block in _blocks(len(at), context):
        model = first[codes[block]]
        if not _are_equal(data, at[block], length[block], at[model], length[model]):
            return _distinct_slow(data, at, length)
    return codes, first


_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def _digests(data: Bytes, at: I64, length: I64) -> _U64:
    """Return a 64-bit digest of each label."""
    digest = (length.astype(np.uint64) + np.uint64(1)) * _MIX
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        mixed = (digest[rows] ^ _words(data, at[rows] + k, length[rows] - k)) * _MIX
        digest[rows] = mixed ^ (mixed >> np.uint64(29))
    return digest


def _words(data: Bytes, at: I64, rest: I64) -> _U64:
    """Return 8 bytes of each label, zeros where `rest` bytes end before."""
    words: _U64 = unaligned(data, 8)[at].view("<u8")
    unused = (8 - np.minimum(rest, 8)).astype(np.uint64) * np.uint64(8)
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> unused
    return words & mask


def _are_equal(
    data: Bytes, at: I64, length: I64, other: I64, other_length: I64
) -> bool:
    """Tell whether all labels equal their others, byte for byte."""
    if not np.array_equal(length, other_length):
        return False
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        rest = length[rows] - k
        if not np.array_equal(
            _words(data, at[rows] + k, rest), _words(data, other[rows] + k, rest)
        ):
            return False
    return True


def _distinct_slow(data: Bytes, at: I64, length: I64) -> tuple[Array, I64]:
    """Return what `_distinct_labels` does, one by one.

    Only where unequal labels have equal digests, which takes a forged file.
    """
    seen: dict[bytes, int] = {}
    first: list[int] = []
    codes = np.empty(len(at), np.int32)
    for row, (start, n) in enumerate(zip(at.tolist(), length.tolist(), strict=True)):
        raw = data[start : start + n].tobytes()
        codes[row] = seen.setdefault(raw, len(first))
        if codes[row] == len(first):
            first.append(row)
    return codes, np.array(first, np.int64)
