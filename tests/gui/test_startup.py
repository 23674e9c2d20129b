"""Startup notification: tokens from the environment, and the messages on X11."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ggscope.gui.single_instance import startup
from ggscope.gui.single_instance.startup import finish_x11, forget_tokens, given_token

NAMES = ("XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID")


@pytest.fixture(autouse=True)
def _no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_token_of_the_display_goes_before_that_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert given_token() == ""
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", "way")
    assert given_token() == "way"
    monkeypatch.setenv("DESKTOP_STARTUP_ID", "x_TIME1")
    assert given_token() == "x_TIME1"
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert given_token() == "way"


@pytest.mark.parametrize("token", ["a\nb", "ü", "x" * 257, "\x1b[0m"])
def test_what_is_no_token_is_not_passed_on(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKTOP_STARTUP_ID", token)
    assert given_token() == ""
    monkeypatch.setenv("XDG_ACTIVATION_TOKEN", "good")
    assert given_token() == "good"


def test_programs_started_from_here_get_no_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "token")

    forget_tokens()

    assert not {*NAMES} & {*os.environ}
    forget_tokens()


@pytest.mark.parametrize("display", [None, ":987", "nonsense"])
def test_nothing_happens_without_a_display(
    display: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    if display is not None:
        monkeypatch.setenv("DISPLAY", display)

    finish_x11("token_TIME1", 1)


def test_nothing_happens_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ctypes.CDLL:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)

    finish_x11("token_TIME1", 1)


def test_messages_are_those_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    class Screens:
        class screen:  # noqa: N801
            contents = ctypes.c_uint32(77)

    class Library:
        xcb_setup_roots_iterator = staticmethod(lambda _: Screens)

        def __getattr__(self, _: str):
            return lambda *_: 0

    def send(_library, _line, root, mask, message):
        sent.append((root, mask, *message))

    monkeypatch.setattr(startup, "_library", Library)
    monkeypatch.setattr(startup, "_send", send)

    finish_x11('a "b\\c_TIME4711', 5)

    *removal, active = sent
    text = b"".join(data for *_, data in removal)
    assert text == b'remove: ID="a \\"b\\\\c_TIME4711"\0'
    assert [(root, mask, kind, form) for root, mask, kind, form, *_ in removal] == [
        (77, 1 << 22, "_NET_STARTUP_INFO_BEGIN", 8),
        (77, 1 << 22, "_NET_STARTUP_INFO", 8),
    ]
    assert all(len(data) <= 20 for *_, data in removal)
    assert active[2:5] == ("_NET_ACTIVE_WINDOW", 32, 5)
    assert active[5][:8] == bytes([1, 0, 0, 0]) + (4711).to_bytes(4, sys.byteorder)


def test_display_hears_the_end_of_the_start(tmp_path: Path) -> None:
    if None in (shutil.which("xvfb-run"), shutil.which("xev")):
        pytest.skip("xvfb-run or xev is not installed")
    code = (
        "from ggscope.gui.single_instance.startup import finish_x11; "
        "finish_x11('t_TIME1', 0x123)"
    )
    path = tmp_path / "heard"
    # xev says what it asks for once it listens.
    script = (
        f"xev -root -event property > '{path}' & x=$!; n=0; "
        f"until grep -q NET_STARTUP '{path}' || [ $n = 9 ]; do n=$((n+1)); "
        f'"{sys.executable}" -c "{code}"; sleep 0.2; done; kill $x'
    )
    subprocess.run(["xvfb-run", "-a", "sh", "-c", script], check=False, timeout=60)

    text = path.read_text()
    assert re.search(
        r"window 0x123,\s+message_type \w+ \(_NET_STARTUP_INFO_BEGIN", text
    )
