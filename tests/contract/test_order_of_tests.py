"""Any test may be the first of its process, whatever lies beside the checkout."""

import os
import subprocess
import sys

from support import ROOT

DRAWS = (
    "tests/cli/test_sample_experiment.py::test_every_pane_has_a_picture_of_it[buffers]"
)
WINDOW = "tests/gui/test_start_page.py::test_samples_are_offered_where_they_are"
CORPUS = "tests/cli/test_corpus_sessions.py::test_table_of_january_is_an_outdated_one"


def test_window_comes_after_a_figure_and_without_the_corpus() -> None:
    """What draws a figure makes an application without widgets, if there is none."""
    flags = ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *flags, DRAWS, WINDOW, CORPUS],
        env=os.environ | {"GGSCOPE_CORPUS": "none", "QT_QPA_PLATFORM": "offscreen"},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" in done.stdout
