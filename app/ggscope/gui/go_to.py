"""What "Go to lane or tensor" offers."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QCoreApplication

from ggscope.analysis.index import TraceIndex
from ggscope.gui.palette import Entry

MAX_ENTRIES = 20_000


def lane_and_tensor_entries(
    index: TraceIndex,
    go_to_lane: Callable[[str], object],
    find_tensor: Callable[[str], object],
) -> list[Entry]:
    """Return the lanes of a trace, then its tensors, at most 20,000 in all."""
    trace = index.trace
    entries = [
        Entry(lane.title, partial(go_to_lane, lane.key), lane.group)
        for lane in index.lanes[:MAX_ENTRIES]
    ]
    kind = QCoreApplication.translate("GoTo", "tensor")
    for name_id in trace.tensors.name[: MAX_ENTRIES - len(entries)]:
        if name_id >= 0:
            name = trace.strings[int(name_id)]
            entries.append(Entry(name, partial(find_tensor, name), kind))
    return entries


__all__ = ["lane_and_tensor_entries"]
