"""LaneModel: which lanes are collapsed, hidden, pinned, moved and named."""

from PySide6.QtCore import QObject, Signal

from ggscope.analysis.rows.lanes import LaneState
from ggscope.session.bookmarks.bookmarks import MAX_NAME, clean_line
from ggscope.session.history import History


class LaneModel(QObject):
    """The lanes as the user arranged them, and requests about one of them.

    Attributes
    ----------
    state : LaneState, applied to the lanes of the trace by key.
    """

    changed = Signal(object)  # LaneState
    reveal_requested = Signal(object)  # lane key: scroll it into view
    name_requested = Signal(object)  # key of a lane or group: ask for its name

    def __init__(self, history: History, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = LaneState()
        self._history = history

    def set_state(self, state: LaneState, *, is_step: bool = True) -> None:
        """Arrange the lanes; `is_step` : the user did, and may go back."""
        if state == self.state:
            return
        self.state = state
        self.changed.emit(state)
        if not is_step:
            self._history.settle()

    def set_title(self, key: str, title: str) -> None:
        """Name a lane or group; "" gives it its own title back."""
        self.set_state(self.state.named(key, clean_line(title, MAX_NAME)))
