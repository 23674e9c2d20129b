"""Tensors: what the model files hold, as a map of each file and as a table."""

from functools import partial

import numpy as np
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QStackedLayout, QWidget

from ggscope.analysis.filters.text import text_matcher
from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.descriptions.selected import shape_text, tensor_name
from ggscope.errors import QueryError
from ggscope.model.ggml.types import type_name
from ggscope.model.names import COMPONENTS
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact_bytes,
    format_offset,
    format_share,
)
from ggscope.render.model_map import (
    ModelMapScene,
    compose_model_map,
    height_of,
    tensor_at,
)
from ggscope.render.reads import component_color
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.cells import TableFile
from ggscope.views.base.safe_text import ElidedLabel, add_action, copy_name
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.widgets import (
    EmptyState,
    lay_out,
    set_label_color,
    tool_button,
    tool_button_style,
    words_font,
)

_KEY = "tensors"
MAX_ROWS = 20_000
"""Tensors listed; of larger models the largest ones."""
_SYNC_TENSORS = 1_500
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
NAME, OFFSET = 0, 6


class TensorsView(PaintedView):
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
        self._of: Trace | None = None
        self._hover = -1
        self._is_choosing = False
        self.model = TextTableModel(self._headings(), self)
        self.table = TextTable(self.model, self, "tensors", keeps_first=True)
        self.table.setAccessibleName("Tensors")
        self.table.menu_requested.connect(self._on_menu)
        self.table.selectionModel().selectionChanged.connect(self._on_chosen)
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
        self.summary.setFont(words_font(12))
        self.find_line = QLineEdit(head)
        self.find_line.setPlaceholderText("Find tensor, or /regex/")
        self.find_line.setAccessibleName("Find tensor")
        self.find_line.setFixedWidth(200)
        self.find_line.setProperty("mono", True)
        self.find_line.textChanged.connect(self._show_rows)
        self.count = ElidedLabel(head)
        self.count.setFont(words_font(12))
        tip = "Show the metadata of the model files"
        self.switch = tool_button(head, "Metadata", tip)
        self.switch.setCheckable(True)
        self.switch.toggled.connect(self._on_switch)
        lay_out(
            QHBoxLayout(head), self.summary, self.count, self.find_line, self.switch,
            margins=(8, 0, 4, 0), spacing=8, wide=self.summary,
        )  # fmt: skip
        return head

    def head_widget(self) -> QWidget:
        """Return the widget of the pane's header: summary, search and switch."""
        return self._head

    def _headings(self) -> tuple[Heading, ...]:
        return (
            Heading("tensor", "Name", 190, stretch=True),
            Heading("part", "Part of the network", 84,
                    words=True),
            Heading("layer", "Layer", 50, right=True),
            Heading("type", "Data type", 56),
            Heading("shape", "Elements along each dimension, ne0 first", 116,
                    right=True),
            Heading("size", "Size in bytes", 80, right=True,
                    copied="size (bytes)", largest_first=True),
            Heading("offset", "Offset in its file", 96, right=True,
                    copied="offset (bytes)"),
            Heading("share", "Share of all tensors by size", 56, right=True,
                    largest_first=True),
            Heading("file", "File", 160),
        )  # fmt: skip

    def _metadata_headings(self) -> tuple[Heading, ...]:
        return (
            Heading("key", "Metadata key", 260),
            Heading("value", "", 260, stretch=True, words=True),
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

    def refresh(self) -> None:
        """List the tensors; of a large model on a worker."""
        trace = self.session.trace
        if trace is None or not len(trace.tensors):
            self._show(trace, None)
        elif len(trace.tensors) <= _SYNC_TENSORS:
            self.cancel(_KEY)
            self._show(trace, model_tensors(trace))
        else:
            title = "Listing tensors"
            self.run(_KEY, partial(_listed, trace), partial(self._show, trace), title)

    def _show(self, trace: Trace | None, listing: ModelTensors | None) -> None:
        self._of, self._listed = trace, listing
        self._fit_map()
        self._show_summary()
        self._show_metadata()
        self._show_rows()
        self._on_selection()

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
        total = int(np.maximum(listing.size, 0).sum())
        parts.append(f"{format_count(len(listing))} tensors, {format_bytes(total)}")
        self.summary.setText(" · ".join(parts))

    def _show_metadata(self) -> None:
        trace = self._of
        rows = [
            (Cell(key, sort=key), Cell(value, sort=value, tip=value), Cell(model.name))
            for model in (() if trace is None else trace.models)
            for key, value in model.metadata.items()
        ]
        self.metadata_model.set_rows(rows)
        self.metadata.fit_columns()
        self.switch.setEnabled(bool(rows))
        if not rows:
            self.switch.setChecked(False)

    def _show_rows(self, _: object = None) -> None:
        trace, listing = self._of, self._listed
        if trace is None or listing is None or not len(listing):
            self._placeholder.say(
                "No tensors", "Add a model file or a tensor map: File › Add to session."
            )
            self.model.set_rows(())
            self.count.setText("")
            self._stack.setCurrentWidget(self._placeholder)
            return
        shown = self._matching(trace, listing)
        n = len(shown)
        if n > MAX_ROWS:
            largest = np.argsort(-listing.size[shown], kind="stable")[:MAX_ROWS]
            shown = shown[np.sort(largest)]
        total = int(np.maximum(listing.size, 0).sum())
        rows = [_cells(trace, listing, i, total, self.theme) for i in shown.tolist()]
        payloads = [int(listing.rows[i]) for i in shown.tolist()]
        self.model.set_rows(rows, payloads=payloads, n_left_out=n - len(rows))
        self.table.setColumnHidden(len(self.model.headings) - 1, len(listing.files) < 2)
        self.table.fit_columns()
        text = ""
        if n > len(rows):
            text = f"largest {format_count(len(rows))} of {format_count(n)}"
        elif self.find_line.text():
            text = f"{format_count(n)} of {format_count(len(listing))}"
        self.count.setText(text)
        front = self.metadata if self.switch.isChecked() else self.table
        self._stack.setCurrentWidget(front)
        self._on_selection()

    def _matching(self, trace: Trace, listing: ModelTensors) -> np.ndarray:
        """Return the positions of tensors whose name matches the search."""
        everything = np.arange(len(listing))
        pattern = self.find_line.text().strip()
        if not pattern:
            return everything
        try:
            matches = text_matcher(pattern)
        except QueryError:
            return everything[:0]
        names = [trace.strings[i] for i in trace.tensors.name[listing.rows].tolist()]
        return np.flatnonzero([matches(name) for name in names])

    def _on_switch(self, shows_metadata: bool) -> None:
        self._stack.setCurrentWidget(self.metadata if shows_metadata else self.table)

    def _on_search(self, _: object = None) -> None:
        """Use the search of the window in a model without spans."""
        trace = self.session.trace
        if trace is not None and not len(trace.spans):
            self.find_line.setText(self.session.queries.text)

    # -- selection ------------------------------------------------------------------

    def _on_chosen(self, *_: object) -> None:
        """Select the chosen rows of the table in the session."""
        if self._is_choosing:
            return
        rows = sorted(
            {index.row() for index in self.table.selectionModel().selectedRows()}
        )
        ids = [self.model.payload(row) for row in rows]
        chosen = tuple(i for i in ids if isinstance(i, int))
        if chosen:
            self.session.selection.select(Selection("tensors", chosen))

    def _on_selection(self, _: object = None) -> None:
        """Highlight the selection of the session in table and map."""
        self.repaint_picture()
        selection = self.session.selection.current
        selected = set(selection.ids) if selection.table == "tensors" else set()
        shown = {
            self.model.payload(index.row())
            for index in self.table.selectionModel().selectedRows()
        }
        if selected == shown:
            return
        self._is_choosing = True
        self.table.clearSelection()
        if selection.active is not None and selected:
            for row in range(self.model.rowCount()):
                if self.model.payload(row) == selection.active:
                    self.table.selectRow(row)
                    self.table.scrollTo(self.model.index(row, NAME))
                    break
        self._is_choosing = False

    def _on_menu(self, menu: QMenu, row: int) -> None:
        tensor = self.model.payload(row) if row >= 0 else None
        if isinstance(tensor, int):
            self._fill_menu(menu, tensor)
            menu.addSeparator()

    def _fill_menu(self, menu: QMenu, tensor: int) -> None:
        trace, session = self._of, self.session
        if trace is None:
            return
        chosen = Selection("tensors", (tensor,))
        add_action(menu, "Copy name", partial(copy_name, tensor_name(trace, tensor)))
        if len(trace.accesses.patterns):
            add_action(
                menu, "Show in file heatmap",
                partial(_select_and_show, session, chosen, "heatmap"),
            )  # fmt: skip

    # -- the map --------------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> ModelMapScene | None:
        """Return the scene of the map; None without a model file."""
        if self._listed is None or not self._listed.files:
            return None
        selection = self.session.selection.current
        ids = selection.ids if selection.table == "tensors" else ()
        return ModelMapScene(
            self._listed, width, height, self.theme, scale, frozenset(ids), self._hover
        )

    def empty_words(self) -> tuple[str, str]:
        """Return nothing: the table has the hint."""
        return "", ""

    def tooltip_at(self, x: float, y: float) -> str:
        """Return name, type, shape, size and place of a tensor."""
        scene, trace = self.scene_now(), self._of
        tensor = -1 if scene is None else tensor_at(scene, x, y)
        if trace is None or self._listed is None or tensor < 0:
            return ""
        (at,) = np.flatnonzero(self._listed.rows == tensor)[:1].tolist()
        cells = _cells(trace, self._listed, at, 0, self.theme)
        lines = [cells[NAME].text]
        titles = [heading.title for heading in self.model.headings]
        pairs = list(zip(titles, cells, strict=True))[1 : OFFSET + 1]
        lines += [f"{title} {cell.tip or cell.text}" for title, cell in pairs]
        return "\n".join(lines)

    def menu_at(self, x: float, y: float) -> QMenu | None:
        """Return the menu of the tensor at a point."""
        scene = self.scene_now()
        tensor = -1 if scene is None else tensor_at(scene, x, y)
        if tensor < 0:
            return None
        menu = QMenu(self)
        self._fill_menu(menu, tensor)
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
        table = self.metadata if self.switch.isChecked() else self.table
        return table.table_file()

    def copy_tsv(self) -> None:
        """Copy the rows that are selected, else all."""
        (self.metadata if self.switch.isChecked() else self.table).copy_tsv()

    def copy_markdown(self) -> None:
        """Copy them as Markdown."""
        (self.metadata if self.switch.isChecked() else self.table).copy_markdown()


def _listed(trace: Trace, context: TaskContext) -> ModelTensors:
    context.check_cancelled()
    return model_tensors(trace)


def _select_and_show(session: Session, chosen: Selection, view_id: str) -> None:
    session.selection.select(chosen)
    session.navigator.view_requested.emit(view_id)


def _cells(
    trace: Trace, listing: ModelTensors, at: int, total: int, theme: Theme
) -> tuple[Cell, ...]:
    """Return the row of a tensor."""
    row, tensors = int(listing.rows[at]), trace.tensors
    name, part = tensor_name(trace, row), COMPONENTS[int(listing.component[at])]
    layer, size = int(tensors.layer[row]), int(listing.size[at])
    offset = int(listing.offset[at])
    kind = "" if tensors.type is None else type_name(int(tensors.type[row]))
    shape = shape_text(None if tensors.shape is None else tensors.shape[row])
    file = int(listing.file[at])
    return (
        Cell(name, sort=name, color=component_color(part, theme), tip=name),
        Cell(part, sort=part),
        Cell(
            format_count(layer) if layer >= 0 else "–",
            sort=layer if layer >= 0 else None,
            raw=layer if layer >= 0 else "",
        ),
        Cell(kind or NOT_AVAILABLE, sort=kind or None),
        Cell(shape or NOT_AVAILABLE, sort=shape or None),
        Cell(
            format_bytes(size) if size >= 0 else NOT_AVAILABLE,
            sort=size if size >= 0 else None,
            raw=size if size >= 0 else "",
            tip=format_exact_bytes(size) if size >= 0 else "",
        ),
        Cell(
            format_offset(offset) if offset >= 0 else NOT_AVAILABLE,
            sort=offset if offset >= 0 else None,
            raw=offset if offset >= 0 else "",
            tip=f"{format_offset(offset)} ({offset:,})" if offset >= 0 else "",
        ),
        Cell(
            format_share(size / total) if size >= 0 and total else NOT_AVAILABLE,
            sort=size if size >= 0 else None,
            raw=size / total if size >= 0 and total else "",
        ),
        Cell(listing.files[file] if 0 <= file < len(listing.files) else ""),
    )
