"""Pictures of a view that stands are those that are drawn anew, whatever is marked."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter

from builders import llama_like_trace
from ggscope.analysis.filters.masks import SearchHits
from ggscope.analysis.rows.index import TraceIndex
from ggscope.analysis.rows.lanes import LaneState
from ggscope.model.notes import Note
from ggscope.model.selection import MarkedRange, Selection
from ggscope.model.units import TimeRange
from ggscope.render.batch import DisplayList
from ggscope.render.export import ensure_gui_application
from ggscope.render.painter import paint
from ggscope.render.static_layer import StaticLayerCache
from ggscope.render.theme import theme
from ggscope.render.timeline.compose import compose_timeline
from ggscope.render.timeline.scene import (
    HighlightedSpans,
    RulerMark,
    TimelineScene,
)
from scenes import busy_scene, make_scene


@pytest.fixture(autouse=True)
def application(qapp: object) -> None:
    """Text needs an application; pytest-qt makes the one of this process."""
    ensure_gui_application()


def drawn(picture: DisplayList, cache: StaticLayerCache | None = None) -> QImage:
    """Return a picture as a canvas shows it."""
    scale = picture.scale
    size = round(picture.width * scale), round(picture.height * scale)
    image = QImage(*size, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    image.fill(0xFFFF0000)  # what was there before
    painter = QPainter(image)
    paint(picture, painter, cache=cache)
    painter.end()
    return image


def drawn_anew(scene: TimelineScene) -> QImage:
    """Return the picture of a scene of which nothing is known yet."""
    return drawn(compose_timeline(replace(scene, index=TraceIndex(scene.index.trace))))


def is_standing(picture: DisplayList) -> bool:
    """Return whether the lanes of a picture are those of the last one."""
    return any(layer.first == 0 for layer in picture.still)


def changes(scene: TimelineScene) -> dict[str, list[object]]:
    """Return values of each field that a session changes while a view is open."""
    trace, at = scene.index.trace, scene.visible.start
    n, times = len(trace.spans), np.sort(trace.spans.start[::17])
    mask = np.arange(n) % 3 > 0
    return {
        "selection": [Selection("spans", (k,)) for k in (5, 100, 140)] + [Selection()],
        "marked": [None, MarkedRange(TimeRange(at + 100_000, at + 900_000))],
        "hits": [
            None,
            SearchHits("x", np.arange(len(times)), times, np.zeros(0, np.int64)),
        ],
        "hover_span": [-1, 3, 102, 107],
        "cursor_tick": [None, at + 300_000, at + 800_000],
        "bookmarks": [
            (),
            (Note("here", TimeRange(at + 500_000, at + 550_000)),),
            tuple(Note(f"n{k}", TimeRange(at + k, at + k + 9)) for k in range(3)),
        ],
        "flash_lane": ["", scene.index.lanes.keys[0]],
        "highlighted": [None, HighlightedSpans(np.arange(90, 130, 3), 96)],
        "ruler": [None, RulerMark(TimeRange(at + 200_000, at + 400_000), ("a",))],
        "visible": [scene.visible, scene.visible.shifted(300_000), trace.extent],
        "scroll_y": [0.0, 37.0],
        "theme": [theme("dark"), theme("light")],
        "show_waits": [True, False],
        "color_by": ["family", "phase"],
        "absolute": [False, True],
        "waiting": [frozenset(), frozenset(scene.index.lanes.keys[:1])],
        "mask": [None, mask],
        "width": [900.0, 640.0],
    }


@pytest.mark.parametrize("scale", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_pictures_after_random_changes_are_those_drawn_anew(
    scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    scene, cache = busy_scene(scale=scale), StaticLayerCache()
    choices = changes(scene)
    moves = {"visible", "scroll_y", "theme", "waiting", "mask", "width", "color_by"}
    names = sorted(choices)
    n_standing = 0
    for _ in range(40):
        # Mostly what changes while a view stands.
        name = names[rng.integers(len(names))]
        if name in moves and rng.random() < 0.7:
            name = "hover_span"
        value = choices[name][rng.integers(len(choices[name]))]
        scene = replace(scene, **{name: value})
        if name == "mask":
            scene = replace(scene, mask_token=None if value is None else "third")
        picture = compose_timeline(scene)
        n_standing += is_standing(picture)

        assert drawn(picture, cache) == drawn_anew(scene), name

    assert n_standing > 5


def test_lanes_are_kept_from_the_second_picture_of_a_view_on() -> None:
    scene = busy_scene()
    at = scene.visible.start
    scenes = [
        scene,
        replace(scene, hover_span=-1),
        replace(scene, hover_span=107, cursor_tick=at + 5),
        replace(scene, marked=None, hits=None),
        replace(scene, bookmarks=()),
    ]

    pictures = [compose_timeline(one) for one in scenes]

    n = pictures[3].still[-1].stop
    is_kept = [
        all(x is y for x, y in zip(a.batches[:n], b.batches[:n], strict=True))
        for a, b in pairwise(pictures)
    ]
    assert is_kept[:3] == [False, True, True]
    assert [is_standing(picture) for picture in pictures[:4]] == [False] * 3 + [True]


def test_a_view_that_moves_keeps_no_lanes() -> None:
    scene = busy_scene()

    for step in range(6):
        moved = replace(scene, visible=scene.visible.shifted(step * 1000))
        assert not is_standing(compose_timeline(moved))


def test_the_token_of_a_selected_span_is_framed_while_the_view_stands() -> None:
    trace = llama_like_trace(tokens=6, layers=4)
    tokens = trace.spans.token
    assert tokens is not None
    scene = make_scene(trace, width=900, height=480, state=LaneState())
    cache = StaticLayerCache()
    images = []
    for token in (0, 0, 0, 3, 3, 5, 0):
        active = int(np.flatnonzero(tokens == token)[4])
        one = replace(scene, selection=Selection("spans", (active,)))
        images.append(drawn(compose_timeline(one), cache))

        assert images[-1] == drawn_anew(one)

    assert images[2] != images[3]


def test_figures_are_drawn_anew() -> None:
    figure = replace(busy_scene(), is_figure=True)

    pictures = [compose_timeline(figure) for _ in range(3)]

    assert not any(is_standing(picture) for picture in pictures)
    assert all(len(picture.spots) == 2 for picture in pictures)
