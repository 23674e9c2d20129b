"""What ``ggscope info`` says about the experts of a model."""

from typing import Any

import numpy as np

from ggscope.analysis.account import account
from ggscope.model.tables import AccessColumns, Array
from ggscope.model.trace import Trace
from ggscope.model.units import NOT_AVAILABLE, format_count


def experts_json(trace: Trace) -> dict[str, object] | None:
    """Return layers with experts, experts, accesses to them and choices; or None.

    None where nothing names an expert. ``choices`` counts rows of the router's lists.

    Tensors of experts are those that name one (``blk.0.ffn_up.3.weight``) or hold
    all of a layer (``_exps``). The number of experts is None where only the latter
    occur and no model file tells how many they stack: such names do not.
    """
    is_expert = _expert_tensors(trace)
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
    return {
        "layers": len(layers),
        "experts": _n_experts(trace, patterns.expert, loose.expert) or None,
        "accesses": int(per_row[in_pattern].sum()) + int(in_loose.sum()),
        "choices": len(trace.routing.listed()),
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
    values = np.unique(np.concatenate([c.astype(np.int64) for c in columns]))
    return values[values >= 0]
