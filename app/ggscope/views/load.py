"""Load timeline: how a model was read from storage, and what caused the reads."""

from functools import partial
from typing import ClassVar

import numpy as np
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ggscope.analysis.load.causes import Cause
from ggscope.analysis.load.cells import LoadCells
from ggscope.analysis.load.load import ALL_FILES, Load, load_of
from ggscope.analysis.load.rows import LoadRows, load_keys, load_rows
from ggscope.descriptions.load import CAUSES, level_text, load_text
from ggscope.model.selection import Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_exact_bytes,
    format_offset,
)
from ggscope.render.export import ExportCommand
from ggscope.render.load import (
    LoadOptions,
    LoadScene,
    cell_lines,
    compose_load,
    draw_load,
    exact_cells,
    faults_beside,
    heat_shape,
    main_file,
    reads_at,
    shown_time,
)
from ggscope.render.options import export_command
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext
from ggscope.views.base.canvas import ENTER_KEYS, STEP_KEYS, PaintedView
from ggscope.views.base.gestures import CanvasGestures
from ggscope.views.base.safe_text import Label
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.widgets import ControlRow, choose, scaled

_KEY, _CELLS_KEY = "load", "load cells"
_FEW_READS = 200_000
"""Up to so many reads the cells of a picture are computed when it is drawn."""
_LOW_PX = 260
"""In a lower pane the answer is one line beside the choices."""
_MAX_ROWS, _MAX_HIGHLIGHTED = 2000, 100_000
_BYTES = 2
"""Column by which rows come."""


class LoadGestures(CanvasGestures):
    """Turns mouse events into calls of the view."""

    def __init__(self, view: "LoadView") -> None:
        super().__init__(view)
        self._view = view

    def _is_ready(self) -> bool:
        return self._view.scene_now() is not None

    def _press(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        return self._view.select_at(at.x(), at.y())

    def _double_click(self, event: QMouseEvent, at: QPointF) -> bool:
        if event.button() != Qt.MouseButton.LeftButton:
            return False
        if self._view.select_at(at.x(), at.y()):
            self._view.go_to_read()
        return True


class LoadView(PaintedView):
    """Reads over time and offset, and beside it their tensors and the rest.

    Attributes
    ----------
    load : the reads; None before they are computed, and where there are none.
    """

    draw_scene = staticmethod(compose_load)
    draw_figure = staticmethod(draw_load)
    passing: ClassVar = {"cells": None}
    needs_whole_trace = True
    keys = (*STEP_KEYS, *ENTER_KEYS)

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__("Load timeline", session, theme, parent)
        self.setObjectName("load")
        self.load: Load | None = None
        self._of: Trace | None = None
        self._faults: LoadRows | None = None
        self._cells: tuple[object, LoadCells] | None = None
        self._requested_key: object = None
        self._read = -1
        self._gestures = LoadGestures(self)
        self.controls = ControlRow(self)
        self.level_box = self.controls.add_choice(
            "reads", [("", "")], "As what reads were recorded", self._on_choice
        )
        self.file_box = self.controls.add_choice(
            "file",
            [("all files", ALL_FILES)],
            "Only reads of one file",
            self._on_choice,
        )
        self.range_box = self.controls.add_switch(
            "marked range only", "Only reads in the marked range", self._on_choice
        )
        self.model = TextTableModel(_headings(), self)
        self.model.came_by = _BYTES
        self.table = TextTable(self.model, self, "load", keeps_first=True)
        self.table.setAccessibleName("Tensors that were read, and other reads")
        self.table.selectionModel().selectionChanged.connect(self._on_row)
        self.table.row_opened.connect(self._on_row_opened)
        split = self.split_with(self.table, (3, 1))
        split.setSizes([scaled(900), scaled(460)])
        self.text_label = Label("", self)
        self.text_label.setWordWrap(True)
        self.text_label.setContentsMargins(scaled(10), 0, scaled(10), scaled(4))
        self.box.addWidget(self.controls)
        self.box.addWidget(self.text_label)
        self.box.addWidget(split, 1)
        self.theme_with(self.controls, self.table)
        self.connect_until_release(
            (session.ranges.marked_changed, self._on_marked),
        )

    # -- session ---------------------------------------------------------------

    def compute(self, trace: Trace) -> None:
        """Read the reads out of the trace on a worker."""
        if trace is not self._of:
            self._of, self.load = trace, None
            keys = load_keys(trace)
            items = [(level_text(key), key) for key in keys] or [("", "")]
            self.controls.set_choices(self.level_box, items)
            choose(self.level_box, items[0][1])
            self._offer_files(trace)
        self._ask(trace)

    def forget(self) -> None:
        """Drop what was computed of the trace."""
        self._of = self.load = self._cells = None
        self.text_label.setText("")
        self._place_text()
        self._show_rows()
        self.repaint_picture()

    def _offer_files(self, trace: Trace) -> None:
        """Offer the files of the chosen level; the one that was read most is chosen."""
        key = self.level_box.currentData()
        items: list[tuple[str, object]] = [("all files", ALL_FILES)]
        best = ALL_FILES
        if key:
            rows = load_rows(trace, key)
            best = main_file(rows)
            used = np.unique(rows.file[rows.file >= 0]).tolist()
            items += [(rows.files[i].name, i) for i in used[:200]]
        self.controls.set_choices(self.file_box, items)
        choose(self.file_box, best)

    def _ask(self, trace: Trace) -> None:
        key = self.level_box.currentData()
        if not key:
            self._show(trace, None)
            return
        self.run(
            _KEY,
            partial(_load_of, trace, key, self.file_box.currentData(), self._time()),
            partial(self._show, trace),
            "Reading the reads",
        )

    def _time(self) -> TimeRange | None:
        marked = self.session.ranges.marked
        if not self.range_box.isChecked() or marked is None:
            return None
        return marked.time

    def _show(
        self, trace: Trace, result: tuple[Load | None, LoadRows | None] | None
    ) -> None:
        self.load, self._faults = result or (None, None)
        self._cells, self._requested_key, self._read = None, None, -1
        text = ""
        if self.load is not None:
            text = load_text(trace, self.load.facts)
        self.text_label.setText(text)
        self._place_text()
        self.setAccessibleDescription(text)
        self._show_rows()
        self.repaint_picture()

    def _on_choice(self) -> None:
        trace = self._of
        if trace is None:
            return
        if (
            self.load is not None
            and self.level_box.currentData() != self.load.facts.key
        ):
            self._offer_files(trace)
        self._ask(trace)

    def _on_marked(self, _: object = None) -> None:
        if self.range_box.isChecked() and self._of is not None:
            self._ask(self._of)

    # -- picture ---------------------------------------------------------------

    def scene(self, width: float, height: float, scale: float) -> LoadScene | None:
        """Return the scene; None where no read is recorded.

        Of many reads the cells are computed by a worker: meanwhile those of the last
        picture are drawn, spread to the pixels of this one.
        """
        load, trace = self.load, self._of
        if load is None or trace is None or not load.facts.n:
            return None
        scene = LoadScene(
            trace, load, shown_time(load, self._time()), width, height, self.theme,
            scale, self._faults,
        )  # fmt: skip
        key = (heat_shape(scene), scene.time, id(load))
        if self._cells is not None and self._cells[0] == key:
            return _with_cells(scene, self._cells[1])
        if len(load.rows) <= _FEW_READS:
            self._cells = key, exact_cells(scene)
            return _with_cells(scene, self._cells[1])
        if key != self._requested_key:
            self._requested_key = key
            self.run(
                _CELLS_KEY,
                partial(_cells_of, scene),
                partial(self._show_cells, key),
                "Counting bytes by pixel",
            )
        return None if self._cells is None else _with_cells(scene, self._cells[1])

    def _show_cells(self, key: object, cells: LoadCells | None) -> None:
        if cells is not None:
            self._cells = key, cells
            self.repaint_picture()

    def recipe(self, trace: Trace, scene: LoadScene) -> ExportCommand:
        """Return the command line that makes the figure of a scene."""
        load = scene.load
        number = self.file_box.currentData()
        best = main_file(load.whole)
        name = load.whole.files[number].path if number != best and number >= 0 else ""
        level = "" if load.facts.key == load.keys[0] else load.facts.key
        options = LoadOptions(level=level, file=name, visible=self._time())
        lacks: tuple[str, ...] = ()
        if number == ALL_FILES and best != ALL_FILES:
            lacks = ("The command draws the file of which most was read, not all.",)
        return export_command("load", trace, options, lacks)

    def empty_text(self, trace: Trace) -> tuple[str, str]:
        """Return why there is no picture: a title and a hint."""
        if self.is_computing(_KEY) or self.is_computing(_CELLS_KEY):
            return "Reading the reads…", ""
        if self.load is not None:
            return "No reads here", "Choose another file, or the whole trace."
        return (
            "No reads of storage recorded",
            "Open what blkparse, biosnoop, strace or perf print, with filefrag -v of "
            "the model file and the model beside it.",
        )

    def tooltip_at(self, x: float, y: float) -> str:
        """Return what is known of the reads at a position."""
        scene = self.scene_now()
        return "" if scene is None else "\n".join(cell_lines(scene, x, y))

    # -- reads -----------------------------------------------------------------

    def select_at(self, x: float, y: float) -> bool:
        """Select the largest read at a position; return whether there is one."""
        scene = self.scene_now()
        if scene is None:
            return False
        reads = reads_at(scene, x, y)
        if len(reads):
            self.select_read(int(reads[0]))
        return len(reads) > 0

    def select_read(self, read: int) -> None:
        """Select the span of a read, where it has one."""
        load = self.load
        if load is None or not 0 <= read < len(load.rows):
            return
        self._read = read
        span = int(load.rows.span[read])
        if span >= 0:
            self.session.selection.select(Selection("spans", (span,)))

    def go_to_read(self) -> None:
        """Show the selected read in the timeline."""
        if self.session.selection.current.table == "groups":
            self.session.linking.show_longest()
        elif self.load is not None and self._read >= 0:
            span = int(self.load.rows.span[self._read])
            if span >= 0:
                self.session.selection.select_span(span)

    def step(self, by: int) -> None:
        """Select a read that many further in time."""
        if self.load is None or not len(self.load.rows):
            return
        last = len(self.load.rows) - 1
        now = self._read if self._read >= 0 else (-1 if by > 0 else last + 1)
        self.select_read(min(max(now + by, 0), last))

    # -- table -----------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hide the text in a low pane, so that the picture fits."""
        super().resizeEvent(event)
        self._place_text()

    def _place_text(self) -> None:
        text = self.text_label.text()
        is_low = self.height() < scaled(_LOW_PX)
        self.text_label.setVisible(bool(text) and not is_low)
        self.controls.message.setText(text if is_low else "")

    def _show_rows(self) -> None:
        load, trace = self.load, self._of
        if load is None or trace is None:
            self.model.set_rows(())
            self.table.setVisible(False)
            return
        rows, payloads = _rows_of(trace, load)
        self.model.set_rows(rows, payloads=payloads)
        self.table.fit_columns()
        self.table.setVisible(bool(rows))

    def _on_row(self, *_: object) -> None:
        rows = self.table.selected_rows()
        payload = self.model.payload(rows[0]) if len(rows) == 1 else None
        load = self.load
        if load is None or not isinstance(payload, tuple):
            return
        what, number = payload
        if what == "read":
            self.select_read(number)
            return
        spans = load.rows.span[load.reads_of(number)]
        spans = spans[spans >= 0][:_MAX_HIGHLIGHTED]
        if len(spans) and self._of is not None:
            name = self._of.strings[int(self._of.tensors.name[number])]
            group = SpanGroup("tensor", name, ids=tuple(spans.tolist()))
            self.session.selection.select_group(group)
        else:
            self.session.selection.select_tensor(number)

    def _on_row_opened(self, _: int) -> None:
        self._on_row()
        self.go_to_read()

    # -- input -----------------------------------------------------------------

    def press_key(self, event: QKeyEvent) -> None:
        """Step by arrows, show the selected read by Enter."""
        key = Qt.Key(event.key())
        if key in STEP_KEYS:
            self.step(STEP_KEYS[key])
        else:
            self.go_to_read()


def _with_cells(scene: LoadScene, cells: LoadCells) -> LoadScene:
    return LoadScene(
        scene.trace, scene.load, scene.time, scene.width, scene.height, scene.theme,
        scene.scale, scene.faults, cells,
    )  # fmt: skip


def _load_of(
    trace: Trace, key: str, file: int, time: TimeRange | None, _: TaskContext
) -> tuple[Load | None, LoadRows | None]:
    return load_of(trace, key, file, time), faults_beside(trace, key)


def _cells_of(scene: LoadScene, _: TaskContext) -> LoadCells:
    return exact_cells(scene)


def _headings() -> tuple[Heading, ...]:
    return (
        Heading("tensor, or other read", "What was read", 190),
        Heading("reads", "Requests or accesses that are of it", 64, right=True,
                largest_first=True),
        Heading("bytes", "Bytes of it in these", 84, right=True, largest_first=True),
        Heading("waited", "Time of these together", 84, right=True,
                largest_first=True),
        Heading("cause", "What caused the reads", 220),
    )  # fmt: skip


def _rows_of(
    trace: Trace, load: Load
) -> tuple[list[tuple[Cell, ...]], list[tuple[str, int]]]:
    """Return the rows of tensors by bytes, then the reads that nothing caused."""
    rows: list[tuple[Cell, ...]] = []
    payloads: list[tuple[str, int]] = []
    has_sizes, unit = load.facts.n_sized > 0, trace.clock.unit
    cause = load.causes
    for row in load.by_tensor(_MAX_ROWS):
        reads = load.reads_of(row.tensor)
        codes = np.bincount(cause.cause[reads], minlength=1)
        name = trace.strings[int(trace.tensors.name[row.tensor])]
        text = "; ".join(
            f"{format_count(int(codes[code]))}: {CAUSES[Cause(code)]}"
            for code in np.argsort(-codes, kind="stable").tolist()
            if codes[code]
        )
        rows.append(
            (
                Cell(name, name),
                Cell(format_count(row.n), row.n),
                Cell(format_bytes(row.bytes) if has_sizes else "", row.bytes,
                     tip=format_exact_bytes(row.bytes)),
                Cell(format_duration(row.ticks, unit), row.ticks,
                     tip=format_exact(row.ticks, unit)),
                Cell(text, text),
            )
        )  # fmt: skip
        payloads.append(("tensor", row.tensor))
    has_tensor = np.zeros(len(load.rows), np.bool_)
    has_tensor[load.tensors.read] = True
    for read in np.flatnonzero(~has_tensor)[: _MAX_ROWS - len(rows)].tolist():
        size = int(load.rows.size[read])
        took = int(load.rows.end[read] - load.rows.start[read])
        place, why = _place_text(load, read), CAUSES[Cause(int(cause.cause[read]))]
        rows.append(
            (
                Cell(place, place),
                Cell("1", 1),
                Cell(format_bytes(size) if size >= 0 else "", size),
                Cell("" if load.rows.is_open[read] else format_duration(took, unit),
                     took),
                Cell(why, why),
            )
        )  # fmt: skip
        payloads.append(("read", read))
    return rows, payloads


def _place_text(load: Load, read: int) -> str:
    rows = load.rows
    number = int(rows.file[read])
    if number >= 0:
        name = rows.files[number].name
        offset = int(rows.offset[read])
        return f"{name} at {format_offset(offset)}" if offset >= 0 else name
    place = int(rows.place[read])
    return f"device at {format_offset(place)}" if place >= 0 else "not known"
