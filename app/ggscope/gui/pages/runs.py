"""What a tab shows of a folder of several runs: a table of them."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QMenu, QVBoxLayout, QWidget

from ggscope import __version__
from ggscope.analysis.filters.text import text_matcher
from ggscope.descriptions.runs import RunCell, run_columns, run_name, run_rows
from ggscope.errors import QueryError
from ggscope.gui.widgets import button, label
from ggscope.model.units import format_count, format_counted
from ggscope.readers.discovery import RunFolder
from ggscope.render.theme import Theme, css
from ggscope.run_summaries import RunSummary, default_cache, summaries
from ggscope.session.session import Session
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.base.cells import CopyForm, TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.safe_text import ElidedLabel, add_action, copy_text, set_tip
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import View
from ggscope.views.base.widgets import lay_out

_TASK = "runs"
_MAX_SKIPPED = 12
_TWO, _SIDES = "Compare", "Compare as sides…"
_TWO_TIP = (
    "Select two runs (Ctrl+click) to compare them, the upper one is A; of more, you "
    "choose which are side A and side B"
)
_SIDES_TIP = "Choose which of the selected runs are side A and which are side B"
Known = tuple[RunSummary | None, ...]


def _listed(folder: RunFolder, limit_bytes: int, context: TaskContext) -> Known:
    """Return the summary of each run; those that are quick are published first."""
    cache = default_cache(__version__)
    known: list[RunSummary | None] = [None] * len(folder.runs)
    listed = summaries(
        folder,
        cache,
        limit_bytes=limit_bytes,
        progress=context.progress,
        cancel=context.cancel,
    )
    try:
        for i, run in listed:
            known[i] = run
            context.publish(tuple(known))
    finally:
        cache.save()
    return tuple(known)


class RunsPage(Copyable, View):
    """A table of runs: which is fastest, what differs, where the time goes.

    Signals
    -------
    open_requested(path) : a run is to be opened in a tab of its own.
    compare_requested(a, b) : two are.
    sides_requested(a, b) : several of each side are to be compared.
    join_requested : all are to be read as one session.
    """

    open_requested = Signal(object)
    compare_requested = Signal(object, object)
    sides_requested = Signal(object, object)
    join_requested = Signal()

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.setObjectName("runs_page")
        self.setAccessibleName("Runs of a folder")
        self._folder: RunFolder | None = None
        self._known: Known = ()
        self._limit_bytes = 0
        self.head = label("", self, "large")
        self.head.setObjectName("runs_head")
        self.state = ElidedLabel(self)
        self.state.setObjectName("runs_state")
        self.state.setProperty("role", "dim")
        self.find_line = QLineEdit(self)
        self.find_line.setObjectName("runs_find")
        self.find_line.setPlaceholderText("Find run, or /regex/")
        self.find_line.setAccessibleName("Find run")
        self.find_line.setFixedWidth(200)
        self.find_line.textChanged.connect(self._show_rows)
        self._make_buttons()
        self.model = TextTableModel(_headings(()), self)
        self.table = TextTable(self.model, self, "runs", keeps_first=True)
        self.table.setAccessibleName("Runs")
        self.table.row_opened.connect(self._on_opened)
        self.table.menu_requested.connect(self._on_menu)
        self.table.selectionModel().selectionChanged.connect(self._on_selected)
        self.setFocusProxy(self.table)
        top, below = QWidget(self), QWidget(self)
        lay_out(
            QHBoxLayout(top), self.head, self.state, self.find_line, self.join_button,
            margins=(16, 12, 12, 8), spacing=12, wide=self.state,
        )  # fmt: skip
        lay_out(
            QHBoxLayout(below), self.open_button, self.compare_button, self.hint,
            self.read_button, margins=(12, 8, 12, 10), spacing=8, wide=self.hint,
        )  # fmt: skip
        lay_out(QVBoxLayout(self), top, self.table, below, wide=self.table)
        self.set_theme(theme)
        self._on_selected()

    def _make_buttons(self) -> None:
        self.open_button = button(
            "Open", self._open_selected, self, primary=True,
            tip="Open the selected runs, each in a tab (Enter)",
        )  # fmt: skip
        self.compare_button = button(_TWO, self._compare_selected, self, tip=_TWO_TIP)
        self.join_button = button(
            "Open as one session", self.join_requested.emit, self,
            tip="Read all files of the folder into one tab, on one clock",
        )  # fmt: skip
        self.read_button = button(
            "Read the others", self._read, self,
            tip="Sum up the ops of the runs that were not read",
        )  # fmt: skip
        self.read_button.hide()
        self.hint = ElidedLabel(self)
        self.hint.setProperty("role", "dim")

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.table.set_theme(theme)
        self.setStyleSheet(f"#runs_page {{ background: {css(theme.pane)}; }}")
        if self._folder is not None:
            self._show_rows()

    def release(self) -> None:
        """Stop reading."""
        super().release()
        self.session.tasks.cancel(_TASK)

    def show_runs(self, folder: RunFolder, limit_bytes: int = 0) -> None:
        """List the runs of a folder, and sum each up on a worker.

        Parameters
        ----------
        limit_bytes : memory that reading a run may use; 0 = what the system has.
        """
        self._folder, self._limit_bytes = folder, limit_bytes
        self._known = (None,) * len(folder.runs)
        self.head.setText(
            f"{format_counted(len(folder.runs), 'run')} in {folder.folder.name}"
        )
        self._show_skipped(folder)
        self._read()

    def _show_skipped(self, folder: RunFolder) -> None:
        n = len(folder.skipped)
        lines = [f"{s.path.name}: {s.reason}" for s in folder.skipped[:_MAX_SKIPPED]]
        if n > _MAX_SKIPPED:
            lines.append(f"… and {format_count(n - _MAX_SKIPPED)} more")
        parts = [f"{format_counted(n, 'other file')}"] if n else []
        if folder.n_left:
            parts.append(f"{format_counted(folder.n_left, 'file')} not looked at")
        self.hint.setText(", ".join(parts))
        set_tip(self.hint, "\n".join(lines))

    # -- reading -----------------------------------------------------------

    def _read(self) -> None:
        folder = self._folder
        if folder is None:
            return
        self.read_button.hide()
        self.session.tasks.run(
            _TASK,
            partial(_listed, folder, self._limit_bytes),
            self._on_known,
            title=f"Reading runs of {folder.folder.name}",
            unit="B",
            on_publish=self._on_some,
            on_cancel=self._on_cancelled,
            on_error=self._on_failed,
        )

    def _on_some(self, known: Known) -> None:
        self._known = tuple(
            new or old for new, old in zip(known, self._known, strict=True)
        )
        n = sum(run is not None and (run.is_read or bool(run.error)) for run in known)
        self.state.setText(f"reading: {format_count(n)} of {format_count(len(known))}")
        self._show_rows()

    def _on_known(self, known: Known) -> None:
        self._known = known
        self.state.setText("")
        self._show_rows()

    def _on_cancelled(self) -> None:
        self.state.setText("stopped; times of some runs are not known")
        self.read_button.show()

    def _on_failed(self, failure: TaskFailure) -> None:
        self.state.setText(failure.message)
        self.read_button.show()

    # -- rows --------------------------------------------------------------

    def _show_rows(self, _: object = None) -> None:
        folder = self._folder
        if folder is None:
            return
        runs = [run for run in self._known if run is not None]
        chosen = {run.path for run in self.selected()}
        headings = _headings(runs)
        if headings != self.model.headings:
            self.model.set_headings(headings)
        keys = [column.key for column in run_columns(runs)]
        rows = run_rows(folder.folder, runs)
        shown = self._matching(folder.folder, runs)
        cells = [tuple(_cell(rows[i][key]) for key in keys) for i in shown]
        self.model.set_rows(cells, payloads=[runs[i] for i in shown])
        self.table.fit_columns()
        self._select(chosen)

    def _matching(self, folder: Path, runs: Sequence[RunSummary]) -> list[int]:
        """Return the positions of runs that match the search, by name or command."""
        pattern = self.find_line.text().strip()
        if not pattern:
            return list(range(len(runs)))
        try:
            matches = text_matcher(pattern)
        except QueryError:
            return []
        texts = [f"{run_name(folder, run)} {run.command} {run.model}" for run in runs]
        return [i for i, text in enumerate(texts) if matches(text)]

    def _select(self, paths: set[Path]) -> None:
        """Select the rows of some runs again."""
        self.table.clearSelection()
        selection, mode = self.table.selectionModel(), self.table.selectionModel()
        flags = mode.SelectionFlag.Select | mode.SelectionFlag.Rows
        for row in range(self.model.rowCount()):
            run = self.model.payload(row)
            if isinstance(run, RunSummary) and run.path in paths:
                selection.select(self.model.index(row, 0), flags)

    def selected(self) -> list[RunSummary]:
        """Return the runs that are selected, from top to bottom."""
        runs = [self.model.payload(row) for row in self.table.selected_rows()]
        return [run for run in runs if isinstance(run, RunSummary)]

    def _on_selected(self, *_: object) -> None:
        n = len(self.table.selected_rows())
        self.open_button.setEnabled(n > 0)
        self.compare_button.setEnabled(n >= 2)
        self.compare_button.setText(_SIDES if n > 2 else _TWO)
        set_tip(self.compare_button, _SIDES_TIP if n > 2 else _TWO_TIP)

    # -- opening -----------------------------------------------------------

    def _on_opened(self, row: int) -> None:
        run = self.model.payload(row)
        if isinstance(run, RunSummary):
            self.open_requested.emit(run.path)

    def _open_selected(self) -> None:
        for run in self.selected():
            self.open_requested.emit(run.path)

    def _compare_selected(self) -> None:
        runs = self.selected()
        if len(runs) == 2:
            self.compare_requested.emit(runs[0].path, runs[1].path)
        elif len(runs) > 2 and self._folder is not None:
            from ggscope.gui.dialogs.sides import SidesDialog  # when it is asked for

            dialog = SidesDialog(self._folder.folder, runs, self.window())
            dialog.chosen.connect(self.sides_requested)
            dialog.open()

    def _on_menu(self, menu: QMenu, row: int) -> None:
        run = self.model.payload(row) if row >= 0 else None
        if not isinstance(run, RunSummary):
            return
        add_action(menu, "Open", self._open_selected)
        n = len(self.selected())
        text = _SIDES if n > 2 else _TWO
        add_action(menu, text, self._compare_selected, enabled=n >= 2)
        menu.addSeparator()
        add_action(menu, "Copy path", partial(copy_text, str(run.path)))
        if run.command:
            add_action(menu, "Copy command", partial(copy_text, run.command))
        menu.addSeparator()

    # -- rows for others ---------------------------------------------------

    def table_file(self) -> TableFile | None:
        """Return the rows for a file."""
        return self.table.table_file()

    def copy_rows(self, form: CopyForm) -> None:
        """Copy the rows that are selected, else all."""
        self.table.copy_rows(form)


def _headings(runs: Sequence[RunSummary]) -> tuple[Heading, ...]:
    return tuple(
        Heading(
            column.title,
            column.tip,
            column.width,
            right=column.is_number,
            stretch=column.key == "run",
            copied=column.key,
            largest_first=column.is_number,
        )
        for column in run_columns(runs)
    )


def _cell(cell: RunCell) -> Cell:
    return Cell(
        cell.text,
        sort=cell.sort,
        raw=cell.raw,
        tip=cell.tip,
        caution=cell.is_caution,
        is_dim=cell.text in ("…", "–"),
        bar=cell.share,
    )
