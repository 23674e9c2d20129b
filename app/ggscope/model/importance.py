"""An importance matrix: how strongly calibration data used each tensor and expert."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """What llama-imatrix collected, an entry per tensor.

    A matrix is a tensor, or the slice of one expert of a stacked tensor.

    Attributes
    ----------
    names : of the tensors, in the order of the file.
    layer : int64[n], by the name; -1 none.
    n_values : int64[n], numbers that the file has for the tensor.
    first : int64[n + 1], entry i has the matrices ``first[i]:first[i + 1]``.
    count : float64[m], rows of activations (tokens) that each matrix was multiplied
        with; NaN where the file does not say.
    is_seen : int8[m], whether a matrix was used at all: 0 or 1; -1 not known.
    mean_square : float64[m], mean square of the activations; NaN where it was not used
        or is not known.
    is_split : bool[n], whether the matrices of the entry are distinguished.
    chunks : of text that were computed; -1 unknown.
    chunk_size : tokens of each; -1 unknown.
    datasets : names of the texts.
    form : "dat" or "gguf".
    """

    names: tuple[str, ...]
    layer: I64
    n_values: I64
    first: I64
    count: F64
    is_seen: npt.NDArray[np.int8]
    mean_square: F64
    is_split: npt.NDArray[np.bool_]
    chunks: int
    chunk_size: int
    datasets: tuple[str, ...]
    form: str

    def __len__(self) -> int:
        return len(self.names)

    @property
    def n_matrices(self) -> I64:
        """Matrices of each entry, int64[n]."""
        return np.diff(self.first)

    def expert_counts(self) -> tuple[I64, I64, F64, npt.NDArray[np.int8]]:
        """Return layer, expert, count and `is_seen` of each layer's experts.

        One row per layer and expert, of the first entry of the layer that states its
        experts apart: those of one layer were used with the same choices.
        """
        rows, layers, experts = [], [], []
        known: set[int] = set()
        for i in np.flatnonzero(self.is_split & (self.layer >= 0)).tolist():
            layer = int(self.layer[i])
            if layer in known or self.n_matrices[i] < 2:
                continue
            known.add(layer)
            row = np.arange(self.first[i], self.first[i + 1])
            rows.append(row)
            layers.append(np.full(len(row), layer, np.int64))
            experts.append(np.arange(len(row), dtype=np.int64))
        if not rows:
            none = np.zeros(0, np.int64)
            return none, none, np.zeros(0), np.zeros(0, np.int8)
        at = np.concatenate(rows)
        of_layer = np.concatenate(layers)
        order = np.argsort(of_layer, kind="stable")
        expert = np.concatenate(experts)[order]
        at = at[order]
        return of_layer[order], expert, self.count[at], self.is_seen[at]
