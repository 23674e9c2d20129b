"""Reader of llama-bench's results: a trace without spans that has `bench`."""

from collections.abc import Sequence

import msgspec

from ggscope.errors import CorruptError
from ggscope.model.bench import BenchRuns
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.bench import INFO
from ggscope.readers.bench.forms import Row, form_of, rows_of
from ggscope.readers.common.file_facts import file_trace, refuse_larger
from ggscope.readers.source import Source

_MAX_BYTES = 512 << 20
_MAX_PLACES = 12
_MAX_NUMBER = 1e18
_BEYOND = "beyond 1e18"
"""Stands for numbers that nothing can be computed with."""
_SAMPLES = ("samples_ns", "samples_ts")
_ABOUT = ("model_type", "backends", "cpu_info", "gpu_info", "build_commit")


class BenchReader:
    """Reads results of llama-bench."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the keys or column names of llama-bench."""
        if b"\0" in head.data:
            return NOT_MINE
        form = form_of(head.data.decode("utf-8-sig", "replace"))
        if not form:
            return NOT_MINE
        return Sniff(90, f"columns of llama-bench ({form})")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the tests.

        Raises
        ------
        CorruptError
            If there is no test.
        LimitExceededError
            If the file is larger than results ever are.
        """
        refuse_larger(source, _MAX_BYTES, "Split the file.")
        context.progress(0, source.size)
        text = source.read(0, source.size).decode("utf-8-sig", "replace")
        form = form_of(text)
        rows: list[Row] = []
        broken: list[int] = []
        odd: list[int] = []
        for i, (number, raw) in enumerate(rows_of(text, form)):
            if not i % 1000:
                context.check_cancelled()
            if raw is None or not _is_sound(row := _cleaned(raw)):
                broken.append(number)
                continue
            rows.append(row)
            if _has_odd_samples(raw, row):
                odd.append(number)
        if not rows:
            raise CorruptError(
                "no row of llama-bench can be read.",
                offset=0,
                hint="Is this what llama-bench -o json, jsonl, csv, md or sql printed?",
            )
        context.progress(source.size, source.size)
        builder = TraceBuilder()
        _warn(builder, form, broken, odd)
        keys = list(dict.fromkeys(key for row in rows for key in row))
        columns = {key: tuple(row.get(key) for row in rows) for key in keys}
        builder.bench = BenchRuns(columns, len(rows), form)
        events = {"runs": len(rows), "repetitions": builder.bench.n_repetitions}
        return file_trace(
            builder, INFO, source, len(rows), events, version=form,
            producer=_about(rows),
        )  # fmt: skip


def _warn(builder: TraceBuilder, form: str, broken: list[int], odd: list[int]) -> None:
    """Note damaged rows, and where they are."""
    if broken:
        builder.warn(
            Severity.DATA_LOSS,
            "broken_bench_row",
            "rows of llama-bench are cut or have no speed; they were skipped.",
            count=len(broken),
            place=_places(form, broken),
        )
    if odd:
        builder.warn(
            Severity.DATA_LOSS,
            "bench_samples",
            "repetitions are no times or speeds, or samples_ns and samples_ts have "
            "not as many; those that are numbers count.",
            count=len(odd),
            place=_places(form, odd),
        )


def _places(form: str, numbers: list[int]) -> str:
    """Return where rows are: ``lines 3, 7, 12``, the first ones of many."""
    word = "test" if form == "json" else "line"
    shown = ", ".join(f"{number:,}" for number in numbers[:_MAX_PLACES])
    more = f" and {n:,} more" if (n := len(numbers) - _MAX_PLACES) > 0 else ""
    return f"{word}{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _cleaned(row: Row) -> Row:
    """Return a row with its samples as tuples of numbers above 0.

    Lists and objects of other keys, as later builds may have them, are JSON text.
    """
    clean: Row = {
        key: _plain(value)
        if isinstance(value, str | int | float | bool)
        else msgspec.json.encode(value).decode()
        for key, value in row.items()
        if value is not None and key not in _SAMPLES
    }
    for key in _SAMPLES:
        if row.get(key) is not None:
            clean[key] = tuple(n for n in _samples(row, key) if _is_amount(n))
    return clean


def _samples(row: Row, key: str) -> Sequence[object]:
    """Return the repetitions of a row; one that is no list counts as the only one."""
    value = row[key]
    return value if isinstance(value, list) else [value]


def _plain(value: str | float | bool) -> str | float | bool:
    """Return a value as it is, or `_BEYOND`."""
    if isinstance(value, str | bool) or abs(value) < _MAX_NUMBER:
        return value
    return _BEYOND


def _is_amount(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 < value < _MAX_NUMBER


def _has_odd_samples(row: Row, clean: Row) -> bool:
    counts = set()
    for key in _SAMPLES:
        if row.get(key) is None:
            continue
        samples = _samples(row, key)
        counts.add(len(samples))
        if len(clean[key]) < len(samples):
            return True
    return len(counts) > 1


def _is_sound(row: Row) -> bool:
    speed = row.get("avg_ts")
    if isinstance(speed, bool) or not isinstance(speed, int | float):
        return bool(row.get("samples_ts"))
    return speed >= 0


def _about(rows: list[Row]) -> dict[str, str]:
    """Return the values that are the same in all rows, of some keys."""
    about = {}
    for key in _ABOUT:
        values = {str(row[key]) for row in rows if row.get(key)}
        if len(values) == 1:
            about[key] = values.pop()
    return about
