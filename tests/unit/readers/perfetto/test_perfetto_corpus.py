"""Real Perfetto traces of the corpus, by content alone."""

import pytest

import people
from ggscope.readers.registry import open_trace

pytest.importorskip("perfetto", reason="perfetto is not installed")

from oracles import perfetto_slices as oracle


@people.each("perfetto")
def test_real_traces_have_the_slices_and_packets_that_they_show(name, tmp_path):
    data = people.content(name)
    path = tmp_path / "x.txt"
    path.write_bytes(data)

    trace = open_trace(path)

    report = oracle.read(data)
    assert trace.check() == []
    assert trace.info.reader_id == "perfetto"
    assert len(trace.spans) == len(report.slices)
    assert len(trace.markers) == len(report.instants)
    assert trace.info.summary["events"] == report.kinds
