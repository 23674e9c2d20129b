"""From events to the tables of a trace: calls, instants, copies, failures, memory."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    FAILED_COLOR,
    I64,
    AccessColumns,
    Accesses,
    AccessKind,
    CallKind,
    CounterShape,
    FlatAccesses,
    Space,
    SpanFlag,
    narrow,
    ranked,
)
from ggscope.model.trace import LaneKind, OpTable
from ggscope.model.units import format_bytes
from ggscope.readers.common.interval_pairing import neighbours
from ggscope.readers.cuda.categories import category_of, error_words
from ggscope.readers.cuda.lines import NO_RESULT, UNKNOWN, CallLines, Form, Mark
from ggscope.readers.cuda.pairs import Pairs
from ggscope.readers.cuda.times import Times

OP_TABLE_ID = "cuda-calls"
_NUMBERED = {
    1: "CUDA call", 2: "CUDA call", 3: "kernel launch", 4: "memory allocation",
    5: "memory copy", 6: "ioctl", 7: "ioctl",
}  # fmt: skip
_MOST_LANES = 1024
_MOST_OPS = 32_000
_MOST_NAMES = 20_000
"""Sizes and rates that become part of a name; beyond that the function is the name."""
_RESOLUTION_NS = 1_000_000
"""Of times that are whole milliseconds."""


class CallTrace:
    """Fills a builder with what the events of a file tell."""

    def __init__(
        self, builder: TraceBuilder, lines: CallLines, pairs: Pairs, times: Times
    ) -> None:
        self._builder, self._lines = builder, lines
        self._pairs, self._times = pairs, times
        self._names = _Names(lines)
        self._lane = np.zeros(0, np.int64)
        self._begin = self._end = np.zeros(0, np.int64)
        self._finish = np.zeros(0, np.int64)

    def add_calls(self) -> None:
        """Add all calls as spans, by thread and in order of start."""
        lines, pairs = self._lines, self._pairs
        begin = np.concatenate([pairs.begin, pairs.whole, pairs.open])
        end = np.concatenate([pairs.end, pairs.whole, np.full(len(pairs.open), -1)])
        start, finish, flags = self._intervals(begin, end)
        placed = self._times.is_placed[begin]
        placed &= self._times.is_placed[np.maximum(end, 0)] | (end < 0)
        thread = pairs.thread[begin]
        order = np.flatnonzero(placed)
        order = order[np.lexsort((-finish[order], start[order], thread[order]))]
        begin, end, start = begin[order], end[order], start[order]
        finish, flags = finish[order], flags[order]
        self._begin, self._end, self._finish = begin, end, finish
        lanes = self._lanes_of(thread[order])
        function = self._names.of(begin, end)
        n_texts = len(self._names.texts)
        op = np.minimum(function, _MOST_OPS)
        names = [*self._names.texts[:_MOST_OPS]]
        if n_texts > _MOST_OPS:
            names.append("other functions")
        kinds = np.array(
            [int(category_of(text)) for text in self._names.texts], np.int8
        )
        kind_names = self._builder.strings.intern_many([kind.word for kind in CallKind])
        failed = self._failed(begin, end)
        has_any = len(begin) > 0
        # An asynchronous call returns before its copy is done.
        is_async = np.array(["Async" in text for text in self._names.texts])
        is_async &= kinds == CallKind.TRANSFER
        flags[is_async[function]] |= np.uint16(SpanFlag.ASYNC)
        self._builder.ops = OpTable(OP_TABLE_ID, tuple(names), source="spelled")
        size, rate = self._sizes(begin, end)
        if has_any:
            self._builder.add_spans(
                start=start,
                end=finish,
                lane=narrow(lanes),
                name=self._span_names(function, size, rate, failed),
                op=op.astype(np.int16),
                flags=flags,
                category=narrow(kind_names[kinds[function]].astype(np.int64)),
                record=narrow(lines.line[begin]),
                color=np.where(failed, FAILED_COLOR, 0).astype(np.uint32)
                if failed.any()
                else None,
            )
        is_copy = has_any and (kinds[function] == CallKind.TRANSFER)
        self._add_copies(np.flatnonzero(is_copy & (size >= 0) & ~failed), size)

    def _intervals(
        self, begin: I64, end: I64
    ) -> tuple[I64, I64, npt.NDArray[np.uint16]]:
        """Return first and last tick and the flags of calls; -1 in `end`: none."""
        lines, pairs, tick = self._lines, self._pairs, self._times.tick
        start = tick[begin]
        last = int(tick.max(initial=0))
        finish = np.where(end >= 0, tick[np.maximum(end, 0)], start)
        flags = np.zeros(len(begin), np.uint16)
        n_paired, n_open = len(pairs.begin), len(pairs.open)
        if n_open:
            nexts = pairs.next
            finish[len(finish) - n_open :] = np.where(
                nexts >= 0, tick[np.maximum(nexts, 0)], last
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
        for number, (pid, tid) in enumerate(named[:_MOST_LANES]):
            process = f"process {pid}" if pid != UNKNOWN else "process unknown"
            group = (process,) if several else ()
            name = f"thread {tid}" if tid != UNKNOWN else "calls"
            lanes.append(
                self._builder.add_lane(name, LaneKind.THREAD, group, (number,))
            )
        if len(named) > _MOST_LANES:
            lane = self._builder.add_lane(
                "other threads", LaneKind.THREAD, (), (_MOST_LANES,)
            )
            lanes += [lane] * (len(named) - _MOST_LANES)
        return np.array(lanes, np.int64)[place]

    def _sizes(self, begin: I64, end: I64) -> tuple[I64, npt.NDArray[np.float64]]:
        """Return bytes and GB/s as events state them, of the end first; -1 unknown."""
        lines, last = self._lines, np.where(end >= 0, end, begin)
        size = np.where(lines.size[last] >= 0, lines.size[last], lines.size[begin])
        rate = np.where(lines.rate[last] >= 0, lines.rate[last], lines.rate[begin])
        return size, rate

    def _failed(self, begin: I64, end: I64) -> npt.NDArray[np.bool_]:
        flags = self._lines.flags
        last = np.where(end >= 0, end, begin)
        is_failed: npt.NDArray[np.bool_] = (
            (flags[last] | flags[begin]) & Mark.FAILED
        ) != 0
        return is_failed

    def _span_names(
        self,
        function: I64,
        size: I64,
        rate: npt.NDArray[np.float64],
        failed: npt.NDArray[np.bool_],
    ) -> npt.NDArray[np.int32]:
        """Return the name of each call: its function, kernel, bytes, rate and error."""
        strings, texts = self._builder.strings, self._names.texts
        plain = strings.intern_many(texts)
        names = plain[function].astype(np.int32)
        kernel = self._kernels(function)
        has_more = (size >= 0) | (rate >= 0) | failed | (kernel >= 0)
        detailed = np.flatnonzero(has_more)
        if not len(detailed):
            return names
        error = self._error_rows(failed)[detailed]
        key = function[detailed]
        errors = self._error_keys(error)
        for values in (size[detailed], rate[detailed], errors, kernel[detailed]):
            _, _, place = ranked(values)
            _, first, key = ranked(key * (int(place.max()) + 1) + place)
        if len(first) > _MOST_NAMES:
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
                word += f" · {self._error_word(of_error)}"
            span_names.append(word)
        names[detailed] = strings.intern_many(span_names)[key]
        return names

    def _kernels(self, function: I64) -> I64:
        """Return the text with the kernel that each call launches; -1 none, unknown."""
        lines, begin = self._lines, self._begin
        launches = np.array(
            [category_of(text) is CallKind.KERNEL for text in self._names.texts]
        )
        is_known = launches[function] & (lines.form[begin] == Form.HOOK)
        return np.where(is_known, lines.way[begin], -1).astype(np.int64)

    def _error_rows(self, failed: npt.NDArray[np.bool_]) -> I64:
        """Return the event that says that a call failed; -1 where it did not."""
        is_end = (self._lines.flags[np.maximum(self._end, 0)] & Mark.FAILED) != 0
        row = np.where((self._end >= 0) & is_end, self._end, self._begin)
        return np.where(failed, row, -1)

    def _error_keys(self, rows: I64) -> I64:
        """Return numbers that differ where errors do; -1 where there is none."""
        lines, n = self._lines, len(self._lines.texts) + 2
        key = lines.result[rows].astype(np.int64) - NO_RESULT
        return np.where(rows >= 0, key * n + lines.way[rows] + 1, -1)

    def _error_word(self, row: int) -> str:
        """Return how an event says that its call failed, "failed: EINVAL"."""
        lines = self._lines
        way, result = int(lines.way[row]), int(lines.result[row])
        what = ""
        if lines.form[row] == Form.STRACE and way >= 0:
            what = lines.texts[way]
        elif result != NO_RESULT:
            what = error_words(self._names.texts[self._names.of_row(row)], result)
        return f"failed: {what}" if what else "failed"

    def _add_copies(self, spans: I64, size: I64) -> None:
        """Let copies access their bytes: those to the device write, from it read."""
        if not len(spans):
            return
        lines = self._lines
        begin, end = self._begin[spans], self._end[spans]
        last = np.where(end >= 0, end, begin)
        way = np.where(lines.way[last] >= 0, lines.way[last], lines.way[begin])
        is_download = [
            text.lower().replace("_", " ").startswith(("d2h", "dtoh", "device to host"))
            for text in lines.texts
        ]
        by_way = np.array([*is_download, False])[way]
        by_name = np.array([*("DtoH" in t for t in self._names.texts), False])
        reads = by_way | by_name[self._names.of(begin, end)]
        key = size[spans] * 2 + reads
        different, first, place = ranked(key)
        n = len(different)
        pattern = np.full(self._builder.n_spans, -1, np.int32)
        pattern[spans] = place
        none = np.full(n, -1, np.int8)
        self._builder.accesses = Accesses(
            pattern,
            np.arange(n + 1, dtype=np.int64),
            AccessColumns(
                tensor=none,
                kind=np.where(
                    reads[first], int(AccessKind.READ), int(AccessKind.WRITE)
                ).astype(np.uint8),
                space=np.full(n, int(Space.UNKNOWN), np.uint8),
                offset=np.full(n, -1, np.int64),
                size=size[spans][first],
                buffer=none,
                layer=none,
                expert=none,
                address=np.zeros(n, np.uint64),
            ),
            FlatAccesses.blank(),
        )

    def add_instants(self) -> None:
        """Add what has no duration as markers, and ends without a begin."""
        lines = self._lines
        placed = self._times.is_placed
        rows = np.flatnonzero((lines.phase == ord("I")) & placed)
        kinds, _, kind = ranked(lines.type[rows].astype(np.int64))
        for number, of_type in enumerate(kinds.tolist()[:_MOST_LANES]):
            mine = rows[kind == number]
            name = lines.texts[of_type] if of_type >= 0 else "instants"
            lane = self._builder.add_lane(name, LaneKind.MARKER, ("Events",))
            self._markers(mine, lane, self._instant_word)
        beyond = rows[kind >= _MOST_LANES]
        if len(beyond):
            lane = self._builder.add_lane("others", LaneKind.MARKER, ("Events",))
            self._markers(beyond, lane, self._instant_word)
        orphans = self._pairs.orphan
        orphans = orphans[placed[orphans]]
        if len(orphans):
            lane = self._builder.add_lane(
                "ends without a begin", LaneKind.MARKER, ("Events",)
            )
            self._markers(orphans, lane, self._orphan_word)

    def _markers(self, rows: I64, lane: int, word: Callable[[int], str]) -> None:
        """Add events as markers, in order of time; alike ones share a name."""
        lines, tick = self._lines, self._times.tick
        rows = rows[np.argsort(tick[rows], kind="stable")]
        _, _, sizes = ranked(lines.size[rows])
        function = self._names.of(rows, rows)
        key = (function * (len(lines.texts) + 2) + lines.way[rows] + 1).astype(np.int64)
        _, _, key = ranked(key)
        key = key * (int(sizes.max()) + 1) + sizes
        _, first, place = ranked(key)
        if len(first) > _MOST_NAMES:
            _, first, place = ranked(function)
        names = self._builder.strings.intern_many(
            [word(row) for row in rows[first].tolist()]
        )
        self._builder.add_markers(
            time=tick[rows],
            lane=lane,
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

    def add_errors(self) -> None:
        """Add a marker for every event that says that a call failed."""
        lines = self._lines
        failed = (lines.flags & Mark.FAILED) != 0
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
        if len(first) > _MOST_NAMES:
            _, first, place = ranked(function)
        names = self._builder.strings.intern_many(
            [
                f"{self._names.texts[self._names.of_row(row)]} {self._error_word(row)}"
                for row in rows[first].tolist()
            ]
        )
        lane = self._builder.add_lane("failed calls", LaneKind.MARKER, ("Events",))
        self._builder.add_markers(
            time=time[rows],
            lane=lane,
            name=names[place].astype(np.int32),
            record=lines.line[rows],
        )

    def add_counters(self) -> None:
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

    def _add_rate(
        self, name: str, calls: I64, start: I64, value: npt.NDArray[np.float64]
    ) -> None:
        """Add a rate that holds while a call lasts, and is unknown between calls."""
        order = np.argsort(start[calls], kind="stable")
        begin, value = start[calls][order], value[order]
        finish = np.maximum(self._finish[calls][order], begin)
        following = np.append(begin[1:], np.iinfo(np.int64).max)
        gaps = np.flatnonzero(finish < following)
        self._builder.add_counter(
            name,
            "GB/s",
            CounterShape.LEVEL,
            np.insert(begin, gaps + 1, finish[gaps]),
            np.insert(value, gaps + 1, np.nan),
        )

    def _add_allocated(self, function: I64, size: I64) -> None:
        """Add bytes in use: of allocations whose size and address the file tells."""
        lines = self._lines
        texts = self._names.texts
        allocates = np.array(["MemAlloc" in t for t in texts])[function]
        frees = np.array(["MemFree" in t for t in texts])[function]
        last = np.where(self._end >= 0, self._end, self._begin)
        address = lines.address[last]
        address = np.where(address == 0, lines.address[self._begin], address)
        failed = self._failed(self._begin, self._end)
        is_alloc = allocates & (size > 0) & (self._end >= 0)
        rows = np.flatnonzero((is_alloc | frees) & (address != 0) & ~failed)
        rows = rows[np.argsort(self._finish[rows], kind="stable")]
        if not is_alloc[rows].any():
            return
        before, _ = neighbours(address[rows].view(np.int64))
        of_alloc = ~is_alloc[rows] & (before >= 0) & is_alloc[rows][before]
        delta = np.where(is_alloc[rows], size[rows], 0)
        delta = np.where(of_alloc, -size[rows][before], delta)
        # An address that comes again without having been freed was freed unseen.
        again = is_alloc[rows] & (before >= 0) & is_alloc[rows][before]
        delta = np.where(again, delta - size[rows][before], delta)
        self._builder.add_counter(
            "allocated by MemAlloc",
            "B",
            CounterShape.LEVEL,
            self._finish[rows],
            np.cumsum(delta).astype(np.float64),
        )


class _Names:
    """What events are called: their function, or what kind of thing they are.

    Attributes
    ----------
    texts : all names.
    """

    def __init__(self, lines: CallLines) -> None:
        self._lines = lines
        self.texts = [*lines.texts, *_NUMBERED.values(), "event"]
        first = len(lines.texts)
        self._of_kind = np.full(16, len(self.texts) - 1, np.int64)
        for place, kind in enumerate(_NUMBERED):
            # Begin and end of a kind have one name.
            self._of_kind[kind] = first + place - (kind in (2, 7))

    def of(self, begin: I64, end: I64) -> I64:
        """Return the number of the name of calls; -1 in `end` where there is none."""
        lines, last = self._lines, np.where(end >= 0, end, begin)
        text = np.where(lines.name[begin] >= 0, lines.name[begin], lines.name[last])
        text = np.where(text >= 0, text, lines.way[begin])
        text = np.where(text >= 0, text, lines.type[begin])
        kind = self._of_kind[lines.kind[begin]]
        return np.where(text >= 0, text, kind).astype(np.int64)

    def of_row(self, row: int) -> int:
        """Return the number of the name of an event."""
        one = np.array([row])
        return int(self.of(one, one)[0])
