"""What is said of a list of tensors: wrong sizes, relative offsets, lost rows."""

from dataclasses import dataclass

from ggscope.model.builder import TraceBuilder
from ggscope.model.tensors import Tensors
from ggscope.model.trace import Severity
from ggscope.model.units import format_bytes, format_offset
from ggscope.readers.map_layout import Layout
from ggscope.readers.model_rows import TensorRows


@dataclass(frozen=True, slots=True)
class Claims:
    """What a file says of all its tensors together; -1 where it does not.

    Attributes
    ----------
    total_bytes : size of the model file, or of its data section.
    n_tensors : rows.
    """

    total_bytes: int = -1
    n_tensors: int = -1


def note_layout(builder: TraceBuilder, rows: TensorRows, layout: Layout) -> None:
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
        f"{layout.n_as_floats:,} of them have four bytes per element, as if they were "
        "not quantised. "
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
        remedy="Open the GGUF file beside the trace: its head tells the exact sizes.",
    )


def note_offsets(builder: TraceBuilder, layout: Layout) -> None:
    """Note offsets that count from the data section."""
    if layout.first_offset == 0:
        builder.warn(
            Severity.INFO,
            "map_relative_offsets",
            "Offsets begin at 0: they count from the start of the data section, not "
            "of the model file. Where that begins this file does not tell.",
            remedy="A trace with file offsets or the GGUF file beside it settles it.",
        )


def note_claims(
    builder: TraceBuilder, rows: TensorRows, layout: Layout, claims: Claims
) -> None:
    """Note totals that the rows contradict, and rows that are slices of experts."""
    if 0 <= claims.total_bytes < layout.max_end:
        beyond = layout.max_end - claims.total_bytes
        why = (
            "; that is the first tensor's offset, so that the total counts the data "
            "section only"
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
            f"The stated total of {claims.total_bytes:,} bytes counts wrong sizes as "
            f"well; the last tensor ends at byte {layout.repaired_end:,}.",
        )
    if claims.n_tensors >= 0 and claims.n_tensors != len(rows):
        builder.warn(
            Severity.NOTICE,
            "map_count",
            f"The file says {claims.n_tensors:,} tensors, but lists {len(rows):,}.",
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
            f"{rows.name[lost[0]]} has no usable offset; it is listed without a "
            "place in the file.",
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
            f"{rows.name[again[0]]} is listed more than once.",
            _at(rows, again[0]),
            count=len(again),
            place=rows.name[again[0]],
        )


def totals(layout: Layout, tensors: Tensors) -> dict[str, object]:
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


__all__ = [
    "Claims",
    "note_claims",
    "note_layout",
    "note_offsets",
    "note_places",
    "totals",
]
