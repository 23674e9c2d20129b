"""The files of a tab: related files, added and removed ones, and time shifts."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ggscope.analysis.sessions.concatenate import parsed_shift
from ggscope.descriptions.files import join_counts_text, joins_of
from ggscope.gui.messages import Action
from ggscope.model.trace import Trace
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.document.document import Document
    from ggscope.readers.discovery import FileSet

MISFITS = ("part_does_not_fit", "sidecar_refused")
"""Codes of warnings about a file that does not belong to the session."""
_PARTS, _OFFER = "parts", "offer"
"""Keys of messages."""
_MAX_NAMED = 3


class DocumentFiles(QObject):
    """Adds and removes files of a tab, and reports how they match."""

    def __init__(self, document: "Document", settings: Settings) -> None:
        super().__init__(document)
        self._document = document
        self._is_folder = os.path.isdir(document.path)
        self._offered: tuple[Path, ...] = ()
        document.loader.beside_found.connect(self._on_beside)
        document.loader.parts_changed.connect(self._on_parts_changed)
        document.loader.shift_changed.connect(self._on_shifted)
        self._settings = settings

    @property
    def title(self) -> str:
        """What was opened and how many files there are beside it; "" for one file.

        Of several files it is named after the trace, a folder after itself. The sidecar
        of a recording belongs to it and is not counted.
        """
        trace = self._document.session.trace
        if trace is None or not trace.parts:
            return ""
        if self._is_folder:
            name, n_more = self._document.path.name, len(self._document.loader.more)
        else:
            name = Path(trace.parts[0].info.name).name
            n_more = sum(p.role != "recording" for p in trace.parts[1:])
        return f"{name} +{n_more}" if n_more else name

    @property
    def tip(self) -> str:
        """Paths of all files, one per line."""
        return "\n".join(map(str, self.opened_as))

    @property
    def opened_as(self) -> tuple[Path, ...]:
        """What was opened: a file or folder, and the files that were added to it."""
        return (self._document.path, *self._document.loader.more)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """All files that were read: those of a folder and those beside a trace too."""
        trace = self._document.session.trace
        if trace is None:
            return self.opened_as
        read = (trace.info, *(part.info for part in trace.parts))
        return (*self.opened_as, *(path for info in read for path in info.paths))

    def add(self, paths: Sequence[Path]) -> None:
        """Read further files into the session."""
        if paths:
            self.forget_offer()
            self._document.messages.dismiss(_PARTS)
            self._document.loader.add([path.absolute() for path in paths])

    def remove(self, paths: Sequence[Path]) -> None:
        """Take files out of the session again."""
        self._document.messages.dismiss(_PARTS)
        self._document.loader.remove(*paths)

    def _on_shifted(self, path: Path, by: str, before: str) -> None:
        """Remember it for this session's files, and let it be undone."""
        self._settings.set_shift(self._document.path, path, by)
        text = "Shifted the times of {0} by {1}."
        if not by:
            text = "Reset the time shift of {0}."
        trace = self._document.session.trace
        unit = "ns" if trace is None else trace.clock.unit
        shift = f"{parsed_shift(by, unit):+,} {unit}" if by else ""
        undo = partial(self._document.loader.shift, path, before)
        self._document.messages.say(
            text.format(path.name, shift), Action("Undo", undo), key=_PARTS
        )

    def forget_offer(self) -> None:
        """Offer nothing any more."""
        self._offered = ()
        self._document.messages.dismiss(_OFFER)
        self._document.status.set_related("", "")

    def _on_beside(self, bundle: "FileSet") -> None:
        """Offer the files that lie beside this one, in the status bar for good."""
        members = bundle.members
        names = [self._relative(m.path) for m in members[:_MAX_NAMED]]
        if len(members) > _MAX_NAMED:
            names.append("…")
        short = "1 related file"
        text = f"Found a related file in this folder: {names[0]}."
        if len(members) > 1:
            short = f"{len(members)} related files"
            text = "Found {0} related files in this folder: {1}."
            text = text.format(len(members), ", ".join(names)).replace("….", "…")
        self._offered = tuple(member.path for member in members)
        self._document.status.set_related(short, text)
        add = Action("Add", self.add_offered)
        self._document.messages.say(text, add, key=_OFFER)

    def _relative(self, path: Path) -> str:
        is_near = path.parent == self._document.path.parent
        return path.name if is_near else f"{path.parent.name}/{path.name}"

    def add_offered(self) -> None:
        """Read the files that were offered into the session."""
        self.add(self._offered)

    def _on_parts_changed(self, came: object) -> None:
        """Say how what was added fits, and let it be undone."""
        document = self._document
        document.title_changed.emit()
        trace = document.session.trace
        if trace is None or not isinstance(came, tuple) or not came:
            return
        undo = Action("Undo", partial(self.remove, came))
        misfit = self._misfit(trace, came)
        document.messages.say(
            misfit or self._added_text(trace, came),
            undo,
            key=_PARTS,
            level="caution" if misfit else "",
            stays=bool(misfit),
        )

    def _misfit(self, trace: Trace, came: tuple[Path, ...]) -> str:
        """Return why a file that was added does not belong here; "" = it does."""
        names = self._names(trace, came)
        return next(
            (
                warning.message
                for warning in trace.warnings
                if warning.code in MISFITS and warning.place in names
            ),
            "",
        )

    def _names(self, trace: Trace, came: tuple[Path, ...]) -> list[str]:
        paths = {os.path.realpath(path) for path in came}
        return [
            part.info.name
            for part in trace.parts
            if part.info.paths and os.path.realpath(part.info.paths[0]) in paths
        ]

    def _added_text(self, trace: Trace, came: tuple[Path, ...]) -> str:
        names = self._names(trace, came)
        fits = [
            f"{name}: {join_counts_text(join)}"
            for name in names
            for join in joins_of(trace.joins, name)
            if join.kind != "names"
        ]
        what = names[0] if len(names) == 1 else f"{len(came)} files"
        text = f"Added {what}."
        return " ".join([text, *(f"{fit}." for fit in fits[:_MAX_NAMED])])
