"""What is known of a tensor, buffer, graph node or expert, as texts for people.

Some of it at once, and exact sums of what the trace did with it when they are there.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.link_scan import (
    Bools,
    Touch,
    buffer_touch,
    expert_ranges,
    expert_touch,
    marked,
    merged_ranges,
    routed_keys,
    slices,
    tensor_touch,
)
from ggscope.analysis.reads.account import Account, Direction, account, loose_bytes
from ggscope.analysis.rows.groups import chunks, count_values
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.analysis.workers import Watcher
from ggscope.model.ggml.types import type_name
from ggscope.model.graph import NodeCategory, NodeFlag, first_node, locate_node
from ggscope.model.names import normalise, parse
from ggscope.model.routing import of_expert_key
from ggscope.model.selection import Selection
from ggscope.model.tables import I64, AccessKind, Quality, quality_of
from ggscope.model.tensors import BufferUsage, Place, SizeSource
from ggscope.model.time import TimeRange
from ggscope.model.tokens import tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_offset,
    format_share,
)
from ggscope.words.spans import Fact, exact_time_text, time_text

_QUALITIES = len(Quality)
COUNTING = "counting…"


@dataclass(frozen=True, slots=True, eq=False)
class ThingFigures:
    """Figures of one selected thing.

    Attributes
    ----------
    n_accesses : how often it is accessed; each access of each op counts, however many
        threads tell of it.
    bytes_read, bytes_written : known bytes of these.
    unknown_read, unknown_written : bytes that may be moved besides, at most.
    n_spans : spans that access it or, for a node, are it.
    time : first to last tick of these spans; None without any.
    n_tokens : distinct tokens of these spans; -1 where the trace has no tokens.
    ticks, n_by_quality : int64[4], summed duration and number of the spans that are
        this node (or write this tensor), by `Quality`.
    n_chosen : how often a router chose this expert; -1 where that is no expert.
    """

    n_accesses: int
    bytes_read: int
    bytes_written: int
    n_spans: int
    time: TimeRange | None
    n_tokens: int
    ticks: I64
    n_by_quality: I64
    n_chosen: int = -1
    unknown_read: int = 0
    unknown_written: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FiguresRequest:
    """Computes the figures of a selection's active thing; runs on a worker."""

    trace: Trace
    selection: Selection
    correlation: Correlation | None = None

    def __call__(self, context: Watcher | None = None) -> ThingFigures:
        """Return the figures. Raises Cancelled from the context."""
        return figures_of(self.trace, self.selection, self.correlation, context)


def figures_of(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None = None,
    watcher: Watcher | None = None,
) -> ThingFigures:
    """Return the figures of the active row of a selection that is no span.

    Accesses are summed per entry of the account and multiplied by how often that
    occurs: the sums are those of all ops, exactly.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    row = selection.active
    assert row is not None
    ids = np.array([row], np.int64)
    if selection.table == "nodes":
        return _of_node(trace, row, correlation)
    if selection.table == "tensors":
        own = marked(len(trace.tensors), ids)
        return _of_accesses(trace, tensor_touch(trace, ids), own, None, watcher)
    if selection.table == "buffers":
        return _of_accesses(trace, buffer_touch(trace, ids), None, None, watcher)
    routed = trace.routing.span[routed_keys(trace) == row].astype(np.int64)
    return _of_accesses(trace, expert_touch(trace, ids), None, routed, watcher)


def _of_accesses(
    trace: Trace,
    touch: Touch,
    own: Bools | None,
    routed: I64 | None,
    watcher: Watcher | None,
) -> ThingFigures:
    spans, found, loose = trace.spans, account(trace), trace.accesses.loose
    hits, loose_hits = touch(found.what) & found.is_access, touch(loose.what)
    times = found.row_times()[hits]
    # Of a stack of experts each of them is one; of a tensor the access counts once.
    ones = np.ones(len(times), np.int64)
    counts = found.counts[hits] if routed is None else ones
    of_loose = loose_bytes(trace)[0][loose_hits]
    is_loose_write = loose.what.kind[loose_hits] == AccessKind.WRITE
    sums = _Sums(
        n_accesses=int((times * counts).sum()) + len(of_loose),
        bytes_read=_total(found, Direction.READ, found.known, times, hits)
        + int(of_loose[~is_loose_write].sum()),
        bytes_written=_total(found, Direction.WRITE, found.known, times, hits)
        + int(of_loose[is_loose_write].sum()),
        unknown_read=_total(found, Direction.READ, found.unknown, times, hits),
        unknown_written=_total(found, Direction.WRITE, found.unknown, times, hits),
    )
    entry_hit = np.append(found.per_entry(hits.astype(np.int64)) > 0, False)
    extra = loose.span[loose_hits].astype(np.int64)
    if routed is not None:
        extra = np.concatenate([extra, routed])
    extra = np.unique(extra[extra >= 0])
    column = spans.tensor if own is not None else None
    seen = _Seen(trace)
    for rows in chunks(len(spans)):
        mask = entry_hit[found.entries(rows)]
        is_own = mask[:0]
        if column is not None and own is not None:
            is_own = own[column[rows]]
            mask = mask | is_own
        begin, end = np.searchsorted(extra, (rows.start, rows.stop))
        mask[extra[begin:end] - rows.start] = True
        seen.add(np.flatnonzero(mask) + rows.start)
        seen.add_time(np.flatnonzero(is_own) + rows.start)
        if watcher is not None:
            watcher.progress(rows.stop, len(spans))
    return seen.figures(sums, -1 if routed is None else len(routed))


def _total(
    found: Account, direction: Direction, values: I64, times: I64, rows: Bools
) -> int:
    """Return the sum of `values` over accesses of one direction."""
    mine = found.direction[rows] == direction
    return int((times * values[rows])[mine].sum())


def _of_node(trace: Trace, node: int, correlation: Correlation | None) -> ThingFigures:
    seen = _Seen(trace)
    if correlation is None:
        return seen.figures(_Sums())
    ids = correlation.spans_of(node)
    seen.add(ids)
    seen.add_time(ids)
    found = account(trace)
    entry_times = count_values(found.told(ids), len(found))
    times = np.repeat(entry_times, np.diff(found.first))
    every = np.ones(len(times), np.bool_)
    read, written = Direction.READ, Direction.WRITE
    return seen.figures(
        _Sums(
            int((times * found.counts).sum()),
            _total(found, read, found.known, times, every),
            _total(found, written, found.known, times, every),
            _total(found, read, found.unknown, times, every),
            _total(found, written, found.unknown, times, every),
        )
    )


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over accesses; see `ThingFigures`."""

    n_accesses: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    unknown_read: int = 0
    unknown_written: int = 0


class _Seen:
    """Gathers time, tokens and durations of spans."""

    def __init__(self, trace: Trace) -> None:
        self._spans = trace.spans
        self._token = tokens_of(trace).key
        self._n = 0
        self._begin: int | None = None
        self._end = 0
        self._tokens = np.zeros(0, np.int64)
        self._ticks = np.zeros(_QUALITIES, np.int64)
        self._by_quality = np.zeros(_QUALITIES, np.int64)

    def add(self, ids: I64) -> None:
        """Take note of spans that have to do with it."""
        if not len(ids):
            return
        self._n += len(ids)
        begin, end = self._spans.start[ids], self._spans.end[ids]
        first = int(begin.min())
        self._begin = first if self._begin is None else min(self._begin, first)
        self._end = max(self._end, int(end.max()))
        if self._token is not None:
            token = np.unique(self._token[ids]).astype(np.int64)
            self._tokens = np.union1d(self._tokens, token[token >= 0])

    def add_time(self, ids: I64) -> None:
        """Add up how long spans took that are the thing itself."""
        lasted = self._spans.end[ids] - self._spans.start[ids]
        quality = quality_of(self._spans.flags[ids])
        for kind in range(_QUALITIES):
            some = quality == kind
            self._ticks[kind] += int(lasted[some].sum())
            self._by_quality[kind] += int(some.sum())

    def figures(self, sums: _Sums, n_chosen: int = -1) -> ThingFigures:
        """Return what was gathered, with these sums."""
        time = None if self._begin is None else TimeRange(self._begin, self._end)
        n_tokens = -1 if self._spans.token is None else len(self._tokens)
        return ThingFigures(
            n_accesses=sums.n_accesses,
            bytes_read=sums.bytes_read,
            bytes_written=sums.bytes_written,
            n_spans=self._n,
            time=time,
            n_tokens=n_tokens,
            ticks=self._ticks,
            n_by_quality=self._by_quality,
            n_chosen=n_chosen,
            unknown_read=sums.unknown_read,
            unknown_written=sums.unknown_written,
        )


_PLACES: dict[int, str] = {
    Place.STATED: "stated by the model file",
    Place.LISTED: "listed by a side file",
    Place.CALIBRATED: "calibrated: listed, and moved to where the trace reads",
    Place.TRACED: "traced: only accesses tell",
}
_PLACE_WORDS: dict[int, str] = {
    Place.STATED: "stated",
    Place.LISTED: "listed",
    Place.CALIBRATED: "calibrated",
    Place.TRACED: "traced",
}
_SIZES: dict[int, str] = {
    SizeSource.STATED: "from type and shape in the model file",
    SizeSource.LISTED: "listed by a side file",
    SizeSource.REPAIRED: "repaired: the listed size ran into the next tensor",
    SizeSource.TRACED: "traced: the largest access",
}


@dataclass(frozen=True, slots=True)
class ThingFacts:
    """A thing in words.

    Attributes
    ----------
    title : its name.
    kind : what it is and where it belongs, in one line.
    facts : everything else, in reading order.
    """

    title: str
    kind: str
    facts: tuple[Fact, ...]


def tensor_name(trace: Trace, row: int) -> str:
    """Return the name of a tensor; a dash where it has none."""
    return trace.strings[int(trace.tensors.name[row])] or "–"


def place_word(trace: Trace, row: int) -> str:
    """Return "stated", "listed", "calibrated", "traced" or "" for a tensor's offset."""
    return _PLACE_WORDS.get(_place(trace, row), "")


def card_words(trace: Trace, row: int, n_bytes: int = -1) -> tuple[str, ...]:
    """Return type and share of the file of a tensor, for a card; -1 gives nothing.

    Parameters
    ----------
    n_bytes : of the access; its share of a tensor is told where it reads a part.
    """
    if row < 0:
        return ()
    words = [_type(trace, row)]
    size, total = int(trace.tensors.size[row]), file_bytes(trace, row)
    if size > 0 and total > 0:
        words.append(f"{format_share(min(size / total, 1.0))} of the file")
    if 0 < n_bytes < size:
        words.append(f"{format_share(n_bytes / size)} of the tensor")
    return tuple(word for word in words if word)


def file_bytes(trace: Trace, row: int) -> int:
    """Return the size of the file that a tensor lies in; -1 where it is in none.

    What no header tells is taken to end with the last tensor.
    """
    tensors = trace.tensors
    if int(tensors.offset[row]) < 0:
        return -1
    if tensors.file is not None and int(tensors.file[row]) >= 0:
        stated = trace.models[int(tensors.file[row])].size
        if stated > 0:
            return stated
        same = tensors.file == tensors.file[row]
    else:
        same = np.ones(len(tensors), np.bool_)
    known = same & (tensors.offset >= 0) & (tensors.size >= 0)
    ends = tensors.offset[known] + tensors.size[known]
    return int(ends.max(initial=-1))


def tensor_facts(
    trace: Trace,
    row: int,
    figures: ThingFigures | None,
    leaf: str = "",
    *,
    absolute: bool = False,
) -> ThingFacts:
    """Return what is known of a row of ``Trace.tensors``.

    Parameters
    ----------
    figures : None while they are being counted.
    leaf : what a nameless input is for, as `analysis.leaves` infers it.
    """
    tensors, name = trace.tensors, tensor_name(trace, row)
    component = parse(name).component
    layer, expert = int(tensors.layer[row]), int(tensors.expert[row])
    facts = [
        Fact("component", component),
        Fact("layer", _or_missing(layer)),
        Fact("type", _type(trace, row) or NOT_AVAILABLE),
        Fact(
            "shape", shape_text(None if tensors.shape is None else tensors.shape[row])
        ),
        _offset_fact(trace, row),
        _size_fact(trace, row),
    ]
    if expert >= 0:
        facts.insert(2, Fact("expert", format_count(expert)))
    if tensors.n_experts is not None and int(tensors.n_experts[row]) > 0:
        n = int(tensors.n_experts[row])
        size = int(tensors.size[row])
        each = f"of {format_bytes(size / n)}" if size >= 0 else ""
        facts.insert(2, Fact("experts", f"{format_count(n)} {each}".strip()))
    total, size = file_bytes(trace, row), int(tensors.size[row])
    if total > 0 and size >= 0:
        facts.append(Fact("share of the file", format_share(min(size / total, 1.0))))
    if tensors.file is not None and int(tensors.file[row]) >= 0:
        facts.append(Fact("file", trace.models[int(tensors.file[row])].name))
    if leaf:
        facts.insert(0, Fact("stands for", f"{leaf} (inferred)", caution=True))
    facts += figure_facts(trace, figures, absolute=absolute)
    words = ["tensor", component, f"layer {layer}" if layer >= 0 else ""]
    return ThingFacts(name, " · ".join(w for w in words if w), tuple(facts))


def buffer_facts(
    trace: Trace, row: int, figures: ThingFigures | None, *, absolute: bool = False
) -> ThingFacts:
    """Return what is known of a row of ``Trace.buffers``."""
    buffers = trace.buffers
    usage = int(buffers.usage[row])
    word = BufferUsage(usage).name.lower() if usage in list(BufferUsage) else "other"
    begin, end = int(buffers.allocated[row]), int(buffers.freed[row])
    size, address = int(buffers.size[row]), int(buffers.address[row])
    name = trace.strings[int(buffers.name[row])] or f"buffer {row}"
    backend = trace.strings[int(buffers.backend[row])]
    facts = [
        Fact("usage", word),
        Fact("backend", backend or NOT_AVAILABLE),
        _bytes_fact("size", size),
        Fact("id", format_offset(address) if address else NOT_AVAILABLE),
    ]
    if buffers.layer is not None and int(buffers.layer[row]) >= 0:
        facts.append(Fact("layer", format_count(int(buffers.layer[row]))))
    if begin != -1 or end != -1:
        facts.append(_time_fact(trace, "allocated", begin, absolute=absolute))
        facts.append(
            _time_fact(trace, "freed", end, absolute=absolute)
            if end != -1
            else Fact("freed", "never", "no end was recorded")
        )
    else:
        facts.append(Fact("allocated", NOT_AVAILABLE, "only accesses name it"))
    if begin != -1 and end != -1:
        ticks, unit = end - begin, trace.clock.unit
        facts.append(
            Fact("life", format_duration(ticks, unit), format_exact(ticks, unit))
        )
    facts += figure_facts(trace, figures, absolute=absolute)
    return ThingFacts(name, f"{word} buffer", tuple(facts))


def expert_facts(
    trace: Trace, key: int, figures: ThingFigures | None, *, absolute: bool = False
) -> ThingFacts:
    """Return what is known of an expert, by its ``model.routing.expert_key``."""
    layer, expert = of_expert_key(key)
    rows, places = expert_ranges(trace, layer, expert)
    begin, stop = slices(trace, rows, np.full(len(rows), expert))
    # Slices that are listed beside their stack lie at one place: count bytes once.
    merged = merged_ranges(places)
    n_bytes = int((merged[:, 1] - merged[:, 0]).sum()) if len(merged) else -1
    facts = [
        Fact("layer", format_count(layer)),
        Fact("expert", format_count(expert)),
        Fact("tensors", format_count(len(rows)) if len(rows) else NOT_AVAILABLE),
        _bytes_fact("bytes in the file", n_bytes),
    ]
    for row, first, last in zip(
        rows[:6].tolist(), begin[:6].tolist(), stop[:6].tolist(), strict=True
    ):
        if last > first:
            text = f"{format_offset(first)} – {format_offset(last)}"
            exact = f"{format_exact_bytes(last - first)} from byte {first:,}"
            facts.append(Fact(tensor_name(trace, row), text, exact))
    facts.append(_chosen_fact(trace, layer, expert))
    if figures is not None and not figures.n_spans and not _names_experts(trace):
        why = "accesses touch whole stacks: no expert can be told"
        facts.append(Fact("accesses", NOT_AVAILABLE, why))
    else:
        facts += figure_facts(trace, figures, absolute=absolute)
    return ThingFacts(f"expert {expert}", f"expert of layer {layer}", tuple(facts))


def figure_facts(
    trace: Trace, figures: ThingFigures | None, *, absolute: bool = False
) -> list[Fact]:
    """Return what the trace did with a thing; "counting…" while that is not known."""
    if not len(trace.spans):
        return []
    if figures is None:
        labels = ("accesses", "bytes read", "spans", "first use", "last use")
        return [Fact(label, COUNTING) for label in labels]
    facts = [
        Fact("accesses", format_count(figures.n_accesses)),
        _bytes_fact("bytes read", figures.bytes_read),
    ]
    if figures.unknown_read:
        facts.append(_open_fact("perhaps read besides", figures.unknown_read))
    if figures.bytes_written:
        facts.append(_bytes_fact("bytes written", figures.bytes_written))
    if figures.unknown_written:
        facts.append(_open_fact("written, how much", figures.unknown_written))
    facts.append(Fact("spans", format_count(figures.n_spans)))
    if figures.time is not None:
        at = (("first use", figures.time.start), ("last use", figures.time.end))
        facts += [_time_fact(trace, w, tick, absolute=absolute) for w, tick in at]
    if figures.n_tokens >= 0:
        facts.append(Fact("tokens", format_count(figures.n_tokens)))
    return facts + time_facts(trace, figures)


def time_facts(trace: Trace, figures: ThingFigures) -> list[Fact]:
    """Return how long the spans took that are the thing itself, by quality."""
    facts, unit = [], trace.clock.unit
    for quality in Quality:
        n, ticks = int(figures.n_by_quality[quality]), int(figures.ticks[quality])
        if n:
            word = quality.name.lower()
            text = f"{format_duration(ticks, unit)} {word}"
            exact = f"{format_exact(ticks, unit)} in {format_count(n)} spans, {word}"
            caution = quality is not Quality.MEASURED
            facts.append(Fact("time", text, exact, caution=caution, qualifier=word))
    return facts


# -- single facts --------------------------------------------------------------


def _place(trace: Trace, row: int) -> int:
    place = trace.tensors.place
    if place is not None:
        return int(place[row])
    return Place.TRACED if int(trace.tensors.offset[row]) >= 0 else Place.UNKNOWN


def _offset_fact(trace: Trace, row: int) -> Fact:
    offset = int(trace.tensors.offset[row])
    if offset < 0:
        return Fact("offset", NOT_AVAILABLE)
    place = _place(trace, row)
    exact = f"byte {offset:,}; {_PLACES.get(place, 'not known how')}"
    word = _PLACE_WORDS.get(place, "")
    caution = place in (Place.TRACED, Place.CALIBRATED)
    text = f"{format_offset(offset)} {word}".strip()
    return Fact("offset", text, exact, caution=caution, qualifier=word)


def _size_fact(trace: Trace, row: int) -> Fact:
    size, sources = int(trace.tensors.size[row]), trace.tensors.size_source
    if size < 0:
        return Fact("size", NOT_AVAILABLE)
    source = SizeSource.TRACED if sources is None else int(sources[row])
    exact = format_exact_bytes(size)
    if source in _SIZES:
        exact += f"; {_SIZES[source]}"
    if source != SizeSource.REPAIRED:
        return Fact("size", format_bytes(size), exact)
    text = f"{format_bytes(size)} repaired"
    return Fact("size", text, exact, caution=True, qualifier="repaired")


def _type(trace: Trace, row: int) -> str:
    types = trace.tensors.type
    return "" if types is None else type_name(int(types[row]))


def shape_text(shape: object) -> str:
    """Return ``2880 × 2880 × 32``: dimensions up to the last one in use."""
    if not isinstance(shape, np.ndarray):
        return NOT_AVAILABLE
    sizes = shape.tolist()
    while len(sizes) > 1 and sizes[-1] in (0, 1):
        sizes.pop()
    if not sizes or sizes[0] <= 0:
        return NOT_AVAILABLE
    return " × ".join(str(size) if size > 0 else "?" for size in sizes)


def _names_experts(trace: Trace) -> bool:
    """Tell whether any access or choice of a router names an expert."""
    accesses = trace.accesses
    named = np.append(trace.tensors.expert, -1) >= 0
    return bool(
        len(trace.routing)
        or any(
            (what.expert >= 0).any() or named[what.tensor].any()
            for what in (accesses.patterns, accesses.loose.what)
        )
    )


def _chosen_fact(trace: Trace, layer: int, expert: int) -> Fact:
    routing = trace.routing
    of_layer = (routing.layer == layer) & routing.is_used
    total = int(of_layer.sum())
    if not total:
        return Fact(
            "chosen", NOT_AVAILABLE, "no choices of a router are recorded in this layer"
        )
    n = int((of_layer & (routing.expert == expert)).sum())
    exact = f"{format_count(n)} of {format_count(total)} choices in this layer"
    if routing.n_more is not None and (routing.n_more[of_layer] != 0).any():
        # Of what is not listed some may be of this expert.
        exact += " that lists name; further ones are not recorded"
        return Fact("chosen", f"at least {format_count(n)}", exact)
    return Fact("chosen", f"{format_count(n)} ({format_share(n / total)})", exact)


def _bytes_fact(label: str, n: int) -> Fact:
    if n < 0:
        return Fact(label, NOT_AVAILABLE)
    return Fact(label, format_bytes(n), format_exact_bytes(n))


def _open_fact(label: str, most: int) -> Fact:
    """Return a fact about bytes that are known to be so many at most."""
    return Fact(
        label,
        f"not known, at most {format_bytes(most)}",
        f"the trace records {format_exact_bytes(most)}; the op moves a part of it",
    )


def _time_fact(trace: Trace, label: str, tick: int, *, absolute: bool) -> Fact:
    if tick == -1:
        return Fact(label, NOT_AVAILABLE)
    text = time_text(trace, tick, absolute=absolute)
    return Fact(label, text, exact_time_text(trace, tick))


def _or_missing(number: int) -> str:
    return format_count(number) if number >= 0 else NOT_AVAILABLE


_FLAGS = (
    (NodeFlag.LEAF, "leaf: nothing computes it"),
    (NodeFlag.GRADIENT, "gradient"),
    (NodeFlag.UNDECLARED, "only edges name it"),
    (NodeFlag.SHARED, "shared by several layers"),
)


def node_facts(
    trace: Trace,
    node: int,
    figures: ThingFigures | None,
    correlation: Correlation | None = None,
    *,
    absolute: bool = False,
) -> ThingFacts:
    """Return what is known of a node by its id over all graphs.

    Raises
    ------
    IndexError
        If there is no such node.
    """
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    op = trace.op_name(int(graph.op[row]))
    symbol = trace.strings[int(graph.operation[row])]
    category = NodeCategory(int(graph.category[row])).name.lower()
    layer, address = int(graph.layer[row]), int(graph.address[row])
    flags = [words for bit, words in _FLAGS if int(graph.flags[row]) & bit]
    name = trace.strings[int(graph.name[row])]
    facts = [
        Fact("op", op or NOT_AVAILABLE, f"printed as {symbol}" if symbol else ""),
        Fact("type", trace.strings[int(graph.dtype[row])] or NOT_AVAILABLE),
        Fact("shape", shape_text(graph.shape[row])),
        Fact("layer", format_count(layer) if layer >= 0 else NOT_AVAILABLE),
        Fact("category", category),
        Fact(
            "ggml_tensor at",
            format_offset(address) if address else NOT_AVAILABLE,
            "where the graph's own object lies: never the address of data in a trace",
        ),
        Fact("graph", graph.title or f"token {graph.token}"),
    ]
    base = normalise(name)
    if base != name.strip():
        facts.insert(0, Fact("tensor", base or NOT_AVAILABLE))
    if flags:
        facts.append(Fact("note", "; ".join(flags)))
    facts.append(_match_fact(trace, node, correlation, is_op=bool(op)))
    facts += figure_facts(trace, figures, absolute=absolute)
    words = ["graph node", op, f"layer {layer}" if layer >= 0 else ""]
    return ThingFacts(name or "–", " · ".join(w for w in words if w), tuple(facts))


def neighbours(trace: Trace, node: int) -> tuple[list[int], list[int]]:
    """Return ids of the nodes that a node reads, by slot, and of those that read it."""
    number, row = locate_node(trace.graphs, node)
    graph = trace.graphs[number]
    first = first_node(trace.graphs, number)
    into = np.flatnonzero(graph.target == row)
    sources = graph.source[into[np.argsort(graph.slot[into], kind="stable")]]
    readers = np.unique(graph.target[graph.source == row])
    return (
        [first + int(i) for i in sources.tolist()],
        [first + int(i) for i in readers.tolist()],
    )


def _match_fact(
    trace: Trace, node: int, correlation: Correlation | None, *, is_op: bool
) -> Fact:
    """Return by which rule spans were found to be this node."""
    if not len(trace.spans):
        return Fact("in the trace", NOT_AVAILABLE, "no trace is open beside the graph")
    if correlation is None:
        return Fact("in the trace", NOT_AVAILABLE, "spans are being matched")
    rules = correlation.rules_of(node)
    if not rules:
        why = "no span has this name, op and order" if is_op else "no op computes it"
        return Fact("in the trace", "not found", why)
    words = "; ".join(rule.words for rule in rules)
    return Fact("in the trace", f"by {words}", f"matched by {words}")
