"""Which tensors a range of the model file is of, where an access names none."""

from dataclasses import dataclass

import numpy as np

from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.once import once
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True)
class RangePart:
    """The part of a range that lies in a tensor, or in slices of its experts.

    Attributes
    ----------
    first, last : experts, -1 where the tensor is not cut into them.
    n_bytes : of the range.
    """

    tensor: int
    first: int
    last: int
    n_bytes: int


def parts_of_range(trace: Trace, offset: int, size: int) -> tuple[RangePart, ...]:
    """Return the tensors that a range of the model file overlaps, by place.

    Only places that a model file or a map lists count, and only where there is one
    file: a range without a tensor does not say of which it is.

    Parameters
    ----------
    size : in bytes; -1 = not known: the tensor at `offset` is meant.
    """
    places = _listed_places(trace)
    if not places or offset < 0:
        return ()
    files = places[0]
    stop = offset + max(size, 1)
    ends = files.offset + files.size
    low = int(np.searchsorted(ends, offset, "right"))
    high = int(np.searchsorted(files.offset, stop, "left"))
    parts: list[RangePart] = []
    tensor, expert = files.tensor[low:high], files.expert[low:high]
    begin = np.maximum(files.offset[low:high], offset)
    n_bytes = np.minimum(ends[low:high], stop) - begin
    is_new = np.diff(tensor, prepend=-2) != 0
    is_new |= np.diff(expert, prepend=-2) != 1
    starts = np.flatnonzero(is_new & ~files.is_traced[low:high])
    edges = np.append(np.flatnonzero(is_new), len(tensor))
    for start in starts.tolist():
        end = int(edges[np.searchsorted(edges, start, "right")])
        total = int(n_bytes[start:end].sum()) if size >= 0 else 0
        parts.append(
            RangePart(
                int(tensor[start]), int(expert[start]), int(expert[end - 1]), total
            )
        )
    return tuple(parts)


@once
def _listed_places(trace: Trace) -> tuple[FileMap, ...]:
    """Return the map of the only model file; none where there is no such file."""
    if len(trace.models) > 1 or not (trace.tensors.offset >= 0).any():
        return ()
    files = file_map(trace)
    return (files,) if files.is_listed and len(files.parts) == 1 else ()
