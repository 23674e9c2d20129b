"""Reader of ``buffer-timeline.json``: buffer events as the tracer's tools export them.

Source of the format: ErsjanKeri/BSC, January 2026. Buffers are listed by id, so that
an id that is used again overwrites its entry; the timeline keeps every event.
"""

from decimal import Decimal

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import (
    DeclaredMetric,
    Severity,
    Trace,
    stated_figure,
    without_verdict,
)
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.buffers import TIMELINE_INFO
from ggscope.readers.buffers.parser import EventList, ListedBuffers, allowance_of
from ggscope.readers.common.buffer_lives import add_buffers
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.common.json_cursor import first_element_keys, outer_keys
from ggscope.readers.common.json_walk import integer_of, note_fault, walk_root
from ggscope.readers.memory import Allowance
from ggscope.readers.source import Source

MAX_BYTES = 1 << 30
_ROOT_KEYS = {"buffers", "timeline"}
_MIB = 1 << 20
_MAX_FIGURE = 1 << 63
_TOLD = {"events", "buffers", "peak", "peak in MiB"}
"""Figures whose contradictions have warnings of their own."""


class BufferTimelineReader:
    """Reads buffer timelines."""

    info = TIMELINE_INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys."""
        if b"\0" in head.data or b'"buffers"' not in head.data:
            return NOT_MINE
        keys = outer_keys(head.data)
        if not keys & _ROOT_KEYS:
            return NOT_MINE
        has_events = "buffer_id" in first_element_keys(head.data, "timeline")
        entry = first_element_keys(head.data, "buffers")
        if keys >= _ROOT_KEYS or has_events or {"usage", "alloc_time_ms"} <= entry:
            return Sniff(90, "buffers and their timeline")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of no spans with the buffers and what they occupy.

        Raises
        ------
        CorruptError, TruncatedError
            If the text is no JSON before its first buffer, or has no buffers.
        LimitExceededError
            If the file is too large for such events.
        """
        refuse_larger(source, MAX_BYTES, "Are these buffer events?")
        builder = TraceBuilder()
        allowance = allowance_of(source.size)
        registry, timeline = ListedBuffers(allowance), _Timeline(allowance)
        walked = walk_root(
            source,
            context,
            builder,
            {"buffers": registry.take, "timeline": timeline.take},
        )
        n_events, n_entries = len(timeline.events), len(registry)
        if walked.fault is not None:
            loaded = f"{n_entries:,} buffers and {n_events:,} events"
            note_fault(builder, source, walked.fault, loaded, n_entries + n_events)
        if not walked.lists:
            raise CorruptError(
                "no buffers and no timeline in this JSON.",
                hint="Is this a buffer timeline?",
            )
        facts = _metadata(walked.facts)
        stated = _stated(walked.facts, facts, timeline, registry)
        timeline.check(builder, facts)
        if walked.fault is None:
            _check_counts(builder, facts, n_events, n_entries)
        builder.warn_stated(f for f in stated if f.name not in _TOLD)
        registry.complete(timeline.events, builder)
        add_buffers(builder, timeline.events.events(builder), record_word="event")
        return builder.snapshot(
            trace_info(
                self.info,
                source,
                n_events or n_entries,
                summary={
                    f"stated_{key}": value if isinstance(value, int) else float(value)
                    for key, value in facts.items()
                },
                stated=tuple(map(without_verdict, stated))
                if builder.has_loss
                else stated,
            )
        )


class _Timeline:
    """Takes the events of "timeline", and what the file says of their sums."""

    def __init__(self, allowance: Allowance) -> None:
        self.events = EventList(allowance)
        self._stated: list[int] = []
        self._n_seen = 0

    def take(self, value: object) -> None:
        """Take one element of "timeline"."""
        number, place = self._n_seen, f"timeline[{self._n_seen}]"
        self._n_seen += 1
        if not isinstance(value, dict):
            self.events.reject("form", place)
        elif self.events.add(value, number, place, name="buffer_name"):
            stated = integer_of(value.get("cumulative_size"))
            self._stated.append(-1 if stated is None else stated)

    def check(self, builder: TraceBuilder, facts: dict[str, int | Decimal]) -> None:
        """Compare the stated sums and peak with those of the events themselves."""
        if not len(self.events):
            return
        level = self._levels()
        peak, claimed = max(max(level), 0), facts.get("peak_occupancy_bytes")
        wrong = [
            i
            for i, (stated, computed) in enumerate(
                zip(self._stated, level, strict=True)
            )
            if stated not in (-1, computed)
        ]
        if wrong:
            first = wrong[0]
            builder.warn(
                Severity.NOTICE,
                "cumulative_mismatch",
                "totals in the events do not match (file: "
                f"{self._stated[first]:,}, computed: {level[first]:,} bytes); "
                "computed totals are shown.",
                count=len(wrong),
                place=f"timeline[{self.events.rows[first].record}]",
            )
        if claimed is not None and claimed != peak:
            builder.warn(
                Severity.NOTICE,
                "peak_mismatch",
                f"peak does not match: file says {claimed:,} bytes, computed "
                f"{peak:,} bytes.",
                place="metadata.peak_occupancy_bytes",
            )
        mebibytes = facts.get("peak_occupancy_mb")
        if mebibytes is not None and abs(float(mebibytes) - peak / _MIB) > 0.011:
            builder.warn(
                Severity.NOTICE,
                "peak_mb_mismatch",
                f"peak does not match: file says {mebibytes} MB, computed "
                f"{peak / _MIB:.2f} MiB.",
                place="metadata.peak_occupancy_mb",
            )

    @property
    def peak(self) -> int | None:
        """The most bytes occupied at once; None without events."""
        return max(max(self._levels()), 0) if len(self.events) else None

    @property
    def duration_ms(self) -> float | None:
        """Time from the first to the last event; None without events."""
        times = [event.time for event in self.events.rows]
        return (max(times) - min(times)) / 1e6 if times else None

    def _levels(self) -> list[int]:
        """Return the occupied bytes after each event, in file order."""
        alive: dict[int, int] = {}
        total, levels = 0, []
        for event in self.events.rows:
            total -= alive.pop(event.id, 0)
            if event.is_alloc:
                alive[event.id] = max(event.size, 0)
                total += alive[event.id]
            levels.append(total)
        return levels


def _metadata(facts: dict[str, object]) -> dict[str, int | Decimal]:
    """Return the numbers that the file claims of itself."""
    metadata = facts.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    typed: dict[str, int | Decimal] = {}
    for key, value in metadata.items():
        number: int | Decimal | None = integer_of(value)
        number = value if isinstance(value, Decimal) else number
        if number is not None and -_MAX_FIGURE < number < _MAX_FIGURE:
            typed[key] = number
    return typed


def _stated(
    root: dict[str, object],
    facts: dict[str, int | Decimal],
    timeline: _Timeline,
    registry: ListedBuffers,
) -> tuple[DeclaredMetric, ...]:
    """Return what the file says of itself beside what its lists hold."""
    peak, by = timeline.peak, "its events"
    in_mib = None if peak is None else peak / _MIB
    figures: list[DeclaredMetric | None] = [
        stated_figure(
            name,
            facts.get(key),
            computed,
            unit=unit,
            basis=basis,
            place=f"metadata.{key}",
        )
        for name, key, computed, unit, basis in (
            ("events", "total_events", len(timeline.events), "", "its timeline"),
            ("buffers", "total_buffers", len(registry), "", "its list of buffers"),
            ("peak", "peak_occupancy_bytes", peak, "B", by),
            ("peak in MiB", "peak_occupancy_mb", in_mib, "MiB", by),
            ("duration", "duration_ms", timeline.duration_ms, "ms", by),
        )
    ]
    metadata = root.get("metadata")
    usages = metadata.get("usage_breakdown") if isinstance(metadata, dict) else None
    by_usage = registry.by_usage()
    figures += [
        stated_figure(
            f"{str(name)[:40]} buffers",
            number,
            by_usage.get(str(name).upper(), 0),
            basis="its list of buffers",
            place="metadata.usage_breakdown",
        )
        for name, number in (usages if isinstance(usages, dict) else {}).items()
    ]
    return tuple(figure for figure in figures if figure is not None)


def _check_counts(
    builder: TraceBuilder,
    facts: dict[str, int | Decimal],
    n_events: int,
    n_entries: int,
) -> None:
    for key, computed in (("total_events", n_events), ("total_buffers", n_entries)):
        stated = facts.get(key)
        if stated is not None and stated != computed:
            builder.warn(
                Severity.NOTICE,
                f"{key}_mismatch",
                f"{key.removeprefix('total_')} count does not match: file says "
                f"{stated:,}, found {computed:,}.",
                place=f"metadata.{key}",
                remedy="Re-export it from the tracer's file.",
            )
