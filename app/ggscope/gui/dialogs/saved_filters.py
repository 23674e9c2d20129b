"""Filters that a person has named: a list to apply, shorten and add to."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.filters.text import format_filter, parse_filter
from ggscope.errors import QueryError
from ggscope.gui.widgets import GlyphButton, button, label
from ggscope.model.selection import Filter
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.views.base.plain import ask_text

MAX_ROWS = 5
"""More than these are offered by the menu only."""


def saved_filter(settings: Settings, name: str, session: Session) -> Filter | None:
    """Return a saved filter; None where it is gone or not understood any more."""
    expression = dict(settings.saved_filters()).get(name)
    if expression is None or session.trace is None:
        return None
    try:
        return parse_filter(expression, session.trace.clock.unit)
    except QueryError as error:
        session.problem_reported.emit(f"{name}: {error}")
        return None


def apply_saved(settings: Settings, session: Session, name: str) -> None:
    """Filter by a saved filter, or end that where it is the present one."""
    wanted = saved_filter(settings, name, session)
    if wanted is not None:
        session.set_filter(Filter() if wanted == session.filter else wanted)


def save_present(settings: Settings, session: Session, name: str) -> None:
    """Keep the present filter under `name`; one of that name is replaced."""
    expression = format_filter(session.filter)
    if expression and name.strip():
        settings.save_filter(name, expression)


def ask_and_save(settings: Settings, session: Session, parent: QWidget) -> None:
    """Ask for a name and keep the present filter."""
    name = ask_text(
        parent,
        parent.tr("Save filter"),
        parent.tr("Name for “{0}”").format(format_filter(session.filter)[:200]),
    )
    if name is not None:
        save_present(settings, session, name)


class SavedFilters(QWidget):
    """The part of the filter popup about saved filters."""

    applied = Signal()
    resized = Signal()

    def __init__(
        self, settings: Settings, session: Session, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._settings, self._session = settings, session
        self._list = QVBoxLayout()
        self._list.setSpacing(0)
        self.name = QLineEdit(self)
        self.name.setPlaceholderText(self.tr("Name for the present filter"))
        self.name.setAccessibleName(self.tr("Name for the present filter"))
        self.name.setMaxLength(80)
        self.name.returnPressed.connect(self._on_save)
        self.save = button(self.tr("Save"), self._on_save, self)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.name, 1)
        line.addWidget(self.save)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addWidget(label(self.tr("SAVED"), self, "head"))
        box.addLayout(self._list)
        box.addLayout(line)
        session.filter_changed.connect(self._show_state)
        self.rows: list[QWidget] = []
        self._fill()

    def _fill(self) -> None:
        for row in self.rows:
            self._list.removeWidget(row)
            row.hide()
            row.deleteLater()
        shown = self._settings.saved_filters()[:MAX_ROWS]
        self.rows = [self._row(name, text) for name, text in shown]
        for row in self.rows:
            self._list.addWidget(row)
        self._show_state()

    def _row(self, name: str, expression: str) -> QWidget:
        row = QWidget(self)
        apply = button(name, self._on_apply, row, link=True, tip=expression)
        apply.setObjectName("apply")
        apply.setAccessibleName(self.tr("Use the filter {0}").format(name))
        apply.setProperty("filterName", name)
        forget = GlyphButton("close", self.tr("Forget “{0}”").format(name), row, 12)
        forget.setObjectName("forget")
        forget.setProperty("filterName", name)
        forget.clicked.connect(self._on_forget)
        box = QHBoxLayout(row)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(apply, 1, Qt.AlignmentFlag.AlignLeft)
        box.addWidget(forget)
        return row

    def _show_state(self, _: object = None) -> None:
        has_filter = bool(format_filter(self._session.filter))
        self.name.setEnabled(has_filter)
        self.save.setEnabled(has_filter)
        hint = self.tr("Name for the present filter")
        if not has_filter:
            hint = self.tr("Filter first, then save it here")
        self.name.setPlaceholderText(hint)

    def _on_apply(self) -> None:
        apply_saved(self._settings, self._session, self._name_of_sender())
        self.applied.emit()

    def _on_forget(self) -> None:
        self._settings.forget_filter(self._name_of_sender())
        self._fill()
        self.resized.emit()

    def _on_save(self) -> None:
        save_present(self._settings, self._session, self.name.text())
        self.name.clear()
        self._fill()
        self.resized.emit()

    def _name_of_sender(self) -> str:
        sender = self.sender()
        return "" if sender is None else str(sender.property("filterName") or "")
