"""The Details pane: facts, sources, histogram, record and commands."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

import builders
from buffer_traces import Life, buffers_trace
from expert_traces import routed
from ggscope.descriptions.spans import Fact
from ggscope.entities.durations import op_durations, spans_like
from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import DeclaredMetric, LaneKind, RecordView, Trace
from ggscope.model.units import Clock
from ggscope.readers.registry import open_trace
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.views.base.fact_list import FactList
from ggscope.views.details.access_cards import card_tip
from ggscope.views.details.hex_view import HexView
from ggscope.views.details.view import STATS_TASK, DetailsView
from graph_traces import network_trace
from pages import DetailsPage
from support import ROOT

LEFT = Qt.MouseButton.LeftButton


@dataclass(frozen=True)
class Records:
    """Records of 8 bytes each; those beyond `n` are gone."""

    n: int = 10_000

    def view(self, record: int) -> RecordView:
        if record >= self.n:
            raise ReadError("The file changed: this record is gone.")
        data = record.to_bytes(8, "little")
        fields = (("number", str(record), 0, 4), ("pad", "0", 4, 4))
        return RecordView(record * 8, data, fields)


def with_records(trace: Trace, records: Records) -> Trace:
    return replace(trace, records=records)


@pytest.fixture
def session(qapp: QApplication) -> Iterator[Session]:
    session = Session()
    trace = builders.llama_like_trace(tokens=4, layers=4)
    trace = replace(trace, clock=Clock(origin=5_000_000_000))
    session.set_trace(with_records(trace, Records()))
    yield session
    session.close()


@pytest.fixture
def view(qtbot: QtBot, session: Session) -> DetailsView:
    view = DetailsView(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(300, 900)
    view.show()
    qtbot.waitExposed(view)
    return view


def facts(view: DetailsView) -> dict[str, str]:
    return {fact.label: fact.value for fact in view.facts.facts}


def settle(qtbot: QtBot, session: Session) -> None:
    qtbot.waitUntil(lambda: session.tasks.is_idle)


def test_nothing_selected_says_what_to_do(view: DetailsView) -> None:
    page = DetailsPage(view)
    assert page.title == "Summary"
    assert "span" in page.kind
    assert view.summary.result is not None


@pytest.mark.parametrize(
    ("trace", "thing"),
    [
        (routed([[[0, 1]]], n_experts=4), "expert"),
        (network_trace(), "node"),
        (buffers_trace([Life(64)]), "buffer"),
        (builders.empty_trace(), ""),
    ],
    ids=["experts", "graph", "buffers", "nothing"],
)
def test_nothing_selected_names_what_the_trace_has(
    view: DetailsView, session: Session, trace: Trace, thing: str
) -> None:
    session.set_trace(replace(trace, spans=builders.empty_trace().spans))

    assert DetailsPage(view).is_empty
    hint = DetailsPage(view).placeholder.removeprefix("Nothing selected")
    assert thing in hint
    assert "span" not in hint
    assert bool(hint) is bool(thing)


def test_selected_span_shows_title_summary_and_facts(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)
    settle(qtbot, session)

    assert DetailsPage(view).title == "Qcur-0"
    assert DetailsPage(view).kind == "MUL_MAT · layer 0 · thread 0 · token #0"
    assert facts(view)["duration"] == "240.0 µs measured"
    assert facts(view)["record"] == "1 at 0x0008"
    assert [a.badge for a in view.sources.accesses] == ["DISK", "BUF"]
    assert view.target.name == "Qcur-0"


def test_span_without_sources_says_so(view: DetailsView, session: Session) -> None:
    session.selection.select_span(5)

    assert DetailsPage(view).sources_note.isVisible()
    assert not view.sources.isVisible()
    assert facts(view)["bytes"] == "N/A"


def test_pending_sources_are_announced(view: DetailsView, session: Session) -> None:
    trace = builders.llama_like_trace()
    session.set_trace(replace(trace, pending=frozenset({"accesses"})))

    session.selection.select_span(5)

    assert DetailsPage(view).sources_note.text() == "Still reading sources."


def test_marker_shows_its_facts_and_no_sources(
    view: DetailsView, session: Session
) -> None:
    session.selection.select(Selection("markers", (1,)))

    assert DetailsPage(view).title == "PREFILL_DONE"
    assert facts(view)["detail"] == "tokens=1"
    assert not view.sources.isVisible()
    assert not view.histogram.isVisible()


def test_several_selected_shows_the_active_and_counts(
    view: DetailsView, session: Session
) -> None:
    session.selection.select(Selection("spans", (1, 2, 3)))

    assert DetailsPage(view).kind.endswith("1 of 3 selected")


def test_selection_beyond_the_trace_shows_nothing(
    view: DetailsView, session: Session
) -> None:
    session.selection.select(Selection("spans", (10_000_000,)))

    assert DetailsPage(view).title == "Summary"
    assert not view.facts.facts


def test_absolute_time_changes_the_start(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)
    before = facts(view)["start"]

    session.display.set_absolute_time(True)

    assert facts(view)["start"] != before


def test_histogram_counts_all_spans_of_the_op(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)
    settle(qtbot, session)

    assert session.trace is not None
    n = int((session.trace.spans.op == session.trace.spans.op[1]).sum())
    times = view.histogram.durations
    assert times is not None
    assert DetailsPage(view).durations_heading == f"This op, {n} times"
    assert int(times.counts.sum()) == times.timed
    assert view.histogram.caption().startswith("p50 ")


def test_histogram_equals_numpy(session: Session) -> None:
    trace = session.trace
    assert trace is not None
    ids = spans_like(trace, 1)
    ticks = trace.spans.end[ids] - trace.spans.start[ids]

    times = op_durations(trace, 1)

    assert (times.p50, times.p99) == tuple(np.percentile(ticks, [50, 99]))
    assert (times.low, times.high) == (ticks.min(), ticks.max())


def test_histogram_of_unfinished_spans_has_no_times() -> None:
    trace = builders.spans_trace([0, 5], [1, 9], op=1, flags=np.uint16(4))

    times = op_durations(trace, 0)

    assert (times.n, times.timed) == (2, 0)


def test_known_histogram_is_shown_at_once(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)
    settle(qtbot, session)
    session.selection.select_span(4)  # attn_out: the same op

    assert view.histogram.durations is not None
    assert not session.tasks.is_running(STATS_TASK)


def test_spans_without_op_are_compared_by_name() -> None:
    trace = builders.npu_like_trace()
    stalls = [
        i for i in range(len(trace.spans)) if trace.span_name(i) == "BANK_CONFLICT"
    ]

    assert spans_like(trace, stalls[0]).tolist() == stalls[: len(stalls) // 2]


def test_record_section_shows_bytes_and_fields(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select_span(3)
    settle(qtbot, session)

    view.record_section.set_open(True)

    assert view.record_section.bytes.lines() == [
        "0018 03 00 00 00 00 00 00 00 ........"
    ]
    assert [f.label for f in view.record_section.fields.facts] == ["number", "pad"]


def test_hovering_a_field_marks_its_bytes(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    view.resize(300, 1600)
    session.selection.select_span(3)
    settle(qtbot, session)
    view.record_section.set_open(True)
    fields = view.record_section.fields
    qtbot.waitUntil(lambda: len(fields.row_boxes) == 2)

    def is_marked() -> bool:  # rows move while the pane takes its size
        QTest.mouseMove(fields, fields.row_boxes[1].center())
        return view.record_section.bytes.marked == range(4, 8)

    qtbot.waitUntil(is_marked)

    QApplication.sendEvent(view.record_section.fields, QEvent(QEvent.Type.Leave))
    assert not view.record_section.bytes.marked


def test_lost_record_is_reported_in_words(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    trace = builders.llama_like_trace()
    session.set_trace(with_records(trace, Records(2)))
    view.record_section.set_open(True)

    session.selection.select_span(5)
    settle(qtbot, session)

    assert view.record_section.note.text() == "The file changed: this record is gone."
    assert facts(view)["record"] == "5"


def test_trace_without_records_hides_the_section(
    view: DetailsView, session: Session
) -> None:
    session.set_trace(builders.llama_like_trace())

    session.selection.select_span(1)

    assert not view.record_section.isVisible()


def test_record_bytes_equal_those_of_the_file(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    path = ROOT / "resources" / "samples" / "tinyllama-256.bin"
    if not path.is_file():
        pytest.skip("the samples are not there yet")
    session.set_trace(open_trace(path))

    session.selection.select_span(7)
    settle(qtbot, session)
    view.record_section.set_open(True)

    assert view.record_section.record is not None
    offset, data = view.record_section.record.offset, view.record_section.record.data
    assert data == Path(path).read_bytes()[offset : offset + len(data)]
    assert f"{offset:04x}" == view.record_section.bytes.lines()[0].split()[0]


def test_isolate_filters_by_the_op(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)

    QTest.mouseClick(view.isolate_link, LEFT)

    assert session.queries.filter == Filter(ops=frozenset({"MUL_MAT"}))


def test_select_all_keeps_the_active_span_first(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_span(4)

    QTest.mouseClick(view.all_link, LEFT)

    assert session.trace is not None
    assert session.selection.current.active == 4
    assert set(session.selection.current.ids) == set(
        spans_like(session.trace, 4).tolist()
    )


def test_zoom_link_fits_the_span(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)
    before = session.viewport.visible.duration

    QTest.mouseClick(view.zoom_link, LEFT)

    assert session.viewport.visible.duration < before / 10


def test_copy_link_copies_everything_as_markdown(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)

    QTest.mouseClick(view.copy_link, LEFT)

    text = QGuiApplication.clipboard().text()
    assert text.startswith("| Qcur-0 |")
    assert "| duration | 240.0 µs measured |" in text
    assert "| source | DISK blk.0.attn_q.weight · 64.0 KiB" in text


def test_pane_copies_as_tsv_too(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)

    view.copy_tsv()

    lines = QGuiApplication.clipboard().text().splitlines()
    assert lines[0] == "name\tQcur-0"
    assert "layer\t0" in lines


def test_links_work_by_keyboard(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)
    view.isolate_link.setFocus()

    QTest.keyClick(view.isolate_link, Qt.Key.Key_Space)

    assert session.queries.filter.ops == frozenset({"MUL_MAT"})


def test_card_tooltip_shows_all_of_an_access(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)

    text = card_tip(view.sources.accesses[0])

    assert "size: 65,536 bytes" in text
    assert "memory: DISK" in text
    place = QPoint(10, 10)
    event = QHelpEvent(QEvent.Type.ToolTip, place, view.sources.mapToGlobal(place))
    assert QApplication.sendEvent(view.sources, event)


def test_fact_tooltip_gives_the_exact_value(
    qtbot: QtBot, view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)
    # What is found on a worker comes as further facts, and moves the rows.
    qtbot.waitUntil(lambda: session.tasks.is_idle)
    QTest.qWait(0)
    view.facts.grab()
    row = [f.label for f in view.facts.facts].index("duration")

    QTest.mouseMove(view.facts, view.facts.row_boxes[row].center())

    assert "0.000\u202f240\u202f000" in view.facts.toolTip()


def test_facts_are_given_to_screen_readers(view: DetailsView, session: Session) -> None:
    session.selection.select_span(1)

    assert "layer: 0" in view.facts.accessibleDescription()


def test_more_cards_than_fit_are_counted(qtbot: QtBot, session: Session) -> None:
    builder = TraceBuilder()
    builder.add_lane("thread 0", LaneKind.THREAD)
    session.selection.select_span(1)
    view = DetailsView(session, theme("dark"))
    qtbot.addWidget(view)
    settle(qtbot, session)

    view.sources.set_accesses(view.sources.accesses * 30)

    assert view.sources.sizeHint().height() < 60 * 66
    assert not view.sources.grab().isNull()


@pytest.mark.parametrize("name", ["dark", "light"])
def test_pane_is_drawn_in_both_themes(
    qtbot: QtBot, view: DetailsView, session: Session, name: str
) -> None:
    view.set_theme(theme(name))
    session.selection.select_span(1)
    settle(qtbot, session)
    view.record_section.set_open(True)

    picture = view.grab().toImage()

    assert picture.pixelColor(2, 2).rgb() == theme(name).pane


def test_closed_session_leaves_the_empty_state(
    view: DetailsView, session: Session
) -> None:
    session.selection.select_span(1)

    session.close()

    assert DetailsPage(view).placeholder == "No trace is open."


def test_released_view_ignores_the_session(view: DetailsView, session: Session) -> None:
    session.selection.select_span(0)
    before = view.markdown()
    view.release()

    session.selection.select_span(1)

    assert view.markdown() == before


@pytest.mark.parametrize(("width", "n"), [(900, 16), (300, 8), (120, 4)])
def test_hex_view_fits_bytes_to_the_width(qtbot: QtBot, width: int, n: int) -> None:
    hexes = HexView()
    qtbot.addWidget(hexes)
    hexes.set_data(bytes(range(64)), 0x10)
    hexes.resize(width, 400)

    assert hexes.bytes_per_line == n
    assert hexes.lines()[0].startswith("0010 00 01 02 03")
    height = hexes.heightForWidth(width)
    hexes.set_data(bytes(range(n)), 0x10)
    assert height == 64 // n * hexes.heightForWidth(width) > 0
    hexes.mark(2, 3)
    assert not hexes.grab().isNull()


def test_nothing_selected_shows_what_the_trace_says_of_itself(
    session: Session, view: DetailsView
) -> None:
    trace = session.trace
    assert trace is not None
    stated = (
        DeclaredMetric(name="decode tokens", stated=4, computed=4, agrees=True),
        DeclaredMetric(name="TE 0 utilization", stated=0.72, computed=0.305,
                       unit="share", basis="its spans", place="summary", agrees=False),
    )  # fmt: skip
    session.set_trace(replace(trace, info=replace(trace.info, stated=stated)))

    session.selection.select(Selection())

    assert DetailsPage(view).title == "Summary"
    lines = {name: value for _, name, value in view.summary.rows()}
    assert lines["metadata check"].startswith("1 of 2 match")
    first, contradicted, truth = view.metadata_facts.facts
    assert first.value == "1 of 2 values does not match the data"
    assert (contradicted.label, contradicted.caution) == ("TE 0 utilization", True)
    assert contradicted.value == "says 72.0 %, computed 30.5 % (its spans)"
    assert (truth.value, truth.caution) == ("4", False)
    assert not view.zoom_link.isVisibleTo(view)

    session.selection.select_span(5)

    assert DetailsPage(view).title != "About this trace"
    assert view.zoom_link.isVisibleTo(view)


def test_metadata_that_a_file_states_of_itself_is_shown(
    view: DetailsView, session: Session
) -> None:
    trace = routed([[[0, 1]]], n_experts=4)
    info = replace(trace.info, producer={"n_expert_used": "2", "model": "/m/x.gguf"})

    session.set_trace(replace(trace, info=info))

    assert DetailsPage(view).title == "About this trace"
    assert [(fact.label, fact.value) for fact in view.facts.facts] == [
        ("n expert used", "2"),
        ("model", "/m/x.gguf"),
    ]

    session.set_trace(replace(builders.nested_trace(), info=info))

    assert [fact.label for fact in view.metadata_facts.facts] == [
        "n expert used",
        "model",
    ]


def test_pointer_finds_no_row_of_facts_that_are_gone(qtbot: QtBot) -> None:
    facts = FactList()
    qtbot.addWidget(facts)
    facts.resize(300, 200)
    facts.set_theme(theme("dark"))
    facts.set_facts(tuple(Fact(f"fact {i}", str(i)) for i in range(5)))
    facts.grab()
    last = facts.row_boxes[-1].center()

    facts.set_facts(())

    assert facts.row_at(QPointF(last)) is None


@pytest.mark.parametrize(("ticks", "shown"), [(0, "–"), (30, "at least 30 ns")])
def test_span_without_an_end_does_not_last_0_ns(
    qtbot: QtBot, qapp: QApplication, ticks: int, shown: str
) -> None:
    flags = np.array([0, SpanFlag.UNFINISHED], np.uint16)
    session = Session()
    session.set_trace(
        builders.spans_trace([0, 20], [10, 20 + ticks], op=1, flags=flags)
    )
    view = DetailsView(session, theme("dark"))
    qtbot.addWidget(view)

    session.selection.select_span(1)

    (fact,) = [f for f in view.facts.facts if f.label == "duration"]
    assert fact.value.startswith(f"{shown} unfinished")
    view.release()
    session.close()
