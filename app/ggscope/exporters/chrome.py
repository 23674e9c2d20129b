"""A trace as Chrome trace events: what Perfetto, Tracy and speedscope open.

Form: the Trace Event Format, JSON object with ``traceEvents``; ``ts`` and ``dur`` are
microseconds, written with three digits behind the point, which are nanoseconds. Names
are UTF-8 as it is: Perfetto does not decode escapes in them. A span without a recorded
end is a begin without an end where its track allows that, else an instant.

``otherData`` holds what trace events have no place for, so that `ggscope` reads back
the same lanes, clock and counters; arguments ``span`` of arrows and waits are the
number of the span among the spans of the file.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from ggscope.exporters.event_rows import EventRows, Rows
from ggscope.exporters.events import Events
from ggscope.model.tables import CounterSeries, CounterShape, distinct
from ggscope.model.trace import LaneKind
from ggscope.model.units import format_count
from ggscope.native.declared import ExportRows, ExportTexts
from ggscope.native.library import library
from ggscope.sanitize import json_strings, json_text

VERSION = 2
_PIECE_BYTES = 4 << 20
_BLOCK_ROWS = 1 << 17
MAX_ABOUT = 1 << 19
"""Characters about lanes or counters; with more there is nothing about them."""
_NUMBER_BYTES = 32
_FLOW = "flow"


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces of some megabytes."""
    rows = EventRows(events)
    counters = _counter_names(events)
    about = json_text(_about(rows, counters))
    yield f'{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[\n'.encode()
    lines = _metadata(events)
    for piece in iter(lambda: list(itertools.islice(lines, 4096)), []):
        yield "".join(piece).encode()
    writer = _Writer(rows)
    for block in rows.spans():
        yield from writer.written(block)
    for block in rows.markers():
        yield from writer.written(block)
    for series, name in zip(events.counters, counters, strict=True):
        yield from writer.counter(series, name)
    yield from writer.arrows()
    yield b"\n]}\n"


def _about(rows: EventRows, counters: Sequence[str]) -> dict[str, object]:
    """Return what the file says of itself."""
    events = rows.events
    trace, clock = events.trace, events.trace.clock
    about: dict[str, object] = {
        "file": trace.info.name,
        "format": trace.info.format,
        "clock": clock.unit,
        "shift": events.shift,
        "origin": str(clock.origin),
        "written by": "ggscope",
        "version": VERSION,
    }
    if clock.hz is not None:
        about["hz"] = clock.hz
    if clock.epoch is not None:
        about["epoch"] = str(clock.epoch)
    if clock.is_weight:
        about["axis"] = "weight"
    if rows.has_categories:
        about["cat"] = "category"
        about["categories without op"] = rows.categories_without_op[:_BLOCK_ROWS]
    more: dict[str, object] = {
        "lanes": about_lanes(events),
        "counters": about_counters(events, counters),
    }
    return about | {
        key: value
        for key, value in more.items()
        if value and len(json_text(value)) <= MAX_ABOUT
    }


def about_lanes(events: Events) -> dict[str, object]:
    """Return groups of processes, kinds of lanes, and which tracks are of one lane."""
    trace, lanes = events.trace, events.trace.lanes
    groups: dict[int, list[str]] = {}
    for lane, group in enumerate(lanes.group.tolist()):
        groups.setdefault(events.process_of(lane), list(lanes.groups[group]))
    first: dict[int, int] = {}
    for track in events.tracks:
        first.setdefault(track.lane, track.number)
    places = ((int(lanes.kinds[lane]), events.process_of(lane)) for lane in first)
    runs = [
        [LaneKind(kind).name.lower(), process, len(list(run))]
        for (kind, process), run in itertools.groupby(places)
    ]
    over = {
        number: first[int(other)]
        for lane, number in first.items()
        if (other := trace.lanes.attributes[lane].get("over", "")).isdecimal()
        and int(other) in first
    }
    return {
        "groups": [groups.get(i, []) for i in range(1, len(events.processes) + 1)],
        "runs": runs,
        "further": [
            [track.number, first[track.lane]]
            for track in events.tracks
            if track.number != first[track.lane]
        ],
        "over": list(map(list, over.items())),
    }


def about_counters(events: Events, names: Sequence[str]) -> list[dict[str, object]]:
    """Return name, unit and shape of each counter, by the name of its events."""
    about = []
    for series, name in zip(events.counters, names, strict=True):
        facts: dict[str, object] = {
            "event": name,
            "name": series.name,
            "unit": series.unit,
            "process": events.process_of(series.lane),
        }
        if series.shape != CounterShape.LEVEL:
            facts["shape"] = series.shape.name.lower()
        if (window := _window(series)) is not None:
            facts["window"] = window
        about.append(facts)
    return about


def _window(series: CounterSeries) -> int | None:
    """Return how wide the windows of a counter are, where all are alike."""
    if series.window is None or not len(series.window):
        return None
    width = int(series.window[0])
    return width if bool((series.window == width).all()) else None


def _counter_names(events: Events) -> list[str]:
    """Return the name of each counter's events; no two of a process have the same."""
    names = [
        f"{series.name} ({series.unit})" if series.unit else series.name
        for series in events.counters
    ]
    seen: Counter[tuple[int, str]] = Counter()
    for i, series in enumerate(events.counters):
        key = events.process_of(series.lane), names[i]
        seen[key] += 1
        if seen[key] > 1:
            names[i] = f"{series.name} · {seen[key]} ({series.unit})"
    return names


def _metadata(events: Events) -> Iterator[str]:
    between = ""
    for number, name in enumerate(events.processes, 1):
        yield between + _named("process", number, 0, name)
        yield ",\n" + _sorted_by("process", number, 0, number)
        between = ",\n"
    for track in events.tracks:
        yield between + _named("thread", track.process, track.number, track.name)
        yield ",\n" + _sorted_by("thread", track.process, track.number, track.number)


def _named(what: str, process: int, track: int, name: str) -> str:
    return (
        f'{{"ph":"M","name":"{what}_name","pid":{process},"tid":{track},'
        f'"args":{{"name":{json_text(name)}}}}}'
    )


def _sorted_by(what: str, process: int, track: int, place: int) -> str:
    return (
        f'{{"ph":"M","name":"{what}_sort_index","pid":{process},"tid":{track},'
        f'"args":{{"sort_index":{place}}}}}'
    )


class _Writer:
    """Writes rows as JSON, each with a comma before it."""

    def __init__(self, rows: EventRows) -> None:
        self._rows, self._texts = rows, rows.texts
        events = rows.events
        members = [
            f'"pid":{track.process},"tid":{track.number}' for track in events.tracks
        ]
        self._n_tracks = len(members)
        members += [f'"pid":{i + 1}' for i in range(len(events.processes))]
        self._tracks = _blob(members)
        self._local = np.zeros(0, np.int32)
        self._buffer = np.empty(_PIECE_BYTES, np.uint8)

    def written(self, rows: Rows) -> Iterator[bytes]:
        """Yield some spans or markers in pieces."""
        n, texts = len(rows), self._texts
        keys = [texts.word(key) for key in rows.args]
        columns = [rows.name, rows.category, np.array(keys, np.int64)]
        columns += [values for is_text, values in rows.args.values() if is_text]
        used = distinct(np.concatenate([distinct(column) for column in columns]))
        used = used[used >= 0]
        if len(self._local) < texts.n + 1:
            self._local = np.full(texts.n + 1 + _BLOCK_ROWS, -1, np.int32)
        self._local[used] = np.arange(len(used))
        local = self._local
        local[-1] = -1
        args = np.empty((len(keys), n), np.int64)
        for row, (is_text, values) in zip(args, rows.args.values(), strict=True):
            row[:] = local[values] if is_text else values
        yield from self._json(
            ExportRows(
                n=n,
                n_args=len(keys),
                kind=rows.kind,
                start=rows.start,
                end=rows.end,
                name=local[rows.name],
                category=local[rows.category],
                track=rows.track,
                args=args,
                key=local[keys],
                is_text=np.array([t for t, _ in rows.args.values()], np.uint8),
            ),
            _blob(json_strings([texts[number] for number in used.tolist()])),
        )

    def counter(self, series: CounterSeries, name: str) -> Iterator[bytes]:
        """Yield the samples of a counter that are numbers."""
        events = self._rows.events
        known = np.flatnonzero(np.isfinite(series.value))
        track = self._n_tracks + events.process_of(series.lane) - 1
        for begin in range(0, len(known), _BLOCK_ROWS):
            at = known[begin : begin + _BLOCK_ROWS]
            n = len(at)
            # The shortest digits that mean the same float, as Python writes them.
            numbers = [repr(value).encode() for value in series.value[at].tolist()]
            number = np.array(numbers, f"S{_NUMBER_BYTES}")
            time = series.time[at] + events.shift
            yield from self._json(
                ExportRows(
                    n=n,
                    kind=np.full(n, ord("C"), np.uint8),
                    start=time,
                    end=time,
                    name=np.zeros(n, np.int32),
                    category=np.full(n, -1, np.int32),
                    track=np.full(n, track, np.int32),
                    number=number.view(np.uint8),
                ),
                _blob([json_text(name)]),
            )

    def arrows(self) -> Iterator[bytes]:
        """Yield begin and end of each arrow, within its spans."""
        rows, events = self._rows, self._rows.events
        source, target = events.arrows()
        nesting, s = rows.nesting, events.trace.spans
        start = s.start[events.spans]
        at = np.where(nesting.has_moment, nesting.moment, start) + events.shift
        texts = _blob(json_strings([_FLOW, "span"]))
        for begin in range(0, len(source), _BLOCK_ROWS):
            part = slice(begin, begin + _BLOCK_ROWS)
            place = np.stack([source[part], target[part]], 1).ravel()
            n = len(place)
            number = np.arange(n) // 2 + begin + 1
            yield from self._json(
                ExportRows(
                    n=n,
                    n_args=1,
                    kind=np.tile(np.array([ord("s"), ord("f")], np.uint8), n // 2),
                    start=at[place],
                    end=at[place],
                    name=np.zeros(n, np.int32),
                    category=np.zeros(n, np.int32),
                    track=events.track[place],
                    args=place,
                    key=np.array([1], np.int32),
                    is_text=np.zeros(1, np.uint8),
                    id=number,
                ),
                texts,
            )

    def _json(self, rows: ExportRows, texts: ExportTexts) -> Iterator[bytes]:
        place = np.zeros(2, np.int64)
        while place[0] < rows.n:
            needed = library().ggscope_export_json(
                rows, texts, self._tracks, int(place[0]), len(self._buffer),
                self._buffer, place,
            )  # fmt: skip
            if place[1]:
                yield self._buffer[: place[1]].tobytes()
            elif needed:
                self._buffer = np.empty(int(needed), np.uint8)


def _blob(texts: Sequence[str]) -> ExportTexts:
    """Return texts one behind the other."""
    parts = [text.encode() for text in texts]
    offset = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offset[1:])
    # An array without bytes has no address.
    data = np.frombuffer(b"".join(parts) + b"\0", np.uint8)
    return ExportTexts(bytes=data, offset=offset)


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    messages = events.losses(has_arrows=True)
    n_unfinished, n_open = int(events.is_unfinished.sum()), int(events.is_open.sum())
    if n_unfinished:
        messages.append(
            f"Spans without a recorded end: {format_count(n_open)} as open slices, "
            f"{format_count(n_unfinished - n_open)} as instants."
        )
    m = events.trace.markers
    if events.trace.log is not None and (m.detail[events.markers] >= 0).any():
        messages.append("Log texts omitted: they may contain user names and prompts.")
    unknown = sum(
        int(np.count_nonzero(~np.isfinite(series.value))) for series in events.counters
    ) + sum(map(_window_gaps, events.counters))
    if unknown:
        plural = "" if unknown == 1 else "s"
        messages.append(
            f"Counters have {format_count(unknown)} gap{plural}, where viewers show "
            "the previous value."
        )
    return messages


def _window_gaps(series: CounterSeries) -> int:
    """Return how many windows of a counter end before the next one begins."""
    if series.window is None:
        return 0
    return int(np.count_nonzero((series.time + series.window)[:-1] < series.time[1:]))
