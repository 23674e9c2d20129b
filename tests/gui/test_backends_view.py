"""The pane of backends with real events: its three tables, and what a row selects."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QLabel
from pytestqt.qtbot import QtBot

import op_files
from ggscope.gui.document import Document
from ggscope.model.selection import Selection
from ggscope.readers.registry import open_trace
from ggscope.views.base.text_table import TextTable
from op_files import Node, Split
from panes import pane, settle, texts_of_widgets
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
LEFT = Qt.MouseButton.LeftButton
Opened = Callable[[Path], Document]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    weight = ("blk.0.ffn_up.weight", 3 << 20, "CUDA0")
    copied = ("CPU#ffn_up-0#0", 4096, "NULL")
    graph = [
        Split(0, "CUDA0", [], [
            Node(0, "MUL_MAT", "ffn_up-0", 4096, "CUDA0", [weight])]),
        Split(1, "CPU", [("ffn_up-0", 4096)], [
            Node(1, "ROPE", "odd-0", 4096, "CPU", [copied])]),
    ]  # fmt: skip
    path = tmp_path / "sched.txt"
    path.write_bytes(op_files.scheduler([graph] * 2))
    return path


def table_of(document: Document) -> TextTable:
    return pane(document, "backends").findChild(TextTable)


def column(table: TextTable, title: str) -> list[str]:
    titles = [heading.title for heading in table.rows.headings]
    at = titles.index(title)
    return [table.rows.row(i)[at].text for i in range(table.rows.rowCount())]


def choose_part(qtbot: QtBot, document: Document, downs: int) -> None:
    """Choose a table by keyboard."""
    box = pane(document, "backends").findChild(QComboBox, "table_part")
    box.setFocus()
    for _ in range(downs):
        qtbot.keyClick(box, Qt.Key.Key_Down)
    settle(qtbot, document)


def test_a_list_alone_fills_the_window(
    opened: Opened, listed: Path, qtbot: QtBot
) -> None:
    document = opened(listed)
    settle(qtbot, document)
    table = table_of(document)
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)

    assert pane(document, "backends").isVisible()
    assert column(table, "backend") == ["CPU", "CUDA0"]
    assert column(table, "op") == ["ROPE", "MUL_MAT"]
    titles = [heading.title for heading in table.rows.headings]
    assert "total" not in titles
    about = pane(document, "backends").findChild(QLabel, "table_about")
    assert "2 graphs" in about.text()


def test_tables_of_splits_and_of_the_cpu_are_chosen_by_keyboard(
    opened: Opened, listed: Path, qtbot: QtBot
) -> None:
    document = opened(listed)
    settle(qtbot, document)
    table = table_of(document)

    choose_part(qtbot, document, 1)
    qtbot.waitUntil(lambda: column(table, "times") == ["2", "2"])
    why = column(table, "why")
    assert why[1].startswith("no data there")
    assert column(table, "copied")[0] == "nothing"
    choose_part(qtbot, document, 1)
    qtbot.waitUntil(lambda: column(table, "tensors") == ["odd-0"])
    assert table.rows.row(0)[1].caution


def test_a_row_selects_the_spans_of_its_ops(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "hex.txt"
    path.write_bytes(op_files.hexagon(op_files.npu_ops(1)))
    document = opened(path)
    document.workspace.show_view("backends")
    settle(qtbot, document)
    table = table_of(document)
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)
    trace = document.session.trace
    assert trace is not None
    assert trace.backend_ops is not None
    ops = column(table, "op")

    at = table.visualRect(table.model().index(0, 1)).center()
    qtbot.mouseClick(table.viewport(), LEFT, pos=at)

    selected = document.session.selection.current
    assert isinstance(selected, Selection)
    assert selected.table == "spans"
    names = {trace.op_name(int(trace.spans.op[span])) for span in selected.ids}
    assert names == {ops[0]}
    document.session.viewport.zoom(0.01)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    visible = document.session.viewport.visible
    assert visible is not None
    spans = list(selected.ids)
    assert visible.start <= trace.spans.start[spans].min()
    assert visible.end >= trace.spans.end[spans].max()


def test_files_that_list_no_splits_say_so(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "vulkan.txt"
    path.write_bytes(op_files.vulkan(op_files.vulkan_lists(1)))
    document = opened(path)
    settle(qtbot, document)

    choose_part(qtbot, document, 1)

    view = pane(document, "backends")
    qtbot.waitUntil(lambda: "no splits" in " ".join(texts_of_widgets(view)))


def test_a_list_beside_a_recording_selects_its_spans_by_name(
    opened: Opened, tmp_path: Path, qtbot: QtBot
) -> None:
    recording = tmp_path / "run.bin"
    recording.write_bytes((SAMPLES / "tinyllama-256.bin").read_bytes())
    trace = open_trace(recording)
    spans = [i for i in range(40) if trace.op_name(int(trace.spans.op[i])) == "ROPE"]
    name = trace.strings[int(trace.spans.name[spans[0]])]
    nodes = [Node(0, "ROPE", name, 64, "CPU"), Node(1, "ADD", "nowhere", 64, "CPU")]
    (tmp_path / "sched.txt").write_bytes(
        op_files.scheduler([[Split(0, "CPU", [], nodes)]])
    )
    document = opened(tmp_path)
    document.workspace.show_view("backends")
    settle(qtbot, document)
    table = table_of(document)
    qtbot.waitUntil(lambda: table.rows.rowCount() == 2)
    row = column(table, "op").index("ROPE")

    at = table.visualRect(table.model().index(row, 1)).center()
    qtbot.mouseClick(table.viewport(), LEFT, pos=at)

    selected = document.session.selection.current
    assert isinstance(selected, Selection)
    shown = document.session.trace
    assert shown is not None
    assert selected.table == "spans"
    assert {shown.span_name(span) for span in selected.ids} == {
        trace.span_name(spans[0])
    }
    about = pane(document, "backends").findChild(QLabel, "table_about")
    assert "1 of 2 have spans of the same name" in about.text()
    assert "no span has this name" in table.rows.row(1 - row)[0].tip
