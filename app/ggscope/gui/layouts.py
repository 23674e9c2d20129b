"""Layouts as values: what of the settings can be shown."""

from dataclasses import replace

from PySide6.QtWidgets import QSplitter

from ggscope.gui.floats import FLOATABLE
from ggscope.session.settings import Layout
from ggscope.views.registry import BUILTIN

GRID = 2
"""Where the grid's cells begin in ``Layout.cells``; before them those of dual."""
GRID_CELLS = 4


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


def shown_cells(layout: Layout) -> tuple[str, ...]:
    """Return the views of the panes that are seen, in reading order."""
    count = {"dual": 2, "grid": GRID_CELLS, "single": 1}[layout.name]
    first = _first_cell(layout)
    ids = layout.cells[first : first + count]
    # What floats leaves its cell to the others; one cell is always left.
    return tuple(i for i in ids if i not in layout.floating) or ids


def with_view(layout: Layout, here: str, view_id: str) -> tuple[str, ...]:
    """Return the cells with another view in the place of `here`.

    A view that is in another cell of this arrangement changes places with it.
    Raises ValueError if `here` is in none.
    """
    cells, first = list(layout.cells), _first_cell(layout)
    place = cells.index(here, first)
    # The single pane is the first of the dual view: both stay distinct.
    last = first + (GRID_CELLS if layout.name == "grid" else GRID)
    for position in range(first, last):
        if cells[position] == view_id:
            cells[position] = here
    cells[place] = view_id
    return tuple(cells)


def _first_cell(layout: Layout) -> int:
    return GRID if layout.name == "grid" else 0


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


__all__ = [
    "GRID",
    "fields_of",
    "permille",
    "shown_cells",
    "with_known_cells",
    "with_view",
]
