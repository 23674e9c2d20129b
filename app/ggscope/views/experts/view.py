"""Experts: which ones were used, by layer and by token."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QMenu, QWidget

from ggscope.analysis.experts.experts import COUNTED
from ggscope.analysis.experts.figures import (
    Beside,
    Cover,
    ExpertsBase,
    ExpertsResult,
    experts_result,
)
from ggscope.model.routing import expert_key, of_expert_key
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.render.experts import (
    ExpertsOptions,
    ExpertsScene,
    cell_at,
    cell_beside_at,
    compose_experts,
    draw_experts,
)
from ggscope.render.export import NOT_MARKED, ExportCommand
from ggscope.render.grid import Cell
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.safe_text import add_action, copy_text
from ggscope.views.base.widgets import pop_up
from ggscope.views.experts import texts as experts_texts
from ggscope.views.experts.bar import CoverPanel, ExpertsBar

_KEY = "experts"
_STEPS = {
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_PageUp: (-8, 0),
    Qt.Key.Key_PageDown: (8, 0),
}
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class ExpertsView(PaintedView):
    """The layer × expert matrix and a second chart; a click selects an expert.

    Arrow keys move a cursor over the cells, Enter selects the expert under it,
    Ctrl adds, a double click filters to it.

    Attributes
    ----------
    result : the shown counts; None before they are computed.
    """

    draw_scene = staticmethod(compose_experts)
    no_trace_text = ("No trace is open.", "")
    needs_whole_trace = True
    draw_figure = staticmethod(draw_experts)
    passing: ClassVar = {"hover": None, "hover_beside": None, "cursor": None}

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Experts", session, theme, parent)
        self.setObjectName("experts")
        self._base: ExpertsBase | None = None
        self._of: Trace | None = None
        self.result: ExpertsResult | None = None
        self._hover: Cell | None = None
        self._hover_beside: Cell | None = None
        self._cursor: Cell | None = None
        self.bar = ExpertsBar(self)
        self.bar.changed.connect(self.refresh)
        self.bar.phase_changed.connect(self._on_phase)
        self.bar.drawn_changed.connect(self.repaint_picture)
        self.cover = CoverPanel(self)
        self.cover.share_changed.connect(self.refresh)
        self.cover.layer_opened.connect(self._on_layer_opened)
        self.splitter = self.split_with(self.cover)
        self.splitter.setSizes([600, 400])
        self.cover.hide()
        self.box.addWidget(self.bar)
        self.box.addWidget(self.splitter, 1)
        self.theme_with(self.bar, self.cover)
        self.connect_until_release(
            (session.selection.changed, self.repaint_picture),
            (session.linking.linked_changed, self.repaint_picture),
        )

    # -- computing -----------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Count on a worker the charts chosen in the bar."""
        if trace is not self._of:
            self.forget()
            self.bar.offer_phases(trace.routing.phases())
        self.cover.setVisible(self.beside is Beside.COVER)
        self._of = trace
        base, phase = self._base, self.bar.phase.currentData()
        request = partial(
            experts_result,
            trace
            if phase is None
            else replace(trace, routing=trace.routing.of_phase(phase)),
            base,
            None if base is None else self.bar.token.currentData(),
            None if base is None else self.bar.layer.currentData(),
            self.beside,
            self.cover.share,
        )
        self.run(_KEY, request, self._show, "Counting experts")

    def _on_phase(self) -> None:
        """Count the choices of another phase."""
        self._base = None
        self.refresh()

    def forget(self) -> None:
        """Show no experts."""
        self.cover.setVisible(self.beside is Beside.COVER)
        self._base = self._of = self.result = None
        self._hover = self._hover_beside = self._cursor = None
        self.bar.set_summary("")
        self.repaint_picture()

    @property
    def beside(self) -> Beside:
        """The second chart."""
        chart: Beside = self.bar.beside.currentData()
        return chart

    def _show(self, result: ExpertsResult) -> None:
        is_first = self._base is None
        self._base, self.result = result.base, result
        choices = result.base.choices
        numbers = choices.tokens.tolist(), choices.layers.tolist()
        self.bar.set_rows(*numbers, choices.noun)
        if len(choices):
            about = experts_texts.about_text(result)
            self.bar.set_summary(about, experts_texts.about_tip(result))
        else:
            self.bar.set_summary(experts_texts.source_text(choices))
        self.cover.show_result(result)
        self.repaint_picture()
        is_counted = choices.source in COUNTED
        if is_first and is_counted and result.matrix is not None:
            # Counts have no tokens that could overlap.
            self.bar.beside.setCurrentIndex(self.bar.beside.findData(Beside.COVER))
        elif is_first and (
            self.bar.token.currentData() is not None
            or self.bar.layer.currentData() is not None
        ):
            self.refresh()  # the choice was made for the previous trace

    # -- picture -------------------------------------------------------------------

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture."""
        if self.result is None or trace.is_unread:
            return "Counting…", ""
        return experts_texts.empty_text(self.result.base.choices, trace)

    def scene(self, width: float, height: float, scale: float) -> ExpertsScene | None:
        """Return the scene of both charts; None without experts."""
        result = self.result
        if result is None or not len(result.base.choices):
            return None
        return ExpertsScene(
            width=width,
            height=height,
            theme=self.theme,
            scale=scale,
            result=result,
            measure=self.bar.measure.currentData(),
            kind=self.bar.kind.currentData(),
            hover=self._hover,
            hover_beside=self._hover_beside,
            cursor=self._cursor if self.hasFocus() else None,
            selected=self._cells(self._selected_keys()),
            highlighted=self._cells(self.session.linking.linked.experts.tolist()),
        )

    def recipe(self, trace: Trace, scene: ExpertsScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        result = scene.result
        lacks = [NOT_MARKED] if scene.selected or scene.highlighted else []
        is_part = result.token is not None or result.layer is not None
        if is_part or self.bar.phase.currentData() is not None:
            lacks.append("The command draws all layers, tokens and phases.")
        options = ExpertsOptions(
            measure=scene.measure, kind=scene.kind, beside=result.beside
        )
        return export_command("experts", trace, options, lacks)

    def _selected_keys(self) -> tuple[int, ...]:
        if self.session.selection.current.table != "experts":
            return ()
        return self.session.selection.current.ids

    def _cells(self, keys: Sequence[int]) -> tuple[Cell, ...]:
        """Return the cells of experts; those of other layers are left out."""
        if self.result is None:
            return ()
        layers = self.result.base.choices.layers.tolist()
        row_of = {layer: row for row, layer in enumerate(layers)}
        places = (of_expert_key(key) for key in keys)
        return tuple((row_of[lay], expert) for lay, expert in places if lay in row_of)

    def _key_of(self, cell: Cell) -> int:
        assert self.result is not None
        layers = self.result.base.choices.layers
        return expert_key(int(layers[cell[0]]), cell[1])

    # -- mouse -----------------------------------------------------------------

    def tooltip_at(self, x: float, y: float) -> str:
        """Return the tooltip of the cell at a position."""
        scene, result = self.scene_now(), self.result
        if scene is None or result is None:
            return ""
        cell = cell_at(scene, x, y)
        if cell is not None:
            return experts_texts.cell_text(result, cell)
        beside = cell_beside_at(scene, x, y)
        return "" if beside is None else experts_texts.beside_text(result, beside)

    def pointer_event(self, event: QEvent) -> bool:
        """Point at, select and filter to experts."""
        if event.type() == QEvent.Type.Leave:
            self._point_at(None, None)
            return False
        scene = self.scene_now()
        if not isinstance(event, QMouseEvent) or scene is None:
            return False
        at = self.position_of(event)
        cell = cell_at(scene, at.x(), at.y())
        if event.type() == QEvent.Type.MouseMove:
            self._point_at(cell, cell_beside_at(scene, at.x(), at.y()))
            return True
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if event.type() == QEvent.Type.MouseButtonPress:
            self._cursor = cell if cell is not None else self._cursor
            add = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
            self.select_cell(cell, add=add)
            return True
        if event.type() == QEvent.Type.MouseButtonDblClick and cell is not None:
            self.filter_to(cell)
            return True
        return False

    def _point_at(self, cell: Cell | None, beside: Cell | None) -> None:
        if (cell, beside) != (self._hover, self._hover_beside):
            self._hover, self._hover_beside = cell, beside
            self.repaint_picture()

    def select_cell(self, cell: Cell | None, *, add: bool = False) -> None:
        """Select the expert of a cell; None selects nothing unless it is to add."""
        session = self.session
        if cell is None:
            if not add and session.selection.current.table == "experts":
                session.selection.select(Selection())
            return
        key = self._key_of(cell)
        others = tuple(k for k in self._selected_keys() if k != key) if add else ()
        is_one = add and key in self._selected_keys()
        ids = others if is_one else (key, *others)
        session.selection.select(Selection("experts", ids) if ids else Selection())

    def filter_to(self, cell: Cell) -> None:
        """Show only spans that use the expert of a cell."""
        session = self.session
        layer, expert = of_expert_key(self._key_of(cell))
        session.queries.set_filter(
            replace(
                session.queries.filter,
                experts=frozenset({expert}),
                layers=frozenset({layer}),
            )
        )

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of the cell at a position."""
        scene = self.scene_now()
        cell = None if scene is None else cell_at(scene, x, y)
        return None if cell is None else self.menu_of(cell)

    def menu_of(self, cell: Cell) -> QMenu:
        """Return the menu of an expert."""
        layer, expert = of_expert_key(self._key_of(cell))
        menu = QMenu(self)

        select = f"Select layer {layer}, expert {expert}"
        add_action(menu, select, partial(self.select_cell, cell))
        menu.addAction("Show only this expert", partial(self.filter_to, cell))
        menu.addAction(
            "Show its layer in the second chart",
            partial(self.bar.layer.setCurrentIndex, cell[0] + 1),
        )
        menu.addSeparator()
        menu.addAction("Copy details", partial(self._copy, cell))
        return menu

    def _copy(self, cell: Cell) -> None:
        if self.result is not None:
            copy_text(experts_texts.cell_text(self.result, cell))

    def _on_layer_opened(self, cover: object) -> None:
        """Select the experts to pin in a layer."""
        if isinstance(cover, Cover) and cover.experts:
            keys = tuple(expert_key(cover.layer, expert) for expert in cover.experts)
            self.session.selection.select(Selection("experts", keys))

    # -- keys ----------------------------------------------------------------------

    def takes_key(self, event: QKeyEvent) -> bool:
        """Return whether a key moves the cursor or selects what is under it."""
        key = Qt.Key(event.key())
        no_mods = event.modifiers() in (
            Qt.KeyboardModifier.NoModifier,
            Qt.KeyboardModifier.KeypadModifier,
        )
        adds = event.modifiers() == Qt.KeyboardModifier.ControlModifier
        if self.scene_now() is None:
            return False
        return (no_mods and key in _STEPS) or ((no_mods or adds) and key in _ENTER)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move the cursor over the cells, select under it, open its menu."""
        key = Qt.Key(event.key())
        result = self.result
        if result is None or not len(result.base.choices):
            super().keyPressEvent(event)
        elif self.takes_key(event) and key in _STEPS:
            self._move_cursor(*_STEPS[key])
        elif self.takes_key(event) and self._cursor is not None:
            add = event.modifiers() == Qt.KeyboardModifier.ControlModifier
            self.select_cell(self._cursor, add=add)
        elif key == Qt.Key.Key_Menu and self._cursor is not None:
            menu = self.menu_of(self._cursor)
            pop_up(menu, self.canvas.mapToGlobal(QPoint(40, 40)))
        else:
            super().keyPressEvent(event)

    def _move_cursor(self, rows: int, columns: int) -> None:
        assert self.result is not None
        n_rows, n_columns = self.result.grid.count.shape
        row, column = self._cursor or (0, 0)
        if self._cursor is not None:
            row = min(max(row + rows, 0), n_rows - 1)
            column = min(max(column + columns, 0), n_columns - 1)
        self._cursor = (row, column)
        # Read by a screen reader as the cursor moves.
        description = experts_texts.cell_text(self.result, self._cursor)
        self.setAccessibleDescription(description)
        self.repaint_picture()
