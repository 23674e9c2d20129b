"""Claims of views and figures, each said of a trace for which it is true, alone."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from buffer_traces import COMPUTE, WEIGHTS, Life, buffers_trace
from builders import spans_trace
from expert_traces import accessing, routed
from ggscope.analysis.buffers import buffer_use, occupancy
from ggscope.analysis.experts.figures import Beside, ExpertsResult, experts_result
from ggscope.analysis.sessions.join import SideFile, join
from ggscope.analysis.sessions.mapping import Fit
from ggscope.descriptions.spans import quality_words
from ggscope.errors import ExportError
from ggscope.model.routing import UNKNOWN_MORE
from ggscope.model.tables import SpanFlag
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.registry import open_trace
from ggscope.render.buffers import buffers_figure
from ggscope.render.experts import ExpertsOptions, Measure, experts_figure
from ggscope.render.export import Figure
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.heatmap.figure import heatmap_figure
from ggscope.render.timeline.figure import timeline_figure
from ggscope.views.buffers import texts as buffers
from ggscope.views.experts import texts as experts
from graph_traces import network_trace
from hostile import SAMPLES
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from scenes import texts_of
from sentences import assert_sides
from session_files import model_trace, reading_trace

LONG = "blk.0.attn_output.weight"
MODEL = [("token_embd.weight", 0, 512), (LONG, 512, 256), ("output.weight", 768, 256)]
STACK = TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, n_experts=4)


# -- buffers ---------------------------------------------------------------------------

KV = Life(64, 0, 500, name="KVCache_CPU")
LOADED = Life(64, 0, usage=WEIGHTS)


def told_of(*lives: Life) -> str:
    """Return the figures of buffers, and what their recording lacks."""
    trace = buffers_trace(list(lives))
    parts = (
        buffers.about_words(trace, occupancy(trace)),
        buffers.gap_head(trace),
        buffers.gap_words(trace),
    )
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("claim", "true", "false"),
    [
        (
            "1 buffer alive",
            (Life(64, 0, 500), Life(64, 500)),
            (Life(64, 0, 600), Life(64, 500)),
        ),
        (
            "some allocations not recorded",
            (LOADED, Life(64, 0, 500), Life(64, -1)),
            (Life(64, -1), Life(32, -1)),
        ),
        (
            "no allocations recorded",
            (Life(64, -1), Life(32, -1)),
            (LOADED, Life(64, 0, 500), Life(64, -1)),
        ),
        (
            "no releases recorded",
            (LOADED, Life(64, 0, usage=COMPUTE)),
            (LOADED, Life(64, 0, 500, usage=COMPUTE)),
        ),
        (
            "No releases recorded; the recorder may not write them. “Never freed” may "
            "be wrong.",
            (LOADED, Life(64, 0, usage=COMPUTE)),
            (LOADED, Life(64, 0, 500, usage=COMPUTE)),
        ),
        (
            "No scheduler compute buffers recorded. The peak is a lower bound.",
            (LOADED, KV),
            (LOADED, replace(KV, name="CPU compute")),
        ),
        (
            "recording incomplete: no weights, no scheduler buffers",
            (KV,),
            (KV, LOADED),
        ),
        (
            "No weight buffers recorded: the model was loaded before recording "
            "started. The peak is a lower bound.",
            (KV,),
            (KV, LOADED),
        ),
    ],
)
def test_recordings_of_buffers_are_told_apart(
    claim: str, true: tuple[Life, ...], false: tuple[Life, ...]
) -> None:
    assert_sides(claim, told_of(*true), told_of(*false))


def test_accesses_of_a_buffer_are_not_known_where_none_names_one() -> None:
    def said(accessed: list[list[int]], *pending: str) -> str:
        trace = buffers_trace([LOADED], accessed=accessed)
        trace = replace(trace, pending=frozenset(pending))
        return buffers.buffer_words(trace, 0, buffer_use(trace), absolute=False)

    none = said([[]])
    unsaid = [said([[0]]), said([[]], "accesses")]
    assert_sides("accesses {0}: none of them names a buffer", none, "\n".join(unsaid))
    assert "accesses still being read" in unsaid[1]


# -- experts ---------------------------------------------------------------------------


def result_of(trace: Trace) -> ExpertsResult:
    return experts_result(trace, None, None, None, Beside.OVERLAP)


def listed(more: int) -> Trace:
    """Return an op on a stack whose list of experts may go on for `more`."""
    op = Op(0, (Read(0, 400),), "MUL_MAT_ID")
    return reads_trace([STACK], [op], {(0, 0): [1]}, {(0, 0): more})


def sliced(*layers: int) -> Trace:
    """Return an access to an expert of each layer, -1 = of none that is known."""
    rows = [("blk.0.ffn_up_exps.weight[0]", 0, 64, 0, 0, 4)]
    return accessing([[(0, layer, 0, 64)] for layer in layers], [0, 1], [0, 1], rows)


def about(trace: Trace) -> str:
    result = result_of(trace)
    return f"{experts.about_words(result)}\n{experts.about_tip(result)}"


def cell(trace: Trace) -> str:
    return experts.cell_words(result_of(trace), (0, 1))


CHOSEN = [[[1, 2], [3, 4]]]
OF_EXPERTS: dict[str, tuple[Callable[[], str], Callable[[], str]]] = {
    "Counts are accesses; an expert has several tensors.": (
        lambda: about(sliced(0, 0)), lambda: about(routed(CHOSEN)),
    ),
    "{0} without a valid layer or expert omitted": (
        lambda: about(routed(CHOSEN, layers=[0, -1])),
        lambda: about(routed(CHOSEN, layers=[0, 1])),
    ),
    "{0} experts per layer (inferred from the highest expert id seen).": (
        lambda: about(routed(CHOSEN)), lambda: about(routed(CHOSEN, n_experts=8)),
    ),
    "Recorded lists hold at most 16 experts, and only those of a prompt's first "
    "token. Shares and entropy of incomplete layers are omitted.": (
        lambda: about(listed(1)), lambda: about(listed(0)),
    ),
    "{0} further choices of the layer unknown": (
        lambda: cell(listed(1)), lambda: cell(listed(0)),
    ),
    "number of further choices": (
        lambda: cell(listed(UNKNOWN_MORE)), lambda: cell(listed(1)),
    ),
    "{0} of the layer": (
        lambda: cell(listed(0)).splitlines()[1],
        lambda: cell(listed(1)).splitlines()[1],
    ),
    "bytes {0}: sizes unknown": (
        lambda: cell(routed(CHOSEN)), lambda: cell(listed(0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("claim", OF_EXPERTS)
def test_choices_of_experts_are_told_apart(claim: str) -> None:
    said, unsaid = OF_EXPERTS[claim]

    assert_sides(claim, said(), unsaid())


# -- figures ---------------------------------------------------------------------------


def drawn(figure: Figure) -> str:
    """Return all that a figure says, or why there is none."""
    try:
        made = figure.draw(FigureStyle(width=css_px(1300), height=css_px(700)))
    except ExportError as error:
        return str(error)
    return "\n".join([*texts_of(made.picture), made.description])


def of_experts(trace: Trace, measure: Measure = Measure.COUNT) -> str:
    return drawn(experts_figure(trace, ExpertsOptions(measure=measure)))


def without_sizes(trace: Trace) -> Trace:
    blank = np.full(len(trace.tensors), -1, np.int64)
    return replace(trace, tensors=replace(trace.tensors, size=blank))


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize(
    ("claim", "true", "false"),
    [
        (
            "Timeline of *, * – * (*), coloured by *: * span* on * of * lane*. "
            "Column opacity shows lane utilisation; a foot marks each column that "
            "holds a span.",
            lambda: drawn(timeline_figure(moe_reads())),
            lambda: drawn(heatmap_figure(moe_reads())),
        ),
        (
            "Reads of the model file of * by *: * accesses to * tensors and expert "
            "slices in a file of *, * (* bytes), *.",
            lambda: drawn(heatmap_figure(moe_reads())),
            lambda: drawn(heatmap_figure(spans_trace([0], [1]))),
        ),
        (
            "The trace does not record which tensors its ops read.",
            lambda: drawn(heatmap_figure(spans_trace([0], [1]))),
            lambda: (
                drawn(heatmap_figure(moe_reads())) + drawn(heatmap_figure(nowhere()))
            ),
        ),
        (
            "None of the 252 accesses in this trace names a tensor.",
            lambda: drawn(
                heatmap_figure(open_trace(SAMPLES / "npu-prefill-decode.json"))
            ),
            lambda: drawn(heatmap_figure(spans_trace([0], [1]))),
        ),
        (
            "File offsets of tensors are unknown: add the model or its map.",
            lambda: drawn(heatmap_figure(nowhere())),
            lambda: (
                drawn(heatmap_figure(moe_reads()))
                + drawn(heatmap_figure(spans_trace([0], [1])))
            ),
        ),
        (
            "* without a place in the file",
            lambda: drawn(heatmap_figure(placed(-1))),
            lambda: drawn(heatmap_figure(placed(64))),
        ),
        (
            "Buffers of * by *, * in all; at most * (* byte*) in * of them.",
            lambda: drawn(buffers_figure(buffers_trace([LOADED]))),
            lambda: drawn(buffers_figure(buffers_trace([Life(-1, -1)]))),
        ),
        (
            "Experts of *: * of * (layer, expert) slots active in * token*, known "
            "from *.",
            lambda: of_experts(routed(CHOSEN)),
            lambda: of_experts(network_trace()),
        ),
        (
            "Nothing in this trace has to do with experts.",
            lambda: of_experts(network_trace()),
            lambda: of_experts(routed(CHOSEN)) + of_experts(stacks()),
        ),
        (
            "N/A: sizes of experts are not known",
            lambda: of_experts(without_sizes(listed(1)), Measure.BYTES),
            lambda: (
                of_experts(listed(0), Measure.BYTES)
                + of_experts(without_sizes(listed(0)))
            ),
        ),
        (
            "N/A: no layer has choices that are all recorded",
            lambda: of_experts(listed(1), Measure.SHARE),
            lambda: (
                of_experts(listed(0), Measure.SHARE)
                + of_experts(without_sizes(listed(1)), Measure.BYTES)
            ),
        ),
        (
            "N/A: no two tokens in a row have all choices recorded",
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]], tokens=[0, 5])),
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]], tokens=[0, 1])),
        ),
        (
            "N/A: no two tokens in a row have all choices recorded",
            lambda: of_experts(cut_short(routed([[[1, 2]], [[1, 3]]]))),
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]])),
        ),
    ],
)
def test_figures_say_what_they_show_or_why_they_do_not(
    claim: str, true: Callable[[], str], false: Callable[[], str]
) -> None:
    assert_sides(claim, true(), false())


def cut_short(trace: Trace) -> Trace:
    """Return the trace with a choice of the first token that no list names."""
    more = np.where(trace.routing.token == 0, 1, 0).astype(np.int32)
    return replace(trace, routing=replace(trace.routing, n_more=more))


def placed(offset: int) -> Trace:
    """Return reads of two tensors, one of them at a place that may not be known."""
    rows = [TensorRow("blk.0.a", 0, 64, 0), TensorRow("blk.1.a", offset, 64, 1)]
    return reads_trace(rows, [Op(20 * i, (Read(i, 64),)) for i in (0, 1)])


def nowhere() -> Trace:
    """Return the read of a tensor whose place is not known."""
    return reads_trace([TensorRow("blk.0.a", -1, 64, 0)], [Op(0, (Read(0, 64),))])


def stacks() -> Trace:
    """Return a trace that reads a stack, and does not tell of which expert."""
    return reads_trace([STACK], [Op(0, (Read(0, 400),), "MUL_MAT_ID")])


# -- spans and sessions ----------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [0, SpanFlag.INFERRED_END, SpanFlag.UNFINISHED, SpanFlag.ESTIMATED],
    ids=["measured", "no end", "unfinished", "estimated"],
)
def test_start_that_was_not_recorded_is_said_to_be_derived(flags: int) -> None:
    lost, other = (
        spans_trace([0], [10], flags=np.uint16(f))
        for f in (SpanFlag.INFERRED_START, flags)
    )
    claim = "derived: start not recorded"

    assert_sides(claim, quality_words(lost, 0), quality_words(other, 0))


def test_end_of_a_phase_is_not_that_of_a_record() -> None:
    thread, phase = (
        spans_trace([0], [10], kind=kind, flags=np.uint16(SpanFlag.INFERRED_END))
        for kind in (LaneKind.THREAD, LaneKind.PHASE)
    )
    said = [quality_words(trace, 0) for trace in (phase, thread)]

    assert_sides("derived: end not recorded", *said)
    assert_sides("derived: until the next record of this thread", *said[::-1])


def test_cut_names_that_a_map_completes_are_told() -> None:
    def joined(name: str) -> Trace:
        reads = [MODEL[0], (name, *MODEL[1][1:])]
        return join(reading_trace(reads), [SideFile(model_trace(MODEL), "map")])

    cut, whole = (
        "\n".join(w.message for w in joined(name).warnings)
        for name in (LONG[:19], LONG)
    )
    claim = "Truncated names completed from *"
    assert_sides(claim, cut, whole)


def test_offsets_are_compared_where_both_sides_tell_them() -> None:
    none = Fit(belongs=True, n_names=3, n_named=2, n_offsets=0, n_agree=0, delta=None)
    both = replace(none, n_offsets=2, n_agree=1, delta=0)

    assert_sides("*, * of * offsets match", both.evidence, none.evidence)
