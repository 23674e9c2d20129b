"""From accesses over tensors to bytes of the model file.

A trace names tensors, often cut, and says at which byte of the model file an access
begins. A model file or a map lists tensors with offsets that may count from the start
of the data instead of the file. Both fit together where one number, the *delta*,
leads from nearly every listed offset to the traced one: it is found as the commonest
difference, and the rules that it must pass have names. Before that the model's
tensors are laid out (`ModelLayout`: slices folded, sizes made to fit) and names are
matched as they stand, without suffixes, or cut.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.analysis.sessions.remap_ids import full_tensors
from ggscope.analysis.workers import count_values
from ggscope.model.names import normalise
from ggscope.model.tables import I64, Array, Space, StringTable, Table, stacked
from ggscope.model.tensors import Place, SizeSource, Tensors
from ggscope.model.trace import Trace

SHORTEST_CUT = 19
"""Writers cut names at 19, 23, 63 or 127 characters; a shorter one is whole."""
_HIGHEST = "\U0010ffff"
_SLICE = re.compile(r"\[(\d{1,5})\]$")
_FEWEST = 3
"""Places that must agree where neither names nor a shift of 0 speak for a model."""
_MAX_PAIRS = 1 << 22


class Rule(IntEnum):
    """How a tensor of the trace found its tensor of the model; in order of trying."""

    NONE = 0
    NAME = 1
    SUFFIX = 2
    """The same without ``(view)``, ``(copy)`` …"""
    PREFIX = 3
    """The name was cut, and only one name begins like it."""
    POINTER = 4
    """A registry lists the address."""
    OFFSET = 5
    """The calibrated offset lies in exactly one tensor."""
    NUMBER = 6
    """The access names its number in the registry."""

    @property
    def text(self) -> str:
        """What people read."""
        return _WORDS[self]


_WORDS = {
    Rule.NONE: "none",
    Rule.NAME: "name",
    Rule.SUFFIX: "name without suffix",
    Rule.PREFIX: "unique prefix",
    Rule.POINTER: "pointer",
    Rule.OFFSET: "offset",
    Rule.NUMBER: "number",
}


@dataclass(frozen=True, slots=True, eq=False)
class NameMatch:
    """What each of n names means.

    Attributes
    ----------
    row : int64[n], which of the model's names; -1 none.
    rule : uint8[n], `Rule`.
    is_open : bool[n], several of the model's names begin like it.
    """

    row: I64
    rule: npt.NDArray[np.uint8]
    is_open: npt.NDArray[np.bool_]


def match_names(names: Sequence[str], of_model: Sequence[str]) -> NameMatch:
    """Return which of the model's names each of `names` means.

    Where the model lists a name twice the first one counts. A name that could be the
    beginning of several is left alone.

    Notes
    -----
    Works on distinct names, of which a model has thousands: O((n + m) log m).
    """
    known: dict[str, int] = {}
    for i, name in enumerate(of_model):
        if name:
            known.setdefault(name, i)
    ordered = sorted(known)
    row = np.full(len(names), -1, np.int64)
    rule = np.zeros(len(names), np.uint8)
    is_open = np.zeros(len(names), np.bool_)
    for i, name in enumerate(names):
        row[i], rule[i], is_open[i] = _meaning(name, known, ordered)
    return NameMatch(row, rule, is_open)


def _meaning(
    name: str, known: dict[str, int], ordered: Sequence[str]
) -> tuple[int, Rule, bool]:
    """Return row, rule and whether one name is open; (-1, NONE) = nothing for sure."""
    if name in known:
        return known[name], Rule.NAME, False
    base = normalise(name)
    if base != name and base in known:
        return known[base], Rule.SUFFIX, False
    if len(name) < SHORTEST_CUT:
        return -1, Rule.NONE, False
    first, after = bisect_left(ordered, name), bisect_left(ordered, name + _HIGHEST)
    if after - first == 1:
        return known[ordered[first]], Rule.PREFIX, False
    return -1, Rule.NONE, after > first


@dataclass(frozen=True, slots=True, eq=False)
class ModelLayout:
    """Tensors of a model file or map, one row each.

    Attributes
    ----------
    tensors : with every column; rows that stack listed slices come after the listed.
    names : of each row.
    is_slice : bool, rows that are part of another row (``…_exps.weight[4]``).
    n_repaired : sizes that ran into the next tensor.
    """

    tensors: Tensors
    names: tuple[str, ...]
    is_slice: npt.NDArray[np.bool_]
    n_repaired: int

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_stated(self) -> bool:
        """Whether the model file itself says where its tensors lie."""
        known = self.tensors.offset >= 0
        place = np.asarray(self.tensors.place)[known]
        return bool(len(place)) and bool((place == Place.STATED).all())

    def by_offset(self) -> tuple[I64, I64]:
        """Return (rows in order of offset, their offsets): whole placed tensors."""
        rows = np.flatnonzero(~self.is_slice & (self.tensors.offset >= 0))
        rows = rows[np.argsort(self.tensors.offset[rows], kind="stable")]
        return rows, self.tensors.offset[rows]


def slice_rows(tensors: Tensors, strings: StringTable) -> npt.NDArray[np.bool_]:
    """Return bool[n]: rows that are part of another row, one expert of a stack.

    Their bytes are those of the stack: whoever adds up sizes leaves them out.
    """
    result = np.zeros(len(tensors), np.bool_)
    stacks = _stacks(tensors)
    if not len(stacks):
        return result
    bases = {int(tensors.name[i]) for i in stacks.tolist()}
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        name = strings[int(tensors.name[i])]
        match = _SLICE.search(name)
        if match is not None:
            result[i] = strings.find(name[: match.start()]) in bases
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Wholes:
    """Which tensor each of n rows is or is part of, for counting each tensor once.

    Attributes
    ----------
    whole : int64[n], number of the tensor; slices share that of their stack, listed
        or not.
    has_bytes : bool[n], rows whose sizes add up to those of the tensors: the stack's
        where it is known, else its slices'.
    is_unsized : bool[n], one row of each tensor whose size is not known.
    """

    whole: I64
    has_bytes: npt.NDArray[np.bool_]
    is_unsized: npt.NDArray[np.bool_]

    def count(self, rows: npt.NDArray[np.bool_]) -> int:
        """Return how many tensors some rows are of."""
        return len(np.unique(self.whole[rows]))


def wholes_of(tensors: Tensors, strings: StringTable) -> Wholes:
    """Return which rows are one tensor, so that none counts twice.

    A map may list the slices of experts (``…_exps.weight[4]``) beside their stack, or
    instead of it.
    """
    n = len(tensors)
    whole = np.arange(n, dtype=np.int64)
    has_bytes = np.ones(n, np.bool_)
    is_unsized = tensors.size < 0
    slices: dict[str, list[int]] = {}
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        match = _SLICE.search(name := strings[int(tensors.name[i])])
        if match is not None:
            slices.setdefault(name[: match.start()], []).append(i)
    stacks = {
        strings[int(tensors.name[i])]: i
        for i in np.flatnonzero(tensors.expert < 0).tolist()
        if slices
    }
    for base, rows in slices.items():
        stack = stacks.get(base, -1)
        whole[rows] = rows[0] if stack < 0 else stack
        if stack < 0:
            is_unsized[rows[0]] = bool(is_unsized[rows].any())
            is_unsized[rows[1:]] = False
        else:
            is_unsized[rows] = False
            has_bytes[rows] = tensors.size[stack] < 0
    return Wholes(whole, has_bytes, is_unsized)


def _stacks(tensors: Tensors) -> I64:
    if tensors.n_experts is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(tensors.n_experts > 0)


def lay_out(tensors: Tensors, strings: StringTable) -> ModelLayout:
    """Return the tensors of a side file, ready for mapping.

    Sizes that run into the next tensor become the space up to it, except where the
    model file itself states them. Slices ``name[0]`` … ``name[n - 1]`` are gathered
    into one more row ``name``, unless it is listed too.

    Parameters
    ----------
    tensors : with the ids of `strings`, which takes the names of new rows.
    """
    tensors = full_tensors(tensors)
    names = [strings[i] for i in tensors.name.tolist()]
    size, source, n_repaired = _fitting_sizes(tensors, _contained(names, tensors))
    tensors = replace(tensors, size=size, size_source=source)
    folded = _folded(tensors, names, strings)
    if folded is not None:
        tensors = stacked(tensors, folded)
        names += [strings[i] for i in folded.name.tolist()]
    return ModelLayout(tensors, tuple(names), slice_rows(tensors, strings), n_repaired)


def _contained(names: list[str], tensors: Tensors) -> npt.NDArray[np.bool_]:
    """Return bool[n]: slices whose stack is listed too, and so overlaps them."""
    listed = set(names)
    result = np.zeros(len(names), np.bool_)
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        match = _SLICE.search(names[i])
        result[i] = match is not None and names[i][: match.start()] in listed
    return result


def _fitting_sizes(tensors: Tensors, is_inside: Array) -> tuple[I64, Array, int]:
    """Return sizes that end where the next tensor begins, and how they are known."""
    size = tensors.size.astype(np.int64)
    source = np.array(tensors.size_source, np.uint8)
    file = np.array(tensors.file, np.int64)
    n_repaired = 0
    for number in np.unique(file).tolist():
        rows = np.flatnonzero((file == number) & (tensors.offset >= 0) & ~is_inside)
        rows = rows[np.argsort(tensors.offset[rows], kind="stable")]
        start = tensors.offset[rows]
        # Several tensors at one place share what lies up to the next place.
        after = np.searchsorted(start, start, side="right")
        following = np.append(start, np.iinfo(np.int64).max)[after]
        space = following - start
        wrong = (size[rows] > space) & (source[rows] != SizeSource.STATED)
        size[rows[wrong]] = space[wrong]
        source[rows[wrong]] = SizeSource.REPAIRED
        n_repaired += int(np.count_nonzero(wrong))
    return size, source, n_repaired


def _folded(tensors: Tensors, names: list[str], strings: StringTable) -> Tensors | None:
    """Return a row for each stack of which only the slices are listed."""
    listed = set(names)
    stacks: dict[str, list[int]] = {}
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        match = _SLICE.search(names[i])
        if match is not None and names[i][: match.start()] not in listed:
            stacks.setdefault(names[i][: match.start()], []).append(i)
    if not stacks:
        return None
    rows = [
        sorted(slices, key=lambda i: int(tensors.expert[i]))
        for slices in stacks.values()
    ]
    first = np.array([slices[0] for slices in rows], np.int64)
    base = tensors.take(first)
    wholes = [_whole(tensors, np.array(slices, np.int64)) for slices in rows]
    shape = np.array(base.shape, np.int64)
    n_experts = np.array([len(slices) for slices in rows], np.int32)
    behind = 1 + np.argmax(shape[:, 1:] <= 1, axis=1)
    known = shape[:, 0] > 0
    shape[known, behind[known]] = n_experts[known]
    return replace(
        base,
        name=strings.intern_many(list(stacks)),
        expert=np.full(len(rows), -1, np.int16),
        n_experts=n_experts,
        offset=np.array([offset for offset, _ in wholes], np.int64),
        size=np.array([size for _, size in wholes], np.int64),
        shape=shape,
    )


def _whole(tensors: Tensors, slices: I64) -> tuple[int, int]:
    """Return (offset, size) of the stack of `slices`, given by expert; -1 unknown.

    Slices lie side by side, so the distance of two is the size of one.
    """
    offset, size = tensors.offset[slices], tensors.size[slices]
    is_complete = np.array_equal(tensors.expert[slices], np.arange(len(slices)))
    if not is_complete or int(offset.min()) < 0:
        return int(offset[0]) if int(tensors.expert[slices[0]]) == 0 else -1, -1
    steps = np.diff(offset)
    if not len(steps):
        return int(offset[0]), int(size[0])
    if int(steps.min()) != int(steps.max()) or int(steps[0]) <= 0:
        return int(offset[0]), -1
    return int(offset[0]), int(steps[0]) * len(slices)


@dataclass(frozen=True, slots=True, eq=False)
class Uses(Table):
    """The accesses of a trace that may be of the model, one row per pattern row.

    Attributes
    ----------
    row : int64[n], row of ``Trace.accesses.patterns``.
    count : int64[n], how many accesses of the trace the row stands for.
    tensor, offset, size : of the access.
    address : uint64[n].
    is_file : whether the trace says that they are to the model file.
    """

    row: I64
    count: I64
    tensor: I64
    offset: I64
    size: I64
    address: Array
    is_file: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model belongs to a trace, and why.

    Attributes
    ----------
    belongs : what the evidence says.
    n_names, n_named : distinct tensors that the trace reads from a file, and how many
        of them the model names.
    n_begun : tensors of the trace whose cut name is the beginning of several of the
        model's: they speak for it, and for none of its tensors.
    n_offsets, n_agree : distinct places that both state, and for how many of them the
        delta leads from one to the other.
    delta : None where no place is determined by both.
    is_open : whether nothing speaks for or against: the trace names no tensors and
        has no places. Then the model is shown, and nothing is mapped by it.
    """

    belongs: bool
    n_names: int
    n_named: int
    n_offsets: int
    n_agree: int
    delta: int | None
    is_open: bool = False
    n_begun: int = 0

    @property
    def evidence(self) -> str:
        """The match as text, such as "9 of 10 tensors matched by name"."""
        text = f"{self.n_named:,} of {self.n_names:,} tensors matched by name"
        if self.n_begun:
            text += f", {self.n_begun:,} truncated names are ambiguous"
        if self.n_offsets:
            return f"{text}, {self.n_agree:,} of {self.n_offsets:,} offsets match"
        return f"{text}, no offsets to compare"


@dataclass(frozen=True, slots=True, eq=False)
class Mapping:
    """What each access found.

    Attributes
    ----------
    fit : see there.
    uses : the accesses that were looked at.
    of_tensor : int64[n_tensors of the trace], row of the layout; -1 none.
    of_use : int64[len(uses)], row of the layout; -1 none.
    rule : uint8[len(uses)], `Rule`.
    agrees : bool[len(uses)], the access begins where the delta says, or inside.
    guessed : bool[n_tensors], matched by the beginning of the name alone.
    """

    fit: Fit
    uses: Uses
    of_tensor: I64
    of_use: I64
    rule: npt.NDArray[np.uint8]
    agrees: npt.NDArray[np.bool_]
    guessed: npt.NDArray[np.bool_]


def uses_of(trace: Trace) -> Uses:
    """Return the accesses to the model file, or of unknown place where there are none.

    Notes
    -----
    Costs one pass over the pattern column; everything else is per pattern.
    """
    accesses = trace.accesses
    columns = accesses.patterns
    is_candidate = columns.space == Space.FILE
    is_file = bool(is_candidate.any())
    if not is_file:
        is_candidate = columns.space == Space.UNKNOWN
    rows = np.flatnonzero(is_candidate & (columns.tensor >= 0))
    n_patterns = len(accesses.first) - 1
    times = count_values(accesses.pattern, n_patterns)
    per_row = np.repeat(times, np.diff(accesses.first))
    return Uses(
        row=rows,
        count=per_row[rows],
        tensor=columns.tensor[rows].astype(np.int64),
        offset=columns.offset[rows].astype(np.int64),
        size=columns.size[rows].astype(np.int64),
        address=columns.address[rows],
        is_file=is_file,
    )


def find_mapping(
    trace: Trace, layout: ModelLayout, *, is_numbered: bool = False
) -> Mapping:
    """Return what the accesses and tensors of `trace` are in a model.

    Rules in order: name, name without suffix, unique prefix, number in a registry,
    address of a registry, offset. The last three speak for an access whose tensor the
    names leave open.

    Parameters
    ----------
    is_numbered : whether the rows are a registry's, by the numbers of its tensors.
    """
    uses = uses_of(trace)
    tensors = trace.tensors
    names = [trace.strings[i] for i in tensors.name.tolist()]
    whole = np.flatnonzero(~layout.is_slice)
    match = match_names(names, [layout.names[i] for i in whole.tolist()])
    of_tensor = np.where(match.row >= 0, np.append(whole, -1)[match.row], -1)
    by_name = match.rule
    slices = np.flatnonzero(layout.is_slice)
    if len(slices):  # a trace may have learnt slices from an earlier map
        exact = match_names(names, [layout.names[i] for i in slices.tolist()])
        is_slice = (of_tensor < 0) & (exact.rule == Rule.NAME)
        of_tensor[is_slice] = slices[exact.row[is_slice]]
        by_name = np.where(is_slice, np.uint8(Rule.NAME), by_name)
    fit = _fit(trace, layout, uses, of_tensor, match.is_open)
    of_use = of_tensor[uses.tensor]
    rule = np.where(of_use >= 0, by_name[uses.tensor], Rule.NONE).astype(np.uint8)
    guessed = (by_name == Rule.PREFIX) & (of_tensor >= 0)
    if not fit.belongs:
        agrees = np.zeros(len(uses), np.bool_)
        return Mapping(fit, uses, of_tensor, of_use, rule, agrees, guessed)
    if is_numbered:
        _use_numbers(trace, layout, uses, of_use, rule)
    _use_pointers(layout, uses, of_use, rule)
    _use_offsets(layout, uses, of_use, rule, fit.delta)
    _leave_contradicted(names, match.is_open, layout, uses, of_use, rule)
    agrees = _lies_in(layout, uses, of_use, fit.delta)
    sure = np.unique(uses.tensor[agrees & (rule == Rule.PREFIX)])
    guessed[sure] = False
    _settle_tensors(trace, names, layout, uses, of_use, of_tensor)
    return Mapping(fit, uses, of_tensor, of_use, rule, agrees, guessed)


def _fit(
    trace: Trace,
    layout: ModelLayout,
    uses: Uses,
    of_tensor: I64,
    is_open: npt.NDArray[np.bool_],
) -> Fit:
    """Return whether the model belongs to the trace.

    Offsets decide where both have some: most must agree. Else names do.
    """
    read = np.unique(uses.tensor)
    n_named = int(np.count_nonzero(of_tensor[read] >= 0))
    n_begun = int(np.count_nonzero(is_open[read] & (of_tensor[read] < 0)))
    traced, listed = _known_places(trace, layout, uses, of_tensor)
    if not len(traced):
        is_nameless = all(is_made_up(trace, row) for row in read.tolist())
        if len(read) and is_nameless:
            return _fit_of_nameless(layout, uses, len(read))
        fit = _fit_without_names(layout, uses, len(read), (n_named, n_begun), of_tensor)
        return replace(fit, n_begun=n_begun)
    values, counts = np.unique(traced - listed, return_counts=True)
    # Of equally common differences the smallest, so that the answer is always the same.
    best = int(np.argmax(counts))
    delta, n_agree = int(values[best]), int(counts[best])
    # One place always agrees with itself: there most names must be found too.
    has_names = n_agree > 1 or (n_named + n_begun) * 2 >= len(read)
    belongs = n_agree * 2 > len(traced) and has_names
    return Fit(
        belongs,
        len(read),
        n_named,
        len(traced),
        n_agree,
        delta if belongs else None,
        n_begun=n_begun,
    )


def _known_places(
    trace: Trace, layout: ModelLayout, uses: Uses, of_tensor: I64
) -> tuple[I64, I64]:
    """Return (offset in the trace, offset in the model) of distinct places in both.

    Beside accesses these are tensors placed by an earlier file of the session.
    """
    placed = np.flatnonzero((of_tensor >= 0) & (trace.tensors.offset >= 0))
    place = trace.tensors.place
    if place is None:
        placed = placed[:0]
    else:
        placed = placed[np.isin(place[placed], (Place.STATED, Place.CALIBRATED))]
    seen = np.flatnonzero((of_tensor[uses.tensor] >= 0) & (uses.offset >= 0))
    pairs = np.stack(
        [
            np.concatenate([uses.offset[seen], trace.tensors.offset[placed]]),
            of_tensor[np.concatenate([uses.tensor[seen], placed])],
        ],
        axis=1,
    )
    pairs = np.unique(pairs, axis=0)
    listed = layout.tensors.offset[pairs[:, 1]]
    known = listed >= 0
    return pairs[known, 0], listed[known]


def _fit_without_names(
    layout: ModelLayout,
    uses: Uses,
    n_names: int,
    name_counts: tuple[int, int],
    of_tensor: I64,
) -> Fit:
    """Return the fit where names lead to no place that both state.

    Parameters
    ----------
    name_counts : how many names the model has, and how many it may have.
    """
    n_named, by_name = name_counts[0], sum(name_counts) * 2 >= n_names > 0
    placed = np.unique(uses.offset[uses.offset >= 0])
    _, starts = layout.by_offset()
    if len(placed) and len(starts) and not n_named:
        # No whole names: offsets alone must be those of the file.
        n_agree = int(np.count_nonzero(np.isin(placed, starts)))
        delta = 0 if n_agree * 2 >= len(placed) else None
        belongs = by_name or delta is not None
        return Fit(belongs, n_names, n_named, len(placed), n_agree, delta)
    if n_names:
        return Fit(by_name, n_names, n_named, 0, 0, None)
    n_known = int(np.count_nonzero(of_tensor >= 0))
    # Nothing is read from a file: the model is shown for what it is.
    return Fit(True, len(of_tensor), n_known, 0, 0, None)


def is_made_up(trace: Trace, row: int) -> bool:
    """Return whether a reader made a tensor's name of an op and an address."""
    return "@0x" in trace.strings[int(trace.tensors.name[row])]


def has_numbers_only(trace: Trace) -> bool:
    """Return whether a trace names no tensor, but numbers them by a registry."""
    if trace.claims is None or len(np.unique(trace.claims.source_index)) < 2:
        return False
    return all(is_made_up(trace, row) for row in range(len(trace.tensors)))


def _fit_of_nameless(layout: ModelLayout, uses: Uses, n_names: int) -> Fit:
    """Return the fit where the trace names no tensor: by the pattern of places."""
    placed = np.unique(uses.offset[uses.offset >= 0])
    _, starts = layout.by_offset()
    if not (len(placed) and len(starts)):
        return Fit(True, n_names, 0, 0, 0, None, is_open=True)
    delta = _commonest_shift(placed, starts)
    n_agree = 0
    if delta is not None:
        n_agree = int(np.count_nonzero(np.isin(placed - delta, starts)))
    belongs = n_agree * 2 >= len(placed)
    return Fit(belongs, n_names, 0, len(placed), n_agree, delta if belongs else None)


def _commonest_shift(placed: I64, starts: I64) -> int | None:
    """Return the one shift >= 0 under which most places begin a tensor.

    None where several do equally well, as layers of one size may, or where fewer than
    `_FEWEST` places agree; 0 needs no such evidence.
    """
    if np.count_nonzero(np.isin(placed, starts)) * 2 >= len(placed):
        return 0
    step = -(-len(placed) * len(starts) // _MAX_PAIRS)
    shifts = (placed[::step, None] - starts[None, :]).ravel()
    values, counts = np.unique(shifts[shifts >= 0], return_counts=True)
    best = int(counts.max(initial=0))
    if best < _FEWEST or np.count_nonzero(counts == best) > 1:
        return None
    return int(values[np.argmax(counts)])


def _use_numbers(
    trace: Trace, layout: ModelLayout, uses: Uses, of_use: I64, rule: Array
) -> None:
    """Find accesses by the number of their tensor in a registry.

    Known tracers never set it: one number for all accesses says nothing, nor do
    numbers that lead elsewhere than the names do.
    """
    if trace.claims is None:
        return
    number = trace.claims.source_index[uses.row].astype(np.int64)
    stated = (number >= 0) & (number < len(layout))
    named = stated & (of_use >= 0)
    n_right = int(np.count_nonzero(number[named] == of_use[named]))
    if len(np.unique(number[stated])) < 2 or n_right < np.count_nonzero(named):
        return
    open_ = np.flatnonzero(stated & (of_use < 0))
    of_use[open_] = number[open_]
    rule[open_] = Rule.NUMBER


def _use_pointers(layout: ModelLayout, uses: Uses, of_use: I64, rule: Array) -> None:
    """Find accesses by the address that a registry lists."""
    address = layout.tensors.address
    if address is None or not np.any(address):
        return
    rows = np.flatnonzero((address != 0) & ~layout.is_slice)
    rows = rows[np.argsort(address[rows], kind="stable")]
    known = address[rows]
    open_ = np.flatnonzero((of_use < 0) & (uses.address != 0))
    at = np.searchsorted(known, uses.address[open_], side="right") - 1
    inside = at >= 0
    open_, at = open_[inside], at[inside]
    # Both unsigned, and the first is not the smaller one.
    behind = uses.address[open_] - known[at]
    size = np.maximum(layout.tensors.size[rows[at]], 1).astype(np.uint64)
    hit = behind < size
    of_use[open_[hit]] = rows[at[hit]]
    rule[open_[hit]] = Rule.POINTER


def _use_offsets(
    layout: ModelLayout, uses: Uses, of_use: I64, rule: Array, delta: int | None
) -> None:
    """Find accesses by their place, where exactly one tensor lies there."""
    if delta is None:
        return
    rows, starts = layout.by_offset()
    if not len(rows):
        return
    open_ = np.flatnonzero((of_use < 0) & (uses.offset >= 0))
    where = uses.offset[open_] - delta
    at = np.searchsorted(starts, where, side="right") - 1
    safe = np.maximum(at, 0)
    size = np.maximum(layout.tensors.size[rows[safe]], 1)
    n_here = np.searchsorted(starts, starts, side="right") - np.searchsorted(
        starts, starts, side="left"
    )
    hit = (at >= 0) & (where < starts[safe] + size) & (n_here[safe] == 1)
    of_use[open_[hit]] = rows[safe[hit]]
    rule[open_[hit]] = Rule.OFFSET


def _leave_contradicted(
    names: Sequence[str],
    is_open: npt.NDArray[np.bool_],
    layout: ModelLayout,
    uses: Uses,
    of_use: I64,
    rule: Array,
) -> None:
    """Leave alone what address or place lead to, where a cut name says something else.

    A name that several of the model's begin like means one of these.
    """
    by_place = np.isin(rule, (Rule.POINTER, Rule.OFFSET, Rule.NUMBER))
    rows = np.flatnonzero(by_place & is_open[uses.tensor])
    pairs, which = np.unique(
        np.stack([uses.tensor[rows], of_use[rows]]), axis=1, return_inverse=True
    )
    is_wrong = [
        not layout.names[place].startswith(names[tensor])
        for tensor, place in pairs.T.tolist()
    ]
    wrong = rows[np.array(is_wrong, np.bool_)[which.reshape(-1)]]
    of_use[wrong], rule[wrong] = -1, Rule.NONE


def _lies_in(
    layout: ModelLayout, uses: Uses, of_use: I64, delta: int | None
) -> npt.NDArray[np.bool_]:
    """Return which accesses begin inside the tensor that they found."""
    if delta is None:
        return np.zeros(len(uses), np.bool_)
    start = layout.tensors.offset[of_use]
    size = np.maximum(layout.tensors.size[of_use], 1)
    where = uses.offset - delta
    inside = (where >= start) & (where < start + size)
    known: npt.NDArray[np.bool_] = (of_use >= 0) & (start >= 0) & (uses.offset >= 0)
    return known & inside


def _settle_tensors(
    trace: Trace,
    names: list[str],
    layout: ModelLayout,
    uses: Uses,
    of_use: I64,
    of_tensor: I64,
) -> None:
    """Give a tensor of the trace the one place that all its accesses found.

    Only where its name says nothing else: it is made up (``MUL_MAT@0x…``) or the
    beginning of that tensor's.
    """
    mapped = np.flatnonzero((of_tensor[uses.tensor] < 0) & (of_use >= 0))
    open_ = np.unique(uses.tensor[mapped])
    if not len(open_):
        return
    low = np.full(len(of_tensor), np.iinfo(np.int64).max)
    high = np.full(len(of_tensor), -1, np.int64)
    np.minimum.at(low, uses.tensor[mapped], of_use[mapped])
    np.maximum.at(high, uses.tensor[mapped], of_use[mapped])
    n_found = np.bincount(uses.tensor[mapped], minlength=len(of_tensor))
    columns = trace.accesses.patterns
    n_all = np.bincount(columns.tensor[columns.tensor >= 0], minlength=len(of_tensor))
    for row in open_.tolist():
        is_one = low[row] == high[row] and n_found[row] == n_all[row]
        fits = "@0x" in names[row] or layout.names[high[row]].startswith(names[row])
        if is_one and fits:
            of_tensor[row] = high[row]
