"""Views and figures state a condition of a trace where it holds, and only there."""

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
from ggscope.descriptions.spans import quality_text
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
from ggscope.views.buffers import texts as buffers
from ggscope.views.experts import texts as experts
from graph_traces import network_trace
from hostile import SAMPLES
from reads_builder import Op, Read, TensorRow, reads_trace
from scenes import texts_of
from session_files import model_trace, reading_trace
from statements import new_statement, new_statements

LONG = "blk.0.attn_output.weight"
MODEL = [("token_embd.weight", 0, 512), (LONG, 512, 256), ("output.weight", 768, 256)]
STACK = TensorRow("blk.0.ffn_up_exps.weight", 0, 400, 0, n_experts=4)


# -- buffers ---------------------------------------------------------------------------

KV = Life(64, 0, 500, name="KVCache_CPU")
LOADED = Life(64, 0, usage=WEIGHTS)


def texts_about(*lives: Life) -> str:
    """Return the figures of buffers, and what their recording lacks."""
    trace = buffers_trace(list(lives))
    parts = (
        buffers.about_text(trace, occupancy(trace)),
        buffers.gap_head(trace),
        buffers.gap_text(trace),
    )
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("condition", "true", "false"),
    [
        (
            "one buffer is alive",
            (Life(64, 0, 500), Life(64, 500)),
            (Life(64, 0, 600), Life(64, 500)),
        ),
        (
            "some allocations were not recorded",
            (LOADED, Life(64, 0, 500), Life(64, -1)),
            (Life(64, -1), Life(32, -1)),
        ),
        (
            "no allocation was recorded",
            (Life(64, -1), Life(32, -1)),
            (LOADED, Life(64, 0, 500), Life(64, -1)),
        ),
        (
            "no release was recorded",
            (LOADED, Life(64, 0, usage=COMPUTE)),
            (LOADED, Life(64, 0, 500, usage=COMPUTE)),
        ),
        (
            "no scheduler buffer was recorded",
            (LOADED, KV),
            (LOADED, replace(KV, name="CPU compute")),
        ),
        (
            "neither weights nor scheduler buffers were recorded",
            (KV,),
            (KV, LOADED),
        ),
        (
            "no weights were recorded",
            (KV,),
            (KV, LOADED),
        ),
    ],
)
def test_recordings_of_buffers_are_distinguished(
    condition: str, true: tuple[Life, ...], false: tuple[Life, ...]
) -> None:
    assert new_statements(texts_about(*true), texts_about(*false)), condition


def test_accesses_of_a_buffer_are_not_known_where_none_names_one() -> None:
    def caption(accessed: list[list[int]], *pending: str) -> str:
        trace = buffers_trace([LOADED], accessed=accessed)
        trace = replace(trace, pending=frozenset(pending))
        return buffers.buffer_text(trace, 0, buffer_use(trace), absolute=False)

    none = caption([[]])
    unsaid = [caption([[0]]), caption([[]], "accesses")]
    for other in unsaid:
        assert new_statement(none, other)


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
    return f"{experts.about_text(result)}\n{experts.about_tip(result)}"


def cell(trace: Trace) -> str:
    return experts.cell_text(result_of(trace), (0, 1))


CHOSEN = [[[1, 2], [3, 4]]]
OF_EXPERTS: dict[str, tuple[Callable[[], str], Callable[[], str]]] = {
    "accesses are counted": (
        lambda: about(sliced(0, 0)), lambda: about(routed(CHOSEN)),
    ),
    "choices have no valid layer": (
        lambda: about(routed(CHOSEN, layers=[0, -1])),
        lambda: about(routed(CHOSEN, layers=[0, 1])),
    ),
    "number of experts is inferred": (
        lambda: about(routed(CHOSEN)), lambda: about(routed(CHOSEN, n_experts=8)),
    ),
    "lists are cut": (lambda: about(listed(1)), lambda: about(listed(0))),
    "further choices of a layer are unknown": (
        lambda: cell(listed(1)), lambda: cell(listed(0)),
    ),
    "number of further choices is unknown": (
        lambda: cell(listed(UNKNOWN_MORE)), lambda: cell(listed(1)),
    ),
    "share of the layer is known": (
        lambda: cell(listed(0)).splitlines()[1],
        lambda: cell(listed(1)).splitlines()[1],
    ),
    "sizes are unknown": (lambda: cell(routed(CHOSEN)), lambda: cell(listed(0))),
}  # fmt: skip


@pytest.mark.parametrize("condition", OF_EXPERTS)
def test_choices_of_experts_are_distinguished(condition: str) -> None:
    holds, fails = OF_EXPERTS[condition]

    assert new_statements(holds(), fails())


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
def test_figure_whose_data_is_missing_says_which() -> None:
    reasons = [
        drawn(heatmap_figure(spans_trace([0], [1]))),
        drawn(heatmap_figure(nowhere())),
        drawn(heatmap_figure(open_trace(SAMPLES / "npu-prefill-decode.json"))),
        drawn(buffers_figure(buffers_trace([Life(-1, -1)]))),
        of_experts(network_trace()),
    ]

    assert all("\n" not in reason for reason in reasons), "a figure is drawn"
    assert len(set(reasons)) == len(reasons)
    assert "252" in reasons[2], "accesses that name no tensor are counted"


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize(
    ("condition", "true", "false"),
    [
        (
            "tensors have no place in the file",
            lambda: drawn(heatmap_figure(placed(-1))),
            lambda: drawn(heatmap_figure(placed(64))),
        ),
        (
            "sizes of experts are unknown",
            lambda: of_experts(without_sizes(listed(1)), Measure.BYTES),
            lambda: (
                of_experts(listed(0), Measure.BYTES)
                + of_experts(without_sizes(listed(0)))
            ),
        ),
        (
            "no layer has all choices",
            lambda: of_experts(listed(1), Measure.SHARE),
            lambda: (
                of_experts(listed(0), Measure.SHARE)
                + of_experts(without_sizes(listed(1)), Measure.BYTES)
            ),
        ),
        (
            "no tokens follow each other",
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]], tokens=[0, 5])),
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]], tokens=[0, 1])),
        ),
        (
            "no two tokens have all choices",
            lambda: of_experts(cut_short(routed([[[1, 2]], [[1, 3]]]))),
            lambda: of_experts(routed([[[1, 2]], [[1, 3]]])),
        ),
    ],
)
def test_figure_states_a_condition_where_it_holds(
    condition: str, true: Callable[[], str], false: Callable[[], str]
) -> None:
    assert new_statements(true(), false()), condition


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
    """Return a trace that reads a stack, and does not say of which expert."""
    return reads_trace([STACK], [Op(0, (Read(0, 400),), "MUL_MAT_ID")])


# -- spans and sessions ----------------------------------------------------------------


@pytest.mark.parametrize(
    "flags",
    [0, SpanFlag.INFERRED_END, SpanFlag.UNFINISHED, SpanFlag.ESTIMATED],
    ids=["measured", "no end", "unfinished", "estimated"],
)
def test_start_that_was_not_recorded_is_called_derived(flags: int) -> None:
    lost, other = (
        spans_trace([0], [10], flags=np.uint16(f))
        for f in (SpanFlag.INFERRED_START, flags)
    )
    assert new_statements(quality_text(lost, 0), quality_text(other, 0))


def test_end_of_a_phase_is_not_that_of_a_record() -> None:
    thread, phase = (
        quality_text(
            spans_trace([0], [10], kind=kind, flags=np.uint16(SpanFlag.INFERRED_END)), 0
        )
        for kind in (LaneKind.THREAD, LaneKind.PHASE)
    )

    assert thread != phase


def test_cut_names_that_a_map_completes_are_noted() -> None:
    def codes(name: str) -> list[str]:
        reads = [MODEL[0], (name, *MODEL[1][1:])]
        joined = join(reading_trace(reads), [SideFile(model_trace(MODEL), "map")])
        return [warning.code for warning in joined.warnings]

    assert "names_completed" in codes(LONG[:19])
    assert "names_completed" not in codes(LONG)


def test_offsets_are_compared_where_both_sides_have_them() -> None:
    none = Fit(belongs=True, n_names=3, n_named=2, n_offsets=0, n_agree=0, delta=None)
    both = replace(none, n_offsets=2, n_agree=1, delta=0)

    assert "1 of 2" in both.evidence
    assert "1 of 2" not in none.evidence
