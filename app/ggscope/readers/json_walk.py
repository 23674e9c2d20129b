"""Walk the root object of a JSON file once: long lists element by element.

For files of some ten thousand elements that are taken as plain Python values. A fault
ends the walk; what stands before it has been handed out already.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

import msgspec

from ggscope.errors import CorruptError, LimitExceededError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.json_blocks import Block
from ggscope.readers.json_outline import BOM
from ggscope.readers.json_stream import BLOCK_BYTES, VALUE_BYTES, JsonCursor
from ggscope.readers.json_text import JsonSyntaxError, JsonTooLargeError, locate
from ggscope.readers.source import Source

Take = Callable[[object], None]


class _NoNumberError(ValueError):
    """NaN or Infinity, which JSON does not know."""


def decimal_of(text: str) -> Decimal:
    """Return a number with every digit; for decoders. Raises ValueError."""
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        raise _NoNumberError("a number beyond all bounds") from None


def _refuse(text: str) -> float:
    raise _NoNumberError(f"{text} is not JSON")


_ONE = json.JSONDecoder(parse_float=decimal_of, parse_constant=_refuse)
_MANY = msgspec.json.Decoder(list[dict[str, object]], float_hook=decimal_of)


@dataclass(slots=True)
class Walked:
    """What a walk found.

    Attributes
    ----------
    facts : values of all other keys of the root.
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
) -> Walked:
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
    start = len(BOM) if source.head(len(BOM)) == BOM else 0
    cursor = JsonCursor(source, start, block_bytes=block_bytes, value_bytes=value_bytes)
    walked = Walked()
    context.progress(0, source.size)
    try:
        for key in cursor.members():
            if key in take and cursor.peek() == b"[":
                walked.lists.add(key)
                for block in cursor.blocks():
                    _take_block(block, take[key], builder)
                    context.progress(cursor.position, source.size)
                continue
            data, at = cursor.value()
            walked.facts[key] = parsed(data, at, builder)
            if key in take:
                builder.warn(
                    Severity.DATA_LOSS,
                    "not_a_list",
                    f"{key} is no list; nothing could be read from it.",
                    at,
                    place=key,
                )
    except JsonSyntaxError as fault:
        walked.fault = fault
    except JsonTooLargeError as error:
        raise LimitExceededError(
            f"one value is larger than {error.limit:,} bytes.",
            offset=error.offset,
            hint="Is this the right file?",
        ) from None
    return walked


def parsed(data: bytes, at: int, builder: TraceBuilder) -> object:
    """Return a JSON value; odd bytes in its strings are replaced, and counted.

    Raises
    ------
    JsonSyntaxError
        If it is none.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        text = data.decode("utf-8", "replace")
        note_bad_text(builder, at + error.start)
    try:
        value: object = _ONE.decode(text)
    except json.JSONDecodeError as error:
        offset = at + len(text[: error.pos].encode())
        raise JsonSyntaxError(error.msg, offset) from None
    except ValueError as error:
        raise JsonSyntaxError(str(error).split(":")[0], at) from None
    except RecursionError:
        raise JsonSyntaxError("Nested too deeply", at) from None
    return value


def integer_of(value: object) -> int | None:
    """Return a whole number; None for anything else, true and false too."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def note_bad_text(builder: TraceBuilder, offset: int) -> None:
    """Note text that is no UTF-8."""
    builder.warn(
        Severity.NOTICE,
        "bad_utf8",
        "text that is no UTF-8; the odd bytes were replaced.",
        offset,
    )


def note_fault(
    builder: TraceBuilder, source: Source, fault: JsonSyntaxError, kept: str, n: int
) -> None:
    """Say where a walk ended and what was kept.

    Parameters
    ----------
    kept : what was read before the fault, e.g. "940 nodes".
    n : how much that is; 0 raises.

    Raises
    ------
    TruncatedError, CorruptError
        If nothing stands before the fault.
    """
    place = locate(source, min(fault.offset, source.size))
    where = f"line {place.line:,} column {place.column:,}"
    is_cut = fault.at_end or fault.offset >= source.size
    what = "the file ends within its JSON" if is_cut else "the JSON is broken"
    message = f"{what} ({fault.text}: {where}); {kept} come before that."
    if not n:
        kind: type[ReadError] = TruncatedError if is_cut else CorruptError
        raise kind(message, offset=fault.offset)
    builder.warn(
        Severity.ERROR,
        "truncated_json" if is_cut else "broken_json",
        f"{message} They were kept.",
        fault.offset,
        place=where,
        remedy="Write the file again.",
    )


def _take_block(block: Block, take: Take, builder: TraceBuilder) -> None:
    found = block.decode_array(_MANY)
    if found is not None:
        for value in found:
            take(value)
        return
    for start, end in block.elements():
        take(parsed(block.element(start, end), block.offset + start, builder))
