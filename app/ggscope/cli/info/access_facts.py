"""Accesses, sources, buffers and experts of a trace, as ``info --json`` has them."""

import numpy as np

from ggscope.analysis.workers import count_values
from ggscope.model.tables import AccessColumns, Array, Space, distinct
from ggscope.model.trace import Trace

SPACE_NAMES = {
    Space.FILE: "disk",
    Space.BUFFER: "buffer",
    Space.DRAM: "dram",
    Space.SPM: "spm",
    Space.UNKNOWN: "unknown",
}


def accesses_by_space(trace: Trace) -> dict[str, int]:
    """Return accesses by the space of their bytes; spaces without any are left out.

    An op that several threads recorded counts once; views do not count.
    """
    total = np.zeros(len(Space), np.int64)
    if len(trace.accesses.patterns):
        from ggscope.analysis.reads.op_io import op_accesses

        ops = op_accesses(trace)
        np.add.at(total, ops.what.space, ops.row_times() * ops.counts)
    if len(trace.accesses.loose):
        total += count_values(trace.accesses.loose.what.space, len(Space))
    return {SPACE_NAMES[Space(i)]: n for i, n in enumerate(total.tolist()) if n}


def buffers_json(trace: Trace) -> dict[str, object] | None:
    """Return how much memory buffers occupied; None without buffers.

    ``peak_at`` is in ticks of the clock; both are None where no allocation with a
    time and a size is recorded, as with buffers that only accesses name.
    """
    if not len(trace.buffers):
        return None
    from ggscope.analysis.buffers import never_freed, occupancy

    usage = occupancy(trace)
    peak = usage.peak
    sizes = trace.buffers.size
    return {
        "peak_bytes": None if peak is None else peak.bytes,
        "peak_at": None if peak is None else peak.time,
        "alive_at_peak": None if peak is None else len(peak.alive),
        "bytes": int(sizes[sizes >= 0].sum()),
        "never_freed": len(never_freed(trace.buffers)),
        "by_usage": {
            title: int(np.count_nonzero(usage.group == i))
            for i, title in enumerate(usage.groups)
        },
    }


def sources_json(trace: Trace) -> dict[str, int]:
    """Return how many ops have 0, 1, 2, 3 … recorded sources.

    Empty where reads are not recorded.
    """
    claims, pattern = trace.claims, trace.accesses.pattern
    if claims is None or not claims.has_results:
        return {}
    uses = count_values(pattern, len(claims.n_sources), trace.spans.op)
    n = np.maximum(claims.n_sources.astype(np.int64), 0)
    total = np.bincount(n, uses).astype(np.int64)
    return {str(i): count for i, count in enumerate(total.tolist()) if count}


def experts_json(trace: Trace) -> dict[str, object] | None:
    """Return layers with experts, experts, accesses to them and choices; or None.

    None without experts. ``choices`` counts the experts of the router's
    lists that compute, ``ranked`` all that they name, ``implied`` those known
    from sizes only, which no list names.

    Tensors of experts are those that name one (``blk.0.ffn_up.3.weight``) or hold
    all of a layer (``_exps``). The number of experts is None where only the latter
    occur and no model file states how many they stack; names do not.
    """
    is_expert = _expert_tensors(trace)
    may_have = is_expert.any() or len(trace.routing) or len(trace.accesses.patterns)
    if not (may_have or len(trace.accesses.loose)):
        return None
    from ggscope.analysis.reads.op_io import op_accesses

    ops = op_accesses(trace)
    patterns, loose = ops.what, trace.accesses.loose.what
    in_pattern, in_loose = (
        _is_of_expert(patterns, is_expert),
        _is_of_expert(loose, is_expert),
    )
    has_any = is_expert.any() or in_pattern.any() or in_loose.any()
    if not (has_any or len(trace.routing)):
        return None
    per_row = ops.row_times() * ops.counts
    layers = _distinct_known(
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


def _n_experts(trace: Trace, *numbers: Array) -> int:
    """Return how many experts a layer has: as stacked, else how many are named."""
    tensors = trace.tensors
    stacked = 0 if tensors.n_experts is None else int(tensors.n_experts.max(initial=0))
    if stacked:
        return stacked
    return len(_distinct_known(tensors.expert, *numbers, trace.routing.expert))


def _expert_tensors(trace: Trace) -> Array:
    """Return which tensors belong to experts, bool[n + 1]; the last one is none."""
    tensors = trace.tensors
    names = trace.strings.get_many(tensors.name.tolist())
    packed = np.array(["_exps" in name for name in names], np.bool_)
    return np.append(packed | (tensors.expert >= 0), False)


def _is_of_expert(accesses: AccessColumns, is_expert: Array) -> Array:
    return (accesses.expert >= 0) | is_expert[accesses.tensor]


def _distinct_known(*columns: Array) -> Array:
    """Return the distinct values that are not -1."""
    values = distinct(np.concatenate([c.astype(np.int64) for c in columns]))
    return values[values >= 0]
