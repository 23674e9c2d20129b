"""A figure that is declared here alone: the template of the recipe "a figure"."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import ggscope
from ggscope.cli import main
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.figures import FIGURES, FigureSpec
from ggscope.render.frame import framed
from ggscope.render.options import export_command, option, read_time
from support import ROOT

SAMPLE = ROOT / "resources" / "samples" / "npu-prefill-decode.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlankOptions:
    """Options of a figure that draws nothing but its frame."""

    word: str = "blank"
    by: str = field(default="op", metadata=option(flag="by"))
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )


def blank_figure(trace: Trace, options: BlankOptions) -> Figure:
    def draw(style: FigureStyle) -> RenderedFigure:
        width = style.width_or(400.0)
        return framed(
            style, options.word, lambda height: DisplayList(width, height, 1.0),
            width=width, natural_height=100.0,
            description=f"{options.word} by {options.by}, {options.visible}.",
        )  # fmt: skip

    command = export_command("blank", trace, options)
    return Figure(f"blank-{trace_name(trace)}", draw, recipe=command)


@pytest.fixture(autouse=True)
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = FigureSpec("Blank", __name__, "blank_figure", "BlankOptions")
    monkeypatch.setitem(FIGURES, "blank", spec)


def export(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """Export the figure; return the exit code and its caption."""
    target, caption = tmp_path / "a.png", tmp_path / "a.txt"
    code = main([
        "export", "--view", "blank", "-o", str(target), "--caption", str(caption),
        *arguments, str(SAMPLE),
    ])  # fmt: skip
    return code, caption.read_text("utf-8").strip() if caption.exists() else ""


def test_command_line_binds_flags_and_json_to_typed_options(tmp_path: Path) -> None:
    options = json.dumps({"word": "empty", "visible": [1000, 2000]})

    code, caption = export(tmp_path, "--by", "layer", "--options", options)

    assert code == 0
    assert caption == f"empty by layer, {TimeRange(1000, 2000)}."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--expanded",), "blank takes no --expanded. Leave it out"),
        (
            ("--options", '{"no": 1}'),
            "blank has no option 'no'. Options: by, visible, word.",
        ),
        (
            ("--options", '{"visible": 3}'),
            "blank: the option 'visible' cannot be 3.",
        ),
    ],
)
def test_options_that_the_figure_lacks_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, _ = export(tmp_path, *arguments)

    assert code != 0
    assert message in capsys.readouterr().err


def test_command_of_the_figure_holds_changed_options_only() -> None:
    trace = ggscope.open(SAMPLE)
    options = BlankOptions(visible=TimeRange(1, 2))

    command = blank_figure(trace, options).command("x.png")

    assert '{"visible": [1, 2]}' in command.text


def test_python_makes_the_figure_by_its_name(tmp_path: Path) -> None:
    trace = ggscope.open(SAMPLE)

    caption = ggscope.figure(trace, "blank", word="here").save(tmp_path / "a.svg")

    assert caption == "here by op, None."
    with pytest.raises(TypeError, match="taste"):
        ggscope.figure(trace, "blank", taste=1)
