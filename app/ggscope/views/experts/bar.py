"""What stands around the pictures of experts: the line above, and what to pin."""

from collections.abc import Sequence

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
    words_font,
)

_ABOUT_PX = 420
"""The figures go to a line of their own if they get less room, or need more."""
_GAP_PX, _LEAST_PX = 6, 120
_WANTED = 90


@guarded
class ExpertsBar(QWidget):
    """Says the figures; offers what cells mean, the token, and the second picture.

    Attributes
    ----------
    about : the figures in words.
    measure, kind, token, beside, layer : choices; `token` and `layer` hold rows,
        None = all.
    """

    changed = Signal()
    drawn_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.about = ElidedLabel(self)
        self.about.setFont(words_font(12))
        self._tail = QWidget(self)
        self.measure = self._combo(
            "What the cells show",
            (("counts", Measure.COUNT), ("bytes", Measure.BYTES),
             ("share of layer", Measure.SHARE)),
        )  # fmt: skip
        self.kind = self._combo(
            "Scale of the colours",
            (("linear", ScaleKind.LINEAR), ("log", ScaleKind.LOG),
             ("percentile", ScaleKind.PERCENTILE)),
        )  # fmt: skip
        self.token = self._combo("Token", (("all tokens", None),))
        self.beside = self._combo(
            "Second picture",
            (("token overlap", Beside.OVERLAP),
             ("transitions", Beside.TRANSITION),
             ("co-activation", Beside.TOGETHER),
             ("scores by rank", Beside.SCORES),
             ("coverage", Beside.COVER)),
        )  # fmt: skip
        self.layer = self._combo("Layer of the second picture", (("all layers", None),))
        self._combos = (self.measure, self.kind, self.token, self.beside, self.layer)
        self._rows = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._tail)
        parts = [
            lay_out(QHBoxLayout(), *combos, spacing=_GAP_PX)
            for combos in (self._combos[:3], self._combos[3:])
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

    def set_rows(
        self, tokens: Sequence[int], layers: Sequence[int], noun: str = "token"
    ) -> None:
        """Offer these tokens and layers; what was chosen stays where it can."""
        of_token, of_layer = f"{noun} {{0}}", "layer {0}"
        for combo, first, words, numbers in (
            (self.token, "all tokens", of_token, tokens),
            (self.layer, "all layers", of_layer, layers),
        ):
            texts = [first, *(words.format(n) for n in numbers)]
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

    def say(self, words: str, tip: str = "") -> None:
        """Show the figures, all of them where a line of their own holds them."""
        self.about.tip = tip
        self.about.setText(words)
        self._arrange()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.about, theme.dim)

    def minimumSizeHint(self) -> QSize:
        """Be as narrow as the pane likes: choices take lines of their own."""
        return QSize(scaled(_LEAST_PX), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take as many lines as all words need."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self, _: int = 0) -> None:
        margins = self._grid.contentsMargins()
        for combo in self._combos:
            combo.setMinimumWidth(_width_of_choice(combo))
        least = sum(combo.minimumWidth() + _GAP_PX for combo in self._combos) - _GAP_PX
        is_narrow = self.width() - margins.left() - margins.right() < least
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
    """Return how wide a combo box has to be for all words of its choice."""
    option = QStyleOptionComboBox()
    combo.initStyleOption(option)
    words = combo.fontMetrics().size(0, combo.currentText())
    kind = QStyle.ContentsType.CT_ComboBox
    return combo.style().sizeFromContents(kind, option, words, combo).width()


@guarded
class CoverPanel(QWidget):
    """A slider for the wanted share and a table with a line per layer."""

    wanted_changed = Signal()
    layer_opened = Signal(object)  # Cover

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setRange(1, 100)
        self.slider.setValue(_WANTED)
        self.slider.setPageStep(5)
        self.slider.setAccessibleName("Wanted share of the choices, per cent")
        set_tip(self.slider, "Wanted share of the choices of each layer")
        self.slider.setMinimumHeight(scaled(24))
        self.slider.setMaximumWidth(scaled(220))
        self.slider.valueChanged.connect(self._on_moved)
        self._unit = "choices"
        self._label = Label(parent=self)
        self.summary = ElidedLabel(self)
        for label in (self._label, self.summary):
            label.setFont(words_font(12))
        self.model = TextTableModel(
            (
                Heading("layer", "Layer", 60, right=True),
                Heading("pin", "Fewest experts that reach it", 76, right=True),
                Heading("reached", "Share that they cover", 76, right=True),
                Heading("size", "Bytes of their slices", 88, right=True,
                        copied="size (bytes)", largest_first=True),
                Heading("experts", "The hottest first", 200, stretch=True),
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
        self._say_wanted()

    @property
    def wanted(self) -> float:
        """The wanted share, 0.01 to 1."""
        return self.slider.value() / 100

    def show_result(self, result: ExpertsResult) -> None:
        """Show what to pin."""
        choices, more = result.base.choices, result.grid.more
        n_experts = choices.n_experts
        units = [self._counted(choices, is_open=n != 0) for n in more.tolist()]
        rows = [
            self._cells(cover, n_experts, unit)
            for cover, unit in zip(result.covers, units, strict=False)
        ]
        self._unit = self._counted(choices, is_open=bool(more.any()))
        self._say_wanted()
        self.model.set_rows(rows, payloads=result.covers)
        self.table.fit_columns()
        n = sum(len(cover.experts) for cover in result.covers)
        words = "pin {0} of {1} slots"
        text = words.format(format_count(n), format_count(result.figures.n_slots))
        sizes = [cover.bytes for cover in result.covers]
        if sizes and min(sizes) >= 0:
            text += f" · {format_bytes(sum(sizes))}"
            whole = sum(cover.all_bytes for cover in result.covers)
            if min(cover.all_bytes for cover in result.covers) >= 0 and whole:
                of_all = "{0} of all experts"
                text += f" ({of_all.format(format_share(sum(sizes) / whole))})"
        self.summary.setText(text)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self.table.set_theme(theme)
        for label in (self._label, self.summary):
            set_label_color(label, theme.dim)

    def _counted(self, choices: Choices, *, is_open: bool) -> str:
        """Return what the shares are of; of open lists nobody knows all choices."""
        if choices.source is ExpertSource.ACCESSES:
            return "accesses"
        return "recorded choices" if is_open else "choices"

    def _cells(self, cover: Cover, n_experts: int, unit: str) -> tuple[Cell, ...]:
        n, experts = len(cover.experts), ", ".join(map(str, cover.experts))
        tip = "pin {0} of {1} experts in layer {2} for {3} of its {4}"
        said = tip.format(n, n_experts, cover.layer, format_share(cover.share), unit)
        counts = f"{format_count(cover.count)} / {format_count(cover.total)}"
        size = cover.bytes
        return (
            Cell(str(cover.layer), cover.layer),
            Cell(f"{n} / {n_experts}", n, n, said),
            Cell(format_share(cover.share), cover.share, round(cover.share, 6), counts),
            Cell(NOT_AVAILABLE, None, "")
            if size < 0
            else Cell(format_bytes(size), size, size, format_exact_bytes(size)),
            Cell(experts, n, tip=f"{said}\n{experts}"),
        )

    def _on_moved(self, _: int) -> None:
        self._say_wanted()
        self.wanted_changed.emit()

    def _say_wanted(self) -> None:
        text = f"for {self.slider.value()} % of {self._unit}"
        self._label.setText(text)

    def _on_opened(self, row: int) -> None:
        self.layer_opened.emit(self.model.payload(row))
