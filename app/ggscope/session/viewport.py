"""Viewport: the visible time range of a trace, and the tick under the mouse."""

from PySide6.QtCore import QObject, Signal

from ggscope.model.units import TimeRange
from ggscope.session import time_ranges


class Viewport(QObject):
    """The visible range. A setter of the same value emits no signal.

    Attributes
    ----------
    visible : the ticks that pictures show; at least 16 of them.
    extent : of the trace; None without one, and then nothing moves.
    anchor : the tick that zooming keeps in its place, where a program is followed.
    moves_by : ticks per second by which the visible range scrolls by itself, with a
        program that is followed; 0 = it stands, or the speed is unknown.
    wheel_zooms : whether the plain mouse wheel zooms time instead of scrolling lanes.
    is_held : whether a mouse button is down in a picture: the range does not scroll.

    Signals
    -------
    about_to_move(bool) : whether to what is selected; `visible` is still the old range.
    changed(TimeRange) : another range is visible.
    settled(TimeRange) : all receivers of `changed` have run.
    """

    about_to_move = Signal(object)
    changed = Signal(object)
    settled = Signal(object)
    cursor_changed = Signal(object)  # tick under the mouse | None
    held_changed = Signal(object)  # bool

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.visible = TimeRange(0, time_ranges.MIN_TICKS)
        self.extent: TimeRange | None = None
        self.anchor: int | None = None
        self.moves_by = 0
        self.wheel_zooms = False
        self.is_held = False
        self._cursor: int | None = None

    @property
    def bounds(self) -> TimeRange:
        """How far one can pan: the extent, padded."""
        return time_ranges.bounds(self._extent)

    @property
    def fitted(self) -> TimeRange:
        """The range that shows the whole trace."""
        return time_ranges.fitted(self._extent)

    @property
    def middle(self) -> int:
        """The tick in the middle of the visible range."""
        return self.visible.start + self.visible.duration // 2

    def set_visible(self, visible: TimeRange, *, to_selection: bool = False) -> None:
        """Show this range, moved into the bounds and at least 16 ticks wide.

        Parameters
        ----------
        to_selection : to show what is selected; see `RangeModel.is_pinned`.
        """
        if self.extent is None:
            return
        visible = time_ranges.clamped(visible, self.bounds)
        if visible == self.visible:
            return
        self.about_to_move.emit(to_selection)
        self.visible = visible
        self.changed.emit(visible)
        self.settled.emit(visible)

    def zoom(self, factor: float, centre_tick: int | None = None) -> None:
        """Make the range `factor` times as wide; < 1 zooms in.

        The point at `centre_tick` stays where it is; without one it is the
        point under the mouse, else the middle. Of a program that is followed it is now.
        """
        if self.anchor is not None:
            centre_tick = self.anchor
        elif centre_tick is None:
            centre_tick = self._cursor
        self.set_visible(
            time_ranges.zoomed(self.visible, factor, centre_tick, self.bounds)
        )

    def pan(self, share: float) -> None:
        """Move the range by `share` of its width; > 0 is later."""
        self.set_visible(self.visible.shifted(round(self.visible.duration * share)))

    def fit(self) -> None:
        """Show the whole trace."""
        self.set_visible(self.fitted)

    def show_end(self) -> None:
        """Pan to the end of the trace."""
        if self.extent is not None:
            end = self.extent.end
            self.set_visible(TimeRange(end - self.visible.duration, end))

    def bring_into_view(self, time: TimeRange) -> None:
        """Pan so that `time`, which is selected, can be seen, where it cannot yet."""
        if not time_ranges.shows(self.visible, time):
            self.set_visible(time_ranges.centred(self.visible, time), to_selection=True)

    @property
    def cursor_tick(self) -> int | None:
        """The tick under the mouse in a time view; None when it has left."""
        return self._cursor

    @cursor_tick.setter
    def cursor_tick(self, tick: int | None) -> None:
        if tick != self._cursor:
            self._cursor = tick
            self.cursor_changed.emit(tick)

    def hold(self, is_held: bool) -> None:
        """Stop scrolling while a mouse button is down, or go on."""
        if is_held != self.is_held:
            self.is_held = is_held
            self.held_changed.emit(is_held)

    @property
    def _extent(self) -> TimeRange:
        return TimeRange(0, 0) if self.extent is None else self.extent
