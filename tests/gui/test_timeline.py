"""The timeline with real mouse and key events."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import (
    QGuiApplication,
    QMouseEvent,
    QOpenGLContext,
    QWheelEvent,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Filter, MarkedRange, Selection
from ggscope.model.tables import CounterShape
from ggscope.model.units import TimeRange, format_share, parse_time
from ggscope.render.theme import theme
from ggscope.render.timeline import scene as scene_module
from ggscope.render.timeline.scene import AXIS_HEIGHT, TimelineGeometry
from ggscope.render.timeline.tracks.track import track_of
from ggscope.session.ruler import Ruler
from ggscope.session.session import Session
from ggscope.views.base import canvas as painted_module
from ggscope.views.base.canvas import (
    RasterCanvas,
    hardware_renderer,
    has_graphics_card,
)
from ggscope.views.timeline import view as timeline_module
from ggscope.views.timeline.context_menu import build_menu
from ggscope.views.timeline.tooltips import tooltip_for
from ggscope.views.timeline.view import TimelineView
from scenes import texts_of
from statements import new_statement, new_statements

LEFT, MIDDLE = Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton
PLAIN = Qt.KeyboardModifier.NoModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> TimelineView:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 420)
    view.show()
    qtbot.waitExposed(view)
    return view


def canvas(view: TimelineView) -> QWidget:
    return view.findChild(RasterCanvas)


def spot(view: TimelineView, span: int) -> QPoint:
    """Return a canvas point in the middle of a span."""
    prepared, session = view.prepared(), view.session
    assert prepared is not None
    assert session is not None
    assert session.trace is not None
    key, row = prepared.index.row_of_span(span)
    box = prepared.layout.box_of(key)
    assert box is not None
    scene = view.scene(canvas(view).width(), canvas(view).height(), 1.0)
    assert scene is not None
    spans = session.trace.spans
    middle = (int(spans.start[span]) + int(spans.end[span])) // 2
    y = AXIS_HEIGHT + box.y + box.row_y[row] + box.row_height / 2 - scene.scroll_y
    return QPoint(round(TimelineGeometry(scene).time.x(middle)), round(y))


def first_op(session: Session) -> int:
    assert session.trace is not None
    spans = session.trace.spans
    lengths = np.where(spans.op >= 0, spans.end - spans.start, -1)
    return int(np.argmax(lengths))


def drag(
    view: TimelineView, start: QPoint, end: QPoint,
    button: Qt.MouseButton = LEFT, mods: Qt.KeyboardModifier = PLAIN,
) -> None:  # fmt: skip
    target = canvas(view)
    QTest.mousePress(target, button, mods, start)
    for share in (0.25, 0.5, 0.75, 1.0):
        at = start + QPoint(
            round((end.x() - start.x()) * share), round((end.y() - start.y()) * share)
        )
        event = QMouseEvent(
            QEvent.Type.MouseMove, QPointF(at), QPointF(target.mapToGlobal(at)),
            Qt.MouseButton.NoButton, button, mods,
        )  # fmt: skip
        QApplication.sendEvent(target, event)
    QTest.mouseRelease(target, button, mods, end)


def wheel(
    view: TimelineView, at: QPoint, dy: int, mods: Qt.KeyboardModifier = PLAIN,
    dx: int = 0, pixels: QPoint | None = None,
    phase: Qt.ScrollPhase = Qt.ScrollPhase.NoScrollPhase,
) -> None:  # fmt: skip
    target = canvas(view)
    event = QWheelEvent(
        QPointF(at), QPointF(target.mapToGlobal(at)), pixels or QPoint(),
        QPoint(dx, dy), Qt.MouseButton.NoButton, mods, phase, False,
    )  # fmt: skip
    QApplication.sendEvent(target, event)


def test_click_selects_the_span_under_the_mouse(
    view: TimelineView, session: Session
) -> None:
    span = first_op(session)

    QTest.mouseClick(canvas(view), LEFT, PLAIN, spot(view, span))

    assert session.selection.current == Selection("spans", (span,))


def test_ctrl_click_adds_and_a_click_on_nothing_clears(
    view: TimelineView, session: Session
) -> None:
    assert session.trace is not None
    spans = session.trace.spans
    order = np.argsort(np.where(spans.op >= 0, spans.start - spans.end, 0))
    first, second = int(order[0]), int(order[1])
    QTest.mouseClick(canvas(view), LEFT, PLAIN, spot(view, first))

    QTest.mouseClick(canvas(view), LEFT, CTRL, spot(view, second))
    both = set(session.selection.current.ids)
    QTest.mouseClick(canvas(view), LEFT, PLAIN, QPoint(600, canvas(view).height() - 3))

    assert both == {first, second}
    assert not session.selection.current


def test_drag_marks_a_range_on_all_lanes(view: TimelineView, session: Session) -> None:
    drag(view, QPoint(300, 150), QPoint(500, 152))

    marked = session.ranges.marked
    assert marked is not None
    assert marked.lanes is None
    assert abs(marked.time.start - view.tick_at(300)) <= view.ticks_per_px() * 2
    assert abs(marked.time.end - view.tick_at(500)) <= view.ticks_per_px() * 2


def test_drag_across_lanes_marks_just_those(
    view: TimelineView, session: Session
) -> None:
    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of("thread:thread 0") or next(
        b for b in prepared.layout.boxes if b.lane and b.group == "Threads"
    )
    assert box.lane is not None
    top = round(AXIS_HEIGHT + box.y + 1)

    drag(view, QPoint(300, top), QPoint(500, top + 12))

    assert session.ranges.marked is not None
    assert session.ranges.marked.lanes is not None
    assert box.lane.key in session.ranges.marked.lanes
    assert len(session.ranges.marked.lanes) < len(prepared.index.lanes)


def test_edge_of_a_marked_range_can_be_dragged(
    view: TimelineView, session: Session
) -> None:
    drag(view, QPoint(300, 150), QPoint(500, 150))
    assert session.ranges.marked is not None
    start = session.ranges.marked.time.start

    drag(view, QPoint(500, 150), QPoint(650, 150))

    assert session.ranges.marked.time.start == start
    assert abs(session.ranges.marked.time.end - view.tick_at(650)) <= (
        2 * view.ticks_per_px()
    )


@pytest.mark.parametrize(("button", "mods"), [(MIDDLE, PLAIN), (LEFT, SHIFT)])
def test_middle_and_shift_drag_pan(
    view: TimelineView, session: Session,
    button: Qt.MouseButton, mods: Qt.KeyboardModifier,
) -> None:  # fmt: skip
    session.viewport.set_visible(TimeRange(1_000, session.trace.extent.end // 2))  # type: ignore[union-attr]
    before = session.viewport.visible

    drag(view, QPoint(600, 150), QPoint(500, 150), button, mods)

    moved = session.viewport.visible
    assert moved.duration == before.duration
    assert moved.start - before.start == pytest.approx(
        100 * view.ticks_per_px(), rel=0.02
    )


def test_ctrl_drag_zooms_to_the_region(view: TimelineView, session: Session) -> None:
    low, high = view.tick_at(400), view.tick_at(500)

    drag(view, QPoint(400, 150), QPoint(500, 150), LEFT, CTRL)

    assert abs(session.viewport.visible.start - low) <= 2
    assert abs(session.viewport.visible.end - high) <= 2
    assert session.ranges.marked is None


def test_ctrl_wheel_keeps_the_time_under_the_cursor(
    view: TimelineView, session: Session
) -> None:
    at = QPoint(437, 150)
    tick, duration = view.tick_at(at.x()), session.viewport.visible.duration

    wheel(view, at, 120, CTRL)

    assert session.viewport.visible.duration < duration
    assert abs(view.tick_at(at.x()) - tick) <= view.ticks_per_px() + 1


def test_shift_and_sideways_wheel_pan(view: TimelineView, session: Session) -> None:
    session.viewport.set_visible(TimeRange(0, session.trace.extent.end // 4))  # type: ignore[union-attr]
    start = session.viewport.visible.start

    wheel(view, QPoint(500, 150), -120, SHIFT)
    after_shift = session.viewport.visible.start
    wheel(view, QPoint(500, 150), 0, PLAIN, dx=-120)

    assert after_shift > start
    assert session.viewport.visible.start > after_shift


def test_trackpad_keeps_to_the_axis_of_its_first_motion(
    view: TimelineView, session: Session
) -> None:
    session.viewport.set_visible(TimeRange(0, session.trace.extent.end // 4))  # type: ignore[union-attr]
    at = QPoint(500, 150)
    wheel(view, at, 0, PLAIN, -80, QPoint(-40, 2), Qt.ScrollPhase.ScrollBegin)
    moved = session.viewport.visible.start

    wheel(view, at, -240, PLAIN, 0, QPoint(-1, -120), Qt.ScrollPhase.ScrollUpdate)

    assert moved > 0
    assert session.viewport.visible.start >= moved
    assert view.scroll_bar.value() == 0


def test_wheel_scrolls_lanes_when_they_do_not_fit(
    qtbot: QtBot, view: TimelineView
) -> None:
    view.resize(800, 140)
    qtbot.waitUntil(lambda: view.scroll_bar.maximum() > 0)

    wheel(view, QPoint(400, 100), -120)
    scrolled = view.scroll_bar.value()
    QTest.keyClick(view, Qt.Key.Key_Down)
    QTest.keyClick(view, Qt.Key.Key_PageUp)

    assert scrolled > 0
    assert view.scroll_bar.value() == 0


def test_double_click_fits_the_span(view: TimelineView, session: Session) -> None:
    span = first_op(session)
    at = spot(view, span)

    QTest.mouseDClick(canvas(view), LEFT, PLAIN, at)

    spans = session.trace.spans  # type: ignore[union-attr]
    length = int(spans.end[span] - spans.start[span])
    assert session.selection.current.active == span
    assert session.viewport.visible.duration < 4 * max(length, 16)


def test_drag_on_the_axis_scrubs_through_the_ops_of_a_lane(
    view: TimelineView, session: Session
) -> None:
    span = first_op(session)
    session.selection.select_span(span)
    lane = view.prepared().index.lane_of_span(span)  # type: ignore[union-attr]

    drag(view, QPoint(300, 8), QPoint(700, 8))

    active = session.selection.current.active
    assert active is not None
    assert active != span
    assert view.prepared().index.lane_of_span(active) == lane  # type: ignore[union-attr]


def test_click_on_a_group_head_closes_and_opens_it(
    view: TimelineView, session: Session
) -> None:
    def head() -> QPoint:
        boxes = view.prepared().layout.boxes  # type: ignore[union-attr]
        box = next(b for b in boxes if b.lane is None and b.group == "Threads")
        return QPoint(30, round(AXIS_HEIGHT + box.y + box.height / 2))

    n_boxes = len(view.prepared().layout.boxes)  # type: ignore[union-attr]
    QTest.mouseClick(canvas(view), LEFT, PLAIN, head())
    closed = len(view.prepared().layout.boxes)  # type: ignore[union-attr]
    QTest.mouseClick(canvas(view), LEFT, PLAIN, head())

    assert closed < n_boxes
    assert len(view.prepared().layout.boxes) == n_boxes  # type: ignore[union-attr]


def test_lane_header_can_be_dragged_to_another_place(
    view: TimelineView, session: Session
) -> None:
    def threads() -> list:
        boxes = view.prepared().layout.boxes  # type: ignore[union-attr]
        return [b for b in boxes if b.lane is not None and b.group == "Threads"]

    first, second = threads()[:2]

    drag(
        view, QPoint(60, round(AXIS_HEIGHT + second.y + 5)),
        QPoint(60, round(AXIS_HEIGHT + first.y + 3)),
    )  # fmt: skip

    assert [b.lane.key for b in threads()[:2]] == [second.lane.key, first.lane.key]


def test_menu_isolates_pins_and_hides(view: TimelineView, session: Session) -> None:
    span = first_op(session)
    op = session.trace.op_name(int(session.trace.spans.op[span]))  # type: ignore[union-attr]
    key = view.prepared().index.lane_of_span(span)  # type: ignore[union-attr]
    actions = {
        a.text(): a for a in build_menu(view, *spot(view, span).toTuple()).actions()
    }

    actions[f"Show only {op}"].trigger()
    next(a for t, a in actions.items() if t.startswith("Pin ")).trigger()
    actions["Copy details as Markdown"].trigger()

    assert session.queries.filter.ops == frozenset({op})
    assert session.lanes.state.pinned == (key,)
    assert QGuiApplication.clipboard().text().startswith("| field | value |")
    session.queries.set_filter(Filter())
    session.lanes.set_state(LaneState(hidden=frozenset({key})))
    assert view.prepared().layout.box_of(key) is None  # type: ignore[union-attr]
    menu = build_menu(view, 500, canvas(view).height() - 3)
    assert "Show hidden lanes" in [a.text() for a in menu.actions()]


def head_of(view: TimelineView, group: str) -> QPoint:
    """Return a point on the head of a group."""
    prepared = view.prepared()
    assert prepared is not None
    (box,) = [b for b in prepared.layout.boxes if b.lane is None and b.group == group]
    return QPoint(30, round(AXIS_HEIGHT + box.y + box.height / 2))


def take(view: TimelineView, at: QPoint, expected: str) -> list[str]:
    """Take an entry of the menu at a point, by how it begins; return all texts."""
    actions = build_menu(view, *at.toTuple()).actions()
    next(a for a in actions if a.text().startswith(expected)).trigger()
    return [a.text() for a in actions]


def test_group_is_hidden_pinned_and_unpinned_by_its_head(
    view: TimelineView, session: Session
) -> None:
    def lanes() -> dict[str, list[str]]:
        lanes: dict[str, list[str]] = {}
        for box in view.prepared().layout.boxes:  # type: ignore[union-attr]
            if box.lane is not None:
                lanes.setdefault(box.group, []).append(box.lane.key)
        return lanes

    before = lanes()

    take(view, head_of(view, "Threads"), "Pin ")
    assert lanes()["Pinned"] == before["Threads"]
    take(view, head_of(view, "Pinned"), "Unpin all")
    assert lanes() == before

    take(view, head_of(view, "Layers"), "Hide ")
    assert session.lanes.state.hidden == frozenset(before["Layers"])
    assert lanes() == {k: v for k, v in before.items() if k != "Layers"}


def test_hiding_is_undone_by_going_back(view: TimelineView, session: Session) -> None:
    session.history.record()
    take(view, head_of(view, "Layers"), "Hide ")
    hidden = session.lanes.state
    session.viewport.zoom(0.5)

    session.navigator.back()
    session.navigator.back()
    assert session.lanes.state.hidden == frozenset()
    session.navigator.forward()
    assert session.lanes.state == hidden


def test_menu_of_a_point_in_time_bookmarks_copies_and_formats(
    view: TimelineView, session: Session
) -> None:
    on_axis = QPoint(500, 10)
    tick = view.tick_at(500)

    texts = take(view, on_axis, "Bookmark here")
    assert session.bookmarks.items[0].time == TimeRange(tick, tick)
    assert any(t.startswith("Copy time (") for t in texts)
    take(view, on_axis, "Copy time")
    clock = session.trace.clock  # type: ignore[union-attr]
    assert parse_time(QGuiApplication.clipboard().text(), clock) == tick

    menu = build_menu(view, *on_axis.toTuple())
    (forms,) = [a.menu() for a in menu.actions() if a.text() == "Time format"]
    assert isinstance(forms, QMenu)
    assert [a.isChecked() for a in forms.actions()] == [True, False]
    forms.actions()[1].trigger()
    assert session.display.absolute_time
    in_lanes = build_menu(view, *spot(view, first_op(session)).toTuple())
    texts = [a.text() for a in in_lanes.actions()]
    assert "Bookmark here" in texts
    assert "Time format" not in texts


def test_lanes_and_groups_are_called_as_the_person_wants(
    view: TimelineView, session: Session
) -> None:
    key = view.prepared().layout.boxes  # type: ignore[union-attr]
    lane = next(b.lane for b in key if b.lane is not None and b.group == "Threads")
    requests: list[str] = []
    session.lanes.name_requested.connect(requests.append)
    take(view, head_of(view, "Threads"), "Rename")
    box = view.prepared().layout.box_of(lane.key)  # type: ignore[union-attr]
    take(view, QPoint(30, round(AXIS_HEIGHT + box.y + 8)), "Rename")
    assert requests == ["group:Threads", lane.key]

    session.lanes.set_title("group:Threads", "Cores")
    session.lanes.set_title(lane.key, "main\nthread")

    boxes = view.prepared().layout.boxes  # type: ignore[union-attr]
    titles = [b.title for b in boxes]
    assert "Cores" in titles
    assert "main thread" in titles
    drawn = texts_of(view.picture(1000, 420, 1.0))
    assert {"Cores", "main thread"} <= set(drawn)
    assert lane.title not in drawn
    box = view.prepared().layout.box_of(lane.key)  # type: ignore[union-attr]
    place = QPoint(30, round(AXIS_HEIGHT + box.y + 8))
    hit = view.hit(place.x(), place.y())
    tip = tooltip_for(view.prepared(), session, hit, 1.0)
    assert f"name in the file: {lane.title}" in tip
    take(view, place, "Reset name")
    assert view.prepared().layout.box_of(lane.key).title == lane.title  # type: ignore[union-attr]
    take(view, QPoint(500, canvas(view).height() - 3), "Reset lanes")
    assert dict(session.lanes.state.names) == {"group:Threads": "Cores"}


@pytest.mark.parametrize("shift", [False, True])
def test_measured_range_snaps_to_the_edges_of_spans(
    view: TimelineView, session: Session, shift: bool
) -> None:
    trace = session.trace
    assert trace is not None
    first = first_op(session)
    key, row = view.prepared().index.row_of_span(first)  # type: ignore[union-attr]
    line = view.prepared().index.rows(key)[row]  # type: ignore[union-attr]
    last = int(line.id[list(line.id).index(first) + 3])
    start, end = int(trace.spans.start[first]), int(trace.spans.end[last])
    session.viewport.set_visible(TimeRange(start, end).padded((end - start) // 4))
    y = spot(view, first).y()
    scene = view.scene(canvas(view).width(), canvas(view).height(), 1.0)
    time = TimelineGeometry(scene).time
    places = QPoint(round(time.x(start)) + 3, y), QPoint(round(time.x(end)) - 4, y)

    target = canvas(view)
    QTest.mousePress(target, LEFT, PLAIN, places[0])
    for at in (places[0] + QPoint(40, 0), places[1]):
        event = QMouseEvent(
            QEvent.Type.MouseMove, QPointF(at), QPointF(target.mapToGlobal(at)),
            Qt.MouseButton.NoButton, LEFT, SHIFT if shift else PLAIN,
        )  # fmt: skip
        QApplication.sendEvent(target, event)
    QTest.mouseRelease(target, LEFT, PLAIN, places[1])

    assert session.ranges.marked is not None
    result = session.ranges.marked.time
    assert (result == TimeRange(start, end)) is not shift
    if shift:
        ticks = [view.tick_at(p.x()) for p in places]
        assert result == TimeRange(*ticks)


def test_tooltip_names_the_span_and_says_what_is_derived(
    view: TimelineView, session: Session
) -> None:
    from ggscope.model.tables import Quality, quality_of
    from ggscope.views.timeline.tooltips import tooltip_for

    trace = session.trace
    assert trace is not None
    derived = (quality_of(trace.spans.flags) == Quality.DERIVED) & (trace.spans.op >= 0)
    span = int(np.argmax(np.where(derived, trace.spans.end - trace.spans.start, -1)))
    session.selection.select_span(span)
    session.navigator.fit_selection()
    at = spot(view, span)
    hit = view.hit(at.x(), at.y())

    text = tooltip_for(view.prepared(), session, hit, view.ticks_per_px())  # type: ignore[arg-type]

    assert hit.span == span
    assert trace.span_name(span) in text
    assert "derived" in text
    assert "65535" not in text


@pytest.mark.parametrize("color_by", ["family", "layer"])
def test_tooltip_of_a_column_lists_what_it_is_made_of(
    view: TimelineView, session: Session, color_by: str
) -> None:
    session.set_trace(builders.random_trace(3, 40_000, lanes=1, layers=12))
    session.display.set_color_by(color_by)
    trace, prepared = session.trace, view.prepared()
    assert trace is not None
    assert prepared is not None
    box = prepared.layout.box_of("thread:thread 0")
    assert box is not None
    width = round(view.ticks_per_px())
    x, y = 500.0, AXIS_HEIGHT + box.y + box.height / 2
    hit = view.hit(x, y)

    text = unescape(tooltip_for(prepared, session, hit, view.ticks_per_px()))

    low = hit.tick - width // 2
    spans, categories = trace.spans, prepared.index.categories(color_by)
    inside = np.minimum(spans.end, low + width) - np.maximum(spans.start, low)
    ticks = np.bincount(categories.index, np.maximum(inside, 0), len(categories.labels))
    shares = {
        label: format_share(share / width)
        for label, share in zip(categories.labels, ticks.tolist(), strict=True)
        if share
    }
    shown = re.findall(r"<br>(?:<[^>]*>)?([^<>]+?) (\S+ %)(?=<br>)", text)
    listed = {name: share for name, share in shown if name in shares}
    assert 1 < len(listed) <= 6
    assert listed.items() <= shares.items()
    items = sorted(ticks.tolist(), reverse=True)[: len(listed)]
    assert list(listed.values()) == [format_share(share / width) for share in items]
    assert ("others" in text) == (len(shares) > 6)


def test_header_of_a_lane_says_whose_ends_are_derived(
    view: TimelineView, session: Session
) -> None:
    from ggscope.model.tables import SpanFlag
    from ggscope.views.timeline.tooltips import tooltip_for

    ends = int(SpanFlag.INFERRED_END)
    made = builders.spans_trace([0, 5, 0, 5], [5, 9, 5, 9], lane=[0, 0, 1, 1],
                                flags=[ends, 0, 0, 0])  # fmt: skip
    session.set_trace(made)
    prepared = view.prepared()
    assert prepared is not None
    values = {
        box.lane.lane_ids: tooltip_for(
            prepared, session, view.hit(40.0, AXIS_HEIGHT + box.y + box.height / 2), 1.0
        )
        for box in prepared.layout.boxes
        if box.lane is not None and box.lane.n_spans
    }

    first, second = (values[key] for key in sorted(values))
    assert new_statement(first, second)


def test_tooltips_of_headers_markers_and_counters(
    qtbot: QtBot, view: TimelineView, session: Session
) -> None:
    from ggscope.views.timeline.tooltips import tooltip_for

    session.set_trace(builders.npu_like_trace())
    prepared = view.prepared()
    assert prepared is not None
    view.resize(1000, 900)
    texts = []
    for box in prepared.layout.boxes:
        y = AXIS_HEIGHT + box.y + box.height / 2
        for x in (40.0, 600.0):
            hit = view.hit(x, y)
            texts.append(tooltip_for(prepared, session, hit, view.ticks_per_px()))

    joined = "\n".join(texts)
    assert "sample at" in joined
    boxes = prepared.layout.boxes
    kinds = [
        "group" if b.lane is None else "spans" if b.lane.n_spans else "else"
        for b in boxes
    ]
    of_kind = {
        kind: unescape(
            "\n".join(t for k, t in zip(kinds, texts[::2], strict=True) if k == kind)
        )
        for kind in set(kinds)
    }
    assert " lanes, " in of_kind["group"]
    assert " lanes, " not in of_kind["spans"] + of_kind["else"]
    assert "trace: busy" in of_kind["spans"]
    assert "trace: busy" not in of_kind["group"] + of_kind["else"]
    trace, index = session.trace, prepared.index
    (lane,) = (i for i, x in enumerate(trace.lanes) if x.name == "DMA0 stalls")
    rows = trace.spans.lane == lane
    pairs = zip(trace.spans.start[rows], trace.spans.end[rows], strict=True)
    ticks = set().union(*(range(int(a), int(b)) for a, b in pairs))
    share = len(ticks) / trace.extent.duration
    (stalled,) = (text for text in texts if "stalled" in text)
    assert f"trace: stalled {format_share(share)}" in stalled
    others = "\n".join(text for text in texts if text != stalled)
    assert new_statements(stalled, others)
    assert "DMA0" in stalled
    assert [index.stalled_share(box.lane.key) for box in prepared.layout.boxes
            if box.lane is not None].count(None) > 1  # fmt: skip


def test_tooltip_of_a_counter_shows_what_is_not_known(
    view: TimelineView, session: Session
) -> None:
    builder = TraceBuilder()
    builder.add_counter(
        "DRAM utilisation", "share", CounterShape.LEVEL,
        np.array([0, 1_000, 7_000, 8_000]), np.array([0.9296875, np.nan, 1.25, 0]),
    )  # fmt: skip
    view.resize(1000, 400)
    session.set_trace(builders.finished(builder))
    session.viewport.set_visible(TimeRange(0, 8_000))
    prepared = view.prepared()
    assert prepared is not None
    (box,) = (b for b in prepared.layout.boxes if b.lane and not b.lane.track.has_rows)

    def shown(tick: int) -> str:
        scene = view.scene(canvas(view).width(), canvas(view).height(), 1.0)
        assert scene is not None
        x = TimelineGeometry(scene).time.x(tick)
        hit = view.hit(x, AXIS_HEIGHT + box.y + box.height / 2)
        assert abs(hit.tick - tick) < 100
        return unescape(str(tooltip_for(prepared, session, hit, view.ticks_per_px())))

    assert "93.0 % (0.929688)" in shown(500)
    assert "125.0 % (1.25)" in shown(7_500)
    assert ("unknown" in shown(4_000), "sample at" in shown(4_000)) == (True, False)
    assert box.lane is not None
    assert track_of(box.lane).axis_labels(session.trace) == ("125.0 %", "0.0 %")


def test_tooltip_of_a_header_shows_use_of_the_range_and_of_the_trace(
    view: TimelineView, session: Session
) -> None:
    from ggscope.views.timeline.tooltips import tooltip_for

    session.set_trace(builders.spans_trace([0, 500], [100, 1000]))
    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of("thread:thread 0")
    assert box is not None

    def busy_lines() -> list[str]:
        hit = view.hit(40.0, AXIS_HEIGHT + box.y + box.height / 2)
        text = unescape(tooltip_for(prepared, session, hit, view.ticks_per_px()))
        return [line for line in text.split("<br>") if "busy" in line]

    whole = busy_lines()
    session.viewport.set_visible(TimeRange(0, 200))
    zoomed = busy_lines()
    session.ranges.set_marked(MarkedRange(TimeRange(400, 600)))
    marked = busy_lines()

    assert whole == ["trace: busy 60.0 %"]
    assert zoomed == ["visible range: busy 50.0 %", *whole]
    assert marked == ["marked range: busy 50.0 %", *whole]


def test_filter_redraws_with_ghosts_and_keeps_lanes(
    view: TimelineView, session: Session
) -> None:
    before = canvas(view).grab().toImage()

    session.queries.set_filter(Filter(layers=frozenset({1})))
    prepared = view.prepared()

    assert prepared is not None
    assert prepared.mask is not None
    assert canvas(view).grab().toImage() != before


def test_large_trace_is_prepared_on_a_worker(
    qtbot: QtBot, view: TimelineView, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "SYNC_SPANS", 10)
    trace = builders.random_trace(3, 5_000, lanes=3)

    session.set_trace(trace)

    assert view.prepared() is None
    qtbot.waitUntil(lambda: view.prepared() is not None)
    assert view.prepared().index.trace is trace  # type: ignore[union-attr]


def test_token_lane_stays_in_sight_when_lanes_scroll(
    qtbot: QtBot, view: TimelineView, session: Session
) -> None:
    view.resize(800, 220)
    qtbot.waitUntil(lambda: view.scroll_bar.maximum() > 0)
    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of("token")
    assert box is not None
    at = AXIS_HEIGHT + box.y + box.height / 2
    before = view.hit(400, at)

    view.scroll_to(view.scroll_bar.maximum())

    assert view.hit(400, at) == before
    assert before.span >= 0
    below = view.hit(400, AXIS_HEIGHT + prepared.layout.fixed_height + 30).box
    assert below is not None
    assert below.lane is not None
    assert below.lane.track.id not in ("token", "phase")


def test_lanes_of_tokens_can_change_places(
    view: TimelineView, session: Session
) -> None:
    session.set_trace(builders.npu_like_trace())
    view.resize(800, 500)
    prepared = view.prepared()
    assert prepared is not None
    token, phase = (prepared.layout.box_of(key) for key in ("token", "phase"))
    assert token is not None
    assert phase is not None
    start, stop = (
        QPoint(60, int(AXIS_HEIGHT + box.y + box.height / 2)) for box in (phase, token)
    )

    drag(view, start, stop)

    keys = [x.lane.key for x in view.prepared().layout if x.lane]  # type: ignore[union-attr]
    assert keys[:2] == ["phase", "token"]
    assert session.lanes.state.pinned == ()


def test_reveal_scrolls_the_lane_into_view(
    qtbot: QtBot, view: TimelineView, session: Session
) -> None:
    view.resize(800, 150)
    qtbot.waitUntil(lambda: view.scroll_bar.maximum() > 0)
    view.scroll_to(view.scroll_bar.maximum())
    span = first_op(session)

    session.selection.select_span(span, reveal=True)

    at = spot(view, span)
    assert AXIS_HEIGHT <= at.y() <= canvas(view).height()


def test_view_without_a_trace_is_calm(qtbot: QtBot) -> None:
    view = TimelineView(Session(), theme("dark"))
    qtbot.addWidget(view)
    view.resize(300, 200)
    view.show()
    view.set_theme(theme("light"))

    QTest.mouseClick(canvas(view), LEFT, PLAIN, QPoint(100, 100))
    QTest.keyClick(view, Qt.Key.Key_Down)

    assert view.renderer_text() == "raster"
    assert not canvas(view).grab().isNull()


def test_released_view_ignores_the_session(
    view: TimelineView, session: Session
) -> None:
    view.release()

    session.viewport.set_visible(TimeRange(10, 500))
    session.lanes.set_state(replace(session.lanes.state, pinned=("x",)))

    assert view.prepared() is None


def test_empty_trace_draws_a_sentence(view: TimelineView, session: Session) -> None:
    session.set_trace(builders.empty_trace())

    assert len(session.trace.spans) == 0  # type: ignore[union-attr]
    assert not canvas(view).grab().isNull()


def test_lane_in_a_closed_group_is_opened_scrolled_to_and_framed(
    view: TimelineView, session: Session, qtbot: QtBot
) -> None:
    assert session.index is not None
    lane = [x for x in session.index.lanes if x.group == "Layers"][-1]
    session.lanes.set_state(LaneState(collapsed=frozenset({"Layers"})))
    view.resize(1000, 200)

    session.lanes.reveal_requested.emit(lane.key)

    prepared = view.prepared()
    assert prepared is not None
    box = prepared.layout.box_of(lane.key)
    assert box is not None
    scene = view.scene(1000, 200, 1.0)
    assert scene is not None
    assert scene.flash_lane == lane.key
    assert 0 <= box.y - scene.scroll_y <= view.lane_area_height() - box.height
    qtbot.waitUntil(lambda: view.scene(1000, 200, 1.0).flash_lane == "")


def test_hidden_lane_is_shown_when_it_is_gone_to(
    view: TimelineView, session: Session
) -> None:
    assert session.index is not None
    key = session.index.lanes[0].key
    session.lanes.set_state(LaneState(hidden=frozenset({key})))

    session.lanes.reveal_requested.emit(key)

    assert key not in session.lanes.state.hidden


def test_framed_lane_changes_the_picture(view: TimelineView, session: Session) -> None:
    assert session.index is not None
    before = len(view.picture(800, 300, 1.0).batches)

    session.lanes.reveal_requested.emit(session.index.lanes[0].key)

    assert len(view.picture(800, 300, 1.0).batches) == before + 1


def test_zoomed_view_draws_larger_and_hits_what_is_drawn(
    view: TimelineView, session: Session
) -> None:
    span = first_op(session)
    view.set_zoom(2.0)
    prepared = view.prepared()
    assert prepared is not None
    scene = view.scene(canvas(view).width() / 2, canvas(view).height() / 2, 2.0)
    assert scene is not None
    key, row = prepared.index.row_of_span(span)
    session.navigator.reveal_span(span)
    box = prepared.layout.box_of(key)
    assert box is not None
    scene = view.scene(canvas(view).width() / 2, canvas(view).height() / 2, 2.0)
    assert scene is not None
    spans = session.trace.spans
    middle = (int(spans.start[span]) + int(spans.end[span])) // 2
    y = AXIS_HEIGHT + box.y + box.row_y[row] + box.row_height / 2 - scene.scroll_y
    at = QPoint(round(2 * TimelineGeometry(scene).time.x(middle)), round(2 * y))

    QTest.mouseClick(canvas(view), LEFT, PLAIN, at)

    assert session.selection.current == Selection("spans", (span,))
    picture = canvas(view).grab().toImage()
    ground = picture.pixelColor(4, picture.height() - 4).rgba()
    assert ground == theme("dark").pane


def test_stalls_can_be_left_out(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(builders.npu_like_trace())
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 420)
    full = len(view.picture(1000, 420, 1.0).batches)

    session.display.set_shows_stalls(False)

    assert len(view.picture(1000, 420, 1.0).batches) < full
    view.release()
    session.close()


@pytest.mark.parametrize("action", ["click", "hover", "move"])
def test_picture_has_one_scene_and_one_set_of_pixel_edges(
    view: TimelineView,
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    made: list[str] = []
    at = spot(view, first_op(session))
    QTest.mouseMove(canvas(view), at - QPoint(3, 0))
    QTest.qWait(50)

    def note(module: object, name: str) -> None:
        make = getattr(module, name)

        def noted(*values: object, **named: object) -> object:
            made.append(name)
            return make(*values, **named)

        monkeypatch.setattr(module, name, noted)

    note(timeline_module, "TimelineScene")
    note(TimelineView, "compose")
    note(scene_module, "column_edges")
    if action == "click":
        QTest.mouseClick(canvas(view), LEFT, PLAIN, at)
    elif action == "hover":
        QTest.mouseMove(canvas(view), at)
    else:
        session.viewport.zoom(0.5)
    QTest.qWait(100)

    n = made.count("compose")
    # A click is drawn at once, and again with what was found to belong to it.
    assert 1 <= n <= 2
    assert made.count("TimelineScene") == made.count("column_edges") == n


def test_driver_is_asked_only_where_there_may_be_a_graphics_card(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not has_graphics_card(tmp_path)
    (tmp_path / "null").touch()
    (tmp_path / "dri").mkdir()
    assert not has_graphics_card(tmp_path)
    for name in ("dri/renderD128", "dri/card0", "nvidia0", "nvidiactl", "dxg", "mali0"):
        (tmp_path / name).touch()
        assert has_graphics_card(tmp_path), name
        (tmp_path / name).unlink()

    composed: list[str] = []

    class Context(QOpenGLContext):
        def create(self) -> bool:
            composed.append("")
            return False

    monkeypatch.setattr(painted_module, "QOpenGLContext", Context)
    monkeypatch.setattr(QGuiApplication, "platformName", lambda: "xcb")
    monkeypatch.setattr(sys, "platform", "linux")
    for has_card, n_asked in ((False, 0), (True, 1)):
        monkeypatch.setattr(
            painted_module, "has_graphics_card", lambda _, has_card=has_card: has_card
        )
        assert hardware_renderer.__wrapped__() is None
        assert len(composed) == n_asked


CTRL_SHIFT = CTRL | Qt.KeyboardModifier.ShiftModifier


def test_drag_with_ctrl_and_shift_measures_between_edges_of_spans(
    view: TimelineView, session: Session
) -> None:
    trace = session.trace
    assert trace is not None
    span = first_op(session)
    at = spot(view, span)
    time = TimeRange(int(trace.spans.start[span]), int(trace.spans.end[span]))
    px = view.ticks_per_px()
    left = QPoint(round(at.x() - time.duration / px / 2) + 3, at.y())
    right = QPoint(round(at.x() + time.duration / px / 2) - 3, at.y())

    drag(view, left, right, LEFT, CTRL_SHIFT)

    assert session.ruler.current is not None
    assert session.ruler.current.time == time
    assert session.ranges.marked is None
    # Its end is dragged on, and Alt does not snap.
    drag(view, QPoint(right.x() + 3, at.y()), right - QPoint(20, 0), LEFT,
         Qt.KeyboardModifier.AltModifier)  # fmt: skip
    moved = session.ruler.current
    assert moved is not None
    assert moved.fixed == time.start
    assert abs(moved.moving - view.tick_at(right.x() - 20)) <= px


def test_plain_drags_measure_while_measuring_and_clicks_select(
    view: TimelineView, session: Session
) -> None:
    trace = session.trace
    assert trace is not None
    at = spot(view, first_op(session))
    session.ruler.measure()
    session.ruler.set(None)

    drag(view, at, at + QPoint(60, 0))
    assert session.ruler.current is not None
    assert session.ranges.marked is None
    session.ruler.set(None)
    QTest.mouseClick(canvas(view), LEFT, PLAIN, at)
    assert session.selection.current.active == first_op(session)
    session.ruler.clear()
    drag(view, at, at + QPoint(60, 0))
    assert session.ruler.current is None
    assert session.ranges.marked is not None


def test_ruler_is_drawn_with_its_readout_and_has_commands(
    view: TimelineView, session: Session, qtbot: QtBot
) -> None:
    trace = session.trace
    assert trace is not None
    extent = trace.extent
    session.ruler.set(Ruler(extent.start, extent.end))
    qtbot.waitUntil(lambda: session.ruler.facts is not None)

    scene = view.scene(900, 600, 1.0)
    assert scene is not None
    assert scene.ruler is not None
    picture = view.compose_scene(scene)
    shown = texts_of(picture)
    assert set(scene.ruler.lines) <= set(shown)
    plain = view.compose_scene(replace(scene, ruler=None))
    assert len(picture.batches) > len(plain.batches)

    place = QPoint(500, 200)
    take(view, place, "Copy ruler")
    text = QGuiApplication.clipboard().text()
    assert text == " · ".join(scene.ruler.lines)
    take(view, place, "Mark ruler range")
    assert session.ranges.marked == MarkedRange(extent)
    take(view, place, "Remove ruler")
    assert session.ruler.current is None
