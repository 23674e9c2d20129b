"""What an NPU does as objects of JSON, for ``ggscope npu --json``; and as CSV."""

from typing import Any

from ggscope.analysis.npu.bandwidth import Bandwidth
from ggscope.analysis.npu.facts import NpuFacts
from ggscope.analysis.npu.traffic import PARTS, TokenTraffic
from ggscope.descriptions.npu import (
    TABLES,
    ListedTable,
    banks_table,
    bits_table,
    claim_difference,
    claims_table,
    engines_table,
    not_recorded,
    stalls_table,
)
from ggscope.model.trace import Trace


def npu_json(trace: Trace, facts: NpuFacts) -> dict[str, Any]:
    """Return claims beside computed figures, and all tables; null is not known.

    Times are in ticks, rates in bytes per tick, shares 0..1.
    """
    return {
        "ticks": trace.clock.unit_name,
        "claims": [
            {
                "claim": c.name,
                "stated": c.stated,
                "computed": c.computed,
                "difference": claim_difference(c),
                "unit": c.unit,
                "agrees": c.agrees,
                "at_least": c.is_least,
                "basis": c.basis,
                "place": c.place,
            }
            for c in trace.info.stated
        ],
        "engines": _objects(engines_table(trace, facts)),
        "at_once": [
            {
                "kind": c.kind,
                "most": c.maximum,
                "begin": None if c.time is None else c.time.start,
                "end": None if c.time is None else c.time.end,
            }
            for c in facts.concurrency
        ],
        "stalls": _objects(stalls_table(facts)),
        "bandwidth": _bandwidth(facts.bandwidth),
        "banks": _objects(banks_table(facts)),
        "accesses": {"spm": len(facts.memory.spm), "dram": len(facts.memory.dram)},
        "bits": _objects(bits_table(facts)),
        "traffic": _traffic(facts.traffic),
        "not_recorded": not_recorded(trace, facts),
    }


def npu_table(name: str, trace: Trace, facts: NpuFacts) -> ListedTable:
    """Return one of `TABLES`, with plain values."""
    if name == "claims":
        listed = claims_table(trace)
        rows = tuple(
            (c.name, c.stated, c.computed, claim_difference(c), *row[4:])
            for c, row in zip(trace.info.stated, listed.rows, strict=True)
        )
        return ListedTable(name, listed.head, rows)
    return TABLES[name](trace, facts)


def _traffic(traffic: TokenTraffic) -> list[dict[str, Any]]:
    """Return bytes per token, and of no token, whose name is null."""
    keys = [part.replace(" ", "_") for part in PARTS]
    columns = [*traffic.moved.T, traffic.outside]
    rows = [
        {"token": name}
        | dict(zip(keys, moved.tolist(), strict=True))
        | {"moved": int(moved.sum()), "without_bytes": n_unsized}
        for name, moved, n_unsized in zip(
            (*traffic.names, None), columns, traffic.unsized.tolist(), strict=True
        )
    ]
    is_outside = bool(traffic.outside.any() or traffic.unsized[-1])
    return rows if is_outside else rows[:-1]


def _bandwidth(windows: Bandwidth) -> dict[str, Any]:
    return {
        "windows": len(windows),
        "peak": windows.peak,
        "highest": windows.top if windows.channels else None,
        "above_80_percent": None if windows.peak is None else len(windows.high()),
        "above_peak": None if windows.peak is None else len(windows.over_peak()),
        "overlapping": windows.n_overlapping,
    }


def _objects(listed: ListedTable) -> list[dict[str, object]]:
    keys = [title.replace(" ", "_") for title, _ in listed.head]
    return [dict(zip(keys, row, strict=True)) for row in listed.rows]
