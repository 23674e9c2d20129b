"""``ggscope info``: what a file holds."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ggscope.analysis.chunks import chunks, count_values
from ggscope.analysis.completeness import (
    Completeness,
    completeness,
    with_completeness,
)
from ggscope.analysis.mapping_layout import wholes_of
from ggscope.cli import output
from ggscope.cli.exits import GOOD, USAGE
from ggscope.cli.info_experts import experts_json
from ggscope.cli.info_model import model_json
from ggscope.cli.info_parts import joins_json, parts_json
from ggscope.cli.info_tables import (
    accesses_by_space,
    buffers_json,
    completeness_json,
    graphs_json,
    sources_json,
    stalls_json,
    stated_json,
)
from ggscope.cli.info_text import info_text
from ggscope.cli.reading import for_each_file, load
from ggscope.model.lanes import LaneKind
from ggscope.model.tables import I64
from ggscope.model.tokens import numbers_per_phase
from ggscope.model.trace import ReadWarning, Trace


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
    per_lane = count_values(trace.spans.lane, len(trace.lanes)).tolist()
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
        "counts": _counts(trace),
        "spans_by_quality": trace.quality_counts(),
        "accesses_by_space": accesses_by_space(trace),
        "lanes": [
            {
                "id": lane.id,
                "name": lane.name,
                "kind": lane.kind.name.lower(),
                "group": list(lane.group),
                "spans": spans,
            }
            for lane, spans in zip(trace.lanes, per_lane, strict=True)
        ],
        "ops": _ops(trace),
        "op_table": _op_table(trace),
        "completeness": completeness_json(trace, found),
        "experts": experts_json(trace),
        "model": model_json(trace),
        "buffers": buffers_json(trace),
        "graphs": graphs_json(trace),
        "events": dict(_mapping(trace.info.summary.get("events"))),
        "memory": dict(_mapping(trace.info.summary.get("memory"))) or None,
        "sources": sources_json(trace),
        "stalls": stalls_json(trace),
        "producer": dict(trace.info.producer),
        "stated": stated_json(trace),
        "options": dict(trace.info.options),
        "parts": parts_json(trace),
        "joins": joins_json(trace),
        "warnings": [warning_json(w) for w in trace.warnings],
    }


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


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


def _counts(trace: Trace) -> dict[str, int]:
    wholes = wholes_of(trace.tensors, trace.strings)
    return {
        "records": trace.info.n_records,
        "spans": len(trace.spans),
        "markers": len(trace.markers),
        "accesses": sum(accesses_by_space(trace).values()),
        "counters": len(trace.counters),
        "tokens": _n_tokens(trace),
        "passes": trace.info.n_passes,
        "tensors": wholes.count(np.ones(len(trace.tensors), np.bool_)),
        "tensor_slices": int(np.count_nonzero(trace.tensors.expert >= 0)),
        "buffers": len(trace.buffers),
        "graphs": len(trace.graphs),
        "graph_nodes": sum(graph.n_declared for graph in trace.graphs),
        "graph_leaves": sum(graph.n_leaves for graph in trace.graphs),
        "graph_dangling": sum(graph.n_dangling for graph in trace.graphs),
        "graph_edges": sum(len(graph.source) for graph in trace.graphs),
    }


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
        seen = np.union1d(seen, key[wanted])
    return len(seen)


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
