"""Pictures of experts: which worked how much, and what they do from token to token."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from ggscope.analysis.experts.experts import OF_ROUTER, Choices, ExpertSource
from ggscope.analysis.experts.figures import (
    F64,
    Beside,
    ExpertsResult,
    ScoreHistogram,
    experts_result,
    layer_shares,
)
from ggscope.errors import NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.render import colors as colormap
from ggscope.render.batch import DisplayList
from ggscope.render.charts import (
    Axis,
    ChartScene,
    Curve,
    Rule,
    compose_chart,
    in_bytes,
    in_percent,
    plain,
)
from ggscope.render.colors import ScaleKind, category_color, color_scale
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.grid import (
    Cell,
    GridGeometry,
    GridScene,
    Side,
    compose_grid,
    grid_bars,
    grid_entries,
    placed,
    share_values,
    unit_scale,
)
from ggscope.render.options import export_command, option
from ggscope.render.theme import Theme
from ggscope.render.theme import theme as theme_named

_SIDE_BY_SIDE_PX = 620.0
_STACKED_PX = 400.0
_MAX_CURVES = 8
_HIDDEN = {
    ExpertSource.NONE: "This trace records no experts.",
    ExpertSource.STACKS: "Only whole stacks of experts are named; which experts were "
    "used is not recorded.",
}


class Measure(Enum):
    """What the cells of the layer × expert matrix show."""

    COUNT = "count"
    BYTES = "bytes"
    SHARE = "share"


@dataclass(frozen=True, slots=True, eq=False)
class ExpertsScene:
    """Everything the pictures of experts depend on.

    Attributes
    ----------
    with_second : whether the second picture is drawn where there is room.
    hover, cursor, selected, highlighted : cells (row of the layer, expert).
    is_figure : the frame of a figure has the colour bar of the matrix.
    hover_beside : cell of the second picture.
    """

    width: float
    height: float
    theme: Theme
    result: ExpertsResult
    measure: Measure = Measure.COUNT
    kind: ScaleKind = ScaleKind.LINEAR
    with_second: bool = True
    map_name: str = colormap.DEFAULT
    scale: float = 1.0
    hover: Cell | None = None
    hover_beside: Cell | None = None
    cursor: Cell | None = None
    selected: tuple[Cell, ...] = field(default_factory=tuple)
    highlighted: tuple[Cell, ...] = field(default_factory=tuple)
    is_figure: bool = False

    @property
    def choices(self) -> Choices:
        """What was chosen, and of which layers and tokens."""
        return self.result.base.choices


@dataclass(frozen=True, slots=True)
class Rect:
    """Where a picture lies in the whole: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float

    def contains(self, x: float, y: float) -> bool:
        """Return whether a position is in it."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


def frames(scene: ExpertsScene) -> tuple[Rect, Rect | None]:
    """Return where the matrix lies, and the second picture where there is room."""
    whole = Rect(0.0, 0.0, scene.width, scene.height)
    if not scene.with_second:
        return whole, None
    if scene.width >= _SIDE_BY_SIDE_PX:
        left = round(scene.width * 0.54 * scene.scale) / scene.scale
        return (
            Rect(0.0, 0.0, left, scene.height),
            Rect(left, 0.0, scene.width - left, scene.height),
        )
    if scene.height >= _STACKED_PX:
        top = round(scene.height * 0.52 * scene.scale) / scene.scale
        return (
            Rect(0.0, 0.0, scene.width, top),
            Rect(0.0, top, scene.width, scene.height - top),
        )
    return whole, None


def compose_experts(scene: ExpertsScene) -> DisplayList:
    """Return the matrix of layers by experts, and the second picture beside it."""
    main, second = frames(scene)
    parts = [(compose_grid(main_grid(scene, main)), main.x, main.y)]
    if second is not None:
        parts.append((_second(scene, second), second.x, second.y))
    return placed(scene.width, scene.height, scene.scale, scene.theme.pane, parts)


def cell_at(scene: ExpertsScene, x: float, y: float) -> Cell | None:
    """Return the (row of the layer, expert) at a position of the whole picture."""
    main, _ = frames(scene)
    if not main.contains(x, y):
        return None
    return GridGeometry(main_grid(scene, main)).cell_at(x - main.x, y - main.y)


def cell_beside_at(scene: ExpertsScene, x: float, y: float) -> Cell | None:
    """Return the cell of the second picture at a position; None for charts."""
    _, second = frames(scene)
    if second is None or scene.result.matrix is None or not second.contains(x, y):
        return None
    grid = _second_grid(scene, second)
    return GridGeometry(grid).cell_at(x - second.x, y - second.y)


def main_values(scene: ExpertsScene) -> F64:
    """Return what the cells show, float64[L, E]; NaN = not known."""
    grid = scene.result.grid
    is_open = grid.more != 0
    if scene.measure is Measure.SHARE:
        return layer_shares(grid.count, is_open)
    # Of choices that no list names some may be of an expert that none is known of.
    unknown = is_open[:, None] & (grid.count == 0)
    if scene.measure is Measure.BYTES:
        unknown = unknown | (grid.bytes < 0)
        return np.where(unknown, np.nan, grid.bytes.astype(np.float64))
    return np.where(unknown, np.nan, grid.count.astype(np.float64))


def main_grid(scene: ExpertsScene, frame: Rect) -> GridScene:
    """Return the scene of the layer × expert matrix."""
    values = main_values(scene)
    unit = "choices" if scene.choices.source in OF_ROUTER else "accesses"
    title, measures = {
        Measure.COUNT: (unit, plain),
        Measure.BYTES: ("bytes read", in_bytes),
        Measure.SHARE: ("share of the layer", in_percent),
    }[scene.measure]
    choices, token = scene.choices, scene.result.token
    of_token = "" if token is None else f" · {choices.noun} {choices.tokens[token]}"
    return GridScene(
        width=frame.width,
        height=frame.height,
        theme=scene.theme,
        scale=scene.scale,
        values=values,
        colors=color_scale(values, scene.kind),
        map_name=scene.map_name,
        row_labels=[str(n) for n in scene.choices.layers.tolist()],
        column_labels=[str(n) for n in range(values.shape[1])],
        row_title="layer",
        column_title="expert",
        value_title=title,
        title=f"Experts{of_token}",
        format_value=measures,
        missing="N/A: sizes of experts are not known"
        if scene.measure is Measure.BYTES and (scene.result.grid.bytes < 0).any()
        else "N/A: no layer has choices that are all recorded",
        side=Side(scene.result.figures.entropy_share, "entropy"),
        hover=scene.hover,
        cursor=scene.cursor,
        selected=scene.selected,
        highlighted=scene.highlighted,
        show_bar=not scene.is_figure,
    )


def second_title(scene: ExpertsScene) -> str:
    """Return the heading of the second picture."""
    layers, row = scene.choices.layers, scene.result.layer
    of = "all layers" if row is None else f"layer {layers[row]}"
    return {
        Beside.OVERLAP: "Overlap with the previous token",
        Beside.TRANSITION: f"From token to token, {of}",
        Beside.TOGETHER: f"Working together, {of}",
        Beside.SCORES: f"Router scores, {of}",
        Beside.COVER: "Share of the hottest slots",
    }[scene.result.beside]


def _second(scene: ExpertsScene, frame: Rect) -> DisplayList:
    if scene.result.beside is Beside.SCORES and scene.result.scores is not None:
        return compose_chart(_score_chart(scene, scene.result.scores, frame))
    if scene.result.beside is Beside.COVER and scene.result.curve is not None:
        return compose_chart(_cover_chart(scene, scene.result.curve, frame))
    if scene.result.matrix is not None:
        return compose_grid(_second_grid(scene, frame))
    return DisplayList(frame.width, frame.height, scene.scale, scene.theme.pane)


def _second_grid(scene: ExpertsScene, frame: Rect) -> GridScene:
    matrix = np.zeros((0, 0)) if scene.result.matrix is None else scene.result.matrix
    common = {
        "width": frame.width,
        "height": frame.height,
        "theme": scene.theme,
        "scale": scene.scale,
        "map_name": scene.map_name,
        "title": second_title(scene),
        "hover": scene.hover_beside,
        "show_bar": not scene.is_figure,
    }
    if scene.result.beside is Beside.OVERLAP:
        return GridScene(
            **common,  # type: ignore[arg-type]  # the fields of every scene
            values=share_values(matrix),
            colors=unit_scale(),
            row_labels=[str(layer) for layer in scene.choices.layers.tolist()],
            column_labels=[str(token) for token in scene.choices.tokens.tolist()],
            row_title="layer",
            column_title=scene.choices.noun,
            value_title="experts kept",
            format_value=in_percent,
            missing="N/A: no two tokens in a row have all choices recorded",
            side=Side(scene.result.base.overlap.by_layer, "mean"),
        )
    experts = [str(i) for i in range(len(matrix))]
    follows = scene.result.beside is Beside.TRANSITION
    return GridScene(
        **common,  # type: ignore[arg-type]
        values=matrix,
        colors=color_scale(matrix, scene.kind),
        row_labels=experts,
        column_labels=experts,
        row_title="expert",
        column_title="expert of the next token" if follows else "expert",
        value_title="times",
    )


def _score_chart(
    scene: ExpertsScene, scores: ScoreHistogram, frame: Rect
) -> ChartScene:
    n_ranks, n_bins = scores.count.shape
    edges = np.linspace(0, 1, n_bins + 1)
    curves = [
        Curve(
            edges,
            np.append(scores.count[rank], 0).astype(np.float64),
            category_color(f"rank:{rank}", scene.theme),
            f"rank {rank}",
            is_step=True,
            fills=True,
        )
        for rank in range(min(n_ranks, _MAX_CURVES))
    ]
    highest = float(scores.count.max(initial=1))
    return ChartScene(
        frame.width,
        frame.height,
        scene.theme,
        Axis(0.0, 1.0, "score"),
        Axis(0.0, highest * 1.05, "choices"),
        tuple(curves),
        title=second_title(scene),
        scale=scene.scale,
    )


def _cover_chart(scene: ExpertsScene, curve: F64, frame: Rect) -> ChartScene:
    n = len(curve) - 1
    x = np.arange(n + 1, dtype=np.float64)
    even = np.array([0.0, 1.0])
    curves: Sequence[Curve] = (
        Curve(np.array([0.0, float(n)]), even, scene.theme.faint, "even",
              is_dashed=True),
        Curve(x, curve, scene.theme.accent, "choices", fills=True),
    )  # fmt: skip
    rules = (
        Rule(in_percent(scene.result.share), y=scene.result.share),
        *_where_covered(curve, scene.result.share),
    )
    return ChartScene(
        frame.width,
        frame.height,
        scene.theme,
        Axis(0.0, float(max(n, 1)), "hottest (layer, expert) slots"),
        Axis(0.0, 1.0, "share of all choices", in_percent),
        tuple(curves) if not np.isnan(curve).any() else (),
        rules,
        title=second_title(scene),
        scale=scene.scale,
    )


def _where_covered(curve: F64, share: float) -> tuple[Rule, ...]:
    if np.isnan(curve).any():
        return ()
    n = int(np.searchsorted(curve, share - 1e-12))
    return (Rule(f"{n:,} slots", x=float(n)),)


def draw_experts(scene: ExpertsScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    choices, figures = scene.choices, scene.result.figures
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale,
        hover=None, hover_beside=None, cursor=None, is_figure=True,
    )  # fmt: skip
    if not style.seen:
        scene = replace(scene, selected=(), highlighted=())
    grids = [main_grid(scene, frames(scene)[0])]
    if scene.with_second and scene.result.matrix is not None:
        grids.append(_second_grid(scene, frames(scene)[0]))
    is_wide = width >= _SIDE_BY_SIDE_PX
    left_out: list[str] = []
    if n := choices.n_left_out:
        is_access = choices.source is ExpertSource.ACCESSES
        left_out.append(
            f"Accesses with an invalid layer or expert: {n:,}."
            if is_access
            else f"Routing entries with an invalid layer or expert: {n:,}."
        )

    n = len(choices.tokens)
    tokens = f"{n:,} {choices.noun}{'es' if choices.noun == 'ubatch' else 's'}"

    def compose(height: float) -> DisplayList:
        whole = replace(scene, height=height)
        if scene.with_second and frames(whole)[1] is None:
            left_out.append(
                f"“{second_title(scene)}” is left out: the figure is too small."
            )
        return compose_experts(whole)

    return framed(
        style,
        f"{name} · experts",
        compose,
        width=width,
        natural_height=480.0 if is_wide or not scene.with_second else 560.0,
        entries=grid_entries(*grids),
        bars=[bar for grid in grids for bar in grid_bars(grid)],
        description=f"Experts of {name}: {figures.n_active:,} of {figures.n_slots:,} "
        f"(layer, expert) slots active in {tokens}, known from "
        f"{choices.source.value}.",
        left_out=left_out,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsOptions:
    """Options of the figure of the experts; `beside` = None draws the matrix alone."""

    measure: Measure | str = field(
        default=Measure.COUNT, metadata=option(flag="measure")
    )
    kind: ScaleKind | str = ScaleKind.LINEAR
    beside: Beside | str | None = Beside.OVERLAP


def experts_figure(trace: Trace, options: ExpertsOptions = ExpertsOptions()) -> Figure:
    """Return the figure of the layer × expert matrix and the picture beside it."""
    measure, kind = Measure(options.measure), ScaleKind(options.kind)
    beside = Beside(options.beside or Beside.OVERLAP)

    def draw(style: FigureStyle) -> RenderedFigure:
        result = experts_result(trace, None, None, None, beside)
        source = result.base.choices.source
        if source in _HIDDEN:
            raise NothingToDrawError(_HIDDEN[source])
        scene = ExpertsScene(
            width=1400.0,
            height=560.0,
            theme=theme_named(style.theme),
            result=result,
            measure=measure,
            kind=kind,
            with_second=options.beside is not None,
        )
        return draw_experts(scene, style, trace_name(trace))

    return Figure("experts", draw, recipe=export_command("experts", trace, options))
