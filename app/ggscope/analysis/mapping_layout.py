"""A model's tensors made ready for mapping: slices folded, sizes made to fit."""

import re
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ggscope.analysis.joining_tables import (
    full_tensors,
    stacked_tensors,
    taken_tensors,
)
from ggscope.model.strings import StringTable
from ggscope.model.tables import I64, Array
from ggscope.model.tensors import Place, SizeSource, Tensors

_SLICE = re.compile(r"\[(\d{1,5})\]$")


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
        found = _SLICE.search(name)
        if found is not None:
            result[i] = strings.find(name[: found.start()]) in bases
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
        found = _SLICE.search(name := strings[int(tensors.name[i])])
        if found is not None:
            slices.setdefault(name[: found.start()], []).append(i)
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
        tensors = stacked_tensors(tensors, folded)
        names += [strings[i] for i in folded.name.tolist()]
    return ModelLayout(tensors, tuple(names), slice_rows(tensors, strings), n_repaired)


def _contained(names: list[str], tensors: Tensors) -> npt.NDArray[np.bool_]:
    """Return bool[n]: slices whose stack is listed too, and so overlaps them."""
    listed = set(names)
    result = np.zeros(len(names), np.bool_)
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        found = _SLICE.search(names[i])
        result[i] = found is not None and names[i][: found.start()] in listed
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
        room = following - start
        wrong = (size[rows] > room) & (source[rows] != SizeSource.STATED)
        size[rows[wrong]] = room[wrong]
        source[rows[wrong]] = SizeSource.REPAIRED
        n_repaired += int(np.count_nonzero(wrong))
    return size, source, n_repaired


def _folded(tensors: Tensors, names: list[str], strings: StringTable) -> Tensors | None:
    """Return a row for each stack of which only the slices are listed."""
    listed = set(names)
    stacks: dict[str, list[int]] = {}
    for i in np.flatnonzero(tensors.expert >= 0).tolist():
        found = _SLICE.search(names[i])
        if found is not None and names[i][: found.start()] not in listed:
            stacks.setdefault(names[i][: found.start()], []).append(i)
    if not stacks:
        return None
    rows = [
        sorted(found, key=lambda i: int(tensors.expert[i])) for found in stacks.values()
    ]
    first = np.array([found[0] for found in rows], np.int64)
    base = taken_tensors(tensors, first)
    wholes = [_whole(tensors, np.array(found, np.int64)) for found in rows]
    shape = np.array(base.shape, np.int64)
    n_experts = np.array([len(found) for found in rows], np.int32)
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
