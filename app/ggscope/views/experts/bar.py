"""The header of the experts view with its choices, and the panel of what to pin."""

from collections.abc import Collection, Sequence

import numpy as np
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QSlider,
    QStyle,
    QStyleOptionComboBox,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.experts.experts import Choices, ExpertSource
from ggscope.analysis.experts.figures import Beside, Cover, ExpertsResult
from ggscope.model.tables import Phase
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact_bytes,
    format_share,
)
from ggscope.render.colors import ScaleKind
from ggscope.render.experts import Measure
from ggscope.render.theme import Theme
from ggscope.views.base.safe_text import ElidedLabel, Label, set_tip
from ggscope.views.base.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    combo_box,
    lay_out,
    scaled,
    set_label_color,
    ui_font,
)

_ABOUT_PX = 420
"""The summary gets a line of its own if it has less width, or needs more."""
_GAP_PX, _MIN_PX = 6, 120
_DEFAULT_SHARE = 90


@guarded
class ExpertsBar(QWidget):
    """The summary, and the choice of measure, token and second chart.

    Attributes
    ----------
    about : the summary.
    measure, kind, phase, token, beside, layer : choices; `token` and `layer` hold
        rows, None = all.
    """

    changed = Signal()
    phase_changed = Signal()
    drawn_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.about = ElidedLabel(self)
        self.about.setFont(ui_font(12))
        self._tail = QWidget(self)
        self.measure = self._combo(
            "Value of the cells",
            (("counts", Measure.COUNT), ("bytes", Measure.BYTES),
             ("share of layer", Measure.SHARE)),
        )  # fmt: skip
        self.kind = self._combo(
            "Colour scale",
            (("linear", ScaleKind.LINEAR), ("log", ScaleKind.LOG),
             ("percentile", ScaleKind.PERCENTILE)),
        )  # fmt: skip
        self.phase = self._combo(
            "Phase",
            (("all phases", None), ("prompt", Phase.PROMPT),
             ("generation", Phase.GENERATE)),
        )  # fmt: skip
        self.phase.hide()
        self.token = self._combo("Token", (("all tokens", None),))
        self.beside = self._combo(
            "Second chart",
            (("token overlap", Beside.OVERLAP),
             ("transitions", Beside.TRANSITION),
             ("co-activation", Beside.TOGETHER),
             ("scores by rank", Beside.SCORES),
             ("coverage", Beside.COVER)),
        )  # fmt: skip
        self.layer = self._combo("Layer of the second chart", (("all layers", None),))
        first = (self.measure, self.kind, self.phase, self.token)
        self._combos = (*first, self.beside, self.layer)
        self._rows = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._tail)
        parts = [
            lay_out(QHBoxLayout(), *combos, spacing=_GAP_PX)
            for combos in (first, self._combos[len(first) :])
        ]
        lay_out(self._rows, *parts, None, spacing=_GAP_PX)
        for part in parts:  # as wide as their choices, one above the other too
            self._rows.setAlignment(part, Qt.AlignmentFlag.AlignLeft)
        for combo in self._combos:
            combo.currentIndexChanged.connect(self._arrange)
        for combo in (self.measure, self.kind):
            combo.currentIndexChanged.connect(self.drawn_changed)
        for combo in (self.token, self.beside, self.layer):
            combo.currentIndexChanged.connect(self.changed)
        self.phase.currentIndexChanged.connect(self.phase_changed)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 4, 8, 2)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._n_lines = 0
        self._arrange()

    def _combo(self, name: str, entries: Sequence[tuple[str, object]]) -> QComboBox:
        combo = combo_box(self._tail, name, entries)
        # Thousands of tokens must not make every showing slow.
        combo.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        longest = max(len(text) for text, _ in entries)
        combo.setMinimumContentsLength(round(longest * 0.75))
        return combo

    def offer_phases(self, phases: Collection[int]) -> None:
        """Offer the choice of a phase where there are several; else choose all."""
        if len(phases) < 2:
            self.phase.blockSignals(True)
            self.phase.setCurrentIndex(0)
            self.phase.blockSignals(False)
        self.phase.setVisible(len(phases) > 1)
        self._arrange()

    def set_rows(
        self, tokens: Sequence[int], layers: Sequence[int], noun: str = "token"
    ) -> None:
        """List these tokens and layers; keep the choice if it is still listed."""
        for combo, first, unit, numbers in (
            (self.token, "all tokens", noun, tokens),
            (self.layer, "all layers", "layer", layers),
        ):
            texts = [first, *(f"{unit} {n}" for n in numbers)]
            if [combo.itemText(i) for i in range(combo.count())] == texts:
                continue
            chosen = combo.currentText()
            combo.blockSignals(True)
            combo.clear()
            combo.addItem(first, None)
            combo.addItems(texts[1:])
            for row in range(len(numbers)):
                combo.setItemData(row + 1, row)
            combo.setCurrentIndex(max(combo.findText(chosen), 0))
            combo.blockSignals(False)

    def set_summary(self, text: str, tip: str = "") -> None:
        """Show the summary, on a line of its own if it needs one."""
        self.about.tip = tip
        self.about.setText(text)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.about, theme.dim)

    def minimumSizeHint(self) -> QSize:
        """Return a small width: in a narrow pane the choices take several lines."""
        return QSize(scaled(_MIN_PX), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the parts for another width."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self, _: int = 0) -> None:
        margins = self._grid.contentsMargins()
        for combo in self._combos:
            combo.setMinimumWidth(_width_of_choice(combo))
        shown = [combo for combo in self._combos if not combo.isHidden()]
        min_width = sum(combo.minimumWidth() + _GAP_PX for combo in shown) - _GAP_PX
        is_narrow = self.width() - margins.left() - margins.right() < min_width
        self._rows.setDirection(
            QBoxLayout.Direction.TopToBottom
            if is_narrow
            else QBoxLayout.Direction.LeftToRight
        )
        needed = self._tail.sizeHint().width() + self._grid.horizontalSpacing()
        needed += max(self.about.sizeHint().width(), scaled(_ABOUT_PX))
        needed += margins.left() + margins.right()
        n_lines = 1 if self.width() >= needed else 2
        if n_lines == self._n_lines:
            return
        self._n_lines = n_lines
        for widget in (self.about, self._tail):
            self._grid.removeWidget(widget)
        if n_lines == 1:
            self._grid.addWidget(self.about, 0, 0)
            self._grid.addWidget(self._tail, 0, 1)
        else:
            self._grid.addWidget(self.about, 0, 0, 1, 2)
            self._grid.addWidget(self._tail, 1, 0, 1, 2)


def _width_of_choice(combo: QComboBox) -> int:
    """Return the width of a combo box that shows its choice in full."""
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    size = combo.fontMetrics().size(0, combo.currentText())
    kind = QStyle.ContentsType.CT_ComboBox
    return combo.style().sizeFromContents(kind, option, size, combo).width()


@guarded
class CoverPanel(QWidget):
    """A slider for the share to cover, and a table with a row per layer."""

    share_changed = Signal()
    layer_opened = Signal(object)  # Cover

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(1, 100)
        self.slider.setValue(_DEFAULT_SHARE)
        self.slider.setPageStep(5)
        self.slider.setAccessibleName("Share to cover, in percent")
        set_tip(self.slider, "Share to cover in each layer")
        self.slider.setMinimumHeight(scaled(24))
        self.slider.setMaximumWidth(scaled(220))
        self.slider.valueChanged.connect(self._on_moved)
        self._unit = "choices"
        self._label = Label(parent=self)
        self.summary = ElidedLabel(self)
        for label in (self._label, self.summary):
            label.setFont(ui_font(12))
        self.model = TextTableModel(
            (
                Heading("layer", "Layer", 60, right=True),
                Heading("pin", "Minimum number of experts", 76, right=True),
                Heading("reached", "Share covered", 76, right=True),
                Heading("size", "Bytes of their weights", 88, right=True,
                        copied="size (bytes)", largest_first=True),
                Heading("choices", "Of all experts of the layer", 80, right=True,
                        largest_first=True),
                Heading("never", "Experts that were never chosen", 120,
                        largest_first=True),
                Heading("experts", "Most used first", 200, stretch=True),
            ),
            self,
        )  # fmt: skip
        self.table = TextTable(self.model, self, "experts")
        self.table.setAccessibleName("Experts to pin in each layer")
        self.table.row_opened.connect(self._on_opened)
        head = lay_out(
            QHBoxLayout(),
            self._label,
            self.slider,
            self.summary,
            margins=(8, 4, 8, 4),
            spacing=8,
            wide=self.summary,
        )
        lay_out(QVBoxLayout(self), head, self.table, wide=self.table)
        self._show_share()

    @property
    def share(self) -> float:
        """The share to cover, 0.01 to 1."""
        return self.slider.value() / 100

    def show_result(self, result: ExpertsResult) -> None:
        """Show what to pin."""
        choices, more = result.base.choices, result.grid.more
        n_experts = choices.n_experts
        units = [self._counted(choices, is_open=n != 0) for n in more.tolist()]
        rows = [
            self._cells(cover, n_experts, unit, _counts(result, row))
            for row, (cover, unit) in enumerate(zip(result.covers, units, strict=False))
        ]
        self._unit = self._counted(choices, is_open=bool(more.any()))
        self._show_share()
        self.model.set_rows(rows, payloads=result.covers)
        self.table.fit_columns()
        n = sum(len(cover.experts) for cover in result.covers)
        text = f"pin {format_count(n)} of {format_count(result.figures.n_slots)} slots"
        sizes = [cover.bytes for cover in result.covers]
        if sizes and min(sizes) >= 0:
            text += f" · {format_bytes(sum(sizes))}"
            whole = sum(cover.all_bytes for cover in result.covers)
            if min(cover.all_bytes for cover in result.covers) >= 0 and whole:
                text += f" ({format_share(sum(sizes) / whole)} of all experts)"
        self.summary.setText(text)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.table.set_theme(theme)
        for label in (self._label, self.summary):
            set_label_color(label, theme.dim)

    def _counted(self, choices: Choices, *, is_open: bool) -> str:
        """Return what the shares count; open lists hold only some of the choices."""
        if choices.source is ExpertSource.ACCESSES:
            return "accesses"
        return "recorded choices" if is_open else "choices"

    def _cells(
        self, cover: Cover, n_experts: int, unit: str, counts_cells: tuple[Cell, Cell]
    ) -> tuple[Cell, ...]:
        n, experts = len(cover.experts), ", ".join(map(str, cover.experts))
        tip = "pin {0} of {1} experts in layer {2} for {3} of its {4}"
        tip = tip.format(n, n_experts, cover.layer, format_share(cover.share), unit)
        counts = f"{format_count(cover.count)} / {format_count(cover.total)}"
        size = cover.bytes
        return (
            Cell(str(cover.layer), cover.layer),
            Cell(f"{n} / {n_experts}", n, n, tip),
            Cell(format_share(cover.share), cover.share, round(cover.share, 6), counts),
            Cell(NOT_AVAILABLE, None, "")
            if size < 0
            else Cell(format_bytes(size), size, size, format_exact_bytes(size)),
            *counts_cells,
            Cell(experts, n, tip=f"{tip}\n{experts}"),
        )

    def _on_moved(self, _: int) -> None:
        self._show_share()
        self.share_changed.emit()

    def _show_share(self) -> None:
        text = f"for {self.slider.value()} % of {self._unit}"
        self._label.setText(text)

    def _on_opened(self, row: int) -> None:
        self.layer_opened.emit(self.model.payload(row))


def _counts(result: ExpertsResult, row: int) -> tuple[Cell, Cell]:
    """Return the choices of a layer, and which of its experts none is of."""
    count, more = result.grid.count[row], int(result.grid.more[row])
    total = int(count.sum())
    choices = Cell(format_count(total), total, total)
    if more:  # of lists that are not whole nobody knows who is missing
        return choices, Cell(NOT_AVAILABLE, None, "")
    never = np.flatnonzero(count == 0).tolist()
    names = ", ".join(map(str, never))
    text = f"{len(never)}: {names}" if never else "0"
    return choices, Cell(text, len(never), names, tip=text)
