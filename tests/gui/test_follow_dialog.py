"""The list of running programs, and what is done with one of them."""

import os
import shutil
import subprocess
import sys
import time

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QFileDialog

from ggscope.gui.dialogs.follow import FollowDialog, started
from ggscope.gui.dialogs.record import RecordDialog
from ggscope.live.running import Tracing
from ggscope.session import live as live_module
from ggscope.session.tasks import Tasks
from ring_writer import Writer

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux shows what is mapped"
)


@pytest.fixture
def writer(tmp_path, monkeypatch):
    monkeypatch.setenv("GGSCOPE_RINGS", str(tmp_path))
    made = Writer(tmp_path / "ggscope-7-aa", n_lanes=2)
    yield made
    made.close()


@pytest.fixture
def untraced(tmp_path):
    path = tmp_path / "llama-server"
    shutil.copy(shutil.which("sleep"), path)
    made = subprocess.Popen([path, "600"])
    yield made
    made.kill()
    made.wait()


@pytest.fixture
def dialog(window, qtbot):
    window.actions_["file.live"].trigger()
    (made,) = window.findChildren(FollowDialog)
    yield made
    for left in window.findChildren(FollowDialog):
        left.close()


def n_spans(document):
    trace = document.session.trace
    return 0 if trace is None else len(trace.spans)


def is_open(window):
    return any(d.isVisible() for d in window.findChildren(FollowDialog))


def choose(dialog, pid, qtbot):
    """Go to the row of a process, by keys."""

    def row():
        pids = [program.pid for program in dialog.table.programs]
        return pids.index(pid) if pid in pids else -1

    qtbot.waitUntil(lambda: row() >= 0, timeout=20_000)
    qtbot.keyClick(dialog.table, Qt.Key.Key_Home)
    while dialog.table.currentRow() < row():
        qtbot.keyClick(dialog.table, Qt.Key.Key_Down)
    assert dialog.table.current.pid == pid


def test_traced_program_is_followed_by_enter(writer, dialog, window, qtbot):
    choose(dialog, os.getpid(), qtbot)
    assert dialog.table.current.tracing is Tracing.TRACED
    assert not dialog.command.isVisible()

    qtbot.keyClick(dialog.table, Qt.Key.Key_Return)

    assert not is_open(window)
    document = window.document
    assert document.live.target == str(os.getpid())
    writer.graph()
    qtbot.waitUntil(lambda: n_spans(document) >= 200, timeout=20_000)


def test_untraced_program_is_not_followed_and_its_new_start_is_copied(
    untraced, dialog, window, qtbot
):
    choose(dialog, untraced.pid, qtbot)
    assert not dialog.follow.isEnabled()
    qtbot.keyClick(dialog.table, Qt.Key.Key_Return)
    assert window.document is None

    dialog.copy.click()

    copied = QApplication.clipboard().text()
    assert copied == dialog.table.current.restart_command
    assert copied.endswith("/llama-server 600")
    assert " ggscope-capture run -o llama-server.bin -- " in copied


def test_list_refreshes_itself_and_the_selection_stays(
    writer, untraced, dialog, qtbot, tmp_path
):
    choose(dialog, untraced.pid, qtbot)
    second = Writer(tmp_path / "ggscope-8-bb")
    second.control["pid"] = 1 << 30
    pids = lambda: [p.pid for p in dialog.table.programs]  # noqa: E731
    qtbot.waitUntil(lambda: 1 << 30 in pids(), timeout=20_000)
    assert dialog.table.current.pid == untraced.pid

    untraced.kill()
    untraced.wait()
    qtbot.waitUntil(lambda: untraced.pid not in pids(), timeout=20_000)

    assert dialog.table.current is not None
    second.close()


def test_start_page_opens_the_list(window):
    window.start_page.programs_button.click()

    assert is_open(window)
    for left in window.findChildren(FollowDialog):
        left.close()


def test_what_is_traced_next_is_waited_for(dialog, window, monkeypatch):
    monkeypatch.setattr(live_module, "path_to_follow", lambda _: None)
    dialog.next.click()

    assert window.document.live.target is None
    assert not is_open(window)


def test_a_file_is_followed(dialog, window, monkeypatch, tmp_path):
    path = str(tmp_path / "grows.ggmlviz")
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (path, ""))
    dialog.file.click()

    assert window.document.live.target == path


def test_recording_is_offered_from_the_list(dialog, window):
    dialog.record.click()

    (record,) = window.findChildren(RecordDialog)
    assert record.isVisible()
    assert not is_open(window)
    record.close()


def test_dialog_that_closes_looks_no_more(dialog, qtbot):
    (tasks,) = dialog.findChildren(Tasks)
    dialog.close()

    assert tasks.is_closed


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(3, "3 s ago"), (90, "1 min ago"), (7_300, "2 h ago"), (86_400, "1 day ago"),
     (200_000, "2 days ago"), (-5, "0 s ago")],
)  # fmt: skip
def test_start_of_a_program_reads_as_its_age(seconds, age):
    assert started(time.time() - seconds - 0.2) == age
    assert started(None) == ""
