"""Dialogs: settings, readers, op tables, about, bookmarks, texts."""

import importlib.metadata
import json
import platform
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal, qVersion
from PySide6.QtGui import (
    QCloseEvent,
    QFontMetrics,
    QShowEvent,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextTable,
)
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QTableWidget,
    QTableWidgetItem,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

import ggscope
from ggscope import assets
from ggscope.assets import PACKAGES
from ggscope.gui.dialogs.find import FindLine
from ggscope.gui.dialogs.fitted import Dialog, scrolled
from ggscope.gui.messages import LogEntry
from ggscope.gui.widgets import CHANGES_NOTHING, button, label
from ggscope.model.notes import NOTE_COLORS
from ggscope.model.trace import Trace
from ggscope.render.theme import Theme
from ggscope.sanitize import one_line
from ggscope.session.bookmarks.bookmarks import MAX_NAME, MAX_NOTE, Bookmark
from ggscope.session.settings import FONT_SCALES, MAX_LIMIT_MIB, Settings
from ggscope.views.base.note_colors import note_icon
from ggscope.views.base.safe_text import set_tip, set_title
from ggscope.views.base.view import guarded

_TITLE_PX = 420
"""A narrower dialog has a title that the window manager cuts."""
GUIDE_PAGES = (
    "start", "guide/opening", "guide/experiments", "guide/navigation",
    "views/summary", "views/threads", "views/compare", "views/tokens",
    "views/requests", "views/sql", "views/memory", "views/backends", "views/bench",
    "views/roofline", "views/npu", "views/statistics",
    "views/timeline", "guide/filters",
    "views/index", "views/heatmap", "views/3d", "views/tensors", "views/load",
    "views/hot", "views/flags",
    "views/cache", "views/experts", "views/buffers", "views/graph", "guide/export",
    "guide/shell", "guide/recording", "guide/live", "guide/problems", "guide/plugins",
)  # fmt: skip
"""Pages of resources/docs that *Help > User guide* shows, in this order."""
_LONG_TEXT = 10_000
"""Letters; in longer texts one looks for words."""
_CHOICES: dict[str, tuple[tuple[str, str], ...]] = {
    "theme": (("system", "system"), ("dark", "dark"), ("light", "light")),
    "renderer": (
        ("auto", "automatic"),
        ("raster", "raster"),
        ("opengl", "OpenGL"),
    ),
    "wheel": (("scroll", "scrolls lanes"), ("zoom", "zooms time")),
    "place": (
        ("ask", "profile (ask)"),
        ("data", "profile"),
        ("beside", "next to the trace"),
    ),
}


def _dialog(title: str, parent: QWidget | None, width: int, height: int) -> QDialog:
    made = Dialog(parent)
    set_title(made, title)
    made.setAccessibleName(title)
    made.resize(width, height)
    made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box = QVBoxLayout(made)
    box.setContentsMargins(20, 20, 20, 16)
    box.setSpacing(12)
    return made


def _box(dialog: QDialog) -> QVBoxLayout:
    box = dialog.layout()
    assert isinstance(box, QVBoxLayout)
    return box


def _add_close(dialog: QDialog) -> None:
    buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, dialog)
    buttons.rejected.connect(dialog.close)
    _box(dialog).addWidget(buttons)


@guarded
class SettingsDialog(Dialog):
    """Shows and changes the settings; every change acts at once."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        set_title(self, "Settings")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(460)
        look, drawing, plugins = (
            settings.appearance,
            settings.drawing,
            settings.plugins,
        )
        self.theme = self._choice("appearance", "theme", look.theme)
        self.font_size = QComboBox(self)
        self.font_size.addItems([f"{scale} %" for scale in FONT_SCALES])
        nearest = min(FONT_SCALES, key=lambda s: abs(s - look.font_scale))
        self.font_size.setCurrentIndex(FONT_SCALES.index(nearest))
        self.font_size.activated.connect(self._on_font)
        # Every size styles all widgets anew: a turning wheel must not ask for each.
        self._font_later = QTimer(self)
        self._font_later.setSingleShot(True)
        self._font_later.setInterval(150)
        self._font_later.timeout.connect(self._apply_font)
        self.renderer = self._choice("drawing", "renderer", drawing.renderer)
        self.wheel = self._choice("drawing", "wheel", drawing.wheel)
        self.place = self._choice("bookmarks", "place", settings.bookmarks.place)
        self.motion = self._tick("appearance", "reduced_motion", "Reduce motion")
        self.places = self._tick(
            "drawing", "keys_by_place", "WASD by key position (AZERTY, Dvorak)"
        )
        self.memory = QSpinBox(self)
        self.memory.setRange(0, MAX_LIMIT_MIB)
        self.memory.setSingleStep(512)
        self.memory.setSuffix(" MiB")
        self.memory.lineEdit().setTextMargins(6, 0, 0, 0)  # a style sheet cannot
        self.memory.setSpecialValueText("system memory")
        set_tip(
            self.memory,
            "For a file that needs more, ggscope asks which part to read",
        )
        self.memory.setValue(settings.memory.limit_mib)
        self.memory.valueChanged.connect(self._on_memory)
        self.plugins = QCheckBox("Load readers from this folder", self)
        self.plugins.setChecked(plugins.is_enabled)
        self.plugins.toggled.connect(self._on_plugins)
        self.folder = QLineEdit(plugins.folder, self)
        self.folder.setAccessibleName("Plug-in folder")
        self.folder.setPlaceholderText("none")
        self.folder.editingFinished.connect(self._on_folder)
        pick = button("Choose…", self._on_pick, self)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.folder, 1)
        row.addWidget(pick)
        form = QFormLayout()
        form.setHorizontalSpacing(16)
        form.setVerticalSpacing(10)
        form.setLabelAlignment(
            Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        )
        for text, widget in (
            ("Theme", self.theme),
            ("Font size", self.font_size),
            ("Renderer", self.renderer),
            ("Mouse wheel", self.wheel),
            ("Memory limit", self.memory),
            ("Save bookmarks in", self.place),
        ):
            widget.setAccessibleName(text)
            form.addRow(text, widget)
        form.addRow("", self.motion)
        form.addRow("Keys", self.places)
        form.addRow("Plug-ins", self.plugins)
        form.addRow("", row)
        hint = (
            "Plug-ins run with your permissions: load only those you trust. Changes "
            "take effect after a restart."
        )
        content = QVBoxLayout()
        content.setSpacing(12)
        content.addLayout(form)
        content.addWidget(label(hint, self, "dim", wraps=True))
        for problem in settings.problems[:5]:
            content.addWidget(label(problem, self, "caution", wraps=True))
        content.addStretch(1)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        box.addWidget(scrolled(content, self), 1)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Close
            | QDialogButtonBox.StandardButton.RestoreDefaults,
            self,
        )
        buttons.rejected.connect(self.close)
        reset = buttons.button(QDialogButtonBox.StandardButton.RestoreDefaults)
        for made in buttons.buttons():
            # Enter in the folder's field must not press one of them.
            if isinstance(made, QPushButton):
                made.setAutoDefault(False)
        reset.clicked.connect(self._on_reset)
        box.addWidget(buttons)

    def _tick(self, topic: str, name: str, text: str) -> QCheckBox:
        box = QCheckBox(text, self)
        box.setProperty("topic", topic)
        box.setProperty("field", name)
        box.setChecked(bool(getattr(getattr(self._settings, topic), name)))
        box.toggled.connect(self._on_tick)
        return box

    def _on_tick(self, is_on: bool) -> None:
        box = self.sender()
        if isinstance(box, QCheckBox):
            self._settings.change(
                str(box.property("topic")), **{str(box.property("field")): is_on}
            )

    def _on_memory(self, mib: int) -> None:
        self._settings.change("memory", limit_mib=mib)

    def _choice(self, topic: str, name: str, value: str) -> QComboBox:
        combo = QComboBox(self)
        combo.setProperty("topic", topic)
        combo.setProperty("field", name)
        for key, text in _CHOICES[name]:
            combo.addItem(text, key)
        combo.setCurrentIndex([key for key, _ in _CHOICES[name]].index(value))
        combo.activated.connect(self._on_choice)
        return combo

    def _on_choice(self, _: int) -> None:
        combo = self.sender()
        if isinstance(combo, QComboBox):
            self._settings.change(
                str(combo.property("topic")),
                **{str(combo.property("field")): combo.currentData()},
            )

    def _on_font(self, _: int) -> None:
        self._font_later.start()

    def _apply_font(self) -> None:
        self._font_later.stop()
        scale = FONT_SCALES[self.font_size.currentIndex()]
        self._settings.change("appearance", font_scale=scale)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Apply what was chosen a moment ago."""
        if self._font_later.isActive():
            self._apply_font()
        super().closeEvent(event)

    def _on_plugins(self, is_on: bool) -> None:
        self._settings.change("plugins", is_enabled=is_on)

    def _on_folder(self) -> None:
        self._settings.change("plugins", folder=self.folder.text().strip())

    def _on_pick(self) -> None:
        chosen = QFileDialog.getExistingDirectory(
            self,
            "Plug-in folder",
            self.folder.text(),
            QFileDialog.Option.ShowDirsOnly | CHANGES_NOTHING,
        )
        if chosen:
            self.folder.setText(chosen)
            self._on_folder()

    def _on_reset(self) -> None:
        self._settings.reset()
        self.close()


@guarded
class NameDialog(Dialog):
    """Asks for a name; `text` says of what.

    Attributes
    ----------
    form : further fields may be added.
    buttons : below the fields.
    """

    def __init__(self, parent: QWidget, title: str, text: str = "") -> None:
        super().__init__(parent)
        set_title(self, title)
        self.setAccessibleName(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(_TITLE_PX)
        self.form = QFormLayout()
        self.form.setHorizontalSpacing(16)
        self.form.setVerticalSpacing(10)
        self.form.setLabelAlignment(Qt.AlignmentFlag.AlignVCenter)
        self.name = self.add_field("Name", MAX_NAME)
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel,
            self,
        )
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        if text:
            box.addWidget(label(text, self, "dim", wraps=True))
        box.addLayout(self.form)
        box.addWidget(self.buttons)

    def showEvent(self, event: QShowEvent) -> None:
        """Let Tab go through the fields, also those added later, to the buttons."""
        super().showEvent(event)
        rows = range(self.form.rowCount())
        items = [self.form.itemAt(i, QFormLayout.ItemRole.FieldRole) for i in rows]
        widgets = [item.widget() for item in items if item is not None]
        fields = [widget for widget in widgets if widget is not None]
        for first, second in pairwise([*fields, *self.buttons.buttons()]):
            QWidget.setTabOrder(first, second)

    def add_field(self, text: str, limit: int, hint: str = "") -> QLineEdit:
        """Add a line for at most so many letters; return it."""
        field = QLineEdit(self)
        field.setMaxLength(limit)
        field.setPlaceholderText(hint)
        field.setAccessibleName(text)
        self.form.addRow(text, field)
        return field


class BookmarkDialog(NameDialog):
    """Asks for name, note and colour of a bookmark; the texts may stay empty.

    Signals
    -------
    delete_requested : Delete was pressed; only where there is a bookmark already.
    """

    delete_requested = Signal()

    def __init__(
        self, parent: QWidget, theme: Theme, current: Bookmark | None = None
    ) -> None:
        super().__init__(parent, "Edit bookmark" if current else "New bookmark")
        self.name.setPlaceholderText("numbered if empty")
        self.note = self.add_field("Note", MAX_NOTE)
        self.color = QComboBox(self)
        self.color.setAccessibleName("Colour")
        for color in NOTE_COLORS:
            self.color.addItem(note_icon(color.key, theme), color.title, color.key)
        self.form.addRow("Colour", self.color)
        if current is None:
            return
        self.name.setPlaceholderText(current.name)
        self.name.setText(current.name)
        self.note.setText(current.note)
        self.color.setCurrentIndex(max(0, self.color.findData(current.color)))
        delete = self.buttons.addButton(
            "Delete", QDialogButtonBox.ButtonRole.DestructiveRole
        )
        delete.clicked.connect(self._on_delete)

    def _on_delete(self) -> None:
        self.delete_requested.emit()
        self.reject()


def choose_one(
    title: str,
    text: str,
    choices: Sequence[tuple[str, str]],
    current: str,
    parent: QWidget | None,
) -> str | None:
    """Ask for one of `choices` (id, words); return its id, None if cancelled."""
    dialog = _dialog(title, parent, 480, 420)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, False)
    listing = QListWidget(dialog)
    listing.setObjectName("choices")
    listing.setAccessibleName(title)
    for key, choice_text in choices:
        item = QListWidgetItem(choice_text)
        item.setData(Qt.ItemDataRole.UserRole, key)
        listing.addItem(item)
        if key == current:
            listing.setCurrentItem(item)
    buttons = QDialogButtonBox(
        QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel,
        dialog,
    )
    buttons.accepted.connect(dialog.accept)
    buttons.rejected.connect(dialog.reject)
    listing.itemActivated.connect(dialog.accept)
    box = _box(dialog)
    box.addWidget(label(text, dialog, "dim", wraps=True))
    box.addWidget(listing, 1)
    box.addWidget(buttons)
    accepted = dialog.exec() == QDialog.DialogCode.Accepted
    item = listing.currentItem()
    dialog.deleteLater()
    if not accepted or item is None:
        return None
    return str(item.data(Qt.ItemDataRole.UserRole))


def choose_reader(
    path: Path, readers: Sequence[tuple[str, str]], parent: QWidget | None
) -> str | None:
    """Ask which reader to read `path` with; return its id, None if cancelled."""
    return choose_one(
        "Choose reader",
        f"Read {path.name} with this reader:",
        [(key, f"{title}  ({key})") for key, title in readers],
        "",
        parent,
    )


AUTO_OPS = "auto"


def choose_ops(trace: Trace, parent: QWidget | None) -> str | None:
    """Ask for an op table; return its id or "auto", None if cancelled."""
    from ggscope.model.ggml.ops import tables

    now = trace.ops
    choices = [(AUTO_OPS, "from the file, otherwise detected from its content")]
    choices += [
        (op_table.id, f"{op_table.id}  ·  {len(op_table.names)} ops")
        for op_table in tables()
    ]
    text = "Reloads the file with this op table."
    if now is not None and now.margin is not None:
        text += " " + "{} was detected with margin {}.".format(
            now.id, f"{now.margin:.0f}"
        )
    is_chosen = now is not None and now.source == "override"
    current = now.id if now is not None and is_chosen else AUTO_OPS
    return choose_one("Op table", text, choices, current, parent)


def readers_dialog(parent: QWidget | None) -> QDialog:
    """Return a dialog that lists all readers, those that failed too."""
    from ggscope.readers.registry import statuses

    dialog = _dialog("Readers", parent, 820, 380)
    rows = []
    for status in statuses(waits=False):
        info = status.info
        rows.append(
            (
                info.id if info else status.path,
                info.title if info else "",
                " ".join(info.suffixes) if info else "",
                status.origin,
                status.status,
            )
        )
    heads = ("Id", "Format", "Extensions", "Origin", "Status")
    _box(dialog).addWidget(_table(dialog, heads, rows), 1)
    _add_close(dialog)
    return dialog


def _table(
    parent: QWidget, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> QTableWidget:
    table = QTableWidget(len(rows), len(heads), parent)
    table.setHorizontalHeaderLabels(list(heads))
    table.setObjectName("plain")
    table.verticalHeader().hide()
    table.setShowGrid(False)
    table.setAlternatingRowColors(True)
    table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
    table.setSelectionBehavior(QTableWidget.SelectionBehavior.SelectRows)
    table.setAccessibleName(parent.windowTitle())
    for y, row in enumerate(rows):
        for x, text in enumerate(row):
            item = QTableWidgetItem(one_line(text))
            set_tip(item, text)
            table.setItem(y, x, item)
    table.resizeColumnsToContents()
    header = table.horizontalHeader()
    header.setSectionResizeMode(len(heads) - 1, QHeaderView.ResizeMode.Stretch)
    header.setHighlightSections(False)
    header.setDefaultAlignment(
        Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    )
    return table


def messages_dialog(entries: Sequence[LogEntry], parent: QWidget | None) -> QDialog:
    """Return a dialog that lists messages, the newest first."""
    dialog = _dialog("Messages", parent, 820, 420)
    rows = [(f"{e.time:%H:%M:%S}", e.origin, e.text) for e in reversed(entries)]
    if not rows:
        _box(dialog).addWidget(label("No messages yet.", dialog, "dim"), 1)
    else:
        heads = ("Time", "Tab", "Message")
        _box(dialog).addWidget(_table(dialog, heads, rows), 1)
    _add_close(dialog)
    return dialog


def text_dialog(
    title: str, text: str, parent: QWidget | None, *, is_markdown: bool = True
) -> QDialog:
    """Return a dialog that shows a text."""
    dialog = _dialog(title, parent, 760, 600)
    browser = QTextBrowser(dialog)
    browser.setOpenExternalLinks(True)
    browser.setAccessibleName(title)
    if is_markdown:
        browser.setMarkdown(text)
        _space_out(browser.document())
    else:
        browser.setPlainText(text)
    if len(text) > _LONG_TEXT:
        _box(dialog).addWidget(FindLine(browser))
        browser.setFocus()
    _box(dialog).addWidget(browser, 1)
    _add_close(dialog)
    return dialog


def _space_out(document: QTextDocument) -> None:
    """Set paragraphs apart, headings more so; Qt sets Markdown without a gap.

    Tables lose their frames, which Qt draws in the colour of the text.
    """
    line = QFontMetrics(document.defaultFont()).height()
    for frame in document.rootFrame().childFrames():
        if isinstance(frame, QTextTable):
            form = frame.format()
            form.setBorder(0)
            form.setCellPadding(line / 4)
            frame.setFormat(form)
    block = document.begin()
    while block.isValid():
        cursor = QTextCursor(block)
        if cursor.currentTable() is None:
            form_of_block = block.blockFormat()
            level = form_of_block.headingLevel()
            is_item = block.textList() is not None
            is_code = form_of_block.hasProperty(QTextFormat.Property.BlockCodeLanguage)
            if level and block.position():
                form_of_block.setTopMargin(line * (1.2 if level <= 2 else 0.8))
            if not is_code:
                form_of_block.setBottomMargin(line * (0.25 if is_item else 0.6))
            cursor.setBlockFormat(form_of_block)
        block = block.next()


def about_dialog(parent: QWidget | None) -> QDialog:
    """Return the dialog with version and licence, and those of all third parties."""
    lines = [
        f"# ggscope {ggscope.__version__}",
        "Viewer for inference traces of llama.cpp, ggml, GPUs and NPUs. MIT licence.",
        "",
        f"Python {platform.python_version()}, Qt {qVersion()}",
        "",
        "| Part | Version | Licence |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {' | '.join(part)} |" for part in third_parties()]
    folder = assets.licenses()
    if folder is not None:
        lines += ["", f"The licence texts are in {folder}."]
    return text_dialog("About ggscope", "\n".join(lines), parent)


def third_parties() -> list[tuple[str, str, str]]:
    """Return (name, version, licence) of what the program consists of or uses.

    In a bundle all libraries that it has, else the packages that it imports.
    """
    folder = assets.licenses()
    if folder is None:
        return _installed_packages()
    bill = json.loads((folder / "bom.cdx.json").read_text("utf-8"))
    return [
        (
            one["name"],
            one.get("version", ""),
            ", ".join(each["expression"] for each in one["licenses"]),
        )
        for one in bill["components"]
    ]


def _installed_packages() -> list[tuple[str, str, str]]:
    packages = []
    for name in PACKAGES:
        try:
            data: Any = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        licence = data.get("License-Expression") or data.get("License") or ""
        if not licence or len(licence) > 60 or "\n" in licence:
            classified = [
                line.rsplit("::", 1)[-1].strip()
                for line in data.get_all("Classifier") or ()
                if line.startswith("License ::")
            ]
            licence = ", ".join(classified) or licence.splitlines()[0][:60]
        packages.append((name, str(data.get("Version", "")), str(licence)))
    return packages


def system_report() -> str:
    """Return versions and platform as text, for bug reports."""
    lines = [
        f"ggscope {ggscope.__version__}",
        f"Python {platform.python_version()} on {platform.platform()}",
        f"Qt {qVersion()}",
    ]
    lines += [f"{name} {version}" for name, version, _ in third_parties()]
    return "\n".join(lines)


def guide_text(keys: str = "") -> str:
    """Return the user guide as one Markdown text: all its pages, in their order.

    Parameters
    ----------
    keys : table of keys, which stands in for pages that are not installed.
    """
    try:
        pages = [assets.path(f"docs/{name}.md") for name in GUIDE_PAGES]
        texts = [page.read_text("utf-8") for page in pages]
    except OSError:
        return f"# ggscope\n\n## Keys\n\n{keys}"
    return "# User guide\n\n" + "\n".join(map(_as_chapter, texts))


def _as_chapter(page: str) -> str:
    """Return a page of the site as part of one text: no links to files, no pictures."""
    page = re.sub(r"^!\[.*\)\n", "", page, flags=re.MULTILINE)
    page = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", page)
    return re.sub(r"^(#+ )", r"#\1", page, flags=re.MULTILINE)
