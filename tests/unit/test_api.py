"""The Python API: open a trace, look at its columns, save figures of it."""

import subprocess
import sys

import numpy as np
import pytest

import ggscope
from ggscope.errors import ExportError, ReadError
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def test_open_returns_the_columns_of_a_file() -> None:
    trace = ggscope.open(str(SAMPLES / "llama.ggmlviz"))

    assert len(trace.spans) > 0
    assert isinstance(trace.spans.start, np.ndarray)
    assert not trace.spans.start.flags.writeable
    assert int((trace.spans.end - trace.spans.start).sum()) > 0


def test_open_takes_a_folder_as_one_session() -> None:
    trace = ggscope.open(SAMPLES / "moe-experiment")

    assert len(trace.parts) > 1
    assert trace.models


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_figure_is_saved_by_suffix(tmp_path, suffix) -> None:
    target = tmp_path / f"x{suffix}"
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")

    caption = ggscope.figure(trace, "timeline").save(target)

    assert target.stat().st_size > 1000
    assert "llama.ggmlviz" in caption


def test_unknown_view_or_file_is_told(tmp_path) -> None:
    trace = ggscope.open(SAMPLES / "llama.ggmlviz")

    with pytest.raises(ExportError, match="timeline"):
        ggscope.figure(trace, "pie")
    with pytest.raises(ReadError):
        ggscope.open(tmp_path / "none.bin")
    with pytest.raises(AttributeError, match="nosuch"):
        ggscope.nosuch  # noqa: B018


def test_import_alone_brings_neither_numpy_nor_qt() -> None:
    code = "import sys, ggscope; print({'numpy', 'PySide6'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "set()"
