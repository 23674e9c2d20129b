import itertools

import numpy as np
import pytest

from ggscope.analysis.rows.categories import Categories
from ggscope.model.ggml.ops import FAMILIES
from ggscope.model.tables import FAILED_COLOR
from ggscope.render.colors import category_color, label_color, lightness_step, lut
from ggscope.render.theme import THEMES, Theme, contrast, theme
from ggscope.render.timeline.rows import neutral_color
from oracles.color_distance import VISIONS, difference, lab

KEYS = (
    *FAMILIES, "none", "MUL_MAT", "MUL_MAT_ID", "ADD", "MUL", "GLU", "RMS_NORM",
    "ROPE", "CPY", "SOFT_MAX", "FLASH_ATTN_EXT", "OP_97?", "GET_ROWS",
    *(f"layer:{i}" for i in range(-1, 40)), *(f"token:{i}" for i in range(-1, 40)),
    *(f"thread:{i}" for i in range(16)), "phase:0", "phase:1", "phase:-1",
    *(f"space:{i}" for i in range(-1, 5)), "space:mixed", "space:none",
    *(f"quality:{i}" for i in range(4)), "engine:DMA", "engine:TE0", "engine:VE",
    "engine:HOST", "engine:CTRL", "engine:XY", "rgb:ff0000", "rgb:ffffff",
    "rgb:000000", "what is this", "what:ever",
)  # fmt: skip


@pytest.fixture(params=THEMES)
def any_theme(request: pytest.FixtureRequest) -> Theme:
    return theme(request.param)


@pytest.mark.parametrize("key", KEYS)
def test_label_on_any_category_reads_well(key: str, any_theme: Theme) -> None:
    fill = category_color(key, any_theme)

    assert fill >> 24 == 255
    assert contrast(fill, label_color(fill)) >= 4.5


def test_texts_of_the_theme_read_well_on_its_surfaces(any_theme: Theme) -> None:
    t = any_theme
    for ground, text in itertools.product(
        (t.window, t.pane, t.raised, t.lane), (t.text, t.dim, t.caution, t.error)
    ):
        assert contrast(ground, text) >= 4.5, (t.name, hex(ground), hex(text))


def test_families_have_the_colours_of_the_interface(any_theme: Theme) -> None:
    expected = {
        "matmul": 0xFF0072B2, "norm": 0xFFCC79A7, "elementwise": 0xFFE69F00,
        "moe": 0xFFD55E00,
    }  # fmt: skip
    if any_theme.is_dark:
        expected |= {"attention": 0xFF56B4E9, "move": 0xFF009E73}

    assert {key: category_color(key, any_theme) for key in expected} == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1, 2), (50, 0, 0), 2.3669),
        ((50, 2.5, 0), (50, 0, -2.5), 4.3065),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((22.7233, 20.0904, -46.694), (23.0331, 14.973, -42.5619), 2.0373),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_difference_is_that_of_the_paper(one, other, expected) -> None:
    assert difference(one, other) == pytest.approx(expected, abs=1e-4)


SIDE_BY_SIDE = {
    "families and phases": [
        *(key for key in FAMILIES if key != "other"), "none",
        "phase:0", "phase:1", "phase:2",
    ],
    "engines and phases": [
        "engine:DMA", "engine:TE", "engine:VE", "phase:0", "phase:1", "phase:2",
    ],
    "sources": ["space:0", "space:1", "space:2", "space:3", "space:4", "space:mixed"],
    "timing": [f"quality:{i}" for i in range(4)],
    "parts of a graph": [
        "space:1", "attention", "moe", "norm", "elementwise", "other",
    ],
}  # fmt: skip


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("group", SIDE_BY_SIDE)
def test_colours_of_a_legend_differ_for_everybody(
    group: str, vision: str, any_theme: Theme
) -> None:
    colors = {key: category_color(key, any_theme) for key in SIDE_BY_SIDE[group]}
    if group == "families and phases":
        colors["tokens, graphs"] = neutral_color(any_theme)

    for (one, a), (other, b) in itertools.combinations(colors.items(), 2):
        away = difference(lab(a, vision), lab(b, vision))
        assert away >= (10 if vision == "usual" else 8), (one, other, round(away, 1))


@pytest.mark.parametrize("vision", VISIONS)
def test_reads_differ_from_the_selection_and_from_failed_ones(
    vision: str, any_theme: Theme
) -> None:
    color = lab(category_color("storage", any_theme), vision)

    for other in (any_theme.selection, FAILED_COLOR):
        assert difference(color, lab(other, vision)) >= 12


@pytest.mark.parametrize("name", ["light", "print"])
def test_families_differ_in_grey_print(name: str) -> None:
    keys = [key for key in FAMILIES if key != "other"]
    lightness = {key: lab(category_color(key, theme(name)))[0] for key in keys}

    ordered = sorted(lightness.items(), key=lambda item: item[1])
    for (one, a), (other, b) in itertools.pairwise(ordered):
        assert b - a >= 5, (one, other, round(b - a, 1))


def test_families_differ_from_each_other(any_theme: Theme) -> None:
    assert len({category_color(key, any_theme) for key in FAMILIES}) == len(FAMILIES)


def test_ops_keep_their_familys_colour_and_differ_inside_it(any_theme: Theme) -> None:
    ops = ("ADD", "MUL", "GLU", "UNARY", "SCALE")

    assert category_color("MUL_MAT", any_theme) == category_color("matmul", any_theme)
    assert len({category_color(op, any_theme) for op in ops}) == len(ops)


def test_engines_ignore_their_number(any_theme: Theme) -> None:
    assert category_color("engine:TE3", any_theme) == 0xFF009E73
    assert category_color("engine:DMA", any_theme) == 0xFF0072B2
    assert category_color("engine:VE0", any_theme) == 0xFFE69F00


def test_neighbouring_layers_differ(any_theme: Theme) -> None:
    category_colors = [category_color(f"layer:{i}", any_theme) for i in range(21)]

    assert len(set(category_colors)) == 21


def test_colour_of_the_file_is_taken_as_it_is(any_theme: Theme) -> None:
    assert category_color("rgb:12ab0f", any_theme) == 0xFF12AB0F


def test_steps_of_one_colour_are_distinct(any_theme: Theme) -> None:
    steps = [lightness_step(0xFF0072B2, i, any_theme) for i in range(7)]

    assert steps[0] == 0xFF0072B2
    assert len(set(steps)) == 7


def test_lut_has_a_colour_per_category(any_theme: Theme) -> None:
    keys = ("matmul", "rgb:010203", "nonsense")
    result = lut(Categories("family", np.zeros(0, np.uint8), keys, keys), any_theme)

    assert result.dtype == np.uint32
    assert result.tolist() == [category_color(key, any_theme) for key in keys]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_colours_of_very_many_lanes_equal_those_of_each(name):
    keys = [f"thread:{i}" for i in range(200)] + ["op:ADD", "thread:-1", "MUL_MAT"]
    index = np.zeros(0, np.uint8)
    categories = Categories("thread", index, tuple(keys), tuple(keys))

    result = lut(categories, theme(name))

    assert result.tolist() == [category_color(key, theme(name)) for key in keys]
    assert lut(categories, theme(name)) is result
