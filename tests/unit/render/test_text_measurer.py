"""Composers lay pictures out by any measurer of texts, not by Qt alone."""

import subprocess
import sys

from ggscope.render.batch import Face
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import Frame
from ggscope.render.text_measurer import qt_measurer
from ggscope.render.text_metrics import text_width

COMPOSERS = (
    "timeline.compose",
    "timeline.overview",
    "heatmap.compose",
    "graph.compose",
)


class LetterCounter:
    """Measures every letter as `letter_px` wide."""

    def __init__(self, letter_px: float) -> None:
        self.letter_px = letter_px

    def width(self, text: str, face: Face, size: float) -> float:
        return len(text) * self.letter_px


def test_importing_composers_imports_no_toolkit() -> None:
    imports = ", ".join(f"ggscope.render.{name}" for name in COMPOSERS)
    code = f"import sys, {imports}; sys.exit('PySide6' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_qt_measures_as_the_painter_draws(qapp) -> None:
    measurer = qt_measurer()

    for face in Face:
        assert measurer.width("MUL_MAT", face, 11.0) == text_width(
            "MUL_MAT", face, 11.0
        )


def test_frame_wraps_the_title_where_its_measurer_says(qapp) -> None:
    title = "trace.json · timeline"

    def heights(letter_px: float) -> float:
        measurer = LetterCounter(letter_px)
        return Frame(FigureStyle(), 400.0, title=title, measurer=measurer).top

    assert heights(5.0) < heights(50.0)
