"""Figures, written as the command line writes them."""

from collections.abc import Callable
from pathlib import Path

from ggscope.render.export import Figure, Look


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
    look = Look(size=size, dpi=dpi, theme=theme, title=title)
    make(source, **options).write(path, look)
