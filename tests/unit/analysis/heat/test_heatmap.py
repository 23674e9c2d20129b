"""Cells of the file heatmap against one byte after the other, added up in Python."""

from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import finished, llama_like_trace
from ggscope.analysis.heat.file_map import file_map
from ggscope.analysis.heat.heatmap import HeatBase, heat_base, scaled
from ggscope.analysis.heat.rows import (
    NEVER,
    TIME_BINS,
    RowKind,
    natural_rows,
    row_begins,
)
from ggscope.errors import Cancelled
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import Space
from ggscope.model.trace import LaneKind, Trace
from ggscope.model.units import TimeRange
from heat_traces import (
    HEADER,
    N_EXPERTS,
    SLICE,
    make_accesses,
    make_tensors,
    moe_trace,
    recorded_bytes,
)
from reads_builder import Op, Read, TensorRow, reads_trace

FILE, BUFFER = Space.FILE, Space.BUFFER
Row = tuple[int, int, int, int]


def trace_of(
    tensors: Sequence[tuple[str, int, int, int, int, int]],
    patterns: Sequence[Sequence[Row]],
    spans: Sequence[tuple[int, int]],
) -> Trace:
    """Return a trace of spans (token, pattern), one tick after the other."""
    builder = TraceBuilder()
    make_tensors(builder, tensors)
    lane = builder.add_lane("thread 0", LaneKind.THREAD, ("Threads",))
    table = np.array(spans, np.int64).reshape(-1, 2)
    start = np.arange(len(table), dtype=np.int64)
    builder.add_spans(
        start=start, end=start + 1, lane=lane, name=builder.strings.intern("op"),
        token=table[:, 0].astype(np.int32),
    )  # fmt: skip
    builder.accesses = make_accesses(patterns, table[:, 1])
    return finished(builder)


def cells_of(base: HeatBase, offsets: Sequence[int], metric: str = "bytes") -> list:
    """Return the cells of every row by itself."""
    rows = np.arange(len(base.rows) + 1)
    grid = base.grid(rows, metric)  # type: ignore[arg-type]  # one of the two
    return grid.cells(np.array(offsets, np.int64)).tolist()


@st.composite
def runs(draw: st.DrawFn) -> tuple[list, list, list]:
    """Return tensors of up to 40 bytes, accesses to parts of them, and spans."""
    n = draw(st.integers(1, 5))
    tensors, at = [], draw(st.integers(0, 5))
    for i in range(n):
        size = draw(st.integers(1, 40))
        stacked = draw(st.sampled_from([0, 0, 2, 3])) if size >= 3 else 0
        tensors.append((f"t{i}", at, size, i % 3, -1, stacked))
        at += size + draw(st.integers(0, 4))
    access = st.integers(0, n - 1).flatmap(
        lambda t: st.tuples(
            st.just(t), st.sampled_from([FILE, FILE, FILE, BUFFER]),
            st.just(tensors[t][1]) | st.integers(tensors[t][1], at - 1),
            st.just(tensors[t][2]) | st.integers(1, 50),
        )
    )  # fmt: skip
    rows = st.lists(access, max_size=3)
    patterns = draw(st.lists(rows, min_size=1, max_size=4))
    span = st.tuples(st.integers(-1, 4), st.integers(-1, len(patterns) - 1))
    return tensors, patterns, draw(st.lists(span, min_size=1, max_size=12))


def slowly(
    patterns: list, spans: list, tokens: list[int], offsets: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return bytes and counts per token (then "no token") and cell, byte by byte."""
    shape = (len(tokens) + 1, len(offsets) - 1)
    size, count = np.zeros(shape, int), np.zeros(shape, int)
    for token, pattern in spans:
        row = tokens.index(token) if token in tokens else len(tokens)
        for _, space, offset, length in patterns[pattern] if pattern >= 0 else ():
            if space != FILE:
                continue
            for i, (a, b) in enumerate(pairwise(offsets)):
                inside = max(min(offset + length, b) - max(offset, a), 0)
                size[row, i] += inside
                count[row, i] += inside > 0
    return size, count


@settings(max_examples=60)
@given(run=runs(), cuts=st.lists(st.integers(0, 260), max_size=12))
def test_cells_of_any_edges_equal_bytes_added_one_by_one(
    run: tuple[list, list, list], cuts: list[int]
) -> None:
    tensors, patterns, spans = run
    base = heat_base(trace_of(tensors, patterns, spans), "token")
    tokens = sorted({t for t, _ in spans if t >= 0})
    offsets = sorted({0, 400, *cuts})
    size, count = slowly(patterns, spans, tokens, offsets)

    n = len(base.rows)  # without the row of no token where nothing is in it
    assert cells_of(base, offsets) == size[:n].tolist()
    assert cells_of(base, offsets, "count") == count[:n].tolist()
    assert base.totals.file_bytes == size.sum()
    assert not count[n:].any()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(0, 4_000_000), max_size=30),
    groups=st.lists(st.integers(0, 12), max_size=5),
    kind=st.sampled_from(get_args(RowKind)),
)
def test_cells_of_every_zoom_and_binning_add_up_to_the_bytes_of_accesses(
    seed: int, cuts: list[int], groups: list[int], kind: str
) -> None:
    trace = moe_trace(tokens=5, layers=3, seed=seed)
    base = heat_base(trace, kind)  # type: ignore[arg-type]  # drawn from the kinds
    n = len(base.rows)
    rows = np.unique(np.clip([0, n, *groups], 0, n)).astype(np.int64)
    offsets = np.unique([0, base.files.extent, *cuts]).astype(np.int64)

    cells = base.grid(rows).cells(offsets)
    for metric in ("bytes", "count"):
        each = base.grid(np.arange(n + 1), metric).cells(offsets)
        assert each.tolist() == [
            base.row_grid(row, metric).cells(offsets)[0].tolist() for row in range(n)
        ]

    recorded = int(trace.accesses.bytes_read_written().sum())
    totals = base.totals
    assert int(cells.min()) >= 0
    assert int(cells.sum()) == totals.file_bytes
    assert recorded_bytes(totals) == recorded


def test_known_choices_light_only_the_chosen_slices() -> None:
    trace = moe_trace(tokens=3, layers=2)
    base = heat_base(trace, "token")
    files = base.files

    highlighted = (
        base.grid(np.arange(4)).between(files.offset, files.offset + files.size) > 0
    )

    r = trace.routing
    for token in range(3):
        chosen = {
            (int(layer), int(expert))
            for layer, expert, t in zip(r.layer, r.expert, r.token, strict=True)
            if t == token
        }
        slices = files.expert >= 0
        pairs = {
            (int(files.layer[u]), int(files.expert[u]))
            for u in np.flatnonzero(slices & highlighted[token])
        }
        assert pairs == chosen


def test_known_choices_keep_the_recorded_bytes_as_passed() -> None:
    base = heat_base(moe_trace(tokens=3, layers=2), "token")

    stacks, each = 3 * 2, N_EXPERTS - 2
    assert base.totals.passed_bytes == stacks * each * SLICE


def test_unknown_choices_share_a_stack_over_all_slices_exactly() -> None:
    base = heat_base(moe_trace(tokens=3, layers=2, routed=False), "token")
    files = base.files

    size, count = base.unit_sums()

    slices = files.expert >= 0
    assert set(size[slices].tolist()) == {3 * SLICE}
    assert set(count[slices].tolist()) == {3}
    assert base.totals.passed_bytes == 0


def test_access_to_a_row_of_a_tensor_keeps_its_own_place_and_bytes() -> None:
    base = heat_base(moe_trace(tokens=4, layers=1), "token")
    at = HEADER + 4_096

    cells = base.total_grid().cells(
        np.array([HEADER, at, at + 2_048, HEADER + 200_000])
    )

    assert cells.tolist() == [[0, 4 * 2_048, 0]]


def test_access_without_offset_spreads_its_bytes_over_its_tensor() -> None:
    trace = trace_of([("t", 10, 100, 0, -1, 0)], [[(0, FILE, -1, 7)]], [(0, 0)] * 3)
    base = heat_base(trace, "token")

    cells = base.total_grid().cells(np.arange(0, 111, 10, dtype=np.int64))

    assert int(cells.sum()) == 21
    assert cells[0, 0] == 0
    assert cells[0, 1:].min() >= 1


def test_table_of_spread_bytes_has_only_the_pieces_that_hold_some() -> None:
    tensors = [("t", 10, 100, 0, -1, 0), ("u", 110, 100, 1, -1, 0)]
    touched = [[(0, FILE, -1, 7)], [(1, FILE, 120, 10)], [(1, FILE, 150, 20)]]
    trace = trace_of(tensors, touched, [(0, 0), (1, 1), (2, 2)])
    base = heat_base(trace, "token")

    assert base._spread is not None
    pieces, table = base._spread

    assert 0 < len(pieces) < base.n_segments
    assert table.shape == (len(base.rows) + 1, len(pieces))
    assert int(table[-1].sum()) == 7


def test_access_of_unknown_size_counts_without_bytes() -> None:
    trace = trace_of([("t", 10, 100, 0, -1, 0)], [[(0, FILE, 10, -1)]], [(0, 0)])
    base = heat_base(trace, "token")

    assert cells_of(base, [0, 10, 60, 110], "count")[0] == [0, 1, 1]
    assert base.totals.file_bytes == 0


def test_weight_without_any_place_is_counted_apart() -> None:
    trace = trace_of([("t", -1, 50, 0, -1, 0)], [[(0, FILE, -1, 50)]], [(0, 0)] * 2)
    base = heat_base(trace, "token")

    assert (base.totals.n_unplaced, base.totals.unplaced_bytes) == (2, 100)
    assert base.totals.n_file == 0


def test_buffer_track_holds_all_accesses_to_runtime_tensors() -> None:
    trace = moe_trace(tokens=5, layers=2)
    base = heat_base(trace, "token")

    n_ops = 1 + 3 * 2
    assert base.buffers.count.tolist() == [5 * n_ops]
    assert base.buffers.bytes.tolist() == [5 * (512 + 4_096 * (n_ops - 1))]
    assert base.totals.n_buffer == 5 * n_ops


def test_mask_counts_only_the_spans_that_pass() -> None:
    trace = moe_trace(tokens=6, layers=2)
    mask = trace.spans.token == 2

    base = heat_base(trace, "token", mask=mask)

    rows = np.array(cells_of(base, [0, base.files.extent])).ravel()
    assert rows[2] > 0
    assert rows.sum() == rows[2]


def test_time_rows_hold_only_what_begins_in_the_range() -> None:
    trace = moe_trace(tokens=6, layers=2)
    half = trace.extent.end // 2
    base = heat_base(trace, "time", time=TimeRange(0, half))

    inside = trace.spans.start < half
    expected = heat_base(trace, "token", mask=inside).totals.file_bytes
    assert base.totals.file_bytes == expected
    assert len(base.rows) == TIME_BINS


def test_layer_rows_hold_the_bytes_of_their_own_tensors() -> None:
    base = heat_base(moe_trace(tokens=2, layers=3, routed=False), "layer")

    rows = np.array(cells_of(base, [0, base.files.extent])).ravel().tolist()

    layer = 2 * (1_024 + 300_000 + N_EXPERTS * SLICE)
    assert rows == [layer, layer, layer, 2 * 2_048]


def test_rows_beyond_memory_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggscope.analysis.heat.heatmap.MAX_CELLS", 200)
    trace = moe_trace(tokens=40, layers=2)
    base = heat_base(trace, "token")

    assert len(base.rows) < 40
    assert base.rows.first[0] == 0
    assert base.rows.last[-1] == 39
    whole = cells_of(base, [0, base.files.extent])
    assert int(np.sum(whole)) == base.totals.file_bytes


def test_more_ends_than_are_kept_still_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggscope.analysis.heat.heatmap.MAX_ENDS", 4)
    accesses = [[(0, FILE, 10 + 7 * i, 5)] for i in range(20)]
    trace = trace_of(
        [("t", 10, 200, 0, -1, 0)], accesses, [(i % 3, i) for i in range(20)]
    )
    base = heat_base(trace, "token")

    cells = base.total_grid().cells(np.arange(0, 220, 3, dtype=np.int64))

    assert base.totals.n_moved > 0
    assert int(cells.sum()) == base.total_grid().bytes_before(np.array([210]))[0, 0]
    assert base.totals.file_bytes == 100


def test_sorted_counts_equal_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = moe_trace(tokens=9, layers=3)
    edges = [0, 100_000, 700_000, 4_000_000]
    table = cells_of(heat_base(trace, "token"), edges)
    monkeypatch.setattr("ggscope.analysis.heat.byte_ranges._DENSE_KEYS", 0)

    assert (
        cells_of(heat_base(trace, "token"), [0, 100_000, 700_000, 4_000_000]) == table
    )


def test_trace_without_accesses_has_no_pieces() -> None:
    trace = finished(TraceBuilder())
    base = heat_base(trace, "token")

    assert base.files.extent == 0
    assert base.total_grid().cells(np.array([0, 10])).tolist() == [[0]]
    assert base.unit_sums()[0].tolist() == []


@pytest.mark.parametrize("kind", get_args(RowKind))
def test_llama_run_adds_up_in_every_kind_of_row(kind: str) -> None:
    trace = llama_like_trace()
    base = heat_base(trace, kind)  # type: ignore[arg-type]  # one of the kinds

    cells = base.total_grid().cells(np.array([0, base.files.extent]))

    assert int(cells.sum()) + base.totals.buffer_bytes == int(
        trace.accesses.bytes_read_written().sum()
    )


class _Impatient:
    def progress(self, done: int, total: int) -> None:
        raise Cancelled


def test_cancelled_base_stops() -> None:
    with pytest.raises(Cancelled):
        heat_base(moe_trace(), "token", watcher=_Impatient())


@settings(max_examples=60)
@given(
    amount=st.integers(0, 1 << 55),
    whole=st.integers(1, 1 << 40),
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=6),
)
def test_scaled_is_monotone_and_exact_at_both_ends(
    amount: int, whole: int, cuts: list[float]
) -> None:
    parts = np.unique([0, whole, *(int(c * whole) for c in cuts)]).astype(np.int64)
    n = len(parts)

    result = scaled(np.full(n, amount), parts, np.full(n, whole))

    assert (result[0], result[-1]) == (0, amount)
    assert (np.diff(result) >= 0).all()


def test_file_map_is_reused() -> None:
    trace = moe_trace()
    files = file_map(trace)

    assert heat_base(trace, "token", files=files).files is files


@pytest.mark.parametrize(("tokens", "expected"), [((0, 1), "token"), ((0, 0), "time")])
def test_natural_rows_show_what_the_trace_shows(tokens, expected):
    ops = [Op(12 * i, (Read(0, 10),), token=token) for i, token in enumerate(tokens)]

    assert natural_rows(reads_trace((TensorRow("a", 0, 10),), ops)) == expected


@pytest.mark.parametrize("kind", get_args(RowKind))
def test_rows_begin_with_their_first_span(kind: RowKind) -> None:
    trace = moe_trace()
    rows = heat_base(trace, kind).rows

    begins = row_begins(trace, rows)

    if kind == "layer":
        assert begins is None
        return
    expected = [NEVER] * len(rows)
    for span in range(len(trace.spans)):
        start, token = int(trace.spans.start[span]), int(trace.spans.token[span])
        for row in range(len(rows.first)):
            if kind == "token" and rows.first[row] <= token <= rows.last[row]:
                expected[row] = min(expected[row], start)
    if kind == "time":
        expected[: len(rows.first)] = rows.first.tolist()
    if kind == "pass":
        starts = sorted(
            int(trace.spans.start[span])
            for span in range(len(trace.spans))
            if trace.lanes.is_token[trace.spans.lane[span]]
        )
        expected[: len(starts)] = starts
    assert begins.tolist() == expected
