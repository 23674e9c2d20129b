"""Details of tensors, buffers, nodes and experts, and the links between views."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.statistics.table import stat_table
from ggscope.entities.entity import MAX_RELATED
from ggscope.model.routing import expert_key
from ggscope.model.selection import Filter, Selection, SpanGroup
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_duration
from ggscope.render.theme import theme
from ggscope.session import linking
from ggscope.session.session import Session
from ggscope.views.details.links import SpanSteps
from ggscope.views.details.view import DetailsView
from graph_traces import network_trace
from link_traces import EXPS, random_links_trace
from pages import DetailsPage

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(random_links_trace(4))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> Iterator[DetailsView]:
    view = DetailsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(320, 1200)
    view.show()
    qtbot.waitExposed(view)
    yield view
    view.release()


def facts(view: DetailsView) -> dict[str, str]:
    return {fact.label: fact.value for fact in view.facts.facts}


class Hidden(QObject):
    """Counts how often a widget is hidden."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__()
        self.times = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.times += event.type() == QEvent.Type.Hide
        return False


def requested_ranges(session: Session) -> list[str]:
    views: list[str] = []
    session.navigator.view_requested.connect(views.append)
    return views


def trace_of(session: Session) -> Trace:
    assert session.trace is not None
    return session.trace


@pytest.mark.parametrize(
    ("selection", "title", "kind"),
    [
        (
            Selection("tensors", (EXPS,)),
            "blk.2.ffn_up_exps.weight",
            "tensor · experts · layer 2",
        ),
        (Selection("buffers", (1,)), "buffer 1", "any buffer"),
        (Selection("nodes", (1,)), "t1", "graph node · MUL"),
        (Selection("experts", (expert_key(2, 3),)), "expert 3", "expert of layer 2"),
    ],
)
def test_each_thing_shows_its_name_kind_and_sums(
    view: DetailsView, session: Session, selection: Selection, title: str, kind: str
) -> None:
    session.selection.select(selection)

    assert DetailsPage(view).title == title
    assert DetailsPage(view).kind == kind
    assert facts(view)["spans"] == str(session.linking.linked.n_spans)
    assert not view.sources.isVisible()
    assert not view.histogram.isVisible()
    assert view.steps.text.startswith(str(session.linking.linked.n_spans))


def test_things_that_are_not_there_show_nothing(
    view: DetailsView, session: Session
) -> None:
    for table in ("tensors", "buffers", "nodes"):
        session.selection.select(Selection(table, (999,)))  # type: ignore[arg-type]
        assert DetailsPage(view).title == "Summary"
        assert not view.facts.facts


def test_span_after_a_thing_shows_its_own_parts_again(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_tensor(0)
    span = int(session.linking.linked.spans[0])

    session.selection.select_span(span)

    assert view.isolate_link.text() == "Show only this op"
    assert not view.steps.isVisible()
    assert not any(group.isVisible() for group in view.groups)
    assert view.target.isVisible()


def test_links_lead_from_a_span_to_other_views(
    view: DetailsView, session: Session
) -> None:
    trace = trace_of(session)
    correlation = session.linking.correlation
    assert correlation is not None
    views = requested_ranges(session)
    span = int(correlation.spans_of(0)[0])
    session.selection.select_span(span)
    nodes = session.linking.linked.nodes.tolist()

    QTest.mouseClick(view.show_links.graph, LEFT)

    assert session.selection.current == Selection("nodes", (nodes[0],))
    assert views == ["graph"]
    session.selection.select_span(span)
    if view.show_links.file_map.isVisible():
        QTest.mouseClick(view.show_links.file_map, LEFT)
        assert session.selection.current.table == "tensors"
        assert int(trace.tensors.offset[session.selection.current.ids[0]]) >= 0
        assert views == ["graph", "heatmap"]


def test_links_to_other_views_keep_a_thing_that_is_theirs(
    view: DetailsView, session: Session
) -> None:
    views = requested_ranges(session)
    for selection, link, view_id in (
        (Selection("tensors", (EXPS,)), view.show_links.file_map, "heatmap"),
        (Selection("buffers", (1,)), view.show_links.buffers, "buffers"),
        (Selection("nodes", (1,)), view.show_links.graph, "graph"),
        (
            Selection("experts", (expert_key(2, 1),)),
            view.show_links.experts,
            "experts",
        ),
    ):
        session.selection.select(selection)
        assert link.isVisible()

        QTest.mouseClick(link, LEFT)

        assert session.selection.current == selection
        assert views[-1] == view_id


def test_span_that_reads_no_weight_is_not_offered_to_the_file_map(
    view: DetailsView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())
    session.selection.select_span(2)  # ROPE reads an activation only

    assert not view.show_links.file_map.isVisible()
    session.selection.select_span(1)
    assert view.show_links.file_map.isVisible()


def test_links_stay_where_they_are_while_spans_with_the_same_links_are_selected(
    view: DetailsView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())
    session.selection.select_span(1)
    QApplication.processEvents()
    hidden = Hidden(view.show_links)

    session.selection.select_span(9)
    QApplication.processEvents()

    assert view.show_links.isVisible()
    assert not hidden.times


def test_links_of_the_last_selection_go_until_those_of_the_next_are_known(
    view: DetailsView, session: Session, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.set_trace(builders.llama_like_trace())
    session.selection.select_span(1)
    assert view.show_links.isVisible()
    monkeypatch.setattr(linking, "is_quick", lambda *_: False)
    hidden = Hidden(view.show_links)

    session.selection.select_span(9)

    qtbot.waitUntil(lambda: bool(hidden.times))
    qtbot.waitUntil(view.show_links.isVisible)


def test_click_on_a_source_selects_its_tensor(
    view: DetailsView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())
    session.selection.select_span(1)
    tensors = [a.tensor for a in view.sources.accesses]

    QTest.mouseClick(
        view.sources,
        LEFT,
        pos=QPoint(
            40, view.sources.sizeHint().height() // len(view.sources.accesses) + 10
        ),
    )

    assert session.selection.current == Selection("tensors", (tensors[1],))


def test_arrows_and_enter_choose_a_source_without_the_mouse(
    view: DetailsView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())
    session.selection.select_span(1)
    tensors = [a.tensor for a in view.sources.accesses]
    view.sources.setFocus()

    QTest.keyClick(view.sources, Qt.Key.Key_Down)
    QTest.keyClick(view.sources, Qt.Key.Key_Down)
    QTest.keyClick(view.sources, Qt.Key.Key_Return)

    assert session.selection.current == Selection("tensors", (tensors[1],))


def test_cards_say_how_the_place_is_known(view: DetailsView, session: Session) -> None:
    session.set_trace(builders.llama_like_trace())

    session.selection.select_span(1)

    text = view.sources.accessibleDescription()
    assert "offset 0x0001_0000 (from trace)" in text
    assert "of the file" not in text, "no file is known, only accesses to it"


def test_node_lists_predecessors_and_successors_as_links(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select(Selection("nodes", (1,)))
    before, after = view.groups
    assert [i.text for i in before.items] == ["t0 · ADD"]
    assert [i.text for i in after.items] == ["t2 · MUL_MAT"]

    QTest.mouseClick(after.links[0], LEFT)

    assert session.selection.current == Selection("nodes", (2,))
    assert [i.text for i in view.groups[0].items] == ["t1 · MUL"]


def test_shared_input_counts_the_readers_that_are_not_listed(
    view: DetailsView, session: Session
) -> None:
    trace = network_trace(layers=12)
    session.set_trace(trace)
    graph = trace.graphs[0]
    names = [trace.strings[int(i)] for i in graph.name]

    session.selection.select(Selection("nodes", (names.index("positions"),)))

    readers = view.groups[1]
    assert len(readers.items) == MAX_RELATED
    assert readers.more.text() == "and 12 more"


def test_step_buttons_go_through_spans_and_take_one(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_tensor(0)
    n = session.linking.linked.n_spans
    assert not view.steps.take.isVisible()

    QTest.mouseClick(view.steps.next, LEFT)
    QTest.mouseClick(view.steps.next, LEFT)
    QTest.mouseClick(view.steps.previous, LEFT)

    assert view.steps.text == f"span 1 of {n}"
    looked_at = session.linking.current_span
    QTest.mouseClick(view.steps.take, LEFT)
    assert session.selection.current == Selection("spans", (looked_at,))


def test_show_only_its_spans_filters_to_what_is_linked(
    view: DetailsView, session: Session
) -> None:
    trace = trace_of(session)
    for selection in (Selection("tensors", (0,)), Selection("buffers", (1,))):
        session.queries.set_filter(Filter())
        session.selection.select(selection)

        QTest.mouseClick(view.isolate_link, LEFT)

        mask = filter_mask(trace, session.queries.filter)
        assert mask is not None
        assert mask.nonzero()[0].tolist() == session.linking.linked.spans.tolist()


def test_buffer_without_an_id_cannot_be_filtered_by(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_buffer(3)

    assert not view.isolate_link.isVisible()


def test_copy_as_markdown_has_the_facts_of_a_thing(
    view: DetailsView, session: Session
) -> None:
    session.selection.select(Selection("nodes", (1,)))

    QTest.mouseClick(view.copy_link, LEFT)

    text = QGuiApplication.clipboard().text()
    assert "t1" in text
    assert "| predecessors" in text
    assert "| source" not in text


def test_figures_of_a_large_trace_come_from_a_worker(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    small = random_links_trace(4)
    large = builders.random_trace(3, 60_000)
    session.set_trace(replace(large, tensors=small.tensors, strings=small.strings))

    session.selection.select_tensor(0)
    first = facts(view)["accesses"]
    qtbot.waitUntil(lambda: facts(view)["accesses"] != "counting…")

    assert first == "counting…"
    assert facts(view)["accesses"] == "0"


@pytest.mark.parametrize("name", ["dark", "light"])
def test_things_are_drawn_in_both_themes(
    view: DetailsView, session: Session, name: str
) -> None:
    view.set_theme(theme(name))
    session.selection.select(Selection("nodes", (1,)))

    picture = view.grab().toImage()

    assert picture.pixelColor(2, 2).rgb() == theme(name).pane


def test_row_of_statistics_shows_its_figures_and_steps_through_its_spans(
    view: DetailsView, session: Session
) -> None:
    trace = trace_of(session)
    row = max(stat_table(trace, "layer").rows, key=lambda row: row.count)
    group = SpanGroup("layer", row.key, Filter(layers=frozenset({int(row.key)})))

    session.selection.select_group(group)

    assert DetailsPage(view).title == row.key
    assert facts(view)["spans"] == format_count(row.count)
    assert facts(view)["sum"] == format_duration(row.total, trace.clock.unit)
    assert facts(view)["longest"] == format_duration(row.max or 0, trace.clock.unit)
    assert facts(view)["filter"] == f"layer={row.key}"
    assert view.histogram.isVisible()
    assert view.steps.text.startswith(format_count(row.count))

    view.steps.next.click()
    assert session.selection.current.group == group
    assert session.linking.current_span is not None
    view.isolate_link.click()
    assert session.queries.filter == Filter(layers=frozenset({int(row.key)}))


def test_span_after_a_row_of_statistics_shows_its_own_parts(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_group(
        SpanGroup("op", stat_table(trace_of(session)).rows[0].key)
    )

    session.selection.select_span(int(session.linking.linked.spans[0]))

    assert not view.steps.isVisible()
    assert view.target.isVisible()


def test_steps_through_millions_of_spans_fit_a_narrow_pane(qtbot: QtBot) -> None:
    steps = SpanSteps()
    qtbot.addWidget(steps)
    steps.set_position(-1, 9, 9)
    steps.set_position(3_074_122, 100_000, 3_432_187)
    links = (steps.previous, steps.next, steps.take)
    spacing = 2 * 10

    needed = sum(link.sizeHint().width() for link in links) + spacing
    assert steps.minimumSizeHint().width() <= max(needed, 240)
