"""The histogram of the durations of an op, a name or a row of statistics."""

import numpy as np
from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.entities.durations import DurationStats
from ggscope.model.units import Unit, format_count, format_duration, format_exact
from ggscope.render.colors import category_color
from ggscope.views.base.safe_text import set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import Themed, mono_font, qcolor, scaled, ui_font


@guarded
class DurationHistogram(Themed):
    """Durations of spans, with the bar of the selected one highlighted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.durations: DurationStats | None = None
        self._ticks = -1
        self._unit: Unit = "ns"
        self._color_key = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(scaled(88))
        self.setAccessibleName("Durations of this op")

    def set_durations(
        self, durations: DurationStats | None, ticks: int, unit: Unit, color_key: str
    ) -> None:
        """Show `durations`, None = pending, and highlight `ticks`; -1 = no bar."""
        self.durations, self._ticks = durations, ticks
        self._unit, self._color_key = unit, color_key
        if durations is not None and durations.timed:
            self.setAccessibleDescription(self.caption())
            set_tip(self, self._tooltip(durations))
        self.update()

    def caption(self) -> str:
        """Return "p50 207 µs · p99 311 µs"."""
        if self.durations is None or not self.durations.timed:
            return ""
        p50 = format_duration(self.durations.p50, self._unit)
        p99 = format_duration(self.durations.p99, self._unit)
        return f"p50 {p50} · p99 {p99}"

    def _tooltip(self, durations: DurationStats) -> str:
        unit = self._unit
        lines = [
            f"shortest: {format_exact(durations.low, unit)}",
            f"longest: {format_exact(durations.high, unit)}",
            f"duration known: {format_count(durations.timed)} "
            f"of {format_count(durations.n)} spans",
        ]
        return "\n".join(lines)

    def _highlighted_bin(self) -> int:
        """Return the bin of the selected span, -1 for none."""
        durations = self.durations
        if durations is None or self._ticks < 0 or not len(durations.counts):
            return -1
        number = int(np.searchsorted(durations.edges, self._ticks, "right")) - 1
        return min(max(number, 0), len(durations.counts) - 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw bars and their captions."""
        durations = self.durations
        with QPainter(self) as painter:
            theme = self._theme
            if durations is None or not durations.timed:
                text = "counting…" if durations is None else "No durations recorded"
                painter.setFont(ui_font(12))
                painter.setPen(qcolor(theme.dim))
                painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, text)
                return
            foot = scaled(36)
            self._paint_bars(painter, durations, self.height() - foot)
            painter.setPen(qcolor(theme.dim))
            painter.setFont(mono_font(11))
            line = QRect(0, self.height() - foot, self.width(), foot // 2)
            middle = Qt.AlignmentFlag.AlignVCenter
            low = format_duration(durations.low, self._unit)
            high = format_duration(durations.high, self._unit)
            painter.drawText(line, Qt.AlignmentFlag.AlignLeft | middle, low)
            painter.drawText(line, Qt.AlignmentFlag.AlignRight | middle, high)
            line.translate(0, foot // 2)
            center = Qt.AlignmentFlag.AlignHCenter
            painter.drawText(line, center | middle, self.caption())

    def _paint_bars(
        self, painter: QPainter, durations: DurationStats, height: int
    ) -> None:
        theme = self._theme
        n, highest = len(durations.counts), max(1, int(durations.counts.max()))
        step = self.width() / max(n, 1)
        highlighted = self._highlighted_bin()
        color = category_color(self._color_key or "none", theme)
        painter.fillRect(QRectF(0, height - 1, self.width(), 1), qcolor(theme.line))
        for k, count in enumerate(durations.counts):
            if not count and k != highlighted:
                continue
            bar = max(1.0, float(count) / highest * (height - 4))
            box = QRectF(k * step, height - bar, max(step - 1, 1), bar)
            fill = theme.selection if k == highlighted else color
            painter.fillRect(box, qcolor(fill))
