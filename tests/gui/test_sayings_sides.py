"""Claims of the window, each said where it is true and not where it is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

import builders
import graph_traces
from buffer_traces import reference_buffers
from expert_traces import routed
from ggscope.errors import ReadError, WriteError
from ggscope.gui.dialogs import dialogs
from ggscope.gui.main_window import MainWindow
from ggscope.gui.pages.load import ProblemPage
from ggscope.gui.pages.start import StartPage
from ggscope.model.selection import Selection
from ggscope.model.trace import OTHER_FILES, Trace
from ggscope.model.units import TimeRange
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace
from ggscope.render.heatmap import compose
from ggscope.session.bookmarks.files import BookmarkStorage
from ggscope.session.session import Session
from ggscope.session.settings import Settings
from ggscope.session.tasks import TaskFailure, Tasks
from ggscope.views.base.cells import CellTexts
from ggscope.views.table.delegate import RowPainter
from ggscope.views.timeline.tooltips import tooltip_for
from messages import said
from panes import empty_words, settle_view, texts_of_widgets, tips, titles_of
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from sentences import assert_sides, is_said
from silent_ops import joined
from support import ROOT


def small_file(rows: list[TensorRow]) -> Trace:
    """Return a trace that reads every tensor of a small file."""
    ops = [Op(20 * i, (Read(i, 512, row.offset),)) for i, row in enumerate(rows)]
    trace = reads_trace(rows, ops)
    end = max(row.offset + row.size for row in rows)
    return replace(trace, models=(replace(trace.models[0], size=end),))


# -- why a view is empty -------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "view_id", "true", "false"),
    [
        (
            "Accesses are read after the spans.", "heatmap",
            lambda: replace(moe_reads(), pending=frozenset({"accesses"})),
            builders.empty_trace,
        ),
        (
            "The model is read after the trace.", "heatmap",
            lambda: replace(moe_reads(), pending=frozenset({OTHER_FILES})),
            builders.empty_trace,
        ),
        (
            "Add the model (.gguf) or its memory map to this session.", "heatmap",
            lambda: reads_trace((TensorRow("a"),), [Op(0, (Read(0, 10),))]),
            builders.empty_trace,
        ),
        (
            "Neither buffer allocations nor buffer accesses are recorded. Add a file "
            "of buffer events: File › Add to session.", "buffers",
            builders.empty_trace, reference_buffers,
        ),
    ],
)  # fmt: skip
def test_view_without_a_picture_says_why(shown, claim, view_id, true, false) -> None:
    said, unsaid = (empty_words(shown(view_id, make())) for make in (true, false))

    assert_sides(claim, said, unsaid)


# -- tooltips ------------------------------------------------------------------------


def test_heatmap_tells_what_no_tensor_covers(shown) -> None:
    listed = [TensorRow("blk.0.a", 4096, 4096, 0), TensorRow("blk.1.a", 12288, 512, 1)]
    known = small_file(listed)
    blank = np.full(2, -1, np.int64)
    alone = replace(known, tensors=replace(known.tensors, offset=blank, size=blank))
    of_map, of_trace = tips(shown("heatmap", known)), tips(shown("heatmap", alone))

    assert_sides("No access of the trace covers this range.", of_trace, of_map)
    assert_sides("from the accesses of the trace", of_trace, of_map)
    assert_sides("Padding, or bytes that belong to no tensor", of_map, of_trace)


def test_heatmap_tells_the_head_of_a_model_file_from_gaps(shown) -> None:
    trace = small_file([TensorRow("blk.0.a", 4096, 4096, 0)])
    known = replace(trace, models=(replace(trace.models[0], data_offset=4096),))

    claim = "Metadata of the model file"
    assert_sides(claim, tips(shown("heatmap", known)), tips(shown("heatmap", trace)))


def test_heatmap_tells_a_size_that_was_cut(shown) -> None:
    def said(size: int) -> str:
        rows = [TensorRow("blk.0.a", 0, size, 0), TensorRow("blk.1.a", 512, 512, 1)]
        return tips(shown("heatmap", small_file(rows)))

    assert_sides("overlapped the next tensor; cut there", said(700), said(512))


def test_heatmap_says_where_places_are_rounded(shown, monkeypatch) -> None:
    def words() -> str:
        rows = [TensorRow("t", 10, 200, 0)]
        ops = [Op(20 * i, (Read(0, 5, 10 + 7 * i),)) for i in range(20)]
        return compose.totals_words(
            shown("heatmap", reads_trace(rows, ops)).geometry_now()
        )

    exact = words()
    monkeypatch.setattr("ggscope.analysis.heat.heatmap.MOST_ENDS", 4)

    assert_sides("* kinds of access at rounded places", words(), exact)


def test_hot_tensors_tell_what_ops_without_records_read(shown) -> None:
    claim = "read by ops of the graph that have no record"

    assert_sides(
        claim, tips(shown("hot_cold", joined())), tips(shown("hot_cold", moe_reads()))
    )


def test_hot_tensors_tell_what_experts_in_no_list_may_read(shown) -> None:
    def said(more: dict[tuple[int, int], int]) -> str:
        stack = [TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, 4)]
        ops = [Op(0, (Read(0, 400, 0),), "MUL_MAT_ID")]
        view = shown("hot_cold", reads_trace(stack, ops, {(0, 0): [1]}, more))
        return tips(view)

    claim = "possibly {0} more, by experts that are not listed"
    assert_sides(claim, said({(0, 0): 2}), said({}))


def test_layers_of_a_graph_say_what_a_double_click_does(shown, qtbot) -> None:
    view = shown("graph", graph_traces.network_trace(3, 1))
    closed = tips(view, 12)
    for layer in range(3):
        view.toggle_layer(layer)
        settle_view(qtbot, view)
    opened = tips(view, 12)

    assert_sides("Double-click to expand", closed, opened)
    assert_sides("Double-click to collapse", opened, closed)


def test_counter_has_no_value_before_its_first_sample(shown) -> None:
    trace = builders.npu_like_trace()
    view = shown("timeline", trace)

    def said(tick: int) -> str:
        prepared, hit = view.prepared(), view.hit(600.0, 40.0)
        boxes = [
            b for b in prepared.layout.boxes if b.lane and not b.lane.track.has_rows
        ]
        hits = [replace(hit, box=b, tick=tick, span=-1, in_header=False) for b in boxes]
        return "\n".join(tooltip_for(prepared, view.session, h, 1.0) for h in hits)

    before, after = said(trace.extent.start - 10**6), said(trace.extent.end)
    assert_sides("<b>{}</b><br>no sample yet", before, after)
    assert_sides("<b>{}</b><br>{}<br>sample at {}", after, before)
    stopped = replace(trace, read_until=trace.extent.start + 1)
    running = replace(stopped, pending=frozenset({"spans"}))
    told = [tips(shown("timeline", t), 12) for t in (stopped, running, trace)]
    not_read = (
        "<b>Not read</b><br>Reading was stopped before this time. "
        "Reload (F5) to read the rest."
    )
    still = "<b>Still reading</b><br>This range has not been read yet."
    assert_sides(not_read, told[0], told[1] + told[2])
    assert_sides(still, told[1], told[0] + told[2])


def test_pixel_of_several_spans_tells_how_many(shown) -> None:
    start = np.arange(20_000) * 10
    many = builders.spans_trace(start, start + 6)
    few = builders.spans_trace([0, 1000], [900, 2000])

    claim = "{} spans in this pixel, busy {}; longest:<br>"
    assert_sides(
        claim, tips(shown("timeline", many), 12), tips(shown("timeline", few), 12)
    )


# -- other words of views ------------------------------------------------------------


def test_critical_path_says_what_of_it_has_no_time(shown, qtbot) -> None:
    def said(trace: Trace) -> str:
        view = shown("graph", trace)
        view.paths.show_critical()
        settle_view(qtbot, view)
        return view.path_bar.text()

    timed = graph_traces.network_trace(3, 1)
    alone = graph_traces.graph_trace(3, [(0, 1, 0), (1, 2, 0)])
    view = shown("graph", timed)
    view.paths.show_critical()
    settle_view(qtbot, view)
    middle = int(view.paths.lit.steps[len(view.paths.lit.steps) // 2])
    name = timed.spans.name.copy()
    name[name == timed.graphs[0].name[middle]] = -1
    holed = replace(timed, spans=replace(timed.spans, name=name))
    # The result has no span; those of a node beside the path stand in for it.
    ours, names = timed.graphs[0], timed.spans.name.copy()
    beside = set(range(len(ours))) - set(view.paths.lit.steps.tolist())
    spare = next(n for n in sorted(beside) if ours.name[n] in timed.spans.name)
    names[names == ours.name[spare]] = ours.name[int(view.paths.lit.steps[-1])]
    filled = replace(timed, spans=replace(timed.spans, name=names))
    whole, part, none = said(filled), said(holed), said(alone)

    claim = "No critical path: no node has a recorded time"
    assert_sides(claim, none, whole)
    assert_sides("Critical path: {0} of {1} ({2}) in {3} steps", whole, none)
    assert_sides(", {0} without a recorded time", part, whole)


def test_graph_says_that_the_trace_is_being_searched(shown, qtbot, monkeypatch) -> None:
    view = shown("graph", graph_traces.network_trace(3, 1))
    titles = titles_of(view.session, monkeypatch)
    known, view._measures = view._measures, {}
    view.paths.show_critical()
    searched = view.path_bar.text()
    view._measures = known
    view.paths.show_critical()
    settle_view(qtbot, view)
    found = view.path_bar.text()

    assert_sides("Still matching the trace with the graph", searched, found)
    assert_sides("Computing the critical path", "\n".join(titles), searched)


def test_dots_of_the_table_say_that_matching_goes_on() -> None:
    from ggscope.analysis.sessions.correlate import correlate

    trace = graph_traces.network_trace(2, 1)
    waiting = CellTexts.of(trace)
    done = CellTexts.of(trace, correlation=correlate(trace))

    claim = "Still matching spans with the graph."
    assert_sides(claim, waiting._dot_tip(0), done._dot_tip(0))


def test_statistics_tell_what_threads_share(shown, qtbot) -> None:
    def said(*, is_shared: bool, by: str = "op") -> str:
        tensor = [TensorRow("blk.0.a.weight", 0, 64, 0)]
        ops = [
            Op(0, (Read(0, 64),)),
            Op(0, (Read(0, 64),), thread=1, repeated=is_shared),
        ]
        view = shown("statistics", reads_trace(tensor, ops))
        view.by.setCurrentIndex(view.by.findData(by))
        qtbot.waitUntil(lambda: "MUL_MAT" in texts_of_widgets(view))
        return "\n".join(texts_of_widgets(view))

    one, each = said(is_shared=True), said(is_shared=False)
    assert_sides("Each thread records its part of an op", one, each)
    assert "1 op in 2 spans" in one
    assert "2 ops" in each or "2 spans" in each


def test_experts_that_sizes_imply_are_counted(shown) -> None:
    trace = routed([[[1, 2], [3, 4]]])
    routing = trace.routing
    implied = np.zeros(len(routing), np.bool_)
    implied[-1] = True
    more = replace(trace, routing=replace(routing, is_implied=implied))
    claim = (
        "{0} choices are not listed, but follow from tensor sizes: all experts "
        "computed."
    )

    said, unsaid = (
        "\n".join(texts_of_widgets(shown("experts", t))) for t in (more, trace)
    )
    assert_sides(claim, said, unsaid)


def test_timeline_that_loses_opengl_says_so(shown) -> None:
    view = shown("timeline", moe_reads())
    heard: list[str] = []
    view.renderer_failed.connect(heard.append)
    view.refresh()
    before = "\n".join(heard)
    view.canvas_failed("context lost")

    assert_sides("OpenGL failed ({0}); using CPU rendering.", "\n".join(heard), before)


# -- session and window ----------------------------------------------------------------


def test_stepping_by_token_says_that_none_is_recorded(qtbot: QtBot) -> None:
    def said(trace: Trace) -> str:
        session = Session()
        heard: list[str] = []
        session.status_message.connect(heard.append)
        session.set_trace(trace)
        session.step_token(1)
        session.step_token(-1)
        session.close()
        return "\n".join(heard)

    none = said(builders.spans_trace([0], [1]))
    assert_sides("No tokens recorded in this trace", none, said(moe_reads()))


def test_memory_that_runs_out_on_a_worker_is_said(qtbot: QtBot) -> None:
    def said(error: type[Exception]) -> str:
        def fail(_: object) -> None:
            raise error

        session = Session()
        heard: list[str] = []
        session.tasks.run(
            "a", fail, lambda _: None, on_error=lambda f: heard.append(f.message)
        )
        qtbot.waitUntil(lambda: bool(heard))
        session.close()
        return heard[0]

    assert_sides("Not enough memory.", said(MemoryError), said(ValueError))


def test_start_page_says_where_files_will_be_listed(
    qtbot: QtBot, settings: Settings, file: Path
) -> None:
    page = StartPage(settings)
    qtbot.addWidget(page)
    page.show()
    none = "\n".join(texts_of_widgets(page))
    settings.add_recent(file)
    one = "\n".join(texts_of_widgets(page))

    assert_sides("Recently opened files appear here.", none, one)


def test_report_of_the_system_is_copied_and_said(window: MainWindow) -> None:
    before = said(window)
    window.dialogs.copy_system_report()

    claim = "Copied the system report."
    assert_sides(claim, said(window), before)


def test_sources_that_are_still_read_or_not_named_are_told_apart(shown) -> None:
    tensors = [TensorRow("blk.0.a.weight", 0, 64, 0)]
    trace = reads_trace(tensors, [Op(0), Op(20, (Read(0, 64),))])
    waits = replace(trace, pending=frozenset({"accesses"}))

    def details(trace: Trace, span: int) -> str:
        view = shown("details", trace)
        view.session.select(Selection("spans", (span,)))
        return "\n".join(texts_of_widgets(view))

    def drawn(trace: Trace) -> str:
        found: list[str] = []
        draw = RowPainter._draw

        def noted(self, painter, rect, text, *others, **named) -> None:
            found.append(text)
            draw(self, painter, rect, text, *others, **named)

        view = shown("table", trace)
        view.set_detailed(True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RowPainter, "_draw", noted)
            view.grab()
        view.close()
        return "\n".join(found)

    claim = "No source tensors recorded."
    assert_sides(claim, details(trace, 0), details(trace, 1) + details(waits, 0))
    none, still = drawn(trace), drawn(waits)
    assert_sides("none recorded", none, still)
    assert_sides("still being read", still, none)


def test_bytes_by_thread_are_not_told_where_threads_share_them(shown, qtbot) -> None:
    def said(by: str) -> str:
        tensor = [TensorRow("blk.0.a.weight", 0, 64, 0)]
        ops = [Op(0, (Read(0, 64),), thread=i, repeated=i > 0) for i in (0, 1)]
        view = shown("statistics", reads_trace(tensor, ops))
        qtbot.waitUntil(lambda: "MUL_MAT" in texts_of_widgets(view))
        view.by.setCurrentIndex(view.by.findData(by))
        key = {"op": "MUL_MAT", "thread": "thread 1"}[by]
        qtbot.waitUntil(lambda: key in texts_of_widgets(view))
        return "\n".join(texts_of_widgets(view))

    claim = "threads share these ops; the bytes of each thread are not recorded"
    assert_sides(claim, said("thread"), said("op"))


def test_graph_is_sought_in_the_trace_by_a_task_of_that_name(
    shown, qtbot, monkeypatch
) -> None:
    titles: list[str] = []
    run = Tasks.run

    def noted(self, *arguments: object, **named: object) -> None:
        titles.append(str(named.get("title", "")))
        run(self, *arguments, **named)

    monkeypatch.setattr(Tasks, "run", noted)
    shown("graph", moe_reads())
    without = "\n".join(titles)
    shown("graph", graph_traces.network_trace(3, 1))

    assert_sides("Matching the graph with the trace", "\n".join(titles), without)


def test_bookmarks_that_are_sorted_can_be_put_back(qtbot: QtBot) -> None:
    session = Session()
    session.set_trace(builders.spans_trace([0], [100]))
    heard: list[str] = []
    session.status_message.connect(heard.append)
    session.bookmarks.add("a", TimeRange(50, 60))
    session.bookmarks.add("b", TimeRange(5, 6))
    session.bookmarks.undo()
    session.bookmarks.redo()
    before = "\n".join(heard)
    session.bookmarks.sort()
    session.bookmarks.undo()

    assert_sides("bookmarks sorted by time", "\n".join(heard), before)
    session.close()


def test_bookmarks_that_cannot_be_written_are_told(
    window: MainWindow, opened, tmp_path: Path, qtbot: QtBot, monkeypatch
) -> None:
    def fail(_: object, __: object = None) -> None:
        raise WriteError("the disk is full.")

    path = tmp_path / "a.ggmlviz"
    path.write_bytes((ROOT / "resources/samples/llama.ggmlviz").read_bytes())
    document = opened(path)
    document.session.bookmarks.add("a", TimeRange(50, 60))
    keeper = document.bookmarks.keeper
    qtbot.waitUntil(lambda: not keeper._later.isActive() and not keeper._is_keeping)
    before = said(document)
    monkeypatch.setattr(BookmarkStorage, "store", fail)
    document.session.bookmarks.add("b", TimeRange(50, 60))
    claim = "Could not save the bookmarks. {0}"
    qtbot.waitUntil(lambda: is_said(claim, said(document)))

    assert_sides(claim, said(document), before)


def test_files_that_are_added_are_counted(
    window: MainWindow, opened, qtbot: QtBot
) -> None:
    sample = ROOT / "resources" / "samples" / "moe-experiment"
    files = [sample / "memory-map.json", sample / "buffer-timeline.json"]

    def added(*paths: Path) -> str:
        document = opened(sample / "trace-1024.bin")
        document.parts.add(paths)
        qtbot.waitUntil(lambda: "Added" in said(document), timeout=20_000)
        words = said(document)
        window.close_document(document)
        return words

    assert_sides("Added {0} files.", added(*files), added(files[0]))


def test_page_of_a_broken_file_offers_what_stands_before_the_fault(
    tmp_path: Path, qtbot: QtBot
) -> None:
    whole = (ROOT / "resources/samples/npu-prefill-decode.json").read_text()
    head = whole.index('"timeline_events"') + len('"timeline_events": [')

    def said(text: str) -> str:
        path = tmp_path / "a.json"
        path.write_text(text)
        with pytest.raises(ReadError) as found:
            open_trace(path, context=ReadContext(options={"strict": "true"}))
        page = ProblemPage(path)
        qtbot.addWidget(page)
        page.show_failure(TaskFailure("", "", "", found.value, ""), ())
        return page.hint.text()

    claim = "The data before the damage can be opened."
    assert_sides(claim, said(whole[: head + 5000]), said(whole[:head]))


@pytest.mark.parametrize("few", [0, 20_000])
def test_lanes_and_tensors_of_large_traces_are_listed_on_a_worker(
    window: MainWindow, opened, monkeypatch, qtbot: QtBot, few: int
) -> None:
    document = opened(ROOT / "resources/samples/llama.ggmlviz")
    titles = titles_of(document.session, monkeypatch)
    monkeypatch.setattr("ggscope.gui.commands.places.FEW", few)
    monkeypatch.setattr("ggscope.gui.commands.places.MAX_CANDIDATES", 3)
    window.dialogs.show_go_to()
    qtbot.waitUntil(lambda: document.session.tasks.is_idle)

    assert ("Listing lanes, tensors and tokens" in titles) == (few == 0)


def test_choice_of_an_op_table_tells_how_sure_the_present_one_is(
    qtbot: QtBot, monkeypatch
) -> None:
    trace = builders.llama_like_trace(tokens=1, layers=1)
    inferred = replace(trace, ops=replace(trace.ops, source="inferred", margin=25.0))
    heard: list[str] = []

    def choose(*arguments: object, **named: object) -> None:
        heard.append(" ".join(map(str, (*arguments, *named.values()))))

    monkeypatch.setattr(dialogs, "choose_one", choose)
    dialogs.choose_ops(inferred, None)
    dialogs.choose_ops(trace, None)

    assert_sides("{0} was detected with margin {1}.", *heard)
