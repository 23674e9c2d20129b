"""The metrics of a program that is followed: declared once, shown in three places.

A new metric is a value of `SourceStatus` and a line in `METRICS`: `ggscope live`, its
``--json``, the strip of the window and Details read that list.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Flag, auto

from ggscope.live.source import SourceStatus
from ggscope.model.record_kinds import counted_text, record_unit
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact_bytes,
    format_share,
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened in the last second; -1 = not known.

    Attributes
    ----------
    lag_ns : the greatest delay from writing to reading; `is_least_lag` as in
        `SourceStatus`.
    """

    records_per_s: float = -1.0
    tokens_per_s: float = -1.0
    lag_ns: int = -1
    is_least_lag: bool = False


class Shown(Flag):
    """Where a metric is shown."""

    JSON = auto()
    LINE = auto()
    """In the strip of the window, and in the lines of ``ggscope live``."""
    DETAILS = auto()
    WHERE_KNOWN = auto()
    """Details leave it out where it is not known."""
    RECENT = auto()
    """Of the last second: Details leave it out when following has ended."""


@dataclass(frozen=True, slots=True)
class LiveMetric:
    """A number that the program or its ring gives.

    Attributes
    ----------
    key : in JSON.
    value : as JSON has it; None = not known.
    title : what it is called; ``{records}`` stands for what is counted.
    has_unit : whether the title is a unit: it stands behind the value.
    text : the value for people; only asked for where it is known.
    exact : the same with all its digits; "" = `text` has them.
    """

    key: str
    value: Callable[[SourceStatus, Rates], object]
    shown: Shown = Shown.JSON
    title: str = ""
    has_unit: bool = False
    text: Callable[[SourceStatus, Rates], str] = lambda _status, _rates: ""
    exact: Callable[[SourceStatus, Rates], str] = lambda _status, _rates: ""

    def is_known(self, status: SourceStatus, rates: Rates) -> bool:
        """Return whether there is a value."""
        return self.value(status, rates) is not None

    def name(self, status: SourceStatus) -> str:
        """Return the title with what the source counts."""
        return self.title.replace("{records}", record_unit(status.by_kind))

    def shown_value(self, status: SourceStatus, rates: Rates) -> str:
        """Return the value for people; "N/A" where it is not known."""
        is_known = self.is_known(status, rates)
        return self.text(status, rates) if is_known else NOT_AVAILABLE

    def phrase(self, status: SourceStatus, rates: Rates) -> str:
        """Return "7.2 tokens/s" or "lost 3"."""
        parts = [self.name(status), self.shown_value(status, rates)]
        if self.has_unit:
            parts.reverse()
        return " ".join(filter(None, parts))


def shown_in(place: Shown) -> Iterator[LiveMetric]:
    """Yield the metrics of a place in their order."""
    return (metric for metric in METRICS if place in metric.shown)


def format_rate(rate: float) -> str:
    """Return a rate per second with few digits; N/A where it is not known."""
    if rate < 0:
        return NOT_AVAILABLE
    return f"{rate:.1f}" if rate < 100 else format_count(round(rate))


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _rounded(number: float, digits: int) -> float | None:
    return None if number < 0 else round(number, digits)


def _lag_ms(rates: Rates, *, is_least: bool) -> float | None:
    if rates.lag_ns < 0 or rates.is_least_lag != is_least:
        return None
    return round(rates.lag_ns / 1e6, 3)


def _lag_text(_: SourceStatus, rates: Rates) -> str:
    text = format_duration(rates.lag_ns, "ns")
    return f"≥ {text}" if rates.is_least_lag else text


def _resident(status: SourceStatus) -> tuple[int, int] | None:
    """Return bytes of the model in the page cache, and all; None = not known."""
    if status.resident_bytes < 0 or status.model_bytes <= 0:
        return None
    return status.resident_bytes, status.model_bytes


def _resident_text(status: SourceStatus, _: Rates) -> str:
    share = format_share(status.resident_bytes / status.model_bytes)
    return f"{share} of {format_bytes(status.model_bytes)}"


def _resident_exact(status: SourceStatus, _: Rates) -> str:
    resident = format_exact_bytes(status.resident_bytes)
    return f"{resident} of {format_exact_bytes(status.model_bytes)}"


_RECENT = Shown.DETAILS | Shown.RECENT
_IF_KNOWN = Shown.DETAILS | Shown.WHERE_KNOWN
METRICS: tuple[LiveMetric, ...] = (
    LiveMetric(
        "tokens_per_s", lambda _, rates: _rounded(rates.tokens_per_s, 1),
        Shown.JSON | Shown.LINE | _RECENT, "tokens/s", True,
        lambda _, rates: format_rate(rates.tokens_per_s),
    ),
    LiveMetric(
        "records_per_s", lambda _, rates: _rounded(rates.records_per_s, 1),
        Shown.JSON | Shown.LINE | _RECENT, "{records}/s", True,
        lambda _, rates: format_rate(rates.records_per_s),
    ),
    LiveMetric(
        "records", lambda status, _: status.records, Shown.JSON | Shown.LINE,
        text=lambda status, _: counted_text(status.records, status.by_kind),
    ),
    LiveMetric("op_records", lambda status, _: status.by_kind.get("ops")),
    LiveMetric("requests", lambda status, _: status.by_kind.get("requests")),
    LiveMetric("calls", lambda status, _: status.by_kind.get("calls")),
    LiveMetric(
        "fill", lambda status, _: _rounded(status.fill, 4),
        Shown.JSON | Shown.LINE | _RECENT, "buffer",
        text=lambda status, _: format_share(status.fill),
    ),
    LiveMetric("lag_ms", lambda _, rates: _lag_ms(rates, is_least=False)),
    LiveMetric("lag_at_least_ms", lambda _, rates: _lag_ms(rates, is_least=True)),
    LiveMetric(
        "lag_ns", lambda _, rates: _known(rates.lag_ns), Shown.LINE | _RECENT, "delay",
        text=_lag_text,
    ),
    LiveMetric(
        "lost", lambda status, _: _known(status.lost), Shown.JSON | Shown.LINE, "lost",
        text=lambda status, _: format_count(status.lost),
    ),
    LiveMetric("state", lambda status, _: status.state.value),
    LiveMetric("restarts", lambda status, _: status.restarts),
    LiveMetric(
        "resident", lambda status, _: _resident(status), _IF_KNOWN,
        "model in page cache", text=_resident_text, exact=_resident_exact,
    ),
    LiveMetric("resident_bytes", lambda status, _: _known(status.resident_bytes)),
    LiveMetric("model_bytes", lambda status, _: _known(status.model_bytes)),
    LiveMetric(
        "read_bytes", lambda status, _: _known(status.read_bytes),
        Shown.JSON | _IF_KNOWN, "read from disk",
        text=lambda status, _: format_bytes(status.read_bytes),
        exact=lambda status, _: format_exact_bytes(status.read_bytes),
    ),
    LiveMetric(
        "major_faults", lambda status, _: _known(status.major_faults),
        Shown.JSON | _IF_KNOWN, "major page faults",
        text=lambda status, _: format_count(status.major_faults),
    ),
    LiveMetric("self_test", lambda status, _: status.run.get("self-test")),
    LiveMetric("owner", lambda status, _: status.run.get("owner")),
    LiveMetric("backends", lambda status, _: status.run.get("backends")),
)  # fmt: skip
"""All metrics, in the order of the strip."""
