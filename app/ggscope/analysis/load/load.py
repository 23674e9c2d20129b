"""All that is known of how a model was read, of one level: see `Load`."""

from dataclasses import dataclass, replace

import numpy as np

from ggscope.analysis.load.causes import (
    Cause,
    Causes,
    TensorReads,
    causes_of,
    tensor_reads,
)
from ggscope.analysis.load.facts import LoadFacts, load_facts
from ggscope.analysis.load.rows import OPS, LoadRows, load_keys, load_rows
from ggscope.model.storage import IoKind
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import TimeRange

ALL_FILES = -1


@dataclass(frozen=True, slots=True)
class TensorLoad:
    """What was read of a tensor.

    Attributes
    ----------
    tensor : row of `Trace.tensors`.
    n, bytes : reads that are of it, and the bytes of it in these.
    ticks : of the reads with both ends, together.
    first : tick of the first one.
    """

    tensor: int
    n: int
    bytes: int
    ticks: int
    first: int


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Reads of a level, their figures, their tensors and what caused them.

    Attributes
    ----------
    keys : all levels that the trace has.
    whole : the reads of all files and of all times.
    rows : those that are looked at.
    cause_counts : reads of each `Cause`.
    """

    keys: tuple[str, ...]
    whole: LoadRows
    rows: LoadRows
    facts: LoadFacts
    tensors: TensorReads
    causes: Causes
    cause_counts: tuple[int, ...]

    def by_tensor(self, limit: int = 1000) -> list[TensorLoad]:
        """Return the tensors of which most bytes were read, largest first."""
        of = self.tensors
        if not len(of.tensor):
            return []
        order = np.argsort(of.tensor, kind="stable")
        tensor, read, amount = of.tensor[order], of.read[order], of.bytes[order]
        heads = np.flatnonzero(np.append(True, tensor[1:] != tensor[:-1]))
        took = np.where(self.rows.is_open, 0, self.rows.end - self.rows.start)[read]
        counts = np.diff(np.append(heads, len(tensor)))
        total, ticks = np.add.reduceat(amount, heads), np.add.reduceat(took, heads)
        first = np.minimum.reduceat(self.rows.start[read], heads)
        best = np.lexsort((tensor[heads], -counts, -total))[:limit]
        return [
            TensorLoad(
                int(tensor[heads[i]]), int(counts[i]), int(total[i]), int(ticks[i]),
                int(first[i]),
            )
            for i in best.tolist()
        ]  # fmt: skip

    def reads_of(self, tensor: int) -> I64:
        """Return the rows that read some of a tensor."""
        return np.unique(self.tensors.read[self.tensors.tensor == tensor])

    def unattributed(self) -> I64:
        """Return the rows of reads that no access of an op caused."""
        return np.flatnonzero(self.causes.cause != Cause.ACCESS)


def load_of(
    trace: Trace, key: str = "", file: int = ALL_FILES, time: TimeRange | None = None
) -> Load | None:
    """Return how the model was read; None where no read is recorded.

    Parameters
    ----------
    key : one of `load_keys`; "" = the one nearest to storage.
    file : place in ``whole.files``.
    time : reads that end or begin within; None = all.
    """
    keys = load_keys(trace)
    if not keys:
        return None
    key = key if key in keys else keys[0]
    whole = load_rows(trace, key)
    chosen = np.ones(len(whole), np.bool_)
    if file != ALL_FILES:
        chosen &= whole.file == file
    if time is not None:
        chosen &= (whole.end >= time.start) & (whole.start < time.end)
    rows = whole if chosen.all() else whole.take(chosen)
    queued = None
    if key != OPS and trace.storage is not None:
        queued = trace.storage.requests.queued[rows.row]
    facts = _with_maps(trace, load_facts(rows, queued))
    tensors = tensor_reads(trace, rows)
    causes = causes_of(trace, rows, tensors)
    counts = np.bincount(causes.cause, minlength=len(Cause))
    return Load(
        keys, whole, rows, facts, tensors, causes, tuple(int(n) for n in counts)
    )


def _with_maps(trace: Trace, facts: LoadFacts) -> LoadFacts:
    if trace.storage is None or facts.key != "call":
        return facts
    requests = trace.storage.requests
    maps = requests.kind == IoKind.MAP
    size = requests.size[maps]
    return replace(
        facts,
        n_maps=int(np.count_nonzero(maps)),
        mapped=int(size[size > 0].sum()),
    )
