"""Every reader of `TRACKS`, and a template track that none of them names."""

from dataclasses import fields
from types import ModuleType

import numpy as np
import pytest

import builders
from ggscope.analysis.rows import index, lanes, tracks
from ggscope.analysis.rows.lanes import (
    LANE_GAP,
    LaneBox,
    LaneState,
    TimelineLane,
    default_collapsed,
)
from ggscope.analysis.rows.tracks import TRACKS, TrackSpec
from ggscope.exporters.ascii import ascii_timeline
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Spans
from ggscope.model.trace import LaneKind, Trace
from ggscope.render.batch import RectBatch, RectList, TextBatch
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.hit_test import Hit, hit_in_lane
from ggscope.render.timeline.lanes import LanesDraft
from ggscope.render.timeline.tracks.spans import SpanTrack
from ggscope.render.timeline.tracks.track import TooltipContext, Track, track_of
from ggscope.sanitize import Html, html
from scenes import make_scene

RED = 0xFFFF0000


class AlarmTrack(SpanTrack):
    """Red bars as high as the lane; the template of CONTRIBUTING."""

    def compose(self, draft: LanesDraft, box: LaneBox, y: float) -> None:
        spans, bars = draft.scene.index.trace.spans, RectList()
        on = np.flatnonzero(np.isin(spans.lane, self.lane.lane_ids))
        x0, x1 = draft.time.xs(spans.start[on]), draft.time.xs(spans.end[on])
        bars.add(x0, x1, y, y + box.height, RED)
        draft.add(list(bars.batch(clip=draft.clip)))

    def note(self, trace: Trace) -> str:
        return f"{self.lane.n_spans} alarms"

    def tooltip(self, context: TooltipContext, hit: Hit) -> Html:
        return html("<b>alarm {}</b>", hit.span) if hit.span >= 0 else Html()


ALARMS = TrackSpec(
    id="alarm",
    group="Alarms",
    kind=LaneKind.MARKER,  # a new kind has a member of its own
    track="template:AlarmTrack",
    row_height=30,
    max_open_lanes=0,
)


@pytest.fixture
def with_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ggscope.render.timeline.tracks.template")
    module.AlarmTrack = AlarmTrack
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    others = tuple(spec for spec in TRACKS if spec.kind is not LaneKind.MARKER)
    for reader in (tracks, lanes, index):
        monkeypatch.setattr(reader, "TRACKS", (*others, ALARMS))


@pytest.fixture
def trace() -> Trace:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    builder.add_lane("overheated", LaneKind.MARKER)
    builder.add_spans(
        lane=np.array([0, 1, 1], np.int32),
        start=np.array([0, 100, 400]),
        end=np.array([1000, 200, 700]),
    )
    return builders.finished(builder)


def test_every_kind_of_lane_has_one_track() -> None:
    # Those with `only` take some of the spans of another one's lanes.
    kinds = [s.kind for s in TRACKS if s.kind is not None and not s.only]
    ids = [spec.id for spec in TRACKS]

    assert sorted(kinds) == sorted(LaneKind)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("spec", TRACKS, ids=lambda spec: spec.id)
def test_every_track_is_declared_completely(spec: TrackSpec) -> None:
    lane = TimelineLane("key", "title", spec.group, spec)
    track = track_of(lane)

    assert isinstance(track, Track)
    assert track.lane is lane
    assert (track.style is not None) == spec.has_rows
    assert not spec.column or spec.column in {f.name for f in fields(Spans)}
    is_of_all = spec.id == tracks.BUSY_THREADS
    assert (spec.kind is None) == (bool(spec.column) or is_of_all)


def test_added_track_has_its_place_and_height(with_alarms: None, trace: Trace) -> None:
    scene = make_scene(trace, state=LaneState(collapsed=frozenset()))

    box = scene.layout.boxes[-1]
    assert [lane.key for lane in scene.index.lanes] == [
        "thread:thread 0",
        "alarm:overheated",
    ]
    assert (box.group, box.row_height) == ("Alarms", 30)
    assert box.height == 30 + LANE_GAP
    assert default_collapsed(scene.index.lanes) == {"Alarms"}
    assert "Alarms\n" in ascii_timeline(trace)


def test_added_track_draws_and_writes_its_header(
    with_alarms: None, trace: Trace
) -> None:
    scene = make_scene(trace, state=LaneState(collapsed=frozenset()))

    batches = compose_timeline(scene).batches

    red = [
        n
        for batch in batches
        if isinstance(batch, RectBatch) and (n := int((batch.fill == RED).sum()))
    ]
    texts = [
        text.text
        for batch in batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]
    assert red == [2]
    assert "2 alarms" in texts


def test_added_track_is_hit_and_has_a_tooltip(with_alarms: None, trace: Trace) -> None:
    scene = make_scene(trace, state=LaneState(collapsed=frozenset()))
    box, lane = scene.layout.boxes[-1], scene.layout.boxes[-1].lane
    context = TooltipContext(
        trace=trace, index=scene.index, color_by="op", ticks_per_px=1.0,
        time=trace.extent, time_title="visible range", absolute=False, shows_waits=True,
    )  # fmt: skip

    hit = hit_in_lane(scene.index, box, box.y + 10, 500, 1.0)

    assert hit.span == 2
    assert track_of(lane).tooltip(context, hit) == "<b>alarm 2</b>"
    assert "2 spans" in track_of(lane).header_lines(context, box.title)
