"""Figures of the timeline."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    LaneLayout,
    LaneState,
    TimelineLane,
    default_collapsed,
    lane_state_data,
    lay_out,
)
from ggscope.errors import ExportError
from ggscope.model.selection import ColorBy, MarkedRange, Selection
from ggscope.model.tables import Array
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.export import Drawn, Figure, Recipe, trace_title
from ggscope.render.look import Look
from ggscope.render.options import (
    Notes,
    marked_option,
    selection_option,
    time_option,
)
from ggscope.render.theme import theme as theme_named
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.scene import TimelineScene

_LANES_TOLD = 40
"""A message names so many lanes."""


def timeline_figure(
    source: Trace | TraceIndex,
    *,
    visible: TimeRange | None = None,
    color_by: ColorBy = "family",
    lanes: Sequence[str] | None = None,
    mask: npt.NDArray[np.bool_] | None = None,
    where: str = "",
    state: LaneState | None = None,
    selection: Selection = Selection(),  # noqa: B008 - frozen
    marked: MarkedRange | None = None,
    notes: Notes = (),
    stalls: bool = True,
    absolute: bool = False,
    look: Look = Look(),  # noqa: B008 - frozen
) -> Figure:
    """Return the figure of a timeline; its title is the file's name and format.

    Parameters
    ----------
    visible : the whole trace where None.
    lanes : keys of the lanes to show, in this order; all by default.
    absolute : whether times are those of the file's own clock.
    mask : bool[n_spans], what is drawn in full; the rest becomes pale. `where` is the
        expression that stands for it on a command line, "" = unknown.
    state : which groups are open, and which lanes are hidden, pinned, moved and how
        high, as in a window; that of a first start where None, or where the figure is
        to be clean.
    selection, marked : drawn where the figure is to be as seen.
    notes : name and range of bookmarks; drawn where the figure is to be as seen.
    stalls : whether stalls are hatched over the lanes.

    Notes
    -----
    A lane that does not exist is an ExportError of the drawing.
    """

    def draw(look: Look) -> Drawn:
        index = source if isinstance(source, TraceIndex) else TraceIndex(source)
        trace = index.trace
        title = trace_title(trace) if look.title is None else look.title
        width, height = look.size_or(1600, 900)
        scene = TimelineScene(
            index=index,
            layout=_layout(index, lanes, state if look.seen else None),
            visible=trace.extent if visible is None else visible,
            width=width,
            height=height,
            theme=theme_named(look.theme),
            scale=look.scale,
            color_by=color_by,
            mask=mask,
            mask_token=id(mask),
            title=title,
            absolute=absolute,
            show_stalls=stalls,
        )
        if look.seen:
            scene = replace(
                scene,
                selection=selection,
                marked=marked,
                bookmarks=notes if look.notes else (),
            )
        return Drawn(
            compose_timeline(scene),
            title or trace_title(trace),
            _description(trace, scene.visible),
        )

    trace = source.trace if isinstance(source, TraceIndex) else source
    words, options, lacks = [], dict[str, object](), list[str]()
    if visible is not None and visible != trace.extent:
        unit = "ns" if trace.clock.unit == "ns" else ""
        words.append(f"--range={visible.start}{unit}..{visible.end}{unit}")
    if color_by != "family":
        words += ["--color-by", color_by]
    if where:
        words.append(f"--where={where}")
    elif mask is not None:
        lacks.append("The command leaves the filter out.")
    if absolute:
        options["absolute"] = True
    if not stalls:
        options["stalls"] = False
    if lanes is not None:
        options["lanes"] = list(lanes)
    seen: dict[str, object] = {}
    if state is not None and (data := lane_state_data(state)):
        seen["state"] = data
    if chosen := selection_option(selection):
        seen["selection"] = chosen
    elif selection:
        lacks.append("The command leaves the selection out; it is too long for one.")
    if marked is not None:
        seen["marked"] = marked_option(marked)
    if notes:
        seen["notes"] = [[name, time_option(time)] for name, time in notes]
    recipe = Recipe(
        "timeline", trace.info.paths, options, tuple(words), seen, tuple(lacks)
    )
    return Figure("timeline", draw, look, recipe=recipe)


def _layout(
    index: TraceIndex, lanes: Sequence[str] | None, state: LaneState | None
) -> LaneLayout:
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
    return lay_out(chosen, rows, state)


def _chosen_lanes(index: TraceIndex, keys: Sequence[str]) -> tuple[TimelineLane, ...]:
    known = index.lanes
    unknown = [key for key in keys if known.position(key) < 0]
    if unknown:
        listed = ", ".join(known.keys[:_LANES_TOLD])
        if len(known) > _LANES_TOLD:
            listed += f" and {len(known) - _LANES_TOLD:,} more"
        raise ExportError(f"There is no lane {unknown[0]!r}. Lanes: {listed}.")
    return tuple(index.lane(key) for key in keys)


def _description(trace: Trace, visible: TimeRange) -> str:
    unit = "cycles" if trace.clock.unit == "cycle" else "ns"
    return (
        f"Timeline of {len(trace.spans):,} spans on {len(trace.lanes):,} lanes, "
        f"{visible.start:,} to {visible.end:,} {unit} after the first. "
        "The opacity of a column is the share of its time that the lane was busy."
    )
