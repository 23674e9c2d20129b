"""The nodes of graphs as a ring describes them: whole, or by what differs."""

import struct
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from ggscope.errors import LiveError
from ggscope.live.ring import TENSOR, text_at
from ggscope.model.tables import Array

_HEAD, _LIKE, _COLUMN = (struct.Struct(f) for f in ("<IIIIIIQ", "<II", "<IIII"))
_FIELDS = {1: "data", 2: "bytes", 3: "offset", 4: "buffer"}
"""Columns that count here; the others are pointers and shapes."""
_N_COLUMNS = 13
_MAX_WHOLES = 128


@dataclass(frozen=True, slots=True, eq=False)
class Build:
    """A build: its nodes first, then what else they read; of `ring.TENSOR`."""

    number: int
    n_nodes: int
    tensors: Array
    names: list[str]


class Builds:
    """Decodes builds; those that others may be like are kept."""

    def __init__(self) -> None:
        self._wholes: OrderedDict[int, Build] = OrderedDict()

    def whole(self, body: bytes) -> Build:
        """Return a build that is described whole; raises LiveError."""
        build = _whole(body)
        self._wholes.pop(build.number, None)
        self._wholes[build.number] = build
        if len(self._wholes) > _MAX_WHOLES:
            self._wholes.popitem(last=False)
        return build

    def like(self, body: bytes) -> Build:
        """Return a build that is described by what differs from a whole one.

        Raises
        ------
        LiveError
            If it is damaged, or like one that is not known.
        """
        if len(body) < _HEAD.size + _LIKE.size:
            raise LiveError("a build is cut")
        number, _, n_tensors, *_ = _HEAD.unpack_from(body)
        like, n_columns = _LIKE.unpack_from(body, _HEAD.size)
        whole = self._wholes.get(like)
        if whole is None or len(whole.tensors) != n_tensors:
            raise LiveError(f"build {number} is like one that is not known")
        tensors = whole.tensors.copy()
        at = _HEAD.size + _LIKE.size
        for _ in range(min(n_columns, _N_COLUMNS)):
            at = _change(tensors, body, at)
        return Build(number, whole.n_nodes, tensors, whole.names)


def _whole(body: bytes) -> Build:
    if len(body) < _HEAD.size:
        raise LiveError("a build is cut")
    number, n_nodes, n_tensors, *_ = _HEAD.unpack_from(body)
    at, places, names = _HEAD.size, list[int](), list[str]()
    while len(places) < n_tensors:
        if at + TENSOR.itemsize > len(body):
            raise LiveError(f"build {number} ends within its tensors")
        places.append(at)
        name, at = text_at(body, at + TENSOR.itemsize)
        at = (at + 7) // 8 * 8
        names.append(name)
    rows = [body[place : place + TENSOR.itemsize] for place in places]
    return Build(number, n_nodes, np.frombuffer(b"".join(rows), TENSOR), names)


def _change(tensors: Array, body: bytes, at: int) -> int:
    """Change one column as the bytes at `at` say; return where the next one is."""
    if at + _COLUMN.size > len(body):
        raise LiveError("the changes of a build are cut")
    column, n_moved, n_single, _ = _COLUMN.unpack_from(body, at)
    at += _COLUMN.size
    n_bytes = 16 * n_moved + 12 * n_single
    if at + n_bytes > len(body):
        raise LiveError("the changes of a build are cut")
    end: int = at + n_bytes + n_bytes % 8
    if column not in _FIELDS:
        return end
    words = np.frombuffer(body, "<u8", 2 * n_moved + n_single, at)
    single = np.frombuffer(body, "<u4", n_single, at + words.nbytes)
    if len(single) and int(single.max()) >= len(tensors):
        raise LiveError("a change beyond the tensors of a build")
    values = tensors[_FIELDS[column]]
    if n_moved:
        order = np.argsort(words[:n_moved])
        before, after = words[:n_moved][order], words[n_moved : 2 * n_moved][order]
        place = np.minimum(np.searchsorted(before, values), n_moved - 1)
        moves = before[place] == values
        values[moves] = after[place[moves]].astype(values.dtype)
    values[single] = words[2 * n_moved :].astype(values.dtype)
    return end
