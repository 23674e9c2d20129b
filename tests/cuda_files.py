"""Traces of CUDA calls in the dialects of their programs, made of random calls.

Written after ``cuda_hook.c``, ``generic_cuda_hook.c``, ``trace_cuda_full.bt``,
``cuda_tracer.py``, the sidecar of k3s, ``trace_all_cuda.bt`` and ``strace -tt -T``.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

FUNCTIONS = (
    "cuInit", "cuCtxCreate", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2",
    "cuLaunchKernel", "cuStreamSynchronize", "cuModuleLoadData", "cuDeviceGet",
    "cuCtxSynchronize", "cuMemFree_v2", "cuEventRecord",
)  # fmt: skip
START_US = 98_765_000_000


@dataclass(frozen=True)
class Call:
    """A call; times in µs; `size` -1: none; `result` None: not stated."""

    begin: int
    end: int
    tid: int
    name: str
    depth: int = 0
    size: int = -1
    result: int | None = 0

    @property
    def is_copy(self) -> bool:
        return "Memcpy" in self.name


def random_calls(seed: int, n: int, n_threads: int = 3) -> list[Call]:
    """Return about `n` calls, of which some lie within others of their thread."""
    rng = np.random.default_rng(seed)
    calls: list[Call] = []
    clocks = dict.fromkeys(range(4242, 4242 + n_threads), START_US)

    def call(tid: int, depth: int) -> None:
        begin = clocks[tid] = clocks[tid] + int(rng.integers(1, 50))
        place = len(calls)
        calls.append(Call(0, 0, 0, ""))
        while depth < 3 and rng.random() < 0.3:
            call(tid, depth + 1)
        clocks[tid] += int(rng.integers(1, 500))
        name = FUNCTIONS[int(rng.integers(len(FUNCTIONS)))]
        size = int(rng.integers(1, 1 << 28)) if "Mem" in name else -1
        result = int(rng.choice([0, 0, 0, 0, 2, 700]))
        calls[place] = Call(begin, clocks[tid], tid, name, depth, size, result)

    while len(calls) < n:
        call(4242 + int(rng.integers(n_threads)), 0)
    return calls


Event = tuple[int, bool, int]


def in_order(calls: Sequence[Call]) -> list[Event]:
    """Return (time, whether it begins, call) of all begins and ends, in their order."""
    events = [(call.begin, True, i) for i, call in enumerate(calls)]
    events += [(call.end, False, i) for i, call in enumerate(calls)]
    # At one moment an end comes before a begin, and an inner end before an outer.
    return sorted(events, key=lambda e: (e[0], e[1], -e[2]))


def _seconds(us: int) -> str:
    return f"{us // 1_000_000}.{us % 1_000_000:06d}000"


def hook(calls: Sequence[Call], *, is_damaged: bool = False) -> list[str]:
    """Return the lines of ``cuda_hook.c``; `is_damaged`: as it is committed."""
    lines = []
    for us, is_begin, i in in_order(calls):
        call = calls[i]
        letter = "B" if is_begin else "E"
        phase = f'"phase""{letter}"",' if is_damaged else f'"phase":"{letter}",'
        details: dict[str, object] = {"size": call.size} if call.size >= 0 else {}
        if not is_begin:
            details["status"] = call.result
        lines.append(
            f'{{"ts":{_seconds(us)},"op_id":{i},{phase}"category":"other",'
            f'"name":"{call.name}","details":{json.dumps(details)}}}'
        )
    return lines


def generic_hook(calls: Sequence[Call]) -> list[str]:
    """Return the lines of ``generic_cuda_hook.c``, with threads and depths."""
    lines = []
    for us, is_begin, i in in_order(calls):
        call = calls[i]
        end = "" if is_begin else f',"result_ptr":"0x7f","result_code":{call.result}'
        lines.append(
            f'{{"ts":{_seconds(us)},"op_id":{i},"tid":{call.tid},'
            f'"depth":{call.depth},"phase":"{"B" if is_begin else "E"}",'
            f'"name":"{call.name}"{end}}}'
        )
    return lines


def notes(calls: Sequence[Call]) -> list[str]:
    """Return lines as notes on tracing give them: no threads, results at the end."""
    lines = []
    for us, is_begin, i in in_order(calls):
        call = calls[i]
        row: dict[str, object] = {"ts": us / 1e6, "op_id": i}
        row |= {"phase": "B" if is_begin else "E", "name": call.name}
        if is_begin and call.size >= 0:
            row["details"] = {"size": call.size}
        if not is_begin:
            row["result"] = call.result
        lines.append(json.dumps(row))
    return lines


def probes(calls: Sequence[Call]) -> list[str]:
    """Return the lines of ``trace_cuda_full.bt``: ms, probes, durations, instants."""
    lines = []
    for number, (us, is_begin, i) in enumerate(in_order(calls)):
        call = calls[i]
        row: dict[str, object] = {"event_id": number, "ts": us / 1e3, "tid": call.tid}
        kind = "uprobe" if is_begin else "uretprobe"
        row |= {
            "phase": "B" if is_begin else "E", "type": "userspace",
            "name": f"{kind}:/lib/x86_64-linux-gnu/libcuda.so.1:{call.name}",
            "depth": call.depth,
        }  # fmt: skip
        if not is_begin:
            row |= {"duration_us": call.end - call.begin, "retval": call.result}
        lines.append(json.dumps(row))
    return lines


def numbered(calls: Sequence[Call]) -> list[str]:
    """Return the lines of ``cuda_tracer.py``: kinds are numbers, times negative."""
    return [
        json.dumps(
            {
                "ts": (us - 1_769_014_987_499_000) / 1e6, "event_id": number, "pid": 8,
                "tid": calls[i].tid, "type": 1 if is_begin else 2,
                "depth": calls[i].depth,
            }
        )
        for number, (us, is_begin, i) in enumerate(in_order(calls))
    ]  # fmt: skip


def entries(calls: Sequence[Call]) -> list[str]:
    """Return the lines of the sidecar of k3s: calls begin, times in ms."""
    return [
        f'{{"ts":{us / 1e3:.3f},"pid":77,"type":"cuda_api","func":"{calls[i].name}",'
        f'"phase":"entry"}}'
        for us, is_begin, i in in_order(calls)
        if is_begin
    ]


def probe_text(calls: Sequence[Call]) -> list[str]:
    """Return the table of ``trace_all_cuda.bt``: ms, and durations at the end."""
    lines = [
        "=== CUDA API Tracer Started ===", "Tracing all cu* functions in libcuda.so",
        "", "TIME(ms)   TID      DEPTH  FUNCTION                       DURATION",
    ]  # fmt: skip
    for us, is_begin, i in in_order(calls):
        call = calls[i]
        arrow, kind = ("→", "uprobe") if is_begin else ("←", "uretprobe")
        name = f"{kind}:/lib/x86_64-linux-gnu/libcuda.so.1:{call.name}"
        took = "" if is_begin else f" {call.end - call.begin:<10} μs"
        lines.append(
            f"{us // 1000:<10} {call.tid:<8} {call.depth:<6} {arrow} {name}{took}"
        )
        if is_begin and "MemAlloc" in call.name:
            lines.append(f"  [MEM] Allocating {call.size} bytes")
    return lines


def strace(calls: Sequence[Call]) -> list[str]:
    """Return the lines of ``strace -f -e ioctl -tt -T``; calls with others within
    them are interrupted."""
    lines = []
    for us, is_begin, i in in_order(calls):
        call = calls[i]
        second = us // 1_000_000
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        head = f"[pid {call.tid}] {clock}.{us % 1_000_000:06d}"
        outcome = "-1 EINVAL (Invalid argument)" if call.result else "0"
        took = f"<{(call.end - call.begin) / 1e6:.6f}>"
        if is_begin:
            lines.append(f"{head} ioctl({i}, 0xc0044601 <unfinished ...>")
        else:
            lines.append(f"{head} <... ioctl resumed>) = {outcome} {took}")
    return lines


def own_hook(calls: Sequence[Call]) -> list[str]:
    """Return the lines of ggscope's hook, with addresses, kernels and rates."""
    begun: dict[str, object] = {
        "trace": "ggscope-cuda", "version": 1, "pid": 4242, "program": "/bin/x",
        "way": "driver table",
    }  # fmt: skip
    start = f'"ts":{_seconds(START_US)},"epoch_ns":{1_790_000_000 * 10**9}'
    lines = [json.dumps(begun)[:-1] + f",{start}}}"]
    for us, is_begin, i in in_order(calls):
        call, details = calls[i], dict[str, object]()
        row = f'"op_id":{i},"tid":{call.tid},"depth":{call.depth}'
        row = f'{{"ts":{_seconds(us)},{row},"phase":"{"B" if is_begin else "E"}"'
        row += f',"name":"{call.name}"'
        address = f"0x{1 + call.size % 7 << 20:x}"
        if is_begin and call.size >= 0 and call.name != "cuMemFree_v2":
            details["size"] = call.size
        if is_begin and call.name == "cuMemFree_v2":
            details["ptr"] = address
        if is_begin and call.name == "cuLaunchKernel":
            details |= {"function": "0x7f", "kernel": f"kernel_{i % 5}"}
        if not is_begin:
            row += f',"result":{call.result}'
            if call.name == "cuMemAlloc_v2" and not call.result:
                details["ptr"] = address
            if call.is_copy and not call.result:
                rate = call.size / 1000 / (call.end - call.begin)
                details["bandwidth_gbps"] = round(rate, 2)
        lines.append(
            row + (f',"details":{json.dumps(details)}' if details else "") + "}"
        )
    return lines


def own_hook_end(us: int, n_lines: int, n_dropped: int = 0) -> str:
    """Return the last line of ggscope's hook."""
    return (
        f'{{"trace":"ggscope-cuda","end":true,"ts":{_seconds(us)},"lines":{n_lines},'
        f'"dropped":{n_dropped},"functions_left_out":0}}'
    )


DIALECTS: dict[str, Callable[[Sequence[Call]], list[str]]] = {
    "notes": notes,
    "hook": hook,
    "damaged hook": lambda calls: hook(calls, is_damaged=True),
    "generic hook": generic_hook,
    "probes": probes,
    "numbered": numbered,
    "entries": entries,
    "probe text": probe_text,
    "strace": strace,
}


def text(dialect: str, seed: int = 1, n: int = 40) -> bytes:
    """Return a file of random calls."""
    lines = DIALECTS[dialect](random_calls(seed, n))
    return ("\n".join(lines) + "\n").encode()
