"""Panes and pages distinguish missing, pending, partial and unrecorded data."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

import builders
import graph_traces
from buffer_traces import Life, buffers_trace, reference_buffers
from expert_traces import routed
from ggscope.analysis.experts.figures import Beside
from ggscope.analysis.sessions.correlate import correlate
from ggscope.errors import (
    AmbiguousFormatError,
    ReadError,
    UnknownFormatError,
    WriteError,
)
from ggscope.gui.document import Document
from ggscope.gui.live import LiveStrip, WaitingPage
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.load import ProblemPage
from ggscope.gui.panes.host import ErrorPanel
from ggscope.live.source import SourceStatus
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import (
    AccessColumns,
    AccessKind,
    FlatAccesses,
    Space,
    SpanFlag,
)
from ggscope.model.trace import OTHER_FILES, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from ggscope.session.bookmarks.files import BookmarkStorage
from ggscope.session.live import FollowState, LiveMetrics, LiveSession
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.settings_store import MemoryStore
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.canvas import PaintedView
from ggscope.views.details.histogram import DurationHistogram
from ggscope.views.timeline.tooltips import tooltip_for
from messages import clear, newest_message
from pages import DetailsPage
from panes import placeholder_text, settle_view, texts_of_widgets, tips, titles_of
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from statements import new_statements
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
STACK = TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, 4)


def why_empty(view: PaintedView) -> str:
    """Return what stands where the picture would, "" where there is one."""
    size = view.canvas_size()
    made = view.compose(size.width(), size.height(), 1.0)
    return "" if made is not None else placeholder_text(view)


def texts(widget) -> str:
    return "\n".join(texts_of_widgets(widget))


def reads(*made: Read, op: str = "MUL_MAT", row: TensorRow | None = None) -> Trace:
    return reads_trace([row or TensorRow("blk.0.a", 0, 64, 0)], [Op(0, made, op)])


def unplaced(*made: Read) -> Trace:
    """Return an op that reads a tensor whose place in the file is unknown."""
    return replace(reads(*made, row=TensorRow("blk.0.a")), models=())


# -- why a view is empty ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("view_id", "lacking", "whole"),
    [
        (
            "experts",
            lambda: reads(Read(0, 64)),
            lambda: routed([[[1, 2], [3, 4]]]),
        ),
        ("buffers", lambda: reads(Read(0, 64)), reference_buffers),
        (
            "buffers",
            lambda: buffers_trace([Life(-1, -1)]),
            lambda: buffers_trace([Life(64, 0)]),
        ),
        ("graph", moe_reads, graph_traces.network_trace),
        ("hot_cold", unplaced, lambda: reads(Read(0, 64))),
        ("heatmap", unplaced, lambda: reads(Read(0, 64))),
        ("heatmap", lambda: unplaced(Read(0, 64)), lambda: reads(Read(0, 64))),
        (
            "cache",
            lambda: reads(Read(0, 64, space=Space.BUFFER)),
            lambda: reads(Read(0, 64)),
        ),
        (
            "cache",
            lambda: reads(Read(0, 64, kind=AccessKind.WRITE)),
            lambda: reads(Read(0, 64)),
        ),
    ],
)
def test_view_denies_data_once_a_trace_is_read(
    shown, qtbot, view_id: str, lacking, whole
) -> None:
    assert why_empty(shown(view_id, whole())) == ""
    trace = lacking()
    reason = why_empty(shown(view_id, trace))
    assert reason
    for part in ("accesses", OTHER_FILES):
        pending = replace(trace, pending=frozenset({part}))
        assert why_empty(shown(view_id, pending)) != reason


def test_reasons_of_an_empty_view_are_distinguished(shown) -> None:
    def reasons(view_id: str, *traces: Trace) -> set[str]:
        return {why_empty(shown(view_id, trace)) for trace in traces}

    buffers = [reads(Read(0, 64)), buffers_trace([Life(-1, -1)])]
    assert len(reasons("buffers", *buffers)) == 2
    assert len(reasons("heatmap", unplaced(), unplaced(Read(0, 64)))) == 2
    written = reads(Read(0, 64, kind=AccessKind.WRITE))
    assert len(reasons("cache", reads(Read(0, 64, space=Space.BUFFER)), written)) == 2


@pytest.mark.parametrize("view_id", ["hot_cold", "heatmap"])
def test_accesses_that_name_no_tensor_are_counted(shown, view_id: str) -> None:
    trace = builders.npu_like_trace()
    loose = replace(
        FlatAccesses.blank(252),
        what=replace(
            AccessColumns.blank(252), space=np.full(252, Space.DRAM, np.uint8)
        ),
    )
    some = replace(trace, accesses=replace(trace.accesses, loose=loose))

    assert " 252 " in why_empty(shown(view_id, some))
    assert " 252 " not in why_empty(shown(view_id, trace))


@pytest.mark.parametrize("picture", ["cold", "kv"])
def test_empty_picture_of_hot_and_cold_does_not_deny_accesses(
    shown, qtbot, picture: str
) -> None:
    def reason(trace: Trace, picture: str) -> str:
        view = shown("hot_cold", trace)
        view.picture_box.setCurrentIndex(view.picture_box.findData(picture))
        settle_view(qtbot, view)
        return why_empty(view)

    read = reads(Read(0, 64))
    assert reason(read, picture) not in ("", reason(unplaced(), picture))
    assert reason(read, "ranking") == ""


@pytest.mark.parametrize(
    "view_id",
    ["bookmarks", "buffers", "details", "experts", "problems", "statistics", "table",
     "threads"],
)  # fmt: skip
def test_missing_trace_is_no_empty_trace(shown, view_id: str) -> None:
    def text(trace: Trace | None) -> str:
        view = shown(view_id, trace)
        return why_empty(view) if isinstance(view, PaintedView) else texts(view)

    assert new_statements(text(None), text(builders.empty_trace()))


def test_statistics_name_the_filter_that_hides_all(shown, qtbot) -> None:
    view = shown("statistics", builders.spans_trace([0], [10], op=1))
    empty = texts(shown("statistics", builders.spans_trace([], [])))
    view.session.queries.set_filter(Filter(ops=frozenset({"MUL_MAT"})))

    qtbot.waitUntil(lambda: "matches the filter" in texts(view))
    assert "matches the filter" not in empty


# -- tooltips --------------------------------------------------------------------------


def heat_of(trace: Trace, *, model_end: int = 1024) -> Trace:
    return replace(trace, models=(replace(trace.models[0], size=model_end),))


def test_gaps_of_the_file_are_distinguished(shown) -> None:
    rows = [TensorRow("blk.0.a", 4096, 4096, 0), TensorRow("blk.1.a", 12288, 512, 1)]
    ops = [Op(20 * i, (Read(i, 512, row.offset),)) for i, row in enumerate(rows)]
    known = heat_of(reads_trace(rows, ops), model_end=12800)
    unknown = np.full(2, -1, np.int64)
    unlisted = replace(
        known, tensors=replace(known.tensors, offset=unknown, size=unknown)
    )
    headed = replace(known, models=(replace(known.models[0], data_offset=4096),))
    listed, traced, header = (
        tips(shown("heatmap", trace)) for trace in (known, unlisted, headed)
    )

    assert new_statements(listed, traced), "padding is known where tensors are listed"
    assert new_statements(traced, listed), "places come from accesses"
    assert "Header" in header
    assert "Header" not in listed + traced


def choosing(more: int) -> Trace:
    """Return an op on a stack, and a list of its experts that may not be whole."""
    op = Op(0, (Read(0, 400),), "MUL_MAT_ID")
    made = reads_trace([STACK], [op], {(0, 0): [1]}, {(0, 0): more})
    return heat_of(made, model_end=STACK.size)


@pytest.mark.parametrize("view_id", ["heatmap", "hot_cold"])
def test_reads_by_unlisted_experts_are_possible_reads(shown, view_id: str) -> None:
    claim = "experts that are not listed"

    assert claim in tips(shown(view_id, choosing(2)))
    assert claim not in tips(shown(view_id, choosing(0)))


def test_counter_has_no_value_before_its_first_sample(shown) -> None:
    trace = builders.npu_like_trace()
    view = shown("timeline", trace)
    hit, prepared = view.hit(600.0, 40.0), view.prepared()
    box = next(b for b in prepared.layout.boxes if b.lane and not b.lane.track.has_rows)

    def tip(tick: int) -> str:
        at = replace(hit, box=box, tick=tick, span=-1, in_header=False)
        return str(tooltip_for(prepared, view.session, at, 1.0))

    assert "no sample" in tip(trace.extent.start - 10**6)
    assert "no sample" not in tip(trace.extent.end)


def test_time_that_is_not_read_yet_is_no_time_that_was_given_up(shown) -> None:
    trace = builders.npu_like_trace()
    stopped = replace(trace, read_until=trace.extent.start + 1)
    running = replace(stopped, pending=frozenset({"spans"}))
    not_read, pending, whole = (
        tips(shown("timeline", t), 12) for t in (stopped, running, trace)
    )

    assert "F5" in not_read
    assert "F5" not in pending + whole
    assert "Still reading" in pending
    assert "Still reading" not in not_read + whole


# -- other texts of views --------------------------------------------------------------


def test_critical_path_states_nodes_without_a_time(shown, qtbot) -> None:
    def bar(trace: Trace) -> str:
        view = shown("graph", trace)
        view.paths.show_critical()
        settle_view(qtbot, view)
        return view.path_bar.text()

    timed = graph_traces.network_trace(3, 1)
    view = shown("graph", timed)
    view.paths.show_critical()
    settle_view(qtbot, view)
    middle = int(view.paths.highlighted.steps[len(view.paths.highlighted.steps) // 2])
    name = timed.spans.name.copy()
    name[name == timed.graphs[0].name[middle]] = -1
    holed = replace(timed, spans=replace(timed.spans, name=name))
    alone = graph_traces.graph_trace(3, [(0, 1, 0), (1, 2, 0)])

    assert "1 without a recorded time" in bar(timed), "the result has no span"
    assert "2 without a recorded time" in bar(holed)
    assert "No critical path" in bar(alone)


@pytest.mark.parametrize("by", ["op", "thread"])
def test_statistics_state_what_threads_share(shown, qtbot, by: str) -> None:
    def text(*, repeated: bool) -> str:
        ops = [
            Op(0, (Read(0, 64),), thread=i, repeated=repeated and i > 0) for i in (0, 1)
        ]
        tensor = [TensorRow("blk.0.a.weight", 0, 64, 0)]
        view = shown("statistics", reads_trace(tensor, ops))
        qtbot.waitUntil(lambda: "MUL_MAT" in texts_of_widgets(view))
        view.by.setCurrentIndex(view.by.findData(by))
        key = {"op": "MUL_MAT", "thread": "thread 1"}[by]
        qtbot.waitUntil(lambda: key in texts_of_widgets(view))
        return texts(view)

    shared, each = text(repeated=True), text(repeated=False)
    if by == "op":
        assert "1 op in 2 spans" in shared
        assert "1 op in 2 spans" not in each
    else:
        assert "bytes of each thread are not recorded" in shared
        assert "bytes of each thread are not recorded" not in each


def test_choices_that_follow_from_sizes_are_counted(shown) -> None:
    trace = routed([[[1, 2], [3, 4]]])
    implied = np.zeros(len(trace.routing), np.bool_)
    implied[-1] = True
    more = replace(trace, routing=replace(trace.routing, is_implied=implied))

    new = new_statements(texts(shown("experts", more)), texts(shown("experts", trace)))

    assert any(statement.startswith("1 choices") for statement in new)


def test_shares_of_pinned_experts_are_those_of_recorded_choices(shown, qtbot) -> None:
    def cover(trace: Trace) -> str:
        view = shown("experts", trace)
        view.bar.beside.setCurrentIndex(view.bar.beside.findData(Beside.COVER))
        settle_view(qtbot, view)
        return texts(view.cover)

    partial, whole, accessed = map(cover, (choosing(1), choosing(0), moe_reads()))
    assert "recorded choices" in partial
    assert "recorded choices" not in whole
    assert "choices" in whole
    assert "accesses" in accessed
    assert "choices" not in accessed


def test_sources_are_pending_missing_or_there(shown, qtbot) -> None:
    row = TensorRow("blk.0.a.weight", 0, 64, 0)
    trace = reads_trace([row], [Op(0), Op(20, (Read(0, 64),))])
    pending = replace(trace, pending=frozenset({"accesses"}))

    def note(trace: Trace, span: int) -> str:
        view = shown("details", trace)
        view.session.selection.select(Selection("spans", (span,)))
        settle_view(qtbot, view)
        page = DetailsPage(view)
        label = page.sources_note
        return "" if label.isHidden() else label.text()

    none, still = note(trace, 0), note(pending, 0)
    assert none
    assert still
    assert none != still
    assert note(trace, 1) == note(pending, 1) == ""


def test_histogram_has_no_times_where_no_span_has_one(shown, qtbot) -> None:
    def n_timed(flags: int) -> int:
        trace = builders.spans_trace([0, 20], [10, 30], op=1, flags=np.uint16(flags))
        view = shown("details", trace)
        view.session.selection.select(Selection("spans", (0,)))
        settle_view(qtbot, view)
        histogram = view.findChild(DurationHistogram)
        assert histogram is not None
        assert histogram.durations is not None
        return histogram.durations.timed

    assert n_timed(SpanFlag.ESTIMATED) == 0
    assert n_timed(0) == 2


def test_row_of_a_span_that_no_node_matches_says_so(shown) -> None:
    trace = graph_traces.network_trace(2, 1)
    spans = trace.spans
    op, name = spans.op.copy(), spans.name.copy()
    op[0], name[0] = -1, trace.strings.intern("of no graph")

    def row_text(trace: Trace) -> str:
        view = shown("table", trace)
        view.session.linking.linked  # noqa: B018 - asks for what is linked
        return str(view.model.row_text(0))

    renamed = replace(trace, spans=replace(spans, name=name))
    assert correlate(renamed).spans_of(0) is not None
    assert "not in the graph" in row_text(renamed)
    assert "not in the graph" not in row_text(trace)


def test_graph_is_laid_out_once(shown, monkeypatch) -> None:
    view = shown("graph", None)
    titles = titles_of(view.session, monkeypatch)

    view.session.set_trace(reads(Read(0, 64)))
    assert "Laying out the graph" not in titles
    view.session.set_trace(graph_traces.network_trace())

    assert titles.count("Laying out the graph") == 1


# -- settings and bookmarks ------------------------------------------------------------


@pytest.mark.parametrize(("value", "n_problems"), [('"large"', 1), ("150", 0)])
def test_setting_whose_value_does_not_fit_is_a_problem(value, n_problems) -> None:
    store = MemoryStore({"appearance/font_scale": value})

    assert len(Settings(store).problems) == n_problems


def test_place_of_bookmarks_is_stated_once_they_are_written(
    window: MainWindow, opened: Callable[[Path], Document], tmp_path: Path, qtbot: QtBot
) -> None:
    def stated(place: str, folder: Path | None) -> tuple[str, str]:
        """Return what is stated at once, and what after writing."""
        path = tmp_path / place / "run.ggmlviz"
        path.parent.mkdir()
        shutil.copy(SAMPLES / "llama.ggmlviz", path)
        window.settings.data_folder = folder
        window.settings.change("bookmarks", place=place)
        document = opened(path)
        keeper = document.bookmarks.keeper
        qtbot.waitUntil(lambda: keeper.is_read)
        document.session.bookmarks.add("a", TimeRange(0, 10))
        at_once = document.session.bookmarks.location
        qtbot.waitUntil(lambda: not keeper.is_saving)
        written = document.session.bookmarks.location
        window.close_document(document)
        return at_once, written

    beside = stated("beside", tmp_path / "own")
    data = stated("data", tmp_path / "other")
    (tmp_path / "data").rename(tmp_path / "done")
    nowhere = stated("data", None)

    assert "run.ggmlviz" in beside[1]
    assert len({beside[1], data[1], nowhere[1]}) == 3
    assert "not saved" in nowhere[1]
    assert "not saved" not in "\n".join((*beside, *data))
    assert "Saved" not in beside[0] + data[0]


def test_bookmarks_that_cannot_be_written_are_reported(
    window: MainWindow, opened, tmp_path: Path, qtbot: QtBot, monkeypatch
) -> None:
    def fail(*_: object) -> None:
        raise WriteError("the disk is full.")

    path = tmp_path / "a.ggmlviz"
    shutil.copy(SAMPLES / "llama.ggmlviz", path)
    document = opened(path)
    assert "the disk is full" not in newest_message(document)
    monkeypatch.setattr(BookmarkStorage, "store", fail)
    document.session.bookmarks.add("b", TimeRange(50, 60))

    qtbot.waitUntil(lambda: "the disk is full" in newest_message(document))


def test_files_beside_a_trace_are_offered_in_singular_and_plural(opened) -> None:
    from ggscope.readers.discovery import survey

    document = opened(SAMPLES / "llama.ggmlviz")
    whole = survey([SAMPLES / "moe-experiment"])
    paths = [member.path for member in whole.members]

    def offered(n: int) -> str:
        clear(document)
        document.loader.beside_found.emit(whole.without(paths[n:]))
        return newest_message(document)

    assert "file in" in offered(1)
    assert "files in" in offered(2)


# -- what failed -----------------------------------------------------------------------


def test_memory_that_runs_out_on_a_worker_has_its_own_message(qtbot: QtBot) -> None:
    def message(error: type[Exception]) -> str:
        def fail(_: object) -> None:
            raise error

        session = Session()
        messages: list[str] = []
        session.tasks.run(
            "a", fail, lambda _: None, on_error=lambda f: messages.append(f.message)
        )
        qtbot.waitUntil(lambda: bool(messages))
        session.close()
        return messages[0]

    assert "memory" in message(MemoryError)
    assert "memory" not in message(ValueError)


def test_view_that_failed_says_whether_memory_ran_out(qtbot: QtBot) -> None:
    def text(last: str) -> str:
        panel = ErrorPanel("Table", f"Traceback …\n{last}")
        qtbot.addWidget(panel)
        return texts(panel)

    assert "Not enough memory" in text("MemoryError: no room")
    assert "Not enough memory" not in text("ValueError: no way")


def test_page_of_a_file_says_whether_its_format_is_known(qtbot: QtBot) -> None:
    def text(error: ReadError | None) -> str:
        page = ProblemPage(Path("a.bin"))
        qtbot.addWidget(page)
        failure = None if error is None else TaskFailure("", "", "", error, "")
        page.show_failure(failure, ())
        assert page.accessibleName() == page.head.text()
        return texts(page)

    hint = "Choose a reader with --format."
    unknown = text(UnknownFormatError("no reader takes it.", hint=hint))
    several = text(AmbiguousFormatError("two take it.", candidates=("a", "b")))
    broken = text(ReadError("it is damaged.", hint="Make it again."))

    assert "Unknown format" in unknown
    assert "Unknown format" not in several + broken + text(None)
    assert "--format" not in unknown, "the window has a list of readers"
    assert "Make it again." in broken


def test_page_of_a_broken_file_offers_what_stands_before_the_fault(
    tmp_path: Path, qtbot: QtBot
) -> None:
    whole = (SAMPLES / "npu-prefill-decode.json").read_text()
    head = whole.index('"timeline_events"') + len('"timeline_events": [')

    def hint(text: str) -> str:
        path = tmp_path / "a.json"
        path.write_text(text)
        with pytest.raises(ReadError) as caught:
            open_trace(path, context=ReadContext(options={"strict": "true"}))
        page = ProblemPage(path)
        qtbot.addWidget(page)
        page.show_failure(TaskFailure("", "", "", caught.value, ""), ())
        return page.hint.text()

    assert "before the damage" in hint(whole[: head + 5000])
    assert "before the damage" not in hint(whole[:head])


# -- programs that run -----------------------------------------------------------------


def test_page_of_a_followed_program_says_how_it_ended(qtbot: QtBot) -> None:
    session = Session()
    live = LiveSession(session, None)
    page, strip = WaitingPage(live, session.tasks), LiveStrip(live)
    for widget in (page, strip):
        qtbot.addWidget(widget)

    def text(phase: FollowState) -> str:
        live.metrics = LiveMetrics(phase, SourceStatus())
        live.changed.emit()
        return f"{texts(page)}\n{texts(strip)}"

    shown = {phase: text(phase) for phase in FollowState}
    session.close()
    ends = (FollowState.ENDED, FollowState.STOPPED, FollowState.FULL)
    for phase in ends:
        for other in FollowState:
            if other is not phase:
                assert new_statements(shown[phase], shown[other]), (phase, other)
