"""Scans ``.ggmlviz`` bytes and keeps where every event starts."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import ggmlviz_files as viz
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.ggmlviz.columns import (
    EventCollector,
    EventOptions,
)
from ggscope.readers.ggmlviz.layouts import HEADER_BYTES, LAYOUT_BY_ID
from ggscope.readers.ggmlviz.walk import Gap, Stop, StreamScan, Walk, Window
from oracles.ggmlviz_collector import NumpyCollector

COLUMNS = ("kind", "time", "place", "pointer", "number", "label")


@dataclass(frozen=True)
class Found:
    """What a scan found.

    Attributes
    ----------
    offsets : where each event starts, then where the last one ends.
    """

    offsets: np.ndarray
    stop: Stop
    gaps: tuple[Gap, ...]
    scan: StreamScan
    collector: EventCollector | NumpyCollector

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def content(self) -> dict[str, Any]:
        """Return all that was found, to be compared."""
        columns, places = self.collector.columns, self.collector.places
        anchors = self.scan.anchors()
        return {
            **{name: getattr(columns, name)[: columns.n].tolist() for name in COLUMNS},
            "sizes": columns.sizes[: columns.n_sizes].tolist(),
            "threads": places.threads[: places.n].tolist(),
            "backends": places.backends[: places.n].tolist(),
            "labels": self.collector.labels.raw(),
            "offsets": self.offsets.tolist(),
            "stop": self.stop,
            "gaps": self.gaps,
            "anchors": (anchors.rows.tolist(), anchors.offsets.tolist(), anchors.n),
        }


class _Noting:
    """Passes events on and notes where they start."""

    def __init__(self, collector: EventCollector | NumpyCollector) -> None:
        self.collector = collector
        self.window_bytes = collector.window_bytes
        self.starts = np.zeros(0, np.int64)

    def take(self, walk: Walk, at: int, until: int) -> tuple[np.ndarray, int, Stop]:
        result, at, stop = self.collector.take(walk, at, until)
        self.starts = np.append(self.starts, result)
        return result, at, stop

    def drop(self, n: int) -> None:
        self.collector.drop(n)
        self.starts = self.starts[: len(self.starts) - n]


def find_events(
    data: bytes,
    layout: str = "c64",
    *,
    walker_bytes: int = 1 << 14,
    compiled_bytes: int = 0,
    window_bytes: int = 0,
    max_label: int = 4096,
    missing: int = 0,
    options: EventOptions | None = None,
    context: ReadContext | None = None,
) -> Found:
    """Scan a whole file in memory.

    Parameters
    ----------
    walker_bytes : of the numpy collector.
    compiled_bytes : not 0: bytes per block of the compiled collector.
    missing : so many bytes are cut off as soon as the size is known.
    """
    options, capacity = options or EventOptions(), 3
    collector: EventCollector | NumpyCollector
    if compiled_bytes:
        collector = EventCollector(
            options, capacity, LAYOUT_BY_ID[layout], window_bytes=compiled_bytes
        )
    else:
        collector = NumpyCollector(options, capacity, walker_bytes=walker_bytes)
    noting = _Noting(collector)
    window_size = window_bytes or collector.window_bytes + 2 * max_label
    source = viz.InMemory(data[: len(data) - missing])
    window = Window(source, len(data), window_size)
    walk = Walk(window, LAYOUT_BY_ID[layout], max_label)
    scan = StreamScan(walk, noting, HEADER_BYTES, stop_row=options.stop)
    for _ in scan.stretches(context or ReadContext()):
        pass
    offsets = np.append(noting.starts, scan.position)
    return Found(offsets, scan.stop, tuple(scan.gaps), scan, collector)


def content(trace: Trace | str) -> object:
    """Return all that a trace holds, to be compared."""
    if isinstance(trace, str):
        return trace
    tables = (trace.spans, trace.markers, trace.tensors, trace.buffers, *trace.counters)
    return (
        [
            (f.name, value.dtype.name, value.tolist())
            if isinstance(value, np.ndarray)
            else (f.name, value)
            for table in tables
            for f in fields(table)
            for value in [getattr(table, f.name)]
        ],
        trace.strings.texts(), trace.lanes, trace.extent, trace.clock, trace.warnings,
        trace.ops, [getattr(trace.info, f.name) for f in fields(trace.info)],
    )  # fmt: skip
