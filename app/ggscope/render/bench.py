"""Pictures of llama-bench's tests: curves over a key, repetitions, changes.

Dots are repetitions, a bar with ends is the interval of their mean (95 %). Where a file
has no repetitions, a dashed bar is one standard deviation as it says.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.bench.comparison import (
    BenchChange,
    BenchComparison,
    change_labels,
    compare_bench,
)
from ggscope.analysis.bench.curves import (
    KINDS,
    BenchCurve,
    BenchPoint,
    axes,
    curves,
    has_lines,
    kind_of_tests,
    repetitions,
)
from ggscope.analysis.bench.table import BenchTable, bench_table
from ggscope.descriptions.bench import (
    change_text,
    relative_interval,
    speed_text,
    verdict,
)
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.bench import BenchRuns
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_counted
from ggscope.render.batch import (
    Align,
    Batch,
    Clip,
    DisplayList,
    Face,
    LineList,
    RectList,
    Text,
    TextList,
)
from ggscope.render.charts import (
    LABEL_SIZE,
    Axis,
    ChartGeometry,
    ChartScene,
    Curve,
    axis_values,
    compose_chart,
    plain,
)
from ggscope.render.colors import Entry, Sign, category_color
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.options import export_command, option
from ggscope.render.theme import Theme, mix, visible_on, with_alpha
from ggscope.render.theme import theme as theme_named

F64 = npt.NDArray[np.float64]
REPETITIONS, CHANGES = "repetitions", "changes"
"""Charts that are no curves over a key."""
MAX_CURVES, MAX_ROWS = 24, 500
"""Lines over a key, and rows, that are drawn; the rest is counted."""
_MAX_DOTS = 4_000
"""Repetitions of so many are drawn; of more the intervals are."""
_LOG_FROM = 8.0
_LOG_SPEEDS_FROM = 20.0
"""Ratio of speeds from which their axis is logarithmic by itself."""
ROW_PX = 20.0
_DOT_PX, _MEAN_PX, _CAP_PX, _REACH_PX = 2.2, 3.6, 3.5, 9.0
_FOOT_PX, _TOP_PX, _CHARACTER = 38.0, 8.0, 0.602 * LABEL_SIZE
_Place = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class BenchChart:
    """What a chart of tests is made of; see `BenchScene`.

    Attributes
    ----------
    compared : the two files of `CHANGES`, else None.
    labels : names of its changes.
    files : names of the files, where there are several.
    """

    chart: str
    curves: tuple[BenchCurve, ...]
    compared: BenchComparison | None = None
    labels: tuple[str, ...] = ()
    n_curves: int = 0
    files: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[BenchChange, ...]:
        """Changes between two files, drawn or not."""
        return () if self.compared is None else self.compared.changes

    @property
    def n_drawn(self) -> int:
        """Curves or rows of the picture."""
        return min(len(self.changes), MAX_ROWS) or len(self.curves)


@dataclass(frozen=True, slots=True, eq=False)
class BenchScene:
    """The inputs of the picture.

    Attributes
    ----------
    bench : the chart.
    is_log : whether the axis of speeds is logarithmic.
    scroll : rows that are scrolled away.
    selected : tests of the table, for `CHANGES` changes.
    hover : curve and point, None = none.
    """

    width: float
    height: float
    theme: Theme
    bench: BenchChart
    is_log: bool = False
    scale: float = 1.0
    scroll: int = 0
    selected: tuple[int, ...] = field(default_factory=tuple)
    hover: _Place | None = None
    is_figure: bool = False

    @property
    def chart(self) -> str:
        """A key of the configuration, `REPETITIONS` or `CHANGES`."""
        return self.bench.chart

    @property
    def curves(self) -> tuple[BenchCurve, ...]:
        """What is drawn over the key, or a curve of one point for each test."""
        return self.bench.curves

    @property
    def changes(self) -> tuple[BenchChange, ...]:
        """What is drawn of two files."""
        return self.bench.changes[:MAX_ROWS]

    @property
    def has_rows(self) -> bool:
        """Whether it is a row for each test, not curves."""
        return self.chart in (REPETITIONS, CHANGES)

    @property
    def n_rows(self) -> int:
        """Rows of a chart that has some."""
        return self.bench.n_drawn


def compose_bench(scene: BenchScene) -> DisplayList:
    """Return the picture."""
    return _compose_rows(scene) if scene.has_rows else _compose_curves(scene)


def places(scene: BenchScene) -> tuple[F64, F64, list[_Place]]:
    """Return where the means are, float64[k] each, and which points they are."""
    if scene.has_rows:
        rows = _RowGeometry(scene)
        shown = range(rows.first, rows.stop)
        x = rows.x([_mean_of(scene, i) for i in shown])
        y = np.array([rows.y(i) for i in shown], np.float64)
        return x, y, [(i, 0) for i in shown]
    geometry = ChartGeometry(_chart(scene))
    points = [
        (c, p, point)
        for c, curve in enumerate(scene.curves)
        for p, point in enumerate(curve.points)
    ]
    x = geometry.px([point.x for _, _, point in points])
    y = geometry.py([point.mean for _, _, point in points])
    return x, y, [(c, p) for c, p, _ in points]


def place_at(scene: BenchScene, x: float, y: float) -> _Place | None:
    """Return the curve and point at a position; of a row the whole of it counts."""
    if scene.has_rows:
        row = _RowGeometry(scene).row_at(y)
        return None if row is None else (row, 0)
    px, py, which = places(scene)
    if not which:
        return None
    away = np.hypot(px - x, py - y)
    nearest = int(np.argmin(away))
    return which[nearest] if away[nearest] <= _REACH_PX else None


def most_rows(height: float) -> int:
    """Return how many rows have room."""
    return max(int((height - _FOOT_PX - _TOP_PX) / ROW_PX), 1)


# -- curves over a key -----------------------------------------------------------


def _chart(scene: BenchScene) -> ChartScene:
    points = [point for curve in scene.curves for point in curve.points]
    x = [point.x for point in points]
    low, high = min(x), max(x)
    is_log = low > 0 and high / low >= _LOG_FROM
    pad = (high / low) ** 0.04 if is_log else (high - low) * 0.04 or 1.0
    ends = (low / pad, high * pad) if is_log else (low - pad, high + pad)
    across = Axis(*ends, scene.chart, plain, is_log, is_log)
    lines = [
        Curve(
            np.array([point.x for point in curve.points]),
            np.array([point.mean for point in curve.points]),
            curve_color(i, scene.theme),
            curve.label,
        )
        for i, curve in enumerate(scene.curves)
    ]
    return ChartScene(
        scene.width, scene.height, scene.theme, across,
        _speeds(points, is_log=scene.is_log), tuple(lines), scale=scene.scale,
        is_figure=scene.is_figure,
    )  # fmt: skip


def _speeds(points: Sequence[BenchPoint], *, is_log: bool) -> Axis:
    ends = [end for point in points for end in _extent(point)]
    if not is_log:
        return Axis(0.0, max(ends) * 1.06 or 1.0, "tokens/s")
    known = [end for end in ends if end > 0] or [1.0]
    low = 10 ** math.floor(math.log10(min(known)))
    return Axis(low, max(known) * 1.3, "tokens/s", is_log=True)


def _extent(point: BenchPoint) -> tuple[float, ...]:
    """Return the ends of all that is drawn of a point."""
    if point.interval is not None:
        return (*point.samples, point.interval.low, point.interval.high)
    spread = point.stddev or 0.0
    return (*point.samples, point.mean - spread, point.mean + spread)


def curve_color(i: int, theme: Theme) -> int:
    """Return the colour of a curve, with a contrast of 3:1 on the pane."""
    return visible_on(category_color(f"layer:{i}", theme), theme.pane)


def _compose_curves(scene: BenchScene) -> DisplayList:
    chart = _chart(scene)
    geometry = ChartGeometry(chart)
    n_dots = sum(len(p.samples) for c in scene.curves for p in c.points)
    dots, means, bars = RectList(), RectList(), _Bars()
    for i, curve in enumerate(scene.curves):
        color = curve_color(i, scene.theme)
        x = geometry.px([point.x for point in curve.points])
        for at, point in zip(x.tolist(), curve.points, strict=True):
            if (ends := _spread(point)) is not None:
                low, high = geometry.py(ends).tolist()
                bars.add_upright(at, low, high, color, is_dashed=not point.samples)
            if len(point.samples) > 1 and n_dots <= _MAX_DOTS:
                y = geometry.py(point.samples)
                _discs(dots, np.full(len(y), at), y, _DOT_PX, with_alpha(color, 0.55))
        y = geometry.py([point.mean for point in curve.points])
        _discs(means, x, y, _MEAN_PX, color)
    marks = [
        *bars.batches(geometry.clip),
        *dots.batch(radius=_DOT_PX, clip=geometry.clip),
        *means.batch(radius=_MEAN_PX, clip=geometry.clip),
        *_rings(scene),
    ]
    return compose_chart(chart, marks)


def _spread(point: BenchPoint) -> tuple[float, float] | None:
    """Return the ends of the interval, else of one standard deviation."""
    if point.interval is not None:
        return point.interval.low, point.interval.high
    if point.stddev:
        return point.mean - point.stddev, point.mean + point.stddev
    return None


class _Bars:
    """Bars with ends: intervals, and dashed what is none."""

    def __init__(self) -> None:
        self._lines, self._dashes = LineList(1.4), LineList(1.4, dashed=True)

    def add_upright(
        self, x: float, low: float, high: float, color: int, *, is_dashed: bool
    ) -> None:
        """Add a bar at `x` from `low` to `high`."""
        (self._dashes if is_dashed else self._lines).add(x, low, x, high, color)
        for y in (low, high):
            self._lines.add(x - _CAP_PX, y, x + _CAP_PX, y, color)

    def add_level(
        self, y: float, low: float, high: float, color: int, *, is_dashed: bool
    ) -> None:
        """Add a bar at `y` from `low` to `high`."""
        (self._dashes if is_dashed else self._lines).add(low, y, high, y, color)
        for x in (low, high):
            self._lines.add(x, y - _CAP_PX, x, y + _CAP_PX, color)

    def batches(self, clip: Clip | None = None) -> list[Batch]:
        """Return all of them."""
        return [*self._lines.batch(clip), *self._dashes.batch(clip)]


def _discs(into: RectList, x: F64, y: F64, r: float, fill: int) -> None:
    into.add(x - r, x + r, y - r, y + r, fill)


def _rings(scene: BenchScene) -> list[Batch]:
    """Return circles around what is pointed at and selected."""
    x, y, which = places(scene)
    rings = RectList()
    chosen = set(scene.selected)
    for px, py, (c, p) in zip(x.tolist(), y.tolist(), which, strict=True):
        is_chosen = not chosen.isdisjoint(scene.curves[c].points[p].tests)
        color = scene.theme.selection if is_chosen else scene.theme.text
        if is_chosen or (c, p) == scene.hover:
            r = _MEAN_PX + 3.0
            rings.add(px - r, px + r, py - r, py + r, with_alpha(color, 0.25), color)
    return rings.batch(radius=_MEAN_PX + 3.0)


# -- rows ------------------------------------------------------------------------


def _mean_of(scene: BenchScene, row: int) -> float:
    if scene.chart == CHANGES:
        return scene.changes[row].relative or 0.0
    return scene.curves[row].points[0].mean


class _RowGeometry:
    """Where the rows of a chart and the numbers of its axis are."""

    def __init__(self, scene: BenchScene) -> None:
        self.scene = scene
        n = scene.n_rows
        n_rows = n if scene.is_figure else most_rows(scene.height)
        self.first = min(max(scene.scroll, 0), max(n - n_rows, 0))
        self.stop = min(self.first + n_rows, n)
        rows = range(self.first, self.stop)
        self.labels = [
            scene.bench.labels[i] if scene.chart == CHANGES else scene.curves[i].label
            for i in rows
        ]
        self.texts = [_row_text(scene, i) for i in rows]
        widest = max(map(len, self.labels), default=0) * _CHARACTER + 16
        self.left = min(widest, scene.width * 0.42)
        right = max(map(len, self.texts), default=0) * _CHARACTER + 16
        self.right = max(scene.width - min(right, scene.width * 0.3), self.left + 1)
        self.bottom = _TOP_PX + ROW_PX * (self.stop - self.first)
        self.axis = _row_axis(scene)

    def x(self, value: npt.ArrayLike) -> F64:
        """Return the positions of numbers."""
        share = np.clip(self.axis.share(value), -1, 2)
        return np.asarray(self.left + share * (self.right - self.left))

    def y(self, row: int) -> float:
        """Return the middle of a row."""
        return _TOP_PX + ROW_PX * (row - self.first) + ROW_PX / 2

    def row_at(self, y: float) -> int | None:
        """Return the row at a height."""
        row = int((y - _TOP_PX) // ROW_PX) + self.first
        return row if y >= _TOP_PX and row < self.stop else None

    @property
    def clip(self) -> Clip:
        """The plot area."""
        height = self.bottom - _TOP_PX
        return Clip(self.left, _TOP_PX, self.right - self.left, height)


def _row_axis(scene: BenchScene) -> Axis:
    """Return the axis of all rows, seen or not: scrolling moves nothing across."""
    if scene.chart == CHANGES:
        ends = [0.0]
        for change in scene.changes:
            interval = relative_interval(change)
            ends.append(change.relative or 0.0)
            ends += [] if interval is None else [interval.low, interval.high]
        pad = (max(ends) - min(ends)) * 0.06 or 0.01
        label = "change from A to B (95 % intervals)"
        return Axis(min(ends) - pad, max(ends) + pad, label, change_text)
    points = [curve.points[0] for curve in scene.curves]
    ends = [end for point in points for end in _extent(point)] or [0.0, 1.0]
    if scene.is_log:
        return _speeds(points, is_log=True)
    pad = (max(ends) - min(ends)) * 0.06 or max(abs(max(ends)) * 0.01, 1.0)
    return Axis(max(min(ends) - pad, 0.0), max(ends) + pad, "tokens/s")


def _row_text(scene: BenchScene, row: int) -> str:
    if scene.chart == CHANGES:
        change = scene.changes[row]
        return "" if change.relative is None else change_text(change.relative)
    return speed_text(scene.curves[row].points[0].mean)


def _compose_rows(scene: BenchScene) -> DisplayList:
    geometry, theme = _RowGeometry(scene), scene.theme
    grounds, dots, means, bars = RectList(), RectList(), RectList(), _Bars()
    texts = TextList()
    for at, row in enumerate(range(geometry.first, geometry.stop)):
        y = geometry.y(row)
        is_chosen = _is_chosen(scene, row)
        if is_chosen or (scene.hover is not None and scene.hover[0] == row):
            color = mix(theme.pane, theme.selection if is_chosen else theme.text, 0.12)
            grounds.add(0, scene.width, y - ROW_PX / 2, y + ROW_PX / 2, color)
        _row_marks(scene, geometry, row, (dots, means, bars))
        texts += [
            Text(geometry.left - 8, y, geometry.labels[at], theme.text, LABEL_SIZE,
                 Face.MONO, Align.RIGHT, width=geometry.left - 12),
            Text(geometry.right + 8, y, geometry.texts[at], theme.dim, LABEL_SIZE,
                 Face.MONO, width=scene.width - geometry.right - 8),
        ]  # fmt: skip
    batches = [
        *grounds.batch(), *_row_grid(geometry, texts), *bars.batches(geometry.clip),
        *dots.batch(radius=_DOT_PX), *means.batch(radius=_MEAN_PX), *texts.batch(),
    ]  # fmt: skip
    return DisplayList(
        scene.width, scene.height, scene.scale, theme.pane, tuple(batches)
    )


def _is_chosen(scene: BenchScene, row: int) -> bool:
    chosen = set(scene.selected)
    if scene.chart == CHANGES:
        return row in chosen
    return not chosen.isdisjoint(scene.curves[row].points[0].tests)


def _row_marks(
    scene: BenchScene,
    geometry: _RowGeometry,
    row: int,
    into: tuple[RectList, RectList, _Bars],
) -> None:
    dots, means, bars = into
    y, theme = geometry.y(row), scene.theme
    if scene.chart == CHANGES:
        change = scene.changes[row]
        if change.relative is None:
            return
        color = visible_on(_change_color(change, theme), theme.pane)
        interval = relative_interval(change)
        if interval is not None:
            low, high = geometry.x([interval.low, interval.high]).tolist()
            bars.add_level(y, low, high, color, is_dashed=False)
        _discs(means, geometry.x([change.relative]), np.array([y]), _MEAN_PX, color)
        return
    point, color = scene.curves[row].points[0], visible_on(theme.accent, theme.pane)
    if (ends := _spread(point)) is not None:
        low, high = geometry.x(ends).tolist()
        bars.add_level(y, low, high, color, is_dashed=not point.samples)
    x = geometry.x(point.samples)
    _discs(dots, x, np.full(len(x), y), _DOT_PX, with_alpha(theme.text, 0.7))
    _discs(means, geometry.x([point.mean]), np.array([y]), _MEAN_PX, color)


def _change_color(change: BenchChange, theme: Theme) -> int:
    return {"faster": theme.accent, "slower": theme.caution}.get(
        verdict(change), theme.dim
    )


def _row_grid(geometry: _RowGeometry, texts: TextList) -> list[Batch]:
    """Return the lines of the axis; adds its labels."""
    axis, theme = geometry.axis, geometry.scene.theme
    lines, zero = LineList(), LineList(1.2)
    values = axis_values(axis, int((geometry.right - geometry.left) / 84))
    for value, x in zip(values, geometry.x(values).tolist(), strict=True):
        is_zero = geometry.scene.chart == CHANGES and abs(value) < 1e-12
        into, color = (zero, theme.dim) if is_zero else (lines, theme.grid)
        into.add(x, _TOP_PX, x, geometry.bottom, color)
        label = "0 %" if is_zero else axis.format_value(value)
        half = len(label) * _CHARACTER / 2 + 2
        at = max(min(x, geometry.scene.width - half), half)
        texts.append(
            Text(at, geometry.bottom + 10, label, theme.dim, LABEL_SIZE,
                 Face.MONO, Align.CENTER)
        )  # fmt: skip
    lines.add(
        geometry.left, geometry.bottom, geometry.right, geometry.bottom, theme.line
    )
    middle = (geometry.left + geometry.right) / 2
    texts.append(
        Text(middle, geometry.bottom + 25, axis.label, theme.dim, LABEL_SIZE,
             align=Align.CENTER, width=geometry.right - geometry.left)
    )  # fmt: skip
    return [*lines.batch(), *zero.batch()]


# -- figure ----------------------------------------------------------------------


def charts_of(table: BenchTable, tests: I64) -> tuple[str, ...]:
    """Return the charts that some tests have, the most informative first."""
    keys = axes(table, tests)
    first = [key for key in keys if has_lines(table, tests, key)]
    changes = (CHANGES,) if len(table.runs.files) == 2 else ()
    return (*changes, *first, REPETITIONS)


def bench_chart(table: BenchTable, tests: I64, chart: str, kind: str) -> BenchChart:
    """Return a chart of some tests of a kind."""
    if kind != "all":
        tests = tests[kind_of_tests(table)[tests] == KINDS.index(kind)]
    if chart == CHANGES:
        file = np.array(table.runs.file, np.int64)[tests]
        a, b = (table.runs.take(tests[file == i].tolist()) for i in (0, 1))
        compared = compare_bench(a, b)
        labels = change_labels(compared)
        files = table.runs.files
        return BenchChart(chart, (), compared, labels, len(labels), files)
    if chart == REPETITIONS:
        listed = repetitions(table, tests[:MAX_ROWS])
        return BenchChart(chart, listed, n_curves=len(tests))
    listed = curves(table, tests, chart)
    return BenchChart(chart, listed[:MAX_CURVES], n_curves=len(listed))


def wants_log(bench: BenchChart) -> bool:
    """Return whether the speeds are so far apart that a logarithmic axis shows more."""
    means = [point.mean for curve in bench.curves for point in curve.points]
    low, high = min(means, default=1.0), max(means, default=1.0)
    return low > 0 and high / low >= _LOG_SPEEDS_FROM


def about_chart(bench: BenchChart) -> str:
    """Return what a chart shows, in a sentence without its full stop."""
    if bench.chart == CHANGES:
        text = f"{format_counted(bench.n_curves, 'test')} in both files"
    elif bench.chart == REPETITIONS:
        text = f"{format_counted(bench.n_curves, 'test')}, dots are repetitions"
    else:
        text = f"{format_counted(bench.n_curves, 'line')} over {bench.chart}"
    if bench.n_curves > bench.n_drawn:
        text += f", the first {bench.n_drawn} are drawn"
    return text


def draw_bench(scene: BenchScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says."""
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale,
        hover=None, scroll=0, selected=scene.selected if style.seen else (),
        is_figure=True,
    )  # fmt: skip
    if not (scene.changes if scene.chart == CHANGES else scene.curves):
        raise NothingToDrawError("No test of llama-bench fits this chart.")
    entries = [
        Entry(curve.label, curve_color(i, scene.theme), Sign.LINE)
        for i, curve in enumerate(scene.curves)
        if not scene.has_rows
    ]
    natural_height = max(width * 0.5, 240.0)
    if scene.has_rows:
        natural_height = scene.n_rows * ROW_PX + _TOP_PX + _FOOT_PX
    spread = (
        "Bars are 95 % intervals of the mean (Student's t), dashed ones one standard "
        "deviation"
    )
    if scene.chart == CHANGES:
        spread = "Bars are 95 % intervals of the difference of the means (Welch)"
    if scene.bench.files:
        name = " → ".join(scene.bench.files)
    notes = (f"Tests of llama-bench of {name}", about_chart(scene.bench), spread)
    return framed(
        style, f"{name} · benchmarks",
        lambda height: compose_bench(replace(scene, height=height)), width=width,
        natural_height=natural_height, entries=entries,
        description=". ".join(notes) + ".",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Options of the figure of benchmarks.

    Attributes
    ----------
    chart : a key of llama-bench with several values, "repetitions", or "changes" of
        two files; "" = the first that there is.
    kind : "all" tests, of "prompt", "generated" tokens, or "both".
    speeds : "linear", "log", or "auto": logarithmic where they are far apart.
    filter : of the tests, as in the pane.
    """

    chart: str = ""
    kind: str = "all"
    speeds: str = "auto"
    filter: str = field(default="", metadata=option(read=str))


def bench_figure(trace: Trace, options: BenchOptions = BenchOptions()) -> Figure:
    """Return the figure of benchmarks.

    Raises
    ------
    ExportError
        If an option has a value that it cannot have.
    QueryError
        If the filter is not understood.
    """
    runs = trace.bench
    if options.kind not in KINDS or options.speeds not in ("auto", "linear", "log"):
        raise ExportError(
            f"kind is one of {', '.join(KINDS)}; speeds is auto, linear or log."
        )

    def draw(style: FigureStyle) -> RenderedFigure:
        if runs is None:
            raise NothingToDrawError("No results of llama-bench in this file.")
        bench = _chart_for(runs, options)
        is_log = (
            wants_log(bench) if options.speeds == "auto" else options.speeds == "log"
        )
        scene = BenchScene(
            1000.0, 500.0, theme_named(style.theme), bench, is_log, style.scale
        )
        return draw_bench(scene, style, trace_name(trace))

    return Figure("bench", draw, recipe=export_command("bench", trace, options))


def _chart_for(runs: BenchRuns, options: BenchOptions) -> BenchChart:
    table = bench_table(runs)
    tests = np.flatnonzero(table.matches(options.filter))
    charts = charts_of(table, tests)
    chart = options.chart or charts[0]
    known = {*charts, *axes(table, tests)}
    if chart not in known:
        raise ExportError(f"there is no chart {chart!r}. Charts: {', '.join(charts)}.")
    return bench_chart(table, tests, chart, options.kind)
