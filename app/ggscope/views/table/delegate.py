"""The rows of the trace table: spans in some order, painted in two forms.

The model makes cells on demand; the painter has a compact and a detailed form.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QRectF,
    Qt,
)
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPen

from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.order.table_order import RowOrder, Sorting
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.model.tables import I64, Space, empty
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_both_bytes
from ggscope.render.colors import category_color
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.text import one_line, tooltip
from ggscope.views.base.cells import NONE, CellTexts, Column, columns_of
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    heading_font,
    mono_font,
    paint_badge,
    qcolor,
    scaled,
    space_color,
    swatch_key,
    tr,
    words_font,
)
from ggscope.words.spans import PENDING, AccessFact, access_facts, access_line

Index = QModelIndex | QPersistentModelIndex


class Role(IntEnum):
    """Roles beyond Qt's own."""

    SPAN = int(Qt.ItemDataRole.UserRole)
    """The span's id."""
    RAW = SPAN + 1
    """The value as a number or plain text."""


@guarded
class TraceTableModel(QAbstractTableModel):
    """Rows of spans in a given order. Holds no row: each cell is made when asked.

    Notes
    -----
    `row_count` is limited by Qt to 2**31 - 1, the order's ids by memory.

    Attributes
    ----------
    trace : the trace whose spans are shown.
    order : the rows.
    columns : the columns.
    texts : what makes the cells; may be used on a worker.
    search_pattern : what to highlight inside the cells of hits.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.trace: Trace | None = None
        self.order: RowOrder | None = None
        self.columns: tuple[Column, ...] = ()
        self.texts: CellTexts | None = None
        self._absolute = False
        self._sorting = Sorting()
        self._hits: SearchHits | None = None
        self.search_pattern: re.Pattern[str] | None = None
        self._correlation: Correlation | None = None
        self._lit: I64 = empty(np.int64)

    # -- contents ----------------------------------------------------------

    def set_rows(self, trace: Trace | None, order: RowOrder | None) -> None:
        """Show these rows of this trace."""
        self.beginResetModel()
        self.trace, self.order = trace, order
        self.columns = () if trace is None else columns_of(trace)
        self.texts = self._make_texts()
        self.endResetModel()

    def set_absolute(self, absolute: bool) -> None:
        """Show times as the file's clock has them, or from the start."""
        self._absolute = absolute
        self.texts = self._make_texts()
        self._note_change()

    def set_correlation(self, correlation: Correlation | None) -> None:
        """Say which spans are in the graph; None = not known yet."""
        self._correlation = correlation
        self.texts = self._make_texts()
        self._note_change()

    def set_lit(self, spans: I64) -> None:
        """Light up these spans (ids, ascending)."""
        if len(spans) or len(self._lit):
            self._lit = spans
            self._note_change()

    def is_lit(self, span: int) -> bool:
        """Tell whether `span` belongs to what is selected elsewhere."""
        at = int(np.searchsorted(self._lit, span))
        return at < len(self._lit) and int(self._lit[at]) == span

    def is_in_graph(self, row: int) -> bool:
        """Tell whether the span in `row` was found in the graph."""
        return self.texts is not None and self.texts.is_in_graph(self.span_at(row))

    def set_sorting(self, sorting: Sorting) -> None:
        """Say in the header by what the rows are sorted."""
        self._sorting = sorting
        if self.columns:
            last = len(self.columns) - 1
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)

    def set_hits(self, hits: SearchHits | None) -> None:
        """Mark what a search found."""
        self._hits = hits
        self.search_pattern = None if hits is None else search_pattern(hits.text)
        self._note_change()

    def _make_texts(self) -> CellTexts | None:
        if self.trace is None:
            return None
        return CellTexts.of(
            self.trace, absolute=self._absolute, correlation=self._correlation
        )

    def _note_change(self) -> None:
        n_rows, n_columns = self.rowCount(), self.columnCount()
        if n_rows and n_columns:
            self.dataChanged.emit(
                self.index(0, 0), self.index(n_rows - 1, n_columns - 1)
            )

    def span_at(self, row: int) -> int:
        """Return the id of the span in `row`. Raises IndexError beyond the end."""
        if self.order is None:
            raise IndexError(row)
        return self.order.at(row)

    def row_of(self, span: int) -> int | None:
        """Return the row of `span`, or None where it is not listed."""
        trace = self.trace
        if self.order is None or trace is None or not 0 <= span < len(trace.spans):
            return None
        return self.order.row_of(span)

    def is_hit(self, span: int) -> bool:
        """Tell whether the search found `span`."""
        if self._hits is None or self.trace is None or not len(self._hits.ids):
            return False
        start = self.trace.spans.start[span]
        low = int(np.searchsorted(self._hits.times, start, "left"))
        high = int(np.searchsorted(self._hits.times, start, "right"))
        return bool((self._hits.ids[low:high] == span).any())

    def accesses_at(self, row: int) -> tuple[AccessFact, ...]:
        """Return the accesses of the span in `row`."""
        assert self.trace is not None
        return access_facts(self.trace, self.span_at(row))

    def n_accesses_at(self, row: int) -> int:
        """Return the number of accesses of the span in `row`, without texts."""
        assert self.trace is not None
        accesses = self.trace.accesses
        pattern = int(accesses.pattern[self.span_at(row)])
        if pattern < 0:
            return 0
        return int(accesses.first[pattern + 1] - accesses.first[pattern])

    def text(self, row: int, column: str) -> str:
        """Return the text of a cell by its column's key."""
        assert self.texts is not None
        return self.texts.text(self.span_at(row), column)

    def row_text(self, row: int, *, is_detailed: bool = False) -> str:
        """Return a row as one sentence, for screen readers; detailed: all sources."""
        cells = [
            f"{tr('record') if c.key == 'record' else c.title} {self.text(row, c.key)}"
            for c in self.columns
            if c.key != "dot" and not (is_detailed and c.key == "sources")
        ]
        if any(c.key == "dot" for c in self.columns):
            found = self.is_in_graph(row)
            cells.append(tr("in the graph") if found else tr("not in the graph"))
        if is_detailed:
            cells += [
                f"{tr('source')} {number}: {access_line(access)}"
                for number, access in enumerate(self.accesses_at(row))
            ]
        return ", ".join(cells)

    # -- Qt ----------------------------------------------------------------

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of rows."""
        return 0 if parent.isValid() or self.order is None else len(self.order)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return a cell's text, tooltip, alignment, span or raw value."""
        if not index.isValid() or self.texts is None:
            return None
        column = self.columns[index.column()]
        span = self.span_at(index.row())
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return one_line(self.texts.text(span, column.key))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(self.texts.tip(span, column.key))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = "AlignRight" if column.right else "AlignLeft"
            return Qt.AlignmentFlag[side] | Qt.AlignmentFlag.AlignVCenter
        if role == Role.SPAN:
            return span
        if role == Role.RAW:
            return self.texts.raw(span, column.key)
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Return a column's title, tooltip or alignment."""
        if orientation != Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            arrow = " ▾" if self._sorting.descending else " ▴"
            return column.title + (arrow if column.key == self._sorting.column else "")
        if role == Qt.ItemDataRole.ToolTipRole:
            return tooltip(column.tip)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return column.tip
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = "AlignRight" if column.right else "AlignLeft"
            return Qt.AlignmentFlag[side] | Qt.AlignmentFlag.AlignVCenter
        return None


def search_pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern for plain text (any case) or ``/regex/``; None if bad."""
    try:
        if len(text) > 2 and text.startswith("/") and text.endswith("/"):
            return re.compile(text[1:-1], re.IGNORECASE)
        return re.compile(re.escape(text), re.IGNORECASE) if text else None
    except re.error:
        return None


_PAD = 8
_MUTED = ("dot", "record")
_NAMES = ("op", "destination", "sources")


@dataclass(frozen=True, slots=True)
class RowState:
    """How a row stands out."""

    is_active: bool = False
    is_selected: bool = False
    is_hovered: bool = False
    is_hit: bool = False
    is_lit: bool = False
    has_focus: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a column lies: `x` from the left of the row, `width` in pixels."""

    column: Column
    x: int
    width: int


class RowPainter:
    """Draws rows of a `TraceTableModel`.

    Parameters
    ----------
    model : gives the texts.
    theme : gives the colours.
    """

    def __init__(self, model: TraceTableModel, theme: Theme) -> None:
        self.model = model
        self.theme = theme
        self.is_detailed = False
        self.refresh_fonts()

    def refresh_fonts(self) -> None:
        """Take the fonts and sizes over from the application."""
        self._mono = mono_font(12)
        self._bold = mono_font(12, bold=True)
        self._words = words_font(12)
        self._heading = heading_font()
        self._mono_metrics = QFontMetrics(self._mono)
        self._bold_metrics = QFontMetrics(self._bold)
        self._words_metrics = QFontMetrics(self._words)
        self._swatch_size, self._swatch_gap = scaled(9), scaled(6)
        self._line = scaled(20)
        self.compact_height = scaled(24)

    def height(self, row: int) -> int:
        """Return the height of a row in pixels."""
        if not self.is_detailed:
            return self.compact_height
        n = max(1, self.model.n_accesses_at(row))
        return self.compact_height + (2 + n) * self._line + scaled(8)

    def paint(
        self,
        painter: QPainter,
        box: QRect,
        row: int,
        cells: list[Cell],
        state: RowState,
    ) -> None:
        """Draw one row into `box`."""
        self._paint_background(painter, box, row, state)
        head = QRect(box.left(), box.top(), box.width(), self.compact_height)
        swatch = self._swatch_column()
        for cell in cells:
            area = head.adjusted(cell.x, 0, 0, 0)
            area.setWidth(cell.width)
            has_swatch = cell.column.key == swatch
            self._paint_cell(painter, area, row, cell.column, state, has_swatch)
        if self.is_detailed:
            self._paint_details(painter, box, row, state)

    # -- one row -----------------------------------------------------------

    def _paint_background(
        self, painter: QPainter, box: QRect, row: int, state: RowState
    ) -> None:
        theme = self.theme
        ground = theme.pane if row % 2 == 0 else mix(theme.pane, theme.raised, 0.35)
        if state.is_selected:
            ground = mix(ground, theme.selection, 0.2 if state.is_active else 0.11)
        elif state.is_lit:
            ground = mix(ground, theme.selection, 0.06)
        elif state.is_hovered:
            ground = mix(ground, theme.accent, 0.08)
        painter.fillRect(box, qcolor(ground))
        if state.is_selected:
            bar = QRect(box.left(), box.top(), scaled(3), box.height())
            painter.fillRect(bar, qcolor(theme.selection))
        elif state.is_lit:
            # Half as wide as that of a selected row, and broken: it only belongs.
            third = box.height() // 3
            mark = QRect(box.left(), box.top() + third, scaled(2), third)
            painter.fillRect(mark, qcolor(theme.selection))
        if state.is_active and state.has_focus:
            # The focus ring is drawn inside, so that it never shifts a text.
            painter.setPen(QPen(qcolor(with_alpha(theme.selection, 0.55)), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5))
        if self.is_detailed:
            line = QRect(box.left(), box.bottom(), box.width(), 1)
            painter.fillRect(line, qcolor(theme.line))

    def _paint_cell(
        self,
        painter: QPainter,
        area: QRect,
        row: int,
        column: Column,
        state: RowState,
        has_swatch: bool,
    ) -> None:
        if column.key == "dot":
            self._paint_dot(painter, area, is_found=self.model.is_in_graph(row))
            return
        inner = area.adjusted(_PAD, 0, -_PAD, 0)
        text = self.model.text(row, column.key)
        if has_swatch:
            inner = self._paint_swatch(painter, inner, row)
        if column.key == "sources" and self._paint_source(painter, inner, row, state):
            return
        self._paint_text(painter, inner, text, column, state)

    def _paint_dot(self, painter: QPainter, area: QRect, *, is_found: bool) -> None:
        """Draw a full green dot, or a grey ring: told apart by shape as well."""
        theme = self.theme
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        green = qcolor(space_color(Space.BUFFER, theme))
        painter.setPen(
            Qt.PenStyle.NoPen if is_found else QPen(qcolor(theme.faint), 1.2)
        )
        painter.setBrush(green if is_found else Qt.BrushStyle.NoBrush)
        radius = scaled(8 if is_found else 7) / 2
        middle = QPointF(area.left() + area.width() / 2, area.center().y() + 0.5)
        painter.drawEllipse(middle, radius, radius)
        painter.restore()

    def _swatch_column(self) -> str:
        """Return the column with the coloured square: op, or engine without ops."""
        columns = self.model.columns
        if any(c.key == "op" for c in columns):
            return "op"
        has_engines = any(c.title == tr("engine") for c in columns)
        return "lane" if has_engines else ""

    def _paint_swatch(self, painter: QPainter, area: QRect, row: int) -> QRect:
        """Draw the square in the colour of the op's family; return the rest."""
        trace = self.model.trace
        assert trace is not None
        key = swatch_key(trace, self.model.span_at(row))
        size = self._swatch_size
        if key:
            top = area.center().y() - size // 2
            square = QRectF(area.left(), top, size, size)
            painter.save()
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(qcolor(category_color(key, self.theme)))
            painter.drawRoundedRect(square, 2, 2)
            painter.restore()
        return area.adjusted(size + self._swatch_gap, 0, 0, 0)

    def _paint_source(
        self, painter: QPainter, area: QRect, row: int, state: RowState
    ) -> bool:
        """Draw the badge and name of the first source; False where there is none."""
        accesses = self.model.accesses_at(row)
        if not accesses:
            return False
        first = accesses[0]
        painter.save()
        painter.setClipRect(area)
        x = paint_badge(
            painter,
            area.left(),
            area.center().y() + 0.5,
            first.badge,
            space_color(first.space, self.theme),
        )
        painter.restore()
        more = f" +{len(accesses) - 1}" if len(accesses) > 1 else ""
        rest = area.adjusted(round(x) - area.left() + self._swatch_gap, 0, 0, 0)
        space = self._mono_metrics.horizontalAdvance(more)
        name = self._mono_metrics.elidedText(
            one_line(first.name),
            Qt.TextElideMode.ElideRight,
            max(0, rest.width() - space),
        )
        color = self.theme.dim if first.name == NOT_AVAILABLE else self.theme.text
        self._highlight(painter, rest, name, self._mono_metrics, state)
        self._draw(painter, rest, name + more, self._mono, color)
        return True

    def _paint_text(
        self, painter: QPainter, area: QRect, text: str, column: Column, state: RowState
    ) -> None:
        theme, key = self.theme, column.key
        font, metrics = self._mono, self._mono_metrics
        color = theme.dim if key in _MUTED else theme.text
        if key == "op":
            font, metrics = self._bold, self._bold_metrics
        if text in (NOT_AVAILABLE, NONE) or text == tr(PENDING):
            color = theme.dim
        if key == "quality":
            font, metrics = self._words, self._words_metrics
            is_measured = text == tr("measured")
            color = theme.dim if is_measured else theme.caution
        mode = Qt.TextElideMode.ElideRight
        shown = metrics.elidedText(one_line(text), mode, max(0, area.width()))
        if key in _NAMES:
            self._highlight(painter, area, shown, metrics, state)
        self._draw(painter, area, shown, font, color, right=column.right)

    def _draw(
        self,
        painter: QPainter,
        area: QRect,
        text: str,
        font: QFont,
        color: int,
        *,
        right: bool = False,
    ) -> None:
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        painter.setFont(font)
        painter.setPen(qcolor(color))
        painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, text)

    def _highlight(
        self,
        painter: QPainter,
        area: QRect,
        text: str,
        metrics: QFontMetrics,
        state: RowState,
    ) -> None:
        """Mark what the search found inside a text."""
        pattern = self.model.search_pattern
        if not state.is_hit or pattern is None:
            return
        for match in pattern.finditer(text):
            if match.start() == match.end():
                continue
            left = metrics.horizontalAdvance(text[: match.start()])
            width = metrics.horizontalAdvance(match.group())
            box = QRectF(
                area.left() + left - 1,
                area.center().y() - scaled(8),
                width + 2,
                scaled(17),
            )
            painter.fillRect(box, qcolor(with_alpha(self.theme.selection, 0.28)))
            under = QRectF(box.left(), box.bottom() - 1.5, box.width(), 1.5)
            painter.fillRect(under, qcolor(self.theme.selection))

    # -- the detailed form -------------------------------------------------

    def _paint_details(
        self, painter: QPainter, box: QRect, row: int, state: RowState
    ) -> None:
        theme, trace = self.theme, self.model.trace
        assert trace is not None
        accesses = self.model.accesses_at(row)
        top = box.top() + self.compact_height
        left, text_left = box.left() + scaled(40), box.left() + scaled(150)
        label = QRect(left, top, text_left - left, self._line)
        line = QRect(text_left, top, box.right() - text_left, self._line)
        is_op = int(trace.spans.op[self.model.span_at(row)]) >= 0
        yellow = theme.selection
        self._draw(
            painter,
            label,
            tr("Destination") if is_op else tr("Name"),
            self._heading,
            yellow if theme.is_dark else theme.dim,
        )
        name = one_line(self.model.text(row, "destination"))
        self._highlight(painter, line, name, self._mono_metrics, state)
        self._draw(
            painter, line, name, self._mono, yellow if theme.is_dark else theme.text
        )
        label.translate(0, self._line)
        line.translate(0, self._line)
        self._draw(painter, label, tr("Sources"), self._heading, theme.accent)
        if not accesses:
            waits = "accesses" in trace.pending
            words = tr(PENDING) if waits else tr("none in the file")
            self._draw(painter, line, words, self._words, theme.dim)
            line.translate(0, self._line)
        for number, access in enumerate(accesses):
            self._paint_access(painter, line, number, access, state)
            line.translate(0, self._line)
        total = sum(a.bytes for a in accesses if a.bytes >= 0 and not a.is_write)
        known = any(a.bytes >= 0 and not a.is_write for a in accesses)
        words = (
            f"{tr('total input')} {format_both_bytes(total)}"
            if known
            else f"{tr('total input')} {NOT_AVAILABLE}"
        )
        self._draw(painter, line, words, self._words, theme.dim)

    def _paint_access(
        self,
        painter: QPainter,
        line: QRect,
        number: int,
        access: AccessFact,
        state: RowState,
    ) -> None:
        theme = self.theme
        area = QRect(line)
        self._draw(painter, area, str(number), self._mono, theme.dim)
        area.setLeft(area.left() + scaled(20))
        x = paint_badge(
            painter,
            area.left(),
            area.center().y() + 0.5,
            access.badge,
            space_color(access.space, theme),
        )
        area.setLeft(round(x) + scaled(6))
        name = ("→ " if access.is_write else "") + one_line(access.name)
        self._highlight(painter, area, name, self._mono_metrics, state)
        self._draw(painter, area, name, self._mono, theme.text)
        parts = [access.size, access.place]
        if access.layer != NOT_AVAILABLE:
            parts.append(f"{tr('layer')} {access.layer}")
        if access.expert != NOT_AVAILABLE:
            parts.append(f"{tr('expert')} {access.expert}")
        if access.address != NOT_AVAILABLE:
            parts.append(f"{tr('pointer')} {access.address}")
        used = max(self._mono_metrics.horizontalAdvance(name) + scaled(16), scaled(220))
        area.setLeft(area.left() + used)
        words = self._mono_metrics.elidedText(
            " · ".join(parts), Qt.TextElideMode.ElideRight, max(0, area.width())
        )
        self._draw(painter, area, words, self._mono, theme.dim)
