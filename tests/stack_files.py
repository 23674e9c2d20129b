"""Files of sampled stacks, and what is in them."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Stack = tuple[str, ...]
"""Names of frames, outermost first."""
PERIOD = 1_001_001


@dataclass(frozen=True)
class Sample:
    """A sample of a thread: times in ns."""

    tid: int
    time: int
    stack: Stack
    event: str = "cpu-clock"
    comm: str = "worker"
    cpu: int = 0


def stacks(seed: int, n: int, names: Iterator[str] | None = None) -> list[Stack]:
    """Return `n` random stacks that share their begins, as those of programs do."""
    rng = random.Random(seed)
    texts = [next(names) if names else f"f{i}" for i in range(9)]
    made: list[Stack] = []
    for _ in range(n):
        last = made[-1] if made and rng.random() < 0.8 else ()
        entries = last[: rng.randint(0, len(last))]
        grown = tuple(
            rng.choice(texts) for _ in range(rng.randint(1 + (not entries), 4))
        )
        made.append((*entries, *grown)[:12])
    return made


def samples(
    seed: int, n: int, names: Iterator[str] | None = None, n_threads: int = 3
) -> list[Sample]:
    """Return random samples of some threads in the order of time, with gaps."""
    rng = random.Random(seed)
    items = []
    for tid in range(1, n_threads + 1):
        time = 10**12 + rng.randint(0, PERIOD)
        for stack in stacks(seed + tid, max(n // n_threads, 1), names):
            items.append(Sample(tid, time, stack))
            is_gap = rng.random() < 0.2
            time += rng.randint(2, 9) * PERIOD if is_gap else PERIOD
            time += rng.randint(-50_000, 50_000)
    return sorted(items, key=lambda sample: (sample.time, sample.tid))


def perf(
    items: Iterable[Sample],
    *,
    period: bool = True,
    header: bool = False,
    ns: bool = True,
) -> bytes:
    """Return what ``perf script`` prints."""
    lines = []
    if header:
        lines += [
            "# ========", "# captured on    : Fri Nov 27 06:00:00 2026",
            "# cmdline : /usr/bin/perf record -F 999 -g ./worker",
            "# event : name = cycles, , size = 136, { sample_period, sample_freq } = "
            "999, sample_type = IP|TID|TIME, freq = 1, precise_ip = 3", "# ========",
            "#",
        ]  # fmt: skip
    for one in items:
        second, rest = divmod(one.time, 10**9)
        count = f"{PERIOD:>10} " if period else ""
        lines.append(
            f"{one.comm} {one.tid:>5} [{one.cpu:03d}] {second}.{rest:09d}: {count}"
            f"{one.event}: "
        )
        for i, name in enumerate(reversed(one.stack)):
            lines.append(f"\t{4096 + i:16x} {name}+0x{i:x} (/lib/{name[:1]}.so)")
        lines.append("")
    return "\n".join([*lines, ""]).encode()


def folded(items: Iterable[Stack]) -> bytes:
    """Return a line for each different stack and how often it is there."""
    counts = Counter(items)
    return "".join(f"{';'.join(s)} {n}\n" for s, n in counts.items()).encode()


def speedscope(
    seed: int, n: int, names: Iterator[str] | None = None, unit: str = "milliseconds"
) -> bytes:
    """Return a file with a sampled and an evented profile of the same stacks."""
    rng = random.Random(seed)
    result = stacks(seed, n, names)
    listed = list(dict.fromkeys(name for stack in result for name in stack))
    number = {name: i for i, name in enumerate(listed)}
    weights = [rng.randint(1, 5) for _ in result]
    events, at, opened = [], 0, ()
    for stack, weight in zip(result, weights, strict=True):
        events += changes(opened, stack, at, number)
        at, opened = at + weight, stack
    events += changes(opened, (), at, number)
    common = {"unit": unit, "startValue": 0, "endValue": at}
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": "tests",
            "shared": {
                "frames": [{"name": k, "file": "a.py", "line": 3} for k in listed]
            },
            "profiles": [
                {
                    "type": "sampled",
                    "name": "sampled",
                    **common,
                    "samples": [[number[k] for k in stack] for stack in result],
                    "weights": weights,
                },
                {"type": "evented", "name": "evented", **common, "events": events},
            ],
        }
    ).encode()


def changes(
    before: Stack, behind: Stack, at: int, number: dict[str, int]
) -> list[dict[str, object]]:
    """Return the events that close one stack and open another."""
    same = 0
    while before[: same + 1] == behind[: same + 1] and same < len(before):
        same += 1
    closed = [("C", name) for name in reversed(before[same:])]
    opened = [("O", name) for name in behind[same:]]
    return [{"type": k, "at": at, "frame": number[n]} for k, n in closed + opened]


def pprof(
    seed: int,
    n: int,
    names: Iterator[str] | None = None,
    types: tuple[tuple[str, str], ...] = (("samples", "count"), ("cpu", "nanoseconds")),
    *,
    is_packed: bool = True,
) -> bytes:
    """Return a profile with a sample for each of some stacks."""
    texts = {"": 0}

    def text(word: str) -> int:
        return texts.setdefault(word, len(texts))

    rng = random.Random(seed)
    parts = [
        block(1, number(1, text(kind)) + number(2, text(unit))) for kind, unit in types
    ]
    functions: dict[str, int] = {}
    for stack in stacks(seed, n, names):
        for name in stack:
            functions.setdefault(name, len(functions) + 1)
        where = packed([functions[name] for name in reversed(stack)])
        values = packed([rng.randint(1, 9) for _ in types])
        label = number(1, text("thread")) + number(2, text("main"))
        parts.append(block(2, block(1, where) + block(2, values) + block(3, label)))
    parts.append(block(3, number(1, 1) + number(5, text("/usr/lib/libwork.so"))))
    for name, i in functions.items():
        line = number(1, i) + number(2, 10 + i)
        parts.append(block(4, number(1, i) + number(2, 1) + number(3, 4096 + i)
                           + block(4, line)))  # fmt: skip
        parts.append(
            block(5, number(1, i) + number(2, text(name)) + number(4, text("work.c")))
        )
    parts += [block(6, word.encode()) for word in texts]
    parts += [number(9, 1_790_000_000 * 10**9), number(10, 10**9), number(12, 10**7)]
    data = b"".join(parts)
    return gzip.compress(data, mtime=0) if is_packed else data


def varint(value: int) -> bytes:
    """Return a number as protobuf has it."""
    value &= (1 << 64) - 1
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*result, value))


def number(field: int, value: int) -> bytes:
    """Return a field that is a number."""
    return varint(field << 3) + varint(value)


def block(field: int, data: bytes) -> bytes:
    """Return a field that is a message, a text or packed numbers."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def packed(values: Iterable[int]) -> bytes:
    """Return numbers one behind the other."""
    return b"".join(map(varint, values))


def instruments(seed: int, n: int, names: Iterator[str] | None = None) -> bytes:
    """Return the text of a call tree; own weights are those of `folded` in ms."""
    own: Counter[Stack] = Counter(stacks(seed, n, names))
    whole: Counter[Stack] = Counter()
    for stack, count in own.items():
        for depth in range(1, len(stack) + 1):
            whole[stack[:depth]] += count
    lines = ["Weight\tSelf Weight\tSymbol Names"]
    for stack in sorted(whole):
        lines.append(
            f"{whole[stack]}.00 ms  {0.0:.1f}%\t{own[stack]}.00 ms\t"
            f"{' ' * (len(stack) + 2)}{stack[-1]}"
        )
    return "\n".join([*lines, ""]).encode()
