"""``ggscope summary``: how fast a run was, what took the time, and what limits it."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from ggscope.analysis.summary.bars import bar_text
from ggscope.analysis.summary.gaps import Gaps, gaps
from ggscope.analysis.summary.machine import peak_of
from ggscope.analysis.summary.summary import Summary, summary
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import for_each_file, load
from ggscope.descriptions.spans import column_time_form, op_words
from ggscope.descriptions.summary import (
    bottleneck_name,
    bottleneck_text,
    summary_sections,
    unknown_lines,
)
from ggscope.descriptions.threads import (
    barriers_reason,
    gaps_note,
    gaps_reason,
    gaps_text,
)
from ggscope.model.tables import Quality
from ggscope.model.trace import Severity, Trace, lane_titles
from ggscope.model.units import format_duration
from ggscope.sanitize import one_line

_GIB = 1 << 30
_NO_FREQUENCY = "times are in cycles, and the file states no frequency"


def run(arguments: Namespace) -> int:
    """Print the summary of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        facts = summary(trace, peak=peak_of(trace, arguments.peak))
        n_gaps = arguments.gaps
        idle = None if n_gaps is None else gaps(trace, limit=n_gaps)
        if not arguments.json:
            _print(path, trace, facts, idle, arguments)
        return GOOD, summary_json(path, trace, facts, idle)

    results = for_each_file(arguments, work)
    if arguments.json:
        results.emit_json()
    return results.code


def summary_json(
    path: Path, trace: Trace, facts: Summary, idle: Gaps | None = None
) -> dict[str, object]:
    """Return what ``summary --json`` prints of one file.

    Parameters
    ----------
    idle : the gaps to list; None = they were not asked for.
    """
    unknown = dict(facts.unknown)
    ns = 1.0 if trace.clock.unit == "ns" else None
    if trace.clock.hz and ns is None:
        ns = 1e9 / trace.clock.hz

    def ms(ticks: float | None, name: str) -> float | None:
        if ticks is not None and ns is None:
            unknown.setdefault(name, _NO_FREQUENCY)
        return None if ticks is None or ns is None else ticks * ns / 1e6

    def per_s(per_tick: float | None, name: str) -> float | None:
        if per_tick is not None and ns is None:
            unknown.setdefault(name, _NO_FREQUENCY)
        return None if per_tick is None or ns is None else per_tick * 1e9 / ns

    def gib(per_tick: float | None, name: str) -> float | None:
        rate = per_s(per_tick, name)
        return None if rate is None else rate / _GIB

    tokens, weights, threads = facts.tokens, facts.weights, facts.threads
    bars, ticks = tokens.bars, "ns" if trace.clock.unit == "ns" else "cycles"
    slowest: dict[str, object] | None = None
    if tokens.slowest is not None:
        duration = int(bars.duration[tokens.slowest])
        slowest = {
            "token": bar_text(trace, bars, tokens.slowest),
            "ms": ms(duration, "tokens.slowest.ms"),
            f"total_{ticks}": duration,
            "span": int(bars.span[tokens.slowest]),
        }
    whole = threads.duration

    def share(part: int | None) -> float | None:
        return None if part is None or not whole else part / whole

    counts = zip(Quality, facts.quality.spans.tolist(), strict=True)
    problems = zip(Severity, facts.quality.problems, strict=True)
    result: dict[str, Any] = {
        "path": str(path),
        "tokens": {
            "counts": bars.noun if len(bars) else None,
            "n": len(bars),
            "prompt": tokens.prompt,
            "generated": tokens.generated,
            "prompt_per_s": per_s(tokens.prompt_per_tick, "tokens.prompt_per_s"),
            "generated_per_s": per_s(
                tokens.generated_per_tick, "tokens.generated_per_s"
            ),
            "first_token_ms": ms(tokens.first_token, "tokens.first_token_ms"),
            "median_ms": ms(tokens.median, "tokens.median_ms"),
            "slowest": slowest,
            "over_twice_median": len(tokens.outliers),
            "between_share": tokens.between,
        },
        "ops": [
            {
                "name": row.key,
                "count": row.count,
                f"total_{ticks}": row.total if row.timed else None,
                "share": row.share if row.timed else None,
                "bytes": row.known_bytes,
                "gib_per_s": gib(row.rate, "ops.gib_per_s"),
            }
            for row in facts.ops.rows
        ],
        "threads": [
            {
                "lane": lane.name,
                "busy": share(lane.busy),
                "wait": share(lane.wait),
                "idle": share(lane.idle),
                f"busy_{ticks}": lane.busy,
                f"wait_{ticks}": lane.wait,
                f"idle_{ticks}": lane.idle,
                "quality": "measured" if lane.is_measured else "derived",
            }
            for lane in threads.lanes
        ],
        "imbalance": threads.imbalance,
        "barriers": {
            "n": threads.n_barriers,
            "last": [
                {"lane": one.name, "n": one.n_last, f"waited_{ticks}": one.waited}
                for one in threads.last
            ],
        },
        "weights": {
            "bytes_per_token": None if weights is None else weights.per_token,
            "gib_per_s": None
            if weights is None
            else gib(weights.rate, "weights.gib_per_s"),
            "peak_gib_per_s": gib(facts.peak, "weights.peak_gib_per_s"),
        },
        "never_touched_bytes": facts.never_touched,
        "quality": {
            **{quality.word: n for quality, n in counts},
            "problems": {severity.word: n for severity, n in problems},
        },
        "bottleneck": {
            "what": bottleneck_name(facts),
            "because": None if facts.cause is None else bottleneck_text(facts),
        },
    }
    if idle is not None:
        result["gaps"] = _gaps_json(trace, idle, ticks, unknown)
    if reason := barriers_reason(threads):
        unknown["barriers.n"] = reason
    return {**result, "unknown": unknown}


def _gaps_json(
    trace: Trace, idle: Gaps, ticks: str, unknown: dict[str, str]
) -> list[dict[str, object]] | None:
    """Return a value per gap; None, with the reason, where gaps cannot be seen."""
    if reason := gaps_reason(idle):
        unknown["gaps"] = reason
        return None
    titles = lane_titles(trace.lanes)
    columns = (idle.lane, idle.start, idle.end, idle.before, idle.after)
    return [
        {
            "lane": titles[lane],
            "start": start,
            "end": end,
            f"duration_{ticks}": end - start,
            "before": op_words(trace, before),
            "after": op_words(trace, after),
        }
        for lane, start, end, before, after in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def _print(
    path: Path,
    trace: Trace,
    facts: Summary,
    idle: Gaps | None,
    arguments: Namespace,
) -> None:
    if len(arguments.files) > 1:
        output.emit(one_line(str(path)))
    name = bottleneck_name(facts)
    head = f"{name}: " if name is not None and facts.cause is not None else ""
    output.emit(one_line(f"Bottleneck  {head}{bottleneck_text(facts)}"))
    for section in summary_sections(trace, facts):
        output.emit("")
        lines = [line for line in section.lines if line.value]
        output.emit(section.title)
        rows = [(f"  {line.title}", line.value, line.remark) for line in lines]
        output.emit(output.table(("", "", ""), rows, left=(0, 1, 2)).split("\n", 1)[1])
    if idle is not None:
        _print_gaps(trace, idle)
    if facts.unknown:
        output.emit("\nNot known")
        for text in unknown_lines(facts):
            output.emit(one_line(f"  {text}"))


def _print_gaps(trace: Trace, idle: Gaps) -> None:
    unit, form = trace.clock.unit, column_time_form(trace)
    if reason := gaps_reason(idle):
        output.emit(f"\nGaps\n  cannot be seen: {reason}")
        return
    output.emit(f"\nGaps  {gaps_text(idle, unit)}")
    if note := gaps_note(idle):
        output.emit(f"  {note}")
    if not len(idle):
        return
    titles = lane_titles(trace.lanes)
    columns = (idle.lane, idle.start, idle.end, idle.before, idle.after)
    rows = [
        (
            f"  {titles[lane]}",
            form.text(start),
            format_duration(end - start, unit),
            op_words(trace, before),
            op_words(trace, after),
        )
        for lane, start, end, before, after in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    head = ("  lane", "begin", "duration", "before", "after")
    output.emit(output.table(head, rows, left=(0, 3, 4)))
