"""Text of blkparse, biosnoop, fatrace, strace and perf, and what it states."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

NANO = 1_000_000_000
BLOCK = 4096
SECTOR = 512
MODEL = "/models/tiny.gguf"


@dataclass(frozen=True)
class Io:
    """A request as it was; times in ns, sizes in bytes."""

    start: int
    end: int
    queued: int
    sector: int
    size: int
    kind: str = "R"
    process: str = "llama-cli"
    pid: int = 4242


def random_io(
    seed: int, n: int, *, depth: int = 4, sizes: Sequence[int] = (4096, 16384, 131072)
) -> list[Io]:
    """Return requests of which no two at once are of one sector, by start."""
    rng = random.Random(seed)
    free = [0] * depth
    made = []
    sector, now = 2_048_000, 1_000
    for i in range(n):
        slot = min(range(depth), key=free.__getitem__)
        now = max(now + rng.randrange(1, 20_000), free[slot])
        took = rng.randrange(10_000, 2_000_000)
        free[slot] = now + took
        size = rng.choice(list(sizes))
        sector += size // SECTOR + 8 * rng.randrange(0, 40)
        kind = "W" if i % 11 == 7 else "RA" if i % 5 == 2 else "R"
        name = ("llama-cli", "Web Content", "kworker/u8:1")[i % 17 % 3 if i % 3 else 0]
        made.append(
            Io(now, now + took, rng.randrange(100, 900), sector, size, kind, name)
        )
    return made


def _stamp(time: int) -> str:
    return f"{time // NANO}.{time % NANO:09d}"


def blkparse(
    requests: Sequence[Io], *, partition: int = 0, noise: bool = True
) -> bytes:
    """Return what blkparse 1.2.0 prints of them in its default format."""
    events: list[tuple[int, int, str]] = []
    for i, io in enumerate(requests):
        n = io.size // SECTOR
        where = f"{io.sector} + {n}"
        queue = io.start - io.queued

        def line(
            time: int,
            pid: int,
            action: str,
            rest: str,
            *,
            io: Io = io,
            cpu: int = i % 3,
        ) -> str:
            return (
                f"259,0   {cpu:2d} {{number:8d}} {_stamp(time):>15} {pid:5d} "
                f"{action:>2} {io.kind:>3} {rest}"
            )

        asks = f"{where} [{io.process}]"
        if partition:
            moved = f"{where} <- (259,1) {io.sector - partition}"
            events.append((queue, 0, line(queue, io.pid, "A", moved)))
        events.append((queue, 1, line(queue, io.pid, "Q", asks)))
        if noise:
            events.append((queue, 2, line(queue, io.pid, "G", asks)))
            events.append((queue, 3, line(queue, io.pid, "I", asks)))
        events.append((io.start, 4, line(io.start, 77, "D", asks)))
        events.append((io.end, 5, line(io.end, 0, "C", f"{where} [0]")))
    events.sort(key=lambda event: event[:2])
    lines = [text.format(number=i + 1) for i, (_, _, text) in enumerate(events)]
    if noise:
        lines.insert(0, "259,0    0        0     0.000000000     0  m   N hello")
        lines += ["CPU0 (t):", " Reads Queued:           9,       36KiB", "",
                  "Throughput (R/W): 161200KiB/s / 133KiB/s",
                  f"Events (t): {len(events)} entries"]  # fmt: skip
    return ("\n".join(lines) + "\n").encode()


def biosnoop(requests: Sequence[Io], *, queue: bool = False) -> bytes:
    """Return what biosnoop of bcc prints of them, each when it ends."""
    names = ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES"]
    names += ["QUE(ms)"] if queue else []
    widths = (11, 14, 7, 9, 1, 10, 7)
    heads = (f"{name:{width}}" for name, width in zip(names, widths, strict=False))
    lines = [" ".join(heads)]
    lines[0] += "".join(f" {name:>7}" for name in [*names[7:], "LAT(ms)"])
    for io in sorted(requests, key=lambda io: io.end):
        took = io.end - io.start
        text = (
            f"{io.end / NANO:<11.6f} {io.process:14} {io.pid:<7d} {'nvme0n1':9} "
            f"{io.kind[0]} {io.sector:<10d} {io.size:<7d}"
        )
        if queue:
            text += f" {io.queued / 1e6:7.3f}"
        lines.append(f"{text} {took / 1e6:7.3f}")
    return ("\n".join(lines) + "\n").encode()


def bpftrace_biosnoop(requests: Sequence[Io]) -> bytes:
    """Return what biosnoop.bt prints of them: whole milliseconds, no sizes."""
    lines = ["Attaching 4 probes...",
             f"{'TIME(ms)':12} {'DISK':7} {'COMM':16} {'PID':6} LAT(ms)"]  # fmt: skip
    for io in sorted(requests, key=lambda io: io.end):
        lines.append(
            f"{io.end // 1_000_000:<12d} {'nvme0n1':7} {io.process:16} {io.pid:<6d} "
            f"{(io.end - io.start) // 1_000_000:7d}"
        )
    return ("\n".join(lines) + "\n").encode()


def fatrace(seed: int = 1, n: int = 60, *, times: bool = True) -> bytes:
    """Return what fatrace prints, with -t where `times`."""
    rng = random.Random(seed)
    now = 79_200 * NANO
    lines = []
    for i in range(n):
        now += rng.randrange(1, 3_000_000) * 1000
        stamp = f"{now // 3_600 // NANO % 24:02d}:{now // 60 // NANO % 60:02d}:"
        stamp += f"{now // NANO % 60:02d}.{now % NANO // 1000:06d} "
        what = ("RO", "R", "RCO", "CW", "O", "R")[i % 6]
        name = ("llama-cli", "Web Content", "a(b)")[i % 3]
        owner = " [1000:1000]" if i % 4 == 1 else ""
        path = MODEL if i % 2 else f"/etc/some file: {i % 5}"
        lines.append(
            f"{stamp if times else ''}{name}({4000 + i % 3}){owner}: {what} {path}"
        )
    return ("\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class Read:
    """A read of a program as it was; `duration` and times in ns."""

    start: int
    end: int
    offset: int
    size: int
    path: str
    tid: int
    call: str


def random_reads(seed: int, n: int) -> list[Read]:
    """Return reads of two files by three threads, none of a thread inside another."""
    rng = random.Random(seed)
    made = []
    free = {4242: 0, 4243: 0, 4244: 0}
    position = {MODEL: 0, "/models/other, and more.gguf": 0}
    now = 1_732_000_000 * NANO
    for _ in range(n):
        tid = rng.choice(list(free))
        now = max(now + rng.randrange(1_000, 400_000, 1_000), free[tid])
        took = rng.randrange(1_000, 900_000, 1_000)
        path = rng.choice(list(position))
        size = rng.choice((4096, 65536, 131072))
        call = rng.choice(("read", "read", "pread64", "preadv"))
        if call == "read":
            offset = position[path]
            position[path] += size
        else:
            offset = rng.randrange(0, 1 << 34, 4096)
        made.append(Read(now, now + took, offset, size, path, tid, call))
        free[tid] = now + took + 1000
    return made


def strace(
    reads: Sequence[Read],
    *,
    fds: bool = True,
    split: bool = True,
    durations: bool = True,
) -> bytes:
    """Return what ``strace -f -ttt -T`` prints of them, with -y where `fds`.

    Parameters
    ----------
    split : whether every third read is cut in two by what others do meanwhile.
    """
    numbers = {
        path: 3 + i for i, path in enumerate(dict.fromkeys(r.path for r in reads))
    }
    events: list[tuple[int, str]] = []
    begin = reads[0].start - 1_000_000 if reads else NANO

    def stamp(time: int) -> str:
        return f"{time // NANO}.{time % NANO // 1000:06d}"

    def out(time: int, tid: int, text: str) -> None:
        events.append((time, f"[pid {tid:5d}] {stamp(time)} {text}"))

    for path, fd in numbers.items():
        shown = f"{fd}<{path}>" if fds else str(fd)
        out(begin, 4242, f'openat(AT_FDCWD, "{path}", O_RDONLY) = {shown} <0.000012>')
        out(begin + 1000, 4242,
            f"mmap(NULL, 1048576, PROT_READ, MAP_SHARED, {shown}, 0x1000) = "
            "0x7f12a000 <0.000100>")  # fmt: skip
        begin += 2000
    for i, read in enumerate(reads):
        fd = numbers[read.path]
        shown = f"{fd}<{read.path}>" if fds else str(fd)
        took = f" <{(read.end - read.start) / NANO:.6f}>" if durations else ""
        if read.call == "read":
            rest = f'"GG, (UF) = 3"..., {read.size}'
        elif read.call == "pread64":
            rest = f'"\\0\\0"..., {read.size}, {read.offset}'
        else:
            rest = f'[{{iov_base="x", iov_len={read.size}}}], 1, {read.offset}'
        if split and i % 3 == 2:
            out(read.start, read.tid, f"{read.call}({shown},  <unfinished ...>")
            out(read.end, read.tid,
                f"<... {read.call} resumed>{rest}) = {read.size}{took}")  # fmt: skip
        else:
            out(read.start, read.tid,
                f"{read.call}({shown}, {rest}) = {read.size}{took}")  # fmt: skip
    events.sort(key=lambda event: event[0])
    return "".join(f"{text}\n" for _, text in events).encode()


def other_calls() -> list[str]:
    """Return lines of strace that are no reads of files."""
    return [
        "[pid  4242] 1732000000.500000 ioctl(3, TCGETS, 0x7ff) = 0 <0.000010>",
        '[pid  4242] 1732000000.500100 read(5<pipe:[991]>, "x", 1) = 1 <0.000010>',
        "[pid  4242] 1732000000.500200 io_uring_enter(7, 8, 8, 0, NULL, 8) = 8 <0.1>",
        "[pid  4242] 1732000000.500300 read(3, 0x7f, 4096) = -1 EAGAIN (Try) <0.1>",
        "[pid  4242] 1732000000.500400 mmap(NULL, 4096, PROT_READ, "
        "MAP_ANONYMOUS, -1, 0) = 0x7f00 <0.00001>",
        "[pid  4242] 1732000000.600000 --- SIGCHLD {si_signo=SIGCHLD} ---",
        "[pid  4242] 1732000000.700000 +++ exited with 0 +++",
    ]


@dataclass(frozen=True)
class Fault:
    """A page fault as it was."""

    time: int
    offset: int
    is_major: bool
    pid: int = 4242


def random_faults(seed: int, n: int) -> list[Fault]:
    """Return page faults of a mapped model, by time."""
    rng = random.Random(seed)
    now = 12_345 * NANO
    made = []
    for _ in range(n):
        now += rng.randrange(1, 900) * 1000
        made.append(Fault(now, rng.randrange(0, 4000) * 4096, rng.random() < 0.3))
    return made


MAPPED = 0x7F3C_0000_0000


def perf_script(faults: Sequence[Fault], *, mapped: bool = True) -> bytes:
    """Return what ``perf script --show-mmap-events`` prints of page faults."""

    def head(time: int, pid: int, cpu: str = "[003] ") -> str:
        return (
            f"       llama cli {pid:5d} {cpu}{time // NANO}.{time % NANO // 1000:06d}:"
        )

    lines = []
    if mapped:
        time = faults[0].time - 9000 if faults else NANO
        lines.append(
            f"{head(time, 4242)} PERF_RECORD_MMAP2 4242/4242: [0x{MAPPED:x}"
            f"(0x{4096 * 4096:x}) @ 0x2000 08:01 123456 0]: r--p {MODEL}"
        )
    for i, fault in enumerate(faults):
        address = MAPPED + fault.offset - 0x2000
        name = "major-faults" if fault.is_major else "minor-faults"
        cpu = "[003] " if i % 2 else ""
        lines.append(
            f"{head(fault.time, fault.pid, cpu)}          1 {name}:     {address:x} "
            f"[unknown] ({MODEL})     55d0c1aa0100 ggml_vec_dot_q4_0+0x30 "
            "(/usr/lib/libggml-cpu.so)"
        )
    return ("\n".join(lines) + "\n").encode()


def perf_trace(faults: Sequence[Fault]) -> bytes:
    """Return what ``perf trace -F all --no-syscalls`` prints of page faults."""
    first = faults[0].time if faults else 0
    lines = []
    for i, fault in enumerate(faults):
        which = "maj" if fault.is_major else "min"
        blank = "(         )" if i % 2 else "( 0.000 ms)"
        lines.append(
            f"{(fault.time - first) / 1e6:10.3f} {blank}: llama-cli/{fault.pid} "
            f"{which}fault [ggml_vec_dot_q4_0+0x30] => {MODEL}@0x{fault.offset:x} (d.)"
        )
    return ("\n".join(lines) + "\n").encode()


def filefrag(
    extents: Sequence[tuple[int, int, int]], *, path: str = MODEL, size: int = -1
) -> bytes:
    """Return what ``filefrag -v`` prints of extents (logical, physical, length).

    All in blocks of 4096 bytes.
    """
    n = max((first + length for first, _, length in extents), default=0)
    size = n * BLOCK if size < 0 else size
    lines = ["Filesystem type is: ef53",
             f"File size of {path} is {size} ({n} blocks of {BLOCK} bytes)",
             " ext:     logical_offset:        physical_offset: length:   "
             "expected: flags:"]  # fmt: skip
    expected = ""
    for i, (first, start, length) in enumerate(extents):
        flags = "last,eof" if i == len(extents) - 1 else ""
        lines.append(
            f"{i:4d}: {first:8d}..{first + length - 1:8d}: "
            f"{start:10d}..{start + length - 1:10d}: {length:6d}: "
            f"{expected:>10} {flags}"
        )
        expected = f"{start + length}:"
    lines.append(f"{path}: {len(extents)} extent{'s' * (len(extents) != 1)} found")
    return ("\n".join(lines) + "\n").encode()


def samples(seed: int = 1, n: int = 24) -> Iterator[tuple[str, bytes]]:
    """Yield a name and a text of each form."""
    io, reads, faults = (
        random_io(seed, n),
        random_reads(seed, n),
        random_faults(seed, n),
    )
    yield "blkparse.txt", blkparse(io, partition=2048)
    yield "biosnoop.txt", biosnoop(io, queue=True)
    yield "biosnoop-bt.txt", bpftrace_biosnoop(io)
    yield "fatrace.txt", fatrace(seed, n)
    yield "strace.txt", strace(reads)
    yield "strace-plain.txt", strace(reads, fds=False)
    yield "perf-script.txt", perf_script(faults)
    yield "perf-trace.txt", perf_trace(faults)
