"""What ggml ops do with their sources: which they read, which they write, how much.

Traces list the sources of an op as if all were read. By the op's definition some are
not: ``ggml_set_rows`` keeps its destination as source 2, ``ggml_cpy`` as source 1, and
a view touches nothing. These rules are here and nowhere else; ``analysis.account``
applies them.
"""

from enum import IntEnum
from functools import lru_cache

VIEW_OPS = frozenset({"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"})
"""Ops that only describe memory: nothing is read or written."""
ROW_OPS = frozenset({"GET_ROWS"})
"""Ops that read some rows of source 0: those that source 1 names."""
CHOOSING_OPS = frozenset({"MUL_MAT_ID", "ADD_ID"})
"""Ops that read of a stack of experts those that their last source names."""
INDEX_BYTES = 4
"""``ggml_get_rows`` and ``ggml_mul_mat_id`` take 32-bit indices."""

_DESTINATION = {"SET_ROWS": 2, "CPY": 1, "DUP": 1, "CONT": 1, "SET": 0, "ACC": 0}
_IN_PART = frozenset({"SET_ROWS", "SET", "ACC"})


class Operand(IntEnum):
    """What an op does with one of its sources."""

    READ = 0
    """Reads all of it."""
    ROWS = 1
    """Reads the rows that another source names."""
    EXPERTS = 2
    """Reads, where it is a stack of experts, those that another source names; else
    all of it."""
    WRITTEN = 3
    """Writes all of it."""
    PARTLY_WRITTEN = 4
    """Writes some of it; how much is not to be seen from its size."""
    UNTOUCHED = 5
    """Neither reads nor writes it."""


@lru_cache(maxsize=4096)
def operand(op: str, slot: int) -> Operand:
    """Return what op `op` does with source number `slot`, counted from 0.

    Ops that are not known read all of their sources.
    """
    if op in VIEW_OPS:
        return Operand.UNTOUCHED
    if _DESTINATION.get(op) == slot:
        return Operand.PARTLY_WRITTEN if op in _IN_PART else Operand.WRITTEN
    if op in ROW_OPS and slot == 0:
        return Operand.ROWS
    if op in CHOOSING_OPS:
        return Operand.EXPERTS
    return Operand.READ
