"""Links of Details: to other views, to related entities, to the spans of an entity."""

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ggscope.analysis.links import Linked
from ggscope.entities.entity import MAX_RELATED, Related
from ggscope.model.selection import Selection, TableName
from ggscope.model.tables import I64, distinct
from ggscope.model.trace import Trace
from ggscope.model.units import format_count
from ggscope.render.theme import Theme
from ggscope.views.base.safe_text import Label, set_tip
from ggscope.views.base.widgets import (
    LinkButton,
    heading_font,
    lay_out,
    scaled,
    set_label_color,
    ui_font,
)


class ShowLinks(QWidget):
    """A link for each other view that can show the selection."""

    requested = Signal(object, str)  # Selection to make, id of the view

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._targets: dict[LinkButton, tuple[Selection, str]] = {}
        self.graph = LinkButton(
            "Show in graph", "Select its node in the graph and show it", self
        )
        self.file_map = LinkButton(
            "Show in file map",
            "Select the weight that it reads and show its place in the file",
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

    def set_linked(self, trace: Trace, linked: Linked) -> None:
        """Show the links to views that have something of the selection."""
        selection = linked.selection
        self._targets = {}
        offers: tuple[tuple[LinkButton, TableName, I64, str], ...] = (
            (self.graph, "nodes", linked.nodes, "graph"),
            (self.file_map, "tensors", _placed_tensors(trace, linked), "heatmap"),
            (self.experts, "experts", linked.experts, "experts"),
            (self.buffers, "buffers", linked.buffers, "buffers"),
        )
        for link, table, ids, view_id in offers:
            if selection.table == table:
                self._targets[link] = (selection, view_id)
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
            self.requested.emit(*self._targets[sender])


class RelatedList(QWidget):
    """A heading and a link per related entity; hidden while there is none.

    Links are reused, so that stepping through spans creates no widgets.
    """

    chosen = Signal(object)  # Selection

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.items: tuple[Related, ...] = ()
        self._head = Label(parent=self)
        self._head.setFont(heading_font())
        self._head.setWordWrap(True)
        self._head.setContentsMargins(0, scaled(10), 0, scaled(2))
        self.more = Label(parent=self)
        self.more.setFont(ui_font(11.5))
        self.more.setWordWrap(True)
        self._theme: Theme | None = None
        self.links: list[LinkButton] = []
        self._layout = lay_out(QVBoxLayout(self), self._head, self.more)
        self.hide()

    def set_items(
        self, title: str, items: tuple[Related, ...], n: int, note: str = ""
    ) -> None:
        """List `items`; `n` counts those that are not listed, too.

        The note says what is not known of them, a line each.
        """
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
        n_hidden = n - len(shown)
        texts = [f"and {format_count(n_hidden)} more"] if n_hidden > 0 else []
        texts += note.splitlines()
        self.more.setVisible(bool(texts))
        self.more.setText("\n".join(texts))
        self.setVisible(bool(items or note))

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        set_label_color(self._head, theme.dim)
        set_label_color(self.more, theme.dim)
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
    """The number of spans of an entity, and steps from one to the next."""

    stepped = Signal(int)  # +1 or -1
    taken = Signal()  # select the span that is shown now

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = Label(parent=self)
        self._label.setFont(ui_font(12))
        self.previous = LinkButton("Previous", "Go to the previous span (,)", self)
        self.next = LinkButton("Next", "Go to the next span (.)", self)
        self.take = LinkButton("Select span", "Select the current span", self)
        self.previous.clicked.connect(self._on_previous)
        self.next.clicked.connect(self._on_next)
        self.take.clicked.connect(self.taken)
        # Below the number: beside one of millions they are wider than a narrow pane.
        links = QHBoxLayout()
        lay_out(links, self.previous, self.next, self.take, None, spacing=10)
        margins = (0, scaled(6), 0, 0)
        lay_out(QVBoxLayout(self), self._label, links, margins=margins, spacing=2)

    @property
    def text(self) -> str:
        """The number of spans, or the position among them."""
        return self._label.text()

    def set_position(self, position: int, n_listed: int, n_spans: int) -> None:
        """Show the number of the current span; -1 = none yet."""
        text = "1 span" if n_spans == 1 else f"{format_count(n_spans)} spans"
        if position >= 0:
            text = f"span {format_count(position + 1)} of {format_count(n_spans)}"
        self._label.setText(text)
        tip = "Its spans are highlighted in the timeline and the table."
        if n_listed < n_spans:
            first = format_count(n_listed)
            tip = (
                f"The first {first} of its spans are highlighted in the timeline "
                "and the table; filter to see all."
            )
        set_tip(self._label, tip)
        self.take.setVisible(position >= 0)
        self.setVisible(n_spans > 0)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self._label, theme.text)
        for link in (self.previous, self.next, self.take):
            link.set_theme(theme)

    def _on_previous(self) -> None:
        self.stepped.emit(-1)

    def _on_next(self) -> None:
        self.stepped.emit(1)


def _placed_tensors(trace: Trace, linked: Linked) -> I64:
    """Return the linked tensors that have a place in the model file, sources first."""
    others = distinct(linked.tensors)
    others = others[~np.isin(others, linked.accessed)]
    rows = np.concatenate([linked.accessed, others])
    rows = rows[rows < len(trace.tensors)]
    return np.asarray(rows[trace.tensors.offset[rows] >= 0], np.int64)
