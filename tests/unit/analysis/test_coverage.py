"""What a trace leaves out is stated with its causes, and hides what it may hide."""

from dataclasses import replace

import pytest

from ggscope.analysis.completeness.coverage import (
    Cause,
    Omission,
    TraceCoverage,
    trace_coverage,
)
from ggscope.analysis.reads.hotness import cold, heat
from ggscope.descriptions.coverage import coverage_json
from ggscope.model.trace import RUNNING, ReadWarning, Severity
from reads_builder import moe_reads


def test_trace_without_problems_and_settings_is_not_known_to_be_whole():
    coverage = trace_coverage(moe_reads())

    assert coverage == TraceCoverage()
    assert coverage.is_whole is None
    assert not coverage.may_hide_reads


def test_stated_coverage_without_omissions_is_whole():
    assert TraceCoverage(is_stated=True).is_whole is True


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("capture_lost", Cause.RECORDS_LOST),
        ("capture_events_lost", Cause.EVENTS_LOST),
        ("recording_cut", Cause.FILE_CUT),
        ("range_read", Cause.PART_READ),
        ("buffer_full", Cause.LIMITED),
    ],
)
def test_problem_that_costs_records_is_an_omission(code: str, cause: Cause):
    problem = ReadWarning(Severity.DATA_LOSS, code, "", 7)
    trace = replace(moe_reads(), warnings=(problem,))

    coverage = trace_coverage(trace)

    assert coverage.omissions == (Omission(cause, 7),)
    assert coverage.is_whole is False
    assert coverage.may_hide_reads


def test_running_program_may_read_more():
    trace = replace(moe_reads(), pending=frozenset({RUNNING}))

    assert trace_coverage(trace).of(Cause.STILL_RUNNING)


def test_omissions_come_in_the_order_of_their_causes():
    problems = tuple(
        ReadWarning(Severity.DATA_LOSS, code, "")
        for code in ("recording_cut", "capture_lost", "range")
    )

    coverage = trace_coverage(replace(moe_reads(), warnings=problems))

    assert [o.cause for o in coverage.omissions] == [
        Cause.RECORDS_LOST, Cause.FILE_CUT, Cause.PART_READ,
    ]  # fmt: skip


def test_untouched_units_are_unknown_where_reads_may_be_hidden():
    result = heat(moe_reads())
    hides = TraceCoverage((Omission(Cause.SAMPLED, 4, "1 of 3"),))
    located = TraceCoverage((Omission(Cause.OPS_FILTERED, is_located=True),))

    assert cold(result).is_known
    assert cold(result, located).is_known
    part = cold(result, hides)
    assert not part.is_known
    assert (part.is_listed, part.n_cold) == (True, 3)


def test_json_of_coverage_has_every_reason():
    coverage = TraceCoverage(
        (Omission(Cause.LAYERS_FILTERED, 9, "0-3", is_located=True),)
    )

    assert coverage_json(coverage) == {
        "whole": False,
        "stated": False,
        "may_hide_reads": False,
        "omissions": [
            {
                "cause": "layers_filtered", "count": 9, "detail": "0-3",
                "located": True, "hides_reads": True,
                "words": "only layers 0-3 (9 records left out)",
            }
        ],
    }  # fmt: skip
