"""The window of traces without spans: it leaves out what would be empty."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

import bench_files
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from pages import drawer_tabs
from panes import settle
from support import ROOT

Opened = Callable[[Path], Document]
SPANS = ROOT / "resources" / "samples" / "llama.ggmlviz"
COUNTERS = b"""\
INFO 07-01 10:00:00 [loggers.py:116] Engine 000: Avg prompt throughput: 10.0 \
tokens/s, Avg generation throughput: 20.0 tokens/s, Running: 1 reqs, Waiting: 0 \
reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%
INFO 07-01 10:00:10 [loggers.py:116] Engine 000: Avg prompt throughput: 0.0 \
tokens/s, Avg generation throughput: 25.0 tokens/s, Running: 1 reqs, Waiting: 0 \
reqs, GPU KV cache usage: 2.0%, Prefix cache hit rate: 0.0%
"""


@pytest.fixture
def bench(opened: Opened, tmp_path: Path, qtbot: QtBot) -> Document:
    path = tmp_path / "a.jsonl"
    path.write_bytes(bench_files.written(bench_files.rows(1, 4), "jsonl"))
    document = opened(path)
    settle(qtbot, document)
    return document


def tabs(document: Document) -> set[str]:
    bar = drawer_tabs(document.workspace.drawer)
    shown = [bar.tabText(i) for i in range(bar.count()) if bar.isTabVisible(i)]
    return {text.rstrip(" 0123456789") for text in shown}


def test_drawer_leaves_out_views_without_data(bench: Document) -> None:
    assert tabs(bench) == {"Summary", "Compare", "SQL", "Bookmarks", "Problems"}


def test_summary_comes_forward_where_the_tab_in_front_is_left_out(
    bench: Document,
) -> None:
    assert bench.workspace.drawer.tab == "summary"
    assert not bench.workspace.drawer.is_open


def test_view_without_data_that_is_asked_for_has_a_tab(bench: Document) -> None:
    bench.workspace.show_view("statistics")

    assert "Selection statistics" in tabs(bench)
    assert bench.workspace.drawer.tab == "statistics"


def test_toolbar_has_no_colours_and_times_where_there_are_none(
    bench: Document, opened: Opened, window: MainWindow, qtbot: QtBot
) -> None:
    assert not bench.toolbar.color.isVisible()
    assert not bench.toolbar.time.isVisible()

    document = opened(SPANS)
    settle(qtbot, document)

    assert document.toolbar.color.isVisible()
    assert document.toolbar.time.isVisible()
    window.resize(1400, 800)
    assert not bench.toolbar.color.isVisible()


def test_counters_have_times_but_neither_overview_nor_colours(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(COUNTERS)
    document = opened(path)
    settle(qtbot, document)

    trace = document.session.trace
    assert trace is not None
    assert trace.counters
    assert len(trace.spans) == 0
    assert not document.workspace.overview.isVisible()
    assert not document.toolbar.color.isVisible()
    assert document.toolbar.time.isVisible()


def test_button_of_an_empty_view_is_just_below_its_text(
    bench: Document, qtbot: QtBot
) -> None:
    bench.workspace.show_view("summary")
    front = bench.workspace.drawer.front

    def gap() -> int:
        (text,) = [
            at
            for at in front.findChildren(QLabel)
            if at.text() == "No spans to summarise"
        ]
        (button,) = [
            b for b in front.findChildren(QPushButton) if b.text() == "Add to session…"
        ]
        assert button.isVisible()
        bottom = text.mapTo(front, QPoint(0, text.height())).y()
        return button.mapTo(front, QPoint(0, 0)).y() - bottom

    qtbot.waitUntil(lambda: 0 <= gap() <= 16)


def test_tab_that_is_left_out_stays_the_one_that_was_chosen(
    opened: Opened, window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    first = opened(SPANS)
    settle(qtbot, first)
    first.workspace.show_view("statistics")
    path = tmp_path / "a.jsonl"
    path.write_bytes(bench_files.written(bench_files.rows(1, 4), "jsonl"))
    settle(qtbot, opened(path))

    assert window.settings.layout.bottom_tab == "statistics"
