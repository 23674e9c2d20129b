"""Ops by backend as objects of JSON, for ``ggscope backends --json``."""

from typing import Any

from ggscope.analysis.backends.graph_nodes import joined_nodes
from ggscope.analysis.backends.op_groups import op_groups
from ggscope.analysis.backends.op_spans import SpanRule, joined_spans
from ggscope.analysis.backends.splits import cpu_groups, split_groups
from ggscope.model.backend_ops import BackendOps
from ggscope.model.names import normalise
from ggscope.model.trace import Trace


def backends_json(trace: Trace, listing: BackendOps) -> dict[str, Any]:
    """Return ops, splits and ops on the CPU; null where the file does not state it.

    Sizes are bounds: the scheduler cuts them to whole KiB or MiB. `nodes_joined` counts
    listed ops that are nodes of the graphs that are open with the file; `spans` counts
    those that have spans, by how these were found (`none`, `ambiguous` and `other_op`
    have none).
    """
    nodes, spans = joined_nodes(trace, listing), joined_spans(trace, listing)
    sizes = _tensor_sizes(trace)
    return {
        "graphs": listing.n_graphs,
        "ops": [
            {
                "backend": group.backend or None,
                "op": group.op or None,
                "shape": group.shape or None,
                "type": group.dtype or None,
                "count": group.count,
                "graphs": group.n_graphs,
                "total_ns": group.time,
                "share": group.share,
                "bytes_least": group.min_bytes,
                "bytes_most": group.max_bytes,
                "flops_per_s": group.rate,
            }
            for group in op_groups(listing)
        ],
        "splits": [
            {
                "split": group.number,
                "backend": group.backend,
                "before": group.before or None,
                "op": group.op or None,
                "tensor": group.name or None,
                "why": group.reason.value,
                "data": group.data or None,
                "ops": group.n_nodes,
                "inputs": group.n_inputs,
                "copied_least": group.min_bytes,
                "copied_most": group.max_bytes,
                "copied_weights": group.weights,
                "times": group.count,
                "copies": _inputs(listing, int(group.rows[0]), sizes),
            }
            for group in split_groups(listing)
        ],
        "cpu": [
            {
                "op": group.op,
                "why": group.reason.value,
                "data": group.data or None,
                "count": group.count,
                "graphs": group.n_graphs,
                "begin_splits": group.begins,
                "bytes_least": group.min_bytes,
                "tensors": list(group.names),
                "causes": list(group.causes),
            }
            for group in cpu_groups(listing)
        ],
        "nodes_joined": nodes.n_found if trace.graphs else None,
        "nodes_listed": len(listing.ops),
        "spans": {rule.name.lower(): spans.count(rule) for rule in SpanRule}
        if len(trace.spans)
        else None,
        "not_computed": int((listing.ops.is_computed == 0).sum()),
    }


def _tensor_sizes(trace: Trace) -> dict[str, int]:
    """Return the bytes of the tensors of a model that is open with the list."""
    tensors = trace.tensors
    return {
        trace.strings[name]: size
        for name, size in zip(tensors.name.tolist(), tensors.size.tolist(), strict=True)
        if size >= 0
    }


def _inputs(
    listing: BackendOps, split: int, sizes: dict[str, int]
) -> list[dict[str, Any]]:
    """Return what is copied to a split; with the exact bytes of a model's tensors."""
    inputs = listing.inputs
    first, stop = inputs.split.searchsorted([split, split + 1]).tolist()
    return [
        {
            "tensor": listing.text(int(inputs.name[row])),
            "least": None if inputs.size[row] < 0 else int(inputs.size[row]),
            "most": None
            if inputs.size[row] < 0
            else int(inputs.size[row] + inputs.step[row] - 1),
            "tensor_bytes": sizes.get(normalise(listing.text(int(inputs.name[row])))),
        }
        for row in range(first, stop)
    ]
