"""What the records of a tensor trace touch, decoded once per distinct pattern.

Names become string ids and tensors, sources become access rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from ggscope.model.names import is_weight_name, layer_of, parse
from ggscope.model.tables import (
    I16,
    I32,
    I64,
    AccessColumns,
    AccessKind,
    Array,
    Bools,
    Space,
    StringTable,
    narrow,
)
from ggscope.model.tensors import Buffers, BufferUsage, Tensors
from ggscope.model.trace import OpTable, RawFileValues
from ggscope.readers.chunked import ChunkedOps, ChunkedTable
from ggscope.readers.tensor.layouts import NO_EXPERT, NO_INDEX, RecordLayout

_MAX_OFFSET = np.uint64(1 << 62)
_SOURCE_DTYPES = {
    "tensor": np.int32,
    "space": np.uint8,
    "offset": np.int64,
    "size": np.int64,
    "buffer_id": np.uint64,
    "layer": np.int16,
    "expert": np.int16,
    "address": np.uint64,
    "raw_name": np.int32,
    "raw_layer": np.int32,
    "index": np.int64,
    "is_zero": np.bool_,
    "listed": np.int16,
    "is_choice": np.bool_,
}
"""Columns of accesses; of these no model column are ``is_zero`` (the record says place
0), ``listed`` (the expert that its own field names, -1 none) and ``is_choice`` (its
rank or score is set)."""
_PATTERN_DTYPES = {
    "count": np.int64,
    "name": np.int32,
    "tensor": np.int32,
    "layer": np.int16,
    "is_cut": np.bool_,
    "raw_name": np.int32,
    "raw_layer": np.int32,
    "n_sources": np.int16,
    "lists_experts": np.bool_,
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DECODED_AT_ONCE = 2048


@dataclass(slots=True)
class _Names:
    """Distinct raw names: string ids, tensor row, layer, expert, whether cut."""

    index: dict[bytes, int] = field(default_factory=dict)
    raw: list[int] = field(default_factory=list)
    string: list[int] = field(default_factory=list)
    tensor: list[int] = field(default_factory=list)
    layer: list[int] = field(default_factory=list)
    expert: list[int] = field(default_factory=list)
    is_cut: list[bool] = field(default_factory=list)


class PatternDecoder:
    """Turns the first record of every pattern into columns.

    Parameters
    ----------
    strings : takes the names.
    ops : names the ops of sources that have no name of their own.
    claims_layers : the file's layer numbers mean something (a field that is zero
        throughout was never set).
    """

    def __init__(
        self,
        layout: RecordLayout,
        strings: StringTable,
        ops: OpTable,
        *,
        claims_layers: bool = True,
    ) -> None:
        self._layout = layout
        self._strings = strings
        self._ops = ops
        self._claims_layers = claims_layers
        self._names: dict[int, _Names] = {}
        self._row_of_base: dict[str, int] = {}
        self._tensor_name: list[int] = []
        self._tensor_layer: list[int] = []
        self._tensor_expert: list[int] = []
        self._patterns = ChunkedTable(**_PATTERN_DTYPES)
        self._sources = ChunkedTable(**_SOURCE_DTYPES)

    def add(self, records: Array) -> None:
        """Decode `records`, a structured array of the layout, one per pattern."""
        if self._layout.source is not None:
            self._add_sources(records)
        else:
            self._add_single(records)

    def patterns(self, name: str) -> Array:
        """Return a column of the patterns.

        ``count`` of their accesses; of the destination ``name`` (string id),
        ``tensor``, ``layer`` and ``is_cut``.
        """
        return self._patterns.column(name)

    def accesses(self) -> tuple[AccessColumns, Buffers]:
        """Return the accesses of all patterns, and the buffers they lie in."""
        c = {name: self._sources.column(name) for name in _SOURCE_DTYPES}
        n = len(c["tensor"])
        self._settle_zeros(c)
        self._settle_experts(c)
        in_buffer = (c["space"] == Space.BUFFER) & (c["buffer_id"] != 0)
        ids, row = np.unique(c["buffer_id"][in_buffer], return_inverse=True)
        buffer = np.full(n, -1, np.int32)
        buffer[in_buffer] = row
        columns = AccessColumns(
            tensor=c["tensor"],
            kind=np.full(n, AccessKind.READ, np.uint8),
            space=c["space"],
            offset=c["offset"],
            size=c["size"],
            buffer=buffer,
            layer=c["layer"],
            expert=c["expert"],
            address=c["address"],
        )
        return columns, self._buffers(ids)

    def _settle_zeros(self, columns: dict[str, Array]) -> None:
        """Decide what offset 0 means: the place of a tensor, none, or no weight.

        One tensor of several may begin the data of a file. Where others say 0 too, or
        nothing says more than 0, the field was not set. Records of one access have no
        field for where it goes: there 0 is a runtime tensor's, if weights have places.
        """
        is_zero, space, offset = columns["is_zero"], columns["space"], columns["offset"]
        tensor = columns["tensor"]
        has_places = bool((offset > 0).any())
        if self._layout.source is not None:
            at_zero = np.unique(tensor[is_zero & (space == Space.FILE)])
            if len(at_zero) > 1 or not has_places:
                columns["offset"] = np.where(is_zero, np.int64(-1), offset)
        elif has_places:
            is_weight = np.array(list(map(is_weight_name, self._row_of_base)), np.bool_)
            is_weight[tensor[offset > 0]] = True
            runtime = is_zero & ~is_weight[tensor]
            columns["space"] = np.where(runtime, np.uint8(Space.BUFFER), space)

    def _settle_experts(self, columns: dict[str, Array]) -> None:
        """Take the experts that records name in a field of their own.

        A writer that never says "none" leaves zeros: no choice of expert 0.
        """
        listed = columns["listed"]
        is_set = listed >= 0
        if is_set.all():
            is_set = (listed > 0) | columns["is_choice"]
        columns["expert"] = np.where(is_set, listed, columns["expert"])

    def claims(self) -> RawFileValues:
        """Return what the records say word for word."""
        patterns, sources = self._patterns.column, self._sources.column
        return RawFileValues(
            name=patterns("raw_name"),
            layer=patterns("raw_layer"),
            n_sources=patterns("n_sources"),
            lists_experts=patterns("lists_experts"),
            source_name=sources("raw_name"),
            source_layer=sources("raw_layer"),
            source_index=sources("index"),
            source_is_zero=sources("is_zero"),
            has_results=self._layout.source is not None,
        )

    def tensors(self, accesses: AccessColumns) -> Tensors:
        """Return the tensors, sized and placed by `accesses`."""
        n = len(self._row_of_base)
        size = np.full(n, -1, np.int64)
        known = accesses.tensor >= 0
        np.maximum.at(size, accesses.tensor[known], accesses.size[known])
        unplaced = np.iinfo(np.int64).max
        offset = np.full(n, unplaced, np.int64)
        placed = known & (accesses.offset >= 0)
        np.minimum.at(offset, accesses.tensor[placed], accesses.offset[placed])
        offset[offset == unplaced] = -1
        return Tensors(
            name=self._tensor_names(),
            offset=offset,
            size=size,
            layer=np.array(self._tensor_layer, np.int16),
            expert=np.array(self._tensor_expert, np.int16),
        )

    def _buffers(self, ids: Array) -> Buffers:
        n = len(ids)
        names = [f"buffer 0x{number:x}" for number in ids.tolist()]
        return Buffers(
            name=self._strings.intern_many(names),
            backend=np.full(n, -1, np.int32),
            usage=np.full(n, BufferUsage.ANY, np.uint8),
            size=np.full(n, -1, np.int64),
            allocated=np.full(n, -1, np.int64),
            freed=np.full(n, -1, np.int64),
            address=ids.astype(np.uint64),
        )

    def _add_sources(self, records: Array) -> None:
        raw_names = records["dst_name"].tolist()
        name, tensor, stated_layer, _, is_cut = self._resolved(
            raw_names, self._layout.dst_width
        )
        layer = _claimed(records["layer_id"])
        n_slots = records["sources"].shape[1]
        count = np.minimum(records["num_sources"], n_slots)
        source = records["sources"][np.arange(n_slots) < count[:, None]]
        op = np.repeat(records["operation_type"], count)
        part = self._access_part(
            source, source["name"].tolist(), self._layout.source_width, op
        )
        where = source["disk_offset_or_buffer_id"]
        in_file, in_buffer = source["memory_source"] == 0, source["memory_source"] == 1
        space = np.full(len(source), Space.UNKNOWN, np.uint8)
        space[in_file] = Space.FILE
        space[in_buffer] = Space.BUFFER
        part["space"] = space
        part["offset"] = _offsets(where, in_file)
        part["is_zero"] = in_file & (where == 0)
        part["listed"] = np.full(len(source), -1, np.int16)
        part["is_choice"] = np.zeros(len(source), np.bool_)
        part["buffer_id"] = np.where(in_buffer, where, np.uint64(0))
        self._sources.append(**part)
        self._patterns.append(
            count=count.astype(np.int64),
            name=name,
            tensor=tensor,
            layer=np.where(layer < 0, stated_layer, layer),
            is_cut=is_cut,
            **self._claims_of(records, raw_names, self._layout.dst_width),
            n_sources=records["num_sources"],
        )

    def _add_single(self, records: Array) -> None:
        n, width = len(records), self._layout.dst_width
        names = records["tensor_name"].tolist() if width else [b""] * n
        part = self._access_part(records, names, width, records["operation_type"])
        offset = _offsets(records["file_offset"], records["file_offset"] != 0)
        part["offset"] = offset
        part["space"] = np.where(offset < 0, Space.UNKNOWN, Space.FILE).astype(np.uint8)
        part["is_zero"] = records["file_offset"] == 0
        part |= _listed_experts(records)
        part["buffer_id"] = np.zeros(n, np.uint64)
        self._sources.append(**part)
        name, _, _, _, is_cut = self._resolved(names, width)
        bases = self._tensor_names()
        self._patterns.append(
            count=np.ones(n, np.int64),
            name=np.where(name < 0, bases[part["tensor"]], name),
            tensor=part["tensor"],
            layer=part["layer"],
            is_cut=is_cut,
            **self._claims_of(records, names, width),
            n_sources=np.ones(n, np.int16),
        )

    def _claims_of(
        self, records: Array, names: Sequence[bytes], width: int
    ) -> dict[str, Array]:
        """Return what the records say word for word, but for their sources."""
        experts = np.zeros(len(records), np.uint8)
        if self._layout.has_experts:
            experts = records["num_experts"]
        return {
            "raw_name": self._raw_names(names, width),
            "raw_layer": _claimed(records["layer_id"]),
            "lists_experts": experts != 0,
        }

    def _access_part(
        self, source: Array, names: Sequence[bytes], width: int, op: Array
    ) -> dict[str, Array]:
        """Return the columns that every layout's sources share."""
        _, tensor, stated_layer, expert, _ = self._resolved(names, width)
        pointers = source["tensor_ptr"].astype(np.uint64)
        for i in np.flatnonzero(tensor < 0).tolist():
            text = f"{self._ops.name(int(op[i]))}@0x{int(pointers[i]):x}"
            tensor[i] = self._tensor_row(text, -1, -1)
        layer = _claimed(source["layer_id"])
        if not self._claims_layers:
            layer[:] = -1
        index = source["tensor_idx"]  # numbers of a registry
        return {
            "tensor": tensor,
            "size": source["size_bytes"].astype(np.int64),
            "layer": np.where(layer < 0, stated_layer, layer),
            "expert": expert,
            "address": pointers,
            "raw_name": self._raw_names(names, width),
            "raw_layer": _claimed(source["layer_id"]),
            "index": np.where(index == NO_INDEX, -1, index.astype(np.int64)),
        }

    def _tensor_row(self, text: str, layer: int, expert: int) -> int:
        row = self._row_of_base.get(text)
        if row is None:
            row = self._row_of_base[text] = len(self._row_of_base)
            self._tensor_layer.append(layer)
            self._tensor_expert.append(expert)
        return row

    def _tensor_names(self) -> I32:
        """Return the string id of the base name of each tensor so far."""
        new = list(islice(self._row_of_base, len(self._tensor_name), None))
        self._tensor_name += self._strings.intern_many(new).tolist()
        return np.array(self._tensor_name, np.int32)

    def _resolved(
        self, raw: Sequence[bytes], width: int
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Return string id, tensor, layer, expert and is-cut of each raw name."""
        names = self._names.setdefault(width, _Names())
        new = [name for name in dict.fromkeys(raw) if name not in names.index]
        if new:
            self._decode(names, new, width)
        at = np.fromiter(map(names.index.__getitem__, raw), np.int64, len(raw))
        return (
            np.array(names.string, np.int32)[at],
            np.array(names.tensor, np.int32)[at],
            np.array(names.layer, np.int16)[at],
            np.array(names.expert, np.int16)[at],
            np.array(names.is_cut, np.bool_)[at],
        )

    def _raw_names(self, raw: Sequence[bytes], width: int) -> Array:
        """Return the string id of each raw name that `_resolved` knows."""
        names = self._names[width]
        at = np.fromiter(map(names.index.__getitem__, raw), np.int64, len(raw))
        return np.array(names.raw, np.int32)[at]

    def _decode(self, names: _Names, new: Sequence[bytes], width: int) -> None:
        """Learn raw names; writers cut names one byte before the field's end."""
        first = len(names.string)
        names.index.update(zip(new, range(first, first + len(new)), strict=True))
        filled = [raw.split(b"\0", 1)[0] for raw in new]
        written = [text.decode("utf-8", "replace") for text in filled]
        readable = [_CONTROL.sub("\ufffd", text).strip() for text in written]
        names.raw += _interned(self._strings, written)
        names.string += _interned(self._strings, readable)
        for raw, text in zip(filled, readable, strict=True):
            is_cut = len(raw) >= max(width - 1, 1)
            tensor = layer = expert = -1
            if text:
                parsed = parse(text)
                # A number that touches the cut may have lost digits.
                is_doubtful = is_cut and text[-1].isdigit()
                layer = layer_of(text + "…") if is_doubtful else parsed.layer
                expert = parsed.expert if parsed.expert < 1 << 15 else -1
                base = parsed.base or f"({parsed.suffixes[0]})"
                tensor = self._tensor_row(base, layer, expert)
            names.tensor.append(tensor)
            names.layer.append(layer)
            names.expert.append(expert)
            names.is_cut.append(is_cut and bool(text))


def _interned(strings: StringTable, texts: Sequence[str]) -> list[int]:
    """Return the id of each text; -1 for ""."""
    ids = iter(strings.intern_many([text for text in texts if text]).tolist())
    return [next(ids) if text else -1 for text in texts]


def _claimed(layer: Array) -> I16:
    """Return a claimed layer number as int16, -1 for none and impossible ones."""
    return np.where(layer < 1 << 15, layer, 0xFFFF).astype(np.uint16).view(np.int16)


def _listed_experts(records: Array) -> dict[str, Array]:
    """Return the columns of the expert that each record names in its own field."""
    if "expert_id" not in (records.dtype.names or ()):
        n = len(records)
        return {"listed": np.full(n, -1, np.int16), "is_choice": np.zeros(n, np.bool_)}
    expert, rank = records["expert_id"], records["expert_rank"]
    is_ranked = (rank != 0) & (rank != NO_EXPERT)
    return {
        "listed": np.where(expert == NO_EXPERT, np.int16(-1), expert.astype(np.int16)),
        "is_choice": is_ranked | (records["routing_score"] != 0),
    }


def _offsets(where: Array, in_file: Array) -> I64:
    """Return file offsets, -1 where there is none."""
    known = in_file & (where < _MAX_OFFSET)
    offset = np.where(known, where, np.uint64(0)).astype(np.int64)
    offset[~known] = -1
    return offset


def _joined(parts: Sequence[Array], dtype: type) -> Array:
    """Return the parts in one array of `dtype`."""
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype, copy=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Patterns:
    """What the records touch, once per distinct pattern.

    Attributes
    ----------
    first : int64[n_patterns + 1]; pattern p makes the accesses
        ``columns[first[p] : first[p + 1]]``.
    columns : the accesses.
    name : string id of the destination, -1 without name.
    tensor : row of `tensors` for the destination.
    layer : claimed by the record, else by its name; -1 none.
    is_cut : bool, the destination's name fills its field and may go on.
    claims : what the records say word for word.

    Notes
    -----
    name, tensor, layer and is_cut have one row more than there are patterns: row -1
    is what a record without a pattern gets.
    """

    first: I64
    columns: AccessColumns
    name: Array
    tensor: Array
    layer: Array
    is_cut: Bools
    tensors: Tensors
    buffers: Buffers
    claims: RawFileValues


def decode_patterns(
    exemplars: Array, decoder: PatternDecoder, chunked: ChunkedOps
) -> Patterns:
    """Return what `decoder` makes of the first record of each pattern.

    Parameters
    ----------
    exemplars : structured array of the decoder's layout.
    """
    for chunk in chunked.slices(len(exemplars), size=_DECODED_AT_ONCE):
        decoder.add(exemplars[chunk])
    columns, buffers = decoder.accesses()
    first = np.concatenate([[0], np.cumsum(decoder.patterns("count"))]).astype(np.int64)
    return Patterns(
        first=first,
        columns=columns,
        name=narrow(np.append(decoder.patterns("name"), -1)),
        tensor=narrow(np.append(decoder.patterns("tensor"), -1)),
        layer=narrow(np.append(decoder.patterns("layer"), -1)),
        is_cut=np.append(decoder.patterns("is_cut"), False),
        tensors=decoder.tensors(columns),
        buffers=buffers,
        claims=decoder.claims(),
    )
