"""The begin of a long JSON text with its long values left out.

Readers judge a file by its first 64 KiB. Where one object before the first event is
longer than that, those bytes do not show what the file is; its outline does.
"""

from collections.abc import Callable

from ggscope.model.tables import U8
from ggscope.readers.api import HEAD_BYTES
from ggscope.readers.common.packed_text import TextBlocks, TraceText, text_of
from ggscope.readers.common.text_cursor import TextCursor
from ggscope.readers.source import Source

_TEXT_BYTES = 64 << 20
"""So much of the text is looked at."""
_SHARES = (HEAD_BYTES, 16 << 10, 8 << 10, 4 << 10)
"""So much is taken of the outer value, of one in it, and so on."""
_PLAIN_BYTES = 1 << 10
"""Values further in, texts and numbers are left out where they are longer."""
_OBJECT, _LIST, _TEXT = ord("{"), ord("["), ord('"')
_LEFT_OUT = {_OBJECT: b"{}", _LIST: b"[]", _TEXT: b'""'}


def outline(source: Source) -> bytes:
    """Return the outline of a JSON text, unpacked where it is packed; b"" of others.

    Some 64 KiB, cut within the outer value. Objects and lists keep their first
    elements.

    Raises
    ------
    ReadError
        If the file cannot be read.
    """
    with TextBlocks(_Begin(text_of(source))) as blocks:
        made = _Outline(TextCursor(blocks, lambda: None))
        made.take(0)
    return bytes(made.text)


class _Begin:
    """The begin of a text."""

    def __init__(self, text: TraceText) -> None:
        self._text, self._left = text, _TEXT_BYTES

    @property
    def packed_at(self) -> int:
        """How far in the file."""
        return self._text.packed_at

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer; see `TraceText`."""
        n = self._text.read_into(buffer[: self._left]) if self._left else 0
        self._left -= n
        return n

    def opener(self) -> Callable[[int, int], bytes]:
        """Return what reads anywhere."""
        return self._text.opener()


class _Outline:
    """Takes the outline of a text from a cursor."""

    def __init__(self, cursor: TextCursor) -> None:
        self._cursor = cursor
        self.text = bytearray()

    def take(self, depth: int) -> None:
        """Take the value here, within so many others."""
        cursor, byte = self._cursor, self._cursor.byte()
        if depth == 0 and byte not in (_OBJECT, _LIST):
            return
        if depth >= len(_SHARES) or byte not in (_OBJECT, _LIST):
            value = cursor.value(_PLAIN_BYTES)
            self.text += _LEFT_OUT.get(byte, b"0") if value is None else value
            return
        end = len(self.text) + _SHARES[depth]
        self.text.append(byte)
        is_first = True
        for key in cursor.members() if byte == _OBJECT else cursor.elements():
            if len(self.text) >= end:
                if depth == 0:
                    return
                cursor.leave()
                break
            self.text += b"" if is_first else b","
            is_first = False
            if key is not None:
                self.text += b'"' + key.encode("utf-8", "replace")[:_PLAIN_BYTES]
                self.text += b'":'
            self.take(depth + 1)
        if not cursor.is_cut:
            self.text += b"}" if byte == _OBJECT else b"]"
