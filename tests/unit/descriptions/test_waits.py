"""What is said of the wait behind an op."""

import pytest

from builders import spans_trace
from ggscope.descriptions.spans import span_facts, tooltip_text, wait_of, wait_share
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from ggscope.model.trace import Trace
from ggscope.model.units import format_exact
from wait_traces import with_waits


def trace_of(wait: list[int], op: list[int] | None = None) -> Trace:
    n = len(wait)
    start = [100_000 * i for i in range(n)]
    made = spans_trace(start, [t + 3000 for t in start], op=op or [1] * n)
    return with_waits(made, wait)


def fact(trace: Trace, span: int, label: str = "wait"):
    values = [fact for fact in span_facts(trace, span) if fact.label == label]
    return values[0] if values else None


def test_wait_is_reported_beside_the_duration_with_its_share():
    trace = trace_of([9000, 0, NO_WAIT])

    labels = [fact.label for fact in span_facts(trace, 0)]

    assert labels.index("wait") == labels.index("duration") + 1
    assert [wait_of(trace, i) for i in range(3)] == [9000, 0, -1]
    assert [wait_share(trace, i) for i in range(3)] == [0.75, 0.0, None]
    assert fact(trace, 0).value.startswith("9.000 µs 75.0 %")
    assert fact(trace, 0).exact.startswith(format_exact(9000, "ns"))
    assert fact(trace, 2).value == "N/A"


def test_longest_wait_is_reported_as_at_least_that():
    trace = trace_of([LONGEST_WAIT])

    assert fact(trace, 0).value.startswith("at least 4.29")


def test_trace_without_waits_says_nothing_of_them():
    trace = spans_trace([0], [10], op=1)

    assert fact(trace, 0) is None
    assert wait_of(trace, 0) == -1


def test_span_that_is_no_op_has_no_wait():
    assert fact(trace_of([NO_WAIT], op=[-1]), 0) is None


@pytest.mark.parametrize(("wait", "is_there"), [(9000, True), (0, False)])
def test_tooltip_reports_waits_alone(wait, is_there):
    assert ("waited" in tooltip_text(trace_of([wait]), 0)) == is_there
