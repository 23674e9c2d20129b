"""SummaryList: what limits a run, and its figures in sections, with links."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.analysis.summary.bars import TokenBars, bar_text
from ggscope.descriptions.summary import (
    PASSES,
    TOKENS,
    SummaryLine,
    SummarySection,
    Target,
)
from ggscope.model.tables import I64, Phase
from ggscope.model.trace import Trace
from ggscope.model.units import format_duration
from ggscope.render.theme import Theme
from ggscope.views.base.safe_text import show_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    draw_elided,
    heading_font,
    mono_font,
    qcolor,
    scaled,
    ui_font,
)

_SPARK_HEIGHT = 40
_MIN_BAR = 0.01
"""A bar of a smaller share would be a dot."""
_COLUMN_PX = 300
"""Sections stand side by side where each has so much width."""
_WITHOUT_FIGURE = "Data"


@dataclass(frozen=True, slots=True)
class _Row:
    """A painted row: its place, and what it shows.

    Attributes
    ----------
    kind : "name", "sentence", "heading", "figure", "line" or "spark".
    line : of a figure or a line.
    """

    kind: str
    rect: QRect
    text: str = ""
    line: SummaryLine | None = None

    @property
    def target(self) -> Target | None:
        """Where the row leads; None = nowhere."""
        return None if self.line is None else self.line.target


def _of_interest(bars: TokenBars) -> TokenBars | None:
    """Return the generated tokens, else all bars; None of fewer than two."""
    is_generated = bars.of_phase(Phase.GENERATE)
    chosen = is_generated if is_generated.any() else bars.is_timed
    shown = bars.take(np.flatnonzero(chosen))
    return shown if len(shown) > 1 else None


@guarded
class SummaryList(QWidget):
    """Painted lines; links among them are clicked, or walked by Up and Down."""

    chosen = Signal(object)  # Target
    reached = Signal(object)  # QRect of the line that keys are on now

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme: Theme | None = None
        self._trace: Trace | None = None
        self._bars: TokenBars | None = None
        self._name = self._sentence = ""
        self._sections: tuple[SummarySection, ...] = ()
        self._hover = self._current = -1
        self._rows: tuple[int, list[_Row]] = (-1, [])
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Summary")
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def set_summary(
        self,
        trace: Trace,
        name: str,
        sentence: str,
        sections: tuple[SummarySection, ...],
        bars: TokenBars,
    ) -> None:
        """Show these; `name` is what limits the run, `sentence` the evidence."""
        self._trace, self._bars = trace, _of_interest(bars)
        self._name, self._sentence, self._sections = name, sentence, sections
        self._hover = self._current = -1
        self._rows = (-1, [])
        lines = [line for section in sections for line in section.lines if line.value]
        texts = [f"{x.title}: {x.value} {x.remark}".rstrip() for x in lines]
        self.setAccessibleDescription("; ".join([f"{name}: {sentence}", *texts]))
        self.updateGeometry()
        self.update()

    def set_message(self, text: str) -> None:
        """Show only a sentence, while there is no summary."""
        self._trace = self._bars = None
        self._name, self._sentence, self._sections = "", text, ()
        self._hover = self._current = -1
        self._rows = (-1, [])
        self.setAccessibleDescription(text)
        self.updateGeometry()
        self.update()

    def texts(self) -> list[tuple[str, str, str]]:
        """Return section, title and value with its remark, of all lines."""
        rows = [("Bottleneck", self._name, self._sentence)]
        for section in self._sections:
            for line in section.lines:
                value = line.value or f"not known: {line.reason}"
                remark = f" ({line.remark})" if line.remark else ""
                rows.append((section.title, line.title, f"{value}{remark}"))
        return rows

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.update()

    # -- layout ----------------------------------------------------------------

    def hasHeightForWidth(self) -> bool:
        """Return True: the sentence wraps."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all rows."""
        rows = self._placed(width)
        return max((row.rect.bottom() for row in rows), default=0) + scaled(8)

    def sizeHint(self) -> QSize:
        """Return the size at a pane's usual width."""
        return QSize(scaled(260), self.heightForWidth(scaled(260)))

    def minimumSizeHint(self) -> QSize:
        """Return a width down to which lines can be read."""
        return QSize(scaled(160), scaled(40))

    def placed_rows(self) -> list[_Row]:
        """Return the rows as they are painted now."""
        return self._placed(self.width())

    def _placed(self, width: int) -> list[_Row]:
        """Return the rows at a width."""
        if self._rows[0] == width:
            return self._rows[1]
        rows: list[_Row] = []
        y = 0
        if self._name:
            rows.append(_Row("name", QRect(0, 0, width, scaled(28)), self._name))
            y = scaled(28)
        if self._sentence:
            box = QFontMetrics(ui_font(12)).boundingRect(
                QRect(0, 0, max(width, 1), 10_000),
                int(Qt.TextFlag.TextWordWrap),
                self._sentence,
            )
            below = QRect(0, y, width, box.height())
            rows.append(_Row("sentence", below, self._sentence))
            y = below.bottom() + scaled(4)
        shown = [part for part in self._sections if any(x.value for x in part.lines)]
        n = max(min(width // scaled(_COLUMN_PX), len(shown)), 1)
        gap = scaled(24)
        column_px = (width - gap * (n - 1)) // n
        bottoms = [y] * n
        for section in shown:
            # The section goes below the shortest column, of equals the first.
            i = bottoms.index(min(bottoms))
            placed = self._section(
                section, i * (column_px + gap), bottoms[i], column_px
            )
            bottoms[i] = placed[-1].rect.bottom() + 1
            rows += placed
        self._rows = (width, rows)
        return rows

    def _section(
        self, section: SummarySection, x: int, y: int, width: int
    ) -> list[_Row]:
        """Return the rows of a section whose first one begins at (x, y)."""
        rows: list[_Row] = []

        def add(kind: str, px: int, line: SummaryLine | None = None) -> None:
            nonlocal y
            rows.append(_Row(kind, QRect(x, y, width, scaled(px)), section.title, line))
            y += scaled(px)

        add("heading", 30)
        for i, line in enumerate(x for x in section.lines if x.value):
            if i == 0 and section.title != _WITHOUT_FIGURE:
                add("figure", 44, line)
                if section.title in (TOKENS, PASSES) and self._bars is not None:
                    add("spark", _SPARK_HEIGHT + 8)
            else:
                add("line", 38 if self._is_tall(line, width) else 22, line)
        return rows

    @staticmethod
    def _is_tall(line: SummaryLine, width: int) -> bool:
        """Return whether the remark needs a line of its own."""
        if not line.remark:
            return False
        metrics, mono = QFontMetrics(ui_font(12)), QFontMetrics(mono_font(12))
        needs = metrics.horizontalAdvance(f"{line.title}   {line.remark}")
        return needs + mono.horizontalAdvance(line.value) + scaled(16) > width

    def cut_text(self, row: _Row | None) -> str:
        """Return all text of a row whose width cuts some; "" where it cuts none."""
        line = None if row is None else row.line
        if row is None or line is None:
            return ""
        metrics, mono = QFontMetrics(ui_font(12)), QFontMetrics(mono_font(12))
        width = row.rect.width()
        title, remark = line.title, line.remark
        if row.kind == "figure":
            below = f"{title}, {remark}" if remark else title
            is_cut = metrics.horizontalAdvance(below) > width
        else:
            rest = width - mono.horizontalAdvance(line.value) - scaled(10)
            is_cut = metrics.horizontalAdvance(title) > rest
            is_cut |= QFontMetrics(ui_font(11)).horizontalAdvance(remark) > width
        if not is_cut:
            return ""
        return "\n".join(filter(None, (f"{title}: {line.value}", remark)))

    # -- painting --------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the rows that are seen."""
        theme = self._theme
        if theme is None:
            return
        painter = QPainter(self)
        for i, row in enumerate(self._placed(self.width())):
            if not row.rect.intersects(event.rect()):
                continue
            is_current = i == self._current and self.hasFocus()
            if row.target is not None and (i == self._hover or is_current):
                painter.fillRect(row.rect, qcolor(theme.raised))
            self._paint(painter, row, theme)
            if is_current:
                painter.setPen(qcolor(theme.accent))
                painter.drawRect(row.rect.adjusted(0, 0, -1, -1))
        painter.end()

    def _paint(self, painter: QPainter, row: _Row, theme: Theme) -> None:
        if row.kind == "spark":
            self._paint_spark(painter, row.rect, theme)
        elif row.kind == "name":
            self._text(painter, row.rect, row.text, ui_font(16, bold=True),
                       theme.text)  # fmt: skip
        elif row.kind == "sentence":
            painter.setFont(ui_font(12))
            painter.setPen(qcolor(theme.dim))
            painter.drawText(row.rect, int(Qt.TextFlag.TextWordWrap), row.text)
        elif row.kind == "heading":
            rect = row.rect.adjusted(0, scaled(10), 0, 0)
            self._text(painter, rect, row.text, heading_font(), theme.dim)
        elif row.line is not None:
            paint = self._paint_figure if row.kind == "figure" else self._paint_line
            paint(painter, row.rect, row.line, theme)

    def _paint_figure(
        self, painter: QPainter, rect: QRect, line: SummaryLine, theme: Theme
    ) -> None:
        value = QRect(rect.x(), rect.y(), rect.width(), scaled(26))
        is_link = line.target is not None
        self._text(painter, value, line.value, mono_font(18, bold=True), theme.text)
        below = QRect(rect.x(), value.bottom(), rect.width(), scaled(18))
        text = f"{line.title}, {line.remark}" if line.remark else line.title
        color = theme.accent if is_link else theme.dim
        self._text(painter, below, text, ui_font(12), color)

    def _paint_line(
        self, painter: QPainter, rect: QRect, line: SummaryLine, theme: Theme
    ) -> None:
        if line.share is not None and line.share >= _MIN_BAR:
            px = rect.width() * min(max(line.share, 0), 1)
            bar = QRectF(rect.x(), rect.y() + scaled(20), px, scaled(2))
            painter.fillRect(bar, qcolor(theme.accent))
        top = QRect(rect.x(), rect.y(), rect.width(), scaled(20))
        value_px = QFontMetrics(mono_font(12)).horizontalAdvance(line.value)
        value = top.adjusted(max(top.width() - value_px - 1, 0), 0, 0, 0)
        self._text(painter, value, line.value, mono_font(12), theme.text)
        title = top.adjusted(0, 0, -value_px - scaled(10), 0)
        color = theme.accent if line.target is not None else theme.dim
        self._text(painter, title, line.title, ui_font(12), color)
        if not line.remark:
            return
        if self._is_tall(line, rect.width()):
            below = QRect(rect.x(), rect.y() + scaled(22), rect.width(), scaled(14))
            self._text(painter, below, line.remark, ui_font(11), theme.faint)
            return
        title_px = QFontMetrics(ui_font(12)).horizontalAdvance(f"{line.title}   ")
        self._text(painter, title.adjusted(title_px, 0, 0, 0), line.remark,
                   ui_font(11), theme.faint)  # fmt: skip

    def _paint_spark(self, painter: QPainter, rect: QRect, theme: Theme) -> None:
        """Paint a column per pixel: the longest bar that falls into it."""
        bars = self._bars
        if bars is None:
            return
        px = max(rect.width(), 1)
        heights, _ = self._spark_columns(px)
        highest = int(heights.max(initial=0))
        if highest <= 0:
            return
        step = max(px // max(len(bars), 1), 1)
        gap = 1 if step > 3 else 0
        full = scaled(_SPARK_HEIGHT)
        for x in np.flatnonzero(heights > 0).tolist():
            height = max(round(full * int(heights[x]) / highest), 1)
            top = rect.y() + scaled(4) + full - height
            column = QRect(rect.x() + x, top, max(step - gap, 1), height)
            painter.fillRect(column, qcolor(theme.accent))

    def _spark_columns(self, px: int) -> tuple[I64, I64]:
        """Return the longest bar of each pixel column, and the column of each bar."""
        bars = self._bars
        assert bars is not None
        n = len(bars)
        step = max(px // n, 1)
        columns = np.arange(n) * step if n <= px else np.arange(n) * px // n
        heights = np.zeros(px, np.int64)
        np.maximum.at(heights, columns, bars.duration)
        return heights, columns

    @staticmethod
    def _text(
        painter: QPainter, rect: QRect, text: str, font: QFont, color: int
    ) -> None:
        draw_elided(painter, rect, text, font, color, Qt.TextElideMode.ElideRight)

    # -- input -----------------------------------------------------------------

    def _row_at(self, place: QPointF) -> int:
        rows = self.placed_rows()
        return next(
            (i for i, row in enumerate(rows) if row.rect.contains(place.toPoint())), -1
        )

    def _bar_at(self, row: _Row, x: float) -> int:
        """Return the longest bar in the pixel column at x; -1 = none."""
        bars = self._bars
        if bars is None:
            return -1
        px, x = max(row.rect.width(), 1), x - row.rect.x()
        _, columns = self._spark_columns(px)
        here = np.flatnonzero(columns == columns[columns <= x].max(initial=0))
        return int(here[bars.duration[here].argmax()]) if len(here) else -1

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Highlight the row under the mouse; report the token under it."""
        i = self._row_at(event.position())
        rows = self.placed_rows()
        row = rows[i] if i >= 0 else None
        leads = row is not None and (row.target is not None or row.kind == "spark")
        shape = (
            Qt.CursorShape.PointingHandCursor if leads else Qt.CursorShape.ArrowCursor
        )
        self.setCursor(shape)
        if i != self._hover:
            self._hover = i
            self.update()
        if row is not None and row.kind == "spark" and self._trace is not None:
            bar = self._bar_at(row, event.position().x())
            if bar >= 0 and self._bars is not None:
                duration = format_duration(
                    int(self._bars.duration[bar]), self._trace.clock.unit
                )
                text = f"{bar_text(self._trace, self._bars, bar)}: {duration}"
                show_tip(event.globalPosition().toPoint(), text, self)
                return
        show_tip(event.globalPosition().toPoint(), self.cut_text(row), self)

    def leaveEvent(self, _: QEvent) -> None:
        """Light nothing."""
        self._hover = -1
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Go where the row under the mouse leads."""
        if event.button() != Qt.MouseButton.LeftButton:
            return
        i = self._row_at(event.position())
        if i < 0:
            return
        row = self.placed_rows()[i]
        if row.kind == "spark" and self._bars is not None:
            bar = self._bar_at(row, event.position().x())
            if bar >= 0:
                span, time = int(self._bars.span[bar]), self._bars.time(bar)
                self.chosen.emit(Target(time=time, span=span))
        elif row.target is not None:
            self._current = i
            self.chosen.emit(row.target)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Walk the lines that lead somewhere; Enter goes there."""
        rows = self.placed_rows()
        leading = [i for i, row in enumerate(rows) if row.target is not None]
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Down, Qt.Key.Key_Up) and leading:
            later = [i for i in leading if i > self._current]
            before = [i for i in leading if i < self._current]
            if key == Qt.Key.Key_Down:
                self._current = later[0] if later else leading[-1]
            else:
                self._current = before[-1] if before else leading[0]
            self.reached.emit(rows[self._current].rect)
            self.update()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._current in leading:
            target = rows[self._current].target
            self.chosen.emit(target)
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show which line the keys are on."""
        super().focusInEvent(event)
        self.update()
