"""A tensor trace as token traces: one JSON text per token, as their exporter writes.

The texts have the schema, the order of keys and the indentation of the exporter of
the tensor tracers for llama.cpp, so that what was read from its files comes out the
same, byte for byte. What entries repeat is put into words once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from ggscope.errors import ExportError
from ggscope.model.tables import I64, Space, SpanFlag
from ggscope.model.trace import RawFileValues, Trace, unknown_op_number
from ggscope.sanitize import json_text

_NO_LAYER_128 = 65535
SCHEMAS = ("128", "256", "1024")
"""Schemas by the size of the binary records that they were made from."""
_LONGEST_256 = (23, 19)
_BLOCK = 4096
_NS_PER_MS = 1_000_000
_NO_EXPERTS = ',\n      "expert_ids": [],\n      "num_experts": 0'
_PHASES: Mapping[int, str] = {-1: "null", 0: '"PROMPT"', 1: '"GENERATE"', 2: "null"}
"""Their exporter knows no ubatch with tokens of both."""


@dataclass(frozen=True, slots=True)
class PatternRows:
    """What every op of a pattern is written as.

    Attributes
    ----------
    tails : (layer, everything behind the op) of each entry that it becomes.
    """

    tails: tuple[tuple[str, str], ...]
    lists_experts: bool


def pattern_parts(
    trace: Trace, claims: RawFileValues, schema: str
) -> list[PatternRows]:
    """Return what is repeated by the ops of each pattern of the accesses."""
    first = trace.accesses.first.tolist()
    make = _accesses_apart if schema == "128" else _op_with_sources
    return [
        PatternRows(make(trace, claims, p, first[p], first[p + 1]), bool(lists))
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
        latest = np.full(len(layer), -1, np.int64)
        for number in np.unique(layer).tolist():
            low, high = np.searchsorted(self._layer, [number, number + 1])
            here = layer == number
            at = low + np.searchsorted(self._time[low:high], time[here], "right") - 1
            if high > low:
                latest[here] = np.where(at >= low, self._order[np.maximum(at, low)], -1)
        return latest

    def _text(self, number: int) -> str:
        experts = self._lists[number].tolist() if number >= 0 else []
        fields = {"expert_ids": experts, "num_experts": len(experts)}
        return "," + _indented(fields)


def _op_with_sources(
    trace: Trace, claims: RawFileValues, pattern: int, first: int, stop: int
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


def _source(trace: Trace, claims: RawFileValues, row: int) -> dict[str, object]:
    a = trace.accesses.patterns
    layer, size = int(claims.source_layer[row]), int(a.size[row])
    space, index = int(a.space[row]), int(claims.source_index[row])
    source: dict[str, object] = {
        "name": trace.strings[int(claims.source_name[row])],
        "tensor_ptr": hex(int(a.address[row])),
        "size_bytes": None if size < 0 else size,
        "layer_id": None if layer < 0 else layer,
        "memory_source": {Space.FILE: "DISK", Space.BUFFER: "BUFFER"}.get(Space(space)),
    }
    if space == Space.FILE:
        offset = int(a.offset[row])
        none = 0 if claims.source_is_zero[row] else None
        source["disk_offset"] = none if offset < 0 else offset
    elif space == Space.BUFFER:
        buffer = int(a.buffer[row])
        source["buffer_id"] = 0 if buffer < 0 else int(trace.buffers.address[buffer])
    if index >= 0:
        source["tensor_idx"] = index
    return source


def _accesses_apart(
    trace: Trace, claims: RawFileValues, pattern: int, first: int, stop: int
) -> tuple[tuple[str, str], ...]:
    """Return each access of an op as an entry of its own."""
    del pattern
    a = trace.accesses.patterns
    accesses = []
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
        accesses.append((str(_NO_LAYER_128 if layer < 0 else layer), text))
    return tuple(accesses)


def _indented(fields: dict[str, object]) -> str:
    """Return fields of an entry as they stand in the file, after a line break."""
    text = json_text(fields, indent=2).removeprefix("{").removesuffix("\n}")
    return text.replace("\n", "\n    ")


_FORMAT_VERSIONS = MappingProxyType({"256": "256-byte", "1024": "1024-byte"})


@dataclass(frozen=True, slots=True, eq=False)
class TokenFile:
    """The text of one token.

    Attributes
    ----------
    token : its number, -1 where the trace does not say it.
    spans : int64[n], the ops of the token, in the order of the traced file.
    """

    token: int
    spans: I64

    @property
    def name(self) -> str:
        """File name, as the exporter chooses it."""
        number = "unknown" if self.token < 0 else f"{self.token:05d}"
        return f"token-{number}.json"


class TokenJson:
    """Writes a trace as token traces.

    Parameters
    ----------
    schema : one of `SCHEMAS`; None for the narrowest that holds the trace.

    Attributes
    ----------
    schema : the one that is written.
    files : the texts to write, by token.
    losses : sentences on what the schema has no place for.

    Raises
    ------
    ExportError
        If the trace has no ops with accesses and names, or `schema` asks for what
        it does not know.
    """

    def __init__(self, trace: Trace, schema: str | None = None) -> None:
        claims = _claims(trace)
        self._trace = trace
        self._claims = claims
        self.schema = schema or _fitting(trace, claims)
        if not claims.has_results and self.schema != "128":
            raise ExportError(
                "this trace does not say what its ops compute or where their "
                f"sources lie; the {self.schema}-byte schema needs both. Write it "
                "with --schema 128."
            )
        version = trace.info.format_version
        # The last schema has keys for experts.
        is_last = bool(claims.lists_experts.any()) or version.endswith("v4")
        self._has_experts = self.schema == "1024" and is_last
        self._parts = pattern_parts(trace, claims, self.schema)
        self._experts = Experts(trace) if self._has_experts else None
        self.files = _by_token(trace)
        self.losses = _losses(trace, claims, self.schema)

    def n_entries(self, file: TokenFile) -> int:
        """Return how many entries the text of a token has."""
        return int(self._counts(file.spans).sum())

    def chunks(self, file: TokenFile) -> Iterator[bytes]:
        """Yield the text of a token, in pieces of at most 4,096 ops."""
        trace, start = self._trace, self._trace.spans.start
        stamps = start[file.spans]
        first = int(stamps.min()) if len(stamps) else 0
        last = int(stamps.max()) if len(stamps) else 0
        yield self._head(file, first, last).encode()
        number = int(trace.info.producer.get("first_entry_id", 0))
        separator = "\n"
        for low in range(0, len(file.spans), _BLOCK):
            spans = file.spans[low : low + _BLOCK]
            entries = list(self._entries(spans, file.token, first, number))
            if not entries:
                continue
            number += len(entries)
            yield (separator + ",\n".join(entries)).encode()
            separator = ",\n"
        is_empty = separator == "\n"
        yield b"]\n}" if is_empty else b"\n  ]\n}"

    def _head(self, file: TokenFile, first: int, last: int) -> str:
        metadata: dict[str, object] = {
            "total_entries": self.n_entries(file),
            "duration_ms": round((last - first) / _NS_PER_MS, 3),
            "timestamp_start_ns": first + self._trace.clock.origin,
        }
        if self.schema in _FORMAT_VERSIONS:
            metadata["format_version"] = _FORMAT_VERSIONS[self.schema]
        token = None if file.token < 0 else file.token
        text = json_text({"token_id": token, "metadata": metadata}, indent=2)
        return text.removesuffix("\n}") + ',\n  "entries": ['

    def _counts(self, spans: I64) -> I64:
        """Return how many entries each op becomes."""
        n = np.array([len(part.tails) for part in self._parts], np.int64)
        return np.asarray(n[self._trace.accesses.pattern[spans]])

    def _entries(
        self, spans: I64, token: int, first: int, number: int
    ) -> Iterator[str]:
        """Yield the text of every entry.

        Slow: a loop over rows, as each becomes a text of its own. What repeats has
        been put into words before.
        """
        trace, parts = self._trace, self._parts
        raw = [attributes.get("raw", "-1") for attributes in trace.lanes.attributes]
        threads = ["null" if text == "-1" else text for text in raw]
        token_text = "null" if token < 0 else str(token)
        phases = trace.spans.phase
        listed = None if self._experts is None else self._experts.texts(spans)
        start = trace.spans.start[spans]
        relative = start - first
        ops: dict[int, str] = {}
        rows = zip(
            (start + trace.clock.origin).tolist(),
            relative.tolist(),
            trace.accesses.pattern[spans].tolist(),
            trace.spans.lane[spans].tolist(),
            [-1] * len(spans) if phases is None else phases[spans].tolist(),
            trace.spans.op[spans].tolist(),
            strict=True,
        )
        for i, (stamp, ns, pattern, lane, phase, op) in enumerate(rows):
            part = parts[pattern]
            if op not in ops:
                ops[op] = json_text(_printed(trace, op))
            end = ""
            if listed is not None:
                end = listed[i] if part.lists_experts else _NO_EXPERTS
            for layer, tail in part.tails:
                yield (
                    f'    {{\n      "entry_id": {number},\n'
                    f'      "timestamp_ns": {stamp},\n'
                    f'      "timestamp_relative_ms": {round(ns / _NS_PER_MS, 3)!r},\n'
                    f'      "token_id": {token_text},\n'
                    f'      "layer_id": {layer},\n'
                    f'      "thread_id": {threads[lane]},\n'
                    f'      "phase": {_PHASES[phase]},\n'
                    f'      "operation_type": {ops[op]},\n'
                    f"{tail}{end}\n    }}"
                )
                number += 1


def _claims(trace: Trace) -> RawFileValues:
    claims = trace.claims
    if claims is None or len(claims) != len(trace.accesses.first) - 1:
        raise ExportError(
            "only single traces of tensor accesses can be written as token traces; "
            f"this one ({trace.info.format or 'unknown format'}) does not say what "
            "its records held."
        )
    is_op = trace.spans.op >= 0
    n_nameless = int(np.count_nonzero(trace.accesses.pattern[is_op] < 0))
    if n_nameless:
        raise ExportError(
            f"the names and accesses of {n_nameless:,} ops were not read. Read them "
            "all: without --names sampled or --names none."
        )
    return claims


def _fitting(trace: Trace, claims: RawFileValues) -> str:
    """Return the schema that the trace came from, or the narrowest that holds it."""
    if not claims.has_results:
        return "128"
    stated = trace.info.format_version.partition(" ")[0]
    if stated in SCHEMAS and stated != "128":
        return stated
    results, sources = (
        max(
            (len(trace.strings[i].encode()) for i in np.unique(ids).tolist()), default=0
        )
        for ids in (claims.name, claims.source_name)
    )
    is_long = results > _LONGEST_256[0] or sources > _LONGEST_256[1]
    return "1024" if is_long or claims.lists_experts.any() else "256"


def _by_token(trace: Trace) -> tuple[TokenFile, ...]:
    """Return the ops of each token in the order of the file, tokens ascending."""
    spans = np.flatnonzero(trace.spans.op >= 0)
    if trace.spans.record is not None:
        spans = spans[np.argsort(trace.spans.record[spans], kind="stable")]
    if trace.spans.token is None or not len(spans):
        return (TokenFile(-1 if len(spans) else 0, spans),)
    token = trace.spans.token[spans].astype(np.int64)
    order = np.argsort(token, kind="stable")
    spans, token = spans[order], token[order]
    first = np.flatnonzero(np.append(True, token[1:] != token[:-1]))
    return tuple(
        TokenFile(number, part)
        for number, part in zip(
            token[first].tolist(), np.split(spans, first[1:]), strict=True
        )
    )


def _losses(trace: Trace, claims: RawFileValues, schema: str) -> tuple[str, ...]:
    losses = []
    is_op = trace.spans.op >= 0
    inferred = SpanFlag.INFERRED_END | SpanFlag.UNFINISHED
    n_measured = int(np.count_nonzero((trace.spans.flags[is_op] & inferred) == 0))
    if n_measured:
        losses.append(
            f"{n_measured:,} measured duration{'s are' if n_measured > 1 else ' is'} "
            "left out: the schema has no place for them."
        )
    if claims.has_results and schema == "128":
        losses.append(
            "names of results, buffers and where sources lie are left out: the "
            "128-byte schema has one entry per source."
        )
        n_empty = int(np.count_nonzero(trace.accesses.counts()[is_op] == 0))
        if n_empty:
            ops, are = ("op", "is") if n_empty == 1 else ("ops", "are")
            losses.append(f"{n_empty:,} {ops} without sources {are} left out.")
    if len(trace.routing.listed()) and not (
        schema == "1024" and claims.lists_experts.any()
    ):
        losses.append("the experts that were chosen are left out.")
    if trace.info.summary.get("extension_records"):
        losses.append("extension records are left out.")
    return tuple(losses)


def _printed(trace: Trace, op: int) -> str:
    """Return an op as the exporter prints it."""
    name = trace.op_name(op)
    number = unknown_op_number(name)
    return name if number is None else f"UNKNOWN_{number}"
