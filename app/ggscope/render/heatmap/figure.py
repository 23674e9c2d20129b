"""Figures of the file heatmap."""

from dataclasses import dataclass, field, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.heatmap import HeatBase, Metric, heat_base
from ggscope.analysis.heat.rows import AxisKind, HeatAxis, RowKind, natural_rows
from ggscope.descriptions.counting import counting_rule
from ggscope.descriptions.reads import no_accesses_text
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_both_bytes, format_bytes, format_count
from ggscope.render.colors import DEFAULT, NAMES, ScaleKind
from ggscope.render.export import ExportCommand, Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import Frame, framed
from ggscope.render.heatmap.compose import (
    cell_text,
    compose_heatmap,
    heat_legend,
    rest_text,
)
from ggscope.render.heatmap.scene import HeatCache, HeatGeometry, HeatScene, HeatView
from ggscope.render.options import changed_options, option, read_time
from ggscope.render.theme import theme as theme_named


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeatmapOptions:
    """Options of the figure of the file heatmap.

    Attributes
    ----------
    rows : what a row is; None = see `natural_rows`.
    absolute : whether times are those of the file's own clock.
    offsets : (first, stop) bytes to show, the whole file where None.
    shown_rows : (first, stop) rows to show, all where None.
    visible : only accesses of spans that start in it count; all where None.
    mask : bool[n_spans], whose accesses count; all where None.
    """

    rows: RowKind | None = field(default=None, metadata=option(flag="rows"))
    axis: AxisKind = "offset"
    metric: Metric = "bytes"
    scale: ScaleKind | str = ScaleKind.AUTO
    colors: str = DEFAULT
    absolute: bool = False
    offsets: tuple[int, int] | None = None
    shown_rows: tuple[int, int] | None = None
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    mask: npt.NDArray[np.bool_] | None = field(
        default=None, metadata=option(flag="where", read=None)
    )


def heatmap_figure(
    trace: Trace,
    options: HeatmapOptions = HeatmapOptions(),
) -> Figure:
    """Return the figure of the bytes of the model file that are read, by row."""
    for name, value, choices in (
        ("axis", options.axis, get_args(AxisKind)),
        ("metric", options.metric, get_args(Metric)),
        ("colors", options.colors, NAMES),
    ):
        if value not in choices:
            raise ExportError(f"{name} can be {', '.join(choices)}, not {value!r}.")

    scale = ScaleKind(options.scale)

    def draw(style: FigureStyle) -> RenderedFigure:
        mask, visible = options.mask, options.visible
        if visible is not None:
            start = trace.spans.start
            in_time = (start >= visible.start) & (start < visible.end)
            mask = in_time if mask is None else in_time & mask
        base = heat_base(trace, options.rows or natural_rows(trace), mask=mask)
        if not base.files.extent or not len(base.files):
            raise NothingToDrawError(_why_nothing(trace))
        scene = heat_scene(
            trace,
            base,
            HeatAxis(base.files, options.axis),
            (1600.0, 900.0),
            style.theme,
            metric=options.metric,
            scale_kind=scale,
            colors=options.colors,
            scale=style.scale,
            is_filtered=mask is not None,
            offsets=options.offsets,
            absolute=options.absolute,
        )
        if options.shown_rows is not None:
            top, bottom = options.shown_rows
            view = replace(scene.view, top=top, bottom=min(bottom, len(base.rows)))
            scene = replace(scene, view=view)
        return draw_heatmap(scene, style, trace_name(trace))

    lacks = () if options.mask is None else ("The command leaves the filter out.",)
    return Figure("heatmap", draw, recipe=heatmap_recipe(trace, options, lacks))


def draw_heatmap(scene: HeatScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale,
        hover=None, mark=scene.mark if style.seen else None, is_figure=True,
        cache=HeatCache(),
    )  # fmt: skip
    if not style.seen:
        scene = replace(scene, selected=scene.selected[:0], linked=scene.linked[:0])
    natural_height = min(max(width * 0.55, 300.0), 900.0)
    title = f"{name} · reads of the model file"
    entries, bar = heat_legend(replace(scene, height=natural_height))
    frame = Frame(
        style, width, title=title if style.title is None else style.title,
        entries=entries, bars=[bar],
    )  # fmt: skip
    # What a cell is depends on the height, which a look may give.
    scene = replace(scene, height=frame.body_height(natural_height))
    entries, bar = heat_legend(scene)
    return framed(
        style, title,
        lambda height: compose_heatmap(replace(scene, height=height)), width=width,
        natural_height=natural_height, entries=entries, bars=[bar],
        description=_description(scene, name),
    )  # fmt: skip


def heatmap_recipe(
    trace: Trace, options: HeatmapOptions, lacks: tuple[str, ...] = ()
) -> ExportCommand:
    """Return the command line that makes the figure."""
    values = changed_options(options)
    values.pop("rows", None)
    flags = () if options.rows is None else ("--rows", options.rows)
    return ExportCommand("heatmap", trace.info.opened, values, flags, lacks=lacks)


def heat_scene(
    trace: Trace,
    base: HeatBase,
    axis: HeatAxis,
    size: tuple[float, float],
    theme: str,
    *,
    offsets: tuple[int, int] | None = None,
    **values: object,
) -> HeatScene:
    """Return the scene of a base, whole unless `offsets` say otherwise."""
    ends: I64 = np.array(offsets or (0, base.files.extent), np.int64)
    begin, stop = axis.clamped(*axis.positions(ends).tolist())
    if offsets is None:
        begin, stop = 0, axis.extent
    return HeatScene(
        base=base, axis=axis, view=HeatView(begin, stop, 0, len(base.rows)),
        strings=trace.strings, tensor_names=np.asarray(trace.tensors.name, np.int64),
        width=float(size[0]), height=float(size[1]), theme=theme_named(theme),
        clock=trace.clock, held=held_shares(trace),
        **values,  # type: ignore[arg-type]  # further fields of the scene
    )  # fmt: skip


def held_shares(trace: Trace) -> npt.NDArray[np.float64] | None:
    """Return `HeatScene.held` of a trace."""
    residency = trace.residency
    return (
        residency.shares(trace.tensors.size)
        if residency is not None and len(residency)
        else None
    )


def _why_nothing(trace: Trace) -> str:
    if not len(trace.accesses.patterns):
        return ": ".join(no_accesses_text(trace))
    return "File offsets of tensors are unknown: add the model or its map."


def _description(scene: HeatScene, name: str) -> str:
    base, totals = scene.base, scene.base.totals
    cell = cell_text(HeatGeometry(scene))
    return (
        f"Reads of the model file of {name} by {base.rows.kind}: "
        f"{format_count(totals.n_file)} accesses to "
        f"{format_count(len(base.files))} tensors and expert slices in a file of "
        f"{format_bytes(base.files.extent)}, {format_both_bytes(totals.file_bytes)}, "
        f"{counting_rule(totals.passed_bytes, is_once=totals.is_once)}. "
        f"{', '.join(rest_text(scene))}. A cell is {cell}."
    )
