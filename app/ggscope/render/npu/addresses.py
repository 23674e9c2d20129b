"""Addresses of memory accesses over time: banks of the SPM above, DRAM below.

A pixel is lit where an access lies, the brighter the more there are; transfers that
state bank and offset are bars as long as they run.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.npu.memory import Accesses
from ggscope.model.tables import I64
from ggscope.model.units import format_bytes, format_offset
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import Entry, category_color
from ggscope.render.npu.over_time import boundaries, time_axis
from ggscope.render.npu.scene import LABEL_SIZE, NpuGeometry, NpuScene
from ggscope.render.theme import Theme, mix, visible_on, with_alpha

U32 = npt.NDArray[np.uint32]
_HEAD = 18.0
_GAP = 6.0
_MIN_LABEL_PX = 12.0
_DOT = 2
"""Device pixels that an access is wide and high."""


@dataclass(frozen=True, slots=True)
class AddressPlot:
    """One of the two plots: where it lies, and the addresses that it covers.

    Attributes
    ----------
    memory : "SPM" or "DRAM".
    low, high : addresses at the bottom and the top, half-open.
    bank_bytes : height of a bank; 0 = there are no banks.
    """

    memory: str
    top: float
    bottom: float
    low: int
    high: int
    bank_bytes: int = 0

    def y(self, address: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the heights of addresses."""
        share = (np.asarray(address, np.float64) - self.low) / (self.high - self.low)
        return np.asarray(self.bottom - share * (self.bottom - self.top))

    def address(self, y: float) -> int:
        """Return the address at a height."""
        share = (self.bottom - y) / max(self.bottom - self.top, 1e-9)
        return self.low + int(share * (self.high - self.low))


def address_plots(scene: NpuScene) -> list[AddressPlot]:
    """Return the plots that a trace has something for, from top to bottom."""
    memory, geometry = scene.facts.memory, NpuGeometry(scene)
    spm, dram = _spm_range(scene), _range(memory.dram.address)
    top, bottom = geometry.top, geometry.bottom - 2
    spaces = [("SPM", spm), ("DRAM", dram)]
    known = [(name, limits) for name, limits in spaces if limits is not None]
    height = (bottom - top) / max(len(known), 1)
    plots = []
    for i, (name, (low, high)) in enumerate(known):
        bank = (memory.config.bank_bytes or 0) if name == "SPM" else 0
        begin = geometry.time.snap(top + i * height + _HEAD)
        end = geometry.time.snap(top + (i + 1) * height - _GAP)
        plots.append(AddressPlot(name, begin, max(end, begin + 4), low, high, bank))
    return plots


def _spm_range(scene: NpuScene) -> tuple[int, int] | None:
    memory = scene.facts.memory
    bank = memory.config.bank_bytes
    if not memory.has_spm:
        return None
    if bank is None:
        return _range(memory.spm.address)
    n = max(len(memory.banks), 1)
    return 0, n * bank


def _range(address: I64) -> tuple[int, int] | None:
    known = address[address >= 0]
    if not len(known):
        return None
    low, high = int(known.min()), int(known.max())
    air = max((high - low) // 40, 1)
    return max(low - air, 0), high + air + 1


def address_entries(scene: NpuScene) -> list[Entry]:
    """Return the legend."""
    theme = scene.theme
    return [
        Entry("read", access_color(theme, is_write=False)),
        Entry("write", access_color(theme, is_write=True)),
    ] + (
        [Entry("transfer of an engine", transfer_color(theme))]
        if len(scene.facts.memory.transfers)
        else []
    )


def access_color(theme: Theme, *, is_write: bool) -> int:
    """Return the colour of an access."""
    key = "engine:VE" if is_write else "engine:DMA"
    return visible_on(category_color(key, theme), theme.lane)


def transfer_color(theme: Theme) -> int:
    """Return the colour of a transfer."""
    return visible_on(category_color("engine:TE", theme), theme.lane)


def compose_addresses(scene: NpuScene) -> DisplayList:
    """Return the picture, without `lights`."""
    geometry = NpuGeometry(scene)
    batches: list[Batch] = []
    for plot in address_plots(scene):
        batches += _plot(geometry, plot)
    batches += boundaries(geometry)
    batches += time_axis(geometry)
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _plot(geometry: NpuGeometry, plot: AddressPlot) -> list[Batch]:
    scene, theme, time = geometry.scene, geometry.scene.theme, geometry.time
    ground, texts, lines = RectList(), TextList(), LineList(1 / time.scale)
    ground.add(time.x0, time.x1, plot.top, plot.bottom, theme.lane)
    of = scene.facts.memory.spm if plot.memory == "SPM" else scene.facts.memory.dram
    texts.append(
        Text(8, plot.top - 9, f"{plot.memory} addresses", theme.text, 11.5,
             Face.HEADING)
    )  # fmt: skip
    for address, label in _address_labels(plot):
        y = float(plot.y(address))
        lines.add(time.x0, y, time.x1, y, theme.grid)
        texts.append(
            Text(time.x0 - 6, min(max(y, plot.top + 6), plot.bottom - 5), label,
                 theme.dim, LABEL_SIZE, Face.MONO, Align.RIGHT)
        )  # fmt: skip
    clip = Clip(time.x0, plot.top, time.x1 - time.x0, plot.bottom - plot.top)
    return [
        *ground.batch(), *lines.batch(),
        *(_transfers(geometry, plot, clip) if plot.memory == "SPM" else ()),
        *_points(geometry, plot, of), *texts.batch(),
    ]  # fmt: skip


def _address_labels(plot: AddressPlot) -> list[tuple[int, str]]:
    """Return addresses to label: of banks their begins, else a few round ones."""
    height = plot.bottom - plot.top
    if plot.bank_bytes:
        n = max(round((plot.high - plot.low) / plot.bank_bytes), 1)
        every = max(int(np.ceil(n * _MIN_LABEL_PX / height)), 1)
        return [
            (number * plot.bank_bytes, f"bank {number}")
            for number in range(0, n, every)
        ]
    n = max(int(height / 30), 1)
    step = 1 << max(int(np.ceil(np.log2(max((plot.high - plot.low) / n, 1)))), 0)
    first = -(-plot.low // step) * step
    return [(a, format_offset(a)) for a in range(first, plot.high, step)]


def _points(geometry: NpuGeometry, plot: AddressPlot, of: Accesses) -> list[Batch]:
    """Return the accesses as a picture: a dot each, brighter where several lie."""
    scene, theme, time = geometry.scene, geometry.scene.theme, geometry.time
    visible = scene.visible
    first, stop = np.searchsorted(of.time, [visible.start, visible.end])
    rows = np.arange(first, stop)
    rows = rows[of.address[rows] >= 0]
    if not len(rows):
        return []
    height = max(round((plot.bottom - plot.top) * time.scale), 1)
    width = time.n_columns
    column = np.clip(
        np.searchsorted(geometry.begin, of.time[rows], "right") - 1, 0, width - 1
    )
    share = (of.address[rows] - plot.low).astype(np.float64) / (plot.high - plot.low)
    line = np.clip(((1 - share) * height).astype(np.int64), 0, height - 1)
    pixels = np.zeros((height, width), np.uint32)
    for is_write in (False, True):
        mine = of.is_write[rows] == is_write
        if not mine.any():
            continue
        count = np.bincount(line[mine] * width + column[mine], minlength=height * width)
        _light(
            pixels,
            count.reshape(height, width),
            access_color(theme, is_write=is_write),
            theme,
        )
    tops = np.linspace(plot.top, plot.bottom, height + 1).astype(np.float32)
    return [ImageBatch(pixels, time.x0, time.x1, tops[:-1], tops[1:])]


def _light(pixels: U32, count: npt.NDArray[np.int64], color: int, theme: Theme) -> None:
    """Draw a dot where a count is above 0; where dots meet, the last one counts."""
    shades = np.array(
        [mix(theme.lane, color, share) for share in (0.7, 0.8, 0.9, 1.0)], np.uint32
    )
    lines, columns = np.nonzero(count)
    level = np.minimum(np.log2(count[lines, columns]).astype(np.int64), 3)
    order = np.argsort(level, kind="stable")
    lines, columns, level = lines[order], columns[order], level[order]
    height, width = pixels.shape
    for dy in range(_DOT):
        for dx in range(_DOT):
            y, x = (
                np.minimum(lines + dy, height - 1),
                np.minimum(columns + dx, width - 1),
            )
            pixels[y, x] = shades[level]


def _transfers(geometry: NpuGeometry, plot: AddressPlot, clip: Clip) -> list[Batch]:
    """Return the transfers that state where in the SPM they lie.

    Of more than fit side by side those that begin in the same pixel column at the same
    height are drawn once: the longest.
    """
    scene, time, theme = geometry.scene, geometry.time, geometry.scene.theme
    transfers, spans = scene.facts.memory.transfers, scene.trace.spans
    if not plot.bank_bytes or not len(transfers):
        return []
    start, end = spans.start[transfers.span], spans.end[transfers.span]
    seen = (end > scene.visible.start) & (start < scene.visible.end)
    address = transfers.bank * plot.bank_bytes + np.maximum(transfers.offset, 0)
    rows = np.flatnonzero(seen)
    y = np.round(plot.y(address[rows]) * time.scale)
    column = np.searchsorted(geometry.begin, start[rows], "right")
    order = np.lexsort((-(end[rows] - start[rows]), y, column))
    key = column * (1 << 20) + y.astype(np.int64)
    _, first = np.unique(key[order], return_index=True)
    rows = rows[order[first]]
    x0, x1 = time.xs(start[rows]), time.xs(end[rows])
    size = np.maximum(transfers.size[rows], 0)
    bottom = plot.y(address[rows])
    top = np.minimum(plot.y(address[rows] + size), bottom - 3)
    color = transfer_color(theme)
    rects = RectList()
    rects.add(
        x0, np.maximum(x1, x0 + 1), top, bottom, mix(theme.lane, color, 0.6),
        with_alpha(color, 0.9),
    )  # fmt: skip
    return rects.batch(clip=clip)


def access_at(scene: NpuScene, x: float, y: float) -> tuple[AddressPlot, int] | None:
    """Return the plot at a position, and the nearest access of it within some pixels.

    The access is a row of its memory's `Accesses`; -1 = none near.
    """
    geometry = NpuGeometry(scene)
    plot = next((p for p in address_plots(scene) if p.top <= y < p.bottom), None)
    if plot is None or not geometry.time.x0 <= x <= geometry.time.x1:
        return None
    of = scene.facts.memory.spm if plot.memory == "SPM" else scene.facts.memory.dram
    reach = 5.0 / geometry.time.px_per_tick
    tick = geometry.time.tick(x)
    first, stop = np.searchsorted(of.time, [tick - reach - 1, tick + reach + 1])
    rows = np.arange(first, stop)
    rows = rows[of.address[rows] >= 0]
    if not len(rows):
        return plot, -1
    away = np.hypot(geometry.time.xs(of.time[rows]) - x, plot.y(of.address[rows]) - y)
    nearest = int(np.argmin(away))
    return plot, int(rows[nearest]) if away[nearest] <= 6 else -1


def transfer_at(scene: NpuScene, x: float, y: float) -> int:
    """Return the span of the shortest transfer at a position of the SPM; -1 = none."""
    geometry = NpuGeometry(scene)
    plot = next((p for p in address_plots(scene) if p.top <= y < p.bottom), None)
    memory, spans = scene.facts.memory, scene.trace.spans
    transfers = memory.transfers
    if plot is None or not plot.bank_bytes or not len(transfers):
        return -1
    tick = geometry.tick_at(x)
    if tick is None:
        return -1
    start, end = spans.start[transfers.span], spans.end[transfers.span]
    rows = np.flatnonzero((start <= tick) & (tick < end))
    address = transfers.bank[rows] * plot.bank_bytes + np.maximum(
        transfers.offset[rows], 0
    )
    bottom = plot.y(address)
    top = np.minimum(plot.y(address + np.maximum(transfers.size[rows], 0)), bottom - 3)
    near = rows[(top - 2 <= y) & (y <= bottom + 2)]
    if not len(near):
        return -1
    shortest = near[np.argmin(end[near] - start[near])]
    return int(transfers.span[shortest])


def size_text(size: int) -> str:
    """Return bytes, or that they are not stated."""
    return format_bytes(size) if size >= 0 else "size not stated"
