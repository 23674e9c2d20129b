"""CriticalPathModel: the critical path of the token of the selected span."""

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ggscope.session.current_trace import CurrentTrace
from ggscope.session.display import DisplayOptions
from ggscope.session.linking import Linking
from ggscope.session.selection import SelectionModel
from ggscope.session.tasks import Tasks

if TYPE_CHECKING:
    from ggscope.analysis.graph.token_path import TokenPath

_KEY = "critical path"


class CriticalPathModel(QObject):
    """The critical path of the token of the selected span, while it is shown.

    Attributes
    ----------
    path : None while it is not shown, no span is selected, or it is being computed.

    Signals
    -------
    changed(TokenPath | None) : another path, or none.
    status_message(str) : how long the path is, or why there is none.
    """

    changed = Signal(object)
    status_message = Signal(object)

    def __init__(
        self,
        current: CurrentTrace,
        selection: SelectionModel,
        linking: Linking,
        display: DisplayOptions,
        tasks: Tasks,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._current, self._selection = current, selection
        self._linking, self._display, self._tasks = linking, display, tasks
        self.path: TokenPath | None = None
        selection.settled.connect(self._on_selected)
        linking.correlation_changed.connect(self._update)
        display.overlays_changed.connect(self._on_selected)

    def _on_selected(self, _: object = None) -> None:
        """Look for another path, unless the span is of the same token."""
        path, span = self.path, self._span()
        is_same = path is not None and path.unknown is None and span is not None
        if not (is_same and path is not None and path.concerns(span)):
            self._update()

    def _span(self) -> int | None:
        """Return the span whose token is asked for; None = none."""
        selection = self._selection.current
        if not self._display.shows_critical_path or selection.table != "spans":
            return None
        return selection.active

    def _update(self, _: object = None) -> None:
        self._tasks.cancel(_KEY)
        trace, span = self._current.trace, self._span()
        if trace is None or trace.pending or span is None:
            self._publish(None)
            return
        # Imported late: few ever ask for it.
        from ggscope.analysis.graph.token_path import token_path

        request = partial(token_path, trace, span, self._linking.correlation)
        self._tasks.run(_KEY, request, self._on_path, title="Finding the critical path")

    def _on_path(self, path: "TokenPath") -> None:
        trace = self._current.trace
        self._publish(path)
        if trace is not None:
            from ggscope.descriptions.critical_path import path_text  # as above

            self.status_message.emit(path_text(trace, path))

    def _publish(self, path: "TokenPath | None") -> None:
        if path is not self.path:
            self.path = path
            self.changed.emit(path)
