"""What accesses touch: ranges of the model file, runtime tensors, or neither.

Spans refer to patterns of accesses, so everything is found once per pattern. Where
the router's choices are known, an op on stacked experts touches the chosen slices
only; then it gets a pattern of its own per choice, a *variant*.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.file_map import FAR, FileMap, access_base
from ggscope.analysis.heatmap_rows import interval_of, pass_starts
from ggscope.model.routing import EXPERT_KEY
from ggscope.model.tables import I64, AccessColumns, Array, Space
from ggscope.model.trace import Trace


class Track(IntEnum):
    """Where an access goes."""

    FILE = 0
    """A known range of the model file."""
    BUFFER = 1
    """A runtime buffer."""
    UNPLACED = 2
    """A weight whose place in the file is not known."""
    OTHER = 3
    """Memory of a device, or nobody says which."""


@dataclass(frozen=True, slots=True, eq=False)
class Touches:
    """What the variants touch: rows ``first[v] : first[v + 1]`` of variant v.

    Attributes
    ----------
    first : int64[n_variants + 1], ascending from 0.
    track : uint8[n], `Track`.
    begin, stop : int64[n], global range of FILE touches, ``begin < stop``; else 0.
    size : int64[n], bytes, 0 where unknown. Less than the range where the place
        inside it is not known: then it is spread over the range.
        Each chosen slice of a stack is a touch, and counts as an access.
    passed : int64[n], bytes of the access that lie in experts that were not chosen.
    tensor : int32[n], row of ``Trace.tensors``, -1 none.
    layer : int32[n], of the access or else of its tensor, -1 none.
    """

    first: I64
    track: npt.NDArray[np.uint8]
    begin: I64
    stop: I64
    size: I64
    passed: I64
    tensor: npt.NDArray[np.int32]
    layer: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.track)

    def take(self, rows: Array, first: I64) -> "Touches":
        """Return the given rows, as the variants that `first` cuts them into."""
        return Touches(
            first, self.track[rows], self.begin[rows], self.stop[rows],
            self.size[rows], self.passed[rows], self.tensor[rows], self.layer[rows],
        )  # fmt: skip


def counted_words(passed: int, n_row_reads: int = 0) -> str:
    """Return what a sum of bytes read of the model file counts, for every view alike.

    Parameters
    ----------
    passed : bytes that are left out, as they lie in experts that were not chosen.
    n_row_reads : look-ups of rows that are left out.
    """
    words = ["every access counted"]
    if passed:
        words.append("of stacked experts only those chosen")
    if n_row_reads:
        words.append("look-ups of rows left out")
    return ", ".join(words)


def access_touches(
    trace: Trace, files: FileMap, what: AccessColumns, first: I64
) -> Touches:
    """Return what each access touches, one row per access.

    Parameters
    ----------
    first : int64[n_variants + 1], which accesses belong together.

    Notes
    -----
    An access with an offset of its own touches ``[offset, offset + size)``. Without
    one it touches its tensor; a known expert of a stack, the slice.
    """
    tensor = what.tensor.astype(np.int64)
    at = np.maximum(tensor, 0)
    n_tensors = len(trace.tensors)
    has_tensor = (tensor >= 0) & (n_tensors > 0)
    known = files.first if n_tensors else np.full(1, -1, np.int64)
    begin = np.where(has_tensor, known[at], -1)
    stop = np.where(has_tensor, (files.stop if n_tensors else known)[at], -1)
    offset, size = what.offset.astype(np.int64), what.size.astype(np.int64)
    own = (what.space == Space.FILE) & (offset >= 0) & (offset < FAR) & (size < FAR)
    start = access_base(trace, tensor, files.parts) + offset
    begin = np.where(own, start, begin)
    # Nobody knows how far an access without a size reaches: at most its tensor.
    reach = np.where(size > 0, start + size, np.maximum(stop, start + 1))
    stop = np.where(own, reach, stop)
    space = what.space
    maybe = (space == Space.FILE) | ((space == Space.UNKNOWN) & (begin >= 0))
    placed = maybe & (begin >= 0) & (stop > begin)
    track = np.full(len(what), Track.OTHER, np.uint8)
    track[space == Space.BUFFER] = Track.BUFFER
    track[space == Space.FILE] = Track.UNPLACED
    track[placed] = Track.FILE
    layer = np.asarray(what.layer, np.int32)
    if n_tensors:
        of_tensor = np.asarray(trace.tensors.layer, np.int32)[at]
        layer = np.where((layer < 0) & has_tensor, of_tensor, layer)
    found = Touches(
        first.astype(np.int64),
        track,
        np.where(placed, begin, 0),
        np.where(placed, stop, 0),
        np.clip(size, 0, FAR),
        np.zeros(len(what), np.int64),
        what.tensor.astype(np.int32),
        layer.astype(np.int32),
    )
    return _told_experts(files, what, found)


def _told_experts(files: FileMap, what: AccessColumns, found: Touches) -> Touches:
    """Narrow accesses that name their expert from the stack to its slice."""
    expert = np.asarray(what.expert, np.int64)
    rows = np.flatnonzero((expert >= 0) & (found.track == Track.FILE))
    if not len(rows) or not len(files):
        return found
    unit = np.searchsorted(files.offset, found.begin[rows]) + expert[rows]
    unit = np.minimum(unit, len(files) - 1)
    ends = files.offset[unit] + files.size[unit]
    fits = (files.expert[unit] == expert[rows]) & (ends <= found.stop[rows])
    fits &= files.offset[unit] >= found.begin[rows]
    rows, unit, ends = rows[fits], unit[fits], ends[fits]
    begin, stop, size, passed = (
        column.copy() for column in (found.begin, found.stop, found.size, found.passed)
    )
    begin[rows], stop[rows] = files.offset[unit], ends
    cut = np.minimum(size[rows], files.size[unit])
    passed[rows], size[rows] = size[rows] - cut, cut
    return Touches(
        found.first, found.track, begin, stop, size, passed, found.tensor, found.layer
    )


@dataclass(frozen=True, slots=True, eq=False)
class Variants:
    """Which variant each span is, and what variants touch.

    Attributes
    ----------
    column : int[n_spans], -1 touches nothing; the patterns themselves where no
        choices of experts are known.
    n_known, n_stacks : spans on stacked experts with known choices, and all of them.
    """

    column: Array
    touches: Touches
    n_known: int = 0
    n_stacks: int = 0


def span_variants(trace: Trace, files: FileMap) -> Variants:
    """Return what every span touches, with the chosen experts where known.

    Notes
    -----
    The choice is that of the same pass (or token) and layer. It narrows accesses
    that cover a whole stack; the bytes of the other slices are `Touches.passed`.
    """
    a = trace.accesses
    touches = access_touches(trace, files, a.patterns, a.first)
    stacks = _stack_accesses(files, a.patterns, touches)
    n_patterns = len(a.first) - 1
    owner = np.repeat(np.arange(n_patterns), np.diff(a.first))
    layers = np.full(n_patterns, -1, np.int64)
    layers[owner[stacks >= 0]] = touches.layer[stacks >= 0]
    if not (layers >= 0).any():
        return Variants(a.pattern, touches)
    spans = _spans_with(a.pattern, np.append(layers >= 0, False))
    pattern = a.pattern[spans].astype(np.int64)
    choices = _Choices.of(trace)
    group = choices.groups(trace, spans, layers[pattern])
    known = group >= 0
    if not known.any():
        return Variants(a.pattern, touches, 0, len(spans))
    width = max(len(choices.key), 1)
    pairs, which = np.unique(pattern[known] * width + group[known], return_inverse=True)
    more = _chosen(files, touches, stacks, choices, *np.divmod(pairs, width))
    column = a.pattern.astype(np.int32)
    column[spans[known]] = n_patterns + which
    return Variants(column, joined_touches(touches, more), int(known.sum()), len(spans))


def _spans_with(pattern: Array, wanted: npt.NDArray[np.bool_]) -> I64:
    """Return the spans whose pattern is wanted; the last entry is for -1."""
    return np.flatnonzero(wanted[pattern]).astype(np.int64)


def _stack_accesses(files: FileMap, what: AccessColumns, found: Touches) -> I64:
    """Return the first unit of each access that covers a whole stack; else -1."""
    result = np.full(len(found), -1, np.int64)
    rows = np.flatnonzero((found.track == Track.FILE) & (np.asarray(what.expert) < 0))
    if not len(rows) or not len(files):
        return result
    low = np.searchsorted(files.offset, found.begin[rows])
    high = np.searchsorted(files.offset, found.stop[rows])
    inside = np.minimum(low, len(files) - 1)
    whole = (high - low > 1) & (files.offset[inside] == found.begin[rows])
    whole &= found.size[rows] == found.stop[rows] - found.begin[rows]
    whole &= (files.expert[inside] == 0) & (found.layer[rows] >= 0)
    last = np.clip(high - 1, 0, len(files) - 1)
    whole &= files.expert[last] == high - low - 1
    result[rows[whole]] = low[whole]
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """Chosen experts by (pass or token, layer).

    when : int64[k], ascending: passes if `by_pass`, else tokens.
    key : int64[n], ascending, ``place in when * EXPERT_KEY + layer``.
    first : int64[n + 1], where each key's experts begin in `expert`.
    starts : first tick of each pass.
    """

    when: I64
    key: I64
    first: I64
    expert: I64
    by_pass: bool
    starts: I64

    @staticmethod
    def of(trace: Trace) -> "_Choices":
        """Return the choices of a trace's router."""
        r, starts = trace.routing, pass_starts(trace)
        rows = np.flatnonzero(np.asarray(r.is_used) & (np.asarray(r.layer) >= 0))
        time, span = r.time[rows], r.span[rows]
        if len(trace.spans):
            at = trace.spans.start[np.maximum(span, 0)]
            time = np.where(span >= 0, at, time)
        by_pass = bool(len(starts)) and bool((time >= 0).all())
        when = interval_of(starts, time) if by_pass else r.token[rows].astype(np.int64)
        good = when >= 0
        rows, when = rows[good], when[good]
        whens, place = np.unique(when, return_inverse=True)
        key = place * EXPERT_KEY + r.layer[rows].astype(np.int64)
        both = np.unique(key * EXPERT_KEY + r.expert[rows].astype(np.int64))
        key, expert = np.divmod(both, EXPERT_KEY)
        keys, first = np.unique(key, return_index=True)
        edges = np.append(first, len(both)).astype(np.int64)
        return _Choices(whens, keys, edges, expert, by_pass, starts)

    def groups(self, trace: Trace, spans: I64, layer: I64) -> I64:
        """Return the choice that each span made, -1 unknown."""
        if not len(self.key):
            return np.full(len(spans), -1, np.int64)
        if self.by_pass:
            when = interval_of(self.starts, trace.spans.start[spans])
        elif trace.spans.token is not None:
            when = trace.spans.token[spans].astype(np.int64)
        else:
            return np.full(len(spans), -1, np.int64)
        place = np.minimum(np.searchsorted(self.when, when), len(self.when) - 1)
        wanted = place * EXPERT_KEY + layer
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        is_found = (self.when[place] == when) & (self.key[at] == wanted)
        return np.where(is_found, at, -1)


def _chosen(
    files: FileMap,
    touches: Touches,
    stacks: I64,
    choices: _Choices,
    pattern: I64,
    group: I64,
) -> Touches:
    """Return the touches of each (pattern, choice): stacks narrowed to slices."""
    lengths = np.diff(touches.first)[pattern]
    access = ranges(touches.first[pattern], lengths)
    of_pair = np.repeat(np.arange(len(pattern)), lengths)
    chosen_from = choices.first[group[of_pair]]
    n_chosen = choices.first[group[of_pair] + 1] - chosen_from
    is_stack = stacks[access] >= 0
    n = np.where(is_stack, n_chosen, 1)
    row = np.repeat(np.arange(len(access)), n)
    step = np.arange(len(row)) - np.repeat(np.cumsum(n) - n, n)
    found = touches.take(access[row], np.zeros(1, np.int64))
    begin, stop, size, passed = found.begin, found.stop, found.size, found.passed
    narrow = np.flatnonzero(is_stack[row])
    where = row[narrow]
    expert = choices.expert[chosen_from[where] + step[narrow]]
    first = stacks[access[where]]
    unit = np.minimum(first + expert, len(files) - 1)
    # An expert that the stack does not have touches nothing of it.
    real = (files.expert[unit] == expert) & (files.offset[unit] < found.stop[narrow])
    begin[narrow] = files.offset[unit]
    whole = size[narrow].copy()
    size[narrow] = np.where(real, files.size[unit], 0)
    stop[narrow] = begin[narrow] + files.size[unit]
    used = np.zeros(len(access), np.int64)
    np.add.at(used, where, size[narrow])
    passed[narrow] = np.where(step[narrow] == 0, whole - used[where], 0)
    found.track[narrow[~real]] = Track.UNPLACED
    keep = np.ones(len(row), np.bool_)
    keep[narrow] = real | (passed[narrow] > 0)
    counts = np.bincount(of_pair[row[keep]], minlength=len(pattern))
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    kept = np.flatnonzero(keep)
    return found.take(kept, edges)


def ranges(begin: I64, length: I64) -> I64:
    """Return the numbers ``begin[i] .. begin[i] + length[i]`` of all i, in order."""
    total = int(length.sum())
    shift = np.repeat(begin - (np.cumsum(length) - length), length)
    return np.asarray(np.arange(total, dtype=np.int64) + shift)


def joined_touches(a: Touches, b: Touches) -> Touches:
    """Return the variants of `a`, then those of `b`."""
    first = np.concatenate([a.first, b.first[1:] + a.first[-1]])
    columns = (
        np.concatenate([getattr(a, name), getattr(b, name)])
        for name in ("track", "begin", "stop", "size", "passed", "tensor", "layer")
    )
    return Touches(first, *columns)


__all__ = [
    "Touches",
    "Track",
    "Variants",
    "access_touches",
    "counted_words",
    "joined_touches",
    "ranges",
    "span_variants",
]
