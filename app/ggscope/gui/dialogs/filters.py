"""Filters: those that the user has named, and the popup that adds to one."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPoint,
    QStringListModel,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListView,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.filters.completion import Completion, complete
from ggscope.analysis.filters.masks import read_filter
from ggscope.analysis.filters.text import format_filter, parse_filter
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.tracks import lanes_where
from ggscope.errors import QueryError
from ggscope.gui.widgets import GlyphButton, button, label
from ggscope.model.selection import ColorBy, Filter
from ggscope.model.tables import Phase, Space, distinct
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_offset
from ggscope.sanitize import one_line
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskContext, TaskFailure
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import mono_font

Choice = tuple[str, object]  # what people read, value in the filter


@dataclass(frozen=True, slots=True)
class Choices:
    """What can be picked, per field of the filter."""

    by_field: dict[str, tuple[Choice, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class ChoicesRequest:
    """Collect what occurs in a trace."""

    index: TraceIndex

    def __call__(self, context: TaskContext) -> Choices:
        """Return ops, layers, tokens, tensors and so on that occur."""
        choices: dict[str, tuple[Choice, ...]] = {}
        for name, by in _COLUMNS:
            context.check_cancelled()
            choices[name] = tuple(_of_categories(self.index, by))
        trace = self.index.trace
        is_work = lanes_where(trace.lanes, lambda spec: spec.is_work)
        choices["threads"] = tuple(
            (name, name) for name in trace.lanes.names_of(is_work)
        )
        context.check_cancelled()
        choices["tensors"] = tuple(_tensors(trace))
        choices["experts"] = tuple(_experts(trace))
        choices["buffers"] = tuple(_buffers(trace))
        choices["categories"] = tuple(_span_categories(trace))
        return Choices(choices)


_COLUMNS: tuple[tuple[str, ColorBy], ...] = (
    ("ops", "op"),
    ("families", "family"),
    ("layers", "layer"),
    ("tokens", "token"),
    ("phases", "phase"),
    ("spaces", "source"),
)
_FIELDS = (
    ("ops", "op"),
    ("families", "op family"),
    ("layers", "layer"),
    ("tokens", "token"),
    ("threads", "thread"),
    ("phases", "phase"),
    ("spaces", "source"),
    ("tensors", "tensor"),
    ("experts", "expert"),
    ("buffers", "buffer"),
    ("categories", "category"),
)
MAX_TENSORS = 5_000
"""More names than this are for typing, not for picking."""
MAX_LISTED = 2_000
"""So many values are listed: a row each of 100,000 stops the window for seconds."""
_PHASES = {int(phase): phase.name for phase in Phase}
_SPACES = {
    int(Space.FILE): "DISK (weights)",
    int(Space.BUFFER): "BUFFER (runtime)",
    int(Space.DRAM): "DRAM",
    int(Space.SPM): "SPM",
    int(Space.UNKNOWN): "unknown",
}


def _span_categories(trace: Trace) -> Iterable[Choice]:
    """Yield the categories of calls and events."""
    column = trace.spans.category
    for code in [] if column is None else distinct(column).tolist():
        if code >= 0:
            yield trace.strings[code], trace.strings[code]


def _of_categories(index: TraceIndex, by: ColorBy) -> Iterable[Choice]:
    """Yield the categories of a colouring as choices, numbers in order."""
    categories = index.categories(by)
    numbers: list[tuple[int, str]] = []
    for key, text in zip(categories.keys, categories.labels, strict=True):
        kind, _, rest = key.partition(":")
        if not rest:
            if key != "none":
                yield text, key
        elif rest.lstrip("-").isdigit() and kind in _NUMBERED:
            numbers.append((int(rest), text))
    names = {"phase": _PHASES, "source": _SPACES}.get(by, {})
    for number, text in sorted(numbers):
        yield names.get(number, text), number


def _tensors(trace: Trace) -> Iterable[Choice]:
    """Yield the names of tensors that are accessed, as the file lists them."""
    rows = np.unique(
        np.concatenate(
            [trace.accesses.patterns.tensor, trace.accesses.loose.what.tensor]
        )
    )
    names = dict.fromkeys(
        trace.strings[int(trace.tensors.name[row])]
        for row in rows[rows >= 0][:MAX_TENSORS].tolist()
    )
    yield from ((name, name) for name in names if name)


def _experts(trace: Trace) -> Iterable[Choice]:
    """Yield the numbers of experts that are accessed or routed to."""
    keys = np.unique(
        np.concatenate(
            [
                trace.accesses.patterns.expert,
                trace.accesses.loose.what.expert,
                trace.tensors.expert,
                trace.routing.expert,
            ]
        )
    )
    yield from ((f"expert {i}", i) for i in keys[keys >= 0].tolist())


def _buffers(trace: Trace) -> Iterable[Choice]:
    """Yield the buffers that have an id, the larger ones first."""
    buffers = trace.buffers
    seen: set[int] = set()
    for row in np.argsort(-buffers.size, kind="stable").tolist():
        address = int(buffers.address[row])
        if address and address not in seen:
            seen.add(address)
            name = trace.strings[int(buffers.name[row])] or "buffer"
            size = int(buffers.size[row])
            text = f"{name} · {format_offset(address)}"
            yield f"{text} · {format_bytes(size)}" if size >= 0 else text, address


_TAKES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)
_NUMBERED = {"layer", "token", "phase", "space"}


@guarded
class FilterPopup(QFrame):
    """Adds parts to the session's filter; closes on Esc or a click elsewhere."""

    closed = Signal()

    def __init__(
        self,
        session: Session,
        parent: QWidget | None = None,
        settings: Settings | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("overlay")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._session = session
        self._choices = Choices({})
        self._listed: tuple[Choice, ...] = ()
        self.edit = QLineEdit(self)
        self.edit.setProperty("mono", True)
        self.edit.setAccessibleName("Filter expression")
        self.edit.setPlaceholderText("op=MUL_MAT layer=0-3 not thread=0 dur>10us")
        self.edit.returnPressed.connect(self._on_expression)
        self._completion = Completion(0, 0)
        self.completer = self._make_completer()
        self.edit.textEdited.connect(self._on_edited)
        self.problem = label("", self, "error", wraps=True)
        self.problem.hide()
        self.field = QComboBox(self)
        self.field.setAccessibleName("Filter field")
        for _, title in _FIELDS:
            self.field.addItem(title)
        self.field.currentIndexChanged.connect(self._fill)
        self.list = QListWidget(self)
        self.list.setObjectName("choices")
        self.list.setAccessibleName("Values")
        self.list.setUniformItemSizes(True)
        self.list.itemChanged.connect(self._on_item_changed)
        self.saved: SavedFilters | None = None
        if settings is not None:
            self.saved = SavedFilters(settings, session, self)
            self.saved.applied.connect(self.close)
            self.saved.resized.connect(self._fit)
        self._lay_out()
        self.setFixedWidth(360)
        index = session.index
        if index is not None:
            session.tasks.run(
                "filter-choices",
                ChoicesRequest(index),
                self._on_choices,
                on_error=self._on_choices_failed,
            )
        self._fill()

    def show_below(self, anchor: QWidget) -> None:
        """Open under a widget, inside the screen."""
        screen = anchor.screen().availableGeometry()
        self.setMaximumHeight(screen.height())
        self._fit()
        corner = anchor.mapToGlobal(QPoint(0, anchor.height() + 4))
        corner.setX(max(screen.left(), min(corner.x(), screen.right() - self.width())))
        low = screen.bottom() - self.height()
        corner.setY(max(screen.top(), min(corner.y(), low)))
        self.move(corner)
        self.show()
        self.edit.setFocus()

    def _fit(self) -> None:
        """Be as high as need be; on a low screen the list gives way, then the hint."""
        self.hint.show()
        layout = self.layout()
        assert layout is not None
        max_height = self.maximumHeight()
        self.hint.setVisible(
            layout.totalMinimumHeightForWidth(self.width()) <= max_height
        )
        layout.activate()
        # Not `adjustSize`: that takes two thirds of the screen at most. Without the
        # hint no part wraps its words, and the layout answers for no width.
        height = layout.totalSizeHint().height()
        if layout.hasHeightForWidth():
            height = layout.totalHeightForWidth(self.width())
        self.resize(self.width(), min(height, max_height))

    def closeEvent(self, event: object) -> None:
        """Report that it is gone."""
        self._session.tasks.cancel("filter-choices")
        self.closed.emit()
        super().closeEvent(event)  # type: ignore[arg-type]  # QCloseEvent

    def _lay_out(self) -> None:
        box = QVBoxLayout(self)
        box.setContentsMargins(12, 12, 12, 12)
        box.setSpacing(8)
        box.addWidget(label("EXPRESSION", self, "head"))
        box.addWidget(self.edit)
        box.addWidget(self.problem)
        hint = (
            "Fields: op family layer token thread phase source tensor offset expert "
            "buffer quality dur wait size traffic rate time core numa group name. "
            "Also and, or, not, != and /regex/. Tab completes, Enter adds."
        )
        self.hint = label(hint, self, "dim", wraps=True)
        box.addWidget(self.hint)
        box.addWidget(label("OR PICK", self, "head"))
        box.addWidget(self.field)
        self.list.setMinimumHeight(84)
        box.addWidget(self.list)
        if self.saved is not None:
            box.addWidget(self.saved)
        row = QHBoxLayout()
        row.addWidget(button("Clear filter", self._on_clear, self))
        row.addStretch(1)
        row.addWidget(button("Done", self.close, self, primary=True))
        box.addLayout(row)

    def _make_completer(self) -> QCompleter:
        """Return what lists fields and values while one types."""
        made = QCompleter(QStringListModel(self), self)
        # By hand: the line keeps its text, and a word of it is completed.
        made.setWidget(self.edit)
        made.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        made.setMaxVisibleItems(10)
        self.completions = QListView()
        self.completions.setObjectName("completions")
        self.completions.setAccessibleName("Completions")
        self.completions.setFont(mono_font(12))
        made.setPopup(self.completions)
        # After the completer's own, so that this one is asked first.
        self.completions.installEventFilter(self)
        made.activated.connect(self._on_completed)
        return made

    def _on_edited(self, text: str) -> None:
        """Offer what may come next; Down chooses, Tab takes the first."""
        self._say("")
        completion = complete(text, self.edit.cursorPosition(), self._values)
        self._completion, model = completion, self.completer.model()
        assert isinstance(model, QStringListModel)
        model.setStringList([one_line(word) for word in completion.candidates])
        if completion.candidates:
            self.completer.complete()
            self.completions.setCurrentIndex(QModelIndex())
        else:
            self.completions.hide()

    def _values(self, field: str) -> list[object]:
        return [value for _, value in self._choices.by_field.get(field, ())]

    def _on_completed(self, word: str) -> None:
        """Put a completed word in the place of what was typed of it."""
        completion = self._completion
        text = self.edit.text()
        self.edit.setText(text[: completion.start] + word + text[completion.end :])
        self.edit.setCursorPosition(completion.start + len(word))
        if word[-1:] in "=>~":  # a field: its values come next
            self._on_edited(self.edit.text())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take a completion by Enter or Tab, before the line gets the key.

        Tab takes the first one where none is chosen; Enter adds what is typed then.
        """
        if (
            watched is self.completions
            and isinstance(event, QKeyEvent)
            and event.type() == QEvent.Type.KeyPress
            and event.key() in _TAKES
        ):
            chosen = self.completions.currentIndex()
            if event.key() == Qt.Key.Key_Tab and not chosen.isValid():
                chosen = self.completions.model().index(0, 0)
            self.completions.hide()
            if chosen.isValid():
                self._on_completed(str(chosen.data()))
            else:
                self._on_expression()
            return True
        return super().eventFilter(watched, event)

    def _on_choices(self, choices: Choices) -> None:
        self._choices = choices
        self._fill()

    def _on_choices_failed(self, failure: TaskFailure) -> None:
        self._say(failure.message)

    def _fill(self) -> None:
        name = _FIELDS[self.field.currentIndex()][0]
        chosen = getattr(self._session.queries.filter, name) or frozenset()
        choices = self._choices.by_field.get(name)
        # What is left out of the list stays in the filter, as what is typed does.
        self._listed = (choices or ())[:MAX_LISTED]
        self.list.blockSignals(True)
        self.list.clear()
        for text, value in self._listed:
            item = QListWidgetItem(one_line(text[:200]))
            is_on = value in chosen
            item.setCheckState(
                Qt.CheckState.Checked if is_on else Qt.CheckState.Unchecked
            )
            self.list.addItem(item)
        if not choices:
            trace = self._session.trace
            is_open = choices is None or (trace is not None and trace.is_unread)
            text = "…" if is_open else "not in this trace"
            self._add_remark(text)
        elif len(choices) > MAX_LISTED:
            n_more = f"{len(choices) - MAX_LISTED:,}"
            text = f"{n_more} more: type them above"
            self._add_remark(text)
        self.list.blockSignals(False)

    def _add_remark(self, text: str) -> None:
        """Add a row that cannot be picked."""
        item = QListWidgetItem(text)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        self.list.addItem(item)

    def _on_item_changed(self, _: QListWidgetItem) -> None:
        name = _FIELDS[self.field.currentIndex()][0]
        old = self._session.queries.filter
        picked = {
            value
            for i, (_, value) in enumerate(self._listed)
            if self.list.item(i).checkState() is Qt.CheckState.Checked
        }
        # What was typed and cannot be picked, such as op=MUL*, stays.
        listed = {value for _, value in self._listed}
        values = frozenset(picked | ((getattr(old, name) or frozenset()) - listed))
        parts: dict[str, Any] = {name: values or None}
        self._session.queries.set_filter(replace(old, **parts))

    def _on_expression(self) -> None:
        text = self.edit.text().strip()
        try:
            trace = self._session.trace
            added = parse_filter(text) if trace is None else read_filter(text, trace)
        except QueryError as error:
            self._say(str(error))
            return
        self._session.queries.set_filter(self._session.queries.filter.merged(added))
        self.close()

    def _on_clear(self) -> None:
        self._session.queries.set_filter(Filter())
        self.close()

    def _say(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))
        self.adjustSize()


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
    where = saved_filter(settings, name, session)
    if where is not None:
        session.queries.set_filter(
            Filter() if where == session.queries.filter else where
        )


def save_present(settings: Settings, session: Session, name: str) -> None:
    """Keep the present filter under `name`; one of that name is replaced."""
    expression = format_filter(session.queries.filter)
    if expression and name.strip():
        settings.save_filter(name, expression)


def ask_and_save(settings: Settings, session: Session, parent: QWidget) -> None:
    """Ask for a name and keep the present filter."""
    from ggscope.gui.dialogs.dialogs import NameDialog

    title = f"Name for “{format_filter(session.queries.filter)[:200]}”"
    dialog = NameDialog(parent, "Save filter", title)

    def keep() -> None:
        save_present(settings, session, dialog.name.text())

    dialog.accepted.connect(keep)
    dialog.open()


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
        self.name.setPlaceholderText("Name of the current filter")
        self.name.setAccessibleName("Name of the current filter")
        self.name.setMaxLength(80)
        self.name.returnPressed.connect(self._on_save)
        self.save = button("Save", self._on_save, self)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.name, 1)
        line.addWidget(self.save)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addWidget(label("SAVED", self, "head"))
        box.addLayout(self._list)
        box.addLayout(line)
        session.queries.filter_changed.connect(self._show_state)
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
        apply.setAccessibleName(f"Apply filter {name}")
        apply.setProperty("filterName", name)
        forget = GlyphButton("close", f"Delete “{name}”", row, 12)
        forget.setObjectName("forget")
        forget.setProperty("filterName", name)
        forget.clicked.connect(self._on_forget)
        box = QHBoxLayout(row)
        box.setContentsMargins(0, 0, 0, 0)
        box.addWidget(apply, 1, Qt.AlignmentFlag.AlignLeft)
        box.addWidget(forget)
        return row

    def _show_state(self, _: object = None) -> None:
        has_filter = bool(format_filter(self._session.queries.filter))
        self.name.setEnabled(has_filter)
        self.save.setEnabled(has_filter)
        hint = "Name of the current filter"
        if not has_filter:
            hint = "Set a filter to save it here"
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
