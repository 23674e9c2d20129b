"""How long ops take and what they move, by the bits of the values they work on."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.once import once
from ggscope.model.tables import I64, Quality, quality_of
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class OpBits:
    """Spans of one op with values of so many bits.

    Attributes
    ----------
    op : its name.
    bits : of weights, of what is moved, or of activations; see `Spans.bits`.
    spans : int64[k], ids; those with a known time.
    ticks : that they take together.
    moved : bytes that they state; -1 where none does.
    n_moved : spans that state them.
    """

    op: str
    bits: int
    spans: I64
    ticks: int
    moved: int
    n_moved: int

    @property
    def mean_ticks(self) -> float:
        """Mean time of a span."""
        return self.ticks / len(self.spans)

    @property
    def mean_moved(self) -> float | None:
        """Mean bytes of the spans that state them; None without any."""
        return self.moved / self.n_moved if self.n_moved else None


@once
def op_bits(trace: Trace) -> tuple[OpBits, ...]:
    """Return every op and number of bits that occur together, by op and bits."""
    spans = trace.spans
    if spans.bits is None:
        return ()
    known = quality_of(spans.flags) <= Quality.DERIVED
    ids = np.flatnonzero(known & (spans.bits >= 0) & (spans.op >= 0))
    key = spans.op[ids].astype(np.int64) * 128 + spans.bits[ids]
    keys, group = np.unique(key, return_inverse=True)
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group, minlength=len(keys))
    parts = np.split(ids[order], np.cumsum(counts)[:-1]) if len(keys) else []
    moved = spans.moved
    result = []
    for k, mine in zip(keys.tolist(), parts, strict=True):
        sizes = np.zeros(0, np.int64) if moved is None else moved[mine].astype(np.int64)
        sizes = sizes[sizes >= 0]
        result.append(
            OpBits(
                trace.op_name(k // 128),
                k % 128,
                mine,
                int((spans.end[mine] - spans.start[mine]).sum()),
                int(sizes.sum()) if len(sizes) else -1,
                len(sizes),
            )
        )
    return tuple(sorted(result, key=lambda x: (x.op, x.bits)))
