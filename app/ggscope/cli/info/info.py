"""``ggscope info``: what a file holds, as JSON and for people."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.rows.groups import chunks, count_values
from ggscope.cli import output
from ggscope.cli.info import sections
from ggscope.cli.output import GOOD, USAGE, styled, table
from ggscope.cli.reading import for_each_file, load
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64, distinct
from ggscope.model.tokens import numbers_per_phase
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_offset,
    format_share,
)
from ggscope.text import one_line
from ggscope.words.completeness import completeness_words, with_completeness

_MAX_LANES = 40
_MAX_OPS = 16
_STYLES = {Severity.ERROR: "red", Severity.DATA_LOSS: "yellow"}
_COUNTS = (
    "records",
    "spans",
    "markers",
    "accesses",
    "counters",
    "tokens",
    "passes",
    "tensors",
    "buffers",
    "graphs",
)


def run(arguments: Namespace) -> int:
    """Describe the files, the formats or the system; return the exit code."""
    if arguments.formats:
        from ggscope.cli.readers import run as run_readers

        return run_readers(arguments)
    if arguments.system:
        from ggscope.cli.system import run as run_system

        return run_system(arguments)
    if not arguments.files:
        output.complain("info needs a FILE, --formats or --system.")
        return USAGE

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        found = completeness(trace)
        trace = with_completeness(trace, found)
        facts = describe(trace, path, found)
        if not arguments.json:
            output.emit(info_text(trace, facts))
        return GOOD, facts

    results = for_each_file(arguments, work)
    if arguments.json:
        results.emit_json()
    return results.code


def describe(
    trace: Trace, path: Path, found: Completeness | None = None
) -> dict[str, object]:
    """Return what ``info --json`` prints of a trace: every key, always.

    Parameters
    ----------
    found : whether records are missing; None = look.
    """
    found = completeness(trace) if found is None else found
    by_space = sections.accesses_by_space(trace)
    return {
        "path": str(path),
        "reader": trace.info.reader_id,
        "format": trace.info.format,
        "format_version": trace.info.format_version,
        "size": trace.info.byte_size,
        "clock": {
            "unit": trace.clock.unit,
            "origin": trace.clock.origin,
            "hz": trace.clock.hz,
        },
        "extent": {
            "start": trace.extent.start,
            "end": trace.extent.end,
            "duration": trace.extent.duration,
        },
        "counts": _counts(trace, sum(by_space.values())),
        "spans_by_quality": trace.quality_counts(),
        "accesses_by_space": by_space,
        "lanes": _lanes(trace),
        "ops": _ops(trace),
        "op_table": _op_table(trace),
        "completeness": completeness_json(trace, found),
        "experts": sections.experts_json(trace),
        "model": _model(trace),
        "buffers": sections.buffers_json(trace),
        "graphs": sections.graphs_json(trace),
        "events": _summary(trace, "events"),
        "memory": _summary(trace, "memory") or None,
        "sources": sections.sources_json(trace),
        "stalls": sections.stalls_json(trace),
        "producer": dict(trace.info.producer),
        "stated": sections.stated_json(trace),
        "options": dict(trace.info.options),
        "parts": sections.parts_json(trace),
        "joins": sections.joins_json(trace),
        "warnings": [warning_json(w) for w in trace.warnings],
    }


def _summary(trace: Trace, name: str) -> dict[str, object]:
    # Some formats put here what a file says, which can be anything.
    value = trace.info.summary.get(name)
    return dict(value) if isinstance(value, dict) else {}


def warning_json(warning: ReadWarning) -> dict[str, object]:
    """Return the JSON of one problem."""
    return {
        "severity": warning.severity.word,
        "code": warning.code,
        "message": warning.message,
        "count": warning.count,
        "offset": warning.offset,
        "place": warning.place,
        "remedy": warning.remedy,
    }


def _counts(trace: Trace, n_accesses: int) -> dict[str, int]:
    n_slices = int(np.count_nonzero(trace.tensors.expert >= 0))
    return {
        "records": trace.info.n_records,
        "spans": len(trace.spans),
        "markers": len(trace.markers),
        "accesses": n_accesses,
        "counters": len(trace.counters),
        "tokens": _n_tokens(trace),
        "passes": trace.info.n_passes,
        "tensors": _n_tensors(trace) if n_slices else len(trace.tensors),
        "tensor_slices": n_slices,
        "buffers": len(trace.buffers),
        "graphs": len(trace.graphs),
        "graph_nodes": sum(graph.n_declared for graph in trace.graphs),
        "graph_leaves": sum(graph.n_leaves for graph in trace.graphs),
        "graph_dangling": sum(graph.n_dangling for graph in trace.graphs),
        "graph_edges": sum(len(graph.source) for graph in trace.graphs),
    }


def _n_tensors(trace: Trace) -> int:
    """Return the number of tensors, of which some are listed in slices."""
    from ggscope.analysis.sessions.mapping import wholes_of

    wholes = wholes_of(trace.tensors, trace.strings)
    return wholes.count(np.ones(len(trace.tensors), np.bool_))


def _n_tokens(trace: Trace) -> int:
    """Return the number of distinct tokens, of token lanes where there are any.

    Prefill and decode may each number their tokens from 0, so a number counts once
    per phase. Where a format shows passes, the numbers are what the file claims of
    them and several passes may share one.
    """
    token, phase = trace.spans.token, trace.spans.phase
    if token is None:
        return 0
    of_lane = trace.lanes.of_kind(LaneKind.TOKEN)
    has_lane = bool(of_lane.any())
    by_phase = numbers_per_phase(trace)
    seen = np.zeros(0, np.int64)
    for rows in chunks(len(token)):
        key = token[rows].astype(np.int64)
        wanted = key >= 0
        if has_lane:
            wanted &= of_lane[trace.spans.lane[rows]]
        if by_phase and phase is not None:
            key = key * 4 + phase[rows] + 1
        seen = distinct(np.append(seen, key[wanted]))
    return len(seen)


def _lanes(trace: Trace) -> list[dict[str, object]]:
    per_lane = count_values(trace.spans.lane, len(trace.lanes)).tolist()
    return [
        {
            "id": lane.id,
            "name": lane.name,
            "kind": lane.kind.name.lower(),
            "group": list(lane.group),
            "spans": spans,
        }
        for lane, spans in zip(trace.lanes, per_lane, strict=True)
    ]


def _ops(trace: Trace) -> dict[str, int]:
    """Return spans by op name, the commonest first."""
    if not len(trace.spans):
        return {}
    counts: I64 = count_values(trace.spans.op, int(trace.spans.op.max()) + 1)
    names: dict[str, int] = {}
    for op in np.argsort(-counts, kind="stable").tolist():
        if counts[op]:
            name = trace.op_name(op)
            names[name] = names.get(name, 0) + int(counts[op])
    return names


def _op_table(trace: Trace) -> dict[str, object] | None:
    """Return where the op names come from; None where the file spells them out."""
    if trace.ops is None or trace.ops.source == "spelled":
        return None
    return {
        "id": trace.ops.id,
        "source": trace.ops.source,
        "margin": trace.ops.margin,
    }


def _model(trace: Trace) -> dict[str, object] | None:
    """Return the model files and their tensors; None without any."""
    if not trace.models:
        return None
    from ggscope.cli.info.model import model_json

    return model_json(trace)


def completeness_json(trace: Trace, found: Completeness) -> dict[str, object]:
    """Return how many of the expected records are there, and where some are missing.

    ``share`` is None where nothing tells what was to be expected; ``why`` says so.
    ``missing_range`` is what is likely, where much is lost and some leaves no trace.
    ``gaps`` lists the first missing records between the numbers of their neighbours,
    None = none; ``time`` is in ticks.
    """
    return {
        "known": found.is_known,
        "why": found.why,
        "share": found.share,
        "there": found.n_there,
        "missing": found.n_missing,
        "missing_range": [
            found.n_missing - found.n_fewer,
            found.n_missing + found.n_more,
        ],
        "expected": found.n_expected,
        "passes": found.n_passes,
        "varying_ops": found.n_varying,
        "rests_on": list(found.rests_on),
        "words": completeness_words(found),
        "gaps": [
            {
                "name": gap.name,
                "op": gap.op,
                "after": None if gap.after < 0 else trace.record_of(gap.after),
                "before": None if gap.before < 0 else trace.record_of(gap.before),
                "time": gap.time,
            }
            for gap in found.gaps
        ],
    }


def info_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the description of a trace; `facts` is what ``--json`` prints."""
    parts = [
        _head_text(trace, facts),
        sections.parts_text(trace),
        _counts_text(facts),
        _producer_text(facts),
        sections.stated_text(trace),
        sections.stalls_text(trace, facts),
        _model_text(facts),
        sections.graphs_text(facts),
        _lanes_text(facts),
        _ops_text(facts),
        problems_text(trace),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def problems_text(trace: Trace) -> str:
    """Return the warnings of a trace, worst first; a line where there are none."""
    if not trace.warnings:
        return "No problems found."
    lines = [styled("Problems", "bold")]
    for warning in trace.warnings:
        word = warning.severity.word.replace("_", " ")
        style = _STYLES.get(warning.severity, "dim")
        times = f" ({format_count(warning.count)} times)" if warning.count > 1 else ""
        lines.append(f"  {styled(word, style)}  {one_line(warning.code)}{times}")
        where = [warning.place] if warning.place else []
        if warning.offset is not None:
            where.append(f"byte {warning.offset:,} ({format_offset(warning.offset)})")
        lines.append(f"    {one_line(warning.message)}")
        if where:
            lines.append(f"    at {one_line(', '.join(where))}")
        if warning.remedy:
            lines.append(f"    {one_line(warning.remedy)}")
    return "\n".join(lines)


def _head_text(trace: Trace, facts: dict[str, Any]) -> str:
    unit = trace.clock.unit
    clock = "nanoseconds" if unit == "ns" else "cycles"
    if trace.clock.hz is not None and unit == "cycle":
        clock += f" at {trace.clock.hz / 1e6:g} MHz"
    version = trace.info.format_version
    rows = [
        ("file", facts["path"]),
        ("format", trace.info.format + (f", version {version}" if version else "")),
        ("reader", trace.info.reader_id),
        (
            "size",
            f"{format_bytes(trace.info.byte_size)}"
            f" ({format_count(trace.info.byte_size)} bytes)",
        ),
    ]
    if _has_times(facts):
        rows += [
            ("clock", f"{clock}; {_origin_words(trace)}"),
            (
                "duration",
                f"{format_duration(trace.extent.duration, unit)}"
                f" ({format_exact(trace.extent.duration, unit)})",
            ),
        ]
    op_table = facts["op_table"]
    if op_table is not None:
        margin = op_table["margin"]
        lead = "" if margin is None else f", lead {margin:.1f}"
        rows.append(("op table", f"{op_table['id']} ({op_table['source']}{lead})"))
    rows += [(f"option {key}", value) for key, value in facts["options"].items()]
    return _pairs(rows)


def _origin_words(trace: Trace) -> str:
    """Return where time 0 lies, and where the first event if that is elsewhere.

    In a session of several files time 0 is that of one of them.
    """
    origin, start = trace.clock.origin, trace.extent.start
    if not start:
        return f"the first event is at {origin:,}"
    length = format_duration(abs(start), trace.clock.unit)
    side = "before" if start < 0 else "behind"
    return (
        f"time 0 is at {origin:,}; the first event is {length} {side} it, at "
        f"{origin + start:,}"
    )


def _has_times(facts: dict[str, Any]) -> bool:
    """Tell whether anything has a time.

    Model files, graphs and lists of chosen experts alone have none.
    """
    counts = facts["counts"]
    what = ("spans", "markers", "accesses", "counters", "buffers")
    is_untimed = facts["model"] is not None or counts["graphs"] > 0
    is_untimed |= facts["experts"] is not None
    return not is_untimed or any(counts[name] for name in what)


def _producer_text(facts: dict[str, Any]) -> str:
    if not facts["producer"]:
        return ""
    rows = [(f"  {key.replace('_', ' ')}", v) for key, v in facts["producer"].items()]
    return f"{styled('What the file says of itself', 'bold')}\n{_pairs(rows)}"


def _counts_text(facts: dict[str, Any]) -> str:
    counts = facts["counts"]
    rows = [(name, format_count(counts[name])) for name in _COUNTS if counts[name]]
    if not rows and facts["model"] is not None:
        return ""
    if not rows:
        return "It holds no records: nothing was traced."
    more = {
        "records": _by_word(facts["events"]),
        "spans": _by_word(facts["spans_by_quality"]),
        "accesses": _by_word(
            {word.upper(): n for word, n in facts["accesses_by_space"].items()}
        ),
        "buffers": sections.buffers_words(facts),
    }
    shown = [(n, f"{text} ({more[n]})" if more.get(n) else text) for n, text in rows]
    if counts["spans"]:
        shown.append(("complete", facts["completeness"]["words"]))
    if facts["sources"]:
        words = (
            f"{format_count(n)} with {'none' if k == '0' else k}"
            for k, n in facts["sources"].items()
        )
        shown.append(("sources of ops", ", ".join(words)))
    experts = sections.experts_words(facts)
    shown += [("experts", experts)] if experts else []
    return _pairs([*shown, *_memory_words(facts)])


def _by_word(counts: dict[str, int]) -> str:
    """Return "583 derived, 2 unfinished"."""
    return ", ".join(f"{format_count(n)} {word}" for word, n in counts.items() if n)


def _pairs(rows: list[tuple[str, Any]]) -> str:
    shown = [(one_line(name), one_line(str(value))) for name, value in rows]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown)


def _lanes_text(facts: dict[str, Any]) -> str:
    lanes = facts["lanes"]
    if not lanes:
        return ""
    rows = [
        (
            " / ".join([*lane["group"], lane["name"]]),
            lane["kind"],
            format_count(lane["spans"]),
        )
        for lane in lanes[:_MAX_LANES]
    ]
    more = len(lanes) - _MAX_LANES
    text = table(("lane", "kind", "spans"), rows, left=(0, 1))
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _ops_text(facts: dict[str, Any]) -> str:
    ops = facts["ops"]
    if not ops:
        return ""
    total = sum(ops.values())
    rows = [
        (name or NOT_AVAILABLE, format_count(n), format_share(n / total))
        for name, n in list(ops.items())[:_MAX_OPS]
    ]
    more = len(ops) - _MAX_OPS
    text = table(("op", "spans", "share"), rows)
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _model_text(facts: dict[str, Any]) -> str:
    if facts["model"] is None:
        return ""
    from ggscope.cli.info.model import model_text

    return model_text(facts)


def _memory_words(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (kind of memory, "peak 3.0 GiB in 5, 2 never freed") for each kind."""
    rows = []
    for title, found in (facts["memory"] or {}).items():
        words = f"peak {format_bytes(found['peak_bytes'])}"
        n = found["alive_at_peak"]
        words += f" in {format_count(n)} allocation" + ("" if n == 1 else "s")
        for key, text in (
            ("leaked", "never freed"),
            ("double_freed", "freed twice"),
            ("stray_freed", "freed without an allocation"),
            ("reused", "at a pointer that was used before"),
        ):
            n = found[key]
            words += f", {format_count(n)} {text}" if n else ""
        rows.append((title.lower(), words))
    return rows
