"""The answers of the what-if cache as sentences, the same in window and terminal."""

from ggscope.analysis.heatmap_touches import OPEN_EXPERTS, counted_words
from ggscope.analysis.what_if import Answer, WhatIf
from ggscope.model.units import format_bytes, format_count, format_share


def answer_words(found: WhatIf, given: Answer) -> tuple[str, ...]:
    """Return what a size of cache means, the answer itself first."""
    curve = found.curve
    if not curve.n_reads:
        return ("The trace tells no reads of a model file.",)
    share = given.bytes_read / max(curve.bytes_asked, 1)
    lines = [
        f"With {format_bytes(given.capacity)} of page cache this run reads "
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
    counted = counted_words(sequence.passed_bytes, sequence.n_row_reads)
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
    lines = []
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


__all__ = ["answer_words", "asked_words", "rests_on"]
