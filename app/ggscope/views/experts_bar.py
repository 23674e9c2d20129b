"""The line above the pictures of experts: figures, and what is to be shown."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QGridLayout, QHBoxLayout, QWidget

from ggscope.analysis.expert_pictures import Beside
from ggscope.render.colormap import ScaleKind
from ggscope.render.compose_experts import Measure
from ggscope.render.theme import Theme
from ggscope.views.elided import ElidedLabel
from ggscope.views.guard import guarded
from ggscope.views.plain import set_tip
from ggscope.views.widgets import scaled, set_label_color, words_font

_ABOUT_PX = 420
"""The figures go to a line of their own if they get less room, or need more."""


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
        tr = self.tr
        self.about = ElidedLabel(self)
        self.about.setFont(words_font(12))
        self._tail = QWidget(self)
        self.measure = self._combo(
            tr("What the cells show"),
            ((tr("counts"), Measure.COUNT), (tr("bytes"), Measure.BYTES),
             (tr("share of layer"), Measure.SHARE)),
        )  # fmt: skip
        self.kind = self._combo(
            tr("Scale of the colours"),
            ((tr("linear"), ScaleKind.LINEAR), (tr("log"), ScaleKind.LOG),
             (tr("percentile"), ScaleKind.PERCENTILE)),
        )  # fmt: skip
        self.token = self._combo(tr("Token"), ((tr("all tokens"), None),))
        self.beside = self._combo(
            tr("Second picture"),
            ((tr("overlap over tokens"), Beside.OVERLAP),
             (tr("from token to token"), Beside.TRANSITION),
             (tr("working together"), Beside.TOGETHER),
             (tr("scores by rank"), Beside.SCORES),
             (tr("coverage"), Beside.COVER)),
        )  # fmt: skip
        self.layer = self._combo(
            tr("Layer of the second picture"), ((tr("all layers"), None),)
        )
        tail = QHBoxLayout(self._tail)
        tail.setContentsMargins(0, 0, 0, 0)
        tail.setSpacing(6)
        for combo in (self.measure, self.kind, self.token, self.beside, self.layer):
            tail.addWidget(combo)
        tail.addStretch(1)
        for combo in (self.measure, self.kind):
            combo.currentIndexChanged.connect(self._on_drawn)
        for combo in (self.token, self.beside, self.layer):
            combo.currentIndexChanged.connect(self._on_changed)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(12, 4, 8, 2)
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnStretch(0, 1)
        self._n_lines = 0
        self._arrange()

    def _combo(self, name: str, entries: Sequence[tuple[str, object]]) -> QComboBox:
        combo = QComboBox(self._tail)
        combo.setAccessibleName(name)
        set_tip(combo, name)
        combo.setFont(words_font(12))
        combo.setMinimumHeight(scaled(24))
        # Thousands of tokens must not make every showing slow.
        combo.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        longest = max(len(text) for text, _ in entries)
        combo.setMinimumContentsLength(round(longest * 0.75))
        for text, value in entries:
            combo.addItem(text, value)
        return combo

    def set_rows(self, tokens: Sequence[int], layers: Sequence[int]) -> None:
        """Offer these tokens and layers; what was chosen stays where it can."""
        of_token, of_layer = self.tr("token {0}"), self.tr("layer {0}")
        for combo, first, words, numbers in (
            (self.token, self.tr("all tokens"), of_token, tokens),
            (self.layer, self.tr("all layers"), of_layer, layers),
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
        self.about.setText(words)
        self._arrange()
        set_tip(self.about, tip)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.about, theme.dim)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Take two lines where one has no room."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        margins = self._grid.contentsMargins()
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

    def _on_changed(self, _: int) -> None:
        self.changed.emit()

    def _on_drawn(self, _: int) -> None:
        self.drawn_changed.emit()


__all__ = ["ExpertsBar"]
