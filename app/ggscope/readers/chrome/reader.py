"""Reader of Chrome trace events."""

from collections.abc import Callable

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.model.units import Clock, format_counted, format_duration
from ggscope.readers.api import (
    GZIP,
    NOT_MINE,
    ZSTD,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.chrome import INFO
from ggscope.readers.chrome.events import (
    STACK_KEYS,
    Events,
    EventScan,
    scan_head,
)
from ggscope.readers.chrome.samples import samples_of
from ggscope.readers.chrome.trace import ChromeTrace
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.nesting_problems import (
    warn_of_limits,
    warn_of_nesting,
    warn_of_pairs,
)
from ggscope.readers.common.objects import object_fields
from ggscope.readers.common.packed_text import (
    packed_estimate,
    remedy_of_packing,
    text_of,
    unpacked_head,
    warn_of_packing,
    zstd_reader,
)
from ggscope.readers.common.placed_records import PlacedRecords
from ggscope.readers.common.stacks import warn_of_depth
from ggscope.readers.source import Source

_ROW_BYTES = 220
"""Memory of an event while it is read, measured."""
_FINAL_BYTES = 50
_FACTS = (
    "schemaVersion", "displayTimeUnit", "traceName", "trace_id", "cuda_runtime_version",
    "cuda_driver_version", "hip_runtime_version", "hip_driver_version", "nccl_version",
)  # fmt: skip


class ChromeReader:
    """Reads Chrome trace events."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first events, unpacked where it is packed."""
        data = unpacked_head(head.data)
        packed = head.data.startswith((GZIP, ZSTD))
        if data is None:
            if head.data.startswith(ZSTD) and zstd_reader() is None:
                return Sniff(0, "packed by zstd: unpack it with zstd -d")
            return Sniff(0, "the packed file is damaged")
        text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not text.startswith((b"{", b"[")):
            return Sniff(0, "packed, and no JSON") if packed else NOT_MINE
        is_outer = text.startswith(b"{")
        if is_outer and b'"traceEvents"' not in text:
            if b'"deviceProperties"' in text and len(head.data) < head.size:
                return Sniff(60, "begins as PyTorch's profiler does")
            return Sniff(0, "packed JSON without trace events") if packed else NOT_MINE
        events = scan_head(data)
        if events.n_events:
            return Sniff(95 if is_outer else 85, "events with phases and times")
        if is_outer and not events.faults.other and not events.faults.broken:
            return Sniff(60, "an object with traceEvents")
        return Sniff(0, "packed JSON without trace events") if packed else NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the density of its first events."""
        data = unpacked_head(head.data)
        if not data:
            return None
        n = scan_head(data).n_events
        return packed_estimate(head, data, n + 1, _FINAL_BYTES, _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If there are no events.
        LimitExceededError
            If there is too little memory.
        """
        context.progress(0, source.size)
        text = text_of(source)

        def publish(scan: EventScan) -> None:
            some = scan.events()
            if some.n_events:
                pending = frozenset({"spans"})
                context.publish(_trace(source, context, some, text.opener(), pending))

        scan = EventScan(
            text, context, source.size, publish if context.wants_stages else None
        )
        events = scan.run()
        if not events.n_events and samples_of(events.facts) is None:
            raise _no_events(events)
        return _trace(source, context, events, text.opener())


def _no_events(events: Events) -> ReadError:
    faults = events.faults
    if faults.ended:
        return CorruptError(
            f"{faults.ended}, before its first event.",
            hint=remedy_of_packing(faults.ended),
        )
    if faults.other or faults.bare:
        return CorruptError(
            "its list holds no trace events: no element has a phase.",
            hint="Is this a trace, or the table of another tool?",
        )
    return CorruptError("there are no events in it.", hint="Record something.")


def _trace(
    source: Source,
    context: ReadContext,
    events: Events,
    read: Callable[[int, int], bytes],
    pending: frozenset[str] = frozenset(),
) -> Trace:
    """Return the trace of some events; `pending` where more follow."""
    builder = TraceBuilder()
    made = ChromeTrace(builder, events)
    builder.clock = _clock(events, made.origin) if made.own is None else made.own.clock
    context.check_cancelled()
    made.add_spans()
    context.check_cancelled()
    made.add_samples()
    made.add_markers()
    n_series = made.add_counters()
    arrows = made.add_arrows()
    if not pending:
        _warn(builder, events, made, arrows.n_loose, n_series)
    builder.records = PlacedRecords(
        read, events.offset, "event", object_fields(("args",))
    )
    until = None
    if pending:
        shown = events.of("X", "B", "E")
        until = int(events.time[shown].max(initial=made.origin)) - made.origin
    return file_trace(
        builder, INFO, source, events.n_events, events.counts(), noun="events",
        version=str(events.facts.get("schemaVersion", "")),
        producer=_producer(events, made), pending=pending, read_until=until,
    )  # fmt: skip


def _clock(events: Events, origin: int) -> Clock:
    """Return the clock: times since 1970 where the file states so."""
    base = events.facts.get("baseTimeNanoseconds")
    if isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 1 << 62:
        return Clock("ns", origin, epoch=base)
    return Clock.of_stamps(origin)


def _producer(events: Events, made: ChromeTrace) -> dict[str, str]:
    """Return what the file says of itself, as texts."""
    facts = events.facts
    if made.own is not None:
        return {"written by": "ggscope", "read from": made.own.format}
    producer = {
        key: str(facts[key])[:200] for key in _FACTS if _is_plain(facts.get(key))
    }
    devices = facts.get("deviceProperties")
    if isinstance(devices, list):
        for place, device in enumerate(devices[:64]):
            if isinstance(device, dict) and isinstance(device.get("name"), str):
                number = device.get("id", place)
                producer[f"device {str(number)[:20]}"] = device["name"][:200]
    return producer


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _warn(
    builder: TraceBuilder,
    events: Events,
    made: ChromeTrace,
    n_loose: int,
    n_series: int,
) -> None:
    """Say what was repaired, guessed and lost."""
    faults = events.faults
    n = format_counted(events.n_events, "event")
    if faults.ended:
        warn_of_packing(builder, faults.ended, n)
    elif faults.cut_at >= 0:
        builder.warn(
            Severity.NOTICE,
            "list_not_closed",
            f"the list of events is not closed; what it holds is shown: {n}. Writers "
            "that were ended leave it so, and a copy may be cut.",
            faults.cut_at,
        )
    builder.warn(
        Severity.DATA_LOSS,
        "broken_event",
        "events are no JSON, or have no time; they are left out.",
        faults.first_broken,
        faults.broken,
    )
    if faults.bare or faults.other:
        builder.warn(
            Severity.NOTICE,
            "no_event",
            "elements of the list are no events: they have no phase.",
            faults.first_bare if faults.first_bare >= 0 else None,
            faults.bare + faults.other,
        )
    _warn_of_stacks(builder, events, made)
    offset: Callable[[int], int] = lambda row: int(events.offset[row])  # noqa: E731
    warn_of_pairs(builder, (made.paired, made.beside.paired), offset, "thread")
    warn_of_nesting(builder, made.n_reaching, made.first_reaching, offset, "thread")
    builder.warn(
        Severity.INFO,
        "loose_flow",
        "arrows have an end that lies in no span, or no begin; they are not drawn.",
        count=n_loose,
    )
    warn_of_limits(builder, n_series, made.n_other_names)


def _warn_of_stacks(builder: TraceBuilder, events: Events, made: ChromeTrace) -> None:
    """Say what of sampled stacks is not shown, and what was guessed of them."""
    samples = made.samples
    stacks = [key for key in STACK_KEYS if events.facts.get(key)]
    stacks += [key for key in events.faults.left_out if key in STACK_KEYS]
    if samples is None:
        if stacks:
            builder.warn(
                Severity.NOTICE,
                "stacks_left_out",
                f"sampled stacks are not shown: {', '.join(stacks)}.",
            )
        return
    warn_of_depth(builder, samples.n_deep)
    builder.warn(
        Severity.DATA_LOSS,
        "bad_sample",
        "samples have no time, or a frame that is not listed or calls itself; they "
        "are left out.",
        count=samples.n_bad,
    )
    if samples.period:
        usual = format_duration(samples.period)
        builder.warn(
            Severity.NOTICE,
            "period_estimated",
            "the sampling period is not recorded; the median time between the samples "
            f"of a thread is used: {usual}.",
        )
    else:
        builder.warn(
            Severity.NOTICE,
            "period_unknown",
            "how long samples last is not known; they are drawn without length.",
            count=len(samples),
        )
