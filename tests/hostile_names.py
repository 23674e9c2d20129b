"""Files of every format whose names are what somebody put there to do harm."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import ascend_files
import bench_files
import bigmoe_files
import chrome_files
import cuda_files
import ggmlviz_files
import gguf_files
import imatrix_files
import log_files
import npu_files
import op_files
import perfetto_files
import profile_files
import rocm_files
import roofline_files
import side_files
import sqlite_files
import stack_files
import storage_files
import tensor_files
import tensorrt_files
import token_files
from map_files import REGISTRY, STRUCTURE, document, row

MARKER = "m"
"""Name of a picture in the working folder, which nothing may load."""
MARKUP = (
    f"<img src={MARKER}>",
    f"<img src='{MARKER}' width=1>",
    f"<b>bold</b><img src={MARKER}>",
    f"<a href={MARKER}>click</a>",
    f"<!doctype html><img src={MARKER}>",
    f"&lt;<img src={MARKER}>",
    f"<?xml version='1.0'?><img src={MARKER}>",
    f"<table background={MARKER}><tr><td>x",
    f" <p style='background-image:url({MARKER})'>x",
)
CONTROLS = (
    "\x1b]0;PWNED\x07",
    "\x1b[31mred\x1b[2J",
    "\x9b31mc1",
    "bell\x07back\b\bcr\rnl\nFAKE: good\ttab",
    "\u202egnp.exe\u2066",
    "del\x7f\x01\x02",
    "nul\u200b\u2028sep",
)
FORMULAS = ("=cmd()", "+1+1", "-2+3", "@SUM(A1)", "\t=tab()", "\r=cr()", "＝wide()")

Names = Iterator[str]


def hostile_named(folder: Path, texts: Sequence[str]) -> dict[str, Path]:
    """Write a file per format, in which the texts take turns as names.

    Return reader id -> path. The files themselves are named by the first text, as
    far as a file can be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = texts[0].replace("/", "")
    made: dict[str, Path] = {}
    for reader_id, (suffix, make) in _MADE.items():
        part = folder / reader_id
        part.mkdir()
        made[reader_id] = part / f"{stem}{suffix}"
        made[reader_id].write_bytes(make(cycle(texts)))
    return made


def _ggmlviz(names: Names) -> bytes:
    events = ggmlviz_files.run(3, 4)
    labels: dict[int, str] = {}
    named = [
        e
        if e.label is None
        else replace(e, label=labels.setdefault(e.ptr, next(names)))
        for e in events
    ]
    return ggmlviz_files.packed(named)


def _records(names: Names) -> list[tensor_files.Rec]:
    records = tensor_files.llama_trace(2, n_layers=1)
    known: dict[str, str] = {}

    def renamed(name: str) -> str:
        # What tells layers and passes stays, so that every view has something.
        return known.setdefault(name, f"{next(names)} {name}"[:100] if name else "")

    return [
        replace(
            r,
            dst=renamed(r.dst),
            sources=tuple(replace(s, name=renamed(s.name)) for s in r.sources),
        )
        for r in records
    ]


def _tensor_access(names: Names) -> bytes:
    return tensor_files.encode(_records(names), "256")


def _tokens(names: Names) -> bytes:
    document = token_files.document(_records(names))
    for entry in document["entries"]:  # type: ignore[attr-defined]
        entry["operation_type"] = f"{entry['operation_type']} {next(names)}"
        entry["phase"] = next(names) if entry["entry_id"] % 3 == 2 else entry["phase"]
    return json.dumps(document).encode()


def _npu(names: Names) -> bytes:
    events = []
    for i in range(12):
        at = 100 * i
        fields = {key: next(names) for key in ("tile_id", "op", "layer_id")}
        if i % 3 == 2:
            fields["engine"] = next(names)
        events += [
            npu_files.engine(at, at + 50, **fields, details={next(names): next(names)}),
            npu_files.access(at + 10, source_engine=next(names)),
            npu_files.token(at, at + 90, token_index=i),
            npu_files.stall(at + 20, at + 30, reason=next(names), master=next(names)),
            npu_files.command(at + 5, "START", source=next(names), phase=next(names)),
            npu_files.marker(at + 40, next(names)),
            {"type": next(names), "cycle": at},
        ]
    samples = [npu_files.sample(100 * i) for i in range(8)]
    root = npu_files.document(
        *events,
        bandwidth_samples=samples,
        model=next(names),
        config={next(names): next(names)},
    )
    return json.dumps(root).encode()


def _gguf(names: Names) -> bytes:
    tensors = [
        gguf_files.T(f"blk.0.{next(names)}.weight"),
        gguf_files.T(next(names)),
        *gguf_files.TENSORS[1:4],
    ]
    text = gguf_files.STRING
    fields = dict(gguf_files.FIELDS) | {
        "general.name": (text, next(names)),
        "general.architecture": (text, next(names)),
        "general.author": (text, next(names)),
        next(names): (text, next(names)),
    }
    return gguf_files.encode(tensors, fields)


def _map(names: Names) -> bytes:
    rows = [
        row(next(names) + str(i), 64 + 400 * i, 400, category=next(names),
            component=next(names), component_type=next(names), layer_id=i % 3)
        for i in range(20)
    ]  # fmt: skip
    return document(*rows, model_name=next(names)).encode()


def _csv(head: str, rows: Sequence[Sequence[object]]) -> bytes:
    def cell(value: object) -> str:
        return str(value).translate({ord(mark): " " for mark in ',"\r\n'})

    lines = [head, *(",".join(map(cell, row)) for row in rows)]
    return "".join(line + "\n" for line in lines).encode()


def _structure(names: Names) -> bytes:
    rows = [
        (f"blk.{i}.{next(names)}", 64 + 400 * i, 400, i, next(names), 1, 100, 0, 0, 0)
        for i in range(20)
    ]
    return _csv(STRUCTURE, rows)


def _registry(names: Names) -> bytes:
    rows = [
        (i, f"blk.{i}.{next(names)}", hex(4096 * (i + 1)), 64 * i, 64, i)
        for i in range(20)
    ]
    return _csv(REGISTRY, rows)


def _graph_json(names: Names) -> bytes:
    nodes: list[object] = [
        side_files.node(f"n{i}", f"{next(names)}-{i % 3}", operation=next(names),
                        dtype=next(names), category=next(names))
        for i in range(20)
    ]  # fmt: skip
    links = [side_files.edge(f"n{i}", f"n{i + 1}") for i in range(19)]
    return side_files.graph_text(nodes, links, title=next(names)).encode()


def _graph_dot(names: Names) -> bytes:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")

    text = side_files.sound_dot()
    for i in range(1, 40):
        text = text.replace(
            f"t-{i} (f32)|{i} [2, 3] | <x>X*Y",
            f"{quoted(next(names))}-{i} (f32)|{i} [2, 3] | <x>{quoted(next(names))}",
        )
    return text.encode()


def _buffer_stats(names: Names) -> bytes:
    return b"".join(
        json.dumps(
            {"timestamp_ms": i + 0.25, "event": "alloc", "buffer_id": i,
             "buffer_ptr": 4096 * i, "size": 1 << i, "name": next(names),
             "backend": next(names), "usage": 2, "layer": i % 3}
        ).encode() + b"\n"
        for i in range(1, 20)
    )  # fmt: skip


def _buffer_timeline(names: Names) -> bytes:
    events = [
        {"timestamp_ms": i, "event": "alloc", "buffer_id": i,
         "buffer_name": next(names), "backend": next(names), "size": 8,
         "cumulative_size": 8 * i}
        for i in range(1, 20)
    ]  # fmt: skip
    return json.dumps({"metadata": {}, "buffers": [], "timeline": events}).encode()


def _routing(names: Names) -> bytes:
    del names  # layers and experts are numbers
    return side_files.sound_routing().encode()


def _bench(names: Names) -> bytes:
    rows = [row | {"model_type": next(names)} for row in bench_files.rows(1, 6)]
    return bench_files.written(rows, "jsonl")


def _imatrix(names: Names) -> bytes:
    entries = [
        replace(entry, name=f"{entry.name}{next(names)}")
        for entry in imatrix_files.entries()
    ]
    return imatrix_files.gguf(entries, dataset=next(names))


def _bigmoe(names: Names) -> bytes:
    return bigmoe_files.compute_trace(1, names=names)[0]


def _calls(names: Names) -> bytes:
    lines = []
    for line in cuda_files.generic_hook(cuda_files.random_calls(1, 20)):
        row = json.loads(line)
        row["name"] = next(names)
        lines.append(json.dumps(row))
    for number in range(8):
        row = {"ts": 98765.5, "event_id": number, "type": next(names)}
        lines.append(json.dumps(row | {"name": next(names), "op": next(names)}))
    return "\n".join(lines).encode()


def _chrome(names: Names) -> bytes:
    return chrome_files.sample(1, 20, names)


def _perfetto(names: Names) -> bytes:
    return perfetto_files.sample(1, 40, names)


def _profile(names: Names) -> bytes:
    return profile_files.profile(1, 20, names=names)[0]


def _roofline(names: Names) -> bytes:
    return roofline_files.report(1, 2, names=names)[0]


def _sqlite(names: Names) -> bytes:
    return sqlite_files.nsys(1, 20, names=names).data


def _rocm(names: Names) -> bytes:
    made = rocm_files.program(1, 20, names=names)
    return rocm_files.document(rocm_files.process(made))


def _ascend(names: Names) -> bytes:
    return ascend_files.kernel_details(ascend_files.kernels(1, 20, names=names))


def _perf(names: Names) -> bytes:
    return stack_files.perf(stack_files.samples(1, 20, _one_line(names)))


def _folded(names: Names) -> bytes:
    text = (name.replace(";", ",") for name in _one_line(names))
    return stack_files.folded(stack_files.stacks(1, 20, text))


def _speedscope(names: Names) -> bytes:
    return stack_files.speedscope(1, 20, names)


def _pprof(names: Names) -> bytes:
    return stack_files.pprof(1, 20, names)


def _instruments(names: Names) -> bytes:
    return stack_files.instruments(1, 20, _one_line(names))


def _one_line(names: Names) -> Names:
    """Return names that fit a field of a line of text."""
    return (" ".join(name.split()) or "-" for name in names)


def _tensorrt(names: Names) -> bytes:
    return tensorrt_files.layer_info(tensorrt_files.layers(1, 20, names=names))


def _ops(names: Names) -> bytes:
    # Names of the scheduler are 20 characters long; those of a logger are whole.
    lists = op_files.vulkan_lists(1, 2, names=names)
    graphs = op_files.graphs(1, 2, names=names)
    return op_files.vulkan(lists) + op_files.scheduler(graphs)


def _hexagon(names: Names) -> bytes:
    return op_files.hexagon(op_files.npu_ops(1, names=names))


def _opencl(names: Names) -> bytes:
    plain = (name.replace(",", " ") for name in names)
    return op_files.opencl(op_files.kernels(1, 20, names=plain))


def _storage(names: Names) -> bytes:
    reads = [
        replace(read, path=f"/{next(names)}".replace(">", ")"))
        for read in storage_files.random_reads(1, 20)
    ]
    return storage_files.strace(reads)


def _extents(names: Names) -> bytes:
    maps = (storage_files.filefrag([(0, 9, 4)], path=f"/{next(names)}") for _ in "abcd")
    return b"".join(maps)


def _log(names: Names) -> bytes:
    lines = log_files.log(log_files.random_requests(1, 6)).decode().split("\n")
    lines.insert(6, f"0.00.001.000 W srv load_model: {next(names)}")
    lines.insert(7, f"srv load_model: loading model '{next(names)}'")
    lines.insert(8, f"  - GPU{next(names)} : {next(names)} (9 MiB, 8 MiB free)")
    return "\n".join(lines).encode()


_MADE: dict[str, tuple[str, Callable[[Names], bytes]]] = {
    "ggmlviz": (".ggmlviz", _ggmlviz),
    "tensor-access": (".bin", _tensor_access),
    "npu-json": (".json", _npu),
    "trace-json": (".json", _tokens),
    "gguf": (".gguf", _gguf),
    "memory-map": (".json", _map),
    "structure-csv": (".csv", _structure),
    "registry": (".csv", _registry),
    "graph-json": (".json", _graph_json),
    "graph-dot": (".dot", _graph_dot),
    "buffer-stats": (".jsonl", _buffer_stats),
    "buffer-timeline": (".json", _buffer_timeline),
    "moe-csv": (".csv", _routing),
    "chrome-json": (".json", _chrome),
    "perfetto": (".pftrace", _perfetto),
    "cuda-calls": (".jsonl", _calls),
    "llama-log": (".log", _log),
    "storage": (".txt", _storage),
    "extent-map": (".txt", _extents),
    "ggml-profile": (".json", _profile),
    "ggml-roofline": (".json", _roofline),
    "sqlite": (".sqlite", _sqlite),
    "rocprof": (".json", _rocm),
    "msprof": (".csv", _ascend),
    "perf-script": (".txt", _perf),
    "folded": (".folded", _folded),
    "speedscope": (".json", _speedscope),
    "pprof": (".prof", _pprof),
    "instruments-deep-copy": (".txt", _instruments),
    "tensorrt": (".json", _tensorrt),
    "ggml-ops": (".txt", _ops),
    "ggml-hexagon": (".txt", _hexagon),
    "ggml-opencl": (".csv", _opencl),
    "bigmoe": (".csv", _bigmoe),
    "imatrix": (".gguf", _imatrix),
    "llama-bench": (".jsonl", _bench),
}
READERS = tuple(_MADE)
"""Ids of the readers there are such files for."""

__all__ = ["CONTROLS", "FORMULAS", "MARKER", "MARKUP", "READERS", "hostile_named"]
