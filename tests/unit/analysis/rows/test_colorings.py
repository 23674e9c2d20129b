"""Every reader of `COLORINGS`, and a template colouring that none of them names."""

from argparse import Namespace
from dataclasses import fields, replace
from types import ModuleType

import numpy as np
import pytest

import builders
from ggscope.analysis.rows import colorings
from ggscope.analysis.rows.categories import Categories
from ggscope.analysis.rows.colorings import (
    COLORINGS,
    Coloring,
    coloring,
    default_coloring,
)
from ggscope.analysis.rows.index import TraceIndex
from ggscope.cli.arguments import parse
from ggscope.cli.reading import coloring as chosen_coloring
from ggscope.gui.commands.registry import COMMANDS, color_command
from ggscope.model.selection import Filter
from ggscope.model.trace import Trace
from ggscope.render.colors import category_color, lut
from ggscope.render.theme import theme
from ggscope.views.timeline.legend import LegendRequest


def parity_categories(trace: Trace) -> Categories:
    """Return the spans by odd and even layers; the template of CONTRIBUTING."""
    index = (trace.spans.layer % 2).astype(np.uint8)
    return Categories("parity", index, ("even", "odd"), ("parity:0", "parity:1"))


PARITY = Coloring(
    id="parity",
    title="odd or even layer",
    categories="parity:parity_categories",
    columns=("layer",),
    grows_by_appending=True,
    is_ordered=True,
)


@pytest.fixture
def trace() -> Trace:
    return builders.llama_like_trace(2, 2)


@pytest.fixture
def with_parity(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ggscope.analysis.rows.parity")
    module.parity_categories = parity_categories
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    monkeypatch.setattr(colorings, "COLORINGS", (*COLORINGS, PARITY))


@pytest.mark.parametrize("by", [known.id for known in COLORINGS])
def test_every_colouring_is_declared_completely(by: str) -> None:
    known = coloring(by)
    names = {f.name for f in fields(Filter)}
    columns = {f.name for f in fields(builders.empty_trace().spans)}

    assert callable(colorings.load(known.categories))
    assert not known.isolation or callable(colorings.load(known.isolation))
    assert not known.filter_field or known.filter_field in names
    assert set(known.columns or ()) <= columns
    assert f"color.{by}" in {command.id for command in COMMANDS}


def test_added_colouring_is_in_menu_and_command_line(
    with_parity: None, trace: Trace
) -> None:
    command = color_command(PARITY)
    arguments = parse(["show", "--color-by", "parity", "a.bin"])

    assert (command.id, command.text) == ("color.parity", "Odd or even layer")
    assert arguments.color_by == "parity"
    assert chosen_coloring(trace, Namespace(color_by="parity")) == "parity"


def test_added_colouring_colours_spans_and_has_a_legend(
    with_parity: None, trace: Trace
) -> None:
    index = TraceIndex(trace)

    entries = LegendRequest(index, "parity")()

    labels = {entry.label: entry.n_spans for entry in entries}
    n_odd = int(np.count_nonzero(trace.spans.layer % 2))
    assert labels["odd"] == n_odd
    assert labels["even"] == len(trace.spans) - n_odd
    assert all(not entry.part for entry in entries if entry.key.startswith("parity"))
    dark = theme("dark")
    assert lut(index.categories("parity"), dark).tolist() == [
        category_color("parity:0", dark),
        category_color("parity:1", dark),
    ]


def test_added_colouring_is_kept_while_its_columns_stay(
    with_parity: None, trace: Trace
) -> None:
    index = TraceIndex(trace)
    categories = index.categories("parity")

    again = TraceIndex(trace, index)

    assert again.categories("parity") is categories


def test_unknown_colouring_is_refused() -> None:
    with pytest.raises(KeyError):
        coloring("parity")


def test_spans_without_ops_are_coloured_by_phase() -> None:
    spans = builders.llama_like_trace().spans
    no_ops = np.full(len(spans), -1, np.int32)
    none = np.full(len(spans), -1, np.int8)

    trace = replace(builders.llama_like_trace(), spans=replace(spans, op=no_ops))
    without_phases = replace(trace, spans=replace(trace.spans, phase=none))

    assert default_coloring(trace) == "phase"
    assert default_coloring(without_phases) == "family"
