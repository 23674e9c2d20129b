"""Tests of llama-bench: what varies among them, and two sets of them compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ggscope.analysis.bench.intervals import Interval, difference_interval
from ggscope.model.bench import BUILD, RESULTS, BenchRuns

Key = tuple[Any, ...]
_IN_NAME = frozenset(("n_prompt", "n_gen", "n_depth", "model_size", "model_n_params"))
"""Keys that the name of a test or of the model states."""
_ROUNDED = 1e-3
"""Share by which rounded speeds may differ from those that follow from times."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of a test.

    Attributes
    ----------
    mean : of all repetitions.
    stddev : None where the file has none.
    samples : of each repetition; () where the form has none.
    """

    mean: float
    stddev: float | None
    samples: tuple[float, ...] = ()

    @property
    def range(self) -> tuple[float, float] | None:
        """Least and greatest speed, else a standard deviation around the mean.

        None where neither states how much the speed varies.
        """
        if len(self.samples) > 1:
            return min(self.samples), max(self.samples)
        if self.stddev and len(self.samples) != 1:
            return self.mean - self.stddev, self.mean + self.stddev
        return None


@dataclass(frozen=True, slots=True)
class BenchChange:
    """A test that both sides have.

    Attributes
    ----------
    test : ``pp512``.
    key : its values of the keys by which tests were matched.
    within_noise : whether the ranges overlap; None where one is not known.
    difference : of the means, B less A; None where there are too few repetitions.
    """

    test: str
    key: Key
    a: Speed
    b: Speed
    within_noise: bool | None
    difference: Interval | None = None

    @property
    def relative(self) -> float | None:
        """What B is faster than A, as a share of A."""
        return self.b.mean / self.a.mean - 1 if self.a.mean else None


@dataclass(frozen=True, slots=True)
class BenchComparison:
    """Two sets of tests.

    Attributes
    ----------
    matched_by : keys by which tests were matched.
    differs : keys of which the two sides have no value in common, with the values.
    changes : in the order of A.
    only_a, only_b : tests that the other side lacks.
    """

    matched_by: tuple[str, ...]
    differs: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    changes: tuple[BenchChange, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TestComparison:
    """Two tests.

    Attributes
    ----------
    agrees : keys of the configuration in which both have the same value.
    differs : keys with the values of the two; "" where one has none.
    """

    change: BenchChange
    agrees: tuple[str, ...]
    differs: tuple[tuple[str, str, str], ...]


def compare_tests(runs: BenchRuns, a: int, b: int) -> TestComparison:
    """Return how fast test `b` is against test `a`, and what else is not the same."""
    left, right = runs.row(a), runs.row(b)
    agrees, differs = list[str](), list[tuple[str, str, str]]()
    if runs.file and runs.file[a] != runs.file[b]:
        old, new = (runs.files[runs.file[i]] for i in (a, b))
        differs.append(("file", old, new))
    for key in runs.columns:
        values = tuple(_plain(row.get(key)) for row in (left, right))
        if key in RESULTS or values == (None, None):
            continue
        if values[0] == values[1]:
            agrees.append(key)
        else:
            old, new = ("" if value is None else str(value) for value in values)
            differs.append((key, old, new))
    speeds = (speed_of(runs, i) for i in (a, b))
    change = change_between(runs.test(b), (), *speeds)
    return TestComparison(change, tuple(agrees), tuple(differs))


def speed_of(runs: BenchRuns, i: int) -> Speed:
    """Return the speed of a test."""
    row = runs.row(i)
    samples = _samples(row)
    mean = row.get("avg_ts")
    stddev = row.get("stddev_ts")
    return Speed(
        float(mean) if isinstance(mean, int | float) else fmean(samples),
        float(stddev) if isinstance(stddev, int | float) else None,
        samples,
    )


def _samples(row: dict[str, Any]) -> tuple[float, ...]:
    """Return the speed of each repetition: by its time, which is exact, else rounded.

    Where the two are not the same speed, what the file calls tokens per second counts.
    """
    rounded = tuple(float(s) for s in row.get("samples_ts", ()))
    times = row.get("samples_ns", ())
    counts = (row.get("n_prompt", 0), row.get("n_gen", 0))
    n_tokens = sum(n for n in counts if isinstance(n, int))
    if not times or n_tokens <= 0 or min(times) <= 0:
        return rounded
    exact = tuple(n_tokens * 1e9 / ns for ns in times)
    if not rounded:
        return exact
    is_same = len(exact) == len(rounded) and all(
        abs(x - y) <= _ROUNDED * abs(y) for x, y in zip(exact, rounded, strict=True)
    )
    return exact if is_same else rounded


def varying_keys(sides: Sequence[BenchRuns]) -> tuple[str, ...]:
    """Return the configuration keys of which tests have several values."""
    keys = dict.fromkeys(key for runs in sides for key in runs.columns)
    return tuple(
        key
        for key in keys
        if key not in RESULTS
        if len({_plain(value) for value in _values(sides, key)}) > 1
    )


def compare_bench(a: BenchRuns, b: BenchRuns) -> BenchComparison:
    """Return how fast B is where A has the same test.

    Tests match where all configuration keys agree that both sides have, but for those
    of which the sides have no value in common: these are what was changed. Builds and
    times never match tests.
    """
    shared = [
        key for key in a.columns if key in b.columns and key not in RESULTS | BUILD
    ]
    differs, matched_by = [], []
    for key in shared:
        of_a, of_b = ({_plain(v) for v in _values([side], key)} for side in (a, b))
        if of_a & of_b:
            matched_by.append(key)
        else:
            differs.append((key, _shown(of_a), _shown(of_b)))
    for key in sorted(BUILD & a.columns.keys() & b.columns.keys()):
        of_a, of_b = ({_plain(v) for v in _values([side], key)} for side in (a, b))
        if of_a != of_b:
            differs.append((key, _shown(of_a), _shown(of_b)))
    left, right = _by_key(a, matched_by), _by_key(b, matched_by)
    changes = [
        change_between(test, key, speed, right[key][1])
        for key, (test, speed) in left.items()
        if key in right
    ]
    return BenchComparison(
        tuple(matched_by),
        tuple(differs),
        tuple(changes),
        tuple(test for key, (test, _) in left.items() if key not in right),
        tuple(test for key, (test, _) in right.items() if key not in left),
    )


def change_between(test: str, key: Key, a: Speed, b: Speed) -> BenchChange:
    """Return the change from one speed to another."""
    difference = difference_interval(a.samples, b.samples)
    return BenchChange(test, key, a, b, _is_noise(a, b), difference)


def change_labels(comparison: BenchComparison) -> tuple[str, ...]:
    """Return the name of each change: its test, and what differs from others."""
    several = [
        (i, key)
        for i, key in enumerate(comparison.matched_by)
        if key not in _IN_NAME
        if len({change.key[i] for change in comparison.changes}) > 1
    ]
    return tuple(
        " · ".join([change.test, *(f"{key} {change.key[i]}" for i, key in several)])
        for change in comparison.changes
    )


def _by_key(runs: BenchRuns, keys: Sequence[str]) -> dict[Key, tuple[str, Speed]]:
    """Return the speed of each test by its key; repeats of a test are pooled."""
    rows_by_key: dict[Key, list[int]] = {}
    for i in range(len(runs)):
        row = runs.row(i)
        rows_by_key.setdefault(tuple(_plain(row.get(key)) for key in keys), []).append(
            i
        )
    return {
        key: (runs.test(rows[0]), _pooled([speed_of(runs, i) for i in rows]))
        for key, rows in rows_by_key.items()
    }


def _pooled(speeds: Sequence[Speed]) -> Speed:
    if len(speeds) == 1:
        return speeds[0]
    if all(speed.samples for speed in speeds):
        samples = tuple(sample for speed in speeds for sample in speed.samples)
        return Speed(fmean(samples), None, samples)
    # Of repeats without samples each mean is one.
    means = tuple(speed.mean for speed in speeds)
    return Speed(fmean(means), None, means)


def _is_noise(a: Speed, b: Speed) -> bool | None:
    range_a, range_b = a.range, b.range
    if range_a is None or range_b is None:
        return None
    return range_a[0] <= range_b[1] and range_b[0] <= range_a[1]


def _values(sides: Sequence[BenchRuns], key: str) -> Iterator[Any]:
    for runs in sides:
        yield from runs.columns.get(key, ())


def _plain(value: Any) -> Any:
    """Return a value as all versions of llama-bench mean it: true is 1."""
    return int(value) if isinstance(value, bool) else value


def _shown(values: set[Any]) -> tuple[str, ...]:
    return tuple(sorted("" if v is None else str(v) for v in values))
