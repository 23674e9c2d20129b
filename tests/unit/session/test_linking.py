"""One selection through everything: links, steps, history, carrying."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from ggscope.analysis.links import Linked
from ggscope.analysis.selection_mapping import reselected
from ggscope.descriptions.completeness import CODE
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Filter, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.session.session import Session, TraceChange
from graph_traces import add_graph
from link_traces import random_links_trace
from panes import titles_of
from statements import new_statement
from tensor_files import encode, llama_trace

ACTIVATION = 24
"""Row of the tensor that nearly every op of the llama-like trace reads."""


def with_graph(trace: Trace, names: list[str], ops: list[int]) -> Trace:
    builder = TraceBuilder()
    builder.strings, builder.ops = trace.strings, trace.ops
    add_graph(builder, names, [], ops=ops)
    return replace(trace, graphs=builder.snapshot(builders.make_info()).graphs)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    session.set_trace(builders.llama_like_trace())
    yield session
    session.close()


def recorded(session: Session) -> list[Linked]:
    linkeds: list[Linked] = []
    session.linking.linked_changed.connect(linkeds.append)
    return linkeds


def test_links_follow_the_selection(session: Session) -> None:
    result = recorded(session)
    changes: list[str] = []
    session.selection.changed.connect(lambda _: changes.append("selection"))
    session.linking.linked_changed.connect(lambda _: changes.append("linked"))

    session.selection.select_tensor(1)

    assert changes == ["selection", "linked"]
    assert result[-1] is session.linking.linked
    assert session.linking.linked.selection == Selection("tensors", (1,))
    assert session.linking.linked.n_spans == 2 * 4


def test_same_selection_says_nothing(session: Session) -> None:
    session.selection.select_tensor(1)
    result = recorded(session)

    session.selection.select_tensor(1)

    assert result == []


def test_helpers_select_rows_of_their_tables(session: Session) -> None:
    for select, table in (
        (session.selection.select_tensor, "tensors"),
        (session.selection.select_buffer, "buffers"),
    ):
        select(3)
        assert session.selection.current == Selection(table, (3,))  # type: ignore[arg-type]


def test_clearing_the_selection_clears_the_links(session: Session) -> None:
    session.selection.select_tensor(1)

    session.clear_selection()

    assert session.linking.linked.selection == Selection()
    assert session.linking.linked.n_spans == 0


def test_selection_during_the_signal_gets_its_own_links(
    session: Session,
) -> None:
    def go_on(selection: Selection) -> None:
        if selection.table == "tensors":
            session.selection.select_span(3)

    session.selection.changed.connect(go_on)

    session.selection.select_tensor(1)

    assert session.selection.current == Selection("spans", (3,))
    assert session.linking.linked.selection == session.selection.current


def test_large_traces_are_linked_on_a_worker(qtbot: QtBot, session: Session) -> None:
    trace = builders.random_trace(3, 200_001)
    session.set_trace(with_graph(trace, ["tensor-1"], [2]))
    qtbot.waitUntil(lambda: session.linking.correlation is not None)
    result = recorded(session)

    with qtbot.waitSignal(session.linking.linked_changed):
        session.selection.select(Selection("nodes", (0,)))
        assert result == []

    assert session.linking.linked.selection == Selection("nodes", (0,))
    assert session.linking.correlation is not None
    assert session.linking.linked.n_spans == len(
        session.linking.correlation.spans_of(0)
    )


def test_links_come_again_when_a_graph_joins(session: Session) -> None:
    trace = session.trace
    assert trace is not None
    assert session.linking.correlation is None
    session.selection.select_span(1, reveal=False)
    name = trace.strings[int(trace.spans.name[1])]

    joined = with_graph(trace, [name], [int(trace.spans.op[1])])
    session.set_trace(joined, TraceChange.GREW)

    assert session.selection.current == Selection("spans", (1,))
    assert session.linking.correlation is not None
    assert session.linking.linked.nodes.tolist() == [0]
    assert session.linking.linked.rules == "name, op and order"


def test_closing_forgets_links_and_nodes(session: Session) -> None:
    session.selection.select_tensor(1)

    session.close()

    assert session.linking.linked.n_spans == 0
    assert session.linking.correlation is None


def test_steps_go_through_linked_spans_in_time_and_keep_the_selection(
    session: Session,
) -> None:
    trace = session.trace
    assert trace is not None
    session.selection.select_tensor(1)
    shown: list[int] = []
    positions: list[int] = []
    session.navigator.reveal_requested.connect(shown.append)
    session.linking.linked_position_changed.connect(positions.append)
    assert session.linking.current_span is None

    for _ in range(9):
        session.navigator.step_span(1)
    session.navigator.step_span(-1)

    starts = trace.spans.start[shown[:8]].tolist()
    assert starts == sorted(starts)
    assert set(shown) == set(session.linking.linked.spans.tolist())
    assert positions == [0, 1, 2, 3, 4, 5, 6, 7, 0, 7]
    assert session.selection.current == Selection("tensors", (1,))
    assert session.linking.current_span == shown[-1]
    assert session.linking.position == 7


def test_first_step_goes_to_what_is_in_view(session: Session) -> None:
    trace = session.trace
    assert trace is not None
    session.selection.select_tensor(1)
    last = session.linking.linked.spans[
        np.argmax(trace.spans.start[session.linking.linked.spans])
    ]
    start = int(trace.spans.start[last])
    session.viewport.set_visible(TimeRange(start - 50, start + 50))

    session.navigator.step_span(1)

    assert session.linking.current_span == int(last)


def test_another_selection_begins_its_steps_anew(session: Session) -> None:
    session.selection.select_tensor(1)
    session.navigator.step_span(1)

    session.selection.select_tensor(2)

    assert session.linking.position == -1
    assert session.linking.current_span is None


def test_step_brings_its_span_into_view(session: Session) -> None:
    session.selection.select_tensor(1)
    session.viewport.set_visible(TimeRange(0, 1000))

    session.navigator.step_span(1)

    span = session.linking.current_span
    assert span is not None
    assert session.trace is not None
    spans = session.trace.spans
    middle = (int(spans.start[span]) + int(spans.end[span])) // 2
    assert session.viewport.visible.contains(middle)


@pytest.mark.parametrize(
    ("claim", "where"),
    [
        ("Matching spans with the graph", "ggscope.session.linking.QUICK_SPANS"),
        ("Finding related spans", "ggscope.analysis.links.QUICK_SPANS"),
    ],
)
def test_what_takes_long_is_done_by_a_task_of_that_name(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, claim: str, where: str
) -> None:
    trace = with_graph(builders.llama_like_trace(), ["a", "b"], [3, 3])

    def task_titles() -> str:
        session = Session()
        titles = titles_of(session, monkeypatch)
        session.set_trace(trace)
        session.selection.select_tensor(1)
        qtbot.waitUntil(lambda: session.tasks.is_idle)
        session.close()
        return "\n".join(titles)

    at_once = task_titles()
    monkeypatch.setattr(where, len(trace.spans) - 1)

    assert new_statement(task_titles(), at_once)


def test_focus_on_a_tensor_shows_its_spans(session: Session) -> None:
    session.selection.select_tensor(1)
    trace = session.trace
    assert trace is not None

    span_range = session.navigator.selected_range()
    session.navigator.step_span(1)
    one = session.navigator.selected_range()

    spans = session.linking.linked.spans
    assert span_range == TimeRange(
        int(trace.spans.start[spans].min()), int(trace.spans.end[spans].max())
    )
    looked_at = session.linking.current_span
    assert one == TimeRange(
        int(trace.spans.start[looked_at]), int(trace.spans.end[looked_at])
    )


def test_history_goes_back_through_tables(session: Session) -> None:
    for selection in (
        Selection("spans", (4,)),
        Selection("tensors", (1,)),
        Selection("nodes", (0,)),
        Selection("experts", (65536,)),
        Selection("buffers", (0,)),
    ):
        session.selection.select(selection)
        session.history.record()

    tables = []
    for _ in range(4):
        session.navigator.back()
        tables.append(session.selection.current.table)
        assert session.linking.linked.selection == session.selection.current
    session.navigator.forward()

    assert tables == ["experts", "nodes", "tensors", "spans"]
    assert session.selection.current.table == "tensors"


def test_filter_and_selection_of_a_view_point_return_together(
    session: Session,
) -> None:
    session.selection.select_tensor(1)
    session.history.record()
    session.queries.set_filter(Filter(tensors=frozenset({"activation"})))
    session.selection.select_tensor(2)
    session.history.record()

    session.navigator.back()

    assert session.queries.filter == Filter()
    assert session.selection.current == Selection("tensors", (1,))


def test_time_of_a_buffer_is_its_life(qapp: QApplication) -> None:
    session = Session()
    session.set_trace(random_links_trace(1))

    session.selection.select_buffer(0)

    trace = session.trace
    assert trace is not None
    assert session.navigator.selected_range() == TimeRange(0, trace.extent.end)
    session.close()


def test_things_are_carried_by_what_they_are_called() -> None:
    old = new = random_links_trace(1)
    order = np.array([3, 2, 1, 0])
    tensors = replace(new.tensors, name=new.tensors.name[::-1].copy())
    address = new.buffers.address[order].copy()
    moved = replace(new, tensors=tensors, buffers=replace(new.buffers, address=address))

    def table(name: str, *ids: int) -> Selection:
        selection = Selection(name, ids)  # type: ignore[arg-type]
        return reselected(selection, old, moved)

    assert table("tensors", 0, 7) == Selection("tensors", (7, 0))
    assert table("buffers", 1) == Selection("buffers", (2,))
    assert table("nodes", 1) == Selection("nodes", (1,))
    assert table("experts", 131075) == Selection("experts", (131075,))
    for gone in ("tensors", "buffers", "nodes", "accesses"):
        assert table(gone, 999) == Selection()


def test_missing_records_become_a_problem_once(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    records = llama_trace(n_passes=10)
    del records[40]
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(records, "256"))
    trace = open_trace(path)
    changes: list[object] = []
    session.trace_changed.connect(changes.append)

    session.set_trace(trace)
    qtbot.waitUntil(lambda: len(changes) == 2)

    assert changes == [TraceChange.REPLACED, TraceChange.GREW]
    assert session.trace is not None
    assert session.trace.spans is trace.spans
    (problem,) = (w for w in session.trace.warnings if w.code == CODE)
    assert problem.count == 1

    # A file is added: its trace has the same spans and not this problem.
    session.set_trace(replace(trace, generation=9), TraceChange.GREW)
    qtbot.waitUntil(lambda: len(changes) == 4)

    assert sum(w.code == CODE for w in session.trace.warnings) == 1


def test_whole_trace_is_shown_once(
    qtbot: QtBot, session: Session, tmp_path: Path
) -> None:
    path = tmp_path / "trace.bin"
    path.write_bytes(encode(llama_trace(n_passes=10), "256"))
    changes: list[object] = []
    session.trace_changed.connect(changes.append)

    session.set_trace(open_trace(path))
    qtbot.waitUntil(lambda: session.tasks.is_idle)

    assert changes == [TraceChange.REPLACED]
