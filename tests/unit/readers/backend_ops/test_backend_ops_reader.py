"""Lists of ggml's scheduler and of Vulkan's logger against what they were made of."""

from pathlib import Path

import numpy as np
import pytest

import op_files
from ggscope.errors import ReadError, UnknownFormatError
from ggscope.model.backend_ops import BackendOps
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.backend_ops import reader
from ggscope.readers.common import op_lines, text_blocks
from ggscope.readers.common.op_listing import vulkan_parts, whole_op
from ggscope.readers.registry import open_trace
from support import corpus_path


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "ggml-ops"
    return trace


def listed(trace: Trace) -> BackendOps:
    assert trace.backend_ops is not None
    return trace.backend_ops


def floor(size: int) -> tuple[int, int]:
    """Return what is left of a size that is printed, and the step."""
    step = 1 << 20 if size >= 1 << 20 else 1 << 10
    return size // step * step, step


FORMS = {
    "old": {},
    "clock": {"clock": True},
    "flags": {"use": ""},
    "docker": {"prefix": "llama-1  | "},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_nodes_splits_and_sources_are_those_that_were_written(seed, form, tmp_path):
    graphs = op_files.graphs(seed)

    trace = opened(tmp_path / "x.txt", op_files.scheduler(graphs, **FORMS[form]))

    routing = listed(trace)
    nodes = [node for splits in graphs for split in splits for node in split.nodes]
    ops = routing.ops
    assert [routing.text(n) for n in ops.op.tolist()] == [node.op for node in nodes]
    assert [routing.text(n) for n in ops.name.tolist()] == [n.name[:20] for n in nodes]
    assert [routing.text(n) for n in ops.backend.tolist()] == [n.backend for n in nodes]
    assert ops.node.tolist() == [node.number for node in nodes]
    sizes = list(zip(ops.size.tolist(), ops.step.tolist(), strict=True))
    assert sizes == [floor(node.size) for node in nodes]
    assert set(ops.is_computed.tolist()) == {-1 if form == "flags" else 1}
    sources = [(i, *s) for i, node in enumerate(nodes) for s in node.sources]
    assert routing.sources.op.tolist() == [i for i, *_ in sources]
    names = [routing.text(n) for n in routing.sources.name.tolist()]
    assert names == [name[:20] for _, name, *_ in sources]
    assert routing.sources.size.tolist() == [floor(s[2])[0] for s in sources]
    splits = [(g, s) for g, splits in enumerate(graphs) for s in splits]
    assert routing.splits.graph.tolist() == [g for g, _ in splits]
    assert routing.splits.number.tolist() == [split.number for _, split in splits]
    assert [routing.text(n) for n in routing.splits.backend.tolist()] == [
        split.backend for _, split in splits
    ]
    of_split = [i for i, (_, s) in enumerate(splits) for _ in s.nodes]
    assert ops.split.tolist() == of_split
    inputs = [(i, *one) for i, (_, s) in enumerate(splits) for one in s.inputs]
    assert routing.inputs.split.tolist() == [i for i, *_ in inputs]
    assert [routing.text(n) for n in routing.inputs.name.tolist()] == [
        name for _, name, _ in inputs
    ]
    assert routing.inputs.size.tolist() == [floor(size)[0] for *_, size in inputs]
    events = {"graphs": len(graphs), "splits": len(splits), "nodes": len(nodes)}
    assert trace.info.summary["events"] == events


def test_graphs_without_splits_begin_where_numbers_begin_again(tmp_path):
    graphs = op_files.graphs(1, 3)
    text = op_files.scheduler(graphs)
    lines = [line for line in text.splitlines(keepends=True) if b"SPLIT" not in line]

    routing = listed(opened(tmp_path / "x.txt", b"".join(lines)))

    nodes = [[n for split in splits for n in split.nodes] for splits in graphs]
    assert routing.n_graphs == 3
    expected = [g for g, of_graph in enumerate(nodes) for _ in of_graph]
    assert routing.ops.graph.tolist() == expected
    assert set(routing.ops.split.tolist()) == {-1}


def test_cut_backends_stay_cut_where_several_begin_alike(tmp_path):
    text = (
        b"## SPLIT #0: Vulkan0 # 0 inputs\n"
        b"node #  0 (       ADD):   a (   1K) [Vulka         ] use=1,c=1:"
        b"   b (   1K) [Vulka         ]\n"
        b"## SPLIT #1: Vulkan1 # 1 inputs: [a (   1K)] \n"
        b"node #  1 (       ADD):   c (   1K) [Vulka         ] use=1,c=0:\n"
    )

    routing = listed(opened(tmp_path / "x.txt", text))

    backends = [routing.text(n) for n in routing.ops.backend.tolist()]
    assert backends == ["Vulkan0", "Vulkan1"]
    assert routing.text(int(routing.sources.backend[0])) == "Vulka"
    assert routing.ops.is_computed.tolist() == [1, 0]


def test_causes_are_kept_where_ggml_was_built_with_them(tmp_path):
    text = (
        b"## SPLIT #0: CPU # 0 inputs\n"
        b"node #  0 (       ADD):   a (   1K) [  CPU    1.dst] use=1,c=1:\n"
        b"node #  1 (       ADD):   b (   1K) [ CPU    2.sup]:\n"
    )

    routing = listed(opened(tmp_path / "x.txt", text))

    assert [routing.text(n) for n in routing.ops.cause.tolist()] == ["1.dst", "2.sup"]
    assert {routing.text(n) for n in routing.ops.backend.tolist()} == {"CPU"}


def test_ops_that_several_names_begin_with_say_so():
    assert whole_op("GATED_DELT") == "GATED_DELTA_NET"
    assert whole_op("FLASH_ATTN") == "FLASH_ATTN…"
    assert whole_op("MUL_MAT") == "MUL_MAT"


@pytest.mark.parametrize("prefix", ["", "Nov 26 18:26:14 host llama[12]: "])
@pytest.mark.parametrize("seed", range(3))
def test_times_of_vulkan_are_those_that_were_written(seed, prefix, tmp_path):
    lists = op_files.vulkan_lists(seed)

    trace = opened(tmp_path / "x.txt", op_files.vulkan(lists, prefix=prefix))

    routing, rows = listed(trace), [row for one in lists for row in one]
    ops = routing.ops
    assert ops.count.tolist() == [len(row.times) for row in rows]
    assert ops.graph.tolist() == [g for g, one in enumerate(lists) for _ in one]
    totals = [sum(row.times) for row in rows]
    # Six digits are written.
    assert np.allclose(ops.time, totals, rtol=1e-5, atol=1)
    rates = [
        -1 if row.flops is None else row.flops * len(row.times) / sum(row.times) * 1e9
        for row in rows
    ]
    assert np.allclose(ops.rate, rates, rtol=1e-5)
    texts = [vulkan_parts(row.name) for row in rows]
    assert [routing.text(n) for n in ops.op.tolist()] == [op for op, *_ in texts]
    assert [routing.text(n) for n in ops.shape.tolist()] == [s for _, s, _ in texts]
    runs = sum(len(row.times) for row in rows)
    events = {"lists": len(lists), "rows": len(rows), "runs": runs}
    assert trace.info.summary["events"] == events


def test_milliseconds_of_the_first_logger_are_microseconds(tmp_path):
    lists = op_files.vulkan_lists(4)

    trace = opened(tmp_path / "x.txt", op_files.vulkan(lists, old=True))

    rows = [row for one in lists for row in one]
    means = [sum(row.times) / len(row.times) for row in rows]
    ops = listed(trace).ops
    assert np.allclose(ops.time / ops.count, means, rtol=1e-5, atol=1)
    assert "mean_times" in {w.code for w in trace.warnings}


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1e+06", 10**9), ("0.5", 500), ("2892", 2_892_000), ("0", 0),
     ("1.23457e+06", 1_234_570_000), ("inf", -1),
     ("99999999999999999999", -1), ("1e-05", 0)],
)  # fmt: skip
def test_numbers_of_iostream_are_read_to_the_nanosecond(text, ns):
    line = f"Vulkan Timings:\nADD: 1 x 1 us = {text} us\n"

    rows = op_lines.scan_op_text(line.encode())

    assert rows.value[1, 2] == ns


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("MUL_MAT_ID q4_K m=1 n=2 k=3 n_expert=8",
         ("MUL_MAT_ID", "m=1 n=2 k=3 n_expert=8", "q4_K")),
        ("RMS_NORM(2048,1,1,1), MUL", ("RMS_NORM, MUL", "(2048,1,1,1)", "")),
        ("RMS_NORM_MUL RMS_NORM(8,1,1,1)", ("RMS_NORM_MUL, RMS_NORM", "(8,1,1,1)", "")),
        ("CONV_2D M=Cout=64, K=Cin*KW*KH=27, N=N*OW*OH=9",
         ("CONV_2D", "M=Cout=64, K=Cin*KW*KH=27, N=N*OW*OH=9", "")),
        ("made up", ("made up", "", "")),
    ],
)  # fmt: skip
def test_names_of_vulkan_show_op_shape_and_type(name, parts):
    assert vulkan_parts(name) == parts


@pytest.mark.parametrize("form", ["scheduler", "vulkan"])
def test_lists_cut_anywhere_keep_what_stands_before(form, tmp_path):
    graphs = op_files.graphs(5)
    data = (
        op_files.scheduler(graphs, clock=True)
        if form == "scheduler"
        else op_files.vulkan(op_files.vulkan_lists(5))
    )
    whole = op_lines.scan_op_text(data)
    rows = [[whole.texts[n] for n in row if n >= 0] for row in whole.text.tolist()]
    n_read = 0
    for cut in range(0, len(data), 7):
        path = tmp_path / "x.log"
        path.write_bytes(data[:cut])
        try:
            trace = open_trace(path)
        except (ReadError, UnknownFormatError):
            continue
        assert trace.check() == []
        if trace.backend_ops is None:  # so little that it may be any log
            continue
        n_read += 1
        part = op_lines.scan_op_text(data[:cut])
        values = [[part.texts[n] for n in row if n >= 0] for row in part.text.tolist()]
        assert values == rows[: len(values)]
        assert part.value.tolist()[:-1] == whole.value.tolist()[: len(values) - 1]
    assert n_read > 20


def test_blocks_are_read_as_one_text(tmp_path, monkeypatch):
    data = op_files.scheduler(op_files.graphs(6, 20), clock=True)
    data += op_files.vulkan(op_files.vulkan_lists(6))
    whole = op_lines.scan_op_text(data)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1000)

    trace = opened(tmp_path / "x.txt", data)

    assert len(listed(trace).ops) == len(
        whole.rows(op_lines.Kind.NODE, op_lines.Kind.TIMED_OP)
    )
    events = trace.info.summary["events"]
    assert isinstance(events, dict)
    assert events["graphs"] == 20
    assert events["lists"] == 3


def test_the_first_lines_of_a_long_list_are_shown_early(tmp_path, monkeypatch):
    data = op_files.scheduler(op_files.graphs(8, 60))
    monkeypatch.setattr(reader, "_FIRST_BYTES", len(data) // 9)
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    early: list[Trace] = []

    trace = open_trace(path, context=ReadContext(publish=early.append))

    (first,) = early
    assert first.check() == []
    assert first.is_partial
    assert not trace.is_partial
    n = len(listed(first).ops)
    assert 0 < n < len(listed(trace).ops)
    for name in ("op", "name", "backend"):
        texts = [
            [listed(one).text(k) for k in getattr(listed(one).ops, name).tolist()]
            for one in (first, trace)
        ]
        assert texts[0] == texts[1][:n]


def test_broken_lines_cost_themselves(tmp_path):
    graphs = op_files.graphs(7)
    good = op_files.scheduler(graphs)
    bad = b"node #  1 (MUL_MAT): x\n## SPLIT #x\nsomething else\n"

    trace = opened(tmp_path / "x.txt", bad + good)

    nodes = sum(len(s.nodes) for splits in graphs for s in splits)
    assert len(listed(trace).ops) == nodes
    by_code = {w.code: w for w in trace.warnings}
    assert by_code["broken_op_lines"].count == 2
    assert by_code["broken_op_lines"].place == "line 1"
    assert by_code["other_lines"].count == 1
    assert "cut_op_names" in by_code


def test_texts_without_lists_are_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"node #\n## SPLIT #\nnothing\n")

    with pytest.raises(ReadError, match="no line lists"):
        open_trace(path, reader_id="ggml-ops")


def test_quoted_lists_are_counted():
    folder = corpus_path()
    quoted = None if folder is None else folder / "people" / "quoted"
    if quoted is None or not quoted.is_dir():
        pytest.skip("no quoted files")

    scheduler = open_trace(quoted / "sched-debug-2026-07-issue25800.txt")
    vulkan = open_trace(quoted / "vulkan-perf-logger.txt")

    expected = {"graphs": 1, "splits": 1, "nodes": 3}
    assert scheduler.info.summary["events"] == expected
    copied = listed(scheduler).inputs.size.tolist()
    kib = 1 << 10
    assert copied == [128 * kib, 768 * kib, 768 * kib, kib, 0, 0, 34 << 20]
    assert vulkan.info.summary["events"] == {"lists": 2, "rows": 7, "runs": 289}
