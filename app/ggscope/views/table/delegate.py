"""Paints the rows of the trace table, in compact and in detailed form."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPen

from ggscope.model.tables import Space
from ggscope.model.units import NOT_AVAILABLE, format_both_bytes
from ggscope.render.colors import category_color
from ggscope.render.theme import Theme, mix, with_alpha
from ggscope.text import one_line
from ggscope.views.base.cells import NONE, Column
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
from ggscope.views.table.model import TraceTableModel
from ggscope.words.spans import PENDING, AccessFact

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
