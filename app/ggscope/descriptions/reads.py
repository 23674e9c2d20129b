"""Texts about hot and cold tensors and about the what-if cache.

Window, terminal and report show the same texts.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.completeness.coverage import (
    Cause,
    TraceCoverage,
)
from ggscope.analysis.reads.expert_reads import ExpertReads, implies_reads
from ggscope.analysis.reads.hot_cold import HotCold
from ggscope.analysis.reads.hotness import (
    DiskOrder,
    Heat,
    RowReads,
    Seeks,
    SpaceTotals,
    UntouchedBytes,
    coverage,
    gini,
)
from ggscope.analysis.reads.what_if import CacheResult, WhatIf
from ggscope.analysis.sessions.join import refused_models
from ggscope.descriptions.counting import (
    OPEN_EXPERTS,
    READ_UNRECORDED,
    counting_rule,
    moved_text,
)
from ggscope.descriptions.coverage import coverage_text, left_out_text
from ggscope.model.ggml.rules import MAX_SOURCES
from ggscope.model.storage import Storage
from ggscope.model.tables import I64, Space
from ggscope.model.trace import Trace
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_counted,
    format_exact_bytes,
    format_share,
)

_PARTS = {Cause.PART_READ: "records", Cause.PART_SHOWN: "the range"}
"""Texts of the parts that a trace or a view is limited to."""


@dataclass(frozen=True, slots=True)
class HotFact:
    """One line about reads.

    Attributes
    ----------
    title : its subject.
    text : the values.
    remark : what they count or leave out, for a tooltip; "" = nothing.
    """

    title: str
    text: str
    remark: str = ""


def hot_facts(trace: Trace, ranked: HotCold) -> tuple[HotFact, ...]:
    """Return all facts, the most asked for first."""
    facts = [
        _never_touched(trace, ranked.cold, is_read=ranked.heat.places.is_read),
        _left_out(ranked.coverage),
        _coverage(ranked.heat),
        _spaces(ranked.totals, part_text(ranked.coverage)),
        _of_file(ranked.heat),
        _kv(trace, ranked),
        *(_rows(trace, rows, ranked.coverage) for rows in ranked.rows),
        _order(ranked.order),
        _jumps(ranked.seeks),
        _lost(trace, ranked.heat),
    ]
    return tuple(fact for fact in facts if fact is not None)


def names_tensors(trace: Trace) -> bool:
    """Return whether any access is known to be of a tensor."""
    accesses = trace.accesses
    parts = accesses.patterns, accesses.loose.what
    return any(bool((part.tensor >= 0).any()) for part in parts)


def pending_accesses(trace: Trace) -> str:
    """Return what accesses wait for while a trace is being read; "" = nothing."""
    if trace.is_partial or "accesses" in trace.pending:
        return "Accesses are read after the spans."
    return "The model is read after the trace." if trace.awaits_files else ""


def unnamed_text(trace: Trace) -> str:
    """Return that no access names a tensor; "" if some do, or there are none."""
    n = 0 if names_tensors(trace) else len(trace.accesses)
    if not n:
        return ""
    if n == 1:
        return "The only access in this trace names no tensor."
    return f"None of the {format_count(n)} accesses in this trace names a tensor."


def no_accesses_text(trace: Trace) -> tuple[str, str]:
    """Return why no access leads to a tensor, as a headline, and what to do."""
    if unnamed := unnamed_text(trace):
        return "No accesses to tensors", unnamed
    if trace.storage is not None:
        return _storage_text(trace.storage)
    if not len(trace.spans) and trace.importance is not None:
        return (
            "An importance matrix has no reads",
            "Tensors lists its importance by tensor, Experts its counts.",
        )
    if not len(trace.spans) and len(trace.routing):
        return (
            "A routing table has no reads",
            "It lists the experts that were chosen: see Experts.",
        )
    return (
        "No accesses",
        "This trace does not record which tensors its ops read. Add a tensor-access "
        "trace of the same run: File › Add to session.",
    )


def no_reads_text(trace: Trace, reads: WhatIf | None = None) -> tuple[str, str]:
    """Return why no read of the model can be counted: a headline, and what to do.

    Parameters
    ----------
    reads : the answer without a read; None = not there yet.
    """
    if trace.importance is not None and not len(trace.spans):
        return (
            "Counts have no order",
            "An importance matrix counts choices of experts; what a cache would hit "
            "depends on their order. What pinning serves follows from counts alone: "
            "Experts, chart “coverage”.",
        )
    chosen = None if reads is None else reads.chosen
    if chosen is not None and not chosen.sequence.n_lost:
        return (
            "No choices of experts",
            "No used choice is in this range; choices without times are in no range.",
        )
    if implies_reads(trace):
        return (
            "No sizes of experts",
            "The model lists none of the chosen experts. Add the one that the run used."
            if trace.models
            else "The trace lists the experts that were chosen, not their bytes. Add "
            "the model (.gguf): File › Add to session.",
        )
    accesses = trace.accesses
    parts = (accesses.patterns, accesses.loose.what)
    if any((part.space == Space.FILE).any() for part in parts):
        return (
            "No reads to count",
            "Accesses to a model file are recorded, but no read can be counted. Add "
            "its GGUF or memory map for sizes.",
        )
    return no_accesses_text(trace)


def _storage_text(storage: Storage) -> tuple[str, str]:
    """Return what requests to storage lack to be accesses to tensors."""
    requests = storage.requests
    at_offset = (requests.offset >= 0) & (requests.file >= 0)
    if at_offset.any():
        counts = np.bincount(requests.file[at_offset])
        name = storage.files[int(counts.argmax())].name
        return (
            "No model file",
            f"The reads have offsets in {name}. Add the model (.gguf) for its "
            "tensors: File › Add to session.",
        )
    if (requests.sector >= 0).any():
        return (
            "No offsets in a file",
            "The requests have sectors of a device. Add the extent map of the model "
            "(filefrag -v) and the model (.gguf): File › Add to session.",
        )
    return "No offsets recorded", "The trace names files without the offsets read."


def _advice(trace: Trace) -> str:
    """Return why given model files are not used, else the advice to add one."""
    return (
        " ".join(refused_models(trace).values())
        or "Add the GGUF file or its memory map."
    )


def _never_touched(
    trace: Trace, part: UntouchedBytes, *, is_read: bool
) -> HotFact | None:
    if not part.n_units:
        return None
    if not is_read:
        return HotFact(
            "Never touched",
            "unknown",
            "No access can be assigned to a tensor of the model file: the trace has "
            "none, or they name no tensors.",
        )
    if not part.is_listed:
        return HotFact(
            "Never touched",
            "unknown",
            "Without the model file or its map, tensors without accesses do not "
            f"appear. {_advice(trace)}",
        )
    remarks = []
    if part.n_unknown:
        remarks.append(
            f"unknown: {format_bytes(part.unknown_size)} "
            f"({format_share(part.unknown_share)}, {format_count(part.n_unknown)} "
            f"expert slices), {OPEN_EXPERTS}"
        )
    if part.n_unrecorded:
        remarks.append(
            f"{READ_UNRECORDED}: {format_bytes(part.unrecorded_size)} "
            f"({format_share(part.unrecorded_size / part.size)}, "
            f"{format_count(part.n_unrecorded)} tensors and expert slices)"
        )
    if part.n_cut:
        remarks.append(
            f"unknown: {format_bytes(part.cut_size)} "
            f"({format_share(part.cut_size / part.size)}, {format_count(part.n_cut)} "
            f"tensors), records list at most {MAX_SOURCES} sources of an op"
        )
    text = (
        f"{format_bytes(part.cold_size)} ({format_share(part.share)}) of "
        f"{format_bytes(part.size)}: {format_count(part.n_cold)} of "
        f"{format_count(part.n_units)} tensors and expert slices"
    )
    if not part.is_known:
        text = f"unknown; not read in this trace: {text}"
    elif shown := part_text(part.coverage):
        text += f" {shown}"
    return HotFact("Never touched", text, "; ".join(remarks))


def _left_out(coverage: TraceCoverage) -> HotFact | None:
    text = left_out_text(coverage)
    return HotFact("Left out", text, "") if text else None


def _coverage(heat: Heat) -> HotFact | None:
    # Ranked by bytes, so bytes are what it measures: accesses of small tensors are
    # as many as those of large ones.
    curve = coverage(heat)
    if not curve.bytes[-1]:
        return None
    size = curve.size_for(0.8, of_bytes=True)
    share = size / max(int(curve.size[-1]), 1)
    return HotFact(
        "Coverage",
        f"80.0 % of read bytes hit {format_bytes(size)} ({format_share(share)} of all "
        f"{'' if heat.places.is_complete else 'touched '}tensors)",
        f"Gini {gini(heat.unit_bytes, heat.places.size):.2f}; 0 = all bytes are read "
        "equally often; reads are spread evenly inside a tensor",
    )


def part_text(coverage: TraceCoverage) -> str:
    """Return "in records 0:10%, in the range 1 ms – 2 ms"; "" for a whole trace."""
    parts = [
        f"in {_PARTS[omission.cause]} {omission.detail}".rstrip()
        for omission in coverage.of(*_PARTS)
    ]
    return ", ".join(parts)


def _spaces(totals: SpaceTotals, part: str) -> HotFact | None:
    if not sum(totals.accesses.values()):
        return None
    parts = [
        f"{name} {format_count(count)} "
        f"({_size_text(*_limits(totals, name), totals.unsized[name])})"
        for name, count in totals.accesses.items()
        if count
    ]
    ratio = totals.ratio
    text = ", ".join(parts)
    if ratio is not None:
        text += f"; {ratio:.2f} activation accesses per weight access"
    rule = counting_rule(0, is_once=totals.is_once)
    return HotFact("Accesses", text, f"{part or 'whole trace'}; {rule}")


def _limits(totals: SpaceTotals, name: str) -> tuple[int, int]:
    """Return the least and the most bytes of a kind of accesses."""
    known = totals.bytes[name]
    return known, known + totals.unknown_bytes[name]


def _of_file(heat: Heat) -> HotFact | None:
    if not heat.unit_bytes.any() and not heat.unknown_file_bytes:
        return None
    text = f"{format_bytes(int(heat.unit_bytes.sum()))} read"
    if heat.unknown_file_bytes:
        text += f"; up to {format_bytes(heat.unknown_file_bytes)} more unknown"
    remark = counting_rule(heat.passed_bytes, is_once=heat.is_once)
    if heat.passed_bytes:
        remark += f"; {format_bytes(heat.passed_bytes)} lie in experts not chosen"
    return HotFact("Bytes of the model", text, remark)


def _kv(trace: Trace, ranked: HotCold) -> HotFact | None:
    kv = ranked.kv
    if not len(kv.tokens):
        return None
    parts = ", ".join(
        [
            _moved("read", kv.n_reads, kv.read, kv.unknown_read, kv.unsized_reads),
            _moved(
                "written",
                kv.n_writes,
                kv.written,
                kv.unknown_written,
                kv.unsized_writes,
            ),
        ]
    )
    n = kv.n_tokens(trace)
    known = int(kv.read.sum()) + int(kv.written.sum())
    open_ = int(kv.unknown_read.sum()) + int(kv.unknown_written.sum())
    if n > 1 and known + open_:
        unsized = int(kv.unsized_reads.sum()) + int(kv.unsized_writes.sum())
        size = _size_text(known // n, (known + open_) // n, unsized)
        parts += f"; {size} per token"
    remarks = []
    if kv.unknown_read.any():
        remarks.append("cache views are padded, and attention skips masked positions")
    if not len(trace.batch_tokens):
        remarks.append("token numbers as in the file")
    return HotFact("KV cache", parts, "; ".join(remarks))


def _moved(word: str, n: I64, known: I64, unknown: I64, unsized: I64) -> str:
    """Return the bytes read or written, with their limits."""
    if not n.sum():
        return f"no {'reads' if word == 'read' else 'writes'} recorded"
    size = int(known.sum())
    limits = _size_text(size, size + int(unknown.sum()), int(unsized.sum()))
    return f"{limits} {word}"


def _size_text(min_bytes: int, limit: int, n_unsized: int) -> str:
    """Return "3.0 MiB", "at most 3.0 MiB" or "1.0 MiB to 3.0 MiB".

    Limits that would round to the same text are in bytes. Where `n_unsized` accesses
    have no size there is no upper limit: "≥ 3.0 MiB", or "size unknown".
    """
    if n_unsized:
        return moved_text(min_bytes, n_unsized) if min_bytes else "size unknown"
    if min_bytes == limit:
        return format_bytes(min_bytes)
    if not min_bytes:
        return f"at most {format_bytes(limit)}"
    low, high = format_bytes(min_bytes), format_bytes(limit)
    if low == high:
        return f"{format_count(min_bytes)} to {format_exact_bytes(limit)}"
    return f"{low} to {high}"


def _rows(trace: Trace, rows: RowReads, coverage: TraceCoverage) -> HotFact:
    name = trace.strings[int(trace.tensors.name[rows.tensor])]
    if not rows.n_placed:
        # An op of a prompt looks up many rows.
        text = f"looked up in {name} by {format_counted(rows.n_ops, 'op')}"
        return HotFact("Embedding rows", text, "number and rows not recorded")
    text = f"{format_counted(rows.n_reads, 'look-up')} in {name}"
    if rows.n_ops < rows.n_reads:
        text += f" by {format_counted(rows.n_ops, 'op')}"
    text += f"; {format_counted(len(rows.row), 'different row')}"
    if rows.n_rows:
        text += f" of {format_count(rows.n_rows)}"
        text += f" ({format_bytes(len(rows.row) * rows.row_bytes)})"
    text += f", {format_count(rows.n_repeated)} read again"
    if (n := rows.n_untouched) is not None and not rows.is_whole:
        is_whole = not coverage.may_hide_reads and not coverage.of(Cause.PART_SHOWN)
        text += f", {format_count(n)} {'never' if is_whole else 'not in this part'}"
    remark = ""
    if open_ := rows.n_reads - rows.n_placed:
        remark = f"row of {format_counted(open_, 'look-up')} not recorded"
    return HotFact("Embedding rows", text, remark)


def _order(order: DiskOrder) -> HotFact | None:
    texts = {
        "numeric": "layers in numeric order (0, 1, 2 …)",
        "alphabetical": "layers in alphabetical order (0, 1, 10, 11 …)",
        "mixed": "layers in no order",
    }.get(order.kind)
    if texts is None:
        return None
    remark = "" if order.kind == "numeric" else (
        "A pass over the layers jumps through the file: "
        + ", ".join(str(layer) for layer in order.layers[:12])
        + ("…" if len(order.layers) > 12 else "")
    )  # fmt: skip
    return HotFact("Order on disk", texts, remark)


def _jumps(seeks: Seeks) -> HotFact | None:
    if not seeks.n:
        return None
    n_jumps = seeks.n_forward + seeks.n_backward
    return HotFact(
        "Sequence of reads",
        f"{format_share(seeks.share_sequential)} sequential; "
        f"{format_count(n_jumps)} jumps ({format_count(seeks.n_backward)} back), "
        f"{format_bytes(seeks.total)} in total",
        "by time over all threads, without row look-ups",
    )


def _lost(trace: Trace, heat: Heat) -> HotFact | None:
    if not heat.n_lost:
        return None
    return HotFact(
        "Without offset",
        f"{format_count(heat.n_lost)} accesses to weights with unknown file offset",
        _advice(trace),
    )


def cache_result_text(reads: WhatIf, given: CacheResult) -> tuple[str, ...]:
    """Return what a cache of some size would save, the answer itself first."""
    curve = reads.curve
    if not curve.n_reads:
        return ("This trace has no reads of a model file.",)
    share = given.bytes_read / max(curve.bytes_asked, 1)
    run = "this run reads" if reads.has_all else "the recorded part of this run reads"
    what = " of experts" if reads.chosen is not None else ""
    lines = [
        f"With {format_bytes(given.capacity)} of page cache {run} "
        f"{format_bytes(given.bytes_read)}{what} from disk: {format_share(share)} of "
        f"{question_text(reads)}.",
        f"Compulsory misses (first reads): {format_bytes(curve.cold_bytes)}. "
        f"A cache of {format_bytes(reads.working_set)} reads nothing twice.",
        f"Optimum (Belady, knows the future): {format_bytes(given.best)}; no cache of "
        "this size reads less.",
    ]
    if given.ahead is not None:
        saved = given.misses - given.ahead.misses
        lines.append(
            f"Reading {given.k} tensors ahead: {format_bytes(given.ahead.bytes_read)} "
            f"from disk, {format_count(given.ahead.misses)} waits instead of "
            f"{format_count(given.misses)} ({format_count(abs(saved))} "
            f"{'fewer' if saved >= 0 else 'more'})."
        )
    elif given.k:
        lines.append(
            "Read-ahead is not simulated: where experts lie in the file is unknown. "
            "Add the model (.gguf)."
        )
    lines += _pin_text(reads, given)
    return tuple(lines)


def question_text(reads: WhatIf) -> str:
    """Return the bytes that the run requests, with what they count."""
    sequence = reads.sequence
    rule = "experts chosen, each once per layer of a batch"
    if reads.chosen is None:
        rule = counting_rule(
            sequence.passed_bytes, sequence.n_row_reads, is_once=sequence.is_once
        )
    return f"{format_bytes(reads.curve.bytes_asked)} ({rule})"


def _units_text(reads: WhatIf) -> str:
    """Return what is pinned: slices of a model file, or whole experts."""
    has_slices = reads.chosen is None or reads.chosen.has_slices
    return "expert slices" if has_slices else "experts"


def _pin_text(reads: WhatIf, given: CacheResult) -> list[str]:
    pins, units = given.pins, _units_text(reads)
    if pins is None:
        return ["This trace names no experts, so there are none to pin."]
    if not pins.all_hits:
        return [f"None of the {units} is read twice: nothing to pin."]
    text = (
        f"Pin {format_count(len(pins.units))} of {format_count(pins.n_candidates)} "
        f"{units} ({format_bytes(pins.size)}) for {format_share(pins.share)} of "
        "the repeated expert reads"
    )
    if given.bytes_pinned is None:
        return [text + "; too large for this cache."]
    return [
        text + f"; with LRU for the rest of the cache this run then reads "
        f"{format_bytes(given.bytes_pinned)}."
    ]


def rests_on(reads: WhatIf) -> tuple[str, ...]:
    """Return the assumptions of the answers and what they leave out."""
    lines = list(reads.refused)
    if left_out := coverage_text(reads.coverage):
        lines.append(f"Not in the trace: {left_out}.")
    if reads.n_unrecorded:
        lines.append(
            f"Not counted: {format_count(reads.n_unrecorded)} tensors and expert "
            f"slices ({format_bytes(reads.unrecorded_size)}) {READ_UNRECORDED}."
        )
    if reads.chosen is not None:
        return (*lines, *_rests_on_choices(reads, reads.chosen))
    if reads.curve.n_reads:
        lines.append(
            "Derived: LRU over whole tensors and expert slices in trace order. Other "
            "files, memory pressure and the kernel's read-ahead are not modelled."
        )
    sequence = reads.sequence
    if sequence.n_row_reads:
        lines.append(
            f"Not counted: {format_count(sequence.n_row_reads)} row look-ups "
            "(GET_ROWS); the trace records the whole tensor, the op reads a few rows."
        )
    if sequence.n_maybe:
        lines.append(
            f"Not counted: {format_count(sequence.n_maybe)} accesses to expert stacks "
            f"(up to {format_bytes(sequence.unknown_bytes)}), {OPEN_EXPERTS}."
        )
    if sequence.n_lost:
        lines.append(
            f"Not counted: {format_count(sequence.n_lost)} accesses to weights with "
            "unknown file offset."
        )
    return tuple(lines)


def _rests_on_choices(reads: WhatIf, chosen: ExpertReads) -> list[str]:
    """Return what reads that follow from choices of experts assume and leave out."""
    lines = []
    n_lost, n_layers = reads.sequence.n_lost, chosen.n_other_layers
    if reads.curve.n_reads:
        sizes = "of the model file" if chosen.has_slices else "that the trace states"
        lines += [
            f"Derived: LRU over {_units_text(reads)} in the order of the choices, with "
            f"sizes {sizes}. No access is recorded: each chosen expert counts as one "
            "read per layer and token, for the tokens of a prompt batch together.",
            "Not counted: weights that are not of routed experts"
            + (
                f" ({format_bytes(chosen.other_size)} of the model)"
                if chosen.other_size
                else ""
            )
            + ", other files, memory pressure and the kernel's read-ahead.",
        ]
    if n_layers:
        lines.append(
            f"The model and the trace state different sizes of experts in {n_layers} "
            "layers: the run may have used another quantisation."
        )
    if n_lost and reads.curve.n_reads:
        lines.append(
            f"Not counted: {format_count(n_lost)} reads of experts of unknown size."
        )
    return lines
