"""Whether the tensors of a GGUF file lie where they should."""

from dataclasses import dataclass

import numpy as np

from ggscope.model.tables import I64
from ggscope.model.trace import Severity
from ggscope.model.units import format_bytes, format_offset
from ggscope.readers.gguf.header import GgufHeader

_REFETCH = "The file is damaged or made by a faulty writer; fetch or convert it again."


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Tensors of one file, in the order of its table.

    Attributes
    ----------
    name : as the file spells them.
    offset : int64[n], from the start of the file; -1 unknown.
    size : int64[n], bytes; -1 unknown.
    file_size : bytes of the file.
    """

    name: list[str]
    offset: I64
    size: I64
    file_size: int


def check_layout(layout: Layout, header: GgufHeader) -> None:
    """Note in `header` what is wrong with the places of its tensors."""
    known = np.flatnonzero(layout.offset >= 0)
    if not len(known):
        return
    _check_alignment(layout, header, known)
    _check_order(layout, header, known)
    _check_overlaps(layout, header, known)
    _check_end(layout, header, known)


def _check_alignment(layout: Layout, header: GgufHeader, known: I64) -> None:
    relative = layout.offset[known] - header.data_offset
    odd = known[relative % header.alignment != 0]
    if len(odd):
        first = int(odd[0])
        header.warn(
            Severity.NOTICE,
            "gguf_misaligned",
            f"{layout.name[first]} does not begin at a multiple of "
            f"{header.alignment} bytes of the data section.",
            header.tensors[first].at,
            count=len(odd),
            place=layout.name[first],
        )


def _check_order(layout: Layout, header: GgufHeader, known: I64) -> None:
    steps = np.diff(layout.offset[known])
    back = np.flatnonzero(steps < 0)
    if len(back):
        first = int(known[back[0] + 1])
        header.warn(
            Severity.NOTICE,
            "gguf_out_of_order",
            f"{layout.name[first]} lies before the tensor that is listed ahead of it; "
            "the offsets were taken as they are.",
            header.tensors[first].at,
            count=len(back),
            place=layout.name[first],
        )


def _check_overlaps(layout: Layout, header: GgufHeader, known: I64) -> None:
    sized = known[layout.size[known] > 0]
    order = sized[np.argsort(layout.offset[sized], kind="stable")]
    start, end = layout.offset[order], layout.offset[order] + layout.size[order]
    over = np.flatnonzero(end[:-1] > start[1:])
    if len(over):
        one, other = int(order[over[0]]), int(order[over[0] + 1])
        shared = int(end[over[0]] - start[over[0] + 1])
        header.warn(
            Severity.DATA_LOSS,
            "gguf_overlaps",
            f"{layout.name[one]} and {layout.name[other]} share {shared:,} bytes from "
            f"{format_offset(int(start[over[0] + 1]))} on; the tensors' sizes add up "
            f"to {format_bytes(layout.size[sized].sum(dtype=np.float64))}.",
            header.tensors[other].at,
            count=len(over),
            place=layout.name[other],
            remedy=_REFETCH,
        )
    gaps = start[1:] - np.maximum.accumulate(end)[:-1]
    wide = np.flatnonzero(gaps >= header.alignment)
    if len(wide):
        header.warn(
            Severity.NOTICE,
            "gguf_gaps",
            f"{int(gaps[wide].sum()):,} bytes between tensors belong to none; the "
            f"first {int(gaps[wide[0]]):,} follow {layout.name[int(order[wide[0]])]}.",
            int(end[wide[0]]),
            count=len(wide),
        )


def _check_end(layout: Layout, header: GgufHeader, known: I64) -> None:
    end = layout.offset[known] + np.maximum(layout.size[known], 0)
    beyond = known[end > layout.file_size]
    if len(beyond):
        first, missing = int(beyond[0]), int(end.max()) - layout.file_size
        header.warn(
            Severity.DATA_LOSS,
            "gguf_data_missing",
            f"{len(beyond):,} of {len(layout.name):,} tensors reach beyond the end of "
            f"the file: {format_bytes(missing)} ({missing:,} bytes) of weights are "
            "missing. Offsets and sizes are shown as the head states them.",
            layout.file_size,
            place=layout.name[first],
            remedy="If this is the whole file, its download or copy is incomplete.",
        )
        return
    rest = layout.file_size - int(end.max())
    if rest > max(header.alignment, 4096):
        header.warn(
            Severity.NOTICE,
            "gguf_trailing_bytes",
            f"{rest:,} bytes behind the last tensor belong to none.",
            int(end.max()),
        )
