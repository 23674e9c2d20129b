"""Packets of Perfetto as its own description reads them: the oracle of our writer."""

from collections import defaultdict


def slices_of(data: bytes) -> list[tuple[int, int, str, str]]:
    """Return duration, begin, name and category of the slices that end.

    Packets of a track count in the order of time, those of one time as they come. An
    end is of the slice that began last.
    """
    return [row[:4] for row in _slices(data) if row[0] is not None]


def arrows_of(data: bytes) -> list[tuple[int, int]]:
    """Return the begins of the slices that arrows lead from and to, in order."""
    begins, ends = defaultdict(list), defaultdict(list)
    for row in _slices(data):
        for flow in row[4]:
            begins[flow].append(row[1])
        for flow in row[5]:
            ends[flow].append(row[1])
    assert all(len(at) == 1 for at in (*begins.values(), *ends.values()))
    assert begins.keys() == ends.keys()
    return sorted((begins[flow][0], ends[flow][0]) for flow in begins)


def _slices(data: bytes) -> list[tuple]:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    names: dict[int, str] = {}
    categories: dict[int, str] = {}
    events = []
    for packet in Trace.FromString(data).packet:
        names |= {e.iid: e.name for e in packet.interned_data.event_names}
        categories |= {e.iid: e.name for e in packet.interned_data.event_categories}
        if packet.HasField("track_event"):
            event = packet.track_event
            parts = (
                names.get(event.name_iid),
                [categories[iid] for iid in event.category_iids],
            )
            events.append((packet.timestamp, event, *parts))
    events.sort(key=lambda row: row[0])
    opened: dict[int, list[list]] = defaultdict(list)
    rows: list[list] = []
    for time, event, name, parts in events:
        stack = opened[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_END:
            row = stack.pop()
            row[0] = time - row[1]
        elif event.type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_INSTANT):
            flows = list(event.flow_ids), list(event.terminating_flow_ids)
            rows.append([None, time, name, "".join(parts), *flows])
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                stack.append(rows[-1])
    return [tuple(row) for row in rows]
