"""Figures: the one way in which a picture becomes a file; no display is needed."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QCoreApplication,
    QIODevice,
    QMarginsF,
    QRect,
    QSize,
    QSizeF,
)
from PySide6.QtGui import (
    QGuiApplication,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
)
from PySide6.QtSvg import QSvgGenerator

from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList
from ggscope.render.painter import paint
from ggscope.text import one_line, plain
from ggscope.writing import write_file

CSS_DPI = 96.0
"""Device-independent pixels per inch."""
MAX_PIXELS = 32_767
"""Longest side of a picture that QImage and common viewers handle."""
_FAMILY = re.compile(r'font-family="([^"]*)"')
_application: QGuiApplication | None = None


def ensure_gui_application() -> QGuiApplication:
    """Return the running QGuiApplication, or make one that needs no display.

    Raises
    ------
    ExportError
        If a QCoreApplication without graphics is already running.
    """
    global _application
    running = QCoreApplication.instance()
    if running is None:
        _application = QGuiApplication(["ggscope", "-platform", "offscreen"])
        return _application
    if not isinstance(running, QGuiApplication):
        raise ExportError(
            "A figure needs a QGuiApplication, but one without graphics is running."
        )
    return running


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a figure is to look, whatever it shows.

    Attributes
    ----------
    size : width and height in device-independent pixels (96 per inch); None = what
        the figure wants.
    dpi : dots per inch: a PNG has ``size * dpi / 96`` pixels.
    theme : name of its colours.
    title : what stands over it; None = what the figure says of itself, "" = nothing.
    suffix : of the file that it goes to.
    """

    size: tuple[int, int] | None = None
    dpi: float = CSS_DPI
    theme: str = "light"
    title: str | None = None
    suffix: str = ".png"

    @property
    def scale(self) -> float:
        """Pixels per device-independent pixel."""
        return self.dpi / CSS_DPI

    def size_or(self, width: float, height: float) -> tuple[float, float]:
        """Return the size, or this one where none is asked for."""
        return (width, height) if self.size is None else self.size


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A figure that is composed.

    Attributes
    ----------
    title, description : of the file; readers of screens and catalogues show them.
    """

    picture: DisplayList
    title: str
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A picture on its way out of the program: window, command line and tests.

    Attributes
    ----------
    name : what it shows, a part of file names.
    draw : composes it; runs on any thread, and says by an ExportError why it cannot.
    look : as it stands where it comes from.
    texts : what writes it as a text instead, by suffix.
    """

    name: str
    draw: Callable[[Look], Drawn]
    look: Look = Look()
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)

    def write(
        self, path: Path | str, look: Look | None = None, *, overwrite: bool = True
    ) -> None:
        """Write it; the suffix of `path` says as what.

        Raises
        ------
        ExportError
            If there is nothing to draw, the suffix is unknown or the file cannot be
            written.
        """
        target, look = Path(path), look or self.look
        check_suffix(target, tuple(self.texts))
        suffix = target.suffix.lower()
        if suffix in self.texts:
            content = self.texts[suffix]().encode("utf-8")
            write_file(target, content, overwrite=overwrite)
            return
        ensure_gui_application()
        drawn = self.draw(replace(look, suffix=suffix))
        export_display_list(
            drawn.picture,
            target,
            title=drawn.title,
            description=drawn.description,
            dpi=look.dpi,
            overwrite=overwrite,
        )

    def image(self) -> QImage:
        """Return it as it stands where it comes from, as pixels; on any thread.

        Raises ExportError as `write` does.
        """
        ensure_gui_application()
        return render_image(self.draw(self.look).picture, self.look.dpi)


def export_display_list(
    picture: DisplayList,
    path: Path | str,
    *,
    title: str = "",
    description: str = "",
    dpi: float = CSS_DPI,
    overwrite: bool = True,
) -> None:
    """Write a picture; the suffix of `path` says as what.

    The file appears whole or not at all; one that is there is replaced only if
    `overwrite`. See `ggscope.writing`.

    Raises
    ------
    ExportError
        If the suffix is unknown, the picture is too large, or the file cannot be
        written.
    """
    target = Path(path)
    check_suffix(target)
    ensure_gui_application()
    words = one_line(title), one_line(description)
    content = _WRITERS[target.suffix.lower()](picture, *words, dpi)
    write_file(target, content, overwrite=overwrite)


def check_suffix(target: Path, more: tuple[str, ...] = ()) -> None:
    """Raise ExportError where the suffix is neither that of a figure nor in `more`."""
    known = (*_WRITERS, *more)
    if target.suffix.lower() not in known:
        raise ExportError(
            f"{target.name}: a figure can be {', '.join(known)}, not "
            f"{target.suffix or 'a file without a suffix'!s}."
        )


def render_image(picture: DisplayList, dpi: float | None = None) -> QImage:
    """Return the picture as an image of ``size * picture.scale`` pixels.

    Raises
    ------
    ExportError
        If a side is longer than MAX_PIXELS or memory does not suffice.
    """
    width = max(round(picture.width * picture.scale), 1)
    height = max(round(picture.height * picture.scale), 1)
    if max(width, height) > MAX_PIXELS:
        raise ExportError(
            f"A picture of {width} × {height} pixels is too large; "
            f"{MAX_PIXELS} are possible per side. Use a smaller size or dpi."
        )
    image = QImage(width, height, QImage.Format.Format_RGB32)
    if image.isNull():
        raise ExportError(f"There is no memory for {width} × {height} pixels.")
    image.setDevicePixelRatio(picture.scale)
    per_metre = round((dpi or CSS_DPI * picture.scale) / 0.0254)
    image.setDotsPerMeterX(per_metre)
    image.setDotsPerMeterY(per_metre)
    painter = QPainter(image)
    try:
        paint(picture, painter)
    finally:
        painter.end()
    return image


def _png(picture: DisplayList, title: str, description: str, dpi: float) -> bytes:
    image = render_image(picture, dpi)
    image.setDevicePixelRatio(1.0)
    image.setText("Title", title)
    image.setText("Description", description)
    image.setText("Software", "ggscope")
    buffer = _buffer()
    # The first argument is typed as a name, but a device is taken as well.
    if not image.save(buffer, "PNG"):  # type: ignore[call-overload]
        raise ExportError("The picture could not be encoded as PNG.")
    return _content(buffer)


def _svg(picture: DisplayList, title: str, description: str, dpi: float) -> bytes:
    buffer = _buffer()
    # Tiny 1.2, the default, drops clipping.
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    size = QSize(round(picture.width), round(picture.height))
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setResolution(round(CSS_DPI))
    generator.setTitle(title)
    generator.setDescription(description)
    _paint_vector(picture, generator)
    # Texts are drawn as `one_line` shows them; this holds for whatever Qt adds.
    text = plain(_content(buffer).decode("utf-8", "replace"))
    return _FAMILY.sub(_css_family, text).encode()


def _css_family(found: re.Match[str]) -> str:
    """Return a family that a browser knows too: Qt names just the one of this system.

    "Sans Serif" and "Monospace" are Qt's aliases and no families of CSS.
    """
    name = found[1].strip("' ")
    is_mono = "mono" in name.lower() or "courier" in name.lower()
    generic = "monospace" if is_mono else "sans-serif"
    if name.lower() in ("", "sans serif", "sans-serif", "sans", "monospace"):
        return f'font-family="{generic}"'
    return f"font-family=\"'{name}', {generic}\""


def _pdf(picture: DisplayList, title: str, description: str, dpi: float) -> bytes:
    buffer = _buffer()
    writer = QPdfWriter(buffer)
    writer.setTitle(title)
    writer.setCreator("ggscope")
    points = QSizeF(picture.width * 72 / CSS_DPI, picture.height * 72 / CSS_DPI)
    writer.setPageLayout(
        QPageLayout(
            QPageSize(
                points, QPageSize.Unit.Point, "", QPageSize.SizeMatchPolicy.ExactMatch
            ),
            QPageLayout.Orientation.Portrait,
            QMarginsF(0, 0, 0, 0),
        )
    )
    writer.setResolution(round(CSS_DPI))
    _paint_vector(picture, writer)
    return _content(buffer)


def _paint_vector(picture: DisplayList, device: QSvgGenerator | QPdfWriter) -> None:
    painter = QPainter()
    if not painter.begin(device):
        raise ExportError("The figure could not be started.")
    try:
        paint(picture, painter, vector=True)
    finally:
        painter.end()


def _buffer() -> QBuffer:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.ReadWrite)
    return buffer


def _content(buffer: QBuffer) -> bytes:
    data: QByteArray = buffer.data()
    return bytes(data.data())


def trace_title(trace: Trace) -> str:
    """Return the name of a trace's file and its format, for over a figure."""
    return f"{trace_name(trace)} · {trace.info.format}"


def trace_name(trace: Trace) -> str:
    """Return the name of a trace's first file."""
    return trace.info.paths[0].name if trace.info.paths else "trace"


_WRITERS: dict[str, Callable[[DisplayList, str, str, float], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".pdf": _pdf,
}
SUFFIXES = tuple(_WRITERS)
"""What a figure can be written as."""
