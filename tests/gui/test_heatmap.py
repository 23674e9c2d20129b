"""The file heatmap under real keys and mouse."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from builders import finished
from ggscope.analysis.links import Linked
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Selection
from ggscope.model.units import TimeRange
from ggscope.render.export import Figure
from ggscope.render.heatmap.scene import HeatMark
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.heatmap.interaction import heatmap_menu
from ggscope.views.heatmap.view import HeatmapView
from heat_traces import SLICE, moe_trace

TOKENS, LAYERS = 10, 3


@pytest.fixture
def session() -> Iterator[Session]:
    made = Session()
    made.set_trace(moe_trace(tokens=TOKENS, layers=LAYERS))
    yield made
    made.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> Iterator[HeatmapView]:
    made = HeatmapView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1000, 420)
    made.show()
    qtbot.waitExposed(made)
    qtbot.waitUntil(lambda: made.base is not None)
    made.setFocus()
    yield made
    made.release()


def at_unit(view: HeatmapView, unit: int, row: int = 0) -> QPoint:
    """Return the middle of a unit in a row of the picture."""
    place = view.geometry_now()
    assert place is not None
    begin, stop = place.scene.axis.unit_positions()
    x = place.x.x((int(begin[unit]) + int(stop[unit])) // 2)
    return QPoint(round(x), round((place.y_of_row(row) + place.y_of_row(row + 1)) / 2))


def unit_named(view: HeatmapView, name: str, expert: int = -1) -> int:
    assert view.base is not None
    place = view.geometry_now()
    assert place is not None
    files = view.base.files
    return next(
        u for u in range(len(files))
        if place.scene.tensor_name(int(files.tensor[u])) == name
        and int(files.expert[u]) == expert
    )  # fmt: skip


def wheel(
    view: HeatmapView, at: QPoint, steps: int,
    mods: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:  # fmt: skip
    event = QWheelEvent(
        QPointF(at), view.canvas.mapToGlobal(QPointF(at)), QPoint(),
        QPoint(0, 120 * steps), Qt.MouseButton.NoButton, mods,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(view.canvas, event)


def drag(
    view: HeatmapView, start: QPoint, end: QPoint,
    button: Qt.MouseButton = Qt.MouseButton.LeftButton,
    mods: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
) -> None:  # fmt: skip
    QTest.mousePress(view.canvas, button, mods, start)
    QTest.mouseMove(view.canvas, (start + end) / 2)
    QTest.mouseMove(view.canvas, end)
    QTest.mouseRelease(view.canvas, button, mods, end)


def key(
    view: HeatmapView, which: Qt.Key, mods: Qt.KeyboardModifier | None = None
) -> None:
    QTest.keyClick(view, which, mods or Qt.KeyboardModifier.NoModifier)


def test_first_picture_shows_the_whole_file_and_all_rows(view: HeatmapView) -> None:
    assert view.base is not None
    assert view.shown is not None

    assert (view.shown.begin, view.shown.stop) == (0, view.base.files.extent)
    assert (view.shown.top, view.shown.bottom) == (0, TOKENS)


def test_ctrl_wheel_zooms_and_keeps_the_byte_under_the_mouse(view: HeatmapView) -> None:
    at = at_unit(view, 5)
    before = view.geometry_now()
    assert before is not None

    wheel(view, at, 5, Qt.KeyboardModifier.ControlModifier)

    after = view.geometry_now()
    assert after is not None
    assert after.x.duration < before.x.duration / 2
    moved = after.x.x(before.position_at(at.x())) - at.x()
    assert abs(moved) < 2


def test_zoom_reaches_single_bytes_and_home_brings_everything_back(
    view: HeatmapView,
) -> None:
    assert view.shown is not None
    whole = view.shown
    at = at_unit(view, 4)
    for _ in range(40):
        wheel(view, at, 5, Qt.KeyboardModifier.ControlModifier)

    assert view.shown.stop - view.shown.begin == 16

    key(view, Qt.Key.Key_0)

    assert view.shown == whole


def test_wheel_scrolls_rows_only_where_some_are_out_of_view(view: HeatmapView) -> None:
    assert view.shown is not None
    at = at_unit(view, 4)
    wheel(view, at, -3)
    assert view.shown.top == 0

    both = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    wheel(view, at, 8, both)
    assert view.shown.bottom - view.shown.top < TOKENS
    wheel(view, at, -8)

    assert view.shown.bottom == TOKENS


@pytest.mark.parametrize(
    ("forth", "back"),
    [(Qt.Key.Key_W, Qt.Key.Key_S), (Qt.Key.Key_Plus, Qt.Key.Key_Minus)],
)
def test_zoom_keys_zoom_in_and_out(
    view: HeatmapView, forth: Qt.Key, back: Qt.Key
) -> None:
    assert view.shown is not None
    whole = view.shown.stop - view.shown.begin

    key(view, forth)
    inside = view.shown.stop - view.shown.begin
    key(view, back)

    assert inside < whole
    assert view.shown.stop - view.shown.begin >= whole - 1


def test_pan_keys_move_by_a_quarter(view: HeatmapView) -> None:
    key(view, Qt.Key.Key_W)
    key(view, Qt.Key.Key_W)
    assert view.shown is not None
    begin, width = view.shown.begin, view.shown.stop - view.shown.begin

    key(view, Qt.Key.Key_D)
    assert view.shown.begin == begin + round(width / 4)
    key(view, Qt.Key.Key_Left)
    assert view.shown.begin == begin


def test_click_selects_the_tensor_under_the_mouse(
    view: HeatmapView, session: Session
) -> None:
    unit = unit_named(view, "blk.1.attn_q.weight")
    assert view.base is not None

    QTest.mouseClick(view.canvas, Qt.MouseButton.LeftButton, pos=at_unit(view, unit))

    tensor = int(view.base.files.tensor[unit])
    assert session.selection.current == Selection("tensors", (tensor,))


def test_double_click_fits_the_stack_and_again_the_slice(view: HeatmapView) -> None:
    unit = unit_named(view, "blk.1.ffn_up_exps.weight", 3)
    for _ in range(2):
        QTest.mouseDClick(
            view.canvas, Qt.MouseButton.LeftButton, pos=at_unit(view, unit)
        )

    assert view.shown is not None
    assert SLICE <= view.shown.stop - view.shown.begin <= SLICE * 1.2


def test_drag_marks_bytes_and_enter_filters_to_them(
    view: HeatmapView, session: Session
) -> None:
    first = unit_named(view, "blk.1.attn_q.weight")
    start = at_unit(view, first)
    drag(view, start, start + QPoint(40, 0))
    assert view.mark is not None
    begin, stop = view.mark.begin, view.mark.stop
    assert view.mark.top == -1
    assert not view.head.filter.isHidden()

    key(view, Qt.Key.Key_Return)

    assert session.queries.filter.offsets == (begin, stop)
    assert view.mark is None


def test_drag_over_rows_filters_to_their_tokens_too(
    view: HeatmapView, session: Session
) -> None:
    start, end = at_unit(view, 3, 2), at_unit(view, 4, 5)
    drag(view, start, end)

    view.head.filter.click()

    assert session.queries.filter.tokens == frozenset({2, 3, 4, 5})


def test_escape_unmarks(view: HeatmapView) -> None:
    start = at_unit(view, 3)
    drag(view, start, start + QPoint(60, 0))

    key(view, Qt.Key.Key_Escape)

    assert view.mark is None
    assert view.head.filter.isHidden()


@pytest.mark.parametrize(
    ("button", "mods"),
    [
        (Qt.MouseButton.MiddleButton, Qt.KeyboardModifier.NoModifier),
        (Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ShiftModifier),
    ],
)
def test_middle_and_shift_drag_pan(
    view: HeatmapView, button: Qt.MouseButton, mods: Qt.KeyboardModifier
) -> None:
    for _ in range(3):
        key(view, Qt.Key.Key_W)
    assert view.shown is not None
    begin = view.shown.begin

    drag(view, QPoint(500, 200), QPoint(400, 200), button, mods)

    assert view.shown.begin > begin
    assert view.mark is None


def test_ctrl_drag_zooms_to_what_it_covers(view: HeatmapView) -> None:
    assert view.shown is not None
    whole = view.shown.stop - view.shown.begin

    drag(view, QPoint(300, 200), QPoint(400, 200),
         mods=Qt.KeyboardModifier.ControlModifier)  # fmt: skip

    assert view.shown.stop - view.shown.begin == pytest.approx(whole / 9, rel=0.02)
    assert view.mark is None


def test_tooltip_names_tensor_expert_offsets_and_row(view: HeatmapView) -> None:
    unit = unit_named(view, "blk.2.ffn_up_exps.weight", 7)
    at = at_unit(view, unit, 4)
    event = QHelpEvent(QEvent.Type.ToolTip, at, view.canvas.mapToGlobal(at))

    QApplication.sendEvent(view.canvas, event)

    text = QToolTip.text()
    assert view.base is not None
    for part in ("blk.2.ffn_up_exps.weight[7]", "65,536 bytes", "token 4", "never"):
        assert part in text
    QToolTip.hideText()


def test_tooltip_distinguish_header_padding_and_buffers(view: HeatmapView) -> None:
    place = view.geometry_now()
    assert place is not None
    assert view.base is not None
    files = view.base.files
    padding = int(files.gaps()[-1].mean())
    y = (place.disk[0] + place.disk[1]) / 2

    header = view.tooltip_at(place.x.x(1_000), y)
    gap = view.tooltip_at(place.x.x(padding), y)
    buffer = view.tooltip_at(400, (place.buffer[0] + place.buffer[1]) / 2)

    assert "Header" in header
    assert "No tensor" in gap
    assert "activation" in buffer


@pytest.mark.parametrize(
    ("rows", "n"), [("token", TOKENS), ("pass", TOKENS), ("layer", LAYERS + 1)]
)
def test_rows_combo_counts_anew(
    view: HeatmapView, qtbot: QtBot, rows: str, n: int
) -> None:
    box = view.head.rows
    box.setCurrentIndex(box.findData(rows))

    qtbot.waitUntil(lambda: view.base is not None and view.base.rows.kind == rows)

    assert view.base is not None
    assert view.shown is not None
    assert len(view.base.rows) == n
    assert (view.shown.top, view.shown.bottom) == (0, n)


def test_rows_of_time_follow_the_visible_range(
    view: HeatmapView, session: Session, qtbot: QtBot
) -> None:
    box = view.head.rows
    box.setCurrentIndex(box.findData("time"))
    qtbot.waitUntil(lambda: view.base is not None and view.base.rows.kind == "time")

    session.viewport.set_visible(TimeRange(5_000, 15_000))

    qtbot.waitUntil(lambda: view.base is not None and view.base.rows.first[0] == 5_000)


def test_equal_width_keeps_the_bytes_that_were_shown(view: HeatmapView) -> None:
    unit = unit_named(view, "blk.1.ffn_up_exps.weight", 2)
    view.fit_unit(unit)

    view.head.axis.setCurrentIndex(view.head.axis.findData("equal"))

    assert view.axis is not None
    assert view.shown is not None
    middle = view.axis.unit_at((view.shown.begin + view.shown.stop) // 2)
    assert view.base is not None
    assert view.base.files.tensor[middle] == view.base.files.tensor[unit]


def test_selection_made_elsewhere_is_brought_into_view(
    view: HeatmapView, session: Session
) -> None:
    view.fit_unit(unit_named(view, "blk.0.attn_q.weight"))
    assert view.base is not None
    assert view.shown is not None
    tensor = int(view.base.files.tensor[unit_named(view, "output.weight")])
    session.selection.select(Selection("tensors", (tensor,)))
    ends = view.base.files.first[tensor], view.base.files.stop[tensor]
    linked = Linked(
        selection=session.selection.current, tensors=np.array([tensor]),
        ranges=np.array([ends], np.int64),
    )  # fmt: skip
    session.linking.linked = linked

    session.linking.linked_changed.emit(linked)

    assert view.shown.begin < ends[1]
    assert view.shown.stop > ends[0]


def test_own_selection_does_not_move_the_view(
    view: HeatmapView, session: Session
) -> None:
    view.fit_unit(unit_named(view, "blk.0.attn_q.weight"))
    before = view.shown

    view.select_tensor(unit_named(view, "token_embd.weight"))
    session.linking.linked_changed.emit(session.linking.linked)

    assert view.shown == before


def test_f_centres_the_selection_and_then_fits_it(
    view: HeatmapView, session: Session
) -> None:
    assert view.base is not None
    unit = unit_named(view, "blk.2.attn_q.weight")
    view.select_tensor(int(view.base.files.tensor[unit]))
    for _ in range(4):
        key(view, Qt.Key.Key_W)

    key(view, Qt.Key.Key_F)
    key(view, Qt.Key.Key_F)

    assert view.shown is not None
    begin, size = int(view.base.files.offset[unit]), int(view.base.files.size[unit])
    assert view.shown.begin <= begin < begin + size <= view.shown.stop
    assert view.shown.stop - view.shown.begin < size * 1.2


def test_filter_counts_only_what_passes(
    view: HeatmapView, session: Session, qtbot: QtBot
) -> None:
    assert view.base is not None
    whole = view.base.totals.file_bytes

    session.queries.set_filter(replace(session.queries.filter, tokens=frozenset({1})))

    qtbot.waitUntil(
        lambda: view.base is not None and 0 < view.base.totals.file_bytes < whole
    )


def test_menu_offers_the_tensor_and_copies_its_name(view: HeatmapView) -> None:
    unit = unit_named(view, "blk.1.attn_q.weight")
    menu = heatmap_menu(view, QPointF(at_unit(view, unit)))
    assert menu is not None
    entries = {entry.text(): entry for entry in menu.actions()}

    entries["Copy name"].trigger()

    assert QGuiApplication.clipboard().text() == "blk.1.attn_q.weight"
    assert {"Fit this tensor", "Show only this tensor", "Export figure…"} <= set(
        entries
    )
    menu.deleteLater()


def test_menu_filters_to_the_tensor(view: HeatmapView, session: Session) -> None:
    unit = unit_named(view, "blk.1.attn_q.weight")
    menu = heatmap_menu(view, QPointF(at_unit(view, unit)))
    assert menu is not None

    next(e for e in menu.actions() if e.text() == "Show only this tensor").trigger()

    assert session.queries.filter.tensors == frozenset({"blk.1.attn_q.weight"})
    menu.deleteLater()


def test_shown_picture_is_exported_without_the_mouse(
    view: HeatmapView, tmp_path
) -> None:
    path, other = tmp_path / "heat.svg", tmp_path / "hover.svg"
    menu = heatmap_menu(view, QPointF(500, 200))
    assert menu is not None
    expected: list[Figure] = []
    view.figure_requested.connect(expected.append)

    next(e for e in menu.actions() if e.text() == "Export figure…").trigger()
    expected[0].write(path)
    view.set_hover(QPointF(500, 200))
    view.figure().write(other)

    assert "<svg" in path.read_text("utf-8")
    assert path.read_text("utf-8") == other.read_text("utf-8")
    menu.deleteLater()


def test_trace_without_accesses_says_so(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(finished(TraceBuilder()))
    view = HeatmapView(session, theme("dark"))
    qtbot.addWidget(view)
    view.show()
    qtbot.waitUntil(lambda: view.base is not None)

    assert view.placeholder_text()[0] == "No accesses"
    assert view.picture(400, 200, 1).batches

    view.release()
    session.close()


def test_picture_goes_with_the_trace(view: HeatmapView, session: Session) -> None:
    session.close()

    assert view.base is None
    assert view.picture(400, 200, 1).batches


def test_every_look_is_drawn_in_every_theme(view: HeatmapView, qtbot: QtBot) -> None:
    view.set_mark(HeatMark(100_000, 400_000, 1, 3))
    for name in ("dark", "light"):
        view.set_theme(theme(name))
        for box in (view.head.shows, view.head.scale, view.head.colors):
            for i in range(box.count()):
                box.setCurrentIndex(i)
                picture = view.picture(900, 400, 1)
                assert len(picture.batches) > 10
                assert picture.background == theme(name).pane


def test_replay_veils_rows_that_are_still_to_come(
    view: HeatmapView, session: Session, qtbot: QtBot
) -> None:
    trace = session.trace
    assert view.scene_now().n_begun is None
    tokens = np.unique(trace.spans.token[trace.spans.token >= 0]).tolist()
    starts = [int(trace.spans.start[trace.spans.token == t].min()) for t in tokens]
    view.setFocus()

    QTest.keyClick(view, Qt.Key.Key_Space)
    assert session.replay.is_playing
    QTest.keyClick(view, Qt.Key.Key_Space)
    assert not session.replay.is_playing
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    for row in (2, 5):
        share = (starts[row] - trace.extent.start) / trace.extent.duration
        session.replay.go_to(share)
        assert view.scene_now().n_begun == row + 1
    whole = pixels_of_rows(view)
    QTest.keyClick(view, Qt.Key.Key_Period)
    assert session.replay.tick == starts[6]
    assert view.scene_now().n_begun == 7
    QTest.keyClick(view, Qt.Key.Key_Comma)
    assert (pixels_of_rows(view) == whole).all()
    QTest.keyClick(view, Qt.Key.Key_Escape)
    assert session.replay.tick is None
    assert view.scene_now().n_begun is None
    assert not (pixels_of_rows(view) == whole).all()


def pixels_of_rows(view: HeatmapView) -> np.ndarray:
    """Return a column of pixels through all rows."""
    image = view.canvas.grab().toImage()
    place = view.geometry_now()
    x = round((place.x.x0 + place.x.x1) / 3)
    low, high = (round(y) for y in place.heat)
    return np.array([image.pixelColor(x, y).rgb() for y in range(low, high)])
