"""Columns that fill while a ``.ggmlviz`` file is read, and what they refer to."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ggscope.errors import LimitExceededError
from ggscope.model.tables import Array
from ggscope.readers.api import NAMES_OPTION, RANGE_OPTION, SAMPLED_SHARE

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
class Wanted:
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


class Columns:
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


class Places:
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
