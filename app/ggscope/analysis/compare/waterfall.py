"""From A's time per token to B's: steps that add up to the change exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from ggscope.analysis.compare.alignment import AlignedRun, Alignment, Bools
from ggscope.analysis.compare.time_parts import group_parts, thread_parts
from ggscope.analysis.summary.bars import GRAPH_PASS
from ggscope.analysis.summary.partial import hidden_ops
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import Phase
from ggscope.model.trace import Trace

StepsBy = Literal["family", "op", "layer", "part"]
STEPS_BY: tuple[StepsBy, ...] = get_args(StepsBy)
TokensOf = Literal["generated", "prompt", "all"]
TOKENS_OF: tuple[TokensOf, ...] = get_args(TokensOf)
OVERLAP, NO_OP = "at the same time", "no op running"
"""Keys of what is counted in several steps, and of the time in which no op runs."""
WORK, WAIT, IDLE = "work", "waiting at barriers", "idle"
IDLE_OR_WAIT = "idle or waiting"
_NO_GROUPS = (OVERLAP, NO_OP, WORK, WAIT, IDLE, IDLE_OR_WAIT)
MAX_STEPS = 12
"""Steps of smaller changes are joined into one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the time per token, in ticks.

    Attributes
    ----------
    key : of the group or part.
    a, b : of each run of a side.
    n_joined : how many groups it stands for.
    """

    key: str
    a: tuple[Fraction, ...]
    b: tuple[Fraction, ...]
    n_joined: int = 1

    @property
    def mean_a(self) -> Fraction:
        """Mean over the runs of A."""
        return sum(self.a, Fraction()) / len(self.a)

    @property
    def mean_b(self) -> Fraction:
        """Mean over the runs of B."""
        return sum(self.b, Fraction()) / len(self.b)

    @property
    def change(self) -> Fraction:
        """What B takes more, of means: so steps add up also where runs differ."""
        return self.mean_b - self.mean_a

    @property
    def is_group(self) -> bool:
        """Whether it is the time of one group of ops."""
        return self.n_joined == 1 and self.key not in _NO_GROUPS

    @property
    def is_noise(self) -> bool | None:
        """Whether the runs of both sides overlap; None with one run of a side."""
        if self.a == self.b:
            return True
        if len(self.a) < 2 or len(self.b) < 2:
            return None
        return min(self.a) <= max(self.b) and min(self.b) <= max(self.a)


@dataclass(frozen=True, slots=True, eq=False)
class Waterfall:
    """The time per token of two sides, and the steps between them.

    Attributes
    ----------
    by : what steps are.
    tokens : which tokens count.
    noun : what the time is per: "token", "ubatch", "graph pass", or "run".
    n_a, n_b : tokens that count, of each run.
    total : from A's time to B's; the changes of `steps` add up to its change.
    steps : largest change first.
    has_untimed : whether ops without a known time may run while no op does.
    hides_idle : whether what is not recorded, or derived ends, change the time of none.
    reason : why there are no steps; "" where there are.
    """

    by: StepsBy
    tokens: TokensOf
    noun: str
    n_a: tuple[int, ...] = ()
    n_b: tuple[int, ...] = ()
    total: Step | None = None
    steps: tuple[Step, ...] = ()
    has_untimed: bool = False
    hides_idle: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The time of one run by key, in ticks times `divisor`."""

    elapsed: int
    ticks: dict[str, int]
    n_tokens: int
    divisor: int = 1
    has_untimed: bool = False
    hides_idle: bool = False


def waterfall(
    traces: Sequence[Trace],
    alignment: Alignment,
    n_a: int,
    by: StepsBy = "family",
    tokens: TokensOf | None = None,
    watcher: Watcher | None = None,
) -> Waterfall:
    """Return the steps from A's time per token to B's; means over several runs.

    Parameters
    ----------
    traces, alignment, n_a : of all runs, those of A first; their clocks are alike.
    tokens : None = generated ones where all runs have some that are compared.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    runs = alignment.runs
    chosen_of = tokens or _usual(runs)
    noun = runs[0].bars.noun if all(len(run.bars) for run in runs) else "run"
    chosen = [_chosen(run, chosen_of, noun) for run in runs]
    if noun != "run" and not all(one.any() for one in chosen):
        what = "" if chosen_of == "all" else f" of the phase {_PHASES[chosen_of]}"
        reason = f"a side has no {noun}{what} with a known time that is compared"
        return Waterfall(by, chosen_of, noun, reason=reason)
    parts = []
    for trace, run, one in zip(traces, runs, chosen, strict=True):
        n = int(np.count_nonzero(one)) if noun != "run" else 1
        mine = _parts(trace, run, one, n, by, watcher)
        if mine is None:
            reason = "a side does not record threads with all ops and their times"
            return Waterfall(by, chosen_of, noun, reason=reason)
        parts.append(mine)
    if by == "part" and any(IDLE_OR_WAIT in one.ticks for one in parts):
        parts = [_without_waits(one) for one in parts]
    total = _step("", [one.elapsed for one in parts], parts, n_a)
    keys = dict.fromkeys(key for one in parts for key in one.ticks)
    steps = [
        _step(key, [one.ticks.get(key, 0) for one in parts], parts, n_a) for key in keys
    ]
    steps = [step for step in steps if any(step.a) or any(step.b)]
    steps.sort(key=lambda step: (-abs(step.change), step.key))
    counts = tuple(one.n_tokens for one in parts)
    return Waterfall(
        by, chosen_of, noun, counts[:n_a], counts[n_a:], total, _joined(steps),
        any(one.has_untimed for one in parts), any(one.hides_idle for one in parts),
    )  # fmt: skip


_PHASES = {"generated": "generate", "prompt": "prompt"}


def _usual(runs: Sequence[AlignedRun]) -> TokensOf:
    """Return "generated" where all runs have such tokens, else "all"."""
    has_some = all((_chosen(run, "generated", "")).any() for run in runs)
    return "generated" if has_some and runs[0].bars.noun != GRAPH_PASS else "all"


def _chosen(run: AlignedRun, tokens: TokensOf, noun: str) -> Bools:
    """Return which bars count, bool[n]."""
    chosen: Bools = run.is_matched & run.bars.is_timed
    if noun == "run":
        return np.ones(len(run.bars), np.bool_)
    if tokens == "all":
        return chosen
    phase = Phase.GENERATE if tokens == "generated" else Phase.PROMPT
    return np.asarray(chosen & (run.bars.phase == phase), np.bool_)


def _parts(
    trace: Trace,
    run: AlignedRun,
    chosen: Bools,
    n_tokens: int,
    by: StepsBy,
    watcher: Watcher | None,
) -> _Parts | None:
    """Return how a run spends the time of its tokens; None where that is not known."""
    if by == "part":
        if hidden_ops(trace):  # which would pass for less work
            return None
        threads = thread_parts(trace, run, chosen, watcher)
        if threads is None:
            return None
        ticks = {WORK: threads.work}
        if threads.wait is None:
            ticks[IDLE_OR_WAIT] = threads.idle
        else:
            ticks |= {WAIT: threads.wait, IDLE: threads.idle}
        return _Parts(
            threads.elapsed * threads.n_lanes, ticks, n_tokens, threads.n_lanes,
            hides_idle=not threads.tells_idle,
        )  # fmt: skip
    groups = group_parts(trace, run, chosen, by, watcher)
    ticks = dict(groups.groups)
    ticks[OVERLAP] = ticks.get(OVERLAP, 0) - groups.overlap
    ticks[NO_OP] = ticks.get(NO_OP, 0) + groups.none
    return _Parts(
        groups.elapsed, ticks, n_tokens,
        has_untimed=groups.has_untimed, hides_idle=groups.hides_idle,
    )  # fmt: skip


def _without_waits(parts: _Parts) -> _Parts:
    """Return parts with waits and idle time as one: a run does not distinguish them."""
    ticks = dict(parts.ticks)
    rest = sum(ticks.pop(key, 0) for key in (WAIT, IDLE, IDLE_OR_WAIT))
    return _Parts(
        parts.elapsed, ticks | {IDLE_OR_WAIT: rest}, parts.n_tokens, parts.divisor,
        parts.has_untimed, parts.hides_idle,
    )  # fmt: skip


def _step(key: str, ticks: Sequence[int], parts: Sequence[_Parts], n_a: int) -> Step:
    values = tuple(
        Fraction(value, one.n_tokens * one.divisor)
        for value, one in zip(ticks, parts, strict=True)
    )
    return Step(key, values[:n_a], values[n_a:])


def _joined(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return at most `MAX_STEPS` steps; the last one is the sum of the smaller ones."""
    if len(steps) <= MAX_STEPS:
        return tuple(steps)
    rest = steps[MAX_STEPS - 1 :]
    a, b = (
        tuple(sum(values, Fraction()) for values in zip(*side, strict=True))
        for side in ([step.a for step in rest], [step.b for step in rest])
    )
    return (*steps[: MAX_STEPS - 1], Step(f"{len(rest)} others", a, b, len(rest)))
