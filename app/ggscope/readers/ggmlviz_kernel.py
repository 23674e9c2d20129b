"""Calls of ``ggmlviz_walk.c``: the compiled twin of `NumpyIntake`.

All of it is optional; see `ggscope.compiled`. Every call releases the interpreter
lock and takes some milliseconds.
"""

import ctypes
import secrets
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ggscope import compiled
from ggscope.model.tables import Array
from ggscope.readers.ggmlviz_columns import Columns, Labels, Places, Wanted
from ggscope.readers.ggmlviz_intake import Intake, NumpyIntake
from ggscope.readers.ggmlviz_layouts import Layout
from ggscope.readers.ggmlviz_walk import Found, Stop, Walk

LIBRARY = Path(__file__).with_name("_ggmlviz_walk.so")
VERSION = 1

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
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


class IntakeStruct(ctypes.Structure):
    """``Intake`` of the C source."""

    _fields_ = (
        ("data", _POINTER), ("end", _NUMBER), ("body", _POINTER),
        ("fields", _POINTER), ("max_label", _NUMBER), ("secret", _POINTER),
        ("at", _NUMBER), ("skip", _NUMBER), ("row", _NUMBER),
        ("names_every", _NUMBER),
        ("n_starts", _NUMBER), ("start_room", _NUMBER), ("starts", _POINTER),
        ("n", _NUMBER), ("room", _NUMBER), ("kind", _POINTER), ("time", _POINTER),
        ("place", _POINTER), ("pointer", _POINTER), ("number", _POINTER),
        ("label", _POINTER),
        ("n_sizes", _NUMBER), ("size_room", _NUMBER), ("sizes", _POINTER),
        ("n_places", _NUMBER), ("place_room", _NUMBER), ("place_mask", _NUMBER),
        ("place_slots", _POINTER), ("place_hashes", _POINTER),
        ("threads", _POINTER), ("backends", _POINTER),
        ("n_labels", _NUMBER), ("label_room", _NUMBER), ("label_mask", _NUMBER),
        ("letter_room", _NUMBER), ("label_slots", _POINTER),
        ("label_hashes", _POINTER), ("label_ends", _POINTER), ("letters", _POINTER),
    )  # fmt: skip


def kernel() -> Any | None:  # a library of foreign functions
    """Return the compiled library, or None where numpy has to do."""
    if not compiled.is_wanted() or sys.byteorder != "little":
        return None
    found = compiled.library(LIBRARY, "ggscope_ggmlviz_version", VERSION)
    if found is not None and found.ggscope_ggmlviz_take.argtypes is None:
        _declare(found)
    return found


def make_intake(wanted: Wanted, capacity: int, layout: Layout) -> Intake:
    """Return the fastest intake there is."""
    library = kernel()
    if library is None:
        return NumpyIntake(wanted, capacity)
    return CompiledIntake(library, wanted, capacity, layout)


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
        wanted: Wanted,
        capacity: int,
        layout: Layout,
        *,
        window_bytes: int = _STRETCH_BYTES,
    ) -> None:
        self.columns = Columns(capacity, wanted.memory_bytes)
        self.places = Places()
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


def _field_table(layout: Layout) -> Array:
    """Return int32[types, fields, 2]: offset and width of each field of a union."""
    table = np.zeros((_N_MEMBERS, len(_FIELDS), 2), np.int32)
    for kind in range(_N_MEMBERS):
        for name, offset, width in layout.member(kind):
            for i, names in enumerate(_FIELDS):
                if name in names:
                    table[kind, i] = offset, width
    return table


def _declare(library: ctypes.CDLL) -> None:
    for name, arguments, result in (
        ("take", (_POINTER, _NUMBER), ctypes.c_int32),
        ("intake_bytes", (), _NUMBER),
        ("pairing_bytes", (), _NUMBER),
        ("fill", (_POINTER, _NUMBER, _POINTER, _NUMBER), None),
        ("pair", (_POINTER, _NUMBER, _NUMBER), _NUMBER),
        ("live", (_POINTER,), _NUMBER),
        ("move", (_POINTER, _POINTER, _NUMBER), None),
        ("finish", (_POINTER, _POINTER, _NUMBER, _POINTER, _NUMBER, _NUMBER,
                    _POINTER, _POINTER, _POINTER), None),
    ):  # fmt: skip
        function = getattr(library, f"ggscope_ggmlviz_{name}")
        function.argtypes, function.restype = arguments, result
