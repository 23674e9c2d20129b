"""Which of its two forms an NPU trace has, and what of it is to be read.

Judged by the first 64 KiB. Also the problems of a file that is cut, broken, or changed
while it is read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ggscope.errors import CorruptError, ReadError, TruncatedError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity
from ggscope.readers.api import (
    BOM,
    HEAD_BYTES,
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.json_cursor import JsonCursor
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    JsonText,
    JsonTooLargeError,
    MemoryText,
    locate,
    without_paste,
)
from ggscope.readers.npu import HEADER_KEYS, INCLUSIVE, INFO
from ggscope.readers.partial_reading import RANGE_OPTION, requested_range
from ggscope.readers.source import Change

_TYPES = (
    rb"(?:(?:ENGINE|MEM_ACCESS|TOKEN|MARKER|CMD|STALL|BUS|ERROR)_EVENT|POWER_ESTIMATE)"
)
KNOWN_TYPE = re.compile(rb'"type"\s*:\s*"' + _TYPES + rb'"')
_EVENT_LINE = re.compile(
    rb'^[ \t]*\{.*"type"[ \t]*:[ \t]*"' + _TYPES + rb'".*\}[ \t\r]*$', re.MULTILINE
)
_OWN_KEYS = HEADER_KEYS - {"version"}
TOO_LARGE_HINT = f"Read a part of the file with option {RANGE_OPTION}=FIRST:STOP."
_ENDLESS = 1 << 62
_SAMPLES = 16
"""Places of a file where events are counted for the sake of shares."""

_FINAL_BYTES, _PEAK_BYTES = 64, 150
"""Memory per event: when all is read, and at the worst moment, measured."""

_FIXED_BYTES = 32 << 20
"""Blocks and the tables of the scanner."""

BREAKING = (Change.GROWN, Change.SHRUNK, Change.REWRITTEN)
"""Changes that may be why the text is no JSON."""


@dataclass(frozen=True, slots=True)
class Root:
    """What is seen of the first value of a text.

    Attributes
    ----------
    first : its first byte, b"" for an empty text.
    keys : its keys as far as they are seen, if it is an object.
    type : text of its value of "type", b"" if none.
    closed : whether it ends within the text.
    followed : whether anything comes after it.
    """

    first: bytes
    keys: frozenset[str] = frozenset()
    type: bytes = b""
    closed: bool = False
    followed: bool = False


def sniff_npu(head: Head) -> Sniff:
    """Judge a file; never raises."""
    data = head.data.removeprefix(BOM)
    if b"\0" in data or b'"' not in data:
        return NOT_MINE
    if has_comments(data):
        data = without_paste(data)
    root = look(data)
    if root.first == b"{":
        return _object_sniff(root, data)
    if root.first == b"[" and (KNOWN_TYPE.search(data) or b'"timeline_events"' in data):
        return Sniff(50, "NPU events in a JSON array instead of an object")
    if _EVENT_LINE.search(data):
        return Sniff(50, "some lines are NPU timeline events")
    return NOT_MINE


def has_comments(data: bytes) -> bool:
    """Return whether a text begins with what pasting adds, or holds such comments.

    Slashes within strings, as of web addresses, are no comments; what stands behind the
    last quotation mark is not looked at, as it may be half a string.
    """
    data = data.removeprefix(BOM)
    data = data[: data.rfind(b'"') + 1]
    if data.lstrip().startswith((b"{", b"[")) and not (b"//" in data or b"/*" in data):
        return False
    return without_paste(data) != data


def is_lines(data: bytes) -> bool:
    """Return whether a text that begins with `data` has one event per line."""
    root = look(data)
    if root.first == b"{":
        if "timeline_events" in root.keys:
            return False
        if root.type and (KNOWN_TYPE.search(b'"type":' + root.type) or root.closed):
            return True
        # After one whole object only another line can follow.
        return root.closed and root.followed
    return root.first != b"[" and _EVENT_LINE.search(data) is not None


def look(data: bytes) -> Root:
    """Return what can be seen of the first value of a text, cut or not."""
    cursor = JsonCursor(MemoryText(data))
    first = cursor.peek()
    if first != b"{":
        return Root(first)
    keys: list[str] = []
    kind = b""
    try:
        for key in cursor.members():
            keys.append(key)
            value, _ = cursor.value()
            kind = value if key == "type" else kind
    except (JsonSyntaxError, JsonTooLargeError, RecursionError):
        return Root(first, frozenset(keys), kind)
    return Root(first, frozenset(keys), kind, True, cursor.peek() != b"")


def _object_sniff(root: Root, data: bytes) -> Sniff:
    if "timeline_events" in root.keys:
        sure = root.keys & HEADER_KEYS
        return Sniff(90 if sure else 60, "key timeline_events of an NPU trace")
    if KNOWN_TYPE.match(b'"type":' + root.type):
        return Sniff(90, "lines of NPU timeline events")
    if len(root.keys & _OWN_KEYS) + ("version" in root.keys) >= 2:
        return Sniff(50, "keys of an NPU trace, but no timeline_events so far")
    if root.closed and _EVENT_LINE.search(data):
        return Sniff(50, "some lines are NPU timeline events")
    if root.type.endswith(b'_EVENT"'):
        return Sniff(50, "lines with event types as in NPU traces")
    if not root.closed and root.keys & {"bandwidth_samples", "config_snapshot"}:
        return Sniff(50, "keys of an NPU trace, but no timeline_events so far")
    return NOT_MINE


@dataclass(frozen=True, slots=True)
class NpuOptions:
    """Reader options.

    Attributes
    ----------
    inclusive : end cycles belong to their spans.
    hz : cycles per second; None if not known.
    strict : refuse a file with a syntax error; else what stands before it is kept.
    first, stop : numbers of the events to read, half-open; None = to the end.
    """

    inclusive: bool = False
    hz: float | None = None
    strict: bool = False
    first: int = 0
    stop: int | None = None

    @property
    def is_part(self) -> bool:
        """Whether some events are left out."""
        return self.first > 0 or self.stop is not None

    def texts(self) -> dict[str, str]:
        """Return the options that shape the trace, as `TraceInfo` holds them."""
        options = {"end_cycle": "inclusive" if self.inclusive else "exclusive"}
        if self.hz is not None:
            options["hz"] = f"{self.hz:g}"
        if self.strict:
            options["strict"] = "true"
        if self.is_part:
            stop = "" if self.stop is None else self.stop
            options[RANGE_OPTION] = f"{self.first}:{stop}"
        return options


def options_of(context: ReadContext, text: JsonText) -> NpuOptions:
    """Return what the options ask for.

    Raises
    ------
    ReadError
        If one of them has a value that does not exist.

    Notes
    -----
    Nobody knows how many events a file holds before it is read: shares in a range
    are of an estimate, from a look at some places of the file.
    """
    chosen = INFO.option_values(context.options)
    hz = float(chosen["hz"]) if chosen["hz"] else None
    # What files were once opened with; they are opened without it now.
    salvage = context.options.get("salvage", "").lower()
    strict = chosen["strict"] == "true" or salvage in ("false", "0", "no")
    first, stop = _range(context.options, text)
    return NpuOptions(chosen["end_cycle"] == INCLUSIVE, hz, strict, first, stop)


def estimate(head: Head) -> Estimate | None:
    """Return what reading a whole file would cost; None where that is unknown."""
    per_byte = _density(head.data)
    if not per_byte:
        return None
    records = max(round(per_byte * head.size), 1)
    return Estimate(
        records=records,
        final_bytes=records * _FINAL_BYTES,
        peak_bytes=records * _PEAK_BYTES + _FIXED_BYTES,
        can_range=True,
    )


def _range(options: Mapping[str, str], text: JsonText) -> tuple[int, int | None]:
    """Return the numbers of the events to read; None = to the end."""
    is_share = "%" in options.get(RANGE_OPTION, "")
    n_events = _counted(text) if is_share else _ENDLESS
    first, stop = requested_range(options, n_events)
    return first, None if stop == n_events else stop


def _counted(text: JsonText) -> int:
    """Return about how many events a text holds."""
    step = max(text.size // _SAMPLES, HEAD_BYTES)
    buffer = np.empty(min(HEAD_BYTES, text.size), np.uint8)
    densities = []
    for offset in range(0, text.size, step):
        data = buffer[: text.read_into(offset, buffer)].tobytes()
        densities.append(len(KNOWN_TYPE.findall(data)) / max(len(data), 1))
    return max(round(sum(densities) / len(densities) * text.size), 1)


def _density(data: bytes) -> float:
    """Return the number of events per byte, as the head of a file shows it."""
    starts = [match.start() for match in KNOWN_TYPE.finditer(data)]
    if len(starts) < 2:
        return len(starts) / max(len(data), 1)
    return (len(starts) - 1) / (starts[-1] - starts[0])


@dataclass(frozen=True, slots=True)
class Progress:
    """How far reading has come when something happens.

    Attributes
    ----------
    n_events : whole ones so far.
    unfinished : where the rest of the list of events begins; None outside of it.
    has_timeline : whether that list has been met.
    """

    n_events: int
    unfinished: int | None = None
    has_timeline: bool = True


def explained(fault: JsonSyntaxError, text: JsonText, progress: Progress) -> ReadError:
    """Return the error that says where the text is no JSON."""
    n = progress.n_events
    hint = "Open it without option strict to see them." if n else ""
    whole = f"{n:,} complete event" if n == 1 else f"{n:,} complete events"
    place = locate(text, fault.offset)
    where = (
        f"{fault.text}: line {place.line} column {place.column} (char {place.char}), "
        f"byte {fault.offset:,}"
    )
    if not fault.at_end:
        return CorruptError(
            f"{where}; {whole} before it.", offset=fault.offset, hint=hint
        )
    end = _end(text)
    return TruncatedError(
        f"{_cut(text, progress)}, at byte {end:,}; {whole} before it ({where}).",
        offset=min(fault.offset, end),
        hint=hint or "Check that the program that writes it ran to completion.",
    )


def note_fault(builder: TraceBuilder, error: ReadError, n_events: int) -> None:
    """Note that only what stands before a fault is shown."""
    is_cut = isinstance(error, TruncatedError)
    builder.warn(
        Severity.DATA_LOSS,
        "truncated_json" if is_cut else "broken_json",
        f"{error.message} Everything before that was loaded.",
        error.offset,
        place=f"timeline_events[{n_events}]",
        remedy="Re-export the file, or continue with the events that were read.",
    )


def note_failure(builder: TraceBuilder, error: ReadError, n_events: int) -> None:
    """Note that the rest of the file could not be read."""
    builder.warn(
        Severity.DATA_LOSS,
        "read_failed",
        f"{error.message} The {counted(n_events)} before that were loaded.",
        error.offset,
        remedy=error.hint,
    )


def note_part(builder: TraceBuilder, options: NpuOptions, n_events: int) -> None:
    """Say which events were left out because the options ask for it.

    Raises
    ------
    ReadError
        If that leaves none.
    """
    if not options.is_part:
        return
    stop = n_events if options.stop is None else min(options.stop, n_events)
    if options.first >= stop:
        raise ReadError(
            f"the range {options.texts()[RANGE_OPTION]} has none of the "
            f"{counted(n_events)}.",
            hint=f"Use another {RANGE_OPTION}.",
        )
    if not options.first and stop == n_events:
        return
    builder.warn(
        Severity.INFO,
        "range_read",
        f"only events {options.first:,} to {stop - 1:,} of {n_events:,} were "
        "read, as requested; tokens, commands and dependencies outside are "
        "unknown.",
        remedy=f"Remove reader option {RANGE_OPTION} to read all.",
    )


def _cut(text: JsonText, progress: Progress) -> str:
    """Say in the middle of what a text ends."""
    n = progress.n_events
    if progress.unfinished is None:
        where = "after" if progress.has_timeline else "before"
        return f"the file ends {where} its event list, inside its JSON object"
    buffer = np.empty(256, np.uint8)
    got = text.read_into(progress.unfinished, buffer)
    if buffer[:got].tobytes().strip(b", \t\r\n"):
        return f"the file ends inside event {n:,}"
    if not n:
        return "the file ends before its first event"
    return f"the file ends after event {n - 1:,}, inside its event list"


def _end(text: JsonText) -> int:
    """Return where a text ends now: perhaps it has been cut."""
    low, high = 0, text.size
    byte = np.empty(1, np.uint8)
    while low < high:
        middle = (low + high) // 2
        if text.read_into(middle, byte):
            low = middle + 1
        else:
            high = middle
    return low


def counted(n: int) -> str:
    """Return ``1 event`` or ``7 events``."""
    return f"{n:,} event" if n == 1 else f"{n:,} events"
