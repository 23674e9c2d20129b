"""The head of a GGUF file: its metadata and its table of tensors.

Source: ``docs/gguf.md`` of ggml (MIT), versions 1 to 3, either byte order. What can
be read before a fault is kept, and each fault is told with its offset.
"""

from collections.abc import Callable

from ggscope.errors import CorruptError, TruncatedError, UnsupportedVersionError
from ggscope.model.trace import Severity
from ggscope.readers.gguf_cursor import HEADER_BYTES, HeaderCursor, HeaderFault
from ggscope.readers.gguf_data import (
    DEFAULT_ALIGNMENT,
    GgufField,
    GgufHeader,
    GgufTensor,
)
from ggscope.readers.model_rows import MAX_ROWS, N_DIMS
from ggscope.readers.source import Source

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
_MAX_NESTED = 1 << 16
_MIN_KEY_BYTES = 8 + 1 + 4 + 1
_MIN_TENSOR_BYTES = 8 + 1 + 4 + 4 + 8
_ODD_VERSION = 99


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
                "this is not a GGUF file: it does not begin with GGUF.", offset=0
            )
        raw = cursor.take(4, "the version")
        little, big = (int.from_bytes(raw, o) for o in ("little", "big"))
        # As the gguf package tells it: a small number has its zeros at one end.
        header.is_big_endian = little & 0xFFFF == 0 and big != 0
        header.version = big if header.is_big_endian else little
        cursor.order = ">" if header.is_big_endian else "<"
        if not 1 <= header.version <= _ODD_VERSION:
            raise UnsupportedVersionError(
                f"GGUF version {header.version} is unknown (1 to 3 are known).",
                offset=4,
                hint="Is the file damaged?",
            )
        if header.version not in VERSIONS:
            header.warn(
                Severity.NOTICE,
                "gguf_new_version",
                f"GGUF version {header.version} is newer than 3; it was read as "
                "version 3.",
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
            found = self._value(self._cursor.u32(f"the type of {key}"), key, start)
            if key in header.fields:
                header.warn(
                    Severity.NOTICE,
                    "gguf_repeated_key",
                    f"The key {key} occurs again; its first value counts.",
                    start,
                )
            else:
                header.fields[key] = found

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
                    else f"tensor {i} claims {n_dims:,} dimensions (ggml knows "
                    f"{N_DIMS})",
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
                f"The head counts {header.n_fields:,} keys and {header.n_tensors:,} "
                f"tensors, which take at least {need:,} bytes; {cursor.left:,} bytes "
                "follow. What is there was read.",
                8,
                remedy="The file is damaged or cut; fetch it again.",
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
            kept = tuple(v for v in items if v is not None and not isinstance(v, tuple))
            return GgufField(kept if len(kept) == n else None, n, True, start)
        if kind in _WIDTHS:
            cursor.skip(n * _WIDTHS[kind], f"the array {key}")
        elif kind == _STRING:
            cursor.skip_strings(n, key)
        elif kind == _ARRAY:
            self._n_nested += n
            if depth or self._n_nested > _MAX_NESTED:
                raise HeaderFault(f"{key} holds too many arrays of arrays", start)
            for _ in range(n):
                self._array(key, start, depth + 1)
        else:
            raise HeaderFault(f"{key} has elements of the unknown type {kind}", start)
        return GgufField(None, n, True, start)

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
                "A name or text is not UTF-8; what cannot be read shows as �.",
                self._odd_text_at,
                count=self._odd_text,
            )


def _failure(fault: HeaderFault) -> CorruptError | TruncatedError:
    kind = TruncatedError if fault.at_end else CorruptError
    return kind(
        f"the head of this GGUF file cannot be read: {fault.what}.",
        offset=fault.offset,
        hint="Fetch the file again.",
    )


def _note_fault(header: GgufHeader, fault: HeaderFault) -> None:
    n_fields, n_tensors = len(header.fields), len(header.tensors)
    in_fields = not header.tensors and n_fields < header.n_fields
    place = f"key {n_fields}" if in_fields else f"tensor {n_tensors}"
    kept = (
        f"{n_fields:,} of {header.n_fields:,} keys and {n_tensors:,} of "
        f"{header.n_tensors:,} tensors were kept"
    )
    header.warn(
        Severity.DATA_LOSS,
        "gguf_cut_header" if fault.at_end else "gguf_broken_header",
        f"The head cannot be read to its end: {fault.what}. {kept}"
        ". Where the data section begins is not known, so no tensor has a file "
        "offset.",
        fault.offset,
        place=place,
        remedy="Fetch the file again, or open a memory map beside the trace.",
    )


def _set_alignment(header: GgufHeader) -> None:
    """Take the alignment that the file states, if it makes sense."""
    if ALIGNMENT_KEY not in header.fields:
        return
    found = header.fields[ALIGNMENT_KEY]
    stated = header.integer(ALIGNMENT_KEY)
    if stated <= 0 or stated > 1 << 30:
        header.warn(
            Severity.NOTICE,
            "gguf_alignment",
            f"general.alignment is {found.value}; {DEFAULT_ALIGNMENT} was taken "
            "instead.",
            found.offset,
        )
        return
    header.alignment = stated
    if stated & (stated - 1):
        header.warn(
            Severity.NOTICE,
            "gguf_alignment",
            f"general.alignment is {stated}, which is no power of two; llama.cpp "
            "refuses such files.",
            found.offset,
        )


__all__ = ["HEAD_BYTES", "MAGIC", "VERSIONS", "read_header"]
