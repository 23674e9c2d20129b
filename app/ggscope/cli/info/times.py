"""Sections of ``info`` on time: tokens by phase, engines, calls of the program."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ggscope.cli.output import table
from ggscope.model.tables import Quality, quality_of
from ggscope.model.tokens import Tokens, token_noun, tokens_of
from ggscope.model.trace import Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_count,
    format_duration,
    format_number,
    format_share,
)

# Statistics are not imported for the many files that have none of these.
if TYPE_CHECKING:
    from ggscope.analysis.statistics.calls import CallTimes
    from ggscope.analysis.statistics.latency import PhaseLatency

_MAX_LISTED = 5
_MAX_SLOW = 1000
_MAX_ENGINES = 64
_MAX_DECODES = 10_000
_MAX_STALLED = 16
_MAX_REASONS = 6


# -- tokens ------------------------------------------------------------------


def latency_json(trace: Trace) -> list[dict[str, object]]:
    """Return how long the tokens of a trace take, by phase; times in ticks."""
    from ggscope.analysis.statistics.latency import phase_latencies

    phases = phase_latencies(trace)
    keys, noun, hz = tokens_of(trace), token_noun(trace), trace.clock.per_s
    return [_phase_json(trace, phase, keys, noun, hz) for phase in phases]


def _phase_json(
    trace: Trace, phase: "PhaseLatency", keys: Tokens, noun: str, hz: float | None
) -> dict[str, object]:
    assert keys.key is not None  # there are tokens

    def names(ids: np.ndarray[Any, Any]) -> list[str]:
        return [keys.text(int(keys.key[i])) for i in ids]  # type: ignore[index]  # as above

    latency, slow, per_tick = phase.latency, phase.slow(), phase.per_tick()
    median, p90, p99 = np.percentile(latency, (50, 90, 99)).round(1).tolist()
    quality = Quality(int(quality_of(trace.spans.flags[phase.ids]).max()))
    return {
        "phase": None if phase.phase is None else phase.phase.name.lower(),
        "noun": noun,
        "spans": len(latency),
        "tokens": phase.tokens,
        "time": phase.time,
        "tokens_per_s": None if per_tick is None or not hz else per_tick * hz,
        "mean": round(float(latency.mean()), 1),
        "median": median,
        "p90": p90,
        "p99": p99,
        "max": int(latency.max()),
        "slowest": names(phase.ids[[int(latency.argmax())]])[0],
        "n_slow": len(slow),
        "slow": names(slow[:_MAX_SLOW]),
        "quality": quality.word,
    }


def latency_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people."""
    phases, unit = facts["latency"], trace.clock.unit
    from ggscope.analysis.statistics.latency import SLOW

    has_rate = any(phase["tokens_per_s"] is not None for phase in phases)
    noun = phases[0]["noun"]
    plural = "ubatches" if noun == "ubatch" else "tokens"
    head = ["latency", plural] + ["tokens"] * (noun == "ubatch")
    head += ["tokens/s"] * has_rate
    head += ["mean", "median", "p90", "p99", "max", "slowest", f"over {SLOW} x median"]
    head += ["quality"]
    rows = []
    for phase in phases:
        row = [phase["phase"] or "no phase", format_count(phase["spans"])]
        if noun == "ubatch":
            row.append(_count(phase["tokens"]))
        if has_rate:
            rate = phase["tokens_per_s"]
            row.append(NOT_AVAILABLE if rate is None else format_number(rate))
        times = (phase[key] for key in ("mean", "median", "p90", "p99", "max"))
        row += [format_duration(time, unit) for time in times]
        rows.append([*row, phase["slowest"], _slow_text(phase), phase["quality"]])
    return table(head, rows, left=(0, len(head) - 2, len(head) - 1))


def _count(n: int | None) -> str:
    return NOT_AVAILABLE if n is None else format_count(n)


def _slow_text(phase: dict[str, Any]) -> str:
    """Return "7: 12, 40, 5, 9, 1 …", slowest first; "none"."""
    if not phase["n_slow"]:
        return "none"
    listed = ", ".join(phase["slow"][:_MAX_LISTED])
    more = " …" if phase["n_slow"] > _MAX_LISTED else ""
    return f"{format_count(phase['n_slow'])}: {listed}{more}"


# -- engines -----------------------------------------------------------------


def engines_json(trace: Trace) -> list[dict[str, object]] | None:
    """Return how much of the extent each engine is busy and idle, in ticks.

    None where there are too many spans to decide.
    """
    from ggscope.analysis.statistics.engines import engine_times

    times = engine_times(trace)
    if times is None:
        return None
    rows = zip(
        times.lane.tolist(), times.count.tolist(), times.busy.tolist(),
        times.idle.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            "lane": trace.lanes.names[lane],
            "spans": count,
            "busy": busy,
            "idle": idle,
            "busy_share": busy / times.extent if times.extent else None,
            "idle_share": idle / times.extent if times.extent else None,
        }
        for lane, count, busy, idle in rows
    ]


def engines_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people."""
    engines, unit = facts["engines"], trace.clock.unit
    rows = [
        (
            engine["lane"],
            format_count(engine["spans"]),
            format_duration(engine["busy"], unit),
            _share(engine["busy_share"]),
            format_duration(engine["idle"], unit),
            _share(engine["idle_share"]),
        )
        for engine in engines[:_MAX_ENGINES]
    ]
    if len(engines) > _MAX_ENGINES:
        more = format_count(len(engines) - _MAX_ENGINES)
        rows.append((f"… and {more} more", "", "", "", "", ""))
    return table(("engine", "spans", "busy", "share", "idle", "share"), rows)


def _share(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else format_share(share)


# -- calls of the program ------------------------------------------------------


def calls_json(trace: Trace) -> dict[str, object] | None:
    """Return what the program's calls take, in ticks; None where none is recorded."""
    from ggscope.analysis.statistics.calls import call_times

    times = call_times(trace)
    if times is None:
        return None
    middle: list[float | None] = [None] * (len(times.names) + 1)
    if times.per_decode is not None:
        middle = np.median(times.per_decode, axis=0).tolist()
    rows = zip(
        times.names, times.count.tolist(), times.own.tolist(), middle, strict=False
    )
    return {
        "time": times.time,
        "decodes": len(times.decode),
        "between": times.between,
        "between_median_per_decode": middle[-1],
        "per_decode": _per_decode_json(trace, times),
        "calls": [
            {"name": name, "count": count, "own": own, "median_per_decode": per_decode}
            for name, count, own, per_decode in rows
        ],
    }


def _per_decode_json(
    trace: Trace, call_times: "CallTimes"
) -> list[dict[str, object]] | None:
    """Return what each decode takes until the next one begins: all of it adds up."""
    if call_times.per_decode is None:
        return None
    begin = trace.spans.start[call_times.decode[:_MAX_DECODES]].tolist()
    return [
        {
            "begin": start,
            "time": sum(times),
            "calls": dict(zip(call_times.names, times, strict=False)),
            "between": times[-1],
        }
        for start, times in zip(begin, call_times.per_decode.tolist(), strict=False)
    ]


def calls_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people."""
    calls, unit = facts["calls"], trace.clock.unit
    has_decodes = calls["between_median_per_decode"] is not None
    rows = [
        (
            call["name"],
            format_count(call["count"]),
            call["own"],
            call["median_per_decode"],
        )
        for call in calls["calls"]
    ]
    rows.append(
        ("between calls", "", calls["between"], calls["between_median_per_decode"])
    )
    whole = max(calls["time"], 1)
    shown = [
        (
            name,
            count,
            format_duration(own, unit),
            format_share(own / whole),
            *([format_duration(middle, unit)] if has_decodes else []),
        )
        for name, count, own, middle in rows
    ]
    head = ["calls of the program", "calls", "own time", "share"]
    return table([*head, *(["median per decode"] if has_decodes else [])], shown)


def stalls_json(trace: Trace) -> list[dict[str, object]]:
    """Return how long each master is stalled, each cycle counted once.

    ``share`` is of the whole extent; ``reasons`` adds up stalls by reason, which may
    overlap.
    """
    spans, length = trace.spans, trace.extent.duration
    stalls: list[dict[str, object]] = []
    is_stall = trace.lanes.is_stall
    lanes = np.flatnonzero(is_stall)
    if not len(lanes):
        return stalls
    from ggscope.analysis.statistics.nesting import covered

    # All lanes at once: there may be a hundred thousand.
    rows = np.flatnonzero(is_stall[spans.lane])
    start, end = spans.start[rows], spans.end[rows]
    group = np.searchsorted(lanes, spans.lane[rows])
    count = np.bincount(group, minlength=len(lanes)).tolist()
    ticks = covered(group, start, end, len(lanes)).tolist()
    n_names = len(trace.strings) + 1
    pairs, which = np.unique(
        group * n_names + spans.name[rows] + 1, return_inverse=True
    )
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, which, end - start)
    owner, name = np.divmod(pairs, n_names)
    order = np.lexsort((name, -sums, owner))
    reasons: list[dict[str, int]] = [{} for _ in count]
    ordered = zip(owner[order], name[order] - 1, sums[order], strict=True)
    for lane, reason, total in ordered:
        reasons[lane][trace.strings[int(reason)]] = int(total)
    for i, lane in enumerate(lanes.tolist()):
        stalls.append(
            {
                "lane": trace.lanes.names[lane],
                "stalls": count[i],
                "stalled": ticks[i],
                "share": ticks[i] / length if length else None,
                "reasons": reasons[i],
            }
        )
    return stalls


def stalls_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people."""
    unit = trace.clock.unit
    rows = [
        (
            stall["lane"],
            format_count(stall["stalls"]),
            format_duration(stall["stalled"], unit),
            NOT_AVAILABLE if stall["share"] is None else format_share(stall["share"]),
            ", ".join(
                f"{name} {format_duration(ticks, unit)}"
                for name, ticks in list(stall["reasons"].items())[:_MAX_REASONS]
            ),
        )
        for stall in facts["stalls"][:_MAX_STALLED]
    ]
    head = ("stalled", "stalls", "time", "share", "reasons")
    return table(head, rows, left=(0, 4))
