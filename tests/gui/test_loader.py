"""Opening on a worker: states, early snapshots, errors, files that change."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ggscope.errors import (
    AmbiguousFormatError,
    Cancelled,
    CorruptError,
    TruncatedError,
    UnknownFormatError,
)
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.load import ProblemPage
from ggscope.gui.widgets import Banner
from ggscope.model.trace import ReadWarning, Severity
from ggscope.session import loader as loader_module
from ggscope.session.loader import Loader, LoadState
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure
from messages import newest_message, toast
from reading import Reading, wait_for, workers
from statements import new_statement, new_statements


@pytest.fixture
def session(qtbot: QtBot, file: Path) -> Iterator[Session]:
    made = Session(file)
    yield made
    made.close()


def test_file_is_read_and_fitted(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    changes: list[TraceChange] = []
    session.trace_changed.connect(changes.append)
    loader = Loader(session)

    loader.open("npu-json", {"ops": "x"})
    wait_for(qtbot, loader, LoadState.READY)

    assert session.trace is reading.result
    assert changes == [TraceChange.REPLACED]
    assert reading.requests == [(session.path, "npu-json", {"ops": "x"})]


def test_early_snapshot_is_shown_and_the_whole_trace_grows_it(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    whole = reading.result
    reading.early = [replace(whole, pending=frozenset({"names"}))]
    reading.go.clear()
    changes: list[TraceChange] = []
    session.trace_changed.connect(changes.append)
    loader = Loader(session)

    loader.open()
    qtbot.waitUntil(lambda: session.trace is not None)
    assert session.trace.pending
    session.selection.select_span(3, reveal=False)
    reading.go.set()
    wait_for(qtbot, loader, LoadState.READY)

    assert changes == [TraceChange.REPLACED, TraceChange.GREW]
    assert session.selection.current.active == 3
    assert session.trace is whole


def test_cancelling_is_a_state_of_its_own(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    reading.go.clear()
    loader = Loader(session)
    loader.open()
    qtbot.waitUntil(lambda: bool(reading.requests))

    loader.cancel()
    wait_for(qtbot, loader, LoadState.CANCELLED)

    assert session.trace is None
    assert loader.failure is None


def test_failure_keeps_the_error_as_a_value(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    reading.result = TruncatedError("the file ends at byte 7.", offset=7, hint="Wait.")
    loader = Loader(session)

    loader.open()
    wait_for(qtbot, loader, LoadState.FAILED)

    error = loader_module.read_error(loader.failure)
    assert error is reading.result
    assert session.trace is None


def test_reload_keeps_reader_and_options(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    loader = Loader(session)
    loader.open("npu-json", {"end": "inclusive"})
    wait_for(qtbot, loader, LoadState.READY)

    session.reload({"ops": "ggml-x"})
    wait_for(qtbot, loader, LoadState.READY)
    session.reload({"ops": ""})
    wait_for(qtbot, loader, LoadState.READY)

    assert [options for _, _, options in reading.requests] == [
        {"end": "inclusive"},
        {"end": "inclusive", "ops": "ggml-x"},
        {"end": "inclusive"},
    ]
    assert {reader for _, reader, _ in reading.requests} == {"npu-json"}


def test_change_on_disk_is_noticed_while_the_window_is_active(
    qtbot: QtBot, session: Session, reading: Reading, file: Path
) -> None:
    messages: list[bool] = []
    is_active = [False]
    loader = Loader(session, lambda: is_active[0])
    loader.file_changed.connect(messages.append)
    loader.open()
    wait_for(qtbot, loader, LoadState.READY)

    file.write_bytes(b"y" * 200)
    loader.check_file()
    assert not loader.is_stale
    is_active[0] = True
    loader.check_file()
    assert loader.is_stale
    loader.reload()
    wait_for(qtbot, loader, LoadState.READY)
    loader.check_file()

    assert messages == [True, False]


def test_vanished_file_is_not_called_changed(
    qtbot: QtBot, session: Session, reading: Reading, file: Path
) -> None:
    loader = Loader(session)
    loader.open()
    wait_for(qtbot, loader, LoadState.READY)

    os.unlink(file)
    loader.check_file()

    assert not loader.is_stale


def test_closing_while_reading_ends_the_thread(
    qtbot: QtBot, session: Session, reading: Reading
) -> None:
    reading.go.clear()
    Loader(session).open()
    qtbot.waitUntil(lambda: bool(reading.requests))

    session.close()

    qtbot.waitUntil(lambda: not workers())


def test_ambiguous_file_offers_its_candidates_first(qtbot: QtBot) -> None:
    page = ProblemPage(Path("/x/a.bin"))
    qtbot.addWidget(page)
    error = AmbiguousFormatError("several claim it.", candidates=["b", "c"])
    chosen: list[str] = []
    page.reader_chosen.connect(chosen.append)

    page.show_failure(
        TaskFailure("load", "", str(error), error),
        [("a", "A"), ("b", "B"), ("c", "C")],
    )
    actions = page.reader_button.menu().actions()
    actions[0].trigger()

    assert [action.data() for action in actions] == ["b", "c", "a"]
    assert chosen == ["b"]
    assert "--format" not in page.hint.text()


def test_page_says_why_nothing_was_read(qtbot: QtBot) -> None:
    page = ProblemPage(Path("/x/a.bin"))
    qtbot.addWidget(page)

    def page_text(error: Exception | None, report: str = "") -> str:
        failure = TaskFailure("load", "", str(error), error, report)
        page.show_failure(None if error is None else failure, [("b", "B")])
        return "\n".join((page.head.text(), page.message.text(), page.hint.text()))

    cancelled = page_text(None)
    fault = page_text(KeyError(3), "Traceback: here")
    several = page_text(
        AmbiguousFormatError("several claim it.", candidates=["b", "c"])
    )
    unknown = page_text(UnknownFormatError("none claims it."))
    damaged = page_text(CorruptError("record 3 is damaged."))
    lack = page_text(MemoryError("not enough memory"))
    for bad in (damaged, lack):
        others = cancelled + fault + several + unknown
        assert new_statements(bad, others)
    assert new_statements(cancelled, fault + several + unknown + damaged + lack)
    assert new_statements(fault, cancelled + several + unknown + damaged + lack)
    assert new_statements(several, cancelled + fault + unknown + damaged + lack)


def test_fault_of_the_program_says_so_and_copies_the_trace(qtbot: QtBot) -> None:
    page = ProblemPage(Path("/x/a.bin"))
    qtbot.addWidget(page)
    page.show()

    page.show_failure(
        TaskFailure("load", "", "KeyError: 3", KeyError(3), "Traceback: here"), []
    )
    QTest.mouseClick(page.copy_button, Qt.MouseButton.LeftButton)

    assert "bug in ggscope" in page.hint.text()
    assert "Traceback: here" in QGuiApplication.clipboard().text()
    assert not page.reader_button.isVisible()


def test_error_page_says_what_where_and_what_to_do(qtbot: QtBot) -> None:
    page = ProblemPage(Path("/x/a.bin"))
    qtbot.addWidget(page)
    error = CorruptError(
        "record 3 is damaged.",
        path=Path("/x/a.bin"),
        offset=12345,
        reader_id="tensor-access",
        hint="Capture it again.",
    )

    page.show_failure(TaskFailure("load", "", str(error), error), [("a", "A")])

    assert page.message.text() == "Record 3 is damaged."
    assert "12,345" in page.where.full_text
    assert "tensor-access" in page.where.full_text
    assert page.hint.text() == "Capture it again."


def test_file_of_another_program_offers_its_command(qtbot: QtBot) -> None:
    page = ProblemPage(Path("/x/run.nsys-rep"))
    qtbot.addWidget(page)
    page.show()
    command = "tool convert --format json /x/run.nsys-rep"
    error = UnknownFormatError("a report.", hint=f"Run {command}", command=command)
    plain = UnknownFormatError("none claims it.")

    page.show_failure(TaskFailure("load", "", str(error), error), [("a", "A")])
    is_offered = page.command_button.isVisible()
    QTest.keyClick(page.command_button, Qt.Key.Key_Space)
    page_focus = page.focusProxy()
    hint = page.hint.text()
    page.show_failure(TaskFailure("load", "", str(plain), plain), [("a", "A")])

    assert is_offered
    assert command in hint
    assert page_focus is page.command_button
    assert QGuiApplication.clipboard().text() == command
    assert not page.command_button.isVisible()


def test_card_waits_before_it_is_made_and_goes_with_the_first_picture(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    reading.go.clear()
    document = window.open_path(file)
    assert document.card is None
    qtbot.waitUntil(lambda: document.card is not None)
    card = document.card
    assert card is not None
    assert card.isVisible()
    assert card.text.full_text.strip()
    box, rect = card.geometry(), document.workspace.rect()
    assert rect.contains(box)
    assert abs(box.center().x() - rect.center().x()) <= 1

    reading.go.set()
    wait_for(qtbot, document.loader, LoadState.READY)
    assert document.card is None
    qtbot.waitUntil(lambda: not shiboken6.isValid(card))


def test_banner_runs_its_action_and_closes(qtbot: QtBot) -> None:
    banner = Banner()
    qtbot.addWidget(banner)
    ran: list[int] = []
    banner.say("The file changed.", "Reload", lambda: ran.append(1))

    QTest.mouseClick(banner.action_button, Qt.MouseButton.LeftButton)
    QTest.mouseClick(banner.close_button, Qt.MouseButton.LeftButton)

    assert ran == [1]
    assert not banner.isVisible()


def test_tab_offers_reload_when_the_file_changed(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.READY)

    document.loader.check_file()
    same = newest_message(document)
    document.loader.file_changed.emit(True)
    assert newest_message(document)
    assert new_statement(newest_message(document), same)
    QTest.mouseClick(toast(document).buttons[0], Qt.MouseButton.LeftButton)
    wait_for(qtbot, document.loader, LoadState.READY)

    assert len(reading.requests) == 2
    assert not newest_message(document)


def test_failed_reload_keeps_what_was_readable(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.READY)
    reading.result = CorruptError("nothing is left.")

    QTest.keyClick(window, Qt.Key.Key_F5)
    wait_for(qtbot, document.loader, LoadState.FAILED)

    assert document.session.trace is not None
    assert document.workspace.isVisible()
    assert "nothing is left" in newest_message(document)


def test_guess_is_offered_once_per_format(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path, tmp_path: Path
) -> None:
    notice = ReadWarning(Severity.NOTICE, "low_confidence", "Read as x; a guess.")
    reading.result = replace(reading.result, warnings=(notice,))
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.READY)
    assert newest_message(document)
    QTest.mouseClick(toast(document).close_button, Qt.MouseButton.LeftButton)
    other = tmp_path / "b.bin"
    other.write_bytes(b"1")

    second = window.open_path(other)
    wait_for(qtbot, second.loader, LoadState.READY)

    assert not newest_message(second)


def test_cancelled_tab_says_so_and_reloads(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path
) -> None:
    reading.go.clear()
    document = window.open_path(file)
    qtbot.waitUntil(lambda: document.status.progress.is_shown)
    qtbot.waitUntil(lambda: document.card is not None)
    assert "10" in document.status.progress.text.full_text

    QTest.mouseClick(document.status.progress.stop, Qt.MouseButton.LeftButton)
    wait_for(qtbot, document.loader, LoadState.CANCELLED)
    assert document.problem_page.isVisible()
    assert "cancelled" in document.problem_page.head.text()
    reading.go.set()
    QTest.mouseClick(document.problem_page.reload_button, Qt.MouseButton.LeftButton)
    wait_for(qtbot, document.loader, LoadState.READY)

    assert document.workspace.isVisible()
    assert not document.status.progress.is_shown


def test_lane_state_is_kept_for_the_next_trace_of_the_format(
    window: MainWindow, qtbot: QtBot, reading: Reading, file: Path, tmp_path: Path
) -> None:
    document = window.open_path(file)
    wait_for(qtbot, document.loader, LoadState.READY)
    state = replace(document.session.lanes.state, pinned=("token",))
    hiding = replace(state, hidden=frozenset({"thread:thread 0"}))
    document.session.lanes.set_state(hiding)
    other = tmp_path / "b.bin"
    other.write_bytes(b"1")

    second = window.open_path(other)
    wait_for(qtbot, second.loader, LoadState.READY)

    assert second.session.lanes.state == state


def test_cancelled_exception_is_never_a_failure() -> None:
    assert loader_module.read_error(None) is None
    failure = TaskFailure("load", "", "", Cancelled())
    assert loader_module.read_error(failure) is None
