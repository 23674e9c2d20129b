"""Write large synthetic traces for the benchmarks, block by block.

One llama-like run in three formats: records of 256 bytes, ggml-viz events, and the
JSON of an NPU simulator. Files depend on their size alone. Every token is the same
list of operations with other times, so a token is written as one template.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_logs import write_log
from bench_profilers import write_chrome, write_nsys

from ggscope.exporters import perfetto
from ggscope.exporters.events import Events
from ggscope.readers.registry import open_trace

SOURCE = np.dtype(
    [
        ("name", "S20"), ("tensor_ptr", "<u8"), ("size_bytes", "<u4"),
        ("layer_id", "<u2"), ("memory_source", "u1"), ("pad", "u1"),
        ("where", "<u8"), ("tensor_idx", "<u4"), ("pad2", "S4"),
    ]
)  # fmt: skip
RECORD = np.dtype(
    [
        ("timestamp_ns", "<u8"), ("token_id", "<u4"), ("layer_id", "<u2"),
        ("thread_id", "<u2"), ("operation_type", "u1"), ("phase", "u1"),
        ("num_sources", "u1"), ("pad", "S5"), ("dst_name", "S24"),
        ("src", SOURCE, (4,)),
    ]
)  # fmt: skip
EVENT = np.dtype(
    [
        ("type", "u1"), ("time", "<u8"), ("thread", "<u4"), ("ptr", "<u8"),
        ("op", "<u4"), ("pad", "<u4"), ("size", "<u8"), ("backend", "<u8"),
        ("has_label", "u1"),
    ]
)  # fmt: skip
"""A ggml-viz event of a 64-bit build, up to its label."""
GRAPH_BEGIN, GRAPH_END, OP_BEGIN, OP_END = range(4)
BACKEND = 0x5500_0000_1000
N_LAYERS = 32
N_THREADS = 8
TOKENS_PER_BLOCK = 128
TOKENS_PER_REQUEST = 256
GAP_NS = 700
OPS = (
    (25, "norm-{}", 3_000, ""), (7, "attn_norm-{}", 1_500, "attn_norm"),
    (29, "Qcur-{}", 210_000, "attn_q"), (29, "Kcur-{}", 55_000, "attn_k"),
    (29, "Vcur-{}", 56_000, "attn_v"), (48, "Qcur-{}", 6_000, ""),
    (42, "cache_k_l{}", 1_200, ""), (73, "__fattn__-{}", 60_000, ""),
    (29, "attn_out-{}", 205_000, "attn_output"), (2, "ffn_inp-{}", 1_800, ""),
    (29, "ffn_gate-{}", 540_000, "ffn_gate"), (29, "ffn_up-{}", 535_000, "ffn_up"),
    (94, "ffn_swiglu-{}", 7_500, ""), (29, "ffn_out-{}", 560_000, "ffn_down"),
    (2, "l_out-{}", 1_800, ""),
)  # fmt: skip
"""Op number of November 2025, name, median duration in ns, weight; per layer."""
OP_NAMES = {
    2: "ADD", 7: "MUL", 25: "RMS_NORM", 29: "MUL_MAT", 40: "GET_ROWS",
    42: "SET_ROWS", 48: "ROPE", 73: "FLASH_ATTN_EXT", 94: "GLU",
}  # fmt: skip
NO_LAYER = 0xFFFF


@dataclass(frozen=True)
class Op:
    """One operation of a token."""

    number: int
    name: str
    median_ns: int
    weight: str
    layer: int


@dataclass(frozen=True, eq=False)
class Block:
    """The times of some tokens.

    Attributes
    ----------
    first : number of the first token.
    start, duration : int64[n_tokens, n_ops], ns.
    is_prompt : bool[n_tokens].
    rng : goes on where the durations ended.
    """

    first: int
    start: np.ndarray
    duration: np.ndarray
    is_prompt: np.ndarray
    rng: np.random.Generator


def token_ops() -> list[Op]:
    """Return the operations of one token, in order."""
    ops = [Op(40, "inp_embd", 4_000, "token_embd.weight", NO_LAYER)]
    ops += [
        Op(number, name.format(i), ns, f"blk.{i}.{w}.weight" if w else "", i)
        for i in range(N_LAYERS)
        for number, name, ns, w in OPS
    ]
    return [*ops, Op(29, "result_output", 2_100_000, "output.weight", NO_LAYER)]


def blocks(ops: list[Op]) -> Iterator[Block]:
    """Yield 128 tokens after the other, without end."""
    median = np.array([op.median_ns for op in ops], np.float64)
    rng = np.random.Generator(np.random.PCG64(1))
    now, token, n = 1_234_567, 0, TOKENS_PER_BLOCK
    while True:
        duration = median * rng.lognormal(0, 0.12, (n, len(median)))
        is_prompt = (token + np.arange(n)) % TOKENS_PER_REQUEST == 0
        duration[is_prompt] *= 24
        whole = duration.astype(np.int64)
        ends = now + np.cumsum(whole.ravel() + GAP_NS)
        start = np.concatenate([[now], ends[:-1]]).reshape(whole.shape)
        yield Block(token, start, whole, is_prompt, rng)
        now, token = int(ends[-1]) + 50_000, token + n


# -- 256-byte records --------------------------------------------------------


def write_bin(path: Path, n: int) -> None:
    """Write `n` records of 256 bytes."""
    ops = token_ops()
    template = _records(ops)
    made = 0
    with path.open("wb") as file:
        for block in blocks(ops):
            tokens = len(block.start)
            records = np.tile(template, tokens)
            numbers = block.first + np.arange(tokens)
            records["timestamp_ns"] = block.start.ravel()
            records["token_id"] = np.repeat(numbers, len(ops))
            phase = (~block.is_prompt).astype(np.uint8)
            records["phase"] = np.repeat(phase, len(ops))
            thread = block.rng.integers(0, N_THREADS, len(records))
            records["thread_id"] = 4242 + thread * 7
            keep = min(len(records), n - made)
            file.write(records[:keep].tobytes())
            made += keep
            if made == n:
                return


def _records(ops: list[Op]) -> np.ndarray:
    """Return the records of one token."""
    record = np.zeros(len(ops), RECORD)
    for i, op in enumerate(ops):
        r = record[i]
        r["operation_type"], r["dst_name"] = op.number, op.name.encode()[:23]
        r["layer_id"] = op.layer if op.weight else NO_LAYER
        sources = [(op.weight, 0)] if op.weight else []
        sources += [(ops[i - 1].name if i else "inp_tokens", 1)]
        r["num_sources"] = len(sources)
        for k, (source, space) in enumerate(sources):
            s = r["src"][k]
            s["name"], s["memory_source"] = source.encode()[:19], space
            s["size_bytes"], s["tensor_idx"] = 8192 + op.median_ns, 0xFFFFFFFF
            s["tensor_ptr"] = 0x7F00_0000_0000 + i * 0x4000
            s["where"] = 0x1000 if space else i << 20
            s["layer_id"] = op.layer
    return record


# -- ggml-viz events ---------------------------------------------------------


def write_ggmlviz(path: Path, n: int) -> None:
    """Write at least `n` events: two per operation and two per token."""
    ops = token_ops()
    template, places = _events(ops)
    time = places[:, None] + 1 + np.arange(8)
    thread = places[:, None] + 9 + np.arange(4)
    made = 0
    with path.open("wb") as file:
        file.write(b"GGMLVIZ1" + (1).to_bytes(4, "little"))
        for block in blocks(ops):
            tokens = min(len(block.start), -(-(n - made) // len(places)))
            start, end = block.start, block.start + block.duration
            # The graph begins before its first op and ends behind its last.
            when = np.empty((len(start), len(places)), "<u8")
            when[:, 0], when[:, -1] = start[:, 0] - 50, end[:, -1] + 50
            when[:, 1:-1:2], when[:, 2:-1:2] = start, end
            who = np.full(when.shape, 4242, "<u4")
            chosen = block.rng.integers(0, N_THREADS, start.shape)
            who[:, 1:-1:2] = who[:, 2:-1:2] = 4242 + chosen * 7
            data = np.tile(template, (len(start), 1))
            data[:, time] = when.view(np.uint8).reshape(*when.shape, 8)
            data[:, thread] = who.view(np.uint8).reshape(*who.shape, 4)
            file.write(data[:tokens].tobytes())
            made += tokens * len(places)
            if made >= n:
                return


def _events(ops: list[Op]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of one token, uint8[m], and where its events begin."""
    parts: list[bytes] = []
    places, at = [], 0

    def add(kind: int, label: str, **fields: int) -> None:
        nonlocal at
        event = np.zeros((), EVENT)
        event["type"], event["backend"] = kind, BACKEND
        for name, value in fields.items():
            event[name] = value
        event["has_label"] = bool(label)
        text = label.encode()
        part = event.tobytes()
        if label:
            part += len(text).to_bytes(4, "little") + text
        places.append(at)
        parts.append(part)
        at += len(part)

    # In a graph's event the backend stands where an op has its size.
    graph = {"ptr": 0x5500_0000_2000, "op": len(ops), "pad": N_THREADS, "size": BACKEND}
    add(GRAPH_BEGIN, "", **graph)
    for i, op in enumerate(ops):
        for kind in (OP_BEGIN, OP_END):
            add(
                kind, op.name, ptr=0x7E00_0000_0000 + i * 0x1_0040,
                op=op.number, size=8192 + op.median_ns,
            )  # fmt: skip
    add(GRAPH_END, "", **graph)
    return np.frombuffer(b"".join(parts), np.uint8), np.array(places)


# -- the JSON of an NPU simulator --------------------------------------------


def write_npu(path: Path, n: int) -> None:
    """Write at least `n` timeline events; one cycle is one nanosecond."""
    ops = token_ops()
    template, takes, per_token = _json_token(ops)
    weights = sum(_bytes(op) for op in ops if op.weight)
    samples: list[tuple[int, int]] = []
    made, command, origin, last = 0, 0, None, 0
    with path.open("w", encoding="ascii", buffering=1 << 20) as file:
        file.write(_json_head())
        for block in blocks(ops):
            origin = int(block.start[0, 0]) if origin is None else origin
            start = block.start - origin
            end = start + block.duration
            engine = block.rng.integers(0, N_THREADS, start.shape)
            for i in range(len(start)):
                numbers = np.arange(command, command + len(ops))
                columns = np.stack([engine[i], numbers, start[i], end[i]])
                last = int(end[i, -1])
                head = (
                    "PREFILL" if block.is_prompt[i] else "DECODE",
                    block.first + i, int(start[i, 0]), last,
                )  # fmt: skip
                # `takes` says which number of the token stands at which place.
                body = columns.ravel()[takes].tolist()
                file.write("" if made == 0 else ",\n")
                file.write(template % (*head, *body))
                samples.append((int(start[i, 0]), weights))
                command += len(ops)
                made += per_token
                if made >= n:
                    file.write(_json_tail(samples, last))
                    return


def _json_token(ops: list[Op]) -> tuple[str, np.ndarray, int]:
    """Return (template, what fills it, number of events) of one token.

    The numbers of a token are engine ids, command ids, starts and ends, one row
    each; what fills the template are places in them.
    """
    n = len(ops)
    lines = [
        '{"type":"TOKEN_EVENT","phase":"%s","token_index":%d,"start_cycle":%d,'
        '"end_cycle":%d,"details":{"prompt_len":512}}'
    ]
    takes: list[int] = []
    for i, op in enumerate(ops):
        kind = OP_NAMES[op.number]
        is_matrix = kind in ("MUL_MAT", "FLASH_ATTN_EXT")
        is_copy = kind in ("GET_ROWS", "SET_ROWS")
        engine = "TE" if is_matrix else "DMA" if is_copy else "VE"
        layer = "null" if op.layer == NO_LAYER else f'"blk_{op.layer}"'
        lines.append(
            f'{{"type":"ENGINE_EVENT","engine":"{engine}","engine_id":%d,'
            f'"cmdq_id":%d,"layer_id":{layer},"tile_id":"{op.name}",'
            f'"op":"{engine}_{kind}_TILE","start_cycle":%d,"end_cycle":%d,'
            f'"details":{_json_details(engine, op, i)}}}'
        )
        takes += [i, n + i, 2 * n + i, 3 * n + i]
        if op.weight:
            lines.append(
                '{"type":"MEM_ACCESS_EVENT","mem_type":"DRAM","cycle":%d,'
                f'"direction":"read","bytes":{_bytes(op)},"addr":{1 << 20 | i << 12},'
                '"source_engine":"DMA","source_engine_id":%d,"cmdq_id":%d}'
            )
            takes += [2 * n + i, i, n + i]
    return ",\n".join(lines), np.array(takes), len(lines)


def _json_details(engine: str, op: Op, number: int) -> str:
    details: dict[str, int | str] = {"length": 4096, "qbits_activation": 8}
    if engine == "TE":
        details = {
            "m": 1, "n": 4096, "k": 4096, "qbits_weight": 4, "qbits_activation": 8,
            "macs": 4096 * 4096,
        }  # fmt: skip
    elif engine == "DMA":
        details = {
            "bytes": _bytes(op), "direction": "read",
            "dram_addr": 120_000 + number * 4096,
        }  # fmt: skip
    return json.dumps(details, separators=(",", ":"))


def _json_head() -> str:
    run = {
        "run_id": "bench", "timestamp": "2026-01-01T00:00:00Z",
        "model_name": "Synthetic-7B", "workload_type": "LLM_PREFILL_AND_DECODE",
        "tokens": {"prefill_tokens": 512, "decode_tokens": 255}, "cmdq_file": "none",
    }  # fmt: skip
    config = {
        "npu": {"num_te": N_THREADS, "num_ve": N_THREADS, "num_dma": N_THREADS},
        "memory": {"dram_peak_bw_bytes_per_cycle": 128},
        "quantization": {"default_weight_qbits": 4, "default_kv_qbits": 8},
    }
    return (
        f'{{"version":"1.0","run_metadata":{json.dumps(run)},'
        f'"config_snapshot":{json.dumps(config)},\n"timeline_events":[\n'
    )


def _json_tail(samples: list[tuple[int, int]], last: int) -> str:
    lines = ",\n".join(
        f'{{"cycle":{cycle},"window_cycles":1048576,"dram_read_bytes":{read},'
        f'"dram_write_bytes":{read // 64}}}'
        for cycle, read in samples
    )
    read = sum(read for _, read in samples)
    summary = {
        "cycles_total": last, "dram_bytes_read": read, "dram_bytes_write": read // 64,
    }  # fmt: skip
    return f'\n],\n"bandwidth_samples":[\n{lines}\n],\n"summary_metrics":' + (
        json.dumps(summary) + "}\n"
    )


def _bytes(op: Op) -> int:
    """Return how much of its weight an op reads."""
    return 8192 + op.median_ns


# -- which files -------------------------------------------------------------


@dataclass(frozen=True)
class TraceFile:
    """A trace that a benchmark needs.

    Attributes
    ----------
    name : relative to the folder of all traces; those of one session share a folder.
    n : records, events or accesses.
    n_bytes : what it takes on the disk; exact for records, about so for the others.
    """

    name: str
    n: int
    n_bytes: int
    write: Callable[[Path, int], None]


def trace_file(kind: str, n: int) -> TraceFile:
    """Return the file with `n` records ("bin"), lines ("logs"), else events or rows."""
    if kind == "bin":
        return TraceFile(f"t{n}.bin", n, n * RECORD.itemsize, write_bin)
    if kind == "ggmlviz":
        return TraceFile(f"llama-{n}.ggmlviz", n, n * 60, write_ggmlviz)
    if kind == "chrome":
        return TraceFile(f"torch-{n}.chrome.json", n, n * 240, write_chrome)
    if kind == "pftrace":
        return TraceFile(f"torch-{n}.pftrace", n, n * 60, write_pftrace)
    if kind == "nsys":
        return TraceFile(f"report-{n}.sqlite", n, n * 55, write_nsys)
    if kind == "logs":
        return TraceFile(f"server-{n}.log", n, n * 100, write_log)
    return TraceFile(f"llama-{n}.npu.json", n, n * 230, write_npu)


def is_there(file: TraceFile, folder: Path) -> bool:
    """Return whether the file is whole; a mark beside it says which size is whole."""
    path = folder / file.name
    if not path.is_file():
        return False
    if file.write is write_bin:
        return path.stat().st_size == file.n_bytes
    mark = _mark(file, folder)
    return mark.is_file() and mark.read_text() == str(path.stat().st_size)


def lacking_bytes(files: list[TraceFile], folder: Path) -> int:
    """Return by how many bytes the disk is too small for what is still to write."""
    needed = sum(file.n_bytes for file in files if not is_there(file, folder))
    free = shutil.disk_usage(folder).free
    return max(0, needed + (1 << 28) - free) if needed else 0


def provide(file: TraceFile, folder: Path) -> Path:
    """Write the file unless it is there; return its path."""
    path = folder / file.name
    if not is_there(file, folder):
        path.parent.mkdir(exist_ok=True)
        file.write(path, file.n)
        if file.write is not write_bin:
            _mark(file, folder).write_text(str(path.stat().st_size))
    return path


def write_pftrace(path: Path, n: int) -> None:
    """Write a Chrome trace of `n` events, which lies beside it, as Perfetto packets."""
    trace = open_trace(provide(trace_file("chrome", n), path.parent))
    with path.open("wb") as file:
        for chunk in perfetto.chunks(Events(trace)):
            file.write(chunk)


def _mark(file: TraceFile, folder: Path) -> Path:
    """Return the mark of a file, which never lies in a session's folder."""
    return folder / (file.name.replace("/", "-") + ".size")
