"""Objects of long JSON lists as columns of numbers; what finds them is ``fields.c``."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from ggscope.model.tables import F64, I64, U8, Array
from ggscope.native.declared import FieldPaths, FieldRows, ListTally
from ggscope.native.library import library
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.gathered import NONE
from ggscope.readers.common.packed_text import LONGEST
from ggscope.readers.common.placed_records import Field
from ggscope.readers.common.text_cursor import ScanStatus, TextCursor, string_of

_CAPACITY = 1 << 15
_DEPTH = 4
"""Keys of a path, at most."""


class Kind(IntEnum):
    """What a field holds, as in ``fields.c``."""

    SKIPPED = 0
    INTEGER = 1
    MICROSECONDS = 2
    REAL = 3
    TEXT = 4
    LIST = 5


@dataclass(slots=True)
class ListFaults:
    """What was no object of a list, and where it was first; -1 nowhere."""

    broken: int = 0
    first_broken: int = -1
    other: int = 0

    def note(self, offset: int, count: int = 1) -> None:
        """Count damage at a place of the text."""
        self.broken += count
        if self.first_broken < 0:
            self.first_broken = offset


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields that are looked for in each object of a list, by their paths.

    Attributes
    ----------
    integers, texts : path of each column, ``dispatch_info.kernel_id``.
    real : path of a number with a point, which becomes the column "real".
    within : path of a list within the objects of which each element is a row; then
        `inner` are its fields.
    """

    integers: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    real: str = ""
    within: str = ""
    inner: "Fields | None" = None


class ObjectTable:
    """Takes the objects of lists block by block.

    Attributes
    ----------
    n_objects : of the lists so far; rows may be more or fewer where they are within.
    strings : texts that columns of texts refer to.
    """

    def __init__(self, fields: Fields) -> None:
        inner = fields.inner or Fields()
        self._names = [*fields.integers, *fields.texts]
        self._texts = set(fields.texts) | set(inner.texts)
        self._paths = _paths(fields)
        self._inner = _paths(inner)
        for extra in self._hidden(fields):
            self._names.append(extra)
        self._names += [*inner.integers, *inner.texts, *self._hidden(inner)]
        width = len(self._names)
        self._number = np.empty((_CAPACITY, width), np.int64)
        self._offset = np.empty(_CAPACITY, np.int64)
        self._real = np.empty(_CAPACITY, np.float64)
        self._rows = FieldRows(
            number=self._number, offset=self._offset, real=self._real
        )
        self._tally = ListTally()
        self._n = np.zeros(1, np.int64)
        self._has_real = bool(fields.real or inner.real)
        names = [name for name in self._names if name]
        self._table = ChunkedTable(
            **dict.fromkeys((*names, "offset"), np.int64),
            **({"real": np.float64} if self._has_real else {}),
        )
        self.n_objects = 0
        self.strings: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._table)

    def __contains__(self, name: str) -> bool:
        return name in self._table.names

    @staticmethod
    def _hidden(fields: Fields) -> list[str]:
        """Return names of what takes a place and is no column of integers."""
        return [""] * (bool(fields.real) + bool(fields.within))

    def take(
        self,
        cursor: TextCursor,
        faults: ListFaults,
        each_block: Callable[[], None] = lambda: None,
    ) -> None:
        """Take the list that begins at a cursor, which then stands behind it."""
        if cursor.byte() != ord("["):
            cursor.value(0)
            return
        cursor.at += 1
        while True:
            status = self._scan(cursor, faults)
            if status is ScanStatus.CLOSED:
                return
            each_block()
            blocks = cursor.blocks
            if len(blocks.data) - cursor.at >= LONGEST:
                # Go on behind it, with whatever looks like an object.
                faults.note(cursor.offset)
                cursor.at = len(blocks.data)
            if not cursor.extend():
                cursor.is_cut = True
                return

    def _scan(self, cursor: TextCursor, faults: ListFaults) -> ScanStatus:
        """Take the objects of a block."""
        blocks, tally = cursor.blocks, self._tally
        while True:
            data = blocks.data
            n = library().ggscope_json_fields(
                data, len(data), cursor.at, int(blocks.is_last), _CAPACITY,
                self._paths, self._inner, self._rows, self._n, tally,
            )  # fmt: skip
            self.n_objects += int(self._n[0])
            faults.other += tally.n_other
            if tally.n_broken:
                faults.note(blocks.offset + tally.first_broken, tally.n_broken)
            if n:
                self._add(int(n), data, blocks.offset)
            cursor.at = int(tally.consumed)
            if tally.status != ScanStatus.FULL:
                return ScanStatus(tally.status)

    def _add(self, n: int, data: U8, offset: int) -> None:
        columns: dict[str, Array] = {"offset": self._offset[:n] + offset}
        for k, name in enumerate(self._names):
            if name in self._texts:
                columns[name] = self._numbered(self._number[:n, k], data)
            elif name:
                columns[name] = self._number[:n, k].copy()
        if self._has_real:
            columns["real"] = self._real[:n].copy()
        self._table.append(**columns)

    def _numbered(self, place: I64, data: U8) -> I64:
        """Return the number of each text, -1 for none."""
        view, numbers = data.data, self.strings
        ids = []
        for where in place.tolist():
            if where == NONE:
                ids.append(-1)
                continue
            begin, length = where >> 32, where & 0xFFFF_FFFF
            text = string_of(view[begin : begin + length])
            ids.append(numbers.setdefault(text, len(numbers)))
        return np.array(ids, np.int64)

    def column(self, name: str) -> I64:
        """Return integers, `NONE` where there is none; or numbers of texts, -1 none."""
        return self._table.column(name).astype(np.int64)

    def reals(self) -> F64:
        """Return the numbers with a point, NaN where there is none."""
        return self._table.column("real").astype(np.float64)

    def texts(self, name: str) -> list[str]:
        """Return a column of texts, "" for none."""
        strings = [*self.strings, ""]
        return [strings[number] for number in self._table.column(name).tolist()]


def _paths(fields: Fields) -> FieldPaths:
    """Return paths as ``fields.c`` takes them."""
    listed: list[tuple[str, Kind]] = [
        (path, Kind.INTEGER) for path in fields.integers.values()
    ]
    listed += [(path, Kind.TEXT) for path in fields.texts.values()]
    if fields.real:
        listed.append((fields.real, Kind.REAL))
    if fields.within:
        listed.append((fields.within, Kind.LIST))
    begin = np.zeros(max(len(listed), 1) * _DEPTH, np.int32)
    length = np.zeros_like(begin)
    keys = b""
    for i, (path, _) in enumerate(listed):
        for k, key in enumerate(path.split(".")):
            begin[i * _DEPTH + k], length[i * _DEPTH + k] = len(keys), len(key)
            keys += key.encode()
    return FieldPaths(
        n=len(listed),
        keys=np.frombuffer(keys or b"\0", np.uint8),
        begin=begin,
        length=length,
        depth=np.array([path.count(".") + 1 for path, _ in listed] or [0], np.uint8),
        kind=np.array([int(kind) for _, kind in listed] or [0], np.uint8),
    )


def object_fields(
    opened: tuple[str, ...] | None = None,
) -> Callable[[bytes], tuple[int, list[Field]]]:
    """Return what makes fields of the object that some bytes begin with.

    Parameters
    ----------
    opened : keys whose objects are shown field by field; None: all.
    """
    return lambda data: _fields(data, opened)


def _fields(data: bytes, opened: tuple[str, ...] | None) -> tuple[int, list[Field]]:
    """Return the length of the object that begins here, and its fields."""
    text = data.decode("utf-8", "replace")
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        if not data.startswith(b"{"):
            return 0, []
        return len(data), [("text", text, 0, len(data))]
    if not isinstance(value, dict):
        return 0, []
    return len(text[:end].encode()), list(_shown_fields(value, opened, ""))


def _shown_fields(
    value: dict[str, object], opened: tuple[str, ...] | None, path: str
) -> Iterator[Field]:
    for key, content in value.items():
        name = f"{path}{key}"
        is_open = opened is None or (not path and key in opened)
        if isinstance(content, dict) and is_open and name.count(" · ") < _DEPTH:
            yield from _shown_fields(content, opened, f"{name} · ")
        elif isinstance(content, str):
            yield name, content, -1, 0
        else:
            yield name, json.dumps(content, ensure_ascii=False), -1, 0
