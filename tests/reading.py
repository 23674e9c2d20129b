"""Stands in for the readers where a test wants to say what is read, and when."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pytestqt.qtbot import QtBot

from builders import llama_like_trace
from ggscope.model.trace import ReadWarning, Severity, Trace
from ggscope.readers.api import Estimate, ReadContext
from ggscope.session.loader import Loader, LoadState


class Reading:
    """Stands in for the registry: waits, publishes and returns what it is set to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.requests: list[tuple[Path, str | None, dict[str, str]]] = []
        self.early: list[object] = []
        self.estimate: Estimate | None = None
        self.result: object = llama_like_trace(tokens=2, layers=2)

    def __call__(
        self,
        path: Path,
        *,
        reader_id: str | None = None,
        context: ReadContext | None = None,
        admit: Callable[[Estimate], None] | None = None,
    ) -> object:
        assert context is not None
        self.requests.append((path, reader_id, dict(context.options)))
        if admit is not None and self.estimate is not None:
            admit(self.estimate)
        context.progress(10, 100)
        for trace in self.early:
            context.publish(trace)
        while not self.go.wait(0.01):
            context.check_cancelled()
        context.check_cancelled()
        if isinstance(self.result, Exception):
            raise self.result
        chosen_range = context.options.get("range", "0:")
        if chosen_range != "0:" and isinstance(self.result, Trace):
            note = ReadWarning(Severity.INFO, "range_read", f"Records {chosen_range}.")
            return replace(self.result, warnings=(*self.result.warnings, note))
        return self.result


def wait_for(qtbot: QtBot, loader: Loader, state: LoadState) -> None:
    """Wait until a loader is in a state."""
    qtbot.waitUntil(lambda: loader.state is state)


def workers() -> list[threading.Thread]:
    """Return the threads of all jobs, and of the parts that jobs share out.

    Not those that import modules or give memory back: they belong to no session and
    end by themselves. On a busy machine giving back takes seconds where a process
    has opened hundreds of files, as that of the tests has.
    """
    names = ("ggscope_", "ggscope-part_")
    return [t for t in threading.enumerate() if t.name.startswith(names)]
