"""What is read often, rarely and never, with the traffic of the KV cache."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.completeness.coverage import TraceCoverage, shown_coverage
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.reads.file_blocks import read_sequence
from ggscope.analysis.reads.hotness import (
    DiskOrder,
    Heat,
    RowReads,
    Seeks,
    SpaceTotals,
    UntouchedBytes,
    cold,
    disk_order,
    heat,
    is_cache,
    row_reads,
    seeks,
    space_totals,
)
from ggscope.analysis.reads.op_io import Direction, op_accesses
from ggscope.analysis.statistics.token_layers import TokenLayers, token_layers
from ggscope.analysis.workers import Watcher
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange


@dataclass(frozen=True, slots=True, eq=False)
class KvTraffic:
    """Reads and writes of the KV cache by token; int64[k] each.

    Attributes
    ----------
    tokens : numbers (of ubatches in recordings) whose ops touch the cache; -1 = none.
    read, written : known bytes.
    unknown_read, unknown_written : at most so many further bytes: reads are of padded
        views, and writes of a few rows.
    n_reads, n_writes : accesses.
    unsized_reads, unsized_writes : those of them of unknown size.
    """

    tokens: I64
    read: I64
    written: I64
    unknown_read: I64
    unknown_written: I64
    n_reads: I64
    n_writes: I64
    unsized_reads: I64
    unsized_writes: I64

    def n_tokens(self, trace: Trace) -> int:
        """Return the number of tokens; a ubatch counts with those that it holds."""
        ubatch = trace.batch_tokens.ubatch
        if not len(ubatch):
            return len(self.tokens)
        return int(np.isin(ubatch, self.tokens).sum())


@dataclass(frozen=True, slots=True, eq=False)
class HotCold:
    """What is read often, rarely and never in a trace or a range of it.

    Attributes
    ----------
    kv : reads and writes of the KV cache.
    layers : layers by tokens, or by passes where there is one token.
    coverage : what the trace leaves out.
    """

    heat: Heat
    cold: UntouchedBytes
    seeks: Seeks
    order: DiskOrder
    totals: SpaceTotals
    rows: tuple[RowReads, ...]
    kv: KvTraffic
    layers: TokenLayers
    coverage: TraceCoverage


def hot_cold(
    trace: Trace, time: TimeRange | None = None, watcher: Watcher | None = None
) -> HotCold:
    """Return what is read often, rarely and never.

    Parameters
    ----------
    time : only ops that start in it.

    Raises
    ------
    Cancelled
        From the watcher.
    """
    places = file_map(trace)
    reads = heat(trace, time=time, places=places)
    sequence = read_sequence(trace, places, time=time, watcher=watcher)
    coverage = shown_coverage(trace, time)
    return HotCold(
        reads,
        cold(reads, coverage),
        seeks(places, sequence),
        disk_order(places),
        space_totals(trace, time),
        tuple(row_reads(trace, t, time) for t in _tables(trace, reads)),
        kv_traffic(trace, time),
        _layers(trace, time, watcher),
        coverage,
    )


def _layers(
    trace: Trace, time: TimeRange | None, watcher: Watcher | None
) -> TokenLayers:
    by_token = token_layers(trace, time=time, watcher=watcher)
    if len(by_token.tokens) > 1 or trace.info.n_passes < 2:
        return by_token
    return token_layers(trace, "pass", time=time, watcher=watcher)


def _tables(trace: Trace, reads: Heat) -> list[int]:
    """Return the rows of the embedding tables that are accessed."""
    used = np.flatnonzero(reads.accesses > 0).tolist()
    names = trace.tensors.name
    return [
        t
        for t in used
        if trace.strings[int(names[t])].startswith("token_embd")
        and int(trace.tensors.offset[t]) >= 0
    ]


def kv_traffic(trace: Trace, time: TimeRange | None = None) -> KvTraffic:
    """Return reads and writes of the KV cache by token."""
    spans, table = trace.spans, op_accesses(trace)
    is_kv = is_cache(trace, table)
    values = [
        np.append(table.per_entry(np.where(is_kv, column, 0)), 0)
        for column in (
            table.known_of(Direction.READ),
            table.known_of(Direction.WRITE),
            table.unknown_of(Direction.READ),
            table.unknown_of(Direction.WRITE),
            (table.direction == Direction.READ).astype(np.int64),
            (table.direction == Direction.WRITE).astype(np.int64),
            np.where(table.direction == Direction.READ, table.unsized, 0),
            np.where(table.direction == Direction.WRITE, table.unsized, 0),
        )
    ]
    touches = np.append(table.per_entry((is_kv & table.is_access).astype(np.int64)), 0)
    column = table.counted_entries()
    chosen = touches[column] > 0
    if time is not None:
        chosen &= (spans.start >= time.start) & (spans.start < time.end)
    ids = np.flatnonzero(chosen)
    none = np.full(len(ids), -1, np.int64)
    token = none if spans.token is None else spans.token[ids].astype(np.int64)
    tokens, at = np.unique(token, return_inverse=True)
    sums = np.zeros((len(values), len(tokens)), np.int64)
    for total, per_entry in zip(sums, values, strict=True):
        np.add.at(total, at, per_entry[column[ids]])
    return KvTraffic(tokens, *sums)
