"""Asking for files: where a figure goes, and the filters of what can be opened."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from ggscope.gui.document import Document
from ggscope.gui.widgets import CHANGES_NOTHING
from ggscope.render.export import SUFFIXES, Figure
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.text import file_name
from ggscope.views.base.plain import ask_yes


@dataclass(frozen=True, slots=True, eq=False)
class ExportRequest:
    """Draw and write a figure, on a worker."""

    figure: Figure
    path: Path

    def __call__(self, context: TaskContext) -> str:
        """Return the path written; raises ExportError."""
        context.check_cancelled()
        self.figure.write(self.path)
        return str(self.path)


def _tr(text: str) -> str:
    return QCoreApplication.translate("Export", text)


def ask_path(
    figure: Figure, document: Document, settings: Settings, parent: QWidget
) -> Path | None:
    """Ask where a figure goes; None if cancelled."""
    folder = settings.files.folder or str(document.path.parent)
    default = Path(folder) / file_name(document.path.stem, f".{figure.name}.png")
    words = {
        ".png": _tr("PNG picture"),
        ".svg": _tr("SVG drawing"),
        ".pdf": _tr("PDF document"),
        ".dot": _tr("DOT graph"),
    }
    filters = {f"{words[s]} (*{s})": s for s in (*SUFFIXES, *figure.texts)}
    name, chosen = QFileDialog.getSaveFileName(
        parent,
        _tr("Export figure"),
        str(default),
        ";;".join(filters),
        "",
        CHANGES_NOTHING,
    )
    if not name:
        return None
    path = Path(name)
    if path.suffix.lower() not in filters.values():
        path = path.with_name(path.name + filters.get(chosen, ".png"))
        # The dialog has asked about the name that was typed, not about this one.
        question = _tr("{0} exists already. Replace it?").format(path.name)
        if os.path.lexists(path) and not ask_yes(parent, question):
            return None
    return path


def write_figure(
    session: Session,
    figure: Figure,
    path: Path,
    on_done: Callable[[str], None],
    on_failed: Callable[[str], None],
) -> None:
    """Write a figure on a worker."""

    def on_error(failure: TaskFailure) -> None:
        on_failed(failure.message)

    session.tasks.run(
        "export",
        ExportRequest(figure, path),
        on_done,
        on_error=on_error,
        even_if_held=True,  # a person asked for just what is shown
        title=_tr("Writing {0}").format(path.name),
    )


def name_filters() -> str:
    """Return the filters as QFileDialog wants them; all files where none is known."""
    every = QCoreApplication.translate("OpenFilters", "All files (*)")
    try:
        from ggscope.readers.registry import infos

        known = infos(waits=False)
    except Exception:  # noqa: BLE001 - a reader's fault must not stop the dialog
        return every
    suffixes = sorted({s for info in known for s in info.suffixes})
    if not suffixes:
        return every
    everything = " ".join(f"*{s}" for s in suffixes)
    traces = QCoreApplication.translate("OpenFilters", "Traces")
    single = [
        f"{info.title} ({' '.join('*' + s for s in info.suffixes)})"
        for info in known
        if info.suffixes
    ]
    return ";;".join([f"{traces} ({everything})", *single, every])
