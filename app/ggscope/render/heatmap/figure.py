"""Figures of the file heatmap."""

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.heatmap import HeatBase, Metric, heat_base
from ggscope.analysis.heat.rows import AxisKind, HeatAxis, RowKind, natural_rows
from ggscope.analysis.heat.touches import counted_words
from ggscope.model.tables import I64
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_offset
from ggscope.render.colors import DEFAULT, ScaleKind
from ggscope.render.export import Drawn, Figure, trace_name, trace_title
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.scene import HeatScene, HeatView
from ggscope.render.look import Look
from ggscope.render.theme import theme as theme_named


def heatmap_figure(
    trace: Trace,
    *,
    rows: RowKind | None = None,
    axis: AxisKind = "offset",
    metric: Metric = "bytes",
    scale: ScaleKind = ScaleKind.LOG,
    colors: str = DEFAULT,
    offsets: tuple[int, int] | None = None,
    visible: TimeRange | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
) -> Figure:
    """Return the figure of which bytes of the model file are read by what.

    Parameters
    ----------
    rows : what the rows are; None = what tells most, see ``natural_rows``.
    offsets : (first, stop) bytes to show, the whole file where None.
    visible : only accesses of spans that start in it count; all where None.
    mask : bool[n_spans], whose accesses count; all where None.
    """

    def draw(look: Look) -> Drawn:
        counted = mask
        if visible is not None:
            start = trace.spans.start
            counted = (start >= visible.start) & (start < visible.end)
            counted = counted if mask is None else counted & mask
        base = heat_base(trace, rows or natural_rows(trace), mask=counted)
        title = trace_title(trace) if look.title is None else look.title
        scene = heat_scene(
            trace,
            base,
            HeatAxis(base.files, axis),
            look.size_or(1600, 900),
            look.theme,
            metric=metric,
            scale_kind=scale,
            colors=colors,
            title=title,
            scale=look.scale,
            is_filtered=counted is not None,
            offsets=offsets,
        )
        words = title or trace_name(trace)
        return Drawn(compose_heatmap(scene), words, _description(base))

    return Figure("heatmap", draw)


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
    found = trace.residency
    return (
        found.shares(trace.tensors.size) if found is not None and len(found) else None
    )


def _description(base: HeatBase) -> str:
    totals = base.totals
    if not base.files.extent:
        return "Heatmap without content: where tensors lie is not known."
    return (
        f"Heatmap of {format_count(totals.n_file)} accesses to "
        f"{format_count(len(base.files))} tensors and expert slices in a file of "
        f"{format_count(base.files.extent)} bytes (up to "
        f"{format_offset(base.files.extent)}), by {base.rows.kind}: "
        f"{format_count(totals.file_bytes)} bytes, "
        f"{counted_words(totals.passed_bytes)}."
    )
