"""Columns that fill while a ``.ggmlviz`` file is read, and what they refer to.

Calls of ``ggmlviz_walk.c``: the compiled twin of `NumpyIntake`.

All of it is optional; see `ggscope.native.library`. Every call releases the interpreter
lock and takes some milliseconds.

What the events of a ``.ggmlviz`` stream hold, stretch by stretch, with numpy.

The twin of the compiled intake in ``ggmlviz_walk.c``: both fill equal columns.

Finds the events of a stretch of a ``.ggmlviz`` stream with numpy alone.

Events have no common size: an optional label makes each one as long as it likes,
so the start of the next is known only from the one before. Walking two million
events one by one takes seconds in Python. Here some thousand walkers start at
guessed events all over the stretch and advance together, a numpy call for all of
them; where a walker arrives exactly at the start of the next one, the guess is
proven. Where it does not, that part is walked again one by one.

Small numbers for values and labels that occur again and again.
"""

import ctypes
import secrets
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import I64, Array, distinct
from ggscope.native.declared import Intake as IntakeStruct
from ggscope.native.library import wanted_library
from ggscope.readers.api import NAMES_OPTION, RANGE_OPTION, SAMPLED_SHARE
from ggscope.readers.ggmlviz.layouts import (
    N_TYPES,
    PREFIX_BYTES,
    EventLayout,
    EventType,
)
from ggscope.readers.ggmlviz.walk import (
    Bools,
    Bytes,
    Found,
    Stop,
    Taker,
    Walk,
    unaligned,
)

TOO_LARGE_HINT = (
    f"Read a part of the file with {RANGE_OPTION}=FIRST:STOP, or fewer names with "
    f"{NAMES_OPTION}=sampled or {NAMES_OPTION}=none."
)
NAME_BLOCK = 4096
"""Events with names=sampled: one block of so many in `SAMPLED_SHARE` has labels."""

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

    kind: npt.NDArray[np.uint8]
    time: npt.NDArray[np.uint64]
    place: npt.NDArray[np.int32]
    pointer: npt.NDArray[np.uint64]
    number: npt.NDArray[np.uint32]
    label: npt.NDArray[np.int32]

    def __init__(self, capacity: int, memory_bytes: int = 1 << 62) -> None:
        self._memory_bytes = memory_bytes
        self.n = self.n_sizes = 0
        self.room = self.size_room = 0
        self.sizes = np.empty(0, np.uint64)
        self._make_room(max(capacity, 1))

    def reserve(self, n: int) -> None:
        """Make room for `n` more rows.

        Raises
        ------
        LimitExceededError
            If that is more memory than the columns may take.
        """
        if self.n + n > self.room:
            self._make_room(max(self.n + n, self.room * 5 // 4))

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

    def _make_room(self, room: int) -> None:
        if room * EVENT_BYTES > self._memory_bytes:
            raise LimitExceededError(
                f"the events take more than the {self._memory_bytes:,} bytes of "
                "memory that may be used.",
                hint=TOO_LARGE_HINT,
            )
        for name, dtype in _TYPES.items():
            old = getattr(self, name, np.empty(0, dtype))
            setattr(self, name, grown(old, self.n, room))
        self.room = room


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

    def add(self, threads: Array, backends: Array) -> None:
        """Append pairs."""
        self.reserve(len(threads))
        rows = slice(self.n, self.n + len(threads))
        self.threads[rows], self.backends[rows] = threads, backends
        self.n += len(threads)

    def reserve(self, n: int) -> None:
        """Make room for `n` more pairs."""
        if self.n + n > len(self.threads):
            room = max(self.n + n, 2 * self.n)
            self.threads = grown(self.threads, self.n, room)
            self.backends = grown(self.backends, self.n, room)


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

    def add(self, texts: list[bytes]) -> None:
        """Append labels."""
        joined = np.frombuffer(b"".join(texts), np.uint8)
        self.reserve(len(texts), len(joined))
        done = int(self.ends[self.n])
        ends = done + np.cumsum(np.array([len(text) for text in texts], np.int64))
        self.ends[self.n + 1 : self.n + 1 + len(texts)] = ends
        self.letters[done : done + len(joined)] = joined
        self.n += len(texts)

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
        ends = self.ends[: self.n + 1].tolist()
        letters = self.letters[: ends[-1]]
        # Zeros fill labels up; they are no letters of a name.
        if len(letters) and not 0 < int(letters.min()) <= int(letters.max()) < 0x80:
            return None
        text = letters.tobytes().decode("ascii")
        return [text[a:b] for a, b in pairwise(ends)]


def grown(array: Array, n: int, room: int) -> Array:
    """Return an array of `room` rows that begins with the first `n` of another."""
    larger = np.empty(room, array.dtype)
    larger[:n] = array[:n]
    return larger


WALKER_BYTES = 1 << 14
N_WALKERS = 1024

_FEWEST_WALKERS = 16
_GUESS_BYTES = 128
"""A guess looks this far for an event; longer ones cost speed, not correctness."""


def walk_stretch(
    walk: Walk, start: int, end: int, *, walker_bytes: int = WALKER_BYTES
) -> Found:
    """Walk from `start` to the first event at or behind `end`, or to a fault.

    Parameters
    ----------
    walker_bytes : bytes for each walker.
    """
    bounds = np.append(np.arange(start, end, walker_bytes), end)
    if len(bounds) - 1 < _FEWEST_WALKERS:
        return walk.slowly(start, end)
    starts = _guesses(walk, bounds[:-1])
    paths, exits = _advance(walk, starts, bounds[1:])
    parts: list[I64] = []
    position, stop, first = start, Stop.END, 0
    proven = np.append(exits[:-1] == starts[1:], False)
    while first < len(starts) and stop is Stop.END:
        if starts[first] == position:
            last = first + int(np.argmin(proven[first:]))
            parts.append(paths(first, last))
            position = int(exits[last])
        else:
            last = first
        # Whatever the last walker did not reach, sound or not, is walked singly.
        found, position, stop = walk.slowly(position, int(bounds[last + 1]))
        parts.append(found)
        first = last + 1
    return np.concatenate(parts), position, stop


def _guesses(walk: Walk, bounds: I64) -> I64:
    """Return a likely start of an event at or behind each bound; the first is true.

    An event is likely where the type is known and the upper half of the timestamp
    is that of the block's first event, and the same holds for the event after it.
    """
    data, base, last = walk.window.data, walk.window.base, walk.window.end
    first = int(bounds[0]) - base
    tail = data[first + 6 : first + 9]

    def is_likely(at: I64) -> Bools:
        place = np.minimum(at, last) - base
        likely: Bools = data[place] < N_TYPES
        for i in range(3):
            likely &= data[place + 6 + i] == tail[i]
        return likely

    at = bounds[:, None] + np.arange(_GUESS_BYTES)
    rows, columns = np.nonzero(is_likely(at))
    candidates = at[rows, columns]
    inside = candidates < last
    rows, candidates = rows[inside], candidates[inside]
    after, is_sound = walk.step(candidates)
    keep = is_sound
    keep[is_sound] = is_likely(after[is_sound])
    guesses = bounds.copy()
    # Written backwards, so that the first candidate of each bound stays.
    guesses[rows[keep][::-1]] = candidates[keep][::-1]
    guesses[0] = bounds[0]
    return guesses


class _Paths:
    """The positions of all walkers at each step."""

    def __init__(self, steps: list[I64], counts: I64) -> None:
        self._steps = np.array(steps, np.int64).reshape(len(steps), len(counts))
        self._counts = counts

    def __call__(self, first: int, last: int) -> I64:
        """Return the events that walkers `first` to `last` met, in file order."""
        steps = self._steps[:, first : last + 1].T
        met = np.arange(steps.shape[1]) < self._counts[first : last + 1, None]
        return steps[met]


def _advance(walk: Walk, starts: I64, bounds: I64) -> tuple[_Paths, I64]:
    """Advance all walkers until each is behind its bound or before a fault."""
    at = starts.copy()
    counts = np.zeros(len(at), np.int64)
    active = np.flatnonzero(at < bounds)
    steps: list[I64] = []
    while len(active):
        after, is_sound = walk.step(at[active])
        moving = active[is_sound]
        steps.append(at.copy())
        counts[moving] += 1
        at[moving] = after[is_sound]
        active = moving[at[moving] < bounds[moving]]
    return _Paths(steps, counts), at


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


def distinct_labels(data: Bytes, at: I64, length: I64) -> tuple[Array, I64]:
    """Return a number for each label, equal for equal bytes, and first rows."""
    codes, _, first = encode(_digests(data, at, length))
    model = first[codes]
    if not _are_equal(data, at, length, at[model], length[model]):
        return _distinct_slow(data, at, length)
    return codes, first


_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def _digests(data: Bytes, at: I64, length: I64) -> npt.NDArray[np.uint64]:
    """Return a 64-bit digest of each label."""
    digest = (length.astype(np.uint64) + np.uint64(1)) * _MIX
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        mixed = (digest[rows] ^ _words(data, at[rows] + k, length[rows] - k)) * _MIX
        digest[rows] = mixed ^ (mixed >> np.uint64(29))
    return digest


def _words(data: Bytes, at: I64, rest: I64) -> npt.NDArray[np.uint64]:
    """Return 8 bytes of each label, zeros where `rest` bytes end before."""
    words: npt.NDArray[np.uint64] = unaligned(data, 8)[at].view("<u8")
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


_BYTES_AT_DAMAGE = 1 << 16
_ROWS_AT_ONCE = 1 << 16


class EventIntake(Taker, Protocol):
    """A taker that keeps events in columns."""

    columns: StreamColumns
    places: ThreadPlaces
    labels: Labels

    @property
    def row(self) -> int:
        """Number of the next event in the file."""
        ...


def is_memory(kind: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Tell which events allocate or free something."""
    return (kind >= EventType.TENSOR_ALLOC) & (kind <= EventType.BACKEND_BUFFER_FREE)


class NumpyIntake:
    """Fills columns with numpy alone."""

    def __init__(
        self, wanted: EventOptions, capacity: int, *, walker_bytes: int = WALKER_BYTES
    ) -> None:
        self.columns = StreamColumns(capacity, wanted.memory_bytes)
        self.places = ThreadPlaces()
        self.labels = Labels()
        self.row = 0
        self.window_bytes = walker_bytes * N_WALKERS
        self._wanted = wanted
        self._walker_bytes = walker_bytes
        self._at_once = self.window_bytes
        self._place_codes: dict[tuple[int, int], int] = {}
        self._label_codes: dict[bytes, int] = {}

    def take(self, walk: Walk, at: int, until: int) -> Found:
        """Take events from `at` on to the first at or behind `until`, or a fault."""
        until = min(until, at + self._at_once)
        found, at, stop = walk_stretch(walk, at, until, walker_bytes=self._walker_bytes)
        # Where there is damage, more of it is likely: walkers beyond it are wasted.
        more = 2 * self._at_once if stop is Stop.END else _BYTES_AT_DAMAGE
        self._at_once = min(more, self.window_bytes)
        last = self._wanted.stop
        if last is not None and self.row + len(found) >= last:
            # Faults behind what is wanted are none.
            found, rest = np.split(found, [last - self.row])
            at, stop = int(rest[0]) if len(rest) else at, Stop.END
        self._keep(walk, found)
        self.row += len(found)
        return found, at, stop

    def drop(self, n: int) -> None:
        """Forget the last `n` events."""
        self.columns.drop(min(n, max(self.row - self._wanted.first, 0)))
        self.row -= n

    def _keep(self, walk: Walk, found: I64) -> None:
        first = max(self._wanted.first - self.row, 0)
        for at in range(first, len(found), _ROWS_AT_ONCE):
            self._keep_some(walk, found[at : at + _ROWS_AT_ONCE])

    def _keep_some(self, walk: Walk, found: I64) -> None:
        at = found - walk.window.base
        data, columns = walk.window.data, self.columns
        columns.reserve(len(at))
        rows = slice(columns.n, columns.n + len(at))
        kind = data[at]

        def field(*names: str) -> npt.NDArray[np.uint64]:
            return _members(walk, at, kind, names)

        columns.kind[rows] = kind
        columns.time[rows] = unaligned(data, 8)[at + 1].view("<u8")
        columns.pointer[rows] = field("graph_ptr", "tensor_ptr", "ptr")
        columns.number[rows] = field("n_nodes", "op_type")
        thread = unaligned(data, 4)[at + 9].view("<u4")
        columns.place[rows] = self._places(thread, field("backend_ptr"))
        columns.label[rows] = self._labels(walk, at, kind, columns.n)
        sizes = field("size")[is_memory(kind)]
        columns.reserve_sizes(len(sizes))
        columns.sizes[columns.n_sizes : columns.n_sizes + len(sizes)] = sizes
        columns.n_sizes += len(sizes)
        columns.n += len(at)

    def _places(self, thread: Array, backend: Array) -> Array:
        """Return the place of each event."""
        thread_code, _, _ = encode(thread)
        backend_code, backends, _ = encode(backend)
        pair = thread_code.astype(np.int64) * max(len(backends), 1) + backend_code
        codes, _, first = encode(pair)
        known = self._place_codes
        ids = np.empty(len(first), np.int32)
        fresh: list[int] = []
        keys = zip(thread[first].tolist(), backend[first].tolist(), strict=True)
        for i, key in enumerate(keys):
            ids[i] = known.setdefault(key, len(known))
            if ids[i] == self.places.n + len(fresh):
                fresh.append(int(first[i]))
        self.places.add(thread[fresh], backend[fresh])
        return ids[codes]

    def _labels(
        self, walk: Walk, at: I64, kind: npt.NDArray[np.uint8], n: int
    ) -> npt.NDArray[np.int32]:
        """Return the label of each event; `n` events were kept before them."""
        data = walk.window.data
        body = walk.body[kind]
        ids = np.full(len(at), -1, np.int32)
        has_label = data[at + body - 1] == 1
        every = self._wanted.names_every
        if every != 1:
            block = (self._wanted.first + n + np.arange(len(at))) // NAME_BLOCK
            has_label &= (block % every == 0) if every else False
        rows = np.flatnonzero(has_label)
        if not len(rows):
            return ids
        text = at[rows] + body[rows] + 4
        length = unaligned(data, 4)[text - 4].view("<u4").astype(np.int64)
        codes, first = distinct_labels(data, text, length)
        ids[rows] = self._label_ids(data, text[first], length[first])[codes]
        return ids

    def _label_ids(self, data: Array, at: I64, length: I64) -> Array:
        known, labels = self._label_codes, self.labels
        ids = np.empty(len(at), np.int32)
        fresh: list[bytes] = []
        for i, (start, n) in enumerate(zip(at.tolist(), length.tolist(), strict=True)):
            raw = data[start : start + n].tobytes()
            ids[i] = known.setdefault(raw, len(known))
            if ids[i] == labels.n + len(fresh):
                fresh.append(raw)
        labels.add(fresh)
        return ids


def _members(
    walk: Walk, at: I64, kind: npt.NDArray[np.uint8], names: tuple[str, ...]
) -> npt.NDArray[np.uint64]:
    """Return the union's field with one of these names; 0 where it has none."""
    found = np.zeros(len(at), np.uint64)
    for first_kind in (0, 2, 4, 6):
        for name, offset, width in walk.layout.member(first_kind):
            if name not in names:
                continue
            rows = np.flatnonzero(kind >> 1 == first_kind >> 1)
            words = unaligned(walk.window.data, width)
            field = words[at[rows] + PREFIX_BYTES + offset]
            found[rows] = field.view(f"<u{width}")
    return found


_STOPS = (Stop.END, Stop.TRUNCATED, Stop.ZEROS, Stop.BAD_FLAG, Stop.BAD_LABEL)
_FULL = len(_STOPS)
_FIELDS = (
    ("graph_ptr", "tensor_ptr", "ptr"),
    ("n_nodes", "op_type"),
    ("size",),
    ("backend_ptr",),
)
_N_MEMBERS = 8
_STRETCH_BYTES = 4 << 20
_ROOM, _LETTERS = 1 << 10, 1 << 16
"""Room for places and labels, and for the bytes of labels, to begin with."""


def kernel() -> Any | None:  # a library of foreign functions
    """Return the compiled library, or None where it is unwanted."""
    return wanted_library()


def make_intake(
    wanted: EventOptions, capacity: int, layout: EventLayout
) -> EventIntake:
    """Return the fastest intake there is."""
    found = kernel()
    if found is None:
        return NumpyIntake(wanted, capacity)
    return CompiledIntake(found, wanted, capacity, layout)


def address(array: Array | None) -> int | None:
    """Return where a contiguous array lies; None for none."""
    return None if array is None else int(array.ctypes.data)


def new_secret() -> Array:
    """Return uint64[3] that nobody who writes files can know, the last two odd."""
    words = [secrets.randbits(64) for _ in range(3)]
    return np.array([words[0], words[1] | 1, words[2] | 1], np.uint64)


def free_slots(n: int) -> Array:
    """Return int32 slots, all free, for `n` codes and as many again."""
    return np.full(1 << max((2 * n - 1).bit_length(), 6), -1, np.int32)


class CompiledIntake:
    """Fills columns by ``ggscope_ggmlviz_take``."""

    def __init__(
        self,
        library: Any,
        wanted: EventOptions,
        capacity: int,
        layout: EventLayout,
        *,
        window_bytes: int = _STRETCH_BYTES,
    ) -> None:
        self.columns = StreamColumns(capacity, wanted.memory_bytes)
        self.places = ThreadPlaces()
        self.labels = Labels()
        self.window_bytes = window_bytes
        self._library = library
        self._wanted = wanted
        self._fields = _field_table(layout)
        self._secret = new_secret()
        most = window_bytes // int(layout.body_bytes.min()) + 1
        self._starts = np.empty(most, np.int64)
        self._hashes = {name: np.empty(0, np.uint64) for name in ("place", "label")}
        self._slots: dict[str, Array] = {}
        self._struct = IntakeStruct(
            body=address(layout.body_bytes), fields=address(self._fields),
            secret=address(self._secret), starts=address(self._starts),
            skip=wanted.first, names_every=wanted.names_every,
        )  # fmt: skip

    @property
    def row(self) -> int:
        """Number of the next event in the file."""
        return int(self._struct.row)

    def take(self, walk: Walk, at: int, until: int) -> Found:
        """Take events from `at` on to the first at or behind `until`, or a fault."""
        struct, window = self._struct, walk.window
        struct.data, struct.end = address(window.data), window.end - window.base
        struct.at, struct.max_label = at - window.base, walk.max_label
        struct.n_starts, struct.start_room = 0, self._start_room()
        while True:
            self._make_room(walk.max_label)
            code = self._library.ggscope_ggmlviz_take(
                ctypes.byref(struct), until - window.base
            )
            self._note_counts()
            if code != _FULL or struct.n_starts == struct.start_room:
                break
        found = self._starts[: struct.n_starts] + window.base
        stop = Stop.END if code == _FULL else _STOPS[code]
        return found, int(struct.at) + window.base, stop

    def drop(self, n: int) -> None:
        """Forget the last `n` events."""
        struct = self._struct
        n_kept = max(struct.row - self._wanted.first, 0)
        self.columns.drop(min(n, n_kept))
        struct.skip += n - min(n, n_kept)
        struct.row -= n

    def _start_room(self) -> int:
        last = self._wanted.stop
        left = len(self._starts) if last is None else last - self.row
        return min(left, len(self._starts))

    def _note_counts(self) -> None:
        struct = self._struct
        self.columns.n, self.columns.n_sizes = struct.n, struct.n_sizes
        self.places.n, self.labels.n = struct.n_places, struct.n_labels

    def _make_room(self, max_label: int) -> None:
        """Grow whatever is full, and tell the kernel where everything lies."""
        struct, columns = self._struct, self.columns
        places, labels = self.places, self.labels
        columns.reserve(1)
        columns.reserve_sizes(1 if columns.size_room else _ROOM)
        places.reserve(1 if places.n else _ROOM)
        labels.reserve(
            1 if labels.n else _ROOM, max_label if labels.n else max_label + _LETTERS
        )
        struct.n, struct.room = columns.n, columns.room
        struct.n_sizes, struct.size_room = columns.n_sizes, columns.size_room
        for name in ("kind", "time", "place", "pointer", "number", "label", "sizes"):
            setattr(struct, name, address(getattr(columns, name)))
        self._make_slots("place", places.n, len(places.threads))
        struct.threads = address(places.threads)
        struct.backends = address(places.backends)
        self._make_slots("label", labels.n, len(labels.ends) - 1)
        struct.label_ends = address(labels.ends)
        struct.letters = address(labels.letters)
        struct.letter_room = len(labels.letters)

    def _make_slots(self, name: str, n: int, room: int) -> None:
        """Make slots and hashes for `room` codes, the first `n` of them known."""
        struct = self._struct
        hashes = self._hashes[name]
        if name in self._slots and len(hashes) == room:
            return
        larger = np.empty(room, np.uint64)
        larger[:n] = hashes[:n]
        slots = free_slots(room)
        self._library.ggscope_ggmlviz_fill(
            address(slots), len(slots) - 1, address(larger), n
        )
        self._hashes[name], self._slots[name] = larger, slots
        setattr(struct, f"{name}_room", room)
        setattr(struct, f"{name}_mask", len(slots) - 1)
        setattr(struct, f"{name}_slots", address(slots))
        setattr(struct, f"{name}_hashes", address(larger))


def _field_table(layout: EventLayout) -> Array:
    """Return int32[types, fields, 2]: offset and width of each field of a union."""
    table = np.zeros((_N_MEMBERS, len(_FIELDS), 2), np.int32)
    for kind in range(_N_MEMBERS):
        for name, offset, width in layout.member(kind):
            for i, names in enumerate(_FIELDS):
                if name in names:
                    table[kind, i] = offset, width
    return table
