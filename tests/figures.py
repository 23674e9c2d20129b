"""Figures, written as the command line writes them, and traces that have them."""

from dataclasses import replace
from pathlib import Path

import bench_files
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.render.figure_style import FigureStyle, css_px
from ggscope.render.figures import FIGURES
from ggscope.session_loading import open_bundle
from support import ROOT

SAMPLES = ROOT / "resources" / "samples"


def sample_of(view: str, folder: Path) -> Path:
    """Return a file or folder that has something for a figure; made in `folder`."""
    if view == "npu":
        return SAMPLES / "npu-prefill-decode.json"
    if view == "bench":
        path = folder / "bench.jsonl"
        path.write_bytes(bench_files.text("jsonl"))
        return path
    return SAMPLES / "moe-experiment"


def trace_of(view: str, folder: Path) -> Trace:
    """Return the trace of `sample_of`."""
    return open_bundle(survey([sample_of(view, folder)]))


def export(
    name: str,
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] | None = None,
    dpi: float = 96.0,
    theme: str = "light",
    title: str | None = None,
    **options: object,
) -> None:
    """Write the figure `name` of a trace."""
    style = FigureStyle(dpi=dpi, theme=theme, title=title)
    if size is not None:
        style = replace(style, width=css_px(size[0]), height=css_px(size[1]))
    FIGURES[name].figure(trace, **options).write(path, style)
