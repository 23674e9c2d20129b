"""Sums of waits by group, against plain loops, and the compiled scan against numpy."""

import math
from collections import defaultdict
from typing import get_args

import numpy as np
import pytest

from builders import llama_like_trace, spans_trace
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import WITHOUT_OPS
from ggscope.analysis.statistics.table import StatTable, stat_table
from ggscope.model.selection import By
from ggscope.model.tables import LONGEST_WAIT, NO_WAIT
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from wait_traces import random_waits, recorded_wait, with_waits

TRACES = {
    "in order": random_waits(1, 3_000, lanes=3),
    "shuffled": random_waits(2, 2_000, lanes=2, shuffled=True),
}
PLAIN: dict[By, str] = {"op": "op", "layer": "layer", "token": "token"}


def plainly(trace: Trace, by: By, **named: object) -> StatTable:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "can_scan", lambda *_: False)
        return stat_table(trace, by, **named)  # type: ignore[arg-type]


def looped(trace: Trace, by: By, chosen: list[int]) -> dict[str, tuple[int, int]]:
    """Return (wait, number of waits) by group, span by span."""
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    wait, s = recorded_wait(trace), trace.spans
    for i in chosen:
        value = int(getattr(s, PLAIN[by])[i])
        key = trace.op_name(value) if by == "op" else str(value) if value >= 0 else ""
        total, n = sums[key]
        known = wait[i] >= 0
        sums[key] = (total + int(wait[i]) * known, n + int(known))
    return sums


def waits_by_key(table: StatTable, none: str = "none") -> dict[str, tuple[int, int]]:
    # A token of a trace whose phases count apart is "decode 3".
    return {
        row.key.split()[-1] if row.key != none else "": (row.wait or 0, row.waits)
        for row in table.rows
    }


@pytest.mark.parametrize("by", list(PLAIN))
@pytest.mark.parametrize("name", list(TRACES))
def test_waits_are_the_sums_of_a_plain_loop(name, by):
    trace = TRACES[name]
    every = list(range(len(trace.spans)))

    for table in (stat_table(trace, by), plainly(trace, by)):
        assert waits_by_key(table) == looped(trace, by, every)
        wait = recorded_wait(trace)
        assert table.all.wait == int(wait[wait >= 0].sum())
        assert table.all.waits == int((wait >= 0).sum())


@pytest.mark.parametrize("name", list(TRACES))
def test_waits_of_a_range_are_those_of_the_spans_that_touch_it(name):
    trace, rng = TRACES[name], np.random.default_rng(4)
    mask = rng.random(len(trace.spans)) < 0.5
    time = TimeRange(trace.extent.end // 3, trace.extent.end // 2)
    s = trace.spans
    touched = (s.start < time.end) & ((s.end > time.start) | (s.start >= time.start))
    chosen = np.flatnonzero(touched & mask).tolist()

    for make in (stat_table, plainly):
        assert waits_by_key(make(trace, "op", mask=mask, time=time)) == looped(
            trace, "op", chosen
        )


@pytest.mark.parametrize("by", get_args(By))
def test_every_grouping_says_the_same_of_waits_by_scan_and_by_numpy(by):
    trace = llama_like_trace(tokens=3, layers=2)
    rng = np.random.default_rng(6)
    wait = rng.integers(0, 5_000, len(trace.spans))
    wait[::7] = NO_WAIT
    wait[3::50] = LONGEST_WAIT
    trace = with_waits(trace, wait)

    scanned, plain = stat_table(trace, by), plainly(trace, by)

    assert list(map(repr, scanned.rows)) == list(map(repr, plain.rows))
    if by not in ("source", *WITHOUT_OPS):  # ops count once in the others
        is_op = trace.spans.op >= 0
        known = recorded_wait(trace)[is_op]
        assert scanned.all.wait == int(known[known >= 0].sum())
        assert scanned.all.longest_waits == int((known == LONGEST_WAIT).sum())


def test_mean_and_shares_are_of_recorded_waits_alone():
    trace = spans_trace([0, 100, 200, 300], [10, 110, 210, 310], op=[1, 1, 1, 2])
    trace = with_waits(trace, [30, NO_WAIT, 10, 40])

    first, second = stat_table(trace, "op").rows

    assert (first.wait, first.waits, first.mean_wait) == (40, 2, 20.0)
    assert (first.wait_share, first.waiting) == (0.5, 40 / 70)
    assert (second.wait, second.wait_share, second.waiting) == (40, 0.5, 0.8)


def test_group_without_a_recorded_wait_has_none_and_not_zero():
    trace = with_waits(spans_trace([0, 100], [10, 110], op=[1, 2]), [NO_WAIT, 0])

    rows = {row.key: row for row in stat_table(trace, "op").rows}
    known = next(row for row in rows.values() if row.waits)
    other = next(row for row in rows.values() if not row.waits)

    assert (known.wait, known.wait_share, known.waiting) == (0, 0.0, 0.0)
    assert (other.wait, other.wait_share, other.waiting) == (None, None, None)
    assert math.isnan(other.mean_wait)
    assert stat_table(spans_trace([0], [10], op=1)).all.wait is None
