"""The picture of a program that runs moves on between two snapshots, exactly."""

import os
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QImage, QMouseEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.units import TimeRange
from ggscope.render.theme import theme
from ggscope.render.timeline import rows as rows_module
from ggscope.render.timeline.scene import AXIS_HEIGHT, time_scale
from ggscope.session.session import Session
from ggscope.views.timeline import smooth_scroll as glide_module
from ggscope.views.timeline import view as view_module
from ggscope.views.timeline.view import TimelineView
from ring_writer import Writer

PX_PER_S = 800


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace(tokens=4, layers=4))
    yield session
    session.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that a test moves, and pictures that run ahead of no snapshot."""
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(glide_module, "time", clock)
    monkeypatch.setattr(view_module, "time", clock)
    monkeypatch.setattr(glide_module, "_BEFORE_S", 0.0)
    return clock


@pytest.fixture
def view(
    qtbot: QtBot, session: Session, clock: SimpleNamespace
) -> Iterator[TimelineView]:
    view = TimelineView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 420)
    view.show()
    qtbot.waitExposed(view)
    yield view
    if view.glide is not None:
        view.glide.stop()  # before the real clock comes back


def show(view: TimelineView, n_shifted: int = 0, share: int = 3) -> int:
    """Show a part of the trace whose columns are whole ticks; return their width."""
    session = view.session
    assert session.trace is not None
    n = time_scale(TimeRange(0, 1), view.canvas.width(), view.header_width(), 1.0)
    per_column = session.trace.extent.duration // share // n.n_columns
    start = session.trace.extent.duration // 4 + n_shifted * per_column
    session.viewport.set_visible(TimeRange(start, start + n.n_columns * per_column))
    session.viewport.moves_by = PX_PER_S * per_column
    return per_column


def pixels(view: TimelineView) -> np.ndarray:
    """Return what the canvas shows now, without a change signal."""
    image = view.canvas.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    array = np.frombuffer(image.constBits(), np.uint32)
    return array.reshape(image.height(), image.width()) & 0xFFFFFF


def lanes(view: TimelineView) -> np.ndarray:
    return pixels(view)[AXIS_HEIGHT:, round(view.header_width()) :]


def touch(view: TimelineView) -> None:
    at = QPointF(500, 200)
    event = QMouseEvent(
        QEvent.Type.MouseMove, at, at, Qt.MouseButton.NoButton,
        Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(view.canvas, event)


@pytest.mark.parametrize("share", [2, 3, 40])
def test_moved_columns_are_those_of_a_picture_of_that_time(
    view: TimelineView,
    clock: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    share: int,
) -> None:
    monkeypatch.setattr(rows_module, "MAX_LABELS", 0)
    show(view, share=share)
    first = lanes(view)
    clock.now += 0.05
    moved = lanes(view)
    n = round(0.05 * PX_PER_S)
    show(view, n, share=share)
    view.glide.stop()
    there = lanes(view)

    assert not np.array_equal(first, moved)
    assert np.array_equal(moved, there)
    assert np.array_equal(first[:, n:], moved[:, :-n])


def test_headers_stand_while_the_lanes_move(
    view: TimelineView, clock: SimpleNamespace
) -> None:
    show(view)
    first = pixels(view)
    clock.now += 0.05
    moved = pixels(view)
    edge = round(view.header_width())
    assert np.array_equal(first[:, :edge], moved[:, :edge])
    assert not np.array_equal(first[:, edge:], moved[:, edge:])


def test_name_of_a_span_that_is_cut_at_the_left_keeps_to_the_edge(
    view: TimelineView, clock: SimpleNamespace
) -> None:
    show(view, share=40)
    scene = view.scene(view.canvas.width(), view.canvas.height(), 1.0)
    assert scene is not None
    texts = [
        text
        for batch in view.compose_scene(scene).batches
        if hasattr(batch, "texts")
        for text in batch.texts
        if text.keeps_left
    ]
    assert texts
    text = texts[0]

    def visible() -> np.ndarray:
        row = round(text.y) + np.arange(-5, 6)
        return pixels(view)[row][:, round(text.x) : round(text.x) + 16]

    first = visible()
    assert len(np.unique(first)) > 2
    clock.now += 0.03
    assert np.array_equal(visible(), first)


def test_picture_goes_on_from_where_it_was_however_unevenly_snapshots_come(
    view: TimelineView, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glide_module, "_BEFORE_S", 0.02)
    ends: list[float] = []
    random = np.random.default_rng(1)
    per_column = show(view, share=40)
    begin = clock.now
    pixels(view)
    for _ in range(40):
        wait = 0.04 + random.uniform(-0.01, 0.01)
        for _ in range(4):
            clock.now += wait / 4
            pixels(view)
            moved = view.glide.offset * per_column
            ends.append(view.session.viewport.visible.end + moved)
        # A snapshot as old as its reading took.
        late = random.uniform(0, 0.01)
        show(view, round((clock.now - begin - late) * PX_PER_S), share=40)
    steps = np.diff(ends) / per_column
    assert steps.min() >= 0
    assert steps.max() <= 2 * 0.0125 * PX_PER_S + 1


def test_picture_stands_where_nothing_comes_any_more(
    view: TimelineView, clock: SimpleNamespace, qtbot: QtBot
) -> None:
    show(view)
    pixels(view)
    clock.now += 10
    last = pixels(view)
    assert view.glide.is_at_end
    assert view.glide.offset > 0
    clock.now += 10
    assert np.array_equal(pixels(view), last)
    qtbot.waitUntil(lambda: not view.glide.is_moving)


def test_picture_stands_under_a_mouse_that_moves_and_with_reduced_motion(
    view: TimelineView, clock: SimpleNamespace
) -> None:
    show(view)
    assert view.moving() is view.glide
    touch(view)
    assert view.moving() is None
    clock.now += view_module.REST_S + 0.01
    assert view.moving() is view.glide
    view.set_calm(True)
    assert view.moving() is None
    view.set_calm(False)
    view.session.viewport.moves_by = 0
    assert view.moving() is None


def test_hair_line_is_gone_while_the_picture_moves(
    view: TimelineView, clock: SimpleNamespace
) -> None:
    show(view)
    without = lanes(view)
    view.glide.stop()
    touch(view)
    assert view.session.viewport.cursor_tick is not None
    pointed = lanes(view)
    clock.now += view_module.REST_S + 0.01
    rested = lanes(view)
    assert not np.array_equal(pointed, without)
    assert np.array_equal(rested, without)


def test_what_changes_is_drawn_at_once(
    view: TimelineView, clock: SimpleNamespace, qtbot: QtBot
) -> None:
    show(view)
    first = pixels(view)
    view.set_theme(theme("light"))
    changed = pixels(view)
    assert not np.array_equal(first, changed)
    view.resize(900, 420)
    assert pixels(view).shape[1] == view.canvas.width()


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)
def n_frames(timeline: TimelineView) -> int:
    return 0 if timeline.glide is None else timeline.glide.n_frames


def test_program_that_is_followed_glides_until_it_is_paused_and_ends(
    window, qtbot, tmp_path
):
    writer = Writer(tmp_path / "ring", n_lanes=2, capacity=1 << 12)
    document = window.follow(str(writer.path))
    writer.graph()
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)
    session = document.session
    qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=10_000)
    (timeline,) = document.workspace.views("timeline")
    assert session.viewport.moves_by == 0  # all of it is in view

    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 50_000, end + 2_000))
    writer.graph()
    qtbot.waitUntil(lambda: session.viewport.moves_by == 10**9, timeout=10_000)
    until = time.monotonic() + 10
    while n_frames(timeline) < 5 and time.monotonic() < until:
        writer.graph()
        qtbot.wait(20)
    assert n_frames(timeline) >= 5

    window.actions_["live.pause"].trigger()
    assert session.viewport.moves_by == 0
    window.actions_["live.pause"].trigger()
    assert session.viewport.moves_by == 10**9
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        writer.end()
    assert session.viewport.moves_by == 0
    assert timeline.moving() is None
    assert not timeline.glide.is_moving
    writer.close()
