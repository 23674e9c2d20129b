"""Small NPU traces for tests, written as people's simulators write them."""

import json
from collections.abc import Mapping
from pathlib import Path

from ggscope.model.trace import ReadWarning, Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.npu.reader import NpuJsonReader
from ggscope.readers.source import Source
from support import rewrite

Fields = dict[str, object]


def engine(start: object = 0, end: object = 10, **fields: object) -> Fields:
    """Return an ENGINE_EVENT; fields given as None are kept as null."""
    return {
        "type": "ENGINE_EVENT",
        "engine": "TE",
        "engine_id": 0,
        "cmdq_id": 1,
        "layer_id": "ffn_1",
        "tile_id": "ffn_1_t0",
        "op": "TE_GEMM_TILE",
        "start_cycle": start,
        "end_cycle": end,
        "details": {"macs": 4096},
    } | fields


def access(cycle: object = 0, **fields: object) -> Fields:
    """Return a MEM_ACCESS_EVENT."""
    return {
        "type": "MEM_ACCESS_EVENT",
        "mem_type": "DRAM",
        "cycle": cycle,
        "direction": "read",
        "bytes": 64,
        "addr": 4096,
        "source_engine": "TE",
        "source_engine_id": 0,
        "cmdq_id": 1,
    } | fields


def token(start: object, end: object, **fields: object) -> Fields:
    """Return a TOKEN_EVENT."""
    return {
        "type": "TOKEN_EVENT",
        "phase": "DECODE",
        "token_index": 0,
        "start_cycle": start,
        "end_cycle": end,
    } | fields


def stall(start: object, end: object, **fields: object) -> Fields:
    """Return a STALL_EVENT."""
    return {
        "type": "STALL_EVENT",
        "master": "TE",
        "master_id": 0,
        "reason": "queue_full",
        "start_cycle": start,
        "end_cycle": end,
    } | fields


def command(cycle: object, event: object, **fields: object) -> Fields:
    """Return a CMD_EVENT."""
    return {
        "type": "CMD_EVENT",
        "cycle": cycle,
        "cmd_id": 7,
        "cmdq_id": 7,
        "event": event,
        "source": "CMDQ_EXECUTOR",
        "phase": "QKV_PROJ",
    } | fields


def marker(cycle: object, name: object = "PREFILL_DONE", **fields: object) -> Fields:
    """Return a MARKER_EVENT."""
    return {"type": "MARKER_EVENT", "name": name, "cycle": cycle} | fields


def sample(cycle: object, **fields: object) -> Fields:
    """Return an entry of bandwidth_samples."""
    return {
        "cycle": cycle,
        "window_cycles": 64,
        "dram_read_bytes": 512,
        "dram_write_bytes": 128,
    } | fields


def document(*events: object, **values: object) -> dict[str, object]:
    """Return the root object of a trace."""
    return {"version": "1.0", **values, "timeline_events": list(events)}


def without(fields: Mapping[str, object], *keys: str) -> Fields:
    """Return a copy without some keys."""
    return {key: value for key, value in fields.items() if key not in keys}


def as_lines(*values: object) -> str:
    """Return values as JSON Lines."""
    return "".join(json.dumps(value) + "\n" for value in values)


def read_text(
    folder: Path,
    text: str | bytes,
    *,
    name: str = "trace.json",
    block_bytes: int = 1 << 20,
    value_bytes: int = 1 << 22,
    first_seconds: float = 0.1,
    context: ReadContext | None = None,
    **options: str,
) -> Trace:
    """Write `text` to a file and read it; the trace is checked."""
    path = folder / name
    rewrite(path, text.encode() if isinstance(text, str) else text)
    reader = NpuJsonReader(
        block_bytes=block_bytes, value_bytes=value_bytes, first_seconds=first_seconds
    )
    with Source(path) as source:
        trace = reader.read(source, context or ReadContext(options=options))
    assert trace.check() == []
    return trace


def read_events(folder: Path, *events: object, **options: str) -> Trace:
    """Return the trace of a document with the given events."""
    return read_text(folder, json.dumps(document(*events)), **options)


def only_warning(trace: Trace) -> ReadWarning:
    """Return the trace's only warning."""
    (warning,) = trace.warnings
    return warning


def lane_named(trace: Trace, name: str) -> int:
    """Return the id of a lane."""
    (named,) = [lane.id for lane in trace.lanes if lane.name == name]
    return named


def spans_on(trace: Trace, name: str) -> list[tuple[str, int, int]]:
    """Return (name, start, end) of the spans on a lane, in raw cycles, in order."""
    lane, origin = lane_named(trace, name), trace.clock.origin
    rows = [i for i in range(len(trace.spans)) if trace.spans.lane[i] == lane]
    return [
        (
            trace.span_name(i),
            int(trace.spans.start[i]) + origin,
            int(trace.spans.end[i]) + origin,
        )
        for i in rows
    ]


def comparable(trace: Trace) -> dict[str, object]:
    """Return all that a trace says, without where it stood in the file."""
    names = trace.strings
    spans = trace.spans
    columns = {
        key: None if getattr(spans, key) is None else getattr(spans, key).tolist()
        for key in (
            "start",
            "end",
            "lane",
            "op",
            "flags",
            "token",
            "layer",
            "phase",
            "record",
            "color",
        )
    }
    loose = trace.accesses.loose
    return {
        "lanes": [
            (lane.name, lane.kind, dict(lane.attributes)) for lane in trace.lanes
        ],
        "spans": columns,
        "span_names": [names[i] for i in spans.name.tolist()],
        "markers": [
            (t, lane, names[n], names[d], r)
            for t, lane, n, d, r in zip(
                trace.markers.time.tolist(),
                trace.markers.lane.tolist(),
                trace.markers.name.tolist(),
                trace.markers.detail.tolist(),
                trace.markers.record.tolist(),
                strict=True,
            )
        ],
        "accesses": [
            loose.time.tolist(),
            loose.lane.tolist(),
            loose.span.tolist(),
            loose.token.tolist(),
            loose.what.layer.tolist(),
            loose.what.offset.tolist(),
            loose.what.size.tolist(),
            loose.what.kind.tolist(),
            loose.what.space.tolist(),
            loose.what.address.tolist(),
        ],
        "counters": [
            (c.name, c.unit, c.time.tolist(), str(c.value.tolist()))
            for c in trace.counters
        ],
        "flows": (trace.flows.source.tolist(), trace.flows.target.tolist()),
        "ops": trace.ops.names if trace.ops else None,
        "origin": trace.clock.origin,
        "warnings": sorted((w.code, w.message, w.count) for w in trace.warnings),
        "n_records": trace.info.n_records,
    }
