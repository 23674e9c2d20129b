"""Requests of a log and tests of llama-bench in their panes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

import bench_files
import imatrix_files
import log_files
from ggscope.gui.document import Document
from ggscope.views.base.text_table import TextTable
from log_files import Request
from panes import pane, settle

LEFT = Qt.MouseButton.LeftButton
Opened = Callable[[Path], Document]


def table_of(document: Document, view_id: str) -> TextTable:
    return pane(document, view_id).findChild(TextTable)


def column(table: TextTable, title: str) -> list[str]:
    titles = [heading.title for heading in table.rows.headings]
    at = titles.index(title)
    return [table.rows.row(i)[at].text for i in range(table.rows.rowCount())]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    forced = Request(0, 7, 90, 500.5, 20, 1000.0, cached=0, past=60, is_forced=True)
    plain = Request(1, 8, 10, 50.0, 40, 2000.0, drafted=30, accepted=12)
    path.write_bytes(log_files.log([forced, plain]))
    return path


def test_log_shows_its_requests_under_the_timeline(
    opened: Opened, log: Path, qtbot: QtBot
) -> None:
    document = opened(log)
    settle(qtbot, document)
    table = table_of(document, "requests")
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)

    assert column(table, "task") == ["7", "8"]
    assert column(table, "again") == ["60", ""]
    assert column(table, "drafts")[1].startswith("12 of 30")
    assert column(table, "reason")[0].startswith("forcing full prompt")


def test_click_selects_the_spans_of_a_request(
    opened: Opened, log: Path, qtbot: QtBot
) -> None:
    document = opened(log)
    settle(qtbot, document)
    table = table_of(document, "requests")
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)
    session = document.session
    assert session.trace is not None
    assert session.trace.log is not None
    requests = session.trace.log.requests

    at = table.visualRect(table.model().index(1, 2)).center()
    qtbot.mouseClick(table.viewport(), LEFT, pos=at)

    expected = (int(requests.prompt_span[1]), int(requests.generated_span[1]))
    assert session.selection.current.ids == expected
    qtbot.keyClick(table, Qt.Key.Key_Return)
    visible = session.viewport.visible
    assert visible is not None
    begin, end = session.trace.spans.start, session.trace.spans.end
    assert visible.start <= begin[expected[0]]
    assert visible.end >= end[expected[1]]
    assert visible.duration < session.trace.extent.duration


def test_results_of_a_benchmark_fill_the_window(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "bench.jsonl"
    tests = bench_files.rows(1)
    path.write_bytes(bench_files.written(tests, "jsonl"))

    document = opened(path)
    settle(qtbot, document)
    table = table_of(document, "bench")
    qtbot.waitUntil(lambda: table.rows.rowCount() == len(tests))

    assert column(table, "t/s") == [f"{test['avg_ts']:,.2f}" for test in tests]
    assert column(table, "n_threads") == ["4"] * len(tests)


def test_importance_matrix_shows_its_experts(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "imatrix.gguf"
    path.write_bytes(imatrix_files.gguf(imatrix_files.entries()))

    document = opened(path)
    settle(qtbot, document)

    assert pane(document, "experts").isVisible()
