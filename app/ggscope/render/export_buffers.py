"""Figures of buffers over time, without any display."""

from pathlib import Path

from ggscope.analysis.occupancy import Grouping, lives, occupancy
from ggscope.errors import ExportError
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.model.units import format_exact_bytes
from ggscope.render.compose_buffers import BuffersScene, compose_buffers
from ggscope.render.export import CSS_DPI, ensure_gui_application, export_display_list
from ggscope.render.theme import theme as theme_named


def export_buffers(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] = (1400, 560),
    dpi: float = CSS_DPI,
    theme: str = "light",
    by: Grouping = "usage",
    visible: TimeRange | None = None,
    overwrite: bool = True,
) -> None:
    """Write a figure of the occupancy over time, its peak and the lives of buffers.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    dpi : dots per inch: a PNG has ``size * dpi / 96`` pixels.
    visible : ticks; the whole trace and all buffers where None.

    Raises
    ------
    ExportError
        If no allocation of a buffer is recorded, the suffix is unknown or the file
        cannot be written.
    """
    ensure_gui_application()
    found = occupancy(trace, by)
    if found.peak is None:
        raise ExportError("No allocation of a buffer is recorded in this trace.")
    scene = BuffersScene(
        trace=trace,
        occupancy=found,
        lives=lives(trace.buffers),
        visible=_whole(trace) if visible is None else visible,
        width=float(size[0]),
        height=float(size[1]),
        theme=theme_named(theme),
        by=by,
        scale=dpi / CSS_DPI,
    )
    name = trace.info.paths[0].name if trace.info.paths else "trace"
    export_display_list(
        compose_buffers(scene),
        path,
        title=f"{name} · buffers",
        description=(
            f"{len(trace.buffers):,} buffers by {by}; the peak is "
            f"{format_exact_bytes(found.peak.bytes)} in "
            f"{len(found.peak.alive):,} of them."
        ),
        dpi=dpi,
        overwrite=overwrite,
    )


def _whole(trace: Trace) -> TimeRange:
    """Return the extent with some air, so that a sudden start can be seen."""
    extent = trace.extent
    return extent.padded(max(extent.duration // 40, 8))


__all__ = ["export_buffers"]
