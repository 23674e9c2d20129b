"""Details: everything known of the span, marker or thing that is selected.

And the record of the file behind it: its fields, and its bytes.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QScrollArea,
    QSizePolicy,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.links import Linked
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics.members import filter_of_group
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.files import stated_facts
from ggscope.descriptions.live import live_facts
from ggscope.descriptions.selected import card_words, place_word
from ggscope.descriptions.spans import (
    AccessFact,
    Fact,
    access_facts,
    access_line,
    destination_of,
    known_duration,
    known_facts,
    marker_facts,
    record_fact,
    span_facts,
)
from ggscope.model.selection import Selection, SpanGroup
from ggscope.model.tables import Space
from ggscope.model.trace import RecordView, Trace
from ggscope.model.units import NOT_AVAILABLE, format_count, format_offset
from ggscope.render.theme import Theme, css, with_alpha
from ggscope.session.session import Session
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.cells import (
    CopyForm,
    TableFile,
    rows_text,
    to_markdown,
    to_tsv,
)
from ggscope.views.base.fact_list import FactList
from ggscope.views.base.safe_text import Label, copy_text
from ggscope.views.base.view import View, guarded
from ggscope.views.base.widgets import (
    Disclosure,
    EmptyState,
    LinkButton,
    heading_font,
    lay_out,
    mono_font,
    qcolor,
    scaled,
    set_label_color,
    swatch_key,
    words_font,
)
from ggscope.views.details.parts import (
    AccessCards,
    EntityStats,
    Group,
    OpHistogram,
    OpTimes,
    RelatedList,
    ShowLinks,
    SpanSteps,
    SwatchLine,
    TargetCard,
    Themed,
    alike,
    exists,
    facts_of,
    filter_of,
    group_facts,
    group_times,
    groups_of,
    op_times,
    placed_tensors,
    thing_news,
)

if TYPE_CHECKING:
    from ggscope.session.live import LiveSession

_PRINTABLE = range(0x20, 0x7F)
RECORD_TASK = "details-record"


@guarded
class HexView(Themed):
    """Shows bytes as ``xxd`` does: offset in the file, hexadecimal, text.

    It fits as many bytes into a line as the width allows: 16, 8 or 4.

    Attributes
    ----------
    marked : the highlighted bytes.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._data = b""
        self._offset = 0
        self.marked = range(0)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Bytes of the record")

    def set_data(self, data: bytes, offset: int = 0) -> None:
        """Show `data`; `offset` is where it lies in the file."""
        self._data, self._offset = data, offset
        self.marked = range(0)
        self.setAccessibleDescription(data[:64].hex(" "))
        self.updateGeometry()
        self.update()

    def mark(self, first: int, length: int) -> None:
        """Highlight `length` bytes from `first` on; nothing for a length of 0."""
        self.marked = range(max(first, 0), max(first, 0) + max(length, 0))
        self.update()

    def lines(self) -> list[str]:
        """Return what is shown, line by line, as text."""
        n = self.bytes_per_line
        wide = 3 * n - 1
        return [
            f"{self._place(i)} {self._hex(i, n):<{wide}} {self._text(i, n)}"
            for i in range(0, len(self._data), n)
        ]

    @property
    def bytes_per_line(self) -> int:
        """How many bytes fit into a line of the current width."""
        for n in (16, 8):
            if self._line_width(n) <= self.width():
                return n
        return 4

    def _digits(self) -> int:
        """Return the digits of the offsets: as few as the last one needs, even."""
        n = len(f"{self._offset + len(self._data):x}")
        return max(4, n + n % 2)

    def _place(self, first: int) -> str:
        return f"{self._offset + first:0{self._digits()}x}"

    def _hex(self, first: int, n: int) -> str:
        return self._data[first : first + n].hex(" ")

    def _text(self, first: int, n: int) -> str:
        part = self._data[first : first + n]
        return "".join(chr(b) if b in _PRINTABLE else "." for b in part)

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(mono_font(10.5))

    def _line_width(self, n: int) -> int:
        n_chars = self._digits() + 1 + 3 * n + n
        return self._metrics().horizontalAdvance("0") * n_chars

    def _line_height(self) -> int:
        return scaled(16)

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines."""
        n = next((n for n in (16, 8) if self._line_width(n) <= width), 4)
        return -(-len(self._data) // n) * self._line_height()

    def sizeHint(self) -> QSize:
        """Return the size at the current width."""
        return QSize(self._line_width(8), self.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:
        """Return the width of the narrowest form and the height of the current."""
        return QSize(self._line_width(4), self.heightForWidth(self.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit more or fewer bytes into a line."""
        self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the exposed lines."""
        with QPainter(self) as painter:
            painter.setFont(mono_font(10.5))
            height, n = self._line_height(), self.bytes_per_line
            char = self._metrics().horizontalAdvance("0")
            first = max(0, event.rect().top() // height)
            last = min(-(-len(self._data) // n), event.rect().bottom() // height + 1)
            for line in range(first, last):
                self._paint_line(painter, line, n, char)

    def _paint_line(self, painter: QPainter, line: int, n: int, char: int) -> None:
        theme, height = self._theme, self._line_height()
        begin, top = line * n, line * self._line_height()
        hex_left = (self._digits() + 1) * char
        text_left = hex_left + 3 * n * char
        middle = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        marked = [k for k in range(n) if begin + k in self.marked]
        if marked:
            tint = qcolor(with_alpha(theme.accent, 0.3))
            low, n_marked = marked[0], len(marked)
            wide = (3 * n_marked - 1) * char
            painter.fillRect(QRect(hex_left + 3 * low * char, top, wide, height), tint)
            wide = n_marked * char
            painter.fillRect(QRect(text_left + low * char, top, wide, height), tint)
        for left, text, color in (
            (0, self._place(begin), theme.dim),
            (hex_left, self._hex(begin, n), theme.text),
            (text_left, self._text(begin, n), theme.dim),
        ):
            painter.setPen(qcolor(color))
            box = QRect(left, top, max(0, self.width() - left), height)
            painter.drawText(box, middle, text)


class RecordSection(Disclosure):
    """A section that shows one record, read back from the file when asked for."""

    placed = Signal(int, object)  # record, its byte offset in the file

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Record", parent)
        self.record: RecordView | None = None
        self.opened.connect(self._show)
        body = QWidget(self)
        self.note = Label(parent=body)
        self.note.setWordWrap(True)
        self.note.setFont(words_font(12))
        self.fields = FactList(body)
        self.fields.setAccessibleName("Fields of the record")
        self.fields.hovered.connect(self._on_field_hovered)
        self.bytes = HexView(body)
        lay_out(QVBoxLayout(body), self.note, self.fields, self.bytes, spacing=8)
        self.set_content(body)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.fields.set_theme(theme)
        self.bytes.set_theme(theme)
        set_label_color(self.note, theme.dim)

    def ask(self, session: Session, trace: Trace, record: int) -> None:
        """Read a record back on a worker, for files may be slow or gone; -1 = none."""
        self.record = None
        records = trace.records if record >= 0 else None
        self.setVisible(records is not None)
        if records is None:
            session.tasks.cancel(RECORD_TASK)
            return

        def on_record(view: RecordView) -> None:
            self.record = view
            self.placed.emit(record, view.offset)
            self._show()

        def on_error(failure: TaskFailure) -> None:
            self.record = None
            self.note.setText(failure.message)
            self.note.setVisible(True)
            self.fields.set_facts(())
            self.bytes.set_data(b"")

        session.tasks.run(
            RECORD_TASK, lambda _: records.view(record), on_record, on_error=on_error
        )

    def _show(self) -> None:
        view = self.record
        if view is None or not self.is_open:
            return
        words = "{0} bytes at {1}"
        self.note.setText(
            words.format(format_count(len(view.data)), format_offset(view.offset))
        )
        self.fields.set_facts(tuple(Fact(f[0], f[1]) for f in view.fields))
        self.bytes.set_data(view.data, view.offset)

    def _on_field_hovered(self, row: object) -> None:
        view = self.record
        if view is None or not isinstance(row, int) or row >= len(view.fields):
            self.bytes.mark(0, 0)
            return
        _, _, first, length = view.fields[row]
        self.bytes.mark(first, length if first >= 0 else 0)


MAX_SELECTED = 100_000
MAX_KNOWN = 256
"""Histograms kept, so that stepping through spans shows them at once."""
SYNC_SPANS = 50_000
"""Figures of things are found at once in traces up to this size."""
_TIMES, _THING = "details-times", "details-thing"


class DetailsView(View):
    """Shows the active span or marker of the selection."""

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self._times_of: tuple[int, int] | None = None
        self._known_times: dict[tuple[int, int], OpTimes] = {}
        self._known_news: dict[Selection, EntityStats] = {}
        self._known_groups: dict[SpanGroup, OpTimes] = {}
        self.setAccessibleName("Details")
        self._make_parts()
        self._lay_out()
        self.set_theme(theme)
        self.hear(
            (session.trace_changed, self._on_trace_changed),
            (session.selection_changed, self._show),
            (session.linked_changed, self._show_linked),
            (session.linked_position_changed, self._show_linked),
            (session.correlation_changed, self._on_correlation_changed),
            (session.absolute_time_changed, self._show),
        )
        if session.follower is not None:
            follower = session.follower
            self.hear((follower.changed, self._on_live), is_calm=False)

    # -- parts -------------------------------------------------------------

    def _make_parts(self) -> None:
        self._empty = EmptyState(self)
        self._title = Label(parent=self)
        self._title.setFont(mono_font(15, bold=True))
        self._title.setWordWrap(True)
        select = Qt.TextInteractionFlag.TextSelectableByMouse
        self._title.setTextInteractionFlags(select)
        self._swatch = SwatchLine(self)
        self.facts = FactList(self)
        self.facts.setAccessibleName("Facts")
        self._sources_head = Label("Sources", self)
        self._sources_note = Label(parent=self)
        self._sources_note.setFont(words_font(12))
        self._sources_note.setWordWrap(True)
        self.sources = AccessCards(self)
        self.sources.setAccessibleName("Sources")
        self._target_head = Label("Destination", self)
        self.target = TargetCard(self)
        self.groups = (RelatedList(self), RelatedList(self))
        self.steps = SpanSteps(self)
        self._times_head = Label(parent=self)
        self.histogram = OpHistogram(self)
        for head in (self._sources_head, self._target_head, self._times_head):
            head.setFont(heading_font())
            head.setWordWrap(True)  # else a long one widens the pane's content
            # Part of the label, so that a hidden section leaves no gap.
            head.setContentsMargins(0, scaled(10), 0, scaled(2))
        self._make_links()
        self.record_section = RecordSection(self)
        self.record_section.placed.connect(self._note_offset)

    def _make_links(self) -> None:
        self.show_links = ShowLinks(self)
        self.show_links.wanted.connect(self._on_shown_elsewhere)
        self.sources.chosen.connect(self.session.select_tensor)
        self.steps.stepped.connect(self.session.step_span)
        self.steps.taken.connect(self._on_taken)
        for group in self.groups:
            group.chosen.connect(self.session.select)
        self._links = (
            LinkButton("Zoom to", "Show its time across the timeline", self),
            LinkButton("Show only this op", "Hide all other ops", self),
            LinkButton("Select all of this op", "Select every span of this op", self),
            LinkButton("Copy as Markdown", "Copy all that is shown here", self),
        )
        self.zoom_link, self.isolate_link, self.all_link, self.copy_link = self._links
        self.zoom_link.clicked.connect(self.session.fit_selection)
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
            self.facts,
            self._sources_head,
            self._sources_note,
            self.sources,
            self._target_head,
            self.target,
            *self.groups,
            self.steps,
            self._times_head,
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
            self.facts,
            self.sources,
            self.target,
            self.histogram,
            self.record_section,
            self._swatch,
            *self.groups,
            self.steps,
            self.show_links,
            *self._links,
        ):
            part.set_theme(theme)
        set_label_color(self._title, theme.text)
        for label in (
            self._sources_head,
            self._target_head,
            self._times_head,
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
        """Ask for nothing any more."""
        super().release()
        for key in (_TIMES, RECORD_TASK, _THING):
            self.session.tasks.cancel(key)

    def _on_trace_changed(self, _: object) -> None:
        self._known_times.clear()
        self._known_news.clear()
        self._known_groups.clear()
        self._show()

    def _on_correlation_changed(self, _: object) -> None:
        self._known_news.clear()
        if self.session.selection:  # what files say of themselves stays as it is
            self._show()

    # -- showing -----------------------------------------------------------

    def _show(self, _: object = None) -> None:
        """Show what is selected now."""
        session = self.session
        trace = session.trace
        if trace is None or not session.selection:
            self._say_nothing(is_open=trace is not None)
            return
        selection = session.selection
        row = selection.active
        assert row is not None
        if selection.table == "spans" and 0 <= row < len(trace.spans):
            self._show_span(session, trace, row)
        elif selection.table == "markers" and 0 <= row < len(trace.markers):
            self._show_marker(session, trace, row)
        elif selection.group is not None and session.index is not None:
            self._show_group(session, session.index, selection.group)
        elif exists(trace, selection):
            self._show_thing(session, trace, selection)
        else:
            self._say_nothing(is_open=True)
            return
        self.zoom_link.setVisible(len(trace.spans) > 0)
        self._show_linked()
        self._stack.setCurrentWidget(self._scroll)

    def _on_live(self) -> None:
        """Show new figures of a program that is followed, if they are what is shown."""
        if not self.session.selection and self.isVisible():
            self._show()

    def _show_live(
        self, session: Session, trace: Trace, follower: "LiveSession"
    ) -> None:
        """Show the figures of a followed program, while nothing is selected."""
        meters = follower.meters
        is_on = follower.is_on
        self._title.setText("Live" if is_on else "Recorded")
        self._swatch.show_text("Nothing is selected.", "")
        in_ns = trace.clock.unit == "ns"
        self.facts.set_facts(
            live_facts(
                meters.heard,
                is_running=is_on,
                tokens_per_s=meters.tokens_per_s,
                records_per_s=meters.records_per_s,
                lag_ns=meters.lag_ns,
                is_least_lag=meters.is_least_lag,
                extent_ns=trace.extent.duration if in_ns else -1,
            )
        )
        self._hide_span_parts(session)
        for link in (self.zoom_link, self.isolate_link):
            link.setVisible(False)
        self.record_section.ask(session, trace, -1)
        self._show_linked()
        self._stack.setCurrentWidget(self._scroll)

    def _say_nothing(self, *, is_open: bool) -> None:
        session = self.session
        trace = session.trace
        follower = session.follower
        if trace is not None and follower is not None:
            self._show_live(session, trace, follower)
            return
        about = () if trace is None else stated_facts(trace)
        if trace is not None and about:
            self._show_about(session, trace, about)
            return
        if is_open:
            self._empty.say("Nothing is selected.", self._hint(trace))
        else:
            self._empty.say("No trace is open.")
        self._stack.setCurrentWidget(self._empty)

    def _hint(self, trace: Trace | None) -> str:
        """Return what can be clicked; "" where the trace has nothing of the kind."""
        if trace is None or len(trace.spans):
            return "Click a span in the timeline or a record in the table."
        things = (
            (trace.graphs, "Click a node of the graph."),
            (trace.routing, "Click a cell in the picture of experts."),
            (trace.tensors, "Click a tensor in the list."),
            (trace.buffers, "Click a buffer in the list."),
        )
        return next((hint for table, hint in things if len(table)), "")

    def _show_about(
        self, session: Session, trace: Trace, facts: tuple[Fact, ...]
    ) -> None:
        """Show what the files say of themselves, while nothing is selected."""
        is_model = not len(trace.spans) and bool(trace.models)
        self._title.setText("About this model" if is_model else "About this trace")
        self._swatch.show_text("Nothing is selected.", "")
        self.facts.set_facts(facts)
        self._hide_span_parts(session)
        for link in (self.zoom_link, self.isolate_link):
            link.setVisible(False)
        self.record_section.ask(session, trace, -1)
        self._show_linked()
        self._stack.setCurrentWidget(self._scroll)

    def _show_span(self, session: Session, trace: Trace, span: int) -> None:
        facts = span_facts(trace, span, absolute=session.absolute_time)
        op = trace.op_name(int(trace.spans.op[span]))
        self._title.setText(trace.span_name(span))
        key = swatch_key(trace, span)
        self._swatch.show_text(self._summary(session, facts), key)
        self.facts.set_facts(known_facts(facts[1:]))
        accesses = access_facts(trace, span)
        self._show_accesses(trace, accesses)
        has_op = bool(op)
        for widget in (self._target_head, self.target, self.isolate_link):
            widget.setVisible(has_op)
        self.isolate_link.setText("Show only this op")
        self.all_link.setVisible(True)
        self.all_link.setText(
            "Select all of this op" if has_op else "Select all of this name"
        )
        self.target.set_tensor(*_target(trace, span, accesses))
        self._show_times(session, trace, span)
        self.record_section.ask(session, trace, trace.record_of(span))

    def _show_marker(self, session: Session, trace: Trace, marker: int) -> None:
        facts = marker_facts(trace, marker, absolute=session.absolute_time)
        self._title.setText(facts[0].value)
        self._swatch.show_text(f"marker · {facts[1].value}", "")
        self.facts.set_facts(known_facts(facts[1:]))
        self._hide_span_parts(session)
        self.isolate_link.setVisible(False)
        record = trace.markers.record
        self.record_section.ask(
            session, trace, -1 if record is None else int(record[marker])
        )

    def _hide_span_parts(self, session: Session) -> None:
        for widget in (
            self._sources_head,
            self._sources_note,
            self.sources,
            self._target_head,
            self.target,
            self._times_head,
            self.histogram,
            self.all_link,
        ):
            widget.setVisible(False)
        session.tasks.cancel(_TIMES)
        self._times_of = None

    def _show_thing(self, session: Session, trace: Trace, selection: Selection) -> None:
        """Show a tensor, buffer, node or expert; figures follow where that takes."""
        one = Selection(selection.table, selection.ids[:1])
        request = partial(thing_news, trace, one, session.correlation)
        if len(trace.spans) <= SYNC_SPANS and one not in self._known_news:
            self._known_news[one] = request()
        news = self._known_news.get(one)
        shown = facts_of(
            trace, one, news, session.correlation, absolute=session.absolute_time
        )
        self._title.setText(shown.title)
        self._swatch.show_text(shown.kind, "")
        self.facts.set_facts(shown.facts)
        self._hide_span_parts(session)
        has_spans = len(trace.spans) > 0  # a model file alone has none
        self.isolate_link.setVisible(has_spans and filter_of(trace, one) is not None)
        self.isolate_link.setText("Show only its spans")
        self.record_section.ask(session, trace, -1)
        if news is not None:
            session.tasks.cancel(_THING)
            return

        def on_news(found: EntityStats) -> None:
            if len(self._known_news) >= MAX_KNOWN:
                self._known_news.clear()
            self._known_news[one] = found
            self._show()

        session.tasks.run(_THING, request, on_news)

    def _show_group(
        self, session: Session, index: TraceIndex, group: SpanGroup
    ) -> None:
        """Show a row of statistics; figures follow where that takes."""
        trace = index.trace
        request = partial(group_times, index, group)
        if len(trace.spans) <= SYNC_SPANS and group not in self._known_groups:
            self._known_groups[group] = request()
        times = self._known_groups.get(group)
        shown = group_facts(trace, group, times)
        key = {"op": f"op:{group.key}", "family": group.key}.get(group.by, "")
        self._title.setText(shown.title)
        self._swatch.show_text(shown.kind, key)
        self.facts.set_facts(shown.facts)
        self._hide_span_parts(session)
        self.isolate_link.setVisible(filter_of_group(group.by, group.key) is not None)
        self.isolate_link.setText("Show only its spans")
        self.record_section.ask(session, trace, -1)
        if times is not None:
            session.tasks.cancel(_THING)
            if times.n > 1:
                self.histogram.set_times(times, -1, trace.clock.unit, key)
                self._times_head.setText("Durations")
                self._times_head.setVisible(True)
                self.histogram.setVisible(True)
            return

        def on_times(found: OpTimes) -> None:
            if len(self._known_groups) >= MAX_KNOWN:
                self._known_groups.clear()
            self._known_groups[group] = found
            self._show()

        session.tasks.run(_THING, request, on_times)

    def _show_linked(self, _: object = None) -> None:
        """Show what the selection has to do with, as far as it is known."""
        session = self.session
        trace = session.trace
        if trace is None:
            return
        found, selection = session.linked, session.selection
        if found.selection != selection:
            found = Linked(selection)
        self.show_links.set_linked(found, placed_tensors(trace, found))
        groups = () if _in_time(selection) else groups_of(trace, selection, found)
        for i, related in enumerate(self.groups):
            group = groups[i] if i < len(groups) else Group("", (), 0)
            related.set_items(group.title, group.items, group.n)
        n = 0 if _in_time(selection) else found.n_spans
        self.steps.set_position(session.linked_position, len(found.spans), n)

    def _summary(self, session: Session, facts: tuple[Fact, ...]) -> str:
        known = {f.label: f.value for f in facts if f.value != NOT_AVAILABLE}
        parts = [known.get("op", ""), known.get("lane", "")]
        if "layer" in known:
            parts.insert(1, f"layer {known['layer']}")
        if "token" in known:
            parts.append(f"token {known['token']}")
        n = len(session.selection.ids)
        if n > 1:
            parts.append(f"1 of {format_count(n)} selected")
        return " · ".join(part for part in parts if part)

    def _show_accesses(self, trace: Trace, accesses: tuple[AccessFact, ...]) -> None:
        reads = tuple(a for a in accesses if not a.is_write)
        words = tuple(_card(trace, access) for access in reads)
        self.sources.set_accesses(reads, words)
        has_any = bool(len(trace.accesses.patterns)) or "accesses" in trace.pending
        self._sources_head.setVisible(has_any)
        self.sources.setVisible(bool(reads))
        self._sources_note.setVisible(has_any and not reads)
        self._sources_note.setText(
            "Sources are still being read."
            if "accesses" in trace.pending
            else "The file names no sources here."
        )

    # -- the histogram -----------------------------------------------------

    def _show_times(self, session: Session, trace: Trace, span: int) -> None:
        op = int(trace.spans.op[span])
        # Spans without an op are compared by name; that is only known per span.
        key = (trace.generation, op if op >= 0 else -2 - span)
        known_ticks, unit = known_duration(trace, span), trace.clock.unit
        ticks = -1 if known_ticks is None else known_ticks
        color = swatch_key(trace, span)
        self._times_of = key
        known = self._known_times.get(key)
        self.histogram.set_times(known, ticks, unit, color)
        self._say_times(known)
        if known is not None:
            session.tasks.cancel(_TIMES)
            return

        def on_times(times: OpTimes) -> None:
            if len(self._known_times) >= MAX_KNOWN:
                self._known_times.clear()
            self._known_times[key] = times
            self.histogram.set_times(times, ticks, unit, color)
            self._say_times(times)

        session.tasks.run(_TIMES, partial(op_times, trace, span), on_times)

    def _say_times(self, times: OpTimes | None) -> None:
        is_op = self._times_of is not None and self._times_of[1] >= 0
        what = "This op" if is_op else "This name"
        if times is None:
            self._times_head.setText(what)
        else:
            words = f"{what}, {format_count(times.n_ops)} times"
            if times.n > times.n_ops:
                words += f", {format_count(times.n)} spans of threads"
            self._times_head.setText(words)
        is_one = times is not None and times.n < 2
        self._times_head.setVisible(not is_one)
        self.histogram.setVisible(not is_one)

    # -- the record --------------------------------------------------------

    def _note_offset(self, record: int, offset: int) -> None:
        fact = record_fact(record, offset)
        self.facts.set_facts(
            tuple(fact if f.label == fact.label else f for f in self.facts.facts)
        )

    # -- commands ----------------------------------------------------------

    def _on_shown_elsewhere(self, target: Selection, view_id: str) -> None:
        trace = self.session.trace
        if view_id == "heatmap" and trace and not len(trace.accesses.patterns):
            view_id = "tensors"  # the map of a model file that nothing is known to read
        self.session.show_in(view_id, target)

    def _on_taken(self) -> None:
        session = self.session
        if session.linked_span is not None:
            session.select_span(session.linked_span)

    def _on_isolate(self) -> None:
        session, op = self.session, self._active_op()
        if session.trace is not None and not op:
            wanted = filter_of(session.trace, session.selection)
            if wanted is not None:
                session.set_filter(session.filter.merged(wanted))
            return
        if op:
            session.set_filter(replace(session.filter, ops=frozenset({op})))

    def _active_op(self) -> str:
        session = self.session
        if session.trace is None:
            return ""
        if session.selection.table != "spans" or session.selection.active is None:
            return ""
        trace = session.trace
        return trace.op_name(int(trace.spans.op[session.selection.active]))

    def _on_select_all(self) -> None:
        session = self.session
        if session.trace is None:
            return
        active = session.selection.active
        if session.selection.table != "spans" or active is None:
            return
        ids = alike(session.trace, active)[:MAX_SELECTED].tolist()
        others = tuple(i for i in ids if i != active)
        session.select(Selection("spans", (active, *others)))

    def copy_markdown(self) -> None:
        """Copy all that is shown as a Markdown table."""
        copy_text(self.markdown())

    def copy_tsv(self) -> None:
        """Copy all that is shown for a spreadsheet, one fact a line."""
        copy_text(to_tsv(("name", self._title.text()), self._shown_rows()))

    def table_file(self) -> TableFile | None:
        """Return all that is shown for a file, one fact a line; None of nothing."""
        titles, rows = ("name", self._title.text()), self._shown_rows()
        if not rows:
            return None

        def text(form: CopyForm, _: Watcher) -> str:
            return rows_text(form, titles, rows)

        return TableFile("details", text, len(rows), len(rows))

    def _shown_rows(self) -> list[tuple[str, str]]:
        rows = [(fact.label, fact.value) for fact in self.facts.facts]
        if self.sources.isVisibleTo(self):
            rows += [("source", access_line(a)) for a in self.sources.accesses]
        for group in self.groups:
            rows += [(group.accessibleName().lower(), i.text) for i in group.items]
        return rows

    def markdown(self) -> str:
        """Return all that is shown as a Markdown table."""
        return to_markdown((self._title.text(), ""), self._shown_rows())


def _in_time(selection: Selection) -> bool:
    """Tell whether a span or a marker is selected: what lies in time itself."""
    return selection.table in (None, "spans", "markers")


def _card(trace: Trace, access: AccessFact) -> tuple[str, tuple[str, ...]]:
    """Return how the place of an access is known, and what else its card says."""
    if access.tensor < 0 or access.space is not Space.FILE:
        return "", card_words(trace, access.tensor)
    return (
        place_word(trace, access.tensor),
        card_words(trace, access.tensor, access.bytes),
    )


def _target(
    trace: Trace, span: int, accesses: tuple[AccessFact, ...]
) -> tuple[str, str, str]:
    """Return name, size and exact size of what an op writes."""
    for access in accesses:
        if access.is_write:
            return access.name, access.size, access.exact_size
    found = destination_of(trace, span)
    if found is None:
        return NOT_AVAILABLE, NOT_AVAILABLE, ""
    return found.label, found.value, found.exact
