"""Figures: display lists as PNG, SVG and PDF files, without any display."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
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

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    LaneState,
    TimelineLane,
    default_collapsed,
    lay_out,
)
from ggscope.errors import ExportError
from ggscope.model.selection import ColorBy
from ggscope.model.tables import Array
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.batch import DisplayList
from ggscope.render.painter import paint
from ggscope.render.theme import theme as theme_named
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.scene import TimelineScene
from ggscope.text import one_line, plain
from ggscope.writing import write_file

CSS_DPI = 96.0
"""Device-independent pixels per inch."""
MAX_PIXELS = 32_767
"""Longest side of a picture that QImage and common viewers handle."""
_LANES_TOLD = 40
"""A message names so many lanes."""
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


def export_timeline(
    source: Trace | TraceIndex,
    path: Path | str,
    *,
    size: tuple[int, int] = (1600, 900),
    dpi: float = CSS_DPI,
    theme: str = "light",
    visible: TimeRange | None = None,
    color_by: ColorBy = "family",
    title: str | None = None,
    lanes: Sequence[str] | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    state: LaneState | None = None,
    absolute: bool = False,
    overwrite: bool = True,
) -> None:
    """Write a figure of the timeline.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    dpi : dots per inch: a PNG has ``size * dpi / 96`` pixels.
    visible : the whole trace where None.
    title : the file's name and format where None; "" draws neither title nor
        legend.
    lanes : keys of the lanes to show, in this order; all by default.
    state : which groups are open, and which lanes are hidden, pinned, moved and how
        high, as in a window; that of a first start where None.
    absolute : whether times are those of the file's own clock.
    mask : bool[n_spans], what is drawn in full; the rest becomes pale.
    overwrite : whether a file that is there may be replaced.

    Raises
    ------
    ExportError
        If the suffix is unknown, a lane does not exist or the file cannot be
        written.
    """
    ensure_gui_application()
    index = source if isinstance(source, TraceIndex) else TraceIndex(source)
    trace = index.trace
    chosen: Sequence[TimelineLane] = index.lanes
    groups = default_collapsed(index.lanes) if lanes is None else frozenset()
    if lanes is not None:
        chosen = _chosen_lanes(index, lanes)
    if state is None:
        state = LaneState(collapsed=groups)
    elif state.collapsed is not None:
        groups = state.collapsed
    rows: dict[str, int] | Array
    if len(chosen) > FEW_LANES:
        rows = index.row_counts()
        if lanes is not None:
            rows = rows[index.lanes.positions(lanes)]
    else:
        rows = {
            lane.key: len(index.rows(lane.key))
            for lane in chosen
            if lane.counter < 0
            and lane.key not in state.hidden
            and (lane.group not in groups or lane.key in state.pinned)
        }
    words = _title(trace) if title is None else title
    scene = TimelineScene(
        index=index,
        layout=lay_out(chosen, rows, state),
        visible=trace.extent if visible is None else visible,
        width=float(size[0]),
        height=float(size[1]),
        theme=theme_named(theme),
        scale=dpi / CSS_DPI,
        color_by=color_by,
        mask=mask,
        mask_token=id(mask),
        title=words,
        absolute=absolute,
    )
    export_display_list(
        compose_timeline(scene),
        path,
        title=words or _title(trace),
        description=_description(trace, scene.visible),
        dpi=dpi,
        overwrite=overwrite,
    )


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


def _chosen_lanes(index: TraceIndex, keys: Sequence[str]) -> tuple[TimelineLane, ...]:
    known = index.lanes
    unknown = [key for key in keys if known.position(key) < 0]
    if unknown:
        listed = ", ".join(known.keys[:_LANES_TOLD])
        if len(known) > _LANES_TOLD:
            listed += f" and {len(known) - _LANES_TOLD:,} more"
        raise ExportError(f"There is no lane {unknown[0]!r}. Lanes: {listed}.")
    return tuple(index.lane(key) for key in keys)


def _title(trace: Trace) -> str:
    name = trace.info.paths[0].name if trace.info.paths else "trace"
    return f"{name} · {trace.info.format}"


def _description(trace: Trace, visible: TimeRange) -> str:
    unit = "cycles" if trace.clock.unit == "cycle" else "ns"
    return (
        f"Timeline of {len(trace.spans):,} spans on {len(trace.lanes):,} lanes, "
        f"{visible.start:,} to {visible.end:,} {unit} after the first. "
        "The opacity of a column is the share of its time that the lane was busy."
    )


_WRITERS: dict[str, Callable[[DisplayList, str, str, float], bytes]] = {
    ".png": _png,
    ".svg": _svg,
    ".pdf": _pdf,
}
