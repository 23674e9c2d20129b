"""The frame of a figure: title, legend and colour bar.

One frame for the figures of all views. It takes the height that it needs, so that it
neither covers the picture nor is cut.
"""

from collections.abc import Callable, Sequence
from math import ceil

from ggscope.model.units import format_counted
from ggscope.render.batch import (
    Batch,
    DisplayList,
    Face,
    LineList,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import ColorBar, Entry, Sign, color_bar
from ggscope.render.export import RenderedFigure, ensure_gui_application
from ggscope.render.figure_style import FigureStyle
from ggscope.render.grid import placed
from ggscope.render.text_measurer import TextMeasurer, qt_measurer
from ggscope.render.theme import Theme, mix
from ggscope.render.theme import theme as theme_named

_PAD = 8.0
_TITLE_SIZE, _TITLE_HEIGHT = 13.0, 26.0
_SIZE, _LINE_HEIGHT = 10.5, 16.0
_SWATCH, _GAP = 10.0, 14.0
_BAR_PX, _MIN_BAR_PX = 140.0, 40.0
_MAX_LINES = 8
_MIN_BODY = 40.0


class Frame:
    """The frame of one figure.

    Parameters
    ----------
    width : of the figure, in pixels of the design.

    Attributes
    ----------
    top, bottom : how much of the height it takes, on device pixels.
    left_out : whole sentences on what it has no room for.
    """

    def __init__(
        self,
        style: FigureStyle,
        width: float,
        *,
        title: str = "",
        entries: Sequence[Entry] = (),
        bars: Sequence[ColorBar] = (),
        measurer: TextMeasurer | None = None,
    ) -> None:
        ensure_gui_application()
        self._text_width = (measurer or qt_measurer()).width
        self._style, self._width = style, width
        self._theme = theme_named(style.theme)
        self._title = self._title_lines(title)
        self._bars = bars if style.color_bar else ()
        self._lines, n_more = self._wrapped(entries if style.legend else ())
        self.left_out: tuple[str, ...] = ()
        if n_more:
            more = format_counted(n_more, "colour")
            self.left_out = (f"Not in the legend for lack of space: {more}.",)
        if style.height is not None:
            self._fit_into(style.height_or(0.0) - _MIN_BODY)
        self.top = self._snapped(self._title_height)
        self.bottom = self._snapped(self._foot_height)

    @property
    def _title_height(self) -> float:
        return sum(height for _, _, height in self._title)

    @property
    def _foot_height(self) -> float:
        n_lines = len(self._lines) + sum(self._bar_lines(bar) for bar in self._bars)
        return n_lines * _LINE_HEIGHT + 8 if n_lines else 0.0

    def _fit_into(self, max_height: float) -> None:
        """Drop legend and title where a low figure has no height for them."""
        if self._title_height + self._foot_height > max_height and self._foot_height:
            self._lines, self._bars = [], ()
            self.left_out = ("The legend does not fit into this height.",)
        if self._title_height > max_height:
            self._title = []

    def _title_lines(self, title: str) -> list[tuple[str, Face, float]]:
        """Return the text, face and height of each line: two where one is too long."""
        max_px = self._width - 2 * _PAD
        if not title:
            return []
        head, _, rest = title.partition(" · ")
        if not rest or self._text_width(title, Face.HEADING, _TITLE_SIZE) <= max_px:
            return [(title, Face.HEADING, _TITLE_HEIGHT)]
        return [(head, Face.HEADING, _TITLE_HEIGHT), (rest, Face.UI, _LINE_HEIGHT)]

    def _wrapped(self, entries: Sequence[Entry]) -> tuple[list[list[Entry]], int]:
        """Return the lines of a legend, and how many entries fit on none of them."""
        lines: list[list[Entry]] = []
        x = 0.0
        for number, entry in enumerate(entries):
            entry_px = _SWATCH + 5 + self._text_width(entry.label, Face.UI, _SIZE)
            if not lines or x + entry_px > self._width - _PAD:
                if len(lines) == _MAX_LINES:
                    return lines, len(entries) - number
                lines.append([])
                x = _PAD
            lines[-1].append(entry)
            x += entry_px + _GAP
        return lines, 0

    def _snapped(self, value: float) -> float:
        return ceil(value * self._style.scale - 1e-6) / self._style.scale

    def body_height(self, natural: float) -> float:
        """Return the picture's height: `natural`, or what a given height leaves."""
        if self._style.height is None:
            return self._snapped(natural)
        return self._style.height_or(0.0) - self.top - self.bottom

    def around(self, body: DisplayList) -> DisplayList:
        """Return the figure with `body` as its picture."""
        height = self.top + body.height + self.bottom
        picture = placed(
            self._width, height, body.scale, body.background, [(body, 0.0, self.top)]
        )
        texts, batches = TextList(), list[Batch]()
        y = 0.0
        for line_text, face, line_height in self._title:
            size = _TITLE_SIZE if face is Face.HEADING else _SIZE
            texts.append(
                Text(_PAD, y + line_height / 2, line_text, self._theme.text, size, face,
                     width=self._width - 2 * _PAD)
            )  # fmt: skip
            y += line_height
        y = self.top + body.height + 4 + _LINE_HEIGHT / 2
        for line in self._lines:
            x = _PAD
            for entry in line:
                batches += _sign(entry, x, y, self._theme)
                x += _SWATCH + 5
                texts.append(Text(x, y, entry.label, self._theme.text, _SIZE))
                x += self._text_width(entry.label, Face.UI, _SIZE) + _GAP
            y += _LINE_HEIGHT
        for bar in self._bars:
            batches += self._bar_batches(bar, y, texts)
            y += self._bar_lines(bar) * _LINE_HEIGHT
        return DisplayList(
            picture.width, picture.height, picture.scale, picture.background,
            (*picture.batches, *batches, *texts.batch()),
            spots=picture.spots,
        )  # fmt: skip

    def _bar_space(self, bar: ColorBar) -> tuple[list[float], float]:
        """Return the widths of the texts of both ends, and the rest of the line."""
        sides = [self._text_width(w, Face.MONO, _SIZE) + 6 for w in (bar.low, bar.high)]
        return sides, self._width - 2 * _PAD - sum(sides)

    def _bar_lines(self, bar: ColorBar) -> int:
        """Return how many lines a scale takes: two where its title is long."""
        _, rest_px = self._bar_space(bar)
        title_px = self._text_width(bar.title, Face.UI, _SIZE)
        return 1 if title_px + 10 + _MIN_BAR_PX <= rest_px else 2

    def _bar_batches(self, bar: ColorBar, y: float, texts: TextList) -> list[Batch]:
        """Return the colours of the scale; append its texts to `texts`."""
        theme, x = self._theme, _PAD
        sides, rest_px = self._bar_space(bar)
        title_px = self._text_width(bar.title, Face.UI, _SIZE)
        is_beside = self._bar_lines(bar) == 1
        title_max = rest_px - 10 - _MIN_BAR_PX if is_beside else self._width - 2 * _PAD
        texts.append(
            Text(x, y, bar.title, theme.text, _SIZE, width=max(title_max, 1.0))
        )
        if is_beside:
            x, rest_px = x + title_px + 10, rest_px - title_px - 10
        else:
            y += _LINE_HEIGHT
        bar_px = max(min(_BAR_PX, rest_px), _MIN_BAR_PX)
        texts.append(Text(x, y, bar.low, theme.text, _SIZE, Face.MONO))
        x = round((x + sides[0]) * self._style.scale) / self._style.scale
        bar_px = round(bar_px * self._style.scale) / self._style.scale
        texts.append(Text(x + bar_px + 6, y, bar.high, theme.text, _SIZE, Face.MONO))
        return [color_bar(x, y - 4, bar_px, 8.0, bar.colors)]


def framed(
    style: FigureStyle,
    name: str,
    compose: Callable[[float], DisplayList],
    *,
    width: float,
    natural_height: float,
    entries: Sequence[Entry] = (),
    bars: Sequence[ColorBar] = (),
    description: str = "",
    left_out: Sequence[str] = (),
) -> RenderedFigure:
    """Return a figure in its frame.

    Parameters
    ----------
    name : its title where the style has none of its own.
    description : begins with what it shows, and of which trace.
    compose : returns the picture for a height, `width` wide.
    natural_height : the height at which all of it fits.
    left_out : read after `compose`, which may add to it.
    """
    title = name if style.title is None else style.title
    frame = Frame(style, width, title=title, entries=entries, bars=bars)
    body = compose(frame.body_height(natural_height))
    return RenderedFigure(
        frame.around(body),
        title or name,
        description,
        (*left_out, *frame.left_out),
        style.title or "",
    )


def _sign(entry: Entry, x: float, y: float, theme: Theme) -> list[Batch]:
    half = _SWATCH / 2
    if entry.sign in (Sign.LINE, Sign.DASHES):
        lines = LineList(1.6, dashed=entry.sign is Sign.DASHES)
        lines.add(x, y, x + _SWATCH, y, entry.color)
        return lines.batch()
    rects = RectList()
    if entry.sign is Sign.BAND:
        low = half * 0.4
        rects.add(x, x + _SWATCH, y - low, y + low, entry.color)
        return rects.batch()
    if entry.sign is Sign.FRAME:
        rects.add(x, x + _SWATCH, y - half, y + half, theme.pane, entry.color)
        return rects.batch()
    if entry.pattern in (Pattern.HATCH, Pattern.FAINT_HATCH):
        ground = entry.ground or theme.pane
        edge = mix(theme.pane, entry.color, 0.5)
        rects.add(x, x + _SWATCH, y - half, y + half, ground, edge)
    rects.add(
        x, x + _SWATCH, y - half, y + half, entry.color, pattern=int(entry.pattern)
    )
    return rects.batch()
