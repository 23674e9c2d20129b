"""Claims of the window, each said where it is true and not by its neighbour."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import builders
from ggscope.errors import AmbiguousFormatError, ReadError, UnknownFormatError
from ggscope.gui.dialogs.filters import FilterPopup, SavedFilters
from ggscope.gui.dialogs.record import RecordDialog
from ggscope.gui.document import Document
from ggscope.gui.live import LiveStrip, WaitingPage
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.load import ProblemPage
from ggscope.gui.panes.host import ErrorPanel
from ggscope.live import launcher
from ggscope.live.launcher import Target
from ggscope.live.source import SourceStatus
from ggscope.model.selection import Filter
from ggscope.model.trace import OTHER_FILES, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.discovery import survey
from ggscope.session import live as live_module
from ggscope.session.live import FollowState, LiveMetrics, LiveSession
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.canvas import GlCanvas
from messages import clear, said
from panes import texts_of_widgets
from reads_builder import moe_reads
from sentences import assert_sides
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def words_of(widget: QWidget) -> str:
    return "\n".join(texts_of_widgets(widget))


# -- settings and bookmarks ------------------------------------------------------------


def test_setting_whose_value_does_not_fit_falls_back_to_the_default() -> None:
    def said(value: str) -> str:
        store = MemoryStore({"appearance/font_scale": value})
        return "\n".join(Settings(store).problems)

    odd, good = said('"large"'), said("150")
    assert_sides("invalid value for setting *: *", odd, good)
    assert_sides("; the default is used.", odd, good)


def test_place_of_bookmarks_is_told_once_they_are_written(
    window: MainWindow, opened: Callable[[Path], Document], tmp_path: Path, qtbot: QtBot
) -> None:
    def said(place: str, folder: Path | None) -> tuple[str, str]:
        """Return what is said at once, and once they are kept."""
        path = tmp_path / place / "run.ggmlviz"
        path.parent.mkdir()
        shutil.copy(SAMPLES / "llama.ggmlviz", path)
        window.settings.data_folder = folder
        window.settings.change("bookmarks", place=place)
        document = opened(path)
        keeper = document.bookmarks.keeper
        qtbot.waitUntil(lambda: keeper._is_found)
        document.session.bookmarks.add("a", TimeRange(0, 10))
        at_once = document.session.bookmarks.location
        qtbot.waitUntil(lambda: not keeper._later.isActive() and not keeper._is_keeping)
        kept = document.session.bookmarks.location
        window.close_document(document)
        return at_once, kept

    beside = said("beside", tmp_path / "own")
    data = said("data", tmp_path / "other")
    (tmp_path / "data").rename(tmp_path / "done")
    nowhere = said("data", None)

    assert_sides("Saved next to the trace in {0}", beside[1], data[1] + nowhere[1])
    assert_sides("Saved in your profile", data[1], beside[1] + nowhere[1])
    others = "\n".join((*beside, *data))
    assert_sides("Bookmarks of this trace are not saved.", nowhere[1], others)


# -- files of a session ----------------------------------------------------------------


def test_shift_that_is_taken_back_says_so(opened) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")

    def shifted(by: str, before: str) -> str:
        document.parts._on_shifted(Path("b.json"), by, before)
        return said(document)

    claim = "Reset the time shift of {0}."
    assert_sides(claim, shifted("", "1ms"), shifted("1ms", ""))


def test_files_beside_a_trace_are_offered_one_or_several(opened) -> None:
    document = opened(SAMPLES / "llama.ggmlviz")
    whole = survey([SAMPLES / "moe-experiment"])
    paths = [member.path for member in whole.members]

    def offered(n: int) -> str:
        clear(document)
        document.parts._on_beside(whole.without(paths[n:]))
        return said(document)

    claim = "Found a related file in this folder: {0}."
    assert_sides(claim, offered(1), offered(2))


# -- filters ---------------------------------------------------------------------------


@pytest.fixture
def listed(qtbot: QtBot) -> Callable[[Trace, str], str]:
    """Return a function that lists what can be filtered by."""

    def said(trace: Trace, field: str) -> str:
        session = Session()
        session.set_trace(trace)
        popup = FilterPopup(session)
        qtbot.addWidget(popup)
        qtbot.waitUntil(lambda: session.tasks.is_idle)
        popup.field.setCurrentText(field)
        rows = [popup.list.item(i).text() for i in range(popup.list.count())]
        session.close()
        return "\n".join(rows)

    return said


def test_what_occurs_nowhere_is_said_once_everything_is_read(listed) -> None:
    trace = builders.spans_trace([0], [10], op=1)
    waits = replace(trace, pending=frozenset({OTHER_FILES}))
    claim = "not in this trace"

    assert_sides(claim, listed(trace, "tensor"), listed(moe_reads(), "tensor"))
    assert_sides(claim, listed(trace, "tensor"), listed(trace, "op"))
    assert_sides(claim, listed(trace, "tensor"), listed(waits, "tensor"))


def test_filter_can_be_saved_where_there_is_one(
    qtbot: QtBot, settings: Settings
) -> None:
    session = Session()
    session.set_trace(moe_reads())
    saved = SavedFilters(settings, session)
    qtbot.addWidget(saved)
    without = saved.name.placeholderText()
    session.set_filter(Filter(ops=frozenset({"MUL_MAT"})))

    claim = "Set a filter to save it here"
    assert_sides(claim, without, saved.name.placeholderText())
    session.close()


# -- what failed -----------------------------------------------------------------------


def test_view_that_failed_says_whether_memory_ran_out(qtbot: QtBot) -> None:
    def said(last: str) -> str:
        panel = ErrorPanel("Table", f"Traceback …\n{last}")
        qtbot.addWidget(panel)
        return words_of(panel)

    memory, other = said("MemoryError: no room"), said("ValueError: no way")
    assert_sides("Not enough memory for this view", memory, other)
    assert_sides("Please attach the report to a bug report.", other, memory)


def test_page_of_a_file_says_whether_its_format_is_known(qtbot: QtBot) -> None:
    def said(error: ReadError | None) -> str:
        page = ProblemPage(Path("a.bin"))
        qtbot.addWidget(page)
        failure = None if error is None else TaskFailure("", "", "", error, "")
        page.show_failure(failure, ())
        assert page.accessibleName() == page.head.text()
        return words_of(page)

    hint = "Choose a reader with --format."
    unknown = said(UnknownFormatError("no reader takes it.", hint=hint))
    several = said(AmbiguousFormatError("two take it.", candidates=("a", "b")))
    broken = said(ReadError("it is damaged.", hint="Make it again."))

    claim = "Unknown format: {0}"
    assert_sides(claim, unknown, several + broken + said(None))
    claim = "If you know its format, choose its reader below."
    assert_sides(claim, unknown, broken + said(None))
    assert_sides(claim, several, broken)


def test_canvas_without_a_context_says_so(qtbot: QtBot, monkeypatch) -> None:
    class Host:
        def __init__(self) -> None:
            self.heard: list[str] = []

        def canvas_failed(self, message: str) -> None:
            self.heard.append(message)

    def said(*, is_valid: bool) -> str:
        host, top = Host(), QWidget()
        qtbot.addWidget(top)
        canvas = GlCanvas(host, top)
        monkeypatch.setattr(GlCanvas, "isValid", lambda _: is_valid)
        monkeypatch.setattr(QOpenGLWidget, "paintEvent", lambda *_: None)
        canvas.paintEvent(None)
        qtbot.wait(1)
        return "\n".join(host.heard)

    claim = "no OpenGL 3.3 context can be made"
    assert_sides(claim, said(is_valid=False), said(is_valid=True))


# -- programs that run -----------------------------------------------------------------


def test_machine_without_llama_says_so(
    window: MainWindow, monkeypatch, qtbot: QtBot
) -> None:
    def said(*found: Target) -> str:
        monkeypatch.setattr(launcher, "targets", lambda _: found)
        dialog = RecordDialog(window.settings, window)
        qtbot.addWidget(dialog)
        qtbot.waitUntil(lambda: dialog._tasks.is_idle, timeout=20_000)
        words = dialog.program_words.text()
        dialog.done(0)
        return words

    assert_sides("No llama.cpp found.", said(), said(Target("/bin/false")))


def test_page_of_a_followed_program_says_how_it_ended(qtbot: QtBot) -> None:
    session = Session()
    follower = LiveSession(session, None)
    page, strip = WaitingPage(follower, session.tasks), LiveStrip(follower)

    def said(phase: FollowState) -> str:
        follower.metrics = LiveMetrics(phase, SourceStatus())
        follower.changed.emit()
        return f"{words_of(page)}\n{words_of(strip)}"

    for widget in (page, strip):
        qtbot.addWidget(widget)
    told = {phase: said(phase) for phase in FollowState}
    running = (
        told[FollowState.WAITING] + told[FollowState.LIVE] + told[FollowState.FAILED]
    )
    stopped = told[FollowState.STOPPED]
    assert_sides("Nothing was recorded", told[FollowState.ENDED], running + stopped)
    over = running + told[FollowState.ENDED] + told[FollowState.KILLED]
    assert_sides("Detached before anything came", stopped, over)
    others = "\n".join(
        told[phase] for phase in FollowState if phase is not FollowState.FULL
    )
    assert_sides("stopped: memory limit", told[FollowState.FULL], others)
    session.close()


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="rings need Linux")
def test_tab_says_that_there_is_no_ring_where_there_is_none(
    window: MainWindow, monkeypatch, tmp_path: Path, qtbot: QtBot
) -> None:
    def said(found: Path | None) -> str:
        monkeypatch.setattr(live_module, "path_to_follow", lambda _: found)
        document = window.follow()
        page = document.waiting_page
        qtbot.waitUntil(lambda: bool(page.message.text()), timeout=10_000)
        words = document.live.metrics.status.message
        window.close_document(document)
        return words

    claim = "waiting for a traced program to start computing"
    assert_sides(claim, said(None), said(tmp_path / "later"))
