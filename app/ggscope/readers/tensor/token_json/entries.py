"""Entries of a token trace: what is taken from each, and from damaged ones.

An inference run does the same accesses once per token, and the exporter prints them
in the same words. So the text of an entry's sources is looked up before it is
decoded: most entries cost one look into a dictionary.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import msgspec

from ggscope.errors import LimitExceededError
from ggscope.readers.common.json_text import TolerantDecoder
from ggscope.readers.memory import Allowance
from ggscope.readers.tensor.layouts import MAX_TIMESTAMP, NO_LAYER

MAX_PATTERNS = 1 << 20
"""More different entries than that are no trace of a model."""

DISK, BUFFER, ELSEWHERE = 0, 1, 2
"""Where a source lies, as the binary records number it."""

_SPACES = {"DISK": DISK, "BUFFER": BUFFER}
_MAX_SOURCES = 64
_U64_STOP = 1 << 64

_ACCESS_BYTES = 400
_PATTERN_SHARE = 3
"""A pattern takes as much as so many accesses, without its own."""

_Stamp = Annotated[int, msgspec.Meta(ge=0, le=MAX_TIMESTAMP)]
_Small = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
_Layer = Annotated[int, msgspec.Meta(ge=-1, le=NO_LAYER)]
_Thread = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Text = str | None
_NOTHING = msgspec.Raw(b"")
Note: TypeAlias = Callable[[str, str], None]
"""Called with (what is wrong, where below the entry: ``.sources[2]``)."""


class Entry(msgspec.Struct, gc=False):
    """One entry as it should be; what differs goes through `mended`."""

    timestamp_ns: _Stamp
    operation_type: str
    entry_id: _Size | None = None
    token_id: _Small | None = None
    layer_id: _Layer | None = None
    thread_id: _Thread | None = None
    phase: _Text = None
    dst_name: _Text = None
    num_sources: _Small | None = None
    sources: msgspec.Raw = _NOTHING
    expert_ids: msgspec.Raw = _NOTHING
    num_experts: _Small | None = None
    tensor_name: _Text = None
    tensor_ptr: _Text = None
    tensor_idx: _Small | None = None
    size_bytes: _Size | None = None
    file_offset: _Size | None = None


_OPTIONAL = {f.name: f.type for f in msgspec.structs.fields(Entry) if not f.required}
ENTRIES = msgspec.json.Decoder(list[Entry])
ENTRY = msgspec.json.Decoder(Entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One source of an op.

    Attributes
    ----------
    size : bytes, -1 unknown.
    layer : -1 none.
    space : `DISK`, `BUFFER` or `ELSEWHERE`.
    where : offset in the file or number of the buffer; None unknown.
    index : number in the registry, -1 none.
    """

    name: str
    pointer: int
    size: int
    layer: int
    space: int
    where: int | None
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """What entries have in common that differ in time, thread and token only.

    Attributes
    ----------
    has_result : the entry is an op and its sources; else it is one access.
    n_sources : as claimed.
    lists_experts : entries name the experts that the router chose.
    problems : (what, where below the entry) of every source that was left out.
    """

    op: str
    name: str
    layer: int
    n_sources: int
    accesses: tuple[Access, ...]
    has_result: bool
    lists_experts: bool
    problems: tuple[tuple[str, str], ...] = ()


def allowance_of(size: int) -> Allowance:
    """Return the distinct accesses that a file of `size` bytes may describe."""
    return Allowance(size, _ACCESS_BYTES, "different accesses")


@dataclass(slots=True)
class PatternBook:
    """Numbers the distinct patterns in order of appearance."""

    allowance: Allowance
    patterns: list[Pattern] = field(default_factory=list)
    _index: dict[tuple[object, ...], int] = field(default_factory=dict)

    def number(self, entry: Entry) -> int:
        """Return the pattern of an entry. LimitExceededError where they are many."""
        e = entry
        key = (
            e.operation_type,
            e.dst_name,
            e.layer_id,
            e.num_sources,
            bytes(e.sources),
            bool(e.num_experts) or len(e.expert_ids) > 2,
            e.tensor_name,
            e.tensor_ptr,
            e.tensor_idx,
            e.size_bytes,
            e.file_offset,
        )
        number = self._index.get(key)
        if number is None:
            number = self._index[key] = len(self.patterns)
            if number >= MAX_PATTERNS:
                raise LimitExceededError(
                    f"its entries have more than {MAX_PATTERNS:,} different "
                    "sets of tensors, which is implausible for a model."
                )
            pattern = _pattern(entry)
            self.allowance.take(_PATTERN_SHARE + len(pattern.accesses))
            self.patterns.append(pattern)
        return number


def expert_list(text: bytes, n_claimed: int | None) -> tuple[int, ...]:
    """Return the experts that an entry lists, no more than it claims.

    Raises
    ------
    ValueError
        If they are not numbers.
    """
    try:
        ids = msgspec.json.decode(text, type=list[int]) if text else []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
    return tuple(ids if n_claimed is None else ids[:n_claimed])


def mended(value: object, note: Note) -> Entry | None:
    """Return what can be had of an entry of unexpected types; None for nothing.

    An entry needs a time stamp and an op. Numbers may be texts or whole floats;
    whatever else cannot be is missing then, and noted.
    """
    if not isinstance(value, dict):
        note("is not an object", "")
        return None
    stamp = _whole(value.get("timestamp_ns"))
    if stamp is None or not 0 <= stamp <= MAX_TIMESTAMP:
        note("has no valid timestamp", ".timestamp_ns")
        return None
    op = value.get("operation_type")
    if isinstance(op, int) and not isinstance(op, bool):
        op = f"UNKNOWN_{op}"
    if not isinstance(op, str) or not op:
        note("has no op", ".operation_type")
        return None
    entry = Entry(timestamp_ns=stamp, operation_type=op)
    for name, kind in _OPTIONAL.items():
        given = value.get(name)
        if given is None:
            continue
        if kind is msgspec.Raw:
            setattr(entry, name, msgspec.Raw(msgspec.json.encode(given)))
            continue
        if name == "tensor_ptr" and isinstance(given, int):
            given = hex(given)
        number = None if kind == _Text else _whole(given)
        try:
            field = msgspec.convert(given if number is None else number, kind)
            setattr(entry, name, field)
        except msgspec.ValidationError:
            note("has an invalid value", f".{name}")
    return entry


def _pattern(entry: Entry) -> Pattern:
    """Decode what the entries of a pattern have in common."""
    problems: list[tuple[str, str]] = []
    has_result = entry.tensor_name is None or entry.dst_name is not None
    accesses: list[Access] = []
    if has_result:
        accesses = _sources(bytes(entry.sources), problems)
    else:
        accesses.append(_single(entry, problems))
    claimed = len(accesses) if entry.num_sources is None else entry.num_sources
    return Pattern(
        op=entry.operation_type,
        name=(entry.dst_name if has_result else entry.tensor_name) or "",
        layer=_layer(entry.layer_id),
        n_sources=claimed,
        accesses=tuple(accesses),
        has_result=has_result,
        lists_experts=bool(entry.num_experts) or len(entry.expert_ids) > 2,
        problems=tuple(problems),
    )


def _single(entry: Entry, problems: list[tuple[str, str]]) -> Access:
    """Return the access of an entry of the 128-byte schema.

    File offset 0 means unknown: no tensor lies there.
    """
    pointer = _pointer(entry.tensor_ptr)
    if pointer is None:
        problems.append(("has an invalid pointer", ".tensor_ptr"))
    size = entry.size_bytes
    return Access(
        name=entry.tensor_name or "",
        pointer=pointer or 0,
        size=-1 if size is None or size < 0 else size,
        layer=_layer(entry.layer_id),
        space=DISK if entry.file_offset else ELSEWHERE,
        where=entry.file_offset or None,
        index=-1 if entry.tensor_idx is None else entry.tensor_idx,
    )


def _sources(text: bytes, problems: list[tuple[str, str]]) -> list[Access]:
    """Return the sources of an entry; those that cannot be read are left out."""
    if not text:
        return []
    decoder = TolerantDecoder()
    try:
        sources = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            sources = decoder.decode(text.decode("utf-8", "replace"))
        except ValueError:
            sources = None
    if decoder.n_odd:
        problems.append(("has an invalid JSON value", ".sources"))
    if sources is None and text.strip() == b"null":
        return []
    if not isinstance(sources, list):
        problems.append(("is not a list", ".sources"))
        return []
    accesses = []
    for k, value in enumerate(sources):
        if k >= _MAX_SOURCES:
            problems.append(("is one too many", f".sources[{k}]"))
            break
        try:
            accesses.append(_source(value))
        except (ValueError, TypeError) as error:
            problems.append((str(error), f".sources[{k}]"))
    return accesses


def _source(value: object) -> Access:
    """Return one source. Raises ValueError where it is none."""
    if not isinstance(value, dict):
        raise TypeError("is not an object")
    name = value.get("name")
    if name is not None and not isinstance(name, str):
        raise ValueError("has a name that is not a string")
    pointer = _pointer(value.get("tensor_ptr"))
    if pointer is None:
        raise ValueError("has an invalid pointer")
    offset = _number(value, "disk_offset", _U64_STOP)
    buffer = _number(value, "buffer_id", _U64_STOP)
    word = value.get("memory_source")
    space = _SPACES.get(word.upper(), ELSEWHERE) if isinstance(word, str) else ELSEWHERE
    if word is None:
        # Where nothing says it, the only number that is there does.
        space = DISK if offset is not None else ELSEWHERE
        space = BUFFER if offset is None and buffer is not None else space
    size = _number(value, "size_bytes", 1 << 62)
    layer = _number(value, "layer_id", NO_LAYER + 1, low=-1)
    index = _number(value, "tensor_idx", 1 << 62)
    return Access(
        name=name or "",
        pointer=pointer,
        size=-1 if size is None else size,
        layer=_layer(layer),
        space=space,
        where=buffer if space == BUFFER else offset,
        index=-1 if index is None else index,
    )


def _number(
    value: dict[str, object], name: str, stop: int, *, low: int = 0
) -> int | None:
    if value.get(name) is None:
        return None
    number = _whole(value[name])
    if number is None or not low <= number < stop:
        raise ValueError(f"has an invalid {name}")
    return number


def _layer(number: int | None) -> int:
    return -1 if number is None or not 0 <= number < NO_LAYER else number


def _pointer(value: object) -> int | None:
    """Return an address, 0 where none is given; None where it makes no sense."""
    if value is None or value in ("", "(nil)"):
        return 0
    number = _whole(value)
    return number if number is not None and 0 <= number < _U64_STOP else None


def _whole(value: object) -> int | None:
    """Return a number that is a whole one, even as a float or a text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str) and len(value) <= 40:
        try:
            return int(value, 16 if value.lower().startswith("0x") else 10)
        except ValueError:
            return None
    return None
