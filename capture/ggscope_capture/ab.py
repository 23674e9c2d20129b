"""Paired benchmark of two command lines: which is faster, beyond the noise.

Each round runs A, B and A again in random order, so that drift (heat, other programs,
frequency) affects all three alike; the second A measures the noise. Differences are
taken within a round; the confidence interval of their median comes from order
statistics and assumes no distribution.
"""

import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ggscope_capture.files import reason_of

_CONFIDENCE = 0.95
MIN_ROUNDS = 6
"""Fewer rounds give no interval of this confidence, and so no verdict."""
_EVAL = re.compile(r"(?<!prompt )eval time\s*=.*?([\d.]+) tokens per second")
"""The generation speed in the output of llama.cpp's programs."""
NAMES = ("a", "b", "again")
"""The three runs of a round; "again" is the first command once more."""


class AbError(Exception):
    """A command failed or is not comparable; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Speed difference to A in percent, with the interval of the median.

    `coverage` is the interval's probability; with few rounds it is the whole range
    and less than 0.95.
    """

    median: float
    low: float
    high: float
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The measurements; `values` by `NAMES`, one per round, larger is faster."""

    unit: str
    values: dict[str, NDArray[np.float64]]
    difference: Difference
    noise: Difference
    seed: int

    @property
    def verdict(self) -> str:
        """The verdict: whether B differs from A by more than A from itself."""
        b, noise = self.difference, self.noise
        if b.coverage < _CONFIDENCE:
            return f"too few rounds for a verdict (at least {MIN_ROUNDS})"
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
        facts = {"unit": self.unit, "seed": self.seed, "verdict": self.verdict}
        return facts | rows | parts


@dataclass(frozen=True, slots=True)
class Recordings:
    """Traces of the two commands, recorded after they were timed.

    Attributes
    ----------
    folder : holds all of them, so that the viewer opens it as a table of runs.
    n : traces of each command; of one, its file, of several, a folder.
    """

    folder: Path
    n: int = 1

    def places(self) -> dict[str, str]:
        """Return the file or folder of each command's traces, by "a" and "b"."""
        suffix = ".bin" if self.n == 1 else ""
        return {name: str(self.folder / f"{name}{suffix}") for name in NAMES[:2]}

    def check(self) -> None:
        """Raise AbError where a folder has files that would join a command's traces."""
        if self.n == 1:
            return
        for place in map(Path, self.places().values()):
            if place.exists() and (not place.is_dir() or any(place.iterdir())):
                raise AbError(f"{place} exists and is not an empty folder")

    def record(self, a: Sequence[str], b: Sequence[str]) -> dict[str, str]:
        """Record all traces, the commands in turns.

        Returns
        -------
        The places of the traces; of a command that could not be traced, why not.
        """
        results = self.places()
        for number in range(1, self.n + 1):
            for command, (name, place) in zip(
                (a, b), self.places().items(), strict=True
            ):
                path = Path(place) if self.n == 1 else Path(place, f"{number}.bin")
                if error := _trace(command, path):
                    results[name] = error
        return results


def _trace(command: Sequence[str], path: Path) -> str:
    """Record a trace of a command; return the error, "" where there is none."""
    run = [sys.executable, "-m", "ggscope_capture", "run", "--require", "-o"]
    done = subprocess.run(
        [*run, str(path), "--", *command], capture_output=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"not traced: {lines[-1] if lines else done.returncode}"


def compare(
    a: Sequence[str],
    b: Sequence[str],
    *,
    rounds: int,
    seed: int,
    measure: Callable[[Sequence[str]], tuple[float, str]] | None = None,
    report_progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Run two commands in turns.

    Parameters
    ----------
    measure : returns a figure (larger is faster) and its unit; `run_once` by default.
    report_progress : gets a line after each round.

    Raises
    ------
    AbError
        If a command fails, or the two report different units.
    """
    measure = measure or run_once
    commands = dict(zip(NAMES, (a, b, a), strict=True))
    # Warms the page cache, and fails early on a wrong command.
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
        report_progress(f"round {number + 1} of {rounds}: {last} {unit}")
    arrays = {name: np.array(speeds) for name, speeds in values.items()}
    return Comparison(
        unit=unit, values=arrays, seed=seed,
        difference=difference(arrays["a"], arrays["b"]),
        noise=difference(arrays["a"], arrays["again"]),
    )  # fmt: skip


def _refuse_unlike(units: dict[str, set[str]]) -> None:
    """Raise AbError if the measurements so far have different units."""
    for name, found_units in units.items():
        if len(found_units) > 1:
            raise AbError(
                f"{name} reports tokens per second in some runs only: a run without "
                "generated tokens has none. Make all runs alike, for example with "
                "--seed 1 and --ignore-eos"
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
        If it cannot be started or does not exit with 0.
    """
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise AbError(f"{command[0]} cannot be started: {reason_of(error)}") from error
    seconds = time.monotonic() - started
    errors = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0:
        last_line = (errors.strip().splitlines() or ["no message"])[-1]
        raise AbError(f"{command[0]} exited with code {done.returncode}: {last_line}")
    speed = tokens_per_second(done.stdout.decode("utf-8", "replace"), errors)
    if speed is not None:
        return speed, "tokens/s"
    return 1 / seconds, "runs/s"


def tokens_per_second(output: str, errors: str) -> float | None:
    """Return the speed that a llama.cpp program reports, or None.

    llama-bench prints JSON (``-o json``): the last of its tests that generated tokens
    counts. The others print a line on stderr.
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
    matches = _EVAL.findall(errors) or _EVAL.findall(output)
    return float(matches[-1]) if matches and float(matches[-1]) > 0 else None
