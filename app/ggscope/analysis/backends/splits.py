"""Splits of graphs: why they begin, what is copied, and what ran on the CPU instead.

The scheduler does not print why it gave an op to a backend (only builds with its own
debug code do). What it prints shows it: ops lie where weights or caches lie that they
read, and so do their neighbours; where nothing that a split reads lies on its backend,
the backend before did not take one of its ops. A source that was copied is called
BACKEND#name#0 and has no backend of its own.
"""

import re
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from ggscope.model.backend_ops import BackendOps
from ggscope.model.tables import I64, Array

CPU = "CPU"
_HOLDS = re.compile(r"(blk\.\d+\.|token_embd|output|cache_)|.*\.(weight|bias)\b")
_WEIGHT = re.compile(r"blk\.\d+\.|token_embd|output(_norm)?\.|.*\.(weight|bias)\b")


class Reason(Enum):
    """Why a split begins, or an op lies where it does."""

    FIRST = "first"
    """The graph begins."""
    DATA = "data"
    """A weight or cache that it reads lies there."""
    BETWEEN = "between"
    """Another op of its split reads a weight or cache that lies there."""
    MOVED = "moved"
    """Nothing that its split reads lies there: the backend before did not take it."""
    AGAIN = "again"
    """The same backend goes on: memory of weights that were copied is used again."""
    UNKNOWN = "unknown"
    """The file does not state what its ops read."""


@dataclass(frozen=True, slots=True, eq=False)
class SplitGroup:
    """Splits that are alike in all graphs that have them.

    Attributes
    ----------
    number : in the graph; `backend`, `before` : where it and the split before run.
    op, name : the first op that is listed; "" where none is.
    data : the first weight or cache that lies there; "" without.
    n_nodes : ops that are listed.
    n_inputs : tensors that are copied to it, as stated.
    min_bytes, max_bytes : bytes of these; `max_bytes` is None where not all of them are
        listed.
    weights : of `min_bytes`, bytes of weights.
    largest : name of the tensor of most bytes among those; "" without.
    count : how many such splits.
    rows : of `BackendOps.splits`, ascending.
    """

    number: int
    backend: str
    before: str
    op: str
    name: str
    reason: Reason
    data: str
    n_nodes: int
    n_inputs: int
    min_bytes: int
    max_bytes: int | None
    weights: int
    largest: str
    count: int
    rows: I64


@dataclass(frozen=True, slots=True, eq=False)
class CpuGroup:
    """Ops that ran on the CPU though other backends take part in their graph.

    Attributes
    ----------
    reason : `Reason.DATA`, `BETWEEN`, `MOVED`, or `UNKNOWN` outside of splits.
    data : a weight or cache of the op that lies there; "" without.
    names : of the first few tensors that they compute, each once.
    count, n_graphs : ops, and graphs of the file.
    min_bytes : bytes of their results.
    begins : how many of them begin a split.
    causes : codes of the scheduler for it, where ggml was built to print them.
    rows : of `BackendOps.ops`, ascending.
    """

    op: str
    reason: Reason
    data: str
    names: tuple[str, ...]
    count: int
    n_graphs: int
    min_bytes: int
    begins: int
    causes: tuple[str, ...]
    rows: I64


_SHOWN_NAMES = 3
_ON_CPU = (Reason.MOVED, Reason.BETWEEN, Reason.DATA, Reason.UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where data of ops lie.

    Attributes
    ----------
    data : int64[n], text of the first weight or cache of each op that lies on its
        backend, -1 none.
    of_split : int64[s], likewise, of the first op of each split that has some.
    first : int64[s], first listed op of each split, -1 none.
    n_nodes : int64[s].
    """

    data: I64
    of_split: I64
    first: I64
    n_nodes: I64


def split_groups(listing: BackendOps) -> tuple[SplitGroup, ...]:
    """Return the splits of all graphs, alike ones together, in order of the file."""
    splits = listing.splits
    if not len(splits):
        return ()
    places = _places(listing)
    n = len(splits)
    before = np.full(n, -1, np.int64)
    follows = splits.graph[1:] == splits.graph[:-1]
    before[1:][follows] = splits.backend[:-1][follows]
    first = places.first
    ops = listing.ops
    op, name = _at(ops.op, first), _at(ops.name, first)
    data = places.of_split
    copied = _copied(listing)
    keys = np.stack(
        [splits.number, splits.backend, before, op, name, data, places.n_nodes,
         splits.n_inputs, *copied],
        axis=1,
    ).astype(np.int64)  # fmt: skip
    different, index, place = np.unique(
        keys, axis=0, return_index=True, return_inverse=True
    )
    place = place.reshape(-1)
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(different) + 1))
    groups = []
    for i in np.argsort(index, kind="stable").tolist():
        key = different[i].tolist()
        rows = order[starts[i] : starts[i + 1]]
        min_bytes, largest, weights, n_listed = key[8:]
        groups.append(
            SplitGroup(
                number=key[0],
                backend=listing.text(key[1]),
                before=listing.text(key[2]),
                op=listing.text(key[3]),
                name=listing.text(key[4]),
                reason=_reason(key, tells_sources=len(listing.sources) > 0),
                data=listing.text(key[5]),
                n_nodes=key[6],
                n_inputs=key[7],
                min_bytes=min_bytes,
                max_bytes=largest if n_listed == key[7] else None,
                weights=weights,
                largest=_largest(listing, int(rows[0])),
                count=len(rows),
                rows=rows.astype(np.int64),
            )
        )
    return tuple(groups)


def _at(values: Array, rows: I64) -> I64:
    """Return the values of rows, -1 for row -1."""
    return np.append(values.astype(np.int64), -1)[rows]


def _reason(key: list[int], *, tells_sources: bool) -> Reason:
    number, backend, before, op, _, data = key[:6]
    if number == 0:
        return Reason.FIRST
    if backend == before:
        return Reason.AGAIN
    if op < 0 or not tells_sources:
        return Reason.UNKNOWN
    return Reason.DATA if data >= 0 else Reason.MOVED


def _largest(listing: BackendOps, split: int) -> str:
    """Return the name of the first input of a split that no other exceeds."""
    inputs = listing.inputs
    first, stop = np.searchsorted(inputs.split, [split, split + 1]).tolist()
    if first == stop:
        return ""
    return listing.text(int(inputs.name[first + int(inputs.size[first:stop].argmax())]))


def _copied(listing: BackendOps) -> tuple[I64, I64, I64, I64]:
    """Return least and most bytes, bytes of weights and inputs listed of each split."""
    inputs, n = listing.inputs, len(listing.splits)
    known = inputs.size >= 0
    split = inputs.split[known]
    size, step = inputs.size[known], inputs.step[known]
    is_weight = _matching(listing, _WEIGHT)[inputs.name[known]]
    min_bytes = _added(split, size, n)
    longest = _added(split, size + step - 1, n)
    weights = _added(split, np.where(is_weight, size, 0), n)
    return min_bytes, longest, weights, np.bincount(split, minlength=n).astype(np.int64)


def _added(at: npt.NDArray[np.integer], values: I64, n: int) -> I64:
    sums = np.zeros(n, np.int64)
    np.add.at(sums, at, values)
    return sums


def _matching(listing: BackendOps, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Return which texts match a pattern, and False for -1, behind the last."""
    return np.array(
        [*(pattern.match(text) is not None for text in listing.texts), False]
    )


def _places(listing: BackendOps) -> _Places:
    ops, sources, n = listing.ops, listing.sources, len(listing.ops)
    data = np.full(n, -1, np.int64)
    lies_there = sources.backend == ops.backend[sources.op] if n else np.zeros(0, bool)
    rows = np.flatnonzero(lies_there & _matching(listing, _HOLDS)[sources.name])
    rows = rows[::-1]  # the first source of an op stays
    data[sources.op[rows]] = sources.name[rows]
    n_splits = len(listing.splits)
    first = np.full(n_splits, -1, np.int64)
    inside = np.flatnonzero(ops.split >= 0)
    first[ops.split[inside[::-1]]] = inside[::-1]
    counts = np.bincount(ops.split[inside], minlength=n_splits)
    of_split = np.full(n_splits, -1, np.int64)
    held = inside[data[inside] >= 0][::-1]
    of_split[ops.split[held]] = data[held]
    return _Places(data, of_split, first, counts.astype(np.int64))


def cpu_groups(listing: BackendOps) -> tuple[CpuGroup, ...]:
    """Return ops on the CPU of graphs in which another backend takes part.

    Those that no data keep there come first, then the most frequent ones.
    """
    ops = listing.ops
    rows = np.flatnonzero(on_cpu_beside_others(listing))
    if not len(rows):
        return ()
    places = _places(listing)
    begins = np.zeros(len(ops), np.bool_)
    begins[places.first[places.first >= 0]] = True
    split = ops.split[rows]
    rank = np.where(_at(places.of_split, split) >= 0, 1, 0)
    rank = np.where((split < 0) | (len(listing.sources) == 0), 3, rank)
    rank = np.where(places.data[rows] >= 0, 2, rank)
    keys = np.stack([rank, ops.op[rows].astype(np.int64)], axis=1)
    different, place = np.unique(keys, axis=0, return_inverse=True)
    place = place.reshape(-1)
    groups = []
    for i, (order, op) in enumerate(different.tolist()):
        mine = rows[place == i]
        names = dict.fromkeys(ops.name[mine].tolist())
        first = int(places.data[mine[0]])
        groups.append(
            CpuGroup(
                op=listing.text(op),
                reason=_ON_CPU[order],
                data=listing.text(first),
                names=tuple(listing.text(n) for n in list(names)[:_SHOWN_NAMES]),
                count=len(mine),
                n_graphs=len(np.unique(ops.graph[mine])),
                min_bytes=int(np.maximum(ops.size[mine], 0).sum()),
                begins=int(np.count_nonzero(begins[mine])),
                causes=tuple(
                    listing.text(cause)
                    for cause in np.unique(ops.cause[mine]).tolist()
                    if cause >= 0
                ),
                rows=mine.astype(np.int64),
            )
        )
    groups.sort(key=lambda g: (_ON_CPU.index(g.reason), -g.count, g.op))
    return tuple(groups)


def on_cpu_beside_others(listing: BackendOps) -> npt.NDArray[np.bool_]:
    """Return which listed nodes ran on the CPU while other backends took part.

    Nodes that their graph does not compute are left out.
    """
    ops = listing.ops
    is_node = ((ops.node >= 0) | (ops.split >= 0)) & (ops.is_computed != 0)
    is_cpu = np.array([*(text == CPU for text in listing.texts), False])[ops.backend]
    has_others = np.zeros(listing.n_graphs, np.bool_)
    has_others[ops.graph[is_node & ~is_cpu & (ops.backend >= 0)]] = True
    splits = listing.splits
    others = [*(text != CPU for text in listing.texts), False]
    has_others[splits.graph[np.array(others)[splits.backend]]] = True
    is_alone: npt.NDArray[np.bool_] = is_node & is_cpu & has_others[ops.graph]
    return is_alone
