"""Time what the table, the search and the statistics do with one large trace.

    python packaging/bench_analysis.py TRACE [ROUNDS]

Prints JSON: medians, in seconds or milliseconds as the names say. Calls what the
views call, without a window.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ggscope.analysis.filters.masks import filter_mask, search
from ggscope.analysis.filters.text import parse_filter
from ggscope.analysis.order.table_order import OrderRequest, Sorting
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics import table as stats
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace

FILTER = "op=MUL_MAT dur>200us"
PATTERN = "/ffn_(gate|up)-1[0-9]/"
PAGE = 60
JUMPS = 100


def median_s(work: Callable[[], object], rounds: int) -> float:
    """Return the median of the seconds that `work` takes."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(trace: Trace, rounds: int) -> dict[str, float]:
    """Return all figures."""
    index = TraceIndex(trace)
    order = OrderRequest(index, Sorting())()
    by_duration = Sorting("duration", descending=True)
    chosen = parse_filter(FILTER, trace.clock.unit)

    def filtered() -> object:
        return OrderRequest(index, Sorting(), filter_mask(trace, chosen))()

    rng = np.random.default_rng(1)
    spans = [order.at(row) for row in rng.integers(0, len(order), JUMPS).tolist()]

    def jump() -> object:
        for span in spans:
            row = order.row_of(span)
            assert row is not None
            page = order.slice(row, row + PAGE)
            for span_on_page in page.tolist():
                trace.span_name(span_on_page)
        return None

    extent = trace.extent
    edge = extent.duration // 1000
    part = TimeRange(extent.start + edge, extent.end - edge)
    return {
        "n_spans": len(trace.spans),
        "jump_ms": median_s(jump, rounds) / JUMPS * 1e3,
        "sort_s": median_s(lambda: OrderRequest(index, by_duration)(), rounds),
        "filter_s": median_s(filtered, rounds),
        "search_s": median_s(lambda: search(trace, PATTERN), rounds),
        "statistics_ms": median_s(lambda: stats.stat_table(trace), rounds) * 1e3,
        "range_statistics_ms": median_s(
            lambda: stats.stat_table(trace, time=part), rounds
        )
        * 1e3,
    }


def main() -> int:
    """Measure and print."""
    trace = open_trace(Path(sys.argv[1]))
    figures = measure(trace, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
    print(json.dumps({name: float(f"{x:.4g}") for name, x in figures.items()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
