"""The tensors of the model files of a session, as they lie there."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.names import COMPONENTS, parse
from ggscope.model.tables import I64
from ggscope.model.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class ModelTensors:
    """Tensors in the order of their files and offsets; those without an offset last.

    Attributes
    ----------
    rows : int64[n], their numbers in ``Trace.tensors``.
    file : int64[n], which of `files` each lies in; -1 where it is not known.
    offset, size : int64[n], bytes; -1 where they are not known.
    component : uint8[n], of `model.names.COMPONENTS`.
    files : names of the model files.
    ends : int64[n_files], size of each file in bytes; where no header states it, the
        end of its last tensor.
    starts : int64[n_files], where the data of each begin; 0 where it is not known.
    """

    rows: I64
    file: I64
    offset: I64
    size: I64
    component: npt.NDArray[np.uint8]
    files: tuple[str, ...]
    ends: I64
    starts: I64

    def __len__(self) -> int:
        return len(self.rows)


def is_model_alone(trace: Trace) -> bool:
    """Return whether a trace lists the tensors of a model and records no run of it."""
    return bool(
        trace.models
        and len(trace.tensors)
        and not len(trace.spans)
        and not len(trace.markers)
        and not trace.counters
        and not len(trace.accesses.patterns)
        and not len(trace.accesses.loose)
        and trace.log is None
        and trace.bench is None
    )


def model_tensors(trace: Trace) -> ModelTensors:
    """Return the tensors of the model files, or all that there are where none is named.

    Notes
    -----
    O(n log n) in the tensors; each name is looked at once.
    """
    tensors = trace.tensors
    file = np.full(len(tensors), -1, np.int64)
    if tensors.file is not None:
        file = tensors.file.astype(np.int64)
    is_own = file >= 0
    if not is_own.any():
        is_own = tensors.name >= 0
    rows = np.flatnonzero(is_own)
    offset, size = tensors.offset[rows], tensors.size[rows]
    far = np.where(offset < 0, np.iinfo(np.int64).max, offset)
    order = np.lexsort((rows, far, file[rows]))
    rows, offset, size = rows[order], offset[order], size[order]
    file = file[rows]
    number = {name: i for i, name in enumerate(COMPONENTS)}
    names = [trace.strings[i] for i in tensors.name[rows].tolist()]
    component = np.array([number[parse(name).component] for name in names], np.uint8)
    n_files = len(trace.models)
    ends = np.zeros(n_files, np.int64)
    is_placed = (file >= 0) & (offset >= 0)
    last = offset[is_placed] + np.maximum(size[is_placed], 0)
    np.maximum.at(ends, file[is_placed], last)
    for i, model in enumerate(trace.models):
        ends[i] = max(ends[i], model.size)
    starts = np.array([max(m.data_offset, 0) for m in trace.models], np.int64)
    return ModelTensors(
        rows, file, offset, size, component,
        tuple(model.name for model in trace.models), ends, starts,
    )  # fmt: skip
