"""What the compiled collector of ``.ggmlviz`` events does, with numpy alone.

Events have no common size: an optional label makes each one as long as it likes, so
the start of the next is known only from the one before. Here some thousand walkers
start at guessed events all over the stretch and advance together; where a walker
arrives exactly at the start of the next one, the guess is proven. Where it does not,
that part is walked again one by one.
"""

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, U8, Array, Bools
from ggscope.readers.ggmlviz.columns import (
    NAME_BLOCK,
    EventOptions,
    Labels,
    StreamColumns,
    ThreadPlaces,
    encode,
    is_memory,
)
from ggscope.readers.ggmlviz.layouts import N_TYPES, PREFIX_BYTES
from ggscope.readers.ggmlviz.walk import Found, Stop, Walk, unaligned

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
        result, position, stop = walk.slowly(position, int(bounds[last + 1]))
        parts.append(result)
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
    after, is_sound = _step(walk, candidates)
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
        after, is_sound = _step(walk, at[active])
        moving = active[is_sound]
        steps.append(at.copy())
        counts[moving] += 1
        at[moving] = after[is_sound]
        active = moving[at[moving] < bounds[moving]]
    return _Paths(steps, counts), at


def _step(walk: Walk, at: I64) -> tuple[I64, Bools]:
    """Return the next places, and which events are whole and sound."""
    after, is_sound = walk.bounds(at)
    is_sound &= ~walk.are_padding(at)
    return after, is_sound


def distinct_labels(data: U8, at: I64, length: I64) -> tuple[Array, I64]:
    """Return a number for each label, equal for equal bytes, and first rows."""
    codes, _, first = encode(_digests(data, at, length))
    model = first[codes]
    if not _are_equal(data, at, length, at[model], length[model]):
        return _distinct_slow(data, at, length)
    return codes, first


_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


def _digests(data: U8, at: I64, length: I64) -> npt.NDArray[np.uint64]:
    """Return a 64-bit digest of each label."""
    digest = (length.astype(np.uint64) + np.uint64(1)) * _MIX
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        mixed = (digest[rows] ^ _uint64s(data, at[rows] + k, length[rows] - k)) * _MIX
        digest[rows] = mixed ^ (mixed >> np.uint64(29))
    return digest


def _uint64s(data: U8, at: I64, rest: I64) -> npt.NDArray[np.uint64]:
    """Return 8 bytes of each label, zeros where `rest` bytes end before."""
    array: npt.NDArray[np.uint64] = unaligned(data, 8)[at].view("<u8")
    unused = (8 - np.minimum(rest, 8)).astype(np.uint64) * np.uint64(8)
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) >> unused
    return array & mask


def _are_equal(data: U8, at: I64, length: I64, other: I64, other_length: I64) -> bool:
    """Return whether all labels equal their others, byte for byte."""
    if not np.array_equal(length, other_length):
        return False
    for k in range(0, int(length.max()), 8):
        rows = np.flatnonzero(length > k)
        rest = length[rows] - k
        if not np.array_equal(
            _uint64s(data, at[rows] + k, rest), _uint64s(data, other[rows] + k, rest)
        ):
            return False
    return True


def _distinct_slow(data: U8, at: I64, length: I64) -> tuple[Array, I64]:
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


class NumpyCollector:
    """Fills columns with numpy alone."""

    def __init__(
        self, options: EventOptions, capacity: int, *, walker_bytes: int = WALKER_BYTES
    ) -> None:
        self.columns = StreamColumns(capacity, options.memory_bytes)
        self.places = ThreadPlaces()
        self.labels = Labels()
        self.row = 0
        self.window_bytes = walker_bytes * N_WALKERS
        self._options = options
        self._walker_bytes = walker_bytes
        self._at_once = self.window_bytes
        self._place_codes: dict[tuple[int, int], int] = {}
        self._label_codes: dict[bytes, int] = {}

    def take(self, walk: Walk, at: int, until: int) -> Found:
        """Take events from `at` on to the first at or behind `until`, or a fault."""
        until = min(until, at + self._at_once)
        result, at, stop = walk_stretch(
            walk, at, until, walker_bytes=self._walker_bytes
        )
        # Where there is damage, more of it is likely: walkers beyond it are wasted.
        more = 2 * self._at_once if stop is Stop.END else _BYTES_AT_DAMAGE
        self._at_once = min(more, self.window_bytes)
        last = self._options.stop
        if last is not None and self.row + len(result) >= last:
            # Faults behind what is wanted are none.
            result, rest = np.split(result, [last - self.row])
            at, stop = int(rest[0]) if len(rest) else at, Stop.END
        self._keep(walk, result)
        self.row += len(result)
        return result, at, stop

    def drop(self, n: int) -> None:
        """Forget the last `n` events."""
        self.columns.drop(min(n, max(self.row - self._options.first, 0)))
        self.row -= n

    def _keep(self, walk: Walk, result: I64) -> None:
        first = max(self._options.first - self.row, 0)
        for at in range(first, len(result), _ROWS_AT_ONCE):
            self._keep_some(walk, result[at : at + _ROWS_AT_ONCE])

    def _keep_some(self, walk: Walk, result: I64) -> None:
        at = result - walk.window.base
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
        _add_places(self.places, thread[fresh], backend[fresh])
        return ids[codes]

    def _labels(
        self, walk: Walk, at: I64, kind: npt.NDArray[np.uint8], n: int
    ) -> npt.NDArray[np.int32]:
        """Return the label of each event; `n` events were kept before them."""
        data = walk.window.data
        body = walk.body[kind]
        ids = np.full(len(at), -1, np.int32)
        has_label = data[at + body - 1] == 1
        every = self._options.names_every
        if every != 1:
            block = (self._options.first + n + np.arange(len(at))) // NAME_BLOCK
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
        _add_labels(labels, fresh)
        return ids


def _members(
    walk: Walk, at: I64, kind: npt.NDArray[np.uint8], names: tuple[str, ...]
) -> npt.NDArray[np.uint64]:
    """Return the union's field with one of these names; 0 where it has none."""
    array = np.zeros(len(at), np.uint64)
    for first_kind in (0, 2, 4, 6):
        for name, offset, width in walk.layout.member(first_kind):
            if name not in names:
                continue
            rows = np.flatnonzero(kind >> 1 == first_kind >> 1)
            text = unaligned(walk.window.data, width)
            field = text[at[rows] + PREFIX_BYTES + offset]
            array[rows] = field.view(f"<u{width}")
    return array


def _add_places(places: ThreadPlaces, threads: Array, backends: Array) -> None:
    places.reserve(len(threads))
    rows = slice(places.n, places.n + len(threads))
    places.threads[rows], places.backends[rows] = threads, backends
    places.n += len(threads)


def _add_labels(labels: Labels, texts: list[bytes]) -> None:
    joined = np.frombuffer(b"".join(texts), np.uint8)
    labels.reserve(len(texts), len(joined))
    done = int(labels.ends[labels.n])
    ends = done + np.cumsum(np.array([len(text) for text in texts], np.int64))
    labels.ends[labels.n + 1 : labels.n + 1 + len(texts)] = ends
    labels.letters[done : done + len(joined)] = joined
    labels.n += len(texts)
