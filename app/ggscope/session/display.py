"""Display options: how a trace is drawn, whatever part of it is shown."""

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.rows.colorings import (
    PLAIN_COLORINGS,
    available_colorings,
    default_coloring,
)
from ggscope.model.selection import ColorBy
from ggscope.model.trace import Trace


class DisplayOptions(QObject):
    """Colouring, clock and overlays. A setter of the same value emits no signal.

    Attributes
    ----------
    color_by : what spans are coloured by.
    colorings : what spans of the present trace can be coloured by.
    absolute_time : whether times are shown on the file's own clock.
    shows_stalls : whether stalls are hatched over the lanes that they hold up.
    shows_waits : whether the waits behind ops are drawn.
    shows_critical_path : whether the critical path of the selected span's token is
        highlighted.
    shows_arrows : whether arrows lead to the selected op from what it reads, and from
        it to who reads its result.
    """

    color_by_changed = Signal(object)  # ColorBy
    absolute_time_changed = Signal(object)  # bool
    overlays_changed = Signal()  # one of `shows_…`

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.color_by: ColorBy = "family"
        self._is_chosen = False
        self.colorings: tuple[ColorBy, ...] = PLAIN_COLORINGS
        self.absolute_time = False
        self.shows_stalls = True
        self.shows_waits = True
        self.shows_arrows = True
        self.shows_critical_path = False

    def set_trace(self, trace: Trace) -> None:
        """Offer the colourings of `trace`; one that it lacks gives way to the default.

        So does one that nobody has chosen.
        """
        self.colorings = available_colorings(trace)
        if not self._is_chosen or self.color_by not in self.colorings:
            self._use_coloring(default_coloring(trace))

    def set_color_by(self, by: ColorBy) -> None:
        """Colour spans by something else; by what the trace lacks does nothing."""
        if by in self.colorings:
            self._is_chosen = True
            self._use_coloring(by)

    def _use_coloring(self, by: ColorBy) -> None:
        if by != self.color_by:
            self.color_by = by
            self.color_by_changed.emit(by)

    def set_absolute_time(self, is_absolute: bool) -> None:
        """Show times on the file's clock, or since the trace's start."""
        if is_absolute != self.absolute_time:
            self.absolute_time = is_absolute
            self.absolute_time_changed.emit(is_absolute)

    def set_shows_stalls(self, shows: bool) -> None:
        """Show stalls over their lanes, or leave them out."""
        if shows != self.shows_stalls:
            self.shows_stalls = shows
            self.overlays_changed.emit()

    def set_shows_waits(self, shows: bool) -> None:
        """Draw the waits behind ops, or leave them out."""
        if shows != self.shows_waits:
            self.shows_waits = shows
            self.overlays_changed.emit()

    def set_shows_arrows(self, shows: bool) -> None:
        """Draw the arrows of the selected op, or leave them out."""
        if shows != self.shows_arrows:
            self.shows_arrows = shows
            self.overlays_changed.emit()

    def set_shows_critical_path(self, shows: bool) -> None:
        """Highlight the critical path of the selected span's token, or leave it out."""
        if shows != self.shows_critical_path:
            self.shows_critical_path = shows
            self.overlays_changed.emit()
