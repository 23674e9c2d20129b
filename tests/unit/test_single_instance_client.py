"""Single-instance client: format and limits of requests, the lock, the hand-over."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

import ggscope
from ggscope.gui.single_instance import client
from ggscope.gui.single_instance.client import (
    MAX_REQUEST_BYTES,
    OpenOptions,
    OpenRequest,
    acquire,
    decode,
    encode,
    hand_over,
    make_request,
    reply,
    socket_path,
)

FULL = OpenRequest(
    (Path("/a b.bin"), Path(os.fsdecode(b"/\xff\xfe.bin")), Path('/"ü\n.bin')),
    OpenOptions("npu-json", (("salvage", "true"),), "1ms:2ms", True, (Path("/m"),)),
    "token-1",
)
HOLD = """
import sys, time
from pathlib import Path
from ggscope.gui.single_instance.client import acquire
lock = acquire(Path(sys.argv[1]))
print("held" if lock else "taken", flush=True)
time.sleep(60)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the socket path of instances of this test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("GGSCOPE_INSTANCE", "test")
    monkeypatch.setattr(client, "_MAX_PATH_BYTES", 4096)
    monkeypatch.chdir(tmp_path)
    absolute = socket_path()
    assert absolute is not None
    return absolute.relative_to(tmp_path)  # short enough for a socket


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return an instance that never replies."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(encode(FULL)), **fields}).encode()


def with_options(**fields: object) -> bytes:
    options = {**json.loads(encode(FULL))["options"], **fields}
    return changed(options=options)


@pytest.mark.parametrize("sent", [FULL, OpenRequest(), OpenRequest((Path("/x"),))])
def test_request_is_decoded_as_it_was_encoded(sent: OpenRequest) -> None:
    data = encode(sent)

    assert decode(data) == sent
    assert data.count(b"\n") == 1
    assert data.isascii()


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{", b"null", b"[1]", b'"x"', b"\xff\xfe", b"[" * 60_000, b"1" * 9999,
     b" " * (MAX_REQUEST_BYTES + 1), changed(ggscope=2), changed(ggscope="3"),
     changed(more=1), changed(files=None), changed(files="/a"), changed(files=[1]),
     changed(files=["a.bin"]), changed(files=[""]), changed(files=["../a"]),
     changed(files=["/a\0b"]), changed(files=["/" + "a" * 5000]),
     changed(files=["/\ud800"]), changed(activation=3), changed(activation="a\nb"),
     changed(activation="a" * 300), changed(options=[]), changed(options={}),
     with_options(is_forced=1), with_options(reader_options=["ab"]),
     with_options(reader_options=[["a"]]), with_options(reader_options=[["a", 1]]),
     with_options(time_range=None), with_options(reader_id=1),
     with_options(run="rm"), with_options(more=["x"]),
     with_options(shifts=[["a"]]),
     with_options(shifts={})],
)  # fmt: skip
def test_invalid_request_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^[a-zA-Z ,]+$"):
        decode(data)


def test_request_holds_the_options_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", "tok")
    monkeypatch.delenv("DESKTOP_STARTUP_ID", raising=False)
    Path("a.bin").touch()
    arguments = Namespace(
        reader="npu-json", ops="auto", option=[("a", "b")], range="1ms:", force=False,
        beside=[Path("m.gguf")], records="0:5", names=None, theme=None,
        shift=[("m.gguf", "1ms")],
    )  # fmt: skip

    request = make_request([Path("a.bin"), tmp_path], arguments)

    pairs = (("a", "b"), ("range", "0:5"))
    assert request == OpenRequest(
        (tmp_path / "a.bin", tmp_path),
        OpenOptions(
            "npu-json",
            pairs,
            "1ms:",
            False,
            (tmp_path / "m.gguf",),
            (("m.gguf", "1ms"),),
        ),
        "tok",
    )


@pytest.mark.parametrize("name", ["new_window", "theme", "layout", "software_gl"])
def test_option_of_the_window_needs_a_new_window(name: str) -> None:
    assert make_request([], Namespace(**{name: "dark"})) is None


def test_process_local_files_need_a_new_window(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert make_request([tmp_path / "pipe"], Namespace()) is None
    assert make_request([Path("/dev/stdin")], Namespace()) is None
    assert make_request([tmp_path], Namespace(beside=[Path("/dev/stdin")])) is None


def test_each_display_and_configuration_has_an_instance(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":1")
    one = socket_path()
    monkeypatch.setenv("DISPLAY", ":1.0")
    assert socket_path() == one
    paths = {one}
    for name, value in (
        ("DISPLAY", ":2"),
        ("XDG_CONFIG_HOME", "/elsewhere"),
        ("GGSCOPE_PLUGIN_PATH", "/plugins"),
        ("GGSCOPE_INSTANCE", "other"),
    ):
        monkeypatch.setenv(name, value)
        paths.add(socket_path())
    assert len(paths) == 5
    monkeypatch.setattr(ggscope, "__version__", "another")
    assert socket_path() not in paths
    monkeypatch.setenv("GGSCOPE_SAFE_MODE", "1")
    assert socket_path() is None
    monkeypatch.delenv("GGSCOPE_SAFE_MODE")
    monkeypatch.setenv("GGSCOPE_INSTANCE", "off")
    assert socket_path() is None


def test_socket_folder_is_private_or_not_used(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ggscope"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert socket_path() is not None
    assert folder.stat().st_mode & 0o777 == 0o700

    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert socket_path() is None
    monkeypatch.undo()
    monkeypatch.setenv("GGSCOPE_INSTANCE", "test")
    bad = ["/dev/null", str(tmp_path / ("x" * 200))]
    monkeypatch.setattr(platformdirs, "user_runtime_dir", lambda *_, **__: bad[0])
    assert socket_path() is None
    bad.reverse()
    assert socket_path() is None


def test_first_process_holds_the_lock_until_it_releases_it(path: Path) -> None:
    result = hand_over(OpenRequest(), path)
    lock = result.lock
    assert lock is not None
    assert not result.is_accepted
    assert path.stat().st_mode & 0o777 == 0o600

    assert acquire(path) is None
    assert hand_over(None, path) == client.HandoverResult()
    lock.release()
    lock.release()

    assert not path.exists()
    again = acquire(path)
    assert again is not None
    again.release()


def test_lock_of_a_killed_process_is_acquired(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    assert acquire(path) is None
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert path.exists()  # its socket, which is dead

    result = hand_over(FULL, path)

    assert result.lock is not None
    assert result.notice == ""
    result.lock.release()


def test_instance_that_does_not_reply_leads_to_a_new_window(
    path: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "REPLY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(client, "STARTUP_TIMEOUT_S", 0.3)  # the holder is "starting"

    result = hand_over(FULL, path)

    assert result.lock is None
    assert not result.is_accepted
    holder.kill()
    holder.wait()
    alone = hand_over(FULL, path)
    assert alone.lock is not None
    alone.lock.release()
    assert "does not respond" in result.notice
    assert alone.notice == ""


def test_client_waits_for_an_instance_that_is_starting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "REPLY_TIMEOUT_S", 0.1)
    lock = acquire(path)
    assert lock is not None
    results: list[client.HandoverResult] = []
    later = threading.Thread(target=lambda: results.append(hand_over(FULL, path)))
    later.start()
    time.sleep(0.5)  # longer than the reply timeout

    lock.listener.setblocking(True)
    connection, _ = lock.listener.accept()
    received = connection.recv(MAX_REQUEST_BYTES)
    connection.sendall(reply(is_accepted=True))
    later.join()

    connection.close()
    lock.release()
    assert decode(received) == FULL
    assert results == [client.HandoverResult(is_accepted=True)]


def answered(path: Path, response: bytes) -> client.HandoverResult:
    """Return the result of a hand-over to an instance that sends `response`."""
    lock = acquire(path)
    assert lock is not None
    lock.listener.setblocking(True)

    def refuse() -> None:
        connection, _ = lock.listener.accept()
        connection.recv(MAX_REQUEST_BYTES)
        connection.sendall(response)
        connection.close()

    other = threading.Thread(target=refuse)
    other.start()
    result = hand_over(FULL, path)
    other.join()
    lock.release()
    return result


@pytest.mark.parametrize("response", [b"{}\n", b"[]\n", b"\xff\n", b"x" * 70_000])
def test_invalid_reply_leads_to_a_new_window(path: Path, response: bytes) -> None:
    refused = answered(path, reply(False, "no\x1b[2J"))
    result = answered(path, response)

    assert not result.is_accepted
    assert "invalid reply" in result.notice
    assert "invalid reply" not in refused.notice


def test_refused_request_leads_to_a_new_window_with_the_reason(path: Path) -> None:
    refused = answered(path, reply(False, "no\x1b[2J"))
    accepted = answered(path, reply(True, "no\x1b[2J"))

    assert (refused.is_accepted, accepted.is_accepted) == (False, True)
    assert "no\x1b[2J" in refused.notice
    assert accepted.notice == ""


def test_too_many_files_open_in_a_new_window(path: Path) -> None:
    many = OpenRequest(tuple(Path(f"/folder/{i:08}.bin") for i in range(10_000)))
    lock = acquire(path)
    assert lock is not None

    result = hand_over(many, path)

    assert not result.is_accepted
    lock.release()
    alone = hand_over(many, path)
    assert alone.lock is not None
    assert "too many files" in result.notice
    assert alone.notice == ""
    alone.lock.release()


def test_stale_socket_without_a_lock_is_replaced(
    path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as stray:
        stray.bind(str(path))
        stray.listen()

        result = hand_over(FULL, path)

        assert result.lock is not None
        result.lock.release()


def test_client_imports_no_qt() -> None:
    module = "ggscope.gui.single_instance.client"
    code = f"import sys, {module}; print('PySide6' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"
