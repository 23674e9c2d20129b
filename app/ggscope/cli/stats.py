"""``ggscope stats``: totals, means and percentiles."""

import math
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.analysis.reads.account import counts_once
from ggscope.analysis.reads.unrecorded import time_words
from ggscope.analysis.statistics.table import (
    RULES,
    TWICE,
    StatRow,
    counts_twice,
    stat_table,
)
from ggscope.cli import output
from ggscope.cli.arguments import is_table_format
from ggscope.cli.info.info import stalls_json
from ggscope.cli.output import GOOD
from ggscope.cli.reading import for_each_file, load
from ggscope.errors import QueryError
from ggscope.model.selection import By
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    TimeRange,
    Unit,
    format_bytes,
    format_count,
    format_duration,
    format_share,
    parse_duration,
)
from ggscope.text import csv_text, one_line
from ggscope.words.spans import summed_wait_text
from ggscope.words.times import fused_ops, time_notes

_HEAD = ("count", "total", "share", "mean", "min", "p50", "p90", "p99", "max", "bytes")

_WAIT_HEAD = ("wait", "mean wait", "waiting")

_MAX_SHOWN = 500
"""Rows of a table for people where they set no limit; a trace may have a million."""
_OF_LANES = ("engine", "lane", "thread")
_MAX_STALLS = 8
_CSV_TAIL = (
    "mean", "min", "p50", "p90", "p99", "max", "bytes", "share", "quality",
    "in_range", "self", "wall", "ops", "bytes_unknown",
)  # fmt: skip
_CSV_WAITS = ("wait_mean", "wait_share", "waiting", "waits", "longest_waits")


@dataclass(frozen=True, slots=True)
class _Result:
    path: Path
    unit: Unit
    by: By
    rows: list[StatRow]
    knows_bytes: bool
    has_range: bool
    n_left_out: int
    n_untimed: int
    n_spans: int = 0
    is_once: bool = True
    silent: str = ""
    fused: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unrecorded: Mapping[str, int] = field(default_factory=dict)
    stalls: list[dict[str, Any]] = field(default_factory=list)


def run(arguments: Namespace) -> int:
    """Print statistics of the files; return the exit code."""
    if not is_table_format(arguments.format):
        arguments.reader, arguments.format = arguments.format, "table"
    if arguments.json:
        arguments.format = "json"
    shown: list[_Result] = []

    def work(path: Path) -> tuple[int, object]:
        result = _result(load(path, arguments), path, arguments)
        shown.append(result)
        return GOOD, to_json(result)

    results = for_each_file(arguments, work)
    if arguments.format == "json":
        results.emit_json()
    elif arguments.format == "csv":
        output.emit_csv(_csv(shown))
    else:
        for result in shown:
            title = (
                f"{one_line(str(result.path))}\n" if len(arguments.files) > 1 else ""
            )
            output.emit(title + _table(result))
            if result.rows and result.by in RULES:
                output.say(f"note: {RULES[result.by]}")
            nests, lies_beside = counts_twice(result.rows)
            if nests or lies_beside:
                output.say(f"note: {TWICE}")
            for line in _notes(result):
                output.say(f"note: {line}")
            if result.n_untimed:
                n_untimed = format_count(result.n_untimed)
                output.say(
                    f"note: the times leave out {n_untimed} spans whose "
                    "duration is estimated or unfinished; see --include-estimated."
                )
    return results.code


def to_json(result: _Result) -> dict[str, object]:
    """Return what ``stats --json`` prints of one file."""
    return {
        "path": str(result.path),
        "by": result.by,
        "rows": [_row_json(row, result) for row in result.rows],
        "not_recorded": result.silent,
        "fused": result.fused,
        "rows_not_recorded": [
            {"key": op, "ops": count} for op, count in result.unrecorded.items()
        ],
        "stalls": result.stalls,
    }


def _result(trace: Trace, path: Path, arguments: Namespace) -> _Result:
    unit = trace.clock.unit
    time = _time(trace, arguments)
    # Who sets a limit, or reads by a program, gets what was asked for.
    is_for_people = arguments.limit is None and arguments.format == "table"
    table = stat_table(
        trace,
        arguments.by,
        mask=filter_mask(trace, read_filter(arguments.where, trace)),
        time=time,
        include_estimated=arguments.include_estimated,
        limit=_MAX_SHOWN if is_for_people else None,
    )
    knows_bytes = len(trace.accesses.patterns) + len(trace.accesses.loose) > 0
    rows = list(table.rows[: arguments.limit])
    return _Result(
        path,
        unit,
        arguments.by,
        rows,
        knows_bytes,
        has_range=time is not None,
        n_left_out=table.n_groups - len(rows) if is_for_people else 0,
        n_untimed=table.all.count - table.all.timed
        if is_for_people
        else sum(row.count - row.timed for row in rows),
        n_spans=len(trace.spans),
        is_once=counts_once(trace),
        silent=time_words(trace),
        fused=fused_ops(trace),
        notes=time_notes(trace),
        unrecorded=table.unrecorded,
        stalls=stalls_json(trace) if arguments.by in _OF_LANES else [],
    )


def _time(trace: Trace, arguments: Namespace) -> TimeRange | None:
    if arguments.begin is None and arguments.end is None:
        return None
    begin = _ticks(arguments.begin, trace.extent.start, trace.clock.unit)
    # One tick more, so that without --to the last instant still counts.
    end = _ticks(arguments.end, trace.extent.end + 1, trace.clock.unit)
    if end < begin:
        raise QueryError("--to lies before --from.")
    return TimeRange(begin, end)


def _ticks(text: str | None, default: int, unit: Unit) -> int:
    if text is None:
        return default
    try:
        return parse_duration(text, unit)
    except (ValueError, OverflowError) as error:
        raise QueryError(
            f"{text!r} is no time of this trace; write 100, 12.5us, 3ms or 2s."
            if unit == "ns"
            else f"{text!r} is no time of this trace; it counts cycles."
        ) from error


def _row_json(row: StatRow, result: _Result) -> dict[str, object]:
    is_timed = row.timed > 0
    return {
        "key": row.key,
        "count": row.count,
        "timed": row.timed,
        f"total_{_unit_word(result.unit)}": row.total if is_timed else None,
        "mean": _known(row.mean),
        "min": row.min,
        "p50": _known(row.p50),
        "p90": _known(row.p90),
        "p99": _known(row.p99),
        "max": row.max,
        "bytes": _size(row.bytes, result),
        "share": row.share if is_timed else None,
        "quality": row.quality,
        "in_range": row.in_range,
        "self": row.self_time,
        "wall": row.wall,
        "ops": row.ops,
        "bytes_unknown": _size(row.unknown_bytes, result),
        f"wait_{_unit_word(result.unit)}": row.wait,
        "wait_mean": _known(row.mean_wait),
        "wait_share": row.wait_share,
        "waiting": row.waiting,
        "waits": row.waits,
        "longest_waits": row.longest_waits,
    }


def _size(size: int, result: _Result) -> int | None:
    """Return bytes; None where the trace records none, or not whose they are."""
    return size if result.knows_bytes and size >= 0 else None


def _shares_ops(result: _Result) -> bool:
    """Tell whether several spans tell of one op."""
    return any(row.ops != row.count or row.bytes < 0 for row in result.rows)


def _notes(result: _Result) -> list[str]:
    """Return what the columns of the table count."""
    lines = list(result.notes)
    told = [
        f"{one_line(stall['lane'])} {format_share(stall['share'])}"
        for stall in result.stalls[:_MAX_STALLS]
        if stall["share"] is not None
    ]
    if told:
        more = len(result.stalls) - len(told)
        told += [f"and {format_count(more)} more"] if more else []
        lines.append(f"share of stalled time, of the whole trace: {', '.join(told)}.")
    if not result.is_once:
        lines.append(
            "an op may count several times, once for each of the threads that were not "
            "compared."
        )
    elif _shares_ops(result):
        lines.append(
            "threads compute ops together and each tells of it: count is of spans and "
            "total of all threads; ops and bytes count each op once."
        )
    if any(row.waits for row in result.rows):
        lines.append(
            "wait is the time at the barrier behind the ops; waiting is its share of "
            "ops and waits together."
        )
    if any(row.bytes < 0 for row in result.rows):
        lines.append("which part of an op's bytes each thread moves is not recorded.")
    if any(row.unknown_bytes > 0 for row in result.rows):
        lines.append(
            "bytes are those that are known; not known is what may come on top, at "
            "most: rows whose length, experts whose choice and destinations whose part "
            "the trace does not tell."
        )
    return lines


def _unit_word(unit: Unit) -> str:
    return "ns" if unit == "ns" else "cycles"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _csv(results: list[_Result]) -> str:
    """Return all rows in the C locale, with empty cells for what is not known.

    The columns are the same whatever was found, so that a script can rely on them.
    """
    rows: list[dict[str, Any]] = [
        {"path": str(r.path), **_row_json(row, r)} for r in results for row in r.rows
    ]
    rows += [
        {"path": str(r.path), "key": f"{op} (not recorded)", "ops": count}
        for r in results
        for op, count in r.unrecorded.items()
    ]
    units = dict.fromkeys(f"total_{_unit_word(r.unit)}" for r in results)
    waits = dict.fromkeys(f"wait_{_unit_word(r.unit)}" for r in results)
    names = ["path", "key", "count", "timed", *units, *_CSV_TAIL, *waits, *_CSV_WAITS]
    return csv_text([names, *([row.get(name) for name in names] for row in rows)])


def _table(result: _Result) -> str:
    def time(value: float | None) -> str:
        if value is None or math.isnan(value):
            return NOT_AVAILABLE
        return format_duration(value, result.unit)

    def size(n_bytes: int) -> str:
        known = _size(n_bytes, result)
        return NOT_AVAILABLE if known is None else format_bytes(known)

    def most(n_bytes: int) -> str:
        return f"≤ {size(n_bytes)}" if n_bytes > 0 else ""

    def waits(row: StatRow) -> tuple[str, str, str]:
        if row.wait is None:
            return (NOT_AVAILABLE,) * 3
        share = NOT_AVAILABLE if row.waiting is None else format_share(row.waiting)
        sums = (row.wait, row.mean_wait)
        words = (summed_wait_text(t, row.longest_waits, result.unit) for t in sums)
        return (*words, share)  # type: ignore[return-value]  # two and one

    nests, lies_beside = counts_twice(result.rows)
    is_shared = _shares_ops(result)
    has_waits = any(row.waits for row in result.rows)
    has_unknown = any(row.unknown_bytes > 0 for row in result.rows)
    rows = [
        (
            row.key,
            format_count(row.count),
            *([format_count(row.ops)] if is_shared else []),
            time(row.total if row.timed else None),
            *([time(row.self_time)] if nests else []),
            *([time(row.wall)] if lies_beside else []),
            *([time(row.in_range)] if result.has_range else []),
            format_share(row.share) if row.timed else NOT_AVAILABLE,
            *(waits(row) if has_waits else ()),
            *map(time, (row.mean, row.min, row.p50, row.p90, row.p99, row.max)),
            size(row.bytes),
            *([most(row.unknown_bytes)] if has_unknown else []),
            row.quality,
        )
        for row in result.rows
    ]
    if not rows:
        if not result.n_spans:
            return "Nothing to count: the file records no spans."
        return "Nothing to count: no span matches."
    n_more = len(rows[0]) - 3
    rows += [
        (op, format_count(n), *[NOT_AVAILABLE] * n_more, "not recorded, per pass")
        for op, n in result.unrecorded.items()
    ]
    head = [result.by, *_HEAD, "quality"]
    more = (("self", nests), ("wall", lies_beside), ("in range", result.has_range))
    at = head.index("total") + 1
    head[at:at] = [title for title, is_there in more if is_there]
    if has_waits:
        at = head.index("share") + 1
        head[at:at] = _WAIT_HEAD
    if is_shared:
        head.insert(head.index("total"), "ops")
    if has_unknown:
        head.insert(-1, "not known")
    text = output.table(head, rows, left=(0, len(head) - 1))
    if result.n_left_out:
        text += (
            f"\n… and {format_count(result.n_left_out)} more; --limit N lists more, "
            "--format csv or json all of them"
        )
    return text
