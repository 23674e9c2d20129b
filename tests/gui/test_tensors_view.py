"""A model file alone in the window, and the pane that lists its tensors."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

import gguf_files
from builders import empty_trace, llama_like_trace
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.render.model_map import tensor_at
from ggscope.render.theme import theme
from ggscope.session.session import TraceChange
from ggscope.views.base.view import View
from ggscope.views.tensors import NAME, OFFSET, TensorsView
from gguf_files import TENSORS, read_gguf
from messages import said, toast
from panes import click, experiment, settle, texts_of_widgets

Opened = Callable[[Path], Document]
Shown = Callable[[str, Trace | None], View]
LEFT = Qt.MouseButton.LeftButton
BY_NAME = {tensor.name: tensor for tensor in TENSORS}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_files.encode())
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Return a model and a trace of it, in a folder of their own."""
    samples, folder = experiment(), tmp_path / "pair"
    folder.mkdir()
    shutil.copy(samples / "model.gguf", folder)
    shutil.copy(samples / "trace-1024.bin", folder / "run.bin")
    return folder / "model.gguf", folder / "run.bin"


@pytest.fixture
def document(opened: Opened, model: Path, qtbot: QtBot) -> Document:
    made = opened(model)
    settle(qtbot, made)
    return made


@pytest.fixture
def view(document: Document) -> TensorsView:
    [host] = document.workspace.cells
    assert isinstance(host.view, TensorsView)
    return host.view


def names(view: TensorsView) -> list[str]:
    return [row_text(view, row, NAME) for row in range(view.model.rowCount())]


def row_text(view: TensorsView, row: int, column: int) -> str:
    return str(view.model.index(row, column).data())


def selected(view: TensorsView) -> list[str]:
    rows = view.table.selectionModel().selectedRows(NAME)
    return [str(index.data()) for index in rows]


def number(document: Document, name: str) -> int:
    trace = document.session.trace
    assert trace is not None
    known = [trace.strings[i] for i in trace.tensors.name.tolist()]
    return known.index(name)


def place_of(view: TensorsView, tensor: int) -> QPoint:
    """Return where the map shows a tensor: the middle of what it takes there."""
    scene = view.scene_now()
    assert scene is not None
    canvas = view.canvas
    for y in range(canvas.height()):
        xs = [x for x in range(canvas.width()) if tensor_at(scene, x, y) == tensor]
        if xs:
            return QPoint(xs[len(xs) // 2], y + 5)
    pytest.fail("the map does not show the tensor")


def test_model_alone_opens_with_its_tensors_and_nothing_that_has_times(
    document: Document, view: TensorsView
) -> None:
    workspace = document.workspace

    assert [cell.entry.id for cell in workspace.cells] == ["tensors"]
    assert not workspace.overview.isVisible()
    assert names(view) == [tensor.name for tensor in TENSORS]
    titles = [heading.title for heading in view.model.headings]
    rows = [
        {title: row_text(view, row, i) for i, title in enumerate(titles)}
        for row in range(view.model.rowCount())
    ]
    experts = rows[3]
    assert experts["tensor"] == "blk.0.ffn_up_exps.weight"
    assert (experts["part"], experts["layer"]) == ("experts", "0")
    assert (experts["type"], experts["shape"]) == ("f16", "64 × 32 × 4")
    assert experts["size"] == "16.0 KiB"
    trace = document.session.trace
    assert trace is not None
    offset = int(trace.tensors.offset[number(document, "blk.0.ffn_up_exps.weight")])
    assert int(experts["offset"].replace("_", ""), 16) == offset


def test_head_says_name_architecture_and_what_the_tensors_take(
    view: TensorsView,
) -> None:
    text = view.summary.full_text

    assert {"Tiny", "llama", "2 layers"} <= set(text.split(" · "))
    assert text.endswith("6 tensors, 32.0 KiB")


def test_status_counts_tensors(document: Document) -> None:
    text = document.status.file.full_text

    assert text.startswith("tiny.gguf · ")
    assert text.endswith(" · 6 tensors")


def test_trace_that_has_nothing_keeps_its_timeline(
    opened: Opened, model: Path, document: Document, qtbot: QtBot
) -> None:
    document.session.set_trace(empty_trace())
    settle(qtbot, document)

    assert [cell.entry.id for cell in document.workspace.cells] == ["timeline"]


def test_metadata_stand_behind_a_switch(view: TensorsView) -> None:
    assert view.table.isVisible()

    QTest.mouseClick(view.switch, LEFT)

    model = view.metadata_model
    known = {model.index(r, 0).data(): model.index(r, 1).data()
             for r in range(model.rowCount())}  # fmt: skip
    assert view.metadata.isVisible()
    assert known["general.name"] == "Tiny"
    assert known["general.architecture"] == "llama"


def test_find_line_lists_what_matches(view: TensorsView) -> None:
    QTest.keyClicks(view.find_line, "attn")
    assert names(view) == [name for name in BY_NAME if "attn" in name]
    assert view.count.full_text == "3 of 6"

    view.find_line.clear()
    QTest.keyClicks(view.find_line, "/^blk.1/")
    assert names(view) == ["blk.1.attn_norm.weight"]

    view.find_line.clear()
    QTest.keyClicks(view.find_line, "/(/")
    assert names(view) == []


def test_search_of_the_window_finds_tensors(
    document: Document, view: TensorsView, window: MainWindow
) -> None:
    edit = document.toolbar.search.edit
    QTest.keyClicks(edit, "exps")
    QTest.keyClick(edit, Qt.Key.Key_Return)

    assert names(view) == ["blk.0.ffn_up_exps.weight"]


def test_row_and_map_select_the_same_tensor(
    document: Document, view: TensorsView
) -> None:
    tensor = number(document, "blk.0.attn_q.weight")
    index = view.model.index(names(view).index("blk.0.attn_q.weight"), NAME)
    viewport = view.table.viewport()
    QTest.mouseClick(viewport, LEFT, pos=view.table.visualRect(index).center())

    assert document.session.selection.current == Selection("tensors", (tensor,))

    output = number(document, "output.weight")
    click(view, place_of(view, output))

    assert document.session.selection.current == Selection("tensors", (output,))
    assert selected(view) == ["output.weight"]
    assert "output.weight" in texts_of_widgets(document.workspace.details)


def test_tooltip_of_the_map_names_the_tensor(
    document: Document, view: TensorsView
) -> None:
    tensor = number(document, "blk.0.ffn_up_exps.weight")
    at = place_of(view, tensor)

    lines = view.tooltip_at(at.x(), at.y()).splitlines()

    assert lines[0] == "blk.0.ffn_up_exps.weight"
    assert any("64 × 32 × 4" in line for line in lines)
    assert any("16,384" in line for line in lines)


def test_go_to_reaches_a_tensor_of_a_model_alone(
    document: Document, view: TensorsView, window: MainWindow, qtbot: QtBot
) -> None:
    QTest.keyClick(window, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    palette = window.palette_
    qtbot.waitUntil(palette.isVisible)
    QTest.keyClicks(palette.edit, "blk.1.attn_norm")
    qtbot.waitUntil(lambda: "blk.1.attn_norm" in str(palette.model.entry(0).text))
    QTest.keyClick(palette.edit, Qt.Key.Key_Return)

    wanted = number(document, "blk.1.attn_norm.weight")
    assert document.session.selection.current == Selection("tensors", (wanted,))
    assert selected(view) == ["blk.1.attn_norm.weight"]


def test_menu_copies_the_name(view: TensorsView) -> None:
    menu = QMenu(view)
    view._on_menu(menu, names(view).index("output.weight"))

    next(entry for entry in menu.actions() if entry.text() == "Copy name").trigger()

    assert QGuiApplication.clipboard().text() == "output.weight"


def test_rows_for_a_file_have_plain_numbers(
    document: Document, view: TensorsView
) -> None:
    file = view.table_file()
    assert file is not None
    trace = document.session.trace
    assert trace is not None
    row = number(document, "output.weight")

    lines = [line.split("\t") for line in file.text("tsv", None).splitlines()]
    [line] = [line for line in lines if line[NAME] == "output.weight"]
    assert int(trace.tensors.offset[row]) == int(line[OFFSET])
    assert int(trace.tensors.size[row]) == int(line[OFFSET - 1])


def test_trace_beside_a_model_is_offered_and_added(
    opened: Opened, pair: tuple[Path, Path], qtbot: QtBot
) -> None:
    model, run = pair
    document = opened(model)
    qtbot.waitUntil(lambda: run.name in said(document))
    changes: list[TraceChange] = []
    document.session.trace_changed.connect(changes.append)

    QTest.mouseClick(toast(document).buttons[0], LEFT)
    qtbot.waitUntil(lambda: bool(changes))
    settle(qtbot, document)

    trace = document.session.trace
    assert trace is not None
    assert len(trace.spans) > 0
    assert [model.name for model in trace.models] == ["model.gguf"]
    assert "timeline" in [cell.entry.id for cell in document.workspace.cells]
    assert document.workspace.overview.isVisible()
    assert document.title == "run.bin +1"
    text = document.status.file.full_text
    assert text.startswith("run.bin · ")
    assert "records" in text


def test_trace_added_to_a_model_is_taken_back(
    opened: Opened, pair: tuple[Path, Path], qtbot: QtBot
) -> None:
    model, run = pair
    document = opened(model)
    document.parts.add([run])
    qtbot.waitUntil(lambda: "Added run.bin" in said(document))

    QTest.mouseClick(toast(document).buttons[0], LEFT)
    qtbot.waitUntil(lambda: document.title == "model.gguf")
    settle(qtbot, document)

    assert [cell.entry.id for cell in document.workspace.cells] == ["tensors"]
    assert not document.workspace.overview.isVisible()


def test_trace_lists_the_tensors_that_it_names(shown: Shown) -> None:
    trace = llama_like_trace(tokens=1, layers=2)
    view = shown("tensors", trace)
    assert isinstance(view, TensorsView)

    assert set(names(view)) == {trace.strings[i] for i in trace.tensors.name.tolist()}
    assert not view.canvas.isVisible()
    assert not view.switch.isEnabled()


def test_heatmap_of_a_model_alone_draws_no_axis_of_time(
    shown: Shown, tmp_path: Path
) -> None:
    view = shown("heatmap", read_gguf(tmp_path, gguf_files.encode()))

    assert view.scene_now() is None
    assert all(view.empty_words())


def test_many_tensors_list_the_largest_and_say_so(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ggscope.views.tensors.MAX_ROWS", 4)
    view = shown("tensors", read_gguf(tmp_path, gguf_files.encode()))
    assert isinstance(view, TensorsView)

    sizes = sorted((tensor.size for tensor in TENSORS), reverse=True)[:4]
    listed = [name for name in names(view) if name in BY_NAME]
    assert sorted((BY_NAME[n].size for n in listed), reverse=True) == sizes
    assert view.count.full_text == "largest 4 of 6"
    file = view.table_file()
    assert file is not None
    assert (file.n, file.n_wanted) == (4, 6)


def test_map_gives_way_to_the_list_in_a_low_pane(
    view: TensorsView, qtbot: QtBot
) -> None:
    low = TensorsView(view.session, theme("dark"))
    qtbot.addWidget(low)
    low.resize(700, 400)
    low.show()
    qtbot.waitUntil(lambda: low.model.rowCount() == view.model.rowCount())
    assert low.canvas.isVisible()

    for height in range(400, 90, -10):
        low.resize(700, height)
        QTest.qWait(1)
        last = low.table.rowAt(low.table.viewport().height() - 1)
        assert last < 0 or last >= 1, height  # -1: rows end before the pane
        assert low.table.viewport().height() >= 2 * low.table.rowHeight(0), height
    assert not low.canvas.isVisible()

    low.resize(700, 400)

    assert low.canvas.isVisible()
    low.release()
