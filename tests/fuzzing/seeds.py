"""Sound files of every reader, small enough for thousands of mutations a second."""

import gzip
import json
from random import Random

import ascend_files
import bench_files
import bigmoe_files
import chrome_files
import cuda_files
import ggmlviz_files as viz
import gguf_files
import imatrix_files
import log_files
import op_files
import perfetto_files
import profile_files
import rocm_files
import roofline_files
import side_samples
import sqlite_files
import stack_files
import storage_files
import tensorrt_files
from bench_files import FORMS as FORMS_OF_BENCH
from cuda_files import DIALECTS
from log_files import FORMS
from npu_files import (
    access,
    as_lines,
    command,
    document,
    engine,
    marker,
    sample,
    stall,
    token,
)
from support import ROOT
from tensor_files import LAYOUTS, buffer_event, encode, llama_pass, one_source_each

SMALL_OF_EACH = 6

Seed = tuple[str, bytes]
"""A file's name and its content."""
_SAMPLES = ROOT / "resources" / "samples"


def _rocm(n: int) -> list[tuple[str, bytes]]:
    """Return what rocprofv3 writes of `n` launches, in its forms."""
    made = rocm_files.program(1, n)
    counted = rocm_files.with_counters(made)
    return [
        ("a.json", rocm_files.document(rocm_files.process(made))),
        ("counters.json.gz", gzip.compress(rocm_files.document(counted), mtime=0)),
        ("kernels.csv", rocm_files.kernel_trace(made)),
        ("counters.csv", rocm_files.counter_collection(made)),
        ("copies.csv", rocm_files.copy_trace(made)),
        ("stats.csv", rocm_files.kernel_stats(made)),
    ]


def _ascend(n: int) -> list[tuple[str, bytes]]:
    """Return tables of Ascend's profilers of `n` kernels."""
    made = ascend_files.kernels(1, n)
    makers = (
        ascend_files.kernel_details,
        ascend_files.op_summary,
        ascend_files.task_time,
        ascend_files.op_statistic,
    )
    return [(f"{make.__name__}.csv", make(made)) for make in makers]


def _tensorrt(n: int) -> list[tuple[str, bytes]]:
    """Return trtexec's exports of `n` layers."""
    made = tensorrt_files.layers(1, n)
    return [
        ("profile.json", tensorrt_files.profile(made)),
        ("layers.json", tensorrt_files.layer_info(made)),
    ]


def seeds_of(reader_id: str) -> list[Seed]:
    """Return sound files of a built-in reader; some of them have several pages."""
    return _SEEDS[reader_id]()


def small_seeds_of(reader_id: str) -> list[Seed]:
    """Return sound files with a few rows each, in which nearly every byte matters.

    They are read in a fraction of the time, and a mutation seldom misses what counts.
    """
    random = Random(reader_id)
    small = _SMALL.get(reader_id, lambda: _thinned(random, _SEEDS[reader_id]()))
    return small()


def _thinned(random: Random, seeds: list[Seed]) -> list[Seed]:
    """Return texts with a few of their rows, or of the members of their lists."""
    made = []
    for name, data in seeds:
        for _ in range(SMALL_OF_EACH):
            if name.endswith(".json"):
                text = json.dumps(_few_of_each(random, json.loads(data))).encode()
            else:
                first, *rows = data.splitlines(keepends=True)
                keeps_last = rows[-1:] if name.endswith(".dot") else []
                text = b"".join([first, *_few(random, rows), *keeps_last])
            made.append((name, text))
    return made


def _few(random: Random, rows: list[bytes]) -> list[bytes]:
    at = random.randrange(max(len(rows) - 6, 1))
    return rows[at : at + random.randint(1, 12)]


def _few_of_each(random: Random, value: object) -> object:
    """Return a JSON value whose long lists have one to three members left."""
    if isinstance(value, dict):
        return {key: _few_of_each(random, part) for key, part in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) > 4:
        at = random.randrange(len(value) - 3)
        value = value[at : at + random.randint(1, 3)]
    return [_few_of_each(random, part) for part in value]


def reader_ids() -> tuple[str, ...]:
    """Return the ids of the readers there are seeds for."""
    return tuple(_SEEDS)


def _ggmlviz() -> list[Seed]:
    events = [
        *viz.graph(viz.T0, 2),
        *viz.graph(viz.T0 + 1000, 2, interleaved=True, backend=5, thread=2),
        viz.Event(4, viz.T0 + 2000, 1, size=64, label="blk.0.w"),
        viz.Event(5, viz.T0 + 2001, 1),
        viz.Event(77, viz.T0 + 2003),
    ]
    made = [("t.ggmlviz", viz.packed(events, layout)) for layout in viz.LAYOUT_IDS]
    return [*made, ("demo.ggmlviz", (_SAMPLES / "llama-demo.ggmlviz").read_bytes())]


def _tensor(n_records: int = 1000, n_events: int = 12) -> list[Seed]:
    records = llama_pass(10**12, n_layers=2)[:n_records]
    made = []
    for layout in LAYOUTS:
        whole = records if layout in ("256", "1024") else one_source_each(records)
        made.append(("t.bin", encode(whole, layout)[: 1 << 14]))
    events = [buffer_event(10**12 + k, k % 2, 5, 99) for k in range(n_events)]
    return [*made, ("b.bin", b"".join(events))]


def _npu() -> list[Seed]:
    events = [
        engine(100, 250, color_hint="#123456"), access(110), token(100, 300),
        stall(120, 130), command(90, "START"), command(95, "END"),
        marker(99, "M", details={"q": '\\"}'}),
        engine(260, 300, engine="DMA", deps=[1]),
    ]  # fmt: skip
    whole = document(
        *events,
        run_metadata={"run_id": "r"},
        bandwidth_samples=[sample(0), sample(64)],
        config_snapshot={"memory": {"dram_peak_bw_bytes_per_cycle": 64}},
        summary_metrics={"cycles_total": 300, "te_utilization": 0.5},
    )
    lines = as_lines({"version": "1.0"}, *events)
    return [("t.json", json.dumps(whole).encode()), ("t.jsonl", lines.encode())]


def _gguf() -> list[Seed]:
    return [
        ("m.gguf", gguf_files.encode(data_bytes=4096)),
        ("m.gguf", gguf_files.encode(version=1, big=True)),
        ("m-00001-of-00002.gguf", gguf_files.encode(alignment=64)),
    ]


def _side(reader_class: str) -> list[Seed]:
    name, make = side_samples.MADE[reader_class]
    return [(name, make())]


def _dot() -> list[Seed]:
    small = (
        'strict digraph "G" { rankdir=LR; node [shape=box]\n'
        '  "0xa" [ style = filled; label="a (f32)|0 [1, 2] | <x>X*Y"; ]\n'
        '  "0xb" [label="<x>w (q4_K)|CONST 0 [2, 1]"] // a remark\n'
        '  "0xb" -> "0xa" [label = "src 0"]; "0xa":x -> "0xa":g\n'
        "  subgraph c { x -> {y z} [label=<<i>q</i>>] /* k */ }\n}\n"
    )
    return [*_side("GraphDotReader"), ("g.dot", small.encode())]


def _logs() -> list[tuple[str, bytes]]:
    requests = log_files.random_requests(1, 3)
    forms = [(f"{i}.log", log_files.log(requests, f)) for i, f in enumerate(FORMS)]
    others = (log_files.ik_log, log_files.json_log)
    made = [(f"{i}.txt", make(requests)) for i, make in enumerate(others)]
    lists = op_files.scheduler(op_files.graphs(1, 2), clock=True)
    lists += op_files.hexagon(op_files.npu_ops(1, 4), clock=True)
    made.append(("lists.log", log_files.log(requests) + lists))
    made.append(("drafts.log", log_files.log_with_draft_sums(requests)))
    made += [("load.log", log_files.loading_log()), ("v.log", log_files.vllm_log(3))]
    return [*forms, *made, ("ollama.log", log_files.ollama_log())]


_SEEDS = {
    "ggmlviz": _ggmlviz,
    "tensor-access": _tensor,
    "npu-json": _npu,
    "trace-json": lambda: _side("TraceJsonReader"),
    "gguf": _gguf,
    "memory-map": lambda: _side("MemoryMapReader"),
    "structure-csv": lambda: _side("StructureCsvReader"),
    "registry": lambda: _side("RegistryCsvReader"),
    "tensor-names": lambda: _side("NamesReader"),
    "trace-metadata": lambda: _side("MetadataReader"),
    "graph-json": lambda: _side("GraphJsonReader"),
    "graph-dot": _dot,
    "buffer-stats": lambda: _side("BufferStatsReader"),
    "buffer-timeline": lambda: _side("BufferTimelineReader"),
    "moe-csv": lambda: _side("MoeCsvReader"),
    "chrome-json": lambda: [
        ("a.json", chrome_files.sample(1, 30)),
        ("b.json", chrome_files.text(chrome_files.others(), is_list=True, indent=1)),
        ("c.json.gz", chrome_files.packed(chrome_files.sample(2, 30))),
    ],
    "perfetto": lambda: [
        ("a.pftrace", perfetto_files.random_trace(1, 40, clock=64)[0]),
        ("b.pftrace", perfetto_files.sample(2, 40)),
        ("c.pftrace.gz", perfetto_files.packed(perfetto_files.others())),
        ("d.pftrace", perfetto_files.bundled(perfetto_files.others())),
        ("e.pftrace", perfetto_files.own_trace()),
    ],
    "cuda-calls": lambda: [
        (f"{i}.txt", cuda_files.text(d, 1, 12)) for i, d in enumerate(DIALECTS)
    ],
    "llama-log": _logs,
    "storage": lambda: list(storage_files.samples(1, 9)),
    "extent-map": lambda: [
        ("f.txt", storage_files.filefrag([(0, 90, 4), (4, 99, 2), (9, 7, 1)]))
    ],
    "ggml-profile": lambda: [
        *_side("GgmlProfileReader"),
        ("fork.json", profile_files.fork(1, 20)[0]),
    ],
    "ggml-roofline": lambda: [
        ("a.json", roofline_files.report(1, 1)[0]),
        ("b.json", roofline_files.report(2, 2)[0]),
    ],
    "perf-script": lambda: [
        ("a.txt", stack_files.perf(stack_files.samples(1, 30))),
        ("b.txt", stack_files.perf(stack_files.samples(2, 30), period=False)),
    ],
    "folded": lambda: [
        ("a.folded", stack_files.folded(stack_files.stacks(1, 40))),
        ("b.folded", b"main;work_[k] 1.5\nmain;;rest_[j] 0.25\nmain 7\n"),
    ],
    "speedscope": lambda: [
        ("a.json", stack_files.speedscope(1, 20)),
        ("b.json", stack_files.speedscope(2, 20, unit="none")),
    ],
    "pprof": lambda: [
        ("a.prof", stack_files.pprof(1, 20)),
        ("b.prof", stack_files.pprof(2, 20, is_packed=False)),
    ],
    "instruments-deep-copy": lambda: [("a.txt", stack_files.instruments(1, 30))],
    "sqlite": lambda: [
        ("nsys.sqlite", sqlite_files.nsys(1, 8).data),
        ("rocpd.db", sqlite_files.rocpd(1, 8).data),
        ("stamps.db", sqlite_files.rocpd(1, 8, stamps=True).data),
    ],
    "rocprof": lambda: _rocm(9),
    "msprof": lambda: _ascend(12),
    "tensorrt": lambda: _tensorrt(9),
    "ggml-ops": lambda: [
        ("old.txt", op_files.scheduler(op_files.graphs(1, 2))),
        ("clock.txt", op_files.scheduler(op_files.graphs(2, 2), clock=True)),
        ("vulkan.txt", op_files.vulkan(op_files.vulkan_lists(1))),
        ("first.txt", op_files.vulkan(op_files.vulkan_lists(2), old=True)),
    ],
    "ggml-hexagon": lambda: [
        ("hex.txt", op_files.hexagon(op_files.npu_ops(1), clock=True)),
        ("old.txt", op_files.hexagon(op_files.npu_ops(2), old=True)),
        (
            "batch.txt",
            op_files.hexagon(op_files.npu_ops(3, 3))
            + op_files.batch(3, [9, 4], 4284967296, 9_000_000).encode(),
        ),
    ],
    "ggml-opencl": lambda: _side("OpenclReader"),
    "bigmoe": lambda: [
        (f"{make.__name__}.csv", make(1)[0]) for make in bigmoe_files.MAKERS
    ],
    "imatrix": lambda: [
        ("m.dat", imatrix_files.legacy(imatrix_files.entries())),
        ("m.gguf", imatrix_files.gguf(imatrix_files.entries())),
    ],
    "llama-bench": lambda: [(f"b.{f}", bench_files.text(f)) for f in FORMS_OF_BENCH],
    "capture-sidecar": lambda: _side("SidecarReader"),
}
_SMALL = {
    "rocprof": lambda: _rocm(4),
    "pprof": lambda: [("b.prof", stack_files.pprof(2, 3, is_packed=False))],
    "msprof": lambda: _ascend(3),
    "tensorrt": lambda: _tensorrt(2),
    "chrome-json": lambda: [
        ("a.json", chrome_files.sample(1, 4)),
        ("c.json.gz", chrome_files.packed(chrome_files.sample(2, 4))),
    ],
    "perfetto": lambda: [
        ("a.pftrace", perfetto_files.random_trace(1, 8, clock=64)[0]),
        ("b.pftrace", perfetto_files.others()),
        ("d.pftrace", perfetto_files.bundled(perfetto_files.others())),
        ("e.pftrace", perfetto_files.own_trace()),
    ],
    "ggml-ops": lambda: [
        ("old.txt", op_files.scheduler(op_files.graphs(1, 1))),
        ("vulkan.txt", op_files.vulkan(op_files.vulkan_lists(1, 1))),
    ],
    "sqlite": lambda: [
        ("nsys.sqlite", sqlite_files.nsys(1, 2).data),
        ("rocpd.db", sqlite_files.rocpd(1, 2).data),
    ],
    "storage": lambda: list(storage_files.samples(1, 3)),
    "bigmoe": lambda: [
        (f"{make.__name__}.csv", make(2, 1)[0]) for make in bigmoe_files.MAKERS
    ],
    "imatrix": lambda: [
        ("m.dat", imatrix_files.legacy(imatrix_files.entries(2, 1, 2, 4, 3))),
        ("m.gguf", imatrix_files.gguf(imatrix_files.entries(2, 1, 2, 4, 3))),
    ],
    "ggmlviz": lambda: [seed for seed in _ggmlviz() if len(seed[1]) < 1024],
    "tensor-access": lambda: [*_tensor(3, 2), *_tensor(6, 4)],
    "gguf": lambda: [
        ("m.gguf", gguf_files.encode(data_bytes=0)),
        ("m.gguf", gguf_files.encode(version=2, data_bytes=64)),
        ("m.gguf", gguf_files.encode(version=1, big=True, data_bytes=0)),
        ("m-00001-of-00002.gguf", gguf_files.encode(alignment=64, data_bytes=0)),
    ],
}
