"""A sound file of each reader that has no sample among the resources."""

import json
from collections.abc import Callable
from pathlib import Path

import ascend_files
import bench_files
import bigmoe_files
import chrome_files
import cuda_files
import gguf_files
import imatrix_files
import log_files
import op_files
import perfetto_files
import profile_files
import recordings
import rocm_files
import roofline_files
import side_files
import sqlite_files
import stack_files
import storage_files
import tensorrt_files
import token_files
from map_files import REGISTRY, STRUCTURE, document, row, table
from tensor_files import llama_trace


def sound_file(reader: str, folder: Path) -> Path:
    """Write a file for the reader class of this name into `folder`; return its path."""
    name, make = MADE[reader]
    path = folder / name
    path.write_bytes(make())
    return path


def _map() -> bytes:
    rows = [row(f"blk.{i}.ffn_up.weight", 64 + 400 * i, 400) for i in range(40)]
    return document(*rows).encode()


def _tokens() -> bytes:
    return json.dumps(token_files.document(llama_trace(1))).encode()


def _structure() -> bytes:
    rows = [f"blk.{i}.t,{64 + 400 * i},400,{i},FFN Up,1,100,0,0,0" for i in range(40)]
    return table(STRUCTURE, rows).encode()


def _registry() -> bytes:
    rows = [f"{i},blk.{i}.t,0x{4096 * (i + 1):x},{64 * i},64,{i}" for i in range(40)]
    return table(REGISTRY, rows).encode()


def _names() -> bytes:
    names = [f"blk.{i}.{w}.weight" for i in range(20) for w in ("attn_q", "ffn_up")]
    lines = "".join(f"{i} 0x{4096 + i:x} {n}\n" for i, n in enumerate(names))
    return f"# of a run\n{lines}".encode()


def _metadata() -> bytes:
    facts = {f"key {i}": {"value": i, "text": f"of {i}"} for i in range(40)}
    return json.dumps({"model": "tiny.gguf", "total_entries": 7, **facts}).encode()


def _log() -> bytes:
    return log_files.log(log_files.random_requests(1, 12), "no clock")


MADE: dict[str, tuple[str, Callable[[], bytes]]] = {
    "TraceJsonReader": ("token-00000.json", _tokens),
    "GgufReader": ("tiny.gguf", gguf_files.encode),
    "MemoryMapReader": ("memory-map.json", _map),
    "StructureCsvReader": ("structure.csv", _structure),
    "RegistryCsvReader": ("registry.csv", _registry),
    "GraphJsonReader": ("g.json", lambda: side_files.sound_graph_json().encode()),
    "GraphDotReader": ("g.dot", lambda: side_files.sound_dot().encode()),
    "BufferStatsReader": ("b.jsonl", lambda: side_files.sound_buffer_lines().encode()),
    "BufferTimelineReader": ("b.json", lambda: side_files.sound_timeline().encode()),
    "SidecarReader": (
        "run.json",
        lambda: json.dumps(recordings.packed_sidecar()).encode(),
    ),
    "NamesReader": ("tensor_names.txt", _names),
    "MetadataReader": ("trace_metadata.json", _metadata),
    "BigMoeReader": ("io.csv", lambda: bigmoe_files.io_trace(1)[0]),
    "BenchReader": ("bench.jsonl", lambda: bench_files.text("jsonl")),
    "ImatrixReader": (
        "imatrix.dat",
        lambda: imatrix_files.legacy(imatrix_files.entries()),
    ),
    "PerfReader": (
        "perf.txt",
        lambda: stack_files.perf(stack_files.samples(1, 30)),
    ),
    "FoldedReader": (
        "stacks.folded",
        lambda: stack_files.folded(stack_files.stacks(1, 90)),
    ),
    "SpeedscopeReader": ("a.speedscope.json", lambda: stack_files.speedscope(1, 30)),
    "PprofReader": (
        "cpu.prof",
        lambda: stack_files.pprof(1, 60, is_packed=False),
    ),
    "InstrumentsReader": ("tree.txt", lambda: stack_files.instruments(1, 60)),
    "SqliteReader": ("report.sqlite", lambda: sqlite_files.nsys().data),
    "MsprofReader": (
        "kernel_details.csv",
        lambda: ascend_files.kernel_details(ascend_files.kernels(1)),
    ),
    "TensorrtReader": (
        "profile.json",
        lambda: tensorrt_files.profile(tensorrt_files.layers(1)),
    ),
    "RocprofReader": (
        "results.json",
        lambda: rocm_files.document(rocm_files.process(rocm_files.program(1))),
    ),
    "ChromeReader": ("chrome.json", chrome_files.sample),
    "PerfettoReader": ("run.pftrace", perfetto_files.sample),
    "StorageReader": (
        "blkparse.txt",
        lambda: storage_files.blkparse(storage_files.random_io(1, 12)),
    ),
    "ExtentsReader": (
        "extents.txt",
        lambda: storage_files.filefrag([(i, 900 + 3 * i, 1) for i in range(40)]),
    ),
    "CudaReader": ("cuda.jsonl", lambda: cuda_files.text("hook")),
    "GgmlProfileReader": ("profile.json", lambda: profile_files.profile(1)[0]),
    "GgmlRooflineReader": ("roofline.json", lambda: roofline_files.report(1)[0]),
    "LogReader": ("server.log", _log),
    "BackendOpsReader": (
        "sched.txt",
        lambda: op_files.scheduler(op_files.graphs(1)),
    ),
    "HexagonReader": ("hex.txt", lambda: op_files.hexagon(op_files.npu_ops(1))),
    "OpenclReader": (
        "cl_profiling.csv",
        lambda: op_files.opencl(op_files.kernels(1)),
    ),
    "MoeCsvReader": ("moe.csv", lambda: side_files.sound_routing().encode()),
}
"""Reader class -> (file name, its content)."""
