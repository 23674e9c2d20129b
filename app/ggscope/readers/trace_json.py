"""Reader of token traces: the ops of one token as JSON, with all their sources.

``traces/token-NNNNN.json`` is what the exporter of the tensor tracers for llama.cpp
makes of their binary records; there are three schemas, after the size of these.
"""

import re

from ggscope.errors import CorruptError, LimitExceededError, ReadError, TruncatedError
from ggscope.model.trace import Trace
from ggscope.readers.api import (
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    ReaderInfo,
    Sniff,
)
from ggscope.readers.json_stream import BLOCK_BYTES, VALUE_BYTES, JsonCursor
from ggscope.readers.json_text import JsonSyntaxError, JsonTooLargeError, locate
from ggscope.readers.source import Change, Source
from ggscope.readers.trace_json_build import build
from ggscope.readers.trace_json_intake import Intake
from ggscope.readers.trace_json_ops import AS_PRINTED

BOM = b"\xef\xbb\xbf"

_ENTRIES = re.compile(rb'"entries"\s*:\s*\[')
_ENTRY_KEYS = (b'"timestamp_ns"', b'"operation_type"')
_SOURCE_KEYS = (b'"sources"', b'"tensor_name"')
_EMPTY = re.compile(rb'"entries"\s*:\s*\[\s*\]')
_BYTES_PER_ENTRY = 800
_FINAL_BYTES = 48
_PEAK_BYTES = 110
_FIXED_BYTES = 32 << 20


class TraceJsonReader:
    """Reads token traces.

    Parameters
    ----------
    block_bytes : size of the blocks that are decoded in one piece.
    value_bytes : largest single value that is taken.
    """

    info = ReaderInfo(
        "trace-json",
        "Token trace",
        (".json",),
        "The ops of one token with their sources, exported as JSON from the records "
        "of the tensor tracers for llama.cpp.",
        {
            "ops": f"{AS_PRINTED}, or id of the traced program's op table, e.g. "
            "ggml-2025-11-25-95"
        },
    )

    def __init__(
        self, *, block_bytes: int = BLOCK_BYTES, value_bytes: int = VALUE_BYTES
    ) -> None:
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the keys of its root and of its first entry."""
        data = head.data.removeprefix(BOM).lstrip()
        if not data.startswith(b"{") or not _ENTRIES.search(data):
            return NOT_MINE
        has_token = b'"token_id"' in data
        if all(key in data for key in _ENTRY_KEYS):
            if any(key in data for key in _SOURCE_KEYS):
                return Sniff(80, "entries with time stamps, ops and sources")
            return Sniff(50, "entries with time stamps and ops")
        if has_token and b'"total_entries"' in data and _EMPTY.search(data):
            return Sniff(50, "a token trace without entries")
        return NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the usual size of an entry."""
        records = head.size // _BYTES_PER_ENTRY
        return Estimate(
            records=records,
            final_bytes=_FIXED_BYTES + _FINAL_BYTES * records,
            peak_bytes=_FIXED_BYTES + _PEAK_BYTES * records,
        )

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON before its first entry, or has no entries.
        ReadError
            If an option is not understood.
        LimitExceededError
            If there are too many entries, or too many different ones.
        """
        intake = Intake(source, context)
        start = len(BOM) if source.head(len(BOM)) == BOM else 0
        cursor = JsonCursor(
            source,
            start,
            block_bytes=self._block_bytes,
            value_bytes=self._value_bytes,
            reuses_buffer=True,
        )
        try:
            intake.take(cursor)
        except JsonSyntaxError as fault:
            _keep_before(fault, intake, source)
        except JsonTooLargeError as too_large:
            raise LimitExceededError(
                f"one value is larger than {too_large.limit:,} bytes.",
                path=source.path,
                offset=too_large.offset,
                hint="Is this a token trace?",
            ) from None
        except ReadError as error:
            # Only the file itself gives a plain one: the disk, the network.
            if type(error) is not ReadError or not intake.n_entries:
                raise
            intake.note_failure(str(error), cursor.position)
        if not intake.has_entries:
            raise CorruptError(
                'this is no token trace: it has no "entries".',
                path=source.path,
                hint=_begins(source),
            )
        return build(intake, source, context)


def _keep_before(fault: JsonSyntaxError, intake: Intake, source: Source) -> None:
    """Go on with the entries before a fault; raise where there are none."""
    place = locate(source, fault.offset)
    where = f"line {place.line}, column {place.column}"
    text = f"{fault.text} ({where})"
    if intake.n_entries:
        intake.note_fault(text, fault.offset, is_cut=fault.at_end)
        return
    kind = TruncatedError if fault.at_end else CorruptError
    changing = source.change() in (Change.GROWN, Change.REWRITTEN)
    raise kind(
        f"the JSON breaks off: {text}."
        if fault.at_end
        else f"this is not JSON: {text}.",
        path=source.path,
        offset=fault.offset,
        hint="Open it again when it is complete." if changing else "",
    )


def _begins(source: Source) -> str:
    return f"It begins with {source.head(HEAD_BYTES)[:40]!r}."
