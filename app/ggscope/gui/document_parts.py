"""The files of a tab: what is offered, added, taken out, and said about it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from ggscope.analysis.clocks import SHIFT_OPTION, parsed_shift
from ggscope.analysis.join_words import fit_words, joins_of
from ggscope.analysis.joining_tables import part_name
from ggscope.model.trace import Trace
from ggscope.session.settings import Settings

if TYPE_CHECKING:
    from ggscope.gui.document import Document
    from ggscope.readers.bundle import Bundle

MISFIT = "part_does_not_fit"
_MAX_NAMED = 3


class DocumentParts(QObject):
    """Looks after the files of one tab."""

    def __init__(self, document: "Document", settings: Settings) -> None:
        super().__init__(document)
        self._document = document
        self._is_folder = document.path.is_dir()
        self._offered: tuple[Path, ...] = ()
        self._offer_text = ""
        document.loader.beside_found.connect(self._on_beside)
        document.loader.parts_changed.connect(self._on_parts_changed)
        document.loader.shift_changed.connect(self._on_shifted)
        self._settings = settings
        self._shift_before: dict[Path, str] = {}

    @property
    def title(self) -> str:
        """What was opened and how many files there are beside it; "" for one file.

        Of several files it is named after the trace, a folder after itself.
        """
        trace = self._document.session.trace
        if trace is None or not trace.parts:
            return ""
        if self._is_folder:
            name, n_more = self._document.path.name, len(self._document.loader.more)
        else:
            name = Path(part_name(trace.parts[0].info)).name
            n_more = len(trace.parts) - 1
        return f"{name} +{n_more}" if n_more else name

    @property
    def opened_as(self) -> tuple[Path, ...]:
        """What was opened: a file or folder, and the files that were added to it."""
        return (self._document.path, *self._document.loader.more)

    def add(self, paths: Sequence[Path]) -> None:
        """Read further files into the session."""
        if paths:
            self.forget_offer()
            self._document.hide_message()
            self._document.loader.add([path.absolute() for path in paths])

    def remove(self, paths: Sequence[Path]) -> None:
        """Take files out of the session again."""
        self._document.hide_message()
        self._document.loader.remove(*paths)

    def shift_of(self, path: Path) -> str:
        """Return what was said to be added to the times of a file; "" = nothing."""
        trace = self._document.session.trace
        for part in () if trace is None else trace.parts:
            if part.info.paths and part.info.paths[0] == path:
                return part.info.options.get(SHIFT_OPTION, "")
        return ""

    def shift(self, path: Path, by: str) -> None:
        """Move the times of a file; "" = as the clocks tell. Can be undone."""
        before = self.shift_of(path)
        if by != before:
            self._shift_before[path] = before
            self._document.loader.shift(path, by)

    def _on_shifted(self, what: object) -> None:
        """Remember it for this session's files, and let it be undone."""
        if not isinstance(what, tuple):
            return
        path, by = what
        self._settings.set_shift(self._document.path, path, by)
        before = self._shift_before.pop(path, None)
        if before is not None:
            text = self.tr("The times of {0} were moved by hand: {1}.")
            if not by:
                text = self.tr("The times of {0} are as the clocks tell.")
            trace = self._document.session.trace
            unit = "ns" if trace is None else trace.clock.unit
            told = f"{parsed_shift(by, unit):+,} {unit}" if by else ""
            self._document.say(
                text.format(path.name, told),
                self.tr("Undo"),
                partial(self.shift, path, before),
            )

    def offer(self) -> None:
        """Offer the files that lie beside this one, unless something else is said."""
        if self._offered and not self._document.has_message:
            self._document.say(self._offer_text, self.tr("Add"), self._on_add)

    def forget_offer(self) -> None:
        """Offer nothing any more."""
        self._offered = ()

    def _on_beside(self, bundle: "Bundle") -> None:
        members = bundle.members
        names = [self._relative(m.path) for m in members[:_MAX_NAMED]]
        if len(members) > _MAX_NAMED:
            names.append("…")
        if len(members) == 1:
            text = self.tr("A file beside it may belong to this trace: {0}.")
            self._offer_text = text.format(names[0])
        else:
            text = self.tr("{0} files beside it may belong to this trace: {1}.")
            self._offer_text = text.format(len(members), ", ".join(names))
        self._offered = tuple(member.path for member in members)
        self.offer()

    def _relative(self, path: Path) -> str:
        is_near = path.parent == self._document.path.parent
        return path.name if is_near else f"{path.parent.name}/{path.name}"

    def _on_add(self) -> None:
        self.add(self._offered)

    def _on_parts_changed(self, came: object) -> None:
        """Say how what was added fits, and let it be undone."""
        document = self._document
        document.title_changed.emit()
        trace = document.session.trace
        if trace is None or not isinstance(came, tuple) or not came:
            return
        document.say(
            self._words(trace, came), self.tr("Undo"), partial(self.remove, came)
        )

    def _words(self, trace: Trace, came: tuple[Path, ...]) -> str:
        wanted = {path.resolve() for path in came}
        names = [
            part_name(part.info)
            for part in trace.parts
            if part.info.paths and part.info.paths[0].resolve() in wanted
        ]
        for warning in trace.warnings:
            if warning.code == MISFIT and warning.place in names:
                return warning.message
        fits = [
            f"{name}: {fit_words(join)}"
            for name in names
            for join in joins_of(trace.joins, name)
            if join.kind != "names"
        ]
        if len(names) == 1:
            text = self.tr("{0} was added.").format(names[0])
        else:
            text = self.tr("{0} files were added.").format(len(came))
        return " ".join([text, *(f"{fit}." for fit in fits[:_MAX_NAMED])])


__all__ = ["MISFIT", "DocumentParts"]
