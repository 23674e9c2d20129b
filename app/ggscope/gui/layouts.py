"""Layouts as values: what of the settings can be shown."""

from dataclasses import replace

from PySide6.QtWidgets import QSplitter

from ggscope.gui.floats import FLOATABLE
from ggscope.session.settings import Layout
from ggscope.views.registry import BUILTIN

GRID = 2
"""Where the grid's cells begin in ``Layout.cells``."""


def with_known_cells(layout: Layout) -> Layout:
    """Return the layout with unknown and doubled views replaced."""
    default = Layout().cells
    known = {e.id for e in BUILTIN if e.id != "overview"}
    cells: list[str] = []
    for first, last in ((0, GRID), (GRID, len(default))):
        part = layout.cells[first:last]
        good = len(set(part)) == len(part) and known.issuperset(part)
        cells += part if good else default[first:last]
    floating = tuple(i for i in dict.fromkeys(layout.floating) if i in FLOATABLE)
    return replace(layout, cells=tuple(cells), floating=floating)


def fields_of(layout: Layout) -> dict[str, object]:
    """Return the fields of a layout by name."""
    return {name: getattr(layout, name) for name in Layout.__dataclass_fields__}


def permille(split: QSplitter, default: int) -> int:
    """Return the first part's share of a splitter of two parts."""
    sizes = split.sizes()
    total = sum(sizes)
    if len(sizes) != 2 or total <= 0:
        return default
    return max(1, min(999, round(sizes[0] * 1000 / total)))


__all__ = ["GRID", "fields_of", "permille", "with_known_cells"]
