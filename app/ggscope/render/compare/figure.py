"""Figures of two sides: steps from A to B, changes, both timelines, durations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from ggscope.analysis.compare.compare import Comparison, Tolerance, compare
from ggscope.analysis.compare.histogram import duration_histogram
from ggscope.analysis.compare.matching import group_names
from ggscope.analysis.compare.offset import (
    ANCHORS,
    Anchor,
    matched_tokens,
    offset_between,
)
from ggscope.analysis.compare.waterfall import (
    STEPS_BY,
    TOKENS_OF,
    StepsBy,
    TokensOf,
    waterfall,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lane_state import lane_state_data, read_lane_state
from ggscope.analysis.rows.lanes import LaneState
from ggscope.descriptions.compare import (
    MEASURES,
    headline,
    limits_text,
    matching_text,
    offset_text,
    waterfall_notes,
    waterfall_text,
)
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.selection import ALIGN_BY, BY, AlignBy, By, ColorBy
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count, format_counted, shown_form
from ggscope.render.batch import DisplayList
from ggscope.render.charts import curve_entries
from ggscope.render.compare.charts import (
    ChangesScene,
    HistogramScene,
    WaterfallScene,
    change_entries,
    compose_changes,
    compose_histogram,
    compose_waterfall,
    histogram_chart,
)
from ggscope.render.compare.rows_chart import MIN_ROW_PX, natural_height
from ggscope.render.compare.timelines import (
    STRIP_PX,
    TimelineSide,
    TimelinesScene,
    compose_timelines,
    timelines_legend,
    whole_range,
)
from ggscope.render.export import ExportCommand, Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import changed_options, option, read_time, time_option
from ggscope.render.text_metrics import QT_TEXT
from ggscope.render.theme import theme as theme_named
from ggscope.render.timeline.compose import figure_header_width
from ggscope.render.timeline.figure import figure_layout
from ggscope.render.timeline.scene import AXIS_HEIGHT

Show = Literal["waterfall", "changes", "timelines", "durations"]
SHOWS: tuple[Show, ...] = get_args(Show)
_WIDTH, _TIMELINES_WIDTH = 900.0, 1600.0
_USUAL_ROWS, _MAX_ROWS = 25, 500
_PAGE_PX = 900.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompareOptions:
    """Options of the figure of two sides.

    Attributes
    ----------
    b : runs of the other side; `more_a` further ones of this side.
    show : steps from A to B, changes by group, both timelines, or durations of a group.
    by : what a group is, for changes and durations.
    key : the group whose durations are drawn; "" = that of the largest change.
    steps : what the steps are, and `tokens` of which tokens; None = generated ones.
    align : how runs are compared; None = by tokens where all have some.
    tolerance : relative changes that are drawn pale.
    anchor : by what the timelines are aligned; `token` is the number of the matched
        token, from 0. `offset` moves B by hand instead: ticks that its clock is ahead.
    visible : range of the timelines, of A's clock; None = all of both.
    log : whether the axis of durations is logarithmic.
    state : which lanes are open, hidden or pinned.
    """

    b: tuple[Trace, ...] = field(default=(), metadata=option(read=None))
    more_a: tuple[Trace, ...] = field(default=(), metadata=option(read=None))
    show: Show = "waterfall"
    by: By = field(default="op", metadata=option(flag="by"))
    key: str = ""
    steps: StepsBy = "family"
    tokens: TokensOf | None = None
    align: AlignBy | None = None
    tolerance: float = 0.0
    anchor: Anchor = "start"
    token: int = 0
    offset: int | None = None
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    color_by: ColorBy = field(default="family", metadata=option(flag="color_by"))
    log: bool = False
    waits: bool = True
    state: LaneState | None = field(default=None, metadata=option(read=read_lane_state))


def compare_figure(
    trace: Trace,
    options: CompareOptions = CompareOptions(),
    style: FigureStyle = FigureStyle(),  # noqa: B008 - frozen
) -> Figure:
    """Return the figure of a trace (A) and ``options.b``.

    Raises
    ------
    ExportError
        If there is no other side, or an option has a value that it cannot have.
    """
    if not options.b:
        raise ExportError("compare needs two runs: ggscope export --view compare A B")
    _check(options)
    draw: Callable[[Trace, CompareOptions, FigureStyle], RenderedFigure] = {
        "waterfall": _waterfall,
        "changes": _changes,
        "timelines": _timelines,
        "durations": _durations,
    }[options.show]
    return Figure(
        "compare",
        lambda style: draw(trace, options, style),
        style,
        recipe=compare_recipe(trace, options),
    )


def _check(options: CompareOptions) -> None:
    known: tuple[tuple[object, Sequence[object]], ...] = (
        (options.show, SHOWS),
        (options.by, BY),
        (options.steps, STEPS_BY),
        (options.tokens, (*TOKENS_OF, None)),
        (options.align, (*ALIGN_BY, None)),
        (options.anchor, ANCHORS),
    )
    for value, values in known:
        if value not in values:
            listed = ", ".join(str(one) for one in values if one is not None)
            raise ExportError(f"There is no {value!r}: {listed}.")


def compare_recipe(trace: Trace, options: CompareOptions) -> ExportCommand:
    """Return the command line that makes the figure."""
    values = changed_options(
        options, "show", "by", "key", "steps", "tokens", "align", "tolerance", "anchor",
        "token", "offset", "log", "waits",
    )  # fmt: skip
    if options.visible is not None:
        values["visible"] = time_option(options.visible)
    if options.state is not None and (state := lane_state_data(options.state)):
        values["state"] = state
    command: tuple[str, ...] = ()
    if options.color_by != "family":
        command = ("--color-by", options.color_by)
    (a, lacks_a), (b, lacks_b) = (
        _side_path(side) for side in ((trace, *options.more_a), options.b)
    )
    lacks = tuple(dict.fromkeys((*lacks_a, *lacks_b)))
    return ExportCommand("compare", a, values, command, lacks=lacks, other=b)


def _side_path(runs: Sequence[Trace]) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return what a command line names for a side, and what it leaves out."""
    opened = [run.info.opened for run in runs]
    if any(not paths for paths in opened):
        return (), ()
    lacks: tuple[str, ...] = ()
    if any(len(paths) > 1 for paths in opened):
        lacks = ("The command reads the first file of each run alone.",)
    if len(runs) == 1:
        return opened[0][:1], lacks
    folders = {paths[0].parent for paths in opened}
    if len(folders) > 1:
        return opened[0][:1], (*lacks, "The command compares one run of each side.")
    return tuple(folders), lacks


def side_name(runs: Sequence[Trace]) -> str:
    """Return the name of a side: of its file, or of the folder of several runs."""
    if len(runs) == 1:
        return trace_name(runs[0])
    folders = {path.parent for run in runs for path in run.info.paths[:1]}
    name = folders.pop().name if len(folders) == 1 else trace_name(runs[0])
    return f"{name} ({format_count(len(runs))} runs)"


def _names(trace: Trace, options: CompareOptions) -> tuple[str, str]:
    return side_name((trace, *options.more_a)), side_name(options.b)


def _compared(trace: Trace, options: CompareOptions) -> Comparison:
    """Return the comparison. Raises NothingToDrawError where there is none."""
    comparison = compare(
        (trace, *options.more_a), options.b, options.by, align_by=options.align,
        tolerance=Tolerance(options.tolerance),
    )  # fmt: skip
    if not comparison.is_comparable:
        raise NothingToDrawError(f"Not comparable: {comparison.reason}.")
    return comparison


def _about(trace: Trace, options: CompareOptions, what: str, *texts: str) -> str:
    a, b = _names(trace, options)
    return " ".join((f"{what}: A is {a}, B is {b}.", *(text for text in texts if text)))


def _limits(trace: Trace, comparison: Comparison) -> list[str]:
    return limits_text(comparison, trace.clock.unit, trace.clock.hz)


def _title(trace: Trace, options: CompareOptions, what: str) -> str:
    a, b = _names(trace, options)
    return f"{a} → {b} · {what}"


def _waterfall(
    trace: Trace, options: CompareOptions, style: FigureStyle
) -> RenderedFigure:
    compared = _compared(trace, replace(options, by="op"))
    traces = (trace, *options.more_a, *options.b)
    n_a, unit = 1 + len(options.more_a), trace.clock.unit
    steps = waterfall(traces, compared.alignment, n_a, options.steps, options.tokens)
    if steps.total is None:
        raise NothingToDrawError(waterfall_text(steps, unit))
    theme, width = theme_named(style.theme), style.width_or(_WIDTH)
    scene = WaterfallScene(steps, unit, width, 0.0, theme, style.scale, is_figure=True)
    left_out: list[str] = []
    n_rows = len(steps.steps) + 2

    def draw(height: float) -> DisplayList:
        _note_rows(height, n_rows, left_out)
        return compose_waterfall(replace(scene, height=height))

    has_noise = any(step.is_noise and step.change for step in steps.steps)
    notes = (*waterfall_notes(steps), *_limits(trace, compared))
    return framed(
        style, _title(trace, options, f"time per {steps.noun} by {options.steps}"),
        draw, width=width, natural_height=natural_height(n_rows),
        entries=change_entries(theme, has_noise=has_noise),
        description=_about(
            trace, options, "Steps from A to B", waterfall_text(steps, unit),
            matching_text(compared), *notes,
        ),
        left_out=left_out,
    )  # fmt: skip


def _note_rows(height: float, n_rows: int, left_out: list[str]) -> None:
    """Say how many rows a height leaves out."""
    fits = int((height - natural_height(0) + 1e-6) / MIN_ROW_PX)
    if (more := n_rows - max(fits, 0)) > 0:
        left_out.append(f"Not drawn for lack of space: {format_counted(more, 'row')}.")


def _changes(
    trace: Trace, options: CompareOptions, style: FigureStyle
) -> RenderedFigure:
    comparison, unit = _compared(trace, options), trace.clock.unit
    n = _USUAL_ROWS if style.height is None else _MAX_ROWS
    rows = comparison.rows[:n]
    theme, width = theme_named(style.theme), style.width_or(_WIDTH)
    noun, measure = GROUPINGS[options.by], MEASURES[comparison.measure]
    scene = ChangesScene(
        rows,
        f"B − A, {measure}",
        unit,
        width,
        0.0,
        theme,
        style.scale,
        is_figure=True,
        bound=comparison.bound,
    )
    left_out: list[str] = []
    if len(comparison.rows) > len(rows):
        more = format_counted(len(comparison.rows) - len(rows), "smaller change")
        left_out.append(f"Not drawn: {more}.")

    def draw(height: float) -> DisplayList:
        _note_rows(height, len(rows), left_out)
        return compose_changes(replace(scene, height=height))

    return framed(
        style, _title(trace, options, f"changes by {noun}"), draw, width=width,
        natural_height=natural_height(len(rows)),
        entries=change_entries(
            theme, has_noise=any(row.is_noise and row.change for row in rows)
        ),
        description=_about(
            trace, options, f"Changes by {noun}", headline(comparison, unit),
            matching_text(comparison), *_limits(trace, comparison),
        ),
        left_out=left_out,
    )  # fmt: skip


def _durations(
    trace: Trace, options: CompareOptions, style: FigureStyle
) -> RenderedFigure:
    comparison, unit = _compared(trace, options), trace.clock.unit
    key = options.key or comparison.rows[0].key
    traces = (trace, *options.more_a, *options.b)
    names = group_names(key, options.by, traces, comparison.alignment)
    durations = duration_histogram(
        traces,
        comparison.alignment,
        comparison.n_a,
        options.by,
        names,
        is_log=options.log,
    )
    if not durations.a.timed and not durations.b.timed:
        noun = GROUPINGS[options.by]
        raise NothingToDrawError(f"No span of {noun} {key!r} has a known time.")
    theme, width = theme_named(style.theme), style.width_or(_WIDTH)
    scene = HistogramScene(
        durations, unit, width, 0.0, theme, style.scale, is_figure=True
    )
    return framed(
        style, _title(trace, options, f"durations of {key}"),
        lambda height: compose_histogram(replace(scene, height=height)),
        width=width, natural_height=max(width * 0.4, 200.0),
        entries=curve_entries(histogram_chart(scene)),
        description=_about(
            trace, options, f"Durations of the spans of {key}",
            matching_text(comparison), *_limits(trace, comparison),
        ),
    )  # fmt: skip


def _timelines(
    trace: Trace, options: CompareOptions, style: FigureStyle
) -> RenderedFigure:
    other = options.b[0]
    if (trace.clock.unit, trace.clock.hz) != (other.clock.unit, other.clock.hz):
        comparison = compare([trace], [other])
        raise NothingToDrawError(f"No common axis of time: {comparison.reason}.")
    if options.offset is None:
        tokens = matched_tokens(trace, other)
        offset = offset_between(trace, other, tokens, options.anchor, options.token)
    else:
        offset = options.offset
    width = style.width_or(_TIMELINES_WIDTH)
    sides, left_out = list[TimelineSide](), list[str]()
    for name, run in (("A", trace), ("B", other)):
        index = TraceIndex(run)
        layout, notes = figure_layout(index, None, options.state)
        sides.append(TimelineSide(index, layout.scaled(1.0, 19.0), trace_name(run)))
        left_out += [f"{name}: {note}" for note in notes]
    more = len(options.more_a) + len(options.b) - 1
    if more:
        left_out.append(f"Not drawn: {format_counted(more, 'further run')}.")
    visible = options.visible or whole_range((trace.extent, other.extent), offset)
    scene = TimelinesScene(
        sides[0], sides[1], visible, offset, width - 8.0, 0.0, theme_named(style.theme),
        style.scale, offset_text(offset, options.anchor, trace.clock.unit),
        max(
            figure_header_width(side.layout, side.index.trace, width, QT_TEXT)
            for side in sides
        ),
        options.color_by, shows_waits=options.waits, is_figure=True,
    )  # fmt: skip
    fixed = STRIP_PX + AXIS_HEIGHT
    natural = [fixed + min(side.layout.height, _PAGE_PX / 2) + 2 for side in sides]

    def draw(height: float) -> DisplayList:
        fitted = []
        for name, side in zip("AB", (scene.a, scene.b), strict=True):
            space = max(height * natural["AB".index(name)] / sum(natural) - fixed, 1.0)
            layout = side.layout.fitting(space + 0.5)
            missing = len(side.layout.shown) - len(layout.shown)
            if missing:
                lanes = format_counted(missing, "lane")
                left_out.append(f"{name}: not drawn for lack of space: {lanes}.")
            fitted.append(replace(side, layout=layout))
        return compose_timelines(
            replace(scene, a=fitted[0], b=fitted[1], height=height)
        )

    shown = shown_form(visible, trace.clock).range_text(visible)
    return framed(
        style, _title(trace, options, "timelines"), draw, width=width,
        natural_height=sum(natural), entries=timelines_legend(scene),
        description=_about(
            trace, options, "Timelines under one axis", f"{shown} of A.",
            f"{scene.aligned}.",
        ),
        left_out=left_out,
    )  # fmt: skip
