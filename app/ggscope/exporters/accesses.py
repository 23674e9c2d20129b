"""Accesses as columns: one row per access, with its span and tensor."""

import numpy as np

from ggscope.exporters.columns import (
    ExportColumn,
    Numbers,
    known_numbers,
    texts_by_id,
)
from ggscope.model.tables import AccessKind, FlatAccesses, Space
from ggscope.model.trace import Trace, lane_titles


def access_columns(trace: Trace, accesses: FlatAccesses) -> dict[str, ExportColumn]:
    """Return the columns of a table of accesses; times name their unit."""
    what, titles = accesses.what, lane_titles(trace.lanes)
    span = accesses.span
    op = np.full(len(span), -1, np.int64)
    op[span >= 0] = trace.spans.op[span[span >= 0]]

    def tensor_name(tensor: int) -> str | None:
        if tensor < 0:
            return None
        return trace.strings[int(trace.tensors.name[tensor])]

    return {
        f"time_{trace.clock.unit_name}": Numbers(accesses.time),
        "span": known_numbers(span),
        "lane": texts_by_id(
            accesses.lane, lambda lane: titles[lane] if lane >= 0 else None
        ),
        "op": texts_by_id(op, lambda op: trace.op_name(op) if op >= 0 else None),
        "token": known_numbers(accesses.token),
        "kind": texts_by_id(what.kind, lambda kind: AccessKind(kind).name.lower()),
        "space": texts_by_id(what.space, lambda space: Space(space).name.lower()),
        "tensor": texts_by_id(what.tensor, tensor_name),
        "layer": known_numbers(what.layer),
        "expert": known_numbers(what.expert),
        "offset": known_numbers(what.offset),
        "size": known_numbers(what.size),
    }
