"""How many bytes of weights are read per generated token, and how fast."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.reads.op_io import Direction, op_accesses
from ggscope.analysis.reads.weights import is_weight
from ggscope.analysis.summary.bars import GRAPH_PASS, TokenBars
from ggscope.analysis.workers import chunks
from ggscope.model.tables import AccessKind, Phase
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True)
class WeightTraffic:
    """Weights that are read while tokens are generated.

    Attributes
    ----------
    bytes : known bytes that are read, each op's once.
    unknown : at most so many further bytes.
    n_tokens : generated tokens.
    ticks : in which any of them is computed.
    """

    bytes: int
    unknown: int
    n_tokens: int
    ticks: int

    @property
    def per_token(self) -> float | None:
        """Mean bytes per generated token; None where some are not known."""
        known = self.n_tokens and self.bytes and not self.unknown
        return self.bytes / self.n_tokens if known else None

    @property
    def rate(self) -> float | None:
        """Bytes per tick of computing; None where some are not known."""
        known = self.ticks and self.bytes and not self.unknown
        return self.bytes / self.ticks if known else None


def weight_traffic(trace: Trace, bars: TokenBars) -> WeightTraffic | None:
    """Return the weights that are read in the generation phase; O(spans).

    None where the trace records no accesses, or no generated tokens.
    """
    spans, accesses = trace.spans, trace.accesses
    is_generated = bars.of_phase(Phase.GENERATE)
    has_accesses = len(accesses.patterns) or len(accesses.loose)
    if not is_generated.any() or bars.noun == GRAPH_PASS or not has_accesses:
        return None
    tokens = bars.n_tokens[is_generated]
    if spans.phase is None or (tokens < 0).any():
        return None
    table = op_accesses(trace)
    is_read = is_weight(trace, table.what) & (table.direction == Direction.READ)
    known = np.append(table.per_entry(np.where(is_read, table.known, 0)), 0)
    unknown = np.append(table.per_entry(np.where(is_read, table.unknown, 0)), 0)
    n_bytes = n_unknown = 0
    for piece in chunks(len(spans)):
        entry = table.counted_entries(piece)[spans.phase[piece] == Phase.GENERATE]
        n_bytes += int(known[entry].sum())
        n_unknown += int(unknown[entry].sum())
    loose = accesses.loose
    rows = np.flatnonzero(loose.span >= 0)
    rows = rows[spans.phase[loose.span[rows]] == Phase.GENERATE]
    if len(rows):
        what = loose.what.take(rows)
        is_read = is_weight(trace, what) & (what.kind == AccessKind.READ)
        sizes = what.size[is_read].astype(np.int64)
        n_bytes += int(np.maximum(sizes, 0).sum())
        n_unknown += int(np.count_nonzero(sizes < 0))
    return WeightTraffic(
        n_bytes, n_unknown, int(tokens.sum()), bars.covered(is_generated)
    )
