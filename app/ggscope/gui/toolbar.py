"""The row of controls above a trace: open, search, filter chips, colour, time."""

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QEvent, QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QSizePolicy,
    QStyle,
    QStyleOptionFrame,
    QToolButton,
    QWidget,
)

from ggscope.analysis.filters.text import describe_filter
from ggscope.analysis.rows.colorings import coloring
from ggscope.descriptions.spans import absolute_text
from ggscope.gui.widgets import Chip, GlyphButton, button, label, set_property
from ggscope.model.units import format_count
from ggscope.render.figures import has_spans, has_times
from ggscope.session.session import Session
from ggscope.views.base.safe_text import Label, add_action, set_tip
from ggscope.views.base.view import guarded

SEARCH_MS = 200
ROOMY_PX = 960
HIDDEN_LANES = "hidden lanes"
"""Part of the chip that shows hidden lanes again."""


@guarded
class SearchField(QFrame):
    """A line to search with, the number of hits, and steps through them."""

    focus_released = Signal()  # the user is done here: give the focus to the views

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("search")
        self._session = session
        self.edit = QLineEdit(self)
        self._hints = (
            "Search, or /regex/   Ctrl+F",
            "Search, or /regex/",
            "Search",
        )
        self.edit.setPlaceholderText(self._hints[0])
        self.edit.setAccessibleName("Search")
        set_tip(self.edit, "Text (case-insensitive) or /regular expression/")
        self.edit.setProperty("mono", True)
        self.edit.setMaxLength(4096)
        self.count = Label(parent=self)
        self.previous = GlyphButton("up", "Previous hit (Shift+Enter)", self)
        self.next = GlyphButton("down", "Next hit (Enter)", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(2, 1, 4, 1)
        row.setSpacing(2)
        row.addWidget(self.edit, 1)
        row.addWidget(self.count)
        row.addWidget(self.previous)
        row.addWidget(self.next)
        self.setMinimumWidth(140)
        self.setMaximumWidth(420)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(SEARCH_MS)
        self._delay.timeout.connect(self._search)
        self.edit.textEdited.connect(self._delay.start)
        self.edit.installEventFilter(self)
        self.previous.clicked.connect(self._on_previous)
        self.next.clicked.connect(self._on_next)
        session.queries.search_changed.connect(self._on_search_changed)
        session.queries.hit_position_changed.connect(self._show_count)
        self._show_count()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let Enter step and Esc leave, before the window's commands see them."""
        kind = event.type()
        if kind in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            set_property(self, "focused", kind is QEvent.Type.FocusIn)
        elif kind is QEvent.Type.Resize:
            self._fit_hint()
        if isinstance(event, QKeyEvent) and event.key() in (
            Qt.Key.Key_Return,
            Qt.Key.Key_Enter,
            Qt.Key.Key_Escape,
        ):
            if kind is QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            if kind is QEvent.Type.KeyPress:
                self._on_key(event)
                return True
        return super().eventFilter(watched, event)

    def _fit_hint(self) -> None:
        """Show the longest hint that fits whole."""
        option = QStyleOptionFrame()
        self.edit.initStyleOption(option)
        part = QStyle.SubElement.SE_LineEditContents
        space = self.edit.style().subElementRect(part, option, self.edit).width()
        measure, margins = self.edit.fontMetrics().horizontalAdvance, 6
        fitting = (h for h in self._hints if measure(h) + margins <= space)
        self.edit.setPlaceholderText(next(fitting, self._hints[-1]))

    def _on_key(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.focus_released.emit()
            return
        self._search()
        back = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        self._session.navigator.step_hit(-1 if back else 1)

    def start(self) -> None:
        """Let the user type what to find, in place of what stands there."""
        self.edit.setFocus()
        self.edit.selectAll()

    def clear(self) -> None:
        """End the search."""
        self.edit.clear()
        self._search()

    def _search(self) -> None:
        self._delay.stop()
        self._session.queries.search(self.edit.text())
        self._show_count()

    def _on_previous(self) -> None:
        self._search()
        self._session.navigator.step_hit(-1)

    def _on_next(self) -> None:
        self._search()
        self._session.navigator.step_hit(1)

    def _on_search_changed(self, _: object) -> None:
        text = self._session.queries.text
        if not self._delay.isActive() and self.edit.text() != text:
            self.edit.setText(text)
        self._show_count()

    def _show_count(self, _: object = None) -> None:
        hits = self._session.queries.hits
        n, position = self._session.queries.n_hits, self._session.queries.position
        trace = self._session.trace
        if hits is None or (trace is not None and not len(trace.spans)):
            text = ""  # of a model alone, the pane of tensors says what matches
        elif position >= 0:
            text = f"{format_count(position + 1)} of {format_count(n)}"
        elif n == 1:
            text = "1 hit"
        else:
            text = f"{format_count(n)} hits" if n else "no hits"
        self.count.setText(text)
        self.previous.setEnabled(n > 0)
        self.next.setEnabled(n > 0)


@guarded
class ChipRow(QWidget):
    """What is not shown: hidden lanes and the parts of the filter.

    What does not fit is behind "+n".
    """

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.chips: list[Chip] = []
        self._more = QToolButton(self)
        self._more.setObjectName("chips_more")
        self._more.setProperty("link", True)
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self._more)
        self._menu.triggered.connect(self._on_menu)
        self._more.setMenu(self._menu)
        self._more.hide()
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(28)
        session.queries.filter_changed.connect(self._on_changed)
        session.lanes.changed.connect(self._on_changed)
        self._on_changed()

    def sizeHint(self) -> QSize:
        """Return the size that all chips would like."""
        wide = sum(chip.sizeHint().width() + 6 for chip in self.chips)
        return QSize(wide, 28)

    def minimumSizeHint(self) -> QSize:
        """Return room for one sign that there is more."""
        return QSize(48 if self.chips else 0, 28)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many chips as fit."""
        super().resizeEvent(event)
        self._place()

    def _on_changed(self, _: object = None) -> None:
        for chip in self.chips:
            chip.hide()
            chip.deleteLater()
        self.chips = []
        session = self._session
        unit = "ns" if session.trace is None else session.trace.clock.unit
        parts = (
            [*describe_filter(session.queries.filter, unit)]
            if session.queries.filter
            else []
        )
        if n := len(session.lanes.state.hidden):
            label = "1 lane hidden" if n == 1 else "{0} lanes hidden"
            parts.insert(0, (HIDDEN_LANES, label.format(n)))
        for part, text in parts:
            chip = Chip(part, text, self)
            chip.removed.connect(self._on_removed)
            self.chips.append(chip)
        self.updateGeometry()
        self._place()

    def _place(self) -> None:
        x = 0
        hidden: list[Chip] = []
        space = self.width()
        needed = self.sizeHint().width()
        limit = space if needed <= space else space - 44
        for chip in self.chips:
            wide = chip.sizeHint().width()
            fits = x + wide <= limit and not hidden
            chip.setVisible(fits)
            if fits:
                chip.setGeometry(x, 1, wide, 26)
                x += wide + 6
            else:
                hidden.append(chip)
        self._menu.clear()
        for chip in hidden:
            tip = f"Remove “{chip.text}”"
            action = add_action(self._menu, tip)
            action.setData(chip.part)
        n = len(hidden)
        self._more.setText(f"+{n}")
        tip = f"{n} more filter terms"
        set_tip(self._more, "1 more filter term" if n == 1 else tip)
        self._more.setVisible(bool(hidden))
        self._more.setGeometry(x, 2, 40, 24)

    def _on_removed(self, part: str) -> None:
        if part == HIDDEN_LANES:
            state = self._session.lanes.state
            self._session.lanes.set_state(replace(state, hidden=frozenset()))
            return
        self._session.queries.set_filter(self._session.queries.filter.without(part))

    def _on_menu(self, action: QAction) -> None:
        self._on_removed(str(action.data()))


@guarded
class Toolbar(QFrame):
    """Open, Export, search, filter, colour and time format of one session."""

    filter_requested = Signal(QWidget)  # the button to hang the popup on
    details_requested = Signal()
    export_requested = Signal()

    def __init__(
        self,
        session: Session,
        open_files: Callable[[], object],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("toolbar")
        self._session = session
        self.search = SearchField(session, self)
        self.chips = ChipRow(session, self)
        self.add_filter = button(
            "+ filter",
            self._on_add_filter,
            self,
            link=True,
            tip="Filter spans",
        )
        self.color = self._combo([], "Colour by")
        self.time = self._combo(
            ["time from start", "absolute time"],
            "Time format",
        )
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 12, 6)
        row.setSpacing(8)
        row.addWidget(
            button(
                "Open",
                open_files,
                self,
                tip="Open trace files (Ctrl+O)",
            )
        )
        self.export_button = button(
            "Export…",
            self.export_requested.emit,
            self,
            tip="Export the last used view as a figure (Ctrl+E)",
        )
        row.addWidget(self.export_button)
        row.addWidget(self.search, 4)
        # No stretch: what stretches is given its least first, and chips would fold
        # beside free space.
        row.addWidget(self.chips)
        row.addWidget(self.add_filter)
        row.addStretch(1)
        self._color_label = label("Colour by", self, "dim")
        row.addWidget(self._color_label)
        row.addWidget(self.color)
        row.addWidget(self.time)
        self.details_button = GlyphButton("side", "", self)
        self.details_button.clicked.connect(self.details_requested)
        row.addWidget(self.details_button)
        self.show_details(True)
        self.color.activated.connect(self._on_color)
        self.time.activated.connect(self._on_time)
        session.display.color_by_changed.connect(self._show_state)
        session.display.absolute_time_changed.connect(self._show_state)
        session.trace_changed.connect(self._name_times)
        session.trace_changed.connect(self._list_colorings)
        session.trace_changed.connect(self._fit_to_trace)
        self._name_times()
        self._list_colorings()
        self._fit_to_trace()

    def set_usable(self, is_usable: bool) -> None:
        """Switch off what needs a trace, while there is none."""
        for part in (
            self.search,
            self.chips,
            self.add_filter,
            self.color,
            self.time,
            self.export_button,
        ):
            part.setEnabled(is_usable)

    def show_details(self, are_shown: bool) -> None:
        """Say what the button of the details does."""
        tip = "Hide the details (Q)"
        if not are_shown:
            tip = "Show the details (Q)"
        self.details_button.set_glyph("side", tip)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out the words that the controls explain themselves."""
        super().resizeEvent(event)
        self._fit_to_trace()

    def _fit_to_trace(self, _: object = None) -> None:
        """Hide what would change nothing in the trace."""
        trace = self._session.trace
        is_unknown = trace is None or bool(trace.pending)
        has_colors = is_unknown or (trace is not None and has_spans(trace))
        self.color.setVisible(has_colors)
        self._color_label.setVisible(has_colors and self.width() >= ROOMY_PX)
        self.time.setVisible(is_unknown or (trace is not None and has_times(trace)))

    def _combo(self, texts: list[str], name: str) -> QComboBox:
        combo = QComboBox(self)
        combo.addItems(texts)
        combo.setAccessibleName(name)
        set_tip(combo, name)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        combo.setMinimumWidth(84)
        combo.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return combo

    def _on_add_filter(self) -> None:
        self.filter_requested.emit(self.add_filter)

    def _on_color(self, position: int) -> None:
        self._session.display.set_color_by(self.color.itemData(position))

    def _on_time(self, position: int) -> None:
        self._session.display.set_absolute_time(position == 1)

    def _name_times(self, _: object = None) -> None:
        """Say cycles or samples where the trace counts these."""
        trace = self._session.trace
        clock = None if trace is None else trace.clock
        texts = ["time from start", absolute_text(clock)]
        if clock is not None and clock.axis_word:
            texts[0] = f"{clock.axis_word} from start"
        for position, text in enumerate(texts):
            self.time.setItemText(position, text)

    def _list_colorings(self, _: object = None) -> None:
        """Offer what the trace can be coloured by."""
        offered = self._session.display.colorings
        if offered != tuple(map(self.color.itemData, range(self.color.count()))):
            self.color.clear()
            for by in offered:
                self.color.addItem(coloring(by).title, by)
        self._show_state()

    def _show_state(self, _: object = None) -> None:
        self.color.setCurrentIndex(self.color.findData(self._session.display.color_by))
        self.time.setCurrentIndex(int(self._session.display.absolute_time))
