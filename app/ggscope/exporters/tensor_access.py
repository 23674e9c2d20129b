"""Writer of tensor-access traces: ops as records of 256 bytes.

Format: that of the tensor tracer for llama.cpp since January 2026, little-endian,
without a header: time u64 (ns), token u32, layer u16, thread u16, op u8, phase u8,
number of sources u8, 5 spare bytes, name[24], and four sources of 52 bytes: name[20],
pointer u64, size u32, layer u16, where u8 (0 = file, 1 = buffer), a spare byte, offset
or buffer u64, index u32, 4 spare bytes. The spare bytes of an op hold its duration in
ns, as `ggscope-capture` writes it (0: not known), and those behind the fourth source of
the first record name the op table; other readers pass over them.

A record template is made once per access pattern.
"""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from ggscope.errors import ExportError
from ggscope.exporters.events import Events, ggml_numbers, threads_of_work
from ggscope.model.ggml.ops import mark_of
from ggscope.model.tables import (
    I64,
    NO_WAIT,
    AccessKind,
    Phase,
    Quality,
    Space,
    quality_of,
)
from ggscope.model.units import format_count
from ggscope.readers.tensor.layouts import LAYOUT_256, TensorRecords

_SOURCE = np.dtype(
    [
        ("name", "S20"), ("pointer", "<u8"), ("size", "<u4"), ("layer", "<u2"),
        ("where", "u1"), ("spare", "u1"), ("place", "<u8"), ("index", "<u4"),
        ("spare4", "<u4"),
    ]
)  # fmt: skip
_RECORD = np.dtype(
    [
        ("time", "<u8"), ("token", "<u4"), ("layer", "<u2"), ("thread", "<u2"),
        ("op", "u1"), ("phase", "u1"), ("n_sources", "u1"), ("duration", "u1", (5,)),
        ("name", "S24"), ("sources", _SOURCE, (4,)),
    ]
)  # fmt: skip
_TABLE = "ggml-2025-11-25-95"
"""Of the real traces of this form."""
_NO_LAYER, _NO_INDEX, _NO_PHASE = 0xFFFF, 0xFFFF_FFFF, 0xFF
_NO_PLACE = 0xFFFF_FFFF_FFFF_FFFF
_LONGEST = (1 << 40) - 1
"""Nanoseconds that the spare bytes hold: 18 minutes."""
_MAX_SOURCES = 4
_NAME_BYTES, _SOURCE_NAME_BYTES = 24, 20
_RECORDS_AT_ONCE = 1 << 16


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in chunks of at most 16 MB.

    Raises
    ------
    ExportError
        If the names and accesses of its ops were not all read.
    """
    yield from _Work(events).chunks()


def n_spans(events: Events) -> int:
    """Return how many spans are written."""
    return int((events.trace.spans.op[events.spans] >= 0).sum())


def losses(events: Events) -> list[str]:
    """Return the omissions of the file, one sentence each."""
    messages = events.losses(has_only_spans=True, has_accesses=True)
    return [*messages, *_Work(events).losses()]


class _Work:
    """The ops to write, as columns.

    Attributes
    ----------
    ids : int64[n], the ops, in the order of time.
    """

    def __init__(self, events: Events) -> None:
        trace = events.trace
        s = trace.spans
        ids = events.spans[s.op[events.spans] >= 0]
        self._events, self._trace = events, trace
        record = ids if s.record is None else s.record[ids]
        self.ids = ids[np.lexsort((record, s.start[ids]))]
        self._number, self._table = ggml_numbers(trace, _TABLE, "tensor-access")
        self._thread, _ = threads_of_work(events)
        quality = quality_of(s.flags[self.ids])
        self._quality = quality
        # Where no time is better than derived, readers derive it again.
        self._has_times = bool(np.isin(quality, [0, int(Quality.ESTIMATED)]).any())
        # A whole trace of this form comes back byte for byte, and its ops are inferred
        # from what it holds as they were.
        records = trace.records
        is_same = isinstance(records, TensorRecords) and records.layout is LAYOUT_256
        is_inferred = trace.ops is not None and trace.ops.source == "inferred"
        is_inferable = is_same and is_inferred and not events.is_part
        self._mark = mark_of(self._table) if self._table and not is_inferable else 0
        self._base = events.shift
        if trace.clock.unit == "ns" and trace.clock.origin > 0:
            self._base += trace.clock.origin
        self._claims = trace.claims
        if self._claims is not None and not self._claims.has_results:
            self._claims = None
        self._made: dict[int, npt.NDArray[np.void]] = {}
        self._pattern = trace.accesses.pattern

    def losses(self) -> list[str]:
        """Return the omissions of ops."""
        trace, ids = self._trace, self.ids
        s, messages = trace.spans, list[str]()
        if n := len(self._events.spans) - len(ids):
            messages.append(f"Omitted: {n:,} spans that are not ops.")
        if not len(ids):
            return messages
        messages.append("Omitted: names of lanes and of the trace.")
        for what, column, none in (
            ("cores", s.core, -1),
            ("NUMA nodes", s.numa, -1),
            ("waits", s.wait, NO_WAIT),
        ):
            n = 0 if column is None else int((column[ids] != none).sum())
            if n:
                messages.append(f"Omitted: {what} of {format_count(n)} ops.")
        if s.wait is not None:  # records of ggscope-capture
            messages.append(
                f"Omitted: types of sources, and graph and node of "
                f"{format_count(len(ids))} records."
            )
        if self._has_times:
            if n := int((self._quality == Quality.UNFINISHED).sum()):
                messages.append(
                    f"{format_count(n)} ops without a recorded end have no duration; "
                    "readers may derive one."
                )
            for quality in (Quality.DERIVED, Quality.ESTIMATED):
                if n := int((self._quality == quality).sum()):
                    messages.append(
                        f"{format_count(n)} ops with {quality.word} times: the format "
                        "does not distinguish them from measured ones."
                    )
        if n := int((s.end[ids] - s.start[ids] > _LONGEST).sum()):
            messages.append(
                f"Durations of {format_count(n)} ops limited to 18 minutes."
            )
        if n := int((self._number[s.op[ids]] < 0).sum()):
            messages.append(
                f"{format_count(n)} ops that ggml does not have get number 0."
            )
        patterns = np.unique(self._pattern[ids]) if len(self._pattern) else ids[:0]
        messages += self._losses_of(patterns[patterns >= 0])
        if self._claims is None:
            messages.append(
                "Names of results are not recorded; op names are written instead."
            )
        return messages

    def _losses_of(self, patterns: I64) -> list[str]:
        """Return the omissions of names and accesses."""
        trace, messages = self._trace, list[str]()
        a, first = trace.accesses.patterns, trace.accesses.first
        names = self._names(patterns)
        if n := sum(map(_is_longer_than(_NAME_BYTES), names)):
            messages.append(
                f"{format_count(n)} result names truncated to {_NAME_BYTES} bytes."
            )
        rows = np.concatenate(
            [np.arange(first[p], first[p + 1]) for p in patterns.tolist()]
            or [np.zeros(0, np.int64)]
        ).astype(np.int64)
        sources = np.unique(self._source_names(rows))
        texts = (trace.strings[i] for i in sources[sources >= 0].tolist())
        if n := sum(map(_is_longer_than(_SOURCE_NAME_BYTES), texts)):
            messages.append(
                f"{format_count(n)} source names truncated to "
                f"{_SOURCE_NAME_BYTES} bytes."
            )
        uses = self._uses(patterns)
        writes = np.array(
            [
                (a.kind[first[p] : first[p + 1]] == AccessKind.WRITE).sum()
                for p in patterns.tolist()
            ],
            np.int64,
        )
        if n := int((writes * uses).sum()):
            messages.append(f"Omitted: {format_count(n)} write accesses.")
        sources = np.array([self._reads(p).size for p in patterns.tolist()], np.int64)
        if n := int(uses[sources > _MAX_SOURCES].sum()):
            messages.append(
                f"{format_count(n)} ops with more than four sources: only four written."
            )
        if (a.size[rows] >= 1 << 32).any():
            messages.append("Sizes of 4 GiB and more truncated to 32 bits.")
        if (a.size[rows] < 0).any():
            messages.append("Unknown sizes written as 0.")
        if np.isin(a.space[rows], [Space.DRAM, Space.SPM, Space.UNKNOWN]).any():
            messages.append(
                "All accesses outside of the model file are written as buffer accesses."
            )
        return messages

    def _uses(self, patterns: I64) -> I64:
        """Return the number of ops of each pattern."""
        made = self._pattern[self.ids]
        counts = np.bincount(
            made[made >= 0], minlength=int(patterns.max(initial=0)) + 1
        )
        return np.asarray(counts[patterns], np.int64)

    # -- what is written -----------------------------------------------------------

    def chunks(self) -> Iterator[bytes]:
        """Yield records in the order of time."""
        n_nameless = 0
        if self._claims is not None:
            n_nameless = int((self._pattern[self.ids] < 0).sum())
        if n_nameless:
            raise ExportError(
                f"the names and accesses of {n_nameless:,} ops were not read. Read "
                "them all: without --names sampled or --names none."
            )
        s = self._trace.spans
        for begin in range(0, len(self.ids), _RECORDS_AT_ONCE):
            ids = self.ids[begin : begin + _RECORDS_AT_ONCE]
            records = self._with_sources(ids)
            records["time"] = (s.start[ids] + self._base).astype(np.uint64)
            token = -1 if s.token is None else s.token[ids]
            records["token"] = np.where(np.asarray(token) < 0, _NO_INDEX, token)
            records["thread"] = self._thread[s.lane[ids]] & 0xFFFF
            records["op"] = np.maximum(self._number[s.op[ids]], 0)
            phase = -1 if s.phase is None else s.phase[ids].astype(np.int64)
            # The format knows two: what is not all generated is of a prompt.
            is_generated = np.asarray(phase) == Phase.GENERATE
            records["phase"] = np.where(np.asarray(phase) < 0, _NO_PHASE, is_generated)
            if self._has_times:
                length = np.clip(s.end[ids] - s.start[ids], 0, _LONGEST)
                length[quality_of(s.flags[ids]) == Quality.UNFINISHED] = 0
                octets = length.astype("<i8").view(np.uint8).reshape(-1, 8)
                records["duration"] = octets[:, :5]
            if begin == 0:
                records["sources"]["spare4"][0, 3] = self._mark
            yield records.tobytes()

    def _with_sources(self, ids: I64) -> npt.NDArray[np.void]:
        """Return records filled from the templates of their patterns."""
        s = self._trace.spans
        pattern = self._pattern[ids] if len(self._pattern) else np.full(len(ids), -1)
        kinds, which = np.unique(pattern, return_inverse=True)
        table = np.zeros(len(kinds), _RECORD)
        for k, number in enumerate(kinds.tolist()):
            if number >= 0:
                table[k] = self._record_of(number)
        records = table[which]
        if self._claims is None:
            layer = np.full(len(ids), -1) if s.layer is None else s.layer[ids]
            records["layer"] = np.where(layer < 0, _NO_LAYER, layer)
            names, of = np.unique(s.name[ids], return_inverse=True)
            texts = [_name(self._trace.strings[i], _NAME_BYTES) for i in names.tolist()]
            records["name"] = np.array(texts, "S24")[of]
        return records

    def _record_of(self, number: int) -> npt.NDArray[np.void]:
        """Return the record template of a pattern."""
        record = self._made.get(number)
        if record is not None:
            return record
        trace, claims = self._trace, self._claims
        a = trace.accesses.patterns
        record = np.zeros((), _RECORD)
        rows = self._reads(number)[:_MAX_SOURCES]
        record["n_sources"] = len(rows)
        if claims is not None:
            result = trace.strings[int(claims.name[number])]
            record["name"] = _name(result, _NAME_BYTES)
            layer = int(claims.layer[number])
            record["layer"] = _NO_LAYER if layer < 0 else layer
            record["n_sources"] = min(int(claims.n_sources[number]), 255)
        names = self._source_names(rows)
        for k, row in enumerate(rows.tolist()):
            source = record["sources"][k]
            name = int(names[k])
            text = "" if name < 0 else trace.strings[name]
            source["name"] = _name(text, _SOURCE_NAME_BYTES)
            source["pointer"] = int(a.address[row])
            source["size"] = max(int(a.size[row]), 0) & 0xFFFF_FFFF
            layer = int(a.layer[row] if claims is None else claims.source_layer[row])
            source["layer"] = _NO_LAYER if layer < 0 else layer
            is_file = int(a.space[row]) == Space.FILE
            source["where"] = 0 if is_file else 1
            source["place"] = self._place(row, is_file=is_file)
            index = -1 if claims is None else int(claims.source_index[row])
            source["index"] = _NO_INDEX if index < 0 else index
        self._made[number] = record
        return record

    def _place(self, row: int, *, is_file: bool) -> int:
        a, buffers = self._trace.accesses.patterns, self._trace.buffers
        if is_file:
            offset, claims = int(a.offset[row]), self._claims
            # A field that was not set, or has no place.
            none = 0 if claims is not None and claims.source_is_zero[row] else _NO_PLACE
            return none if offset < 0 else offset
        buffer = int(a.buffer[row])
        return 0 if buffer < 0 else int(buffers.address[buffer])

    def _reads(self, number: int) -> I64:
        """Return the read accesses of a pattern."""
        first = self._trace.accesses.first
        rows = np.arange(first[number], first[number + 1])
        kind = self._trace.accesses.patterns.kind[rows]
        return np.asarray(rows[kind != AccessKind.WRITE], np.int64)

    def _names(self, patterns: I64) -> list[str]:
        strings = self._trace.strings
        if self._claims is None:
            return [strings[i] for i in np.unique(self._trace.spans.name[self.ids])]
        return [strings[i] for i in np.unique(self._claims.name[patterns]).tolist()]

    def _source_names(self, rows: I64) -> I64:
        """Return the string of each access; -1 = it has none."""
        if self._claims is not None:
            return np.asarray(self._claims.source_name[rows], np.int64)
        trace = self._trace
        tensor = trace.accesses.patterns.tensor[rows].astype(np.int64)
        names = np.append(trace.tensors.name, -1)
        return np.asarray(names[tensor], np.int64)


def _is_longer_than(limit: int) -> Callable[[str], bool]:
    return lambda text: len(text.encode("utf-8", "replace")) > limit


def _name(text: str, limit: int) -> bytes:
    """Return as many whole letters of a name as its field holds."""
    data = text.replace("\0", "").encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore").encode()
