"""Filters by the wait behind an op."""

import numpy as np
import pytest

from builders import spans_trace
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import describe_filter, format_filter, parse_filter
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from wait_traces import random_waits, recorded_wait, with_waits

TRACE = random_waits(3, 4000)
WAIT = recorded_wait(TRACE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wait>10", WAIT > 10),
        ("wait>=10", WAIT >= 10),
        ("wait<10", (WAIT >= 0) & (WAIT < 10)),
        ("wait<=0", WAIT == 0),
        ("wait=7", WAIT == 7),
        ("wait!=7", WAIT != 7),
        ("wait>5 wait<9", (WAIT > 5) & (WAIT < 9)),
        ("not wait>=0", WAIT < 0),
        ("wait>3us", np.zeros(len(WAIT), bool)),
        ("wait>5s", np.zeros(len(WAIT), bool)),
    ],
)
def test_mask_is_that_of_the_recorded_waits(text, expected):
    mask = filter_mask(TRACE, parse_filter(text))

    assert np.array_equal(mask, expected)


@pytest.mark.parametrize("text", ["wait>=10", "wait<=7", "wait>=3 wait<=7"])
def test_filter_by_wait_is_written_as_it_is_read(text):
    row_filter = parse_filter(text)

    assert format_filter(row_filter) == text
    assert parse_filter(format_filter(row_filter)) == row_filter
    assert describe_filter(parse_filter("wait>=12300"))[0][1] == "wait ≥ 12.3 µs"


def test_longest_wait_is_longer_than_any_limit():
    trace = with_waits(spans_trace([0, 50], [10, 60]), [LONGEST_WAIT, NO_WAIT])

    above = filter_mask(trace, parse_filter("wait>4s"))
    below = filter_mask(trace, parse_filter("wait<100s"))

    assert above.tolist() == [True, False]
    assert below.tolist() == [False, False]


def test_trace_without_waits_has_no_matching_span():
    trace = spans_trace([0, 50], [10, 60])

    assert not filter_mask(trace, parse_filter("wait<1s")).any()
    assert filter_mask(trace, parse_filter("not wait<1s")).all()
