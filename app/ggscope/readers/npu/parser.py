"""Takes the events of a file in, block by block, and makes the trace of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ggscope.errors import CorruptError, LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64
from ggscope.model.trace import (
    DeclaredMetric,
    Severity,
    Trace,
    TraceInfo,
    without_verdict,
)
from ggscope.model.units import Clock, TimeRange
from ggscope.readers.api import ReadContext
from ggscope.readers.common.json_cursor import Block, JsonCursor
from ggscope.readers.common.json_records import ElementPlaces
from ggscope.readers.common.json_text import (
    JsonSyntaxError,
    fault_in,
    parse_json,
    repeats_in,
    without_paste,
)
from ggscope.readers.common.json_walk import note_repeated
from ggscope.readers.npu import HEADER_KEYS
from ggscope.readers.npu.columns import MAX_OPS, EventColumns
from ggscope.readers.npu.header import CYCLES_TOTAL, Header
from ggscope.readers.npu.options import TOO_LARGE_HINT, NpuOptions, Progress, note_part
from ggscope.readers.npu.scan import ODD, STUB, ScannedBlock, scanner
from ggscope.readers.npu.schema import (
    LEFT_OUT,
    NO_REASON,
    REASONS,
    Event,
    Fields,
    Problems,
    Rules,
)
from ggscope.readers.npu.trace import TraceAssembly, last_cycle, max_end
from ggscope.readers.snapshots import SnapshotScheduler
from ggscope.readers.source import Source

_PART = frozenset({"spans", "names", "accesses"})
_NO_ACCESSES = frozenset({"accesses"})
"""Names come with the spans; only what refers to them is still missing."""
_LISTED = 6
"""Odd words that one message spells out."""
_CHECK_EVERY = 1024
"""Events judged one by one between two looks at whether anybody still waits."""


class _TooDeepError(Exception):
    """A value is nested more deeply than can be followed."""


class NpuParser:
    """Everything that is known of one file while it is read.

    Parameters
    ----------
    source : the file; its path goes into the trace.
    lines : JSON Lines instead of one object.
    pace : when to publish what has been read so far.

    Attributes
    ----------
    builder : of the trace to be; holds the warnings.
    n_records : events so far, those left out included.
    generation : how many snapshots have been handed out.
    """

    def __init__(
        self,
        source: Source,
        context: ReadContext,
        options: NpuOptions,
        *,
        lines: bool,
        pace: SnapshotScheduler,
    ) -> None:
        self.builder = TraceBuilder()
        self.n_records = self.generation = 0
        self._unfinished: int | None = None
        self._n_kept = 0
        self._source = source
        self._context = context
        self._options = options
        self._lines = lines
        self._pace = pace
        self._header = Header(self.builder)
        self._problems = Problems(self.builder, lines=lines)
        self._rules = Rules(self._problems)
        self._scanner = scanner(source.size)
        self._columns = EventColumns(self.builder.strings, self._scanner.texts)
        self._places = ElementPlaces()
        self._n_samples = 0
        self._n_bad_lines = 0
        self._has_timeline = lines

    def take_object(self, cursor: JsonCursor) -> None:
        """Read the object form to its end.

        Raises
        ------
        JsonSyntaxError
            Where the text is no JSON; what came before is kept.
        CorruptError
            If the root is no object or the timeline no array.
        """
        if cursor.peek() != b"{":
            # A text that is no JSON at all is reported as such.
            self._shallow(*cursor.value())
            raise CorruptError(
                "the root is not an object.",
                offset=0,
                hint=('Events belong in {"version": "1.0", "timeline_events": [...]}.'),
            )
        for key in cursor.members():
            begins_array = cursor.peek() == b"["
            if key == "timeline_events" and begins_array:
                self._take_timeline(cursor)
            elif key == "bandwidth_samples" and begins_array:
                for block in cursor.blocks(self._scanner.cut_samples):
                    self._take_samples(block)
            else:
                self._take_value(key, cursor)
        if cursor.peek():
            raise cursor.fault("Extra data")

    def take_lines(self, cursor: JsonCursor) -> None:
        """Read JSON Lines to the end of the file; bad lines are warnings."""
        for block in cursor.lines(self._scanner.cut_lines):
            self._context.progress(block.offset, self._source.size)
            self._take_block(block)
            self._publish_so_far(cursor.position)
        if self._n_bad_lines and not self.n_records:
            raise CorruptError(
                f"none of its {self._n_bad_lines:,} lines is a JSON object.", offset=0
            )

    @property
    def progress(self) -> Progress:
        """How far reading has come."""
        return Progress(self.n_records, self._unfinished, self._has_timeline)

    def trace(self) -> Trace:
        """Return the trace of what was taken in.

        Raises
        ------
        UnsupportedVersionError, CorruptError
            If the version is not known or there is no timeline.
        ReadError
            If the range that was asked for holds no event.
        """
        self._header.check_version(optional=self._lines)
        if not self._has_timeline:
            raise CorruptError("timeline_events missing.")
        self._header.check_types()
        self._header.check_total(max_end(self._columns))
        self._note_totals()
        note_part(self.builder, self._options, self.n_records)
        self._context.check_cancelled()
        if self._options.is_part:
            self._columns.drop_samples_outside()
        return self._finished()

    def _publish_so_far(self, done: int) -> None:
        """Publish the spans so far, with `done` bytes read, if it is time to."""
        if not self._pace.is_due(done, self._source.size):
            return
        part = TraceBuilder()
        part.strings = self.builder.strings

        def publish() -> None:
            assembly = self._assembly(part)
            assembly.add_spans()
            if not part.n_spans:
                return
            last = last_cycle(self._source)
            trace = self._snapshot(
                part,
                assembly,
                pending=_PART,
                read_until=assembly.read_until(),
                extent=None if last is None else assembly.extent_to(last),
            )
            self._context.publish(trace)

        self._pace.timed(publish, done)

    def _finished(self) -> Trace:
        """Return the trace of all events; the spans alone are published before."""
        builder, assembly = self.builder, self._assembly(self.builder)
        assembly.add_spans()
        if self._pace.is_slow:
            self._context.publish(
                self._snapshot(builder, assembly, pending=_NO_ACCESSES)
            )
        self._context.check_cancelled()
        assembly.add_rest()
        self._context.progress(self._source.size, self._source.size)
        stated = self._stated(assembly.computed)
        return self._snapshot(builder, assembly, stated=stated)

    def _stated(self, computed: Mapping[str, object]) -> tuple[DeclaredMetric, ...]:
        """Return what the file says of itself; note what its events contradict.

        Nothing contradicts it where only some events were asked for; where some were
        lost, that is listed already.
        """
        if self._options.is_part:
            return ()
        figures = self._header.stated(computed)
        if self.builder.has_loss:
            return tuple(map(without_verdict, figures))
        self.builder.warn_stated(f for f in figures if f.name != CYCLES_TOTAL)
        return figures

    def _assembly(self, builder: TraceBuilder) -> TraceAssembly:
        return TraceAssembly(
            builder,
            self._columns,
            inclusive=self._options.inclusive,
            peak_bytes=self._header.peak_bytes(),
        )

    def _snapshot(
        self,
        builder: TraceBuilder,
        assembly: TraceAssembly,
        *,
        pending: frozenset[str] = frozenset(),
        read_until: int | None = None,
        extent: TimeRange | None = None,
        stated: tuple[DeclaredMetric, ...] = (),
    ) -> Trace:
        source, options = self._source, self._options
        builder.clock = Clock("cycle", assembly.origin, options.hz)
        builder.records = self._places.records(source.path, options.first)
        summary = self._header.summary()
        if not options.is_part and not pending:
            summary["computed"] = assembly.computed
        info = TraceInfo(
            paths=(source.path,),
            reader_id="npu-json",
            format="NPU simulator JSON",
            format_version=self._header.version(),
            byte_size=source.size,
            n_records=self.n_records,
            producer=self._header.producer(),
            options=options.texts(),
            summary=summary,
            stated=stated,
            modified_ns=source.modified_ns,
        )
        trace = builder.snapshot(info, pending, read_until=read_until, extent=extent)
        # Numbered over all snapshots, whichever builder they come from.
        self.generation += 1
        return replace(trace, generation=self.generation)

    def _take_timeline(self, cursor: JsonCursor) -> None:
        if self.n_records:
            self.builder.warn(
                Severity.NOTICE,
                "duplicate_key",
                "duplicate timeline_events; the events of both are shown",
                cursor.position,
                place="timeline_events",
            )
        self._has_timeline = True
        self._unfinished = cursor.position + 1
        for block in cursor.blocks(self._scanner.cut_events):
            self._context.progress(block.offset, self._source.size)
            self._take_block(block)
            self._unfinished = cursor.position
            self._publish_so_far(cursor.position)
        self._unfinished = None

    def _take_block(self, block: Block) -> None:
        if isinstance(block, ScannedBlock):
            self._keep_rows(block)
        else:
            self._take_doubtful(block)

    def _requested(self, n: int) -> range:
        """Return which of the next `n` events are in the range asked for."""
        first, stop = self._options.first, self._options.stop
        low = min(max(first - self.n_records, 0), n)
        high = n if stop is None else min(max(stop - self.n_records, low), n)
        return range(low, high)

    def _is_requested(self, index: int) -> bool:
        stop = self._options.stop
        return index >= self._options.first and (stop is None or index < stop)

    def _take_doubtful(self, block: Block) -> None:
        """Judge each element or line alone, so that a bad one costs only itself."""
        good: list[int] = []
        events: list[Event | None] = []
        try:
            for row, (data, offset) in enumerate(block.texts()):
                if row % _CHECK_EVERY == 0:
                    self._context.check_cancelled()
                index = self.n_records + len(events)
                self._at(block, row, index, offset)
                event, is_requested = None, self._is_requested(index)
                if block.line is not None:
                    values = self._line(block, row, data, offset)
                    if not values:
                        continue
                    event = self._rules.event(values[0]) if is_requested else None
                elif is_requested:
                    event = self._event(data, offset)
                    self._note_repeats(data)
                events.append(event)
                good.append(row)
        finally:
            rows = np.array(good, np.int64)
            self._keep(
                replace(
                    block,
                    start=block.start[rows],
                    end=block.end[rows],
                    line=None if block.line is None else block.line[rows],
                ),
                events,
            )

    def _event(self, data: bytes, offset: int) -> Event | None:
        """Return the event of one element; None where it is left out."""
        try:
            value = self._parsed(data, offset)
        except _TooDeepError:
            text = f"{self._problems.subject} is nested too deeply; {LEFT_OUT}"
            self._problems.warn(Severity.DATA_LOSS, "too_deep", text)
            return None
        return self._rules.event(value)

    def _note_repeats(self, data: bytes) -> None:
        """Note the keys that the event at hand names twice."""
        repeats = repeats_in(data)
        if repeats is not None:
            place, offset = self._problems.place(repeats.key), self._problems.offset
            note_repeated(self.builder, place, offset, repeats.count)

    def _keep(self, block: Block, events: Sequence[Event | None]) -> None:
        """Add events that the rules have judged, with the places of their texts."""
        requested = self._requested(len(events))
        first = self._announced(len(requested)) + requested.start
        events = events[requested.start : requested.stop]
        record = np.arange(first, first + len(events))
        self._count_rows(block, self._columns.add(events, record))

    def _keep_rows(self, block: ScannedBlock) -> None:
        """Add events that are rows already; let the rules judge those that are odd."""
        requested = self._requested(len(block.rows))
        rows = block.rows
        if len(requested) < len(rows):
            rows = rows.part(requested)
        first = self._announced(len(rows)) + requested.start
        odd = np.flatnonzero(rows["kind"] >= STUB)
        at = odd + requested.start
        events = []
        for row, (data, offset) in zip(at.tolist(), block.texts(at), strict=True):
            self._at(block, row, self.n_records + row, offset)
            events.append(self._event(data, offset))
        dropped = self._columns.add_rows(rows, first, events, odd)
        self._count_rows(block, dropped)

    def _announced(self, n: int) -> int:
        """Return the number of the next record, of which `n` are to be kept.

        Raises
        ------
        LimitExceededError
            If there are too many.
        """
        limit = self._context.limits.records
        if self._n_kept + n > limit:
            raise LimitExceededError(
                f"there are more than {limit:,} events.", hint=TOO_LARGE_HINT
            )
        return self.n_records

    def _count_rows(self, block: Block, dropped: I64) -> None:
        """Note where the events just added stand, and which ones end too early."""
        first, requested = self.n_records, self._requested(len(block.start))
        rows = slice(requested.start, requested.stop)
        start, length = block.start[rows], (block.end - block.start)[rows]
        self._places.append(start + block.offset, length)
        self._n_kept += len(requested)
        self.n_records += len(block.start)
        for record in dropped.tolist():
            row = record - first
            self._at(block, row, record, block.offset + int(block.start[row]))
            what = f"end_cycle is before start_cycle; {LEFT_OUT}"
            self._problems.error("end_before_start", "end_cycle", what)

    def _at(self, block: Block, row: int, index: int, offset: int) -> None:
        """Say which event, of a row of a block, the next problems belong to."""
        line = 0 if block.line is None else int(block.line[row])
        self._problems.at(index, offset, line)

    def _line(
        self, block: Block, row: int, data: bytes, offset: int
    ) -> tuple[object, ...]:
        """Return the value of a line as the only item; nothing where it is no event."""
        assert block.line is not None  # lines always have numbers
        line = int(block.line[row])
        if block.overlong:
            self._bad_line(line, "it is too long", offset)
            return ()
        if not data.strip():
            return ()  # what is left of a comment
        try:
            value = self._parsed(data, offset)
        except JsonSyntaxError as fault:
            cleaned = without_paste(data)
            if cleaned == data:
                self._bad_line(line, f"{fault.text} at byte {fault.offset:,}", offset)
                return ()
            self.note_paste(offset)
            return self._line(block, row, cleaned, offset)
        except _TooDeepError:
            self._bad_line(line, "it is nested too deeply", offset)
            return ()
        self._note_repeats(data)
        if isinstance(value, dict) and self._is_header(value, offset, line):
            return ()
        return (value,)

    def note_paste(self, offset: int | None = None) -> None:
        """Note that comments or headings of a web page stand in the file."""
        self.builder.warn(
            Severity.NOTICE,
            "pasted_copy",
            'comments or lines such as "Copy code" in the JSON; skipped',
            offset,
        )

    def _bad_line(self, line: int, why: str, offset: int) -> None:
        self._n_bad_lines += 1
        self.builder.warn(
            Severity.DATA_LOSS,
            "bad_line",
            f"line {line} is skipped: {why}",
            offset,
            place=f"line {line}",
        )

    def _is_header(self, value: dict[str, object], offset: int, line: int) -> bool:
        """Take a line without a type that is no event; return whether it was one."""
        if "type" in value:
            return False
        if "timeline_events" in value:
            self._bad_line(line, "it holds a trace of its own", offset)
            return True
        if "window_cycles" in value:
            self._add_samples([value], offset, line)
            return True
        known = HEADER_KEYS & value.keys()
        for key in known:
            part = value[key]
            if key == "bandwidth_samples" and isinstance(part, list):
                self._add_samples(part, offset, line)
            else:
                self._header.set(key, part, offset)
        return bool(known)

    def _take_samples(self, block: Block) -> None:
        self._context.progress(block.offset, self._source.size)
        if not isinstance(block, ScannedBlock):
            for data, offset in block.texts():
                self._add_samples([self._shallow(data, offset)], offset)
            return
        odd = np.flatnonzero(block.rows["kind"] == ODD)
        first, samples = self._n_samples, []
        for row, (data, offset) in zip(odd.tolist(), block.texts(odd), strict=True):
            value = self._shallow(data, offset)
            self._n_samples = first + row
            samples.append(self._sample(value, offset))
        self._columns.add_sample_rows(block.rows, samples, odd)
        self._n_samples = first + len(block.rows)

    def _add_samples(self, values: list[object], offset: int, line: int = 0) -> None:
        samples = [self._sample(value, offset, line) for value in values]
        self._columns.add_samples([s for s in samples if s is not None])

    def _sample(self, value: object, offset: int, line: int = 0) -> Fields | None:
        self._problems.at(self._n_samples, offset, line, sample=True)
        self._n_samples += 1
        return self._rules.sample(value)

    def _take_value(self, key: str, cursor: JsonCursor) -> None:
        data, offset = cursor.value()
        value = self._shallow(data, offset, key)
        if key == "timeline_events":
            raise CorruptError(
                "timeline_events is not an array.",
                offset=offset,
            )
        if key == "bandwidth_samples":
            self.builder.warn(
                Severity.ERROR,
                "wrong_type",
                "bandwidth_samples is not an array; ignored",
                offset,
                place=key,
            )
        elif key in HEADER_KEYS:
            self._header.set(key, value, offset)

    def _shallow(self, data: bytes, offset: int, place: str = "") -> object:
        """Return a value; None, with a warning, where it is nested too deeply."""
        try:
            return self._parsed(data, offset)
        except _TooDeepError:
            self.builder.warn(
                Severity.DATA_LOSS,
                "too_deep",
                f"{place or 'a sample'} is nested too deeply; it is left out",
                offset,
                place=place,
            )
        return None

    def _parsed(self, data: bytes, offset: int) -> object:
        """Return the value of a text; raises where it is no JSON."""
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            text = data.decode("utf-8", "replace")
            self.builder.warn(
                Severity.NOTICE,
                "invalid_utf8",
                "invalid UTF-8; invalid bytes are shown as �",
                offset + error.start,
                place=self._problems.place(),
            )
        try:
            return parse_json(text)
        except json.JSONDecodeError:
            raise fault_in(data, offset) from None
        except RecursionError:
            raise _TooDeepError from None

    def _note_reasons(self) -> None:
        """Note stalls for reasons that the format does not list."""
        stalls, strings = self._columns.stalls, self.builder.strings
        names = stalls.column("name")
        known = [strings.find(text) for text in (*REASONS, NO_REASON)]
        odd = np.flatnonzero(~np.isin(names, known))
        if not len(odd):
            return
        ids, n = np.unique(names[odd], return_counts=True)
        order = np.argsort(-n, kind="stable")[:_LISTED]
        each = ", ".join(f"{strings[int(ids[i])][:80]} ({n[i]:,})" for i in order)
        more = len(ids) - len(order)
        first = int(stalls.column("record")[odd].min())
        self.builder.warn(
            Severity.NOTICE,
            "unknown_reason",
            "unknown stall reasons; shown as they are: "
            + each
            + (f" and {more:,} more" if more else ""),
            self._places.offset(first - self._options.first),
            count=len(odd),
            place=f"event {first}"
            if self._lines
            else f"timeline_events[{first}].reason",
        )

    def _note_totals(self) -> None:
        self._note_reasons()
        columns, unknown = self._columns, self._rules.unknown
        if unknown:
            each = ", ".join(f"{kind} ({n:,})" for kind, n in unknown.items())
            self.builder.warn(
                Severity.NOTICE,
                "unknown_event_type",
                f"unknown event types; shown as markers: {each}",
                count=sum(unknown.values()),
                place=self._rules.first_unknown,
            )
        if columns.n_bad_colors:
            self.builder.warn(
                Severity.NOTICE,
                "color_hint_unknown",
                "invalid color_hint; using the engine's colour",
                count=columns.n_bad_colors,
            )
        if len(columns.ops) == MAX_OPS:
            self.builder.warn(
                Severity.NOTICE,
                "too_many_ops",
                f"more than {MAX_OPS:,} different ops; later ones have no name",
            )
