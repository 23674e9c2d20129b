"""What stands around the picture of a figure: title, legend and colour bar.

One frame for the figures of all views. It takes the room that it needs, so that no
picture lies under it and nothing of it is cut.
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
from ggscope.render.painter import text_width
from ggscope.render.theme import Theme, mix
from ggscope.render.theme import theme as theme_named

_PAD = 8.0
_TITLE_SIZE, _TITLE_HEIGHT = 13.0, 26.0
_SIZE, _LINE_HEIGHT = 10.5, 16.0
_SWATCH, _GAP = 10.0, 14.0
_BAR_PX, _LEAST_BAR_PX = 140.0, 40.0
_MOST_LINES = 8
_LEAST_BODY = 40.0


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
        look: FigureStyle,
        width: float,
        *,
        title: str = "",
        entries: Sequence[Entry] = (),
        bars: Sequence[ColorBar] = (),
    ) -> None:
        ensure_gui_application()
        self._look, self._width = look, width
        self._theme = theme_named(look.theme)
        self._title = self._title_lines(title)
        self._bars = bars if look.color_bar else ()
        self._lines, n_more = _wrapped(entries if look.legend else (), width)
        self.left_out: tuple[str, ...] = ()
        if n_more:
            more = format_counted(n_more, "colour")
            self.left_out = (f"Not in the legend for lack of room: {more}.",)
        if look.height is not None:
            self._make_room(look.height_or(0.0) - _LEAST_BODY)
        self.top = self._snapped(self._title_height)
        self.bottom = self._snapped(self._foot_height)

    @property
    def _title_height(self) -> float:
        return sum(height for _, _, height in self._title)

    @property
    def _foot_height(self) -> float:
        n_lines = len(self._lines) + sum(self._bar_lines(bar) for bar in self._bars)
        return n_lines * _LINE_HEIGHT + 8 if n_lines else 0.0

    def _make_room(self, most: float) -> None:
        """Leave out what a low figure cannot hold besides its picture."""
        if self._title_height + self._foot_height > most and self._foot_height:
            self._lines, self._bars = [], ()
            self.left_out = ("This height has no room for a legend.",)
        if self._title_height > most:
            self._title = []

    def _title_lines(self, title: str) -> list[tuple[str, Face, float]]:
        """Return the text, face and height of each line: two where one is too long."""
        room = self._width - 2 * _PAD
        if not title:
            return []
        head, _, rest = title.partition(" · ")
        if not rest or text_width(title, Face.HEADING, _TITLE_SIZE) <= room:
            return [(title, Face.HEADING, _TITLE_HEIGHT)]
        return [(head, Face.HEADING, _TITLE_HEIGHT), (rest, Face.WORDS, _LINE_HEIGHT)]

    def _snapped(self, value: float) -> float:
        return ceil(value * self._look.scale - 1e-6) / self._look.scale

    def body_height(self, wanted: float) -> float:
        """Return the height of the picture in it: what is left, or what it wants."""
        if self._look.height is None:
            return self._snapped(wanted)
        whole = self._look.height_or(0.0)
        return whole - self.top - self.bottom

    def around(self, body: DisplayList) -> DisplayList:
        """Return the figure with `body` as its picture."""
        height = self.top + body.height + self.bottom
        whole = placed(
            self._width, height, body.scale, body.background, [(body, 0.0, self.top)]
        )
        texts, batches = TextList(), list[Batch]()
        y = 0.0
        for words, face, tall in self._title:
            size = _TITLE_SIZE if face is Face.HEADING else _SIZE
            texts.append(
                Text(_PAD, y + tall / 2, words, self._theme.text, size, face,
                     width=self._width - 2 * _PAD)
            )  # fmt: skip
            y += tall
        y = self.top + body.height + 4 + _LINE_HEIGHT / 2
        for line in self._lines:
            x = _PAD
            for entry in line:
                batches += _sign(entry, x, y, self._theme)
                x += _SWATCH + 5
                texts.append(Text(x, y, entry.label, self._theme.text, _SIZE))
                x += text_width(entry.label, Face.WORDS, _SIZE) + _GAP
            y += _LINE_HEIGHT
        for bar in self._bars:
            batches += self._bar_batches(bar, y, texts)
            y += self._bar_lines(bar) * _LINE_HEIGHT
        return DisplayList(
            whole.width, whole.height, whole.scale, whole.background,
            (*whole.batches, *batches, *texts.batch()),
            spots=whole.spots,
        )  # fmt: skip

    def _bar_room(self, bar: ColorBar) -> tuple[list[float], float]:
        """Return the widths of both ends in words, and what they leave of a line."""
        sides = [text_width(w, Face.NUMBERS, _SIZE) + 6 for w in (bar.low, bar.high)]
        return sides, self._width - 2 * _PAD - sum(sides)

    def _bar_lines(self, bar: ColorBar) -> int:
        """Return how many lines a scale takes: two where its title is long."""
        _, room = self._bar_room(bar)
        title_px = text_width(bar.title, Face.WORDS, _SIZE)
        return 1 if title_px + 10 + _LEAST_BAR_PX <= room else 2

    def _bar_batches(self, bar: ColorBar, y: float, texts: TextList) -> list[Batch]:
        """Return the colours of the scale; append its words to `texts`."""
        theme, x = self._theme, _PAD
        sides, room = self._bar_room(bar)
        title_px = text_width(bar.title, Face.WORDS, _SIZE)
        is_beside = self._bar_lines(bar) == 1
        most = room - 10 - _LEAST_BAR_PX if is_beside else self._width - 2 * _PAD
        texts.append(Text(x, y, bar.title, theme.text, _SIZE, width=max(most, 1.0)))
        if is_beside:
            x, room = x + title_px + 10, room - title_px - 10
        else:
            y += _LINE_HEIGHT
        wide = max(min(_BAR_PX, room), _LEAST_BAR_PX)
        texts.append(Text(x, y, bar.low, theme.text, _SIZE, Face.NUMBERS))
        x = round((x + sides[0]) * self._look.scale) / self._look.scale
        wide = round(wide * self._look.scale) / self._look.scale
        texts.append(Text(x + wide + 6, y, bar.high, theme.text, _SIZE, Face.NUMBERS))
        return [color_bar(x, y - 4, wide, 8.0, bar.colors)]


def framed(
    look: FigureStyle,
    name: str,
    compose: Callable[[float], DisplayList],
    *,
    width: float,
    wanted: float,
    entries: Sequence[Entry] = (),
    bars: Sequence[ColorBar] = (),
    description: str = "",
    left_out: Sequence[str] = (),
) -> RenderedFigure:
    """Return a figure in its frame.

    Parameters
    ----------
    name : its title where the look has none of its own.
    description : begins with what it shows, and of which trace.
    compose : returns the picture for a height, `width` wide.
    wanted : the height at which all of it fits.
    left_out : read after `compose`, which may add to it.
    """
    title = name if look.title is None else look.title
    frame = Frame(look, width, title=title, entries=entries, bars=bars)
    body = compose(frame.body_height(wanted))
    return RenderedFigure(
        frame.around(body),
        title or name,
        description,
        (*left_out, *frame.left_out),
        look.title or "",
    )


def _wrapped(entries: Sequence[Entry], width: float) -> tuple[list[list[Entry]], int]:
    """Return the lines of a legend, and how many entries have no place on them."""
    lines: list[list[Entry]] = []
    x = 0.0
    for number, entry in enumerate(entries):
        wide = _SWATCH + 5 + text_width(entry.label, Face.WORDS, _SIZE)
        if not lines or x + wide > width - _PAD:
            if len(lines) == _MOST_LINES:
                return lines, len(entries) - number
            lines.append([])
            x = _PAD
        lines[-1].append(entry)
        x += wide + _GAP
    return lines, 0


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
