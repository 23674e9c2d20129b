"""Colour maps and the scales that lead to them."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.render.colors import (
    DIFFERENCE,
    NAMES,
    ScaleKind,
    color_bar,
    color_scale,
    colors,
    map_on,
    texels,
)
from ggscope.render.theme import luminance, theme

KINDS = list(ScaleKind)


@pytest.mark.parametrize("name", [*NAMES, DIFFERENCE])
def test_colors_are_opaque_and_read_only(name):
    result = colors(name)

    assert len(result) == 256
    assert (result >> 24 == 255).all()
    assert not result.flags.writeable


def test_maps_turn_on_light_grounds_and_those_of_differences_do_not():
    dark, light, paper = (theme(name) for name in ("dark", "light", "print"))

    for name in ("cividis", "viridis", "magma"):
        assert map_on(name, dark) == name
        assert (colors(map_on(name, light)) == colors(name)[::-1]).all()
        assert (colors(map_on(name, paper)) == colors(name)[::-1]).all()
    for name in ("turbo", DIFFERENCE):
        assert map_on(name, light) == map_on(name, dark) == name


@pytest.mark.parametrize("name", ["cividis", "viridis", "magma"])
def test_colors_of_amounts_grow_lighter(name):
    light = [luminance(int(c)) for c in colors(name)[::16]]

    assert light == sorted(light)


def test_colors_are_found_where_a_bundle_has_the_tables_only(tmp_path):
    maps = Path(find_spec("pyqtgraph").origin).parent / "colors" / "maps"
    shutil.copytree(maps, tmp_path / "pyqtgraph" / "colors" / "maps")
    program = (
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "here = [p for p in sys.path if p]\n"
        f"sys.path[:] = [{str(tmp_path)!r}]\n"
        "spec = find('pyqtgraph')\n"
        "sys.path[:] = here\n"
        "assert spec.origin is None\n"  # a folder without a module, as in a bundle
        "importlib.util.find_spec = lambda name: spec\n"
        "from ggscope.render.colors import colors\n"
        "print(*colors('cividis')[[0, 128, 255]])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout.split() == [str(c) for c in colors("cividis")[[0, 128, 255]]]


def test_colors_of_an_unknown_map_are_refused():
    with pytest.raises(KeyError):
        colors("no such map")


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=50), st.sampled_from(KINDS))
def test_shares_keep_the_order_of_values(values, kind):
    numbers = np.array(values)
    scale = color_scale(numbers, kind)

    shares = scale.shares(numbers)

    assert (np.isnan(shares) == (numbers <= 0)).all()
    above = numbers > 0
    order = np.argsort(numbers[above], kind="stable")
    assert (np.diff(shares[above][order]) >= -1e-12).all()
    assert ((shares[above] >= 0) & (shares[above] <= 1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_value_at_is_the_inverse_of_shares(kind):
    numbers = np.array([1.0, 3.0, 10.0, 200.0, 5000.0])
    scale = color_scale(numbers, kind)

    back = [scale.value_at(float(s)) for s in scale.shares(numbers)]

    assert back == pytest.approx(numbers.tolist(), rel=0.02)


def test_percentiles_give_equal_room_to_equal_ranks():
    numbers = np.array([1.0, 2.0, 4.0, 1e9, 2e9])

    shares = color_scale(numbers, ScaleKind.PERCENTILE).shares(numbers)

    assert shares == pytest.approx([0, 0.25, 0.5, 0.75, 1.0], abs=0.01)


def test_texels_leave_zero_to_the_background():
    values = np.array([[0.0, 1.0], [2.0, 0.0]])

    result = texels(values, color_scale(values), background=0xFF010203)

    assert result.shape == (2, 2)
    assert result[0, 0] == result[1, 1] == 0xFF010203
    assert result[1, 0] == colors()[255]


def test_scale_of_nothing_is_harmless():
    scale = color_scale(np.zeros(3), ScaleKind.LOG)

    assert np.isnan(scale.shares(np.zeros(3))).all()


def test_color_bar_goes_from_low_to_high():
    bar = color_bar(10, 20, 100, 8, "viridis")

    assert bar.pixels.shape == (1, 100)
    assert bar.pixels[0, 0] == colors("viridis")[0]
    assert bar.pixels[0, -1] == colors("viridis")[255]
    assert (bar.x0, bar.x1) == (10, 110)


def test_numbers_that_are_alike_have_the_colour_of_the_middle():
    numbers = np.array([492.0, 493.0, 495.0, 490.0] * 50)

    shares = color_scale(numbers, ScaleKind.PERCENTILE).shares(numbers)

    assert shares == pytest.approx(0.5, abs=0.01)


@given(st.lists(st.integers(1, 1_000_000), min_size=1, max_size=400))
def test_percentiles_ascend_with_the_numbers(numbers):
    scale = color_scale(np.array(numbers, float), ScaleKind.PERCENTILE)

    shares = scale.shares(np.sort(np.array(numbers, float)))

    assert (np.diff(shares) >= -1e-9).all()
    assert ((shares >= 0) & (shares <= 1)).all()


def test_automatic_scale_is_by_percentile_where_most_numbers_are_alike():
    alike = np.array([1.0] * 10 + [493.0] * 90)
    spread = np.geomspace(1, 1e6, 100)

    assert color_scale(alike, ScaleKind.AUTO).kind is ScaleKind.PERCENTILE
    assert color_scale(spread, ScaleKind.AUTO).kind is ScaleKind.LOG
    assert color_scale(np.zeros(3), ScaleKind.AUTO).high == 1
