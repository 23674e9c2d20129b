"""Facts about a selected tensor, buffer or expert, as texts."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.links import expert_ranges, merged_ranges, slices
from ggscope.analysis.reads.usage import Usage
from ggscope.descriptions.counting import moved_text
from ggscope.descriptions.spans import Fact, exact_time_text, time_text
from ggscope.model.ggml.types import type_name
from ggscope.model.names import parse
from ggscope.model.routing import of_expert_key
from ggscope.model.tables import I64, Quality
from ggscope.model.tensors import BufferUsage, Place, SizeSource
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

COUNTING = "counting…"
_PLACES: dict[int, str] = {
    Place.STATED: "from the model file",
    Place.LISTED: "from a side file",
    Place.CALIBRATED: "calibrated: from a side file, moved to where the trace reads",
    Place.TRACED: "from accesses in the trace",
}
_PLACE_WORDS: dict[int, str] = {
    Place.STATED: "from model",
    Place.LISTED: "from side file",
    Place.CALIBRATED: "calibrated",
    Place.TRACED: "from trace",
}
_NOT_LISTED = (Place.UNKNOWN, Place.TRACED)
_SIZES: dict[int, str] = {
    SizeSource.STATED: "from type and shape in the model file",
    SizeSource.LISTED: "from a side file",
    SizeSource.REPAIRED: "repaired: the listed size ran into the next tensor",
    SizeSource.TRACED: "from the largest access",
}


@dataclass(frozen=True, slots=True)
class SelectedFacts:
    """What is selected, in words.

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
    """Return where a tensor's offset is known from: "from model"; "" = unknown."""
    return _PLACE_WORDS.get(_place(trace, row), "")


def card_text(trace: Trace, row: int, n_bytes: int = -1) -> tuple[str, ...]:
    """Return type and share of the file of a tensor, for a card; -1 gives nothing.

    Parameters
    ----------
    n_bytes : of the access; its share of the tensor is added where it reads a part.
    """
    if row < 0:
        return ()
    parts = [_type(trace, row)]
    size, total = int(trace.tensors.size[row]), file_bytes(trace, row)
    if size > 0 and total > 0:
        parts.append(f"{format_share(min(size / total, 1.0))} of the file")
    if 0 < n_bytes < size:
        parts.append(f"{format_share(n_bytes / size)} of the tensor")
    return tuple(word for word in parts if word)


def file_bytes(trace: Trace, row: int) -> int:
    """Return the size of the file that a tensor lies in; -1 where it is not known.

    Where a map lists the tensors and no header states the size, the file is taken to
    end with the last of them. Places that only accesses state say nothing of its end.
    """
    tensors = trace.tensors
    if int(tensors.offset[row]) < 0:
        return -1
    if tensors.place is None or bool(np.isin(tensors.place, _NOT_LISTED).all()):
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
    figures: Usage | None,
    leaf: str = "",
    *,
    absolute: bool = False,
) -> SelectedFacts:
    """Return what is known of a row of ``Trace.tensors``.

    Parameters
    ----------
    figures : None while they are being counted.
    leaf : what a nameless input is for, as `analysis.graph.inputs` infers it.
    """
    tensors, name = trace.tensors, tensor_name(trace, row)
    component = parse(name).component
    layer, expert = int(tensors.layer[row]), int(tensors.expert[row])
    shape = None if tensors.shape is None else tensors.shape[row]
    facts = [
        Fact("component", component),
        Fact("layer", format_count(layer) if layer >= 0 else NOT_AVAILABLE),
        Fact("type", _type(trace, row) or NOT_AVAILABLE),
        Fact("shape", shape_text(shape) or NOT_AVAILABLE),
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
    facts += usage_facts(trace, figures, absolute=absolute)
    parts = ["tensor", component, f"layer {layer}" if layer >= 0 else ""]
    return SelectedFacts(name, " · ".join(w for w in parts if w), tuple(facts))


def buffer_facts(
    trace: Trace, row: int, figures: Usage | None, *, absolute: bool = False
) -> SelectedFacts:
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
            else Fact("freed", "never", "no end recorded")
        )
    else:
        facts.append(Fact("allocated", NOT_AVAILABLE, "known from accesses only"))
    if begin != -1 and end != -1:
        ticks, unit = end - begin, trace.clock.unit
        facts.append(
            Fact("life", format_duration(ticks, unit), format_exact(ticks, unit))
        )
    facts += usage_facts(trace, figures, absolute=absolute)
    return SelectedFacts(name, f"{word} buffer", tuple(facts))


def expert_facts(
    trace: Trace, key: int, figures: Usage | None, *, absolute: bool = False
) -> SelectedFacts:
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
        why = "accesses are to whole stacks and name no expert"
        facts.append(Fact("accesses", NOT_AVAILABLE, why))
    else:
        facts += usage_facts(trace, figures, absolute=absolute)
    return SelectedFacts(f"expert {expert}", f"expert of layer {layer}", tuple(facts))


def usage_facts(
    trace: Trace, figures: Usage | None, *, absolute: bool = False
) -> list[Fact]:
    """Return what the trace did with it; "counting…" while that is not known."""
    if not len(trace.spans):
        return []
    if figures is None:
        labels = ("accesses", "bytes read", "spans", "first use", "last use")
        return [Fact(label, COUNTING) for label in labels]
    facts = [
        Fact("accesses", format_count(figures.n_accesses)),
        _moved_fact("bytes read", figures.bytes_read, figures.unsized_reads),
    ]
    if figures.unknown_read:
        facts.append(_open_fact("possibly also read", figures.unknown_read))
    if figures.bytes_written or figures.unsized_writes:
        n_unsized = figures.unsized_writes
        facts.append(_moved_fact("bytes written", figures.bytes_written, n_unsized))
    if figures.unknown_written:
        facts.append(_open_fact("possibly written", figures.unknown_written))
    facts.append(Fact("spans", format_count(figures.n_spans)))
    if figures.time is not None:
        at = (("first use", figures.time.start), ("last use", figures.time.end))
        facts += [_time_fact(trace, w, tick, absolute=absolute) for w, tick in at]
    if figures.n_tokens >= 0:
        facts.append(Fact("tokens", format_count(figures.n_tokens)))
    return facts + time_facts(trace, figures)


def time_facts(trace: Trace, figures: Usage) -> list[Fact]:
    """Return how long the spans took that are the selection itself, by quality."""
    facts, unit = [], trace.clock.unit
    for quality in Quality:
        n, ticks = int(figures.n_by_quality[quality]), int(figures.ticks[quality])
        if n:
            word = quality.word
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
    exact = f"byte {offset:,}; {_PLACES.get(place, 'source unknown')}"
    word = _PLACE_WORDS.get(place, "")
    word = f"({word})" if word else ""
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


def shape_text(shape: I64 | None) -> str:
    """Return ``2880 × 2880 × 32``: dimensions up to the last one in use; "" unknown."""
    sizes = [0] if shape is None else shape.tolist()
    while len(sizes) > 1 and sizes[-1] in (0, 1):
        sizes.pop()
    if sizes[0] <= 0:
        return ""
    return " × ".join(str(size) if size > 0 else "?" for size in sizes)


def _names_experts(trace: Trace) -> bool:
    """Return whether any access or routing entry names an expert."""
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
        return Fact("chosen", NOT_AVAILABLE, "no routing recorded for this layer")
    n = int((of_layer & (routing.expert == expert)).sum())
    exact = f"{format_count(n)} of {format_count(total)} choices in this layer"
    if routing.n_more is not None and (routing.n_more[of_layer] != 0).any():
        # Of what is not listed some may be of this expert.
        exact += " listed; further ones not recorded"
        return Fact("chosen", f"at least {format_count(n)}", exact)
    return Fact("chosen", f"{format_count(n)} ({format_share(n / total)})", exact)


def _bytes_fact(label: str, n: int) -> Fact:
    if n < 0:
        return Fact(label, NOT_AVAILABLE)
    return Fact(label, format_bytes(n), format_exact_bytes(n))


def _moved_fact(label: str, n: int, n_unsized: int) -> Fact:
    """Return a fact about bytes that some accesses move, `n_unsized` without a size."""
    if not n_unsized:
        return _bytes_fact(label, n)
    remark = f"{format_count(n_unsized)} of the accesses without a size"
    return Fact(label, moved_text(n, n_unsized), remark)


def _open_fact(label: str, limit: int) -> Fact:
    """Return a fact about bytes of which only an upper limit is known."""
    return Fact(
        label,
        f"≤ {format_bytes(limit)}",
        f"{format_exact_bytes(limit)} recorded; the op moves part of them",
    )


def _time_fact(trace: Trace, label: str, tick: int, *, absolute: bool) -> Fact:
    if tick == -1:
        return Fact(label, NOT_AVAILABLE)
    text = time_text(trace, tick, absolute=absolute)
    return Fact(label, text, exact_time_text(trace, tick))
