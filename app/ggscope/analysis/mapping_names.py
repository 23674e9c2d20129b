"""Which tensor of a model a name means: as it stands, without suffixes, or cut."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ggscope.model.names import normalise
from ggscope.model.tables import I64

SHORTEST_CUT = 19
"""Writers cut names at 19, 23, 63 or 127 characters; a shorter one is whole."""
_HIGHEST = "\U0010ffff"


class Rule(IntEnum):
    """How a tensor of the trace found its tensor of the model; in order of trying."""

    NONE = 0
    NAME = 1
    SUFFIX = 2
    """The same without ``(view)``, ``(copy)`` …"""
    PREFIX = 3
    """The name was cut, and only one name begins like it."""
    POINTER = 4
    """A registry lists the address."""
    OFFSET = 5
    """The calibrated offset lies in exactly one tensor."""

    @property
    def words(self) -> str:
        """What people read."""
        return _WORDS[self]


_WORDS = {
    Rule.NONE: "none",
    Rule.NAME: "name",
    Rule.SUFFIX: "name without suffix",
    Rule.PREFIX: "unique prefix",
    Rule.POINTER: "pointer",
    Rule.OFFSET: "offset",
}


@dataclass(frozen=True, slots=True, eq=False)
class NameMatch:
    """What each of n names means.

    Attributes
    ----------
    row : int64[n], which of the model's names; -1 none.
    rule : uint8[n], `Rule`.
    """

    row: I64
    rule: npt.NDArray[np.uint8]


def match_names(names: Sequence[str], of_model: Sequence[str]) -> NameMatch:
    """Return which of the model's names each of `names` means.

    Where the model lists a name twice the first one counts. A name that could be the
    beginning of several is left alone.

    Notes
    -----
    Works on distinct names, of which a model has thousands: O((n + m) log m).
    """
    known: dict[str, int] = {}
    for i, name in enumerate(of_model):
        if name:
            known.setdefault(name, i)
    ordered = sorted(known)
    row = np.full(len(names), -1, np.int64)
    rule = np.zeros(len(names), np.uint8)
    for i, name in enumerate(names):
        found, how = _meaning(name, known, ordered)
        row[i], rule[i] = found, how
    return NameMatch(row, rule)


def _meaning(
    name: str, known: dict[str, int], ordered: Sequence[str]
) -> tuple[int, Rule]:
    """Return (row, rule) of one name; (-1, NONE) where it means nothing for sure."""
    if name in known:
        return known[name], Rule.NAME
    base = normalise(name)
    if base != name and base in known:
        return known[base], Rule.SUFFIX
    if len(name) < SHORTEST_CUT:
        return -1, Rule.NONE
    first, after = bisect_left(ordered, name), bisect_left(ordered, name + _HIGHEST)
    if after - first == 1:
        return known[ordered[first]], Rule.PREFIX
    return -1, Rule.NONE
