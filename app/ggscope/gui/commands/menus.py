"""Menu bar of a window, and the QActions of its commands."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar

from ggscope.gui.commands.registry import (
    COMMANDS,
    MENUS,
    Command,
    CommandContext,
    Needs,
    conditions,
)
from ggscope.gui.commands.shortcuts import keys_markdown, keys_of
from ggscope.gui.pages.start import recent_exists, recent_title, samples
from ggscope.sanitize import caption
from ggscope.session.settings import Settings
from ggscope.views.base.safe_text import add_action, set_tip

if TYPE_CHECKING:
    from ggscope.gui.commands.palette import Entry


class Actions(QObject):
    """The commands as QActions of one window."""

    triggered = Signal(str)  # id of the command, after it ran

    def __init__(
        self,
        window: CommandContext,
        parent: QObject,
        overrides: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(parent)
        self._window = window
        self._overrides = dict(overrides or {})
        self._actions: dict[str, QAction] = {}
        self._now: Needs | None = None
        for command in COMMANDS:
            self._actions[command.id] = self._make(command, parent)
        self.refresh()

    def __getitem__(self, command_id: str) -> QAction:
        return self._actions[command_id]

    def all(self) -> Iterable[QAction]:
        """Return all actions in the order of the table."""
        return self._actions.values()

    def run(self, command: Command) -> None:
        """Run a command if it makes sense now."""
        if command.needs & ~conditions(self._window):
            return
        command.run(self._window)
        self.refresh()
        self.triggered.emit(command.id)

    def keys_text(self, command: Command) -> str:
        """Return the first shortcut as this system writes it."""
        keys = keys_of(command, self._overrides)
        if not keys:
            return ""
        return QKeySequence(keys[0]).toString(QKeySequence.SequenceFormat.NativeText)

    def all_keys_text(self, command: Command) -> str:
        """Return all shortcuts as this system writes them."""
        native = QKeySequence.SequenceFormat.NativeText
        return "  ".join(
            QKeySequence(key).toString(native)
            for key in keys_of(command, self._overrides)
            if key not in ("Enter", "Shift+Enter")
        )

    def keys_markdown(self) -> str:
        """Return the table of keys, as they are without the user's own choice."""
        return keys_markdown()

    def entries(self) -> "list[Entry]":
        """Return what the palette offers now."""
        from ggscope.gui.commands.palette import Entry  # not before the window

        return [
            Entry(
                self._title(command).removesuffix("…"),
                action.trigger,
                command.menu.replace("/", " › "),
                self.keys_text(command),
            )
            for command in COMMANDS
            if (action := self._actions[command.id]).isEnabled()
            and action.isVisible()
            and command.id != "go.palette"
        ]

    def _title(self, command: Command) -> str:
        title = "" if command.title is None else command.title(self._window)
        return title or command.text

    def enable(self) -> None:
        """Enable what makes sense now; selecting and moving change no more."""
        now = conditions(self._window)
        if now != self._now:
            self._now = now
            for command in COMMANDS:
                self._actions[command.id].setEnabled(not command.needs & ~now)

    def refresh(self) -> None:
        """Enable, tick and name what fits the present state."""
        self.enable()
        for command in COMMANDS:
            action = self._actions[command.id]
            if command.is_on is not None:
                action.setChecked(command.is_on(self._window))
            if command.title is not None:
                title = command.title(self._window)
                action.setVisible(bool(title))
                action.setText(caption(title or command.text))

    def _make(self, command: Command, parent: QObject) -> QAction:
        action = QAction(command.text, parent)
        action.setObjectName(command.id)
        keys = keys_of(command, self._overrides)
        action.setShortcuts([QKeySequence(key) for key in keys])
        hint = self.keys_text(command)
        text = command.text.removesuffix("…")
        set_tip(action, f"{text} ({hint})" if hint else text)
        action.setCheckable(command.is_on is not None)
        action.setData(command)
        action.triggered.connect(self._on_triggered)
        return action

    def _on_triggered(self) -> None:
        action = self.sender()
        if isinstance(action, QAction):
            command = action.data()
            if isinstance(command, Command):
                self.run(command)


class Menus(QObject):
    """Fills a menu bar, and keeps the lists of files in it fresh."""

    file_chosen = Signal(str)
    filter_chosen = Signal(str)  # name of a saved filter

    def __init__(self, bar: QMenuBar, actions: Actions, settings: Settings) -> None:
        super().__init__(bar)
        self._settings = settings
        self._menus: dict[str, QMenu] = {}
        bar.setAccessibleName("Menu")
        for name in MENUS:
            self._menus[name] = bar.addMenu(name)
        self.recent = QMenu("Open recent", bar)
        self.recent.setToolTipsVisible(True)
        self.samples = QMenu("Samples", bar)
        self.filters = QMenu("Saved filters", bar)
        self.filters.setToolTipsVisible(True)
        for command in COMMANDS:
            menu = self._menu(command.menu)
            if command.separated:
                menu.addSeparator()
            menu.addAction(actions[command.id])
            if command.id == "file.open_folder":
                menu.addMenu(self.recent)
            if command.id == "analyse.save_filter":
                menu.addMenu(self.filters)
            if command.id in ("file.open_folder", "help.keys"):
                menu.addMenu(self.samples)
        self.recent.aboutToShow.connect(self._fill_recent)
        self.recent.triggered.connect(self._on_triggered)
        self.samples.aboutToShow.connect(self._fill_samples)
        self.samples.triggered.connect(self._on_triggered)
        self.filters.aboutToShow.connect(self._fill_filters)
        self.filters.triggered.connect(self._on_filter)

    def _menu(self, path: str) -> QMenu:
        if path not in self._menus:
            above, _, name = path.rpartition("/")
            self._menus[path] = self._menu(above).addMenu(name)
        return self._menus[path]

    def _fill_recent(self) -> None:
        self.recent.clear()
        for text in self._settings.files.recent:
            action = add_action(self.recent, recent_title(text), tip=text)
            action.setData(text)
            action.setEnabled(recent_exists(text))
        self.recent.addSeparator()
        clear = self.recent.addAction("Clear list")
        clear.setData("")
        clear.setEnabled(bool(self._settings.files.recent))

    def _fill_samples(self) -> None:
        self.samples.clear()
        for path in samples():
            add_action(self.samples, path.name).setData(str(path))
        if self.samples.isEmpty():
            self.samples.addAction("None installed").setEnabled(False)

    def _fill_filters(self) -> None:
        self.filters.clear()
        for name, expression in self._settings.saved_filters():
            action = add_action(self.filters, name, tip=expression)
            action.setData(name)
        if self.filters.isEmpty():
            self.filters.addAction("None saved").setEnabled(False)

    def _on_filter(self, action: QAction) -> None:
        if isinstance(action.data(), str):
            self.filter_chosen.emit(action.data())

    def _on_triggered(self, action: QAction) -> None:
        if action.data() == "":
            self._settings.forget_recent()
        elif isinstance(action.data(), str):
            self.file_chosen.emit(action.data())
