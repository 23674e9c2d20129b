"""What a file heatmap is asked: its counts, the filter of a mark, words of a place."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ggscope.analysis.heat.byte_ranges import Mask
from ggscope.analysis.heat.file_map import FileMap
from ggscope.analysis.heat.heatmap import HeatBase, Metric, heat_base
from ggscope.analysis.heat.rows import AxisKind, RowKind, pass_starts
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.counting import READ_UNRECORDED
from ggscope.descriptions.residency import resident_text
from ggscope.model.selection import Filter
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_both_bytes,
    format_count,
    format_exact_bytes,
    format_offset,
)
from ggscope.render.colors import DEFAULT, ScaleKind
from ggscope.render.heatmap.scene import HeatGeometry, HeatMark, HeatScene
from ggscope.sanitize import Html, html
from ggscope.views.base.safe_text import tip_table

_MAX_NUMBERS = 100_000
"""More tokens than this are not listed one by one: all rows are meant then."""


@dataclass(frozen=True, slots=True)
class HeatLook:
    """What the user chose in the head of the view."""

    rows: RowKind = "token"
    axis: AxisKind = "offset"
    metric: Metric = "bytes"
    scale: ScaleKind = ScaleKind.AUTO
    colors: str = DEFAULT


def tabled_base(
    trace: Trace,
    rows: RowKind,
    metric: Metric,
    files: FileMap | None,
    mask: Mask | None,
    time: TimeRange | None,
    context: Watcher,
) -> HeatBase:
    """Return the base of a heatmap with its tables made, for a worker.

    Parameters
    ----------
    metric : whose table is made at once, so that the first picture is quick.
    files : of the trace, where known already.
    time : for rows of kind "time".
    """
    base = heat_base(trace, rows, files=files, mask=mask, time=time, watcher=context)
    base.total_grid(metric)
    base.total_grid("count")
    context.progress(len(trace.spans), len(trace.spans))  # a place to stop
    # The tables of all rows are made here, not by the first picture.
    base.grid(np.array([0, len(base.rows)], np.int64), metric)
    return base


def filter_of_mark(trace: Trace, base: HeatBase, mark: HeatMark, old: Filter) -> Filter:
    """Return `old` narrowed to the spans that touch the marked bytes and rows.

    Offsets are those of the file that the mark begins in, where a model has parts.
    """
    part = base.files.part_at(mark.begin)
    shift = 0 if part is None else part.begin
    end = mark.stop if part is None else min(mark.stop, part.end)
    narrowed = replace(old, offsets=(mark.begin - shift, end - shift))
    if mark.top < 0:
        return narrowed
    rows = base.rows
    has_rest = mark.bottom > len(rows.first)
    last = min(mark.bottom, len(rows.first)) - 1
    if last < mark.top:
        numbers = frozenset({-1})
    else:
        first, stop = int(rows.first[mark.top]), int(rows.last[last])
        if rows.kind in ("time", "pass"):
            return replace(narrowed, time=_time(trace, base, first, stop))
        if stop - first > _MAX_NUMBERS:
            return narrowed
        numbers = frozenset(range(first, stop + 1)) | ({-1} if has_rest else set())
    if rows.kind == "token":
        return replace(narrowed, tokens=numbers)
    return replace(narrowed, layers=numbers) if rows.kind == "layer" else narrowed


def _time(trace: Trace, base: HeatBase, first: int, last: int) -> TimeRange:
    """Return the time of rows: their own ticks, or those of passes."""
    if base.rows.kind == "time":
        return TimeRange(first, last)
    starts = pass_starts(trace)
    end = trace.extent.end if last + 1 >= len(starts) else int(starts[last + 1])
    return TimeRange(int(starts[first]), end)


def tooltip_text(
    place: HeatGeometry, x: float, y: float, trace: Trace | None = None
) -> Html:
    """Return rich text for a position of the picture; "" where nothing is.

    `trace` has what of a tensor is in memory, where that was measured.
    """
    if not place.x.x0 <= x < place.x.x1:
        return Html()
    if place.buffer[0] <= y < place.buffer[1]:
        return _buffer_text(place, x)
    if not place.curve[0] <= y < place.buffer[0]:
        return Html()
    return _file_text(place, x, place.row_at(y), trace)


def buffer_at(place: HeatGeometry, x: float) -> int:
    """Return the entry of the buffer track at `x`; -1 for none."""
    n = len(place.scene.base.buffers)
    share = (x - place.x.x0) / (place.x.x1 - place.x.x0)
    return min(int(share * n), n - 1) if n and 0 <= share < 1 else -1


def _buffer_text(place: HeatGeometry, x: float) -> Html:
    scene, i = place.scene, buffer_at(place, x)
    if i < 0:
        return Html()
    track = scene.base.buffers
    name = scene.tensor_name(int(track.tensor[i])) or "unnamed"
    layer = int(track.layer[i])
    rows = [
        ("track", "BUFFER: runtime memory, not in the file"),
        *([("layer", str(layer))] if layer >= 0 else []),
        ("accesses", format_count(int(track.count[i]))),
        ("bytes", _bytes(int(track.bytes[i]))),
    ]
    if unknown := int(track.unknown[i]):
        rows.append(("possibly also read", f"≤ {_bytes(unknown)}"))
    return tip_table(name, rows)


def _file_text(place: HeatGeometry, x: float, row: int, trace: Trace | None) -> Html:
    scene = place.scene
    base, axis = scene.base, scene.axis
    position = place.position_at(x)
    unit, offset = axis.unit_at(position), axis.offset(position)
    if unit < 0:
        return _gap_text(base.files, offset)
    files = base.files
    begin = int(files.offset[unit])
    stop = begin + int(files.size[unit])
    layer, expert = int(files.layer[unit]), int(files.expert[unit])
    rows = [
        *([("layer", str(layer))] if layer >= 0 else []),
        *([("expert", str(expert))] if expert >= 0 else []),
        ("bytes in the file", f"{format_offset(begin)} – {format_offset(stop)}"),
        ("size", _bytes(stop - begin)),
        ("under the mouse", format_offset(offset)),
    ]
    part = files.part_at(offset)
    if part is not None and len(files.parts) > 1:
        at = format_offset(offset - part.begin)
        rows.append(("file", f"{part.name} {at}"))
    if files.is_traced[unit]:
        rows.append(("place", "from the accesses of the trace"))
    if files.is_cut[unit]:
        rows.append(("size", "overlapped the next tensor; cut there"))
    held = "" if trace is None else resident_text(trace, int(files.tensor[unit]))
    if held:
        rows.append(("in page cache", held))
    rows += _sums(scene, unit, row)
    return tip_table(scene.unit_name(unit), rows)


def _sums(scene: HeatScene, unit: int, row: int) -> list[tuple[str, str]]:
    """Return the accesses and bytes of a unit: in a row, and in all."""
    base = scene.base
    begin = base.files.offset[unit : unit + 1]
    stop = begin + base.files.size[unit : unit + 1]
    sums = []
    parts = [(base.total_grid, "all rows")]
    if row >= 0:
        name = f"{base.rows.kind} {scene.row_name(row)}"
        parts.insert(0, (partial(base.row_grid, row), name))
    for grid, label in parts:
        count = int(grid("count").between(begin, stop)[0, 0])
        size = int(grid("bytes").between(begin, stop)[0, 0])
        none = "no access shown" if base.is_part else "never"
        if base.is_open[unit]:
            none = "not known"
        text = f"{format_count(count)} × · {_bytes(size)}" if count else none
        sums.append((label, text))
    if base.unrecorded[unit]:
        sums.append(("note", READ_UNRECORDED))
    if base.maybe[unit]:
        perhaps = "up to {0} ×, by experts that are not listed"
        sums.append(("perhaps", perhaps.format(format_count(int(base.maybe[unit])))))
    return sums


def _gap_text(files: FileMap, offset: int) -> Html:
    part = files.part_at(offset)
    if not files.is_listed:
        title = "No data"
        text = "No access of the trace covers this range."
    elif part is not None and 0 <= offset < max(part.data_begin, 0):
        title = "Header"
        text = "Metadata of the model file"
    else:
        title = "No tensor"
        text = "Padding, or bytes that belong to no tensor"
    return html("<b>{}</b><br>{}<br>{}", title, text, format_offset(offset))


def _bytes(n: int) -> str:
    return format_both_bytes(n) if n >= 1024 else format_exact_bytes(n)
