"""Do listed tensors fit beside each other? Finding and repairing wrong sizes.

Side files give quantised tensors the size that they would have as 32-bit floats:
7 times too much, so that each seems to run into the next. Where it does, the space
up to the next tensor is taken instead; the order of the offsets is right in all
files known. Slices of experts are laid out with the same wrong size, so that their
offsets are wrong too: they are spread evenly over the space of the whole tensor.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import F64, I64, U8
from ggscope.model.tensors import SizeSource, Tensors
from ggscope.model.trace import Severity
from ggscope.model.units import format_bytes, format_offset
from ggscope.readers.common.tensor_rows import TensorRows, slice_of


@dataclass(frozen=True, slots=True, eq=False)
class RepairedPlaces:
    """Where tensors lie after repair, row by row, and what was stated.

    Attributes
    ----------
    offset, size : int64[n], repaired; -1 unknown.
    source : uint8[n], `SizeSource`.
    overlaps : int64[k], rows that run into the next one as stated, in the order of
        their offsets.
    stated_bytes : sum of all stated sizes.
    first_offset, max_end : as stated; -1 where no offset is known.
    repaired_end : first byte behind the last tensor after repair; -1 unknown.
    n_slices, n_stacks : rows that are slices of an expert, and tensors they make up.
    n_moved : slices whose offset was repaired.
    n_as_floats : overlapping rows of exactly four bytes per element.
    """

    offset: I64
    size: I64
    source: U8
    overlaps: I64
    stated_bytes: float
    first_offset: int
    max_end: int
    repaired_end: int
    n_slices: int
    n_stacks: int
    n_moved: int
    n_as_floats: int


def examine(rows: TensorRows) -> RepairedPlaces:
    """Return where the tensors lie, with sizes that run into others repaired."""
    offset = np.asarray(rows.offset, np.int64)
    size = np.asarray(rows.size, np.int64)
    end = _ends(offset, size)
    known = np.flatnonzero(end >= 0)
    order = known[np.argsort(offset[known], kind="stable")]
    overlaps = order[:-1][end[order[:-1]] > offset[order[1:]]]
    stacks = _stacks(rows)
    new_offset, new_size = _repaired(offset, size, end, known, stacks)
    source = np.where(new_size >= 0, SizeSource.LISTED, SizeSource.UNKNOWN)
    source[(new_size != size) | (new_offset != offset)] = SizeSource.REPAIRED
    source[new_size < 0] = SizeSource.UNKNOWN
    return RepairedPlaces(
        offset=new_offset,
        size=new_size,
        source=source.astype(np.uint8),
        overlaps=overlaps,
        stated_bytes=float(size[size >= 0].sum(dtype=np.float64)),
        first_offset=int(offset[offset >= 0].min()) if (offset >= 0).any() else -1,
        max_end=int(end.max(initial=-1)),
        repaired_end=int(_ends(new_offset, new_size).max(initial=-1)),
        n_slices=sum(len(stack.rows) for stack in stacks),
        n_stacks=len(stacks),
        n_as_floats=int(
            np.count_nonzero(size[overlaps] == 4 * _elements(rows, overlaps))
        ),
        n_moved=int(np.count_nonzero(new_offset != offset)),
    )


def _ends(offset: I64, size: I64) -> I64:
    """Return the first byte behind each tensor; -1 where it cannot be determined."""
    known = (offset >= 0) & (size >= 0) & (offset <= np.iinfo(np.int64).max - size)
    return np.where(known, offset + np.where(known, size, 0), -1)


def _elements(rows: TensorRows, which: I64) -> F64:
    """Return the elements of the tensors `which`; 0 where no shape is stated."""
    return np.asarray(
        [math.prod(rows.shape[i]) if rows.shape[i] else 0 for i in which.tolist()],
        np.float64,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Stack:
    """Rows of a tensor that is listed slice by slice, in the order of experts."""

    rows: I64
    is_complete: bool


def _stacks(rows: TensorRows) -> list[_Stack]:
    stacks: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, name in enumerate(rows.name):
        base, expert = slice_of(name)
        if expert >= 0:
            stacks[base].append((expert, row))
    return [
        _Stack(
            np.asarray([row for _, row in sorted(slices)], np.int64),
            [expert for expert, _ in sorted(slices)] == list(range(len(slices))),
        )
        for slices in stacks.values()
    ]


def _repaired(
    offset: I64, size: I64, end: I64, known: I64, stacks: list[_Stack]
) -> tuple[I64, I64]:
    """Return offsets and sizes of which none runs into the next tensor.

    A stack counts as one tensor: its slices are no neighbours of each other.
    """
    far = np.iinfo(np.int64).max
    unit = np.arange(len(offset), dtype=np.int64)
    for stack in stacks:
        unit[stack.rows] = stack.rows[0]
    begin = np.full(len(offset), far)
    stop = np.full(len(offset), -1, np.int64)
    np.minimum.at(begin, unit[known], offset[known])
    np.maximum.at(stop, unit[known], end[known])
    starts = np.unique(begin[np.unique(unit[known])])
    following = np.append(starts, [far, far])[
        np.searchsorted(starts, begin, side="right")
    ]
    runs_over = stop > following
    new_offset, new_size = offset.copy(), size.copy()
    in_stack = np.zeros(len(offset), np.bool_)
    for stack in stacks:
        in_stack[stack.rows] = True
        leader = int(stack.rows[0])
        if runs_over[leader]:
            space = int(begin[leader]), int(following[leader])
            _spread(stack, space, new_offset, new_size)
    single = known[runs_over[known] & ~in_stack[known]]
    new_size[single] = following[single] - offset[single]
    return new_offset, new_size


def _spread(stack: _Stack, space: tuple[int, int], offset: I64, size: I64) -> None:
    """Lay slices evenly over a space: slice k begins at start + k·space/n.

    Where slices are missing from the list, n is not known: those that lie outside
    the space lose their place.
    """
    start, stop = space
    rows, n = stack.rows, len(stack.rows)
    if stack.is_complete:
        edges = np.asarray(
            [start + k * (stop - start) // n for k in range(n + 1)], np.int64
        )
        offset[rows], size[rows] = edges[:-1], np.diff(edges)
        return
    lost = rows[(offset[rows] >= stop) | (offset[rows] + size[rows] > stop)]
    offset[lost], size[lost] = -1, -1


@dataclass(frozen=True, slots=True)
class StatedTotals:
    """What a file says of all its tensors together; -1 where it does not.

    Attributes
    ----------
    total_bytes : size of the model file, or of its data section.
    n_tensors : rows.
    """

    total_bytes: int = -1
    n_tensors: int = -1


def note_layout(
    builder: TraceBuilder, rows: TensorRows, layout: RepairedPlaces
) -> None:
    """Note tensors that run into each other, with the evidence and the repair."""
    if not len(layout.overlaps):
        return
    first, n = int(layout.overlaps[0]), len(layout.overlaps)
    space = layout.repaired_end - layout.first_offset
    moved = (
        f" {layout.n_moved:,} slices of experts were moved to where an even division "
        "of their tensor puts them."
        if layout.n_moved
        else ""
    )
    why = (
        f"{layout.n_as_floats:,} of them have 4 bytes per element, as if not "
        "quantised. "
        if layout.n_as_floats
        else ""
    )
    builder.warn(
        Severity.NOTICE,
        "map_overlaps",
        f"{n:,} overlaps: {n:,} of {len(rows):,} tensors run into the next one. The "
        f"stated sizes add up to {format_bytes(layout.stated_bytes)}, but the offsets "
        f"leave room for {format_bytes(space)}. {why}Such a size was replaced by the "
        "space up to the next tensor, e.g. "
        f"{rows.name[first]}: stated {rows.size[first]:,} bytes, now "
        f"{int(layout.size[first]):,}.{moved}",
        _at(rows, first),
        count=n,
        place=rows.name[first],
        remedy="Open the GGUF file with the trace: its header has the exact sizes.",
    )


def note_offsets(builder: TraceBuilder, layout: RepairedPlaces) -> None:
    """Note offsets that count from the data section."""
    if layout.first_offset == 0:
        builder.warn(
            Severity.INFO,
            "map_relative_offsets",
            "Offsets begin at 0: they are relative to the data section, whose "
            "start is not in this file.",
            remedy="Add the GGUF file or a trace with file offsets.",
        )


def note_claims(
    builder: TraceBuilder,
    rows: TensorRows,
    layout: RepairedPlaces,
    claims: StatedTotals,
) -> None:
    """Note totals that the rows contradict, and rows that are slices of experts."""
    if 0 <= claims.total_bytes < layout.max_end:
        beyond = layout.max_end - claims.total_bytes
        why = (
            "; this is the first tensor's offset, so the total counts the "
            "data section only"
            if beyond == layout.first_offset
            else ""
        )
        builder.warn(
            Severity.NOTICE,
            "map_beyond_total",
            f"The last tensor ends at byte {layout.max_end:,} "
            f"({format_offset(layout.max_end)}), {beyond:,} bytes beyond the stated "
            f"total of {claims.total_bytes:,}{why}.",
        )
    if layout.repaired_end < claims.total_bytes == layout.max_end:
        builder.warn(
            Severity.NOTICE,
            "map_total_inflated",
            f"The total of {claims.total_bytes:,} bytes in the file includes "
            "wrong sizes; the last tensor ends at byte "
            f"{layout.repaired_end:,}.",
        )
    if claims.n_tensors >= 0 and claims.n_tensors != len(rows):
        builder.warn(
            Severity.NOTICE,
            "map_count",
            f"Tensor count does not match: file says {claims.n_tensors:,}, "
            f"found {len(rows):,}.",
        )
    if layout.n_slices:
        whole = len(rows) - layout.n_slices + layout.n_stacks
        builder.warn(
            Severity.INFO,
            "map_slices",
            f"{layout.n_slices:,} rows are slices of single experts, of "
            f"{layout.n_stacks:,} tensors; the model has {whole:,} tensors.",
        )


def note_places(builder: TraceBuilder, rows: TensorRows) -> None:
    """Note rows without an offset, and names that are listed twice."""
    lost = [row for row, offset in enumerate(rows.offset) if offset < 0]
    if lost:
        builder.warn(
            Severity.NOTICE,
            "map_no_offset",
            f"{rows.name[lost[0]]} has no valid offset; it has no file range.",
            _at(rows, lost[0]),
            count=len(lost),
            place=rows.name[lost[0]],
        )
    first_row = {name: row for row, name in reversed(list(enumerate(rows.name)))}
    again = [row for row, name in enumerate(rows.name) if first_row[name] != row]
    if again:
        builder.warn(
            Severity.NOTICE,
            "map_repeated_tensor",
            f"Duplicate tensor {rows.name[again[0]]}.",
            _at(rows, again[0]),
            count=len(again),
            place=rows.name[again[0]],
        )


def totals(layout: RepairedPlaces, tensors: Tensors) -> dict[str, object]:
    """Return the figures of a list, for ``TraceInfo.summary``."""
    return {
        "first_offset": layout.first_offset,
        "max_end": layout.max_end,
        "sum_sizes": int(layout.stated_bytes),
        "overlaps": len(layout.overlaps),
        "expert_slices": layout.n_slices,
        "repaired_end": layout.repaired_end,
        "sum_repaired": int(tensors.size[tensors.size >= 0].sum(dtype=float)),
        "rows": len(tensors),
    }


def _at(rows: TensorRows, row: int) -> int | None:
    return rows.at[row] if rows.at[row] >= 0 else None
