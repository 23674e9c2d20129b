"""A trace as Chrome trace events: what Perfetto, Tracy and speedscope open.

Form: the Trace Event Format, JSON object with ``traceEvents``; ``ts`` and ``dur`` are
microseconds, written with three digits behind the point, which are nanoseconds. Names
are UTF-8 as it is: Perfetto does not decode escapes in them. A span without a recorded
end is a begin without an end where its track allows that, else an instant.
"""

import math
from collections.abc import Iterator

import numpy as np

from ggscope.exporters.events import Events, Track
from ggscope.model.tables import CounterSeries
from ggscope.model.units import format_count
from ggscope.sanitize import json_text

_PIECE_CHARS = 1 << 20


def chunks(events: Events) -> Iterator[bytes]:
    """Yield the file in pieces of about a megabyte."""
    trace, lines, size = events.trace, [], 0
    about = {
        "file": trace.info.name,
        "format": trace.info.format,
        "clock": trace.clock.unit,
        "shift": events.shift,
        "origin": str(trace.clock.origin),
        "written by": "ggscope",
    }
    if has_categories(events):
        about["cat"] = "category"
    if trace.clock.is_weight:
        about["axis"] = "weight"
    yield (
        '{"displayTimeUnit":"ns","otherData":'
        f'{json_text(about)},"traceEvents":[\n'.encode()
    )
    separator = ""
    for line in _lines(events):
        lines.append(separator + line)
        size += len(line)
        separator = ",\n"
        if size > _PIECE_CHARS:
            yield "".join(lines).encode()
            lines, size = [], 0
    yield ("".join(lines) + "\n]}\n").encode()


def has_categories(events: Events) -> bool:
    """Return whether events have the category that a Chrome trace gave them.

    Their names are their ops then; else the category of an event is its op.
    """
    return events.trace.info.reader_id == "chrome-json" and (
        events.trace.spans.category is not None
    )


def _lines(events: Events) -> Iterator[str]:
    for number, name in enumerate(events.processes, 1):
        yield _named("process", number, 0, name)
        yield _sorted_by("process", number, 0, number)
    for track in events.tracks:
        yield _named("thread", track.process, track.number, track.name)
        yield _sorted_by("thread", track.process, track.number, track.number)
    yield from _spans(events)
    yield from _markers(events)
    yield from _counters(events)


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


def _spans(events: Events) -> Iterator[str]:
    shift = events.shift
    known: dict[str, str] = {}
    where: dict[Track, str] = {
        track: f'"pid":{track.process},"tid":{track.number}' for track in events.tracks
    }

    def quoted(text: str) -> str:
        quote = known.get(text)
        if quote is None:
            quote = known[text] = json_text(text)
        return quote

    by_category = has_categories(events)
    for slice_ in events.slices(with_waits=True):
        word = slice_.category if by_category else slice_.op
        category = f'"cat":{quoted(word)},' if word else ""
        facts = ",".join(
            f'"{name}":{quoted(fact) if isinstance(fact, str) else fact}'
            for name, fact in slice_.facts.items()
        )
        args = f',"args":{{{facts}}}' if facts else ""
        if not slice_.is_unfinished:
            kind, length = "X", f'"dur":{micros(slice_.end - slice_.start)},'
        else:
            kind, length = ("B", "") if slice_.is_open else ("i", '"s":"t",')
        yield (
            f'{{"ph":"{kind}","name":{quoted(slice_.name)},{category}'
            f'"ts":{micros(slice_.start + shift)},{length}{where[slice_.track]}{args}}}'
        )


def _markers(events: Events) -> Iterator[str]:
    trace, m = events.trace, events.trace.markers.take(events.markers)
    rows = zip(m.time.tolist(), m.lane.tolist(), m.name.tolist(), strict=True)
    for time, lane, name in rows:
        track = events.track_of(lane)
        yield (
            f'{{"ph":"i","s":"t","name":{json_text(trace.strings[name] or "–")},'
            f'"ts":{micros(time + events.shift)},'
            f'"pid":{track.process},"tid":{track.number}}}'
        )


def _counters(events: Events) -> Iterator[str]:
    for series in events.counters:
        unit = f" ({series.unit})" if series.unit else ""
        name = json_text(f"{series.name}{unit}")
        process = events.process_of(series.lane)
        rows = zip(series.time.tolist(), series.value.tolist(), strict=True)
        for time, value in rows:
            if math.isfinite(value):
                yield (
                    f'{{"ph":"C","name":{name},"ts":{micros(time + events.shift)},'
                    f'"pid":{process},"args":{{"value":{value!r}}}}}'
                )


def micros(ticks: int) -> str:
    """Return nanoseconds as microseconds, exactly: 12345 becomes "12.345"."""
    return f"{ticks // 1000}.{ticks % 1000:03d}"


def losses(events: Events) -> list[str]:
    """Return what the file does not hold, in sentences."""
    messages = events.losses()
    n_unfinished, n_open = int(events.is_unfinished.sum()), int(events.is_open.sum())
    if n_unfinished:
        messages.append(
            f"Spans without a recorded end: {format_count(n_open)} as open slices, "
            f"{format_count(n_unfinished - n_open)} as instants."
        )
    unknown = sum(
        not math.isfinite(value)
        for series in events.counters
        for value in series.value.tolist()
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
