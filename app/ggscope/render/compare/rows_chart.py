"""Bars from one number to another in rows: steps of a waterfall, or changes."""

from dataclasses import dataclass
from math import ceil, floor

from ggscope.render.batch import (
    Align,
    Clip,
    DisplayList,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.charts import LABEL_SIZE, Axis, axis_values
from ggscope.render.theme import Theme, mix, with_alpha

_FOOT_PX, _LOW_FOOT_PX, _TOP_PX, _PAD = 34.0, 18.0, 6.0, 10.0
_LOW_PX = 180.0
"""Lower pictures on the screen have no title of the axis."""
_MAX_ROW_PX, MIN_ROW_PX = 26.0, 15.0
_CHARACTER = 0.602 * LABEL_SIZE
_TICK_PX = 90.0
_MIN_BAR_PX = 2.0


@dataclass(frozen=True, slots=True)
class RowBar:
    """One row.

    Attributes
    ----------
    label : at the left; `text` stands at the right, what is known of it.
    low, high : ends of the bar, in numbers of the axis.
    spread : least and most over several runs, drawn as a line; None = of one run.
    is_dim : drawn quietly: the change is noise.
    is_total : a whole, from which steps lead to another one.
    """

    label: str
    low: float
    high: float
    text: str
    color: int
    spread: tuple[float, float] | None = None
    is_dim: bool = False
    is_total: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RowsScene:
    """Everything that a chart of rows depends on.

    Attributes
    ----------
    axis : of all bars; its label says what they measure.
    connects : whether a thin line leads from the end of a bar to the next row.
    scroll : rows that are scrolled away.
    hover : row under the mouse, -1 = none.
    """

    width: float
    height: float
    theme: Theme
    rows: tuple[RowBar, ...]
    axis: Axis
    scale: float = 1.0
    connects: bool = False
    scroll: int = 0
    hover: int = -1
    is_figure: bool = False


class RowsGeometry:
    """Where rows lie.

    Attributes
    ----------
    shown : rows in sight, from top to bottom. Where steps lead to a total, the last one
        stays while others scroll.
    n, n_scrolled : how many these are, and how many of them scroll.
    """

    __slots__ = (
        "label_px", "left", "n", "n_scrolled", "right", "row_px", "scene", "shown",
    )  # fmt: skip

    def __init__(self, scene: RowsScene) -> None:
        self.scene = scene
        labels = max((len(row.label) for row in scene.rows), default=0)
        longest = max((len(row.text) for row in scene.rows), default=0)
        self.left = min(labels * _CHARACTER + 2 * _PAD, scene.width * 0.34)
        self.label_px = min(longest * _CHARACTER + 2 * _PAD, scene.width * 0.4)
        self.right = max(scene.width - self.label_px, self.left + 20)
        n_shown, n = self.content_height, len(scene.rows)
        self.row_px = min(max(n_shown / max(n, 1), MIN_ROW_PX), _MAX_ROW_PX)
        self.n = min(int((n_shown + 1e-6) / self.row_px), n)
        first = min(max(scene.scroll, 0), n - self.n)
        stays = scene.connects and 1 < self.n < n
        self.n_scrolled = self.n - stays
        self.shown = [*range(first, first + self.n_scrolled), *([n - 1] * stays)]

    @property
    def content_height(self) -> float:
        """Height for rows."""
        foot = _LOW_FOOT_PX if self.is_low else _FOOT_PX
        return max(self.scene.height - _TOP_PX - foot, 0.0)

    @property
    def is_low(self) -> bool:
        """Whether the axis has no title."""
        return not self.scene.is_figure and self.scene.height < _LOW_PX

    @property
    def bottom(self) -> float:
        """Lower end of the rows."""
        return _TOP_PX + self.n * self.row_px

    def px(self, value: float) -> float:
        """Return the position of a number of the axis, within the plot."""
        share = float(self.scene.axis.share(value))
        share = min(max(share, 0.0), 1.0)
        scale = self.scene.scale
        x = self.left + share * (self.right - self.left)
        return floor(x * scale + 0.5) / scale

    def y(self, row: int) -> float:
        """Return the top of a row in sight, on a device pixel."""
        scale = self.scene.scale
        y = _TOP_PX + self.shown.index(row) * self.row_px
        return floor(y * scale + 0.5) / scale

    def row_at(self, y: float) -> int:
        """Return the row at a height, -1 for none."""
        row = int((y - _TOP_PX) // self.row_px) if y >= _TOP_PX else -1
        return self.shown[row] if 0 <= row < self.n else -1


def natural_height(n_rows: int) -> float:
    """Return the height at which all rows fit well."""
    return _TOP_PX + _FOOT_PX + n_rows * 22.0


def compose_rows(scene: RowsScene) -> DisplayList:
    """Return the picture."""
    g = RowsGeometry(scene)
    theme = scene.theme
    grounds, boxes, lines, texts = RectList(), RectList(), LineList(), TextList()
    grid = LineList(1 / scene.scale)
    _add_axis(g, grid, texts)
    for number in g.shown:
        row, y = scene.rows[number], g.y(number)
        if number == scene.hover:
            tint = mix(theme.pane, theme.text, 0.12)
            grounds.add(0, scene.width, y, y + g.row_px, tint)
        _add_bar(g, row, y, boxes, lines)
        if scene.connects and number + 1 in g.shown:
            x = g.px(row.high)
            color = with_alpha(theme.dim, 0.7)
            lines.add(x, y + g.row_px * 0.8, x, y + g.row_px * 1.2, color)
        _add_labels(g, row, y, texts)
    clip = Clip(0, 0, scene.width, max(scene.height, 0))
    batches = (
        *grounds.batch(clip=clip), *grid.batch(clip), *boxes.batch(clip=clip),
        *lines.batch(clip), *texts.batch(),
    )  # fmt: skip
    return DisplayList(scene.width, scene.height, scene.scale, theme.pane, batches)


def _add_bar(
    g: RowsGeometry, row: RowBar, y: float, boxes: RectList, lines: LineList
) -> None:
    theme = g.scene.theme
    x0, x1 = sorted((g.px(row.low), g.px(row.high)))
    if x1 - x0 < _MIN_BAR_PX and row.high != row.low:
        x1 = x0 + _MIN_BAR_PX
    pad = g.row_px * (0.14 if row.is_total else 0.2)
    color = mix(theme.pane, row.color, 0.4) if row.is_dim else row.color
    if x1 > x0:
        boxes.add(x0, x1, y + pad, y + g.row_px - pad, color)
    else:
        lines.add(x0, y + pad, x0, y + g.row_px - pad, theme.dim)
    if row.spread is not None and row.spread[0] < row.spread[1]:
        low, high = map(g.px, row.spread)
        middle = y + g.row_px / 2
        lines.add(low, middle, high, middle, theme.text)
        for x in (low, high):
            lines.add(x, middle - 3, x, middle + 3, theme.text)


def _add_labels(g: RowsGeometry, row: RowBar, y: float, texts: TextList) -> None:
    theme, middle = g.scene.theme, y + g.row_px / 2
    color = theme.dim if row.is_dim else theme.text
    face = Face.HEADING if row.is_total else Face.UI
    texts.append(
        Text(g.left - _PAD, middle, row.label, color, LABEL_SIZE, face, Align.RIGHT,
             width=g.left - 1.4 * _PAD)
    )  # fmt: skip
    texts.append(
        Text(g.right + _PAD, middle, row.text, color, LABEL_SIZE, Face.MONO,
             width=g.scene.width - g.right - 1.4 * _PAD)
    )  # fmt: skip


def _add_axis(g: RowsGeometry, grid: LineList, texts: TextList) -> None:
    scene, theme = g.scene, g.scene.theme
    n = max(int((g.right - g.left) / _TICK_PX), 2)
    end = g.left - 1.0
    for value in axis_values(scene.axis, n):
        x, text = g.px(value), scene.axis.format_value(value)
        color = theme.dim if value == 0 else theme.grid
        grid.add(x, _TOP_PX, x, g.bottom + 3, color)
        half = ceil(len(text) * _CHARACTER / 2)
        if x - half > end and x + half <= scene.width:
            texts.append(
                Text(x, g.bottom + 10, text, theme.dim, LABEL_SIZE, Face.MONO,
                     Align.CENTER)
            )  # fmt: skip
            end = x + half + 6
    if g.is_low:
        return
    texts.append(
        Text((g.left + g.right) / 2, g.bottom + 25, scene.axis.label, theme.dim,
             LABEL_SIZE, align=Align.CENTER, width=scene.width - 2 * _PAD)
    )  # fmt: skip
