"""Export data: the spans that are asked for, in the form that is asked for."""

import csv
import gzip
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from ggscope import assets
from ggscope.analysis.filters.text import parse_filter
from ggscope.errors import ExportError
from ggscope.gui.dialogs.data import DataDialog, ReportRequest
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.model.units import TimeRange
from ggscope.session.tasks import TaskContext
from messages import clear, newest_message
from ring_writer import Writer
from statements import new_statement

SAMPLE = Path(__file__).parents[2] / "resources" / "samples" / "tinyllama-256.bin"
Opened = Callable[[Path], Document]
Asked = Callable[..., tuple[DataDialog, Document]]


@pytest.fixture
def open_dialog(window: MainWindow, opened: Callable[[Path], Document]) -> Asked:
    """Return a function that opens the dialog on a sample."""

    def ask() -> tuple[DataDialog, Document]:
        document = opened(SAMPLE)
        window.actions_["file.export_data"].trigger()
        (dialog,) = window.findChildren(DataDialog)
        return dialog, document

    return ask


def saved(dialog: DataDialog, path: Path, qtbot: QtBot, monkeypatch) -> str:
    """Press Save, and return what is said in the end."""
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))
    dialog.say("")
    QTest.mouseClick(dialog.save, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(dialog.problem.text()), timeout=20_000)
    return dialog.problem.text()


def test_range_and_filter_choose_the_rows(
    open_dialog: Asked, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    dialog, document = open_dialog()
    session = document.session
    assert session.trace is not None
    s = session.trace.spans
    session.queries.set_filter(parse_filter("op=MUL_MAT", session.trace.clock.unit))
    qtbot.waitUntil(lambda: session.queries.mask is not None)
    time = TimeRange(0, 50_000_000)
    session.viewport.set_visible(time)

    QTest.keyClick(dialog.filtered, Qt.Key.Key_Space)
    if not dialog.filtered.isChecked():
        QTest.keyClick(dialog.filtered, Qt.Key.Key_Space)
    shown = session.viewport.visible
    inside = (s.end >= shown.start) & (s.start < shown.end)
    both = int((inside & session.queries.mask).sum())
    texts = dialog.message.text()
    text = saved(dialog, tmp_path / "a.csv", qtbot, monkeypatch)

    rows = list(csv.DictReader((tmp_path / "a.csv").read_text().splitlines()))
    assert 0 < both < len(s)
    assert f"{both:,} of {len(s):,} spans" in texts.replace("\u2009", ",")
    assert len(rows) == both
    assert {row["op"] for row in rows} == {"MUL_MAT"}
    assert text == f"Saved a.csv: {both} of {len(s):,} spans."


def test_all_is_all_and_losses_are_reported(
    open_dialog: Asked, window, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    dialog, document = open_dialog()
    trace = document.session.trace
    assert trace is not None
    dialog.part.setCurrentIndex(1)
    dialog.form.setCurrentIndex(dialog.form.findData("chrome-json"))

    text = saved(dialog, tmp_path / "a", qtbot, monkeypatch)

    data = json.loads((tmp_path / "a.trace.json").read_text())["traceEvents"]
    kinds = Counter(e["ph"] for e in data)
    assert kinds["X"] + kinds["B"] + kinds["i"] == len(trace.spans)
    assert "Not supported by the format" in text
    assert newest_message(window) == text
    dialog.form.setCurrentIndex(dialog.form.findData("csv"))
    refused = saved(dialog, tmp_path / "missing" / "a.csv", qtbot, monkeypatch)
    assert text.startswith("Saved a.trace.json: ")
    assert "no such folder" in refused
    assert "no such folder" in refused


def test_packed_file_is_offered_for_texts(
    open_dialog: Asked, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    dialog, _ = open_dialog()
    offers: list[str] = []

    def choose(*arguments: object) -> tuple[str, str]:
        offers.append(str(arguments[3]))
        return str(tmp_path / "a"), offers[-1].rpartition(";;")[2]

    monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
    for form in ("perfetto", "parquet"):
        dialog.form.setCurrentIndex(dialog.form.findData(form))
        dialog.say("")
        QTest.mouseClick(dialog.save, Qt.MouseButton.LeftButton)
        qtbot.waitUntil(lambda: bool(dialog.problem.text()), timeout=20_000)

    assert "*.pftrace.gz" in offers[0]
    assert ".gz" not in offers[1]
    data = gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes())
    assert data.startswith(b"\n")
    assert "Saved" in dialog.problem.text() or "DuckDB" in dialog.problem.text()


def test_filter_can_only_be_asked_for_where_there_is_one(
    open_dialog: Asked, qtbot: QtBot
) -> None:
    dialog, document = open_dialog()
    session = document.session
    assert session.trace is not None
    assert not dialog.filtered.isEnabled()
    before = dialog.message.text()

    session.queries.set_filter(parse_filter("op=MUL_MAT", session.trace.clock.unit))
    qtbot.waitUntil(lambda: session.queries.mask is not None)

    assert dialog.filtered.isEnabled()
    QTest.keyClick(dialog.filtered, Qt.Key.Key_Space)
    assert dialog.message.text() != before


def test_dialog_goes_with_its_tab(
    open_dialog: Asked, window: MainWindow, qtbot
) -> None:
    _, document = open_dialog()

    window.close_document(document)

    qtbot.waitUntil(lambda: not window.findChildren(DataDialog))


# -- reports -----------------------------------------------------------------------


def report_to(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(path), ""))


def test_report_is_what_the_command_line_writes(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    target = tmp_path / "page.html"
    report_to(monkeypatch, target)
    opened(SAMPLE)

    window.actions_["file.report"].trigger()
    qtbot.waitUntil(target.exists, timeout=60_000)
    qtbot.waitUntil(lambda: newest_message(window) == "Saved page.html.")

    text = target.read_text()
    assert "Content-Security-Policy" in text
    assert SAMPLE.name in text


def test_report_of_a_program_that_runs_waits_for_its_recording(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    target = tmp_path / "page.html"
    report_to(monkeypatch, target)
    writer = Writer(tmp_path / "ring", n_lanes=2, capacity=1 << 12)
    document = window.follow(str(writer.path))
    writer.graph()
    qtbot.waitUntil(lambda: document.session.trace is not None, timeout=10_000)

    window.dialogs.save_report()
    refused = newest_message(window)
    clear(window)
    opened(SAMPLE)
    window.dialogs.save_report()
    qtbot.waitUntil(target.exists, timeout=60_000)
    qtbot.waitUntil(lambda: newest_message(window) == "Saved page.html.")

    assert new_statement(refused, newest_message(window))


def test_report_that_cannot_be_written_says_why(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    report_to(monkeypatch, tmp_path / "missing" / "page.html")
    opened(SAMPLE)

    window.actions_["file.report"].trigger()
    qtbot.waitUntil(lambda: "no such folder" in newest_message(window), timeout=60_000)


def test_report_ends_with_its_tab(
    window: MainWindow, opened: Opened, qtbot: QtBot, tmp_path: Path, monkeypatch
) -> None:
    target = tmp_path / "page.html"
    report_to(monkeypatch, target)
    begun: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def begin(*text, **more):
        begun.append(popen(*text, **more))
        return begun[-1]

    monkeypatch.setattr(subprocess, "Popen", begin)
    document = opened(SAMPLE)
    window.actions_["file.report"].trigger()
    qtbot.waitUntil(lambda: bool(begun))

    document.session.tasks.cancel("report")
    qtbot.waitUntil(lambda: begun[0].poll() is not None, timeout=20_000)

    assert begun[0].returncode != 0
    assert list(tmp_path.iterdir()) == []


def test_report_whose_program_says_nothing_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ReportRequest((tmp_path / "no.bin",), tmp_path / "page.html")
    context = TaskContext(threading.Event(), lambda *_: None, lambda _: None)

    def failure() -> str:
        with pytest.raises(ExportError) as caught:
            request(context)
        return str(caught.value)

    spoken = failure()
    monkeypatch.setattr(assets, "program", lambda: ("false",))

    assert failure() == "ggscope report failed with exit code 1."
    assert "does not exist" in spoken
