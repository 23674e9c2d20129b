"""A model file alone in the window, and the pane that lists its tensors."""

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

import gguf_files
from builders import empty_trace, llama_like_trace
from ggscope.analysis.model_tree import tensor_reads
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import Selection
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes
from ggscope.render.model_map import tensor_at
from ggscope.render.theme import theme
from ggscope.session.session import TraceChange
from ggscope.views.base.view import View
from ggscope.views.details.view import DetailsView
from ggscope.views.tensors.rows import (
    ACCESSES,
    BYTES,
    NAME,
    OFFSET,
    SHAPE,
    SIZE,
    TIME,
)
from ggscope.views.tensors.view import TensorsView
from gguf_files import TENSORS, read_gguf
from messages import newest_message, toast
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
    """Return the tensors that are listed, without the groups around them."""
    rows = range(view.model.rowCount())
    return [row_text(view, r, NAME) for r in rows if not view.model.is_group(r)]


def row_of(view: TensorsView, name: str) -> int:
    texts = [row_text(view, row, NAME) for row in range(view.model.rowCount())]
    return texts.index(name)


def group_by(view: TensorsView, by: str) -> None:
    view.by.setCurrentIndex(view.by.findData(by))


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
    group_by(view, "tensor")
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
    total = sum(tensor.size for tensor in TENSORS)
    assert text.split(" · ")[1].startswith("6 tensors, ")
    assert format_bytes(total) in text


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
    assert sorted(names(view)) == sorted(name for name in BY_NAME if "attn" in name)
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
    index = view.model.index(row_of(view, "blk.0.attn_q.weight"), NAME)
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

    expected = number(document, "blk.1.attn_norm.weight")
    assert document.session.selection.current == Selection("tensors", (expected,))
    assert selected(view) == ["blk.1.attn_norm.weight"]


def test_menu_copies_the_name(view: TensorsView) -> None:
    menu = QMenu(view)
    view.table.menu_requested.emit(menu, row_of(view, "output.weight"))

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
    qtbot.waitUntil(lambda: run.name in newest_message(document))
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
    qtbot.waitUntil(lambda: "Added run.bin" in newest_message(document))

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
    assert all(view.placeholder_text())


def test_many_tensors_list_the_largest_and_say_so(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ggscope.views.tensors.view.MAX_ROWS", 4)
    view = shown("tensors", read_gguf(tmp_path, gguf_files.encode()))
    assert isinstance(view, TensorsView)
    group_by(view, "tensor")

    sizes = sorted((tensor.size for tensor in TENSORS), reverse=True)[:4]
    listed = [name for name in names(view) if name in BY_NAME]
    assert sorted((BY_NAME[n].size for n in listed), reverse=True) == sizes
    assert view.count.full_text == "largest 4 of 6"
    file = view.table_file()
    assert file is not None
    assert (file.n, file.n_all) == (4, 6)


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


def test_groups_have_totals_and_open_and_close_by_keys(
    document: Document, view: TensorsView
) -> None:
    group_by(view, "layer")
    table = view.table
    layer = row_of(view, "layer 0")
    own = [t for t in TENSORS if t.name.startswith("blk.0.")]
    assert row_text(view, layer, SIZE) == format_bytes(sum(t.size for t in own))
    assert row_text(view, layer, SHAPE) == f"{len(own)} tensors"
    n = view.model.rowCount()
    table.setFocus()
    table.setCurrentIndex(view.model.index(layer, NAME))

    QTest.keyClick(table, Qt.Key.Key_Left)
    assert view.model.rowCount() == n - len(own)
    QTest.keyClick(table, Qt.Key.Key_Right)
    assert view.model.rowCount() == n
    QTest.keyClick(table, Qt.Key.Key_Right)
    assert table.currentIndex().row() == layer + 1
    QTest.keyClick(table, Qt.Key.Key_Left)
    assert table.currentIndex().row() == layer
    QTest.keyClick(table, Qt.Key.Key_Return)
    assert view.model.rowCount() == n - len(own)
    QTest.keyClick(table, Qt.Key.Key_Asterisk)
    assert view.model.rowCount() == n


def test_sign_of_a_group_opens_and_closes_it_by_mouse(view: TensorsView) -> None:
    layer, n = row_of(view, "layer 1"), view.model.rowCount()
    place = view.table.sign_rect(layer).center().toPoint()

    QTest.mouseClick(view.table.viewport(), LEFT, pos=place)
    closed = view.model.rowCount()
    QTest.mouseClick(view.table.viewport(), LEFT, pos=place)

    assert closed < n
    assert view.model.rowCount() == n


def test_group_selects_its_tensors_everywhere(
    document: Document, view: TensorsView
) -> None:
    index = view.model.index(row_of(view, "layer 0"), NAME)
    viewport = view.table.viewport()
    QTest.mouseClick(viewport, LEFT, pos=view.table.visualRect(index).center())

    own = {number(document, t.name) for t in TENSORS if t.name.startswith("blk.0.")}
    assert document.session.selection.current.table == "tensors"
    assert set(document.session.selection.current.ids) == own
    assert selected(view) == ["layer 0"]
    scene = view.scene_now()
    assert scene is not None
    assert scene.selected == frozenset(own)


def test_tensor_selected_elsewhere_opens_its_groups(
    document: Document, view: TensorsView
) -> None:
    group_by(view, "component")
    view.model.open_all(False)
    assert names(view) == []

    tensor = number(document, "blk.0.attn_q.weight")
    document.session.selection.select(Selection("tensors", (tensor,)))

    assert selected(view) == ["blk.0.attn_q.weight"]


def test_search_opens_groups_and_its_end_closes_them(view: TensorsView) -> None:
    view.model.open_all(False)
    closed = view.model.rowCount()

    QTest.keyClicks(view.find_line, "attn_q")
    assert names(view) == ["blk.0.attn_q.weight"]
    view.find_line.clear()

    assert (names(view), view.model.rowCount()) == ([], closed)


def test_search_finds_types_and_parts(view: TensorsView) -> None:
    view.find_line.setText("f16")
    is_half = {t.name for t in TENSORS if t.type == "f16"}
    assert set(names(view)) == is_half

    view.find_line.setText("experts")
    assert names(view) == ["blk.0.ffn_up_exps.weight"]


def test_sorting_keeps_tensors_in_their_groups(view: TensorsView) -> None:
    view.table.sortByColumn(SIZE, Qt.SortOrder.DescendingOrder)

    rows = range(view.model.rowCount())
    tops = [r for r in rows if view.model.is_group(r)]
    totals = [float(view.model.row(r)[SIZE].sort or 0) for r in tops]
    assert totals == sorted(totals, reverse=True)
    for top, following in zip(tops, [*tops[1:], view.model.rowCount()], strict=True):
        inside = [view.model.row(r)[SIZE].sort for r in range(top + 1, following)]
        assert inside == sorted(inside, reverse=True)
        assert sum(inside) == view.model.row(top)[SIZE].sort


def test_metadata_are_searched_while_they_are_shown(view: TensorsView) -> None:
    QTest.mouseClick(view.switch, LEFT)
    view.find_line.setText("rope")

    model = view.metadata_model
    keys = [model.index(row, 0).data() for row in range(model.rowCount())]
    assert keys
    assert all("rope" in key for key in keys)


def test_trace_adds_accesses_and_time(shown: Shown, model: Path, document: Document,
                                      view: TensorsView) -> None:  # fmt: skip
    alone = [view.table.isColumnHidden(c) for c in (ACCESSES, BYTES, TIME)]
    trace = llama_like_trace(tokens=2, layers=2)
    traced = shown("tensors", trace)
    assert isinstance(traced, TensorsView)
    group_by(traced, "tensor")
    reads = tensor_reads(trace)
    assert reads.accesses is not None
    assert reads.ticks is not None

    assert alone == [True, True, True]
    assert not traced.table.isColumnHidden(ACCESSES)
    for row in range(traced.model.rowCount()):
        tensor = traced.model.payload(row)
        assert isinstance(tensor, int)
        assert traced.model.row(row)[TIME].raw == int(reads.ticks[tensor])
        assert traced.model.row(row)[ACCESSES].raw == int(reads.accesses[tensor])


def test_details_show_what_the_model_is(document: Document, view: TensorsView) -> None:
    details = document.workspace.details
    assert isinstance(details.view, DetailsView)

    facts = {fact.label: fact for fact in details.view.facts.facts}
    elements = sum(math.prod(t.shape) for t in TENSORS)
    assert "About this model" in texts_of_widgets(details)
    assert facts["architecture"].value == "llama"
    assert facts["elements"].exact == f"{elements:,}"
    assert facts["tensors"].value == f"{len(TENSORS)} tensors"


def test_screen_reader_hears_whether_a_group_is_open(view: TensorsView) -> None:
    index = view.model.index(row_of(view, "layer 0"), NAME)
    role = Qt.ItemDataRole.AccessibleTextRole

    opened = view.model.data(index, role)
    view.model.set_open(index.row(), False)

    assert opened == "layer 0, expanded"
    assert view.model.data(index, role) == "layer 0, collapsed"


def test_selected_tensor_stays_selected_when_rows_are_sorted(view: TensorsView) -> None:
    group_by(view, "layer")
    view.table.selectRow(row_of(view, "blk.0.attn_q.weight"))

    for order in (Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder):
        view.table.sortByColumn(SIZE, order)
        assert selected(view) == ["blk.0.attn_q.weight"]


def test_titles_of_columns_are_whole(view: TensorsView) -> None:
    header = view.table.horizontalHeader()
    font = header.font()
    font.setBold(True)
    metrics = QFontMetrics(font)

    for section in range(header.count()):
        if not header.isSectionHidden(section):
            title = str(header.model().headerData(section, header.orientation()))
            needed = metrics.horizontalAdvance(title) + 16  # its padding
            assert header.sectionSize(section) >= needed, title
