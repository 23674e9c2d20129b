"""The figures that can be exported: one entry each, for command line, API and views.

A figure's module is imported when it is first made; this one needs neither numpy nor
Qt. CONTRIBUTING.md has the recipe "a figure".
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ggscope.model.trace import Trace
    from ggscope.render.export import Figure


def has_accesses(trace: "Trace") -> bool:
    """Return whether a trace holds accesses to tensors."""
    return len(trace.accesses.patterns) > 0


def has_spans(trace: "Trace") -> bool:
    """Return whether a trace holds spans."""
    return len(trace.spans) > 0


def has_times(trace: "Trace") -> bool:
    """Return whether a trace holds anything with a time."""
    return bool(
        len(trace.spans) or len(trace.markers) or trace.counters or len(trace.buffers)
    )


def has_bars(trace: "Trace") -> bool:
    """Return whether a trace may hold spans of tokens or of whole graphs."""
    from ggscope.model.trace import LaneKind

    kinds = (LaneKind.TOKEN, LaneKind.GRAPH, LaneKind.THREAD)
    return any(bool(trace.lanes.of_kind(kind).any()) for kind in kinds)


def has_graphs(trace: "Trace") -> bool:
    """Return whether a trace holds computation graphs."""
    return bool(trace.graphs)


def has_experts(trace: "Trace") -> bool:
    """Return whether a trace holds expert routing or tensors of experts."""
    if len(trace.routing) or (trace.tensors.expert >= 0).any():
        return True
    if trace.expert_counts is not None:
        return True
    return trace.importance is not None and bool(trace.importance.is_split.any())


def has_ordered_reads(trace: "Trace") -> bool:
    """Return whether a trace holds accesses, or choices of experts of known size."""
    if has_accesses(trace):
        return True
    if not len(trace.routing):
        return False
    tensors = trace.tensors
    has_stacks = tensors.n_experts is not None and bool((tensors.n_experts > 0).any())
    has_slices = has_stacks or bool((tensors.expert >= 0).any())
    return has_slices or bool(trace.routing.expert_bytes)


_GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset", "kernel_dispatch", "memory_copy")


def has_npu(trace: "Trace") -> bool:
    """Return whether a trace holds engines of an NPU, stalls or bandwidth windows."""
    lanes = trace.lanes
    if lanes.is_stall.any() or (lanes.is_engine.any() and not _has_gpu_work(trace)):
        return True
    return any(counter.window is not None for counter in trace.counters)


def _has_gpu_work(trace: "Trace") -> bool:
    """Return whether engines are streams of a GPU, by the categories of their work."""
    if trace.spans.category is None:
        return False
    return any(trace.strings.find(word) >= 0 for word in _GPU_WORK)


def has_buffers(trace: "Trace") -> bool:
    """Return whether a trace holds allocations of buffers."""
    return len(trace.buffers) > 0


def has_bench(trace: "Trace") -> bool:
    """Return whether a trace holds tests of llama-bench."""
    return trace.bench is not None


def has_reads(trace: "Trace") -> bool:
    """Return whether a trace holds reads of storage, or of the model file by ops."""
    from ggscope.model.tables import Space

    if trace.storage is not None and len(trace.storage.requests):
        return True
    what = trace.accesses.patterns
    return bool(((what.space == Space.FILE) & (what.offset >= 0)).any())


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """A figure as menus and the command line know it, before its module is imported.

    Attributes
    ----------
    title : title of the figure and of its view.
    module : module of the two names that follow.
    make_name : function ``(trace, options) -> Figure``.
    options_name : frozen dataclass of the options, see `ggscope.render.options`.
    has_data : whether a trace has anything to draw; cheap, it reads no file.
    """

    title: str
    module: str
    make_name: str
    options_name: str
    has_data: "Callable[[Trace], bool]" = lambda _: True

    @property
    def make(self) -> "Callable[[Trace, Any], Figure]":
        """Function that makes the figure of a trace; imports its module."""
        make: Callable[[Trace, Any], Figure] = getattr(
            import_module(self.module), self.make_name
        )
        return make

    @property
    def options(self) -> type[Any]:
        """Dataclass of the options; imports its module."""
        options: type[Any] = getattr(import_module(self.module), self.options_name)
        return options

    def figure(self, trace: "Trace", **options: object) -> "Figure":
        """Return the figure of a trace with options by name; the rest are defaults.

        Raises
        ------
        TypeError
            If there is no such option.
        ExportError
            If an option has a value that it cannot have.
        """
        return self.make(trace, self.options(**options))


# fmt: off
FIGURES: dict[str, FigureSpec] = {
    "timeline": FigureSpec("Timeline", "ggscope.render.timeline.figure", "timeline_figure", "TimelineOptions", has_times),
    "tokens": FigureSpec("Token latency", "ggscope.render.tokens", "tokens_figure", "TokensOptions", has_bars),
    "statistics": FigureSpec("Selection statistics", "ggscope.render.statistics", "statistics_figure", "StatisticsOptions"),
    "roofline": FigureSpec("Roofline", "ggscope.render.roofline", "roofline_figure", "RooflineOptions", has_accesses),
    "heatmap": FigureSpec("File heatmap", "ggscope.render.heatmap.figure", "heatmap_figure", "HeatmapOptions", has_accesses),
    "3d": FigureSpec("3D view", "ggscope.render.points", "points_figure", "PointsOptions", has_accesses),
    "graph": FigureSpec("Graph", "ggscope.render.graph.figure", "graph_figure", "GraphOptions", has_graphs),
    "load": FigureSpec("Load timeline", "ggscope.render.load", "load_figure", "LoadOptions", has_reads),
    "hot": FigureSpec("Hot and cold", "ggscope.render.reads", "hot_figure", "HotOptions", has_accesses),
    "cache": FigureSpec("What-if cache", "ggscope.render.reads", "cache_figure", "CacheOptions", has_ordered_reads),
    "experts": FigureSpec("Experts", "ggscope.render.experts", "experts_figure", "ExpertsOptions", has_experts),
    "bench": FigureSpec("Benchmarks", "ggscope.render.bench", "bench_figure", "BenchOptions", has_bench),
    "npu": FigureSpec("NPU", "ggscope.render.npu.figure", "npu_figure", "NpuOptions", has_npu),
    "buffers": FigureSpec("Buffers", "ggscope.render.buffers", "buffers_figure", "BuffersOptions", has_buffers),
}
# fmt: on
"""Figures by the name that ``ggscope export --view`` takes."""
COMPARE = FigureSpec(
    "Compare",
    "ggscope.render.compare.figure",
    "compare_figure",
    "CompareOptions",
    has_spans,
)
"""The figure ``--view compare``, of two sides: the other one is its option `b`."""


def figure_of(view: str) -> FigureSpec:
    """Return the figure of this name, that of two sides too. Raises KeyError."""
    return COMPARE if view == "compare" else FIGURES[view]
