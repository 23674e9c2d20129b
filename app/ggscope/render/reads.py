"""Pictures of what is read: hot and cold tensors, KV traffic, the miss-ratio curve."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from ggscope.analysis.reads.hot_cold import HotCold, hot_cold
from ggscope.analysis.reads.hotness import (
    GROUP_BY,
    GroupBy,
    Ranking,
    Seeks,
    coverage,
    ranking,
)
from ggscope.analysis.reads.what_if import (
    Optimum,
    WhatIf,
    best_possible,
    cache_result,
    what_if,
)
from ggscope.descriptions.counting import moved_text
from ggscope.descriptions.reads import (
    cache_result_text,
    hot_facts,
    names_tensors,
    no_accesses_text,
    no_reads_text,
    rests_on,
)
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.names import parse
from ggscope.model.tokens import token_noun
from ggscope.model.trace import Trace
from ggscope.model.units import (
    TimeRange,
    format_bytes,
    format_count,
    format_counted,
    format_duration,
    format_share,
)
from ggscope.render.batch import DisplayList
from ggscope.render.charts import (
    BAR_HEIGHT,
    Axis,
    Bar,
    BarScene,
    ChartScene,
    Curve,
    Rule,
    bars_top,
    compose_bars,
    compose_chart,
    curve_entries,
    in_bytes,
    in_percent,
    plain,
)
from ggscope.render.colors import (
    ColorBar,
    Entry,
    ScaleKind,
    category_color,
    color_scale,
)
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.grid import GridScene, compose_grid, grid_bars, grid_entries
from ggscope.render.options import export_command, option, read_time
from ggscope.render.theme import Theme
from ggscope.render.theme import theme as theme_named

HotPicture = Literal["ranking", "cold", "coverage", "place", "jumps", "layers", "kv"]
Measure = Literal["bytes", "accesses", "time"]
HOT_PICTURES: tuple[HotPicture, ...] = (
    "ranking",
    "cold",
    "coverage",
    "place",
    "jumps",
    "layers",
    "kv",
)
_HOT_TITLES: dict[HotPicture, str] = {
    "ranking": "hottest tensors",
    "cold": "tensors without an access in the trace",
    "coverage": "how much of the bytes is hot",
    "place": "accesses along the file",
    "jumps": "jumps between accesses",
    "layers": "accesses of layers",
    "kv": "traffic of the KV cache",
}
MAX_BARS = 1000
_NARROW_PX = 560.0
_USUAL_BARS = 25
"""Number of bars in a figure without a height."""
_COMPONENT_KEYS = {
    "attention": "attention",
    "ffn": "matmul",
    "experts": "moe",
    "router": "moe",
    "norm": "norm",
    "embedding": "move",
    "output": "elementwise",
    "cache": "rope",
}
_MAX_STEPS = 4000
"""More steps than a chart has pixels; a curve is thinned to them, keeping its ends."""


@dataclass(frozen=True, slots=True, eq=False)
class HotScene:
    """The inputs of a picture of hot and cold tensors."""

    trace: Trace
    hot_cold: HotCold
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    picture: HotPicture = "ranking"
    by: GroupBy = "tensor"
    measure: Measure = "bytes"
    only_file: bool = True
    highlighted: frozenset[int] = frozenset()
    """Rows of ``Trace.tensors`` that are selected."""
    scroll: int = 0
    hover: int = -1
    hover_at: tuple[float, float] | None = None
    title: str = ""
    scale_kind: ScaleKind = ScaleKind.LINEAR
    hover_cell: tuple[int, int] | None = None
    is_figure: bool = False


def ranked(scene: HotScene) -> Ranking:
    """Return the groups that the ranking, or the list of cold ones, shows."""
    if scene.picture != "cold":
        return ranking(
            scene.trace,
            scene.hot_cold.heat,
            scene.by,
            measure="accesses" if scene.measure == "accesses" else "bytes",
            only_file=scene.only_file,
        )
    whole = ranking(scene.trace, scene.hot_cold.heat, scene.by, lists_rest=True)
    # Unlisted experts, ops without a record and sources beyond those of a record may
    # touch a tensor: it is not known to be cold.
    is_open = (whole.maybe > 0) | (whole.unrecorded > 0) | (whole.cut > 0)
    never = np.flatnonzero((whole.accesses == 0) & ~is_open)
    never = never[np.argsort(-whole.size[never], kind="stable")]
    return whole.take(never)


def bars_of(scene: HotScene, groups: Ranking) -> BarScene:
    """Return the ranking as bars."""
    is_cold = scene.picture == "cold"
    values = groups.size if is_cold else (
        groups.accesses if scene.measure == "accesses" else groups.bytes
    )  # fmt: skip
    total = int(values.sum()) or 1
    bars = []
    for i in range(min(len(groups), MAX_BARS)):
        value = int(values[i])
        text = (
            format_count(value)
            if scene.measure == "accesses" and not is_cold
            else format_bytes(value)
            if is_cold
            else moved_text(value, int(groups.unsized[i]))
        )
        if not is_cold:
            text += f" · {format_share(value / total)}"
            if groups.unknown[i] and scene.measure != "accesses":
                text += f" · ≤ {format_bytes(int(groups.unknown[i]))} not known"
        is_highlighted = (
            int(groups.tensor[i]) in scene.highlighted and int(groups.tensor[i]) >= 0
        )
        color = bar_color(groups.keys[i], scene.theme)
        bars.append(Bar(groups.keys[i], value, text, color, is_highlighted))
    return BarScene(
        scene.width, scene.height, scene.theme, tuple(bars), scene.title,
        scene.scale, scene.scroll, scene.hover, _value_title(scene, is_cold=is_cold),
    )  # fmt: skip


def _value_title(scene: HotScene, *, is_cold: bool) -> str:
    if not scene.is_figure:
        return ""
    if is_cold:
        return "size in the file"
    return f"{'accesses' if scene.measure == 'accesses' else 'bytes accessed'}, share"


def bar_color(name: str, theme: Theme) -> int:
    """Return the colour of a tensor by its component."""
    return component_color(parse(name).component, theme)


def component_color(component: str, theme: Theme) -> int:
    """Return the colour of a part of the network; see `model.names.COMPONENTS`."""
    return category_color(_COMPONENT_KEYS.get(component, "other"), theme)


def compose_hot(scene: HotScene, groups: Ranking | None = None) -> DisplayList:
    """Return the picture; `groups` is the ranking if it is already made."""
    if scene.picture in ("ranking", "cold"):
        return compose_bars(bars_of(scene, groups or ranked(scene)))
    if scene.picture == "layers":
        return compose_grid(layers_scene(scene))
    return compose_chart(chart_of(scene))


def layers_scene(scene: HotScene) -> GridScene:
    """Return the matrix of layers by tokens."""
    layers = scene.hot_cold.layers
    unit = scene.trace.clock.unit
    counts, title, measures = {
        "bytes": (layers.bytes, "bytes accessed", in_bytes),
        "accesses": (layers.ops, "ops", plain),
        "time": (layers.ticks, "time", lambda v: format_duration(round(v), unit)),
    }[scene.measure]
    values = counts.astype(np.float64)
    if scene.measure == "bytes":
        values[(layers.bytes == 0) & (layers.unsized > 0)] = np.nan
    return GridScene(
        scene.width, scene.height, scene.theme, values,
        color_scale(values, scene.scale_kind),
        [str(n) if n >= 0 else "none" for n in layers.layers.tolist()],
        list(layers.names),
        row_title="layer", column_title=layers.by, value_title=title,
        title=scene.title, format_value=measures, scale=scene.scale,
        hover=scene.hover_cell, show_bar=not scene.is_figure,
    )  # fmt: skip


def chart_of(scene: HotScene) -> ChartScene:
    """Return the chart of the pictures that are charts."""
    if scene.picture in ("coverage", "place"):
        return _coverage(scene)
    if scene.picture == "kv":
        return _kv(scene)
    return _jumps(scene, scene.hot_cold.seeks)


def _coverage(scene: HotScene) -> ChartScene:
    by_place = scene.picture == "place"
    of_bytes = scene.measure != "accesses"
    curve = coverage(scene.hot_cold.heat, by_place=by_place, of_bytes=of_bytes)
    size = curve.size.astype(np.float64)
    amount = (curve.bytes if of_bytes else curve.accesses).astype(np.float64)
    share = amount / (amount[-1] or 1.0)
    what = "bytes read" if of_bytes else "accesses"
    rules: tuple[Rule, ...] = ()
    if not by_place and amount[-1]:
        need = curve.size_for(0.8, of_bytes=of_bytes)
        rules = (Rule(f"80 % in {format_bytes(need)}", x=float(need)),)
    label = (
        "bytes of tensors in the order of the file"
        if by_place
        else "bytes of tensors, the hottest first"
    )
    return ChartScene(
        scene.width, scene.height, scene.theme,
        Axis(0, float(max(size[-1], 1)), label, in_bytes, is_binary=True),
        Axis(0, 1, f"share of {what}", in_percent),
        (Curve(size, share, scene.theme.accent, fills=True),),
        rules, scene.title, scene.scale, scene.hover_at, scene.is_figure,
    )  # fmt: skip


def _jumps(scene: HotScene, seeks: Seeks) -> ChartScene:
    used = np.flatnonzero(seeks.forward + seeks.backward)
    low, high = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
    edges = np.exp2(np.arange(low, high, dtype=np.float64))
    theme = scene.theme
    max_count = float(max(seeks.forward.max(), seeks.backward.max(), 1))
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(2.0**low, 2.0**high, "distance of the jump", in_bytes, is_log=True,
             is_binary=True),
        Axis(0, max_count, "jumps", plain),
        (
            Curve(edges, seeks.forward[low:high].astype(np.float64), theme.accent,
                  "forward", is_step=True, fills=True),
            Curve(edges, seeks.backward[low:high].astype(np.float64), theme.caution,
                  "back", is_step=True, fills=True),
        ),
        (), scene.title, scene.scale, scene.hover_at, scene.is_figure,
    )  # fmt: skip


def _kv(scene: HotScene) -> ChartScene:
    kv, theme = scene.hot_cold.kv, scene.theme
    token = kv.tokens.astype(np.float64)
    low = float(token[0]) if len(token) else 0.0
    high = float(token[-1]) + 1 if len(token) else 1.0
    curves, max_bytes = list[Curve](), 1.0
    for word, color, known, unknown in (
        ("read", theme.accent, kv.read, kv.unknown_read),
        ("written", theme.caution, kv.written, kv.unknown_written),
    ):
        upper = (known + unknown).astype(np.float64)
        is_open, fills = bool(unknown.any()), word == "read"
        if not upper.any():
            continue
        max_bytes = max(max_bytes, float(upper.max()))
        name = f"{word}, at most" if is_open else word
        curves.append(
            Curve(token, upper, color, name, is_step=True, fills=fills and not is_open)
        )
        if is_open and known.any():
            lower = known.astype(np.float64)
            curves.append(
                Curve(token, lower, color, f"{word}, known", is_step=True, fills=fills)
            )
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(low, high, token_noun(scene.trace), plain),
        Axis(0, max_bytes, "bytes of the KV cache", in_bytes, is_binary=True),
        tuple(curves), (), scene.title, scene.scale, scene.hover_at, scene.is_figure,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class CacheScene:
    """The inputs of the chart of the what-if cache.

    Attributes
    ----------
    best : Belady's rule, once it is known.
    capacity : the chosen size of the cache, bytes; -1 none.
    in_bytes : amounts on the y axis, else shares of what the run asks for.
    """

    what_if: WhatIf
    width: float
    height: float
    theme: Theme
    scale: float = 1.0
    best: Optimum | None = None
    capacity: int = -1
    in_bytes: bool = False
    hover: tuple[float, float] | None = None
    title: str = ""
    is_figure: bool = False


def chart_of_cache(scene: CacheScene) -> ChartScene:
    """Return the chart."""
    curve, theme = scene.what_if.curve, scene.theme
    widest = max(scene.what_if.working_set * 1.08, scene.capacity * 1.02, 1.0)
    requested = float(max(curve.bytes_asked, 1))
    unit = 1.0 if scene.in_bytes else requested
    x, y = _thinned(curve.capacity, curve.bytes_read)
    curves = [Curve(x, y / unit, theme.accent, "LRU", is_step=True, fills=True)]
    if scene.best is not None:
        best = scene.best
        curves.append(
            Curve(
                best.capacity.astype(np.float64),
                best.bytes_read.astype(np.float64) / unit,
                theme.caution,
                "Belady's optimum (no cache reads less)",
                is_dashed=True,
            )
        )
    rules = [Rule("first reads", y=curve.cold_bytes / unit, color=theme.faint)]
    if scene.capacity >= 0:
        read, _ = curve.at(scene.capacity)
        label = f"{format_bytes(scene.capacity)} · {format_bytes(read)} read"
        rules.append(Rule(label, x=float(scene.capacity), color=theme.selection))
    high = requested / unit
    return ChartScene(
        scene.width, scene.height, theme,
        Axis(0, widest, "page cache", in_bytes, is_binary=True),
        Axis(0, high * 1.02, _read_label(scene),
             in_bytes if scene.in_bytes else in_percent, is_binary=scene.in_bytes),
        tuple(curves), tuple(rules), scene.title, scene.scale, scene.hover,
        scene.is_figure,
    )  # fmt: skip


def _read_label(scene: CacheScene) -> str:
    if scene.is_figure and not scene.in_bytes:
        return "read from disk, share of the bytes asked for"
    return "read from disk"


def _thinned(capacity: np.ndarray, read: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if len(capacity) > _MAX_STEPS:
        at = np.linspace(0, len(capacity) - 1, _MAX_STEPS).astype(np.int64)
        capacity, read = capacity[at], read[at]
    return capacity.astype(np.float64), read.astype(np.float64)


def compose_cache(scene: CacheScene) -> DisplayList:
    """Return the picture."""
    return compose_chart(chart_of_cache(scene))


def draw_hot(scene: HotScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says; of a ranking, its first bars."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale,
        title="", hover=-1, hover_at=None, hover_cell=None, is_figure=True,
    )  # fmt: skip
    if not style.seen:
        scene = replace(scene, highlighted=frozenset(), scroll=0)
    what = _HOT_TITLES[scene.picture]
    fact_texts = [
        f"{f.title}: {f.text}." for f in hot_facts(scene.trace, scene.hot_cold)
    ]
    facts = " ".join((f"{what[:1].upper()}{what[1:]} of {name}.", *fact_texts))
    title = f"{name} · {what}"
    if scene.picture in ("ranking", "cold"):
        return _draw_bars(scene, style, title, facts)
    bars, entries = list[ColorBar](), list[Entry]()
    if scene.picture == "layers":
        grid = layers_scene(scene)
        bars, entries = grid_bars(grid), grid_entries(grid)
    else:
        entries = curve_entries(chart_of(scene))
    return framed(
        style, title, lambda height: compose_hot(replace(scene, height=height)),
        width=width, natural_height=max(width * 0.5, 220.0), entries=entries, bars=bars,
        description=facts,
    )  # fmt: skip


def _draw_bars(
    scene: HotScene, style: FigureStyle, title: str, facts: str
) -> RenderedFigure:
    groups = ranked(scene)
    bars, left_out = bars_of(scene, groups), list[str]()
    if scene.width < _NARROW_PX and (groups.unknown > 0).any():
        short = tuple(
            replace(bar, text=bar.text.partition(" · ≤")[0]) for bar in bars.bars
        )
        bars = replace(bars, bars=short)
        left_out.append("Unknown bytes are left out beside the bars.")
    n = len(bars.bars) - scene.scroll
    top = bars_top(bars)
    # The legend is made before it is known how many bars fit.
    n_fitting = int(style.height_or(top + _USUAL_BARS * BAR_HEIGHT) / BAR_HEIGHT)
    drawn = groups.keys[scene.scroll : scene.scroll + min(n_fitting, MAX_BARS)]

    def compose(height: float) -> DisplayList:
        fitting = max(int((height - top + 1e-6) / BAR_HEIGHT), 0)
        if (more := len(groups) - scene.scroll - min(n, fitting)) > 0:
            left_out.append(f"Not drawn: {format_counted(more, 'smaller one')}.")
        return compose_bars(replace(bars, height=height))

    return framed(
        style, title, compose, width=scene.width,
        natural_height=top + min(n, _USUAL_BARS) * BAR_HEIGHT + 4,
        entries=_component_entries(drawn, scene.theme),
        description=facts, left_out=left_out,
    )  # fmt: skip


def _component_entries(names: Sequence[str], theme: Theme) -> list[Entry]:
    """Return the legend of the components of tensors."""
    by_color: dict[int, list[str]] = {}
    for name in names:
        part = parse(name).component
        components = by_color.setdefault(bar_color(name, theme), [])
        word = part if part in _COMPONENT_KEYS else "other"
        if word not in components:
            components.append(word)
    return [Entry(", ".join(parts), color) for color, parts in by_color.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class HotOptions:
    """Options of the figure of hot and cold tensors.

    Attributes
    ----------
    only_file : only what lies in the model file.
    visible : only ops that start in it; None = all.
    """

    picture: HotPicture = "ranking"
    by: GroupBy = field(default="tensor", metadata=option(flag="by"))
    measure: Measure = field(default="bytes", metadata=option(flag="measure"))
    only_file: bool = True
    scale: ScaleKind | str = ScaleKind.LINEAR
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )


def hot_figure(trace: Trace, options: HotOptions = HotOptions()) -> Figure:
    """Return the figure of hot and cold tensors."""
    picture, by, measure = options.picture, options.by, options.measure
    for value, known in (
        (picture, HOT_PICTURES), (by, GROUP_BY), (measure, get_args(Measure)),
    ):  # fmt: skip
        if value not in known:
            raise ExportError(f"There is no {value!r}: {', '.join(known)}.")
    scale = ScaleKind(options.scale)

    def draw(style: FigureStyle) -> RenderedFigure:
        result = hot_cold(trace, options.visible)
        if not names_tensors(trace):  # 0 bytes of each tensor would be a claim
            raise NothingToDrawError(": ".join(no_accesses_text(trace)))
        scene = HotScene(
            trace, result, 1200.0, 640.0, theme_named(style.theme), style.scale,
            picture, by, measure, options.only_file, scale_kind=scale,
        )  # fmt: skip
        return draw_hot(scene, style, trace_name(trace))

    return Figure("hot", draw, recipe=export_command("hot", trace, options))


def draw_cache(scene: CacheScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale, title="",
        hover=None, is_figure=True,
    )  # fmt: skip
    lines = list(rests_on(scene.what_if))
    if scene.capacity >= 0:
        lines = [
            *cache_result_text(
                scene.what_if, cache_result(scene.what_if, scene.capacity)
            ),
            *lines,
        ]
    return framed(
        style, f"{name} · read from disk by size of the page cache",
        lambda height: compose_cache(replace(scene, height=height)), width=width,
        natural_height=max(width * 0.45, 200.0),
        entries=curve_entries(chart_of_cache(scene)),
        description=" ".join(
            (f"Bytes that {name} reads from disk by size of the page cache.", *lines)
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """Options of the figure of the miss-ratio curve.

    Attributes
    ----------
    as_bytes : amounts on the y axis, else shares of what the run asks for.
    with_row_reads : whether look-ups of rows count as reads of whole tensors.
    capacity : size of the cache to mark, bytes.
    visible : only reads that begin in it; None = all.
    """

    as_bytes: bool = False
    with_row_reads: bool = False
    capacity: int | None = None
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )


def cache_figure(trace: Trace, options: CacheOptions = CacheOptions()) -> Figure:
    """Return the figure of the miss-ratio curve."""

    def draw(style: FigureStyle) -> RenderedFigure:
        result = what_if(trace, options.visible, with_row_reads=options.with_row_reads)
        if not result.curve.n_reads:
            raise NothingToDrawError(": ".join(no_reads_text(trace, result)))
        capacity = -1 if options.capacity is None else int(options.capacity)
        scene = CacheScene(
            result, 1200.0, 520.0, theme_named(style.theme), style.scale,
            best_possible(result), capacity, bool(options.as_bytes),
        )  # fmt: skip
        return draw_cache(scene, style, trace_name(trace))

    return Figure("cache", draw, recipe=export_command("cache", trace, options))
