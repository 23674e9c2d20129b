"""Figures of every view for one and for two columns of a journal, as printed."""

from dataclasses import replace

import pytest
from PySide6.QtGui import QFontInfo

from figures import trace_of
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.render.batch import Face
from ggscope.render.export import ensure_gui_application
from ggscope.render.figure_style import PRESETS
from ggscope.render.figures import FIGURES
from ggscope.render.text_metrics import font
from ggscope.render.tokens import TokensOptions, tokens_figure
from ggscope.session_loading import open_bundle
from support import ROOT

FONTS = ("DejaVu Sans", "DejaVu Sans Mono")
"""Figures are laid out by the widths of their texts."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return open_bundle(survey([ROOT / "resources" / "samples" / "moe-experiment"]))


def skip_with_other_fonts() -> None:
    ensure_gui_application()
    result = tuple(
        QFontInfo(font(face, 12.0)).family() for face in (Face.UI, Face.MONO)
    )
    if result != FONTS:
        pytest.skip(f"the fonts here are {result}, those of the pictures {FONTS}")


@pytest.mark.parametrize("preset", ["single", "double"])
@pytest.mark.parametrize("view", FIGURES)
def test_figure_looks_as_it_did(
    qapp, check_golden, trace, view, preset, tmp_path
) -> None:
    skip_with_other_fonts()
    of = trace_of(view, tmp_path) if view in ("npu", "bench") else trace
    figure = FIGURES[view].figure(of)

    image = figure.image(replace(PRESETS[preset], dpi=150))

    check_golden(image, f"figure-{view}-{preset}")


def test_stacked_tokens_look_as_they_did(qapp, check_golden, trace) -> None:
    skip_with_other_fonts()
    figure = tokens_figure(trace, TokensOptions(stack="family"))

    image = figure.image(replace(PRESETS["double"], dpi=150))

    check_golden(image, "figure-tokens-stacked")
