"""Single events of a ``.ggmlviz`` file, read again when somebody looks at one."""

from pathlib import Path

import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model.tables import I64
from ggscope.model.trace import RecordView
from ggscope.readers.ggmlviz_layouts import (
    PREFIX_BYTES,
    EventType,
    Layout,
    RawEvent,
    walk,
)
from ggscope.readers.source import read_at

STRIDE = 64
"""Every so many events one offset is kept; the others are walked to from there."""

_SHOWN_BYTES = 4096


class GgmlvizRecords:
    """Decodes single events of one file.

    Parameters
    ----------
    path : the file.
    layout : layout of its events.
    offsets : int64[n + 1], where each event starts, then where the last one ends.
    resumed : rows that cannot be walked to, because of damage in front of them.
    """

    def __init__(self, path: Path, layout: Layout, offsets: I64, resumed: I64) -> None:
        self._path = path
        self._layout = layout
        self._n = len(offsets) - 1
        self._rows = np.union1d(
            np.arange(0, self._n, STRIDE), resumed[resumed < self._n]
        )
        self._offsets = np.append(offsets[self._rows], offsets[-1])

    def __len__(self) -> int:
        return self._n

    def view(self, record: int) -> RecordView:
        """Return event `record` with its fields in the order of the file.

        Raises
        ------
        ReadError
            If there is no such event, or none any more at its place.
        """
        if not 0 <= record < self._n:
            raise ReadError(f"there is no event {record:,}.", path=self._path)
        group = int(np.searchsorted(self._rows, record, "right")) - 1
        start, end = self._offsets[group : group + 2].tolist()
        data = read_at(self._path, start, end - start)
        events = walk(data, 0, self._layout, len(data))
        for number, event in enumerate(events, int(self._rows[group])):
            if number == record:
                raw = data[event.offset : event.offset + min(event.size, _SHOWN_BYTES)]
                return RecordView(start + event.offset, raw, self._fields(event))
        raise CorruptError(
            f"event {record:,} is no longer where it was.", path=self._path,
            offset=start, reader_id="ggmlviz", hint="The file has changed: reload it.",
        )  # fmt: skip

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
            found += [
                ("label_len", str(n), flag + 1, 4),
                ("label", text, flag + 5, n),
            ]
        return tuple(found)
