"""The graph pane: the network that was computed, layer by layer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from PySide6.QtCore import QEvent, QPointF, Qt, QTimer
from PySide6.QtGui import QCursor, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.graph.layout import (
    FRAME_HEAD,
    BoxKind,
    Cache,
    GraphChoice,
    view_ops,
)
from ggscope.analysis.graph.measures import NodeMeasures, node_measures
from ggscope.analysis.links import Linked
from ggscope.model.graph import Graph, first_node, locate_node
from ggscope.model.selection import Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.export import Figure
from ggscope.render.graph.compose import compose_graph
from ggscope.render.graph.look import GraphColorBy
from ggscope.render.graph.marks import minimap_place
from ggscope.render.graph.scene import Flags, GraphScene
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.widgets import keeps_key
from ggscope.views.graph.head import GraphHead, Hits, PathBar, Paths
from ggscope.views.graph.interaction import Gestures, command_of, connect_menus, menu_of
from ggscope.views.graph.legend import LegendStrip
from ggscope.views.graph.viewport import (
    READABLE_ZOOM,
    Anchor,
    Camera,
    GraphHit,
    LookCache,
    Shown,
    anchor_of,
    hit_at,
    laid_out,
    layer_in_view,
    linked_nodes,
    mask_of,
    nodes_in,
    nodes_of,
    put_back,
    tooltip_for,
)

Band = tuple[float, float, float, float]
_WIDE = {False: 2.2, True: 1.9}
"""Times as wide as high a pane has to be for a graph from left to right; for one that
leads so already less: a pane that is dragged does not turn it to and fro."""
_TURN_MS = 250
_MIN_ZOOM = 0.4
"""A layer that is opened makes the picture no smaller than this."""


class GraphView(PaintedView):
    """Nodes and edges of one graph, with the layers of the network closed at first.

    Attributes
    ----------
    camera : where one looks from.
    head : controls in the head of the pane.
    path_bar : what is highlighted, below the picture.
    paths : the path that is highlighted.
    hits : what the search found.
    """

    draw_scene = staticmethod(compose_graph)
    no_trace_text = (
        "No graph in this trace",
        "Open a graph file (JSON or DOT), or the folder of the experiment.",
    )

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Graph", session, theme, parent)
        self.setObjectName("graph")
        self.camera = Camera()
        self.head = GraphHead(self)
        self.head.hide()
        self.path_bar = PathBar(self)
        self.legend = LegendStrip(self)
        self.box.addWidget(self.legend)
        self.box.addWidget(self.path_bar)
        self.direction = "auto"
        self._hides_views = False
        self._size = (0.0, 0.0)
        self._turn_later = QTimer(self, singleShot=True, interval=_TURN_MS)
        self._turn_later.timeout.connect(self._turn)
        self.gestures = Gestures(self)
        self.paths = Paths(self)
        self.hits = Hits(self)
        self._forget()
        self.color_by = GraphColorBy.CATEGORY
        self._connect_head()
        self.set_theme(theme)
        self.connect_until_release(
            (session.selection.changed, self._on_selection),
            (session.linking.linked_changed, self._on_linked),
            (session.linking.correlation_changed, self._on_correlation),
            (session.navigator.show_requested, self._on_show_requested),
        )

    def _connect_head(self) -> None:
        head = self.head
        head.graph_chosen.connect(self.show_graph)
        head.color_chosen.connect(self.set_color_by)
        head.layer_chosen.connect(self.isolate_layer)
        head.search.textChanged.connect(self.hits.search)
        head.search.stepped.connect(self.hits.step)
        head.search.left.connect(self.setFocus)
        connect_menus(self)
        self.path_bar.closed.connect(self.paths.clear)
        self.path_bar.step_chosen.connect(self.paths.go_to_step)

    def _forget(self) -> None:
        """Forget everything about the trace."""
        self.number = 0
        self.choice: GraphChoice | None = None
        self.shown: Shown | None = None
        self._cache: Cache = {}
        self._measures: dict[int, NodeMeasures] = {}
        self._looks = LookCache()
        self._found = self.session.linking.linked
        self._linked: Flags | None = None
        self._own = Selection()
        self._selects_nodes = self.session.selection.current.table == "nodes"
        self.hits.forget()
        self._hover = -1
        self._band: Band | None = None
        self._anchor: Anchor | None = None
        self._looks_anew = False
        self._requested: I64 | None = None
        self._opens_requested = False
        self._before_click: tuple[Selection, Selection] | None = None

    # -- session ---------------------------------------------------------------

    def head_widget(self) -> QWidget | None:
        """Return the controls, for the head of the pane."""
        return self.head

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.head.set_theme(theme)
        self.path_bar.set_theme(theme)
        self.legend.update()

    @property
    def trace(self) -> Trace | None:
        """The trace, if it has a graph."""
        trace = self.session.trace
        return trace if trace is not None and trace.graphs else None

    @property
    def graph(self) -> Graph | None:
        """The graph that is drawn."""
        shown = self.shown
        return None if shown is None else shown.trace.graphs[shown.number]

    @property
    def measures(self) -> NodeMeasures | None:
        """What the trace says of the nodes; None until it is counted."""
        return None if self.shown is None else self._measures.get(self.shown.number)

    def forget(self) -> None:
        """Show no graph."""
        self._forget()
        self.head.set_trace(None, 0, [])
        self.repaint_picture()

    def compute(self, trace: Trace) -> None:
        """Lay out the graph of the trace, and count what the trace says of it."""
        if not trace.graphs:
            self.forget()
            return
        self._measures.clear()
        if self.number >= len(trace.graphs):
            self.number = 0
        self._found = self.session.linking.linked  # a selection older than this view
        self._lay_out()

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        if trace.graphs:
            return "Laying out the graph", ""
        if trace.is_unread:
            return "Still reading", ""
        return self.no_trace_text

    # -- what is shown ---------------------------------------------------------

    def show_graph(self, number: int) -> None:
        """Show another graph of the trace; the place and open layers stay."""
        if self.trace is not None and number != self.number:
            self.number = number
            self.paths.clear()
            self._lay_out()

    def set_color_by(self, by: GraphColorBy) -> None:
        """Colour the boxes by something else."""
        self.color_by = by
        self.head.show_color(by)
        self.repaint_picture()

    def repaint_picture(self, _: object = None) -> None:
        """Draw the picture and its legend again, soon."""
        super().repaint_picture()
        self.legend.refresh()

    def set_choice(self, choice: GraphChoice, layer: int = -1) -> None:
        """Show other layers; the box of `layer` stays where it is in the picture."""
        self._anchor = anchor_of(self.shown, self.camera, layer)
        self.choice = choice
        self.head.show_layer(choice.layer)
        self._lay_out()

    def toggle_layer(self, layer: int) -> None:
        """Open or close a layer."""
        shown = self.shown
        if shown is None or layer < 0:
            return
        choice, everything = shown.layout.choice, shown.layout.layers.numbers
        if choice.layer is not None:  # leaving the isolated layer shows it closed
            self.set_choice(replace(choice, layer=None), layer)
            return
        opened = choice.opened
        if opened is None:
            opened = frozenset(everything.tolist())
        self.set_choice(replace(choice, opened=opened ^ {layer}), layer)

    def open_all(self, is_open: bool) -> None:
        """Open or close all layers."""
        if self.shown is not None:
            opened = None if is_open else frozenset[int]()
            choice = replace(self.shown.layout.choice, opened=opened, layer=None)
            self.set_choice(choice, layer_in_view(self.scene_now()))

    def isolate_layer(self, layer: int | None) -> None:
        """Show one layer with the inputs that it shares, or all (None)."""
        if self.shown is not None:
            self._looks_anew = True
            self.set_choice(replace(self.shown.layout.choice, layer=layer))

    def repeat_inputs(self, repeats: bool) -> None:
        """Draw shared inputs beside each user, or once."""
        if self.shown is not None:
            choice = replace(self.shown.layout.choice, repeats_inputs=repeats)
            self.set_choice(choice, layer_in_view(self.scene_now()))

    def _lay_out(self) -> None:
        trace = self.trace
        if trace is None:
            return
        way = self._is_across()
        request = partial(
            laid_out, trace, self.number, self.choice, self._cache,
            across=way, hides_views=self._hides_views,
        )  # fmt: skip
        self.run("graph", request, self._on_laid_out, "Laying out the graph")

    def _on_laid_out(self, shown: Shown) -> None:
        if shown.trace is not self.trace or shown.number != self.number:
            return
        old, self.shown, self.choice = self.shown, shown, shown.layout.choice
        self._hover = -1
        layers = shown.layout.layers.numbers.tolist()
        self.head.set_trace(shown.trace, shown.number, layers)
        self.head.show_layer(shown.layout.choice.layer)
        is_turned = old is not None and old.layout.choice.across != self.choice.across
        if self._looks_anew or (is_turned and self.camera.fits):
            self._looks_anew = self.camera.is_set = False
        elif is_turned:
            self._look_at_layer(shown)
        elif self._anchor is not None:
            put_back(self._anchor, shown, self.camera)
            if self._requested is None:  # else one looks at a node of the layer
                self._bring_in_opened(old, shown, self._anchor[0])
        self._anchor = None
        self._linked = linked_nodes(shown, self._found)
        if old is None or old.trace is not shown.trace or old.number != shown.number:
            self.hits.search(self.head.search.text())
        if self._requested is not None and self._opens_requested:
            self._open_on(int(self._requested[0]))
        elif self._requested is not None:
            self.reveal(self._requested)
        elif old is None and self.session.navigator.is_shown_in("graph"):
            self._on_show_requested("graph")
        elif old is None and len(self._found.nodes):
            self.scene_now()  # opens the camera on the whole graph first
            self._show_node(tuple(self._found.nodes.tolist()))
        self._measure()
        self.repaint_picture()

    def _look_at_layer(self, shown: Shown) -> None:
        """Look at the layer that one looked at before, from where it begins now."""
        size, layout = self.canvas_size(), shown.layout
        self.camera.open_on(layout, size.width(), size.height())
        box = -1 if self._anchor is None else layout.box_of_layer(self._anchor[0])
        if box >= 0:
            x, y = float(layout.x0[box]), float(layout.y0[box])
            wide, high = float(layout.x1[box]) - x, float(layout.y1[box]) - y
            side = min(wide, high)
            place = (x, y, x + side, y + side)
            self.camera.bring_in(place, size.width(), size.height(), READABLE_ZOOM)
        self.reveal(self.selected_rows())
        self.camera.fill(layout, size.width(), size.height())

    def _bring_in_opened(self, old: Shown | None, shown: Shown, layer: int) -> None:
        """Let all of a layer be seen that was just opened."""
        box, size = shown.layout.box_of_layer(layer), self.canvas_size()
        before = -1 if old is None else old.layout.box_of_layer(layer)
        was_closed = before >= 0 and old.layout.kind[before] == BoxKind.LAYER  # type: ignore[union-attr]
        if box < 0 or not was_closed or shown.layout.kind[box] != BoxKind.FRAME:
            return
        layout = shown.layout
        place = (layout.x0[box], layout.y0[box], layout.x1[box], layout.y1[box])
        across, camera = layout.choice.across, self.camera
        x0, y0, x1, y1 = map(float, place)
        # Along the edges one reads on from where the layer begins, which stays there.
        if across:
            x1 = min(x1, x0 + FRAME_HEAD)
        else:
            y1 = min(y1, y0 + FRAME_HEAD)
        camera.bring_in((x0, y0, x1, y1), size.width(), size.height(), _MIN_ZOOM)

    def _measure(self) -> None:
        """Find what the trace says of the nodes, once spans and nodes are matched."""
        session, shown = self.session, self.shown
        if shown is None or shown.trace is not self.trace:
            return
        known = session.linking.correlation
        is_pending = known is None and session.tasks.is_running("correlation")
        if is_pending or shown.number in self._measures:
            return

        def on_measured(measures: NodeMeasures) -> None:
            if shown.trace is self.trace:
                self._measures[shown.number] = measures
                self.repaint_picture()

        request = partial(node_measures, shown.trace, shown.number, known)
        title = "Matching the graph with the trace"
        self.run("graph-measures", request, on_measured, title)

    def _on_correlation(self, _: object) -> None:
        self._measures.clear()
        self._measure()

    # -- places ----------------------------------------------------------------

    def pan_by(self, dx: float, dy: float) -> None:
        """Move the picture by so many pixels."""
        self.camera.pan(dx, dy)
        self._keep_in()

    def zoom_by(self, factor: float, x: float, y: float) -> None:
        """Zoom at a position of the picture."""
        self.camera.zoom_at(factor, x, y)
        self._keep_in()

    def fit(self) -> None:
        """Show the whole graph."""
        if self.shown is not None:
            size = self.canvas_size()
            self.camera.fit_whole(self.shown.layout, size.width(), size.height())
            self.repaint_picture()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit anew what was fitted; else keep what is in the middle there."""
        super().resizeEvent(event)
        before, now = event.oldSize().width(), event.size().width()
        if self.shown is not None and self.camera.is_set and before > 0:
            self.box.activate()  # the canvas has its new size from now on
            size, wider = self.canvas_size(), (now - before) / self.font_zoom
            self.camera.resize(self.shown.layout, size.width(), size.height(), wider)
            self.repaint_picture()
        self._turn_later.start()
        self.legend.refresh()

    def _turn(self) -> None:
        """Lay out the other way where the pane has another form now."""
        shown = self.shown
        if shown is not None and self._is_across() != shown.layout.choice.across:
            self.set_choice(shown.layout.choice, layer_in_view(self.scene_now()))

    def _is_across(self) -> bool:
        """Return whether the graph leads from left to right: where the pane is wide."""
        if self.direction != "auto":
            return self.direction == "right"
        size = self.canvas_size()
        shown = self.shown
        is_now = shown is not None and shown.layout.choice.across
        return size.width() > _WIDE[is_now] * max(size.height(), 1)

    def set_direction(self, direction: str) -> None:
        """Let edges lead "down", "right", or as the pane is wide: "auto"."""
        self.direction = direction
        self._turn()

    def hide_views(self, hides: bool) -> None:
        """Leave out ops that only look at their source otherwise, or draw them."""
        if self.shown is not None:
            self._hides_views = hides
            self.set_choice(self.shown.layout.choice, layer_in_view(self.scene_now()))

    @property
    def hides_views(self) -> bool:
        """Whether views, reshapes and the like are left out."""
        return self._hides_views

    def n_views(self) -> int:
        """Return how many ops of the graph compute nothing: views and the like."""
        if self.shown is None or self.graph is None:
            return 0
        numbers = view_ops(self.graph, self.shown.trace.op_name)
        return int(np.isin(self.graph.op, sorted(numbers)).sum())

    def _keep_in(self) -> None:
        if self.shown is not None:
            size, layout = self.canvas_size(), self.shown.layout
            self.camera.keep_in(
                layout.width, layout.height, size.width(), size.height()
            )
        self.repaint_picture()

    def reveal(self, rows: I64) -> None:
        """Bring nodes (rows of the graph) to the middle, large enough to read."""
        self._requested = None
        shown = self.shown
        if shown is None or not len(rows):
            return
        boxes = shown.layout.box_of[rows]
        boxes = boxes[boxes >= 0]
        if not len(boxes):
            return
        box, size = int(boxes[0]), self.canvas_size()
        layout = shown.layout
        if self.camera.zoom < READABLE_ZOOM / 2:
            self.camera.zoom = READABLE_ZOOM
        self.camera.centre(
            float(layout.x0[box] + layout.x1[box]) / 2,
            float(layout.y0[box] + layout.y1[box]) / 2,
            size.width(),
            size.height(),
        )
        self.repaint_picture()

    def centre_selection(self) -> None:
        """Centre the selected nodes; where they are centred already, fit them."""
        rows, shown = self.selected_rows(), self.shown
        if shown is None or not len(rows):
            return
        before = (self.camera.x, self.camera.y)
        self.reveal(rows)
        if before == (self.camera.x, self.camera.y):
            boxes = shown.layout.box_of[rows]
            boxes = boxes[boxes >= 0]
            layout, size = shown.layout, self.canvas_size()
            place = (
                float(layout.x0[boxes].min()), float(layout.y0[boxes].min()),
                float(layout.x1[boxes].max()), float(layout.y1[boxes].max()),
            )  # fmt: skip
            self.camera.fit(place, size.width(), size.height())
            self.repaint_picture()

    # -- picture ---------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> GraphScene | None:
        """Return what the picture is composed from."""
        shown = self.shown
        if shown is None:
            return None
        if not self.camera.is_set:
            self.camera.open_on(shown.layout, width, height)
        elif self._size != (width, height):  # a line came or went below the picture
            self.camera.refit(shown.layout, width, height)
        self._size = (width, height)
        highlighted = self.paths.highlighted
        # A span or a tensor is its node: it has the colour of the selection here too.
        is_same = self._found.selection.table in ("spans", "tensors")
        return GraphScene(
            trace=shown.trace,
            graph=shown.number,
            layout=shown.layout,
            look=self._looks.look(shown, self.color_by, self.measures, self.theme),
            width=width,
            height=height,
            theme=self.theme,
            scale=scale,
            x=self.camera.x,
            y=self.camera.y,
            zoom=self.camera.zoom,
            selected=self._linked if is_same else mask_of(shown, self.selected_rows()),
            linked=None if is_same else self._linked,
            hits=mask_of(shown, self.hits.rows),
            highlighted=None if highlighted is None else highlighted.nodes,
            highlighted_edges=self.paths.bright_edges(),
            hover=self._hover,
            band=self._band,
        )

    def figure(self, *, whole: bool = False) -> Figure | None:
        """Return the picture as it stands, or of all of the graph (`whole`)."""
        scene = self.scene_now()
        if scene is None:
            return None
        # Imported when it is asked for: the first picture does without.
        from ggscope.render.graph.figure import graph_scene_figure

        return graph_scene_figure(scene, self.measures, whole=whole)

    # -- selection -------------------------------------------------------------

    def selected_rows(self) -> I64:
        """Return the selected rows of the drawn graph, the active one first."""
        session, shown, graph = self.session, self.shown, self.graph
        if shown is None or graph is None:
            return np.zeros(0, np.int64)
        if session.selection.current.table != "nodes":
            return np.zeros(0, np.int64)
        first = first_node(shown.trace.graphs, shown.number)
        rows = np.array(session.selection.current.ids, np.int64) - first
        return rows[(rows >= 0) & (rows < len(graph))]

    def select_rows(self, rows: I64, *, adds: bool = False) -> None:
        """Select nodes of the drawn graph; with `adds` beside what is selected."""
        session, shown = self.session, self.shown
        if shown is None:
            return
        if adds:
            old = self.selected_rows()
            again = np.isin(rows, old).all() and len(rows) > 0
            others = old[~np.isin(old, rows)]
            rows = others if again else np.concatenate([rows, others])
        first = first_node(shown.trace.graphs, shown.number)
        ids = tuple((rows + first).tolist())
        self._own = Selection("nodes", ids) if ids else Selection()
        session.selection.select(self._own)

    def _on_selection(self, selection: Selection) -> None:
        if selection != self._own:
            self._own = Selection()
            if selection.table == "nodes":
                self._show_node(selection.ids)
        # Of anything else the picture changes when its nodes are known.
        is_node, self._selects_nodes = self._selects_nodes, selection.table == "nodes"
        if is_node or self._selects_nodes:
            self.repaint_picture()

    def _on_linked(self, linked: Linked) -> None:
        self._found = linked
        self._linked = linked_nodes(self.shown, linked)
        is_own = linked.selection.table == "nodes" or linked.selection == self._own
        if not is_own and len(linked.nodes):
            self._show_node(tuple(linked.nodes.tolist()))
        self.repaint_picture()

    def _show_node(self, ids: Sequence[int]) -> None:
        """Bring nodes into view, in the graph on show where one of them is in it."""
        trace, graph = self.trace, self.graph
        if trace is None or graph is None:
            return
        first = first_node(trace.graphs, self.number)
        rows = np.array(ids, np.int64) - first
        here = rows[(rows >= 0) & (rows < len(graph))]
        if len(here):
            self.reveal(here)
            return
        try:
            number, row = locate_node(trace.graphs, int(ids[0]))
        except IndexError:  # of an earlier trace
            return
        self._requested = np.array([row], np.int64)
        self.show_graph(number)

    def _on_show_requested(self, view_id: str) -> None:
        """Open the layer of the selected node and bring it to where it can be read."""
        selection, trace, graph = self.session.selection.current, self.trace, self.graph
        if view_id != "graph" or trace is None or selection.active is None:
            return
        nodes = selection.ids
        if selection.table != "nodes":
            nodes = tuple(self._found.nodes.tolist())
        if not nodes or graph is None:
            return  # a view that is made just now asks again
        first = first_node(trace.graphs, self.number)
        here = [i - first for i in nodes if 0 <= i - first < len(graph)]
        self.camera.zoom = max(self.camera.zoom, READABLE_ZOOM)
        if here:
            self._open_on(here[0])
            return
        try:
            number, row = locate_node(trace.graphs, int(nodes[0]))
        except IndexError:  # of an earlier trace
            return
        self._requested, self._opens_requested = np.array([row], np.int64), True
        self.show_graph(number)

    def go_to(self, row: int) -> None:
        """Select a node and bring it into view; its layer opens."""
        if self.shown is not None:
            self.select_rows(np.array([row], np.int64))
            self._open_on(row)

    def _open_on(self, row: int) -> None:
        """Bring a node into view; its layer opens."""
        shown = self.shown
        if shown is None:
            return
        rows = np.array([row], np.int64)
        self._opens_requested = False
        box = int(shown.layout.box_of[row])
        if box >= 0 and shown.layout.kind[box] == BoxKind.NODE:
            self.reveal(rows)
            return
        self._requested = rows
        layer, choice = int(shown.layout.layers.layer[row]), shown.layout.choice
        opened = choice.opened
        if opened is not None and layer >= 0:
            opened |= {layer}
        self.set_choice(replace(choice, layer=None, opened=opened), layer)

    # -- mouse -----------------------------------------------------------------

    def pointer_event(self, event: QEvent) -> bool:
        """Handle the mouse."""
        return self.shown is not None and self.gestures.handle(event)

    def hit(self, x: float, y: float) -> GraphHit:
        """Return what lies at a position of the picture."""
        scene = self.scene_now()
        return GraphHit() if scene is None else hit_at(scene, x, y)

    def hover_at(self, x: float, y: float) -> None:
        """Outline the box at a position."""
        hit = self.hit(x, y)
        is_link = hit.stub >= 0
        self.set_canvas_cursor(
            Qt.CursorShape.PointingHandCursor if is_link else Qt.CursorShape.ArrowCursor
        )
        self.set_hover(hit.box)

    def mouse_position(self) -> tuple[float, float] | None:
        """Return where in the picture the mouse is; None where it is elsewhere."""
        if not self.canvas.underMouse():
            return None
        at = QPointF(self.canvas.mapFromGlobal(QCursor.pos())) / self._zoom
        return at.x(), at.y()

    def set_hover(self, box: int) -> None:
        """Outline a box as the one under the mouse (-1: none)."""
        if box != self._hover:
            self._hover = box
            self.repaint_picture()

    def set_band(self, band: Band | None) -> None:
        """Show the rubber band."""
        if band != self._band:
            self._band = band
            self.repaint_picture()

    def select_band(self) -> None:
        """Select what the rubber band touches."""
        scene = self.scene_now()
        if scene is not None and self._band is not None:
            self.select_rows(nodes_in(scene, self._band))

    def click_at(self, x: float, y: float, *, adds: bool) -> None:
        """Select the box at a position, or jump along the stub there."""
        scene, shown, graph = self.scene_now(), self.shown, self.graph
        if scene is None or shown is None or graph is None:
            return
        hit = hit_at(scene, x, y)
        is_frame = hit.box >= 0 and shown.layout.kind[hit.box] == BoxKind.FRAME
        before = self.session.selection.current
        if hit.stub >= 0:
            layout = shown.layout
            ends = layout.stub_target if hit.leaves else layout.stub_source
            self.go_to(int(ends[hit.stub]))
        elif hit.box >= 0 and not is_frame:
            self.select_rows(nodes_of(scene, hit.box), adds=adds)
        elif not adds and len(self.selected_rows()):
            self.select_rows(np.zeros(0, np.int64))
        self._before_click = (before, self.session.selection.current)

    def open_or_close_at(self, x: float, y: float) -> None:
        """Open the closed layer at a position, or close the open one.

        What the first click of the two selected is put back: opening selects nothing.
        """
        shown, hit = self.shown, self.hit(x, y)
        if shown is None or hit.box < 0:
            return
        layout, clicked = shown.layout, self._before_click
        if layout.kind[hit.box] == BoxKind.NODE:
            self.centre_selection()
            return
        if clicked is not None and clicked[1] == self.session.selection.current:
            self._own = clicked[0]  # nothing to be brought into view for
            self.session.selection.select(clicked[0])
        self.toggle_layer(int(layout.layer[hit.box]))

    def look_from_map(self, x: float, y: float, *, is_first: bool) -> bool:
        """Move to where the overview is at; False where it is not, for the press."""
        scene = self.scene_now()
        place = None if scene is None else minimap_place(scene)
        if scene is None or place is None:
            return False
        across = (x - place.x) / place.width
        down = (y - place.y) / place.height
        if is_first and not (0 <= across <= 1 and 0 <= down <= 1):
            return False
        layout = scene.layout
        self.camera.centre(
            across * layout.width, down * layout.height, scene.width, scene.height
        )
        self._keep_in()
        return True

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the box at a position."""
        scene = self.scene_now()
        if scene is None:
            return ""
        return tooltip_for(scene, hit_at(scene, x, y), self.measures)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of a position."""
        return menu_of(self, self.hit(x, y)) if self.shown is not None else None

    # -- keys ------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep the keys of the graph from being commands of the window."""
        return keeps_key(event, partial(command_of, self)) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Pan, zoom, walk along edges and open layers."""
        command = command_of(self, event)
        if command is None:
            super().keyPressEvent(event)
        else:
            command()
