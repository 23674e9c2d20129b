"""Statistics of every trace of the corpus: tables, pivot tables and histograms agree.

Each cell, each bar and each sum is counted once more, span by span.
"""

import json
from collections import Counter

import numpy as np
import pytest

import ggscope
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.reads.op_io import is_repeated
from ggscope.analysis.statistics.amounts import AMOUNTS, amounts
from ggscope.analysis.statistics.distribution import distribution
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.statistics.pivot import pivot
from ggscope.analysis.statistics.table import stat_table
from ggscope.model.selection import By, Filter
from ggscope.model.tables import Quality, quality_of
from support import corpus_path, need_corpus

FORMATS = ("ggmlviz", "npu-json", "tensor-trace-bin")
_MAX_BYTES = 4 << 20


def traces() -> list[str]:
    """Return the traces that are not too large to count span by span."""
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text("utf-8"))
    return [
        entry["path"]
        for entry in index
        if entry["format"] in FORMATS
        and not entry["expect"].get("error")
        and (folder / entry["path"]).is_file()
        and (folder / entry["path"]).stat().st_size < _MAX_BYTES
    ]


BY: tuple[By, ...] = (
    "name", "layer", "tensor", "type", "shape", "token", "thread", "phase", "expert",
    "backend",
)  # fmt: skip


@pytest.mark.parametrize("path", traces() or [""])
def test_rows_cells_and_bars_add_up_to_the_ops(path):
    try:
        trace = ggscope.open(need_corpus() / path)
    except ggscope.TraceError:
        pytest.skip("it is damaged on purpose")
    s = trace.spans
    timed = (s.op >= 0) & (quality_of(s.flags) <= Quality.DERIVED)
    ticks = np.where(timed, s.end - s.start, 0)
    for by in BY:
        if not has_groups(trace, by):
            continue
        table, cells = stat_table(trace, by), pivot(trace, by, "op")
        is_lane = by in ("thread", "backend")  # leaves out ops on other lanes
        if not is_lane:
            assert table.all.total == int(ticks.sum()), by
        assert sum(row.total for row in table.rows) == table.all.total
        assert cells.total[-1, -1] == table.all.total
        totals = {row.key: row.total if row.timed else 0 for row in table.rows}
        actual = dict(zip(cells.rows, cells.total[:-1, -1].tolist(), strict=True))
        assert actual == totals, by
        if not is_lane and by != "expert":
            assert cells.count[-1, -1] == np.count_nonzero(s.op >= 0)
    for of in AMOUNTS:
        amount = amounts(trace, of)(slice(0, len(s)))
        keep = (s.op >= 0) & (amount >= 0)
        keep &= timed if of == "duration" else ~is_repeated(s.flags)
        result = distribution(trace, of)
        assert result.n == np.count_nonzero(keep)
        if not result.n:
            continue
        for is_log in (True, False):
            bars = result.bars(is_log=is_log)
            places = np.searchsorted(bars.edges, amount[keep], "right") - 1
            counted = Counter(places.tolist())
            expected = [counted[k] for k in range(len(bars.counts))]
            assert bars.counts.tolist() == expected
        middle = len(bars.counts) // 2
        expected = result.within(
            int(bars.edges[0]), int(bars.edges[middle + 1]), Filter()
        )
        mask = filter_mask(trace, expected)
        assert distribution(trace, of, mask=mask).n == bars.counts[: middle + 1].sum()
