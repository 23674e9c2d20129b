"""Claims of the views, each said where it is true and not by its neighbour."""

from dataclasses import replace

import pytest

import graph_traces
from buffer_traces import Life, buffers_trace
from ggscope.model.tables import AccessKind, Space
from ggscope.model.trace import OTHER_FILES, Trace
from ggscope.views.base.painted import PaintedView
from panes import empty_words, settle_view
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
    "This trace does not tell which tensors its ops read. Add a tensor-access trace of "
    "the same run: File, Add to session."
)


@pytest.mark.parametrize(
    ("view_id", "claims", "true", "false"),
    [
        (
            "experts",
            (
                "No experts in this trace",
                "Neither routing nor accesses to experts are recorded. A tensor-access "
                "trace of a mixture of experts, or a routing CSV, tells them.",
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
                "Accesses name these buffers; sizes and times need a file of buffer "
                "events beside the trace.",
            ),
            lambda: buffers_trace([Life(-1, -1)]),
            lambda: buffers_trace([Life(64, 0)]),
        ),
        (
            "graph",
            (
                "No graph in this trace",
                "Open a graph file (JSON or DOT) or the folder of the experiment.",
            ),
            moe_reads,
            graph_traces.network_trace,
        ),
        (
            "hot_cold",
            (
                "No accesses to tensors",
                "Tensor-access traces record what each op reads. Add one of the same "
                "run: File, Add to session.",
            ),
            unplaced,
            lambda: unplaced(Read(0, 64)),
        ),
        ("heatmap", (NO_ACCESSES,), unplaced, lambda: unplaced(Read(0, 64))),
        (
            "heatmap",
            ("No place in a model file is known",),
            lambda: unplaced(Read(0, 64)),
            lambda: reads(Read(0, 64)),
        ),
        (
            "cache",
            (
                "No reads of a model file",
                "Open a tensor-access trace; add its GGUF or memory map for sizes.",
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


def test_pictures_of_hot_and_cold_that_are_empty_deny_no_accesses(shown, qtbot) -> None:
    def said(trace: Trace, picture: str) -> str:
        view = shown("hot_cold", trace)
        view.picture_box.setCurrentIndex(view.picture_box.findData(picture))
        settle_view(qtbot, view)
        return why_empty(view)

    touched = reads(Read(0, 64))
    for claim in (
        "Nothing to show here",
        "Accesses to tensors are recorded, and none that shows here.",
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
        "Nothing to count here",
        "Accesses to a model file are recorded, and no read counts; its GGUF or memory "
        "map tells sizes.",
    ):
        assert_sides(claim, written, others)
