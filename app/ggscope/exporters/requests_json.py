"""Requests of a log as objects of JSON, for ``ggscope requests --json``."""

from typing import Any

from ggscope.analysis.requests import percentiles, request_times
from ggscope.model.requests import MemoryUse, Requests
from ggscope.model.trace import Trace

_MS = 1e6


def requests_json(trace: Trace) -> dict[str, Any]:
    """Return a row per request and percentiles; null where not in the log."""
    assert trace.log is not None
    requests = trace.log.requests
    return {
        "rows": request_rows(trace, requests),
        "percentiles": percentiles_json(requests),
        "has_clock": trace.log.has_clock,
    }


def request_rows(trace: Trace, requests: Requests) -> list[dict[str, Any]]:
    """Return a row for each of some requests; null where the log does not state it.

    `reprocessed_tokens` were in the cache of the slot and were computed again; `reason`
    is the log's own. `drafts` are the times that something was drafted, and
    `accepted_drafts` those of which some was accepted; `draft_ms` is what drafting
    took. `line` counts from 1.
    """
    times = request_times(requests)
    columns: dict[str, list[Any]] = {
        "slot": _whole(requests.slot),
        "task": _whole(requests.task),
        "queued_ms": _ms(requests.queued),
        "prompt_tokens": _whole(requests.n_prompt),
        "cached_tokens": _whole(requests.n_cached),
        "reprocessed_tokens": _whole(requests.n_reprocessed),
        "reason": [
            trace.strings[text] if text >= 0 else None
            for text in requests.reason.tolist()
        ],
        "prompt_ms": _ms(requests.prompt_time),
        "generated_tokens": _whole(requests.n_generated),
        "generated_ms": _ms(requests.generated_time),
        "draft_generated": _whole(requests.n_drafted),
        "draft_accepted": _whole(requests.n_accepted),
        "drafts": _whole(requests.n_rounds),
        "accepted_drafts": _whole(requests.n_accepted_rounds),
        "draft_ms": _ms(requests.draft_time),
        "first_token_ms": _rounded(times.first_token_ms),
        "whole_prompt_tokens": _whole(requests.n_whole),
        "run": requests.run.tolist(),
        "line": (requests.line + 1).tolist(),
        "has_timings": requests.is_timed.tolist(),
    }
    names = list(columns)
    return [
        dict(zip(names, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def percentiles_json(requests: Requests) -> dict[str, dict[str, float]]:
    """Return percentiles of what requests wait and take; empty where none is known."""
    times = request_times(requests)
    return {
        name: {f"p{p}": value for p, value in percentiles(values).items()}
        for name, values in (
            ("queued_ms", times.queued_ms),
            ("first_token_ms", times.first_token_ms),
            ("per_token_ms", times.per_token_ms),
            ("generated_per_s", times.generated_per_s),
        )
    }


def memory_json(uses: tuple[MemoryUse, ...]) -> list[dict[str, object]]:
    """Return llama.cpp's own memory breakdown, in bytes, a row per device."""
    return [
        {
            "run": use.run,
            "device": use.device,
            "total": use.total,
            "free": use.free,
            "used": use.used,
            "model": use.model,
            "context": use.context,
            "compute": use.compute,
            "unaccounted": use.unaccounted,
            "is_sum_of_buffers": use.is_sum,
        }
        for use in uses
    ]


def _whole(values: Any) -> list[int | None]:
    return [None if value < 0 else value for value in values.tolist()]


def _rounded(values: Any) -> list[float | None]:
    return [None if value != value else round(value, 6) for value in values.tolist()]


def _ms(values: Any) -> list[float | None]:
    return [None if value < 0 else value / _MS for value in values.tolist()]
