"""Requests and memory of a log as text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ggscope.analysis.requests import request_times
from ggscope.model.requests import MemoryUse
from ggscope.model.tables import Array
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted, format_share

UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class RequestColumn:
    """A column of a table of requests.

    Attributes
    ----------
    values : returns what requests are sorted by, a number for each; below 0 or NaN
        where the log does not state it.
    texts : returns what stands in the rows of requests, "" where the log does not
        state it.
    is_text : whether it holds words, not one number.
    """

    title: str
    values: Callable[["RequestRows"], Array]
    texts: Callable[["RequestRows"], list[str]]
    tip: str = ""
    is_text: bool = False


class RequestRows:
    """Some requests, with what their columns are made of."""

    def __init__(self, trace: Trace, rows: Array | None = None) -> None:
        assert trace.log is not None
        every = trace.log.requests
        self.requests = every if rows is None else every.take(rows)
        self.times = request_times(self.requests)
        self.strings = trace.strings


def request_cells(trace: Trace, rows: Array) -> list[tuple[str, ...]]:
    """Return rows of `REQUEST_COLUMNS`; "" where the log does not state it."""
    some = RequestRows(trace, rows)
    return list(zip(*(column.texts(some) for column in REQUEST_COLUMNS), strict=True))


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
    "The program's parts exceed the memory in use by the driver: buffers that are not "
    "resident, or memory that devices share."
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


def _reasons(rows: RequestRows) -> list[str]:
    ids = rows.requests.reason.tolist()
    return [rows.strings[i] if i >= 0 else UNKNOWN for i in ids]


def _reason_ranks(rows: RequestRows) -> Array:
    """Return the place of each request's reason in the alphabet."""
    reasons, number = np.unique(rows.requests.reason, return_inverse=True)
    texts = [rows.strings[i] if i >= 0 else UNKNOWN for i in reasons.tolist()]
    rank = {text: i for i, text in enumerate(sorted({*texts} - {UNKNOWN}))}
    ranks: Array = np.array([rank.get(text, -1) for text in texts], np.int64)[number]
    return ranks


def _drafts(rows: RequestRows) -> list[str]:
    requests = rows.requests
    texts = []
    for accepted, drafted in zip(
        requests.n_accepted.tolist(), requests.n_drafted.tolist(), strict=True
    ):
        share = f" ({format_share(accepted / drafted)})" if drafted > 0 else ""
        text = f"{format_count(accepted)} of {format_count(drafted)}{share}"
        texts.append(text if drafted >= 0 else UNKNOWN)
    return texts


def _number(
    title: str,
    values: Callable[[RequestRows], Array],
    form: Callable[[Any], str],
    tip: str = "",
) -> RequestColumn:
    """Return a column of numbers, each written by `form`."""

    def texts(rows: RequestRows) -> list[str]:
        numbers = values(rows).tolist()
        return [form(number) if number >= 0 else UNKNOWN for number in numbers]

    return RequestColumn(title, values, texts, tip)


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.2f}"


REQUEST_COLUMNS = (
    _number(
        "line", lambda rows: rows.requests.line, lambda line: format_count(line + 1),
        "first line of the request in the log",
    ),
    _number("slot", lambda rows: rows.requests.slot, format_count),
    _number("task", lambda rows: rows.requests.task, str),
    _number(
        "wait", lambda rows: rows.requests.queued, _ms,
        "ms from when the slot took it to the begin of its prompt",
    ),
    _number(
        "prompt", lambda rows: rows.requests.n_prompt, format_count,
        "tokens of the prompt that were computed",
    ),
    _number(
        "cached", lambda rows: rows.requests.n_cached, format_count,
        "tokens of the prompt that were taken from the slot's cache",
    ),
    _number(
        "again", lambda rows: rows.requests.n_reprocessed, format_count,
        "cached tokens that were computed again",
    ),
    _number("prompt ms", lambda rows: rows.requests.prompt_time, _ms),
    _number(
        "first token", lambda rows: rows.times.first_token_ms, "{:,.2f}".format,
        "ms from when the slot took it to the end of its prompt, behind which the "
        "first token is sampled",
    ),
    _number("generated", lambda rows: rows.requests.n_generated, format_count),
    _number("generated ms", lambda rows: rows.requests.generated_time, _ms),
    _number("tokens/s", lambda rows: rows.times.generated_per_s, "{:,.2f}".format),
    _number(
        "per token", lambda rows: rows.times.per_token_ms, "{:,.2f}".format,
        "ms of generation over tokens",
    ),
    RequestColumn(
        "drafts", lambda rows: rows.times.acceptance, _drafts,
        "accepted of drafted tokens; sorted by their share", is_text=True,
    ),
    _number(
        "per draft", lambda rows: rows.times.accepted_per_draft, "{:,.2f}".format,
        "accepted tokens per draft: by the sums that the log prints behind each "
        "request, less those before it",
    ),
    _number(
        "draft ms", lambda rows: rows.requests.draft_time, _ms,
        "what drafting took of the generation, by the same sums",
    ),
    RequestColumn(
        "reason", _reason_ranks, _reasons,
        "why the whole prompt had to be computed, in the log's own words", is_text=True,
    ),
)  # fmt: skip
REQUEST_HEAD = tuple(column.title for column in REQUEST_COLUMNS)
