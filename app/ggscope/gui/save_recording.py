"""Saving what was recorded in a tab, so far or in all."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QFileDialog

from ggscope.atomic_write import write_files
from ggscope.gui.widgets import CHANGES_NOTHING
from ggscope.live.recording_store import Saved, save_recording
from ggscope.live.source import RecordingLocation
from ggscope.sanitize import file_name
from ggscope.session.tasks import TaskContext

if TYPE_CHECKING:
    from ggscope.gui.document import Document

_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Copy a recording with what belongs to it, on a worker."""

    source: Path
    target: Path

    def __call__(self, context: TaskContext) -> Saved:
        """Return what was written; raises WriteError, OSError."""
        beside = self.source.with_suffix(".json")
        files = [(self.target.name, _pieces(self.source, context))]
        if os.path.exists(beside):
            name = self.target.with_suffix(".json").name
            files.append((name, _pieces(beside, context)))
        write_files(self.target.parent, files)
        return Saved(self.target)


@dataclass(frozen=True, slots=True)
class SaveRecordingRequest:
    """Write what was received so far from a program that may go on, on a worker."""

    recording: RecordingLocation
    target: Path

    def __call__(self, context: TaskContext) -> Saved:
        """Return what was written; raises LiveError, WriteError."""
        return save_recording(
            self.recording, self.target, context.progress, context.check_cancelled
        )


def ask_and_save(document: "Document") -> None:
    """Ask for a name and save what was recorded there; what runs goes on."""
    run, live = document.run, document.live
    is_whole = run is not None and run.has_recording
    recording = RecordingLocation() if live is None else live.recording
    session = document.session
    if not is_whole and recording.place is None:
        session.status_message.emit(_sentence(recording.why))
        return
    if run is not None and run.output:
        proposed = run.output
    elif recording.place is not None and recording.n_bytes >= 0:
        proposed = recording.place.name
    else:
        stem = file_name(f"recording-{time.strftime('%Y%m%d-%H%M%S')}", ".bin")
        proposed = str(Path.home() / stem)
    suffix = Path(proposed).suffix
    kind = "Records" if suffix == ".bin" else "Event stream"
    name, _ = QFileDialog.getSaveFileName(
        document,
        "Save recording",
        proposed,
        f"{kind} (*{suffix})" if suffix else "",
        "",
        CHANGES_NOTHING,
    )
    if not name:
        return
    target = Path(name)
    if target.suffix != suffix:
        target = target.with_name(f"{target.name}{suffix}")
    request = SaveRecordingRequest(recording, target)
    session.tasks.run(
        "save-recording",
        SaveRequest(Path(run.output), target)
        if run is not None and is_whole
        else request,
        document.report_saved,
        on_error=lambda failure: document.problem_reported.emit(failure.message),
        even_if_held=True,
        title="Saving the recording",
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _pieces(path: Path, context: TaskContext) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_COPY_BYTES):
            context.check_cancelled()
            yield piece
