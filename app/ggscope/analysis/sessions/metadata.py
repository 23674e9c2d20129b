"""What the metadata beside a trace says of it, and whether the trace agrees."""

import re
from collections.abc import Mapping
from dataclasses import replace

from ggscope.model.trace import (
    DeclaredMetric,
    JoinedFile,
    Trace,
    TraceInfo,
    stated_figure,
)

_RECORDS = {"total_entries", "num_entries", "n_entries", "entry_count", "entries",
            "total_records", "num_records", "n_records", "record_count"}  # fmt: skip
_SIZES = {"entry_size", "entry_size_bytes", "record_size", "record_size_bytes"}
_THREADS = {"n_threads", "num_threads", "thread_count"}
_BYTES = re.compile(r"\d{2,4}")


def with_metadata(trace: Trace, side: TraceInfo) -> Trace:
    """Return a trace whose last part is `side` with its facts.

    Facts join those of the trace, which win where both state one; counts of records and
    threads and the size of a record are figures with a verdict.
    """
    producer = {
        key if key not in trace.info.producer else f"{side.name} {key}": text
        for key, text in side.producer.items()
    }
    stated = replace(side, stated=_figures(trace, side.producer))
    *parts, last = trace.parts
    return replace(
        trace,
        info=replace(trace.info, producer={**trace.info.producer, **producer}),
        parts=(*parts, JoinedFile(stated, last.role, last.shift)),
    )


def _figures(trace: Trace, facts: Mapping[str, str]) -> tuple[DeclaredMetric, ...]:
    layout = _BYTES.match(trace.info.format_version)
    n_threads = int(trace.lanes.is_thread.sum())
    metrics: list[DeclaredMetric | None] = []
    for key, text in facts.items():
        word = key.rpartition(".")[2].lower()
        if not text.isascii() or not text.isdecimal():
            continue
        number = int(text)
        if word in _RECORDS:
            metrics.append(
                stated_figure("records", number, trace.info.n_records, place=key,
                              basis="records of the trace")
            )  # fmt: skip
        elif word in _SIZES:
            size = float(layout[0]) if layout else None
            metrics.append(
                stated_figure("size of a record", number, size, unit="B", place=key,
                              basis="its layout")
            )  # fmt: skip
        elif word in _THREADS:
            metrics.append(
                stated_figure("threads", number, n_threads or None, place=key,
                              basis="threads with records", at_least=True)
            )  # fmt: skip
    figures = (figure for figure in metrics if figure is not None)
    # Two keys may state the same, such as n_records and total_entries.
    return tuple({(f.name, f.stated): f for f in figures}.values())
