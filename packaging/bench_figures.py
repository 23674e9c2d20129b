"""What ``make bench`` measures: names, units, aims, and what bounds each figure."""

from dataclasses import dataclass

SIZES = {"1": 1_000_000, "10": 10_000_000, "33": 33_554_432}
"""Records of the traces by the name of their size, in millions."""
N_EVENTS = {"ggmlviz": 2_000_000, "npu": 1_500_000}
CHROME = {"chrome1M": 1_000_000, "chrome10M": 10_000_000}
"""Events of Chrome traces, at most as many millions as the largest size."""
PACKETS = {"pftrace1M": 1_000_000, "pftrace10M": 10_000_000}
"""Events of Perfetto traces: those of the Chrome traces, as ggscope converts them."""
N_ROWS = {"nsys": 10_000_000}
N_LINES = {"logs": 10_000_000}
N_QUERIED = 5_000_000
"""Spans of the trace that SQL is asked of."""
ANSWERS = {"answers100k": 100_000, "answers10M": 10_000_000}
"""Spans of the traces that are summarised and compared; two events a span."""
_FIRST = {"1": 0.3, "10": 0.8, "33": 2.0}
_OPEN = {"1": 1.0, "10": 6.0, "33": 20.0}


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table.

    Attributes
    ----------
    key : source and name: ``bin10.first_s``.
    aim : what it should be at most (at least, where more is better).
    slack : smaller differences are resolution, not regression; in `unit`.
    is_compared : False for what is too noisy to be held against a baseline.
    """

    key: str
    label: str
    unit: str
    aim: float | None = None
    more_is_better: bool = False
    slack: float = 0.0
    is_compared: bool = True

    @property
    def source(self) -> str:
        """Which measurement gives it."""
        return self.key.partition(".")[0]


def figures(sizes: list[str], columns: list[str]) -> list[Figure]:
    """Return all figures, in the order of the table.

    `sizes` are names of sizes, `columns` names of the benchmarks of single pictures.
    """
    rows = [
        Figure(
            key="commands.info_cpu_x", label="ggscope info of 2 kB, processor time",
            unit="× import numpy", aim=2.2, slack=0.2,
        ),
        Figure(
            key="commands.info_wall_x", label="ggscope info of 2 kB, by the clock",
            unit="× import numpy", aim=2.2, slack=0.2,
        ),
        Figure(
            key="commands.version_wall_x", label="ggscope --version",
            unit="× import numpy", aim=0.6, slack=0.1,
        ),
        Figure(
            key="start.window_s", label="program start to window", unit="s", aim=0.8,
            slack=0.05,
        ),
        Figure(
            key="start.window_mb", label="memory at rest, no file", unit="MB",
            aim=150, slack=5,
        ),
    ]  # fmt: skip
    for size in sizes:
        n = f"{int(millions(size) * 1e6):,} records"
        rows += _opening(f"bin{size}", n, _FIRST.get(size), _OPEN.get(size))
        rows += _moving(f"bin{size}", n)
        # The panes alone take 30 MB, which is 30 bytes for each of a million.
        rows += _memory(f"bin{size}", n, 40 if millions(size) >= 10 else None)
    viz, npu = ".ggmlviz, 2 M events", "NPU JSON, 1.5 M events"
    rows += _opening("ggmlviz", viz, 0.5, None)
    rows += _moving("ggmlviz", viz)
    rows += _opening("npu", npu, 2.5, None)
    rows += _moving("npu", npu)
    for size in sizes:
        n = f"{millions(size):g} M accesses"
        rows += _session(f"moe{size}", n)
    rows += _table()
    rows += _answers("answers100k", "100,000 spans", 50, 50, 50)
    rows += _answers("answers10M", "10 M spans", 1_000, 200, 3_000)
    for size in sizes:
        rows += _bytes(f"bytes{size}", f"{millions(size):g} M accesses")
    rows += _profilers()
    rows += _logs()
    rows += _many()
    rows += _live()
    rows += [
        Figure(
            key=f"columns.{name}", label=name.replace("_", " "), unit="ms",
            aim=100 if "_100k_tests" in name else None, slack=0.2,
        )
        for name in columns
    ]  # fmt: skip
    return rows


def millions(size: str) -> float:
    """Return how many million records a size stands for.

    Raises
    ------
    ValueError
        If it is no number.
    """
    return SIZES[size] / 1e6 if size in SIZES else float(size)


def limit_text(key: str, rates: dict[str, float]) -> str:
    """Return what bounds a figure on this machine, in the figure's own unit.

    Parameters
    ----------
    rates : of the machine, by name.
    """
    source, _, name = key.partition(".")
    size = source.removeprefix("bin")
    seconds, what = 0.0, ""
    if source.startswith("bin") and name == "first_s" and "field_m_s" in rates:
        seconds = millions(size) / rates["field_m_s"]
        what = "one field of every record"
    elif source.startswith("bin") and name == "open_s" and "page_cache_gb_s" in rates:
        seconds = millions(size) * 0.256 / rates["page_cache_gb_s"]
        what = "reading the file once"
    elif key == "ggmlviz.first_s" and "viz_walk_m_s" in rates:
        seconds = N_EVENTS["ggmlviz"] / 1e6 / rates["viz_walk_m_s"]
        what = "walking its events in C"
    elif key == "npu.first_s" and "msgspec_mb_s" in rates:
        seconds = N_EVENTS["npu"] * 228 / 1e6 / rates["msgspec_mb_s"]
        what = "msgspec's typed decoding"
    elif name == "fps" and "blit_fps" in rates:
        return f"{rates['blit_fps']:.0f} /s: one picture copied"
    return f"{seconds:.3f} s: {what}" if what else ""


def _opening(
    source: str, what: str, first: float | None, whole: float | None
) -> list[Figure]:
    return [
        Figure(
            key=f"{source}.first_s", label=f"{what}: first picture", unit="s",
            aim=first, slack=0.03,
        ),
        Figure(
            key=f"{source}.complete_s", label=f"{what}: every span in it", unit="s",
            slack=0.05,
        ),
        Figure(
            key=f"{source}.open_s", label=f"{what}: everything indexed", unit="s",
            aim=whole, slack=0.05,
        ),
        Figure(
            key=f"{source}.worst_stall_ms", label=f"{what}: worst stall meanwhile",
            unit="ms", aim=50, slack=25,
        ),
    ]  # fmt: skip


def _moving(source: str, what: str) -> list[Figure]:
    return [
        Figure(
            key=f"{source}.fps", label=f"{what}: frames that moved", unit="/s", aim=60,
            more_is_better=True, slack=2,
        ),
        Figure(
            key=f"{source}.p99_ms", label=f"{what}: slowest frame but 1 %", unit="ms",
            aim=25, slack=3,
        ),
        Figure(
            key=f"{source}.max_ms", label=f"{what}: slowest frame", unit="ms",
            is_compared=False,
        ),
    ]  # fmt: skip


def _memory(source: str, what: str, aim: float | None) -> list[Figure]:
    return [
        Figure(
            key=f"{source}.bytes_per_record", label=f"{what}: memory beside the file",
            unit="B each", aim=aim, slack=2,
        ),
        Figure(
            key=f"{source}.open_peak_mb", label=f"{what}: peak while opening",
            unit="MB", slack=20,
        ),
        Figure(
            key=f"{source}.peak_mb", label=f"{what}: peak, more lanes opened",
            unit="MB", slack=20,
        ),
    ]  # fmt: skip


def _profilers() -> list[Figure]:
    """Return figures of traces of other profilers, and of SQL."""
    figures = []
    for source, first, whole in (("chrome1M", 0.6, 3.0), ("chrome10M", 0.8, 20.0)):
        what = f"Chrome JSON, {CHROME[source]:,} events"
        figures += _opening(source, what, first, whole)
        figures.append(
            Figure(
                key=f"{source}.bytes_per_record", label=f"{what}: memory",
                unit="B each", aim=60 if source == "chrome10M" else None, slack=4,
            )
        )  # fmt: skip
        peer = f"Perfetto with the same {CHROME[source]:,} events"
        figures += [
            Figure(
                key=f"perfetto-{source}.{name}", label=f"{peer}: {label}", unit=unit,
                is_compared=False,
            )
            for name, label, unit in (
                ("open_s", "its engine answers", "s"),
                ("peak_mb", "memory of its processes", "MB"),
            )
        ]  # fmt: skip
    for source, n in PACKETS.items():
        what = f"Perfetto packets, {n:,} events"
        figures += _opening(source, what, None, None)
        figures.append(
            Figure(
                key=f"{source}.bytes_per_record", label=f"{what}: memory",
                unit="B each", slack=4,
            )
        )  # fmt: skip
    figures += _opening("nsys", "nsys SQLite, 10 M rows", 2.0, None)
    rows = (
        ("group_ms", "grouped by op", 100), ("count_ms", "counted", None),
        ("name_ms", "those of one name counted", None),
    )  # fmt: skip
    figures += [
        Figure(
            key=f"sql.{name}", label=f"SQL, 5 M spans: {label}", unit="ms", aim=aim,
            slack=5,
        )
        for name, label, aim in rows
    ]  # fmt: skip
    figures.append(
        Figure(
            key="sql.tables_mb", label="SQL, 5 M spans: memory of the tables",
            unit="MB", slack=20,
        )
    )  # fmt: skip
    return figures


def _logs() -> list[Figure]:
    """Return figures of a server's log of 1 GB."""
    what = f"server log, {N_LINES['logs']:,} lines"
    return [
        *_opening("logs", what, 1.0, 8.0),
        Figure(
            key="logs.bytes_per_record", label=f"{what}: memory", unit="B each",
            aim=64, slack=4,
        ),
    ]  # fmt: skip


def _many() -> list[Figure]:
    """Return ratios of time per record to an ordinary trace of the same format."""
    things = (
        ("threads", "100,000 threads"),
        ("engines", "100,000 engines"),
        ("labels", "1,000,000 labels"),
        ("nested", "1,000,000 levels"),
    )
    deeds = (("read", "read"), ("shown", "read, laid out, in letters"))
    figures = [
        Figure(
            key=f"many.{name}_{deed}", label=f"{thing}: {text}, to an ordinary trace",
            unit="×", aim=3, slack=0.3,
        )
        for name, thing in things
        for deed, text in deeds
    ]  # fmt: skip
    label = "10,000 open lanes prepared, to ten with the same spans"
    figures.append(
        Figure(key="many.lanes_prepared", label=label, unit="×", aim=3, slack=0.3)
    )
    label = "10,000 open lanes prepared, processor time"
    figures.append(
        Figure(key="many.lanes_prepared_ms", label=label, unit="ms", aim=300, slack=20)
    )
    return figures


def _live() -> list[Figure]:
    """Return figures of a trace that grows and of a program that is followed."""
    ring = "1 M records/s through 64 MB"
    return [
        Figure(
            key="live.updates_per_s", label="live: updates at 5 M spans", aim=30,
            unit="/s of a core", more_is_better=True,
        ),
        Figure(
            key="live.anew_x", label="live: the same trace anew, to an update",
            unit="×", more_is_better=True, is_compared=False,
        ),
        Figure(
            key="live.longest_ms", label="live: longest update, a column doubles",
            unit="ms", is_compared=False,
        ),
        Figure(key="live.ring_lost", label=f"{ring}: lost", unit="records", aim=0),
        Figure(
            key="live.ring_misjudged", label=f"{ring}: lost but not reported",
            unit="records", aim=0,
        ),
        Figure(
            key="live.ring_lag_ms", label=f"{ring}: written to columns, 95 of 100",
            unit="ms", aim=100, is_compared=False,
        ),
        Figure(
            key="live.ring_core_share", label=f"{ring}: reader's share of a core",
            unit="cores", aim=1, slack=0.05, is_compared=False,
        ),
        Figure(
            key="live.small_ring_misjudged", aim=0,
            label="ring of 256 kB: lost but not reported", unit="records",
        ),
        Figure(
            key="live.window_frames_per_s", label="window, 1 M records/s: frames",
            unit="/s", aim=60, more_is_better=True, is_compared=False,
        ),
        Figure(
            key="live.window_updates_per_s", label="window: frames with more records",
            unit="/s", more_is_better=True, is_compared=False,
        ),
        Figure(
            key="live.window_lag_ms", label="window: written to picture, 95 of 100",
            unit="ms", aim=100, is_compared=False,
        ),
        Figure(
            key="live.window_core_share", label="window: share of a core",
            unit="cores", aim=1, is_compared=False,
        ),
        Figure(
            key="live.window_kernel_share", label="window: of that in the kernel",
            unit="cores", is_compared=False,
        ),
        Figure(key="live.window_lost", label="window: lost", unit="records", aim=0),
        Figure(
            key="live.window_bytes_per_record", label="window: memory per record",
            unit="B", is_compared=False,
        ),
    ]  # fmt: skip


def _table() -> list[Figure]:
    rows = (
        ("jump_ms", "table: jump to a span", "ms", 100, 0.5),
        ("sort_s", "table: sort by duration", "s", 1, 0.02),
        ("filter_s", "table: filter", "s", 1, 0.02),
        ("search_s", "search by a regular expression", "s", 1, 0.02),
        ("statistics_ms", "statistics by op of all spans", "ms", None, 5),
        ("range_statistics_ms", "statistics of a range", "ms", 200, 5),
    )
    return [
        Figure(
            key=f"table.{name}", label=label, unit=unit, aim=aim,
            slack=slack,
        )
        for name, label, unit, aim, slack in rows
    ]  # fmt: skip


def _answers(
    source: str, what: str, summary: float, table: float, compare: float
) -> list[Figure]:
    """Return what summary, statistics, token latency and comparison take.

    Parameters
    ----------
    summary, table, compare : aims in ms.
    """
    rows = (
        ("first_ms", "summary of a trace just opened", summary),
        ("summary_ms", "summary again", summary),
        ("gaps_ms", "the longest gaps", None),
        ("tokens_frame_ms", "a picture of token latency, panned and zoomed", 16.7),
        ("tokens_stacked_frame_ms", "the same, stacked by op family", 16.7),
        ("tokens_parts_ms", "what the tokens' time is stacked of", None),
        ("by_op_ms", "statistics by op", table),
        ("by_op_range_ms", "statistics by op of a range", table),
        ("by_layer_ms", "statistics by layer", table),
        ("by_tensor_ms", "statistics by tensor", table),
        ("by_tensor_range_ms", "statistics by tensor of a range", table),
        ("by_expert_ms", "statistics by expert", table),
        ("pivot_ms", "pivot table of layers and ops", table),
        ("histogram_ms", "histogram of times", table),
        ("histogram_rate_ms", "histogram of rates", table),
        ("compare_op_ms", "comparison by op", compare),
        ("compare_layer_ms", "comparison by layer", compare),
        ("compare_steps_ms", "steps of a comparison", compare),
        ("compare_frame_ms", "a picture of both timelines, painted", 16.7),
        ("compare_walk_ms", "the same, panned and zoomed", 16.7),
    )
    return [
        Figure(
            key=f"{source}.{name}", label=f"{what}: {label}", unit="ms", aim=aim,
            slack=5,
        )
        for name, label, aim in rows
    ]  # fmt: skip


def _session(source: str, what: str) -> list[Figure]:
    """Return the figures of a run with its model and its graph, all panes in sight."""
    rows = (
        ("first_s", "first picture", "s", None, 0.05),
        ("open_s", "everything there", "s", None, 0.1),
        ("worst_stall_ms", "worst stall meanwhile", "ms", 50, 30),
        ("heatmap_first_s", "file heatmap behind the whole trace", "s", 1, 0.1),
        ("select_span_ms", "a span selected, all panes painted", "ms", 50, 8),
        ("select_tensor_ms", "a tensor selected, all panes painted", "ms", 100, 8),
        ("close_ms", "closing while it computes", "ms", 100, 20),
        ("rest_mb", "memory with all panes", "MB", None, 30),
    )
    figures = [
        Figure(
            key=f"{source}.{name}", label=f"{what}: {label}", unit=unit, aim=aim,
            slack=slack,
        )
        for name, label, unit, aim, slack in rows
    ]  # fmt: skip
    for view, label, aim in (
        ("heatmap", "file heatmap", 60),
        ("points", "3D view", 30),
        ("graph", "graph, all layers", 60),
    ):
        figures += [
            Figure(
                key=f"{source}.{view}_fps", label=f"{what}: {label}, frames that moved",
                unit="/s", aim=aim, more_is_better=True, slack=3,
            ),
            Figure(
                key=f"{source}.{view}_cpu_ms", unit="ms", slack=1,
                label=f"{what}: {label}, processor time of a frame",
            ),
        ]  # fmt: skip
    return figures


def _bytes(source: str, what: str) -> list[Figure]:
    """Return what the views of a model file, its experts and its graph compute."""
    rows: tuple[tuple[str, str, float | None], ...] = (
        ("join_ms", "joining model and graph", None),
        ("heat_first_ms", "file heatmap counted and painted, 1900x900", 1_000),
        ("heat_layer_ms", "file heatmap by layer, counted", None),
        ("heat_time_ms", "file heatmap by time, counted", None),
        ("heat_picture_1x_ms", "file heatmap, a frame of all of it", 16.7),
        ("heat_picture_100x_ms", "file heatmap, a frame of a hundredth", 16.7),
        ("heat_picture_10000x_ms", "file heatmap, a frame of a tensor", 16.7),
        ("curve_ms", "miss-ratio curve of 1 M reads", 1_000),
        ("what_if_ms", "miss-ratio curve of the run", None),
        ("belady_ms", "Belady's optimum, 24 sizes", None),
        ("hot_ms", "hot and cold, with its facts", None),
        ("experts_ms", "experts: counts, figures, transitions", None),
        ("correlate_ms", "matching spans with the graph", None),
        ("link_span_ms", "what belongs to a span", 50),
        ("link_tensor_ms", "what belongs to a tensor", 100),
        ("link_buffer_ms", "what belongs to a buffer", 100),
        ("link_node_ms", "what belongs to a node", 100),
        ("graph_closed_ms", "graph laid out and painted, layers closed", 500),
        ("graph_open_ms", "graph laid out and painted, layers open", 2_000),
        ("graph_measures_ms", "graph: times and accesses of its nodes", None),
        ("roofline_ms", "roofline", 1_000),
        ("ruler_all_ms", "ruler over the whole run", 200),
        ("ruler_part_ms", "ruler over a fortieth", 50),
    )
    return [
        Figure(
            key=f"{source}.{name}", label=f"{what}: {label}", unit="ms", aim=aim,
            slack=2,
        )
        for name, label, aim in rows
    ]  # fmt: skip
