"""Makes tables of Ascend's profilers, with what was put in."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

START = Decimal("1699529622790614.801")
"""Microseconds since 1970."""
CORES = ("AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "AI_CPU", "HCCL")
OPS = ("MatMul", "Cast", "Transpose", "N/A")
TASKS = ("AI_CORE", "KERNEL_AICPU", "MEMCPY_ASYNC", "EVENT_RECORD", "NOTIFY_WAIT")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A row; times are µs with three places."""

    name: str
    op: str
    core: str
    device: int
    stream: str
    start: Decimal
    duration: Decimal

    @property
    def start_ns(self) -> int:
        """The begin in nanoseconds."""
        return int(self.start * 1000)

    @property
    def end_ns(self) -> int:
        """The end in nanoseconds."""
        return int((self.start + self.duration) * 1000)


def kernels(
    seed: int,
    n: int = 40,
    names: Iterator[str] | None = None,
    cores: tuple[str, ...] = CORES,
) -> list[Kernel]:
    """Return kernels one behind the other, communication without a stream."""
    rng = np.random.default_rng(seed)
    time, made = START, []
    for i in range(n):
        core = cores[int(rng.integers(0, len(cores)))]
        op = OPS[int(rng.integers(0, len(OPS)))]
        duration = Decimal(int(rng.integers(1, 900_000))) / 1000
        name = next(names) if names is not None else f'{op}_"{i % 4}", {core}'
        stream = "N/A" if core == "HCCL" else str(int(rng.integers(2, 18)))
        device = int(rng.integers(0, 2))
        made.append(Kernel(name, op, core, device, stream, time, duration))
        time += duration + Decimal(int(rng.integers(0, 9_000))) / 1000
    return made


def table(head: str, rows: list[list[Any]], delimiter: str = ",") -> bytes:
    """Return a table; `head` has the names with commas between them."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(head.split(","))
    writer.writerows(rows)
    return file.getvalue().encode()


def kernel_details(rows: list[Kernel], delimiter: str = ",") -> bytes:
    """Return ``kernel_details.csv`` of torch_npu."""
    return table(
        "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,"
        "Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,"
        "aicore_time(us)",
        [
            [1, k.device, 4294967295, i, k.stream, k.name, k.op, k.core,
             f"{k.start}\t", k.duration, 0.5, 48, '"4,1025;2"', "N/A"]
            for i, k in enumerate(rows)
        ],
        delimiter,
    )  # fmt: skip


def op_summary(rows: list[Kernel]) -> bytes:
    """Return ``op_summary.csv`` of msprof."""
    return table(
        "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,"
        "Task Start Time(us),Task Duration(us),Task Wait Time(us),Block Dim",
        [
            [k.device, 1, i, k.stream, k.name, k.op, "static", k.core, k.start,
             k.duration, 0, 8]
            for i, k in enumerate(rows)
        ],
    )  # fmt: skip


def task_time(rows: list[Kernel]) -> bytes:
    """Return ``task_time.csv`` of msprof."""
    return table(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),"
        "task_start(us),task_stop(us)",
        [
            [k.device, k.name, k.core, k.stream, i, k.duration, k.start,
             k.start + k.duration]
            for i, k in enumerate(rows)
        ],
    )  # fmt: skip


def op_statistic(rows: list[Kernel]) -> bytes:
    """Return ``op_statistic.csv`` of msprof."""
    sums: dict[tuple[str, str], list[Decimal]] = {}
    for k in rows:
        sums.setdefault((k.op, k.core), []).append(k.duration)
    return table(
        "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),"
        "Max Time(us),Ratio(%)",
        [
            [0, op, core, len(t), sum(t), min(t), sum(t) / len(t), max(t), 9.1]
            for (op, core), t in sums.items()
        ],
    )  # fmt: skip
