"""Summary: how fast a run is, what takes the time, and what limits it."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QStackedLayout, QVBoxLayout, QWidget

from ggscope.analysis.model_tensors import is_model_alone
from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.base.cells import TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.summary_panel import SUMMARY_TASK, SummaryPanel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import EmptyState, lay_out

_TASK = f"{SUMMARY_TASK}-view"
_TITLES = ("section", "figure", "value")


class SummaryView(Copyable, View):
    """The summary of the trace in a pane of its own."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.setAccessibleName("Summary")
        self._empty = EmptyState(self)
        self.panel = SummaryPanel(session, _TASK, self)
        content = QWidget(self)
        content.setObjectName("summary_content")
        lay_out(QVBoxLayout(content), self.panel, None, margins=(12, 12, 12, 12))
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(content)
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._scroll)
        self.set_theme(theme)
        self.connect_until_release((session.trace_changed, self._show))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self._empty.set_theme(theme)
        self.panel.set_theme(theme)
        self.setStyleSheet(
            f"QScrollArea, #summary_content {{ background: {css(theme.pane)}; }}"
            " QLabel { background: transparent; }"
        )
        self._show()

    def release(self) -> None:
        """Cancel what is computed."""
        super().release()
        self.panel.cancel()

    def _show(self, _: object = None) -> None:
        trace = self.session.trace
        if trace is None or not (len(trace.spans) or is_model_alone(trace)):
            self._empty.say("No spans to summarise", "")
            self._stack.setCurrentWidget(self._empty)
            return
        self.panel.show_trace(trace)
        self._stack.setCurrentWidget(self._scroll)

    # -- copying ---------------------------------------------------------------

    def table_file(self) -> TableFile | None:
        """Return all lines for a file."""
        return TableFile.of("summary", _TITLES, self.panel.rows())
