"""Figures, written as the command line writes them."""

from dataclasses import replace
from pathlib import Path

from ggscope.model.trace import Trace
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.figures import FIGURES


def export(
    name: str,
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] | None = None,
    dpi: float = 96.0,
    theme: str = "light",
    title: str | None = None,
    **options: object,
) -> None:
    """Write the figure `name` of a trace."""
    look = FigureStyle(dpi=dpi, theme=theme, title=title)
    if size is not None:
        look = replace(look, width=css_px(size[0]), height=css_px(size[1]))
    FIGURES[name].figure(trace, **options).write(path, look)
