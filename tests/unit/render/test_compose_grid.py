"""The picture of a matrix: every cell where it belongs and in its colour."""

from dataclasses import replace

import numpy as np
import pytest
from PySide6.QtGui import QImage

from ggscope.render import colors as render_colors
from ggscope.render.batch import DisplayList, ImageBatch, RectBatch
from ggscope.render.colors import ScaleKind, color_scale
from ggscope.render.export import render_image
from ggscope.render.grid import (
    GridGeometry,
    GridScene,
    Side,
    compose_grid,
    nothing_color,
    placed,
    share_values,
    unit_scale,
)
from ggscope.render.theme import theme
from pictures import everything
from scenes import texts_of


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Texts are measured."""


def make(values: np.ndarray, **changes: object) -> GridScene:
    rows, columns = values.shape
    scene = GridScene(
        width=600,
        height=300,
        theme=theme("dark"),
        values=values,
        colors=color_scale(values),
        row_labels=[str(i) for i in range(rows)],
        column_labels=[str(i) for i in range(columns)],
        row_title="layer",
        column_title="expert",
        value_title="choices",
        title="Experts",
    )
    return replace(scene, **changes)  # type: ignore[arg-type]


def color_at(image: QImage, x: float, y: float) -> int:
    return image.pixel(
        int(x * image.devicePixelRatio()), int(y * image.devicePixelRatio())
    )


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
def test_every_cell_has_the_colour_of_its_number(scale: float) -> None:
    values = np.random.default_rng(1).integers(0, 9, (6, 11)).astype(np.float64)
    scene = make(values, scale=scale)
    place = GridGeometry(scene)

    image = render_image(compose_grid(scene))

    expected = render_colors.texels(
        values, scene.colors, background=nothing_color(scene.theme)
    )
    x, y = place.column_edges(), place.row_edges()
    for row in range(6):
        for column in range(11):
            middle = (x[column] + x[column + 1]) / 2, (y[row] + y[row + 1]) / 2
            assert color_at(image, *middle) == expected[row, column]
            assert place.cell_at(*middle) == (row, column)


def test_positions_outside_the_matrix_are_no_cell() -> None:
    place = GridGeometry(make(np.ones((3, 3))))

    assert place.cell_at(place.left - 1, place.top + 1) is None
    assert place.cell_at(place.left + 1, place.bottom) is None
    assert place.cell_at(place.left, place.top) == (0, 0)


@pytest.mark.parametrize("shape", [(1, 5000), (2000, 3), (1500, 4096)])
def test_one_hot_cell_among_many_is_never_lost(shape: tuple[int, int]) -> None:
    values = np.zeros(shape)
    values[shape[0] // 3, shape[1] // 2] = 7.0

    picture = compose_grid(make(values))

    images = [b for b in picture.batches if isinstance(b, ImageBatch)]
    (image,) = (b for b in images if b.clip is not None)  # the colour bar has none
    assert (image.pixels == render_colors.colors()[-1]).any()


def test_missing_numbers_are_hatched_and_zeros_are_not() -> None:
    with_gap = compose_grid(make(np.array([[0.0, np.nan], [1.0, 2.0]])))
    without = compose_grid(make(np.array([[0.0, 0.0], [1.0, 2.0]])))

    def has_hatch(picture: DisplayList) -> bool:
        rects = [b for b in picture.batches if isinstance(b, RectBatch)]
        return any(b.pattern is not None for b in rects)

    assert has_hatch(with_gap)
    assert not has_hatch(without)


def test_a_matrix_of_which_nothing_is_known_says_so_and_has_no_bar() -> None:
    picture = compose_grid(make(np.full((2, 2), np.nan), missing="N/A: not known"))

    assert "N/A: not known" in texts_of(picture)
    assert "choices" not in texts_of(picture)


def test_an_empty_matrix_has_a_title_only() -> None:
    picture = compose_grid(make(np.zeros((0, 0))))

    assert "Experts" in texts_of(picture)
    assert GridGeometry(make(np.zeros((0, 0)))).cell_at(300, 100) is None


def test_colour_bar_says_what_its_ends_mean() -> None:
    values = np.array([[1.0, 10.0], [100.0, 1000.0]])

    linear = texts_of(compose_grid(make(values)))
    log = texts_of(
        compose_grid(make(values, colors=color_scale(values, ScaleKind.LOG)))
    )

    assert {"0", "1,000", "choices"} <= set(linear)
    assert {"1", "1,000"} <= set(log)
    assert log.count("1") == 3  # the label of a row, of a column, and of the bar


def test_labels_keep_round_distances() -> None:
    picture = compose_grid(make(np.ones((61, 256))))

    texts = texts_of(picture)

    assert {"0", "60", "20", "240"} <= set(texts)
    assert "61" not in texts
    assert "1" in texts or "5" in texts


def test_side_strip_is_as_long_as_its_shares() -> None:
    shares = np.array([1.0, 0.5, np.nan])

    scene = make(np.ones((3, 4)), side=Side(shares, "entropy"))
    image = render_image(compose_grid(scene))

    place = GridGeometry(scene)
    middle = (place.row_edges()[:-1] + place.row_edges()[1:]) / 2
    near, far = place.right + 14, place.right + 60
    full = color_at(image, far, middle[0])
    assert color_at(image, near, middle[1]) == full
    assert color_at(image, far, middle[1]) == nothing_color(scene.theme)
    assert "entropy" in texts_of(compose_grid(scene))


def test_selected_cell_is_framed_and_cells_elsewhere_are_ignored() -> None:
    scene = make(
        np.ones((4, 4)), selected=((1, 2), (9, 9)), hover=(0, 0), cursor=(-1, 0)
    )

    picture = compose_grid(scene)

    borders = [b.border for b in picture.batches
               if isinstance(b, RectBatch) and b.border is not None]  # fmt: skip
    colors = np.concatenate(borders).tolist()
    assert colors.count(scene.theme.selection) == 1
    assert colors.count(scene.theme.text) == 1


def test_shares_of_zero_are_known_and_coloured() -> None:
    values = share_values(np.array([[0.0, 1.0]]))

    texels = render_colors.texels(values, unit_scale())

    assert texels.tolist() == [[render_colors.colors()[0], render_colors.colors()[-1]]]


def test_moved_picture_looks_like_the_original_elsewhere() -> None:
    part = everything(texts=False)

    whole = placed(500, 400, 1.0, part.background, [(part, 240.0, 168.0)])

    original, shifted = render_image(part), render_image(whole)
    cut = shifted.copy(240, 168, part.width, part.height)  # type: ignore[call-overload]
    assert cut == original


def test_tiny_pictures_do_not_fail() -> None:
    for size in ((1, 1), (30, 20), (90, 40)):
        picture = compose_grid(
            make(np.ones((40, 50)), width=size[0], height=size[1],
                 side=Side(np.ones(40), "x"))
        )  # fmt: skip
        assert not render_image(picture).isNull()
