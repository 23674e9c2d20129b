"""What "Go to lane or tensor" offers."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from PySide6.QtCore import QCoreApplication

from ggscope.analysis.index import TraceIndex
from ggscope.gui.palette import Entry
from ggscope.session.tasks import TaskContext

FEW = 20_000
"""So many names are all compared with what is typed, letter by letter."""
MAX_CANDIDATES = 1_000
MAX_SCATTERED = 100_000
"""Among so many names letters that stand apart are looked for as well."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The lanes of a trace, then its tensors: a source of entries of any length.

    Attributes
    ----------
    titles, keys, details : of each place; the key of a lane, "" for a tensor.
    lines : what is searched: title and detail, lower case.
    """

    index: TraceIndex
    titles: list[str]
    keys: list[str]
    details: list[str]
    lines: list[str]
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]

    def __len__(self) -> int:
        return len(self.titles)

    def candidates(self, pattern: str) -> Sequence[Entry]:
        """Return the places that may fit, at most MAX_CANDIDATES of very many.

        Those in which the pattern stands as it is come before those that have its
        letters in order.
        """
        if len(self) <= FEW:
            return [self._entry(i) for i in range(len(self))]
        if not pattern.strip():
            return [self._entry(i) for i in range(MAX_CANDIDATES)]
        wanted, lines = pattern.strip().lower(), self.lines
        found = list(
            islice((i for i, x in enumerate(lines) if wanted in x), MAX_CANDIDATES)
        )
        letters = ".*?".join(map(re.escape, wanted.replace(" ", "")))
        search, known = re.compile(letters, re.DOTALL).search, frozenset(found)
        scattered = (
            i
            for i, line in enumerate(islice(lines, MAX_SCATTERED))
            if i not in known and search(line)
        )
        found += islice(scattered, MAX_CANDIDATES - len(found))
        return [self._entry(i) for i in found]

    def _entry(self, i: int) -> Entry:
        title, key = self.titles[i], self.keys[i]
        run = partial(self.go_to_lane, key) if key else partial(self.find_tensor, title)
        return Entry(title, run, self.details[i])


@dataclass(frozen=True, slots=True, eq=False)
class PlacesRequest:
    """Lists the lanes and tensors of a trace, on a worker where they are many."""

    index: TraceIndex
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]

    @property
    def is_small(self) -> bool:
        """Whether the list is made at once."""
        trace = self.index.trace
        return len(trace.lanes) + len(trace.tensors.name) <= FEW

    def __call__(self, context: TaskContext | None = None) -> Places:
        """Return the places; Cancelled passes through."""
        trace, lanes = self.index.trace, self.index.lanes
        titles, keys = list(lanes.titles), list(lanes.keys)
        details = [lanes.groups[i] for i in lanes.group.tolist()]
        if context is not None:
            context.check_cancelled()
        names = trace.tensors.name
        told = [trace.strings[i] for i in names[names >= 0].tolist()]
        titles += told
        keys += [""] * len(told)
        details += [QCoreApplication.translate("GoTo", "tensor")] * len(told)
        lines: list[str] = []
        if len(titles) > FEW:
            both = zip(titles, details, strict=True)
            lines = [f"{title} {detail}".lower() for title, detail in both]
        go = self.go_to_lane, self.find_tensor
        return Places(self.index, titles, keys, details, lines, *go)


__all__ = ["FEW", "Places", "PlacesRequest"]
