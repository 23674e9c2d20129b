"""Links of the Details pane: to other views, to related things, to linked spans."""

from dataclasses import dataclass

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ggscope.analysis.links import Linked
from ggscope.model.selection import Selection, TableName
from ggscope.model.tables import I64
from ggscope.model.units import format_count
from ggscope.render.theme import Theme
from ggscope.views.base.plain import Label, set_tip
from ggscope.views.base.widgets import (
    LinkButton,
    heading_font,
    lay_out,
    scaled,
    set_label_color,
    tr,
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
            tr("Show in graph"), tr("Select its node in the graph and show it"), self
        )
        self.file_map = LinkButton(
            tr("Show in file map"),
            tr("Select the weight that it reads, and show where it lies"),
            self,
        )
        self.experts = LinkButton(
            tr("Show in experts"), tr("Select its expert and show it"), self
        )
        self.buffers = LinkButton(
            tr("Show in buffers"), tr("Select its buffer and show it"), self
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
        self._more.setText(tr("and {0} more").format(format_count(left)))
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
        self.previous = LinkButton(
            tr("Previous"), tr("Show the span before ( , )"), self
        )
        self.next = LinkButton(tr("Next"), tr("Show the next span ( . )"), self)
        self.take = LinkButton(
            tr("Select it"), tr("Select the span that is shown now"), self
        )
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
        words = tr("1 span") if n_spans == 1 else tr("{0} spans")
        text = words.format(format_count(n_spans))
        if position >= 0:
            text = tr("span {0} of {1}").format(
                format_count(position + 1), format_count(n_spans)
            )
        self._words.setText(text)
        tip = tr("Spans that belong to it are lit in the timeline and the table.")
        if n_listed < n_spans:
            tip += " " + tr("Only the first {0} are; filter to see all.").format(
                format_count(n_listed)
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
