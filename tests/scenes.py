"""Timeline scenes of built traces, for the tests of the composer and the painters."""

from dataclasses import replace

import numpy as np

from builders import llama_like_trace, npu_like_trace
from dependency_traces import Op, dependency_trace, span_named
from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.graph.dependencies import op_links
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState, lay_out
from ggscope.model.notes import Note
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList, TextBatch
from ggscope.render.theme import theme
from ggscope.render.timeline.scene import HighlightedSpans, OverviewScene, TimelineScene
from wait_traces import random_waits


def make_scene(
    source: Trace | TraceIndex,
    *,
    width: float = 800,
    height: float = 400,
    theme_name: str = "dark",
    state: LaneState | None = None,
    visible: TimeRange | None = None,
    **values: object,
) -> TimelineScene:
    """Return a scene of a trace, whole and with default lanes by default."""
    index = source if isinstance(source, TraceIndex) else TraceIndex(source)
    rows = {
        lane.key: len(index.rows(lane.key))
        for lane in index.lanes
        if lane.track.has_rows
    }
    return TimelineScene(
        index=index,
        layout=lay_out(index.lanes, rows, state or LaneState()),
        visible=visible or index.trace.extent,
        width=width, height=height, theme=theme(theme_name),
        **values,  # type: ignore[arg-type]
    )  # fmt: skip


def busy_scene(theme_name: str = "dark", scale: float = 1.0) -> TimelineScene:
    """Return a llama run zoomed in, with selection, range, hits and bookmark."""
    trace = llama_like_trace(tokens=6, layers=4)
    at = int(trace.spans.start[100])
    hits = np.sort(trace.spans.start[::31])
    return make_scene(
        trace, theme_name=theme_name, scale=scale, width=900, height=480,
        visible=TimeRange(at - 900_000, at + 1_100_000),
        selection=Selection("spans", (100,)),
        marked=MarkedRange(TimeRange(at + 200_000, at + 500_000)),
        hits=SearchHits("x", np.arange(len(hits)), hits, np.zeros(0, np.int64)),
        hover_span=102, cursor_tick=at + 800_000,
        bookmarks=(Note("here", TimeRange(at - 500_000, at - 450_000)),),
    )  # fmt: skip


def npu_scene(theme_name: str = "light", scale: float = 1.0) -> TimelineScene:
    """Return an NPU run with engines, stalls and counters, on the file's clock."""
    return make_scene(
        npu_like_trace(), theme_name=theme_name, scale=scale, width=900, height=560,
        visible=TimeRange(1_900, 7_300), absolute=True,
    )  # fmt: skip


def wait_scene(theme_name: str = "dark", scale: float = 1.0) -> TimelineScene:
    """Return threads that work, wait and idle."""
    return make_scene(
        random_waits(3, 900), theme_name=theme_name, scale=scale, width=900, height=300,
        visible=TimeRange(2_000, 14_000),
    )  # fmt: skip


def stack_scene(theme_name: str = "dark", scale: float = 1.0) -> TimelineScene:
    """Return threads of many spans in each column, with their waits."""
    return make_scene(
        random_waits(3, 9_000),
        theme_name=theme_name,
        scale=scale,
        width=900,
        height=300,
    )


def arrow_scene(theme_name: str = "dark", scale: float = 1.0) -> TimelineScene:
    """Return an op that reads others on three threads and before the view."""
    ops: list[Op] = [
        ("far", []), ("near", []), ("beside", []), ("again", []),
        ("own", [("far", 0), ("near", 0), ("beside", 0), ("again", 0)]),
        ("next", [("own", 0)]), ("other", [("own", 0)]), ("last", [("own", 0)]),
    ]  # fmt: skip
    lanes = [[0, 0, 1, 2, 1, 1, 2, 0]]
    trace = dependency_trace([ops], lanes=lanes)
    span = span_named(trace, "own")
    return make_scene(
        trace, theme_name=theme_name, scale=scale, width=900, height=260,
        visible=TimeRange(140, 690), selection=Selection("spans", (span,)),
        links=op_links(trace, span, None),
    )  # fmt: skip


def chain_scene(theme_name: str = "dark", scale: float = 1.0) -> TimelineScene:
    """Return a chain of spans over three threads, up, down, at once and after gaps."""
    ops: list[Op] = [("a", []), ("b", []), ("c", []), ("d", []), ("e", []), ("f", [])]
    lanes = [[0, 1, 2, 0, 0, 1]]
    times = [[(0, 100), (100, 250), (300, 340), (400, 500), (500, 600), (640, 900)]]
    trace = dependency_trace([ops], lanes=lanes, times=times)
    chain = np.array([span_named(trace, name) for name, _ in ops], np.int64)
    return make_scene(
        trace, theme_name=theme_name, scale=scale, width=900, height=260,
        visible=TimeRange(20, 880), selection=Selection("spans", (int(chain[2]),)),
        highlighted=HighlightedSpans(np.sort(chain), chain=chain),
    )  # fmt: skip


def overview_scene(theme_name: str = "dark", scale: float = 1.0) -> OverviewScene:
    """Return the overview of the busy scene."""
    scene = busy_scene(theme_name, scale)
    return OverviewScene(
        index=scene.index, visible=scene.visible, width=900, height=48,
        theme=scene.theme, scale=scale, hits=scene.hits, selection=scene.selection,
        marked=scene.marked, bookmarks=scene.bookmarks,
    )  # fmt: skip


def without_texts(picture: DisplayList) -> DisplayList:
    """Return a picture that looks the same whatever fonts are installed."""
    return replace(
        picture,
        batches=tuple(b for b in picture.batches if not isinstance(b, TextBatch)),
    )


def texts_of(picture: DisplayList) -> list[str]:
    """Return every text of a picture in drawing order."""
    return [
        text.text
        for batch in picture.batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]
