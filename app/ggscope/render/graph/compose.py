"""The picture of a computation graph, from a layout and a place to look from."""

import numpy as np

from ggscope.analysis.graph.layered import F64
from ggscope.analysis.graph.layout import BoxKind
from ggscope.model.tables import I64
from ggscope.render.batch import (
    Batch,
    DisplayList,
    LineList,
    Pattern,
    RectList,
    TextList,
)
from ggscope.render.graph.marks import (
    frame_title_batches,
    minimap_batches,
    outline_batches,
)
from ggscope.render.graph.scene import (
    NEAR_ZOOM,
    GraphScene,
    box_texts,
    corners,
    dimmed_boxes,
    in_view,
    to_picture,
    visible_boxes,
)
from ggscope.render.theme import mix, with_alpha

_EDGE_SHARE, _INPUT_SHARE = 0.7, 0.35
"""How strong edges are, and those of weights and inputs: nodes stand out."""
_STRIPE_PX = 4.0
_TIP = 5.0


def compose_graph(scene: GraphScene) -> DisplayList:
    """Return the picture."""
    boxes = visible_boxes(scene)
    batches: list[Batch] = [
        *_frames(scene, boxes),
        *_lines(scene),
        *_tips(scene),
        *_stubs(scene),
        *_boxes(scene, boxes),
    ]
    texts = TextList(box_texts(scene, boxes))
    batches += [*texts.batch(), *outline_batches(scene, boxes)]
    batches += frame_title_batches(scene, boxes)
    if scene.band is not None:
        batches += _band(scene, scene.band)
    if scene.show_minimap:
        batches += minimap_batches(scene)
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def _frames(scene: GraphScene, boxes: I64) -> list[Batch]:
    open_ = boxes[scene.layout.kind[boxes] == BoxKind.FRAME]
    x0, y0, x1, y1 = corners(scene, open_)
    rects = RectList()
    rects.add(x0, x1, y0, y1, scene.theme.lane, scene.theme.line)
    return rects.batch(radius=6.0, clip=scene.clip)


def _lines(scene: GraphScene) -> list[Batch]:
    """Return the edges, those of a path on top in the colour of the selection."""
    layout, theme = scene.layout, scene.theme
    seen = in_view(scene, layout.segments)
    highlighted = np.zeros(len(seen), np.bool_)
    if scene.highlighted_edges is not None:
        highlighted[layout.lines_of(scene.highlighted_edges)] = True
    share = 0.5 if scene.highlighted is not None else 1.0
    plain: list[Batch] = []
    # Of two lines one over the other the one of results is seen.
    for chosen, part in (
        (layout.feeds, _INPUT_SHARE),
        (~layout.feeds, _EDGE_SHARE),
    ):
        color = mix(theme.pane, theme.faint, part * share)
        lines = layout.segments[seen & ~highlighted & chosen]
        plain += _line_batches(scene, lines, color, 1.0)
    bright = _line_batches(
        scene, layout.segments[seen & highlighted], theme.selection, 2.0
    )
    return [*plain, *bright]


def _line_batches(
    scene: GraphScene, segments: F64, color: int, width: float
) -> list[Batch]:
    """Return lines; straight ones apart, which are drawn exactly and fast."""
    x0, y0 = to_picture(scene, segments[:, 0], segments[:, 1])
    x1, y1 = to_picture(scene, segments[:, 2], segments[:, 3])
    upright, level = np.abs(x1 - x0) < 0.5, np.abs(y1 - y0) < 0.5
    x1, y1 = np.where(upright, x0, x1), np.where(level, y0, y1)
    straight = upright | level
    if scene.zoom < NEAR_ZOOM:  # far away, a line of less than a pixel is none
        long = np.abs(x1 - x0) + np.abs(y1 - y0) >= 1.0
    else:
        long = np.ones(len(x0), np.bool_)
    return [
        batch
        for chosen in (straight & long, ~straight & long)
        for batch in _batch(
            scene, x0[chosen], y0[chosen], x1[chosen], y1[chosen], color, width
        )
    ]


def _batch(
    scene: GraphScene, x0: F64, y0: F64, x1: F64, y1: F64, color: int, width: float
) -> list[Batch]:
    lines = LineList(width)
    if len(x0):
        lines.add(x0, y0, x1, y1, color)
    return lines.batch(scene.clip)


def _tips(scene: GraphScene) -> list[Batch]:
    """Return the arrow heads: two short lines where an edge enters a box."""
    if scene.zoom < NEAR_ZOOM:
        return []
    tips, size = scene.layout.tips, _TIP
    seen = in_view(scene, np.concatenate([tips - size, tips + size], 1))
    x, y = to_picture(scene, tips[seen, 0], tips[seen, 1])
    reach = size * min(scene.zoom, 1.0)
    back = reach * 1.3
    lines = LineList(1.3)
    for side in (-0.7 * reach, 0.7 * reach):
        if scene.layout.choice.across:
            lines.add(x - back, y + side, x, y, scene.theme.faint)
        else:
            lines.add(x + side, y - back, x, y, scene.theme.faint)
    return lines.batch(scene.clip)


def _stubs(scene: GraphScene) -> list[Batch]:
    """Return both ends of edges that are too long to draw, with a dot to jump from."""
    if scene.zoom < NEAR_ZOOM or not len(scene.layout.stubs):
        return []
    leave = np.unique(scene.layout.stubs[:, :2], axis=0)
    enter = np.unique(scene.layout.stubs[:, 2:], axis=0)
    on = np.array(scene.stub)
    lines = np.concatenate(
        [np.hstack([leave, leave + on]), np.hstack([enter - on, enter])]
    )
    seen = in_view(scene, lines)
    color = scene.theme.caution
    dots = np.concatenate([leave + on, enter - on])[seen]
    x, y = to_picture(scene, dots[:, 0], dots[:, 1])
    half = 2.5 * min(scene.zoom, 1.2)
    rects = RectList()
    rects.add(x - half, x + half, y - half, y + half, color)
    return [
        *_line_batches(scene, lines[seen], color, 1.0),
        *rects.batch(radius=half, clip=scene.clip),
    ]


def _boxes(scene: GraphScene, boxes: I64) -> list[Batch]:
    """Return nodes and closed layers; those off a path are dimmed."""
    layout, look, theme = scene.layout, scene.look, scene.theme
    chosen = boxes[layout.kind[boxes] != BoxKind.FRAME]
    x0, y0, x1, y1 = corners(scene, chosen)
    fill, pattern = look.fill[chosen].copy(), look.pattern[chosen]
    border = np.zeros(len(chosen), np.uint32)
    is_layer = layout.kind[chosen] == BoxKind.LAYER
    border[is_layer] = theme.faint
    dimmed = dimmed_boxes(scene, chosen)
    for color in np.unique(fill[dimmed]).tolist():
        fill[dimmed & (fill == color)] = mix(theme.pane, color, 0.25)
    is_near = scene.zoom >= NEAR_ZOOM
    solid, hatched = RectList(), RectList()
    plain = pattern == Pattern.SOLID
    solid.add(x0[plain], x1[plain], y0[plain], y1[plain], fill[plain], border[plain])
    missing = ~plain
    ground = mix(theme.pane, theme.raised, 0.6)
    solid.add(x0[missing], x1[missing], y0[missing], y1[missing], ground, theme.line)
    inset = 2.0 if is_near else 0.0
    hatched.add(
        x0[missing] + inset, x1[missing] - inset, y0[missing] + inset,
        y1[missing] - inset, fill[missing], 0, int(Pattern.FAINT_HATCH),
    )  # fmt: skip
    radius = 4.0 * min(scene.zoom, 1.0) if is_near else 0.0
    batches = [*solid.batch(radius=radius, clip=scene.clip)]
    batches += hatched.batch(clip=scene.clip)
    return [*batches, *_stripes(scene, chosen[is_layer])]


def _stripes(scene: GraphScene, layers: I64) -> list[Batch]:
    """Return the mixture of kinds along the lower edge of closed layers."""
    shares = scene.look.shares[layers]
    if not shares.size:
        return []
    x0, _, x1, y1 = corners(scene, layers)
    inset = 3.0 * min(scene.zoom, 1.0)
    width = np.maximum(x1 - x0 - 2 * inset, 0)
    height = max(_STRIPE_PX * min(scene.zoom, 1.5), 1.0)
    bottom = y1 - inset
    edges = np.cumsum(shares, 1)
    rects = RectList()
    alpha = np.where(dimmed_boxes(scene, layers), 0.25, 1.0)
    for number, (_, color) in enumerate(scene.look.legend):
        begin = x0 + inset + width * (edges[:, number] - shares[:, number])
        end = x0 + inset + width * edges[:, number]
        some = shares[:, number] > 0
        colors = np.array([with_alpha(color, a) for a in alpha[some]], np.uint32)
        rects.add(begin[some], end[some], (bottom - height)[some], bottom[some], colors)
    return rects.batch(clip=scene.clip)


def _band(scene: GraphScene, band: tuple[float, float, float, float]) -> list[Batch]:
    x0, x1 = sorted((band[0], band[2]))
    y0, y1 = sorted((band[1], band[3]))
    rects = RectList()
    accent = scene.theme.accent
    rects.add(x0, x1, y0, y1, with_alpha(accent, 0.15), accent)
    return rects.batch(clip=scene.clip)
