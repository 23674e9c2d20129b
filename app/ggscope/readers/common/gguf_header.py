"""The head of a GGUF file: its metadata and its table of tensors.

Source: ``docs/gguf.md`` of ggml (MIT), versions 1 to 3, either byte order. What can
be read before a fault is kept, and each fault is reported with its offset.

Nothing is memory-mapped and no weight is read: windows of 1 MiB are enough, since
the head of even a large vocabulary is some 10 MB.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ggscope.errors import CorruptError, TruncatedError, UnsupportedVersionError
from ggscope.model.trace import ReadWarning, Severity
from ggscope.readers.common.tensor_rows import MAX_ROWS, N_DIMS
from ggscope.readers.source import Source

HEADER_BYTES = 256 << 20
"""No head is larger; where one claims to be, the walk ends (it takes 0.1 µs a
string, and a sparse file may hold strings without end)."""
MAX_STRINGS = 1 << 25
_WINDOW = 1 << 20
DEFAULT_ALIGNMENT = 32
Scalar: TypeAlias = int | float | bool | str
MAGIC = b"GGUF"
VERSIONS = (1, 2, 3)
ALIGNMENT_KEY = "general.alignment"
HEAD_BYTES = 24
"""Magic, version and two counts (16 bytes in version 1)."""

_STRING, _ARRAY = 8, 9
_CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
_CODES |= {10: "Q", 11: "q", 12: "d"}
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MAX_KEYS = 1 << 16
_KEY_BYTES = (1 << 16) - 1
_NAME_BYTES = 4096
_TEXT_BYTES = 1 << 16
_SHORT_ARRAY = 64
_N_HEAD = 8
"""Elements that are kept of longer ones."""
_MAX_NESTED = 1 << 16
_MIN_KEY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8
_ODD_VERSION = 99


IS_IMATRIX = re.compile(rb"general\.type\x08\0\0\0\x07\0\0\0\0\0\0\0imatrix")
"""What the head of an importance matrix has: key, type and value of what it is."""


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
                f"{what} has an implausible length of {length:,} bytes "
                f"(maximum {limit:,})",
                start,
            )
        return self.take(length, what)

    def skip(self, n: int, what: str) -> None:
        """Go on behind `n` bytes, which must be in the file."""
        if n > self.left:
            raise HeaderFault(
                f"the file ends inside {what}, {n - self.left:,} bytes too early",
                self.position,
                at_end=True,
            )
        self._check_limit(self.position + n)
        self.position += n

    def skip_strings(self, n: int, what: str) -> None:
        """Go on behind `n` strings without making an object of any.

        Slow by necessity: only the string before it shows where one begins.
        """
        form = struct.Struct(self.order + self._count_code)
        unpack, width = form.unpack_from, form.size
        self.check_strings(n, what)
        while n:
            at = self._at(width, what)
            window, end = self._window, len(self._window) - width
            while n and at <= end:
                at += width + unpack(window, at)[0]
                n -= 1
            beyond = self._start + at
            if beyond > self._source.size:
                raise HeaderFault(
                    f"a string of {what} extends "
                    f"{beyond - self._source.size:,} bytes beyond the end of "
                    "the file",
                    self.position,
                    at_end=True,
                )
            self._check_limit(beyond)
            self.position = beyond

    def check_strings(self, n: int, what: str) -> None:
        """Raise HeaderFault where no vocabulary has so many strings."""
        if n > MAX_STRINGS:
            raise HeaderFault(
                f"{what} has an implausible count of {n:,} strings", self.position
            )

    @property
    def _count_code(self) -> str:
        return "I" if self.is_v1 else "Q"

    def _at(self, n: int, what: str) -> int:
        """Return where in the window the next `n` bytes stand."""
        at = self.position - self._start
        if at < 0 or at + n > len(self._window):
            if n > self.left:
                raise HeaderFault(
                    f"the file ends inside {what}", self._source.size, at_end=True
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
                f"the header is larger than {self._limit:,} bytes",
                self.position,
            )


@dataclass(frozen=True, slots=True)
class GgufField:
    """One piece of metadata.

    Attributes
    ----------
    value : a number, a text or a tuple of them; None where it is too long to keep.
    length : of an array its elements, of a text its bytes; -1 for numbers.
    is_array : whether it is an array.
    offset : where its key begins.
    head : of an array that is too long to keep, the first elements.
    """

    value: Scalar | tuple[Scalar, ...] | None
    length: int
    is_array: bool
    offset: int
    head: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One row of the table of tensors.

    Attributes
    ----------
    shape : ne0 … as stated, at most four.
    type : number of the ggml type as stored.
    offset : from the start of the data section, as stored.
    at : where the row begins in the file.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    offset: int
    at: int


@dataclass(slots=True)
class GgufHeader:
    """What the head of one file says.

    Attributes
    ----------
    n_tensors, n_fields : as the head counts them.
    fields : by key, in the order of the file.
    end : offset behind the table of tensors; -1 where it was not reached.
    data_offset : where the data section begins; -1 unknown.
    warnings : what is wrong with it.
    """

    version: int = 0
    is_big_endian: bool = False
    n_tensors: int = 0
    n_fields: int = 0
    fields: dict[str, GgufField] = field(default_factory=dict)
    tensors: list[GgufTensor] = field(default_factory=list)
    alignment: int = DEFAULT_ALIGNMENT
    end: int = -1
    data_offset: int = -1
    warnings: list[ReadWarning] = field(default_factory=list)

    def integer(self, key: str) -> int:
        """Return the integer under `key`; -1 where there is none."""
        entry = self.fields.get(key)
        value = None if entry is None else entry.value
        return value if type(value) is int else -1

    def text(self, key: str) -> str:
        """Return the text under `key`; "" where there is none."""
        entry = self.fields.get(key)
        value = None if entry is None else entry.value
        return value if isinstance(value, str) else ""

    def warn(
        self,
        severity: Severity,
        code: str,
        message: str,
        offset: int | None = None,
        *,
        count: int = 1,
        place: str = "",
        remedy: str = "",
    ) -> None:
        """Note a problem."""
        self.warnings.append(
            ReadWarning(severity, code, message, count, offset, place, remedy)
        )


def read_header(
    source: Source,
    check_cancelled: Callable[[], None] = lambda: None,
    *,
    header_bytes: int = HEADER_BYTES,
) -> GgufHeader:
    """Return the head of a GGUF file, as far as it can be read.

    Raises
    ------
    CorruptError, TruncatedError, UnsupportedVersionError
        If not a single key or tensor can be read of a file that should have some.
    """
    cursor = HeaderCursor(source, check_cancelled, header_bytes=header_bytes)
    header = GgufHeader()
    walk = _Walk(cursor, header)
    try:
        walk.begin()
        walk.fields()
        walk.tensors()
    except HeaderFault as fault:
        if not header.fields and not header.tensors:
            raise _failure(fault) from None
        _note_fault(header, fault)
    walk.note_text()
    _set_alignment(header)
    if header.end >= 0:
        padding = -header.end % header.alignment
        header.data_offset = header.end + padding
    return header


class _Walk:
    """One pass over a head; what it finds goes into `header` as it comes."""

    def __init__(self, cursor: HeaderCursor, header: GgufHeader) -> None:
        self._cursor = cursor
        self._header = header
        self._odd_text = 0
        self._odd_text_at = 0
        self._n_nested = 0

    def begin(self) -> None:
        """Read magic, version and counts."""
        cursor, header = self._cursor, self._header
        if cursor.take(4, "the magic number") != MAGIC:
            raise CorruptError(
                "not a GGUF file: it does not begin with GGUF.", offset=0
            )
        raw = cursor.take(4, "the version")
        little, big = (int.from_bytes(raw, o) for o in ("little", "big"))
        # As the gguf package decides it: a small number has its zeros at one end.
        header.is_big_endian = little & 0xFFFF == 0 and big != 0
        header.version = big if header.is_big_endian else little
        cursor.order = ">" if header.is_big_endian else "<"
        if not 1 <= header.version <= _ODD_VERSION:
            raise UnsupportedVersionError(
                f"unsupported GGUF version {header.version} (supported: 1 to 3).",
                offset=4,
                hint="Is the file damaged?",
            )
        if header.version not in VERSIONS:
            header.warn(
                Severity.NOTICE,
                "gguf_new_version",
                f"GGUF version {header.version} is newer than 3; read as "
                "version 3, so the result may be wrong",
                4,
            )
        cursor.is_v1 = header.version == 1
        header.n_tensors = cursor.count("the number of tensors")
        header.n_fields = cursor.count("the number of keys")
        self._check_counts()

    def fields(self) -> None:
        """Read the metadata."""
        header = self._header
        for i in range(header.n_fields):
            start = self._cursor.position
            if i >= _MAX_KEYS:
                raise HeaderFault(f"there are more than {_MAX_KEYS:,} keys", start)
            key = self._text(f"key {i}", _KEY_BYTES)
            if not key:
                raise HeaderFault(f"key {i} has no name", start)
            entry = self._value(self._cursor.u32(f"the type of {key}"), key, start)
            if key in header.fields:
                header.warn(
                    Severity.NOTICE,
                    "gguf_repeated_key",
                    f"Duplicate key {key}; the first value counts.",
                    start,
                )
            else:
                header.fields[key] = entry

    def tensors(self) -> None:
        """Read the table of tensors."""
        cursor, header = self._cursor, self._header
        for i in range(header.n_tensors):
            start = cursor.position
            if i >= MAX_ROWS:
                raise HeaderFault(f"there are more than {MAX_ROWS:,} tensors", start)
            name = self._text(f"the name of tensor {i}", _NAME_BYTES)
            n_dims = cursor.u32(f"the dimensions of {name or f'tensor {i}'}")
            if not name or n_dims > N_DIMS:
                raise HeaderFault(
                    f"tensor {i} has no name"
                    if not name
                    else f"tensor {i} has {n_dims:,} dimensions (maximum {N_DIMS})",
                    start,
                )
            shape = tuple(cursor.count(f"the shape of {name}") for _ in range(n_dims))
            kind = cursor.u32(f"the type of {name}")
            offset = cursor.u64(f"the offset of {name}")
            header.tensors.append(GgufTensor(name, shape, kind, offset, start))
        header.end = cursor.position

    def _check_counts(self) -> None:
        header, cursor = self._header, self._cursor
        need = header.n_fields * _MIN_KEY_BYTES + header.n_tensors * _MIN_TENSOR_BYTES
        if header.version != 1 and need > cursor.left:
            header.warn(
                Severity.DATA_LOSS,
                "gguf_counts",
                f"The header lists {header.n_fields:,} keys and "
                f"{header.n_tensors:,} tensors, which need at least {need:,} "
                f"bytes, but only {cursor.left:,} bytes follow. These were "
                "read.",
                8,
                remedy="The file is damaged or truncated; download it again.",
            )

    def _value(self, kind: int, key: str, start: int) -> GgufField:
        cursor = self._cursor
        if kind in _CODES:
            return GgufField(cursor.number(_CODES[kind], key), -1, False, start)
        if kind == _STRING:
            length = cursor.count(f"the length of {key}")
            if length > _TEXT_BYTES:
                cursor.skip(length, f"the text of {key}")
                return GgufField(None, length, False, start)
            raw = cursor.take(length, f"the text of {key}")
            return GgufField(self._decoded(raw, start), length, False, start)
        if kind == _ARRAY:
            return self._array(key, start, 0)
        raise HeaderFault(f"{key} has the unknown value type {kind}", start)

    def _array(self, key: str, start: int, depth: int) -> GgufField:
        cursor = self._cursor
        kind = cursor.u32(f"the type of {key}")
        n = cursor.count(f"the length of {key}")
        if n <= _SHORT_ARRAY and (kind in _CODES or kind == _STRING):
            items = [self._value(kind, key, start).value for _ in range(n)]
            listed = tuple(
                v for v in items if v is not None and not isinstance(v, tuple)
            )
            return GgufField(listed if len(listed) == n else None, n, True, start)
        head: tuple[Scalar, ...] = ()
        if kind == _STRING:
            cursor.check_strings(n, key)
        if kind in _CODES or kind == _STRING:
            first = [self._value(kind, key, start).value for _ in range(_N_HEAD)]
            head = tuple(v for v in first if v is not None and not isinstance(v, tuple))
        if kind in _WIDTHS:
            cursor.skip((n - _N_HEAD) * _WIDTHS[kind], f"the array {key}")
        elif kind == _STRING:
            cursor.skip_strings(n - _N_HEAD, key)
        elif kind == _ARRAY:
            self._n_nested += n
            if depth or self._n_nested > _MAX_NESTED:
                raise HeaderFault(f"{key} has too many nested arrays", start)
            for _ in range(n):
                self._array(key, start, depth + 1)
        else:
            raise HeaderFault(f"{key} has elements of the unknown type {kind}", start)
        return GgufField(None, n, True, start, head)

    def _text(self, what: str, limit: int) -> str:
        start = self._cursor.position
        return self._decoded(self._cursor.string(what, limit), start)

    def _decoded(self, raw: bytes, start: int) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self._odd_text_at = self._odd_text_at if self._odd_text else start
            self._odd_text += 1
            return raw.decode("utf-8", "replace")

    def note_text(self) -> None:
        """Note names and texts that are no UTF-8, if there were any."""
        if self._odd_text:
            self._header.warn(
                Severity.NOTICE,
                "gguf_bad_text",
                "A name or text is not valid UTF-8; invalid bytes are shown as �.",
                self._odd_text_at,
                count=self._odd_text,
            )


def _failure(fault: HeaderFault) -> CorruptError | TruncatedError:
    kind = TruncatedError if fault.at_end else CorruptError
    return kind(
        f"cannot read the GGUF header: {fault.what}.",
        offset=fault.offset,
        hint="Download the file again.",
    )


def _note_fault(header: GgufHeader, fault: HeaderFault) -> None:
    n_fields, n_tensors = len(header.fields), len(header.tensors)
    in_fields = not header.tensors and n_fields < header.n_fields
    place = f"key {n_fields}" if in_fields else f"tensor {n_tensors}"
    loaded = (
        f"{n_fields:,} of {header.n_fields:,} keys and {n_tensors:,} of "
        f"{header.n_tensors:,} tensors were read"
    )
    header.warn(
        Severity.DATA_LOSS,
        "gguf_cut_header" if fault.at_end else "gguf_broken_header",
        f"Incomplete header: {fault.what}. {loaded}. The start of the data "
        "section is unknown, so tensors have no file offsets.",
        fault.offset,
        place=place,
        remedy="Download the file again, or open a memory map with the trace.",
    )


def _set_alignment(header: GgufHeader) -> None:
    """Take the alignment that the file states, if it makes sense."""
    if ALIGNMENT_KEY not in header.fields:
        return
    entry = header.fields[ALIGNMENT_KEY]
    stated = header.integer(ALIGNMENT_KEY)
    if stated <= 0 or stated > 1 << 30:
        header.warn(
            Severity.NOTICE,
            "gguf_alignment",
            f"invalid general.alignment {entry.value}; using {DEFAULT_ALIGNMENT}.",
            entry.offset,
        )
        return
    header.alignment = stated
    if stated & (stated - 1):
        header.warn(
            Severity.NOTICE,
            "gguf_alignment",
            f"general.alignment {stated} is not a power of two; llama.cpp "
            "rejects such files.",
            entry.offset,
        )
