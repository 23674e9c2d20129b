"""Files that are dropped on the window: tabs of their own, or parts of one session."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QDropEvent

from ggscope.session.tasks import TaskContext, TaskFailure, Tasks

if TYPE_CHECKING:
    from ggscope.gui.document import Document
    from ggscope.gui.main_window import MainWindow
    from ggscope.readers.discovery import FileSet

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Survey:
    """Look at what the files are."""

    paths: tuple[Path, ...]

    def __call__(self, context: TaskContext) -> "FileSet":
        from ggscope.readers.discovery import survey

        return survey(self.paths, context.check_cancelled)


class Drops(QObject):
    """Decides what becomes of dropped files.

    Traces open in tabs of their own, recordings of several runs always. A trace with
    its side files, the tokens of one run, or results of benchmarks open as one session;
    side files alone are added to the session in front.
    What they are is looked at on a worker: a file may lie on a slow network.
    """

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window
        self._tasks = Tasks(self)

    def take(self, paths: Sequence[Path], *, is_apart: bool = False) -> None:
        """Open or add files; `is_apart` = in tabs of their own, whatever they are."""
        if is_apart or (len(paths) == 1 and self._target is None):
            self._window.open_paths(paths)
            return
        given, target = tuple(paths), self._target

        def on_result(bundle: "FileSet") -> None:
            self._on_survey(given, bundle, target)

        def on_error(_: TaskFailure) -> None:
            self._window.open_paths(given)  # each tab says what is wrong with its file

        self._tasks.run("drop", _Survey(given), on_result, on_error=on_error)

    def release(self) -> None:
        """Stop looking; the window closes."""
        self._tasks.close()

    @property
    def _target(self) -> "Document | None":
        """The tab that side files can be added to."""
        document = self._window.document
        if document is None or document.session.trace is None:
            return None
        return document

    def _on_survey(
        self, paths: tuple[Path, ...], bundle: "FileSet", target: "Document | None"
    ) -> None:
        is_open = target is not None and target in self._window.documents
        # not before the first window
        from ggscope.readers.api import ALONE, BENCH, RECORDING

        roles = {member.role for member in bundle.members}
        sides = [member.path for member in bundle.sides]
        trace = target.session.trace if target is not None and is_open else None
        joins = roles.isdisjoint(ALONE)
        if roles == {BENCH} and trace is not None and trace.bench is not None:
            joins = True
        elif roles == {BENCH} and len(sides) > 1:
            self._window.open_path(sides[0], more=sides[1:])
            others = {skipped.path for skipped in bundle.skipped}
            self._window.open_paths([path for path in paths if path in others])
            return
        if sides and not bundle.mains and target is not None and is_open and joins:
            target.parts.add(sides)
            return
        mains = [member.path for member in bundle.mains]
        if sum(member.role == RECORDING for member in bundle.sides) > 1:
            self._window.open_paths(mains)  # each with its own sidecar
            return
        if len(paths) > 1 and _is_one_run(mains) and (bundle.sides or len(mains) > 1):
            first = mains[0] if mains[0] in paths else paths[0]
            more = [path for path in paths if path != first]
            self._window.open_path(first, more=more)
            return
        self._window.open_paths(paths)


def dropped_paths(event: QDropEvent) -> list[Path]:
    """Return the files and folders of this machine that a drop brings."""
    urls = event.mimeData().urls() if event.mimeData().hasUrls() else []
    return [Path(url.toLocalFile()) for url in urls if url.isLocalFile()]


def accept_copy(event: QDropEvent) -> bool:
    """Accept a drop as a copy or link, never as a move; return whether it is.

    A file manager that gets *move*, which it may propose, deletes what it gave.
    """
    for action in (Qt.DropAction.CopyAction, Qt.DropAction.LinkAction):
        if event.possibleActions() & action:
            event.setDropAction(action)
            event.accept()
            return True
    return False


def _is_one_run(paths: Sequence[Path]) -> bool:
    """Return whether there is one trace, or several that differ in number only."""
    if not paths:
        return False
    kinds = {(path.parent, _DIGITS.sub("#", path.name)) for path in paths}
    is_numbered = bool(_DIGITS.search(paths[0].name))
    return len(kinds) == 1 and (len(paths) == 1 or is_numbered)
