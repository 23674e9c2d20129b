"""Single events of a ``.ggmlviz`` file, read again when somebody looks at one."""

from pathlib import Path

import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model.trace import RecordView
from ggscope.readers.ggmlviz.layouts import (
    PREFIX_BYTES,
    EventLayout,
    EventType,
    RawEvent,
    walk,
)
from ggscope.readers.ggmlviz.walk import Anchors
from ggscope.readers.source import read_at

_SHOWN_BYTES = 4096


class GgmlvizRecords:
    """Decodes single events of one file.

    Parameters
    ----------
    path : the file.
    layout : layout of its events.
    anchors : where some of them start; the others are walked to from there.
    """

    def __init__(self, path: Path, layout: EventLayout, anchors: Anchors) -> None:
        self._path = path
        self._layout = layout
        self._anchors = anchors

    def __len__(self) -> int:
        return self._anchors.n

    def view(self, record: int) -> RecordView:
        """Return event `record` with its fields in the order of the file.

        Raises
        ------
        ReadError
            If there is no such event, or none any more at its place.
        """
        start, data, event = self._found(record)
        raw = data[event.offset : event.offset + min(event.size, _SHOWN_BYTES)]
        return RecordView(start + event.offset, raw, self._fields(event))

    def offset(self, record: int) -> int:
        """Return where event `record` starts; roughly where the file has changed."""
        try:
            start, _, event = self._found(record)
        except ReadError:
            return self._stretch(record)[1]
        return start + event.offset

    def _stretch(self, record: int) -> tuple[int, int, int]:
        """Return the event before `record` from which to walk, its start and how far.

        A gap, if there is one, belongs to the stretch before it.
        """
        rows, offsets = self._anchors.rows, self._anchors.offsets
        group = int(np.searchsorted(rows, record, "right")) - 1
        start, end = offsets[group : group + 2].tolist()
        return int(rows[group]), start, end

    def _found(self, record: int) -> tuple[int, bytes, RawEvent]:
        """Return a place in the file, the bytes there, and the event in them."""
        if not 0 <= record < len(self):
            raise ReadError(f"there is no event {record:,}.", path=self._path)
        first, start, end = self._stretch(record)
        data = read_at(self._path, start, end - start)
        events = walk(data, 0, self._layout, len(data))
        for number, event in enumerate(events, first):
            if number == record:
                return start, data, event
        raise CorruptError(
            f"event {record:,} is no longer where it was.",
            path=self._path,
            offset=start,
            reader_id="ggmlviz",
            hint="The file has changed: reload it.",
        )

    def _fields(self, event: RawEvent) -> tuple[tuple[str, str, int, int], ...]:
        kinds = {int(kind): kind.name for kind in EventType}
        named = kinds.get(event.type, "unknown")
        found = [
            ("type", f"{event.type} {named}", 0, 1),
            ("timestamp_ns", str(event.timestamp_ns), 1, 8),
            ("thread_id", str(event.thread_id), 9, 4),
        ]
        for name, at, width in self._layout.member(event.type):
            value = event.values[name]
            text = f"0x{value:x}" if name.endswith("ptr") else str(value)
            found.append((name, text, PREFIX_BYTES + at, width))
        flag = int(self._layout.body_bytes[event.type]) - 1
        found.append(("has_label", str(int(event.label is not None)), flag, 1))
        if event.label is not None:
            n = len(event.label)
            text = event.label.decode("utf-8", "replace")
            found += [("label_len", str(n), flag + 1, 4), ("label", text, flag + 5, n)]
        return tuple(found)
