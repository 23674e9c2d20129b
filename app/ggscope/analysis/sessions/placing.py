"""Put what a mapping found into the tables of a trace: places, sizes, names, types."""

from dataclasses import dataclass, replace

import numpy as np

from ggscope.analysis.sessions.mapping import Mapping, ModelLayout
from ggscope.analysis.sessions.renumber import full_tensors
from ggscope.model.schema import stacked
from ggscope.model.tables import I64, AccessColumns, Array, Space
from ggscope.model.tensors import Place, SizeSource, Tensors
from ggscope.model.trace import Trace

_PADDING = 4096
"""No model file pads a tensor by more."""
_WRAPS = 1 << 32
"""Traces hold sizes in 32 bits: of larger tensors they tell nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Tables of the trace after mapping.

    Attributes
    ----------
    tensors : the trace's rows, then the model's that the trace does not have.
    columns : the access patterns, or None where nothing of them changed.
    n_completed, n_guessed : cut names that were completed, and how many of them by
        nothing but their beginning.
    """

    tensors: Tensors
    columns: AccessColumns | None
    n_completed: int
    n_guessed: int


def apply_mapping(trace: Trace, layout: ModelLayout, mapping: Mapping) -> Mapped:
    """Return the tensors and access patterns of `trace` with their places filled in.

    Rows of the trace keep their numbers. A guessed name ends in ``~``.
    """
    old = full_tensors(trace.tensors)
    n = len(old)
    model = _moved(layout, mapping)
    first = _first_of_each(trace, layout, mapping)
    row_of = np.full(len(layout), -1, np.int64)
    has = np.flatnonzero(first >= 0)
    row_of[has] = first[has]
    missing = np.flatnonzero(row_of < 0)
    row_of[missing] = n + np.arange(len(missing))
    filled, n_completed, n_guessed = _filled(trace, old, model, layout, mapping, first)
    tensors = stacked(filled, model.take(missing))
    patterns = trace.accesses.patterns
    if layout.is_stated and mapping.fit.delta:
        patterns = _counted_from_file(patterns, -mapping.fit.delta)
    columns = _pointed(patterns, tensors, mapping, row_of)
    if columns is None and patterns is not trace.accesses.patterns:
        columns = patterns
    return Mapped(tensors, columns, n_completed, n_guessed)


def _counted_from_file(columns: AccessColumns, by: int) -> AccessColumns:
    """Return accesses whose offsets count from the beginning of the model file.

    The head of a model file tells where its tensors lie; a trace whose offsets
    differ by one delta counts from elsewhere, mostly from the data section.
    """
    is_placed = (columns.space == Space.FILE) & (columns.offset >= 0)
    return replace(
        columns, offset=np.where(is_placed, columns.offset + by, columns.offset)
    )


def _moved(layout: ModelLayout, mapping: Mapping) -> Tensors:
    """Return the model's tensors, at absolute offsets and in their best known sizes."""
    tensors, delta = layout.tensors, 0 if layout.is_stated else mapping.fit.delta
    offset, place = tensors.offset, np.array(tensors.place, np.uint8)
    if delta:
        known = offset >= 0
        offset = np.where(known, offset + delta, offset)
        place = np.where(known, np.uint8(Place.CALIBRATED), place)
    size, source = _traced_sizes(layout, mapping)
    return replace(tensors, offset=offset, place=place, size=size, size_source=source)


def _traced_sizes(layout: ModelLayout, mapping: Mapping) -> tuple[I64, Array]:
    """Return the sizes; where listed ones are wrong, those that accesses know better.

    A size that was cut to the space up to the next tensor may hold padding, and that
    of the last tensor cannot be checked by its neighbour.
    """
    size = layout.tensors.size.copy()
    source = np.array(layout.tensors.size_source, np.uint8)
    uses, of_use = mapping.uses, mapping.of_use
    whole = (of_use >= 0) & mapping.agrees & (uses.size > 0)
    traced = np.zeros(len(layout), np.int64)
    np.maximum.at(traced, of_use[whole], uses.size[whole])
    smaller = (traced > 0) & (traced < size) & (size < _WRAPS)
    padded = (source == SizeSource.REPAIRED) & (size - traced < _PADDING)
    last = (source == SizeSource.LISTED) & bool(layout.n_repaired)
    better = smaller & (padded | last)
    unknown = (size < 0) & (traced > 0)
    size[better | unknown] = traced[better | unknown]
    source[better | unknown] = SizeSource.TRACED
    return size, source


def _first_of_each(trace: Trace, layout: ModelLayout, mapping: Mapping) -> I64:
    """Return the trace's row for each tensor of the model, -1 none.

    Names cut at two widths make two rows of one tensor: the longer name counts.
    """
    first = np.full(len(layout), -1, np.int64)
    rows = np.flatnonzero(mapping.of_tensor >= 0)
    lengths = np.array(
        [len(trace.strings[i]) for i in trace.tensors.name[rows].tolist()], np.int64
    )
    order = np.argsort(lengths, kind="stable")
    first[mapping.of_tensor[rows[order]]] = rows[order]
    return first


def _filled(
    trace: Trace,
    old: Tensors,
    model: Tensors,
    layout: ModelLayout,
    mapping: Mapping,
    first: I64,
) -> tuple[Tensors, int, int]:
    """Return the trace's tensors with what the model tells of them."""
    columns = {
        name: getattr(old, name).copy()
        for name in (
            *("name", "offset", "size", "layer", "file", "type", "shape"),
            *("n_experts", "place", "size_source"),
        )
    }
    rows = np.flatnonzero(mapping.of_tensor >= 0)
    of_model = mapping.of_tensor[rows]
    is_first = first[of_model] == rows
    # The model file's own word, or an earlier map's, is not overruled by a later map.
    stated = np.isin(
        columns["place"][rows], (Place.STATED, Place.CALIBRATED, Place.LISTED)
    )
    known = model.offset[of_model] >= 0
    wins = is_first & known & ~stated
    at, of = rows[wins], of_model[wins]
    for name in ("offset", "place", "file"):
        columns[name][at] = getattr(model, name)[of]
    for name, unknown in (("type", -1), ("n_experts", 0), ("layer", -1)):
        open_ = is_first & (columns[name][rows] == unknown)
        columns[name][rows[open_]] = getattr(model, name)[of_model[open_]]
    _fill_sizes(columns, model, rows[is_first], of_model[is_first])
    shapeless = is_first & (columns["shape"][rows, 0] == 0)
    columns["shape"][rows[shapeless]] = np.array(model.shape)[of_model[shapeless]]
    twins = rows[~is_first]
    for name, unknown in (("offset", -1), ("file", -1), ("place", Place.UNKNOWN)):
        columns[name][twins] = unknown
    n_completed, n_guessed = _complete_names(
        trace, columns["name"], layout, mapping, rows[is_first]
    )
    return replace(old, **columns), n_completed, n_guessed


def _fill_sizes(
    columns: dict[str, Array], model: Tensors, rows: I64, of_model: I64
) -> None:
    """Take the model's sizes, except where a better one is known already."""
    size, source = model.size[of_model], np.array(model.size_source)[of_model]
    known = columns["size_source"][rows]
    weak = np.isin(known, (SizeSource.UNKNOWN, SizeSource.TRACED))
    better = (size >= 0) & (weak | ((source == SizeSource.STATED) & (known != source)))
    columns["size"][rows[better]] = size[better]
    columns["size_source"][rows[better]] = source[better]


def _complete_names(
    trace: Trace, name: Array, layout: ModelLayout, mapping: Mapping, rows: I64
) -> tuple[int, int]:
    """Write the model's names into `name`; return how many, and how many guesses."""
    n_completed = n_guessed = 0
    for row in rows.tolist():
        full = layout.names[int(mapping.of_tensor[row])]
        if trace.strings[int(name[row])].rstrip("~") == full:
            continue
        if mapping.guessed[row]:
            n_guessed += 1
            full += "~"
        n_completed += 1
        name[row] = trace.strings.intern(full)
    return n_completed, n_guessed


def _pointed(
    columns: AccessColumns, tensors: Tensors, mapping: Mapping, row_of: I64
) -> AccessColumns | None:
    """Return the access patterns that name the tensors found; None if they did."""
    uses, of_use = mapping.uses, mapping.of_use
    found = np.flatnonzero(of_use >= 0)
    target = row_of[of_use[found]]
    tensor = columns.tensor.astype(np.int32)
    # Accesses in buffers go with the tensor that their twin's accesses now name.
    twin = np.arange(max(len(mapping.of_tensor), 1), dtype=np.int32)
    same = np.flatnonzero(mapping.of_tensor >= 0)
    twin[same] = row_of[mapping.of_tensor[same]]
    known = tensor >= 0
    tensor[known] = twin[tensor[known]]
    tensor[uses.row[found]] = target
    offset = columns.offset
    if mapping.fit.delta is not None:
        blank = found[(uses.offset[found] < 0)]
        is_file = columns.space[uses.row[blank]] == Space.FILE
        blank = blank[is_file]
        offset = columns.offset.copy()
        offset[uses.row[blank]] = tensors.offset[row_of[of_use[blank]]]
    if np.array_equal(tensor, columns.tensor) and np.array_equal(
        offset, columns.offset
    ):
        return None
    return replace(columns, tensor=tensor, offset=offset)
