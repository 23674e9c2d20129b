"""What figures hold and leave out, and how other programs draw them."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage

from buffer_traces import busy_buffers
from builders import random_trace, spans_trace
from expert_traces import accessing, routed
from figures import trace_of
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.readers.discovery import survey
from ggscope.render.batch import RectBatch, TextBatch
from ggscope.render.buffers import BuffersOptions, buffers_figure
from ggscope.render.colors import Entry
from ggscope.render.experts import ExpertsOptions, experts_figure
from ggscope.render.export import Figure, ensure_gui_application, trace_name
from ggscope.render.figure_style import PRESETS, FigureStyle, Length
from ggscope.render.figures import FIGURES
from ggscope.render.frame import Frame
from ggscope.render.graph.figure import GraphOptions, graph_figure
from ggscope.render.reads import HotOptions, hot_figure
from ggscope.render.text_metrics import isolated
from ggscope.render.timeline.figure import TimelineOptions, timeline_figure
from ggscope.session_loading import open_bundle
from graph_traces import network_trace
from scenes import texts_of
from statements import new_statements
from support import ROOT

SVG = "{http://www.w3.org/2000/svg}"
SINGLE, DOUBLE = PRESETS["single"], PRESETS["double"]
MAX_BYTES = 20_000_000
ALIKE = 0.02
"""How far two programs' pictures of a figure may be apart, of all that is possible."""


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


SAMPLES = ROOT / "resources" / "samples"


@pytest.fixture(scope="module")
def experiment() -> Trace:
    return open_bundle(survey([SAMPLES / "moe-experiment"]))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """Return what gives traces for views that the experiment has nothing for."""
    folder = tmp_path_factory.mktemp("figures")
    return cache(lambda view: trace_of(view, folder))


@pytest.fixture
def trace(
    request: pytest.FixtureRequest,
    experiment: Trace,
    others: Callable[[str], Trace],
) -> Trace:
    """Return a trace that the view of a test, if it has one, has data of."""
    spec = getattr(request.node, "callspec", None)
    view = "" if spec is None else spec.params.get("view")
    return others(view) if view in ("npu", "bench") else experiment


def experts_of(layer: int) -> Trace:
    """Return accesses to an expert of layer 1 and one of another layer."""
    rows = [(f"blk.{n}.ffn_up_exps.weight[2]", -1, 10, n, 2, 0) for n in (1, layer)]
    accesses = [[(0, 1, 2, 10)], [(1, layer, 2, 10)]]
    return accessing(accesses, [0, 1], [0, 0], rows)


def captions(figure: Figure, *looks: FigureStyle) -> str:
    return "\n".join(figure.draw(style).caption for style in looks)


# -- what is drawn -----------------------------------------------------------------


@pytest.mark.parametrize("style", [SINGLE, DOUBLE], ids=["88 mm", "180 mm"])
@pytest.mark.parametrize("view", FIGURES)
def test_figure_has_title_legend_and_whole_lines(
    trace: Trace, view: str, style: FigureStyle
) -> None:
    drawn = FIGURES[view].figure(trace).draw(style)
    picture, texts = drawn.picture, texts_of(drawn.picture)

    # A folder that was opened whole gives its name, once.
    name = trace_name(trace)
    assert any(name in text for text in texts)
    assert drawn.caption.count(name) == 1
    assert round(picture.width * picture.scale) == style.pixels(style.width)
    assert float(picture.height * picture.scale) == pytest.approx(
        round(picture.height * picture.scale), abs=1e-3
    )
    for batch in picture.batches:
        if isinstance(batch, TextBatch):
            for text in batch.texts:
                half = text.size / 2
                assert half <= text.y <= picture.height - half + 1, text


@pytest.mark.parametrize("view", FIGURES)
def test_everything_around_a_figure_can_be_left_out(trace: Trace, view: str) -> None:
    figure = FIGURES[view].figure(trace)
    bare = replace(DOUBLE, title="", legend=False, color_bar=False)

    whole, less = figure.draw(DOUBLE), figure.draw(bare)

    assert less.picture.height < whole.picture.height
    assert less.title == whole.title, "readers of screens still hear it"


def test_lanes_fit_a_height_that_is_asked_for() -> None:
    trace = random_trace(1, 400, lanes=12, layers=0)
    figure = timeline_figure(trace)
    low, high = (replace(DOUBLE, height=Length(mm, "mm")) for mm in (70, 120))

    for style in (low, high):
        picture = figure.draw(style).picture
        assert round(picture.height * picture.scale) == style.pixels(style.height)
        assert sum(text.startswith("thread ") for text in texts_of(picture)) == 12


def test_no_lane_is_cut_where_few_fit() -> None:
    trace = random_trace(1, 400, lanes=60, layers=0)
    style = replace(SINGLE, height=Length(50, "mm"))

    drawn = timeline_figure(trace).draw(style)

    clips = [b.clip for b in drawn.picture.batches if isinstance(b, RectBatch)]
    bottom = max(clip.y + clip.height for clip in clips if clip is not None)
    assert bottom <= drawn.picture.height
    shown = [text for text in texts_of(drawn.picture) if text.startswith("thread")]
    n_all = 60 + 1  # with that of busy threads
    assert f"space: {n_all - len(shown)} lanes." in drawn.caption


def test_right_to_left_names_do_not_turn_what_is_around() -> None:
    assert isolated("plain · 3") == "plain · 3"
    assert isolated("שלום · 12 KiB") == "\u2068שלום\u2069 · 12 KiB"
    assert isolated("a שלום עולם b") == "a \u2068שלום עולם\u2069 b"


def test_svg_isolates_right_to_left_names_without_hidden_characters(
    tmp_path: Path,
) -> None:
    target = tmp_path / "a.svg"

    timeline_figure(spans_trace([0], [9])).write(
        target, FigureStyle(title='"שלום" · <3>')
    )

    # How many runs a line becomes depends on which fonts have its letters.
    root = ET.fromstring(target.read_text("utf-8"))
    runs = {e: "".join(e.itertext()).strip() for e in root.iter(f"{SVG}text")}
    heading = next(e.get("y") for e, run in runs.items() if run == "שלום")
    line = [run for e, run in runs.items() if e.get("y") == heading]
    assert "".join(line).replace(" ", "") == '"שלום"·<3>'
    assert all(runs.values())
    assert not set("\u2066\u2067\u2068\u2069") & set(target.read_text("utf-8"))


# -- what the caption owns up to ------------------------------------------------------


def test_caption_says_which_lanes_are_missing() -> None:
    trace = random_trace(1, 400, lanes=60, layers=4)
    low, page = (replace(DOUBLE, height=Length(mm, "mm")) for mm in (40, 400))
    every = timeline_figure(trace)
    key = TraceIndex(trace).lanes.keys[0]
    hidden = timeline_figure(
        trace, TimelineOptions(state=LaneState(hidden=frozenset({key})))
    )
    opened = timeline_figure(
        trace, TimelineOptions(state=LaneState(collapsed=frozenset()))
    )
    seen = replace(page, seen=True)

    assert new_statements(captions(every, low), captions(every, page))
    assert new_statements(captions(hidden, seen), captions(hidden, page))
    assert new_statements(captions(every, page), captions(opened, seen))
    mask = np.ones(len(trace.spans), np.bool_)
    assert new_statements(
        captions(timeline_figure(trace, TimelineOptions(mask=mask)), page),
        captions(every, page),
    )


def test_caption_says_what_other_views_have_no_room_for(trace: Trace) -> None:
    short = replace(SINGLE, height=Length(50, "mm"))
    hot, experts = hot_figure(trace), experts_figure(trace)
    buffers = buffers_figure(busy_buffers())
    few = buffers_figure(trace)
    graph = graph_figure(network_trace(40), GraphOptions(collapsed=False))

    assert new_statements(
        captions(hot, short),
        captions(hot_figure(trace, HotOptions(by="layer")), DOUBLE),
    )
    assert new_statements(captions(hot, SINGLE), captions(hot, DOUBLE))
    assert new_statements(
        captions(experts_figure(routed([[[0, 1], [2, 3]]], layers=[0, -1])), DOUBLE),
        captions(experts_figure(routed([[[0, 1], [2, 3]]])), DOUBLE),
    )
    assert new_statements(
        captions(experts_figure(experts_of(600)), DOUBLE),
        captions(experts_figure(experts_of(6)), DOUBLE),
    )
    assert new_statements(captions(experts, short), captions(experts, SINGLE))
    assert new_statements(captions(buffers, short), captions(few, DOUBLE))
    assert new_statements(
        captions(graph, SINGLE), captions(graph_figure(trace), DOUBLE)
    )


def test_legend_says_how_many_colours_have_no_room() -> None:
    def left_out(n: int) -> str:
        entries = [Entry(f"layer {i}", 0xFF000000) for i in range(n)]
        return " ".join(Frame(SINGLE, 300.0, entries=entries).left_out)

    assert new_statements(left_out(200), left_out(5))


def test_low_figure_has_its_height_and_owns_up_to_the_missing_legend(
    trace: Trace,
) -> None:
    figure = timeline_figure(trace)
    low, high = (replace(SINGLE, height=Length(mm, "mm")) for mm in (20, 80))

    drawn = figure.draw(low)

    height = drawn.picture.height * drawn.picture.scale
    assert round(height) == low.pixels(low.height)
    assert new_statements(captions(figure, low), captions(figure, high))


# -- what is refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: hot_figure(t, HotOptions(picture="pie")), "ranking, cold"),
        (lambda t: buffers_figure(t, BuffersOptions(by="taste")), "usage, backend"),
        (lambda t: FIGURES["heatmap"].figure(t, metric="x"), "bytes"),
    ],
)
def test_unknown_option_is_refused_with_the_list(
    trace: Trace, make: Callable[[Trace], Figure], message: str
) -> None:
    with pytest.raises(ExportError, match=message):
        make(trace)


def test_experts_of_no_measure_are_refused() -> None:
    with pytest.raises(ValueError, match="taste"):
        experts_figure(routed([[[0, 1]]]), ExpertsOptions(measure="taste"))


# -- other programs -----------------------------------------------------------------


def pixels(image: QImage) -> np.ndarray:
    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    rows = np.frombuffer(plain.constBits(), np.uint8)
    return rows.reshape(plain.height(), -1, 4)[:, :, :3].astype(np.int32)


def apart(a: QImage, b: QImage) -> float:
    """Return how far two pictures are apart, as a share of all that is possible."""
    if a.size() != b.size():
        b = b.copy(a.rect())
    return float(np.abs(pixels(a) - pixels(b)).mean() / 255)


def test_measure_distinguish_pictures() -> None:
    white, black = (QImage(8, 8, QImage.Format.Format_RGB32) for _ in range(2))
    white.fill(Qt.GlobalColor.white)
    black.fill(Qt.GlobalColor.black)

    assert apart(white, white) == 0
    assert apart(white, black) == 1


def rsvg(svg: Path, png: Path, width: int, height: int) -> None:
    program = shutil.which("rsvg-convert")
    if program is None:
        pytest.skip("rsvg-convert is not installed")
    subprocess.run(
        [program, "-w", str(width), "-h", str(height), str(svg), "-o", str(png)],
        check=True,
        timeout=60,
    )


def chromium(svg: Path, png: Path, width: int, height: int) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed")
    if sys.platform != "linux":
        pytest.skip("tried on Linux only")
    subprocess.run(
        [
            program, "--headless", "--no-sandbox", "--disable-gpu",
            f"--user-data-dir={svg.parent / 'profile'}", "--hide-scrollbars",
            f"--force-device-scale-factor={SINGLE.dpi / 96}",
            # Its windows have a least width: the figure is in a corner of one.
            f"--window-size={max(width // 3, 600)},{max(height // 3, 600)}",
            f"--screenshot={png}", svg.as_uri(),
        ],
        check=True,
        timeout=60,
        capture_output=True,
    )  # fmt: skip


@pytest.mark.parametrize("draw", [rsvg, chromium], ids=["rsvg", "chromium"])
@pytest.mark.parametrize("view", FIGURES)
def test_other_programs_draw_the_svg_like_the_png(
    tmp_path: Path,
    trace: Trace,
    view: str,
    draw: Callable[[Path, Path, int, int], None],
) -> None:
    figure = FIGURES[view].figure(trace)
    svg, png, other = (tmp_path / name for name in ("a.svg", "a.png", "b.png"))
    figure.write(svg, SINGLE)
    figure.write(png, SINGLE)
    own = QImage(str(png))

    draw(svg, other, own.width(), own.height())

    assert apart(own, QImage(str(other))) <= ALIKE


@pytest.mark.parametrize("view", FIGURES)
def test_svg_has_its_size_on_paper_and_words_for_readers_of_screens(
    tmp_path: Path, trace: Trace, view: str
) -> None:
    target = tmp_path / "a.svg"

    FIGURES[view].figure(trace).write(target, SINGLE)

    root = ET.fromstring(target.read_text("utf-8"))
    assert root.get("width") == "88mm"
    assert root.findtext(f"{SVG}title")
    assert root.findtext(f"{SVG}desc")
    assert root.findall(f".//{SVG}text")
    assert not root.findall(f".//{SVG}script")
    for node in root.iter():
        assert not [name for name, _ in node.items() if name.startswith("on")]
    assert target.stat().st_size < MAX_BYTES


def test_pdf_has_its_size_on_paper(tmp_path: Path, trace: Trace) -> None:
    target = tmp_path / "a.pdf"

    timeline_figure(trace).write(target, SINGLE)

    content = target.read_bytes()
    box = content[content.index(b"/MediaBox") :][:60]
    width = float(box.partition(b"[")[2].split()[2])
    assert width == pytest.approx(88 / 25.4 * 72, abs=0.6)


def test_svg_of_very_many_spans_is_small(tmp_path: Path) -> None:
    target = tmp_path / "a.svg"
    trace = random_trace(3, 200_000, lanes=40, layers=0)

    timeline_figure(trace).write(target, DOUBLE)

    assert target.stat().st_size < MAX_BYTES


@pytest.mark.parametrize("view", FIGURES)
def test_command_of_an_experiment_makes_the_same_pixels(
    tmp_path: Path, trace: Trace, view: str
) -> None:
    from ggscope.cli import main

    figure = FIGURES[view].figure(trace)
    target = tmp_path / "a.png"

    arguments = shlex.split(figure.command(target, SINGLE).text)
    assert main(arguments[1:]) == 0

    assert apart(figure.image(SINGLE), QImage(str(target))) == 0
