"""The table's dots: in the graph or not; rows highlighted by other selections."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Space
from ggscope.model.trace import Trace
from ggscope.render.theme import theme
from ggscope.session.session import Session, TraceChange
from ggscope.views.base.widgets import qcolor, space_color
from ggscope.views.table.view import TableView
from graph_traces import add_graph
from pages import TablePage

FOUND, MISSING = "Qcur-0", "l_out-0"


def with_graph(trace: Trace) -> Trace:
    """Return the llama-like trace with a graph of all its ops but l_out-0."""
    builder = TraceBuilder()
    builder.strings, builder.ops = trace.strings, builders.OPS
    steps = [
        (f"{step[0]}-{layer}", builders.op_number(step[1]))
        for layer in range(4)
        for step in builders.LAYER_STEPS
        if f"{step[0]}-{layer}" != MISSING
    ]
    add_graph(
        builder, [s[0] for s in steps], [], ops=[s[1] for s in steps], title="token 0"
    )
    return replace(trace, graphs=builder.snapshot(builders.make_info()).graphs)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(with_graph(builders.llama_like_trace()))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> Iterator[TableView]:
    view = TableView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(1100, 500)
    view.show()
    qtbot.waitExposed(view)
    yield view
    view.release()


def row_called(view: TableView, session: Session, name: str) -> int:
    trace = session.trace
    assert trace is not None
    order = view.model.order
    assert order is not None
    return next(
        row
        for row in range(len(order))
        if trace.span_name(view.model.span_at(row)) == name
    )


def tip(view: TableView, row: int) -> str:
    column = [c.key for c in view.model.columns].index("dot")
    index = view.model.index(row, column)
    return str(view.model.data(index, Qt.ItemDataRole.ToolTipRole))


def middle_of_dot(view: TableView, place: int) -> int:
    """Return the colour in the middle of the dot of a row, counted from the top."""
    picture = view.grid.viewport().grab().toImage()
    column = [c.key for c in view.model.columns].index("dot")
    header = view.grid.header
    x = header.sectionViewportPosition(column) + header.sectionSize(column) // 2
    y = place * view.grid.rows.compact_height + view.grid.rows.compact_height // 2
    return picture.pixelColor(x, y).rgb()


def test_dot_is_full_and_green_where_found_and_a_ring_where_not(
    view: TableView, session: Session
) -> None:
    result = row_called(view, session, FOUND)
    missing = row_called(view, session, MISSING)
    view.grid.show_row(0)

    assert view.model.text(result, "dot") == "●"
    assert view.model.text(missing, "dot") == "○"
    green = qcolor(space_color(Space.BUFFER, theme("dark"))).rgb()
    assert middle_of_dot(view, result) == green
    view.grid.show_row(missing)
    assert middle_of_dot(view, missing - view.grid.first_visible_row) != green


def test_tooltip_says_by_which_rule_or_why_not(
    view: TableView, session: Session
) -> None:
    assert tip(view, row_called(view, session, FOUND)) == (
        "Graph node Qcur-0 (MUL_MAT) in token 0, matched by name, op and order."
    )
    text = tip(view, row_called(view, session, MISSING))
    assert text.startswith("Not in the graph: no node matches “l_out-0”")
    assert "not compared" in text


def test_footer_shows_the_hit_rate_and_its_rules(view: TableView) -> None:
    label = TablePage(view).footer.matched

    assert label.isVisible()
    assert label.full_text == "344 of 352 in the graph (97.7 %)"
    assert "name, op and order: 344" in label.toolTip()
    assert "not matched: 8" in label.toolTip()


def test_there_are_no_dots_without_a_graph(view: TableView, session: Session) -> None:
    session.set_trace(builders.llama_like_trace())

    assert "dot" not in [c.key for c in view.model.columns]
    assert not TablePage(view).footer.matched.isVisible()


def test_dots_come_when_a_graph_joins(view: TableView, session: Session) -> None:
    plain = builders.llama_like_trace()
    session.set_trace(plain)

    session.set_trace(with_graph(plain), TraceChange.GREW)

    assert view.model.columns[0].key == "dot"
    assert view.model.text(row_called(view, session, FOUND), "dot") == "●"
    assert TablePage(view).footer.matched.isVisible()


def test_row_reads_whether_it_is_in_the_graph(
    view: TableView, session: Session
) -> None:
    assert view.model.row_text(row_called(view, session, FOUND)).endswith(
        ", in the graph"
    )
    assert "not in the graph" in view.model.row_text(row_called(view, session, MISSING))


def test_rows_of_a_selected_tensor_are_highlighted_and_none_is_selected(
    view: TableView, session: Session
) -> None:
    trace = session.trace
    assert trace is not None
    session.selection.select_tensor(1)

    highlighted = [s for s in range(len(trace.spans)) if view.model.is_highlighted(s)]

    assert highlighted == session.linking.linked.spans.tolist()
    order = view.model.order
    assert order is not None
    rows = {row: view.model.span_at(row) for row in range(len(order))}
    states = {row: view.grid.state_of(row) for row in rows}
    assert (
        sorted(rows[row] for row, state in states.items() if state.is_highlighted)
        == highlighted
    )
    assert not any(s.is_selected for s in states.values())


def test_highlighted_rows_look_different_and_selected_spans_are_not_highlighted(
    view: TableView, session: Session
) -> None:
    view.grid.show_row(0)
    before = view.grid.viewport().grab().toImage()

    session.selection.select_tensor(1)
    after = view.grid.viewport().grab().toImage()
    session.selection.select_span(1, reveal=False)

    row = row_called(view, session, FOUND)
    y = row * view.grid.rows.compact_height + view.grid.rows.compact_height // 2
    assert before.pixel(1, y) != after.pixel(1, y)
    assert after.pixelColor(0, y).rgb() == qcolor(theme("dark").selection).rgb()
    assert not view.model.is_highlighted(1)


def test_step_to_a_linked_span_scrolls_its_row_into_view(
    view: TableView, session: Session
) -> None:
    session.selection.select_tensor(20)

    session.navigator.step_span(-1)

    span = session.linking.current_span
    assert span is not None
    row = view.model.row_of(span)
    assert row is not None
    seen = view.grid.viewport().height() // view.grid.rows.compact_height
    assert view.grid.first_visible_row <= row < view.grid.first_visible_row + seen
