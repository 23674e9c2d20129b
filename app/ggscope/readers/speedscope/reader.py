"""Reader of speedscope's files: a lane of stacks for each profile."""

from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I32, I64, U16, Array, Bools, SpanFlag
from ggscope.model.trace import RecordView, Severity, Trace
from ggscope.model.units import Clock, Unit
from ggscope.native.library import library
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace, note_change
from ggscope.readers.common.json_cursor import outer_keys
from ggscope.readers.common.json_walk import integer_of, note_fault
from ggscope.readers.common.stacks import (
    MAX_FRAMES,
    StackPairTable,
    StackRecords,
    Stacks,
    StackSpans,
    add_stack_lane,
    add_stack_spans,
    joined,
    put_stacks,
    spans_by_time,
    warn_of_depth,
)
from ggscope.readers.common.weight_units import (
    WEIGHTS,
    are_whole,
    kind_of,
    ticks_of,
    unit_of,
    with_decimals,
)
from ggscope.readers.source import Source
from ggscope.readers.speedscope import INFO
from ggscope.readers.speedscope.profiles import (
    READ_SHARE,
    Profile,
    ProfileFile,
    ProfileWalk,
)

_SCHEMA = b"speedscope.app/file-format-schema.json"
_MAX_TICKS = 1 << 61
_STEP_SHARE = 0.02
"""Of what is left, for each step: how many there are is known only at the end."""
_AT_ONCE = 1 << 15
"""Weights, in tens of milliseconds."""
_NO_TICKS = np.iinfo(np.int64).min
_NAMELESS = "[unknown]"
_DERIVED = int(SpanFlag.INFERRED_START | SpanFlag.INFERRED_END)


class SpeedscopeReader:
    """Reads files of speedscope."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its keys."""
        if b"\0" in head.data or b'"profiles"' not in head.data:
            return NOT_MINE
        if _SCHEMA in head.data:
            return Sniff(95, "the schema of speedscope")
        keys = outer_keys(head.data)
        if "profiles" in keys and ("shared" in keys or b'"endValue"' in head.data):
            return Sniff(80, "profiles with shared frames")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError, TruncatedError
            If it has no profile with a sample or event, or is no JSON before the first.
        LimitExceededError
            If one value is too large, or there is too little memory.
        ReadError
            If an option is invalid.
        """
        weights = INFO.option_values(context.options)[WEIGHTS]
        builder = TraceBuilder()
        file = ProfileWalk(source, context, builder).run()
        shown = [p for p in file.profiles if p.n_samples or p.events]
        if file.fault is not None:
            n = sum(p.n_samples + len(p.events) for p in shown)
            note_fault(builder, source, file.fault, f"{n:,} samples and events", n)
        if not shown:
            raise CorruptError(
                "no profile has a sample or an event.",
                hint="Is this a file of speedscope?",
            )
        chosen = _chosen(builder, file, shown, weights)
        _Profiles(builder, file, chosen, _Progress(context, source.size)).add()
        note_change(builder, source.change(), f"{len(shown):,} profiles", source.size)
        about = {key: _text(file.facts.get(key)) for key in ("name", "exporter")}
        n = sum(p.n_samples + len(p.events) for p in shown)
        return file_trace(
            builder, INFO, source, n, _counts(file),
            version=_text(file.facts.get("version")),
            producer={key: text for key, text in about.items() if text},
        )  # fmt: skip


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""


def _counts(file: ProfileFile) -> dict[str, int]:
    """Return how many there are of profiles, frames, samples and events."""
    counts = {
        "profiles": len(file.profiles),
        "frames": len(file.frames),
        "samples": sum(p.n_samples for p in file.profiles),
        "events": sum(len(p.events) for p in file.profiles),
    }
    return {key: n for key, n in counts.items() if n}


def _chosen(
    builder: TraceBuilder, file: ProfileFile, shown: list[Profile], weights: str
) -> list[Profile]:
    """Return the profiles of one kind of unit: asked for, else of the active one."""
    kinds = [kind_of(unit_of(p.text("unit"))[0]) for p in shown]
    active = file.facts.get("activeProfileIndex")
    first = 0
    if isinstance(active, int) and 0 <= active < len(file.profiles):
        is_active = [p is file.profiles[active] for p in shown]
        first = is_active.index(True) if any(is_active) else 0
    kind = weights if weights in kinds else kinds[first]
    others = Counter(k for k in kinds if k != kind)
    if others:
        counts = ", ".join(f"{n:,} in {name}" for name, n in others.items())
        builder.warn(
            Severity.NOTICE,
            "other_weights",
            f"profiles with other units are not shown: {counts}; what is shown weighs "
            f"{kind}.",
            count=sum(others.values()),
            remedy=f"Open with --option {WEIGHTS}={next(iter(others))}.",
        )
    return [p for p, k in zip(shown, kinds, strict=True) if k == kind]


class _Profiles:
    """Fills a builder with some profiles of a file."""

    def __init__(
        self,
        builder: TraceBuilder,
        file: ProfileFile,
        profiles: list[Profile],
        progress: "_Progress",
    ) -> None:
        self._builder, self._profiles, self._progress = builder, profiles, progress
        self._check = progress.step
        self._unit, self._factors = _scale(profiles)
        self._frames = _Frames(file, profiles)
        self._nodes = StackPairTable()
        self._n_bad_weights = self._n_deep = self._n_backwards = 0
        self._n_open = self._n_orphans = self._n_mismatched = 0

    def add(self) -> None:
        """Add lanes, spans, records and what was left out."""
        builder = self._builder
        lanes = [
            add_stack_lane(builder, p.text("name") or f"profile {i + 1}")
            for i, p in enumerate(self._profiles)
        ]
        samples = [self._samples(p, f) for p, f in zip(self._profiles, self._factors,
                                                       strict=True)]  # fmt: skip
        events = [self._events(p, f) for p, f in zip(self._profiles, self._factors,
                                                     strict=True)]  # fmt: skip
        firsts = [int(x.start[0]) for x in samples if len(x.start)]
        firsts += [int(x.time.min()) for x in events if len(x.time)]
        origin = min(firsts, default=0)
        is_time = self._unit == "ns"
        builder.clock = (
            Clock.of_stamps(origin)
            if is_time
            else Clock(self._unit, origin, is_weight=True)
        )
        node = np.concatenate([x.node for x in samples])
        stacks = self._frames.stacks(self._nodes)
        self._nodes = StackPairTable()  # large, and not needed any more
        n = [len(x.start) for x in samples]
        start = np.concatenate([x.start for x in samples])
        end = np.concatenate([x.end for x in samples])
        made = spans_by_time(
            stacks,
            np.repeat(np.array(lanes, np.int64), n),
            start - origin,
            end - origin,
            node.astype(np.int64),
            np.arange(len(node)),
            self._check,
        )
        parts, marks = [made], [np.full(len(made), _DERIVED, np.uint16)]
        n_before = len(node)
        for lane, lane_events in zip(lanes, events, strict=True):
            spans, flags = self._spans_of(lane, lane_events, origin, n_before)
            n_before += len(lane_events.time)
            parts.append(spans)
            marks.append(flags)
        self._check()
        add_stack_spans(
            builder,
            stacks,
            joined(parts),
            np.concatenate(marks),
            is_sampled=len(made) > 0,
        )
        builder.records = _Records(self._frames, stacks, node, events)
        self._warn()

    def _samples(self, profile: Profile, factor: int) -> "_Samples":
        """Return the samples of a profile, one behind the other."""
        n = profile.n_samples
        none = np.zeros(0, np.int64)
        if profile.text("type") == "evented" or not n:
            return _Samples(none, none, none.astype(np.int32))
        weight = np.zeros(n, np.int64)
        known = self._ticks(profile.weights[:n], factor)
        profile.weights.clear()
        self._n_bad_weights += int(np.count_nonzero(known < 0)) + n - len(known)
        weight[: len(known)] = np.maximum(known, 0)
        if float(weight.sum(dtype=np.float64)) >= _MAX_TICKS:
            raise CorruptError("the weights of its samples add up to more than 2^61.")
        end = (ticks_of(profile.facts.get("startValue"), factor) or 0) + weight.cumsum()
        nodes = []
        for frames, depths in profile.taken_stacks():
            self._check()
            numbers = self._frames.numbers(frames)
            node, n_deep = put_stacks(self._nodes, numbers, depths)
            nodes.append(node)
            self._n_deep += n_deep
        return _Samples(end - weight, end, np.concatenate(nodes))

    def _ticks(self, values: list[object], factor: int) -> I64:
        """Return numbers in whole ticks; `_NO_TICKS` where they are none."""
        ticks = np.empty(len(values), np.int64)
        for first in range(0, len(values), _AT_ONCE):
            self._check()
            part = [ticks_of(v, factor) for v in values[first : first + _AT_ONCE]]
            ticks[first : first + len(part)] = [
                _NO_TICKS if one is None else one for one in part
            ]
        return ticks

    def _events(self, profile: Profile, factor: int) -> "_Events":
        """Return the events of a profile in the order of time."""
        times = self._ticks([at for at, _, _ in profile.events], factor)
        known = np.flatnonzero(times != _NO_TICKS)
        profile.n_bad += len(times) - len(known)
        time = times[known]
        rows = [profile.events[i] for i in known.tolist()]
        frame = self._frames.numbers(np.array([row[1] for row in rows], np.int32))
        is_begin = np.array([row[2] for row in rows], np.bool_)
        self._n_backwards += int(np.count_nonzero(time[1:] < time[:-1]))
        order = np.argsort(time, kind="stable")
        last = int(time.max(initial=0))
        stated = ticks_of(profile.facts.get("endValue"), factor)
        return _Events(
            time[order],
            frame[order],
            is_begin[order],
            last if stated is None else max(last, stated),
        )

    def _spans_of(
        self, lane: int, events: "_Events", origin: int, n_before: int
    ) -> tuple[StackSpans, U16]:
        """Return spans and flags of what opens and closes."""
        n = len(events.time)
        partner = np.empty(n, np.int32)
        self._n_mismatched += int(
            library().ggscope_chrome_pair(
                n, np.zeros(n, np.int32), events.is_begin.view(np.uint8), events.frame,
                np.empty(n, np.int32), partner,
            )
        )  # fmt: skip
        is_open = events.is_begin & (partner < 0)
        is_orphan = ~events.is_begin & (partner < 0)
        self._n_open += int(np.count_nonzero(is_open))
        self._n_orphans += int(np.count_nonzero(is_orphan))
        step = np.where(events.is_begin, 1, np.where(is_orphan, 0, -1))
        is_deep = events.is_begin & (np.cumsum(step) > MAX_FRAMES)
        self._n_deep += int(np.count_nonzero(is_deep))
        begins = np.flatnonzero(events.is_begin & ~is_deep)
        other = partner[begins]
        end = np.where(other >= 0, events.time[other], events.end) if n else begins
        flags = np.where(other >= 0, 0, int(SpanFlag.UNFINISHED)).astype(np.uint16)
        spans = StackSpans(
            np.full(len(begins), lane, np.int64),
            events.time[begins] - origin,
            end - origin,
            events.frame[begins],
            np.full(len(begins), -1, np.int64),
            begins + n_before,
        )
        return spans, flags

    def _warn(self) -> None:
        """Say what was left out and what was repaired."""
        builder = self._builder
        warn_of_depth(builder, self._n_deep)
        n_bad = sum(profile.n_bad for profile in self._profiles)
        for n, severity, code, text in (
            (
                n_bad,
                Severity.DATA_LOSS,
                "bad_sample",
                "samples or events have no frame or no time; they are left out.",
            ),
            (
                self._frames.n_beyond,
                Severity.NOTICE,
                "bad_frame",
                "frames of samples are not in the list of frames; they are named by "
                "their number.",
            ),
            (
                self._n_bad_weights,
                Severity.DATA_LOSS,
                "bad_weight",
                "weights are below zero or no numbers; their samples are left out.",
            ),
            (
                self._n_backwards,
                Severity.NOTICE,
                "samples_out_of_order",
                "events are earlier than the one before them; they were sorted.",
            ),
            (
                self._n_open,
                Severity.NOTICE,
                "begin_without_end",
                "frames are opened and not closed; they are drawn up to the end of "
                "their profile, and how long they took is unknown.",
            ),
            (
                self._n_orphans,
                Severity.NOTICE,
                "end_without_begin",
                "frames are closed that were not opened; these ends are left out.",
            ),
            (
                self._n_mismatched,
                Severity.NOTICE,
                "mismatched_end",
                "ends have another frame than every open one; they close the last one.",
            ),
        ):
            if n:
                builder.warn(severity, code, text, count=n)


class _Progress:
    """How far making spans is, as a part of what is left behind reading."""

    def __init__(self, context: ReadContext, size: int) -> None:
        self._context, self._size = context, size
        self._left = 1 - READ_SHARE

    def step(self) -> None:
        """Go on by a little; raises Cancelled where that was asked for."""
        self._left *= 1 - _STEP_SHARE
        self._context.progress(int((1 - self._left) * self._size), self._size)


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Samples with their begins and ends in ticks, and their nodes."""

    start: I64
    end: I64
    node: I32


@dataclass(frozen=True, slots=True, eq=False)
class _Events:
    """What opens and closes, in ticks; `end`: where its profile ends."""

    time: I64
    frame: I32
    is_begin: Bools
    end: int


class _Frames:
    """The frames of a file, with those that only samples name behind them.

    Attributes
    ----------
    n_beyond : different frames that are not in the file's list.
    """

    def __init__(self, file: ProfileFile, profiles: list[Profile]) -> None:
        self._known = file.frames
        used = [part for profile in profiles for part in profile.frames]
        used.append(np.array([e[1] for p in profiles for e in p.events], np.int32))
        beyond = [part[self._is_beyond(part)] for part in used]
        self._beyond = np.unique(np.concatenate(beyond))
        self.n_beyond = len(self._beyond)

    def _is_beyond(self, frame: I32) -> Bools:
        return (frame < 0) | (frame >= len(self._known))

    def numbers(self, frame: I32) -> I32:
        """Return the numbers of frames in this list."""
        is_beyond = self._is_beyond(frame)
        if not is_beyond.any():
            return frame
        number = frame.copy()
        places = np.searchsorted(self._beyond, frame[is_beyond])
        number[is_beyond] = len(self._known) + places
        return number

    def stacks(self, nodes: StackPairTable) -> Stacks:
        """Return the tree of all stacks with the texts of the frames."""
        texts: dict[str, int] = {}

        def number(text: str) -> int:
            return texts.setdefault(text, len(texts)) if text else -1

        name = [number(frame[0] or _NAMELESS) for frame in self._known]
        part = [number(frame[1]) for frame in self._known]
        for one in self._beyond.tolist():
            name.append(number(f"frame {one}" if one >= 0 else _NAMELESS))
            part.append(-1)
        parent, frame = nodes.columns()
        columns = np.array(name, np.int32), np.array(part, np.int32)
        return Stacks(parent, frame, *columns, tuple(texts))

    def text(self, frame: int) -> str:
        """Return what the file says of a frame: name, file:line:column."""
        if frame >= len(self._known):
            one = int(self._beyond[frame - len(self._known)])
            return f"frame {one}" if one >= 0 else _NAMELESS
        name, file, *places = self._known[frame]
        spots = [str(place) for place in places if integer_of(place) is not None]
        where = ":".join([file, *spots]) if file else ", line ".join(["", *spots[:1]])
        return f"{name or _NAMELESS} {where}".strip()


class _Records:
    """Gives back samples, and behind these events, by their number."""

    def __init__(
        self, frames: _Frames, stacks: Stacks, node: Array, events: list[_Events]
    ) -> None:
        def texts(record: int) -> list[str]:
            return [frames.text(f) for f in stacks.frames_of(int(node[record]))]

        self._samples = StackRecords(stacks, node, lambda _: [], texts)
        self._n_samples, self._frames = len(node), frames
        self._frame = np.concatenate([e.frame for e in events])

    def view(self, record: int) -> RecordView:
        """Return a sample or an event.

        Raises
        ------
        ReadError
            If there is none.
        """
        at = record - self._n_samples
        if not 0 <= at < len(self._frame):
            return self._samples.view(record)
        text = self._frames.text(int(self._frame[at]))
        return RecordView(-1, b"", (("frame", text, -1, 0),))


def _scale(profiles: list[Profile]) -> tuple[Unit, list[int]]:
    """Return what a tick is, and the ticks in one of each profile's unit."""
    units = [unit_of(profile.text("unit")) for profile in profiles]
    values = chain(
        chain.from_iterable(profile.weights for profile in profiles),
        (event[0] for profile in profiles for event in profile.events),
        (p.facts.get(k) for p in profiles for k in ("startValue", "endValue")),
    )
    if not are_whole(values):
        units = [with_decimals(*unit) for unit in units]
    return units[0][0], [factor for _, factor in units]
