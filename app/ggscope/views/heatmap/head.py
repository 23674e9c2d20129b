"""The controls in the head of the file heatmap's pane."""

from typing import Any

from PySide6.QtCore import QSignalBlocker, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QPushButton, QWidget

from ggscope.analysis.heat.rows import RowKind
from ggscope.render.theme import NAMES, ScaleKind, Theme
from ggscope.views.base.plain import Label, set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    combo_box,
    lay_out,
    scaled,
    set_label_color,
    words_font,
)
from ggscope.views.heatmap.request import HeatLook

_GAP_PX = 6


@guarded
class HeatmapHead(QWidget):
    """What the rows are, what x is, what is shown, and in which colours.

    Attributes
    ----------
    rows, axis, shows, scale, colors : the combo boxes.
    filter : filters everything to the marked range; hidden without one.
    """

    look_changed = Signal(object)  # HeatLook
    filter_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tr = self.tr
        box = lay_out(QHBoxLayout(self), spacing=_GAP_PX)
        self._labels: list[Label] = []
        self.filter = QPushButton(tr("Show only this range"), self)
        set_tip(
            self.filter,
            tr("Show only spans that touch the marked bytes, in every view (Enter)"),
        )
        self.filter.setFont(words_font(12))
        self.filter.setMinimumHeight(scaled(24))
        self.filter.clicked.connect(self.filter_asked)
        self.filter.hide()
        box.addWidget(self.filter)
        self.rows = self._combo(
            box, tr("rows"), tr("What each row of the heatmap is"),
            ((tr("token"), "token"), (tr("pass"), "pass"), (tr("time"), "time"),
             (tr("layer"), "layer")),
        )  # fmt: skip
        self.axis = self._combo(
            box, tr("x"), tr("What lies along x"),
            ((tr("offset"), "offset"), (tr("equal width"), "equal")),
        )  # fmt: skip
        self.shows = self._combo(
            box, tr("show"), tr("What the colours stand for"),
            ((tr("bytes"), "bytes"), (tr("accesses"), "count")),
        )  # fmt: skip
        self.scale = self._combo(
            box, "", tr("Scale of the colours"),
            ((tr("log"), ScaleKind.LOG), (tr("linear"), ScaleKind.LINEAR),
             (tr("percentile"), ScaleKind.PERCENTILE)),
        )  # fmt: skip
        self.colors = self._combo(
            box, "", tr("Colour map"), tuple((name, name) for name in NAMES)
        )
        box.addStretch(1)

    def _combo(
        self,
        box: QHBoxLayout,
        words: str,
        tip: str,
        choices: tuple[tuple[str, Any], ...],
    ) -> QComboBox:
        combo = combo_box(self, tip, choices)
        if words:
            label = Label(words, self)
            label.setFont(words_font(12))
            label.setBuddy(combo)
            self._labels.append(label)
            box.addWidget(label)
        box.addWidget(combo)
        combo.currentIndexChanged.connect(self._on_changed)
        return combo

    @property
    def look(self) -> HeatLook:
        """What is chosen now."""
        return HeatLook(
            self.rows.currentData(), self.axis.currentData(),
            self.shows.currentData(), self.scale.currentData(),
            self.colors.currentData(),
        )  # fmt: skip

    def show_rows(self, rows: RowKind) -> None:
        """Show what the rows are, without telling anybody."""
        with QSignalBlocker(self.rows):
            self.rows.setCurrentIndex(max(self.rows.findData(rows), 0))

    def show_filter(self, *, is_shown: bool) -> None:
        """Offer to filter, where something is marked."""
        self.filter.setVisible(is_shown)
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what has no room; the context menu has all of it."""
        super().resizeEvent(event)
        self._make_room()

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the choice of the rows."""
        return QSize(self.rows.sizeHint().width(), super().minimumSizeHint().height())

    def _make_room(self) -> None:
        gap = _GAP_PX
        room = self.width() - (
            0 if self.filter.isHidden() else self.filter.sizeHint().width() + gap
        )
        combos = (self.rows, self.axis, self.shows, self.scale, self.colors)
        boxes = [combo.sizeHint().width() + gap for combo in combos]
        labels = sum(label.sizeHint().width() + gap for label in self._labels)
        for label in self._labels:
            label.setVisible(sum(boxes) + labels <= room)
        for i, combo in enumerate(combos):
            combo.setVisible(i == 0 or sum(boxes[: i + 1]) <= room)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        for label in self._labels:
            set_label_color(label, theme.dim)

    def _on_changed(self, _: int) -> None:
        self.look_changed.emit(self.look)
