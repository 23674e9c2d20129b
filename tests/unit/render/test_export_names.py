"""A figure is a sound file, whatever the names in it are."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtGui import QImageReader

from figures import export
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from ggscope.render import painter
from ggscope.render.buffers import buffers_figure
from ggscope.render.experts import experts_figure
from ggscope.render.graph.figure import graph_figure
from ggscope.render.heatmap.figure import heatmap_figure
from ggscope.render.reads import cache_figure, hot_figure
from ggscope.render.statistics import statistics_figure
from ggscope.render.timeline.figure import timeline_figure
from ggscope.views import registry
from hostile_names import CONTROLS, MARKUP, hostile_named

VIEWS = {
    "timeline": (timeline_figure, "npu-json"),
    "timeline of ops": (timeline_figure, "ggmlviz"),
    "heatmap": (heatmap_figure, "trace-json"),
    "experts": (experts_figure, "moe-csv"),
    "buffers": (buffers_figure, "buffer-stats"),
    "graph": (graph_figure, "graph-json"),
    "hot": (hot_figure, "trace-json"),
    "cache": (cache_figure, "trace-json"),
    "statistics": (statistics_figure, "trace-json"),
}
FORBIDDEN = re.compile(
    "[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
"""What XML does not take, or what turns the words around it or hides between them."""
HARMLESS = ("\\x1b", "\\x9b", "\\x07", "\\u202e", "\\x7f", "\\u2028", "<img", "<b>")
"""How names look in a drawing: marks that hide are spelled, markup is text."""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    folder = tmp_path_factory.mktemp("named")
    files = hostile_named(folder / "made", (*CONTROLS, *MARKUP))
    return {
        reader: open_trace(files[reader], reader_id=reader)
        for reader in {reader for _, reader in VIEWS.values()}
    }


def test_figures_of_all_views_are_tried() -> None:
    made = {known.figure.partition(":")[2] for known in registry.BUILTIN}

    assert {make.__name__ for make, _ in VIEWS.values()} == made - {""}


@pytest.mark.parametrize("passes_by", [False, True], ids=["", "text passes by"])
@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_xml(
    tmp_path: Path,
    traces: dict[str, Trace],
    view: str,
    passes_by: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make, reader = VIEWS[view]
    target = tmp_path / "figure.svg"
    # What-if cache draws no name of the trace; all draw their title.
    title = " ".join((*CONTROLS, *MARKUP)) if passes_by or view == "cache" else None
    if passes_by:  # the document is made safe once more, whatever was drawn
        monkeypatch.setattr(painter, "one_line", str)
        monkeypatch.setattr(painter, "elided", painter.elided.__wrapped__)
        monkeypatch.setattr(painter, "text_width", painter.text_width.__wrapped__)

    export(make, traces[reader], target, title=title)

    root = ElementTree.parse(target).getroot()
    words = "".join(root.itertext())
    assert any(mark in words for mark in HARMLESS)
    assert not FORBIDDEN.search(words)
    assert {e.tag.rpartition("}")[2] for e in root.iter()}.isdisjoint({"b", "a", "img"})


def test_svg_shows_what_a_name_hides(tmp_path: Path, traces: dict[str, Trace]) -> None:
    target = tmp_path / "figure.svg"

    export(timeline_figure, traces["npu-json"], target, title="\x1b[2J <b>&\x01\udc80")

    root = ElementTree.parse(target).getroot()
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == "\\x1b[2J <b>&\\x01\\udc80"
    assert "\\x1b[2J <b>&\\x01\\udc80" in [
        e.text for e in root.iter() if e.tag.endswith("text")
    ]


def test_png_has_a_title_without_control_characters(
    tmp_path: Path, traces: dict[str, Trace]
) -> None:
    target = tmp_path / "figure.png"

    export(timeline_figure, traces["npu-json"], target, title="a\0b\x1b")

    assert QImageReader(str(target)).text("Title") == "a\\x00b\\x1b"
