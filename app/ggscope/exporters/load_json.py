"""How a model was read as an object of JSON, for ``ggscope load --json``."""

import math
from typing import Any

from ggscope.analysis.load.causes import Cause
from ggscope.analysis.load.facts import PERCENTILES
from ggscope.analysis.load.load import Load
from ggscope.descriptions.load import load_sentences
from ggscope.model.trace import Trace

_MAX_UNATTRIBUTED = 10_000


def load_json(
    trace: Trace, load: Load | None, limit: int | None = None
) -> dict[str, Any]:
    """Return figures, tensors and what caused reads; null where it is not recorded.

    Times are ticks of the trace, rates bytes per second where ticks are nanoseconds.

    Parameters
    ----------
    limit : rows of tensors and of unattributed reads; None = all, or the first 10,000.
    """
    if load is None:
        return {"level": None, "levels": []}
    facts, rows = load.facts, load.rows
    unit = trace.clock.unit
    per_second = trace.clock.per_s
    has_sizes = facts.n_sized > 0
    left = load.unattributed()
    return {
        "level": facts.key,
        "levels": list(load.keys),
        "clock": unit,
        "reads": facts.n,
        "reads_without_end": facts.n_open,
        "bytes": facts.bytes if has_sizes else None,
        "duration": facts.duration,
        "bytes_per_s": _number(facts.rate * per_second)
        if has_sizes and per_second
        else None,
        "busy": facts.busy if facts.latency else None,
        "queue_depth": {
            "mean": facts.mean_depth,
            "max": facts.max_depth,
            "share_at_1": _number(facts.alone_share),
        }
        if facts.busy
        else None,
        "latency": {
            f"p{p}" if p < 100 else "max": value
            for p, value in zip(PERCENTILES, facts.latency, strict=True)
        }
        if facts.latency
        else None,
        "queued_median": facts.queued if facts.queued >= 0 else None,
        "common_size": facts.common_size if has_sizes else None,
        "common_size_share": facts.common_share if has_sizes else None,
        "sizes": [
            {"from": b.low, "to": b.high, "reads": b.n, "bytes": b.bytes}
            for b in facts.buckets
        ],
        "sequential_share": _number(facts.sequential),
        "major_faults": facts.n_major,
        "minor_faults": facts.n_minor,
        "other_faults": facts.n_faults - facts.n_major - facts.n_minor,
        "mappings": facts.n_maps,
        "mapped_bytes": facts.mapped,
        "files": [
            {
                "name": share.name or None,
                "reads": share.n,
                "bytes": _known(share.bytes),
                "distinct_bytes": _known(share.distinct),
                "size": _known(share.size),
            }
            for share in facts.files
        ],
        "tensors": [
            {
                "tensor": trace.strings[int(trace.tensors.name[row.tensor])],
                "reads": row.n,
                "bytes": row.bytes if has_sizes else None,
                "ticks": row.ticks,
                "first": row.first,
            }
            for row in load.by_tensor(limit or len(trace.tensors))
        ],
        "causes": {
            cause.name.lower(): n
            for cause, n in zip(Cause, load.cause_counts, strict=True)
        },
        "unattributed": [
            {
                "start": int(rows.start[i]),
                "bytes": _known(int(rows.size[i])),
                "file": rows.files[int(rows.file[i])].path
                if rows.file[i] >= 0
                else None,
                "offset": _known(int(rows.offset[i])),
                "why": Cause(int(load.causes.cause[i])).name.lower(),
            }
            for i in left[: limit or _MAX_UNATTRIBUTED].tolist()
        ],
        "text": load_sentences(trace, facts),
    }


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
