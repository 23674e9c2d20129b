"""Join side files with a trace: one session out of many files.

Every part is read by a reader of its own into a trace of its own. Here their tables
come together: tensors of a model under the accesses of the trace, what a mapping found
(places, sizes, names, types), buffers and their counters on its clock, graphs with its
ops and tensors, choices of experts.

Columns of spans are never copied or changed, so a joined trace costs what its side
files hold, whatever the size of the trace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ggscope.analysis.reads.unrecorded import has_derived_times, with_nodes
from ggscope.analysis.sessions import problems, remap_ids
from ggscope.analysis.sessions.concatenate import (
    has_times,
    shift_between,
    unlike_clocks,
)
from ggscope.analysis.sessions.correlate import correlate, graph_join
from ggscope.analysis.sessions.importance import checked_importance
from ggscope.analysis.sessions.mapping import (
    Mapping,
    ModelLayout,
    Rule,
    find_mapping,
    has_numbers_only,
    is_made_up,
    lay_out,
)
from ggscope.analysis.sessions.metadata import with_metadata
from ggscope.analysis.sessions.remap_ids import Move, full_tensors
from ggscope.analysis.sessions.storage import joined_storage, with_places
from ggscope.model.backend_ops import joined_ops
from ggscope.model.bench import BenchRuns, together
from ggscope.model.graph import Graph
from ggscope.model.names import normalise
from ggscope.model.tables import I64, AccessColumns, Array, Space, stacked
from ggscope.model.tensors import Place, SizeSource, Tensors
from ggscope.model.trace import (
    ROLES_OF_TENSORS,
    JoinedFile,
    MatchReport,
    ReadWarning,
    Trace,
    TraceInfo,
)
from ggscope.model.units import TimeRange

"""Code of the problem that a model or map was refused."""
_PADDING = 4096
"""No model file pads a tensor by more."""
_WRAPS = 1 << 32
"""Traces hold sizes in 32 bits: larger ones are unknown."""
ORDER = (
    "model", "map", "registry", "buffers", "graph", "experts", "recording", "metadata",
    "extents", "trace",
)  # fmt: skip
"""Parts are joined in this order: a model file's own word counts before a map's."""
_FITS_FROM = 0.9
"""From this share of found names on a side file confirms the format of the trace."""
_ASK_FOR_MODEL = {"map_overlaps", "map_relative_offsets", "tensors_missing_in_map"}
"""Warnings whose remedy is the model file: none where the session has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """Tables of the trace after mapping.

    Attributes
    ----------
    tensors : the trace's rows, then the model's that the trace does not have.
    columns : the access patterns, or None where nothing of them changed.
    names : how names of the trace became those of the model.
    """

    tensors: Tensors
    columns: AccessColumns | None
    names: "NameCounts"


@dataclass(slots=True)
class NameCounts:
    """How many tensors of a trace took their name from a model or map.

    Attributes
    ----------
    n_completed, n_guessed : whose names were cut, and how many of them were completed
        by nothing but their beginning.
    n_named : that had no name.
    """

    n_completed: int = 0
    n_guessed: int = 0
    n_named: int = 0


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
    filled, names = _filled(trace, old, model, layout, mapping, first)
    tensors = stacked(filled, model.take(missing))
    patterns = trace.accesses.patterns
    if layout.is_stated and mapping.fit.delta:
        patterns = _counted_from_file(patterns, -mapping.fit.delta)
    columns = _pointed(patterns, tensors, mapping, row_of)
    if columns is None and patterns is not trace.accesses.patterns:
        columns = patterns
    return Mapped(tensors, columns, names)


def _counted_from_file(columns: AccessColumns, by: int) -> AccessColumns:
    """Return accesses whose offsets count from the beginning of the model file.

    The head of a model file states where its tensors lie; a trace whose offsets
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
) -> tuple[Tensors, NameCounts]:
    """Return the trace's tensors with what the model states about them."""
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
    names = _complete_names(trace, columns["name"], layout, mapping, rows[is_first])
    return replace(old, **columns), names


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
) -> NameCounts:
    """Write the model's names into `name`; return how many."""
    counts = NameCounts()
    for row in rows.tolist():
        full = layout.names[int(mapping.of_tensor[row])]
        if trace.strings[int(name[row])].rstrip("~") == full:
            continue
        if is_made_up(trace, row):
            counts.n_named += 1
        else:
            counts.n_completed += 1
        if mapping.guessed[row]:
            counts.n_guessed += 1
            full += "~"
        name[row] = trace.strings.intern(full)
    return counts


def _pointed(
    columns: AccessColumns, tensors: Tensors, mapping: Mapping, row_of: I64
) -> AccessColumns | None:
    """Return the access patterns that name the tensors found; None if they did."""
    uses, of_use = mapping.uses, mapping.of_use
    mapped = np.flatnonzero(of_use >= 0)
    target = row_of[of_use[mapped]]
    tensor = columns.tensor.astype(np.int32)
    # Accesses in buffers go with the tensor that their twin's accesses now name.
    twin = np.arange(max(len(mapping.of_tensor), 1), dtype=np.int32)
    same = np.flatnonzero(mapping.of_tensor >= 0)
    twin[same] = row_of[mapping.of_tensor[same]]
    known = tensor >= 0
    tensor[known] = twin[tensor[known]]
    tensor[uses.row[mapped]] = target
    offset = columns.offset
    if mapping.fit.delta is not None:
        blank = mapped[(uses.offset[mapped] < 0)]
        is_file = columns.space[uses.row[blank]] == Space.FILE
        blank = blank[is_file]
        offset = columns.offset.copy()
        offset[uses.row[blank]] = tensors.offset[row_of[of_use[blank]]]
    if np.array_equal(tensor, columns.tensor) and np.array_equal(
        offset, columns.offset
    ):
        return None
    return replace(columns, tensor=tensor, offset=offset)


@dataclass(frozen=True, slots=True, eq=False)
class SideFile:
    """A part that is joined to a trace, as its reader gave it.

    Attributes
    ----------
    role : as in `JoinedFile`.
    """

    trace: Trace
    role: str

    @property
    def name(self) -> str:
        """File name."""
        return self.trace.info.name


def role_of(trace: Trace, claimed: str = "trace") -> str:
    """Return what a file is to a session, by what was found in it.

    Parameters
    ----------
    claimed : what it was taken for before it was read; kept unless it is "trace" and
        the file turns out to hold no spans.
    """
    if claimed != "trace" or len(trace.spans):
        return claimed
    for role, holds in (
        ("graph", len(trace.graphs)),
        ("experts", len(trace.routing)),
        ("buffers", len(trace.buffers)),
        ("map", len(trace.tensors)),
    ):
        if holds and not len(trace.accesses):
            return role
    return claimed


def join(main: Trace, sides: Sequence[SideFile]) -> Trace:
    """Return `main` with everything that the side files state.

    Span ids, lane ids and tensor rows of `main` stay; what is new comes behind them.
    A side that does not fit is listed as a part, with a warning that says why, and
    its tensors are left out. `main` itself is not changed; only its table of strings
    grows.
    """
    if not sides:
        return main
    # Where a trace has numbers for names, a registry gives the names to look for.
    first = "registry" if has_numbers_only(main) else ""
    ordered = sorted(
        sides,
        key=lambda s: (
            s.role != first,
            ORDER.index(s.role) if s.role in ORDER else len(ORDER),
        ),
    )
    trace = replace(main, parts=main.parts or (JoinedFile(main.info, "trace"),))
    for side in ordered:
        trace = _joined(trace, side)
    trace = with_places(checked_importance(_with_bench(trace, ordered)))
    trace = _with_graph_join(trace, [s.name for s in ordered if s.trace.graphs])
    paths = tuple(path for part in trace.parts for path in part.info.paths)
    whole = replace(
        trace,
        info=replace(trace.info, paths=tuple(dict.fromkeys(paths))),
        warnings=remap_ids.sorted_warnings(_without_doubt(trace)),
        extent=_extent(trace),
        generation=main.generation + 1,
    )
    whole.freeze()
    return whole


def _without_doubt(trace: Trace) -> tuple[ReadWarning, ...]:
    """Return the warnings without doubts and remedies that other files settle.

    Side files that fit confirm what a file was read as, and a model that is there is
    not asked for.
    """
    fits = any(join.n_found > join.n_all * _FITS_FROM for join in trace.joins)
    warnings = [w for w in trace.warnings if not (fits and w.code == "low_confidence")]
    has_model = any(model.data_offset >= 0 for model in trace.models)
    moved = {w.place for w in warnings if w.code == "offsets_moved"}
    return tuple(
        replace(w, remedy="")
        if (has_model and w.code in _ASK_FOR_MODEL)
        or (w.code == "map_relative_offsets" and w.place in moved)
        else w
        for w in warnings
    )


def _joined(trace: Trace, side: SideFile) -> Trace:
    """Return the trace with one side in it."""
    strings = remap_ids.string_map(side.trace.strings, trace.strings)
    if not has_times(trace) and has_times(side.trace):
        trace = replace(trace, clock=side.trace.clock)
    unlike = unlike_clocks(trace, side.trace)
    shift, notice = (0, (unlike,)) if unlike else shift_between(trace, side.trace)
    side_warnings = remap_ids.placed_warnings(side.trace.warnings, side.name)
    trace = replace(
        trace,
        warnings=(*trace.warnings, *side_warnings, *notice),
        parts=(*trace.parts, JoinedFile(side.trace.info, side.role, shift)),
    )
    if side.role == "metadata":
        return with_metadata(trace, side.trace.info)
    # Ticks of the side, on the trace's clock.
    by = side.trace.clock.origin + shift - trace.clock.origin
    rows = np.full(len(side.trace.tensors), -1, np.int32)
    if side.role in ROLES_OF_TENSORS:
        trace = _with_model(trace, side, strings)
    if unlike is None and side.role != "trace":
        trace = _with_buffers(trace, side, strings, by)
    if side.trace.graphs:
        trace = _with_graphs(trace, side, strings, rows)
    if len(side.trace.routing):
        trace = _with_routing(trace, side, by)
    if side.trace.importance is not None:
        trace = replace(trace, importance=side.trace.importance)
    if side.trace.backend_ops is not None:
        listing = joined_ops(trace.backend_ops, side.trace.backend_ops)
        trace = replace(trace, backend_ops=listing)
    if side.trace.storage is not None:
        move = Move(places={"strings": strings}, ticks=by)
        storage = joined_storage(trace.storage, side.trace.storage, move)
        trace = replace(trace, storage=storage)
    return trace


def _with_bench(trace: Trace, sides: Sequence[SideFile]) -> Trace:
    """Return the trace with the results of a benchmark of all sides."""
    parts = [(s.name, s.trace.bench) for s in sides if s.trace.bench is not None]
    if not parts:
        return trace
    if len(parts) == 1 and trace.bench is None:
        return replace(trace, bench=parts[0][1])
    own = [] if trace.bench is None else [(trace.info.name, trace.bench)]
    bench = together([*own, *parts])
    infos = [part.info for part in trace.parts if part.role == "bench"]
    if not len(trace.spans) and len(infos) == len(sides):
        trace = replace(trace, info=_bench_info(trace.info, bench, infos))
    return replace(trace, bench=bench)


def _bench_info(
    info: TraceInfo, bench: BenchRuns, infos: Sequence[TraceInfo]
) -> TraceInfo:
    """Return the facts of a session of benchmarks alone: the tests of all files."""
    values: dict[str, dict[str, None]] = {}
    for part in infos:
        for key, value in part.producer.items():
            values.setdefault(key, {})[value] = None
    events = {"runs": len(bench), "repetitions": bench.n_repetitions}
    return replace(
        info,
        n_records=len(bench),
        producer={key: ", ".join(texts) for key, texts in values.items()},
        summary={**info.summary, "events": events},
    )


# -- tensors -----------------------------------------------------------------


def _with_model(trace: Trace, side: SideFile, strings: Array) -> Trace:
    """Return the trace with a model's or map's tensors under its accesses."""
    if not len(side.trace.tensors):
        return trace  # a registry with a header only: its own warning says so
    source = remap_ids.full_tensors(side.trace.tensors)
    file = source.file
    has_model = side.role != "model" and any(m.data_offset >= 0 for m in trace.models)
    first_file = len(trace.models)
    source = replace(
        source,
        name=remap_ids.looked_up(strings, source.name),
        file=np.where(np.array(file) < 0, -1, np.array(file) + first_file).astype(
            np.int16
        ),
    )
    layout = lay_out(source, trace.strings)
    is_numbered = side.role == "registry" and all(
        w.code != "registry_numbers" for w in side.trace.warnings
    )
    mapping = find_mapping(trace, layout, is_numbered=is_numbered)
    joined = _join_of(mapping, side)
    if not mapping.fit.belongs:
        return replace(
            trace,
            joins=(*trace.joins, joined),
            warnings=(
                *trace.warnings,
                problems.model_misfit(side.name, mapping.fit.evidence),
            ),
        )
    mapped = apply_mapping(trace, layout, mapping)
    accesses = trace.accesses
    if mapped.columns is not None:
        accesses = replace(accesses, patterns=mapped.columns)
    notes = _notes(trace, side, layout, mapping, has_model)
    notes += _notes_of_names(side, mapped.names)
    n_cut = mapped.names.n_completed
    names = MatchReport("names", side.name, n_cut - mapped.names.n_guessed, n_cut)
    return replace(
        trace,
        tensors=mapped.tensors,
        accesses=accesses,
        models=(*trace.models, *side.trace.models),
        joins=(*trace.joins, joined, *((names,) if n_cut else ())),
        warnings=(*trace.warnings, *notes),
    )


def _join_of(mapping: Mapping, side: SideFile) -> MatchReport:
    """Return the counts of a mapping, in accesses."""
    uses, fits = mapping.uses, mapping.fit.belongs
    is_mapped = mapping.of_use >= 0 if fits else np.zeros(len(uses), np.bool_)
    is_undecided = mapping.fit.is_open and not is_mapped.any()
    rules = {
        rule.text: int(uses.count[is_mapped & (mapping.rule == rule)].sum())
        for rule in Rule
        if rule is not Rule.NONE
    }
    return MatchReport(
        kind="registry" if side.role == "registry" else "map",
        part=side.name,
        n_found=int(uses.count[is_mapped].sum()),
        n_all=0 if is_undecided else int(uses.count.sum()),
        rules={title: n for title, n in rules.items() if n},
        delta=mapping.fit.delta,
        n_agree=int(uses.count[mapping.agrees].sum()),
    )


def refused_models(trace: Trace) -> dict[str, str]:
    """Return the model files and maps that were given and refused: why, by name."""
    return {w.place: w.message for w in trace.warnings if w.code == problems.MISFIT}


def _notes(
    trace: Trace, side: SideFile, layout: ModelLayout, mapping: Mapping, has_model: bool
) -> tuple[ReadWarning, ...]:
    """Return the problems of a mapping that matches."""
    notes: list[ReadWarning] = []
    uses, fit, name = mapping.uses, mapping.fit, side.name
    counts = (fit.n_agree, fit.n_offsets)
    if fit.delta and layout.is_stated:
        notes.append(problems.trace_offsets_moved(name, fit.delta, *counts))
    elif fit.delta:
        has_accesses = bool(len(trace.accesses.patterns) or len(trace.accesses.loose))
        notes.append(
            problems.offsets_moved(name, fit.delta, *counts, has_accesses=has_accesses)
        )
    if fit.is_open and not (mapping.of_use >= 0).any():
        notes.append(problems.nothing_to_map(name))
    data = {m.data_offset for m in (*trace.models, *side.trace.models)} - {-1}
    if fit.delta and has_model and data and fit.delta not in data:
        notes.append(problems.delta_disagrees(name, fit.delta, min(data)))
    off = (mapping.of_use >= 0) & (uses.offset >= 0) & ~mapping.agrees
    if fit.delta is not None and off.any():
        notes.append(problems.offsets_disagree(name, int(uses.count[off].sum())))
    n_unmapped = int(uses.count[mapping.of_use < 0].sum())
    if n_unmapped and uses.is_file and len(layout):
        notes.append(problems.tensors_missing_in_map(name, n_unmapped))
    return tuple(notes)


def _notes_of_names(side: SideFile, names: NameCounts) -> tuple[ReadWarning, ...]:
    notes = []
    if n := names.n_completed:
        notes.append(problems.names_completed(side.name, n, names.n_guessed))
    if n := names.n_named:
        notes.append(problems.tensors_named(side.name, n))
    return tuple(notes)


# -- buffers, markers, counters ----------------------------------------------


def _with_buffers(trace: Trace, side: SideFile, strings: Array, by: int) -> Trace:
    """Return the trace with the buffers, markers and counters of a side."""
    other = side.trace
    if not (len(other.buffers) or len(other.markers) or other.counters):
        return trace
    lanes, place = remap_ids.appended_lanes(trace.lanes, other.lanes)
    move = Move(places={"strings": strings, "lanes": place}, ticks=by)
    buffers, _ = remap_ids.joined_buffers(trace.buffers, move.of(other.buffers))
    return replace(
        trace,
        lanes=lanes,
        buffers=buffers if len(other.buffers) else trace.buffers,
        markers=remap_ids.joined_markers(trace.markers, move.of(other.markers)),
        counters=(
            *trace.counters,
            *remap_ids.moved_counters(other.counters, place, by, len(trace.counters)),
        ),
    )


def _extent(trace: Trace) -> TimeRange:
    """Return the extent, widened by what sides brought; their tables are small."""
    low, high = trace.extent.start, trace.extent.end
    has_spans = bool(len(trace.spans))
    times = [trace.markers.time] if len(trace.markers) else []
    times += [series.time for series in trace.counters if len(series)]
    if not times:
        return trace.extent
    lows = [int(time.min()) for time in times]
    highs = [int(time.max()) for time in times]
    if not has_spans and trace.extent == TimeRange(0, 0):
        return TimeRange(min(lows), max(highs))
    return TimeRange(min(low, *lows), max(high, *highs))


# -- graphs --------------------------------------------------------------------


def _with_graphs(trace: Trace, side: SideFile, strings: Array, rows: Array) -> Trace:
    """Return the trace with a side's graphs, whose nodes name its tensors and ops."""
    used = np.concatenate([graph.op for graph in side.trace.graphs])
    ops, op_map = remap_ids.joined_ops(trace.ops, side.trace.ops, used)
    move = Move(places={"strings": strings, "ops": op_map, "tensors": rows})
    # The first tensor row of each name; those with accesses come first.
    names = reversed(list(enumerate(trace.tensors.name.tolist())))
    row_of = {trace.strings[i]: row for row, i in names}
    graphs = [_with_tensors(trace, move.of(g), row_of) for g in side.trace.graphs]
    return replace(trace, ops=ops, graphs=(*trace.graphs, *graphs))


def _with_tensors(trace: Trace, graph: Graph, row_of: dict[str, int]) -> Graph:
    """Return the graph with its nodes' tensors, by name without suffixes."""
    ids, back = np.unique(graph.name, return_inverse=True)
    tensor_of_name = np.array(
        [
            row_of.get(trace.strings[i], row_of.get(normalise(trace.strings[i]), -1))
            if i >= 0
            else -1
            for i in ids.tolist()
        ],
        np.int32,
    )
    tensor = tensor_of_name[back] if len(tensor_of_name) else graph.tensor
    return replace(graph, tensor=tensor.astype(np.int32))


def _with_graph_join(trace: Trace, names: Sequence[str]) -> Trace:
    """Return the trace with how many of its ops the graphs of all files have."""
    if not names:
        return trace
    earlier = [join.part for join in trace.joins if join.kind == "graph"]
    correlation = correlate(trace)
    others = tuple(join for join in trace.joins if join.kind != "graph")
    if correlation is None:
        return replace(trace, joins=others)
    report = graph_join(trace, correlation, part=", ".join((*earlier, *names)))
    if report is None:
        return replace(trace, joins=others)
    report = with_nodes(trace, report, correlation)
    warnings = tuple(w for w in trace.warnings if w.code != problems.NODES_NOT_RECORDED)
    if report.unrecorded_nodes:
        problem = problems.nodes_not_recorded(
            report, has_derived_times=has_derived_times(trace)
        )
        warnings = (*warnings, problem)
    return replace(trace, joins=(*others, report), warnings=warnings)


# -- experts -------------------------------------------------------------------


def _with_routing(trace: Trace, side: SideFile, by: int) -> Trace:
    """Return the trace with a side's choices of experts, where it has none itself."""
    # Choices that sizes imply give way to a list.
    if len(trace.routing.listed()):
        notice = problems.routing_not_added(side.name, len(side.trace.routing))
        return replace(trace, warnings=(*trace.warnings, notice))
    return replace(trace, routing=Move(ticks=by).of(side.trace.routing))
