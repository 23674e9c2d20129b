"""``ggscope cache``: what a page cache of some size would read from disk."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.reads.what_if import CacheResult, WhatIf, cache_result, what_if
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load, print_heading, time_range
from ggscope.descriptions.coverage import coverage_json
from ggscope.descriptions.reads import (
    cache_result_text,
    no_reads_text,
    question_text,
    rests_on,
)
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, format_share
from ggscope.sanitize import one_line

_PARTS = 8
"""Sizes that are shown where none is asked for: eighths of the working set."""


def run(arguments: Namespace) -> int:
    """Print the results for each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        time = time_range(trace, arguments)
        reads = what_if(trace, time, with_row_reads=arguments.with_row_reads)
        by_size = [
            cache_result(
                reads, size, k=arguments.read_ahead, pin_share=arguments.pin / 100
            )
            for size in _sizes(reads, arguments)
        ]
        if not arguments.json:
            _print(path, trace, reads, by_size, arguments)
        return GOOD, _json(path, reads, by_size)

    return answer_each(arguments, work)


def _sizes(reads: WhatIf, arguments: Namespace) -> list[int]:
    if arguments.cache_size:
        return sorted(set(arguments.cache_size))
    whole = reads.working_set
    return [whole * i // _PARTS for i in range(1, _PARTS + 1)] if whole else []


def _print(
    path: Path,
    trace: Trace,
    reads: WhatIf,
    results: list[CacheResult],
    arguments: Namespace,
) -> None:
    print_heading(path, arguments)
    if not reads.curve.n_reads:
        output.emit(one_line(". ".join(no_reads_text(trace, reads))))
    elif arguments.cache_size:
        for one in results:
            for line in cache_result_text(reads, one):
                output.emit(one_line(line))
            output.emit("")
    else:
        _print_table(reads, results)
    for line in rests_on(reads):
        output.say(line)


def _print_table(reads: WhatIf, results: list[CacheResult]) -> None:
    requested = max(reads.curve.bytes_asked, 1)
    head = (
        f"{'page cache':>10}  {'from disk':>10}   share  {'waits':>12}  {'optimum':>10}"
    )
    ahead = any(one.ahead is not None for one in results)
    output.emit(head + (f"  {'read-ahead':>10}" if ahead else ""))
    for one in results:
        line = (
            f"{format_bytes(one.capacity):>10}  {format_bytes(one.bytes_read):>10}  "
            f"{format_share(one.bytes_read / requested):>6}  "
            f"{format_count(one.misses):>12}"
            f"  {format_bytes(one.best):>10}"
        )
        if one.ahead is not None:
            line += f"  {format_bytes(one.ahead.bytes_read):>10}"
        output.emit(line)
    who = "The run asks" if reads.has_all else "What is recorded of the run asks"
    output.emit(
        f"{who} for {question_text(reads)}; "
        f"{format_bytes(reads.working_set)} are first reads."
    )


def _json(path: Path, reads: WhatIf, results: list[CacheResult]) -> dict[str, object]:
    curve = reads.curve
    return {
        "path": str(path),
        "reads": curve.n_reads,
        "bytes_asked": curve.bytes_asked,
        "cold_misses": curve.cold_misses,
        "cold_bytes": curve.cold_bytes,
        "reads_from": "accesses" if reads.chosen is None else "expert_choices",
        "left_out": {
            "row_reads": reads.sequence.n_row_reads,
            "without_place": reads.sequence.n_lost,
            "other_tensors_bytes": 0
            if reads.chosen is None
            else (reads.chosen.other_size or None),
            "unknown_experts": reads.sequence.n_maybe,
            "unknown_expert_bytes": reads.sequence.unknown_bytes,
            "not_recorded_units": reads.n_unrecorded,
            "not_recorded_bytes": reads.unrecorded_size,
        },
        "coverage": coverage_json(reads.coverage),
        "refused": list(reads.refused),
        "answers": [_result_json(reads, one) for one in results],
    }


def _result_json(reads: WhatIf, one: CacheResult) -> dict[str, object]:
    ahead, pins = one.ahead, one.pins
    return {
        "cache_bytes": one.capacity,
        "read_bytes": one.bytes_read,
        "misses": one.misses,
        "optimum_bytes": one.best,
        "read_ahead": None
        if ahead is None
        else {
            "tensors": one.k,
            "read_bytes": ahead.bytes_read,
            "misses": ahead.misses,
            "ahead_bytes": ahead.bytes_ahead,
        },
        "pin": None
        if pins is None
        else {
            "slices": [
                {
                    "layer": int(reads.units.layer[u]),
                    "expert": int(reads.units.expert[u]),
                    "offset": int(reads.units.offset[u])
                    if reads.units.offset[u] >= 0
                    else None,
                    "size": int(reads.units.size[u]),
                }
                for u in pins.units.tolist()
            ],
            "bytes": pins.size,
            "hit_share": pins.share if pins.all_hits else None,
            "read_bytes": one.bytes_pinned,
        },
    }
