"""The events of a ``.ggmlviz`` file as columns that the rest of the reader uses.

Long columns are worked on in blocks, so that nobody waits for it to be cancelled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array, narrow
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz.columns import EventIntake, Labels, encode
from ggscope.readers.ggmlviz.layouts import MAX_TIME_NS

BLOCK_ROWS = 1 << 18
"""So many rows at once: a millisecond or so, and little memory beside the columns."""
MAX_GAP_NS = 366 * 24 * 3600 * 10**9
"""Stamps further than this from the middle one are damage, too."""

_U64 = npt.NDArray[np.uint64]
_T = TypeVar("_T")


def blocks(n: int, context: ReadContext, block: int = BLOCK_ROWS) -> Iterator[slice]:
    """Yield parts of `n` rows; stop here if cancelled."""
    for first in range(0, n, block):
        context.check_cancelled()
        yield slice(first, min(first + block, n))


def taken(column: Array, rows: Array, context: ReadContext) -> Array:
    """Return ``column[rows]``."""
    found = np.empty(len(rows), column.dtype)
    for block in blocks(len(rows), context):
        found[block] = column[rows[block]]
    return found


def counts(column: Array, n: int, context: ReadContext) -> I64:
    """Return how often each number below `n` occurs, int64[n]; none is negative."""
    found = np.zeros(n, np.int64)
    for block in blocks(len(column), context):
        found += np.bincount(column[block], minlength=n)
    return found


def joined(parts: list[Array], empty_type: type[np.generic]) -> Array:
    """Return all parts one after another, an empty array where there are none."""
    return np.concatenate(parts) if parts else np.empty(0, empty_type)


@dataclass(slots=True, eq=False)
class Events:
    """Equally long columns, one row per event, in file order.

    Not frozen, so that columns that nobody needs any more can be released.

    Attributes
    ----------
    kind : uint8, event number.
    time : int64, ns as in the file.
    place : int32, row of the tables of places below.
    pointer : uint64, of graph, tensor or buffer; 0 where the event has none.
    number : uint32, op number or number of nodes.
    label : int32, row of the table of labels; -1 without a label.
    order : int64, rows in the order of time, then file; None where they are.
    first_record : number of the first event in the file.
    thread_of, backend_of : int32 of each place, rows of the next two.
    thread_ids : uint32, as in the file, in the order of appearance.
    backends : uint64, pointers in the order of appearance; 0 is the CPU or unknown.
    string_of : string id of each label, -1 at the end (where label -1 looks).
    sizes : uint64, bytes of each memory event (see `is_memory`), in file order.
    bad_times : rows whose stamp is impossible; they got that of a neighbour.
    backward : rows whose stamp is before that of the row in front of them.
    bad_labels : rows whose label is no UTF-8.
    n : number of events.
    """

    kind: npt.NDArray[np.uint8]
    time: I64
    place: npt.NDArray[np.int32]
    pointer: _U64
    number: npt.NDArray[np.uint32]
    label: npt.NDArray[np.int32]
    order: I64 | None
    first_record: int
    thread_of: npt.NDArray[np.int32]
    backend_of: npt.NDArray[np.int32]
    thread_ids: npt.NDArray[np.uint32]
    backends: _U64
    string_of: Array
    sizes: _U64
    bad_times: I64
    backward: I64
    bad_labels: I64

    n: int

    def __len__(self) -> int:
        return self.n

    def release(self, *names: str) -> None:
        """Give back the memory of columns; they are empty from now on."""
        for name in names:
            setattr(self, name, getattr(self, name)[:0].copy())

    @property
    def n_threads(self) -> int:
        """Number of distinct threads."""
        return len(self.thread_ids)

    def rows_of(self, first: int, last: int, context: ReadContext) -> I64:
        """Return the rows of events of types `first` to `last`, in time order."""
        parts: list[Array] = []
        for block in blocks(len(self), context):
            if self.order is None:
                kind = self.kind[block]
                rows = np.flatnonzero((kind >= first) & (kind <= last)) + block.start
            else:
                rows = self.order[block]
                kind = self.kind[rows]
                rows = rows[(kind >= first) & (kind <= last)]
            parts.append(rows)
        return joined(parts, np.int64)


def gather(
    intake: EventIntake,
    strings: StringTable,
    context: ReadContext,
    *,
    n: int | None = None,
    first_record: int = 0,
) -> Events:
    """Return the first `n` events (all: None); add their labels to `strings`."""
    columns = intake.columns
    n = columns.n if n is None else min(n, columns.n)
    time, bad_times = _sound_times(columns.time[:n])
    place, places = _used(columns.place[:n], context)
    label, labels = _used(columns.label[:n], context)
    backward = _backward(time, context)
    thread_of, thread_ids, _ = encode(intake.places.threads[places])
    backend_of, backends, _ = encode(intake.places.backends[places])
    string_of, broken = _texts(intake.labels, labels, strings)
    return Events(
        kind=columns.kind[:n],
        time=time,
        place=place,
        pointer=columns.pointer[:n],
        number=columns.number[:n],
        label=label,
        order=np.argsort(time, kind="stable") if len(backward) else None,
        first_record=first_record,
        thread_of=thread_of,
        backend_of=backend_of,
        thread_ids=thread_ids,
        backends=backends,
        string_of=string_of,
        sizes=columns.sizes[: columns.n_sizes],
        bad_times=bad_times,
        backward=backward,
        bad_labels=_rows_with(label, broken, context),
        n=n,
    )


def _used(
    codes: npt.NDArray[np.int32], context: ReadContext
) -> tuple[npt.NDArray[np.int32], I64]:
    """Return codes that count up in the order of appearance, and what they stand for.

    They do so already but where events were taken back, which were damage; then
    some codes are not used any more. -1 stays.
    """
    highest = -1
    in_order = True
    for block in blocks(len(codes), context):
        part = codes[block]
        top = int(part.max(initial=-1))
        if top > highest:
            # Fresh codes come one after another where none was skipped.
            fresh = np.maximum.accumulate(np.append(np.int32(highest), part))
            in_order &= bool((np.diff(fresh) <= 1).all())
            highest = top
    if in_order:
        return codes, np.arange(highest + 1)
    missing = codes < 0
    again, distinct, _ = encode(codes[~missing])
    result = np.full(len(codes), -1, np.int32)
    result[~missing] = again
    return result, distinct.astype(np.int64)


def _sound_times(stamp: _U64) -> tuple[I64, I64]:
    """Return usable times, and the rows whose stamp was impossible.

    An impossible stamp is replaced by the last possible one before it in the file
    (after it for the first events), so that one flipped bit does not stretch the
    trace over centuries.
    """
    if not len(stamp):
        return stamp.view(np.int64), np.empty(0, np.int64)
    low, high = int(stamp.min()), int(stamp.max())
    if high <= MAX_TIME_NS and high - low <= MAX_GAP_NS:
        return stamp.view(np.int64), np.empty(0, np.int64)
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


def _backward(time: I64, context: ReadContext) -> I64:
    """Return the rows that are earlier than the one in front of them."""
    parts: list[Array] = []
    for block in blocks(len(time) - 1, context):
        ahead = time[block.start + 1 : block.stop + 1]
        parts.append(np.flatnonzero(ahead < time[block]) + block.start + 1)
    return joined(parts, np.int64)


def _texts(
    labels: Labels, rows: I64, strings: StringTable
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the string id of the labels in `rows`, then -1; and which are no UTF-8."""
    broken = np.zeros(len(rows) + 1, np.bool_)
    found: list[str] | None = labels.texts()
    if found is not None:
        # The bytes of labels are distinct, and so are their texts.
        texts = _taken(found, rows)
        return narrow(np.append(strings.add_distinct(texts), np.int32(-1))), broken
    texts = []
    for i, data in enumerate(_taken(labels.raw(), rows)):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text, broken[i] = data.decode("utf-8", "replace"), True
        texts.append(text.rstrip("\0"))
    return narrow(np.append(strings.intern_many(texts), np.int32(-1))), broken


def _taken(values: list[_T], rows: I64) -> list[_T]:
    if np.array_equal(rows, np.arange(len(values))):
        return values
    return [values[i] for i in rows.tolist()]


def _rows_with(
    label: npt.NDArray[np.int32], marked: npt.NDArray[np.bool_], context: ReadContext
) -> I64:
    """Return the rows whose label is marked."""
    if not marked.any():
        return np.empty(0, np.int64)
    return joined(
        [
            np.flatnonzero(marked[label[block]]) + block.start
            for block in blocks(len(label), context)
        ],
        np.int64,
    )
