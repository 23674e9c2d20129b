"""The window while a file is read in stages, when it is stopped, or too large."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.errors import CorruptError
from ggscope.gui.dialogs.window_dialogs import write_figure
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.too_large import part_text, short_count
from ggscope.model.trace import Trace
from ggscope.readers.api import Estimate
from ggscope.readers.memory import judge
from ggscope.render.timeline.prepare import Prepared, PrepareRequest
from ggscope.session.loader import LoadState
from ggscope.session.tasks import TaskContext
from ggscope.views.base.safe_text import Label
from ggscope.views.timeline import view as timeline_module
from ggscope.views.timeline.view import TimelineView
from messages import newest_message, toast
from panes import texts_of_widgets
from reading import Reading, wait_for
from staged import stages
from statements import new_statement

BIG = Estimate(1_000_000, 40_000_000, 60_000_000, True, True)


@pytest.fixture
def snapshots() -> list[Trace]:
    return stages(llama_like_trace(tokens=4, layers=3), 0.4)


@pytest.fixture
def partial(
    window: MainWindow,
    qtbot: QtBot,
    reading: Reading,
    file: Path,
    snapshots: list[Trace],
) -> Document:
    """Return a tab that shows the first snapshot while the reader goes on."""
    reading.early, reading.result = snapshots[:1], snapshots[-1]
    reading.go.clear()
    document = window.open_path(file)
    qtbot.waitUntil(lambda: document.session.trace is not None)
    return document


def timeline(document: Document) -> TimelineView:
    view = document.workspace.views("timeline")[0]
    assert isinstance(view, TimelineView)
    return view


def texts(document: Document) -> list[str]:
    view = timeline(document)
    size = view.canvas_size()
    picture = view.picture(size.width(), size.height(), 1.0)
    return [t.text for b in picture.batches for t in getattr(b, "texts", ())]


def test_unread_part_is_hatched_and_says_so(partial: Document) -> None:
    assert "still reading …" in texts(partial)


def test_whole_trace_has_no_hatch_and_keeps_the_zoom(
    partial: Document, qtbot: QtBot, reading: Reading
) -> None:
    session = partial.session
    session.viewport.zoom(0.5)
    zoomed = session.viewport.visible

    reading.go.set()
    wait_for(qtbot, partial.loader, LoadState.READY)

    assert session.viewport.visible == zoomed
    assert "still reading …" not in texts(partial)


def test_escape_stops_the_reading_and_keeps_what_is_there(
    window: MainWindow, partial: Document, qtbot: QtBot
) -> None:
    QTest.keyClick(window, Qt.Key.Key_Escape)

    assert partial.loader.state is LoadState.STOPPED
    assert partial.session.trace is not None
    assert not partial.session.trace.pending
    assert "not read" in texts(partial)
    assert "stopped" in partial.title
    assert "stopped" in window.windowTitle()
    assert "stopped" in partial.status.file.full_text
    assert "stopped" in newest_message(partial)
    assert [w.code for w in partial.session.trace.warnings] == ["reading_stopped"]


def test_escape_clears_the_selection_before_it_stops_anything(
    window: MainWindow, partial: Document
) -> None:
    partial.session.selection.select_span(1)

    QTest.keyClick(window, Qt.Key.Key_Escape)

    assert not partial.session.selection.current
    assert partial.loader.state is LoadState.LOADING


def test_reload_after_a_stop_reads_the_rest(
    window: MainWindow, partial: Document, qtbot: QtBot, reading: Reading
) -> None:
    partial.stop_reading()
    reading.go.set()

    QTest.mouseClick(toast(partial).buttons[0], Qt.MouseButton.LeftButton)
    wait_for(qtbot, partial.loader, LoadState.READY)

    assert partial.session.trace is reading.result
    assert "stopped" not in partial.title


def test_failure_in_the_middle_keeps_what_was_read(
    partial: Document, qtbot: QtBot, reading: Reading
) -> None:
    reading.result = CorruptError("the file shrank while it was read.")

    reading.go.set()
    wait_for(qtbot, partial.loader, LoadState.FAILED)

    trace = partial.session.trace
    assert trace is not None
    assert not trace.pending
    assert trace.warnings[0].code == "reading_failed"
    assert "shrank" in newest_message(partial)
    assert partial.workspace.isVisible()


def test_tooltip_over_the_unread_part_says_why(
    partial: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(
        QToolTip, "showText", lambda _, text, *rest: messages.append(text)
    )
    view = timeline(partial)
    size = view.canvas_size()
    at = QPoint(size.width() - 20, size.height() // 2)

    view.canvas_event(QHelpEvent(QEvent.Type.ToolTip, at, at))

    assert "Still reading" in messages[0]
    assert view.hit(QPointF(at).x(), QPointF(at).y()).span == -1


def test_problems_pane_says_that_more_may_come(partial: Document) -> None:
    partial.workspace.show_drawer("problems")
    pane = partial.workspace.views("problems")[0]

    text = " ".join(w.text() for w in pane.findChildren(Label))

    assert "still reading" in text


def test_closing_while_reading_lets_go_of_everything(
    window: MainWindow, partial: Document, qtbot: QtBot
) -> None:
    session = partial.session

    window.close_document(partial)

    assert session.trace is None
    assert partial.loader.state is LoadState.IDLE


@pytest.fixture
def refused(
    window: MainWindow,
    qtbot: QtBot,
    reading: Reading,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Document:
    """Return a tab whose file would not fit."""
    monkeypatch.setenv("GGSCOPE_MEMORY_LIMIT", "10")
    reading.estimate = BIG
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.TOO_LARGE)
    return document


def test_file_that_does_not_fit_is_not_read_and_the_page_says_why(
    refused: Document,
) -> None:
    page = refused.too_large_page

    text = " ".join(figure.text() for figure in page.figures)

    assert page.isVisible()
    assert "1,000,000" in text
    assert "10.0 MiB" in text
    assert refused.session.trace is None
    assert page.records.hasFocus()


def test_enter_reads_the_part_that_fits(
    refused: Document, qtbot: QtBot, reading: Reading
) -> None:
    QTest.keyClick(refused.too_large_page.records, Qt.Key.Key_Return)
    wait_for(qtbot, refused.loader, LoadState.READY)

    chosen = reading.requests[-1][2]["range"]
    assert chosen == "0:100000"
    assert refused.workspace.isVisible()
    assert "records 0–100 k of 1 M" in refused.title
    assert "records 0–100 k of 1 M" in refused.status.file.full_text


def test_last_part_and_fewer_names_can_be_read(
    refused: Document, qtbot: QtBot, reading: Reading
) -> None:
    page = refused.too_large_page
    QTest.mouseClick(page.last_button, Qt.MouseButton.LeftButton)
    page.names.setCurrentIndex(2)

    QTest.mouseClick(page.read_button, Qt.MouseButton.LeftButton)
    wait_for(qtbot, refused.loader, LoadState.READY)

    assert reading.requests[-1][2] == {"range": "900000:1000000", "names": "none"}


def test_part_is_remembered_for_reload(
    refused: Document, qtbot: QtBot, reading: Reading
) -> None:
    QTest.keyClick(refused.too_large_page.records, Qt.Key.Key_Return)
    wait_for(qtbot, refused.loader, LoadState.READY)

    refused.session.reload()
    wait_for(qtbot, refused.loader, LoadState.READY)

    assert reading.requests[-1][2] == {"range": "0:100000"}


def test_banner_offers_the_rest_and_the_page_asks_again(
    refused: Document, qtbot: QtBot
) -> None:
    QTest.keyClick(refused.too_large_page.records, Qt.Key.Key_Return)
    wait_for(qtbot, refused.loader, LoadState.READY)
    bar = refused.part_bar
    text = bar.text.text()
    assert bar.isVisible()

    QTest.mouseClick(bar.action_button, Qt.MouseButton.LeftButton)
    wait_for(qtbot, refused.loader, LoadState.TOO_LARGE)

    assert text.startswith("Records 0–100 k of 1 M")
    assert refused.too_large_page.isVisible()
    refused.too_large_page.records.setText("0:")
    QTest.keyClick(refused.too_large_page.records, Qt.Key.Key_Return)
    wait_for(qtbot, refused.loader, LoadState.READY)
    assert not bar.isVisible()
    assert refused.title == refused.path.name


def test_all_can_be_read_anyway(
    refused: Document, qtbot: QtBot, reading: Reading
) -> None:
    page = refused.too_large_page
    QTest.mouseClick(page.all_button, Qt.MouseButton.LeftButton)
    wait_for(qtbot, refused.loader, LoadState.READY)

    refused.session.reload()
    wait_for(qtbot, refused.loader, LoadState.READY)

    assert reading.requests[-1][2] == {}
    assert refused.title == refused.path.name


def test_bad_range_is_explained_and_cannot_be_read(refused: Document) -> None:
    page = refused.too_large_page

    page.records.setText("7:3")

    assert "holds none" in page.need.text()
    assert not page.read_button.isEnabled()


def test_range_that_is_too_much_is_marked_but_allowed(refused: Document) -> None:
    page = refused.too_large_page

    page.records.setText(":")

    assert page.need.property("role") == "caution"
    assert page.read_button.isEnabled()


def test_need_of_a_part_is_less_without_all_of_its_names(refused: Document) -> None:
    page = refused.too_large_page

    with_names = page.need.text()
    for others in (1, 2):
        page.names.setCurrentIndex(others)
        without = page.need.text()
        assert new_statement(without, with_names)
        assert new_statement(with_names, without)


def test_abandoning_closes_the_tab(window: MainWindow, refused: Document) -> None:
    QTest.mouseClick(refused.too_large_page.close_button, Qt.MouseButton.LeftButton)

    assert window.n_documents == 0


def test_page_offers_only_what_the_reader_can(
    window: MainWindow,
    qtbot: QtBot,
    reading: Reading,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GGSCOPE_MEMORY_LIMIT", "10")
    reading.estimate = replace(BIG, can_range=False, can_sample_names=False)
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.TOO_LARGE)
    page = document.too_large_page

    assert not page.records.isVisible()
    assert not page.names.isVisible()
    assert not page.read_button.isVisible()
    assert page.all_button.isVisible()


def test_limit_of_the_settings_counts(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    window.settings.change("memory", limit_mib=8)
    reading.estimate = BIG

    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.TOO_LARGE)

    page = document.too_large_page
    assert "8.0 MiB" in page.figures[3].text()
    refused = f"{page.accessibleName()}\n" + "\n".join(texts_of_widgets(document))
    page.show_fit(judge(replace(BIG, can_range=False, can_sample_names=False), {}))
    whole_only = "\n".join(texts_of_widgets(page))
    window.settings.change("memory", limit_mib=8_000)
    document.session.reload()
    wait_for(qtbot, document.loader, LoadState.READY)
    read = "\n".join(texts_of_widgets(document))
    for text in ("may not fit into memory", "Nothing has been read yet."):
        assert text in refused
        assert text in whole_only
        assert text not in read
    assert "how much of it to read" in refused
    assert "how much of it to read" not in whole_only + read


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"),
        (842, "842"),
        (9_500_000, "9.5 M"),
        (33_554_432, "33.6 M"),
        (999_999, "1000 k"),
        (2_000_000_000, "2 G"),
    ],
)
def test_short_counts_have_three_digits(n: int, text: str) -> None:
    assert short_count(n) == text


def test_part_is_named_also_where_the_total_is_unknown() -> None:
    assert part_text({}, 5) == ""
    assert part_text({"range": "0:1000"}, 0) == "records 0–1 k"
    assert part_text({"range": "0:"}, 9) == part_text({"range": ":100%"}, 0) == ""
    assert part_text({"range": "odd"}, 9) == "records odd"
    assert part_text({"names": "sampled"}, 9) == "names of a sample"


def test_panes_are_filled_after_the_first_picture(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    reading.go.clear()
    document = window.open_path(file)
    before = [h.entry.id for h in document.workspace.hosts() if h.view is not None]

    reading.go.set()
    wait_for(qtbot, document.loader, LoadState.READY)
    qtbot.waitUntil(lambda: document.workspace.filler.is_done)

    after = [h.entry.id for h in document.workspace.hosts() if h.view is not None]
    assert sorted(before) == ["overview", "timeline"]
    # The drawer is closed at first; its views are made when it opens.
    assert {"table", "details"} <= set(after)


def test_panes_are_filled_without_a_picture_too(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    reading.go.clear()
    document = window.open_path(file)

    qtbot.waitUntil(lambda: document.workspace.filler.is_done)

    assert document.session.trace is None
    assert document.workspace.views("table")


def test_first_picture_is_made_before_the_next_snapshot_is_shown(
    window: MainWindow,
    qtbot: QtBot,
    reading: Reading,
    file: Path,
    snapshots: list[Trace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Snapshots that come faster than pictures must not cancel them all."""
    monkeypatch.setattr(timeline_module, "SYNC_SPANS", 0)
    shown: list[Trace | None] = []
    prepare, gate = PrepareRequest.__call__, threading.Event()

    def slow(self: PrepareRequest, context: TaskContext | None = None) -> Prepared:
        shown.append(self.index.trace)
        gate.wait(10)
        return prepare(self, None)

    monkeypatch.setattr(PrepareRequest, "__call__", slow)
    reading.result = snapshots[-1]
    reading.go.clear()
    document = window.open_path(file)
    session = document.session
    loader = document.loader
    loader._on_early(snapshots[0])
    qtbot.waitUntil(lambda: len(shown) == 1)

    loader._on_early(snapshots[1])
    loader._on_early(snapshots[2])
    while_drawing = session.trace
    gate.set()
    qtbot.waitUntil(lambda: session.trace is snapshots[2])

    assert while_drawing is snapshots[0]
    assert shown[0] is snapshots[0]
    assert snapshots[1] not in shown
    reading.go.set()
    wait_for(qtbot, loader, LoadState.READY)
    qtbot.waitUntil(lambda: session.tasks.is_idle)


@pytest.mark.parametrize("is_whole", [False, True])
def test_stop_while_a_snapshot_waits_for_the_picture_keeps_the_snapshot(
    partial: Document, snapshots: list[Trace], is_whole: bool
) -> None:
    gate = threading.Event()
    partial.session.tasks.run(
        "timeline", lambda _: gate.wait(10), lambda _: None, is_urgent=True
    )
    loader, trace = partial.loader, snapshots[-1]
    loader._has_picture = False
    if is_whole:
        loader._on_trace(trace)
    else:
        loader._on_early(snapshots[1])
    waits = partial.session.trace is snapshots[0]

    loader.cancel()
    gate.set()

    assert waits
    assert partial.session.trace is not None
    assert len(partial.session.trace.spans) == len(trace.spans)
    assert loader.state is (LoadState.READY if is_whole else LoadState.STOPPED)


def test_typing_is_not_disturbed_by_the_first_picture(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    reading.go.clear()
    document = window.open_path(file)
    document.toolbar.search.edit.setFocus()
    QApplication.processEvents()

    reading.go.set()
    wait_for(qtbot, document.loader, LoadState.READY)

    assert document.toolbar.search.edit.hasFocus()


def test_figure_can_be_exported_while_the_rest_is_read(
    partial: Document, qtbot: QtBot, tmp_path: Path
) -> None:
    done: list[str] = []
    figure = partial.workspace.views("timeline")[0].figure()
    assert figure is not None

    target = tmp_path / "figure.png"
    write_figure(partial.session, figure, target, done.append, done.append)
    qtbot.waitUntil(lambda: bool(done))

    assert done == [str(target)]
    assert partial.loader.state is LoadState.LOADING
