"""The figure of an NPU: one of its pictures in a frame."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ggscope.analysis.npu.facts import npu_facts
from ggscope.analysis.npu.quantisation import op_bits
from ggscope.descriptions.npu import about_text
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange, format_count
from ggscope.render.batch import DisplayList
from ggscope.render.charts import BAR_HEIGHT
from ggscope.render.colors import ColorBar, Entry, ScaleKind
from ggscope.render.export import Figure, RenderedFigure, trace_name
from ggscope.render.figure_style import FigureStyle
from ggscope.render.frame import framed
from ggscope.render.npu.addresses import (
    address_entries,
    address_plots,
    compose_addresses,
)
from ggscope.render.npu.over_time import (
    compose_over_time,
    lights,
    rate_bar,
    time_entries,
)
from ggscope.render.npu.scene import (
    CHARTS,
    MAX_ROWS,
    TIMED,
    NpuChart,
    NpuGeometry,
    NpuScene,
    rows_height,
)
from ggscope.render.npu.stalls_and_bits import (
    bits_entries,
    compose_bits,
    compose_stalls,
)
from ggscope.render.npu.traffic import compose_traffic, traffic_entries
from ggscope.render.options import export_command, option, read_time
from ggscope.render.theme import theme as theme_named

SCALES = (ScaleKind.LINEAR, ScaleKind.LOG)
TITLES: dict[NpuChart, str] = {
    "time": "engines, bandwidth and banks over time",
    "addresses": "memory addresses over time",
    "stalls": "time stalled",
    "bits": "quantisation",
    "traffic": "bytes moved per token",
}
OTHER_RUN = "The other run is not drawn: in Python, ggscope.figure takes it as b."
_PLOT = 260.0
_MAX_BARS = 40


def compose_npu(scene: NpuScene, still: DisplayList | None = None) -> DisplayList:
    """Return the picture that a scene asks for.

    Parameters
    ----------
    still : what `compose_still` returned for the same scene, but for its mouse, marked
        range and selection.
    """
    still = compose_still(scene) if still is None else still
    if scene.chart not in TIMED:
        return still
    moving = lights(NpuGeometry(scene))
    return replace(still, batches=(*still.batches, *moving))


def compose_still(scene: NpuScene) -> DisplayList:
    """Return what a picture has besides mouse, marked range and selection."""
    draw: dict[NpuChart, Callable[[NpuScene], DisplayList]] = {
        "time": compose_over_time,
        "addresses": compose_addresses,
        "stalls": compose_stalls,
        "bits": compose_bits,
        "traffic": compose_traffic,
    }
    return draw[scene.chart](scene)


def why_nothing(scene: NpuScene) -> str:
    """Return why a picture cannot be drawn; "" where it can."""
    facts = scene.facts
    if scene.chart == "time" and not facts.has_any:
        return "No work of engines, bandwidth or banks is recorded in this trace."
    if scene.chart == "addresses" and not address_plots(scene):
        return "No address of a memory access is recorded in this trace."
    if scene.chart == "stalls" and not facts.stalls:
        return "No stall is recorded in this trace."
    if scene.chart == "bits" and not facts.bits:
        return "No span states the bits of its values (qbits)."
    if scene.chart == "traffic" and not facts.traffic.has_roles:
        return "No span says what it moves (tensor_role)."
    if scene.chart == "traffic" and not len(facts.traffic):
        return "No token is recorded in this trace: what each moves is unknown."
    return ""


def legend(scene: NpuScene) -> tuple[list[Entry], list[ColorBar]]:
    """Return the entries and colour bars that explain a picture."""
    if scene.chart == "time":
        bar = rate_bar(scene)
        return time_entries(scene), [bar] if bar is not None else []
    if scene.chart == "addresses":
        return address_entries(scene), []
    if scene.chart == "bits":
        return bits_entries(scene), []
    if scene.chart == "traffic":
        return traffic_entries(scene), []
    return [], []


def draw_npu(scene: NpuScene, style: FigureStyle, name: str) -> RenderedFigure:
    """Return the figure of a scene, as `style` says.

    Raises
    ------
    NothingToDrawError
        If the trace records nothing of it.
    """
    width = style.width_or(scene.width)
    scene = replace(
        scene, width=width, theme=theme_named(style.theme), scale=style.scale, hover=-1,
        cursor_tick=None, scroll=0.0, is_figure=True,
        selected=scene.selected if style.seen else -1,
        marked=scene.marked if style.seen else None,
    )  # fmt: skip
    if why := why_nothing(scene):
        raise NothingToDrawError(why)
    entries, bars = legend(scene)
    heights: dict[NpuChart, float] = {
        "time": rows_height(scene.facts),
        "addresses": 30.0 + _PLOT * max(len(address_plots(scene)), 1),
        "stalls": BAR_HEIGHT * min(len(scene.facts.stalls), _MAX_BARS) + 34,
        "bits": max(width * 0.36, 260.0),
        "traffic": max(width * 0.36, 260.0),
    }
    facts = scene.facts
    n_rows = max(len(facts.engines), len(facts.memory.banks))
    left_out = []
    if scene.chart == "time" and n_rows > MAX_ROWS:
        left_out.append(
            f"Not drawn: engines and banks beyond the first {format_count(MAX_ROWS)}."
        )
    return framed(
        style, f"{name} · {TITLES[scene.chart]}",
        lambda height: compose_npu(replace(scene, height=height)), width=width,
        natural_height=heights[scene.chart], entries=entries, bars=bars,
        description=f"NPU: {TITLES[scene.chart]} of {name}. "
        f"{about_text(scene.trace, facts)}.",
        left_out=left_out,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuOptions:
    """Options of the figure of an NPU.

    Attributes
    ----------
    chart : "time", "addresses", "stalls", "bits" or "traffic".
    rates : their scale, "linear" or "log".
    visible : ticks; the whole trace where None.
    absolute : whether times are on the file's own clock.
    b : another run, whose ops by bits are drawn as rings; of chart "bits".
    """

    chart: NpuChart = field(default="time", metadata=option())
    rates: str = field(default="linear", metadata=option())
    visible: TimeRange | None = field(
        default=None, metadata=option(flag="range", read=read_time)
    )
    absolute: bool = False
    b: Trace | None = field(default=None, metadata=option(read=None))


def npu_figure(trace: Trace, options: NpuOptions = NpuOptions()) -> Figure:
    """Return the figure of one of the pictures.

    Raises
    ------
    ExportError
        If there is no such picture or scale, or the other run has another unit.
    """
    if options.chart not in CHARTS:
        raise ExportError(f"npu: chart is one of {', '.join(CHARTS)}.")
    if options.b is not None and options.b.clock.unit != trace.clock.unit:
        raise ExportError("npu: both runs must have times of one unit.")
    kinds = {kind.value: kind for kind in SCALES}
    if options.rates not in kinds:
        raise ExportError(f"npu: rates is one of {', '.join(kinds)}.")

    def draw(style: FigureStyle) -> RenderedFigure:
        visible = trace.extent if options.visible is None else options.visible
        scene = NpuScene(
            trace=trace,
            facts=npu_facts(trace),
            visible=visible,
            width=1400.0,
            height=600.0,
            theme=theme_named(style.theme),
            chart=options.chart,
            scale_kind=kinds[options.rates],
            scale=style.scale,
            others=() if options.b is None else op_bits(options.b),
            other_title="" if options.b is None else trace_name(options.b),
            absolute=options.absolute,
        )
        return draw_npu(scene, style, trace_name(trace))

    lacks = () if options.b is None else (OTHER_RUN,)
    return Figure("npu", draw, recipe=export_command("npu", trace, options, lacks))
