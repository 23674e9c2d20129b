"""What the events of a ``.ggmlviz`` stream hold, stretch by stretch, with numpy.

The twin of the compiled intake in ``ggmlviz_walk.c``: both fill equal columns.
"""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array
from ggscope.readers.ggmlviz_codes import distinct_labels, encode
from ggscope.readers.ggmlviz_columns import (
    NAME_BLOCK,
    Columns,
    Labels,
    Places,
    Wanted,
)
from ggscope.readers.ggmlviz_layouts import PREFIX_BYTES, EventType
from ggscope.readers.ggmlviz_scan import Taker
from ggscope.readers.ggmlviz_walk import Found, Stop, Walk
from ggscope.readers.ggmlviz_walkers import N_WALKERS, WALKER_BYTES, walk_stretch
from ggscope.readers.ggmlviz_window import unaligned

_BYTES_AT_DAMAGE = 1 << 16
_ROWS_AT_ONCE = 1 << 16


class Intake(Taker, Protocol):
    """A taker that keeps events in columns."""

    columns: Columns
    places: Places
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
        self, wanted: Wanted, capacity: int, *, walker_bytes: int = WALKER_BYTES
    ) -> None:
        self.columns = Columns(capacity, wanted.memory_bytes)
        self.places = Places()
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
