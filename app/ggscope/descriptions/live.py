"""What is known of a program while it is followed, as facts."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ggscope.descriptions.spans import Fact
from ggscope.live.source import SourceStatus
from ggscope.model.record_kinds import record_unit
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact_bytes,
    format_share,
)
from ggscope.sanitize import one_line

_Number = TypeVar("_Number", int, float)


def live_facts(
    heard: SourceStatus,
    *,
    is_running: bool,
    tokens_per_s: float,
    records_per_s: float,
    lag_ns: int,
    is_least_lag: bool,
    extent_ns: int,
) -> tuple[Fact, ...]:
    """Return the figures of a program that is followed; -1 = not known.

    What no source of this kind tells is left out.

    Parameters
    ----------
    is_running : else it is told of the whole run alone, and what follows counts not.
    tokens_per_s, records_per_s, lag_ns : of the last second.
    extent_ns : from its first record to its last; -1 = in other units.
    """
    lag = NOT_AVAILABLE if lag_ns < 0 else format_duration(lag_ns, "ns")
    now = [
        Fact("tokens/s", format_rate(tokens_per_s)),
        Fact(f"{record_unit(heard.by_kind)}/s", format_rate(records_per_s)),
        Fact("delay", f"≥ {lag}" if is_least_lag and lag_ns >= 0 else lag),
        Fact("buffer used", _known(heard.fill, format_share)),
    ]
    facts = [
        *(now if is_running else ()),
        Fact("tokens", _known(heard.tokens, format_count)),
        *_record_facts(heard),
        Fact("lost", _known(heard.lost, format_count), caution=heard.lost > 0),
    ]
    if extent_ns >= 0:
        facts.append(Fact("duration", format_duration(extent_ns, "ns")))
    if heard.program:
        path = one_line(heard.program)
        facts.append(Fact("program", Path(path).name, path))
    if heard.began:
        local = time.localtime(heard.began)
        exact = time.strftime("%Y-%m-%d %H:%M:%S", local)
        facts.append(Fact("started", time.strftime("%H:%M:%S", local), exact))
    facts += _of_memory(heard)
    return (*facts, *(Fact(key, one_line(text)) for key, text in heard.run.items()))


def _record_facts(heard: SourceStatus) -> list[Fact]:
    """Return how many records there are, of each kind where that is told."""
    kinds = {word: n for word, n in heard.by_kind.items() if n or word == "ops"}
    counts = kinds or {"records": heard.records}
    return [Fact(word, format_count(n)) for word, n in counts.items()]


def _of_memory(heard: SourceStatus) -> list[Fact]:
    """Return what is known of the model in memory, and of what the program reads."""
    facts = []
    if heard.model_bytes > 0 and heard.resident_bytes >= 0:
        share = format_share(heard.resident_bytes / heard.model_bytes)
        text = f"{share} of {format_bytes(heard.model_bytes)}"
        exact = (
            f"{format_exact_bytes(heard.resident_bytes)} of "
            f"{format_exact_bytes(heard.model_bytes)}"
        )
        facts.append(Fact("model in page cache", text, exact))
    if heard.read_bytes >= 0:
        exact = format_exact_bytes(heard.read_bytes)
        facts.append(Fact("read from disk", format_bytes(heard.read_bytes), exact))
    if heard.major_faults >= 0:
        facts.append(Fact("major page faults", format_count(heard.major_faults)))
    return facts


def format_rate(rate: float) -> str:
    """Return a rate per second with few digits; N/A where it is not known."""
    if rate < 0:
        return NOT_AVAILABLE
    return f"{rate:.1f}" if rate < 100 else format_count(round(rate))


def _known(number: _Number, text: Callable[[_Number], str]) -> str:
    return NOT_AVAILABLE if number < 0 else text(number)
