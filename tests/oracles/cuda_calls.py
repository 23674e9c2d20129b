"""Calls of a trace of CUDA calls, read line by line in plain Python."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal

_PHASE = re.compile(r'"phase""([BE])"",?')
_STRACE = re.compile(
    r"\s*(?:\[pid +(\d+)\] +|(\d+) +)?(\d\d):(\d\d):(\d\d\.\d+) +(.*?)\s*"
)
_OUTCOME = re.compile(r".*\)\s+=\s(-?\w+)(?:\s(\w+))?.*?(?:<(\d+\.\d+)>)?")
_TABLE = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+([→←])\s+(\S+)(?:\s+(\d+)\s.*)?")
_NANO = 1_000_000_000


@dataclass
class Found:
    """What a file holds; times in ns as the file counts them."""

    calls: list[tuple[int, int, int | None, str, bool]] = field(default_factory=list)
    """Begin, end, thread, name, and whether it failed."""
    n_unmatched: int = 0
    n_instants: int = 0
    n_broken: int = 0


@dataclass
class _Event:
    time: int
    phase: str
    key: tuple[object, ...]
    tid: int | None
    name: str
    failed: bool = False
    duration: int | None = None


def read(data: bytes, unit: str) -> Found:
    """Return the calls of a file whose JSON counts in `unit` (s or ms)."""
    result, events = Found(), []
    for raw in data.split(b"\n"):
        line = raw.decode("utf-8", "replace").strip()
        if line.startswith("{"):
            event = _of_json(line, _NANO if unit == "s" else _NANO // 1000)
            if event is None:
                result.n_broken += 1
        else:
            event = _of_text(line)
        if event is not None:
            events.append(event)
    open_: dict[tuple[object, ...], list[_Event]] = defaultdict(list)
    for event in events:
        if event.phase == "I":
            result.n_instants += 1
        elif event.phase == "B":
            open_[event.key].append(event)
        elif not open_[event.key]:
            result.n_unmatched += 1
        else:
            begin = open_[event.key].pop()
            end = event.time
            if event.duration is not None:
                end = begin.time + event.duration
            result.calls.append(
                (begin.time, end, begin.tid, begin.name, event.failed or begin.failed)
            )
    result.n_unmatched += sum(map(len, open_.values()))
    return result


def _of_json(line: str, scale: int) -> _Event | None:
    try:
        row = json.loads(_PHASE.sub(r'"phase":"\1",', line), parse_float=Decimal)
    except ValueError:
        return None
    if "ts" not in row or not {"op_id", "event_id", "func"} & row.keys():
        return None
    time = int(Decimal(row["ts"]) * scale // 1)
    tid, pid = row.get("tid"), row.get("pid")
    details = row.get("details", {})
    result = row.get("result", row.get("result_code", row.get("retval", 0)))
    failed = bool(result or details.get("status", 0))
    name = row.get("name", row.get("func", "")).rpartition(":")[2]
    if "op_id" in row:
        phase = "E" if row.get("phase") == "E" else "B"
        return _Event(time, phase, ("id", pid, row["op_id"]), tid, name, failed)
    kind = row.get("type")
    if isinstance(kind, int):
        phase = {1: "B", 2: "E", 6: "B", 7: "E"}.get(kind, "I")
        what = "ioctl" if kind >= 6 else "CUDA call"
        return _Event(time, phase, (pid, tid, what), tid, what)
    phase = row.get("phase", "I")
    phase = phase if phase in ("B", "E") else "I"
    return _Event(time, phase, (pid, tid, name), tid, name, failed)


def _of_text(line: str) -> _Event | None:
    if line.startswith(("[MEM]", "[COPY]", "[KERNEL]")):
        return _Event(0, "I", (), None, "")
    if match := _TABLE.fullmatch(line):
        ms, tid, _, arrow, probe, us = match.groups()
        name = probe.rpartition(":")[2]
        phase = "B" if arrow == "→" else "E"
        duration = None if us is None else int(us) * 1000
        return _Event(
            int(ms) * 1_000_000, phase, (tid, name), int(tid), name, False, duration
        )
    match = _STRACE.fullmatch(line)
    if match is None:
        return None
    pid, bare, hour, minute, second, rest = match.groups()
    tid = int(pid or bare) if pid or bare else None
    time = (int(hour) * 60 + int(minute)) * 60 * _NANO + int(Decimal(second) * _NANO)
    if rest.endswith("<unfinished ...>"):
        name = rest.partition("(")[0]
        return _Event(time, "B", (tid, name), tid, name)
    if rest.startswith("<... "):
        name = rest[5:].partition(" ")[0]
        outcome = _OUTCOME.fullmatch(rest)
        assert outcome is not None
        took = outcome[3] and int(Decimal(outcome[3]) * _NANO)
        return _Event(
            time, "E", (tid, name), tid, name, outcome[1] == "-1", took or None
        )
    return None
