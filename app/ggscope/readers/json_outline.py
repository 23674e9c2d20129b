"""What a JSON file is about, told from the keys at its beginning."""

from collections.abc import Iterator

from ggscope.readers.json_stream import JsonCursor
from ggscope.readers.json_text import JsonSyntaxError, JsonTooLargeError, MemoryText

BOM = b"\xef\xbb\xbf"


def outer_keys(data: bytes) -> frozenset[str]:
    """Return the keys of the object that a text begins with, as far as they are seen.

    Empty for anything but an object. `data` may be cut anywhere.
    """
    return frozenset(_keys(JsonCursor(MemoryText(data.removeprefix(BOM)))))


def first_element_keys(data: bytes, key: str) -> frozenset[str]:
    """Return the keys of the first object in the list that the root has under `key`.

    Empty where there is none within `data`.
    """
    text = data.removeprefix(BOM)
    cursor = JsonCursor(MemoryText(text))
    try:
        for found in cursor.members():
            if found != key:
                cursor.value()
                continue
            if cursor.peek() != b"[":
                break
            cursor.position += 1
            return frozenset(_keys(cursor))
    except (JsonSyntaxError, JsonTooLargeError, RecursionError):
        pass
    return frozenset()


def _keys(cursor: JsonCursor) -> Iterator[str]:
    if cursor.peek() != b"{":
        return
    try:
        for key in cursor.members():
            yield key
            cursor.value()
    except (JsonSyntaxError, JsonTooLargeError, RecursionError):
        return
