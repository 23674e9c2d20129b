"""The text of a trace file, plain or packed, from its begin to its end."""

import io
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Self

import numpy as np

from ggscope.errors import LimitExceededError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import U8
from ggscope.model.trace import Severity
from ggscope.readers.api import GZIP, ZSTD, Estimate, Head
from ggscope.readers.source import Source, read_at

HEAD_BYTES = 256 << 10
BLOCK_BYTES = 4 << 20
LONGEST = 64 << 20
"""Of what is looked at in one piece, an event or a row."""
MAX_RATIO, FREE_BYTES = 400, 64 << 20
"""A file may unpack to so many times its size, or to so much in any case. JSON of
traces packs 8 to 50 times."""
_RATIO_BYTES = 16 << 20
"""Of text at most, unpacked for an estimate of how much the whole file holds."""
_PACKED_BYTES = 256 << 10
_BLOCKS_BYTES = 48 << 20
"""Memory of the blocks that are read at a time."""
_MARK_BYTES = 16 << 20
"""So much text lies between two places at which unpacking can begin."""


class PackedError(Exception):
    """Why unpacking ended before the end; the text says it to people."""


TOO_MUCH = f"it unpacks to more than {MAX_RATIO} times its size, as no trace does"


def remedy_of_packing(ended: str) -> str:
    """Return what to do where unpacking ended too soon, for this reason."""
    if ended == TOO_MUCH:
        return "If you trust its source, unpack it (gzip -d, zstd -d) and open that."
    return "Copy or record the file again."


def warn_of_packing(builder: TraceBuilder, ended: str, read: str) -> None:
    """Say why unpacking ended too soon, and what was read before, "7 events"."""
    builder.warn(
        Severity.DATA_LOSS,
        "packed_cut",
        f"{ended}; what stands before that is shown: {read}.",
        remedy=remedy_of_packing(ended),
    )


class TraceText(Protocol):
    """A text that is read from its begin to its end."""

    @property
    def packed_at(self) -> int:
        """How far in the file, for progress."""
        ...

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer with what follows; fewer bytes only at the end.

        Raises
        ------
        ReadError
            If the file cannot be read.
        PackedError
            If what is packed is damaged or too large.
        """
        ...

    def opener(self) -> "Callable[[int, int], bytes]":
        """Return what reads (offset, length) of the text at any later time."""
        ...


def text_of(source: Source) -> TraceText:
    """Return the text of a file, unpacked where it is packed."""
    head = source.head(4)
    if head.startswith(GZIP):
        return _GzipText(source)
    if head == ZSTD:
        return _ZstdText(source)
    return _PlainText(source)


def unpacked_head(data: bytes, limit: int = HEAD_BYTES) -> bytes | None:
    """Return the begin of the text in a file's first bytes; None = cannot be unpacked.

    Damage ends it.
    """
    if data.startswith(GZIP):
        try:
            return zlib.decompressobj(31).decompress(data, limit)
        except zlib.error:
            return None
    if data.startswith(ZSTD):
        opened = zstd_reader()
        if opened is None:
            return None
        try:
            return bytes(opened(io.BytesIO(data)).read(limit))
        except Exception:  # noqa: BLE001 - two packages, with errors of their own
            return _small_reads(opened, data, limit)
    return data


def whole_text(
    text: TraceText, max_bytes: int, check: Callable[[], None]
) -> tuple[bytes, str]:
    """Return a text up to so many bytes, and why unpacking ended too soon, "" not.

    Parameters
    ----------
    check : called for each part; may raise to end it.
    """
    parts, left = list[bytes](), max_bytes
    try:
        while left > 0:
            check()
            buffer = np.empty(min(left, 1 << 20), np.uint8)
            n = text.read_into(buffer)
            if not n:
                break
            parts.append(buffer[:n].tobytes())
            left -= n
    except PackedError as error:
        return b"".join(parts), str(error)
    return b"".join(parts), ""


def packed_estimate(
    head: Head, text: bytes, n: int, final_bytes: int, row_bytes: int
) -> Estimate:
    """Return what reading a file would cost, by the density of its first records.

    Parameters
    ----------
    text : what `unpacked_head` gives of the file's first bytes; not empty.
    n : records in it.
    final_bytes, row_bytes : memory of a record in the end, and while it is read.
    """
    n_records = int(n * estimated_text_bytes(head) / len(text))
    return Estimate(
        n_records, final_bytes * n_records, row_bytes * n_records + _BLOCKS_BYTES
    )


def estimated_text_bytes(head: Head) -> int:
    """Return the bytes of a file's text, by how much its first bytes unpack to."""
    data = head.data
    if data.startswith(GZIP):
        engine = zlib.decompressobj(31)
        try:
            n_text = len(engine.decompress(data, _RATIO_BYTES))
        except zlib.error:
            return head.size
        n_packed = len(data) - len(engine.unconsumed_tail) - len(engine.unused_data)
    elif data.startswith(ZSTD):
        # How much of them its packages have read is not stated.
        n_text, n_packed = len(unpacked_head(data, _RATIO_BYTES) or b""), len(data)
    else:
        return head.size
    return max(head.size * n_text // max(n_packed, 1), head.size)


def _small_reads(opened: Callable[[Any], Any], data: bytes, limit: int) -> bytes:
    """Return what can be unpacked of a cut frame, piece by piece."""
    parts, n = [], 0
    try:
        stream = opened(io.BytesIO(data))
        while n < limit and (part := stream.read(4096)):
            parts.append(part)
            n += len(part)
    except Exception:  # noqa: BLE001 - see above
        pass
    return b"".join(parts)


def zstd_reader() -> Callable[[Any], Any] | None:
    """Return what opens a stream packed by zstd; None where nothing can do that."""
    try:  # Python 3.14
        from compression.zstd import ZstdFile  # type: ignore[import-not-found]

        return lambda file: ZstdFile(file)
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found]
    except ImportError:
        return None
    return lambda file: zstandard.ZstdDecompressor(
        max_window_size=1 << 27
    ).stream_reader(file, read_across_frames=True)


class HeadText:
    """Some bytes as a text."""

    def __init__(self, data: bytes) -> None:
        self._data, self.packed_at = data, 0

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer."""
        part = self._data[self.packed_at : self.packed_at + len(buffer)]
        buffer[: len(part)] = np.frombuffer(part, np.uint8)
        self.packed_at += len(part)
        return len(part)

    def opener(self) -> Callable[[int, int], bytes]:
        """Return what reads anywhere."""
        return lambda offset, length: self._data[offset : offset + length]


class TextBlocks:
    """The text in blocks; what a scan leaves goes in front of the next one.

    Attributes
    ----------
    data : the bytes that are there.
    offset : of the first one in the text.
    is_last : whether nothing follows.
    ended : why unpacking ended too soon; "" = it did not.
    """

    def __init__(self, text: TraceText, block: int = BLOCK_BYTES) -> None:
        self._text, self._block = text, block
        self._pool = ThreadPoolExecutor(1)
        self.ended = ""
        self.data: U8 = np.zeros(0, np.uint8)
        self.offset = 0
        self.is_last = False
        self._next: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def first(self, length: int) -> U8:
        """Read the first block."""
        self.data = self._read(length)
        self._ask()
        return self.data

    def extend(self, at: int) -> bool:
        """Drop what stands before `at`, and add the next block; False at the end."""
        if self.is_last:
            return False
        more = self._next.result()
        self._ask()
        rest = self.data[at:]
        self.offset += at
        if not len(more):
            self.is_last = True
            self.data = rest
            return False
        self.data = np.concatenate([rest, more]) if len(rest) else more
        return True

    def _ask(self) -> None:
        # A long event doubles what is read, or each try would begin from its start.
        length = max(self._block, len(self.data) if len(self.data) > self._block else 0)
        self._next = self._pool.submit(self._read, min(length, LONGEST))

    def _read(self, length: int) -> U8:
        if self.ended:
            return np.zeros(0, np.uint8)
        block = np.empty(length, np.uint8)
        done = 0
        try:
            while done < length:
                n = self._text.read_into(block[done:])
                if not n:
                    break
                done += n
        except PackedError as error:
            self.ended = str(error)
        return block[:done]


def check_memory() -> None:
    """Raise LimitExceededError where memory is used up."""
    from ggscope.readers.memory import available_bytes

    if available_bytes() <= 0:
        raise LimitExceededError(
            "not enough memory for its events.",
            hint="Close other programs, or record a shorter run.",
        )


class _PlainText:
    """A file that is not packed."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.packed_at = 0

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer; see `TraceText`."""
        n = self._source.read_into(self.packed_at, buffer)
        self.packed_at += n
        return n

    def opener(self) -> Callable[[int, int], bytes]:
        """Return what reads anywhere."""
        path = self._source.path
        return lambda offset, length: read_at(path, offset, length)


class _Bound:
    """Watches how much a file unpacks to."""

    def __init__(self) -> None:
        self.text_bytes = 0

    def add(self, n: int, packed: int) -> None:
        """Count bytes. Raises PackedError where they are too many."""
        self.text_bytes += n
        if self.text_bytes > max(FREE_BYTES, MAX_RATIO * packed):
            raise PackedError(TOO_MUCH)


class _GzipText:
    """A file packed by gzip; remembers places at which unpacking can begin again."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.packed_at = 0
        self._engine: Any = zlib.decompressobj(31)
        self._waiting = b""
        self._bound = _Bound()
        self._marks: list[tuple[int, int, Any]] = [(0, 0, self._engine.copy())]

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer; see `TraceText`."""
        return _filled(buffer, self._next)

    def _next(self, limit: int) -> bytes:
        """Return the next bytes of the text; b"" at its end."""
        while True:
            if self._engine.eof:
                # Members may follow one another; zeros behind the last one are none.
                rest = self._engine.unused_data.lstrip(b"\0") or self._packed()
                if not rest.startswith(GZIP):
                    return b""
                self._engine, self._waiting = zlib.decompressobj(31), rest
            if not self._waiting:
                self._mark()
                self._waiting = self._packed()
                if not self._waiting:
                    raise PackedError("the packed file is cut")
            try:
                part = self._engine.decompress(self._waiting, limit)
            except zlib.error as error:
                raise PackedError(f"the packed file is damaged ({error})") from None
            self._waiting = self._engine.unconsumed_tail
            if part:
                self._bound.add(len(part), self.packed_at)
                return bytes(part)

    def _packed(self) -> bytes:
        length = min(_PACKED_BYTES, self._source.size - self.packed_at)
        data = (
            self._source.array(self.packed_at, length).tobytes() if length > 0 else b""
        )
        self.packed_at += len(data)
        return data

    def _mark(self) -> None:
        """Remember this place, where all that was read is unpacked."""
        if self._bound.text_bytes - self._marks[-1][0] >= _MARK_BYTES:
            mark = self._bound.text_bytes, self.packed_at, self._engine.copy()
            self._marks.append(mark)

    def opener(self) -> Callable[[int, int], bytes]:
        """Return what reads anywhere, from the mark before it."""
        path, marks = self._source.path, tuple(self._marks)

        def read(offset: int, length: int) -> bytes:
            place = max(i for i, mark in enumerate(marks) if mark[0] <= offset)
            text_at, packed_at, engine = marks[place]
            with Source(path) as source:
                again = _GzipText(source)
                again.packed_at, again._engine = packed_at, engine.copy()
                again._bound.text_bytes = text_at
                return _read_behind(again, offset - text_at, length)

        return read


class _ZstdText:
    """A file packed by zstd."""

    def __init__(self, source: Source) -> None:
        opened = zstd_reader()
        if opened is None:
            raise ReadError(
                "the file is compressed by zstd; no installed library decompresses it.",
                hint="Decompress it with zstd -d, or install the package zstandard.",
            )
        self._source = source
        self._file = _SourceFile(source)
        self._stream = opened(self._file)
        self._bound = _Bound()

    @property
    def packed_at(self) -> int:
        """How far in the file."""
        return self._file.at

    def read_into(self, buffer: U8) -> int:
        """Fill a buffer; see `TraceText`."""
        return _filled(buffer, self._next)

    def _next(self, limit: int) -> bytes:
        try:
            part = bytes(self._stream.read(min(limit, 1 << 20)))
        except ReadError:
            raise
        except Exception as error:  # noqa: BLE001 - of two packages
            raise PackedError(f"the packed file is damaged ({error})") from None
        self._bound.add(len(part), self.packed_at)
        return part

    def opener(self) -> Callable[[int, int], bytes]:
        """Return what reads anywhere, from the begin."""
        path = self._source.path

        def read(offset: int, length: int) -> bytes:
            with Source(path) as source:
                return _read_behind(_ZstdText(source), offset, length)

        return read


class _SourceFile(io.RawIOBase):
    """A source as a file object."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what follows."""
        n = self._source.read_into(self.at, np.frombuffer(buffer, np.uint8))
        self.at += n
        return n


def _filled(buffer: U8, following: Callable[[int], bytes]) -> int:
    """Fill a buffer with parts of at most so many bytes; return how many came.

    Damage behind some bytes is met again by who reads on.
    """
    done = 0
    view = buffer.data
    while done < len(view):
        try:
            part = following(len(view) - done)
        except PackedError:
            if done:
                break
            raise
        if not part:
            break
        view[done : done + len(part)] = part
        done += len(part)
    return done


def _read_behind(text: TraceText, skip: int, length: int) -> bytes:
    """Return bytes of a text behind the first `skip`; fewer where it ends or breaks."""
    buffer = np.empty(1 << 20, np.uint8)
    try:
        while skip > 0:
            n = text.read_into(buffer[: min(skip, len(buffer))])
            if not n:
                return b""
            skip -= n
        part = np.empty(length, np.uint8)
        return part[: text.read_into(part)].tobytes()
    except PackedError as error:
        raise ReadError(f"{error}.", path=None) from None
