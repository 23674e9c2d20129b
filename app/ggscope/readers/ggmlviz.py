"""Reader of ``.ggmlviz``: the event stream that ggml-viz's hooks write."""

import numpy as np

from ggscope.errors import (
    CorruptError,
    LimitExceededError,
    ReadError,
    TruncatedError,
    UnsupportedVersionError,
)
from ggscope.model import ggml
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import narrow
from ggscope.model.time import Clock
from ggscope.model.trace import OpTable, Trace, TraceInfo
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.ggmlviz_build import (
    add_intervals,
    add_memory,
    choose_ops,
    type_name,
)
from ggscope.readers.ggmlviz_events import Events, Stream, gather
from ggscope.readers.ggmlviz_layouts import (
    DETECT_BYTES,
    HEADER_BYTES,
    LAYOUT_BY_ID,
    MAGIC,
    Layout,
    detect,
)
from ggscope.readers.ggmlviz_notes import (
    note_changed,
    note_damage,
    note_end,
    note_gaps,
    note_ops,
    note_pairing,
    note_version,
)
from ggscope.readers.ggmlviz_pairing import pair_events
from ggscope.readers.ggmlviz_records import GgmlvizRecords
from ggscope.readers.ggmlviz_scan import find_events
from ggscope.readers.ggmlviz_walk import PADDING, Bytes
from ggscope.readers.source import BLOCK_BYTES, Source

VERSION = 1
_HOLE_BYTES = 8192
"""So much of a sparse file's empty end is read: enough to see that it is zeros."""

_OPTIONS = {
    "layout": "layout of the events: auto or one of " + ", ".join(LAYOUT_BY_ID),
    "ops": "op table: auto or the id of one, such as ggml-2025-06-30-86",
}


class GgmlvizReader:
    """Reads graph, op and memory events; see the modules ``ggmlviz_*``."""

    info = ReaderInfo(
        id="ggmlviz",
        title="ggml-viz event stream",
        suffixes=(".ggmlviz",),
        doc="Begin and end events of graphs and ops, and memory events, as the hooks "
        "of ggml-viz write them.",
        options=_OPTIONS,
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge by the magic number, else by the suffix."""
        data = head.data[:HEADER_BYTES]
        if data.startswith(MAGIC):
            if len(data) < HEADER_BYTES:
                return Sniff(90, "the magic number, and a header that is cut")
            version = int.from_bytes(data[len(MAGIC) :], "little")
            return Sniff(
                100 if version == VERSION else 90, f"magic number, version {version}"
            )
        if _is_other_version(data):
            return Sniff(90, f"magic number {_shown(data)}, not {_shown(MAGIC)}")
        if data and head.size < HEADER_BYTES and MAGIC.startswith(data):
            # One to three letters could begin anything.
            return Sniff(90 if len(data) > 3 else 25, "the beginning of the header")
        if head.suffix in self.info.suffixes:
            return Sniff(10, "only the name says so: the magic number is missing")
        return NOT_MINE

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace; a file with a header and no events gives an empty one.

        Raises
        ------
        CorruptError, UnsupportedVersionError, TruncatedError
            If the header is not that of a ``.ggmlviz`` file.
        LimitExceededError
            If the file is larger than the context allows.
        ReadError
            If an option has a value that does not exist.
        """
        version = _version(source)
        layout = _layout(source, context.options.get("layout", "auto"))
        builder = TraceBuilder()
        if version != VERSION:
            note_version(builder, version, VERSION)
        stream, summary = _fill(builder, source, layout, context)
        builder.records = GgmlvizRecords(
            source.path, layout, stream.offsets, stream.resumed
        )
        if source.has_changed():
            note_changed(builder)
        context.progress(source.size, source.size)
        options = {"layout": layout.id}
        if builder.ops is not None:
            options["ops"] = builder.ops.id
        return builder.snapshot(
            TraceInfo(
                paths=(source.path,),
                reader_id=self.info.id,
                format=self.info.id,
                format_version=str(version),
                byte_size=source.size,
                n_records=len(stream.offsets) - 1,
                options=options,
                summary=summary,
                modified_ns=source.modified_ns,
            )
        )


def _is_other_version(data: bytes) -> bool:
    """Tell whether the magic number is ours but for its last character."""
    return len(data) >= len(MAGIC) and data[: len(MAGIC) - 1] == MAGIC[:-1]


def _shown(data: bytes) -> str:
    """Return the first bytes as text and, where they are none, in hex."""
    start = data[: len(MAGIC)]
    text = start.decode("latin-1")
    if text.isascii() and text.isprintable():
        return f'"{text}"'
    return start.hex(" ")


def _version(source: Source) -> int:
    """Check the header; return the version that it states."""
    data = source.head(HEADER_BYTES)
    if data.startswith(MAGIC) and len(data) == HEADER_BYTES:
        return int.from_bytes(data[len(MAGIC) :], "little")
    if data.startswith(MAGIC) or MAGIC.startswith(data):
        raise TruncatedError(
            f"short header: {len(data)} of its {HEADER_BYTES} bytes are there.",
            offset=len(data), hint="The writer was stopped before its first event.",
        )  # fmt: skip
    if _is_other_version(data):
        raise UnsupportedVersionError(
            f"the magic number is {_shown(data)}; only {_shown(MAGIC)} is known.",
            offset=0, hint="A newer ggscope may read it.",
        )  # fmt: skip
    raise CorruptError(
        f"this is no .ggmlviz file: the magic number is {_shown(data)}, not "
        f"{_shown(MAGIC)}.",
        offset=0, hint="Check that the file was not converted or cut at its start.",
    )  # fmt: skip


def _layout(source: Source, wanted: str) -> Layout:
    if wanted == "auto":
        return detect(source.head(DETECT_BYTES), source.size)
    if wanted not in LAYOUT_BY_ID:
        raise ReadError(
            f"there is no event layout {wanted!r}.",
            hint="Known ones: auto, " + ", ".join(LAYOUT_BY_ID) + ".",
        )
    return LAYOUT_BY_ID[wanted]


def _load(source: Source, context: ReadContext) -> Bytes:
    """Return the file with `PADDING` zero bytes behind it.

    The empty end of a sparse file is left out but for a little.
    """
    written = max((end for _, end in source.data_extents()), default=0)
    size = min(source.size, max(written, HEADER_BYTES) + _HOLE_BYTES)
    if size > context.limits.memory_bytes:
        raise LimitExceededError(
            f"the file holds {size:,} bytes; at most {context.limits.memory_bytes:,} "
            "may be read."
        )
    data = np.empty(size + PADDING, np.uint8)
    done = 0
    while done < size:
        got = source.read_into(done, data[done : min(done + BLOCK_BYTES, size)])
        if got == 0:
            break
        done += got
        context.progress(done // 4, source.size)
    data[done : done + PADDING] = 0
    return data[: done + PADDING]


def _fill(
    builder: TraceBuilder, source: Source, layout: Layout, context: ReadContext
) -> tuple[Stream, dict[str, object]]:
    """Read all events and add all tables; return what is left, and the summary."""
    events, stream = _events(builder, source, layout, context)
    counts = np.bincount(events.kind, minlength=1)
    kinds = np.flatnonzero(counts).tolist()
    summary: dict[str, object] = {
        "events": {type_name(kind): int(counts[kind]) for kind in kinds},
        "threads": len(stream.thread_ids),
    }
    builder.ops = _ops(builder, events, context.options.get("ops", "auto"))
    if not len(events):
        return stream, summary
    origin, end = int(events.time.min()), int(events.time.max())
    builder.clock = Clock("ns", origin)
    summary.update(add_memory(builder, events, stream, origin))
    context.check_cancelled()
    # Bound to the same name, so that there is never more than one order in memory.
    events = _by_thread(events)
    context.check_cancelled()
    intervals = pair_events(events, end, context)
    context.check_cancelled()
    add_intervals(builder, events, intervals, stream, origin)
    context.check_cancelled()
    summary["graphs"] = int(intervals.is_graph.sum())
    note_pairing(builder, events, intervals, stream.offsets)
    return stream, summary


def _events(
    builder: TraceBuilder, source: Source, layout: Layout, context: ReadContext
) -> tuple[Events, Stream]:
    """Return all events, after warnings about those that could not be read."""
    data = _load(source, context)
    found = find_events(data, HEADER_BYTES, layout, context)
    context.progress(source.size // 2, source.size)
    note_gaps(builder, found)
    note_end(builder, found, data, source.size)
    events, stream = gather(data, found, layout, builder.strings, context)
    context.progress(source.size * 3 // 4, source.size)
    note_damage(builder, events, stream)
    context.check_cancelled()
    return events, stream


def _by_thread(events: Events) -> Events:
    """Return the events by thread, then time, then place in the file."""
    order = None
    if (np.diff(events.time) < 0).any():
        order = np.argsort(events.time, kind="stable")
    if (np.diff(events.thread) < 0).any():
        thread = narrow(events.thread if order is None else events.thread[order])
        by_thread = np.argsort(thread, kind="stable")
        order = by_thread if order is None else order[by_thread]
    return events if order is None else events.take(order)


def _ops(builder: TraceBuilder, events: Events, wanted: str) -> OpTable | None:
    """Return the op table, after warnings about it; None where there are no ops."""
    try:
        table = choose_ops(builder, events, wanted)
    except KeyError:
        raise ReadError(
            f"there is no op table {wanted!r}.",
            hint=f"The newest one is {ggml.tables()[0].id}.",
        ) from None
    if table is not None:
        note_ops(builder, events, table)
    return table
