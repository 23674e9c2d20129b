"""A program that was started from the window: what it says, how it ends, its record."""

import os
import shlex
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QFontDatabase, QPalette, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from ggscope.gui.widgets import (
    CHANGES_NOTHING,
    GlyphButton,
    button,
    label,
    set_property,
)
from ggscope.live.keeping import Saved, write_kept
from ggscope.live.launch import TOOL, Check, Running, Wish
from ggscope.live.source import Kept
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext
from ggscope.text import file_name, one_line, plain
from ggscope.views.base.plain import ElidedLabel, copy_text
from ggscope.views.base.view import guarded
from ggscope.writing import write_files

if TYPE_CHECKING:
    from ggscope.gui.document import Document

_LOOK_MS = 100
_SILENCE_S = 5.0
_MOST_LETTERS = 1 << 19
"""So much of what a program says is kept; what is older goes."""
_COPY_BYTES = 1 << 20
_DEMO, _DEMO_TOKENS, _DEMO_PACE = "moe", 480, 40
"""With experts; so many tokens fit the driver's context, and at so many a second they
take 12 s, in which a person sees them come: by themselves they take less than one."""


class Run(QObject):
    """A program under the capture tool, from its start to its recording.

    Attributes
    ----------
    output : file of the records, which is there when the tool has ended; "" = nowhere
        that is known beforehand.
    shown_command : what does the same in a terminal.
    check : what was found out beforehand, None = nothing.

    Signals
    -------
    said(is_error, text) : what the program, or the tool, says.
    changed : the state in words.
    ended : all that was recorded is written.
    is_silent : five seconds have gone by.
    """

    said = Signal(bool, str)
    changed = Signal()
    ended = Signal()
    is_silent = Signal()

    def __init__(
        self,
        name: str,
        running: Running,
        output: str,
        shown_command: str,
        check: Check | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.name, self.output, self.shown_command = name, output, shown_command
        self.check = check
        self.status: int | None = None
        self.is_stopped = False
        """Whether a person has stopped it."""
        self._running = running
        self._said: deque[tuple[bool, str]] = deque()
        self._n_letters = 0
        self._began = time.monotonic()
        self._second = -1
        self._was_silent = False
        self._look = QTimer(self, interval=_LOOK_MS)
        self._look.timeout.connect(self._on_look)
        self._look.start()

    @property
    def pid(self) -> int:
        """Number of the tool's process."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.status is None

    @property
    def has_recording(self) -> bool:
        """Whether it has ended and left a recording."""
        return not self.is_running and bool(self.output) and Path(self.output).exists()

    def all_said(self) -> list[tuple[bool, str]]:
        """Return what has been said, as far as it is kept."""
        return list(self._said)

    def state(self) -> str:
        """Return how it stands, in words."""
        if self.status is None:
            seconds = int(time.monotonic() - self._began)
            if self.is_stopped:
                return self.tr("stopping")
            return self.tr("running for {0} s").format(f"{seconds:,}")
        if self.status < 0:
            return self.tr("ended by signal {0}").format(-self.status)
        return self.tr("ended with {0}").format(self.status)

    def stop(self) -> None:
        """Ask the program to end; it is killed where it does not within 5 s."""
        if self.is_running:
            self.is_stopped = True
            self._running.stop()
            self.changed.emit()

    def release(self) -> None:
        """Stop it, and do not wait for its end."""
        self._look.stop()
        self._running.let_go()

    def _on_look(self) -> None:
        status = self._running.status()  # first: what it said last is there then
        self._take()
        if self.is_stopped:
            self._running.stop()
        second = int(time.monotonic() - self._began)
        if second != self._second:
            self._second = second
            self.changed.emit()
        if second >= _SILENCE_S and not self._was_silent:
            self._was_silent = True
            self.is_silent.emit()
        if status is not None:
            while self._take():
                pass
            self._look.stop()
            self.status = status
            self.changed.emit()
            self.ended.emit()

    def _take(self) -> bool:
        """Keep and tell what is new; tell whether there was anything."""
        found = self._running.said()
        for is_error, raw in found:
            text = plain(raw.replace("\r\n", "\n"))
            self._said.append((is_error, text))
            self._n_letters += len(text)
            while self._n_letters > _MOST_LETTERS and len(self._said) > 1:
                self._n_letters -= len(self._said.popleft()[1])
            self.said.emit(is_error, text)
        return bool(found)


def start(wish: Wish, check: Check | None) -> Run:
    """Start what a person wants to be run; raises LiveError."""
    running = Running(wish.arguments())
    output = str(Path(wish.output).absolute())
    return Run(wish.target.name, running, output, wish.shown(), check)


def start_demo(settings: Settings) -> Run:
    """Start the demo of the capture tool; raises LiveError."""
    folder = settings.data_folder or Path(tempfile.gettempdir()) / "ggscope"
    place = str(folder / "demo")
    # A core is left to the window: threads that wait for each other spin.
    threads = max(1, min(2, (os.cpu_count() or 1) - 1))
    arguments = ["demo", place, "--model", _DEMO, "--tokens", str(_DEMO_TOKENS)]
    arguments += ["--threads", str(threads), "--pace", str(_DEMO_PACE)]
    output = str(folder / "demo" / f"{_DEMO}.bin")
    return Run("live demo", Running(arguments), output, shlex.join([TOOL, *arguments]))


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Copy a recording with what belongs to it, on a worker."""

    source: Path
    target: Path

    def __call__(self, context: TaskContext) -> Saved:
        """Return what was written; raises WriteError, OSError."""
        beside = self.source.with_suffix(".json")
        files = [(self.target.name, _pieces(self.source, context))]
        if beside.exists():
            name = self.target.with_suffix(".json").name
            files.append((name, _pieces(beside, context)))
        write_files(self.target.parent, files)
        return Saved(self.target)


@dataclass(frozen=True, slots=True)
class SaveKeptRequest:
    """Write what was heard so far of a program that may go on, on a worker."""

    kept: Kept
    target: Path

    def __call__(self, context: TaskContext) -> Saved:
        """Return what was written; raises LiveError, WriteError."""
        return write_kept(
            self.kept, self.target, context.progress, context.check_cancelled
        )


def ask_and_save(document: "Document") -> None:
    """Ask for a name and save what was recorded there; what runs goes on."""
    run, live = document.run, document.live
    is_whole = run is not None and run.has_recording
    kept = Kept() if live is None else live.kept
    session, tr = document.session, document.tr
    if not is_whole and kept.place is None:
        session.noted.emit(_sentence(kept.why))
        return
    if run is not None and run.output:
        proposed = run.output
    elif kept.place is not None and kept.n_bytes >= 0:
        proposed = kept.place.name
    else:
        stem = file_name(f"recording-{time.strftime('%Y%m%d-%H%M%S')}", ".bin")
        proposed = str(Path.home() / stem)
    suffix = Path(proposed).suffix
    kind = tr("Records") if suffix == ".bin" else tr("Event stream")
    name, _ = QFileDialog.getSaveFileName(
        document,
        tr("Save recording"),
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
    request = SaveKeptRequest(kept, target)
    session.tasks.run(
        "save-recording",
        SaveRequest(Path(run.output), target)
        if run is not None and is_whole
        else request,
        lambda saved: session.noted.emit(_sentence(saved.words())),
        on_error=lambda failure: document.problem_reported.emit(failure.message),
        even_if_held=True,
        title=tr("Saving the recording"),
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _pieces(path: Path, context: TaskContext) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_COPY_BYTES):
            context.check_cancelled()
            yield piece


@guarded
class ProgramPane(QFrame):
    """State, text and recording of a run, below the panes.

    Signals
    -------
    open_requested(path) : the recording is to be opened.
    again_requested : the same is to be run again.
    save_requested : what was recorded, so far or in all, is to be saved.
    """

    open_requested = Signal(str)
    again_requested = Signal()
    save_requested = Signal()

    def __init__(self, run: Run, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("program")
        self.setAccessibleName(self.tr("Program"))
        self.run = run
        self._can_save, self._is_at_end = False, True
        self.state = label("", self)
        self.state.setProperty("role", "liveState")
        self.words = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setUndoRedoEnabled(False)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(self.tr("What the program says"))
        self.text.setPlaceholderText(self.tr("What the program says appears here."))
        bar = self.text.verticalScrollBar()
        bar.actionTriggered.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._go_to_end)
        self.stop = button(
            self.tr("Stop program"),
            run.stop,
            self,
            tip=self.tr("Ask the program to end; kill it where it does not within 5 s"),
        )
        self.again = button(
            self.tr("Run again…"),
            self.again_requested.emit,
            self,
        )
        self.copy = button(
            self.tr("Copy command"), lambda: copy_text(run.shown_command), self
        )
        self.open = button(
            self.tr("Open recording"),
            lambda: self.open_requested.emit(run.output),
            self,
        )
        self.save = button(self.tr("Save recording…"), self.save_requested.emit, self)
        self.fold = GlyphButton("down", self.tr("Hide the text"), self)
        self.fold.clicked.connect(self._on_fold)
        row = QHBoxLayout()
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(8)
        row.addWidget(self.state)
        row.addWidget(self.words, 1)
        buttons = (self.open, self.save, self.again, self.copy, self.stop, self.fold)
        for part in buttons:
            row.addWidget(part)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(row)
        box.addWidget(self.text, 1)
        run.said.connect(self._on_said)
        run.changed.connect(self._show)
        self._replay()
        self._show()

    @property
    def is_folded(self) -> bool:
        """Whether only the first line is shown."""
        return self.text.isHidden()

    def set_can_save(self, can_save: bool) -> None:
        """Offer to save what was recorded so far, or not."""
        self._can_save = can_save
        self._show()

    def changeEvent(self, event: QEvent) -> None:
        """Write the text anew in the colours of another theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "fold"):
            self._replay()

    def _show(self) -> None:
        run = self.run
        self.state.setText(f"● {run.state()}")
        level = "good" if run.is_running else "error" if run.status else ""
        if run.is_stopped and run.status in (-15, -9):
            level = ""
        set_property(self.state, "level", level)
        words = one_line(run.name)
        if run.has_recording:
            words += self.tr(" · recorded in {0}").format(one_line(run.output))
        elif not run.is_running:
            words += self.tr(" · nothing was recorded")
        elif run.output:
            words += self.tr(" · is recorded to {0}").format(one_line(run.output))
        if words != self.words.full_text:
            self.words.setText(words)
        self.stop.setVisible(run.is_running)
        self.again.setVisible(not run.is_running)
        self.open.setVisible(run.has_recording)
        self.save.setVisible(run.has_recording or run.is_running)
        self.save.setEnabled(run.has_recording or self._can_save)

    def _replay(self) -> None:
        self.text.clear()
        for is_error, text in self.run.all_said():
            self._append(is_error, text)

    def _on_said(self, is_error: bool, text: str) -> None:
        if self.text.document().characterCount() > 2 * _MOST_LETTERS:
            self._replay()
        else:
            self._append(is_error, text)

    def _append(self, is_error: bool, text: str) -> None:
        role = (
            QPalette.ColorRole.PlaceholderText if is_error else QPalette.ColorRole.Text
        )
        look = QTextCharFormat()
        look.setForeground(self.palette().color(role))
        cursor = QTextCursor(self.text.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, look)
        self._go_to_end()

    def _on_scrolled(self) -> None:
        """Stay where a person has scrolled to, or go on with the end.

        Asked of what people do alone: lines that break anew move the bar, too.
        """
        bar = self.text.verticalScrollBar()
        self._is_at_end = bar.sliderPosition() == bar.maximum()

    def _go_to_end(self) -> None:
        if self._is_at_end:
            bar = self.text.verticalScrollBar()
            bar.setValue(bar.maximum())

    def _on_fold(self) -> None:
        is_folded = not self.is_folded
        self.text.setHidden(is_folded)
        text = self.tr("Show the text") if is_folded else self.tr("Hide the text")
        self.fold.set_glyph("up" if is_folded else "down", text)
        self.setMaximumHeight(self.sizeHint().height() if is_folded else 16_777_215)
