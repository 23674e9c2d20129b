"""Kinds of lanes of the timeline, each declared once: group, order, height and class.

Lanes, layout, table, statistics, exporters and the timeline read `TRACKS`. The class
that draws, hits and describes a lane is imported with the first picture.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.model.trace import LaneKind, Lanes

ROW_HEIGHT, THIN_ROW_HEIGHT, COUNTER_HEIGHT = 22, 14, 44
TOKENS, THREADS, OPS = "Tokens", "Threads", "Ops"
BUSY_THREADS = "busy"
"""Key of the lane that counts busy threads."""
MAX_OPEN_LANES = 64

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSpec:
    """A kind of lane.

    Attributes
    ----------
    id : front of the keys of its lanes: "thread" in ``thread:thread 0``.
    group : title of the group of its lanes, where the trace names none.
    kind : of the lanes of the trace that it shows; None = it has a lane per value of
        `column`, or per counter, or one lane for all threads.
    only : of `kind`, where spans of this category lie apart from all others: each lane
        of the trace that has some is a lane of this track too.
    title : of a lane of a column, with the name of the value for ``{}``.
    column : of `Spans`; the work spans of each value are a lane. "" = spans by lane.
    track : class that draws, hits and describes its lanes, ``module:name``, the module
        below ``ggscope.render.timeline.tracks``.
    is_single : whether `id` alone is the key: a trace has one such lane.
    has_fixed_group : whether its lanes stand in `group` whatever the trace says.
    row_height : of each row, in pixels.
    has_rows : whether spans lie on its lanes, in rows; else one row holds something
        else, such as the curve of a counter.
    is_thin : whether its rows lie against one another, without a gap.
    is_work : whether its spans are what threads and engines do. Busy, waiting and idle
        time are only shown for these.
    work_has_op : whether its spans are work only where they have an op; others, such as
        graphs, lie around them.
    band : column of which its spans are bands, "token" or "phase": parts of the run,
        no work, and a filter leaves them. "" = its spans are no bands.
    encloses : whether its spans lie around those of other lanes.
    is_sticky : whether its lanes stay at the top while others scroll, where they come
        first.
    is_listed : whether tables name its lanes beside their spans as a rule.
    max_open_lanes : groups of more lanes start collapsed, unless another track of the
        group has a higher limit; None = never.
    max_open_spans : groups of more spans start collapsed; None = whatever they hold.
    """

    id: str
    group: str
    kind: LaneKind | None = None
    only: str = ""
    column: str = ""
    title: str = "{}"
    track: str = "spans:SpanTrack"
    is_single: bool = False
    has_fixed_group: bool = False
    row_height: float = ROW_HEIGHT
    has_rows: bool = True
    is_thin: bool = False
    is_work: bool = False
    work_has_op: bool = False
    band: str = ""
    encloses: bool = False
    is_sticky: bool = False
    is_listed: bool = True
    max_open_lanes: int | None = MAX_OPEN_LANES
    max_open_spans: int | None = None


TRACKS: tuple[TrackSpec, ...] = (
    TrackSpec(
        id="token",
        group=TOKENS,
        kind=LaneKind.TOKEN,
        track="spans:TokenTrack",
        is_single=True,
        has_fixed_group=True,
        band="token",
        encloses=True,
        is_sticky=True,
        is_listed=False,
        max_open_lanes=None,
    ),
    TrackSpec(
        id="phase",
        group=TOKENS,
        kind=LaneKind.PHASE,
        track="spans:PhaseTrack",
        is_single=True,
        has_fixed_group=True,
        band="phase",
        encloses=True,
        is_listed=False,
    ),
    TrackSpec(
        id="sequence",
        group="Sequences",
        kind=LaneKind.SEQUENCE,
        track="spans:PhaseTrack",
        has_fixed_group=True,
        band="phase",
        encloses=True,
        is_listed=False,
    ),
    TrackSpec(
        id="thread",
        group=THREADS,
        kind=LaneKind.THREAD,
        is_work=True,
        work_has_op=True,
        max_open_lanes=None,
    ),
    TrackSpec(
        id=BUSY_THREADS,
        group=THREADS,
        title="threads busy",
        track="busy_threads:BusyThreadsTrack",
        is_single=True,
        row_height=28,
        has_rows=False,
        is_listed=False,
        max_open_lanes=None,
    ),
    TrackSpec(
        id="engine",
        group="Engines",
        kind=LaneKind.ENGINE,
        is_work=True,
        max_open_lanes=None,
    ),
    TrackSpec(
        id="annotation",
        group="Annotations",
        kind=LaneKind.ENGINE,
        only="gpu_user_annotation",
        has_fixed_group=True,
        encloses=True,
        is_listed=False,
    ),
    TrackSpec(
        id="graph",
        group="Graphs",
        kind=LaneKind.GRAPH,
        track="spans:GraphTrack",
        encloses=True,
    ),
    TrackSpec(
        id="python",
        group="Python frames",
        kind=LaneKind.THREAD,
        only="python_function",
        has_fixed_group=True,
        encloses=True,
        is_listed=False,
        max_open_lanes=0,
    ),
    TrackSpec(
        id="stacks",
        group="Stacks",
        kind=LaneKind.STACKS,
    ),
    TrackSpec(
        id="command",
        group="Commands",
        kind=LaneKind.COMMAND,
        encloses=True,
    ),
    TrackSpec(
        id="io",
        group="Requests",
        kind=LaneKind.IO,
        is_work=True,
    ),
    TrackSpec(
        id="stall",
        group="Stalls",
        kind=LaneKind.STALL,
        track="spans:StallTrack",
        has_fixed_group=True,
    ),
    TrackSpec(
        id="layer",
        group="Layers",
        column="layer",
        title="layer {}",
        row_height=THIN_ROW_HEIGHT,
        is_thin=True,
        max_open_lanes=48,
        max_open_spans=4_000_000,
    ),
    TrackSpec(
        id="op",
        group=OPS,
        column="op",
        row_height=THIN_ROW_HEIGHT,
        is_thin=True,
        max_open_lanes=0,
    ),
    TrackSpec(id="memory", group="Memory", kind=LaneKind.MEMORY, is_listed=False),
    TrackSpec(
        id="counter",
        group="Counters",
        kind=LaneKind.COUNTER,
        track="counter:CounterTrack",
        row_height=COUNTER_HEIGHT,
        has_rows=False,
        is_listed=False,
    ),
    TrackSpec(id="marker", group="Markers", kind=LaneKind.MARKER, is_listed=False),
)
"""All tracks, in the order of their lanes from top to bottom."""


def tracks_of_kinds() -> npt.NDArray[np.int8]:
    """Return the place in `TRACKS` of each `LaneKind`, int8[number of kinds]."""
    numbers = np.zeros(len(LaneKind), np.int8)
    for number, spec in enumerate(TRACKS):
        if spec.kind is not None and not spec.only:
            numbers[spec.kind] = number
    return numbers


def by_track(value: Callable[[TrackSpec], Any], tracks: npt.NDArray[np.int8]) -> Any:
    """Return what `value` is for the track of each lane, an array like `tracks`."""
    return np.array([value(spec) for spec in TRACKS])[tracks]


def lanes_where(lanes: Lanes, test: Callable[[TrackSpec], bool]) -> Mask:
    """Return which lanes of a trace have a track that passes `test`, bool[n]."""
    passes: Mask = by_track(test, tracks_of_kinds()[lanes.kinds])
    return passes
