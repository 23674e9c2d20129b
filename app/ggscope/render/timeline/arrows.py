"""Arrows of the selected op: from what it reads, and to who reads its result.

They run at right angles. Along one row arrows from inputs pass under it and arrows to
readers over it. Where the other end is outside of the picture the arrow ends at the
edge, on a plate with its name.
"""

from dataclasses import dataclass, field
from itertools import pairwise

from ggscope.analysis.graph.op_links import OpLink
from ggscope.descriptions.spans import op_text
from ggscope.model.units import format_count
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.theme import outline_pair
from ggscope.render.timeline.scene import TimelineGeometry
from ggscope.sanitize import one_line

MAX_ARROWS = 12
"""Arrows of each direction; of more those nearest in time, and a count of the rest."""
_LINE_PX, _CASING_PX = 2.0, 4.0
_HEAD_PX = 7
_STEP_PX = 4.0
"""Between arrows along one row."""
_LEAD_PX = 7.0
"""Of an arrow before it turns."""
_GAP_PX = 1.5
"""How far beside its row an arrow to another row runs."""
_MIN_PX = 4.0
"""An arrow along a row that is shorter is not drawn: nobody could see it."""
_PLATE_PX = 15.0
_TEXT_SIZE = 10.0
_LONGEST = 26
"""Characters of a plate."""

_Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a span lies in the picture, maybe outside of it.

    Attributes
    ----------
    x0, x1 : its ends.
    top, bottom : of its row.
    """

    x0: float
    x1: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class _Drawing:
    """What is collected: casings below lines, plates above both.

    `n_in_row` counts the arrows of one direction along the row of the selected op.
    """

    casing: LineList
    line: LineList
    colors: tuple[int, int]
    heads: RectList = field(default_factory=RectList)
    plates: RectList = field(default_factory=RectList)
    texts: TextList = field(default_factory=TextList)
    taken: list[Clip] = field(default_factory=list)
    n_in_row: int = 0

    def add_path(self, points: _Points, area: Clip) -> None:
        """Add a line through points, without what is outside of `area`."""
        for (xa, ya), (xb, yb) in pairwise(points):
            x0, x1 = sorted((xa, xb))
            y0, y1 = sorted((ya, yb))
            x0, x1 = max(x0, area.x), min(x1, area.x + area.width)
            y0, y1 = max(y0, area.y), min(y1, area.y + area.height)
            if x0 > x1 or y0 > y1:
                continue
            far = _CASING_PX / 2 - 0.5
            level = y0 == y1
            dx, dy = (far, 0.0) if level else (0.0, far)
            self.casing.add(x0 - dx, y0 - dy, x1 + dx, y1 + dy, self.colors[1])
            self.line.add(x0, y0, x1, y1, self.colors[0])

    def add_head(self, x: float, y: float, dx: int, dy: int) -> None:
        """Add a triangle whose tip is at (x, y) and that points along (dx, dy)."""
        for grow, color in ((1, self.colors[1]), (0, self.colors[0])):
            for step in range(-grow, _HEAD_PX + grow):
                half = (step + 1) * 0.6 + grow
                if dx:
                    x0 = x - step - 1 if dx > 0 else x + step
                    self.heads.add(x0, x0 + 1, y - half, y + half, color)
                else:
                    y0 = y - step - 1 if dy > 0 else y + step
                    self.heads.add(x - half, x + half, y0, y0 + 1, color)


def arrow_batches(geometry: TimelineGeometry) -> list[Batch]:
    """Return the arrows of the selected op; nothing where it is not in the picture."""
    scene = geometry.scene
    links = scene.links
    if links is None or not links.has_ends:
        return []
    own, area = _place(geometry, links.span), _area(geometry)
    if own is None or area.height <= _PLATE_PX or not _touches(own, area):
        return []
    theme = scene.theme
    # On white the selection's colour is that of some ops; see `highlight_batches`.
    colors = outline_pair(theme.selection if theme.is_dark else theme.text)
    drawing = _Drawing(LineList(_CASING_PX), LineList(_LINE_PX), colors)
    for is_input, ends in ((True, links.inputs), (False, links.consumers)):
        near = ends[-MAX_ARROWS:][::-1] if is_input else ends[:MAX_ARROWS]
        n_missing = len(ends) - len(near)
        drawing.n_in_row = 0
        for link in near:
            place = _place(geometry, link.span)
            if place is None:
                n_missing += 1
            else:
                _add_arrow(geometry, drawing, own, place, link, is_input=is_input)
        if n_missing:
            _add_count(geometry, drawing, own, n_missing, is_input=is_input)
    return [
        *drawing.casing.batch(area),
        *drawing.line.batch(area),
        *drawing.heads.batch(clip=area),
        *drawing.plates.batch(radius=3.0, clip=area),
        *drawing.texts.batch(),
    ]


def _area(geometry: TimelineGeometry) -> Clip:
    time, top = geometry.time, geometry.lanes_y
    return Clip(time.x0, top, time.x1 - time.x0, max(geometry.bottom - top, 0.0))


def _place(geometry: TimelineGeometry, span: int) -> _Place | None:
    """Return where a span is drawn; None on a lane that is hidden or not ready."""
    scene, time = geometry.scene, geometry.time
    index = scene.index
    key = index.lane_of_span(span)
    box = scene.layout.box_of(key) if key else None
    if box is None or not box.row_y or key in scene.waiting:
        return None
    row = min(index.row_of_span(span)[1], len(box.row_y) - 1)
    top = geometry.box_y(box) + box.row_y[row]
    spans = index.trace.spans
    ends = spans.start[span : span + 1], spans.end[span : span + 1]
    x0, x1 = (float(time.xs(tick)[0]) for tick in ends)
    return _Place(x0, x1, top, top + box.row_height)


def _touches(place: _Place, area: Clip) -> bool:
    in_time = place.x1 >= area.x and place.x0 <= area.x + area.width
    return in_time and area.y <= place.middle <= area.y + area.height


def _add_arrow(
    geometry: TimelineGeometry,
    drawing: _Drawing,
    own: _Place,
    other: _Place,
    link: OpLink,
    *,
    is_input: bool,
) -> None:
    area = _area(geometry)
    if not _touches(other, area):
        _add_outside(geometry, drawing, own, other, link, is_input=is_input)
        return
    source, target = (other, own) if is_input else (own, other)
    if source.top == target.top:
        _add_along_row(geometry, drawing, source, target, is_input=is_input)
        return
    # Between the rows, where no names are; down or up beside the reader.
    snap, down = geometry.time.snap, target.top > source.top
    x0 = snap(max(source.x1 - _LEAD_PX / 2, (source.x0 + source.x1) / 2))
    turn = snap(target.x0 - _LEAD_PX - _HEAD_PX / 2)
    edge = source.bottom - 1 if down else source.top + 1
    between = snap(source.bottom + _GAP_PX if down else source.top - _GAP_PX)
    points = [
        (x0, edge),
        (x0, between),
        (turn, between),
        (turn, target.middle),
        (target.x0 - 1, target.middle),
    ]
    drawing.add_path(points, area)
    drawing.add_head(target.x0, target.middle, 1, 0)


def _add_along_row(
    geometry: TimelineGeometry,
    drawing: _Drawing,
    source: _Place,
    target: _Place,
    *,
    is_input: bool,
) -> None:
    """Draw an arrow that leaves the row and comes back to it."""
    snap = geometry.time.snap
    x0 = snap(max(source.x1 - _LEAD_PX, (source.x0 + source.x1) / 2))
    x1 = snap(min(target.x0 + _LEAD_PX, (target.x0 + target.x1) / 2))
    if x1 - x0 < _MIN_PX:
        return
    away = _HEAD_PX + 3 + drawing.n_in_row % 4 * _STEP_PX
    drawing.n_in_row += 1
    edge = source.bottom - 1 if is_input else source.top + 1
    turn = snap(edge + away if is_input else edge - away)
    points = [(x0, edge), (x0, turn), (x1, turn), (x1, edge)]
    drawing.add_path(points, _area(geometry))
    drawing.add_head(x1, edge, 0, -1 if is_input else 1)


def _add_outside(
    geometry: TimelineGeometry,
    drawing: _Drawing,
    own: _Place,
    other: _Place,
    link: OpLink,
    *,
    is_input: bool,
) -> None:
    """Draw an arrow to or from the edge behind which the other end lies."""
    area, snap = _area(geometry), geometry.time.snap
    right, bottom = area.x + area.width, area.y + area.height
    name = _shortened(op_text(geometry.scene.index.trace, link.span))
    is_left, is_right = other.x1 < area.x, other.x0 > right
    sign = "◂ " if is_left else "" if is_right else "▴ " if other.top < area.y else "▾ "
    name = f"{sign}{name} ▸" if is_right else f"{sign}{name}"
    width = _width(name)
    if is_left or is_right:
        x = area.x + 3 if is_left else right - width - 3
    else:
        x = min(max((other.x0 + other.x1) / 2 - width / 2, area.x + 3), right - width)
    target_y = min(max(other.middle, area.y + _PLATE_PX), bottom - _PLATE_PX)
    if is_left or is_right:
        # Beside the row, where the plate hides no span that is pointed at.
        target_y = own.bottom + _PLATE_PX if is_input else own.top - _PLATE_PX
    y = _free(drawing, x, target_y, width, area, down=is_input)
    if y is None:
        return
    _add_plate(geometry, drawing, x, y, name)
    edge = own.bottom - 1 if is_input else own.top + 1
    at = own.x0 + min(_LEAD_PX, (own.x1 - own.x0) / 2)
    if not is_input:
        at = own.x1 - min(_LEAD_PX, (own.x1 - own.x0) / 2)
    at = snap(min(max(at, area.x + 3), right - 3))
    start = x + width if at > x + width else x if at < x else at
    drawing.add_path([(start, y), (at, y), (at, edge)], area)
    if is_input:
        drawing.add_head(at, edge, 0, -1 if y > edge else 1)
    elif start != at:
        drawing.add_head(start, y, 1 if start > at else -1, 0)


def _add_count(
    geometry: TimelineGeometry,
    drawing: _Drawing,
    own: _Place,
    n: int,
    *,
    is_input: bool,
) -> None:
    """Write how many inputs or readers have no arrow."""
    what = "input" if is_input else "reader"
    text = f"+ {format_count(n)} {what}{'' if n == 1 else 's'}"
    area, width = _area(geometry), _width(text)
    x = own.x0 - width - 4 if is_input else own.x1 + 4
    x = min(max(x, area.x + 3), area.x + area.width - width - 3)
    target_y = own.bottom + _PLATE_PX if is_input else own.top - _PLATE_PX
    y = _free(drawing, x, target_y, width, area, down=is_input)
    if y is not None:
        _add_plate(geometry, drawing, x, y, text)


def _free(
    drawing: _Drawing, x: float, y: float, width: float, area: Clip, *, down: bool
) -> float | None:
    """Return the height nearest to `y` at which a plate hides no other; None = none."""
    half = _PLATE_PX / 2
    low, high = area.y + half + 1, area.y + area.height - half - 1
    step = _PLATE_PX + 1 if down else -_PLATE_PX - 1
    for sign in (1, -1):
        at = min(max(y, low), high)
        while low <= at <= high:
            is_free = all(
                at + half < c.y
                or at - half > c.y + c.height
                or x + width < c.x
                or x > c.x + c.width
                for c in drawing.taken
            )
            if is_free:
                return at
            at += sign * step
    return None


def _add_plate(
    geometry: TimelineGeometry, drawing: _Drawing, x: float, y: float, text: str
) -> None:
    theme, snap = geometry.scene.theme, geometry.time.snap
    width = _width(text)
    x, top = snap(x), snap(y - _PLATE_PX / 2)
    drawing.taken.append(Clip(x, top, width, _PLATE_PX))
    drawing.plates.add(
        x, x + width, top, top + _PLATE_PX, theme.raised, drawing.colors[0]
    )
    drawing.texts.append(
        Text(
            x + width / 2,
            top + _PLATE_PX / 2,
            text,
            theme.text,
            _TEXT_SIZE,
            Face.MONO,
            Align.CENTER,
            clip=_area(geometry),
        )
    )


def _width(text: str) -> float:
    return round(len(text) * 0.602 * _TEXT_SIZE) + 10.0


def _shortened(text: str) -> str:
    text = one_line(text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
