"""Live metrics: declared once, shown everywhere."""

import pytest

from ggscope.descriptions.live import live_facts
from ggscope.live import metrics
from ggscope.live.metrics import METRICS, LiveMetric, Rates, Shown, shown_in
from ggscope.live.source import SourceStatus, State

KNOWN = SourceStatus(
    State.RUNNING, 5, lost=3, fill=0.25, tokens=7, resident_bytes=1 << 20,
    model_bytes=1 << 22, read_bytes=0, major_faults=12, restarts=1,
    by_kind={"ops": 4, "graphs": 1}, run={"self-test": "good", "backends": "CPU"},
)  # fmt: skip
TEMPLATE = LiveMetric(
    "restarts_per_record",
    lambda status, _: status.restarts / status.records if status.records else None,
    Shown.JSON | Shown.LINE | Shown.DETAILS,
    "restarts per record",
    text=lambda status, _: f"{status.restarts / status.records:.2f}",
)


def test_keys_are_unique() -> None:
    keys = [metric.key for metric in METRICS]

    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.key)
def test_every_metric_has_a_value_and_says_where_it_has_none(
    metric: LiveMetric,
) -> None:
    nothing, rates = SourceStatus(records=-1, lost=-1, restarts=-1), Rates()
    spoken = Shown.LINE | Shown.DETAILS

    if metric.shown & spoken:
        assert metric.phrase(KNOWN, Rates(1.0, 2.0, 3, False))
    if metric.key not in ("records", "restarts", "state"):  # these are always known
        assert metric.value(nothing, rates) is None
        if metric.shown & spoken:
            assert metric.shown_value(nothing, rates) == "N/A"


@pytest.mark.parametrize("is_least", [False, True])
def test_least_lag_is_no_measured_one(is_least: bool) -> None:
    values = {m.key: m.value(KNOWN, Rates(1.0, 2.0, 3_000, is_least)) for m in METRICS}

    assert values["lag_ms"] == (None if is_least else 0.003)
    assert values["lag_at_least_ms"] == (0.003 if is_least else None)


def test_a_new_metric_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "METRICS", (*METRICS, TEMPLATE))

    json = {m.key: m.value(KNOWN, Rates()) for m in shown_in(Shown.JSON)}
    line = [m.phrase(KNOWN, Rates()) for m in shown_in(Shown.LINE)]
    details = live_facts(KNOWN, Rates(), is_running=True, extent_ns=-1)

    assert json["restarts_per_record"] == 0.2
    assert line[-1] == "restarts per record 0.20"
    assert {f.label: f.value for f in details}["restarts per record"] == "0.20"
