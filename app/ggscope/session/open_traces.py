"""The sessions of all tabs, for a view that looks at another one."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from ggscope.model.trace import Trace
    from ggscope.session.loader import LoadRequest
    from ggscope.session.session import Session
    from ggscope.session.tasks import TaskContext


@dataclass(frozen=True, slots=True)
class RunsRequest:
    """Read the runs of a folder, or some of them, each as a trace of its own.

    Attributes
    ----------
    folder : its recordings are found on the worker.
    limit_bytes : memory that reading each may use; 0 = what the system has to give.
    left_out : a run that is there already.
    runs : which to read; () = all of the folder.
    name : what they are called; "" = as the folder.
    """

    folder: Path
    limit_bytes: int = 0
    left_out: Path | None = None
    runs: tuple[Path, ...] = ()
    name: str = ""

    @property
    def title(self) -> str:
        """What the runs are called."""
        return self.name or self.folder.name

    def __call__(self, context: "TaskContext") -> "tuple[Trace, ...]":
        """Return the traces, naturally sorted by their names.

        Raises
        ------
        QueryError
            If there are none, or more than can be compared.
        ReadError, Cancelled
            As `LoadRequest`.
        """
        from ggscope.errors import QueryError
        from ggscope.readers.discovery import runs_of_side
        from ggscope.session.loader import LoadRequest

        runs = list(self.runs) or runs_of_side(self.folder)
        left_out = self.left_out
        if left_out is not None:
            runs = [run for run in runs if run.absolute() != left_out.absolute()]
        if not runs or runs == [self.folder]:
            raise QueryError(f"{self.folder.name} has no several runs.")
        traces = []
        for path in runs:
            context.check_cancelled()
            traces.append(LoadRequest(path, limit_bytes=self.limit_bytes)(context))
        return tuple(traces)


class OpenTraces(QObject):
    """Sessions by the titles of their tabs; it keeps none of them alive.

    Attributes
    ----------
    ask_file : asks for a file that is in no tab; returns how to read it, None where
        nothing was chosen.
    ask_folder : asks for a folder of several runs, in the same way.

    Signals
    -------
    changed : a tab came, went, or has another title.
    """

    changed = Signal()

    def __init__(
        self,
        ask_file: "Callable[[], LoadRequest | None]" = lambda: None,
        parent: QObject | None = None,
        ask_folder: Callable[[], RunsRequest | None] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self.ask_file, self.ask_folder = ask_file, ask_folder
        self._open: list[tuple[str, weakref.ref[Session]]] = []

    def set_sessions(self, titled: "Sequence[tuple[str, Session]]") -> None:
        """Set titles and sessions of all tabs, from left to right."""
        tabs = [(title, weakref.ref(session)) for title, session in titled]
        if tabs != self._open:
            self._open = tabs
            self.changed.emit()

    def others(self, than: "Session") -> "list[tuple[str, Session]]":
        """Return title and session of all tabs but one."""
        tabs = [(title, session()) for title, session in self._open]
        return [(t, s) for t, s in tabs if s is not None and s is not than]
