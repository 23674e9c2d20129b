"""The pane of benchmarks with real events: chart, filter, two rows, two files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QItemSelectionModel, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

import bench_files
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.render.bench import CHANGES, REPETITIONS, places
from ggscope.views.bench import BenchView
from panes import LEFT, NONE, pane, settle

Opened = Callable[[Path], Document]
CONTROL = Qt.KeyboardModifier.ControlModifier


def write(path: Path, seed: int = 1, **more: object) -> Path:
    tests = []
    for depth in (0, 1024, 4096):
        for test in bench_files.rows(seed + depth, 4, **more):
            tests.append(test | {"n_depth": depth})
    path.write_bytes(bench_files.written(tests, "jsonl"))
    return path


@pytest.fixture
def view(opened: Opened, tmp_path: Path, qtbot: QtBot) -> BenchView:
    document = opened(write(tmp_path / "a.jsonl"))
    return settled(document, qtbot)


def settled(document: Document, qtbot: QtBot) -> BenchView:
    settle(qtbot, document)
    settled = pane(document, "bench")
    assert isinstance(settled, BenchView)
    qtbot.waitUntil(lambda: settled.bench is not None)
    return settled


def place(view: BenchView, which: tuple[int, int]) -> QPoint:
    x, y, points = places(view.scene_now())
    at = points.index(which)
    return QPoint(round(float(x[at])), round(float(y[at])))


def column(view: BenchView, title: str) -> list[str]:
    titles = [heading.title for heading in view.model.headings]
    at = titles.index(title)
    return [view.model.row(i)[at].text for i in range(view.model.rowCount())]


def comparison(view: BenchView) -> str:
    label = view.findChild(QLabel, "bench_comparison")
    assert label is not None
    return label.text() if label.isVisibleTo(view) else ""


def wait(view: BenchView, qtbot: QtBot) -> None:
    QTest.qWait(1)
    qtbot.waitUntil(lambda: view.session.tasks.is_idle, timeout=20_000)


def test_first_chart_is_over_the_key_that_varies(view: BenchView) -> None:
    assert view.bench is not None
    assert view.bench.chart == "n_depth"
    assert {len(curve.points) for curve in view.bench.curves} == {3}
    assert view.model.rowCount() == 12


def test_click_selects_the_row_and_a_second_one_compares(view: BenchView) -> None:
    assert view.bench is not None
    first, second = view.bench.curves[0].points[:2]

    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, (0, 0)))
    assert view.selected() == first.tests
    assert comparison(view) == ""
    QTest.mouseClick(view.canvas, LEFT, CONTROL, place(view, (0, 1)))

    assert set(view.selected()) == {*first.tests, *second.tests}
    assert "n_depth: 0 → 1024" in comparison(view)
    assert "95 % interval" in comparison(view)


def test_arrows_walk_along_a_line_and_to_the_next(view: BenchView) -> None:
    assert view.bench is not None
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_Right)
    QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.selected() == view.bench.curves[0].points[1].tests
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert view.selected() == view.bench.curves[1].points[1].tests
    for _ in range(9):
        QTest.keyClick(view, Qt.Key.Key_Right)
    assert view.selected() == view.bench.curves[1].points[2].tests
    assert "tokens/s" in view.accessibleDescription()


def test_filter_lists_and_draws_what_passes(view: BenchView, qtbot: QtBot) -> None:
    view.filter_line.setText("tg n_depth>=1024")
    wait(view, qtbot)

    assert all("tg" in text and "@ d" in text for text in column(view, "test"))
    assert view.model.rowCount() == 4
    assert view.bench is not None
    assert {len(curve.points) for curve in view.bench.curves} == {2}
    view.filter_line.setText("n_nothing>3")
    assert "n_nothing is no column" in view.controls.message.full_text
    assert view.model.rowCount() == 4
    view.filter_line.setText("nothing of this kind")
    wait(view, qtbot)
    assert view.scene_now() is None
    assert view.figure() is None


def test_headers_sort_and_selection_stays(view: BenchView) -> None:
    view.table.selectRow(3)
    chosen = view.selected()
    titles = [heading.title for heading in view.model.headings]
    down = Qt.SortOrder.DescendingOrder

    view.table.sortByColumn(titles.index("t/s"), down)

    speeds = [float(text.replace(",", "")) for text in column(view, "t/s")]
    assert speeds == sorted(speeds, reverse=True)
    assert view.selected() == chosen


def test_rows_of_repetitions_scroll_and_select(view: BenchView, qtbot: QtBot) -> None:
    box = view.chart_box
    box.setCurrentIndex(box.findData(REPETITIONS))
    wait(view, qtbot)
    view.setFocus()

    for _ in range(12):
        QTest.keyClick(view, Qt.Key.Key_Down)

    assert view.selected() == (11,)
    at = place(view, (11, 0))
    assert "repetitions" in view.tooltip_at(at.x(), at.y())
    menu = view.menu_at(at.x(), at.y())
    assert menu is not None
    menu.actions()[0].trigger()
    assert view.selected() == (11,)


def test_two_dropped_files_are_one_tab_that_compares_them(
    window: MainWindow, tmp_path: Path, qtbot: QtBot
) -> None:
    paths = [
        write(tmp_path / "a.jsonl"),
        write(tmp_path / "b.jsonl", 5, n_threads=8, build_number=7000),
    ]
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    copy = Qt.DropAction.CopyAction
    window.dropEvent(QDropEvent(QPointF(300, 300), copy, data, LEFT, NONE))
    qtbot.waitUntil(lambda: window.document is not None)
    document = window.document
    assert document is not None
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)
    view = settled(document, qtbot)
    qtbot.waitUntil(lambda: view.bench is not None and view.bench.chart == CHANGES)

    assert len(window.documents) == 1
    assert view.model.rowCount() == 12
    assert column(view, "A, t/s") != column(view, "B, t/s")
    assert "A a.jsonl · B b.jsonl" in comparison(view)
    assert "n_threads: 4 → 8" in comparison(view)
    box = view.chart_box
    box.setCurrentIndex(box.findData("n_depth"))
    wait(view, qtbot)
    assert set(column(view, "file")) == {"a.jsonl", "b.jsonl"}
    model, chosen = view.model, view.table.selectionModel()
    flags = QItemSelectionModel.SelectionFlag
    for row in (0, model.rowCount() - 1):
        chosen.select(model.index(row, 0), flags.Select | flags.Rows)
    assert "file: a.jsonl → b.jsonl" in comparison(view)


def test_file_of_repeated_tests_pools_them(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(bench_files.written(bench_files.rows(1, 4) * 2, "jsonl"))
    view = settled(opened(path), qtbot)
    box = view.chart_box
    box.setCurrentIndex(max(box.findData("n_prompt"), 0))
    wait(view, qtbot)

    assert view.bench is not None
    points = [point for curve in view.bench.curves for point in curve.points]
    assert all(len(point.tests) == 2 for point in points)
    assert all(len(point.samples) == 6 for point in points)
    assert np.isfinite([point.mean for point in points]).all()


def test_tests_are_copied_as_llama_bench_prints_them(
    view: BenchView, qtbot: QtBot
) -> None:
    view.table.selectRow(0)
    view.table.setFocus()

    qtbot.keyClick(
        view.table, Qt.Key.Key_C, CONTROL | Qt.KeyboardModifier.ShiftModifier
    )

    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].startswith("| model                          |")
    assert lines[2].split("|")[-3].strip() == column(view, "test")[0]
    assert lines[-1] == "build: 12345678 (6865)"
    assert len(lines) == 5
