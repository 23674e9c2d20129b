"""The figure of the statistics: what takes how long, by op, layer, token and so on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.statistics.columns import (
    StatColumn,
    StatFacts,
    measures,
    stat_facts,
)
from ggscope.analysis.statistics.table import (
    StatRow,
    StatTable,
    stat_table,
)
from ggscope.descriptions.statistics import stat_cell, stat_notes
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.selection import BY, By
from ggscope.model.trace import Trace
from ggscope.model.units import (
    UNITS,
    TimeRange,
    format_bytes,
    format_count,
    format_counted,
    format_share,
    shown_form,
)
from ggscope.render.batch import DisplayList
from ggscope.render.charts import BAR_HEIGHT, Bar, BarScene, bars_top, compose_bars
from ggscope.render.colors import category_color
from ggscope.render.export import ExportCommand, Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import changed_options, option, read_time
from ggscope.render.theme import Theme
from ggscope.render.theme import theme as theme_named

_USUAL_BARS = 25
"""So many a figure shows that has no height of its own."""
_MAX_BARS = 1000
_MAX_NAMED = 1000
"""So many spans a command line can name."""
_USUAL_PX = 900.0


_OLDER_NAMES = {"wall": "busy"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StatisticsOptions:
    """Options of the figure of the statistics.

    Attributes
    ----------
    by : what a group is.
    measure : what a bar is as long as, one of `measures`.
    include_estimated : use the times of estimated and unfinished spans too.
    visible : only spans that touch it, with their whole durations; None = all.
    ids : only these spans.
    mask : bool[n_spans] of the spans that count; `where` is the filter that made it.
    """

    by: By = field(default="op", metadata=option(flag="by"))
    measure: str = field(default="total", metadata=option(flag="measure"))
    include_estimated: bool = field(
        default=False, metadata=option(flag="include_estimated")
    )
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    ids: tuple[int, ...] | None = None
    mask: npt.NDArray[np.bool_] | None = field(
        default=None, metadata=option(flag="where", read=None)
    )
    where: str = ""


def statistics_figure(
    trace: Trace,
    options: StatisticsOptions = StatisticsOptions(),
) -> Figure:
    """Return the figure of the statistics: a bar per group, longest first."""
    by, ids, where = options.by, options.ids, options.where
    measure = _OLDER_NAMES.get(options.measure, options.measure)
    for value, known in ((by, BY), (measure, tuple(measures()))):
        if value not in known:
            raise ExportError(f"There is no {value!r}: {', '.join(known)}.")

    def draw(style: FigureStyle) -> RenderedFigure:
        chosen = None if ids is None else np.array(ids, np.int64)
        table = stat_table(
            trace, by, mask=options.mask, ids=chosen, time=options.visible,
            include_estimated=options.include_estimated,
        )  # fmt: skip
        about = _about(trace, options.visible, where, ids)
        return _drawn(trace, table, by, measure, style, about)

    can_name = ids is None or len(ids) <= _MAX_NAMED
    values = changed_options(
        replace(options, measure=measure, ids=ids if can_name else None),
        "by", "measure", "include_estimated", "visible", "ids",
    )  # fmt: skip
    recipe = ExportCommand(
        "statistics",
        trace.info.opened,
        values,
        (f"--where={where}",) if where else (),
        lacks=() if can_name else ("The command counts all spans.",),
    )
    return Figure("statistics", draw, recipe=recipe)


def _about(
    trace: Trace, visible: TimeRange | None, where: str, ids: tuple[int, ...] | None
) -> str:
    """Return in a few words which spans were counted."""
    parts = ["all spans"]
    if ids is not None:
        parts = [f"{format_count(len(ids))} selected spans"]
    if visible is not None:
        shown = shown_form(visible, trace.clock).range_text(visible)
        parts.append(f"that touch {shown}")
    if where:
        parts.append(f"that pass {where}")
    return ", ".join(parts)


def _drawn(
    trace: Trace, table: StatTable, by: By, measure: str, style: FigureStyle, about: str
) -> RenderedFigure:
    column, facts = measures()[measure], stat_facts(trace, by, table)
    is_unknown = column.unit in ("bytes", "rate") and facts.bytes != "known"
    rows = [
        (row, float(value))
        for row in (() if is_unknown else table.rows)
        if (value := column.value(row)) is not None
    ]
    if not rows:
        raise NothingToDrawError(_why_nothing(trace, table, measure))
    rows.sort(key=lambda pair: -pair[1])
    theme, width = theme_named(style.theme), style.width_or(_USUAL_PX)
    bars = BarScene(
        width, 0.0, theme, _bars(rows, column, facts, theme), scale=style.scale,
        value_title=_title(column, facts),
    )  # fmt: skip
    top, left_out = bars_top(bars), _left_out(table, rows, measure)
    name, what = trace_name(trace), f"{column.title} by {by}"
    about = f"{what[:1].upper()}{what[1:]} of {name}: {about}."

    def compose(height: float) -> DisplayList:
        fitting = max(int((height - top + 1e-6) / BAR_HEIGHT), 0)
        if (more := len(rows) - min(len(bars.bars), fitting)) > 0:
            left_out.append(f"Not drawn: {format_counted(more, 'smaller one')}.")
        return compose_bars(replace(bars, height=height))

    return framed(
        style, f"{name} · {measure} by {by}", compose, width=width,
        natural_height=top + min(len(bars.bars), _USUAL_BARS) * BAR_HEIGHT + 4,
        description=" ".join([about, *_notes(trace, table, rows, column, facts)]),
        left_out=left_out,
    )  # fmt: skip


def _why_nothing(trace: Trace, table: StatTable, measure: str) -> str:
    if not table.all.count:
        if not len(trace.spans):
            return "The trace has no spans to count."
        return "None of the spans is counted: all are left out by what was chosen."
    text = f"Nothing here has a known {measure}, so there is no bar."
    if measures()[measure].unit == "time" and table.all.count > table.all.timed:
        n_untimed = format_count(table.all.count - table.all.timed)
        text += (
            f" {n_untimed} spans have a time that is estimated or has no end: "
            "--include-estimated draws these, too."
        )
    return text


def _bars(
    rows: Sequence[tuple[StatRow, float]],
    column: StatColumn,
    facts: StatFacts,
    theme: Theme,
) -> tuple[Bar, ...]:
    usual, is_time = _usual_quality(rows), column.unit == "time"
    bars = []
    for row, value in rows[:_MAX_BARS]:
        text = stat_cell(column, row, facts).text
        if column.key == "total":
            text += f" · {format_share(row.share)}"
        if column.key == "wait" and row.wait_share is not None:
            text += f" · {format_share(row.wait_share)}"
        if column.key == "bytes" and row.unknown_bytes:
            text += f" · ≤ {format_bytes(row.unknown_bytes)} not known"
        if is_time and row.quality != usual:
            text += f" · {row.quality}"
        bars.append(Bar(row.key, value, text, _color(row.key, facts.by, theme)))
    return tuple(bars)


def _usual_quality(rows: Sequence[tuple[StatRow, float]]) -> str:
    """Return the quality of most rows, which the caption states instead of each bar."""
    qualities = [row.quality for row, _ in rows]
    return max(dict.fromkeys(qualities), key=qualities.count)


def _color(key: str, by: By, theme: Theme) -> int:
    if by == "family":
        return category_color(key, theme)
    if by in ("op", "phase", "engine"):
        return category_color(f"{by}:{key}", theme)
    return theme.accent | 0xFF000000


def _title(column: StatColumn, facts: StatFacts) -> str:
    if column.unit != "time" or facts.unit == "ns":
        return column.axis
    return f"{column.axis}, {UNITS[facts.unit].plural}"


def _left_out(
    table: StatTable, rows: Sequence[tuple[StatRow, float]], measure: str
) -> list[str]:
    """Return sentences on what no bar shows."""
    texts = []
    untimed = table.all.count - table.all.timed
    if measures()[measure].unit == "time" and untimed:
        spans = format_counted(untimed, "estimated or unfinished span")
        texts.append(f"Left out: {spans}.")
    if unknown := len(table.rows) - len(rows):
        groups = format_counted(unknown, "group")
        texts.append(f"Left out: {groups} of which this is not known.")
    if table.unrecorded:
        listed = ", ".join(table.unrecorded)
        texts.append(f"Ops of the graph without a record: {listed}.")
    return texts


def _notes(
    trace: Trace,
    table: StatTable,
    rows: Sequence[tuple[StatRow, float]],
    column: StatColumn,
    facts: StatFacts,
) -> list[str]:
    """Return sentences that the figure needs to be understood."""
    lines = stat_notes(trace, table, facts, (column,))
    if column.unit == "time":
        usual = _usual_quality(rows)
        lines.insert(0, f"Times are {usual} unless marked otherwise.")
    return lines
