"""FactList: facts as labelled lines."""

from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.descriptions.spans import Fact
from ggscope.model.units import NOT_AVAILABLE
from ggscope.render.theme import Theme
from ggscope.sanitize import html, one_line, plain
from ggscope.views.base.safe_text import set_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import mono_font, qcolor, scaled, ui_font

_MAX_HEIGHTS = 2_000
"""Rows whose heights are remembered."""


class _Faces:
    """Metrics of the faces of a list, asked for once for all of its rows."""

    def __init__(self) -> None:
        self.label = QFontMetrics(ui_font(12))
        self.value = QFontMetrics(mono_font(12))
        self.text = QFontMetrics(ui_font(11.5))


@guarded
class FactList(QWidget):
    """Labels at the left, values right-aligned; exact values in tooltips.

    Painted rather than made of labels, so that showing another span never
    creates widgets and never moves anything but the text.
    """

    hovered = Signal(object)  # row number | None

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._facts: tuple[Fact, ...] = ()
        self._theme: Theme | None = None
        self.row_boxes: list[QRect] = []
        # Layouts ask for the height at the same few widths again and again.
        self._heights: dict[int, tuple[int, ...]] = {}
        self._height_of: dict[tuple[object, ...], int] = {}
        self.setMouseTracking(True)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What it shows."""
        return self._facts

    def set_facts(self, facts: tuple[Fact, ...]) -> None:
        """Show these."""
        if facts == self._facts:
            return
        self._facts = facts
        self._heights.clear()
        # Until it is painted again nobody knows which row is where.
        self.row_boxes.clear()
        text = "; ".join(f"{f.label}: {f.exact or f.value}" for f in facts)
        self.setAccessibleDescription(text)
        self.updateGeometry()
        self.update()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._theme = theme
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        """Measure anew in another font."""
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.ApplicationFontChange):
            self._heights.clear()
            self._height_of.clear()
        super().changeEvent(event)

    def hasHeightForWidth(self) -> bool:
        """Return True: long values wrap."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all rows."""
        return sum(self._row_heights(width))

    def sizeHint(self) -> QSize:
        """Return the size at a pane's usual width."""
        return QSize(scaled(240), self.heightForWidth(scaled(240)))

    def minimumSizeHint(self) -> QSize:
        """Return a width down to which values wrap."""
        return QSize(scaled(120), scaled(20))

    def _is_stacked(self, fact: Fact, width: int, faces: _Faces) -> bool:
        """Return whether a long label leaves too little space for its value."""
        label = faces.label.horizontalAdvance(fact.label)
        if label <= width * 0.4:
            return False
        value = faces.value.horizontalAdvance(fact.value)
        return label + scaled(12) + value > width

    def _value_flags(self, text: str, metrics: QFontMetrics, width: int) -> int:
        """Return how to draw a value: broken at words, where they are short enough."""
        longest = max((metrics.horizontalAdvance(w) for w in text.split()), default=0)
        wraps_at_words = longest <= width
        wrap = (
            Qt.TextFlag.TextWordWrap if wraps_at_words else Qt.TextFlag.TextWrapAnywhere
        )
        return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop | wrap)

    def _value_width(self, fact: Fact, width: int, faces: _Faces) -> int:
        if self._is_stacked(fact, width, faces):
            return max(width, scaled(60))
        label = faces.label.horizontalAdvance(fact.label)
        return max(width - label - scaled(12), scaled(60))

    def _lines(self, fact: Fact) -> tuple[tuple[str, bool], ...]:
        """Return the value's lines and whether each is a caution."""
        if fact.caution and fact.qualifier:
            number = fact.value.removesuffix(fact.qualifier).strip()
            return ((plain(number), False), (plain(fact.qualifier), True))
        return ((plain(fact.value), fact.caution),)

    def _row_heights(self, width: int) -> tuple[int, ...]:
        """Return the height of each row."""
        known = self._heights.get(width)
        if known is None:
            faces = _Faces()
            known = tuple(self._row_height(fact, width, faces) for fact in self._facts)
            self._heights[width] = known
        return known

    def _row_height(self, fact: Fact, width: int, faces: _Faces) -> int:
        # Of a list that is shown anew most rows are as before, and so is their height.
        key = (fact.label, fact.value, fact.qualifier, fact.caution, width)
        height = self._height_of.get(key)
        if height is None:
            height = self._measured_height(fact, width, faces)
            if len(self._height_of) >= _MAX_HEIGHTS:
                self._height_of.clear()
            self._height_of[key] = height
        return height

    def _measured_height(self, fact: Fact, width: int, faces: _Faces) -> int:
        is_stacked = self._is_stacked(fact, width, faces)
        total = scaled(6) + (scaled(16) if is_stacked else 0)
        space = self._value_width(fact, width, faces)
        for text, is_text_face in self._lines(fact):
            metrics = faces.text if is_text_face else faces.value
            box = metrics.boundingRect(
                QRect(0, 0, space, 10_000),
                self._value_flags(text, metrics, space),
                text or " ",
            )
            total += box.height()
        return max(total, scaled(22))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the visible rows."""
        if self._theme is None:
            return
        with QPainter(self) as painter:
            top = 0
            self.row_boxes = []
            heights = self._row_heights(self.width())
            faces = _Faces()
            for fact, height in zip(self._facts, heights, strict=True):
                box = QRect(0, top, self.width(), height)
                self.row_boxes.append(box)
                if box.intersects(event.rect()):
                    self._paint_row(painter, box, fact, self._theme, faces)
                top += height

    def _paint_row(
        self,
        painter: QPainter,
        box: QRect,
        fact: Fact,
        theme: Theme,
        faces: _Faces,
    ) -> None:
        inner = box.adjusted(0, scaled(3), 0, -scaled(3))
        painter.setFont(ui_font(12))
        painter.setPen(qcolor(theme.dim))
        # Words and figures come in two faces: share the baseline, not the top.
        baseline = inner.top() + faces.value.ascent()
        painter.drawText(inner.left(), baseline, one_line(fact.label))
        width = self._value_width(fact, box.width(), faces)
        area = QRect(inner.right() - width + 1, inner.top(), width, inner.height())
        if self._is_stacked(fact, box.width(), faces):
            area.setTop(area.top() + scaled(16))
        for text, is_text_face in self._lines(fact):
            missing = text == NOT_AVAILABLE
            painter.setFont(ui_font(11.5) if is_text_face else mono_font(12))
            color = (
                theme.caution if is_text_face else theme.dim if missing else theme.text
            )
            painter.setPen(qcolor(color))
            flags = self._value_flags(text, painter.fontMetrics(), width)
            drawn = painter.drawText(area, flags, text)
            area.setTop(area.top() + QRect(drawn).height())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show the exact value of the row under the mouse."""
        row = self.row_at(event.position())
        self.hovered.emit(row)
        if row is None:
            set_tip(self, "")
            return
        fact = self._facts[row]
        tip = fact.exact or fact.value
        set_tip(self, html("<p>{}: {}</p>", fact.label, tip))

    def leaveEvent(self, event: object) -> None:
        """Forget the row under the mouse."""
        self.hovered.emit(None)

    def row_at(self, place: QPointF) -> int | None:
        """Return the row at a position; None between rows and beyond them."""
        for row, box in enumerate(self.row_boxes):
            if box.contains(place.toPoint()):
                return row
        return None
