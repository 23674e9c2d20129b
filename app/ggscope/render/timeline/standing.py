"""The lanes of a view that stands, for as long as only the marks on them change.

Pointing at a span or selecting one changes frames and lines over the lanes, but no
lane. A view that moves keeps nothing: its next picture would only take new memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.tables import I64
from ggscope.render.batch import Batch
from ggscope.render.timeline.rows import ChosenToken, chosen_token
from ggscope.render.timeline.scene import TimelineGeometry, TimelineScene

_MARKS = frozenset(
    ("selection", "marked", "hits", "hover_span", "hovers_wait", "cursor_tick",
     "bookmarks", "flash_lane", "highlighted", "links", "ruler")
)  # fmt: skip
"""Fields of a scene on which no lane depends, but see `_marks_in`."""
_LANES = tuple(
    field.name
    for field in fields(TimelineScene)
    if field.name not in _MARKS and field.name != "index"
)
_MAX_VIEWS = 3
_Marks = tuple[ChosenToken | None, I64 | None]


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLanes:
    """What lies under the marks.

    Attributes
    ----------
    batches : in drawing order.
    labels : of spans, over what tints the highlighted ones.
    has_tokens : whether tokens are boxes, of which that of the selection is framed.
    """

    batches: tuple[Batch, ...]
    labels: tuple[Batch, ...]
    has_tokens: bool


@dataclass(slots=True, eq=False)
class _View:
    key: tuple[object, ...]
    lanes: DrawnLanes | None = None
    marks: _Marks | None = None
    n_shown: int = 0


_last_views: DerivedCache[TraceIndex, list[_View]] = DerivedCache(
    "lanes of views that stand"
)


def standing_lanes(
    geometry: TimelineGeometry, draw: Callable[[], DrawnLanes]
) -> tuple[DrawnLanes, bool]:
    """Return the lanes of a view, and whether an image of them is worth making.

    They are cached from the second picture of a view on, unless the trace grows or the
    picture is a figure. An image is for those that are shown for the third time: a
    selection often has two pictures, the second with its arrows.

    Parameters
    ----------
    draw : makes them.
    """
    scene = geometry.scene
    if scene.is_figure or scene.index.grows:
        return draw(), False
    key = (geometry.lanes_y, *(getattr(scene, name) for name in _LANES))
    views = _last_views.setdefault(scene.index, [])
    view = next((view for view in views if _is_same(view.key, key)), None)
    if view is None:
        views[:] = [*views[-_MAX_VIEWS + 1 :], _View(key)]
        return draw(), False
    lanes = view.lanes
    if lanes is not None and _is_same(view.marks or (), _marks_in(lanes, scene)):
        view.n_shown += 1
        return lanes, view.n_shown > 1
    view.lanes = lanes = draw()
    view.n_shown = 0
    view.marks = _marks_in(lanes, scene)
    return lanes, False


def _marks_in(lanes: DrawnLanes, scene: TimelineScene) -> _Marks:
    """Return the marks that lanes show: a token is framed, a label on a tint."""
    highlighted = scene.highlighted if lanes.labels else None
    return (
        chosen_token(scene) if lanes.has_tokens else None,
        # Not the object itself: it may refer to the index.
        None if highlighted is None else highlighted.ids,
    )


def _is_same(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """Return whether two views are the same; arrays are where they are one object."""
    return all(
        x is y or not (isinstance(x, np.ndarray) or isinstance(y, np.ndarray) or x != y)
        for x, y in zip(a, b, strict=True)
    )
