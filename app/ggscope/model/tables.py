"""The tables of a trace: one frozen dataclass of equally long arrays each; and texts.

The columns of a table are annotated with a `Column`, which is declared once beside its
name::

    layer: Annotated[Array | None, Column("int16", "transformer layer", null=-1)] = None

Nothing else spells a column: the builder fills and joins by the schema, sessions move
numbers of one file into those of another by it, ``Trace.check`` holds values against
it, Details and the trace table show what has a label, statistics can group by it, and
``resources/docs/trace-model.md`` is written from it.

Every column has a widest dtype. A reader may store a narrower signed integer
where the values fit (33 million rows make every byte count), so code that adds
or multiplies converts to int64 first. -1 means "none" in every id column.
Columns that a format cannot fill are None, never zeros. Columns of texts hold ids of
a `StringTable`, which only grows, so that ids stay valid for ever.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum, IntFlag
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Column:
    """What a column holds.

    Attributes
    ----------
    dtype : the widest; a reader may store narrower signed integers where they fit.
    doc : meaning, as the documentation says it.
    null : what stands for "none" or "unknown", and where a table lacks the column;
        None where every row has a value.
    unit : "ticks" or "bytes"; "" for plain numbers.
    of : table or list whose rows or places the numbers are: "strings", "lanes",
        "tensors", "buffers", "models", "ops", "spans", "records" of the file, ...
    code : enumeration or flags that the numbers are of.
    low, high : values lie in [low, high); None = what `null` and `of` say, and without
        `of` whatever the dtype holds.
    is_exact : whether a narrower dtype is wrong.
    per : what a row is for, where that is no row of the table: "edges", ...
    width : > 1 where each row is so many numbers.
    label : what people call it, where Details, the trace table and statistics show it.
    mark : stands before its numbers in words.
    is_rare : few formats have it: it is not mentioned where a trace lacks the
        column, and "none" means that it is not known.
    is_length : ticks say how long, not when: they stay where times are moved.
    most : the largest value, which stands for all beyond as well; None = each value
        is itself.
    """

    dtype: str
    doc: str
    null: float | None = None
    unit: str = ""
    of: str = ""
    code: type[IntEnum] | type[IntFlag] | None = None
    low: int | None = None
    high: int | None = None
    is_exact: bool = False
    per: str = ""
    width: int = 1
    label: str = ""
    mark: str = ""
    is_rare: bool = False
    is_length: bool = False
    most: int | None = None

    def blank(self, n: int, *, narrow: bool = False) -> npt.NDArray[Any]:
        """Return `n` rows of "none"; `narrow` where other rows will widen them."""
        shape = n if self.width == 1 else (n, self.width)
        is_signed = self.dtype.startswith("int")
        dtype = "int8" if narrow and is_signed else self.dtype
        return np.full(shape, 0 if self.null is None else self.null, dtype)


if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")


_PLAIN = Column("int64", "of a table that is only computed with")
_SCHEMAS: dict[type, dict[str, Column]] = {}
_EMPTY: dict[type, Any] = {}
"""Tables without rows, which all traces share: nothing of them can be changed."""


def schema_of(table: type) -> dict[str, Column]:
    """Return the columns that a table declares, by name, in their order."""
    schema = _SCHEMAS.get(table)
    if schema is None:
        hints = get_type_hints(table, include_extras=True)
        schema = _SCHEMAS[table] = {
            name: column
            for name, hint in hints.items()
            for column in getattr(hint, "__metadata__", ())
            if isinstance(column, Column)
        }
    return schema


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Equally long columns; the number of a row is its id."""

    _first = ""

    def __init_subclass__(cls) -> None:
        cls._first = next(iter(cls.__annotations__))

    def __len__(self) -> int:
        return len(getattr(self, self._first))

    @classmethod
    def blank(cls, n: int = 0) -> Self:
        """Return `n` rows of "unknown", without the columns that may be missing."""
        if not n and cls in _EMPTY:
            return _EMPTY[cls]  # type: ignore[no-any-return]  # one of this class
        schema, columns = schema_of(cls), {}
        for f in fields(cls):
            if f.default is dataclasses.MISSING:  # a column, or a table within this one
                kind = schema.get(f.name) or get_type_hints(cls)[f.name]
                columns[f.name] = kind.blank(n)
        table = cls(**columns)
        if not n:
            freeze(table)
            _EMPTY[cls] = table
        return table

    def take(self, rows: npt.NDArray[Any] | slice) -> Self:
        """Return the given rows; what is no column stays."""
        taken: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                taken[f.name] = value[rows]
            elif isinstance(value, Table):
                taken[f.name] = value.take(rows)
        return replace(self, **taken)

    def followed_by(self, more: Self) -> Self:
        """Return these rows and those behind them; what is no column is as there."""
        if not len(self):
            return more
        columns: dict[str, Any] = {}
        for f in fields(self):
            value, behind = getattr(self, f.name), getattr(more, f.name)
            if isinstance(value, np.ndarray):
                columns[f.name] = np.concatenate([value, behind])
            elif isinstance(value, Table):
                columns[f.name] = value.followed_by(behind)
        return replace(more, **columns)

    def full(self) -> Self:
        """Return the table with every column, "unknown" where it had none."""
        missing: dict[str, Any] = {
            name: column.blank(len(self))
            for name, column in schema_of(type(self)).items()
            if getattr(self, name) is None
        }
        return replace(self, **missing)


def stacked(*tables: _T) -> _T:
    """Return the rows of all tables, one behind the other; the rest as in the first.

    Where some tables lack a column its rows are "none"; where all do there is none.
    A single table is returned as it is, not copied.
    """
    if len(tables) == 1:
        return tables[0]
    schema, first = schema_of(type(tables[0])), tables[0]
    columns: dict[str, Any] = {}
    for f in fields(first):
        parts = [getattr(table, f.name) for table in tables]
        if isinstance(parts[0], Table):
            columns[f.name] = stacked(*parts)
        elif any(isinstance(part, np.ndarray) for part in parts):
            column = schema.get(f.name, _PLAIN)
            columns[f.name] = np.concatenate(
                [
                    column.blank(len(table), narrow=True)  # type: ignore[arg-type]  # a `Table`
                    if part is None
                    else part
                    for part, table in zip(parts, tables, strict=True)
                ]
            )
    return replace(first, **columns)


def freeze(table: object) -> None:
    """Mark every array of a table (and of the tables inside it) read-only."""
    if table is _EMPTY.get(type(table)):
        return
    for name in table.__dataclass_fields__:  # type: ignore[attr-defined]  # a dataclass
        value = getattr(table, name)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        elif hasattr(value, "__dataclass_fields__"):
            freeze(value)


def broken_columns(
    name: str, table: object, rows: dict[str, int], known: dict[str, int]
) -> list[str]:
    """Return what is wrong with the columns of a table, a sentence each.

    Parameters
    ----------
    name : of the table, as sentences call it.
    rows : number of rows by `Column.per`.
    known : length of every table that columns refer to, by `Column.of`.
    """
    broken: list[str] = []
    if table is _EMPTY.get(type(table)):
        return broken
    for key, column in schema_of(type(table)).items():
        array, what = getattr(table, key), f"{name}.{key}"
        if array is None:
            continue
        n = rows[column.per]
        shape = (n,) if column.width == 1 else (n, column.width)
        kind = _kind_of(column.dtype)
        kinds, word = ("iu", "integers") if kind in "iu" else (kind, column.dtype)
        if array.shape != shape:
            broken.append(f"{what} has shape {array.shape}, expected {shape}")
        elif array.dtype.kind not in kinds:
            broken.append(f"{what} has dtype {array.dtype}, expected {word}")
        elif column.is_exact and array.dtype != column.dtype:
            broken.append(f"{what} has dtype {array.dtype}, expected {column.dtype}")
        elif limits := _limits(column, known):
            low, high = limits
            if len(array) and (int(array.min()) < low or int(array.max()) >= high):
                broken.append(
                    f"{what} has values {array.min()}..{array.max()} outside "
                    f"[{low}, {high})"
                )
        if array.flags.writeable:
            broken.append(f"{what} is writable")
    return broken


@cache
def _kind_of(dtype: str) -> str:
    return np.dtype(dtype).kind


def _limits(column: Column, known: dict[str, int]) -> tuple[int, int] | None:
    """Return the range of a column's values; None where any value is sound."""
    low = column.low if column.low is not None else -1 if column.null == -1 else 0
    if column.high is not None:
        return low, column.high
    return (low, known[column.of]) if column.of in known else None


Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I16 = npt.NDArray[np.int16]
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U16 = npt.NDArray[np.uint16]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
_FAR = 1 << 62
"""Ticks and records beyond are nonsense."""


_PIECE_ROWS = 1 << 18
"""Rows whose temporaries fit the cache."""
FAILED_COLOR = 0xFFD3302F
"""In `Spans.color`: a call that failed; red."""
NO_WAIT, LONGEST_WAIT = (1 << 32) - 1, (1 << 32) - 2
"""Waits that are not recorded; and those of so many ticks or more."""


class SpanFlag(IntFlag):
    """Why a span's times are not simply measured, and other oddities."""

    INFERRED_START = 1
    INFERRED_END = 2
    """The end is the next record of the same thread, or the span is made of samples:
    *derived*."""
    UNFINISHED = 4
    """No end was recorded; drawn to the end of its surroundings."""
    OVERLAPS_PARENT = 8
    OUT_OF_ORDER = 16
    TRUNCATED_NAME = 32
    ESTIMATED = 64
    """The times share out a measured whole: *estimated*, not in rankings."""
    REPEATED = 128
    """Another span, of another thread, is of the same op: what the op reads and
    writes is counted there."""
    FUSED = 256
    """The next node of the graph ran within it and has no span: ggml multiplies by the
    weight of a norm while it normalises. The times are those of both."""
    ASYNC = 512
    """A call that returned before what it began was done: its time is not that of the
    work, and bytes by it are no rate."""


class Quality(IntEnum):
    """How far a span's duration can be trusted."""

    MEASURED = 0
    DERIVED = 1
    ESTIMATED = 2
    UNFINISHED = 3

    @property
    def word(self) -> str:
        """What people call it: "measured", "derived", "estimated" or "unfinished"."""
        return self.name.lower()


class Phase(IntEnum):
    """Phase of inference; -1 where the format does not say."""

    PROMPT = 0
    GENERATE = 1
    MIXED = 2
    """Of a ubatch: some tokens are of prompts, others are generated."""


class CallKind(IntEnum):
    """Kind of a call of CUDA, by its function."""

    MEMORY_MGMT = 0
    TRANSFER = 1
    KERNEL = 2
    CONTEXT = 3
    STREAM = 4
    MODULE = 5
    INIT = 6
    SYNC = 7
    OTHER = 8

    @property
    def word(self) -> str:
        """What `Spans.category` says, such as "memory_mgmt"."""
        return self.name.lower()


class AccessKind(IntEnum):
    """Direction of an access."""

    READ = 0
    WRITE = 1


class Space(IntEnum):
    """Where the bytes of an access live."""

    FILE = 0
    """A weight of the model file."""
    BUFFER = 1
    """A runtime buffer."""
    DRAM = 2
    SPM = 3
    UNKNOWN = 4

    @property
    def word(self) -> str:
        """What people call it: "DISK", "BUFFER", "DRAM", "SPM" or "unknown"."""
        return {0: "DISK", 4: "unknown"}.get(self, self.name)


class CounterShape(IntEnum):
    """How a counter's samples are meant."""

    LEVEL = 0
    """Holds until the next sample."""
    RATE = 1
    """Amount within a window of known width."""
    DELTA = 2
    """Change at an instant."""


def quality_of(flags: Array) -> npt.NDArray[np.uint8]:
    """Return the `Quality` of each span from its flags, uint8[n]."""
    bits = np.asarray(flags)
    result = np.zeros(bits.shape, np.uint8)
    inferred = SpanFlag.INFERRED_START | SpanFlag.INFERRED_END
    result[(bits & int(inferred)) != 0] = Quality.DERIVED
    result[(bits & int(SpanFlag.ESTIMATED)) != 0] = Quality.ESTIMATED
    result[(bits & int(SpanFlag.UNFINISHED)) != 0] = Quality.UNFINISHED
    return result


def empty(dtype: npt.DTypeLike) -> Array:
    """Return a read-only array without rows."""
    array = np.zeros(0, dtype)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Spans(Table):
    """Intervals on lanes, one row each.

    Notes
    -----
    The row number is the span's id, for ever. Rows need not be sorted; readers
    that can write all spans of a lane next to each other in start order, which
    lets ``analysis.rows`` use them without a copy.
    """

    start: Annotated[
        I64,
        Column(
            "int64", "first tick", unit="ticks", low=-_FAR, high=_FAR, is_exact=True
        ),
    ]
    end: Annotated[
        I64,
        Column(
            "int64",
            "tick behind the last one; never before the start",
            unit="ticks",
            low=-_FAR,
            high=_FAR,
            is_exact=True,
        ),
    ]
    lane: Annotated[Array, Column("int32", "what it lies on", of="lanes")]
    name: Annotated[
        Array,
        Column(
            "int32",
            "what people read (destination tensor, tile, graph)",
            -1,
            of="strings",
        ),
    ]
    op: Annotated[
        Array,
        Column(
            "int16",
            "raw op number, named by `Trace.ops`; none where the span is no op "
            "(graph, token, phase, stall)",
            -1,
            of="ops",
            high=1 << 15,
        ),
    ]
    flags: Annotated[
        Array,
        Column(
            "uint16", "how its times are known", 0, code=SpanFlag, low=0, high=1 << 16
        ),
    ]
    tensor: Annotated[
        Array | None, Column("int32", "tensor that it writes", -1, of="tensors")
    ] = None
    layer: Annotated[
        Array | None,
        Column("int16", "transformer layer", -1, high=1 << 15, label="layer"),
    ] = None
    token: Annotated[
        Array | None,
        Column(
            "int32",
            "token number as the file claims it",
            -1,
            high=1 << 32,
            label="token",
            mark="#",
        ),
    ] = None
    phase: Annotated[
        Array | None,
        Column("int8", "phase of inference", -1, code=Phase, high=3, label="phase"),
    ] = None
    core: Annotated[
        Array | None,
        Column(
            "int16",
            "processor core on which it began",
            -1,
            high=1 << 15,
            label="core",
            is_rare=True,
        ),
    ] = None
    numa: Annotated[
        Array | None,
        Column(
            "int16",
            "NUMA node of that core",
            -1,
            high=1 << 15,
            label="NUMA node",
            is_rare=True,
        ),
    ] = None
    wait: Annotated[
        npt.NDArray[np.uint32] | None,
        Column(
            "uint32",
            "how long its thread waited behind its end, at the barrier where the "
            "threads of a graph meet",
            NO_WAIT,
            unit="ticks",
            is_exact=True,
            label="wait",
            is_rare=True,
            is_length=True,
            most=LONGEST_WAIT,
        ),
    ] = None
    record: Annotated[
        Array | None,
        Column(
            "int64",
            "number in the file's own terms, for `Trace.records`; without the column "
            "span i is record i",
            -1,
            of="records",
            high=_FAR,
        ),
    ] = None
    category: Annotated[
        Array | None,
        Column(
            "int32",
            "kind of a call or event: as the file says, or a `CallKind` in small "
            "letters by the function of a call of CUDA",
            -1,
            of="strings",
            label="category",
            is_rare=True,
        ),
    ] = None
    launcher: Annotated[
        Array | None,
        Column(
            "int32",
            "name of the op or range around the call that launched what runs on a "
            "device, on the thread of the call, the innermost one",
            -1,
            of="strings",
            label="launching op",
            is_rare=True,
        ),
    ] = None
    moved: Annotated[
        Array | None,
        Column(
            "int64",
            "bytes that an engine moved, as the file states",
            -1,
            unit="bytes",
            high=_FAR,
            label="bytes moved",
            is_rare=True,
        ),
    ] = None
    bits: Annotated[
        Array | None,
        Column(
            "int8",
            "bits of a value that an engine worked on: of weights, else of what it "
            "moved, else of activations",
            -1,
            high=1 << 7,
            label="bits",
            is_rare=True,
        ),
    ] = None
    bank: Annotated[
        Array | None,
        Column(
            "int16",
            "bank of the scratchpad memory (SPM)",
            -1,
            high=1 << 15,
            label="SPM bank",
            is_rare=True,
        ),
    ] = None
    bank_offset: Annotated[
        Array | None,
        Column(
            "int64",
            "offset in that bank",
            -1,
            unit="bytes",
            high=_FAR,
            label="offset in the bank",
            is_rare=True,
        ),
    ] = None
    tensor_role: Annotated[
        Array | None,
        Column(
            "int32",
            "what an engine of an NPU moves: weight, kv, activation, other",
            -1,
            of="strings",
            label="tensor role",
            is_rare=True,
        ),
    ] = None
    samples: Annotated[
        Array | None,
        Column(
            "int64",
            "how many samples of a profile it is made of",
            -1,
            high=_FAR,
            label="samples",
            is_rare=True,
        ),
    ] = None
    color: Annotated[
        Array | None,
        Column(
            "uint32",
            "0xRRGGBB + 0xFF000000 as the file asks for; 0 is none",
            0,
            high=1 << 32,
        ),
    ] = None

    def last_tick(self) -> int:
        """Return when the last span, or the wait behind it, ends; of no empty table."""
        last = int(self.end.max())
        if self.wait is None:
            return last
        for at in range(0, len(self), _PIECE_ROWS):
            piece = slice(at, at + _PIECE_ROWS)
            wait = self.wait[piece].astype(np.int64)
            ends = self.end[piece] + np.where(wait == NO_WAIT, 0, wait)
            last = max(last, int(ends.max()))
        return last


@dataclass(frozen=True, slots=True, eq=False)
class Markers(Table):
    """Instants, one row each."""

    time: Annotated[I64, Column("int64", "when", unit="ticks", low=-_FAR, high=_FAR)]
    lane: Annotated[Array, Column("int32", "what it lies on", of="lanes")]
    name: Annotated[Array, Column("int32", "what people read", -1, of="strings")]
    detail: Annotated[
        Array,
        Column("int32", 'further text (JSON or "key=value, …")', -1, of="strings"),
    ]
    flags: Annotated[Array, Column("uint16", "oddities", 0, code=SpanFlag)]
    record: Annotated[
        Array | None,
        Column("int64", "as of spans", -1, of="records", high=_FAR),
    ] = None


@dataclass(frozen=True, slots=True, eq=False)
class AccessColumns(Table):
    """Accesses without their times: equally long columns."""

    tensor: Annotated[Array, Column("int32", "what was touched", -1, of="tensors")]
    kind: Annotated[Array, Column("uint8", "direction", 0, code=AccessKind)]
    space: Annotated[
        Array, Column("uint8", "where the bytes live", Space.UNKNOWN, code=Space)
    ]
    offset: Annotated[
        I64,
        Column(
            "int64",
            "place in the model file (FILE), in the buffer, or the address (DRAM, SPM)",
            -1,
            unit="bytes",
        ),
    ]
    size: Annotated[I64, Column("int64", "bytes of the record", -1, unit="bytes")]
    buffer: Annotated[Array, Column("int32", "where it lies", -1, of="buffers")]
    layer: Annotated[
        Array, Column("int16", "layer of the access itself, not of the span", -1)
    ]
    expert: Annotated[Array, Column("int16", "expert whose slice it is", -1)]
    address: Annotated[
        Array,
        Column(
            "uint64", "raw pointer, 0 is none; only compared, never computed with", 0
        ),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class FlatAccesses(Table):
    """Accesses with their time and context, one row each."""

    time: Annotated[I64, Column("int64", "when", unit="ticks")]
    lane: Annotated[Array, Column("int32", "lane of the span", -1, of="lanes")]
    span: Annotated[
        I64, Column("int64", "span that performs the access", -1, of="spans")
    ]
    token: Annotated[Array, Column("int32", "as of spans", -1)]
    what: AccessColumns


@dataclass(frozen=True, slots=True, eq=False)
class Accesses:
    """All accesses of a trace, dictionary-encoded.

    An inference run does the same accesses once per token, so spans refer to
    *patterns*: span i makes the accesses
    ``patterns[first[p] : first[p + 1]]`` with ``p = pattern[i]``, at the span's
    start. That costs 1 to 4 bytes per span instead of about 50 per access. Accesses
    that belong to no span (NPU memory events) are in `loose`.

    Attributes
    ----------
    patterns : `AccessColumns` of ``first[-1]`` rows.
    loose : accesses with a time of their own.
    """

    pattern: Annotated[
        Array,
        Column(
            "int32",
            "which pattern a span makes; none accesses nothing",
            -1,
            of="patterns",
            per="spans",
        ),
    ]
    first: Annotated[
        I64,
        Column(
            "int64",
            "first row of each pattern, ascending from 0, and how many rows there are",
            per="patterns and one more",
        ),
    ]
    patterns: AccessColumns
    loose: FlatAccesses
    result: Annotated[
        I64 | None,
        Column(
            "int64",
            "how large the result of an op is that makes a pattern",
            -1,
            unit="bytes",
            per="patterns",
        ),
    ] = None
    writer: Annotated[
        Array | None,
        Column(
            "int32",
            "which pattern the op makes whose result it is; none is computed by no op "
            "of the graph",
            -1,
            of="patterns",
            per="rows of patterns",
        ),
    ] = None

    def __len__(self) -> int:
        return int(self.counts().sum()) + len(self.loose)

    def counts(self) -> I64:
        """Return the number of accesses of each span, int64[n_spans]."""
        return self.per_span(np.diff(self.first))

    def bytes_read_written(self) -> I64:
        """Return the known bytes that each span accesses, int64[n_spans]."""
        size = np.maximum(self.patterns.size.astype(np.int64), 0)
        total = np.concatenate([[0], np.cumsum(size)])
        return self.per_span(total[self.first[1:]] - total[self.first[:-1]])

    def per_span(self, per_pattern: Array) -> Array:
        """Spread one value per pattern over the spans; 0 where a span has none."""
        padded = np.append(per_pattern, per_pattern.dtype.type(0))
        return padded[self.pattern]

    def result_bytes(self, span: int) -> int | None:
        """Return how large the result of a span is; -1 unknown, None in no span."""
        if self.result is None:
            return None
        pattern = int(self.pattern[span])
        return int(self.result[pattern]) if pattern >= 0 else -1

    def of_span(self, span: int) -> AccessColumns:
        """Return the accesses of one span, in the order of the file."""
        p = int(self.pattern[span]) if len(self.pattern) else -1
        rows = np.arange(self.first[p], self.first[p + 1]) if p >= 0 else np.arange(0)
        return self.patterns.take(rows)

    def flat(self, spans: Spans, ids: Array | None = None) -> FlatAccesses:
        """Return the accesses of spans `ids` (all: None) as one row each.

        The result grows with the accesses asked for: call it on a slice, not
        on 33 million spans. Loose accesses are appended where `ids` is None.
        """
        chosen = np.arange(len(spans)) if ids is None else np.asarray(ids)
        pattern = self.pattern[chosen]
        chosen, pattern = chosen[pattern >= 0], pattern[pattern >= 0]
        n = np.diff(self.first)[pattern]
        span = np.repeat(chosen, n).astype(np.int64)
        what = self.patterns.take(ranges(self.first[pattern], n))
        token = (
            np.full(len(span), -1, np.int32)
            if spans.token is None
            else spans.token[span].astype(np.int32)
        )
        part = FlatAccesses(
            spans.start[span], spans.lane[span].astype(np.int32), span, token, what
        )
        return (
            part
            if ids is not None or not len(self.loose)
            else stacked(part, self.loose)
        )


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CounterSeries:
    """Samples of one quantity.

    Attributes
    ----------
    id : index in ``Trace.counters``.
    """

    id: int
    name: str
    lane: int
    unit: str
    shape: CounterShape
    time: Annotated[
        I64,
        Column(
            "int64",
            "when, non-decreasing; for RATE the start of the window",
            unit="ticks",
        ),
    ]
    value: Annotated[
        npt.NDArray[np.float64], Column("float64", "amount in the series' unit", np.nan)
    ]
    window: Annotated[
        I64 | None,
        Column("int64", "width of the window of RATE", unit="ticks", is_length=True),
    ] = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True, eq=False)
class Flows(Table):
    """Dependencies between spans: source before target."""

    source: Annotated[Array, Column("int64", "what comes first", of="spans")]
    target: Annotated[Array, Column("int64", "what follows from it", of="spans")]

    @classmethod
    def between(cls, source: Array, target: Array) -> "Flows":
        """Return flows between spans, in 32 bits where their numbers fit."""
        last = max(int(source.max(initial=0)), int(target.max(initial=0)))
        dtype = np.int32 if last < 1 << 31 else np.int64
        return cls(source.astype(dtype), target.astype(dtype))


def no_accesses(n_spans: int) -> Accesses:
    """Return the accesses of `n_spans` spans that access nothing."""
    accesses = Accesses(
        np.full(n_spans, -1, np.int8),
        np.zeros(1, np.int64),
        AccessColumns.blank(),
        FlatAccesses.blank(),
    )
    freeze(accesses)
    return accesses


LOCKED_ROWS = 1 << 16
"""Rows that numpy counts or adds up at once where it keeps the interpreter lock, as
``bincount`` and ``ufunc.at`` do: less than a millisecond, so the window goes on."""


def distinct(values: Array) -> Array:
    """Return the different integers in ascending order.

    Values close together are ticked off in a table, others sorted. ``np.unique``
    hashes in newer numpy: ten times slower here, and it holds the interpreter lock
    all the while.
    """
    if not len(values):
        return values
    low = int(values.min())
    width = int(values.max()) - low + 1
    if width <= 4 * len(values) + 1024:
        is_there = np.zeros(width, np.bool_)
        is_there[values - values.dtype.type(low)] = True
        # Unsigned numbers may be beyond what the type of positions holds.
        uniques: Array = np.flatnonzero(is_there).astype(values.dtype)
        uniques += values.dtype.type(low)
        return uniques
    ranked: Array = np.sort(values)
    is_first: Array = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    return np.asarray(ranked[is_first])


def first_places(codes: Array) -> tuple[I64, I64]:
    """Return the different codes, ascending, and where each comes first: int64[k].

    Codes, int[n], are not negative, and not many times as large as they are many: they
    are ticked off in a table, where ``np.unique`` sorts.
    """
    n = len(codes)
    place = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    # Of several that go to one place the last one stays.
    place[codes[::-1]] = np.arange(n - 1, -1, -1)
    present = np.flatnonzero(place >= 0)
    return present, place[present]


def ranked(values: Array) -> tuple[Array, I64, I64]:
    """Return the different values ascending, where each comes first, and their places.

    The last says for each value where it stands among the different ones. ``np.unique``
    returns the same; it adds up booleans with the interpreter lock held, 0.1 s for the
    ends of 10 million events. Whole numbers that lie close together are counted, not
    sorted.
    """
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < len(values):
            return _counted(values, low, high)
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    is_first = np.ones(len(values), np.int64)
    is_first[1:] = in_order[1:] != in_order[:-1]
    place = np.empty(len(values), np.int64)
    place[order] = np.cumsum(is_first) - 1
    first = order[is_first.astype(np.bool_)]
    return values[first], first, place


def _counted(values: Array, low: int, high: int) -> tuple[Array, I64, I64]:
    """Return what `ranked` does for numbers from `low` to `high`."""
    wide = values if values.dtype.itemsize == 8 else values.astype(np.int64)
    code = (wide - wide.dtype.type(low)).astype(np.int64, copy=False)
    first_of = np.full(high - low + 1, -1, np.int64)
    # Of several with one number the last that is assigned stays.
    first_of[code[::-1]] = np.arange(len(values) - 1, -1, -1)
    is_there = first_of >= 0
    first = first_of[is_there]
    place = np.cumsum(is_there, dtype=np.int64) - 1
    return values[first], first, place[code]


def alike(values: Array) -> list[I64]:
    """Return where each different value is, int64[·] each, in the order of values."""
    order = np.argsort(values, kind="stable")
    edges = np.flatnonzero(np.diff(values[order])) + 1
    return np.split(order, edges) if len(values) else []


def ranges(begin: I64 | int, length: I64) -> I64:
    """Return the numbers ``begin[i] .. begin[i] + length[i]`` of all i, in order.

    With 0 as `begin` those are places within groups of these lengths.
    """
    shift = np.repeat(begin - (np.cumsum(length) - length), length)
    return np.asarray(np.arange(len(shift), dtype=np.int64) + shift)


def taken(column: Array, rows: Array, missing: int = -1) -> I64:
    """Return ``column[rows]`` as int64; `missing` where a row is -1.

    Without a copy of the column: a span reads a few of a million tensors.
    """
    if not len(column):
        return np.full(len(rows), missing, np.int64)
    return np.where(rows >= 0, column[np.maximum(rows, 0)].astype(np.int64), missing)


def places_among(ascending: Array, values: Array) -> I64:
    """Return where each value stands first in an ascending array, -1 nowhere."""
    if not len(ascending):
        return np.full(len(values), -1, np.int64)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[at] == values, at, -1)


def looked_up(keys: Array, values: Array, sought: Array, missing: int = -1) -> I64:
    """Return the value of each key that is sought, int64; `missing` where it is none.

    `keys` ascend, and each has the value at its place; of equal keys the first counts.
    """
    return taken(values, places_among(keys, sought), missing)


def narrow(values: Array, widest: npt.DTypeLike = np.int64) -> Array:
    """Return `values` in the narrowest signed integer dtype that holds them."""
    if not len(values):
        return values.astype(np.int8)
    low, high = int(values.min()), int(values.max())
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        limits = np.iinfo(dtype)
        if limits.min <= low and high <= limits.max:
            return values.astype(dtype, copy=False)
    return values.astype(widest, copy=False)


MISSING = -1
_FEW, _MAX_WALKS = 1 << 12, 8
"""Among more texts than the first number, so many are looked for one by one."""


class StringTable:
    """Append-only list of distinct strings; id -1 stands for "none".

    A published trace shares the table with its builder: rows below a known
    length never change, so older snapshots stay valid.
    """

    __slots__ = ("_ids", "_lock", "_n_unlisted", "_n_walks", "_texts")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: list[str] = []
        self._ids: dict[str, int] = {}
        # The first so many are not in `_ids` yet: a million names that a reader knows
        # to be distinct need no looking up until somebody asks more than a few times.
        self._n_unlisted = self._n_walks = 0
        self._lock = Lock()
        for text in texts:
            self.intern(text)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, string_id: int) -> str:
        """Return the text of `string_id`; "" for -1.

        Raises
        ------
        IndexError
            If the id does not exist.
        """
        if string_id == MISSING:
            return ""
        if string_id < 0:
            raise IndexError(string_id)
        return self._texts[string_id]

    def get_many(self, string_ids: Iterable[int]) -> list[str]:
        """Return the text of each id; "" for -1 and below."""
        texts = self._texts
        return [texts[i] if i >= 0 else "" for i in string_ids]

    def intern(self, text: str) -> int:
        """Return the id of `text`, adding it where it is new."""
        number = self.find(text)
        if number == MISSING:
            number = len(self._texts)
            self._texts.append(text)
            self._ids[text] = number
        return number

    def intern_many(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of `texts`, int32[len(texts)]."""
        if self._n_unlisted and len(texts) <= _MAX_WALKS:
            return np.array([self.intern(text) for text in texts], np.int32)
        self._list_all()
        ids, known = self._ids, self._texts
        new = [text for text in dict.fromkeys(texts) if text not in ids]
        ids.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
        known += new
        return np.fromiter(map(ids.__getitem__, texts), np.int32, len(texts))

    def add_distinct(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of `texts`, of which no two are the same, int32[len(texts)].

        Into an empty table, many of them come at no cost but the memory.
        """
        if self._texts:
            return self.intern_many(texts)
        self._texts += texts
        self._n_unlisted = len(texts)
        return np.arange(len(texts), dtype=np.int32)

    def find(self, text: str) -> int:
        """Return the id of `text`, or -1 where it never occurred."""
        number = self._ids.get(text, MISSING)
        n = self._n_unlisted
        if number != MISSING or not n:
            return number
        self._n_walks += 1
        if n > _FEW and self._n_walks <= _MAX_WALKS:
            try:
                return self._texts.index(text, 0, n)
            except ValueError:
                return MISSING
        self._list_all()
        return self._ids.get(text, MISSING)

    def texts(self) -> list[str]:
        """Return a copy of all texts, in id order."""
        return list(self._texts)

    def release(self) -> None:
        """Give back the memory of the index of many texts, some 70 bytes for each.

        It is made again when somebody asks for more than a few texts.
        """
        with self._lock:
            if len(self._texts) > _FEW:
                # In this order: who finds no index looks through the texts.
                self._n_unlisted, self._n_walks = len(self._texts), 0
                self._ids = {}

    def _list_all(self) -> None:
        """Put the texts into `_ids` that are not there yet."""
        with self._lock:  # views and a reader may ask at the same time
            if n := self._n_unlisted:
                self._ids.update(zip(self._texts[:n], range(n), strict=True))
                self._n_unlisted = 0


def latest_owner(first: I64, last: I64, n: int) -> I64:
    """Return for each of `n` pieces the highest i with ``first[i] <= piece < last[i]``.

    A range is two overlapping ranges whose lengths are a power of two; each level
    takes the higher number and hands it down to its halves.
    """
    length = last - first
    some = np.flatnonzero(length > 0)
    level = np.zeros(len(length), np.int64)
    level[some] = np.log2(length[some]).astype(np.int64)
    owner = np.full(n, -1, np.int64)
    for k in range(int(level.max(initial=0)), -1, -1):
        here = some[level[some] == k]
        np.maximum.at(owner, first[here], here)
        np.maximum.at(owner, last[here] - (1 << k), here)
        if k:
            half = 1 << (k - 1)
            lower = owner.copy()
            np.maximum(lower[half:], owner[: n - half], out=lower[half:])
            owner = lower
    return owner
