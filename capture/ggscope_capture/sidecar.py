"""The sidecar of a recording as JSON: tables by columns, builds by differences.

A server that gets requests of different lengths builds many graphs, which differ in
sizes and addresses only. The first is written whole, the others as differences to it.
``resources/docs/ring-format.md`` describes the keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope_capture.builds import Build
from ggscope_capture.columns import blocks, table, text
from ggscope_capture.ring_format import UNKNOWN_U32, UNKNOWN_U64, listed_frames

_TABLES = ("whole_graphs", "buffers", "threads", "graph_list", "ubatches", "host")
_STRUCTURE = ("flags", "layer", "model", "weight")
"""Columns that alike builds share, besides names and sources."""
_VALUES = ("data", "bytes", "offset", "buffer")
_Array = npt.NDArray[Any]


def table_keys() -> tuple[str, ...]:
    """Return the keys whose rows are written as columns."""
    return (*_TABLES, *(listed.key for _, listed in listed_frames()))


def sidecar_chunks(
    facts: Mapping[str, Any], builds: Iterable[Build], *, has_names: bool
) -> Iterator[bytes]:
    """Yield the JSON text of a sidecar in small chunks.

    Parameters
    ----------
    facts : its keys, ``format`` first; those of tables hold iterables of rows.
    builds : written as ``builds``.
    has_names : whether tensor names are written.
    """
    tables = table_keys()
    for i, (key, value) in enumerate(facts.items()):
        yield (b"," if i else b"{") + text(key) + b":"
        if key in tables:
            yield from _json_list(blocks(value))
        else:
            yield text(value)
    yield b',"builds":'
    yield from _json_list(build_facts(builds, has_names=has_names))
    yield b"}"


def _json_list(items: Iterable[Any]) -> Iterator[bytes]:
    yield b"["
    for i, item in enumerate(items):
        yield (b",\n" if i else b"") + text(item)
    yield b"]"


def build_facts(
    builds: Iterable[Build], *, has_names: bool
) -> Iterator[dict[str, Any]]:
    """Yield each build: whole, or as its differences to an earlier one."""
    wholes: dict[tuple[Any, ...], Build] = {}
    for build in builds:
        head, tensors = build.head, build.tensors
        facts = {
            "build": head.build,
            "nodes": head.n_nodes,
            "computed": head.n_computed,
            "fused": head.n_fused,
        }
        key = (
            facts["nodes"], facts["computed"], facts["fused"], tuple(build.names),
            *(tensors[name].tobytes() for name in (*_STRUCTURE, "sources")),
        )  # fmt: skip
        whole = wholes.setdefault(key, build)
        if whole is build:
            yield facts | _whole(build, has_names=has_names)
            continue
        changes = {
            name: _change(whole.tensors[name], tensors[name]) for name in _VALUES
        }
        yield {
            "build": facts["build"],
            "like": whole.head.build,
            "changes": {name: change for name, change in changes.items() if change},
        }


def _whole(build: Build, *, has_names: bool) -> dict[str, Any]:
    tensors, n = build.tensors, len(build.tensors)
    columns: dict[str, list[Any]] = {
        name: _known(tensors[name]) for name in (*_STRUCTURE, *_VALUES)
    }
    columns["sources"] = [
        [source for source in used if source < n]
        for used in tensors["sources"].tolist()
    ]
    # Nodes first, then what else they read; null is not known.
    return {
        "names": build.names if has_names else [],
        "tensors": table(n, columns),
    }


def _change(old: _Array, new: _Array) -> dict[str, Any]:
    """Return the difference between two columns; {} if they are equal.

    Equal values mostly change alike: ``moved`` maps old values to new ones; ``single``
    lists the rows that do not follow it.
    """
    differs = old != new
    if not differs.any():
        return {}
    rows = np.flatnonzero(np.isin(old, old[differs]))
    pairs, which, counts = np.unique(
        np.stack([old[rows], new[rows]]).astype(np.uint64), axis=1,
        return_inverse=True, return_counts=True,
    )  # fmt: skip
    # Of each old value the commonest new one.
    order = np.lexsort((counts, pairs[0]))
    is_last = np.append(np.diff(pairs[0][order]) != 0, True)
    best = np.sort(order[is_last])
    follows = np.isin(which.ravel(), best)
    moved = best[pairs[0][best] != pairs[1][best]]
    change: dict[str, Any] = {}
    if len(moved):
        columns = {"from": _known(pairs[0][moved]), "to": _known(pairs[1][moved])}
        change["moved"] = table(len(moved), columns)
    if not follows.all():
        at = rows[~follows]
        columns = {"at": at.tolist(), "is": _known(new[at])}
        change["single"] = table(len(at), columns)
    return change


def _known(values: _Array) -> list[int | None]:
    """Return numbers, None = unknown."""
    unknown = {UNKNOWN_U32, UNKNOWN_U64}
    return [None if value in unknown else value for value in values.tolist()]
