"""Bytes in hexadecimal and as text."""

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from ggscope.render.theme import with_alpha
from ggscope.views.base.view import guarded
from ggscope.views.base.widgets import Themed, mono_font, qcolor, scaled

_PRINTABLE = range(0x20, 0x7F)


@guarded
class HexView(Themed):
    """Shows bytes as ``xxd`` does: offset in the file, hexadecimal, text.

    It fits as many bytes into a line as the width allows: 16, 8 or 4.

    Attributes
    ----------
    marked : the highlighted bytes.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._data = b""
        self._offset = 0
        self.marked = range(0)
        policy = QSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Bytes of the record")

    def set_data(self, data: bytes, offset: int = 0) -> None:
        """Show `data`; `offset` is where it lies in the file."""
        self._data, self._offset = data, offset
        self.marked = range(0)
        self.setAccessibleDescription(data[:64].hex(" "))
        self.updateGeometry()
        self.update()

    def mark(self, first: int, length: int) -> None:
        """Highlight `length` bytes from `first` on; nothing for a length of 0."""
        self.marked = range(max(first, 0), max(first, 0) + max(length, 0))
        self.update()

    def lines(self) -> list[str]:
        """Return what is shown, line by line, as text."""
        n = self.bytes_per_line
        wide = 3 * n - 1
        return [
            f"{self._place(i)} {self._hex(i, n):<{wide}} {self._text(i, n)}"
            for i in range(0, len(self._data), n)
        ]

    @property
    def bytes_per_line(self) -> int:
        """How many bytes fit into a line of the current width."""
        for n in (16, 8):
            if self._line_width(n) <= self.width():
                return n
        return 4

    def _digits(self) -> int:
        """Return the digits of the offsets: as few as the last one needs, even."""
        n = len(f"{self._offset + len(self._data):x}")
        return max(4, n + n % 2)

    def _place(self, first: int) -> str:
        return f"{self._offset + first:0{self._digits()}x}"

    def _hex(self, first: int, n: int) -> str:
        return self._data[first : first + n].hex(" ")

    def _text(self, first: int, n: int) -> str:
        part = self._data[first : first + n]
        return "".join(chr(b) if b in _PRINTABLE else "." for b in part)

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(mono_font(10.5))

    def _line_width(self, n: int) -> int:
        n_chars = self._digits() + 1 + 3 * n + n
        return self._metrics().horizontalAdvance("0") * n_chars

    def _line_height(self) -> int:
        return scaled(16)

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines."""
        n = next((n for n in (16, 8) if self._line_width(n) <= width), 4)
        return -(-len(self._data) // n) * self._line_height()

    def sizeHint(self) -> QSize:
        """Return the size at the current width."""
        return QSize(self._line_width(8), self.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:
        """Return the width of the narrowest form and the height of the current."""
        return QSize(self._line_width(4), self.heightForWidth(self.width()))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit more or fewer bytes into a line."""
        self.updateGeometry()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the exposed lines."""
        with QPainter(self) as painter:
            painter.setFont(mono_font(10.5))
            height, n = self._line_height(), self.bytes_per_line
            char = self._metrics().horizontalAdvance("0")
            first = max(0, event.rect().top() // height)
            last = min(-(-len(self._data) // n), event.rect().bottom() // height + 1)
            for line in range(first, last):
                self._paint_line(painter, line, n, char)

    def _paint_line(self, painter: QPainter, line: int, n: int, char: int) -> None:
        theme, height = self._theme, self._line_height()
        begin, top = line * n, line * self._line_height()
        hex_left = (self._digits() + 1) * char
        text_left = hex_left + 3 * n * char
        middle = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        marked = [k for k in range(n) if begin + k in self.marked]
        if marked:
            tint = qcolor(with_alpha(theme.accent, 0.3))
            low, n_marked = marked[0], len(marked)
            wide = (3 * n_marked - 1) * char
            painter.fillRect(QRect(hex_left + 3 * low * char, top, wide, height), tint)
            wide = n_marked * char
            painter.fillRect(QRect(text_left + low * char, top, wide, height), tint)
        for left, text, color in (
            (0, self._place(begin), theme.dim),
            (hex_left, self._hex(begin, n), theme.text),
            (text_left, self._text(begin, n), theme.dim),
        ):
            painter.setPen(qcolor(color))
            box = QRect(left, top, max(0, self.width() - left), height)
            painter.drawText(box, middle, text)
