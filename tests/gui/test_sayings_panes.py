"""Claims of the views, each said where it is true and not by its neighbour."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import Qt

import builders
import graph_traces
from buffer_traces import Life, buffers_trace
from expert_traces import routed
from ggscope.analysis.experts.figures import Beside
from ggscope.analysis.sessions.correlate import correlate
from ggscope.model.routing import expert_key
from ggscope.model.selection import Filter, Selection
from ggscope.model.tables import (
    AccessColumns,
    AccessKind,
    FlatAccesses,
    Space,
    SpanFlag,
)
from ggscope.model.trace import OTHER_FILES, ReadWarning, Severity, Trace
from ggscope.model.units import TimeRange
from ggscope.session.tasks import Tasks
from ggscope.views.base.canvas import PaintedView
from ggscope.views.base.cells import CellTexts
from ggscope.views.details.histogram import DurationHistogram
from ggscope.views.details.links import SpanSteps
from ggscope.views.graph.viewport import GraphHit, tooltip_for
from graph_scenes import graph_scene
from panes import empty_words, settle_view, texts_of_widgets, tips, titles_of
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from sentences import assert_sides

STACK = TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, 4)


def why_empty(view: PaintedView) -> str:
    """Return what stands where the picture would, "" where there is one."""
    size = view.canvas_size()
    made = view.compose(size.width(), size.height(), 1.0)
    return "" if made is not None else empty_words(view)


def reads(*made: Read, op: str = "MUL_MAT", row: TensorRow | None = None) -> Trace:
    return reads_trace([row or TensorRow("blk.0.a", 0, 64, 0)], [Op(0, made, op)])


def unplaced(*made: Read) -> Trace:
    """Return an op that reads a tensor of which no file tells the place."""
    return replace(reads(*made, row=TensorRow("blk.0.a")), models=())


# -- why a view is empty ---------------------------------------------------------------

NO_ACCESSES = (
    "This trace does not record which tensors its ops read. Add a tensor-access trace "
    "of the same run: File › Add to session."
)


@pytest.mark.parametrize(
    ("view_id", "claims", "true", "false"),
    [
        (
            "experts",
            (
                "No experts in this trace",
                "Neither routing nor expert accesses are recorded. Open a "
                "tensor-access trace of a mixture-of-experts model, or add a routing "
                "CSV.",
            ),
            lambda: reads(Read(0, 64)),
            lambda: reads(Read(0, 400), op="MUL_MAT_ID", row=STACK),
        ),
        (
            "buffers",
            ("No buffers in this trace",),
            lambda: reads(Read(0, 64)),
            lambda: buffers_trace([Life(-1, -1)]),
        ),
        (
            "buffers",
            (
                "These buffers are known from accesses only. Add a file of buffer "
                "events for sizes and times: File › Add to session.",
            ),
            lambda: buffers_trace([Life(-1, -1)]),
            lambda: buffers_trace([Life(64, 0)]),
        ),
        (
            "graph",
            (
                "No graph in this trace",
                "Open a graph file (JSON or DOT), or the folder of the experiment.",
            ),
            moe_reads,
            graph_traces.network_trace,
        ),
        (
            "hot_cold",
            (
                "No tensor accesses",
                "Tensor-access traces record what each op reads. Add one of the same "
                "run: File › Add to session.",
            ),
            unplaced,
            lambda: unplaced(Read(0, 64)),
        ),
        ("heatmap", (NO_ACCESSES,), unplaced, lambda: unplaced(Read(0, 64))),
        (
            "heatmap",
            ("No model file",),
            lambda: unplaced(Read(0, 64)),
            lambda: reads(Read(0, 64)),
        ),
        (
            "cache",
            (
                "No model file reads",
                "Open a tensor-access trace, and add its GGUF or memory map for sizes.",
            ),
            lambda: reads(Read(0, 64, space=Space.BUFFER)),
            lambda: reads(Read(0, 64)),
        ),
    ],
)
def test_view_says_what_a_trace_lacks_once_it_is_read(
    shown, view_id: str, claims: tuple[str, ...], true, false
) -> None:
    lacking = true()
    said, unsaid = (why_empty(shown(view_id, trace)) for trace in (lacking, false()))
    for claim in claims:
        assert_sides(claim, said, unsaid)
    for part in ("accesses", OTHER_FILES):
        waits = replace(lacking, pending=frozenset({part}))
        assert not any(claim in why_empty(shown(view_id, waits)) for claim in claims)


@pytest.mark.parametrize("view_id", ["hot_cold", "heatmap"])
def test_accesses_that_name_no_tensor_are_not_denied(shown, view_id: str) -> None:
    trace = builders.npu_like_trace()
    loose = replace(
        FlatAccesses.blank(252),
        what=replace(
            AccessColumns.blank(252), space=np.full(252, Space.DRAM, np.uint8)
        ),
    )
    some = replace(trace, accesses=replace(trace.accesses, loose=loose))

    claim = "None of the 252 accesses in this trace names a tensor."
    said, unsaid = (why_empty(shown(view_id, t)) for t in (some, trace))
    assert_sides(claim, said, unsaid)
    assert "Add a" not in said


def test_pictures_of_hot_and_cold_that_are_empty_deny_no_accesses(shown, qtbot) -> None:
    def said(trace: Trace, picture: str) -> str:
        view = shown("hot_cold", trace)
        view.picture_box.setCurrentIndex(view.picture_box.findData(picture))
        settle_view(qtbot, view)
        return why_empty(view)

    touched = reads(Read(0, 64))
    for claim in (
        "Nothing to show",
        "The recorded accesses have no data for this chart.",
    ):
        for picture in ("cold", "kv"):
            assert_sides(claim, said(touched, picture), said(unplaced(), picture))
        assert_sides(claim, said(touched, "cold"), said(touched, "ranking"))


def test_cache_that_counts_no_read_does_not_deny_the_accesses(shown) -> None:
    def said(read: Read) -> str:
        return why_empty(shown("cache", reads(read)))

    written = said(Read(0, 64, kind=AccessKind.WRITE))
    others = said(Read(0, 64)) + said(Read(0, 64, space=Space.BUFFER))
    for claim in (
        "No reads to count",
        "Accesses to a model file are recorded, but no read can be counted. Add its "
        "GGUF or memory map for sizes.",
    ):
        assert_sides(claim, written, others)


@pytest.mark.parametrize(
    "view_id",
    ["bookmarks", "buffers", "details", "experts", "problems", "statistics", "table"],
)
def test_view_without_a_trace_says_that_none_is_open(shown, view_id: str) -> None:
    def said(trace: Trace | None) -> str:
        view = shown(view_id, trace)
        is_drawn = isinstance(view, PaintedView)
        return why_empty(view) if is_drawn else "\n".join(texts_of_widgets(view))

    assert_sides("No trace is open.", said(None), said(builders.empty_trace()))


def test_statistics_say_why_no_span_is_counted(shown, qtbot) -> None:
    def said(trace: Trace, wanted: Filter | None = None) -> str:
        view = shown("statistics", trace)
        if wanted is not None:
            view.session.set_filter(wanted)
        qtbot.waitUntil(lambda: not view._timer.isActive())
        settle_view(qtbot, view)
        return "\n".join(texts_of_widgets(view))

    none = said(builders.spans_trace([], []))
    some = said(builders.spans_trace([0], [10], op=1))
    hidden = said(
        builders.spans_trace([0], [10], op=1), Filter(ops=frozenset({"MUL_MAT"}))
    )
    claim = "Drag across the timeline to mark a range."
    assert_sides(claim, none, some + hidden)
    assert "No op lies" not in hidden
    assert "in this range matches the filter" in hidden


# -- details and table -----------------------------------------------------------------


def details(shown: Callable[..., Any], qtbot, trace: Trace, *chosen: object) -> str:
    view = shown("details", trace)
    if chosen:
        view.session.select(Selection(*chosen))
        settle_view(qtbot, view)
    return "\n".join(texts_of_widgets(view))


def test_details_say_what_is_selected(shown, qtbot) -> None:
    trace = moe_reads()
    nothing = details(shown, qtbot, trace)
    span = details(shown, qtbot, trace, "spans", (0,))
    tensor = details(shown, qtbot, trace, "tensors", (0,))
    expert = details(shown, qtbot, trace, "experts", (expert_key(0, 1),))

    assert_sides("Nothing selected", nothing, span)
    assert_sides(
        "Its spans are highlighted in the timeline and the table.", tensor, span
    )
    assert_sides("expert of layer *", expert, tensor)


def test_sources_are_still_being_read_until_they_are_there(shown, qtbot) -> None:
    row = TensorRow("blk.0.a", 0, 64, 0)
    trace = reads_trace([row], [Op(0), Op(20, (Read(0, 64),))])
    waits = replace(trace, pending=frozenset({"accesses"}))
    said = details(shown, qtbot, waits, "spans", (0,))

    claim = "Still reading sources."
    assert_sides(claim, said, details(shown, qtbot, trace, "spans", (0,)))
    assert_sides(claim, said, details(shown, qtbot, waits, "spans", (1,)))


def test_spans_that_are_not_lit_are_told(qtbot) -> None:
    steps = SpanSteps()
    qtbot.addWidget(steps)

    def said(n_listed: int) -> str:
        steps.set_position(-1, n_listed, 9)
        return "\n".join(texts_of_widgets(steps))

    claim = "The first {0} of its spans are highlighted *; filter to see all."
    assert_sides(claim, said(5), said(9))


def test_histogram_has_no_times_where_no_span_has_one(shown, qtbot) -> None:
    def n_timed(flags: int) -> int:
        trace = builders.spans_trace([0, 20], [10, 30], op=1, flags=np.uint16(flags))
        view = shown("details", trace)
        view.session.select(Selection("spans", (0,)))
        settle_view(qtbot, view)
        histogram = view.findChild(DurationHistogram)
        assert histogram is not None
        assert histogram.durations is not None
        return histogram.durations.timed

    assert n_timed(SpanFlag.ESTIMATED) == 0
    assert n_timed(0) == 2


def test_table_says_how_many_rows_were_selected(shown, qtbot, monkeypatch) -> None:
    def said(most: int) -> str:
        monkeypatch.setattr("ggscope.views.table.view.MAX_SELECTED", most)
        view = shown("table", builders.spans_trace([0, 20, 40], [10, 30, 50]))
        view.session.set_visible(TimeRange(0, 50))
        qtbot.waitUntil(lambda: len(view.model.order) == 3)
        view.select_all()
        return "\n".join(texts_of_widgets(view))

    assert_sides("{0} of {1} {2} (maximum)", said(2), said(3))


def test_table_says_why_a_span_is_not_in_the_graph(shown) -> None:
    trace = graph_traces.network_trace(2, 1)
    spans = trace.spans
    op, name = spans.op.copy(), spans.name.copy()
    op[0], name[0] = -1, trace.strings.intern("of no graph")

    def said(trace: Trace) -> str:
        found = correlate(trace)
        row = shown("table", trace)
        row.session.linked  # noqa: B018 - asks for what is linked
        tip = CellTexts.of(trace, correlation=found)._dot_tip(0)
        return f"{tip}\n{row.model.row_text(0)}"

    known = said(trace)
    no_op = said(replace(trace, spans=replace(spans, op=op)))
    renamed = said(replace(trace, spans=replace(spans, name=name)))

    assert_sides("Not in the graph: not an op.", no_op, known + renamed)
    claim = (
        "Not in the graph: no node matches “{0}” by name (with or without suffix) and "
        "op; addresses are not compared."
    )
    assert_sides(claim, renamed, known + no_op)
    assert_sides("not in the graph", renamed, known)


# -- lists and pictures ----------------------------------------------------------------


def test_pane_of_bookmarks_is_empty_where_there_are_none(shown) -> None:
    view = shown("bookmarks", moe_reads())
    none = "\n".join(texts_of_widgets(view))
    view.session.bookmarks.add("a", TimeRange(0, 10))

    assert_sides("No bookmarks", none, "\n".join(texts_of_widgets(view)))


def test_problems_are_all_hidden_where_no_kind_is_shown(shown) -> None:
    warnings = tuple(
        ReadWarning(severity, "a_code", "It is so.")
        for severity in (Severity.NOTICE, Severity.ERROR)
    )

    def said(*hidden: Severity) -> str:
        view = shown("problems", replace(reads(), warnings=warnings))
        for severity in hidden:
            view._filters[severity].setChecked(False)
        return "\n".join(texts_of_widgets(view))

    every, some = said(Severity.NOTICE, Severity.ERROR), said(Severity.NOTICE)
    assert_sides("All problems hidden", every, some)


def test_graph_is_laid_out_where_there_is_one(shown, monkeypatch) -> None:
    view = shown("graph", None)
    titles = titles_of(view.session, monkeypatch)

    def said(trace: Trace) -> str:
        titles.clear()
        view.session.set_trace(trace)
        return "\n".join([empty_words(view), *titles])

    none, first = said(reads(Read(0, 64))), said(graph_traces.network_trace())
    assert_sides("Laying out the graph", first, none)
    assert titles.count("Laying out the graph") == 1


def test_track_of_buffers_is_told_from_the_file(shown) -> None:
    rows = [TensorRow("blk.0.a.weight", 0, 64, 0), TensorRow("Qcur-0", -1, 8, 0)]

    def said(*more: Read) -> str:
        ops = [Op(20 * i, (Read(0, 64), *more)) for i in range(4)]
        return tips(shown("heatmap", reads_trace(rows, ops)))

    claim = "BUFFER: runtime memory, not in the file"
    assert_sides(claim, said(Read(1, 8, space=Space.BUFFER)), said())


def test_accesses_are_counted_by_a_task_of_that_name(shown, monkeypatch) -> None:
    titles: list[str] = []
    run = Tasks.run

    def noted(self, *arguments: object, **named: object) -> None:
        titles.extend(str(value) for value in (*arguments, *named.values()))
        run(self, *arguments, **named)

    monkeypatch.setattr(Tasks, "run", noted)
    shown("hot_cold", replace(moe_reads(), pending=frozenset({OTHER_FILES})))
    before = "\n".join(titles)
    shown("hot_cold", moe_reads())

    assert_sides("Counting tensor accesses", "\n".join(titles), before)


def choosing(more: int) -> Trace:
    """Return an op on a stack, and a list of its experts that may not be whole."""
    op = Op(0, (Read(0, 400),), "MUL_MAT_ID")
    made = reads_trace([STACK], [op], {(0, 0): [1]}, {(0, 0): more})
    return replace(made, models=(replace(made.models[0], size=STACK.size),))


def test_heatmap_tells_what_experts_in_no_list_may_read(shown) -> None:
    said, unsaid = (tips(shown("heatmap", choosing(more))) for more in (2, 0))

    assert_sides("up to {0} ×, by experts that are not listed", said, unsaid)


def test_experts_to_pin_are_told_of_what_was_counted(shown, qtbot) -> None:
    def said(trace: Trace, beside: Beside) -> str:
        view = shown("experts", trace)
        view.bar.beside.setCurrentIndex(view.bar.beside.findData(beside))
        settle_view(qtbot, view)
        words = [*texts_of_widgets(view.cover)] if view.cover.isVisible() else []
        model = view.cover.model
        for row in range(model.rowCount()):
            index = model.index(row, 1)
            words.append(str(model.data(index, Qt.ItemDataRole.ToolTipRole)))
        return "\n".join(words)

    pins = said(choosing(0), Beside.COVER)
    others = said(choosing(0), Beside.OVERLAP)
    for claim in (
        "pin {0} of {1} slots",
        "pin {0} of {1} experts in layer {2} for {3} of its {4}",
    ):
        assert_sides(claim, pins, others)
    unsized = said(routed([[[1, 2], [3, 4]]]), Beside.COVER)
    assert_sides("{0} of all experts", pins, unsized)
    # Of a list that goes on, what is not in it is no part of the share.
    assert "of recorded choices" in said(choosing(1), Beside.COVER)
    assert "of its recorded choices" in said(choosing(1), Beside.COVER)
    assert "of choices" in pins
    assert "of its choices" in pins
    accessed = said(moe_reads(), Beside.COVER)
    assert "of accesses" in accessed
    assert "choices" not in accessed


def test_end_of_a_long_edge_names_the_other_end() -> None:
    n = 20
    edges = [*[(i, i + 1) for i in range(n - 1)], (0, n - 1)]
    scene = graph_scene(graph_traces.graph_trace(n, edges), height=2_000)
    assert len(scene.layout.stubs) == 1

    begin, end, node = (
        str(tooltip_for(scene, hit, None))
        for hit in (GraphHit(stub=0, leaves=True), GraphHit(stub=0), GraphHit(box=0))
    )

    assert_sides("Edge to {0}", begin, end + node)
    assert f"node_{n - 1}" in begin
    assert_sides("Edge from {0}", end, begin + node)
    assert "node_0" in end
    assert_sides("Too long to draw; click to go to its other end", begin, node)
    short = graph_scene(graph_traces.graph_trace(n, edges[:-1]), height=2_000)
    assert len(short.layout.stubs) == 0
