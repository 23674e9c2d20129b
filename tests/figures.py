"""Figures, written as the command line writes them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle, css_px


def export(
    make: Callable[..., Figure],
    source: object,
    path: Path | str,
    *,
    size: tuple[int, int] | None = None,
    dpi: float = 96.0,
    theme: str = "light",
    title: str | None = None,
    **options: object,
) -> None:
    """Make a figure of a trace and write it."""
    look = FigureStyle(dpi=dpi, theme=theme, title=title)
    if size is not None:
        look = replace(look, width=css_px(size[0]), height=css_px(size[1]))
    make(source, **options).write(path, look)
