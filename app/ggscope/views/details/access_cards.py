"""What an op reads and writes: a card per source, and one for the destination."""

from PySide6.QtCore import QEvent, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.descriptions.spans import AccessFact
from ggscope.model.units import NOT_AVAILABLE, format_count
from ggscope.views.base.safe_text import set_tip, show_tip
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import (
    Themed,
    draw_elided,
    keeps_key,
    mono_font,
    paint_badge,
    qcolor,
    scaled,
    space_color,
    ui_font,
)

MAX_CARDS = 24
_CARD_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Up, Qt.Key.Key_Down)


@guarded
class AccessCards(Themed):
    """One card per source: memory, name, place, size.

    A click on a card, or Up, Down and Enter, chooses its tensor.
    """

    chosen = Signal(int)  # row of Trace.tensors

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.accesses: tuple[AccessFact, ...] = ()
        self._texts: tuple[tuple[str, tuple[str, ...]], ...] = ()
        self._current = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(scaled(120))

    def set_accesses(
        self,
        accesses: tuple[AccessFact, ...],
        texts: tuple[tuple[str, tuple[str, ...]], ...] = (),
    ) -> None:
        """Show a card per access.

        Parameters
        ----------
        texts : per access, how its place is known, and further texts.
        """
        self.accesses = accesses
        self._texts = texts or ((("", ()),) * len(accesses))
        self._current = 0
        lines = (
            ", ".join(
                (
                    *(f"{a.badge} {a.name}", a.size, _place_text(a, how)),
                    *more,
                    *([a.origin_text] if a.origin_text else []),
                )
            )
            for a, (how, more) in zip(accesses, self._texts, strict=True)
        )
        self.setAccessibleDescription("; ".join(lines))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the size of all cards."""
        n = min(len(self.accesses), MAX_CARDS)
        more = scaled(20) if len(self.accesses) > MAX_CARDS else 0
        return QSize(scaled(240), n * self._pitch() + more)

    def minimumSizeHint(self) -> QSize:
        """Return the least width at full height."""
        return QSize(scaled(120), self.sizeHint().height())

    def _pitch(self) -> int:
        return scaled(66)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the exposed cards."""
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            for row, access in enumerate(self.accesses[:MAX_CARDS]):
                top = row * self._pitch()
                box = QRect(0, top, self.width(), self._pitch() - scaled(8))
                if box.intersects(event.rect()):
                    self._paint_card(painter, box, row, access)
            hidden = len(self.accesses) - MAX_CARDS
            if hidden > 0:
                painter.setFont(ui_font(12))
                painter.setPen(qcolor(self._theme.dim))
                text = f"and {format_count(hidden)} more"
                painter.drawText(QPoint(0, self.height() - scaled(6)), text)

    def _paint_card(
        self, painter: QPainter, box: QRect, row: int, access: AccessFact
    ) -> None:
        theme = self._theme
        how, more = self._texts[row]
        has_ring = self.hasFocus() and row == self._current
        painter.setPen(qcolor(theme.accent) if has_ring else Qt.PenStyle.NoPen)
        painter.setBrush(qcolor(theme.raised))
        inner = QRectF(box).adjusted(0.5, 0.5, -0.5, -0.5) if has_ring else QRectF(box)
        painter.drawRoundedRect(inner, 6, 6)
        pad = scaled(10)
        line = scaled(16)
        first = box.top() + scaled(7)
        right = paint_badge(
            painter,
            box.left() + pad,
            first + line / 2,
            access.badge,
            space_color(access.space, theme),
        )
        left = round(right) + scaled(8)
        text_box = QRect(left, first, box.right() - pad - left, line)
        bold = mono_font(12, bold=True)
        draw_elided(painter, text_box, access.name, bold, theme.text)
        text_box = QRect(box.left() + pad, first + line, box.width() - 2 * pad, line)
        place = _place_text(access, how)
        draw_elided(painter, text_box, place, mono_font(11), theme.dim)
        text_box.translate(0, line)
        # The origin takes the space of what the tooltip has as well.
        texts = [access.size, *([access.origin] if access.origin else more)]
        if access.layer != NOT_AVAILABLE:
            texts.append(f"layer {access.layer}")
        if access.expert != NOT_AVAILABLE:
            texts.append(f"expert {access.expert}")
        draw_elided(painter, text_box, " · ".join(texts), ui_font(11.5), theme.dim)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose the tensor of the card that was clicked."""
        row = int(event.position().y()) // self._pitch()
        if event.button() == Qt.MouseButton.LeftButton and self.rect().contains(
            event.position().toPoint()
        ):
            self._choose(row)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show by the cursor that a card can be clicked."""
        row = int(event.position().y()) // self._pitch()
        hand, arrow = Qt.CursorShape.PointingHandCursor, Qt.CursorShape.ArrowCursor
        self.setCursor(hand if self._tensor_at(row) >= 0 else arrow)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go from card to card by Up and Down; Enter chooses."""
        step = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(Qt.Key(event.key()))
        last = min(len(self.accesses), MAX_CARDS) - 1
        if step is not None and 0 <= self._current + step <= last:
            self._current += step
            self.update()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self._current)
        else:
            super().keyPressEvent(event)

    def _tensor_at(self, row: int) -> int:
        inside = 0 <= row < min(len(self.accesses), MAX_CARDS)
        return self.accesses[row].tensor if inside else -1

    def _choose(self, row: int) -> None:
        tensor = self._tensor_at(row)
        if tensor >= 0:
            self.chosen.emit(tensor)

    def event(self, event: QEvent) -> bool:
        """Show the tooltip of the card under the mouse; take Enter for the cards."""
        if keeps_key(event, lambda e: Qt.Key(e.key()) in _CARD_KEYS):
            return True
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            row = event.pos().y() // self._pitch()
            if 0 <= row < min(len(self.accesses), MAX_CARDS):
                how, more = self._texts[row]
                text = card_tip(self.accesses[row], how, more)
                show_tip(event.globalPos(), text, self)
                return True
        return super().event(event)


def _place_text(access: AccessFact, how: str) -> str:
    """Return the place of an access and how it is known: "offset 0x00 (from trace)"."""
    return f"{access.place} ({how})" if how else access.place


def card_tip(access: AccessFact, how: str = "", more: tuple[str, ...] = ()) -> str:
    """Return all that is known of an access, one fact per line."""
    facts = (
        ("", access.name),
        ("memory", access.badge),
        ("size", access.exact_size),
        ("place", _place_text(access, how)),
        *(("bytes of", text) for text in access.of_range),
        *(("page cache", text) for text in [access.origin_text] if text),
        *(("tensor", " · ".join(more)) for _ in more[:1]),
        ("layer", access.layer),
        ("expert", access.expert),
        ("pointer", access.address),
    )
    return "\n".join(f"{label}: {value}" if label else value for label, value in facts)


@guarded
class TargetCard(Themed):
    """The destination tensor: name at the left, size at the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = self._size = ""
        self.setFixedHeight(scaled(32))
        self.setAccessibleName("Destination")

    def set_tensor(self, name: str, size: str, exact: str) -> None:
        """Show a tensor; unknown parts read "N/A"."""
        self.name, self._size = name, size
        self.setAccessibleDescription(f"{name}, {size}")
        set_tip(self, f"{name}\n{exact or size}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the card."""
        theme = self._theme
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(qcolor(theme.raised))
            painter.drawRoundedRect(QRectF(self.rect()), 6, 6)
            box = self.rect().adjusted(scaled(10), 0, -scaled(10), 0)
            font = ui_font(11.5)
            painter.setFont(font)
            painter.setPen(qcolor(theme.dim))
            middle = Qt.AlignmentFlag.AlignVCenter
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | middle, self._size)
            used = QFontMetrics(font).horizontalAdvance(self._size) + scaled(8)
            color = theme.selection if theme.is_dark else theme.text
            bold = mono_font(12, bold=True)
            draw_elided(painter, box.adjusted(0, 0, -used, 0), self.name, bold, color)
