"""Requests and memory of a log as text."""

from collections.abc import Sequence

from ggscope.model.requests import MemoryUse, Requests
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted, format_share

REQUEST_COLUMNS = (
    "line", "slot", "task", "wait", "prompt", "cached", "again", "prompt ms",
    "first token", "generated", "generated ms", "tokens/s", "per token", "drafts",
    "per draft", "draft ms", "reason",
)  # fmt: skip
REQUEST_TIPS = {
    "line": "first line of the request in the log",
    "wait": "ms from when the slot took it to the begin of its prompt",
    "prompt": "tokens of the prompt that were computed",
    "cached": "tokens of the prompt that were taken from the slot's cache",
    "again": "tokens that were in the cache and were computed again all the same",
    "first token": "ms from when the slot took it to the end of its prompt, behind "
    "which the first token is sampled",
    "per token": "ms of generation over tokens",
    "drafts": "accepted of drafted tokens",
    "per draft": "accepted tokens per draft: by the sums that the log prints behind "
    "each request, less those before it",
    "draft ms": "what drafting took of the generation, by the same sums",
    "reason": "why the whole prompt had to be computed, in the log's own words",
}
UNKNOWN = ""


def request_cells(trace: Trace, row: int) -> list[str]:
    """Return a row of `REQUEST_COLUMNS`; "" where the log does not state it."""
    assert trace.log is not None
    requests = trace.log.requests
    reason = int(requests.reason[row])
    n, ns = int(requests.n_generated[row]), int(requests.generated_time[row])
    return [
        format_count(int(requests.line[row]) + 1),
        _count(requests.slot[row]),
        _count(requests.task[row], grouped=False),
        _ms(requests.queued[row]),
        _count(requests.n_prompt[row]),
        _count(requests.n_cached[row]),
        _count(requests.n_reprocessed[row]),
        _ms(requests.prompt_time[row]),
        _first_token(requests, row),
        _count(requests.n_generated[row]),
        _ms(requests.generated_time[row]),
        f"{n * 1e9 / ns:,.2f}" if n >= 0 and ns > 0 else UNKNOWN,
        f"{ns / n / 1e6:,.2f}" if n > 0 and ns >= 0 else UNKNOWN,
        _drafts(requests, row),
        _per_draft(requests, row),
        _ms(requests.draft_time[row]),
        trace.strings[reason] if reason >= 0 else UNKNOWN,
    ]


def request_totals(trace: Trace) -> str:
    """Return a line with the sums over all requests."""
    assert trace.log is not None
    events = trace.info.summary.get("events")
    assert isinstance(events, dict)
    prompt, generated = events["prompt_ms"], events["generated_ms"]
    parts = [
        format_counted(int(events["requests"]), "request"),
        f"prompt {format_count(int(events['prompt_tokens']))} tokens in "
        f"{prompt:,.2f} ms",
        f"generated {format_count(int(events['generated_tokens']))} tokens in "
        f"{generated:,.2f} ms",
    ]
    if events["reprocessed"]:
        n = int(events["reprocessed"])
        parts.append(f"whole prompt computed again {format_count(n)}×")
    return "; ".join(parts)


MEMORY_TIPS = {
    "total": "of the device",
    "free": "by the driver",
    "used": "by the program: model, context and compute",
    "model": "weights",
    "context": "KV cache, recurrent states and outputs",
    "compute": "buffers of intermediate results",
    "unaccounted": "total less free less used: of other programs, and of the driver",
}
NEGATIVE_TIP = (
    "The program's parts are more than what the driver says is taken: buffers that are "
    "not resident, or memory that devices share."
)


def memory_title(uses: Sequence[MemoryUse]) -> str:
    """Return what a table of memory rests on."""
    if all(use.is_sum for use in uses):
        return "Memory in MiB: buffers that the log names"
    if any(use.is_sum for use in uses):
        return "Memory in MiB: last breakdown of each start, else buffers"
    return "Memory in MiB at the last breakdown of each start"


def memory_table(uses: Sequence[MemoryUse]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the memory breakdown, in MiB."""
    head = ["device", "total", "free", "used", "model", "context", "compute"]
    rows = []
    for use in uses:
        numbers = (
            use.total, use.free, use.used, use.model, use.context, use.compute,
            use.unaccounted,
        )  # fmt: skip
        rows.append([use.device, *(_mib(number) for number in numbers)])
    return [*head, "unaccounted"], rows


def _mib(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number / (1 << 20):,.0f}"


def _count(value: int, *, grouped: bool = True) -> str:
    if value < 0:
        return UNKNOWN
    return format_count(int(value)) if grouped else str(int(value))


def _ms(value: int) -> str:
    return UNKNOWN if value < 0 else f"{int(value) / 1e6:,.2f}"


def _first_token(requests: Requests, row: int) -> str:
    ns = int(requests.prompt_time[row])
    return UNKNOWN if ns < 0 else _ms(ns + max(int(requests.queued[row]), 0))


def _per_draft(requests: Requests, row: int) -> str:
    rounds, accepted = int(requests.n_rounds[row]), int(requests.n_accepted[row])
    return f"{accepted / rounds:,.2f}" if rounds > 0 and accepted >= 0 else UNKNOWN


def _drafts(requests: Requests, row: int) -> str:
    drafted, accepted = int(requests.n_drafted[row]), int(requests.n_accepted[row])
    if drafted < 0:
        return UNKNOWN
    share = f" ({format_share(accepted / drafted)})" if drafted else ""
    return f"{format_count(accepted)} of {format_count(drafted)}{share}"
