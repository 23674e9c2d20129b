"""A trace of a log: requests as spans on slot lanes, events as markers, rates.

Lines are added as they come, all at once where a file is read: each addition costs what
is new, and what belongs to requests that are not done.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.growing import Growing
from ggscope.model.requests import Requests, ServerLog
from ggscope.model.tables import (
    F64,
    I32,
    I64,
    Array,
    Bools,
    CounterShape,
    Phase,
    SpanFlag,
    Spans,
    schema_of,
)
from ggscope.model.trace import LaneKind, Severity
from ggscope.model.units import Clock
from ggscope.readers.logs.cells import CellUse
from ggscope.readers.logs.drafts import DraftFigures, DraftSums
from ggscope.readers.logs.facts import LogFacts, http_call
from ggscope.readers.logs.lines import Clock as LineClock
from ggscope.readers.logs.lines import Kind, LineText, LogLines
from ggscope.readers.logs.loading import LoadPhases
from ggscope.readers.logs.records import LineOffsets, LogRecords
from ggscope.readers.logs.requests import (
    NEAR,
    Figures,
    Owners,
    PlacedLines,
    Placing,
    figures,
    held_rows,
    owners,
)
from ggscope.readers.logs.times import ClockMoments, ClocksSeen, LogStart, OrderMoments

_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)
_UNFINISHED = int(SpanFlag.UNFINISHED)
_MAX_SLOTS = 1024
_MAX_TEXTS = 20_000
"""Lines whose text becomes the name of a marker; beyond that the kind is the name."""
_MAX_COUNTS = 1 << 17
"""Names of so many numbers of tokens are looked up in a table."""
_MAX_CALLS = 200_000
_MAX_NAME = 200
_LATE = 64
"""A request gets no more lines so many lines after its last one."""
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
_ENGINE_COUNTERS = {
    Kind.THROUGHPUT: (
        ("prompt tokens/s", "tokens/s"), ("generated tokens/s", "tokens/s"),
        ("requests running", "requests"),
    ),
    Kind.QUEUE: (
        ("requests waiting", "requests"), ("KV cache used", "%"),
        ("prefix cache hits", "%"),
    ),
    Kind.SPECULATION: (
        ("tokens accepted at once", "tokens"), ("drafted tokens accepted", "%"),
        ("drafted tokens/s", "tokens/s"),
    ),
}  # fmt: skip
"""Of vLLM: name and unit of each number of such lines."""
_BLOCK_SUMS = {Kind.PROMPT_EVAL: "prompt", Kind.EVAL: "generated"}


class ClockAppeared(Exception):  # noqa: N818 - no error: the trace has to begin anew
    """Lines have times, after others without any were laid out by their order.

    Attributes
    ----------
    start : what the trace has to begin with.
    """

    def __init__(self, start: LogStart) -> None:
        super().__init__("lines have times")
        self.start = start


class LogTrace:
    """Fills a builder with the facts of the lines of a log.

    Parameters
    ----------
    start : what times count from, where that is known before the lines come.
    grows : whether lines come little by little.
    """

    def __init__(self, *, start: LogStart | None = None, grows: bool = False) -> None:
        self.builder = TraceBuilder(grows=grows)
        self.n_lines = self.n_known = 0
        self.facts = LogFacts()
        self.until = 0
        """The tick of the newest line."""
        self._placing, self._drafts = Placing(), DraftSums()
        self._order = OrderMoments()
        self._loading, self._cells = LoadPhases(), CellUse()
        self._clock: ClockMoments | None = None
        self._origin: int | None = None
        self._earliest = 0
        if start is not None:
            self._begin(start)
        self._held: PlacedLines | None = None
        self._drawn = np.empty(0, np.int64)
        self.unfinished = np.empty(0, np.int64)
        """Rows of requests of which lines to come may say more, int64[k]."""
        self._open = Spans.blank()
        self._table: dict[str, Growing] = {}
        self._count_names: dict[str, I32] = {}
        self._n_requests = self._n_texts = self._n_calls = 0
        self._n_endless_calls = self._n_unread_calls = 0
        self._lanes: dict[str, int] = {}
        self._series: dict[str, tuple[int, Growing, Growing]] = {}
        self._sums = dict.fromkeys(
            ("prompt_tokens", "prompt_ns", "generated_tokens", "generated_ns"), 0
        )
        self._n_forced = 0
        self._offsets = LineOffsets()

    def __len__(self) -> int:
        return self._n_requests

    @property
    def has_clock(self) -> bool:
        """Whether lines have times."""
        return self._clock is not None

    @property
    def newest(self) -> int | None:
        """The newest time of all lines, by one clock throughout; None where none is."""
        clock = self._clock
        if clock is None or clock.clock is LineClock.LOCAL or clock.n_gaps:
            return None
        return self.until + (self._origin or 0)

    @property
    def n_held(self) -> int:
        """Number of lines that those to come may still need."""
        return 0 if self._held is None else len(self._held)

    def start_by(self, clocks: ClocksSeen) -> LogStart | None:
        """Return what this trace should have begun with; None where it did.

        Parameters
        ----------
        clocks : of all lines, also of those behind a `ClockAppeared`.
        """
        start = clocks.start()
        if start is None or self._clock is None:
            return start
        if start.clock is not self._clock.clock:
            return start
        is_early = self._earliest < (self._origin or 0)
        return replace(start, origin=self._earliest) if is_early else None

    @property
    def program_start(self) -> int | None:
        """Tick 0 in ns since the program's start; None without such a clock."""
        clock = self._clock
        is_own = clock is not None and clock.clock is LineClock.SINCE_START
        return self._origin if is_own and clock is not None else None

    @property
    def n_open(self) -> int:
        """Number of requests that a slot has taken and that are not done."""
        return len(self._open)

    def add(
        self,
        text: LineText,
        lines: LogLines,
        *,
        is_end: bool = False,
        is_quiet: bool = False,
    ) -> None:
        """Add the next lines.

        Parameters
        ----------
        text : what their bytes are read from.
        is_end : no more lines come: what is open stays so.
        is_quiet : nothing has been written for a while: what could be done is.

        Raises
        ------
        ClockAppeared
            If a trace has to begin anew, by a clock that comes only now.
        """
        self._look_for_clock(lines)
        self.n_lines += lines.n_lines
        self.n_known += lines.n_known
        run, slot, task = self._placing.place(lines)
        n = len(lines)
        new = PlacedLines(
            lines, run, slot, task, np.zeros(n, np.int64), np.full(n, -1, np.int32),
            np.full(n, -1, np.int32),
        )  # fmt: skip
        if self._clock is not None:
            new.moment[:] = self._clock.of(lines, run)
        n_held = 0 if self._held is None else len(self._held)
        placed = new if self._held is None else self._held.followed_by(new)
        owned = owners(placed)
        stated = figures(placed.lines, owned)
        if self._clock is None:
            placed.moment[:] = self._order.of(
                placed.lines.line, placed.moment, n_held, owned, stated
            )
        if n:
            self._set_origin(placed, stated)
            self._add_texts(text, lines, placed, n_held)
        self._add_requests(placed, n_held, owned, stated, is_end, is_quiet)

    def requests(self) -> Requests:
        """Return the table of all requests so far."""
        if not self._table:
            return Requests.blank()
        return Requests(**{name: column.view() for name, column in self._table.items()})

    def log(self) -> ServerLog:
        """Return what the log states beside times."""
        facts = tuple(self.facts.facts.items())
        return ServerLog(self.requests(), self.facts.memory(), facts, self.has_clock)

    def open_spans(self, until: int) -> Spans:
        """Return the requests that are not done, as if they ended at a tick."""
        return replace(self._open, end=np.maximum(self._open.start, until))

    def records(self, path: Path, inode: int = 0) -> LogRecords:
        """Return what gives back single lines of the file."""
        return self._offsets.records(path, inode)

    def events(self) -> dict[str, object]:
        """Return the sums over all blocks of timings, whoever's they are."""
        sums = self._sums
        return {
            "requests": self._n_requests,
            "prompt_tokens": sums["prompt_tokens"],
            "prompt_ms": sums["prompt_ns"] / 1e6,
            "generated_tokens": sums["generated_tokens"],
            "generated_ms": sums["generated_ns"] / 1e6,
            "reprocessed": self._n_forced,
        }

    def begin_file(self) -> None:
        """Go on with another file: the lines of the one before are not read again."""
        self._offsets.begin_file()

    # -- times -------------------------------------------------------------

    def _look_for_clock(self, lines: LogLines) -> None:
        """Choose the clock by the first lines that have one."""
        if self._clock is not None:
            return
        clocks = ClocksSeen()
        clocks.add(lines)
        start = clocks.start()
        if start is None:
            return
        if self._lanes or self._series:
            raise ClockAppeared(start)
        self._begin(start)
        if self._held is not None:
            self._held.moment[:] = start.first

    def _begin(self, start: LogStart) -> None:
        """Count times from `start`."""
        self._clock = ClockMoments(start)
        if start.origin is not None:
            self._set_tick_0(start.origin)

    def _set_tick_0(self, origin: int) -> None:
        self._origin = self._earliest = origin
        assert self._clock is not None
        is_wall = self._clock.clock is LineClock.WALL
        self.builder.clock = Clock(epoch=origin if is_wall else None)

    def _set_origin(self, placed: PlacedLines, stated: Figures) -> None:
        """Let tick 0 be the first event of the first lines."""
        if self._clock is not None:
            timed = stated.timing_row >= 0
            # Clocks of days are set, and threads write in no strict order; and a log
            # may begin in the middle of a request.
            begin = placed.moment[stated.timing_row] - np.maximum(stated.prompt_ns, 0)
            begin = (begin - np.maximum(stated.generated_ns, 0))[timed]
            first = min(int(placed.moment.min()), int(begin.min(initial=1 << 62)))
            if self._origin is None:
                self._set_tick_0(first)
            self._earliest = min(self._earliest, first)
        self.until = max(self.until, int(placed.moment.max()) - (self._origin or 0))

    # -- requests ----------------------------------------------------------

    def _add_requests(
        self,
        placed: PlacedLines,
        n_held: int,
        owned: Owners,
        stated: Figures,
        is_end: bool,
        is_quiet: bool,
    ) -> None:
        """Add the spans of requests that are done, and write all into the table."""
        is_new = owned.row < 0
        rows = owned.row.copy()
        rows[is_new] = self._n_requests + np.arange(int(is_new.sum()))
        self._n_requests += int(is_new.sum())
        of_request = owned.request >= 0
        placed.row[of_request] = rows[owned.request[of_request]]
        is_drawn = np.isin(rows, self._drawn)
        is_done, is_left = self._ended(placed, owned, stated, is_end, is_quiet)
        is_done, is_left = is_done & ~is_drawn, is_left & ~is_drawn
        times = self._times(placed, owned, stated)
        drafts = self._drafts.add(placed, n_held, owned, stated)
        lane = self._slot_lanes(owned)
        spans = self._draw(rows, owned, stated, times, lane, placed, is_done, is_left)
        columns = self._columns(placed, owned, stated, times, drafts)
        self._write(rows, columns, spans, is_drawn)
        is_drawn |= is_done | is_left
        self._note_open(rows, owned, times, lane, placed, ~is_drawn)
        is_past = self.n_lines - placed.lines.line[stated.last_row] > _LATE
        is_past |= (owned.run < self._placing.run) | is_end
        is_held = ~(is_drawn & is_past)
        self._drafts.hold(np.flatnonzero(is_held), rows[is_held])
        self._drawn = rows[is_drawn & is_held]
        self.unfinished = rows[is_held & ~(is_drawn & is_quiet)]
        self._held = placed.take(held_rows(placed, owned, is_held, stated.last_row))

    def _ended(
        self,
        placed: PlacedLines,
        owned: Owners,
        stated: Figures,
        is_end: bool,
        is_quiet: bool,
    ) -> tuple[Bools, Bools]:
        """Return which requests are done, and which will never have timings."""
        line = placed.lines.line
        is_over = (owned.run < self._placing.run) | is_end
        is_timed = stated.timing_row >= 0
        is_past = self.n_lines - line[stated.last_row] > NEAR
        says_end = (stated.total_ns >= 0) | (stated.release_row > stated.timing_row)
        says_end |= is_quiet & (stated.n_generated >= 0)
        is_done = is_timed & (is_over | is_past | says_end)
        is_free = (stated.release_row >= 0) & is_past
        is_left = ~is_timed & (is_over | is_free | _are_replaced(owned, stated))
        return is_done, is_left

    def _times(self, placed: PlacedLines, owned: Owners, stated: Figures) -> "_Times":
        """Return when requests ran."""
        moment = placed.moment - (self._origin or 0)
        has_launch, has_end = stated.launch_row >= 0, stated.timing_row >= 0
        launch_row = stated.launch_row
        if not self.has_clock:
            launch_row = np.where(has_launch, launch_row, owned.first)
            has_launch = np.ones(len(owned), np.bool_)
        prompt = np.maximum(stated.prompt_ns, 0)
        generated = np.maximum(stated.generated_ns, 0)
        launch, end = moment[launch_row], moment[stated.timing_row]
        begin = end - generated - prompt
        queued = np.maximum(begin - launch, 0)
        is_known = has_launch & has_end & self.has_clock
        return _Times(
            launch=launch,
            begin=begin,
            middle=end - generated,
            end=end,
            last=np.maximum(moment[stated.last_row], launch),
            queued=np.where(is_known, queued, -1),
            has_launch=has_launch,
        )

    def _draw(
        self,
        rows: I64,
        owned: Owners,
        stated: Figures,
        times: "_Times",
        lane: I64,
        placed: PlacedLines,
        is_done: Bools,
        is_left: Bools,
    ) -> tuple[I64, I64]:
        """Add the spans of requests; return those of prompt and generation, -1 none."""
        line = placed.lines.line[owned.first]

        def add(
            chosen: Bools, name: str, start: I64, end: I64,
            n_tokens: I64 | None = None, phase: int = -1, flags: int = _DERIVED,
        ) -> I64:  # fmt: skip
            spans = np.full(len(owned), -1, np.int64)
            at = np.flatnonzero(chosen)
            if len(at):
                counts = None if n_tokens is None else n_tokens[at]
                first = self.builder.add_spans(
                    start=start[at],
                    end=end[at],
                    lane=lane[at].astype(np.int32),
                    name=self._names(rows[at], owned.task[at], name, counts),
                    flags=flags,
                    phase=phase,
                    record=line[at],
                )
                spans[at] = first + np.arange(len(at))
            return spans

        prompt = add(
            is_done & (stated.prompt_ns >= 0), "prompt", times.begin, times.middle,
            stated.n_prompt, int(Phase.PROMPT),
        )  # fmt: skip
        generated = add(
            is_done & (stated.generated_ns >= 0), "generate", times.middle, times.end,
            stated.n_generated, int(Phase.GENERATE),
        )  # fmt: skip
        add(
            is_done & (times.queued > 0), "queued", times.launch,
            times.launch + times.queued,
        )  # fmt: skip
        # No block of timings: cut off, cancelled, or nothing to generate.
        add(
            is_left & times.has_launch, "no timings", times.launch, times.last,
            flags=_UNFINISHED,
        )  # fmt: skip
        return prompt, generated

    def _columns(
        self,
        placed: PlacedLines,
        owned: Owners,
        stated: Figures,
        times: "_Times",
        drafts: DraftFigures,
    ) -> dict[str, Array]:
        """Return the columns of the table for some requests, but for their spans."""
        has_launch = times.has_launch & self.has_clock & (times.launch >= 0)
        forced = stated.forced_row
        reason = placed.text[forced]
        return {
            "run": owned.run,
            "slot": owned.slot,
            "task": owned.task,
            "line": placed.lines.line[owned.first],
            "is_timed": stated.timing_row >= 0,
            "launch": np.where(has_launch, times.launch, -1),
            "queued": times.queued,
            "n_prompt": stated.n_prompt,
            "prompt_time": stated.prompt_ns,
            "n_generated": stated.n_generated,
            "generated_time": stated.generated_ns,
            "n_whole": stated.whole,
            "n_cached": stated.cached,
            "n_reprocessed": stated.reprocessed,
            "is_forced": forced >= 0,
            "reason": np.where(forced >= 0, reason, -1),
            "n_drafted": stated.n_drafted,
            "n_accepted": stated.n_accepted,
            "n_rounds": drafts.rounds,
            "n_accepted_rounds": drafts.accepted,
            "draft_time": drafts.ns,
        }

    def _write(
        self,
        rows: I64,
        columns: dict[str, Array],
        spans: tuple[I64, I64],
        is_drawn: Bools,
    ) -> None:
        """Put requests into the table; only from the first one on that is another."""
        schema = schema_of(Requests)
        if not self._table:
            self._table = {
                name: Growing(column.dtype) for name, column in schema.items()
            }
        n_before = len(self._table["run"])
        columns = {**columns, "prompt_span": spans[0], "generated_span": spans[1]}
        for name in ("prompt_span", "generated_span"):
            columns[name][is_drawn] = self._table[name].view()[rows[is_drawn]]
        known = rows < n_before
        is_other = ~known
        for name, values in columns.items():
            before = self._table[name].view()[rows[known]]
            is_other[known] |= before != values[known]
        if not is_other.any():
            return
        at = int(rows[is_other].min())
        chosen = rows >= at
        is_new = at == n_before and not len(rows[known])
        for name, values in columns.items():
            column = self._table[name]
            if is_new:  # all of them, in their order
                column.put(at, values.astype(schema[name].dtype, copy=False))
                continue
            part = np.empty(self._n_requests - at, schema[name].dtype)
            part[: n_before - at] = column.view()[at:]
            part[rows[chosen] - at] = values[chosen]
            column.put(at, part)

    def _note_open(
        self,
        rows: I64,
        owned: Owners,
        times: "_Times",
        lane: I64,
        placed: PlacedLines,
        is_open: Bools,
    ) -> None:
        """Note the requests that slots have taken and that are not done."""
        at = np.flatnonzero(is_open & times.has_launch)
        start = times.launch[at]
        self._open = Spans(
            start=start,
            end=start.copy(),
            lane=lane[at].astype(np.int32),
            name=self._names(rows[at], owned.task[at], "running"),
            op=np.full(len(at), -1, np.int16),
            flags=np.full(len(at), _UNFINISHED, np.uint16),
        )

    def _slot_lanes(self, owned: Owners) -> I64:
        """Return the lane of each request: one per slot, and one for runs without."""
        lanes = np.zeros(len(owned), np.int64)
        for slot in np.unique(owned.slot).tolist():
            name = f"slot {slot}" if slot >= 0 else "runs"
            if name not in self._lanes and len(self._lanes) >= _MAX_SLOTS:
                name, slot_key = "other slots", 1 << 30
            else:
                slot_key = slot
            if name not in self._lanes:
                self._lanes[name] = self.builder.add_lane(
                    name, LaneKind.SEQUENCE, ("Slots",), (slot_key,)
                )
            lanes[owned.slot == slot] = self._lanes[name]
        return lanes

    def _names(
        self, rows: I64, task: I64, what: str, n_tokens: I64 | None = None
    ) -> I32:
        """Return the name of a span of some requests, as numbers of strings.

        With the number of its task where there are not too many.
        """
        counts = np.full(len(rows), -1, np.int64) if n_tokens is None else n_tokens
        has_task = (task >= 0) & (task < 1 << 30) & (rows < _MAX_TEXTS)
        names = np.empty(len(rows), np.int32)
        names[~has_task] = self._names_of(what, counts[~has_task])
        texts = [
            f"task {number} · {_count_text(what, count)}"
            for number, count in zip(
                task[has_task].tolist(), counts[has_task].tolist(), strict=True
            )
        ]
        names[has_task] = self.builder.strings.intern_many(texts)
        return names

    def _names_of(self, what: str, counts: I64) -> I32:
        """Return the name without a task for each number of tokens."""
        highest = int(counts.max(initial=-1))
        if highest >= _MAX_COUNTS:
            distinct, place = np.unique(counts, return_inverse=True)
            texts = [_count_text(what, count) for count in distinct.tolist()]
            return self.builder.strings.intern_many(texts)[place.reshape(-1)]
        # The names so far by their number of tokens; the last one is without any.
        known = self._count_names.get(what, np.full(1, -1, np.int32))
        if highest + 2 > len(known):
            more = np.full(max(highest + 2, 2 * len(known)) - len(known), -1, np.int32)
            known = np.concatenate([known[:-1], more, known[-1:]])
        self._count_names[what] = known
        counts = np.maximum(counts, -1)
        is_there = np.zeros(len(known), np.bool_)
        is_there[counts] = True
        missing = np.flatnonzero(is_there & (known < 0))
        texts = [
            _count_text(what, count if count < len(known) - 1 else -1)
            for count in missing.tolist()
        ]
        known[missing] = self.builder.strings.intern_many(texts)
        return known[counts]

    # -- texts -------------------------------------------------------------

    def _add_texts(
        self, text: LineText, lines: LogLines, placed: PlacedLines, n_held: int
    ) -> None:
        """Add calls, remarks and counters; note sums and facts."""
        new = placed.take(slice(n_held, None))
        tick = new.moment - (self._origin or 0)
        self._add_calls(text, lines, tick)
        new.text[:] = self._add_remarks(text, lines, tick)
        placed.text[n_held:] = new.text
        self._add_counters(lines, tick)
        rows, percent = self._cells.add(text, lines, new.run)
        self._count("KV cache used, derived", "%", tick[rows], percent)
        if self.has_clock:
            self._add_loading(text, lines, tick)
        self.facts.add(text, lines, new.run)
        for kind, name in _BLOCK_SUMS.items():
            rows = lines.rows(kind)
            rows = rows[lines.n_values[rows] >= 2]
            values = lines.value[rows]
            values = values[(np.abs(values[:, :2]) < 1 << 50).all(axis=1)]
            # Each rounded by itself: sums do not depend on where parts end.
            self._sums[f"{name}_tokens"] += int(np.rint(values[:, 1]).sum())
            self._sums[f"{name}_ns"] += int(np.rint(values[:, 0] * 1e6).sum())
        self._n_forced += len(lines.rows(Kind.REPROCESS))
        self._offsets.add(lines.line, lines.offset)

    def _add_calls(self, text: LineText, lines: LogLines, tick: I64) -> None:
        """Add the calls of a web server (gin) that say how long they took."""
        rows, names, durations = [], [], []
        limit = _MAX_CALLS - self._n_calls
        http = lines.rows(Kind.HTTP)
        self._n_unread_calls += max(len(http) - limit, 0)
        for row in http[:limit].tolist():
            call = http_call(lines.text(text, row))
            if call is not None and call[1] < 0:
                self._n_endless_calls += 1
            elif call is not None:
                rows.append(row)
                names.append(call[0])
                durations.append(call[1])
        if not rows:
            return
        self._n_calls += len(rows)
        end = tick[rows]
        self.builder.add_spans(
            start=end - np.array(durations, np.int64),
            end=end,
            lane=self._lane("HTTP", LaneKind.SEQUENCE, "Calls"),
            name=np.asarray(self.builder.strings.intern_many(names), np.int32),
            flags=_DERIVED,
            record=lines.line[rows],
        )

    def _add_loading(self, text: LineText, lines: LogLines, tick: I64) -> None:
        """Add the phases of loading a model that end in these lines."""
        phases = self._loading.add(text, lines, tick)
        if not phases:
            return
        names, begin, end, line = zip(*phases, strict=True)
        self.builder.add_spans(
            start=np.array(begin, np.int64),
            end=np.maximum(end, begin),
            lane=self._lane("loading", LaneKind.SEQUENCE, "Loading"),
            name=np.asarray(self.builder.strings.intern_many(names), np.int32),
            flags=_DERIVED,
            record=np.array(line, np.int64),
        )

    def _lane(self, name: str, kind: LaneKind, group: str) -> int:
        key = f"{group}/{name}"
        if key not in self._lanes:
            self._lanes[key] = self.builder.add_lane(name, kind, (group,))
        return self._lanes[key]

    def _add_remarks(self, text: LineText, lines: LogLines, tick: I64) -> I32:
        """Add events of caches and tasks, and warnings and errors, as markers.

        Returns
        -------
        The string of each line whose text was read, else -1.
        """
        details = np.full(len(lines), -1, np.int32)
        strings = self.builder.strings
        name_of = np.zeros(max(Kind) + 1, np.int32)
        for kind, name in _EVENTS.items():
            name_of[kind] = strings.intern(name)
        for rows, lane, names in (
            (lines.rows(*_EVENTS), "cache and tasks", name_of[lines.kind]),
            (_remarks(lines), "warnings and errors", None),
        ):
            if not len(rows):
                continue
            details[rows] = self._details(text, lines, rows)
            if names is None:
                severity = np.where(lines.level[rows] == ord("E"), "error", "warning")
                chosen = np.asarray(strings.intern_many(severity.tolist()), np.int32)
            else:
                chosen = names[rows]
            self.builder.add_markers(
                time=tick[rows],
                lane=self._lane(lane, LaneKind.MARKER, "Events"),
                name=chosen,
                detail=details[rows],
                record=lines.line[rows],
            )
        return details

    def _details(self, text: LineText, lines: LogLines, rows: I64) -> I32:
        """Return the text of each line, of the first ones."""
        details = np.full(len(rows), -1, np.int32)
        n = min(len(rows), _MAX_TEXTS - self._n_texts)
        self._n_texts += n
        for i, row in enumerate(rows[:n].tolist()):
            remark = lines.text(text, row, _MAX_NAME).strip()
            details[i] = self.builder.strings.intern(remark)
        return details

    # -- counters ----------------------------------------------------------

    def _add_counters(self, lines: LogLines, tick: I64) -> None:
        """Add rates and contexts of the slots, and the size of the prompt cache."""
        self._by_slot("tokens/s", "tokens/s", lines, lines.rows(Kind.RATE), 1, tick)
        rows = lines.rows(Kind.PROGRESS, Kind.RELEASE)
        self._by_slot("context", "tokens", lines, rows, 0, tick)
        self._by_engine(lines, tick)
        rows = lines.rows(Kind.CACHE_STATE)
        rows = rows[lines.n_values[rows] >= 2]
        self._count("prompt cache", "bytes", tick[rows], lines.value[rows, 1] * _MIB)

    def _by_engine(self, lines: LogLines, tick: I64) -> None:
        """Add the means that vLLM writes every some seconds."""
        for kind, counters in _ENGINE_COUNTERS.items():
            rows = lines.rows(kind)
            engines = np.maximum(lines.slot[rows], 0)
            for engine in np.unique(engines)[:_MAX_SLOTS].tolist():
                behind = f", engine {engine}" if engine else ""
                for place, (name, unit) in enumerate(counters):
                    mine = rows[(engines == engine) & (lines.value[rows, place] >= 0)]
                    values = lines.value[mine, place]
                    self._count(name + behind, unit, tick[mine], values)

    def _by_slot(
        self, name: str, unit: str, lines: LogLines, rows: I64, value: int, tick: I64
    ) -> None:
        rows = rows[(lines.n_values[rows] > value) & (lines.slot[rows] >= 0)]
        slots = lines.slot[rows]
        for slot in _distinct(slots)[:_MAX_SLOTS].tolist():
            mine = rows[slots == slot]
            title = f"slot {slot} {name}"
            self._count(title, unit, tick[mine], lines.value[mine, value])

    def _count(self, name: str, unit: str, time: I64, value: F64) -> None:
        """Add samples to a counter, none before the one before it."""
        if not len(time):
            return
        if name not in self._series:
            if len(self._series) > 2 * _MAX_SLOTS:
                return
            number = self.builder.add_counter(
                name, unit, CounterShape.LEVEL, time[:0], value[:0]
            )
            self._series[name] = number, Growing(np.int64), Growing(np.float64)
        number, times, values = self._series[name]
        last = int(times.view()[-1]) if len(times) else int(time[0])
        times.append(np.maximum(np.maximum.accumulate(time), last))
        values.append(value)
        self.builder.set_counter(number, times.view(), values.view())

    # -- warnings ----------------------------------------------------------

    def note_problems(self) -> None:
        """Say how requests were placed, and what was left out; at the end, once."""
        builder = self.builder
        if self._n_requests and not self.has_clock:
            builder.warn(
                Severity.NOTICE,
                "no_clock",
                "the lines have no times: requests are placed by the order of the "
                "lines and their own durations. When a slot was idle is unknown.",
                remedy="llama.cpp since b9172 writes times; before, --log-timestamps.",
            )
        if self._clock is not None and self._clock.n_gaps:
            builder.warn(
                Severity.NOTICE,
                "restarts",
                "the program started again; its clock counts from each start, so the "
                "time between is unknown and left out.",
                count=self._clock.n_gaps,
            )
        n_open = self._n_requests
        if self._table:
            n_open -= int(np.count_nonzero(self._table["is_timed"].view()))
        builder.warn(
            Severity.INFO,
            "requests_without_timings",
            "requests have no timings: cut off, cancelled, or not done when the "
            "log ended.",
            count=n_open,
        )
        if not self._n_requests and not builder.n_spans:
            builder.warn(
                Severity.INFO, "no_requests", "no line of the log is about a request."
            )
        builder.warn(
            Severity.DATA_LOSS,
            "bad_event_time",
            "HTTP calls lasted longer than times can be; they are left out.",
            count=self._n_endless_calls,
        )
        builder.warn(
            Severity.DATA_LOSS,
            "too_many_calls",
            f"lines of HTTP calls behind the first {_MAX_CALLS:,} calls are not shown.",
            count=self._n_unread_calls,
        )
        builder.warn(
            Severity.INFO,
            "other_lines",
            "lines are of another program or of no known form.",
            count=self.n_lines - self.n_known,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Times:
    """When requests ran, in ticks; int64[m].

    Attributes
    ----------
    queued : from launch to begin, -1 not known.
    last : of the last line about it, not before its launch.
    """

    launch: I64
    begin: I64
    middle: I64
    end: I64
    last: I64
    queued: I64
    has_launch: Bools


def _distinct(slots: I32) -> npt.NDArray[np.integer]:
    """Return distinct slots from 0, ascending."""
    if int(slots.max(initial=0)) >= 1 << 16:
        return np.unique(slots)
    return np.flatnonzero(np.bincount(slots))  # without a sort


def _count_text(what: str, n_tokens: int) -> str:
    return f"{what} {n_tokens:,} tokens" if n_tokens >= 0 else what


def _remarks(lines: LogLines) -> I64:
    """Return the rows of warnings and errors."""
    is_loud = (lines.level == ord("W")) | (lines.level == ord("E"))
    is_one = lines.are(Kind.REMARK) | (lines.are(Kind.WARM_UP) & is_loud)
    return np.flatnonzero(is_one).astype(np.int64)


def _are_replaced(owned: Owners, stated: Figures) -> Bools:
    """Return which requests are of a slot that has taken another one since."""
    slots, place = np.unique(owned.slot, return_inverse=True)
    place = place.reshape(-1)
    newest = np.full(len(slots), -1, np.int64)
    np.maximum.at(newest, place, stated.launch_row)
    has_other = (stated.launch_row >= 0) & (stated.launch_row < newest[place])
    return has_other & (owned.slot >= 0)
