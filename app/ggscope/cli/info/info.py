"""``ggscope info``: what a file holds, as JSON and for people.

First what every trace has, then what only some have: files of a session, accesses,
buffers, stalls, stated figures, graphs and experts. What answers a question about these
is imported where a trace has something to ask it about.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.cores import core_use
from ggscope.analysis.workers import chunks, count_values
from ggscope.cli import output
from ggscope.cli.info.times import (
    calls_json,
    calls_text,
    engines_json,
    engines_text,
    latency_json,
    latency_text,
)
from ggscope.cli.output import GOOD, USAGE, styled, table
from ggscope.cli.reading import for_each_file, load
from ggscope.descriptions.completeness import completeness_words, with_completeness
from ggscope.model.batches import token_counts
from ggscope.model.graph import Graph, NodeCategory, NodeFlag
from ggscope.model.tables import I64, AccessColumns, Array, Phase, Space, distinct
from ggscope.model.tokens import has_ubatches, numbers_per_phase
from ggscope.model.trace import LaneKind, ReadWarning, Severity, Trace
from ggscope.model.units import (
    NOT_AVAILABLE,
    format_absolute,
    format_bytes,
    format_count,
    format_duration,
    format_exact,
    format_offset,
    format_share,
)
from ggscope.sanitize import one_line

_MAX_LANES = 40
_MAX_CORES = 8
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
        if arguments.json:
            return GOOD, facts | {"coverage": coverage_facts(trace)}
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
    by_space = accesses_by_space(trace)
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
            "epoch_ns": trace.clock.epoch,
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
        "experts": experts_json(trace),
        "model": _model(trace),
        "buffers": buffers_json(trace),
        "graphs": graphs_json(trace),
        "events": _summary(trace, "events"),
        "memory": _summary(trace, "memory") or None,
        "sources": sources_json(trace),
        "latency": latency_json(trace),
        "engines": engines_json(trace),
        "stalls": stalls_json(trace),
        "calls": calls_json(trace),
        "producer": dict(trace.info.producer),
        "stated": stated_json(trace),
        "options": dict(trace.info.options),
        "parts": parts_json(trace),
        "joins": joins_json(trace),
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


def _counts(trace: Trace, n_accesses: int) -> dict[str, int | None]:
    """Return how many of everything there are.

    ``tokens`` of a recording are those of its ubatches, which are its ``passes``; what
    nothing tells of them is None.
    """
    n_slices = int(np.count_nonzero(trace.tensors.expert >= 0))
    found = None
    if has_ubatches(trace):
        found = token_counts(trace.batch_tokens, trace.token_sequences)
    return {
        "records": trace.info.n_records,
        "op_records": trace.info.n_op_records,
        "graph_records": trace.info.records_by_kind.get("graphs", 0),
        "spans": len(trace.spans),
        "markers": len(trace.markers),
        "accesses": n_accesses,
        "counters": len(trace.counters),
        "tokens": _n_tokens(trace) if found is None else found.tokens,
        "prompt_tokens": None if found is None else found.prompt,
        "generated_tokens": None if found is None else found.generated,
        "decodes": None if found is None or found.decodes < 0 else found.decodes,
        "sequences": None if found is None or found.sequences < 0 else found.sequences,
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
    lanes: list[dict[str, object]] = [
        {
            "id": lane.id,
            "name": lane.name,
            "kind": lane.kind.name.lower(),
            "group": list(lane.group),
            "spans": spans,
        }
        for lane, spans in zip(trace.lanes, per_lane, strict=True)
    ]
    for number, use in core_use(trace).items():
        lanes[number] |= {"cores": list(use.cores), "migrations": use.migrations}
    return lanes


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
    ``missing_tokens`` lists token numbers that are skipped, first to last; ``missing``
    counts their records too. ``gaps`` lists the first missing records between the
    numbers of their neighbours, None = none; ``time`` is in ticks.
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
        "altered": found.n_altered,
        "missing_lists": found.n_lists,
        "rests_on": list(found.rests_on),
        "missing_tokens": [
            {
                "first": gap.first,
                "last": gap.last,
                "phase": None if gap.phase < 0 else Phase(gap.phase).name.lower(),
                "time": gap.time,
            }
            for gap in found.tokens.gaps
        ],
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
        parts_text(trace),
        _counts_text(facts, _left_out(trace)),
        _producer_text(facts),
        stated_text(trace),
        latency_text(trace, facts),
        engines_text(trace, facts),
        stalls_text(trace, facts),
        calls_text(trace, facts),
        _model_text(facts),
        graphs_text(facts),
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
    if trace.clock.unit == "cycle" and not origin:
        return f"as in the file; the first event is at {start:,}"
    is_day = trace.clock.wall(start) is not None
    day = f" ({format_absolute(start, trace.clock)})" if is_day else ""
    if not start:
        return f"the first event is at {origin:,}{day}"
    length = format_duration(abs(start), trace.clock.unit)
    side = "before" if start < 0 else "behind"
    return (
        f"time 0 is at {origin:,}; the first event is {length} {side} it, at "
        f"{origin + start:,}{day}"
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


def _record_words(counts: dict[str, int]) -> str:
    """Return what records are of, where not all are of one kind; else ""."""
    n_ops, n_graphs = counts["op_records"], counts["graph_records"]
    n_lists = counts["records"] - n_ops - n_graphs
    words = _by_word({"ops": n_ops, "lists of experts": n_lists}) if n_lists else ""
    # A sidecar tells of graphs, which are no records of the file.
    noun = "graph" if n_graphs == 1 else "graphs"
    of_graphs = f"the sidecar tells of {format_count(n_graphs)} {noun}"
    return "; ".join(filter(None, (words, of_graphs if n_graphs else "")))


def coverage_facts(trace: Trace) -> dict[str, object]:
    """Return what a trace leaves out, as ``--json`` prints it."""
    # Imported where it is asked for: it looks at all that records may lack.
    from ggscope.analysis.completeness.coverage import trace_coverage
    from ggscope.descriptions.coverage import coverage_json

    return coverage_json(trace_coverage(trace))


def _left_out(trace: Trace) -> str:
    """Return what a recording leaves out; "" for nothing, and of other traces."""
    if not trace.stories:
        return ""
    from ggscope.analysis.completeness.coverage import trace_coverage
    from ggscope.descriptions.coverage import left_out_words

    return left_out_words(trace_coverage(trace))


def _counts_text(facts: dict[str, Any], left_out: str) -> str:
    counts = facts["counts"]
    rows = [(name, format_count(counts[name])) for name in _COUNTS if counts[name]]
    if counts["graph_records"]:
        n_records = counts["records"] - counts["graph_records"]
        rows[0] = ("records", format_count(n_records) if n_records else "none")
    if not rows and facts["model"] is not None:
        return ""
    if not rows:
        return "It holds no records: nothing was traced."
    more = {
        "records": _by_word(facts["events"]) or _record_words(counts),
        "spans": _by_word(facts["spans_by_quality"]),
        "accesses": _by_word(
            {word.upper(): n for word, n in facts["accesses_by_space"].items()}
        ),
        "buffers": buffers_words(facts),
        "tokens": _token_words(counts),
        "passes": _pass_words(counts),
    }
    shown = [(n, f"{text} ({more[n]})" if more.get(n) else text) for n, text in rows]
    if counts["spans"]:
        shown.append(("complete", facts["completeness"]["words"]))
    if left_out:
        shown.append(("left out", left_out))
    if facts["sources"]:
        words = (
            f"{format_count(n)} with {'none' if k == '0' else k}"
            for k, n in facts["sources"].items()
        )
        shown.append(("sources of ops", ", ".join(words)))
    experts = experts_words(facts)
    shown += [("experts", experts)] if experts else []
    return _pairs([*shown, *_memory_words(facts)])


def _token_words(counts: dict[str, int | None]) -> str:
    """Return "21 prompt, 7 generated, 2 sequences"."""
    if counts["prompt_tokens"] is None:
        # Of a pass over several tokens a trace may have one number.
        return "as the file numbers them"
    words = _by_word(
        {
            "prompt": counts["prompt_tokens"],
            "generated": counts["generated_tokens"] or 0,
        }
    )
    n = counts["sequences"] or 0
    return words + (f", {format_count(n)} sequences" if n > 1 else "")


def _pass_words(counts: dict[str, int | None]) -> str:
    """Return "ubatches of 7 decodes"; "" where these are not known."""
    if counts["prompt_tokens"] is None:
        return ""
    n = counts["decodes"]
    calls = "" if n is None else f" of {format_count(n)} decode{'s' * (n != 1)}"
    return f"ubatches{calls}"


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
    has_cores = any("cores" in lane for lane in lanes)
    head: tuple[str, ...] = ("lane", "kind", "spans")
    rows: list[tuple[str, ...]] = []
    for lane in lanes[:_MAX_LANES]:
        name = " / ".join([*lane["group"], lane["name"]])
        rows.append((name, lane["kind"], format_count(lane["spans"])))
        if has_cores:
            rows[-1] += _cores_cells(lane)
    if has_cores:
        head += ("cores", "migrations")
    more = len(lanes) - _MAX_LANES
    text = table(head, rows, left=(0, 1))
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _cores_cells(lane: dict[str, Any]) -> tuple[str, str]:
    """Return "0, 1" and "23": cores of a thread, and how often it moved."""
    if "cores" not in lane:
        return NOT_AVAILABLE, NOT_AVAILABLE
    cores = lane["cores"]
    shown = ", ".join(map(str, cores[:_MAX_CORES]))
    more = len(cores) - _MAX_CORES
    words = shown + (f" and {format_count(more)} more" if more > 0 else "")
    return words, format_count(lane["migrations"])


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


SPACE_WORDS = {
    Space.FILE: "disk",
    Space.BUFFER: "buffer",
    Space.DRAM: "dram",
    Space.SPM: "spm",
    Space.UNKNOWN: "unknown",
}
_MAX_GRAPHS = 16
_MAX_REASONS = 6


def parts_json(trace: Trace) -> list[dict[str, object]]:
    """Return the files of a session; empty for a file that was read alone."""
    return [
        {
            "path": str(part.info.paths[0]) if part.info.paths else "",
            "role": part.role,
            "reader": part.info.reader_id,
            "format": part.info.format,
            "size": part.info.byte_size,
            "shift": part.shift,
        }
        for part in trace.parts
    ]


def joins_json(trace: Trace) -> list[dict[str, object]]:
    """Return how well the files fit, one object per comparison."""
    return [
        {
            "kind": join.kind,
            "part": join.part,
            "found": join.n_found,
            "all": join.n_all,
            "rules": dict(join.rules),
            "delta": join.delta,
            "agree": join.n_agree,
            "nodes": join.n_nodes,
            "nodes_not_recorded": dict(join.silent),
        }
        for join in trace.joins
    ]


def parts_text(trace: Trace) -> str:
    """Return the files and how they fit, for people; "" for a file alone."""
    if not trace.parts:
        return ""
    from ggscope.descriptions.files import join_words

    rows = [
        (
            part.role,
            part.info.name,
            part.info.reader_id,
            format_bytes(part.info.byte_size),
            format_exact(part.shift, trace.clock.unit) if part.shift else "",
        )
        for part in trace.parts
    ]
    head = ("part", "file", "reader", "size", "shift")
    columns = 5 if any(row[-1] for row in rows) else 4
    shown = table(head[:columns], [row[:columns] for row in rows], left=(0, 1, 2))
    title = f"{format_count(len(rows))} files in one session"
    lines = [styled(title, "bold"), shown]
    lines += [f"  {one_line(join_words(join))}" for join in trace.joins]
    return "\n".join(lines)


def accesses_by_space(trace: Trace) -> dict[str, int]:
    """Return accesses by where their bytes live; spaces without any are left out.

    Each op's count once, however many threads tell of it; views are none.
    """
    total = np.zeros(len(Space), np.int64)
    if len(trace.accesses.patterns):
        from ggscope.analysis.reads.op_io import account

        found = account(trace)
        np.add.at(total, found.what.space, found.row_times() * found.counts)
    total += count_values(trace.accesses.loose.what.space, len(Space))
    return {SPACE_WORDS[Space(i)]: n for i, n in enumerate(total.tolist()) if n}


def buffers_json(trace: Trace) -> dict[str, object] | None:
    """Return how much memory buffers occupied; None without buffers.

    ``peak_at`` is in ticks of the clock; both are None where no allocation with a
    time and a size is recorded, as with buffers that only accesses name.
    """
    if not len(trace.buffers):
        return None
    from ggscope.analysis.buffers import never_freed, occupancy

    found = occupancy(trace)
    peak = found.peak
    sizes = trace.buffers.size
    return {
        "peak_bytes": None if peak is None else peak.bytes,
        "peak_at": None if peak is None else peak.time,
        "alive_at_peak": None if peak is None else len(peak.alive),
        "bytes": int(sizes[sizes >= 0].sum()),
        "never_freed": len(never_freed(trace.buffers)),
        "by_usage": {
            title: int(np.count_nonzero(found.group == i))
            for i, title in enumerate(found.groups)
        },
    }


def buffers_words(facts: dict[str, Any]) -> str:
    """Return "peak 3.0 GiB, 2 never freed"; "" where no peak is known."""
    buffers = facts["buffers"]
    if buffers is None or buffers["peak_bytes"] is None:
        return ""
    words = f"peak {format_bytes(buffers['peak_bytes'])}"
    if buffers["never_freed"]:
        words += f", {format_count(buffers['never_freed'])} never freed"
    return words


def sources_json(trace: Trace) -> dict[str, int]:
    """Return how many ops have 0, 1, 2, 3 … sources, as the records tell.

    Empty where records do not tell what an op reads.
    """
    claims, pattern = trace.claims, trace.accesses.pattern
    if claims is None or not claims.has_results or not len(claims):
        return {}
    uses = np.zeros(len(claims), np.int64)
    for rows in chunks(len(pattern)):
        used = pattern[rows][(pattern[rows] >= 0) & (trace.spans.op[rows] >= 0)]
        uses += np.bincount(used, minlength=len(claims))
    n = np.maximum(claims.n_sources.astype(np.int64), 0)
    total = np.bincount(n, uses).astype(np.int64)
    return {str(i): count for i, count in enumerate(total.tolist()) if count}


def stalls_json(trace: Trace) -> list[dict[str, object]]:
    """Return how long each master is stalled, each cycle counted once.

    ``share`` is of the whole extent; ``reasons`` adds up stalls by reason, which may
    overlap.
    """
    spans, length = trace.spans, trace.extent.duration
    found: list[dict[str, object]] = []
    is_stall = trace.lanes.of_kind(LaneKind.STALL)
    lanes = np.flatnonzero(is_stall)
    if not len(lanes):
        return found
    from ggscope.analysis.statistics.nesting import covered

    # All lanes at once: there may be a hundred thousand.
    rows = np.flatnonzero(is_stall[spans.lane])
    start, end = spans.start[rows], spans.end[rows]
    group = np.searchsorted(lanes, spans.lane[rows])
    count = np.bincount(group, minlength=len(lanes)).tolist()
    ticks = covered(group, start, end, len(lanes)).tolist()
    n_names = len(trace.strings) + 1
    pairs, which = np.unique(
        group * n_names + spans.name[rows] + 1, return_inverse=True
    )
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, which, end - start)
    owner, name = np.divmod(pairs, n_names)
    order = np.lexsort((name, -sums, owner))
    reasons: list[dict[str, int]] = [{} for _ in count]
    told = zip(owner[order], name[order] - 1, sums[order], strict=True)
    for lane, text, total in told:
        reasons[lane][trace.strings[int(text)]] = int(total)
    for i, lane in enumerate(lanes.tolist()):
        found.append(
            {
                "lane": trace.lanes.names[lane],
                "stalls": count[i],
                "stalled": ticks[i],
                "share": ticks[i] / length if length else None,
                "reasons": reasons[i],
            }
        )
    return found


def stalls_text(trace: Trace, facts: dict[str, Any]) -> str:
    """Return the section for people; "" without stalls."""
    if not facts["stalls"]:
        return ""
    unit = trace.clock.unit
    rows = [
        (
            stall["lane"],
            format_count(stall["stalls"]),
            format_duration(stall["stalled"], unit),
            NOT_AVAILABLE if stall["share"] is None else format_share(stall["share"]),
            ", ".join(
                f"{name} {format_duration(ticks, unit)}"
                for name, ticks in list(stall["reasons"].items())[:_MAX_REASONS]
            ),
        )
        for stall in facts["stalls"][:_MAX_GRAPHS]
    ]
    head = ("stalled", "stalls", "time", "share", "reasons")
    return table(head, rows, left=(0, 4))


def stated_json(trace: Trace) -> list[dict[str, object]]:
    """Return what the files say of themselves, beside what they hold.

    ``computed`` is None where the content does not tell, ``agrees`` where nothing can
    be said; ``file`` is "" for a file that was read alone.
    """
    return [
        {
            "file": file,
            "name": figure.name,
            "stated": figure.stated,
            "computed": figure.computed,
            "unit": figure.unit,
            "agrees": figure.agrees,
            "basis": figure.basis,
            "place": figure.place,
        }
        for file, figure in trace.stated_figures()
    ]


def stated_text(trace: Trace) -> str:
    """Return the section for people; "" where no file states a figure."""
    rows = [
        (
            f"{file}: {figure.name}" if file else figure.name,
            figure.stated_text,
            figure.computed_text,
            figure.verdict,
            figure.basis,
        )
        for file, figure in trace.stated_figures()
    ]
    head = ("stated figure", "stated", "computed", "verdict", "by")
    return table(head, rows, left=(0, 3, 4)) if rows else ""


def graphs_json(trace: Trace) -> list[dict[str, object]]:
    """Return what each graph holds.

    ``nodes`` counts what the file declares, ``leaves`` are those that nothing computes,
    ``dangling`` (and ``undeclared``, its older name) ends of edges that it does not
    declare; these are in no other count.
    ``operations`` and ``types`` count nodes by the words of the file, "" where it
    gives none; ``edges_by_slot`` counts edges by which source of their target they
    are. ``layers`` counts distinct layers, by the names of nodes.
    """
    return [_graph_json(trace, graph) for graph in trace.graphs]


def graphs_text(facts: dict[str, Any]) -> str:
    """Return the section for people; "" without graphs."""
    graphs = facts["graphs"]
    if not graphs:
        return ""
    dangles = any(graph["dangling"] for graph in graphs)
    keys = ("nodes", "leaves", *(("dangling",) if dangles else ()), "edges", "layers")
    rows = [
        (
            graph["title"] or NOT_AVAILABLE,
            NOT_AVAILABLE if graph["token"] is None else str(graph["token"]),
            *(format_count(graph[key]) for key in keys),
        )
        for graph in graphs[:_MAX_GRAPHS]
    ]
    words = {"leaves": "of them leaves", "dangling": "dangling ends"}
    head = ("graph", "token", *(words.get(key, key) for key in keys))
    more = len(graphs) - _MAX_GRAPHS
    text = f"{styled('Graphs', 'bold')}\n{table(head, rows)}"
    return text + (f"\n… and {format_count(more)} more" if more > 0 else "")


def _graph_json(trace: Trace, graph: Graph) -> dict[str, object]:
    slots = np.bincount(graph.slot) if graph.n_edges else np.zeros(0, np.int64)
    declared = (graph.flags & np.uint8(NodeFlag.UNDECLARED)) == 0
    categories = np.bincount(graph.category[declared], minlength=len(NodeCategory))
    return {
        "title": graph.title,
        "token": None if graph.token < 0 else graph.token,
        "nodes": graph.n_declared,
        "leaves": graph.n_leaves,
        "dangling": graph.n_dangling,
        "shared": int(np.count_nonzero(graph.flags & np.uint8(NodeFlag.SHARED))),
        "undeclared": graph.n_dangling,
        "edges": graph.n_edges,
        "layers": len(distinct(graph.layer[graph.layer >= 0])),
        "operations": _counted(trace, graph.operation[declared]),
        "types": _counted(trace, graph.dtype[declared]),
        "categories": {
            category.name.lower(): int(categories[category])
            for category in NodeCategory
            if categories[category]
        },
        "edges_by_slot": {str(i): n for i, n in enumerate(slots.tolist()) if n},
    }


def _counted(trace: Trace, ids: Array) -> dict[str, int]:
    """Return how often each word occurs, the commonest first; "" = none."""
    words, counts = np.unique(ids, return_counts=True)
    order = np.argsort(-counts, kind="stable").tolist()
    found: dict[str, int] = {}
    for i in order:
        text = trace.strings[int(words[i])] if words[i] >= 0 else ""
        found[text] = found.get(text, 0) + int(counts[i])
    return found


def experts_json(trace: Trace) -> dict[str, object] | None:
    """Return layers with experts, experts, accesses to them and choices; or None.

    None where nothing names an expert. ``choices`` counts the experts of the router's
    lists that compute, ``ranked`` all that they name, ``implied`` those that compute
    as sizes tell, and that no list names.

    Tensors of experts are those that name one (``blk.0.ffn_up.3.weight``) or hold
    all of a layer (``_exps``). The number of experts is None where only the latter
    occur and no model file tells how many they stack: such names do not.
    """
    is_expert = _expert_tensors(trace)
    may_have = is_expert.any() or len(trace.routing) or len(trace.accesses.patterns)
    if not (may_have or len(trace.accesses.loose)):
        return None
    from ggscope.analysis.reads.op_io import account

    found = account(trace)
    patterns, loose = found.what, trace.accesses.loose.what
    in_pattern, in_loose = _touches(patterns, is_expert), _touches(loose, is_expert)
    has_any = is_expert.any() or in_pattern.any() or in_loose.any()
    if not (has_any or len(trace.routing)):
        return None
    per_row = found.row_times() * found.counts
    layers = _known(
        trace.tensors.layer[is_expert[:-1]],
        patterns.layer[in_pattern],
        loose.layer[in_loose],
        trace.routing.layer,
    )
    listed = trace.routing.listed()
    return {
        "layers": len(layers),
        "experts": _n_experts(trace, patterns.expert, loose.expert) or None,
        "accesses": int(per_row[in_pattern].sum()) + int(in_loose.sum()),
        "choices": int(np.count_nonzero(listed.is_used)),
        "ranked": len(listed),
        "implied": len(trace.routing) - len(listed),
    }


def experts_words(facts: dict[str, Any]) -> str:
    """Return "32 in 24 layers, 288 choices"; "" without experts."""
    found = facts["experts"]
    if found is None:
        return ""
    n = NOT_AVAILABLE if found["experts"] is None else format_count(found["experts"])
    plural = "" if found["layers"] == 1 else "s"
    words = f"{n} in {format_count(found['layers'])} layer{plural}"
    if found["choices"]:
        words += f", {format_count(found['choices'])} choices listed"
    if found["ranked"] > found["choices"]:
        words += f" of {format_count(found['ranked'])} ranked"
    if found["implied"]:
        words += f", {format_count(found['implied'])} more implied by sizes"
    return words


def _n_experts(trace: Trace, *numbers: Array) -> int:
    """Return how many experts a layer has: as stacked, else how many are named."""
    tensors = trace.tensors
    stacked = 0 if tensors.n_experts is None else int(tensors.n_experts.max(initial=0))
    if stacked:
        return stacked
    return len(_known(tensors.expert, *numbers, trace.routing.expert))


def _expert_tensors(trace: Trace) -> Array:
    """Tell which tensors belong to experts, bool[n + 1]; the last one is none."""
    tensors = trace.tensors
    names = (trace.strings[i] for i in tensors.name.tolist())
    packed = np.fromiter(("_exps" in name for name in names), np.bool_, len(tensors))
    return np.append(packed | (tensors.expert >= 0), False)


def _touches(accesses: AccessColumns, is_expert: Array) -> Array:
    return (accesses.expert >= 0) | is_expert[accesses.tensor]


def _known(*columns: Array) -> Array:
    """Return the distinct values that are not -1."""
    values = distinct(np.concatenate([c.astype(np.int64) for c in columns]))
    return values[values >= 0]
