"""``ggscope stats``: totals, means and percentiles."""

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.analysis.statistics.columns import (
    StatColumn,
    StatFacts,
    record_names,
    records,
    stat_facts,
    table_columns,
)
from ggscope.analysis.statistics.grouping import lanes_grouped_by
from ggscope.analysis.statistics.pivot import Pivot, pivot
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.cli import output
from ggscope.cli.arguments import is_table_format
from ggscope.cli.info.times import stalls_json
from ggscope.cli.output import GOOD
from ggscope.cli.reading import for_each_file, load, print_heading
from ggscope.descriptions.pivot import pivot_cells, pivot_notes
from ggscope.descriptions.short_names import short_name
from ggscope.descriptions.statistics import (
    group_noun,
    headed_columns,
    stat_cell,
    stat_notes,
    unrecorded_cells,
)
from ggscope.descriptions.times import fused_ops, unrecorded_time_text
from ggscope.errors import QueryError
from ggscope.model.trace import Trace
from ggscope.model.units import (
    UNITS,
    TimeRange,
    Unit,
    format_count,
    format_share,
    parse_duration,
)
from ggscope.sanitize import csv_text, one_line

_MAX_SHOWN = 500
"""Default number of rows of a printed table; a trace may have a million groups."""
_OF_LANES = ("engine", "lane", "thread")
_MAX_STALLS = 8
_GAP = 2


@dataclass(frozen=True, slots=True)
class _Result:
    """Statistics of one file; `rows` are those to print."""

    path: Path
    facts: StatFacts
    rows: list[StatRow]
    columns: tuple[StatColumn, ...]
    n_left_out: int = 0
    n_untimed: int = 0
    n_spans: int = 0
    has_ops: bool = True
    has_groups: bool = True
    unrecorded_time: str = ""
    fused: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    no_room: tuple[str, ...] = ()
    unrecorded: Mapping[str, int] = field(default_factory=dict)
    stalls: list[dict[str, Any]] = field(default_factory=list)
    pivot: Pivot | None = None


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
            _print_table(result, arguments)
    return results.code


def to_json(result: _Result) -> dict[str, object]:
    """Return what ``stats --json`` prints of one file."""
    return {
        "path": str(result.path),
        "by": result.facts.by,
        "rows": records(result.rows, result.facts),
        "not_recorded": result.unrecorded_time,
        "fused": result.fused,
        "rows_not_recorded": [
            {"key": op, "ops": count} for op, count in result.unrecorded.items()
        ],
        "stalls": result.stalls,
        **({} if result.pivot is None else {"pivot": _pivot_json(result)}),
    }


def _pivot_json(result: _Result) -> dict[str, object]:
    """Return the cells that have spans, row by row, with the sums of all."""
    table, facts = result.pivot, result.facts
    assert table is not None

    def cell(row: int, column: int) -> dict[str, object]:
        timed, n_bytes = int(table.timed[row, column]), int(table.bytes[row, column])
        is_known = n_bytes >= 0 and facts.bytes == "known"
        return {
            "count": int(table.count[row, column]),
            "timed": timed,
            "ops": int(table.ops[row, column]),
            f"total_{facts.ticks_name}": int(table.total[row, column])
            if timed
            else None,
            "bytes": n_bytes if is_known else None,
        }

    return {
        "by": table.across,
        "columns": [{"key": key, **cell(-1, c)} for c, key in enumerate(table.columns)],
        "rows": [
            {
                "key": key,
                **cell(r, -1),
                "cells": [
                    {"key": column, **cell(r, c)}
                    for c, column in enumerate(table.columns)
                    if table.count[r, c]
                ],
            }
            for r, key in enumerate(table.rows)
        ],
        "all": cell(-1, -1),
    }


def _result(trace: Trace, path: Path, arguments: Namespace) -> _Result:
    time = _time(trace, arguments)
    # With --limit, or for programs, there are as many rows as requested.
    is_for_people = arguments.limit is None and arguments.format == "table"
    table = stat_table(
        trace,
        arguments.by,
        mask=filter_mask(trace, read_filter(arguments.where, trace)),
        time=time,
        include_estimated=arguments.include_estimated,
        limit=_MAX_SHOWN if is_for_people and arguments.sort is None else None,
    )
    rows = list(table.rows)
    if arguments.sort is not None:
        rows = _sorted(rows, table_columns()[arguments.sort])
    rows = rows[: _MAX_SHOWN if is_for_people else arguments.limit]
    table = replace(table, rows=tuple(rows))
    facts = stat_facts(trace, arguments.by, table, time)
    columns = headed_columns(facts)
    if arguments.columns is not None:
        named = map(table_columns().__getitem__, arguments.columns)
        columns = (columns[0], *(column for column in named if column.key != "key"))
    is_of_lanes = arguments.by in _OF_LANES
    result = _Result(
        path,
        facts,
        rows,
        columns,
        n_left_out=table.n_groups - len(rows) if is_for_people else 0,
        n_untimed=table.all.count - table.all.timed
        if is_for_people
        else sum(row.count - row.timed for row in rows),
        n_spans=len(trace.spans),
        has_ops=bool((trace.spans.op >= 0).any()),
        has_groups=arguments.by not in ("engine", "thread")
        or bool(lanes_grouped_by(trace.lanes, arguments.by).any()),
        unrecorded_time=unrecorded_time_text(trace),
        fused=fused_ops(trace),
        unrecorded=table.unrecorded,
        stalls=stalls_json(trace) if is_of_lanes else [],
    )
    if arguments.pivot is not None:
        result = replace(result, pivot=_pivot(trace, time, arguments))
    if arguments.format != "table":
        return result
    if result.pivot is not None:
        cells = (table_columns()[arguments.cells],)
        is_cut = table.all.in_range not in (None, table.all.total)
        lines = [
            *(["Spans that the range cuts count whole."] if is_cut else []),
            *stat_notes(trace, table, facts, cells),
            *pivot_notes(result.pivot, arguments.cells),
        ]
        return replace(result, notes=tuple(dict.fromkeys(lines)))
    # Only terminals have a width; a pipe gets all columns.
    if arguments.columns is None and not arguments.wide and output.is_terminal():
        result = _fitting(result, output.width())
    lines = stat_notes(trace, table, facts, result.columns)
    stalled = stalled_lines(trace) if is_of_lanes else []
    return replace(result, notes=(*stalled, *lines))


def _pivot(trace: Trace, time: TimeRange | None, arguments: Namespace) -> Pivot:
    is_for_people = arguments.limit is None and arguments.format == "table"
    return pivot(
        trace,
        arguments.by,
        arguments.pivot,
        mask=filter_mask(trace, read_filter(arguments.where, trace)),
        time=time,
        include_estimated=arguments.include_estimated,
        max_rows=_MAX_SHOWN if is_for_people else arguments.limit,
    )


def _sorted(rows: list[StatRow], column: StatColumn) -> list[StatRow]:
    """Return the rows, largest first; texts in their order, what is unknown last."""
    known = [row for row in rows if column.value(row) is not None]
    rest = [row for row in rows if column.value(row) is None]
    if column.unit == "text":
        known.sort(key=lambda row: _natural(str(column.value(row))))
    else:
        known.sort(key=lambda row: -cast("float", column.value(row)))
    return known + rest


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key by which "token 9" comes before "token 10"."""
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _time(trace: Trace, arguments: Namespace) -> TimeRange | None:
    if arguments.begin is None and arguments.end is None:
        return None
    begin = _ticks(arguments.begin, trace.extent.start, trace.clock.unit)
    # One tick more, so that without --to the last instant still counts.
    end = _ticks(arguments.end, trace.extent.end + 1, trace.clock.unit)
    if end < begin:
        raise QueryError("--to is before --from.")
    return TimeRange(begin, end)


def _ticks(text: str | None, default: int, unit: Unit) -> int:
    if text is None:
        return default
    try:
        return parse_duration(text, unit)
    except (ValueError, OverflowError) as error:
        raise QueryError(
            f"{text!r} is not a time of this trace; write 100, 12.5us, 3ms or 2s."
            if unit == "ns"
            else f"{text!r} is not a time of this trace, which counts "
            f"{UNITS[unit].plural}."
        ) from error


def stalled_lines(trace: Trace) -> list[str]:
    """Return how much of the time lanes are stalled, in a sentence."""
    stalls: list[dict[str, Any]] = stalls_json(trace)
    shares = [
        f"{one_line(stall['lane'])} {format_share(stall['share'])}"
        for stall in stalls[:_MAX_STALLS]
        if stall["share"] is not None
    ]
    if not shares:
        return []
    more = len(stalls) - len(shares)
    shares += [f"and {format_count(more)} more"] if more else []
    return [f"Share of stalled time, of the whole trace: {', '.join(shares)}."]


def _csv(results: list[_Result]) -> str:
    """Return all rows in the C locale, with empty cells for what is not known.

    The columns are the same whatever was found, so that a script can rely on them.
    """
    if any(result.pivot is not None for result in results):
        return _pivot_csv(results)
    rows: list[dict[str, Any]] = [
        {"path": str(r.path), **cells}
        for r in results
        for cells in records(r.rows, r.facts)
    ]
    rows += [
        {"path": str(r.path), "key": f"{op} (not recorded)", "ops": count}
        for r in results
        for op, count in r.unrecorded.items()
    ]
    names = ["path", *record_names(r.facts for r in results)]
    return csv_text([names, *([row.get(name) for name in names] for row in rows)])


def _pivot_csv(results: list[_Result]) -> str:
    """Return a row per cell that has spans: path, key, column, and its figures."""
    rows: list[dict[str, Any]] = []
    for result in results:
        table: Any = _pivot_json(result)
        rows += [
            {"path": str(result.path), "key": row["key"], "column": cell.pop("key")}
            | cell
            for row in table["rows"]
            for cell in row["cells"]
        ]
    ticks = dict.fromkeys(result.facts.ticks_name for result in results)
    totals = [f"total_{name}" for name in ticks]
    names = ["path", "key", "column", "count", "timed", "ops", *totals, "bytes"]
    return csv_text([names, *([row.get(name) for name in names] for row in rows)])


def _print_pivot(result: _Result, arguments: Namespace) -> None:
    table, unit = result.pivot, result.facts.unit
    assert table is not None
    cells = pivot_cells(table, arguments.cells, unit)
    lines = [
        [key, *(cell.text for cell in row)]
        for key, row in zip([*table.rows, "all"], cells, strict=True)
    ]
    lines.insert(0, [group_noun(result.facts), *table.columns, "all"])
    n_columns = len(table.columns)
    if output.is_terminal() and not arguments.wide:
        needs = [max(map(len, column)) + _GAP for column in zip(*lines, strict=True)]
        space = output.width() - needs[0] - needs[-1] + _GAP
        n_columns = int(np.searchsorted(np.cumsum(needs[1:-1]), space, "right"))
    shown = [[*line[: n_columns + 1], line[-1]] for line in lines]
    output.emit(output.table(shown[0], shown[1:]))
    if more := table.n_rows - len(table.rows):
        output.say(f"note: {format_count(more)} more rows; --limit N lists more.")
    if more := table.n_columns - n_columns:
        output.say(
            f"note: {format_count(more)} more columns, which count in all; --wide "
            "shows them."
        )


def _print_table(result: _Result, arguments: Namespace) -> None:
    print_heading(result.path, arguments)
    if not result.rows:
        output.emit(_why_empty(result))
        return
    if result.pivot is not None:
        _print_pivot(result, arguments)
        _print_notes(result)
        return
    columns = result.columns
    left = [i for i, column in enumerate(columns) if column.unit == "text"]
    head = [column.title for column in columns]
    is_short = output.is_terminal() and not arguments.wide
    text = output.table(head, _cells(result, is_short=is_short), left=left)
    if result.n_left_out:
        text += (
            f"\n… and {format_count(result.n_left_out)} more; --limit N lists more, "
            "--format csv or json all of them"
        )
    output.emit(text)
    if result.no_room:
        output.say(
            f"note: columns not shown: {', '.join(result.no_room)}; --wide shows all, "
            "--columns selects."
        )
    _print_notes(result)


def _print_notes(result: _Result) -> None:
    for line in result.notes:
        output.say(f"note: {line}")
    if result.n_untimed:
        n_untimed = format_count(result.n_untimed)
        output.say(
            f"note: times exclude {n_untimed} estimated or unfinished spans; "
            "--include-estimated includes them."
        )


def _why_empty(result: _Result) -> str:
    if not result.n_spans:
        return "Nothing to count: the file records no spans."
    if not result.has_groups:
        return f"Nothing to count: the file has no {result.facts.by}s."
    if result.facts.by in ("engine", "lane"):
        return "Nothing to count: no span matches."
    if not result.has_ops:
        return (
            "Nothing to count: the file records no ops; --by lane counts what else "
            "it records."
        )
    return "Nothing to count: no op matches."


def _cells(result: _Result, *, is_short: bool) -> list[list[str]]:
    """Return the rows as texts; ops without a record come last."""
    facts, columns = result.facts, result.columns
    rows = [[stat_cell(c, row, facts).text for c in columns] for row in result.rows]
    if is_short:
        rows = [[short_name(cell) for cell in row] for row in rows]
    for op, count in result.unrecorded.items():
        rows.append([cell.text for cell in unrecorded_cells(op, count, columns)])
    return rows


def _fitting(result: _Result, width: int) -> _Result:
    """Return the result with the columns that fit side by side."""
    columns, cells = result.columns, _cells(result, is_short=True)
    needs = [
        max([len(c.title), *(len(one_line(row[i])) for row in cells)]) + _GAP
        for i, c in enumerate(columns)
    ]
    shown = set(range(len(columns)))
    for i in sorted(shown, key=lambda i: -columns[i].drop_rank):
        if sum(needs[k] for k in shown) - _GAP <= width or not columns[i].drop_rank:
            break
        shown.remove(i)
    return replace(
        result,
        columns=tuple(c for i, c in enumerate(columns) if i in shown),
        no_room=tuple(c.title for i, c in enumerate(columns) if i not in shown),
    )
