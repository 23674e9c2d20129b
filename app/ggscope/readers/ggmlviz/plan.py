"""How a ``.ggmlviz`` file is to be read, and what that would cost."""

from collections.abc import Mapping
from dataclasses import dataclass

from ggscope.readers.api import (
    NAMES_CHOICES,
    NAMES_OPTION,
    RANGE_OPTION,
    Estimate,
    Head,
    ReadContext,
    asked_range,
)
from ggscope.readers.ggmlviz import (
    AUTO,
    INFO,
    LAYOUT_OPTION,
    NUMBERING_OPTION,
    OPS_OPTION,
)
from ggscope.readers.ggmlviz.columns import (
    EVENT_BYTES,
    NAMES_EVERY,
    EventOptions,
)
from ggscope.readers.ggmlviz.layouts import (
    DETECT_BYTES,
    HEADER_BYTES,
    LAYOUT_BY_ID,
    MAGIC,
    EventLayout,
    detect,
    walk,
)
from ggscope.readers.source import Source

_SAMPLED_EVENTS = 1024
_USUAL_EVENT_BYTES = 56
_ENDLESS = 1 << 62
_HOLE_BYTES = 8192
"""So much of a sparse file's empty end is read: enough to see that it is zeros."""

_SPAN_BYTES = 40
_BESIDE_BYTES = 28
"""What a span takes in the trace; and at worst beside the events while it is made."""


@dataclass(frozen=True, slots=True)
class GgmlvizOptions:
    """What to read, and as what.

    Attributes
    ----------
    end : bytes of the file that are looked at; the empty end of a sparse file is
        left out but for a little.
    n_events : about how many events that is.
    ops : op table, or "auto".
    shown : those that shape the trace, as `TraceInfo` holds them.
    numbering : which numbers barriers and threads have; see `readers.ggmlviz.threads`.
    """

    layout: EventLayout
    wanted: EventOptions
    end: int
    n_events: int
    ops: str
    shown: dict[str, str]
    numbering: str = "auto"


def choose(source: Source, context: ReadContext) -> GgmlvizOptions:
    """Return what the options ask for.

    Raises
    ------
    ReadError
        If one of them has a value that does not exist.
    """
    chosen = INFO.chosen(context.options)
    head = source.head(DETECT_BYTES)
    name = chosen[LAYOUT_OPTION]
    layout = detect(head, source.size) if name == AUTO else LAYOUT_BY_ID[name]
    written = max((end for _, end in source.data_extents()), default=0)
    end = min(source.size, max(written, HEADER_BYTES) + _HOLE_BYTES)
    n_events, _ = _counted(head, end, layout)
    shown = {"layout": layout.id}
    names = chosen[NAMES_OPTION]
    if names != NAMES_CHOICES[0]:
        shown[NAMES_OPTION] = names
    first, stop = _range(context.options, n_events)
    if first or stop is not None:
        shown[RANGE_OPTION] = f"{first}:{'' if stop is None else stop}"
        last = n_events if stop is None else min(stop, n_events)
        n_events = max(last - first, 0)
    wanted = EventOptions(
        first=first,
        stop=stop,
        names_every=NAMES_EVERY[names],
        memory_bytes=context.limits.memory_bytes,
    )
    numbering = chosen[NUMBERING_OPTION]
    if numbering != AUTO:
        shown[NUMBERING_OPTION] = numbering
    return GgmlvizOptions(
        layout, wanted, end, n_events, chosen[OPS_OPTION], shown, numbering
    )


def estimate(head: Head) -> Estimate | None:
    """Return what reading a whole file would cost; None where that is unknown."""
    if not head.data.startswith(MAGIC):
        return None
    layout = detect(head.data, head.size)
    n_events, share = _counted(head.data, head.size, layout)
    spans = int(n_events * share)
    peak = n_events * EVENT_BYTES + spans * _BESIDE_BYTES
    return Estimate(
        records=n_events,
        final_bytes=spans * _SPAN_BYTES,
        peak_bytes=peak + (16 << 20),
        can_range=True,
        can_sample_names=True,
    )


def _counted(head: bytes, end: int, layout: EventLayout) -> tuple[int, float]:
    """Return about how many events a file has, and the share of begins in them."""
    n_events = n_begins = 0
    at = HEADER_BYTES
    for event in walk(head, HEADER_BYTES, layout):
        n_events += 1
        n_begins += event.type in (0, 2)
        at = event.offset + event.size
        if n_events == _SAMPLED_EVENTS:
            break
    each = (at - HEADER_BYTES) / n_events if n_events else _USUAL_EVENT_BYTES
    share = n_begins / n_events if n_events else 0.5
    return max(round((end - HEADER_BYTES) / each), 0), share


def _range(options: Mapping[str, str], n_events: int) -> tuple[int, int | None]:
    """Return the first event and the one behind the last; None = to the end.

    How many events there are is known only at the end of reading: numbers are
    taken as they are, and shares are those of about so many.
    """
    text = options.get(RANGE_OPTION, "").strip()
    if not text:
        return 0, None
    if "%" not in text:
        n_events = _ENDLESS
    first, stop = asked_range(options, n_events)
    is_open = stop == _ENDLESS or (stop == n_events and text.endswith(":"))
    return first, None if is_open else stop
