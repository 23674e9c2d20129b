"""The load timeline with real events."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import storage_files
from builders import empty_trace
from ggscope.analysis.load.load import ALL_FILES
from ggscope.model.selection import MarkedRange
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.render.load import heat_geometry
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views import load as module
from ggscope.views.load import LoadView
from load_traces import paired
from panes import LEFT, NONE, settle_view


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    yield session
    session.close()


def shown(qtbot: QtBot, session: Session, trace: Trace) -> LoadView:
    session.set_trace(trace)
    view = LoadView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1300, 600)
    view.show()
    qtbot.waitExposed(view)
    settle_view(qtbot, view)
    return view


def requests(tmp_path: Path, n: int = 80) -> Trace:
    path = tmp_path / "x.txt"
    path.write_bytes(storage_files.blkparse(storage_files.random_io(1, n)))
    return open_trace(path)


def place(view: LoadView, read: int) -> QPoint:
    """Return where a read of a device lies in the picture."""
    scene = view.scene_now()
    assert scene is not None
    geometry, rows = heat_geometry(scene), scene.load.rows
    where = rows.place[read] + rows.size[read] // 2
    return QPoint(
        round(float(geometry.px(rows.end[read]))), round(float(geometry.py(where)))
    )


def test_a_click_selects_the_span_of_the_read_below(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    view = shown(qtbot, session, requests(tmp_path))
    assert view.load is not None
    places = [place(view, i) for i in range(len(view.load.rows))]
    # The read that lies furthest from every other one.
    away = [
        min((at - other).manhattanLength() for k, other in enumerate(places) if k != i)
        for i, at in enumerate(places)
    ]
    read = away.index(max(away))

    QTest.mouseClick(view.canvas, LEFT, NONE, place(view, read))

    span = int(view.load.rows.span[read])
    assert session.selection.current.table == "spans"
    assert session.selection.current.ids == (span,)


def test_arrows_step_through_reads_and_enter_shows_one(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    view = shown(qtbot, session, requests(tmp_path))
    assert view.load is not None
    spans = view.load.rows.span.tolist()
    revealed: list[int] = []
    session.selection.reveal_requested.connect(revealed.append)
    view.setFocus()

    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Left):
        QTest.keyClick(view, key)

    assert session.selection.current.ids == (spans[0],)
    QTest.keyClick(view, Qt.Key.Key_End)
    assert session.selection.current.ids == (spans[-1],)
    QTest.keyClick(view, Qt.Key.Key_Return)
    assert revealed == [spans[-1]]


def test_the_answer_is_that_of_what_is_chosen(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "s.txt"
    path.write_bytes(storage_files.strace(storage_files.random_reads(1, 60)))
    view = shown(qtbot, session, open_trace(path))
    assert view.load is not None
    names = [view.file_box.itemText(i) for i in range(view.file_box.count())]
    assert names[0] == "all files"
    assert set(names[1:]) == {"tiny.gguf", "other, and more.gguf"}
    of_one, text = view.load.facts.n, view.text_label.text()

    view.file_box.setCurrentIndex(view.file_box.findData(ALL_FILES))
    settle_view(qtbot, view)

    assert view.load.facts.n == 60 > of_one
    assert view.text_label.text() != text


def test_a_marked_range_limits_the_reads(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    view = shown(qtbot, session, requests(tmp_path))
    assert view.load is not None
    assert session.trace is not None
    whole, middle = view.load.facts.n, session.trace.extent.end // 2
    session.ranges.set_marked(MarkedRange(TimeRange(0, middle)))

    view.range_box.setChecked(True)
    settle_view(qtbot, view)

    assert 0 < view.load.facts.n < whole
    scene = view.scene_now()
    assert scene is not None
    assert scene.time == TimeRange(0, middle)


def test_rows_of_tensors_come_before_reads_of_none_and_light_them(
    qtbot: QtBot, session: Session
) -> None:
    trace, _ = paired(1)
    assert trace.storage is not None
    n = len(trace.storage.requests)
    ids = trace.storage.requests.span.copy()
    ids[:] = range(n)
    requests = replace(trace.storage.requests, span=ids % len(trace.spans))
    trace = replace(trace, storage=replace(trace.storage, requests=requests))
    view = shown(qtbot, session, trace)
    assert view.load is not None
    tensors = view.load.by_tensor()
    assert view.model.rowCount() == len(tensors)

    view.table.selectRow(0)

    group = session.selection.current.group
    assert group is not None
    assert len(group.ids) == tensors[0].n


def test_many_reads_are_counted_by_a_worker_and_drawn_alike(
    qtbot: QtBot, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = requests(tmp_path)
    few = shown(qtbot, session, trace)
    few_scene = few.scene_now()
    monkeypatch.setattr(module, "_FEW_READS", 3)

    view = shown(qtbot, session, trace)
    qtbot.waitUntil(lambda: view.scene_now() is not None)
    settle_view(qtbot, view)

    scene = view.scene_now()
    assert scene is not None
    assert few_scene is not None
    assert (scene.cells.grid == few_scene.cells.grid).all()


def test_a_trace_without_reads_says_what_would_fill_the_pane(
    qtbot: QtBot, session: Session
) -> None:
    view = shown(qtbot, session, empty_trace())

    assert view.load is None
    title, hint = view.empty_text(empty_trace())
    assert title
    assert "blkparse" in hint
