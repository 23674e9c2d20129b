"""No name of a trace is markup in the window: nothing that one names is loaded.

A picture lies in the working folder, and names ask for it in every way that rich text
knows. The kernel shows whether anybody opened it, for everything that is shown and
for everything that Qt would show next: tooltips, roles of models, texts of actions.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QAbstractListModel, QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QAction, QHelpEvent, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QLabel,
    QMenu,
    QTabBar,
    QToolTip,
    QWidget,
)
from pytestqt.qtbot import QtBot

from ggscope.gui.dialogs.filters import FilterPopup
from ggscope.gui.dialogs.session_files import SessionFilesDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import StartPage
from ggscope.gui.pages.too_large import TooLargePage
from ggscope.model.selection import Filter, Selection
from ggscope.readers.api import Estimate
from ggscope.readers.memory import judge
from ggscope.sanitize import Html, html, tooltip
from ggscope.session.settings import Settings
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.safe_text import Label, set_tip
from ggscope.views.timeline.context_menu import build_menu
from ggscope.views.timeline.view import TimelineView
from hostile_names import MARKER, MARKUP, hostile_named, hostile_sessions
from panes import PANES, broken, pane, settle
from watched_file import WatchedFile

Opened = Callable[[Path], Document]
ROLES = [role for role in Qt.ItemDataRole if role < Qt.ItemDataRole.UserRole]
MAX_ROWS = 40
SESSIONS = hostile_sessions()
"""Which files are opened together: every format is in one of them."""


class Looker:
    """Shows every text as Qt would, and asks whether a file was opened for it."""

    def __init__(self, file: WatchedFile) -> None:
        self.file = file
        self.seen: set[str] = set()
        self.n_marked = 0
        self._probe = QLabel()

    def show(self, text: object, where: str) -> None:
        """Show a text as a label or tooltip does that guesses what it is."""
        if not isinstance(text, str) or text in self.seen:
            return
        self.seen.add(text)
        self.n_marked += MARKER in text and "<" in text
        self._probe.setText(text)
        self._probe.sizeHint()
        assert not self.file.opened(), f"{where}: {text}"

    def walk(self, root: QWidget) -> None:
        """Look at all widgets below `root`, their actions and models."""
        for widget in (root, *root.findChildren(QWidget)):
            name = f"{type(widget).__name__} {widget.objectName()}"
            self._look_at_widget(widget, name)
            for action in widget.actions():
                self._look_at_action(action, name)
        for action in root.findChildren(QAction):
            self._look_at_action(action, type(root).__name__)

    def _look_at_widget(self, widget: QWidget, name: str) -> None:
        for text in (widget.toolTip(), widget.statusTip(), widget.whatsThis()):
            self.show(text, name)
        if isinstance(widget, QLabel) and widget.objectName() != "qtooltip_label":
            assert widget.textFormat() != Qt.TextFormat.AutoText or not widget.text(), (
                f"{name} guesses: {widget.text()}"
            )
            if widget.textFormat() == Qt.TextFormat.RichText:
                self.show(widget.text(), name)
        if isinstance(widget, QTabBar):
            for i in range(widget.count()):
                self.show(widget.tabToolTip(i), name)
                self.show(widget.tabWhatsThis(i), name)
        if isinstance(widget, QAbstractItemView):
            self._look_at_model(widget, name)

    def _look_at_action(self, action: QAction, name: str) -> None:
        for text in (action.toolTip(), action.statusTip(), action.whatsThis()):
            self.show(text, f"action of {name}")

    def _look_at_model(self, view: QAbstractItemView, name: str) -> None:
        model = view.model()
        if model is None:
            return
        shown_as_is = (Qt.ItemDataRole.ToolTipRole, Qt.ItemDataRole.StatusTipRole,
                       Qt.ItemDataRole.WhatsThisRole)  # fmt: skip
        is_list = isinstance(model, QAbstractListModel)
        for column in range(1 if is_list else model.columnCount()):
            for role in ROLES:
                value = model.headerData(column, Qt.Orientation.Horizontal, role)
                if role in shown_as_is:
                    self.show(value, f"head {column} of {name}")
            for row in range(min(model.rowCount(), MAX_ROWS)):
                for role in ROLES:
                    value = model.data(model.index(row, column), role)
                    if role in shown_as_is:
                        self.show(value, f"{row}, {column} of {name}")
                    elif isinstance(value, str):
                        assert not any(c < " " and c not in "\n\t" for c in value)

    def hover(self, root: QWidget) -> None:
        """Rest the mouse on a grid of places of every visible widget."""
        for widget in (root, *root.findChildren(QWidget)):
            if not shiboken6.isValid(widget) or not widget.isVisible():
                continue
            n = 5 if min(widget.width(), widget.height()) > 100 else 1
            for i in range(n * n):
                place = QPoint(
                    widget.width() * (2 * (i % n) + 1) // (2 * n),
                    widget.height() * (2 * (i // n) + 1) // (2 * n),
                )
                rest(widget, place)
                self.show(QToolTip.text(), f"hovering {type(widget).__name__}")
                assert not self.file.opened(), f"hovering {type(widget).__name__}"


def rest(widget: QWidget, place: QPoint) -> None:
    """Let the mouse rest somewhere, for as long as a tooltip takes."""
    at = QPointF(widget.mapToGlobal(place))
    none = Qt.KeyboardModifier.NoModifier
    button = Qt.MouseButton.NoButton
    move = QMouseEvent(QEvent.Type.MouseMove, QPointF(place), at, button, button, none)
    QApplication.sendEvent(widget, move)
    help_event = QHelpEvent(QEvent.Type.ToolTip, place, at.toPoint())
    QApplication.sendEvent(widget, help_event)


@pytest.fixture
def looker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looker]:
    monkeypatch.chdir(tmp_path)
    file = WatchedFile(tmp_path / MARKER)
    made = Looker(file)
    yield made
    QToolTip.hideText()
    file.close()


@pytest.mark.parametrize("text", [t for t in MARKUP if "src=" in t])
def test_a_label_that_guesses_would_load_it(
    qtbot: QtBot, looker: Looker, text: str
) -> None:
    label = QLabel(text)
    qtbot.addWidget(label)

    label.sizeHint()

    assert looker.file.opened(), "the positive control: this test can see a load"


@pytest.mark.parametrize("text", MARKUP)
def test_our_labels_and_tooltips_load_nothing(
    qtbot: QtBot, looker: Looker, text: str
) -> None:
    label = Label(text)
    qtbot.addWidget(label)
    set_tip(label, text)

    label.grab()
    looker.walk(label)
    looker.show(tooltip(text), "tooltip")
    label.setText(html("<b>{}</b>", text))
    label.grab()
    label.setText(text + Html())
    label.grab()

    assert label.text() == text
    assert not looker.file.opened()


@pytest.mark.parametrize("name", SESSIONS)
def test_no_view_loads_what_a_name_asks_for(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, looker: Looker, name: str
) -> None:
    files = hostile_named(tmp_path / "<b>", MARKUP)
    window.resize(1600, 1000)
    first, *more = (files[reader] for reader in SESSIONS[name])
    document = window.open_path(first, more=more)
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=20_000)
    settle(qtbot, document)
    session, trace = document.session, document.session.trace
    assert trace is not None
    things = (
        Selection("spans", (len(trace.spans) // 2,)) if len(trace.spans) else None,
        Selection("tensors", (1,)) if len(trace.tensors) > 1 else None,
        Selection("buffers", (0,)) if len(trace.buffers) else None,
        Selection("nodes", (2,)) if trace.graphs else None,
        Selection("markers", (0,)) if len(trace.markers) else None,
    )

    for view_id in PANES:
        document.workspace.show_view(view_id)
        settle(qtbot, document)
        view = pane(document, view_id)
        view.grab()
        looker.hover(view)
        for place in (QPoint(60, 60), QPoint(view.width() // 2, view.height() // 2)):
            look_at_menu(looker, view, place)
    for thing in filter(None, things):
        session.selection.select(thing)
        settle(qtbot, document)
        pane(document, "details").grab()
        looker.hover(pane(document, "details"))
    session.queries.set_filter(Filter(text=MARKUP[0], tensors=frozenset(MARKUP)))
    settle(qtbot, document)
    looker.walk(window)

    assert looker.n_marked or name == "none"
    assert broken(document) == []
    assert not looker.file.opened()


def look_at_menu(looker: Looker, view: QWidget, place: QPoint) -> None:
    menu: QMenu | None = None
    if isinstance(view, PaintedView):
        menu = view.menu_at(place.x(), place.y())
    elif isinstance(view, TimelineView):
        menu = build_menu(view, place.x(), place.y())
    if menu is not None:
        looker.walk(menu)
        menu.deleteLater()


def test_no_page_list_or_dialog_loads_what_a_name_asks_for(
    window: MainWindow,
    opened: Opened,
    qtbot: QtBot,
    tmp_path: Path,
    looker: Looker,
    settings: Settings,
) -> None:
    path = tmp_path / f"<img src='{tmp_path}"
    path.mkdir(parents=True)
    path = path / f"{MARKER}'>.json"
    good = hostile_named(tmp_path / "made", MARKUP)["npu-json"]
    path.write_bytes(good.read_bytes())
    bad = tmp_path / f"{MARKUP[0]}.ggmlviz"
    bad.write_bytes(b"nothing that is known")

    document = opened(path)
    session = document.session
    settings.save_filter(MARKUP[0], f"text:{MARKUP[1]}")
    session.bookmarks.add(MARKUP[2])
    session.problem_reported.emit(MARKUP[0])
    looker.walk(window)
    popup = FilterPopup(session, window, settings)
    qtbot.addWidget(popup)
    popup.show()
    settle(qtbot, document)
    looker.walk(popup)
    for show in (window.dialogs.show_go_to, window.dialogs.show_palette):
        show()
        looker.walk(window.palette_)
        window.palette_.grab()
        window.palette_.dismiss()
    parts = SessionFilesDialog(document, lambda: None, window)
    qtbot.addWidget(parts)
    looker.walk(parts)
    menus = window.findChildren(QMenu)
    for menu in menus:
        menu.aboutToShow.emit()
        looker.walk(menu)
    refused = opened(bad)
    looker.walk(refused)
    refused.grab()
    page = TooLargePage(bad, window)
    page.show_fit(judge(Estimate(1 << 40, 1 << 50, 1 << 50, True, True), {}))
    looker.walk(page)
    start = StartPage(settings, window)
    start.refresh()
    looker.walk(start)
    start.grab()

    assert QTest.qWaitForWindowExposed(window)
    assert looker.n_marked
    assert not looker.file.opened()
