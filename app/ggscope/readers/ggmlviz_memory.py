"""Allocations and frees become live bytes, leaks and mistakes."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64, Array
from ggscope.readers.ggmlviz_codes import encode

MAX_SIZE = 1 << 47
"""Larger sizes are damage: no process has such an address space."""


@dataclass(frozen=True, slots=True, eq=False)
class Allocations:
    """What one kind of allocation (tensors or backend buffers) did over time.

    Attributes
    ----------
    time : int64[n], ns of each event.
    live : float64[n], bytes alive after each event.
    allocs : rows of the allocating events.
    ended : row of the event that freed or replaced each of them; -1 while alive.
    strays : rows of frees of what was never allocated.
    doubles : rows of frees of what was already freed.
    reused : rows of allocations whose pointer was allocated before; most often by
        something else, which had been freed.
    oversized : rows whose size is beyond `MAX_SIZE` and counts as 0.
    """

    time: I64
    size: I64
    live: Array
    allocs: I64
    ended: I64
    strays: I64
    doubles: I64
    reused: I64
    oversized: I64

    @property
    def peak_bytes(self) -> int:
        """The most bytes ever alive."""
        return int(self.live.max(initial=0))

    @property
    def leaks(self) -> I64:
        """Rows of what was never freed."""
        return self.allocs[self.ended < 0]

    @property
    def leak_bytes(self) -> int:
        """Bytes alive at the end."""
        return int(self.size[self.leaks].sum(dtype=np.float64))


def follow(time: I64, pointer: Array, sizes: Array, is_alloc: Array) -> Allocations:
    """Return what events allocate, in time order.

    Parameters
    ----------
    time, pointer, sizes, is_alloc : of each event; the sizes of frees are not
        looked at.

    Notes
    -----
    An allocation of a pointer that is still alive replaces the earlier one: a
    tensor is reported again each time its graph is allocated.
    """
    n = len(time)
    codes, _, _ = encode(pointer)
    is_sound = sizes <= np.uint64(MAX_SIZE)
    size = np.where(is_alloc & is_sound, sizes, np.uint64(0)).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    same = np.zeros(n, np.bool_)
    same[1:] = codes[order][1:] == codes[order][:-1]
    previous = np.full(n, -1, np.int64)
    previous[order[1:]] = np.where(same[1:], order[:-1], -1)
    after = np.full(n, -1, np.int64)
    after[order[:-1]] = np.where(same[1:], order[1:], -1)

    # A free has size 0, so the size of the event before is what was alive.
    change = size - np.where(previous >= 0, size[previous], 0)
    # float64 is exact to 2^53 and cannot overflow; so is the counter it becomes.
    live = np.cumsum(change, dtype=np.float64)
    frees = np.flatnonzero(~is_alloc)
    was_alloc = is_alloc[previous[frees]]
    allocs = np.flatnonzero(is_alloc)
    # In the order of time within each pointer: how many allocations came before.
    of_pointer, grouped = codes[order], is_alloc[order].astype(np.int64)
    earlier = np.cumsum(grouped) - grouped
    before_pointer = earlier[np.searchsorted(of_pointer, of_pointer, "left")]
    is_again = np.zeros(n, np.bool_)
    is_again[order] = (grouped > 0) & (earlier > before_pointer)
    return Allocations(
        time=time, size=size, live=live, allocs=allocs, ended=after[allocs],
        strays=frees[previous[frees] < 0],
        doubles=frees[(previous[frees] >= 0) & ~was_alloc],
        reused=np.flatnonzero(is_again),
        oversized=np.flatnonzero(is_alloc & ~is_sound),
    )  # fmt: skip
