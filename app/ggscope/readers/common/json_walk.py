"""Walk the root object of a JSON file once: long lists element by element.

For files of some ten thousand elements that are taken as plain Python values. A fault
ends the walk; what stands before it has been handed out already. Single elements are
read again when somebody looks at one.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

import msgspec
import numpy as np

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Array, narrow
from ggscope.model.trace import RecordView, Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.common.json_cursor import (
    BLOCK_BYTES,
    VALUE_BYTES,
    Block,
    JsonCursor,
    n_members,
)
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonTooLargeError,
    TolerantDecoder,
    fault_in,
    locate,
    without_paste,
)
from ggscope.readers.source import Source, read_at

Take = Callable[[object], None]


_DECODED_BYTES = 4 << 20
"""Larger values are left out: Python makes fifty bytes of two."""
_FACTS_BYTES = 4 << 20
_PLACE = 80
_SHOWN_BYTES = 4096
_EVENT_BYTES = 1 << 20
_DEPTH = 8
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
Field = tuple[str, str, int, int]


def decimal_of(text: str) -> Decimal:
    """Return a number with every digit; for decoders. Raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        raise ValueError("a number out of range") from None


_MANY = msgspec.json.Decoder(list[dict[str, object]], float_hook=decimal_of)


@dataclass(slots=True)
class JsonRoot:
    """What a walk found.

    Attributes
    ----------
    facts : values of all other keys of the root, as far as they are not very large.
    lists : keys whose lists were handed out.
    fault : what ended the walk early, for `note_fault`.
    """

    facts: dict[str, object] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)
    fault: JsonSyntaxError | None = None


def walk_root(
    source: Source,
    context: ReadContext,
    builder: TraceBuilder,
    take: Mapping[str, Take],
    *,
    block_bytes: int = BLOCK_BYTES,
    value_bytes: int = VALUE_BYTES,
) -> JsonRoot:
    """Hand out the elements of some lists of the root object, in file order.

    Numbers with a point come as Decimal, so that times in ms keep every digit.

    Parameters
    ----------
    take : what to call with each element of the list under a key.
    block_bytes, value_bytes : see `JsonCursor`.

    Raises
    ------
    LimitExceededError
        If one value is larger than `value_bytes`.
    """
    cursor = JsonCursor(source, block_bytes=block_bytes, value_bytes=value_bytes)
    walked, values = JsonRoot(), ValueDecoder(builder)
    n_fact_bytes = 0
    context.progress(0, source.size)
    try:
        for key in cursor.members():
            if key in walked.facts or key in walked.lists:
                note_repeated(builder, key, cursor.position)
            if key in take and cursor.peek() == b"[":
                walked.lists.add(key)
                elements = _Elements(key, take[key], values)
                for block in cursor.blocks():
                    elements.take_block(block)
                    context.progress(cursor.position, source.size)
                continue
            data, at = cursor.value()
            n_fact_bytes += len(data) + len(key)
            if n_fact_bytes > _FACTS_BYTES:
                values.note_large(at, "")
                continue
            walked.facts[key] = values.parsed(data, at, key[:_PLACE])
            if key in take:
                builder.warn(
                    Severity.DATA_LOSS,
                    "not_a_list",
                    f"{key} is not a list; nothing was read from it.",
                    at,
                    place=key,
                )
    except JsonSyntaxError as fault:
        walked.fault = fault
    except JsonTooLargeError as error:
        raise error.as_limit("Is this the right file?") from None
    return walked


class ValueDecoder:
    """Decodes values one by one and notes what had to be left out of them.

    Parameters
    ----------
    builder : gets the warnings.
    parse_float : makes numbers with a point or an exponent.
    """

    def __init__(
        self, builder: TraceBuilder, parse_float: Callable[[str], object] = decimal_of
    ) -> None:
        self._builder = builder
        self._decoder = TolerantDecoder(parse_float)

    def parsed(self, data: bytes, at: int, place: str = "") -> object:
        """Return a JSON value; odd bytes in its strings are replaced, and counted.

        Parameters
        ----------
        at : byte offset of `data`.
        place : what the value is, for warnings.

        Raises
        ------
        JsonSyntaxError
            If it is none.
        """
        if len(data) > _DECODED_BYTES:
            self.note_large(at, place)
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            text = data.decode("utf-8", "replace")
            note_bad_text(self._builder, at + error.start)
        decoder = self._decoder
        n_odd, n_repeated = decoder.n_odd, decoder.n_repeated
        try:
            value = decoder.decode(text)
        except json.JSONDecodeError:
            raise fault_in(data, at) from None
        if decoder.n_odd > n_odd:
            self._note_odd(decoder.n_odd - n_odd, at, place)
        if decoder.n_repeated > n_repeated:
            n = decoder.n_repeated - n_repeated
            inner = f"{place}.{decoder.repeated}" if place else decoder.repeated
            note_repeated(self._builder, inner, at, n)
        return value

    def note_large(self, at: int, place: str) -> None:
        """Note a value that is too large to be anything this format has."""
        self._builder.warn(
            Severity.DATA_LOSS,
            "large_value",
            f"values larger than {_DECODED_BYTES >> 20} MiB were skipped.",
            at,
            place=place,
        )

    def _note_odd(self, n: int, at: int, place: str) -> None:
        self._builder.warn(
            Severity.NOTICE,
            "odd_value",
            "invalid JSON values (NaN, Infinity, out-of-range numbers, lone "
            "surrogates, deep nesting) are treated as unknown.",
            at,
            n,
            place=place,
            remedy="Re-export the file as valid JSON.",
        )


def integer_of(value: object) -> int | None:
    """Return a whole number; None for anything else, true and false too."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def note_bad_text(builder: TraceBuilder, offset: int) -> None:
    """Note text that is no UTF-8."""
    builder.warn(
        Severity.NOTICE,
        "bad_utf8",
        "invalid UTF-8; the bytes were replaced.",
        offset,
    )


def note_fault(
    builder: TraceBuilder, source: Source, fault: JsonSyntaxError, loaded: str, n: int
) -> None:
    """Say where a walk ended and what was kept.

    Parameters
    ----------
    loaded : what was read before the fault, e.g. "940 nodes".
    n : how much that is; 0 raises.

    Raises
    ------
    TruncatedError, CorruptError
        If nothing stands before the fault.
    """
    place = locate(source, min(fault.offset, source.size))
    where = f"line {place.line:,} column {place.column:,}"
    is_cut = fault.at_end or fault.offset >= source.size
    what = "the file ends inside its JSON" if is_cut else "invalid JSON"
    message = f"{what} ({fault.text}: {where}); {loaded} before that."
    if not n:
        kind: type[ReadError] = TruncatedError if is_cut else CorruptError
        raise kind(message, offset=fault.offset)
    builder.warn(
        Severity.ERROR,
        "truncated_json" if is_cut else "broken_json",
        f"{message} These were loaded.",
        fault.offset,
        place=where,
        remedy="Re-export the file.",
    )


def note_repeated(builder: TraceBuilder, place: str, offset: int, n: int = 1) -> None:
    """Note keys that an object names twice."""
    builder.warn(
        Severity.NOTICE,
        "duplicate_key",
        "duplicate keys in an object; the last value counts.",
        offset,
        n,
        place=place[:_PLACE],
        remedy="Re-export the file: other programs may use the first value.",
    )


def names_a_key_twice(block: Block, members: Sequence[object]) -> bool:
    """Return whether an object of a block has a key twice, or is too deep to decide.

    Parameters
    ----------
    members : what a decoder made of the block: it keeps the last value of each key and
        says nothing.
    """
    try:
        return n_members(block.data[: block.length]) != sum(map(_n_keys, members))
    except RecursionError:
        return True


class _Elements:
    """Hands out the elements of one list."""

    def __init__(self, key: str, take: Take, values: ValueDecoder) -> None:
        self._key = key
        self._take = take
        self._values = values
        self._n_taken = 0

    def take_block(self, block: Block) -> None:
        """Hand out the elements of a block, at once where they are plain objects."""
        for value in self._decoded(block) or self._one_by_one(block):
            self._n_taken += 1
            self._take(value)

    def _decoded(self, block: Block) -> list[dict[str, object]] | None:
        if block.length > _DECODED_BYTES:
            return None
        decoded = block.decode_array(_MANY)
        if decoded is None:
            return None
        return None if names_a_key_twice(block, decoded) else decoded

    def _one_by_one(self, block: Block) -> Iterator[object]:
        for start, end in block.elements():
            place = f"{self._key}[{self._n_taken}]"
            data = block.element(start, end)
            yield self._values.parsed(data, block.offset + start, place)


def _n_keys(value: object) -> int:
    """Return the number of members of a value and of all that it holds."""
    if isinstance(value, dict):
        return len(value) + sum(map(_n_keys, value.values()))
    return sum(map(_n_keys, value)) if isinstance(value, list) else 0


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
            path,
            self._offsets[0],
            self._lengths[0],
            first=first,
            noun=noun,
            reader_id=reader_id,
        )


class JsonRecords:
    """Decodes single elements of one file.

    Parameters
    ----------
    path : the file.
    offsets, lengths : integers[n], where the text of each element is.
    first : number of the first element that was read.
    noun : what people call an element.
    """

    def __init__(
        self,
        path: Path,
        offsets: Array,
        lengths: Array,
        *,
        first: int,
        noun: str,
        reader_id: str,
    ) -> None:
        self._path = path
        self._noun = noun
        self._reader_id = reader_id
        self._first = first
        self._offsets = offsets
        self._lengths = lengths

    def __len__(self) -> int:
        return len(self._offsets)

    def view(self, record: int) -> RecordView:
        """Return element `record` with its fields; nested ones as ``details.macs``.

        Raises
        ------
        ReadError
            If there is no such element, or none any more at its place.
        """
        row = record - self._first
        if not 0 <= row < len(self):
            raise ReadError(f"{self._noun} {record:,} does not exist.", path=self._path)
        offset, length = int(self._offsets[row]), int(self._lengths[row])
        data = read_at(self._path, offset, min(length, _EVENT_BYTES))
        fields = _fields(data) or _fields(without_paste(data)) or _as_it_stands(data)
        if not fields or len(data) < min(length, _EVENT_BYTES):
            raise CorruptError(
                f"{self._noun} {record:,} has moved.",
                path=self._path,
                offset=offset,
                reader_id=self._reader_id,
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
