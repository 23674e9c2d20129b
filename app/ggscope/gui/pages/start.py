"""The start page: drop area, recent files, samples, the first keys.

Entries of the list of recent files: a file, a folder, or several as one session.
"""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QCoreApplication, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ggscope import assets
from ggscope.gui.widgets import button, label, set_property
from ggscope.live.options import OPTIONS
from ggscope.model.units import format_bytes
from ggscope.sanitize import caption
from ggscope.session.settings import RECENT_SEPARATOR, Settings
from ggscope.views.base.safe_text import ElidedLabel, Label, set_tip
from ggscope.views.base.view import guarded


def recent_paths(text: str) -> tuple[Path, ...]:
    """Return the files of an entry; the first one is what was opened."""
    return tuple(Path(part) for part in text.split(RECENT_SEPARATOR) if part)


def recent_title(text: str) -> str:
    """Return what menus call an entry."""
    first, *more = recent_paths(text)
    return f"{first.name} +{len(more)}" if more else first.name


def recent_exists(text: str) -> bool:
    """Return whether all files of an entry are still there."""
    return all(os.path.exists(path) for path in recent_paths(text))


SAMPLE_SUFFIXES = (".ggmlviz", ".bin", ".json", ".jsonl")
SAMPLE_WORDS = {
    "llama-demo.ggmlviz": "LLaMA, the first 36 events",
    "llama.ggmlviz": "LLaMA on four threads",
    "whisper.ggmlviz": "Whisper, one run",
    "tinyllama-256.bin": "TinyLlama, tensor accesses with DISK and BUFFER",
    "npu-prefill-decode.json": "NPU, prefill and decode",
    "moe-experiment": "Mixture of experts with its model, map, buffers and graphs",
}
_KEYS = (
    ("W A S D", "zoom and pan"),
    ("F", "centre, then fit the selection"),
    ("Ctrl+F", "search"),
    ("[ ]", "previous, next token"),
    ("G", "dual view or grid"),
    ("Ctrl+Shift+P", "all commands"),
    ("?", "all shortcuts"),
)
_KEY_COLUMNS = 4
_MAX_LETTERS = 32
"""Of a file's name on a button."""


def samples() -> tuple[Path, ...]:
    """Return the bundled samples, files and folders; none where they are missing."""
    try:
        folder = assets.path("samples")
        paths = [
            p
            for p in folder.iterdir()
            if p.suffix in SAMPLE_SUFFIXES or os.path.isdir(p)
        ]
    except OSError:
        return ()
    return tuple(sorted(paths))


@guarded
class StartPage(QWidget):
    """Shown while no file is open."""

    open_requested = Signal()
    record_requested = Signal()
    programs_requested = Signal()
    follow_requested = Signal(str)
    file_chosen = Signal(str)

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Start page")
        self._settings = settings
        self.recent_rows: list[FileRow] = []
        self.sample_rows: list[FileRow] = []
        self._recent_box = QVBoxLayout()
        self._sample_box = QVBoxLayout()
        for box in (self._recent_box, self._sample_box):
            box.setSpacing(0)
        self.drop = self._make_drop_area()
        self.setFocusProxy(self.open_button)
        self._lay_out()
        settings.changed.connect(self._on_settings_changed)
        self.refresh()

    def set_hot(self, is_hot: bool) -> None:
        """Show that letting go here opens what is dragged."""
        set_property(self.drop, "hot", is_hot)

    def refresh(self) -> None:
        """List recent files and samples anew."""
        recent = self._settings.files.recent[:7]
        self.recent_rows = self._fill(self._recent_box, recent, _folder_and_size)
        names = [str(path) for path in samples()]
        self.sample_rows = self._fill(self._sample_box, names, _sample_text)
        self._no_recent.setVisible(not self.recent_rows)
        self._show_output()

    def _show_output(self) -> None:
        """Offer to follow the event stream that the environment or a file names."""
        path = OPTIONS.output
        self.follow_button.setVisible(bool(path))
        if path:
            name = Path(path).name
            if len(name) > _MAX_LETTERS:
                name = f"{name[: _MAX_LETTERS // 2]}…{name[-_MAX_LETTERS // 2 :]}"
            text = f"Follow {name}"
            self.follow_button.setText(caption(text))
            self.follow_button.setAccessibleName(text)
            tip = "Follow {0} live (from {1})"
            set_tip(self.follow_button, tip.format(path, OPTIONS.output_source))

    def _on_follow(self) -> None:
        self.follow_requested.emit(OPTIONS.output)

    def showEvent(self, event: object) -> None:
        """Look again: files come and go."""
        self.refresh()
        super().showEvent(event)  # type: ignore[arg-type]  # QShowEvent

    def _on_settings_changed(self, topic: str) -> None:
        if topic == "files" and self.isVisible():
            self.refresh()

    def _fill(
        self, box: QVBoxLayout, entries: Sequence[str], describe: Callable[[Path], str]
    ) -> "list[FileRow]":
        while box.count():
            item = box.takeAt(0)
            old = None if item is None else item.widget()
            if old is not None:
                old.hide()
                old.deleteLater()
        rows = []
        for entry in entries:
            row = FileRow(entry, describe(recent_paths(entry)[0]), self)
            row.chosen.connect(self.file_chosen)
            box.addWidget(row)
            rows.append(row)
        return rows

    def _make_drop_area(self) -> QFrame:
        area = QFrame(self)
        area.setObjectName("dropArea")
        area.setMinimumHeight(132)
        area.setMaximumHeight(200)
        area.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        head = label("Drop trace files here", area, "large")
        text = label(
            "traces, server logs, profiles, benchmarks, models · or a whole folder",
            area,
            "dim",
            wraps=True,
        )
        self.open_button = button(
            "Open…",
            self.open_requested.emit,
            area,
            primary=True,
            tip="Open trace files (Ctrl+O)",
        )
        self.record_button = button(
            "Record a program…",
            self.record_requested.emit,
            area,
            tip="Run llama.cpp and watch its ops live",
        )
        self.programs_button = button(
            "Follow a running program…",
            self.programs_requested.emit,
            area,
            tip="List running programs that use ggml",
        )
        self.follow_button = button("", self._on_follow, area)
        box = QVBoxLayout(area)
        box.setContentsMargins(24, 12, 24, 12)
        box.setSpacing(8)
        box.addStretch(1)
        for part in (head, text):
            part.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            box.addWidget(part)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addStretch(1)
        row.addWidget(self.open_button)
        row.addWidget(self.record_button)
        row.addWidget(self.programs_button)
        row.addWidget(self.follow_button)
        row.addStretch(1)
        box.addSpacing(6)
        box.addLayout(row)
        box.addStretch(1)
        return area

    def _lay_out(self) -> None:
        inner = QWidget(self)
        inner.setMaximumWidth(920)
        column = QVBoxLayout(inner)
        column.setContentsMargins(24, 24, 24, 16)
        column.setSpacing(16)
        head = QVBoxLayout()
        head.setSpacing(4)
        head.addWidget(label("ggscope", inner, "title"))
        word = "Viewer for inference traces of llama.cpp, ggml, GPUs and NPUs"
        head.addWidget(label(word, inner, "dim"))
        column.addStretch(1)
        column.addLayout(head)
        column.addWidget(self.drop, 100)
        self._no_recent = label(
            "Recently opened files appear here.", inner, "dim", wraps=True
        )
        lists = QHBoxLayout()
        lists.setSpacing(32)
        for title, box, extra in (
            ("RECENT", self._recent_box, self._no_recent),
            ("SAMPLES", self._sample_box, None),
        ):
            side = QVBoxLayout()
            side.setSpacing(6)
            side.addWidget(label(title, inner, "head"))
            if extra is not None:
                side.addWidget(extra)
            side.addLayout(box)
            side.addStretch(1)
            lists.addLayout(side, 1)
        column.addLayout(lists)
        column.addWidget(label("SHORTCUTS", inner, "head"))
        column.addLayout(_keys(inner))
        column.addStretch(2)
        outer = QWidget()
        row = QHBoxLayout(outer)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(inner, 100)
        row.addStretch(1)
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(outer)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(scroll)


class FileRow(QPushButton):
    """A file by name with a dim second line; missing files are dim altogether.

    An entry may stand for several files; see `recent_paths`.
    """

    chosen = Signal(str)

    def __init__(self, entry: str, second: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("fileRow")
        self._entry = entry
        path = self.path = recent_paths(entry)[0]
        self.is_missing = not recent_exists(entry)
        self.setEnabled(not self.is_missing)
        if self.is_missing:
            path = next(p for p in recent_paths(entry) if not os.path.exists(p))
        missing_text = f"{path} no longer exists"
        set_tip(self, missing_text if self.is_missing else entry)
        self.setAccessibleName(recent_title(entry))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        name = ElidedLabel(self, recent_title(entry), mode=Qt.TextElideMode.ElideMiddle)
        if self.is_missing:
            second = f"not found: {path.parent}"
            name.setProperty("role", "dim")
        under = ElidedLabel(self, second, mode=Qt.TextElideMode.ElideMiddle)
        under.setProperty("role", "dim")
        box = QVBoxLayout(self)
        box.setContentsMargins(8, 5, 8, 5)
        box.setSpacing(1)
        for part in (name, under):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            part.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            box.addWidget(part)
        self.setMinimumHeight(box.sizeHint().height())
        self.clicked.connect(self._on_clicked)

    def _on_clicked(self) -> None:
        self.chosen.emit(self._entry)


def _keys(parent: QWidget) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(8)
    grid.setVerticalSpacing(6)
    for position, (keys, text) in enumerate(_KEYS):
        row, column = divmod(position, _KEY_COLUMNS)
        cell = QHBoxLayout()
        cell.setSpacing(8)
        cell.addWidget(label(keys, parent, "key"))
        what: Label = label(text, parent, "dim")
        cell.addWidget(what)
        cell.addStretch(1)
        grid.addLayout(cell, row, column)
    return grid


def _folder_and_size(path: Path) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return str(path.parent)
    if stat.S_ISDIR(status.st_mode):
        return QCoreApplication.translate("StartPage", "folder · {0}").format(
            path.parent
        )
    return f"{format_bytes(status.st_size)} · {path.parent}"


def _sample_text(path: Path) -> str:
    text = SAMPLE_WORDS.get(path.name, "")
    try:
        status = os.stat(path)
    except OSError:
        return text
    if stat.S_ISDIR(status.st_mode):
        word = QCoreApplication.translate("StartPage", "folder")
        return f"{text} · {word}" if text else word
    size = format_bytes(status.st_size)
    return f"{text} · {size}" if text else size
