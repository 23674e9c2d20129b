"""Draw the icons of ``resources/desktop/hicolor`` from ``resources/icons``.

    .venv/bin/python packaging/make_icons.py [FOLDER]

Up to 32 pixels the program's icon is drawn anew, on whole pixels: three rows of spans
and a cursor. A large drawing that is made small is a grey blur there.
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from ggscope.assets import APPLICATION_ID

ROOT = Path(__file__).parents[1]
ICONS = ROOT / "resources" / "icons"
SIZES = (16, 22, 24, 32, 48, 64, 128, 256, 512)
NAMES = {
    "apps": (APPLICATION_ID, "ggscope.svg"),
    "mimetypes": (f"{APPLICATION_ID}.trace", "trace.svg"),
}
SMALL = 32
"""Up to this size in pixels icons are drawn on whole pixels."""
TILE, EDGE, CURSOR = "#1d2026", "#5b6472", "#f0e442"
PAPER, PAPER_EDGE, FOLD = "#fafbfc", "#8a93a1", "#c3c9d2"
ROWS = (
    ((0.0, 0.5, "#0072b2"), (0.58, 1.0, "#56b4e9")),
    ((0.0, 0.3, "#cc79a7"), (0.38, 1.0, "#e69f00")),
    ((0.0, 0.62, "#009e73"), (0.7, 1.0, "#d55e00")),
)
"""Spans of the rows of a small icon: start and end as shares of its width, colour."""


def small_app(size: int) -> str:
    """Return the program's icon for few pixels, as SVG."""
    radius = max(round(size * 0.2), 3)
    tile = (
        f'<rect x=".5" y=".5" width="{size - 1}" height="{size - 1}" rx="{radius}" '
        f'fill="{TILE}" stroke="{EDGE}"/>'
    )
    inset = max(round(size * 0.17), 3)
    cursor = round(size * 0.62)
    wide = 1 if size < 22 else 2
    line = (
        f'<rect x="{cursor}" y="{max(size // 10, 1)}" width="{wide}" '
        f'height="{size - 2 * max(size // 10, 1)}" fill="{CURSOR}"/>'
    )
    body = _spans(inset, size - inset, inset, size - inset)
    return _svg(size, tile + body + line)


def small_trace(size: int) -> str:
    """Return the icon of a trace's file for few pixels, as SVG: a sheet with spans."""
    left = round(size * 0.125)
    right, fold = size - left, round(size * 0.25)
    sheet = (
        f'<path d="M{left + 0.5} .5H{right - fold}L{right - 0.5} {fold}V{size - 0.5}'
        f'H{left + 0.5}Z" fill="{PAPER}" stroke="{PAPER_EDGE}"/>'
        f'<path d="M{right - fold} .5V{fold}H{right - 0.5}Z" fill="{FOLD}" '
        f'stroke="{PAPER_EDGE}"/>'
    )
    inset = max(size // 12, 2)
    first = fold + max(size // 12, 1)
    return _svg(size, sheet + _spans(left + inset, right - inset, first, size - inset))


def _spans(left: int, right: int, top: int, bottom: int) -> str:
    gap = max((bottom - top) // 7, 1)
    high = (bottom - top - 2 * gap) // 3
    top += (bottom - top - 3 * high - 2 * gap) // 2
    made = []
    for number, row in enumerate(ROWS):
        y = top + number * (high + gap)
        for start, end, colour in row:
            x0 = left + round(start * (right - left))
            x1 = left + round(end * (right - left))
            made.append(
                f'<rect x="{x0}" y="{y}" width="{x1 - x0}" height="{high}" '
                f'fill="{colour}"/>'
            )
    return "".join(made)


def _svg(size: int, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" '
        f'width="{size}" height="{size}">{body}</svg>'
    )


def render(svg: bytes, size: int) -> QImage:
    """Return a drawing as a picture of `size` pixels."""
    image = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(svg)).render(painter)
    painter.end()
    return image.convertToFormat(QImage.Format.Format_ARGB32)


def drawings() -> dict[str, tuple[bytes, int]]:
    """Return what is drawn: SVG and size by the path below ``hicolor``."""
    small = {"apps": small_app, "mimetypes": small_trace}
    pictures = {}
    for context, (name, source) in NAMES.items():
        large = (ICONS / source).read_bytes()
        for size in SIZES:
            svg = small[context](size).encode() if size <= SMALL else large
            pictures[f"{size}x{size}/{context}/{name}.png"] = (svg, size)
    return pictures


def main(folder: Path) -> None:
    """Write all pictures, and the drawings themselves as ``scalable``."""
    _app = QGuiApplication.instance() or QGuiApplication(["make_icons"])
    for path, (svg, size) in drawings().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        render(svg, size).save(str(target))
    for context, (name, source) in NAMES.items():
        target = folder / "scalable" / context / f"{name}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ICONS / source).read_bytes())


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Path(given[0]) if given else ROOT / "resources" / "desktop" / "hicolor")
