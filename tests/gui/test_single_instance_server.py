"""Single-instance server: opens valid requests and refuses everything else."""

import os
import socket
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
    acquire,
    encode,
    hand_over,
)
from ggscope.gui.single_instance.server import MAX_CLIENTS, InstanceServer
from reading import Reading


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a socket path that is short however long the folder's is."""
    monkeypatch.chdir(tmp_path)
    return Path("w.socket")


@pytest.fixture
def instance_server(
    path: Path, window: MainWindow, reading: Reading
) -> Iterator[InstanceServer]:
    """Return the running server of `window`."""
    lock = acquire(path)
    assert lock is not None
    made = InstanceServer(lock, window)
    made.request_received.connect(window.open_request)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def send(qtbot: QtBot, path: Path) -> Callable[[OpenRequest], HandoverResult]:
    """Return a function that sends a request, as another process does."""

    def call(request: OpenRequest) -> HandoverResult:
        results: list[HandoverResult] = []
        other = threading.Thread(
            target=lambda: results.append(hand_over(request, path))
        )
        other.start()
        qtbot.waitUntil(lambda: not other.is_alive(), timeout=10_000)
        return results[0]

    return call


def response_to(path: Path, data: bytes, qtbot: QtBot) -> bytes:
    """Send `data` and return everything received until the server disconnects."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.setblocking(False)
        connection.sendall(data)
        received: list[bytes] = []

        def is_over() -> bool:
            try:
                received.append(connection.recv(4096))
            except BlockingIOError:
                return False
            except ConnectionError:
                return True
            return received[-1] == b""

        qtbot.waitUntil(is_over, timeout=10_000)
        return b"".join(received)


def test_files_open_in_tabs_with_their_options(
    instance_server: InstanceServer,
    send: Callable[[OpenRequest], HandoverResult],
    window: MainWindow,
    file: Path,
) -> None:
    second = file.with_name("b.bin")
    second.write_bytes(b"y")
    options = OpenOptions("some-reader", (("a", "b"),), "1ms:2ms")

    assert send(OpenRequest((file,))).is_accepted
    assert send(OpenRequest((second,), options)).is_accepted

    assert [document.path for document in window.documents] == [file, second]
    document = window.document
    assert document is not None
    assert document.path == second
    assert document.loader.options == {"a": "b"}
    assert send(OpenRequest((file,))).is_accepted  # already open: its tab is raised
    assert window.n_documents == 2
    assert window.document is window.documents[0]
    assert send(OpenRequest()).is_accepted
    assert window.n_documents == 2


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\0" * 70_000, b"[" * 60_000 + b"\n",
     encode(OpenRequest((Path("x.bin"),))), encode(OpenRequest((Path("/x"),))) * 2],
)  # fmt: skip
def test_invalid_request_opens_nothing(
    instance_server: InstanceServer,
    path: Path,
    window: MainWindow,
    qtbot: QtBot,
    data: bytes,
) -> None:
    response = response_to(path, data, qtbot)

    assert response == b"" or b'"taken": false' in response
    assert window.n_documents == 0


def test_client_that_sends_no_request_is_disconnected(
    instance_server: InstanceServer,
    path: Path,
    window: MainWindow,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "REPLY_TIMEOUT_S", 0.05)

    assert response_to(path, b'{"ggscope": 1', qtbot) == b""
    assert window.n_documents == 0


def test_client_that_left_before_the_reply_opens_nothing(
    instance_server: InstanceServer,
    path: Path,
    window: MainWindow,
    file: Path,
    send: Callable[[OpenRequest], HandoverResult],
) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(encode(OpenRequest((file,))))

    assert send(OpenRequest()).is_accepted  # the later client has been served
    assert window.n_documents == 0


def test_number_of_clients_is_limited(
    instance_server: InstanceServer,
    path: Path,
    qtbot: QtBot,
    window: MainWindow,
    file: Path,
    send: Callable[[OpenRequest], HandoverResult],
) -> None:
    connections = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CLIENTS + 5)]
    for connection in connections:
        connection.connect(str(path))
    qtbot.waitUntil(lambda: instance_server.n_clients == MAX_CLIENTS)
    for connection in connections:
        connection.close()

    assert send(OpenRequest((file,))).is_accepted
    assert window.n_documents == 1
    qtbot.waitUntil(lambda: not instance_server.n_clients)


def test_files_wait_while_a_dialog_is_open(
    instance_server: InstanceServer,
    send: Callable[[OpenRequest], HandoverResult],
    window: MainWindow,
    file: Path,
    qtbot: QtBot,
) -> None:
    dialog = QMessageBox(window)
    dialog.setModal(True)
    dialog.show()
    qtbot.waitUntil(lambda: QApplication.activeModalWidget() is dialog)

    assert send(OpenRequest((file,))).is_accepted
    assert window.n_documents == 0
    dialog.close()

    qtbot.waitUntil(lambda: window.n_documents == 1)
    dialog.deleteLater()


def test_request_sent_before_the_window_is_up_is_opened(
    path: Path, window: MainWindow, reading: Reading, file: Path, qtbot: QtBot
) -> None:
    lock = acquire(path)
    assert lock is not None
    results: list[HandoverResult] = []
    request = OpenRequest((file,))
    other = threading.Thread(target=lambda: results.append(hand_over(request, path)))
    other.start()
    instance_server = InstanceServer(lock, window)
    instance_server.request_received.connect(window.open_request)
    qtbot.wait(50)
    assert window.n_documents == 0

    QTimer.singleShot(0, instance_server, instance_server.start)

    qtbot.waitUntil(lambda: window.n_documents == 1, timeout=10_000)
    other.join()
    assert results == [HandoverResult(is_accepted=True)]
    instance_server.stop()


def test_socket_and_connections_are_closed_with_the_window(
    instance_server: InstanceServer,
    path: Path,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc") else 0
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        qtbot.waitUntil(lambda: instance_server.n_clients == 1)
        instance_server.stop()
        instance_server.stop()
        instance_server.start()  # too late
        assert connection.recv(1) == b""

    assert not path.exists()
    assert not instance_server.n_clients
    assert not before or len(os.listdir("/proc/self/fd")) < before
    monkeypatch.setattr(client, "REPLY_TIMEOUT_S", 0.1)
    following = hand_over(OpenRequest(), path)
    assert following.lock is not None
    following.lock.release()
