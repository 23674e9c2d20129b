"""Facts of a program that is followed."""

import time

from ggscope.descriptions.live import live_facts
from ggscope.live.metrics import Rates, format_rate
from ggscope.live.source import SourceStatus, State


def facts(
    status: SourceStatus, *, is_running: bool = True, extent: int = -1
) -> dict[str, str]:
    rates = Rates(-1.0, 7.25, 2_000_000, is_least_lag=True)
    facts = live_facts(status, rates, is_running=is_running, extent_ns=extent)
    return {fact.label: fact.value for fact in facts}


def test_what_is_not_known_stands_as_such_and_what_nobody_shows_is_left_out():
    result = facts(SourceStatus(State.RUNNING, 5, lost=-1))

    assert result == {
        "tokens/s": "7.2",
        "records/s": "N/A",
        "buffer": "N/A",
        "delay": "≥ 2.000 ms",
        "tokens": "N/A",
        "records": "5",
        "lost": "N/A",
    }


def test_all_that_is_known_of_a_program_is_reported():
    began = 1_800_000_000.0
    status = SourceStatus(
        State.RUNNING, 5_000, lost=3, fill=0.0002, tokens=7,
        resident_bytes=1 << 20, model_bytes=1 << 22, read_bytes=0, major_faults=12,
        run={"backends": "CPU: 2 graphs"}, program="/opt/llama-cli", began=began,
    )  # fmt: skip
    result = facts(status, extent=1_500_000_000)

    assert result["buffer"] == "<0.1 %"
    assert result["lost"] == "3"
    assert result["duration"] == "1.500 s"
    assert result["program"] == "llama-cli"
    assert result["started"] == time.strftime("%H:%M:%S", time.localtime(began))
    assert result["model in page cache"] == "25.0 % of 4.0 MiB"
    assert result["read from disk"] == "0 B"
    assert result["major page faults"] == "12"
    assert result["backends"] == "CPU: 2 graphs"


def test_run_that_is_over_has_no_rates():
    result = facts(SourceStatus(State.ENDED, 5, tokens=3), is_running=False)

    assert result == {"tokens": "3", "records": "5", "lost": "0"}


def test_rates_have_few_digits():
    assert [format_rate(r) for r in (-1, 0, 7.25, 99.96, 1234.4)] == [
        "N/A", "0.0", "7.2", "100.0", "1,234",
    ]  # fmt: skip


def test_what_is_counted_is_named_where_the_source_shows_it():
    def of(**by_kind: int) -> dict[str, str]:
        status = SourceStatus(State.ENDED, 7, by_kind=by_kind)
        return facts(status, is_running=False)

    assert of() == {"tokens": "N/A", "records": "7", "lost": "0"}
    assert of(ops=7, graphs=0) == {"tokens": "N/A", "ops": "7", "lost": "0"}
    assert of(ops=6, graphs=1)["graphs"] == "1"
    assert of(ops=0, graphs=7)["ops"] == "0"
