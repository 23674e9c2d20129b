"""Requests of a log and tests of llama-bench in their panes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

import bench_files
import gguf_files
import imatrix_files
import log_files
from ggscope.analysis.experts.figures import Beside
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.base.text_table import TextTable
from ggscope.views.base.tree_table import TreeTable
from ggscope.views.experts.view import ExpertsView
from ggscope.views.tensors.rows import IMPORTANCE, UNUSED
from ggscope.views.tensors.view import TensorsView
from gguf_files import T
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


def test_every_request_is_listed_and_sorted(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    requests = log_files.random_requests(3, 6_000)
    path = tmp_path / "server.log"
    path.write_bytes(log_files.log(requests))
    document = opened(path)
    settle(qtbot, document)
    table = table_of(document, "requests")
    qtbot.waitUntil(lambda: table.rows.rowCount() == len(requests))
    titles = [heading.title for heading in table.rows.headings]

    table.sortByColumn(titles.index("generated"), Qt.SortOrder.DescendingOrder)

    by_size = sorted(requests, key=lambda r: -r.n_generated)
    assert column(table, "task") == [str(r.task) for r in by_size]
    table.selectRow(5_999)
    assert document.session.trace is not None
    assert document.session.trace.log is not None
    rows = document.session.trace.log.requests
    row = rows.task.tolist().index(by_size[-1].task)
    chosen = document.session.selection.current.ids
    assert int(rows.generated_span[row]) in chosen


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
    view = pane(document, "experts")
    assert isinstance(view, ExpertsView)
    assert view.beside is Beside.COVER  # counts have no tokens that could overlap
    table = view.findChild(TextTable)
    assert column(table, "never") == ["1: 5"] * 3
    counts = [e.counts.sum() for e in imatrix_files.entries() if "up_exps" in e.name]
    assert column(table, "choices") == [f"{n:,}" for n in counts]
    assert "3 never chosen" in view.bar.about.full_text


def test_old_importance_matrix_shows_which_experts_were_never_used(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "imatrix.dat"
    path.write_bytes(imatrix_files.legacy(imatrix_files.entries()))

    document = opened(path)
    settle(qtbot, document)

    _, hint = pane(document, "experts").placeholder_text()  # type: ignore[attr-defined]
    assert "3 of 18 experts (layer 0: 5; layer 1: 5; layer 2: 5)" in hint
    for view_id in ("cache", "hot_cold"):
        document.workspace.show_view(view_id)
        settle(qtbot, document)
        text = " ".join(pane(document, view_id).placeholder_text())  # type: ignore[attr-defined]
        assert "importance matrix" in text


def test_map_of_a_model_is_coloured_by_its_importance_matrix(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    tensors = [
        T(f"blk.{layer}.{name}.weight", shape, "f32")
        for layer in range(3)
        for name, shape in (("attn_q", (64, 8)), ("ffn_up_exps", (64, 4, 6)))
    ]
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf_files.encode(tensors))
    matrix = tmp_path / "imatrix.dat"
    some = [e for e in imatrix_files.entries() if "attn_q" in e.name or "up" in e.name]
    matrix.write_bytes(imatrix_files.gguf(some))
    document = window.open_path(model, more=[matrix])
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)
    document.workspace.show_view("tensors")
    settle(qtbot, document)
    view = pane(document, "tensors")
    assert isinstance(view, TensorsView)
    box = view.findChild(QComboBox, "tensors_color") or view.color
    table = view.findChild(TreeTable)
    assert not table.isColumnHidden(IMPORTANCE)

    assert view.scene_now().values is None
    box.setCurrentIndex(box.findData("importance"))

    assert len(view.scene_now().values) == 3 * (1 + 6)
    assert view.compose(800, 74, 1.0) is not None
    unused = [
        row[UNUSED].text
        for row in (table.rows.row(i) for i in range(table.rows.rowCount()))
        if "ffn_up_exps" in row[0].text
    ]
    assert unused == ["1"] * 3


def test_memory_of_a_log_stands_by_device(
    opened: Opened, log: Path, qtbot: QtBot
) -> None:
    document = opened(log)
    document.workspace.show_view("memory")
    settle(qtbot, document)
    table = table_of(document, "memory")
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)

    assert column(table, "device") == ["GPU0 (a card)", "Host"]
    assert column(table, "unaccounted") == ["-100", ""]
    titles = [heading.title for heading in table.rows.headings]
    cell = table.rows.row(0)[titles.index("unaccounted")]
    assert cell.caution
    assert "exceed" in cell.tip
