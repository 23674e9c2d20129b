"""Perfetto traces made of random spans, field by field, without Perfetto's package."""

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

BEGIN, END, INSTANT, COUNTER, STATE = 1, 2, 3, 4, 5
CLEARED, NEEDED = 1, 2
LOCAL_CLOCK, REALTIME, MONOTONIC, BOOTTIME = 64, 1, 3, 6
REALTIME_NS = 1_700_000_000 * 10**9


def varint(value: int) -> bytes:
    """Return a number as protobuf has it; negative ones take ten bytes."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def num(number: int, value: int) -> bytes:
    """Return a field with a number."""
    return varint(number << 3) + varint(value)


def fixed(number: int, value: int | float) -> bytes:
    """Return a field with 64 bits."""
    form = "<d" if isinstance(value, float) else "<Q"
    return varint(number << 3 | 1) + struct.pack(form, value)


def sub(number: int, content: bytes | str) -> bytes:
    """Return a field with a message or text."""
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def packet(*parts: bytes) -> bytes:
    """Return a packet of a trace."""
    return sub(1, b"".join(parts))


def process(uuid: int, pid: int, name: str = "", more: bytes = b"") -> bytes:
    """Return the description of a process."""
    about = num(1, pid) + (sub(6, name) if name else b"")
    return sub(60, num(1, uuid) + sub(3, about) + more)


def thread(uuid: int, pid: int, tid: int, name: str = "", parent: int = 0) -> bytes:
    """Return the description of a thread."""
    about = num(1, pid) + num(2, tid) + (sub(5, name) if name else b"")
    return sub(60, num(1, uuid) + sub(4, about) + (num(5, parent) if parent else b""))


def track(uuid: int, name: str = "", parent: int = 0, more: bytes = b"") -> bytes:
    """Return the description of any other track."""
    about = num(1, uuid) + (sub(2, name) if name else b"")
    return sub(60, about + (num(5, parent) if parent else b"") + more)


def counter(
    uuid: int, name: str, parent: int = 0, unit: int = 0, unit_name: str = "",
    multiplier: int = 0, is_incremental: bool = False,
) -> bytes:  # fmt: skip
    """Return the description of a counter."""
    about = num(3, unit) if unit else b""
    about += num(4, multiplier) if multiplier else b""
    about += num(5, 1) if is_incremental else b""
    about += sub(6, unit_name) if unit_name else b""
    return track(uuid, name, parent, sub(8, about))


def clocks(*shown: tuple[int, int], primary: int = 0) -> bytes:
    """Return what clocks showed at one time."""
    entries = b"".join(sub(1, num(1, clock) + num(2, time)) for clock, time in shown)
    return sub(6, entries + (num(2, primary) if primary else b""))


def interned(table: int, iid: int, text: str) -> bytes:
    """Return a text with its number: 1 categories, 2 names, 3 names of annotations."""
    return sub(table, num(1, iid) + sub(2, text))


@dataclass
class Sequence:
    """Writes the packets of one sequence.

    Parameters
    ----------
    number : of the sequence.
    clock : that times are of; 0 = the default, `LOCAL_CLOCK` = differences.
    """

    number: int
    clock: int = 0
    last: int = 0
    texts: dict[tuple[int, str], int] = field(default_factory=dict)
    is_begun: bool = False

    def packet(
        self, content: bytes, time: int | None = None, *, needs: bool = True,
        more: bytes = b"",
    ) -> bytes:  # fmt: skip
        """Return a packet with a time."""
        head = num(10, self.number) + more
        if time is not None and self.clock == LOCAL_CLOCK:
            head += num(8, time - self.last)
            self.last = time
        elif time is not None:
            head += num(8, time)
        flags = NEEDED if needs else 0
        if not self.is_begun:
            flags |= CLEARED
            self.is_begun = True
        return packet(content, head, num(13, flags) if flags else b"")

    def start(self, track_uuid: int = 0, time: int = 0) -> bytes:
        """Return the packets by which a sequence begins anew."""
        self.texts.clear()
        self.is_begun = True
        made = packet(
            num(10, self.number), num(13, CLEARED), self._defaults(track_uuid)
        )
        if self.clock == LOCAL_CLOCK:
            self.last = time
            entries = sub(1, num(1, BOOTTIME) + num(2, time))
            local = num(1, LOCAL_CLOCK) + num(2, time) + num(3, 1)
            made += packet(sub(6, entries + sub(1, local)), num(10, self.number))
        return made

    def _defaults(self, track_uuid: int) -> bytes:
        about = num(58, self.clock) if self.clock else b""
        about += sub(11, num(11, track_uuid)) if track_uuid else b""
        return sub(59, about)

    def number_of(self, table: int, text: str) -> tuple[int, bytes]:
        """Return the number of a text, and its definition where it is new."""
        known = self.texts.get((table, text))
        if known is not None:
            return known, b""
        iid = self.texts[table, text] = len(self.texts) + 1
        return iid, interned(table, iid, text)

    def event(
        self, kind: int, time: int, track_uuid: int = 0, name: str = "",
        category: str = "", more: bytes = b"", *, is_interned: bool = True,
    ) -> bytes:  # fmt: skip
        """Return the packet of an event."""
        about, value = num(9, kind), b""
        if track_uuid:
            about += num(11, track_uuid)
        if category:
            iid, new = self.number_of(1, category)
            about, value = about + num(3, iid), value + new
        if name and is_interned:
            iid, new = self.number_of(2, name)
            about, value = about + num(10, iid), value + new
        elif name:
            about += sub(23, name)
        body = sub(11, about + more)
        return self.packet(body, time, more=sub(12, value) if value else b"")


def note(name: str, value: int | str | float | bool) -> bytes:
    """Return an annotation with its name."""
    if isinstance(value, bool):
        return sub(4, sub(10, name) + num(2, value))
    if isinstance(value, int):
        return sub(4, sub(10, name) + num(4, value))
    if isinstance(value, float):
        return sub(4, sub(10, name) + fixed(5, value))
    return sub(4, sub(10, name) + sub(6, value))


@dataclass(frozen=True)
class Span:
    """A span as it was made: times in ns, end -1 where none was written."""

    pid: int
    tid: int
    name: str
    category: str
    start: int
    end: int


def random_trace(
    seed: int, n: int = 200, names: Iterator[str] | None = None, *,
    clock: int = 0, has_gaps: bool = False,
) -> tuple[bytes, list[Span]]:  # fmt: skip
    """Return a trace with spans within each other on threads of two processes.

    Each thread is a sequence; packets of all are mixed as their buffers would be.

    Parameters
    ----------
    clock : of the times of every other sequence.
    has_gaps : sequences begin anew on their way.
    """
    rng = np.random.default_rng(seed)
    base = 10**12 + int(rng.integers(10**6))
    shift = 10**9
    shown = (BOOTTIME, base), (MONOTONIC, base - shift), (REALTIME, REALTIME_NS)
    parts = [packet(clocks(*shown, primary=BOOTTIME))]
    streams: list[list[bytes]] = []
    made: list[Span] = []
    threads = [(pid, tid) for pid in (7, 8) for tid in (1, 2)]
    for place, (pid, tid) in enumerate(threads):
        uuid = 1000 + place if place != 1 else (1 << 63) + 5
        sequence = Sequence(10 + place, clock if place % 2 else 0)
        behind = shift if sequence.clock == MONOTONIC else 0
        stream = [sequence.start(uuid if place % 2 else 0, base)]
        if tid == 1:
            stream.append(sequence.packet(process(pid, pid, f"worker {pid}")))
        stream.append(sequence.packet(thread(uuid, pid, tid, f"thread of {pid}", pid)))
        now, opened = base, []
        for _ in range(n // len(threads)):
            now += int(rng.integers(0, 900))
            if opened and rng.random() < 0.5:
                name, category, start = opened.pop()
                stream.append(sequence.event(END, now - behind, uuid))
                made.append(Span(pid, tid, name, category, start, now))
                continue
            name = next(names) if names else f"op {int(rng.integers(12))}"
            category = ("gpu", "cpu", "")[int(rng.integers(3))]
            opened.append((name, category, now))
            if has_gaps and rng.random() < 0.1:
                stream.append(sequence.start(uuid if place % 2 else 0, now))
            stream.append(
                sequence.event(
                    BEGIN,
                    now - behind,
                    uuid if place % 2 == 0 else 0,
                    name,
                    category,
                    note("answer", 42),
                    is_interned=bool(rng.random() < 0.7),
                )
            )
        while opened:
            name, category, start = opened.pop()
            if len(opened) == 0 and place == 3:
                made.append(Span(pid, tid, name, category, start, -1))
                continue
            now += int(rng.integers(0, 900))
            stream.append(sequence.event(END, now - behind, uuid))
            made.append(Span(pid, tid, name, category, start, now))
        streams.append(stream)
    parts += _mixed(rng, streams)
    return b"".join(parts), made


def _mixed(rng: np.random.Generator, streams: list[list[bytes]]) -> list[bytes]:
    """Return packets of several sequences, those of each in their order."""
    parts: list[bytes] = []
    places = [0] * len(streams)
    while any(at < len(s) for at, s in zip(places, streams, strict=True)):
        i = int(rng.integers(len(streams)))
        n = int(rng.integers(1, 9))
        parts += streams[i][places[i] : places[i] + n]
        places[i] += n
    return parts


def others(names: Iterator[str] | None = None) -> bytes:
    """Return a trace with counters, flows, instants, activities and old events."""

    def word(usual: str) -> str:
        return next(names) if names else usual

    one = Sequence(1)
    parts = [
        one.start(time=1000),
        one.packet(process(7, 7, word("worker"))),
        one.packet(thread(71, 7, 1, word("main"), 7)),
        one.packet(track(72, word("queue"), 7)),
        one.packet(counter(73, word("memory"), 7, unit=3, multiplier=1024)),
        one.packet(
            counter(74, word("steps"), 7, unit_name="steps", is_incremental=True)
        ),
        one.packet(track(75, word("requests"), 7)),
        one.packet(track(76, word("requests"), 7)),
    ]
    parts += [
        one.event(BEGIN, 1000, 71, word("launch"), "cpu", fixed(47, 99)),
        one.event(COUNTER, 1010, 73, more=num(30, 5)),
        one.event(INSTANT, 1020, 71, word("mark")),
        one.event(END, 1100, 71),
        one.event(BEGIN, 1150, 72, word("kernel"), "kernel_dispatch", fixed(48, 99)),
        one.event(COUNTER, 1160, 74, more=num(30, 2)),
        one.event(END, 1400, 72),
        one.event(BEGIN, 1200, 75, word("request")),
        one.event(BEGIN, 1300, 76, word("request")),
        one.event(END, 1500, 75),
        one.event(END, 1600, 76),
        one.event(COUNTER, 1500, 74, more=num(30, 3)),
        one.event(COUNTER, 1600, 73, more=fixed(44, 2.5)),
        one.event(
            INSTANT, 1650, 71, word("sampled"), more=num(31, 73) + num(12, 7),
        ),
        old_event(one, "X", 1700, word("whole"), sub(6, b""), duration=2),
        old_event(one, "b", 1800, word("step"), num(6, 5)),
        old_event(one, "e", 1900, "", num(6, 5)),
    ]  # fmt: skip
    return b"".join(parts)


def old_event(
    sequence: Sequence, phase: str, time: int, name: str = "", more: bytes = b"",
    duration: int | None = None, track_uuid: int = 71,
) -> bytes:  # fmt: skip
    """Return an event with a phase of Chrome; `duration` in µs."""
    legacy = num(2, ord(phase)) + more
    legacy += num(3, duration) if duration is not None else b""
    about = sub(23, name) if name else b""
    about += num(11, track_uuid) + sub(6, legacy)
    return sequence.packet(sub(11, about), time)


def old_flows(seed: int = 0, n: int = 60) -> bytes:
    """Return threads with slices one after another, and flows of old form.

    A flow begins in a slice, goes on in another and ends in one, or in the one that
    begins next where it is not bound to what is around it. Flows of one
    id have different names.
    """
    rng = np.random.default_rng(seed)
    one = Sequence(1)
    parts = [one.start(time=1000), one.packet(process(7, 7, "worker"))]
    uuids = 71, 72, 73
    parts += [one.packet(thread(u, 7, u, f"thread {u}", 7)) for u in uuids]
    now = 1000
    bound = num(12, 1)
    for i in range(n):
        name, scope = f"flow {i % 7}", num(6, i)
        for phase in "stf"[: int(rng.integers(2, 4))]:
            uuid = uuids[int(rng.integers(3))]
            now += 100
            is_next = phase == "f" and rng.random() < 0.5
            event = old_event(
                one, phase, now, name, scope + (b"" if is_next else bound),
                track_uuid=uuid,
            )  # fmt: skip
            begin = one.event(BEGIN, now + (20 if is_next else -20), uuid, f"op {i}")
            parts += [event, begin] if is_next else [begin, event]
            parts.append(one.event(END, now + 50, uuid))
    return b"".join(parts)


def varied(seed: int, n: int = 300, *, marks_lead: bool = True) -> bytes:
    """Return a trace of everything at random: tracks, counters, flows, lost packets.

    All that is begun and ended lies within each other on its track. `marks_lead` :
    instants are parts of flows too.
    """
    rng = np.random.default_rng(seed)
    base = 10**12
    parts = [
        packet(clocks((BOOTTIME, base), (MONOTONIC, base - 777), primary=BOOTTIME)),
        packet(clocks((BOOTTIME, base + 10**5), (MONOTONIC, base + 10**5 - 790))),
    ]
    streams = []
    for place in range(4):
        clock = (0, LOCAL_CLOCK, MONOTONIC, 0)[place]
        sequence = Sequence(20 + place, clock)
        behind = 777 if clock == MONOTONIC else 0
        own = 100 + 10 * place
        tracks = [own, own + 1, own + 2]
        stream = [sequence.start(own if place == 3 else 0, base)]
        stream += [
            sequence.packet(process(own + 9, 70 + place // 2, "service")),
            sequence.packet(thread(own, 70 + place // 2, place, "loop", own + 9)),
            sequence.packet(track(own + 1, "queue", own + 9)),
            sequence.packet(track(own + 2, "", own, num(15, 2))),
            sequence.packet(counter(own + 3, f"load {place}", own, multiplier=10)),
            sequence.packet(
                counter(own + 4, f"bytes {place}", own, unit=3, is_incremental=True)
            ),
        ]
        opened: dict[int, int] = dict.fromkeys(tracks, 0)
        now = base
        for _ in range(n // 4):
            now += int(rng.integers(1, 900))
            uuid = tracks[int(rng.integers(3))]
            draw, time = rng.random(), now - behind
            flow = b""
            if rng.random() < 0.2:
                flow = fixed(47 + int(rng.random() < 0.3), int(rng.integers(1, 20)))
            if draw < 0.3 and opened[uuid]:
                opened[uuid] -= 1
                stream.append(sequence.event(END, time, uuid, more=flow))
            elif draw < 0.6:
                opened[uuid] += 1
                if rng.random() < 0.3:
                    flow += sub(22, "extra")
                stream.append(
                    sequence.event(
                        BEGIN,
                        time,
                        uuid,
                        f"op {int(rng.integers(9))}",
                        ("one", "two")[int(rng.integers(2))],
                        flow,
                        is_interned=bool(rng.random() < 0.6),
                    )
                )
            elif draw < 0.7:
                value = num(30, int(rng.integers(-50, 50)))
                stream.append(sequence.event(COUNTER, time, own + 3, more=value))
            elif draw < 0.8:
                value = num(31, own + 4) + num(12, int(rng.integers(1, 50)))
                value += flow * marks_lead
                stream.append(sequence.event(INSTANT, time, uuid, "tick", more=value))
            elif draw < 0.9 and not any(opened.values()):
                stream.append(
                    sequence.packet(
                        sub(11, sub(23, "whole") + sub(6, num(2, ord("X")) + num(3, 0))
                            + num(11, own)),
                        time,
                    )
                )  # fmt: skip
            elif draw < 0.93:
                stream.append(sequence.start(own if place == 3 else 0, now))
        streams.append(stream)
    data = b"".join(parts + _mixed(rng, streams))
    return data if seed % 3 else bundled(data)


def rocprof_like(n: int = 3) -> bytes:
    """Return a trace with the few kinds of packets that rocprofv3 writes."""
    one = Sequence(3)
    queue, copies, thread_uuid, busy = 1 << 60, 77, 55, 88
    parts = [
        packet(clocks((BOOTTIME, 900), (MONOTONIC, 900), primary=MONOTONIC)),
        one.start(),
        one.packet(process(1, 4711, "llama-bench")),
        one.packet(thread(thread_uuid, 4711, 4711, "THREAD 0 (S)", 1)),
        one.packet(track(queue, "COMPUTE AGENT [4] QUEUE [1] (GPU)")),
        one.packet(track(copies, "COPY to AGENT [4] (GPU)")),
        one.packet(counter(busy, "COPY BYTES to AGENT [4] (GPU)", unit=3)),
    ]
    for i in range(n):
        at = 1000 + 100 * i
        about = note("begin_ns", at) + note("corr_id", i) + note("kind", "kernel")
        parts += [
            one.event(BEGIN, at, thread_uuid, "hipLaunchKernel", "hip_api",
                      fixed(47, i + 1) + about),
            one.event(END, at + 9, thread_uuid),
            one.event(BEGIN, at + 20, queue, "mul_mat_q", "kernel_dispatch",
                      fixed(48, i + 1) + about),
            one.event(END, at + 70, queue),
            one.event(BEGIN, at + 5, copies, "MEMORY_COPY_HOST_TO_DEVICE",
                      "memory_copy"),
            one.event(END, at + 15, copies),
            one.event(COUNTER, at + 5, busy, more=num(30, 4096)),
            one.event(COUNTER, at + 15, busy, more=num(30, 0)),
        ]  # fmt: skip
    return b"".join(parts)


def own_trace() -> bytes:
    """Return what ggscope writes of a trace with waits, ops and details of markers."""
    from builders import llama_like_trace
    from ggscope.exporters import perfetto
    from ggscope.exporters.events import Events
    from wait_traces import with_waits

    trace = llama_like_trace(tokens=2, layers=1)
    trace = with_waits(trace, np.full(len(trace.spans), 50))
    return b"".join(perfetto.chunks(Events(trace)))


def split(data: bytes) -> list[bytes]:
    """Return the packets of a trace."""
    parts, at = [], 0
    while at < len(data):
        length, shift, begin = 0, 0, at + 1
        while True:
            byte = data[begin]
            length |= (byte & 0x7F) << shift
            shift, begin = shift + 7, begin + 1
            if byte < 0x80:
                break
        parts.append(data[at : begin + length])
        at = begin + length
    return parts


def bundled(data: bytes, *, is_raw: bool = False) -> bytes:
    """Return a trace with its packets packed together."""
    content = data if is_raw else zlib.compress(data)
    return packet(sub(50, content))


def packed(data: bytes) -> bytes:
    """Return a trace packed by gzip."""
    return gzip.compress(data, mtime=0)


def sample(seed: int = 1, n: int = 200, names: Iterator[str] | None = None) -> bytes:
    """Return a trace with something of everything."""
    return random_trace(seed, n, names)[0] + others(names)
