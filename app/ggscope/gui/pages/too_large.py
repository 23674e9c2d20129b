"""What a tab shows instead of a file that would not fit into memory.

Words for which part of a file is shown.
"""

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QWidget,
)

from ggscope.gui.pages.load import centred_card
from ggscope.gui.widgets import button, label, set_property
from ggscope.model.units import format_bytes, format_count
from ggscope.readers.memory import Fit
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION, parse_range
from ggscope.views.base.safe_text import set_tip

_CARD_WIDTH = 660
_NAMES = (("all", "of all records"), ("sampled", "of a sample"), ("none", "none"))


class TooLargePage(QWidget):
    """The figures of a file that is too large, and what can be done about it.

    Signals
    -------
    read_requested(dict) : read it with these options, whatever it needs.
    close_requested : leave it alone.
    """

    read_requested = Signal(object)
    close_requested = Signal()

    def __init__(self, path: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._fit: Fit | None = None
        self.setAccessibleName("This file may not fit into memory")
        self.head = label("", self, "large", wraps=True)
        self.text = label("", self, "dim", wraps=True)
        self.figures = [label("", self) for _ in range(4)]
        self.records = QLineEdit(self)
        self.records.setAccessibleName("Records to read, first : stop")
        set_tip(
            self.records,
            "FIRST:STOP as numbers or per cent, e.g. 0:1000000 or 50%:60%",
        )
        self.records.setProperty("mono", True)
        self.records.textChanged.connect(self._show_need)
        self.records.returnPressed.connect(self._on_read)
        self.first_button = button("First part", self._on_first, self)
        self.last_button = button("Last part", self._on_last, self)
        self.names = QComboBox(self)
        self.names.setAccessibleName("Names to read")
        for key, text in _NAMES:
            self.names.addItem(text, key)
        self.names.currentIndexChanged.connect(self._show_need)
        self.need = label("", self, wraps=True)
        self.read_button = button("Read this part", self._on_read, self, primary=True)
        self.all_button = button("Read all anyway", self._on_all, self)
        self.close_button = button(
            "Cancel",
            self.close_requested.emit,
            self,
            tip="Close the tab without reading",
        )
        self._lay_out()

    def show_fit(self, fit: Fit) -> None:
        """Show the figures, and offer what fits."""
        self._fit = fit
        can_range, can_sample = (fit.estimate.can_range, fit.estimate.can_sample_names)
        name = self._path.name
        self.head.setText(f"{name} may not fit into memory")
        advice = "Nothing has been read yet."
        if can_range or can_sample:
            advice += " " + "Choose how much of it to read."
        self.text.setText(advice)
        for figure, text in zip(self.figures, self._values(fit), strict=True):
            figure.setText(text)
        for part in self._range_row:
            part.setVisible(can_range)
        for part in self._names_row:
            part.setVisible(can_sample)
        self.need.setVisible(can_range or can_sample)
        self.read_button.setVisible(can_range or can_sample)
        self.records.setText(f"0:{fit.n_fitting}" if can_range else "")
        self.names.setCurrentIndex(0)
        self._show_need()
        self.setFocusProxy(self.records if can_range else self.close_button)

    def options(self) -> dict[str, str]:
        """Return the reader options that the fields stand for; {} = everything."""
        chosen = {}
        fit = self._fit
        if fit is not None and fit.estimate.can_range and self.records.text().strip():
            chosen[RANGE_OPTION] = self.records.text().strip()
        names = str(self.names.currentData())
        if fit is not None and fit.estimate.can_sample_names and names != "all":
            chosen[NAMES_OPTION] = names
        return chosen

    def _values(self, fit: Fit) -> tuple[str, str, str, str]:
        try:
            size = format_bytes(self._path.stat().st_size)
        except OSError:
            size = "–"
        return (
            size,
            f"about {format_count(fit.estimate.records)}",
            f"about {format_bytes(fit.estimate.records * fit.bytes_per_record)}",
            format_bytes(fit.available_bytes),
        )

    def _n_chosen(self) -> int:
        """Return how many records the field names. Raises ValueError."""
        assert self._fit is not None
        text = self.options().get(RANGE_OPTION)
        if text is None:
            return self._fit.estimate.records
        first, stop = parse_range(text, self._fit.estimate.records)
        return stop - first

    def _show_need(self, _: object = None) -> None:
        """Say what the present choice needs."""
        fit = self._fit
        if fit is None:
            return
        try:
            n = self._n_chosen()
        except ValueError as error:
            self.need.setText(f"{error}.")
            self._set_level("error")
            self.read_button.setEnabled(False)
            return
        needed = n * fit.bytes_per_record
        text = "{0} records need about {1} of {2}."
        if self.options().get(NAMES_OPTION):
            text = "{0} records need less than {1} of {2}."
        self.need.setText(
            text.format(
                format_count(n), format_bytes(needed), format_bytes(fit.available_bytes)
            )
        )
        self._set_level("" if needed <= fit.available_bytes else "caution")
        self.read_button.setEnabled(True)

    def _set_level(self, level: str) -> None:
        set_property(self.need, "role", level or "dim")

    def _part(self, first: int, stop: int) -> None:
        self.records.setText(f"{first}:{stop}")
        self.records.setFocus()

    def _on_first(self) -> None:
        if self._fit is not None:
            self._part(0, self._fit.n_fitting)

    def _on_last(self) -> None:
        if self._fit is not None:
            n = self._fit.estimate.records
            self._part(n - self._fit.n_fitting, n)

    def _on_read(self) -> None:
        if self.read_button.isEnabled():
            self.read_requested.emit(self.options())

    def _on_all(self) -> None:
        self.read_requested.emit({})

    def _lay_out(self) -> None:
        card, inner = centred_card(self, _CARD_WIDTH)
        inner.addWidget(self.head)
        inner.addWidget(self.text)
        inner.addLayout(self._figure_rows(card))
        inner.addLayout(self._choice_rows(card))
        inner.addWidget(self.need)
        row = QHBoxLayout()
        row.setContentsMargins(0, 10, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.read_button)
        row.addWidget(self.all_button)
        row.addStretch(1)
        row.addWidget(self.close_button)
        inner.addLayout(row)

    def _figure_rows(self, card: QWidget) -> QGridLayout:
        grid = QGridLayout()
        grid.setContentsMargins(0, 6, 0, 6)
        grid.setHorizontalSpacing(20)
        names = (
            "File",
            "Records",
            "Needs",
            "Available",
        )
        for row, (name, figure) in enumerate(zip(names, self.figures, strict=True)):
            grid.addWidget(label(name, card, "dim"), row, 0)
            grid.addWidget(figure, row, 1)
        grid.setColumnStretch(1, 1)
        return grid

    def _choice_rows(self, card: QWidget) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        records, names = (
            label("Read records", card),
            label("Read names", card),
        )
        records.setBuddy(self.records)
        names.setBuddy(self.names)
        self._range_row: tuple[QWidget, ...] = (
            records,
            self.records,
            self.first_button,
            self.last_button,
        )
        self._names_row: tuple[QWidget, ...] = (names, self.names)
        for column, part in enumerate(self._range_row):
            grid.addWidget(part, 0, column)
        grid.addWidget(names, 1, 0)
        grid.addWidget(self.names, 1, 1)
        grid.setColumnStretch(1, 1)
        return grid


def part_text(options: Mapping[str, str], n_records: int) -> str:
    """Return which records were asked for, as "records 0–10 M of 33.5 M"; "" = all.

    Parameters
    ----------
    options : reader options.
    n_records : of the whole file, about; 0 = not known.
    """
    # Not before the first window; by now the worker has imported it.
    from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION, parse_range

    parts = []
    text, end_record = options.get(RANGE_OPTION, ""), 1 << 62
    if text:
        try:
            first, stop = parse_range(text, n_records or end_record)
            is_all = parse_range(text, end_record) == (0, end_record)
        except ValueError:
            parts.append(f"records {text}")
        else:
            low, high, total = map(short_count, (first, stop, n_records))
            form = "records {0}–{1} of {2}" if n_records else "records {0}–{1}"
            parts += [] if is_all else [form.format(low, high, total)]
    names = options.get(NAMES_OPTION, "all")
    if names == "sampled":
        parts.append("names of a sample")
    elif names == "none":
        parts.append("no names")
    return ", ".join(parts)


def short_count(n: int) -> str:
    """Return a count in three digits: ``842``, ``9.5 M``, ``33.5 M``."""
    for unit, sign in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if n >= unit:
            value = n / unit
            return f"{value:.3g} {sign}" if value < 999.5 else f"{value:.0f} {sign}"
    return str(n)
