"""Where in the file the tensors of a GGUF head lie, and how large they are."""

import numpy as np

from ggscope.model.ggml_types import fills_blocks, find_type
from ggscope.model.tables import I64
from ggscope.model.tensors import SizeSource
from ggscope.model.trace import Severity
from ggscope.readers.gguf_data import GgufHeader
from ggscope.readers.model_rows import MAX_OFFSET, stated_size


def places(header: GgufHeader, file_size: int) -> tuple[I64, I64, I64]:
    """Return offset, size and `SizeSource` of the tensors of one file, int64[n] each.

    Offsets count from the start of the file; -1 where they cannot be told. What is
    odd is noted in `header`.
    """
    n = len(header.tensors)
    offset = np.full(n, -1, np.int64)
    size = np.full(n, -1, np.int64)
    impossible: list[int] = []
    for i, tensor in enumerate(header.tensors):
        size[i] = stated_size(tensor.type, tensor.shape or (1,))
        place = header.data_offset + tensor.offset
        if header.data_offset >= 0:
            offset[i] = place if place <= MAX_OFFSET else -1
        is_huge = size[i] < 0 and find_type(tensor.type) is not None
        if is_huge or place > MAX_OFFSET - max(int(size[i]), 0):
            impossible.append(i)
    offset[impossible] = -1
    if impossible:
        first = header.tensors[impossible[0]]
        header.warn(
            Severity.DATA_LOSS,
            "gguf_impossible_tensor",
            f"{first.name} claims a shape or an offset larger than any file; it is "
            "listed without a place.",
            first.at,
            count=len(impossible),
            place=first.name,
        )
    return _with_unknown_types(header, offset, size, file_size)


def _with_unknown_types(
    header: GgufHeader, offset: I64, size: I64, file_size: int
) -> tuple[I64, I64, I64]:
    """Give tensors of unknown types the space up to the next one."""
    source = np.where(size >= 0, SizeSource.STATED, SizeSource.UNKNOWN).astype(np.int64)
    unknown = [i for i, t in enumerate(header.tensors) if find_type(t.type) is None]
    if not unknown:
        return offset, size, source
    starts = np.unique(np.append(offset[offset >= 0], file_size))
    rows = np.asarray(unknown, np.int64)
    rows = rows[(offset[rows] >= 0) & (offset[rows] < file_size)]
    following = starts[np.searchsorted(starts, offset[rows], side="right")]
    size[rows] = following - offset[rows]
    source[rows] = SizeSource.REPAIRED
    first = header.tensors[unknown[0]]
    numbers = sorted({header.tensors[i].type for i in unknown})
    header.warn(
        Severity.NOTICE,
        "gguf_unknown_type",
        f"Tensors have types that this version does not know (number "
        f"{', '.join(map(str, numbers[:4]))}); their sizes are the space up to the "
        "next tensor.",
        first.at,
        count=len(unknown),
        place=first.name,
    )
    return offset, size, source


def check_rows(header: GgufHeader, names: list[str]) -> None:
    """Note repeated names and rows that are no whole blocks of their type."""
    first_row = {name: i for i, name in reversed(list(enumerate(names)))}
    repeated = [i for i, name in enumerate(names) if first_row[name] != i]
    if repeated:
        first = header.tensors[repeated[0]]
        header.warn(
            Severity.NOTICE,
            "gguf_repeated_tensor",
            f"{first.name} is listed more than once.",
            first.at,
            count=len(repeated),
            place=first.name,
        )
    odd = [t for t in header.tensors if not fills_blocks(t.type, t.shape)]
    if odd:
        header.warn(
            Severity.NOTICE,
            "gguf_odd_rows",
            f"The rows of {odd[0].name} are no whole blocks of its type; ggml refuses "
            "such tensors.",
            odd[0].at,
            count=len(odd),
            place=odd[0].name,
        )


__all__ = ["check_rows", "places"]
