"""What the entries of a token trace repeat, put into words once."""

import json
from dataclasses import dataclass

import numpy as np

from ggscope.model.claims import Claims
from ggscope.model.tables import I64, Space
from ggscope.model.trace import Trace

_NO_LAYER_128 = 65535


@dataclass(frozen=True, slots=True)
class Part:
    """What every op of a pattern is written as.

    Attributes
    ----------
    tails : (layer, everything behind the op) of each entry that it becomes.
    """

    tails: tuple[tuple[str, str], ...]
    lists_experts: bool


def pattern_parts(trace: Trace, claims: Claims, schema: str) -> list[Part]:
    """Return what is repeated by the ops of each pattern of the accesses."""
    first = trace.accesses.first.tolist()
    make = _accesses_apart if schema == "128" else _op_with_sources
    return [
        Part(make(trace, claims, p, first[p], first[p + 1]), bool(lists))
        for p, lists in enumerate(claims.lists_experts.tolist())
    ]


class Experts:
    """Lists of experts of ops, from the router's choices.

    A choice holds from the first op of its layer in a pass until the next one.
    """

    def __init__(self, trace: Trace) -> None:
        r = trace.routing.listed()
        self._trace = trace
        begins = np.flatnonzero(np.append(True, np.diff(r.span) != 0)[: len(r)])
        self._lists = np.split(r.expert.astype(np.int64), begins[1:])
        layer, time = r.layer[begins].astype(np.int64), r.time[begins]
        self._order = np.lexsort((time, layer))
        self._layer, self._time = layer[self._order], time[self._order]

    def texts(self, spans: I64) -> list[str]:
        """Return the text of the list that holds for each span."""
        s = self._trace.spans
        layers = np.full(len(spans), -1) if s.layer is None else s.layer[spans]
        at = self._latest(layers.astype(np.int64), s.start[spans])
        return [self._text(i) for i in at.tolist()]

    def _latest(self, layer: I64, time: I64) -> I64:
        """Return the last choice of a layer up to a time; -1 none."""
        found = np.full(len(layer), -1, np.int64)
        for number in np.unique(layer).tolist():
            low, high = np.searchsorted(self._layer, [number, number + 1])
            here = layer == number
            at = low + np.searchsorted(self._time[low:high], time[here], "right") - 1
            if high > low:
                found[here] = np.where(at >= low, self._order[np.maximum(at, low)], -1)
        return found

    def _text(self, number: int) -> str:
        experts = self._lists[number].tolist() if number >= 0 else []
        fields = {"expert_ids": experts, "num_experts": len(experts)}
        return "," + _indented(fields)


def _op_with_sources(
    trace: Trace, claims: Claims, pattern: int, first: int, stop: int
) -> tuple[tuple[str, str], ...]:
    """Return an op as one entry, with all its sources."""
    fields = {
        "dst_name": trace.strings[int(claims.name[pattern])],
        "num_sources": int(claims.n_sources[pattern]),
        "sources": [_source(trace, claims, row) for row in range(first, stop)],
    }
    layer = int(claims.layer[pattern])
    text = _indented(fields).removeprefix("\n")
    return (("null" if layer < 0 else str(layer), text),)


def _source(trace: Trace, claims: Claims, row: int) -> dict[str, object]:
    a = trace.accesses.patterns
    layer, size = int(claims.source_layer[row]), int(a.size[row])
    space, index = int(a.space[row]), int(claims.source_index[row])
    found: dict[str, object] = {
        "name": trace.strings[int(claims.source_name[row])],
        "tensor_ptr": hex(int(a.address[row])),
        "size_bytes": None if size < 0 else size,
        "layer_id": None if layer < 0 else layer,
        "memory_source": {Space.FILE: "DISK", Space.BUFFER: "BUFFER"}.get(Space(space)),
    }
    if space == Space.FILE:
        offset = int(a.offset[row])
        found["disk_offset"] = None if offset < 0 else offset
    elif space == Space.BUFFER:
        buffer = int(a.buffer[row])
        found["buffer_id"] = 0 if buffer < 0 else int(trace.buffers.address[buffer])
    if index >= 0:
        found["tensor_idx"] = index
    return found


def _accesses_apart(
    trace: Trace, claims: Claims, pattern: int, first: int, stop: int
) -> tuple[tuple[str, str], ...]:
    """Return each access of an op as an entry of its own."""
    del pattern
    a = trace.accesses.patterns
    found = []
    for row in range(first, stop):
        layer, index = int(claims.source_layer[row]), int(claims.source_index[row])
        size = int(a.size[row])
        fields: dict[str, object] = {
            "tensor_idx": None if index < 0 else index,
            "tensor_ptr": hex(int(a.address[row])),
            "tensor_name": trace.strings[int(claims.source_name[row])],
            "size_bytes": None if size < 0 else size,
            "file_offset": max(int(a.offset[row]), 0),
        }
        text = _indented(fields).removeprefix("\n")
        found.append((str(_NO_LAYER_128 if layer < 0 else layer), text))
    return tuple(found)


def _indented(fields: dict[str, object]) -> str:
    """Return fields of an entry as they stand in the file, after a line break."""
    text = json.dumps(fields, indent=2).removeprefix("{").removesuffix("\n}")
    return text.replace("\n", "\n    ")
