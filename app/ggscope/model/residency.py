"""What of the model files was in the page cache while a program ran."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Column


@dataclass(frozen=True, slots=True, eq=False)
class Residency:
    """Samples of the page cache, and of what the process had read by then.

    Many samples say the same, so each refers to a *state*. What a sample saw lies
    between its begin and its end; the figures of the process are those of its end.

    Attributes
    ----------
    resident : int64[n_states, n_tensors], bytes of each tensor; -1 not known.
    tensors : int32[n_tensors], rows of ``Trace.tensors``.
    places : uint64[n, 2], where the files were mapped: first address, and the one
        behind the last.
    why : why the bytes of some or all tensors are not known; "" where they are.
    """

    begin: Annotated[I64, Column("int64", "when it began", unit="ticks")]
    end: Annotated[I64, Column("int64", "when it ended", unit="ticks")]
    state: Annotated[I64, Column("int64", "which row of `resident` it saw")]
    read_bytes: Annotated[
        I64,
        Column("int64", "bytes that the process had read from storage", -1),
    ]
    major_faults: Annotated[
        I64, Column("int64", "faults of the process that waited for storage", -1)
    ]
    minor_faults: Annotated[I64, Column("int64", "its other faults", -1)]
    resident: I64
    tensors: npt.NDArray[np.int32]
    places: npt.NDArray[np.uint64]
    why: str = ""

    def __len__(self) -> int:
        return len(self.begin)

    def column_of(self, tensor: int) -> int:
        """Return the column of a row of ``Trace.tensors``; -1 for none."""
        columns = np.flatnonzero(self.tensors == tensor)
        return int(columns[0]) if tensor >= 0 and len(columns) else -1

    def bytes_at(self, sample: int, column: int) -> int:
        """Return the bytes of a tensor that a sample found in memory; -1 not known."""
        return int(self.resident[int(self.state[sample]), column])

    def shares(self, sizes: I64) -> npt.NDArray[np.float64]:
        """Return the share of each tensor that the last sample found in memory.

        Parameters
        ----------
        sizes : int64[n], bytes of the rows of ``Trace.tensors``.

        Returns
        -------
        float64[n], 0..1; -1 not known.
        """
        shares = np.full(len(sizes), -1.0)
        if len(self):
            held, size = self.resident[int(self.state[-1])], sizes[self.tensors]
            is_known = (held >= 0) & (size > 0)
            share = np.minimum(held[is_known] / size[is_known], 1.0)
            shares[self.tensors[is_known]] = share
        return shares

    def is_mapped(self, address: int) -> bool:
        """Return whether `address` lies in a file that the program mapped."""
        return any(low <= address < high for low, high in self.places.tolist())

    def per_second(self) -> float:
        """Return how many samples were taken a second, of late; 0 = too few to say.

        Ticks are nanoseconds: only running programs are sampled.
        """
        n = min(len(self), 9)
        took = int(self.end[-1] - self.end[-n]) if n > 1 else 0
        return (n - 1) * 1e9 / took if took > 0 else 0.0
