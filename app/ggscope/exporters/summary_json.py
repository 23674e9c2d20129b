"""A summary as one object of JSON, for ``ggscope summary --json`` and Python."""

from collections import Counter
from typing import Any

from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.devices import device_times
from ggscope.analysis.summary.gaps import Gaps
from ggscope.analysis.summary.host_waits import host_waits_by_lane
from ggscope.analysis.summary.summary import Summary
from ggscope.analysis.summary.thread_estimate import NoEstimate, ThreadEstimate
from ggscope.analysis.summary.token_threads import TokenThreads
from ggscope.descriptions.spans import op_text
from ggscope.descriptions.summary import bottleneck_name, bottleneck_text
from ggscope.descriptions.threads import (
    NOT_RECORDED,
    barriers_reason,
    gaps_reason,
    imbalance_reason,
    no_estimate_text,
)
from ggscope.exporters.model_json import model_json
from ggscope.model.tables import Quality
from ggscope.model.trace import Severity, Trace, lane_titles

_GIB = 1 << 30
_NO_FREQUENCY = "times are in cycles, and the file states no frequency"
_NO_TIMES = "a profile without times: its axis is what samples weigh"


def summary_json(
    trace: Trace,
    facts: Summary,
    idle: Gaps | None = None,
    slow_tokens: TokenThreads | None = None,
) -> dict[str, Any]:
    """Return what ``summary --json`` prints of one trace, without its path.

    Parameters
    ----------
    idle : the gaps to list; None = they were not asked for.
    slow_tokens : the tokens to list; None = they were not asked for.
    """
    unknown = dict(facts.unknown)
    per_second = trace.clock.per_s
    ns = 1e9 / per_second if per_second else None
    no_ms = _NO_TIMES if trace.clock.is_weight else _NO_FREQUENCY

    def ms(ticks: float | None, name: str) -> float | None:
        if ticks is not None and ns is None:
            unknown.setdefault(name, no_ms)
        return None if ticks is None or ns is None else ticks * ns / 1e6

    def per_s(per_tick: float | None, name: str) -> float | None:
        if per_tick is not None and ns is None:
            unknown.setdefault(name, no_ms)
        return None if per_tick is None or ns is None else per_tick * 1e9 / ns

    def gib(per_tick: float | None, name: str) -> float | None:
        rate = per_s(per_tick, name)
        return None if rate is None else rate / _GIB

    tokens, weights, threads = facts.tokens, facts.weights, facts.threads
    bars, ticks = tokens.bars, trace.clock.unit_name
    slowest: dict[str, object] | None = None
    if tokens.slowest is not None:
        duration = int(bars.duration[tokens.slowest])
        slowest = {
            "token": bar_text(trace, bars, tokens.slowest),
            "ms": ms(duration, "tokens.slowest.ms"),
            f"total_{ticks}": duration,
            "span": int(bars.span[tokens.slowest]),
        }
    whole = threads.duration

    def share(part: int | None) -> float | None:
        return None if part is None or not whole else part / whole

    counts = zip(Quality, facts.quality.spans.tolist(), strict=True)
    problems = Counter(problem.severity for problem in trace.warnings)
    waits = host_waits_by_lane(trace)
    result: dict[str, Any] = {
        "tokens": {
            "counts": bars.noun if len(bars) else None,
            "n": len(bars),
            "prompt": tokens.prompt,
            "generated": tokens.generated,
            "prompt_per_s": per_s(tokens.prompt_per_tick, "tokens.prompt_per_s"),
            "generated_per_s": per_s(
                tokens.generated_per_tick, "tokens.generated_per_s"
            ),
            "first_token_ms": ms(tokens.first_token, "tokens.first_token_ms"),
            "median_ms": ms(tokens.median, "tokens.median_ms"),
            "slowest": slowest,
            "over_twice_median": len(tokens.outliers),
            "between_share": tokens.between,
        },
        "ops": [
            {
                "name": row.key,
                "count": row.count,
                f"total_{ticks}": row.total if row.timed else None,
                f"self_{ticks}": row.self_time if row.timed else None,
                "share": row.share if row.timed else None,
                "bytes": row.known_bytes,
                "gib_per_s": gib(row.rate, "ops.gib_per_s"),
            }
            for row in facts.ops.rows
        ],
        "frames": None
        if facts.frames is None
        else [
            {"name": frame.name, f"self_{ticks}": frame.own, "share": frame.share}
            for frame in facts.frames
        ],
        "threads": [
            {
                "lane": lane.name,
                "busy": share(lane.busy),
                "wait": share(lane.wait),
                "idle": share(lane.idle),
                f"busy_{ticks}": lane.busy,
                f"wait_{ticks}": lane.wait,
                f"idle_{ticks}": lane.idle,
                f"host_wait_{ticks}": waits.get(lane.name, 0) if waits else None,
                "quality": "measured" if lane.is_measured else "derived",
            }
            for lane in threads.lanes
        ],
        "imbalance": threads.imbalance,
        "imbalance_by_op": None
        if threads.by_op is None
        else [
            {
                "name": one.name,
                "n": one.n,
                "max_over_mean": one.ratio,
                "worst_max_over_mean": one.worst_ratio,
                "worst_span": one.worst,
                f"lost_{ticks}": one.lost,
            }
            for one in threads.by_op
        ],
        "thread_estimate": estimate_json(threads.estimate, ticks),
        "barriers": {
            "n": threads.n_barriers,
            "last": [
                {"lane": one.name, "n": one.n_last, f"waited_{ticks}": one.waited}
                for one in threads.last
            ],
        },
        "weights": {
            "bytes_per_token": None if weights is None else weights.per_token,
            "gib_per_s": None
            if weights is None
            else gib(weights.rate, "weights.gib_per_s"),
            "peak_gib_per_s": gib(facts.peak, "weights.peak_gib_per_s"),
        },
        "never_touched_bytes": facts.never_touched,
        "quality": {
            **{quality.word: n for quality, n in counts},
            "problems": {one.word: problems[one] for one in Severity},
        },
        "bottleneck": {
            "what": bottleneck_name(facts),
            "because": None if facts.cause is None else bottleneck_text(facts),
        },
    }
    result["model"] = model_json(trace) if trace.models else None
    result["devices"] = _devices_json(trace, ticks)
    if idle is not None:
        result["gaps"] = _gaps_json(trace, idle, ticks, unknown)
    if slow_tokens is not None:
        result["slowest_tokens"] = _tokens_json(trace, slow_tokens, ticks)
        if slow_tokens.hidden_idle:
            unknown["slowest_tokens.idle"] = slow_tokens.hidden_idle
        if slow_tokens.hidden_work:
            unknown["slowest_tokens.busy"] = slow_tokens.hidden_work
        if slow_tokens.wait is None:
            reason = slow_tokens.hidden_work or NOT_RECORDED
            unknown["slowest_tokens.wait"] = reason
    if threads.by_op is None:
        unknown["imbalance_by_op"] = imbalance_reason(threads)
    if isinstance(threads.estimate, NoEstimate):
        unknown["thread_estimate"] = no_estimate_text(threads.estimate)
    if reason := barriers_reason(threads):
        unknown["barriers.n"] = reason
    return {**result, "unknown": unknown}


def estimate_json(
    estimate: ThreadEstimate | NoEstimate, ticks: str
) -> dict[str, object] | None:
    """Return what another number of threads would do; None where unknown.

    Parameters
    ----------
    ticks : "ns" or "cycles".
    """
    if isinstance(estimate, NoEstimate):
        return None
    others = {"one_fewer": estimate.fewer, "one_more": estimate.more}
    return {
        "threads": estimate.n_threads,
        "ops": estimate.n_ops,
        f"elapsed_{ticks}": estimate.elapsed,
        "delays_share": estimate.beyond,
        **{
            key: {"threads": one.n_threads, "time_low": one.low, "time_high": one.high}
            for key, one in others.items()
        },
    }


def _devices_json(trace: Trace, ticks: str) -> list[dict[str, object]] | None:
    """Return what the streams of each device do; None where no device is recorded."""
    devices = device_times(trace)
    if not devices:
        return None
    return [
        {
            "name": device.name,
            f"time_{ticks}": device.time,
            f"busy_{ticks}": device.busy,
            "kernels": {"count": device.n_kernels, f"busy_{ticks}": device.kernels},
            "copies": {"count": device.n_copies, f"busy_{ticks}": device.copies},
            f"overlap_{ticks}": device.overlap,
            f"launch_delay_{ticks}": device.launch_delay,
            "streams": [
                {
                    "lane": stream.name,
                    "count": stream.n_spans,
                    f"busy_{ticks}": stream.busy,
                    "gaps": stream.n_gaps,
                    f"idle_{ticks}": stream.idle,
                    f"host_{ticks}": stream.host if stream.has_calls else None,
                    f"launch_{ticks}": stream.launch if stream.has_calls else None,
                    f"other_{ticks}": stream.other if stream.has_calls else None,
                    f"unknown_{ticks}": stream.unknown,
                }
                for stream in device.streams
            ],
        }
        for device in devices
    ]


def _gaps_json(
    trace: Trace, idle: Gaps, ticks: str, unknown: dict[str, str]
) -> list[dict[str, object]] | None:
    """Return a value per gap; None, with the reason, where gaps cannot be seen."""
    if reason := gaps_reason(idle):
        unknown["gaps"] = reason
        return None
    titles = lane_titles(trace.lanes)
    columns = (idle.lane, idle.start, idle.end, idle.before, idle.after)
    return [
        {
            "lane": titles[lane],
            "start": start,
            "end": end,
            f"duration_{ticks}": end - start,
            "before": op_text(trace, before),
            "after": op_text(trace, after),
        }
        for lane, start, end, before, after in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _tokens_json(
    trace: Trace, token_threads: TokenThreads, ticks: str
) -> list[dict[str, object]]:
    """Return a value per token, in the order of time."""
    parts = (
        ("busy", token_threads.busy),
        ("wait", token_threads.wait),
        ("idle", token_threads.idle),
    )
    bars = token_threads.bars
    return [
        {
            "token": bar_text(trace, bars, row),
            "span": int(bars.span[row]),
            f"total_{ticks}": int(bars.duration[row]),
            "threads": [
                {
                    "lane": name,
                    **{
                        f"{word}_{ticks}": None
                        if values is None
                        else int(values[row, lane])
                        for word, values in parts
                    },
                }
                for lane, name in enumerate(token_threads.lanes)
            ],
        }
        for row in range(len(token_threads))
    ]
