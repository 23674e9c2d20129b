"""Figures of graphs as files."""

import re
from pathlib import Path

import pytest
from PySide6.QtGui import QImage

import ggscope
import graph_traces
from builders import empty_trace
from figures import export
from ggscope.analysis.graph.layout import GraphChoice
from ggscope.errors import ExportError
from ggscope.model.graph import count_text
from ggscope.model.trace import Trace
from ggscope.render.figure_style import PRESETS
from ggscope.render.graph.figure import graph_figure, graph_scene_figure
from ggscope.render.graph.look import GraphColorBy
from graph_scenes import graph_scene
from scenes import texts_of
from support import ROOT

pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture(scope="module")
def trace() -> Trace:
    return graph_traces.network_trace(4)


def svg_texts(path: Path) -> list[str]:
    matches = re.findall(r"<text [^>]*>([^<]*)</text>", path.read_text("utf-8"))
    return [text.strip() for text in matches]


def test_svg_of_the_open_graph_has_every_node_once(
    trace: Trace, tmp_path: Path
) -> None:
    path = tmp_path / "graph.svg"

    export("graph", trace, path, collapsed=False)

    graph = trace.graphs[0]
    texts = svg_texts(path)
    n_ops = int((graph.op >= 0).sum())
    shapes = [t for t in texts if re.fullmatch(r"64( × \d+)?", t)]
    leaves = [
        t for t in texts if re.match(r"(blk\.|positions|mask|token_|output\.)", t)
    ]
    assert len(shapes) == n_ops
    assert len(shapes) + len(leaves) - n_stub_labels(texts) == len(graph)
    assert count_text(graph) in path.read_text("utf-8")


def n_stub_labels(texts: list[str]) -> int:
    """Return how many shared inputs are named again at the end of a stub."""
    return sum(texts.count(name) - 1 for name in ("positions", "mask"))


def test_svg_has_a_title_and_says_what_it_is(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "graph.svg"

    export("graph", trace, path)

    content = path.read_text("utf-8")
    assert "<title>network.bin · token 0</title>" in content
    assert "Computation graph token 0 of network.bin: " in content
    assert "Layer 3" in svg_texts(path)


def test_png_has_the_requested_size(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "graph.png"

    export("graph", trace, path, size=(800, 600), dpi=192, theme="print")

    image = QImage(str(path))
    assert (image.width(), image.height()) == (1600, 1200)


def test_natural_size_of_the_open_graph_fits_a_png(
    trace: Trace, tmp_path: Path
) -> None:
    path = tmp_path / "graph.png"
    long = graph_traces.network_trace(40)

    export("graph", long, path, collapsed=False)

    image = QImage(str(path))
    assert 20_000 < image.height() <= 32_767


def test_pdf_is_written(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "graph.pdf"

    export("graph", trace, path, boxes_by="time")

    assert path.read_bytes().startswith(b"%PDF")


def test_dot_has_all_nodes_and_edges(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "graph.dot"

    export("graph", trace, path, collapsed=True)

    text = path.read_text("utf-8")
    assert text.count("shape = record") == len(trace.graphs[0])
    assert text.count(" -> ") == trace.graphs[0].n_edges


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("a.svg", {"graph": 3}, "no graph 3"),
        ("a.svg", {"layer": 99}, "no layer 99"),
        ("a.svg", {"boxes_by": "taste"}, "coloured by category, family"),
        ("a.gif", {}, "can be .png, .svg, .pdf"),
        ("no/folder/a.dot", {}, "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_reported(
    trace: Trace, tmp_path: Path, name: str, values: dict[str, object], message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        export("graph", trace, tmp_path / name, **values)  # type: ignore[arg-type]


def test_trace_without_graph_says_what_to_open(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="Open a graph file"):
        export("graph", empty_trace(), tmp_path / "a.svg")


def test_view_is_exported_as_it_is(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "view.svg"
    scene = graph_scene(
        trace, choice=GraphChoice(frozenset({0})), by=GraphColorBy.TIME, height=500
    )

    graph_scene_figure(scene, whole=False).write(path)
    view = svg_texts(path)
    graph_scene_figure(scene, whole=True).write(path)

    assert "Layer 3" not in view
    assert "Layer 3" in svg_texts(path)


def test_narrow_figure_says_what_nameless_inputs_are_for(tmp_path: Path) -> None:
    trace = ggscope.open(ROOT / "resources" / "samples" / "moe-experiment")
    figure = graph_figure(trace)

    for style in (PRESETS["single"], PRESETS["double"]):
        texts = texts_of(figure.draw(style).picture)
        for item in ("token ids", "RoPE positions", "attention mask"):
            assert any(text.endswith(item) for text in texts), (style.preset, item)
        assert not [text for text in texts if re.fullmatch(r"leaf_\d+", text)]
