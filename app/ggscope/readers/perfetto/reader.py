"""Reader of Perfetto traces."""

from collections.abc import Callable

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, ZSTD, Estimate, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import file_trace
from ggscope.readers.common.nesting_problems import (
    warn_of_limits,
    warn_of_nesting,
    warn_of_pairs,
)
from ggscope.readers.common.packed_text import (
    TraceText,
    packed_estimate,
    remedy_of_packing,
    text_of,
    unpacked_head,
    zstd_reader,
)
from ggscope.readers.perfetto import INFO
from ggscope.readers.perfetto.bundles import COMPRESSED, ZSTD_COMPRESSED
from ggscope.readers.perfetto.kinds import is_hidden, is_known, kind_name
from ggscope.readers.perfetto.messages import fields_of
from ggscope.readers.perfetto.packets import Packets, PacketScan, scan_head
from ggscope.readers.perfetto.records import PacketRecords
from ggscope.readers.perfetto.trace import PerfettoTrace
from ggscope.readers.source import Source

_ROW_BYTES, _FINAL_BYTES = 220, 60
"""Memory of an event while it is read, measured, and afterwards."""
_NUMBERS = frozenset({3, 8, 10, 13, 41, 42, 58, 79, 87, 98})
"""Fields of TracePacket that are numbers."""
_USUAL = frozenset({11, 12, 59, 60, COMPRESSED, ZSTD_COMPRESSED})
"""Fields of which nearly all of its packets have one."""
_JUDGED = 24
_LISTED = 6


class PerfettoReader:
    """Reads the packets of Perfetto."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its first packets, unpacked where it is packed."""
        data = unpacked_head(head.data)
        if data is None:
            if head.data.startswith(ZSTD) and zstd_reader() is None:
                return Sniff(0, "packed by zstd: unpack it with zstd -d")
            return Sniff(0, "the packed file is damaged")
        if not data.startswith(b"\n"):
            return NOT_MINE
        n, is_cut = _judged(data)
        if n < 0:
            return NOT_MINE
        if n or is_cut:
            return Sniff(95 if n > 1 else 60, "packets of Perfetto")
        return NOT_MINE

    def estimate(self, head: Head) -> Estimate | None:
        """Return what reading a file would cost, by the density of its packets."""
        data = unpacked_head(head.data)
        if not data:
            return None
        n = scan_head(data).n_packets
        return packed_estimate(head, data, n + 1, _FINAL_BYTES, _ROW_BYTES)

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the trace of a file.

        Raises
        ------
        CorruptError
            If there are no packets.
        LimitExceededError
            If there is too little memory.
        """
        context.progress(0, source.size)
        text = text_of(source)

        def publish(scan: PacketScan) -> None:
            some = scan.packets()
            context.publish(_trace(source, context, scan, text, some, is_part=True))

        scan = PacketScan(
            text, context, source.size, publish if context.wants_stages else None
        )
        packets = scan.run()
        if not packets.n_packets:
            faults = packets.faults
            raise CorruptError(
                f"{faults.ended}, before its first packet."
                if faults.ended
                else "there is no whole packet in it.",
                hint=remedy_of_packing(faults.ended),
            )
        return _trace(source, context, scan, text, packets)


def _judged(data: bytes) -> tuple[int, bool]:
    """Return how many packets begin a text, and whether the next one is cut.

    -1 where they are none of Perfetto: other protobuf messages have other fields.
    """
    n = n_known = at = 0
    while n < _JUDGED and at < len(data):
        size = _packet_size(data, at)
        if size is None:
            return (n, True) if n_known else (-1, False)
        begin, length = size
        content = data[begin : begin + length]
        is_cut = begin + length > len(data)
        for number, value in fields_of(content, keeps_cut=is_cut):
            is_number = isinstance(value, int)
            if (number in _NUMBERS) != is_number and (
                number in _NUMBERS or is_known(number)
            ):
                return -1, False
            n_known += number in _NUMBERS or number in _USUAL
        if is_cut:
            break
        n += 1
        at = begin + length
    if not n_known:
        return -1, False
    return n, at < len(data)


def _packet_size(data: bytes, at: int) -> tuple[int, int] | None:
    """Return where the content of a packet begins, and its length; None = no packet."""
    if data[at] != 0x0A:
        return None
    length = shift = 0
    for place in range(at + 1, min(at + 6, len(data))):
        length |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return place + 1, length
    return None


def _trace(
    source: Source,
    context: ReadContext,
    scan: PacketScan,
    text: TraceText,
    packets: Packets,
    *,
    is_part: bool = False,
) -> Trace:
    """Return the trace of some packets; `is_part` where more follow."""
    builder = TraceBuilder()
    made = PerfettoTrace(builder, packets)
    builder.clock = made.clock
    for add in (made.add_spans, made.add_markers, made.add_counters, made.add_arrows):
        context.check_cancelled()
        add()
    if not is_part:
        _warn(builder, packets, made)
    read = scan.places.reader(text.opener())
    builder.records = PacketRecords(read, packets.offset, scan.note_texts())
    counts = sorted(packets.by_kind.items(), key=lambda kind: (-kind[1], kind[0]))
    return file_trace(
        builder, INFO, source, packets.n_packets,
        {kind_name(field): n for field, n in counts},
        noun="packets", producer=_producer(packets, made),
        pending=frozenset({"spans"}) if is_part else frozenset(),
        read_until=made.last_begin - made.origin if is_part else None,
    )  # fmt: skip


def _producer(packets: Packets, made: PerfettoTrace) -> dict[str, str]:
    """Return what the file says of itself, as texts."""
    if made.is_own:
        return {"written by": "ggscope", "read from": str(made.own["format"])}
    facts = {key: str(value) for key, value in packets.attributes.items()}
    if made.clock_title:
        facts["clock"] = made.clock_title
    return facts


_Note = tuple[str, Severity, str, str]
_NOTES: tuple[_Note, ...] = (
    ("broken", Severity.DATA_LOSS, "broken_packet",
     "packets are damaged; they are left out."),
    ("bundle", Severity.DATA_LOSS, "broken_bundle",
     "packets that are packed together cannot be unpacked; they are left out."),
    ("untimed", Severity.DATA_LOSS, "broken_event",
     "events have no usable time, type or id; they are left out."),
    ("skipped", Severity.DATA_LOSS, "packets_without_state",
     "events depend on lost packets; they are left out."),
    ("gap", Severity.DATA_LOSS, "lost_packets",
     "packets were lost while the trace was recorded: its buffers were full, or their "
     "begin was overwritten."),
    ("uncounted", Severity.NOTICE, "value_without_counter",
     "values are of no counter; they are left out."),
    ("left_out", Severity.NOTICE, "events_left_out",
     "events are of a kind that is not shown: counters of old form, samples, memory "
     "dumps."),
)  # fmt: skip


def _warn(builder: TraceBuilder, packets: Packets, made: PerfettoTrace) -> None:
    """Say what was repaired, guessed and lost."""
    faults = packets.faults
    if faults.ended:
        builder.warn(
            Severity.DATA_LOSS,
            "packed_cut",
            f"{faults.ended}; the {packets.n_packets:,} packets before that are shown.",
            remedy=remedy_of_packing(faults.ended),
        )
    elif faults.cut_at >= 0:
        builder.warn(
            Severity.DATA_LOSS,
            "cut_packet",
            "the file ends within a packet.",
            faults.cut_at,
            remedy="Copy or record the file again.",
        )
    for kind, severity, code, message in _NOTES:
        if n := faults.count.get(kind, 0):
            builder.warn(severity, code, message, faults.first[kind], n)
    if n := faults.count.get("zstd", 0):
        builder.warn(
            Severity.DATA_LOSS,
            "packets_packed_by_zstd",
            "packets are compressed by zstd; no installed library decompresses them.",
            faults.first["zstd"],
            n,
            remedy="Install the package zstandard, or record without compression.",
        )
    _warn_of_content(builder, packets, made)


def _warn_of_content(
    builder: TraceBuilder, packets: Packets, made: PerfettoTrace
) -> None:
    offset: Callable[[int], int] = lambda row: int(packets.offset[row])  # noqa: E731
    builder.warn(
        Severity.DATA_LOSS,
        "unknown_clock",
        f"times of {made.unknown_clock} cannot be converted to those of the trace: "
        "no snapshot of clocks has both; these events are left out.",
        count=made.n_unknown,
    )
    builder.warn(
        Severity.NOTICE,
        "unknown_name",
        "events refer to names that the trace does not define; shown unnamed.",
        count=packets.n_nameless,
    )
    hidden = {kind: n for kind, n in packets.by_kind.items() if is_hidden(kind)}
    if hidden:
        names = sorted(hidden, key=lambda kind: -hidden[kind])
        shown = ", ".join(f"{kind_name(k)} ({hidden[k]:,})" for k in names[:_LISTED])
        builder.warn(
            Severity.NOTICE,
            "packets_left_out",
            "packets of these kinds are counted, not shown: "
            f"{shown}{' …' if len(names) > _LISTED else ''}. Track events are shown.",
            count=sum(hidden.values()),
        )
    if not len(packets) and not len(packets.value):
        builder.warn(
            Severity.NOTICE,
            "no_track_events",
            "there are no track events in it: nothing to show on a timeline.",
            remedy="Record with the data source track_event.",
        )
    warn_of_pairs(builder, (made.paired,), offset, "track")
    warn_of_nesting(builder, made.n_reaching, made.first_reaching, offset, "track")
    builder.warn(
        Severity.INFO,
        "loose_flow",
        "flows have an end that lies in no span, or no other end; they are not drawn.",
        count=made.n_loose,
    )
    builder.warn(
        Severity.NOTICE,
        "tracks_joined",
        "there are more tracks than lanes; the others share one.",
        count=made.n_joined_lanes,
    )
    warn_of_limits(builder, made.n_left_series, made.n_other_names)
