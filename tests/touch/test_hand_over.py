"""A second start hands its files to the window that is open: with real processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ggscope.assets import APPLICATION_ID
from ggscope.cli import desktop
from support import ROOT
from touching import PATIENCE_MS

SAMPLES = ROOT / "resources" / "samples"
LLAMA = SAMPLES / "llama.ggmlviz"
DEMO = SAMPLES / "llama-demo.ggmlviz"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a person who has nothing yet."""
    home = tmp_path_factory.mktemp("h")
    folders = {f"XDG_{kind}_HOME": str(home) for kind in ("CONFIG", "DATA", "CACHE")}
    return {
        **os.environ, **folders, "XDG_RUNTIME_DIR": str(home),
        "GGSCOPE_INSTANCE": "test",
    }  # fmt: skip


@pytest.fixture
def start(window_manager: None, environment: dict[str, str]) -> Iterator[Start]:
    """Return a function that starts the program with words; all are ended after."""
    made: list[subprocess.Popen[str]] = []

    def call(*text: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "ggscope", *map(str, text)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment, cwd=SAMPLES,
        )  # fmt: skip
        made.append(process)
        return process

    yield call
    for process in made:
        process.kill()  # also one that is stopped
        process.communicate()


def titles(process: "subprocess.Popen[str] | _Running") -> list[str]:
    """Return the titles of a process's windows."""
    command = ["xdotool", "search", "--all", "--onlyvisible", "--pid", str(process.pid)]
    result = subprocess.run(
        [*command, "--name", "ggscope"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [
        subprocess.run(
            ["xdotool", "getwindowname", number],
            capture_output=True, text=True, check=False,
        ).stdout.strip()
        for number in result.stdout.split()
    ]  # fmt: skip
    return [line for line in lines if line]


def wait_for(title: str, process: "subprocess.Popen[str] | _Running") -> None:
    """Wait until a process has one window, of this title."""
    _wait(lambda: titles(process) == [f"{title} — ggscope"], process)


def _wait(
    is_done: Callable[[], bool], process: "subprocess.Popen[str] | _Running"
) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not is_done():
        assert time.monotonic() < deadline, titles(process)
        time.sleep(0.02)


def active_pid() -> int:
    """Return the process of the window that has the keys; 0 = none."""
    command = ["xdotool", "getactivewindow", "getwindowpid"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.stdout.strip() else 0


def press(key: str) -> None:
    subprocess.run(["xdotool", "key", key], check=True)


def test_second_start_lands_in_the_window_and_comes_to_the_front(start: Start) -> None:
    first = start(LLAMA)
    wait_for(LLAMA.name, first)
    own = start("--new-window", LLAMA)
    wait_for(LLAMA.name, own)
    _wait(lambda: active_pid() == own.pid, own)

    second = start(DEMO.name, "missing.bin")  # of the folder it is started in
    output = second.communicate(timeout=PATIENCE_MS / 1000)

    assert second.returncode == 0
    assert output[0] == ""
    assert "opened llama-demo.ggmlviz in the running window" in output[1]
    assert "missing.bin: the file does not exist" in output[1]
    wait_for(DEMO.name, first)
    _wait(lambda: active_pid() == first.pid, first)
    press("ctrl+w")
    wait_for(LLAMA.name, first)
    assert titles(own) == [f"{LLAMA.name} — ggscope"]
    own.terminate()
    first.terminate()
    assert first.wait(10) == own.wait(10) == 128 + signal.SIGTERM
    assert first.communicate()[1] == ""


def test_starts_at_the_same_moment_come_together_in_one_window(start: Start) -> None:
    both = [start(LLAMA), start(DEMO)]

    _wait(lambda: any(one.poll() is not None for one in both), both[0])
    second, first = sorted(both, key=lambda one: one.poll() is None)

    assert second.returncode == 0, second.communicate()
    assert first.poll() is None
    handed, own = (DEMO, LLAMA) if second is both[1] else (LLAMA, DEMO)
    wait_for(handed.name, first)
    _wait(lambda: active_pid() == first.pid, first)
    press("ctrl+w")
    wait_for(own.name, first)


def test_killed_window_is_replaced_by_the_next_start(start: Start) -> None:
    first = start(LLAMA)
    wait_for(LLAMA.name, first)
    first.send_signal(signal.SIGKILL)
    first.wait()

    second = start(DEMO)
    wait_for(DEMO.name, second)
    third = start(LLAMA)

    assert third.wait(PATIENCE_MS / 1000) == 0
    wait_for(LLAMA.name, second)
    _wait(lambda: active_pid() == second.pid, second)
    press("ctrl+q")
    assert second.wait(PATIENCE_MS / 1000) == 0
    assert second.communicate()[1] == ""


def test_window_that_hangs_is_passed_by_and_opens_nothing_later(start: Start) -> None:
    first = start(LLAMA)
    wait_for(LLAMA.name, first)
    first.send_signal(signal.SIGSTOP)

    second = start(DEMO)
    wait_for(DEMO.name, second)
    first.send_signal(signal.SIGCONT)
    third = start()  # is served by the first, after what the second had said

    assert third.wait(PATIENCE_MS / 1000) == 0
    assert titles(first) == [f"{LLAMA.name} — ggscope"]
    second.terminate()
    output = second.communicate()[1]
    assert "the open window does not respond" in output


def test_double_click_opens_a_window_and_the_next_lands_in_it(
    start: Start,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    if shutil.which("xdg-open") is None:
        pytest.skip("xdg-open is not installed")
    data = Path(environment["XDG_DATA_HOME"])
    log = tmp_path / "pids"
    program = tmp_path / "ggscope"
    program.write_text(
        f'#!/bin/sh\necho $$ >> "{log}"\nexec "{sys.executable}" -m ggscope "$@"\n'
    )
    program.chmod(0o755)
    desktop.install(data, (str(program),))
    named, nameless = tmp_path / "x.ggmlviz", tmp_path / "nameless"
    shutil.copy(LLAMA, named)
    shutil.copy(DEMO, nameless)
    for path in (named, nameless):
        command = ["xdg-mime", "query", "filetype", path]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True
        )
        if result.stdout.strip() != "application/x-ggmlviz":
            pytest.skip("xdg-mime knows no types of this person; no File::MimeInfo?")

    def click(path: Path) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["xdg-open", path], env=environment)

    first = click(named)
    try:
        _wait_until(lambda: log.exists() and log.read_text().strip().isdigit())
        window = _Running(int(log.read_text()))
        wait_for(named.name, window)
        assert window.is_of(APPLICATION_ID)
        second = click(nameless)
        assert second.wait(PATIENCE_MS / 1000) == 0
        wait_for(nameless.name, window)
        press("ctrl+w")
        wait_for(named.name, window)
    finally:
        for pid in map(int, log.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        first.wait(PATIENCE_MS / 1000)


class _Running:
    """A program that somebody else has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_of(self, application: str) -> bool:
        """Return whether its windows say that they belong to an application."""
        command = ["xdotool", "search", "--onlyvisible", "--pid", str(self.pid)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        message = subprocess.run(
            ["xprop", "-id", result.stdout.split()[-1], "_KDE_NET_WM_DESKTOP_FILE"],
            capture_output=True, text=True, check=False,
        ) if shutil.which("xprop") else None  # fmt: skip
        return message is None or f'"{application}"' in message.stdout


def _wait_until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
