"""Tests of llama-bench as columns: sorted and filtered without a look at each row."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.bench.comparison import Speed, speed_of
from ggscope.analysis.bench.intervals import mean_intervals
from ggscope.analysis.sorting import sorted_rows
from ggscope.analysis.workers import Watcher
from ggscope.errors import QueryError
from ggscope.model.bench import RESULTS, BenchRuns
from ggscope.model.tables import I64

F64 = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
FILE, TEST, SPEED = "file", "test", "t/s"
"""Columns that llama-bench has no key for."""
_OF_SPEED = (
    "samples_ns", "samples_ts", "avg_ts", "stddev_ts", "n_prompt", "n_gen",
)  # fmt: skip
_BATCH = 4096
_TERM = re.compile(r"([\w/]+)\s*(>=|<=|!=|=|>|<)\s*(.+)")


@dataclass(frozen=True, slots=True, eq=False)
class BenchColumn:
    """A column of the table.

    Attributes
    ----------
    texts : distinct values as text, ascending: numbers by size, before words.
    numbers : float64[k], the same as numbers; NaN for words.
    code : int32[n], position of each test's value in them; -1 = none.
    """

    key: str
    texts: tuple[str, ...]
    numbers: F64
    code: npt.NDArray[np.int32]

    def text(self, i: int) -> str:
        """Return the value of a test as text; "" = none."""
        code = int(self.code[i])
        return self.texts[code] if code >= 0 else ""

    def number(self, i: int) -> float | None:
        """Return the value of a test as a number; None where it is none."""
        code = int(self.code[i])
        number = float(self.numbers[code]) if code >= 0 else np.nan
        return None if np.isnan(number) else number

    @property
    def varies(self) -> bool:
        """Whether tests have several values, or some have none."""
        return len(self.texts) > 1 or (
            len(self.texts) == 1 and bool((self.code < 0).any())
        )


@dataclass(frozen=True, eq=False)
class BenchTable:
    """All tests of a session; n of them, m repetitions.

    Attributes
    ----------
    columns : by key: file and test, then the configuration.
    mean, stddev : float64[n], tokens per second; NaN where the file does not say.
    sample : float64[m], tokens per second of each repetition, test after test.
    first : int64[n + 1], test i has ``sample[first[i]:first[i + 1]]``.
    """

    runs: BenchRuns
    columns: dict[str, BenchColumn]
    mean: F64
    stddev: F64
    sample: F64
    first: I64

    def __len__(self) -> int:
        return len(self.mean)

    @cached_property
    def intervals(self) -> tuple[F64, F64]:
        """Interval of each mean, float64[n] twice; NaN where it is not known."""
        return mean_intervals(self.sample, self.first)

    @cached_property
    def extremes(self) -> tuple[F64, F64]:
        """Slowest and fastest repetition, float64[n] twice; NaN without any."""
        n = len(self)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        of = np.repeat(np.arange(n), np.diff(self.first))
        np.minimum.at(low, of, self.sample)
        np.maximum.at(high, of, self.sample)
        has_none = np.diff(self.first) == 0
        low[has_none] = high[has_none] = np.nan
        return low, high

    @cached_property
    def shares(self) -> F64:
        """Speed of each test as a share of the fastest of the same test, float64[n]."""
        code = self.columns[TEST].code
        fastest = np.zeros(len(self.columns[TEST].texts))
        np.maximum.at(fastest, code, np.nan_to_num(self.mean))
        best = fastest[code]
        shares: F64 = np.divide(
            self.mean, best, out=np.zeros(len(self)), where=best > 0
        )
        return shares

    def samples(self, i: int) -> F64:
        """Return the speed of each repetition of a test."""
        return self.sample[self.first[i] : self.first[i + 1]]

    def speed(self, i: int) -> Speed:
        """Return the speed of a test."""
        return speed_of(self.runs, i)

    def order(self, key: str, *, is_down: bool = False) -> I64:
        """Return all tests sorted by a column, those without a value last.

        Raises KeyError for an unknown key; speeds are `SPEED`, ``±`` and ``range``.
        """
        if key in self.columns:
            return sorted_rows(self.columns[key].code, is_down=is_down)
        values = {
            SPEED: self.mean, "±": self.stddev, "range": self.extremes[0],
            "95 %": self.intervals[0],
        }[key]  # fmt: skip
        return sorted_rows(values, is_down=is_down)

    def matches(self, text: str) -> Bools:
        """Return which tests a filter lets through.

        Words must all be in a value of the test; ``n_depth>=4096``, ``t/s<100`` and
        ``type_k=f16`` compare one column. Words in quotes keep their spaces.

        Raises
        ------
        QueryError
            If a comparison names no column, or compares words by size.
        """
        is_match = np.ones(len(self), np.bool_)
        for term in _terms(text):
            match = _TERM.fullmatch(term)
            is_match &= (
                self._has_word(term)
                if match is None
                else self._compared(*match.groups())
            )
        return is_match

    def _has_word(self, word: str) -> Bools:
        is_match, needle = np.zeros(len(self), np.bool_), word.casefold()
        for column in self.columns.values():
            hit = [needle in text.casefold() for text in column.texts]
            if any(hit):
                is_match |= np.append(hit, False)[column.code]
        return is_match

    def _compared(self, key: str, sign: str, text: str) -> Bools:
        if key == SPEED:
            return _compare(self.mean, sign, _number_of(key, text))
        column = self.columns.get(key)
        if column is None:
            known = ", ".join([SPEED, *self.columns])
            raise QueryError(f"{key} is no column. Columns: {known}.")
        if sign in ("=", "!="):
            needle = text.casefold()
            same = [value.casefold() == needle for value in column.texts]
            hit = np.array(same, np.bool_)
            hit |= column.numbers == _number_or_nan(text)
            is_same = np.append(hit, False)[column.code]
            return is_same if sign == "=" else ~is_same
        hit = _compare(column.numbers, sign, _number_of(key, text))
        return np.append(hit, False)[column.code]


def bench_table(runs: BenchRuns, watcher: Watcher | None = None) -> BenchTable:
    """Return the table of some tests.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    n, parts = len(runs), list[tuple[float, ...]]()
    mean, stddev = np.full((2, n), np.nan)
    # A row of all keys would be made for each test.
    known = {key: runs.columns[key] for key in _OF_SPEED if key in runs.columns}
    speeds = BenchRuns(known, n, runs.form)
    for i in range(n):
        if watcher is not None and not i % _BATCH:
            watcher.progress(i, n)
        speed = speed_of(speeds, i)
        mean[i] = speed.mean
        stddev[i] = (
            np.nan if speed.stddev is None or len(speed.samples) == 1 else speed.stddev
        )
        parts.append(speed.samples)
    first = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    sample = np.array([x for part in parts for x in part], np.float64)
    columns = {
        key: _column(key, values)
        for key, values in runs.columns.items()
        if key not in RESULTS
    }
    own = {TEST: _tests(runs)}
    if runs.files:
        own = {FILE: _column(FILE, tuple(runs.files[i] for i in runs.file)), **own}
    return BenchTable(runs, own | columns, mean, stddev, sample, first)


def _tests(runs: BenchRuns) -> BenchColumn:
    """Return the column of the names of tests, in the order of their sizes."""
    names = [runs.test(i) for i in range(len(runs))]
    sizes: dict[str, tuple[int, ...]] = {}
    for i, name in enumerate(names):
        if name not in sizes:
            row = runs.row(i)
            sizes[name] = tuple(
                int(row[key]) if isinstance(row.get(key), int | float) else 0
                for key in ("n_gen", "n_prompt", "n_depth")
            )
    texts = tuple(sorted(sizes, key=lambda name: (sizes[name], name)))
    place = {name: at for at, name in enumerate(texts)}
    code = np.array([place[name] for name in names], np.int32)
    return BenchColumn(TEST, texts, np.full(len(texts), np.nan), code)


def _column(key: str, values: tuple[Any, ...]) -> BenchColumn:
    distinct = dict.fromkeys(map(_key_of, values))
    distinct.pop(None, None)
    ordered = sorted(distinct, key=_sort_key)
    place: dict[Any, int] = {value: at for at, value in enumerate(ordered)}
    place[None] = -1
    code = np.array([place[_key_of(value)] for value in values], np.int32)
    numbers = [float(v) if isinstance(v, int | float) else np.nan for v in ordered]
    texts = tuple(_text(value) for value in ordered)
    return BenchColumn(key, texts, np.array(numbers, np.float64), code)


def _key_of(value: Any) -> Any:
    """Return a value as all versions of llama-bench mean it: true is 1."""
    return int(value) if isinstance(value, bool) else value


def _sort_key(value: Any) -> tuple[int, float, str]:
    is_number = isinstance(value, int | float)
    return (0, float(value), "") if is_number else (1, 0.0, str(value))


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _terms(text: str) -> list[str]:
    """Return the words of a filter; signs hold what is beside them together."""
    joined = re.sub(r"\s*(>=|<=|!=|=|>|<)\s*", r"\1", text.strip())
    parts = re.findall(r'(?:"[^"]*"|\S)+', joined)
    return [part.replace('"', "") for part in parts if part.replace('"', "")]


def _number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _number_of(key: str, text: str) -> float:
    number = _number_or_nan(text)
    if np.isnan(number):
        raise QueryError(f"{key} is compared with {text!r}, which is no number.")
    return number


_SIGNS: dict[str, Callable[[F64, float], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
    "!=": operator.ne, "=": operator.eq,
}  # fmt: skip


def _compare(values: F64, sign: str, number: float) -> Bools:
    holds: Bools = _SIGNS[sign](values, number)
    return holds
