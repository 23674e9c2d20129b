"""Details: everything known of the selected entity, and its record in the file."""

from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QFrame,
    QScrollArea,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.links import Linked
from ggscope.descriptions.files import producer_facts, stated_facts
from ggscope.descriptions.live import live_facts
from ggscope.descriptions.spans import Fact, access_line, record_fact
from ggscope.descriptions.tensors import model_facts
from ggscope.entities.durations import DurationStats
from ggscope.entities.entity import Entity, EntityStats, Operands, RelatedGroup
from ggscope.entities.registry import entity_of
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.base.cells import (
    CopyForm,
    TableFile,
    to_markdown,
)
from ggscope.views.base.copying import Copyable
from ggscope.views.base.fact_list import FactList
from ggscope.views.base.safe_text import Label, copy_text
from ggscope.views.base.summary_panel import SUMMARY_TASK, SummaryPanel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    Disclosure,
    EmptyState,
    LinkButton,
    heading_font,
    lay_out,
    mono_font,
    scaled,
    set_label_color,
    ui_font,
)
from ggscope.views.details.access_cards import AccessCards, TargetCard
from ggscope.views.details.histogram import DurationHistogram
from ggscope.views.details.links import RelatedList, ShowLinks, SpanSteps
from ggscope.views.details.record import RECORD_TASK, RecordSection
from ggscope.views.details.swatch_line import SwatchLine

if TYPE_CHECKING:
    from ggscope.session.live import LiveSession

MAX_KNOWN = 256
"""Statistics that are cached, so that stepping through spans shows them at once."""
SYNC_SPANS = 50_000
"""In traces up to this size statistics are computed on the main thread."""
STATS_TASK = "details-stats"


class DetailsView(Copyable, View):
    """Shows the active entity of the selection."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._known_stats: dict[Hashable, EntityStats] = {}
        self._links_due = QTimer(self, singleShot=True, interval=0)
        self._links_due.timeout.connect(self._show_linked)
        self.setAccessibleName("Details")
        self._make_parts()
        self._lay_out()
        self.set_theme(theme)
        self.connect_until_release(
            (session.trace_changed, self._on_trace_changed),
            (session.selection.changed, self._show),
            (session.linking.linked_changed, self._show_linked),
            (session.linking.op_links_changed, self._show_linked),
            (session.linking.linked_position_changed, self._show_linked),
            (session.critical_path.changed, self._show_critical_path),
            (session.linking.correlation_changed, self._on_correlation_changed),
            (session.display.absolute_time_changed, self._show),
        )
        if session.follower is not None:
            follower = session.follower
            self.connect_until_release(
                (follower.changed, self._on_live), is_throttled=False
            )

    # -- parts -------------------------------------------------------------

    def _make_parts(self) -> None:
        self._empty = EmptyState(self)
        self._title = Label(parent=self)
        self._title.setFont(mono_font(15, bold=True))
        self._title.setWordWrap(True)
        # A kernel's name is one long word: it is cut, and the facts have it whole.
        self._title.setMinimumWidth(1)
        self._title.setObjectName("details_title")
        select = Qt.TextInteractionFlag.TextSelectableByMouse
        self._title.setTextInteractionFlags(select)
        self._swatch = SwatchLine(self)
        self._swatch.setObjectName("details_kind")
        self.summary = SummaryPanel(self.session, f"{SUMMARY_TASK}-details", self)
        self.metadata = Disclosure("File metadata", self)
        self.metadata_facts = FactList(self.metadata)
        self.metadata_facts.setAccessibleName("File metadata")
        self.metadata.set_content(self.metadata_facts)
        self.facts = FactList(self)
        self.facts.setAccessibleName("Facts")
        self._sources_head = Label("Sources", self)
        self._sources_note = Label(parent=self)
        self._sources_note.setObjectName("sources_note")
        self._sources_note.setFont(ui_font(12))
        self._sources_note.setWordWrap(True)
        self.sources = AccessCards(self)
        self.sources.setAccessibleName("Sources")
        self._target_head = Label("Destination", self)
        self.target = TargetCard(self)
        self.groups = (RelatedList(self), RelatedList(self))
        self.critical_path = RelatedList(self)
        self.steps = SpanSteps(self)
        self._durations_head = Label(parent=self)
        self._durations_head.setObjectName("durations_heading")
        self.histogram = DurationHistogram(self)
        for head in (self._sources_head, self._target_head, self._durations_head):
            head.setFont(heading_font())
            head.setWordWrap(True)  # else a long one widens the pane's content
            # Part of the label, so that a hidden section leaves no gap.
            head.setContentsMargins(0, scaled(10), 0, scaled(2))
        self._make_links()
        self.record_section = RecordSection(self)
        self.record_section.placed.connect(self._show_offset)

    def _make_links(self) -> None:
        self.show_links = ShowLinks(self)
        self.show_links.requested.connect(self._on_shown_elsewhere)
        self.sources.chosen.connect(self.session.selection.select_tensor)
        self.steps.stepped.connect(self.session.navigator.step_span)
        self.steps.taken.connect(self._on_taken)
        for group in self.groups:
            group.chosen.connect(self.session.selection.select)
        self._links = (
            LinkButton("Zoom to", "Show its time across the timeline", self),
            LinkButton("Show only this op", "Hide all other ops", self),
            LinkButton("Select all of this op", "Select every span of this op", self),
            LinkButton("Copy as Markdown", "Copy all that is shown here", self),
        )
        self.zoom_link, self.isolate_link, self.all_link, self.copy_link = self._links
        self.zoom_link.clicked.connect(self.session.navigator.fit_selection)
        self.isolate_link.clicked.connect(self._on_isolate)
        self.all_link.clicked.connect(self._on_select_all)
        self.copy_link.clicked.connect(self.copy_markdown)

    def _lay_out(self) -> None:
        content = QWidget(self)
        content.setObjectName("details_content")
        lay_out(
            QVBoxLayout(content),
            self._title,
            self._swatch,
            self.summary,
            self.metadata,
            self.facts,
            self._sources_head,
            self._sources_note,
            self.sources,
            self._target_head,
            self.target,
            *self.groups,
            self.critical_path,
            self.steps,
            self._durations_head,
            self.histogram,
            4,
            self.show_links,
            *self._links,
            8,
            self.record_section,
            None,
            margins=(12, 12, 12, 12),
            spacing=4,
        )
        self._scroll = QScrollArea(self)
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(content)
        self._stack = QStackedLayout(self)
        self._stack.setContentsMargins(0, 0, 0, 0)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._scroll)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        for part in (
            self._empty,
            self.summary,
            self.metadata,
            self.metadata_facts,
            self.facts,
            self.sources,
            self.target,
            self.histogram,
            self.record_section,
            self._swatch,
            *self.groups,
            self.critical_path,
            self.steps,
            self.show_links,
            *self._links,
        ):
            part.set_theme(theme)
        set_label_color(self._title, theme.text)
        for label in (
            self._sources_head,
            self._target_head,
            self._durations_head,
            self._sources_note,
        ):
            set_label_color(label, theme.dim)
        self.setStyleSheet(
            f"QScrollArea, #details_content {{ background: {css(theme.pane)}; }}"
            " QLabel { background: transparent; }"
        )
        self._show()

    # -- session -----------------------------------------------------------

    def release(self) -> None:
        """Cancel what is computed."""
        super().release()
        self._links_due.stop()
        self.summary.cancel()
        for key in (STATS_TASK, RECORD_TASK):
            self.session.tasks.cancel(key)

    def _on_trace_changed(self, _: object) -> None:
        self._known_stats.clear()
        self._show()

    def _on_correlation_changed(self, _: object) -> None:
        known = self._known_stats.items()
        self._known_stats = {k: stats for k, stats in known if stats.usage is None}
        if (
            self.session.selection.current
        ):  # the overview of a trace rests on no correlation
            self._show()

    # -- showing -----------------------------------------------------------

    def _entity(self) -> Entity | None:
        """Return the active entity, None if nothing is selected."""
        session = self.session
        if session.trace is None:
            return None
        return entity_of(session.trace, session.index, session.selection.current)

    def _show(self, _: object = None) -> None:
        """Show what is selected now."""
        trace, entity = self.session.trace, self._entity()
        if trace is None or entity is None:
            self._show_overview(trace)
            return
        stats = self._stats_of(entity)
        self.record_section.ask(self.session, trace, entity.record)
        self.summary.setVisible(False)
        self.metadata.setVisible(False)
        self._show_operands(entity.operands())
        self._show_stats(entity, stats)
        has_spans = len(trace.spans) > 0  # a model file alone has none
        self.zoom_link.setVisible(has_spans)
        self.isolate_link.setVisible(has_spans and entity.span_filter() is not None)
        self.isolate_link.setText(entity.filter_title)
        self.all_link.setVisible(bool(entity.alike_title))
        self.all_link.setText(entity.alike_title)
        if self.session.linking.linked.selection == self.session.selection.current:
            self._show_linked()
        else:
            # Mostly known before this turn is over: hidden until then and shown again,
            # they would have the pane laid out twice more.
            self._links_due.start()
        self._stack.setCurrentWidget(self._scroll)

    def _stats_of(self, entity: Entity) -> EntityStats | None:
        """Return the statistics of an entity; None while a worker computes them."""
        session, key = self.session, entity.stats_key
        if not entity.has_stats:
            session.tasks.cancel(STATS_TASK)
            return None
        load = partial(entity.load_stats, session.linking.correlation)
        if len(entity.trace.spans) <= SYNC_SPANS and key not in self._known_stats:
            self._remember(key, load())
        stats = self._known_stats.get(key)
        if stats is not None:
            session.tasks.cancel(STATS_TASK)
            return stats

        def on_stats(stats: EntityStats) -> None:
            self._remember(key, stats)
            self._show_stats(entity, stats)

        session.tasks.run(STATS_TASK, load, on_stats)
        return None

    def _remember(self, key: Hashable, stats: EntityStats) -> None:
        if len(self._known_stats) >= MAX_KNOWN:
            self._known_stats.clear()
        self._known_stats[key] = stats

    def _show_stats(self, entity: Entity, stats: EntityStats | None) -> None:
        """Show title, facts and durations; without `stats` some are pending."""
        session = self.session
        shown = entity.facts(
            stats, session.linking.correlation, absolute=session.display.absolute_time
        )
        n = len(session.selection.current.ids)
        several = f" · 1 of {format_count(n)} selected" if n > 1 else ""
        self._title.setText(shown.title)
        color_key = entity.color_key
        self._swatch.show_text(shown.kind + several, color_key)
        self.facts.set_facts(shown.facts)
        if self.record_section.record is not None:
            self._show_offset(entity.record, self.record_section.record.offset)
        self._show_durations(
            entity, None if stats is None else stats.durations, color_key
        )

    def _show_durations(
        self, entity: Entity, durations: DurationStats | None, color_key: str
    ) -> None:
        unit = entity.trace.clock.unit
        self.histogram.set_durations(durations, entity.duration, unit, color_key)
        self._durations_head.setText(entity.durations_title(durations))
        has_several = durations is None or durations.n > 1
        for widget in (self._durations_head, self.histogram):
            widget.setVisible(entity.has_durations and has_several)

    def _show_operands(self, operands: Operands | None) -> None:
        """Show the sources and the destination of an op; None hides them."""
        has_sources = operands is not None and operands.is_recorded
        reads = () if operands is None else operands.reads
        self._sources_head.setVisible(has_sources)
        self.sources.setVisible(bool(reads))
        self._sources_note.setVisible(has_sources and not reads)
        destination = None if operands is None else operands.destination
        for widget in (self._target_head, self.target):
            widget.setVisible(destination is not None)
        if operands is None:
            return
        self.sources.set_accesses(reads, operands.cards)
        self._sources_note.setText(
            "Still reading sources."
            if operands.is_pending
            else "No source tensors recorded."
        )
        if destination is not None:
            self.target.set_tensor(
                destination.label, destination.value, destination.exact
            )

    def _show_linked(self, _: object = None) -> None:
        """Show what the selection leads to, as far as it has been found."""
        self._links_due.stop()
        session = self.session
        trace, entity = session.trace, self._entity()
        if trace is None:
            return
        linked = session.linking.linked
        if linked.selection != session.selection.current:
            linked = Linked(session.selection.current)
        self.show_links.set_linked(trace, linked)
        groups = () if entity is None else entity.related(linked)
        for i, related in enumerate(self.groups):
            group = groups[i] if i < len(groups) else RelatedGroup("", (), 0)
            related.set_items(group.title, group.items, group.n, group.note)
        has_steps = bool(session.selection.current) and not (
            entity and entity.lies_in_time
        )
        n = linked.n_spans if has_steps else 0
        self.steps.set_position(session.linking.position, len(linked.spans), n)
        self._show_critical_path()

    def _show_critical_path(self, _: object = None) -> None:
        """Show how long the critical path is, and the slack of the selected span."""
        session, lines = self.session, list[str]()
        path, active = session.critical_path.path, session.selection.current.active
        if session.trace is not None and path is not None and active is not None:
            # Imported late: few ever ask for it.
            from ggscope.descriptions.critical_path import path_lines

            lines = path_lines(session.trace, path, active)
        title = "Critical path"
        self.critical_path.set_items(title, (), 0, "\n".join(lines))

    def _on_live(self) -> None:
        """Update the metrics of a followed program while they are shown."""
        if not self.session.selection.current and self.isVisible():
            self._show()

    def _show_overview(self, trace: Trace | None) -> None:
        """Show what is known of the trace as a whole, while nothing is selected."""
        follower = self.session.follower
        if trace is None:
            self._show_empty("No trace is open.", "")
        elif follower is not None and follower.is_on:
            self._show_facts(trace, "Live", _live_facts(trace, follower))
        elif len(trace.spans):
            self._show_summary(trace)
        elif trace.models and len(trace.tensors):
            facts = (*model_facts(trace), *_metadata_facts(trace))
            self._show_facts(trace, "About this model", facts)
        elif facts := _metadata_facts(trace):
            self._show_facts(trace, "About this trace", facts)
        else:
            self._show_empty("Nothing selected", _hint(trace))

    def _show_empty(self, title: str, hint: str) -> None:
        self._empty.say(title, hint)
        self._stack.setCurrentWidget(self._empty)

    def _show_summary(self, trace: Trace) -> None:
        """Show how fast the run was and what limits it."""
        self._show_facts(trace, "Summary", ())
        metadata = _metadata_facts(trace)
        self.metadata_facts.set_facts(metadata)
        self.metadata.setVisible(bool(metadata))
        self.summary.show_trace(trace)
        self.summary.setVisible(True)

    def _show_facts(self, trace: Trace, title: str, facts: tuple[Fact, ...]) -> None:
        """Show facts of the whole trace."""
        self.session.tasks.cancel(STATS_TASK)
        self._title.setText(title)
        self._swatch.show_text(_hint(trace), "")
        self.summary.setVisible(False)
        self.metadata.setVisible(False)
        self.facts.set_facts(facts)
        self._show_operands(None)
        for widget in (
            self._durations_head,
            self.histogram,
            self.zoom_link,
            self.isolate_link,
            self.all_link,
        ):
            widget.setVisible(False)
        self.record_section.ask(self.session, trace, -1)
        self._show_linked()
        self._stack.setCurrentWidget(self._scroll)

    # -- the record --------------------------------------------------------

    def _show_offset(self, record: int, offset: int) -> None:
        """Show the byte offset of the record, once it was read."""
        fact = record_fact(record, offset)
        self.facts.set_facts(
            tuple(fact if f.label == fact.label else f for f in self.facts.facts)
        )

    # -- commands ----------------------------------------------------------

    def _on_shown_elsewhere(self, target: Selection, view_id: str) -> None:
        trace = self.session.trace
        if view_id == "heatmap" and trace and not len(trace.accesses.patterns):
            view_id = "tensors"  # without accesses the heatmap is empty
        self.session.navigator.show_in(view_id, target)

    def _on_taken(self) -> None:
        session = self.session
        if session.linking.current_span is not None:
            session.selection.select_span(session.linking.current_span)

    def _on_isolate(self) -> None:
        session, entity = self.session, self._entity()
        added = None if entity is None else entity.span_filter()
        if added is not None:
            session.queries.set_filter(session.queries.filter.merged(added))

    def _on_select_all(self) -> None:
        entity = self._entity()
        if entity is not None and (ids := entity.alike()):
            self.session.selection.select(Selection("spans", ids))

    def copy_rows(self, form: CopyForm) -> None:
        """Copy all that is shown; in Markdown its name is the title."""
        if form == "markdown":
            copy_text(self.markdown())
        else:
            super().copy_rows(form)

    def table_file(self) -> TableFile | None:
        """Return all that is shown for a file, one fact a line; None of nothing."""
        return TableFile.of("details", ("name", self._title.text()), self._shown_rows())

    def _shown_rows(self) -> list[tuple[str, str]]:
        rows = [(fact.label, fact.value) for fact in self.facts.facts]
        if self.summary.isVisibleTo(self):
            rows += [(name, value) for _, name, value in self.summary.rows()]
        if self.sources.isVisibleTo(self):
            rows += [("source", access_line(a)) for a in self.sources.accesses]
        for group in self.groups:
            rows += [(group.accessibleName().lower(), i.text) for i in group.items]
        return rows

    def markdown(self) -> str:
        """Return all that is shown as a Markdown table."""
        return to_markdown((self._title.text(), ""), self._shown_rows())


def _metadata_facts(trace: Trace) -> tuple[Fact, ...]:
    """Return what the files state: checked values first, then those as written."""
    return (*stated_facts(trace), *producer_facts(trace))


def _live_facts(trace: Trace, follower: "LiveSession") -> tuple[Fact, ...]:
    """Return the metrics of a followed program."""
    metrics = follower.metrics
    in_ns = trace.clock.unit == "ns"
    return live_facts(
        metrics.status,
        metrics.rates,
        is_running=follower.is_on,
        extent_ns=trace.extent.duration if in_ns else -1,
    )


def _hint(trace: Trace) -> str:
    """Return what can be clicked in this trace; "" if it holds nothing."""
    if len(trace.spans):
        return "Click a span or a table row."
    hints = (
        (trace.graphs, "Click a node of the graph."),
        (trace.routing, "Click a cell of the experts view."),
        (trace.tensors, "Click a tensor in the list."),
        (trace.buffers, "Click a buffer in the list."),
    )
    return next((hint for table, hint in hints if len(table)), "")
