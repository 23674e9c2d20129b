"""Sessions of several files in the window: folders, drops, offers, adding, removing."""

import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

import cuda_files
import imatrix_files
import log_files
import storage_files
from ggscope.gui.dialogs.session_files import SessionFilesDialog
from ggscope.gui.document import Document
from ggscope.gui.document import document as document_module
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.start import recent_exists, recent_paths, recent_title
from ggscope.gui.single_instance.client import OpenOptions
from ggscope.model.trace import JoinedFile
from ggscope.readers.registry import open_trace
from ggscope.session.loader import LoadState
from ggscope.session.session import TraceChange
from ggscope.session.settings import Settings
from messages import newest_message, toast
from panes import texts_of_widgets
from recordings import recording
from session_files import rows_by_name, write_experiment, write_map, write_tokens
from statements import new_statement
from support import ROOT

Opened = Callable[[Path], Document]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_experiment(tmp_path / "run")


def tokens_of(folder: Path, number: int = 0) -> Path:
    return folder / "traces" / f"token-{number:05}.json"


def drop(window: MainWindow, *paths: Path, shift: bool = False) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(p)) for p in paths])
    copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    held = Qt.KeyboardModifier
    keys = held.ShiftModifier if shift else held.NoModifier
    window.dragEnterEvent(QDragEnterEvent(QPoint(300, 300), copy, data, left, keys))
    window.dropEvent(QDropEvent(QPointF(300, 300), copy, data, left, keys))


def test_file_that_may_be_moved_is_copied_by_a_drop(
    window: MainWindow, qtbot: QtBot, folder: Path
) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(folder))])
    move, left = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
    shift = Qt.KeyboardModifier.ShiftModifier  # asks for a move
    both = move | Qt.DropAction.CopyAction
    enter = QDragEnterEvent(QPoint(300, 300), both, data, left, shift)
    drop = QDropEvent(QPointF(300, 300), both, data, left, shift)
    only = QDropEvent(QPointF(300, 300), move, data, left, shift)
    assert drop.proposedAction() == move
    only.ignore()

    window.dragEnterEvent(enter)
    window.dropEvent(only)
    assert window.documents == ()
    window.dropEvent(drop)

    assert enter.isAccepted()
    assert enter.dropAction() == drop.dropAction() == Qt.DropAction.CopyAction
    assert not only.isAccepted()
    wait_for_tabs(qtbot, window, 1)


def wait_for_tabs(qtbot: QtBot, window: MainWindow, n: int) -> None:
    done = (LoadState.READY, LoadState.FAILED)
    qtbot.waitUntil(
        lambda: (
            len(window.documents) == n
            and all(d.loader.state in done for d in window.documents)
        ),
        timeout=10_000,
    )


def n_parts(document: Document) -> int:
    trace = document.session.trace
    return 0 if trace is None else len(trace.parts)


def test_folder_opens_as_one_tab_named_after_the_folder(
    opened: Opened, window: MainWindow, folder: Path, settings: Settings
) -> None:
    document = opened(folder)

    assert document.loader.state is LoadState.READY
    assert document.title == folder.name
    assert document.session.trace.joins[0].delta == 4096
    assert settings.files.recent == (str(folder),)
    assert not newest_message(document)


def test_folder_is_read_again_as_a_whole(
    qtbot: QtBot, opened: Opened, folder: Path
) -> None:
    document = opened(folder)
    write_tokens(tokens_of(folder, 1), [("blk.0.ffn_up.weight", 4096, 1024)], token=1)

    document.session.reload()
    qtbot.waitUntil(lambda: len(document.session.trace.parts) == 3)

    assert document.title == folder.name


def test_recording_opens_with_its_sidecar_which_can_be_taken_out(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    path = recording(tmp_path)

    document = opened(path)

    assert [part.role for part in document.session.trace.parts] == [
        "trace", "recording",
    ]  # fmt: skip
    assert document.session.trace.spans.core is not None
    assert not newest_message(document)  # nothing is offered that is there
    dialog = SessionFilesDialog(document, lambda: None, document)
    assert "sidecar" in texts_of_widgets(dialog)
    document.loader.remove(path.with_suffix(".json"))
    qtbot.waitUntil(lambda: n_parts(document) == 0)
    assert document.session.trace.spans.core is None


def test_open_folder_command_asks_for_one(
    qtbot: QtBot, window: MainWindow, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(*_: object) -> str:
        return str(folder)

    monkeypatch.setattr(QFileDialog, "getExistingDirectory", choose)
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    QTest.keyClick(window, Qt.Key.Key_O, keys)
    wait_for_tabs(qtbot, window, 1)

    assert window.document.path == folder


def test_files_beside_a_trace_are_offered_and_added_by_one_click(
    qtbot: QtBot, opened: Opened, folder: Path
) -> None:
    document = opened(tokens_of(folder))
    qtbot.waitUntil(lambda: bool(newest_message(document)))
    changes: list[TraceChange] = []
    document.session.trace_changed.connect(changes.append)
    document.session.selection.select_span(2, reveal=False)

    assert "memory-map.json" in newest_message(document)
    assert n_parts(document) == 0
    button = toast(document).buttons[0]
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: n_parts(document) == 2)

    assert changes == [TraceChange.GREW]
    assert document.session.selection.current.active == 2
    assert document.title == "token-00000.json +1"
    assert "delta 4,096" in newest_message(document)


def test_files_beside_a_trace_are_counted(
    qtbot: QtBot, window: MainWindow, opened: Opened, folder: Path
) -> None:
    def offered() -> str:
        document = opened(tokens_of(folder))
        qtbot.waitUntil(lambda: bool(newest_message(document)))
        text = newest_message(document)
        window.close_document(document)
        return text

    one = offered()
    shutil.copy(folder / "memory-map.json", folder / "memory-map-2.json")

    assert new_statement(offered(), one)


def test_model_beside_an_npu_trace_is_not_offered(
    qtbot: QtBot, opened: Opened, tmp_path: Path
) -> None:
    samples = ROOT / "resources" / "samples"
    shutil.copy(samples / "npu-prefill-decode.json", tmp_path)
    shutil.copy(samples / "moe-experiment" / "model.gguf", tmp_path)
    document = opened(tmp_path / "npu-prefill-decode.json")
    items: list[object] = []
    document.loader.beside_found.connect(items.append)

    qtbot.waitUntil(lambda: document.session.trace is not None)
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)

    assert items == []
    assert newest_message(document) == ""


@pytest.mark.parametrize(
    ("name", "data", "offered"),
    [
        ("cuda.jsonl", cuda_files.text("hook"), ()),
        ("server.log", log_files.log(log_files.random_requests(1, 3)), ()),
        (
            "disk.txt",
            storage_files.blkparse(storage_files.random_io(1, 9)),
            ("extents.txt", "model.gguf"),
        ),
    ],
)
def test_only_files_that_show_more_of_a_trace_are_offered(
    qtbot: QtBot,
    opened: Opened,
    tmp_path: Path,
    name: str,
    data: bytes,
    offered: tuple[str, ...],
) -> None:
    shutil.copy(ROOT / "resources/samples/moe-experiment/model.gguf", tmp_path)
    matrix = imatrix_files.gguf(imatrix_files.entries())
    (tmp_path / "imatrix.gguf").write_bytes(matrix)
    (tmp_path / "extents.txt").write_bytes(storage_files.filefrag([(0, 8, 8)]))
    (tmp_path / name).write_bytes(data)
    document = opened(tmp_path / name)

    qtbot.waitUntil(lambda: document.session.trace is not None)
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)

    assert all(other in newest_message(document) for other in offered)
    assert "imatrix" not in newest_message(document)
    assert bool(newest_message(document)) == bool(offered)


def test_adding_is_undone_by_one_click(
    qtbot: QtBot, opened: Opened, folder: Path
) -> None:
    document = opened(tokens_of(folder))
    n_tensors = len(document.session.trace.tensors)
    document.parts.add([folder / "memory-map.json"])
    qtbot.waitUntil(lambda: n_parts(document) == 2)

    assert toast(document).buttons[0].text() == "Undo"
    QTest.mouseClick(toast(document).buttons[0], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: n_parts(document) == 0)

    assert len(document.session.trace.tensors) == n_tensors
    assert document.title == "token-00000.json"


def test_side_file_that_does_not_fit_says_so(
    qtbot: QtBot, opened: Opened, folder: Path, tmp_path: Path
) -> None:
    wrong = [(f"blk.{i}.ffn_up.weight", i * i * 77, 8) for i in range(6)]
    other = write_map(tmp_path / "elsewhere" / "other.json", wrong)
    document = opened(tokens_of(folder))

    document.parts.add([other])
    qtbot.waitUntil(lambda: n_parts(document) == 2)

    assert "does not match this trace" in newest_message(document)


def test_mixed_drop_of_one_experiment_opens_one_tab(
    qtbot: QtBot, window: MainWindow, folder: Path, settings: Settings
) -> None:
    drop(window, folder / "memory-map.json", tokens_of(folder))
    wait_for_tabs(qtbot, window, 1)

    assert window.document.path == tokens_of(folder)
    assert n_parts(window.document) == 2
    (entry,) = settings.files.recent
    assert recent_title(entry) == "token-00000.json +1"


def test_tokens_of_one_run_are_dropped_as_one(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    folder = write_experiment(tmp_path / "run", tokens=3)

    drop(window, *(tokens_of(folder, i) for i in range(3)))
    wait_for_tabs(qtbot, window, 1)

    assert n_parts(window.document) == 3


def test_drop_with_shift_opens_tabs_whatever_the_files_are(
    qtbot: QtBot, window: MainWindow, folder: Path
) -> None:
    drop(window, folder / "memory-map.json", tokens_of(folder), shift=True)
    wait_for_tabs(qtbot, window, 2)


def test_traces_that_have_nothing_in_common_open_in_tabs(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    reads = [("a.weight", 0, 8)]
    files = [write_tokens(tmp_path / f"{name}.json", reads) for name in ("x", "y")]

    drop(window, *files)
    wait_for_tabs(qtbot, window, 2)

    assert [d.path for d in window.documents] == files


def test_side_files_dropped_on_a_tab_are_added_to_it(
    qtbot: QtBot, window: MainWindow, opened: Opened, folder: Path
) -> None:
    document = opened(tokens_of(folder))

    drop(window, folder / "memory-map.json")
    qtbot.waitUntil(lambda: n_parts(document) == 2)

    assert window.documents == (document,)


def test_trace_dropped_on_a_tab_opens_another(
    qtbot: QtBot, window: MainWindow, opened: Opened, folder: Path, tmp_path: Path
) -> None:
    opened(tokens_of(folder))

    drop(window, write_tokens(tmp_path / "x.json", [("a", 0, 8)]))
    wait_for_tabs(qtbot, window, 2)


def test_session_is_among_the_recent_ones_and_opens_again(
    qtbot: QtBot, window: MainWindow, folder: Path, settings: Settings
) -> None:
    drop(window, folder / "memory-map.json", tokens_of(folder))
    wait_for_tabs(qtbot, window, 1)
    window.close_current()
    (entry,) = settings.files.recent

    window.start_page.recent_rows[0].click()
    wait_for_tabs(qtbot, window, 1)

    assert window.start_page.recent_rows[0].isEnabled()
    assert recent_exists(entry)
    assert len(recent_paths(entry)) == 2
    assert n_parts(window.document) == 2


def test_dialog_lists_the_files_and_takes_one_out(
    qtbot: QtBot, window: MainWindow, opened: Opened, folder: Path
) -> None:
    document = opened(folder)
    window.actions_["file.parts"].trigger()
    dialog = window.findChild(SessionFilesDialog)
    table = dialog.table

    assert table.rowCount() == 2
    assert table.item(1, 0).text() == "memory-map.json"
    assert "delta 4,096" in table.item(1, 4).text()
    assert not dialog.remove_button.isEnabled()
    table.selectRow(0)
    assert not dialog.remove_button.isEnabled(), "a map needs its trace"
    table.selectRow(1)
    QTest.mouseClick(dialog.remove_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: table.rowCount() == 1)

    assert "blk.5.ffn_up.weight" not in rows_by_name(document.session.trace)
    document.session.reload()
    qtbot.waitUntil(lambda: document.loader.state is LoadState.READY)
    assert n_parts(document) < 2


def test_dialog_shows_which_file_holds_choices_of_experts(
    window: MainWindow, opened: Opened, folder: Path, qtbot: QtBot
) -> None:
    document = opened(folder)
    trace = document.session.trace
    assert trace is not None

    def shown(parts: tuple[JoinedFile, ...]) -> str:
        document.session.set_trace(replace(trace, parts=parts))
        dialog = SessionFilesDialog(document, lambda: None, window)
        qtbot.addWidget(dialog)
        return "\n".join(texts_of_widgets(dialog))

    *others, last = trace.parts
    chosen = (*others, replace(last, role="experts"))
    assert new_statement(shown(chosen), shown(trace.parts))


def test_add_command_asks_for_files(
    qtbot: QtBot,
    window: MainWindow,
    opened: Opened,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = opened(tokens_of(folder))
    chosen = [str(folder / "memory-map.json")], ""

    def choose(*_: object) -> tuple[list[str], str]:
        return chosen

    monkeypatch.setattr(QFileDialog, "getOpenFileNames", choose)
    window.actions_["file.add"].trigger()

    qtbot.waitUntil(lambda: n_parts(document) == 2)


def test_files_of_the_command_line_join_the_session(
    qtbot: QtBot, window: MainWindow, folder: Path
) -> None:
    options = OpenOptions(more=(folder / "memory-map.json",))
    window.open_path(tokens_of(folder), options)
    wait_for_tabs(qtbot, window, 1)

    assert n_parts(window.document) == 2


def test_change_of_a_side_file_is_noticed(
    qtbot: QtBot,
    opened: Opened,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(document_module, "is_window_active", lambda: True)
    document = opened(folder)
    write_map(folder / "memory-map.json", [("a.weight", 0, 8)])

    document.loader.check_file()

    assert document.loader.is_stale


def test_folder_that_nobody_changed_is_not_stale(
    opened: Opened, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_module, "is_window_active", lambda: True)
    document = opened(folder)

    document.loader.check_file()

    assert not document.loader.is_stale
    assert not newest_message(document)


def test_empty_folder_shows_the_problem_page(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    document = opened(tmp_path)

    assert document.loader.state is LoadState.FAILED
    assert "supported files in it" in document.problem_page.message.text()


def test_shift_of_the_command_line_holds_until_one_is_typed_and_through_reloads(
    qtbot: QtBot, window: MainWindow
) -> None:
    folder = ROOT / "resources" / "samples" / "moe-experiment"
    plain = open_trace(folder / "buffer-timeline.json").buffers.allocated.min()
    shifts = (("moe-experiment/buffer-timeline.json", "-2.5ms"),)
    document = window.open_path(folder, OpenOptions(shifts=shifts))
    session, loader = document.session, document.loader

    def first_alloc() -> int:
        trace = session.trace
        return int(trace.buffers.allocated.min()) if len(trace.buffers) else 0

    def settle() -> None:
        qtbot.waitUntil(lambda: loader.state is LoadState.READY, timeout=20_000)
        qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)

    settle()
    moved = first_alloc()
    assert loader.shift_of(folder / "buffer-timeline.json") == "-2.5ms"
    loader.reload()
    settle()
    assert first_alloc() == moved
    loader.shift(folder / "buffer-timeline.json", "1ms")
    settle()
    assert first_alloc() == moved + 3_500_000
    loader.reload()
    settle()
    assert first_alloc() == moved + 3_500_000
    assert plain != moved


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (("nothing.json", "1ms"), "no file is called nothing.json"),
        (("buffer-timeline.json", "soon"), "invalid time shift 'soon'"),
    ],
)
def test_shift_of_the_command_line_that_makes_no_sense_is_reported(
    qtbot: QtBot, window: MainWindow, shift: tuple[str, str], words: str
) -> None:
    folder = ROOT / "resources" / "samples" / "moe-experiment"
    document = window.open_path(folder, OpenOptions(shifts=(shift,)))
    qtbot.waitUntil(lambda: document.loader.state is LoadState.FAILED, timeout=20_000)

    page = document.problem_page
    assert words in page.message.text()
    assert page.head.text() == "moe-experiment could not be read"
    assert page.hint.isHidden(), "it is no fault of the program"


def test_times_of_a_file_are_typed_nudged_undone_and_remembered(
    qtbot: QtBot,
    window: MainWindow,
    opened: Opened,
    settings: Settings,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "moe"
    shutil.copytree(ROOT / "resources" / "samples" / "moe-experiment", folder)
    document = opened(folder)
    session = document.session

    def first_alloc() -> int:
        return int(session.trace.buffers.allocated.min())

    before = first_alloc()
    window.actions_["file.parts"].trigger()
    dialog = window.findChild(SessionFilesDialog)
    names = [dialog.table.item(row, 0).text() for row in range(dialog.table.rowCount())]
    dialog.table.selectRow(0)
    assert not dialog.shift_field.isEnabled(), "the others move against the first"
    dialog.table.selectRow(names.index("model.gguf"))
    assert not dialog.shift_field.isEnabled(), "a model has no times"
    dialog.table.selectRow(names.index("buffer-timeline.json"))

    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    dialog.shift_field.setText("nonsense")
    QTest.keyClick(dialog.shift_field, Qt.Key.Key_Return)
    assert first_alloc() == before
    dialog.shift_field.setText("-2.5 ms")
    QTest.keyClick(dialog.shift_field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: first_alloc() == before - 2_500_000, timeout=20_000)
    assert session.trace.check() == []
    assert dialog.isVisible()
    step = session.viewport.visible.duration // 100
    QTest.mouseClick(dialog.later_button, Qt.MouseButton.LeftButton)
    moved = before - 2_500_000 + step
    qtbot.waitUntil(lambda: first_alloc() == moved, timeout=20_000)

    by_hand = newest_message(document)
    assert f"{step - 2_500_000:+,} ns" in by_hand
    toast(document).buttons[0].click()
    qtbot.waitUntil(lambda: first_alloc() == before - 2_500_000, timeout=20_000)
    assert settings.shifts_of(folder) == {folder / "buffer-timeline.json": "-2500000"}
    window.close_document(document)
    again = opened(folder)
    assert int(again.session.trace.buffers.allocated.min()) == before - 2_500_000
    again.loader.shift(folder / "buffer-timeline.json", "")

    def is_back() -> bool:
        return int(again.session.trace.buffers.allocated.min()) == before

    qtbot.waitUntil(is_back, timeout=20_000)
    assert settings.shifts_of(folder) == {}
    from_clocks = newest_message(again)
    assert new_statement(by_hand, from_clocks)


def test_times_of_a_file_are_dragged_at_the_scale_of_the_timeline(
    qtbot: QtBot, window: MainWindow, opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / "moe"
    shutil.copytree(ROOT / "resources" / "samples" / "moe-experiment", folder)
    document = opened(folder)
    session = document.session
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    before = int(session.trace.buffers.allocated.min())
    window.actions_["file.parts"].trigger()
    dialog = window.findChild(SessionFilesDialog)
    assert not dialog.shift_handle.isEnabled()
    names = [dialog.table.item(row, 0).text() for row in range(dialog.table.rowCount())]
    dialog.table.selectRow(names.index("buffer-timeline.json"))
    handle, (timeline, *_) = dialog.shift_handle, document.workspace.views("timeline")
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)

    middle = handle.rect().center()
    QTest.mousePress(handle, Qt.MouseButton.LeftButton, pos=middle)
    # As it is when the drag begins: a pane may have been laid out just now.
    shown, width = session.viewport.visible.duration, timeline.width()
    for px in (-10, -35, -60):
        handle.dragged.emit(px)  # real moves: tests/touch
    QTest.mouseRelease(handle, Qt.MouseButton.LeftButton, pos=middle)

    moved = shown * -60 // width
    qtbot.waitUntil(
        lambda: int(session.trace.buffers.allocated.min()) == before + moved,
        timeout=20_000,
    )


def test_quick_clicks_move_a_file_once_each(
    qtbot: QtBot, window: MainWindow, opened: Opened, tmp_path: Path
) -> None:
    folder = tmp_path / "moe"
    shutil.copytree(ROOT / "resources" / "samples" / "moe-experiment", folder)
    document = opened(folder)
    session, loader = document.session, document.loader
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    before = int(session.trace.buffers.allocated.min())
    window.actions_["file.parts"].trigger()
    dialog = window.findChild(SessionFilesDialog)
    names = [dialog.table.item(row, 0).text() for row in range(dialog.table.rowCount())]
    dialog.table.selectRow(names.index("buffer-timeline.json"))
    step = session.viewport.visible.duration // 100
    shifts: list[tuple[str, str]] = []
    loader.shift_changed.connect(lambda _, by, was: shifts.append((by, was)))

    for _ in range(5):
        QTest.mouseClick(dialog.later_button, Qt.MouseButton.LeftButton)
    QTest.mouseClick(dialog.earlier_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)

    assert int(session.trace.buffers.allocated.min()) == before + 4 * step
    assert shifts == [(str(step), ""), (str(4 * step), str(step))]
    assert f"{4 * step:+,} ns" in newest_message(document)


def test_change_of_the_files_that_waits_for_a_picture_outlives_a_new_snapshot(
    qtbot: QtBot, opened: Opened, folder: Path
) -> None:
    document = opened(folder)
    session, loader = document.session, document.loader
    gate = threading.Event()
    session.tasks.run("picture", lambda _: gate.wait(20), lambda _: 0, is_urgent=True)

    loader.remove(folder / "memory-map.json")
    session.set_problems(session.trace)  # as completeness does when it has counted
    gate.set()
    qtbot.waitUntil(lambda: n_parts(document) < 2, timeout=20_000)

    assert "blk.5.ffn_up.weight" not in rows_by_name(session.trace)


def test_changes_of_the_files_that_come_quickly_are_all_made(
    qtbot: QtBot, opened: Opened, folder: Path
) -> None:
    write_tokens(tokens_of(folder, 1), [("blk.0.ffn_up.weight", 4096, 1024)], token=1)
    document = opened(tokens_of(folder))
    loader = document.loader

    loader.add([folder / "memory-map.json"])
    loader.add([tokens_of(folder, 1)])
    loader.shift(tokens_of(folder, 1), "5000000")
    loader.remove(folder / "memory-map.json")
    loader.remove(tokens_of(folder), tokens_of(folder, 1))  # would leave nothing
    qtbot.waitUntil(lambda: document.session.tasks.is_idle, timeout=20_000)

    options = [part.info.options for part in document.session.trace.parts]
    assert options == [{}, {"shift": "5000000"}]
    assert not loader.failure
