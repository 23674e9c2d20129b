"""The window takes files of later starts, and nothing else that comes to its door."""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from ggscope.gui.main_window import MainWindow
from ggscope.gui.single_instance import client, server
from ggscope.gui.single_instance.client import (
    HandoverResult,
    OpenOptions,
    OpenRequest,
    encode,
    hold,
    offer,
)
from ggscope.gui.single_instance.server import MAX_GUESTS, InstanceServer
from reading import Reading

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="this system has no such locks and sockets"
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the socket of the window; its name is short whatever the folder's is."""
    monkeypatch.chdir(tmp_path)
    return Path("w.socket")


@pytest.fixture
def desk(place: Path, window: MainWindow, reading: Reading) -> Iterator[InstanceServer]:
    """Return what listens for `window`."""
    door = hold(place)
    assert door is not None
    made = InstanceServer(door, window)
    made.came.connect(window.open_letter)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def send(qtbot: QtBot, place: Path) -> Callable[[OpenRequest], HandoverResult]:
    """Return a function that hands a letter over, as another process does."""

    def call(letter: OpenRequest) -> HandoverResult:
        found: list[HandoverResult] = []
        other = threading.Thread(target=lambda: found.append(offer(letter, place)))
        other.start()
        qtbot.waitUntil(lambda: not other.is_alive(), timeout=10_000)
        return found[0]

    return call


def spoken(place: Path, data: bytes, qtbot: QtBot) -> bytes:
    """Say `data` at the door and return what comes back until it is shut."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place))
        line.setblocking(False)
        line.sendall(data)
        heard: list[bytes] = []

        def is_over() -> bool:
            try:
                heard.append(line.recv(4096))
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return heard[-1] == b""

        qtbot.waitUntil(is_over, timeout=10_000)
        return b"".join(heard)


def test_files_open_in_tabs_with_their_options(
    desk: InstanceServer,
    send: Callable[[OpenRequest], HandoverResult],
    window: MainWindow,
    file: Path,
) -> None:
    second = file.with_name("b.bin")
    second.write_bytes(b"y")
    options = OpenOptions("some-reader", (("a", "b"),), "1ms:2ms")

    assert send(OpenRequest((file,))).is_taken
    assert send(OpenRequest((second,), options)).is_taken

    assert [document.path for document in window.documents] == [file, second]
    document = window.document
    assert document is not None
    assert document.path == second
    assert document.loader.options == {"a": "b"}
    assert send(OpenRequest((file,))).is_taken  # is open: its tab comes to the front
    assert window.n_documents == 2
    assert window.document is window.documents[0]
    assert send(OpenRequest()).is_taken
    assert window.n_documents == 2


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\0" * 70_000, b"[" * 60_000 + b"\n",
     encode(OpenRequest((Path("x.bin"),))), encode(OpenRequest((Path("/x"),))) * 2],
)  # fmt: skip
def test_what_is_no_letter_opens_nothing(
    desk: InstanceServer, place: Path, window: MainWindow, qtbot: QtBot, data: bytes
) -> None:
    said = spoken(place, data, qtbot)

    assert said == b"" or b'"taken": false' in said
    assert window.n_documents == 0


def test_who_says_nothing_is_sent_away(
    desk: InstanceServer,
    place: Path,
    window: MainWindow,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", 0.05)

    assert spoken(place, b'{"ggscope": 1', qtbot) == b""
    assert window.n_documents == 0


def test_who_has_gone_before_the_answer_opens_nothing(
    desk: InstanceServer,
    place: Path,
    window: MainWindow,
    file: Path,
    send: Callable[[OpenRequest], HandoverResult],
) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place))
        line.sendall(encode(OpenRequest((file,))))

    assert send(OpenRequest()).is_taken  # who came later has been served
    assert window.n_documents == 0


def test_a_crowd_at_the_door_is_bounded_and_goes_again(
    desk: InstanceServer,
    place: Path,
    qtbot: QtBot,
    window: MainWindow,
    file: Path,
    send: Callable[[OpenRequest], HandoverResult],
) -> None:
    lines = [socket.socket(socket.AF_UNIX) for _ in range(MAX_GUESTS + 5)]
    for line in lines:
        line.connect(str(place))
    qtbot.waitUntil(lambda: len(desk._guests) == MAX_GUESTS)
    for line in lines:
        line.close()

    assert send(OpenRequest((file,))).is_taken
    assert window.n_documents == 1
    qtbot.waitUntil(lambda: not desk._guests)


def test_files_wait_while_a_dialog_is_open(
    desk: InstanceServer,
    send: Callable[[OpenRequest], HandoverResult],
    window: MainWindow,
    file: Path,
    qtbot: QtBot,
) -> None:
    dialog = QMessageBox(window)
    dialog.setModal(True)
    dialog.show()
    qtbot.waitUntil(lambda: QApplication.activeModalWidget() is dialog)

    assert send(OpenRequest((file,))).is_taken
    assert window.n_documents == 0
    dialog.close()

    qtbot.waitUntil(lambda: window.n_documents == 1)
    dialog.deleteLater()


def test_what_came_before_the_window_was_up_is_opened(
    place: Path, window: MainWindow, reading: Reading, file: Path, qtbot: QtBot
) -> None:
    door = hold(place)
    assert door is not None
    found: list[HandoverResult] = []
    letter = OpenRequest((file,))
    other = threading.Thread(target=lambda: found.append(offer(letter, place)))
    other.start()
    desk = InstanceServer(door, window)
    desk.came.connect(window.open_letter)
    qtbot.wait(50)
    assert window.n_documents == 0

    QTimer.singleShot(0, desk, desk.start)

    qtbot.waitUntil(lambda: window.n_documents == 1, timeout=10_000)
    other.join()
    assert found == [HandoverResult(is_taken=True)]
    desk.stop()


def test_nothing_is_left_when_the_window_closes(
    desk: InstanceServer, place: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else 0
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place))
        qtbot.waitUntil(lambda: len(desk._guests) == 1)
        desk.stop()
        desk.stop()
        desk.start()  # comes too late
        assert line.recv(1) == b""

    assert not place.exists()
    assert not desk._guests
    assert not before or len(os.listdir("/proc/self/fd")) < before
    monkeypatch.setattr(client, "PATIENCE_S", 0.1)
    following = offer(OpenRequest(), place)
    assert following.door is not None
    following.door.close()
