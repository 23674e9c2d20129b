"""Which experts a router chose."""

from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, empty

EXPERT_KEY = 1 << 16
"""An expert of a layer as one number: ``layer * EXPERT_KEY + expert``."""


UNKNOWN_MORE = -1
"""Of a list of experts: how many further ones there are is not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Choices of a router, one row per chosen expert.

    Attributes
    ----------
    time : int64[n], ticks; -1 where the file has no times.
    span : int64[n], the op whose record lists the choice (its ``MUL_MAT_ID`` or
        ``ARGSORT``); -1 none. The same choice is listed once per layer and token,
        however many ops repeat it.
    token : int32, token or pass number; -1 unknown.
    layer : int16.
    expert : int16.
    rank : int16, 0 = the router's first choice; -1 unknown.
    score : float32, 0..1; NaN unknown.
    is_used : bool, whether the expert is among those that compute (the first k of a
        ranking that lists more of them).
    n_more : int32, choices that belong to the same token and layer but are not
        listed: those beyond the end of a list, and those of a prompt's other tokens.
        Which experts they are is *unknown*. The same in all rows of a token and
        layer; 0 = all are listed, `UNKNOWN_MORE` = nobody knows how many. None where
        every list is whole.
    is_implied : bool, whether no list names the expert, but the sizes of the op's
        tensors tell that every expert computed. None where lists name all.
    n_experts : experts that the router chose from, as sizes of tensors tell; 0 unknown.
    """

    time: I64
    span: I64
    token: Array
    layer: Array
    expert: Array
    rank: Array
    score: npt.NDArray[np.float32]
    is_used: npt.NDArray[np.bool_]
    n_more: Array | None = None
    is_implied: npt.NDArray[np.bool_] | None = None
    n_experts: int = 0

    def __len__(self) -> int:
        return len(self.layer)

    def listed(self) -> "Routing":
        """Return the choices that lists name, without those that sizes imply."""
        if self.is_implied is None or not self.is_implied.any():
            return self
        return self.take(np.flatnonzero(~self.is_implied))

    def take(self, rows: Array) -> "Routing":
        """Return the given rows."""
        columns = {
            f.name: None if (column := getattr(self, f.name)) is None else column[rows]
            for f in fields(self)
            if f.name != "n_experts"
        }
        return replace(self, **columns)  # type: ignore[arg-type]  # columns of rows


def expert_key(layer: int, expert: int) -> int:
    """Return the number of an expert of a layer, for ``Selection("experts", …)``."""
    return layer * EXPERT_KEY + expert


def of_expert_key(key: int) -> tuple[int, int]:
    """Return (layer, expert) of such a number."""
    return divmod(key, EXPERT_KEY)


def no_routing() -> Routing:
    """Return a table without rows."""
    return Routing(
        empty(np.int64),
        empty(np.int64),
        empty(np.int32),
        empty(np.int16),
        empty(np.int16),
        empty(np.int16),
        empty(np.float32),
        empty(np.bool_),
    )
