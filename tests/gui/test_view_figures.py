"""The figure of a view: the command that makes it, and what that leaves out."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from figures import sample_of
from ggscope.model.selection import Selection
from ggscope.readers.discovery import survey
from ggscope.render.figure_style import PRESETS
from ggscope.render.theme import theme
from ggscope.session.session import Session
from ggscope.session_loading import open_bundle
from ggscope.views.registry import entry
from panes import PICTURES
from statements import new_statement
from support import ROOT


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    made.set_trace(
        open_bundle(survey([ROOT / "resources" / "samples" / "moe-experiment"]))
    )
    yield made
    made.close()


def shown(qtbot: QtBot, session: Session, view_id: str):
    view = entry(view_id).load()(session, theme("dark"))
    qtbot.addWidget(view)
    view.resize(900, 500)
    view.show()
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    qtbot.waitUntil(lambda: view.figure() is not None, timeout=20_000)
    return view


@pytest.mark.parametrize("view_id", PICTURES)
def test_view_gives_its_figure_a_frame_and_a_command(
    qtbot: QtBot, session: Session, view_id: str, tmp_path: Path
) -> None:
    sample = sample_of(view_id, tmp_path)
    if sample.name != "moe-experiment":
        session.set_trace(open_bundle(survey([sample])))
    figure = shown(qtbot, session, view_id).figure()

    drawn = figure.draw(PRESETS["single"])
    text = figure.command("x.png", PRESETS["single"]).text

    assert sample.name in drawn.caption
    assert text.startswith("ggscope export --view ")
    assert "--preset single" in text
    picture = drawn.picture
    assert round(picture.width * picture.scale) == round(88 / 25.4 * 300)


def test_commands_of_views_say_what_they_leave_out(
    qtbot: QtBot, session: Session
) -> None:
    hot, cache, experts, buffers, graph = (
        shown(qtbot, session, view_id)
        for view_id in ("hot_cold", "cache", "experts", "buffers", "graph")
    )

    def lacks(view, **changes: object) -> str:
        scene = replace(view.scene_now(), **changes)
        recipe = view.recipe(session.trace, scene)
        return " ".join(recipe.lacks)

    assert new_statement(lacks(hot, scroll=3), lacks(hot, scroll=0))
    assert new_statement(lacks(cache, best=None), lacks(cache, best=object()))
    result = experts.scene_now().result
    assert new_statement(
        lacks(experts, result=replace(result, layer=1)),
        lacks(experts, result=replace(result, layer=None, token=None)),
    )
    assert new_statement(
        lacks(buffers, selected=frozenset({0})),
        lacks(buffers, selected=frozenset(), accessed=frozenset(), alive=None),
    )
    part, whole = graph.figure(), graph.figure(whole=True)
    assert new_statement(" ".join(part.recipe.lacks), " ".join(whole.recipe.lacks))


def test_clean_figure_of_a_view_shows_no_selection(
    qtbot: QtBot, session: Session
) -> None:
    view = shown(qtbot, session, "buffers")
    session.selection.select(Selection("buffers", (0,)))
    qtbot.waitUntil(lambda: session.tasks.is_idle, timeout=20_000)
    figure, style = view.figure(), PRESETS["double"]

    assert figure.image(style) != figure.image(replace(style, seen=True))
