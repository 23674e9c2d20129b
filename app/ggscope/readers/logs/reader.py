"""Reader of logs: requests as spans on slot lanes, remarks as markers, rates."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.requests import Requests, ServerLog
from ggscope.model.tables import I64, CounterShape, Phase, SpanFlag
from ggscope.model.trace import LaneKind, RecordView, Severity, Trace
from ggscope.model.units import Clock
from ggscope.readers.api import (
    NOT_MINE,
    Estimate,
    Head,
    ReadContext,
    Sniff,
)
from ggscope.readers.common.file_facts import trace_info
from ggscope.readers.logs import INFO
from ggscope.readers.logs.facts import facts_of, http_call, memory_of
from ggscope.readers.logs.lines import Kind, LogLines, scan_lines, scan_text
from ggscope.readers.logs.requests import Figures, Owners, figures, owners
from ggscope.readers.logs.times import Times, times_of
from ggscope.readers.source import Source, read_at

_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_UNFINISHED = int(SpanFlag.UNFINISHED)
_FIRST_BYTES = 4 << 20
"""Of a long log, shown before the rest is read."""
_MOST_SLOTS = 1024
_MOST_TEXTS = 20_000
"""Lines whose text becomes the name of a marker; beyond that the kind is the name."""
_MOST_CALLS = 200_000
_MOST_NAME = 200
_RECORD_BYTES = 4096
_ROW_BYTES = 96
_EVENTS = {
    Kind.REPROCESS: "whole prompt computed again",
    Kind.CHECKPOINT: "context checkpoint",
    Kind.RESTORED: "checkpoint restored",
    Kind.ERASED: "checkpoint erased",
    Kind.SHIFT: "context shift",
    Kind.CANCEL: "task cancelled",
    Kind.DEFER: "task waits for a slot",
}
_MIB = 1 << 20


class LogReader:
    """Reads logs of llama.cpp and of programs around it."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its lines; those before the first known one do not count."""
        if not head.data:
            return NOT_MINE
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        if not lines.n_known:
            return NOT_MINE
        n_rows = int(np.count_nonzero(lines.kind != Kind.REMARK))
        if n_rows and lines.n_known >= 2:
            return Sniff(80, "lines of llama.cpp's or ollama's log")
        return Sniff(30 if n_rows else 20, "lines that look like a log of llama.cpp")

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by its first lines."""
        if not head.data:
            return None
        lines = scan_text(np.frombuffer(head.data, np.uint8))
        share = head.size / len(head.data)
        rows = int((len(lines) + 1) * share)
        final = rows * _ROW_BYTES
        return Estimate(int(lines.n_lines * share), final, 3 * final + (64 << 20))

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace of the requests, remarks and rates of a log.

        Raises
        ------
        CorruptError
            If no line is one of llama.cpp or ollama.
        """
        context.progress(0, source.size)
        if context.wants_stages and source.size > 4 * _FIRST_BYTES:
            first = np.frombuffer(source.read(0, _FIRST_BYTES), np.uint8)
            if (lines := scan_text(first)).n_known:
                context.publish(_trace(source, lines, frozenset({"spans"})))
        lines = scan_lines(source, context)
        if not lines.n_known:
            raise CorruptError(
                "no line is one of llama.cpp's or ollama's log.",
                offset=0,
                hint="Is this the log of a server?",
            )
        return _trace(source, lines)


def _trace(
    source: Source, lines: LogLines, pending: frozenset[str] = frozenset()
) -> Trace:
    """Return the trace of some lines; `pending` where more follow."""
    owned = owners(lines)
    stated = figures(lines, owned)
    times = times_of(lines, owned, stated)
    builder = TraceBuilder()
    builder.clock = Clock(epoch=times.epoch)
    build = _LogTrace(source, lines, owned, stated, times, builder)
    requests = build.requests()
    build.calls()
    build.remarks()
    build.counters()
    if not pending:
        build.warn()
    facts = facts_of(source, lines)
    memory = memory_of(source, lines, owned)
    builder.log = ServerLog(requests, memory, tuple(facts.items()), times.has_clock)
    builder.records = LogRecords(source.path, lines)
    info = trace_info(
        INFO,
        source,
        lines.n_lines,
        producer=facts,
        summary={"events": events_of(lines, owned)},
    )
    until = times.until if pending else None
    return builder.snapshot(info, pending, read_until=until)


def events_of(lines: LogLines, owned: Owners) -> dict[str, object]:
    """Return the sums over all blocks of timings, whoever's they are."""

    def sums(kind: Kind) -> tuple[int, float]:
        rows = lines.rows(kind)
        rows = rows[lines.n_values[rows] >= 2]
        ns = np.rint(lines.value[rows, 0] * 1e6)
        tokens = int(lines.value[rows, 1].sum()) if len(rows) else 0
        return tokens, float(ns.sum()) / 1e6

    n_prompt, prompt_ms = sums(Kind.PROMPT_EVAL)
    n_generated, generated_ms = sums(Kind.EVAL)
    return {
        "requests": len(owned),
        "prompt_tokens": n_prompt,
        "prompt_ms": prompt_ms,
        "generated_tokens": n_generated,
        "generated_ms": generated_ms,
        "reprocessed": len(lines.rows(Kind.REPROCESS)),
    }


class _LogTrace:
    """Fills a builder with what the lines of a log tell."""

    def __init__(
        self,
        source: Source,
        lines: LogLines,
        owned: Owners,
        stated: Figures,
        times: Times,
        builder: TraceBuilder,
    ) -> None:
        self._source, self._lines, self._owned = source, lines, owned
        self._stated, self._times, self._builder = stated, times, builder
        self._n_texts = 0

    def requests(self) -> Requests:
        """Add the spans of the requests; return their table."""
        owned, stated, times = self._owned, self._stated, self._times
        prompt = np.maximum(stated.prompt_ns, 0)
        generated = np.maximum(stated.generated_ns, 0)
        has_end = times.end >= 0
        middle = times.end - generated
        begin = middle - prompt
        line = self._lines.line[owned.first] if len(owned) else owned.first
        lane = self._slot_lanes()
        queue = np.where(
            (times.launch >= 0) & has_end & times.has_clock,
            np.maximum(begin - times.launch, 0),
            -1,
        )
        prompt_span = self._add(
            np.flatnonzero(has_end & (stated.prompt_ns >= 0)), begin, middle, lane,
            ("prompt", stated.n_prompt), Phase.PROMPT, _DERIVED, line,
        )  # fmt: skip
        generated_span = self._add(
            np.flatnonzero(has_end & (stated.generated_ns >= 0)), middle, times.end,
            lane, ("generate", stated.n_generated), Phase.GENERATE, _DERIVED, line,
        )  # fmt: skip
        waiting = np.flatnonzero(queue > 0)
        self._add(
            waiting, times.launch, times.launch + queue, lane, ("queued", None), None,
            _DERIVED, line,
        )  # fmt: skip
        # No block of timings: cut off, cancelled, or nothing to generate.
        open_rows = np.flatnonzero(~has_end & (times.launch >= 0))
        last = times.line[stated.last_row] if len(owned) else stated.last_row
        self._add(
            open_rows, times.launch, np.maximum(last, times.launch), lane,
            ("no timings", None), None, _UNFINISHED, line,
        )  # fmt: skip
        narrow = np.int32
        return Requests(
            run=owned.of_run.astype(narrow),
            slot=owned.slot.astype(narrow),
            task=owned.task,
            line=line.astype(np.int64),
            is_timed=stated.timing_row >= 0,
            launch=np.where(times.has_clock, times.launch, -1),
            queued=queue,
            n_prompt=stated.n_prompt,
            prompt_time=stated.prompt_ns,
            n_generated=stated.n_generated,
            generated_time=stated.generated_ns,
            n_whole=stated.whole,
            n_cached=stated.cached,
            n_reprocessed=stated.reprocessed,
            is_forced=stated.forced_row >= 0,
            reason=self._reasons(),
            n_drafted=stated.n_drafted,
            n_accepted=stated.n_accepted,
            prompt_span=prompt_span,
            generated_span=generated_span,
        )

    def _add(
        self,
        rows: I64,
        start: I64,
        end: I64,
        lane: I64,
        name: tuple[str, I64 | None],
        phase: Phase | None,
        flags: int,
        line: I64,
    ) -> I64:
        """Add a span for each of some requests; return it, -1 for the others."""
        spans = np.full(len(self._owned), -1, np.int64)
        if len(rows):
            first = self._builder.add_spans(
                start=start[rows],
                end=end[rows],
                lane=lane[rows].astype(np.int32),
                name=self._names(rows, *name).astype(np.int32),
                flags=flags,
                phase=-1 if phase is None else int(phase),
                record=line[rows],
            )
            spans[rows] = first + np.arange(len(rows))
        return spans

    def _slot_lanes(self) -> I64:
        """Add a lane per slot, and one for runs without slots; return each one's."""
        owned = self._owned
        slots = np.unique(owned.slot)
        lanes = np.zeros(len(owned), np.int64)
        for slot in slots[:_MOST_SLOTS].tolist():
            name = f"slot {slot}" if slot >= 0 else "runs"
            lane = self._builder.add_lane(name, LaneKind.SEQUENCE, ("Slots",), (slot,))
            lanes[owned.slot == slot] = lane
        if len(slots) > _MOST_SLOTS:
            lane = self._builder.add_lane(
                "other slots", LaneKind.SEQUENCE, ("Slots",), (1 << 30,)
            )
            lanes[np.isin(owned.slot, slots[_MOST_SLOTS:])] = lane
        return lanes

    def _names(self, rows: I64, what: str, n: I64 | None = None) -> I64:
        """Return the name of a span of each request, as a number of a string.

        With the number of its task where there are not too many.
        """
        counts = np.full(len(rows), -1, np.int64) if n is None else n[rows]
        tasks = self._owned.task[rows]
        is_named = (tasks < 1 << 30) & (len(self._owned) <= _MOST_TEXTS)
        tasks = np.where(is_named, tasks, -1)
        pairs, place = np.unique(
            tasks * (1 << 32) + np.clip(counts, -1, (1 << 31) - 1),
            return_inverse=True,
        )
        texts = []
        for pair in pairs.tolist():
            task, count = (pair + 1) >> 32, ((pair + 1) & 0xFFFFFFFF) - 1
            tokens = f" {count:,} tokens" if count >= 0 else ""
            texts.append(
                f"task {task} · {what}{tokens}" if task >= 0 else what + tokens
            )
        numbers = np.asarray(self._builder.strings.intern_many(texts), np.int64)
        return numbers[place.reshape(-1)] if len(texts) else place.astype(np.int64)

    def _reasons(self) -> npt.NDArray[np.int32]:
        rows = self._stated.forced_row
        found = np.full(len(rows), -1, np.int32)
        for request in np.flatnonzero(rows >= 0)[:_MOST_TEXTS].tolist():
            found[request] = self._builder.strings.intern(
                self._lines.text(self._source, int(rows[request]), _MOST_NAME).strip()
            )
        return found

    def calls(self) -> None:
        """Add the calls of a web server (gin) that say how long they took."""
        lines = self._lines
        rows, names, durations = [], [], []
        for row in lines.rows(Kind.HTTP)[:_MOST_CALLS].tolist():
            call = http_call(lines.text(self._source, row))
            if call is not None:
                rows.append(row)
                names.append(call[0])
                durations.append(call[1])
        if not rows:
            return
        lane = self._builder.add_lane("HTTP", LaneKind.SEQUENCE, ("Calls",))
        end = self._times.line[rows]
        self._builder.add_spans(
            start=end - np.array(durations, np.int64),
            end=end,
            lane=lane,
            name=np.asarray(self._builder.strings.intern_many(names), np.int32),
            flags=_DERIVED,
            record=lines.line[rows],
        )

    def remarks(self) -> None:
        """Add events of caches and tasks, and warnings and errors, as markers."""
        lines, builder = self._lines, self._builder
        rows = lines.rows(*_EVENTS)
        strings = builder.strings
        if len(rows):
            lane = builder.add_lane("cache and tasks", LaneKind.MARKER, ("Events",))
            name_of = np.zeros(max(Kind) + 1, np.int32)
            for kind, text in _EVENTS.items():
                name_of[kind] = strings.intern(text)
            builder.add_markers(
                time=self._times.line[rows],
                lane=lane,
                name=name_of[lines.kind[rows]],
                detail=self._details(rows),
                record=lines.line[rows],
            )
        rows = lines.rows(Kind.REMARK)
        if not len(rows):
            return
        lane = builder.add_lane("warnings and errors", LaneKind.MARKER, ("Events",))
        words = np.where(lines.level[rows] == ord("E"), "error", "warning")
        name = np.asarray(strings.intern_many(words.tolist()), np.int32)
        builder.add_markers(
            time=self._times.line[rows],
            lane=lane,
            name=name,
            detail=self._details(rows),
            record=lines.line[rows],
        )

    def _details(self, rows: I64) -> npt.NDArray[np.int32]:
        """Return the text of each line, of the first ones."""
        found = np.full(len(rows), -1, np.int32)
        n = min(len(rows), _MOST_TEXTS - self._n_texts)
        self._n_texts += n
        for i, row in enumerate(rows[:n].tolist()):
            text = self._lines.text(self._source, row, _MOST_NAME).strip()
            found[i] = self._builder.strings.intern(text)
        return found

    def counters(self) -> None:
        """Add rates and contexts of the slots, and the size of the prompt cache."""
        lines = self._lines
        self._by_slot("tokens/s", "tokens/s", lines.rows(Kind.RATE), 1)
        rows = lines.rows(Kind.PROGRESS, Kind.RELEASE)
        self._by_slot("context", "tokens", rows, 0)
        rows = lines.rows(Kind.CACHE_STATE)
        rows = rows[lines.n_values[rows] >= 2]
        if len(rows):
            self._builder.add_counter(
                "prompt cache",
                "bytes",
                CounterShape.LEVEL,
                self._ascending(rows),
                lines.value[rows, 1] * _MIB,
            )

    def _by_slot(self, name: str, unit: str, rows: I64, value: int) -> None:
        lines = self._lines
        rows = rows[(lines.n_values[rows] > value) & (lines.slot[rows] >= 0)]
        slots = lines.slot[rows]
        for slot in np.unique(slots)[:_MOST_SLOTS].tolist():
            mine = rows[slots == slot]
            self._builder.add_counter(
                f"{name}, slot {slot}",
                unit,
                CounterShape.LEVEL,
                self._ascending(mine),
                lines.value[mine, value],
            )

    def _ascending(self, rows: I64) -> I64:
        """Return the times of lines, none before that of the line before it."""
        return np.maximum.accumulate(self._times.line[rows])

    def warn(self) -> None:
        """Say how times were found, and what was left out."""
        times, lines, builder = self._times, self._lines, self._builder
        if len(self._owned) and not times.has_clock:
            builder.warn(
                Severity.NOTICE,
                "no_clock",
                "the lines have no times: requests are placed by the order of the "
                "lines and their own durations. When a slot was idle is unknown.",
                remedy="llama.cpp since b9172 writes times; before, --log-timestamps.",
            )
        if times.n_gaps:
            builder.warn(
                Severity.NOTICE,
                "restarts",
                "the program started again; its clock counts from each start, so the "
                "time between is unknown and left out.",
                count=times.n_gaps,
            )
        n_open = int(np.count_nonzero(self._stated.timing_row < 0))
        if n_open:
            builder.warn(
                Severity.INFO,
                "requests_without_timings",
                "requests have no timings: cut off, cancelled, or not done when the "
                "log ended.",
                count=n_open,
            )
        if not len(self._owned) and not builder.n_spans:
            builder.warn(
                Severity.INFO, "no_requests", "no line of the log tells of a request."
            )
        strange = lines.n_lines - lines.n_known
        if strange:
            builder.warn(
                Severity.INFO,
                "other_lines",
                "lines are of another program or of no known form.",
                count=strange,
            )


class LogRecords:
    """Gives back single lines of a log."""

    def __init__(self, path: Path, lines: LogLines) -> None:
        self._path = path
        self._line, self._offset = lines.line.copy(), lines.offset.copy()

    def view(self, record: int) -> RecordView:
        """Return a line by its number, from 0.

        Raises
        ------
        ReadError
            If it is gone, or is none that tells something.
        """
        row = int(np.searchsorted(self._line, record))
        if row >= len(self._line) or self._line[row] != record:
            raise ReadError(f"line {record + 1:,} is not kept.")
        offset = int(self._offset[row])
        # The prefix of the line stands before what was kept.
        before = read_at(
            self._path, max(offset - _MOST_NAME, 0), min(offset, _MOST_NAME)
        )
        offset -= len(before) - (max(before.rfind(b"\n"), before.rfind(b"\r")) + 1)
        data = read_at(self._path, offset, _RECORD_BYTES)
        data = data.partition(b"\n")[0]
        text = data.decode("utf-8", "replace")
        return RecordView(
            offset,
            data,
            (("line", f"{record + 1:,}", -1, 0), ("text", text, 0, len(data))),
        )
