"""Makes what rocprofv3 writes as JSON and CSV, with what was put in.

The keys and columns are those of ``generateJSON.cpp`` and ``generateCSV.cpp`` of ROCm's
rocprofiler-sdk.
"""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

START = 63_857_982_592_001
"""Nanoseconds since the machine started, beyond what a float of microseconds keeps."""
CPU, GPU = 37_944, 37_946
KINDS: list[tuple[str, list[str]]] = [
    ("NONE", []),
    ("HIP_RUNTIME_API", ["hipLaunchKernel", "hipMemcpyAsync", "hipMalloc"]),
    ("MARKER_CORE_API", ["roctxMarkA", "roctxRangePushA"]),
    ("MEMORY_COPY", ["NONE", "MEMORY_COPY_HOST_TO_DEVICE",
                     "MEMORY_COPY_DEVICE_TO_HOST"]),
    ("KERNEL_DISPATCH", ["NONE", "KERNEL_DISPATCH_ENQUEUE",
                         "KERNEL_DISPATCH_COMPLETE"]),
    ("MEMORY_ALLOCATION", ["NONE", "MEMORY_ALLOCATION_ALLOCATE"]),
]  # fmt: skip
COUNTERS = {11: "SQ_WAVES", 12: "GRBM_COUNT"}


@dataclass(slots=True)
class Made:
    """What a program did; times are nanoseconds, in the order of their begin.

    Attributes
    ----------
    kernels : dicts of name, start, end, stream, queue, correlation, dispatch.
    calls : of the runtime: name, start, end, tid, correlation.
    ranges : of the program: the same.
    copies : name, start, end, bytes, correlation.
    allocations : start, end, bytes.
    counted : by counter, (time, sum of its instances).
    """

    pid: int
    kernels: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    allocations: list[dict[str, Any]] = field(default_factory=list)
    counted: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    symbols: dict[int, str] = field(default_factory=dict)


def program(
    seed: int, n: int = 24, names: Iterator[str] | None = None, pid: int = 908
) -> Made:
    """Return what a program did: a launch in three is a copy, one in five ranges."""
    rng = np.random.default_rng(seed)
    kernels = [
        "void gemm<float, 64>(float*, int)", "__amd_rocclr_copyBuffer",
        'k("a, b")', "kernel\nof two lines", "ncclDevKernel_Generic",
    ]  # fmt: skip
    text = names if names is not None else iter(())
    made = Made(pid)
    time = START + seed
    for i in range(n):
        tid = pid + int(rng.integers(0, 2))
        begin, length = time, int(rng.integers(100, 9_000))
        time += length + int(rng.integers(0, 500))
        work = begin + int(rng.integers(10, 2_000))
        until = work + int(rng.integers(0, 60_000))
        is_copy = i % 3 == 2
        made.calls.append(
            {"name": "hipMemcpyAsync" if is_copy else "hipLaunchKernel",
             "start": begin, "end": begin + length, "tid": tid, "correlation": i + 1}
        )  # fmt: skip
        if i % 5 == 0:
            made.ranges.append(
                {"name": next(text, f"step {i}, of {n}"), "start": begin,
                 "end": time, "tid": tid, "correlation": 1000 + i}
            )  # fmt: skip
        if is_copy:
            way = ("HOST_TO_DEVICE", "DEVICE_TO_HOST")[int(rng.integers(0, 2))]
            made.copies.append(
                {"name": f"MEMORY_COPY_{way}", "start": work, "end": until,
                 "bytes": int(rng.integers(1, 1 << 33)), "correlation": i + 1}
            )  # fmt: skip
            continue
        number = int(rng.integers(0, len(kernels))) + 1
        if number not in made.symbols:
            made.symbols[number] = next(text, kernels[number - 1])
        made.kernels.append(
            {"name": made.symbols[number], "kernel": number, "start": work,
             "end": until, "stream": int(rng.integers(0, 3)),
             "queue": int(rng.integers(16, 18)), "correlation": i + 1,
             "dispatch": len(made.kernels) + 1, "tid": tid}
        )  # fmt: skip
        if i % 7 == 0:
            made.allocations.append(
                {"start": begin, "end": begin + 9, "bytes": 4096 * (i + 1)}
            )
    return made


def _record(kind: str, operation: str, row: dict[str, Any]) -> dict[str, Any]:
    number = [name for name, _ in KINDS].index(kind)
    return {
        "size": 184,
        "kind": number,
        "operation": KINDS[number][1].index(operation),
        "thread_id": row.get("tid", 0),
        "correlation_id": {"internal": row.get("correlation", 0), "external": 0},
        "start_timestamp": row["start"],
        "end_timestamp": row["end"],
    }


def _dispatch(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "size": 72,
        "agent_id": {"handle": GPU},
        "queue_id": {"handle": row["queue"]},
        "kernel_id": row["kernel"],
        "dispatch_id": row["dispatch"],
        "workgroup_size": {"x": 64, "y": 1, "z": 1},
        "grid_size": {"x": 4096, "y": 1, "z": 1},
    }


def process(made: Made) -> dict[str, Any]:
    """Return the object of one process."""
    agents = [
        (CPU, 1, 0, "AMD EPYC 9575F"), (GPU, 2, 0, "AMD Instinct MI350X"),
    ]  # fmt: skip
    kernels = [
        {
            **_record("KERNEL_DISPATCH", "KERNEL_DISPATCH_COMPLETE", row),
            "dispatch_info": _dispatch(row),
            "stream_id": {"handle": row["stream"]},
        }
        for row in made.kernels
    ]
    copies = [
        {
            **_record("MEMORY_COPY", row["name"], row),
            "src_agent_id": {"handle": GPU if "DEVICE_TO" in row["name"] else CPU},
            "dst_agent_id": {"handle": CPU if "DEVICE_TO" in row["name"] else GPU},
            "bytes": row["bytes"],
            "stream_id": {"handle": 0},
        }
        for row in made.copies
    ]
    allocations = [
        {
            **_record("MEMORY_ALLOCATION", "MEMORY_ALLOCATION_ALLOCATE", row),
            "agent_id": {"handle": GPU},
            "allocation_size": row["bytes"],
        }
        for row in made.allocations
    ]
    return {
        "metadata": {"pid": made.pid, "command": ["/usr/bin/python3", "-u", "run.py"]},
        "agents": [
            {"size": 312, "id": {"handle": handle}, "type": kind, "node_id": number,
             "name": "gfx950", "product_name": name, "logical_node_type_id": number}
            for handle, kind, number, name in agents
        ],
        "counters": [{"id": {"handle": i}, "name": n} for i, n in COUNTERS.items()],
        "strings": {
            "callback_records": [],
            "buffer_records": [{"kind": k, "operations": o} for k, o in KINDS],
            "marker_api": [
                {"key": row["correlation"], "value": row["name"]} for row in made.ranges
            ],
            "correlation_id": {"external": []},
        },
        "kernel_symbols": [
            {"kernel_id": i, "kernel_name": f"_Z{i}.kd", "formatted_kernel_name": name}
            for i, name in made.symbols.items()
        ],
        "callback_records": {"counter_collection": []},
        "buffer_records": {
            "kernel_dispatch": kernels,
            "hip_api": [
                _record("HIP_RUNTIME_API", row["name"], row) for row in made.calls
            ],
            "hsa_api": [],
            "marker_api": [
                _record("MARKER_CORE_API", "roctxRangePushA", row)
                for row in made.ranges
            ],
            "memory_copy": copies,
            "memory_allocation": allocations,
        },
    }  # fmt: skip


def document(*processes: dict[str, Any], **layout: Any) -> bytes:
    """Return the file of some processes."""
    return json.dumps({"rocprofiler-sdk-tool": list(processes)}, **layout).encode()


def with_counters(made: Made, seed: int = 1) -> dict[str, Any]:
    """Return the object of a process whose kernels are there as counted ones alone.

    Each counter has three instances; their sums go to `Made.counted`.
    """
    rng = np.random.default_rng(seed)
    whole = process(made)
    whole["buffer_records"].pop("kernel_dispatch")
    listed = []
    for row in made.kernels:
        values = {i: rng.integers(0, 1 << 20, 3).tolist() for i in COUNTERS}
        for i, parts in values.items():
            sums = made.counted.setdefault(COUNTERS[i], [])
            sums.append((row["start"], float(sum(parts))))
        listed.append(
            {
                "thread_id": row["tid"],
                "dispatch_data": {
                    "correlation_id": {"internal": row["correlation"], "external": 0},
                    "start_timestamp": row["start"],
                    "end_timestamp": row["end"],
                    "dispatch_info": _dispatch(row),
                },
                "records": [
                    {"counter_id": {"handle": i}, "value": value + 0.0}
                    for i, parts in values.items()
                    for value in parts
                ],
            }
        )
    whole["callback_records"]["counter_collection"] = listed
    return whole


def _table(head: str, rows: list[list[Any]], delimiter: str = ",") -> bytes:
    file = io.StringIO(newline="")
    names = head.split()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n",
                        quoting=csv.QUOTE_NONNUMERIC)  # fmt: skip
    writer.writerow(names)
    for row in rows:
        assert len(row) == len(names)
        writer.writerow(row)
    return file.getvalue().encode()


def kernel_trace(made: Made, *, old: bool = False, delimiter: str = ",") -> bytes:
    """Return ``kernel_trace.csv``: of version 6.2 (`old`), or of version 7."""
    ids = count(1)
    if old:
        return _table(
            "Kind Agent_Id Queue_Id Kernel_Id Kernel_Name Correlation_Id "
            "Start_Timestamp End_Timestamp Grid_Size_X",
            [
                ["KERNEL_DISPATCH", 1, 139_690_710_949_888, k["kernel"], k["name"],
                 k["correlation"], k["start"], k["end"], 1024]
                for k in made.kernels
            ],
            delimiter,
        )  # fmt: skip
    return _table(
        "Kind Agent_Id Queue_Id Stream_Id Thread_Id Dispatch_Id Kernel_Id Kernel_Name "
        "Correlation_Id Start_Timestamp End_Timestamp LDS_Block_Size Grid_Size_X",
        [
            ["KERNEL_DISPATCH", "Agent 2", k["queue"], k["stream"], k["tid"],
             next(ids), k["kernel"], k["name"], k["correlation"], k["start"], k["end"],
             0, 1024]
            for k in made.kernels
        ],
        delimiter,
    )  # fmt: skip


_API = (
    "Domain Function Process_Id Thread_Id Correlation_Id Start_Timestamp End_Timestamp"
)


def api_trace(made: Made) -> bytes:
    """Return ``hip_api_trace.csv``."""
    return _table(
        _API,
        [
            ["HIP_RUNTIME_API", c["name"], made.pid, c["tid"], c["correlation"],
             c["start"], c["end"]]
            for c in made.calls
        ],
    )  # fmt: skip


def marker_trace(made: Made) -> bytes:
    """Return ``marker_api_trace.csv``."""
    return _table(
        _API,
        [
            ["MARKER_CORE_API", r["name"], made.pid, r["tid"], r["correlation"],
             r["start"], r["end"]]
            for r in made.ranges
        ],
    )  # fmt: skip


def copy_trace(made: Made) -> bytes:
    """Return ``memory_copy_trace.csv``."""
    return _table(
        "Kind Direction Stream_Id Source_Agent_Id Destination_Agent_Id Correlation_Id "
        "Start_Timestamp End_Timestamp",
        [
            ["MEMORY_COPY", c["name"], 0,
             *(("Agent 2", "Agent 0") if "DEVICE_TO" in c["name"]
               else ("Agent 0", "Agent 2")),
             c["correlation"], c["start"], c["end"]]
            for c in made.copies
        ],
    )  # fmt: skip


def allocation_trace(made: Made) -> bytes:
    """Return ``memory_allocation_trace.csv``."""
    return _table(
        "Kind Operation Agent_Id Allocation_Size Address Correlation_Id "
        "Start_Timestamp End_Timestamp",
        [
            ["MEMORY_ALLOCATION", "MEMORY_ALLOCATION_ALLOCATE", "Agent 2", a["bytes"],
             "0x00007f00", 0, a["start"], a["end"]]
            for a in made.allocations
        ],
    )  # fmt: skip


def counter_collection(made: Made, seed: int = 1, *, has_times: bool = True) -> bytes:
    """Return ``counter_collection.csv``; sums go to `Made.counted`."""
    rng = np.random.default_rng(seed)
    rows = []
    for k in made.kernels:
        for name in COUNTERS.values():
            value = float(rng.integers(0, 1 << 40)) / 4
            made.counted.setdefault(name, []).append((k["start"], value))
            rows.append(
                [k["correlation"], k["dispatch"], 2, k["queue"], made.pid, k["tid"],
                 k["name"], name, value,
                 *((k["start"], k["end"]) if has_times else ())]
            )  # fmt: skip
    times = " Start_Timestamp End_Timestamp" if has_times else ""
    return _table(
        "Correlation_Id Dispatch_Id Agent_Id Queue_Id Process_Id Thread_Id Kernel_Name "
        f"Counter_Name Counter_Value{times}",
        rows,
    )


def kernel_stats(made: Made) -> bytes:
    """Return ``kernel_stats.csv``, longest first."""
    sums: dict[str, list[int]] = {}
    for k in made.kernels:
        sums.setdefault(k["name"], []).append(k["end"] - k["start"])
    rows = sorted(sums.items(), key=lambda row: -sum(row[1]))
    total = max(sum(map(sum, sums.values())), 1)
    return _table(
        "Name Calls TotalDurationNs AverageNs Percentage MinNs MaxNs StdDev",
        [
            [name, len(t), sum(t), sum(t) / len(t), 100 * sum(t) / total, min(t),
             max(t), float(np.std(t))]
            for name, t in rows
        ],
    )  # fmt: skip
