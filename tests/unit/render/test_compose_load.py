"""The picture of reads: every pixel holds the bytes that lie in it."""

from dataclasses import replace

import numpy as np
import pytest

import storage_files
from ggscope.analysis.load.cells import offsets_of
from ggscope.analysis.load.load import load_of
from ggscope.api import open as open_trace
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.storage import IoKind, IoLevel
from ggscope.model.tables import stacked
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import ImageBatch, TextBatch
from ggscope.render.load import (
    LoadOptions,
    LoadScene,
    cell_at,
    compose_load,
    exact_cells,
    heat_geometry,
    heat_shape,
    load_figure,
    load_scene,
    panels_of,
    reads_at,
)
from ggscope.render.theme import theme
from load_traces import paired, requests_of


def scene_of(trace: Trace, width: float = 1000, height: float = 600) -> LoadScene:
    scene = load_scene(trace, LoadOptions(), theme("dark"))
    return replace(scene, width=width, height=height)


def heat_of(scene: LoadScene) -> ImageBatch:
    (image,) = [b for b in compose_load(scene).batches if isinstance(b, ImageBatch)]
    return image


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_heat_has_a_texel_per_device_pixel(scale):
    scene = replace(scene_of(paired(1)[0]), scale=scale)

    image = heat_of(scene)

    columns, rows = heat_shape(scene)
    assert image.pixels.shape == (rows, columns)
    assert (image.x1 - image.x0) * scale == pytest.approx(columns)
    assert image.y0[0] == pytest.approx(heat_geometry(scene).top)


def test_every_byte_of_every_read_is_in_some_cell():
    trace, reads = paired(2)
    scene = scene_of(trace)

    cells = exact_cells(scene)

    assert cells.grid.sum() == sum(read.size for read in reads)
    assert cells.amounts.sum() == cells.grid.sum()


def test_a_lit_pixel_is_where_its_read_lies():
    trace, reads = paired(2)
    scene = scene_of(trace)
    geometry = heat_geometry(scene)
    rows = scene.load.rows

    for i in range(0, len(reads), 7):
        x = float(geometry.px(rows.end[i]))
        y = float(geometry.py(rows.offset[i] + rows.size[i] // 2))
        assert i in reads_at(scene, x, y).tolist()
        cell = cell_at(scene, min(x, geometry.right - 0.01), y)
        assert cell is not None
        time, low, high = cell
        assert time.start <= rows.end[i] <= time.end
        assert low < rows.offset[i] + rows.size[i]
        assert high > rows.offset[i]


def test_few_marks_are_drawn_larger_and_many_are_not():
    scene = scene_of(paired(1)[0])
    cells = exact_cells(scene)

    highlighted = np.count_nonzero(heat_of(scene).pixels)

    assert (
        np.count_nonzero(cells.grid) < highlighted <= 4 * np.count_nonzero(cells.grid)
    )
    full = replace(cells, grid=np.ones_like(cells.grid))
    assert (heat_of(replace(scene, cells=full)).pixels != 0).all()


def test_cells_of_another_size_are_spread_to_the_pixels():
    scene = scene_of(paired(1)[0])
    small = exact_cells(replace(scene, width=500, height=400))

    assert (
        heat_of(replace(scene, cells=small)).pixels.shape == heat_of(scene).pixels.shape
    )


def test_small_pictures_leave_the_lower_panels_out():
    trace, _ = paired(1)

    assert panels_of(scene_of(trace, 1000, 600)).depth[1] > 0
    assert panels_of(scene_of(trace, 1000, 300)).depth[1] == 0
    assert panels_of(scene_of(trace, 1000, 200)).rate[1] == 0
    assert panels_of(scene_of(trace, 400, 600)).width == 400
    for size in ((40, 30), (1, 1), (300, 80)):
        compose_load(scene_of(trace, *size))


def test_page_faults_of_a_session_stand_below_its_reads():
    trace, reads = paired(1)
    assert trace.storage is not None
    faults = requests_of(reads[::3])
    n = len(faults)
    faults = replace(
        faults,
        level=np.full(n, IoLevel.FAULT, np.uint8),
        kind=np.full(n, IoKind.MAJOR_FAULT, np.uint8),
        end=faults.start,
        size=np.full(n, -1, np.int64),
    )
    both = stacked(trace.storage.requests, faults)
    order = np.argsort(both.start, kind="stable")
    storage = replace(trace.storage, requests=both.take(order))
    whole = replace(trace, storage=storage)

    scene = scene_of(whole)

    assert panels_of(scene).faults[1] > 0
    result = exact_cells(scene).faults
    assert result is not None
    assert result.sum() == n
    assert panels_of(scene_of(trace)).faults[1] == 0
    only = load_scene(whole, LoadOptions(level="fault"), theme("dark"))
    assert exact_cells(only).grid.sum() == n
    assert only.load.facts.n_major == n


def test_reads_without_offsets_have_a_message_instead_of_an_empty_heat(tmp_path):
    path = tmp_path / "fatrace.txt"
    path.write_bytes(storage_files.fatrace())
    scene = scene_of(open_trace(path))

    batches = compose_load(scene).batches

    assert not [b for b in batches if isinstance(b, ImageBatch)]
    texts = [t.text for b in batches if isinstance(b, TextBatch) for t in b.texts]
    assert any(text.startswith("No offsets recorded") for text in texts)
    assert panels_of(scene_of(scene.trace, 600, 120)).rate[1] > 0
    assert exact_cells(scene).amounts.sum() == scene.load.facts.n
    for size in ((40, 30), (1, 1)):
        compose_load(scene_of(scene.trace, *size))


def test_the_axis_is_the_whole_file_where_its_size_is_known():
    trace, _ = paired(1)
    load = load_of(trace, "device")
    assert load is not None

    assert offsets_of(load.rows) == (0, trace.models[0].size)


def test_figure_says_what_it_shows_and_refuses_what_is_not_there():
    trace, _ = paired(1)
    figure = load_figure(trace)

    assert figure.recipe is not None
    assert figure.recipe.view == "load"
    with pytest.raises(ExportError):
        load_scene(trace, LoadOptions(level="fault"), theme("dark"))
    with pytest.raises(ExportError):
        load_scene(trace, LoadOptions(file="no.gguf"), theme("dark"))
    with pytest.raises(NothingToDrawError):
        load_scene(replace(trace, storage=None, accesses=replace(
            trace.accesses, patterns=replace(
                trace.accesses.patterns, offset=np.full(len(trace.spans), -1)
            ))), LoadOptions(), theme("dark"))  # fmt: skip
    visible = load_scene(
        trace, LoadOptions(visible=TimeRange(0, 20_000)), theme("dark")
    )
    assert (
        visible.load.facts.n
        < load_scene(trace, LoadOptions(), theme("dark")).load.facts.n
    )
