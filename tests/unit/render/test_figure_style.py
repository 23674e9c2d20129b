"""How a figure is asked for: lengths, presets, and the command that makes it again."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage

from builders import llama_like_trace
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lane_state import lane_state_data, read_lane_state
from ggscope.analysis.rows.lanes import LaneState
from ggscope.errors import ExportError
from ggscope.model.selection import Gap, MarkedRange, Selection
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.readers.registry import open_trace
from ggscope.render.export import Figure, RenderedFigure, ensure_gui_application
from ggscope.render.figure_style import (
    PRESETS,
    FigureStyle,
    Length,
    parse_font,
    parse_length,
    preset,
)
from ggscope.render.options import read_options, read_selection, selection_option
from ggscope.render.timeline.figure import TimelineOptions, timeline_figure
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "tinyllama-256.bin"


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    ensure_gui_application()


@pytest.mark.parametrize(
    ("text", "inches"), [("88mm", 88 / 25.4), ("600px", 2.0), ("3.5 in", 3.5)]
)
def test_a_length_says_its_unit(text: str, inches: float) -> None:
    length = parse_length(text)

    assert length.inches(300) == pytest.approx(inches)
    assert parse_length(str(length)) == length


@pytest.mark.parametrize("text", ["", "88", "0mm", "-3mm", "1e9mm", "88cm", "nan in"])
def test_what_is_no_length_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ExportError, match=r"88mm|shows nothing"):
        parse_length(text)


def test_lengths_turn_into_other_units() -> None:
    assert Length(88, "mm").to("in", 300) == Length(3.465, "in")
    assert Length(1920, "px").to("mm", 144) == Length(338.67, "mm")


@pytest.mark.parametrize("text", ["0pt", "500pt", "7em", ""])
def test_letters_have_points_that_can_be_read(text: str) -> None:
    assert parse_font("7pt") == parse_font("7") == 7.0
    with pytest.raises(ExportError, match="7pt"):
        parse_font(text)


def test_unknown_preset_is_refused_with_the_list() -> None:
    with pytest.raises(ExportError, match="single, double, slide, readme"):
        preset("poster")


def test_presets_are_for_print_and_have_the_width_of_a_column() -> None:
    single = PRESETS["single"]

    assert single.pixels(single.width) == round(88 / 25.4 * 300)
    assert {style.theme for style in PRESETS.values()} == {"print"}
    slide = PRESETS["slide"]
    assert (slide.pixels(slide.width), slide.pixels(slide.height)) == (1920, 1080)


def test_letters_of_a_design_have_the_points_asked_for() -> None:
    style = FigureStyle(width=Length(88, "mm"), font=7.0, dpi=600)

    on_paper = 11 * style.scale / style.dpi * 72
    assert on_paper == pytest.approx(7.0)
    # A column is laid out for fewer pixels, not shrunk.
    assert style.width_or(0) * style.scale == pytest.approx(88 / 25.4 * 600, abs=0.51)


def test_state_of_lanes_survives_json() -> None:
    state = LaneState(
        frozenset({"Layers"}), frozenset({"a"}), ("b", "c"), ("d",), (("b", 2.0),)
    )

    assert read_lane_state(lane_state_data(state)) == state
    assert lane_state_data(LaneState()) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"no": 1},
        {"mask": []},
        {"state": 3},
        {"state": {"heights": [["a", 99]]}},
        {"selection": {"table": "gone", "ids": [1]}},
        {"selection": {"table": "gaps", "ids": [1]}},
        {"selection": {"table": "gaps", "ids": [1, 2], "gap": {"time": [1, 2]}}},
        {"notes": [["a", [1, 2, 3]]]},
    ],
)
def test_options_that_fit_no_figure_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ExportError, match="timeline"):
        read_options(TimelineOptions, options, "timeline")


@pytest.mark.parametrize(
    "selection",
    [
        Selection("waits", (3, 4)),
        Selection("gaps", (3,), gap=Gap(TimeRange(5, 9), 3, 8)),
    ],
)
def test_selected_waits_and_gaps_survive_json(selection: Selection) -> None:
    assert read_selection(selection_option(selection)) == selection


def seen_figure(trace: Trace) -> Figure:
    """Return a figure with something of everything that a window has."""
    keys = TraceIndex(trace).lanes.keys
    end = trace.extent.end
    return timeline_figure(
        trace,
        TimelineOptions(
            visible=TimeRange(end // 10, end // 2),
            color_by="op",
            state=LaneState(hidden=frozenset({keys[-1]}), pinned=(keys[1],)),
            selection=Selection("spans", (3, 4)),
            marked=MarkedRange(TimeRange(end // 5, end // 4)),
            notes=(("it's <b>here</b>\n", TimeRange(end // 3, end // 3)),),
        ),
    )


@pytest.mark.parametrize(
    "style",
    [
        replace(PRESETS["single"], seen=True, height=Length(70, "mm")),
        replace(PRESETS["double"], title="A $(run)", transparent=True, font=8.0),
        FigureStyle(width=Length(700, "px"), theme="dark", seen=True, legend=False),
    ],
)
def test_command_makes_the_same_pixels(tmp_path: Path, style: FigureStyle) -> None:
    from ggscope.cli import main

    figure = seen_figure(open_trace(SAMPLE))
    target = tmp_path / "it's.png"

    command = figure.command(target, style)
    arguments = shlex.split(command.text)
    assert main(arguments[1:]) == 0

    assert not command.lacks
    written, own = QImage(str(target)), figure.image(style)
    own.setDevicePixelRatio(1.0)
    form = QImage.Format.Format_ARGB32
    assert written.convertToFormat(form) == own.convertToFormat(form)


def test_a_seen_figure_differs_from_a_clean_one() -> None:
    figure = seen_figure(open_trace(SAMPLE))
    style = PRESETS["double"]

    assert figure.image(style) != figure.image(replace(style, seen=True))


def test_command_says_what_it_cannot_say() -> None:
    trace = open_trace(SAMPLE)
    mask = np.ones(len(trace.spans), np.bool_)
    many = Selection("spans", tuple(range(2000)))

    def lacks(**options: object) -> str:
        chosen = TimelineOptions(**options)  # type: ignore[arg-type]
        made = timeline_figure(trace, chosen)
        return " ".join(made.command("x.png").lacks)

    assert "filter" in lacks(mask=mask)
    assert not lacks(mask=mask, where="op = ADD")
    assert "selection" in lacks(selection=many)
    assert not lacks(selection=Selection("spans", (1,)))


def test_figure_of_no_file_has_no_command() -> None:
    figure = Figure("x", lambda style: RenderedFigure(None, ""))  # type: ignore[arg-type]

    with pytest.raises(ExportError, match="no file"):
        figure.command("x.png")


def test_transparent_paper_is_see_through(tmp_path: Path) -> None:
    figure = timeline_figure(llama_like_trace())

    figure.write(tmp_path / "a.png", FigureStyle(transparent=True))
    figure.write(tmp_path / "b.png", FigureStyle())

    assert QImage(str(tmp_path / "a.png")).hasAlphaChannel()
    assert not QImage(str(tmp_path / "b.png")).hasAlphaChannel()


def test_caption_says_title_content_and_what_is_left_out() -> None:
    left_out = ("Two lanes are not drawn.",)
    own = RenderedFigure(None, "T", "A timeline.", left_out, own_title="run <1>\n")  # type: ignore[arg-type]
    usual = RenderedFigure(None, "T", "A timeline.", left_out)  # type: ignore[arg-type]

    assert own.caption == "run <1>\\n. A timeline. Two lanes are not drawn."
    assert usual.caption == "A timeline. Two lanes are not drawn."
