"""The view of experts, with a real mouse and real keys."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from expert_traces import (
    accessing,
    falling_scores,
    random_choices,
    routed,
    routing,
    tensors,
)
from ggscope.analysis.experts.figures import Beside, experts_result
from ggscope.model.builder import TraceBuilder
from ggscope.model.routing import expert_key
from ggscope.model.selection import Filter, Selection
from ggscope.model.trace import Trace
from ggscope.render.experts import Measure, frames, main_grid
from ggscope.render.grid import Cell, GridGeometry
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.experts.texts import beside_text
from ggscope.views.experts.view import ExpertsView
from scenes import texts_of
from statements import new_statement

LEFT = Qt.MouseButton.LeftButton
CTRL = Qt.KeyboardModifier.ControlModifier
NONE = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    chosen = random_choices(1, 30, 6, 16, 2)
    score = falling_scores(1, chosen.shape)
    session.set_trace(routed(chosen, score=score, n_experts=16, layers=range(4, 10)))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> ExpertsView:
    made = ExpertsView(session, theme("dark"))
    qtbot.addWidget(made)
    made.resize(1100, 340)
    made.show()
    qtbot.waitExposed(made)
    settled(qtbot, made)
    return made


def settled(qtbot: QtBot, view: ExpertsView) -> None:
    """Wait until what is shown is what was asked for."""
    qtbot.waitUntil(
        lambda: (
            view.session is not None
            and view.session.tasks.is_idle
            and view.result is not None
            and view.result.beside is view.beside
            and view.result.share == view.cover.share
        )
    )


def choose(view: ExpertsView, name: str, value: object) -> None:
    combo = getattr(view.bar, name)
    combo.setCurrentIndex(combo.findData(value))


def place_of(view: ExpertsView, cell: Cell) -> QPoint:
    """Return where on the canvas the middle of a cell is."""
    size = view.canvas_size()
    scene = view.scene(size.width(), size.height(), 1.0)
    assert scene is not None
    main, _ = frames(scene)
    place = GridGeometry(main_grid(scene, main))
    x, y = place.column_edges(), place.row_edges()
    row, column = cell
    return QPoint(
        round((x[column] + x[column + 1]) / 2), round((y[row] + y[row + 1]) / 2)
    )


def shown(view: ExpertsView) -> list[str]:
    size = view.canvas_size()
    return texts_of(view.picture(size.width(), size.height(), 1.0))


def test_figures_name_source_utilisation_and_hottest(view: ExpertsView) -> None:
    full_text = view.bar.about.full_text

    result = view.result
    assert result is not None
    assert full_text.startswith("routing recorded · ")
    assert "of 96 expert slots used" in full_text
    assert f"hottest {result.figures.hottest_ratio:.1f}× uniform (layer " in full_text
    assert "30 tokens" in full_text
    assert "(from the model)" in view.bar.about.toolTip()
    view.resize(1900, 340)  # where the words are no longer cut
    QTest.qWait(1)
    assert "(from the model)" in view.bar.about.toolTip()


def test_click_selects_the_expert_and_ctrl_adds(
    view: ExpertsView, session: Session
) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, place_of(view, (2, 5)))
    QTest.mouseClick(view.canvas, LEFT, CTRL, place_of(view, (0, 1)))

    expected = (expert_key(4, 1), expert_key(6, 5))
    assert session.selection.current == Selection("experts", expected)


def test_ctrl_click_on_a_selected_expert_takes_it_out(
    view: ExpertsView, session: Session
) -> None:
    for modifier in (NONE, CTRL):
        QTest.mouseClick(view.canvas, LEFT, modifier, place_of(view, (2, 5)))

    assert not session.selection.current


def test_click_beside_the_cells_selects_nothing(
    view: ExpertsView, session: Session
) -> None:
    session.selection.select(Selection("experts", (expert_key(4, 1),)))

    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(3, 3))

    assert not session.selection.current


def test_double_click_filters_to_the_expert(
    view: ExpertsView, session: Session
) -> None:
    QTest.mouseDClick(view.canvas, LEFT, NONE, place_of(view, (1, 3)))

    assert session.queries.filter == Filter(
        experts=frozenset({3}), layers=frozenset({5})
    )


def test_menu_filters_and_copies(view: ExpertsView, session: Session) -> None:
    at = place_of(view, (1, 3))
    menu = view.menu_at(at.x(), at.y())
    assert menu is not None
    actions = {action.text(): action for action in menu.actions()}

    actions["Copy details"].trigger()
    actions["Show only this expert"].trigger()

    assert QGuiApplication.clipboard().text().startswith("layer 5 · expert 3\n")
    assert session.queries.filter.experts == frozenset({3})
    assert view.menu_at(2, 2) is None


def test_arrows_move_the_cursor_and_enter_selects(
    view: ExpertsView, session: Session
) -> None:
    view.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left):
        QTest.keyClick(view, key)
    assert view.accessibleDescription().startswith("layer 5 · expert 0\n")

    QTest.keyClick(view, Qt.Key.Key_Return)

    assert session.selection.current == Selection("experts", (expert_key(5, 0),))


def test_cursor_stays_inside_the_matrix(view: ExpertsView, session: Session) -> None:
    view.setFocus()
    for _ in range(12):
        QTest.keyClick(view, Qt.Key.Key_Down)
    QTest.keyClick(view, Qt.Key.Key_Up)
    QTest.keyClick(view, Qt.Key.Key_Space)

    assert session.selection.current.ids == (expert_key(8, 0),)


def test_tooltip_shows_count_share_and_ranks(view: ExpertsView) -> None:
    result = view.result
    assert result is not None
    row, expert = result.figures.hottest or (0, 0)
    at = place_of(view, (row, expert))

    tooltip = view.tooltip_at(at.x(), at.y())

    count = int(result.grid.count[row, expert])
    assert f"layer {4 + row} · expert {expert}" in tooltip
    assert f"{count} choices" in tooltip
    assert "rank 0: " in tooltip
    assert "sizes unknown" in tooltip


def test_tooltip_of_the_second_picture_shows_the_overlap(view: ExpertsView) -> None:
    tooltips = {
        view.tooltip_at(x, 120) for x in range(0, int(view.canvas_size().width()), 3)
    }

    assert any("also used by the previous token" in w for w in tooltips)
    assert any("previous token not recorded" in w for w in tooltips)


def beside_words_of(
    trace: Trace, beside: Beside, *cells: Cell, layer: int | None = None
) -> str:
    result = experts_result(trace, None, None, layer, beside)
    return "\n".join(beside_text(result, cell) for cell in cells)


def test_overlap_says_why_it_is_not_known() -> None:
    pairs = [[[1, 2]], [[1, 3]], [[1, 2]]]
    near = routed(pairs)
    far = routed(pairs, tokens=[0, 1, 5])
    more = replace(
        near,
        routing=replace(near.routing, n_more=np.array([0, 0, 1, 1, 0, 0], np.int32)),
    )
    first, after, behind_gap, is_open = (
        beside_words_of(trace, Beside.OVERLAP, cell)
        for trace, cell in (
            (near, (0, 0)), (near, (0, 1)), (far, (0, 2)), (more, (0, 1)),
        )
    )  # fmt: skip

    for message in (first, behind_gap):
        assert new_statement(message, after + is_open)
    assert new_statement(after, first + behind_gap + is_open)
    assert new_statement(is_open, after + first + behind_gap)


def test_pairs_of_experts_are_reported_as_what_they_are() -> None:
    trace = routed([[[0, 2]], [[0, 1]], [[0, 2]]])
    alone, both = ((0, 0),), ((0, 2),)

    def shown(beside: Beside, cells: tuple[Cell, ...]) -> str:
        return beside_words_of(trace, beside, *cells)

    same = shown(Beside.TOGETHER, alone)
    together, then = shown(Beside.TOGETHER, both), shown(Beside.TRANSITION, both)
    again = shown(Beside.TRANSITION, alone)  # it may work for two tokens in turn
    assert new_statement(same, together + then + again)
    assert new_statement(together, same + then + again)
    assert new_statement(then, same + together)
    assert new_statement(again, same + together)
    assert "expert 0, then expert 0 for the next token: 2 times" in again


def test_one_token_is_counted_alone(qtbot: QtBot, view: ExpertsView) -> None:
    choose(view, "token", 7)
    qtbot.waitUntil(lambda: view.result is not None and view.result.token == 7)

    result = view.result
    assert result is not None
    assert result.grid.count.sum() == 6 * 2
    assert "Experts · token 7" in shown(view)


@pytest.mark.parametrize(
    ("beside", "heading"),
    [
        (Beside.TRANSITION, "From token to token, all layers"),
        (Beside.TOGETHER, "Working together, all layers"),
        (Beside.SCORES, "Router scores, all layers"),
    ],
)
def test_second_picture_follows_the_choice(
    qtbot: QtBot, view: ExpertsView, beside: Beside, heading: str
) -> None:
    choose(view, "beside", beside)
    settled(qtbot, view)

    assert heading in shown(view)


def test_layer_of_the_second_picture_is_the_chosen_one(
    qtbot: QtBot, view: ExpertsView
) -> None:
    choose(view, "beside", Beside.TRANSITION)
    choose(view, "layer", 2)
    qtbot.waitUntil(lambda: view.result is not None and view.result.layer == 2)

    assert "From token to token, layer 6" in shown(view)
    assert view.result is not None
    assert view.result.matrix is not None
    assert view.result.matrix.sum() == 29 * 2 * 2


def test_measure_changes_the_colour_bar_only(view: ExpertsView) -> None:
    assert "choices" in shown(view)

    choose(view, "measure", Measure.SHARE)

    assert "share of the layer" in shown(view)


def test_coverage_lists_what_to_pin_and_follows_the_slider(
    qtbot: QtBot, view: ExpertsView
) -> None:
    choose(view, "beside", Beside.COVER)
    settled(qtbot, view)
    model = view.cover.model
    before = [int(model.row(i)[1].raw or 0) for i in range(model.rowCount())]

    view.cover.slider.setFocus()
    for _ in range(8):
        QTest.keyClick(view.cover.slider, Qt.Key.Key_PageDown)
    settled(qtbot, view)

    after = [int(model.row(i)[1].raw or 0) for i in range(model.rowCount())]
    assert model.row(0)[0].text == "4"
    assert view.cover.share == 0.5
    assert all(a < b for a, b in zip(after, before, strict=True))
    assert model.row(0)[1].tip.startswith(
        f"pin {after[0]} of 16 experts in layer 4 for "
    )


def test_coverage_is_copied_as_a_table(qtbot: QtBot, view: ExpertsView) -> None:
    choose(view, "beside", Beside.COVER)
    settled(qtbot, view)
    view.cover.table.setFocus()

    QTest.keyClick(view.cover.table, Qt.Key.Key_C, CTRL)

    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0].split("\t") == [
        "layer",
        "pin",
        "reached",
        "size (bytes)",
        "choices",
        "never",
        "experts",
    ]
    assert len(lines) == 7


def test_opening_a_line_selects_the_experts_to_pin(
    qtbot: QtBot, view: ExpertsView, session: Session
) -> None:
    choose(view, "beside", Beside.COVER)
    settled(qtbot, view)
    view.cover.table.setFocus()
    view.cover.table.selectRow(1)

    QTest.keyClick(view.cover.table, Qt.Key.Key_Return)

    assert view.result is not None
    pinned = view.result.covers[1].experts
    assert session.selection.current.ids == tuple(expert_key(5, e) for e in pinned)


def test_another_trace_is_counted_anew(
    qtbot: QtBot, view: ExpertsView, session: Session
) -> None:
    choose(view, "token", 29)
    session.set_trace(routed(random_choices(2, 3, 2, 4, 1), n_experts=4))
    qtbot.waitUntil(lambda: "of 8 expert slots used" in view.bar.about.full_text)
    settled(qtbot, view)

    assert view.bar.token.count() == 4
    assert view.bar.token.currentData() is None


@pytest.mark.parametrize(
    ("trace", "text"),
    [
        (builders.llama_like_trace(tokens=2, layers=2), "No experts in this trace"),
        (
            accessing([[(0, 0, -1, 9)]], [0], [0],
                      [("blk.0.ffn_up_exps.weight", -1, -1, 0, -1, 0)]),
            "Routing not recorded",
        ),
    ],
)  # fmt: skip
def test_it_says_why_there_is_nothing(
    qtbot: QtBot, view: ExpertsView, session: Session, trace: object, text: str
) -> None:
    session.set_trace(trace)  # type: ignore[arg-type]

    qtbot.waitUntil(lambda: text in shown(view))
    assert view.tooltip_at(100, 100) == ""


def test_a_released_view_hears_nothing(view: ExpertsView, session: Session) -> None:
    result = view.result
    view.release()

    session.set_trace(builders.nested_trace())

    assert view.result is result


def test_light_theme_and_larger_font_are_drawn(view: ExpertsView) -> None:
    view.set_theme(theme("light"))
    view.set_zoom(1.5)

    picture = view.grab().toImage()

    assert not picture.isNull()
    assert np.unique([picture.pixel(x, 150) for x in range(0, 600, 7)]).size > 3


def test_tooltip_and_coverage_show_slices_and_sizes_where_they_are_known(
    qtbot: QtBot, view: ExpertsView, session: Session
) -> None:
    builder = TraceBuilder()
    names = ("gate", "up", "down", "gate_bias", "up_bias")
    builder.tensors = tensors(
        builder,
        [(f"blk.0.ffn_{n}_exps.weight", 4096 * (i + 1), 4096, 0, -1, 4)
         for i, n in enumerate(names)],
    )  # fmt: skip
    builder.routing = routing(np.array([[[1]], [[1]]]))
    session.set_trace(builders.finished(builder))
    qtbot.waitUntil(lambda: "of 4 expert slots used" in view.bar.about.full_text)
    choose(view, "beside", Beside.COVER)
    settled(qtbot, view)

    at = place_of(view, (0, 1))
    tooltip = view.tooltip_at(at.x(), at.y())

    assert "10.0 KiB to read (10,240 bytes), derived" in tooltip
    assert "slice at 0x1400, 1,024 bytes" in tooltip
    assert "and 1 more" in tooltip
    assert (
        view.cover.summary.full_text
        == "pin 1 of 4 slots · 5.0 KiB (25.0 % of all experts)"
    )
    assert view.cover.model.row(0)[3].text == "5.0 KiB"


def test_accesses_are_not_called_choices(
    qtbot: QtBot, view: ExpertsView, session: Session
) -> None:
    rows = [(f"blk.0.ffn_up_exps.weight[{k}]", -1, -1, 0, k, 0) for k in range(3)]
    session.set_trace(accessing([[(1, -1, -1, 2048)]], [0, 0], [0, 1], rows))
    qtbot.waitUntil(lambda: "of 3 expert slots used" in view.bar.about.full_text)

    at = place_of(view, (0, 1))

    assert view.bar.about.full_text.startswith("derived from expert accesses · ")
    assert "2 accesses" in view.tooltip_at(at.x(), at.y())
    assert "4.0 KiB read (4,096 bytes)" in view.tooltip_at(at.x(), at.y())


def test_tooltips_of_pairs_show_how_often(qtbot: QtBot, view: ExpertsView) -> None:
    for beside, text in (
        (Beside.TRANSITION, "then expert 0 for the next token: "),
        (Beside.TOGETHER, "with itself"),
    ):
        choose(view, "beside", beside)
        settled(qtbot, view)

        xs = range(0, int(view.canvas_size().width()), 3)

        assert any(text in view.tooltip_at(x, 34) for x in xs)


def test_choices_of_a_phase_are_counted_alone(
    view: ExpertsView, session: Session, qtbot: QtBot
) -> None:
    trace = session.trace
    assert trace is not None
    assert view.bar.phase.isHidden()
    phase = (trace.routing.token >= 10).astype(np.int8)
    session.set_trace(replace(trace, routing=replace(trace.routing, phase=phase)))
    settled(qtbot, view)
    assert not view.bar.phase.isHidden()

    for name, n_tokens in (("prompt", 10), ("generation", 20), ("all phases", 30)):
        view.bar.phase.setCurrentText(name)
        settled(qtbot, view)

        assert view.result is not None
        assert len(view.result.base.choices.tokens) == n_tokens
        assert view.result.grid.count.sum() == n_tokens * 6 * 2

    view.bar.phase.setCurrentText("prompt")
    session.set_trace(trace)
    settled(qtbot, view)

    assert view.bar.phase.isHidden()
    assert view.result is not None
    assert len(view.result.base.choices.tokens) == 30
