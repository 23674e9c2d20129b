"""The map of a model file: where its tensors lie, coloured by what they belong to."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ggscope.analysis.model_importance import TensorImportance
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
from ggscope.render.colors import (
    DEFAULT,
    ColorScale,
    ScaleKind,
    color_scale,
    colors,
    map_on,
    texels,
)
from ggscope.render.reads import component_color
from ggscope.render.theme import Theme

F64 = npt.NDArray[np.float64]
MapColor = Literal["part", "importance", "choices"]
PAD_PX = 12.0
LEGEND_PX = 24.0
FILE_PX = 46.0
"""Height of one file: its name and scale, and its bar."""
BAR_PX = 24.0
MAX_FILES = 6
"""Files beyond these have no bar; the table lists their tensors."""
_GAP_PX = 1.0
"""Between two tensors that are wide enough for it."""
_SWATCH_PX = 9.0
_LETTER_PX = 6.6
_SCALE_PX = 120.0


@dataclass(frozen=True, slots=True, eq=False)
class ModelMapScene:
    """Everything that the picture depends on.

    Attributes
    ----------
    selected, hover : row numbers of ``Trace.tensors``; -1 = none.
    importance : colours slices by it in place of the part of the network; None = by
        that.
    color : which of its numbers, "importance" or "choices".
    """

    tensors: ModelTensors
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    selected: frozenset[int] = frozenset()
    hover: int = -1
    importance: TensorImportance | None = None
    color: MapColor = "part"

    @property
    def values(self) -> F64 | None:
        """What slices are coloured by; None = by the part of the network."""
        if self.importance is None or self.color == "part":
            return None
        if self.color == "importance":
            return self.importance.slice_square
        return self.importance.slice_count


def height_of(tensors: ModelTensors) -> float:
    """Return the height that the map needs."""
    n_files = min(len(tensors.files), MAX_FILES)
    return LEGEND_PX + n_files * FILE_PX + 4


def compose_model_map(scene: ModelMapScene) -> DisplayList:
    """Return the picture: a bar per file, from its first byte to its last.

    Tensors narrower than a pixel are drawn a pixel wide where they lie.
    """
    # Within a batch what overlaps has no order.
    layers = (RectList(), RectList(), RectList(), RectList())
    texts = TextList()
    if scene.values is None:
        _add_legend(scene, layers[0], texts)
    else:
        _add_scale(scene, scene.values, layers[0], texts)
    for file in range(min(len(scene.tensors.files), MAX_FILES)):
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
    if not 0 <= file < min(len(tensors.files), MAX_FILES):
        return -1
    top = LEGEND_PX + file * FILE_PX + FILE_PX - BAR_PX - 4
    if not top <= y < top + BAR_PX:
        return -1
    place = (x - PAD_PX) / _content_width(scene) * float(tensors.ends[file])
    reach = float(tensors.ends[file]) / _content_width(scene)
    here = np.flatnonzero((tensors.file == file) & (tensors.offset >= 0))
    start = tensors.offset[here]
    end = start + np.maximum(tensors.size[here], 1)
    near = here[(start <= place + reach / 2) & (end > place - reach / 2)]
    if not len(near):
        return -1
    return int(tensors.rows[near[np.argmax(tensors.size[near])]])


def _content_width(scene: ModelMapScene) -> float:
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
        text = f"{', '.join(names[color])} {format_bytes(int(size_of[color]))}"
        wide = _SWATCH_PX + 6 + len(text) * _LETTER_PX + 12
        if x + wide > scene.width - PAD_PX:
            continue
        top = middle - _SWATCH_PX / 2
        rects.add(x, x + _SWATCH_PX, top, top + _SWATCH_PX, color)
        texts.append(Text(x + _SWATCH_PX + 6, middle, text, scene.theme.dim, 11.0))
        x += wide


def _add_file(
    scene: ModelMapScene,
    file: int,
    layers: tuple[RectList, RectList, RectList, RectList],
    texts: TextList,
) -> None:
    ground, bars, slices, marks = layers
    tensors, theme, space = scene.tensors, scene.theme, _content_width(scene)
    top = LEGEND_PX + file * FILE_PX
    y0, y1 = top + FILE_PX - BAR_PX - 4, top + FILE_PX - 4
    middle, end = (top + y0) / 2, int(tensors.ends[file])
    name = Text(
        PAD_PX, middle, tensors.files[file], theme.dim, 11.0, Face.MONO,
        width=space * 0.7,
    )  # fmt: skip
    total = f"{format_offset(end)} · {format_bytes(end)}"
    texts.append(name)
    texts.append(
        Text(scene.width - PAD_PX, middle, total, theme.dim, 11.0, Face.MONO,
             Align.RIGHT)
    )  # fmt: skip
    ground.add(PAD_PX, PAD_PX + space, y0, y1, theme.lane)
    if end <= 0:
        return
    head = float(tensors.starts[file]) / end * space
    if head >= 1:
        bars.add(
            PAD_PX, PAD_PX + head, y0, y1, theme.line, pattern=int(Pattern.FAINT_HATCH)
        )
    here = np.flatnonzero((tensors.file == file) & (tensors.offset >= 0))
    here = here[np.argsort(tensors.size[here], kind="stable")]
    x0 = PAD_PX + tensors.offset[here] / end * space
    x1 = (
        PAD_PX
        + (tensors.offset[here] + np.maximum(tensors.size[here], 0)) / end * space
    )
    gap = np.where(x1 - x0 >= 4, _GAP_PX, 0.0)
    x0, x1 = _snapped(x0, scene.scale), _snapped(x1 - gap, scene.scale)
    x1 = np.maximum(x1, x0 + 1 / scene.scale)
    if scene.values is None:
        palette = [component_color(name, theme) for name in COMPONENTS]
        fill = np.array(palette, np.uint32)[tensors.component[here]]
    else:
        fill = np.full(len(here), theme.idle, np.uint32)
    bars.add(x0, x1, y0, y1, fill)
    if scene.values is not None:
        _add_slices(scene, scene.values, file, slices, (y0, y1))
    rows = tensors.rows[here]
    marked = np.isin(rows, [*scene.selected, scene.hover])
    for i in np.flatnonzero(marked).tolist():
        is_chosen = int(rows[i]) in scene.selected
        color = theme.selection if is_chosen else theme.text
        left, right = float(x0[i]) - 1, max(float(x1[i]), float(x0[i]) + 2) + 1
        marks.add(left, right, y0 - 3, y1 + 3, 0, border=color)


def _snapped(x: np.ndarray, scale: float) -> np.ndarray:
    return np.round(x * scale) / scale


def _scale_of(values: F64) -> ColorScale:
    return color_scale(values, ScaleKind.LOG)


def _add_slices(
    scene: ModelMapScene,
    values: F64,
    file: int,
    into: RectList,
    edges: tuple[float, float],
) -> None:
    """Draw the slices of a file, the highest numbers on top where several share a px.

    Slices that were never used are hatched.
    """
    importance, tensors, theme = scene.importance, scene.tensors, scene.theme
    assert importance is not None
    order = np.argsort(tensors.rows)
    at = order[
        np.searchsorted(tensors.rows, importance.slice_row, sorter=order) % len(order)
    ]
    here = (tensors.rows[at] == importance.slice_row) & (tensors.file[at] == file)
    here &= tensors.offset[at] >= 0
    rows = np.flatnonzero(here)
    rows = rows[np.argsort(np.nan_to_num(values[rows], nan=-1.0), kind="stable")]
    end, space = int(tensors.ends[file]), _content_width(scene)
    begin = tensors.offset[at[rows]]
    x0 = PAD_PX + (begin + importance.slice_first[rows]) / end * space
    x1 = PAD_PX + (begin + importance.slice_stop[rows]) / end * space
    x0, x1 = _snapped(x0, scene.scale), _snapped(x1, scene.scale)
    x1 = np.maximum(x1, x0 + 1 / scene.scale)
    name = map_on(DEFAULT, theme)
    fill = texels(values[rows], _scale_of(values), name, theme.lane)
    unused = (importance.slice_count[rows] == 0) | np.isnan(
        importance.slice_square[rows]
    )
    pattern = np.where(unused, int(Pattern.FAINT_HATCH), int(Pattern.SOLID))
    fill = np.where(unused, theme.line, fill)
    into.add(x0, x1, *edges, fill, pattern=pattern)


def _add_scale(
    scene: ModelMapScene, values: F64, rects: RectList, texts: TextList
) -> None:
    """Draw the colours of numbers from low to high, and those of none."""
    scale, theme, middle = _scale_of(values), scene.theme, LEGEND_PX / 2
    what = "mean square of activations"
    if scene.color == "choices":
        what = "tokens that used it"
    x = PAD_PX
    for label, width in ((what, 0.0), (f"{scale.low:.4g}", _SCALE_PX)):
        texts.append(Text(x, middle, label, theme.dim, 11.0))
        x += len(label) * _LETTER_PX + 8
        if width:
            ramp = colors(map_on(DEFAULT, theme))
            left = x + np.arange(len(ramp)) / len(ramp) * width
            step = width / len(ramp)
            top = middle - _SWATCH_PX / 2
            rects.add(left, left + step + 0.5, top, top + _SWATCH_PX, ramp)
            x += width + 8
    high = f"{scale.high:.4g}"
    texts.append(Text(x, middle, high, theme.dim, 11.0))
    x += len(high) * _LETTER_PX + 18
    for label, color, pattern in (
        ("never used", theme.line, Pattern.FAINT_HATCH),
        ("not in the matrix", theme.idle, Pattern.SOLID),
    ):
        top = middle - _SWATCH_PX / 2
        rects.add(x, x + _SWATCH_PX, top, top + _SWATCH_PX, color, pattern=int(pattern))
        texts.append(Text(x + _SWATCH_PX + 6, middle, label, theme.dim, 11.0))
        x += _SWATCH_PX + 6 + len(label) * _LETTER_PX + 12
