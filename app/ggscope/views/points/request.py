"""Worker requests of the 3D view: points, colours, highlights, active layers."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.analysis.heat.byte_ranges import Mask
from ggscope.analysis.heat.points import AccessPoints, access_points
from ggscope.analysis.layers import LayerActivity, layer_activity
from ggscope.analysis.links import Linked
from ggscope.analysis.workers import Watcher
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.points import (
    F32,
    LayerAxis,
    PointColors,
    layer_axis,
    places,
    point_colors,
)
from ggscope.session.tokens import NO_TOKENS, token_times


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPoints:
    """Points with their places in the box.

    Attributes
    ----------
    steps : int64[k], ticks at which replay stops: the first point of each token, or,
        where there are fewer than two tokens, every time of a point.
    """

    trace: Trace
    points: AccessPoints
    axis: LayerAxis
    xyz: F32
    hues: PointColors
    steps: I64


def placed_points(
    trace: Trace, mask: Mask | None, by: str, watcher: Watcher
) -> PlacedPoints:
    """Return the points of a trace, ready to be drawn."""
    points = access_points(trace, mask, watcher=watcher)
    axis = layer_axis(points)
    hues = point_colors(trace, points, by)
    steps = _steps(trace, points)
    return PlacedPoints(trace, points, axis, places(points, axis), hues, steps)


def _steps(trace: Trace, points: AccessPoints) -> I64:
    token = trace.spans.token
    if token is not None:
        of_point = token[points.span].astype(np.int64)
        known = np.flatnonzero(of_point >= 0)
        _, first = np.unique(of_point[known], return_index=True)
        if len(first) > 1:
            return np.unique(points.time[known[first]])
    return np.unique(points.time)


def recolored(placed: PlacedPoints, by: str, watcher: Watcher) -> PointColors:
    """Return the points in another colouring."""
    watcher.progress(0, len(placed.points))
    return point_colors(placed.trace, placed.points, by)


def highlighted_points(
    placed: PlacedPoints, linked: Linked, layer: int, watcher: Watcher
) -> npt.NDArray[np.bool_] | None:
    """Return which points belong to the selection; None where none does.

    Those of a selected layer, else of the spans that are selected or linked, else of
    the tensors.
    """
    points = placed.points
    watcher.progress(0, len(points))
    if layer >= 0:
        highlighted = points.layer == layer
    else:
        highlighted = np.isin(points.span, linked.spans)
        if not highlighted.any():
            highlighted = np.isin(points.tensor, linked.tensors)
    return np.asarray(highlighted, np.bool_) if highlighted.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class ActiveLayers:
    """Activity of layers, and what it is of: ``token 5``, ``marked range`` or ""."""

    activity: LayerActivity
    of: str


def active_layers(
    trace: Trace,
    selection: Selection,
    marked: MarkedRange | None,
    mask: Mask | None,
    watcher: Watcher,
) -> ActiveLayers:
    """Return how busy layers are in the marked range, or else the selected token."""
    time, of = None, ""
    if marked is not None:
        time, of = marked.time, "marked range"
    else:
        time, of = _selected_token(trace, selection)
    return ActiveLayers(layer_activity(trace, time, mask, watcher), of)


def _selected_token(trace: Trace, selection: Selection) -> tuple[TimeRange | None, str]:
    number, span = token_number(trace, selection)
    if number < 0:
        return None, ""
    times = token_times(trace) if trace.spans.token is not None else NO_TOKENS
    at = np.flatnonzero(times.number == number)
    if not len(at):
        return None, ""
    if span >= 0:  # numbers may begin anew: the one that it lies in
        start = int(trace.spans.start[span])
        inside = (times.start[at] <= start) & (start <= times.end[at])
        at = at[inside] if inside.any() else at
    return times.range_of(int(at[0])), f"token {number}"


def token_number(trace: Trace, selection: Selection) -> tuple[int, int]:
    """Return the number of the selected token, and a span of it; -1 = none."""
    token, active = trace.spans.token, selection.active
    if selection.table in ("spans", "waits") and active is not None:
        number = -1 if token is None else int(token[active])
        return number, active
    group = selection.group if selection.table == "groups" else None
    if group is not None and group.by == "token" and group.key.isdecimal():
        return int(group.key), -1
    return -1, -1
