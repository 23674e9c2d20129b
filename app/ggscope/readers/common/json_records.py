"""Single elements of a JSON file, read again when somebody looks at one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model.tables import Array, narrow
from ggscope.model.trace import RecordView
from ggscope.readers.common.json_text import without_paste
from ggscope.readers.source import read_at

_SHOWN_BYTES = 4096
_EVENT_BYTES = 1 << 20
_DEPTH = 8
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
Field = tuple[str, str, int, int]


class ElementPlaces:
    """Where elements stand in the file, as narrow as the numbers are."""

    def __init__(self) -> None:
        self._offsets: list[Array] = [np.zeros(0, np.int8)]
        self._lengths: list[Array] = [np.zeros(0, np.int8)]

    def append(self, offsets: Array, lengths: Array) -> None:
        """Add the elements of a block."""
        self._offsets.append(narrow(offsets))
        self._lengths.append(narrow(lengths))

    def offset(self, row: int) -> int | None:
        """Return where the element of row `row` begins; None where there is none."""
        for part in self._offsets:
            if row < len(part):
                return int(part[row]) if row >= 0 else None
            row -= len(part)
        return None

    def records(
        self,
        path: Path,
        first: int,
        *,
        noun: str = "event",
        reader_id: str = "npu-json",
    ) -> "JsonRecords":
        """Return access to all elements so far; for parameters see `JsonRecords`."""
        self._offsets = [np.concatenate(self._offsets)]
        self._lengths = [np.concatenate(self._lengths)]
        return JsonRecords(
            path, self._offsets[0], self._lengths[0], first, noun, reader_id
        )


@dataclass(frozen=True, slots=True, eq=False)
class JsonRecords:
    """Decodes single elements of one file.

    Attributes
    ----------
    offsets, lengths : integers[n], where the text of each element is.
    first : number of the first element that was read.
    noun : what people call an element.
    """

    path: Path
    offsets: Array
    lengths: Array
    first: int
    noun: str
    reader_id: str

    def __len__(self) -> int:
        return len(self.offsets)

    def view(self, record: int) -> RecordView:
        """Return element `record` with its fields; nested ones as ``details.macs``.

        Raises
        ------
        ReadError
            If there is no such element, or none any more at its place.
        """
        row = record - self.first
        if not 0 <= row < len(self):
            raise ReadError(f"{self.noun} {record:,} does not exist.", path=self.path)
        offset, length = int(self.offsets[row]), int(self.lengths[row])
        data = read_at(self.path, offset, min(length, _EVENT_BYTES))
        fields = _fields(data) or _fields(without_paste(data)) or _as_it_stands(data)
        if not fields or len(data) < min(length, _EVENT_BYTES):
            raise CorruptError(
                f"{self.noun} {record:,} has moved.",
                path=self.path,
                offset=offset,
                reader_id=self.reader_id,
                hint="The file has changed; reload it.",
            )
        return RecordView(offset, data[:_SHOWN_BYTES], tuple(fields))


def _fields(data: bytes) -> list[Field]:
    """Return the fields of an element; none where the text is no JSON."""
    try:
        msgspec.json.decode(data.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return []
    return list(_walked(data, "", _address(data), len(data), _DEPTH))


def _as_it_stands(data: bytes) -> list[Field]:
    """Return an element that only a more lenient parser reads as one field.

    Halves of surrogate pairs and very deep nesting are such.
    """
    if not (data.startswith(b"{") and data.endswith(b"}")):
        return []
    return [("event", data.decode("utf-8", "replace"), 0, len(data))]


def _walked(
    data: bytes | msgspec.Raw, path: str, base: int, size: int, depth: int
) -> Iterator[Field]:
    """Yield the fields of a value with the place of each in the record."""
    nested: dict[str, msgspec.Raw] = {}
    raw = bytes(data)
    if depth and raw.lstrip()[:1] == b"{":
        try:
            nested = _OBJECT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            nested = {}
    if nested:
        for key, value in nested.items():
            name = f"{path}.{key}" if path else key
            yield from _walked(value, name, base, size, depth - 1)
        return
    text = raw.decode("utf-8", "replace")
    if text.startswith('"'):
        text = msgspec.json.decode(text, type=str)
    offset = _address(data) - base
    inside = 0 <= offset <= size - len(raw)
    yield path or "event", text, offset if inside else -1, len(raw)


def _address(data: bytes | msgspec.Raw) -> int:
    """Return where a buffer lies in memory: raw values are views of their source."""
    return int(np.frombuffer(memoryview(data), np.uint8).ctypes.data)
