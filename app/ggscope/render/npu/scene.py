"""Everything that the pictures of an NPU depend on, and where their rows lie."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, get_args

import numpy as np

from ggscope.analysis.npu.bandwidth import TOTAL
from ggscope.analysis.npu.facts import NpuFacts
from ggscope.analysis.npu.quantisation import OpBits
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import Clip
from ggscope.render.colors import ScaleKind
from ggscope.render.theme import Theme
from ggscope.render.timeline.scene import TimeScale

NpuChart = Literal["time", "addresses", "stalls", "bits", "traffic"]
CHARTS: tuple[NpuChart, ...] = get_args(NpuChart)
TIMED: tuple[NpuChart, ...] = ("time", "addresses")
"""Pictures with a time axis."""
LEFT = 132.0
"""Width of the labels at the left; the time axis begins there."""
AXIS_HEIGHT = 30.0
LABEL_SIZE = 10.5
MAX_ROWS = 256
"""Engines and banks that have a row each; of more the first ones."""


class RowKind(Enum):
    """What a row of the picture over time shows, and how high it is."""

    ENGINE = 20.0
    CHANNEL = 15.0
    PROFILE = 58.0
    BANK = 13.5
    HEAD = 21.0


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the picture over time.

    Attributes
    ----------
    number : engine, place of the channel, or bank.
    title : of a head; name of the engine, channel or bank.
    """

    kind: RowKind
    title: str
    number: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class NpuScene:
    """Everything that the pictures depend on.

    Attributes
    ----------
    chart : which picture it is.
    visible : ticks shown, the session's.
    scale_kind : of rates: linear or logarithmic.
    scroll : pixels that the rows are scrolled down, or bars that are.
    cursor_tick : where the hair line is, None = nowhere.
    marked : range to mark, None = none.
    hover : thing under the mouse: a row, a bar, or a point; -1 = none.
    selected : the same of what is selected.
    others, other_title : ops by bits of the run that it is compared with, and the
        name of that run.
    is_figure : whether the legend is in the frame of a figure.
    """

    trace: Trace
    facts: NpuFacts
    visible: TimeRange
    width: float
    height: float
    theme: Theme
    chart: NpuChart = "time"
    scale_kind: ScaleKind = ScaleKind.LINEAR
    scale: float = 1.0
    scroll: float = 0.0
    cursor_tick: int | None = None
    marked: TimeRange | None = None
    hover: int = -1
    selected: int = -1
    others: tuple[OpBits, ...] = field(default_factory=tuple)
    other_title: str = ""
    absolute: bool = False
    is_figure: bool = False


def rows_of(facts: NpuFacts) -> list[Row]:
    """Return the rows of the picture over time, from top to bottom."""
    rows: list[Row] = []
    engines, windows, memory = facts.engines, facts.bandwidth, facts.memory
    if len(engines):
        rows.append(Row(RowKind.HEAD, "Engines"))
        rows += [
            Row(RowKind.ENGINE, name, i)
            for i, name in enumerate(engines.names[:MAX_ROWS])
        ]
    if windows.channels:
        rows.append(Row(RowKind.HEAD, "DRAM bandwidth"))
        rows += [
            Row(RowKind.CHANNEL, channel.name, i)
            for i, channel in enumerate(windows.channels)
        ]
        names = [channel.name for channel in windows.channels]
        of = names.index(TOTAL) if TOTAL in names else 0
        rows.append(Row(RowKind.PROFILE, names[of], of))
    if memory.has_spm and memory.banks:
        rows.append(Row(RowKind.HEAD, "SPM banks"))
        rows += [
            Row(RowKind.BANK, f"bank {bank.number}", bank.number)
            for bank in memory.banks[:MAX_ROWS]
        ]
    return rows


def rows_height(facts: NpuFacts) -> float:
    """Return how high the picture over time is with all of its rows."""
    return AXIS_HEIGHT + sum(row.kind.value for row in rows_of(facts)) + 6


class NpuGeometry:
    """Where the parts of a picture with a time axis lie.

    Attributes
    ----------
    time : the scale of time.
    top, bottom : of the rows.
    begin, stop : int64[columns], ticks of each pixel column; at least one each.
    """

    __slots__ = ("_tops", "begin", "bottom", "rows", "scene", "stop", "time", "top")

    def __init__(self, scene: NpuScene) -> None:
        self.scene = scene
        left = min(LEFT, scene.width * 0.4)
        self.time = TimeScale(scene.visible, left, scene.width - 8, scene.scale)
        self.top = self.time.snap(AXIS_HEIGHT)
        self.bottom = max(self.time.snap(scene.height), self.top + 1 / scene.scale)
        edges = self.time.edges
        self.begin: I64 = edges[:-1]
        self.stop: I64 = np.maximum(edges[1:], self.begin + 1)
        self.rows = rows_of(scene.facts)
        heights = [row.kind.value for row in self.rows]
        self._tops = self.top - scene.scroll + np.concatenate([[0], np.cumsum(heights)])

    @property
    def max_scroll(self) -> float:
        """How far the rows can be scrolled."""
        return max(rows_height(self.scene.facts) - self.scene.height, 0.0)

    @property
    def clip(self) -> Clip:
        """Where rows are drawn."""
        x, width = self.time.x0, self.time.x1 - self.time.x0
        return Clip(x, self.top, width, self.bottom - self.top)

    @property
    def row_clip(self) -> Clip:
        """The same, with the labels at the left."""
        return Clip(0, self.top, self.scene.width, self.bottom - self.top)

    def seen(self) -> Iterator[tuple[Row, float, float]]:
        """Yield each row that can be seen, with its top and bottom, snapped."""
        for row, y0, y1 in zip(self.rows, self._tops[:-1], self._tops[1:], strict=True):
            if y1 > self.top and y0 < self.bottom:
                yield row, self.time.snap(float(y0)), self.time.snap(float(y1))

    def row_at(self, x: float, y: float) -> int:
        """Return the number of the row at a position; -1 = none, or a head."""
        if not (self.top <= y < self.bottom and 0 <= x <= self.time.x1):
            return -1
        at = int(np.searchsorted(self._tops, y, "right")) - 1
        is_row = 0 <= at < len(self.rows) and self.rows[at].kind is not RowKind.HEAD
        return at if is_row else -1

    def span_of(self, row: int) -> tuple[float, float]:
        """Return top and bottom of a row."""
        return float(self._tops[row]), float(self._tops[row + 1])

    def tick_at(self, x: float) -> int | None:
        """Return the tick at a position; None at the labels."""
        return self.time.tick(x) if self.time.x0 <= x <= self.time.x1 else None
