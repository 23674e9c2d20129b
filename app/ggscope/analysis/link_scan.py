"""Which spans make certain accesses, and which bytes of the model file they touch."""

import re
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ggscope.analysis.workers import Watcher, chunks, share_out
from ggscope.model.routing import EXPERT_KEY
from ggscope.model.tables import I64, AccessColumns, Array, Space, empty, stacked, taken
from ggscope.model.trace import Trace

Bools = npt.NDArray[np.bool_]
Touch = Callable[[AccessColumns], Bools]
"""Tells of n accesses which ones are meant, bool[n]."""
_SLICE = re.compile(r"\[\d+\]$")


def marked(n: int, rows: Array) -> Bools:
    """Return bool[n + 1] with `rows` set; the last entry answers for -1."""
    table = np.zeros(n + 1, np.bool_)
    table[rows] = True
    return table


def spans_with(
    trace: Trace,
    touch: Touch,
    own: Bools | None,
    most: int,
    watcher: Watcher | None = None,
    more: I64 | None = None,
) -> tuple[I64, int, AccessColumns]:
    """Return the spans that make an access that `touch` marks.

    Parameters
    ----------
    own : bool[n_tensors + 1], spans that write such a tensor count too.
    most : so many ids are returned, the first ones.
    more : spans that count in any case.

    Returns
    -------
    Their ids, ascending; their number; and the accesses that were marked, each
    pattern's once.
    """
    accesses, spans = trace.accesses, trace.spans
    hits = touch(accesses.patterns)
    pattern_hit = patterns_with(trace, hits)
    loose_hits = touch(accesses.loose.what)
    extra = accesses.loose.span[loose_hits].astype(np.int64)
    extra = np.unique(
        np.concatenate([extra, empty(np.int64) if more is None else more])
    )
    extra = extra[extra >= 0]
    tensor = spans.tensor if own is not None and own.any() else None
    found: dict[int, I64] = {}
    counts: dict[int, int] = {}

    def look(_: int, rows: slice) -> None:
        mask = pattern_hit[accesses.pattern[rows]]
        if tensor is not None and own is not None:
            mask |= own[tensor[rows]]
        begin, end = np.searchsorted(extra, (rows.start, rows.stop))
        mask[extra[begin:end] - rows.start] = True
        ids = np.flatnonzero(mask)
        counts[rows.start] = len(ids)
        found[rows.start] = ids[:most] + rows.start

    if pattern_hit.any() or tensor is not None:
        share_out(look, chunks(len(spans)), watcher)
        listed = [empty(np.int64), *(found[k] for k in sorted(found))]
        ids, n = np.concatenate(listed)[:most], sum(counts.values())
    else:
        ids, n = extra[:most], len(extra)
    what = accesses.patterns.take(np.flatnonzero(hits))
    return ids, n, stacked(what, accesses.loose.what.take(np.flatnonzero(loose_hits)))


def tensor_touch(trace: Trace, ids: I64) -> Touch:
    """Return a test for "is an access of one of these tensors".

    A tensor that stacks experts may also be listed slice by slice (``…[4]``): the
    stack's accesses are those of its slices, and a slice's are those of the stack
    that may be of its expert.
    """
    kin, expert = with_kin(trace, ids)
    rows, mine = marked(len(trace.tensors), kin), marked(len(trace.tensors), ids)

    def touch(what: AccessColumns) -> Bools:
        hit: Bools = rows[what.tensor]
        if expert < 0:
            return hit
        is_other = (what.expert >= 0) & (what.expert != expert)
        own: Bools = mine[what.tensor] | ~is_other
        return own & hit

    return touch


def buffer_touch(trace: Trace, ids: I64) -> Touch:
    """Return a test for "is an access of one of these buffers".

    An address is a buffer's id: accesses may name another life of it.
    """
    address = trace.buffers.address
    known = address[ids]
    rows = marked(len(address), ids)
    rows[:-1] |= np.isin(address, known[known != 0])

    def touch(what: AccessColumns) -> Bools:
        return rows[what.buffer]

    return touch


def expert_touch(trace: Trace, keys: I64) -> Touch:
    """Return a test for "is an access of one of these experts" (expert keys)."""

    def touch(what: AccessColumns) -> Bools:
        return np.isin(expert_keys(trace, what), keys)

    return touch


def expert_keys(trace: Trace, what: AccessColumns, layer: int = -1) -> I64:
    """Return ``model.routing.expert_key`` of each access, -1 where it has none.

    Parameters
    ----------
    layer : of accesses that neither say theirs nor have a tensor that does.
    """
    layers = np.where(
        what.layer >= 0, what.layer, taken(trace.tensors.layer, what.tensor)
    )
    layers = np.where(layers >= 0, layers, layer)
    experts = np.where(
        what.expert >= 0, what.expert, taken(trace.tensors.expert, what.tensor)
    )
    known = (layers >= 0) & (experts >= 0)
    return np.where(known, layers * EXPERT_KEY + experts, -1)


def routed_keys(trace: Trace) -> I64:
    """Return the expert key of every choice of the router, int64."""
    r = trace.routing
    return r.layer.astype(np.int64) * EXPERT_KEY + r.expert


def patterns_with(trace: Trace, hits: Bools) -> Bools:
    """Return bool[n_patterns + 1]: patterns with a marked row; the last is False."""
    first = trace.accesses.first
    total = np.concatenate([[0], np.cumsum(hits)])
    return np.append(total[first[1:]] > total[first[:-1]], False)


def with_kin(trace: Trace, ids: I64) -> tuple[I64, int]:
    """Return tensors and what is the same under another row, and their one expert.

    The slices of a stack of experts, or the stack of a slice.

    Returns
    -------
    Rows; and the expert where all `ids` are slices of one expert, else -1.
    """
    tensors = trace.tensors
    expert = tensors.expert[ids]
    same = len(np.unique(expert)) == 1 and int(expert[0]) >= 0
    if not (tensors.expert >= 0).any():
        return ids, -1
    bases = {stack_name(trace, row) for row in ids.tolist()}
    listed = np.flatnonzero(tensors.expert >= 0)
    kin = [row for row in listed.tolist() if stack_name(trace, row) in bases]
    if same:
        kin = [row for row in kin if int(tensors.expert[row]) == int(expert[0])]
        whole = {i for base in bases if (i := trace.strings.find(base)) >= 0}
        kin += np.flatnonzero(np.isin(tensors.name, sorted(whole))).tolist()
    rows = np.union1d(ids, np.array(kin, np.int64))
    return rows, int(expert[0]) if same else -1


def stack_name(trace: Trace, row: int) -> str:
    """Return the name of a tensor without the number of a slice: ``…_exps.weight``."""
    return _SLICE.sub("", trace.strings[int(trace.tensors.name[row])])


# -- bytes of the model file ---------------------------------------------------


def merged_ranges(ranges: I64) -> I64:
    """Return the union of ranges [first, stop), int64[k, 2], ascending."""
    ranges = ranges[ranges[:, 1] > ranges[:, 0]]
    if not len(ranges):
        return np.zeros((0, 2), np.int64)
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ranges[:, 1])
    begins = np.flatnonzero(np.append(True, ranges[1:, 0] > reach[:-1]))
    ends = np.append(begins[1:], len(ranges)) - 1
    return np.stack([ranges[begins, 0], reach[ends]], axis=1)


def tensor_ranges(trace: Trace, rows: I64) -> I64:
    """Return where tensors lie in the model file, int64[k, 2]; known places only."""
    offset, size = trace.tensors.offset[rows], trace.tensors.size[rows]
    known = (offset >= 0) & (size > 0)
    return np.stack([offset[known], offset[known] + size[known]], axis=1)


def access_ranges(trace: Trace, what: AccessColumns) -> I64:
    """Return the bytes of the model file that accesses touch, merged, int64[k, 2].

    An access without an offset of its own touches its tensor, or the slice of its
    expert; one without a size a single byte.
    """
    in_file = what.space == Space.FILE
    own = in_file & (what.offset >= 0)
    first = what.offset[own].astype(np.int64)
    ranges = [np.stack([first, first + np.maximum(what.size[own], 1)], axis=1)]
    rest = np.flatnonzero(in_file & ~own & (what.tensor >= 0))
    if len(rest):
        begin, stop = slices(trace, what.tensor[rest], what.expert[rest])
        ranges.append(np.stack([begin, stop], axis=1))
    return merged_ranges(np.concatenate(ranges))


def slices(trace: Trace, tensor: Array, expert: Array) -> tuple[I64, I64]:
    """Return first and stop of tensors in the file, or of an expert's slice of them.

    Slice k of n lies at ``offset + k * size // n``. Equal where it is not known.
    """
    t = trace.tensors
    offset, size = t.offset[tensor].astype(np.int64), t.size[tensor].astype(np.int64)
    known = (offset >= 0) & (size > 0)
    begin, stop = np.where(known, offset, 0), np.where(known, offset + size, 0)
    if t.n_experts is None:
        return begin, stop
    n, k = t.n_experts[tensor].astype(np.int64), expert.astype(np.int64)
    cut = known & (n > 0) & (k >= 0) & (k < n)
    n = np.maximum(n, 1)
    return (
        np.where(cut, offset + k * size // n, begin),
        np.where(cut, offset + (k + 1) * size // n, stop),
    )


def expert_ranges(trace: Trace, layer: int, expert: int) -> tuple[I64, I64]:
    """Return the tensors that hold an expert's weights, and its bytes in the file."""
    t = trace.tensors
    of_layer = t.layer == layer
    rows = of_layer & (t.expert == expert)
    if t.n_experts is not None:
        rows |= of_layer & (t.n_experts > expert) & (t.expert < 0)
    ids = np.flatnonzero(rows)
    begin, stop = slices(trace, ids, np.full(len(ids), expert))
    return ids, np.stack([begin, stop], axis=1)
