"""Lanes, tensors and tokens of a trace, as entries of the palette."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
from PySide6.QtCore import QCoreApplication

from ggscope.analysis.rows.index import TraceIndex
from ggscope.gui.commands.palette import MAX_SHOWN, Entry
from ggscope.model.tokens import token_noun, token_text
from ggscope.model.units import format_duration
from ggscope.session.tasks import TaskContext
from ggscope.session.tokens import NO_TOKENS, TokenTimes, token_times

FEW = 20_000
"""So many names are all compared with what is typed, character by character."""
FEW_SPANS = 1_000_000
"""In so many spans the tokens are found at once."""
MAX_CANDIDATES = 1_000
MAX_SCATTERED = 100_000
"""Among so many names scattered characters are looked for as well."""


@dataclass(frozen=True, slots=True, eq=False)
class GoToTargets:
    """Lanes, tensors and tokens of a trace that one can go to: entries of the palette.

    Attributes
    ----------
    titles, keys, details : of each target; the key of a lane, "" for a tensor.
    lines : what is searched: title and detail, lower case.
    tokens : found by their number, which is typed.
    """

    index: TraceIndex
    titles: list[str]
    keys: list[str]
    details: list[str]
    lines: list[str]
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]
    tokens: TokenTimes = NO_TOKENS
    go_to_token: Callable[[int], object] | None = None

    def __len__(self) -> int:
        return len(self.titles)

    def candidates(self, pattern: str) -> Sequence[Entry]:
        """Return the targets that may match, at most MAX_CANDIDATES of very many.

        Those that contain the pattern come before those that have its characters in
        order. A number brings the tokens with that number.
        """
        return [*self._tokens(pattern), *self._targets(pattern)]

    def _tokens(self, pattern: str) -> list[Entry]:
        """Return the tokens of the number that is typed, by phase where need be."""
        typed = re.fullmatch(r"\D*?(\d{1,18})\D*", pattern.replace(",", "").strip())
        go = self.go_to_token
        if typed is None or go is None:
            return []
        trace, noun = self.index.trace, token_noun(self.index.trace)
        tokens = []
        targets = np.flatnonzero(self.tokens.number == int(typed[1]))
        for target in targets[:MAX_SHOWN].tolist():
            span, time = int(self.tokens.span[target]), self.tokens.range_of(target)
            phase = token_text(trace, span).partition("#")[0] if span >= 0 else ""
            length = format_duration(time.duration, trace.clock.unit)
            title = f"{phase}{noun} {typed[1]}"
            detail = f"#{typed[1]} · {length}"
            tokens.append(Entry(title, partial(go, target), detail))
        return tokens

    def _targets(self, pattern: str) -> list[Entry]:
        if len(self) <= FEW:
            return [self._entry(i) for i in range(len(self))]
        if not pattern.strip():
            return [self._entry(i) for i in range(MAX_CANDIDATES)]
        needle, lines = pattern.strip().lower(), self.lines
        candidates = list(
            islice((i for i, x in enumerate(lines) if needle in x), MAX_CANDIDATES)
        )
        characters = ".*?".join(map(re.escape, needle.replace(" ", "")))
        search, known = re.compile(characters, re.DOTALL).search, frozenset(candidates)
        scattered = (
            i
            for i, line in enumerate(islice(lines, MAX_SCATTERED))
            if i not in known and search(line)
        )
        candidates += islice(scattered, MAX_CANDIDATES - len(candidates))
        return [self._entry(i) for i in candidates]

    def _entry(self, i: int) -> Entry:
        title, key = self.titles[i], self.keys[i]
        run = partial(self.go_to_lane, key) if key else partial(self.find_tensor, title)
        return Entry(title, run, self.details[i])


@dataclass(frozen=True, slots=True, eq=False)
class GoToRequest:
    """Lists lanes, tensors and tokens of a trace, on a worker where they are many.

    Attributes
    ----------
    lane_names : keys of lanes that the user renamed, and their names.
    """

    index: TraceIndex
    go_to_lane: Callable[[str], object]
    find_tensor: Callable[[str], object]
    go_to_token: Callable[[int], object] | None = None
    lane_names: tuple[tuple[str, str], ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether the list is made at once."""
        trace = self.index.trace
        n_names = len(trace.lanes) + len(trace.tensors.name)
        return n_names <= FEW and len(trace.spans) <= FEW_SPANS

    def __call__(self, context: TaskContext | None = None) -> GoToTargets:
        """Return the targets; Cancelled passes through."""
        trace, lanes = self.index.trace, self.index.lanes
        given, keys = dict(self.lane_names), list(lanes.keys)
        own = zip(keys, lanes.titles, strict=True)
        titles = [given.get(key, title) for key, title in own]
        details = [lanes.groups[i] for i in lanes.group.tolist()]
        if context is not None:
            context.check_cancelled()
        names = trace.tensors.name
        names_of_tensors = [trace.strings[i] for i in names[names >= 0].tolist()]
        titles += names_of_tensors
        keys += [""] * len(names_of_tensors)
        details += [QCoreApplication.translate("GoTo", "tensor")] * len(
            names_of_tensors
        )
        lines: list[str] = []
        if len(titles) > FEW:
            both = zip(titles, details, strict=True)
            lines = [f"{title} {detail}".lower() for title, detail in both]
        if context is not None:
            context.check_cancelled()
        go = self.go_to_lane, self.find_tensor, token_times(trace), self.go_to_token
        return GoToTargets(self.index, titles, keys, details, lines, *go)
