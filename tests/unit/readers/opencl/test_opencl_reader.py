"""Profiles of OpenCL kernels against the rows that they were made of."""

from pathlib import Path

import numpy as np
import pytest

import op_files
from ggscope.errors import ReadError
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace


def opened(path: Path, data: bytes) -> Trace:
    path.write_bytes(data)
    trace = open_trace(path)
    assert trace.check() == []
    assert trace.info.reader_id == "ggml-opencl"
    return trace


@pytest.mark.parametrize("seed", range(3))
def test_kernels_are_those_that_were_written(seed, tmp_path):
    rows = op_files.kernels(seed)

    trace = opened(tmp_path / "x.txt", op_files.opencl(rows))

    times = np.array([row["ns"] for row in rows])
    ends = np.cumsum(times)
    assert trace.spans.end.tolist() == ends.tolist()
    assert trace.spans.start.tolist() == (ends - times).tolist()
    ops = [trace.op_name(op) for op in trace.spans.op.tolist()]
    assert ops == [row["kernel"] for row in rows]
    assert [trace.span_name(i) for i in range(len(rows))] == [r["name"] for r in rows]
    listing = trace.backend_ops
    assert listing is not None
    assert listing.ops.time.tolist() == times.tolist()
    assert listing.ops.span.tolist() == list(range(len(rows)))
    shapes = ["x".join(map(str, row["shape"])).replace("x1x1", "") for row in rows]
    shapes = [shape.removesuffix("x1") for shape in shapes]
    assert [listing.text(n) for n in listing.ops.shape.tolist()] == shapes
    assert trace.info.summary["events"] == {"rows": len(rows)}
    assert "no_times" in {w.code for w in trace.warnings}


def test_bad_rows_and_a_cut_end_cost_themselves(tmp_path):
    rows = op_files.kernels(4)
    data = op_files.opencl(rows) + b"a,b,x,1,1,1\na,b\nQcur-0,kernel_add,0.1"

    trace = opened(tmp_path / "x.csv", data)

    assert len(trace.spans) == len(rows)
    counts = {w.code: w.count for w in trace.warnings}
    assert counts["stray_line"] == 2
    assert "unfinished_line" in counts


def test_cut_profiles_keep_whole_rows(tmp_path):
    rows = op_files.kernels(5)
    data = op_files.opencl(rows)
    path = tmp_path / "x.csv"
    for cut in range(len(op_files.OPENCL_HEAD) + 90, len(data), 13):
        path.write_bytes(data[:cut])

        trace = open_trace(path)

        n = data[:cut].count(b"\n") - 1
        assert (
            trace.spans.end.tolist()
            == np.cumsum([row["ns"] for row in rows[:n]]).tolist()
        )


def test_profiles_without_rows_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(op_files.OPENCL_HEAD + "a,b\n")

    with pytest.raises(ReadError, match="no row"):
        open_trace(path)
