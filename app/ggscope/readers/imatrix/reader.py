"""Reader of importance matrices, ``imatrix.dat`` and ``imatrix.gguf``.

Source: ``tools/imatrix/imatrix.cpp`` of llama.cpp (``save_imatrix`` and
``save_imatrix_legacy``). Legacy, little-endian: ``i32 n``, then n times ``i32 length,
name, i32 ncall, i32 nval, f32[nval]``, then ``i32 last_chunk, i32 length, dataset``;
values are means of squares times ncall, and an expert that was never used has ncall in
all its values. GGUF: ``general.type`` is "imatrix"; ``NAME.in_sum2`` of [columns,
experts] and ``NAME.counts`` of [1, experts].
"""

import re
import struct
from dataclasses import dataclass, field

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.importance import Importance
from ggscope.model.tensors import Tensors
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.common.gguf_header import (
    IS_IMATRIX,
    GgufHeader,
    GgufTensor,
    read_header,
)
from ggscope.readers.imatrix import INFO
from ggscope.readers.source import Source

_MAX_BYTES = 8 << 30
_MAX_ENTRIES, _MAX_NAME, _MAX_VALUES = 1 << 20, 512, 1 << 28
_MAX_MATRICES = 1 << 14
_LAYER = re.compile(r"^blk\.(\d{1,4})\.")
_NAME = re.compile(rb"[\x21-\x7e]{1,512}")
_SUMS, _COUNTS = ".in_sum2", ".counts"
_F32 = 0
_WIDTHS = ("ffn_gate_inp.weight", "attn_q.weight", "attn_qkv.weight", "attn_k.weight")
"""Tensors that are as wide as the input of a layer's experts."""
_STACK = re.compile(r"ffn_(gate|up|gate_up)_exps\.weight$")


class ImatrixReader:
    """Reads importance matrices."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its GGUF keys, or by the first entry of the legacy form."""
        if head.data.startswith(b"GGUF"):
            if IS_IMATRIX.search(head.data):
                return Sniff(100, "GGUF with general.type = imatrix")
            return NOT_MINE
        entry = _first_entry(head.data, head.size)
        if entry is None:
            return NOT_MINE
        is_weight = entry.endswith(".weight")
        return Sniff(85 if is_weight else 40, f"first entry of an imatrix, {entry}")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the entries.

        Raises
        ------
        CorruptError
            If not one entry can be read.
        """
        refuse_larger(source, _MAX_BYTES, "No imatrix is as large.")
        context.progress(0, source.size)
        builder = TraceBuilder()
        if source.head(4) == b"GGUF":
            entries = _read_gguf(source, context, builder)
        else:
            entries = _read_legacy(source, context, builder)
        if not entries.names:
            raise CorruptError(
                "no entry of an imatrix can be read.",
                offset=0,
                hint="Is this what llama-imatrix wrote?",
            )
        context.progress(source.size, source.size)
        builder.importance = importance = entries.importance()
        # So a matrix alone lists its tensors; where they lie only the model states.
        builder.tensors = _tensors(builder, importance)
        chunks = entries.chunks if entries.chunks >= 0 else None
        events = {"entries": len(entries.names), "chunks": chunks}
        producer = {"dataset": ", ".join(entries.datasets)} if entries.datasets else {}
        return file_trace(
            builder, INFO, source, len(entries.names), events,
            version=entries.form, producer=producer,
        )  # fmt: skip


def _tensors(builder: TraceBuilder, importance: Importance) -> Tensors:
    """Return a tensor for each entry, of unknown place and size."""
    n, layer = len(importance), importance.layer
    return Tensors(
        name=np.array(builder.strings.intern_many(importance.names), np.int32),
        offset=np.full(n, -1, np.int64),
        size=np.full(n, -1, np.int64),
        layer=np.where(layer < 1 << 15, layer, -1).astype(np.int16),
        expert=np.full(n, -1, np.int16),
    )


def _first_entry(data: bytes, size: int) -> str | None:
    """Return the name of the first legacy entry; None where there is none."""
    if len(data) < 20:
        return None
    n, length = struct.unpack_from("<ii", data)
    if not 0 < n < _MAX_ENTRIES or not 0 < length <= _MAX_NAME:
        return None
    name = data[8 : 8 + length]
    if len(data) < 16 + length or _NAME.fullmatch(name) is None:
        return None
    n_calls, n_values = struct.unpack_from("<ii", data, 8 + length)
    if n_calls < 0 or not 0 < n_values < _MAX_VALUES or 16 + 4 * n_values > size * 2:
        return None
    return name.decode()


@dataclass(slots=True)
class _Entries:
    """Entries as they come."""

    form: str
    names: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    counts: list[np.ndarray] = field(default_factory=list)
    seen: list[np.ndarray] = field(default_factory=list)
    squares: list[np.ndarray] = field(default_factory=list)
    is_split: list[bool] = field(default_factory=list)
    chunks: int = -1
    chunk_size: int = -1
    datasets: tuple[str, ...] = ()

    def add(
        self,
        name: str,
        n_values: int,
        count: np.ndarray,
        seen: np.ndarray,
        squares: np.ndarray,
        *,
        is_split: bool,
    ) -> None:
        """Add an entry; a value per matrix in the last arrays."""
        self.names.append(name)
        self.values.append(n_values)
        self.counts.append(count)
        self.seen.append(seen)
        self.squares.append(squares)
        self.is_split.append(is_split)

    def importance(self) -> Importance:
        """Return them as columns."""
        layers = [_LAYER.match(name) for name in self.names]
        return Importance(
            names=tuple(self.names),
            layer=np.array([int(m[1]) if m else -1 for m in layers], np.int64),
            n_values=np.array(self.values, np.int64),
            first=np.cumsum([0, *map(len, self.counts)]).astype(np.int64),
            count=np.concatenate(self.counts).astype(np.float64),
            is_seen=np.concatenate(self.seen).astype(np.int8),
            mean_square=np.concatenate(self.squares).astype(np.float64),
            is_split=np.array(self.is_split, np.bool_),
            chunks=self.chunks,
            chunk_size=self.chunk_size,
            datasets=self.datasets,
            form=self.form,
        )


# -- legacy ------------------------------------------------------------------


def _read_legacy(
    source: Source, context: ReadContext, builder: TraceBuilder
) -> _Entries:
    entries = _Entries("dat")
    (stated,) = struct.unpack("<i", source.read(0, 4))
    offset = 4
    raw: list[tuple[str, int, np.ndarray]] = []
    while len(raw) < stated and (row := _entry(source, offset)) is not None:
        name, n_calls, values, offset = row
        raw.append((name, n_calls, values))
        context.progress(offset, source.size)
    if len(raw) < stated:
        builder.warn(
            Severity.DATA_LOSS,
            "imatrix_cut",
            "entries of the imatrix are cut or damaged.",
            offset=offset,
            count=stated - len(raw),
        )
    elif not _read_tail(source, offset, entries):
        builder.warn(
            Severity.DATA_LOSS,
            "imatrix_cut",
            "the end of the imatrix, with the name of its text, is cut or damaged.",
            offset=offset,
        )
    widths = {name: len(values) for name, _, values in raw}
    for name, n_calls, values in raw:
        n = _n_experts(name, len(values), widths)
        _add_legacy(entries, name, n_calls, values, n)
    return entries


def _entry(source: Source, offset: int) -> tuple[str, int, np.ndarray, int] | None:
    """Return name, calls, values and the next offset; None where it is damaged."""
    if offset + 4 > source.size:
        return None
    (length,) = struct.unpack("<i", source.read(offset, 4))
    if not 0 < length <= _MAX_NAME or offset + 12 + length > source.size:
        return None
    raw = source.read(offset + 4, length + 8)
    n_calls, n_values = struct.unpack_from("<ii", raw, length)
    offset += 12 + length
    if not 0 < n_values < _MAX_VALUES or offset + 4 * n_values > source.size:
        return None
    values = np.frombuffer(source.read(offset, 4 * n_values), "<f4")
    name = raw[:length].decode("utf-8", "replace")
    return name, n_calls, values, offset + 4 * n_values


def _read_tail(source: Source, offset: int, entries: _Entries) -> bool:
    """Read the number of chunks and the name of the text; old files lack both.

    Return whether it is whole.
    """
    left = source.size - offset
    if not left:
        return True
    if left < 8:
        return False
    entries.chunks, length = struct.unpack("<ii", source.read(offset, 8))
    if not 0 <= length <= left - 8:
        return False
    text = source.read(offset + 8, length).decode("utf-8", "replace")
    entries.datasets = (text,) if text else ()
    return True


def _n_experts(name: str, n_values: int, widths: dict[str, int]) -> int:
    """Return the matrices of a stacked tensor by the width of its layer; 0 unknown."""
    if "_exps." not in name:
        return 1
    front = name[: name.rfind(".", 0, name.rfind(".")) + 1]
    stack = name
    if _STACK.search(name) is None:  # what comes out of the experts has another width
        stacks = [front + s for s in ("ffn_gate_exps.weight", "ffn_up_exps.weight")]
        stack = next((s for s in stacks if s in widths), "")
    width = next((widths[front + w] for w in _WIDTHS if front + w in widths), 0)
    total = widths.get(stack, 0)
    n = total // width if width and total and not total % width else 0
    fits = 1 < n <= _MAX_MATRICES and not n_values % n
    return n if fits else 0


def _add_legacy(
    entries: _Entries, name: str, n_calls: int, values: np.ndarray, n: int
) -> None:
    with np.errstate(invalid="ignore"):  # damaged files hold numbers that are none
        parts = values.astype(np.float64).reshape(max(n, 1), -1)
    # llama-imatrix fills in what it has no data of.
    unused = (parts == n_calls).all(axis=1)
    square = np.full(len(parts), np.nan)
    sound = np.isfinite(parts).all(axis=1) & (n_calls > 0)
    square[sound] = parts[sound].mean(axis=1) / n_calls
    if n == 1:
        unused[:] = False
    seen = np.where(unused, 0, 1) if n else np.full(len(parts), -1)
    square = np.where(unused, np.nan, square)
    entries.add(
        name, len(values), np.full(len(parts), np.nan), seen, square, is_split=n > 1
    )


# -- GGUF ----------------------------------------------------------------------


def _read_gguf(source: Source, context: ReadContext, builder: TraceBuilder) -> _Entries:
    entries = _Entries("gguf")
    header = read_header(source, context.check_cancelled)
    for warning in header.warnings:
        builder.warn(
            warning.severity, warning.code, warning.message, warning.offset,
            warning.count, place=warning.place, remedy=warning.remedy,
        )  # fmt: skip
    entries.chunks = header.integer("imatrix.chunk_count")
    entries.chunk_size = header.integer("imatrix.chunk_size")
    names = header.fields.get("imatrix.datasets")
    if names is not None and isinstance(names.value, tuple):
        entries.datasets = tuple(str(value) for value in names.value)
    counts = {t.name: t for t in header.tensors if t.name.endswith(_COUNTS)}
    n_lost = 0
    for tensor in header.tensors:
        if not tensor.name.endswith(_SUMS):
            continue
        context.check_cancelled()
        name = tensor.name.removesuffix(_SUMS)
        sums = _values(source, header, tensor)
        of_count = counts.get(name + _COUNTS)
        count = None if of_count is None else _values(source, header, of_count)
        if sums is None or count is None or not len(count) or len(sums) % len(count):
            n_lost += 1
            continue
        count = count.astype(np.float64)
        total = sums.astype(np.float64).reshape(len(count), -1).mean(axis=1)
        square = np.full(len(count), np.nan)
        np.divide(total, count, out=square, where=count > 0)
        entries.add(
            name, len(sums), count, np.where(count > 0, 1, 0), square,
            is_split=len(count) > 1,
        )  # fmt: skip
    builder.warn(
        Severity.DATA_LOSS,
        "imatrix_cut",
        "entries of the imatrix are cut or damaged.",
        count=n_lost,
    )
    return entries


def _values(
    source: Source, header: GgufHeader, tensor: GgufTensor
) -> np.ndarray | None:
    """Return the numbers of a tensor; None where they are not all there."""
    n = 1
    for size in tensor.shape:
        n *= size
    offset = header.data_offset + tensor.offset
    if tensor.type != _F32 or header.data_offset < 0 or not 0 < n < _MAX_VALUES:
        return None
    if offset < 0 or offset + 4 * n > source.size:
        return None
    dtype = ">f4" if header.is_big_endian else "<f4"
    values = np.frombuffer(source.read(offset, 4 * n), dtype)
    return values if np.isfinite(values).all() else None
