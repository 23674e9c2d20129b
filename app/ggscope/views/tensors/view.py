"""Tensors: what the model files hold, as a map of each file and as a table."""

from collections.abc import Hashable
from functools import partial

import numpy as np
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QStackedLayout,
    QWidget,
)

from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.model_tensors import ModelTensors
from ggscope.analysis.model_tree import TREE_BY, TensorTree, TreeBy, tensor_tree
from ggscope.descriptions.selected import tensor_name
from ggscope.descriptions.tensors import TREE_TITLES, total_text
from ggscope.errors import QueryError
from ggscope.model.ggml.types import type_name
from ggscope.model.names import COMPONENTS
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted
from ggscope.render.model_map import (
    ModelMapScene,
    compose_model_map,
    height_of,
    tensor_at,
)
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.cells import CopyForm, TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import ElidedLabel, add_action, copy_name
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.tree_table import TreeTable, TreeTableModel
from ggscope.views.base.widgets import (
    EmptyState,
    combo_box,
    lay_out,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)
from ggscope.views.tensors.rows import (
    ACCESSES,
    BITS,
    BYTES,
    ELEMENTS,
    FILE,
    IMPORTANCE,
    NAME,
    OFFSET,
    PART,
    SHAPE,
    SHARE,
    SIZE,
    TIME,
    TOKENS,
    TYPE,
    UNUSED,
    ListedTensors,
    RowMaker,
    TensorGroup,
    group_paths,
    list_tensors,
    tensor_cells,
)

_KEY = "tensors"
MAX_ROWS = 20_000
"""Tensors listed; of larger models the largest ones."""
_SYNC_TENSORS, _SYNC_SPANS = 1_500, 5_000
_MAX_OPEN = 60
"""Models of at most so many tensors come with all groups open; so do matches."""
_FACTS = (
    ("general.name", ""),
    ("general.architecture", ""),
    ("file_type", ""),
    ("n_layers", "{0} layers"),
    ("n_experts", "{0} experts"),
    ("n_ctx", "context {0}"),
    ("n_vocab", "vocabulary {0}"),
)
"""Metadata shown in the summary of a model, and its format."""
_MIN_ROWS = 3
"""The map is hidden unless this many rows stay visible."""


class TensorsView(Copyable, PaintedView):
    """Lists the tensors of the model files, or else those that the trace names.

    A tensor that is selected elsewhere is selected here, and the other way round.
    """

    draw_scene = staticmethod(compose_model_map)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Tensors of the model", session, theme, parent)
        self.setObjectName("tensors")
        self._listed: ModelTensors | None = None
        self._found: ListedTensors | None = None
        self._of: Trace | None = None
        self._tree: TensorTree | None = None
        self._opened: set[Hashable] | None = None
        self._hover = -1
        self._is_choosing = False
        self.model = TreeTableModel(self._headings(), self)
        self.table = TreeTable(self.model, self, "tensors", keeps_first=True)
        self.table.setAccessibleName("Tensors")
        self.table.menu_requested.connect(self._on_menu)
        self.table.row_opened.connect(self._on_opened)
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
        self.model.layoutChanged.connect(self._on_selection)
        self.metadata_model = TextTableModel(self._metadata_headings(), self)
        self.metadata = TextTable(self.metadata_model, self, "metadata")
        self.metadata.setAccessibleName("Metadata of the model files")
        self._placeholder = EmptyState(self)
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        for part in (self._placeholder, self.table, self.metadata):
            self._stack.addWidget(part)
        self._head = self._make_head()
        self.box.addWidget(body, 1)
        self.box.setStretchFactor(self.canvas, 0)
        self.setFocusProxy(self.table)
        self.set_theme(theme)
        self.connect_until_release(
            (session.selection.changed, self._on_selection),
            (session.queries.search_changed, self._on_search),
        )

    def _make_head(self) -> QWidget:
        head = QWidget(self)
        self.summary = ElidedLabel(head)
        self.summary.setFont(ui_font(12))
        self.by = combo_box(head, "Group by", [(TREE_TITLES[by], by) for by in TREE_BY])
        self.by.setObjectName("tensors_by")
        self.by.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.by.currentIndexChanged.connect(self._on_by)
        colors = (
            ("by part", "part"), ("by importance", "importance"),
            ("by tokens", "choices"),
        )  # fmt: skip
        self.color = combo_box(
            head, "Colour of the map", colors,
            tip="Colour of the map: part of the network, or the importance matrix",
        )  # fmt: skip
        self.color.setObjectName("tensors_color")
        self.color.currentIndexChanged.connect(self.repaint_picture)
        self.color.hide()
        self.find_line = QLineEdit(head)
        self.find_line.setPlaceholderText("Find name, type or part; /regex/")
        self.find_line.setAccessibleName("Find tensor")
        self.find_line.setFixedWidth(200)
        self.find_line.setProperty("mono", True)
        self.find_line.textChanged.connect(self._on_find)
        self.count = ElidedLabel(head)
        self.count.setFont(ui_font(12))
        tip = "Show the metadata of the model files"
        self.switch = tool_button(head, "Metadata", tip)
        self.switch.setCheckable(True)
        self.switch.toggled.connect(self._on_switch)
        lay_out(
            QHBoxLayout(head), self.summary, self.count, self.color, self.by,
            self.find_line, self.switch,
            margins=(8, 0, 4, 0), spacing=8, wide=self.summary,
        )  # fmt: skip
        return head

    def head_widget(self) -> QWidget:
        """Return the widget of the pane's header: summary, search and switch."""
        return self._head

    def _headings(self) -> tuple[Heading, ...]:
        return (
            Heading("tensor", "Name", 220, stretch=True),
            Heading("part", "Part of the network", 84,
                    is_text=True),
            Heading("layer", "Layer", 50, right=True),
            Heading("type", "Data type", 56),
            Heading("bits", "Bits per element, scales of blocks included", 44,
                    right=True, copied="bits per element", largest_first=True),
            Heading("shape", "Elements along each dimension, ne0 first", 116,
                    right=True),
            Heading("elements", "Number of elements", 76, right=True,
                    largest_first=True),
            Heading("size", "Size in bytes", 80, right=True,
                    copied="size (bytes)", largest_first=True),
            Heading("offset", "Offset in its file", 96, right=True,
                    copied="offset (bytes)"),
            Heading("share", "Share of all tensors by size", 96, right=True,
                    largest_first=True),
            Heading("accesses", "How often ops access it", 70, right=True,
                    largest_first=True),
            Heading("read", "Known bytes that ops read or write of it", 80,
                    right=True, copied="accessed (bytes)", largest_first=True),
            Heading("time", "Thread time of the ops whose largest weight it is; an op "
                    "counts for one tensor", 80, right=True, copied="time (ticks)",
                    largest_first=True),
            Heading("file", "File", 160),
            Heading("importance", "Mean square of the activations that it was "
                    "multiplied with (imatrix); of a stack, of the experts in use", 100,
                    right=True, largest_first=True),
            Heading("tokens", "Rows of activations in the imatrix; of a stack, summed "
                    "over its experts", 84, right=True, largest_first=True),
            Heading("unused", "Experts that the imatrix never saw used", 60,
                    right=True, largest_first=True),
        )  # fmt: skip

    def _metadata_headings(self) -> tuple[Heading, ...]:
        return (
            Heading("key", "Metadata key", 260),
            Heading("value", "", 260, stretch=True, is_text=True),
            Heading("file", "File", 160),
        )

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        for table in (self.table, self.metadata):
            table.set_theme(theme)
        self._placeholder.set_theme(theme)
        for part in (self.summary, self.count):
            set_label_color(part, theme.dim)
        self.switch.setStyleSheet(
            tool_button_style(theme, theme.text)
            + f" QToolButton:checked {{ color: #{theme.accent & 0xFFFFFF:06x}; }}"
        )
        if self._listed is not None:
            self._show_rows()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the map in a low pane."""
        super().resizeEvent(event)
        self._fit_map()

    def set_zoom(self, zoom: float) -> None:
        """Draw the map `zoom` times as large."""
        super().set_zoom(zoom)
        self._fit_map()

    # -- what is shown ------------------------------------------------------------

    def forget(self) -> None:
        """List no tensors."""
        self.cancel(_KEY)
        self._show(None, None)

    def compute(self, trace: Trace) -> None:
        """List the tensors; of a large model or a trace on a worker."""
        if not len(trace.tensors):
            self.cancel(_KEY)
            self._show(trace, None)
        elif len(trace.tensors) <= _SYNC_TENSORS and len(trace.spans) <= _SYNC_SPANS:
            self.cancel(_KEY)
            self._show(trace, list_tensors(trace))
        else:
            title = "Listing tensors"
            self.run(
                _KEY, partial(list_tensors, trace), partial(self._show, trace), title
            )

    def _show(self, trace: Trace | None, listed: ListedTensors | None) -> None:
        is_other = trace is not self._of
        self._of, self._found = trace, listed
        if is_other and listed is not None:
            self._rank_importance(listed)
        self._listed = None if listed is None else listed.tensors
        self._offer_colors()
        self._show_summary()
        self._show_metadata()
        self._show_rows()
        self._fit_map()
        self._on_selection()

    def _rank_importance(self, listed: ListedTensors) -> None:
        """List the tensors of an importance matrix alone by their importance."""
        has_sizes = bool((listed.tensors.size >= 0).any())
        if has_sizes or not self._known_of_importance(listed)[IMPORTANCE]:
            return
        self.by.setCurrentIndex(self.by.findData("tensor"))
        header = self.table.horizontalHeader()
        header.setSortIndicator(IMPORTANCE, Qt.SortOrder.DescendingOrder)

    def _offer_colors(self) -> None:
        """Offer the colours of an importance matrix where there is one."""
        importance = None if self._found is None else self._found.importance
        has_map = self._listed is not None and bool(self._listed.files)
        has_values = importance is not None and len(importance.slice_row) > 0
        self.color.setVisible(has_map and has_values)
        if not has_values:
            self.color.setCurrentIndex(0)

    def _fit_map(self) -> None:
        """Set the height of the map; hide it where the list needs the space."""
        listing = self._listed
        has_map = listing is not None and bool(listing.files)
        height = round(
            (0.0 if listing is None else height_of(listing)) * self.font_zoom
        )
        rows = (
            self.table.horizontalHeader().sizeHint().height()
            + self.table.verticalHeader().defaultSectionSize() * _MIN_ROWS
            + self.table.horizontalScrollBar().sizeHint().height()
        )
        fits = height + rows <= self.height()
        self.canvas.setFixedHeight(height)
        self.canvas.setVisible(has_map and fits)
        self.repaint_picture()

    def _show_summary(self) -> None:
        trace, listing = self._of, self._listed
        if trace is None or listing is None:
            self.summary.setText("")
            return
        known: dict[str, str] = {}
        for model in trace.models:
            known = {**model.metadata, **known}
        parts = [
            (form or "{0}").format(known[key]) for key, form in _FACTS if key in known
        ]
        if self._found is not None:
            tree = tensor_tree(trace, listing, "tensor", self._found.reads)
            parts.insert(int("general.name" in known), total_text(tree.total))
        self.summary.setText(" · ".join(parts))

    def _show_metadata(self) -> None:
        models = () if self._of is None else self._of.models
        rows = [
            (Cell(key, sort=key), Cell(value, sort=value, tip=value), Cell(model.name))
            for model in models
            for key, value in model.metadata.items()
        ]
        self.switch.setEnabled(bool(rows))
        if not rows:
            self.switch.setChecked(False)
        if self.switch.isChecked() and (pattern := self.find_line.text().strip()):
            try:
                matches = text_matcher(pattern)
            except QueryError:
                rows = []
            else:
                rows = [r for r in rows if matches(r[0].text) or matches(r[1].text)]
        self.metadata_model.set_rows(rows)
        self.metadata.setColumnHidden(2, len(models) < 2)
        self.metadata.fit_columns()

    def _on_find(self, text: str) -> None:
        """List what matches, with its groups open where it is not too much."""
        if text and self._opened is None:
            self._opened = self.model.opened
        self._show_metadata()
        self._show_rows()
        if not text:
            self._opened = None

    def _on_by(self, _: int) -> None:
        self._opened = None if not self.find_line.text() else set()
        self.model.set_tree((), set())
        self._show_rows()

    def _show_rows(self, _: object = None) -> None:
        trace, listed = self._of, self._found
        if trace is None or listed is None or not len(listed.tensors):
            self._tree = None
            self._placeholder.say(
                "No tensors", "Add a model file or a tensor map: File › Add to session."
            )
            self.model.set_tree(())
            self.count.setText("")
            self._stack.setCurrentWidget(self._placeholder)
            return
        listing = listed.tensors
        shown = self._matching(trace, listing)
        n = len(shown)
        is_listed = np.zeros(len(listing), np.bool_)
        largest = np.argsort(-listing.size[shown], kind="stable")[:MAX_ROWS]
        is_listed[shown[largest]] = True
        by: TreeBy = self.by.currentData()
        tree = self._tree = tensor_tree(trace, listing, by, listed.reads, shown)
        maker = RowMaker(trace, listed, tree, is_listed, self.theme)
        n_left_out = n - int(is_listed.sum())
        self.model.set_tree(maker.top(), self._open_groups(tree), n_left_out)
        self._hide_columns(listed)
        text = ""
        if n_left_out:
            text = f"largest {format_count(n - n_left_out)} of {format_count(n)}"
        elif self.find_line.text():
            text = f"{format_count(n)} of {format_count(len(listing))}"
        self.count.setText(text)
        front = self.metadata if self.switch.isChecked() else self.table
        self._stack.setCurrentWidget(front)
        self._on_selection()

    def _open_groups(self, tree: TensorTree) -> set[Hashable] | None:
        """Return which groups to open; None = those that were open."""
        everything: set[Hashable] = set(group_paths(tree))
        if self.find_line.text():
            return everything if len(tree.order) <= 5 * _MAX_OPEN else None
        if self._opened is not None:  # as before the search
            return self._opened
        is_small = len(tree.order) <= _MAX_OPEN or (tree.level == 0).sum() == 1
        return everything if is_small and not self.model.rowCount() else None

    def _hide_columns(self, listed: ListedTensors) -> None:
        """Hide the columns of which nothing is known, and a single file."""
        tensors = listed.tensors
        has_sizes = bool((tensors.size >= 0).any())
        has_shapes = bool((listed.elements >= 0).any())
        is_known = {
            TYPE: has_sizes or has_shapes,
            BITS: has_shapes,
            SHAPE: has_sizes or has_shapes,
            ELEMENTS: has_shapes,
            SIZE: has_sizes,
            OFFSET: bool((tensors.offset >= 0).any()),
            SHARE: has_sizes,
            ACCESSES: listed.reads.accesses is not None,
            BYTES: listed.reads.bytes is not None,
            TIME: listed.reads.ticks is not None,
            FILE: len(listed.tensors.files) > 1,
            **self._known_of_importance(listed),
        }
        for column, is_shown in is_known.items():
            self.table.setColumnHidden(column, not is_shown)
        self.table.fit_columns()

    @staticmethod
    def _known_of_importance(listed: ListedTensors) -> dict[int, bool]:
        if listed.importance is None:
            return dict.fromkeys((IMPORTANCE, TOKENS, UNUSED), False)
        return {
            IMPORTANCE: bool((~np.isnan(listed.importance.mean_square)).any()),
            TOKENS: bool((~np.isnan(listed.importance.count)).any()),
            UNUSED: bool((listed.importance.n_unused >= 0).any()),
        }

    def _matching(self, trace: Trace, listing: ModelTensors) -> np.ndarray:
        """Return the positions of tensors whose name, type or part matches."""
        everything = np.arange(len(listing))
        pattern = self.find_line.text().strip()
        if not pattern:
            return everything
        try:
            matches = text_matcher(pattern)
        except QueryError:
            return everything[:0]
        rows, kinds = listing.rows, trace.tensors.type
        names = [trace.strings[i] for i in trace.tensors.name[rows].tolist()]
        is_match = np.array([matches(name) for name in names], np.bool_)
        is_part = np.array([matches(part) for part in COMPONENTS], np.bool_)
        is_match |= is_part[listing.component]
        if kinds is not None:
            used, which = np.unique(kinds[rows], return_inverse=True)
            is_type = [matches(type_name(i)) for i in used.tolist()]
            is_match |= np.array(is_type, np.bool_)[which.reshape(-1)]
        return np.flatnonzero(is_match)

    def _on_switch(self, shows_metadata: bool) -> None:
        self._show_metadata()
        self._stack.setCurrentWidget(self.metadata if shows_metadata else self.table)

    def _on_search(self, _: object = None) -> None:
        """Use the search of the window in a model without spans."""
        trace = self.session.trace
        if trace is not None and not len(trace.spans):
            self.find_line.setText(self.session.queries.text)

    # -- selection ------------------------------------------------------------------

    def _on_chosen(self, *_: object) -> None:
        """Select the tensors of the chosen rows in the session."""
        if self._is_choosing:
            return
        chosen = self._chosen()
        if chosen:
            self.session.selection.select(Selection("tensors", chosen))

    def _chosen(self) -> tuple[int, ...]:
        """Return the tensors of the rows that are selected, each once."""
        ids: dict[int, None] = {}
        for row in self.table.selected_rows():
            ids.update(dict.fromkeys(self._tensors_of(row)))
        return tuple(ids)

    def _tensors_of(self, row: int) -> tuple[int, ...]:
        """Return the tensors that a row is or holds."""
        payload = self.model.payload(row)
        if isinstance(payload, int):
            return (payload,)
        tree, listing = self._tree, self._listed
        if not isinstance(payload, TensorGroup) or tree is None or listing is None:
            return ()
        inside = tree.order[int(tree.first[payload.at]) : int(tree.stop[payload.at])]
        return tuple(listing.rows[inside].tolist())

    def _on_selection(self, _: object = None) -> None:
        """Highlight the selection of the session in table and map."""
        self.repaint_picture()
        selection = self.session.selection.current
        selected = set(selection.ids) if selection.table == "tensors" else set()
        if selected == set(self._chosen()):
            return
        self._is_choosing = True
        self.table.clearSelection()
        if selection.active is not None and selected:
            row = self._reveal(selection.active)
            if row >= 0:
                self.table.selectRow(row)
                self.table.scrollTo(self.model.index(row, NAME))
        self._is_choosing = False

    def _reveal(self, tensor: int) -> int:
        """Open the groups that a tensor lies in; return its row, -1 = not listed."""
        tree, listing = self._tree, self._listed
        if tree is None or listing is None:
            return -1
        at = np.flatnonzero(listing.rows[tree.order] == tensor)
        if not len(at):
            return -1
        holds = (tree.first <= at[0]) & (tree.stop > at[0])
        paths = group_paths(tree)
        for group in np.flatnonzero(holds).tolist():
            row = self.model.row_of_key(paths[group])
            self.model.set_open(row, True)
        return self.model.row_of(tensor)

    def _on_opened(self, row: int) -> None:
        """Show a tensor in the heatmap, where there is one."""
        trace, tensor = self._of, self.model.payload(row)
        if isinstance(tensor, int) and trace is not None and len(trace.accesses):
            _show_in_heatmap(self.session, Selection("tensors", (tensor,)))

    def _on_menu(self, menu: QMenu, row: int) -> None:
        tensors = self._tensors_of(row) if row >= 0 else ()
        if tensors:
            self._fill_menu(menu, tensors)
            menu.addSeparator()
        if self.model.has_groups:
            add_action(menu, "Open all groups", partial(self._open_all, True))
            add_action(menu, "Close all groups", partial(self._open_all, False))
            menu.addSeparator()

    def _open_all(self, is_open: bool) -> None:
        self.model.open_all(is_open)
        if is_open:
            self._on_selection()

    def _fill_menu(self, menu: QMenu, tensors: tuple[int, ...]) -> None:
        trace, session = self._of, self.session
        if trace is None:
            return
        names = "\n".join(tensor_name(trace, tensor) for tensor in tensors)
        title = "Copy name"
        if len(tensors) > 1:
            title = f"Copy {format_counted(len(tensors), 'name')}"
        add_action(menu, title, partial(copy_name, names))
        if len(trace.accesses.patterns):
            add_action(
                menu, "Show in file heatmap",
                partial(
                    _show_in_heatmap, session, Selection("tensors", tensors)
                ),
            )  # fmt: skip

    # -- the map --------------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> ModelMapScene | None:
        """Return the scene of the map; None without a model file."""
        if self._listed is None or not self._listed.files:
            return None
        selection = self.session.selection.current
        ids = selection.ids if selection.table == "tensors" else ()
        return ModelMapScene(
            self._listed, width, height, self.theme, scale, frozenset(ids),
            self._hover, None if self._found is None else self._found.importance,
            self.color.currentData(),
        )  # fmt: skip

    def tooltip_at(self, x: float, y: float) -> str:
        """Return name, type, shape, size and place of a tensor."""
        scene, trace = self.scene_now(), self._of
        tensor = -1 if scene is None else tensor_at(scene, x, y)
        if trace is None or self._listed is None or tensor < 0:
            return ""
        if self._found is None:
            return ""
        (at,) = np.flatnonzero(self._listed.rows == tensor)[:1].tolist()
        cells = tensor_cells(trace, self._found, at, 0, self.theme)
        lines = [cells[NAME].text]
        for column in (*range(PART, FILE), IMPORTANCE, TOKENS, UNUSED):
            cell, title = cells[column], self.model.headings[column].title
            is_shown = column != SHARE and not self.table.isColumnHidden(column)
            lines += [f"{title} {cell.tip or cell.text}"] if is_shown else []
        return "\n".join(lines)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of the tensor at a point."""
        scene = self.scene_now()
        tensor = -1 if scene is None else tensor_at(scene, x, y)
        if tensor < 0:
            return None
        menu = QMenu(self)
        self._fill_menu(menu, (tensor,))
        return menu

    def pointer_event(self, event: QEvent) -> bool:
        """Point at a tensor, or select one."""
        kind = event.type()
        if kind == QEvent.Type.Leave:
            self._set_hover(-1)
            return False
        if not isinstance(event, QMouseEvent):
            return False
        at, scene = self.position_of(event), self.scene_now()
        tensor = -1 if scene is None else tensor_at(scene, at.x(), at.y())
        if kind == QEvent.Type.MouseMove:
            self._set_hover(tensor)
        elif (
            kind == QEvent.Type.MouseButtonPress
            and event.button() == Qt.MouseButton.LeftButton
        ):
            selection = Selection("tensors", (tensor,)) if tensor >= 0 else Selection()
            self.session.selection.select(selection)
        return True

    def _set_hover(self, tensor: int) -> None:
        if tensor != self._hover:
            self._hover = tensor
            self.repaint_picture()

    # -- rows for others --------------------------------------------------------------

    def table_file(self) -> TableFile | None:
        """Return the rows that are shown, for a file."""
        return self._table_shown().table_file()

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the rows that are selected, else all."""
        self._table_shown().copy_rows(form)

    def _table_shown(self) -> TextTable:
        return self.metadata if self.switch.isChecked() else self.table


def _show_in_heatmap(session: Session, chosen: Selection) -> None:
    session.selection.select(chosen)
    session.navigator.view_requested.emit("heatmap")
