"""Walk the root object of a JSON file once: long lists element by element.

For files of some ten thousand elements that are taken as plain Python values. A fault
ends the walk; what stands before it has been handed out already.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import msgspec

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.common.json_cursor import (
    BLOCK_BYTES,
    VALUE_BYTES,
    Block,
    JsonCursor,
)
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonTooLargeError,
    TolerantDecoder,
    fault_in,
    locate,
    repeats,
)
from ggscope.readers.source import Source

Take = Callable[[object], None]


_DECODED_BYTES = 4 << 20
"""Larger values are left out: Python makes fifty bytes of two."""
_FACTS_BYTES = 4 << 20
_PLACE = 80


def decimal_of(text: str) -> Decimal:
    """Return a number with every digit; for decoders. Raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        raise ValueError("a number out of range") from None


_OBJECTS = msgspec.json.Decoder(list[dict[str, object]], float_hook=decimal_of)


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
                n_taken = 0
                for block in cursor.blocks():
                    for value in _elements(block, values, key, n_taken):
                        take[key](value)
                    n_taken += len(block.start)
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


def _elements(
    block: Block, values: "ValueDecoder", key: str, first: int
) -> Iterable[object]:
    """Return the elements of a block, at once where they are plain objects.

    Parameters
    ----------
    first : number of the first one in the list under `key`.
    """
    if block.length <= _DECODED_BYTES:
        decoded = block.decode_array(_OBJECTS)
        if decoded is not None and not repeats(block.data, block.start, block.end):
            return decoded
    return (
        values.parsed(data, at, f"{key}[{number}]")
        for number, (data, at) in enumerate(block.texts(), first)
    )


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
