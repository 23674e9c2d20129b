"""The base of all tracks, and the track of a lane."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneBox, TimelineLane
from ggscope.model.selection import ColorBy
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.timeline.rows import RowStyle
from ggscope.sanitize import Html, html

if TYPE_CHECKING:
    from ggscope.render.timeline.hit_test import Hit
    from ggscope.render.timeline.lanes import LanesDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class TooltipContext:
    """What tooltips depend on besides their lane.

    Attributes
    ----------
    trace : as the session has it; `index` is that of the picture.
    ticks_per_px : time that a pixel stands for.
    time : range of which utilisation is shown, and `time_title` what it is called.
    absolute : whether times are written as times of day.
    shows_waits : whether waits are shown.
    """

    trace: Trace
    index: TraceIndex
    color_by: ColorBy
    ticks_per_px: float
    time: TimeRange
    time_title: str
    absolute: bool
    shows_waits: bool


class Track(ABC):
    """What a lane draws, what lies under the mouse on it, and its tooltips.

    What a click selects, what Details shows and what the context menu offers follow
    from `hit`: a span, a wait behind a span, or a gap that can be marked.

    Attributes
    ----------
    style : how the spans of its rows are drawn; None where it has none.
    """

    style: ClassVar[RowStyle | None] = None

    def __init__(self, lane: TimelineLane) -> None:
        self.lane = lane

    @property
    def has_plain_rows(self) -> bool:
        """Whether it draws rows of spans alone, which are placed once for all times."""
        return False

    @abstractmethod
    def compose(self, draft: "LanesDraft", box: LaneBox, y: float) -> None:
        """Draw what lies on `box`, whose top is at `y` of the picture."""

    def note(self, trace: Trace) -> str:
        """Return the dim text at the right of the header; "" = none."""
        return ""

    def axis_labels(self, trace: Trace) -> tuple[str, str] | None:
        """Return highest and lowest value of its own axis; None = it has none."""
        return None

    def is_always_zero(self, trace: Trace) -> bool:
        """Return whether figures leave the lane out: it shows nothing but zeros."""
        return False

    @property
    def shows_use(self) -> bool:
        """Whether the header shows how busy the lane is."""
        return self.lane.track.is_work and self.lane.n_spans > 0

    def hit(
        self,
        index: TraceIndex,
        box: LaneBox,
        row: int,
        tick: int,
        ticks_per_px: float,
        *,
        has_waits: bool,
    ) -> "Hit":
        """Return what lies at a time of a row; `has_waits`: whether waits are shown."""
        from ggscope.render.timeline.hit_test import Hit  # which imports this module

        return Hit(tick, box, row)

    def tooltip(self, context: TooltipContext, hit: "Hit") -> Html:
        """Return the tooltip of a hit on the lane; "" = that of markers nearby."""
        return Html()

    def header_lines(self, context: TooltipContext, title: str) -> list[Html]:
        """Return the lines of the header's tooltip; `title` is the displayed one."""
        lines = [html("<b>{}</b>", title)]
        if title != self.lane.title:
            lines.append(html("name in the file: {}", self.lane.title))
        return lines


@cache
def _track_class(target: str) -> type[Track]:
    """Import the module of ``module:name`` and return the class."""
    module, _, name = target.partition(":")
    track: type[Track] = getattr(import_module(f"{__package__}.{module}"), name)
    return track


def track_of(lane: TimelineLane) -> Track:
    """Return the track of a lane."""
    return _track_class(lane.track.track)(lane)
