"""Sampled stacks beside the events of a Chrome trace: samples and stackFrames."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np

from ggscope.model.tables import I64
from ggscope.readers.common.stacks import (
    MAX_FRAMES,
    StackBuilder,
    Stacks,
    ends_of,
    gaps_behind,
    usual_gap,
)

SAMPLES, FRAMES = "samples", "stackFrames"
_FURTHEST = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class ChromeSamples:
    """Samples in the order of thread and time.

    Attributes
    ----------
    threads : (pid, tid) as texts of each thread.
    thread : int64[n], place in `threads`.
    start, end : int64[n], ns of the file.
    node : int64[n], stack, -1 none.
    period : the median distance, ns, which is taken for the period; 0 = none is known.
    n_bad, n_deep : samples without time or known frame; stacks that were cut.
    """

    threads: list[tuple[str, str]]
    thread: I64
    start: I64
    end: I64
    node: I64
    stacks: Stacks
    period: int
    n_bad: int
    n_deep: int

    def __len__(self) -> int:
        return len(self.start)


def samples_of(facts: Mapping[str, object]) -> ChromeSamples | None:
    """Return the samples of a file; None where it has none."""
    listed, frames = facts.get(SAMPLES), facts.get(FRAMES)
    if not isinstance(listed, list) or not isinstance(frames, dict) or not listed:
        return None
    tree = _Frames(frames)
    threads: dict[tuple[str, str], int] = {}
    rows: list[tuple[int, int, int]] = []
    n_bad = 0
    for one in listed:
        time = _time(one.get("ts")) if isinstance(one, dict) else None
        node = tree.node(one.get("sf")) if time is not None else None
        if time is None or node is None:
            n_bad += 1
            continue
        key = _word(one.get("pid")), _word(one.get("tid"))
        rows.append((threads.setdefault(key, len(threads)), time, node))
    if not rows:
        return None
    columns = np.array(rows, np.int64)
    columns = columns[np.lexsort((columns[:, 1], columns[:, 0]))]
    thread, start, node_of = (np.ascontiguousarray(columns[:, i]) for i in range(3))
    gap = gaps_behind(thread, start)
    period = usual_gap(gap)
    return ChromeSamples(
        list(threads),
        thread,
        start,
        ends_of(start, gap, np.full(len(start), period, np.int64)),
        node_of,
        tree.made.stacks(),
        period,
        n_bad,
        tree.n_deep,
    )


class _Frames:
    """Makes stacks of frames that name their callers."""

    def __init__(self, frames: dict[str, object]) -> None:
        self._frames = frames
        self._nodes: dict[str, int | None] = {}
        self.made = StackBuilder()
        self.n_deep = 0

    def node(self, key: object) -> int | None:
        """Return the stack of a frame; None where it is not known, or calls itself."""
        path: list[str] = []
        at: object = key
        seen: set[str] = set()
        while (word := _word(at)) and word not in self._nodes:
            frame = self._frames.get(word)
            if word in seen or not isinstance(frame, dict):
                self._nodes[_word(key)] = None
                return None
            seen.add(word)
            path.append(word)
            at = frame.get("parent")
        node = self._nodes[word] if word else -1
        return self._below(node, path)

    def _below(self, node: int | None, path: list[str]) -> int | None:
        """Return the stack of frames below another one, the innermost first."""
        if len(path) > MAX_FRAMES:
            self.n_deep += 1
            path = path[-MAX_FRAMES:]
        for word in reversed(path):
            frame = self._frames[word]
            if node is not None and isinstance(frame, dict):
                name, part = _word(frame.get("name")), _word(frame.get("category"))
                node = self.made.node(node, self.made.frame(name or "[unknown]", part))
            self._nodes[word] = node
        return node


def _word(value: object) -> str:
    """Return a text or whole number as a text; "" for anything else."""
    if isinstance(value, str):
        return value[:4096]
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    return str(value) if -_FURTHEST < value < _FURTHEST else ""


def _time(value: object) -> int | None:
    """Return µs as ns; None for what is no time."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        ns = Decimal(value) * 1000
        return round(ns) if ns.is_finite() and abs(ns) < _FURTHEST else None
    except (InvalidOperation, ValueError):
        return None
