"""Reader of NPU simulator traces: one JSON object, or JSON Lines of events."""

from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError, ReadError, TruncatedError
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import BOM, HEAD_BYTES, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import note_change
from ggscope.readers.common.json_cursor import BLOCK_BYTES, VALUE_BYTES, JsonCursor
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    MemoryText,
    without_paste,
)
from ggscope.readers.npu import INFO
from ggscope.readers.npu.options import (
    BREAKING,
    TOO_LARGE_HINT,
    NpuOptions,
    counted,
    estimate,
    explained,
    has_comments,
    is_lines,
    note_failure,
    note_fault,
    options_of,
    sniff_npu,
)
from ggscope.readers.npu.parser import NpuParser
from ggscope.readers.snapshots import SnapshotScheduler
from ggscope.readers.source import Source

FIRST_SECONDS = 0.1
"""Before the first snapshot. One costs about a tenth of the time that reading its
events took, and each shows three times as much as the one before: all of them
together cost a part of what the last one does."""

PASTE_BYTES = 256 << 20
"""Larger files are not looked through for comments: that takes their size twice."""


class NpuJsonReader:
    """Reads NPU simulator traces.

    Parameters
    ----------
    block_bytes : size of the blocks that are decoded in one piece.
    value_bytes : largest single value or line that is taken.
    first_seconds : reading time before the first early snapshot.
    """

    info = INFO

    def __init__(
        self,
        *,
        block_bytes: int = BLOCK_BYTES,
        value_bytes: int = VALUE_BYTES,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        self._block_bytes = block_bytes
        self._value_bytes = value_bytes
        self._first_seconds = first_seconds

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys and event types."""
        return sniff_npu(head)

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the density of its events."""
        return estimate(head)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON, or has no timeline.
        UnsupportedVersionError
            If the format's major version is not 1.
        LimitExceededError
            If there is too little memory.
        """
        try:
            return self._read_somehow(source, context)
        except MemoryError:
            raise LimitExceededError(
                "not enough memory for its events.", hint=TOO_LARGE_HINT
            ) from None

    def _read_somehow(self, source: Source, context: ReadContext) -> Trace:
        """Read a file as it is or, where that fails, without what pasting adds."""
        options = options_of(context, source)
        if has_comments(source.head(HEAD_BYTES)):
            pasted = self._pasted(source)
            if pasted is not None:
                return self._read(source, pasted, context, options, pasted=True)
        try:
            return self._read(source, source, context, options)
        except (CorruptError, TruncatedError):
            pasted = self._pasted(source)
            if pasted is None:
                raise
        return self._read(source, pasted, context, options, pasted=True)

    def _pasted(self, source: Source) -> MemoryText | None:
        """Return the text without what pasting adds; None where there is nothing."""
        if source.size > PASTE_BYTES or source.change() in BREAKING:
            return None
        data = source.read(0, source.size)
        cleaned = without_paste(data)
        return None if cleaned == data else MemoryText(cleaned)

    def _read(
        self,
        source: Source,
        text: JsonText,
        context: ReadContext,
        options: NpuOptions,
        *,
        pasted: bool = False,
    ) -> Trace:
        buffer = np.empty(min(HEAD_BYTES, text.size), np.uint8)
        head = buffer[: text.read_into(0, buffer)].tobytes()
        lines = is_lines(head.removeprefix(BOM))
        # What was published before a comment turned up is not published again.
        pace = SnapshotScheduler(
            self._first_seconds,
            is_requested=context.wants_stages and not pasted,
            short_s=1.5 * self._first_seconds,
            most=4,
            growth=3,
        )
        parser = NpuParser(source, context, options, lines=lines, pace=pace)
        if pasted:
            parser.note_paste()
        cursor = JsonCursor(
            text,
            block_bytes=self._block_bytes,
            value_bytes=self._value_bytes,
            reuses_buffer=True,
        )
        try:
            if lines:
                parser.take_lines(cursor)
            else:
                parser.take_object(cursor)
        except JsonSyntaxError as fault:
            # Comments may begin anywhere; only now is it worth looking for them.
            cleaned = None if pasted else self._pasted(source)
            if cleaned is not None:
                again = self._read(source, cleaned, context, options, pasted=True)
                return replace(again, generation=again.generation + parser.generation)
            _keep_up_to(fault, parser, source, text, options)
        except JsonTooLargeError as too_large:
            raise too_large.as_limit("Is this a trace?") from None
        except ReadError as error:
            # Only the file itself gives a plain one: the disk, the network.
            if type(error) is not ReadError or not parser.n_records:
                raise
            note_failure(parser.builder, error, parser.n_records)
        change, loaded = source.change(), counted(parser.n_records)
        severity = Severity.DATA_LOSS if change in BREAKING else Severity.NOTICE
        note_change(parser.builder, change, loaded, cursor.position, severity=severity)
        return parser.trace()


def _keep_up_to(
    fault: JsonSyntaxError,
    parser: NpuParser,
    source: Source,
    text: JsonText,
    options: NpuOptions,
) -> None:
    """Go on with what stands before a fault, if there is something; else raise.

    A file that changes while it is read breaks off anywhere: what has been read is
    kept then, and `note_change` says so.
    """
    error = explained(fault, text, parser.progress)
    is_changing = source.change() in BREAKING
    if not parser.n_records or (options.strict and not is_changing):
        raise error from None
    if not is_changing:
        note_fault(parser.builder, error, parser.n_records)
