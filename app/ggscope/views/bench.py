"""Benchmarks: a table of the tests of llama-bench."""

from ggscope.analysis.bench import Speed, speed_of, varying_keys
from ggscope.analysis.workers import Watcher
from ggscope.model.bench import RESULTS, BenchRuns
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted
from ggscope.views.base.table_pane import MAX_ROWS, TableContents, TablePane
from ggscope.views.base.text_table import Cell, Heading

_FIRST = ("model_type", "backends")
_TESTED = {"n_prompt", "n_gen", "n_depth"}


class BenchView(TablePane):
    """The tests of a file: what varies among them first, then what is the same."""

    name = "Benchmarks"
    nothing = "No results of llama-bench in this file."

    def contents(self, trace: Trace, watcher: Watcher) -> TableContents | None:
        """Return a row per test, in the order of the file."""
        runs = trace.bench
        if runs is None:
            return None
        varying = varying_keys([runs])
        keys = [key for key in (*_FIRST, *varying) if key in runs.columns]
        keys += [key for key in runs.columns if key not in RESULTS | {*keys}]
        keys = [key for key in dict.fromkeys(keys) if key not in _TESTED]
        speeds = [speed_of(runs, i) for i in range(min(len(runs), MAX_ROWS))]
        fastest: dict[str, float] = {}
        for i, speed in enumerate(speeds):
            test = runs.test(i)
            fastest[test] = max(fastest.get(test, 0.0), speed.mean)
        rows = []
        for i, speed in enumerate(speeds):
            if not i % 500:
                watcher.progress(i, len(speeds))
            rows.append(_cells(runs, i, keys, speed, fastest[runs.test(i)]))
        headings = (
            Heading("test", "pp: prompt tokens, tg: generated tokens, @ d: depth", 120),
            Heading(
                "t/s", "tokens per second, mean of the repetitions; the bar: share of "
                "the fastest of the same test", 92, right=True, largest_first=True,
            ),
            Heading("±", "standard deviation", 72, right=True, largest_first=True),
            Heading("range", "slowest and fastest repetition", 132, right=True),
            *(Heading(key, _same(key, varying), 96) for key in keys),
        )  # fmt: skip
        about = format_counted(len(runs), "test")
        if runs.n_repetitions:
            about += f", {format_counted(runs.n_repetitions, 'repetition')}"
        if len(rows) < len(runs):
            about += f"; the first {format_count(len(rows))} are listed"
        return TableContents(headings, tuple(rows), range(len(rows)), len(runs), about)


def _same(key: str, varying: tuple[str, ...]) -> str:
    return f"{key}: several values" if key in varying else f"{key}: the same in all"


def _cells(
    runs: BenchRuns, i: int, keys: list[str], speed: Speed, fastest: float
) -> tuple[Cell, ...]:
    row = runs.row(i)
    low_high = speed.samples and (min(speed.samples), max(speed.samples))
    share = speed.mean / fastest if fastest > 0 else 0.0
    stddev = None if len(speed.samples) == 1 else speed.stddev
    return (
        Cell(runs.test(i), sort=runs.test(i)),
        Cell(f"{speed.mean:,.2f}", speed.mean, speed.mean, bar=share),
        Cell("" if stddev is None else f"{stddev:,.2f}", stddev, stddev),
        Cell(
            f"{low_high[0]:,.2f} – {low_high[1]:,.2f}" if low_high else "",
            low_high[0] if low_high else None,
        ),
        *(_value(row.get(key)) for key in keys),
    )


def _value(value: object) -> Cell:
    if value is None:
        return Cell("")
    number = value if isinstance(value, int | float) else None
    return Cell(str(value), sort=str(value) if number is None else float(number))
