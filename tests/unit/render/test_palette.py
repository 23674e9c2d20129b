import itertools

import numpy as np
import pytest

from ggscope.analysis.rows.categories import Categories
from ggscope.model.ggml.ops import FAMILIES
from ggscope.render.colors import category_color, label_color, lightness_step, lut
from ggscope.render.theme import THEMES, Theme, contrast, theme

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
    for ground, words in itertools.product(
        (t.window, t.pane, t.raised, t.lane), (t.text, t.dim, t.caution, t.error)
    ):
        assert contrast(ground, words) >= 4.5, (t.name, hex(ground), hex(words))


def test_families_have_the_colours_of_the_interface(any_theme: Theme) -> None:
    wanted = {
        "matmul": 0xFF0072B2, "attention": 0xFF56B4E9, "norm": 0xFFCC79A7,
        "elementwise": 0xFFE69F00, "move": 0xFF999999, "moe": 0xFFD55E00,
    }  # fmt: skip

    assert {key: category_color(key, any_theme) for key in wanted} == wanted


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
    found = [category_color(f"layer:{i}", any_theme) for i in range(21)]

    assert len(set(found)) == 21


def test_colour_of_the_file_is_taken_as_it_is(any_theme: Theme) -> None:
    assert category_color("rgb:12ab0f", any_theme) == 0xFF12AB0F


def test_steps_of_one_colour_are_distinct(any_theme: Theme) -> None:
    steps = [lightness_step(0xFF0072B2, i, any_theme) for i in range(7)]

    assert steps[0] == 0xFF0072B2
    assert len(set(steps)) == 7


def test_lut_has_a_colour_per_category(any_theme: Theme) -> None:
    keys = ("matmul", "rgb:010203", "nonsense")
    found = lut(Categories("family", np.zeros(0, np.uint8), keys, keys), any_theme)

    assert found.dtype == np.uint32
    assert found.tolist() == [category_color(key, any_theme) for key in keys]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_colours_of_very_many_lanes_equal_those_of_each(name):
    keys = [f"thread:{i}" for i in range(200)] + ["op:ADD", "thread:-1", "MUL_MAT"]
    index = np.zeros(0, np.uint8)
    categories = Categories("thread", index, tuple(keys), tuple(keys))

    found = lut(categories, theme(name))

    assert found.tolist() == [category_color(key, theme(name)) for key in keys]
    assert lut(categories, theme(name)) is found
