"""Sums with real keys and mouse: said once, of whole spans, on what basis."""

import functools
import html
import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from ggscope.descriptions.statistics import GROUPING_RULES
from ggscope.gui.document import Document
from ggscope.gui.main_window import MainWindow
from ggscope.views.base.view import View
from ggscope.views.problems import ProblemsView
from ggscope.views.statistics.view import StatisticsView
from scenes import texts_of
from support import ROOT
from touching import PATIENCE_MS, Hand, answer_file_dialog

SAMPLES = ROOT / "resources" / "samples"
BASIS = "all accesses, each op once, of stacked experts only the chosen ones"
Opened = Callable[[Path], Document]


def statistics_of(document: Document, hand: Hand, qtbot: QtBot) -> StatisticsView:
    """Return the statistics, brought to the front by their key and counted."""
    hand.press("ctrl+9")
    (view,) = document.workspace.views("statistics")
    assert isinstance(view, StatisticsView)
    qtbot.waitUntil(lambda: view.about.full_text.startswith("whole trace"))
    return view


def test_time_of_an_op_is_booked_on_one_weight(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    view = statistics_of(document, hand, qtbot)
    hand.click(view.by)
    qtbot.waitUntil(lambda: view.by.view().isVisible())
    row = view.by.findData("tensor")
    steps = row - view.by.currentIndex()
    hand.press(*["Down" if steps > 0 else "Up"] * abs(steps), "Return")
    qtbot.waitUntil(lambda: view.model.headings[0].title == "weight")
    qtbot.waitUntil(lambda: view.result is not None and view.result.by == "tensor")

    result, trace = view.result, document.session.trace
    assert result is not None
    assert trace is not None
    n_ops = sum(lane.kind.name == "THREAD" for lane in trace.lanes)
    assert n_ops
    assert sum(row.count for row in result.rows) == result.n_spans
    assert view.model.headings[0].tip == GROUPING_RULES["tensor"]


def test_durations_at_the_edges_of_the_view_are_whole(
    window: MainWindow, opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "tinyllama-256.bin")
    session = document.session
    assert session.trace is not None
    spans = session.trace.spans
    view = statistics_of(document, hand, qtbot)

    hand.press("w", "w", "w", "w")
    qtbot.waitUntil(lambda: view.about.full_text.startswith("visible range"))

    result = view.result
    assert result is not None
    whole = set((spans.end - spans.start).tolist())
    assert {row.max for row in result.rows} <= whole
    assert {row.min for row in result.rows} <= whole


def test_sums_of_bytes_are_one_sum_and_say_what_is_counted(
    opened: Opened, hand: Hand, qtbot: QtBot
) -> None:
    document = opened(SAMPLES / "moe-experiment")
    values: dict[str, str] = {}
    for key, name in (
        ("ctrl+3", "heatmap"),
        ("ctrl+7", "hot_cold"),
        ("ctrl+8", "cache"),
    ):
        hand.press(key)
        (view,) = document.workspace.views(name)
        qtbot.waitUntil(view.isVisible)
        text = functools.partial(words_of, view)
        qtbot.waitUntil(lambda words=text: BASIS in words(), timeout=PATIENCE_MS)
        values[name] = text()

    (drawn,) = re.findall(
        rf", ([\d.]+ \wiB) \([\d,]+ bytes\), {BASIS}", values["heatmap"]
    )
    assert f"{drawn} read" in values["hot_cold"]
    assert f" of {drawn} " in values["cache"]


def words_of(view: View) -> str:
    """Return what stands in the labels and in the picture of a pane."""
    labels = [
        getattr(label, "full_text", label.text())
        for label in view.findChildren(QLabel)
        if label.isVisible()
    ]
    figure = view.figure()
    made = None if figure is None else figure.draw(figure.style)
    drawn = [] if made is None else [*texts_of(made.picture), made.caption]
    return html.unescape("\n".join((*labels, *drawn)))


def test_sample_asks_for_nothing_that_lies_beside_it(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Callable[[MainWindow], Document],
) -> None:
    rows = {row.path.name: row for row in window.start_page.sample_rows}
    hand.click(rows["moe-experiment"], QPoint(30, 12))
    document = wait_read(window)

    document.workspace.show_drawer("problems")
    (view,) = document.workspace.views("problems")
    assert isinstance(view, ProblemsView)
    qtbot.waitUntil(lambda: bool(view.problems))
    for problem in view.problems:
        assert "GGUF" not in problem.remedy


def test_cut_file_opens_like_any_other(
    window: MainWindow,
    hand: Hand,
    qtbot: QtBot,
    wait_read: Callable[[MainWindow], Document],
    tmp_path: Path,
) -> None:
    whole = (SAMPLES / "npu-prefill-decode.json").read_bytes()
    path = tmp_path / "cut.json"
    path.write_bytes(whole[: len(whole) // 2])
    answer_file_dialog(hand, path, qtbot)

    hand.press("ctrl+o")
    qtbot.waitUntil(lambda: window.n_documents == 1)
    trace = wait_read(window).session.trace

    assert trace is not None
    assert len(trace.spans) > 0
    assert [warning.code for warning in trace.warnings] == ["truncated_json"]
