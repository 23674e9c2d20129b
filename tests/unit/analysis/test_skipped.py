"""Token numbers that skip are lost tokens; positions and samples are none."""

from pathlib import Path

import pytest

from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.completeness.expected import completeness
from ggscope.analysis.completeness.skipped import skipped_tokens
from ggscope.descriptions.completeness import with_completeness
from ggscope.model.trace import Severity, Trace
from ggscope.readers.registry import open_trace
from tensor_files import Rec, encode, llama_pass, llama_trace


def passes_of(numbers: list[int]) -> list[Rec]:
    """Return one pass for each token number; the first one is a prompt."""
    records: list[Rec] = []
    time = 1_000_000_000_000
    for k, token in enumerate(numbers):
        records += llama_pass(time, token=token, phase=min(k, 1))
        time = records[-1].time + 10_000_000
    return records


def opened(folder: Path, records: list[Rec]) -> Trace:
    path = folder / "trace.bin"
    path.write_bytes(encode(records, "256"))
    return open_trace(path)


def ranges(trace: Trace) -> list[tuple[int, int]]:
    return [(gap.first, gap.last) for gap in skipped_tokens(trace).gaps]


@pytest.mark.parametrize(
    ("numbers", "missing"),
    [
        ([*range(10), *range(11, 20)], [(10, 10)]),
        ([*range(5), *range(8, 20), *range(21, 25)], [(5, 7), (20, 20)]),
        ([*range(20)], []),
        ([7, *range(8, 20)], []),
        ([0, 0, 1, 2, 2, 3], []),
    ],
)
def test_numbers_between_those_that_are_there_are_missing(numbers, missing, tmp_path):
    trace = opened(tmp_path, passes_of(numbers))

    assert ranges(trace) == missing


@pytest.mark.parametrize(
    "numbers", [[0, 512, 1024, 1300], [*range(0, 60, 3)], [0, 2, 7, 11, 12, 15, 19]]
)
def test_positions_and_samples_are_no_loss(numbers, tmp_path):
    assert ranges(opened(tmp_path, passes_of(numbers))) == []


def test_lost_token_costs_its_records(tmp_path):
    records = llama_trace(20)
    trace = opened(tmp_path, [r for r in records if r.token != 10])

    result = completeness(trace)
    report = with_completeness(trace, result)

    assert result.n_missing == result.n_token_records == len(records) // 20
    assert result.n_expected == len(records)
    assert result.share == pytest.approx(0.95)
    (problem,) = (w for w in report.warnings if w.code == "tokens_missing")
    assert (problem.severity, problem.count) == (Severity.DATA_LOSS, 1)
    (omission,) = trace_coverage(trace).of(Cause.RECORDS_LOST)
    assert omission.hides_reads


def test_lost_begin_of_a_token_is_no_lost_token(tmp_path):
    """Its pass cannot be distinguished from the one before, but its records are
    there."""
    records = llama_trace(20)
    trace = opened(
        tmp_path, [r for r in records if r.token != 10 or r.dst != "inp_embd"]
    )

    assert ranges(trace) == []
    assert completeness(trace).n_token_records == 0


def test_lost_token_is_missing_where_nothing_else_is_known(tmp_path):
    records = passes_of([*range(6), *range(7, 12)])
    # Passes that are not alike: of each, other records.
    odd = [r for i, r in enumerate(records) if (i * i + i // 7) % 3 or r.op == 40]
    trace = opened(tmp_path, odd)

    result = completeness(trace)

    assert [(gap.first, gap.last) for gap in result.tokens.gaps] == [(6, 6)]
    report = with_completeness(trace, result)
    assert "tokens_missing" in {warning.code for warning in report.warnings}
