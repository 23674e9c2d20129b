"""A tab that follows a program: it grows, stands, pauses, ends, and leaves nothing."""

import os
import struct
import subprocess
import threading
import time

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QFileDialog

from ggscope.gui import live as strip_module
from ggscope.gui.commands.registry import Needs, conditions
from ggscope.gui.live import LiveStrip, WaitingPage, command_for, metrics_text
from ggscope.live import files as files_module
from ggscope.live import open_source as live_follow
from ggscope.live.metrics import Rates
from ggscope.live.options import OPTIONS
from ggscope.live.processes import Process
from ggscope.live.program import ProgramSource
from ggscope.live.source import SourceStatus, State
from ggscope.live.writers import WriterWatch, Writing
from ggscope.model.selection import Filter, Selection
from ggscope.model.trace import LaneKind
from ggscope.model.units import TimeRange
from ggscope.render.theme import theme
from ggscope.session import live as live_module
from ggscope.session.live import FollowState, LiveMetrics
from ggscope.session.scheduler import HIDDEN_S, SHOWN_S, FrameScheduler
from ggscope.session.tasks import TaskState
from ggscope.views.heatmap.view import HeatmapView
from ggscope.views.table.view import TableView
from ggscope_capture.ring_format import FrameType
from messages import newest_message
from panes import pane, texts_of_widgets
from ring_writer import Writer
from scenes import texts_of
from statements import new_statement, new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"

pytestmark = pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the made-up writer needs Linux"
)


@pytest.fixture
def writer(tmp_path):
    made = Writer(tmp_path / "ring", n_lanes=2, capacity=1 << 12)
    yield made
    made.close()


@pytest.fixture
def followed(window, qtbot):
    """Return a function that follows a ring in a tab and waits for its first spans."""

    def follow(writer, n=1):
        document = window.follow(str(writer.path))
        for _ in range(n):
            writer.graph()
        qtbot.waitUntil(lambda: n_spans(document) >= 200 * n, timeout=10_000)
        qtbot.waitUntil(lambda: document.workspace.filler.is_done)
        return document

    return follow


def n_spans(document):
    trace = document.session.trace
    return 0 if trace is None else len(trace.spans)


def grow(document, writer, qtbot, n=1):
    before = n_spans(document)
    for _ in range(n):
        writer.graph()
    qtbot.waitUntil(lambda: n_spans(document) >= before + 200 * n, timeout=10_000)


def listeners():
    return [t for t in threading.enumerate() if t.name == "ggscope-live"]


def test_tab_waits_for_a_ring_and_shows_what_it_waits_for(window, qtbot, tmp_path):
    document = window.follow(str(tmp_path / "later"))
    page = document.waiting_page
    qtbot.waitUntil(lambda: "not there yet" in page.message.text(), timeout=10_000)

    assert document.session.trace is None
    assert page.isVisible()
    assert page.head.text() == "Waiting for a program"
    assert "as soon as the traced program makes it" in page.hint.text()

    writer = Writer(tmp_path / "later", n_lanes=2)
    writer.graph()
    qtbot.waitUntil(lambda: n_spans(document) >= 200, timeout=10_000)
    assert document.workspace.isVisible()
    writer.close()


def test_any_ring_is_waited_for_with_the_command_that_makes_one(
    window, qtbot, monkeypatch
):
    monkeypatch.setattr(live_module, "path_to_follow", lambda _: None)
    page = window.follow().waiting_page
    qtbot.waitUntil(lambda: bool(page.message.text()), timeout=10_000)

    assert page.message.text() == "Waiting for a traced program to start computing."
    assert "waiting for a traced program to start computing" in (
        window.document.live.metrics.status.message
    )
    assert page.hint.text() == "This command in a terminal makes it:"
    with qtbot.waitSignal(window.document.live.ended, timeout=10_000):
        window.actions_["live.stop"].trigger()
    assert page.head.text() == "Detached before anything came"
    assert page.again.isVisible()


def test_page_says_what_is_waited_for_only_as_long_as_it_is(
    window, writer, qtbot, tmp_path, monkeypatch
) -> None:
    def page_of(expected: str, phase: FollowState) -> WaitingPage:
        document = window.follow(expected)
        metrics = document.live.metrics
        qtbot.waitUntil(
            lambda: (
                document.live.metrics.phase is phase
                and (document.live.metrics is not metrics)
            ),
            timeout=10_000,
        )
        return document.waiting_page

    def words_of(page: WaitingPage) -> str:
        return "\n".join(texts_of_widgets(page))

    with monkeypatch.context() as patch:
        patch.setattr(live_module, "path_to_follow", lambda _: None)
        page = page_of("", FollowState.WAITING)
        of_any = words_of(page)
        with qtbot.waitSignal(window.document.live.ended, timeout=10_000):
            window.actions_["live.stop"].trigger()
        stopped = words_of(page)
    other = tmp_path / "other"
    other.write_bytes(b"something else entirely")
    named = words_of(page_of(str(tmp_path / "later"), FollowState.WAITING))
    silent = words_of(page_of(str(writer.path), FollowState.LIVE))
    failed = words_of(page_of(str(other), FollowState.FAILED))

    for part in (named, of_any):
        for unsaid in (silent, failed, stopped):
            assert new_statements(part, unsaid)
    for unsaid in (of_any, silent, failed, stopped):
        assert new_statements(named, unsaid)
    for unsaid in (named, silent, failed):
        assert new_statements(of_any, unsaid)
    for unsaid in (named, of_any, failed, stopped):
        assert new_statement(silent, unsaid)
    for unsaid in (named, of_any, silent, stopped):
        assert new_statements(failed, unsaid)


def test_ring_without_graphs_says_what_is_waited_for(window, writer, qtbot):
    document = window.follow(str(writer.path))
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)
    (timeline,) = document.workspace.views("timeline")
    qtbot.waitUntil(lambda: timeline.prepared() is not None, timeout=10_000)

    texts = texts_of(timeline.picture(800, 400, 1))
    assert "Waiting for the first graph …" in texts
    assert "Spans appear here as soon as the program computes." in texts
    assert document.waiting_page.head.text() == "The program has computed nothing yet"


def test_what_is_no_ring_is_refused_in_words(window, qtbot, tmp_path):
    path = tmp_path / "ring"
    path.write_bytes(b"something else entirely")
    document = window.follow(str(path))
    page = document.waiting_page
    qtbot.waitUntil(
        lambda: document.live.metrics.phase is FollowState.FAILED, timeout=10_000
    )

    assert page.head.text() == "This cannot be followed"
    assert "not a ring of ggscope-capture" in page.message.text()
    assert not document.live.is_on


def test_lack_of_memory_ends_following_in_words(
    followed, settings, writer, window, qtbot, tmp_path, monkeypatch
):
    settings.change("memory", limit_mib=4096)
    document = followed(writer)

    def fail(_):
        raise MemoryError

    monkeypatch.setattr(live_module, "bytes_of", fail)

    def is_over():  # the memory is looked at once a second
        writer.graph()
        return not document.live.is_on

    qtbot.waitUntil(is_over, timeout=10_000)
    assert "There is not enough memory to go on." in newest_message(document)
    (tmp_path / "none").write_bytes(b"something else entirely")
    other = window.follow(str(tmp_path / "none"))
    qtbot.waitUntil(
        lambda: other.live.metrics.phase is FollowState.FAILED, timeout=10_000
    )
    parts = (document.live.metrics.status.message, other.live.metrics.status.message)
    assert new_statement(*parts)


def test_reloading_leaves_a_program_that_runs_alone_and_follows_anew_at_its_end(
    followed, writer, window, qtbot
):
    document = followed(writer)
    window.actions_["file.reload"].trigger()
    claim = "Cannot reload while following a program."
    assert document.status.message.full_text == claim
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        window.actions_["live.stop"].trigger()
    window.actions_["file.reload"].trigger()
    writer.graph()
    qtbot.waitUntil(lambda: document.session.trace.is_running, timeout=10_000)


def test_commands_that_would_make_what_is_waited_for():
    assert "ggscope-capture run --" in command_for(None)
    assert "--ggmlviz 'a.ggmlviz'" in command_for("a.ggmlviz")
    assert "-o 'a b.bin'" in command_for("a b.bin")
    assert "--log-file 'a server.log'" in command_for("a server.log")
    assert command_for("/dev/shm/some-ring") == ""


def test_trace_grows_and_view_of_everything_shows_everything(followed, writer, qtbot):
    document = followed(writer)
    session = document.session
    grow(document, writer, qtbot, 3)

    assert session.trace.is_running
    assert document.live.follows
    assert session.viewport.visible.end >= session.trace.extent.end
    when = time.strftime("%H:%M:%S", time.localtime(document.live.metrics.status.began))
    assert document.title == f"made-up · {when}"
    assert document.status.file.full_text.endswith("live")


def test_view_keeps_its_width_and_moves_with_now(followed, writer, qtbot):
    document = followed(writer, 3)
    session = document.session
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 50_000, end + 2_000))
    width = session.viewport.visible.duration

    grow(document, writer, qtbot, 2)

    assert session.viewport.visible.duration == width
    assert session.viewport.visible.end >= session.trace.extent.end > end
    assert document.live.follows


def test_panning_away_lets_the_view_stand_and_end_jumps_to_now(
    followed, writer, window, qtbot
):
    document = followed(writer, 3)
    session = document.session
    session.viewport.set_visible(TimeRange(0, 50_000))
    assert not document.live.follows
    before = session.viewport.visible

    grow(document, writer, qtbot, 2)
    assert session.viewport.visible == before

    window.actions_["go.end"].trigger()
    assert document.live.follows
    assert session.viewport.visible.end >= session.trace.extent.end


def test_zooming_keeps_now_in_place(followed, writer, qtbot):
    document = followed(writer, 3)
    session = document.session
    session.viewport.cursor_tick = 0
    session.viewport.zoom(0.5)

    assert document.live.follows
    assert session.viewport.visible.end >= session.trace.extent.end


def test_key_toggles_following(followed, writer, window, qtbot):
    document = followed(writer)
    document.focus_views()
    qtbot.keyClick(window, Qt.Key.Key_L)
    assert not document.live.follows
    assert not window.actions_["live.follow"].isChecked()
    qtbot.keyClick(window, Qt.Key.Key_L)
    assert document.live.follows
    assert window.actions_["live.follow"].isChecked()


def test_pause_lets_the_picture_stand_while_reading_goes_on(
    followed, writer, window, qtbot
):
    document = followed(writer)
    window.actions_["live.pause"].trigger()
    assert document.live.is_paused
    n, records = n_spans(document), document.live.metrics.status.records

    for _ in range(30):  # more than the ring holds at once, were it not read
        writer.graph()
        qtbot.waitUntil(
            lambda: int(writer.lanes["tail"][0]) == int(writer.lanes["head"][0]),
            timeout=10_000,
        )
    qtbot.waitUntil(
        lambda: document.live.metrics.status.records >= records + 6_000, timeout=10_000
    )
    assert n_spans(document) == n
    assert writer.dropped == 0
    strip = document.findChild(LiveStrip)
    assert strip.state.text() == "● paused"
    text = "new ops (paused)"
    qtbot.waitUntil(lambda: text in strip.figures.full_text, timeout=10_000)
    paused = strip.figures.full_text

    window.actions_["live.pause"].trigger()
    qtbot.waitUntil(lambda: n_spans(document) >= n + 6_000, timeout=10_000)
    assert new_statement(paused, strip.figures.full_text)


def test_at_its_end_the_trace_is_an_ordinary_one(followed, writer, window, qtbot):
    document = followed(writer)
    session, messages = document.session, []
    session.status_message.connect(messages.append)
    session.reload()
    follows = "\n".join(messages)
    messages.clear()
    writer.end()
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        pass

    assert not session.trace.pending
    assert not document.live.is_on
    assert document.live.metrics.phase is FollowState.ENDED
    assert session.viewport.anchor is None
    assert not window.actions_["live.follow"].isEnabled()
    assert "live" not in document.status.file.full_text.split(" · ")
    session.viewport.zoom(0.5, 0)
    session.queries.set_filter(Filter(ops=frozenset({"ADD"})))
    assert session.queries.mask is not None
    qtbot.waitUntil(lambda: not listeners(), timeout=10_000)
    session.reload()  # follows anew
    assert new_statement(follows, "\n".join(messages))
    assert document.live.is_on


def test_stopping_keeps_what_was_received_and_says_so(followed, writer, window, qtbot):
    document = followed(writer)
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        window.actions_["live.stop"].trigger()

    trace = document.session.trace
    assert not trace.pending
    assert [w.code for w in trace.warnings] == ["live_stopped"]
    assert "following was stopped" in trace.warnings[0].message


def test_memory_limit_ends_following_with_a_notice(
    window, settings, writer, qtbot, monkeypatch
):
    monkeypatch.setattr(live_module, "bytes_of", lambda _: 1 << 40)
    settings.change("memory", limit_mib=64)
    document = window.follow(str(writer.path))
    writer.graph()
    qtbot.waitUntil(
        lambda: document.live.metrics.phase is FollowState.FULL, timeout=10_000
    )

    (warning,) = [w for w in document.session.trace.warnings if w.code == "live_full"]
    assert "following stopped at the memory limit" in warning.message
    assert "Following stopped" in newest_message(document)
    strip = document.findChild(LiveStrip)
    assert "stopped: memory limit" in strip.state.text()
    assert not document.session.trace.pending


def test_killed_program_is_reported(followed, writer, qtbot):
    document = followed(writer)
    writer.control["pid"] = 1 << 30
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        pass

    assert document.live.metrics.phase is FollowState.KILLED
    assert "killed or crashed" in newest_message(document)
    assert not document.session.trace.pending


def test_closing_the_tab_stops_listening(followed, writer, window, qtbot):
    document = followed(writer)
    assert listeners()
    window.close_document(document)
    qtbot.waitUntil(lambda: not listeners(), timeout=10_000)
    assert int(writer.control["reader_pid"][0]) == 0


def test_what_a_person_did_stays_while_the_trace_grows(followed, writer, qtbot):
    document = followed(writer)
    session = document.session
    session.selection.select_span(7, reveal=False)
    session.queries.set_filter(Filter(ops=frozenset({"ADD"})))
    grow(document, writer, qtbot, 2)

    assert session.selection.current.ids == (7,)
    assert len(session.queries.mask) == len(session.trace.spans)


def test_views_that_do_not_keep_up_are_reported_seldom_and_keep_their_place(
    followed, writer, qtbot
):
    document = followed(writer, 5)
    (table,) = document.workspace.views("table")
    qtbot.waitUntil(lambda: table.model.rowCount() >= 1_000, timeout=10_000)
    n = table.model.rowCount()
    table.grid.verticalScrollBar().setValue(40)
    at = table.grid.verticalScrollBar().value()

    messages = []
    document.session.trace_changed.connect(messages.append)
    grow(document, writer, qtbot, 1)
    assert messages
    qtbot.waitUntil(lambda: table.model.rowCount() > n, timeout=10_000)
    assert table.grid.verticalScrollBar().value() == at


def test_ring_made_anew_begins_another_trace(followed, writer, tmp_path, qtbot):
    document = followed(writer, 3)
    writer.path.unlink()
    (tmp_path / "ring.defs").unlink()
    other = Writer(tmp_path / "ring", n_lanes=2)
    other.graph()
    qtbot.waitUntil(lambda: 0 < n_spans(document) < 600, timeout=10_000)
    assert document.live.metrics.status.restarts == 1
    other.close()


def test_tokens_are_counted_where_they_are_reported(followed, writer, qtbot):
    document = followed(writer)
    assert document.live.metrics.status.tokens == -1
    body = struct.pack("<IIIIQ", 0, 5, 0, 1, 0) + b"\0" * 20
    writer.event(FrameType.UBATCH, body, 0)
    grow(document, writer, qtbot)
    qtbot.waitUntil(lambda: document.live.metrics.status.tokens == 5, timeout=10_000)


def test_figures_that_are_not_known_stand_as_such():
    status = SourceStatus(State.RUNNING, 5, lost=-1)
    assert metrics_text(LiveMetrics(FollowState.LIVE, status)) == (
        "N/A tokens/s · N/A records/s · 5 records · buffer N/A · delay N/A · lost N/A"
    )
    known = LiveMetrics(
        FollowState.LIVE,
        SourceStatus(State.RUNNING, 5_000, lost=3, fill=0.25, tokens=7),
        Rates(1234.4, 7.25, 2_000_000),
    )
    assert metrics_text(known) == (
        "lost 3 · 7.2 tokens/s · 1,234 records/s · 5,000 records · buffer 25.0 % · "
        "delay 2.000 ms"
    )


def test_name_of_a_file_keeps_its_letters(window, qtbot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.ggmlviz").write_bytes(b"")
    page = window.follow("empty.ggmlviz").waiting_page
    qtbot.waitUntil(lambda: "no records yet" in page.message.text(), timeout=10_000)

    assert page.message.text() == "The file empty.ggmlviz has no records yet."


def test_lag_by_stamps_of_another_clock_is_a_least_one():
    status = SourceStatus(State.RUNNING, 5, tokens=7, fill=0.5)
    lower_bound = LiveMetrics(
        FollowState.LIVE, status, Rates(1.0, 1.0, 2_000_000, True)
    )

    assert "delay ≥ 2.000 ms" in metrics_text(lower_bound)


def test_writer_that_is_gone_is_reported_while_the_tab_follows_on(
    window, qtbot, tmp_path, monkeypatch
):
    path = tmp_path / "trace_ü.ggmlviz"
    watch = WriterWatch(path, lambda _: ())
    monkeypatch.setattr(files_module, "WriterWatch", lambda _: watch)
    path.write_bytes((SAMPLES / "llama-demo.ggmlviz").read_bytes())
    document = window.follow(str(path))
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=10_000)
    strip = document.findChild(LiveStrip)
    assert document.status.file.full_text.endswith(" · live")
    watch.state, watch.writer = Writing.GONE, Process(4000000001, "llama-cli", None)

    qtbot.waitUntil(lambda: "writer gone" in strip.state.text(), timeout=10_000)

    assert document.status.file.full_text.endswith(" · writer gone")
    assert "llama-cli (process 4000000001)" in strip.figures.full_text
    assert strip.state.property("level") == "error"
    assert document.live.is_on
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        document.live.finish()
    codes = {w.code for w in document.session.trace.warnings}
    assert "live_stopped" not in codes  # there was nothing left to miss


def test_tab_that_follows_the_file_of_the_settings_is_called_after_it(
    window, qtbot, tmp_path, monkeypatch
):
    path = tmp_path / "whisper.ggmlviz"
    path.write_bytes((SAMPLES / "llama-demo.ggmlviz").read_bytes())
    monkeypatch.setattr(OPTIONS, "output", str(path))
    monkeypatch.setattr(live_follow, "rings", list)
    document = window.follow("")

    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=10_000)

    assert (document.title, document.tip) == ("whisper.ggmlviz", str(path))


def test_open_spans_fade_out(followed, writer, qtbot):
    document = followed(writer)
    head = struct.pack("<IIIHHHHIQQQ", 99, 0, 77, 0, 2, 2, 0, 100, 0, 0, 0)
    writer.event(FrameType.GRAPH_BEGIN, head, time.monotonic_ns())
    qtbot.waitUntil(lambda: len(document.session.trace.open_spans) > 0, timeout=10_000)
    (timeline,) = document.workspace.views("timeline")
    from ggscope.render.timeline.marks import open_batches
    from ggscope.render.timeline.scene import TimelineGeometry

    grow(document, writer, qtbot)
    geometry = TimelineGeometry(timeline.scene_now())
    batches = open_batches(geometry, geometry.visible_boxes())
    alpha = np.concatenate([b.fill for b in batches if hasattr(b, "fill")]) >> 24
    assert alpha.max() > 100 > 20 > alpha.min()


def test_growing_stream_is_followed_and_stops_as_an_ordinary_trace(
    window, qtbot, tmp_path
):
    whole = (SAMPLES / "llama.ggmlviz").read_bytes()
    path = tmp_path / "grows.ggmlviz"
    path.write_bytes(whole[: len(whole) // 2])
    document = window.follow(str(path))
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=10_000)
    n = n_spans(document)
    with path.open("ab") as file:
        file.write(whole[len(whole) // 2 :])
    qtbot.waitUntil(lambda: n_spans(document) > n, timeout=10_000)

    strip = document.findChild(LiveStrip)
    assert "buffer N/A" in strip.figures.full_text
    assert "lost N/A" in strip.figures.full_text
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        strip.detach.click()
    assert not document.session.trace.pending
    assert not strip.follow.isEnabled()


def test_tab_that_nobody_sees_is_looked_at_less_often(followed, writer, window, qtbot):
    document = followed(writer)
    clock = document.session.frames.clock
    assert clock.interval_s == SHOWN_S
    window.follow(str(writer.path) + "-other")
    assert clock.interval_s == HIDDEN_S
    window.step_tab(1)
    assert window.document is document
    assert clock.interval_s == SHOWN_S


def test_following_again_what_is_followed_comes_to_the_front(followed, writer, window):
    document = followed(writer)
    assert window.follow(str(writer.path)) is document
    assert window.n_documents == 1


def test_following_leaves_no_steps_in_the_history(followed, writer, qtbot):
    document = followed(writer, 3)
    session = document.session
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 50_000, end + 2_000))
    session.history.record()
    n = n_steps_back(session.history)

    grow(document, writer, qtbot, 3)

    assert n_steps_back(session.history) == n > 0


def n_steps_back(history):
    """Return how many steps one can go back; stay where it is."""
    n = 0
    while history.can_go_back:
        history.back()
        n += 1
    for _ in range(n):
        history.forward()
    return n


def test_how_far_a_job_is_does_not_hurry_views_that_rest(
    followed, writer, qtbot, monkeypatch
):
    document = followed(writer)
    (table,) = document.workspace.views("table") or (None,)
    if table is None:
        table = TableView(document.session, document.workspace.theme)
        qtbot.addWidget(table)
    messages = []
    table.connect_until_release((document.session.trace_changed, messages.append))
    grow(document, writer, qtbot)
    qtbot.waitUntil(lambda: bool(messages), timeout=10_000)  # it has begun to rest
    n = len(messages)
    # A busy machine needs long to grow.
    monkeypatch.setattr(FrameScheduler, "background_s", 600.0)
    grow(document, writer, qtbot)
    document.session.tasks.task_changed.emit(TaskState("timeline", "", 0, 0, 0.0))

    assert len(messages) == n
    document.session.queries.set_filter(
        Filter(ops=frozenset(("ADD",)))
    )  # a person's doing
    assert len(messages) == n + 1


def test_page_cache_of_a_followed_model_stands_in_tracks_details_and_heatmap(
    window, qtbot, tmp_path
):
    model = tmp_path / "model.gguf"
    model.write_bytes(bytes(1 << 16))
    writer = Writer(tmp_path / "ring", n_lanes=2, model=model)
    document = window.follow(str(writer.path))
    session = document.session

    def samples():
        value = None if session.trace is None else session.trace.residency
        return 0 if value is None else len(value)

    qtbot.waitUntil(lambda: samples() > 0, timeout=10_000)
    seen = samples()
    writer.graph()
    qtbot.waitUntil(lambda: n_spans(document) >= 200, timeout=10_000)
    end = int(session.trace.spans.end.max())

    def is_sampled():
        writer.graph()
        residency = session.trace.residency
        return len(residency) > seen and residency.begin[-1] > end

    qtbot.waitUntil(is_sampled, timeout=10_000)
    qtbot.waitUntil(lambda: document.workspace.filler.is_done, timeout=10_000)

    trace = session.trace
    assert "In page cache" in [counter.name for counter in trace.counters]
    names = [trace.span_name(i) for i in range(200)]
    session.selection.select(Selection("spans", (names.index("node-0-0"),)))
    text = pane(document, "details").sources.accessibleDescription()
    assert "was in memory (measured by mincore): 8.8 KiB of 8.8 KiB" in text
    assert "8.8 KiB of 8.8 KiB at" in heatmap_tip(session, qtbot)
    writer.close()


def heatmap_tip(session, qtbot):
    heatmap = HeatmapView(session, theme("dark"))
    qtbot.addWidget(heatmap)
    heatmap.resize(1000, 420)
    heatmap.show()
    qtbot.waitUntil(lambda: heatmap.base is not None, timeout=10_000)
    place = heatmap.geometry_now()
    y = (place.y_of_row(0) + place.y_of_row(1)) / 2
    tip = heatmap.tooltip_at(place.x.x(5000), y)
    heatmap.release()
    return tip


def test_what_was_received_is_saved_while_it_grows_and_afterwards(
    window, qtbot, writer, followed, tmp_path, monkeypatch
):
    document = followed(writer)
    qtbot.waitUntil(lambda: document.has_recording, timeout=10_000)
    strip, messages = document.findChild(LiveStrip), []
    document.messages.shown.connect(lambda message: messages.append(message.text))
    target = tmp_path / "kept"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))

    strip.save.click()
    qtbot.waitUntil(lambda: len(messages) == 1, timeout=10_000)
    assert document.live.is_on
    assert messages == [f"Saved as {target}.bin: 200 ops, none lost."]

    grow(document, writer, qtbot)
    writer.end()
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=10_000)
    assert strip.save.isEnabled()
    assert Needs.RECORDING in conditions(window)
    document.save_recording()
    qtbot.waitUntil(lambda: len(messages) == 2, timeout=10_000)
    assert messages[1] == f"Saved as {target}.bin: 400 ops, none lost."
    folder = document.live.recording.place
    window.close_document(document)
    qtbot.waitUntil(lambda: not folder.exists(), timeout=10_000)


def test_why_nothing_can_be_saved_is_reported(window, qtbot, tmp_path):
    document = window.follow(str(tmp_path / "later"))
    messages = []
    document.session.status_message.connect(messages.append)

    assert not document.has_recording
    document.save_recording()

    assert messages == ["Nothing has been recorded yet."]


def test_token_strip_shows_ids_and_positions_where_there_is_room(
    window, qtbot, writer, followed
):
    body = struct.pack("<IIIIQ2i", 0, 1, 1, 2, 0, 450, 17)
    writer.event(FrameType.UBATCH, body, time.monotonic_ns())
    document = followed(writer, 3)  # the third graph ends the first ubatch
    trace = document.session.trace
    ids = np.flatnonzero(trace.lanes.of_kind(LaneKind.TOKEN)[trace.spans.lane])
    (timeline,) = document.workspace.views("timeline")
    qtbot.waitUntil(
        lambda: (
            timeline.prepared() is not None
            and len(timeline.prepared().index.trace.spans) == len(trace.spans)
        ),
        timeout=10_000,
    )
    assert trace.span_name(int(ids[0])) == "ubatch 0 · token 450 at 17"

    document.live.set_follows(False)
    start, end = (int(c[ids[0]]) for c in (trace.spans.start, trace.spans.end))
    document.session.viewport.set_visible(TimeRange(start, end))
    texts = texts_of(timeline.picture(1200, 400, 1))
    assert any(t.endswith("· token 450 at 17") for t in texts)
    texts = texts_of(timeline.picture(260, 400, 1))
    assert not any("token 450" in t for t in texts)


def test_range_that_is_dragged_while_following_is_the_one_under_the_mouse(
    followed, writer, qtbot
):
    document = followed(writer, 3)
    session, live = document.session, document.live
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 100_000, end + 2_000))
    (timeline,) = document.workspace.views("timeline")
    qtbot.waitUntil(lambda: timeline.prepared() is not None, timeout=10_000)
    canvas = timeline.canvas
    y = canvas.height() - 20
    first, last = QPoint(canvas.width() // 2, y), QPoint(canvas.width() * 3 // 4, y)
    held = session.viewport.visible
    begin = timeline.tick_at(first.x())

    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, pos=first)
    grow(document, writer, qtbot)
    assert session.viewport.visible == held
    move(canvas, (first + last) / 2)
    grow(document, writer, qtbot)
    move(canvas, last)
    grow(document, writer, qtbot)
    assert session.viewport.visible == held
    move(canvas, last)  # panes may have been laid out anew meanwhile
    end = timeline.tick_at(last.x())
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=last)

    near = timeline.tick_at(9) - timeline.tick_at(0)  # ends snap to those of spans
    marked = session.ranges.marked.time
    assert abs(marked.start - begin) <= near
    assert abs(marked.end - end) <= near
    assert not live.follows  # what was marked stays in view
    assert session.viewport.visible == held
    live.jump()
    assert session.viewport.visible.end >= session.trace.extent.end


@pytest.mark.parametrize(
    "button", [Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton]
)
def test_view_goes_on_with_now_when_a_click_is_over(followed, writer, qtbot, button):
    document = followed(writer, 3)
    session, live = document.session, document.live
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 100_000, end + 2_000))
    (timeline,) = document.workspace.views("timeline")
    qtbot.waitUntil(lambda: timeline.prepared() is not None, timeout=10_000)
    at = QPoint(timeline.canvas.width() // 2, timeline.canvas.height() - 20)
    before = session.viewport.visible

    qtbot.mousePress(timeline.canvas, button, pos=at)
    grow(document, writer, qtbot)
    stood = session.viewport.visible == before
    qtbot.mouseRelease(timeline.canvas, button, pos=at)

    assert stood == (button == Qt.MouseButton.LeftButton)
    assert live.follows
    assert session.viewport.visible.end >= session.trace.extent.end


def test_region_that_is_zoomed_to_while_following_is_the_one_under_the_mouse(
    followed, writer, qtbot
):
    document = followed(writer, 3)
    session = document.session
    end = session.trace.extent.end
    session.viewport.set_visible(TimeRange(end - 100_000, end + 2_000))
    (timeline,) = document.workspace.views("timeline")
    qtbot.waitUntil(lambda: timeline.prepared() is not None, timeout=10_000)
    canvas = timeline.canvas
    y = canvas.height() - 20
    first, last = QPoint(canvas.width() // 3, y), QPoint(canvas.width() // 2, y)
    expected = TimeRange(*(timeline.tick_at(p.x()) for p in (first, last)))
    control = Qt.KeyboardModifier.ControlModifier

    qtbot.mousePress(canvas, Qt.MouseButton.LeftButton, control, first)
    move(canvas, (first + last) / 2)
    move(canvas, last)
    grow(document, writer, qtbot)
    qtbot.mouseRelease(canvas, Qt.MouseButton.LeftButton, control, last)

    assert session.viewport.visible == expected
    assert not document.live.follows


def move(canvas, at):
    """Move the mouse with the left button down."""
    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(at),
        QPointF(canvas.mapToGlobal(at)),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(canvas, event)


def detached(document, qtbot):
    with qtbot.waitSignal(document.live.ended, timeout=10_000):
        document.live.finish()
    assert document.live.metrics.phase is FollowState.STOPPED
    assert not document.session.trace.pending


def test_following_again_goes_on_with_what_was_received(followed, writer, qtbot):
    document = followed(writer, 2)
    session, live = document.session, document.live
    session.selection.select_span(7, reveal=False)
    detached(document, qtbot)
    assert int(writer.control["reader_pid"][0]) == 0  # others may empty it
    before = session.trace
    writer.graph()  # nobody reads, and the ring has room

    live.follow_again()
    grow(document, writer, qtbot)
    qtbot.waitUntil(lambda: live.metrics.status.records == 4 * 200, timeout=10_000)

    trace = session.trace
    n_threads = int(trace.lanes.of_kind(LaneKind.THREAD)[trace.spans.lane].sum())
    assert n_threads == 4 * 200
    assert trace.check() == []
    assert np.array_equal(trace.spans.start[: len(before.spans)], before.spans.start)
    assert trace.is_running
    assert (live.follows, live.metrics.status.lost) == (True, 0)
    assert session.selection.current.ids == (7,)
    assert "live_stopped" not in {w.code for w in trace.warnings}
    qtbot.waitUntil(
        lambda: int(writer.control["reader_pid"][0]) == os.getpid(), timeout=10_000
    )
    qtbot.waitUntil(
        lambda: int(writer.lanes["tail"][0]) == int(writer.lanes["head"][0]),
        timeout=10_000,
    )


def test_records_that_had_no_room_meanwhile_are_reported_as_lost(
    tmp_path, followed, qtbot
):
    writer = Writer(tmp_path / "small", n_lanes=2, capacity=256)
    document = followed(writer)
    live = document.live
    detached(document, qtbot)
    for _ in range(4):
        writer.graph()
    assert writer.dropped > 0

    live.follow_again()

    qtbot.waitUntil(lambda: live.metrics.status.lost == writer.dropped, timeout=10_000)
    assert live.metrics.status.records == writer.written
    codes = {w.code for w in document.session.trace.warnings}
    assert "live_lost" in codes
    writer.close()


def test_what_another_reader_took_meanwhile_is_read_as_long_as_it_is_there(
    followed, writer, qtbot
):
    document = followed(writer)
    live = document.live
    detached(document, qtbot)
    writer.graph()
    other = ProgramSource(writer.path, keeps_records=False)
    other.poll()
    other.close()
    assert int(writer.lanes["tail"][0]) == int(writer.lanes["head"][0])

    live.follow_again()

    qtbot.waitUntil(lambda: live.metrics.status.records == 2 * 200, timeout=10_000)
    assert live.metrics.status.lost == 0


def test_recording_saved_after_following_again_holds_all_of_it(
    followed, writer, window, qtbot, tmp_path, monkeypatch
):
    document = followed(writer)
    detached(document, qtbot)
    writer.graph()
    document.live.follow_again()
    grow(document, writer, qtbot)
    messages = []
    document.session.status_message.connect(messages.append)
    target = tmp_path / "kept.bin"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), ""))
    qtbot.waitUntil(lambda: document.live.metrics.status.records == 600, timeout=10_000)

    document.save_recording()

    qtbot.waitUntil(lambda: target.exists(), timeout=10_000)
    assert target.stat().st_size == 600 * 256


def test_program_that_ended_meanwhile_is_read_to_its_end(followed, writer, qtbot):
    document = followed(writer)
    live = document.live
    detached(document, qtbot)
    writer.graph()
    writer.end()

    with qtbot.waitSignal(live.ended, timeout=10_000):
        live.follow_again()

    assert live.metrics.phase is FollowState.ENDED
    assert live.metrics.status.records == 400
    assert not document.session.trace.pending


def test_tab_that_closes_after_detaching_lets_go_of_all(
    followed, writer, window, qtbot
):
    document = followed(writer)
    qtbot.waitUntil(lambda: document.has_recording, timeout=10_000)
    folder = document.live.recording.place
    detached(document, qtbot)
    assert folder.exists()
    assert listeners()

    window.close_document(document)

    qtbot.waitUntil(lambda: not listeners(), timeout=10_000)
    qtbot.waitUntil(lambda: not folder.exists(), timeout=10_000)


def test_last_picture_of_a_view_of_everything_shows_everything(followed, writer, qtbot):
    document = followed(writer)
    session = document.session
    document.session.frames.clock.interval_s = (
        60.0  # the end comes before the next picture
    )
    before = session.trace.extent
    for _ in range(3):
        writer.graph()
    writer.end()
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=10_000)

    assert session.trace.extent.end > before.end
    assert session.viewport.visible.end >= session.trace.extent.end
    assert session.viewport.visible.start <= session.trace.extent.start


def test_view_that_stood_stands_when_the_program_ends(followed, writer, qtbot):
    document = followed(writer, 3)
    session = document.session
    session.viewport.set_visible(TimeRange(0, 50_000))
    before = session.viewport.visible
    writer.graph()
    writer.end()
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=10_000)

    assert session.viewport.visible == before


def test_status_keeps_up_with_a_program(followed, writer, qtbot):
    document = followed(writer)
    status = document.status
    grow(document, writer, qtbot)
    expected = f"{document.session.trace.info.n_records:,} ops"

    qtbot.waitUntil(lambda: expected in status.file.full_text, timeout=600)


def test_message_of_an_end_goes_when_the_program_is_followed_again(
    followed, writer, qtbot
):
    document = followed(writer)
    writer.control["pid"] = 1 << 30
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=10_000)
    assert "killed or crashed" in newest_message(document)
    writer.control["pid"] = os.getpid()
    strip = document.findChild(LiveStrip)
    assert strip.again.isVisible()

    strip.again.click()

    assert newest_message(document) == ""
    qtbot.waitUntil(lambda: document.session.trace.is_running, timeout=10_000)
    assert not strip.again.isVisible()


def test_process_that_is_gone_is_not_offered_to_be_followed_again(
    window, qtbot, tmp_path, monkeypatch
):
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    child = subprocess.Popen(["sleep", "600"])
    writer = Writer(tmp_path / f"ggscope-{child.pid}-aa", n_lanes=2)
    document = window.follow(str(child.pid))
    writer.graph()
    qtbot.waitUntil(lambda: n_spans(document) >= 200, timeout=10_000)
    child.kill()
    child.wait()
    writer.end()
    qtbot.waitUntil(lambda: not document.live.is_on, timeout=10_000)

    strip = document.findChild(LiveStrip)
    assert not strip.again.isVisible()
    assert strip.detach.isVisible()
    assert not strip.detach.isEnabled()
    writer.close()


def test_empty_file_shows_what_is_checked_until_records_come(
    window, qtbot, tmp_path, monkeypatch
):
    monkeypatch.setattr(strip_module, "SILENCE_S", 0.2)
    monkeypatch.setattr(strip_module, "_REFRESH_MS", 50)
    path = tmp_path / "ü.ggmlviz"
    path.write_bytes(b"")
    document = window.follow(str(path))
    page = document.waiting_page

    def names():
        return [text for text in texts_of_widgets(page.steps) if text.isalpha()]

    assert not page.steps.isVisible()
    qtbot.waitUntil(lambda: names() == ["File", "Permission", "Writer"], timeout=10_000)
    assert page.steps.isVisible()
    assert "✗" in texts_of_widgets(page.steps)  # nobody writes it
    path.write_bytes((SAMPLES / "llama-demo.ggmlviz").read_bytes())
    qtbot.waitUntil(lambda: n_spans(document) > 0, timeout=10_000)
    assert not page.isVisible()
