"""The comparison of two tabs: rows, other tabs that come and go, files, progress."""

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QComboBox, QFileDialog
from pytestqt.qtbot import QtBot

from builders import empty_trace, llama_like_trace, npu_like_trace, slowed, spans_trace
from ggscope.analysis.compare.compare import Tolerance, compare
from ggscope.gui.dialogs.figure import FigureDialog
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.selection import BY, By
from ggscope.model.trace import Trace
from ggscope.render.theme import theme
from ggscope.session.loader import LoadRequest
from ggscope.session.open_traces import OpenTraces
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, Label
from ggscope.views.base.text_table import TextTable
from ggscope.views.compare.view import CompareView
from oracles.run_times import is_timed, union
from pages import Page
from panes import pane, settle
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"
A = llama_like_trace()
"""What the tab in front shows in all tests of the view alone."""
Opened = Callable[[Path], Document]


class Desk:
    """A view, and the tabs beside its own."""

    def __init__(self, qtbot: QtBot) -> None:
        self.qtbot = qtbot
        self.request: LoadRequest | None = None
        self.tabs = OpenTraces(lambda: self.request)
        self.sessions: dict[str, Session] = {}
        self.own = self.add("own", A)
        self.own.open_traces = self.tabs
        self.view = CompareView(self.own, theme("dark"))
        qtbot.addWidget(self.view)
        self.view.resize(900, 400)
        self.view.show()
        qtbot.waitExposed(self.view)

    def add(self, title: str, trace: Trace | None) -> Session:
        session = self.sessions[title] = Session()
        if trace is not None:
            session.set_trace(trace)
        self.tabs.set_sessions(list(self.sessions.items()))
        return session

    def close(self, title: str) -> None:
        session = self.sessions.pop(title)
        self.tabs.set_sessions(list(self.sessions.items()))
        session.close()

    def choose(self, place: int) -> None:
        """Choose a run as a person does."""
        box = self.view.run_box
        box.setCurrentIndex(place)
        box.activated.emit(place)

    def wait(self) -> None:
        view = self.view
        self.qtbot.waitUntil(
            lambda: self.own.tasks.is_idle and not view.model.is_stale, timeout=20_000
        )

    def runs(self) -> list[str]:
        box: QComboBox = self.view.run_box
        return [box.itemText(i) for i in range(box.count())]

    def keys(self) -> list[str]:
        """Return the titles of all rows."""
        model = self.view.model
        return [model.row(row)[0].text for row in range(model.rowCount())]


@pytest.fixture
def desk(qtbot: QtBot) -> Iterator[Desk]:
    made = Desk(qtbot)
    yield made
    made.view.release()
    for session in made.sessions.values():
        session.close()


def busy(trace: Trace, op: str) -> int:
    """Return the ticks in which any span of an op runs, one span after the other."""
    s = trace.spans
    return union(
        [
            (int(s.start[i]), int(s.end[i]))
            for i in range(len(s))
            if s.op[i] >= 0 and trace.op_name(int(s.op[i])) == op and is_timed(trace, i)
        ]
    )


# -- what is compared ------------------------------------------------------------------


def test_twice_the_times_are_100_percent_more_everywhere(desk: Desk) -> None:
    slow = slowed(A, 2)
    desk.add("slow", slow)
    desk.wait()

    model, keys = desk.view.model, desk.keys()
    assert len(keys) > 5
    assert keys[-1] == "all"
    for row, key in enumerate(keys[:-1]):
        _, a, b, change, relative = model.row(row)
        assert (a.sort, b.sort) == (busy(A, key), busy(slow, key))
        assert change.raw == busy(slow, key) - busy(A, key)
        assert relative.text == "+100.0 %"
    assert model.row(len(keys) - 1)[4].text == "+100.0 %"
    changes = [model.row(row)[3].sort for row in range(len(keys) - 1)]
    assert changes == sorted(changes, key=lambda size: -float(str(size)))


@pytest.mark.parametrize("by", BY)
def test_every_grouping_that_both_know_is_offered(desk: Desk, by: By) -> None:
    slow = slowed(A, 2)
    desk.add("slow", slow)
    desk.wait()
    place = desk.view.by.findData(by)
    if place < 0:
        assert by not in ("op", "family", "layer", "tensor", "thread", "token", "phase")
        return
    desk.view.by.setCurrentIndex(place)
    desk.wait()

    comparison = compare([A], [slow], by)
    assert desk.view.result is not None
    assert desk.view.result.by == by
    assert desk.keys() == [*(row.key for row in comparison.rows), "all"]
    timed = [row for row in comparison.rows if row.a.value]
    assert timed
    assert all(row.relative == 1.0 for row in timed)


def test_a_run_against_itself_has_no_difference(desk: Desk) -> None:
    desk.add("same", A)
    desk.wait()

    view = desk.view
    assert view.result is not None
    assert view.result.is_equal
    cells = [view.model.row(row) for row in range(view.model.rowCount() - 1)]
    assert all(cell.is_dim for row in cells for cell in row)


def test_changes_within_the_tolerance_are_greyed(desk: Desk) -> None:
    a = spans_trace([0, 1000], [100, 1500], op=[1, 2])
    b = spans_trace([0, 1000], [104, 1900], op=[1, 2])
    desk.own.set_trace(a)
    desk.add("other", b)
    desk.wait()
    model = desk.view.model
    before = [model.row(row)[0].is_dim for row in range(2)]
    desk.view.tolerance.setCurrentIndex(desk.view.tolerance.findData(0.05))
    desk.wait()

    comparison = compare([a], [b], tolerance=Tolerance(0.05))
    assert [row.is_noise for row in comparison.rows] == [False, True]
    assert before == [False, False]
    assert [model.row(row)[0].is_dim for row in range(2)] == [False, True]


def test_what_only_one_run_has_is_a_row_with_its_time(desk: Desk) -> None:
    a = spans_trace([0, 100], [10, 150], op=[1, 2])
    b = spans_trace([0, 100], [10, 190], op=[1, 3])
    desk.own.set_trace(a)
    desk.add("other", b)
    desk.wait()

    assert desk.keys() == [a.op_name(i) for i in (3, 2, 1)] + ["all"]
    of_b, of_a = (desk.view.model.row(row) for row in (0, 1))
    assert [cell.raw for cell in of_b[1:5]] == ["", 90, 90, ""]
    assert [cell.raw for cell in of_a[1:5]] == [50, "", -50, ""]
    assert (of_b[1].text, of_a[2].text) == ("not there", "not there")
    assert (of_b[4].text, of_a[4].text) == ("only in B", "only in A")
    assert not Page(desk.view).child(ElidedLabel, "compare_only").isVisible()


def test_runs_in_other_units_are_not_comparable(desk: Desk) -> None:
    desk.add("npu", npu_like_trace())
    desk.wait()

    result = desk.view.result
    assert result is not None
    assert not result.is_comparable
    assert result.reason in Page(desk.view).child(Label, "compare_headline").text()
    headings = [heading.title for heading in desk.view.model.headings]
    assert headings[1:] == ["A spans", "B spans", "A share", "B share"]
    shares = {row.key: row for row in result.shares}
    assert desk.keys() == list(shares)
    row = desk.view.model.row(0)
    assert (row[1].sort, row[2].sort) == (
        shares[row[0].text].count_a, shares[row[0].text].count_b
    )  # fmt: skip


# -- rows ------------------------------------------------------------------------------


def test_a_click_lights_the_spans_of_this_run(desk: Desk, qtbot: QtBot) -> None:
    desk.add("slow", slowed(A, 2))
    desk.wait()
    table = desk.view.findChild(TextTable)
    assert table is not None
    at = table.visualRect(table.model().index(1, 1)).center()
    qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=at)

    group = desk.own.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("op", desk.keys()[1])
    desk.own.clear_selection()
    qtbot.waitUntil(lambda: not table.selected_rows())


def test_enter_goes_to_the_longest_span_of_a_row(desk: Desk, qtbot: QtBot) -> None:
    desk.add("slow", slowed(A, 2))
    desk.wait()
    table = desk.view.findChild(TextTable)
    assert table is not None
    table.setFocus()
    table.selectRow(0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: desk.own.linking.current_span is not None)
    s, op = A.spans, desk.keys()[0]

    ops = [i for i in range(len(s)) if s.op[i] >= 0 and A.op_name(int(s.op[i])) == op]
    longest = max(int(s.end[i] - s.start[i]) for i in ops)
    shown = desk.own.linking.current_span
    assert shown in ops
    assert int(s.end[shown] - s.start[shown]) == longest


def test_rows_are_copied_as_numbers(desk: Desk) -> None:
    desk.add("slow", slowed(A, 2))
    desk.wait()
    table = desk.view.findChild(TextTable)
    assert table is not None
    table.copy_tsv()

    lines = QApplication.clipboard().text().splitlines()
    key, a, b, change, relative = lines[1].split("\t")
    assert (int(a), int(b)) == (busy(A, key), 2 * busy(A, key))
    assert (int(change), float(relative)) == (busy(A, key), 1.0)


# -- other tabs ------------------------------------------------------------------------


def test_the_only_other_tab_is_taken_and_of_several_none(
    desk: Desk, qtbot: QtBot
) -> None:
    desk.add("x", slowed(A, 2))
    taken = desk.view.run_box.currentText()
    desk.add("y", slowed(A, 3))
    desk.wait()
    entries = desk.view.run_box.currentText()
    second = CompareView(desk.own, theme("dark"))
    qtbot.addWidget(second)
    of_several = second.run_box.currentText()
    second.release()
    desk.choose(1)
    desk.wait()

    assert (taken, entries, of_several) == ("x", "x", "choose a run")
    assert desk.view.model.row(0)[4].text == "+200.0 %"


def test_a_tab_that_is_closed_is_let_go_of(desk: Desk) -> None:
    other = slowed(A, 2)
    gone = weakref.ref(other)
    session = desk.add("slow", other)
    gone_session = weakref.ref(session)
    desk.wait()
    assert desk.view.result is not None
    del other, session
    desk.close("slow")
    desk.wait()

    assert desk.view.result is None
    assert Page(desk.view).is_empty
    assert desk.runs() == ["choose a run", "Folder of runs…", "Open other run…"]

    def is_gone() -> bool:
        gc.collect()
        return gone() is None and gone_session() is None

    desk.qtbot.waitUntil(is_gone)


def test_another_trace_in_the_other_tab_is_compared_anew(desk: Desk) -> None:
    other = desk.add("other", slowed(A, 2))
    desk.wait()
    other.set_trace(slowed(A, 4))
    desk.wait()
    of_other = desk.view.model.row(0)[4].text
    desk.own.set_trace(slowed(A, 2))
    desk.qtbot.waitUntil(lambda: desk.view.model.row(0)[4].text == "+100.0 %")

    assert of_other == "+300.0 %"


def test_a_tab_that_is_still_read_is_waited_for(desk: Desk) -> None:
    other = desk.add("other", None)
    desk.wait()
    before = Page(desk.view).is_empty
    other.set_trace(slowed(A, 2))
    desk.wait()

    assert before
    assert desk.view.model.row(0)[4].text == "+100.0 %"


def test_nothing_is_computed_while_the_pane_is_hidden(desk: Desk) -> None:
    desk.view.hide()
    desk.add("other", slowed(A, 2))
    is_comparing = desk.own.tasks.is_running("compare")
    hidden = desk.view.result
    desk.view.show()
    desk.wait()

    assert not is_comparing
    assert hidden is None
    assert desk.view.result is not None


def test_a_trace_without_spans_says_so(desk: Desk) -> None:
    desk.add("empty", empty_trace())
    desk.wait()

    assert Page(desk.view).is_empty
    assert desk.view.result is not None
    assert not desk.view.result.is_comparable


# -- files -----------------------------------------------------------------------------


def test_a_file_that_is_in_no_tab_is_read_on_a_worker(desk: Desk) -> None:
    desk.request = LoadRequest(SAMPLE)
    desk.choose(desk.view.run_box.count() - 1)
    reading = Page(desk.view).is_empty
    desk.wait()

    assert reading
    assert desk.runs() == [SAMPLE.name, "Folder of runs…", "Open other run…"]
    assert desk.view.run_box.currentText() == SAMPLE.name
    assert desk.view.result is not None
    assert desk.view.result.is_comparable


def test_reading_that_is_cancelled_leaves_the_choice(desk: Desk) -> None:
    desk.request = LoadRequest(SAMPLE)
    desk.choose(desk.view.run_box.count() - 1)
    (state,) = (s for s in desk.own.tasks.states() if s.key == "compare-read")
    desk.own.tasks.cancel(state.key)
    desk.wait()

    assert state.title
    assert desk.runs() == ["choose a run", "Folder of runs…", "Open other run…"]
    assert desk.view.result is None


def test_a_file_that_cannot_be_read_says_why(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "no.bin"
    path.write_bytes(b"no trace" * 20)
    desk.request = LoadRequest(path)
    desk.choose(desk.view.run_box.count() - 1)
    desk.wait()

    assert Page(desk.view).is_empty
    assert path.name in Page(desk.view).placeholder
    assert desk.view.result is None


def test_no_file_chosen_keeps_the_other_tab(desk: Desk) -> None:
    desk.add("slow", slowed(A, 2))
    desk.wait()
    desk.choose(desk.view.run_box.count() - 1)
    desk.wait()

    assert desk.view.run_box.currentText() == "slow"
    assert desk.view.result is not None


# -- the window ------------------------------------------------------------------------


def test_two_tabs_of_the_window_are_compared(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path
) -> None:
    copy = tmp_path / "other.bin"
    shutil.copy(SAMPLE, copy)
    other, document = opened(copy), opened(SAMPLE)
    document.workspace.show_view("compare")
    settle(qtbot, document)
    view = pane(document, "compare")
    assert isinstance(view, CompareView)
    qtbot.waitUntil(lambda: view.result is not None, timeout=20_000)
    assert view.result is not None
    is_equal = view.result.is_equal
    window.close_document(other)
    settle(qtbot, document)

    assert is_equal
    assert view.result is None


def test_the_window_asks_for_a_file(
    window: MainWindow,
    opened: Opened,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    copy = tmp_path / "other.bin"
    shutil.copy(SAMPLE, copy)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(copy), ""))
    document = opened(SAMPLE)
    document.workspace.show_view("compare")
    settle(qtbot, document)
    view = pane(document, "compare")
    assert isinstance(view, CompareView)
    view.run_box.activated.emit(view.run_box.count() - 1)
    settle(qtbot, document)
    qtbot.waitUntil(lambda: view.result is not None, timeout=20_000)

    assert view.result is not None
    assert view.result.is_equal
    assert window.n_documents == 1


def test_the_pane_opens_the_figure_studio(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path
) -> None:
    copy = tmp_path / "other.bin"
    shutil.copy(SAMPLE, copy)
    opened(copy)
    document = opened(SAMPLE)
    document.workspace.show_view("compare")
    settle(qtbot, document)
    view = pane(document, "compare")
    assert isinstance(view, CompareView)
    qtbot.waitUntil(lambda: view.result is not None, timeout=20_000)
    window.export(view.figure())
    dialog = window.findChild(FigureDialog)

    assert dialog is not None
    qtbot.waitUntil(lambda: dialog.preview is not None, timeout=20_000)
    assert dialog.view.currentText() == "Compare"
    qtbot.waitUntil(lambda: str(copy) in dialog.command.toPlainText(), timeout=20_000)
    dialog.close()
