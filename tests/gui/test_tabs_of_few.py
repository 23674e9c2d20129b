"""Tabs of panes that few formats fill."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QTabBar
from pytestqt.qtbot import QtBot

import sqlite_files
from ggscope.gui.document import Document
from panes import settle
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
FEW = {"NPU", "Memory by device", "Load timeline"}


def tabs(document: Document) -> set[str]:
    bar = document.workspace.drawer.findChild(QTabBar)
    places = range(bar.count())
    shown = [bar.tabText(i) for i in places if bar.isTabVisible(i)]
    return {text.rstrip(" 0123456789") for text in shown}


@pytest.mark.parametrize(
    ("name", "there"),
    [("llama.ggmlviz", set()), ("npu-prefill-decode.json", {"NPU"})],
)
def test_they_are_there_where_a_trace_has_something_for_them(
    opened: Callable[[Path], Document], qtbot: QtBot, name: str, there: set[str]
) -> None:
    document = opened(SAMPLES / name)
    settle(qtbot, document)

    assert {"Experts", "Problems"} <= tabs(document)
    assert FEW & tabs(document) == there


def test_one_that_is_asked_for_is_there(
    opened: Callable[[Path], Document], qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    settle(qtbot, document)

    document.workspace.show_view("npu")

    assert "NPU" in tabs(document)
    assert document.workspace.drawer.tab == "npu"


def test_streams_of_a_gpu_are_no_engines_of_an_npu(
    opened: Callable[[Path], Document], qtbot: QtBot, tmp_path: Path
) -> None:
    path = tmp_path / "x.sqlite"
    path.write_bytes(sqlite_files.nsys(1).data)
    document = opened(path)
    settle(qtbot, document)

    assert "NPU" not in tabs(document)
