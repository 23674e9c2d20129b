"""Samples of perf by thread and event: how long each stands for its thread."""

import re
from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, U16, Array, SpanFlag, ranked
from ggscope.readers.common.stack_text import SampleLines
from ggscope.readers.common.stacks import (
    LONGEST_NS,
    ends_of,
    gaps_behind,
    usual_gap,
)

_CLOCKS = re.compile(r"(cpu|task)-clock(:|$)")
"""Events whose period is nanoseconds."""
_FREQUENCY = re.compile(
    r"^# event : name = (?P<name>[^,\n]+),(?P<rest>[^\n]*)$", re.MULTILINE
)
_RATE = re.compile(r"sample_freq\s*\}?\s*=\s*(\d+)")
_FACT = re.compile(r"^# ([a-z][a-z ]{1,30}?) *: ([^\n]{1,400})$", re.MULTILINE)
_FACTS = ("captured on", "os release", "perf version", "arch", "cpudesc", "cmdline")


@dataclass(frozen=True, slots=True, eq=False)
class Threads:
    """Which thread, event and core each sample is of.

    Attributes
    ----------
    place : int64[n], thread of each sample.
    first, last : int64[k], samples of each thread.
    """

    place: I64
    first: I64
    last: I64


@dataclass(frozen=True, slots=True, eq=False)
class TimedSamples:
    """Samples in the order of thread and time, with how long each counts.

    Attributes
    ----------
    row : of `SampleLines`.
    flags : uint16[n], `SpanFlag`: UNFINISHED where it is unknown how long they count.
    n_backwards : samples that are earlier than the one before them in their thread.
    """

    row: I64
    start: I64
    end: I64
    flags: U16
    n_backwards: int


def header_facts(text: str) -> dict[str, str]:
    """Return what the header of ``perf script --header`` says."""
    facts = {m[1]: m[2].strip() for m in _FACT.finditer(text)}
    return {key: facts[key] for key in _FACTS if facts.get(key)}


def header_periods(text: str) -> dict[str, int]:
    """Return the time between two samples by event, ns, where a rate was asked for."""
    periods = {}
    for event in _FREQUENCY.finditer(text):
        rate = _RATE.search(event["rest"])
        is_rate = re.search(r"\bfreq = 1\b", event["rest"]) is not None
        if rate is not None and is_rate and int(rate[1][:12]) > 0:
            periods[event["name"].strip()] = round(1e9 / int(rate[1][:12]))
    return periods


def threads_of(lines: SampleLines) -> Threads:
    """Return the threads of samples: by pid, tid and event, idle ones by core too."""
    key = np.zeros(len(lines), np.int64)
    idle_core = np.where(lines.tid > 0, -1, lines.cpu)
    for column in (lines.event, lines.pid, lines.tid, idle_core):
        _, _, place = ranked(column.astype(np.int64))
        key = key * (int(place.max(initial=0)) + 1) + place
        _, _, key = ranked(key)
    n = int(key.max(initial=-1)) + 1
    first, last = np.full(n, len(key)), np.zeros(n, np.int64)
    rows = np.arange(len(key))
    np.minimum.at(first, key, rows)
    np.maximum.at(last, key, rows)
    return Threads(key, first, last)


def timed(
    lines: SampleLines, place: I64, stated: dict[str, int]
) -> tuple[TimedSamples, dict[str, int]]:
    """Return samples with their times, and the estimated periods by event, ns.

    How long a sample counts `ends_of` says.
    """
    order = np.lexsort((lines.time, place))
    n_backwards = _n_backwards(lines.time, place)
    start, thread = lines.time[order], place[order]
    gap = gaps_behind(thread, start)
    event = lines.event[order]
    period = np.full(len(order), -1, np.int64)
    flags = np.full(
        len(order), int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END), np.uint16
    )
    guessed: dict[str, int] = {}
    for code in np.unique(event).tolist():
        mine = event == code
        name = lines.stacks.text(code)
        known = lines.period[order][mine]
        if _CLOCKS.match(name) and bool((known > 0).all()):
            period[mine] = np.minimum(known, LONGEST_NS)
        elif name in stated:
            period[mine] = stated[name]
        elif (usual := usual_gap(gap[mine])) > 0:
            period[mine] = guessed[name] = usual
        else:
            period[mine] = 0
            flags[mine] |= np.uint16(SpanFlag.UNFINISHED)
    end = ends_of(start, gap, period)
    return TimedSamples(order, start, end, flags, n_backwards), guessed


def _n_backwards(time: I64, place: I64) -> int:
    order = np.argsort(place, kind="stable")
    ordered, thread = time[order], place[order]
    is_back = (ordered[1:] < ordered[:-1]) & (thread[1:] == thread[:-1])
    return int(np.count_nonzero(is_back))


def lane_order(lines: SampleLines, rows: Array) -> I64:
    """Return the order of threads by event, process and thread."""
    columns = (lines.cpu[rows], lines.tid[rows], lines.pid[rows], lines.event[rows])
    order: I64 = np.lexsort(columns)
    return order
