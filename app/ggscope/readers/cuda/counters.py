"""Counters of CUDA calls: rates of copies, and bytes that are allocated.

Calls come in the order in which they end, and threads write in no strict order. What
comes late takes its place among the samples; only those behind it are written anew.
"""

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.growing import Growing
from ggscope.model.tables import F64, I64, U64, CounterShape
from ggscope.readers.common.interval_pairing import neighbours

_NEVER = np.iinfo(np.int64).max


class RateCounter:
    """A rate that holds while a call lasts, and is unknown between calls."""

    def __init__(self, builder: TraceBuilder, name: str) -> None:
        self._builder, self._name = builder, name
        self._series = -1
        self._begin, self._finish, self._line, self._sample = (
            Growing(np.int64) for _ in range(4)
        )
        self._rate = Growing(np.float64)
        self._time, self._value = Growing(np.int64), Growing(np.float64)

    def add(self, begin: I64, finish: I64, line: I64, rate: F64) -> None:
        """Add calls in any order.

        Parameters
        ----------
        begin, finish : ticks.
        line : that of the begin, which orders calls that begin at one tick.
        rate : GB/s.
        """
        if not len(begin):
            return
        # The gap behind the call before depends on the one that follows it.
        first = int(np.searchsorted(self._begin.view(), begin.min()))
        first = max(first - 1, 0)
        columns = (self._begin, self._finish, self._line, self._rate)
        begin, finish, line, rate = (
            np.concatenate([column.view()[first:], new])
            for column, new in zip(columns, (begin, finish, line, rate), strict=True)
        )
        order = np.lexsort((line, begin))
        begin, finish, line = begin[order], finish[order], line[order]
        rate = rate[order]
        at = int(self._sample.view()[first]) if first < len(self._sample) else 0
        for column, values in zip(columns, (begin, finish, line, rate), strict=True):
            column.put(first, values)
        finish = np.maximum(finish, begin)
        has_gap = finish < np.append(begin[1:], _NEVER)
        gaps = np.flatnonzero(has_gap)
        n_before: I64 = np.cumsum(has_gap) - has_gap
        self._sample.put(first, at + np.arange(len(begin)) + n_before)
        self._time.put(at, np.insert(begin, gaps + 1, finish[gaps]))
        self._value.put(at, np.insert(rate, gaps + 1, np.nan))
        self._series = _put(
            self._builder, self._series, self._name, "GB/s", self._time, self._value
        )


class AllocatedCounter:
    """Bytes in use, of allocations whose size and address the file states."""

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._series = -1
        self._finish, self._line, self._amount, self._total = (
            Growing(np.int64) for _ in range(4)
        )
        self._address = Growing(np.uint64)
        self._in_use: dict[int, int] = {}
        self._has_any = False

    def add(self, finish: I64, line: I64, address: U64, amount: I64) -> None:
        """Add calls in any order.

        Parameters
        ----------
        finish : ticks when they returned; `line` : that of the end, which orders calls
            that return at one tick.
        amount : bytes that were allocated at `address`, -1 where it was freed.
        """
        if not len(finish):
            return
        self._has_any |= bool((amount >= 0).any())
        first = len(self._finish)
        # Lines go on, so that calls that return at one tick are in order.
        if first and finish.min() < self._finish.view()[-1]:
            # What was at an address before may be another size.
            first = 0
            self._in_use.clear()
            finish = np.concatenate([self._finish.view(), finish])
            line = np.concatenate([self._line.view(), line])
            address = np.concatenate([self._address.view(), address])
            amount = np.concatenate([self._amount.view(), amount])
        order = np.lexsort((line, finish))
        finish, address, amount = finish[order], address[order], amount[order]
        self._finish.put(first, finish)
        self._line.put(first, line[order])
        self._address.put(first, address)
        self._amount.put(first, amount)
        before = int(self._total.view()[first - 1]) if first else 0
        self._total.put(first, before + np.cumsum(self._deltas(address, amount)))
        if self._has_any:
            self._series = _put(
                self._builder, self._series, "allocated by MemAlloc", "B",
                self._finish, self._total,
            )  # fmt: skip

    def _deltas(self, address: U64, amount: I64) -> I64:
        """Return by how many bytes calls change what is in use.

        An address that comes again without having been freed was freed unseen.
        """
        known = [a for a in np.unique(address).tolist() if a in self._in_use]
        address = np.concatenate([np.array(known, np.uint64), address])
        sizes = np.array([self._in_use[a] for a in known], np.int64)
        all_amounts = np.concatenate([sizes, amount])
        before, _ = neighbours(address.view(np.int64))
        is_replaced = (before >= 0) & (all_amounts[before] >= 0)
        delta: I64 = np.maximum(all_amounts, 0)
        delta -= np.where(is_replaced, all_amounts[before], 0)
        if self._builder.grows:
            self._in_use |= dict(
                zip(address.tolist(), all_amounts.tolist(), strict=True)
            )
            for freed in address[all_amounts < 0].tolist():
                if self._in_use.get(freed, 0) < 0:
                    del self._in_use[freed]
        return delta[len(known) :]


def _put(
    builder: TraceBuilder,
    series: int,
    name: str,
    unit: str,
    time: Growing,
    value: Growing,
) -> int:
    """Give a counter its samples, and add it where there is none; return its number."""
    if series < 0:
        return builder.add_counter(
            name, unit, CounterShape.LEVEL, time.view(), value.view()
        )
    builder.set_counter(series, time.view(), value.view())
    return series
