"""Reader of ``buffer_stats.jsonl``: buffer events as the tensor tracer prints them.

Source of the format: ``tensor-trace`` of ErsjanKeri/llama.cpp, January 2026. One
object per line; names are printed without escaping, so a quote breaks the line.
"""

import re
from decimal import Decimal

import msgspec

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import BOM, NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.buffers import EVENTS_INFO
from ggscope.readers.buffers.parser import EventList, allowance_of
from ggscope.readers.common.buffer_lives import add_buffers
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.json_cursor import Block, JsonCursor, outer_keys
from ggscope.readers.common.json_text import JsonSyntaxError, repeats
from ggscope.readers.common.json_walk import ValueDecoder, decimal_of
from ggscope.readers.memory import Allowance
from ggscope.readers.source import Source

MAX_BYTES = 1 << 30
_OBJECTS = msgspec.json.Decoder(dict[str, object], float_hook=decimal_of)
_LINE = re.compile(rb'^[^{\n]{0,200}(\{.*"buffer_id".*)$', re.MULTILINE)
_KEYS = {"timestamp_ms", "event", "buffer_id"}
_SALVAGE = re.compile(
    r'\s*\{\s*"timestamp_ms"\s*:\s*(?P<timestamp_ms>\d+(?:\.\d+)?)\s*,'
    r'\s*"event"\s*:\s*"(?P<event>alloc)"\s*,'
    r'\s*"buffer_id"\s*:\s*(?P<buffer_id>\d+)\s*,'
    r'(?:\s*"buffer_ptr"\s*:\s*\d+\s*,)?'
    r'\s*"size"\s*:\s*(?P<size>\d+)\s*,'
    r'\s*"name"\s*:\s*"(?P<name>.*)"\s*,'
    r'\s*"backend"\s*:\s*"(?P<backend>.*)"\s*,'
    r'\s*"usage"\s*:\s*(?P<usage>\d+)\s*,'
    r'\s*"layer"\s*:\s*(?P<layer>\d+)\s*\}\s*',
    re.DOTALL,
)


class BufferStatsReader:
    """Reads buffer events in JSON lines."""

    info = EVENTS_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the keys of its first line that looks like an event."""
        if b"\0" in head.data:
            return NOT_MINE
        match = _LINE.search(head.data)
        if match is None or not outer_keys(match[1]) >= _KEYS:
            return NOT_MINE
        begins = head.data.removeprefix(BOM).lstrip().startswith(match[1][:64])
        return Sniff(90 if begins else 60, "lines of buffer events")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the buffers and what they occupy.

        Raises
        ------
        CorruptError
            If no line is a buffer event.
        LimitExceededError
            If the file is too large for such events.
        """
        refuse_larger(source, MAX_BYTES, "Are these buffer events?")
        context.progress(0, source.size)
        builder = TraceBuilder()
        lines = _Lines(builder, allowance_of(source.size))
        cursor = JsonCursor(source)
        for block in cursor.lines():
            lines.take(block, source.size)
            context.progress(cursor.position, source.size)
        lines.note()
        if not len(lines.events) and not lines.events.bad:
            raise CorruptError(
                "no buffer events found.", offset=0, hint="Is this the right file?"
            )
        add_buffers(builder, lines.events.events(builder), record_word="line")
        return builder.snapshot(
            trace_info(self.info, source, len(lines.events) + lines.events.bad.total())
        )


class _Lines:
    """Takes lines; what is no event is repaired or counted."""

    def __init__(self, builder: TraceBuilder, allowance: Allowance) -> None:
        self.events = EventList(allowance)
        self._builder = builder
        self._values = ValueDecoder(builder)
        self._n_repaired = 0

    def take(self, block: Block, file_size: int) -> None:
        """Take the lines of a block."""
        numbers = [] if block.line is None else block.line.tolist()
        values = block.decode_lines(_OBJECTS)
        if values is not None and not repeats(block.data, block.start, block.end):
            for value, number, start in zip(
                values, numbers, block.start.tolist(), strict=True
            ):
                self._take_value(value, number, block.offset + start)
            return
        for (data, offset), number in zip(block.texts(), numbers, strict=True):
            is_last = offset + len(data) >= file_size
            self._take_line(data, offset, number, is_last)

    def note(self) -> None:
        """Say how many lines were repaired."""
        self._builder.warn(
            Severity.NOTICE,
            "repaired_line",
            "lines are invalid JSON because a name has unescaped "
            "characters; they were read by field order.",
            count=self._n_repaired,
        )

    def _take_line(self, data: bytes, offset: int, number: int, is_last: bool) -> None:
        if not data.strip():
            return
        try:
            value = self._values.parsed(data, offset, f"line {number:,}")
        except JsonSyntaxError:
            value = _salvaged(data)
            self._n_repaired += value is not None
        if value is not None or not _is_begun(data):
            self._take_value(value, number, offset)
            return
        self._builder.warn(
            Severity.DATA_LOSS,
            "truncated_line" if is_last else "broken_line",
            "the last line is truncated; its event is lost."
            if is_last
            else "buffer events are truncated or malformed and were skipped; sums "
            "and peak may be too small.",
            offset,
            place=f"line {number:,}",
        )

    def _take_value(self, value: object, number: int, offset: int) -> None:
        """Take what a line holds; an event without an id counts as a lost one."""
        place = f"line {number:,}"
        if isinstance(value, dict) and _KEYS & value.keys():
            self.events.add(value, number, place)
            return
        text = "lines without a buffer event were skipped."
        self._builder.warn(Severity.NOTICE, "stray_line", text, offset, place=place)


def _is_begun(data: bytes) -> bool:
    """Return whether a line begins as events do, however early it breaks off."""
    text = data.lstrip()
    first = b'{"timestamp_ms"'
    return text.startswith(b"{") and (
        first.startswith(text.replace(b" ", b"")[: len(first)])
        or any(f'"{key}"'.encode() in text for key in _KEYS)
    )


def _salvaged(data: bytes) -> dict[str, object] | None:
    """Return an allocation whose names break the JSON, by the order of its fields."""
    match = _SALVAGE.fullmatch(data.decode("utf-8", "replace"))
    if match is None:
        return None
    value: dict[str, object] = dict(match.groupdict())
    value["timestamp_ms"] = Decimal(match["timestamp_ms"])
    for key in ("buffer_id", "size", "usage", "layer"):
        value[key] = int(match[key]) if len(match[key]) < 20 else -1
    value["buffer_id"] = int(match["buffer_id"][:40])
    return value
