"""The nodes of graphs, and what they read: described whole, or by what differs.

A server that gets requests of ever new lengths builds ever new graphs. They are decoded
when they are asked for: all at once would not fit into memory.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from mmap import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.ring import DTYPES
from ggscope_capture.ring_format import (
    DefBuild,
    DefLike,
    Frame,
    FrameType,
    RingError,
    TensorColumn,
    build_changes,
    build_tensors,
    size_of,
    unpack,
)

Array = npt.NDArray[Any]
_HEAD_BYTES = size_of(DefBuild)
_CACHED = 64
_FIELDS = {
    TensorColumn.POINTER: "pointer", TensorColumn.DATA: "data",
    TensorColumn.BYTES: "bytes", TensorColumn.OFFSET: "offset",
    TensorColumn.BUFFER: "buffer",
}  # fmt: skip


@dataclass(frozen=True)
class Build:
    """The nodes of one graph, and what they read.

    Attributes
    ----------
    head : ``def_build``.
    tensors : (n_tensors,) of ``def_tensor``; the nodes first, in their order.
    names : of the tensors.
    whole : number of the build that has the same names, weights and sources, and was
        described whole; -1 = this one.
    """

    head: DefBuild
    tensors: Array
    names: list[str]
    whole: int = -1


@dataclass(frozen=True, slots=True)
class Change:
    """What differs in one column of a build that is like another one.

    `before` and `after` are values of tensors that have the one there and the other
    here; `at` are tensors that have `value`. uint64[n], `at` uint32[n].
    """

    column: int
    before: Array
    after: Array
    value: Array
    at: Array


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the body of a build's frame lies."""

    data: bytes | mmap
    begin: int
    end: int
    like: int


class Builds(Mapping[int, Build]):
    """Builds by their number."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        self._wholes: OrderedDict[int, Build] = OrderedDict()

    def add(self, kind: int, data: bytes | mmap, begin: int, end: int) -> None:
        """Add a build by the body of its frame, between two places of `data`.

        One that is known stays, but for one that was described by what differs and
        now is whole.

        Raises
        ------
        RingError
            If it is damaged, or like one that is not known.
        """
        head = _head(data, begin, end)
        number, like = head.build, -1
        known = self._places.get(number)
        if known is not None and (known.like < 0 or kind == FrameType.BUILD_LIKE):
            return
        if kind == FrameType.BUILD_LIKE:
            like = _like_of(data, begin, end)
            whole = self._places.get(like)
            if whole is None or whole.like >= 0:
                raise RingError(f"build {number} is like one that is not known")
            whole_head = _head(whole.data, whole.begin, whole.end)
            if whole_head.n_tensors != head.n_tensors:
                raise RingError(f"build {number} is like one of another size")
            for change in changes(bytes(data[begin:end])):
                if len(change.at) and change.at.max() >= head.n_tensors:
                    raise RingError(f"build {number} is damaged")
        else:
            _whole(bytes(data[begin:end]))
        self._places[number] = _Place(data, begin, end, like)

    def add_event(self, event: Frame) -> None:
        """Add a build by its frame; raises RingError."""
        self.add(event.type, event.body, 0, len(event.body))

    def __getitem__(self, number: int) -> Build:
        place = self._places[number]
        if place.like < 0:
            return self._whole(number)
        whole = self._whole(place.like)
        body = bytes(place.data[place.begin : place.end])
        head = _head(body, 0, len(body))
        tensors = whole.tensors.copy()
        for change in changes(body):
            _apply(tensors, change)
        return Build(head, tensors, whole.names, place.like)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def head(self, number: int) -> DefBuild | None:
        """Return the ``def_build`` of a build; None where it is not known."""
        place = self._places.get(number)
        return None if place is None else _head(place.data, place.begin, place.end)

    def whole_of(self, number: int) -> int:
        """Return which build was described whole that this one is, or is like; -1."""
        place = self._places.get(number)
        if place is None:
            return -1
        return number if place.like < 0 else place.like

    def names(self, number: int) -> list[str]:
        """Return the names of the tensors of a build; [] where it is not known."""
        whole = self.whole_of(number)
        return [] if whole < 0 else self._whole(whole).names

    def _whole(self, number: int) -> Build:
        build = self._wholes.pop(number, None)
        if build is None:
            place = self._places[number]
            build = _whole(bytes(place.data[place.begin : place.end]))
        self._wholes[number] = build
        if len(self._wholes) > _CACHED:
            self._wholes.popitem(last=False)
        return build


def _head(data: bytes | mmap, begin: int, end: int) -> DefBuild:
    return unpack(DefBuild, data[begin : min(end, begin + _HEAD_BYTES)])


def _whole(body: bytes) -> Build:
    """Return a build that its frame describes whole; raises RingError."""
    dtype = DTYPES["def_tensor"]
    head, begins, names = build_tensors(body)
    rows = b"".join(body[begin : begin + dtype.itemsize] for begin in begins)
    return Build(head, np.frombuffer(rows, dtype), names)


def _like_of(data: bytes | mmap, begin: int, end: int) -> int:
    begin += _HEAD_BYTES
    return unpack(DefLike, data[begin : min(end, begin + size_of(DefLike))]).like


def changes(body: bytes) -> Iterator[Change]:
    """Yield what differs, column by column; raises RingError where that is cut."""
    for column, n_moved, n_single, values_at, indexes_at in build_changes(body):
        values = np.frombuffer(body, "<u8", 2 * n_moved + n_single, values_at)
        indexes = np.frombuffer(body, "<u4", n_single, indexes_at)
        yield Change(
            column, values[:n_moved], values[n_moved : 2 * n_moved],
            values[2 * n_moved :], indexes,
        )  # fmt: skip


def _apply(tensors: Array, change: Change) -> None:
    if change.column < TensorColumn.NE:
        values = tensors[_FIELDS[TensorColumn(change.column)]]
    elif change.column < TensorColumn.NB:
        values = tensors["ne"][:, change.column - TensorColumn.NE]
    else:
        values = tensors["nb"][:, change.column - TensorColumn.NB]
    if len(change.before):
        order = np.argsort(change.before)
        before, after = change.before[order], change.after[order]
        at = np.minimum(np.searchsorted(before, values), len(before) - 1)
        moves = before[at] == values
        values[moves] = after[at[moves]].astype(values.dtype)
    values[change.at] = change.value.astype(values.dtype)
