"""Pivot tables, cell by cell against the statistics of the spans of a column."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import builders
import ggscope
from ggscope.analysis.filters.masks import filter_mask
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.statistics import scan
from ggscope.analysis.statistics.grouping import has_groups
from ggscope.analysis.statistics.members import filter_of_group, spans_of_group
from ggscope.analysis.statistics.pivot import PIVOT_MEASURES, SHARING, Pivot, pivot
from ggscope.analysis.statistics.table import StatRow, stat_table
from ggscope.errors import Cancelled, QueryError
from ggscope.model.selection import By, SpanGroup
from ggscope.model.tables import Quality, quality_of
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from support import sample_path
from watchers import CancelAfter

BY: tuple[By, ...] = (
    "op", "name", "layer", "tensor", "type", "shape", "token", "thread", "phase",
    "expert", "backend", "engine",
)  # fmt: skip
SAMPLES = ("tinyllama-256.bin", "moe-experiment", "npu-prefill-decode.json")
MADE = {
    "llama": lambda: builders.llama_like_trace(tokens=3, layers=3, threads=2),
    "random": lambda: builders.random_trace(3, n=400),
    "npu": lambda: builders.npu_like_trace(),
}


@pytest.fixture(params=[*MADE, *SAMPLES])
def trace(request: pytest.FixtureRequest) -> Trace:
    if request.param in MADE:
        made: Trace = MADE[request.param]()
        return made
    return ggscope.open(sample_path(request.param))


def cell_of(table: Pivot, row: int, column: int) -> tuple[int, ...]:
    return tuple(
        int(getattr(table, name)[row, column])
        for name in ("count", "timed", "ops", "total", "bytes")
    )


def figures_of(row: StatRow) -> tuple[int, ...]:
    total = row.total if row.timed else 0
    return row.count, row.timed, row.ops, total, row.bytes


def turned(table: Pivot) -> Pivot:
    names = ("count", "timed", "ops", "total", "bytes")
    return replace(
        table,
        by=table.across,
        across=table.by,
        rows=table.columns,
        columns=table.rows,
        **{name: getattr(table, name).T for name in names},
    )


def assert_cells(trace: Trace, by: By, across: By, **named: object) -> None:
    table = pivot(trace, by, across, **named)  # type: ignore[arg-type]
    if across in SHARING:  # a span that is shared out is whole in no column
        by, across = across, by
        table = turned(table)
    for c, key in enumerate(table.columns):
        mask = filter_mask(trace, filter_of_group(across, key))
        if "mask" in named:
            mask &= named["mask"]  # type: ignore[operator]
        rest = {k: v for k, v in named.items() if k != "mask"}
        rows = {r.key: r for r in stat_table(trace, by, mask=mask, **rest).rows}  # type: ignore[arg-type]
        for r, label in enumerate(table.rows):
            expected = figures_of(rows[label]) if label in rows else (0,) * 5
            cell = cell_of(table, r, c)
            if cell[4] < 0 or expected[4] < 0:  # threads share the bytes of ops
                cell, expected = cell[:2] + cell[3:4], expected[:2] + expected[3:4]
            assert cell == expected, (label, key)


@pytest.mark.parametrize(("by", "across"), [*product(("layer", "op", "thread"), BY)])
def test_cells_equal_statistics_of_the_spans_of_a_column(
    trace: Trace, by: By, across: By
) -> None:
    if by == across or not (has_groups(trace, by) and has_groups(trace, across)):
        pytest.skip("nothing to group by")
    assert_cells(trace, by, across, include_estimated=True)


@pytest.mark.parametrize("seed", range(4))
def test_cells_within_ranges_and_masks(trace: Trace, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.integers(trace.extent.start, trace.extent.end, 2).tolist())
    time, mask = TimeRange(low, high + 1), rng.random(len(trace.spans)) < 0.7

    assert_cells(trace, "layer", "op", time=time, mask=mask)
    assert_cells(trace, "op", "lane", time=time, mask=mask)


@pytest.mark.parametrize(("by", "across"), [("layer", "expert"), ("expert", "layer")])
def test_experts_share_an_op_out_in_rows_and_in_columns(
    trace: Trace, by: By, across: By
) -> None:
    one, other = pivot(trace, by, across), pivot(trace, across, by)

    order = [other.columns.index(key) for key in one.rows]
    place = [other.rows.index(key) for key in one.columns]
    for name in ("count", "total", "bytes"):
        turned = getattr(other, name)[:-1, :-1].T[np.ix_(order, place)]
        assert getattr(one, name)[:-1, :-1].tolist() == turned.tolist()
    assert_cells(trace, by, across)


@pytest.mark.parametrize("by", BY)
def test_last_row_and_column_are_those_of_the_tables(trace: Trace, by: By) -> None:
    across: By = "op" if by != "op" else "layer"
    if not has_groups(trace, by):
        pytest.skip("nothing to group by")

    table = pivot(trace, by, across)

    rows = {row.key: row for row in stat_table(trace, by).rows}
    if by != "engine":  # holds spans of no op, too
        assert set(table.rows) == set(rows)
    for r, key in enumerate(table.rows):
        if by == "engine":
            break
        assert table.total[r, -1] == (rows[key].total if rows[key].timed else 0)
        assert table.count[r, -1] == rows[key].count
    assert table.total[:, -1].tolist() == table.total[:, :-1].sum(axis=1).tolist()
    assert table.total[-1].tolist() == table.total[:-1].sum(axis=0).tolist()


def test_brute_force_span_by_span(trace: Trace) -> None:
    table, spans = pivot(trace, "layer", "op"), trace.spans
    expected: dict[tuple[str, str], list[int]] = {}
    for i in range(len(spans)):
        if spans.op[i] < 0:
            continue
        layer = -1 if spans.layer is None else int(spans.layer[i])
        key = "none" if layer < 0 else str(layer), trace.op_name(int(spans.op[i]))
        cell = expected.setdefault(key, [0, 0])
        cell[0] += 1
        if quality_of(spans.flags[i : i + 1])[0] <= Quality.DERIVED:
            cell[1] += int(spans.end[i] - spans.start[i])

    values = {
        (row, column): [int(table.count[r, c]), int(table.total[r, c])]
        for r, row in enumerate(table.rows)
        for c, column in enumerate(table.columns)
        if table.count[r, c]
    }

    assert values == expected


def test_compiled_cells_equal_those_of_numpy(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [
        ("layer", "op"), ("op", "lane"), ("tensor", "phase"), ("lane", "op"),
        ("expert", "layer"), ("layer", "expert"), ("source", "op"), ("op", "source"),
    ]  # fmt: skip
    for by, across in pairs:
        scanned = pivot(trace, by, across)  # type: ignore[arg-type]
        with monkeypatch.context() as patch:
            patch.setattr(scan, "can_scan", lambda *_: False)
            patch.setattr(scan, "can_split", lambda *_: False)
            plain = pivot(trace, by, across)  # type: ignore[arg-type]
        assert scanned.rows == plain.rows
        assert scanned.columns == plain.columns
        for name in ("count", "timed", "ops", "total", "bytes"):
            assert np.array_equal(getattr(scanned, name), getattr(plain, name)), name


def test_of_many_the_longest_are_kept_and_the_sums_are_of_all(trace: Trace) -> None:
    whole, part = (
        pivot(trace, "layer", "op"),
        pivot(trace, "layer", "op", max_rows=2, max_columns=2),
    )
    if not len(whole.rows):
        pytest.skip("no ops")

    assert part.n_rows == len(whole.rows)
    assert part.n_columns == len(whole.columns)
    assert part.total[-1, -1] == whole.total[-1, -1]
    smallest = min(whole.total[-1, whole.columns.index(key)] for key in part.columns)
    left = set(whole.columns) - set(part.columns)
    assert all(whole.total[-1, whole.columns.index(key)] <= smallest for key in left)
    for r, row in enumerate(part.rows):
        at = whole.rows.index(row)
        assert part.total[r, -1] == whole.total[at, -1]
        for c, column in enumerate(part.columns):
            assert part.total[r, c] == whole.total[at, whole.columns.index(column)]
    cut = whole.cut(2, 1)
    assert cut.rows == whole.rows[:2]
    items = [*range(len(cut.rows)), -1]
    assert np.array_equal(cut.total, whole.total[np.ix_(items, [0, -1])])


def test_rows_of_numbers_come_in_their_order() -> None:
    table = pivot(builders.llama_like_trace(tokens=2, layers=12), "layer", "op")

    numbers = [int(key) for key in table.rows if key.isdecimal()]
    assert numbers == sorted(numbers)
    assert [key for key in table.rows if not key.isdecimal()] in ([], [table.rows[-1]])
    totals = table.total[-1, :-1].tolist()
    assert totals == sorted(totals, reverse=True)


def test_measures_are_what_they_are_called() -> None:
    trace = builders.llama_like_trace(tokens=2, layers=3)
    table = pivot(trace, "layer", "op")
    values = {measure: table.values(measure) for measure in PIVOT_MEASURES}

    row = stat_table(trace, "op").rows[0]
    at = table.columns.index(row.key)
    assert values["total"][-1, at] == row.total
    assert values["mean"][-1, at] == row.mean
    assert values["share"][-1, at] == pytest.approx(row.share)
    assert values["count"][-1, at] == row.count
    assert values["share"][-1, -1] == 1
    assert np.isnan(values["total"][table.count == 0]).all()


def test_groupings_that_cannot_be_crossed_are_refused() -> None:
    trace = builders.llama_like_trace(tokens=1, layers=1)
    for by, across in (("op", "op"), ("expert", "source")):
        with pytest.raises(QueryError):
            pivot(trace, by, across)  # type: ignore[arg-type]


def test_cancelled_pivot_leaves_the_next_one_right() -> None:
    trace = builders.random_trace(5, n=3000)
    expected = pivot(trace, "layer", "op")
    with pytest.raises(Cancelled):
        pivot(trace, "layer", "op", watcher=CancelAfter(0))
    assert np.array_equal(pivot(trace, "layer", "op").total, expected.total)


def test_chosen_spans_alone_count(trace: Trace) -> None:
    ids = np.arange(0, len(trace.spans), 3)
    table = pivot(trace, "layer", "op", ids=ids)
    mask = np.zeros(len(trace.spans), np.bool_)
    mask[ids] = True
    other = pivot(trace, "layer", "op", mask=mask)

    assert table.rows == other.rows
    assert np.array_equal(table.total, other.total)


def test_spans_of_a_cell_are_those_of_both_groups(trace: Trace) -> None:
    table, index = pivot(trace, "layer", "op"), TraceIndex(trace)
    for r, row in enumerate(table.rows):
        for c, column in enumerate(table.columns):
            group = SpanGroup("layer", row, also=("op", column))
            assert len(spans_of_group(index, group)) == table.count[r, c]
