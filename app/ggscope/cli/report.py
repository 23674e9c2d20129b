"""``ggscope report``: one HTML page about a trace, which opens anywhere.

It begins with what took the time; the rest follows from large to small.
"""

import math
import shlex
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ggscope import __version__
from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.hotness import ranking
from ggscope.analysis.statistics.columns import stat_facts
from ggscope.analysis.statistics.table import StatTable, stat_table
from ggscope.analysis.summary.machine import peak_of
from ggscope.analysis.summary.summary import summary
from ggscope.atomic_write import check_target, refuse_inputs, write_file
from ggscope.cli import output
from ggscope.cli.export import need_no_display
from ggscope.cli.info.facts import describe
from ggscope.cli.info.text import info_text
from ggscope.cli.output import GOOD
from ggscope.cli.reading import failure_json, load, reading_text
from ggscope.cli.stats import stalled_lines
from ggscope.descriptions.completeness import completeness_text, with_completeness
from ggscope.descriptions.reads import (
    hot_facts,
)
from ggscope.descriptions.spans import quality_word
from ggscope.descriptions.statistics import (
    exact_time,
    headed_columns,
    stat_cell,
    stat_notes,
    unrecorded_cells,
)
from ggscope.descriptions.summary import bottleneck_line
from ggscope.descriptions.times import time_notes
from ggscope.errors import ExportError, SuffixError, TraceError
from ggscope.exporters.folders import without_folders
from ggscope.exporters.report import (
    MAX_BYTES,
    Bar,
    Cell,
    HitRegion,
    Picture,
    ReportTable,
    Section,
    report_html,
    spot_markup,
)
from ggscope.model.selection import By
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_number,
    format_offset,
    format_share,
)
from ggscope.readers.registry import with_troubles
from ggscope.render.figures import FIGURES

if TYPE_CHECKING:
    from ggscope.render.batch import HitRegions
    from ggscope.render.export import Figure

_MAX_TEXT = 200_000
_MAX_ENGINES = 4
_MAX_ROWS, _MAX_BARS, _MAX_LONGEST = 40, 16, 25
_MAX_PROBLEMS = 200
_TITLES: dict[By, str] = {
    "op": "By op",
    "layer": "By layer",
    "token": "By token",
    "lane": "By lane",
}
_DPI = (144, 96, 60)
"""Resolutions of figures to try until all fit into the page."""
_SPOT_BYTES = 600_000
"""Maximum size of the regions with tooltips."""
_PICTURE_BYTES = MAX_BYTES - 1_200_000 - _SPOT_BYTES
"""Maximum size of pictures; texts are cut to fit into the rest."""


def run(arguments: Namespace) -> int:
    """Write the report of a file; return the exit code."""
    target: Path = arguments.output
    (path,) = arguments.files
    if target.suffix.lower() not in (".html", ".htm"):
        raise SuffixError("a report", (".html",), target)
    refuse_inputs(target, (path, *arguments.beside))
    check_target(target, overwrite=arguments.force)
    try:
        trace = with_troubles(load(path, arguments))
    except TraceError as error:
        if arguments.json:
            output.emit_json(failure_json(path, error))
        raise
    with_folders = arguments.with_folders
    content = report(
        trace if with_folders else without_folders(trace),
        path if with_folders else Path(path.name),
        command_of(arguments, with_folders=with_folders),
        views=arguments.view,
        sources=trace.info.paths,
    )
    write_file(target, content, overwrite=arguments.force)
    output.say(f"{target} written.")
    if len(content) > MAX_BYTES:
        output.say(f"It is larger than {format_bytes(MAX_BYTES)}; --view takes fewer.")
    if arguments.json:
        output.emit_json(
            {"path": str(path), "output": str(target), "bytes": len(content)}
        )
    return GOOD


def command_of(arguments: Namespace, *, with_folders: bool = True) -> str:
    """Return the command line that makes this report, as a shell takes it."""

    def shown(path: Path) -> str:
        return str(path) if with_folders else path.name

    reading = Namespace(**vars(arguments))
    reading.beside = [Path(shown(path)) for path in arguments.beside]
    reading.shift = [(shown(Path(name)), by) for name, by in arguments.shift]
    command = ["ggscope", "report", *reading_text(reading)]
    if arguments.view is not None:
        command += ["--view", ",".join(arguments.view)]
    command += ["-o", shown(arguments.output), "--", shown(arguments.files[0])]
    return shlex.join(command)


def report(
    trace: Trace,
    path: Path,
    command: str,
    *,
    views: Sequence[str] | None = None,
    sources: Sequence[Path] = (),
) -> bytes:
    """Return the page of a trace.

    Parameters
    ----------
    command : how it is made again.
    views : names of the figures; None = of every view that has something to show.
    sources : the files of the trace, where `trace.info` names them without folders.
    """
    complete = completeness(trace)
    trace = with_completeness(trace, complete)
    facts = describe(trace, path, complete)
    ops = stat_table(trace, "op", limit=_MAX_ROWS)
    pictures, left_out = _pictures(trace, views)
    sections = [
        _overview(trace, facts, ops),
        Section("Figures", notes=left_out, pictures=tuple(pictures)),
        _statistics(trace, ops),
        _hot(trace),
        _problems(trace, complete),
        _details(trace, facts),
        _origin(trace, command, sources or trace.info.paths),
    ]
    shown = [s for s in sections if s is not None]
    name = trace.info.paths[0].name if trace.info.paths else path.name
    return report_html(f"Report of {name}", shown)


# -- overview ----------------------------------------------------------------


def _overview(trace: Trace, facts: dict[str, Any], ops: StatTable) -> Section:
    """Return what took the time: rates, the top ops and the phases."""
    if not len(trace.spans):
        key_facts = tuple(_key_facts(trace, facts, None))
        return Section("What is in the file", facts=key_facts)
    tables = []
    phases = stat_table(trace, "phase") if trace.spans.phase is not None else None
    if phases is not None and len(phases.rows) > 1:
        tables.append(_stat_table("Time by phase", "phase", phases, trace))
    return Section(
        "What took the time",
        facts=tuple(_key_facts(trace, facts, ops)),
        bars=tuple(_op_bars(ops, trace.clock.unit)),
        tables=tuple(tables),
    )


def _key_facts(
    trace: Trace, facts: dict[str, Any], ops: StatTable | None
) -> Iterator[tuple[str, Cell]]:
    """Yield name and value of what people ask first, where the trace has it."""
    unit, length = trace.clock.unit, trace.extent.duration
    if ops is not None:
        duration = Cell(format_duration(length, unit), format_exact(length, unit))
        yield "Duration", duration
        for phase in facts["latency"]:
            yield _phase_title(phase), _phase_cell(phase, unit)
        run_summary = summary(trace, peak=peak_of(trace))
        if run_summary.cause is not None:
            yield "Bottleneck", Cell(bottleneck_line(run_summary))
        if ops.rows and ops.rows[0].timed:
            top = ops.rows[0]
            text = f"{top.key}: {format_share(top.share)} of the op time"
            yield "Top op", Cell(text, format_exact(top.total, unit))
        for engine in (facts["engines"] or [])[:_MAX_ENGINES]:
            if engine["busy_share"] is not None:
                busy = f"busy {format_share(engine['busy_share'])}"
                yield engine["lane"], Cell(busy, format_exact(engine["busy"], unit))
        missing = facts["completeness"]["missing"]
        if facts["completeness"]["known"]:
            text = "no missing records found"
            if missing:
                text = f"{format_counted(missing, 'record')} missing"
            yield "Completeness", Cell(text, facts["completeness"]["words"])
    kinds = len(trace.warnings)
    yield "Problems", Cell(format_counted(kinds, "kind") if kinds else "none")
    yield "Format", Cell(trace.info.format)


def _phase_title(phase: dict[str, Any]) -> str:
    return phase["phase"].capitalize() if phase["phase"] else "Tokens"


def _phase_cell(phase: dict[str, Any], unit: Unit) -> Cell:
    """Return tokens per second and the median latency of a phase."""
    rate, noun = phase["tokens_per_s"], phase["noun"]
    parts = [] if rate is None else [f"{format_number(rate)} tokens/s"]
    median, longest = (format_duration(phase[k], unit) for k in ("median", "max"))
    is_one = phase["spans"] == 1
    parts += [longest] if is_one else [f"median {median} per {noun}", f"max {longest}"]
    spans = format_count(phase["spans"])
    return Cell(" · ".join(parts), f"{noun} spans: {spans}, times {phase['quality']}")


def _details(trace: Trace, facts: dict[str, Any]) -> Section:
    """Return what ``ggscope info`` prints; problems have a section of their own."""
    text = info_text(trace, facts | {"warnings": []})
    text = output.unstyled(text).replace("No problems found.", "").rstrip()
    if len(text) > _MAX_TEXT:
        text = text[:_MAX_TEXT] + " …"
    return Section("File details", text)


# -- figures -----------------------------------------------------------------


def _pictures(
    trace: Trace, views: Sequence[str] | None
) -> tuple[list[Picture], tuple[str, ...]]:
    """Return the figures that fit, and a note on each that is left out."""
    need_no_display()
    figures: list[tuple[str, Figure]] = []
    left_out: list[str] = []
    for name, spec in FIGURES.items():
        if views is not None and name not in views:
            continue
        if views is None and not (spec.has_data(trace) and _is_of_use(name, trace)):
            continue
        figures.append((spec.title, spec.figure(trace)))
    max_bytes = _SPOT_BYTES // max(len(figures), 1)
    for dpi in _DPI:
        pictures: list[Picture] = []
        failed: list[str] = []
        for title, figure in figures:
            try:
                pictures.append(_picture(trace, title, figure, dpi, max_bytes))
            except ExportError as error:
                failed.append(f"{title}: {error}")
        if sum(picture.size for picture in pictures) <= _PICTURE_BYTES:
            break
    else:  # very busy ones: on light paper only, and the largest go
        pictures = [replace(picture, dark=b"") for picture in pictures]
        while sum(picture.size for picture in pictures) > _PICTURE_BYTES:
            largest = max(pictures, key=lambda picture: picture.size)
            pictures.remove(largest)
            left_out.append(
                f"{largest.title}: the figure is too large for a report; "
                "ggscope export writes it."
            )
    return pictures, (*failed, *left_out)


def _is_of_use(name: str, trace: Trace) -> bool:
    if name == "statistics":  # a section of the page says more, in letters
        return False
    counted = (trace.spans, trace.markers, trace.counters)
    return name != "timeline" or any(len(table) for table in counted)


def _picture(
    trace: Trace, title: str, figure: "Figure", dpi: int, max_bytes: int
) -> Picture:
    style = replace(figure.style, dpi=dpi, theme="light")
    light, drawn = figure.png(style)
    dark, _ = figure.png(replace(style, theme="dark"))
    shown = drawn.picture
    spots, notes = _spots(trace, shown.spots, max_bytes)
    caption = " ".join([drawn.caption, *notes])
    return Picture(title, light, dark, caption, (shown.width, shown.height), spots)


def _spots(
    trace: Trace, regions: "tuple[HitRegions, ...]", max_bytes: int
) -> tuple[tuple[HitRegion, ...], list[str]]:
    """Return the regions with a tooltip, and notes on how many fit."""
    kinds: dict[str, list[HitRegions]] = {}
    for group in regions:
        kinds.setdefault(group.what, []).append(group)
    spots, notes = list[HitRegion](), list[str]()
    for what, groups in kinds.items():
        n_all = sum(len(group.ids) for group in groups)
        here = [
            spot for group in groups for spot in _widest(trace, group, max_bytes, n_all)
        ]
        if not here:
            continue
        n = format_count(len(here))
        of = n if len(here) == n_all else f"the widest {n} of {format_count(n_all)}"
        notes.append(f"Hover for exact values: {of} {what}.")
        spots += here
    return tuple(spots), notes


def _widest(
    trace: Trace, regions: "HitRegions", max_bytes: int, n_all: int
) -> list[HitRegion]:
    """Return the widest regions with their tooltips, as many as fit."""
    left, spots = max_bytes * len(regions.ids) // max(n_all, 1), list[HitRegion]()
    describe = regions.describe or partial(_span_text, trace)
    for i in np.argsort(-regions.width, kind="stable").tolist():
        spot = HitRegion(
            float(regions.x[i]), float(regions.y[i]), float(regions.width[i]),
            float(regions.height[i]), describe(int(regions.ids[i])),
        )  # fmt: skip
        left -= len(spot_markup(spot).encode())
        if left < 0:
            break
        spots.append(spot)
    return spots


def _span_text(trace: Trace, span: int) -> str:
    """Return a line on a span with every digit of its times."""
    s, unit = trace.spans, trace.clock.unit
    start, end, op = int(s.start[span]), int(s.end[span]), int(s.op[span])
    name, lane = trace.span_name(span), trace.lanes[int(s.lane[span])].name
    what = f"{name} ({trace.op_name(op)})" if op >= 0 else name
    quality, begins = quality_word(trace, span), format_exact(start, unit)
    is_open = quality == Quality.UNFINISHED.word
    length = NOT_AVAILABLE if is_open else format_exact(end - start, unit)
    return f"{what}, {lane}: {length}, {quality}, begins {begins}"


# -- tables ------------------------------------------------------------------


def _statistics(trace: Trace, ops: StatTable) -> Section | None:
    if not len(trace.spans):
        return None
    tables = []
    for by, title in _TITLES.items():
        groups = ops if by == "op" else stat_table(trace, by, limit=_MAX_ROWS)
        if not groups.rows or (by in ("layer", "token") and len(groups.rows) < 2):
            continue
        tables.append(_stat_table(title, by, groups, trace))
    if longest := _longest(trace):
        tables.append(longest)
    # What holds for all of the times stands once.
    notes = time_notes(trace)
    tables = [
        replace(table, notes=tuple(n for n in table.notes if n not in notes))
        for table in tables
    ]
    return Section("Statistics", notes=notes, tables=tuple(tables))


def _op_bars(ops: StatTable, unit: Unit) -> Iterator[Bar]:
    """Return the ops with the longest totals, as parts of the longest."""
    timed = [row for row in ops.rows if row.timed][:_MAX_BARS]
    for row in timed:
        yield Bar(
            row.key,
            row.total / max(timed[0].total, 1),
            f"{format_duration(row.total, unit)} · {format_share(row.share)}",
            f"{row.key}: {format_exact(row.total, unit)} in "
            f"{format_count(row.timed)} spans ({row.quality})",
        )


def _time_cell(ticks: float | None, unit: Unit) -> Cell:
    if ticks is None or math.isnan(ticks):
        return Cell(NOT_AVAILABLE)
    return Cell(format_duration(ticks, unit), exact_time(ticks, unit))


def _bytes_cell(n_bytes: int) -> Cell:
    if n_bytes < 0:
        return Cell(NOT_AVAILABLE)
    return Cell(format_bytes(n_bytes), format_exact_bytes(n_bytes))


def _stat_table(title: str, by: By, groups: StatTable, trace: Trace) -> ReportTable:
    facts = stat_facts(trace, by, groups)
    columns = headed_columns(facts)
    lines = [
        [stat_cell(column, row, facts) for column in columns] for row in groups.rows
    ]
    lines += [unrecorded_cells(op, n, columns) for op, n in groups.unrecorded.items()]
    rows = [[Cell(cell.text, cell.exact) for cell in cells] for cells in lines]
    more = groups.n_groups - len(groups.rows)
    notes = [f"… and {format_count(more)} more."] if more > 0 else []
    notes += stalled_lines(trace) if by == "lane" else []
    notes += stat_notes(trace, groups, facts, columns)
    if n := groups.all.count - groups.all.timed:
        notes.append(f"Times exclude {format_count(n)} estimated or unfinished spans.")
    head = tuple(column.title for column in columns)
    return ReportTable(title, head, rows, text_last=True, notes=tuple(notes))


def _longest(trace: Trace) -> ReportTable | None:
    """Return the longest spans whose durations are measured or derived."""
    from ggscope.analysis.workers import chunks

    spans, unit = trace.spans, trace.clock.unit
    ids = np.zeros(0, np.int64)
    for rows in chunks(len(spans)):
        here = np.arange(*rows.indices(len(spans)), dtype=np.int64)
        known = quality_of(spans.flags[rows]) <= Quality.DERIVED
        ids = np.concatenate([ids, here[known & (spans.op[rows] >= 0)]])
        if len(ids) > _MAX_LONGEST:
            lengths = spans.end[ids] - spans.start[ids]
            ids = np.sort(ids[np.argsort(-lengths, kind="stable")[:_MAX_LONGEST]])
    if not len(ids):
        return None
    lengths = spans.end[ids] - spans.start[ids]
    table = []
    for i in ids[np.argsort(-lengths, kind="stable")].tolist():
        start, end = int(spans.start[i]), int(spans.end[i])
        table.append(
            [
                Cell(trace.span_name(i)),
                Cell(trace.op_name(int(spans.op[i]))),
                Cell(trace.lanes[int(spans.lane[i])].name),
                _time_cell(start, unit),
                _time_cell(end - start, unit),
                Cell(Quality(int(quality_of(spans.flags[i]))).word),
            ]
        )
    return ReportTable(
        "Longest spans",
        ("span", "op", "lane", "begins", "duration", "quality"),
        table,
        n_text=3,
        text_last=True,
    )


def _hot(trace: Trace) -> Section | None:
    ranked = hot_cold(trace, None)
    facts = hot_facts(trace, ranked)
    if not facts:
        return None
    groups = ranking(trace, ranked.heat, "tensor")
    total = int(groups.bytes.sum()) or 1
    rows = [
        [
            Cell(groups.keys[i]),
            Cell(format_count(int(groups.accesses[i]))),
            _bytes_cell(int(groups.bytes[i])),
            Cell(format_share(int(groups.bytes[i]) / total)),
        ]
        for i in range(min(len(groups), _MAX_ROWS))
    ]
    fact_rows = [
        [Cell(fact.title), Cell(fact.text), Cell(fact.remark)] for fact in facts
    ]
    tables = [ReportTable("Summary of reads", ("", "", ""), fact_rows, n_text=3)]
    if rows:
        more = len(groups) - len(rows)
        notes = (f"… and {format_count(more)} more.",) if more > 0 else ()
        head = ("tensor", "accesses", "read", "share")
        tables.append(ReportTable("Read most", head, rows, notes=notes))
    return Section("Hot and cold tensors", tables=tuple(tables))


def _problems(trace: Trace, completeness: Completeness) -> Section:
    notes = []
    if len(trace.spans):
        notes.append(f"Complete: {completeness_text(completeness)}.")
    if not trace.warnings:
        return Section("Problems", notes=("No problems found.", *notes))
    rows = [
        [
            Cell(w.severity.word.replace("_", " "), kind=w.severity.word),
            Cell(w.code),
            Cell(w.message, w.message if len(w.message) > 200 else ""),
            Cell(format_count(w.count)),
            Cell(w.place),
            Cell("", "")
            if w.offset is None
            else Cell(format_offset(w.offset), f"byte {w.offset:,}"),
            Cell(w.remedy),
        ]
        for w in trace.warnings[:_MAX_PROBLEMS]
    ]
    more = len(trace.warnings) - len(rows)
    if more > 0:
        notes.append(f"… and {format_count(more)} more; ggscope check lists all.")
    head = ("severity", "code", "message", "count", "place", "offset", "remedy")
    table = ReportTable("Worst first", head, rows, n_text=3, text_last=True)
    return Section("Problems", notes=tuple(notes), tables=(table,))


def _origin(trace: Trace, command: str, sources: Sequence[Path]) -> Section:
    rows = [
        ("made by", f"ggscope {__version__}"),
        ("made at", _when(time.time())),
        ("command", command),
        ("reader", trace.info.reader_id),
    ]
    for shown, path in zip(trace.info.paths, sources, strict=False):
        try:
            status = path.stat()
        except OSError:
            rows.append(("file", f"{shown}; size and date unknown"))
            continue
        size = format_exact_bytes(status.st_size)
        rows.append(("file", f"{shown}; {size}, changed {_when(status.st_mtime)}"))
    rows += [(f"option {key}", value) for key, value in trace.info.options.items()]
    cells = [[Cell(name), Cell(value)] for name, value in rows[:_MAX_PROBLEMS]]
    table = ReportTable("Command and files", ("", ""), cells, n_text=2)
    return Section("How this was made", tables=(table,))


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(seconds))
