"""Figures of the file heatmap."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.heatmap import HeatBase, Metric, heat_base
from ggscope.analysis.heat.rows import AxisKind, HeatAxis, RowKind, natural_rows
from ggscope.analysis.heat.touches import counted_words
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_offset
from ggscope.render.export import CSS_DPI, ensure_gui_application, export_display_list
from ggscope.render.heatmap.compose import compose_heatmap
from ggscope.render.heatmap.scene import HeatScene, HeatView
from ggscope.render.theme import DEFAULT, ScaleKind
from ggscope.render.theme import theme as theme_named


def export_heatmap(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] = (1600, 900),
    dpi: float = CSS_DPI,
    theme: str = "light",
    rows: RowKind | None = None,
    axis: AxisKind = "offset",
    metric: Metric = "bytes",
    scale: ScaleKind = ScaleKind.LOG,
    colors: str = DEFAULT,
    offsets: tuple[int, int] | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    title: str | None = None,
    overwrite: bool = True,
) -> None:
    """Write a figure of which bytes of the model file are read by what.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    rows : what the rows are; None = what tells most, see ``natural_rows``.
    offsets : (first, stop) bytes to show, the whole file where None.
    mask : bool[n_spans], whose accesses count; all where None.
    title : the file's name and format where None, "" for none.

    Raises
    ------
    ExportError
        If the suffix is unknown or the file cannot be written.
    """
    ensure_gui_application()
    base = heat_base(trace, rows or natural_rows(trace), mask=mask)
    name = trace.info.paths[0].name if trace.info.paths else "trace"
    words = f"{name} · {trace.info.format}" if title is None else title
    scene = heat_scene(
        trace, base, HeatAxis(base.files, axis), size, theme,
        metric=metric, scale_kind=scale, colors=colors, title=words,
        scale=dpi / CSS_DPI, is_filtered=mask is not None, offsets=offsets,
    )  # fmt: skip
    export_display_list(
        compose_heatmap(scene),
        path,
        title=words or name,
        description=_description(base),
        dpi=dpi,
        overwrite=overwrite,
    )


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
        clock=trace.clock,
        **values,  # type: ignore[arg-type]  # further fields of the scene
    )  # fmt: skip


def _description(base: HeatBase) -> str:
    totals = base.totals
    return (
        f"Heatmap of {format_count(totals.n_file)} accesses to "
        f"{format_count(len(base.files))} tensors and expert slices in a file of "
        f"{format_count(base.files.extent)} bytes (up to "
        f"{format_offset(base.files.extent)}), by {base.rows.kind}: "
        f"{format_count(totals.file_bytes)} bytes, "
        f"{counted_words(totals.passed_bytes)}."
    )
