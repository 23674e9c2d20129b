"""Accesses without a recorded size: counted, and no bytes claimed for them."""

from dataclasses import replace

import numpy as np
import pytest

import buffer_traces
import graph_traces
from builders import llama_like_trace
from ggscope.analysis.buffers import buffer_use
from ggscope.analysis.graph.measures import node_measures
from ggscope.analysis.model_tree import tensor_reads
from ggscope.analysis.reads.hot_cold import hot_cold
from ggscope.analysis.reads.hotness import heat, space_totals
from ggscope.analysis.reads.op_io import op_accesses
from ggscope.analysis.reads.usage import usage_of
from ggscope.analysis.sessions.correlate import correlate
from ggscope.analysis.statistics.token_layers import token_layers
from ggscope.descriptions.reads import hot_facts
from ggscope.descriptions.selected import usage_facts
from ggscope.model.selection import Selection
from ggscope.model.tables import Space
from ggscope.model.trace import Trace


def without_sizes(trace: Trace, rows: np.ndarray) -> Trace:
    """Return a trace some of whose accesses have no size, nor a place."""
    a = trace.accesses
    size, space = a.patterns.size.copy(), a.patterns.space.copy()
    size[rows], space[rows] = -1, Space.UNKNOWN
    patterns = replace(a.patterns, size=size, space=space)
    return replace(trace, accesses=replace(a, patterns=patterns))


@pytest.fixture(params=["some", "all"])
def trace(request) -> Trace:
    whole = llama_like_trace(tokens=3, layers=2)
    n = len(whole.accesses.patterns)
    every = np.arange(n)
    return without_sizes(whole, every[::3] if request.param == "some" else every)


def plain_counts(trace: Trace) -> dict[str, np.ndarray]:
    """Return accesses without bytes by tensor and by space, span by span."""
    table = op_accesses(trace)
    by_tensor = np.zeros(len(trace.tensors), np.int64)
    in_all = 0
    for span in range(len(trace.spans)):
        entry = int(table.column[span])
        if entry < 0:
            continue
        for row in range(int(table.first[entry]), int(table.first[entry + 1])):
            is_known = table.known[row] or table.unknown[row] or table.passed[row]
            if table.what.size[row] < 0 and not is_known and table.counts[row]:
                in_all += 1
                if table.what.tensor[row] >= 0:
                    by_tensor[table.what.tensor[row]] += 1
    return {"tensor": by_tensor, "all": np.array(in_all)}


def test_sums_count_accesses_without_a_size(trace):
    expected = plain_counts(trace)

    assert expected["all"] > 0
    assert heat(trace).unsized.tolist() == expected["tensor"].tolist()
    assert sum(space_totals(trace).unsized.values()) == expected["all"]
    assert token_layers(trace).unsized.sum() == expected["all"]
    assert tensor_reads(trace).unsized.tolist() == expected["tensor"].tolist()
    for tensor in np.flatnonzero(expected["tensor"]).tolist():
        usage = usage_of(trace, Selection("tensors", (tensor,)))
        unsized = usage.unsized_reads + usage.unsized_writes
        assert unsized == expected["tensor"][tensor]


def test_no_text_says_zero_bytes_of_them(trace):
    heats = heat(trace)
    is_none = (heats.unsized > 0) & (heats.bytes == 0) & (heats.accesses > 0)

    texts = [fact.text for fact in hot_facts(trace, hot_cold(trace))]

    assert not any("(0 B)" in text for text in texts)
    assert any("size unknown" in text or "≥" in text for text in texts)
    for tensor in np.flatnonzero(is_none).tolist():
        usage = usage_of(trace, Selection("tensors", (tensor,)))
        (value,) = [
            fact.value
            for fact in usage_facts(trace, usage)
            if fact.label == "bytes read"
        ]
        assert value == "unknown"


def test_recorded_sizes_leave_all_as_it_was():
    trace = llama_like_trace(tokens=3, layers=2)

    assert not heat(trace).unsized.any()
    assert not op_accesses(trace).unsized.any()
    assert not token_layers(trace).unsized.any()


def test_buffers_count_them():
    lives = [buffer_traces.Life(1000, 0, name=f"b{i}", address=i + 1) for i in range(3)]
    whole = buffer_traces.buffers_trace(lives, accessed=[[0, 1], [1], [1]])
    trace = without_sizes(whole, np.arange(len(whole.accesses.patterns)))

    before, use = buffer_use(whole), buffer_use(trace)

    assert before.count.tolist() == [1, 3, 0]
    assert not before.unsized.any()
    assert use.unsized.tolist() == [1, 3, 0]


def test_graph_leaves_their_bytes_open():
    whole = graph_traces.network_trace(2, 2)
    trace = without_sizes(whole, np.arange(len(whole.accesses.patterns)))

    before = node_measures(whole, 0, correlate(whole))
    measures = node_measures(trace, 0, correlate(trace))

    is_used = before.access_bytes > 0
    assert is_used.any()
    assert np.isnan(measures.access_bytes[is_used]).all()
    assert measures.accesses[is_used].tolist() == before.accesses[is_used].tolist()
