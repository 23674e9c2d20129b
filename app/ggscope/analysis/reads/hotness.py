"""How hot each tensor is: accesses, bytes and tokens; and what is never touched.

And how a run walks through the model file: jumps between reads, and layers on disk.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import TraceCoverage
from ggscope.analysis.heat.byte_ranges import ByteRanges, maybe_units, span_variants
from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.reads.file_blocks import ReadSequence, unit_reads
from ggscope.analysis.reads.op_io import (
    AccessTable,
    Direction,
    counts_once,
    op_accesses,
)
from ggscope.analysis.reads.record_limits import cut_sources
from ggscope.analysis.reads.unrecorded import unrecorded_tensors
from ggscope.analysis.workers import chunks, count_values
from ggscope.model.names import parse
from ggscope.model.tables import (
    I64,
    LOCKED_ROWS,
    Array,
    Space,
    distinct,
    ranges,
    ranked,
)
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

GroupBy = Literal["tensor", "layer", "component", "expert"]
NO_EXPERT = "no expert"
"""What the tensors that are of no expert are called together."""
GROUP_BY: tuple[GroupBy, ...] = ("tensor", "layer", "component", "expert")
_MAX_DENSE = 1 << 26
N_BINS = 64


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class UnitHeat:
    """What a trace does with the units of its model file.

    Attributes
    ----------
    unit_accesses, unit_bytes : int64[n_units], of the units of `places`: of a stack
        of experts only what was chosen, where that is known.
    unit_unrecorded : bool[n_units], read without a record, as the graphs show.
    unit_cut : bool[n_units], perhaps read as a source that its record leaves out.
    unit_maybe : int64[n_units], accesses that may be to the unit besides: by experts
        that no list names.
    places : map of the model file.
    n_lost : file accesses whose place is not known.
    """

    unit_accesses: I64
    unit_bytes: I64
    unit_maybe: I64
    unit_unrecorded: npt.NDArray[np.bool_]
    unit_cut: npt.NDArray[np.bool_]
    places: FileMap
    n_lost: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Heat(UnitHeat):
    """What a trace does with its tensors and with the units of its model file.

    Attributes
    ----------
    accesses, bytes_read, bytes_written : int64[n_tensors], of all accesses, each op's
        once; views are none.
    unknown_read, unknown_written : int64[n_tensors], bytes that may be read and
        written besides, at most.
    unsized : int64[n_tensors], of `accesses` those of unknown size.
    tokens : int64[n_tensors], in how many tokens (as claimed) it is accessed.
    first, last : int64[n_tensors], start of the first and the last op that accesses
        it, ticks; -1 never.
    n_tokens : distinct tokens of all ops; 0 where no op has one.
    n_unknown : accesses that name no tensor.
    passed_bytes : recorded bytes of accesses to stacks that lie in experts not chosen;
        part of no other figure.
    unknown_file_bytes : bytes of the model file that may be read besides, at most.
    is_once : whether each op counts once; see `account.counts_once`.
    """

    accesses: I64
    bytes_read: I64
    bytes_written: I64
    unknown_read: I64
    unknown_written: I64
    unsized: I64
    tokens: I64
    first: I64
    last: I64
    n_tokens: int
    n_unknown: int
    passed_bytes: int
    unknown_file_bytes: int
    is_once: bool = True

    @property
    def bytes(self) -> I64:
        """Bytes read and written, int64[n_tensors]."""
        return self.bytes_read + self.bytes_written


def unit_heat(trace: Trace, places: FileMap | None = None) -> UnitHeat:
    """Return how hot the units of the model file are, without what `heat` adds.

    Parameters
    ----------
    places : the file map, where it is at hand.
    """
    places = file_map(trace) if places is None else places
    variants = span_variants(trace, places)
    table = variants.access_table
    per_entry = count_values(variants.column, len(table))
    return _unit_heat(trace, places, variants.touches, per_entry[table.owner])


def _unit_heat(
    trace: Trace, places: FileMap, touches: ByteRanges, times: I64
) -> UnitHeat:
    """Return the heat of units; `times` says how often each row of accesses occurs."""
    reads = unit_reads(places, touches)
    weight = np.repeat(times, np.diff(reads.first))
    accesses, n_bytes = np.zeros((2, len(places)), np.int64)
    np.add.at(accesses, reads.unit, weight)
    np.add.at(n_bytes, reads.unit, weight * reads.bytes)
    return UnitHeat(
        unit_accesses=accesses,
        unit_bytes=n_bytes,
        unit_maybe=maybe_units(places, touches, times),
        unit_unrecorded=unrecorded_tensors(trace)[places.tensor],
        unit_cut=cut_sources(trace)[places.tensor],
        places=places,
        n_lost=int(times[reads.is_lost].sum()),
    )


def heat(
    trace: Trace,
    *,
    mask: npt.NDArray[np.bool_] | None = None,
    time: TimeRange | None = None,
    places: FileMap | None = None,
) -> Heat:
    """Return how hot tensors are; the work is per access pattern, not per access.

    Parameters
    ----------
    mask : bool[n_spans], only these ops.
    time : only ops that start in it.
    places : the file map, where it is at hand.
    """
    places = file_map(trace) if places is None else places
    spans = trace.spans
    variants = span_variants(trace, places)
    table, column = variants.access_table, variants.column
    chosen = column >= 0
    if mask is not None:
        chosen &= mask
    if time is not None:
        chosen &= (spans.start >= time.start) & (spans.start < time.end)
    is_all = bool(chosen.all())
    entry = column if is_all else column[chosen]
    n_entries = len(table)
    per_entry = count_values(entry, n_entries)
    rows = table.owner
    times = per_entry[rows]
    by_tensor = _Tensors(len(trace.tensors), table, times)
    units = _unit_heat(trace, places, variants.touches, times)
    start = spans.start if is_all else spans.start[chosen]
    first, last = _first_and_last(start, entry, n_entries)
    token = tokens_of(trace).key
    token = None if token is None else token[chosen]
    tokens, n_tokens = _tokens_touched(trace, table, entry, token)
    is_loose = table.what.tensor < 0
    is_file = np.asarray(table.what.space) == Space.FILE
    return Heat(
        **{field.name: getattr(units, field.name) for field in fields(UnitHeat)},
        accesses=by_tensor.add(table.counts),
        bytes_read=by_tensor.add(table.known_of(Direction.READ)),
        bytes_written=by_tensor.add(table.known_of(Direction.WRITE)),
        unknown_read=by_tensor.add(table.unknown_of(Direction.READ)),
        unknown_written=by_tensor.add(table.unknown_of(Direction.WRITE)),
        unsized=by_tensor.add(table.unsized),
        tokens=tokens,
        first=by_tensor.extreme(first[rows], np.minimum),
        last=by_tensor.extreme(last[rows], np.maximum),
        n_tokens=n_tokens,
        n_unknown=int((times * table.counts)[is_loose].sum()),
        passed_bytes=int((times * table.passed).sum()),
        unknown_file_bytes=int((times * table.unknown)[is_file].sum()),
        is_once=counts_once(trace),
    )


class _Tensors:
    """Spreads values per pattern row over the tensors that the rows name."""

    def __init__(self, n: int, accesses: AccessTable, times: I64) -> None:
        tensor = accesses.what.tensor
        self.n = n
        self.rows = np.flatnonzero((tensor >= 0) & (times > 0) & accesses.is_access)
        self.tensor = tensor[self.rows].astype(np.int64)
        self.times = times[self.rows]

    def add(self, values: I64) -> I64:
        """Return the sum over accesses per tensor, int64[n]."""
        totals = np.zeros(self.n, np.int64)
        np.add.at(totals, self.tensor, values[self.rows] * self.times)
        return totals

    def extreme(self, values: I64, better: np.ufunc) -> I64:
        """Return the least or greatest value per tensor, -1 without any."""
        worst = np.iinfo(np.int64).max if better is np.minimum else -1
        extremes = np.full(self.n, worst, np.int64)
        better.at(extremes, self.tensor, values[self.rows])
        return np.where(extremes == np.iinfo(np.int64).max, -1, extremes)


def _first_and_last(start: I64, pattern: Array, n: int) -> tuple[I64, I64]:
    first, last = np.full(n, np.iinfo(np.int64).max), np.full(n, -1, np.int64)
    for at in chunks(len(pattern), LOCKED_ROWS):
        np.minimum.at(first, pattern[at], start[at])
        np.maximum.at(last, pattern[at], start[at])
    return first, last


def _tokens_touched(
    trace: Trace, accesses: AccessTable, entry: Array, token: Array | None
) -> tuple[I64, int]:
    """Return in how many tokens each tensor is accessed, and how many there are.

    Which experts are chosen makes no difference to the tensor that stacks them, so
    entries count without: there are far fewer of them.
    """
    n = int(np.count_nonzero(accesses.base == np.arange(len(accesses))))
    plain = entry if n == len(accesses) else accesses.base[entry]
    rows = accesses.owner[: int(accesses.first[n])]
    times = np.zeros(int(accesses.first[-1]), np.int64)
    times[: len(rows)] = count_values(plain, n)[rows]
    table = _Tensors(len(trace.tensors), accesses, times)
    return _tokens(token, plain, rows, table, n)


def _tokens(
    token: Array | None, pattern: Array, rows: I64, table: _Tensors, n_patterns: int
) -> tuple[I64, int]:
    """Return in how many tokens each tensor is accessed, and how many there are."""
    if token is not None and len(token) and token.min() < 0:  # ops of no token
        pattern, token = pattern[token >= 0], token[token >= 0]
    if token is None or not len(token):
        return np.zeros(table.n, np.int64), 0
    low = int(token.min())
    width = int(token.max()) - low + 1
    n_tokens = len(distinct(token))
    # Each (token, pattern) touches the pattern's tensors.
    key = (token.astype(np.int64) - low) * n_patterns + pattern
    if width * n_patterns > _MAX_DENSE:
        return _tokens_of_pairs(distinct(key), rows, table, n_patterns), n_tokens
    seen = np.zeros(width * n_patterns, np.bool_)
    seen[key] = True
    return _tokens_of_table(seen.reshape(width, -1), rows, table), n_tokens


def _tokens_of_table(
    occurs: npt.NDArray[np.bool_], rows: I64, table: "_Tensors"
) -> I64:
    """Count tokens per tensor from bool[tokens, patterns]."""
    n_tokens = np.zeros(table.n, np.int64)
    if not len(table.rows):
        return n_tokens
    order = np.argsort(table.tensor, kind="stable")
    tensor, pattern = table.tensor[order], rows[table.rows[order]]
    first = np.flatnonzero(np.append(True, tensor[1:] != tensor[:-1]))
    step = max(_MAX_DENSE // 4 // len(pattern), 1)
    for low in range(0, len(occurs), step):
        touched = np.logical_or.reduceat(
            occurs[low : low + step, pattern], first, axis=1
        )
        n_tokens[tensor[first]] += np.count_nonzero(touched, axis=0)
    return n_tokens


def _tokens_of_pairs(pairs: I64, rows: I64, table: "_Tensors", n_patterns: int) -> I64:
    """Count tokens per tensor from distinct ``token * n_patterns + pattern``."""
    token, pattern = np.divmod(pairs, n_patterns)
    names = np.full(len(rows), -1, np.int64)
    names[table.rows] = table.tensor
    begin = np.searchsorted(rows, pattern)
    count = np.searchsorted(rows, pattern, "right") - begin
    tensor = names[ranges(begin, count)]
    both = np.repeat(token, count)[tensor >= 0] * table.n + tensor[tensor >= 0]
    return np.bincount(np.unique(both) % max(table.n, 1), minlength=table.n).astype(
        np.int64
    )


@dataclass(frozen=True, slots=True)
class UntouchedBytes:
    """How much of the model file is never touched.

    Attributes
    ----------
    n_units, n_cold : tensors and expert slices, all and never touched.
    size, cold_size : their bytes.
    n_unknown, unknown_size : those of which nobody knows whether they are touched:
        experts that no list names. They are not among the cold ones.
    n_unrecorded, unrecorded_size : likewise, those that are read without a record, as
        the graphs show.
    n_cut, cut_size : likewise, those that an op may read as a source for which its
        record has no room.
    is_listed : whether a model file or a map lists what there is; else a tensor
        that is never touched does not appear.
    coverage : what the trace leaves out. Where that may hide reads, `n_cold` units
        have no read in the trace, and whether the program read them is not known.
    """

    n_units: int
    n_cold: int
    size: int
    cold_size: int
    n_unknown: int
    unknown_size: int
    n_unrecorded: int
    unrecorded_size: int
    n_cut: int
    cut_size: int
    is_listed: bool
    coverage: TraceCoverage

    @property
    def is_known(self) -> bool:
        """Whether the cold units are known to be untouched."""
        return self.is_listed and not (self.n_cold and self.coverage.may_hide_reads)

    @property
    def share(self) -> float:
        """Share of the bytes that is never touched, 0..1."""
        return self.cold_size / self.size if self.size else 0.0

    @property
    def unknown_share(self) -> float:
        """Share of the bytes that may be touched or not, 0..1."""
        return self.unknown_size / self.size if self.size else 0.0


def cold(heat: UnitHeat, coverage: TraceCoverage | None = None) -> UntouchedBytes:
    """Return how much of the model file is never touched.

    Parameters
    ----------
    coverage : what the trace leaves out, and what was looked at of it.
    """
    places = heat.places
    never = heat.unit_accesses == 0
    unrecorded = never & heat.unit_unrecorded
    unknown = never & ~unrecorded & (heat.unit_maybe > 0)
    cut = never & ~unrecorded & ~unknown & heat.unit_cut
    never &= ~unknown & ~unrecorded & ~cut
    return UntouchedBytes(
        n_units=len(places),
        n_cold=int(np.count_nonzero(never)),
        size=int(places.size.sum()),
        cold_size=int(places.size[never].sum()),
        n_unknown=int(np.count_nonzero(unknown)),
        unknown_size=int(places.size[unknown].sum()),
        n_unrecorded=int(np.count_nonzero(unrecorded)),
        unrecorded_size=int(places.size[unrecorded].sum()),
        n_cut=int(np.count_nonzero(cut)),
        cut_size=int(places.size[cut].sum()),
        is_listed=places.is_complete,
        coverage=coverage or TraceCoverage(),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Groups of tensors or units, the hottest first.

    Attributes
    ----------
    keys : what people read.
    accesses, bytes, size : int64[n]; size is that of the members in the file, and
        of known tensors elsewhere.
    maybe : int64[n], accesses that may be to members besides, see `Heat.unit_maybe`.
    unknown : int64[n], bytes that may be read and written besides, at most.
    unrecorded : int64[n], members that are read without a record.
    cut : int64[n], members that may be read as a source that its record leaves out.
    unsized : int64[n], of `accesses` those of unknown size.
    tensor : int64[n], row of ``Trace.tensors`` where the group is one, else -1.
    expert, layer : int64[n], -1 none or several.
    """

    keys: tuple[str, ...]
    accesses: I64
    bytes: I64
    size: I64
    tensor: I64
    expert: I64
    layer: I64
    maybe: I64
    unknown: I64
    unrecorded: I64
    cut: I64
    unsized: I64

    def take(self, rows: I64) -> "Ranking":
        """Return some groups."""
        columns = {
            field.name: getattr(self, field.name)[rows]
            for field in fields(self)
            if field.name != "keys"
        }
        return Ranking(tuple(self.keys[i] for i in rows.tolist()), **columns)

    def __len__(self) -> int:
        return len(self.keys)


def ranking(
    trace: Trace,
    heat: Heat,
    by: GroupBy = "tensor",
    *,
    measure: Literal["bytes", "accesses"] = "bytes",
    only_file: bool = True,
    lists_rest: bool = False,
) -> Ranking:
    """Return groups of the model's tensors by heat, the hottest first; ties by place.

    By expert a group is an expert's slice of a stack; tensors that are of no expert are
    one group, the last.

    Parameters
    ----------
    only_file : of the model file only; else runtime tensors (activations, KV
        cache) too.
    lists_rest : by expert, make a group of each tensor that is of no expert.
    """
    units = heat.places
    tensor = units.tensor.astype(np.int64)
    accesses, n_bytes, size = heat.unit_accesses, heat.unit_bytes, units.size
    expert, maybe = units.expert.astype(np.int64), heat.unit_maybe
    unknown = _unknown_of(heat, tensor, by)
    if not only_file:
        rest = np.setdiff1d(np.flatnonzero(heat.accesses > 0), tensor)
        tensor = np.concatenate([tensor, rest])
        accesses = np.concatenate([accesses, heat.accesses[rest]])
        n_bytes = np.concatenate([n_bytes, heat.bytes[rest]])
        known = np.maximum(trace.tensors.size[rest], 0)
        size = np.concatenate([size, known])
        expert = np.concatenate([expert, np.full(len(rest), -1)])
        maybe = np.concatenate([maybe, np.zeros(len(rest), np.int64)])
        open_ = heat.unknown_read + heat.unknown_written
        unknown = np.concatenate([unknown, open_[rest]])
    is_rest = (expert < 0) & (by == "expert" and not lists_rest)
    group, keys, first = _groups(trace, by, np.where(is_rest, -1, tensor), expert)
    n = len(keys)
    unrecorded, cut, unsized = np.zeros((3, len(tensor)), np.int64)
    unrecorded[: len(units)] = heat.unit_unrecorded
    cut[: len(units)] = heat.unit_cut
    # A read of the file without a size counts as one of the whole unit.
    unsized[len(units) :] = heat.unsized[tensor[len(units) :]]
    columns = (accesses, n_bytes, size, maybe, unknown, unrecorded, cut, unsized)
    sums = np.zeros((len(columns), n), np.int64)
    for total, values in zip(sums, columns, strict=True):
        np.add.at(total, group, values)
    amount = sums[1] if measure == "bytes" else sums[0]
    is_last = is_rest[first]
    order = np.lexsort((-amount, is_last))
    is_one = by in ("tensor", "expert")
    none = np.full(n, -1, np.int64)
    member = np.where(is_last, -1, tensor[first])
    layer = np.append(np.asarray(trace.tensors.layer, np.int64), -1)[member]
    return Ranking(
        tuple(keys[i] for i in order.tolist()),
        sums[0][order],
        sums[1][order],
        sums[2][order],
        (member if is_one else none)[order],
        (expert[first] if by == "expert" else none)[order],
        (layer if by != "component" else none)[order],
        sums[3][order],
        sums[4][order],
        sums[5][order],
        sums[6][order],
        sums[7][order],
    )


def _unknown_of(heat: Heat, tensor: I64, by: GroupBy) -> I64:
    """Return the bytes that may be read of each unit besides, at most, int64[n].

    Where a unit is part of a stack nobody knows which part: all counts for the
    stack's first unit, but by expert for each that may be meant.
    """
    _, first = np.unique(tensor, return_index=True)
    unknown = np.zeros(len(tensor), np.int64)
    unknown[first] = heat.unknown_read[tensor[first]]
    if by != "expert":
        return unknown
    is_open = heat.unit_maybe > 0
    return np.where(
        heat.places.expert >= 0,
        np.where(is_open, heat.unit_maybe * heat.places.size, 0),
        unknown,
    )


def _groups(
    trace: Trace, by: GroupBy, tensor: I64, expert: I64
) -> tuple[I64, list[str], I64]:
    """Return the group of each row, the groups' names and a row of each group."""
    if by == "layer":
        code = np.asarray(trace.tensors.layer, np.int64)[tensor]
    elif by == "component":
        parts = [_component(trace, t) for t in tensor.tolist()]
        names = sorted(set(parts))
        code = np.array([names.index(p) for p in parts], np.int64)
    elif by == "expert":
        code = tensor * (1 << 20) + expert + 1
    else:
        code = tensor
    _, first, group = ranked(code)
    rows = zip(tensor[first].tolist(), expert[first].tolist(), strict=True)
    return group, [_key(trace, by, t, e) for t, e in rows], first


def _component(trace: Trace, tensor: int) -> str:
    return parse(trace.strings[int(trace.tensors.name[tensor])]).component


def _key(trace: Trace, by: GroupBy, tensor: int, expert: int) -> str:
    if tensor < 0:
        return NO_EXPERT
    if by == "layer":
        layer = int(trace.tensors.layer[tensor])
        return f"layer {layer}" if layer >= 0 else "no layer"
    if by == "component":
        return _component(trace, tensor)
    name = trace.strings[int(trace.tensors.name[tensor])]
    return f"{name}[{expert}]" if by == "expert" and expert >= 0 else name


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """How few bytes of the file serve how many accesses.

    Attributes
    ----------
    size : int64[n + 1], bytes of the file, from 0.
    accesses, bytes : int64[n + 1], what falls on them, from 0.
    """

    size: I64
    accesses: I64
    bytes: I64

    def size_for(self, share: float, *, of_bytes: bool = False) -> int:
        """Return how many bytes serve that share (0..1), rounded up.

        Inside a unit the share grows evenly: whole units would serve more than they
        were asked for.
        """
        total = self.bytes if of_bytes else self.accesses
        n_bytes = share * float(total[-1])
        i = int(np.searchsorted(total, n_bytes - 1e-9))
        if not total[-1] or i == 0:
            return 0
        part = (n_bytes - float(total[i - 1])) / float(total[i] - total[i - 1])
        length = int(self.size[i] - self.size[i - 1])
        return int(self.size[i - 1]) + math.ceil(min(part, 1.0) * length - 1e-9)


def coverage(
    measured: Heat, *, by_place: bool = False, of_bytes: bool = True
) -> Coverage:
    """Return the cumulative curve, units ordered by heat per byte, or by place.

    Heat is what the curve is read for: bytes, or accesses where `of_bytes` is False.
    """
    units = measured.places
    if by_place:
        order = np.arange(len(units))
    else:
        heat = measured.unit_bytes if of_bytes else measured.unit_accesses
        density = heat / np.maximum(units.size, 1)
        order = np.argsort(-density, kind="stable")

    def upto(values: I64) -> I64:
        return np.concatenate([[0], np.cumsum(values[order])])

    return Coverage(
        upto(units.size), upto(measured.unit_accesses), upto(measured.unit_bytes)
    )


def gini(values: Array, size: Array) -> float:
    """Return how unevenly `values` are spread over `size`, 0 even to 1 all in one."""
    total, total_size = float(np.sum(values)), float(np.sum(size))
    if total <= 0 or total_size <= 0:
        return 0.0
    order = np.argsort(values / np.maximum(size, 1), kind="stable")
    x = np.concatenate([[0], np.cumsum(size[order]) / total_size])
    y = np.concatenate([[0], np.cumsum(values[order]) / total])
    area = float(np.sum((x[1:] - x[:-1]) * (y[1:] + y[:-1])) / 2)
    return max(0.0, 1.0 - 2.0 * area)


@dataclass(frozen=True, slots=True)
class SpaceTotals:
    """Accesses to the model file, to runtime tensors and to the KV cache.

    Attributes
    ----------
    accesses, bytes : by "weights", "kv cache", "intermediates" and "unknown"; each
        op's once, the known bytes.
    unknown_bytes : bytes that may be moved besides, at most.
    unsized : of `accesses` those of unknown size.
    is_once : whether each op counts once; see `account.counts_once`.
    """

    accesses: dict[str, int]
    bytes: dict[str, int]
    unknown_bytes: dict[str, int]
    unsized: dict[str, int]
    is_once: bool = True

    @property
    def ratio(self) -> float | None:
        """Accesses to intermediates and KV cache per access to weights, or None."""
        weights = self.accesses["weights"]
        others = self.accesses["kv cache"] + self.accesses["intermediates"]
        return others / weights if weights else None


def space_totals(trace: Trace, time: TimeRange | None = None) -> SpaceTotals:
    """Return what falls on weights, KV cache and intermediates.

    Parameters
    ----------
    time : only ops that start in it.
    """
    table = op_accesses(trace)
    what, times = table.what, table.row_times(_starts_in(trace, time))
    weights = np.asarray(what.space) == Space.FILE
    cache = ~weights & is_cache(trace, table)
    others = ~weights & ~cache & (np.asarray(what.space) == Space.BUFFER)
    parts = {
        "weights": weights,
        "kv cache": cache,
        "intermediates": others,
        "unknown": ~(weights | cache | others),
    }

    def sums(values: I64) -> dict[str, int]:
        total = times * values
        return {name: int(total[part].sum()) for name, part in parts.items()}

    return SpaceTotals(
        sums(table.counts), sums(table.known), sums(table.unknown),
        sums(table.unsized), counts_once(trace),
    )  # fmt: skip


def _starts_in(trace: Trace, time: TimeRange | None) -> npt.NDArray[np.bool_] | None:
    """Return which spans start in a range, bool[n_spans]; None for all of them."""
    if time is None:
        return None
    start = trace.spans.start
    return np.asarray((start >= time.start) & (start < time.end))


def is_cache(trace: Trace, table: AccessTable) -> npt.NDArray[np.bool_]:
    """Return which rows of an account are accesses to the KV cache, bool[n]."""
    tensor = table.what.tensor
    marks = np.zeros(len(trace.tensors) + 1, np.bool_)
    for row in np.unique(tensor[tensor >= 0]).tolist():
        marks[row] = _component(trace, row) == "cache"
    return np.asarray(marks[tensor], np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Seeks:
    """Distances between the end of a read and the beginning of the next one.

    Attributes
    ----------
    n : reads that have one before them.
    n_sequential : begin where the one before ended.
    n_repeated : read the unit of the one before again.
    n_forward, n_backward : the others, by direction.
    forward, backward : int64[64], counts by the power of two of the distance: entry
        k counts distances of 2**k up to 2**(k + 1) bytes.
    total : sum of all distances in bytes (repeated reads have none).
    """

    n: int
    n_sequential: int
    n_repeated: int
    n_forward: int
    n_backward: int
    forward: I64
    backward: I64
    total: int

    @property
    def share_sequential(self) -> float:
        """Share of reads that go on where the one before ended, 0..1."""
        return self.n_sequential / self.n if self.n else 0.0


def seeks(places: FileMap, sequence: ReadSequence) -> Seeks:
    """Return the jumps of a sequence of reads."""
    unit = sequence.unit
    before, after = unit[:-1], unit[1:]
    distance = places.offset[after] - (places.offset + places.size)[before]
    is_same = before == after
    is_next = (distance == 0) & ~is_same
    jumps = distance[~is_same & ~is_next]
    bits = _power(np.abs(jumps))
    ahead = jumps > 0
    return Seeks(
        n=len(distance),
        n_sequential=int(np.count_nonzero(is_next)),
        n_repeated=int(np.count_nonzero(is_same)),
        n_forward=int(np.count_nonzero(ahead)),
        n_backward=int(np.count_nonzero(~ahead)),
        forward=np.bincount(bits[ahead], minlength=N_BINS).astype(np.int64),
        backward=np.bincount(bits[~ahead], minlength=N_BINS).astype(np.int64),
        total=int(np.abs(jumps).sum()),
    )


def _power(values: I64) -> npt.NDArray[np.int64]:
    """Return floor(log2) of values >= 1, exactly."""
    power = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    # Above 2**53 a float may have been rounded up to the next power of two.
    return np.asarray(power - ((np.int64(1) << power) > values), np.int64)


@dataclass(frozen=True, slots=True)
class DiskOrder:
    """The order of layers in the model file.

    Attributes
    ----------
    kind : "numeric" (0, 1, 2 …), "alphabetical" (0, 1, 10, 11 …), "mixed" (neither),
        or "unknown" (less than three layers have a place).
    layers : the layers by where their first tensor lies.
    """

    kind: str
    layers: tuple[int, ...]


def disk_order(places: FileMap) -> DiskOrder:
    """Return the order in which layers lie in the file.

    Alphabetical order makes a run that goes through the layers jump through the
    file, which a disk notices. Up to ten layers both orders are the same.
    """
    known = places.layer >= 0
    layer, offset = places.layer[known].astype(np.int64), places.offset[known]
    layers, first = np.unique(layer, return_index=True)
    if len(layers) < 3:
        return DiskOrder("unknown", tuple(layers.tolist()))
    # Units ascend by offset, so the first one of a layer is its lowest.
    order = tuple(layers[np.argsort(offset[first], kind="stable")].tolist())
    if order == tuple(sorted(order)):
        return DiskOrder("numeric", order)
    if order == tuple(sorted(order, key=str)):
        return DiskOrder("alphabetical", order)
    return DiskOrder("mixed", order)


@dataclass(frozen=True, slots=True, eq=False)
class RowReads:
    """Look-ups of single rows of one tensor (token embeddings).

    Attributes
    ----------
    row : int64[k], rows that are read, ascending.
    count : int64[k], how often.
    n_reads : all look-ups; of `n_placed` the row is known.
    n_ops : ops that look rows up; less than `n_reads` where each row of an op is known.
    n_rows, row_bytes : rows of the table and bytes of one; 0 unknown.
    is_whole : whether another op reads all of the table.
    """

    tensor: int
    row: I64
    count: I64
    n_reads: int
    n_placed: int
    n_ops: int
    n_rows: int = 0
    row_bytes: int = 0
    is_whole: bool = False

    @property
    def n_repeated(self) -> int:
        """Look-ups of a row that had been read before."""
        return int(self.count.sum()) - len(self.count)

    @property
    def n_untouched(self) -> int | None:
        """Rows that no op reads; None where the row of some look-up is unknown."""
        if self.is_whole:
            return 0
        is_known = self.n_rows > 0 and self.n_placed == self.n_reads
        return self.n_rows - len(self.row) if is_known else None


def row_reads(trace: Trace, tensor: int, time: TimeRange | None = None) -> RowReads:
    """Return which rows of a tensor are read, where it is recorded.

    An access shows it by an offset of its own inside the tensor; most writers record
    the whole tensor. Then the ids of the tokens that an op looks up show it, where a
    recording lists them; else only the number of ops is known.
    """
    table = op_accesses(trace)
    what = table.what
    times = table.row_times(_starts_in(trace, time)) * table.counts
    mine = what.tensor == tensor
    base, size = int(trace.tensors.offset[tensor]), int(trace.tensors.size[tensor])
    shape = None if trace.tensors.shape is None else trace.tensors.shape[tensor]
    n_rows = 0 if shape is None else int(np.prod(shape[1:]))
    is_cut = size > 0 and n_rows > 0 and size % n_rows == 0
    placed = mine & (what.offset >= base) & (what.size >= 0) & (what.size < size)
    looked_up = mine & (table.is_rows | placed)
    n_ops = int(times[looked_up].sum())
    none = np.zeros(0, np.int64)
    reads = RowReads(
        tensor, none, none, n_ops, 0, n_ops,
        n_rows if is_cut else 0, size // n_rows if is_cut else 0,
        is_whole=bool(times[mine & ~looked_up & table.is_access].any()),
    )  # fmt: skip
    if base < 0 or not is_cut:
        return reads
    if placed.any():
        row = (what.offset[placed] - base) // reads.row_bytes
        n_placed = int(times[placed].sum())
        return replace(_with_rows(reads, row, times[placed]), n_placed=n_placed)
    return _by_ids(trace, reads, table, mine & table.is_rows, time)


def _by_ids(
    trace: Trace,
    reads: RowReads,
    table: AccessTable,
    rows: npt.NDArray[np.bool_],
    time: TimeRange | None,
) -> RowReads:
    """Return the rows that the ids of the tokens of a recording name.

    Parameters
    ----------
    rows : bool[n], rows of the account that look up rows of the tensor.
    """
    spans, tokens = trace.spans, trace.batch_tokens
    if not len(tokens) or spans.token is None or not rows.any():
        return reads
    entry = np.append(table.per_entry(rows.astype(np.int64)) > 0, False)
    chosen = entry[table.counted_entries()]
    if (starts := _starts_in(trace, time)) is not None:
        chosen &= starts
    ubatches = spans.token[chosen]
    ids = tokens.id[np.isin(tokens.ubatch, ubatches)].astype(np.int64)
    known = ids[(ids >= 0) & (ids < reads.n_rows)]
    is_all = bool(np.isin(ubatches, tokens.ubatch).all())
    if not len(known) or not is_all:
        return reads
    counted = _with_rows(reads, known, np.ones(len(known), np.int64))
    return replace(counted, n_reads=len(ids), n_placed=len(known))


def _with_rows(reads: RowReads, row: I64, times: I64) -> RowReads:
    """Return the look-ups with how often each of these rows is read."""
    rows, at = np.unique(row, return_inverse=True)
    count = np.zeros(len(rows), np.int64)
    np.add.at(count, at, times)
    return replace(reads, row=rows[count > 0], count=count[count > 0])
