"""Files of Chrome trace events, and what is in them."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Call:
    """A span as it was made: times in ns."""

    pid: int
    tid: int
    name: str
    category: str
    start: int
    end: int


def micros(ns: int, form: int = 0) -> Any:
    """Return a time as a number of µs, as writers print it; form 2 is a text."""
    text = f"{ns // 1000}.{ns % 1000:03d}"
    if form == 1:
        return _Number(f"{ns}e-3")
    if form == 2:
        return text
    return _Number(text)


class _Number(float):
    """A number that is written with its own digits."""

    def __new__(cls, text: str) -> "_Number":
        self = super().__new__(cls, text)
        self.text = text
        return self

    text: str

    def __repr__(self) -> str:
        return self.text


def random_calls(
    seed: int, n: int = 200, names: Iterator[str] | None = None
) -> list[Call]:
    """Return calls that lie within each other on four threads of two processes."""
    rng = np.random.default_rng(seed)
    made: list[Call] = []
    now = {
        (pid, tid): 10**15 + int(rng.integers(10**6))
        for pid in (7, 8)
        for tid in (1, 2)
    }
    while len(made) < n:
        pid, tid = 7 + int(rng.integers(2)), 1 + int(rng.integers(2))
        start = now[pid, tid] + int(rng.integers(1, 5000))
        depth = int(rng.integers(1, 5))
        ends, begin = [], start
        begins = []
        for _ in range(depth):
            begins.append(begin)
            begin += int(rng.integers(1, 400))
        end = begin + int(rng.integers(1, 3000))
        for _ in range(depth):
            ends.append(end)
            end += int(rng.integers(1, 400))
        for level in range(depth):
            name = next(names) if names else f"op {int(rng.integers(12))}"
            category = ("cpu_op", "kernel", "")[int(rng.integers(3))]
            made.append(
                Call(pid, tid, name, category, begins[level], ends[depth - 1 - level])
            )
        now[pid, tid] = end
    return made[:n]


def complete(calls: list[Call], form: int = 0) -> Events:
    """Return the calls as events of phase X."""
    return [
        {
            "ph": "X", **({"cat": c.category} if c.category else {}), "name": c.name,
            "pid": c.pid, "tid": c.tid, "ts": micros(c.start, form),
            "dur": micros(c.end - c.start, form),
            "args": {"n": i, "list": [1, {"a": "}]"}], "text": "\"quoted\" \\"},
        }
        for i, c in enumerate(calls)
    ]  # fmt: skip


def pairs(calls: list[Call]) -> Events:
    """Return the calls as begins and ends, in the order of time."""
    rows = []
    for i, c in enumerate(calls):
        where = {"pid": c.pid, "tid": c.tid}
        name = {"name": c.name, **({"cat": c.category} if c.category else {})}
        begin = {"ph": "B", **name, **where, "ts": micros(c.start)}
        rows.append(((c.start, i), begin))
        rows.append(((c.end, -i), {"ph": "E", **where, "ts": micros(c.end)}))
    return [event for _, event in sorted(rows, key=lambda row: row[0])]


def metadata() -> Events:
    """Return names and order of the processes and threads."""
    events: Events = []
    for pid, name in ((7, "host"), (8, "device")):
        events += [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}},
            {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0,
             "args": {"sort_index": -pid}},
            {"ph": "M", "name": "thread_name", "pid": pid, "tid": 1,
             "args": {"name": f"{name} main"}},
        ]  # fmt: skip
    return events


def others() -> Events:
    """Return counters, instants, flows and activities beside threads."""

    def event(phase: str, name: str, after: int, **more: Any) -> dict[str, Any]:
        where = {"pid": 7, "tid": 1, "ts": micros(10**15 + after)}
        return {"ph": phase, "name": name, **where, **more}

    return [
        event("C", "memory (B)", 0, args={"used": 5, "free": 1.5}),
        event("C", "memory (B)", 10, args={"used": 7, "free": -2}),
        event("i", "now", 20, s="t"),
        event("I", "all", 30, s="g"),
        event("b", "request", 0, cat="net", id="0x1f"),
        event("n", "step", 5, cat="net", id="0x1f"),
        event("b", "request", 5, cat="net", id=32),
        event("e", "request", 9, cat="net", id="0x1f"),
        event("e", "request", 50, cat="net", id=32),
        event("N", "Object", 1, id="0x9"),
        event("D", "Object", 8, id="0x9"),
    ]


def text(
    events: Events, *, is_list: bool = False, indent: int | None = None, **facts: Any
) -> bytes:
    """Return the JSON of events."""
    if is_list:
        return json.dumps(events, indent=indent).encode()
    return json.dumps({**facts, "traceEvents": events}, indent=indent).encode()


def sample(seed: int = 1, n: int = 60, names: Iterator[str] | None = None) -> bytes:
    """Return a file with events of many phases."""
    calls = random_calls(seed, n, names)
    half = len(calls) // 2
    events = [*metadata(), *complete(calls[:half]), *pairs(calls[half:]), *others()]
    return text(events, displayTimeUnit="ns", schemaVersion=1)


def packed(data: bytes) -> bytes:
    """Return data packed by gzip."""
    return gzip.compress(data, mtime=0)
