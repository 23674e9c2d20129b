"""Calls of CUDA that a program makes, followed in a tab."""

from pathlib import Path

from pytestqt.qtbot import QtBot

from cuda_files import START_US, own_hook, own_hook_end, random_calls
from ggscope.gui.main_window import MainWindow
from panes import settle

LINES = own_hook(random_calls(3, 60))
PATIENCE = 30_000


def write(path: Path, lines: list[str]) -> None:
    with path.open("a") as file:
        file.write("\n".join([*lines, ""]))


def test_open_file_is_followed_from_the_menu_to_its_last_line(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    write(path, LINES[:80])
    opened = window.open_path(path)
    settle(qtbot, opened)
    action = window.actions_["file.follow_file"]
    assert action.isEnabled()
    action.trigger()
    document = window.document
    assert document is not None
    assert document is not opened
    live = document.live
    assert live is not None
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=PATIENCE)
    assert not action.isEnabled()
    before = document.session.trace
    assert before is not None
    assert before.is_running

    write(path, [*LINES[80:], own_hook_end(START_US + 10**7, len(LINES))])
    qtbot.waitUntil(lambda: not live.is_on, timeout=PATIENCE)
    trace = document.session.trace
    assert trace is not None
    assert not trace.is_running
    assert len(trace.spans) == len(LINES) // 2
    assert live.metrics.phase.value == "ended"


def test_file_with_a_last_line_is_not_offered_to_be_followed(
    window: MainWindow, qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    write(path, [*LINES, own_hook_end(START_US + 10**7, len(LINES))])
    settle(qtbot, window.open_path(path))
    assert not window.actions_["file.follow_file"].isEnabled()
