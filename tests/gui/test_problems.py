"""The Problems pane: what is listed, filtered, copied and jumped to."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.sessions.remap_ids import placed_warnings
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, RecordView, Severity, Trace
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.problems import ProblemsView, record_at
from pages import ProblemsPage
from statements import new_statement, new_statements

CTRL = Qt.KeyboardModifier.ControlModifier


@dataclass(frozen=True)
class Records:
    """Records of 256 bytes each."""

    n: int = 100

    def view(self, record: int) -> RecordView:
        if record >= self.n:
            raise ReadError("gone")
        return RecordView(record * 256, b"", ())


def troubled(**info: object) -> Trace:
    """Return 100 spans made of records 0, 2, 4 … and one problem of each kind."""
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    builder.records = Records()
    start = np.arange(50) * 10
    builder.add_spans(
        start=start, end=start + 5, lane=0, record=np.arange(50, dtype=np.int64) * 2
    )
    builder.warn(Severity.INFO, "op_table", "Ops were told from content.")
    builder.warn(
        Severity.DATA_LOSS,
        "bad_op",
        "Record 40 is damaged.",
        40 * 256,
        3,
        place="record 40",
        remedy="Record it again.",
    )
    builder.warn(Severity.NOTICE, "late", "A record came late.", 20 * 256 + 17)
    builder.warn(Severity.ERROR, "cut", "The file ends early.", 1 << 40)
    known = {"n_records": 100, **info}
    return builders.finished(builder, **known)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(troubled())
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> ProblemsView:
    view = ProblemsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1000, 260)
    view.show()
    qtbot.waitExposed(view)
    return view


def severities(view: ProblemsView) -> list[str]:
    return [view.model.row(row)[0].text for row in range(view.model.rowCount())]


def open_row(view: ProblemsView, code: str) -> None:
    codes = [view.model.row(row)[-1].text for row in range(view.model.rowCount())]
    row = codes.index(code)
    box = view.table.visualRect(view.model.index(row, 1))
    view.table.setCurrentIndex(view.model.index(row, 1))
    left = Qt.MouseButton.LeftButton
    plain = Qt.KeyboardModifier.NoModifier
    QTest.mouseClick(view.table.viewport(), left, plain, box.center())
    QTest.mouseDClick(view.table.viewport(), left, plain, box.center())


def test_model_keeps_the_rules_of_item_models(view: ProblemsView) -> None:
    QAbstractItemModelTester(
        view.model, QAbstractItemModelTester.FailureReportingMode.Fatal, view
    )

    view.session.problem_reported.emit("another")

    assert view.model.rowCount() == 5


def test_problems_are_listed_worst_first(view: ProblemsView) -> None:
    assert severities(view) == ["error", "data loss", "notice", "note"]


def test_row_shows_count_place_remedy_and_code(view: ProblemsView) -> None:
    texts = [cell.text for cell in view.model.row(1)]

    assert texts == [
        "data loss",
        "Record 40 is damaged.",
        "3",
        "record 40 · 0x2800",
        "Record it again.",
        "bad_op",
    ]


def test_signs_differ_in_form_not_only_in_colour(view: ProblemsView) -> None:
    shapes = {view.model.row(row)[0].shape for row in range(4)}

    assert len(shapes) == 4


def test_severity_button_hides_its_problems(view: ProblemsView) -> None:
    QTest.mouseClick(
        ProblemsPage(view).filter_button(Severity.NOTICE), Qt.MouseButton.LeftButton
    )

    assert severities(view) == ["error", "data loss", "note"]
    assert ProblemsPage(view).note == "1 hidden"


def test_all_hidden_says_so(view: ProblemsView) -> None:
    for button in ProblemsPage(view).filter_buttons:
        button.setChecked(False)

    assert ProblemsPage(view).placeholder == "All problems hidden"


def test_sound_file_says_so(view: ProblemsView, session: Session) -> None:
    session.set_trace(builders.llama_like_trace())

    assert ProblemsPage(view).is_empty
    assert ProblemsPage(view).placeholder == "No problems found"


def test_trace_that_is_still_being_read_may_get_problems(
    view: ProblemsView, session: Session
) -> None:
    def shown(trace: Trace) -> tuple[str, str]:
        session.set_trace(replace(trace, pending=frozenset({"names"})))
        reading = f"{ProblemsPage(view).note}\n{ProblemsPage(view).placeholder}"
        session.set_trace(trace)
        return reading, f"{ProblemsPage(view).note}\n{ProblemsPage(view).placeholder}"

    assert new_statement(*shown(troubled()))
    assert new_statements(*shown(builders.llama_like_trace()))


def test_failure_of_the_program_is_added_with_its_time(
    view: ProblemsView, session: Session
) -> None:
    session.problem_reported.emit("The filter is not understood.")
    session.problem_reported.emit("The filter is not understood.")

    problems = [p for p in view.problems if p.code == "program"]
    assert [p.count for p in problems] == [2]
    assert len(problems[0].place.split(":")) == 3


def test_current_problem_is_shown_in_full(view: ProblemsView) -> None:
    view.table.selectRow(1)

    assert (
        ProblemsPage(view).full_text.text() == "Record 40 is damaged. Record it again."
    )
    assert ProblemsPage(view).full_text.isVisible()


def test_double_click_selects_the_span_of_the_record(
    qtbot: QtBot, view: ProblemsView, session: Session
) -> None:
    open_row(view, "bad_op")
    qtbot.waitUntil(lambda: bool(session.selection.current))

    assert session.selection.current.active == 20


def test_double_click_finds_the_record_by_its_byte(
    qtbot: QtBot, view: ProblemsView, session: Session
) -> None:
    open_row(view, "late")
    qtbot.waitUntil(lambda: bool(session.selection.current))

    assert session.selection.current.active == 10


def test_place_without_a_span_is_reported(
    qtbot: QtBot, view: ProblemsView, session: Session
) -> None:
    open_row(view, "cut")
    qtbot.waitUntil(lambda: bool(ProblemsPage(view).note))

    assert ProblemsPage(view).note == "No span at this location"
    nowhere = ProblemsPage(view).note
    open_row(view, "bad_op")
    qtbot.waitUntil(lambda: bool(session.selection.current))
    assert new_statement(nowhere, ProblemsPage(view).note)


def test_problem_without_a_place_is_reported(
    qtbot: QtBot, view: ProblemsView, session: Session
) -> None:
    open_row(view, "op_table")
    without = ProblemsPage(view).note
    open_row(view, "cut")
    qtbot.waitUntil(lambda: ProblemsPage(view).note != without)

    assert new_statement(without, ProblemsPage(view).note)


def test_place_in_a_file_beside_is_not_sought_in_the_trace(
    qtbot: QtBot, view: ProblemsView, session: Session
) -> None:
    trace = troubled()
    beside = placed_warnings(trace.warnings, "buffers.jsonl")
    session.set_trace(replace(trace, warnings=beside))
    open_row(view, "bad_op")
    note = ProblemsPage(view).note
    chosen = session.selection.current.active

    session.set_trace(troubled())
    open_row(view, "bad_op")
    qtbot.waitUntil(lambda: bool(session.selection.current))

    assert "buffers.jsonl" in note
    assert "buffers.jsonl" not in ProblemsPage(view).note
    assert chosen is None


def test_enter_jumps_too(qtbot: QtBot, view: ProblemsView, session: Session) -> None:
    view.table.selectRow(1)
    view.table.setFocus()

    QTest.keyClick(view.table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(session.selection.current))

    assert session.selection.current.active == 20


def test_record_at_finds_the_record_around_a_byte() -> None:
    trace = troubled()

    assert [record_at(trace, b) for b in (0, 255, 256, 25_599)] == [0, 0, 1, 99]


def test_record_at_of_a_shortened_file_is_unknown() -> None:
    assert record_at(troubled(n_records=1_000), 1 << 30) == -1
    assert record_at(builders.llama_like_trace(), 0) == -1


def test_span_of_record_without_a_column_is_the_record_itself() -> None:
    trace = builders.spans_trace([0, 5], [1, 6])

    assert [trace.span_of(r) for r in (-1, 1, 2)] == [-1, 1, -1]


def test_ctrl_c_copies_the_table(view: ProblemsView) -> None:
    QTest.keyClick(view.table, Qt.Key.Key_C, CTRL)

    lines = QGuiApplication.clipboard().text().splitlines()
    assert len(lines) == 5
    assert lines[2].split("\t")[1] == "Record 40 is damaged."


@pytest.mark.parametrize("name", ["dark", "light"])
def test_pane_is_drawn_in_both_themes(view: ProblemsView, name: str) -> None:
    view.set_theme(theme(name))

    assert not view.grab().isNull()
    assert severities(view)[0] == "error"


def test_released_view_hears_nothing(view: ProblemsView, session: Session) -> None:
    before = view.problems
    view.release()

    session.problem_reported.emit("late")

    assert view.problems == before
