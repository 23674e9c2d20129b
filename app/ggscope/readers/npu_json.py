"""Reader of NPU simulator traces: one JSON object, or JSON Lines of events."""

import math

import numpy as np

from ggscope.errors import (
    CorruptError,
    LimitExceededError,
    ReadError,
    TruncatedError,
)
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import HEAD_BYTES, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.json_stream import BLOCK_BYTES, VALUE_BYTES, JsonCursor
from ggscope.readers.json_text import (
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    MemoryText,
    locate,
    without_paste,
)
from ggscope.readers.npu_intake import Intake, Settings
from ggscope.readers.npu_sniff import BOM, is_lines, sniff_npu
from ggscope.readers.source import Source

PASTE_BYTES = 16 << 20
"""Larger files are not looked through for comments: nobody pastes that much."""


class NpuJsonReader:
    """Reads NPU simulator traces.

    Parameters
    ----------
    block_bytes : size of the blocks that are decoded in one piece.
    value_bytes : largest single value or line that is taken.
    """

    info = ReaderInfo(
        "npu-json",
        "NPU simulator trace",
        (".json", ".jsonl"),
        "Timeline events of an NPU simulator as one JSON object, or one per line.",
        {
            "end_cycle": "exclusive (default) or inclusive: whether a span's end_cycle "
            "belongs to it",
            "hz": "clock frequency in cycles per second, to show times",
            "salvage": "true: open a cut or broken file up to the fault",
        },
    )

    def __init__(
        self, *, block_bytes: int = BLOCK_BYTES, value_bytes: int = VALUE_BYTES
    ) -> None:
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys and event types."""
        return sniff_npu(head)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON, or has no timeline.
        UnsupportedVersionError
            If the format's major version is not 1.
        """
        settings = _settings(context)
        head = source.head(HEAD_BYTES)
        data = head.removeprefix(BOM).lstrip()
        if source.size <= PASTE_BYTES and not data.startswith((b"{", b"[")):
            pasted = self._pasted(source)
            if pasted is not None:
                return self._read(source, pasted, context, settings, pasted=True)
        try:
            return self._read(source, source, context, settings)
        except (CorruptError, TruncatedError):
            pasted = self._pasted(source)
            if pasted is None:
                raise
        return self._read(source, pasted, context, settings, pasted=True)

    def _pasted(self, source: Source) -> MemoryText | None:
        """Return the text without what pasting adds; None where there is nothing."""
        if source.size > PASTE_BYTES:
            return None
        data = source.read(0, source.size)
        cleaned = without_paste(data)
        return None if cleaned == data else MemoryText(cleaned)

    def _read(
        self,
        source: Source,
        text: JsonText,
        context: ReadContext,
        settings: Settings,
        *,
        pasted: bool = False,
    ) -> Trace:
        head = _head(text)
        start = len(BOM) if head.startswith(BOM) else 0
        lines = is_lines(head[start:])
        intake = Intake(source, context, settings, lines=lines)
        if pasted:
            intake.note_paste()
        cursor = JsonCursor(
            text, start, block_bytes=self._block_bytes, value_bytes=self._value_bytes
        )
        try:
            if lines:
                intake.take_lines(cursor)
            else:
                intake.take_object(cursor)
        except JsonSyntaxError as fault:
            if not (settings.salvage and intake.n_records):
                raise _explained(fault, text, intake.n_records) from None
            message = str(_explained(fault, text, intake.n_records).message)
            code = "truncated_json" if fault.at_end else "broken_json"
            intake.builder.warn(Severity.ERROR, code, message, fault.offset)
        except JsonTooLargeError as error:
            raise LimitExceededError(
                f"one value is larger than {error.limit:,} bytes.",
                offset=error.offset,
                hint="Is this a trace?",
            ) from None
        return intake.trace()


def _settings(context: ReadContext) -> Settings:
    end = context.options.get("end_cycle", "exclusive")
    if end not in ("exclusive", "inclusive"):
        raise ReadError(
            f"option end_cycle is {end!r}.", hint="Give exclusive or inclusive."
        )
    hz_text = context.options.get("hz", "")
    try:
        hz = float(hz_text) if hz_text else None
    except ValueError:
        hz = math.nan
    if hz is not None and not 0 < hz < math.inf:
        raise ReadError(
            f"option hz is {hz_text!r}.", hint="Give cycles per second, e.g. 1e9."
        )
    salvage = context.options.get("salvage", "").lower() in ("true", "1", "yes")
    return Settings(end == "inclusive", hz, salvage)


def _head(text: JsonText) -> bytes:
    buffer = np.empty(min(HEAD_BYTES, text.size), np.uint8)
    return buffer[: text.read_into(0, buffer)].tobytes()


def _explained(fault: JsonSyntaxError, text: JsonText, n_records: int) -> ReadError:
    """Return the error that tells a person where the text is no JSON."""
    place = locate(text, fault.offset)
    come = "event comes" if n_records == 1 else "events come"
    return (TruncatedError if fault.at_end else CorruptError)(
        f"{fault.text}: line {place.line} column {place.column} (char {place.char}), "
        f"byte {fault.offset:,}; {n_records:,} whole {come} before it.",
        offset=fault.offset,
        hint="Read it with option salvage=true to see them." if n_records else "",
    )
