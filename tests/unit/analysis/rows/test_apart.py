"""Python frames lie on lanes of their own, apart from the ops of their thread."""

import numpy as np

from builders import finished, llama_like_trace
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import apart_spans, default_collapsed
from ggscope.analysis.summary.gaps import gaps
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, OpTable, Trace


def trace_with_frames() -> Trace:
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("op",), "spelled")
    for name in ("main", "frames alone", "ops alone"):
        builder.add_lane(name, LaneKind.THREAD, ("host",))
    frame, op = builder.strings.intern_many(["python_function", "cpu_op"]).tolist()
    rows = [
        (0, 0, 100, frame), (0, 5, 90, frame), (0, 10, 20, op), (0, 12, 15, op),
        (0, 30, 80, frame), (0, 40, 50, op), (1, 0, 9, frame), (2, 0, 9, op),
    ]  # fmt: skip
    lane, start, end, category = np.array(rows, np.int64).T
    builder.add_spans(
        start=start,
        end=end,
        lane=lane.astype(np.int32),
        op=np.where(category == op, 0, -1).astype(np.int16),
        category=category.astype(np.int32),
    )
    return finished(builder)


def test_frames_have_rows_of_their_own():
    index = TraceIndex(trace_with_frames())

    rows = {
        key: [np.asarray(row.id).tolist() for row in index.rows(key)]
        for key in index.lanes.keys
        if key.startswith(("thread", "python"))
    }

    assert rows == {
        "thread:main": [[2, 5], [3]],
        "thread:ops alone": [[7]],
        "python:main": [[0], [1], [4]],
        "python:frames alone": [[6]],
    }
    counts = dict(zip(index.lanes.keys, index.row_counts().tolist(), strict=True))
    assert all(counts[key] == len(one) for key, one in rows.items())
    for key, actual in rows.items():
        for number, ids in enumerate(actual):
            for span in ids:
                assert index.row_of_span(span) == (key, number)
    assert index.lanes[index.lanes.position("thread:main")].n_spans == 3


def test_annotations_of_streams_lie_apart():
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("kernel",), "spelled")
    builder.add_lane("stream 7", LaneKind.ENGINE, ("GPU 0",))
    around, kernel = builder.strings.intern_many(["gpu_user_annotation", "kernel"])
    builder.add_spans(
        start=np.array([0, 10, 15, 40]),
        end=np.array([5, 50, 30, 45]),
        lane=0,
        op=np.array([0, -1, 0, 0], np.int16),
        category=np.array([kernel, around, kernel, kernel], np.int32),
    )
    trace = finished(builder)
    index = TraceIndex(trace)

    assert [np.asarray(row.id).tolist() for row in index.rows("engine:stream 7")] == [
        [0, 2, 3]
    ]
    assert [
        np.asarray(row.id).tolist() for row in index.rows("annotation:stream 7")
    ] == [[1]]
    assert index.busy_share("engine:stream 7") == 25 / 50
    idle = gaps(trace)
    assert sorted(zip(idle.start.tolist(), idle.end.tolist(), strict=True)) == [
        (5, 15), (30, 40),
    ]  # fmt: skip


def test_frames_start_closed():
    index = TraceIndex(trace_with_frames())

    assert index.lanes[index.lanes.position("python:main")].group == "Python frames"
    assert default_collapsed(index.lanes) == {"Ops", "Python frames"}


def test_traces_without_frames_are_as_they_were():
    trace = llama_like_trace(tokens=2, layers=1)

    assert apart_spans(trace) is None
    assert not any(key.startswith("python:") for key in TraceIndex(trace).lanes.keys)
