"""Header of the graph view, search in it, and highlighted paths."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QMenu,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.graph.measures import (
    CriticalPath,
    NodeMeasures,
    critical_path,
    edges_within,
    path_edges,
    predecessors,
    successors,
)
from ggscope.analysis.graph.search import find_nodes, op_text
from ggscope.errors import QueryError
from ggscope.model.graph import Graph, count_text
from ggscope.model.tables import I64, Quality
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.render.graph.look import GraphColorBy
from ggscope.render.graph.scene import Flags
from ggscope.render.theme import Theme, css
from ggscope.views.base.safe_text import ElidedLabel, Label, copy_text, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    combo_box,
    keeps_key,
    lay_out,
    mono_font,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)

if TYPE_CHECKING:
    from ggscope.views.graph.view import GraphView


@guarded
class _SearchField(QLineEdit):
    """Enter and Shift+Enter step through the hits, Esc ends the search."""

    stepped = Signal(int)
    left = Signal()

    def event(self, event: QEvent) -> bool:
        """Keep Enter and Esc from being commands of the window."""
        keys = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape)
        return keeps_key(event, lambda e: e.key() in keys) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step or leave; the rest is text."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.stepped.emit(-1 if is_back else 1)
        elif event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        else:
            super().keyPressEvent(event)


@guarded
class GraphHead(QWidget):
    """The controls of the graph pane; what does not fit is in the menu as well.

    Attributes
    ----------
    graphs, colors, layers : choosers of the graph, the colouring and the layer.
    search : field for names and ops.
    layers_menu, path_menu : filled by the view when they open.
    """

    graph_chosen = Signal(int)
    color_chosen = Signal(object)  # GraphColorBy
    layer_chosen = Signal(object)  # None = all

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.graphs = self._chooser("Graph", "Which graph to show")
        self.colors = self._chooser("Colour by", "Colour of the nodes")
        for word, by in self._color_text():
            self.colors.addItem(word, by)
        self.layers = self._chooser("Layer", "Draw one layer and its shared inputs")
        self.view_menu, self.view_button = self._menu(
            "View",
            "Expand layers, shared inputs, fit, critical path, export",
        )
        self.path_menu, self.path_button = self._menu(
            "Paths", "Predecessors, successors, critical path"
        )
        self.search = _SearchField(self)
        self.search.setPlaceholderText("Find name or op")
        self.search.setAccessibleName("Find in the graph")
        set_tip(
            self.search,
            "Find nodes by name or op; /…/ is a regular expression.\n"
            "Enter: next match, Shift+Enter: previous match",
        )
        self.search.setClearButtonEnabled(True)
        self.search.setFont(ui_font(12))
        self.search.setMinimumHeight(scaled(24))
        self.count = Label(parent=self)
        self.count.setFont(ui_font(11))
        self._arrange()
        self.graphs.activated.connect(self.graph_chosen)
        self.colors.activated.connect(self._on_color)
        self.layers.activated.connect(self._on_layer)

    def _color_text(self) -> tuple[tuple[str, GraphColorBy], ...]:
        return (
            ("category", GraphColorBy.CATEGORY),
            ("op family", GraphColorBy.FAMILY),
            ("time", GraphColorBy.TIME),
            ("accesses", GraphColorBy.ACCESSES),
            ("bytes", GraphColorBy.BYTES),
        )

    def _chooser(self, name: str, tip: str) -> QComboBox:
        made = combo_box(self, name, tip=tip)
        made.setMaximumWidth(scaled(150))
        made.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        made.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return made

    def _menu(self, text: str, tip: str) -> tuple[QMenu, QToolButton]:
        menu = QMenu(self)
        button = tool_button(self, f"{text}  ▾", tip, menu=menu)
        button.setAccessibleName(text)
        return menu, button

    def _arrange(self) -> None:
        row = lay_out(
            QHBoxLayout(self),
            self.graphs,
            self.colors,
            self.layers,
            self.view_button,
            self.path_button,
            None,
            self.count,
            spacing=6,
        )
        row.addWidget(self.search, 2)
        # Narrower than its controls: `_fit` hides those that do not fit.
        row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        self.search.setSizePolicy(
            QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed
        )
        self.search.setMaximumWidth(scaled(220))

    def set_trace(self, trace: Trace | None, number: int, layers: list[int]) -> None:
        """Offer the graphs of a trace and the layers of one of them."""
        graphs = () if trace is None else trace.graphs
        titles = [g.title or f"graph {i + 1}"
                  for i, g in enumerate(graphs)]  # fmt: skip
        shown = [self.graphs.itemText(i) for i in range(self.graphs.count())]
        if titles != shown:
            self.graphs.clear()
            self.graphs.addItems(titles)
        if graphs:
            self.graphs.setCurrentIndex(number)
            tip = "Which graph to show" + "\n" + count_text(graphs[number])
            set_tip(self.graphs, tip)
        self._set_layers(layers)
        self._fit()

    def _set_layers(self, layers: list[int]) -> None:
        shown = [self.layers.itemData(i) for i in range(self.layers.count())]
        if shown == [-1, *layers]:
            return
        self.layers.clear()
        self.layers.addItem("all layers", -1)
        for layer in layers:
            self.layers.addItem(f"layer {layer}", layer)

    def show_layer(self, layer: int | None) -> None:
        """Show which layer is isolated."""
        row = self.layers.findData(-1 if layer is None else layer)
        self.layers.setCurrentIndex(max(row, 0))

    def show_color(self, by: GraphColorBy) -> None:
        """Show what boxes are coloured by."""
        self.colors.setCurrentIndex(self.colors.findData(by))

    def show_hits(self, position: int, n: int) -> None:
        """Show the number of matches and the position among them."""
        if not self.search.text().strip():
            self.count.setText("")
        elif not n:
            self.count.setText("No matches")
        elif position < 0:
            self.count.setText(f"{n} hits")
        else:
            self.count.setText(f"{position + 1} of {n}")

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.count, theme.dim)
        for button in (self.view_button, self.path_button):
            button.setStyleSheet(tool_button_style(theme, theme.dim, padding=6))

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the pane likes: the rest goes into menus."""
        return QSize(scaled(120), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide controls that do not fit, the least important first."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Show controls by importance while they fit."""
        space_px = self.width()
        controls: list[tuple[QWidget, int]] = [
            (self.view_button, self.view_button.sizeHint().width()),
            (self.search, scaled(110)),
            (self.colors, self.colors.sizeHint().width()),
            (self.path_button, self.path_button.sizeHint().width()),
            (self.graphs, self.graphs.sizeHint().width()),
            (self.layers, self.layers.sizeHint().width()),
            (self.count, scaled(56)),
        ]
        for widget, width in controls:
            is_useful = (widget is not self.graphs or self.graphs.count() > 1) and (
                widget is not self.layers or self.layers.count() > 2
            )
            space_px -= width + 6 if is_useful else 0
            widget.setVisible(is_useful and space_px >= 0)

    def _on_color(self, row: int) -> None:
        self.color_chosen.emit(self.colors.itemData(row))

    def _on_layer(self, row: int) -> None:
        layer = int(self.layers.itemData(row))
        self.layer_chosen.emit(None if layer < 0 else layer)


@guarded
class PathBar(QWidget):
    """A bar that describes the highlighted path, lists its steps and copies them.

    Attributes
    ----------
    words : the description.
    steps : list of the steps, hidden until asked for.
    """

    closed = Signal()
    step_chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.message = ElidedLabel(self)
        self.message.setFont(ui_font(12))
        self.steps = QListWidget(self)
        self.steps.setFont(mono_font(11.5))
        self.steps.setAccessibleName("Steps of the critical path")
        self.steps.setMaximumHeight(scaled(160))
        self.steps.setUniformItemSizes(True)
        self.steps.hide()
        self.steps.currentRowChanged.connect(self._on_row)
        self.list_button = tool_button(self, "Steps", "List steps")
        self.list_button.setCheckable(True)
        self.list_button.toggled.connect(self.steps.setVisible)
        self.copy_button = tool_button(
            self,
            "Copy",
            "Copy the critical path with its steps",
            lambda: copy_text(self.text()),
        )
        self.close_button = tool_button(
            self, "Clear", "Show all nodes again (Esc)", self.closed
        )
        row = lay_out(
            QHBoxLayout(),
            self.message,
            self.list_button,
            self.copy_button,
            self.close_button,
            margins=(12, 2, 8, 2),
            spacing=4,
            wide=self.message,
        )
        lay_out(QVBoxLayout(self), row, self.steps)
        self.hide()

    def say(self, message: str, steps: Sequence[str]) -> None:
        """Show a sentence and its steps; "" hides the bar."""
        self.message.setText(message)
        self.steps.blockSignals(True)
        self.steps.clear()
        self.steps.addItems(list(steps))
        self.steps.blockSignals(False)
        self.list_button.setVisible(bool(steps))
        if not steps:
            self.list_button.setChecked(False)
        self.setVisible(bool(message))

    def text(self) -> str:
        """Return the sentence and the steps, a line each."""
        lines = [self.steps.item(i).text() for i in range(self.steps.count())]
        return "\n".join([self.message.full_text, *lines])

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.message, theme.text)
        self.steps.setStyleSheet(
            f"QListWidget {{ background: {css(theme.pane)}; border: none;"
            f" color: {css(theme.text)}; }}"
        )

    def _on_row(self, row: int) -> None:
        if row >= 0:
            self.step_chosen.emit(row)


@dataclass(frozen=True, slots=True, eq=False)
class HighlightedPath:
    """What is highlighted.

    Attributes
    ----------
    nodes : bool[n].
    edges : bool[m].
    steps : rows of its nodes in order; empty where it is no single path.
    """

    nodes: Flags
    edges: Flags
    steps: I64


class Paths:
    """Lights paths in a view, and says so in its bar.

    Attributes
    ----------
    highlighted : what is highlighted now, or None.
    """

    def __init__(self, view: "GraphView") -> None:
        self._view = view
        self.highlighted: HighlightedPath | None = None

    def bright_edges(self) -> Flags | None:
        """Return bool[m]: edges of the path, else those of the one selected node."""
        graph, rows = self._view.graph, self._view.selected_rows()
        if self.highlighted is not None:
            return self.highlighted.edges
        if graph is None or len(rows) != 1:
            return None
        edges: Flags = (graph.source == rows[0]) | (graph.target == rows[0])
        return edges

    def clear(self) -> None:
        """Light nothing."""
        self.highlighted = None
        self._view.path_bar.say("", ())
        self._view.repaint_picture()

    def show_sources(self) -> None:
        """Light all nodes that the selected ones are computed from."""
        self._show_reached(is_back=True)

    def show_users(self) -> None:
        """Light all nodes that are computed from the selected ones."""
        self._show_reached(is_back=False)

    def _show_reached(self, *, is_back: bool) -> None:
        view, graph, rows = self._view, self._view.graph, self._view.selected_rows()
        if graph is None or view.shown is None or not len(rows):
            return
        reach = predecessors if is_back else successors
        nodes = reach(graph, rows)
        name = view.shown.trace.strings[int(graph.name[rows[0]])]
        if len(rows) > 1:
            name = f"{format_count(len(rows))} nodes"
        text = "{0} lead to {1}" if is_back else "{0} follow from {1}"
        n = int(nodes.sum()) - len(np.unique(rows))
        count = "1 node" if n == 1 else "{0} nodes"
        self._light(
            HighlightedPath(nodes, edges_within(graph, nodes), np.zeros(0, np.int64))
        )
        view.path_bar.say(text.format(count.format(format_count(n)), name), ())

    def show_critical(self) -> None:
        """Highlight the critical path, once a worker has computed it."""
        view = self._view
        if view.shown is None:
            return
        if view.measures is None:
            view.path_bar.say("Still matching the trace with the graph", ())
            return
        trace, number, measures = view.shown.trace, view.shown.number, view.measures

        def on_path(path: CriticalPath) -> None:
            shown = view.shown
            if shown is not None and shown.trace is trace and shown.number == number:
                self._show_path(trace, trace.graphs[number], measures, path)

        request = partial(critical_path, trace.graphs[number], measures.time)
        view.run("graph-path", request, on_path, "Computing the critical path")

    def _show_path(
        self, trace: Trace, graph: Graph, measures: NodeMeasures, path: CriticalPath
    ) -> None:
        view, unit = self._view, trace.clock.unit
        if not len(path.nodes):
            self.clear()
            view.path_bar.say("No critical path: no node has a recorded time", ())
            return
        nodes = np.zeros(len(graph), np.bool_)
        nodes[path.nodes] = True
        self._light(HighlightedPath(nodes, path_edges(graph, path.nodes), path.nodes))
        total = format_duration(round(path.total), unit)
        everything = format_duration(round(path.everything), unit)
        text = (
            f"Critical path: {total} of {everything} "
            f"({format_share(path.total / path.everything)}) "
            f"in {format_count(len(path.nodes))} steps"
        )
        untimed = len(path.nodes) - path.n_timed
        if untimed:
            text += f", {format_count(untimed)} without a recorded time"
        timed = path.nodes[~np.isnan(measures.time[path.nodes])]
        worst = Quality(int(measures.quality[timed].max()))
        if worst is not Quality.MEASURED:
            text += f"; times are {worst.name.lower()}"
        lines = []
        for number, node in enumerate(path.nodes.tolist(), 1):
            name = trace.strings[int(graph.name[node])]
            took = measures.time[node]
            time = format_duration(round(took), unit) if took == took else "no time"
            op = op_text(trace, graph, node)
            lines.append(f"{number:>5}  {time:>10}  {op:<16} {name}")
        view.path_bar.say(text, lines)

    def go_to_step(self, step: int) -> None:
        """Go to a step of the path."""
        if self.highlighted is not None and step < len(self.highlighted.steps):
            self._view.go_to(int(self.highlighted.steps[step]))

    def _light(self, highlighted: HighlightedPath) -> None:
        self.highlighted = highlighted
        self._view.repaint_picture()


class Hits:
    """Finds nodes of the graph that a view draws.

    Attributes
    ----------
    rows : int64[k], nodes found, in the order of the program.
    position : which of them one is at, -1 = none yet.
    """

    def __init__(self, view: "GraphView") -> None:
        self._view = view
        self.forget()

    def forget(self) -> None:
        """Clear the matches."""
        self.rows = np.zeros(0, np.int64)
        self.position = -1

    def search(self, text: str) -> None:
        """Find the nodes whose name or op has `text` in it."""
        self.forget()
        view, problem = self._view, ""
        if view.shown is not None and view.graph is not None:
            try:
                self.rows = find_nodes(view.shown.trace, view.graph, text)
            except QueryError as error:
                problem = str(error)
        set_tip(view.head.count, problem)
        view.head.show_hits(self.position, len(self.rows))
        view.repaint_picture()

    def step(self, by: int) -> None:
        """Select the next (+1) or previous (-1) node; its layer opens."""
        if not len(self.rows):
            return
        if self.position < 0:
            self.position = 0 if by > 0 else len(self.rows) - 1
        else:
            self.position = (self.position + by) % len(self.rows)
        self._view.head.show_hits(self.position, len(self.rows))
        self._view.go_to(int(self.rows[self.position]))
