"""Figures: the one way in which a picture becomes a file; no display is needed."""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from uuid import UUID

from PySide6.QtCore import (
    QBuffer,
    QByteArray,
    QCoreApplication,
    QHashSeed,
    QIODevice,
    QMarginsF,
    QRectF,
    QSize,
    QSizeF,
)
from PySide6.QtGui import (
    QFontInfo,
    QGuiApplication,
    QImage,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
)
from PySide6.QtSvg import QSvgGenerator

from ggscope.atomic_write import write_file
from ggscope.errors import ExportError, SuffixError
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes
from ggscope.readers.memory import available_bytes
from ggscope.render.batch import DisplayList, Face
from ggscope.render.figure_style import (
    CSS_DPI,
    DESIGN_PX,
    FigureStyle,
    Length,
    style_arguments,
)
from ggscope.render.painter import paint
from ggscope.render.text_metrics import END_ISOLATE, ISOLATE, font
from ggscope.sanitize import json_text, one_line, plain

_MIN_WIDTH, _MIN_HEIGHT = 80, 32
"""In pixels of the design: a word beside a picture, and two lines of them."""
MAX_PIXELS = 32_767
"""Longest side of a picture that QImage and common viewers handle."""
_BYTES_PER_PIXEL = 8
_FAMILY = re.compile(r'font-family="([^"]*)"')
_BLANK_TEXT = re.compile(r"<text\b[^>]*>\s*</text>\s*")
_SHAPES = re.compile(r"<g fill=.*?</g>", re.DOTALL)
_FONT = re.compile(
    r'\nfont-family="[^"]*" font-size="[^"]*" font-weight="[^"]*" font-style="[^"]*"'
)
_EMPTY = re.compile(r'(?:<g clip-path="[^"]*">)?<g [^<>]*>\n</g>\n(?:</g>\n)?\n')
_CLIP = re.compile(r'<clipPath id="(clipPath\d+)">\n(.*?)</clipPath>\n', re.DOTALL)
_SANS = ("DejaVu Sans", "Noto Sans", "Liberation Sans", "Helvetica", "Arial")
_MONO = ("DejaVu Sans Mono", "Liberation Mono", "Menlo", "Consolas")
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


@dataclass(frozen=True, slots=True, eq=False)
class RenderedFigure:
    """A figure that is composed.

    Attributes
    ----------
    title, description : of the file; readers of screens and catalogues show them.
        The description says what is shown, of which file and range.
    left_out : whole sentences on what there was no room for, or was hidden.
    own_title : the one that the user gave it; "" = none.
    """

    picture: DisplayList
    title: str
    description: str = ""
    left_out: tuple[str, ...] = ()
    own_title: str = ""

    @property
    def caption(self) -> str:
        """What belongs under the figure: what it shows, and what it leaves out."""
        title = one_line(self.own_title)
        head = f"{title.rstrip('.')}." if title else ""
        parts = (head, one_line(self.description), *map(one_line, self.left_out))
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, eq=False)
class ExportCommand:
    """What ``ggscope export`` needs to make the same figure again.

    Attributes
    ----------
    view : as the command line calls it.
    paths : the files; the first one is opened, with the others beside it.
    options : of the figure, as `read_options` takes them; what has the
        value of its default is left out.
    flags : further options of the command line, such as ``--range``.
    seen : as `options`, those that only what is seen has.
    lacks : sentences on what no command line can say of this figure.
    other : what a comparison has as its other side.
    """

    view: str
    paths: tuple[Path, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    seen: Mapping[str, object] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    other: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command line, as a shell takes it.

    Attributes
    ----------
    text : one line for a POSIX shell.
    lacks : sentences on what it does not draw as the window does; () = the same
        pixels.
    """

    text: str
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A picture on its way out of the program: window, command line and tests.

    Attributes
    ----------
    name : what it shows, a part of file names.
    draw : composes it; runs on any thread, and says by an ExportError why it cannot.
    style : as it stands where it comes from.
    texts : what writes it as a text instead, by suffix.
    recipe : how the command line makes it; None where it cannot.
    """

    name: str
    draw: Callable[[FigureStyle], RenderedFigure]
    style: FigureStyle = field(default_factory=FigureStyle)
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    recipe: ExportCommand | None = None

    def command(self, target: Path | str, style: FigureStyle | None = None) -> Command:
        """Return the command line that writes the same pixels to `target`.

        Raises
        ------
        ExportError
            If no command line makes this figure.
        """
        recipe, style = self.recipe, style or self.style
        if recipe is None or not recipe.paths:
            raise ExportError("This figure comes from no file that could be named.")
        options = dict(recipe.options)
        if style.seen:
            options |= recipe.seen
        arguments = ["ggscope", "export", "--view", recipe.view, *recipe.flags]
        if options:
            arguments += ["--options", json_text(options)]
        arguments += ["--seen"] * style.seen
        arguments += [*style_arguments(style), "-o", str(target)]
        for path in recipe.paths[1:]:
            arguments += ["--with", str(path)]
        arguments += ["--", str(recipe.paths[0]), *map(str, recipe.other)]
        return Command(shlex.join(arguments), recipe.lacks)

    def write(
        self,
        path: Path | str,
        style: FigureStyle | None = None,
        *,
        overwrite: bool = True,
    ) -> str:
        """Write it and return its caption; the suffix of `path` says as what.

        Raises
        ------
        ExportError
            If there is nothing to draw, the suffix is unknown or the file cannot be
            written.
        """
        target, style = Path(path), style or self.style
        check_suffix(target, tuple(self.texts))
        suffix = target.suffix.lower()
        if suffix in self.texts:
            content = self.texts[suffix]().encode("utf-8")
            write_file(target, content, overwrite=overwrite)
            return ""
        ensure_gui_application()
        check_size(style)
        drawn = self.draw(replace(style, suffix=suffix))
        export_display_list(
            drawn.picture,
            target,
            title=drawn.title,
            description=drawn.description,
            dpi=style.dpi,
            paper=style.width,
            transparent=style.transparent,
            overwrite=overwrite,
        )
        return drawn.caption

    def png(self, style: FigureStyle) -> tuple[bytes, RenderedFigure]:
        """Return it as the content of a PNG file, and what that shows; see `write`."""
        ensure_gui_application()
        drawn = self.draw(style)
        texts = one_line(drawn.title), one_line(drawn.description)
        return png_bytes(drawn.picture, *texts, style.dpi), drawn

    def image(self, style: FigureStyle | None = None) -> QImage:
        """Return it as pixels; on any thread. None = as it stands where it comes from.

        Raises ExportError as `write` does.
        """
        ensure_gui_application()
        style = style or self.style
        check_size(style)
        picture = self.draw(style).picture
        return render_image(picture, style.dpi, transparent=style.transparent)


def export_display_list(
    picture: DisplayList,
    path: Path | str,
    *,
    title: str = "",
    description: str = "",
    dpi: float = CSS_DPI,
    paper: Length | None = None,
    transparent: bool = False,
    overwrite: bool = True,
) -> None:
    """Write a picture; the suffix of `path` says as what.

    Its pixels are those of a PNG with `dpi` dots per inch; that is its size on paper.
    What has no pixels becomes as wide as `paper`, where that is given.

    The file appears whole or not at all; one that is there is replaced only if
    `overwrite`. See `ggscope.atomic_write`.

    Raises
    ------
    ExportError
        If the suffix is unknown, the picture is too large, or the file cannot be
        written.
    """
    target = Path(path)
    check_suffix(target)
    ensure_gui_application()
    if transparent:
        picture = replace(picture, background=picture.background & 0xFFFFFF)
    texts = one_line(title), one_line(description)
    suffix, zoom = target.suffix.lower(), picture.scale * CSS_DPI / dpi
    if paper is not None:  # a side of whole pixels is a hair off
        zoom = paper.inches(dpi) * CSS_DPI / picture.width
    measure = dpi if suffix == ".png" else zoom
    content = _WRITERS[suffix](picture, *texts, measure)
    write_file(target, content, overwrite=overwrite)


def check_size(style: FigureStyle) -> None:
    """Raise ExportError for a style too large to be composed, or too small to be read.

    See `render_image` for what is too large.
    """
    width, height = style.pixels(style.width), style.pixels(style.height)
    if max(width or 0, height or 0) > MAX_PIXELS:
        _refuse_size(width, height)
    for side, pixels, min_px in (
        ("width", width, _MIN_WIDTH),
        ("height", height, _MIN_HEIGHT),
    ):
        if pixels is not None and pixels < round(min_px * style.scale):
            points = DESIGN_PX * style.zoom * 72 / CSS_DPI
            raise ExportError(
                f"A {side} of {pixels} pixels is too small for a font of "
                f"{points:.3g} pt at {style.dpi:g} dots per inch. Use "
                f"{round(min_px * style.scale)} pixels or more, or a smaller font."
            )


def _refuse_size(width: int | None, height: int | None) -> NoReturn:
    sides = " × ".join("any" if side is None else str(side) for side in (width, height))
    raise ExportError(
        f"A picture of {sides} pixels is too large; {MAX_PIXELS} are possible per "
        "side. Use a smaller size or dpi."
    )


def check_suffix(target: Path, more: tuple[str, ...] = ()) -> None:
    """Raise SuffixError where the suffix is neither that of a figure nor in `more`."""
    known = (*_WRITERS, *more)
    if target.suffix.lower() not in known:
        raise SuffixError("a figure", known, target)


def render_image(
    picture: DisplayList, dpi: float | None = None, *, transparent: bool = False
) -> QImage:
    """Return the picture as an image of ``size * picture.scale`` pixels.

    A background that is `transparent`, or not opaque, stays so.

    Raises
    ------
    ExportError
        If a side is longer than MAX_PIXELS or memory does not suffice.
    """
    width = max(round(picture.width * picture.scale), 1)
    height = max(round(picture.height * picture.scale), 1)
    if max(width, height) > MAX_PIXELS:
        _refuse_size(width, height)
    # The picture itself, and what its encoding takes.
    needed, free = width * height * _BYTES_PER_PIXEL, available_bytes()
    if needed > free:
        raise ExportError(
            f"A picture of {width} × {height} pixels needs {format_bytes(needed)} of "
            f"memory; {format_bytes(free)} are free. Use a smaller size or dpi."
        )
    if transparent:
        picture = replace(picture, background=picture.background & 0xFFFFFF)
    is_opaque = picture.background >> 24 == 255
    form = QImage.Format.Format_RGB32 if is_opaque else QImage.Format.Format_ARGB32
    image = QImage(width, height, form)
    if image.isNull():
        raise ExportError(f"There is no memory for {width} × {height} pixels.")
    if not is_opaque:
        image.fill(0)
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


def png_bytes(
    picture: DisplayList, title: str = "", description: str = "", dpi: float = CSS_DPI
) -> bytes:
    """Return the picture as a PNG. Raises ExportError as `render_image`."""
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


def _svg(picture: DisplayList, title: str, description: str, zoom: float) -> bytes:
    buffer = _buffer()
    # Tiny 1.2, the default, drops clipping.
    generator = QSvgGenerator(QSvgGenerator.SvgVersion.Svg11)
    generator.setOutputDevice(buffer)
    generator.setSize(QSize(round(picture.width), round(picture.height)))
    generator.setViewBox(QRectF(0, 0, picture.width, picture.height))
    generator.setResolution(round(CSS_DPI))
    generator.setTitle(title)
    generator.setDescription(description)
    _paint_vector(picture, generator)
    text = _content(buffer).decode("utf-8", "replace")
    # Qt has put each run of letters into an element of its own; hidden characters
    # would be copied with the text. Those of names are spelled already.
    text = text.replace(ISOLATE, "").replace(END_ISOLATE, "")
    # Where only another font has such a character, it was a run of its own.
    text = _BLANK_TEXT.sub("", text)
    # Texts are drawn as `one_line` shows them; this holds for whatever Qt adds.
    text = plain(text)
    # Qt rounds the size to whole pixels; on paper a column is 88 mm wide.
    per_mm = zoom * 25.4 / CSS_DPI
    for name, side in (("width", picture.width), ("height", picture.height)):
        size = f'\\1="{side * per_mm:.6g}mm"'
        text = re.sub(rf'(<svg\b[^>]*?\b{name})="[^"]*"', size, text, count=1)
    text = css_families(_without_repeats(text))
    return text.encode()


def _without_repeats(svg: str) -> str:
    """Return an SVG of Qt without what says nothing: it repeats all for each shape."""

    def short(match: re.Match[str]) -> str:
        block: str = match[0]
        return block if "<text" in block else _FONT.sub("", block)

    svg = _SHAPES.sub(short, svg)
    for nothing in (' transform="matrix(1,0,0,1,0,0)"', ' vector-effect="none"'):
        svg = svg.replace(nothing, "")
    svg = svg.replace(' fill-opacity="1"', "").replace(' stroke-opacity="1"', "")
    svg = _EMPTY.sub("", svg.replace(" \n>\n", ">\n").replace("\n>\n", ">\n"))
    first: dict[str, str] = {}
    for name, path in _CLIP.findall(svg):
        earlier = first.setdefault(path, name)
        if earlier != name:
            svg = svg.replace(f'"url(#{name})"', f'"url(#{earlier})"')
    return _CLIP.sub(lambda match: match[0] if first[match[2]] == match[1] else "", svg)


def css_families(svg: str) -> str:
    """Name each family of fonts as CSS does, with what replaces one that is missing."""
    return _FAMILY.sub(_css_family, svg)


def _css_family(match: re.Match[str]) -> str:
    """Return a list of families that ends in one that every browser has.

    The first is the one that was measured. Qt may name it by an alias that is no
    family of CSS, such as "Sans Serif".
    """
    name = match[1].strip("' ")
    is_mono = "mono" in name.lower() or "courier" in name.lower()
    if name.lower() in ("", "sans serif", "sans-serif", "sans", "monospace"):
        name = QFontInfo(font(Face.MONO if is_mono else Face.UI, 12.0)).family()
    usual = _MONO if is_mono else _SANS
    names = [name.replace("'", ""), *(known for known in usual if known != name)]
    listed = ", ".join(f"'{known}'" for known in names if known)
    return f'font-family="{listed}, {"monospace" if is_mono else "sans-serif"}"'


def _pdf(picture: DisplayList, title: str, description: str, zoom: float) -> bytes:
    buffer = _buffer()
    writer = QPdfWriter(buffer)
    writer.setTitle(title)
    writer.setCreator("ggscope")
    points = QSizeF(picture.width, picture.height) * (zoom * 72 / CSS_DPI)
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
    with _fixed_hashes(_fixed_time() is not None):
        _paint_vector(picture, writer, zoom)
    content = sized_pdf(_content(buffer), points.width(), points.height())
    stamp = _fixed_time()
    return content if stamp is None else dated_pdf(content, stamp)


def sized_pdf(content: bytes, width: float, height: float) -> bytes:
    """Return a PDF of one page with its exact size in points; Qt rounds it."""

    def sized(match: re.Match[bytes]) -> bytes:
        top = float(match[1])
        box = f"/MediaBox [0 {top - height:.4f} {width:.4f} {top:g}]".encode()
        return box.ljust(len(match[0]))

    box = rb"/MediaBox \[0 0 [\d.]+ ([\d.]+)\]"
    return re.sub(box, sized, content, count=1)


def dated_pdf(content: bytes, stamp: datetime) -> bytes:
    """Return a PDF with another date, and an id that follows from what it holds.

    Everything keeps its place: the file states where its parts begin.
    """

    def replaced(text: bytes) -> Callable[[re.Match[bytes]], bytes]:
        return lambda match: (match[1] + text + match[2]).ljust(len(match[0]))

    content = re.sub(
        rb"(/(?:CreationDate|ModDate) \()D:[^)]*(\))",
        replaced(stamp.strftime("D:%Y%m%d%H%M%SZ").encode()),
        content,
    )
    content = re.sub(
        rb'(xmp:(?:Create|Modify|Metadata)Date=")[^"]*(")',
        replaced(stamp.strftime("%Y-%m-%dT%H:%M:%SZ").encode()),
        content,
    )
    match = re.search(rb'xmpMM:DocumentID="uuid:([^"]*)"', content)
    if match is None:
        return content
    old = match[1]
    blank = content.replace(old, bytes(len(old))).replace(
        old.hex().encode(), bytes(2 * len(old))
    )
    new = str(UUID(bytes=sha256(blank).digest()[:16], version=4)).encode()
    content = content.replace(old, new)
    return content.replace(old.hex().encode(), new.hex().encode())


def _fixed_time() -> datetime | None:
    """Return the time that SOURCE_DATE_EPOCH asks files to be dated with, or None."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "").strip()
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ExportError(
            f"SOURCE_DATE_EPOCH is {epoch!r}; it must be a number of seconds."
        ) from error


@contextmanager
def _fixed_hashes(is_fixed: bool) -> Iterator[None]:
    """Let the tables of Qt have one order: that of glyphs in fonts follows it."""
    if not is_fixed:
        yield
        return
    QHashSeed.setDeterministicGlobalSeed()
    try:
        yield
    finally:
        QHashSeed.resetRandomGlobalSeed()


def _paint_vector(
    picture: DisplayList, device: QSvgGenerator | QPdfWriter, zoom: float = 1.0
) -> None:
    painter = QPainter()
    if not painter.begin(device):
        raise ExportError("The figure could not be started.")
    try:
        painter.scale(zoom, zoom)
        # A PDF holds pictures as JPEG otherwise.
        painter.setRenderHint(QPainter.RenderHint.LosslessImageRendering)
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


def trace_name(trace: Trace) -> str:
    """Return what a trace is called in a figure: its folder, or its first file."""
    if trace.info.folder is not None:
        return trace.info.folder.resolve().name
    return trace.info.paths[0].name if trace.info.paths else "trace"


_WRITERS: dict[str, Callable[[DisplayList, str, str, float], bytes]] = {
    ".png": png_bytes,
    ".svg": _svg,
    ".pdf": _pdf,
}
NOT_MARKED = "The command leaves out what is selected."
"""A thing that a `ExportCommand` may lack."""
SUFFIXES = tuple(_WRITERS)
"""What a figure can be written as."""
