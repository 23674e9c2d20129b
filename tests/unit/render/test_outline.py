"""A selection shows on whatever it lies on, and a drawing names families of CSS."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggscope.render.export import css_families
from ggscope.render.theme import THEMES, contrast, outline_pair, theme
from ggscope.render.timeline.tracks.counter import exact_text

SANS = "'DejaVu Sans', 'Noto Sans', 'Liberation Sans', 'Helvetica', 'Arial'"
MONO = "'DejaVu Sans Mono', 'Liberation Mono', 'Menlo', 'Consolas'"


@given(st.integers(0, 0xFFFFFF), st.integers(0, 0xFFFFFF))
def test_line_or_casing_has_contrast_on_any_ground(color: int, ground: int) -> None:
    pair = outline_pair(0xFF000000 | color)

    assert max(contrast(part, 0xFF000000 | ground) for part in pair) >= 2.99


@pytest.mark.parametrize("name", THEMES)
def test_selections_of_the_themes_have_contrast_on_all_greys(name: str) -> None:
    for color in (theme(name).selection, theme(name).accent):
        pair = outline_pair(color)
        for grey in range(256):
            ground = 0xFF000000 | grey * 0x10101
            assert max(contrast(part, ground) for part in pair) >= 3


@pytest.mark.parametrize(
    ("written", "families"),
    [
        ("Inter", f"'Inter', {SANS}, sans-serif"),
        ("DejaVu Sans", f"{SANS}, sans-serif"),
        ("DejaVu Sans Mono", f"{MONO}, monospace"),
        ("It's", f"'Its', {SANS}, sans-serif"),
    ],
)
def test_families_of_a_drawing_are_those_of_css(written: str, families: str) -> None:
    drawing = '<text font-family="{}">It is "Inter"</text>'

    assert css_families(drawing.format(written)) == drawing.format(families)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1_214_720.0, "bytes", "1.2 MiB (1,214,720 bytes)"),
        (12.0, "bytes", "12 B"),
        (12_345.0, "tokens", "12,345 tokens"),
        (float("nan"), "bytes", "unknown"),
    ],
)
def test_counter_has_readable_and_exact_bytes(
    value: float, unit: str, text: str
) -> None:
    assert exact_text(value, unit) == text
