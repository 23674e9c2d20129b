"""Figures of the timeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.dependencies import op_links
from ggscope.analysis.graph.op_links import OpLinks
from ggscope.analysis.graph.token_path import token_path
from ggscope.analysis.rows.colorings import coloring, default_coloring
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lane_state import lane_state_data, read_lane_state
from ggscope.analysis.rows.lanes import (
    FEW_LANES,
    LaneLayout,
    LaneState,
    TimelineLane,
    TimelineLanes,
    default_collapsed,
    lay_out,
)
from ggscope.analysis.sessions.correlate import correlate
from ggscope.errors import ExportError
from ggscope.model.notes import Note
from ggscope.model.selection import ColorBy, MarkedRange, Selection
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_counted, shown_form
from ggscope.render.export import (
    ExportCommand,
    Figure,
    RenderedFigure,
    ensure_gui_application,
    trace_name,
)
from ggscope.render.figure_style import CSS_DPI, FigureStyle
from ggscope.render.frame import Frame
from ggscope.render.options import (
    Notes,
    changed_options,
    marked_option,
    note_option,
    option,
    read_marked,
    read_notes,
    read_selection,
    read_time,
    selection_option,
)
from ggscope.render.text_metrics import QT_TEXT
from ggscope.render.theme import theme as theme_named
from ggscope.render.timeline.compose import (
    compose_timeline,
    figure_header_width,
    figure_legend,
    is_empty,
)
from ggscope.render.timeline.scene import HighlightedSpans, TimelineScene, head_height
from ggscope.render.timeline.tracks.track import track_of

_WIDTH, _HEIGHT = 1600.0, 900.0
_RIGHT_PX = 8.0
_HEAD_PX = 19.0
"""Height of the head of a group: there is nothing to click on."""
_MIN_FACTOR, _MAX_FACTOR = 0.5, 3.0
"""Factors of the height of rows that fit a figure into its height."""
_PAGE_INCHES = 9.7
_MAX_NAMED_LANES = 40
"""Lanes that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimelineOptions:
    """Options of the figure of the timeline.

    Attributes
    ----------
    visible : time range; the whole trace where None.
    color_by : what colours spans.
    lanes : keys of the lanes to show, in this order; all by default.
    mask : bool[n_spans], True = drawn in full, False = pale. `where` is the same filter
        as an expression of the command line, "" = unknown.
    state : which groups are open, and which lanes are hidden, pinned, moved and how
        high, as in a window; that of a first start where None, or where the figure is
        not drawn as seen.
    selection, marked : drawn where the figure is drawn as seen.
    notes : bookmarks, drawn where the style has notes.
    stalls : whether stalls are hatched over the lanes.
    waits : whether the waits behind ops are drawn.
    arrows : whether arrows of the selected op are; where the figure is drawn as seen.
    critical_path : whether that of the selected span's token is highlighted; likewise.
    absolute : whether times are those of the file's own clock.
    """

    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    color_by: ColorBy = field(default="family", metadata=option(flag="color_by"))
    lanes: Sequence[str] | None = None
    mask: npt.NDArray[np.bool_] | None = field(
        default=None, metadata=option(flag="where", read=None)
    )
    where: str = ""
    state: LaneState | None = field(default=None, metadata=option(read=read_lane_state))
    selection: Selection = field(
        default=Selection(), metadata=option(read=read_selection)
    )
    marked: MarkedRange | None = field(default=None, metadata=option(read=read_marked))
    notes: Notes = field(default=(), metadata=option(read=read_notes))
    stalls: bool = True
    waits: bool = True
    arrows: bool = False
    critical_path: bool = False
    absolute: bool = False


def timeline_figure(
    source: Trace | TraceIndex,
    options: TimelineOptions = TimelineOptions(),
    style: FigureStyle = FigureStyle(),  # noqa: B008 - frozen
) -> Figure:
    """Return the figure of a timeline; its title is the trace's name.

    Notes
    -----
    A lane that does not exist is an ExportError of the drawing.
    """

    def draw(style: FigureStyle) -> RenderedFigure:
        ensure_gui_application()
        index = source if isinstance(source, TraceIndex) else TraceIndex(source)
        return _drawn(index, options, style)

    trace = source.trace if isinstance(source, TraceIndex) else source
    command = _export_command(trace, options)
    return Figure("timeline", draw, style, recipe=command)


def _drawn(
    index: TraceIndex, options: TimelineOptions, style: FigureStyle
) -> RenderedFigure:
    trace = index.trace
    name = f"{trace_name(trace)} · timeline"
    title = name if style.title is None else style.title
    width = style.width_or(_WIDTH)
    layout, left_out = figure_layout(
        index, options.lanes, options.state if style.seen else None
    )
    scene = TimelineScene(
        index=index,
        layout=layout,
        visible=trace.extent if options.visible is None else options.visible,
        width=width - _RIGHT_PX,
        height=_HEIGHT,
        theme=theme_named(style.theme),
        scale=style.scale,
        header_width=figure_header_width(layout, trace, width, QT_TEXT),
        color_by=options.color_by,
        mask=options.mask,
        mask_token=id(options.mask),
        absolute=options.absolute,
        show_stalls=options.stalls,
        show_waits=options.waits,
        is_figure=True,
        bookmarks=tuple(Note(*n) for n in options.notes) if style.notes else (),
    )
    if style.seen:
        scene = replace(
            scene,
            selection=options.selection,
            marked=options.marked,
            links=_links(trace, options.selection) if options.arrows else None,
            highlighted=_path(trace, options.selection)
            if options.critical_path
            else None,
        )
    if options.mask is not None:
        left_out += ("Spans outside the filter are pale.",)
    if is_empty(trace):
        frame = Frame(style, width, title=title)
        picture = compose_timeline(replace(scene, height=frame.body_height(200.0)))
    else:
        frame = Frame(style, width, title=title, entries=figure_legend(scene))
        scene, n_missing = _fitted(scene, frame, style)
        if n_missing:
            left_out += (
                f"Not drawn for lack of space: {format_counted(n_missing, 'lane')}.",
            )
        picture = compose_timeline(scene)
    return RenderedFigure(
        frame.around(picture),
        title or name,
        _description(trace, scene),
        (*left_out, *frame.left_out),
        style.title or "",
    )


def _links(trace: Trace, selection: Selection) -> OpLinks | None:
    """Return the links of a selected op; None where none or several are selected."""
    if selection.table != "spans" or len(selection.ids) != 1:
        return None
    return op_links(trace, selection.ids[0], correlate(trace))


def _path(trace: Trace, selection: Selection) -> HighlightedSpans | None:
    """Return the critical path of the token of a selected span; None = none."""
    active = selection.active
    if selection.table != "spans" or active is None:
        return None
    path = token_path(trace, active, correlate(trace)).path
    return HighlightedSpans(np.sort(path), chain=path) if len(path) else None


def _export_command(trace: Trace, options: TimelineOptions) -> ExportCommand:
    """Return the command line that makes the figure; defaults are left out."""
    visible, selection = options.visible, options.selection
    flags, lacks = list[str](), list[str]()
    if visible is not None and visible != trace.extent:
        unit = "ns" if trace.clock.unit == "ns" else ""
        flags.append(f"--range={visible.start}{unit}..{visible.end}{unit}")
    if options.color_by != default_coloring(trace):
        flags += ["--color-by", options.color_by]
    if options.where:
        flags.append(f"--where={options.where}")
    elif options.mask is not None:
        lacks.append("The command leaves the filter out.")
    seen: dict[str, object] = {}
    if options.state is not None and (state := lane_state_data(options.state)):
        seen["state"] = state
    if chosen := selection_option(selection):
        seen["selection"] = chosen
    elif selection and selection.group is None:  # rows of statistics are not drawn
        lacks.append("The command leaves the selection out; it is too long for one.")
    if options.marked is not None:
        seen["marked"] = marked_option(options.marked)
    values = changed_options(
        options, "absolute", "stalls", "waits", "arrows", "critical_path", "lanes"
    )
    if options.notes:
        values["notes"] = [note_option(Note(*note)) for note in options.notes]
    return ExportCommand(
        "timeline", trace.info.opened, values, tuple(flags), seen, tuple(lacks)
    )


def _fitted(
    scene: TimelineScene, frame: Frame, style: FigureStyle
) -> tuple[TimelineScene, int]:
    """Return the scene with lanes scaled to fit, and how many do not fit.

    Without a height all lanes are drawn in their usual height, up to a page.
    """
    layout = scene.layout.scaled(1.0, _HEAD_PX)
    head_px = head_height(len(scene.bookmarks))
    if style.height is None:
        max_px = _PAGE_INCHES * CSS_DPI / style.zoom - frame.top - frame.bottom
        lanes_px = min(layout.height, max(max_px, scene.width) - head_px)
    else:
        lanes_px = frame.body_height(0.0) - head_px
        fixed_px = layout.scaled(0.0, _HEAD_PX).height  # heads and gaps, as they are
        factor = (lanes_px - fixed_px) / max(layout.height - fixed_px, 1.0)
        layout = layout.scaled(
            min(max(factor * 0.995, _MIN_FACTOR), _MAX_FACTOR), _HEAD_PX
        )
    shown = layout.fitting(lanes_px + 0.5)
    height = frame.body_height(min(shown.height, lanes_px) + head_px)
    missing = len(layout.shown) - len(shown.shown)
    return replace(scene, layout=shown, height=height), missing


def figure_layout(
    index: TraceIndex, lanes: Sequence[str] | None, state: LaneState | None
) -> tuple[LaneLayout, tuple[str, ...]]:
    """Return the lanes to draw, and sentences on those that are left out.

    Parameters
    ----------
    lanes : keys of those to draw; None = all but collapsed groups and flat counters.
    """
    chosen: Sequence[TimelineLane] = index.lanes
    groups = default_collapsed(index.lanes) if lanes is None else frozenset()
    if lanes is not None:
        chosen = _chosen_lanes(index, lanes)
    # As seen, a counter of zeros is there as in the window.
    flat = _flat_counters(index) if lanes is None and state is None else set()
    state = LaneState() if state is None else state
    if state.collapsed is not None:
        groups = state.collapsed
    # The header of a collapsed group is a control: a figure has it in its caption.
    columns = TimelineLanes.of(chosen)
    is_closed = np.isin(columns.group, [
        i for i, title in enumerate(columns.groups) if title in groups
    ])  # fmt: skip
    is_closed[columns.positions(state.pinned)] = False
    n_hidden = len(columns.positions(tuple(state.hidden)))
    closed = [columns.keys[i] for i in np.flatnonzero(is_closed).tolist()]
    left_out = []
    if n_hidden:
        is_are = "is" if n_hidden == 1 else "are"
        left_out.append(f"{format_counted(n_hidden, 'lane')} {is_are} hidden.")
    n_closed = np.bincount(columns.group[is_closed], minlength=len(columns.groups))
    left_out += [
        f"{format_counted(n, 'lane')} in “{title}” {'is' if n == 1 else 'are'} "
        "collapsed."
        for title, n in zip(columns.groups, n_closed.tolist(), strict=True)
        if n
    ]
    if flat:
        left_out.append(
            f"Not drawn: {format_counted(len(flat), 'counter')} that "
            f"{'is' if len(flat) == 1 else 'are'} always 0."
        )
    state = replace(
        state, hidden=state.hidden.union(closed, flat), collapsed=frozenset()
    )
    rows: dict[str, int] | Array
    if len(chosen) > FEW_LANES:
        rows = index.row_counts()
        if lanes is not None:
            rows = rows[index.lanes.positions(lanes)]
    else:
        rows = {
            lane.key: len(index.rows(lane.key))
            for lane in chosen
            if lane.track.has_rows and lane.key not in state.hidden
        }
    return lay_out(chosen, rows, state), tuple(left_out)


def _flat_counters(index: TraceIndex) -> set[str]:
    """Return the keys of the counters that are always 0: empty lanes on paper.

    Empty where no other lane is left to draw.
    """
    lanes = index.lanes
    without_rows = [lanes[i] for i in np.flatnonzero(~lanes.has_rows).tolist()]
    flat = {x.key for x in without_rows if track_of(x).is_always_zero(index.trace)}
    return flat if len(flat) < len(lanes) else set()


def _chosen_lanes(index: TraceIndex, keys: Sequence[str]) -> tuple[TimelineLane, ...]:
    all_lanes = index.lanes
    unknown = [key for key in keys if all_lanes.position(key) < 0]
    if unknown:
        listed = ", ".join(all_lanes.keys[:_MAX_NAMED_LANES])
        if len(all_lanes) > _MAX_NAMED_LANES:
            listed += f" and {len(all_lanes) - _MAX_NAMED_LANES:,} more"
        raise ExportError(f"There is no lane {unknown[0]!r}. Lanes: {listed}.")
    return tuple(index.lane(key) for key in keys)


def _description(trace: Trace, scene: TimelineScene) -> str:
    shown, visible = scene.layout.shown, scene.visible
    spans = trace.spans
    inside = (spans.start < visible.end) & (spans.end >= visible.start)
    n = int(np.count_nonzero(inside))
    form = shown_form(visible, trace.clock, absolute=scene.absolute)
    by = coloring(scene.color_by).title
    of_all = format_counted(len(scene.index.lanes), "lane")
    return (
        f"Timeline of {trace_name(trace)}, {form.range_text(visible)}, coloured by "
        f"{by}: {format_counted(n, 'span')} on {len(shown):,} of {of_all}. Column "
        "height shows lane utilisation, parts of a column what it was used for; where "
        "a column holds one or two spans, its opacity does."
    )
