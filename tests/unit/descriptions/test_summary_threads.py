"""The section of threads in a summary: the busiest one first."""

import numpy as np

from builders import finished
from ggscope.analysis.summary.summary import summary
from ggscope.descriptions.summary import summary_sections
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import LaneKind, OpTable


def test_the_busiest_thread_is_the_big_figure():
    builder = TraceBuilder()
    builder.ops = OpTable("t", ("MUL_MAT",), "spelled")
    for i in range(3):
        builder.add_lane(f"thread {i}", LaneKind.THREAD)
    builder.add_spans(
        start=np.array([0, 0, 0, 99]),
        end=np.array([9, 90, 50, 100]),
        lane=np.array([0, 1, 2, 0], np.int32),
        op=np.zeros(4, np.int32),
    )
    trace = finished(builder)

    sections = {s.title: s for s in summary_sections(trace, summary(trace))}

    shares = {
        line.title: line.share
        for line in sections["Threads"].lines
        if line.title.startswith("thread ")
    }
    assert list(shares) == ["thread 1", "thread 2", "thread 0"]
    assert shares["thread 1"] == 0.9
