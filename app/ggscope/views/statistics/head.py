"""The line above the selection statistics; it takes more lines where it is narrow."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QWidget,
)

from ggscope.model.units import format_count
from ggscope.render.theme import Theme
from ggscope.session.session import Session
from ggscope.views.base.controls import RangeSwitch
from ggscope.views.base.plain import Label, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    ElidedLabel,
    lay_out,
    qcolor,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    words_font,
)
from ggscope.views.statistics.request import StatisticsResult

_ABOUT_PX = 240
"""What the figures are about goes to a line of its own if it gets less room."""


@guarded
class StatisticsHead(QWidget):
    """Says what the figures are about; offers grouping, uncertain times and copying.

    Attributes
    ----------
    about : what the figures are about.
    switch : this range, or all.
    by : the grouping.
    estimated : whether times that are not measured or derived count.
    """

    by_changed = Signal()
    estimated_toggled = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.about = ElidedLabel(self)
        self.estimated = QCheckBox(self)
        self.estimated.toggled.connect(self._on_toggled)
        self._tail = QWidget(self)
        self.switch = RangeSwitch(session, self)
        self._by_label = Label(self.tr("by"), self._tail)
        self.by = QComboBox(self._tail)
        self.by.setAccessibleName(self.tr("Group by"))
        set_tip(self.by, self.tr("Group by"))
        self.by.currentIndexChanged.connect(self._on_by_changed)
        self._by_label.setBuddy(self.by)
        self.menu = QMenu(self._tail)
        tip = self.tr("Copy the table")
        self._copy = tool_button(self._tail, self.tr("Copy"), tip, menu=self.menu)
        self.by.setMinimumHeight(scaled(24))
        for widget in (self.about, self.estimated, self._by_label, self.by):
            widget.setFont(words_font(12))
        parts = (None, self._by_label, self.by, self._copy)
        lay_out(QHBoxLayout(self._tail), *parts, spacing=8)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 4, 8, 4)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._n_lines = 0
        self._arrange()
        self.say_left_out(None)

    @property
    def n_lines(self) -> int:
        """In how many lines it lies, 1 to 3."""
        return self._n_lines

    def say_left_out(self, result: StatisticsResult | None) -> None:
        """Name the kinds of times that are left out, and how many there are."""
        estimated = 0 if result is None else result.table.all.estimated
        unfinished = 0 if result is None else result.table.all.unfinished
        if estimated and unfinished:
            text = self.tr("include estimated and unfinished")
        elif unfinished:
            text = self.tr("include unfinished")
        else:
            text = self.tr("include estimated")
        if result is not None and result.n_left_out:
            n = format_count(result.n_left_out)
            text += " " + self.tr("({0} left out)").format(n)
        tips = [
            self.tr("Estimated times share out a measured whole; rank with care."),
            self.tr("Unfinished spans have no end in the file."),
        ]
        if result is not None:
            counts = self.tr("Here: {0} estimated, {1} unfinished.")
            tips.append(
                counts.format(format_count(estimated), format_count(unfinished))
            )
        self.estimated.setText(text)
        set_tip(self.estimated, "\n".join(tips))
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.switch.set_theme(theme)
        for widget in (self.about, self._by_label):
            set_label_color(widget, theme.dim)
        # Not by style sheet: that would take the box's own drawing away.
        palette = self.estimated.palette()
        palette.setColor(QPalette.ColorRole.WindowText, qcolor(theme.dim))
        self.estimated.setPalette(palette)
        self._copy.setStyleSheet(tool_button_style(theme, theme.dim))

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as three lines can be, whatever the lines now."""
        margins = self._grid.contentsMargins()
        widest = max(
            self.estimated.sizeHint().width(), self._tail.minimumSizeHint().width()
        )
        width = widest + margins.left() + margins.right()
        return QSize(width, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take as many lines as the width asks for."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        margins, gap = self._grid.contentsMargins(), self._grid.horizontalSpacing()
        room = self.width() - margins.left() - margins.right()
        controls = (
            self.estimated.sizeHint().width() + gap + self._tail.sizeHint().width()
        )
        switch = self.switch.sizeHint().width()
        n_lines = 1
        if room < controls + gap + switch + gap + scaled(_ABOUT_PX):
            n_lines = 2 if room >= controls else 3
        if n_lines == self._n_lines:
            return
        self._n_lines = n_lines
        for widget in (self.about, self.switch, self.estimated, self._tail):
            self._grid.removeWidget(widget)
        self._grid.addWidget(self.about, 0, 0, 1, 1 if n_lines == 1 else 3)
        right = Qt.AlignmentFlag.AlignRight
        self._grid.addWidget(self.switch, 0, 1 if n_lines == 1 else 3, right)
        if n_lines == 3:
            self._grid.addWidget(self.estimated, 1, 0, 1, 4)
            self._grid.addWidget(self._tail, 2, 0, 1, 4)
        else:
            self._grid.addWidget(self.estimated, n_lines - 1, 2)
            self._grid.addWidget(self._tail, n_lines - 1, 3)
        self.updateGeometry()

    def _on_by_changed(self, _: int) -> None:
        self.by_changed.emit()

    def _on_toggled(self, _: bool) -> None:
        self.estimated_toggled.emit()
