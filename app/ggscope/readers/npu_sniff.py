"""Is it an NPU trace, and in which of its two forms? Judged by the first 64 KiB."""

import re
from dataclasses import dataclass

from ggscope.readers.api import NOT_MINE, Head, Sniff
from ggscope.readers.json_stream import JsonCursor
from ggscope.readers.json_text import (
    JsonSyntaxError,
    JsonTooLargeError,
    MemoryText,
    without_paste,
)
from ggscope.readers.npu_header import HEADER_KEYS

BOM = b"\xef\xbb\xbf"
_TYPES = (
    rb"(?:(?:ENGINE|MEM_ACCESS|TOKEN|MARKER|CMD|STALL|BUS|ERROR)_EVENT|POWER_ESTIMATE)"
)
KNOWN_TYPE = re.compile(rb'"type"\s*:\s*"' + _TYPES + rb'"')
_EVENT_LINE = re.compile(
    rb'^[ \t]*\{.*"type"[ \t]*:[ \t]*"' + _TYPES + rb'".*\}[ \t\r]*$', re.MULTILINE
)
_OWN_KEYS = HEADER_KEYS - {"version"}


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
        return Sniff(50, "NPU events in a JSON array; the format wants an object")
    if _EVENT_LINE.search(data):
        return Sniff(50, "some lines are NPU timeline events")
    return NOT_MINE


def has_comments(data: bytes) -> bool:
    """Tell whether a text begins with something, or holds comments, that pasting adds.

    Slashes within strings, as of web addresses, are no comments; what stands behind the
    last quotation mark is not looked at, as it may be half a string.
    """
    data = data.removeprefix(BOM)
    data = data[: data.rfind(b'"') + 1]
    if data.lstrip().startswith((b"{", b"[")) and not (b"//" in data or b"/*" in data):
        return False
    return without_paste(data) != data


def is_lines(data: bytes) -> bool:
    """Tell whether a text that begins with `data` has one event per line."""
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
