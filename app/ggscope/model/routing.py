"""Which experts a router chose."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import I64, Array, Column, Phase, Table

EXPERT_KEY = 1 << 16
"""An expert of a layer as one number: ``layer * EXPERT_KEY + expert``."""


UNKNOWN_MORE = -1
"""Of a list of experts: how many further ones there are is not known."""


class ExpertResidency(IntEnum):
    """Whether the weights of an expert were in memory when it was chosen."""

    MISS = 0
    HIT = 1
    PREFETCH_HIT = 2
    """They had been read ahead, and this is their first use."""


@dataclass(frozen=True, slots=True, eq=False)
class Routing(Table):
    """Choices of a router, one row per chosen expert.

    Attributes
    ----------
    n_experts : experts that the router chose from, as sizes of tensors show; 0 unknown.
    expert_bytes : pairs of a layer and the bytes of one of its experts, as the file
        states them; () where it does not.
    """

    time: Annotated[
        I64, Column("int64", "when; none where the file has no times", -1, unit="ticks")
    ]
    span: Annotated[
        I64,
        Column(
            "int64",
            "op whose record lists the choice (its `MUL_MAT_ID` or `ARGSORT`); the "
            "same choice is listed once per layer and token, however many ops repeat "
            "it",
            -1,
            of="spans",
        ),
    ]
    token: Annotated[Array, Column("int32", "token or pass", -1, high=1 << 32)]
    layer: Annotated[Array, Column("int16", "layer of the router", -1, high=1 << 15)]
    expert: Annotated[Array, Column("int16", "which was chosen", high=1 << 15)]
    rank: Annotated[
        Array, Column("int16", "0 is the router's first choice", -1, high=1 << 15)
    ]
    score: Annotated[
        npt.NDArray[np.float32], Column("float32", "router weight, 0..1", np.nan)
    ]
    is_used: Annotated[
        npt.NDArray[np.bool_],
        Column(
            "bool",
            "whether it is among those that compute (the first k of a ranking that "
            "lists more of them)",
        ),
    ]
    n_more: Annotated[
        Array | None,
        Column(
            "int32",
            "choices that belong to the same token and layer but are not listed: those "
            "beyond the end of a list, and those of a prompt's other tokens. Which "
            "experts they are is *unknown*. The same in all rows of a token and layer; "
            "0: all are listed, -1: not known how many. No column where every list "
            "is whole",
            0,
            low=UNKNOWN_MORE,
            high=1 << 31,
        ),
    ] = None
    is_implied: Annotated[
        npt.NDArray[np.bool_] | None,
        Column(
            "bool",
            "whether no list names the expert, but the sizes of the op's tensors show "
            "that every expert computed. No column where lists name all",
            0,
        ),
    ] = None
    row: Annotated[
        Array | None,
        Column(
            "int32",
            "row of the ubatch that it was chosen for, as the op numbers them: all "
            "tokens, or in the last layers those whose output is asked for",
            -1,
            high=1 << 31,
        ),
    ] = None
    phase: Annotated[
        Array | None, Column("int8", "phase of inference", -1, code=Phase, high=3)
    ] = None
    residency: Annotated[
        Array | None,
        Column(
            "int8",
            "whether its weights were in memory, as the program that chose it says",
            -1,
            code=ExpertResidency,
            high=3,
        ),
    ] = None
    n_experts: int = 0
    expert_bytes: tuple[tuple[int, int], ...] = ()

    def phases(self) -> tuple[int, ...]:
        """Return the phases that choices are stated to be of, ascending."""
        if self.phase is None:
            return ()
        return tuple(np.unique(self.phase[self.phase >= 0]).tolist())

    def of_phase(self, phase: int) -> "Routing":
        """Return the choices of a phase; none where phases are not recorded."""
        if self.phase is None:
            return self.take(np.zeros(0, np.int64))
        return self.take(np.flatnonzero(self.phase == phase))

    def listed(self) -> "Routing":
        """Return the choices that lists name, without those that sizes imply."""
        if self.is_implied is None or not self.is_implied.any():
            return self
        return self.take(np.flatnonzero(~self.is_implied))


def expert_key(layer: int, expert: int) -> int:
    """Return the number of an expert of a layer, for ``Selection("experts", …)``."""
    return layer * EXPERT_KEY + expert


def of_expert_key(key: int) -> tuple[int, int]:
    """Return (layer, expert) of such a number."""
    return divmod(key, EXPERT_KEY)
