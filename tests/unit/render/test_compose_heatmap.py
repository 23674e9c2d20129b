"""The picture of the file heatmap: what is drawn where, and figures."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from builders import llama_like_trace
from figures import export
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.analysis.heat.rows import HeatAxis, RowKind
from ggscope.model.residency import Residency
from ggscope.model.tensors import Place
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.render.batch import Face, ImageBatch, RectBatch, TextBatch
from ggscope.render.colors import ScaleKind, color_scale, texels
from ggscope.render.figure_style import PRESETS, FigureStyle, Length
from ggscope.render.heatmap.compose import (
    compose_heatmap,
    held_colors,
    totals_text,
    untouched_meanings,
)
from ggscope.render.heatmap.figure import HeatmapOptions, heat_scene, heatmap_figure
from ggscope.render.heatmap.scene import (
    HeatGeometry,
    HeatMark,
    HeatScene,
    HeatView,
    cell_scale,
    cell_texels,
    key_counts,
    value_keys,
)
from ggscope.render.text_metrics import text_width
from ggscope.render.theme import THEMES, contrast, outline_pair, theme
from heat_traces import moe_trace
from reads_builder import TensorRow, reads_trace
from scenes import texts_of
from statements import new_statements

pytestmark = pytest.mark.usefixtures("qapp")


def scene_of(axis: str = "offset", **values: object) -> HeatScene:
    trace = moe_trace(tokens=6, layers=3)
    base = heat_base(trace, "token")
    return heat_scene(
        trace, base, HeatAxis(base.files, axis),  # type: ignore[arg-type]  # a kind
        (900, 420), "dark", **values,
    )  # fmt: skip


def heat_of(scene: HeatScene) -> ImageBatch:
    place = HeatGeometry(scene)
    images = [b for b in compose_heatmap(scene).batches if isinstance(b, ImageBatch)]
    return next(b for b in images if b.clip == place.clip(place.heat))


@pytest.mark.parametrize("kind", list(ScaleKind))
def test_quick_colours_equal_the_exact_ones_within_a_step(kind: ScaleKind) -> None:
    rng = np.random.default_rng(3)
    values = (2 ** rng.uniform(0, 45, (300, 300))).astype(np.int64)
    values[rng.random(values.shape) < 0.2] = 0
    keys = value_keys(values)

    counts = key_counts(keys)
    scale = cell_scale(values, keys, counts, kind)
    quick = cell_texels(keys, counts, scale, "cividis", 7)
    exact = texels(values, color_scale(values, kind), "cividis", 7)

    assert ((quick == 7) == (values == 0)).all()
    channels = [
        (c.astype(np.int64)[..., None] >> [16, 8, 0]) & 255 for c in (quick, exact)
    ]
    assert int(np.abs(channels[0] - channels[1]).max()) <= 6


def test_heat_has_a_row_per_token_and_a_column_per_pixel() -> None:
    scene = scene_of()
    heat = heat_of(scene)

    assert heat.pixels.shape == (6, HeatGeometry(scene).x.n_columns)


def test_zoomed_to_bytes_every_pixel_shows_its_byte() -> None:
    scene = scene_of()
    offset = int(scene.base.files.offset[2])
    view = HeatView(offset, offset + 16, 0, 6)

    heat = heat_of(replace(scene, view=view))

    assert heat.pixels.shape[1] == HeatGeometry(scene).x.n_columns
    assert len(np.unique(heat.pixels)) == 1
    assert heat.pixels[0, 0] != scene.theme.lane


def test_more_rows_than_pixels_are_put_together() -> None:
    trace = moe_trace(tokens=700, layers=1)
    base = heat_base(trace, "token")
    scene = heat_scene(trace, base, HeatAxis(base.files), (600, 300), "dark")
    place = HeatGeometry(scene)

    assert len(place.row_edges) - 1 == len(heat_of(scene).pixels)
    assert place.cells().values.sum() == base.totals.file_bytes


@pytest.mark.parametrize("axis", ["offset", "equal"])
def test_cells_of_a_picture_add_up_to_all_bytes(axis: str) -> None:
    scene = scene_of(axis)

    cells = HeatGeometry(scene).cells()

    assert int(cells.values.sum()) == scene.base.totals.file_bytes


@pytest.mark.parametrize("kind", list(ScaleKind))
@pytest.mark.parametrize("width", [333, 334, 517, 900, 1501])
def test_what_is_read_alike_has_one_colour_whatever_the_width(width, kind) -> None:
    # One row of token_embd is read of many: 1 or 2 whole bytes in each cell.
    scene = replace(scene_of(scale_kind=kind), width=width)
    files = scene.base.files
    for bytes_each in (1.3, 3.7, 40.0):
        unit = int(files.size.argmax())
        begin, size = int(files.offset[unit]), int(files.size[unit])
        n = min(int(bytes_each * HeatGeometry(scene).x.n_columns), size)
        view = HeatView(begin, begin + n, 0, 6)

        levels = HeatGeometry(replace(scene, view=view)).levels().values

        assert (levels > 0).any()
        assert np.allclose(levels, levels[:, :1], rtol=1e-3)


def test_levels_are_the_cells_as_if_all_were_equally_wide() -> None:
    place = HeatGeometry(scene_of())
    cells, levels = place.cells(), place.levels()
    width = np.diff(cells.offsets)

    assert np.array_equal(levels.column, cells.column)
    expected = cells.values * place.cell_bytes / width
    assert np.allclose(levels.values, expected, rtol=1e-5, atol=1.5)
    counted = HeatGeometry(replace(scene_of(), metric="count"))
    assert np.array_equal(counted.levels().values, counted.cells().values)


@pytest.mark.parametrize("theme_name", THEMES)
def test_the_most_read_stands_out_from_the_ground(theme_name: str) -> None:
    scene = replace(scene_of(), theme=theme(theme_name), scale_kind=ScaleKind.LINEAR)
    heat, place = heat_of(scene), HeatGeometry(scene)
    levels = place.levels()
    of = levels.values[:, levels.column]
    hottest = int(heat.pixels.flat[int(of.argmax())])
    coldest = int(heat.pixels.flat[int(np.where(of > 0, of, np.inf).argmin())])

    assert contrast(hottest, theme(theme_name).lane) > contrast(
        coldest, theme(theme_name).lane
    )
    assert contrast(hottest, theme(theme_name).lane) > 7


def test_narrow_figure_has_no_strip_without_names_and_all_words_of_its_scale() -> None:
    figure = heatmap_figure(moe_trace(tokens=6, layers=3))

    narrow = figure.draw(PRESETS["single"])
    wide = figure.draw(replace(figure.style, width=Length(2400, "px")))

    assert "tensor" not in texts_of(narrow.picture)
    assert "tensor" in texts_of(wide.picture)
    for drawn in (narrow, wide):
        (scale,) = _scale_text(texts_of(drawn.picture))
        for batch in drawn.picture.batches:
            for text in batch.texts if isinstance(batch, TextBatch) else ():
                if text.text == scale:
                    assert text_width(scale, text.face, text.size) <= text.width


@pytest.mark.parametrize("height", range(120, 420, 37))
@pytest.mark.parametrize("kind", ["token", "time", "layer"])
def test_names_of_rows_never_lie_over_each_other(kind: RowKind, height: int) -> None:
    trace = moe_trace(tokens=40, layers=9)
    base = heat_base(trace, kind)
    size = (900.0, float(height))
    scene = heat_scene(trace, base, HeatAxis(base.files), size, "dark")
    place = HeatGeometry(scene)

    names = [
        text
        for batch in compose_heatmap(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.x == place.x.x0 - 6 and text.face is Face.MONO
        and place.heat[0] <= text.y <= place.heat[1]
    ]  # fmt: skip

    ys = sorted(text.y for text in names)
    assert ys
    assert all(b - a >= names[0].size for a, b in pairwise(ys))


def test_captions_say_what_a_cell_is_of_every_kind_of_rows() -> None:
    trace = moe_trace(tokens=6, layers=3)
    for kind, unit in (("token", "1 token"), ("layer", "1 layer"), ("time", "s")):
        style = FigureStyle(height=Length(300, "px"))
        drawn = heatmap_figure(trace, HeatmapOptions(rows=kind)).draw(style)  # type: ignore[arg-type]

        cell = drawn.caption.partition("A cell is ")[2].rstrip(".")
        width, _, of = cell.partition(" × ")
        assert width.endswith("B")
        assert of.endswith(unit)
        assert any(f"({cell})" in text for text in texts_of(drawn.picture))


def test_words_name_badges_layers_rows_scale_and_totals() -> None:
    texts = texts_of(compose_heatmap(scene_of()))

    assert {"DISK", "BUF", "layer", "tensor", "offset", "never touched"} <= set(texts)
    assert "layer 1" in texts
    assert _scale_text(texts)
    assert any("in experts not chosen" in w for w in texts)
    assert "token 0" in texts
    assert "token" not in texts  # it would read as the name of the axis


def test_legend_folds_where_its_words_would_lie_over_each_other() -> None:
    scene = scene_of()

    narrow = texts_of(compose_heatmap(replace(scene, width=300)))
    assert not _scale_text(narrow)
    assert "token 0" in narrow  # the colours' own scale stays

    wide = texts_of(compose_heatmap(replace(scene, width=600)))
    assert "never touched" in wide
    assert _scale_text(wide)


def _scale_text(texts: list[str]) -> list[str]:
    return [text for text in texts if text.startswith("bytes per cell")]


def test_scale_that_was_chosen_by_itself_says_which() -> None:
    scene = scene_of()
    heat = HeatGeometry(scene).cells().values
    kind = color_scale(heat, ScaleKind.AUTO).kind
    chosen = replace(scene, scale_kind=ScaleKind.LINEAR)

    assert _scale_text(texts_of(compose_heatmap(scene))) == [
        f"bytes per cell, {kind.value} (auto)"
    ]
    assert _scale_text(texts_of(compose_heatmap(chosen))) == ["bytes per cell, linear"]


@pytest.mark.parametrize("theme_name", ["dark", "light"])
def test_selected_tensor_has_a_frame_of_two_pixels_in_a_casing(theme_name: str) -> None:
    scene = scene_of()
    scene = replace(scene, selected=np.array([2], np.int64), theme=theme(theme_name))
    place = HeatGeometry(scene)
    line, casing = outline_pair(theme(theme_name).selection)

    edges = set()
    for batch in compose_heatmap(scene).batches:
        if isinstance(batch, RectBatch) and batch.border is not None:
            sides = (batch.x0, batch.x1, batch.y0, batch.y1, batch.border)
            edges |= set(zip(*(side.tolist() for side in sides), strict=True))
    frames = sorted(
        edge for edge in edges if edge[2] >= place.heat[0] and edge[4] in (line, casing)
    )

    assert [frame[4] for frame in frames] == [casing, line, line, casing]
    # Each lies within the last by a pixel on all sides: no casing covers the line.
    for outer, inner in pairwise(frames):
        steps = [b - a for a, b in zip(outer[:4], inner[:4], strict=True)]
        assert steps == pytest.approx([1, -1, 1, -1])


@pytest.mark.parametrize(
    ("height", "has_buffers"), [(80.0, False), (110.0, False), (130.0, True)]
)
def test_parts_of_a_low_picture_do_not_overlap(
    height: float, has_buffers: bool
) -> None:
    scene = replace(scene_of(), height=height)
    place = HeatGeometry(scene)

    parts = [place.axis, place.disk, place.heat, place.buffer, place.foot]
    shown = [part for part in parts if part[1] > part[0]]
    assert all(above[1] <= below[0] for above, below in pairwise(shown))
    texts = texts_of(compose_heatmap(scene))
    assert (place.buffer in shown) is has_buffers
    assert ("BUF" in texts) is has_buffers


def test_slices_wide_enough_get_their_numbers() -> None:
    scene = scene_of("equal")

    assert {"[0]", "[7]"} <= set(texts_of(compose_heatmap(scene)))


def test_trace_alone_says_no_data_and_where_places_come_from() -> None:
    trace = llama_like_trace()
    base = heat_base(trace, "token")
    scene = heat_scene(trace, base, HeatAxis(base.files), (1400, 420), "light")

    texts = texts_of(compose_heatmap(scene))

    assert "no data" in texts
    assert any("places from the trace alone" in w for w in texts)
    assert trace.tensors.place is None or Place.STATED not in trace.tensors.place


def test_model_alone_says_that_nothing_reads_it() -> None:
    trace = reads_trace((TensorRow("a", 0, 100), TensorRow("b", 100, 50)), [])
    base = heat_base(trace, "token")
    scene = heat_scene(trace, base, HeatAxis(base.files), (1400, 420), "light")

    texts = texts_of(compose_heatmap(scene))

    assert "no data" in texts
    assert any("no access leads to this file" in w for w in texts)
    assert not any("places from the trace alone" in w for w in texts)


def test_mark_shows_its_bytes_and_rows_on_a_pill() -> None:
    scene = scene_of(mark=HeatMark(100_000, 100_000 + (1 << 20), 1, 4))

    assert "1.0 MiB · tokens 1 to 3" in texts_of(compose_heatmap(scene))


def test_selected_and_linked_bytes_have_the_colour_of_the_selection() -> None:
    scene = scene_of(
        selected=np.array([2]), linked=np.array([[500_000, 600_000]], np.int64)
    )

    rects = [b for b in compose_heatmap(scene).batches if isinstance(b, RectBatch)]

    borders = [int(c) for b in rects if b.border is not None for c in b.border]
    assert scene.theme.selection in borders
    assert any(scene.theme.selection in b.fill for b in rects)


def test_some_rows_hold_only_their_own_bytes() -> None:
    scene = scene_of()
    middle = replace(scene, view=replace(scene.view, top=2, bottom=5))

    rows = scene.base.grid(np.array([2, 5])).cells(
        np.array([0, scene.base.files.extent])
    )

    assert HeatGeometry(middle).cells().values.sum() == rows.sum()


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figure_is_written_in_every_theme(
    tmp_path: Path, theme_name: str, suffix: str
) -> None:
    path = tmp_path / f"heat.{suffix}"

    export(
        "heatmap", moe_trace(), path, theme=theme_name, size=(700, 350), rows="layer"
    )

    assert path.stat().st_size > 1_000
    if suffix == "svg":
        assert "layer 1" in path.read_text("utf-8")


@pytest.mark.parametrize("size", [(1, 1), (60, 40), (300, 120)])
def test_tiny_pictures_do_not_fail(size: tuple[int, int]) -> None:
    scene = replace(scene_of(), width=float(size[0]), height=float(size[1]))

    assert compose_heatmap(scene).batches


def strip_of(scene: HeatScene) -> ImageBatch:
    place = HeatGeometry(scene)
    images = [b for b in compose_heatmap(scene).batches if isinstance(b, ImageBatch)]
    (strip,) = (b for b in images if b.y1[0] == place.held[1])
    return strip


@pytest.mark.parametrize("theme_name", THEMES)
@pytest.mark.parametrize("axis", ["offset", "equal"])
def test_strip_shows_the_share_of_each_pixel_s_bytes_in_the_page_cache(
    axis: str, theme_name: str
) -> None:
    scene = replace(scene_of(axis), theme=theme(theme_name))
    n = len(scene.tensor_names)
    held = np.random.default_rng(4).random(n)
    held[::3], held[1::5] = -1, 1
    scene = replace(scene, held=held)
    place, shades = HeatGeometry(scene), held_colors(scene.theme)
    begin, stop = scene.axis.unit_positions()

    strip = strip_of(scene)

    expected = np.zeros(place.x.n_columns, np.uint32)
    for i in range(place.x.n_columns):
        left, right = place.x.edges[i : i + 2].tolist()
        known = in_memory = 0.0
        for unit, tensor in enumerate(scene.base.files.tensor.tolist()):
            part = min(right, int(stop[unit])) - max(left, int(begin[unit]))
            if part > 0 and held[tensor] >= 0:
                known += part
                in_memory += part * held[tensor]
        if known:
            expected[i] = shades[round(in_memory / known * (len(shades) - 1))]
    assert np.array_equal(strip.pixels[0] == 0, expected == 0)
    assert np.mean(strip.pixels[0] == expected) > 0.99  # sums in floats may round
    sides = [texts_of(compose_heatmap(s)) for s in (scene, replace(scene, held=None))]
    assert ["in cache" in text for text in sides] == [True, False]
    assert new_statements(*map("\n".join, sides))


def test_without_samples_there_is_no_strip() -> None:
    scene = scene_of()

    assert scene.held is None
    assert HeatGeometry(scene).held[0] == HeatGeometry(scene).held[1]
    assert "in cache" not in texts_of(compose_heatmap(scene))


def test_shares_of_tensors_are_those_of_the_last_sample() -> None:
    none = np.full(2, -1, np.int64)
    residency = Residency(
        begin=np.array([1, 5]),
        end=np.array([2, 6]),
        state=np.array([0, 1]),
        read_bytes=none,
        major_faults=none,
        minor_faults=none,
        resident=np.array([[0, 0, 0], [50, -1, 300]]),
        tensors=np.array([3, 0, 1], np.int32),
        places=np.zeros((0, 2), np.uint64),
    )

    shares = residency.shares(np.array([10, 200, 30, 200]))

    assert shares.tolist() == [-1, 1, -1, 0.25]


def test_fields_without_an_access_say_what_is_known_of_them() -> None:
    trace = moe_trace(tokens=6, layers=3)
    mask = np.zeros(len(trace.spans), np.bool_)
    cut = ReadWarning(Severity.DATA_LOSS, "capture_lost", "", 3)

    def meanings(trace: Trace, mask: np.ndarray | None = None) -> list[str]:
        base = heat_base(trace, "token", mask=mask)
        axis = HeatAxis(base.files, "offset")
        scene = heat_scene(trace, base, axis, (900, 420), "dark")
        return [text for text, _, _ in untouched_meanings(scene)]

    assert meanings(trace) == ["never touched"]
    assert meanings(trace, mask) == ["not touched by what is shown"]
    assert meanings(replace(trace, warnings=(cut,))) == ["unknown whether touched"]


PARTS = ("axis", "curve", "disk", "held", "heat", "layers", "names", "buffer", "foot")


@pytest.mark.parametrize("has_pages", [False, True])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_no_part_lies_over_another_whatever_the_height(
    has_pages: bool, scale: float
) -> None:
    whole = scene_of()
    held = np.ones(len(whole.tensor_names)) if has_pages else None
    for height in range(40, 460, 3):
        scene = replace(whole, height=height, scale=scale, held=held)
        place = HeatGeometry(scene)
        parts = sorted(getattr(place, name) for name in PARTS)
        parts = [part for part in parts if part[1] > part[0]]

        for above, below in pairwise(parts):
            assert above[1] <= below[0] + 0.51, (height, above, below)
        assert place.heat[1] <= height
        foot = foot_texts(scene)
        assert all(place.heat[1] <= y <= height for y in foot)
        assert place.foot[1] > place.foot[0] or not foot
    assert place.foot[1] > place.foot[0]


def foot_texts(scene: HeatScene) -> list[float]:
    """Return the middles of the texts below the rows."""
    texts = totals_text(HeatGeometry(scene))
    return [
        text.y
        for batch in compose_heatmap(scene).batches
        if isinstance(batch, TextBatch)
        for text in batch.texts
        if text.text == texts
    ]
