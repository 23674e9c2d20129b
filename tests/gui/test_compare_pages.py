"""Pages of the comparison: both timelines, steps, durations, no match, several runs."""

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from builders import llama_like_trace, slowed, spans_trace
from ggscope.analysis.compare.alignment import align
from ggscope.analysis.compare.compare import compare
from ggscope.analysis.compare.histogram import duration_histogram
from ggscope.analysis.compare.waterfall import waterfall
from ggscope.model.run import RecordingInfo
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.compare.charts import waterfall_rows
from ggscope.render.compare.rows_chart import RowsGeometry
from ggscope.render.compare.timelines import side_places, side_scenes
from ggscope.render.figure_style import FigureStyle
from ggscope.render.theme import theme
from ggscope.session.open_traces import OpenTraces, RunsRequest
from ggscope.session.session import Session
from ggscope.views.base.safe_text import ElidedLabel, Label
from ggscope.views.base.text_table import TextTable
from ggscope.views.compare.charts import DurationsPane, StepsPane
from ggscope.views.compare.rows import change_cells
from ggscope.views.compare.timelines import TimelinesPane
from ggscope.views.compare.view import CompareView
from pages import Page
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"
LEFT, SHIFT = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier
NONE = Qt.KeyboardModifier.NoModifier


class Desk:
    """A comparison of two tabs, on one of its pages."""

    def __init__(self, qtbot: QtBot, a: Trace, b: Trace | None) -> None:
        self.qtbot = qtbot
        self.request: RunsRequest | None = None
        self.tabs = OpenTraces(ask_folder=lambda: self.request)
        self.own, self.other = Session(), Session()
        self.own.set_trace(a)
        sessions = [("own", self.own)]
        if b is not None:
            self.other.set_trace(b)
            sessions.append(("other", self.other))
        self.tabs.set_sessions(sessions)
        self.own.open_traces = self.tabs
        self.view = CompareView(self.own, theme("dark"))
        qtbot.addWidget(self.view)
        self.view.resize(1000, 700)
        self.view.show()
        qtbot.waitExposed(self.view)
        self.wait()

    def wait(self) -> None:
        self.qtbot.waitUntil(
            lambda: self.own.tasks.is_idle and not self.view.model.is_stale,
            timeout=20_000,
        )

    def show(self, name: str) -> None:
        box = self.view.page_box
        box.setCurrentIndex(box.findData(name))
        self.wait()

    def timelines(self) -> TimelinesPane:
        self.show("timelines")
        page = self.view.page("timelines")
        assert isinstance(page, TimelinesPane)
        self.qtbot.waitUntil(lambda: page.scene_now() is not None)
        self.wait()
        return page

    def steps(self) -> StepsPane:
        self.show("steps")
        page = self.view.page("steps")
        assert isinstance(page, StepsPane)
        self.qtbot.waitUntil(lambda: page.waterfall is not None)
        return page

    def durations(self) -> DurationsPane:
        self.show("durations")
        page = self.view.page("durations")
        assert isinstance(page, DurationsPane)
        self.qtbot.waitUntil(lambda: page.histogram is not None)
        return page


A = llama_like_trace()
B = replace(slowed(A, 2), extent=TimeRange(2 * A.extent.start, 2 * A.extent.end))
MakeDesk = Callable[[Trace, Trace | None], Desk]


@pytest.fixture
def make_desk(qtbot: QtBot) -> Iterator[MakeDesk]:
    made: list[Desk] = []

    def make(a: Trace, b: Trace | None) -> Desk:
        made.append(Desk(qtbot, a, b))
        return made[-1]

    yield make
    for desk in made:
        desk.view.release()
        desk.own.close()
        desk.other.close()


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk(A, B)


def wheel(page: TimelinesPane, at: QPointF, dy: int, mods: Qt.KeyboardModifier) -> None:
    canvas = page.canvas
    event = QWheelEvent(
        at, canvas.mapToGlobal(at), QPoint(), QPoint(0, dy), Qt.MouseButton.NoButton,
        mods, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(canvas, event)


def drag(
    qtbot: QtBot, page: TimelinesPane, start: QPoint, dx: int, mods: Qt.KeyboardModifier
) -> None:
    qtbot.mousePress(page.canvas, LEFT, mods, start)
    for step in range(1, 5):
        qtbot.mouseMove(page.canvas, start + QPoint(dx * step // 4, 0))
    qtbot.mouseRelease(page.canvas, LEFT, mods, start + QPoint(dx, 0))


def span_place(page: TimelinesPane, side: int, span: int) -> QPoint:
    """Return the middle of a span in the picture."""
    scene = page.scene_now()
    part, place = side_scenes(scene)[side], side_places(scene)[side]
    key, row = part.index.row_of_span(span)
    box = part.layout.box_of(key)
    assert box is not None
    spans = part.index.trace.spans
    tick = (int(spans.start[span]) + int(spans.end[span])) // 2
    x = scene.time.x(tick - (scene.offset if side else 0))
    y = place.lanes + box.y + box.row_y[row] + box.row_height / 2 - part.scroll_y
    return QPoint(round(x), round(y))


# -- timelines -------------------------------------------------------------------------


def test_all_of_both_runs_is_shown_at_first(desk: Desk) -> None:
    page = desk.timelines()
    scene = page.scene_now()

    for part in side_scenes(scene):
        extent = part.index.trace.extent
        assert part.visible.start <= extent.start
        assert part.visible.end >= extent.end


def test_the_wheel_zooms_both_at_the_cursor(desk: Desk) -> None:
    page = desk.timelines()
    before, x = page.visible, 600.0
    tick = page.scene_now().time.tick(x)
    wheel(page, QPointF(x, 60), 240, Qt.KeyboardModifier.ControlModifier)

    first, second = side_scenes(page.scene_now())
    assert page.visible.duration < before.duration
    assert first.visible.duration == second.visible.duration
    assert abs(page.scene_now().time.x(tick) - x) < 2


@pytest.mark.parametrize(
    ("key", "is_moved", "is_zoomed"),
    [(Qt.Key.Key_W, True, True), (Qt.Key.Key_D, True, False),
     (Qt.Key.Key_Right, True, False), (Qt.Key.Key_F, True, True)],
)  # fmt: skip
def test_keys_zoom_and_pan_both(
    desk: Desk, qtbot: QtBot, key: Qt.Key, is_moved: bool, is_zoomed: bool
) -> None:
    page = desk.timelines()
    extent = A.extent
    page.set_visible(TimeRange(extent.start, extent.start + extent.duration // 3))
    before, own = page.visible, desk.own.viewport.visible
    qtbot.keyClick(page, key)

    assert (page.visible != before) is is_moved
    assert (page.visible.duration != before.duration) is is_zoomed
    assert desk.own.viewport.visible == own


def test_a_drag_pans_both(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    extent = A.extent
    page.set_visible(TimeRange(extent.start, extent.start + extent.duration // 3))
    page.set_visible(page.visible.shifted(extent.duration // 3))
    before, offset, ticks = page.visible, page.offset, page.ticks_per_px()
    drag(qtbot, page, QPoint(600, 100), -80, NONE)

    assert abs(page.visible.start - before.start - 80 * ticks) <= 3 * ticks
    assert page.offset == offset


def test_a_drag_of_the_axis_of_b_moves_b_alone(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    before, offset, ticks = page.visible, page.offset, page.ticks_per_px()
    y = side_places(page.scene_now())[1].axis + 8
    drag(qtbot, page, QPoint(600, round(y)), 80, NONE)

    assert page.visible == before
    assert abs(offset - page.offset - 80 * ticks) <= 3 * ticks
    assert page.anchor == "offset"


def test_shift_and_arrows_move_b(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    offset = page.offset
    qtbot.keyClick(page, Qt.Key.Key_Right, SHIFT)
    right = page.offset
    qtbot.keyClick(page, Qt.Key.Key_Left, SHIFT)

    assert right < offset == page.offset
    assert page.anchor == "offset"


def test_brackets_step_through_matched_tokens(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    tokens = page.tokens
    assert tokens is not None
    places = []
    for key in (Qt.Key.Key_BracketRight, Qt.Key.Key_BracketRight,
                Qt.Key.Key_BracketLeft):  # fmt: skip
        qtbot.keyClick(page, key)
        places.append(page.token)

    assert places == [0, 1, 0]
    assert page.anchor == "token"
    assert page.offset == int(tokens.start_b[0] - tokens.start_a[0])
    assert page.visible.contains(int(tokens.start_a[0]))


def test_phases_align_the_first_generated_token(desk: Desk) -> None:
    page = desk.timelines()
    page.set_anchor("phase")
    tokens = page.tokens

    assert tokens is not None
    row = tokens.first_generated
    assert row == 1
    assert page.offset == int(tokens.start_b[row] - tokens.start_a[row])


def test_runs_without_tokens_offer_no_token(make_desk: MakeDesk) -> None:
    trace = spans_trace([0, 100], [10, 150], op=[1, 2])
    desk = make_desk(trace, slowed(trace, 2))
    page = desk.timelines()
    box = page.anchor_box
    offered = [box.itemData(i) for i in range(box.count())]
    page.step_token(1)

    assert offered == ["start", "offset"]
    assert page.anchor == "start"


def test_a_click_selects_the_span_in_its_own_tab(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    lane = next(i for i, x in enumerate(A.lanes) if x.name == "thread 0")
    span = next(i for i in range(len(A.spans)) if A.spans.lane[i] == lane)
    page.set_visible(TimeRange(int(A.spans.start[span]) - 50, int(A.spans.end[span])))
    qtbot.mouseClick(page.canvas, LEFT, NONE, span_place(page, 0, span))
    own = desk.own.selection.current
    qtbot.mouseClick(page.canvas, LEFT, NONE, span_place(page, 1, span))

    assert (own.table, own.ids) == ("spans", (span,))
    other = desk.other.selection.current
    assert (other.table, other.ids) == ("spans", (span,))
    assert page.tooltip_at(*span_place(page, 1, span).toTuple())


def test_a_double_click_shows_the_span(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    tokens = page.tokens
    assert tokens is not None
    lane = next(i for i, x in enumerate(A.lanes) if x.name == "tokens")
    span = [i for i in range(len(A.spans)) if A.spans.lane[i] == lane][2]
    qtbot.mouseDClick(page.canvas, LEFT, NONE, span_place(page, 1, span))

    s, shift = B.spans, page.offset
    assert page.visible.start <= int(s.start[span]) - shift
    assert page.visible.end >= int(s.end[span]) - shift
    assert page.visible.duration < 1.5 * int(s.end[span] - s.start[span])


def test_groups_of_lanes_open_and_close_in_both(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    before = [len(part.layout) for part in side_scenes(page.scene_now())]
    page.toggle_group("Threads")
    desk.wait()
    qtbot.waitUntil(
        lambda: [len(p.layout) for p in side_scenes(page.scene_now())] != before
    )

    after = [len(part.layout) for part in side_scenes(page.scene_now())]
    assert all(low < high for low, high in zip(after, before, strict=True))


def test_it_follows_the_timeline_of_the_window(desk: Desk) -> None:
    page = desk.timelines()
    extent = A.extent
    expected = TimeRange(extent.start, extent.start + extent.duration // 4)
    desk.own.viewport.set_visible(expected)

    assert page.visible == expected


def test_a_row_lights_its_spans_in_both(desk: Desk, qtbot: QtBot) -> None:
    page = desk.timelines()
    desk.show("changes")
    table = desk.view.table
    table.selectRow(0)
    desk.view.page_box.setCurrentIndex(desk.view.page_box.findData("timelines"))
    qtbot.waitUntil(lambda: page.scene_now().b.highlighted is not None, timeout=20_000)

    key = desk.view.model.row(0)[0].text
    for side, trace in ((page.scene_now().a, A), (page.scene_now().b, B)):
        ops = [i for i in range(len(trace.spans)) if trace.spans.op[i] >= 0]
        own = [i for i in ops if trace.op_name(int(trace.spans.op[i])) == key]
        assert side.highlighted.ids.tolist() == own


# -- steps and durations ---------------------------------------------------------------


def test_steps_are_those_of_the_analysis(desk: Desk, qtbot: QtBot) -> None:
    page = desk.steps()
    page.by.setCurrentIndex(page.by.findData("part"))
    qtbot.waitUntil(lambda: page.waterfall is not None and page.waterfall.by == "part")

    expected = waterfall([A, B], align([A, B]), 1, "part")
    assert page.waterfall is not None
    assert page.waterfall.steps == expected.steps
    assert page.waterfall.total == expected.total


def test_a_click_on_a_step_lights_its_spans(desk: Desk, qtbot: QtBot) -> None:
    page = desk.steps()
    assert page.waterfall is not None
    row = next(
        i for i, step in enumerate(page.waterfall.steps, 1) if step.key == "matmul"
    )
    y = RowsGeometry(waterfall_rows(page.scene_now())).y(row) + 5
    qtbot.mouseClick(page.canvas, LEFT, NONE, QPoint(300, round(y)))

    group = desk.own.selection.current.group
    assert group is not None
    assert (group.by, group.key) == ("family", "matmul")


def test_arrows_go_through_steps_and_enter_lights_one(desk: Desk, qtbot: QtBot) -> None:
    page = desk.steps()
    assert page.waterfall is not None
    for _ in range(2):
        qtbot.keyClick(page, Qt.Key.Key_Down)
    message = page.accessibleDescription()
    qtbot.keyClick(page, Qt.Key.Key_Return)

    step = page.waterfall.steps[0]
    assert step.key in message
    group = desk.own.selection.current.group
    assert group is not None
    assert group.key == step.key


def test_every_row_of_steps_has_its_figures(desk: Desk) -> None:
    page = desk.steps()
    assert page.waterfall is not None

    texts = [page.row_text(row) for row in range(len(page.waterfall.steps) + 2)]
    assert all(texts)
    assert texts[0].startswith("A: ")
    assert texts[-1].startswith("B: other")


@pytest.mark.parametrize("is_log", [True, False])
def test_durations_are_those_of_the_selected_row(
    desk: Desk, qtbot: QtBot, is_log: bool
) -> None:
    desk.view.table.selectRow(1)
    key = desk.view.model.row(1)[0].text
    page = desk.durations()
    page.axis_box.setCurrentIndex(page.axis_box.findData(is_log))
    qtbot.waitUntil(
        lambda: page.histogram is not None and page.histogram.is_log is is_log
    )

    expected = duration_histogram(
        [A, B], align([A, B]), 1, "op", [key, key], is_log=is_log
    )
    assert page.histogram is not None
    assert page.histogram.key == key
    assert page.histogram.a.counts.tolist() == expected.a.counts.tolist()
    assert page.histogram.b.counts.tolist() == expected.b.counts.tolist()
    size = page.canvas_size()
    assert "A:" in page.tooltip_at(size.width() / 2, size.height() / 2)


# -- what has no match -----------------------------------------------------------------


def test_everything_without_a_match_is_listed(make_desk: MakeDesk) -> None:
    a, b = llama_like_trace(tokens=5), llama_like_trace(tokens=2)
    desk = make_desk(a, b)
    desk.show("unmatched")
    table = desk.view.page("unmatched")
    assert isinstance(table, TextTable)

    names = [table.rows.row(i)[1].text for i in range(table.rows.rowCount())]
    assert names == compare([a], [b]).alignment.runs[0].unmatched
    assert {table.rows.row(i)[2].text for i in range(len(names))} == {"A"}


# -- several runs ----------------------------------------------------------------------


def folder_of(tmp_path: Path, name: str, n: int) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    for i in range(n):
        shutil.copy(SAMPLE, folder / f"run{i}.bin")
    return folder


def test_a_folder_is_a_side_of_several_runs(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    folder = folder_of(tmp_path, "many", 3)
    desk = make_desk(A, None)
    desk.request = RunsRequest(folder)
    view = desk.view
    view.run_box.activated.emit(view.run_box.count() - 2)
    desk.wait()
    desk.request = RunsRequest(folder, left_out=None)
    view.own_box.activated.emit(view.own_box.count() - 1)
    desk.wait()

    assert view.result is not None
    assert len(view.result.alignment.runs) == 4 + 3
    assert "many (3 runs)" in view.run_box.currentText()
    assert "many (4 runs)" in view.own_box.currentText()
    titles = [heading.title for heading in view.model.headings]
    assert titles[-2:] == ["A range", "B range"]
    view.own_box.activated.emit(0)
    desk.wait()
    assert len(view.result.alignment.runs) == 1 + 3


def test_changes_within_the_range_of_the_runs_are_greyed() -> None:
    def run_of(ticks: int) -> Trace:
        return spans_trace([0, 1000], [ticks, 1500], op=[1, 2])

    comparison = compare([run_of(100), run_of(120)], [run_of(110), run_of(130)])
    cells = [change_cells(row, "ns", has_spread=True) for row in comparison.rows]
    noisy = next(row for row in cells if row[3].sort)
    assert all(cell.is_dim for cell in noisy)
    assert [cell.text for cell in noisy[-2:]] == [
        "100 ns … 120 ns", "110 ns … 130 ns"
    ]  # fmt: skip


def test_a_folder_without_several_runs_says_so(
    make_desk: MakeDesk, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    desk = make_desk(A, None)
    desk.request = RunsRequest(tmp_path / "empty")
    desk.view.run_box.activated.emit(desk.view.run_box.count() - 2)
    desk.wait()

    assert Page(desk.view).is_empty
    assert "empty" in Page(desk.view).placeholder


def test_pages_let_go_of_a_closed_tab(make_desk: MakeDesk) -> None:
    other = slowed(A, 3)
    desk = make_desk(A, other)
    gone = weakref.ref(other)
    desk.timelines()
    desk.steps()
    desk.durations()
    desk.tabs.set_sessions([("own", desk.own)])
    desk.other.close()
    desk.other = Session()
    del other
    desk.wait()

    def is_gone() -> bool:
        gc.collect()
        return gone() is None

    desk.qtbot.waitUntil(is_gone)


# -- figures ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["changes", "timelines", "steps", "durations"])
def test_each_page_is_a_figure(desk: Desk, name: str) -> None:
    desk.show(name)
    figure = desk.view.figure()

    assert figure is not None
    drawn = figure.draw(FigureStyle())
    assert drawn.picture.batches
    assert figure.recipe is not None


def test_a_partial_side_is_named(make_desk: MakeDesk) -> None:
    recording = RecordingInfo(
        settings={"ops": ["MUL_MAT"]}, n_changes=0, skipped_graphs=0, end="exited",
        signal="", whole=(), account=None,
    )  # fmt: skip
    desk = make_desk(A, replace(A, recordings=(recording,)))

    text = Page(desk.view).child(Label, "compare_headline").text()
    limits = Page(desk.view).child(ElidedLabel, "compare_limits")
    assert limits.isVisible()
    assert desk.view.result is not None
    assert desk.view.result.hidden[1].ops in limits.full_text
    assert "recorded" in text
