"""From events to the tables of a trace: calls, instants, copies, failures, memory."""

from collections.abc import Callable

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    F64,
    FAILED_COLOR,
    I32,
    I64,
    U16,
    AccessColumns,
    Accesses,
    AccessKind,
    Array,
    Bools,
    CallKind,
    FlatAccesses,
    Space,
    SpanFlag,
    Spans,
    narrow,
    ranked,
)
from ggscope.model.trace import LaneKind, OpTable
from ggscope.model.units import Clock, format_bytes
from ggscope.readers.cuda.categories import category_of, error_text
from ggscope.readers.cuda.counters import AllocatedCounter, RateCounter
from ggscope.readers.cuda.lines import NO_RESULT, UNKNOWN, CallLines, Form, Mark
from ggscope.readers.cuda.pairs import pairs_of
from ggscope.readers.cuda.problems import CallSums
from ggscope.readers.cuda.times import times_of

OP_TABLE_ID = "cuda-calls"
_NUMBERED = {
    1: "CUDA call", 2: "CUDA call", 3: "kernel launch", 4: "memory allocation",
    5: "memory copy", 6: "ioctl", 7: "ioctl",
}  # fmt: skip
_MAX_LANES = 1024
_MAX_OPS = 32_000
_MAX_NAMES = 20_000
"""Sizes and rates that become part of a name; beyond that the function is the name."""
_RESOLUTION_NS = 1_000_000
"""Of times that are whole milliseconds."""


class CallTrace:
    """Fills a builder with what events state: all of a file, or more and more of them.

    A call is a span once its end has come. Where the file grows it lasts until then;
    where it does not, it is drawn up to the next event of its thread.

    Parameters
    ----------
    unit : what times in lines of JSON count: "s", "ms", or "auto".
    grows : whether lines come little by little; their clock is `LineClock.OF_FILE`, and
        `unit` is not "auto".
    """

    def __init__(self, unit: str = "auto", *, grows: bool = False) -> None:
        self.builder = TraceBuilder(grows=grows)
        self.sums = CallSums()
        self.until = 0
        """The newest tick."""
        self.open_calls = Spans.blank()
        """Calls that have not returned, where the file grows; they end for now."""
        self._unit = unit
        self._origin: int | None = None
        self._newest: int | None = None
        self._held: CallLines | None = None
        self._held_next = np.zeros(0, np.int64)
        self._of_thread: dict[tuple[int, int], int] = {}
        self._of_markers: dict[str, int] = {}
        self._pattern_of: dict[int, int] = {}
        self._detailed: set[int] = set()
        self._rates: dict[str, RateCounter] = {}
        self._allocated = AllocatedCounter(self.builder)

    @property
    def newest(self) -> int:
        """The last time in the clock of the file, ns; 0 where there is none."""
        return self._newest or 0

    def add(self, lines: CallLines, check_cancelled: Callable[[], None]) -> None:
        """Add the next events, with the counts of all lines so far.

        Raises
        ------
        Cancelled
            If `check_cancelled` does so.
        """
        held = self._held
        self._n_held = 0 if held is None else len(held)
        self._lines = lines if held is None else held.followed_by(lines)
        self._pairs = pairs = pairs_of(self._lines)
        check_cancelled()
        self._times = times = times_of(
            self._lines,
            self._unit,
            (pairs.begin, pairs.end),
            n_held=self._n_held,
            origin=self._origin,
            newest=self._newest,
        )
        check_cancelled()
        if self._origin is None and times.is_placed.any():
            self._origin = times.origin
            self.builder.clock = Clock(origin=times.origin, epoch=times.epoch)
        self._newest = times.newest
        self.until = max(self.until, int(times.tick.max(initial=0)))
        self._names = _Names(self._lines)
        self._sum_up()
        self._add_calls()
        check_cancelled()
        self._add_instants()
        self._add_errors()
        self._add_counters()
        if self.builder.grows:
            self._held = self._lines.take(pairs.open) if len(pairs.open) else None

    def _sum_up(self) -> None:
        """Count what these events state."""
        lines, pairs, times, sums = self._lines, self._pairs, self._times, self.sums
        sums.n_calls += len(pairs.begin) + len(pairs.whole)
        sums.n_open = len(pairs.open)
        sums.first_open = int(lines.line[pairs.open[0]]) if sums.n_open else -1
        if len(pairs.orphan) and not sums.n_orphans:
            sums.first_orphan = int(lines.line[pairs.orphan[0]])
        sums.n_orphans += len(pairs.orphan)
        sums.n_unplaced += int(np.count_nonzero(~times.is_placed[self._n_held :]))
        sums.n_back += times.n_back
        sums.unit, sums.is_guessed = times.unit, times.is_guessed

    def _add_calls(self) -> None:
        """Add calls as spans, by thread and in order of start."""
        pairs = self._pairs
        begin = np.concatenate([pairs.begin, pairs.whole, pairs.open])
        end = np.concatenate([pairs.end, pairs.whole, np.full(len(pairs.open), -1)])
        start, finish, flags = self._intervals(begin, end)
        placed = self._times.is_placed[begin]
        placed &= self._times.is_placed[np.maximum(end, 0)] | (end < 0)
        thread = pairs.thread[begin]
        order = np.flatnonzero(placed)
        order = order[np.lexsort((-finish[order], start[order], thread[order]))]
        if self.builder.grows:  # an end may still come
            is_open = end[order] < 0
            spans = self._spans(
                begin, end, start, finish, flags, thread, order[is_open]
            )
            self.open_calls = Spans(**spans)
            order = order[~is_open]
        self._begin, self._end, self._finish = begin[order], end[order], finish[order]
        texts = self._names.texts
        names = [*texts[:_MAX_OPS]]
        if len(texts) > _MAX_OPS:
            names.append("other functions")
        if self.builder.ops is None or len(self.builder.ops.names) != len(names):
            self.builder.ops = OpTable(OP_TABLE_ID, tuple(names), source="spelled")
        if len(order):
            spans = self._spans(begin, end, start, finish, flags, thread, order)
            self.builder.add_spans(**spans, pattern=self._patterns())

    def _spans(
        self,
        begin: I64,
        end: I64,
        start: I64,
        finish: I64,
        flags: U16,
        thread: I64,
        rows: I64,
    ) -> dict[str, Array]:
        """Return the columns of spans of some calls."""
        begin, end, flags = begin[rows], end[rows], flags[rows]
        lanes = self._lanes_of(thread[rows])
        function = self._names.of(begin, end)
        texts = self._names.texts
        kinds = np.array([int(category_of(text)) for text in texts], np.int8)
        kind_names = self.builder.strings.intern_many([kind.word for kind in CallKind])
        failed = self._failed(begin, end)
        # An asynchronous call returns before its copy is done.
        is_async = np.array(["Async" in text for text in texts])
        is_async &= kinds == CallKind.TRANSFER
        flags[is_async[function]] |= np.uint16(SpanFlag.ASYNC)
        size, rate = self._sizes(begin, end)
        columns: dict[str, Array] = {
            "start": start[rows],
            "end": finish[rows],
            "lane": narrow(lanes),
            "name": self._span_names(begin, end, function, size, rate, failed),
            "op": np.minimum(function, _MAX_OPS).astype(np.int16),
            "flags": flags,
            "category": narrow(kind_names[kinds[function]].astype(np.int64)),
            "record": narrow(self._lines.line[begin]),
        }
        if failed.any():
            columns["color"] = np.where(failed, FAILED_COLOR, 0).astype(np.uint32)
        return columns

    def _intervals(self, begin: I64, end: I64) -> tuple[I64, I64, U16]:
        """Return first and last tick and the flags of calls; -1 in `end`: none."""
        lines, pairs, tick = self._lines, self._pairs, self._times.tick
        start = tick[begin]
        finish = np.where(end >= 0, tick[np.maximum(end, 0)], start)
        flags = np.zeros(len(begin), np.uint16)
        n_paired, n_open = len(pairs.begin), len(pairs.open)
        if n_open:
            nexts = np.where(pairs.next >= 0, tick[pairs.next], UNKNOWN)
            if self.builder.grows:
                # What was held comes first, and its next event may have come before.
                is_held = pairs.open < self._n_held
                before = self._held_next[pairs.open[is_held]]
                nexts[is_held] = np.where(before != UNKNOWN, before, nexts[is_held])
                self._held_next = nexts
            finish[len(finish) - n_open :] = np.where(
                nexts != UNKNOWN, nexts, self.until
            )
            flags[len(flags) - n_open :] = int(SpanFlag.UNFINISHED)
        stated = lines.duration[np.maximum(end, 0)]
        stated = np.where((end >= 0) & (stated >= 0) & (stated < 1e18), stated, -1)
        whole = np.zeros(len(begin), np.bool_)
        whole[n_paired : len(begin) - n_open] = True
        # What strace and bpftrace say of a call is finer than its two times.
        is_text = lines.form[begin] >= Form.PROBE_TEXT
        is_coarse = (lines.form[begin] == Form.PROBE) & (lines.nano[begin] == 0)
        is_coarse &= lines.nano[np.maximum(end, 0)] == 0
        near = np.abs(finish - start - stated) <= 2 * _RESOLUTION_NS
        takes = (stated >= 0) & (whole | is_text | (is_coarse & near))
        length = np.rint(np.where(takes, stated, 0)).astype(np.int64)
        finish = np.where(takes, start + length, finish)
        unknown = whole & (stated < 0)
        flags[unknown] |= np.uint16(SpanFlag.UNFINISHED)
        is_back = finish < start
        flags[is_back] |= np.uint16(SpanFlag.OUT_OF_ORDER)
        return start, np.maximum(finish, start), flags

    def _lanes_of(self, thread: I64) -> I64:
        """Add a lane per thread that makes calls; return the lane of each call."""
        different, _, place = ranked(thread)
        named = [self._pairs.threads[i] for i in different.tolist()]
        several = len({pid for pid, _ in named}) > 1
        lanes = []
        for pid, tid in named:
            if (pid, tid) not in self._of_thread:
                self._of_thread[pid, tid] = self._thread_lane(pid, tid, several)
            lanes.append(self._of_thread[pid, tid])
        return np.array(lanes, np.int64)[place]

    def _thread_lane(self, pid: int, tid: int, several: bool) -> int:
        """Add the lane of a thread; threads beyond the first ones share one."""
        if len(self._of_thread) >= _MAX_LANES:
            beyond = (UNKNOWN, UNKNOWN - 1)
            if beyond not in self._of_thread:
                self._of_thread[beyond] = self.builder.add_lane(
                    "other threads", LaneKind.THREAD, (), (1 << 62, 1 << 62)
                )
            return self._of_thread[beyond]
        process = f"process {pid}" if pid != UNKNOWN else "process unknown"
        group = (process,) if several else ()
        name = f"thread {tid}" if tid != UNKNOWN else "calls"
        return self.builder.add_lane(name, LaneKind.THREAD, group, (pid, tid))

    def _sizes(self, begin: I64, end: I64) -> tuple[I64, F64]:
        """Return bytes and GB/s as events state them, of the end first; -1 unknown."""
        lines, last = self._lines, np.where(end >= 0, end, begin)
        size = np.where(lines.size[last] >= 0, lines.size[last], lines.size[begin])
        rate = np.where(lines.rate[last] >= 0, lines.rate[last], lines.rate[begin])
        return size, rate

    def _failed(self, begin: I64, end: I64) -> Bools:
        flags = self._lines.flags
        last = np.where(end >= 0, end, begin)
        is_failed: Bools = ((flags[last] | flags[begin]) & Mark.FAILED) != 0
        return is_failed

    def _span_names(
        self,
        begin: I64,
        end: I64,
        function: I64,
        size: I64,
        rate: F64,
        failed: Bools,
    ) -> I32:
        """Return the name of each call: its function, kernel, bytes, rate and error."""
        strings, texts = self.builder.strings, self._names.texts
        plain = strings.intern_many(texts)
        names = plain[function].astype(np.int32)
        kernel = self._kernels(function, begin)
        has_more = (size >= 0) | (rate >= 0) | failed | (kernel >= 0)
        detailed = np.flatnonzero(has_more)
        if not len(detailed) or len(self._detailed) > _MAX_NAMES:
            return names
        error = self._error_rows(begin, end, failed)[detailed]
        key = function[detailed]
        errors = self._error_keys(error)
        for values in (size[detailed], rate[detailed], errors, kernel[detailed]):
            _, _, place = ranked(values)
            _, first, key = ranked(key * (int(place.max()) + 1) + place)
        if len(first) > _MAX_NAMES:
            return names
        span_names = []
        for row, of_error in zip(
            detailed[first].tolist(), error[first].tolist(), strict=True
        ):
            word = texts[int(function[row])]
            if kernel[row] >= 0:
                word += f" · {self._lines.texts[int(kernel[row])]}"
            if size[row] >= 0:
                word += f" · {format_bytes(int(size[row]))}"
            if rate[row] >= 0:
                word += f" · {rate[row]:g} GB/s stated"
            if of_error >= 0:
                word += f" · {self._error_word(of_error, texts[int(function[row])])}"
            span_names.append(word)
        numbers = strings.intern_many(span_names)
        if self.builder.grows:
            self._detailed.update(numbers.tolist())
        names[detailed] = numbers[key]
        return names

    def _kernels(self, function: I64, begin: I64) -> I64:
        """Return the text with the kernel that each call launches; -1 none, unknown."""
        lines = self._lines
        launches = np.array(
            [category_of(text) is CallKind.KERNEL for text in self._names.texts]
        )
        is_known = launches[function] & (lines.form[begin] == Form.HOOK)
        return np.where(is_known, lines.way[begin], -1).astype(np.int64)

    def _error_rows(self, begin: I64, end: I64, failed: Bools) -> I64:
        """Return the event that says that a call failed; -1 where it did not."""
        is_end = (self._lines.flags[np.maximum(end, 0)] & Mark.FAILED) != 0
        row = np.where((end >= 0) & is_end, end, begin)
        return np.where(failed, row, -1)

    def _error_keys(self, rows: I64) -> I64:
        """Return numbers that differ where errors do; -1 where there is none."""
        lines, n = self._lines, len(self._lines.texts) + 2
        key = lines.result[rows].astype(np.int64) - NO_RESULT
        return np.where(rows >= 0, key * n + lines.way[rows] + 1, -1)

    def _error_word(self, row: int, function: str) -> str:
        """Return how an event says that a call failed, "failed: EINVAL"."""
        lines = self._lines
        way, result = int(lines.way[row]), int(lines.result[row])
        what = ""
        if lines.form[row] == Form.STRACE and way >= 0:
            what = lines.texts[way]
        elif result != NO_RESULT:
            what = error_text(function, result)
        return f"failed: {what}" if what else "failed"

    def _patterns(self) -> I32 | None:
        """Let copies access their bytes: those to the device write, from it read.

        Returns
        -------
        The pattern of each call that is added, -1 none; None: the builder has them.
        """
        lines, builder = self._lines, self.builder
        size, _ = self._sizes(self._begin, self._end)
        function = self._names.of(self._begin, self._end)
        texts = self._names.texts
        is_copy = np.array([category_of(t) is CallKind.TRANSFER for t in texts])
        is_copy = is_copy[function] & (size >= 0)
        is_copy &= ~self._failed(self._begin, self._end)
        calls = np.flatnonzero(is_copy)
        if not len(calls):
            return None
        begin, end = self._begin[calls], self._end[calls]
        last = np.where(end >= 0, end, begin)
        way = np.where(lines.way[last] >= 0, lines.way[last], lines.way[begin])
        is_download = [
            text.lower().replace("_", " ").startswith(("d2h", "dtoh", "device to host"))
            for text in lines.texts
        ]
        by_way = np.array([*is_download, False])[way]
        by_name = np.array(["DtoH" in text for text in texts])
        reads = by_way | by_name[function[calls]]
        different, _, place = ranked(size[calls] * 2 + reads)
        new = [key for key in different.tolist() if key not in self._pattern_of]
        first = len(self._pattern_of)
        self._pattern_of |= {key: first + i for i, key in enumerate(new)}
        numbers = np.array([self._pattern_of[key] for key in different.tolist()])
        pattern = np.full(len(self._begin), -1, np.int32)
        pattern[calls] = numbers[place]
        rows = _copied(np.array(new, np.int64))
        if builder.grows:
            builder.add_patterns(rows, np.ones(len(new), np.int64))
            return pattern
        firsts = np.arange(len(new) + 1, dtype=np.int64)
        builder.accesses = Accesses(pattern, firsts, rows, FlatAccesses.blank())
        return None

    def _add_instants(self) -> None:
        """Add what has no duration as markers, and ends without a begin."""
        lines = self._lines
        placed = self._times.is_placed
        # What is held are begins of calls.
        rows = np.flatnonzero((lines.phase == ord("I")) & placed)
        kinds, _, kind = ranked(lines.type[rows].astype(np.int64))
        for number, of_type in enumerate(kinds.tolist()[:_MAX_LANES]):
            mine = rows[kind == number]
            name = lines.texts[of_type] if of_type >= 0 else "instants"
            self._markers(mine, name, self._instant_word)
        beyond = rows[kind >= _MAX_LANES]
        if len(beyond):
            self._markers(beyond, "others", self._instant_word)
        orphans = self._pairs.orphan
        orphans = orphans[placed[orphans]]
        if len(orphans):
            self._markers(orphans, "ends without a begin", self._orphan_word)

    def _marker_lane(self, name: str) -> int:
        if name not in self._of_markers:
            self._of_markers[name] = self.builder.add_lane(
                name, LaneKind.MARKER, ("Events",)
            )
        return self._of_markers[name]

    def _markers(self, rows: I64, lane: str, word: Callable[[int], str]) -> None:
        """Add events as markers, in order of time; alike ones share a name."""
        lines, tick = self._lines, self._times.tick
        rows = rows[np.argsort(tick[rows], kind="stable")]
        _, _, sizes = ranked(lines.size[rows])
        function = self._names.of(rows, rows)
        key = (function * (len(lines.texts) + 2) + lines.way[rows] + 1).astype(np.int64)
        _, _, key = ranked(key)
        key = key * (int(sizes.max()) + 1) + sizes
        _, first, place = ranked(key)
        if len(first) > _MAX_NAMES:
            _, first, place = ranked(function)
        names = self.builder.strings.intern_many(
            [word(row) for row in rows[first].tolist()]
        )
        self.builder.add_markers(
            time=tick[rows],
            lane=self._marker_lane(lane),
            name=names[place].astype(np.int32),
            record=lines.line[rows],
        )

    def _instant_word(self, row: int) -> str:
        lines = self._lines
        names = [self._names.texts[int(self._names.of_row(row))]]
        way, size = int(lines.way[row]), int(lines.size[row])
        if way >= 0 and lines.texts[way] not in names:
            names.append(lines.texts[way])
        if size >= 0:
            names.append(format_bytes(size))
        return " · ".join(names)

    def _orphan_word(self, row: int) -> str:
        return f"{self._names.texts[int(self._names.of_row(row))]} returned"

    def _add_errors(self) -> None:
        """Add a marker for every event that says that a call failed."""
        lines = self._lines
        failed = (lines.flags & Mark.FAILED) != 0
        failed[: self._n_held] = False
        rows = np.flatnonzero(failed & self._times.is_placed)
        if not len(rows):
            return
        time = self._times.tick.copy()
        ends = lines.phase[self._begin] == ord("X")
        time[self._begin[ends]] = self._finish[ends]
        rows = rows[np.argsort(time[rows], kind="stable")]
        function = self._names.of(rows, rows)
        _, _, error = ranked(self._error_keys(rows))
        _, first, place = ranked(function * (int(error.max()) + 1) + error)
        if len(first) > _MAX_NAMES:
            _, first, place = ranked(function)
        texts = [self._names.texts[i] for i in function[first].tolist()]
        names = self.builder.strings.intern_many(
            [
                f"{text} {self._error_word(row, text)}"
                for text, row in zip(texts, rows[first].tolist(), strict=True)
            ]
        )
        self.builder.add_markers(
            time=time[rows],
            lane=self._marker_lane("failed calls"),
            name=names[place].astype(np.int32),
            record=lines.line[rows],
        )

    def _add_counters(self) -> None:
        """Add allocated bytes, and the rates of copies: computed, and as stated."""
        if not len(self._begin):
            return
        size, rate = self._sizes(self._begin, self._end)
        function = self._names.of(self._begin, self._end)
        self._add_allocated(function, size)
        start = self._times.tick[self._begin]
        length = self._finish - start
        copies = np.array(
            [
                category_of(t) is CallKind.TRANSFER and "Async" not in t
                for t in self._names.texts
            ]
        )[function]
        is_closed = (self._end >= 0) & ~self._failed(self._begin, self._end)
        timed = np.flatnonzero(copies & is_closed & (size > 0) & (length > 0))
        if len(timed):
            speed = size[timed] / length[timed]
            self._add_rate("copies, bytes by time", timed, start, speed)
        stated = np.flatnonzero(is_closed & (rate >= 0))
        if len(stated):
            self._add_rate("copies, as stated", stated, start, rate[stated])

    def _add_rate(self, name: str, calls: I64, start: I64, rate: F64) -> None:
        if name not in self._rates:
            self._rates[name] = RateCounter(self.builder, name)
        line = self._lines.line[self._begin[calls]]
        self._rates[name].add(start[calls], self._finish[calls], line, rate)

    def _add_allocated(self, function: I64, size: I64) -> None:
        """Add bytes in use: of allocations whose size and address the file states."""
        lines = self._lines
        texts = self._names.texts
        allocates = np.array(["MemAlloc" in t for t in texts])[function]
        frees = np.array(["MemFree" in t for t in texts])[function]
        last = np.maximum(self._end, 0)
        address = lines.address[last]
        address = np.where(address == 0, lines.address[self._begin], address)
        is_done = (self._end >= 0) & ~self._failed(self._begin, self._end)
        is_alloc = allocates & (size > 0)
        rows = np.flatnonzero((is_alloc | frees) & (address != 0) & is_done)
        amount = np.where(is_alloc[rows], size[rows], -1)
        self._allocated.add(
            self._finish[rows], lines.line[last[rows]], address[rows], amount
        )


def _copied(keys: I64) -> AccessColumns:
    """Return what copies access: twice their bytes, and 1 where they read."""
    n = len(keys)
    none = np.full(n, -1, np.int8)
    kind = np.where(keys & 1, int(AccessKind.READ), int(AccessKind.WRITE))
    return AccessColumns(
        tensor=none,
        kind=kind.astype(np.uint8),
        space=np.full(n, int(Space.UNKNOWN), np.uint8),
        offset=np.full(n, -1, np.int64),
        size=keys >> 1,
        buffer=none,
        layer=none,
        expert=none,
        address=np.zeros(n, np.uint64),
    )


class _Names:
    """What events are called: their function, or what kind of thing they are.

    Attributes
    ----------
    texts : all names.
    """

    def __init__(self, lines: CallLines) -> None:
        self._lines = lines
        fixed = [*_NUMBERED.values(), "event"]
        self._n_fixed = len(fixed)
        # In front, where they stay when more texts come.
        self.texts = [*fixed, *lines.texts]
        self._of_kind = np.full(16, self._n_fixed - 1, np.int64)
        for place, kind in enumerate(_NUMBERED):
            # Begin and end of a kind have one name.
            self._of_kind[kind] = place - (kind in (2, 7))

    def of(self, begin: I64, end: I64) -> I64:
        """Return the number of the name of calls; -1 in `end` where there is none."""
        lines, last = self._lines, np.where(end >= 0, end, begin)
        text = np.where(lines.name[begin] >= 0, lines.name[begin], lines.name[last])
        text = np.where(text >= 0, text, lines.way[begin])
        text = np.where(text >= 0, text, lines.type[begin])
        kind = self._of_kind[lines.kind[begin]]
        return np.where(text >= 0, text + self._n_fixed, kind).astype(np.int64)

    def of_row(self, row: int) -> int:
        """Return the number of the name of an event."""
        one = np.array([row])
        return int(self.of(one, one)[0])
