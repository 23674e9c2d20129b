"""What later starts send to the window: its form, its bounds, and who takes it."""

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
    LETTER_BYTES,
    OpenOptions,
    OpenRequest,
    address,
    answer,
    decode,
    encode,
    hold,
    letter_of,
    offer,
)
from sentences import assert_sides

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="this system has no such locks and sockets"
)

FULL = OpenRequest(
    (Path("/a b.bin"), Path(os.fsdecode(b"/\xff\xfe.bin")), Path('/"ü\n.bin')),
    OpenOptions("npu-json", (("salvage", "true"),), "1ms:2ms", True, (Path("/m"),)),
    "token-1",
)
HOLD = """
import sys, time
from pathlib import Path
from ggscope.gui.single_instance.client import hold
door = hold(Path(sys.argv[1]))
print("held" if door else "taken", flush=True)
time.sleep(60)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the socket of windows of this test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("GGSCOPE_INSTANCE", "test")
    monkeypatch.setattr(client, "_MAX_ADDRESS", 4096)
    monkeypatch.chdir(tmp_path)
    found = address()
    assert found is not None
    return found.relative_to(tmp_path)  # names of sockets are short


@pytest.fixture
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Return a process that takes files and never answers."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(place)], stdout=subprocess.PIPE, text=True
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


@pytest.mark.parametrize("letter", [FULL, OpenRequest(), OpenRequest((Path("/x"),))])
def test_letter_is_read_as_it_was_written(letter: OpenRequest) -> None:
    data = encode(letter)

    assert decode(data) == letter
    assert data.count(b"\n") == 1
    assert data.isascii()


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"{", b"null", b"[1]", b'"x"', b"\xff\xfe", b"[" * 60_000, b"1" * 9999,
     b" " * (LETTER_BYTES + 1), changed(ggscope=3), changed(ggscope="1"),
     changed(more=1), changed(files=None), changed(files="/a"), changed(files=[1]),
     changed(files=["a.bin"]), changed(files=[""]), changed(files=["../a"]),
     changed(files=["/a\0b"]), changed(files=["/" + "a" * 5000]),
     changed(files=["/\ud800"]), changed(activation=3), changed(activation="a\nb"),
     changed(activation="a" * 300), changed(options=[]), changed(options={}),
     with_options(force=1), with_options(pairs=["ab"]), with_options(pairs=[["a"]]),
     with_options(pairs=[["a", 1]]), with_options(range=None), with_options(reader=1),
     with_options(run="rm"), with_options(**{"with": ["x"]}),
     with_options(shifts=[["a"]]),
     with_options(shifts={})],
)  # fmt: skip
def test_what_is_no_letter_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(its?|a) "):
        decode(data)


def test_letter_says_what_the_command_line_asked_for(
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

    letter = letter_of([Path("a.bin"), tmp_path], arguments)

    pairs = (("a", "b"), ("range", "0:5"))
    assert letter == OpenRequest(
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
def test_what_is_said_of_a_window_is_not_handed_over(name: str) -> None:
    assert letter_of([], Namespace(**{name: "dark"})) is None


def test_files_of_this_process_alone_are_not_handed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert letter_of([tmp_path / "pipe"], Namespace()) is None
    assert letter_of([Path("/dev/stdin")], Namespace()) is None
    assert letter_of([tmp_path], Namespace(beside=[Path("/dev/stdin")])) is None


def test_windows_of_other_displays_and_settings_are_others(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":1")
    one = address()
    monkeypatch.setenv("DISPLAY", ":1.0")
    assert address() == one
    found = {one}
    for name, value in (
        ("DISPLAY", ":2"),
        ("XDG_CONFIG_HOME", "/elsewhere"),
        ("GGSCOPE_PLUGIN_PATH", "/plugins"),
        ("GGSCOPE_INSTANCE", "other"),
    ):
        monkeypatch.setenv(name, value)
        found.add(address())
    assert len(found) == 5
    monkeypatch.setattr(ggscope, "__version__", "another")
    assert address() not in found
    monkeypatch.setenv("GGSCOPE_SAFE_MODE", "1")
    assert address() is None
    monkeypatch.delenv("GGSCOPE_SAFE_MODE")
    monkeypatch.setenv("GGSCOPE_INSTANCE", "off")
    assert address() is None


def test_folder_is_private_or_not_used(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ggscope"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert address() is not None
    assert folder.stat().st_mode & 0o777 == 0o700

    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert address() is None
    monkeypatch.undo()
    monkeypatch.setenv("GGSCOPE_INSTANCE", "test")
    bad = ["/dev/null", str(tmp_path / ("x" * 200))]
    monkeypatch.setattr(platformdirs, "user_runtime_dir", lambda *_, **__: bad[0])
    assert address() is None
    bad.reverse()
    assert address() is None


def test_first_start_takes_the_place_until_it_closes(place: Path) -> None:
    outcome = offer(OpenRequest(), place)
    door = outcome.door
    assert door is not None
    assert not outcome.is_taken
    assert place.stat().st_mode & 0o777 == 0o600

    assert hold(place) is None
    assert offer(None, place) == client.HandoverResult()
    door.close()
    door.close()

    assert not place.exists()
    again = hold(place)
    assert again is not None
    again.close()


def test_place_of_a_killed_process_is_taken_over(
    place: Path, holder: subprocess.Popen[str]
) -> None:
    assert hold(place) is None
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert place.exists()  # its socket, which is dead

    outcome = offer(FULL, place)

    assert outcome.door is not None
    assert outcome.notice == ""
    outcome.door.close()


def test_window_that_does_not_answer_is_passed_by_with_a_notice(
    place: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.2)
    monkeypatch.setattr(client, "START_S", 0.3)  # it says that it is starting

    outcome = offer(FULL, place)

    assert outcome.door is None
    assert not outcome.is_taken
    holder.kill()
    holder.wait()
    alone = offer(FULL, place)
    assert alone.door is not None
    alone.door.close()
    claim = (
        "the window that is open does not answer. A window of its own opens beside it."
    )
    assert_sides(claim, outcome.notice, alone.notice)


def test_window_that_is_starting_is_waited_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.1)
    door = hold(place)
    assert door is not None
    found: list[client.HandoverResult] = []
    later = threading.Thread(target=lambda: found.append(offer(FULL, place)))
    later.start()
    time.sleep(0.5)  # longer than an open window may take

    door.listener.setblocking(True)
    line, _ = door.listener.accept()
    received = line.recv(LETTER_BYTES)
    line.sendall(answer(is_taken=True))
    later.join()

    line.close()
    door.close()
    assert decode(received) == FULL
    assert found == [client.HandoverResult(is_taken=True)]


def answered(place: Path, said: bytes) -> client.HandoverResult:
    """Return what a start makes of an answer of the window that is open."""
    door = hold(place)
    assert door is not None
    door.listener.setblocking(True)

    def refuse() -> None:
        line, _ = door.listener.accept()
        line.recv(LETTER_BYTES)
        line.sendall(said)
        line.close()

    other = threading.Thread(target=refuse)
    other.start()
    outcome = offer(FULL, place)
    other.join()
    door.close()
    return outcome


@pytest.mark.parametrize("said", [b"{}\n", b"[]\n", b"\xff\n", b"x" * 70_000])
def test_answer_that_is_none_leads_to_an_own_window(place: Path, said: bytes) -> None:
    refused = answered(place, answer(False, "no\x1b[2J"))
    outcome = answered(place, said)

    assert not outcome.is_taken
    assert_sides("its answer is none", outcome.notice, refused.notice)


def test_window_that_takes_no_files_is_passed_by_with_its_reason(place: Path) -> None:
    refused = answered(place, answer(False, "no\x1b[2J"))
    taken = answered(place, answer(True, "no\x1b[2J"))

    assert (refused.is_taken, taken.is_taken) == (False, True)
    claim = "the window that is open takes no files: *."
    assert_sides(claim, refused.notice, taken.notice)


def test_too_many_files_open_in_an_own_window(place: Path) -> None:
    many = OpenRequest(tuple(Path(f"/folder/{i:08}.bin") for i in range(10_000)))
    claim = "these are too many files to hand over. They open in a new window."
    door = hold(place)
    assert door is not None

    outcome = offer(many, place)

    assert not outcome.is_taken
    door.close()
    alone = offer(many, place)
    assert alone.door is not None
    assert_sides(claim, outcome.notice, alone.notice)
    alone.door.close()


def test_socket_that_somebody_else_made_without_the_lock_is_replaced(
    place: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as stray:
        stray.bind(str(place))
        stray.listen()

        outcome = offer(FULL, place)

        assert outcome.door is not None
        outcome.door.close()


def test_handing_over_needs_no_qt() -> None:
    module = "ggscope.gui.single_instance.client"
    code = f"import sys, {module}; print('PySide6' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"
