"""Units of the model file: slices, duplicates, overlaps, split models, damage."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import finished, llama_like_trace
from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.heat.rows import UNIT_WIDTH, AxisKind, HeatAxis
from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import ModelFile
from ggscope.readers import registry
from heat_traces import N_EXPERTS, SLICE, make_tensors, moe_trace
from support import need_corpus

Tensor = tuple[str, int, int, int, int, int]


def map_of(rows: Sequence[Tensor]) -> FileMap:
    builder = TraceBuilder()
    make_tensors(builder, rows)
    return file_map(finished(builder))


def units(files: FileMap) -> list[tuple[int, int, int, int]]:
    """Return (offset, size, tensor, expert) of every unit."""
    columns = (files.offset, files.size, files.tensor, files.expert)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_stack_is_cut_at_base_plus_k_times_size_over_n() -> None:
    files = map_of([("a", 0, 10, 0, -1, 0), ("e", 10, 100, 0, -1, 3)])

    assert units(files) == [
        (0, 10, 0, -1),
        (10, 33, 1, 0),
        (43, 33, 1, 1),
        (76, 34, 1, 2),
    ]


def test_listed_slices_beside_their_stack_are_one_unit_each() -> None:
    rows = [("e", 0, 90, 0, -1, 0)]
    rows += [(f"e[{k}]", 30 * k, 30, 0, k, 0) for k in range(3)]

    files = map_of(rows)

    assert units(files) == [(0, 30, 1, 0), (30, 30, 2, 1), (60, 30, 3, 2)]
    assert files.units_of(0) == (0, 3)
    assert files.n_same == 1


def test_listed_slices_and_a_known_stack_are_the_same_units() -> None:
    rows = [("e", 0, 90, 0, -1, 3)]
    rows += [(f"e[{k}]", 30 * k, 30, 0, k, 0) for k in range(3)]

    files = map_of(rows)

    assert [(o, s, e) for o, s, _, e in units(files)] == [
        (0, 30, 0), (30, 30, 1), (60, 30, 2)
    ]  # fmt: skip
    assert files.n_same == 3


def test_unit_that_runs_into_the_next_is_cut_and_flagged() -> None:
    files = map_of([("a", 0, 25, 0, -1, 0), ("b", 20, 10, 0, -1, 0)])

    assert units(files) == [(0, 20, 0, -1), (20, 10, 1, -1)]
    assert files.is_cut.tolist() == [True, False]


def test_gaps_are_header_and_padding() -> None:
    files = map_of([("a", 5, 10, 0, -1, 0), ("b", 20, 10, 0, -1, 0)])

    assert files.gaps().tolist() == [[0, 5], [15, 20]]
    assert files.extent == 30
    assert [files.unit_at(x) for x in (4, 5, 14, 15, 29, 30)] == [-1, 0, 0, -1, 1, -1]


def test_parts_of_a_split_model_follow_each_other() -> None:
    builder = TraceBuilder()
    make_tensors(builder, [("a", 10, 20, 0, -1, 0), ("b", 10, 30, 0, -1, 0)])
    builder.models = (ModelFile("1", 100, 10), ModelFile("2", 200, 10, part=1))
    builder.tensors = replace(builder.tensors, file=np.array([0, 1], np.int16))

    files = file_map(finished(builder))

    assert files.offset.tolist() == [10, 110]
    assert [(p.name, p.begin, p.end, p.data_begin) for p in files.parts] == [
        ("1", 0, 100, 10), ("2", 100, 300, 110)
    ]  # fmt: skip
    part = files.part_at(110)
    assert part is not None
    assert part.name == "2"


def test_places_of_a_trace_alone_say_so() -> None:
    files = file_map(llama_like_trace())

    assert files.is_traced.all()
    assert not files.is_complete


def test_model_file_makes_the_map_complete() -> None:
    files = file_map(moe_trace(layers=2))

    assert files.is_complete
    assert int((files.expert >= 0).sum()) == 2 * N_EXPERTS
    assert set(files.size[files.expert >= 0].tolist()) == {SLICE}


def test_model_that_no_access_leads_to_shows_nothing_cold() -> None:
    files = map_of([("a", 0, 10, 0, -1, 0)])

    assert len(files) == 1
    assert not files.is_read
    assert not files.is_complete


@pytest.mark.parametrize("offset", [1 << 61, (1 << 62) - 1])
def test_offset_that_no_file_has_is_left_out(offset: int) -> None:
    files = map_of([("a", 0, 10, 0, -1, 0), ("b", offset, 10, 0, -1, 0)])

    assert units(files) == [(0, 10, 0, -1)]
    assert files.n_odd == 1
    assert files.extent == 10


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(-1, 300), st.integers(-1, 80), st.integers(-1, 3),
            st.sampled_from([0, 2, 5]),
        ),
        max_size=12,
    )
)  # fmt: skip
def test_units_of_any_tensors_are_sorted_and_apart(rows: list) -> None:
    files = map_of([(f"t{i}", o, s, 0, e, n) for i, (o, s, e, n) in enumerate(rows)])

    ends = files.offset + files.size
    assert (files.size > 0).all()
    assert (ends[:-1] <= files.offset[1:]).all()
    assert int(ends.max(initial=0)) <= files.extent
    places = {o for o, s, _, _ in rows if o >= 0 and s > 0}
    assert places <= set(files.offset.tolist())


@pytest.mark.parametrize("kind", get_args(AxisKind))
def test_axis_offsets_are_monotone_from_zero_to_the_extent(kind: str) -> None:
    axis = HeatAxis(file_map(moe_trace()), kind)  # type: ignore[arg-type]  # a kind
    at = np.linspace(0, axis.extent, 5_001).astype(np.int64)

    offsets = axis.offsets(at)

    assert (offsets[0], offsets[-1]) == (0, axis.files.extent)
    assert (np.diff(offsets) >= 0).all()


@pytest.mark.parametrize("kind", get_args(AxisKind))
def test_cells_add_up_on_both_axes(kind: str) -> None:
    base = heat_base(moe_trace(), "token")
    axis = HeatAxis(base.files, kind)  # type: ignore[arg-type]  # a kind of axis
    edges = np.unique(axis.offsets(np.linspace(0, axis.extent, 777).astype(np.int64)))

    assert int(base.total_grid().cells(edges).sum()) == base.totals.file_bytes


def test_equal_axis_gives_every_unit_the_same_width() -> None:
    files = file_map(moe_trace(layers=2))
    axis = HeatAxis(files, "equal")

    assert axis.extent == len(files) * UNIT_WIDTH
    begins = axis.positions(files.offset)
    assert (begins == np.arange(len(files)) * UNIT_WIDTH).all()
    middles = axis.offsets(begins + UNIT_WIDTH // 2)
    assert [files.unit_at(int(x)) for x in middles] == list(range(len(files)))


def test_zoom_keeps_the_position_under_the_mouse() -> None:
    axis = HeatAxis(file_map(moe_trace()))
    at = 1_234_567

    begin, stop = axis.zoomed(0, axis.extent, 0.01, at)

    assert abs((at - begin) / (stop - begin) - at / axis.extent) < 1e-3


@pytest.mark.parametrize(
    "name", ["trace_1024v3_962e44d2.bin", "trace_256_3584a339.bin"]
)
def test_real_trace_adds_up_to_its_disk_sources(name: str) -> None:
    trace = registry.open_trace(need_corpus() / "tracer" / name)
    base = heat_base(trace, "pass")
    what = trace.accesses.flat(trace.spans).what
    on_disk = (what.space == 0) & (what.offset >= 0)

    edges = np.linspace(0, base.files.extent, 1_901).astype(np.int64)
    cells = base.grid(np.arange(len(base.rows) + 1)).cells(edges)

    # Two look-ups of rows record their whole table: of these nobody knows how much.
    known = int(cells.sum()) + base.totals.unknown_file_bytes
    assert known == int(what.size[on_disk].astype(np.int64).sum())
    assert base.totals.n_file == int(on_disk.sum())
