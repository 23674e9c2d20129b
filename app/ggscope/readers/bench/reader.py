"""Reader of llama-bench's results: a trace without spans that has `bench`."""

import math

from ggscope.errors import CorruptError
from ggscope.model.bench import BenchRuns
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.bench import INFO
from ggscope.readers.bench.forms import Row, form_of, rows_of
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.source import Source

_MOST_BYTES = 512 << 20
_ABOUT = ("model_type", "backends", "cpu_info", "gpu_info", "build_commit")


class BenchReader:
    """Reads results of llama-bench."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by the keys or column names of llama-bench."""
        if b"\0" in head.data:
            return NOT_MINE
        form = form_of(head.data.decode("utf-8", "replace"))
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
        refuse_larger(source, _MOST_BYTES, "Split the file.")
        context.progress(0, source.size)
        text = source.read(0, source.size).decode("utf-8", "replace")
        form = form_of(text)
        rows: list[Row] = []
        n_broken = 0
        for number, row in enumerate(rows_of(text, form)):
            if not number % 1000:
                context.check_cancelled()
            if row is None or not _is_sound(row):
                n_broken += 1
            else:
                rows.append(row)
        if not rows:
            raise CorruptError(
                "no row of llama-bench can be read.",
                offset=0,
                hint="Is this what llama-bench -o json, jsonl, csv, md or sql printed?",
            )
        context.progress(source.size, source.size)
        builder = TraceBuilder()
        if n_broken:
            builder.warn(
                Severity.DATA_LOSS,
                "broken_bench_row",
                "rows of llama-bench are cut or have no speed; they were skipped.",
                count=n_broken,
            )
        keys = list(dict.fromkeys(key for row in rows for key in row))
        columns = {key: tuple(row.get(key) for row in rows) for key in keys}
        builder.bench = BenchRuns(columns, len(rows), form)
        events = {"runs": len(rows), "repetitions": builder.bench.n_repetitions}
        return builder.snapshot(
            trace_info(
                self.info,
                source,
                len(rows),
                version=form,
                producer=_about(rows),
                summary={"events": events},
            )
        )


def _is_sound(row: Row) -> bool:
    speed = row.get("avg_ts")
    if not isinstance(speed, int | float):
        return bool(row.get("samples_ts"))
    return math.isfinite(speed)


def _about(rows: list[Row]) -> dict[str, str]:
    """Return the values that are the same in all rows, of some keys."""
    found = {}
    for key in _ABOUT:
        values = {str(row[key]) for row in rows if row.get(key)}
        if len(values) == 1:
            found[key] = values.pop()
    return found
