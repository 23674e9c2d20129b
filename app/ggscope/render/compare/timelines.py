"""Two timelines under one zoom, A above B, by the composer of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneLayout
from ggscope.model.selection import ColorBy, Selection
from ggscope.model.units import TimeRange
from ggscope.render.batch import Align, DisplayList, Face, RectList, Text, TextList
from ggscope.render.colors import Entry
from ggscope.render.compare.charts import side_color
from ggscope.render.grid import placed
from ggscope.render.theme import Theme, mix
from ggscope.render.timeline.compose import compose_timeline, figure_legend
from ggscope.render.timeline.scene import (
    AXIS_HEIGHT,
    HEADER_WIDTH,
    HighlightedSpans,
    TimelineScene,
    TimeScale,
    time_scale,
)

STRIP_PX = 20.0
"""Height of the line above each timeline of a figure that says which run it is; on the
screen that stands beside the axis."""
_MIN_PX = AXIS_HEIGHT + 24.0


@dataclass(frozen=True, slots=True, eq=False)
class TimelineSide:
    """One of two timelines.

    Attributes
    ----------
    title : name of the run.
    scroll_y : how far its lanes are scrolled.
    selection, highlighted, hover_span, waiting : as of a `TimelineScene`.
    """

    index: TraceIndex
    layout: LaneLayout
    title: str
    scroll_y: float = 0.0
    selection: Selection = field(default_factory=Selection)
    highlighted: HighlightedSpans | None = None
    hover_span: int = -1
    waiting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class TimelinesScene:
    """Everything that a picture of two timelines depends on.

    Attributes
    ----------
    visible : range of A's clock.
    offset : ticks; what A shows at t, B shows at t + offset.
    aligned : by what they are aligned, in words.
    cursor_tick : time of A's clock at which both have a hair line; None = nowhere.
    """

    a: TimelineSide
    b: TimelineSide
    visible: TimeRange
    offset: int
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    aligned: str = ""
    header_width: float = HEADER_WIDTH
    color_by: ColorBy = "family"
    cursor_tick: int | None = None
    shows_waits: bool = True
    is_figure: bool = False

    @property
    def visible_b(self) -> TimeRange:
        """The range that B shows, of its own clock."""
        return TimeRange(
            self.visible.start + self.offset, self.visible.end + self.offset
        )

    @property
    def time(self) -> TimeScale:
        """Where A's times lie."""
        return time_scale(self.visible, self.width, self.header_width, self.scale)


@dataclass(frozen=True, slots=True)
class SidePlace:
    """Where a timeline lies in the picture: `top` of its line, `height` with it."""

    top: float
    height: float
    strip: float

    @property
    def axis(self) -> float:
        """Top of the axis."""
        return self.top + self.strip

    @property
    def lanes(self) -> float:
        """Top of the lanes."""
        return self.axis + AXIS_HEIGHT

    @property
    def content_height(self) -> float:
        """Height of the lanes in view."""
        return max(self.height - self.strip - AXIS_HEIGHT, 0.0)


def side_places(scene: TimelinesScene) -> tuple[SidePlace, SidePlace]:
    """Return where A and B lie: half the height each, unless one needs less."""
    strip = STRIP_PX if scene.is_figure else 0.0
    needs = [
        strip + AXIS_HEIGHT + side.layout.height + 2 for side in (scene.a, scene.b)
    ]
    half = scene.height / 2
    first = min(needs[0], max(half, scene.height - needs[1]))
    first = min(max(first, _MIN_PX), max(scene.height - _MIN_PX, half))
    first = round(first * scene.scale) / scene.scale
    rest = max(scene.height - first, 1.0)
    first = max(first, 1.0)
    return SidePlace(0.0, first, strip), SidePlace(first, rest, strip)


def side_scenes(scene: TimelinesScene) -> tuple[TimelineScene, TimelineScene]:
    """Return the scenes of both timelines, without the lines above them."""
    scenes = []
    cursor = scene.cursor_tick
    for side, place, visible, shift in zip(
        (scene.a, scene.b), side_places(scene), (scene.visible, scene.visible_b),
        (0, scene.offset), strict=True,
    ):  # fmt: skip
        scenes.append(
            TimelineScene(
                index=side.index, layout=side.layout, visible=visible,
                width=scene.width, height=max(place.height - place.strip, 1.0),
                theme=scene.theme, scale=scene.scale, scroll_y=side.scroll_y,
                header_width=scene.header_width, color_by=scene.color_by,
                selection=side.selection, highlighted=side.highlighted,
                hover_span=side.hover_span,
                cursor_tick=None if cursor is None else cursor + shift,
                show_waits=scene.shows_waits, is_figure=scene.is_figure,
                waiting=side.waiting,
            )
        )  # fmt: skip
    return scenes[0], scenes[1]


def compose_timelines(scene: TimelinesScene) -> DisplayList:
    """Return the picture: each timeline as the timeline's own view draws it."""
    parts: list[tuple[DisplayList, float, float]] = []
    for name, side, place, lanes in zip(
        "AB", (scene.a, scene.b), side_places(scene), side_scenes(scene), strict=True
    ):
        parts.append((compose_timeline(lanes), 0.0, place.axis))
        make = _strip if scene.is_figure else _corner
        parts.append((make(scene, name, side), 0.0, place.top))
    background = parts[0][0].background
    return placed(scene.width, scene.height, scene.scale, background, parts)


def _corner(scene: TimelinesScene, name: str, side: TimelineSide) -> DisplayList:
    """Return which run it is, beside the axis; a line distinguishes B from A."""
    theme, ground, texts = scene.theme, RectList(), TextList()
    width, bottom = scene.header_width, AXIS_HEIGHT - 1 / scene.scale
    ground.add(0, width, 0, bottom, mix(theme.pane, theme.text, 0.06))
    color = side_color(theme, is_b=name == "B")
    if name == "B":
        ground.add(0, scene.width, 0, 2 / scene.scale, color)
    middle = AXIS_HEIGHT / 2
    texts.append(Text(10, middle, name, color, 12, Face.HEADING))
    title = side.title
    if word := side.index.trace.clock.axis_word:
        title += f", {word}"
    texts.append(Text(26, middle, title, theme.text, 11.5, width=max(width - 32, 1.0)))
    batches = (*ground.batch(), *texts.batch())
    return DisplayList(scene.width, AXIS_HEIGHT, scene.scale, theme.pane, batches)


def _strip(scene: TimelinesScene, name: str, side: TimelineSide) -> DisplayList:
    """Return the line above a timeline: which run it is, and how B is aligned."""
    theme, texts = scene.theme, TextList()
    middle = STRIP_PX / 2
    color = side_color(theme, is_b=name == "B")
    texts.append(Text(10, middle, name, color, 12, Face.HEADING))
    right = scene.aligned if name == "B" else ""
    space = scene.width * (0.5 if right else 1.0) - 40
    texts.append(Text(28, middle, side.title, theme.text, 11.5, width=max(space, 1.0)))
    if right:
        texts.append(
            Text(scene.width - 10, middle, right, theme.dim, 11, align=Align.RIGHT,
                 width=max(scene.width * 0.5 - 20, 1.0))
        )  # fmt: skip
    return DisplayList(
        scene.width, STRIP_PX, scene.scale, theme.pane, tuple(texts.batch())
    )


def timelines_legend(scene: TimelinesScene) -> list[Entry]:
    """Return the legend of the figure: what colours of both mean."""
    entries: list[Entry] = []
    for lanes in side_scenes(replace(scene, is_figure=True)):
        entries += [one for one in figure_legend(lanes) if one not in entries]
    return entries


def whole_range(scene_ranges: Sequence[TimeRange], offset: int) -> TimeRange:
    """Return the range of A's clock that holds all of A and of B."""
    a, b = scene_ranges
    return TimeRange(min(a.start, b.start - offset), max(a.end, b.end - offset))
