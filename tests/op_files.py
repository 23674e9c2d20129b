"""Lists of ops as ggml's scheduler, Vulkan logger, Hexagon and OpenCL write them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

OPS = ("MUL_MAT", "ADD", "RMS_NORM", "ROPE", "GATED_DELTA_NET", "SET_ROWS")
BACKENDS = ("CUDA0", "CPU", "RPC0[127.0.0.1:50052]")
VULKAN_NAMES = (
    "MUL_MAT_VEC q4_K m=2048 n=1 k=2048",
    "RMS_NORM(2048,1,1,1), MUL",
    "FLASH_ATTN_EXT dst(64,8,1,1),  q(64,1,8,1),  k(64,32,8,1),  v(64,32,8,1), "
    " m(32,1,1,1)",
    "SILU",
)
_WRAP = 1 << 32


@dataclass
class Node:
    """A node as the scheduler lists it; sizes are bytes."""

    number: int
    op: str
    name: str
    size: int
    backend: str
    sources: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass
class Split:
    """A split with the tensors that are copied, and its nodes."""

    number: int
    backend: str
    inputs: list[tuple[str, int]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)


Graphs = list[list[Split]]


def graphs(seed: int, n: int = 3, names: Iterator[str] | None = None) -> Graphs:
    """Return graphs of two or three splits on two backends."""
    rng = np.random.default_rng(seed)
    made: Graphs = []
    for _ in range(n):
        number, splits, before = 0, [], "inp_embd"
        for k in range(int(rng.integers(1, 4))):
            backend = BACKENDS[int(rng.integers(len(BACKENDS)))]
            size = int(rng.integers(1 << 23))
            split = Split(k, backend, [(before, size)] if k else [])
            for _ in range(int(rng.integers(1, 6))):
                op = OPS[int(rng.integers(len(OPS)))]
                stem = next(names) if names is not None else op.lower()
                name = f"{stem}-{number % 4}"
                sources = [(before, size, backend)]
                if op == "MUL_MAT":
                    weight = f"blk.{number % 4}.ffn_down.weight"
                    sources.insert(0, (weight, 5 << 20, backend))
                size = int(rng.integers(1 << 23))
                split.nodes.append(Node(number, op, name, size, backend, sources))
                number, before = number + int(rng.integers(1, 3)), name
            splits.append(split)
        made.append(splits)
    return made


def size_text(size: int) -> str:
    """Return a size as the scheduler prints it."""
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


def scheduler(
    made: Graphs, *, clock: bool = False, prefix: str = "", use: str = "use=1,c=1"
) -> bytes:
    """Return what GGML_SCHED_DEBUG=2 prints; `clock` as llama.cpp's logger does."""
    now = 1_781_553

    def stamp() -> str:
        nonlocal now
        now += 7
        text = f"{now // 60_000_000}.{now // 1_000_000 % 60:02}"
        return f"{text}.{now // 1000 % 1000:03}.{now % 1000:03} D " if clock else ""

    lines = []
    for splits in made:
        for split in splits:
            line = f"## SPLIT #{split.number}: {split.backend} # "
            line += f"{len(split.inputs)} inputs"
            for i, (name, size) in enumerate(split.inputs):
                line += f"{stamp()}: " if i == 0 else ""
                line += f"{stamp()}[{name} ({size_text(size):>5.5})] "
            lines += [stamp().rstrip(), prefix + line + stamp()]
            for node in split.nodes:
                line = f"{stamp()}node #{node.number:3d} ({node.op:>10.10}): "
                line += _tensor(node.name, node.size, node.backend)
                line += f" {use}:" if use else ":"
                for source in node.sources:
                    line += f"{stamp()} {_tensor(*source)}"
                lines.append(prefix + line + stamp())
    return ("\n".join(lines) + "\n").encode()


def _tensor(name: str, size: int, backend: str) -> str:
    return f"{name:>20.20} ({size_text(size):>5.5}) [{backend:>5.5} {'':>8.8}]"


@dataclass
class Timed:
    """A row of Vulkan's list; ns."""

    name: str
    times: list[int]
    flops: int | None


def vulkan_lists(
    seed: int, n: int = 3, names: Iterator[str] | None = None
) -> list[list[Timed]]:
    """Return lists as Vulkan's logger makes them, a row per name, sorted."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(n):
        rows = []
        for k, name in enumerate(sorted(VULKAN_NAMES)):
            stem = f"{name} {next(names)}" if names is not None else name
            times = rng.integers(100, 10**7, int(rng.integers(1, 40))).tolist()
            flops = int(rng.integers(10**6, 10**9)) if k % 2 else None
            rows.append(Timed(stem, times, flops))
        made.append(rows)
    return made


def iostream(value: float) -> str:
    """Return a number as C++ writes it, with six digits."""
    return f"{value:g}"


def vulkan(made: list[list[Timed]], *, old: bool = False, prefix: str = "") -> bytes:
    """Return what GGML_VK_PERF_LOGGER=1 prints; `old` as in May 2025."""
    lines = []
    for rows in made:
        lines += ["----------------", "Vulkan Timings:"]
        for row in rows:
            total, n = sum(row.times), len(row.times)
            mean = total // n / 1000.0
            if old:
                lines.append(f"{row.name}: {n} x {iostream(mean)} ms")
                continue
            line = f"{row.name}: {n} x {iostream(mean)} us = "
            line += f"{iostream(total / 1000.0)} us"
            if row.flops is not None:
                rate = iostream(row.flops * n / 1e9 / (total / 1e9))
                line += f" ({rate} GFLOPS/s)"
            lines.append(line)
        if not old:
            whole = sum(sum(row.times) for row in rows)
            lines.append(f"Total time: {iostream(whole / 1000.0)} us.")
    return "".join(f"{prefix}{line}\n" for line in lines).encode()


HEXAGON_MHZ = 2000


@dataclass
class NpuOp:
    """An op of Hexagon's profile, in whole cycles that do not wrap."""

    op: str
    names: str
    start: int
    cycles: int
    events: list[tuple[int, str, int, int, int]]
    """Thread, event, info, first and last cycle."""


def npu_ops(seed: int, n: int = 12, names: Iterator[str] | None = None) -> list[NpuOp]:
    """Return ops one behind the other whose counter wraps on the way."""
    rng = np.random.default_rng(seed)
    now, made = _WRAP - 2_000_000, []
    for i in range(n):
        cycles = HEXAGON_MHZ * int(rng.integers(100, 1000))
        name = next(names) if names is not None else f"ffn_out-{i}"
        what = f"blk.{i}.ffn_down.weight x ffn_swiglu-{i} -> {name}"
        events = []
        for thread in (0, 1, 10):
            word = "HMX_COMP" if thread == 10 else "HVX_COMP"
            at = now + int(rng.integers(10, 1000))
            events.append((thread, word, i, at, at + cycles // 2))
            if thread == 0:
                events.append((thread, "DMA", i, at + 5, at + cycles // 3))
        op = ("MUL_MAT", "RMS_NORM+MUL")[i % 2]
        made.append(NpuOp(op, what, now, cycles, events))
        now += cycles + int(rng.integers(2000))
    return made


def hexagon(made: list[NpuOp], *, old: bool = False, clock: bool = False) -> bytes:
    """Return what GGML_HEXAGON_PROFILE=3 prints, in either dialect."""
    lines = []
    head = "0.01.576.635 D " if clock else ""
    mark, first = (" : ", ": ") if old else ("|", "|")
    for op in made:
        fields = [
            op.names, "64:32 x 64:2 -> 32:2", "q4_0 x f32 -> f32",
            "36:1 x 256:4 -> 128:4",
        ]  # fmt: skip
        fields += [] if old else ["----"]
        usec = op.cycles // HEXAGON_MHZ
        tail = f"usec {usec} cycles {op.cycles} start {op.start % _WRAP} mhz 2000.0"
        text = f"{op.op}{first}{mark.join([*fields, tail])}"
        lines.append(f"{head}ggml-hex: HTP0 profile-op {text}")
        stamps = [
            (thread, event, info, cycle, word)
            for thread, event, info, *cycles in op.events
            for cycle, word in zip(cycles, ("start", "stop"), strict=True)
        ]
        for thread, event, info, cycle, word in stamps:
            what = (
                f"trace-op {op.op}: thread {thread} event {event} info {info}"
                if old
                else f"trace-evt {event}: thread {thread} info {info}"
            )
            lines.append(f"{head}ggml-hex: HTP0 {what} {word} {cycle % _WRAP}")
    return "".join(f"{line}\n" for line in lines).encode()


def batch(n_ops: int, counts: list[int], start: int, cycles: int) -> str:
    """Return the line of a batch."""
    stated = ",".join(map(str, counts))
    return (
        f"ggml-hex: HTP0 profile-op OPBATCH|----|n-ops {n_ops}|evt-cnt {stated}|----|"
        f"----|usec {cycles // HEXAGON_MHZ} cycles {cycles} start {start} mhz 2000.0\n"
    )


OPENCL_HEAD = (
    "op name, kernel name, exec duration (ms), global size, local size, output size\n"
)


def kernels(
    seed: int, n: int = 40, names: Iterator[str] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of ``cl_profiling.csv``."""
    rng = np.random.default_rng(seed)
    return [
        {
            "name": next(names) if names is not None else f"Qcur-{i % 5}",
            "kernel": ("kernel_mul_mm_f16_f32_l4_lm", "kernel_add")[i % 2],
            "ns": int(rng.integers(1, 10**8)),
            "shape": (3072, int(rng.integers(1, 64)), 1, 1),
        }
        for i in range(n)
    ]


def opencl(made: list[dict[str, Any]]) -> bytes:
    """Return ``cl_profiling.csv``."""
    lines = [OPENCL_HEAD]
    for row in made:
        shape = "x".join(map(str, row["shape"]))
        lines.append(
            f"{row['name']},{row['kernel']},{row['ns'] / 1e6:f},64x2x1,64x0x0,{shape}\n"
        )
    return "".join(lines).encode()
