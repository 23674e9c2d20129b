"""The map of a model file: where its tensors lie, coloured by what they belong to."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.model_tensors import ModelTensors
from ggscope.model.names import COMPONENTS
from ggscope.model.units import format_bytes, format_offset
from ggscope.render.batch import (
    Align,
    Batch,
    DisplayList,
    Face,
    Pattern,
    RectList,
    Text,
    TextList,
)
from ggscope.render.reads import component_color
from ggscope.render.theme import Theme

PAD_PX = 12.0
LEGEND_PX = 24.0
FILE_PX = 46.0
"""Height of one file: its name and scale, and its bar."""
BAR_PX = 24.0
MOST_FILES = 6
"""Files beyond these have no bar; the table lists their tensors."""
_GAP_PX = 1.0
"""Between two tensors that are wide enough for it."""
_SWATCH_PX = 9.0
_LETTER_PX = 6.6


@dataclass(frozen=True, slots=True, eq=False)
class ModelMapScene:
    """Everything that the picture depends on.

    Attributes
    ----------
    selected, hover : row numbers of ``Trace.tensors``; -1 = none.
    """

    tensors: ModelTensors
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    selected: frozenset[int] = frozenset()
    hover: int = -1


def height_of(tensors: ModelTensors) -> float:
    """Return the height that the map needs."""
    n_files = min(len(tensors.files), MOST_FILES)
    return LEGEND_PX + n_files * FILE_PX + 4


def compose_model_map(scene: ModelMapScene) -> DisplayList:
    """Return the picture: a bar per file, from its first byte to its last.

    Tensors narrower than a pixel are drawn a pixel wide where they lie.
    """
    # Within a batch what overlaps has no order.
    layers, texts = (RectList(), RectList(), RectList()), TextList()
    _add_legend(scene, layers[0], texts)
    for file in range(min(len(scene.tensors.files), MOST_FILES)):
        _add_file(scene, file, layers, texts)
    batches: list[Batch] = [b for layer in layers for b in layer.batch()]
    batches += texts.batch()
    return DisplayList(
        scene.width, scene.height, scene.scale, scene.theme.pane, tuple(batches)
    )


def tensor_at(scene: ModelMapScene, x: float, y: float) -> int:
    """Return the number of the tensor at a point of the picture, -1 = none."""
    file = int((y - LEGEND_PX) // FILE_PX)
    tensors = scene.tensors
    if not 0 <= file < min(len(tensors.files), MOST_FILES):
        return -1
    top = LEGEND_PX + file * FILE_PX + FILE_PX - BAR_PX - 4
    if not top <= y < top + BAR_PX:
        return -1
    place = (x - PAD_PX) / _room(scene) * float(tensors.ends[file])
    reach = float(tensors.ends[file]) / _room(scene)
    here = np.flatnonzero((tensors.file == file) & (tensors.offset >= 0))
    start = tensors.offset[here]
    end = start + np.maximum(tensors.size[here], 1)
    near = here[(start <= place + reach / 2) & (end > place - reach / 2)]
    if not len(near):
        return -1
    return int(tensors.rows[near[np.argmax(tensors.size[near])]])


def _room(scene: ModelMapScene) -> float:
    return max(scene.width - 2 * PAD_PX, 1.0)


def _add_legend(scene: ModelMapScene, rects: RectList, texts: TextList) -> None:
    """Name the colours of what there is, with their bytes; a colour once."""
    tensors, x, middle = scene.tensors, PAD_PX, LEGEND_PX / 2
    sizes = np.bincount(tensors.component, np.maximum(tensors.size, 0), len(COMPONENTS))
    present = np.bincount(tensors.component, minlength=len(COMPONENTS)) > 0
    names: dict[int, list[str]] = {}
    size_of: dict[int, float] = {}
    for i in np.argsort(-sizes, kind="stable").tolist():
        if present[i]:
            color = component_color(COMPONENTS[i], scene.theme)
            names.setdefault(color, []).append(COMPONENTS[i])
            size_of[color] = size_of.get(color, 0.0) + float(sizes[i])
    for color in sorted(names, key=lambda color: -size_of[color]):
        words = f"{', '.join(names[color])} {format_bytes(int(size_of[color]))}"
        wide = _SWATCH_PX + 6 + len(words) * _LETTER_PX + 12
        if x + wide > scene.width - PAD_PX:
            continue
        top = middle - _SWATCH_PX / 2
        rects.add(x, x + _SWATCH_PX, top, top + _SWATCH_PX, color)
        texts.append(Text(x + _SWATCH_PX + 6, middle, words, scene.theme.dim, 11.0))
        x += wide


def _add_file(
    scene: ModelMapScene,
    file: int,
    layers: tuple[RectList, RectList, RectList],
    texts: TextList,
) -> None:
    ground, bars, marks = layers
    tensors, theme, room = scene.tensors, scene.theme, _room(scene)
    top = LEGEND_PX + file * FILE_PX
    y0, y1 = top + FILE_PX - BAR_PX - 4, top + FILE_PX - 4
    middle, end = (top + y0) / 2, int(tensors.ends[file])
    name = Text(
        PAD_PX, middle, tensors.files[file], theme.dim, 11.0, Face.NUMBERS,
        width=room * 0.7,
    )  # fmt: skip
    total = f"{format_offset(end)} · {format_bytes(end)}"
    texts.append(name)
    texts.append(
        Text(scene.width - PAD_PX, middle, total, theme.dim, 11.0, Face.NUMBERS,
             Align.RIGHT)
    )  # fmt: skip
    ground.add(PAD_PX, PAD_PX + room, y0, y1, theme.lane)
    if end <= 0:
        return
    head = float(tensors.starts[file]) / end * room
    if head >= 1:
        bars.add(
            PAD_PX, PAD_PX + head, y0, y1, theme.line, pattern=int(Pattern.FAINT_HATCH)
        )
    here = np.flatnonzero((tensors.file == file) & (tensors.offset >= 0))
    here = here[np.argsort(tensors.size[here], kind="stable")]
    x0 = PAD_PX + tensors.offset[here] / end * room
    x1 = (
        PAD_PX + (tensors.offset[here] + np.maximum(tensors.size[here], 0)) / end * room
    )
    gap = np.where(x1 - x0 >= 4, _GAP_PX, 0.0)
    x0, x1 = _snapped(x0, scene.scale), _snapped(x1 - gap, scene.scale)
    x1 = np.maximum(x1, x0 + 1 / scene.scale)
    palette = np.array([component_color(name, theme) for name in COMPONENTS], np.uint32)
    bars.add(x0, x1, y0, y1, palette[tensors.component[here]])
    rows = tensors.rows[here]
    marked = np.isin(rows, [*scene.selected, scene.hover])
    for i in np.flatnonzero(marked).tolist():
        is_chosen = int(rows[i]) in scene.selected
        color = theme.selection if is_chosen else theme.text
        left, right = float(x0[i]) - 1, max(float(x1[i]), float(x0[i]) + 2) + 1
        marks.add(left, right, y0 - 3, y1 + 3, 0, border=color)


def _snapped(x: np.ndarray, scale: float) -> np.ndarray:
    return np.round(x * scale) / scale
