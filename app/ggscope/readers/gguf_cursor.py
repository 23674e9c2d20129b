"""A position in the head of a GGUF file that moves forward, bounds-checked.

Nothing is memory-mapped and no weight is read: windows of 1 MiB are enough, since
the head of even a large vocabulary is some 10 MB.
"""

import struct
from collections.abc import Callable

from ggscope.readers.source import Source

HEADER_BYTES = 256 << 20
"""No head is larger; where one claims to be, the walk ends (it takes 0.1 µs a
string, and a sparse file may hold strings without end)."""
MAX_STRINGS = 1 << 25
_WINDOW = 1 << 20


class HeaderFault(Exception):  # noqa: N818 - how a walk ends, not an error to show
    """The head cannot be read beyond `offset`.

    Parameters
    ----------
    what : what is wrong, as a part of a sentence.
    at_end : whether the file simply ends there.
    """

    def __init__(self, what: str, offset: int, *, at_end: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset
        self.at_end = at_end


class HeaderCursor:
    """Reads numbers and strings one after another.

    Parameters
    ----------
    source : the file.
    check_cancelled : called once per window.
    header_bytes : how far the walk may go.
    """

    def __init__(
        self,
        source: Source,
        check_cancelled: Callable[[], None],
        *,
        header_bytes: int = HEADER_BYTES,
    ) -> None:
        self.position = 0
        self.order = "<"
        self.is_v1 = False
        """Version 1 has 32-bit counts and lengths where later ones have 64."""
        self._source = source
        self._check_cancelled = check_cancelled
        self._limit = header_bytes
        self._window = b""
        self._start = 0

    @property
    def left(self) -> int:
        """Bytes of the file behind the position."""
        return self._source.size - self.position

    def take(self, n: int, what: str) -> bytes:
        """Return the next `n` bytes; `what` names them where they are missing."""
        at = self._at(n, what)
        self.position += n
        return self._window[at : at + n]

    def number(self, code: str, what: str) -> int | float | bool:
        """Return the next number of a `struct` code."""
        form = struct.Struct(self.order + code)
        at = self._at(form.size, what)
        self.position += form.size
        value: int | float | bool = form.unpack_from(self._window, at)[0]
        return value

    def u32(self, what: str) -> int:
        """Return the next uint32."""
        return int(self.number("I", what))

    def u64(self, what: str) -> int:
        """Return the next uint64."""
        return int(self.number("Q", what))

    def count(self, what: str) -> int:
        """Return the next count or length: 32 bits in version 1, else 64."""
        return int(self.number(self._count_code, what))

    def string(self, what: str, limit: int) -> bytes:
        """Return the next string with its length in front of it.

        Raises
        ------
        HeaderFault
            If it is longer than `limit` bytes or than the file.
        """
        start = self.position
        length = self.count(f"the length of {what}")
        if length > limit:
            raise HeaderFault(
                f"{what} claims to be {length:,} bytes long (at most {limit:,} make "
                "sense)",
                start,
            )
        return self.take(length, what)

    def skip(self, n: int, what: str) -> None:
        """Go on behind `n` bytes, which must be in the file."""
        if n > self.left:
            raise HeaderFault(
                f"the file ends in {what}, {n - self.left:,} bytes too early",
                self.position,
                at_end=True,
            )
        self._check_limit(self.position + n)
        self.position += n

    def skip_strings(self, n: int, what: str) -> None:
        """Go on behind `n` strings without making an object of any.

        Slow by necessity: where a string begins only the one before it tells.
        """
        form = struct.Struct(self.order + self._count_code)
        unpack, width = form.unpack_from, form.size
        if n > MAX_STRINGS:
            raise HeaderFault(
                f"{what} claims {n:,} strings, more than any model has", self.position
            )
        while n:
            at = self._at(width, what)
            window, end = self._window, len(self._window) - width
            while n and at <= end:
                at += width + unpack(window, at)[0]
                n -= 1
            beyond = self._start + at
            if beyond > self._source.size:
                raise HeaderFault(
                    f"a string of {what} runs {beyond - self._source.size:,} bytes "
                    "past the end of the file",
                    self.position,
                    at_end=True,
                )
            self._check_limit(beyond)
            self.position = beyond

    @property
    def _count_code(self) -> str:
        return "I" if self.is_v1 else "Q"

    def _at(self, n: int, what: str) -> int:
        """Return where in the window the next `n` bytes stand."""
        at = self.position - self._start
        if at < 0 or at + n > len(self._window):
            if n > self.left:
                raise HeaderFault(
                    f"the file ends in {what}", self._source.size, at_end=True
                )
            self._check_limit(self.position + n)
            self._check_cancelled()
            self._start = self.position
            want = min(max(n, _WINDOW), self.left)
            self._window = self._source.read(self.position, want)
            at = 0
        return at

    def _check_limit(self, position: int) -> None:
        if position > self._limit:
            raise HeaderFault(
                f"the head is larger than {self._limit:,} bytes, which no model's is",
                self.position,
            )


__all__ = ["HEADER_BYTES", "HeaderCursor", "HeaderFault"]
