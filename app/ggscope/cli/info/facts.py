"""What ``info --json`` prints of a trace, as plain values; nothing is printed here.

What answers a question about a part that only some traces have is imported for those.
"""

from pathlib import Path

import numpy as np

from ggscope.analysis.completeness.expected import Completeness, completeness
from ggscope.analysis.workers import chunks, count_values
from ggscope.cli.info.access_facts import (
    accesses_by_space,
    buffers_json,
    experts_json,
    sources_json,
)
from ggscope.cli.info.graph_facts import graph_json
from ggscope.cli.info.times import (
    calls_json,
    engines_json,
    latency_json,
    stalls_json,
)
from ggscope.descriptions.completeness import completeness_json
from ggscope.model.batches import token_counts
from ggscope.model.tables import I64, distinct
from ggscope.model.tokens import numbers_per_phase
from ggscope.model.trace import LaneKind, ReadWarning, Trace


def describe(
    trace: Trace, path: Path, complete: Completeness | None = None
) -> dict[str, object]:
    """Return what ``info --json`` prints of a trace; every key is always there.

    Parameters
    ----------
    complete : the completeness of the trace; None = compute it.
    """
    complete = completeness(trace) if complete is None else complete
    lane_kinds = set(trace.lanes.kinds.tolist())
    by_space, experts = accesses_by_space(trace), experts_json(trace)
    buffers, sources = buffers_json(trace), sources_json(trace)
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
            "axis": "weight" if trace.clock.is_weight else "time",
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
        "completeness": completeness_json(trace, complete),
        "experts": experts,
        "model": _model(trace),
        "buffers": buffers,
        "graphs": [graph_json(trace, graph) for graph in trace.graphs],
        "events": _summary(trace, "events"),
        "memory": _summary(trace, "memory") or None,
        "memory_breakdown": _memory_breakdown(trace),
        "sources": sources,
        "latency": latency_json(trace) if LaneKind.TOKEN in lane_kinds else [],
        "engines": engines_json(trace) if LaneKind.ENGINE in lane_kinds else [],
        "stalls": stalls_json(trace) if LaneKind.STALL in lane_kinds else [],
        "calls": calls_json(trace) if LaneKind.COMMAND in lane_kinds else None,
        "producer": dict(trace.info.producer),
        "stated": stated_json(trace),
        "options": dict(trace.info.options),
        "parts": parts_json(trace),
        "joins": joins_json(trace),
        "warnings": [warning_json(w) for w in trace.warnings],
    }


def coverage_facts(trace: Trace) -> dict[str, object]:
    """Return what a trace leaves out, as ``--json`` prints it."""
    # Imported where it is asked for: it looks at all that records may lack.
    from ggscope.analysis.completeness.coverage import trace_coverage
    from ggscope.descriptions.coverage import coverage_json

    return coverage_json(trace_coverage(trace))


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
            "nodes_not_recorded": dict(join.unrecorded),
        }
        for join in trace.joins
    ]


def stated_json(trace: Trace) -> list[dict[str, object]]:
    """Return the metadata values of the files beside the values computed from the data.

    ``computed`` is None where the data do not give it, ``agrees`` where they cannot
    be compared; ``file`` is "" for a file that was read alone.
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


def _counts(trace: Trace, n_accesses: int) -> dict[str, int | None]:
    """Return how many of everything there are.

    ``tokens`` of a recording are those of its ubatches, which are its ``passes``; what
    is not recorded is None.
    """
    n_slices = int(np.count_nonzero(trace.tensors.expert >= 0))
    tokens = None
    if len(trace.batch_tokens):
        tokens = token_counts(trace.batch_tokens, trace.token_sequences)
    return {
        "records": trace.info.n_records,
        "op_records": trace.info.n_op_records,
        "graph_records": trace.info.records_by_kind.get("graphs", 0),
        "spans": len(trace.spans),
        "markers": len(trace.markers),
        "accesses": n_accesses,
        "counters": len(trace.counters),
        "tokens": _n_tokens(trace) if tokens is None else tokens.tokens,
        "prompt_tokens": None if tokens is None else tokens.prompt,
        "generated_tokens": None if tokens is None else tokens.generated,
        "decodes": None if tokens is None or tokens.decodes < 0 else tokens.decodes,
        "sequences": None
        if tokens is None or tokens.sequences < 0
        else tokens.sequences,
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
    of_lane = trace.lanes.kinds == LaneKind.TOKEN
    has_lane = bool(of_lane.any())
    by_phase = numbers_per_phase(trace)
    seen = np.zeros(0, np.int64)
    for rows in chunks(len(token)):
        key = token[rows].astype(np.int64)
        is_counted = key >= 0
        if has_lane:
            is_counted &= of_lane[trace.spans.lane[rows]]
        if by_phase and phase is not None:
            key = key * 4 + phase[rows] + 1
        seen = distinct(np.append(seen, key[is_counted]))
    return len(seen)


def _lanes(trace: Trace) -> list[dict[str, object]]:
    columns = trace.lanes
    per_lane = count_values(trace.spans.lane, len(columns.kinds))
    lanes: list[dict[str, object]] = [
        {
            "id": i,
            "name": name,
            "kind": LaneKind(kind).name.lower(),
            "group": list(columns.groups[group]),
            "spans": n_spans,
        }
        for i, (name, kind, group, n_spans) in enumerate(
            zip(
                columns.names,
                columns.kinds.tolist(),
                columns.group.tolist(),
                per_lane.tolist(),
                strict=True,
            )
        )
    ]
    if trace.spans.core is not None:
        from ggscope.analysis.cores import core_use

        for number, use in core_use(trace).items():
            lanes[number] |= {"cores": list(use.cores), "migrations": use.migrations}
    return lanes


def _ops(trace: Trace) -> dict[str, int]:
    """Return spans by op name, the commonest first."""
    counts: I64 = count_values(trace.spans.op, int(trace.spans.op.max(initial=-1)) + 1)
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
    from ggscope.exporters.model_json import model_json

    return model_json(trace)


def _memory_breakdown(trace: Trace) -> list[dict[str, object]] | None:
    if trace.log is None:
        return None
    from ggscope.exporters.requests_json import memory_json  # of logs alone

    return memory_json(trace.log.memory)


def _summary(trace: Trace, name: str) -> dict[str, object]:
    # Some formats put here what a file says, which can be anything.
    value = trace.info.summary.get(name)
    return dict(value) if isinstance(value, dict) else {}
