"""Every kind of entity that can be selected, by the same questions."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

import builders
from ggscope.analysis.links import linked
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.sessions.correlate import correlate
from ggscope.entities.entity import Entity
from ggscope.entities.registry import ENTITIES, entity_of
from ggscope.model.routing import expert_key
from ggscope.model.selection import Filter, Gap, Selection, SpanGroup, TableName
from ggscope.model.tables import Markers
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from link_traces import EXPS, random_links_trace
from wait_traces import with_waits

SELECTIONS = (
    Selection("spans", (1,)),
    Selection("waits", (1,)),
    Selection("gaps", (1,), gap=Gap(TimeRange(30, 90), 1, 2)),
    Selection("markers", (0,)),
    Selection("tensors", (EXPS,)),
    Selection("buffers", (1,)),
    Selection("nodes", (1,)),
    Selection("experts", (expert_key(2, 1),)),
    Selection("groups", (0,), SpanGroup("layer", "2")),
)


@pytest.fixture(scope="module")
def trace() -> Trace:
    made = random_links_trace(4)
    time, zero = np.array([7]), np.zeros(1, np.int32)
    markers = Markers(time, zero, zero, zero, flags=zero.astype(np.uint16))
    made = dataclasses.replace(made, markers=markers)
    return with_waits(made, np.full(len(made.spans), 5))


def entity(trace: Trace, selection: Selection) -> Entity:
    entity = entity_of(trace, TraceIndex(trace), selection)
    assert entity is not None
    return entity


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda s: str(s.table))
def test_statistics_complete_the_facts(trace: Trace, selection: Selection) -> None:
    subject = entity(trace, selection)

    correlation = correlate(trace)
    stats = subject.load_stats(correlation)
    pending = subject.facts(None, correlation, absolute=False)
    shown = subject.facts(stats, correlation, absolute=False)

    assert subject.selection == selection
    assert shown.title
    assert shown.kind
    assert (stats.durations is not None) is subject.has_durations
    assert "counting…" not in {fact.value for fact in shown.facts}
    has_pending = "counting…" in {fact.value for fact in pending.facts}
    assert has_pending is (subject.has_stats and selection.table != "spans")


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda s: str(s.table))
def test_related_entities_exist(trace: Trace, selection: Selection) -> None:
    groups = entity(trace, selection).related(linked(trace, selection))

    for group in groups:
        assert len(group.items) <= group.n
        for item in group.items:
            assert entity(trace, item.target).exists


@pytest.mark.parametrize("table", ENTITIES)
def test_rows_beyond_the_trace_are_no_entities(trace: Trace, table: TableName) -> None:
    assert entity_of(trace, None, Selection(table, (-1,))) is None
    if table != "experts":  # any number is an expert of some layer
        assert entity_of(trace, None, Selection(table, (10_000_000,))) is None


def test_all_tables_but_accesses_have_entities() -> None:
    assert set(get_args(TableName)) - set(ENTITIES) == {"accesses", "gaps", "groups"}


def test_every_kind_is_tried_here() -> None:
    assert set(ENTITIES) <= {selection.table for selection in SELECTIONS}


def test_rows_of_statistics_need_an_index(trace: Trace) -> None:
    selection = Selection("groups", (0,), SpanGroup("layer", "2"))

    assert entity_of(trace, None, selection) is None


def test_marker_has_time_and_no_statistics() -> None:
    trace = builders.llama_like_trace(tokens=4, layers=4)

    marker = entity(trace, Selection("markers", (1,)))

    assert not marker.has_stats
    shown = marker.facts(None, None, absolute=False)
    assert shown.title == "PREFILL_DONE"
    assert shown.kind.startswith("marker · ")


def test_spans_of_one_op_share_statistics_and_filter() -> None:
    trace = builders.llama_like_trace(tokens=4, layers=4)
    first, other = (entity(trace, Selection("spans", (i,))) for i in (1, 4))

    assert first.stats_key == other.stats_key
    assert first.span_filter() == Filter(ops=frozenset({"MUL_MAT"}))
    assert first.alike()[0] == 1
    assert set(first.alike()) == set(other.alike())
    operands = first.operands()
    assert operands is not None
    assert operands.destination is not None
    assert operands.destination.label == "Qcur-0"
    assert [access.badge for access in operands.reads] == ["DISK", "BUF"]
