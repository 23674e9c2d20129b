"""A figure is a sound file, whatever the names in it are."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtGui import QImageReader

from figures import export
from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from ggscope.render import painter, text_metrics
from ggscope.render.figures import FIGURES
from hostile_names import CONTROLS, MARKUP, hostile_named
from roofline_traces import random_roofline

VIEWS = {
    "timeline": ("timeline", "npu-json"),
    "timeline of ops": ("timeline", "ggmlviz"),
    "heatmap": ("heatmap", "trace-json"),
    "experts": ("experts", "moe-csv"),
    "buffers": ("buffers", "buffer-stats"),
    "graph": ("graph", "graph-json"),
    "load": ("load", "storage"),
    "hot": ("hot", "trace-json"),
    "cache": ("cache", "trace-json"),
    "statistics": ("statistics", "trace-json"),
    "tokens": ("tokens", "trace-json"),
    "roofline": ("roofline", "made"),
    "3d": ("3d", "made"),
    "bench": ("bench", "llama-bench"),
    "npu": ("npu", "npu-json"),
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
    traces = {
        reader: open_trace(files[reader], reader_id=reader)
        for reader in {reader for _, reader in VIEWS.values()} - {"made"}
    }
    return {**traces, "made": random_roofline(1)}


def test_figures_of_all_views_are_tried() -> None:
    assert {name for name, _ in VIEWS.values()} == set(FIGURES)


@pytest.mark.parametrize("passes_by", [False, True], ids=["", "text passes by"])
@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_xml(
    tmp_path: Path,
    traces: dict[str, Trace],
    view: str,
    passes_by: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, reader = VIEWS[view]
    target = tmp_path / "figure.svg"
    # These draw no name of the trace; all draw their title.
    is_nameless = view in ("cache", "tokens", "roofline", "3d", "bench")
    title = " ".join((*CONTROLS, *MARKUP)) if passes_by or is_nameless else None
    if passes_by:  # the document is made safe once more, whatever was drawn
        width = text_metrics.text_width.__wrapped__
        elided = text_metrics.elided.__wrapped__
        monkeypatch.setattr(text_metrics.QtTextMeasurer, "width", staticmethod(width))
        monkeypatch.setattr(text_metrics, "one_line", str)
        monkeypatch.setattr(text_metrics, "elided", elided)
        monkeypatch.setattr(text_metrics, "text_width", width)
        placed_text = text_metrics.placed_text.__wrapped__
        monkeypatch.setattr(painter, "placed_text", placed_text)

    export(name, traces[reader], target, title=title)

    root = ElementTree.parse(target).getroot()
    text = "".join(root.itertext())
    assert any(mark in text for mark in HARMLESS)
    assert not FORBIDDEN.search(text)
    assert {e.tag.rpartition("}")[2] for e in root.iter()}.isdisjoint({"b", "a", "img"})


def test_svg_shows_what_a_name_hides(tmp_path: Path, traces: dict[str, Trace]) -> None:
    target = tmp_path / "figure.svg"

    export("timeline", traces["npu-json"], target, title="\x1b[2J <b>&\x01\udc80")

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

    export("timeline", traces["npu-json"], target, title="a\0b\x1b")

    assert QImageReader(str(target)).text("Title") == "a\\x00b\\x1b"
