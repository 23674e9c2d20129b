"""The dialog that says which of several runs are side A and which are side B."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.descriptions.runs import (
    SIDES,
    Side,
    proposed_sides,
    run_differences,
    run_name,
)
from ggscope.gui.dialogs.fitted import Dialog, scrolled
from ggscope.gui.widgets import button, label
from ggscope.model.units import format_counted
from ggscope.readers.discovery import MAX_RUNS
from ggscope.run_summaries import RunSummary
from ggscope.views.base.safe_text import ElidedLabel, set_tip, set_title
from ggscope.views.base.widgets import combo_box

_MIN_WIDTH_PX = 460
_TITLES: dict[Side, str] = {"A": "A", "B": "B", "": "left out"}
_ABOUT = (
    "Differences are B minus A. Changes within the spread of the runs of a side count "
    "as noise."
)


class SidesDialog(Dialog):
    """Lists runs, each with its side; a proposal is chosen to begin with.

    Signals
    -------
    chosen(a, b) : paths of the runs of each side, from top to bottom.

    Parameters
    ----------
    folder : below which the runs are.
    """

    chosen = Signal(object, object)

    def __init__(
        self, folder: Path, runs: Sequence[RunSummary], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._runs = tuple(runs)
        self.boxes: list[QComboBox] = []
        """The side of each run."""
        set_title(self, "Compare as sides")
        self.setAccessibleName("Compare as sides")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumWidth(_MIN_WIDTH_PX)
        grid = QGridLayout()
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(0, 1)
        sides = proposed_sides(folder, self._runs)
        rows = zip(self._runs, sides, run_differences(self._runs), strict=True)
        for row, (run, side, differs) in enumerate(rows):
            name = run_name(folder, run)
            grid.addWidget(ElidedLabel(self, name), row, 0)
            grid.addWidget(label(differs, self, "dim"), row, 1)
            grid.addWidget(self._side_box(name, run, side), row, 2)
        grid.setRowStretch(len(self._runs), 1)
        self.state = label("", self, "dim", wraps=True)
        self.state.setObjectName("sides_state")
        self.swap_button = button(
            "Swap A and B", self._swap, self, tip="Make A of B, and B of A"
        )
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel, self)
        self.compare_button = button("Compare", self.accept, self, primary=True)
        self.compare_button.setAutoDefault(True)
        self.buttons.addButton(
            self.compare_button, QDialogButtonBox.ButtonRole.AcceptRole
        )
        self.buttons.rejected.connect(self.reject)
        below = QHBoxLayout()
        below.addWidget(self.swap_button)
        below.addStretch(1)
        below.addWidget(self.buttons)
        box = QVBoxLayout(self)
        box.setContentsMargins(20, 20, 20, 16)
        box.setSpacing(12)
        box.addWidget(label(_ABOUT, self, "dim", wraps=True))
        box.addWidget(scrolled(grid, self), 1)
        box.addWidget(self.state)
        box.addLayout(below)
        self._refresh()

    def _side_box(self, name: str, run: RunSummary, side: Side) -> QComboBox:
        choices = [(_TITLES[key], key) for key in SIDES]
        box = combo_box(self, f"Side of {name}", choices)
        box.setCurrentIndex(SIDES.index(side))
        if run.error:
            box.setEnabled(False)
            set_tip(box, run.error)
        box.currentIndexChanged.connect(self._refresh)
        self.boxes.append(box)
        return box

    def side(self, name: Side) -> tuple[Path, ...]:
        """Return the runs of a side, from top to bottom."""
        pairs = zip(self._runs, self.boxes, strict=True)
        return tuple(run.path for run, box in pairs if box.currentData() == name)

    def accept(self) -> None:
        """Close, and say what was chosen."""
        a, b = self.side("A"), self.side("B")
        super().accept()
        self.chosen.emit(a, b)

    def _swap(self) -> None:
        others: dict[object, Side] = {"A": "B", "B": "A", "": ""}
        for box in self.boxes:
            box.setCurrentIndex(SIDES.index(others[box.currentData()]))

    def _refresh(self, _: object = None) -> None:
        """Say how many runs each side has, and whether they can be compared."""
        counts = [len(self.side(name)) for name in ("A", "B")]
        texts = map(partial(format_counted, noun="run"), counts)
        text = " · ".join(f"{n}: {c}" for n, c in zip("AB", texts, strict=True))
        is_possible = min(counts) > 0 and max(counts) <= MAX_RUNS
        if not min(counts):
            text += " · choose at least one run for each side"
        elif max(counts) > MAX_RUNS:
            text += f" · at most {MAX_RUNS} runs of a side are compared"
        self.state.setText(text)
        self.compare_button.setEnabled(is_possible)
        self.swap_button.setEnabled(max(counts) > 0)
