"""Lanes: what spans and markers lie on."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import compress
from typing import Any, overload

import numpy as np
import numpy.typing as npt


class LaneKind(IntEnum):
    """What a lane stands for; decides its group, order and drawing."""

    TOKEN = 0
    """Tokens or passes; one span each."""
    PHASE = 1
    """Prompt / generate (prefill / decode) bands."""
    THREAD = 2
    """Ops (and graphs around them) of one thread."""
    ENGINE = 3
    """Work of one NPU engine."""
    GRAPH = 4
    """Whole graph computations."""
    STALL = 5
    """Stalls, drawn hatched over the lane named by attribute ``over``."""
    COMMAND = 6
    """Commands from queueing to their end."""
    MEMORY = 7
    COUNTER = 8
    MARKER = 9


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a trace.

    Attributes
    ----------
    id : index in ``Trace.lanes``.
    name : what people read, e.g. "thread 0".
    group : names of the enclosing groups, outermost first.
    sort_key : order among lanes of the same group.
    attributes : e.g. ``{"raw": "24832"}`` for a truncated thread id,
        ``{"over": "3"}`` for the lane id that a stall lane belongs to.
    """

    id: int
    name: str
    kind: LaneKind
    group: tuple[str, ...] = ()
    sort_key: tuple[int, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


def lane_titles(lanes: "Lanes") -> list[str]:
    """Return a name for each lane that no other one has.

    The lane's own name where that is enough; else with its groups in front, as in
    ``Backend 1 / thread 0``, and where that is still not enough with its id.
    """
    titles = list(lanes.names)
    for i in _repeated(titles):
        titles[i] = " / ".join((*lanes.groups[lanes.group[i]], titles[i]))
    for i in _repeated(titles):
        titles[i] += f" (lane {i})"
    return titles


def _repeated(titles: Sequence[str]) -> list[int]:
    """Return the places of texts that occur several times."""
    if len(set(titles)) == len(titles):
        return []
    counts = Counter(titles)
    return [i for i, title in enumerate(titles) if counts[title] > 1]


class Lanes(Sequence[Lane]):
    """Lanes as columns; each becomes a `Lane` when it is asked for.

    A simulator may have a hundred thousand engines, and a `Lane` each would cost more
    than their spans: what looks at all lanes looks at the columns.

    Attributes
    ----------
    names : of each lane.
    kinds : int8[n], `LaneKind`.
    groups : the different groups in the order of their first lanes; `group` has the row
        of each lane's, int32[n].
    sort_keys, attributes : as in `Lane`, of each lane.
    """

    __slots__ = ("attributes", "group", "groups", "kinds", "names", "sort_keys")

    def __init__(
        self,
        names: tuple[str, ...],
        kinds: npt.NDArray[np.int8],
        groups: tuple[tuple[str, ...], ...],
        group: npt.NDArray[np.int32],
        sort_keys: tuple[tuple[int, ...], ...],
        attributes: tuple[Mapping[str, str], ...],
    ) -> None:
        self.names = names
        self.kinds = kinds
        self.groups = groups
        self.group = group
        self.sort_keys = sort_keys
        self.attributes = attributes

    @classmethod
    def of(cls, lanes: Iterable[Lane]) -> "Lanes":
        """Return `lanes` as columns. Raises ValueError where an id is not its place."""
        columns = LaneColumns()
        for i, lane in enumerate(lanes):
            if lane.id != i:
                raise ValueError(f"lane {i} has id {lane.id}")
            columns.add(
                (lane.name,), lane.kind, lane.group, (lane.sort_key,), lane.attributes
            )
        return columns.lanes()

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, at: int) -> Lane: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Lane, ...]: ...
    def __getitem__(self, at: int | slice) -> Lane | tuple[Lane, ...]:
        """Return a lane, or several. Raises IndexError for one that is not there."""
        if isinstance(at, slice):
            return tuple(self._lane(i) for i in range(len(self))[at])
        return self._lane(range(len(self))[at])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, tuple):
            return tuple(self) == other
        if not isinstance(other, Lanes):
            return NotImplemented
        return len(self) == len(other) and self.begins_with(other)

    __hash__ = None  # type: ignore[assignment]  # nobody looks lanes up

    def begins_with(self, others: "Lanes") -> bool:
        """Tell whether the first lanes are these others."""
        n = len(others)

        def alike(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
            return mine is theirs or mine[:n] == theirs

        return (
            alike(self.names, others.names)
            and np.array_equal(self.kinds[:n], others.kinds)
            # Groups are numbered in the order of their first lanes.
            and self.groups[: len(others.groups)] == others.groups
            and np.array_equal(self.group[:n], others.group)
            and alike(self.sort_keys, others.sort_keys)
            and alike(self.attributes, others.attributes)
        )

    def group_titles(self) -> list[tuple[str, ...]]:
        """Return the group of each lane."""
        return [self.groups[i] for i in self.group.tolist()]

    def of_kind(self, *kinds: LaneKind) -> npt.NDArray[np.bool_]:
        """Return whether each lane is of one of these kinds, bool[n]."""
        wanted = np.zeros(1 << 7, np.bool_)
        wanted[list(kinds)] = True
        return wanted[self.kinds]

    def names_of(self, wanted: npt.NDArray[np.bool_]) -> list[str]:
        """Return the names of the marked lanes; `wanted` is bool[n]."""
        return list(compress(self.names, wanted.tobytes()))

    def _lane(self, i: int) -> Lane:
        return Lane(
            i,
            self.names[i],
            LaneKind(int(self.kinds[i])),
            self.groups[self.group[i]],
            self.sort_keys[i],
            self.attributes[i],
        )


class LaneColumns:
    """Lanes that come one after the other, for `Lanes`."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._kinds = bytearray()
        self._groups: dict[tuple[str, ...], int] = {}
        self._group: list[int] = []
        self._sort_keys: list[tuple[int, ...]] = []
        self._attributes: list[Mapping[str, str]] = []

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self,
        names: Sequence[str],
        kind: LaneKind,
        group: tuple[str, ...],
        sort_keys: Sequence[tuple[int, ...]],
        attributes: Mapping[str, str],
    ) -> int:
        """Add lanes that differ in name and order; return the id of the first."""
        first, n = len(self._names), len(names)
        self._names.extend(names)
        self._kinds.extend(bytes((kind,)) * n)
        self._group.extend([self._groups.setdefault(group, len(self._groups))] * n)
        self._sort_keys.extend(sort_keys)
        self._attributes.extend([attributes] * n)
        return first

    def lanes(self) -> Lanes:
        """Return the lanes so far; those that come later do not change them."""
        return Lanes(
            tuple(self._names),
            np.frombuffer(bytes(self._kinds), np.int8),
            tuple(self._groups),
            np.array(self._group, np.int32),
            tuple(self._sort_keys),
            tuple(self._attributes),
        )
