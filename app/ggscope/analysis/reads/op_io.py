"""The accesses of ops: what they read and write, how much, and what is unknown.

A trace lists the sources of its ops. What an op does with them is not in the list: it
follows from the op's definition (``model.ggml.rules``), from the rows and experts
that other sources name, and from the router's choices. Every view asks here, so that
all of them say the same of one access.

Spans refer to patterns of accesses, so everything is decided once per *entry*: a
pattern as one op does it, or as one op does it with one choice of experts. The work
is per entry; of the spans only narrow columns are looked at.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.derived_cache import DerivedCache
from ggscope.analysis.experts.slices import expert_slices, stated_experts
from ggscope.analysis.heat.rows import interval_of, pass_starts
from ggscope.analysis.once import once
from ggscope.analysis.workers import chunks, count_values
from ggscope.model.ggml.rules import INDEX_BYTES, MASK_SLOT, Operand, operand
from ggscope.model.routing import EXPERT_KEY, UNKNOWN_MORE
from ggscope.model.tables import (
    I64,
    AccessColumns,
    AccessKind,
    Array,
    Space,
    SpanFlag,
    distinct,
    ranges,
    ranked,
    stacked,
    taken,
)
from ggscope.model.tokens import has_ubatches
from ggscope.model.trace import Trace

_STACK_WORD = "_exps"
_STACK_SLOTS = {"MUL_MAT_ID": 0, "ADD_ID": 1}
"""Which source of an op is the stack whose experts another one names."""
_WRITING = (Operand.WRITTEN, Operand.PARTLY_WRITTEN, Operand.ROWS_WRITTEN)
_WIDEST = 2
"""A row that is written has at most so many times the bytes that it had: of 16 bits
for each number it gets 32."""
_MAX_EXPERTS = 1 << 12
_MAX_KEPT = 1 << 22
"""Spans of a trace whose accesses with choices are cached: 4 bytes each."""
Bools = npt.NDArray[np.bool_]
_NOT_COMPARED = "threads_not_compared"
"""Code of the problem of a trace that says so."""


class Direction(IntEnum):
    """What an op does with the bytes of an access; the first two are `AccessKind`."""

    READ = int(AccessKind.READ)
    WRITE = int(AccessKind.WRITE)
    NEITHER = 2
    """A view: the op touches no byte of it."""


class Knowledge(IntEnum):
    """Whether it is known how many bytes an access moves."""

    KNOWN = 0
    UNKNOWN = 1
    """The format records a size, but the op moves only part of that."""
    NOT_RECORDED = 2
    """The format records no size."""


@dataclass(frozen=True, slots=True, eq=False)
class AccessTable:
    """What the spans of a trace read and write.

    Attributes
    ----------
    first : int64[n_entries + 1], entry e makes the accesses of rows
        ``first[e] : first[e + 1]``.
    what : the accesses as recorded, one row each; of a stack of experts one row per
        chosen expert, with `expert`, and one more for those that are unknown.
    direction : uint8[n], `Direction`.
    known : int64[n], bytes that are surely moved.
    unknown : int64[n], bytes that may be moved besides, at most.
    passed : int64[n], recorded bytes that are surely not moved: experts that were
        not chosen.
    counts : int64[n], 1 for the row that stands for the recorded access, 0 for the
        further experts of one access and for what is none.
    is_rows : bool[n], whether it reads some rows of what is recorded.
    is_stack : bool[n], whether it is of a stack of experts as a whole.
    column : int[n_spans], entry of each span, -1 nothing; see `entries`.
    flags : of the spans.
    base : int64[n_entries], the entry without a choice that each one comes from; those
        without come first.
    n_repeated : spans that record an op that another span records.
    """

    first: I64
    what: AccessColumns
    direction: npt.NDArray[np.uint8]
    known: I64
    unknown: I64
    passed: I64
    counts: I64
    is_rows: Bools
    is_stack: Bools
    column: Array
    flags: Array
    base: I64
    n_repeated: int = 0

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def knowledge(self) -> npt.NDArray[np.uint8]:
        """`Knowledge` of each row, uint8[n]."""
        knowledge = np.full(len(self.known), Knowledge.KNOWN, np.uint8)
        knowledge[self.unknown > 0] = Knowledge.UNKNOWN
        knowledge[self.what.size < 0] = Knowledge.NOT_RECORDED
        return knowledge

    @property
    def owner(self) -> I64:
        """Entry of each row, int64[n]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))

    @property
    def is_access(self) -> Bools:
        """Whether each row touches memory at all; views do not. bool[n]."""
        return np.asarray(self.direction != Direction.NEITHER, np.bool_)

    @property
    def unsized(self) -> I64:
        """Accesses that move an unknown number of bytes, int64[n], 1 or 0.

        The bytes of a view, of experts not chosen and of rows named elsewhere are
        known without a recorded size.
        """
        is_open = (self.what.size < 0) & (self.known + self.unknown + self.passed == 0)
        return np.where(is_open, self.counts, 0).astype(np.int64)

    def entries(self, rows: slice | Array) -> Array:
        """Return the entry of each of some spans; -1 = no access."""
        return self.column[rows]

    def counted_entries(self, rows: slice | Array = slice(None)) -> Array:
        """Return `entries`, with -1 for spans whose op is counted with another span.

        Sums over these count each op once, however many threads recorded it.
        """
        entry = self.column[rows]
        if not self.n_repeated:
            return entry
        return np.where(is_repeated(self.flags[rows]), entry.dtype.type(-1), entry)

    def occurrences(self, mask: Bools | None = None) -> I64:
        """Return the number of ops of each entry, int64[n_entries]; each op once.

        Parameters
        ----------
        mask : bool[n_spans], only these spans.
        """
        if mask is None and not self.n_repeated:
            return count_values(self.column, len(self))
        total = np.zeros(len(self), np.int64)
        for chunk in chunks(len(self.column)):
            entry = self.counted_entries(chunk)
            use = entry >= 0
            if mask is not None:
                use &= mask[chunk]
            total += np.bincount(entry[use], minlength=len(self))
        return total

    def row_times(self, mask: Bools | None = None) -> I64:
        """Return how often each row is done, int64[n]; see `times`."""
        return np.repeat(self.occurrences(mask), np.diff(self.first))

    def per_entry(self, values: I64) -> I64:
        """Return the sum of a value per row over each entry, int64[n_entries]."""
        cumulated = np.concatenate([[0], np.cumsum(values)]).astype(np.int64)
        return np.asarray(
            cumulated[self.first[1:]] - cumulated[self.first[:-1]], np.int64
        )

    def known_of(self, direction: Direction) -> I64:
        """Return the known bytes of the rows of one direction, int64[n]; else 0."""
        return np.where(self.direction == direction, self.known, 0).astype(np.int64)

    def unknown_of(self, direction: Direction) -> I64:
        """Return the unknown bytes of the rows of one direction, int64[n]; else 0."""
        return np.where(self.direction == direction, self.unknown, 0).astype(np.int64)


def is_repeated(flags: Array) -> Bools:
    """Return which spans record an op that is counted with another span."""
    return np.asarray((flags & int(SpanFlag.REPEATED)) != 0, np.bool_)


def counts_once(trace: Trace) -> bool:
    """Return whether each op counts once, whichever threads record it.

    So it does unless there were too many threads to compare: of those that were not,
    each counts an op for itself.
    """
    return all(problem.code != _NOT_COMPARED for problem in trace.warnings)


def loose_bytes(trace: Trace) -> tuple[I64, I64]:
    """Return known and passed bytes of the accesses that belong to no pattern.

    int64[n] each; see `AccessTable`. They are taken as they are recorded.
    """
    what = trace.accesses.loose.what
    known = np.maximum(what.size.astype(np.int64), 0)
    passed = _beyond_slice(trace, what, known, _stacks(trace))
    return known - passed, passed


def loose_unsized(trace: Trace) -> Bools:
    """Return which accesses without a pattern have no recorded size, bool[n]."""
    return np.asarray(trace.accesses.loose.what.size < 0, np.bool_)


_with_routing: DerivedCache[Trace, AccessTable] = DerivedCache("accesses with routing")


def op_accesses(trace: Trace) -> AccessTable:
    """Return the accesses of a trace, with the choices of experts as far as known.

    Notes
    -----
    O(spans + distinct accesses); cached as long as the trace lives.
    """
    table = _with_routing.get(trace)
    if table is None:
        plain = _without_choices(trace)
        table = _with_choices(trace, plain)
        if table is plain or len(trace.spans) <= _MAX_KEPT:
            _with_routing[trace] = table
    return table


# -- by the op's definition ----------------------------------------------------


@once
def _without_choices(trace: Trace) -> AccessTable:
    """Return what the definitions of the ops say, one entry per pattern and op."""
    a = trace.accesses
    column, of_pattern, op = _entries(trace)
    length = np.diff(a.first)[of_pattern]
    first = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    is_same = len(of_pattern) == len(a.first) - 1
    what = (
        a.patterns if is_same else a.patterns.take(ranges(a.first[of_pattern], length))
    )
    return _defined(trace, what, first, op, column)


def _defined(
    trace: Trace, what: AccessColumns, first: I64, op: I64, column: Array
) -> AccessTable:
    """Return the accesses of entries, by the definitions of their ops."""
    stacks = _stacks(trace)
    owner = np.repeat(np.arange(len(op)), np.diff(first))
    slot = np.arange(len(what)) - first[owner] if len(owner) else first[:0]
    does = _operands(trace, op[owner], slot)
    size = np.maximum(what.size.astype(np.int64), 0)
    is_all = _is_all(trace, what)
    is_stack = stacks[what.tensor] & (what.expert < 0) & is_all
    is_rows = (does == Operand.ROWS) & is_all
    is_part = (does == Operand.PARTLY_WRITTEN) | (does == Operand.ROWS_WRITTEN)
    has_mask = np.diff(first)[owner] > MASK_SLOT if len(owner) else owner != 0
    is_masked = (does == Operand.MASKED) & has_mask
    chooses = (does == Operand.EXPERTS) & is_stack
    direction = _directions(what, does)
    known, unknown = size.copy(), np.zeros(len(size), np.int64)
    open_ = is_part | chooses | is_masked
    known[open_], unknown[open_] = 0, size[open_]
    rows_of = np.flatnonzero(does == Operand.ROWS_WRITTEN)
    unknown[rows_of] = _most_written(size, first[owner[rows_of]], rows_of)
    named = np.flatnonzero(is_rows)
    known[named], unknown[named] = _of_rows(trace, what, owner, named)
    passed = _beyond_slice(trace, what, known, stacks)
    known -= passed
    for values in (known, unknown, passed):
        values[direction == Direction.NEITHER] = 0
    flags = trace.spans.flags
    return AccessTable(
        first=first,
        what=what,
        direction=direction,
        known=known,
        unknown=unknown,
        passed=passed,
        counts=(direction != Direction.NEITHER).astype(np.int64),
        is_rows=is_rows,
        is_stack=is_stack,
        column=column,
        flags=flags,
        base=np.arange(len(op), dtype=np.int64),
        n_repeated=0
        if len(column) != len(flags)
        else sum(
            int(np.count_nonzero(is_repeated(flags[chunk])))
            for chunk in chunks(len(flags))
        ),
    )


def _most_written(size: I64, source: I64, rows: I64) -> I64:
    """Return how much destinations get at most whose rows another source holds.

    Parameters
    ----------
    source : the row of the table that holds what is written, of each of `rows`.
    """
    limit = np.where(size[source] > 0, size[source] * _WIDEST, size[rows])
    return np.minimum(size[rows], limit).astype(np.int64)


def _directions(what: AccessColumns, does: Array) -> npt.NDArray[np.uint8]:
    """Return the `Direction` of each row from what its op does with it."""
    direction = what.kind.astype(np.uint8)
    is_written = np.isin(does, _WRITING)
    direction[is_written] = Direction.WRITE
    direction[does == Operand.UNTOUCHED] = Direction.NEITHER
    return direction


def directions_of(trace: Trace, span: int, what: AccessColumns) -> list[Direction]:
    """Return what a span does with each of its accesses `what`; quick."""
    op = trace.op_name(int(trace.spans.op[span]))
    directions = []
    for slot, kind in enumerate(what.kind.tolist()):
        does = operand(op, slot)
        if does in _WRITING:
            kind = Direction.WRITE
        elif does is Operand.UNTOUCHED:
            kind = Direction.NEITHER
        directions.append(Direction(kind))
    return directions


def account_of(trace: Trace, span: int) -> AccessTable:
    """Return the accesses of one span, its only entry, without a look at the others.

    Behind the rows of its pattern come those of accesses that name it themselves.
    """
    table = _account_of_pattern(trace, span)
    loose = trace.accesses.loose
    rows = np.flatnonzero(loose.span == span)
    if not len(rows):
        return table
    n, what = len(rows), loose.what.take(rows)
    size = np.maximum(what.size.astype(np.int64), 0)
    passed = _beyond_slice(trace, what, size, _stacks(trace))
    none = np.zeros(n, np.int64)
    return replace(
        table,
        first=np.array([0, len(table.known) + n], np.int64),
        what=stacked(table.what, what),
        direction=np.append(table.direction, what.kind.astype(np.uint8)),
        known=np.append(table.known, size - passed),
        unknown=np.append(table.unknown, none),
        passed=np.append(table.passed, passed),
        counts=np.append(table.counts, none + 1),
        is_rows=np.append(table.is_rows, none != 0),
        is_stack=np.append(table.is_stack, none != 0),
    )


def _account_of_pattern(trace: Trace, span: int) -> AccessTable:
    what = trace.accesses.of_span(span)
    first = np.array([0, len(what)], np.int64)
    op, one = np.array([int(trace.spans.op[span])]), np.zeros(1, np.int64)
    plain = _defined(trace, what, first, op, one)
    layer = _layers_of_stacks(trace, plain)
    if layer[0] < 0:
        return plain
    routing = trace.routing
    mine = np.flatnonzero(routing.layer == layer[0])
    choices = _Choices.of(replace(trace, routing=routing.take(mine)))
    group = choices.groups(trace, np.array([span]), layer)
    return plain if group[0] < 0 else _chosen(trace, plain, choices, one, group)


def _entries(trace: Trace) -> tuple[Array, I64, I64]:
    """Return the entry of each span, and the pattern and op of each entry.

    Readers give each op patterns of its own; then the entries are the patterns.
    """
    pattern, op = trace.accesses.pattern, trace.spans.op
    n = len(trace.accesses.first) - 1
    if len(pattern) and not -1 <= int(pattern.min()) <= int(pattern.max()) < n:
        # The model forbids it; a fault elsewhere must not become one here.
        pattern = np.where((pattern >= 0) & (pattern < n), pattern, -1)
    op_of = np.full(n + 1, -1, np.int64)
    for chunk in chunks(len(pattern)):
        op_of[pattern[chunk]] = op[chunk]
    op_of[n] = -1
    is_mixed = any(
        bool(((op_of[pattern[p]] != op[p]) & (pattern[p] >= 0)).any())
        for p in chunks(len(pattern))
    )
    if not is_mixed:
        return pattern, np.arange(n, dtype=np.int64), op_of[:n]
    width = int(op.max(initial=-1)) + 2
    occurs = np.zeros(n * width, np.bool_)
    for p in chunks(len(pattern)):
        has = pattern[p] >= 0
        occurs[pattern[p][has].astype(np.int64) * width + op[p][has] + 1] = True
    pairs = np.flatnonzero(occurs)
    number = np.full(n * width, -1, np.int32)
    number[pairs] = np.arange(len(pairs))
    column = np.full(len(pattern), -1, np.int32)
    for p in chunks(len(pattern)):
        has = pattern[p] >= 0
        key = pattern[p][has].astype(np.int64) * width + op[p][has] + 1
        column[p][has] = number[key]
    of_pattern, of_op = np.divmod(pairs.astype(np.int64), width)
    return column, of_pattern, of_op - 1


def _operands(trace: Trace, op: Array, slot: Array) -> npt.NDArray[np.uint8]:
    """Return the `Operand` of each row."""
    if not len(op):
        return np.zeros(0, np.uint8)
    width = int(slot.max()) + 1
    key, _, place = ranked((op.astype(np.int64) + 1) * width + slot)
    operands = [
        int(operand(trace.op_name(k // width - 1), k % width)) for k in key.tolist()
    ]
    return np.array(operands, np.uint8)[place]


@once
def _stacks(trace: Trace) -> Bools:
    """Return which tensors stack experts, bool[n + 1]; the last one is none."""
    t = trace.tensors
    names = trace.strings.get_many(t.name.tolist())
    is_stack = np.array([_STACK_WORD in name for name in names], np.bool_)
    if t.n_experts is not None:
        is_stack |= t.n_experts > 1
    # A name may be cut before that word; what chosen experts are read of is a stack.
    is_stack[_chosen_from(trace)] = True
    return np.append(is_stack & (t.expert < 0), False)


def _chosen_from(trace: Trace) -> I64:
    """Return the weights of which ops such as ``MUL_MAT_ID`` read chosen experts."""
    accesses, spans = trace.accesses, trace.spans
    what, tensor_ids = accesses.patterns, [np.zeros(0, np.int64)]
    for op in distinct(spans.op).tolist():
        slot = _STACK_SLOTS.get(trace.op_name(op))
        if slot is None:
            continue
        of_op = [
            accesses.pattern[rows][spans.op[rows] == op] for rows in chunks(len(spans))
        ]
        pattern = distinct(np.concatenate(of_op)).astype(np.int64)
        pattern = pattern[(pattern >= 0) & (pattern < len(accesses.first) - 1)]
        row = accesses.first[pattern] + slot
        row = row[row < accesses.first[pattern + 1]]
        row = row[what.space[row] == Space.FILE]
        tensor_ids.append(what.tensor[row].astype(np.int64))
    tensors = distinct(np.concatenate(tensor_ids))
    return tensors[tensors >= 0]


def _is_all(trace: Trace, what: AccessColumns) -> Bools:
    """Return which accesses are recorded as of a whole tensor, not of a part of it."""
    size = taken(trace.tensors.size, what.tensor)
    is_part = (what.space == Space.FILE) & (what.size >= 0) & (what.size < size)
    return np.asarray(~is_part, np.bool_)


def _beyond_slice(trace: Trace, what: AccessColumns, known: I64, stacks: Bools) -> I64:
    """Return the bytes that accesses record beyond the slice of the expert they name.

    Some writers record the size of the whole stack with each of its experts.
    """
    excess = np.zeros(len(known), np.int64)
    rows = np.flatnonzero((what.expert >= 0) & stacks[what.tensor])
    if not len(rows):
        return excess
    tensor, expert = what.tensor[rows], what.expert[rows].astype(np.int64)
    many, size = n_stacked(trace)[tensor], trace.tensors.size[tensor].astype(np.int64)
    good = (expert < many) & (size > 0)
    slice_ = _slice_bytes(np.maximum(size, 0), expert, many)
    excess[rows] = np.where(good, np.maximum(known[rows] - slice_, 0), 0)
    return excess


def _of_rows(
    trace: Trace, what: AccessColumns, owner: I64, rows: I64
) -> tuple[I64, I64]:
    """Return the known and the unknown bytes of accesses to some rows of a tensor.

    The source behind names the rows, one index each; the tensor's shape shows how
    long one is.
    """
    size = np.maximum(what.size[rows].astype(np.int64), 0)
    if trace.tensors.shape is None or not len(rows):
        return np.zeros(len(rows), np.int64), size
    behind = np.minimum(rows + 1, len(owner) - 1)
    has_index = (behind > rows) & (owner[behind] == owner[rows])
    index = np.where(has_index, what.size[behind].astype(np.int64), -1)
    tensor = what.tensor[rows]
    n_rows = np.ones(len(rows), np.int64)
    for dimension in range(1, 4):
        n_rows *= taken(trace.tensors.shape[:, dimension], tensor, 0)
    good = (index > 0) & (n_rows > 0) & (size > 0)
    good &= size % np.maximum(n_rows, 1) == 0
    known = np.where(good, index // INDEX_BYTES * (size // np.maximum(n_rows, 1)), 0)
    return known, np.where(good, 0, size)


# -- with the choices of experts -----------------------------------------------


def _with_choices(trace: Trace, plain: AccessTable) -> AccessTable:
    """Return the accesses with stacks narrowed to the experts that were chosen."""
    if not (_layers_of_stacks(trace, plain) >= 0).any():
        return plain
    choices = _Choices.of(trace)
    spans, entry, group = _choices_of_spans(trace, plain, choices)
    known = group >= 0
    if not known.any():
        return plain
    width = max(len(choices.key), 1)
    pairs, _, which = ranked(entry[known] * width + group[known])
    more = _chosen(trace, plain, choices, *np.divmod(pairs, width))
    column = plain.column.astype(np.int32)
    column[spans[known]] = len(plain) + which
    return _joined(plain, more, column)


@dataclass(frozen=True, slots=True, eq=False)
class Choosing:
    """The choice of experts that each span on a stack of experts made.

    Unlike the rows of an `AccessTable`, it also has stacks of which nobody says
    how many experts they hold, so that no bytes can be determined of one.

    Attributes
    ----------
    spans : int64[m], ascending.
    choice : int64[m], -1 = not known.
    first : int64[n + 1], choice c names ``expert[first[c] : first[c + 1]]``.
    expert : int64[...], distinct within a choice.
    more : int64[n], further experts that are not named; `UNKNOWN_MORE`.
    """

    spans: I64
    choice: I64
    first: I64
    expert: I64
    more: I64


def choosing(trace: Trace) -> Choosing:
    """Return who chose which experts; O(spans)."""
    choices = _Choices.of(trace)
    spans, _, choice = _choices_of_spans(trace, _without_choices(trace), choices)
    return Choosing(spans, choice, choices.first, choices.expert, choices.more)


def _choices_of_spans(
    trace: Trace, plain: AccessTable, choices: "_Choices"
) -> tuple[I64, I64, I64]:
    """Return the spans on stacks, the entry of each and its choice; -1 unknown."""
    layers = _layers_of_stacks(trace, plain)
    marks = np.append(layers >= 0, False)
    spans = np.flatnonzero(marks[plain.column]).astype(np.int64)
    entry = plain.column[spans].astype(np.int64)
    return spans, entry, choices.groups(trace, spans, layers[entry])


def _layers_of_stacks(trace: Trace, plain: AccessTable) -> I64:
    """Return the layer of the stack that each entry is on, int64; -1 none."""
    layers = np.full(len(plain), -1, np.int64)
    rows = np.flatnonzero(plain.is_stack & (plain.direction == Direction.READ))
    of_tensor = taken(trace.tensors.layer, plain.what.tensor[rows])
    layer = plain.what.layer[rows].astype(np.int64)
    layer = np.where(layer < 0, of_tensor, layer)
    layers[plain.owner[rows]] = layer
    return layers


@dataclass(frozen=True, slots=True, eq=False)
class _Choices:
    """Chosen experts by (pass or token, layer).

    when : int64[k], ascending: passes if `by_pass`, else tokens.
    key : int64[n], ascending, ``place in when * EXPERT_KEY + layer``.
    first : int64[n + 1], where each key's experts begin in `expert`.
    more : int64[n], further choices that are not listed; `UNKNOWN_MORE`.
    starts : first tick of each pass.
    """

    when: I64
    key: I64
    first: I64
    expert: I64
    more: I64
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
        # The number of a ubatch is exact where contexts compute at once.
        by_pass = by_pass and not has_ubatches(trace)
        when = interval_of(starts, time) if by_pass else r.token[rows].astype(np.int64)
        good = when >= 0
        rows, when = rows[good], when[good]
        whens, _, place = ranked(when)
        key = place * EXPERT_KEY + r.layer[rows].astype(np.int64)
        both = distinct(key * EXPERT_KEY + r.expert[rows].astype(np.int64))
        of_key, expert = np.divmod(both, EXPERT_KEY)
        keys, first = np.unique(of_key, return_index=True)
        edges = np.append(first, len(both)).astype(np.int64)
        more = _more(r.n_more, rows, np.searchsorted(keys, key), len(keys))
        return _Choices(whens, keys, edges, expert, more, by_pass, starts)

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
        key = place * EXPERT_KEY + layer
        at = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        is_found = (self.when[place] == when) & (self.key[at] == key)
        return np.where(is_found, at, -1)


def _more(n_more: Array | None, rows: I64, group: I64, n: int) -> I64:
    """Return how many choices of each group are not listed."""
    n_unlisted = np.zeros(n, np.int64)
    if n_more is None:
        return n_unlisted
    value = n_more[rows].astype(np.int64)
    np.maximum.at(n_unlisted, group, value)
    n_unlisted[group[value < 0]] = UNKNOWN_MORE
    return n_unlisted


@once
def n_stacked(trace: Trace) -> I64:
    """Return how many experts each tensor stacks, int64[n + 1]; 0 unknown or none.

    The model file says it, or the slices that a side file lists; else the sizes of
    the router's tensors.
    """
    t = trace.tensors
    n = expert_slices(trace).n_experts or stated_experts(trace)
    n = n or trace.routing.n_experts
    n = n if n <= _MAX_EXPERTS else 0
    n_of_tensor = np.where(_stacks(trace)[:-1], n, 0).astype(np.int64)
    if t.n_experts is not None:
        n_of_tensor = np.where(t.n_experts > 0, t.n_experts, n_of_tensor).astype(
            np.int64
        )
    return np.append(n_of_tensor, 0)


def _chosen(
    trace: Trace, plain: AccessTable, choices: _Choices, entry: I64, group: I64
) -> AccessTable:
    """Return the entries of each (entry, choice): stacks narrowed to slices."""
    length = np.diff(plain.first)[entry]
    old = ranges(plain.first[entry], length)
    pair = np.repeat(np.arange(len(entry)), length)
    begin = choices.first[group[pair]]
    listed = choices.first[group[pair] + 1] - begin
    n_experts = n_stacked(trace)[plain.what.tensor[old]]
    narrows = plain.is_stack[old] & (plain.direction[old] == Direction.READ)
    narrows &= (n_experts > 0) & (plain.what.size[old] >= 0)
    # Behind the listed experts of a stack comes one row for all others.
    n = np.where(narrows, listed + 1, 1)
    at = np.repeat(np.arange(len(old)), n)
    step = ranges(0, n)
    is_slice = narrows[at] & (step < listed[at])
    is_rest = narrows[at] & ~is_slice
    what = plain.what.take(old[at])
    size, many = np.maximum(what.size.astype(np.int64), 0), n_experts[at]
    expert = np.full(len(at), -1, np.int64)
    expert[is_slice] = choices.expert[begin[at[is_slice]] + step[is_slice]]
    exists = is_slice & (expert < many)
    used = np.where(exists, _slice_bytes(size, expert, many), 0)
    of_stack, n_real = np.zeros((2, len(old)), np.int64)
    np.add.at(of_stack, at, used)
    np.add.at(n_real, at, exists.astype(np.int64))
    more = choices.more[group[pair]]
    rest = np.maximum(size[is_rest] - of_stack[at[is_rest]], 0)
    open_ = _open_bytes(rest, size[is_rest], many[is_rest], more[at[is_rest]])
    known, unknown = plain.known[old[at]].copy(), plain.unknown[old[at]].copy()
    passed = plain.passed[old[at]].copy()
    known[is_slice], unknown[is_slice] = used[is_slice], 0
    known[is_rest], unknown[is_rest] = 0, open_
    passed[is_rest] = rest - open_
    # Of the others a row is kept where its bytes are unknown or passed over.
    keep = ~narrows[at] | exists | (is_rest & ((unknown > 0) | (passed > 0)))
    retained = np.flatnonzero(keep)
    counts = np.bincount(pair[at[retained]], minlength=len(entry))
    moved = np.where(
        is_slice & (what.offset >= 0), expert * size // np.maximum(many, 1), 0
    )
    narrowed = replace(
        what,
        expert=np.where(is_slice, expert, what.expert).astype(np.int16),
        size=np.where(is_slice, used, what.size).astype(np.int64),
        offset=what.offset + moved,
    )
    direction = plain.direction[old[at]].copy()
    direction[is_rest & (unknown == 0)] = Direction.NEITHER
    is_access = direction != Direction.NEITHER
    return AccessTable(
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        what=narrowed.take(retained),
        direction=direction[retained],
        known=known[retained],
        unknown=unknown[retained],
        passed=passed[retained],
        counts=_first_of_each(at[retained], is_access[retained]),
        is_rows=plain.is_rows[old[at]][retained],
        is_stack=(plain.is_stack[old[at]] & ~is_slice)[retained],
        column=plain.column,
        flags=plain.flags,
        base=entry.astype(np.int64),
    )


def _first_of_each(group: I64, is_access: Bools) -> I64:
    """Return 1 for the first access of each group, else 0; groups follow each other."""
    is_first = np.zeros(len(group), np.int64)
    rows = np.flatnonzero(is_access)
    is_first[rows[np.unique(group[rows], return_index=True)[1]]] = 1
    return is_first


def _slice_bytes(size: I64, expert: I64, many: I64) -> I64:
    """Return the bytes of slice `expert` of a stack of so many."""
    n = np.maximum(many, 1)
    return np.asarray((expert + 1) * size // n - expert * size // n, np.int64)


def _open_bytes(rest: I64, size: I64, many: I64, more: I64) -> I64:
    """Return how many bytes of the rest of stacks further choices may read."""
    largest = -(-size // np.maximum(many, 1))
    bytes_bound = np.minimum(np.maximum(more, 0), many) * largest
    return np.where(more == UNKNOWN_MORE, rest, np.minimum(rest, bytes_bound))


def _joined(plain: AccessTable, more: AccessTable, column: Array) -> AccessTable:
    """Return the entries of `plain`, then those of `more`; `column` is of spans."""

    def both(name: str) -> Array:
        return np.concatenate([getattr(plain, name), getattr(more, name)])

    names = (
        "direction", "known", "unknown", "passed", "counts", "is_rows", "is_stack",
        "base",
    )  # fmt: skip
    return replace(
        plain,
        first=np.concatenate([plain.first, more.first[1:] + plain.first[-1]]),
        what=stacked(plain.what, more.what),
        column=column,
        **{name: both(name) for name in names},  # type: ignore[arg-type]  # columns
    )
