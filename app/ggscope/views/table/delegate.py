"""The rows of the trace table: spans in some order, painted in two forms.

The model makes cells on demand; the painter has a compact and a detailed form.
"""

import re
from collections.abc import Sequence
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
from PySide6.QtGui import QFontInfo, QFontMetrics, QFontMetricsF, QPainter, QPen

from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.order.table_order import RowOrder, Sorting
from ggscope.analysis.sessions.correlate import Correlation
from ggscope.descriptions.spans import (
    PENDING,
    AccessFact,
    access_facts,
    access_line,
    color_key,
)
from ggscope.model.tables import I64, Space, empty
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_both_bytes
from ggscope.render.colors import category_color
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.sanitize import one_line, tooltip
from ggscope.views.base.cells import NONE, CellTexts, Column, columns_of
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    badge_size,
    heading_font,
    mono_font,
    paint_badge,
    qcolor,
    scaled,
    space_color,
    ui_font,
)

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
    generation : another number with other texts.
    search_pattern : what to highlight inside the cells of hits.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.trace: Trace | None = None
        self.order: RowOrder | None = None
        self.columns: tuple[Column, ...] = ()
        self.texts: CellTexts | None = None
        self.generation = 0
        self._absolute = False
        self._sorting = Sorting()
        self._hits: SearchHits | None = None
        self.search_pattern: re.Pattern[str] | None = None
        self._correlation: Correlation | None = None
        self._highlighted: I64 = empty(np.int64)

    # -- contents ----------------------------------------------------------

    def set_rows(self, trace: Trace | None, order: RowOrder | None) -> None:
        """Show these rows of this trace."""
        self.beginResetModel()
        self.trace, self.order = trace, order
        self.columns = self._columns()
        self.texts = self._make_texts()
        self.endResetModel()

    def set_absolute(self, absolute: bool) -> None:
        """Show times as the file's clock has them, or from the start."""
        self._absolute = absolute
        if self._columns() == self.columns:
            self.texts = self._make_texts()
            self._note_change()
        else:
            self.set_rows(self.trace, self.order)

    def _columns(self) -> tuple[Column, ...]:
        if self.trace is None:
            return ()
        return columns_of(self.trace, absolute=self._absolute)

    def set_correlation(self, correlation: Correlation | None) -> None:
        """Say which spans are in the graph; None = not known yet."""
        if correlation is self._correlation:
            return
        self._correlation = correlation
        self.texts = self._make_texts()
        self._note_change()

    def set_highlighted(self, spans: I64) -> None:
        """Light up these spans (ids, ascending)."""
        if len(spans) or len(self._highlighted):
            self._highlighted = spans
            self._note_change()

    def is_highlighted(self, span: int) -> bool:
        """Return whether `span` belongs to what is selected elsewhere."""
        at = int(np.searchsorted(self._highlighted, span))
        return at < len(self._highlighted) and int(self._highlighted[at]) == span

    def is_in_graph(self, row: int) -> bool:
        """Return whether the span in `row` was found in the graph."""
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
        self.generation += 1
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
        """Return whether the search found `span`."""
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
            f"{'record' if c.key == 'record' else c.title} {self.text(row, c.key)}"
            for c in self.columns
            if c.key != "dot" and not (is_detailed and c.key == "sources")
        ]
        if any(c.key == "dot" for c in self.columns):
            is_matched = self.is_in_graph(row)
            cells.append("in the graph" if is_matched else "not in the graph")
        if is_detailed:
            cells += [
                f"source {number}: {access_line(access)}"
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
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_MAX_LOOKS = 2_000
"""More rows than any screen shows."""


@dataclass(frozen=True, slots=True)
class RowState:
    """How a row stands out."""

    is_active: bool = False
    is_selected: bool = False
    is_hovered: bool = False
    is_hit: bool = False
    is_highlighted: bool = False
    has_focus: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Where a column lies: `x` from the left of the row, `width` in pixels."""

    column: Column
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class CellLook:
    """What a cell shows, wherever its row is and however that stands out.

    Attributes
    ----------
    text : as it fits into the cell.
    face : which of the painter's fonts it is set in.
    color : of the text, 0xAARRGGBB.
    is_found : whether the dot of the graph is full; None = the cell is no dot.
    swatch : colour of the square before the text; None = none, but maybe its room.
    badge : (letters, colour) before the text, or None.
    indent : room that swatch and badge take, in pixels.
    """

    text: str = ""
    face: str = "mono"
    color: int = 0
    is_found: bool | None = None
    swatch: int | None = None
    badge: tuple[str, int] | None = None
    indent: int = 0


class RowPainter:
    """Draws rows of a `TraceTableModel`.

    Parameters
    ----------
    model : gives the texts.
    theme : gives the colours.

    Notes
    -----
    What the rows in view show is kept until another trace, theme, font or width comes:
    while a file is read, workers take turns with the painting thread at each call of
    Qt, and asking for the texts, fitting them and painting took 50 ms together.
    """

    def __init__(self, model: TraceTableModel, theme: Theme) -> None:
        self.model = model
        self.theme = theme
        self.is_detailed = False
        self._looks: dict[int, tuple[CellLook, ...]] = {}
        self._looks_of: tuple[object, ...] = ()
        self.refresh_fonts()

    def refresh_fonts(self) -> None:
        """Take the fonts and sizes over from the application."""
        self._fonts = {
            "mono": mono_font(12), "bold": mono_font(12, bold=True),
            "words": ui_font(12), "heading": heading_font(),
        }  # fmt: skip
        self._metrics = {face: QFontMetrics(x) for face, x in self._fonts.items()}
        self._letter = {
            face: QFontMetricsF(font).horizontalAdvance("0")
            for face, font in self._fonts.items()
            if QFontInfo(font).fixedPitch()
        }
        self._badge_widths: dict[str, int] = {}
        self._swatch_size, self._swatch_gap = scaled(9), scaled(6)
        self._line = scaled(20)
        self.compact_height = scaled(24)
        self._looks.clear()

    def height(self, row: int) -> int:
        """Return the height of a row in pixels."""
        if not self.is_detailed:
            return self.compact_height
        n = max(1, self.model.n_accesses_at(row))
        return self.compact_height + (2 + n) * self._line + scaled(8)

    def looks(self, row: int, cells: Sequence[Cell]) -> tuple[CellLook, ...]:
        """Return what the cells of a row show; the detailed form shows more."""
        texts, span = self.model.texts, self.model.span_at(row)
        assert texts is not None
        widths = ((cell.column, cell.width) for cell in cells)
        shown = (self.model.generation, self.theme, *widths)
        if shown != self._looks_of or len(self._looks) > _MAX_LOOKS:
            self._looks.clear()
            self._looks_of = shown
        looks = self._looks.get(span)
        if looks is None:
            swatch = self._swatch_column()
            looks = self._looks[span] = tuple(
                self._look(texts, span, cell, has_swatch=cell.column.key == swatch)
                for cell in cells
            )
        return looks

    def paint(
        self,
        painter: QPainter,
        box: QRect,
        row: int,
        cells: Sequence[Cell],
        state: RowState,
    ) -> None:
        """Draw one row into `box`."""
        self._paint_background(painter, box, row, state)
        looks = self.looks(row, cells)
        self._paint_shapes(painter, box, cells, looks)
        font, color = "", -1
        for cell, look in zip(cells, looks, strict=True):
            if not look.text:
                continue
            area = self._area(box, cell, look)
            if state.is_hit and cell.column.key in _NAMES:
                metrics = self._metrics[look.face]
                self._highlight(painter, area, look.text, metrics, state)
            if look.face != font:
                font = look.face
                painter.setFont(self._fonts[font])
            if look.color != color:
                color = look.color
                painter.setPen(qcolor(color))
            has_side = cell.column.right and look.badge is None
            painter.drawText(area, _RIGHT if has_side else _LEFT, look.text)
        if self.is_detailed:
            self._paint_details(painter, box, row, state)

    # -- what a cell shows -------------------------------------------------

    def _look(
        self, texts: CellTexts, span: int, cell: Cell, *, has_swatch: bool
    ) -> CellLook:
        key = cell.column.key
        if key == "dot":
            return CellLook(is_found=texts.is_in_graph(span))
        space, indent, swatch = max(0, cell.width - 2 * _PAD), 0, None
        if has_swatch:
            indent = self._swatch_size + self._swatch_gap
            name = color_key(texts.trace, span)
            swatch = category_color(name, self.theme) if name else None
        if key == "sources":
            accesses = access_facts(texts.trace, span)
            if accesses:
                return self._source_look(accesses, space)
        text, theme = one_line(texts.text(span, key)), self.theme
        face, color = "mono", theme.dim if key in _MUTED else theme.text
        if key == "op":
            face = "bold"
        if text in (NOT_AVAILABLE, NONE) or text == PENDING:
            color = theme.dim
        if key == "quality":
            face = "words"
            color = theme.dim if text == "measured" else theme.caution
        shown = self._fitting(text, face, max(0, space - indent))
        return CellLook(shown, face, color, swatch=swatch, indent=indent)

    def _source_look(self, accesses: Sequence[AccessFact], space_px: int) -> CellLook:
        """Return the badge and name of the first source."""
        first = accesses[0]
        if first.badge not in self._badge_widths:
            self._badge_widths[first.badge] = badge_size(first.badge).width()
        indent = self._badge_widths[first.badge] + self._swatch_gap
        more = f" +{len(accesses) - 1}" if len(accesses) > 1 else ""
        space = self._metrics["mono"].horizontalAdvance(more) if more else 0
        name = self._fitting(
            one_line(first.name), "mono", max(0, space_px - indent - space)
        )
        theme = self.theme
        return CellLook(
            name + more,
            color=theme.dim if first.name == NOT_AVAILABLE else theme.text,
            badge=(first.badge, space_color(first.space, theme)),
            indent=indent,
        )

    def _fitting(self, text: str, face: str, width: int) -> str:
        """Return as much of a text as fits."""
        letter = self._letter.get(face)
        if letter and text.isascii() and len(text) * letter < width - 1:
            return text
        mode = Qt.TextElideMode.ElideRight
        return self._metrics[face].elidedText(text, mode, width)

    def _area(self, box: QRect, cell: Cell, look: CellLook) -> QRect:
        """Return where the text of a cell goes in the row `box`."""
        return QRect(
            box.left() + cell.x + _PAD + look.indent,
            box.top(),
            cell.width - 2 * _PAD - look.indent,
            self.compact_height,
        )

    def _swatch_column(self) -> str:
        """Return the column with the coloured square: op, or engine without ops."""
        columns = self.model.columns
        if any(c.key == "op" for c in columns):
            return "op"
        has_engines = any(c.title == "engine" for c in columns)
        return "lane" if has_engines else ""

    # -- one row -----------------------------------------------------------

    def _paint_background(
        self, painter: QPainter, box: QRect, row: int, state: RowState
    ) -> None:
        theme = self.theme
        ground = theme.pane if row % 2 == 0 else mix(theme.pane, theme.raised, 0.35)
        if state.is_selected:
            ground = mix(ground, theme.selection, 0.2 if state.is_active else 0.11)
        elif state.is_highlighted:
            ground = mix(ground, theme.selection, 0.06)
        elif state.is_hovered:
            ground = mix(ground, theme.accent, 0.08)
        painter.fillRect(box, qcolor(ground))
        if state.is_selected:
            bar = QRect(box.left(), box.top(), scaled(3), box.height())
            painter.fillRect(bar, qcolor(theme.selection))
        elif state.is_highlighted:
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

    def _paint_shapes(
        self,
        painter: QPainter,
        box: QRect,
        cells: Sequence[Cell],
        looks: Sequence[CellLook],
    ) -> None:
        """Draw dots, squares and badges of a row."""
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        middle = box.top() + (self.compact_height - 1) // 2
        for cell, look in zip(cells, looks, strict=True):
            left = box.left() + cell.x
            if look.is_found is not None:
                place = QPointF(left + cell.width / 2, middle + 0.5)
                self._paint_dot(painter, place, is_found=look.is_found)
            if look.swatch is not None:
                size = self._swatch_size
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(qcolor(look.swatch))
                square = QRectF(left + _PAD, middle - size // 2, size, size)
                painter.drawRoundedRect(square, 2, 2)
            if look.badge is not None:
                width = cell.width - 2 * _PAD
                painter.setClipRect(left + _PAD, box.top(), width, self.compact_height)
                paint_badge(painter, left + _PAD, middle + 0.5, *look.badge)
                painter.setClipping(False)
        painter.restore()

    def _paint_dot(self, painter: QPainter, middle: QPointF, *, is_found: bool) -> None:
        """Draw a full green dot, or a grey ring: distinguished by shape as well."""
        theme = self.theme
        green = qcolor(space_color(Space.BUFFER, theme))
        painter.setPen(
            Qt.PenStyle.NoPen if is_found else QPen(qcolor(theme.faint), 1.2)
        )
        painter.setBrush(green if is_found else Qt.BrushStyle.NoBrush)
        radius = scaled(8 if is_found else 7) / 2
        painter.drawEllipse(middle, radius, radius)

    def _draw(
        self,
        painter: QPainter,
        area: QRect,
        text: str,
        face: str,
        color: int,
    ) -> None:
        painter.setFont(self._fonts[face])
        painter.setPen(qcolor(color))
        painter.drawText(area, _LEFT, text)

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
            "Destination" if is_op else "Name",
            "heading",
            yellow if theme.is_dark else theme.dim,
        )
        name = one_line(self.model.text(row, "destination"))
        self._highlight(painter, line, name, self._metrics["mono"], state)
        color = yellow if theme.is_dark else theme.text
        self._draw(painter, line, name, "mono", color)
        label.translate(0, self._line)
        line.translate(0, self._line)
        self._draw(painter, label, "Sources", "heading", theme.accent)
        if not accesses:
            waits = "accesses" in trace.pending
            text = PENDING if waits else "none recorded"
            self._draw(painter, line, text, "words", theme.dim)
            line.translate(0, self._line)
        for number, access in enumerate(accesses):
            self._paint_access(painter, line, number, access, state)
            line.translate(0, self._line)
        total = sum(a.bytes for a in accesses if a.bytes >= 0 and not a.is_write)
        known = any(a.bytes >= 0 and not a.is_write for a in accesses)
        text = (
            f"total input {format_both_bytes(total)}"
            if known
            else f"total input {NOT_AVAILABLE}"
        )
        self._draw(painter, line, text, "words", theme.dim)

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
        self._draw(painter, area, str(number), "mono", theme.dim)
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
        self._highlight(painter, area, name, self._metrics["mono"], state)
        self._draw(painter, area, name, "mono", theme.text)
        parts = [access.size, access.place]
        if access.layer != NOT_AVAILABLE:
            parts.append(f"layer {access.layer}")
        if access.expert != NOT_AVAILABLE:
            parts.append(f"expert {access.expert}")
        if access.address != NOT_AVAILABLE:
            parts.append(f"pointer {access.address}")
        used = self._metrics["mono"].horizontalAdvance(name) + scaled(16)
        area.setLeft(area.left() + max(used, scaled(220)))
        text = self._fitting(" · ".join(parts), "mono", max(0, area.width()))
        self._draw(painter, area, text, "mono", theme.dim)
