"""A log that a server is writing, followed in a tab."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import log_files
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.base.text_table import TextTable
from log_files import random_requests
from panes import pane, settle, texts_of_widgets

ROOT = Path(__file__).resolve().parents[1]
REQUESTS = random_requests(3, 30, n_slots=1)
TEXT = log_files.log(REQUESTS)


class Server:
    """A process that writes a log."""

    def __init__(self, path: Path, text: bytes) -> None:
        source = path.with_name("source")
        source.write_bytes(text)
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "log_writer.py"), str(path), str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._wait()

    def _wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def send(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        self._wait()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def started() -> Iterator[Callable[[Path, bytes], Server]]:
    servers: list[Server] = []

    def start(path: Path, text: bytes = TEXT) -> Server:
        servers.append(Server(path, text))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


def end_of(n: int) -> int:
    """Return where the lines of the first n requests end."""
    at = -1
    for _ in range(n):
        at = TEXT.index(b"stop processing", at + 1)
    return TEXT.index(b"\n", at) + 1


def n_requests(document: Document) -> int:
    trace = document.session.trace
    return 0 if trace is None or trace.log is None else len(trace.log.requests)


def table_of(document: Document) -> TextTable:
    return pane(document, "requests").findChild(TextTable)


def listed(table: TextTable) -> list[str]:
    titles = [heading.title for heading in table.rows.headings]
    if "task" not in titles:
        return []
    at = titles.index("task")
    return [table.rows.row(i)[at].text for i in range(table.rows.rowCount())]


def wait(qtbot: QtBot, condition: Callable[[], bool]) -> None:
    qtbot.waitUntil(condition, timeout=20_000)


def test_window_first_then_the_server_that_is_killed(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, started: Callable[..., Server]
) -> None:
    path = tmp_path / "server.log"
    document = window.follow(str(path))
    assert document.live is not None
    live = document.live
    wait(qtbot, lambda: "not there yet" in live.metrics.status.message)
    items = list(texts_of_widgets(document.waiting_page))
    assert "Waiting for the log" in items
    assert any("llama-server" in text and str(path) in text for text in items)

    server = started(path)
    n = end_of(1)
    server.send(str(n // 2))
    server.send(str(n - n // 2))
    wait(qtbot, lambda: n_requests(document) == 1)
    settle(qtbot, document)
    table = table_of(document)
    wait(qtbot, lambda: listed(table) == ["0"])
    rest = end_of(6) - n
    for part in (7, 1000, rest - 1007):
        server.send(str(part))
    wait(qtbot, lambda: listed(table) == [str(r.task) for r in REQUESTS[:6]])
    # The last line of what is written next has no end when the server is killed.
    server.send(str(end_of(7) - end_of(6) - 4))
    server.process.kill()
    wait(qtbot, lambda: live.metrics.phase.value == "writer gone")
    assert "has no end yet" in live.metrics.status.message
    again = started(path, b"\n" + TEXT[end_of(7) :])
    again.send(str(len(TEXT)))
    wait(qtbot, lambda: len(listed(table)) == 30)
    assert listed(table) == [str(r.task) for r in REQUESTS]


def test_selection_sort_and_place_stay_while_requests_come(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, started: Callable[..., Server]
) -> None:
    path = tmp_path / "server.log"
    server = started(path)
    server.send(str(end_of(10)))
    document = window.follow(str(path))
    wait(qtbot, lambda: n_requests(document) == 10)
    settle(qtbot, document)
    table = table_of(document)
    wait(qtbot, lambda: len(listed(table)) == 10)
    titles = [heading.title for heading in table.rows.headings]
    table.sortByColumn(titles.index("generated"), Qt.SortOrder.DescendingOrder)
    chosen = REQUESTS[4].task
    row = listed(table).index(str(chosen))
    table.setCurrentIndex(table.model().index(row, 2))
    table.selectionModel().select(
        table.model().index(row, 0),
        QItemSelectionModel.SelectionFlag.ClearAndSelect
        | QItemSelectionModel.SelectionFlag.Rows,
    )
    spans = document.session.selection.current.ids
    assert spans

    server.send(str(end_of(30) - end_of(10)))
    wait(qtbot, lambda: len(listed(table)) == 30)

    order = sorted(REQUESTS, key=lambda r: -r.n_generated)
    at = titles.index("generated")
    amounts = [table.rows.row(i)[at].raw for i in range(30)]
    assert amounts == [float(r.n_generated) for r in order]
    (row,) = table.selected_rows()
    assert listed(table)[row] == str(chosen)
    assert table.currentIndex().row() == row
    assert table.currentIndex().column() == 2
    assert document.session.selection.current.ids == spans


def test_log_that_is_cut_goes_on_in_the_same_tab(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, started: Callable[..., Server]
) -> None:
    path = tmp_path / "server.log"
    server = started(path)
    server.send(str(end_of(10)))
    document = window.follow(str(path))
    wait(qtbot, lambda: n_requests(document) == 10)
    server.send("cut")
    server.send(str(end_of(20) - end_of(10)))
    wait(qtbot, lambda: n_requests(document) == 20)

    trace = document.session.trace
    assert trace is not None
    assert trace.log is not None
    assert trace.log.requests.task.tolist() == [r.task for r in REQUESTS[:20]]
    assert "log_rotated" in {w.code for w in trace.warnings}


def test_opened_log_is_followed_from_the_menu(
    window: MainWindow, qtbot: QtBot, tmp_path: Path, started: Callable[..., Server]
) -> None:
    path = tmp_path / "server.txt"
    server = started(path)
    server.send(str(end_of(3)))
    opened = window.open_path(path)
    settle(qtbot, opened)
    action = window.actions_["file.follow_file"]
    assert action.isEnabled()
    action.trigger()
    document = window.document
    assert document is not None
    assert document is not opened
    wait(qtbot, lambda: n_requests(document) == 3)
    server.send(str(end_of(5) - end_of(3)))
    wait(qtbot, lambda: n_requests(document) == 5)
    assert not window.actions_["file.follow_file"].isEnabled()


def test_following_an_idle_log_costs_next_to_nothing(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(random_requests(1, 3000)))
    document = window.follow(str(path))
    wait(qtbot, lambda: n_requests(document) == 3000)
    settle(qtbot, document)
    end = time.monotonic() + 2
    while time.monotonic() < end:  # the last pictures
        QApplication.processEvents()
        time.sleep(0.01)
    (thread,) = [t for t in threading.enumerate() if t.name == "ggscope-live"]
    assert thread.is_alive()

    begin, used = time.monotonic(), time.process_time()
    while time.monotonic() < begin + 3:
        QApplication.processEvents()
        time.sleep(0.05)

    assert (time.process_time() - used) / (time.monotonic() - begin) < 0.15
