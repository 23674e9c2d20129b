"""Layouts of the fixed-size records of the tensor tracers, and single records decoded.

All integers are little-endian. Field names are the same in every layout that has them.

No header says which layout a file has; its content does (`detect`). Every layout is
laid over a sample of the file, and each record is judged by how many of its fields
make sense. Names weigh most: text that starts in one place and is followed by nothing
but zeros hardly occurs at the wrong stride. Spare bytes weigh little, because writers
keep data of their own there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from ggscope.errors import TruncatedError
from ggscope.model.ggml.ops import marked_tables
from ggscope.model.tables import F64, U8, U32, Array, Bools
from ggscope.model.trace import OpTable, RecordView
from ggscope.model.units import NOT_AVAILABLE, format_bytes
from ggscope.readers.api import HEAD_BYTES
from ggscope.readers.source import SMALL_BYTES, Source, read_at

NO_LAYER = 0xFFFF
NO_INDEX = 0xFFFF_FFFF
NO_OFFSET = 0xFFFF_FFFF_FFFF_FFFF
NO_EXPERT = 0xFF
FIRST_EXTENSION_OP = 0xF0
"""Op numbers from here on are extension records: expert data, never ops."""

MAX_TIMESTAMP = (1 << 62) - (1 << 41)
"""Larger stamps are damage; 2^41 leaves room for the longest duration on top."""

OPS_MARK_AT = 252
"""Where the first of 256-byte records may name its op table: in the spare bytes behind
the fourth source, see `ggscope.model.ggml.ops.mark_of`."""

_Field = tuple[str, str, int]

_HEADER: tuple[_Field, ...] = (
    ("timestamp_ns", "<u8", 0),
    ("token_id", "<u4", 8),
    ("layer_id", "<u2", 12),
    ("thread_id", "<u2", 14),
    ("operation_type", "u1", 16),
    ("phase", "u1", 17),
)
_LAYER_BYTES, _OP_BYTES, _COUNT_BYTES = (12, 14), (16, 17), (18, 19)
_MISSING = {
    "layer_id": NO_LAYER,
    "token_id": NO_INDEX,
    "tensor_idx": NO_INDEX,
    "file_offset": NO_OFFSET,
    "disk_offset_or_buffer_id": NO_OFFSET,
    "attention_head": 0xFF,
    "qkv_type": 0xFF,
    "expert_id": NO_EXPERT,
    "expert_rank": NO_EXPERT,
}
_WORDS = {
    "phase": ("prompt", "generate"),
    "memory_source": ("disk (weight in the file)", "buffer"),
    "event_type": ("alloc", "dealloc"),
    "usage": ("any", "weights", "compute"),
}
_POINTERS = frozenset(
    ("tensor_ptr", "buffer_id", "buffer_ptr", "disk_offset_or_buffer_id", "file_offset")
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RecordLayout:
    """One record layout.

    Attributes
    ----------
    id : what option ``layout`` calls it.
    title : what people read.
    dtype : fields of a record at their offsets.
    size : bytes of one record, a multiple of 8.
    source : dtype of one entry of ``sources``; None where the record itself
        describes the one source.
    source_width : bytes of a source's name; 0 where the record is the source.
    dst_width : bytes of ``dst_name`` (or of ``tensor_name``); 0 without names.
    key : bool[size], the bytes by which two records are the same access pattern.
    has_ggml_ops : ops are ``enum ggml_op``, not the first tracer's own numbers.
    has_experts : records may list the experts that a router chose.
    """

    id: str
    title: str
    dtype: np.dtype[np.void]
    source: np.dtype[np.void] | None = None
    dst_width: int = 0
    key: Bools = field(repr=False)
    has_ggml_ops: bool = False
    size: int = field(init=False, repr=False)
    source_width: int = field(init=False, repr=False)
    has_experts: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        width = 0 if self.source is None else self.source["name"].itemsize
        object.__setattr__(self, "size", self.dtype.itemsize)
        object.__setattr__(self, "source_width", width)
        has_experts = "num_experts" in (self.dtype.names or ())
        object.__setattr__(self, "has_experts", has_experts)

    def fields(self) -> list[tuple[str, int, int]]:
        """Return (name, byte offset, byte length) of every field, nested ones too."""
        fields: list[tuple[str, int, int]] = []
        for name, (dtype, offset) in _entries(self.dtype).items():
            if name == "sources" and self.source is not None:
                for k in range(4):
                    base = offset + k * self.source.itemsize
                    fields += [
                        (f"sources[{k}].{inner}", base + at, inner_type.itemsize)
                        for inner, (inner_type, at) in _entries(self.source).items()
                    ]
            else:
                fields.append((name, offset, dtype.itemsize))
        return fields


def _entries(dtype: np.dtype[np.void]) -> Mapping[str, tuple[np.dtype[np.void], int]]:
    """Return name -> (dtype, offset) of the fields of a structured dtype."""
    assert dtype.fields is not None
    return {name: (entry[0], entry[1]) for name, entry in dtype.fields.items()}


def _structured(fields: tuple[_Field, ...], size: int) -> np.dtype[np.void]:
    names, formats, offsets = zip(*fields, strict=True)
    return np.dtype(
        {
            "names": list(names),
            "formats": list(formats),
            "offsets": list(offsets),
            "itemsize": size,
        }
    )


def _key(size: int, *spans: tuple[int, int]) -> Bools:
    """Return a mask of `size` bytes, True in each [start, end)."""
    mask = np.zeros(size, np.bool_)
    for start, end in spans:
        mask[start:end] = True
    mask.flags.writeable = False
    return mask


def _single_source(tail: tuple[_Field, ...]) -> tuple[_Field, ...]:
    """Return the fields of a record about one source, up to its expert fields."""
    return (*_HEADER, ("padding1", "V6", 18), ("tensor_idx", "<u4", 24), *tail)


def _tail(at: int) -> tuple[_Field, ...]:
    """Return the fields from ``tensor_ptr``, which lies at byte `at`."""
    return (
        ("tensor_ptr", "<u8", at),
        ("file_offset", "<u8", at + 8),
        ("size_bytes", "<u4", at + 16),
        ("attention_head", "u1", at + 20),
        ("qkv_type", "u1", at + 21),
        ("padding2", "V2", at + 22),
        ("expert_id", "u1", at + 24),
        ("expert_rank", "u1", at + 25),
        ("routing_score", "<u2", at + 26),
    )


def _with_sources(
    id_: str,
    size: int,
    dst_width: int,
    source_width: int,
    tail: tuple[_Field, ...] = (),
) -> RecordLayout:
    """Return a layout with a destination name and four sources."""
    source_size = source_width + 32
    source = _structured(
        (
            ("name", f"S{source_width}", 0),
            ("tensor_ptr", "<u8", source_width),
            ("size_bytes", "<u4", source_width + 8),
            ("layer_id", "<u2", source_width + 12),
            ("memory_source", "u1", source_width + 14),
            ("pad", "V1", source_width + 15),
            ("disk_offset_or_buffer_id", "<u8", source_width + 16),
            ("tensor_idx", "<u4", source_width + 24),
            ("pad2", "V4", source_width + 28),
        ),
        source_size,
    )
    first = 24 + dst_width
    keyed = [
        (first + k * source_size, first + k * source_size + source_width + 15)
        for k in range(4)
    ] + [
        (
            first + k * source_size + source_width + 16,
            first + k * source_size + source_width + 24,
        )
        for k in range(4)
    ]
    names = (
        *_HEADER,
        ("num_sources", "u1", 18),
        ("duration", "V5", 19),
        ("dst_name", f"S{dst_width}", 24),
    )
    plain = _structured((*names, *tail), size)
    dtype = np.dtype(
        {
            "names": [*(plain.names or ()), "sources"],
            "formats": [
                *(entry[0] for entry in _entries(plain).values()),
                (source, (4,)),
            ],
            "offsets": [*(entry[1] for entry in _entries(plain).values()), first],
            "itemsize": size,
        }
    )
    return RecordLayout(
        id=id_,
        title=f"tensor-access {id_}-byte",
        dtype=dtype,
        source=source,
        dst_width=dst_width,
        key=_key(size, _LAYER_BYTES, _OP_BYTES, _COUNT_BYTES, (24, first), *keyed),
        has_ggml_ops=True,
    )


LAYOUT_64P = RecordLayout(
    id="64p",
    title="tensor-access 64-byte packed",
    dtype=_structured((*_single_source(_tail(28)), ("padding3", "V8", 56)), 64),
    key=_key(64, _LAYER_BYTES, _OP_BYTES, (28, 50), (52, 53)),
)
LAYOUT_64A = RecordLayout(
    id="64a",
    title="tensor-access 64-byte aligned",
    dtype=_structured(
        (*_single_source(_tail(32)), ("padding0", "V4", 28), ("padding3", "V4", 60)), 64
    ),
    key=_key(64, _LAYER_BYTES, _OP_BYTES, (32, 54), (56, 57)),
)
LAYOUT_128 = RecordLayout(
    id="128",
    title="tensor-access 128-byte",
    dtype=_structured(
        (
            *_single_source(_tail(28)),
            ("padding3", "V8", 56),
            ("tensor_name", "S64", 64),
        ),
        128,
    ),
    dst_width=64,
    key=_key(128, _LAYER_BYTES, _OP_BYTES, (28, 50), (52, 53), (64, 128)),
)
LAYOUT_256 = _with_sources("256", 256, 24, 20)
LAYOUT_1024 = _with_sources(
    "1024",
    1024,
    128,
    128,
    (("expert_ids", "(16,)<i4", 792), ("num_experts", "u1", 856)),
)
BUFFER_128 = RecordLayout(
    id="buffer128",
    title="buffer events 128-byte",
    dtype=_structured(
        (
            ("timestamp_ns", "<u8", 0),
            ("event_type", "u1", 8),
            ("usage", "u1", 9),
            ("layer_id", "<u2", 10),
            ("buffer_id", "<u8", 12),
            ("buffer_ptr", "<u8", 20),
            ("size_bytes", "<u8", 28),
            ("name", "S64", 36),
            ("backend", "S16", 100),
            ("padding", "V12", 116),
        ),
        128,
    ),
    key=_key(128),
)

LAYOUTS: Mapping[str, RecordLayout] = {
    layout.id: layout
    for layout in (
        LAYOUT_1024,
        LAYOUT_256,
        LAYOUT_128,
        BUFFER_128,
        LAYOUT_64P,
        LAYOUT_64A,
    )
}
"""All layouts by id, the larger records first: ties in detection go to them."""


def declared_ops(first: bytes, layout: RecordLayout) -> OpTable | None:
    """Return the op table that the first record of a file names; None without one."""
    if layout is not LAYOUT_256 or len(first) < layout.size:
        return None
    mark = int.from_bytes(first[OPS_MARK_AT : OPS_MARK_AT + 4], "little")
    return marked_tables().get(mark)


@dataclass(frozen=True, slots=True)
class TensorRecords:
    """Gives back records of one file by their number in it.

    Attributes
    ----------
    ops : names for the op numbers; None where records have none.
    """

    path: Path
    layout: RecordLayout
    ops: OpTable | None = None

    def view(self, record: int) -> RecordView:
        """Return record `record`, decoded.

        Raises
        ------
        IndexError
            If the number is negative.
        ReadError
            If the file is gone or has become too short.
        """
        if record < 0:
            raise IndexError(record)
        offset = record * self.layout.size
        data = read_at(self.path, offset, self.layout.size)
        if len(data) < self.layout.size:
            raise TruncatedError(
                f"record {record:,} is gone; the file has been truncated.",
                path=self.path,
                offset=offset,
                hint="Reload the file.",
            )
        fields = tuple(
            (name, self._text(name, data[at : at + length]), at, length)
            for name, at, length in sorted(self.layout.fields(), key=lambda f: f[1])
        )
        return RecordView(offset, data, fields)

    def spare(self, check: Callable[[], None] = lambda: None) -> U32:
        """Return the spare number behind each source of all records, uint32[n, 4].

        What our own tracer puts there (see ``resources/docs/ring-format.md``) means
        nothing in files of others. Only of layouts with sources.

        Raises
        ------
        ReadError
            If the file cannot be read any more.
        """
        assert self.layout.source is not None
        size, first = self.layout.size, 24 + self.layout.dst_width
        each = self.layout.source.itemsize
        at = [(first + (k + 1) * each) // 4 - 1 for k in range(4)]
        with Source(self.path) as source:
            spare = np.zeros((source.size // size, 4), np.uint32)
            for offset, block in source.blocks(0, len(spare) * size):
                check()
                values = block[: len(block) // size * size].view("<u4")
                rows = values.reshape(-1, size // 4)[:, at]
                spare[offset // size : offset // size + len(rows)] = rows
        return spare

    def _text(self, name: str, raw: bytes) -> str:
        """Return a field's value as people read it; N/A for sentinels."""
        field = name.rpartition(".")[2]
        if field.endswith("name") or field == "backend":
            text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
            return repr(text) if text else NOT_AVAILABLE
        if field.startswith("pad"):
            return raw.hex(" ") if any(raw) else "0"
        if field == "expert_ids":
            return ", ".join(map(str, np.frombuffer(raw, "<i4").tolist()))
        value = int.from_bytes(raw, "little")
        if value == _MISSING.get(field):
            return NOT_AVAILABLE
        if field == "operation_type":
            if self.layout.has_ggml_ops and value >= FIRST_EXTENSION_OP:
                return f"{value} = extension record"
            return f"{value} = {self.ops.name(value)}" if self.ops else str(value)
        if field in _WORDS:
            offset = _WORDS[field]
            return f"{value} = {offset[value]}" if value < len(offset) else str(value)
        if field in _POINTERS:
            return f"0x{value:x}"
        if field == "size_bytes":
            return f"{value:,} = {format_bytes(value)}"
        return f"{value:,}" if field == "timestamp_ns" else str(value)


THRESHOLD = 0.55
"""Below this score nothing is claimed."""

STRONG = 0.8
"""From this score on, hardly anything but a trace looks like that."""

_SAMPLE = 128
_SHORT_RUN = 32
_DAY_NS = 86_400 * 10**9

Fetch = Callable[[int, int], U8]


@dataclass(frozen=True, slots=True)
class Match:
    """A layout and how well it fits, 0..1."""

    layout: RecordLayout
    score: float


@lru_cache(maxsize=2)  # who recognises a file is then asked what it would cost
def detect_head(data: bytes, file_size: int) -> Match | None:
    """Return the best layout for the head of a file, or None if none fits."""
    head = np.frombuffer(data, np.uint8)
    used = np.flatnonzero(head)
    if not len(used) or int(np.count_nonzero(head)) == len(head):
        return None
    end = len(head) if len(head) < file_size else int(used[-1]) + 1
    return _best(_slices_of(head), int(used[0]), end, len(head), file_size)


def _slices_of(data: U8) -> Fetch:
    def fetch(offset: int, length: int) -> U8:
        return data[offset : offset + length]

    return fetch


def detect(source: Source, begin: int, end: int) -> Match | None:
    """Return the best layout for a whole file, or None if none fits.

    Parameters
    ----------
    begin, end : offsets of the first non-zero byte and behind the last one.
    """
    if source.size <= HEAD_BYTES:  # who recognised it has judged the whole of it
        match = detect_head(source.head(HEAD_BYTES), source.size)
        if match is not None:
            return match
    fetch: Fetch = source.array
    if source.size <= SMALL_BYTES:
        fetch = _slices_of(source.array(0, source.size))
    return _best(fetch, begin, end, source.size, source.size)


def _best(
    fetch: Fetch, begin: int, end: int, available: int, file_size: int
) -> Match | None:
    matches = []
    for layout in LAYOUTS.values():
        score = _score(layout, fetch, begin, end, available)
        if file_size % layout.size:
            score *= 0.97
        matches.append(Match(layout, score))
    best = max(matches, key=lambda match: match.score)
    return best if best.score >= THRESHOLD else None


def _score(
    layout: RecordLayout, fetch: Fetch, begin: int, end: int, available: int
) -> float:
    """Return how well a layout fits, 0..1."""
    size = layout.size
    first = begin // size
    stop = min(-(-end // size), available // size)
    if stop <= first:
        return 0.0
    near = min(_SAMPLE, stop - first)
    block = fetch(first * size, near * size)
    rows = block[: len(block) // size * size].reshape(-1, size)
    short_zeros = _short_zero_share(_zero(rows))
    if stop - first > near:
        n_far = min(_SAMPLE, stop - first - near)
        spread = np.linspace(first + near, stop - 1, n_far).astype(np.int64)
        far = [fetch(row * size, size) for row in spread.tolist()]
        whole = [row for row in far if len(row) == size]
        rows = np.concatenate([rows, *(row[None] for row in whole)])
    rows = np.ascontiguousarray(rows[rows.any(axis=1)])
    if not len(rows):
        return 0.0
    records = rows.view(layout.dtype).reshape(-1)
    # A record that ends with its header has little to say for itself.
    share = _judge(layout, records, rows) * np.where(rows[:, 24:].any(axis=1), 1, 0.5)
    return float(np.mean(share**4) * _share_in_time(records) * (1.0 - short_zeros) ** 2)


def _short_zero_share(is_zero: Array) -> float:
    """Return the share of zero records in short runs.

    A wrong stride leaves single empty records between used ones; a batch that was
    lost leaves hundreds.
    """
    edges = np.flatnonzero(np.diff(is_zero, prepend=False, append=False))
    runs = edges[1::2] - edges[0::2]
    return float(runs[runs < _SHORT_RUN].sum()) / max(len(is_zero), 1)


def _share_in_time(records: Array) -> float:
    """Return the share of time stamps within a day of the median."""
    stamps = np.minimum(records["timestamp_ns"], np.uint64(1 << 62)).astype(np.int64)
    return float(np.mean(np.abs(stamps - int(np.median(stamps))) < _DAY_NS))


class _Tally:
    """Sums up, per record, the weights of the checks passed and of all checks."""

    def __init__(self, n: int) -> None:
        self.passed = np.zeros(n)
        self.total = np.zeros(n)

    def check(self, weight: float, passed: Array, where: Array | None = None) -> None:
        """Add a check: `passed` is bool or a share, on the records `where`, or all."""
        earned = weight * passed
        self.passed += earned if where is None else earned * where
        self.total += weight if where is None else weight * where

    def share(self) -> F64:
        """Return the share of the weight that each record has earned."""
        return self.passed / self.total


def _judge(layout: RecordLayout, records: Array, rows: U8) -> F64:
    tally = _Tally(len(records))
    stamps = records["timestamp_ns"]
    tally.check(2, (stamps > 0) & (stamps < np.uint64(1 << 62)))
    tally.check(2, _good_layer(records["layer_id"]))
    if layout.id == "buffer128":
        _judge_buffer_event(tally, records, rows)
        return tally.share()
    token = records["token_id"]
    op = records["operation_type"]
    tally.check(1, (token < 1 << 20) | (token == NO_INDEX))
    tally.check(
        2, ((op > 0) & (op < 160)) | ((op >= FIRST_EXTENSION_OP) & layout.has_ggml_ops)
    )
    tally.check(2, records["phase"] <= 1)
    if layout.source is not None:
        _judge_sources(tally, layout, records, rows)
    else:
        _judge_single_source(tally, layout, records, rows)
    return tally.share()


def _judge_sources(
    tally: _Tally, layout: RecordLayout, records: Array, rows: U8
) -> None:
    assert layout.source is not None
    count = records["num_sources"]
    tally.check(3, count <= 4)
    tally.check(3, _good_name(rows[:, 24 : 24 + layout.dst_width]))
    tally.check(0.5, _zero(rows[:, 19:24]))
    first, size = 24 + layout.dst_width, layout.source.itemsize
    name_width = size - 32
    for k in range(4):
        used = count > k
        part = rows[:, first + k * size : first + (k + 1) * size]
        source = records["sources"][:, k]
        tally.check(2, _good_name(part[:, :name_width]), used)
        tally.check(1, source["tensor_ptr"] < np.uint64(1 << 57), used)
        tally.check(0.5, source["size_bytes"] > 0, used)
        tally.check(1, _good_layer(source["layer_id"]), used)
        tally.check(1, source["memory_source"] <= 1, used)
        tally.check(0.3, _zero(part[:, -4:]), used)
        # Our own tracer uses the last bytes of every source, listed or not.
        tally.check(2, _zero(part[:, :-4]), ~used)
    if layout.has_experts:
        tally.check(1, records["num_experts"] <= 16)
        tally.check(0.5, _zero(rows[:, 857:]))


def _judge_single_source(
    tally: _Tally, layout: RecordLayout, records: Array, rows: U8
) -> None:
    offset, pointer = records["file_offset"], records["tensor_ptr"]
    tally.check(2, _zero(rows[:, 18:24]))
    tally.check(
        2, (pointer < np.uint64(1 << 57)) & ((pointer == 0) | (pointer >= 4096))
    )
    tally.check(1, (offset < np.uint64(1 << 48)) | (offset == np.uint64(NO_OFFSET)))
    tally.check(1, records["size_bytes"] > 0)
    for name in ("padding0", "padding2", "padding3"):
        if name in (records.dtype.names or ()):
            tally.check(1, records[name] == np.zeros((), records[name].dtype))
    for name in ("attention_head", "qkv_type", "expert_id", "expert_rank"):
        tally.check(0.5, (records[name] < 128) | (records[name] == 255))
    if layout.dst_width:
        tally.check(6, _good_name(rows[:, 64:128]))
    else:
        op = records["operation_type"]
        tally.check(2, (op >= 1) & (op <= 3) & (pointer != 0))


def _judge_buffer_event(tally: _Tally, records: Array, rows: U8) -> None:
    tally.check(2, records["event_type"] <= 1)
    tally.check(2, records["usage"] <= 2)
    tally.check(1, records["buffer_id"] < np.uint64(1 << 57))
    tally.check(1, records["buffer_ptr"] < np.uint64(1 << 57))
    tally.check(1, records["size_bytes"] < np.uint64(1 << 48))
    tally.check(4, _good_name(rows[:, 36:100]))
    tally.check(3, _good_name(rows[:, 100:116]))
    tally.check(1, _zero(rows[:, 116:]))


def _good_layer(layer: Array) -> Bools:
    return np.asarray((layer < 1024) | (layer == NO_LAYER))


def _zero(rows: U8) -> Bools:
    return np.asarray(~rows.any(axis=1))


def _good_name(rows: U8) -> F64:
    """Return 1 for text followed by zeros, 0.7 for an empty field, else 0."""
    used = rows != 0
    in_text = np.logical_and.accumulate(used, axis=1)
    is_printable = (rows >= 0x20) & (rows != 0x7F)
    is_good = ((used == in_text) & (is_printable | ~used)).all(axis=1)
    return np.asarray(is_good * np.where(used[:, 0], 1.0, 0.7))
