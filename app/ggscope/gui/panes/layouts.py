"""Layouts as values: what of the settings can be shown."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from PySide6.QtWidgets import QSplitter

from ggscope.gui.panes.floats import FLOATABLE
from ggscope.session.settings import Layout
from ggscope.views.registry import BUILTIN

GRID = 2
"""Where the grid's cells begin in ``Layout.cells``; before them those of dual."""
GRID_CELLS = 4
TIMELINE = "timeline"
TIMELINE_ROOM = 166
"""Height of a timeline's pane with head, axis and four rows of lanes, in
device-independent pixels at 100 %."""
LOW_TIMELINE_ROOM = 100
"""The same with two rows of lanes, for windows that have no room for more."""
DRAWER_ROOM = 180
"""Height of a drawer that shows some rows of a table, with tabs and heads."""
HIGH_DRAWER_ROOM = 310
"""The same for views with pictures and controls, see `ViewEntry.needs_height`."""
OTHER_ROOM = 116
"""Height below which the pane over or under it shows too little to be of use."""
ROOM_OF_ROWS = 184
"""What it needs to show four rows of a table, with heads and footer."""
PICTURES = ("heatmap", "graph")
"""Further views that are of no use when they are low."""
_STAND_INS = (TIMELINE, "requests", "table", "graph", "heatmap")
"""Views that may take the place of one that has no data, the most informative first."""
BETTER = {"table": "requests"}
"""Views that give way, unless they are asked for, to one that shows more."""
_LAST_STAND_INS = ("backends", "bench", "experts", "tensors")
"""Take a place only where nothing else has data: of a model, of an importance matrix,
of results of a benchmark or of a list of ops alone."""


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
    return replace(
        layout,
        cells=tuple(cells),  # type: ignore[arg-type]  # as many as the default
        floating=floating,
    )


def placed_cells(layout: Layout, has_data: Callable[[str], bool]) -> dict[int, str]:
    """Return the views of the panes that are seen, by place in ``layout.cells``.

    Where a view has no data, one that has and is not seen yet stands in for it; where
    there is none, the pane gives way to the others. What floats leaves its place, too.
    One pane is always left.

    Parameters
    ----------
    has_data : returns whether a view, by id, has anything to show.
    """
    count = {"dual": 2, "grid": GRID_CELLS, "single": 1}[layout.name]
    first = _first_cell(layout)
    cells = {place: layout.cells[place] for place in range(first, first + count)}
    docked = {p: i for p, i in cells.items() if i not in layout.floating} or cells
    seen = {*docked.values(), *layout.floating}
    spare = [v for v in _STAND_INS if v not in seen and has_data(v)]
    if not spare and not any(map(has_data, docked.values())):
        spare = [v for v in _LAST_STAND_INS if v not in seen and has_data(v)][:1]
    placed, empty = dict(docked), []
    for place, view_id in docked.items():
        if has_data(view_id):
            continue
        if spare:
            placed[place] = spare.pop(0)
        else:
            empty.append(place)
    # Where nothing has data the timeline stays: it says why.
    for place in sorted(empty, key=lambda place: placed[place] == TIMELINE):
        if len(placed) > 1:
            del placed[place]
    return placed


def place_to_give(placed: Mapping[int, str], active: str | None) -> int:
    """Return the place of the pane that another view may take.

    The last that is neither the active one nor the timeline, else the active one; the
    timeline only where there is no other.
    """
    others = [place for place, view_id in placed.items() if view_id != TIMELINE]
    inactive = [place for place in others if placed[place] != active]
    return (inactive or others or list(placed))[-1]


def with_view(
    layout: Layout, placed: Mapping[int, str], place: int, view_id: str
) -> tuple[str, ...]:
    """Return the cells with another view in `place`.

    A view that is in another place of this arrangement changes places with it.

    Parameters
    ----------
    placed : what is seen; see `placed_cells`.
    """
    cells, first = list(layout.cells), _first_cell(layout)
    here = placed[place]
    # The single pane is the first of the dual view: both stay distinct.
    last = first + (GRID_CELLS if layout.name == "grid" else GRID)
    for position in range(first, last):
        if placed.get(position, cells[position]) == view_id:
            cells[position] = here
    cells[place] = view_id
    if layout.name == "single" and here == TIMELINE not in cells[first:last]:
        cells[place + 1] = TIMELINE  # it is there again in the dual view
    return tuple(cells)


def shared_heights(
    total: int,
    share: int,
    timeline: int | None,
    zoom: float,
    *,
    may_fold: bool,
    is_chosen: bool = True,
) -> tuple[int, int]:
    """Return the heights of two rows of panes, of which one may be 0: folded away.

    The timeline keeps room for some lanes; what is beside it gives way.

    Parameters
    ----------
    total : height of both, device-independent pixels.
    share : what the first has by choice, thousandths.
    timeline : which of the two has the timeline, 0 or 1; None = neither.
    zoom : of fonts, and so of what lanes need; 1 = 100 %.
    may_fold : whether the other row may go where there is no room for both.
    is_chosen : whether the user has moved the edge; else the other row gets room for
        some rows of a table before the timeline gets more than it needs.
    """
    sizes = [total * share // 1000, total - total * share // 1000]
    if timeline is not None and not is_chosen:
        max_height = max(
            round(TIMELINE_ROOM * zoom), total - round(ROOM_OF_ROWS * zoom)
        )
        # In a low window the other keeps what it needs rather than the timeline.
        left = max(total - round(OTHER_ROOM * zoom), round(LOW_TIMELINE_ROOM * zoom))
        sizes[timeline] = min(sizes[timeline], max_height, left)
    if timeline is not None:
        min_timeline, other = round(TIMELINE_ROOM * zoom), round(OTHER_ROOM * zoom)
        if may_fold and total < min_timeline + other:
            sizes[timeline] = total
        else:
            sizes[timeline] = max(sizes[timeline], min(min_timeline, total - other))
        sizes[1 - timeline] = total - sizes[timeline]
    return sizes[0], sizes[1]


def _first_cell(layout: Layout) -> int:
    return GRID if layout.name == "grid" else 0


def fields_of(layout: Layout) -> dict[str, object]:
    """Return the fields of a layout by name."""
    return {name: getattr(layout, name) for name in Layout.__dataclass_fields__}


def permille(split: QSplitter, default: int) -> int:
    """Return the first part's share of a splitter of two parts that are both seen."""
    sizes = split.sizes()
    total = sum(sizes)
    if len(sizes) != 2 or 0 in sizes:
        return default
    return max(1, min(999, round(sizes[0] * 1000 / total)))
