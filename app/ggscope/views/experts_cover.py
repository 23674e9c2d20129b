"""Which experts to pin: the fewest per layer that cover a wanted share."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSlider, QVBoxLayout, QWidget

from ggscope.analysis.expert_figures import Cover
from ggscope.analysis.expert_pictures import ExpertsResult
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_exact_bytes,
    format_share,
)
from ggscope.render.theme import Theme
from ggscope.views.elided import ElidedLabel
from ggscope.views.guard import guarded
from ggscope.views.plain import Label, set_tip
from ggscope.views.text_table import Cell, Heading, TextTable, TextTableModel
from ggscope.views.widgets import scaled, set_label_color, words_font

_WANTED = 90


@guarded
class CoverPanel(QWidget):
    """A slider for the wanted share and a table with a line per layer."""

    wanted_changed = Signal()
    layer_opened = Signal(object)  # Cover

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tr = self.tr
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(1, 100)
        self.slider.setValue(_WANTED)
        self.slider.setPageStep(5)
        self.slider.setAccessibleName(tr("Wanted share of the choices, per cent"))
        set_tip(self.slider, tr("Wanted share of the choices of each layer"))
        self.slider.setMinimumHeight(scaled(24))
        self.slider.setMaximumWidth(scaled(220))
        self.slider.valueChanged.connect(self._on_moved)
        self._label = Label(parent=self)
        self.summary = ElidedLabel(self)
        for label in (self._label, self.summary):
            label.setFont(words_font(12))
        self.model = TextTableModel(
            (
                Heading(tr("layer"), tr("Layer"), 60, right=True),
                Heading(tr("pin"), tr("Fewest experts that reach it"), 76, right=True),
                Heading(tr("reached"), tr("Share that they cover"), 76, right=True),
                Heading(tr("size"), tr("Bytes of their slices"), 88, right=True,
                        copied="size (bytes)"),
                Heading(tr("experts"), tr("The hottest first"), 200, stretch=True),
            ),
            self,
        )  # fmt: skip
        self.table = TextTable(self.model, self)
        self.table.setAccessibleName(tr("Experts to pin in each layer"))
        self.table.row_opened.connect(self._on_opened)
        head = QHBoxLayout()
        head.setContentsMargins(8, 4, 8, 4)
        head.setSpacing(8)
        head.addWidget(self._label)
        head.addWidget(self.slider)
        head.addWidget(self.summary, 1)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(head)
        box.addWidget(self.table, 1)
        self._say_wanted()

    @property
    def wanted(self) -> float:
        """The wanted share, 0.01 to 1."""
        return self.slider.value() / 100

    def show_result(self, result: ExpertsResult) -> None:
        """Show what to pin."""
        n_experts = result.base.choices.n_experts
        rows = [self._cells(cover, n_experts) for cover in result.covers]
        self.model.set_rows(rows, payloads=result.covers)
        self.table.fit_columns()
        n = sum(len(cover.experts) for cover in result.covers)
        words = self.tr("pin {0} of {1} slots")
        text = words.format(format_count(n), format_count(result.figures.n_slots))
        sizes = [cover.bytes for cover in result.covers]
        if sizes and min(sizes) >= 0:
            text += f" · {format_bytes(sum(sizes))}"
            whole = sum(cover.all_bytes for cover in result.covers)
            if min(cover.all_bytes for cover in result.covers) >= 0 and whole:
                of_all = self.tr("{0} of all experts")
                text += f" ({of_all.format(format_share(sum(sizes) / whole))})"
        self.summary.setText(text)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.table.set_theme(theme)
        for label in (self._label, self.summary):
            set_label_color(label, theme.dim)

    def _cells(self, cover: Cover, n_experts: int) -> tuple[Cell, ...]:
        n, experts = len(cover.experts), ", ".join(map(str, cover.experts))
        tip = self.tr("pin {0} of {1} experts in layer {2} for {3} of its choices")
        said = tip.format(n, n_experts, cover.layer, format_share(cover.share))
        counts = f"{format_count(cover.count)} / {format_count(cover.total)}"
        size = cover.bytes
        return (
            Cell(str(cover.layer), cover.layer),
            Cell(f"{n} / {n_experts}", n, n, said),
            Cell(format_share(cover.share), cover.share, f"{cover.share:.6f}", counts),
            Cell(NOT_AVAILABLE, None, "")
            if size < 0
            else Cell(format_bytes(size), size, size, format_exact_bytes(size)),
            Cell(experts, n, tip=f"{said}\n{experts}"),
        )

    def _on_moved(self, _: int) -> None:
        self._say_wanted()
        self.wanted_changed.emit()

    def _say_wanted(self) -> None:
        self._label.setText(self.tr("for {0} % of choices").format(self.slider.value()))

    def _on_opened(self, row: int) -> None:
        self.layer_opened.emit(self.model.payload(row))


__all__ = ["CoverPanel"]
