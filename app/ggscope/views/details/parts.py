"""What Details is made of: cards of accesses, the histogram of an op, facts, links.

Links go to other views, to related things, to linked spans.
"""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from ggscope.analysis.filters.text import format_filter
from ggscope.analysis.graph.search import leaf_words
from ggscope.analysis.links import Linked
from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.reads.usage import Usage, usage_of
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.sessions.correlate import Correlation, node_words
from ggscope.analysis.statistics.members import filter_of_group, spans_of_group
from ggscope.analysis.statistics.table import histogram
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.nodes import neighbours, node_facts
from ggscope.descriptions.selected import (
    COUNTING,
    SelectedFacts,
    buffer_facts,
    expert_facts,
    tensor_facts,
    tensor_name,
)
from ggscope.descriptions.spans import AccessFact, Fact, exact_time_text
from ggscope.model.graph import first_node, locate_node
from ggscope.model.names import normalise
from ggscope.model.routing import of_expert_key
from ggscope.model.selection import Filter, Selection, SpanGroup, TableName
from ggscope.model.tables import I64, Array, Quality, distinct, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    Unit,
    format_count,
    format_duration,
    format_exact,
)
from ggscope.render.colors import category_color
from ggscope.render.theme import Theme, theme
from ggscope.sanitize import one_line
from ggscope.session.tasks import TaskContext
from ggscope.views.base.safe_text import Label, set_tip, show_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    LinkButton,
    heading_font,
    keeps_key,
    lay_out,
    mono_font,
    paint_badge,
    qcolor,
    scaled,
    set_label_color,
    space_color,
    words_font,
)

MAX_RELATED = 12
"""Links shown per list; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Related:
    """A thing that belongs to the selected one.

    Attributes
    ----------
    text, tip : what the link says.
    target : what it selects.
    """

    text: str
    tip: str
    target: Selection


class ShowLinks(QWidget):
    """One link for each other view that has something of the selection to show."""

    wanted = Signal(object, str)  # Selection to make, id of the view

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._targets: dict[LinkButton, tuple[Selection, str]] = {}
        self.graph = LinkButton(
            "Show in graph", "Select its node in the graph and show it", self
        )
        self.file_map = LinkButton(
            "Show in file map",
            "Select the weight that it reads, and show where it lies",
            self,
        )
        self.experts = LinkButton(
            "Show in experts", "Select its expert and show it", self
        )
        self.buffers = LinkButton(
            "Show in buffers", "Select its buffer and show it", self
        )
        lay_out(QVBoxLayout(self), *self._links, spacing=4)
        for link in self._links:
            link.clicked.connect(self._on_clicked)

    @property
    def _links(self) -> tuple[LinkButton, ...]:
        return (self.graph, self.file_map, self.experts, self.buffers)

    def set_linked(self, found: Linked, placed: I64) -> None:
        """Offer what `found` has.

        Parameters
        ----------
        placed : those of its tensors that have a place in the model file.
        """
        own = found.selection
        self._targets = {}
        offers: tuple[tuple[LinkButton, TableName, I64, str], ...] = (
            (self.graph, "nodes", found.nodes, "graph"),
            (self.file_map, "tensors", placed, "heatmap"),
            (self.experts, "experts", found.experts, "experts"),
            (self.buffers, "buffers", found.buffers, "buffers"),
        )
        for link, table, ids, view_id in offers:
            if own.table == table:
                self._targets[link] = (own, view_id)
            elif len(ids):
                self._targets[link] = (Selection(table, (int(ids[0]),)), view_id)
            link.setVisible(link in self._targets)
        self.setVisible(bool(self._targets))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for link in self._links:
            link.set_theme(theme)

    def _on_clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, LinkButton) and sender in self._targets:
            self.wanted.emit(*self._targets[sender])


class RelatedList(QWidget):
    """A head and a link per related thing; hidden while there is none.

    The links are made once and used again, so that stepping makes no widgets.
    """

    chosen = Signal(object)  # Selection

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.items: tuple[Related, ...] = ()
        self._head = Label(parent=self)
        self._head.setFont(heading_font())
        self._head.setWordWrap(True)
        self._head.setContentsMargins(0, scaled(10), 0, scaled(2))
        self._more = Label(parent=self)
        self._more.setFont(words_font(11.5))
        self._theme: Theme | None = None
        self.links: list[LinkButton] = []
        self._layout = lay_out(QVBoxLayout(self), self._head, self._more)
        self.hide()

    def set_items(self, title: str, items: tuple[Related, ...], n: int) -> None:
        """List these; `n` is how many there are in all."""
        self.items = shown = items[:MAX_RELATED]
        self._head.setText(title)
        self.setAccessibleName(title)
        while len(self.links) < len(shown):
            self._add_link()
        for i, link in enumerate(self.links):
            link.setVisible(i < len(shown))
            if i < len(shown):
                link.setText(shown[i].text)
                set_tip(link, shown[i].tip)
                link.setAccessibleName(shown[i].tip)
        left = n - len(shown)
        self._more.setVisible(left > 0)
        self._more.setText(f"and {format_count(left)} more")
        self.setVisible(bool(items))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        set_label_color(self._head, theme.dim)
        set_label_color(self._more, theme.dim)
        for link in self.links:
            link.set_theme(theme)

    def _add_link(self) -> None:
        link = LinkButton("", "", self)
        link.clicked.connect(self._on_clicked)
        if self._theme is not None:
            link.set_theme(self._theme)
        self._layout.insertWidget(1 + len(self.links), link)
        self.links.append(link)

    def _on_clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, LinkButton) and sender in self.links:
            self.chosen.emit(self.items[self.links.index(sender)].target)


class SpanSteps(QWidget):
    """How many spans belong to a thing, and steps from one to the next."""

    stepped = Signal(int)  # +1 or -1
    taken = Signal()  # select the span that is looked at

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._words = Label(parent=self)
        self._words.setFont(words_font(12))
        self.previous = LinkButton("Previous", "Show the span before ( , )", self)
        self.next = LinkButton("Next", "Show the next span ( . )", self)
        self.take = LinkButton("Select it", "Select the span that is shown now", self)
        self.previous.clicked.connect(self._on_previous)
        self.next.clicked.connect(self._on_next)
        self.take.clicked.connect(self.taken)
        steps = (self._words, self.previous, self.next, self.take, None)
        margins = (0, scaled(6), 0, 0)
        lay_out(QHBoxLayout(self), *steps, margins=margins, spacing=10)

    @property
    def text(self) -> str:
        """What it says."""
        return self._words.text()

    def set_position(self, position: int, n_listed: int, n_spans: int) -> None:
        """Say which of the spans is looked at; -1 = none yet."""
        words = "1 span" if n_spans == 1 else "{0} spans"
        text = words.format(format_count(n_spans))
        if position >= 0:
            text = f"span {format_count(position + 1)} of {format_count(n_spans)}"
        self._words.setText(text)
        tip = "Spans that belong to it are lit in the timeline and the table."
        if n_listed < n_spans:
            tip += (
                " " + f"Only the first {format_count(n_listed)} are; filter to see all."
            )
        set_tip(self._words, tip)
        self.take.setVisible(position >= 0)
        self.setVisible(n_spans > 0)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self._words, theme.text)
        for link in (self.previous, self.next, self.take):
            link.set_theme(theme)

    def _on_previous(self) -> None:
        self.stepped.emit(-1)

    def _on_next(self) -> None:
        self.stepped.emit(1)


MAX_CARDS = 24
_CARD_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Up, Qt.Key.Key_Down)
BINS = 40
_LEAF = "leaf_"


class Themed(QWidget):
    """A widget that paints itself in the colours of a theme."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme("dark")

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.update()


@guarded
class AccessCards(Themed):
    """One card per access: badge, name, where it lies, size.

    A click on a card, or Enter on the one that Up and Down lead to, chooses its
    tensor.
    """

    chosen = Signal(int)  # row of Trace.tensors

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.accesses: tuple[AccessFact, ...] = ()
        self._words: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self._current = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(scaled(120))

    def set_accesses(
        self,
        accesses: tuple[AccessFact, ...],
        words: tuple[tuple[str, tuple[str, ...]], ...] = (),
    ) -> None:
        """Show these.

        Parameters
        ----------
        words : per access, how its place is known and what else there is to say.
        """
        self.accesses = accesses
        self._words = words or ((("", ()),) * len(accesses))
        self._current = 0
        lines = (
            ", ".join(
                (
                    *(f"{a.badge} {a.name}", a.size, f"{a.place} {how}".strip()),
                    *more,
                    *([a.origin_words] if a.origin_words else []),
                )
            )
            for a, (how, more) in zip(accesses, self._words, strict=True)
        )
        self.setAccessibleDescription("; ".join(lines))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the size of all cards."""
        n = min(len(self.accesses), MAX_CARDS)
        more = scaled(20) if len(self.accesses) > MAX_CARDS else 0
        return QSize(scaled(240), n * self._pitch() + more)

    def minimumSizeHint(self) -> QSize:
        """Return the least width at full height."""
        return QSize(scaled(120), self.sizeHint().height())

    def _pitch(self) -> int:
        return scaled(66)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the exposed cards."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            for row, access in enumerate(self.accesses[:MAX_CARDS]):
                top = row * self._pitch()
                box = QRect(0, top, self.width(), self._pitch() - scaled(8))
                if box.intersects(event.rect()):
                    self._paint_card(painter, box, row, access)
            hidden = len(self.accesses) - MAX_CARDS
            if hidden > 0:
                painter.setFont(words_font(12))
                painter.setPen(qcolor(self._theme.dim))
                words = f"and {format_count(hidden)} more"
                painter.drawText(QPoint(0, self.height() - scaled(6)), words)

    def _paint_card(
        self, painter: QPainter, box: QRect, row: int, access: AccessFact
    ) -> None:
        theme = self._theme
        how, more = self._words[row]
        has_ring = self.hasFocus() and row == self._current
        painter.setPen(qcolor(theme.accent) if has_ring else Qt.PenStyle.NoPen)
        painter.setBrush(qcolor(theme.raised))
        inner = QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5) if has_ring else QRectF(box)
        painter.drawRoundedRect(inner, 6, 6)
        pad = scaled(10)
        line = scaled(16)
        first = box.top() + scaled(7)
        right = paint_badge(
            painter,
            box.left() + pad,
            first + line / 2,
            access.badge,
            space_color(access.space, theme),
        )
        left = round(right) + scaled(8)
        room = QRect(left, first, box.right() - pad - left, line)
        draw_elided(painter, room, access.name, mono_font(12, bold=True), theme.text)
        room = QRect(box.left() + pad, first + line, box.width() - 2 * pad, line)
        place = f"{access.place} · {how}" if how else access.place
        draw_elided(painter, room, place, mono_font(11), theme.dim)
        room.translate(0, line)
        # Where it came from takes the room of what the tooltip tells as well.
        words = [access.size, *([access.origin] if access.origin else more)]
        if access.layer != NOT_AVAILABLE:
            words.append(f"layer {access.layer}")
        if access.expert != NOT_AVAILABLE:
            words.append(f"expert {access.expert}")
        draw_elided(painter, room, " · ".join(words), words_font(11.5), theme.dim)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose the tensor of the card that was clicked."""
        row = int(event.position().y()) // self._pitch()
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(
            event.position().toPoint()
        ):
            self._choose(row)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show by the cursor that a card can be clicked."""
        row = int(event.position().y()) // self._pitch()
        hand, arrow = Qt.CursorShape.PointingHandCursor, Qt.CursorShape.ArrowCursor
        self.setCursor(hand if self._tensor_at(row) >= 0 else arrow)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go from card to card by Up and Down; Enter chooses."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
        last = min(len(self.accesses), MAX_CARDS) - 1
        if step is not None and 0 <= self._current + step <= last:
            self._current += step
            self.update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self._current)
        else:
            super().keyPressEvent(event)

    def _tensor_at(self, row: int) -> int:
        inside = 0 <= row < min(len(self.accesses), MAX_CARDS)
        return self.accesses[row].tensor if inside else -1

    def _choose(self, row: int) -> None:
        tensor = self._tensor_at(row)
        if tensor >= 0:
            self.chosen.emit(tensor)

    def event(self, event: QEvent) -> bool:
        """Show every digit of the card under the mouse; take Enter for the cards."""
        if keeps_key(event, lambda e: Qt.Key(e.key()) in _CARD_KEYS):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            row = event.pos().y() // self._pitch()
            if 0 <= row < min(len(self.accesses), MAX_CARDS):
                how, more = self._words[row]
                text = card_tip(self.accesses[row], how, more)
                show_tip(event.globalPos(), text, self)
                return True
        return super().event(event)


def card_tip(access: AccessFact, how: str = "", more: tuple[str, ...] = ()) -> str:
    """Return all that is known of an access, one fact per line."""
    facts = (
        ("", access.name),
        ("memory", access.badge),
        ("size", access.exact_size),
        ("place", f"{access.place}, {how}" if how else access.place),
        *(("page cache", words) for words in [access.origin_words] if words),
        *(("tensor", " · ".join(more)) for _ in more[:1]),
        ("layer", access.layer),
        ("expert", access.expert),
        ("pointer", access.address),
    )
    return "\n".join(f"{label}: {value}" if label else value for label, value in facts)


@guarded
class SwatchLine(Themed):
    """A square in the op's colour and a line of words, elided at the end."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = ""
        self._key = ""
        self.setFixedHeight(scaled(20))

    def show_text(self, text: str, color_key: str) -> None:
        """Show `text`; without a colour key there is no square."""
        self.text, self._key = text, color_key
        self.setAccessibleName(text)
        set_tip(self, text)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the square and the words."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            left, size = 0, scaled(9)
            if self._key:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(qcolor(category_color(self._key, self._theme)))
                top = (self.height() - size) / 2
                painter.drawRoundedRect(QRectF(0, top, size, size), 2, 2)
                left = size + scaled(7)
            room = self.rect().adjusted(left, 0, 0, 0)
            end = Qt.TextElideMode.ElideRight
            draw_elided(painter, room, self.text, words_font(12), self._theme.dim, end)


@guarded
class TargetCard(Themed):
    """The destination tensor: name at the left, size at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = self._size = ""
        self.setFixedHeight(scaled(32))
        self.setAccessibleName("Destination")

    def set_tensor(self, name: str, size: str, exact: str) -> None:
        """Show a tensor; "N/A" where a part is not known."""
        self.name, self._size = name, size
        self.setAccessibleDescription(f"{name}, {size}")
        set_tip(self, f"{name}\n{exact or size}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the card."""
        theme = self._theme
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(qcolor(theme.raised))
            painter.drawRoundedRect(QRectF(self.rect()), 6, 6)
            room = self.rect().adjusted(scaled(10), 0, -scaled(10), 0)
            font = words_font(11.5)
            painter.setFont(font)
            painter.setPen(qcolor(theme.dim))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(room, Qt.AlignmentFlag.AlignRight | middle, self._size)
            used = QFontMetrics(font).horizontalAdvance(self._size) + scaled(8)
            color = theme.selection if theme.is_dark else theme.text
            bold = mono_font(12, bold=True)
            draw_elided(painter, room.adjusted(0, 0, -used, 0), self.name, bold, color)


def draw_elided(
    painter: QPainter,
    room: QRect,
    text: str,
    font: QFont,
    color: int,
    mode: Qt.TextElideMode = Qt.TextElideMode.ElideMiddle,
) -> None:
    """Draw a line of text at the left of `room`, cut to fit."""
    painter.setFont(font)
    painter.setPen(qcolor(color))
    width = max(0, room.width())
    shown = QFontMetrics(font).elidedText(one_line(text), mode, width)
    side = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    painter.drawText(room, side, shown)


@dataclass(frozen=True, slots=True, eq=False)
class OpTimes:
    """How long all spans of an op (or of a name) take.

    Attributes
    ----------
    n : all of them; `timed` of them have a duration of their own.
    n_ops : ops that they tell of, each counted once however many threads compute it.
    counts, edges : histogram, int64[bins] and float64[bins + 1], ticks.
    low, high : shortest and longest.
    total : sum of the durations.
    """

    n: int
    timed: int
    counts: Array
    edges: Array
    p50: float
    p99: float
    low: int
    high: int
    n_ops: int
    total: int = 0


def op_times(trace: Trace, span: int, context: TaskContext | None = None) -> OpTimes:
    """Return the figures of the spans that are like `span`.

    Raises Cancelled between its steps.
    """
    return times_of(trace, alike(trace, span), context)


def group_times(
    index: TraceIndex, group: SpanGroup, context: TaskContext | None = None
) -> OpTimes:
    """Return the figures of the spans of a row of statistics.

    Raises Cancelled between its steps.
    """
    return times_of(index.trace, spans_of_group(index, group, context), context)


def times_of(trace: Trace, ids: Array, context: TaskContext | None = None) -> OpTimes:
    """Return the figures of some spans. Raises Cancelled between its steps."""
    if context is not None:
        context.check_cancelled()
    n_ops = int(np.count_nonzero(~is_repeated(trace.spans.flags[ids])))
    quality = quality_of(trace.spans.flags[ids])
    timed = ids[quality <= Quality.DERIVED]
    if not len(timed):
        none = np.zeros(0, np.int64)
        return OpTimes(len(ids), 0, none, none, np.nan, np.nan, 0, 0, n_ops)
    ticks = trace.spans.end[timed] - trace.spans.start[timed]
    if context is not None:
        context.check_cancelled()
    p50, p99 = map(float, np.percentile(ticks, [50, 99]))
    counts, edges = histogram(trace, timed, BINS)
    low, high = int(ticks.min()), int(ticks.max())
    return OpTimes(
        len(ids), len(timed), counts, edges, p50, p99, low, high, n_ops,
        int(ticks.sum()),
    )  # fmt: skip


def alike(trace: Trace, span: int) -> Array:
    """Return the ids of all spans of the same op; of no op: of the same name."""
    spans = trace.spans
    if int(spans.op[span]) >= 0:
        return np.flatnonzero(spans.op == spans.op[span])
    same = (spans.name == spans.name[span]) & (spans.lane == spans.lane[span])
    return np.flatnonzero(same & (spans.op < 0))


@guarded
class OpHistogram(Themed):
    """Durations of all spans of an op, with the place of the selected one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.times: OpTimes | None = None
        self._ticks = -1
        self._unit: Unit = "ns"
        self._key = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(scaled(88))
        self.setAccessibleName("Durations of this op")

    def set_times(
        self, times: OpTimes | None, ticks: int, unit: Unit, color_key: str
    ) -> None:
        """Show `times` and where `ticks` lies in them; -1 = nowhere."""
        self.times, self._ticks, self._unit, self._key = times, ticks, unit, color_key
        if times is not None and times.timed:
            self.setAccessibleDescription(self.caption())
            set_tip(self, self._tip(times))
        self.update()

    def caption(self) -> str:
        """Return "p50 207 µs · p99 311 µs"."""
        if self.times is None or not self.times.timed:
            return ""
        p50 = format_duration(self.times.p50, self._unit)
        p99 = format_duration(self.times.p99, self._unit)
        return f"p50 {p50} · p99 {p99}"

    def _tip(self, times: OpTimes) -> str:
        unit = self._unit
        lines = [
            f"shortest: {format_exact(times.low, unit)}",
            f"longest: {format_exact(times.high, unit)}",
            f"with a time of their own: {format_count(times.timed)} "
            f"of {format_count(times.n)}",
        ]
        return "\n".join(lines)

    def _bin(self) -> int:
        """Return the bar of the selected span, -1 for none."""
        times = self.times
        if times is None or self._ticks < 0 or not len(times.counts):
            return -1
        place = int(np.searchsorted(times.edges, self._ticks, "right")) - 1
        return min(max(place, 0), len(times.counts) - 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw bars and their captions."""
        times = self.times
        with QPainter(self) as painter:
            theme = self._theme
            if times is None or not times.timed:
                painter.setFont(words_font(12))
                painter.setPen(qcolor(theme.dim))
                words = "counting…" if times is None else "No span has its own time."
                painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, words)
                return
            foot = scaled(36)
            self._paint_bars(painter, times, self.height() - foot)
            painter.setPen(qcolor(theme.dim))
            painter.setFont(mono_font(11))
            line = QRect(0, self.height() - foot, self.width(), foot // 2)
            middle = Qt.AlignmentFlag.AlignVCenter
            for side, text in (
                (Qt.AlignmentFlag.AlignLeft, format_duration(times.low, self._unit)),
                (Qt.AlignmentFlag.AlignRight, format_duration(times.high, self._unit)),
            ):
                painter.drawText(line, side | middle, text)
            line.translate(0, foot // 2)
            painter.drawText(
                line, Qt.AlignmentFlag.AlignHCenter | middle, self.caption()
            )

    def _paint_bars(self, painter: QPainter, times: OpTimes, height: int) -> None:
        theme = self._theme
        n, highest = len(times.counts), max(1, int(times.counts.max()))
        step = self.width() / max(n, 1)
        mine = self._bin()
        color = category_color(self._key or "none", theme)
        painter.fillRect(QRectF(0, height - 1, self.width(), 1), qcolor(theme.line))
        for k, count in enumerate(times.counts):
            if not count and k != mine:
                continue
            bar = max(1.0, float(count) / highest * (height - 4))
            box = QRectF(k * step, height - bar, max(step - 1, 1), bar)
            painter.fillRect(box, qcolor(theme.selection if k == mine else color))


@dataclass(frozen=True, slots=True, eq=False)
class EntityStats:
    """What takes a look at all spans.

    Attributes
    ----------
    leaf : what a nameless input is for, "" where nothing tells.
    """

    figures: Usage
    leaf: str = ""


def thing_news(
    trace: Trace,
    selection: Selection,
    correlation: Correlation | None,
    context: TaskContext | None = None,
) -> EntityStats:
    """Return the news of a thing. Raises Cancelled from the context."""
    figures = usage_of(trace, selection, correlation, context)
    row = selection.active if selection.table == "tensors" else None
    if row is None or not tensor_name(trace, row).startswith(_LEAF):
        return EntityStats(figures)
    return EntityStats(figures, leaf_words(trace).get(row, ""))


def group_facts(trace: Trace, group: SpanGroup, times: OpTimes | None) -> SelectedFacts:
    """Return what is known of a row of statistics; `times` None = still counting."""
    unit = trace.clock.unit
    facts = []
    if group.time is not None:
        length = format_duration(group.time.duration, unit)
        exact = " – ".join(
            exact_time_text(trace, tick) for tick in (group.time.start, group.time.end)
        )
        facts.append(Fact("touching a range of", length, exact))
    if group.lanes is not None:
        facts.append(Fact("lanes", format_count(len(group.lanes))))
    if group.ids:
        facts.append(Fact("of selected spans", format_count(len(group.ids))))
    if group.where:
        facts.append(Fact("filter", format_filter(group.where)))
    labels = ("spans", "sum", "mean", "shortest", "longest")
    if times is None:
        facts += [Fact(label, COUNTING) for label in labels]
    else:
        facts.append(Fact("spans", format_count(times.n)))
        if times.n_ops != times.n:
            facts.append(Fact("ops", format_count(times.n_ops)))
        if times.timed:
            ticks = (times.total, times.total / times.timed, times.low, times.high)
            facts += [
                Fact(label, format_duration(n, unit), format_exact(round(n), unit))
                for label, n in zip(labels[1:], ticks, strict=True)
            ]
        if times.timed < times.n:
            left_out = format_count(times.n - times.timed)
            facts.append(Fact("without a time of their own", left_out, caution=True))
    name = GROUPINGS.get(group.by, group.by)
    return SelectedFacts(group.key, f"{name} · row of statistics", tuple(facts))


def exists(trace: Trace, selection: Selection) -> bool:
    """Tell whether the active row of a selection is there."""
    row = selection.active
    if row is None or row < 0:
        return False
    if selection.group is not None:
        return True
    if selection.table == "tensors":
        return row < len(trace.tensors)
    if selection.table == "buffers":
        return row < len(trace.buffers)
    if selection.table == "nodes":
        return row < first_node(trace.graphs, len(trace.graphs))
    return selection.table == "experts"


def facts_of(
    trace: Trace,
    selection: Selection,
    news: EntityStats | None,
    correlation: Correlation | None,
    *,
    absolute: bool,
) -> SelectedFacts:
    """Return what is known of the active thing; `news` None = still counting."""
    row = selection.active
    assert row is not None
    figures = None if news is None else news.figures
    if selection.table == "tensors":
        leaf = "" if news is None else news.leaf
        return tensor_facts(trace, row, figures, leaf, absolute=absolute)
    if selection.table == "buffers":
        return buffer_facts(trace, row, figures, absolute=absolute)
    if selection.table == "nodes":
        return node_facts(trace, row, figures, correlation, absolute=absolute)
    return expert_facts(trace, row, figures, absolute=absolute)


@dataclass(frozen=True, slots=True)
class Group:
    """Related things under a head; `n` counts also those that are not listed."""

    title: str
    items: tuple[Related, ...]
    n: int


def groups_of(trace: Trace, selection: Selection, found: Linked) -> tuple[Group, ...]:
    """Return what a thing reads or holds, and what reads it: two groups at most."""
    row = selection.active
    if row is None or selection.group or not exists(trace, selection):
        return ()
    if selection.table == "nodes":
        sources, readers = neighbours(trace, row)
        return (
            _nodes(trace, "Predecessors", sources),
            _nodes(trace, "Successors", readers),
        )
    if found.selection != selection:
        return ()
    if selection.table == "tensors":
        return (_nodes(trace, "Nodes", found.nodes.tolist()),)
    return (_tensors(trace, found.accessed),)


def placed_tensors(trace: Trace, found: Linked) -> I64:
    """Return those of the linked tensors that lie in the model file, sources first."""
    others = distinct(found.tensors)
    others = others[~np.isin(others, found.accessed)]
    rows = np.concatenate([found.accessed, others])
    rows = rows[rows < len(trace.tensors)]
    return np.asarray(rows[trace.tensors.offset[rows] >= 0], np.int64)


def filter_of(trace: Trace, selection: Selection) -> Filter | None:
    """Return the filter that shows only the spans of a thing; None where none does."""
    row = selection.active
    if row is None or not exists(trace, selection):
        return None
    if selection.group is not None:
        return filter_of_group(selection.group.by, selection.group.key)
    if selection.table == "tensors":
        return Filter(tensors=frozenset({tensor_name(trace, row)}))
    if selection.table == "buffers":
        address = int(trace.buffers.address[row])
        return Filter(buffers=frozenset({address})) if address else None
    if selection.table == "experts":
        layer, expert = of_expert_key(row)
        return Filter(experts=frozenset({expert}), layers=frozenset({layer}))
    number, place = locate_node(trace.graphs, row)
    graph = trace.graphs[number]
    name = trace.strings[int(graph.name[place])]
    op = trace.op_name(int(graph.op[place]))
    if not name:
        return None
    ops = frozenset({op}) if op else None
    return Filter(tensors=frozenset({normalise(name) or name}), ops=ops)


def _nodes(trace: Trace, title: str, ids: list[int]) -> Group:
    items = []
    for node in ids[:MAX_RELATED]:
        number, row = locate_node(trace.graphs, node)
        graph = trace.graphs[number]
        name = trace.strings[int(graph.name[row])] or "–"
        op = trace.op_name(int(graph.op[row]))
        text = f"{name} · {op}" if op else name
        items.append(
            Related(text, node_words(trace, node), Selection("nodes", (node,)))
        )
    return Group(title, tuple(items), len(ids))


def _tensors(trace: Trace, rows: I64) -> Group:
    items = tuple(
        Related(
            tensor_name(trace, row),
            f"Select the tensor {tensor_name(trace, row)}",
            Selection("tensors", (row,)),
        )
        for row in rows[:MAX_RELATED].tolist()
    )
    return Group("Tensors", items, len(rows))
