"""The head of the statistics: what they are about, groupings, uncertain times."""

from collections.abc import Sequence

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QPalette, QResizeEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QWidget,
)

from ggscope.analysis.statistics.pivot import PIVOT_MEASURES, SHARING
from ggscope.descriptions.groupings import GROUPINGS
from ggscope.descriptions.pivot import MEASURES
from ggscope.model.selection import By
from ggscope.model.units import format_count
from ggscope.render.theme import Theme, css
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, Label, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    RangeSwitch,
    combo_box,
    lay_out,
    qcolor,
    scaled,
    set_label_color,
    tool_button,
    tool_button_style,
    ui_font,
)
from ggscope.views.statistics.counting import StatisticsResult

_ABOUT_PX = 240
"""What the figures are about goes to a line of its own if it gets less room."""


@guarded
class StatisticsHead(QWidget):
    """Says what the figures are about; offers grouping, uncertain times and copying.

    Attributes
    ----------
    about : what the figures are about.
    switch : this range, or all.
    by, across : the grouping, and that of the columns of a pivot table, None = none.
    cells : what the cells of a pivot table are.
    histogram : the switch of the histogram.
    estimated : whether times that are not measured or derived count.
    n_lines : in how many lines it lies, 1, 2 or 4.
    """

    by_changed = Signal()
    cells_changed = Signal()
    estimated_toggled = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.about = ElidedLabel(self)
        self.estimated = QCheckBox(self)
        self.estimated.toggled.connect(self.estimated_toggled)
        self._tail = QWidget(self)
        self.switch = RangeSwitch(session, self)
        self._by_label = Label("by", self._tail)
        self.by = combo_box(self._tail, "Group by")
        self.by.currentIndexChanged.connect(self.by_changed)
        self._by_label.setBuddy(self.by)
        self._columns = QWidget(self)
        self._across_label = Label("×", self._columns)
        tip = "Columns: a second grouping makes a pivot table"
        self.across = combo_box(self._columns, "Columns", tip=tip)
        self._across_label.setBuddy(self.across)
        self.across.currentIndexChanged.connect(self.by_changed)
        names = [(MEASURES[measure], measure) for measure in PIVOT_MEASURES]
        self.cells = combo_box(self._columns, "Cells", names, tip="What the cells are")
        self.cells.currentIndexChanged.connect(self.cells_changed)
        self.cells.hide()
        self.menu = QMenu(self._columns)
        tip = "Copy the table"
        self._copy = tool_button(self._columns, "Copy", tip, menu=self.menu)
        labels = (self._by_label, self._across_label)
        for widget in (self.about, self.estimated, *labels):
            widget.setFont(ui_font(12))
        lay_out(QHBoxLayout(self._tail), None, self._by_label, self.by, spacing=8)
        tip = "Histogram of times, bytes or rates; dragging over it filters"
        self.histogram = tool_button(self._columns, "Histogram", tip)
        self.histogram.setCheckable(True)
        self._buttons = (self.histogram, self._copy)
        columns = (
            None, self._across_label, self.across, self.cells, *self._buttons,
        )  # fmt: skip
        lay_out(QHBoxLayout(self._columns), *columns, spacing=8)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 4, 8, 4)
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self.n_lines = 0
        self._arrange()
        self.say_left_out(None)

    def say_left_out(self, result: StatisticsResult | None) -> None:
        """Name the kinds of spans whose times are left out, and count them."""
        estimated = 0 if result is None else result.table.all.estimated
        unfinished = 0 if result is None else result.table.all.unfinished
        if estimated and unfinished:
            text = "Include estimated and unfinished spans"
        elif unfinished:
            text = "Include unfinished spans"
        else:
            text = "Include estimated spans"
        if result is not None and result.n_left_out:
            text += f" ({format_count(result.n_left_out)})"
        tips = [
            "Estimated times are shares of a measured total; rank with care.",
            "Unfinished spans have no end in the file.",
        ]
        if result is not None:
            counts = "Here: {0} estimated, {1} unfinished."
            tips.append(
                counts.format(format_count(estimated), format_count(unfinished))
            )
        self.estimated.setText(text)
        set_tip(self.estimated, "\n".join(tips))
        self._arrange()

    def offer(self, groupings: Sequence[By]) -> None:
        """Offer these groupings; what is chosen stays if it is one of them."""
        _fill(self.by, [(GROUPINGS[by], by) for by in groupings])
        self.offer_columns()

    def offer_columns(self) -> None:
        """Offer what the groups can be tabulated by."""
        by = self.by.currentData()
        items = [
            (self.by.itemText(i), self.by.itemData(i)) for i in range(self.by.count())
        ]
        others = [
            (text, other)
            for text, other in items
            if other != by and not {by, other} <= set(SHARING)
        ]
        _fill(self.across, [("–", None), *others])
        self.cells.setVisible(self.across.currentData() is not None)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.switch.set_theme(theme)
        for widget in (self.about, self._by_label, self._across_label):
            set_label_color(widget, theme.dim)
        # Not by style sheet: that would take the box's own drawing away.
        palette = self.estimated.palette()
        palette.setColor(QPalette.ColorRole.WindowText, qcolor(theme.dim))
        self.estimated.setPalette(palette)
        chosen = f" QToolButton:checked {{ color: {css(theme.text)};"
        chosen += f" background: {css(theme.raised)}; }}"
        for button in self._buttons:
            button.setStyleSheet(tool_button_style(theme, theme.dim) + chosen)

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as four lines can be, whatever the lines now."""
        margins = self._grid.contentsMargins()
        widest = max(
            self.estimated.sizeHint().width(),
            self._tail.minimumSizeHint().width(),
            self._columns.minimumSizeHint().width(),
        )
        width = widest + margins.left() + margins.right()
        return QSize(width, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take as many lines as the width asks for."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        margins, gap = self._grid.contentsMargins(), self._grid.horizontalSpacing()
        space = self.width() - margins.left() - margins.right()
        parts = (self.estimated, self._tail, self._columns)
        controls = sum(part.sizeHint().width() for part in parts) + 2 * gap
        switch = self.switch.sizeHint().width()
        n_lines = 1
        if space < controls + gap + switch + gap + scaled(_ABOUT_PX):
            n_lines = 2 if space >= controls else 4
        if n_lines == self.n_lines:
            return
        self.n_lines = n_lines
        for widget in (self.about, self.switch, *parts):
            self._grid.removeWidget(widget)
        self._grid.addWidget(self.about, 0, 0, 1, 1 if n_lines == 1 else 4)
        right = Qt.AlignmentFlag.AlignRight
        self._grid.addWidget(self.switch, 0, 1 if n_lines == 1 else 4, right)
        for place, part in enumerate(parts):
            if n_lines == 4:
                self._grid.addWidget(part, 1 + place, 0, 1, 5)
            else:
                self._grid.addWidget(part, n_lines - 1, 2 + place)
        self.updateGeometry()


def _fill(box: QComboBox, items: Sequence[tuple[str, object]]) -> None:
    """Offer these words and values, without a signal; the choice stays if it can."""
    if [box.itemData(i) for i in range(box.count())] == [value for _, value in items]:
        return
    chosen = box.currentData()
    with QSignalBlocker(box):
        box.clear()
        for label, value in items:
            box.addItem(label, value)
        values = [value for _, value in items]
        if chosen in values:
            box.setCurrentIndex(values.index(chosen))
