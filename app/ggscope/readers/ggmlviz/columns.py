"""Columns that fill while a ``.ggmlviz`` file is read, and the events that they make.

``ggmlviz.c`` walks over the events, stretch by stretch of some milliseconds each, and
writes what they hold; the columns grow between two of its calls. What is gathered from
them is worked on in blocks, so that nobody waits for it to be cancelled.
"""

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ggscope.errors import LimitExceededError
from ggscope.model.tables import (
    I32,
    I64,
    U8,
    U32,
    U64,
    Array,
    Bools,
    StringTable,
    distinct,
    narrow,
)
from ggscope.native.declared import Intake
from ggscope.native.library import library
from ggscope.readers.chunked import ChunkedOps
from ggscope.readers.ggmlviz.layouts import MAX_TIME_NS, EventLayout, EventType
from ggscope.readers.ggmlviz.walk import Found, Stop, Walk
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION, SAMPLED_SHARE

TOO_LARGE_HINT = (
    f"Read a part of the file with {RANGE_OPTION}=FIRST:STOP, or fewer names with "
    f"{NAMES_OPTION}=sampled or {NAMES_OPTION}=none."
)
NAME_BLOCK = 4096
"""Events with names=sampled: one block of so many in `SAMPLED_SHARE` has labels."""
_LABELS_AT_ONCE = 1 << 16

_TYPES = {
    "kind": np.uint8,
    "time": np.uint64,
    "place": np.int32,
    "pointer": np.uint64,
    "number": np.uint32,
    "label": np.int32,
}
EVENT_BYTES = sum(np.dtype(t).itemsize for t in _TYPES.values())
"""Memory of an event while it is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Which events and labels to keep.

    Attributes
    ----------
    first, stop : numbers of events; None = to the end.
    names_every : labels of one block of events in so many are kept; 0: of none.
    memory_bytes : most that the columns may take.
    """

    first: int = 0
    stop: int | None = None
    names_every: int = 1
    memory_bytes: int = 1 << 62


NAMES_EVERY = {"all": 1, "sampled": SAMPLED_SHARE, "none": 0}


class StreamColumns:
    """One row for each event that is kept, in file order; rows can be taken back.

    Attributes
    ----------
    n : rows; the arrays are longer.
    kind : uint8, event number.
    time : uint64, ns as in the file.
    place : int32, row of `threads` and `backends`.
    pointer : uint64, of graph, tensor or buffer; 0 where the event has none.
    number : uint32, op number or number of nodes.
    label : int32, row of `labels`; -1 without a label.
    sizes : uint64, bytes of each memory event; `n_sizes` of them.
    threads, backends : the distinct pairs, in the order of appearance.
    labels : the distinct labels, in the order of appearance.
    """

    kind: U8
    time: U64
    place: I32
    pointer: U64
    number: U32
    label: I32

    def __init__(self, capacity: int, memory_bytes: int = 1 << 62) -> None:
        self._memory_bytes = memory_bytes
        self.n = self.n_sizes = 0
        self.room = self.size_room = 0
        self.sizes = np.empty(0, np.uint64)
        self._reserve(max(capacity, 1))

    def reserve(self, n: int) -> None:
        """Make room for `n` more rows.

        Raises
        ------
        LimitExceededError
            If that is more memory than the columns may take.
        """
        if self.n + n > self.room:
            self._reserve(max(self.n + n, self.room * 5 // 4))

    def reserve_sizes(self, n: int) -> None:
        """Make room for `n` more sizes."""
        if self.n_sizes + n > self.size_room:
            self.size_room = max(self.n_sizes + n, 2 * self.size_room)
            self.sizes = grown(self.sizes, self.n_sizes, self.size_room)

    def drop(self, n: int) -> None:
        """Take back the last `n` rows."""
        n = min(n, self.n)
        self.n -= n
        kinds = self.kind[self.n : self.n + n]
        self.n_sizes -= int(np.count_nonzero((kinds >= 4) & (kinds <= 7)))

    def _reserve(self, capacity: int) -> None:
        if capacity * EVENT_BYTES > self._memory_bytes:
            raise LimitExceededError(
                "the events need more than the memory limit of "
                f"{self._memory_bytes:,} bytes.",
                hint=TOO_LARGE_HINT,
            )
        for name, dtype in _TYPES.items():
            old = getattr(self, name, np.empty(0, dtype))
            setattr(self, name, grown(old, self.n, capacity))
        self.room = capacity


class ThreadPlaces:
    """Distinct pairs of thread and backend, in the order of appearance.

    Attributes
    ----------
    n : number of pairs; the arrays may be longer.
    """

    def __init__(self) -> None:
        self.n = 0
        self.threads = np.empty(0, np.uint32)
        self.backends = np.empty(0, np.uint64)

    def reserve(self, n: int) -> None:
        """Make room for `n` more pairs."""
        if self.n + n > len(self.threads):
            capacity = max(self.n + n, 2 * self.n)
            self.threads = grown(self.threads, self.n, capacity)
            self.backends = grown(self.backends, self.n, capacity)


class Labels:
    """Distinct labels, in the order of appearance: their bytes one after another.

    Attributes
    ----------
    n : number of labels; the arrays may be longer.
    ends : int64[>= n + 1], where label i ends is ``ends[i + 1]``; ``ends[0] == 0``.
    letters : uint8.
    """

    def __init__(self) -> None:
        self.n = 0
        self.ends = np.zeros(1, np.int64)
        self.letters = np.empty(0, np.uint8)

    def reserve(self, n: int, n_letters: int) -> None:
        """Make room for `n` more labels of so many bytes together."""
        if self.n + n >= len(self.ends):
            self.ends = grown(self.ends, self.n + 1, max(self.n + n, 2 * self.n) + 1)
        done = int(self.ends[self.n])
        if done + n_letters > len(self.letters):
            self.letters = grown(self.letters, done, max(done + n_letters, 2 * done))

    def raw(self) -> list[bytes]:
        """Return the bytes of every label."""
        ends = self.ends[: self.n + 1].tolist()
        text = self.letters[: ends[-1]].tobytes()
        return [text[a:b] for a, b in pairwise(ends)]

    def texts(self) -> list[str] | None:
        """Return every label as text; None where one is not of plain ASCII."""
        ends = self.ends[: self.n + 1]
        letters = self.letters[: int(ends[-1])]
        # Zeros fill labels up; they are no letters of a name.
        if len(letters) and not 0 < int(letters.min()) <= int(letters.max()) < 0x80:
            return None
        texts: list[str] = []
        # By a zero between two, which is many times faster than piece by piece; and not
        # all at once, since nothing else runs meanwhile.
        for first in range(0, self.n, _LABELS_AT_ONCE):
            stop = min(first + _LABELS_AT_ONCE, self.n)
            begin, end = int(ends[first]), int(ends[stop])
            between = ends[first + 1 : stop] - begin
            is_letter = np.ones(end - begin + len(between), np.bool_)
            is_letter[between + np.arange(len(between))] = False
            text = np.zeros(len(is_letter), np.uint8)
            text[is_letter] = letters[begin:end]
            texts += text.tobytes().decode("ascii").split("\0")
        return texts


def grown(array: Array, n: int, capacity: int) -> Array:
    """Return an array of `capacity` rows that begins with the first `n` of another."""
    larger = np.empty(capacity, array.dtype)
    larger[:n] = array[:n]
    return larger


def encode(values: Array) -> tuple[I32, Array, I64]:
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
    if bool((values[1:] > values[:-1]).all()):  # all different, and in order
        rows = np.arange(len(values))
        return rows.astype(np.int32), values, rows
    known = distinct(values[:: max(len(values) >> 14, 1)])
    codes = _positions(known, values)
    missing = known[codes] != values if len(known) else np.zeros(0, np.bool_)
    if missing.any():
        known = distinct(np.concatenate([known, values[missing]]))
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


def is_memory(kind: U8) -> Bools:
    """Return which events allocate or free something."""
    return (kind >= EventType.TENSOR_ALLOC) & (kind <= EventType.BACKEND_BUFFER_FREE)


_STOPS = (Stop.END, Stop.TRUNCATED, Stop.ZEROS, Stop.BAD_FLAG, Stop.BAD_LABEL)
_FULL = len(_STOPS)
_FIELDS = (
    ("graph_ptr", "tensor_ptr", "ptr"),
    ("n_nodes", "op_type"),
    ("size",),
    ("backend_ptr",),
)
_N_MEMBERS = 8
_GROWING = (*_TYPES, "sizes", "threads", "backends", "label_ends", "letters")
_STRETCH_BYTES = 4 << 20
_ROOM, _LETTERS = 1 << 10, 1 << 16
"""Room for places and labels, and for the bytes of labels, to begin with."""


def new_secret() -> Array:
    """Return uint64[3] that nobody who writes files can know, the last two odd."""
    entropy = np.frombuffer(os.urandom(24), np.uint64)
    return entropy | np.array([0, 1, 1], np.uint64)


def free_slots(n: int) -> Array:
    """Return int32 slots, all free, for `n` codes and as many again."""
    return np.full(1 << max((2 * n - 1).bit_length(), 6), -1, np.int32)


class EventCollector:
    """Takes events from the file into columns.

    Attributes
    ----------
    window_bytes : how much of the file it likes to see at once.
    """

    def __init__(
        self,
        options: EventOptions,
        capacity: int,
        layout: EventLayout,
        *,
        window_bytes: int = _STRETCH_BYTES,
    ) -> None:
        self.columns = StreamColumns(capacity, options.memory_bytes)
        self.places = ThreadPlaces()
        self.labels = Labels()
        self.window_bytes = window_bytes
        self._requested = options
        max_events = window_bytes // int(layout.body_bytes.min()) + 1
        self._starts = np.empty(max_events, np.int64)
        self._hashes = {name: np.empty(0, np.uint64) for name in ("place", "label")}
        self._slots: dict[str, Array] = {}
        self._struct = Intake(
            body=layout.body_bytes,
            fields=_field_table(layout),
            secret=new_secret(),
            starts=self._starts,
            skip=options.first,
            names_every=options.names_every,
        )

    @property
    def row(self) -> int:
        """Number of the next event in the file."""
        return int(self._struct.row)

    def take(self, walk: Walk, at: int, until: int) -> Found:
        """Take events from `at` on to the first at or behind `until`, or a fault."""
        struct, window = self._struct, walk.window
        struct.data, struct.end = window.data, window.end - window.base
        struct.at, struct.max_label = at - window.base, walk.max_label
        capacity, last = len(self._starts), self._requested.stop
        struct.n_starts = 0
        struct.start_room = capacity if last is None else min(capacity, last - self.row)
        while True:
            self._reserve(walk.max_label)
            code = library().ggscope_ggmlviz_take(struct, until - window.base)
            self.columns.n, self.columns.n_sizes = struct.n, struct.n_sizes
            self.places.n, self.labels.n = struct.n_places, struct.n_labels
            if code != _FULL or struct.n_starts == struct.start_room:
                break
        # What has grown since, or is let go elsewhere, is not kept from here.
        struct.let_go("data", *_GROWING)
        starts = self._starts[: struct.n_starts] + window.base
        stop = Stop.END if code == _FULL else _STOPS[code]
        return starts, int(struct.at) + window.base, stop

    def drop(self, n: int) -> None:
        """Forget the last `n` events."""
        struct = self._struct
        n_kept = max(struct.row - self._requested.first, 0)
        self.columns.drop(min(n, n_kept))
        struct.skip += n - min(n, n_kept)
        struct.row -= n

    def _reserve(self, max_label: int) -> None:
        """Grow whatever is full, and hand the kernel the new places."""
        struct, columns = self._struct, self.columns
        struct.let_go(*_GROWING)
        places, labels = self.places, self.labels
        columns.reserve(1)
        columns.reserve_sizes(1 if columns.size_room else _ROOM)
        places.reserve(1 if places.n else _ROOM)
        labels.reserve(
            1 if labels.n else _ROOM, max_label if labels.n else max_label + _LETTERS
        )
        struct.n, struct.room = columns.n, columns.room
        struct.n_sizes, struct.size_room = columns.n_sizes, columns.size_room
        for name in (*_TYPES, "sizes"):
            setattr(struct, name, getattr(columns, name))
        self._make_slots("place", places.n, len(places.threads))
        struct.threads = places.threads
        struct.backends = places.backends
        self._make_slots("label", labels.n, len(labels.ends) - 1)
        struct.label_ends = labels.ends
        struct.letters = labels.letters
        struct.letter_room = len(labels.letters)

    def _make_slots(self, name: str, n: int, capacity: int) -> None:
        """Make slots and hashes for `capacity` codes, the first `n` of them known."""
        struct = self._struct
        hashes = self._hashes[name]
        if name in self._slots and len(hashes) == capacity:
            return
        larger = np.empty(capacity, np.uint64)
        larger[:n] = hashes[:n]
        slots = free_slots(capacity)
        library().ggscope_ggmlviz_fill(slots, len(slots) - 1, larger, n)
        self._hashes[name], self._slots[name] = larger, slots
        setattr(struct, f"{name}_room", capacity)
        setattr(struct, f"{name}_mask", len(slots) - 1)
        setattr(struct, f"{name}_slots", slots)
        setattr(struct, f"{name}_hashes", larger)


def _field_table(layout: EventLayout) -> Array:
    """Return int32[types, fields, 2]: offset and width of each field of a union."""
    table = np.zeros((_N_MEMBERS, len(_FIELDS), 2), np.int32)
    for kind in range(_N_MEMBERS):
        for name, offset, width in layout.member(kind):
            for i, names in enumerate(_FIELDS):
                if name in names:
                    table[kind, i] = offset, width
    return table


MAX_GAP_NS = 366 * 24 * 3600 * 10**9
"""Stamps further than this from the middle one are damage, too."""

_T = TypeVar("_T")


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
    thread_ids : uint32, as in the file, in the order of their first events by time.
    backends : uint64, pointers likewise; 0 is the CPU or unknown.
    string_of : string id of each label, -1 at the end (where label -1 looks).
    sizes : uint64, bytes of each memory event (see `is_memory`), in file order.
    bad_times : rows whose stamp is impossible; they got that of a neighbour.
    backward : rows whose stamp is before that of the row in front of them.
    bad_labels : rows whose label is no UTF-8.
    n : number of events.
    """

    kind: U8
    time: I64
    place: I32
    pointer: U64
    number: U32
    label: I32
    order: I64 | None
    first_record: int
    thread_of: I32
    backend_of: I32
    thread_ids: U32
    backends: U64
    string_of: Array
    sizes: U64
    bad_times: I64
    backward: I64
    bad_labels: I64

    n: int

    def release(self, *names: str) -> None:
        """Give back the memory of columns; they are empty from now on."""
        for name in names:
            setattr(self, name, getattr(self, name)[:0].copy())

    def rows_of(self, first: int, last: int, chunked: ChunkedOps) -> I64:
        """Return the rows of events of types `first` to `last`, in time order."""
        kind, order = self.kind, self.order

        def is_requested(block: slice) -> Array:
            some = kind[block] if order is None else kind[order[block]]
            return (some >= first) & (some <= last)

        at = chunked.find(self.n, is_requested)
        return at if order is None else order[at]


def gather(
    collector: EventCollector,
    strings: StringTable,
    chunked: ChunkedOps,
    *,
    n: int | None = None,
    first_record: int = 0,
) -> Events:
    """Return the first `n` events (all: None); add their labels to `strings`."""
    columns = collector.columns
    n = columns.n if n is None else min(n, columns.n)
    time, bad_times = _sound_times(columns.time[:n])
    place, places = _used(columns.place[:n], chunked)
    label, labels = _used(columns.label[:n], chunked)
    backward = _backward(time, chunked)
    first = (
        _earliest_times(place, len(places), time, chunked)
        if len(backward)
        else _first_times(place, len(places), time, chunked)
    )
    thread_of, thread_ids = _by_first_time(collector.places.threads[places], first)
    backend_of, backends = _by_first_time(collector.places.backends[places], first)
    string_of, broken = _texts(collector.labels, labels, strings)
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
        bad_labels=_rows_with(label, broken, chunked),
        n=n,
    )


def _first_times(place: I32, n_places: int, time: I64, chunked: ChunkedOps) -> I64:
    """Return the time of the first event of each place, int64[n_places].

    Parameters
    ----------
    place : counts up in the order of appearance.
    """
    first = np.zeros(n_places, np.int64)
    n = 0
    for block in chunked.slices(len(place)):
        part = place[block]
        top = int(part.max(initial=-1)) + 1
        if top > n:
            highest = np.maximum.accumulate(part)
            rows = np.searchsorted(highest, np.arange(n, top), "left")
            first[n:top] = time[block][rows]
            n = top
    return first


def _earliest_times(place: I32, n_places: int, time: I64, chunked: ChunkedOps) -> I64:
    """Return the earliest time of each place, int64[n_places]."""
    first = np.full(n_places, np.iinfo(np.int64).max, np.int64)
    for block in chunked.slices(len(place)):
        np.minimum.at(first, place[block], time[block])
    return first


def _by_first_time(values: Array, first: I64) -> tuple[I32, Array]:
    """Return numbers for the values of places, by the time at which they come first.

    And the distinct values in that order; of equal times the smaller value first. So
    a file that is sorted by time and one of blocks by thread have the same numbers.
    """
    distinct, code = np.unique(values, return_inverse=True)
    earliest = np.full(len(distinct), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(earliest, code, first)
    order = np.argsort(earliest, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[code], distinct[order]


def _used(codes: I32, chunked: ChunkedOps) -> tuple[I32, I64]:
    """Return codes that count up in the order of appearance, and what they stand for.

    They do so already but where events were taken back, which were damage; then
    some codes are not used any more. -1 stays.
    """
    highest = -1
    in_order = True
    for block in chunked.slices(len(codes)):
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


def _sound_times(stamp: U64) -> tuple[I64, I64]:
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


def _backward(time: I64, chunked: ChunkedOps) -> I64:
    """Return the rows that are earlier than the one in front of them."""
    return 1 + chunked.find(
        len(time) - 1, lambda b: time[b.start + 1 : b.stop + 1] < time[b]
    )


def _texts(labels: Labels, rows: I64, strings: StringTable) -> tuple[Array, Bools]:
    """Return the string id of the labels in `rows`, then -1; and which are no UTF-8."""
    broken = np.zeros(len(rows) + 1, np.bool_)
    cached: list[str] | None = labels.texts()
    if cached is not None:
        # The bytes of labels are distinct, and so are their texts.
        texts = _taken(cached, rows)
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


def _rows_with(label: I32, marked: Bools, chunked: ChunkedOps) -> I64:
    """Return the rows whose label is marked."""
    if not marked.any():
        return np.empty(0, np.int64)
    return chunked.find(len(label), lambda block: marked[label[block]])
