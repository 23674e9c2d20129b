"""Writing the timeline of a session as a figure.

The file filters of the open dialog, from the readers that there are.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QCoreApplication
from PySide6.QtWidgets import QFileDialog, QWidget

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.gui.document import Document
from ggscope.model.selection import ColorBy
from ggscope.model.time import TimeRange
from ggscope.render.theme import Theme
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.text import file_name
from ggscope.views.base.plain import ask_yes


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """Where a figure goes and how it looks."""

    path: Path
    theme: str
    size: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class ExportRequest:
    """Draw and write a figure, on a worker."""

    index: TraceIndex
    target: ExportTarget
    visible: TimeRange
    color_by: ColorBy
    mask: npt.NDArray[np.bool_] | None
    lane_state: LaneState
    absolute: bool

    def __call__(self, context: TaskContext) -> str:
        """Return the path written; raises ExportError."""
        from ggscope.render.export import export_timeline

        context.check_cancelled()
        export_timeline(
            self.index,
            self.target.path,
            size=self.target.size,
            theme=self.target.theme,
            visible=self.visible,
            color_by=self.color_by,
            mask=self.mask,
            state=self.lane_state,
            absolute=self.absolute,
        )
        return str(self.target.path)


def ask_target(
    document: Document, settings: Settings, theme: Theme, parent: QWidget
) -> ExportTarget | None:
    """Ask where the figure goes; None if cancelled."""

    def tr(text: str) -> str:
        return QCoreApplication.translate("Export", text)

    folder = settings.files.folder or str(document.path.parent)
    default = Path(folder) / file_name(document.path.stem, ".timeline.png")
    filters = ";;".join(
        (
            tr("PNG picture (*.png)"),
            tr("SVG drawing (*.svg)"),
            tr("PDF document (*.pdf)"),
        )
    )
    name, chosen = QFileDialog.getSaveFileName(
        parent, tr("Export figure"), str(default), filters
    )
    if not name:
        return None
    path = Path(name)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        suffix = ".svg" if "svg" in chosen else ".pdf" if "pdf" in chosen else ".png"
        path = path.with_name(path.name + suffix)
        # The dialog has asked about the name that was typed, not about this one.
        if os.path.lexists(path) and not _may_replace(path, parent):
            return None
    views = document.workspace.views("timeline")
    size = (
        (max(views[0].width(), 640), max(views[0].height(), 360))
        if views
        else (1600, 900)
    )
    return ExportTarget(path, theme.name, size)


def _may_replace(path: Path, parent: QWidget) -> bool:
    """Ask whether what is there may be replaced."""
    text = QCoreApplication.translate("Export", "{0} exists already. Replace it?")
    return ask_yes(parent, text.format(path.name))


def write_figure(
    document: Document,
    target: ExportTarget,
    on_done: Callable[[str], None],
    on_failed: Callable[[str], None],
) -> None:
    """Write what the timeline shows now, on a worker."""
    session = document.session
    if session.index is None:
        return

    def on_error(failure: TaskFailure) -> None:
        on_failed(failure.message)

    request = ExportRequest(
        session.index,
        target,
        session.visible_range,
        session.color_by,
        session.mask,
        session.lane_state,
        session.absolute_time,
    )
    session.tasks.run(
        "export",
        request,
        on_done,
        on_error=on_error,
        even_if_held=True,  # a person asked for just what is shown
        title=QCoreApplication.translate("Export", "Writing {0}").format(
            target.path.name
        ),
    )


def name_filters() -> str:
    """Return the filters as QFileDialog wants them; all files where none is known."""
    every = QCoreApplication.translate("OpenFilters", "All files (*)")
    try:
        from ggscope.readers.registry import readers

        infos = [reader.info for reader in readers(waits=False)]
    except Exception:  # noqa: BLE001 - a reader's fault must not stop the dialog
        return every
    suffixes = sorted({s for info in infos for s in info.suffixes})
    if not suffixes:
        return every
    everything = " ".join(f"*{s}" for s in suffixes)
    traces = QCoreApplication.translate("OpenFilters", "Traces")
    single = [
        f"{info.title} ({' '.join('*' + s for s in info.suffixes)})"
        for info in infos
        if info.suffixes
    ]
    return ";;".join([f"{traces} ({everything})", *single, every])
