"""The search in the shader: its texels are those of the processor."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtGui import QOpenGLContext

from ggscope.analysis.rows.columns import RowColumns, column_edges
from ggscope.analysis.rows.rows import PREFIX_STEP, Row, make_row
from ggscope.model.units import TimeRange
from ggscope.render.batch import ColumnBatch, ColumnRow
from ggscope.render.gl.base import GlError, gl_module
from ggscope.render.gl.gpu_buffers import TIMES
from ggscope.render.gl.search import GpuSearch, are_equal
from ggscope.render.texels import resolved

pytestmark = pytest.mark.gl

PX = 211
PAGE = 1 << 12


@pytest.fixture
def search(gl_context: QOpenGLContext) -> Iterator[GpuSearch]:
    search = GpuSearch(gl_module(), page_units=PAGE)
    yield search
    search.release()


def random_row(
    seed: int,
    n: int,
    *,
    longest: int = 1000,
    gap: int = 300,
    origin: int = 0,
    instants: float = 0.1,
) -> Row:
    rng = np.random.default_rng(seed)
    length = rng.integers(0, longest, n)
    length[rng.random(n) < instants] = 0
    end = np.cumsum(length + rng.integers(0, gap, n)) + origin
    return make_row(end - length, end, np.arange(n, dtype=np.int32))


def colors_of(n_categories: int) -> np.ndarray:
    rng = np.random.default_rng(n_categories)
    return rng.integers(0, 1 << 24, n_categories + 1).astype(np.uint32) | 0xFF000000


def batch_of(
    rows: list[RowColumns],
    colors: np.ndarray,
    view: TimeRange,
    *,
    px: int = PX,
    strength: float = 1.0,
) -> ColumnBatch:
    edges = column_edges(view, px)
    y = np.arange(len(rows), dtype=np.float32)
    found = []
    for row in rows:
        low, high = np.searchsorted(row.row.start, edges[[0, -1]]).tolist()
        feet = (colors ^ np.uint32(0x3F3F3F)) | np.uint32(0xFF000000)
        found.append(ColumnRow(row, colors, strength, low, high, feet))
    return ColumnBatch(tuple(found), edges, 0.0, float(px), y, y + 1, foot=y + 0.5)


def sent(
    search: GpuSearch, rows: list[RowColumns], by_id: np.ndarray | None, n: int
) -> list[bool]:
    """Send rows to the card, whatever it takes; return which of them are held."""
    store, works = search.store, True
    while works:
        store.begin_frame()
        for row in rows:
            store.hold(row, by_id, n)
        store.work()
        works = store.has_work
    store.begin_frame()
    return [store.hold(row, by_id, n) is not None for row in rows]


def assert_same_texels(search: GpuSearch, batch: ColumnBatch) -> None:
    search.draw([batch])
    places = search.rows_of(batch)
    assert places is not None
    rows = places.astype(int)
    drawn = np.stack([search.read_back()[rows], search.read_feet()[rows]], axis=1)
    drawn = drawn.reshape(2 * len(rows), -1)
    expected = resolved(batch).pixels
    different = np.flatnonzero((drawn != expected).any(axis=0))
    assert are_equal(drawn, expected), different[:10]


def views_of(row: Row) -> list[TimeRange]:
    """Return the whole, some zooms that still hold many spans, and both ends."""
    first, last = int(row.start[0]), int(row.end[-1])
    length = last - first
    middle = first + length // 3
    return [
        TimeRange(first, last),
        TimeRange(first - length, last + length // 2),
        TimeRange(middle, middle + length // 5),
        TimeRange(middle, middle + max(length // 60, PX)),
        TimeRange(last - length // 9, last + 5),
        TimeRange(last + 10 * PX, last + 20 * PX),
        TimeRange(first - 20 * PX, first),
    ]


def test_shaders_and_rows_agree_on_the_prefix() -> None:
    prefix = next(channel for channel in TIMES if channel.name == "prefix")

    assert prefix.units_per_texel == PREFIX_STEP == 16


def test_self_check_passes_on_this_driver(search: GpuSearch) -> None:
    search.check()


@pytest.mark.parametrize("n_categories", [1, 3, 9, 64])
@pytest.mark.parametrize("origin", [0, (1 << 33) - 5, (1 << 55) + 12345, -(1 << 40)])
def test_texels_of_random_rows_equal_those_of_the_processor(
    search: GpuSearch, n_categories: int, origin: int
) -> None:
    rows = [random_row(seed, 3000, origin=origin) for seed in range(3)]
    by_id = np.random.default_rng(1).integers(0, n_categories, 3000).astype(np.uint8)
    columns = [RowColumns(row, by_id, n_categories) for row in rows]

    assert all(sent(search, columns, by_id, n_categories))

    for view in views_of(rows[0]):
        assert_same_texels(search, batch_of(columns, colors_of(n_categories), view))


@pytest.mark.parametrize(
    "row",
    [
        random_row(1, 5000, longest=4, gap=1, instants=0.6),
        random_row(2, 2000, longest=10, gap=100_000),
        random_row(3, 1),
        random_row(4, 17, instants=1.0),
        random_row(5, 4095, gap=1, instants=0.0),
        random_row(6, 4096, longest=1 << 40, gap=1 << 39),
        random_row(7, 700, longest=1 << 52, gap=1 << 50),
    ],
    ids=["dense", "sparse", "one", "instants", "no gaps", "beyond 2^32", "beyond 2^53"],
)
def test_texels_of_unusual_rows_equal_those_of_the_processor(
    search: GpuSearch, row: Row
) -> None:
    by_id = np.random.default_rng(2).integers(0, 5, len(row)).astype(np.uint8)
    columns = RowColumns(row, by_id, 5)

    assert sent(search, [columns], by_id, 5) == [True]

    for view in views_of(row):
        if view.duration >= PX:
            assert_same_texels(search, batch_of([columns], colors_of(5), view))


def test_one_giant_span_among_many_is_drawn_as_by_the_processor(
    search: GpuSearch,
) -> None:
    small = random_row(3, 2000)
    far = int(small.end[-1])
    start = np.concatenate([small.start, [far], small.start + far + (1 << 36)])
    end = np.concatenate([small.end, [far + (1 << 36)], small.end + far + (1 << 36)])
    row = make_row(start, end, np.arange(len(start), dtype=np.int32))
    by_id = (np.arange(len(start)) % 3).astype(np.uint8)
    columns = RowColumns(row, by_id, 3)

    assert sent(search, [columns], by_id, 3) == [True]

    for view in (*views_of(row), TimeRange(far // 2, far * 2), TimeRange(0, 2 * far)):
        assert_same_texels(search, batch_of([columns], colors_of(3), view))


def test_runs_of_one_category_and_ties_are_drawn_as_by_the_processor(
    search: GpuSearch,
) -> None:
    n = 4000
    start = np.arange(n, dtype=np.int64) * 10
    row = make_row(start, start + 6, np.arange(n, dtype=np.int32))
    for by_id in (np.arange(n) // 500, np.arange(n) % 4):
        category = by_id.astype(np.uint8)
        columns = RowColumns(row, category, 9)

        assert sent(search, [columns], category, 9) == [True]

        for px in (100, 97, 40, 7):
            for view in (TimeRange(0, 40_000), TimeRange(5, 20_005)):
                batch = batch_of([columns], colors_of(9), view, px=px)
                assert_same_texels(search, batch)


def test_rows_of_many_categories_are_held_if_few_occur_in_them(
    search: GpuSearch,
) -> None:
    rows = [random_row(seed, 3000) for seed in range(2)]
    rng = np.random.default_rng(8)
    few, many = rng.integers(120, 150, 3000), rng.integers(0, 200, 3000)
    with_few = RowColumns(rows[0], few.astype(np.uint8), 200)
    with_many = RowColumns(rows[1], many.astype(np.uint8), 200)

    assert sent(search, [with_few], few.astype(np.uint8), 200) == [True]
    assert sent(search, [with_many], many.astype(np.uint8), 200) == [False]

    whole = views_of(rows[0])[0]
    assert_same_texels(search, batch_of([with_few], colors_of(200), whole))
    refused = batch_of([with_few, with_many], colors_of(200), whole)
    search.draw([refused])
    assert search.rows_of(refused) is None


def test_filtered_row_and_its_pale_ghost_equal_those_of_the_processor(
    search: GpuSearch,
) -> None:
    row = random_row(5, 4000)
    by_id = np.random.default_rng(5).integers(0, 6, 4000).astype(np.uint8)
    kept = row.select(np.random.default_rng(6).random(4000) < 0.2)
    full, shown = RowColumns(row, by_id, 6), RowColumns(kept, by_id, 6)
    pale = np.array([0xFF808890], np.uint32)

    assert sent(search, [full], None, 0) == [True]
    assert sent(search, [shown], by_id, 6) == [True]

    for view in views_of(row):
        ghost = batch_of([full], pale, view, strength=0.4)
        front = batch_of([shown], colors_of(6), view)
        ghost = replace(
            ghost, rows=tuple(replace(row, feet=None) for row in ghost.rows), foot=None
        )
        front = replace(front, edges=ghost.edges)
        search.draw([ghost, front])
        for batch in (ghost, front):
            places = search.rows_of(batch)
            assert places is not None
            at = places.astype(int)
            drawn = search.read_back()[at]
            if batch is front:
                drawn = np.stack([drawn, search.read_feet()[at]], axis=1)[0]
            assert are_equal(drawn, resolved(batch).pixels)
        feet_of_ghost = search.read_feet()[search.rows_of(ghost).astype(int)]
        assert not feet_of_ghost[:, :].any()


def test_rows_on_several_pages_are_drawn_together(search: GpuSearch) -> None:
    rows = [random_row(seed, 900 + 331 * seed) for seed in range(12)]
    by_id = np.random.default_rng(7).integers(0, 4, 6000).astype(np.uint8)
    columns = [RowColumns(row, by_id, 4) for row in rows]

    assert all(sent(search, columns, by_id, 4))

    assert len(search.store._pages.pages) > 4
    view = TimeRange(0, int(rows[0].end[-1]))
    assert_same_texels(search, batch_of(columns[::-1], colors_of(4), view))


def test_random_views_of_a_long_row_equal_those_of_the_processor(
    search: GpuSearch,
) -> None:
    row = random_row(11, 60_000)
    by_id = np.random.default_rng(9).integers(0, 20, 60_000).astype(np.uint8)
    by_id[by_id > 9] = 0
    columns = RowColumns(row, by_id, 20)
    rng = np.random.default_rng(10)

    assert sent(search, [columns], by_id, 20) == [True]

    for _ in range(40):
        start = int(rng.integers(-1000, int(row.end[-1])))
        view = TimeRange(start, start + int(2 ** rng.uniform(9, 25)))
        assert_same_texels(search, batch_of([columns], colors_of(20), view))


# --- what lies on the card -------------------------------------------------


def test_large_row_is_sent_in_parts_and_held_when_complete(search: GpuSearch) -> None:
    row = random_row(1, 200_000)
    by_id = np.zeros(200_000, np.uint8)
    columns = RowColumns(row, by_id, 2)
    store = search.store
    frames = 0

    store.begin_frame()
    while store.hold(columns, by_id, 2) is None:
        assert store.held(columns, in_hues=True) is None
        store.work(70_000)
        store.begin_frame()
        frames += 1

    assert frames > 2
    assert store.held(columns, in_hues=True) is not None
    assert not store.has_work


def test_rows_beyond_the_budget_stay_with_the_processor(
    gl_context: QOpenGLContext,
) -> None:
    search = GpuSearch(gl_module(), budget_bytes=250_000, page_units=PAGE)
    rows = [random_row(seed, 3000) for seed in range(6)]
    columns = [RowColumns(row) for row in rows]

    held = sent(search, columns, None, 0)

    assert 0 < sum(held) < 6
    assert search.store.n_bytes <= 250_000
    search.release()


def test_rows_out_of_view_make_room_for_those_in_view(
    gl_context: QOpenGLContext,
) -> None:
    search = GpuSearch(gl_module(), budget_bytes=250_000, page_units=PAGE)
    columns = [RowColumns(random_row(seed, 3000)) for seed in range(6)]
    assert all(sent(search, columns[:2], None, 0))

    assert all(sent(search, columns[4:], None, 0))

    view = TimeRange(0, int(columns[4].row.end[-1]))
    assert_same_texels(search, batch_of(columns[4:], np.array([1], np.uint32), view))
    search.release()


def test_dead_rows_leave_the_card(search: GpuSearch) -> None:
    by_id = np.zeros(3000, np.uint8)
    columns = [RowColumns(random_row(seed, 3000), by_id, 2) for seed in range(3)]
    assert all(sent(search, columns, by_id, 2))
    assert search.store.n_bytes > 0

    columns.clear()
    search.store.begin_frame()
    search.store.work()

    assert search.store.n_bytes == 0


def test_other_colouring_of_a_row_sends_its_times_once(search: GpuSearch) -> None:
    row = random_row(1, 3000)
    by_id = np.zeros(3000, np.uint8)
    first, second = RowColumns(row, by_id, 2), RowColumns(row, by_id, 2)
    assert all(sent(search, [first], by_id, 2))
    pages = {page.serial for page in search.store._pages.pages}

    assert all(sent(search, [second], by_id, 2))

    times = [p for p in search.store._pages.pages if p.channels is TIMES]
    assert {page.serial for page in times} <= pages


def test_released_search_can_be_made_again(gl_context: QOpenGLContext) -> None:
    columns = RowColumns(random_row(1, 3000))
    for _ in range(2):
        search = GpuSearch(gl_module(), page_units=PAGE)
        assert sent(search, [columns], None, 0) == [True]
        view = TimeRange(0, int(columns.row.end[-1]))
        assert_same_texels(search, batch_of([columns], colors_of(0), view))
        search.release()
        assert search.store.held(columns, in_hues=False) is None


def test_wrong_texels_fail_the_self_check(
    search: GpuSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A driver that rounds 64-bit differences, as far as anybody can tell.
    honest = GpuSearch.read_back
    monkeypatch.setattr(
        GpuSearch, "read_back", lambda self: honest(self) ^ np.uint32(1)
    )

    with pytest.raises(GlError, match="other columns"):
        search.check()
