"""Page objects: what a person sees of a pane, found by object names.

A test asks a page instead of a view's private attributes, so that a view may be built
in another way while its tests stay.
"""

from typing import TypeVar

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QMenu,
    QStackedWidget,
    QTabBar,
    QWidget,
)

from ggscope.gui.dialogs.filters import FilterPopup
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.tabs import TabRow
from ggscope.model.trace import Severity
from ggscope.session.tasks import Tasks
from ggscope.views.base.safe_text import ElidedLabel, Label
from ggscope.views.base.widgets import EmptyState
from ggscope.views.console import ConsoleView
from ggscope.views.details.swatch_line import SwatchLine
from ggscope.views.table.footer import TableFooter

_Widget = TypeVar("_Widget", bound=QWidget)


class Page:
    """A pane of any view."""

    def __init__(self, view: QWidget) -> None:
        self.view = view

    def child(self, kind: type[_Widget], name: str) -> _Widget:
        """Return the widget of an object name."""
        widget = self.view.findChild(kind, name)
        assert widget is not None, f"{self.view} has no {name}"
        return widget

    def button(self, text: str) -> QAbstractButton:
        """Return the only button with this text."""
        buttons = self.view.findChildren(QAbstractButton)
        (button,) = (each for each in buttons if each.text() == text)
        return button

    @property
    def is_empty(self) -> bool:
        """Whether the placeholder is shown instead of data."""
        return not self.child(EmptyState, "placeholder").isHidden()

    @property
    def placeholder(self) -> str:
        """Title and hint of the placeholder."""
        return self.child(EmptyState, "placeholder").text


class DetailsPage(Page):
    """The Details pane."""

    @property
    def title(self) -> str:
        """Name of the entity."""
        return self.child(Label, "details_title").text()

    @property
    def kind(self) -> str:
        """The line below the title."""
        return self.child(SwatchLine, "details_kind").text

    @property
    def sources_note(self) -> Label:
        """The note in place of sources."""
        return self.child(Label, "sources_note")

    @property
    def durations_heading(self) -> str:
        """Heading of the histogram."""
        return self.child(Label, "durations_heading").text()


class ProblemsPage(Page):
    """The Problems pane."""

    @property
    def note(self) -> str:
        """The note beside the filters."""
        return self.child(Label, "problems_note").text()

    @property
    def full_text(self) -> Label:
        """The text of the current problem below the table."""
        return self.child(Label, "problem_text")

    @property
    def filter_buttons(self) -> list[QAbstractButton]:
        """The buttons of all severities."""
        return [self.filter_button(severity) for severity in Severity]

    def filter_button(self, severity: Severity) -> QAbstractButton:
        """Return the button that shows or hides a severity."""
        return self.child(QAbstractButton, f"problems_{severity.name.lower()}")


class TablePage(Page):
    """The trace table."""

    @property
    def count(self) -> str:
        """Number of rows, and of what range and filter."""
        return self.child(ElidedLabel, "table_count").full_text

    @property
    def note(self) -> str:
        """Progress, errors and what was copied."""
        return self.child(ElidedLabel, "table_note").full_text

    @property
    def form_button(self) -> QAbstractButton:
        """The button that switches to detailed rows."""
        return self.child(QAbstractButton, "table_form")

    @property
    def footer(self) -> TableFooter:
        """The bar below the rows."""
        return self.child(TableFooter, "table_footer")


# -- parts of the window ---------------------------------------------------------------


def is_settled(widget: QObject) -> bool:
    """Whether a dialog, view or model waits neither for a pause nor for its tasks."""
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    timers = widget.findChildren(QTimer, options=direct)
    tasks = widget.findChildren(Tasks, options=direct)
    return not any(timer.isSingleShot() and timer.isActive() for timer in timers) and (
        all(each.is_idle for each in tasks)
    )


def tab_row(window: MainWindow) -> TabRow:
    """Return the tabs of the window."""
    row = window.findChild(TabRow)
    assert row is not None
    return row


def drawer_tabs(drawer: QWidget) -> QTabBar:
    """Return the tabs of the bottom panel."""
    bar = drawer.findChild(QTabBar, "drawerTabs")
    assert bar is not None
    return bar


def filter_popup(document: Document) -> FilterPopup | None:
    """Return the popup that edits the filter, None where it is closed."""
    popups = document.findChildren(FilterPopup)
    return next((popup for popup in popups if popup.isVisible()), None)


def show_workspace(document: Document) -> None:
    """Show the views of a document whose trace no file was read for."""
    pages = document.workspace.parentWidget()
    assert isinstance(pages, QStackedWidget)
    pages.setCurrentWidget(document.workspace)


def saved_filters(window: MainWindow) -> QMenu:
    """Return the menu of the filters that were saved."""
    menus = window.menuBar().findChildren(QMenu)
    (menu,) = (each for each in menus if each.title() == "Saved filters")
    return menu


def end_pause(widget: QObject) -> None:
    """End the pause after which a dialog or view takes what was typed or moved."""
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    for timer in widget.findChildren(QTimer, options=direct):
        if timer.isSingleShot() and timer.isActive():
            timer.start(0)
    QApplication.processEvents()


def more_chips(document: Document) -> QAbstractButton:
    """Return the button with the parts of the filter that do not fit: "+3"."""
    return Page(document.toolbar).child(QAbstractButton, "chips_more")


def waiting_console(document: Document) -> ConsoleView:
    """Return the output of a program that has recorded nothing so far."""
    console = document.waiting_page.findChild(ConsoleView)
    assert console is not None
    return console


class RunsTablePage(Page):
    """The table of the runs of a folder."""

    @property
    def heading(self) -> str:
        """Number of runs, and the folder."""
        return self.child(Label, "runs_head").text()

    @property
    def state(self) -> str:
        """How far reading is."""
        return self.child(ElidedLabel, "runs_state").full_text
