"""Groupings by name, weight type, weight shape and backend, against plain loops."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from builders import llama_like_trace, random_trace, spans_trace, statistics
from ggscope.analysis.reads.weights import NOT_RECORDED, attributed, booked_on
from ggscope.model.ggml.types import type_name
from ggscope.model.names import parse
from ggscope.model.tables import freeze
from ggscope.model.trace import Trace
from link_traces import random_links_trace


def summed(trace: Trace, label_of) -> dict[str, tuple[int, int]]:
    """Return (spans, ticks) by label of ops with a derived or measured time."""
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    s = trace.spans
    for i in np.flatnonzero(s.op >= 0).tolist():
        n, ticks = sums[label_of(i)]
        sums[label_of(i)] = n + 1, ticks + int(s.end[i] - s.start[i])
    return dict(sums)


def counts_and_times(trace: Trace, by: str) -> dict[str, tuple[int, int]]:
    return {row.key: (row.count, row.total) for row in statistics(trace, by)}  # type: ignore[arg-type]  # one of `By`


def without_layer(trace: Trace, span: int) -> str:
    number = int(trace.spans.name[span])
    if number < 0:
        return "none"
    name = parse(trace.strings[number])
    text = name.base
    if name.layer >= 0:
        head, _, tail = text.rpartition(str(name.layer))
        text = f"{head}*{tail}"
    return text or "none"


@pytest.mark.parametrize(
    "trace", [llama_like_trace(), random_trace(3, 500, 3)], ids=["llama", "random"]
)
def test_names_are_alike_in_all_layers(trace):
    expected = summed(trace, lambda i: without_layer(trace, i))

    assert counts_and_times(trace, "name") == expected


def test_a_span_without_a_name_has_a_group_of_its_own():
    trace = spans_trace([0, 10], [5, 20], op=1, name=[-1, -1])

    assert counts_and_times(trace, "name") == {"none": (2, 15)}


def typed() -> Trace:
    """Return a run whose weights are of two types and three shapes."""
    trace = llama_like_trace(layers=3)
    n = len(trace.tensors)
    shape = np.ones((n, 4), np.int64)
    shape[:, 0] = 64
    shape[1::3, 1] = 32
    shape[2::3] = 0
    tensors = replace(trace.tensors, type=np.arange(n, dtype=np.int16) % 2, shape=shape)
    freeze(tensors)
    return replace(trace, tensors=tensors)


def weight_of(trace: Trace) -> list[int]:
    """Return the tensor that each span is booked on; -1 none, -2 not recorded."""
    booked = booked_on(trace)
    return [int(booked.per_pattern[p]) for p in trace.accesses.pattern]


def label(trace: Trace, tensor: int, by: str) -> str:
    if tensor < 0:
        return "no weight" if tensor == -1 else "not recorded"
    if by == "type":
        return type_name(int(trace.tensors.type[tensor]))
    row = trace.tensors.shape[tensor].tolist()
    if 0 in row:
        return "unknown"
    while len(row) > 1 and row[-1] == 1:
        row.pop()
    return "×".join(map(str, row))


@pytest.mark.parametrize("by", ["type", "shape"])
def test_types_and_shapes_are_those_of_the_weight_that_is_read(by):
    trace = typed()
    tensor = weight_of(trace)

    result = counts_and_times(trace, by)

    assert result == summed(trace, lambda i: label(trace, tensor[i], by))
    assert len(result) > 2


def test_backends_are_what_encloses_lanes():
    trace = llama_like_trace()
    s = trace.spans

    expected = summed(trace, lambda i: trace.lanes[int(s.lane[i])].group[0])

    assert counts_and_times(trace, "backend") == expected


@pytest.mark.parametrize("seed", range(4))
def test_each_span_is_attributed_by_its_accesses_or_else_to_what_it_computes(seed):
    trace = random_links_trace(seed)
    booked = booked_on(trace)
    loose = dict(
        zip(booked.loose_span.tolist(), booked.loose_tensor.tolist(), strict=True)
    )
    expected = []
    for i, p in enumerate(trace.accesses.pattern.tolist()):
        tensor = int(booked.per_pattern[p])
        if tensor < 0 and i in loose:
            tensor = loose[i]
        own = -1 if trace.spans.tensor is None else int(trace.spans.tensor[i])
        expected.append(own if tensor == NOT_RECORDED and own >= 0 else tensor)

    assert attributed(trace).tolist() == expected
    assert len(set(expected)) > 2
