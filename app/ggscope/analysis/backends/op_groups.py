"""Listed ops added up by backend, op, shape and type."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.backend_ops import BackendOps, ListedOps
from ggscope.model.tables import I64, Array

KEYS = ("backend", "op", "shape", "dtype")


@dataclass(frozen=True, slots=True, eq=False)
class OpGroup:
    """Ops that agree in backend, op, shape and type.

    Attributes
    ----------
    backend, op, shape, dtype : texts of the file; "" where it has none.
    count : how many ops.
    n_graphs : in how many graphs of the file.
    time : ns of all, None where not all have one; `share` of the time of all ops.
    min_bytes, max_bytes : bytes of their results; None where not all are known.
    rate : float operations per second as stated, weighted by time; None without.
    rows : of `BackendOps.ops`, ascending.
    """

    backend: str
    op: str
    shape: str
    dtype: str
    count: int
    n_graphs: int
    time: int | None
    share: float | None
    min_bytes: int | None
    max_bytes: int | None
    rate: float | None
    rows: I64

    @property
    def mean(self) -> float | None:
        """Mean time of an op, ns."""
        return None if self.time is None or not self.count else self.time / self.count


def op_groups(listing: BackendOps, rows: I64 | None = None) -> tuple[OpGroup, ...]:
    """Return groups, the longest first, then the most frequent.

    Parameters
    ----------
    rows : of the ops that count; None = all that their graph computes.
    """
    numbers = np.flatnonzero(listing.ops.is_computed != 0) if rows is None else rows
    ops = listing.ops.take(numbers)
    if not len(ops):
        return ()
    keys = np.stack([getattr(ops, key) for key in KEYS], axis=1).astype(np.int64)
    different, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(different) + 1))
    whole = sum(ops.time[ops.time > 0].tolist())
    groups = [
        _group(listing, ops, different[i].tolist(), order[a:b], numbers, whole)
        for i, (a, b) in enumerate(
            zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        )
    ]
    groups.sort(key=lambda g: (-(g.time or 0), -g.count, g.backend, g.op, g.shape))
    return tuple(groups)


def _group(
    listing: BackendOps,
    ops: ListedOps,
    key: list[int],
    rows: I64,
    numbers: I64,
    whole: int,
) -> OpGroup:
    time = _sum(ops.time[rows])
    min_bytes, step = _sum(ops.size[rows]), _sum(ops.step[rows])
    rated = rows[(ops.rate[rows] >= 0) & (ops.time[rows] > 0)]
    weight = ops.time[rated].astype(np.float64)
    rate = (
        float((ops.rate[rated] * weight).sum() / weight.sum()) if len(rated) else None
    )
    backend, op, shape, dtype = (listing.text(number) for number in key)
    return OpGroup(
        backend=backend,
        op=op,
        shape=shape,
        dtype=dtype,
        count=sum(ops.count[rows].tolist()),
        n_graphs=len(np.unique(ops.graph[rows])),
        time=time,
        share=None if time is None or not whole else time / whole,
        min_bytes=min_bytes,
        max_bytes=None
        if min_bytes is None or step is None
        else min_bytes + step - len(rows),
        rate=None if rate is None else float(rate),
        rows=numbers[rows],
    )


def _sum(values: Array) -> int | None:
    """Return the sum of numbers; None where one of them is unknown (-1)."""
    if not len(values) or int(values.min()) < 0:
        return None
    return int(sum(values.tolist()))
