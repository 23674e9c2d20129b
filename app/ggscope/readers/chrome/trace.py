"""From events to the tables of a trace: spans by lane, markers, counters, arrows."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import (
    F64,
    I16,
    I32,
    I64,
    U16,
    U32,
    Array,
    Bools,
    CounterShape,
    SpanFlag,
    looked_up,
    narrow,
    places_among,
    ranked,
    stacked,
)
from ggscope.model.trace import LaneKind, OpTable
from ggscope.readers.chrome.events import Events, Mark
from ggscope.readers.chrome.flows import Arrows, arrows, launches
from ggscope.readers.chrome.own import (
    columns_of_ops,
    instants_without_end,
    is_wait,
    own_arrows,
    own_column,
    own_file,
    quality_flags,
    waits_of_spans,
)
from ggscope.readers.chrome.pairs import Beside, beside, nested, whole
from ggscope.readers.chrome.samples import samples_of
from ggscope.readers.common.launches import column_of, ops_around
from ggscope.readers.common.nesting import Intervals, Nesting, Paired, by_lane_and_start
from ggscope.readers.common.op_names import MAX_OPS, ops_of_names
from ggscope.readers.common.own_traces import (
    ACTIVITIES,
    NAMELESS,
    OwnLane,
    OwnLists,
    add_own_counter,
    lane_of,
    waits_of,
)
from ggscope.readers.common.stacks import GROUP as STACKS
from ggscope.readers.common.stacks import (
    add_stack_lane,
    add_stack_spans,
    spans_by_time,
)

OP_TABLE_ID = "chrome"
_MAX_BESIDE = 512
"""Lanes of activities beside threads, each for a name; beyond, one for a process."""
_MAX_SERIES = 4096
_WAITS = frozenset({"cuda_sync"})
_PROFILER = frozenset({"Trace"})
"""Of the one span that lasts as long as PyTorch's profiler records."""
_AROUND = frozenset(
    {
        "python_function",
        "user_annotation",
        "gpu_user_annotation",
        *_PROFILER,
        *_WAITS,
    }
)
"""Categories of spans that lie around the work: frames, annotations, the profiler,
waits for a device."""
_STEP = re.compile(r"ProfilerStep#\d+")
"""An annotation, which torch_npu gives the category of ops."""
_DERIVED_PROCESS = "Overlap Analysis"
"""Of msprof: shares of the time of a device, free time too, laid out as threads."""
_DEVICE_LABEL = re.compile(r"(GPU|NPU)\b")
_ON_DEVICE = frozenset(
    {
        "kernel",
        "gpu_memcpy",
        "gpu_memset",
        "gpu_user_annotation",
        "cuda_profiler_range",
        "mtia_ccp_events",
        *_WAITS,
    }
)
"""Categories of what runs on a device, in streams."""
_MEMORY = {"Total Allocated": "allocated", "Total Reserved": "reserved"}
_MEMORY_DEVICE = ("Device Type", "Device Id")
"""Arguments of instants that PyTorch writes at each allocation."""
_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class _Process:
    """What the metadata of a file says of a process."""

    title: str
    order: tuple[int, ...]


class ChromeTrace:
    """Fills a builder with what the events of a file state.

    Attributes
    ----------
    origin : ns of the file at tick 0.
    own : what the file says of itself, where ggscope wrote it; else None.
    paired, beside : begins and ends of threads, and what runs beside them.
    nesting : of all spans.
    n_reaching : spans that end behind the one around them.
    samples : sampled stacks beside the events; None without any.
    n_other_names : spans whose name is none of the ops, for there are too many.
    """

    def __init__(self, builder: TraceBuilder, events: Events) -> None:
        self._builder, self._events = builder, events
        self._string = builder.strings.add_distinct(events.texts).astype(np.int64)
        self.own = own_file(events.facts)
        self.samples = samples_of(events.facts)
        self.origin = self._first_time() if self.own is None else self.own.shift
        self._complete = whole(events)
        self.paired: Paired = nested(events, self._complete)
        self.beside: Beside = beside(events)
        self.n_reaching = 0
        self.n_other_names = 0
        self.first_reaching = -1
        self._lane_of_track = np.zeros(0, np.int64)
        self._row = np.zeros(0, np.int64)
        self._streams: list[int] = []
        self._shown = np.zeros(0, np.int64)
        """Instants that are spans."""
        self._launches = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._metadata = _Metadata(events, keeps_blanks=self.own is not None)
        self.nesting = Nesting.of(
            np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64)
        )

    def add_spans(self) -> None:
        """Add all spans, by lane and in order of start."""
        events = self._events
        parts = [self._complete, self.paired.spans]
        if self.own is not None:
            parts.append(instants_without_end(events))
            self._shown = parts[-1].row
        track = np.concatenate([events.track[part.row] for part in parts])
        on_thread = len(track)
        parts.append(self.beside.paired.spans)
        joined = stacked(*parts)
        self._lane_of_track = self._add_track_lanes(joined, track.astype(np.int64))
        lane = np.empty(len(joined), np.int64)
        lane[:on_thread] = self._lane_of_track[track]
        lane[on_thread:] = self._add_beside_lanes(joined, on_thread)
        waits: U32 | None = None
        if self.own is not None:
            is_behind = is_wait(events, joined.row, self.own)
            rest = np.flatnonzero(~is_behind)
            behind = np.flatnonzero(is_behind)
            on_thread = int(np.searchsorted(rest, on_thread))
            after = joined.take(behind)
            if self.own.numbers_spans:
                waits = waits_of_spans(events, joined.row[rest], after)
            else:
                waits = waits_of(lane[rest], joined.take(rest), lane[behind], after)
            lane, joined = lane[rest], joined.take(rest)
        if self.own is not None and len(self.paired.spans):
            # Of spans of the same time the first one written is the outer one.
            order = np.lexsort((joined.row, -joined.end, joined.start, lane))
        else:
            order = by_lane_and_start(lane, joined.start, joined.end)
        lane, joined = lane[order], joined.take(order)
        self.nesting = Nesting.of(lane.astype(np.int32), joined.start, joined.end)
        self._row = joined.row
        flags = joined.flags
        reaches_out = (self.nesting.reaches_out != 0) & (order < on_thread)
        if self.own is not None:  # on further tracks of the lane
            reaches_out[:] = False
        self.n_reaching = int(np.count_nonzero(reaches_out))
        if self.n_reaching:
            flags = flags | np.where(
                reaches_out, np.uint16(SpanFlag.OVERLAPS_PARENT), np.uint16(0)
            )
            self.first_reaching = int(joined.row[reaches_out].min())
        name, category = events.name[joined.name_row], events.category[joined.name_row]
        if not len(joined):
            return
        waits = None if waits is None else waits[order]
        if self.own is not None and not self.own.has_categories:
            self._add_own_spans(joined, lane, flags, waits)
            return
        columns: dict[str, Array] = {}
        if self.own is not None:
            flags = flags | quality_flags(events, joined.name_row)
            columns = self._own_columns(joined.name_row)
        op = self._ops(joined.name_row, name, category)
        if self.own is not None and NAMELESS in events.texts:
            is_nameless = (name == events.texts.index(NAMELESS)) & (op < 0)
            name = np.where(is_nameless, -1, name)
        has_categories = bool((category >= 0).any())
        self._builder.add_spans(
            start=joined.start - self.origin,
            end=joined.end - self.origin,
            lane=narrow(lane),
            name=narrow(_mapped(self._string, name)),
            op=op,
            flags=flags,
            category=narrow(_mapped(self._string, category))
            if has_categories
            else None,
            moved=self._moved(joined.row),
            launcher=self._launchers(op, category),
            wait=waits,
            record=narrow(joined.row),
            **columns,
        )

    def _launchers(self, op: Array, category: Array) -> Array | None:
        """Return the op that launched what runs on a device; note the launches."""
        on_device = np.isin(self.nesting.lane, self._streams)
        if not on_device.any():
            return None
        source, target, n_calls = launches(self._events, self._row, on_device)
        self._launches = source, target
        by = source.copy()
        by[:n_calls] = ops_around(self.nesting, source[:n_calls], op, category)
        names = self._builder.ops.names if self._builder.ops is not None else ()
        string = np.append(self._builder.strings.intern_many(names), -1)
        number = np.where(by >= 0, op[by].astype(np.int64), -1)
        return column_of(len(op), target, string[number])

    def _own_columns(self, row: I64) -> dict[str, Array]:
        """Return layer, token, core and NUMA node, of a file of ggscope."""
        columns = columns_of_ops(self._events, row)
        return {name: narrow(values) for name, values in columns.items()}

    def _add_own_spans(
        self,
        spans: Intervals,
        lane: I64,
        flags: U16,
        waits: U32 | None,
    ) -> None:
        """Add the spans of a file of ggscope: the category of events is the op."""
        events, row = self._events, spans.name_row
        category, name = events.category[row], events.name[row]
        listed = np.unique(category[category >= 0])[:MAX_OPS]
        number = np.full(len(events.texts) + 1, -1, np.int64)
        number[listed] = np.arange(len(listed))
        names = tuple(events.texts[i] for i in listed.tolist())
        self._builder.ops = OpTable(OP_TABLE_ID, names, source="spelled")
        nameless = events.texts.index(NAMELESS) if NAMELESS in events.texts else -2
        # What has no name is called by its op in the file.
        has_name = (name != category) & ((name != nameless) | (category >= 0))
        string = np.where(has_name, _mapped(self._string, name), -1)
        self._builder.add_spans(
            start=spans.start - self.origin,
            end=spans.end - self.origin,
            lane=narrow(lane),
            name=narrow(string),
            op=number[category].astype(np.int16),
            flags=flags | quality_flags(events, row),
            moved=self._moved(spans.row),
            wait=waits,
            record=narrow(spans.row),
            **self._own_columns(row),
        )

    def _ops(self, row: I64, name: Array, category: Array) -> I16:
        """Return the op of each span, its name; none for what lies around the work."""
        events = self._events
        is_around = self._is_around(row, category)
        word = self._op_names(row, name)
        if self.own is not None:
            op = own_column(events, row, "word")
            word = np.where(op >= 0, op, word)
            is_around &= op < 0
            if "" in events.texts:
                is_around |= op == events.texts.index("")
        ops = ops_of_names(events.texts, word, ~is_around)
        self._builder.ops = OpTable(OP_TABLE_ID, ops.names, source="spelled")
        self.n_other_names = ops.n_others
        return ops.op

    def _is_around(self, row: I64, category: Array) -> Bools:
        """Return which spans are no work, but lie around it or are derived from it."""
        events = self._events
        is_numbered = self.own is not None and self.own.numbers_spans
        lies_around = _AROUND
        if self.own is not None and is_numbered:
            lies_around = self.own.lists.without_op
        around = [i for i, text in enumerate(events.texts) if text in lies_around]
        result = np.isin(category, around)
        if is_numbered:
            return result
        steps = [i for i, text in enumerate(events.texts) if _STEP.fullmatch(text)]
        if steps:
            result |= np.isin(events.name[row], steps)
        derived = self._metadata.named(_DERIVED_PROCESS)
        if derived:
            result |= np.isin(events.tracks[events.track[row], 0], derived)
        return result

    def _first_time(self) -> int:
        """Return the first time of what is shown."""
        events = self._events
        is_shown = (events.flags & int(Mark.TIME)) != 0
        is_shown &= events.phase != ord("M")
        firsts = [] if self.samples is None else [int(self.samples.start.min())]
        if is_shown.any():
            firsts.append(int(events.time[is_shown].min()))
        return min(firsts, default=0)

    def _moved(self, row: I64) -> Array | None:
        """Return the bytes that each span of a device moved; None without any."""
        events = self._events
        known = np.flatnonzero(events.number >= 0)
        is_own = self.own is not None and self.own.numbers_spans
        if not len(known) or not (self._streams or is_own):
            return None
        number = looked_up(events.argument_row[known], events.number[known], row)
        if not is_own:
            number[~np.isin(self.nesting.lane, self._streams)] = -1
        return narrow(number) if (number >= 0).any() else None

    def _op_names(self, row: I64, name: Array) -> Array:
        """Return the text that names the op: ONNX Runtime has it in the arguments."""
        events = self._events
        with_text = np.flatnonzero(events.text >= 0)
        if not len(with_text):
            return name
        text = looked_up(events.argument_row[with_text], events.text[with_text], row)
        texts = enumerate(events.texts)
        is_timed = [i for i, t in texts if t.endswith("_kernel_time")]
        return np.where((text >= 0) & np.isin(name, is_timed), text, name)

    def add_samples(self) -> None:
        """Add the sampled stacks, a lane for each thread."""
        samples = self.samples
        if samples is None:
            return
        lanes = np.array(
            [
                add_stack_lane(self._builder, title, group, pid=pid, tid=tid)
                for title, group, pid, tid in self._stack_lanes(samples.threads)
            ],
            np.int64,
        )
        row = np.full(len(samples), -1, np.int64)
        spans = spans_by_time(
            samples.stacks,
            lanes[samples.thread],
            samples.start - self.origin,
            samples.end - self.origin,
            samples.node,
            row,
        )
        add_stack_spans(self._builder, samples.stacks, spans)

    def _stack_lanes(
        self, threads: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[str, tuple[str, ...], str, str]]:
        """Yield title, group, pid and tid of the lane of each thread's samples."""
        texts, tracks = self._events.texts, self._events.tracks
        number = {text: i for i, text in enumerate(texts)}
        several = len({pid for pid, _ in threads}) > 1
        for pid, tid in threads:
            key = number.get(pid, -1), number.get(tid, -1)
            mine = np.flatnonzero((tracks == key).all(axis=1)).tolist()
            title = f"thread {tid}" if _NUMBER.fullmatch(tid) else tid or "samples"
            process = f"process {pid}" if pid else ""
            if mine:
                title = self._metadata.thread_titles(mine[:1])[mine[0]]
                process = self._metadata.processes(mine[:1])[key[0]].title
            group = f"{STACKS} · {process}" if several and process else STACKS
            yield title, (group,), pid, tid

    # -- lanes ---------------------------------------------------------------------

    def _add_track_lanes(self, spans: Intervals, track: I64) -> I64:
        """Add a lane for each thread and stream that has spans or markers."""
        events, metadata = self._events, self._metadata
        n_tracks = len(events.tracks)
        used = np.zeros(n_tracks, np.bool_)
        used[track] = True
        used[events.track[events.of("i", "I", "R")]] = True
        used[events.track[events.of("s", "t", "f")]] = True
        on_device = self._on_device(spans, track)
        processes = metadata.processes([int(i) for i in np.flatnonzero(used)])
        lane = np.full(n_tracks, -1, np.int64)
        several = len({events.tracks[i, 0] for i in np.flatnonzero(used)}) > 1
        ranked_tracks = sorted(
            np.flatnonzero(used).tolist(),
            key=lambda i: (
                processes[int(events.tracks[i, 0])].order,
                metadata.thread_order(i),
            ),
        )
        if self.own is not None:
            return self._add_own_lanes(ranked_tracks, on_device)
        titles = metadata.thread_titles(ranked_tracks)
        kinds = self._kinds(spans, track, on_device)
        for place, i in enumerate(ranked_tracks):
            pid, tid = (self._word(int(code)) for code in events.tracks[i])
            process = processes[int(events.tracks[i, 0])].title
            title = titles[i]
            if on_device[i]:
                # Without a name: streams have no threads, nor devices processes.
                title = f"stream {tid}" if title == f"thread {tid}" else title
                process = f"device {pid}" if process == f"process {pid}" else process
            group = (process or "Events",) if several or process else ()
            lane[i] = self._builder.add_lane(
                title,
                kinds[i],
                group,
                (place,),
                pid=pid,
                tid=tid,
            )
        self._streams = lane[on_device & used].tolist()
        return lane

    def _add_own_lanes(self, tracks: Sequence[int], on_device: Bools) -> I64:
        """Add the lanes of a file of ggscope, which may have become several tracks."""
        assert self.own is not None
        events, metadata, lists = self._events, self._metadata, self.own.lists
        if lists.lanes:
            return self._add_numbered_lanes(lists, tracks)
        lane = np.full(len(events.tracks), -1, np.int64)
        known: dict[tuple[int, str], int] = {}
        for place, i in enumerate(tracks):
            pid = int(events.tracks[i, 0])
            name = metadata.thread_names.get(i, "")
            if (pid, name) not in known:
                process = metadata.process_names.get(pid, "")
                kind, group = lane_of(process, name)
                if on_device[i]:
                    kind = LaneKind.ENGINE
                known[pid, name] = self._builder.add_lane(
                    name or "events", kind, group, (place,)
                )
            lane[i] = known[pid, name]
        self._streams = np.unique(lane[on_device & (lane >= 0)]).tolist()
        return lane

    def _add_numbered_lanes(self, lists: OwnLists, tracks: Sequence[int]) -> I64:
        """Add the lanes that a file of ggscope lists, by the numbers of tracks."""
        events, names = self._events, self._metadata.thread_names
        lane = np.full(len(events.tracks), -1, np.int64)
        keys = [self._word(int(tid)) for tid in events.tracks[:, 1]]
        by_number = {
            int(word): i
            for i, word in enumerate(keys)
            if word.isdecimal() and len(word) < 10
        }
        known: dict[int, int] = {}
        for number in sorted(by_number):
            i = by_number[number]
            first = lists.first_track.get(number, number)
            if first not in known and number:
                what = lists.lanes.get(first, OwnLane(LaneKind.THREAD, ()))
                over = known.get(-1 if what.over is None else what.over)
                known[first] = self._builder.add_lane(
                    names.get(i, "events"),
                    what.kind,
                    what.group,
                    (len(known),),
                    **({} if over is None else {"over": str(over)}),
                )
            lane[i] = known.get(first, -1)
        rest = [i for i in tracks if lane[i] < 0]
        if rest:  # as no file of ggscope has them
            lane[rest] = self._builder.add_lane("events", LaneKind.THREAD)
        return lane

    def _on_device(self, spans: Intervals, track: I64) -> Bools:
        """Return which tracks are streams of a device, and nothing else."""
        processes = self._metadata.accelerators()
        is_device = np.isin(self._events.tracks[:, 0], processes)
        without_category = self._holds_only(spans, track, {""}) & is_device
        return self._holds_only(spans, track, _ON_DEVICE) | without_category

    def _holds_only(
        self, spans: Intervals, track: I64, categories: Collection[str]
    ) -> Bools:
        """Return which tracks have spans, all of some categories; "" is none."""
        events, n = self._events, len(self._events.tracks)
        category = events.category[spans.row[: len(track)]]
        codes = [i for i, text in enumerate(events.texts) if text in categories]
        runs = np.isin(category, codes + [-1] * ("" in categories))
        count = np.bincount(track, minlength=n)
        holds: Bools = (count > 0) & (np.bincount(track[runs], minlength=n) == count)
        return holds

    def _kinds(self, spans: Intervals, track: I64, on_device: Bools) -> list[LaneKind]:
        """Return the kind of the lane of each track."""
        beside = self._holds_only(spans, track, _WAITS | _PROFILER)
        processes = self._events.tracks[:, 0]
        beside |= np.isin(processes, self._metadata.named(_DERIVED_PROCESS))
        return [
            LaneKind.COMMAND
            if is_beside
            else LaneKind.ENGINE
            if is_stream
            else LaneKind.THREAD
            for is_beside, is_stream in zip(
                beside.tolist(), on_device.tolist(), strict=True
            )
        ]

    def _add_beside_lanes(self, spans: Intervals, first: int) -> I64:
        """Add lanes of activities beside threads; return those of the spans."""
        events, activities = self._events, self.beside
        rows = spans.row[first:]
        if not len(rows):
            return np.zeros(0, np.int64)
        order = np.argsort(activities.row, kind="stable")
        at = order[np.searchsorted(activities.row[order], rows)]
        opening = activities.first[activities.activity[at]]
        pid = events.tracks[events.track[opening], 0].astype(np.int64)
        name = events.name[opening].astype(np.int64)
        key = (pid + 1) * (len(events.texts) + 1) + name + 1
        different, where, place = ranked(key)
        if len(different) > _MAX_BESIDE:
            different, where, place = ranked(pid)
        processes = self._metadata.processes(events.track[opening[where]].tolist())
        several = len(processes) > 1
        lanes: list[int] = []
        for i in where.tolist():
            process = processes[int(pid[i])].title
            title = self._word(int(name[i])) or "activities"
            if len(different) > _MAX_BESIDE:
                title = "activities"
            group = (f"{process} · {ACTIVITIES}",) if several and process else ()
            lanes.append(
                self._builder.add_lane(
                    title, LaneKind.COMMAND, group or ("Activities",), (len(lanes),)
                )
            )
        return np.array(lanes, np.int64)[place]

    def _word(self, code: int) -> str:
        return self._events.texts[code] if code >= 0 else ""

    # -- markers, counters, arrows -----------------------------------------------

    def add_markers(self) -> None:
        """Add instants: those of a thread on its lane, others on lanes of their own."""
        events = self._events
        rows = np.setdiff1d(events.of("i", "I", "R"), self._shown)
        rows = np.setdiff1d(rows, self._memory_rows())
        if len(rows):
            marks = events.flags[rows]
            is_wide = (marks & int(Mark.OF_PROCESS | Mark.OF_ALL)) != 0
            lane = self._lane_of_track[events.track[rows]]
            if is_wide.any():
                wide = self._builder.add_lane("instants", LaneKind.MARKER, ("Events",))
                lane = np.where(is_wide, wide, lane)
            self._markers(rows, lane)
        for title, phases in (("steps", "nTpO"), ("samples", "P")):
            rows = events.of(*phases)
            if len(rows):
                own = self._builder.add_lane(title, LaneKind.MARKER, ("Events",))
                self._markers(rows, np.full(len(rows), own, np.int64))

    def _markers(self, rows: I64, lane: I64) -> None:
        events = self._events
        time = events.time[rows].astype(np.int64)
        order = np.argsort(time, kind="stable")
        rows = rows[order]
        self._builder.add_markers(
            time=time[order] - self.origin,
            lane=lane[order].astype(np.int32),
            name=_mapped(self._string, events.name[rows]).astype(np.int32),
            detail=self._details(rows),
            record=rows,
        )

    def _details(self, rows: I64) -> I32 | None:
        """Return further texts of markers, which files of ggscope have."""
        if self.own is None:
            return None
        word = own_column(self._events, rows, "word")
        return _mapped(self._string, word).astype(np.int32)

    def add_counters(self) -> int:
        """Add a series for each counter and key; return how many were left out."""
        events = self._events
        if not len(events.value):
            return 0
        self._add_memory()
        rows = events.value_row
        is_counter = events.phase[rows] == ord("C")
        is_counter &= (events.flags[rows] & int(Mark.TIME)) != 0
        chosen = np.flatnonzero(is_counter & np.isfinite(events.value))
        if not len(chosen):
            return 0
        rows, value, word = rows[chosen], events.value[chosen], events.value_key[chosen]
        pid = events.tracks[events.track[rows], 0].astype(np.int64)
        n_texts = len(events.texts) + 1
        _, _, of_name = ranked((pid + 1) * n_texts + events.name[rows] + 1)
        key = of_name * n_texts + word
        time = events.time[rows].astype(np.int64)
        order = np.lexsort((time, key))
        edges = np.flatnonzero(np.diff(key[order])) + 1
        parts = np.split(order, edges)
        names = self._counter_names(rows, pid, word, parts)
        for name, part in list(zip(names, parts, strict=True))[:_MAX_SERIES]:
            at = time[part] - self.origin
            row = rows[part[0]]
            facts = None
            if self.own is not None:
                place = self._word(int(pid[part[0]])), self._word(int(events.name[row]))
                facts = self.own.lists.counters.get(place)
            if facts is None:
                self._builder.add_counter(*name, CounterShape.LEVEL, at, value[part])
            else:
                add_own_counter(self._builder, facts, at, value[part])
        return max(len(parts) - _MAX_SERIES, 0)

    def _memory_rows(self) -> I64:
        """Return the instants that state how much memory is allocated."""
        rows = self._events.value_row
        return np.unique(rows[self._events.phase[rows] != ord("C")])

    def _add_memory(self) -> None:
        """Add the bytes that PyTorch's allocator says are in use, by device."""
        events, rows = self._events, self._memory_rows()
        if not len(rows):
            return
        time = events.time[rows].astype(np.int64)
        kind, number = (self._memory_values(rows, key) for key in _MEMORY_DEVICE)
        device = np.nan_to_num(kind, nan=-1) * 4096 + np.nan_to_num(number, nan=0)
        for key, word in _MEMORY.items():
            value = self._memory_values(rows, key)
            for one in np.unique(device).tolist():
                mine = np.flatnonzero((device == one) & (value >= 0))
                mine = mine[np.argsort(time[mine], kind="stable")]
                where = f"device {one % 4096:.0f}" if one >= 4096 else "CPU"
                # Memory of the CPU is not reserved in advance.
                if len(mine) and (one >= 4096 or value[mine].any()):
                    self._builder.add_counter(
                        f"{word}, {where}",
                        "B",
                        CounterShape.LEVEL,
                        time[mine] - self.origin,
                        value[mine],
                    )

    def _memory_values(self, rows: I64, key: str) -> F64:
        """Return an argument of each of some instants; NaN where it has none."""
        events, values = self._events, np.full(len(rows), np.nan)
        if key in events.texts:
            at = np.flatnonzero(events.value_key == events.texts.index(key))
            place = places_among(rows, events.value_row[at])
            values[place[place >= 0]] = events.value[at[place >= 0]]
        return values

    def _counter_names(
        self, rows: I64, pid: I64, word: I64, parts: Sequence[I64]
    ) -> list[tuple[str, str]]:
        """Return name and unit of each series; alike ones have their process."""
        firsts = [int(part[0]) for part in parts]
        events = self._events
        plain = []
        keys: dict[tuple[int, int], set[int]] = {}
        for i in firsts:
            name = int(events.name[rows[i]])
            keys.setdefault((int(pid[i]), name), set()).add(int(word[i]))
        for i in firsts:
            name = int(events.name[rows[i]])
            title, unit = _unit_of(self._word(name) or "counter")
            value_name = self._word(int(word[i]))
            alone = len(keys[int(pid[i]), name]) == 1
            is_plain = alone and value_name in ("value", "", title)
            plain.append((title if is_plain else f"{title} {value_name}", unit))
        if len(set(plain)) == len(plain):
            return plain
        processes = self._metadata.processes(events.track[rows[firsts]].tolist())
        return [
            (f"{title} · {processes[int(pid[i])].title}", unit)
            for (title, unit), i in zip(plain, firsts, strict=True)
        ]

    def add_arrows(self) -> Arrows:
        """Add the arrows between spans."""
        if self.own is not None and self.own.numbers_spans:
            self._builder.flows = own_arrows(self._events, self._row)
            return Arrows(self._builder.flows, 0)
        flows = arrows(self._events, self.nesting, self._lane_of_track, self._launches)
        self._builder.flows = flows.flows
        return flows


class _Metadata:
    """What events of phase M say of processes and threads.

    Attributes
    ----------
    process_names : by the number of the text of the pid.
    thread_names : by track.
    """

    def __init__(self, events: Events, *, keeps_blanks: bool = False) -> None:
        self._events = events
        self.process_names: dict[int, str] = {}
        self._labels: dict[int, str] = {}
        self._process_order: dict[int, int] = {}
        self.thread_names: dict[int, str] = {}
        self._thread_order: dict[int, int] = {}
        at = np.flatnonzero(events.phase[events.argument_row] == ord("M"))
        rows = events.argument_row[at]
        texts = events.texts
        columns = (
            events.name[rows].tolist(), events.track[rows].tolist(),
            events.text[at].tolist(), events.number[at].tolist(),
        )  # fmt: skip
        for name, track, text, number in zip(*columns, strict=True):
            what = texts[name] if name >= 0 else ""
            pid = int(events.tracks[track, 0])
            if what == "process_name" and text >= 0:
                self.process_names[pid] = texts[text]
            elif what == "process_labels" and text >= 0:
                self._labels[pid] = texts[text]
            elif what == "process_sort_index":
                self._process_order[pid] = number
            elif what == "thread_name" and text >= 0:
                name = texts[text]
                self.thread_names[track] = name if keeps_blanks else name.strip()
            elif what == "thread_sort_index":
                self._thread_order[track] = number

    def processes(self, tracks: Sequence[int]) -> dict[int, _Process]:
        """Return the processes of some tracks, by the number of the text of the pid."""
        events = self._events
        codes = list(dict.fromkeys(int(events.tracks[i, 0]) for i in tracks))
        names = {}
        for code in codes:
            pid = events.texts[code] if code >= 0 else ""
            name = self.process_names.get(code, "")
            label = self._labels.get(code, "")
            title = f"{name} · {label}" if name and label else name or label
            names[code] = title or (f"process {pid}" if pid else "")
        shown = Counter(names.values())
        result = {}
        for place, code in enumerate(codes):
            pid = events.texts[code] if code >= 0 else ""
            title = names[code]
            if shown[title] > 1 and pid and not title.endswith(f" {pid}"):
                title = f"{title} ({pid})"
            order = self._process_order.get(code, 0)
            result[code] = _Process(title, (order, *_natural(pid), place))
        return result

    def named(self, name: str) -> list[int]:
        """Return the numbers of the texts of the pids of processes of a name."""
        return [pid for pid, text in self.process_names.items() if text == name]

    def accelerators(self) -> list[int]:
        """Return those of the processes that are devices by their label."""
        derived = self.named(_DERIVED_PROCESS)
        return [
            pid
            for pid, label in self._labels.items()
            if _DEVICE_LABEL.match(label) and pid not in derived
        ]

    def thread_order(self, track: int) -> tuple[int, ...]:
        """Return the place of a thread in its process."""
        tid = int(self._events.tracks[track, 1])
        word = self._events.texts[tid] if tid >= 0 else ""
        return self._thread_order.get(track, 0), *_natural(word)

    def thread_titles(self, tracks: Sequence[int]) -> dict[int, str]:
        """Return the title of each thread; alike ones have their numbers."""
        events = self._events
        names: dict[int, str] = {}
        count: dict[tuple[int, str], int] = {}
        for track in tracks:
            pid, tid = (int(code) for code in events.tracks[track])
            word = events.texts[tid] if tid >= 0 else ""
            plain = f"thread {word}" if _NUMBER.fullmatch(word) else word or "events"
            names[track] = self.thread_names.get(track) or plain
            key = pid, names[track]
            count[key] = count.get(key, 0) + 1
        result = {}
        for track in tracks:
            pid, tid = (int(code) for code in events.tracks[track])
            title = names[track]
            if count[pid, title] > 1 and tid >= 0:
                title = f"{title} ({events.texts[tid]})"
            result[track] = title
        return result


def _natural(word: str) -> tuple[int, int]:
    """Return what numbers are ordered by; other words come behind them."""
    return (0, int(word)) if _NUMBER.fullmatch(word) and len(word) < 30 else (1, 0)


def _unit_of(name: str) -> tuple[str, str]:
    """Return a counter's name and unit: ``memory (MiB)`` has one behind it."""
    match = re.fullmatch(r"(.*\S) \(([^()]{1,12})\)", name)
    return (match[1], match[2]) if match else (name, "")


def _mapped(string: I64, codes: Array) -> I64:
    """Return the string of each text; -1 for -1."""
    return np.append(string, -1)[codes]
