"""Reader of pprof profiles: a lane for each type of value, as wide as stacks weigh."""

from collections import Counter
from datetime import UTC, datetime

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock, Unit, format_bytes
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.packed_text import (
    MAX_RATIO,
    TOO_MUCH,
    text_of,
    unpacked_head,
    whole_text,
)
from ggscope.readers.common.stacks import (
    StackBuilder,
    StackRecords,
    add_stack_lane,
    add_stack_spans,
    joined,
    spans_by_weight,
    warn_of_depth,
)
from ggscope.readers.common.weight_units import WEIGHTS, kind_of, ticks_of, unit_of
from ggscope.readers.pprof import GZIP, INFO
from ggscope.readers.pprof.message import (
    MAX_BYTES,
    Location,
    Message,
    is_profile,
    message_of,
)
from ggscope.readers.source import Source

_HEAD_BYTES = 256 << 10
_BYTES_PER_BYTE = 40
"""Memory of a byte of the unpacked profile while it is read, measured."""
_UNKNOWN = "[unknown]"
_MAX_COMMENTS = 8
_SHOWN_LOCATIONS = 200


class PprofReader:
    """Reads profiles of pprof."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first fields, unpacked where it is packed."""
        data = unpacked_head(head.data, _HEAD_BYTES) or b""
        is_whole = len(head.data) >= head.size and len(data) < _HEAD_BYTES
        if is_profile(data, is_whole=is_whole):
            return Sniff(90, "types of values and samples of pprof")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If it has no sample.
        LimitExceededError
            If it unpacks to too much, or there is too little memory.
        ReadError
            If an option is invalid.
        """
        from ggscope.readers.memory import available_bytes

        weights = INFO.option_values(context.options)[WEIGHTS]
        context.progress(0, source.size)
        max_bytes = max(min(available_bytes() // _BYTES_PER_BYTE, MAX_BYTES), 0) + 1
        data, ended = whole_text(text_of(source), max_bytes, context.check_cancelled)
        if ended == TOO_MUCH:
            raise LimitExceededError(
                f"the profile unpacks to more than {MAX_RATIO} times its size, as no "
                "profile does.",
                hint="If you trust its source, unpack it (gzip -d) and open that.",
            )
        if len(data) >= max_bytes:
            raise LimitExceededError(
                f"the profile is larger than {format_bytes(max_bytes)}, the available "
                "memory; nothing was read.",
                hint="Close other programs, or record a shorter profile.",
            )

        # What follows takes as long again as its messages.
        def on_part(n_bytes: int) -> None:
            context.progress(source.size * n_bytes // (2 * len(data)), source.size)

        message = message_of(data, on_part)
        if not message.samples or not message.types:
            raise CorruptError(
                "there is no sample in it.",
                # A place in what is unpacked is none in the file.
                offset=0 if source.head(2) == GZIP else max(message.cut_at, 0),
                hint="Is this a profile of pprof?",
            )
        builder = TraceBuilder()
        _Profile(builder, message, source.size).add(weights, context)
        _warn_of_cut(builder, message, is_whole=not ended)
        n = len(message.samples)
        return file_trace(
            builder, INFO, source, n, _counts(message), noun="samples",
            producer=_facts(message),
        )  # fmt: skip


def _warn_of_cut(builder: TraceBuilder, message: Message, *, is_whole: bool) -> None:
    n = f"{len(message.samples):,} samples"
    if not is_whole:
        builder.warn(
            Severity.DATA_LOSS,
            "packed_cut",
            f"the packed file is damaged or cut; the {n} before that are shown.",
            remedy="Copy or record the file again.",
        )
    elif message.cut_at >= 0 or message.n_broken:
        builder.warn(
            Severity.DATA_LOSS,
            "profile_cut",
            f"the profile is damaged or cut; {n} are shown.",
            message.cut_at if message.cut_at >= 0 else None,
            max(message.n_broken, 1),
            remedy="Copy or record the file again.",
        )


def _facts(message: Message) -> dict[str, str]:
    """Return what the profile says of itself."""
    facts = {}
    if 0 < message.time_ns < 1 << 62:
        when = datetime.fromtimestamp(message.time_ns // 10**9, UTC)
        facts["recorded"] = f"{when:%Y-%m-%d %H:%M:%S} UTC"
    if message.duration_ns > 0:
        facts["duration"] = f"{message.duration_ns / 1e9:,.3f} s"
    if message.period > 0:
        kind, unit = (message.text(i) for i in message.period_type)
        facts["period"] = f"{kind} {message.period:,} {unit}".strip()
    comments = [message.text(i)[:200] for i in message.comments[:_MAX_COMMENTS]]
    if comments:
        facts["comments"] = "; ".join(comments)
    return facts


def _counts(message: Message) -> dict[str, int]:
    counts = {
        "samples": len(message.samples),
        "locations": len(message.locations),
        "functions": len(message.functions),
        "mappings": len(message.mappings),
    }
    return {key: n for key, n in counts.items() if n}


class _Profile:
    """Fills a builder with the samples of a profile."""

    def __init__(self, builder: TraceBuilder, message: Message, size: int) -> None:
        self._builder, self._message, self._size = builder, message, size
        self._made = StackBuilder()
        self._frames: dict[int, tuple[int, ...]] = {}
        self._missing: set[int] = set()

    def add(self, weights: str, context: ReadContext) -> None:
        """Add lanes, spans and records, and say what is left out."""
        builder, message = self._builder, self._message
        types, unit, factors = self._types(weights)
        builder.clock = Clock(unit, is_weight=True)
        node = self._nodes(context)
        stacks = self._made.stacks()
        row = np.arange(len(node), dtype=np.int64)
        names = [message.text(kind) for kind, _ in message.types]
        n_samples = None
        if "samples" in names:
            n_samples, _ = self._values(names.index("samples"), 1, context)
        parts, n_bad = [], 0
        for place, factor in zip(types, factors, strict=True):
            kind, word = (message.text(i) for i in message.types[place])
            title = f"{kind} ({word})" if word else kind or "values"
            lane = add_stack_lane(builder, title)
            weight, n = self._values(place, factor, context)
            n_bad += n
            counts = np.ones_like(weight) if n_samples is None else n_samples
            parts.append(
                spans_by_weight(
                    stacks, lane, node, weight, counts, row, context.check_cancelled
                )
            )
        context.check_cancelled()
        add_stack_spans(
            builder, stacks, joined(parts), is_sampled=n_samples is not None
        )
        builder.records = StackRecords(stacks, node, self._head, self._texts)
        warn_of_depth(builder, self._made.n_deep)
        builder.warn(
            Severity.DATA_LOSS,
            "bad_weight",
            "weights are below zero or no numbers; their samples are left out.",
            count=n_bad,
        )
        if self._missing:
            builder.warn(
                Severity.NOTICE,
                "bad_frame",
                "samples name locations that the profile does not have.",
                count=len(self._missing),
            )

    def _types(self, weights: str) -> tuple[list[int], Unit, list[int]]:
        """Return the types of values with one kind of unit, that unit, and factors."""
        message = self._message
        names = [message.text(kind) for kind, _ in message.types]
        units = [unit_of(message.text(unit)) for _, unit in message.types]
        kinds = [kind_of(unit) for unit, _ in units]
        usual = message.text(message.default_type)
        last = names.index(usual) if usual in names else len(names) - 1
        kind = weights if weights in kinds else kinds[last]
        chosen = [i for i, one in enumerate(kinds) if one == kind]
        others = Counter(one for one in kinds if one != kind)
        if others:
            other_units = ", ".join(
                n for n, k in zip(names, kinds, strict=True) if k != kind
            )
            self._builder.warn(
                Severity.NOTICE,
                "other_weights",
                f"values with other units are not shown: {other_units[:200]}; "
                f"what is shown weighs {kind}.",
                count=sum(others.values()),
                remedy=f"Open with --option {WEIGHTS}={next(iter(others))}.",
            )
        unit = units[chosen[0]][0]
        if {names[i] for i in chosen} == {"samples"}:
            unit = "sample"
        return chosen, unit, [units[i][1] for i in chosen]

    def _values(self, place: int, factor: int, context: ReadContext) -> tuple[I64, int]:
        """Return a value of each sample in ticks, and how many are none."""
        numbers, n_bad = np.zeros(len(self._message.samples), np.int64), 0
        for row, sample in enumerate(self._message.samples):
            if row % 4096 == 0:
                context.check_cancelled()
            value = sample.values[place] if place < len(sample.values) else -1
            ticks = ticks_of(value, factor)
            if ticks is None or ticks < 0:
                n_bad += 1
            else:
                numbers[row] = ticks
        return numbers, n_bad

    def _nodes(self, context: ReadContext) -> I64:
        """Return the stack of each sample."""
        known: dict[tuple[int, ...], int] = {}
        node = np.empty(len(self._message.samples), np.int64)
        for row, sample in enumerate(self._message.samples):
            if row % 1024 == 0:
                share = self._size * (len(node) + row) // (2 * len(node))
                context.progress(share, self._size)
            if sample.locations not in known:
                frames = [
                    frame
                    for location in reversed(sample.locations)
                    for frame in self._frames_of(location)
                ]
                known[sample.locations] = self._made.stack(frames)
            node[row] = known[sample.locations]
        return node

    def _frames_of(self, number: int) -> tuple[int, ...]:
        """Return the frames of a location, outermost first."""
        if number not in self._frames:
            message = self._message
            location = message.locations.get(number)
            if location is None:
                self._missing.add(number)
                location = Location()
            mapping = message.text(message.mappings.get(location.mapping, 0))
            part = mapping.replace("\\", "/").rpartition("/")[2]
            frames = []
            for function, _ in reversed(location.lines):
                name, file = message.functions.get(function, (0, 0))
                where = part or message.text(file)
                frames.append(self._made.frame(message.text(name) or _UNKNOWN, where))
            if not frames:
                plain = f"0x{location.address:x}" if location.address else _UNKNOWN
                frames.append(self._made.frame(plain, part))
            self._frames[number] = tuple(frames)
        return self._frames[number]

    def _head(self, record: int) -> list[tuple[str, str]]:
        """Return values, labels and places of a sample."""
        message, sample = self._message, self._message.samples[record]
        kinds = [
            (message.text(kind) or "value", f"{value:,} {message.text(unit)}".strip())
            for (kind, unit), value in zip(message.types, sample.values, strict=False)
        ]
        for key, text, number, unit in sample.labels:
            value = message.text(text) or f"{number:,} {message.text(unit)}".strip()
            kinds.append((f"label {message.text(key)}", value))
        return kinds

    def _texts(self, record: int) -> list[str]:
        """Return what is known of the frames of a sample, innermost first."""
        message, texts = self._message, []
        for number in message.samples[record].locations[:_SHOWN_LOCATIONS]:
            location = message.locations.get(number, Location())
            mapping = message.text(message.mappings.get(location.mapping, 0))
            address = f"0x{location.address:x}" if location.address else ""
            behind = " ".join(word for word in (mapping, address) if word)
            for function, line in location.lines or [(0, 0)]:
                name, file = message.functions.get(function, (0, 0))
                where = message.text(file) + (f":{line}" if line > 0 else "")
                parts = (message.text(name) or _UNKNOWN, where, behind)
                texts.append("  ".join(word for word in parts if word))
        return texts
