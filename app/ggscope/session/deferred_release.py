"""Gives back the memory of a large trace bit by bit.

Returning a gigabyte to the system takes 25 ms, and happens wherever the last
reference goes: on the main thread, which would stand still for it.
"""

import gc

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QCoreApplication, QObject, QTimer

from ggscope.model.trace import Trace

LARGE_SPANS = 1_000_000
"""Smaller traces go in less time than it takes to look for their columns."""
_LARGE_BYTES = 1 << 20
_MANY = 1000
"""Longer lists hold texts or numbers, never columns."""
_OURS = "ggscope."

AnyArray = npt.NDArray[np.generic]


def free_in_steps(trace: Trace, *others: object) -> None:
    """Let a trace and what was made of it go bit by bit, in later turns.

    Call it before the last reference to them is dropped. Small traces, and all
    where no application runs, go at once.

    Notes
    -----
    Looking for the columns takes 5 ms.
    """
    app = QCoreApplication.instance()
    if app is None or len(trace.spans) < LARGE_SPANS:
        return
    columns = large_arrays(trace, *others)
    if columns:
        _Freeing(columns, app)


def large_arrays(*roots: object) -> list[AnyArray]:
    """Return the large arrays that our own objects under `roots` hold."""
    arrays: dict[int, AnyArray] = {}
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        here = todo.pop()
        if isinstance(here, np.ndarray):
            owner = here if here.base is None else here.base
            if isinstance(owner, np.ndarray) and owner.nbytes >= _LARGE_BYTES:
                arrays[id(owner)] = owner
        elif id(here) not in seen and _is_walked(here):
            seen.add(id(here))
            todo += gc.get_referents(here)
    return list(arrays.values())


def _is_walked(here: object) -> bool:
    if isinstance(here, list | tuple | dict):
        return len(here) <= _MANY
    kind = type(here)
    return kind.__module__.startswith(_OURS) and not isinstance(here, type | QObject)


class _Freeing(QObject):
    """Drops one array per turn, then itself."""

    def __init__(self, columns: list[AnyArray], parent: QObject) -> None:
        super().__init__(parent)
        self._columns = columns
        self._next = QTimer(self)
        self._next.setInterval(0)
        self._next.timeout.connect(self._on_turn)
        self._next.start()

    def _on_turn(self) -> None:
        if self._columns:
            self._columns.pop()
        else:
            self._next.stop()
            self.deleteLater()
