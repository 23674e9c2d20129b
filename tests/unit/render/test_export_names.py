"""A figure is a sound file, whatever the names in it are."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtGui import QImageReader

from ggscope.model.trace import Trace
from ggscope.readers.registry import open_trace
from ggscope.render.buffers import export_buffers
from ggscope.render.experts import export_experts
from ggscope.render.export import export_timeline
from ggscope.render.graph.figure import export_graph
from ggscope.render.heatmap.figure import export_heatmap
from ggscope.render.reads import export_cache, export_hot
from hostile_names import CONTROLS, MARKUP, hostile_named

VIEWS = {
    "timeline": (export_timeline, "npu-json"),
    "timeline of ops": (export_timeline, "ggmlviz"),
    "heatmap": (export_heatmap, "trace-json"),
    "experts": (export_experts, "moe-csv"),
    "buffers": (export_buffers, "buffer-stats"),
    "graph": (export_graph, "graph-json"),
    "hot": (export_hot, "trace-json"),
    "cache": (export_cache, "trace-json"),
}
FORBIDDEN = re.compile("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x9f]")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    folder = tmp_path_factory.mktemp("named")
    files = hostile_named(folder / "made", (*CONTROLS, *MARKUP))
    return {
        reader: open_trace(files[reader], reader_id=reader)
        for reader in {reader for _, reader in VIEWS.values()}
    }


@pytest.mark.parametrize("view", VIEWS)
def test_svg_is_xml(tmp_path: Path, traces: dict[str, Trace], view: str) -> None:
    export, reader = VIEWS[view]
    target = tmp_path / "figure.svg"

    export(traces[reader], target)  # type: ignore[operator]

    root = ElementTree.parse(target).getroot()
    words = "".join(root.itertext())
    assert words.strip()
    assert not FORBIDDEN.search(words)
    assert {e.tag.rpartition("}")[2] for e in root.iter()}.isdisjoint({"b", "a", "img"})


def test_svg_shows_what_a_name_hides(tmp_path: Path, traces: dict[str, Trace]) -> None:
    target = tmp_path / "figure.svg"

    export_timeline(traces["npu-json"], target, title="\x1b[2J <b>&\x01\udc80")

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

    export_timeline(traces["npu-json"], target, title="a\0b\x1b")

    assert QImageReader(str(target)).text("Title") == "a\\x00b\\x1b"
