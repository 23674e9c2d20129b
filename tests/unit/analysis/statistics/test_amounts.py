"""What spans amount to, against sums span by span, and the filters of it."""

import numpy as np
import pytest

import builders
import ggscope
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.filters.text import describe_filter, format_filter, parse_filter
from ggscope.analysis.reads.shared import op_owners, op_times
from ggscope.analysis.statistics.amounts import AMOUNTS, PER_RATE, Amount, amounts
from ggscope.analysis.statistics.table import stat_table
from ggscope.errors import QueryError
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from link_traces import random_links_trace
from support import sample_path

SAMPLES = ("tinyllama-256.bin", "moe-experiment", "npu-prefill-decode.json")
MADE = {
    "llama": lambda: builders.llama_like_trace(tokens=3, layers=3, threads=2),
    "random": lambda: builders.random_trace(3, n=400),
    "links": lambda: random_links_trace(4),
}


@pytest.fixture(params=[*MADE, *SAMPLES])
def trace(request: pytest.FixtureRequest) -> Trace:
    if request.param in MADE:
        made: Trace = MADE[request.param]()
        return made
    return ggscope.open(sample_path(request.param))


def known_traffic(trace: Trace, span: int) -> int:
    """Return what statistics of the one span say, of its op."""
    owners = op_owners(trace)
    owner = span if owners is None or owners[span] < 0 else int(owners[span])
    by = "op" if trace.spans.op[owner] >= 0 else "lane"
    table = stat_table(trace, by, ids=np.array([owner]), include_estimated=True)
    row = table.all
    return -1 if row.open_ops and not row.bytes else row.bytes


def test_amounts_equal_those_of_statistics_of_one_span(trace: Trace) -> None:
    n, spans = len(trace.spans), trace.spans
    values = {of: amounts(trace, of)(slice(0, n)) for of in AMOUNTS}
    ticks, owners = op_times(trace).ticks, op_owners(trace)
    some = np.random.default_rng(1).permutation(n)[:60]
    for span in some.tolist():
        assert values["duration"][span] == spans.end[span] - spans.start[span]
        if spans.op[span] < 0 or trace.accesses.pattern[span] < 0:
            continue
        n_bytes = known_traffic(trace, span)
        assert values["traffic"][span] == n_bytes
        length = int(spans.end[span] - spans.start[span])
        if ticks is not None:
            assert owners is not None
            length = int(ticks[owners[span]]) if owners[span] >= 0 else -1
        is_known = quality_of(spans.flags[span : span + 1])[0] <= Quality.DERIVED
        rate = -1
        if n_bytes >= 0 and length > 0 and is_known:
            rate = int(n_bytes / length * PER_RATE)
        assert values["rate"][span] == rate


@pytest.mark.parametrize("of", ["traffic", "rate"])
def test_filter_leaves_the_ops_within_the_limits(trace: Trace, of: Amount) -> None:
    n = len(trace.spans)
    amount = amounts(trace, of)(slice(0, n))
    known = amount[(amount >= 0) & (trace.spans.op >= 0)]
    if not len(known):
        pytest.skip("nothing is known of it")
    low, high = (int(v) for v in np.percentile(known, [20, 70]))

    mask = filter_mask(trace, parse_filter(f"{of}>={low} {of}<={high}"))

    is_op = trace.spans.op >= 0
    expected = is_op & (amount >= low) & (amount <= high)
    assert np.array_equal(mask, expected)
    assert expected.any()


def test_rates_are_written_as_they_are_read() -> None:
    expected = parse_filter("rate>=1GiB/s traffic<1MiB")

    assert format_filter(expected) == "traffic<=1048575 rate>=1073741824"
    assert parse_filter(format_filter(expected)) == expected
    texts = [text for _, text in describe_filter(expected)]
    assert texts == ["traffic < 1 MiB", "rate ≥ 1.0 GiB/s"]
    assert parse_filter("rate>12B/cycle", "cycle").min_rate == 12 * PER_RATE + 1
    for text, unit in (("rate>1GiB/s", "cycle"), ("rate>1B/cycle", "ns"),
                       ("rate>1GiB/h", "ns"), ("rate>fast", "ns")):  # fmt: skip
        with pytest.raises(QueryError):
            parse_filter(text, unit)  # type: ignore[arg-type]


def test_experts_and_rows_count_with_what_is_moved_not_with_the_whole_tensor() -> None:
    path = sample_path("tinyllama-256.bin")
    trace = ggscope.open(path)

    rows = stat_table(trace, mask=filter_mask(trace, parse_filter("traffic>=1MiB")))

    assert "GET_ROWS" not in {row.key for row in rows.rows}
    assert filter_mask(trace, parse_filter("op=GET_ROWS size>=1MiB")).any()
