"""Colours of the boxes of a graph: by category, op family, or as a heat map."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.graph.layered import F64
from ggscope.analysis.graph.layout import BoxKind, GraphLayout
from ggscope.analysis.graph.measures import NodeMeasures
from ggscope.model.ggml.ops import FAMILIES, family_of
from ggscope.model.graph import Graph, NodeCategory
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.render.batch import U32, Pattern
from ggscope.render.colors import (
    DEFAULT,
    ColorScale,
    ScaleKind,
    category_color,
    color_scale,
    map_on,
    texels,
)
from ggscope.render.theme import Theme, mix

_WIDE = 100.0
"""Amounts further apart than this are distinguished by their logarithms."""
_INPUT_TINT = 0.4
"""How much of their colour inputs have: ops stand out."""
_CATEGORY_KEYS = {
    NodeCategory.INPUT: "space:1",
    NodeCategory.ATTENTION: "attention",
    NodeCategory.FFN: "moe",
    NodeCategory.NORM: "norm",
    NodeCategory.OUTPUT: "elementwise",
    NodeCategory.OTHER: "other",
}
"""Whose colour of the palette each category has."""


class GraphColorBy(Enum):
    """What boxes are coloured by."""

    CATEGORY = "category"
    FAMILY = "family"
    TIME = "time"
    ACCESSES = "accesses"
    BYTES = "bytes"

    @property
    def is_heat(self) -> bool:
        """Whether it is an amount, not a kind."""
        return self not in (GraphColorBy.CATEGORY, GraphColorBy.FAMILY)


@dataclass(frozen=True, slots=True, eq=False)
class BoxLook:
    """How the boxes of one layout look.

    Attributes
    ----------
    by : what they are coloured by.
    fill : uint32[b].
    pattern : uint8[b], `Pattern`; hatched where the trace does not know the amount.
    values : float64[b], the amounts of a heat map; NaN = not in the trace.
    shares : float64[b, k], of closed layers the share of each kind in `legend`.
    legend : (word, colour) of each kind; empty for heat maps.
    scale, layer_scale : of the nodes and of the closed layers of a heat map, else None.
        Layers have one of their own: a sum would leave nothing to distinguish nodes.
    """

    by: GraphColorBy
    fill: U32
    pattern: npt.NDArray[np.uint8]
    values: F64
    shares: F64
    legend: tuple[tuple[str, int], ...]
    scale: ColorScale | None
    layer_scale: ColorScale | None = None


def box_look(
    trace: Trace,
    graph: Graph,
    layout: GraphLayout,
    by: GraphColorBy,
    measures: NodeMeasures | None,
    theme: Theme,
) -> BoxLook:
    """Return the colours of all boxes; amounts need `measures`, else all are unknown.

    A closed layer has the sum of its nodes, or the mixture of their kinds.
    """
    if by.is_heat:
        return _heat(graph, layout, by, measures, theme)
    kinds, kind_names, colors = _kinds(trace, graph, by, theme)
    n, k = len(layout), len(kind_names)
    fill = np.full(n, theme.raised, np.uint32)
    single = layout.node >= 0
    fill[single] = np.array(colors, np.uint32)[kinds[layout.node[single]]]
    inputs = np.flatnonzero(single)
    inputs = inputs[layout.layers.is_input[layout.node[inputs]]]
    fill[inputs] = [mix(theme.pane, c, _INPUT_TINT) for c in fill[inputs].tolist()]
    shares = np.zeros((n, k))
    closed = np.flatnonzero(layout.kind == BoxKind.LAYER)
    at = layout.box_of
    shown = (at >= 0) & ~layout.layers.is_input
    counts = np.bincount(at[shown] * k + kinds[shown], minlength=n * k).reshape(n, k)
    sums = np.maximum(counts.sum(1, keepdims=True), 1)
    shares[closed] = (counts / sums)[closed]
    present = np.unique(kinds)
    legend = tuple((kind_names[i], colors[i]) for i in present.tolist())
    return BoxLook(
        by,
        fill,
        np.zeros(n, np.uint8),
        np.full(n, np.nan),
        shares[:, present],
        legend,
        None,
    )


def _kinds(
    trace: Trace, graph: Graph, by: GraphColorBy, theme: Theme
) -> tuple[I64, list[str], list[int]]:
    """Return the kind of each node, and the word and colour of each kind."""
    if by is GraphColorBy.CATEGORY:
        names = [c.name.lower() for c in NodeCategory]
        names = ["FFN" if word == "ffn" else word for word in names]
        colors = [category_color(_CATEGORY_KEYS[c], theme) for c in NodeCategory]
        known = np.minimum(graph.category, NodeCategory.OTHER)
        return known.astype(np.int64), names, colors
    ops, inverse = np.unique(graph.op, return_inverse=True)
    names = [*FAMILIES, "input"]
    of_op = [
        len(FAMILIES) if op < 0 else FAMILIES.index(family_of(trace.op_name(int(op))))
        for op in ops
    ]
    colors = [category_color(word, theme) for word in FAMILIES]
    colors.append(category_color("space:1", theme))
    return np.array(of_op, np.int64)[inverse.reshape(-1)], names, colors


def node_amounts(measures: NodeMeasures | None, by: GraphColorBy, n: int) -> F64:
    """Return the amount of each node, float64[n]; NaN = not in the trace."""
    if measures is None:
        return np.full(n, np.nan)
    return {
        GraphColorBy.TIME: measures.time,
        GraphColorBy.ACCESSES: measures.accesses,
        GraphColorBy.BYTES: measures.access_bytes,
    }[by]


def _heat(
    graph: Graph,
    layout: GraphLayout,
    by: GraphColorBy,
    measures: NodeMeasures | None,
    theme: Theme,
) -> BoxLook:
    amounts = node_amounts(measures, by, len(graph))
    n = len(layout)
    values = np.full(n, np.nan)
    known = ~np.isnan(amounts) & (layout.box_of >= 0)
    at, what = layout.box_of[known], amounts[known]
    if by is not GraphColorBy.TIME and measures is not None:
        # Several nodes may stand for one tensor; a layer counts it once.
        _, first = np.unique(
            np.stack([at, measures.tensor[known]], 1), axis=0, return_index=True
        )
        at, what = at[first], what[first]
    sums = np.bincount(at, what, n)
    closed = (layout.kind == BoxKind.LAYER) & (np.bincount(at, minlength=n) > 0)
    values[closed] = sums[closed]
    single = layout.node >= 0
    values[single] = amounts[layout.node[single]]
    is_layer = layout.kind == BoxKind.LAYER
    scale, layer_scale = _scale(values[~is_layer]), _scale(values[is_layer])
    zero, name = mix(theme.pane, theme.idle, 0.8), map_on(DEFAULT, theme)
    fill = np.where(
        is_layer,
        texels(values, layer_scale, name, zero),
        texels(values, scale, name, zero),
    )
    missing = np.isnan(values) & (layout.kind != BoxKind.FRAME)
    fill[missing] = theme.line
    if by is GraphColorBy.TIME:  # nothing computes an input, so it cannot take time
        inputs = np.flatnonzero(single)
        inputs = inputs[layout.layers.is_input[layout.node[inputs]]]
        missing[inputs] = False
        fill[inputs] = theme.raised
    pattern = np.where(missing, Pattern.FAINT_HATCH, Pattern.SOLID).astype(np.uint8)
    return BoxLook(by, fill, pattern, values, np.zeros((n, 0)), (), scale, layer_scale)


def _scale(values: F64) -> ColorScale:
    """Return a scale of these amounts, logarithmic where they differ widely."""
    scale = color_scale(values)
    if scale.high < scale.low * _WIDE:
        return scale
    return color_scale(values, ScaleKind.LOG)
