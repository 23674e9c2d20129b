"""Footer of the trace table: row counts, progress and the jump field."""

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QWidget,
)

from ggscope.analysis.sessions.correlate import Correlation
from ggscope.model.units import format_count, format_share
from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    RangeSwitch,
    lay_out,
    scaled,
    tool_button,
    tool_button_style,
    ui_font,
)
from ggscope.views.table.grid import is_jump

_LEFT, _GAP, _RIGHT = 12, 8, 4


@guarded
class TableFooter(QWidget):
    """Counts, messages and a few controls of the table.

    Attributes
    ----------
    switch : the range that is shown, or all.
    count : how many rows there are.
    matched : how many ops match a graph node; hidden without one.
    note : what is going on.
    jump : takes a row, a record, a time or a token.
    cancel : stops the sorting; seen only while there is some.
    form : compact or detailed.
    copy : opens the menu of forms to copy in.
    """

    jump_typed = Signal(str)
    left = Signal()  # Esc in the field: back to the table
    unused = Signal()  # the field has lost the keys

    def __init__(
        self, session: Session, copy_menu: QMenu, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setObjectName("table_footer")
        self.switch = RangeSwitch(session, self)
        self.count = ElidedLabel(self)
        self.count.setObjectName("table_count")
        self.matched = ElidedLabel(self)
        self.matched.hide()
        self.note = ElidedLabel(self)
        self.note.setObjectName("table_note")
        self.cancel = tool_button(
            self,
            "Cancel",
            "Cancel sorting (Esc)",
        )
        self.cancel.hide()
        self.jump = QLineEdit(self)
        self.jump.setPlaceholderText("Go to …")
        set_tip(
            self.jump,
            "Go to a row (1200), record (#1200), time (1.5 ms, 1:30, 11:01.44) or "
            "token (token 5) (Ctrl+G)",
        )
        self.jump.setAccessibleName("Go to row, record, time or token")
        self.jump.setMinimumWidth(scaled(56))
        self.jump.setMaximumWidth(scaled(170))
        self.jump.returnPressed.connect(self._on_return)
        self.jump.installEventFilter(self)
        tip = "Show all sources of each record (T)"
        self.form = tool_button(self, "Detailed", tip)
        self.form.setObjectName("table_form")
        self.form.setCheckable(True)
        tip = "Copy the selected records"
        self.copy = tool_button(self, "Copy", tip, menu=copy_menu)
        parts = (self.count, self.matched, self.note, self.cancel, self.jump, self.form)
        lay_out(
            QHBoxLayout(self),
            self.switch,
            *parts,
            self.copy,
            margins=(_LEFT, 0, _RIGHT, 0),
            spacing=_GAP,
            wide=self.note,
        )
        for child in (*parts, self.copy):
            child.setFont(ui_font(11.5))
        self._knows_matched = False

    def say_matched(self, correlation: Correlation | None) -> None:
        """Show how many ops match graph nodes, and by which rules; None = no graph."""
        is_known = correlation is not None and correlation.n_all > 0
        self._knows_matched = is_known
        if correlation is None or not is_known:
            self.matched.clear()
            self.fit()
            return
        n_matched, total = correlation.n_found, correlation.n_all
        lines = ["Ops matched to graph nodes, by rule:"]
        lines += [f"{rule}: {format_count(n)}" for rule, n in correlation.rules.items()]
        if n_matched < total:
            lines.append(f"not matched: {format_count(total - n_matched)}")
        if correlation.n_borrowed:
            borrowed = format_count(correlation.n_borrowed)
            lines.append(f"{borrowed} in passes that reuse another graph")
        self.matched.tip = "\n".join(lines)
        share = format_share(n_matched / total)
        self.matched.setText(
            f"{format_count(n_matched)} of {format_count(total)} in the graph ({share})"
        )
        self.fit()

    def minimumSizeHint(self) -> QSize:
        """Return a size for the switch and the jump field only."""
        width = self.switch.sizeHint().width() + self.jump.minimumWidth() + 5 * _GAP
        return QSize(width, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the parts that fit."""
        super().resizeEvent(event)
        self.fit()

    def show_cancel(self, is_shown: bool) -> None:
        """Show or hide the button that cancels sorting."""
        self.cancel.setVisible(is_shown)
        self.fit()

    def fit(self) -> None:
        """Hide parts that do not fit in full, the least important first.

        A key or the menu of a row does what the buttons do.
        """
        space_px = self.width() - _LEFT - _RIGHT - 3 * _GAP
        for part in (self.switch, self.note, self.jump):
            space_px -= max(part.minimumSizeHint().width(), part.minimumWidth())

        if not self.cancel.isHidden():
            space_px -= self.cancel.sizeHint().width() + _GAP

        def takes(width: int) -> bool:
            nonlocal space_px
            space_px -= width
            return space_px >= 0

        count = self.count.sizeHint().width()
        self.form.setVisible(takes(self.form.sizeHint().width() + _GAP))
        self.count.setMinimumWidth(count if takes(count) else 0)
        self.copy.setVisible(takes(self.copy.sizeHint().width() + _GAP))
        takes(self.jump.sizeHint().width() - self.jump.minimumWidth())
        has_room = takes(self.matched.sizeHint().width() + _GAP)
        self.matched.setVisible(self._knows_matched and has_room)
        self.switch.fit_to_text()
        for button in (self.cancel, self.form, self.copy):
            button.setMinimumWidth(button.sizeHint().width())
        tip = "" if has_room else self.matched.full_text
        if tip != self.count.tip:
            self.count.tip = tip
            self.count.setText(self.count.full_text)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.switch.set_theme(theme)
        self.setStyleSheet(
            f"#table_footer {{ background: {css(theme.pane)}; }}"
            f" QLabel {{ color: {css(theme.dim)}; background: transparent; }}"
            + tool_button_style(theme, theme.dim)
            + f" QToolButton:focus {{ color: {css(theme.accent)}; }}"
            f" QToolButton:checked {{ color: {css(theme.accent)}; }}"
        )
        self.fit()

    def take_jump(self) -> None:
        """Focus the jump field."""
        self.jump.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.jump.selectAll()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave the field on Esc, before the window's commands see it."""
        if watched is self.jump and event.type() == QEvent.Type.FocusOut:
            self.unused.emit()
        if watched is self.jump and isinstance(event, QKeyEvent):
            is_escape = event.key() == Qt.Key.Key_Escape
            if is_escape and event.type() == QEvent.Type.ShortcutOverride:
                event.accept()
                return True
            if is_escape and event.type() == QEvent.Type.KeyPress:
                self.left.emit()
                return True
            is_press = event.type() == QEvent.Type.KeyPress
            if is_press and is_jump(event):
                self.jump.selectAll()
                return True
        return super().eventFilter(watched, event)

    def _on_return(self) -> None:
        self.jump_typed.emit(self.jump.text())
        self.jump.selectAll()  # what is typed next is another place
