"""The map of a model file: what is drawn where, and what is found there."""

from dataclasses import replace

import numpy as np
import pytest

from ggscope.analysis.model_tensors import ModelTensors, model_tensors
from ggscope.model.names import COMPONENTS
from ggscope.render.batch import DisplayList, RectBatch, Text, TextBatch
from ggscope.render.model_map import (
    BAR_PX,
    FILE_PX,
    LEGEND_PX,
    MAX_FILES,
    PAD_PX,
    ModelMapScene,
    compose_model_map,
    height_of,
    tensor_at,
)
from ggscope.render.reads import component_color
from ggscope.render.theme import theme
from gguf_files import encode, read_gguf


def made(
    sizes: list[int], *, file: list[int] | None = None, gap: int = 0
) -> ModelTensors:
    """Return tensors one after the other, `gap` bytes between them."""
    n = len(sizes)
    files = np.array(file or [0] * n, np.int64)
    n_files = int(files.max()) + 1
    offset = np.zeros(n, np.int64)
    ends = np.zeros(n_files, np.int64)
    for i, size in enumerate(sizes):
        offset[i] = ends[files[i]]
        ends[files[i]] += size + gap
    return ModelTensors(
        np.arange(n) + 10, files, offset, np.array(sizes, np.int64),
        (np.arange(n) % len(COMPONENTS)).astype(np.uint8),
        tuple(f"m{i}.gguf" for i in range(n_files)), ends, np.zeros(n_files, np.int64),
    )  # fmt: skip


def scene_of(
    tensors: ModelTensors, width: float = 1024, **more: object
) -> ModelMapScene:
    return ModelMapScene(tensors, width, height_of(tensors), theme("dark"), **more)


def rects(picture: DisplayList, color: int) -> list[tuple[float, float, float]]:
    """Return left, right and top of the rectangles of a colour."""
    items = []
    for batch in picture.batches:
        if isinstance(batch, RectBatch):
            mine = batch.fill == color
            items += zip(batch.x0[mine], batch.x1[mine], batch.y0[mine], strict=True)
    return [tuple(map(float, rect)) for rect in items]


def legend_of(picture: DisplayList) -> list[Text]:
    texts = [t for b in picture.batches if isinstance(b, TextBatch) for t in b.texts]
    return [t for t in texts if t.y == LEGEND_PX / 2]


def bar_top(file: int = 0) -> float:
    return LEGEND_PX + (file + 1) * FILE_PX - BAR_PX - 4


def bars(picture: DisplayList, color: int, file: int = 0) -> list[tuple[float, float]]:
    return sorted((a, b) for a, b, y in rects(picture, color) if y == bar_top(file))


def test_tensor_lies_at_its_share_of_the_file() -> None:
    tensors = made([100, 300, 600])
    picture = compose_model_map(scene_of(tensors, 1000 + 2 * PAD_PX))

    edges = [(0, 100), (100, 400), (400, 1000)]
    for i, (a, b) in enumerate(edges):
        [(left, right)] = bars(picture, component_color(COMPONENTS[i], theme("dark")))
        assert left == PAD_PX + a
        assert PAD_PX + b - 2 <= right <= PAD_PX + b


def test_small_tensor_is_drawn_a_pixel_wide() -> None:
    tensors = made([1, 1_000_000])
    for scale in (1.0, 2.0):
        picture = compose_model_map(scene_of(tensors, scale=scale))
        [(left, right)] = bars(picture, component_color(COMPONENTS[0], theme("dark")))
        assert right - left == pytest.approx(1 / scale)


def test_point_finds_the_tensor_drawn_there() -> None:
    tensors = made([100, 300, 600, 5, 4000], gap=50)
    scene = scene_of(tensors)
    picture, y = compose_model_map(scene), bar_top() + BAR_PX / 2
    colors = {component_color(name, theme("dark")) for name in COMPONENTS}
    drawn = sorted(edges for color in colors for edges in bars(picture, color))

    assert len(drawn) == len(tensors)
    for row, (left, right) in zip(tensors.rows.tolist(), drawn, strict=True):
        assert tensor_at(scene, (left + right) / 2, y) == row
    wide = scene.width - 2 * PAD_PX
    gap_at = PAD_PX + (100 + 25) / float(tensors.ends[0]) * wide
    assert tensor_at(scene, gap_at, y) == -1


def test_point_outside_the_bars_finds_nothing() -> None:
    scene = scene_of(made([100, 300]))

    for x, y in ((500, 2), (500, bar_top() - 2), (500, bar_top() + BAR_PX + 1),
                 (2, bar_top() + 5), (1023, bar_top() + 5)):  # fmt: skip
        assert tensor_at(scene, x, y) == -1


def test_each_file_has_its_own_bar() -> None:
    tensors = made([10, 20, 40], file=[0, 1, 1])
    scene = scene_of(tensors)

    assert tensor_at(scene, 500, bar_top(0) + 5) == 10
    assert tensor_at(scene, 100, bar_top(1) + 5) == 11
    assert tensor_at(scene, 900, bar_top(1) + 5) == 12


def test_files_beyond_the_most_have_no_bar() -> None:
    n = MAX_FILES + 3
    tensors = made([10] * n, file=list(range(n)))
    scene = scene_of(tensors)

    assert height_of(tensors) == height_of(
        made([10] * MAX_FILES, file=list(range(MAX_FILES)))
    )
    assert tensor_at(scene, 500, bar_top(MAX_FILES - 1) + 5) == 10 + MAX_FILES - 1
    assert tensor_at(scene, 500, bar_top(MAX_FILES) + 5) == -1


def test_selected_tensor_is_framed() -> None:
    tensors = made([100, 300, 600])
    frame = theme("dark").selection

    def frames(selected: frozenset[int]) -> list[float]:
        picture = compose_model_map(scene_of(tensors, selected=selected))
        return [
            float(x) for batch in picture.batches
            if isinstance(batch, RectBatch) and batch.border is not None
            for x in batch.x0[batch.border == frame]
        ]  # fmt: skip

    assert frames(frozenset()) == []
    assert frames(frozenset({11})) == [pytest.approx(PAD_PX + 100, abs=1.5)]


def test_legend_counts_the_bytes_of_each_part(tmp_path) -> None:
    trace = read_gguf(tmp_path, encode())
    tensors = model_tensors(trace)
    picture = compose_model_map(scene_of(tensors))

    assert [t.text for t in legend_of(picture)] == [
        "experts 16.0 KiB", "embedding 6.6 KiB", "output 6.6 KiB",
        "attention 2.2 KiB", "norm 512 B",
    ]  # fmt: skip


def test_parts_of_one_colour_are_one_entry_of_the_legend() -> None:
    parts = ["experts", "router", "attention"]
    tensors = replace(
        made([1024, 2048, 512]),
        component=np.array([COMPONENTS.index(p) for p in parts], np.uint8),
    )

    assert [t.text for t in legend_of(compose_model_map(scene_of(tensors)))] == [
        "router, experts 3.0 KiB",
        "attention 512 B",
    ]


def test_legend_ends_before_the_edge() -> None:
    tensors = made([100] * len(COMPONENTS))
    for width in (120, 300, 500, 900, 1600):
        legend = legend_of(compose_model_map(scene_of(tensors, width)))
        assert all(t.x + 6 * len(t.text) < width for t in legend)
        names = ", ".join(t.text for t in legend)
        assert all(part in names for part in COMPONENTS) or width < 1600
