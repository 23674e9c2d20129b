"""SummaryBar: what limits the run, in one line beside the tabs.

It is shown while no pane shows the summary. There it takes no height from the panes, so
that nothing moves when it comes and goes.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QEnterEvent, QFontMetrics, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.safe_text import set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    draw_elided,
    mono_font,
    qcolor,
    scaled,
    ui_font,
)

if TYPE_CHECKING:
    from ggscope.views.base.summary_panel import LoadedSummary

_TASK = "summary-bar"
_UPDATE_MS = 1000
"""While a program runs, the line is computed anew this long after the last one."""
_HEIGHT, _MARGIN, _GAP = 26, 10, 16
_MIN_WIDTH = 160
"""Where many tabs leave less, no word could be read."""
_MIN_TEXT_SHARE = 0.6
"""The figure at the right is left out where the sentence had less of the width."""


@guarded
class SummaryBar(QAbstractButton):
    """A line that leads to the summary; the tooltip has what is cut.

    Parameters
    ----------
    is_needed : returns whether no pane shows the summary now.
    """

    def __init__(
        self,
        session: Session,
        theme: Theme,
        is_needed: Callable[[], bool],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("summary_bar")
        self._session, self._theme, self._is_needed = session, theme, is_needed
        self._of: Trace | None = None
        self._is_front = False
        self._figure = ""
        policy = QSizePolicy.Policy
        self.setSizePolicy(policy.Expanding, policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._later = QTimer(self, singleShot=True, interval=_UPDATE_MS)
        self._later.timeout.connect(self.refresh)
        session.trace_changed.connect(self._on_trace_changed)
        self.hide()

    @property
    def figure(self) -> str:
        """The speed that stands at the right, "" where it is not known."""
        return self._figure

    def set_front(self, is_front: bool) -> None:
        """Say whether its trace is that of the tab in front."""
        self._is_front = is_front
        self.refresh()

    def refresh(self, _: object = None) -> None:
        """Show the line of the trace that there is, or hide it."""
        trace = self._session.trace
        has_run = trace is not None and len(trace.spans) > 0
        is_shown = has_run and self._is_front and self._is_needed()
        self.setVisible(is_shown)
        if trace is None or not is_shown or trace is self._of:
            return
        if trace.is_partial or trace.awaits_files:
            self._show_text("Still reading…", "")
            return
        is_first = self._of is None
        self._of = trace
        if is_first:
            self._show_text("Computing the summary…", "")
        # Not before the first window: it imports all that a summary rests on.
        from ggscope.views.base.summary_panel import load_summary

        request = partial(load_summary, trace)
        self._session.tasks.run(_TASK, request, partial(self._show, trace))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.update()

    def release(self) -> None:
        """Compute nothing any more, and leave the row of tabs."""
        self._later.stop()
        self._session.tasks.cancel(_TASK)
        self._is_front = False
        self.hide()
        self.deleteLater()

    def sizeHint(self) -> QSize:
        """Return the height of a line, at any width."""
        return QSize(0, scaled(_HEIGHT))

    def minimumSizeHint(self) -> QSize:
        """Return the height of a line; its text may be cut."""
        return self.sizeHint()

    # -- reactions ---------------------------------------------------------

    def _on_trace_changed(self, _: object) -> None:
        """Follow a running program now and then, everything else at once."""
        trace = self._session.trace
        if trace is None or not trace.is_running or self._of is None:
            self.refresh()
        elif not self._later.isActive():
            self._later.start()

    def _show(self, trace: Trace, loaded: "LoadedSummary") -> None:
        if trace is self._of:
            from ggscope.descriptions.summary import bottleneck_line, headline

            facts, sections = loaded
            self._show_text(bottleneck_line(facts), headline(sections))

    def _show_text(self, text: str, figure: str) -> None:
        self.setText(text)
        self._figure = figure
        self.setAccessibleName(f"Summary: {text}")
        self.setAccessibleDescription(figure)
        set_tip(self, "\n".join(filter(None, (text, figure, "Show the Summary"))))
        self.update()

    # -- painting and keys -------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the sentence, and the figure at its right."""
        del event
        if self.width() < scaled(_MIN_WIDTH):
            return
        painter = QPainter(self)
        self._paint(painter)
        painter.end()

    def _paint(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(qcolor(theme.raised if self.underMouse() else theme.pane))
        radius = scaled(6)
        painter.drawRoundedRect(self.rect(), radius, radius)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(qcolor(theme.accent))
            edge = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
            painter.drawRoundedRect(edge, radius, radius)
        left, right = self._boxes()
        draw_elided(painter, left, self.text(), ui_font(12), theme.text,
                    Qt.TextElideMode.ElideRight)  # fmt: skip
        draw_elided(painter, right, self._figure, mono_font(12), theme.dim)

    def _boxes(self) -> tuple[QRect, QRect]:
        """Return where the sentence and the figure are; the second may be empty."""
        margin = scaled(_MARGIN)
        whole = self.rect().adjusted(margin, 0, -margin, 0)
        width = QFontMetrics(mono_font(12)).horizontalAdvance(self._figure) + 1
        rest = whole.width() - width - scaled(_GAP)
        needs = QFontMetrics(ui_font(12)).horizontalAdvance(self.text())
        if not self._figure or rest < min(needs, _MIN_TEXT_SHARE * whole.width()):
            return whole, QRect()
        left = QRect(whole.x(), 0, rest, whole.height())
        return left, QRect(left.right() + scaled(_GAP), 0, width, whole.height())

    def enterEvent(self, event: QEnterEvent) -> None:
        """Light the line."""
        super().enterEvent(event)
        self.update()

    def leaveEvent(self, event: QEvent) -> None:
        """Light nothing."""
        super().leaveEvent(event)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open the summary by Enter too, as links do."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)
