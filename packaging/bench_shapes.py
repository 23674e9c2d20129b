"""Write traces that have very many of one thing: threads, labels, levels, nodes.

A file depends on its shape and size alone. `SHAPES` names them all; each is written
by a function that takes the path and how many things the file is to have.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench_traces import EVENT, GRAPH_BEGIN, GRAPH_END, OP_BEGIN, OP_END, RECORD

MULTIPLICATION, ADDITION = 29, 2
NONE_16, NONE_32 = 0xFFFF, 0xFFFF_FFFF
MAX_AT_ONCE = 1 << 16
LONG_NAME = 1 << 20


@dataclass(frozen=True)
class Shape:
    """A kind of trace that has many of one thing.

    Attributes
    ----------
    suffix : of the file's name.
    n : how many of the thing a reader has to bear.
    records : records, events or entries per thing; what is left over counts nothing.
    write : writes the file.
    """

    suffix: str
    n: int
    records: float
    write: Callable[[Path, int], None]


# -- ggml-viz events ---------------------------------------------------------


def _events(n: int, **columns: Any) -> np.ndarray:
    """Return `n` events without labels, as bytes uint8[n, 46]."""
    events = np.zeros(n, EVENT)
    events["backend"] = 0x5500_0000_1000
    for name, column in columns.items():
        events[name] = column
    return events.view(np.uint8).reshape(n, EVENT.itemsize)


def _labelled(events: np.ndarray, prefix: str, number: np.ndarray) -> bytes:
    """Return events with the label `prefix` and eight digits of their number."""
    text = prefix.encode()
    length = len(text) + 8
    events[:, -1] = 1
    label = np.zeros((len(events), 4 + length), np.uint8)
    label[:, 0] = length
    label[:, 4 : 4 + len(text)] = np.frombuffer(text, np.uint8)
    digits = number[:, None] // 10 ** np.arange(7, -1, -1) % 10
    label[:, 4 + len(text) :] = digits + ord("0")
    return np.concatenate([events, label], axis=1).tobytes()


def _pairs(n: int, write: Callable[[bytes], Any], prefix: str, **columns: Any) -> None:
    """Write `n` operations, each a begin and an end, one after the other."""
    for first in range(0, n, MAX_AT_ONCE):
        number = np.arange(first, min(first + MAX_AT_ONCE, n))
        chosen = {
            name: np.repeat(column[number] if np.ndim(column) else column, 2)
            if np.ndim(column)
            else column
            for name, column in columns.items()
        }
        time = np.stack([1000 + number * 100, 1080 + number * 100], axis=1).ravel()
        kind = np.tile(np.array([OP_BEGIN, OP_END]), len(number))
        known = {"thread": 1, "ptr": 0x7E00, "op": MULTIPLICATION, "size": 4096}
        events = _events(2 * len(number), type=kind, time=time, **{**known, **chosen})
        label = np.repeat(number if prefix.endswith("-") else number % 256, 2)
        write(_labelled(events, prefix, label))


def _write_ggmlviz(path: Path, n: int, prefix: str = "mul ", **columns: Any) -> None:
    with path.open("wb") as file:
        file.write(b"GGMLVIZ1" + (1).to_bytes(4, "little"))
        _pairs(n, file.write, prefix, **columns)


def threads(path: Path, n: int) -> None:
    """Write one operation on each of `n` threads."""
    _write_ggmlviz(path, n, thread=np.arange(1, n + 1))


def labels(path: Path, n: int) -> None:
    """Write operations of `n` names and as many tensors on one thread."""
    _write_ggmlviz(path, n, "blk-", ptr=0x7E00_0000 + np.arange(n) * 64)


def backends(path: Path, n: int) -> None:
    """Write one operation on each of `n` backends."""
    _write_ggmlviz(path, n, backend=0x5500_0000 + np.arange(n) * 64)


def operations(path: Path, n: int) -> None:
    """Write operations of `n` op numbers."""
    _write_ggmlviz(path, n, op=np.arange(n))


def layers(path: Path, n: int) -> None:
    """Write operations of `n` layers."""
    _write_ggmlviz(path, n, "ffn_up-")


def nested(path: Path, n: int) -> None:
    """Write `n` operations that begin one within the other."""
    number = np.arange(2 * n)
    ptr = 0x7E00_0000 + np.minimum(number, 2 * n - 1 - number) * 64
    kind = np.where(number < n, OP_BEGIN, OP_END)
    _write_plain(path, number, kind, ptr)


def overlapping(path: Path, n: int) -> None:
    """Write `n` operations that all begin before the first ends."""
    number = np.arange(2 * n)
    kind = np.where(number < n, OP_BEGIN, OP_END)
    _write_plain(path, number, kind, 0x7E00_0000 + number % n * 64)


def unfinished(path: Path, n: int) -> None:
    """Write `n` operations that begin and never end."""
    number = np.arange(n)
    _write_plain(path, number, np.full(n, OP_BEGIN), 0x7E00_0000 + number * 64)


def graphs(path: Path, n: int) -> None:
    """Write `n` graphs without operations."""
    number = np.arange(2 * n)
    kind = np.where(number % 2, GRAPH_END, GRAPH_BEGIN)
    _write_plain(path, number, kind, np.full(2 * n, 0x1000))


def nested_graphs(path: Path, n: int) -> None:
    """Write `n` graphs, each within the one before."""
    number = np.arange(2 * n)
    kind = np.where(number < n, GRAPH_BEGIN, GRAPH_END)
    ptr = 0x1000 + np.minimum(number, 2 * n - 1 - number) * 64
    _write_plain(path, number, kind, ptr)


def instants(path: Path, n: int) -> None:
    """Write `n` events of kinds that are shown as markers."""
    number = np.arange(n)
    _write_plain(path, number, 8 + number % 3, np.zeros(n))


def allocations(path: Path, n: int) -> None:
    """Write `n` tensors that are allocated and stay."""
    number = np.arange(n)
    _write_plain(path, number, np.full(n, 4), 0x7E00_0000 + number * 64)


def _write_plain(
    path: Path, number: np.ndarray, kind: np.ndarray, ptr: np.ndarray
) -> None:
    """Write events without labels, a tenth of a microsecond apart."""
    with path.open("wb") as file:
        file.write(b"GGMLVIZ1" + (1).to_bytes(4, "little"))
        for first in range(0, len(number), MAX_AT_ONCE):
            part = slice(first, first + MAX_AT_ONCE)
            is_op = (kind[part] == OP_BEGIN) | (kind[part] == OP_END)
            events = _events(
                len(number[part]), type=kind[part], time=1000 + number[part] * 100,
                thread=1, ptr=ptr[part], op=np.where(is_op, MULTIPLICATION, 8),
                size=4096,
            )  # fmt: skip
            file.write(events.tobytes())


def long_names(path: Path, n: int) -> None:
    """Write `n` operations with names of 1 MiB."""
    with path.open("wb") as file:
        file.write(b"GGMLVIZ1" + (1).to_bytes(4, "little"))
        for i in range(n):
            for kind, time in ((OP_BEGIN, 0), (OP_END, 80)):
                event = _events(
                    1, type=kind, time=1000 + i * 100 + time, thread=1, ptr=64,
                    op=MULTIPLICATION, has_label=1,
                )  # fmt: skip
                file.write(event.tobytes() + LONG_NAME.to_bytes(4, "little"))
                file.write(f"{i:08}".encode().ljust(LONG_NAME, b"x"))


# -- 256-byte records --------------------------------------------------------


def _write_records(path: Path, n: int, **columns: Any) -> None:
    """Write `n` multiplications; `columns` are functions of the record's number."""
    with path.open("wb") as file:
        for first in range(0, n, MAX_AT_ONCE):
            number = np.arange(first, min(first + MAX_AT_ONCE, n))
            records = np.zeros(len(number), RECORD)
            records["timestamp_ns"] = 1000 + number * 1000
            records["layer_id"], records["thread_id"] = number % 32, 7
            records["operation_type"], records["phase"] = MULTIPLICATION, 1
            records["num_sources"] = 1
            records["dst_name"] = b"ffn_out-3"
            source = records["src"][:, 0]
            source["name"], source["size_bytes"] = b"blk.3.ffn_down.weig", 8192
            source["layer_id"], source["tensor_idx"] = number % 32, NONE_32
            source["tensor_ptr"], source["where"] = 0x7F00_0000_0000, 1 << 20
            for name, column in columns.items():
                if name in ("name", "tensor_ptr", "memory_source", "where"):
                    source[name] = column(number)
                else:
                    records[name] = column(number)
            records["src"][:, 0] = source
            file.write(records.tobytes())


def _texts(prefix: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda number: np.char.add(prefix.encode(), number.astype("S8"))


def tensors(path: Path, n: int) -> None:
    """Write reads of `n` tensors, each once."""
    _write_records(
        path, n, name=_texts("blk.3.x"), where=lambda i: i << 14,
        tensor_ptr=lambda i: 0x7F00_0000_0000 + (i << 14),
    )  # fmt: skip


def results(path: Path, n: int) -> None:
    """Write operations with `n` names of results."""
    _write_records(path, n, dst_name=_texts("node_"))


def tokens(path: Path, n: int) -> None:
    """Write `n` tokens of one operation."""
    _write_records(path, n, token_id=lambda i: i, dst_name=lambda i: b"inp_embd")


def buffers_read(path: Path, n: int) -> None:
    """Write reads of `n` buffers."""
    _write_records(
        path, n, memory_source=lambda i: 1, where=lambda i: 0x5500_0000 + i * 64
    )


def record_threads(path: Path, n: int) -> None:
    """Write records on `n` threads, at most 65,536."""
    _write_records(path, n, thread_id=lambda i: i % 65_536)


def record_layers(path: Path, n: int) -> None:
    """Write records of `n` layers, at most 65,535."""
    _write_records(path, n, layer_id=lambda i: i % 65_535)


# -- the JSON of an NPU simulator --------------------------------------------


def _write_npu(path: Path, events: Iterable[str], tail: str = "") -> None:
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write('{"version":"1.0","timeline_events":[\n')
        comma = ""
        for event in events:
            file.write(comma + event)
            comma = ",\n"
        file.write("\n]" + tail + "}\n")


def _engine(
    i: int, engine: int = 0, end: int = 0, more: str = "", tile: int = 0
) -> str:
    return (
        f'{{"type":"ENGINE_EVENT","engine":"TE","engine_id":{engine},"cmdq_id":{i},'
        f'"layer_id":"blk_3","tile_id":"t{tile}","op":"TE_GEMM_TILE",'
        f'"start_cycle":{i * 10},"end_cycle":{end or i * 10 + 8},"details":{{}}{more}}}'
    )


def engines(path: Path, n: int) -> None:
    """Write one tile on each of `n` engines."""
    _write_npu(path, (_engine(i, engine=i) for i in range(n)))


def tiles(path: Path, n: int) -> None:
    """Write tiles of `n` names on one engine."""
    _write_npu(path, (_engine(i, tile=i) for i in range(n)))


def nested_tiles(path: Path, n: int) -> None:
    """Write `n` tiles of one engine that lie one within the other."""
    _write_npu(path, (_engine(i, end=20 * n - i * 10) for i in range(n)))


def dependencies(path: Path, n: int) -> None:
    """Write tiles that each depend on the two before."""
    deps = (f',"deps":[{max(i - 1, 0)},{max(i - 2, 0)}]' for i in range(n))
    _write_npu(path, (_engine(i, more=more) for i, more in enumerate(deps)))


def npu_layers(path: Path, n: int) -> None:
    """Write tiles of `n` layers and kinds."""
    _write_npu(
        path,
        (
            _engine(i)
            .replace("blk_3", f"blk_{i}")
            .replace("TE_GEMM_TILE", f"TE_OP{i}_TILE")
            for i in range(n)
        ),
    )


def stalls(path: Path, n: int) -> None:
    """Write stalls of `n` engines, each with a reason of its own."""
    both = (
        _engine(i, engine=i) + f',\n{{"type":"STALL_EVENT","master":"TE",'
        f'"master_id":{i},"reason":"r{i}","start_cycle":{i * 10},'
        f'"end_cycle":{i * 10 + 4}}}'
        for i in range(n)
    )
    _write_npu(path, both)


def markers(path: Path, n: int) -> None:
    """Write `n` markers of as many names."""
    _write_npu(
        path,
        (
            f'{{"type":"MARKER_EVENT","name":"MARK_{i}","cycle":{i * 10}}}'
            for i in range(n)
        ),
    )


def commands(path: Path, n: int) -> None:
    """Write `n` commands that are open at the same time."""

    def event(i: int, cycle: int, what: str) -> str:
        return (
            f'{{"type":"CMD_EVENT","cycle":{cycle},"cmd_id":{i},"cmdq_id":{i},'
            f'"event":"{what}","source":"S{i}","phase":"P{i}"}}'
        )

    starts = (event(i, i * 10, "START") for i in range(n))
    ends = (event(i, (n + i) * 10, "END") for i in range(n))
    _write_npu(path, (*starts, *ends))


def npu_tokens(path: Path, n: int) -> None:
    """Write `n` tokens."""
    _write_npu(
        path,
        (
            f'{{"type":"TOKEN_EVENT","phase":"DECODE","token_index":{i},'
            f'"start_cycle":{i * 10},"end_cycle":{i * 10 + 9}}}'
            for i in range(n)
        ),
    )


def unknown_events(path: Path, n: int) -> None:
    """Write `n` events of as many kinds that no reader knows."""
    _write_npu(path, (f'{{"type":"X{i}_EVENT","cycle":{i * 10}}}' for i in range(n)))


def samples(path: Path, n: int) -> None:
    """Write `n` samples, each with a field of its own."""
    lines = ",\n".join(
        f'{{"cycle":{i * 64},"window_cycles":64,"dram_read_bytes":{i % 512},'
        f'"dram_write_bytes":128,"extra_{i}":1}}'
        for i in range(n)
    )
    tail = f',"bandwidth_samples":[{lines}]'
    _write_npu(path, (_engine(i) for i in range(2)), tail)


# -- token JSON --------------------------------------------------------------


def _entry(i: int, **more: Any) -> dict[str, Any]:
    return {
        "entry_id": i, "timestamp_ns": 10_000_000_000 + i * 1000,
        "timestamp_relative_ms": i / 1000, "token_id": 0, "layer_id": 0,
        "thread_id": 1, "phase": "PROMPT", "operation_type": "MUL_MAT",
        "dst_name": f"ffn_up-{i % 32}", "num_sources": 1,
        "sources": [
            {
                "name": "blk.0.ffn_up.weight", "tensor_ptr": hex(0x1000 + i),
                "size_bytes": 4096, "layer_id": 0, "memory_source": "DISK",
                "disk_offset": 4096,
            }
        ],
    } | more  # fmt: skip


def _write_entries(path: Path, n: int, make: Callable[[int], dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write(
            f'{{"token_id":0,"metadata":{{"total_entries":{n},"duration_ms":1,'
            '"timestamp_start_ns":10000000000,"format_version":"256-byte"},"entries":['
        )
        for i in range(n):
            file.write(",\n" * bool(i) + json.dumps(make(i)))
        file.write("]}\n")


def entry_names(path: Path, n: int) -> None:
    """Write entries with `n` names of results, ops and tensors."""

    def make(i: int) -> dict[str, Any]:
        entry = _entry(i, dst_name=f"node_{i}", operation_type=f"OP_{i}")
        entry["sources"][0] |= {"name": f"blk.{i}.w", "disk_offset": i << 12}
        return entry

    _write_entries(path, n, make)


def entry_threads(path: Path, n: int) -> None:
    """Write entries of `n` threads."""
    _write_entries(path, n, lambda i: _entry(i, thread_id=i))


def entry_sources(path: Path, n: int) -> None:
    """Write one entry that reads `n` tensors."""
    many = [_entry(i)["sources"][0] | {"name": f"blk.0.w{i}"} for i in range(n)]
    _write_entries(path, 1, lambda i: _entry(i, num_sources=n, sources=many))


def token_files(folder: Path, n: int) -> None:
    """Write a folder of `n` token files."""
    (folder / "traces").mkdir(parents=True, exist_ok=True)
    for i in range(n):
        path = folder / "traces" / f"token-{i:05}.json"
        stamp = 10_000_000_000 + i * 50_000
        _write_entries(
            path,
            2,
            lambda k, i=i, s=stamp: _entry(  # type: ignore[misc]
                k, token_id=i, timestamp_ns=s + k * 1000
            ),
        )


# -- graphs, maps, buffers ---------------------------------------------------

Edges = Iterator[tuple[int, int]]


def _write_graph(path: Path, n: int, edges: Edges) -> None:
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write('{"token_id":0,"metadata":{},"nodes":[\n')
        for i in range(n):
            node = {
                "id": f"n{i}", "address": hex(0x1000 + i * 64), "label": f"blk.{i}.x",
                "operation": "X*Y", "shape": [2, 3], "dtype": "f32",
                "layer_id": i % 32, "category": "other",
            }  # fmt: skip
            file.write(",\n" * bool(i) + json.dumps(node))
        file.write('],"edges":[\n')
        for i, (a, b) in enumerate(edges):
            edge = f'{{"source":"n{a}","target":"n{b}","label":"src 0"}}'
            file.write(",\n" * bool(i) + edge)
        file.write("]}\n")


def chain(path: Path, n: int) -> None:
    """Write a graph of `n` nodes, each reading the one before."""
    _write_graph(path, n, ((i, i + 1) for i in range(n - 1)))


def star(path: Path, n: int) -> None:
    """Write a graph of which the last node reads all others."""
    _write_graph(path, n, ((i, n - 1) for i in range(n - 1)))


def fan(path: Path, n: int) -> None:
    """Write a graph of which all nodes read the first."""
    _write_graph(path, n, ((0, i) for i in range(1, n)))


def ring(path: Path, n: int) -> None:
    """Write a graph that is one circle."""
    _write_graph(path, n, ((i, (i + 1) % n) for i in range(n)))


def ladder(path: Path, n: int) -> None:
    """Write a chain whose nodes also read the first one: long edges."""
    _write_graph(
        path, n, (e for i in range(1, n) for e in ((i - 1, i), (0, i)) if e[0] != e[1])
    )


def dense(path: Path, n: int) -> None:
    """Write a graph of `n` edges in which every node reads every earlier one."""
    side = max(int((2 * n) ** 0.5), 2)
    _write_graph(path, side, ((a, b) for b in range(side) for a in range(b)))


def dot(path: Path, n: int) -> None:
    """Write a chain as DOT."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write("digraph G {\n  newrank = true;\n")
        for i in range(n):
            file.write(
                f'  "0x{i:x}" [ style = filled; fillcolor = white; shape = record; '
                f'label="t-{i} (f32)|{i} [2, 3] | <x>X*Y"; ]\n'
            )
        for i in range(n - 1):
            file.write(
                f'  "0x{i:x}" -> "0x{i + 1:x}" [ arrowhead = vee; style = solid; '
                'label = "src 0"; ]\n'
            )
        file.write("}\n")


def memory_map(path: Path, n: int) -> None:
    """Write the map of a model of `n` tensors."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        file.write(
            f'{{"model_name":"m","total_size_bytes":{n * 1024},"metadata":{{'
            f'"n_layers":1,"n_vocab":8,"n_embd":8,"n_tensors":{n}}},"tensors":[\n'
        )
        for i in range(n):
            row = {
                "name": f"blk.{i}.ffn_up.weight", "offset_start": i * 1024,
                "offset_end": i * 1024 + 1024, "size_bytes": 1024, "shape": [256],
                "category": "ffn", "layer_id": i % 100, "component": "up",
                "component_type": "FFN",
            }  # fmt: skip
            file.write(",\n" * bool(i) + json.dumps(row))
        file.write("]}\n")


def overlapping_map(path: Path, n: int) -> None:
    """Write a map whose tensors all begin at the start of the file."""
    memory_map(path, n)
    text = path.read_text("utf-8")
    lines = text.split('"offset_start": ')
    path.write_text('"offset_start": 0, "was": '.join(lines), "utf-8")


def lives(path: Path, n: int) -> None:
    """Write `n` buffers that are allocated, then freed in the same order."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        for i in range(2 * n):
            kind = "alloc" if i < n else "dealloc"
            file.write(
                f'{{"timestamp_ms":{i}.250,"event":"{kind}","buffer_id":{i % n + 1},'
                f'"buffer_ptr":{64 * (i % n)},"size":4096,"name":"KV {i % n}",'
                '"backend":"CPU","usage":2,"layer":65535}\n'
            )


def reused(path: Path, n: int) -> None:
    """Write `n` lives of one buffer."""
    with path.open("w", encoding="utf-8", buffering=1 << 20) as file:
        for i in range(2 * n):
            kind = "dealloc" if i % 2 else "alloc"
            file.write(
                f'{{"timestamp_ms":{i}.250,"event":"{kind}","buffer_id":1,'
                f'"buffer_ptr":64,"size":{4096 + i},"name":"KV","backend":"B{i}",'
                '"usage":2,"layer":65535}\n'
            )


def routing(path: Path, n: int) -> None:
    """Write `n` choices of experts."""
    with path.open("w", encoding="ascii") as file:
        file.write("layer,expert\n")
        file.writelines(f"{i % 1000},{i * 7 % 30_000}\n" for i in range(n))


SHAPES: dict[str, Shape] = {
    "threads": Shape(".ggmlviz", 100_000, 2, threads),
    "labels": Shape(".ggmlviz", 1_000_000, 2, labels),
    "nested": Shape(".ggmlviz", 1_000_000, 2, nested),
    "engines": Shape(".npu.json", 100_000, 1, engines),
    "backends": Shape(".ggmlviz", 100_000, 2, backends),
    "operations": Shape(".ggmlviz", 100_000, 2, operations),
    "layers": Shape(".ggmlviz", 100_000, 2, layers),
    "overlapping": Shape(".ggmlviz", 100_000, 2, overlapping),
    "unfinished": Shape(".ggmlviz", 100_000, 1, unfinished),
    "graphs": Shape(".ggmlviz", 100_000, 2, graphs),
    "nested_graphs": Shape(".ggmlviz", 100_000, 2, nested_graphs),
    "instants": Shape(".ggmlviz", 100_000, 1, instants),
    "allocations": Shape(".ggmlviz", 100_000, 1, allocations),
    "long_names": Shape(".ggmlviz", 20, 2, long_names),
    "tensors": Shape(".bin", 100_000, 1, tensors),
    "results": Shape(".bin", 100_000, 1, results),
    "tokens": Shape(".bin", 100_000, 1, tokens),
    "buffers_read": Shape(".bin", 100_000, 1, buffers_read),
    "record_threads": Shape(".bin", 60_000, 1, record_threads),
    "record_layers": Shape(".bin", 60_000, 1, record_layers),
    "tiles": Shape(".npu.json", 100_000, 1, tiles),
    "nested_tiles": Shape(".npu.json", 100_000, 1, nested_tiles),
    "dependencies": Shape(".npu.json", 100_000, 1, dependencies),
    "npu_layers": Shape(".npu.json", 100_000, 1, npu_layers),
    "stalls": Shape(".npu.json", 50_000, 2, stalls),
    "markers": Shape(".npu.json", 100_000, 1, markers),
    "commands": Shape(".npu.json", 50_000, 2, commands),
    "npu_tokens": Shape(".npu.json", 100_000, 1, npu_tokens),
    "unknown_events": Shape(".npu.json", 100_000, 1, unknown_events),
    "samples": Shape(".npu.json", 100_000, 1, samples),
    "entry_names": Shape(".json", 50_000, 1, entry_names),
    "entry_threads": Shape(".json", 50_000, 1, entry_threads),
    "entry_sources": Shape(".json", 50_000, 1, entry_sources),
    "token_files": Shape("", 1_000, 2, token_files),
    "chain": Shape(".json", 50_000, 2, chain),
    "star": Shape(".json", 50_000, 2, star),
    "fan": Shape(".json", 50_000, 2, fan),
    "ring": Shape(".json", 50_000, 2, ring),
    "ladder": Shape(".json", 50_000, 3, ladder),
    "dense": Shape(".json", 100_000, 1, dense),
    "dot": Shape(".dot", 50_000, 2, dot),
    "memory_map": Shape(".json", 50_000, 1, memory_map),
    "overlapping_map": Shape(".json", 50_000, 1, overlapping_map),
    "lives": Shape(".jsonl", 50_000, 2, lives),
    "reused": Shape(".jsonl", 50_000, 2, reused),
    "routing": Shape(".csv", 100_000, 1, routing),
}
