"""Reads of experts that a router's choices imply, where no access is recorded.

A routing table (llama.cpp's moe-trace, BigMoeOnEdge's ``route_trace``) lists the chosen
experts of each token and layer. Whoever computes them reads their weights: of the
tokens of a prompt that are computed at once each expert only once per layer.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.file_map import FileMap
from ggscope.analysis.reads.file_blocks import ReadSequence
from ggscope.model.routing import EXPERT_KEY, Routing
from ggscope.model.tables import I64, Phase, ranges
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

_SAME_WITHIN = 64
"""Sizes of experts that differ by less than one part in 64 are of one quantisation:
scales and biases may be counted or not."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadUnits:
    """What is read and cached as a whole, one row each.

    Attributes
    ----------
    size : int64[n], bytes > 0.
    offset : int64[n], global offset in the model file; -1 unknown.
    layer, expert : int32[n], -1 none.
    """

    size: I64
    offset: I64
    layer: npt.NDArray[np.int32]
    expert: npt.NDArray[np.int32]

    @property
    def is_placed(self) -> bool:
        """Whether the places in the model file are known."""
        return not len(self.offset) or bool((self.offset >= 0).all())


@dataclass(frozen=True, slots=True, eq=False)
class ExpertReads:
    """What the choices of a routing table read.

    Attributes
    ----------
    units : slices of experts in the model file, or whole experts where only the table
        states sizes.
    has_slices : whether they are slices of a model file.
    other_size : bytes of the model's tensors that are not of experts, which the table
        says nothing about; 0 without a model.
    n_other_layers : layers whose experts have another size in the model than the table
        states.
    """

    units: ReadUnits
    sequence: ReadSequence
    has_slices: bool
    other_size: int
    n_other_layers: int


def implies_reads(trace: Trace) -> bool:
    """Return whether reads follow from choices alone.

    No access is recorded, and no list of chosen experts is cut.
    """
    routing, accesses = trace.routing.listed(), trace.accesses
    is_cut = routing.n_more is not None and bool(np.any(routing.n_more))
    has_accesses = bool(len(accesses.patterns) or len(accesses.loose))
    return bool(len(routing)) and not is_cut and not has_accesses


def expert_reads(
    trace: Trace, places: FileMap, time: TimeRange | None = None
) -> ExpertReads:
    """Return what the chosen experts of a trace read, in the order of the choices.

    Sizes are those of the model file, or the table's own where these cover more of the
    choices. Experts of unknown size are counted as lost.

    Parameters
    ----------
    time : only choices in it; those without a time are in no range.
    """
    key = chosen_keys(trace.routing.listed(), time)
    slices = _slices(places)
    stated = _stated(trace.routing, key)
    placed, whole = _reads_of(slices, key), _reads_of(stated, key)
    has_slices = placed.n_lost <= whole.n_lost and bool(len(slices.size))
    units, sequence = (slices, placed) if has_slices else (stated, whole)
    is_other = places.expert < 0
    return ExpertReads(
        units,
        sequence,
        has_slices,
        int(places.size[is_other].sum()) if has_slices else 0,
        _n_other_layers(trace.routing, slices) if has_slices else 0,
    )


def chosen_keys(routing: Routing, time: TimeRange | None = None) -> I64:
    """Return the experts that are read, int64[n] of ``expert_key``, in order.

    Tokens that follow one another in a table within one layer are computed at once,
    each expert once; generated tokens one by one. A table of a single layer cannot
    show which tokens belong together: there each token counts, or each choice where
    tokens are not recorded.
    """
    usable = routing.is_used & (routing.layer >= 0) & (routing.expert >= 0)
    if time is not None:
        usable &= (routing.time >= time.start) & (routing.time < time.end)
    routing = routing.take(np.flatnonzero(usable))
    n = len(routing)
    layer = routing.layer.astype(np.int64)
    key = layer * EXPERT_KEY + routing.expert
    if not n:
        return key
    starts = np.ones(n, np.bool_)
    starts[1:] = layer[1:] != layer[:-1]
    other_token = np.ones(n, np.bool_)
    other_token[1:] = (routing.token[1:] != routing.token[:-1]) | (
        routing.token[1:] < 0
    )
    if routing.phase is not None:
        starts[1:] |= routing.phase[1:] != routing.phase[:-1]
        starts |= other_token & (routing.phase == Phase.GENERATE)
    elif not starts[1:].any():
        starts = other_token
    batch = np.cumsum(starts) - 1
    order = np.lexsort((key, batch))
    is_first = np.ones(n, np.bool_)
    is_first[1:] = (np.diff(key[order]) != 0) | (np.diff(batch[order]) != 0)
    return np.asarray(key[np.sort(order[is_first])], np.int64)


def _keys(units: ReadUnits) -> I64:
    return np.asarray(units.layer.astype(np.int64) * EXPERT_KEY + units.expert)


def _slices(places: FileMap) -> ReadUnits:
    """Return the units of a file map that are slices of experts, by their experts."""
    rows = np.flatnonzero((places.expert >= 0) & (places.layer >= 0))
    units = ReadUnits(
        places.size[rows], places.offset[rows], places.layer[rows], places.expert[rows]
    )
    order = np.lexsort((units.offset, _keys(units)))
    return ReadUnits(
        units.size[order], units.offset[order], units.layer[order], units.expert[order]
    )


def _stated(routing: Routing, key: I64) -> ReadUnits:
    """Return the chosen experts with the sizes that the table states."""
    sizes = dict(routing.expert_bytes)
    layer, expert = np.divmod(np.unique(key), EXPERT_KEY)
    size = np.array([sizes.get(one, 0) for one in layer.tolist()], np.int64)
    known = size > 0
    return ReadUnits(
        size[known],
        np.full(int(np.count_nonzero(known)), -1, np.int64),
        layer[known].astype(np.int32),
        expert[known].astype(np.int32),
    )


def _reads_of(units: ReadUnits, key: I64) -> ReadSequence:
    """Return the units that chosen experts read; those of one expert together."""
    keys = _keys(units)
    low = np.searchsorted(keys, key, "left").astype(np.int64)
    count = np.searchsorted(keys, key, "right").astype(np.int64) - low
    by_offset = np.argsort(units.offset, kind="stable")
    follow = np.full(len(units.size), -1, np.int64)
    if units.is_placed:
        follow[by_offset[:-1]] = by_offset[1:]
    return ReadSequence(
        unit=ranges(low, count).astype(np.int32),
        span=None,
        size=units.size,
        follow=follow,
        n_lost=int(np.count_nonzero(count == 0)),
        n_row_reads=0,
        passed_bytes=0,
    )


def _n_other_layers(routing: Routing, slices: ReadUnits) -> int:
    """Return the layers whose experts have another size than the table states."""
    key, at = np.unique(_keys(slices), return_inverse=True)
    size = np.zeros(len(key), np.int64)
    np.add.at(size, at, slices.size)
    largest = np.zeros(int(slices.layer.max(initial=-1)) + 1, np.int64)
    np.maximum.at(largest, key // EXPERT_KEY, size)
    return sum(
        layer < len(largest)
        and largest[layer] > 0
        and abs(int(largest[layer]) - stated) * _SAME_WITHIN > stated
        for layer, stated in routing.expert_bytes
    )
