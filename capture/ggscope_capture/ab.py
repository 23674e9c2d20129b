"""Runs two command lines against each other: which is faster, beyond the noise.

Each round runs A, B and A again in random order, so that what drifts (heat, other
programs, frequency) meets all three alike; the second A tells how far the same command
is from itself. Differences are taken within a round, and the interval about their
median is the exact one of order statistics: it assumes nothing of how times spread.
"""

import json
import math
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggscope_capture.files import reason_of

_CONFIDENCE = 0.95
LEAST_ROUNDS = 6
"""With fewer no interval is of so much probability: there is no verdict."""
_EVAL = re.compile(r"(?<!prompt )eval time\s*=.*?([\d.]+) tokens per second")
"""What llama.cpp's programs say of the tokens that they generated."""
NAMES = ("a", "b", "again")
"""The three runs of a round; "again" is the first command once more."""


class AbError(Exception):
    """A command failed or is not comparable; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much faster than A, in percent, with the interval about the median.

    `coverage` is the interval's probability; with few rounds it is the whole range
    and less than 0.95.
    """

    median: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the rounds gave; `values` by `NAMES`, one per round, larger is faster."""

    unit: str
    values: dict[str, NDArray[np.float64]]
    difference: Difference
    noise: Difference
    seed: int

    @property
    def verdict(self) -> str:
        """Say whether B differs from A by more than A from itself."""
        b, noise = self.difference, self.noise
        if b.coverage < _CONFIDENCE:
            return f"too few rounds to tell: {LEAST_ROUNDS} are the least"
        if b.low <= noise.high and noise.low <= b.high:
            return "no difference beyond the noise"
        return f"B is {'faster' if b.median > noise.median else 'slower'}"

    def as_json(self) -> dict[str, Any]:
        """Return what the command prints."""
        rows = {
            name: {
                "values": values.tolist(),
                "median": float(np.median(values)),
                "min": float(values.min()),
                "max": float(values.max()),
            }
            for name, values in self.values.items()
        }
        parts = {
            name: {
                "median_percent": part.median, "low": part.low, "high": part.high,
                "coverage": part.coverage,
            }
            for name, part in (("difference", self.difference), ("noise", self.noise))
        }  # fmt: skip
        told = {"unit": self.unit, "seed": self.seed, "verdict": self.verdict}
        return told | rows | parts


def compare(
    a: Sequence[str],
    b: Sequence[str],
    *,
    rounds: int,
    seed: int,
    measure: Callable[[Sequence[str]], tuple[float, str]] | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Run two commands in turns.

    Parameters
    ----------
    measure : returns a figure (larger is faster) and its unit; `run_once` by default.
    tell : gets a line after each round.

    Raises
    ------
    AbError
        If a command fails, or the two give figures of different units.
    """
    measure = measure or run_once
    commands = dict(zip(NAMES, (a, b, a), strict=True))
    # Files come into memory, and a wrong command fails early.
    units = {name: {measure(command)[1]} for name, command in (("A", a), ("B", b))}
    values: dict[str, list[float]] = {name: [] for name in NAMES}
    shuffled = np.random.default_rng(seed)
    for number in range(rounds):
        for index in shuffled.permutation(len(NAMES)).tolist():
            value, unit = measure(commands[NAMES[index]])
            values[NAMES[index]].append(value)
            units["B" if NAMES[index] == "b" else "A"].add(unit)
        _refuse_unlike(units)
        last = ", ".join(f"{name} {values[name][-1]:.4g}" for name in NAMES)
        tell(f"round {number + 1} of {rounds}: {last} {unit}")
    arrays = {name: np.array(listed) for name, listed in values.items()}
    return Comparison(
        unit=unit, values=arrays, seed=seed,
        difference=difference(arrays["a"], arrays["b"]),
        noise=difference(arrays["a"], arrays["again"]),
    )  # fmt: skip


def _refuse_unlike(units: dict[str, set[str]]) -> None:
    """Raise where the figures so far, by command, have different units."""
    for name, found in units.items():
        if len(found) > 1:
            raise AbError(
                f"{name} tells tokens per second in some of its runs and not in "
                "others: a run that generates nothing has none. Let all generate "
                "alike, such as by a seed of their own (--seed 1) and --ignore-eos"
            )
    both = set().union(*units.values())
    if len(both) > 1:
        raise AbError(f"the two cannot be compared: {' and '.join(sorted(both))}")


def difference(a: NDArray[np.float64], b: NDArray[np.float64]) -> Difference:
    """Return how much faster `b` is than `a`, round by round; both are (n,)."""
    percent = np.sort((b / a - 1) * 100)
    n = len(percent)
    cut = 0  # so many at each end lie outside
    coverage = 1 - 2 * 0.5**n
    while True:
        below = sum(math.comb(n, k) for k in range(cut + 2)) / 2**n
        if 1 - 2 * below < _CONFIDENCE:
            break
        cut += 1
        coverage = 1 - 2 * below
    return Difference(
        float(np.median(percent)), float(percent[cut]), float(percent[n - 1 - cut]),
        coverage,
    )  # fmt: skip


def run_once(command: Sequence[str]) -> tuple[float, str]:
    """Run a command; return its tokens per second, or runs per second.

    Raises
    ------
    AbError
        If it cannot be started or does not end with 0.
    """
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise AbError(f"{command[0]} cannot be started: {reason_of(error)}") from error
    seconds = time.monotonic() - begun
    errors = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0:
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        raise AbError(f"{command[0]} ended with {done.returncode}: {last}")
    speed = tokens_per_second(done.stdout.decode("utf-8", "replace"), errors)
    if speed is not None:
        return speed, "tokens/s"
    return 1 / seconds, "runs/s"


def tokens_per_second(output: str, errors: str) -> float | None:
    """Return what llama.cpp's programs say of their speed; None where they do not.

    llama-bench tells it in JSON (``-o json``): of its tests, the last one that
    generated tokens counts. The others print a line on stderr.
    """
    if output.lstrip().startswith("["):
        try:
            tests = [test for test in json.loads(output) if isinstance(test, dict)]
        except ValueError:
            tests = []
        speeds = [test.get("avg_ts") for test in tests if test.get("n_gen")]
        speeds = speeds or [test.get("avg_ts") for test in tests]
        if speeds and isinstance(speeds[-1], int | float) and speeds[-1] > 0:
            return float(speeds[-1])
    found = _EVAL.findall(errors) or _EVAL.findall(output)
    return float(found[-1]) if found and float(found[-1]) > 0 else None
