"""The metrics of a program that is followed, as facts."""

import time
from collections.abc import Iterable
from pathlib import Path

from ggscope.descriptions.spans import Fact
from ggscope.live.metrics import LiveMetric, Rates, Shown, shown_in
from ggscope.live.source import SourceStatus
from ggscope.model.units import NOT_AVAILABLE, format_count, format_duration
from ggscope.sanitize import one_line


def live_facts(
    status: SourceStatus, rates: Rates, *, is_running: bool, extent_ns: int
) -> tuple[Fact, ...]:
    """Return the facts of a program that is followed.

    Parameters
    ----------
    is_running : whether it is still followed; else what is of the last second is left
        out.
    extent_ns : from its first record to its last; -1 = in other units.
    """
    shown = [
        metric
        for metric in shown_in(Shown.DETAILS)
        if Shown.WHERE_KNOWN not in metric.shown or metric.is_known(status, rates)
    ]
    recent = [metric for metric in shown if Shown.RECENT in metric.shown]
    lasting = [metric for metric in shown if Shown.RECENT not in metric.shown]
    facts = [
        *(_metric_facts(recent, status, rates) if is_running else ()),
        Fact("tokens", _count(status.tokens)),
        *_record_facts(status),
        Fact("lost", _count(status.lost), caution=status.lost > 0),
    ]
    if extent_ns >= 0:
        facts.append(Fact("duration", format_duration(extent_ns, "ns")))
    if status.program:
        path = one_line(status.program)
        facts.append(Fact("program", Path(path).name, path))
    if status.began:
        local = time.localtime(status.began)
        exact = time.strftime("%Y-%m-%d %H:%M:%S", local)
        facts.append(Fact("started", time.strftime("%H:%M:%S", local), exact))
    facts += _metric_facts(lasting, status, rates)
    return (*facts, *(Fact(key, one_line(text)) for key, text in status.run.items()))


def _metric_facts(
    metrics: Iterable[LiveMetric], status: SourceStatus, rates: Rates
) -> list[Fact]:
    return [
        Fact(
            metric.name(status),
            metric.shown_value(status, rates),
            metric.exact(status, rates) if metric.is_known(status, rates) else "",
        )
        for metric in metrics
    ]


def _record_facts(status: SourceStatus) -> list[Fact]:
    """Return the number of records, of each kind where the source counts kinds."""
    kinds = {word: n for word, n in status.by_kind.items() if n or word == "ops"}
    counts = kinds or {"records": status.records}
    return [Fact(word, format_count(n)) for word, n in counts.items()]


def _count(number: int) -> str:
    return NOT_AVAILABLE if number < 0 else format_count(number)
