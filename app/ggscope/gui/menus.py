"""The menu bar: commands by their paths, recent files, samples."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QMenuBar

from ggscope.gui.actions import COMMANDS, MENUS
from ggscope.gui.command import tr
from ggscope.gui.recent import recent_exists, recent_title
from ggscope.gui.shortcuts import Actions
from ggscope.gui.start_page import samples
from ggscope.session.settings import Settings
from ggscope.views.plain import add_action


class Menus(QObject):
    """Fills a menu bar, and keeps the lists of files in it fresh."""

    file_chosen = Signal(str)
    filter_chosen = Signal(str)  # name of a saved filter

    def __init__(self, bar: QMenuBar, actions: Actions, settings: Settings) -> None:
        super().__init__(bar)
        self._settings = settings
        self._menus: dict[str, QMenu] = {}
        bar.setAccessibleName(self.tr("Menu"))
        for name in MENUS:
            self._menus[name] = bar.addMenu(tr(name))
        self.recent = QMenu(self.tr("Open recent"), bar)
        self.recent.setToolTipsVisible(True)
        self.samples = QMenu(self.tr("Samples"), bar)
        self.filters = QMenu(self.tr("Saved filters"), bar)
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
            self._menus[path] = self._menu(above).addMenu(tr(name))
        return self._menus[path]

    def _fill_recent(self) -> None:
        self.recent.clear()
        for text in self._settings.files.recent:
            action = add_action(self.recent, recent_title(text), text)
            action.setData(text)
            action.setEnabled(recent_exists(text))
        self.recent.addSeparator()
        clear = self.recent.addAction(self.tr("Clear this list"))
        clear.setData("")
        clear.setEnabled(bool(self._settings.files.recent))

    def _fill_samples(self) -> None:
        self.samples.clear()
        for path in samples():
            add_action(self.samples, path.name).setData(str(path))
        if self.samples.isEmpty():
            self.samples.addAction(self.tr("none installed")).setEnabled(False)

    def _fill_filters(self) -> None:
        self.filters.clear()
        for name, expression in self._settings.saved_filters():
            action = add_action(self.filters, name, expression)
            action.setData(name)
        if self.filters.isEmpty():
            self.filters.addAction(self.tr("none yet")).setEnabled(False)

    def _on_filter(self, action: QAction) -> None:
        if isinstance(action.data(), str):
            self.filter_chosen.emit(action.data())

    def _on_triggered(self, action: QAction) -> None:
        if action.data() == "":
            self._settings.forget_recent()
        elif isinstance(action.data(), str):
            self.file_chosen.emit(action.data())


__all__ = ["Menus"]
