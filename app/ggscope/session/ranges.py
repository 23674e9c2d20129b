"""RangeModel: the marked range, and the range that table and statistics list."""

from PySide6.QtCore import QObject, Signal

from ggscope.model.selection import MarkedRange, Selection
from ggscope.session.selection import SelectionModel
from ggscope.session.viewport import Viewport


class RangeModel(QObject):
    """The range marked by dragging, and the one that lists are limited to.

    Attributes
    ----------
    marked : the range marked by dragging, or None.
    is_marked_last : whether it was marked after what is selected was selected.
    is_limited : whether table and statistics are about `listed` alone, or about all.
    """

    marked_changed = Signal(object)  # MarkedRange | None
    limited_changed = Signal(object)  # bool
    pin_changed = Signal(object)  # bool: see `is_pinned`

    def __init__(
        self,
        viewport: Viewport,
        selection: SelectionModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.marked: MarkedRange | None = None
        self.is_marked_last = False
        self.is_limited = True
        self._viewport = viewport
        self._selection = selection
        self._pinned: tuple[MarkedRange | None] | None = None
        self._was_pinned = False
        viewport.about_to_move.connect(self._on_about_to_move)
        viewport.settled.connect(self._publish_pinned)
        selection.changed.connect(self._on_selection)

    def set_marked(self, marked: MarkedRange | None) -> None:
        """Mark a range."""
        if marked == self.marked:
            return
        self.marked = marked
        self.is_marked_last = marked is not None
        self.unpin()
        self.marked_changed.emit(marked)

    def set_limited(self, is_limited: bool) -> None:
        """List and count what lies in `listed`, or everything."""
        if is_limited != self.is_limited:
            self.is_limited = is_limited
            self.unpin()
            self.limited_changed.emit(is_limited)

    @property
    def listed(self) -> MarkedRange | None:
        """What table and statistics are about: the marked range, else the visible one.

        None = all of the trace: because that is asked for, or is what is visible. For
        what was visible before, see `is_pinned`.
        """
        extent, visible = self._viewport.extent, self._viewport.visible
        if extent is None or not self.is_limited:
            return None
        if self.marked is not None:
            return self.marked
        if self._pinned is not None:
            return self._pinned[0]
        # An instant at the very end is in sight too.
        if visible.start <= extent.start and extent.end <= visible.end:
            return None
        return MarkedRange(visible)

    @property
    def is_pinned(self) -> bool:
        """Whether `listed` stays though something else is visible.

        So it does once the view has moved to what was chosen in a list, until it is
        moved to anything else: else going to a row would take the other rows away.
        """
        return self._pinned is not None

    def unpin(self) -> None:
        """Let `listed` be what is visible again."""
        self._pinned = None
        self._publish_pinned()

    def _on_about_to_move(self, to_selection: bool) -> None:
        if not to_selection:
            self._pinned = None
        elif self._selection.is_listed and self._pinned is None and self.marked is None:
            self._pinned = (self.listed,)

    def _publish_pinned(self, _: object = None) -> None:
        if self.is_pinned != self._was_pinned:
            self._was_pinned = self.is_pinned
            self.pin_changed.emit(self.is_pinned)

    def _on_selection(self, selection: Selection) -> None:
        if selection:
            self.is_marked_last = False
