"""Counters that split the time of tokens: shares, and when they are no parts."""

import csv

import numpy as np
import pytest

from builders import finished
from ggscope.analysis.summary.bars import token_bars
from ggscope.analysis.summary.bottleneck import Cause, Evidence, cause_of
from ggscope.analysis.summary.summary import summary
from ggscope.analysis.summary.token_parts import token_parts
from ggscope.descriptions.summary import bottleneck_line, bottleneck_name
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import CounterShape, Phase
from ggscope.model.trace import LaneKind, Trace
from ggscope.readers.discovery import survey
from ggscope.session_loading import open_bundle
from support import need_corpus

MS = 1_000_000


def tokens(**parts: list[float]) -> Trace:
    """Return three tokens of 10, 20 and 30 ms, with counters in ms."""
    builder = TraceBuilder()
    start = np.array([0, 10, 30], np.int64) * MS
    builder.add_spans(
        start=start, end=start + np.array([10, 20, 30]) * MS,
        lane=builder.add_lane("tokens", LaneKind.TOKEN, ("Tokens",)),
        token=np.arange(3, dtype=np.int32), phase=int(Phase.GENERATE),
    )  # fmt: skip
    for name, values in parts.items():
        builder.add_counter(
            name, "ms", CounterShape.LEVEL, start[: len(values)], np.array(values)
        )
    return finished(builder)


def test_shares_are_of_the_time_of_tokens() -> None:
    trace = tokens(
        compute=[2, 4, 6], stall=[6, 14, 22], mgmt=[2, 2, 2], io=[50, 50, 50]
    )

    result = token_parts(trace, token_bars(trace))

    assert [name for name, _ in result] == ["stall", "compute", "mgmt"]
    assert [share for _, share in result] == pytest.approx([0.7, 0.2, 0.1])
    facts = summary(trace)
    assert facts.cause is Cause.TOKEN_PART
    assert bottleneck_name(facts) == "stall"
    assert "70.0 %" in bottleneck_line(facts)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"compute": [10, 20, 30]},
        {"compute": [2, 4, 6], "stall": [6, 14, 22], "mgmt": [2, 2, 20]},
        {"compute": [2, 4], "stall": [6, 14], "mgmt": [2, 2]},
        {"compute": [12, 24, 26], "stall": [-2, -4, 4], "mgmt": [0, 0, 0]},
    ],
    ids=["none", "one", "do not add up", "not of each token", "negative"],
)
def test_other_counters_split_nothing(parts: dict[str, list[float]]) -> None:
    trace = tokens(**parts)

    assert token_parts(trace, token_bars(trace)) == ()
    assert summary(trace).cause is None


def test_ops_lead_and_even_parts_are_no_single_cause() -> None:
    even = (("compute", 0.4), ("stall", 0.35), ("mgmt", 0.25))

    assert cause_of(Evidence(parts=even)) is Cause.SPREAD
    assert cause_of(Evidence(parts=even, op=("MUL_MAT", 0.9))) is Cause.OP


def test_a_table_of_the_corpus_says_what_its_tokens_take_time_for() -> None:
    path = need_corpus() / "people" / "bigmoe" / "qwen_pf2.csv"
    lines = [x for x in path.read_text().splitlines() if x and not x.startswith("#")]
    rows = list(csv.DictReader(lines))
    sums = {
        name: sum(float(row[f"{name}_ms"]) for row in rows)
        for name in ("wall", "compute", "stall", "mgmt")
    }

    facts = summary(open_bundle(survey((path,))))

    assert facts.cause is Cause.TOKEN_PART
    assert dict(facts.evidence.parts) == pytest.approx(
        {name: sums[name] / sums["wall"] for name in ("compute", "stall", "mgmt")}
    )
