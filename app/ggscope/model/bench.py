"""Results of llama-bench: a row per test, with the keys of llama-bench."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RESULTS = frozenset(
    (
        "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns",
        "samples_ts",
    )
)  # fmt: skip
"""Keys that are no configuration: what was measured, and when."""
BUILD = frozenset(("build_commit", "build_number"))


@dataclass(frozen=True, slots=True, eq=False)
class BenchRuns:
    """Tests of llama-bench, in the order of the file.

    Attributes
    ----------
    columns : values by llama-bench's own key, one per test; None where the file has
        none for it. Numbers are numbers, `samples_ns` and `samples_ts` are tuples.
    n : number of tests.
    form : "json", "jsonl", "csv", "md" or "sql", as llama-bench calls its outputs.
    files : names of the files, where several were put together; else ().
    file : of each test its file, a position in `files`; () where there is one.
    """

    columns: Mapping[str, tuple[Any, ...]]
    n: int
    form: str
    files: tuple[str, ...] = ()
    file: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.n

    @property
    def n_repetitions(self) -> int:
        """Samples of all tests; 0 where the form has none of them."""
        samples = self.columns.get("samples_ns") or self.columns.get("samples_ts") or ()
        return sum(len(sample) for sample in samples if sample)

    def row(self, i: int) -> dict[str, Any]:
        """Return the values of a test by key, without those that the file lacks."""
        return {
            key: values[i]
            for key, values in self.columns.items()
            if values[i] is not None
        }

    def test(self, i: int) -> str:
        """Return what llama-bench calls a test: ``pp512``, ``tg128 @ d4096``."""
        stated = self._number("n_prompt", i), self._number("n_gen", i)
        parts = [
            f"{what}{n}" for what, n in zip(("pp", "tg"), stated, strict=True) if n
        ]
        depth = self._number("n_depth", i)
        return "+".join(parts) + (f" @ d{depth}" if depth else "")

    def take(self, rows: Sequence[int]) -> "BenchRuns":
        """Return some tests, without keys that none of them has, as of one file."""
        columns = {
            key: tuple(values[i] for i in rows) for key, values in self.columns.items()
        }
        known = {k: v for k, v in columns.items() if any(x is not None for x in v)}
        return BenchRuns(known, len(rows), self.form)

    def _number(self, key: str, i: int) -> int:
        value = self.columns[key][i] if key in self.columns else None
        return int(value) if isinstance(value, int | float) else 0


def together(parts: Sequence[tuple[str, BenchRuns]]) -> BenchRuns:
    """Return the tests of several files, one behind the other.

    Parameters
    ----------
    parts : name and tests of each file; files of one name are distinguished.
    """
    names = [name for name, _ in parts]
    files = tuple(
        name if names.count(name) == 1 else f"{name} ({names[:i].count(name) + 1})"
        for i, name in enumerate(names)
    )
    keys = dict.fromkeys(key for _, runs in parts for key in runs.columns)
    columns = {
        key: tuple(
            value
            for _, runs in parts
            for value in runs.columns.get(key, (None,) * len(runs))
        )
        for key in keys
    }
    forms = dict.fromkeys(runs.form for _, runs in parts)
    n = sum(len(runs) for _, runs in parts)
    of = tuple(i for i, (_, runs) in enumerate(parts) for _ in range(len(runs)))
    return BenchRuns(columns, n, "+".join(forms), files, of)
