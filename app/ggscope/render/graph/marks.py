"""What lies over the picture of a graph: outlines, overview, legend, title."""

import numpy as np

from ggscope.analysis.graph.layout import BoxKind
from ggscope.model.tables import I64
from ggscope.render.batch import (
    Batch,
    Clip,
    DisplayList,
    Face,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.colors import DEFAULT, ColorBar, ScaleKind, color_bar, map_on
from ggscope.render.graph.look import GraphColorBy
from ggscope.render.graph.scene import (
    FULL_ZOOM,
    SHORT_ZOOM,
    GraphScene,
    amount_text,
    boxes_of,
    corners,
    font_size,
    layer_text,
    visible_boxes,
)
from ggscope.render.theme import mix, outline_pair, with_alpha

MAP_WIDTH, MAP_HEIGHT = (44.0, 150.0), 210.0
"""Narrowest and widest overview, and its greatest height."""
_MARGIN = 10.0
_TITLE_PX = 12.0
_ROOMY = 640.0, 420.0
"""In smaller pictures nothing lies over boxes: there is no room to move them away."""
LEGEND_HEIGHT, _LEGEND_PX = 24.0, 11.0
_MAX_BOXES = 2_000
"""The overview leaves out boxes of graphs larger than this evenly."""


def outline_batches(scene: GraphScene, boxes: I64) -> list[Batch]:
    """Return the outlines of selected, linked, found and hovered boxes."""
    theme = scene.theme
    batches: list[Batch] = []
    for nodes, color, width in (
        (scene.hits, theme.caution, 1),
        (scene.linked, theme.accent, 2),
        (scene.selected, theme.selection, 3),
    ):
        if nodes is not None and nodes.any():
            chosen = np.intersect1d(boxes_of(scene.layout, nodes), boxes)
            if color == theme.caution:
                batches += _outlines(scene, chosen, color, width)
            else:
                batches += _cased(scene, chosen, color, width)
    if scene.hover >= 0 and scene.layout.kind[scene.hover] != BoxKind.FRAME:
        batches += _outlines(scene, np.array([scene.hover]), theme.text, 1)
    return batches


def _cased(scene: GraphScene, boxes: I64, color: int, width: int) -> list[Batch]:
    """Return outlines that show on any fill: a line between two of its opposite."""
    line, casing = outline_pair(color)
    x0, y0, x1, y1 = corners(scene, boxes)
    rects = RectList()
    for grow in range(-1, width + 1):
        ring = line if 0 <= grow < width else casing
        rects.add(x0 - grow, x1 + grow, y0 - grow, y1 + grow, 0, ring)
    return rects.batch(clip=scene.clip)


def _outlines(scene: GraphScene, boxes: I64, color: int, width: int) -> list[Batch]:
    x0, y0, x1, y1 = corners(scene, boxes)
    rects = RectList()
    for grow in range(width):
        rects.add(x0 - grow, x1 + grow, y0 - grow, y1 + grow, 0, color)
    return rects.batch(clip=scene.clip)


def frame_title_batches(scene: GraphScene, boxes: I64) -> list[Batch]:
    """Return the titles of open layers, which stay in sight while any of them is."""
    layout, theme = scene.layout, scene.theme
    open_ = boxes[layout.kind[boxes] == BoxKind.FRAME]
    if scene.zoom < SHORT_ZOOM:
        return []
    rects, texts = RectList(), TextList()
    size = max(font_size(scene, _TITLE_PX), 9.0)
    x0, y0, x1, y1 = (values.tolist() for values in corners(scene, open_))
    for i, box in enumerate(open_.tolist()):
        title, inside = layer_text(scene, int(layout.layer[box]))
        text = f"▾ {title}" + (f"  {inside}" if scene.zoom >= FULL_ZOOM else "")
        left, top = max(x0[i], 0.0) + 6, max(y0[i], scene.clip.y) + 3
        width = scene.measurer.width(text, Face.HEADING, size) + 12
        height = size * 1.6
        if top + height > y1[i] or left + width > x1[i]:
            continue
        # Edges enter at the top: a ground keeps them from running through the words.
        is_above = y0[i] < scene.clip.y or x0[i] < 0.0
        ground = theme.raised if is_above else theme.lane
        rects.add(left, left + width, top, top + height, ground)
        texts.append(
            Text(left + 6, top + height / 2, text, theme.dim, size, Face.HEADING,
                 clip=scene.clip)
        )  # fmt: skip
    return [*rects.batch(radius=4.0, clip=scene.clip), *texts.batch()]


def minimap_place(scene: GraphScene) -> Clip | None:
    """Return where the overview lies; None where all is in view or no room is."""
    layout = scene.layout
    if not len(layout) or scene.width < 320 or scene.height < 200:
        return None
    right = scene.x + scene.width / scene.zoom
    bottom = scene.y + scene.height / scene.zoom
    if scene.x <= 0 and scene.y <= 0 and right >= layout.width and (
        bottom >= layout.height
    ):  # fmt: skip
        return None
    height = min(MAP_HEIGHT, scene.height * 0.5)
    width = height * layout.width / max(layout.height, 1.0)
    max_width = MAP_WIDTH[1] * (2.0 if layout.choice.across else 1.0)
    width = min(max(width, MAP_WIDTH[0]), max_width)
    height = min(height, max(width * layout.height / max(layout.width, 1.0), 30.0))
    place = Clip(
        scene.width - width - _MARGIN, scene.height - height - _MARGIN, width, height
    )
    return None if _hides_boxes(scene, place) else place


def _hides_boxes(scene: GraphScene, place: Clip) -> bool:
    """Return whether something at `place` would lie over boxes of a small picture."""
    if scene.width >= _ROOMY[0] and scene.height >= _ROOMY[1]:
        return False
    boxes = visible_boxes(scene)
    boxes = boxes[scene.layout.kind[boxes] != BoxKind.FRAME]
    x0, y0, x1, y1 = corners(scene, boxes)
    over = (x0 < place.x + place.width + 4) & (x1 > place.x - 4)
    over &= (y0 < place.y + place.height + 4) & (y1 > place.y - 4)
    return bool(over.any())


def minimap_batches(scene: GraphScene) -> list[Batch]:
    """Return the overview in the corner: all boxes, and what is in view."""
    place = minimap_place(scene)
    if place is None:
        return []
    layout, theme = scene.layout, scene.theme
    rects = RectList()
    x, y, w, h = place.x, place.y, place.width, place.height
    rects.add(x - 4, x + w + 4, y - 4, y + h + 4, mix(theme.pane, theme.window, 0.5),
              theme.line)  # fmt: skip
    plate = rects.batch(radius=4.0)
    sx, sy = w / max(layout.width, 1.0), h / max(layout.height, 1.0)
    boxes = np.flatnonzero(layout.kind != BoxKind.FRAME)
    if len(boxes) > _MAX_BOXES:
        boxes = boxes[:: -(-len(boxes) // _MAX_BOXES)]
    inside = RectList()
    x0, y0 = x + layout.x0[boxes] * sx, y + layout.y0[boxes] * sy
    x1, y1 = x + layout.x1[boxes] * sx, y + layout.y1[boxes] * sy
    fill = scene.look.fill[boxes]
    if not scene.look.by.is_heat:  # a mixture has no colour of its own
        fill = np.where(layout.kind[boxes] == BoxKind.LAYER, theme.faint, fill)
    inside.add(x0, np.maximum(x1, x0 + 1), y0, np.maximum(y1, y0 + 1), fill)
    view = RectList()
    vx0, vx1 = x + scene.x * sx, x + (scene.x + scene.width / scene.zoom) * sx
    vy0, vy1 = y + scene.y * sy, y + (scene.y + scene.height / scene.zoom) * sy
    vx0, vx1 = min(max(vx0, x), x + w), max(min(vx1, x + w), x)
    vy0, vy1 = min(max(vy0, y), y + h), max(min(vy1, y + h), y)
    view.add(vx0, max(vx1, vx0 + 3), vy0, max(vy1, vy0 + 3),
             with_alpha(theme.accent, 0.18), theme.accent)  # fmt: skip
    return [*plate, *inside.batch(clip=place), *view.batch()]


def legend_picture(scene: GraphScene, width: float, scale: float) -> DisplayList:
    """Return the legend, which stands below the picture: kinds, or amounts."""
    theme = scene.theme
    batches = (
        _heat_legend(scene, width) if scene.look.by.is_heat else _kinds(scene, width)
    )
    return DisplayList(width, LEGEND_HEIGHT, scale, theme.pane, tuple(batches))


def _kinds(scene: GraphScene, width: float) -> list[Batch]:
    rects, texts = RectList(), TextList()
    swatch, gap, x, y = 10.0, 14.0, _MARGIN + 2, LEGEND_HEIGHT / 2
    for word, color in scene.look.legend:
        length = swatch + 5 + scene.measurer.width(word, Face.UI, _LEGEND_PX)
        if x + length > width - _MARGIN:
            break
        rects.add(x, x + swatch, y - swatch / 2, y + swatch / 2, color)
        texts.append(Text(x + swatch + 5, y, word, scene.theme.dim, _LEGEND_PX))
        x += length + gap
    return [*rects.batch(), *texts.batch()]


def _heat_legend(scene: GraphScene, width: float) -> list[Batch]:
    theme = scene.theme
    texts, rects, batches = TextList(), RectList(), list[Batch]()
    word, low, high = _heat_text(scene), _lowest(scene), _highest(scene)
    size, bar, y = _LEGEND_PX, 90.0, LEGEND_HEIGHT / 2
    pieces = [scene.measurer.width(w, Face.UI, size) for w in (word, low, high)]
    missing = "not in the trace"
    x = _MARGIN + 2
    if x + sum(pieces) + bar + 26 <= width:  # else the scale alone
        texts.append(Text(x, y, word, theme.dim, size))
        x += pieces[0] + 14
    texts.append(Text(x, y, low, theme.text, size))
    x += pieces[1] + 6
    batches.append(color_bar(x, y - 5, bar, 10, map_on(DEFAULT, theme)))
    x += bar + 6
    texts.append(Text(x, y, high, theme.text, size))
    x += pieces[2] + 16
    if x + 20 + scene.measurer.width(missing, Face.UI, size) <= width:
        rects.add(x, x + 14, y - 5, y + 5, theme.line, theme.line,
                  int(Pattern.FAINT_HATCH))  # fmt: skip
        texts.append(Text(x + 20, y, missing, theme.dim, size))
    return [*batches, *rects.batch(), *texts.batch()]


def heat_bar(scene: GraphScene) -> ColorBar:
    """Return what the colours of a heat map stand for."""
    name = map_on(DEFAULT, scene.theme)
    return ColorBar(_heat_text(scene), _lowest(scene), _highest(scene), name)


def _heat_text(scene: GraphScene) -> str:
    word = {
        GraphColorBy.TIME: "time of its spans",
        GraphColorBy.ACCESSES: "accesses of its tensor",
        GraphColorBy.BYTES: "bytes accessed of its tensor",
    }[scene.look.by]
    return f"{word}, logarithmic" if _is_log(scene) else word


def _is_log(scene: GraphScene) -> bool:
    scale = scene.look.scale
    return scale is not None and scale.kind is ScaleKind.LOG


def _lowest(scene: GraphScene) -> str:
    """Return what the coldest colour stands for."""
    scale = scene.look.scale
    low = scale.low if scale is not None and _is_log(scene) else 0.0
    return amount_text(low, scene.look.by, scene.trace)


def _highest(scene: GraphScene) -> str:
    """Return what the hottest colour stands for: for nodes, and for closed layers."""
    look, is_layer = scene.look, scene.layout.kind == BoxKind.LAYER
    lines = []
    for scale, rows, word in (
        (look.scale, ~is_layer, ""),
        (look.layer_scale, is_layer, " in a layer"),
    ):
        if scale is not None and bool((look.values[rows] > 0).any()):
            lines.append(amount_text(scale.high, look.by, scene.trace) + word)
    return ", ".join(lines) or amount_text(0.0, look.by, scene.trace)
