"""Speed of llama-bench over one key of the configuration, a curve for each rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.bench.intervals import Interval, mean_intervals
from ggscope.analysis.bench.table import FILE, TEST, BenchColumn, BenchTable
from ggscope.model.bench import BUILD
from ggscope.model.tables import I64

F64 = npt.NDArray[np.float64]
_AXES = ("n_depth", "n_batch", "n_ubatch", "n_threads", "n_prompt", "n_gen")
_SIZES = ("n_prompt", "n_gen")
_NO_AXES = frozenset(("model_size", "model_n_params", "main_gpu", "cpu_strict"))
_FIRST = (FILE, "model_type", "backends")
_SHORT = ("model_filename", "model_size", "model_n_params", "cpu_info", "gpu_info")
"""Keys that name a line only where no other one distinguishes it from the rest."""
KINDS = ("all", "prompt", "generated", "both")
"""Tests: all, of prompts alone (pp), of generated tokens alone (tg), of both."""


@dataclass(frozen=True, slots=True, eq=False)
class BenchPoint:
    """Tests of one configuration.

    Attributes
    ----------
    x : value of the key; NaN where the chart has none.
    mean : tokens per second, of all repetitions.
    samples : of each repetition.
    interval : of the mean; None where there are too few repetitions.
    stddev : as the file says; None where it does not, or repetitions are known.
    tests : positions in the table.
    """

    x: float
    mean: float
    samples: tuple[float, ...]
    interval: Interval | None
    stddev: float | None
    tests: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BenchCurve:
    """Points of the same configuration but for the key of the axis, ascending."""

    label: str
    points: tuple[BenchPoint, ...]


def kind_of_tests(table: BenchTable) -> npt.NDArray[np.int8]:
    """Return which of `KINDS` each test is, int8[n]; 0 = of neither."""
    kinds = np.zeros(len(table), np.int8)
    for bit, key in ((1, "n_prompt"), (2, "n_gen")):
        if (column := table.columns.get(key)) is not None:
            kinds[np.append(column.numbers > 0, False)[column.code]] |= bit
    return kinds


def axes(table: BenchTable, tests: I64) -> tuple[str, ...]:
    """Return the keys over which some tests make curves, the usual ones first.

    A key is one of numbers of which the tests have several; sizes of prompts count
    from 1, for a test without a prompt is no point of theirs.
    """
    others = [
        key for key in table.columns
        if key not in (*_AXES, FILE, TEST) and key not in _NO_AXES
    ]  # fmt: skip
    return tuple(
        key
        for key in (*_AXES, *others)
        if key in table.columns
        if len(np.unique(_values(table, key, tests)[_on_axis(table, key, tests)])) > 1
    )


def has_lines(table: BenchTable, tests: I64, axis: str) -> bool:
    """Return whether some tests differ in a key alone: then a curve has a line."""
    tests = tests[_on_axis(table, axis, tests)]
    group = _grouped(table, tests, _rest(table, tests, axis))
    x = np.unique(_values(table, axis, tests), return_inverse=True)[1].reshape(-1)
    pairs = np.unique(group * (len(x) + 1) + x)
    return len(pairs) > len(np.unique(group))


def _rest(table: BenchTable, tests: I64, axis: str) -> list[str]:
    """Return the keys by which tests are on different curves."""
    rest = [key for key in _varying(table, tests) if key != axis]
    if axis == "build_number":  # the commit is another name of the same
        return [key for key in rest if key not in BUILD]
    return rest


def curves(table: BenchTable, tests: I64, axis: str) -> tuple[BenchCurve, ...]:
    """Return the curves of some tests over a key, those of most points first.

    Tests that are alike in all of the configuration are one point.
    """
    tests = tests[_on_axis(table, axis, tests)]
    rest = _rest(table, tests, axis)
    group = _grouped(table, tests, rest)
    x = _values(table, axis, tests)
    order = np.lexsort((np.arange(len(tests)), x, group))
    labels = _labels(table, tests, group, rest, axis)
    result = []
    for rows in _parts(group[order]):
        part = order[rows]
        points = [
            _point(table, float(x[part[same][0]]), tests[part[same]])
            for same in _parts(x[part])
        ]
        result.append(BenchCurve(labels[int(group[part[0]])], tuple(points)))
    return tuple(sorted(result, key=lambda curve: -len(curve.points)))


def repetitions(table: BenchTable, tests: I64) -> tuple[BenchCurve, ...]:
    """Return a point for each of some tests, in their order, with its name."""
    group = np.arange(len(tests))
    labels = _labels(table, tests, group, _varying(table, tests), "")
    return tuple(
        BenchCurve(labels[i], (_point(table, np.nan, tests[i : i + 1]),))
        for i in range(len(tests))
    )


def _values(table: BenchTable, key: str, tests: I64) -> F64:
    column = table.columns[key]
    values: F64 = np.append(column.numbers, np.nan)[column.code[tests]]
    return values


def _on_axis(table: BenchTable, key: str, tests: I64) -> npt.NDArray[np.bool_]:
    values = _values(table, key, tests)
    return values > 0 if key in _SIZES else ~np.isnan(values)


def _varying(table: BenchTable, tests: I64) -> list[str]:
    """Return the keys of which some tests have several values, the best first."""
    keys = [
        key
        for key, column in table.columns.items()
        if key != TEST
        if len(tests) and (column.code[tests] != column.code[tests[0]]).any()
    ]
    last = [key for key in keys if key in _SHORT or key in BUILD]
    first = [key for key in _FIRST if key in keys]
    middle = [key for key in keys if key not in first and key not in last]
    return [*first, *middle, *last]


def _grouped(table: BenchTable, tests: I64, keys: Sequence[str]) -> I64:
    """Return the number of the configuration of each test."""
    group = np.zeros(len(tests), np.int64)
    for key in keys:
        column = table.columns[key]
        group = group * (len(column.texts) + 1) + column.code[tests] + 1
        group = np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return group


def _labels(
    table: BenchTable, tests: I64, group: I64, keys: Sequence[str], axis: str
) -> dict[int, str]:
    """Return a name of each configuration: the test, and what differs from others."""
    numbers, first = np.unique(group, return_index=True)
    heads = tests[first]
    sizes = ("n_prompt", "n_gen", "n_depth")
    names = [_test_name(table, int(i), axis) for i in heads]
    known = np.unique(np.array(names, np.str_), return_inverse=True)[1].reshape(-1)
    parts: list[list[str]] = [[name] if name else [] for name in names]
    for key in keys:
        column = table.columns[key]
        finer = known * (len(column.texts) + 1) + column.code[heads] + 1
        finer = np.unique(finer, return_inverse=True)[1].reshape(-1)
        if key in sizes or finer.max(initial=0) == known.max(initial=0):
            continue
        known = finer
        if key == "model_filename":
            column = replace(column, texts=_file_names(column.texts))
        for part, i in zip(parts, heads.tolist(), strict=True):
            part.append(_part(column, i))
    return {int(n): " · ".join(p) for n, p in zip(numbers, parts, strict=True)}


def _file_names(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the names of files, with as few folders as distinguish them."""
    parts = [re.split(r"[/\\]", path) for path in paths]
    for n in range(1, max(map(len, parts), default=0)):
        names = tuple("/".join(part[-n:]) for part in parts)
        if len(set(names)) == len(paths):
            return names
    return tuple(paths)


def _part(column: BenchColumn, i: int) -> str:
    text = column.text(i) or "none"
    is_name = column.key in (*_FIRST, *_SHORT, *BUILD)
    return text if is_name else f"{column.key} {text}"


def _test_name(table: BenchTable, i: int, axis: str) -> str:
    """Return the name of a test without what the axis shows: ``tg128``, ``pp``."""
    texts = {
        key: table.columns[key].text(i) if key in table.columns else ""
        for key in ("n_prompt", "n_gen", "n_depth")
    }
    parts = [
        word + ("" if key == axis else texts[key])
        for word, key in (("pp", "n_prompt"), ("tg", "n_gen"))
        if texts[key] not in ("", "0")
    ]
    name = "+".join(parts)
    if axis != "n_depth" and texts["n_depth"] not in ("", "0"):
        name += f" @ d{texts['n_depth']}"
    return name


def _parts(values: npt.NDArray[np.generic]) -> list[slice]:
    """Return the runs of equal values."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    ends = [*starts[1:].tolist(), len(values)][: len(starts)]
    return [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]


def _point(table: BenchTable, x: float, tests: I64) -> BenchPoint:
    samples = np.concatenate([table.samples(i) for i in tests.tolist()])
    is_whole = all(len(table.samples(i)) for i in tests.tolist())
    ids = tuple(tests.tolist())
    if not is_whole:
        stddev = float(table.stddev[tests[0]]) if len(tests) == 1 else np.nan
        return BenchPoint(
            x, float(table.mean[tests].mean()), (), None,
            None if np.isnan(stddev) else stddev, ids,
        )  # fmt: skip
    low, high = mean_intervals(samples, np.array([0, len(samples)]))
    known = len(samples) > 1
    interval = Interval(float(low[0]), float(high[0])) if known else None
    mean = float(samples.mean())
    return BenchPoint(x, mean, tuple(samples.tolist()), interval, None, ids)
