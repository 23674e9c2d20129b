"""All panes together: filters, layouts, sizes, themes, nothing to show, closing."""

import gc
import random
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt, QTimer
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QApplication,
    QComboBox,
    QMenu,
    QStyle,
    QStyleOptionComboBox,
)
from pytestqt.qtbot import QtBot

import builders
from buffer_traces import MIB, Life, buffers_trace
from expert_traces import random_choices, routed
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.gui.panes.workspace import Workspace
from ggscope.model.selection import Filter, Gap, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import Align, DisplayList, TextBatch
from ggscope.render.export import render_image
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.view import View
from ggscope.views.registry import BUILTIN, cell_views
from graph_traces import network_trace
from heat_traces import moe_trace
from panes import (
    LEFT,
    NONE,
    PANES,
    PICTURES,
    broken,
    buffer_place,
    experiment,
    expert_place,
    pane,
    row_named,
    settle,
    tensor_place,
)
from reading import workers

Opened = Callable[[Path], Document]
CHARTS = tuple(view_id for view_id in PICTURES if view_id != "timeline")
"""The timeline clips its labels, and shows the spans of any trace."""
STACK = "blk.1.ffn_up_exps.weight"


@pytest.fixture
def document(opened: Opened, window: MainWindow, qtbot: QtBot) -> Iterator[Document]:
    """Return the sample experiment in the grid, with everything computed."""
    window.resize(1600, 1000)
    made = opened(experiment())
    made.workspace.set_layout_name("grid")
    settle(qtbot, made)
    yield made
    assert broken(made) == []


def trace_of(document: Document) -> Trace:
    trace = document.session.trace
    assert trace is not None
    return trace


def show(document: Document, qtbot: QtBot, view_id: str) -> View:
    """Bring a view to where it can be seen, and wait for its picture."""
    document.workspace.show_view(view_id)
    settle(qtbot, document)
    return pane(document, view_id)


def choose_in_menu(view: PaintedView, at: QPoint, text: str) -> None:
    """Open the context menu at a place and trigger the entry with these words."""
    done: list[str] = []

    def choose() -> None:
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        entry = next(a for a in menu.actions() if text in a.text())
        done.append(entry.text())
        entry.trigger()
        menu.close()

    canvas = view.canvas
    event = QContextMenuEvent(
        QContextMenuEvent.Reason.Mouse, at, canvas.mapToGlobal(at)
    )
    QTimer.singleShot(0, choose)
    QApplication.sendEvent(canvas, event)
    QTest.qWait(1)
    assert done, f"no entry {text!r}"


def chips(document: Document) -> list[str]:
    return [chip.part for chip in document.toolbar.chips.chips]


def n_shown(document: Document) -> int:
    mask = document.session.queries.mask
    return len(trace_of(document).spans) if mask is None else int(np.sum(mask))


# -- filters from the panes ----------------------------------------------------


def test_bytes_marked_in_the_file_map_become_a_filter(
    document: Document, qtbot: QtBot
) -> None:
    heatmap = pane(document, "heatmap")
    whole = n_shown(document)
    at = tensor_place(heatmap, row_named(trace_of(document), STACK))
    QTest.mousePress(heatmap.canvas, LEFT, NONE, at)
    QTest.mouseMove(heatmap.canvas, at + QPoint(20, 0))
    QTest.mouseMove(heatmap.canvas, at + QPoint(40, 0))
    QTest.mouseRelease(heatmap.canvas, LEFT, NONE, at + QPoint(40, 0))

    QTest.keyClick(heatmap, Qt.Key.Key_Return)
    settle(qtbot, document)

    assert "offsets" in chips(document)
    assert 0 < n_shown(document) < whole


def test_tensor_of_the_file_map_becomes_a_filter(
    document: Document, qtbot: QtBot
) -> None:
    trace = trace_of(document)
    heatmap = pane(document, "heatmap")

    at = tensor_place(heatmap, row_named(trace, STACK))
    choose_in_menu(heatmap, at, "Show only this tensor")
    settle(qtbot, document)

    assert document.session.queries.filter == Filter(tensors=frozenset({STACK}))
    assert chips(document) == ["tensors"]
    assert 0 < n_shown(document) < len(trace.spans)


def test_expert_becomes_a_filter(document: Document, qtbot: QtBot) -> None:
    trace = trace_of(document)
    experts = show(document, qtbot, "experts")
    expert = int(trace.routing.expert[trace.routing.layer == 1][0])

    choose_in_menu(experts, expert_place(experts, 1, expert), "Show only this expert")
    settle(qtbot, document)

    assert set(chips(document)) == {"experts", "layers"}
    mask = document.session.queries.mask
    layers = trace.spans.layer[np.flatnonzero(mask)]
    assert len(layers)
    assert set(layers.tolist()) == {1}


def test_buffer_becomes_a_filter(document: Document, qtbot: QtBot) -> None:
    trace = trace_of(document)
    document.workspace.choose_view(document.workspace.cells[1], "buffers")
    settle(qtbot, document)
    buffers = pane(document, "buffers")
    row = int(np.argmax(trace.buffers.size))

    choose_in_menu(buffers, buffer_place(buffers, row), "Show only this buffer")
    settle(qtbot, document)

    address = int(trace.buffers.address[row])
    assert document.session.queries.filter == Filter(buffers=frozenset({address}))
    assert chips(document) == ["buffers"]


def test_hot_tensor_becomes_a_filter(document: Document, qtbot: QtBot) -> None:
    hot = show(document, qtbot, "hot_cold")

    choose_in_menu(hot, QPoint(hot.canvas.width() // 2, 12), "Show only this tensor")
    settle(qtbot, document)

    assert chips(document) == ["tensors"]
    assert 0 < n_shown(document) < len(trace_of(document).spans)


# -- layouts while something is computed ---------------------------------------


def test_panes_come_and_go_while_they_compute(document: Document, qtbot: QtBot) -> None:
    dice, workspace = random.Random(7), document.workspace
    for _ in range(60):
        act = dice.randrange(7)
        if act == 0 and workspace.cells:
            workspace.choose_view(dice.choice(workspace.cells), dice.choice(PANES))
        elif act == 1:
            workspace.swap_cells(
                dice.choice(workspace.cells), dice.choice(workspace.cells)
            )
        elif act == 2:
            workspace.toggle_float(dice.choice(PANES))
        elif act == 3:
            workspace.show_view(dice.choice(PANES))
        elif act == 4:
            workspace.set_layout_name(dice.choice(("dual", "grid", "single")))
        elif act == 5:
            n = len(trace_of(document).tensors)
            document.session.selection.select_tensor(dice.randrange(n))
        else:
            layers = frozenset({dice.randrange(4)})
            document.session.queries.set_filter(Filter(layers=layers))
        QApplication.processEvents()
        assert broken(document) == []

    workspace.reset_layout()
    settle(qtbot, document)


def test_closing_the_tab_while_every_pane_computes_leaves_nothing(
    window: MainWindow, opened: Opened, qtbot: QtBot
) -> None:
    document = opened(experiment())
    document.workspace.set_layout_name("grid")
    for host in document.workspace.hosts():
        host.ensure_view()
    views = list(document.workspace.views())
    trace = trace_of(document)
    for view in views:
        if isinstance(view, PaintedView):
            view.refresh()
    assert not document.session.tasks.is_idle
    seen = [weakref.ref(x) for x in (document, document.session, *views)]
    column = weakref.ref(trace.spans.start)

    window.close_document(document)
    del document, views, view, trace, host
    qtbot.waitUntil(lambda: not workers(), timeout=20_000)
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    QApplication.processEvents()
    gc.collect()
    gc.collect()

    left = [type(ref()).__name__ for ref in seen if ref() is not None]
    assert left == []
    assert column() is None


# -- how it looks ----------------------------------------------------------------


def outside(picture: DisplayList) -> list[str]:
    """Return texts that reach beyond the picture, or stand on its edge."""
    outside = []
    for batch in picture.batches:
        if not isinstance(batch, TextBatch):
            continue
        for text in batch.texts:
            if text.clip is not None or not text.text:
                continue
            wide = len(text.text) * text.size * 0.45
            wide = min(wide, text.width) if text.width > 0 else wide
            left = {Align.LEFT: 0.0, Align.CENTER: wide / 2, Align.RIGHT: wide}
            x0 = text.x - left[text.align]
            inside = x0 > -2 and x0 + wide < picture.width + 2
            high = text.size * 0.4
            inside &= text.y - high > -1 and text.y + high < picture.height + 1
            if not inside:
                outside.append(f"{text.text!r} at {text.x:.0f}, {text.y:.0f}")
    return outside


@pytest.mark.parametrize("size", [(1900, 900), (900, 300), (540, 250), (900, 100)])
@pytest.mark.parametrize("view_id", CHARTS)
def test_texts_stay_inside_the_picture(
    document: Document, qtbot: QtBot, view_id: str, size: tuple[int, int]
) -> None:
    view = show(document, qtbot, view_id)
    assert isinstance(view, PaintedView)

    picture = view.picture(*map(float, size), 1.0)

    assert picture.batches
    assert outside(picture) == []


@pytest.mark.parametrize("view_id", CHARTS)
def test_picture_of_any_size_can_be_drawn(
    document: Document, qtbot: QtBot, view_id: str
) -> None:
    view = show(document, qtbot, view_id)
    assert isinstance(view, PaintedView)

    for wide, high in ((1, 1), (30, 8), (240, 20), (20, 700), (3000, 60)):
        image = render_image(view.picture(float(wide), float(high), 1.0))
        assert (image.width(), image.height()) == (wide, high)


@pytest.mark.parametrize("scale", [75, 200])
def test_every_pane_stands_any_size_of_font_and_window(
    document: Document, window: MainWindow, settings: Settings, qtbot: QtBot, scale: int
) -> None:
    workspace = document.workspace
    settings.change("appearance", font_scale=scale)
    for wide, high in ((1280, 720), (640, 480)):
        window.resize(wide, high)
        for view_id in PANES:
            workspace.show_view(view_id)
            settle(qtbot, document)
            assert not window.grab().isNull()
            assert broken(document) == []


def test_painted_panes_are_as_large_as_the_font_scale_wherever_they_stand(
    document: Document, settings: Settings, qtbot: QtBot
) -> None:
    settings.change("appearance", font_scale=150)

    for view_id in PANES:
        document.workspace.show_view(view_id)
        settle(qtbot, document)
        for view in document.workspace.views(view_id):
            if isinstance(view, PaintedView):
                assert view.font_zoom == 1.5, view_id


@pytest.mark.parametrize("theme_name", ["light", "dark"])
def test_change_of_theme_reaches_every_pane(
    document: Document,
    window: MainWindow,
    settings: Settings,
    qtbot: QtBot,
    theme_name: str,
) -> None:
    for host in document.workspace.hosts():
        host.ensure_view()

    settings.change("appearance", theme=theme_name)

    expected = theme(theme_name)
    for view in document.workspace.views():
        assert getattr(view, "theme", getattr(view, "_theme", expected)) == expected
    settle(qtbot, document)


def test_head_of_a_narrow_pane_keeps_its_buttons_in_sight(
    document: Document, window: MainWindow, qtbot: QtBot
) -> None:
    window.resize(900, 700)
    for view_id in PANES:
        document.workspace.choose_view(document.workspace.cells[0], view_id)
        settle(qtbot, document)
        host = document.workspace.cells[0]
        for button in (host.chooser, host.full_screen_button):
            place = button.mapTo(host, button.rect().bottomRight())
            assert host.rect().contains(place), f"{view_id}: {button.objectName()}"


def shown_width(box: QComboBox) -> int:
    """Return how much room the words of a choice have, device-independent pixels."""
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    style, part = box.style(), QStyle.SubControl.SC_ComboBoxEditField
    return style.subControlRect(
        QStyle.ComplexControl.CC_ComboBox, option, part, box
    ).width()


# -- nothing to show ---------------------------------------------------------------

TRACES: dict[str, Callable[[], Trace]] = {
    "empty": lambda: builders.finished(builders.TraceBuilder()),
    "spans alone": lambda: builders.spans_trace(
        np.arange(9) * 100, np.arange(9) * 100 + 90, op=np.ones(9, np.int8)
    ),
    "model": lambda: moe_trace(tokens=2, layers=2),
    "experts": lambda: routed(random_choices(1, 4, 3, 8, 2)),
    "buffers": lambda: buffers_trace([Life(MIB)], accessed=[[0], []]),
    "graph": lambda: network_trace(2, 1),
}


@pytest.fixture
def pane_of(
    qtbot: QtBot, settings: Settings
) -> Iterator[Callable[[str, Trace | None], View]]:
    """Return a function that shows a trace in one large pane."""
    made: list[tuple[Workspace, Session]] = []

    def show(view_id: str, trace: Trace | None) -> View:
        session = Session()
        if trace is not None:
            session.set_trace(trace)
        settings.change("layout", name="single", shows_details=False)
        workspace = Workspace(session, settings, theme("dark"))
        made.append((workspace, session))
        qtbot.addWidget(workspace)
        workspace.resize(1000, 700)
        workspace.show()
        qtbot.waitExposed(workspace)
        workspace.filler.finish()
        workspace.choose_view(workspace.cells[0], view_id)
        for _ in range(3):
            QTest.qWait(1)
            qtbot.waitUntil(lambda: session.tasks.is_idle)
        host = workspace.cells[0]
        assert host.error_panel is None, host.error_panel.report
        assert host.view is not None
        return host.view

    yield show
    for workspace, session in made:
        workspace.release()
        session.close()


@pytest.mark.parametrize("kind", TRACES)
@pytest.mark.parametrize("known", cell_views(), ids=lambda known: known.id)
def test_pane_stands_every_kind_of_trace(pane_of, known, kind: str) -> None:
    view = pane_of(known.id, TRACES[kind]())

    assert not view.grab().isNull()


@pytest.mark.parametrize("kind", ["model", "experts", "buffers", "graph"])
def test_choices_show_their_words_whole(pane_of, kind: str) -> None:
    n_checked = 0
    for view_id in PANES:
        view = pane_of(view_id, TRACES[kind]())
        parts = [part for part in (view.head_widget(), view) if part is not None]
        for box in {box for part in parts for box in part.findChildren(QComboBox)}:
            for i in range(min(box.count(), 12)):
                box.setCurrentIndex(i)
                QTest.qWait(1)
                needed = box.fontMetrics().horizontalAdvance(box.currentText())
                text = f"{view_id}: {box.currentText()}"
                assert not box.isVisible() or shown_width(box) >= needed, text
                n_checked += box.isVisible()
    assert n_checked > 20


@pytest.mark.parametrize("view_id", CHARTS)
def test_pane_without_anything_says_what_is_missing(pane_of, view_id: str) -> None:
    view = pane_of(view_id, TRACES["spans alone"]())

    head, sentence = view.placeholder_text()

    assert head
    assert len(sentence.split()) > 4, "says what to open"
    texts = [
        text.text
        for batch in view.picture(900.0, 400.0, 1.0).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
    ]
    assert head in texts


def test_pane_without_a_trace_draws_nothing_and_does_not_fail(qtbot: QtBot) -> None:
    views = [known.load()(Session(), theme("dark")) for known in BUILTIN]
    for view in views:
        qtbot.addWidget(view)
        view.resize(500, 200)
        view.show()
        assert not view.grab().isNull()
        view.close()  # nothing else refers to it: it may be collected at any time


def test_selection_that_is_no_longer_there_harms_no_pane(
    document: Document, qtbot: QtBot
) -> None:
    for host in document.workspace.hosts():
        host.ensure_view()
    for table, n in (("tensors", 10**6), ("nodes", 10**6), ("experts", 10**12)):
        document.session.selection.select(Selection(table, (n,)))
        settle(qtbot, document)
    gap = Gap(TimeRange(5, 9), 10**6, 10**6 + 1)
    for gone in (Selection("waits", (10**6,)), Selection("gaps", (10**6,), gap=gap)):
        document.session.selection.select(gone)
        settle(qtbot, document)

    assert broken(document) == []
