"""SummaryPanel: the summary of a session's trace, computed on a worker."""

from functools import partial

from PySide6.QtCore import QRect
from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.model_tensors import is_model_alone
from ggscope.analysis.summary.machine import peak_of
from ggscope.analysis.summary.summary import Summary, summary
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.summary import (
    SummarySection,
    Target,
    bottleneck_name,
    bottleneck_text,
    summary_sections,
    unknown_lines,
)
from ggscope.model.selection import MarkedRange, SpanGroup
from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.time_ranges import with_air
from ggscope.views.base.safe_text import Label
from ggscope.views.base.summary_list import SummaryList
from ggscope.views.base.widgets import Disclosure, lay_out, set_label_color, ui_font

LoadedSummary = tuple[Summary, tuple[SummarySection, ...]]
SUMMARY_TASK = "summary"
SYNC_SPANS = 50_000
"""In traces up to this size the summary is computed on the main thread."""
_loaded: DerivedCache[Trace, LoadedSummary] = DerivedCache("summary")


class SummaryPanel(QWidget):
    """Bottleneck, sections of figures, and what the trace does not state.

    Parameters
    ----------
    task : key of the job, different for each panel of a session.
    """

    def __init__(
        self, session: Session, task: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._task = session, task
        self._of: Trace | None = None
        self.result: Summary | None = None
        self.lines = SummaryList(self)
        self.unknown = Disclosure("Not known", self)
        self._reasons = Label(parent=self)
        self._reasons.setFont(ui_font(12))
        self._reasons.setWordWrap(True)
        self.unknown.set_content(self._reasons)
        self.lines.chosen.connect(self._on_chosen)
        self.lines.reached.connect(self._on_reached)
        lay_out(QVBoxLayout(self), self.lines, self.unknown, spacing=4)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.lines.set_theme(theme)
        self.unknown.set_theme(theme)
        set_label_color(self._reasons, theme.dim)

    def show_trace(self, trace: Trace) -> None:
        """Show the summary of a trace, once all of it is read."""
        if trace.is_partial or trace.awaits_files:
            self.wait_for("Still reading…")
            return
        if trace is self._of:
            return
        self._of, self.result = trace, None
        load = partial(load_summary, trace)
        if len(trace.spans) <= SYNC_SPANS:
            self._show(trace, load(None))
            return
        self.lines.set_message("Computing the summary…")
        self.unknown.setVisible(False)
        self._session.tasks.run(self._task, load, partial(self._show, trace))

    def wait_for(self, message: str) -> None:
        """Show why there is no summary yet."""
        self._of = self.result = None
        self.cancel()
        self.lines.set_message(message)
        self.unknown.setVisible(False)

    def cancel(self) -> None:
        """Compute nothing any more."""
        self._session.tasks.cancel(self._task)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return section, title and value of all lines, to copy them."""
        return self.lines.texts()

    def _show(self, trace: Trace, loaded: LoadedSummary) -> None:
        if trace is not self._of:
            return
        facts, sections = loaded
        self.result = facts
        name = bottleneck_name(facts)
        is_cause = name is None or (facts.cause and name == facts.cause.value)
        if name is None:
            name = "no bottleneck known"
            if is_model_alone(trace):
                name = "model without a run"
        self.lines.set_summary(
            trace,
            f"{name[:1].upper()}{name[1:]}" if is_cause else name,
            bottleneck_text(facts, under_name=True),
            sections,
            facts.tokens.bars,
        )
        reasons = unknown_lines(facts)
        self._reasons.setText("\n".join(reasons))
        self.unknown.setVisible(bool(reasons))
        self.updateGeometry()

    def _on_reached(self, rect: QRect) -> None:
        """Scroll to the line that keys are on."""
        area = self.parentWidget()
        while area is not None and not isinstance(area, QScrollArea):
            area = area.parentWidget()
        if area is not None and (content := area.widget()) is not None:
            place = self.lines.mapTo(content, rect.center())
            area.ensureVisible(place.x(), place.y(), 0, rect.height())

    def _on_chosen(self, target: Target) -> None:
        """Go where a line leads."""
        session = self._session
        if target.span is not None:
            session.selection.select_span(target.span)
            session.navigator.fit_selection()
        elif target.time is not None:
            session.ranges.set_marked(MarkedRange(target.time))
            session.viewport.set_visible(with_air(target.time))
        elif target.group is not None:
            session.selection.select_group(SpanGroup(*target.group))
        elif target.view:
            session.navigator.view_requested.emit(target.view)


def load_summary(trace: Trace, watcher: Watcher | None) -> LoadedSummary:
    """Return the facts of a trace and their lines, computed once for all panes."""
    peak = peak_of(trace)
    known = _loaded.get(trace)
    if known is not None and known[0].peak == peak:
        return known
    facts = summary(trace, peak=peak, watcher=watcher)
    loaded = _loaded[trace] = facts, summary_sections(trace, facts)
    return loaded
