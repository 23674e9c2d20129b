"""What belongs together: from a selection to everything it has to do with."""

from dataclasses import dataclass, field

import numpy as np

from ggscope.model.selection import Selection
from ggscope.model.tables import I64, empty
from ggscope.model.trace import Trace

MOST_SPANS = 100_000
"""So many spans are listed; `Linked.n_spans` counts them all."""


def _none() -> I64:
    return empty(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Everything that one selection has to do with, by table; ids ascend.

    Attributes
    ----------
    selection : what was selected; its own table lists just what is selected.
    spans : ids, at most MOST_SPANS (the first ones); `n_spans` counts all.
    tensors : rows of ``Trace.tensors`` that the selection is, writes or accesses.
    accessed : of these, the ones it accesses (sources), not its own result.
    buffers : rows of ``Trace.buffers`` it accesses; for a buffer: itself.
    nodes : ids of graph nodes.
    experts : ``model.routing.expert_key`` of each expert it accesses or routes to.
    layers : transformer layers.
    ranges : int64[k, 2], bytes [first, stop) of the model file that it touches.
    rules : how spans and nodes were matched, in words; "" where nothing was.
    """

    selection: Selection = field(default_factory=Selection)
    spans: I64 = field(default_factory=_none)
    n_spans: int = 0
    tensors: I64 = field(default_factory=_none)
    accessed: I64 = field(default_factory=_none)
    buffers: I64 = field(default_factory=_none)
    nodes: I64 = field(default_factory=_none)
    experts: I64 = field(default_factory=_none)
    layers: I64 = field(default_factory=_none)
    ranges: I64 = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    rules: str = ""


def linked(trace: Trace, selection: Selection) -> Linked:
    """Return what `selection` has to do with; ids that do not exist are left out."""
    raise NotImplementedError


__all__ = ["MOST_SPANS", "Linked", "linked"]
