"""What there is to say of hot and cold tensors and of the what-if cache.

Facts as titles, words and remarks; answers as sentences, the same in window and
terminal.
"""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.completeness.coverage import (
    Cause,
    TraceCoverage,
    shown_coverage,
)
from ggscope.analysis.heat.byte_ranges import OPEN_EXPERTS, counted_words
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.file_blocks import read_sequence
from ggscope.analysis.reads.hotness import (
    DiskOrder,
    Heat,
    RowReads,
    Seeks,
    SpaceTotals,
    UntouchedBytes,
    cold,
    coverage,
    disk_order,
    gini,
    heat,
    is_cache,
    row_reads,
    seeks,
    space_totals,
)
from ggscope.analysis.reads.op_io import Direction, account
from ggscope.analysis.reads.unrecorded import READ_UNRECORDED
from ggscope.analysis.reads.what_if import Answer, WhatIf
from ggscope.analysis.sessions.join import refused_models
from ggscope.analysis.statistics.token_layers import TokenLayers, token_layers
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.coverage import coverage_words, left_out_words
from ggscope.model.ggml.rules import MOST_SOURCES
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_bytes,
    format_count,
    format_exact_bytes,
    format_share,
)

_PARTS = {Cause.PART_READ: "records", Cause.PART_SHOWN: "the range"}
"""What people call a part of a trace."""


@dataclass(frozen=True, slots=True)
class HotFact:
    """One statement.

    Attributes
    ----------
    title : what it is about.
    words : the statement.
    remark : what it rests on or leaves out, "" = nothing.
    """

    title: str
    words: str
    remark: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class KvTraffic:
    """What ops read from the KV cache and write to it, by token; int64[k] each.

    Attributes
    ----------
    tokens : numbers (of ubatches in recordings) whose ops touch the cache; -1 = none.
    read, written : known bytes.
    unknown_read, unknown_written : bytes that may be moved besides, at most: what is
        read are views with room for positions that are not in use, and of what is
        written a few rows.
    n_reads, n_writes : accesses.
    """

    tokens: I64
    read: I64
    written: I64
    unknown_read: I64
    unknown_written: I64
    n_reads: I64
    n_writes: I64

    def n_tokens(self, trace: Trace) -> int:
        """Return how many tokens these are: of ubatches, those that they hold."""
        ubatch = trace.batch_tokens.ubatch
        if not len(ubatch):
            return len(self.tokens)
        return int(np.isin(ubatch, self.tokens).sum())


@dataclass(frozen=True, slots=True, eq=False)
class HotCold:
    """Everything the hot-and-cold pane shows of a trace or a range of it.

    Attributes
    ----------
    kv : what ops do with the KV cache.
    layers : layers by tokens, or by passes where the tokens are all one.
    coverage : what the trace leaves out.
    """

    heat: Heat
    cold: UntouchedBytes
    seeks: Seeks
    order: DiskOrder
    totals: SpaceTotals
    rows: tuple[RowReads, ...]
    kv: KvTraffic
    layers: TokenLayers
    coverage: TraceCoverage


def hot_cold(
    trace: Trace, time: TimeRange | None = None, watcher: Watcher | None = None
) -> HotCold:
    """Return what is hot and what is cold.

    Parameters
    ----------
    time : only ops that start in it.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    places = file_map(trace)
    found = heat(trace, time=time, places=places)
    sequence = read_sequence(trace, places, time=time, watcher=watcher)
    coverage = shown_coverage(trace, time)
    return HotCold(
        found,
        cold(found, coverage),
        seeks(places, sequence),
        disk_order(places),
        space_totals(trace, time),
        tuple(row_reads(trace, t, time) for t in _tables(trace, found)),
        kv_traffic(trace, time),
        _layers(trace, time, watcher),
        coverage,
    )


def _layers(
    trace: Trace, time: TimeRange | None, watcher: Watcher | None
) -> TokenLayers:
    by_token = token_layers(trace, time=time, watcher=watcher)
    if len(by_token.tokens) > 1 or trace.info.n_passes < 2:
        return by_token
    return token_layers(trace, "pass", time=time, watcher=watcher)


def _tables(trace: Trace, found: Heat) -> list[int]:
    """Return the embedding tables that are accessed."""
    used = np.flatnonzero(found.accesses > 0).tolist()
    names = trace.tensors.name
    return [
        t
        for t in used
        if trace.strings[int(names[t])].startswith("token_embd")
        and int(trace.tensors.offset[t]) >= 0
    ]


def kv_traffic(trace: Trace, time: TimeRange | None = None) -> KvTraffic:
    """Return what ops do with the KV cache, by token."""
    spans, found = trace.spans, account(trace)
    mine = is_cache(trace, found)
    values = [
        np.append(found.per_entry(np.where(mine, column, 0)), 0)
        for column in (
            found.known_of(Direction.READ),
            found.known_of(Direction.WRITE),
            found.unknown_of(Direction.READ),
            found.unknown_of(Direction.WRITE),
            (found.direction == Direction.READ).astype(np.int64),
            (found.direction == Direction.WRITE).astype(np.int64),
        )
    ]
    touches = np.append(found.per_entry((mine & found.is_access).astype(np.int64)), 0)
    column = found.told()
    chosen = touches[column] > 0
    if time is not None:
        chosen &= (spans.start >= time.start) & (spans.start < time.end)
    ids = np.flatnonzero(chosen)
    none = np.full(len(ids), -1, np.int64)
    token = none if spans.token is None else spans.token[ids].astype(np.int64)
    tokens, at = np.unique(token, return_inverse=True)
    sums = np.zeros((len(values), len(tokens)), np.int64)
    for total, per_entry in zip(sums, values, strict=True):
        np.add.at(total, at, per_entry[column[ids]])
    return KvTraffic(tokens, *sums)


def hot_facts(trace: Trace, found: HotCold) -> tuple[HotFact, ...]:
    """Return everything there is to say, the most asked for first."""
    facts = [
        _never_touched(trace, found.cold, is_read=found.heat.places.is_read),
        _left_out(found.coverage),
        _coverage(found.heat),
        _spaces(found.totals, part_words(found.coverage)),
        _of_file(found.heat),
        _kv(trace, found),
        *(_rows(trace, rows, found.coverage) for rows in found.rows),
        _order(found.order),
        _jumps(found.seeks),
        _lost(trace, found.heat),
    ]
    return tuple(fact for fact in facts if fact is not None)


def names_tensors(trace: Trace) -> bool:
    """Return whether any access is known to be of a tensor."""
    made = trace.accesses
    return any(
        bool((part.tensor >= 0).any()) for part in (made.patterns, made.loose.what)
    )


def unnamed_words(trace: Trace) -> str:
    """Say that the accesses name no tensor; "" if some do, or there are none."""
    n = 0 if names_tensors(trace) else len(trace.accesses)
    if not n:
        return ""
    if n == 1:
        return "The one access of this trace names no tensor."
    return f"None of the {format_count(n)} accesses of this trace names a tensor."


def _advice(trace: Trace) -> str:
    """Return what to do for a model file or map, or why those given are not used."""
    return " ".join(refused_models(trace).values()) or "Add the GGUF or its memory map."


def _never_touched(
    trace: Trace, part: UntouchedBytes, *, is_read: bool
) -> HotFact | None:
    if not part.n_units:
        return None
    if not is_read:
        return HotFact(
            "Never touched",
            "not known",
            "No access leads to a tensor of the model file: the trace records none, "
            "or nothing tells which tensors they are to.",
        )
    if not part.is_listed:
        return HotFact(
            "Never touched",
            "not known",
            "No model file or map of this trace is open: a tensor that is never "
            f"touched is never heard of. {_advice(trace)}",
        )
    remark = ""
    if part.n_unknown:
        remark = (
            f"of {format_bytes(part.unknown_size)} more "
            f"({format_share(part.unknown_share)}, {format_count(part.n_unknown)} "
            f"expert slices) it is not known: {OPEN_EXPERTS}"
        )
    if part.n_unrecorded:
        remark += (
            f"{'; ' if remark else ''}{format_bytes(part.unrecorded_size)} more "
            f"({format_share(part.unrecorded_size / part.size)}, "
            f"{format_count(part.n_unrecorded)} tensors and expert slices) are "
            f"{READ_UNRECORDED}"
        )
    if part.n_cut:
        remark += (
            f"{'; ' if remark else ''}of {format_bytes(part.cut_size)} more "
            f"({format_share(part.cut_size / part.size)}, {format_count(part.n_cut)} "
            f"tensors) it is not known: records have room for {MOST_SOURCES} sources "
            "of an op"
        )
    words = (
        f"{format_bytes(part.cold_size)} ({format_share(part.share)}) of "
        f"{format_bytes(part.size)}: {format_count(part.n_cold)} of "
        f"{format_count(part.n_units)} tensors and expert slices"
    )
    if not part.is_known:
        words = f"not known; no read in this trace: {words}"
    elif shown := part_words(part.coverage):
        words += f" {shown}"
    return HotFact("Never touched", words, remark)


def _left_out(found: TraceCoverage) -> HotFact | None:
    words = left_out_words(found)
    return HotFact("Left out", words, "") if words else None


def _coverage(found: Heat) -> HotFact | None:
    # Ranked by bytes, so bytes are what it measures: accesses of small tensors are
    # as many as those of large ones.
    curve = coverage(found)
    if not curve.bytes[-1]:
        return None
    size = curve.size_for(0.8, of_bytes=True)
    share = size / max(int(curve.size[-1]), 1)
    return HotFact(
        "Coverage",
        f"the hottest {format_bytes(size)} ({format_share(share)} of all "
        f"{'' if found.places.is_complete else 'touched '}tensors) take 80.0 % of the "
        "bytes that are read",
        f"unevenness (Gini) {gini(found.unit_bytes, found.places.size):.2f}; "
        "0 = every byte is read equally often; inside a tensor reads count as even",
    )


def part_words(coverage: TraceCoverage) -> str:
    """Return "in records 0:10%, in the range 1 ms – 2 ms"; "" for a whole trace."""
    found = [
        f"in {_PARTS[omission.cause]} {omission.detail}".rstrip()
        for omission in coverage.of(*_PARTS)
    ]
    return ", ".join(found)


def _spaces(totals: SpaceTotals, part: str) -> HotFact | None:
    if not sum(totals.accesses.values()):
        return None
    parts = [
        f"{name} {format_count(count)} ({_size_words(*_limits(totals, name))})"
        for name, count in totals.accesses.items()
        if count
    ]
    ratio = totals.ratio
    words = ", ".join(parts)
    if ratio is not None:
        words += f"; {ratio:.2f} to KV cache and intermediates per access to weights"
    counted = counted_words(0, is_once=totals.is_once)
    return HotFact("Accesses", words, f"{part or 'of the whole trace'}; {counted}")


def _limits(totals: SpaceTotals, name: str) -> tuple[int, int]:
    """Return the least and the most bytes of a kind of accesses."""
    known = totals.bytes[name]
    return known, known + totals.unknown_bytes[name]


def _of_file(found: Heat) -> HotFact | None:
    if not found.unit_bytes.any() and not found.unknown_file_bytes:
        return None
    words = f"{format_bytes(int(found.unit_bytes.sum()))} read"
    if found.unknown_file_bytes:
        words += (
            f"; of up to {format_bytes(found.unknown_file_bytes)} more it is not known"
        )
    remark = counted_words(found.passed_bytes, is_once=found.is_once)
    if found.passed_bytes:
        remark += f"; {format_bytes(found.passed_bytes)} in experts not chosen"
    return HotFact("Bytes of the model", words, remark)


def _kv(trace: Trace, found: HotCold) -> HotFact | None:
    kv = found.kv
    if not len(kv.tokens):
        return None
    words = ", ".join(
        [
            _moved("read", kv.n_reads, kv.read, kv.unknown_read),
            _moved("written", kv.n_writes, kv.written, kv.unknown_written),
        ]
    )
    n = kv.n_tokens(trace)
    known = int(kv.read.sum()) + int(kv.written.sum())
    open_ = int(kv.unknown_read.sum()) + int(kv.unknown_written.sum())
    if n > 1 and known + open_:
        words += f"; {_size_words(known // n, (known + open_) // n)} per token"
    remarks = []
    if kv.unknown_read.any():
        remarks.append(
            "views of the cache are padded, and attention skips masked positions"
        )
    if not len(trace.batch_tokens):
        remarks.append("tokens as the file claims them")
    return HotFact("KV cache", words, "; ".join(remarks))


def _moved(word: str, n: I64, known: I64, unknown: I64) -> str:
    """Return what is read or written, and how far that is known."""
    if not n.sum():
        return f"no {'reads' if word == 'read' else 'writes'} are recorded"
    size = int(known.sum())
    return f"{_size_words(size, size + int(unknown.sum()))} {word}"


def _size_words(least: int, most: int) -> str:
    """Return "3.0 MiB", "at most 3.0 MiB" or "1.0 MiB to 3.0 MiB".

    Limits that would look alike are told in bytes.
    """
    if least == most:
        return format_bytes(least)
    if not least:
        return f"at most {format_bytes(most)}"
    low, high = format_bytes(least), format_bytes(most)
    if low == high:
        return f"{format_count(least)} to {format_exact_bytes(most)}"
    return f"{low} to {high}"


def _rows(trace: Trace, rows: RowReads, coverage: TraceCoverage) -> HotFact:
    name = trace.strings[int(trace.tensors.name[rows.tensor])]
    if not rows.n_placed:
        # An op of a prompt looks up many rows.
        words = f"looked up in {name} by {_n(rows.n_ops, 'op')}"
        return HotFact("Embedding rows", words, "how many and which is not recorded")
    words = f"{_n(rows.n_reads, 'look-up')} in {name}"
    if rows.n_ops < rows.n_reads:
        words += f" by {_n(rows.n_ops, 'op')}"
    words += f"; {_n(len(rows.row), 'different row')}"
    if rows.n_rows:
        words += f" of {format_count(rows.n_rows)}"
        words += f" ({format_bytes(len(rows.row) * rows.row_bytes)})"
    words += f", {format_count(rows.n_repeated)} read again"
    if (n := rows.n_untouched) is not None and not rows.is_whole:
        is_whole = not coverage.may_hide_reads and not coverage.of(Cause.PART_SHOWN)
        words += f", {format_count(n)} {'never' if is_whole else 'not in this part'}"
    remark = ""
    if open_ := rows.n_reads - rows.n_placed:
        remark = f"the row of {_n(open_, 'look-up')} is not recorded"
    return HotFact("Embedding rows", words, remark)


def _n(n: int, noun: str) -> str:
    """Return "1 op" or "3 ops"."""
    return f"{format_count(n)} {noun}{'' if n == 1 else 's'}"


def _order(order: DiskOrder) -> HotFact | None:
    words = {
        "numeric": "layers lie one after the other (0, 1, 2 …)",
        "alphabetical": "layers lie in alphabetical order (0, 1, 10, 11 …)",
        "mixed": "layers lie in no order",
    }.get(order.kind)
    if words is None:
        return None
    remark = "" if order.kind == "numeric" else (
        "A run through the layers jumps through the file: "
        + ", ".join(str(layer) for layer in order.layers[:12])
        + ("…" if len(order.layers) > 12 else "")
    )  # fmt: skip
    return HotFact("Order on disk", words, remark)


def _jumps(found: Seeks) -> HotFact | None:
    if not found.n:
        return None
    n_jumps = found.n_forward + found.n_backward
    return HotFact(
        "Sequence of reads",
        f"{format_share(found.share_sequential)} go on where the one before ended; "
        f"{format_count(n_jumps)} jumps ({format_count(found.n_backward)} back), "
        f"{format_bytes(found.total)} in all",
        "in the order of time over all threads; look-ups of rows left out",
    )


def _lost(trace: Trace, found: Heat) -> HotFact | None:
    if not found.n_lost:
        return None
    return HotFact(
        "Without a place",
        f"{format_count(found.n_lost)} accesses to weights whose place in the file is "
        "not known",
        _advice(trace),
    )


def answer_words(found: WhatIf, given: Answer) -> tuple[str, ...]:
    """Return what a size of cache means, the answer itself first."""
    curve = found.curve
    if not curve.n_reads:
        return ("The trace tells no reads of a model file.",)
    share = given.bytes_read / max(curve.bytes_asked, 1)
    who = "this run reads" if found.has_all else "what is recorded of this run reads"
    lines = [
        f"With {format_bytes(given.capacity)} of page cache {who} "
        f"{format_bytes(given.bytes_read)} from disk: {format_share(share)} of the "
        f"{asked_words(found)} that it asks for.",
        f"{format_bytes(curve.cold_bytes)} of that are first reads, which no cache "
        f"saves; a cache of {format_bytes(found.working_set)} reads nothing twice.",
        f"Belady's optimum, which knows the future, reads {format_bytes(given.best)}: "
        "no cache of this size can read less.",
    ]
    if given.ahead is not None:
        saved = given.misses - given.ahead.misses
        lines.append(
            f"Reading {given.k} tensors ahead: {format_bytes(given.ahead.bytes_read)} "
            f"from disk, {format_count(given.ahead.misses)} waits instead of "
            f"{format_count(given.misses)} ({format_count(abs(saved))} "
            f"{'fewer' if saved >= 0 else 'more'})."
        )
    lines += _pin_words(given)
    return tuple(lines)


def asked_words(found: WhatIf) -> str:
    """Return the bytes that the run asks for, with what they count."""
    sequence = found.sequence
    counted = counted_words(
        sequence.passed_bytes, sequence.n_row_reads, is_once=sequence.is_once
    )
    return f"{format_bytes(found.curve.bytes_asked)} ({counted})"


def _pin_words(given: Answer) -> list[str]:
    pins = given.pins
    if pins is None:
        return ["No expert can be told in this trace, so there are none to pin."]
    if not pins.all_hits:
        return ["No expert slice is read twice, so there is nothing to pin."]
    words = (
        f"Pin {format_count(len(pins.units))} of {format_count(pins.n_candidates)} "
        f"expert slices ({format_bytes(pins.size)}) for {format_share(pins.share)} of "
        "the repeated reads of experts"
    )
    if given.bytes_pinned is None:
        return [words + "; they do not fit into this cache."]
    return [
        words + f"; with the rest of the cache left to LRU this run then reads "
        f"{format_bytes(given.bytes_pinned)}."
    ]


def rests_on(found: WhatIf) -> tuple[str, ...]:
    """Return what the answers rest on, where there are any, and what they leave out."""
    lines = list(found.refused)
    if left_out := coverage_words(found.coverage):
        lines.append(f"Left out of the trace: {left_out}.")
    if found.n_unrecorded:
        lines.append(
            f"{format_count(found.n_unrecorded)} tensors and expert slices "
            f"({format_bytes(found.unrecorded_size)}) are left out: {READ_UNRECORDED}."
        )
    if found.curve.n_reads:
        lines.append(
            "Derived: whole tensors and expert slices in the order of the trace, LRU. "
            "Other files, memory pressure and the kernel's own read-ahead are not "
            "known."
        )
    sequence = found.sequence
    if sequence.n_row_reads:
        lines.append(
            f"{format_count(sequence.n_row_reads)} look-ups of rows (GET_ROWS) are "
            "left out: the trace records the whole tensor, the op reads a few rows."
        )
    if sequence.n_maybe:
        lines.append(
            f"{format_count(sequence.n_maybe)} accesses to stacks of experts are left "
            f"out, with up to {format_bytes(sequence.unknown_bytes)}: {OPEN_EXPERTS}."
        )
    if sequence.n_lost:
        lines.append(
            f"{format_count(sequence.n_lost)} accesses to weights are left out: their "
            "place in the file is not known."
        )
    return tuple(lines)
